//! The set of Alcantara et al. 2011 and its compacting table.
//!
//! A single-level cuckoo table with one key per slot. An insertion ends at an empty slot or at a
//! slot that held the same key. Copies of a key may end in several of its slots; a later pass
//! erases all but the first. The compacting table numbers the remaining keys by a prefix sum over
//! the slots, stores the numbers next to the keys, and lists the keys in that order.
//!
//! Memory: the set takes 4 / load bytes per input pair, repeated keys included, because the number
//! of distinct keys is not known in advance; the compacting table takes 8 / load, plus 4 per
//! distinct key. A lookup reads one to four slots.
use super::input::Pairs;
use super::lists::{self, ListKind, ListTable, Listed};
use super::restarts::{self, Attempt, Outcome};
use super::{Family, Options, SchemeReport, cuckoo};
use koel::primitives::Scan;
use koel::{Buffer, Result, Stream, View, ViewMut};
use koel_classic_kernels::set::{
    CompactingRef, SetRef, compacting_find, compacting_number, set_clean, set_find, set_insert,
};
use koel_classic_kernels::{CuckooMut, status};
use koel_kernels::hash::Functions;

/// Set of the distinct keys.
#[derive(Clone, Copy, Debug)]
pub struct SingleLevelSet;
/// Distinct keys, each with its own number: a two-way index.
#[derive(Clone, Copy, Debug)]
pub struct SingleLevelCompacting;

const FUNCTIONS: u32 = 4;
/// Default and maximum load factors, relative to all input pairs.
const LOADS: (f64, f64) = (0.8, 0.97);

/// Keys in slots, each once.
struct Keys {
    functions: Functions,
    all_ones: u32,
    table: Buffer<u32>,
    present: Buffer<u32>,
}
fn attempt(
    stream: &Stream,
    pairs: Pairs<'_>,
    load: f64,
    attempt: Attempt,
) -> Result<Outcome<Keys>> {
    let (device, n) = (stream.device(), pairs.n);
    let functions = cuckoo::functions(FUNCTIONS, n, load, attempt)?;
    let max_exchanges = cuckoo::max_exchanges(FUNCTIONS, n, load / attempt.growth);
    let mut table = device.alloc::<u32>(functions.slots() as usize)?;
    let mut present = device.alloc::<u32>(functions.slots() as usize)?;
    let mut status = device.alloc::<u32>(status::WORDS)?;
    let ((), seconds) = stream.time(|| {
        table.view_mut().fill_bytes(0xFF, stream)?;
        status.view_mut().fill_bytes(0, stream)?;
        let slots = table.view_mut().arg("table", stream)?;
        let (keys, status) =
            (pairs.keys.arg("keys", stream)?, status.view_mut().arg("status", stream)?);
        let table = CuckooMut { functions, slots, status };
        let grid = n.div_ceil(set_insert::SPEC.threads);
        // SAFETY: `n` keys; the functions stay below the number of slots; `status::WORDS` words.
        unsafe { set_insert::launch(stream, grid, keys, n, max_exchanges, table) }?;
        let present = present.view_mut().arg("present", stream)?;
        let grid = functions.slots().div_ceil(set_clean::SPEC.threads);
        // SAFETY: as many marks as slots.
        unsafe { set_clean::launch(stream, grid, functions, slots, present) }
    })?;
    let status = status.download()?;
    let all_ones = status[status::ALL_ONES as usize];
    let keys = (status[status::FAILED as usize] == 0).then_some(Keys {
        functions,
        all_ones,
        table,
        present,
    });
    Ok(Outcome { table: keys, seconds })
}
fn keys_and_numbers(
    stream: &Stream,
    keys: View<'_, u32>,
    values: View<'_, u32>,
    options: &Options,
) -> Result<(Keys, Buffer<u32>, u32, SchemeReport)> {
    let (n, load) = lists::check(keys, values, options, LOADS)?;
    let pairs = Pairs { keys, values, n };
    let (built, mut report) = restarts::with_repeats(
        stream,
        pairs,
        Family::Mixed,
        options.seed,
        |stream, pairs, number| attempt(stream, pairs, load, number),
    )?;
    let slots = built.present.len();
    let mut ids = stream.device().alloc::<u32>(slots)?;
    let mut scan = Scan::new(stream.device(), slots)?;
    let ((), seconds) =
        stream.time(|| scan.exclusive(stream, built.present.view(), ids.view_mut()))?;
    report.device_seconds += seconds;
    let in_slots = scan.total().download()?[0];
    report.pairs = (in_slots + built.all_ones) as usize;
    report.duplicates = n as usize - report.pairs;
    report.slots = slots;
    Ok((built, ids, in_slots, report))
}

