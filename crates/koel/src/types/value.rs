//! What a value is: see [`Value`].
use super::{Key, Plus, Times, TotalF32, TotalF64, Width};
use crate::device::Plain;
use std::mem::offset_of;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;
#[cfg(feature = "uuid")]
use uuid::Uuid;

/// Types of values: see [the table](crate::types).
///
/// ```
/// let device = koel::Device::cpu()?;
/// let map = koel::Map::build(&device, &[1, 2], &[0.5f32, -0.0])?;
/// assert_eq!(map.get(&[1])?, [Some(0.5)]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Safety
/// If [`IN_MEMORY`](Self::IN_MEMORY) is true, the type has as many bytes as its width, all of them
/// initialised, and they are those of [`pack`](Self::pack) in the order of this machine.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a value of a koel table",
    label = "not a value of at most 16 bytes",
    note = "values are integers, floats, `bool`, `char`, and tuples and arrays of these of at most \
            16 bytes; `#[derive(koel::Value)]` makes a struct of such fields one; strings and \
            other values of any number of bytes are those of `koel::MapToStrings`"
)]
pub unsafe trait Value: Copy + Send + Sync + 'static {
    /// Number of bytes, packed.
    type Width: Width;
    /// Whether a value in memory is its packed bytes.
    const IN_MEMORY: bool;
    /// Whether tables add values of this type: see [`Addable`].
    const ADDS: bool = false;
    /// Returns the packed bytes of the value: a number below 2^(8 [`BYTES`](Width::BYTES)).
    fn pack(self) -> u128;
    /// Returns the value of packed bytes. Ignores higher bits.
    fn unpack(bytes: u128) -> Self;
    /// Appends the type's description in files, such as `(i16, f32)`. Structs are tuples of their
    /// fields: files do not name them.
    fn describe(to: &mut String);
}
/// Value types that buffers hold: numbers, and arrays of numbers, of at most 16 bytes. Those of 4,
/// 8 or 16 bytes are used where they are; others are [converted](crate::types#conversion) by one
/// pass.
#[diagnostic::on_unimplemented(
    message = "buffers of `{Self}` cannot be values",
    label = "not numbers whose bytes are those of the value",
    note = "operations on buffers take integers, floats and arrays of these as values, such as \
            `u8`, `i64`, `f32` or `[f32; 3]`; operations on slices take every `koel::Value`"
)]
pub trait DeviceValue: Value + Plain {}
/// Value types that [`insert_or_add`](crate::Map::insert_or_add) adds: integers of up to 64
/// bits, modulo 2^bits.
#[diagnostic::on_unimplemented(
    message = "tables do not add values of type `{Self}`",
    label = "not an integer of at most 64 bits",
    note = "`insert_or_add` adds integers of at most 64 bits, modulo a power of two"
)]
pub trait Addable: Value {}

macro_rules! integers {
    ($($type:ty: $unsigned:ty, $bytes:literal, $name:literal;)+) => {
        $(
            // SAFETY: integers have no padding.
            unsafe impl Value for $type {
                type Width = super::Bytes<$bytes>;
                const IN_MEMORY: bool = size_of::<$type>() == $bytes;
                const ADDS: bool = $bytes <= 8;
                #[inline(always)]
                fn pack(self) -> u128 {
                    self as $unsigned as u128
                }
                #[inline(always)]
                fn unpack(bytes: u128) -> $type {
                    bytes as $type
                }
                fn describe(to: &mut String) {
                    to.push_str($name);
                }
            }
        )+
    };
}
integers! {
    u8: u8, 1, "u8"; i8: u8, 1, "i8";
    u16: u16, 2, "u16"; i16: u16, 2, "i16";
    u32: u32, 4, "u32"; i32: u32, 4, "i32";
    u64: u64, 8, "u64"; i64: u64, 8, "i64";
    usize: u64, 8, "u64"; isize: u64, 8, "i64";
    u128: u128, 16, "u128"; i128: u128, 16, "i128";
}
macro_rules! addable {
    ($($type:ty)+) => {
        $(impl Addable for $type {})+
    };
}
addable! { u8 i8 u16 i16 u32 i32 u64 i64 usize isize }

