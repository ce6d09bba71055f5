//! Regression benchmarks of the map: builds by policy, lookups, small batches and joins, on the CPU
//! and, if there is one, on a GPU.
//!
//!     cargo bench -p koel-rates --bench map -- [part of a name]
//!
//! Criterion compares with the previous run. The inputs are small enough for caches: `cpu_map` and
//! `koel bench` measure rates that are meaningful against the machine's limits. Times are device
//! times. One call of each operation is verified before it is measured.
use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use koel::{Buffer, Device, Duplicates, Map, MapBuilder, MapJoiner, MapOptions, Result, Stream};
use std::time::Duration;

/// Number of pairs.
const N: usize = 1 << 18;
/// Odd: queries follow its multiples, an order that defeats caches.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Bijection of the 32-bit words.
fn key(i: usize) -> u32 {
    let x = (i as u32 ^ i as u32 >> 16).wrapping_mul(0x7FEB_352D);
    let x = (x ^ x >> 15).wrapping_mul(0x846C_A68B);
    x ^ x >> 16
}

/// Device with pairs and queries on it.
struct Place {
    name: &'static str,
    stream: Stream,
    keys: Buffer<u32>,
    values: Buffer<u32>,
    /// All keys in another order, and as many absent keys.
    present: Buffer<u32>,
    absent: Buffer<u32>,
}
impl Place {
    fn new(name: &'static str, device: &Device) -> Result<Place> {
        let upload = |of: &dyn Fn(usize) -> u32| device.upload(&(0..N).map(of).collect::<Vec<_>>());
        Ok(Place {
            name,
            stream: device.stream()?,
            keys: upload(&key)?,
            values: upload(&|i| i as u32)?,
            present: upload(&|i| key(present(i)))?,
            absent: upload(&|i| key(N + i))?,
        })
    }
    fn device(&self) -> &Device {
        self.stream.device()
    }
    fn builder(&self, duplicates: Duplicates) -> Result<MapBuilder> {
        MapBuilder::new(self.device(), MapOptions::default().with_duplicates(duplicates))
    }
    fn map(&self, builder: &mut MapBuilder) -> Result<Map> {
        builder.build(&self.stream, self.keys.view(), self.values.view())
    }
    /// Measures a call with `elements` queries or pairs.
    fn bench(
        &self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        name: &str,
        elements: usize,
        mut call: impl FnMut(&Stream) -> Result<()>,
    ) {
        let stream = &self.stream;
        group.throughput(Throughput::Elements(elements as u64));
        group.bench_function(format!("{}/{name}", self.name), |bencher| {
            bencher.iter_custom(|iterations| {
                let seconds = stream.time(|| (0..iterations).try_for_each(|_| call(stream)));
                Duration::from_secs_f64(
                    seconds.map_or_else(|e| panic!("{name}: {e}"), |((), seconds)| seconds),
                )
            });
        });
    }
}
/// Returns the index of the pair that query `i` looks up.
fn present(i: usize) -> usize {
    (i as u64).wrapping_mul(STEP) as usize % N
}
/// Returns the CPU and, if there is one, a GPU.
fn places() -> Result<Vec<Place>> {
    let mut places = vec![Place::new("cpu", &Device::cpu()?)?];
    if let Ok(gpu) = Device::cuda(0) {
        places.push(Place::new("cuda", &gpu)?);
    }
    Ok(places)
}
fn or_panic<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|e| panic!("{e}"))
}
fn check_find(place: &Place, map: &Map) -> Result<()> {
    let n = place.present.len();
    let (mut values, mut found) = (place.device().alloc(n)?, place.device().alloc::<u8>(n)?);
    map.get_into(&place.stream, place.present.view(), values.view_mut(), found.view_mut())?;
    assert!(found.download()?.iter().all(|&f| f == 1), "{}: a key was not found", place.name);
    assert!(
        values.download()?.iter().enumerate().all(|(i, &v)| v == present(i) as u32),
        "{}",
        place.name
    );
    map.get_into(&place.stream, place.absent.view(), values.view_mut(), found.view_mut())?;
    assert!(found.download()?.iter().all(|&f| f == 0), "{}: an absent key was found", place.name);
    Ok(())
}

