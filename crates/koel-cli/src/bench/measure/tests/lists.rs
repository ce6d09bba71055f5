//! Tables whose lookups return ranges of a list.
use super::*;
use koel::{Buffer, Error};
use koel_classic::{ListKind, ListTable, Listed, list_kinds};

/// What a multi-value table does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// Lists one value twice and another never.
    RepeatsValue,
    /// Returns one entry less for the key with the most values.
    ShortRange,
    /// Returns the range of the next key.
    OtherRange,
    /// Finds keys that are absent.
    FindsAbsent,
    /// Answers only the first lookup.
    Sleeps,
    /// Has the values of its first build for ever.
    SleepsInBuild,
    /// Reports one key more.
    ReportsMore,
}
struct Grouping {
    fault: Fault,
    first: Mutex<Option<Vec<u32>>>,
}
struct Groups {
    fault: Fault,
    ranges: HashMap<u32, (u32, u32)>,
    list: Buffer<u32>,
    finds: AtomicUsize,
    report: SchemeReport,
}
impl ListKind for Grouping {
    fn name(&self) -> &'static str {
        "grouping"
    }
    fn about(&self) -> &'static str {
        "for tests"
    }
    fn lists(&self) -> Listed {
        Listed::Values
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> koel::Result<Box<dyn ListTable>> {
        if let Some(load) = options.load.filter(|load| *load > 0.7) {
            let expected = "above 0 and at most 0.7".into();
            return Err(Error::Setting { field: "load", found: load.to_string(), expected });
        }
        let (keys, mut values) = (keys.download()?, values.download()?);
        let mut first = self.first.lock().unwrap();
        let first = first.get_or_insert_with(|| values.clone());
        if self.fault == Fault::SleepsInBuild {
            values.clone_from(first);
        }
        let mut order = (0..keys.len()).collect::<Vec<usize>>();
        order.sort_by_key(|&i| keys[i]);
        let mut list = order.iter().map(|&i| values[i]).collect::<Vec<u32>>();
        if self.fault == Fault::RepeatsValue {
            list[1] = list[0];
        }
        let mut ranges = HashMap::<u32, (u32, u32)>::new();
        for (at, &i) in (0..).zip(&order) {
            ranges.entry(keys[i]).or_insert((at, 0)).1 += 1;
        }
        let (n, distinct) = (keys.len(), ranges.len());
        let longest = ranges.values_mut().max_by_key(|(_, count)| *count).unwrap();
        match self.fault {
            Fault::ShortRange => longest.1 -= 1,
            Fault::OtherRange => longest.0 = if longest.0 == 0 { longest.1 } else { 0 },
            _ => {}
        }
        let report = SchemeReport {
            pairs: distinct + usize::from(self.fault == Fault::ReportsMore),
            duplicates: n - distinct,
            slots: 2 * distinct,
            bytes: 8 * n,
            attempts: 1,
            ..SchemeReport::default()
        };
        let (list, finds) = (stream.device().upload(&list)?, AtomicUsize::new(0));
        Ok(Box::new(Groups { fault: self.fault, ranges, list, finds, report }))
    }
}
impl ListTable for Groups {
    fn report(&self) -> &SchemeReport {
        &self.report
    }
    fn list(&self) -> View<'_, u32> {
        self.list.view()
    }
    fn get_into(
        &self,
        _: &Stream,
        queries: View<'_, u32>,
        mut starts: ViewMut<'_, u32>,
        mut counts: ViewMut<'_, u32>,
    ) -> koel::Result<()> {
        if self.finds.fetch_add(1, Ordering::Relaxed) >= 1 && self.fault == Fault::Sleeps {
            return Ok(());
        }
        let absent = if self.fault == Fault::FindsAbsent { (0, 1) } else { (0, 0) };
        let queries = queries.download()?;
        let answers = queries.iter().map(|key| self.ranges.get(key).copied().unwrap_or(absent));
        let (first, second): (Vec<u32>, Vec<u32>) = answers.unzip();
        starts.copy_from_host(&first)?;
        counts.copy_from_host(&second)
    }
}
fn measure_lists(kind: &'static dyn ListKind, settings: Settings, repeats: &str) -> Session {
    let workload = Workload::of(&Source::Random(1000, repeats.parse().unwrap()), 1).unwrap();
    let kind = Scheme::Lists(kind);
    session(Contender { kind, on_host: false, keeps: None, asked: vec![] }, settings, &workload)
}

