//! The flagship map against a `HashMap`, on every device.
mod support;

use koel::map::layout::{AMBIGUOUS, Shape};
use koel::{Device, DeviceKind, Duplicates, Error, Map, MapBuilder, MapOptions, Stream};
use proptest::prelude::*;
use std::collections::HashMap;
use support::{KEY_SETS, Random, devices, is_fast, scramble, value_of};

fn build(stream: &Stream, keys: &[u32], values: &[u32], load: f64, duplicates: Duplicates) -> koel::Result<Map> {
    let device = stream.device();
    let (k, v) = (device.stage(keys)?, device.stage(values)?);
    MapBuilder::new(device, MapOptions { load, duplicates })?.build(stream, k.view(), v.view())
}
/// Every key that is there, as many that are not, and the special ones.
fn check(map: &Map, oracle: &HashMap<u32, u32>, place: &str) {
    let report = map.report();
    assert_eq!((map.len(), map.is_empty()), (oracle.len(), oracle.is_empty()), "{place}: {report:?}");
    let mut random = Random(2);
    let mut queries = oracle.keys().copied().collect::<Vec<_>>();
    queries.sort_unstable();
    queries.extend((0..queries.len() + 8).map(|_| random.word() as u32));
    queries.extend([0, 1, u32::MAX, u32::MAX - 1, map.shape().unmixed(AMBIGUOUS)]);
    for (q, a) in queries.iter().zip(map.get(&queries).unwrap()) {
        assert_eq!(a, oracle.get(q).copied(), "{place}: key {q}, {report:?}");
    }
    let (device, stream) = (map.device(), map.device().stream().unwrap());
    let mut values = device.alloc(queries.len()).unwrap();
    map.get_or(&stream, device.stage(&queries).unwrap().view(), values.view_mut(), 77).unwrap();
    for (q, a) in queries.iter().zip(values.download().unwrap()) {
        assert_eq!(a, oracle.get(q).copied().unwrap_or(77), "{place}: key {q}");
    }
    // As a kernel would look keys up.
    if device.kind() != DeviceKind::Cuda {
        let table = map.table(&stream).unwrap();
        for &q in &queries {
            assert_eq!(table.get(q), oracle.get(&q).copied(), "{place}: key {q} in a kernel");
        }
    }
}

#[test]
fn every_size_and_load() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let big: &[u32] = if is_fast(&device) { &[100_000, 1_000_000, 5_000_000] } else { &[] };
        for &n in [0, 1, 2, 3, 4, 5, 31, 32, 33, 1023, 1025, 3599, 3600, 3601, 8000].iter().chain(big) {
            for load in [0.3, 0.5, 0.8, 0.9, 0.95] {
                if load != 0.8 && (n > 1_000_000 || !is_fast(&device) && n < 3600) {
                    continue;
                }
                let keys = (0..n).map(|i| scramble(i, n)).collect::<Vec<_>>();
                let values = keys.iter().map(|&k| value_of(k)).collect::<Vec<_>>();
                let oracle = keys.iter().copied().zip(values.iter().copied()).collect();
                let map = build(&stream, &keys, &values, load, Duplicates::KeepLast).unwrap();
                assert_eq!(map.report().attempts, 1, "{:?}", map.report());
                check(&map, &oracle, &format!("{} pairs at {load} on {}", n, device.name()));
                if n > 100_000 {
                    let per_pair = 8.0 * map.report().slots as f64 / n as f64;
                    assert!(per_pair <= 8.2 / load, "{per_pair} bytes a pair at {load}");
                }
            }
        }
    }
}

/// Small partitions that take two passes, as hundreds of millions of pairs do: by giving the executor what only shapes differ in.
#[test]
fn two_passes() {
    for device in devices().into_iter().filter(is_fast) {
        let stream = device.stream().unwrap();
        // More than 1024 partitions.
        let n = 3_700_000;
        let keys = (0..n).map(|i| scramble(i, 5)).collect::<Vec<_>>();
        let map = build(&stream, &keys, &keys, 0.8, Duplicates::Unchecked).unwrap();
        assert!(map.shape().partitions > 1024);
        let found = map.get(&keys).unwrap();
        assert!(found.iter().zip(&keys).all(|(f, k)| *f == Some(*k)));
    }
}