/// Builds into an existing map, by policy; without reused memory; with every key twice.
fn builds(place: &Place, group: &mut BenchmarkGroup<'_, WallTime>) -> Result<()> {
    let policies = [
        ("unchecked", Duplicates::Unchecked),
        ("keep_last", Duplicates::KeepLast),
        ("keep_first", Duplicates::KeepFirst),
    ];
    for (name, policy) in policies {
        let mut builder = place.builder(policy)?;
        let mut map = place.map(&mut builder)?;
        builder.rebuild(&mut map, &place.stream, place.keys.view(), place.values.view())?;
        check_find(place, &map)?;
        place.bench(group, name, N, |stream| {
            builder.rebuild(&mut map, stream, place.keys.view(), place.values.view())
        });
    }
    let twice = place.device().upload(&(0..N).map(|i| key(i % (N / 2))).collect::<Vec<_>>())?;
    let mut builder = place.builder(Duplicates::KeepLast)?;
    let mut map = builder.build(&place.stream, twice.view(), place.values.view())?;
    assert_eq!(map.get(&[key(5)])?, [Some((5 + N / 2) as u32)]);
    place.bench(group, "keep_last, every key twice", N, |stream| {
        builder.rebuild(&mut map, stream, twice.view(), place.values.view())
    });
    place.bench(group, "cold", N, |_| {
        place.builder(Duplicates::KeepLast).and_then(|mut b| place.map(&mut b)).map(drop)
    });
    Ok(())
}

/// Looks up all keys in one call, and a few keys per call.
fn finds(place: &Place, group: &mut BenchmarkGroup<'_, WallTime>) -> Result<()> {
    let map = place.map(&mut place.builder(Duplicates::KeepLast)?)?;
    check_find(place, &map)?;
    let (mut values, mut found) = (place.device().alloc(N)?, place.device().alloc(N)?);
    let hit_or_miss = [("hit", &place.present), ("miss", &place.absent)];
    for (name, queries) in hit_or_miss {
        place.bench(group, name, N, |stream| {
            map.get_into(stream, queries.view(), values.view_mut(), found.view_mut())
        });
    }
    for batch in [1, 16, 256, 4096] {
        // Each call looks up another part, because a repeated one would be in the cache.
        let mut start = 0;
        place.bench(group, &format!("hit, {batch} in a call"), batch, |stream| {
            let part = start..start + batch;
            start = (start + batch) % N;
            let answers = values.view_mut().slice(part.clone())?;
            map.get_into(
                stream,
                place.present.view().slice(part.clone())?,
                answers,
                found.view_mut().slice(part)?,
            )
        });
    }
    Ok(())
}

/// Joins with all keys present, and with none.
fn joins(place: &Place, group: &mut BenchmarkGroup<'_, WallTime>) -> Result<()> {
    let map = place.map(&mut place.builder(Duplicates::KeepLast)?)?;
    let device = place.device();
    let mut joiner = MapJoiner::new(device)?;
    let (mut numbers, mut values, mut count) =
        (device.alloc(N)?, device.alloc(N)?, device.alloc::<u64>(1)?);
    for (name, queries, rows) in [("present", &place.present, N), ("absent", &place.absent, 0)] {
        let mut join = |stream: &Stream, count: &mut Buffer<u64>| {
            let (to_numbers, to_values) = (numbers.view_mut(), values.view_mut());
            joiner.join_into(stream, &map, queries.view(), to_numbers, to_values, count.view_mut())
        };
        join(&place.stream, &mut count)?;
        assert_eq!(count.download()?, [rows as u64], "{}: rows of a join", place.name);
        place.bench(group, name, N, |stream| join(stream, &mut count));
    }
    Ok(())
}

fn map(criterion: &mut Criterion) {
    type Bench = fn(&Place, &mut BenchmarkGroup<'_, WallTime>) -> Result<()>;
    let benches: [(&str, Bench); 3] = [("build", builds), ("find", finds), ("join", joins)];
    let places = or_panic(places());
    for (name, bench) in benches {
        let mut group = criterion.benchmark_group(name);
        group.sampling_mode(SamplingMode::Flat);
        for place in &places {
            or_panic(bench(place, &mut group));
        }
        group.finish();
    }
}
criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = map
}
criterion_main!(benches);
