//! How often keys occur.
use super::{Grouping, Groups, Sorting, sizes};
use crate::device::{Apart, Buffer, Device, Stream, View};
use crate::error::Result;
use crate::fallible::collect;
use crate::primitives::SortKeys;
use crate::rows::{Numbered, Other, Way, number};
use crate::types::KeyBits;
use crate::verbs::groups::Histogram;

/// Sorts keys to count equal ones, and keeps memory for it. On a CPU, few distinct keys are counted
/// first, and sorted then.
pub(crate) struct Counter<K: KeyBits> {
    device: Device,
    sorting: Option<Sorting<K, SortKeys<K>>>,
    grouping: Option<Grouping<K>>,
}
impl<K: KeyBits> Counter<K> {
    pub(crate) fn new(device: &Device) -> Counter<K> {
        Counter { device: device.clone(), sorting: None, grouping: None }
    }
    pub(super) fn bytes(&self) -> usize {
        let sorting = self.sorting.as_ref().map_or(0, |s| s.bytes(s.sort.scratch_bytes()));
        sorting + self.grouping.as_ref().map_or(0, Grouping::bytes)
    }
    /// Returns the distinct keys of a column in ascending order, and how often each occurs. Waits.
    pub(super) fn counted(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
    ) -> Result<(Buffer<K>, Buffer<u32>)> {
        let _apart = Apart::begin();
        let (device, n) = (&self.device, keys.len());
        keys.arg("keys", stream)?;
        let way = Way { counts: true, other: Other::Sort };
        if let (false, Some(keys)) = (device.runs_kernels(), keys.host())
            && let Some(Numbered { keys, counts, .. }) = number(device, &keys, way, None)?
        {
            let mut sorted = collect(keys.into_iter().zip(counts))?;
            sorted.sort_unstable();
            let (keys, counts) = (sorted.iter().map(|of| of.0), sorted.iter().map(|of| of.1));
            return Ok((device.upload(&collect(keys)?)?, device.upload(&collect(counts)?)?));
        }
        let sorting = Sorting::reserve(device, &mut self.sorting, n, || SortKeys::new(device, n))?;
        sorting.sort.run(stream, keys, sorting.sorted.view_mut().slice(..n)?)?;
        let grouping = Grouping::reserve(device, &mut self.grouping, n)?;
        let Groups { keys, starts } = grouping.of_sorted(stream, sorting, n)?;
        Ok((keys, sizes(stream, starts.view())?))
    }
}
impl Counter<u32> {
    /// Returns how often each of `ids` ids occurs in a column, in which all do. Waits.
    #[inline]
    pub(super) fn of_ids(
        &mut self,
        stream: &Stream,
        column: View<'_, u32>,
        ids: usize,
    ) -> Result<Buffer<u32>> {
        if let (false, Some(column)) = (self.device.runs_kernels(), column.host()) {
            return self.device.upload(&Histogram::of(&self.device, column, ids)?.total()?);
        }
        Ok(self.counted(stream, column)?.1)
    }
}
