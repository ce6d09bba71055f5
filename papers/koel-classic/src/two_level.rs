//! The two-level table of Alcantara et al. 2009, "Real-Time Parallel Hashing on the GPU".
//!
//! Keys are spread over buckets of at most 512 pairs (409 on average). One block turns each bucket
//! into a cuckoo table of three sub-tables of 192 slots in shared memory, with functions of its
//! own. The first sub-tables of all buckets are contiguous, followed by the second and the third
//! ones. The paper's variant with buckets of 1024 pairs serves loads above 0.71.
//!
//! Two of the paper's suggestions for future work are options. With two choices, a key goes to the
//! less loaded of two buckets: buckets differ little, so they may be fuller (478 pairs of 512 on
//! average) and hardly ever overflow. With `sized`, a bucket of `c` pairs has sub-tables of
//! `c / (3 load)` slots, rounded up, or one more: all buckets are equally full, up to a load of
//! 0.85. The places of the sub-tables follow from the prefix sum over the buckets' counts, which
//! the table keeps.
//!
//! Memory: 8 / load bytes per pair and 4 per bucket, 8 if sized; a build temporarily takes another
//! 12 bytes per pair. A lookup reads the seed of its bucket (and its bounds, if sized) and one to
//! three slots; with two choices, it reads up to two buckets. The report has the number of pairs in
//! the fullest bucket, which one more launch finds; the time of the build excludes it.
use super::by_bucket::{self, ByBucket};
use super::input::{self, Pairs};
use super::restarts::{self, Attempt, Outcome};
use super::{Family, Kind, Options, SchemeReport, Table, cpu, find_args, runs_kernels};
use crate::fallible::{collect, count32};
use koel::primitives::{self, Scan};
use koel::{Buffer, Error, Result, Stream, View, ViewMut};
use koel_classic_kernels::two_level::{
    Inner, MAX_SEEDS, Part, SUB_TABLES, TwoLevelRef, two_level_build_512, two_level_build_1024,
    two_level_find,
};
use koel_classic_kernels::{BucketsOut, EMPTY, key_of, status};
use koel_kernels::hash::Functions;
use rayon::prelude::*;

/// Parameters of the paper.
#[derive(Clone, Debug)]
pub struct TwoLevel {
    /// Hash family of the buckets (after a first attempt with the key modulo their number) and of
    /// the functions inside them.
    pub family: Family,
    /// Number of buckets, 1 or 2, of which a key takes the less loaded one. With 2, the functions
    /// to buckets are of the family `Mixed` if `family` is [`Family::Linear2009`].
    pub choices: u32,
    /// Whether sub-tables are sized by the number of pairs in their bucket. A sub-table has at most
    /// 32 slots per pair, so no load is below 0.0105.
    pub sized: bool,
}
impl TwoLevel {
    /// The paper's family, [`Family::Linear2009`], one bucket per key, and sub-tables of one size.
    pub const PUBLISHED: TwoLevel =
        TwoLevel { family: Family::Linear2009, choices: 1, sized: false };
    /// The less loaded of two buckets.
    pub const TWO_CHOICES: TwoLevel = TwoLevel { choices: 2, ..TwoLevel::PUBLISHED };
    /// Sub-tables sized by their bucket.
    pub const SIZED: TwoLevel = TwoLevel { sized: true, ..TwoLevel::PUBLISHED };
}

/// Geometry of the buckets.
#[derive(Clone, Copy)]
struct Geometry {
    /// Maximum number of pairs per bucket: the threads of the block that builds it.
    limit: u32,
    sub_slots: u32,
    max_load: f64,
}
impl Geometry {
    const B512: Geometry = Geometry { limit: 512, sub_slots: 192, max_load: 409.0 / 576.0 };
    /// A load of 0.75 at 880 pairs per bucket on average: 1024 is then as many standard deviations
    /// away as 512 is from 409.
    const B1024: Geometry = Geometry { limit: 1024, sub_slots: 391, max_load: 0.7502 };
    /// 478 pairs of 512 on average. Above, functions that place all pairs of a bucket become rare.
    const TWO_CHOICES: Geometry = Geometry { max_load: 0.83, ..Geometry::B512 };
    fn of(kind: &TwoLevel, load: f64) -> Geometry {
        match (kind.choices, kind.sized) {
            (1, false) if load > Geometry::B512.max_load => Geometry::B1024,
            (1, _) => Geometry::B512,
            _ => Geometry::TWO_CHOICES,
        }
    }
}

