//! Separate chaining, which the papers consider unfit for a GPU because a list is built one pair at
//! a time and lists differ in length. The build is lock-free: each pair becomes the head of the
//! list of its bucket by one atomic exchange.
//!
//! Memory: 12 + 4 / load bytes per pair. The load factor is in pairs per bucket and may exceed 1. A
//! lookup reads the head of the bucket and, for an absent key, 12 bytes of every pair in the list:
//! `load` pairs on average.
use super::input::Pairs;
use super::restarts::{self, Attempt, Outcome};
use super::{BuildReport, Family, Kind, Options, Table, find_args};
use crate::device::{Buffer, Stream, View, ViewMut};
use crate::error::{Result, count32};
use koel_kernels::classic::chaining::{ChainingMut, ChainingRef, chaining_find, chaining_insert};
use koel_kernels::hash::Functions;

/// Separate chaining with one hash function.
#[derive(Clone, Debug)]
pub struct Chaining {
    /// Family of the function from keys to buckets.
    pub family: Family,
}
impl Chaining {
    /// The safe family. (Chaining has no single source paper.)
    pub const PUBLISHED: Chaining = Chaining { family: Family::Mixed };
}

struct ChainedTable {
    bucket_of: Functions,
    heads: Buffer<u32>,
    next: Buffer<u32>,
    pairs: Buffer<u64>,
    report: BuildReport,
}

impl Kind for Chaining {
    fn name(&self) -> &'static str {
        "chaining"
    }
    fn about(&self) -> &'static str {
        "the textbook: a list for each bucket, pushed to by atomic exchange"
    }
    fn default_load(&self) -> f64 {
        1.0
    }
    fn max_load(&self) -> f64 {
        4.0
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
impl restarts::Restarting for ChainedTable {
    fn complete(&mut self, report: BuildReport) {
        let bytes = self.heads.bytes() + self.next.bytes() + self.pairs.bytes();
        self.report = BuildReport { slots: self.heads.len(), bytes, ..report };
    }
}

/// Makes an attempt, which always succeeds.
fn attempt_build(
    stream: &Stream,
    input: Pairs<'_>,
    load: f64,
    attempt: Attempt,
) -> Result<Outcome<ChainedTable>> {
    let (device, n) = (stream.device(), input.n);
    let buckets = count32("buckets", (n as f64 / load).ceil().max(1.0) as usize)?;
    let bucket_of = Functions::new(attempt.family, 1, buckets, attempt.seed);
    let mut heads = device.alloc::<u32>(buckets as usize)?;
    let mut next = device.alloc::<u32>(n as usize)?;
    let mut pairs = device.alloc::<u64>(n as usize)?;
    let ((), seconds) = stream.time(|| {
        heads.view_mut().fill_bytes(0xFF, stream)?;
        let grid = n.div_ceil(chaining_insert::SPEC.threads);
        let table = ChainingMut {
            bucket_of,
            heads: heads.view_mut().arg("heads", stream)?,
            next: next.view_mut().arg("next", stream)?,
            pairs: pairs.view_mut().arg("pairs", stream)?,
        };
        // SAFETY: `n` keys, values, links and pairs; one head per bucket, and `bucket_of` stays
        // below the number of buckets.
        unsafe { chaining_insert::launch(stream, grid, input.arg(stream)?, table) }
    })?;
    let table = ChainedTable { bucket_of, heads, next, pairs, report: BuildReport::default() };
    Ok(Outcome { table: Some(table), seconds })
}

impl Table for ChainedTable {
    fn report(&self) -> &BuildReport {
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
        let grid = args.n.div_ceil(chaining_find::SPEC.threads);
        let table = ChainingRef {
            bucket_of: self.bucket_of,
            heads: self.heads.view().arg("heads", stream)?,
            next: self.next.view().arg("next", stream)?,
            pairs: self.pairs.view().arg("pairs", stream)?,
        };
        // SAFETY: `n` queries and answers; heads and links are indices of pairs, or the end marker.
        unsafe { chaining_find::launch(stream, grid, table, args) }
    }
}
