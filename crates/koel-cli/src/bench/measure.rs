//! Builds tables, looks keys up, takes the time.
//!
//! Rates come from repeated runs on a stream: events on a GPU, the wall clock on the CPU. Runs of
//! one row are adjacent; a table is built, queried and dropped before the next one begins.
//!
//! A run that does nothing is caught: the last build of every row has other values than those
//! before it and is looked up in full, and the answers are spoiled before every run of lookups, the
//! last of which are checked.
use super::args::{Op, policy_name};
use super::contenders::{Contender, Rebuilt};
use super::keys::{Queries, Workload};
use super::repeats::Repeats;
use super::verify::{self, WrongAnswer};
use crate::failure::{Failure, Outcome};
use crate::output::thousands;
use indicatif::ProgressBar;
use koel::classic::{BuildReport, Duplicates, Kind, Options, Table};
use koel::device::{Element, Staged};
use koel::limits::{self, Copies, RandomReads, Rates};
use koel::{Buffer, DeviceKind, Error, Stream, View};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;

/// Runs before those that count.
const WARM_UP: usize = 2;
/// Runs of each measurement of the machine's limits.
const LIMIT_RUNS: usize = 7;
/// The bits in which the values of the last build of a row differ from those before. Values stay
/// below 2^31.
const MARK: u32 = 1 << 30;
/// Calls of one run, at most.
const MOST_CALLS: usize = 1 << 12;

/// One line of the result.
#[derive(Clone)]
pub struct Row {
    pub table: &'static str,
    pub op: Op,
    /// Pairs.
    pub n: usize,
    /// How often keys occur among them.
    pub repeats: Repeats,
    /// What was done about that.
    pub policy: Duplicates,
    /// Lookups in one call; `None`: one for each pair, in one call.
    pub batch: Option<usize>,
    /// Calls of one run, one after the other.
    pub calls: usize,
    /// The load asked for where the table has it, else the one it has.
    pub load: f64,
    /// The load asked for.
    pub load_asked: Option<f64>,
    /// Operations a second; `None` if an answer was wrong.
    pub rates: Option<Rates>,
    /// Runs that count.
    pub runs: usize,
    /// Every answer was right.
    pub verified: bool,
    /// Random reads from as much memory as the table takes, where the table is.
    pub limit: Option<RandomReads>,
    /// How the table was built.
    pub report: BuildReport,
    /// Where it runs.
    pub device: String,
}
impl Row {
    pub fn bytes_per_pair(&self) -> f64 {
        self.report.bytes as f64 / self.report.pairs.max(1) as f64
    }
    /// Random reads a second: the fastest run, as the machine can do that.
    pub fn limit_rate(&self) -> Option<f64> {
        Some(self.limit?.rates.max)
    }
    /// Operations to one random read.
    pub fn limit_ratio(&self) -> Option<f64> {
        Some(self.rates?.median / self.limit_rate()?)
    }
    /// Whether both are of the same pairs, of operations of the same size.
    pub fn is_beside(&self, other: &Row) -> bool {
        let of = |row: &Row| (row.n, row.repeats, row.policy, row.batch);
        of(self) == of(other)
    }
    /// Its rate over that of another table at the same work; `None` if that has no row. Where the
    /// other table does not have this kind of build, its first one counts: a table that keeps
    /// no memory from build to build has one kind only.
    pub fn times(&self, table: &str, rows: &[Row]) -> Option<f64> {
        let other = || rows.iter().filter(|row| row.table == table && row.is_beside(self));
        let any_build = || other().find(|row| self.op.is_build() && row.op.is_build());
        Some(
            self.rates?.median
                / other().find(|row| row.op == self.op).or_else(any_build)?.rates?.median,
        )
    }
}

/// What is measured, and how thoroughly.
pub struct Settings {
    pub ops: Vec<Op>,
    /// None: each table's own.
    pub loads: Vec<f64>,
    /// None: unchecked, or the last of equal keys.
    pub policies: Vec<Duplicates>,
    /// Lookups in one call; none: all.
    pub batches: Vec<usize>,
    /// Runs that count, for rows that are quick enough.
    pub runs: usize,
    /// Seconds for all rows together.
    pub budget: f64,
    pub seed: u64,
}
impl Settings {
    /// Rows of one table.
    fn rows(&self) -> usize {
        let builds = self.ops.iter().filter(|op| op.is_build()).count();
        builds + (self.ops.len() - builds) * self.batches.len().max(1)
    }
}

/// What has been found out so far.
pub struct Session {
    settings: Settings,
    device: Place,
    /// The CPU, for yardsticks beside a GPU.
    host: Place,
    /// Rows planned, and done or left out.
    planned: usize,
    rows_done: usize,
    seconds_left: f64,
    progress: ProgressBar,
    /// Operations that gave a wrong answer.
    pub wrong: usize,
    pub rows: Vec<Row>,
    /// Fallbacks, tables left out, wrong answers; each with the places where it happened.
    notes: Vec<(String, Vec<String>)>,
}

/// Somewhere that tables run, and the limits measured there.
struct Place {
    stream: Stream,
    reads: BTreeMap<usize, Option<RandomReads>>,
}

