//! Steps shared by all figures: make keys, build, look up, check, time.
use super::super::chart::{Axis, Chart, Scale, Series};
use crate::bench::keys::Queries;
use crate::bench::verify::{self, Entries};
use crate::failure::{Failure, Outcome};
use koel::device::Element;
use koel::{Buffer, Stream, View, ViewMut};
use koel_classic::{Duplicates, Kind, ListKind, ListTable, Options, Table};
use koel_measure::{Permutation, repeat};
use rayon::prelude::*;
use std::collections::HashMap;
use std::fmt::Display;

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
fn wrong(kind: &str, what: impl Display) -> Failure {
    Failure::Other(format!("{kind}: {what}"))
}

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
    pub(super) fn queries(&self, pairs: &Pairs, absent: f64) -> Queries {
        let n = pairs.host.len() as u64;
        let misses = if pairs.absent.is_empty() { 0 } else { (absent * n as f64).round() as u64 };
        let seeds = [self.seed ^ 1, self.seed ^ 2];
        Queries::of(&pairs.host, &pairs.absent, n - misses, seeds, |pair| pair)
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
        let build = || kind.build(&self.stream, pairs.keys.view(), pairs.values.view(), &options);
        self.fastest_build(build, |table| table.report().device_seconds)
    }
    /// Returns the seconds of the fastest run of all queries. Fails on a wrong answer.
    pub(super) fn find(
        &self,
        kind: &dyn Kind,
        table: &dyn Table,
        queries: &Queries,
    ) -> Outcome<f64> {
        let (seconds, values, found) = self.fastest_find(queries, |keys, values, found| {
            table.get_into(&self.stream, keys, values, found)
        })?;
        let right = verify::check(queries, 0, &values, &found);
        right.map_err(|answer| wrong(kind.name(), answer))?;
        Ok(seconds)
    }
    /// Like [`build`](Self::build), for a table with repeated keys.
    pub(super) fn build_list(
        &self,
        kind: &dyn ListKind,
        pairs: &Pairs,
    ) -> Outcome<(Box<dyn ListTable>, f64)> {
        let options = Options::default().with_seed(self.seed);
        let build = || kind.build(&self.stream, pairs.keys.view(), pairs.values.view(), &options);
        self.fastest_build(build, |table| table.report().device_seconds)
    }
    /// Returns the seconds of the fastest lookup of every pair's key, where each of `distinct` keys
    /// occurs in turn. Fails unless every lookup gives exactly the key's entries of the list: its
    /// values (the indices of its pairs), or the key itself in a compacting table.
    pub(super) fn find_list(
        &self,
        kind: &dyn ListKind,
        table: &dyn ListTable,
        pairs: &Pairs,
        distinct: usize,
        queries: &Queries,
    ) -> Outcome<f64> {
        let (seconds, starts, counts) = self.find_lists(table, queries)?;
        let (list, n) = (table.list().download()?, pairs.host.len());
        let copies = |pair| (n / distinct + usize::from(pair % distinct < n % distinct)) as u32;
        let entries = Entries {
            listed: kind.lists(),
            list: &list,
            keys: &pairs.host,
            mark: 0,
            multiplicities: Some(&(0..n).map(copies).collect::<Vec<_>>()),
            distinct,
        };
        entries.check_list().map_err(|list| wrong(kind.name(), list))?;
        let right = entries.check(queries, &starts, &counts);
        right.map_err(|answer| wrong(kind.name(), answer))?;
        Ok(seconds)
    }
    /// Returns the seconds of the fastest lookup of keys whose [value counts](Self::queries_of) are
    /// known. Fails if a count is wrong.
    pub(super) fn find_counted(
        &self,
        kind: &dyn ListKind,
        table: &dyn ListTable,
        queries: &Queries,
    ) -> Outcome<f64> {
        let (seconds, _, counts) = self.find_lists(table, queries)?;
        match counts == queries.expected {
            true => Ok(seconds),
            false => Err(wrong(kind.name(), "a wrong count")),
        }
    }
    /// Prepares lookups of `keys`; each expects as many values as the key has in `held`.
    pub(super) fn queries_of(&self, keys: &[u32], held: &[u32]) -> Queries {
        let mut counts = HashMap::<u32, u32>::new();
        held.iter().for_each(|&key| *counts.entry(key).or_default() += 1);
        let expected = keys.iter().map(|key| counts.get(key).copied().unwrap_or(0)).collect();
        Queries { keys: keys.to_vec(), expected }
    }
    /// Returns the seconds of the fastest run of all queries, and the answers: starts and counts.
    fn find_lists(
        &self,
        table: &dyn ListTable,
        queries: &Queries,
    ) -> Outcome<(f64, Vec<u32>, Vec<u32>)> {
        self.fastest_find(queries, |keys, starts, counts| {
            table.get_into(&self.stream, keys, starts, counts)
        })
    }
    /// Looks up repeatedly. Returns the seconds of the fastest run, and the answers, which are
    /// overwritten before each run with what no lookup writes.
    fn fastest_find<A: Element, B: Element>(
        &self,
        queries: &Queries,
        find: impl Fn(View<'_, u32>, ViewMut<'_, A>, ViewMut<'_, B>) -> koel::Result<()>,
    ) -> Outcome<(f64, Vec<A>, Vec<B>)> {
        let (device, n) = (self.stream.device(), queries.keys.len());
        let keys = device.upload(&queries.keys)?;
        let (mut a, mut b) = (device.alloc::<A>(n)?, device.alloc::<B>(n)?);
        let [times] = repeat(self.runs.into(), || {
            a.view_mut().fill_bytes(0xA5, &self.stream)?;
            b.view_mut().fill_bytes(0xA5, &self.stream)?;
            let find = || find(keys.view(), a.view_mut(), b.view_mut());
            koel::Result::Ok([self.stream.time(find)?.1])
        })?;
        Ok((times.min, a.download()?, b.download()?))
    }
    /// Returns the seconds of the fastest run.
    pub(super) fn fastest(&self, mut run: impl FnMut() -> koel::Result<()>) -> Outcome<f64> {
        let [times] =
            repeat(self.runs.into(), || koel::Result::Ok([self.stream.time(&mut run)?.1]))?;
        Ok(times.min)
    }
    /// Builds repeatedly. Returns the last table, and the seconds of the fastest build.
    fn fastest_build<T>(
        &self,
        build: impl Fn() -> koel::Result<T>,
        seconds: impl Fn(&T) -> f64,
    ) -> Outcome<(T, f64)> {
        let mut last = None;
        let [times] =
            repeat(self.runs.into(), || koel::Result::Ok([seconds(last.insert(build()?))]))?;
        let Some(table) = last else { unreachable!("every run leaves its table") };
        Ok((table, times.min))
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
