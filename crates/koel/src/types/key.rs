//! What a key is: see [`Key`].
use super::{Times, TotalF32, TotalF64, Value, Width};
use crate::device::Plain;
use std::net::Ipv4Addr;

/// Types of keys: see [the table](crate::types). Two keys are the same if their
/// [canonical](Self::canonical) forms have the same bits.
///
/// ```
/// let device = koel::Device::cpu()?;
/// let map = koel::Map::build(&device, &[(-1i16, 'a'), (2, 'b')], &[10, 20])?;
/// assert_eq!(map.get(&[(2, 'b'), (2, 'c')])?, [Some(20), None]);
/// // Floats: -0.0 and 0.0 are one key, and all NaN are one key.
/// let set = koel::Set::build(&device, &[0.0, -0.0, f64::NAN, -f64::NAN])?;
/// assert_eq!(set.len()?, 2);
/// # Ok::<(), koel::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key of a koel table",
    label = "not a key of at most 8 bytes",
    note = "keys are integers, floats, `bool`, `char`, and tuples and arrays of these of at most 8 \
            bytes; `#[derive(koel::Key)]` makes a struct of such fields one; `koel::keys128` has \
            tables for `u128` keys"
)]
pub trait Key: Value {
    /// Whether every value is its canonical form.
    const IS_CANONICAL: bool = true;
    /// Returns the form in which equal keys have the same bits.
    #[inline(always)]
    fn canonical(self) -> Self {
        self
    }
}
/// Key types that buffers hold as tables store them: 4 or 8 bytes, without conversion.
#[diagnostic::on_unimplemented(
    message = "buffers of `{Self}` are not what tables store as keys",
    label = "not 4 or 8 bytes that are stored as they are",
    note = "operations on buffers take keys of 4 or 8 bytes that need no conversion, such as \
            `u32`, `i64` or `[u32; 2]`; operations on slices take every `koel::Key`"
)]
pub trait DeviceKey: Key + Plain {}

/// Bits that tables store for a key or value.
pub type BitsOf<T> = <<T as Value>::Width as Width>::Bits;

macro_rules! keys {
    ($($type:ty)+) => {
        $(impl Key for $type {})+
    };
}
keys! { u8 i8 u16 i16 u32 i32 u64 i64 usize isize bool char TotalF32 TotalF64 Ipv4Addr }

macro_rules! in_buffers {
    ($($type:ty)+) => {
        $(impl DeviceKey for $type {})+
    };
}
in_buffers! {
    u32 i32 u64 i64 usize isize TotalF32 TotalF64
    [u8; 4] [i8; 4] [u16; 2] [i16; 2] [u8; 8] [i8; 8] [u16; 4] [i16; 4] [u32; 2] [i32; 2]
}

impl<T: Key, const N: usize> Key for [T; N]
where
    T::Width: Times<N>,
{
    const IS_CANONICAL: bool = T::IS_CANONICAL;
    #[inline(always)]
    fn canonical(self) -> Self {
        self.map(T::canonical)
    }
}
impl<A: Key> Key for (A,) {
    const IS_CANONICAL: bool = A::IS_CANONICAL;
    #[inline(always)]
    fn canonical(self) -> Self {
        (self.0.canonical(),)
    }
}
