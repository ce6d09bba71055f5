//! The single-level cuckoo table of Alcantara et al. 2011, "Building an Efficient Hash Table on the
//! GPU".
//!
//! One array of slots in global memory and two to five hash functions. Insertion is by atomic
//! exchange with round-robin eviction; a limit bounds the length of eviction chains, and a chain
//! that reaches it restarts the build with new functions. The stash and the early exit of a lookup
//! at an empty slot are from Zachmann's lectures.
//!
//! Memory: 8 / load bytes per pair. A build writes the slots once (8 bytes each) and makes about
//! `-ln(1 - load) / load` exchanges per pair at random slots (the paper's estimate). A lookup reads
//! 1 to `functions` slots.
use super::input::{self, Pairs};
use super::restarts::{self, Attempt, Outcome, Published};
use super::{Family, Kind, Options, SchemeReport, Table, cpu, find_args, runs_kernels};
use koel::{Buffer, Error, Result, Stream, View, ViewMut};
pub use koel_classic_kernels::single_level::{Coinciding, StashKind};
use koel_classic_kernels::single_level::{
    Insertion, Lookup, SingleLevelRef, find_outside, next_slot, put_into_stash, single_level_find,
    single_level_insert,
};
use koel_classic_kernels::{CuckooMut, status};
use koel_kernels::hash::Functions;
use koel_simt::{Arg, Buf};
use std::sync::Mutex;

/// Parameters of the paper.
#[derive(Clone, Debug)]
pub struct SingleLevel {
    /// Number of hash functions, 2 to 5.
    pub functions: u32,
    /// Hash family.
    pub family: Family,
    /// Maximum number of evictions before a pair is given up. `None`: 7 lg n as in the paper, more
    /// where the load factor approaches the threshold.
    pub max_evictions: Option<u32>,
    /// Choice of the next function when several functions of an evicted pair name its slot.
    pub coinciding: Coinciding,
    /// Kind and capacity, in pairs, of the stash for given-up pairs. `None`: a given-up pair
    /// restarts the build, as in the paper.
    pub stash: Option<(StashKind, u32)>,
    /// Whether lookups stop at an empty slot, as in the lecture. Not allowed with `coinciding` set
    /// to `Random`.
    pub stop_at_empty: bool,
}

impl SingleLevel {
    /// Four functions, round-robin, restarts. The default family is the safe one; the paper's is
    /// [`Family::Linear2011`].
    pub const PUBLISHED: SingleLevel = SingleLevel {
        functions: 4,
        family: Family::Mixed,
        max_evictions: None,
        coinciding: Coinciding::FirstMatch,
        stash: None,
        stop_at_empty: false,
    };
    /// Returns the maximum load factor at which all keys find a slot (Dietzfelbinger et al. 2010),
    /// by number of functions.
    fn threshold(&self) -> f64 {
        match self.functions {
            2 => 0.5,
            3 => 0.9179,
            4 => 0.9768,
            _ => 0.9924,
        }
    }
    fn max_evictions(&self, n: u32, load: f64) -> u32 {
        // 7 lg n up to a load of 0.8 with four functions; chains grow like 1 / (threshold - load).
        let near = (0.17 / (self.threshold() - load).max(0.002)).max(1.0);
        self.max_evictions.unwrap_or((7.0 * (n.max(2) as f64).log2() * near).max(32.0) as u32)
    }
    fn check(&self) -> Result<()> {
        let wrong = |field, found: String, expected: &str| {
            Err(Error::Setting { field, found, expected: expected.into() })
        };
        if !(2..=5).contains(&self.functions) {
            return wrong("functions", self.functions.to_string(), "2 to 5");
        }
        if self.stop_at_empty && self.coinciding == Coinciding::Random {
            return wrong(
                "stop_at_empty",
                "true".into(),
                "false when functions are picked at random",
            );
        }
        if self.max_evictions == Some(0) {
            return wrong("max_evictions", "0".into(), "at least 1");
        }
        if let Some((_, room)) = self.stash
            && !(1..=1 << 20).contains(&room)
        {
            return wrong("stash", room.to_string(), "room for 1 to 1048576 pairs");
        }
        Ok(())
    }
}

struct SingleLevelTable {
    functions: Functions,
    lookup: Lookup,
    table: Buffer<u64>,
    stash: Buffer<u64>,
    report: SchemeReport,
}

