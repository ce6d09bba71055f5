//! Times of builds and updates with random keys and with keys crafted against the seed, in seconds:
//! one JSON line each.
//!
//!     cargo run --release -p koel-rates --bin chosen_keys -- [cpu|cuda] 10000 40000 160000 1000000
//!
//! Crafted keys share both buckets under the seed that the table is asked to use: 64-bit keys all
//! have one hash, 32-bit keys have the lowest hashes. `some`: 400 of them among random keys.
//! `ratio`, `some_ratio`: the time with these keys over the time with random keys, each the median
//! of 7 alternating runs after 2 warm-up runs, from the call until the device has finished. All
//! keys of every table are looked up.
use koel::map::layout::{Layout, Number};
use koel::types::KeyBits;
use koel::{
    Map, MapBuilder, MapOptions, MapUpdater, Operation, Operations, Result, SetBuilder, SetOptions,
    Stream,
};
use koel_kernels::hash::mix::splitmix_at;
use koel_rates::{Arguments, RUNS, decimals, digits, repeat, row, seconds_of};

const SEED: u32 = 7;
/// Number of crafted keys among random ones.
const SOME: usize = 400;
/// Keys per batch of updates.
const BATCH: usize = 10_000;

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let stream = args.device()?.stream()?;
    for n in args.sizes(&[10_000, 40_000, 160_000, 1_000_000])? {
        rates::<u32>(&stream, n)?;
        rates::<u64>(&stream, n)?;
    }
    Ok(())
}
type LayoutOf<K> = <K as KeyBits>::Layout<u32>;
fn random<K: KeyBits>(n: usize) -> Vec<K> {
    (0..n as u32).map(|i| K::narrowed(splitmix_at(1, i))).collect()
}
fn chosen<K: KeyBits>(n: usize) -> Vec<K> {
    let shift = LayoutOf::<K>::HASH_SHIFT;
    let mixed = |i: u32| {
        if shift > 0 { 0x1234_5678u64 << shift | splitmix_at(3, i) >> 32 } else { i.into() }
    };
    (0..n as u32).map(|i| LayoutOf::<K>::unmixed(SEED, Number::narrowed(mixed(i)))).collect()
}

fn rates<K: KeyBits>(stream: &Stream, n: usize) -> Result<()> {
    let some = [random::<K>(n - SOME.min(n)), chosen::<K>(SOME.min(n))].concat();
    let inputs = [random::<K>(n), chosen::<K>(n), some];
    let values = (0..n as u32).collect::<Vec<_>>();
    compare::<K>("map", n, &inputs, |keys| map(stream, keys, &values))?;
    compare::<K>("set", n, &inputs, |keys| set(stream, keys))?;
    compare::<K>("update", n, &inputs, |keys| update(stream, keys, &values))
}
/// Measures builds of each input.
fn compare<K: KeyBits>(
    op: &str,
    n: usize,
    inputs: &[Vec<K>; 3],
    mut run: impl FnMut(&[K]) -> Result<(f64, u32)>,
) -> Result<()> {
    let mut attempts = [0; 3];
    let times = repeat(RUNS, || {
        let mut seconds = [0.0; 3];
        for (i, keys) in inputs.iter().enumerate() {
            (seconds[i], attempts[i]) = run(keys)?;
        }
        Result::Ok(seconds)
    })?;
    let [random, chosen, some] = times.map(|times| times.median);
    let key_bits = size_of::<K>() * 8;
    row![
        ("op", op),
        ("key_bits", key_bits),
        ("n", n),
        ("random_s", digits(random, 4)),
        ("chosen_s", digits(chosen, 4)),
        ("ratio", decimals(chosen / random, 2)),
        ("some_s", digits(some, 4)),
        ("some_ratio", decimals(some / random, 2)),
        ("attempts", attempts)
    ]
    .print();
    Ok(())
}
/// Returns the table of a call, and the seconds until the device has finished it.
fn finished<T>(stream: &Stream, build: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    seconds_of(|| {
        let table = build()?;
        stream.synchronize().map(|()| table)
    })
}
fn check(found: u64, input: &[impl KeyBits]) {
    assert_eq!(found, input.len() as u64, "keys are missing");
}
fn map<K: KeyBits>(stream: &Stream, input: &[K], values: &[u32]) -> Result<(f64, u32)> {
    let options = MapOptions::default().with_seed(SEED);
    let mut builder = MapBuilder::new(stream.device(), options)?;
    let (keys, values) = (stream.device().stage(input)?, stream.device().stage(values)?);
    let (map, seconds) = finished(stream, || builder.build(stream, keys.view(), values.view()))?;
    check(map.count(input)?, input);
    Ok((seconds, map.report()?.attempts))
}
fn set<K: KeyBits>(stream: &Stream, input: &[K]) -> Result<(f64, u32)> {
    let options = SetOptions::default().with_seed(SEED);
    let mut builder = SetBuilder::new(stream.device(), options)?;
    let keys = stream.device().stage(input)?;
    let (set, seconds) = finished(stream, || builder.build(stream, keys.view()))?;
    check(set.count(input)?, input);
    Ok((seconds, set.report()?.attempts))
}
/// Inserts batches of new keys into an initially empty map.
fn update<K: KeyBits>(stream: &Stream, input: &[K], values: &[u32]) -> Result<(f64, u32)> {
    let (device, options) = (stream.device(), MapOptions::default().with_seed(SEED));
    let mut map = Map::<K, u32>::build_with(device, options, &[], &[])?;
    let mut updater = MapUpdater::new(device, options)?;
    let n = input.len();
    let (keys, values) = (device.stage(input)?, device.stage(values)?);
    let mut outcomes = device.alloc(n)?;
    let all = Operations::All(Operation::InsertOrAssign);
    let batches = (0..n).step_by(BATCH).map(|first| first..(first + BATCH).min(n));
    let apply_all = || {
        batches.into_iter().try_for_each(|batch| {
            let (keys, values) =
                (keys.view().slice(batch.clone())?, values.view().slice(batch.clone())?);
            updater.apply(&mut map, stream, all, keys, values, outcomes.view_mut().slice(batch)?)
        })
    };
    let ((), seconds) = finished(stream, apply_all)?;
    check(map.count(input)?, input);
    Ok((seconds, map.report()?.attempts))
}
