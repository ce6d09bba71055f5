//! Single-level cuckoo table that stores the number of its function next to each key, as Zachmann's
//! lecture suggests: an eviction computes one function instead of all.
//!
//! A key and a value fill a slot, so the number and the index of the pair take the place of the
//! value; the values are in a separate array. Memory: 8 / load + 4 bytes per pair. A lookup that
//! finds its key reads another 4 bytes at random. Maximum: 2^29 pairs.
use super::cuckoo::Indexed;
use super::input::Pairs;
use super::restarts::{self, Attempt, Outcome, Published};
use super::{Family, Kind, Options, SchemeReport, Table, cuckoo, find_args};
use koel::{Error, Result, Stream, View, ViewMut};
use koel_classic_kernels::function_id::{
    FunctionIdRef, MAX_PAIRS, function_id_find, function_id_insert,
};
use koel_kernels::hash::Functions;

/// Parameters of the table.
#[derive(Clone, Debug)]
pub struct FunctionId {
    /// Number of hash functions, 2 to 5.
    pub functions: u32,
    /// Hash family.
    pub family: Family,
}
impl FunctionId {
    /// Four functions.
    pub const PUBLISHED: FunctionId = FunctionId { functions: 4, family: Family::Mixed };
}

struct FunctionIdTable {
    functions: Functions,
    table: Indexed,
    report: SchemeReport,
}

impl Kind for FunctionId {
    fn name(&self) -> &'static str {
        "function-id"
    }
    fn about(&self) -> &'static str {
        "the lecture: the single-level table, each key beside the number of its function"
    }
    fn default_load(&self) -> f64 {
        if self.functions == 2 { 0.4 } else { 0.8 }
    }
    fn max_load(&self) -> f64 {
        cuckoo::max_load(self.functions)
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn Table>> {
        cuckoo::check_functions(self.functions)?;
        if keys.len() > MAX_PAIRS {
            return Err(Error::TooMany { what: "pairs", n: keys.len(), max: MAX_PAIRS });
        }
        restarts::build(
            self,
            Published::with_room(self.family, self.functions),
            stream,
            (keys, values),
            options,
            |stream, pairs, load, attempt| self.attempt(stream, pairs, load, attempt),
        )
    }
}
impl restarts::Restarting for FunctionIdTable {
    fn complete(&mut self, report: SchemeReport) {
        self.report = self.table.complete(report);
    }
}

impl FunctionId {
    fn attempt(
        &self,
        stream: &Stream,
        pairs: Pairs<'_>,
        load: f64,
        attempt: Attempt,
    ) -> Result<Outcome<FunctionIdTable>> {
        let n = pairs.n;
        let functions = cuckoo::functions(self.functions, n, load, attempt)?;
        let max_exchanges = cuckoo::max_exchanges(self.functions, n, load / attempt.growth);
        let grid = n.div_ceil(function_id_insert::SPEC.threads);
        let Outcome { table, seconds } =
            Indexed::build(stream, pairs, functions, functions.slots(), |keys, table| {
                // SAFETY: `n` keys, at most 2^29; the functions stay below the number of slots;
                // `status::WORDS` words.
                unsafe { function_id_insert::launch(stream, grid, keys, n, max_exchanges, table) }
            })?;
        let built = |table| FunctionIdTable { functions, table, report: SchemeReport::default() };
        Ok(Outcome { table: table.map(built), seconds })
    }
}

impl Table for FunctionIdTable {
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
        let grid = args.n.div_ceil(function_id_find::SPEC.threads);
        let table = FunctionIdRef {
            functions: self.functions,
            slots: self.table.slots.view().arg("table", stream)?,
            values: self.table.values.view().arg("values", stream)?,
        };
        // SAFETY: `n` queries and answers; the table holds indices of the values.
        unsafe { function_id_find::launch(stream, grid, table, args) }
    }
}
