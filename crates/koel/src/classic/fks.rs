//! Two-level perfect hashing of Fredman, Komlós and Szemerédi, "Storing a Sparse Table with O(1)
//! Worst Case Access Time", 1984: the root of the 2009 table.
//!
//! A first function spreads the keys over buckets; a bucket of `c` keys gets `c * c` slots and a
//! function of its own that sends no two of them to the same. As many buckets as pairs make two
//! slots a pair: load 0.5; fewer buckets, a lower load. One thread builds one bucket.
//!
//! Memory: 8 / load bytes a pair and 8 bytes a bucket, of which there are `load / (1 - load)` a
//! pair. Every lookup reads its bucket's place and seed, and one slot.
use super::input::Pairs;
use super::restarts::{self, Attempt, Outcome};
use super::{BuildReport, Family, FindArgs, Kind, Options, Table};
use crate::device::{Buffer, Stream, View, ViewMut};
use crate::error::{Result, count32};
use crate::primitives::{self, Scan};
use koel_kernels::classic::fks::{BUCKET_LIMIT, fks_build, fks_find, fks_square};
use koel_kernels::classic::status;
use koel_kernels::classic::two_level::{two_level_count, two_level_scatter};
use koel_kernels::hash::Functions;

/// The family of the first function.
#[derive(Clone, Debug)]
pub struct Fks {
    /// From keys to buckets.
    pub family: Family,
}
impl Fks {
    /// 2-wise independent functions modulo a prime above every key, as the proof wants them.
    pub const PUBLISHED: Fks = Fks { family: Family::Polynomial1 };
}

