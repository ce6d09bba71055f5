//! Separate chaining, which the papers consider unfit for a GPU because a list is built one pair at
//! a time and lists differ in length. The build is lock-free: each pair becomes the head of a list
//! by one atomic exchange.
//!
//! With several choices, a pair goes to the shortest of `d` lists, one per hash function (Azar,
//! Broder, Karlin and Upfal 2000). With `left`, the lists form `d` parts, one per function, and the
//! first of several shortest lists wins (Vöcking 2003: "d-left"). On one thread the longest list
//! has about log log n / log d pairs above the average; with one choice, about log n / log log n
//! pairs. Where threads insert at the same time, a pair chooses by lengths that may be out of date:
//! lists may get longer, and the table is as correct.
//!
//! Memory: 12 + 4 / load bytes per pair. A build with several choices temporarily takes another 4 /
//! load. The load factor is in pairs per list and may exceed 1. A lookup reads the heads of up to
//! `d` lists and, for an absent key, 12 bytes of every pair in them: `d * load` pairs on average.
//! The report has the length of the longest list, which one more launch counts; the time of the
//! build excludes it.
use super::input::{self, Pairs};
use super::restarts::{self, Attempt, Outcome};
use super::{Family, Kind, Options, SchemeReport, Table, find_args};
use koel::{Buffer, Error, Result, Stream, View, ViewMut};
use koel_classic_kernels::chaining::{
    ChainingMut, ChainingRef, Lists, chaining_find, chaining_insert, chaining_longest,
};
use koel_kernels::hash::Functions;

/// Separate chaining with one to four hash functions.
#[derive(Clone, Debug)]
pub struct Chaining {
    /// Family of the functions from keys to lists.
    pub family: Family,
    /// Number of lists, 1 to 4, of which a pair chooses the shortest.
    pub choices: u32,
    /// Whether every function has lists of its own.
    pub left: bool,
}
impl Chaining {
    /// One list per key, and the safe family. (Chaining has no single source paper.)
    pub const PUBLISHED: Chaining = Chaining { family: Family::Mixed, choices: 1, left: false };
    /// The shorter of two lists.
    pub const TWO_CHOICES: Chaining = Chaining { choices: 2, ..Chaining::PUBLISHED };
    /// The shortest of four lists, each in a part of its own.
    pub const FOUR_LEFT: Chaining = Chaining { choices: 4, left: true, ..Chaining::PUBLISHED };
}

struct ChainedTable {
    lists: Lists,
    heads: Buffer<u32>,
    next: Buffer<u32>,
    pairs: Buffer<u64>,
    report: SchemeReport,
}

impl Kind for Chaining {
    fn name(&self) -> &'static str {
        match (self.choices, self.left) {
            (2, false) => "chaining-2-choices",
            (3, false) => "chaining-3-choices",
            (4, false) => "chaining-4-choices",
            (2, true) => "chaining-2-left",
            (3, true) => "chaining-3-left",
            (4, true) => "chaining-4-left",
            _ => "chaining",
        }
    }
    fn about(&self) -> &'static str {
        match (self.choices, self.left) {
            (1, _) => "the textbook: a list for each bucket, pushed to by atomic exchange",
            (_, false) => "2000: chaining in the shortest of several lists",
            (_, true) => "2003: chaining in the shortest of several lists, one in each part",
        }
    }
    fn default_load(&self) -> f64 {
        1.0
    }
    fn max_load(&self) -> f64 {
        4.0
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn Table>> {
        if !(1..=4).contains(&self.choices) {
            let (found, expected) = (self.choices.to_string(), "1 to 4".into());
            return Err(Error::Setting { field: "choices", found, expected });
        }
        let attempt = |stream: &Stream, pairs: Pairs<'_>, load, attempt| {
            attempt_build(self, stream, pairs, load, attempt)
        };
        restarts::build(self, self.family, stream, (keys, values), options, attempt)
    }
}
impl restarts::Restarting for ChainedTable {
    fn complete(&mut self, report: SchemeReport) {
        let bytes = self.heads.bytes() + self.next.bytes() + self.pairs.bytes();
        let largest_bucket = self.report.largest_bucket;
        self.report = SchemeReport { slots: self.heads.len(), bytes, largest_bucket, ..report };
    }
}

/// Makes an attempt, which always succeeds.
fn attempt_build(
    kind: &Chaining,
    stream: &Stream,
    input: Pairs<'_>,
    load: f64,
    attempt: Attempt,
) -> Result<Outcome<ChainedTable>> {
    let (device, n) = (stream.device(), input.n);
    let parts = if kind.left { kind.choices } else { 1 };
    let of_part = input::groups(n, load, f64::from(n) / load / f64::from(parts), parts)?;
    let count = of_part * parts;
    let functions = Functions::new(attempt.family, kind.choices, of_part, attempt.seed);
    let lists = Lists { functions, part: if kind.left { of_part } else { 0 } };
    let mut heads = device.alloc::<u32>(count as usize)?;
    let mut next = device.alloc::<u32>(n as usize)?;
    let mut pairs = device.alloc::<u64>(n as usize)?;
    let mut lengths = device.alloc::<u32>(if kind.choices > 1 { count as usize } else { 0 })?;
    let ((), seconds) = stream.time(|| {
        heads.view_mut().fill_bytes(0xFF, stream)?;
        lengths.view_mut().fill_bytes(0, stream)?;
        let grid = n.div_ceil(chaining_insert::SPEC.threads);
        let table = ChainingMut {
            lists,
            lengths: lengths.view_mut().arg("lengths", stream)?,
            heads: heads.view_mut().arg("heads", stream)?,
            next: next.view_mut().arg("next", stream)?,
            pairs: pairs.view_mut().arg("pairs", stream)?,
        };
        // SAFETY: `n` keys, values, links and pairs; one head per list and, with several functions,
        // one length; `lists` stays below the number of lists.
        unsafe { chaining_insert::launch(stream, grid, input.arg(stream)?, table) }
    })?;
    let mut longest = device.alloc::<u32>(1)?;
    longest.view_mut().fill_bytes(0, stream)?;
    {
        let grid = count.div_ceil(chaining_longest::SPEC.threads);
        let (heads, next) = (heads.view().arg("heads", stream)?, next.view().arg("next", stream)?);
        let longest = longest.view_mut().arg("longest", stream)?;
        // SAFETY: heads and links are indices of pairs, or the end marker; one word of output.
        unsafe { chaining_longest::launch(stream, grid, count, heads, next, longest) }?;
    }
    let largest_bucket = Some(longest.download()?[0] as usize);
    let report = SchemeReport { largest_bucket, ..SchemeReport::default() };
    let table = ChainedTable { lists, heads, next, pairs, report };
    Ok(Outcome { table: Some(table), seconds })
}

impl Table for ChainedTable {
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
        let grid = args.n.div_ceil(chaining_find::SPEC.threads);
        let table = ChainingRef {
            lists: self.lists,
            heads: self.heads.view().arg("heads", stream)?,
            next: self.next.view().arg("next", stream)?,
            pairs: self.pairs.view().arg("pairs", stream)?,
        };
        // SAFETY: `n` queries and answers; heads and links are indices of pairs, or the end marker.
        unsafe { chaining_find::launch(stream, grid, table, args) }
    }
}
