//! What tables are built of and asked, and the single runs of either.
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

/// The bits in which the values of the last build of a row differ from those before. Values stay
/// below 2^31.
pub(super) const MARK: u32 = 1 << 30;

/// Pairs, queries and room for answers, where a table wants them.
pub(super) struct Inputs<'a> {
    pub(super) stream: &'a Stream,
    pub(super) n: usize,
    /// Different keys.
    pub(super) distinct: usize,
    pub(super) repeats: Repeats,
    pub(super) policy: Duplicates,
    pub(super) keys: Staged<'a, u32>,
    /// The values of builds, and those of the last build of a row.
    values: [Staged<'a, u32>; 2],
    /// Which of them the last build had.
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
    pub(super) fn build(
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
    pub(super) fn rebuild(&mut self, table: &mut dyn Rebuilt, is_last: bool) -> Result<f64, Stop> {
        if is_last {
            self.change_values();
        }
        Ok(self.stream.time(|| table.rebuild(self.stream, self.keys.view(), self.values()))?.1)
    }
    /// For notes.
    pub(super) fn place(&self) -> String {
        let repeats = match self.repeats {
            Repeats::Unique => String::new(),
            repeats => format!(", {repeats}, {}", policy_name(self.policy)),
        };
        format!("{} keys{repeats}", thousands(self.n))
    }
    /// What no table may leave behind.
    pub(super) fn spoil_answers(&mut self) -> Result<(), Stop> {
        self.answers.view_mut().fill_bytes(0xA5, self.stream)?;
        Ok(self.found.view_mut().fill_bytes(0xA5, self.stream)?)
    }
    /// Looks up all of queries number `i`; seconds.
    pub(super) fn find(&mut self, table: &dyn Table, i: usize) -> Result<f64, Stop> {
        let staged = &self.queries[i].2;
        let (answers, found) = (&mut self.answers, &mut self.found);
        let find =
            || table.find_into(self.stream, staged.view(), answers.view_mut(), found.view_mut());
        Ok(self.stream.time(find)?.1)
    }
    /// Looks up the first of queries number `i`, `batch` in each of `calls` calls; seconds of all.
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
                table.find_into(self.stream, queries, answers, found)
            })
        };
        Ok(self.stream.time(find)?.1)
    }
    /// Whether the first `asked` answers are those to queries number `i`.
    pub(super) fn check(&self, i: usize, asked: usize) -> Result<Result<(), WrongAnswer>, Stop> {
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