struct Built {
    bucket_of: Functions,
    all_ones: u32,
    /// Where each bucket begins, and where the last one ends.
    places: Buffer<u32>,
    seeds: Buffer<u32>,
    table: Buffer<u64>,
    report: BuildReport,
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
impl restarts::Built for Built {
    fn complete(&mut self, report: BuildReport) {
        let bytes = self.table.bytes() + self.places.bytes() + self.seeds.bytes();
        self.report = BuildReport { slots: self.table.len(), bytes, ..report };
    }
}

fn attempt_build(
    stream: &Stream,
    pairs: Pairs<'_>,
    load: f64,
    attempt: Attempt,
) -> Result<Outcome<Built>> {
    let (device, n) = (stream.device(), pairs.n);
    // n + n^2 / buckets slots are expected.
    let load = load / attempt.growth;
    let count = count32("buckets", (f64::from(n) * load / (1.0 - load)).ceil().max(1.0) as usize)?;
    let buckets = count as usize;
    let bucket_of = Functions::new(attempt.family, 1, count, attempt.seed);
    // One more of each, for the end of the last bucket.
    let mut counts = device.alloc::<u32>(buckets + 1)?;
    let mut squares = device.alloc::<u32>(buckets + 1)?;
    let mut starts = device.alloc::<u32>(buckets + 1)?;
    let mut places = device.alloc::<u32>(buckets + 1)?;
    let mut seeds = device.alloc::<u32>(buckets)?;
    let mut offsets = device.alloc::<u32>(n as usize)?;
    let mut together = device.alloc::<u64>(n as usize)?;
    let mut status = device.alloc::<u32>(status::WORDS)?;
    let mut scan = Scan::new(device, buckets + 1)?;
    let ((), counting) = stream.time(|| {
        counts.view_mut().fill_bytes(0, stream)?;
        status.view_mut().fill_bytes(0, stream)?;
        let grid = n.div_ceil(two_level_count::SPEC.threads);
        let keys = pairs.keys.arg("keys", stream)?;
        let (counts, offsets) =
            (counts.view_mut().arg("counts", stream)?, offsets.view_mut().arg("offsets", stream)?);
        let status = status.view_mut().arg("status", stream)?;
        // SAFETY: `n` keys and offsets; a count for each bucket, below which `bucket_of` stays;
        // `status::WORDS` words.
        unsafe {
            two_level_count::launch(
                stream,
                grid,
                keys,
                n,
                bucket_of,
                BUCKET_LIMIT,
                counts,
                offsets,
                status,
            )
        }
    })?;
    if status.download()?[status::FAILED as usize] != 0 {
        return Ok(Outcome { table: None, seconds: counting });
    }
    let ((), placing) = stream.time(|| {
        {
            let grid = (count + 1).div_ceil(fks_square::SPEC.threads);
            let (counts, squares) =
                (counts.view().arg("counts", stream)?, squares.view_mut().arg("squares", stream)?);
            // SAFETY: as many counts as squares.
            unsafe { fks_square::launch(stream, grid, counts, count + 1, squares) }?;
        }
        scan.exclusive(stream, counts.view(), starts.view_mut())?;
        scan.exclusive(stream, squares.view(), places.view_mut())
    })?;
    // The classical condition: begin again if the squares add up to twice what is expected.
    let slots: u64 = primitives::sum(stream, squares.view())?;
    if slots as f64 > 2.0 * f64::from(n) / load + 64.0 {
        return Ok(Outcome { table: None, seconds: counting + placing });
    }
    let mut table = device.alloc::<u64>(count32("slots", slots as usize)? as usize)?;
    let ((), building) = stream.time(|| {
        table.view_mut().fill_bytes(0xFF, stream)?;
        {
            let grid = n.div_ceil(two_level_scatter::SPEC.threads);
            let (keys, values) =
                (pairs.keys.arg("keys", stream)?, pairs.values.arg("values", stream)?);
            let (starts, offsets) =
                (starts.view().arg("starts", stream)?, offsets.view().arg("offsets", stream)?);
            let together = together.view_mut().arg("pairs", stream)?;
            // SAFETY: `n` keys, values, offsets and pairs; counting gave each pair a place of its
            // own below `n`.
            unsafe {
                two_level_scatter::launch(
                    stream, grid, keys, values, n, bucket_of, starts, offsets, together,
                )
            }?;
        }
        let grid = count.div_ceil(fks_build::SPEC.threads);
        let (counts, starts) =
            (counts.view().arg("counts", stream)?, starts.view().arg("starts", stream)?);
        let (places, together) =
            (places.view().arg("places", stream)?, together.view().arg("pairs", stream)?);
        let (table, seeds) =
            (table.view_mut().arg("table", stream)?, seeds.view_mut().arg("seeds", stream)?);
        let status = status.view_mut().arg("status", stream)?;
        let seed = attempt.seed as u32;
        // SAFETY: bucket `b` has `counts[b]` pairs from `starts[b]`, and their square in slots from
        // `places[b]`.
        unsafe {
            fks_build::launch(
                stream, grid, count, seed, counts, starts, places, together, table, seeds, status,
            )
        }
    })?;
    let status = status.download()?;
    let all_ones = status[status::ALL_ONES as usize];
    let built = Built { bucket_of, all_ones, places, seeds, table, report: BuildReport::default() };
    let table = (status[status::FAILED as usize] == 0).then_some(built);
    Ok(Outcome { table, seconds: counting + placing + building })
}

impl Table for Built {
    fn report(&self) -> &BuildReport {
        &self.report
    }
    fn find_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        mut values: ViewMut<'_, u32>,
        mut found: ViewMut<'_, u8>,
    ) -> Result<()> {
        let FindArgs { n, queries, values, found } =
            FindArgs::new(stream, &queries, &mut values, &mut found)?;
        let grid = n.div_ceil(fks_find::SPEC.threads);
        let (places, seeds) =
            (self.places.view().arg("places", stream)?, self.seeds.view().arg("seeds", stream)?);
        let table = self.table.view().arg("table", stream)?;
        // SAFETY: `n` queries and answers; the buckets lie where `places` says.
        unsafe {
            fks_find::launch(
                stream,
                grid,
                queries,
                n,
                self.bucket_of,
                self.all_ones,
                places,
                seeds,
                table,
                values,
                found,
            )
        }
    }
}
