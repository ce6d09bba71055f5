//! Steps shared by all figures: make keys, build, look up, check, time.
use super::super::chart::{Axis, Chart, Scale, Series};
use crate::bench::keys::Permutation;
use crate::failure::{Failure, Outcome};
use koel::classic::{Duplicates, Kind, ListKind, ListTable, Options, Table};
use koel::device::Element;
use koel::{Buffer, Stream};
use rayon::prelude::*;
use std::collections::HashMap;

/// Settings of the measurements.
pub(super) struct Lab {
    pub stream: Stream,
    /// Base-2 logarithm of the largest number of keys.
    pub most: u32,
    pub runs: u16,
    pub seed: u64,
    /// Description of the device, for subtitles.
    pub about: String,
}

/// Keys, values (their indices) and absent keys, on the device.
pub(super) struct Pairs {
    pub host: Vec<u32>,
    absent: Vec<u32>,
    pub keys: Buffer<u32>,
    pub values: Buffer<u32>,
}
/// Queries and their expected answers.
pub(super) struct Queries {
    keys: Buffer<u32>,
    expected: Vec<u32>,
}
/// Marker for an absent key; greater than any value.
const ABSENT: u32 = u32::MAX;

impl Lab {
    /// Returns powers of two, from about 2^12 to the largest.
    pub(super) fn sizes(&self) -> impl Iterator<Item = usize> + use<> {
        (self.most.saturating_sub(8).max(10).min(self.most)..=self.most).map(|power| 1 << power)
    }
    /// Draws distinct random keys below 2 to the `bits`.
    pub(super) fn random(&self, n: usize, bits: u32) -> Outcome<Pairs> {
        let all = Permutation::new(1 << bits, self.seed);
        let range = |range: std::ops::Range<u64>| {
            range.into_par_iter().map(|i| all.at(i) as u32).collect::<Vec<u32>>()
        };
        self.pairs(range(0..n as u64), range(n as u64..2 * n as u64))
    }
    /// Uploads these keys; the absent ones are for queries.
    pub(super) fn pairs(&self, host: Vec<u32>, absent: Vec<u32>) -> Outcome<Pairs> {
        let device = self.stream.device();
        let (keys, values) =
            (device.upload(&host)?, device.upload(&(0..host.len() as u32).collect::<Vec<u32>>())?);
        Ok(Pairs { host, absent, keys, values })
    }
    /// Draws as many queries as pairs, in random order. A fraction `absent` of them is absent.
    pub(super) fn queries(&self, pairs: &Pairs, absent: f64) -> Outcome<Queries> {
        let n = pairs.host.len() as u64;
        let (order, side) =
            (Permutation::new(n, self.seed ^ 1), Permutation::new(n, self.seed ^ 2));
        let misses = if pairs.absent.is_empty() { 0 } else { (absent * n as f64).round() as u64 };
        let one = |i: u64| match side.at(i) < misses {
            true => (pairs.absent[i as usize], ABSENT),
            false => (pairs.host[order.at(i) as usize], order.at(i) as u32),
        };
        let (keys, expected): (Vec<u32>, Vec<u32>) = (0..n).into_par_iter().map(one).unzip();
        Ok(Queries { keys: self.stream.device().upload(&keys)?, expected })
    }
    /// Builds a table. Returns it with the seconds of the fastest build, from pairs on the device
    /// to a table there.
    pub(super) fn build(
        &self,
        kind: &dyn Kind,
        pairs: &Pairs,
        load: Option<f64>,
    ) -> Outcome<(Box<dyn Table>, f64)> {
        let options = Options::default()
            .with_load(load)
            .with_duplicates(Duplicates::Unchecked)
            .with_seed(self.seed);
        let mut best = f64::MAX;
        let build = || kind.build(&self.stream, pairs.keys.view(), pairs.values.view(), &options);
        let mut table = build()?;
        for _ in 0..self.runs {
            table = build()?;
            best = best.min(table.report().device_seconds);
        }
        Ok((table, best))
    }
    /// Returns the seconds of the fastest run of all queries. Fails on a wrong answer.
    pub(super) fn find(
        &self,
        kind: &dyn Kind,
        table: &dyn Table,
        queries: &Queries,
    ) -> Outcome<f64> {
        let device = self.stream.device();
        let (mut values, mut found) = (
            device.alloc::<u32>(queries.expected.len())?,
            device.alloc::<u8>(queries.expected.len())?,
        );
        let seconds = self.fastest(|is_timed| {
            if !is_timed {
                self.spoil(&mut values)?;
                return self.spoil(&mut found);
            }
            table.get_into(&self.stream, queries.keys.view(), values.view_mut(), found.view_mut())
        })?;
        let (values, found) = (values.download()?, found.download()?);
        let answers = values
            .iter()
            .zip(&found)
            .map(|(value, found)| if *found != 0 { *value } else { ABSENT });
        match answers.zip(&queries.expected).all(|(answer, expected)| answer == *expected) {
            true => Ok(seconds),
            false => Err(Failure::Other(format!("{}: a wrong answer", kind.name()))),
        }
    }
    /// Like [`build`](Self::build), for a table with repeated keys.
    pub(super) fn build_list(
        &self,
        kind: &dyn ListKind,
        pairs: &Pairs,
    ) -> Outcome<(Box<dyn ListTable>, f64)> {
        let options = Options::default().with_seed(self.seed);
        let mut best = f64::MAX;
        let build = || kind.build(&self.stream, pairs.keys.view(), pairs.values.view(), &options);
        let mut table = build()?;
        for _ in 0..self.runs {
            table = build()?;
            best = best.min(table.report().device_seconds);
        }
        Ok((table, best))
    }
    /// Returns the seconds of the fastest lookup of every pair's key. Fails if a key is not found.
    pub(super) fn find_list(
        &self,
        kind: &dyn ListKind,
        table: &dyn ListTable,
        queries: &Queries,
    ) -> Outcome<f64> {
        self.find_lists(kind, table, queries, |count, _| count > 0)
    }
    /// Returns the seconds of the fastest lookup of keys whose [value counts](Self::queries_of) are
    /// known. Fails if a count is wrong.
    pub(super) fn find_counted(
        &self,
        kind: &dyn ListKind,
        table: &dyn ListTable,
        queries: &Queries,
    ) -> Outcome<f64> {
        self.find_lists(kind, table, queries, |count, expected| count == expected)
    }
    /// Prepares lookups of `keys`; each expects as many values as the key has in `held`.
    pub(super) fn queries_of(&self, keys: &[u32], held: &[u32]) -> Outcome<Queries> {
        let mut counts = HashMap::<u32, u32>::new();
        held.iter().for_each(|&key| *counts.entry(key).or_default() += 1);
        let expected = keys.iter().map(|key| counts.get(key).copied().unwrap_or(0)).collect();
        Ok(Queries { keys: self.stream.device().upload(keys)?, expected })
    }
    fn find_lists(
        &self,
        kind: &dyn ListKind,
        table: &dyn ListTable,
        queries: &Queries,
        right: impl Fn(u32, u32) -> bool,
    ) -> Outcome<f64> {
        let (device, n) = (self.stream.device(), queries.expected.len());
        let (mut starts, mut counts) = (device.alloc::<u32>(n)?, device.alloc::<u32>(n)?);
        let seconds = self.fastest(|is_timed| {
            if !is_timed {
                self.spoil(&mut starts)?;
                return self.spoil(&mut counts);
            }
            table.get_into(&self.stream, queries.keys.view(), starts.view_mut(), counts.view_mut())
        })?;
        let (starts, counts, list) =
            (starts.download()?, counts.download()?, table.list().download()?);
        // In a compacting table the list has keys; in a multi-value table, indices of pairs.
        let mut answers = starts.iter().zip(&counts).zip(&queries.expected);
        let within =
            |start: u32, count: u32| count == 0 || start as usize + count as usize <= list.len();
        match answers
            .all(|((&start, &count), &expected)| right(count, expected) && within(start, count))
        {
            true => Ok(seconds),
            false => Err(Failure::Other(format!("{}: a wrong answer", kind.name()))),
        }
    }
    /// Returns the seconds of the fastest run of `step(true)`. Calls `step(false)` before each run,
    /// untimed.
    fn fastest(&self, mut step: impl FnMut(bool) -> koel::Result<()>) -> Outcome<f64> {
        step(true)?;
        let mut best = f64::MAX;
        for _ in 0..self.runs {
            step(false)?;
            best = best.min(self.stream.time(|| step(true))?.1);
        }
        Ok(best)
    }
    /// Fills the answers with values that no lookup writes.
    fn spoil<T: Element>(&self, answers: &mut Buffer<T>) -> koel::Result<()> {
        answers.view_mut().fill_bytes(0xA5, &self.stream)
    }
    pub(super) fn chart(
        &self,
        title: &str,
        subtitle: &str,
        x: Axis,
        y: Axis,
        series: Vec<Series>,
    ) -> Chart {
        Chart { title: title.into(), subtitle: format!("{subtitle}; {}", self.about), x, y, series }
    }
}

/// The x axis of all figures over the number of keys.
pub(super) fn keys_axis() -> Axis {
    Axis::new("key-value pairs (logarithmic)", Scale::Log)
}
pub(super) fn milliseconds() -> Axis {
    Axis::new("milliseconds (logarithmic)", Scale::Log)
}
pub(super) fn rate() -> Axis {
    Axis::new("million pairs per second", Scale::From(0.0))
}
/// Millions per second.
pub(super) fn mops(n: usize, seconds: f64) -> f64 {
    n as f64 / seconds / 1e6
}
