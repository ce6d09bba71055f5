//! Rates of [`Map128`](koel::Map128), [`Set128`](koel::Set128) and [`Index<u128>`](koel::Index) on
//! this machine's best device, with the machine's own limits: one JSON line each.
//!
//!     cargo run --release -p koel-rates --bin keys128_rates -- 2^22 2^24 load=0.8,0.9 bits=32,64
//!
//! `gps`: 10^9 keys per second, the median of 7 runs after 2 warm-up runs. Keys are random; `bits`
//! is the size of the maps' values. A build inserts keys that are on the device into an existing
//! table (`rebuild`) and waits until it has finished. `encode` builds an index of `n` keys drawn
//! from `distinct`, and looks up the id of each. `assign`, `insert` and `erase` change a map by a
//! batch of a quarter of its keys, as a [`MapUpdater`] does that has done so before.
//! `verified`: the answers for all keys, present and absent, or all ids, equal the host's.
//! `of_limit`: the rate divided by that of random 32-byte reads from as much memory, in the same
//! run; a lookup of a present key in a map takes 4.13 such reads.
use koel::keys128::{Map128Builder, Set128Builder};
use koel::limits;
use koel::types::ValueBits;
use koel::{
    Buffer, BuildReport, Device, Error, IndexBuilder, IndexOptions, Map, MapBuilder, MapOptions,
    MapUpdater, Operation, Operations, Outcome, Result, SetOptions, Stream,
};
use koel_kernels::hash::mix::splitmix_at;
use koel_rates::{
    RUNS, Row, median, print_copies, print_provenance, rate, rate_of_limit, row, size,
};
use rayon::prelude::*;
use std::collections::HashMap;

fn main() -> Result<()> {
    let (mut sizes, mut loads, mut bits) = (vec![], vec![0.8], vec!["32", "64"]);
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    for arg in &args {
        match arg.split_once('=') {
            Some(("load", list)) => {
                loads = list
                    .split(',')
                    .map(|l| l.parse().map_err(|_| wrong(arg)))
                    .collect::<Result<_>>()?;
            }
            Some(("bits", list)) => bits = list.split(',').collect(),
            _ => sizes.push(size(arg)?),
        }
    }
    if sizes.is_empty() {
        sizes = vec![1 << 22, 1 << 24];
    }
    let device = Device::best()?;
    eprintln!("{}", device.name());
    print_provenance(&device);
    let stream = device.stream()?;
    print_copies(&stream)?;
    for &n in &sizes {
        let keys = Keys {
            stream: &stream,
            present: device.upload(&random(0..n as u32))?,
            absent: device.upload(&random(n as u32..2 * n as u32))?,
        };
        for &load in &loads {
            for &bits in &bits {
                match bits {
                    "32" => keys.of_map::<u32>(load)?,
                    "64" => keys.of_map::<u64>(load)?,
                    _ => return Err(wrong(bits)),
                }
            }
            keys.of_set(load)?;
            for distinct in [n, n / 8, n / 4096] {
                encode(&stream, n, distinct.max(1), load)?;
            }
        }
    }
    Ok(())
}
fn wrong(arg: &str) -> Error {
    let expected = "2^k, or load= or bits= with a list".into();
    Error::Setting { field: "argument", found: arg.into(), expected }
}
/// Returns a key, distinct for distinct numbers.
fn key(i: u32) -> u128 {
    splitmix_at(0, i) as u128 | (splitmix_at(1, i) as u128) << 64
}
fn random(numbers: std::ops::Range<u32>) -> Vec<u128> {
    numbers.into_par_iter().map(key).collect()
}

