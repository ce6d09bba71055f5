//! How indexes are stored: see [`IndexStore`].
use super::counting::Counter;
use super::grouped::PairSorter;
use super::{
    CHUNK, Grouped, Groups, IndexOptions, KeyGrouper, MultiMapOptions, NO_ID, numbers, reserve,
};
use crate::device::graph::may_wait;
use crate::device::{Apart, Buffer, Device, Stream, View, ViewMut, check_device};
use crate::duplicates::Duplicates;
use crate::error::{Result, check_length, count32};
use crate::fallible::collect;
use crate::file::filed::FiledIndex;
use crate::file::stored::Stored;
use crate::map::{Map, SlotMapBuilder};
use crate::parallel;
use crate::primitives::sort_keys;
use crate::rows::{Other, Way, gathered, number};
use crate::types::{Bits, KeyBits, ValueBits};
use crate::verbs::groups::Groups as HostGroups;
use crate::verbs::row_keys::RowKeys;
use std::borrow::Cow;

/// What an [`Index`](super::Index) asks of the table that stores it: of keys in slots, or in rows
/// if they have more than 64 bits. Knows bits only.
#[allow(private_interfaces, private_bounds, reason = "other crates cannot name the trait")]
pub trait IndexStore: FiledIndex {
    type Key: Bits;
    /// Builds indexes, and keeps scratch memory across builds.
    type Builder;
    fn builder(device: &Device, options: IndexOptions) -> Result<Self::Builder>;
    /// Builds the index of a column, and writes the id of each of its keys, if they are wanted.
    fn build(
        builder: &mut Self::Builder,
        stream: &Stream,
        keys: View<'_, Self::Key>,
        ids: Option<ViewMut<'_, u32>>,
    ) -> Result<Self>;
    fn scratch_bytes(builder: &Self::Builder) -> usize;
    /// Groups values by keys, and keeps scratch memory across builds.
    type Grouper<V: ValueBits>;
    fn grouper<V: ValueBits>(device: &Device, options: MultiMapOptions)
    -> Result<Self::Grouper<V>>;
    /// Builds the index of the distinct keys of a column, and groups values by their ids.
    fn grouped<V: ValueBits>(
        grouper: &mut Self::Grouper<V>,
        stream: &Stream,
        keys: View<'_, Self::Key>,
        values: View<'_, V>,
    ) -> Result<(Self, Grouped<V>)>;
    fn bytes_of_grouper<V: ValueBits>(grouper: &Self::Grouper<V>) -> usize;
    fn device(&self) -> &Device;
    fn bytes(&self) -> usize;
    /// Returns the keys in id order.
    fn keys(&self) -> View<'_, Self::Key>;
    fn to_device(&self, device: &Device) -> Result<Self>;
    fn ids_into(
        &self,
        stream: &Stream,
        keys: View<'_, Self::Key>,
        ids: ViewMut<'_, u32>,
    ) -> Result<()>;
}

/// An index with keys in slots.
pub struct SlotIndex<K: KeyBits> {
    pub(super) map: Map<K, u32>,
    pub(super) keys: Stored<K>,
}
impl<K: KeyBits> SlotIndex<K> {
    /// Builds an index of distinct keys: the id of each key is its position, as `numbers` says.
    pub(super) fn of_distinct(
        stream: &Stream,
        builder: &mut SlotMapBuilder<K, u32>,
        numbers: View<'_, u32>,
        keys: Buffer<K>,
    ) -> Result<SlotIndex<K>> {
        let _apart = Apart::begin();
        let (unchecked, mut map) = (Duplicates::Unchecked, builder.with_room(keys.len())?);
        let numbers = numbers.slice(..keys.len())?;
        builder.rebuild(unchecked, &mut map, stream, keys.view(), numbers)?;
        map.report()?;
        Ok(SlotIndex { map, keys: Stored::Own(keys) })
    }
}
#[allow(private_interfaces, reason = "other crates cannot name the trait")]
impl<K: KeyBits> IndexStore for SlotIndex<K> {
    type Key = K;
    type Builder = SlotIndexBuilder<K>;
    fn builder(device: &Device, options: IndexOptions) -> Result<SlotIndexBuilder<K>> {
        let tables = SlotMapBuilder::new(device, options.of_map())?;
        Ok(SlotIndexBuilder {
            device: device.clone(),
            tables,
            rows: None,
            sorter: PairSorter::new(),
            counter: Counter::new(device),
        })
    }
    fn build(
        builder: &mut SlotIndexBuilder<K>,
        stream: &Stream,
        keys: View<'_, K>,
        ids: Option<ViewMut<'_, u32>>,
    ) -> Result<SlotIndex<K>> {
        builder.build(stream, keys, ids)
    }
    fn scratch_bytes(builder: &SlotIndexBuilder<K>) -> usize {
        let of_rows = builder.rows.as_ref().map_or(0, Buffer::bytes);
        of_rows + builder.sorter.scratch_bytes() + builder.counter.bytes()
    }
    type Grouper<V: ValueBits> = KeyGrouper<K, V>;
    fn grouper<V: ValueBits>(
        device: &Device,
        options: MultiMapOptions,
    ) -> Result<KeyGrouper<K, V>> {
        KeyGrouper::new(device, options)
    }
    fn grouped<V: ValueBits>(
        grouper: &mut KeyGrouper<K, V>,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<(SlotIndex<K>, Grouped<V>)> {
        grouper.grouped(stream, keys, values)
    }
    fn bytes_of_grouper<V: ValueBits>(grouper: &KeyGrouper<K, V>) -> usize {
        grouper.scratch_bytes()
    }
    fn device(&self) -> &Device {
        self.map.device()
    }
    fn bytes(&self) -> usize {
        self.map.bytes() + self.keys.bytes()
    }
    fn keys(&self) -> View<'_, K> {
        self.keys.view()
    }
    fn to_device(&self, device: &Device) -> Result<SlotIndex<K>> {
        let map = self.map.to_device(device)?;
        Ok(SlotIndex { map, keys: Stored::Own(self.keys.upload(self.keys.len(), device)?) })
    }
    fn ids_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        mut ids: ViewMut<'_, u32>,
    ) -> Result<()> {
        self.map.get_or_into(stream, keys, ids.reborrow(), NO_ID)?;
        if let (Stored::Mapped(_), Some(ids)) = (&self.keys, ids.host_mut()) {
            // The file may hold invalid ids.
            let n = self.keys.len();
            let invalid = |id: &&mut u32| **id as usize >= n;
            self.map.device().install(|| {
                parallel::each(ids.chunks_mut(CHUNK), |_, ids| {
                    ids.iter_mut().filter(invalid).for_each(|id| *id = NO_ID)
                })
            });
        }
        Ok(())
    }
}

