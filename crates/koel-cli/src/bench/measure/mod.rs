//! Builds tables, looks up keys, takes the time.
//!
//! Rates come from repeated runs on a stream: events on a GPU, the wall clock on the CPU. The runs
//! of a row are adjacent. A table is built, queried and dropped before the next one starts.
//!
//! Runs that do nothing are detected. The last build of every row has other values than the earlier
//! ones and is looked up in full. The answers are overwritten before every run of lookups, and
//! those of the last run are verified. Tables without values (sets, compacting tables) cannot show
//! which build they come from.
mod answers;
mod inputs;
mod row;
mod table;
#[cfg(test)]
mod tests;

use super::args::Op;
use super::contenders::Contender;
use super::keys::Workload;
use crate::failure::{Failure, Outcome};
use indicatif::ProgressBar;
use inputs::{Inputs, MARK};
use koel::limits::{self, Copies, HostCopies, RandomReads};
use koel::{DeviceKind, Error, Stream};
use koel_classic::Duplicates;
use koel_measure::{Arrangement, RUNS, WARM_UP};
pub(super) use row::Row;
use std::collections::BTreeMap;

/// Maximum number of calls per run.
const MAX_CALLS: usize = 1 << 12;

/// What to measure, and how thoroughly.
pub(super) struct Settings {
    pub ops: Vec<Op>,
    /// Loads. Empty: each table's default.
    pub loads: Vec<f64>,
    /// Policies. Empty: unchecked, or keep the last of equal keys.
    pub policies: Vec<Duplicates>,
    /// Lookups per call. Empty: all in one call.
    pub batches: Vec<usize>,
    /// Runs that count, for rows that are fast enough.
    pub runs: usize,
    /// Seconds for all rows.
    pub budget: f64,
    pub seed: u64,
}
impl Settings {
    /// Returns the number of rows per table.
    fn rows(&self) -> usize {
        let in_batches = |op: &&Op| !op.is_build() && **op != Op::GetHost;
        let in_batches = self.ops.iter().filter(in_batches).count();
        self.ops.len() - in_batches + in_batches * self.batches.len().max(1)
    }
}

/// State and results of the measurements.
pub(super) struct Session {
    settings: Settings,
    device: Place,
    /// The CPU, for baselines next to a GPU.
    host: Place,
    /// Number of planned rows; `rows_done` counts those measured or left out.
    planned: usize,
    rows_done: usize,
    seconds_left: f64,
    progress: ProgressBar,
    /// Number of operations with wrong answers.
    pub wrong: usize,
    pub rows: Vec<Row>,
    /// Fallbacks, tables left out and wrong answers, each with the places where it occurred.
    notes: Vec<(String, Vec<String>)>,
}

/// Limits of a device; `None` where memory was short.
pub(super) struct Limits {
    /// Random reads, by the size of the memory.
    pub reads: Vec<RandomReads>,
    pub copies: Option<Copies>,
    /// Only measured for rows that begin or end in host memory.
    pub host_copies: Option<HostCopies>,
}

/// A device with the limits measured on it.
struct Place {
    stream: Stream,
    reads: BTreeMap<usize, Option<RandomReads>>,
}

impl Session {
    /// Creates a session. `tables` is the number of tables to build, counting each load and number
    /// of keys; `host` runs the baselines.
    pub(super) fn new(
        settings: Settings,
        device: Stream,
        host: Stream,
        tables: usize,
        progress: ProgressBar,
    ) -> Session {
        let planned = tables * settings.rows() * settings.policies.len().max(1);
        progress.set_length(planned as u64);
        let place = |stream| Place { stream, reads: BTreeMap::new() };
        Session {
            seconds_left: settings.budget,
            settings,
            device: place(device),
            host: place(host),
            planned,
            rows_done: 0,
            progress,
            wrong: 0,
            rows: vec![],
            notes: vec![],
        }
    }

