//! The multi-value table and the compacting table of Alcantara et al. 2009.
//!
//! The two-level table with repeated keys: all pairs of a key fall into one bucket, which may then
//! hold more than 512 pairs, and a key has found a slot as soon as one of its pairs has. Each block
//! then makes the values of its keys adjacent, by atomics in shared memory. The compacting table
//! drops the values and numbers the keys by a prefix sum over the slots.
//!
//! There is one bucket per 409 input pairs, repeated keys included, so the tables become sparse as
//! keys repeat. Memory: 12 bytes per slot, with 1.41 slots per pair, and 4 per entry of the list. A
//! lookup reads the seed of its bucket and one to three slots.
use super::by_bucket::{self, ByBucket};
use super::input::{self, Pairs};
use super::lists::{self, ListKind, ListTable, Listed};
use super::restarts::{self, Attempt, Outcome};
use super::{Family, Options, SchemeReport, runs_kernels};
use crate::fallible::{collect, count32, push, repeat, with_room};
use koel::primitives::Scan;
use koel::{Buffer, Error, Result, Stream, View, ViewMut};
use koel_classic_kernels::two_level::{Inner, MAX_SEEDS, SUB_TABLES};
use koel_classic_kernels::two_level_multi::{
    MultiOut, TwoLevelMultiRef, two_level_multi_build, two_level_multi_find,
    two_level_multi_number, two_level_multi_present,
};
use koel_classic_kernels::{key_of, status, value_of};
use koel_kernels::hash::Functions;
use rayon::prelude::*;

/// Multi-value table: maps keys to their values.
#[derive(Clone, Copy, Debug)]
pub struct TwoLevelMulti;
/// Distinct keys, each with its own number: a two-way index.
#[derive(Clone, Copy, Debug)]
pub struct TwoLevelCompacting;

/// Number of slots per sub-table.
const SUB_SLOTS: u32 = 192;
/// Load factor, default and maximum: 409 pairs in 576 slots.
const LOAD: f64 = 409.0 / 576.0;

struct TwoLevelMultiTable {
    bucket_of: Functions,
    inner: Inner,
    seeds: Buffer<u32>,
    keys: Buffer<u32>,
    /// Start and count of the entries of each slot's key.
    places: Buffer<u64>,
    list: Buffer<u32>,
    report: SchemeReport,
}

impl ListKind for TwoLevelMulti {
    fn name(&self) -> &'static str {
        "two-level-multi"
    }
    fn about(&self) -> &'static str {
        "2009: buckets, each a cuckoo table of its distinct keys with their values side by side"
    }
    fn lists(&self) -> Listed {
        Listed::Values
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn ListTable>> {
        Ok(Box::new(build(stream, keys, values, options, true)?))
    }
}
impl ListKind for TwoLevelCompacting {
    fn name(&self) -> &'static str {
        "two-level-compacting"
    }
    fn about(&self) -> &'static str {
        "2009: the multi-value table without values, its keys numbered by a prefix sum"
    }
    fn lists(&self) -> Listed {
        Listed::Keys
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn ListTable>> {
        let mut built = build(stream, keys, values, options, false)?;
        let (device, slots) = (stream.device(), count32("slots", built.keys.len())?);
        let (mut present, mut ids) =
            (device.alloc::<u32>(slots as usize)?, device.alloc::<u32>(slots as usize)?);
        let mut scan = Scan::new(device, slots as usize)?;
        let mut unique = device.alloc::<u32>(built.report.pairs)?;
        let ((), seconds) = stream.time(|| {
            let grid = slots.div_ceil(two_level_multi_present::SPEC.threads);
            let (places, marks) = (
                built.places.view().arg("places", stream)?,
                present.view_mut().arg("present", stream)?,
            );
            // SAFETY: as many places and marks as slots.
            unsafe { two_level_multi_present::launch(stream, grid, slots, places, marks) }?;
            scan.exclusive(stream, present.view(), ids.view_mut())?;
            let (keys, ids) =
                (built.keys.view().arg("keys", stream)?, ids.view().arg("ids", stream)?);
            let (places, unique) = (
                built.places.view_mut().arg("places", stream)?,
                unique.view_mut().arg("unique", stream)?,
            );
            // SAFETY: as many keys, numbers and places as slots; the numbers are below the number
            // of distinct keys.
            unsafe {
                two_level_multi_number::launch(stream, grid, slots, keys, ids, places, unique)
            }
        })?;
        built.report.device_seconds += seconds;
        built.report.bytes -= built.list.bytes();
        built.report.bytes += unique.bytes();
        built.list = unique;
        Ok(Box::new(built))
    }
}

