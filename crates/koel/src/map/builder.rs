//! Building maps: see [`MapBuilder`].
use super::{Map, MapOptions, MapStore, Pairs, StoreOf, kernels};
use crate::cpu::{Copied, InBins, Ranks};
use crate::device::{Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::{Result, check_length};
use crate::table::Builder;
use crate::table::plan::Plan;
use crate::types::{DeviceKey, DeviceValue, Key, KeyBits, Value, ValueBits, keys_on, values_on};

/// What builds maps of these types.
type BuilderOf<K, V> = <StoreOf<K, V> as MapStore>::Builder;

/// Builds maps, and keeps scratch memory across builds. A second build of the same size allocates
/// only the map; a [`rebuild`](Self::rebuild) allocates nothing. On a GPU, scratch memory is about
/// 1.1 times the input.
///
/// ```
/// use koel::{Device, MapBuilder, MapOptions};
///
/// let device = Device::cpu()?;
/// let stream = device.stream()?;
/// let (keys, values) = (device.upload(&[[5u64, 7], [3, 1]])?, device.upload(&[0.5f64, 1.5])?);
/// let mut builder = MapBuilder::new(&device, MapOptions::default())?;
/// let mut map = builder.build(&stream, keys.view(), values.view())?;
/// for _frame in 0..3 {
///     builder.rebuild(&mut map, &stream, keys.view(), values.view())?;
/// }
/// assert_eq!(map.get(&[[3, 1]])?, [Some(1.5)]);
/// # Ok::<(), koel::Error>(())
/// ```
pub struct MapBuilder<K: Key = u32, V: Value = u32> {
    builder: BuilderOf<K, V>,
}
impl<K: Key, V: Value> MapBuilder<K, V> {
    /// Creates a builder without scratch memory. Errors: a load outside 0.3 to 0.95; reproducible
    /// maps of keys or values of more than 8 bytes.
    pub fn new(device: &Device, options: MapOptions) -> Result<MapBuilder<K, V>> {
        Ok(MapBuilder { builder: StoreOf::<K, V>::builder(device, options)? })
    }
}
impl<K: DeviceKey, V: DeviceValue> MapBuilder<K, V> {
    /// Builds a map from pairs `keys[i]`, `values[i]`. Waits for the device.
    ///
    /// On a GPU, takes three launches, or four from 3.7 million pairs on, and 50 bytes of memory
    /// traffic per pair of 32-bit keys and values, 100 per wider pair. Keys or values of more than
    /// 8 bytes: see [`keys128`](crate::keys128#cost).
    /// [`reproducible`](MapOptions::reproducible) states the additional cost of reproducible
    /// tables. Unless duplicates are [`Unchecked`](Duplicates::Unchecked), equal keys are found and
    /// resolved during the build. Errors: mismatched lengths, more pairs than 31-bit indices can
    /// address, buffers of another device, a rejected duplicate, keys that the map stores as wider
    /// ones, out of memory.
    pub fn build(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<Map<K, V>> {
        let (keys, values) = (keys_on(stream, keys)?, values_on(stream, values)?);
        let (keys, values) = (keys.view(), values.view());
        Ok(Map { store: StoreOf::<K, V>::build(&mut self.builder, stream, keys, values)? })
    }
    /// Replaces the content of a map by other pairs. Like [`build`](Self::build), but allocates
    /// nothing if the map and this builder have held as many pairs before, and does not wait on a
    /// GPU unless duplicates are [rejected](Duplicates::Reject) or keys or values have more than 8
    /// bytes: then it waits once midway, for counts.
    ///
    /// Later work on the stream sees the new pairs. [`Map::report`] returns the statistics of the
    /// rebuild. A rebuild that neither waits nor allocates can be recorded in a
    /// [graph](Stream::capture).
    ///
    /// Errors: as [`build`](Self::build); a map on another device; a stream that is being captured,
    /// if it waits. After an error in the arguments, or when out of memory, the map is unchanged;
    /// after any other error it is empty. A larger table is allocated before the old one is freed.
    pub fn rebuild(
        &mut self,
        map: &mut Map<K, V>,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<()> {
        let (keys, values) = (keys_on(stream, keys)?, values_on(stream, values)?);
        map.store.rebuild(&mut self.builder, stream, keys.view(), values.view())
    }
}

/// Builds maps with keys and values in slots, as other tables use them, too.
pub struct SlotMapBuilder<K: KeyBits, V: ValueBits> {
    pub(super) builder: Builder<Pairs<K, V>>,
}
impl<K: KeyBits, V: ValueBits> SlotMapBuilder<K, V> {
    /// Creates a builder without scratch memory. Errors: a load outside 0.3 to 0.95.
    pub(crate) fn new(device: &Device, options: MapOptions) -> Result<SlotMapBuilder<K, V>> {
        Ok(SlotMapBuilder { builder: Builder::new(device, options.into())? })
    }
    /// Returns an empty map with memory for `pairs` pairs, to be rebuilt.
    pub(crate) fn with_room(&self, pairs: usize) -> Result<Map<K, V>> {
        Ok(Map::of_table(self.builder.with_room(pairs)?))
    }
    /// Reserves memory in a map and in this builder for a build of `pairs` pairs, which then
    /// allocates nothing. A map with too little memory loses its content.
    pub(crate) fn reserve_for(&mut self, map: &mut Map<K, V>, pairs: usize) -> Result<()> {
        self.builder.reserve_for(map.as_table_mut(), pairs)
    }
    /// Rebuilds a map with this policy for equal keys: see [`MapBuilder::rebuild`].
    pub(crate) fn rebuild(
        &mut self,
        duplicates: Duplicates,
        map: &mut Map<K, V>,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<()> {
        self.builder.settings.duplicates = duplicates;
        let plan = plan_of(&self.builder, stream, keys, values)?;
        self.builder.rebuild(map.as_table_mut(), plan, stream, (keys, values))
    }
}
/// Checks the arguments of a build or rebuild, and plans the table.
pub(super) fn plan_of<K: KeyBits, V: ValueBits>(
    builder: &Builder<Pairs<K, V>>,
    stream: &Stream,
    keys: View<'_, K>,
    values: View<'_, V>,
) -> Result<Plan> {
    check_length("values", values.len(), "keys", keys.len())?;
    keys.arg("keys", stream)?;
    values.arg("values", stream)?;
    builder.plan(stream, keys.len())
}
impl<K: KeyBits> SlotMapBuilder<K, u32> {
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