#[test]
fn every_key_set() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = if is_fast(&device) { 200_000 } else { 4_000 };
        for set in KEY_SETS {
            let n = if set.name.starts_with("equal modulo") { n.min(20_000) } else { n };
            let keys = (0..n).map(set.key).collect::<Vec<_>>();
            let values = keys.iter().map(|&k| value_of(k)).collect::<Vec<_>>();
            let oracle = keys.iter().copied().zip(values.iter().copied()).collect();
            let map = build(&stream, &keys, &values, 0.8, Duplicates::KeepLast).unwrap();
            check(&map, &oracle, &format!("{} on {}", set.name, device.name()));
        }
    }
}

/// Keys made for the mixer: all in one partition, or all in one bucket. The hash function is drawn again, or the stash takes
/// them.
#[test]
fn keys_made_to_collide() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = if is_fast(&device) { 30_000u32 } else { 9_000 };
        let shape = Shape { partitions: 1, buckets: 1, seed: 0 };
        let one_partition = (0..n).map(|i| shape.unmixed(i)).collect::<Vec<_>>();
        let one_bucket = (0..40).map(|i| shape.unmixed(i)).chain((0..n).map(|i| scramble(i, 3))).collect::<Vec<_>>();
        let mut one_bucket = one_bucket;
        one_bucket.sort_unstable();
        one_bucket.dedup();
        for keys in [one_partition, one_bucket] {
            let values = keys.iter().map(|&k| value_of(k)).collect::<Vec<_>>();
            let oracle = keys.iter().copied().zip(values.iter().copied()).collect();
            let map = build(&stream, &keys, &values, 0.8, Duplicates::KeepLast).unwrap();
            check(&map, &oracle, &device.name());
        }
    }
}

#[test]
fn duplicates_follow_the_policy() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = if is_fast(&device) { 60_000u32 } else { 5_000 };
        let few: &[u32] = if is_fast(&device) { &[1, 2, 100, n / 2, n - 1] } else { &[1, n / 2, n - 1] };
        for &distinct in few {
            let mut random = Random(distinct as u64);
            let keys = (0..n)
                .map(|i| if i < distinct { i } else { random.below(distinct as u64) as u32 })
                .map(|k| scramble(k, 1))
                .collect::<Vec<_>>();
            let values = (0..n).collect::<Vec<_>>();
            let last: HashMap<_, _> = keys.iter().copied().zip(values.iter().copied()).collect();
            let first: HashMap<_, _> = keys.iter().copied().zip(values.iter().copied()).rev().collect();
            let of = |policy| build(&stream, &keys, &values, 0.8, policy);
            let map = of(Duplicates::KeepLast).unwrap();
            assert_eq!(map.report().duplicates, keys.len() - last.len());
            check(&map, &last, &format!("last of {distinct} on {}", device.name()));
            check(&of(Duplicates::KeepFirst).unwrap(), &first, &format!("first of {distinct} on {}", device.name()));
            let Err(Error::DuplicateKey { key, first, second }) = of(Duplicates::Reject) else { panic!("{distinct}") };
            assert!(first != second && keys[first] as u64 == key && keys[second] as u64 == key);
            // A broken promise: nothing hangs, and what is found belongs to its key.
            let map = of(Duplicates::Unchecked).unwrap();
            for (q, a) in keys.iter().zip(map.get(&keys).unwrap()) {
                assert!(a.is_none_or(|v| keys[v as usize] == *q), "{distinct} on {}", device.name());
            }
        }
    }
}

