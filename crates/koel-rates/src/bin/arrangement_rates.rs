//! Rates of every table whose input has equal keys, by their [arrangement](ranks): one JSON line
//! each.
//!
//! ```text
//! cargo run --release -p koel-rates --bin arrangement_rates -- \
//!     2^24 keys=near1x0.01,sorted0.1,runs100 tables=map,set,multi_map
//! ```
//!
//! `gps`: 10^9 pairs or keys per second, the median of 7 runs after 2 warm-up runs; `cpu_us`: the
//! median of the CPU times of these runs. `of_unique`: the time of distinct keys, measured just
//! before, divided by that of these; on a CPU, of CPU times. `verified`: every answer equals the
//! host's. Tables:
//!
//! * `map`, `map_first`: rebuilds that keep the last or the first of equal keys;
//! * `set`, `map128`, `set128`: rebuilds;
//! * `index`, `index128`: builds;
//! * `multi_map`, `multi_map_any`: builds, with the values of a key in input order or in any;
//! * `join`: the keys look for rows in a map of all of them;
//! * `update`: a sixteenth as many pairs are inserted or assigned into a map of `n` other keys.
use koel::keys128::{Map128Builder, Set128Builder};
use koel::map::{Operation, Operations};
use koel::{
    Buffer, Device, DeviceKind, Duplicates, Error, IndexBuilder, IndexOptions, MapBuilder,
    MapJoiner, MapOptions, MapUpdater, MultiMapBuilder, MultiMapOptions, Result, SetBuilder,
    SetOptions, Stream, ValueOrder,
};
use koel_kernels::hash::mix::{mix, splitmix_at};
use koel_rates::{RUNS, cpu_seconds, decimals, print_provenance, row, size};
use koel_testing::arrangements::ranks;
use rayon::prelude::*;

const TABLES: [&str; 11] = [
    "map",
    "map_first",
    "set",
    "index",
    "multi_map",
    "multi_map_any",
    "join",
    "update",
    "map128",
    "set128",
    "index128",
];
const ARRANGEMENTS: [&str; 16] = [
    "near1x0.01",
    "near1x0.2",
    "near100x0.2",
    "near10000x0.2",
    "runs2",
    "runs100",
    "runs10000",
    "sorted0.1",
    "reversed0.1",
    "blocks10000",
    "concat2",
    "concat8",
    "share0.1",
    "zipf",
    "hot",
    "equal",
];

fn main() -> Result<()> {
    let (mut sizes, mut tables) = (vec![], TABLES.to_vec());
    let mut arrangements = ARRANGEMENTS.to_vec();
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    for arg in &args {
        match arg.split_once('=') {
            Some(("keys", list)) => arrangements = list.split(',').collect(),
            Some(("tables", list)) => tables = list.split(',').collect(),
            _ => sizes.push(size(arg)?),
        }
    }
    if let Some(table) = tables.iter().find(|table| !TABLES.contains(table)) {
        return Err(wrong(table, &TABLES.join(", ")));
    }
    let device = Device::best()?;
    eprintln!("{}", device.name());
    print_provenance(&device);
    let stream = device.stream()?;
    for n in sizes {
        let unique = Input::new(&device, "unique", n)?;
        for table in &tables {
            unique.tell(&stream, table, None)?;
        }
        for name in &arrangements {
            let input = Input::new(&device, name, n)?;
            for table in &tables {
                let (limit, _) = unique.run(&stream, table)?;
                input.tell(&stream, table, Some(limit))?;
            }
        }
    }
    Ok(())
}
fn wrong(found: &str, expected: &str) -> Error {
    Error::Setting { field: "argument", found: found.into(), expected: expected.into() }
}
/// Returns the key of a rank, distinct for distinct ranks.
fn key(rank: u32) -> u32 {
    mix(rank ^ 0x5BD1_E995)
}
fn key128(rank: u32) -> u128 {
    splitmix_at(0, rank) as u128 | (splitmix_at(1, rank) as u128) << 64
}

