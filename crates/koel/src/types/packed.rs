//! Views of keys and values as the bits that tables store.
//!
//! Elements that are these bits already are used where they are. Others are converted into memory
//! of the call, by one pass over them: floats as keys, keys in order, elements of fewer bytes than
//! their bits, and memory that is not aligned as bits are.
use super::{Bits, BitsOf, DeviceKey, DeviceValue, Value};
use crate::device::{Apart, Buffer, Plain, Stream, View, ViewMut, check_device};
use crate::error::{Result, count32};
use crate::parallel;
use koel_kernels::packed::{Packing, TILE, change, convert, narrow, widen};

/// Elements per task on a CPU.
const CHUNK: usize = 1 << 14;

/// The numbers that a type of keys in buffers consists of.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    bytes: u32,
    /// What makes such numbers compare as numbers without a sign do.
    order: u32,
}
impl Numbers {
    /// Returns those of one number of type `T`, without a sign.
    pub(super) const fn unsigned<T>() -> Numbers {
        Numbers { bytes: size_of::<T>() as u32, order: 0 }
    }
    /// Returns those of one number of type `T`, with a sign.
    pub(super) const fn signed<T>() -> Numbers {
        Numbers { order: change::SIGNED, ..Numbers::unsigned::<T>() }
    }
    /// Returns those of one float of type `T`.
    pub(super) const fn floats<T>() -> Numbers {
        Numbers { order: change::FLOATS, ..Numbers::unsigned::<T>() }
    }
}
/// How elements become bits, and back.
#[derive(Clone, Copy)]
struct Conversion<T> {
    name: &'static str,
    packing: Packing,
    pack: fn(T) -> u128,
    unpack: fn(u128) -> T,
}
impl<T: Value + Plain> Conversion<T> {
    /// Packed as they are.
    fn of_values() -> Conversion<T> {
        const { assert!(T::IN_MEMORY, "these elements are not their bits in memory") };
        let size = size_of::<T>() as u32;
        let packing = Packing { size, number: size, count: 1, changes: 0 };
        Conversion { name: "values", packing, pack: T::pack, unpack: T::unpack }
    }
}
impl<K: DeviceKey> Conversion<K> {
    fn consist_of(&mut self, numbers: Numbers) {
        self.packing.number = numbers.bytes;
        self.packing.count = self.packing.size / numbers.bytes;
    }
    /// As canonical keys.
    fn of_keys() -> Conversion<K> {
        const { assert!(K::IS_CANONICAL || K::NUMBERS.is_some(), "no way to canonical keys") };
        let mut keys = Conversion { name: "keys", ..Conversion::of_values() };
        if let (false, Some(floats)) = (K::IS_CANONICAL, K::NUMBERS) {
            keys.consist_of(floats);
            keys.packing.changes = change::CANONICAL;
            keys.pack = |key: K| key.canonical().pack();
        }
        keys
    }
    /// As numbers that compare as the keys do.
    fn of_order() -> Conversion<K> {
        const { assert!(K::IS_ORDERED || K::NUMBERS.is_some(), "no way to keys in order") };
        let mut keys = Conversion::of_keys();
        if let (false, Some(numbers)) = (K::IS_ORDERED, K::NUMBERS) {
            keys.consist_of(numbers);
            let reversed = if keys.packing.count > 1 { change::REVERSED } else { 0 };
            keys.packing.changes |= numbers.order | reversed;
            (keys.pack, keys.unpack) = (K::ordered, K::of_ordered);
        }
        keys
    }
}

