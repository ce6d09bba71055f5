//! Two-level perfect hashing of Fredman, Komlós and Szemerédi, "Storing a Sparse Table with O(1)
//! Worst Case Access Time", 1984: the origin of the 2009 table.
//!
//! A first function spreads the keys over buckets. A bucket of `c` keys gets `c * c` slots and its
//! own collision-free function. With as many buckets as pairs the table has two slots per pair
//! (load 0.5); fewer buckets give a lower load, down to 1/9: a bucket holds at most 32 pairs, and
//! there are eight per bucket at the most. One thread builds one bucket.
//!
//! Memory: 8 / load bytes per pair and 8 bytes per bucket, with `load / (1 - load)` buckets per
//! pair. A lookup reads the start and the seed of its bucket, and one slot.
use super::by_bucket::ByBucket;
use super::input::{self, Pairs};
use super::restarts::{self, Attempt, Outcome};
use super::{Family, Kind, Options, SchemeReport, Table, find_args};
use crate::fallible::count32;
use koel::primitives::{self, Scan};
use koel::{Buffer, Result, Stream, View, ViewMut};
use koel_classic_kernels::fks::{BUCKET_LIMIT, FksRef, fks_build, fks_find, fks_square};
use koel_classic_kernels::{BucketsOut, status};
use koel_kernels::hash::Functions;

/// Family of the first function.
#[derive(Clone, Debug)]
pub struct Fks {
    /// Family of the function from keys to buckets.
    pub family: Family,
}
impl Fks {
    /// 2-wise independent functions modulo a prime above every key, as the proof requires.
    pub const PUBLISHED: Fks = Fks { family: Family::Polynomial1 };
}

/// Maximum number of pairs per bucket on average: with more, some bucket exceeds its limit.
const MAX_MEAN: f64 = (BUCKET_LIMIT / 4) as f64;

struct FksTable {
    bucket_of: Functions,
    all_ones: u32,
    /// Start of each bucket, and the end of the last one.
    places: Buffer<u32>,
    seeds: Buffer<u32>,
    table: Buffer<u64>,
    report: SchemeReport,
}

impl Kind for Fks {
    fn name(&self) -> &'static str {
        "fks"
    }
    fn about(&self) -> &'static str {
        "1984: two-level perfect hashing, a bucket of c keys has c^2 slots"
    }
    fn default_load(&self) -> f64 {
        0.5
    }
    fn max_load(&self) -> f64 {
        0.75
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn Table>> {
        restarts::build(self, self.family, stream, (keys, values), options, attempt_build)
    }
}
impl restarts::Restarting for FksTable {
    fn complete(&mut self, report: SchemeReport) {
        let bytes = self.table.bytes() + self.places.bytes() + self.seeds.bytes();
        self.report = SchemeReport { slots: self.table.len(), bytes, ..report };
    }
}

