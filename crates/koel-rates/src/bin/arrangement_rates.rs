//! Rates of the tables other than maps whose input has equal keys, by their [`Arrangement`]: one
//! JSON line each.
//!
//! ```text
//! cargo run --release -p koel-rates --bin arrangement_rates -- \
//!     2^24 keys=near1x0.01,sorted0.1,runs100 tables=set,multi_map
//! ```
//!
//! `gps`: 10^9 pairs or keys per second, the median of 7 runs after 2 warm-up runs; `cpu_us`: the
//! median of the CPU times of these runs. `of_unique`: the time of distinct keys, measured just
//! before, divided by that of these; on a CPU, of CPU times. `verified`: every answer equals the
//! host's. Tables:
//!
//! * `set`, `set128`: rebuilds;
//! * `index`, `index128`: builds;
//! * `multi_map`, `multi_map_any`: builds, with the values of a key in input order or in any;
//! * `join`: the keys look for rows in a map of all of them;
//! * `update`: a sixteenth as many pairs are inserted or assigned into a map of `n` other keys.
use koel::keys128::Set128Builder;
use koel::map::{Operation, Operations};
use koel::{
    Buffer, Device, DeviceKind, IndexBuilder, IndexOptions, MapBuilder, MapJoiner, MapOptions,
    MapUpdater, MultiMapBuilder, MultiMapOptions, Result, SetBuilder, SetOptions, Stream,
    ValueOrder,
};
use koel_rates::{
    Arguments, Arrangement, NumberedKey, RUNS, Times, both_clocks, built, decimals, on_both_clocks,
    rate, repeat, row,
};
use rayon::prelude::*;

const TABLES: [&str; 8] =
    ["set", "index", "multi_map", "multi_map_any", "join", "update", "set128", "index128"];
const ARRANGEMENTS: &str = "near1x0.01,near1x0.2,near100x0.2,near10000x0.2,runs2,runs100,\
    runs10000,sorted0.1,reversed0.1,blocks10000,concat2,concat8,share0.1,zipf,hot,equal";

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let known = |of: &[&'static str], name: &str| of.iter().copied().find(|one| *one == name);
    let tables = args.list("tables", &TABLES.join(","), |name| known(&TABLES, name))?;
    let arrangements = args.list("keys", ARRANGEMENTS, |name| {
        Some((name.to_string(), name.parse::<Arrangement>().ok()?))
    })?;
    let device = args.device()?;
    let stream = device.stream()?;
    for n in args.sizes(&[])? {
        let unique = Input::new(&device, "unique", Arrangement::Unique, n)?;
        for table in &tables {
            unique.tell(&stream, table, None)?;
        }
        for (name, arrangement) in &arrangements {
            let input = Input::new(&device, name, *arrangement, n)?;
            for table in &tables {
                let (limit, _) = unique.run(&stream, table)?;
                input.tell(&stream, table, Some(limit))?;
            }
        }
    }
    Ok(())
}

