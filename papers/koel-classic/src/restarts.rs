//! Builds that may fail and restart.
//!
//! The papers draw new functions until a build succeeds. Here every build ends with a table. The
//! attempts run in this order:
//! 1. as published, with new functions each time; once only if more keys are equal modulo the
//!    prime of the published functions than have room, because no constants tell them apart;
//! 2. with the family `Mixed`, which separates keys that the published functions cannot;
//! 3. if the caller had promised distinct keys: with equal keys resolved after all, from 1 again;
//! 4. with a growing number of slots.
use super::input::{self, Input, Pairs};
use super::{Duplicates, Family, Kind, Options, SchemeReport, Table};
use koel::primitives;
use koel::{Error, Result, Stream, View};
use koel_classic_kernels::residues::{residues, residues_beyond};
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
/// Attempts with distinct keys, or with keys that may repeat.
const ALL: u32 = PUBLISHED + MIXED + GROWN;

/// Functions of a published scheme.
#[derive(Clone, Copy)]
pub(super) struct Published {
    family: Family,
    /// Number of keys that have room if all their functions name the same slots. `None`: any
    /// number, or unknown.
    room: Option<u32>,
}
impl Published {
    /// Returns functions of a table that holds up to `room` keys with the same slots.
    pub(super) fn with_room(family: Family, room: u32) -> Published {
        Published { family, room: Some(room) }
    }
    /// Returns the number of keys beyond the room of those that are equal modulo the prime of the
    /// functions: if it is not 0, no functions of the family can hold the keys. Adds the device
    /// time to `seconds`.
    fn beyond_room(self, stream: &Stream, pairs: Pairs<'_>, seconds: &mut f64) -> Result<u32> {
        let (Some(prime), Some(room)) = (self.family.prime(), self.room) else { return Ok(0) };
        let (device, n) = (stream.device(), pairs.n);
        let mut of_keys = device.alloc::<u32>(n as usize)?;
        let mut sorted = device.alloc::<u32>(n as usize)?;
        let mut count = device.alloc::<u32>(1)?;
        let ((), taken) = stream.time(|| {
            count.view_mut().fill_bytes(0, stream)?;
            let keys = pairs.keys.arg("keys", stream)?;
            let out = of_keys.view_mut().arg("residues", stream)?;
            // SAFETY: `n` keys and residues.
            unsafe {
                residues::launch(stream, n.div_ceil(residues::SPEC.threads), n, prime, keys, out)
            }?;
            primitives::sort_keys(stream, of_keys.view(), sorted.view_mut())?;
            let grid = n.div_ceil(residues_beyond::SPEC.threads);
            let sorted = sorted.view().arg("residues", stream)?;
            let count = count.view_mut().arg("count", stream)?;
            // SAFETY: `n` residues, and one count.
            unsafe { residues_beyond::launch(stream, grid, n, room, sorted, count) }
        })?;
        *seconds += taken;
        Ok(count.download()?[0])
    }
}
impl From<Family> for Published {
    fn from(family: Family) -> Published {
        Published { family, room: None }
    }
}

/// A built table that still needs its report.
pub(super) trait Restarting: Table + 'static {
    /// Adds what the table itself knows (slots, bytes, stash) to the report, and keeps it.
    fn complete(&mut self, report: SchemeReport);
}