impl Kind for SingleLevel {
    fn name(&self) -> &'static str {
        "single-level"
    }
    fn about(&self) -> &'static str {
        "2011: one cuckoo table in global memory, built by atomic exchange"
    }
    fn default_load(&self) -> f64 {
        // 1.25 slots per pair.
        if self.functions == 2 { 0.4 } else { 0.8 }
    }
    fn max_load(&self) -> f64 {
        // The paper's smallest practical tables: 2.1, 1.1, 1.03 and 1.02 slots per pair.
        match self.functions {
            2 => 0.476,
            3 => 0.909,
            4 => 0.97,
            _ => 0.98,
        }
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
            Published::with_room(
                self.family,
                self.functions + self.stash.map_or(0, |(_, room)| room),
            ),
            stream,
            (keys, values),
            options,
            |stream, pairs, load, attempt| self.attempt(stream, pairs, load, attempt),
        )
    }
}
impl restarts::Restarting for SingleLevelTable {
    fn complete(&mut self, report: SchemeReport) {
        let (slots, bytes) = (self.table.len(), self.table.bytes() + self.stash.bytes());
        self.report = SchemeReport { slots, bytes, stashed: self.report.stashed, ..report };
    }
}

impl SingleLevel {
    fn attempt(
        &self,
        stream: &Stream,
        pairs: Pairs<'_>,
        load: f64,
        attempt: Attempt,
    ) -> Result<Outcome<SingleLevelTable>> {
        let device = stream.device();
        let slots = input::groups(pairs.n, load, pairs.n as f64 / load * attempt.growth, 1)?;
        let functions = Functions::new(attempt.family, self.functions, slots, attempt.seed);
        let (stash_kind, stash_room) = self.stash.unwrap_or((StashKind::Array, 0));
        let stash_slots = if stash_kind == StashKind::Table { 2 * stash_room } else { stash_room };
        let insertion = Insertion {
            max_evictions: self.max_evictions(pairs.n, load / attempt.growth),
            coinciding: self.coinciding as u32,
            stash_kind: stash_kind as u32,
            stash_room,
        };
        let mut table = device.alloc::<u64>(slots as usize)?;
        let mut stash = device.alloc::<u64>(stash_slots as usize)?;
        let mut status = device.alloc::<u32>(status::WORDS)?;
        let ((), seconds) = stream.time(|| {
            table.view_mut().fill_bytes(0xFF, stream)?;
            stash.view_mut().fill_bytes(0xFF, stream)?;
            status.view_mut().fill_bytes(0, stream)?;
            let input = pairs.arg(stream)?;
            if !runs_kernels(device) {
                insert_on_cpu(
                    stream,
                    pairs,
                    functions,
                    insertion,
                    &mut table,
                    &mut stash,
                    &mut status,
                );
                return Ok(());
            }
            let slots = table.view_mut().arg("table", stream)?;
            let stash = stash.view_mut().arg("stash", stream)?;
            let status = status.view_mut().arg("status", stream)?;
            let table = CuckooMut { functions, slots, status };
            // With few pairs, one per thread keeps all threads busy.
            let each = if pairs.n < 1 << 21 { 1 } else { 2 };
            let grid = pairs.n.div_ceil(single_level_insert::SPEC.threads * each);
            // SAFETY: `n` keys and values; `slots` slots, and the functions stay below that number;
            // the stash has the slots that its kind needs for `stash_room` pairs; `status::WORDS`
            // words.
            unsafe {
                single_level_insert::launch(stream, grid, input, each, insertion, table, stash)
            }
        })?;
        let status = status.download()?;
        if status[status::FAILED as usize] != 0 {
            return Ok(Outcome { table: None, seconds });
        }
        let stashed = status[status::STASHED as usize];
        let lookup = Lookup {
            stash_kind: stash_kind as u32,
            stash_slots: match stash_kind {
                _ if stashed == 0 => 0,
                StashKind::Array => stashed,
                StashKind::Table => stash_slots,
            },
            all_ones: status[status::ALL_ONES as usize],
            stop_at_empty: self.stop_at_empty as u32,
        };
        let report = SchemeReport { stashed: stashed as usize, ..SchemeReport::default() };
        Ok(Outcome {
            table: Some(SingleLevelTable { functions, lookup, table, stash, report }),
            seconds,
        })
    }
}