/// Builds indexes with keys in slots.
pub struct SlotIndexBuilder<K: KeyBits> {
    device: Device,
    tables: SlotMapBuilder<K, u32>,
    /// Numbers counting up from 0: rows of a column, and ids.
    rows: Option<Buffer<u32>>,
    sorter: PairSorter<K, u32>,
    pub(super) counter: Counter<K>,
}
impl<K: KeyBits> SlotIndexBuilder<K> {
    /// See [`IndexStore::build`]. Waits.
    fn build(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
        mut ids: Option<ViewMut<'_, u32>>,
    ) -> Result<SlotIndex<K>> {
        let _apart = Apart::begin();
        count32("keys", keys.len())?;
        keys.arg("keys", stream)?;
        check_device("stream", stream.device(), &self.device)?;
        if let Some(ids) = &mut ids {
            check_length("ids", ids.len(), "keys", keys.len())?;
            ids.arg("ids", stream)?;
        }
        may_wait("the build of an index", &self.device)?;
        if !self.device.runs_kernels() {
            return self.build_on_host(stream, keys.elements("keys")?, ids);
        }
        let index = self.build_by_kernels(stream, keys)?;
        if let Some(ids) = ids {
            index.ids_into(stream, keys, ids)?;
        }
        Ok(index)
    }
    /// Rows that are sorted by their keys, in order where these are equal, begin with the first
    /// occurrence of each; the keys there, in the order of these rows, are those of the index.
    fn build_by_kernels(&mut self, stream: &Stream, keys: View<'_, K>) -> Result<SlotIndex<K>> {
        let (device, n) = (&self.device, keys.len());
        let rows = reserved_numbers(device, &mut self.rows, n)?;
        let mut by_key = device.alloc(n)?;
        let Groups { keys: distinct, starts } =
            self.sorter.sorted(stream, keys, rows.slice(..n)?, by_key.view_mut())?;
        let own = if distinct.len() == n {
            let mut own = distinct;
            own.view_mut().copy_from(keys, stream)?;
            own
        } else {
            let starts = starts.view().slice(..distinct.len())?;
            let firsts = gathered(stream, starts, by_key.view())?;
            let mut ascending = device.alloc(firsts.len())?;
            sort_keys(stream, firsts.view(), ascending.view_mut())?;
            gathered(stream, ascending.view(), keys)?
        };
        SlotIndex::of_distinct(stream, &mut self.tables, rows, own)
    }
    fn build_on_host(
        &mut self,
        stream: &Stream,
        keys: &[K],
        ids: Option<ViewMut<'_, u32>>,
    ) -> Result<SlotIndex<K>> {
        let device = &self.device;
        let way = Way { counts: false, other: Other::Map };
        let mut ids = ids;
        let own = match number(device, &keys, way, ids.as_mut().and_then(|ids| ids.host_mut()))? {
            Some(numbered) => device.upload(&numbered.keys)?,
            None => {
                let keys = RowKeys::of_bits(Cow::Borrowed(keys));
                let groups = HostGroups::by_map(device, &keys)?;
                if let Some(ids) = &mut ids {
                    ids.copy_from_host(&groups.ids)?;
                }
                let keys = keys.bits::<K>();
                device.upload(&collect(groups.firsts.iter().map(|&row| keys[row as usize]))?)?
            }
        };
        let rows = reserved_numbers(device, &mut self.rows, own.len())?;
        SlotIndex::of_distinct(stream, &mut self.tables, rows, own)
    }
}
/// Returns numbers from 0 on, at least `n`.
#[inline]
fn reserved_numbers<'a>(
    device: &Device,
    kept: &'a mut Option<Buffer<u32>>,
    n: usize,
) -> Result<View<'a, u32>> {
    Ok(reserve(kept, |kept| kept.len() >= n, || numbers(device, 0, n))?.view())
}
