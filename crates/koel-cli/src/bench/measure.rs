//! Builds tables, looks keys up, takes the time.
//!
//! Rates come from repeated runs on a stream: events on a GPU, the wall clock on the CPU. Runs of one row are adjacent;
//! a table is built, queried and dropped before the next one begins.
use super::args::Op;
use super::contenders::Contender;
use super::keys::{Queries, Workload};
use super::verify::{self, WrongAnswer};
use crate::failure::{Failure, Outcome};
use crate::output::thousands;
use indicatif::ProgressBar;
use koel::classic::{BuildReport, Duplicates, Kind, Options, Table};
use koel::device::{Element, Staged};
use koel::limits::{self, Copies, RandomReads, Rates};
use koel::{Buffer, DeviceKind, Error, Stream};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Runs before those that count.
const WARM_UP: usize = 2;
/// Runs of each measurement of the machine's limits.
const LIMIT_RUNS: usize = 7;

/// One line of the result.
#[derive(Clone)]
pub struct Row {
    pub table: &'static str,
    pub op: Op,
    /// Keys.
    pub n: usize,
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
    /// Its rate over that of another table at the same work; `None` if that has no row.
    pub fn times(&self, table: &str, rows: &[Row]) -> Option<f64> {
        let same = |row: &&Row| row.table == table && row.op == self.op && row.n == self.n;
        Some(self.rates?.median / rows.iter().find(same)?.rates?.median)
    }
}