#[test]
fn wrong_lists_and_ranges_are_caught() {
    for (fault, says) in [
        (Fault::None, ""),
        (Fault::RepeatsValue, "grouping, table: lists value"),
        (Fault::ShortRange, "but it has"),
        (Fault::OtherRange, "but entries there are not of this key"),
        (Fault::FindsAbsent, "grouping, find_miss: query 0"),
        (Fault::Sleeps, "grouping, find_hit: query 0"),
        (Fault::SleepsInBuild, "which is no value"),
        (Fault::ReportsMore, "pairs, distinct keys"),
    ] {
        let grouping = Box::leak(Box::new(Grouping { fault, first: Mutex::new(None) }));
        let ops = vec![Op::Build, Op::FIND_HIT, Op::FIND_MISS, Op::GetHost];
        let settings = Settings { ops, budget: 1e6, ..settings() };
        let session = measure_lists(grouping, settings, "zipf");
        let notes = session.notes();
        assert_eq!(session.rows.len(), 4);
        assert_eq!(session.wrong > 0, fault != Fault::None, "{fault:?}: {notes:?}");
        assert!(says.is_empty() || notes.iter().any(|n| n.contains(says)), "{fault:?}: {notes:?}");
        let wrong = session.rows.iter().filter(|row| !row.verified).map(|row| row.op);
        let wrong = wrong.collect::<Vec<Op>>();
        assert_eq!(wrong.contains(&Op::Build), fault != Fault::None, "{fault:?}: {notes:?}");
        let misses = [Fault::FindsAbsent, Fault::Sleeps].contains(&fault);
        assert_eq!(wrong.contains(&Op::FIND_MISS), misses, "{fault:?}: {notes:?}");
        for row in session.rows {
            let held = 1000 + usize::from(fault == Fault::ReportsMore);
            assert_eq!((row.policy, row.held), (None, held));
            assert_eq!(row.rates.is_some(), row.verified);
        }
    }
}

#[test]
fn the_published_tables_of_lists_are_verified() {
    for &kind in list_kinds() {
        for repeats in ["unique", "twice", "zipf", "equal"] {
            let ops = vec![Op::Build, Op::BuildHost, Op::FIND_HIT, Op::FIND_HALF, Op::GetHost];
            let policies = vec![Duplicates::KeepLast, Duplicates::KeepFirst];
            let settings = Settings { ops, policies, batches: vec![100], ..settings() };
            let session = measure_lists(kind, settings, repeats);
            let name = kind.name();
            assert_eq!(session.wrong, 0, "{name}, {repeats}: {:?}", session.notes());
            assert_eq!(session.rows_done, session.planned);
            // Without repeated keys the policies are equal, and each is measured as for all tables.
            let policies = if repeats == "unique" { 2 } else { 1 };
            assert_eq!(session.rows.len(), 5 * policies, "{name}, {repeats}");
            for row in &session.rows {
                assert!(row.verified && row.table == name);
                assert_eq!(row.policy.is_none(), repeats != "unique");
                let keeps_values = kind.lists() == Listed::Values;
                assert_eq!(row.held, if keeps_values { 1000 } else { row.report.pairs });
            }
        }
    }
}

#[test]
fn a_load_above_the_maximum_is_noted() {
    let grouping = Box::leak(Box::new(Grouping { fault: Fault::None, first: Mutex::new(None) }));
    let settings = Settings { ops: vec![Op::Build], loads: vec![0.5, 0.8], ..settings() };
    let session = measure_lists(grouping, settings, "unique");
    assert_eq!(session.rows.len(), 1);
    assert_eq!(
        session.notes(),
        ["grouping: left out: `load` is 0.8, must be above 0 and at most 0.7 \
          (1,000 keys, load 0.8)"]
    );
}
