//! Common parts of the single-level cuckoo tables that differ only in insertion: one array of
//! slots, looked up by the kernel of [`SingleLevel`](super::SingleLevel).
use super::input::{self, Pairs};
use super::restarts::{self, Attempt, Outcome};
use super::{SchemeReport, Table, cpu, find_args, runs_kernels};
use koel::{Buffer, Error, Result, Stream, View, ViewMut};
use koel_classic_kernels::single_level::{Lookup, SingleLevelRef, StashKind, single_level_find};
use koel_classic_kernels::{CuckooMut, EMPTY, PairsIn, status};
use koel_kernels::hash::Functions;
use koel_simt::In;

/// Returns the maximum load factor that the paper found practical, by number of functions: 2.1,
/// 1.1, 1.03 and 1.02 slots per pair.
pub(super) fn max_load(functions: u32) -> f64 {
    match functions {
        2 => 0.476,
        3 => 0.909,
        4 => 0.97,
        _ => 0.98,
    }
}
/// Rejects numbers of functions that no table supports.
pub(super) fn check_functions(functions: u32) -> Result<()> {
    match functions {
        2..=5 => Ok(()),
        _ => Err(Error::Setting {
            field: "functions",
            found: functions.to_string(),
            expected: "2 to 5".into(),
        }),
    }
}
/// Draws the functions of an attempt.
pub(super) fn functions(count: u32, n: u32, load: f64, attempt: Attempt) -> Result<Functions> {
    let slots = input::groups(n, load, f64::from(n) / load * attempt.growth, 1)?;
    Ok(Functions::new(attempt.family, count, slots, attempt.seed))
}
/// Returns the maximum number of exchanges before a pair is given up: the paper's 7 lg n up to a
/// load of 0.8 with four functions, more near the threshold.
pub(super) fn max_exchanges(functions: u32, n: u32, load: f64) -> u32 {
    let threshold = match functions {
        2 => 0.5,
        3 => 0.9179,
        4 => 0.9768,
        _ => 0.9924,
    };
    let near = (0.17 / f64::max(threshold - load, 0.002)).max(1.0);
    (7.0 * f64::from(n.max(2)).log2() * near).max(32.0) as u32
}

/// Slots that hold indices of values, and the values.
pub(super) struct Indexed {
    pub slots: Buffer<u64>,
    pub values: Buffer<u32>,
}
impl Indexed {
    /// Copies the values and calls `insert` with the keys and as many empty slots, to launch the
    /// insertion. `n` keys, `slots` slots and `status::WORDS` words are what it may use.
    pub(super) fn build(
        stream: &Stream,
        pairs: Pairs<'_>,
        functions: Functions,
        slots: u32,
        insert: impl FnOnce(In<u32>, CuckooMut) -> Result<()>,
    ) -> Result<Outcome<Indexed>> {
        let device = stream.device();
        let mut table = device.alloc::<u64>(slots as usize)?;
        let mut values = device.alloc::<u32>(pairs.n as usize)?;
        let mut status = device.alloc::<u32>(status::WORDS)?;
        let ((), seconds) = stream.time(|| {
            table.view_mut().fill_bytes(0xFF, stream)?;
            status.view_mut().fill_bytes(0, stream)?;
            values.view_mut().copy_from(pairs.values, stream)?;
            let keys = pairs.keys.arg("keys", stream)?;
            let slots = table.view_mut().arg("table", stream)?;
            let status = status.view_mut().arg("status", stream)?;
            insert(keys, CuckooMut { functions, slots, status })
        })?;
        let has_all = status.download()?[status::FAILED as usize] == 0;
        Ok(Outcome { table: has_all.then_some(Indexed { slots: table, values }), seconds })
    }
    /// Completes the report of a build.
    pub(super) fn complete(&self, report: SchemeReport) -> SchemeReport {
        let bytes = self.slots.bytes() + self.values.bytes();
        SchemeReport { slots: self.slots.len(), bytes, ..report }
    }
}

/// A finished table.
pub(super) struct CuckooTable {
    functions: Functions,
    all_ones: u32,
    table: Buffer<u64>,
    report: SchemeReport,
}
impl restarts::Restarting for CuckooTable {
    fn complete(&mut self, report: SchemeReport) {
        self.report = SchemeReport { slots: self.table.len(), bytes: self.table.bytes(), ..report };
    }
}

/// Clears the table and the status, then calls `insert`. Returns the table, if all pairs found a
/// slot, and the device time in seconds.
pub(super) fn build(
    stream: &Stream,
    pairs: Pairs<'_>,
    functions: Functions,
    insert: impl FnOnce(PairsIn, CuckooMut) -> Result<()>,
) -> Result<restarts::Outcome<CuckooTable>> {
    let device = stream.device();
    let mut table = device.alloc::<u64>(functions.slots() as usize)?;
    let mut status = device.alloc::<u32>(status::WORDS)?;
    let ((), seconds) = stream.time(|| {
        table.view_mut().fill_bytes(0xFF, stream)?;
        status.view_mut().fill_bytes(0, stream)?;
        let slots = table.view_mut().arg("table", stream)?;
        let status = status.view_mut().arg("status", stream)?;
        insert(pairs.arg(stream)?, CuckooMut { functions, slots, status })
    })?;
    let status = status.download()?;
    let all_ones = status[status::ALL_ONES as usize];
    let built = CuckooTable { functions, all_ones, table, report: SchemeReport::default() };
    Ok(restarts::Outcome {
        table: (status[status::FAILED as usize] == 0).then_some(built),
        seconds,
    })
}

/// Slots that may hold a key.
struct Slots(Functions);
impl cpu::Probe for Slots {
    type Key = ();
    fn probes(&self) -> u32 {
        self.0.count()
    }
    fn start(&self, _: u32) {}
    #[inline(always)]
    fn slots(&self, i: u32) -> impl Fn(u32, ()) -> usize {
        let slot = self.0.bind(i);
        move |key, ()| slot(key) as usize
    }
}

impl Table for CuckooTable {
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
        if !runs_kernels(stream.device()) {
            let rest = |key| (self.all_ones != 0 && key == u32::MAX).then_some(EMPTY);
            cpu::find(
                stream.device(),
                &Slots(self.functions),
                self.table.view(),
                queries,
                values,
                found,
                rest,
            );
            return Ok(());
        }
        let lookup = Lookup {
            stash_kind: StashKind::Array as u32,
            stash_slots: 0,
            all_ones: self.all_ones,
            stop_at_empty: 0,
        };
        let grid = args.n.div_ceil(single_level_find::SPEC.threads);
        let slots = self.table.view().arg("table", stream)?;
        let table = SingleLevelRef { functions: self.functions, lookup, slots, stash: slots };
        // SAFETY: `n` queries and answers; the table was built with these functions; no slot of the
        // stash is read.
        unsafe { single_level_find::launch(stream, grid, table, args) }
    }
}