/// Present keys and as many absent ones.
struct Keys<'a> {
    stream: &'a Stream,
    present: Buffer<u128>,
    absent: Buffer<u128>,
}
impl Keys<'_> {
    fn of_map<V: ValueBits>(&self, load: f64) -> Result<()> {
        let Keys { stream, present, absent } = self;
        let (device, n, bits) = (stream.device(), present.len(), 8 * size_of::<V>());
        let expected = (0..n as u32)
            .into_par_iter()
            .map(|i| V::narrowed(splitmix_at(2, i)))
            .collect::<Vec<V>>();
        let of_keys = device.upload(&expected)?;
        let mut builder = Map128Builder::new(device, MapOptions::default().with_load(load))?;
        let mut map = builder.build(stream, present.view(), of_keys.view())?;
        let seconds =
            median(stream, || builder.rebuild(&mut map, stream, present.view(), of_keys.view()))?;
        let (mut values, mut found) = (device.alloc::<V>(n)?, device.alloc::<u8>(n)?);
        map.get_into(stream, present.view(), values.view_mut(), found.view_mut())?;
        let all_present =
            found.download()?.par_iter().all(|&f| f == 1) && values.download()? == expected;
        map.get_into(stream, absent.view(), values.view_mut(), found.view_mut())?;
        let report = map.report()?;
        let verified =
            all_present && report.entries == n && found.download()?.par_iter().all(|&f| f == 0);
        let what = row![("bits", bits), ("load", load), ("n", n)];
        built("map128_build", &what, n, seconds, verified, report);
        let limit = limits::random_reads(stream, report.bytes, RUNS)?.rates.median;
        for (kind, queries) in [("present", present), ("absent", absent)] {
            for op in ["find", "find_or"] {
                let seconds = median(stream, || match op {
                    "find" => {
                        map.get_into(stream, queries.view(), values.view_mut(), found.view_mut())
                    }
                    _ => map.get_or_into(stream, queries.view(), values.view_mut(), V::default()),
                })?;
                looked_up(&format!("map128_{op}_{kind}"), &what, n, seconds, verified, limit);
            }
        }
        let options = MapOptions::default().with_load(load);
        let mut builder = MapBuilder::new(device, options)?;
        let map = builder.build(stream, present.view(), of_keys.view())?;
        self.changes(map, options, &what)
    }
    /// Changes a map in batches of a quarter of its keys: assigns new values, inserts keys that are
    /// absent, erases them again.
    fn changes<V: ValueBits>(
        &self,
        mut map: Map<u128, V>,
        options: MapOptions,
        what: &Row,
    ) -> Result<()> {
        let Keys { stream, present, absent } = self;
        let (device, n) = (stream.device(), (present.len() / 4).max(1));
        let (held, new) = (present.view().slice(..n)?, absent.view().slice(..n)?);
        let values = device.upload(&vec![V::narrowed(7); n])?;
        let (mut outcomes, mut updater) =
            (device.alloc::<u8>(n)?, MapUpdater::new(device, options)?);
        let mut apply = |map: &mut Map<u128, V>, operation, keys, expected| {
            let (operations, of_keys) = (Operations::All(operation), values.view());
            let (_, seconds) = stream.time(|| {
                updater.apply(map, stream, operations, keys, of_keys, outcomes.view_mut())
            })?;
            let outcomes = outcomes.download()?;
            Result::Ok((seconds, outcomes.par_iter().all(|&outcome| outcome == expected as u8)))
        };
        let mut times = [[0.0; RUNS + 2]; 3];
        let mut verified = true;
        for run in 0..RUNS + 2 {
            let batches = [
                (Operation::InsertOrAssign, held, Outcome::Assigned),
                (Operation::Insert, new, Outcome::Inserted),
                (Operation::Erase, new, Outcome::Erased),
            ];
            for (times, (operation, keys, expected)) in times.iter_mut().zip(batches) {
                let right;
                (times[run], right) = apply(&mut map, operation, keys, expected)?;
                verified &= right;
            }
            verified &= map.len()? == present.len();
        }
        let mut found = device.alloc::<V>(n)?;
        map.get_or_into(stream, held, found.view_mut(), V::default())?;
        verified &= found.download()?.par_iter().all(|&value| value == V::narrowed(7));
        for (op, mut times) in ["assign", "insert", "erase"].into_iter().zip(times) {
            times[2..].sort_by(f64::total_cmp);
            row![("op", format!("map128_{op}")), ("batch", n)]
                .and(what)
                .and(&rate(n, times[2 + RUNS / 2]))
                .and(&row![("verified", verified)])
                .print();
        }
        Ok(())
    }
    fn of_set(&self, load: f64) -> Result<()> {
        let Keys { stream, present, absent } = self;
        let (device, n) = (stream.device(), present.len());
        let mut builder = Set128Builder::new(device, SetOptions::default().with_load(load))?;
        let mut set = builder.build(stream, present.view())?;
        let seconds = median(stream, || builder.rebuild(&mut set, stream, present.view()))?;
        let (mut found, mut mask) = (device.alloc::<u8>(n)?, device.alloc::<u32>(n.div_ceil(32))?);
        let mut count = device.alloc::<u64>(1)?;
        set.contains_into(stream, present.view(), found.view_mut())?;
        let all_present = found.download()?.par_iter().all(|&f| f == 1);
        set.contains_into(stream, absent.view(), found.view_mut())?;
        let report = set.report()?;
        let verified =
            all_present && report.entries == n && found.download()?.par_iter().all(|&f| f == 0);
        let what = row![("load", load), ("n", n)];
        built("set128_build", &what, n, seconds, verified, report);
        let limit = limits::random_reads(stream, report.bytes, RUNS)?.rates.median;
        for (kind, queries, there) in [("present", present, n as u64), ("absent", absent, 0)] {
            set.count_into(stream, queries.view(), count.view_mut())?;
            let verified = verified && count.download()? == [there];
            for op in ["contains", "contains_bits", "count"] {
                let seconds = median(stream, || match op {
                    "contains" => set.contains_into(stream, queries.view(), found.view_mut()),
                    "contains_bits" => {
                        set.contains_bits_into(stream, queries.view(), mask.view_mut())
                    }
                    _ => set.count_into(stream, queries.view(), count.view_mut()),
                })?;
                looked_up(&format!("set128_{op}_{kind}"), &what, n, seconds, verified, limit);
            }
        }
        Ok(())
    }
}
/// Builds an index of a column and encodes the column as ids.
fn encode(stream: &Stream, n: usize, distinct: usize, load: f64) -> Result<()> {
    let device = stream.device();
    let drawn =
        |i: u32| if distinct == n { i } else { (splitmix_at(3, i) % distinct as u64) as u32 };
    let numbers = (0..n as u32).into_par_iter().map(drawn).collect::<Vec<_>>();
    let column = device.upload(&numbers.par_iter().map(|&i| key(i)).collect::<Vec<_>>())?;
    let mut builder = IndexBuilder::new(device, IndexOptions::default().with_load(load))?;
    let (mut index, mut ids) = (builder.build(stream, column.view())?, device.alloc::<u32>(n)?);
    let seconds = median(stream, || {
        builder.rebuild(&mut index, stream, column.view())?;
        index.ids_into(stream, column.view(), ids.view_mut())
    })?;
    let mut first = HashMap::with_capacity(distinct);
    let expected = numbers.iter().map(|&number| {
        let next = first.len() as u32;
        *first.entry(number).or_insert(next)
    });
    let verified = ids.download()?.into_iter().eq(expected) && index.len() == first.len();
    let what = row![("load", load), ("n", n), ("distinct", index.len())];
    built("index128_encode", &what, n, seconds, verified, index.report()?);
    Ok(())
}
fn built(op: &str, what: &Row, n: usize, seconds: f64, verified: bool, report: BuildReport) {
    row![("op", op)]
        .and(what)
        .and(&rate(n, seconds))
        .and(&row![
            ("verified", verified),
            ("stashed", report.stashed),
            ("attempts", report.attempts),
            ("bytes", report.bytes),
            ("scratch_bytes", report.scratch_bytes)
        ])
        .print();
}
fn looked_up(op: &str, what: &Row, n: usize, seconds: f64, verified: bool, limit: f64) {
    row![("op", op)]
        .and(what)
        .and(&rate_of_limit(n, seconds, limit))
        .and(&row![("verified", verified)])
        .print();
}