/// Maximum load with sized sub-tables.
const MAX_SIZED_LOAD: f64 = 0.85;
/// Maximum number of slots of a sized sub-table: per pair, and in all. A block holds three
/// sub-tables in its shared memory.
const MAX_PER_PAIR: f64 = 32.0;
const MAX_SUB_SLOTS: u32 = 1024;

struct TwoLevelTable {
    bucket_of: Functions,
    inner: Inner,
    all_ones: u32,
    table: Buffer<u64>,
    seeds: Buffer<u32>,
    /// First pair of each bucket, and the end of the last one: empty if all sub-tables are equally
    /// large.
    starts: Buffer<u32>,
    report: SchemeReport,
}

impl Kind for TwoLevel {
    fn name(&self) -> &'static str {
        match (self.choices, self.sized) {
            (2, false) => "two-level-2-choices",
            (2, true) => "two-level-2-choices-sized",
            (_, false) => "two-level",
            (_, true) => "two-level-sized",
        }
    }
    fn about(&self) -> &'static str {
        match (self.choices, self.sized) {
            (2, false) => "2009, section 7: two-level, a key in the less loaded of two buckets",
            (2, true) => {
                "2009, section 7: two-level, two choices, sub-tables sized by their bucket"
            }
            (_, false) => "2009: buckets, each a cuckoo table built in shared memory",
            (_, true) => "2009, section 7: two-level, sub-tables sized by their bucket",
        }
    }
    fn default_load(&self) -> f64 {
        if self.choices == 2 || self.sized { 0.8 } else { Geometry::B512.max_load }
    }
    fn max_load(&self) -> f64 {
        if self.sized { MAX_SIZED_LOAD } else { Geometry::of(self, 1.0).max_load }
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn Table>> {
        if !(1..=2).contains(&self.choices) {
            let (found, expected) = (self.choices.to_string(), "1 or 2".into());
            return Err(Error::Setting { field: "choices", found, expected });
        }
        let attempt = |stream: &Stream, pairs: Pairs<'_>, load, attempt| {
            attempt_build(self, stream, pairs, load, attempt)
        };
        restarts::build(self, self.family, stream, (keys, values), options, attempt)
    }
}
impl restarts::Restarting for TwoLevelTable {
    fn complete(&mut self, report: SchemeReport) {
        self.report = SchemeReport {
            slots: self.table.len(),
            bytes: self.table.bytes() + self.seeds.bytes() + self.starts.bytes(),
            largest_bucket: self.report.largest_bucket,
            ..report
        };
    }
}

