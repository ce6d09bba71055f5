//! Slices of keys and values as their bits.
use super::{Bits, BitsOf, Key, Value};
use crate::device::memory::collect;
use crate::device::{Device, Staged};
use crate::error::{Result, count32};
use crate::parallel::SMALL_PIECE;
use std::borrow::Cow;

/// Returns the bits of a key, or those filled up to 128.
#[inline(always)]
pub(crate) fn bits_of_key<K: Key, B: Bits>(key: K) -> B {
    B::of_packed(key.canonical().pack())
}
/// Returns the bits of a value.
#[inline(always)]
pub(crate) fn bits_of_value<V: Value>(value: V) -> BitsOf<V> {
    BitsOf::<V>::of_packed(value.pack())
}
/// Returns the bits of keys, or those filled up to 128: those in memory, or of new memory.
///
/// Errors: more keys than 32-bit indices can address, before anything is allocated; out of memory.
pub(crate) fn key_bits<'a, K: Key, B: Bits>(
    device: &Device,
    keys: &'a [K],
) -> Result<Cow<'a, [B]>> {
    count32("keys", keys.len())?;
    if K::IS_CANONICAL
        && let Some(bits) = in_memory(keys)
    {
        return Ok(Cow::Borrowed(bits));
    }
    converted(device, keys, bits_of_key).map(Cow::Owned)
}
/// Returns numbers that compare as keys do, of the size of their bits: those in memory, or in new
/// memory. Errors: as [`key_bits`].
pub(crate) fn ordered_bits<'a, K: Key>(
    device: &Device,
    keys: &'a [K],
) -> Result<Cow<'a, [BitsOf<K>]>> {
    if K::IS_ORDERED {
        return key_bits(device, keys);
    }
    count32("keys", keys.len())?;
    converted(device, keys, |key| BitsOf::<K>::of_packed(key.ordered())).map(Cow::Owned)
}
/// Returns the bits of values: those in memory, or of new memory. Errors: as [`key_bits`].
pub(crate) fn value_bits<'a, V: Value>(
    device: &Device,
    values: &'a [V],
) -> Result<Cow<'a, [BitsOf<V>]>> {
    count32("values", values.len())?;
    match in_memory(values) {
        Some(bits) => Ok(Cow::Borrowed(bits)),
        None => converted(device, values, bits_of_value).map(Cow::Owned),
    }
}
/// Makes the bits of keys readable by a device. Errors: as [`key_bits`].
pub(crate) fn stage_keys<'a, K: Key, B: Bits>(
    device: &Device,
    keys: &'a [K],
) -> Result<Staged<'a, B>> {
    Staged::new(device, key_bits(device, keys)?)
}
/// Makes keys as [ordered numbers](ordered_bits) readable by a device. Errors: as [`key_bits`].
pub(crate) fn stage_ordered<'a, K: Key>(
    device: &Device,
    keys: &'a [K],
) -> Result<Staged<'a, BitsOf<K>>> {
    Staged::new(device, ordered_bits(device, keys)?)
}
/// Makes the bits of values readable by a device. Errors: as [`key_bits`].
pub(crate) fn stage_values<'a, V: Value>(
    device: &Device,
    values: &'a [V],
) -> Result<Staged<'a, BitsOf<V>>> {
    Staged::new(device, value_bits(device, values)?)
}
/// Returns a slice as the bits of its elements, if these are what the memory holds.
fn in_memory<T: Value, B: Bits>(all: &[T]) -> Option<&[B]> {
    let is_aligned = all.as_ptr().cast::<B>().is_aligned();
    // SAFETY: the same bytes, all of them initialised, as the implementation of `Value` guarantees,
    // and any are valid bits; sizes are equal, and the address is aligned.
    (is_bits::<T, B>() && is_aligned)
        .then(|| unsafe { std::slice::from_raw_parts(all.as_ptr().cast(), all.len()) })
}
fn converted<T: Copy + Sync, B: Send>(
    device: &Device,
    all: &[T],
    convert: impl Fn(T) -> B + Sync,
) -> Result<Vec<B>> {
    collect(all.len(), |to| {
        device.fill(to, SMALL_PIECE, &|start, part| {
            part.iter_mut().zip(&all[start..]).for_each(|(to, &from)| _ = to.write(convert(from)));
            Ok(())
        })
    })
}

/// Whether an array of `T` is one of these bits.
const fn is_bits<T: Value, B>() -> bool {
    T::IN_MEMORY && size_of::<T>() == size_of::<B>()
}
