//! Honest tables get rates; tables that lie or do nothing are detected.
mod lists;

use super::super::args::Source;
use super::super::contenders::{self, Keeps, Rebuilt, Scheme};
use super::*;
use koel::{Device, View, ViewMut};
use koel_classic::{Kind, Options, SchemeReport, Table};
use koel_measure::Arrangement;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const OPS: [Op; 4] = [Op::Build, Op::FIND_HIT, Op::FIND_HALF, Op::FIND_MISS];

/// A table that is right about everything but one key.
#[derive(Default)]
struct Liar {
    lie: Option<(u32, Option<u32>)>,
    /// Extra pairs that it claims to hold.
    extra: usize,
}
struct Lies {
    answers: HashMap<u32, u32>,
    report: SchemeReport,
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
        let slots = (pairs as f64 / options.load.unwrap_or(self.default_load())).round() as usize;
        let report =
            SchemeReport { pairs, slots, bytes: 8 * slots, attempts: 1, ..SchemeReport::default() };
        Ok(Box::new(Lies { answers, report }))
    }
}
impl Table for Lies {
    fn report(&self) -> &SchemeReport {
        &self.report
    }
    fn get_into(
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
    let answers = queries.download()?.iter().map(|q| answers.get(q).copied()).collect::<Vec<_>>();
    values.copy_from_host(&answers.iter().map(|a| a.unwrap_or(0)).collect::<Vec<u32>>())?;
    found.copy_from_host(&answers.iter().map(|a| a.is_some().into()).collect::<Vec<u8>>())
}

fn measure(
    lie: Option<(u32, Option<u32>)>,
    ops: &[Op],
    loads: &[f64],
    workload: &Workload,
) -> Session {
    measure_in(lie, Settings { ops: ops.to_vec(), loads: loads.to_vec(), ..settings() }, workload)
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
fn measure_in(lie: Option<(u32, Option<u32>)>, settings: Settings, workload: &Workload) -> Session {
    measure_of(Liar { lie, extra: 0 }, settings, workload)
}
fn measure_of(liar: Liar, settings: Settings, workload: &Workload) -> Session {
    let kind = Scheme::Pairs(Box::leak(Box::new(liar)));
    let contender = Contender { kind, on_host: false, keeps: None, asked: vec![] };
    session(contender, settings, workload)
}
fn session(contender: Contender, settings: Settings, workload: &Workload) -> Session {
    let stream = Device::cpu_with_threads(1).unwrap().stream().unwrap();
    let tables = settings.loads.len().max(1);
    let mut session = Session::new(settings, stream.clone(), stream, tables, ProgressBar::hidden());
    session.run(&[contender], workload).unwrap();
    session
}

#[test]
fn honest_tables_get_rates() {
    let workload = Workload::of(&Source::Random(100, Arrangement::Unique), 1).unwrap();
    let session = measure(None, &OPS, &[0.5, 0.8, 0.95], &workload);
    assert_eq!(session.wrong, 0);
    assert_eq!(
        session.notes(),
        ["honest: left out: its maximum load is 0.9 (100 keys, load 0.95)"]
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
    let workload = Workload::of(&Source::Random(100, Arrangement::Unique), 1).unwrap();
    let session = measure(None, &[Op::Build], &[0.5, 0.501], &workload);
    assert_eq!(session.rows.len(), 1);
}

#[test]
fn one_wrong_answer_is_caught() {
    let workload = Workload::of(&Source::Random(1000, Arrangement::Unique), 1).unwrap();
    let (present, absent) = (workload.keys[417], workload.queries(Op::FIND_MISS, None).keys[3]);
    for (lie, lied_to) in [
        ((present, Some(418)), Op::FIND_HIT),
        ((present, None), Op::FIND_HIT),
        ((absent, Some(0)), Op::FIND_MISS),
    ] {
        let session = measure(Some(lie), &[Op::Build, Op::FIND_HIT, Op::FIND_MISS], &[], &workload);
        assert_eq!(session.wrong, 1);
        assert!(
            session.notes()[0].starts_with("WRONG ANSWER: liar, find_"),
            "{:?}",
            session.notes()
        );
        for row in &session.rows {
            // The build is as wrong as the lookups in it.
            let right = row.op != Op::Build && row.op != lied_to;
            assert_eq!((row.verified, row.rates.is_some()), (right, right), "{:?}", row.op);
        }
    }
    // Also if only the build is requested.
    let session = measure(Some((present, None)), &[Op::Build], &[], &workload);
    assert!(session.wrong == 1 && session.rows.len() == 1 && !session.rows[0].verified);
}

#[test]
fn a_table_that_keeps_the_wrong_one_of_equal_keys_is_caught() {
    let workload = Workload::of(&Source::Random(1000, Arrangement::Concat(2)), 1).unwrap();
    // It always keeps the last.
    for (policy, wrong) in [(Duplicates::KeepLast, 0), (Duplicates::KeepFirst, 1)] {
        let ops = vec![Op::Build, Op::FIND_HIT, Op::FIND_MISS];
        let session =
            measure_in(None, Settings { ops, policies: vec![policy], ..settings() }, &workload);
        assert_eq!((session.wrong, session.rows.len()), (wrong, 3), "{:?}", session.notes());
        for row in &session.rows {
            assert_eq!((row.policy, row.repeats), (Some(policy), Arrangement::Concat(2)));
            assert_eq!(row.verified, wrong == 0 || row.op == Op::FIND_MISS, "{:?}", row.op);
        }
    }
    let unchecked =
        Settings { ops: vec![Op::Build], policies: vec![Duplicates::Unchecked], ..settings() };
    let session = measure_in(None, unchecked, &workload);
    assert!(session.rows.is_empty() && session.notes()[0].contains("left out: unchecked requires"));
}

#[test]
fn a_table_that_holds_more_pairs_is_caught() {
    let workload = Workload::of(&Source::Random(1000, Arrangement::Unique), 1).unwrap();
    let settings = Settings { ops: vec![Op::Build], ..settings() };
    let session = measure_of(Liar { lie: None, extra: 1 }, settings, &workload);
    assert!(session.wrong == 1 && !session.rows[0].verified);
    assert!(
        session.notes()[0].contains("holds 1001 pairs, distinct keys: 1000"),
        "{:?}",
        session.notes()
    );
}

#[test]
fn a_lie_in_a_batch_is_caught() {
    let workload = Workload::of(&Source::Random(1000, Arrangement::Unique), 1).unwrap();
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
    assert!(honest.notes().iter().all(|note| note.contains("1001 lookups per call need at least")));
    let lie = Some((workload.keys[7], None));
    let lying = measure_in(lie, with(vec![64]), &workload);
    assert!(lying.wrong >= 1 && !lying.rows[0].verified && lying.rows[0].rates.is_none());
}

#[test]
fn the_flagship_is_built_cold_and_warm_by_every_policy() {
    let builds = [Op::Build, Op::BuildCold, Op::Rebuild, Op::BuildHost];
    let ops = [&builds[..], &[Op::FIND_HIT, Op::FIND_HALF, Op::GetHost]].concat();
    for repeats in ["unique", "zipf", "equal"].map(|text| text.parse::<Arrangement>().unwrap()) {
        let workload = Workload::of(&Source::Random(3000, repeats), 1).unwrap();
        let map = contenders::choose(&["map".into()], &[], DeviceKind::Cpu).0.remove(0);
        let policies = vec![Duplicates::KeepLast, Duplicates::KeepFirst];
        let settings = Settings { ops: ops.clone(), policies, batches: vec![100], ..settings() };
        let session = session(map, settings, &workload);
        assert_eq!(
            (session.wrong, session.rows.len()),
            (0, 14),
            "{repeats}: {:?}",
            session.notes()
        );
        assert_eq!(session.rows_done, session.planned);
        for (row, op) in session.rows.iter().zip(ops.iter().chain(&ops)) {
            assert!(row.verified && row.op == *op && row.report.pairs == workload.distinct);
            assert_eq!(
                (row.batch, row.calls),
                if op.is_build() || *op == Op::GetHost { (None, 1) } else { (Some(100), 30) }
            );
        }
    }
}

#[test]
fn builds_of_every_kind_stand_beside_a_yardstick() {
    let workload = Workload::of(&Source::Random(1000, Arrangement::Unique), 1).unwrap();
    let ops = vec![Op::BuildCold, Op::FIND_HIT];
    let mut rows = measure_in(None, Settings { ops, ..settings() }, &workload).rows;
    let of = |op, rows: &[Row]| Row { op, ..rows[0].clone() }.times("honest", rows);
    assert_eq!(of(Op::Rebuild, &rows), Some(1.0));
    assert_eq!(of(Op::FIND_MISS, &rows), None);
    assert!(of(Op::FIND_HIT, &rows).is_some());
    rows.remove(0);
    assert_eq!(of(Op::Rebuild, &rows), None);
}

/// A table that works once: from the second run of an operation it does nothing.
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
    report: SchemeReport,
}
impl Sleeper {
    fn table(&self, keys: View<'_, u32>, values: View<'_, u32>) -> koel::Result<Asleep> {
        let built = Arc::new(answers_of(keys, values)?);
        let mut first = self.first.lock().unwrap();
        let first = first.get_or_insert_with(|| built.clone());
        let answers = if self.sleeps == Sleeps::InBuild { first.clone() } else { built };
        let report =
            SchemeReport { pairs: answers.len(), slots: answers.len(), ..SchemeReport::default() };
        Ok(Asleep { answers, sleeps: self.sleeps, rebuilds: 0, finds: AtomicUsize::new(0), report })
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
    fn report(&self) -> &SchemeReport {
        &self.report
    }
    fn get_into(
        &self,
        _: &Stream,
        queries: View<'_, u32>,
        values: ViewMut<'_, u32>,
        found: ViewMut<'_, u8>,
    ) -> koel::Result<()> {
        // The first call is the initial lookup, which is verified; later calls are timed.
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
    let workload = Workload::of(&Source::Random(100, Arrangement::Unique), 1).unwrap();
    for (sleeps, ops, right) in [
        (Sleeps::Never, vec![Op::Build, Op::BuildCold, Op::Rebuild, Op::FIND_HIT], vec![true; 4]),
        (Sleeps::InBuild, vec![Op::Build], vec![false]),
        (Sleeps::InBuild, vec![Op::BuildCold], vec![false]),
        (Sleeps::InBuild, vec![Op::BuildHost], vec![false]),
        (Sleeps::Never, vec![Op::BuildHost, Op::GetHost], vec![true; 2]),
        (Sleeps::InRebuild, vec![Op::Rebuild], vec![false]),
        (Sleeps::InEveryRebuild, vec![Op::Rebuild], vec![false]),
        (Sleeps::InRebuild, vec![Op::Build, Op::Rebuild], vec![true, false]),
        (Sleeps::InFind, vec![Op::FIND_HIT], vec![false]),
        (Sleeps::InFind, vec![Op::GetHost], vec![false]),
    ] {
        // A budget for all runs of every row: two warm-up runs, and an odd or even number of
        // counted runs.
        for runs in [3, 4] {
            let first = Mutex::new(None);
            let sleeper: &'static Sleeper = Box::leak(Box::new(Sleeper { sleeps, first }));
            let kind = Scheme::Pairs(sleeper);
            let contender = Contender { kind, on_host: false, keeps: Some(sleeper), asked: vec![] };
            let settings = Settings { ops: ops.clone(), runs, budget: 1e6, ..settings() };
            let session = session(contender, settings, &workload);
            let verified = session.rows.iter().map(|row| row.verified).collect::<Vec<_>>();
            assert_eq!(verified, right, "{sleeps:?}, {ops:?}, {runs} runs: {:?}", session.notes());
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