fn build(
    stream: &Stream,
    keys: View<'_, u32>,
    values: View<'_, u32>,
    options: &Options,
    has_values: bool,
) -> Result<TwoLevelMultiTable> {
    let (n, load) = lists::check(keys, values, options, (LOAD, LOAD))?;
    let pairs = Pairs { keys, values, n };
    let (mut built, report) = restarts::with_repeats(
        stream,
        pairs,
        Family::Linear2009,
        options.seed,
        |stream, pairs, number| attempt(stream, pairs, load, number, has_values),
    )?;
    let slots = built.keys.len();
    let distinct = built.report.pairs;
    let bytes =
        built.seeds.bytes() + built.keys.bytes() + built.places.bytes() + built.list.bytes();
    built.report =
        SchemeReport { pairs: distinct, duplicates: n as usize - distinct, slots, bytes, ..report };
    Ok(built)
}
fn attempt(
    stream: &Stream,
    pairs: Pairs<'_>,
    load: f64,
    attempt: Attempt,
    has_values: bool,
) -> Result<Outcome<TwoLevelMultiTable>> {
    let (device, n) = (stream.device(), pairs.n);
    let mean = load / attempt.growth * f64::from(SUB_TABLES * SUB_SLOTS);
    let buckets = input::groups(n, load, f64::from(n) / mean, SUB_TABLES * SUB_SLOTS)?;
    let slots = buckets as usize * (SUB_TABLES * SUB_SLOTS) as usize;
    let outer = by_bucket::family(attempt);
    let bucket_of = Functions::new(outer, 1, buckets, attempt.seed);
    let inner = Inner::new(attempt.family, buckets, SUB_SLOTS, attempt.seed as u32);
    let mut by_bucket = ByBucket::new(device, bucket_of, buckets as usize, n as usize)?;
    let (keys, places) = (device.alloc::<u32>(slots)?, device.alloc::<u64>(slots)?);
    let values = if has_values { n as usize } else { 0 };
    let (list, seeds) = (device.alloc::<u32>(values)?, device.alloc::<u32>(buckets as usize)?);
    let report = SchemeReport::default();
    let mut built = TwoLevelMultiTable { bucket_of, inner, seeds, keys, places, list, report };
    let mut status = device.alloc::<u32>(status::WORDS)?;
    let mut scan = Scan::new(device, buckets as usize)?;
    let ((), seconds) = stream.time(|| {
        // A bucket may hold any number of pairs.
        // SAFETY: memory for `n` pairs and for all buckets of `bucket_of`; `status::WORDS` words.
        unsafe { by_bucket.count(stream, pairs, u32::MAX, &mut status) }?;
        scan.exclusive(stream, by_bucket.counts.view(), by_bucket.starts.view_mut())?;
        // SAFETY: just counted, and scanned.
        unsafe { by_bucket.scatter(stream, pairs) }?;
        // SAFETY: `scatter` grouped the pairs by these buckets, and the list has room for `n`
        // values; three sub-tables and one seed per bucket.
        unsafe { built.build_buckets(stream, &by_bucket, &mut status) }
    })?;
    let status = status.download()?;
    let failed = status[status::FAILED as usize] != 0;
    built.report.pairs = status[status::KEYS as usize] as usize;
    Ok(Outcome { table: (!failed).then_some(built), seconds })
}