/// Implements [`Value`] for types that are a number.
macro_rules! numbers {
    ($(
        $(#[$when:meta])* $type:ty: $bytes:literal, $in_memory:expr, $pack:expr, $unpack:expr;
    )+) => {
        $(
            $(#[$when])*
            // SAFETY: their memory is the number, if it is said to be.
            unsafe impl Value for $type {
                type Width = super::Bytes<$bytes>;
                const IN_MEMORY: bool = $in_memory;
                #[inline(always)]
                fn pack(self) -> u128 {
                    let pack: fn($type) -> u128 = $pack;
                    pack(self)
                }
                #[inline(always)]
                fn unpack(bytes: u128) -> $type {
                    let unpack: fn(u128) -> $type = $unpack;
                    unpack(bytes)
                }
                fn describe(to: &mut String) {
                    to.push_str(stringify!($type));
                }
            }
        )+
    };
}
numbers! {
    bool: 1, true, |value| value as u128, |bytes| bytes & 1 != 0;
    char: 4, true, |value| value as u128,
        |bytes| char::from_u32(bytes as u32).unwrap_or(char::REPLACEMENT_CHARACTER);
    f32: 4, true, |value| f32::to_bits(value).into(), |bytes| f32::from_bits(bytes as u32);
    f64: 8, true, |value| f64::to_bits(value).into(), |bytes| f64::from_bits(bytes as u64);
    TotalF32: 4, true, |value| f32::to_bits(value.0).into(),
        |bytes| TotalF32(f32::from_bits(bytes as u32));
    TotalF64: 8, true, |value| f64::to_bits(value.0).into(),
        |bytes| TotalF64(f64::from_bits(bytes as u64));
    Ipv4Addr: 4, false, |value| Ipv4Addr::to_bits(value).into(),
        |bytes| Ipv4Addr::from_bits(bytes as u32);
    Ipv6Addr: 16, false, Ipv6Addr::to_bits, Ipv6Addr::from_bits;
    Duration: 12, false, |value| (value.as_secs() as u128) << 32 | value.subsec_nanos() as u128,
        |bytes| Duration::new((bytes >> 32) as u64, (bytes as u32).min(999_999_999));
    #[cfg(feature = "uuid")]
    Uuid: 16, false, |value| Uuid::as_u128(&value), Uuid::from_u128;
}

/// Returns the number of bits of a packed type.
pub(super) const fn bits<T: Value>() -> u32 {
    8 * T::Width::BYTES
}
/// Whether fields of packed types lie in memory as they are packed: each behind the one before.
pub(super) const IS_LITTLE: bool = cfg!(target_endian = "little");

// SAFETY: arrays have no padding between elements, and pack them in order.
unsafe impl<T: Value, const N: usize> Value for [T; N]
where
    T::Width: Times<N>,
{
    type Width = <T::Width as Times<N>>::Product;
    const IN_MEMORY: bool = T::IN_MEMORY && (IS_LITTLE || N == 1);
    #[inline(always)]
    fn pack(self) -> u128 {
        let fields = (0..).zip(self);
        fields.fold(0, |bytes, (i, field)| bytes | field.pack() << (bits::<T>() * i))
    }
    #[inline(always)]
    fn unpack(bytes: u128) -> [T; N] {
        std::array::from_fn(|i| T::unpack(bytes >> (bits::<T>() * i as u32)))
    }
    fn describe(to: &mut String) {
        to.push('[');
        T::describe(to);
        to.push_str("; ");
        to.push_str(&N.to_string());
        to.push(']');
    }
}
// SAFETY: a single field at the start, if the size is that of the field.
unsafe impl<A: Value> Value for (A,) {
    type Width = A::Width;
    const IN_MEMORY: bool = A::IN_MEMORY && size_of::<Self>() == size_of::<A>();
    #[inline(always)]
    fn pack(self) -> u128 {
        self.0.pack()
    }
    #[inline(always)]
    fn unpack(bytes: u128) -> (A,) {
        (A::unpack(bytes),)
    }
    /// As its field: a struct of one field is stored as that.
    fn describe(to: &mut String) {
        A::describe(to);
    }
}
/// Implements [`Value`] for a tuple: the last field follows the others, which are a tuple as well.
macro_rules! tuples {
    ($(($($field:ident $i:tt $name:ident),+) + $last:ident $at:tt;)+) => {
        $(
            // SAFETY: the fields lie in memory as they are packed, if it is said to be so.
            unsafe impl<$($field: Value,)+ $last: Value> Value for ($($field,)+ $last)
            where
                ($($field,)+): Value,
                <($($field,)+) as Value>::Width: Plus<$last::Width>,
            {
                type Width = <<($($field,)+) as Value>::Width as Plus<$last::Width>>::Sum;
                const IN_MEMORY: bool = {
                    let (mut at, mut is_packed) = (0, IS_LITTLE);
                    $(
                        is_packed &= $field::IN_MEMORY && offset_of!(Self, $i) == at;
                        at += size_of::<$field>();
                    )+
                    is_packed &= $last::IN_MEMORY && offset_of!(Self, $at) == at;
                    is_packed && size_of::<Self>() == Self::Width::BYTES as usize
                };
                #[inline(always)]
                fn pack(self) -> u128 {
                    let before = ($(self.$i,)+);
                    before.pack() | self.$at.pack() << bits::<($($field,)+)>()
                }
                #[inline(always)]
                fn unpack(bytes: u128) -> Self {
                    let ($($name,)+) = <($($field,)+)>::unpack(bytes);
                    ($($name,)+ $last::unpack(bytes >> bits::<($($field,)+)>()))
                }
                fn describe(to: &mut String) {
                    to.push('(');
                    $(
                        $field::describe(to);
                        to.push_str(", ");
                    )+
                    $last::describe(to);
                    to.push(')');
                }
            }
            impl<$($field: Key,)+ $last: Key> Key for ($($field,)+ $last)
            where
                Self: Value,
                ($($field,)+): Key,
            {
                const IS_CANONICAL: bool = $($field::IS_CANONICAL &&)+ $last::IS_CANONICAL;
                #[inline(always)]
                fn canonical(self) -> Self {
                    ($(self.$i.canonical(),)+ self.$at.canonical())
                }
                const IS_ORDERED: bool = false;
                #[inline(always)]
                fn ordered(self) -> u128 {
                    let before = ($(self.$i,)+);
                    before.ordered() << bits::<$last>() | self.$at.ordered()
                }
                #[inline(always)]
                fn of_ordered(number: u128) -> Self {
                    let ($($name,)+) = <($($field,)+)>::of_ordered(number >> bits::<$last>());
                    ($($name,)+ $last::of_ordered(number))
                }
            }
        )+
    };
}
tuples! {
    (A 0 a) + B 1;
    (A 0 a, B 1 b) + C 2;
    (A 0 a, B 1 b, C 2 c) + D 3;
    (A 0 a, B 1 b, C 2 c, D 3 d) + E 4;
    (A 0 a, B 1 b, C 2 c, D 3 d, E 4 e) + F 5;
}
