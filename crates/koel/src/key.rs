//! Which types keys and values may have, and which layout each pairing takes.
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

/// What keys of a map or of a set may be: `u32`, `u64`.
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
    /// How pairs with such a key are stored.
    type Layout<V: Value>: DeviceLayout<Key = Self, Value = V>;
}
/// What values of a map may be: `u32`, `u64`.
pub trait Value: CompactElement + Number + Into<u64> + sealed::Sealed {
    /// How pairs of a `u32` key and such a value are stored.
    type WithU32: DeviceLayout<Key = u32, Value = Self>;
    /// How pairs of a `u64` key and such a value are stored.
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
