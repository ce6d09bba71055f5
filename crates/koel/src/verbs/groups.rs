//! Rows with equal keys, numbered: what counts, aggregates and joins of columns share.
use super::row_keys::{ByteRows, Bytes, Mapped, RowKeys, with_keys};
use crate::device::Device;
use crate::device::memory::zeroed;
use crate::error::{Result, count32};
use crate::fallible::{self, collect, extend, repeat};
use crate::map::Map;
use crate::parallel;
use crate::rows::{Other, Way, number};
use crate::strings::StringMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Group where there is none.
pub(crate) const NO_GROUP: u32 = u32::MAX;
/// Rows that a thread takes at a time.
pub(crate) const CHUNK: usize = 1 << 14;

/// What is wanted of groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    Ids,
    Sizes,
    Both,
}

/// Groups of rows with equal keys, numbered in order of first occurrence.
pub(crate) struct Groups {
    /// Group of each row, or [`NO_GROUP`].
    pub ids: Vec<u32>,
    /// First row of each group.
    pub firsts: Vec<u32>,
    /// Number of rows of each group.
    pub sizes: Vec<u32>,
}
impl Groups {
    /// Errors: more keys than 31-bit indices can address, out of memory.
    #[inline]
    pub(crate) fn of(device: &Device, keys: &RowKeys<'_>) -> Result<Groups> {
        with_keys!(keys, keys => Numbered::groups(device, keys, Wanted::Both))
    }
    /// Returns the first row of each group, and its number of rows.
    #[inline]
    pub(crate) fn sized(device: &Device, keys: &RowKeys<'_>) -> Result<(Vec<u32>, Vec<u32>)> {
        let Groups { firsts, sizes, .. } =
            with_keys!(keys, keys => Numbered::groups(device, keys, Wanted::Sizes))?;
        Ok((firsts, sizes))
    }
    /// Returns the group of each row, and the first row of each group.
    #[inline]
    pub(crate) fn uncounted(device: &Device, keys: &RowKeys<'_>) -> Result<(Vec<u32>, Vec<u32>)> {
        let Groups { ids, firsts, .. } =
            with_keys!(keys, keys => Numbered::groups(device, keys, Wanted::Ids))?;
        Ok((ids, firsts))
    }
    /// Returns the same groups by a map of all keys.
    #[inline]
    pub(crate) fn by_map(device: &Device, keys: &RowKeys<'_>) -> Result<Groups> {
        with_keys!(keys, keys => Ok(Numbered::by_map(device, keys, false)?.groups))
    }
    /// Returns the groups, and how to find those of other keys.
    #[inline]
    pub(crate) fn with_finder(device: &Device, keys: &RowKeys<'_>) -> Result<(Groups, Finder)> {
        fn parts<K: Mapped>(
            device: &Device,
            keys: K,
            finder: impl FnOnce(Numbers<K::Map>) -> Finder,
        ) -> Result<(Groups, Finder)> {
            let Numbered { groups, numbers } = Numbered::of(device, keys)?;
            let Some(numbers) = numbers else { unreachable!("they were wanted") };
            Ok((groups, finder(numbers)))
        }
        match keys {
            RowKeys::Bits32(keys) => parts(device, &keys[..], Finder::Bits32),
            RowKeys::Bits64(keys) => parts(device, &keys[..], Finder::Bits64),
            RowKeys::Bits128(keys) => parts(device, &keys[..], Finder::Bits128),
            RowKeys::Bytes(keys) => parts(device, *keys, Finder::Bytes),
            RowKeys::OwnBytes(offsets, bytes) => {
                let keys = ByteRows::of(Bytes::Offsets64(offsets, bytes));
                parts(device, keys, Finder::Bytes)
            }
        }
    }
    /// Returns the groups of rows of a longer column, of which these ones have the keys. Others are
    /// in no group.
    #[inline]
    pub(crate) fn of_rows(self, rows: &[u32], n: usize) -> Result<Groups> {
        let Groups { ids, firsts, sizes } = self;
        let firsts = collect(firsts.into_iter().map(|first| rows[first as usize]))?;
        Ok(Groups { ids: expanded(&ids, rows, n, NO_GROUP)?, firsts, sizes })
    }
    /// Returns the rows of each group.
    #[inline]
    pub(crate) fn by_group(&self, device: &Device) -> Result<ByGroup> {
        ByGroup::of(device, &self.ids, &self.sizes)
    }
    /// Returns the rows that are in no group, or in none of those found, ascending.
    #[inline]
    pub(crate) fn without(&self, found: &[u32]) -> Result<Vec<u32>> {
        let mut is_found = repeat(false, self.sizes.len())?;
        for &group in found {
            if let Some(is_found) = is_found.get_mut(group as usize) {
                *is_found = true;
            }
        }
        let is_alone = |id: u32| !is_found.get(id as usize).is_some_and(|&is_found| is_found);
        Ok(collect((0..).zip(&self.ids).filter(|(_, id)| is_alone(**id)).map(|(row, _)| row))?)
    }
}
/// Returns the answers for `n` rows, of which these ones have answers. Errors: out of memory.
pub(crate) fn expanded<T: Copy>(
    answers: &[T],
    rows: &[u32],
    n: usize,
    missing: T,
) -> Result<Vec<T>> {
    let mut all = repeat(missing, n)?;
    rows.iter().zip(answers).for_each(|(&row, &answer)| all[row as usize] = answer);
    Ok(all)
}
/// Map from keys to numbers, and the group of each number.
pub(crate) struct Numbers<M> {
    map: M,
    /// `None`: numbers are rows.
    groups: Option<Vec<u32>>,
}
impl<M> Numbers<M> {
    /// Returns the same groups, for numbers that are no longer rows.
    fn of_groups(self, ids: &[u32]) -> fallible::Result<Numbers<M>> {
        let groups = match self.groups {
            Some(groups) => groups,
            None => collect(ids.iter().copied())?,
        };
        Ok(Numbers { groups: Some(groups), ..self })
    }
}
/// Finds the groups of keys.
pub(crate) enum Finder {
    Bits32(Numbers<Map<u32, u32>>),
    Bits64(Numbers<Map<u64, u32>>),
    Bits128(Numbers<Map<u128, u32>>),
    Bytes(Numbers<StringMap<u32>>),
}
impl Finder {
    /// As [`Groups::of_rows`].
    #[inline]
    pub(crate) fn of_rows(
        self,
        groups: Groups,
        rows: &[u32],
        n: usize,
    ) -> Result<(Groups, Finder)> {
        let finder = match self {
            Finder::Bits32(of) => Finder::Bits32(of.of_groups(&groups.ids)?),
            Finder::Bits64(of) => Finder::Bits64(of.of_groups(&groups.ids)?),
            Finder::Bits128(of) => Finder::Bits128(of.of_groups(&groups.ids)?),
            Finder::Bytes(of) => Finder::Bytes(of.of_groups(&groups.ids)?),
        };
        Ok((groups.of_rows(rows, n)?, finder))
    }
    /// Returns the group of each key, or [`NO_GROUP`]. The keys are of the columns' types.
    #[inline]
    pub(crate) fn find(&self, groups: &Groups, keys: &RowKeys<'_>) -> Result<Vec<u32>> {
        fn found<K: Mapped>(
            groups: &Groups,
            Numbers { map, groups: of_numbers }: &Numbers<K::Map>,
            keys: K,
        ) -> Result<Vec<u32>> {
            let of_numbers = of_numbers.as_ref().unwrap_or(&groups.ids);
            let group = |number: Option<u32>| number.map_or(NO_GROUP, |n| of_numbers[n as usize]);
            Ok(collect(keys.numbers_in(map)?.into_iter().map(group))?)
        }
        match (self, keys) {
            (Finder::Bits32(of), RowKeys::Bits32(keys)) => found(groups, of, &keys[..]),
            (Finder::Bits64(of), RowKeys::Bits64(keys)) => found(groups, of, &keys[..]),
            (Finder::Bits128(of), RowKeys::Bits128(keys)) => found(groups, of, &keys[..]),
            (Finder::Bytes(of), RowKeys::Bytes(keys)) => found(groups, of, *keys),
            (Finder::Bytes(of), RowKeys::OwnBytes(offsets, bytes)) => {
                found(groups, of, ByteRows::of(Bytes::Offsets64(offsets, bytes)))
            }
            _ => unreachable!("keys of one type make keys of one kind"),
        }
    }
}

