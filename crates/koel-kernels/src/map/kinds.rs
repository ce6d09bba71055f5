//! Which layouts share kernels.
use super::find::MapRef;
use super::records::Recorded;
use crate::table::layout::{Narrow, Number, Wide};
use crate::table::sending::{Carried, Routed};
use core::marker::PhantomData;

/// A layout that kernels of maps are made for.
pub trait MapLayout: Routed {
    /// Stands for all layouts whose pairs are stored alike, where kernels need not know their
    /// types.
    type Stored: MapLayout + Recorded;
    /// Stands for all layouts with such keys, where kernels need not know the values.
    type OfKey: MapLayout<Key = Self::Key>;
}

impl<L: MapLayout> MapRef<L> {
    /// The same table for kernels that need not know its values.
    pub fn of_key(self) -> MapRef<L::OfKey> {
        let MapRef { shape, stash_bits, slots, stash, header, .. } = self;
        MapRef { shape, stash_bits, slots, stash, header, layout: PhantomData }
    }
}

impl MapLayout for Narrow {
    type Stored = Narrow;
    type OfKey = Narrow;
}

impl<K: Carried, V: Number> MapLayout for Wide<K, V> {
    type Stored = Wide<u64, u64>;
    type OfKey = Wide<K, u64>;
}
