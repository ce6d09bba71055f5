//! Types of keys and values, and the layout of each combination.
use crate::primitives::compact::CompactElement;
use crate::primitives::radix_sort::SortKey;
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

/// Key types of maps and sets: `u32` and `u64`.
pub trait Key:
    Member<Pairs: DeviceLayout>
    + SortKey
    + RunElement
    + CompactElement
    + Into<u64>
    + Into<u128>
    + Hash
    + sealed::Sealed
{
    /// Layout of pairs with a key of this type.
    type Layout<V: Value>: DeviceLayout<Key = Self, Value = V>;
}
/// Value types of maps: `u32` and `u64`.
pub trait Value: CompactElement + Number + Into<u64> + sealed::Sealed {
    /// Layout of pairs of a `u32` key and a value of this type.
    type WithU32: DeviceLayout<Key = u32, Value = Self>;
    /// Layout of pairs of a `u64` key and a value of this type.
    type WithU64: DeviceLayout<Key = u64, Value = Self>;
}
impl Key for u32 {
    type Layout<V: Value> = V::WithU32;
}
impl Key for u64 {
    type Layout<V: Value> = V::WithU64;
}
impl Value for u32 {
    type WithU32 = Narrow;
    type WithU64 = Wide<u64, u32>;
}
impl Value for u64 {
    type WithU32 = Wide<u32, u64>;
    type WithU64 = Wide<u64, u64>;
}