/// The pair that looks like an empty slot, its key with other values, other keys with its value.
#[test]
fn the_ambiguous_pair_is_a_pair() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let key = Shape { partitions: 1, buckets: 1, seed: 0 }.unmixed(AMBIGUOUS);
        for (one, two) in [(u32::MAX, 5), (5, u32::MAX), (u32::MAX, u32::MAX)] {
            let (keys, values) = ([key, 1, key], [one, 2, two]);
            let oracle = [(key, two), (1, 2)].into_iter().collect();
            check(&build(&stream, &keys, &values, 0.8, Duplicates::KeepLast).unwrap(), &oracle, &device.name());
        }
        for n in [0, 10, 3000] {
            for value in [u32::MAX, 0, 5] {
                for with in [false, true] {
                    let mut keys = (0..n).map(|i| scramble(i, 4)).filter(|&k| k != key).collect::<Vec<_>>();
                    let mut values = vec![u32::MAX; keys.len()];
                    if with {
                        keys.insert(keys.len() / 2, key);
                        values.insert(values.len() / 2, value);
                    }
                    let oracle = keys.iter().copied().zip(values.iter().copied()).collect();
                    for policy in [Duplicates::KeepLast, Duplicates::Unchecked] {
                        let map = build(&stream, &keys, &values, 0.8, policy).unwrap();
                        check(&map, &oracle, &format!("{n} pairs, value {value}, {with}, {}", device.name()));
                    }
                }
            }
        }
    }
}

#[test]
fn a_builder_builds_again_and_again() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut builder = MapBuilder::new(&device, MapOptions::default()).unwrap();
        for n in [5000, 5000, 100, 9000, 0, 5000] {
            let keys = (0..n).map(|i| scramble(i, n)).collect::<Vec<_>>();
            let staged = device.stage(&keys).unwrap();
            let map = builder.build(&stream, staged.view(), staged.view()).unwrap();
            let oracle = keys.iter().map(|&k| (k, k)).collect();
            check(&map, &oracle, &device.name());
        }
    }
}

#[test]
fn wrong_arguments_are_named() {
    let device = Device::cpu().unwrap();
    let e = Map::build(&device, &[1, 2, 3], &[1, 2]).err().unwrap();
    assert_eq!(e.to_string(), "`values` holds 2 elements, but `keys` needs 3");
    for load in [0.0, 0.29, 0.96, f64::NAN, f64::INFINITY] {
        let e = MapBuilder::new(&device, MapOptions { load, ..MapOptions::default() }).err().unwrap();
        assert!(matches!(e, Error::Setting { field: "load", .. }), "{e}");
    }
    let map = Map::build(&device, &[1, 2, 3], &[1, 2, 3]).unwrap();
    let (stream, keys) = (device.stream().unwrap(), device.upload(&[1u32, 2, 3]).unwrap());
    let (mut values, mut found) = (device.alloc(3).unwrap(), device.alloc(2).unwrap());
    let e = map.get_into(&stream, keys.view(), values.view_mut(), found.view_mut()).unwrap_err();
    assert_eq!(e.to_string(), "`found` holds 2 elements, but `keys` needs 3");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Any pairs, few or many of them with equal keys, in any policy.
    #[test]
    fn answers_as_a_hash_map(
        pairs in prop::collection::vec((prop_oneof![0..40u32, any::<u32>(), Just(u32::MAX)], any::<u32>()), 0..300),
        load in 0.3..0.95,
        first in any::<bool>(),
        executor in any::<bool>(),
    ) {
        let device = if executor { Device::executor(pairs.len() as u64) } else { Device::cpu_with_threads(1).unwrap() };
        let (keys, values): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        let policy = if first { Duplicates::KeepFirst } else { Duplicates::KeepLast };
        let oracle = if first { pairs.into_iter().rev().collect() } else { pairs.into_iter().collect() };
        check(&build(&device.stream().unwrap(), &keys, &values, load, policy).unwrap(), &oracle, &device.name());
    }
}