/// Groups of keys of one type.
struct Numbered<K: Mapped> {
    groups: Groups,
    /// `None` if it was not wanted.
    numbers: Option<Numbers<K::Map>>,
}
impl<K: Mapped> Numbered<K> {
    fn of(device: &Device, keys: K) -> Result<Numbered<K>> {
        match Numbered::numbered(device, keys, Wanted::Both)? {
            Some(groups) => {
                let map = keys.map_of(device, &groups.firsts, &groups.firsts)?;
                let numbers = Some(Numbers { map, groups: None });
                Ok(Numbered { groups, numbers })
            }
            None => Numbered::by_map(device, keys, true),
        }
    }
    /// Returns the groups, with ids or sizes if they are wanted.
    fn groups(device: &Device, keys: K, wanted: Wanted) -> Result<Groups> {
        match Numbered::numbered(device, keys, wanted)? {
            Some(groups) => Ok(groups),
            None => Ok(Numbered::by_map(device, keys, false)?.groups),
        }
    }
    /// Numbers keys without a map, if that pays.
    fn numbered(device: &Device, keys: K, wanted: Wanted) -> Result<Option<Groups>> {
        count32("keys", keys.len())?;
        if device.runs_kernels() {
            return Ok(None);
        }
        let with_ids = wanted != Wanted::Sizes;
        let mut ids = zeroed(if with_ids { keys.len() } else { 0 })?;
        let way = Way { counts: wanted != Wanted::Ids, other: Other::Map };
        let numbered = number(device, &keys, way, with_ids.then_some(&mut ids))?;
        Ok(numbered.map(|of| Groups { ids, firsts: of.firsts, sizes: of.counts }))
    }
    /// Builds a map from all keys to their first rows, and looks each of them up.
    fn by_map(device: &Device, keys: K, finds: bool) -> Result<Numbered<K>> {
        let rows = collect(0..count32("keys", keys.len())?)?;
        let map = keys.map_to(device, &rows)?;
        drop(rows);
        let groups = numbered(device, &keys.numbers_in(&map)?)?;
        Ok(Numbered { groups, numbers: finds.then_some(Numbers { map, groups: None }) })
    }
}
/// Numbers rows by the first row with the same key.
#[inline]
fn numbered(device: &Device, first_rows: &[Option<u32>]) -> Result<Groups> {
    let n = first_rows.len();
    let rows_of = |chunk: usize, of: &[Option<u32>]| {
        let start = (chunk * CHUNK) as u32;
        start..start + of.len() as u32
    };
    // All keys are in the map. If one were not, it would be a group of its own.
    let is_first = |&(row, first): &(u32, &Option<u32>)| first.is_none_or(|first| first >= row);
    let found = device.install(|| {
        parallel::map(first_rows.chunks(CHUNK), |chunk, of| {
            collect(rows_of(chunk, of).zip(of).filter(is_first).map(|(row, _)| row))
        })
    })?;
    let mut firsts = Vec::new();
    for found in &found {
        extend(&mut firsts, found.as_ref().map_err(|&e| e)?.iter().copied())?;
    }
    drop(found);
    // A first row comes before the others of its group.
    let mut of_first = repeat(NO_GROUP, n)?;
    (0..).zip(&firsts).for_each(|(id, &row)| of_first[row as usize] = id);
    let mut ids = repeat(0, n)?;
    let parts = ids.chunks_mut(CHUNK).zip(first_rows.chunks(CHUNK));
    device.install(|| {
        parallel::each(parts, |chunk, (ids, of)| {
            for ((to, row), first) in ids.iter_mut().zip(rows_of(chunk, of)).zip(of) {
                *to = of_first[first.map_or(row, |first| first.min(row)) as usize];
            }
        })
    });
    drop(of_first);
    let histogram = Histogram::of(device, &ids, firsts.len())?;
    Ok(Groups { sizes: histogram.total()?, ids, firsts })
}

