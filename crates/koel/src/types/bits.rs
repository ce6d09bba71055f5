//! Bits of keys and values that kernels and the CPU engine know, and the layout of each
//! combination.
use super::{Addable, DeviceKey, DeviceValue, Value, Width};
use crate::primitives::compact::CompactElement;
use crate::primitives::radix_sort::{SortKey, SortValue};
use crate::primitives::runs::RunElement;
use crate::table::DeviceLayout;
use koel_kernels::set::layout::Member;
use koel_kernels::table::layout::{Narrow, Number, Wide};
use std::hash::Hash;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// Bits of keys that tables store: `u32` and `u64`. The trait is sealed.
pub trait KeyBits:
    DeviceKey
    + Value<Width: Width<Bits = Self>>
    + Member<Pairs: DeviceLayout>
    + SortKey
    + RunElement
    + CompactElement
    + Into<u64>
    + Into<u128>
    + Hash
    + sealed::Sealed
{
    /// Layout of pairs with a key of this type.
    type Layout<V: ValueBits>: DeviceLayout<Key = Self, Value = V>;
}
/// Bits of values that tables store: `u32` and `u64`. The trait is sealed.
pub trait ValueBits:
    DeviceValue
    + Addable
    + Value<Width: Width<Bits = Self>>
    + CompactElement
    + SortValue
    + Number
    + Into<u64>
    + sealed::Sealed
{
    /// Layout of pairs of a `u32` key and a value of this type.
    type WithU32: DeviceLayout<Key = u32, Value = Self>;
    /// Layout of pairs of a `u64` key and a value of this type.
    type WithU64: DeviceLayout<Key = u64, Value = Self>;
}
impl KeyBits for u32 {
    type Layout<V: ValueBits> = V::WithU32;
}
impl KeyBits for u64 {
    type Layout<V: ValueBits> = V::WithU64;
}
impl ValueBits for u32 {
    type WithU32 = Narrow;
    type WithU64 = Wide<u64, u32>;
}
impl ValueBits for u64 {
    type WithU32 = Wide<u32, u64>;
    type WithU64 = Wide<u64, u64>;
}