fn attempt_build(
    stream: &Stream,
    pairs: Pairs<'_>,
    load: f64,
    attempt: Attempt,
) -> Result<Outcome<FksTable>> {
    let (device, n) = (stream.device(), pairs.n);
    // n + n^2 / buckets slots are expected.
    let load = load / attempt.growth;
    let count = (f64::from(n) * load / (1.0 - load)).ceil().max(f64::from(n) / MAX_MEAN);
    let count = input::groups(n, load, count, 1)?;
    let buckets = count as usize;
    let bucket_of = Functions::new(attempt.family, 1, count, attempt.seed);
    // One extra element each, for the end of the last bucket.
    let counts = device.alloc::<u32>(buckets + 1)?;
    let mut squares = device.alloc::<u32>(buckets + 1)?;
    let starts = device.alloc::<u32>(buckets + 1)?;
    let mut places = device.alloc::<u32>(buckets + 1)?;
    let seeds = device.alloc::<u32>(buckets)?;
    let offsets = device.alloc::<u32>(n as usize)?;
    let together = device.alloc::<u64>(n as usize)?;
    let mut by_bucket = ByBucket { bucket_of, counts, starts, offsets, together };
    let mut status = device.alloc::<u32>(status::WORDS)?;
    let mut scan = Scan::new(device, buckets + 1)?;
    let ((), counting) = stream.time(|| {
        // SAFETY: memory for `n` pairs and for all buckets of `bucket_of`; `status::WORDS` words.
        unsafe { by_bucket.count(stream, pairs, BUCKET_LIMIT, &mut status) }
    })?;
    if status.download()?[status::FAILED as usize] != 0 {
        return Ok(Outcome { table: None, seconds: counting });
    }
    let ((), placing) = stream.time(|| {
        // SAFETY: one count and one square per bucket, plus one of each.
        unsafe { square(stream, count + 1, &by_bucket.counts, &mut squares) }?;
        scan.exclusive(stream, by_bucket.counts.view(), by_bucket.starts.view_mut())?;
        scan.exclusive(stream, squares.view(), places.view_mut())
    })?;
    // The classical condition: restart if the squares add up to more than twice the expected
    // number.
    let slots: u64 = primitives::sum(stream, squares.view())?;
    if slots as f64 > 2.0 * f64::from(n) / load + 64.0 {
        return Ok(Outcome { table: None, seconds: counting + placing });
    }
    let table = device.alloc::<u64>(count32("slots", slots as usize)? as usize)?;
    let report = SchemeReport::default();
    let mut built = FksTable { bucket_of, all_ones: 0, places, seeds, table, report };
    let ((), building) = stream.time(|| {
        built.table.view_mut().fill_bytes(0xFF, stream)?;
        // SAFETY: counted above, and scanned.
        unsafe { by_bucket.scatter(stream, pairs) }?;
        // SAFETY: `scatter` grouped the pairs by these buckets; each bucket has a seed and,
        // starting at its place, as many slots as the square of its count.
        unsafe { built.build_buckets(stream, attempt.seed as u32, &by_bucket, &mut status) }
    })?;
    let status = status.download()?;
    built.all_ones = status[status::ALL_ONES as usize];
    let table = (status[status::FAILED as usize] == 0).then_some(built);
    Ok(Outcome { table, seconds: counting + placing + building })
}
/// Squares the counts, which gives the number of slots per bucket.
///
/// # Safety
/// `n` counts and `n` squares.
unsafe fn square(
    stream: &Stream,
    n: u32,
    counts: &Buffer<u32>,
    squares: &mut Buffer<u32>,
) -> Result<()> {
    let grid = n.div_ceil(fks_square::SPEC.threads);
    let counts = counts.view().arg("counts", stream)?;
    let squares = squares.view_mut().arg("squares", stream)?;
    // SAFETY: by the caller's contract.
    unsafe { fks_square::launch(stream, grid, counts, n, squares) }
}

impl FksTable {
    /// Finds the function of each bucket and puts its pairs into its slots. One launch.
    ///
    /// # Safety
    /// The pairs are grouped by `bucket_of`. Each bucket has a seed and, starting at its place, as
    /// many empty slots as the square of its count; and `status` has `status::WORDS` words.
    unsafe fn build_buckets(
        &mut self,
        stream: &Stream,
        seed: u32,
        by_bucket: &ByBucket,
        status: &mut Buffer<u32>,
    ) -> Result<()> {
        let count = self.seeds.len() as u32;
        let grid = count.div_ceil(fks_build::SPEC.threads);
        let buckets = by_bucket.arg(stream)?;
        let places = self.places.view().arg("places", stream)?;
        let out = BucketsOut {
            slots: self.table.view_mut().arg("table", stream)?,
            seeds: self.seeds.view_mut().arg("seeds", stream)?,
            status: status.view_mut().arg("status", stream)?,
        };
        // SAFETY: bucket `b` has `counts[b]` pairs starting at `starts[b]`, and the square of that
        // in slots starting at `places[b]`.
        unsafe { fks_build::launch(stream, grid, count, seed, buckets, places, out) }
    }
}

impl Table for FksTable {
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
        let grid = args.n.div_ceil(fks_find::SPEC.threads);
        let table = FksRef {
            bucket_of: self.bucket_of,
            places: self.places.view().arg("places", stream)?,
            seeds: self.seeds.view().arg("seeds", stream)?,
            slots: self.table.view().arg("table", stream)?,
            all_ones: self.all_ones,
        };
        // SAFETY: `n` queries and answers; `places` gives the bounds of the buckets.
        unsafe { fks_find::launch(stream, grid, table, args) }
    }
}
