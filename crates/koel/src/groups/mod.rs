//! Groups of equal keys: indexes and multimaps.
//!
//! An index numbers keys in order of first occurrence (`store`). A multimap sorts its pairs; each
//! run of equal keys is a group, and groups are numbered in key order. Where no order is requested,
//! the pairs are partitioned by hash (`parting`) instead.
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
mod counting;
mod file;
mod grouped;
mod index;
mod multi_map;
mod parting;
pub mod reduction;
mod store;

use crate::device::{Apart, Buffer, Device, Element, Stream, View, ViewMut};
use crate::error::{Result, check_length, count32};
use crate::map::MapOptions;
use crate::primitives::Runs;
use crate::set::SetOptions;
use crate::types::{Bits, KeyBits};
pub(crate) use grouped::{Grouped, IdGrouper};
pub use index::{Index, IndexBuilder, group_counts};
pub use koel_kernels::groups::MultiMapRef;
use koel_kernels::groups::{self as kernels, LONG, QUERIES, Retrieval, THREADS};
use koel_simt::{Arg, Word};
use multi_map::KeyGrouper;
pub use multi_map::{MultiMap, MultiMapBuilder, MultiMapOptions, Retrieved, Retriever, ValueOrder};
use std::ops::Range;
pub(crate) use store::{IndexStore, SlotIndex};

#[cfg(doc)]
use crate::Map;
use crate::fallible::push;
use crate::parallel;

/// Id of a key that is not in an [`Index`].
pub const NO_ID: u32 = u32::MAX;

/// Build options of an index.
#[derive(Clone, Copy, Debug)]
pub struct IndexOptions {
    /// Load factor in keys per slot of the table, 0.3 to 0.95. High loads save memory, low loads
    /// save time.
    pub load: f64,
    /// Hash seed, as for a [map](crate::MapOptions::seed). Answers do not depend on it.
    pub seed: Option<u32>,
}
crate::options::setters! { IndexOptions:
    load by with_load: f64;
    seed by with_seed: impl Into<Option<u32>>;
}
impl Default for IndexOptions {
    #[inline]
    fn default() -> Self {
        IndexOptions { load: 0.8, seed: None }
    }
}
impl IndexOptions {
    /// Returns the options of a map of distinct keys.
    #[inline]
    fn of_map(self) -> MapOptions {
        let IndexOptions { load, seed } = self;
        MapOptions::default()
            .with_load(load)
            .with_seed(seed)
            .with_duplicates(crate::Duplicates::Unchecked)
    }
    /// Returns the options of a set of keys in rows.
    #[inline]
    pub(crate) fn of_set(self) -> SetOptions {
        let IndexOptions { load, seed } = self;
        SetOptions::default().with_load(load).with_seed(seed)
    }
}

/// Key types of numbered groups: `u32`, `u64`, `u128`.
pub trait GroupKey: Element + Default + Word + Arg {}
impl<K: Element + Default + Word + Arg> GroupKey for K {}

