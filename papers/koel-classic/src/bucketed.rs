//! Bucketed cuckoo hashing: functions name buckets of 2 to 16 slots (Dietzfelbinger and Weidling,
//! "Balanced Allocation and Dictionaries with Tightly Packed Constant Size Bins", 2007).
//!
//! A pair takes any free slot of its buckets by compare-and-swap. If none is free, it evicts a
//! random pair of a random bucket by exchange, and the evicted pair continues in the same way. Two
//! functions and buckets of 4 slots fill 98 % of the slots.
//!
//! Memory: 8 / load bytes per pair. A lookup reads 1 to `functions` buckets: 8 slots are 64 bytes,
//! one cache line.
use super::input::{self, Pairs};
use super::restarts::{self, Attempt, Outcome, Published};
use super::{Family, Kind, Options, SchemeReport, Table, find_args};
use koel::{Buffer, Error, Result, Stream, View, ViewMut};
use koel_classic_kernels::bucketed::{BucketedRef, Buckets, bucketed_find, bucketed_insert};
use koel_classic_kernels::status;
use koel_kernels::hash::Functions;

/// Shape of the table.
#[derive(Clone, Debug)]
pub struct Bucketed {
    /// Number of hash functions, 2 to 5.
    pub functions: u32,
    /// Number of slots per bucket, 2 to 16.
    pub slots: u32,
    /// Hash family.
    pub family: Family,
}
impl Bucketed {
    /// Two functions, buckets of 4 slots.
    pub const PUBLISHED: Bucketed = Bucketed { functions: 2, slots: 4, family: Family::Mixed };

    /// Returns the approximate maximum load factor at which all keys find a slot (Fountoulakis,
    /// Khosla and Panagiotou 2011): a lower bound for the shapes not listed.
    fn threshold(&self) -> f64 {
        match (self.functions, self.slots) {
            (2, 2) => 0.897,
            (2, 3) => 0.959,
            (2, 4..=7) => 0.98,
            _ => 0.988,
        }
    }
    fn check(&self) -> Result<()> {
        let wrong = |field, found: u32, expected: &str| {
            Err(Error::Setting { field, found: found.to_string(), expected: expected.into() })
        };
        match self {
            Bucketed { functions, .. } if !(2..=5).contains(functions) => {
                wrong("functions", *functions, "2 to 5")
            }
            Bucketed { slots, .. } if !(2..=16).contains(slots) => {
                wrong("slots", *slots, "2 to 16")
            }
            _ => Ok(()),
        }
    }
}

struct BucketedTable {
    buckets: Buckets,
    all_ones: u32,
    table: Buffer<u64>,
    report: SchemeReport,
}

impl Kind for Bucketed {
    fn name(&self) -> &'static str {
        "bucketed-cuckoo"
    }
    fn about(&self) -> &'static str {
        "2007: cuckoo hashing into buckets of several slots"
    }
    fn default_load(&self) -> f64 {
        0.8
    }
    fn max_load(&self) -> f64 {
        // Eviction chains get long at the threshold itself.
        self.threshold() - 0.02
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn Table>> {
        self.check()?;
        restarts::build(
            self,
            Published::with_room(self.family, self.functions * self.slots),
            stream,
            (keys, values),
            options,
            |stream, pairs, load, attempt| self.attempt(stream, pairs, load, attempt),
        )
    }
}
impl restarts::Restarting for BucketedTable {
    fn complete(&mut self, report: SchemeReport) {
        self.report = SchemeReport { slots: self.table.len(), bytes: self.table.bytes(), ..report };
    }
}

impl Bucketed {
    fn attempt(
        &self,
        stream: &Stream,
        pairs: Pairs<'_>,
        load: f64,
        attempt: Attempt,
    ) -> Result<Outcome<BucketedTable>> {
        let (device, n) = (stream.device(), pairs.n);
        let count = n as f64 / load * attempt.growth / f64::from(self.slots);
        let count = input::groups(n, load, count, self.slots)?;
        let slots = count * self.slots;
        let functions = Functions::new(attempt.family, self.functions, count, attempt.seed);
        // As in the single-level table, though most chains end after one or two buckets.
        let near = (0.17 / (self.threshold() - load / attempt.growth).max(0.002)).max(1.0);
        let max_evictions = (7.0 * f64::from(n.max(2)).log2() * near).max(32.0) as u32;
        let buckets = Buckets { functions, slots: self.slots, max_evictions };
        let mut table = device.alloc::<u64>(slots as usize)?;
        let mut status = device.alloc::<u32>(status::WORDS)?;
        let ((), seconds) = stream.time(|| {
            table.view_mut().fill_bytes(0xFF, stream)?;
            status.view_mut().fill_bytes(0, stream)?;
            let grid = n.div_ceil(bucketed_insert::SPEC.threads);
            let pairs = pairs.arg(stream)?;
            let (table, status) =
                (table.view_mut().arg("table", stream)?, status.view_mut().arg("status", stream)?);
            // SAFETY: `n` keys and values; the functions stay below the number of buckets;
            // `status::WORDS` words.
            unsafe { bucketed_insert::launch(stream, grid, pairs, buckets, table, status) }
        })?;
        let status = status.download()?;
        let all_ones = status[status::ALL_ONES as usize];
        let built = BucketedTable { buckets, all_ones, table, report: SchemeReport::default() };
        Ok(Outcome { table: (status[status::FAILED as usize] == 0).then_some(built), seconds })
    }
}

impl Table for BucketedTable {
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
        let grid = args.n.div_ceil(bucketed_find::SPEC.threads);
        let slots = self.table.view().arg("table", stream)?;
        let table = BucketedRef { buckets: self.buckets, slots, all_ones: self.all_ones };
        // SAFETY: `n` queries and answers; the table was built with these buckets.
        unsafe { bucketed_find::launch(stream, grid, table, args) }
    }
}
