//! Values grouped by the ids of their keys.
use super::{Grouping, Groups, Retrieved, Retriever, Sorting, sizes_of};
use crate::device::{Apart, Device, Stream, View, ViewMut};
use crate::error::{Result, check_length};
use crate::file::stored::Stored;
use crate::primitives::SortPairs;
use crate::types::{SlotValue, ValueBits, Width};

/// All values of keys that have ids, those of id 0 first.
pub struct Grouped<V: ValueBits> {
    /// Start of the values of each id, and the end of the last one.
    pub(crate) starts: Stored<u32>,
    pub(crate) values: Stored<V>,
}
impl<V: ValueBits> Grouped<V> {
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
    pub(crate) fn retrieve<T: SlotValue<Width: Width<Bits = V>>>(
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

/// Groups values by ids, and keeps scratch memory across builds.
pub(crate) struct IdGrouper<V: ValueBits> {
    sorting: Option<Sorting<u32, SortPairs<u32, V>>>,
    grouping: Option<Grouping<u32>>,
}
impl<V: ValueBits> IdGrouper<V> {
    pub(crate) fn new() -> IdGrouper<V> {
        IdGrouper { sorting: None, grouping: None }
    }
    pub(crate) fn scratch_bytes(&self) -> usize {
        let sorting = self.sorting.as_ref().map_or(0, |s| s.bytes(s.sort.scratch_bytes()));
        sorting + self.grouping.as_ref().map_or(0, Grouping::bytes)
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
        let (device, n) = (stream.device(), ids.len());
        check_length("values", values.len(), "keys", n)?;
        let sorting = Sorting::reserve(device, &mut self.sorting, n, || SortPairs::new(device, n))?;
        let (sorted, mut grouped) = (sorting.sorted.view_mut().slice(..n)?, device.alloc(n)?);
        sorting.sort.run(stream, ids, values, sorted, grouped.view_mut())?;
        let grouping = Grouping::reserve(device, &mut self.grouping, n)?;
        // As every id occurs, groups have their numbers.
        let Groups { starts, .. } = grouping.of_sorted(stream, sorting, n)?;
        Ok(Grouped { starts: Stored::Own(starts), values: Stored::Own(grouped) })
    }
}