impl Session {
    /// `tables`: how many will be built, counting each load and number of keys; `host` is where
    /// yardsticks run.
    pub fn new(
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

    /// Copies on the device, of more than its caches hold; `None` where there is no room for that.
    pub fn copies(&self) -> Outcome<Option<Copies>> {
        let on_gpu = self.device.stream.device().kind() == DeviceKind::Cuda;
        match limits::copies(
            &self.device.stream,
            if on_gpu { 1 << 30 } else { 1 << 27 },
            LIMIT_RUNS,
        ) {
            Ok(copies) => Ok(Some(copies)),
            Err(Error::OutOfMemory { .. }) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
    /// The random reads measured on the device, by size.
    pub fn reads(&self) -> impl Iterator<Item = &RandomReads> {
        self.device.reads.values().flatten()
    }

    /// Every contender on these keys, by every policy.
    pub fn run(&mut self, contenders: &[Contender], workload: &Workload) -> Outcome {
        let mut ops = self.settings.ops.clone();
        // A table that is only built is looked into all the same.
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
        for policy in policies {
            let kept = workload.kept(policy);
            let queries = ops
                .iter()
                .map(|&op| (op, workload.queries(op, kept.as_deref())))
                .collect::<Vec<_>>();
            for on_host in [false, true] {
                let here = contenders.iter().filter(|c| c.on_host == on_host).collect::<Vec<_>>();
                if !here.is_empty() {
                    let stream = self.place(on_host).stream.clone();
                    let mut inputs = Inputs::new(&stream, workload, policy, &queries, &marked)?;
                    for contender in here {
                        self.contender(contender, &mut inputs)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn place(&mut self, on_host: bool) -> &mut Place {
        if on_host { &mut self.host } else { &mut self.device }
    }

    /// One contender at every load.
    fn contender(&mut self, contender: &Contender, inputs: &mut Inputs<'_>) -> Outcome {
        let name = contender.kind.name();
        let obstacle = contender.obstacle(inputs.policy, inputs.repeats == Repeats::Unique);
        let loads = match self.settings.loads[..] {
            [] => vec![None],
            _ => self.settings.loads.iter().copied().map(Some).collect(),
        };
        let mut slots_before = None;
        for load in loads {
            let rows_after = self.rows_done + self.settings.rows();
            let most = contender.kind.max_load();
            let outcome = match (load, obstacle) {
                (_, Some(obstacle)) => Err(Stop::LeftOut(obstacle.into())),
                (Some(load), _) if load > most => {
                    Err(Stop::LeftOut(format!("its load is {most} at the most")))
                }
                _ => self.table(contender, load, inputs, &mut slots_before),
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
    /// What a reader of the rates must know.
    pub fn notes(&self) -> Vec<String> {
        self.notes.iter().map(|(text, places)| format!("{text} ({})", places.join("; "))).collect()
    }

    /// One table: builds, lookups, and how it compares with the machine.
    ///
    /// `slots_before`: those of this contender's table at the load before.
    fn table(
        &mut self,
        contender: &Contender,
        load: Option<f64>,
        inputs: &mut Inputs<'_>,
        slots_before: &mut Option<usize>,
    ) -> Result<(), Stop> {
        let kind = contender.kind;
        // The keys are distinct where nothing else is asked for, and the papers' tables rely on it.
        let options = Options { load, duplicates: inputs.policy, seed: self.settings.seed };
        self.progress.set_message(format!("{} · {}", kind.name(), Op::Build.name()));
        let (mut table, first) = inputs.build(kind, &options, false)?;
        let slots = table.report().slots;
        if slots_before.replace(slots) == Some(slots) {
            return Ok(()); // its layout fixes the load: it has been measured
        }
        let mut measured = vec![];
        let builds = self.settings.ops.iter().copied().filter(|op| op.is_build());
        // A table that keeps nothing cannot be built into.
        let builds =
            builds.filter(|&op| op != Op::Rebuild || contender.keeps.is_some()).collect::<Vec<_>>();
        for (i, &op) in builds.iter().enumerate() {
            self.progress.set_message(format!("{} · {}", kind.name(), op.name()));
            let seconds;
            (table, seconds) = match (op, contender.keeps) {
                (Op::Rebuild, Some(keeps)) => {
                    drop(table);
                    keeps.forget();
                    // Other values than any rebuild has: a table that is never rebuilt answers
                    // them.
                    let (keys, other_values) = (inputs.keys.view(), inputs.keys.view());
                    let mut standing = keeps.begin(inputs.stream, keys, other_values, &options)?;
                    let first = inputs.rebuild(&mut *standing, false)?;
                    let seconds =
                        self.repeat(first, |is_last| inputs.rebuild(&mut *standing, is_last))?;
                    standing.update_report()?;
                    (standing as Box<dyn Table>, seconds)
                }
                _ => self.builds(contender, op, &options, inputs, table, first)?,
            };
            // The last one is looked into for the rates of lookups.
            let is_whole = i + 1 == builds.len() || self.is_whole(contender, &*table, inputs)?;
            measured.push(Measured {
                op,
                batch: None,
                calls: 1,
                seconds: is_whole.then_some(seconds),
            });
        }
        let mut whole = self.holds_every_key(contender, &*table, inputs);
        for i in 0..inputs.queries.len() {
            whole &= self.finds(contender, &*table, i, inputs, &mut measured)?;
        }
        // A build is right if everything was found and nothing else.
        if let Some(last) = builds.len().checked_sub(1).filter(|_| !whole) {
            measured[last].seconds = None;
        }
        let report = table.report().clone();
        drop(table);
        if let Some(fallback) = &report.fallback {
            self.note(format!("{}: not as published: {fallback}", kind.name()), inputs.place());
        }
        let has = report.pairs as f64 / report.slots.max(1) as f64;
        let load_asked = load;
        let load = load_asked
            .filter(|asked| (asked - has).abs() < 0.005)
            .unwrap_or((has * 1e4).round() / 1e4);
        let limit = self.place(contender.on_host).random_reads(report.bytes)?;
        let device = inputs.stream.device().name();
        for Measured { op, batch, calls, seconds } in measured {
            let work = (calls * batch.unwrap_or(inputs.n)) as f64;
            self.rows.push(Row {
                table: kind.name(),
                op,
                n: inputs.n,
                repeats: inputs.repeats,
                policy: inputs.policy,
                batch,
                calls,
                load,
                load_asked,
                rates: seconds.as_ref().map(|seconds| Rates::of(work, seconds)),
                verified: seconds.is_some(),
                runs: seconds.map_or(0, |seconds| seconds.len()),
                limit,
                report: report.clone(),
                device: device.clone(),
            });
        }
        Ok(())
    }

    /// Builds again and again, the first one done: the last table, and the seconds.
    fn builds(
        &mut self,
        contender: &Contender,
        op: Op,
        options: &Options,
        inputs: &mut Inputs<'_>,
        table: Box<dyn Table>,
        first: f64,
    ) -> Result<(Box<dyn Table>, Vec<f64>), Stop> {
        let mut table = Some(table);
        let mut build = |is_last| {
            table = None; // two of them might not fit
            if let (Op::BuildCold, Some(keeps)) = (op, contender.keeps) {
                keeps.forget();
            }
            let (built, seconds) = inputs.build(contender.kind, options, is_last)?;
            table = Some(built);
            Ok(seconds)
        };
        let first = if op == Op::Build { first } else { build(false)? };
        let seconds = self.repeat(first, build)?;
        let Some(table) = table else { unreachable!("every run leaves its table") };
        Ok((table, seconds))
    }
    /// Looks up all of queries number `i`, in one call and in the calls that are asked for; whether
    /// all was right.
    fn finds(
        &mut self,
        contender: &Contender,
        table: &dyn Table,
        i: usize,
        inputs: &mut Inputs<'_>,
        measured: &mut Vec<Measured>,
    ) -> Result<bool, Stop> {
        let op = inputs.queries[i].0;
        self.progress.set_message(format!("{} · {}", contender.kind.name(), op.name()));
        inputs.spoil_answers()?;
        let first = inputs.find(table, i)?;
        let mut right = self.is_right(contender, i, inputs.n, inputs)?;
        if !self.settings.ops.contains(&op) {
            return Ok(right);
        }
        if self.settings.batches.is_empty() {
            let mut seconds = None;
            if right {
                let run = |_| inputs.spoil_answers().and_then(|()| inputs.find(table, i));
                seconds = Some(self.repeat(first, run)?);
                right = self.is_right(contender, i, inputs.n, inputs)?;
            }
            measured.push(Measured {
                op,
                batch: None,
                calls: 1,
                seconds: seconds.filter(|_| right),
            });
        }
        for batch in self.settings.batches.clone() {
            let calls = (inputs.n / batch).min(MOST_CALLS);
            if calls == 0 {
                let reason = format!("{batch} lookups in a call need as many keys");
                self.note(
                    format!("{}, {}: left out: {reason}", contender.kind.name(), op.name()),
                    inputs.place(),
                );
                continue;
            }
            let mut seconds = None;
            if right {
                inputs.spoil_answers()?;
                let first = inputs.find_in_calls(table, i, batch, calls)?;
                let run = |_| {
                    inputs
                        .spoil_answers()
                        .and_then(|()| inputs.find_in_calls(table, i, batch, calls))
                };
                seconds = Some(self.repeat(first, run)?);
                right = self.is_right(contender, i, batch * calls, inputs)?;
            }
            measured.push(Measured {
                op,
                batch: Some(batch),
                calls,
                seconds: seconds.filter(|_| right),
            });
        }
        Ok(right)
    }
    /// Whether the table says that it has as many pairs as there are different keys.
    fn holds_every_key(
        &mut self,
        contender: &Contender,
        table: &dyn Table,
        inputs: &Inputs<'_>,
    ) -> bool {
        let (pairs, distinct) = (table.report().pairs, inputs.distinct);
        if pairs != distinct {
            self.wrong(
                contender,
                None,
                &format!("holds {pairs} pairs, different keys: {distinct}"),
                inputs,
            );
        }
        pairs == distinct
    }
    /// Whether everything is found, and nothing else.
    fn is_whole(
        &mut self,
        contender: &Contender,
        table: &dyn Table,
        inputs: &mut Inputs<'_>,
    ) -> Result<bool, Stop> {
        let mut whole = self.holds_every_key(contender, table, inputs);
        for i in 0..inputs.queries.len() {
            inputs.spoil_answers()?;
            inputs.find(table, i)?;
            whole &= self.is_right(contender, i, inputs.n, inputs)?;
        }
        Ok(whole)
    }
    /// Whether the first `asked` answers are those to queries number `i`; notes the first that is
    /// not.
    fn is_right(
        &mut self,
        contender: &Contender,
        i: usize,
        asked: usize,
        inputs: &Inputs<'_>,
    ) -> Result<bool, Stop> {
        let right = inputs.check(i, asked)?;
        if let Err(wrong) = &right {
            self.wrong(contender, Some(inputs.queries[i].0), wrong, inputs);
        }
        Ok(right.is_ok())
    }
    fn wrong(
        &mut self,
        contender: &Contender,
        op: Option<Op>,
        wrong: &dyn Display,
        inputs: &Inputs<'_>,
    ) {
        self.wrong += 1;
        let op = op.map_or("table".into(), Op::name);
        self.note(
            format!("WRONG ANSWER: {}, {op}: {wrong}", contender.kind.name()),
            inputs.place(),
        );
    }

    /// Seconds of the runs that count, after a first one. Each row may take an equal share of what
    /// is left of the budget; one whose only run takes longer does so at nobody's cost. `run`
    /// is told whether it is the last one.
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

/// Runs that do not count and runs that do, of a row that may take as long as `affordable` runs.
fn affordable_runs(affordable: f64, runs: usize) -> (usize, usize) {
    match affordable as usize {
        0 | 1 => (0, 1), // the first run is the only one
        enough if enough >= WARM_UP + runs => (WARM_UP, runs),
        few => (1, (few - 1).min(runs)),
    }
}

impl Place {
    /// Random reads from this much memory, to a quarter of an octave: sizes that near are measured
    /// once. `None` where the device cannot hold it a second time or address it.
    fn random_reads(&mut self, bytes: usize) -> Outcome<Option<RandomReads>> {
        let step = (bytes.max(1).next_power_of_two() / 8).max(64);
        let bytes = bytes.max(1).next_multiple_of(step);
        if let Some(reads) = self.reads.get(&bytes) {
            return Ok(*reads);
        }
        let reads = match limits::random_reads(&self.stream, bytes, LIMIT_RUNS) {
            Ok(reads) => Some(reads),
            Err(Error::OutOfMemory { .. } | Error::TooMany { .. }) => None,
            Err(e) => return Err(e.into()),
        };
        self.reads.insert(bytes, reads);
        Ok(reads)
    }
}

/// Seconds of the runs of a row; `None` if an answer was wrong.
struct Measured {
    op: Op,
    batch: Option<usize>,
    calls: usize,
    seconds: Option<Vec<f64>>,
}

/// Why a table gets no row.
#[derive(Debug)]
enum Stop {
    /// This machine or this table cannot do it; others may.
    LeftOut(String),
    /// Something is broken.
    Failed(Failure),
}
impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        match error {
            Error::OutOfMemory { .. } | Error::TooMany { .. } => Stop::LeftOut(error.to_string()),
            _ => Stop::Failed(error.into()),
        }
    }
}
impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

/// Pairs, queries and room for answers, where a table wants them.
struct Inputs<'a> {
    stream: &'a Stream,
    n: usize,
    /// Different keys.
    distinct: usize,
    repeats: Repeats,
    policy: Duplicates,
    keys: Staged<'a, u32>,
    /// The values of builds, and those of the last build of a row.
    values: [Staged<'a, u32>; 2],
    /// Which of them the last build had.
    built: usize,
    queries: Vec<(Op, &'a Queries, Staged<'a, u32>)>,
    answers: Buffer<u32>,
    found: Buffer<u8>,
}
impl<'a> Inputs<'a> {
    fn new(
        stream: &'a Stream,
        workload: &'a Workload,
        policy: Duplicates,
        queries: &'a [(Op, Queries)],
        marked: &'a [u32],
    ) -> Outcome<Inputs<'a>> {
        let device = stream.device();
        let staged =
            |(op, queries): &'a (Op, Queries)| Ok((*op, queries, device.stage(&queries.keys)?));
        Ok(Inputs {
            stream,
            n: workload.n(),
            distinct: workload.distinct,
            repeats: workload.about.repeats,
            policy,
            keys: device.stage(&workload.keys)?,
            values: [device.stage(&workload.values)?, device.stage(marked)?],
            built: 0,
            queries: queries.iter().map(staged).collect::<Outcome<_>>()?,
            answers: device.alloc(workload.n())?,
            found: device.alloc(workload.n())?,
        })
    }
    /// The next build has other values than those before.
    fn change_values(&mut self) {
        self.built = 1 - self.built;
    }
    /// The values of the build that is due, or was done.
    fn values(&self) -> View<'_, u32> {
        self.values[self.built].view()
    }
    /// The bits in which these differ from those of the workload.
    fn mark(&self) -> u32 {
        [0, MARK][self.built]
    }
    /// `is_last`: with other values than those before.
    fn build(
        &mut self,
        kind: &dyn Kind,
        options: &Options,
        is_last: bool,
    ) -> Result<(Box<dyn Table>, f64), Stop> {
        if is_last {
            self.change_values();
        }
        Ok(self
            .stream
            .time(|| kind.build(self.stream, self.keys.view(), self.values(), options))?)
    }
    /// The same into a table that is there.
    fn rebuild(&mut self, table: &mut dyn Rebuilt, is_last: bool) -> Result<f64, Stop> {
        if is_last {
            self.change_values();
        }
        Ok(self.stream.time(|| table.rebuild(self.stream, self.keys.view(), self.values()))?.1)
    }
    /// For notes.
    fn place(&self) -> String {
        let repeats = match self.repeats {
            Repeats::Unique => String::new(),
            repeats => format!(", {repeats}, {}", policy_name(self.policy)),
        };
        format!("{} keys{repeats}", thousands(self.n))
    }
    /// What no table may leave behind.
    fn spoil_answers(&mut self) -> Result<(), Stop> {
        self.answers.view_mut().fill_bytes(0xA5, self.stream)?;
        Ok(self.found.view_mut().fill_bytes(0xA5, self.stream)?)
    }
    /// Looks up all of queries number `i`; seconds.
    fn find(&mut self, table: &dyn Table, i: usize) -> Result<f64, Stop> {
        let staged = &self.queries[i].2;
        let (answers, found) = (&mut self.answers, &mut self.found);
        let find =
            || table.find_into(self.stream, staged.view(), answers.view_mut(), found.view_mut());
        Ok(self.stream.time(find)?.1)
    }
    /// Looks up the first of queries number `i`, `batch` in each of `calls` calls; seconds of all.
    fn find_in_calls(
        &mut self,
        table: &dyn Table,
        i: usize,
        batch: usize,
        calls: usize,
    ) -> Result<f64, Stop> {
        let staged = &self.queries[i].2;
        let (answers, found) = (&mut self.answers, &mut self.found);
        let find = || {
            (0..calls).map(|call| call * batch..(call + 1) * batch).try_for_each(|part| {
                let queries = staged.view().slice(part.clone())?;
                let (answers, found) =
                    (answers.view_mut().slice(part.clone())?, found.view_mut().slice(part)?);
                table.find_into(self.stream, queries, answers, found)
            })
        };
        Ok(self.stream.time(find)?.1)
    }
    /// Whether the first `asked` answers are those to queries number `i`.
    fn check(&self, i: usize, asked: usize) -> Result<Result<(), WrongAnswer>, Stop> {
        Ok(verify::check(
            self.queries[i].1,
            self.mark(),
            &on_host(&self.answers, asked)?,
            &on_host(&self.found, asked)?,
        ))
    }
}

/// The first elements.
fn on_host<T: Element>(buffer: &Buffer<T>, elements: usize) -> Result<Cow<'_, [T]>, Stop> {
    let view = buffer.view().slice(..elements)?;
    Ok(match view.host() {
        Some(elements) => Cow::Borrowed(elements),
        None => Cow::Owned(view.download()?),
    })
}

#[cfg(test)]
mod tests {
    use super::super::args::Source;
    use super::super::contenders::{self, Keeps};
    use super::*;
    use koel::{Device, ViewMut};
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    const OPS: [Op; 4] = [Op::Build, Op::FIND_HIT, Op::FIND_HALF, Op::FIND_MISS];

    /// A table that tells the truth about everything but one key.
    #[derive(Default)]
    struct Liar {
        lie: Option<(u32, Option<u32>)>,
        /// Pairs that it claims to hold besides those that it was given.
        extra: usize,
    }
    struct Lies {
        answers: HashMap<u32, u32>,
        report: BuildReport,
    }
    impl Kind for Liar {
        fn name(&self) -> &'static str {
            if self.lie.is_some() { "liar" } else { "honest" }
        }
        fn about(&self) -> &'static str {
            "for tests"
        }
        fn default_load(&self) -> f64 {
            0.5
        }
        fn max_load(&self) -> f64 {
            0.9
        }
        fn build(
            &self,
            _: &Stream,
            keys: View<'_, u32>,
            values: View<'_, u32>,
            options: &Options,
        ) -> koel::Result<Box<dyn Table>> {
            let mut answers =
                keys.download()?.into_iter().zip(values.download()?).collect::<HashMap<u32, u32>>();
            let pairs = answers.len() + self.extra;
            match self.lie {
                Some((key, Some(value))) => drop(answers.insert(key, value)),
                Some((key, None)) => drop(answers.remove(&key)),
                None => {}
            }
            let slots =
                (pairs as f64 / options.load.unwrap_or(self.default_load())).round() as usize;
            let report = BuildReport {
                pairs,
                slots,
                bytes: 8 * slots,
                attempts: 1,
                ..BuildReport::default()
            };
            Ok(Box::new(Lies { answers, report }))
        }
    }
    impl Table for Lies {
        fn report(&self) -> &BuildReport {
            &self.report
        }
        fn find_into(
            &self,
            _: &Stream,
            queries: View<'_, u32>,
            values: ViewMut<'_, u32>,
            found: ViewMut<'_, u8>,
        ) -> koel::Result<()> {
            write_answers(&self.answers, queries, values, found)
        }
    }
    fn write_answers(
        answers: &HashMap<u32, u32>,
        queries: View<'_, u32>,
        mut values: ViewMut<'_, u32>,
        mut found: ViewMut<'_, u8>,
    ) -> koel::Result<()> {
        let answers =
            queries.download()?.iter().map(|q| answers.get(q).copied()).collect::<Vec<_>>();
        values.copy_from_host(&answers.iter().map(|a| a.unwrap_or(0)).collect::<Vec<u32>>())?;
        found.copy_from_host(&answers.iter().map(|a| a.is_some().into()).collect::<Vec<u8>>())
    }

    fn measure(
        lie: Option<(u32, Option<u32>)>,
        ops: &[Op],
        loads: &[f64],
        workload: &Workload,
    ) -> Session {
        measure_in(
            lie,
            Settings { ops: ops.to_vec(), loads: loads.to_vec(), ..settings() },
            workload,
        )
    }
    fn settings() -> Settings {
        Settings {
            ops: vec![],
            loads: vec![],
            policies: vec![],
            batches: vec![],
            runs: 3,
            budget: 1e-3,
            seed: 1,
        }
    }
    fn measure_in(
        lie: Option<(u32, Option<u32>)>,
        settings: Settings,
        workload: &Workload,
    ) -> Session {
        measure_of(Liar { lie, extra: 0 }, settings, workload)
    }
    fn measure_of(liar: Liar, settings: Settings, workload: &Workload) -> Session {
        let contender = Contender { kind: Box::leak(Box::new(liar)), on_host: false, keeps: None };
        session(contender, settings, workload)
    }
    fn session(contender: Contender, settings: Settings, workload: &Workload) -> Session {
        let stream = Device::cpu_with_threads(1).unwrap().stream().unwrap();
        let tables = settings.loads.len().max(1);
        let mut session =
            Session::new(settings, stream.clone(), stream, tables, ProgressBar::hidden());
        session.run(&[contender], workload).unwrap();
        session
    }

    #[test]
    fn honest_tables_get_rates() {
        let workload = Workload::of(&Source::Random(100, Repeats::Unique), 1).unwrap();
        let session = measure(None, &OPS, &[0.5, 0.8, 0.95], &workload);
        assert_eq!(session.wrong, 0);
        assert_eq!(
            session.notes(),
            ["honest: left out: its load is 0.9 at the most (100 keys, load 0.95)"]
        );
        assert_eq!(session.rows.len(), 8);
        for (i, row) in session.rows.iter().enumerate() {
            let rates = row.rates.unwrap();
            assert!(
                row.verified && (1..=3).contains(&row.runs) && row.n == 100 && row.op == OPS[i % 4]
            );
            assert!(rates.min > 0.0 && rates.min <= rates.median && rates.median <= rates.max);
            assert!(row.limit_ratio().unwrap() > 0.0);
            assert_eq!(row.load, [0.5, 0.8][i / 4]);
            assert_eq!(row.bytes_per_pair(), [16.0, 10.0][i / 4]);
            assert_eq!(row.times("honest", &session.rows[i..]), Some(1.0));
            assert_eq!(row.times("sorted", &session.rows), None);
        }
    }

    #[test]
    fn a_load_that_makes_the_same_table_is_measured_once() {
        let workload = Workload::of(&Source::Random(100, Repeats::Unique), 1).unwrap();
        let session = measure(None, &[Op::Build], &[0.5, 0.501], &workload);
        assert_eq!(session.rows.len(), 1);
    }

    #[test]
    fn one_wrong_answer_is_caught() {
        let workload = Workload::of(&Source::Random(1000, Repeats::Unique), 1).unwrap();
        let (present, absent) = (workload.keys[417], workload.queries(Op::FIND_MISS, None).keys[3]);
        for (lie, lied_to) in [
            ((present, Some(418)), Op::FIND_HIT),
            ((present, None), Op::FIND_HIT),
            ((absent, Some(0)), Op::FIND_MISS),
        ] {
            let session =
                measure(Some(lie), &[Op::Build, Op::FIND_HIT, Op::FIND_MISS], &[], &workload);
            assert_eq!(session.wrong, 1);
            assert!(
                session.notes()[0].starts_with("WRONG ANSWER: liar, find_"),
                "{:?}",
                session.notes()
            );
            for row in &session.rows {
                // The build is as wrong as what is found in it.
                let right = row.op != Op::Build && row.op != lied_to;
                assert_eq!((row.verified, row.rates.is_some()), (right, right), "{:?}", row.op);
            }
        }
        // Also where nothing but the build is asked for.
        let session = measure(Some((present, None)), &[Op::Build], &[], &workload);
        assert!(session.wrong == 1 && session.rows.len() == 1 && !session.rows[0].verified);
    }

    #[test]
    fn a_table_that_keeps_the_wrong_one_of_equal_keys_is_caught() {
        let workload = Workload::of(&Source::Random(1000, Repeats::Twice), 1).unwrap();
        // It keeps the last, whatever is asked for.
        for (policy, wrong) in [(Duplicates::KeepLast, 0), (Duplicates::KeepFirst, 1)] {
            let ops = vec![Op::Build, Op::FIND_HIT, Op::FIND_MISS];
            let session =
                measure_in(None, Settings { ops, policies: vec![policy], ..settings() }, &workload);
            assert_eq!((session.wrong, session.rows.len()), (wrong, 3), "{:?}", session.notes());
            for row in &session.rows {
                assert_eq!((row.policy, row.repeats), (policy, Repeats::Twice));
                assert_eq!(row.verified, wrong == 0 || row.op == Op::FIND_MISS, "{:?}", row.op);
            }
        }
        let unchecked =
            Settings { ops: vec![Op::Build], policies: vec![Duplicates::Unchecked], ..settings() };
        let session = measure_in(None, unchecked, &workload);
        assert!(
            session.rows.is_empty() && session.notes()[0].contains("left out: unchecked means")
        );
    }

    #[test]
    fn a_table_that_holds_more_pairs_is_caught() {
        let workload = Workload::of(&Source::Random(1000, Repeats::Unique), 1).unwrap();
        let settings = Settings { ops: vec![Op::Build], ..settings() };
        let session = measure_of(Liar { lie: None, extra: 1 }, settings, &workload);
        assert!(session.wrong == 1 && !session.rows[0].verified);
        assert!(
            session.notes()[0].contains("holds 1001 pairs, different keys: 1000"),
            "{:?}",
            session.notes()
        );
    }

    #[test]
    fn a_lie_in_a_batch_is_caught() {
        let workload = Workload::of(&Source::Random(1000, Repeats::Unique), 1).unwrap();
        let with = |batches: Vec<usize>| Settings {
            ops: vec![Op::FIND_HIT, Op::Find(30)],
            batches,
            ..settings()
        };
        let honest = measure_in(None, with(vec![64, 1000, 1001]), &workload);
        let of = |session: &Session| {
            session
                .rows
                .iter()
                .map(|row| (row.op, row.batch, row.calls, row.verified))
                .collect::<Vec<_>>()
        };
        let rows = [Op::FIND_HIT, Op::Find(30)]
            .map(|op| [(op, Some(64), 15, true), (op, Some(1000), 1, true)]);
        assert_eq!(of(&honest), rows.concat());
        assert!(
            honest
                .notes()
                .iter()
                .all(|note| note.contains("1001 lookups in a call need as many keys"))
        );
        let lie = Some((workload.keys[7], None));
        let lying = measure_in(lie, with(vec![64]), &workload);
        assert!(lying.wrong >= 1 && !lying.rows[0].verified && lying.rows[0].rates.is_none());
    }

    #[test]
    fn the_flagship_is_built_cold_and_warm_by_every_policy() {
        let ops = vec![Op::Build, Op::BuildCold, Op::Rebuild, Op::FIND_HIT, Op::FIND_HALF];
        for repeats in ["unique", "zipf", "equal"].map(|text| text.parse::<Repeats>().unwrap()) {
            let workload = Workload::of(&Source::Random(3000, repeats), 1).unwrap();
            let map = contenders::choose(&["map".into()], DeviceKind::Cpu)[0];
            let policies = vec![Duplicates::KeepLast, Duplicates::KeepFirst];
            let settings =
                Settings { ops: ops.clone(), policies, batches: vec![100], ..settings() };
            let session = session(map, settings, &workload);
            assert_eq!(
                (session.wrong, session.rows.len()),
                (0, 10),
                "{repeats}: {:?}",
                session.notes()
            );
            assert_eq!(session.rows_done, session.planned);
            for (row, op) in session.rows.iter().zip(ops.iter().chain(&ops)) {
                assert!(row.verified && row.op == *op && row.report.pairs == workload.distinct);
                assert_eq!(
                    (row.batch, row.calls),
                    if op.is_build() { (None, 1) } else { (Some(100), 30) }
                );
            }
        }
    }

    #[test]
    fn builds_of_every_kind_stand_beside_a_yardstick() {
        let workload = Workload::of(&Source::Random(1000, Repeats::Unique), 1).unwrap();
        let ops = vec![Op::BuildCold, Op::FIND_HIT];
        let mut rows = measure_in(None, Settings { ops, ..settings() }, &workload).rows;
        let of = |op, rows: &[Row]| Row { op, ..rows[0].clone() }.times("honest", rows);
        assert_eq!(of(Op::Rebuild, &rows), Some(1.0));
        assert_eq!(of(Op::FIND_MISS, &rows), None);
        assert!(of(Op::FIND_HIT, &rows).is_some());
        rows.remove(0);
        assert_eq!(of(Op::Rebuild, &rows), None);
    }

    /// A table that works once: from the second run of an operation on it does nothing.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Sleeps {
        InBuild,
        InRebuild,
        InEveryRebuild,
        InFind,
        Never,
    }
    struct Sleeper {
        sleeps: Sleeps,
        first: Mutex<Option<Arc<HashMap<u32, u32>>>>,
    }
    struct Asleep {
        answers: Arc<HashMap<u32, u32>>,
        sleeps: Sleeps,
        rebuilds: usize,
        finds: AtomicUsize,
        report: BuildReport,
    }
    impl Sleeper {
        fn table(&self, keys: View<'_, u32>, values: View<'_, u32>) -> koel::Result<Asleep> {
            let built = Arc::new(answers_of(keys, values)?);
            let mut first = self.first.lock().unwrap();
            let first = first.get_or_insert_with(|| built.clone());
            let answers = if self.sleeps == Sleeps::InBuild { first.clone() } else { built };
            let report = BuildReport {
                pairs: answers.len(),
                slots: answers.len(),
                ..BuildReport::default()
            };
            Ok(Asleep {
                answers,
                sleeps: self.sleeps,
                rebuilds: 0,
                finds: AtomicUsize::new(0),
                report,
            })
        }
    }
    fn answers_of(keys: View<'_, u32>, values: View<'_, u32>) -> koel::Result<HashMap<u32, u32>> {
        Ok(keys.download()?.into_iter().zip(values.download()?).collect())
    }
    impl Kind for Sleeper {
        fn name(&self) -> &'static str {
            "sleeper"
        }
        fn about(&self) -> &'static str {
            "for tests"
        }
        fn default_load(&self) -> f64 {
            1.0
        }
        fn max_load(&self) -> f64 {
            1.0
        }
        fn build(
            &self,
            _: &Stream,
            keys: View<'_, u32>,
            values: View<'_, u32>,
            _: &Options,
        ) -> koel::Result<Box<dyn Table>> {
            Ok(Box::new(self.table(keys, values)?))
        }
    }
    impl Keeps for Sleeper {
        fn forget(&self) {}
        fn begin(
            &self,
            _: &Stream,
            keys: View<'_, u32>,
            values: View<'_, u32>,
            _: &Options,
        ) -> koel::Result<Box<dyn Rebuilt>> {
            Ok(Box::new(self.table(keys, values)?))
        }
    }
    impl Table for Asleep {
        fn report(&self) -> &BuildReport {
            &self.report
        }
        fn find_into(
            &self,
            _: &Stream,
            queries: View<'_, u32>,
            values: ViewMut<'_, u32>,
            found: ViewMut<'_, u8>,
        ) -> koel::Result<()> {
            // Of the runs of a row, the first calls: those before are of the checks of builds.
            let calls = self.finds.fetch_add(1, Ordering::Relaxed);
            if self.sleeps == Sleeps::InFind && calls >= 1 {
                return Ok(());
            }
            write_answers(&self.answers, queries, values, found)
        }
    }
    impl Rebuilt for Asleep {
        fn rebuild(
            &mut self,
            _: &Stream,
            keys: View<'_, u32>,
            values: View<'_, u32>,
        ) -> koel::Result<()> {
            self.rebuilds += 1;
            let is_awake = match self.sleeps {
                Sleeps::InRebuild => self.rebuilds == 1,
                Sleeps::InEveryRebuild => false,
                _ => true,
            };
            if is_awake {
                self.answers = Arc::new(answers_of(keys, values)?);
            }
            Ok(())
        }
        fn update_report(&mut self) -> koel::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn runs_that_do_nothing_are_caught() {
        let workload = Workload::of(&Source::Random(100, Repeats::Unique), 1).unwrap();
        for (sleeps, ops, right) in [
            (
                Sleeps::Never,
                vec![Op::Build, Op::BuildCold, Op::Rebuild, Op::FIND_HIT],
                vec![true; 4],
            ),
            (Sleeps::InBuild, vec![Op::Build], vec![false]),
            (Sleeps::InBuild, vec![Op::BuildCold], vec![false]),
            (Sleeps::InRebuild, vec![Op::Rebuild], vec![false]),
            (Sleeps::InEveryRebuild, vec![Op::Rebuild], vec![false]),
            (Sleeps::InRebuild, vec![Op::Build, Op::Rebuild], vec![true, false]),
            (Sleeps::InFind, vec![Op::FIND_HIT], vec![false]),
        ] {
            // So much that every row gets all its runs: two that do not count and an even or odd
            // number of those that do.
            for runs in [3, 4] {
                let first = Mutex::new(None);
                let sleeper: &'static Sleeper = Box::leak(Box::new(Sleeper { sleeps, first }));
                let contender = Contender { kind: sleeper, on_host: false, keeps: Some(sleeper) };
                let settings = Settings { ops: ops.clone(), runs, budget: 1e6, ..settings() };
                let session = session(contender, settings, &workload);
                let verified = session.rows.iter().map(|row| row.verified).collect::<Vec<_>>();
                assert_eq!(
                    verified,
                    right,
                    "{sleeps:?}, {ops:?}, {runs} runs: {:?}",
                    session.notes()
                );
                assert_eq!(session.wrong > 0, right.contains(&false), "{sleeps:?}");
            }
        }
    }

    #[test]
    fn slow_rows_get_fewer_runs() {
        assert_eq!(affordable_runs(1e9, 7), (2, 7));
        assert_eq!(affordable_runs(9.0, 7), (2, 7));
        assert_eq!(affordable_runs(8.9, 7), (1, 7));
        assert_eq!(affordable_runs(4.0, 7), (1, 3));
        assert_eq!(affordable_runs(2.0, 7), (1, 1));
        assert_eq!(affordable_runs(1.9, 7), (0, 1));
        assert_eq!(affordable_runs(0.0, 7), (0, 1));
        assert_eq!(affordable_runs(f64::INFINITY, 1), (2, 1));
    }
}