/// State for sorting keys and finding the groups among them: a sort plan and memory.
struct Sorting<K, S> {
    sort: S,
    sorted: Buffer<K>,
    runs: Runs,
}
impl<K: KeyBits, S> Sorting<K, S> {
    /// Returns a state for `n` keys: the kept one if it is large enough, or one with a plan made by
    /// `sort`.
    fn reserve<'a>(
        device: &Device,
        kept: &'a mut Option<Sorting<K, S>>,
        n: usize,
        sort: impl FnOnce() -> Result<S>,
    ) -> Result<&'a mut Sorting<K, S>> {
        let make =
            || Ok(Sorting { sort: sort()?, sorted: device.alloc(n)?, runs: Runs::new(device, n)? });
        reserve(kept, |kept| kept.sorted.len() >= n, make)
    }
    /// Returns the number of bytes held, including `of_sort` bytes of the plan.
    fn bytes(&self, of_sort: usize) -> usize {
        of_sort + self.sorted.bytes() + self.runs.scratch_bytes()
    }
}
/// Returns the kept object if it is large enough, or a new one from `make`.
pub(crate) fn reserve<T>(
    kept: &mut Option<T>,
    enough: impl FnOnce(&T) -> bool,
    make: impl FnOnce() -> Result<T>,
) -> Result<&mut T> {
    let memory = match kept.take() {
        Some(memory) if enough(&memory) => memory,
        // Free the old one first: both may not fit together.
        old => {
            drop(old);
            make()?
        }
    };
    Ok(kept.insert(memory))
}
/// Memory for groups as they are found.
struct Grouping<K> {
    distinct: Buffer<K>,
    starts: Buffer<u32>,
    /// Numbers counting up from 0.
    numbers: Buffer<u32>,
    /// Number of groups, and a flag for failed grouping.
    count: Buffer<u32>,
}
/// Final groups: the key of each group, the start of each group among all elements, and the end of
/// the last one.
struct Groups<K> {
    keys: Buffer<K>,
    starts: Buffer<u32>,
}
impl<K: KeyBits> Grouping<K> {
    /// Allocates memory for at most `max_n` keys.
    fn new(device: &Device, max_n: usize) -> Result<Grouping<K>> {
        Ok(Grouping {
            distinct: device.alloc(max_n)?,
            starts: device.alloc(max_n + 1)?,
            numbers: numbers(device, 0, max_n)?,
            count: device.alloc(2)?,
        })
    }
    /// Returns memory for `n` keys: the kept one if it is large enough.
    fn reserve<'a>(
        device: &Device,
        kept: &'a mut Option<Grouping<K>>,
        n: usize,
    ) -> Result<&'a mut Grouping<K>> {
        reserve(kept, |kept| kept.distinct.len() >= n, || Grouping::new(device, n))
    }
    fn bytes(&self) -> usize {
        self.distinct.bytes() + self.starts.bytes() + self.numbers.bytes() + self.count.bytes()
    }
    /// Finds the groups of the first `n` sorted keys. Waits.
    fn of_sorted<S>(
        &mut self,
        stream: &Stream,
        sorting: &mut Sorting<K, S>,
        n: usize,
    ) -> Result<Groups<K>> {
        let distinct = self.distinct.view_mut().slice(..n)?;
        let starts = self.starts.view_mut().slice(..n + 1)?;
        sorting.runs.run(
            stream,
            sorting.sorted.view().slice(..n)?,
            distinct,
            starts,
            self.count.view_mut().slice(..1)?,
        )?;
        let groups = self.count.view().slice(..1)?.download()?[0] as usize;
        self.kept(stream, groups)
    }
    /// Copies the groups found to buffers of exact size.
    fn kept(&mut self, stream: &Stream, groups: usize) -> Result<Groups<K>> {
        let device = stream.device();
        let (mut keys, mut starts) = (device.alloc(groups)?, device.alloc(groups + 1)?);
        keys.view_mut().copy_from(self.distinct.view().slice(..groups)?, stream)?;
        starts.view_mut().copy_from(self.starts.view().slice(..groups + 1)?, stream)?;
        Ok(Groups { keys, starts })
    }
}
/// Returns `n` numbers from `first` on.
#[inline]
pub(crate) fn numbers(device: &Device, first: u32, n: usize) -> Result<Buffer<u32>> {
    let stream = device.stream()?;
    let numbers = numbers_on(&stream, first, n)?;
    stream.synchronize()?;
    Ok(numbers)
}
/// Returns `n` numbers from `first` on, in the order of a stream.
#[inline]
pub(crate) fn numbers_on(stream: &Stream, first: u32, n: usize) -> Result<Buffer<u32>> {
    let (device, mut numbers) = (stream.device(), stream.device().alloc(n)?);
    let mut view = numbers.view_mut();
    let to = view.arg("numbers", stream)?;
    if !device.runs_kernels() {
        for (number, i) in view.host_mut().unwrap_or(&mut []).iter_mut().zip(first..) {
            *number = i;
        }
    } else if n > 0 {
        let n = count32("groups", n)?;
        // SAFETY: `n` numbers.
        unsafe { kernels::group_numbers::launch(stream, n.div_ceil(THREADS), n, first, to)? };
    }
    Ok(numbers)
}