/// Medians of the times of some runs, in seconds.
#[derive(Clone, Copy)]
struct Times {
    seconds: f64,
    /// CPU time of the process; `None` if kernels run on a GPU.
    cpu: Option<f64>,
}
impl Times {
    /// Returns the time that ratios are of.
    fn compared(self) -> f64 {
        self.cpu.unwrap_or(self.seconds)
    }
}
/// Returns the seconds of a run, and of its CPU time.
fn time(stream: &Stream, run: impl FnOnce() -> Result<()>) -> Result<[f64; 2]> {
    let before = cpu_seconds();
    let (_, seconds) = stream.time(run)?;
    Ok([seconds, cpu_seconds() - before])
}
/// Returns the medians of [`RUNS`] runs after two warm-up runs.
fn times(stream: &Stream, mut run: impl FnMut() -> Result<()>) -> Result<Times> {
    (0..2).try_for_each(|_| run())?;
    let of_runs = (0..RUNS).map(|_| time(stream, &mut run)).collect::<Result<_>>()?;
    Ok(medians(stream, of_runs))
}
fn medians(stream: &Stream, of_runs: Vec<[f64; 2]>) -> Times {
    let median = |which: usize| {
        let mut seconds = of_runs.iter().map(|both| both[which]).collect::<Vec<_>>();
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    };
    let on_cpu = stream.device().kind() == DeviceKind::Cpu;
    Times { seconds: median(0), cpu: on_cpu.then(|| median(1)) }
}

