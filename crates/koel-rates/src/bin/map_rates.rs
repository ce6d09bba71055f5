//! Rates of [`Map`] on this machine's best device, with the machine's own limits: one JSON line
//! each.
//!
//! ```text
//! cargo run --release -p koel-rates --bin map_rates -- \
//!     2^22 2^24 load=0.8 policy=unchecked,keep_last
//! ```
//!
//! `gps`: 10^9 pairs or keys per second, the median of 7 runs after 2 warm-up runs. A build inserts
//! pairs that are on the device into an existing map (`rebuild`); `cpu_us`: CPU time of the process
//! for a build, the mean of all 9 runs. `verified`: in one lookup of
//! every key, every answer equals the host's; for joins, every row. `of_limit`: the rate divided by
//! that of random 32-byte reads from as much memory, in the same run. `keys=`: a list of
//! [arrangements](ranks). `only=build`: builds alone.
use koel::limits;
use koel::types::{KeyBits, ValueBits};
use koel::{
    Buffer, BuildReport, Device, Duplicates, Error, Map, MapBuilder, MapJoiner, MapOptions, Result,
    Stream,
};
use koel_kernels::hash::mix::splitmix_at;
use koel_rates::{
    RUNS, Row, cpu_seconds, decimals, median, median_of, print_copies, print_provenance, rate,
    rate_of_limit, row, size,
};
use koel_testing::arrangements::ranks;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

fn main() -> Result<()> {
    let mut settings = Settings {
        sizes: vec![],
        loads: vec![0.8],
        keys: vec!["unique"],
        lookups: true,
        policies: vec![("unchecked", Duplicates::Unchecked), ("keep_last", Duplicates::KeepLast)],
    };
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    for arg in &args {
        match arg.split_once('=') {
            Some(("load", list)) => {
                settings.loads = list
                    .split(',')
                    .map(|l| l.parse().map_err(|_| wrong(arg)))
                    .collect::<Result<_>>()?;
            }
            Some(("keys", list)) => settings.keys = list.split(',').collect(),
            Some(("policy", list)) => {
                settings.policies.retain(|(name, _)| list.split(',').any(|l| l == *name))
            }
            _ if arg == "only=build" => settings.lookups = false,
            _ => settings.sizes.push(size(arg)?),
        }
    }
    if settings.sizes.is_empty() {
        settings.sizes = vec![1 << 22, 1 << 24];
    }
    let device = Device::best()?;
    eprintln!("{}", device.name());
    print_provenance(&device);
    let stream = device.stream()?;
    print_copies(&stream)?;
    for &n in &settings.sizes {
        for &keys in &settings.keys {
            match keys.strip_suffix("_u64") {
                Some(of) => rates::<u64>(&stream, n, of, &settings)?,
                None => rates::<u32>(&stream, n, keys, &settings)?,
            }
        }
    }
    Ok(())
}
struct Settings<'a> {
    sizes: Vec<usize>,
    loads: Vec<f64>,
    keys: Vec<&'a str>,
    /// Whether to measure lookups and joins, too.
    lookups: bool,
    policies: Vec<(&'static str, Duplicates)>,
}
fn wrong(arg: &str) -> Error {
    let expected = "2^k, only=build, or load=, keys= or policy= with a list".into();
    Error::Setting { field: "argument", found: arg.into(), expected }
}
/// Keys and values, distinct for distinct numbers.
trait Number: KeyBits + ValueBits {
    fn key(rank: u32) -> Self;
    fn value(i: u32) -> Self;
}
impl Number for u32 {
    fn key(rank: u32) -> u32 {
        let mut x = rank ^ 0x5BD1_E995;
        x = (x ^ x >> 16).wrapping_mul(0x7FEB_352D);
        x = (x ^ x >> 15).wrapping_mul(0x846C_A68B);
        x ^ x >> 16
    }
    fn value(i: u32) -> u32 {
        i
    }
}
impl Number for u64 {
    fn key(rank: u32) -> u64 {
        splitmix_at(0, rank)
    }
    fn value(i: u32) -> u64 {
        i as u64
    }
}
/// Names of arrangements of keys.
const EXPECTED: &str = "unique, twice, zipf, hot, equal, share<S>, near<D>x<S>, runs<L>, \
                        blocks<B>, concat<C>, sorted<S> or reversed<S>, with an optional suffix \
                        _u64";

