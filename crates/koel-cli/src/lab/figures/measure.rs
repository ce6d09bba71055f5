//! Steps shared by all figures: make keys, build, look up, check, time.
use super::super::chart::{Axis, Chart, Scale, Series};
use crate::bench::keys::Permutation;
use crate::failure::{Failure, Outcome};
use koel::device::Element;
use koel::{Buffer, Stream};
use koel_classic::{Duplicates, Kind, ListKind, ListTable, Listed, Options, Table};
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

/// Answers of a table with repeated keys: entries `starts[i]..starts[i] + counts[i]` of the list
/// belong to query `i`.
struct ListAnswers {
    starts: Vec<u32>,
    counts: Vec<u32>,
    list: Vec<u32>,
}
impl ListAnswers {
    fn ranges(&self) -> impl Iterator<Item = (usize, usize)> {
        self.starts
            .iter()
            .zip(&self.counts)
            .map(|(start, count)| (*start as usize, *count as usize))
    }
    fn lie_within(&self) -> bool {
        self.ranges().all(|(start, count)| count == 0 || start + count <= self.list.len())
    }
    /// Whether each answer is that of the pair in `of`: `keys` holds each of `distinct` keys in
    /// turn, and the values are the indices of the pairs.
    fn are_those_of(
        &self,
        lists: Listed,
        keys: &[u32],
        distinct: usize,
        mut of: impl Iterator<Item = usize>,
    ) -> bool {
        let n = keys.len();
        match lists {
            Listed::Nothing => self.counts.iter().all(|count| *count == 1),
            Listed::Keys => {
                let mut answers = self.ranges().zip(of);
                self.list.len() == distinct
                    && answers
                        .all(|((start, count), pair)| count == 1 && self.list[start] == keys[pair])
            }
            Listed::Values => {
                // A value is in the range of its key, and ranges have as many values as their keys:
                // no range has another key's.
                let mut places = vec![usize::MAX; n];
                let is_new = |(at, value): (usize, &u32)| {
                    let place = places.get_mut(*value as usize);
                    place.is_some_and(|place| std::mem::replace(place, at) == usize::MAX)
                };
                self.list.len() == n
                    && self.list.iter().enumerate().all(is_new)
                    && self.ranges().all(|(start, count)| {
                        let Some(pair) = of.next() else { return false };
                        let copies = n / distinct + usize::from(pair % distinct < n % distinct);
                        count == copies && (start..start + count).contains(&places[pair])
                    })
            }
        }
    }
}
fn wrong(kind: &str) -> Failure {
    Failure::Other(format!("{kind}: a wrong answer"))
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
            false => Err(wrong(kind.name())),
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
        let (seconds, answers) = self.find_lists(kind, table, queries)?;
        let of = queries.expected.iter().map(|pair| *pair as usize);
        match answers.are_those_of(kind.lists(), &pairs.host, distinct, of) {
            true => Ok(seconds),
            false => Err(wrong(kind.name())),
        }
    }
    /// Returns the seconds of the fastest lookup of keys whose [value counts](Self::queries_of) are
    /// known. Fails if a count is wrong.
    pub(super) fn find_counted(
        &self,
        kind: &dyn ListKind,
        table: &dyn ListTable,
        queries: &Queries,
    ) -> Outcome<f64> {
        let (seconds, answers) = self.find_lists(kind, table, queries)?;
        match answers.counts == queries.expected {
            true => Ok(seconds),
            false => Err(wrong(kind.name())),
        }
    }
    /// Prepares lookups of `keys`; each expects as many values as the key has in `held`.
    pub(super) fn queries_of(&self, keys: &[u32], held: &[u32]) -> Outcome<Queries> {
        let mut counts = HashMap::<u32, u32>::new();
        held.iter().for_each(|&key| *counts.entry(key).or_default() += 1);
        let expected = keys.iter().map(|key| counts.get(key).copied().unwrap_or(0)).collect();
        Ok(Queries { keys: self.stream.device().upload(keys)?, expected })
    }
    /// Returns the seconds of the fastest run of all queries, and the answers.
    fn find_lists(
        &self,
        kind: &dyn ListKind,
        table: &dyn ListTable,
        queries: &Queries,
    ) -> Outcome<(f64, ListAnswers)> {
        let (device, n) = (self.stream.device(), queries.expected.len());
        let (mut starts, mut counts) = (device.alloc::<u32>(n)?, device.alloc::<u32>(n)?);
        let seconds = self.fastest(|is_timed| {
            if !is_timed {
                self.spoil(&mut starts)?;
                return self.spoil(&mut counts);
            }
            table.get_into(&self.stream, queries.keys.view(), starts.view_mut(), counts.view_mut())
        })?;
        let (starts, counts) = (starts.download()?, counts.download()?);
        let answers = ListAnswers { starts, counts, list: table.list().download()? };
        match answers.lie_within() {
            true => Ok((seconds, answers)),
            false => Err(wrong(kind.name())),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Three keys in turn, of five pairs: each wrong answer that the lists can give is noticed.
    #[test]
    fn answers_of_lists_are_compared_with_every_value() {
        let keys = [7, 8, 9, 7, 8];
        let answers = |starts: [u32; 5], counts: [u32; 5], list: &[u32]| ListAnswers {
            starts: starts.into(),
            counts: counts.into(),
            list: list.into(),
        };
        let right = |lists, answers: ListAnswers| answers.are_those_of(lists, &keys, 3, 0..5);
        let (starts, counts) = ([0, 2, 4, 0, 2], [2, 2, 1, 2, 2]);
        for (is_right, starts, counts, list) in [
            (true, starts, counts, [0, 3, 1, 4, 2]),
            (true, starts, counts, [3, 0, 4, 1, 2]),
            // Another key's values, a value twice, a value that is none, a value too few.
            (false, starts, counts, [0, 1, 3, 4, 2]),
            (false, starts, counts, [0, 3, 1, 1, 2]),
            (false, starts, counts, [0, 3, 1, 5, 2]),
            (false, starts, [2, 1, 1, 2, 2], [0, 3, 1, 4, 2]),
            (false, [0, 2, 4, 2, 2], counts, [0, 3, 1, 4, 2]),
        ] {
            assert_eq!(right(Listed::Values, answers(starts, counts, &list)), is_right, "{list:?}");
        }
        let (ids, ones) = ([0, 1, 2, 0, 1], [1; 5]);
        assert!(right(Listed::Keys, answers(ids, ones, &[7, 8, 9])));
        assert!(!right(Listed::Keys, answers(ids, ones, &[8, 7, 9])));
        assert!(!right(Listed::Keys, answers(ids, ones, &[7, 8, 9, 9])));
        assert!(!right(Listed::Keys, answers(ids, [1, 1, 1, 1, 2], &[7, 8, 9])));
        assert!(!answers([0, 0, 0, 0, 2], counts, &[7, 8, 9]).lie_within());
    }
}