    /// Measures copies on the device of more data than its caches hold; `None` if memory is short.
    fn copies(&self) -> Outcome<Option<Copies>> {
        let on_gpu = self.device.stream.device().kind() == DeviceKind::Cuda;
        let bytes = if on_gpu { 1 << 30 } else { 1 << 27 };
        if_it_fits(limits::copies(&self.device.stream, bytes, RUNS))
    }
    /// Measures copies between host and device, if rows have such; `None` if memory is short.
    fn host_copies(&self) -> Outcome<Option<HostCopies>> {
        if !self.settings.ops.iter().any(|op| op.is_of_host()) {
            return Ok(None);
        }
        match limits::host_copies(&self.device.stream, 1 << 27, RUNS) {
            // The system may pin less memory than there is.
            Err(Error::Driver { .. }) => Ok(None),
            copies => Ok(if_it_fits(copies)?.flatten()),
        }
    }
    /// Returns the limits of the device: random reads measured with the rows, and copies.
    pub(super) fn limits(&self) -> Outcome<Limits> {
        let reads = self.device.reads.values().flatten().copied().collect();
        Ok(Limits { reads, copies: self.copies()?, host_copies: self.host_copies()? })
    }

    /// Measures every contender on these keys, with every policy.
    pub(super) fn run(&mut self, contenders: &[Contender], workload: &Workload) -> Outcome {
        let mut ops = self.settings.ops.clone();
        // A table that is only built is verified by lookups all the same.
        ops.extend(
            [Op::FIND_HIT, Op::FIND_MISS].into_iter().filter(|op| !self.settings.ops.contains(op)),
        );
        ops.retain(|op| !op.is_build());
        let policies = match (&self.settings.policies[..], workload.is_unique()) {
            ([], true) => vec![Duplicates::Unchecked],
            ([], false) => vec![Duplicates::KeepLast],
            (policies, _) => policies.to_vec(),
        };
        let marked = workload.values.iter().map(|value| value ^ MARK).collect::<Vec<u32>>();
        for &policy in &policies {
            let kept = workload.kept(policy);
            let queries = ops
                .iter()
                .map(|&op| (op, workload.queries(op, kept.as_deref())))
                .collect::<Vec<_>>();
            for (on_host, lists) in [(false, false), (true, false), (false, true)] {
                let is_here = |c: &&Contender| (c.on_host, c.kind.has_lists()) == (on_host, lists);
                let here = contenders.iter().filter(is_here).collect::<Vec<_>>();
                // Tables that list all pairs have no policy for repeated keys.
                let keeps_all = lists && !workload.is_unique();
                if here.is_empty() || keeps_all && policy != policies[0] {
                    self.rows_done += here.len() * self.loads().len() * self.settings.rows();
                    continue;
                }
                let policy = Some(policy).filter(|_| !keeps_all);
                let stream = self.place(on_host).stream.clone();
                let mut inputs = Inputs::new(&stream, workload, policy, &queries, &marked, lists)?;
                for contender in here {
                    self.contender(contender, &mut inputs)?;
                }
            }
        }
        Ok(())
    }
    /// Returns the requested loads; `None`: each table's default.
    fn loads(&self) -> Vec<Option<f64>> {
        match self.settings.loads[..] {
            [] => vec![None],
            _ => self.settings.loads.iter().copied().map(Some).collect(),
        }
    }

    fn place(&mut self, on_host: bool) -> &mut Place {
        if on_host { &mut self.host } else { &mut self.device }
    }