/// Writes the key of group `ids[i]`, or `missing`, to `out[i]`.
pub(crate) fn keys_of<K: GroupKey>(
    stream: &Stream,
    ids: View<'_, u32>,
    keys: View<'_, K>,
    missing: K,
    mut out: ViewMut<'_, K>,
) -> Result<()> {
    let _apart = Apart::begin();
    check_length("keys", out.len(), "ids", ids.len())?;
    let (n, groups) = (count32("ids", ids.len())?, keys.len() as u32);
    let (from, of_groups, to) =
        (ids.arg("ids", stream)?, keys.arg("index", stream)?, out.arg("keys", stream)?);
    if stream.device().runs_kernels() && n > 0 {
        // SAFETY: `n` ids and keys, and the keys of all groups.
        return unsafe {
            kernels::group_keys::launch(
                stream,
                n.div_ceil(THREADS),
                n,
                groups,
                missing,
                from,
                of_groups,
                to,
            )
        };
    }
    if let (Some(ids), Some(keys), Some(out)) = (ids.host(), keys.host(), out.host_mut()) {
        let key = |&id: &u32| keys.get(id as usize).copied().unwrap_or(missing);
        let parts = out.chunks_mut(CHUNK).zip(ids.chunks(CHUNK));
        stream.device().install(|| {
            parallel::each(parts, |_, (out, ids)| {
                out.iter_mut().zip(ids).for_each(|(to, id)| *to = key(id))
            })
        });
    }
    Ok(())
}
/// Elements that a thread takes at a time.
const CHUNK: usize = 1 << 12;
/// Returns the range of the elements of group `id`, out of `held` elements; empty if there is no
/// such group. Clamps starts from an unverified file to `held`.
#[inline]
fn places(starts: &[u32], id: u32, held: usize) -> Range<usize> {
    match starts.get(id as usize..).and_then(|starts| starts.first_chunk()) {
        Some(&[start, end]) => {
            let end = (end as usize).min(held);
            (start as usize).min(end)..end
        }
        None => 0..0,
    }
}
/// Replaces each group number by the size of the group, out of `held` elements; 0 if there is no
/// such group.
#[inline]
fn sizes_of(
    stream: &Stream,
    mut ids: ViewMut<'_, u32>,
    starts: View<'_, u32>,
    held: usize,
) -> Result<()> {
    let _apart = Apart::begin();
    let (n, groups) = (count32("ids", ids.len())?, starts.len() as u32 - 1);
    let (of_groups, to) = (starts.arg("groups", stream)?, ids.arg("ids", stream)?);
    if stream.device().runs_kernels() && n > 0 {
        // SAFETY: `n` ids; the starts of all groups and the end of the last one.
        return unsafe {
            kernels::group_sizes_of::launch(stream, n.div_ceil(THREADS), n, groups, of_groups, to)
        };
    }
    if let (Some(ids), Some(starts)) = (ids.host_mut(), starts.host()) {
        stream.device().install(|| {
            parallel::each(ids.chunks_mut(CHUNK), |_, ids| {
                ids.iter_mut().for_each(|id| *id = places(starts, *id, held).len() as u32)
            })
        });
    }
    Ok(())
}
/// Replaces each group number by the start of the group and writes its size, out of `held`
/// elements; both are 0 if there is no such group. Sets the sizes after those of the ids to 0.
#[inline]
fn places_of(
    stream: &Stream,
    mut ids: ViewMut<'_, u32>,
    starts: View<'_, u32>,
    held: usize,
    mut sizes: ViewMut<'_, u64>,
) -> Result<()> {
    let _apart = Apart::begin();
    let (n, all, groups) =
        (count32("ids", ids.len())?, count32("sizes", sizes.len())?, starts.len() as u32 - 1);
    let (begins, of_groups, to) =
        (ids.arg("ids", stream)?, starts.arg("groups", stream)?, sizes.arg("sizes", stream)?);
    if stream.device().runs_kernels() && all > 0 {
        let grid = all.div_ceil(THREADS);
        // SAFETY: `n` ids and `all` sizes, where `all >= n`; the starts of all groups and the end
        // of the last one.
        return unsafe {
            kernels::group_places::launch(stream, grid, n, all, groups, begins, of_groups, to)
        };
    }
    if let (Some(ids), Some(starts), Some(sizes)) =
        (ids.host_mut(), starts.host(), sizes.host_mut())
    {
        let (of_ids, behind) = sizes.split_at_mut(ids.len());
        behind.fill(0);
        let place = |(id, size): (&mut u32, &mut u64)| {
            let of = places(starts, *id, held);
            (*id, *size) = (of.start as u32, of.len() as u64);
        };
        let parts = ids.chunks_mut(CHUNK).zip(of_ids.chunks_mut(CHUNK));
        stream.device().install(|| {
            parallel::each(parts, |_, (ids, sizes)| ids.iter_mut().zip(sizes).for_each(place))
        });
    }
    Ok(())
}
/// Returns the size of each group.
#[inline]
fn sizes(stream: &Stream, starts: View<'_, u32>) -> Result<Buffer<u32>> {
    let mut sizes = stream.device().alloc(starts.len() - 1)?;
    let groups = count32("groups", sizes.len())?;
    let (from, to) = (starts.arg("groups", stream)?, sizes.view_mut().arg("sizes", stream)?);
    if !stream.device().runs_kernels() {
        if let (Some(starts), Some(sizes)) = (starts.host(), sizes.view_mut().host_mut()) {
            for (size, of) in sizes.iter_mut().zip(starts.windows(2)) {
                *size = of[1] - of[0];
            }
        }
    } else if groups > 0 {
        // SAFETY: one size per group.
        unsafe {
            kernels::group_sizes::launch(stream, groups.div_ceil(THREADS), groups, from, to)?
        };
    }
    Ok(sizes)
}
/// Copies the values starting at `begins[i]` to `out[offsets[i]..offsets[i + 1]]`. `rest` is one
/// word of scratch memory.
fn retrieve<V: Bits>(
    stream: &Stream,
    begins: View<'_, u32>,
    offsets: View<'_, u64>,
    values: View<'_, V>,
    mut out: ViewMut<'_, V>,
    mut rest: ViewMut<'_, u32>,
) -> Result<()> {
    let _apart = Apart::begin();
    let (n, room) = (count32("queries", begins.len())?, out.len() as u64);
    let of = Retrieval::<V> {
        begins: begins.arg("places", stream)?,
        offsets: offsets.arg("offsets", stream)?,
        values: values.arg("multimap", stream)?,
        out: out.arg("values", stream)?,
        room,
        held: values.len() as u32,
        n,
    };
    if stream.device().runs_kernels() && n > 0 {
        let parts = count32("values", room.div_ceil(LONG as u64) as usize)?;
        rest.fill_bytes(0, stream)?;
        let flag = rest.arg("rest", stream)?;
        // SAFETY: `n` places and `n + 1` offsets; the kernel reads below `held` and writes below
        // `room`.
        unsafe { kernels::retrieve::launch(stream, n.div_ceil(QUERIES), of, flag) }?;
        if parts > 0 {
            let flag = rest.view().arg("rest", stream)?;
            // SAFETY: as above.
            unsafe { kernels::retrieve_rest::launch(stream, parts, of, flag) }?;
        }
        return Ok(());
    }
    if let (Some(begins), Some(offsets), Some(values), Some(mut out)) =
        (begins.host(), offsets.host(), values.host(), out.host_mut())
    {
        // Parts with about equal numbers of values.
        let total = offsets.last().copied().unwrap_or(0).min(room);
        let share = (total as usize).div_ceil(stream.device().parallelism() * 4).max(1 << 12);
        let (mut parts, mut query) = (Vec::new(), 0);
        while query < begins.len() {
            let first = query;
            let full = offsets[first] + share as u64;
            query = (first + 1)
                .max(first + offsets[first..].partition_point(|&o| o < full))
                .min(begins.len());
            let len = (offsets[query].min(room) - offsets[first].min(room)) as usize;
            let (part, rest) = std::mem::take(&mut out).split_at_mut(len);
            push(&mut parts, (first..query, part))?;
            out = rest;
        }
        let write = |_, (queries, mut part): (Range<usize>, &mut [V])| {
            for query in queries {
                let begin = (begins[query] as usize).min(values.len());
                let len = (offsets[query + 1] - offsets[query]) as usize;
                let of = &values[begin..][..len.min(values.len() - begin)];
                let (to, rest) = part.split_at_mut(of.len().min(part.len()));
                to.copy_from_slice(&of[..to.len()]);
                part = rest;
            }
        };
        stream.device().install(|| parallel::each(parts.into_iter(), write));
    }
    Ok(())
}
