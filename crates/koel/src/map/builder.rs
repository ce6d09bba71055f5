//! Building maps: see [`MapBuilder`].
use super::{Key, Map, MapOptions, Pairs, Value, kernels};
use crate::device::{Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::{Result, check_length};
use crate::table::Builder;
use crate::table::plan::Plan;

/// Builds maps, and keeps the memory that building needs from one build to the next.
pub struct MapBuilder<K: Key = u32, V: Value = u32> {
    builder: Builder<Pairs<K, V>>,
}

impl<K: Key, V: Value> MapBuilder<K, V> {
    /// Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: MapOptions) -> Result<MapBuilder<K, V>> {
        Ok(MapBuilder { builder: Builder::new(device, options.into())? })
    }

    /// Builds a map of pairs `keys[i]`, `values[i]`. Waits for the device.
    ///
    /// On a GPU 50 bytes of memory traffic a pair of 32-bit keys and values, 100 a wider one; three
    /// launches, from 3.7 million pairs on four. [`reproducible`](MapOptions::reproducible)
    /// tells what a reproducible one needs besides. Equal keys, unless
    /// [`Unchecked`](Duplicates::Unchecked), are looked for and resolved while building. Errors:
    /// lengths that differ, more pairs than 31-bit indices reach, buffers of another device, a
    /// rejected duplicate, out of memory.
    pub fn build(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<Map<K, V>> {
        let plan = self.check(stream, keys, values)?;
        self.build_planned(plan, stream, keys, values)
    }
    /// Returns a map with memory for this many pairs, to be [rebuilt](Self::rebuild).
    pub(crate) fn with_room(&self, pairs: usize) -> Result<Map<K, V>> {
        Ok(Map { table: self.builder.with_room(pairs)? })
    }
    /// As [`rebuild`](Self::rebuild), with this policy.
    pub(crate) fn rebuild_by(
        &mut self,
        duplicates: Duplicates,
        map: &mut Map<K, V>,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<()> {
        self.builder.settings.duplicates = duplicates;
        self.rebuild(map, stream, keys, values)
    }
    /// Makes room for a build of this many pairs in the memory of a map and of this builder, which
    /// then allocates nothing. A map that has too little memory loses what it holds.
    pub(crate) fn reserve_for(&mut self, map: &mut Map<K, V>, pairs: usize) -> Result<()> {
        self.builder.reserve_for(&mut map.table, pairs)
    }
    pub(super) fn build_planned(
        &mut self,
        plan: Plan,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<Map<K, V>> {
        Ok(Map { table: self.builder.build(plan, stream, (keys, values))? })
    }
    /// Puts other pairs into a map, whatever it held: as [`build`](Self::build), but on a GPU
    /// nothing waits, unless equal keys are to be [rejected](Duplicates::Reject), and nothing
    /// is allocated if the map and this builder have had as many pairs before.
    ///
    /// The map answers for the new pairs from here on in the order of the stream. How it went,
    /// [`Map::report`] tells. Where nothing waits and nothing is allocated, it can be recorded
    /// in a [graph](Stream::capture).
    ///
    /// Errors: as [`build`](Self::build); a map on another device. After an error of the arguments,
    /// and when memory is out, the map is as it was; after any other error it holds nothing. A
    /// larger table is made before the old one is given back.
    pub fn rebuild(
        &mut self,
        map: &mut Map<K, V>,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<()> {
        let plan = self.check(stream, keys, values)?;
        self.builder.rebuild(&mut map.table, plan, stream, (keys, values))
    }

    /// Checks what both take.
    fn check(&self, stream: &Stream, keys: View<'_, K>, values: View<'_, V>) -> Result<Plan> {
        check_length("values", values.len(), "keys", keys.len())?;
        keys.arg("keys", stream)?;
        values.arg("values", stream)?;
        self.builder.plan(stream, keys.len())
    }
}
impl<K: Key> MapBuilder<K, u32> {
    /// A map of the keys of groups that kernels have made, with their numbers as values; keys and
    /// starts come to `kept`. `plan`: [of as many](Plan::of_ordered). Waits.
    pub(crate) fn build_of_groups(
        &mut self,
        stream: &Stream,
        plan: Plan,
        groups: kernels::OrderedGroups<'_, K>,
        kept: (ViewMut<'_, K>, ViewMut<'_, u32>),
    ) -> Result<Map<K, u32>> {
        let table = self.builder.build_with(plan, stream, |table, scratch| {
            kernels::build_of_groups(stream, &plan, groups, kept, table, scratch)
        })?;
        Ok(Map { table })
    }
}