/// A column of keys. The value of each pair is its index.
struct Input<'a> {
    name: &'a str,
    ranks: Vec<u32>,
    /// Number of pairs of each rank, and the first and the last.
    groups: Vec<(u32, u32, u32)>,
    distinct: usize,
    host: Vec<u32>,
    keys: Buffer<u32>,
    values: Buffer<u32>,
}
impl<'a> Input<'a> {
    fn new(device: &Device, name: &'a str, n: usize) -> Result<Input<'a>> {
        let ranks = ranks(n, name, key).ok_or_else(|| wrong(name, "an arrangement"))?;
        let mut groups = vec![(0, u32::MAX, 0); n];
        for (i, &rank) in (0..).zip(&ranks) {
            let group = &mut groups[rank as usize];
            *group = (group.0 + 1, group.1.min(i), i);
        }
        let host = ranks.par_iter().map(|&rank| key(rank)).collect::<Vec<_>>();
        Ok(Input {
            name,
            distinct: groups.par_iter().filter(|group| group.0 > 0).count(),
            keys: device.upload(&host)?,
            values: device.upload(&(0..n as u32).collect::<Vec<_>>())?,
            ranks,
            groups,
            host,
        })
    }
    fn n(&self) -> usize {
        self.ranks.len()
    }
    /// Measures a table and prints the line.
    fn tell(&self, stream: &Stream, table: &str, unique: Option<Times>) -> Result<()> {
        let count = if table == "update" { self.n() / 16 } else { self.n() };
        let (times, verified) = self.run(stream, table)?;
        let of_unique = unique.map_or(1.0, |unique| unique.compared() / times.compared());
        row![
            ("op", table),
            ("keys", self.name),
            ("n", self.n()),
            ("count", count),
            ("distinct", self.distinct),
            ("gps", decimals(count as f64 / times.seconds / 1e9, 3)),
            ("us", decimals(times.seconds * 1e6, 1)),
            ("cpu_us", times.cpu.map(|cpu| decimals(cpu * 1e6, 1))),
            ("of_unique", decimals(of_unique, 3)),
            ("verified", verified)
        ]
        .print();
        Ok(())
    }
    /// Measures a table. Returns the times, and whether all answers are right.
    fn run(&self, stream: &Stream, table: &str) -> Result<(Times, bool)> {
        match table {
            "map" => self.map(stream, Duplicates::KeepLast),
            "map_first" => self.map(stream, Duplicates::KeepFirst),
            "set" => self.set(stream),
            "index" => self.index(stream),
            "multi_map" => self.multi_map(stream, ValueOrder::Input),
            "multi_map_any" => self.multi_map(stream, ValueOrder::Any),
            "join" => self.join(stream),
            "update" => self.update(stream),
            "map128" => self.map128(stream),
            "set128" => self.set128(stream),
            _ => self.index128(stream),
        }
    }
    /// Returns whether each pair's key has this value, by group.
    fn are_right(
        &self,
        found: &[Option<u32>],
        value: impl Fn((u32, u32, u32)) -> u32 + Sync,
    ) -> bool {
        let right = |(found, &rank): (&Option<u32>, &u32)| {
            *found == Some(value(self.groups[rank as usize]))
        };
        found.len() == self.n() && found.par_iter().zip(&self.ranks).all(right)
    }

    fn map(&self, stream: &Stream, duplicates: Duplicates) -> Result<(Times, bool)> {
        let options = MapOptions::default().with_duplicates(duplicates);
        let mut builder = MapBuilder::new(stream.device(), options)?;
        let mut map = builder.build(stream, self.keys.view(), self.values.view())?;
        let times = times(stream, || {
            builder.rebuild(&mut map, stream, self.keys.view(), self.values.view())
        })?;
        let keep_first = duplicates == Duplicates::KeepFirst;
        let found = map.get(&self.host)?;
        let right =
            self.are_right(&found, |(_, first, last)| if keep_first { first } else { last });
        Ok((times, right && map.len()? == self.distinct))
    }
    fn set(&self, stream: &Stream) -> Result<(Times, bool)> {
        let mut builder = SetBuilder::new(stream.device(), SetOptions::default())?;
        let mut set = builder.build(stream, self.keys.view())?;
        let times = times(stream, || builder.rebuild(&mut set, stream, self.keys.view()))?;
        let holds_all = set.count(&self.host)? == self.n() as u64;
        Ok((times, holds_all && set.len()? == self.distinct))
    }
    fn index(&self, stream: &Stream) -> Result<(Times, bool)> {
        let mut builder = IndexBuilder::new(stream.device(), IndexOptions::default())?;
        let mut index = None;
        let times = times(stream, || {
            index = None;
            index = Some(builder.build(stream, self.keys.view())?);
            Ok(())
        })?;
        let Some(index) = index else { unreachable!("it has been built") };
        let (ids, keys) = (index.ids(&self.host)?, index.keys_view().download()?);
        let right =
            |(id, key): (&Option<u32>, &u32)| id.is_some_and(|id| keys[id as usize] == *key);
        let right = ids.par_iter().zip(&self.host).all(right);
        Ok((times, right && index.len() == self.distinct))
    }
    fn multi_map(&self, stream: &Stream, order: ValueOrder) -> Result<(Times, bool)> {
        let options = MultiMapOptions::default().with_order(order);
        let mut builder = MultiMapBuilder::new(stream.device(), options)?;
        let mut map = None;
        let times = times(stream, || {
            map = None;
            map = Some(builder.build(stream, self.keys.view(), self.values.view())?);
            Ok(())
        })?;
        let Some(map) = map else { unreachable!("it has been built") };
        let present = (0..self.n()).into_par_iter().filter(|&rank| self.groups[rank].0 > 0);
        let present = present.map(|rank| rank as u32).collect::<Vec<_>>();
        let queries = present.iter().map(|&rank| key(rank)).collect::<Vec<_>>();
        let found = map.retrieve(&queries)?;
        let right = present.par_iter().enumerate().all(|(i, &rank)| {
            let mut values = found.of(i).to_vec();
            if order == ValueOrder::Any {
                values.sort_unstable();
            }
            values.len() == self.groups[rank as usize].0 as usize
                && values.is_sorted_by(|a, b| a < b)
                && values.iter().all(|&value| self.ranks[value as usize] == rank)
        });
        Ok((times, right && map.len() == self.n()))
    }
    fn join(&self, stream: &Stream) -> Result<(Times, bool)> {
        let (device, n) = (stream.device(), self.n());
        let all = (0..n as u32).collect::<Vec<_>>();
        let keys = device.upload(&all.par_iter().map(|&rank| key(rank)).collect::<Vec<_>>())?;
        let of_ranks = device.upload(&all)?;
        let map = MapBuilder::new(device, MapOptions::default())?.build(
            stream,
            keys.view(),
            of_ranks.view(),
        )?;
        let mut joiner = MapJoiner::new(device)?;
        let (mut numbers, mut values) = (device.alloc::<u32>(n)?, device.alloc::<u32>(n)?);
        let mut count = device.alloc::<u64>(1)?;
        let times = times(stream, || {
            let (numbers, values) = (numbers.view_mut(), values.view_mut());
            joiner.join_into(stream, &map, self.keys.view(), numbers, values, count.view_mut())
        })?;
        let (mut numbers, values) = (numbers.download()?, values.download()?);
        let right = |(&i, &rank): (&u32, &u32)| self.ranks.get(i as usize) == Some(&rank);
        let right = numbers.par_iter().zip(&values).all(right);
        numbers.par_sort_unstable();
        Ok((times, right && count.download()? == [n as u64] && numbers == all))
    }
    /// The first sixteenth of the pairs, into a map of as many other keys as there are pairs.
    fn update(&self, stream: &Stream) -> Result<(Times, bool)> {
        let (device, n, batch) = (stream.device(), self.n(), self.n() / 16);
        let others = (n as u32..2 * n as u32).into_par_iter().map(key).collect::<Vec<_>>();
        let others = device.upload(&others)?;
        let options = MapOptions::default();
        let mut builder = MapBuilder::new(device, options)?;
        let mut map = builder.build(stream, others.view(), self.values.view())?;
        let mut updater = MapUpdater::new(device, options)?;
        let (keys, values) = (self.keys.view().slice(..batch)?, self.values.view().slice(..batch)?);
        let mut outcomes = device.alloc::<u8>(batch)?;
        let assign = Operations::All(Operation::InsertOrAssign);
        let mut of_runs = vec![];
        for _ in 0..RUNS + 2 {
            builder.rebuild(&mut map, stream, others.view(), self.values.view())?;
            let run =
                || updater.enqueue(&mut map, stream, assign, keys, values, outcomes.view_mut());
            of_runs.push(time(stream, run)?);
        }
        let mut last = vec![None; n];
        (0..).zip(&self.ranks[..batch]).for_each(|(i, &rank)| last[rank as usize] = Some(i));
        let found = map.get(&self.host[..batch])?;
        let right = found.par_iter().zip(&self.ranks).all(|(f, &rank)| *f == last[rank as usize]);
        let distinct = last.iter().flatten().count();
        Ok((medians(stream, of_runs.split_off(2)), right && map.len()? == n + distinct))
    }
    fn keys128(&self) -> Vec<u128> {
        self.ranks.par_iter().map(|&rank| key128(rank)).collect()
    }
    fn map128(&self, stream: &Stream) -> Result<(Times, bool)> {
        let (device, host) = (stream.device(), self.keys128());
        let keys = device.upload(&host)?;
        let mut builder = Map128Builder::new(device, MapOptions::default())?;
        let mut map = builder.build(stream, keys.view(), self.values.view())?;
        let times =
            times(stream, || builder.rebuild(&mut map, stream, keys.view(), self.values.view()))?;
        let right = self.are_right(&map.get(&host)?, |(_, _, last)| last);
        Ok((times, right && map.len() == self.distinct))
    }
    fn set128(&self, stream: &Stream) -> Result<(Times, bool)> {
        let (device, host) = (stream.device(), self.keys128());
        let keys = device.upload(&host)?;
        let mut builder = Set128Builder::new(device, SetOptions::default())?;
        let mut set = builder.build(stream, keys.view())?;
        let times = times(stream, || builder.rebuild(&mut set, stream, keys.view()))?;
        Ok((times, set.count(&host)? == self.n() as u64 && set.len() == self.distinct))
    }
    /// Ids are in the order of the first pairs.
    fn index128(&self, stream: &Stream) -> Result<(Times, bool)> {
        let (device, host) = (stream.device(), self.keys128());
        let keys = device.upload(&host)?;
        let mut builder = IndexBuilder::new(device, IndexOptions::default())?;
        let mut index = builder.build(stream, keys.view())?;
        let times = times(stream, || builder.rebuild(&mut index, stream, keys.view()))?;
        let mut order = (0..self.n()).filter(|&i| {
            let (_, first, _) = self.groups[self.ranks[i] as usize];
            first as usize == i
        });
        let mut id_of = vec![0; self.n()];
        (0..).zip(&mut order).for_each(|(id, i)| id_of[self.ranks[i] as usize] = id);
        let ids = index.ids(&host)?;
        let right = |(id, &rank): (&Option<u32>, &u32)| *id == Some(id_of[rank as usize]);
        let right = ids.par_iter().zip(&self.ranks).all(right);
        Ok((times, right && index.len() == self.distinct))
    }
}