/// Does the kernel's work on the CPU, with a batch of pairs in flight per thread.
fn insert_on_cpu(
    stream: &Stream,
    pairs: Pairs<'_>,
    functions: Functions,
    insertion: Insertion,
    table: &mut Buffer<u64>,
    stash: &mut Buffer<u64>,
    status: &mut Buffer<u32>,
) {
    let given_up = Mutex::new(Vec::new());
    let slot = |f, key| functions.slot(f, key);
    let next =
        |key, at, step| next_slot(key, at, step, functions.count(), slot, insertion.coinciding);
    let give_up = |e| given_up.lock().unwrap_or_else(|e| e.into_inner()).push(e);
    let (keys, values, moves) = (pairs.keys, pairs.values, insertion.max_evictions);
    let all_ones =
        cpu::insert(stream.device(), keys, values, table.view_mut(), moves, next, give_up);
    let (mut stash, mut status) = (stash.view_mut(), status.view_mut());
    let (Some(stash), Some(status)) = (stash.host_mut(), status.host_mut()) else { return };
    status[status::ALL_ONES as usize] = all_ones as u32;
    // SAFETY: both arrays are borrowed mutably here, and only this function has the handles.
    let (stash, words) = unsafe { (Buf::new(stash).native(), Buf::new(status).native()) };
    for e in given_up.into_inner().unwrap_or_else(|e| e.into_inner()) {
        if !put_into_stash(e, insertion, stash, words) {
            words.fetch_add(status::FAILED, 1);
        }
    }
}

/// Slots that may hold a key.
struct Slots<'a>(&'a SingleLevelTable);
impl cpu::Probe for Slots<'_> {
    type Key = ();
    fn probes(&self) -> u32 {
        self.0.functions.count()
    }
    fn start(&self, _: u32) {}
    #[inline(always)]
    fn slots(&self, i: u32) -> impl Fn(u32, ()) -> usize {
        let slot = self.0.functions.bind(i);
        move |key, ()| slot(key) as usize
    }
    fn stops_at_empty(&self) -> bool {
        self.0.lookup.stop_at_empty != 0
    }
}

impl Table for SingleLevelTable {
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
        let (slots, stash) =
            (self.table.view().arg("table", stream)?, self.stash.view().arg("stash", stream)?);
        if !runs_kernels(stream.device()) {
            // SAFETY: this device's memory is host memory, and the buffer is borrowed here, so that
            // it does not change meanwhile.
            let stash = unsafe { stash.native() };
            let rest = |key| find_outside(key, self.lookup, stash);
            cpu::find(
                stream.device(),
                &Slots(self),
                self.table.view(),
                queries,
                values,
                found,
                rest,
            );
            return Ok(());
        }
        let (functions, lookup) = (self.functions, self.lookup);
        let table = SingleLevelRef { functions, lookup, slots, stash };
        let grid = args.n.div_ceil(single_level_find::SPEC.threads);
        // SAFETY: `n` queries and answers; the table and the stash were built with these
        // parameters.
        unsafe { single_level_find::launch(stream, grid, table, args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koel::Device;
    use koel_kernels::hash::mix::mix;
    use std::collections::HashMap;

    /// The layout of 2011: 1.25 slots for each pair, each key in one of the four slots that its
    /// functions give, and each pair once.
    #[test]
    fn slots_lie_as_published_in_2011() {
        for device in [Device::cpu_with_threads(1).unwrap(), Device::executor(5)] {
            let stream = device.stream().unwrap();
            let pairs = (0..1000).map(|i| (mix(i), i)).collect::<HashMap<u32, u32>>();
            let (keys, values): (Vec<u32>, Vec<u32>) = pairs.iter().unzip();
            let (k, v) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
            let input = Pairs { keys: k.view(), values: v.view(), n: pairs.len() as u32 };
            let attempt = Attempt { number: 0, family: Family::Linear2011, seed: 3, growth: 1.0 };
            let kind = SingleLevel::PUBLISHED;
            let built = kind.attempt(&stream, input, kind.default_load(), attempt);
            let table = built.unwrap().table.unwrap();
            let slots = table.table.download().unwrap();
            assert_eq!(slots.len(), pairs.len() * 5 / 4);
            let functions = Functions::new(Family::Linear2011, 4, slots.len() as u32, 3);
            let mut left = pairs;
            for (at, &entry) in (0..).zip(&slots).filter(|(_, entry)| **entry != u64::MAX) {
                let key = entry as u32;
                assert!((0..4).any(|f| functions.slot(f, key) == at), "key {key} at {at}");
                assert_eq!(left.remove(&key), Some((entry >> 32) as u32), "key {key} at {at}");
            }
            assert!(left.is_empty(), "{} pairs are in no slot", left.len());
        }
    }
}