/// How many rows of each group parts of a column have.
pub(crate) struct Histogram {
    /// Rows of each part.
    each: usize,
    groups: usize,
    /// A count for each group, part after part.
    counts: Vec<u32>,
}
impl Histogram {
    #[inline]
    pub(crate) fn of(device: &Device, ids: &[u32], groups: usize) -> Result<Histogram> {
        // All counts together take no more memory than the rows.
        let parts = (ids.len() / groups.max(CHUNK)).clamp(1, device.parallelism());
        let each = ids.len().div_ceil(parts).max(1);
        let mut counts = repeat(0, groups * ids.len().div_ceil(each))?;
        if groups > 0 {
            let parts = ids.chunks(each).zip(counts.chunks_mut(groups));
            device.install(|| {
                parallel::each(parts, |_, (ids, counts)| {
                    for &id in ids {
                        if let Some(count) = counts.get_mut(id as usize) {
                            *count += 1;
                        }
                    }
                })
            });
        }
        Ok(Histogram { each, groups, counts })
    }
    /// Returns the number of rows of each group.
    #[inline]
    pub(crate) fn total(&self) -> fallible::Result<Vec<u32>> {
        let mut total = repeat(0, self.groups)?;
        for counts in self.counts.chunks(self.groups.max(1)) {
            total.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
        }
        Ok(total)
    }
}

