//! What a key is: see [`Key`].
use super::value::bits;
use super::{DeviceValue, Numbers, Times, TotalF32, TotalF64, Value, Width};
use crate::device::Plain;
use koel_kernels::fold::Form;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

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
    label = "not a key of at most 16 bytes",
    note = "keys are integers, floats, `bool`, `char`, and tuples and arrays of these of at most \
            16 bytes; `#[derive(koel::Key)]` makes a struct of such fields one; strings and \
            other keys of any number of bytes are those of `koel::StringMap`, `StringSet` and \
            `StringIndex`"
)]
pub trait Key: Value {
    /// Whether every value is its canonical form.
    const IS_CANONICAL: bool = true;
    /// Returns the form in which equal keys have the same bits.
    #[inline(always)]
    fn canonical(self) -> Self {
        self
    }
    /// Whether packed canonical keys compare as numbers as the keys do.
    const IS_ORDERED: bool;
    /// Returns a number below 2^(8 [`BYTES`](Width::BYTES)) that compares with those of others as
    /// the keys do: numbers by value, NaN last; fields of tuples, arrays and structs one after the
    /// other.
    fn ordered(self) -> u128;
    /// Returns the key of such a number. Ignores higher bits.
    fn of_ordered(number: u128) -> Self;
}
/// Key types that buffers hold: numbers, and arrays of numbers, of at most 16 bytes. Those that are
/// their bits are used where they are; others, such as floats and elements of 1 or 2 bytes, are
/// [converted](crate::types#conversion) by one pass.
#[diagnostic::on_unimplemented(
    message = "buffers of `{Self}` cannot be keys",
    label = "not numbers whose bytes are those of the key",
    note = "operations on buffers take integers, floats and arrays of these as keys, such as \
            `u32`, `f64` or `[u16; 3]`; operations on slices take every `koel::Key`"
)]
pub trait DeviceKey: Key + Plain {
    /// The numbers in a key. Without them, keys must be canonical, and have no order in buffers
    /// unless their bits have it.
    #[doc(hidden)]
    const NUMBERS: Option<Numbers> = None;
}

/// Bits that tables store for a key or value.
pub type BitsOf<T> = <<T as Value>::Width as Width>::Bits;

/// Keys that are numbers without a sign.
macro_rules! unsigned {
    ($($type:ty)+) => {
        $(impl Key for $type {
            const IS_ORDERED: bool = true;
            #[inline(always)]
            fn ordered(self) -> u128 {
                self.pack()
            }
            #[inline(always)]
            fn of_ordered(number: u128) -> $type {
                <$type>::unpack(number)
            }
        })+
    };
}
unsigned! { u8 u16 u32 u64 u128 usize bool char Ipv4Addr Ipv6Addr Duration }
#[cfg(feature = "uuid")]
unsigned! { uuid::Uuid }

/// Keys with a sign: negative ones come first.
macro_rules! signed {
    ($($type:ty)+) => {
        $(impl Key for $type {
            const IS_ORDERED: bool = false;
            #[inline(always)]
            fn ordered(self) -> u128 {
                Form::signed(bits::<$type>()).ordered(self.pack() as u64).into()
            }
            #[inline(always)]
            fn of_ordered(number: u128) -> $type {
                <$type>::unpack(Form::signed(bits::<$type>()).unordered(number as u64).into())
            }
        })+
    };
}
signed! { i8 i16 i32 i64 isize }
impl Key for i128 {
    const IS_ORDERED: bool = false;
    #[inline(always)]
    fn ordered(self) -> u128 {
        self as u128 ^ 1 << 127
    }
    #[inline(always)]
    fn of_ordered(number: u128) -> i128 {
        (number ^ 1 << 127) as i128
    }
}

/// Keys, and values, that buffers hold: one number.
macro_rules! in_buffers {
    ($($numbers:ident: $($type:ty)+;)+) => {
        $($(
            impl DeviceKey for $type {
                const NUMBERS: Option<Numbers> = Some(Numbers::$numbers::<$type>());
            }
            impl DeviceValue for $type {}
        )+)+
    };
}
in_buffers! {
    unsigned: u8 u16 u32 u64 u128 usize;
    signed: i8 i16 i32 i64 i128 isize;
    floats: f32 f64 TotalF32 TotalF64;
}
impl<T: DeviceKey, const N: usize> DeviceKey for [T; N]
where
    [T; N]: Key + Plain,
{
    const NUMBERS: Option<Numbers> = T::NUMBERS;
}
impl<T: DeviceValue, const N: usize> DeviceValue for [T; N] where [T; N]: Value + Plain {}

impl<T: Key, const N: usize> Key for [T; N]
where
    T::Width: Times<N>,
{
    const IS_CANONICAL: bool = T::IS_CANONICAL;
    #[inline(always)]
    fn canonical(self) -> Self {
        self.map(T::canonical)
    }
    const IS_ORDERED: bool = T::IS_ORDERED && N <= 1;
    #[inline(always)]
    fn ordered(self) -> u128 {
        self.into_iter().fold(0, |before, element| behind::<T>(before) | element.ordered())
    }
    #[inline(always)]
    fn of_ordered(number: u128) -> [T; N] {
        std::array::from_fn(|i| T::of_ordered(number >> (bits::<T>() * (N - 1 - i) as u32)))
    }
}
/// Makes room for a `T` below a number. A `T` of 128 bits has nothing before it.
#[inline(always)]
fn behind<T: Value>(number: u128) -> u128 {
    number.unbounded_shl(bits::<T>())
}
impl<A: Key> Key for (A,) {
    const IS_CANONICAL: bool = A::IS_CANONICAL;
    #[inline(always)]
    fn canonical(self) -> Self {
        (self.0.canonical(),)
    }
    const IS_ORDERED: bool = A::IS_ORDERED;
    #[inline(always)]
    fn ordered(self) -> u128 {
        self.0.ordered()
    }
    #[inline(always)]
    fn of_ordered(number: u128) -> (A,) {
        (A::of_ordered(number),)
    }
}