/// Elements of a view as bits.
pub(crate) enum Packed<'a, B> {
    /// The view holds them.
    InPlace(View<'a, B>),
    /// Converted.
    Own(Buffer<B>),
}
impl<B: Plain> Packed<'_, B> {
    pub(crate) fn view(&self) -> View<'_, B> {
        match self {
            Packed::InPlace(view) => *view,
            Packed::Own(buffer) => buffer.view(),
        }
    }
}
/// Returns the bits of canonical keys, or those filled up to `B`. Does not wait.
///
/// Errors: of a conversion, another device, more elements than 32-bit indices can address, out of
/// memory, a stream that is being captured.
pub(crate) fn keys_on<'a, K: DeviceKey, B: Bits>(
    stream: &Stream,
    keys: View<'a, K>,
) -> Result<Packed<'a, B>> {
    Conversion::of_keys().packed(stream, keys)
}
/// Returns numbers that compare as keys do. Otherwise as [`keys_on`].
pub(crate) fn ordered_on<'a, K: DeviceKey>(
    stream: &Stream,
    keys: View<'a, K>,
) -> Result<Packed<'a, BitsOf<K>>> {
    Conversion::of_order().packed(stream, keys)
}
/// Returns the bits of values. Otherwise as [`keys_on`].
pub(crate) fn values_on<'a, V: DeviceValue>(
    stream: &Stream,
    values: View<'a, V>,
) -> Result<Packed<'a, BitsOf<V>>> {
    Conversion::of_values().packed(stream, values)
}
/// Calls `write` with a view of keys or values as bits, and converts back what it has written: all
/// of them. Errors: as [`keys_on`].
pub(crate) fn write_bits<T: Value + Plain, B: Bits, R>(
    stream: &Stream,
    to: ViewMut<'_, T>,
    write: impl FnOnce(ViewMut<'_, B>) -> Result<R>,
) -> Result<R> {
    Conversion::of_values().written(stream, to, true, write)
}
/// Does the same if `write` may write only some: others stay as they are, or become 0 if there is a
/// conversion.
pub(crate) fn write_some<T: Value + Plain, B: Bits, R>(
    stream: &Stream,
    to: ViewMut<'_, T>,
    write: impl FnOnce(ViewMut<'_, B>) -> Result<R>,
) -> Result<R> {
    Conversion::of_values().written(stream, to, false, write)
}
/// Returns the keys of numbers that compare as they do: where these are, or in new memory.
pub(crate) fn keys_of_ordered<K: DeviceKey>(
    stream: &Stream,
    numbers: Buffer<BitsOf<K>>,
) -> Result<Buffer<K>> {
    let conversion = Conversion::<K>::of_order();
    if conversion.packing.changes == 0 && size_of::<K>() == size_of::<BitsOf<K>>() {
        return numbers.cast();
    }
    let mut keys = stream.device().alloc(numbers.len())?;
    conversion.unpack(stream, numbers.view(), keys.view_mut())?;
    Ok(keys)
}
/// As [`write_bits`], with keys as numbers that compare as they do.
pub(crate) fn write_ordered<K: DeviceKey, R>(
    stream: &Stream,
    to: ViewMut<'_, K>,
    write: impl FnOnce(ViewMut<'_, BitsOf<K>>) -> Result<R>,
) -> Result<R> {
    Conversion::of_order().written(stream, to, true, write)
}
impl<T: Value + Plain> Conversion<T> {
    fn packed<'a, B: Bits>(&self, stream: &Stream, from: View<'a, T>) -> Result<Packed<'a, B>> {
        let Conversion { name, packing, pack, .. } = *self;
        let whole = from.cast::<B>().ok();
        if let Some(bits) = whole
            && packing.changes == 0
        {
            return Ok(Packed::InPlace(bits));
        }
        let _apart = Apart::begin();
        check_device(name, from.device(), stream.device())?;
        let (device, n) = (stream.device(), count32(name, from.len())?);
        let mut own = device.alloc::<B>(from.len())?;
        let (bytes, mut to) = (from.bytes().arg(name, stream)?, own.view_mut());
        let (bits, blocks) = (to.arg("bits", stream)?, n.div_ceil(TILE));
        if !device.runs_kernels() {
            let (from, to) = (from.elements(name)?, to.elements("bits")?);
            let parts = to.chunks_mut(CHUNK).zip(from.chunks(CHUNK));
            device.install(|| {
                parallel::each(parts, |_, (to, from)| {
                    to.iter_mut().zip(from).for_each(|(to, &from)| *to = B::of_packed(pack(from)));
                })
            });
        } else if let Some(whole) = whole {
            let from = whole.arg(name, stream)?;
            // SAFETY: `n` elements that are as large as bits.
            unsafe { convert::launch(stream, blocks, n, packing, from, bits) }?;
        } else {
            // SAFETY: `n` elements of this size, which is at most that of their bits.
            unsafe { widen::launch(stream, blocks, n, packing, bytes, bits) }?;
        }
        Ok(Packed::Own(own))
    }
    fn written<B: Bits, R>(
        &self,
        stream: &Stream,
        to: ViewMut<'_, T>,
        are_all: bool,
        write: impl FnOnce(ViewMut<'_, B>) -> Result<R>,
    ) -> Result<R> {
        if self.packing.changes == 0 && to.view().cast::<B>().is_ok() {
            return write(to.cast()?);
        }
        check_device(self.name, to.device(), stream.device())?;
        count32(self.name, to.len())?;
        let mut bits = stream.device().alloc(to.len())?;
        if !are_all {
            bits.view_mut().fill_bytes(0, stream)?;
        }
        let written = write(bits.view_mut())?;
        self.unpack(stream, bits.view(), to)?;
        Ok(written)
    }
    /// Writes the elements of bits.
    fn unpack<B: Bits>(
        &self,
        stream: &Stream,
        bits: View<'_, B>,
        mut to: ViewMut<'_, T>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        let (Conversion { name, packing, unpack, .. }, n) = (*self, to.len() as u32);
        let from = bits.arg("bits", stream)?;
        let bytes = to.reborrow().into_bytes().arg(name, stream)?;
        if stream.device().runs_kernels() {
            // SAFETY: `n` elements of this size, and their bits.
            unsafe { narrow::launch(stream, n.div_ceil(TILE), n, packing, from, bytes) }?;
        } else {
            let (bits, to) = (bits.elements("bits")?, to.elements(name)?);
            let parts = to.chunks_mut(CHUNK).zip(bits.chunks(CHUNK));
            stream.device().install(|| {
                parallel::each(parts, |_, (to, bits)| {
                    to.iter_mut().zip(bits).for_each(|(to, &bits)| *to = unpack(bits.into()));
                })
            });
        }
        Ok(())
    }
}