fn attempt_build(
    kind: &TwoLevel,
    stream: &Stream,
    pairs: Pairs<'_>,
    load: f64,
    attempt: Attempt,
) -> Result<Outcome<TwoLevelTable>> {
    let (device, n, geometry) = (stream.device(), pairs.n, Geometry::of(kind, load));
    // Sub-tables of the most slots per pair have this load.
    let least = if kind.sized { 1.0 / (f64::from(SUB_TABLES) * MAX_PER_PAIR) } else { 0.0 };
    let load = (load / attempt.growth).max(least);
    let mean = load.min(geometry.max_load) * (3 * geometry.sub_slots) as f64;
    let each = if kind.sized { 1 } else { SUB_TABLES * geometry.sub_slots };
    let buckets = input::groups(n, load, n as f64 / mean, each)?;
    let outer = match by_bucket::family(attempt) {
        // The key modulo the number of buckets is one choice.
        Family::Modulo if kind.choices == 2 => Family::Mixed,
        outer => outer,
    };
    let bucket_of = Functions::new(outer, kind.choices, buckets, attempt.seed);
    let Sizes { inner, limit, slots } = sizes(kind, geometry, buckets, n, load, attempt)?;

    // One more bucket if the table needs the end of the last one: it stays empty.
    let counted = buckets as usize + kind.sized as usize;
    let mut by_bucket = ByBucket::new(device, bucket_of, counted, n as usize)?;
    let table = device.alloc::<u64>(slots)?;
    let seeds = device.alloc::<u32>(buckets as usize)?;
    let starts = device.alloc::<u32>(0)?;
    let mut status = device.alloc::<u32>(status::WORDS)?;
    let mut scan = Scan::new(device, counted)?;

    // Phase 1: count, and check for buckets over the limit.
    let ((), counting) = stream.time(|| {
        // SAFETY: memory for `n` pairs and for all buckets of `bucket_of`; `status::WORDS` words.
        unsafe { by_bucket.count(stream, pairs, limit, &mut status) }
    })?;
    if status.download()?[status::FAILED as usize] != 0 {
        return Ok(Outcome { table: None, seconds: counting });
    }
    let report = SchemeReport::default();
    let mut built = TwoLevelTable { bucket_of, inner, all_ones: 0, table, seeds, starts, report };
    // Scatter, then phase 2: build every bucket.
    let ((), building) = stream.time(|| {
        scan.exclusive(stream, by_bucket.counts.view(), by_bucket.starts.view_mut())?;
        // SAFETY: counted above, and scanned.
        unsafe { by_bucket.scatter(stream, pairs) }?;
        // SAFETY: `scatter` grouped the pairs by these buckets, at most `limit` each; three
        // sub-tables and one seed per bucket.
        unsafe { built.build_buckets(stream, geometry.limit, &by_bucket, &mut status) }
    })?;
    let seconds = counting + building;
    let status = status.download()?;
    if status[status::FAILED as usize] != 0 {
        return Ok(Outcome { table: None, seconds });
    }
    built.all_ones = status[status::ALL_ONES as usize];
    built.report.largest_bucket = Some(primitives::max(stream, by_bucket.counts.view())? as usize);
    if kind.sized {
        built.starts = by_bucket.starts;
    }
    Ok(Outcome { table: Some(built), seconds })
}

/// Sizes of the sub-tables of an attempt.
struct Sizes {
    inner: Inner,
    /// Maximum number of pairs per bucket.
    limit: u32,
    /// Number of slots in all.
    slots: usize,
}
/// Sizes the sub-tables for `n` pairs in `buckets` buckets at a load.
fn sizes(
    kind: &TwoLevel,
    geometry: Geometry,
    buckets: u32,
    n: u32,
    load: f64,
    attempt: Attempt,
) -> Result<Sizes> {
    let Geometry { limit, sub_slots, .. } = geometry;
    let (family, seed) = (attempt.family, attempt.seed as u32);
    if !kind.sized {
        let slots = buckets as usize * (SUB_TABLES * sub_slots) as usize;
        return Ok(Sizes { inner: Inner::new(family, buckets, sub_slots, seed), limit, slots });
    }
    let per_pair = (1.0 / (f64::from(SUB_TABLES) * load)).min(MAX_PER_PAIR);
    let slots = (f64::from(n) * per_pair) as usize + buckets as usize;
    count32("slots", SUB_TABLES as usize * slots)?;
    let limit = limit.min((f64::from(MAX_SUB_SLOTS - 2) / per_pair) as u32);
    let sub_slots = 2 + (f64::from(limit) * per_pair) as u32;
    let inner = Inner::sized(family, buckets, sub_slots, seed, (per_pair, n));
    Ok(Sizes { inner, limit, slots: (SUB_TABLES * inner.stride()) as usize })
}