/// Times of some runs, and their CPU times.
type BothTimes = [Times; 2];

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
    fn new(
        device: &Device,
        name: &'a str,
        arrangement: Arrangement,
        n: usize,
    ) -> Result<Input<'a>> {
        let ranks = arrangement.ranks(n, 0, u32::numbered);
        let mut groups = vec![(0, u32::MAX, 0); n];
        for (i, &rank) in (0..).zip(&ranks) {
            let group = &mut groups[rank as usize];
            *group = (group.0 + 1, group.1.min(i), i);
        }
        let host = ranks.par_iter().map(|&rank| u32::numbered(rank)).collect::<Vec<_>>();
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
    fn tell(&self, stream: &Stream, table: &str, unique: Option<BothTimes>) -> Result<()> {
        let count = if table == "update" { self.n() / 16 } else { self.n() };
        let (times, verified) = self.run(stream, table)?;
        let on_cpu = stream.device().kind() == DeviceKind::Cpu;
        let compared = |times: BothTimes| times[usize::from(on_cpu)].median;
        let of_unique = unique.map_or(1.0, |unique| compared(unique) / compared(times));
        row![
            ("op", table),
            ("keys", self.name),
            ("n", self.n()),
            ("count", count),
            ("distinct", self.distinct)
        ]
        .and(&rate(count, times[0]))
        .and(&row![
            ("cpu_us", on_cpu.then(|| decimals(times[1].median * 1e6, 1))),
            ("of_unique", decimals(of_unique, 3)),
            ("verified", verified)
        ])
        .print();
        Ok(())
    }
    /// Measures a table. Returns the times, and whether all answers are right.
    fn run(&self, stream: &Stream, table: &str) -> Result<(BothTimes, bool)> {
        match table {
            "set" => self.set(stream),
            "index" => self.index(stream),
            "multi_map" => self.multi_map(stream, ValueOrder::Input),
            "multi_map_any" => self.multi_map(stream, ValueOrder::Any),
            "join" => self.join(stream),
            "update" => self.update(stream),
            "set128" => self.set128(stream),
            _ => self.index128(stream),
        }
    }
    fn set(&self, stream: &Stream) -> Result<(BothTimes, bool)> {
        let mut builder = SetBuilder::new(stream.device(), SetOptions::default())?;
        let mut set = builder.build(stream, self.keys.view())?;
        let times = on_both_clocks(stream, || builder.rebuild(&mut set, stream, self.keys.view()))?;
        let holds_all = set.count(&self.host)? == self.n() as u64;
        Ok((times, holds_all && set.len()? == self.distinct))
    }
    fn index(&self, stream: &Stream) -> Result<(BothTimes, bool)> {
        let mut builder = IndexBuilder::new(stream.device(), IndexOptions::default())?;
        let (index, times) = built(stream, || builder.build(stream, self.keys.view()))?;
        let (ids, keys) = (index.ids(&self.host)?, index.keys_view().download()?);
        let right =
            |(id, key): (&Option<u32>, &u32)| id.is_some_and(|id| keys[id as usize] == *key);
        let right = ids.par_iter().zip(&self.host).all(right);
        Ok((times, right && index.len() == self.distinct))
    }
    fn multi_map(&self, stream: &Stream, order: ValueOrder) -> Result<(BothTimes, bool)> {
        let options = MultiMapOptions::default().with_order(order);
        let mut builder = MultiMapBuilder::new(stream.device(), options)?;
        let (map, times) =
            built(stream, || builder.build(stream, self.keys.view(), self.values.view()))?;
        let present = (0..self.n()).into_par_iter().filter(|&rank| self.groups[rank].0 > 0);
        let present = present.map(|rank| rank as u32).collect::<Vec<_>>();
        let queries = present.iter().map(|&rank| u32::numbered(rank)).collect::<Vec<_>>();
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
    fn join(&self, stream: &Stream) -> Result<(BothTimes, bool)> {
        let (device, n) = (stream.device(), self.n());
        let all = (0..n as u32).collect::<Vec<_>>();
        let keys =
            device.upload(&all.par_iter().map(|&rank| u32::numbered(rank)).collect::<Vec<_>>())?;
        let of_ranks = device.upload(&all)?;
        let map = MapBuilder::new(device, MapOptions::default())?.build(
            stream,
            keys.view(),
            of_ranks.view(),
        )?;
        let mut joiner = MapJoiner::new(device)?;
        let (mut numbers, mut values) = (device.alloc::<u32>(n)?, device.alloc::<u32>(n)?);
        let mut count = device.alloc::<u64>(1)?;
        let times = on_both_clocks(stream, || {
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
    fn update(&self, stream: &Stream) -> Result<(BothTimes, bool)> {
        let (device, n, batch) = (stream.device(), self.n(), self.n() / 16);
        let others =
            (n as u32..2 * n as u32).into_par_iter().map(u32::numbered).collect::<Vec<_>>();
        let others = device.upload(&others)?;
        let options = MapOptions::default();
        let mut builder = MapBuilder::new(device, options)?;
        let mut map = builder.build(stream, others.view(), self.values.view())?;
        let mut updater = MapUpdater::new(device, options)?;
        let (keys, values) = (self.keys.view().slice(..batch)?, self.values.view().slice(..batch)?);
        let mut outcomes = device.alloc::<u8>(batch)?;
        let assign = Operations::All(Operation::InsertOrAssign);
        let times = repeat(RUNS, || {
            builder.rebuild(&mut map, stream, others.view(), self.values.view())?;
            let run =
                || updater.enqueue(&mut map, stream, assign, keys, values, outcomes.view_mut());
            both_clocks(stream, run)
        })?;
        let mut last = vec![None; n];
        (0..).zip(&self.ranks[..batch]).for_each(|(i, &rank)| last[rank as usize] = Some(i));
        let found = map.get(&self.host[..batch])?;
        let right = found.par_iter().zip(&self.ranks).all(|(f, &rank)| *f == last[rank as usize]);
        let distinct = last.iter().flatten().count();
        Ok((times, right && map.len()? == n + distinct))
    }
    fn keys128(&self) -> Vec<u128> {
        self.ranks.par_iter().map(|&rank| u128::numbered(rank)).collect()
    }
    fn set128(&self, stream: &Stream) -> Result<(BothTimes, bool)> {
        let (device, host) = (stream.device(), self.keys128());
        let keys = device.upload(&host)?;
        let mut builder = Set128Builder::new(device, SetOptions::default())?;
        let mut set = builder.build(stream, keys.view())?;
        let times = on_both_clocks(stream, || builder.rebuild(&mut set, stream, keys.view()))?;
        Ok((times, set.count(&host)? == self.n() as u64 && set.len() == self.distinct))
    }
    /// Ids are in the order of the first pairs.
    fn index128(&self, stream: &Stream) -> Result<(BothTimes, bool)> {
        let (device, host) = (stream.device(), self.keys128());
        let keys = device.upload(&host)?;
        let mut builder = IndexBuilder::new(device, IndexOptions::default())?;
        let mut index = builder.build(stream, keys.view())?;
        let times = on_both_clocks(stream, || builder.rebuild(&mut index, stream, keys.view()))?;
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