struct BuiltSet {
    keys: Keys,
    report: SchemeReport,
}
impl ListKind for SingleLevelSet {
    fn name(&self) -> &'static str {
        "single-level-set"
    }
    fn about(&self) -> &'static str {
        "2011: the single-level table with keys alone"
    }
    fn lists(&self) -> Listed {
        Listed::Nothing
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn ListTable>> {
        let (keys, _, _, mut report) = keys_and_numbers(stream, keys, values, options)?;
        report.bytes = keys.table.bytes();
        Ok(Box::new(BuiltSet { keys: Keys { present: stream.device().alloc(0)?, ..keys }, report }))
    }
}
impl ListTable for BuiltSet {
    fn report(&self) -> &SchemeReport {
        &self.report
    }
    fn list(&self) -> View<'_, u32> {
        self.keys.present.view()
    }
    fn get_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        mut starts: ViewMut<'_, u32>,
        mut counts: ViewMut<'_, u32>,
    ) -> Result<()> {
        let args = lists::find_args(stream, &queries, &mut starts, &mut counts)?;
        let (functions, all_ones) = (self.keys.functions, self.keys.all_ones);
        let slots = self.keys.table.view().arg("table", stream)?;
        let table = SetRef { functions, slots, all_ones };
        let grid = args.n.div_ceil(set_find::SPEC.threads);
        // SAFETY: `n` queries and answers; the table was built with these functions.
        unsafe { set_find::launch(stream, grid, table, args) }
    }
}

struct BuiltCompacting {
    functions: Functions,
    all_ones: u32,
    entries: Buffer<u64>,
    unique: Buffer<u32>,
    report: SchemeReport,
}
impl ListKind for SingleLevelCompacting {
    fn name(&self) -> &'static str {
        "single-level-compacting"
    }
    fn about(&self) -> &'static str {
        "2011: the set, its keys numbered by a prefix sum"
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
        let (keys, ids, in_slots, mut report) = keys_and_numbers(stream, keys, values, options)?;
        let Keys { functions, all_ones, table, .. } = keys;
        let mut entries = stream.device().alloc::<u64>(table.len())?;
        let mut unique = stream.device().alloc::<u32>(report.pairs)?;
        let ((), seconds) = stream.time(|| {
            let (table, ids) = (table.view().arg("table", stream)?, ids.view().arg("ids", stream)?);
            let entries = entries.view_mut().arg("entries", stream)?;
            let list = unique.view_mut().arg("unique", stream)?;
            let (slots, grid) =
                (functions.slots(), functions.slots().div_ceil(compacting_number::SPEC.threads));
            // SAFETY: as many numbers and entries as slots; the numbers are below the length of the
            // list.
            unsafe { compacting_number::launch(stream, grid, slots, table, ids, entries, list) }
        })?;
        if all_ones != 0 {
            unique.view_mut().slice(in_slots as usize..)?.copy_from_host(&[u32::MAX])?;
        }
        report.device_seconds += seconds;
        report.bytes = entries.bytes() + unique.bytes();
        Ok(Box::new(BuiltCompacting { functions, all_ones, entries, unique, report }))
    }
}
impl ListTable for BuiltCompacting {
    fn report(&self) -> &SchemeReport {
        &self.report
    }
    fn list(&self) -> View<'_, u32> {
        self.unique.view()
    }
    fn get_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        mut starts: ViewMut<'_, u32>,
        mut counts: ViewMut<'_, u32>,
    ) -> Result<()> {
        let args = lists::find_args(stream, &queries, &mut starts, &mut counts)?;
        let grid = args.n.div_ceil(compacting_find::SPEC.threads);
        let table = CompactingRef {
            functions: self.functions,
            slots: self.entries.view().arg("entries", stream)?,
            all_ones: self.all_ones,
            last: (self.unique.len() as u32).wrapping_sub(1),
        };
        // SAFETY: `n` queries and answers; the entries were placed with these functions.
        unsafe { compacting_find::launch(stream, grid, table, args) }
    }
}
