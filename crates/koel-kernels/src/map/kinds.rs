//! Layouts that share kernels.
use super::find::MapRef;
use super::records::Recorded;
use crate::table::layout::{Narrow, Number, Wide};
use crate::table::sending::{Carried, Routed};
use core::marker::PhantomData;

/// A layout that map kernels are compiled for.
pub trait MapLayout: Routed {
    /// The representative of all layouts that store pairs in the same way, for kernels that do not
    /// need the key and value types.
    type Stored: MapLayout + Recorded;
    /// The representative of all layouts with this key type, for kernels that do not need the
    /// values.
    type OfKey: MapLayout<Key = Self::Key>;
}

impl<L: MapLayout> MapRef<L> {
    /// Returns the same table for kernels that do not need its values.
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