/// Input pairs and their properties.
struct Pairs<'a, T: Number> {
    /// Name of the keys' distribution.
    name: &'a str,
    /// Number of pairs.
    n: usize,
    ranks: Vec<u32>,
    host_keys: Vec<T>,
    host_values: Vec<T>,
    /// Last pair of each key, counted from 1.
    last: Vec<AtomicU32>,
    /// Number of distinct keys.
    distinct: usize,
    keys: Buffer<T>,
    values: Buffer<T>,
    /// As many absent keys.
    absent: Buffer<T>,
}
impl<'a, T: Number> Pairs<'a, T> {
    fn new(device: &Device, n: usize, name: &'a str) -> Result<Self> {
        let ranks = ranks(n, name, T::key).ok_or_else(|| Error::Setting {
            field: "keys",
            found: name.into(),
            expected: EXPECTED.into(),
        })?;
        let host_keys = ranks.par_iter().map(|&r| T::key(r)).collect::<Vec<_>>();
        let last = (0..n).map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
        ranks.par_iter().enumerate().for_each(|(i, &r)| {
            last[r as usize].fetch_max(i as u32 + 1, Relaxed);
        });
        let distinct = last.par_iter().filter(|l| l.load(Relaxed) > 0).count();
        let host_values = (0..n as u32).into_par_iter().map(T::value).collect::<Vec<_>>();
        let (keys, values) = (device.upload(&host_keys)?, device.upload(&host_values)?);
        let absent = (n..2 * n).into_par_iter().map(|r| T::key(r as u32)).collect::<Vec<_>>();
        let absent = device.upload(&absent)?;
        Ok(Pairs { name, n, ranks, host_keys, host_values, last, distinct, keys, values, absent })
    }
    /// Returns the value that a map must hold for the key of pair `i`.
    fn right_value(&self, i: usize) -> T {
        T::value(self.last[self.ranks[i] as usize].load(Relaxed).wrapping_sub(1))
    }
    const BITS: usize = 8 * size_of::<T>();
}

