//! Rates of [`Map`] on this machine's best device, with the machine's own limits: one JSON line
//! each.
//!
//! ```text
//! cargo run --release -p koel-rates --bin map_rates -- \
//!     2^22 2^24 load=0.8 keys=unique,zipf_u64 policy=unchecked,keep_last
//! ```
//!
//! `gps`: 10^9 pairs or keys per second, the median of 7 runs after 2 warm-up runs. A build inserts
//! pairs that are on the device into an existing map (`rebuild`); `cpu_us`: its CPU time.
//! `verified`: in one lookup of every key, every answer equals the host's; for joins, every row.
//! `of_limit`: the rate divided by that of random 32-byte reads from as much memory, in the same
//! run; a lookup of a present key of 128 bits takes 4.13 such reads. `keys=`: a list of
//! [arrangements](Arrangement). With `_u64` after them, keys and values have 64 bits instead of 32;
//! with `_u128`, keys have 128 bits and values 32, then 64, which is `bits` in rows `map128_...`.
//! `only=build`: builds alone.
use koel::limits;
use koel::{
    Buffer, BuildReport, Device, DeviceKey, DeviceValue, Duplicates, Map, MapBuilder, MapJoiner,
    MapOptions, Result, Stream,
};
use koel_rates::{
    Arguments, Arrangement, NumberedKey, RUNS, Row, Times, decimals, keys, on_both_clocks,
    on_clock, on_stream, print_copies, rate, rate_of_limit, row,
};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let loads = args.list("load", "0.8", |load| load.parse().ok())?;
    let keys = args.list("keys", "unique", |name| {
        let known =
            |(suffix, width): &(&'static str, Width)| Some((name.strip_suffix(suffix)?, *width));
        let (of, width) = WIDTHS.iter().find_map(known)?;
        Some((of.to_string(), of.parse().ok()?, width))
    })?;
    let policies = args.list("policy", "unchecked,keep_last", |name| {
        POLICIES.into_iter().find(|(policy, _)| *policy == name)
    })?;
    let lookups = !args.has("only=build");
    let stream = args.device()?.stream()?;
    print_copies(&stream)?;
    let settings = Settings { loads, lookups, policies };
    for n in args.sizes(&[1 << 22, 1 << 24])? {
        for (name, arrangement, width) in &keys {
            let input = (name.as_str(), *arrangement);
            match width {
                Width::Both32 => rates::<u32, u32>(&stream, n, input, &settings)?,
                Width::Both64 => rates::<u64, u64>(&stream, n, input, &settings)?,
                Width::Keys128 => {
                    rates::<u128, u32>(&stream, n, input, &settings)?;
                    rates::<u128, u64>(&stream, n, input, &settings)?;
                }
            }
        }
    }
    Ok(())
}
struct Settings {
    loads: Vec<f64>,
    /// Whether to measure lookups and joins, too.
    lookups: bool,
    policies: Vec<(&'static str, Duplicates)>,
}
const POLICIES: [(&str, Duplicates); 3] = [
    ("unchecked", Duplicates::Unchecked),
    ("keep_last", Duplicates::KeepLast),
    ("keep_first", Duplicates::KeepFirst),
];
/// Keys and values of a map.
#[derive(Clone, Copy)]
enum Width {
    Both32,
    Both64,
    /// With values of 32 and of 64 bits.
    Keys128,
}
/// Suffixes of the names of keys.
const WIDTHS: [(&str, Width); 3] =
    [("_u64", Width::Both64), ("_u128", Width::Keys128), ("", Width::Both32)];

/// Keys of maps.
trait Key: DeviceKey + NumberedKey + Ord {}
impl<K: DeviceKey + NumberedKey + Ord> Key for K {}
/// Values of maps, distinct for distinct numbers.
trait Value: DeviceValue + Default + PartialEq {
    fn numbered(i: u32) -> Self;
}
impl Value for u32 {
    fn numbered(i: u32) -> u32 {
        i
    }
}
impl Value for u64 {
    fn numbered(i: u32) -> u64 {
        i.into()
    }
}

/// Input pairs and their properties.
struct Pairs<'a, K: Key, V: Value> {
    /// Name of the keys' arrangement.
    name: &'a str,
    /// Number of pairs.
    n: usize,
    ranks: Vec<u32>,
    host_keys: Vec<K>,
    host_values: Vec<V>,
    /// First and last pair of each key, the last counted from 1.
    ends: [Vec<AtomicU32>; 2],
    /// Number of distinct keys.
    distinct: usize,
    keys: Buffer<K>,
    values: Buffer<V>,
    /// As many absent keys.
    absent: Buffer<K>,
}
impl<'a, K: Key, V: Value> Pairs<'a, K, V> {
    fn new(device: &Device, n: usize, (name, arrangement): (&'a str, Arrangement)) -> Result<Self> {
        let ranks = arrangement.ranks(n, 0, K::numbered);
        let host_keys = ranks.par_iter().map(|&r| K::numbered(r)).collect::<Vec<_>>();
        let ends = [u32::MAX, 0].map(|end| (0..n).map(|_| AtomicU32::new(end)).collect::<Vec<_>>());
        ranks.par_iter().enumerate().for_each(|(i, &r)| {
            ends[0][r as usize].fetch_min(i as u32, Relaxed);
            ends[1][r as usize].fetch_max(i as u32 + 1, Relaxed);
        });
        let distinct = ends[1].par_iter().filter(|l| l.load(Relaxed) > 0).count();
        let host_values = (0..n as u32).into_par_iter().map(V::numbered).collect::<Vec<_>>();
        let (keys_there, values) = (device.upload(&host_keys)?, device.upload(&host_values)?);
        let absent = device.upload(&keys(n..2 * n))?;
        let keys = keys_there;
        Ok(Pairs { name, n, ranks, host_keys, host_values, ends, distinct, keys, values, absent })
    }
    /// Returns the value that a map must hold for the key of pair `i`.
    fn right_value(&self, i: usize, policy: Duplicates) -> V {
        let end = |which: usize| self.ends[which][self.ranks[i] as usize].load(Relaxed);
        V::numbered(if policy == Duplicates::KeepFirst { end(0) } else { end(1) - 1 })
    }
    /// Returns the name of an operation on such a map.
    fn op(&self, name: &str) -> String {
        if size_of::<K>() == 16 { format!("map128_{name}") } else { name.into() }
    }
    const BITS: usize = 8 * size_of::<V>();
}

fn rates<K: Key, V: Value>(
    stream: &Stream,
    n: usize,
    keys: (&str, Arrangement),
    settings: &Settings,
) -> Result<()> {
    let device = stream.device();
    let pairs = Pairs::<K, V>::new(device, n, keys)?;
    let mut found = Answers { values: device.alloc(n)?, found: device.alloc(n)? };
    for &load in &settings.loads {
        for &(name, policy) in &settings.policies {
            if policy == Duplicates::Unchecked && pairs.distinct < n {
                continue;
            }
            let options = MapOptions::default().with_load(load).with_duplicates(policy);
            let mut builder = MapBuilder::new(device, options)?;
            let mut map = builder.build(stream, pairs.keys.view(), pairs.values.view())?;
            let build = on_both_clocks(stream, || {
                builder.rebuild(&mut map, stream, pairs.keys.view(), pairs.values.view())
            })?;
            let report = map.report()?;
            let verified =
                found.verify(&map, stream, &pairs, policy)? && report.entries == pairs.distinct;
            let run = Run { stream, pairs: &pairs, load, policy: (name, policy) };
            run.report_build(build, verified, &report);
            if !settings.lookups {
                continue;
            }
            let limit = limits::random_reads(stream, report.bytes, RUNS)?.rates.median;
            run.lookups(&map, &mut found, verified, limit)?;
            run.joins(&map, limit)?;
            // Where launch overhead matters: both as graphs, for which keys may have 64 bits.
            if n <= 1 << 20 && size_of::<K>() <= 8 {
                run.graphs(builder, map)?;
            }
        }
    }
    Ok(())
}
/// State that the measurements of one map share.
struct Run<'a, K: Key, V: Value> {
    stream: &'a Stream,
    pairs: &'a Pairs<'a, K, V>,
    load: f64,
    policy: (&'static str, Duplicates),
}
impl<K: Key, V: Value> Run<'_, K, V> {
    /// Returns the row of an operation, without its rates.
    fn row(&self, op: &str) -> Row {
        let pairs = self.pairs;
        row![
            ("op", pairs.op(op)),
            ("keys", pairs.name),
            ("bits", Pairs::<K, V>::BITS),
            ("policy", self.policy.0),
            ("load", self.load),
            ("n", pairs.n)
        ]
    }
    fn report_build(&self, [times, cpu]: [Times; 2], verified: bool, report: &BuildReport) {
        self.row("build")
            .and(&rate(self.pairs.n, times))
            .and(&row![
                ("cpu_us", decimals(cpu.median * 1e6, 1)),
                ("verified", verified),
                ("pairs", report.entries),
                ("stashed", report.stashed),
                ("overflowed", report.overflowed),
                ("contested", report.contested),
                ("attempts", report.attempts),
                ("bytes", report.bytes),
                ("scratch_bytes", report.scratch_bytes)
            ])
            .print();
    }
    fn lookups(
        &self,
        map: &Map<K, V>,
        found: &mut Answers<V>,
        verified: bool,
        limit: f64,
    ) -> Result<()> {
        let Run { stream, pairs, .. } = *self;
        for op in ["find", "values"] {
            for (which, queries) in [("present", &pairs.keys), ("absent", &pairs.absent)] {
                let times = on_stream(stream, || match op {
                    "find" => found.of(map, stream, queries),
                    _ => {
                        let to = found.values.view_mut();
                        map.get_or_into(stream, queries.view(), to, V::default())
                    }
                })?;
                self.row(&format!("{op}_{which}"))
                    .and(&rate_of_limit(pairs.n, times, limit))
                    .and(&row![("verified", verified)])
                    .print();
            }
        }
        Ok(())
    }
    fn joins(&self, map: &Map<K, V>, limit: f64) -> Result<()> {
        let Run { stream, pairs, .. } = *self;
        let mut rows = Rows::new(stream.device(), pairs.n)?;
        let joins =
            [("join", &pairs.keys), ("join_absent", &pairs.absent), ("semi_join", &pairs.keys)];
        for (op, queries) in joins {
            let times = on_stream(stream, || rows.of(op, map, stream, queries))?;
            let verified =
                rows.are_right(op, &pairs.host_keys, |i| pairs.right_value(i, self.policy.1))?;
            let scratch_bytes = rows.joiner.scratch_bytes();
            self.row(op)
                .and(&rate_of_limit(pairs.n, times, limit))
                .and(&row![("verified", verified), ("scratch_bytes", scratch_bytes)])
                .print();
        }
        Ok(())
    }
    /// Measures a rebuild and lookups as graphs.
    fn graphs(&self, builder: MapBuilder<K, V>, map: Map<K, V>) -> Result<()> {
        let Run { stream, pairs, .. } = *self;
        let (device, n) = (stream.device(), pairs.n);
        let state = (
            builder,
            map,
            device.upload(&pairs.host_keys)?,
            device.upload(&pairs.host_values)?,
            device.alloc::<V>(n)?,
        );
        let mut build = stream.capture(state, |stream, (builder, map, keys, values, _)| {
            builder.rebuild(map, stream, keys.view(), values.view())
        })?;
        self.report_graph("graph_build", || build.launch(stream))?;
        let mut find = stream.capture(build.into_state(), |stream, (_, map, keys, _, found)| {
            map.get_or_into(stream, keys.view(), found.view_mut(), V::default())
        })?;
        self.report_graph("graph_values", || find.launch(stream))
    }
    /// Prints the times of a graph. `us`: on the device; `us_to_end`: by wall clock, until the host
    /// observes completion.
    fn report_graph(&self, op: &str, mut launch: impl FnMut() -> Result<()>) -> Result<()> {
        let times = on_stream(self.stream, &mut launch)?;
        let to_end = on_clock(|| launch().and_then(|()| self.stream.synchronize()))?;
        let us_to_end = decimals(to_end.median * 1e6, 1);
        let us = decimals(times.median * 1e6, 1);
        self.row(op).and(&row![("us", us), ("us_to_end", us_to_end)]).print();
        Ok(())
    }
}
struct Answers<V: Value> {
    values: Buffer<V>,
    found: Buffer<u8>,
}
impl<V: Value> Answers<V> {
    fn of<K: Key>(&mut self, map: &Map<K, V>, stream: &Stream, queries: &Buffer<K>) -> Result<()> {
        map.get_into(stream, queries.view(), self.values.view_mut(), self.found.view_mut())
    }
    /// Returns whether every key is found with its right value and no absent key is found.
    fn verify<K: Key>(
        &mut self,
        map: &Map<K, V>,
        stream: &Stream,
        pairs: &Pairs<'_, K, V>,
        policy: Duplicates,
    ) -> Result<bool> {
        self.of(map, stream, &pairs.keys)?;
        let (answers, flags) = (self.values.download()?, self.found.download()?);
        let right = |i: usize| flags[i] == 1 && answers[i] == pairs.right_value(i, policy);
        self.of(map, stream, &pairs.absent)?;
        let all_found = (0..pairs.n).into_par_iter().all(right);
        Ok(all_found && self.found.download()?.par_iter().all(|&f| f == 0))
    }
}
/// Output of joins.
struct Rows<K: Key, V: Value> {
    joiner: MapJoiner<K, V>,
    numbers: Buffer<u32>,
    values: Buffer<V>,
    /// Keys of a semi-join.
    keys: Buffer<K>,
    count: Buffer<u64>,
}
impl<K: Key, V: Value> Rows<K, V> {
    fn new(device: &Device, n: usize) -> Result<Rows<K, V>> {
        let joiner = MapJoiner::new(device)?;
        Ok(Rows {
            joiner,
            numbers: device.alloc(n)?,
            values: device.alloc(n)?,
            keys: device.alloc(n)?,
            count: device.alloc(1)?,
        })
    }
    fn of(
        &mut self,
        op: &str,
        map: &Map<K, V>,
        stream: &Stream,
        queries: &Buffer<K>,
    ) -> Result<()> {
        let (queries, values, count) =
            (queries.view(), self.values.view_mut(), self.count.view_mut());
        match op {
            "semi_join" => {
                self.joiner.semi_join_into(stream, map, queries, self.keys.view_mut(), count)
            }
            _ => {
                self.joiner.join_into(stream, map, queries, self.numbers.view_mut(), values, count)
            }
        }
    }
    /// Returns whether each query has its row; `value(i)` is the right value of query `i`.
    fn are_right(
        &self,
        op: &str,
        queries: &[K],
        value: impl Fn(usize) -> V + Sync,
    ) -> Result<bool> {
        let rows = self.count.download()?[0] as usize;
        if op == "join_absent" {
            return Ok(rows == 0);
        }
        if op == "semi_join" {
            let (mut queries, mut keys) = (queries.to_vec(), self.keys.download()?);
            keys.par_sort_unstable();
            queries.par_sort_unstable();
            return Ok(rows == queries.len() && keys == queries);
        }
        let values = self.values.download()?;
        let numbers = self.numbers.download()?;
        let seen = queries.iter().map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
        let right = |(&i, &v): (&u32, &V)| {
            v == value(i as usize) && seen[i as usize].fetch_add(1, Relaxed) == 0
        };
        Ok(rows == queries.len() && numbers.par_iter().zip(&values).all(right))
    }
}