impl TwoLevelMultiTable {
    /// Builds the sub-tables of every bucket and makes the values of each key adjacent. On a GPU:
    /// one launch.
    ///
    /// # Safety
    /// The pairs are grouped by `bucket_of`, and the list has room for as many values. There are
    /// three sub-tables and a seed for each bucket, and `status::WORDS` words of status.
    unsafe fn build_buckets(
        &mut self,
        stream: &Stream,
        by_bucket: &ByBucket,
        status: &mut Buffer<u32>,
    ) -> Result<()> {
        let (inner, grid) = (self.inner, self.inner.buckets);
        if !runs_kernels(stream.device()) {
            return self.build_on_cpu(stream, by_bucket, status);
        }
        let buckets = by_bucket.arg(stream)?;
        let out = MultiOut {
            keys: self.keys.view_mut().arg("keys", stream)?,
            places: self.places.view_mut().arg("places", stream)?,
            values: self.list.view_mut().arg("list", stream)?,
            has_values: !self.list.is_empty() as u32,
            seeds: self.seeds.view_mut().arg("seeds", stream)?,
            status: status.view_mut().arg("status", stream)?,
        };
        // SAFETY: bucket `b` has `counts[b]` pairs starting at `starts[b]`, and its values have the
        // same range of the list, if it is not empty; three sub-tables per bucket.
        unsafe { two_level_multi_build::launch(stream, grid, inner, buckets, out) }
    }
    /// Does the block's work on the CPU: the same functions and seeds, with distinct keys inserted
    /// sequentially. Errors: out of memory.
    fn build_on_cpu(
        &mut self,
        stream: &Stream,
        by_bucket: &ByBucket,
        status: &mut Buffer<u32>,
    ) -> Result<()> {
        let inner = self.inner;
        let TwoLevelMultiTable { seeds, keys, places, list, .. } = self;
        let ByBucket { starts, counts, together, .. } = by_bucket;
        let (Some(starts), Some(counts), Some(pairs)) =
            (starts.view().host(), counts.view().host(), together.view().host())
        else {
            return Ok(());
        };
        let (mut keys, mut places) = (keys.view_mut(), places.view_mut());
        let (mut list, mut seeds) = (list.view_mut(), seeds.view_mut());
        let mut status = status.view_mut();
        let (Some(keys), Some(places), Some(mut list)) =
            (keys.host_mut(), places.host_mut(), list.host_mut())
        else {
            return Ok(());
        };
        let (Some(seeds), Some(status)) = (seeds.host_mut(), status.host_mut()) else {
            return Ok(());
        };
        // The slice of the list that each bucket fills; empty without values.
        let mut lists = with_room(counts.len())?;
        for &count in counts {
            let (mine, rest) = list.split_at_mut((count as usize).min(list.len()));
            push(&mut lists, mine)?;
            list = rest;
        }
        let built = stream.device().install(|| {
            let buckets = lists
                .into_par_iter()
                .enumerate()
                .zip(seeds.par_iter_mut())
                .zip(starts.par_iter().zip(counts));
            let built = buckets.map(|(((b, list), seed), (&start, &count))| {
                // Equal keys keep their order: pairs with their numbers.
                let of_bucket = &pairs[start as usize..][..count as usize];
                let mut items = collect(of_bucket.iter().copied().zip(0u32..))?;
                items.sort_unstable_by_key(|&(e, i)| (key_of(e), i));
                let items = collect(items.into_iter().map(|(e, _)| e))?;
                list.iter_mut().zip(&items).for_each(|(value, e)| *value = value_of(*e));
                let mut place = start;
                let groups = items.chunk_by(|a, b| key_of(*a) == key_of(*b)).map(|group| {
                    place += group.len() as u32;
                    (
                        key_of(group[0]),
                        (group.len() as u64) << 32 | u64::from(place - group.len() as u32),
                    )
                });
                let groups = collect(groups)?;
                let tried = std::iter::successors(Some(inner.seed), |&s| Some(Inner::next_seed(s)));
                let mut tried = tried.take(MAX_SEEDS as usize);
                let mut slots = repeat(FREE, (SUB_TABLES * SUB_SLOTS) as usize)?;
                let placed = tried.find(|&s| place_keys(&groups, inner, s, &mut slots));
                *seed = placed.unwrap_or(inner.seed);
                Ok::<_, Error>((b as u32, groups, placed.is_some().then_some(slots)))
            });
            let mut all = with_room(counts.len())?;
            built.collect_into_vec(&mut all);
            Ok::<_, Error>(all)
        })?;
        places.fill(0);
        for built in built {
            let (b, groups, slots) = built?;
            let Some(slots) = slots else {
                status[status::FAILED as usize] += 1;
                continue;
            };
            status[status::KEYS as usize] += groups.len() as u32;
            for (slot, group) in slots.into_iter().enumerate().filter(|(_, group)| *group != FREE) {
                let (j, slot) = (slot as u32 / SUB_SLOTS, slot as u32 % SUB_SLOTS);
                let at = inner.place(j, b, slot) as usize;
                (keys[at], places[at]) = groups[group as usize];
            }
        }
        Ok(())
    }
}
/// Marker of an empty slot.
const FREE: u32 = u32::MAX;
/// Sets the number of the key in each slot of the bucket's sub-tables. Returns whether all keys
/// found a slot.
fn place_keys(groups: &[(u32, u64)], inner: Inner, seed: u32, slots: &mut [u32]) -> bool {
    const MAX_MOVES: u32 = 600;
    slots.fill(FREE);
    for i in 0..groups.len() as u32 {
        let (mut group, mut moves) = (i, 0);
        while group != FREE {
            if moves == MAX_MOVES {
                return false;
            }
            let j = moves % SUB_TABLES;
            let slot = j * SUB_SLOTS + inner.slot(j, groups[group as usize].0, seed);
            group = std::mem::replace(&mut slots[slot as usize], group);
            moves += 1;
        }
    }
    true
}

impl ListTable for TwoLevelMultiTable {
    fn report(&self) -> &SchemeReport {
        &self.report
    }
    fn list(&self) -> View<'_, u32> {
        self.list.view()
    }
    fn get_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        mut starts: ViewMut<'_, u32>,
        mut counts: ViewMut<'_, u32>,
    ) -> Result<()> {
        let args = lists::find_args(stream, &queries, &mut starts, &mut counts)?;
        let grid = args.n.div_ceil(two_level_multi_find::SPEC.threads);
        let table = TwoLevelMultiRef {
            bucket_of: self.bucket_of,
            inner: self.inner,
            seeds: self.seeds.view().arg("seeds", stream)?,
            keys: self.keys.view().arg("keys", stream)?,
            places: self.places.view().arg("places", stream)?,
        };
        // SAFETY: `n` queries and answers; the table was built with these functions.
        unsafe { two_level_multi_find::launch(stream, grid, table, args) }
    }
}