/// Rows of a column, by group, ascending.
pub(crate) struct ByGroup {
    /// Start of each group among the rows, and the end of the last one.
    starts: Vec<u32>,
    /// Written by several threads, each place by one.
    rows: Vec<AtomicU32>,
}
impl ByGroup {
    /// Sorts rows by counting.
    #[inline]
    fn of(device: &Device, ids: &[u32], sizes: &[u32]) -> Result<ByGroup> {
        let mut at = 0;
        let starts = sizes.iter().chain(&[0]).map(|size| (at, at += size).0);
        let starts = collect(starts)?;
        let Histogram { each, groups, counts: mut places } =
            Histogram::of(device, ids, sizes.len())?;
        // The place of the first row of each group in each part.
        let mut next = collect(starts[..groups].iter().copied())?;
        for places in places.chunks_mut(groups.max(1)) {
            for (place, next) in places.iter_mut().zip(&mut next) {
                (*place, *next) = (*next, *next + *place);
            }
        }
        drop(next);
        let rows = collect((0..at).map(|_| AtomicU32::new(0)))?;
        if groups > 0 {
            let parts = ids.chunks(each).zip(places.chunks_mut(groups));
            device.install(|| {
                parallel::each(parts, |part, (ids, places)| {
                    for (row, &id) in ((part * each) as u32..).zip(ids) {
                        if let Some(place) = places.get_mut(id as usize) {
                            rows[*place as usize].store(row, Relaxed);
                            *place += 1;
                        }
                    }
                })
            });
        }
        Ok(ByGroup { starts, rows })
    }
    /// Returns the number of rows of a group.
    #[inline]
    pub(crate) fn size(&self, group: u32) -> usize {
        let group = group as usize;
        (self.starts[group + 1] - self.starts[group]) as usize
    }
    /// Returns the rows of a group.
    #[inline]
    pub(crate) fn rows(&self, group: u32) -> impl ExactSizeIterator<Item = u32> {
        let group = group as usize;
        let of = self.starts[group] as usize..self.starts[group + 1] as usize;
        self.rows[of].iter().map(|row| row.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of first keys, groups, and rows by group, with parts of several threads.
    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn rows_are_numbered_and_sorted_by_group() {
        for threads in [1, 3] {
            let device = Device::cpu_with_threads(threads).unwrap();
            for (n, distinct) in
                [(0, 1), (1, 1), (CHUNK, 1), (5 * CHUNK + 1, 40), (4 * CHUNK, 3 * CHUNK)]
            {
                let keys = (0..n).map(|i| i * 7 % distinct).collect::<Vec<_>>();
                let mut firsts = vec![None; distinct];
                let first_rows = keys.iter().zip(0..).map(|(&key, row)| {
                    firsts[key].get_or_insert(row);
                    firsts[key]
                });
                let groups = numbered(&device, &first_rows.collect::<Vec<_>>()).unwrap();
                let count = n.min(distinct);
                assert_eq!((groups.firsts.len(), groups.sizes.len()), (count, count));
                assert!(groups.firsts.is_sorted());
                let by_group = groups.by_group(&device).unwrap();
                for group in 0..count as u32 {
                    let first = groups.firsts[group as usize];
                    let rows = (0..n).filter(|&row| keys[row] == keys[first as usize]);
                    if count < 100 || group % 1000 == 0 {
                        assert!(by_group.rows(group).eq(rows.map(|row| row as u32)), "{n} {group}");
                    }
                    assert_eq!(by_group.size(group), groups.sizes[group as usize] as usize);
                    assert_eq!(groups.ids[first as usize], group);
                }
                let alone = groups.without(&[0, NO_GROUP][..n.min(2)]).unwrap();
                assert_eq!(alone.len(), n - groups.sizes.first().map_or(0, |&size| size as usize));
            }
        }
    }
}
