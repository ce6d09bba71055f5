//! Builds that may fail and restart.
//!
//! The papers draw new functions until a build succeeds. Here every build ends with a table. The
//! attempts run in this order:
//! 1. as published, with new functions each time;
//! 2. with the family `Mixed`, which separates keys that the published functions cannot;
//! 3. if the caller had promised distinct keys: with equal keys resolved after all, from 1 again;
//! 4. with a growing number of slots.
use super::input::{self, Input, Pairs};
use super::{BuildReport, Duplicates, Family, Kind, Options, Table};
use crate::device::{Stream, View};
use crate::error::{Error, Result};
use koel_kernels::hash::mix::splitmix_at;

/// Parameters of one attempt.
#[derive(Clone, Copy)]
pub(super) struct Attempt {
    /// Number of earlier attempts with these pairs.
    pub number: u32,
    pub family: Family,
    pub seed: u64,
    /// Number of slots as a multiple of the requested number.
    pub growth: f64,
}
/// Outcome of an attempt: the table, if it succeeded, and the device time in seconds.
pub(super) struct Outcome<T> {
    pub table: Option<T>,
    pub seconds: f64,
}

const PUBLISHED: u32 = 4;
const MIXED: u32 = 4;
const GROWN: u32 = 24;

/// A built table that still needs its report.
pub(super) trait Restarting: Table + 'static {
    /// Adds what the table itself knows (slots, bytes, stash) to the report, and keeps it.
    fn complete(&mut self, report: BuildReport);
}

/// Implements [`Kind::build`] for kinds that make attempts: checks the input, resolves equal keys,
/// and makes attempts until one succeeds. `attempt` receives the requested load factor.
pub(super) fn build<T: Restarting>(
    kind: &dyn Kind,
    published: Family,
    stream: &Stream,
    (keys, values): (View<'_, u32>, View<'_, u32>),
    options: &Options,
    mut attempt: impl FnMut(&Stream, Pairs<'_>, f64, Attempt) -> Result<Outcome<T>>,
) -> Result<Box<dyn Table>> {
    let load = input::check(kind, keys, values, options)?;
    let input = Input::new(stream, keys, values, options.duplicates)?;
    let mut report = BuildReport::default();
    let mut table = until_built(
        stream,
        input,
        published,
        options.seed,
        &mut report,
        |stream, pairs, number| attempt(stream, pairs, load, number),
    )?;
    table.complete(report);
    Ok(Box::new(table))
}

/// Makes attempts until one succeeds, and fills in the parts of the report that describe them.
fn until_built<T>(
    stream: &Stream,
    mut input: Input<'_>,
    published: Family,
    seed: u64,
    report: &mut BuildReport,
    mut attempt: impl FnMut(&Stream, Pairs<'_>, Attempt) -> Result<Outcome<T>>,
) -> Result<T> {
    loop {
        let last = PUBLISHED + MIXED + if input.is_distinct() { GROWN } else { 0 };
        for number in 0..last {
            let family = if number < PUBLISHED { published } else { Family::Mixed };
            let growth = 1.25f64.powi(number.saturating_sub(PUBLISHED + MIXED - 1) as i32);
            let seed = splitmix_at(seed, report.attempts);
            report.attempts += 1;
            let outcome = attempt(stream, input.pairs(), Attempt { number, family, seed, growth })?;
            report.device_seconds += outcome.seconds;
            if let Some(table) = outcome.table {
                report.pairs = input.pairs().n as usize;
                report.duplicates = input.dropped();
                report.family = family.describe();
                report.fallback = fallback(published, family, growth, report);
                return Ok(table);
            }
        }
        let Input::AsGiven(Pairs { keys, values, .. }) = input else {
            // Every growth failed, up to 200 times the requested slots. Only a broken device gets
            // here.
            return Err(Error::Setting {
                field: "load",
                found: format!("still too high after {} attempts", report.attempts),
                expected: "a table with distinct keys and 200 times the slots to hold them".into(),
            });
        };
        input = Input::new(stream, keys, values, Duplicates::KeepLast)?;
    }
}

fn fallback(
    published: Family,
    family: Family,
    growth: f64,
    report: &BuildReport,
) -> Option<String> {
    let mut said = Vec::new();
    if family != published {
        said.push(format!(
            "{} could not hold the keys, {} did",
            published.describe(),
            family.describe()
        ));
    }
    if growth > 1.0 {
        said.push(format!("{growth:.2} times the slots asked for"));
    }
    // A second round was begun with equal keys resolved.
    if report.attempts > PUBLISHED + MIXED && report.duplicates > 0 {
        said.push(format!(
            "{} pairs had keys that occur again, though none were promised",
            report.duplicates
        ));
    }
    (!said.is_empty()).then(|| said.join("; "))
}
