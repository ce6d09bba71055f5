//! Bits of keys and values that kernels and the CPU engine know, and how tables store each
//! combination.
use super::{Addable, DeviceKey, DeviceValue, Key, Value, Width};
use crate::device::{Stream, View};
use crate::error::Result;
use crate::file::stored::Stored;
use crate::groups::{GroupKey, Grouped, IndexStore, SlotIndex, numbers_on};
use crate::keys128::{Map128, RowIndex, Set128};
use crate::map::{MapStore, SlotMap};
use crate::primitives::compact::CompactElement;
use crate::primitives::radix_sort::{SortKey, SortValue};
use crate::primitives::runs::RunElement;
use crate::rows::gathered;
use crate::rows::update::RowValue;
use crate::set::{SetStore, SlotSet};
use crate::table::DeviceLayout;
use crate::tagged::Field;
use koel_kernels::packed::Packed;
use koel_kernels::set::layout::Member;
use koel_kernels::table::layout::{Narrow, Number, Wide};
use std::hash::Hash;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl Sealed for u128 {}
}

/// Bits of keys and values: `u32`, `u64` and `u128`. The trait is sealed.
pub trait Bits:
    DeviceKey
    + DeviceValue
    + Value<Width: Width<Bits = Self>>
    + GroupKey
    + CompactElement
    + RowValue
    + Packed
    + Field
    + Into<u128>
    + Hash
    + sealed::Sealed
{
    /// Set of keys of these bits.
    #[doc(hidden)]
    type Set: SetStore<Key = Self>;
    /// Index of keys of these bits.
    #[doc(hidden)]
    type Index: IndexStore<Key = Self>;
    /// Map from keys of other bits to values of these.
    #[doc(hidden)]
    type MapFrom<K: Bits>: MapStore<Value = Self>;
    /// Map from keys of these bits to `u32`.
    #[doc(hidden)]
    type MapTo32: MapStore<Value = u32>;
    /// Map from keys of these bits to `u64`.
    #[doc(hidden)]
    type MapTo64: MapStore<Value = u64>;
    /// What is sorted in place of values of these bits: themselves, or the numbers of their rows.
    #[doc(hidden)]
    type Sorted: ValueBits;
    /// Returns values of these bits in the order in which `group` brings what is sorted.
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "other crates cannot call the function")]
    fn grouped<I>(
        stream: &Stream,
        values: View<'_, Self>,
        group: impl FnOnce(View<'_, Self::Sorted>) -> Result<(I, Grouped<Self::Sorted>)>,
    ) -> Result<(I, Grouped<Self>)>;
    /// Returns the low bits of a packed value.
    fn of_packed(bytes: u128) -> Self;
}
/// Bits of keys in slots of tables: `u32` and `u64`. The trait is sealed.
pub trait KeyBits:
    Bits<
        Set = SlotSet<Self>,
        Index = SlotIndex<Self>,
        MapTo32 = SlotMap<Self, u32>,
        MapTo64 = SlotMap<Self, u64>,
    > + Member<Pairs: DeviceLayout>
    + SortKey
    + RunElement
    + Into<u64>
{
    /// Layout of pairs with a key of this type.
    type Layout<V: ValueBits>: DeviceLayout<Key = Self, Value = V>;
}
/// Bits of values in slots of tables: `u32` and `u64`. The trait is sealed.
pub trait ValueBits: Bits + Addable + SortValue + Number + Into<u64> {
    /// Layout of pairs of a `u32` key and a value of this type.
    type WithU32: DeviceLayout<Key = u32, Value = Self>;
    /// Layout of pairs of a `u64` key and a value of this type.
    type WithU64: DeviceLayout<Key = u64, Value = Self>;
    /// Returns a map with keys in slots as the table that it is.
    #[doc(hidden)]
    fn slots<K: KeyBits>(map: &Self::MapFrom<K>) -> &SlotMap<K, Self>;
    /// Returns a map with keys in slots as the table that it is, to be changed.
    #[doc(hidden)]
    fn slots_mut<K: KeyBits>(map: &mut Self::MapFrom<K>) -> &mut SlotMap<K, Self>;
    /// Returns what updates maps with keys in slots as what updates tables.
    #[doc(hidden)]
    fn slot_updater<K: KeyBits>(
        updater: &mut <Self::MapFrom<K> as MapStore>::Updater,
    ) -> &mut <SlotMap<K, Self> as MapStore>::Updater;
    /// Returns a table as a map.
    #[doc(hidden)]
    fn map<K: KeyBits>(slots: SlotMap<K, Self>) -> Self::MapFrom<K>;
}
/// Implements the traits of bits in slots.
macro_rules! in_slots {
    ($($bits:ty: $map:ident, $layout:ident, $of_u32:ty, $of_u64:ty;)+) => {
        $(
            impl Bits for $bits {
                type Set = SlotSet<$bits>;
                type Index = SlotIndex<$bits>;
                type MapFrom<K: Bits> = K::$map;
                type MapTo32 = SlotMap<$bits, u32>;
                type MapTo64 = SlotMap<$bits, u64>;
                type Sorted = $bits;
                fn grouped<I>(
                    _: &Stream,
                    values: View<'_, $bits>,
                    group: impl FnOnce(View<'_, $bits>) -> Result<(I, Grouped<$bits>)>,
                ) -> Result<(I, Grouped<$bits>)> {
                    group(values)
                }
                #[inline(always)]
                fn of_packed(bytes: u128) -> $bits {
                    bytes as $bits
                }
            }
            impl KeyBits for $bits {
                type Layout<V: ValueBits> = V::$layout;
            }
            impl ValueBits for $bits {
                type WithU32 = $of_u32;
                type WithU64 = $of_u64;
                fn slots<K: KeyBits>(map: &Self::MapFrom<K>) -> &SlotMap<K, Self> {
                    map
                }
                fn slots_mut<K: KeyBits>(map: &mut Self::MapFrom<K>) -> &mut SlotMap<K, Self> {
                    map
                }
                fn slot_updater<K: KeyBits>(
                    updater: &mut <Self::MapFrom<K> as MapStore>::Updater,
                ) -> &mut <SlotMap<K, Self> as MapStore>::Updater {
                    updater
                }
                fn map<K: KeyBits>(slots: SlotMap<K, Self>) -> Self::MapFrom<K> {
                    slots
                }
            }
        )+
    };
}
in_slots! {
    u32: MapTo32, WithU32, Narrow, Wide<u64, u32>;
    u64: MapTo64, WithU64, Wide<u32, u64>, Wide<u64, u64>;
}
/// Rows hold keys or values of 128 bits; then the keys are of 128 bits.
impl Bits for u128 {
    type Set = Set128;
    type Index = RowIndex;
    type MapFrom<K: Bits> = Map128<u128>;
    type MapTo32 = Map128<u32>;
    type MapTo64 = Map128<u64>;
    type Sorted = u32;
    fn grouped<I>(
        stream: &Stream,
        values: View<'_, u128>,
        group: impl FnOnce(View<'_, u32>) -> Result<(I, Grouped<u32>)>,
    ) -> Result<(I, Grouped<u128>)> {
        let rows = numbers_on(stream, 0, values.len())?;
        let (index, Grouped { starts, values: rows }) = group(rows.view())?;
        let values = Stored::Own(gathered(stream, rows.view(), values)?);
        Ok((index, Grouped { starts, values }))
    }
    #[inline(always)]
    fn of_packed(bytes: u128) -> u128 {
        bytes
    }
}

/// Keys that slots of tables hold: of up to 8 bytes, packed. Implemented for all of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key of at most 8 bytes",
    label = "more than 8 bytes",
    note = "this takes keys of at most 8 bytes; tables take 16, and an index gives numbers, which \
            are keys of 4 bytes: `koel::Index` of keys, `koel::StringIndex` of strings"
)]
pub trait SlotKey: Key<Width: Width<Bits: KeyBits>> {}
impl<K: Key<Width: Width<Bits: KeyBits>>> SlotKey for K {}
/// Values that slots of tables hold: of up to 8 bytes, packed. Implemented for all of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value of at most 8 bytes",
    label = "more than 8 bytes",
    note = "this takes values of at most 8 bytes; `Map` takes 16"
)]
pub trait SlotValue: Value<Width: Width<Bits: ValueBits>> {}
impl<V: Value<Width: Width<Bits: ValueBits>>> SlotValue for V {}