/// Implements [`Kind::build`] for kinds that make attempts: checks the input, resolves equal keys,
/// and makes attempts until one succeeds. `attempt` receives the requested load factor.
pub(super) fn build<T: Restarting>(
    kind: &dyn Kind,
    published: impl Into<Published>,
    stream: &Stream,
    (keys, values): (View<'_, u32>, View<'_, u32>),
    options: &Options,
    mut attempt: impl FnMut(&Stream, Pairs<'_>, f64, Attempt) -> Result<Outcome<T>>,
) -> Result<Box<dyn Table>> {
    let load = input::check(kind, keys, values, options)?;
    let input = Input::new(stream, keys, values, options.duplicates)?;
    let mut report = SchemeReport::default();
    let mut table = until_built(
        stream,
        input,
        published.into(),
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
    published: Published,
    seed: u64,
    report: &mut SchemeReport,
    mut attempt: impl FnMut(&Stream, Pairs<'_>, Attempt) -> Result<Outcome<T>>,
) -> Result<T> {
    loop {
        let last = if input.is_distinct() { ALL } else { PUBLISHED + MIXED };
        (report.pairs, report.duplicates) = (input.pairs().n as usize, input.dropped());
        let built = up_to(last, stream, input.pairs(), published, seed, report, &mut attempt)?;
        if let Some(table) = built {
            return Ok(table);
        }
        let Input::AsGiven(Pairs { keys, values, .. }) = input else { return Err(broken(report)) };
        input = Input::new(stream, keys, values, Duplicates::KeepLast)?;
    }
}

/// Makes attempts with pairs whose keys may repeat until one succeeds: as for distinct keys.
/// Returns the table and the part of the report that describes the attempts.
///
/// Does not look for keys that are equal modulo the prime of `published`: equal keys need no room
/// of their own, and the two-level tables have no known room.
pub(super) fn with_repeats<T>(
    stream: &Stream,
    pairs: Pairs<'_>,
    published: Family,
    seed: u64,
    mut attempt: impl FnMut(&Stream, Pairs<'_>, Attempt) -> Result<Outcome<T>>,
) -> Result<(T, SchemeReport)> {
    let mut report = SchemeReport::default();
    match up_to(ALL, stream, pairs, published.into(), seed, &mut report, &mut attempt)? {
        Some(table) => Ok((table, report)),
        None => Err(broken(&report)),
    }
}

/// Makes up to `last` attempts with the same pairs, and fills in the parts of the report that
/// describe them. Returns the table of the first attempt that succeeds.
fn up_to<T>(
    last: u32,
    stream: &Stream,
    pairs: Pairs<'_>,
    published: Published,
    seed: u64,
    report: &mut SchemeReport,
    attempt: &mut impl FnMut(&Stream, Pairs<'_>, Attempt) -> Result<Outcome<T>>,
) -> Result<Option<T>> {
    let (mut number, mut beyond) = (0, 0);
    while number < last {
        let family = if number < PUBLISHED { published.family } else { Family::Mixed };
        let growth = 1.25f64.powi(number.saturating_sub(PUBLISHED + MIXED - 1) as i32);
        let seed = splitmix_at(seed, report.attempts);
        report.attempts += 1;
        let outcome = attempt(stream, pairs, Attempt { number, family, seed, growth })?;
        report.device_seconds += outcome.seconds;
        if outcome.table.is_some() {
            report.family = family.describe();
            report.fallback = fallback(published.family, family, growth, beyond, report);
            return Ok(outcome.table);
        }
        if number == 0 {
            beyond = published.beyond_room(stream, pairs, &mut report.device_seconds)?;
        }
        number = if number == 0 && beyond > 0 { PUBLISHED } else { number + 1 };
    }
    Ok(None)
}
/// Returns the error of a build whose every growth failed, up to 200 times the requested slots.
/// Only a broken device gets here.
fn broken(report: &SchemeReport) -> Error {
    Error::Setting {
        field: "load",
        found: format!("still too high after {} attempts", report.attempts),
        expected: "a table with 200 times the slots to hold the keys".into(),
    }
}

fn fallback(
    published: Family,
    family: Family,
    growth: f64,
    beyond: u32,
    report: &SchemeReport,
) -> Option<String> {
    let mut said = Vec::new();
    if family != published {
        let (weak, good) = (published.describe(), family.describe());
        let why = match (beyond, published.prime()) {
            (0, _) | (_, None) => String::new(),
            (1, Some(prime)) => format!(" (1 too many is equal to others modulo {prime})"),
            (_, Some(prime)) => format!(" ({beyond} too many are equal to others modulo {prime})"),
        };
        said.push(format!("{weak} could not hold the keys{why}, {good} did"));
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
