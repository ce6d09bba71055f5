//! Inputs of builds and lookups, and single runs of both.
use super::super::args::{Op, policy_name};
use super::super::contenders::Rebuilt;
use super::super::keys::{Queries, Workload};
use super::super::repeats::Repeats;
use super::super::verify::{self, WrongAnswer};
use super::Stop;
use crate::failure::Outcome;
use crate::output::thousands;
use koel::classic::{Duplicates, Kind, Options, Table};
use koel::device::{Element, Staged};
use koel::{Buffer, Stream, View};
use std::borrow::Cow;
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
    pub(super) repeats: Repeats,
    pub(super) policy: Duplicates,
    workload: &'a Workload,
    /// The values of a row's last build.
    marked: &'a [u32],
    pub(super) keys: Staged<'a, u32>,
    /// Values of builds, and those of the last build of a row.
    values: [Staged<'a, u32>; 2],
    /// Index of the values of the last build.
    built: usize,
    pub(super) queries: Vec<(Op, &'a Queries, Staged<'a, u32>)>,
    answers: Buffer<u32>,
    found: Buffer<u8>,
}
impl<'a> Inputs<'a> {
    pub(super) fn new(
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
            workload,
            marked,
            keys: device.stage(&workload.keys)?,
            values: [device.stage(&workload.values)?, device.stage(marked)?],
            built: 0,
            queries: queries.iter().map(staged).collect::<Outcome<_>>()?,
            answers: device.alloc(workload.n())?,
            found: device.alloc(workload.n())?,
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
        kind: &dyn Kind,
        options: &Options,
        is_last: bool,
    ) -> Result<(Box<dyn Table>, f64), Stop> {
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
        kind: &dyn Kind,
        options: &Options,
        is_last: bool,
    ) -> Result<(Box<dyn Table>, f64), Stop> {
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
    /// answers. Returns the seconds of the lookup.
    pub(super) fn get_on_host(
        &self,
        table: &dyn Table,
        i: usize,
    ) -> Result<Result<f64, WrongAnswer>, Stop> {
        let queries = self.queries[i].1;
        self.stream.synchronize()?;
        let start = Instant::now();
        let answers = table.get(self.stream, &queries.keys)?;
        let seconds = start.elapsed().as_secs_f64();
        let (values, found): (Vec<u32>, Vec<u8>) = answers
            .into_iter()
            .map(|answer| (answer.unwrap_or_default(), answer.is_some() as u8))
            .unzip();
        Ok(verify::check(queries, self.mark(), &values, &found).map(|()| seconds))
    }
    /// Describes the inputs, for notes.
    pub(super) fn place(&self) -> String {
        let repeats = match self.repeats {
            Repeats::Unique => String::new(),
            repeats => format!(", {repeats}, {}", policy_name(self.policy)),
        };
        format!("{} keys{repeats}", thousands(self.n))
    }
    /// Overwrites the answers with values that no table returns.
    pub(super) fn spoil_answers(&mut self) -> Result<(), Stop> {
        self.answers.view_mut().fill_bytes(0xA5, self.stream)?;
        Ok(self.found.view_mut().fill_bytes(0xA5, self.stream)?)
    }
    /// Looks up all of query set `i`. Returns the seconds.
    pub(super) fn find(&mut self, table: &dyn Table, i: usize) -> Result<f64, Stop> {
        let staged = &self.queries[i].2;
        let (answers, found) = (&mut self.answers, &mut self.found);
        let find =
            || table.get_into(self.stream, staged.view(), answers.view_mut(), found.view_mut());
        Ok(self.stream.time(find)?.1)
    }
    /// Looks up the first queries of set `i` in `calls` calls of `batch` each. Returns the seconds
    /// of all calls.
    pub(super) fn find_in_calls(
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
                table.get_into(self.stream, queries, answers, found)
            })
        };
        Ok(self.stream.time(find)?.1)
    }
    /// Verifies the first `asked` answers to query set `i`.
    pub(super) fn check(&self, i: usize, asked: usize) -> Result<Result<(), WrongAnswer>, Stop> {
        Ok(verify::check(
            self.queries[i].1,
            self.mark(),
            &on_host(&self.answers, asked)?,
            &on_host(&self.found, asked)?,
        ))
    }
}

/// Returns the first elements, in host memory.
fn on_host<T: Element>(buffer: &Buffer<T>, elements: usize) -> Result<Cow<'_, [T]>, Stop> {
    let view = buffer.view().slice(..elements)?;
    Ok(match view.host() {
        Some(elements) => Cow::Borrowed(elements),
        None => Cow::Owned(view.download()?),
    })
}
