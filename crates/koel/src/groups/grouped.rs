//! Values grouped by the ids of their keys.
use super::{Grouping, Groups, Retrieved, Retriever, Sorting, sizes_of};
use crate::device::{Apart, Device, Stream, View, ViewMut};
use crate::error::{Result, check_length};
use crate::file::stored::Stored;
use crate::primitives::SortPairs;
use crate::types::{Bits, KeyBits, Value, ValueBits, Width};

/// All values of keys that have ids, those of id 0 first.
pub struct Grouped<V: Bits> {
    /// Start of the values of each id, and the end of the last one.
    pub(crate) starts: Stored<u32>,
    pub(crate) values: Stored<V>,
}
impl<V: Bits> Grouped<V> {
    pub(crate) fn bytes(&self) -> usize {
        self.starts.bytes() + self.values.bytes()
    }
    /// Copies the values to a device, through host memory. Waits.
    pub(crate) fn to_device(&self, device: &Device) -> Result<Grouped<V>> {
        let starts = Stored::Own(self.starts.upload(self.starts.len(), device)?);
        Ok(Grouped { starts, values: Stored::Own(self.values.upload(self.values.len(), device)?) })
    }
    /// Replaces ids by the numbers of their values; 0 if there is no such id.
    pub(crate) fn counts(&self, stream: &Stream, ids: ViewMut<'_, u32>) -> Result<()> {
        sizes_of(stream, ids, self.starts.view(), self.values.len())
    }
    /// Returns all values of `n` ids, which `ids` writes. Copies and waits.
    pub(crate) fn retrieve<T: Value<Width: Width<Bits = V>>>(
        &self,
        device: &Device,
        n: usize,
        ids: impl FnOnce(&Stream, ViewMut<'_, u32>) -> Result<()>,
    ) -> Result<Retrieved<T>> {
        let (stream, mut retriever) = (device.stream()?, Retriever::new(device, n)?);
        retriever.find_ids(&stream, self, n, |to| ids(&stream, to))?;
        let offsets = retriever.offsets().download()?;
        let mut values = device.alloc(offsets.last().map_or(0, |&end| end as usize))?;
        retriever.bits_into(&stream, self, values.view_mut())?;
        let values = values.view().download_map(|bits: V| T::unpack(bits.into()))?;
        Ok(Retrieved { offsets, values })
    }
}

/// Sorts pairs and finds the groups of equal keys, and keeps memory for it.
pub(super) struct PairSorter<K: KeyBits, V: ValueBits> {
    sorting: Option<Sorting<K, SortPairs<K, V>>>,
    pub(super) grouping: Option<Grouping<K>>,
}
impl<K: KeyBits, V: ValueBits> PairSorter<K, V> {
    pub(super) fn new() -> PairSorter<K, V> {
        PairSorter { sorting: None, grouping: None }
    }
    pub(super) fn scratch_bytes(&self) -> usize {
        let sorting = self.sorting.as_ref().map_or(0, |s| s.bytes(s.sort.scratch_bytes()));
        sorting + self.grouping.as_ref().map_or(0, Grouping::bytes)
    }
    /// Writes the values in ascending order of their keys, those of a key in input order, and
    /// returns the groups. Waits.
    pub(super) fn sorted(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
        to: ViewMut<'_, V>,
    ) -> Result<Groups<K>> {
        let (device, n) = (stream.device(), keys.len());
        let sorting = Sorting::reserve(device, &mut self.sorting, n, || SortPairs::new(device, n))?;
        let sorted = sorting.sorted.view_mut().slice(..n)?;
        sorting.sort.run(stream, keys, values, sorted, to)?;
        Grouping::reserve(device, &mut self.grouping, n)?.of_sorted(stream, sorting, n)
    }
}

/// Groups values by ids, and keeps scratch memory across builds.
pub(crate) struct IdGrouper<V: ValueBits>(PairSorter<u32, V>);
impl<V: ValueBits> IdGrouper<V> {
    pub(crate) fn new() -> IdGrouper<V> {
        IdGrouper(PairSorter::new())
    }
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.0.scratch_bytes()
    }
    /// Groups values by the id of each; every id up to the greatest occurs. Values of an id stay in
    /// input order. Waits.
    pub(crate) fn grouped(
        &mut self,
        stream: &Stream,
        ids: View<'_, u32>,
        values: View<'_, V>,
    ) -> Result<Grouped<V>> {
        let _apart = Apart::begin();
        check_length("values", values.len(), "keys", ids.len())?;
        let mut grouped = stream.device().alloc(ids.len())?;
        // As every id occurs, groups have their numbers.
        let Groups { starts, .. } = self.0.sorted(stream, ids, values, grouped.view_mut())?;
        Ok(Grouped { starts: Stored::Own(starts), values: Stored::Own(grouped) })
    }
}