impl TwoLevelTable {
    /// Phase 2: builds the sub-tables of every bucket. On a GPU: one launch.
    ///
    /// # Safety
    /// The pairs are grouped by `bucket_of`, at most `limit` per bucket, where `limit` is that of a
    /// [`Geometry`]. There are three sub-tables and a seed for each bucket, and `status::WORDS`
    /// words of status.
    unsafe fn build_buckets(
        &mut self,
        stream: &Stream,
        limit: u32,
        by_bucket: &ByBucket,
        status: &mut Buffer<u32>,
    ) -> Result<()> {
        let (inner, grid) = (self.inner, self.inner.buckets);
        if !runs_kernels(stream.device()) {
            let (table, seeds) = (&mut self.table, &mut self.seeds);
            return build_on_cpu(stream, inner, by_bucket, table, seeds, status);
        }
        let buckets = by_bucket.arg(stream)?;
        let out = BucketsOut {
            slots: self.table.view_mut().arg("table", stream)?,
            seeds: self.seeds.view_mut().arg("seeds", stream)?,
            status: status.view_mut().arg("status", stream)?,
        };
        // SAFETY: bucket `b` has `counts[b]` pairs starting at `starts[b]`, no more than the block
        // has threads; the table has three sub-tables per bucket.
        unsafe {
            if limit == 512 {
                two_level_build_512::launch(stream, grid, inner, buckets, out)
            } else {
                two_level_build_1024::launch(stream, grid, inner, buckets, out)
            }
        }
    }
}
/// Phase 2 on the CPU: the same functions, places and seeds, with pairs inserted sequentially.
/// Errors: out of memory.
fn build_on_cpu(
    stream: &Stream,
    inner: Inner,
    by_bucket: &ByBucket,
    table: &mut Buffer<u64>,
    seeds: &mut Buffer<u32>,
    status: &mut Buffer<u32>,
) -> Result<()> {
    let ByBucket { starts, counts, together, .. } = by_bucket;
    let (Some(starts), Some(counts), Some(pairs)) =
        (starts.view().host(), counts.view().host(), together.view().host())
    else {
        return Ok(());
    };
    let (mut table, mut seeds, mut status) =
        (table.view_mut(), seeds.view_mut(), status.view_mut());
    let (Some(table), Some(seeds), Some(status)) =
        (table.host_mut(), seeds.host_mut(), status.host_mut())
    else {
        return Ok(());
    };
    let part = |b: usize| inner.part(b as u32, || (starts[b], starts[b] + counts[b]));
    let stride = inner.stride() as usize;
    let (first, rest) = table.split_at_mut(stride);
    let (second, third) = rest.split_at_mut(stride);
    let [first, second, third] = [first, second, third].map(|mut slots| {
        let split = |b| slots.split_off_mut(..part(b).slots as usize).unwrap_or_default();
        collect((0..seeds.len()).map(split))
    });
    let (first, second, third) = (first?, second?, third?);
    let (failed, all_ones) = stream.device().install(|| {
        first
            .into_par_iter()
            .zip(second)
            .zip(third)
            .zip(seeds.par_iter_mut())
            .enumerate()
            .map(|(b, (((first, second), third), seed))| {
                let items = &pairs[starts[b] as usize..][..counts[b] as usize];
                let mut tables = [first, second, third];
                let mut tried =
                    std::iter::successors(Some(inner.seed), |&s| Some(Inner::next_seed(s)))
                        .take(MAX_SEEDS as usize);
                let placed =
                    tried.find(|&s| place(items, inner.functions_of(part(b), s), &mut tables));
                *seed = placed.unwrap_or(inner.seed);
                (placed.is_none() as u32, items.contains(&EMPTY) as u32)
            })
            .reduce(|| (0, 0), |a, b| (a.0 + b.0, a.1.max(b.1)))
    });
    status[status::FAILED as usize] += failed;
    status[status::ALL_ONES as usize] |= all_ones;
    Ok(())
}
/// Places all pairs of a bucket; returns whether each found a slot.
fn place(items: &[u64], functions: Functions, tables: &mut [&mut [u64]; 3]) -> bool {
    const MAX_MOVES: u32 = 600;
    tables.iter_mut().for_each(|t| t.fill(EMPTY));
    for &item in items.iter().filter(|&&item| item != EMPTY) {
        let (mut e, mut j, mut moves) = (item, 0, 0);
        while e != EMPTY {
            if moves == MAX_MOVES {
                return false;
            }
            let slot = functions.slot(j as u32, key_of(e)) as usize;
            e = std::mem::replace(&mut tables[j][slot], e);
            j = (j + 1) % 3;
            moves += 1;
        }
    }
    true
}

