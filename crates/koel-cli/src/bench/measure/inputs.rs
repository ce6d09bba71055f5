//! Inputs of builds and lookups, and single runs of both.
use super::super::args::{Op, policy_name};
use super::super::contenders::{Built, Rebuilt, Scheme};
use super::super::keys::{Queries, Workload};
use super::super::verify::{self, Entries};
use super::Stop;
use super::answers::{Answers, on_host};
use crate::failure::Outcome;
use crate::output::thousands;
use koel::device::Staged;
use koel::{Stream, View};
use koel_classic::{Duplicates, ListTable, Listed, Options};
use koel_measure::Arrangement;
use std::time::Instant;

/// Bit that distinguishes the values of a row's last build from those of earlier builds. Values are
/// below 2^31.
pub(super) const MARK: u32 = 1 << 30;

/// Pairs, queries and buffers for answers, in the memory that a table needs.
pub(super) struct Inputs<'a> {
    pub(super) stream: &'a Stream,
    pub(super) n: usize,
    /// Number of distinct keys.
    pub(super) distinct: usize,
    pub(super) repeats: Arrangement,
    /// Treatment of repeated keys; `None`: all are kept.
    pub(super) policy: Option<Duplicates>,
    /// Number of pairs with the key of each pair, if keys repeat and tables list them.
    multiplicities: Option<Vec<u32>>,
    workload: &'a Workload,
    /// The values of a row's last build.
    marked: &'a [u32],
    pub(super) keys: Staged<'a, u32>,
    /// Values of builds, and those of the last build of a row.
    values: [Staged<'a, u32>; 2],
    /// Index of the values of the last build.
    built: usize,
    pub(super) queries: Vec<(Op, &'a Queries, Staged<'a, u32>)>,
    answers: Answers,
}
impl<'a> Inputs<'a> {
    /// Stages pairs and queries, and allocates memory for answers: ranges if `lists` is set, else
    /// values.
    pub(super) fn new(
        stream: &'a Stream,
        workload: &'a Workload,
        policy: Option<Duplicates>,
        queries: &'a [(Op, Queries)],
        marked: &'a [u32],
        lists: bool,
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
            multiplicities: if lists { workload.multiplicities() } else { None },
            workload,
            marked,
            keys: device.stage(&workload.keys)?,
            values: [device.stage(&workload.values)?, device.stage(marked)?],
            built: 0,
            queries: queries.iter().map(staged).collect::<Outcome<_>>()?,
            answers: Answers::new(device, workload.n(), lists)?,
        })
    }
    /// Switches to the other values for the last build of a row.
    fn choose_values(&mut self, is_last: bool) {
        self.built = (self.built + is_last as usize) % 2;
    }
    /// Returns the values of the next or last build.
    fn values(&self) -> View<'_, u32> {
        self.values[self.built].view()
    }
    /// Returns the bits in which these differ from the workload's values.
    fn mark(&self) -> u32 {
        [0, MARK][self.built]
    }
    /// Builds and times a table. `is_last`: with the other values.
    pub(super) fn build(
        &mut self,
        kind: &Scheme,
        options: &Options,
        is_last: bool,
    ) -> Result<(Built, f64), Stop> {
        self.choose_values(is_last);
        Ok(self
            .stream
            .time(|| kind.build(self.stream, self.keys.view(), self.values(), options))?)
    }
    /// Like [`build`](Self::build), into the existing table.
    pub(super) fn rebuild(&mut self, table: &mut dyn Rebuilt, is_last: bool) -> Result<f64, Stop> {
        self.choose_values(is_last);
        Ok(self.stream.time(|| table.rebuild(self.stream, self.keys.view(), self.values()))?.1)
    }
    /// Like [`build`](Self::build), from arrays of the host. Takes the time until the table is
    /// usable and the arrays are free.
    pub(super) fn build_from_host(
        &mut self,
        kind: &Scheme,
        options: &Options,
        is_last: bool,
    ) -> Result<(Built, f64), Stop> {
        self.choose_values(is_last);
        let (device, keys) = (self.stream.device(), &self.workload.keys);
        let values = [&self.workload.values[..], self.marked][self.built];
        self.stream.synchronize()?;
        let start = Instant::now();
        let (keys, values) = (device.stage(keys)?, device.stage(values)?);
        let table = kind.build(self.stream, keys.view(), values.view(), options)?;
        self.stream.synchronize()?;
        Ok((table, start.elapsed().as_secs_f64()))
    }
    /// Looks up all of query set `i` in an array of the host, into a new one, and verifies the
    /// answers. Returns the seconds of the lookup, or what is wrong.
    pub(super) fn get_on_host(&self, table: &Built, i: usize) -> Result<Result<f64, String>, Stop> {
        let queries = self.queries[i].1;
        self.stream.synchronize()?;
        let start = Instant::now();
        let (right, seconds) = match table {
            Built::Pairs(table) => {
                let answers = table.get(self.stream, &queries.keys)?;
                let seconds = start.elapsed().as_secs_f64();
                let (values, found): (Vec<u32>, Vec<u8>) = answers
                    .into_iter()
                    .map(|answer| (answer.unwrap_or_default(), answer.is_some() as u8))
                    .unzip();
                (self.check_values(i, &values, &found), seconds)
            }
            Built::Lists(table, listed) => {
                let answers = table.get(self.stream, &queries.keys)?;
                let seconds = start.elapsed().as_secs_f64();
                let (starts, counts): (Vec<u32>, Vec<u32>) = answers.into_iter().unzip();
                (self.check_ranges(i, &**table, *listed, &starts, &counts)?, seconds)
            }
        };
        Ok(right.map(|()| seconds))
    }
    /// Describes the inputs, for notes.
    pub(super) fn place(&self) -> String {
        let repeats = match self.repeats {
            Arrangement::Unique => String::new(),
            repeats => format!(", {repeats}, {}", policy_name(self.policy)),
        };
        format!("{} keys{repeats}", thousands(self.n))
    }
    /// Overwrites the answers with what no table returns.
    pub(super) fn spoil_answers(&mut self) -> Result<(), Stop> {
        Ok(self.answers.spoil(self.stream)?)
    }
    /// Looks up all of query set `i`. Returns the seconds.
    pub(super) fn find(&mut self, table: &Built, i: usize) -> Result<f64, Stop> {
        self.find_in_calls(table, i, self.n, 1)
    }
    /// Looks up the first queries of set `i` in `calls` calls of `batch` each. Returns the seconds
    /// of all calls.
    pub(super) fn find_in_calls(
        &mut self,
        table: &Built,
        i: usize,
        batch: usize,
        calls: usize,
    ) -> Result<f64, Stop> {
        let (stream, staged, answers) = (self.stream, &self.queries[i].2, &mut self.answers);
        let find = || {
            (0..calls).map(|call| call * batch..(call + 1) * batch).try_for_each(|part| {
                answers.find(stream, table, staged.view().slice(part.clone())?, part)
            })
        };
        Ok(stream.time(find)?.1)
    }
    /// Verifies the first `asked` answers to query set `i`. Errors: the first wrong one.
    pub(super) fn check(
        &self,
        table: &Built,
        i: usize,
        asked: usize,
    ) -> Result<Result<(), String>, Stop> {
        match table {
            Built::Pairs(_) => {
                let (values, found) = self.answers.values(asked)?;
                Ok(self.check_values(i, &values, &found))
            }
            Built::Lists(table, listed) => {
                let (starts, counts) = self.answers.ranges(asked)?;
                self.check_ranges(i, &**table, *listed, &starts, &counts)
            }
        }
    }
    /// Verifies the list of a table that has one. Errors: what is wrong with it.
    pub(super) fn check_list(&self, table: &Built) -> Result<Result<(), String>, Stop> {
        let Built::Lists(table, listed) = table else { return Ok(Ok(())) };
        Ok(self.entries(&on_host(table.list())?, *listed).check_list())
    }
    fn check_values(&self, i: usize, values: &[u32], found: &[u8]) -> Result<(), String> {
        let right = verify::check(self.queries[i].1, self.mark(), values, found);
        right.map_err(|wrong| wrong.to_string())
    }
    fn check_ranges(
        &self,
        i: usize,
        table: &dyn ListTable,
        listed: Listed,
        starts: &[u32],
        counts: &[u32],
    ) -> Result<Result<(), String>, Stop> {
        let list = on_host(table.list())?;
        let right = self.entries(&list, listed).check(self.queries[i].1, starts, counts);
        Ok(right.map_err(|wrong| wrong.to_string()))
    }
    fn entries<'b>(&'b self, list: &'b [u32], listed: Listed) -> Entries<'b> {
        Entries {
            listed,
            list,
            keys: &self.workload.keys,
            mark: self.mark(),
            multiplicities: self.multiplicities.as_deref(),
            distinct: self.distinct,
        }
    }
}
