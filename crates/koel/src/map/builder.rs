//! Building maps: see [`MapBuilder`].
use super::{Map, MapOptions, PairsOf, kernels};
use crate::cpu::{Copied, InBins, Ranks};
use crate::device::{Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::{Result, check_length};
use crate::table::Builder;
use crate::table::plan::Plan;
use crate::types::{BitsOf, DeviceKey, DeviceValue, KeyBits, SlotKey, SlotValue};

/// Bits of the pairs of a build.
type InputOf<'a, K, V> = (View<'a, BitsOf<K>>, View<'a, BitsOf<V>>);

/// Builds maps, and keeps scratch memory across builds. A second build of the same size allocates
/// only the map; a [`rebuild`](Self::rebuild) allocates nothing. On a GPU, scratch memory is about
/// 1.1 times the input.
pub struct MapBuilder<K: SlotKey = u32, V: SlotValue = u32> {
    builder: Builder<PairsOf<K, V>>,
}

impl<K: SlotKey, V: SlotValue> MapBuilder<K, V> {
    /// Creates a builder without scratch memory. Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: MapOptions) -> Result<MapBuilder<K, V>> {
        Ok(MapBuilder { builder: Builder::new(device, options.into())? })
    }
    /// Returns an empty map with memory for `pairs` pairs, to be [rebuilt](Self::rebuild).
    pub(crate) fn with_room(&self, pairs: usize) -> Result<Map<K, V>> {
        Ok(Map::of_table(self.builder.with_room(pairs)?))
    }
    /// Reserves memory in a map and in this builder for a build of `pairs` pairs, which then
    /// allocates nothing. A map with too little memory loses its content.
    pub(crate) fn reserve_for(&mut self, map: &mut Map<K, V>, pairs: usize) -> Result<()> {
        self.builder.reserve_for(map.as_table_mut(), pairs)
    }
}
impl<K: DeviceKey + SlotKey, V: DeviceValue + SlotValue> MapBuilder<K, V> {
    /// Builds a map from pairs `keys[i]`, `values[i]`. Waits for the device.
    ///
    /// On a GPU, takes three launches, or four from 3.7 million pairs on, and 50 bytes of memory
    /// traffic per pair of 32-bit keys and values, 100 per wider pair.
    /// [`reproducible`](MapOptions::reproducible) states the additional cost of reproducible
    /// tables. Unless duplicates are [`Unchecked`](Duplicates::Unchecked), equal keys are found and
    /// resolved during the build. Errors: mismatched lengths, more pairs than 31-bit indices can
    /// address, buffers of another device, a rejected duplicate, out of memory.
    pub fn build(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<Map<K, V>> {
        let (plan, input) = self.check(stream, keys, values)?;
        Ok(Map::of_table(self.builder.build(plan, stream, input)?))
    }
    /// Sets the policy for equal keys and [rebuilds](Self::rebuild) a map.
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
    /// Replaces the content of a map by other pairs. Like [`build`](Self::build), but allocates
    /// nothing if the map and this builder have held as many pairs before, and does not wait on a
    /// GPU unless duplicates are [rejected](Duplicates::Reject).
    ///
    /// Later work on the stream sees the new pairs. [`Map::report`] returns the statistics of the
    /// rebuild. A rebuild that neither waits nor allocates can be recorded in a
    /// [graph](Stream::capture).
    ///
    /// Errors: as [`build`](Self::build); a map on another device. After an error in the arguments,
    /// or when out of memory, the map is unchanged; after any other error it is empty. A larger
    /// table is allocated before the old one is freed.
    pub fn rebuild(
        &mut self,
        map: &mut Map<K, V>,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<()> {
        let (plan, input) = self.check(stream, keys, values)?;
        self.builder.rebuild(map.as_table_mut(), plan, stream, input)
    }

    /// Checks the arguments of a build or rebuild, and plans the table. Returns their bits, too.
    fn check<'a>(
        &self,
        stream: &Stream,
        keys: View<'a, K>,
        values: View<'a, V>,
    ) -> Result<(Plan, InputOf<'a, K, V>)> {
        check_length("values", values.len(), "keys", keys.len())?;
        let (keys, values) = (keys.key_bits()?, values.value_bits()?);
        keys.arg("keys", stream)?;
        values.arg("values", stream)?;
        Ok((self.builder.plan(stream, keys.len())?, (keys, values)))
    }
}
impl<K: KeyBits> MapBuilder<K, u32> {
    /// Partitions keys and rows, and calls `take` with the rows of copies: see
    /// [`Builder::find_copies`].
    pub(crate) fn find_copies(
        &mut self,
        keys: &[K],
        rows: &[u32],
        keep_first: bool,
        take: impl Fn(&[Copied]) + Sync,
    ) -> Result<Option<InBins>> {
        self.builder.find_copies(keys, rows, keep_first, take)
    }
    /// Rebuilds a map of the rows that stay: see [`Builder::build_ranked`].
    pub(crate) fn build_ranked(
        &mut self,
        map: &mut Map<K, u32>,
        in_bins: InBins,
        of_bins: (&[K], &[u32]),
        ranks: Option<&Ranks>,
    ) -> Result<()> {
        self.builder.build_ranked(map.as_table_mut(), in_bins, of_bins, ranks)
    }
    /// Builds a map from the keys of groups, which kernels have made, to the indices of the groups.
    /// Writes the compacted keys and starts to `kept`. `plan` comes from [`Plan::of_ordered`].
    /// Waits.
    pub(crate) fn build_from_groups(
        &mut self,
        stream: &Stream,
        plan: Plan,
        groups: kernels::OrderedGroups<'_, K>,
        kept: (ViewMut<'_, K>, ViewMut<'_, u32>),
    ) -> Result<Map<K, u32>> {
        let table = self.builder.build_with(plan, stream, |table, scratch| {
            kernels::build_from_groups(stream, &plan, groups, kept, table, scratch)
        })?;
        Ok(Map::of_table(table))
    }
}