    /// Measures one contender at every load.
    fn contender(&mut self, contender: &Contender, inputs: &mut Inputs<'_>) -> Outcome {
        let name = contender.label();
        let obstacle = contender.obstacle(inputs.policy, inputs.repeats == Arrangement::Unique);
        let mut slots_before = None;
        for load in self.loads() {
            let rows_after = self.rows_done + self.settings.rows();
            let outcome = match (load, contender.kind.max_load(), obstacle) {
                (_, _, Some(obstacle)) => Err(Stop::LeftOut(obstacle.into())),
                (Some(load), Some(most), _) if load > most => {
                    Err(Stop::LeftOut(format!("its maximum load is {most}")))
                }
                _ => self.measure_table(contender, load, inputs, &mut slots_before),
            };
            match outcome {
                Ok(()) => {}
                Err(Stop::LeftOut(reason)) => {
                    let at = load.map_or(String::new(), |load| format!(", load {load}"));
                    self.note(
                        format!("{name}: left out: {reason}"),
                        format!("{}{at}", inputs.place()),
                    );
                }
                Err(Stop::Failed(failure)) => return Err(failure),
            }
            self.rows_done = rows_after;
            self.progress.set_position(rows_after as u64);
        }
        Ok(())
    }
    fn note(&mut self, note: String, place: String) {
        match self.notes.iter_mut().find(|(text, _)| *text == note) {
            Some((_, places)) if places.contains(&place) => {}
            Some((_, places)) => places.push(place),
            None => self.notes.push((note, vec![place])),
        }
    }
    /// Returns the notes for readers of the rates.
    pub(super) fn notes(&self) -> Vec<String> {
        self.notes.iter().map(|(text, places)| format!("{text} ({})", places.join("; "))).collect()
    }

    /// Repeats a run, after a first one. Returns the seconds of the runs that count. Each row may
    /// take an equal share of what is left of the budget; if its only run exceeds the share, other
    /// rows do not pay for it. `run` receives whether it is the last.
    fn repeat(
        &mut self,
        first: f64,
        mut run: impl FnMut(bool) -> Result<f64, Stop>,
    ) -> Result<Vec<f64>, Stop> {
        let share =
            self.seconds_left.max(0.0) / self.planned.saturating_sub(self.rows_done).max(1) as f64;
        let (warm_up, runs) = affordable_runs(share / first.max(1e-9), self.settings.runs);
        let mut seconds = vec![first];
        while seconds.len() < warm_up + runs {
            seconds.push(run(seconds.len() + 1 == warm_up + runs)?);
        }
        self.seconds_left -= seconds.iter().sum::<f64>().min(share);
        self.rows_done += 1;
        self.progress.set_position(self.rows_done as u64);
        Ok(seconds.split_off(warm_up))
    }
}

/// Returns the numbers of warm-up and counted runs for a row with time for `affordable` runs.
fn affordable_runs(affordable: f64, runs: usize) -> (usize, usize) {
    match affordable as usize {
        0 | 1 => (0, 1), // the first run is the only one
        enough if enough >= WARM_UP + runs => (WARM_UP, runs),
        few => (1, (few - 1).min(runs)),
    }
}

impl Place {
    /// Measures random reads from this much memory. Sizes are rounded up to a quarter octave,
    /// and each is measured once. `None` if the device cannot allocate or address that much more.
    fn random_reads(&mut self, bytes: usize) -> Outcome<Option<RandomReads>> {
        let step = (bytes.max(1).next_power_of_two() / 8).max(64);
        let bytes = bytes.max(1).next_multiple_of(step);
        if let Some(reads) = self.reads.get(&bytes) {
            return Ok(*reads);
        }
        let reads = if_it_fits(limits::random_reads(&self.stream, bytes, RUNS))?;
        self.reads.insert(bytes, reads);
        Ok(reads)
    }
}

/// Returns what was measured; `None` if memory is short.
fn if_it_fits<T>(measured: koel::Result<T>) -> Outcome<Option<T>> {
    match measured {
        Ok(measured) => Ok(Some(measured)),
        Err(Error::OutOfMemory { .. } | Error::TooMany { .. }) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Reason why a table gets no row.
#[derive(Debug)]
enum Stop {
    /// This machine or this table cannot do it; others may.
    LeftOut(String),
    /// The device or the system failed.
    Failed(Failure),
}
impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        match error {
            // The options check each value: a load is above the maximum of a table of lists, or two
            // parameters exclude each other.
            Error::OutOfMemory { .. } | Error::TooMany { .. } | Error::Setting { .. } => {
                Stop::LeftOut(error.to_string())
            }
            _ => Stop::Failed(error.into()),
        }
    }
}
impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}
