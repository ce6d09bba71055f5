//! Single-level cuckoo table with two bytes in each slot that lead to the next slot of its key, as
//! Zachmann's lecture suggests: an eviction hashes nothing.
//!
//! Two bytes name the next slot because all slots of a key lie in one region of at most 65,536
//! slots: one slot in each of `functions` sub-tables, at the same distance, the stored step, from
//! one to the next. An insertion computes three hash functions in all (the region, the first slot
//! and the step), however many pairs it evicts. A lookup reads as many slots as in the other
//! single-level tables, but within half a megabyte.
//!
//! The step and the index of the pair take the place of the value; the values are in a separate
//! array. Memory: 8 / load + 4 bytes per pair. A lookup that finds its key reads another 4 bytes at
//! random. Regions differ in their number of pairs, so the maximum load factor is 0.02 below that
//! of the other single-level tables.
use super::cuckoo::Indexed;
use super::input::{self, Pairs};
use super::restarts::{self, Attempt, Outcome, Published};
use super::{Family, Kind, Options, SchemeReport, Table, cuckoo, find_args};
use crate::fallible::count32;
use koel::{Result, Stream, View, ViewMut};
use koel_classic_kernels::stored_step::{
    MAX_REGION, Regions, StoredStepRef, stored_step_find, stored_step_insert,
};
use koel_kernels::hash::Functions;

/// Parameters of the table.
#[derive(Clone, Debug)]
pub struct StoredStep {
    /// Number of slots that a key may take, 2 to 5.
    pub functions: u32,
    /// Hash family of the first slot and of the step.
    pub family: Family,
}
impl StoredStep {
    /// Four slots per key.
    pub const PUBLISHED: StoredStep = StoredStep { functions: 4, family: Family::Mixed };
}

struct StoredStepTable {
    functions: Functions,
    regions: Regions,
    table: Indexed,
    report: SchemeReport,
}

impl Kind for StoredStep {
    fn name(&self) -> &'static str {
        "stored-step"
    }
    fn about(&self) -> &'static str {
        "the lecture: the single-level table, each key beside the two-byte step to its next slot"
    }
    fn default_load(&self) -> f64 {
        if self.functions == 2 { 0.4 } else { 0.8 }
    }
    fn max_load(&self) -> f64 {
        cuckoo::max_load(self.functions) - 0.02
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn Table>> {
        cuckoo::check_functions(self.functions)?;
        restarts::build(
            self,
            // Regions tell some of the keys apart that the functions cannot.
            Published::from(self.family),
            stream,
            (keys, values),
            options,
            |stream, pairs, load, attempt| self.attempt(stream, pairs, load, attempt),
        )
    }
}
impl restarts::Restarting for StoredStepTable {
    fn complete(&mut self, report: SchemeReport) {
        self.report = self.table.complete(report);
    }
}

impl StoredStep {
    /// Divides the slots for `n` pairs into regions, a power of two of them.
    fn regions(&self, n: u32, load: f64, attempt: Attempt) -> Result<(Regions, u32)> {
        let slots = input::groups(n, load, f64::from(n) / load * attempt.growth, 1)?;
        // One more than there are pairs, so that no index has all bits set.
        let slots = u64::from(slots).max(u64::from(n) + 1);
        let sub_tables = u64::from(self.functions);
        let most = u64::from(MAX_REGION) / sub_tables * sub_tables;
        let count = slots.div_ceil(most).next_power_of_two();
        let sub_slots = slots.div_ceil(count * sub_tables);
        let slots = count32("slots", (count * sub_tables * sub_slots) as usize)?;
        let regions = Regions {
            sub_slots: sub_slots as u32,
            sub_tables: self.functions,
            bits: count.ilog2(),
            seed: attempt.seed as u32,
        };
        Ok((regions, slots))
    }
    fn attempt(
        &self,
        stream: &Stream,
        pairs: Pairs<'_>,
        load: f64,
        attempt: Attempt,
    ) -> Result<Outcome<StoredStepTable>> {
        let n = pairs.n;
        let (regions, slots) = self.regions(n, load, attempt)?;
        let functions = Functions::new(attempt.family, 2, regions.sub_slots, attempt.seed);
        let max_exchanges = cuckoo::max_exchanges(self.functions, n, load / attempt.growth);
        let grid = n.div_ceil(stored_step_insert::SPEC.threads);
        let Outcome { table, seconds } =
            Indexed::build(stream, pairs, functions, slots, |keys, table| {
                // SAFETY: `n` keys; as many slots as the regions have together, and the functions
                // stay below the number of slots of a sub-table; `status::WORDS` words.
                unsafe {
                    stored_step_insert::launch(stream, grid, keys, n, max_exchanges, regions, table)
                }
            })?;
        let built =
            |table| StoredStepTable { functions, regions, table, report: SchemeReport::default() };
        Ok(Outcome { table: table.map(built), seconds })
    }
}

impl Table for StoredStepTable {
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
        let grid = args.n.div_ceil(stored_step_find::SPEC.threads);
        let table = StoredStepRef {
            functions: self.functions,
            regions: self.regions,
            slots: self.table.slots.view().arg("table", stream)?,
            values: self.table.values.view().arg("values", stream)?,
        };
        // SAFETY: `n` queries and answers; the table was built with these functions and regions,
        // and holds indices of the values.
        unsafe { stored_step_find::launch(stream, grid, table, args) }
    }
}