/// Slots that may hold a key: one per sub-table of each of its buckets, given by the bucket and its
/// seed.
struct Slots<'a>(&'a TwoLevelTable, &'a [u32], &'a [u32]);
impl cpu::Probe for Slots<'_> {
    /// The sub-tables and the seeds of the one or two buckets.
    type Key = [(Part, u32); 2];
    fn probes(&self) -> u32 {
        self.0.bucket_of.count() * SUB_TABLES
    }
    #[inline(always)]
    fn start(&self, key: u32) -> Self::Key {
        let mut buckets = Self::Key::default();
        for (f, bucket) in (0..self.0.bucket_of.count()).zip(&mut buckets) {
            let b = self.0.bucket_of.slot(f, key);
            let bounds = || (self.2[b as usize], self.2[b as usize + 1]);
            *bucket = (self.0.inner.part(b, bounds), self.1[b as usize]);
        }
        buckets
    }
    #[inline(always)]
    fn slots(&self, i: u32) -> impl Fn(u32, Self::Key) -> usize {
        let (inner, f, j) = (self.0.inner, (i / SUB_TABLES) as usize, i % SUB_TABLES);
        move |key, buckets| {
            let (part, seed) = buckets[f];
            inner.place_in(part, j, inner.functions_of(part, seed).slot(j, key)) as usize
        }
    }
}

impl Table for TwoLevelTable {
    fn report(&self) -> &SchemeReport {
        &self.report
    }
    fn get_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        mut values: ViewMut<'_, u32>,
        mut found: ViewMut<'_, u8>,
    ) -> Result<()> {
        let args = find_args(stream, &queries, &mut values, &mut found)?;
        let (bucket_of, inner, all_ones) = (self.bucket_of, self.inner, self.all_ones);
        if !runs_kernels(stream.device()) {
            let seeds = self.seeds.view().host().unwrap_or_default();
            let starts = self.starts.view().host().unwrap_or_default();
            let rest = |key| (all_ones != 0 && key == u32::MAX).then_some(EMPTY);
            cpu::find(
                stream.device(),
                &Slots(self, seeds, starts),
                self.table.view(),
                queries,
                values,
                found,
                rest,
            );
            return Ok(());
        }
        let grid = args.n.div_ceil(two_level_find::SPEC.threads);
        let (seeds, starts) =
            (self.seeds.view().arg("seeds", stream)?, self.starts.view().arg("starts", stream)?);
        let slots = self.table.view().arg("table", stream)?;
        let table = TwoLevelRef { bucket_of, inner, seeds, starts, slots, all_ones };
        // SAFETY: `n` queries and answers; the table was built with these functions.
        unsafe { two_level_find::launch(stream, grid, table, args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koel::Device;
    use koel_kernels::hash::mix::mix;
    use std::collections::HashMap;

    /// The layout of 2009: the key modulo the buckets chooses one of n / 409; its three sub-tables
    /// of 192 slots lie among all first, all second and all third ones; its seed gives their
    /// functions.
    #[test]
    fn slots_lie_as_published_in_2009() {
        for device in [Device::cpu_with_threads(1).unwrap(), Device::executor(5)] {
            let stream = device.stream().unwrap();
            let pairs = (0..2000).map(|i| (mix(i), i)).collect::<HashMap<u32, u32>>();
            let (keys, values): (Vec<u32>, Vec<u32>) = pairs.iter().unzip();
            let (k, v) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
            let n = pairs.len() as u32;
            let input = Pairs { keys: k.view(), values: v.view(), n };
            let attempt = Attempt { number: 0, family: Family::Linear2009, seed: 3, growth: 1.0 };
            let kind = TwoLevel::PUBLISHED;
            let built = attempt_build(&kind, &stream, input, kind.default_load(), attempt);
            let table = built.unwrap().table.unwrap();
            let (slots, seeds) = (table.table.download().unwrap(), table.seeds.download().unwrap());
            let buckets = n.div_ceil(409);
            assert_eq!((seeds.len(), slots.len()), (buckets as usize, 3 * 192 * buckets as usize));
            let mut left = pairs;
            for (at, &entry) in (0..).zip(&slots).filter(|(_, entry)| **entry != EMPTY) {
                let (sub_table, rest) = (at / (192 * buckets), at % (192 * buckets));
                let (bucket, slot) = (rest / 192, rest % 192);
                let key = key_of(entry);
                assert_eq!(key % buckets, bucket, "key {key} at {at}");
                let functions = Functions::new(Family::Linear2009, 3, 192, 0);
                let of_bucket = functions.with_seed(seeds[bucket as usize]);
                assert_eq!(of_bucket.slot(sub_table, key), slot, "key {key} at {at}");
                assert_eq!(left.remove(&key), Some((entry >> 32) as u32), "key {key} at {at}");
            }
            assert!(left.is_empty(), "{} pairs are in no slot", left.len());
        }
    }
}