fn rates<T: Number>(stream: &Stream, n: usize, keys: &str, settings: &Settings<'_>) -> Result<()> {
    let device = stream.device();
    let pairs = Pairs::<T>::new(device, n, keys)?;
    let mut found = Answers { values: device.alloc(n)?, found: device.alloc(n)? };
    for &load in &settings.loads {
        for &(policy, duplicates) in &settings.policies {
            if duplicates == Duplicates::Unchecked && pairs.distinct < n {
                continue;
            }
            let mut builder = MapBuilder::new(
                device,
                MapOptions::default().with_load(load).with_duplicates(duplicates),
            )?;
            let mut map = builder.build(stream, pairs.keys.view(), pairs.values.view())?;
            let before = cpu_seconds();
            let build = median(stream, || {
                builder.rebuild(&mut map, stream, pairs.keys.view(), pairs.values.view())
            })?;
            let cpu = (cpu_seconds() - before) / (RUNS + 2) as f64;
            let report = map.report()?;
            let verified = found.verify(&map, stream, &pairs)? && report.entries == pairs.distinct;
            report_build(&pairs, policy, load, (build, cpu), verified, &report);
            if !settings.lookups {
                continue;
            }
            let limit = limits::random_reads(stream, report.bytes, RUNS)?.rates.median;
            let run = Run { stream, pairs: &pairs, load, limit };
            run.lookups(&map, &mut found, verified)?;
            run.joins(&map)?;
            // Where launch overhead matters: both as graphs.
            if n <= 1 << 20 {
                run.graphs(builder, map)?;
            }
        }
    }
    Ok(())
}
fn report_build<T: Number>(
    pairs: &Pairs<'_, T>,
    policy: &str,
    load: f64,
    (seconds, cpu): (f64, f64),
    verified: bool,
    report: &BuildReport,
) {
    let (keys, n, width) = (pairs.name, pairs.n, Pairs::<T>::BITS);
    row![
        ("op", "build"),
        ("keys", keys),
        ("bits", width),
        ("policy", policy),
        ("load", load),
        ("n", n)
    ]
    .and(&rate(n, seconds))
    .and(&row![
        ("cpu_us", decimals(cpu * 1e6, 1)),
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

/// State that the measurements of one map share.
struct Run<'a, T: Number> {
    stream: &'a Stream,
    pairs: &'a Pairs<'a, T>,
    load: f64,
    /// Random 32-byte reads per second.
    limit: f64,
}
impl<T: Number> Run<'_, T> {
    /// Returns the row of an operation on all queries.
    fn row(&self, op: &str, seconds: f64, verified: bool) -> Row {
        let (pairs, n) = (self.pairs, self.pairs.n);
        row![
            ("op", op),
            ("keys", pairs.name),
            ("bits", Pairs::<T>::BITS),
            ("load", self.load),
            ("n", n)
        ]
        .and(&rate_of_limit(n, seconds, self.limit))
        .and(&row![("verified", verified)])
    }
    fn lookups(&self, map: &Map<T, T>, found: &mut Answers<T>, verified: bool) -> Result<()> {
        let Run { stream, pairs, .. } = *self;
        let lookups = [
            ("find", &pairs.keys),
            ("find", &pairs.absent),
            ("values", &pairs.keys),
            ("values", &pairs.absent),
        ];
        for (op, queries) in lookups {
            let seconds = median(stream, || match op {
                "find" => found.of(map, stream, queries),
                _ => map.get_or_into(stream, queries.view(), found.values.view_mut(), T::value(0)),
            })?;
            let op = format!(
                "{op}_{}",
                if std::ptr::eq(queries, &pairs.keys) { "present" } else { "absent" }
            );
            self.row(&op, seconds, verified).print();
        }
        Ok(())
    }
    fn joins(&self, map: &Map<T, T>) -> Result<()> {
        let Run { stream, pairs, .. } = *self;
        let mut rows = Rows::new(stream.device(), pairs.n)?;
        let joins =
            [("join", &pairs.keys), ("join_absent", &pairs.absent), ("semi_join", &pairs.keys)];
        for (op, queries) in joins {
            let seconds = median(stream, || rows.of(op, map, stream, queries))?;
            let verified = rows.are_right(op, &pairs.host_keys, |i| pairs.right_value(i))?;
            self.row(op, seconds, verified)
                .and(&row![("scratch_bytes", rows.joiner.scratch_bytes())])
                .print();
        }
        Ok(())
    }
    /// Measures a rebuild and lookups as graphs.
    fn graphs(&self, builder: MapBuilder<T, T>, map: Map<T, T>) -> Result<()> {
        let Run { stream, pairs, load, .. } = *self;
        let (device, n) = (stream.device(), pairs.n);
        let state = (
            builder,
            map,
            device.upload(&pairs.host_keys)?,
            device.upload(&pairs.host_values)?,
            device.alloc::<T>(n)?,
        );
        let mut build = stream.capture(state, |stream, (builder, map, keys, values, _)| {
            builder.rebuild(map, stream, keys.view(), values.view())
        })?;
        report_graph("graph_build", pairs.name, n, load, stream, || build.launch(stream))?;
        let mut find = stream.capture(build.into_state(), |stream, (_, map, keys, _, found)| {
            map.get_or_into(stream, keys.view(), found.view_mut(), T::value(0))
        })?;
        report_graph("graph_values", pairs.name, n, load, stream, || find.launch(stream))
    }
}
/// Prints the times of a graph. `us`: on the device; `us_to_end`: by wall clock, until the host
/// observes completion.
fn report_graph(
    op: &str,
    keys: &str,
    n: usize,
    load: f64,
    stream: &Stream,
    mut launch: impl FnMut() -> Result<()>,
) -> Result<()> {
    let seconds = median(stream, &mut launch)?;
    let to_end = median_of(|| {
        let start = Instant::now();
        launch()?;
        stream.synchronize()?;
        Ok(start.elapsed().as_secs_f64())
    })?;
    row![
        ("op", op),
        ("keys", keys),
        ("load", load),
        ("n", n),
        ("us", decimals(seconds * 1e6, 1)),
        ("us_to_end", decimals(to_end * 1e6, 1))
    ]
    .print();
    Ok(())
}
struct Answers<T: Number> {
    values: Buffer<T>,
    found: Buffer<u8>,
}
impl<T: Number> Answers<T> {
    fn of(&mut self, map: &Map<T, T>, stream: &Stream, queries: &Buffer<T>) -> Result<()> {
        map.get_into(stream, queries.view(), self.values.view_mut(), self.found.view_mut())
    }
    /// Returns whether every key is found with its right value and no absent key is found.
    fn verify(&mut self, map: &Map<T, T>, stream: &Stream, pairs: &Pairs<'_, T>) -> Result<bool> {
        self.of(map, stream, &pairs.keys)?;
        let (answers, flags) = (self.values.download()?, self.found.download()?);
        let right = |i: usize| flags[i] == 1 && answers[i] == pairs.right_value(i);
        self.of(map, stream, &pairs.absent)?;
        let all_found = (0..pairs.n).into_par_iter().all(right);
        Ok(all_found && self.found.download()?.par_iter().all(|&f| f == 0))
    }
}
/// Output of joins.
struct Rows<T: Number> {
    joiner: MapJoiner<T, T>,
    numbers: Buffer<u32>,
    /// Values, or for a semi-join the keys.
    values: Buffer<T>,
    count: Buffer<u64>,
}
impl<T: Number> Rows<T> {
    fn new(device: &Device, n: usize) -> Result<Rows<T>> {
        let joiner = MapJoiner::new(device)?;
        Ok(Rows {
            joiner,
            numbers: device.alloc(n)?,
            values: device.alloc(n)?,
            count: device.alloc(1)?,
        })
    }
    fn of(
        &mut self,
        op: &str,
        map: &Map<T, T>,
        stream: &Stream,
        queries: &Buffer<T>,
    ) -> Result<()> {
        let (queries, values, count) =
            (queries.view(), self.values.view_mut(), self.count.view_mut());
        match op {
            "semi_join" => self.joiner.semi_join_into(stream, map, queries, values, count),
            _ => {
                self.joiner.join_into(stream, map, queries, self.numbers.view_mut(), values, count)
            }
        }
    }
    /// Returns whether each query has its row; `value(i)` is the right value of query `i`.
    fn are_right(
        &self,
        op: &str,
        queries: &[T],
        value: impl Fn(usize) -> T + Sync,
    ) -> Result<bool> {
        let rows = self.count.download()?[0] as usize;
        if op == "join_absent" {
            return Ok(rows == 0);
        }
        let mut values = self.values.download()?;
        if op == "semi_join" {
            let mut queries = queries.to_vec();
            values.par_sort_unstable();
            queries.par_sort_unstable();
            return Ok(rows == queries.len() && values == queries);
        }
        let numbers = self.numbers.download()?;
        let seen = queries.iter().map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
        let right = |(&i, &v): (&u32, &T)| {
            v == value(i as usize) && seen[i as usize].fetch_add(1, Relaxed) == 0
        };
        Ok(rows == queries.len() && numbers.par_iter().zip(&values).all(right))
    }
}