/// What is measured, and how thoroughly.
pub struct Settings {
    pub ops: Vec<Op>,
    /// None: each table's own.
    pub loads: Vec<f64>,
    /// Runs that count, for rows that are quick enough.
    pub runs: usize,
    /// Seconds for all rows together.
    pub budget: f64,
    pub seed: u64,
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
    /// `tables`: how many will be built, counting each load and number of keys; `host` is where yardsticks run.
    pub fn new(settings: Settings, device: Stream, host: Stream, tables: usize, progress: ProgressBar) -> Session {
        let planned = tables * settings.ops.len();
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
        match limits::copies(&self.device.stream, if on_gpu { 1 << 30 } else { 1 << 27 }, LIMIT_RUNS) {
            Ok(copies) => Ok(Some(copies)),
            Err(Error::OutOfMemory { .. }) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
    /// The random reads measured on the device, by size.
    pub fn reads(&self) -> impl Iterator<Item = &RandomReads> {
        self.device.reads.values().flatten()
    }

    /// Every contender on these keys.
    pub fn run(&mut self, contenders: &[Contender], workload: &Workload) -> Outcome {
        let mut ops = self.settings.ops.clone();
        // A table that is only built is looked into all the same.
        ops.extend([Op::FindHit, Op::FindMiss].into_iter().filter(|op| !self.settings.ops.contains(op)));
        let queries =
            ops.iter().filter(|&&op| op != Op::Build).map(|&op| (op, workload.queries(op))).collect::<Vec<_>>();
        for on_host in [false, true] {
            let here = contenders.iter().filter(|c| c.on_host == on_host).collect::<Vec<_>>();
            if !here.is_empty() {
                let stream = self.place(on_host).stream.clone();
                let mut inputs = Inputs::new(&stream, workload, &queries)?;
                for contender in here {
                    self.contender(contender, workload.n(), &mut inputs)?;
                }
            }
        }
        Ok(())
    }

    fn place(&mut self, on_host: bool) -> &mut Place {
        if on_host { &mut self.host } else { &mut self.device }
    }

    /// One contender at every load.
    fn contender(&mut self, contender: &Contender, n: usize, inputs: &mut Inputs<'_>) -> Outcome {
        let name = contender.kind.name();
        let loads = match self.settings.loads[..] {
            [] => vec![None],
            _ => self.settings.loads.iter().copied().map(Some).collect(),
        };
        let mut slots_before = None;
        for load in loads {
            let rows_after = self.rows_done + self.settings.ops.len();
            let most = contender.kind.max_load();
            let outcome = match load {
                Some(load) if load > most => Err(Stop::LeftOut(format!("its load is {most} at the most"))),
                _ => self.table(contender, load, inputs, &mut slots_before),
            };
            match outcome {
                Ok(()) => {}
                Err(Stop::LeftOut(reason)) => {
                    let at = load.map_or(String::new(), |load| format!(", load {load}"));
                    self.note(format!("{name}: left out: {reason}"), format!("{} keys{at}", thousands(n)));
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
        // The keys are distinct, and the papers' tables rely on it.
        let options = Options { load, duplicates: Duplicates::Unchecked, seed: self.settings.seed };
        self.progress.set_message(format!("{} · {}", kind.name(), Op::Build.name()));
        let (first_built, first) = inputs.build(kind, &options)?;
        let slots = first_built.report().slots;
        if slots_before.replace(slots) == Some(slots) {
            return Ok(()); // its layout fixes the load: it has been measured
        }
        let mut table = Some(first_built);
        let mut measured = vec![];
        if self.settings.ops.contains(&Op::Build) {
            let seconds = self.repeat(first, || {
                table = None; // two of them might not fit
                let (built, seconds) = inputs.build(kind, &options)?;
                table = Some(built);
                Ok(seconds)
            })?;
            measured.push((Op::Build, Some(seconds)));
        }
        let Some(table) = table else { unreachable!("every run leaves its table") };
        let mut whole = true;
        for i in 0..inputs.queries.len() {
            let op = inputs.queries[i].0;
            self.progress.set_message(format!("{} · {}", kind.name(), op.name()));
            inputs.spoil_answers()?;
            let first = inputs.find(&*table, i)?;
            let mut right = inputs.check(i)?;
            let mut seconds = None;
            if right.is_ok() && self.settings.ops.contains(&op) {
                seconds = Some(self.repeat(first, || inputs.find(&*table, i))?);
                right = inputs.check(i)?;
            }
            if let Err(wrong) = right {
                (whole, seconds) = (false, None);
                self.wrong += 1;
                let place = format!("{} keys", thousands(inputs.n));
                self.note(format!("WRONG ANSWER: {}, {}: {wrong}", kind.name(), op.name()), place);
            }
            if self.settings.ops.contains(&op) {
                measured.push((op, seconds));
            }
        }
        let report = table.report().clone();
        drop(table);
        if let Some(fallback) = &report.fallback {
            let place = format!("{} keys", thousands(inputs.n));
            self.note(format!("{}: not as published: {fallback}", kind.name()), place);
        }
        let has = report.pairs as f64 / report.slots.max(1) as f64;
        let load_asked = load;
        let load = load_asked.filter(|asked| (asked - has).abs() < 0.005).unwrap_or((has * 1e4).round() / 1e4);
        let limit = self.place(contender.on_host).random_reads(report.bytes)?;
        let (n, device) = (inputs.n, inputs.stream.device().name());
        for (op, seconds) in measured {
            // A build is right if everything was found and nothing else.
            let verified = if op == Op::Build { whole } else { seconds.is_some() };
            self.rows.push(Row {
                table: kind.name(),
                op,
                n,
                load,
                load_asked,
                rates: seconds.as_ref().filter(|_| verified).map(|s| Rates::of(n as f64, s)),
                runs: seconds.map_or(0, |s| s.len()),
                verified,
                limit,
                report: report.clone(),
                device: device.clone(),
            });
        }
        Ok(())
    }

    /// Seconds of the runs that count, after a first one. Each row may take an equal share of what is left of the budget;
    /// one whose only run takes longer does so at nobody's cost.
    fn repeat(&mut self, first: f64, mut run: impl FnMut() -> Result<f64, Stop>) -> Result<Vec<f64>, Stop> {
        let share = self.seconds_left.max(0.0) / self.planned.saturating_sub(self.rows_done).max(1) as f64;
        let (warm_up, runs) = affordable_runs(share / first.max(1e-9), self.settings.runs);
        let mut seconds = vec![first];
        while seconds.len() < warm_up + runs {
            seconds.push(run()?);
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
    /// Random reads from this much memory, to a quarter of an octave: sizes that near are measured once. `None` where the
    /// device cannot hold it a second time or address it.
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
    keys: Staged<'a, u32>,
    values: Staged<'a, u32>,
    queries: Vec<(Op, &'a Queries, Staged<'a, u32>)>,
    answers: Buffer<u32>,
    found: Buffer<u8>,
}
impl<'a> Inputs<'a> {
    fn new(stream: &'a Stream, workload: &'a Workload, queries: &'a [(Op, Queries)]) -> Outcome<Inputs<'a>> {
        let device = stream.device();
        let staged = |(op, queries): &'a (Op, Queries)| Ok((*op, queries, device.stage(&queries.keys)?));
        Ok(Inputs {
            stream,
            n: workload.n(),
            keys: device.stage(&workload.keys)?,
            values: device.stage(&workload.values)?,
            queries: queries.iter().map(staged).collect::<Outcome<_>>()?,
            answers: device.alloc(workload.n())?,
            found: device.alloc(workload.n())?,
        })
    }
    fn build(&self, kind: &dyn Kind, options: &Options) -> Result<(Box<dyn Table>, f64), Stop> {
        Ok(self.stream.time(|| kind.build(self.stream, self.keys.view(), self.values.view(), options))?)
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
        let find = || table.find_into(self.stream, staged.view(), answers.view_mut(), found.view_mut());
        Ok(self.stream.time(find)?.1)
    }
    /// Whether the answers are those to queries number `i`.
    fn check(&self, i: usize) -> Result<Result<(), WrongAnswer>, Stop> {
        Ok(verify::check(self.queries[i].1, &on_host(&self.answers)?, &on_host(&self.found)?))
    }
}

fn on_host<T: Element>(buffer: &Buffer<T>) -> Result<Cow<'_, [T]>, Stop> {
    Ok(match buffer.view().host() {
        Some(elements) => Cow::Borrowed(elements),
        None => Cow::Owned(buffer.download()?),
    })
}

#[cfg(test)]
mod tests {
    use super::super::args::Source;
    use super::*;
    use koel::{Device, View, ViewMut};
    use std::collections::HashMap;

    /// A table that tells the truth about everything but one key.
    struct Liar {
        lie: Option<(u32, Option<u32>)>,
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
            let mut answers = keys.download()?.into_iter().zip(values.download()?).collect::<HashMap<u32, u32>>();
            let pairs = answers.len();
            match self.lie {
                Some((key, Some(value))) => drop(answers.insert(key, value)),
                Some((key, None)) => drop(answers.remove(&key)),
                None => {}
            }
            let slots = (pairs as f64 / options.load.unwrap_or(self.default_load())).round() as usize;
            let report = BuildReport { pairs, slots, bytes: 8 * slots, attempts: 1, ..BuildReport::default() };
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
            mut values: ViewMut<'_, u32>,
            mut found: ViewMut<'_, u8>,
        ) -> koel::Result<()> {
            let answers = queries.download()?.iter().map(|q| self.answers.get(q).copied()).collect::<Vec<_>>();
            values.copy_from_host(&answers.iter().map(|a| a.unwrap_or(0)).collect::<Vec<u32>>())?;
            found.copy_from_host(&answers.iter().map(|a| a.is_some().into()).collect::<Vec<u8>>())
        }
    }

    fn measure(lie: Option<(u32, Option<u32>)>, ops: &[Op], loads: &[f64], workload: &Workload) -> Session {
        let stream = Device::cpu_with_threads(1).unwrap().stream().unwrap();
        let settings = Settings { ops: ops.to_vec(), loads: loads.to_vec(), runs: 3, budget: 1e-3, seed: 1 };
        let mut session = Session::new(settings, stream.clone(), stream, loads.len().max(1), ProgressBar::hidden());
        let kind = Box::leak(Box::new(Liar { lie }));
        session.run(&[Contender { kind, on_host: false }], workload).unwrap();
        session
    }

    #[test]
    fn honest_tables_get_rates() {
        let workload = Workload::of(&Source::Random(100), 1).unwrap();
        let session = measure(None, &Op::ALL, &[0.5, 0.8, 0.95], &workload);
        assert_eq!(session.wrong, 0);
        assert_eq!(session.notes(), ["honest: left out: its load is 0.9 at the most (100 keys, load 0.95)"]);
        assert_eq!(session.rows.len(), 8);
        for (i, row) in session.rows.iter().enumerate() {
            let rates = row.rates.unwrap();
            assert!(row.verified && (1..=3).contains(&row.runs) && row.n == 100 && row.op == Op::ALL[i % 4]);
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
        let workload = Workload::of(&Source::Random(100), 1).unwrap();
        let session = measure(None, &[Op::Build], &[0.5, 0.501], &workload);
        assert_eq!(session.rows.len(), 1);
    }

    #[test]
    fn one_wrong_answer_is_caught() {
        let workload = Workload::of(&Source::Random(1000), 1).unwrap();
        let (present, absent) = (workload.keys[417], workload.queries(Op::FindMiss).keys[3]);
        for (lie, lied_to) in
            [((present, Some(418)), Op::FindHit), ((present, None), Op::FindHit), ((absent, Some(0)), Op::FindMiss)]
        {
            let session = measure(Some(lie), &[Op::Build, Op::FindHit, Op::FindMiss], &[], &workload);
            assert_eq!(session.wrong, 1);
            assert!(session.notes()[0].starts_with("WRONG ANSWER: liar, find_"), "{:?}", session.notes());
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
