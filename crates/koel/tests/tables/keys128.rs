//! Maps, sets and indexes of 128-bit keys against a `HashMap`, on every device.

use crate::support::{Random, devices, is_fast};
use koel::MapOptions;
use koel::keys128::{Fingerprint, Map128Builder, Set128Builder};
use koel::types::ValueBits;
use koel::{
    Device, DeviceKind, Duplicates, Error, Index, IndexBuilder, IndexOptions, Map128, NO_ID,
    Set128, SetOptions, Stream,
};
use proptest::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

/// Key `i`, from random bits `r`.
type Column = fn(i: u64, r: u128) -> u128;
const COLUMNS: [(&str, Column); 12] = [
    ("random", |_, r| r),
    ("sequential", |i, _| i as u128),
    ("downwards from all ones", |i, _| !(i as u128)),
    ("equal low halves", |i, _| (i as u128) << 64 | 0x1234_5678_9ABC_DEF0),
    ("equal high halves", |i, _| 0x1234_5678_9ABC_DEF0 << 64 | (i as u128) << 20),
    ("one word counts", |i, _| 7 | (i as u128) << (32 * (i % 4) as u32)),
    ("swapped halves", |i, _| {
        let half = (i / 2 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) as u128;
        ((i / 2) as u128 | half << 64).rotate_left(64 * (i % 2) as u32)
    }),
    ("one bit apart", |i, _| 0xFEDC_BA98_7654_3210_0123_4567_89AB_CDEF ^ 1 << (i % 128)),
    ("equal words", |i, _| (i as u32 as u128) * (1 | 1 << 32 | 1 << 64 | 1 << 96)),
    ("three keys", |_, r| [0, u128::MAX, 1 << 127][(r % 3) as usize]),
    ("all equal", |_, _| u128::MAX),
    ("Zipf", |_, r| {
        (1 << 100) + ((r as u64 >> 11) as f64 / (1u64 << 53) as f64 * 9.0).exp() as u128
    }),
];
fn column(of: Column, n: usize) -> Vec<u128> {
    let mut random = Random(n as u64);
    (0..n as u64).map(|i| of(i, (random.word() as u128) << 64 | random.word() as u128)).collect()
}
/// Sizes around warps, blocks, chunks of a CPU thread, and compaction tiles.
fn sizes(device: &Device) -> Vec<usize> {
    let mut sizes = vec![0, 1, 2, 31, 33, 255, 256, 257, 2047, 2048, 2049, 4096, 4097];
    sizes.push(if is_fast(device) { 100_000 } else { 9000 });
    sizes
}
/// Returns values that encode the index of their pair.
fn values<V: ValueBits>(n: usize) -> Vec<V> {
    (0..n as u64).map(|i| V::narrowed(i | !i << 40)).collect()
}
/// Returns the pairs that are kept, in order.
fn kept<V: ValueBits>(keys: &[u128], values: &[V], policy: Duplicates) -> Vec<(u128, V)> {
    let mut seen = FxHashSet::default();
    let pairs = keys.iter().copied().zip(values.iter().copied());
    if policy == Duplicates::KeepFirst {
        pairs.filter(|(key, _)| seen.insert(*key)).collect()
    } else {
        let mut pairs = pairs.rev().filter(|(key, _)| seen.insert(*key)).collect::<Vec<_>>();
        pairs.reverse();
        pairs
    }
}
/// Returns keys that are present, and similar ones that are not.
fn queries(keys: &[u128]) -> Vec<u128> {
    let mut random = Random(!0);
    let alike =
        keys.iter().step_by(5).flat_map(|&k| [k ^ 1, k ^ 1 << 64, k ^ 1 << 127, k.rotate_left(64)]);
    let strange = (0..300).map(|_| (random.word() as u128) << 64 | random.word() as u128);
    let ends = [0, 1, u128::MAX, u128::MAX - 1, 1 << 64, (1 << 64) - 1];
    keys.iter().rev().copied().chain(alike).chain(strange).chain(ends).collect()
}

fn options(duplicates: Duplicates) -> MapOptions {
    MapOptions::default().with_duplicates(duplicates).with_seed(0)
}
fn build<V: ValueBits>(
    stream: &Stream,
    keys: &[u128],
    values: &[V],
    options: MapOptions,
) -> koel::Result<Map128<V>> {
    let device = stream.device();
    let (keys, values) = (device.stage(keys)?, device.stage(values)?);
    Map128Builder::new(device, options)?.build(stream, keys.view(), values.view())
}
/// Checks a set with every kind of lookup.
fn check_set(set: &Set128, expected: &[u128], asked: &[u128], place: &str) {
    let oracle = expected.iter().copied().zip(0..).collect::<FxHashMap<_, u32>>();
    let (device, stream) = (set.device(), set.device().stream().unwrap());
    assert_eq!((set.len(), set.is_empty()), (expected.len(), expected.is_empty()), "{place}");
    assert!(set.keys_view().download().unwrap() == expected, "{place}: the keys differ");
    let there = set.contains(asked).unwrap();
    let staged = device.stage(asked).unwrap();
    let mut bits = device.alloc::<u32>(asked.len().div_ceil(32)).unwrap();
    bits.view_mut().fill_bytes(0xFF, &stream).unwrap();
    set.contains_bits_into(&stream, staged.view(), bits.view_mut()).unwrap();
    let bits = bits.download().unwrap();
    // Looks keys up as a kernel would.
    // SAFETY: the table is in host memory, and nothing changes it here.
    let rows = (device.kind() != DeviceKind::Cuda)
        .then(|| unsafe { set.rows(&stream).unwrap().on_host() });
    for (i, key) in asked.iter().enumerate() {
        assert_eq!(there[i], oracle.contains_key(key), "{place}: key {key:#x}");
        assert_eq!(bits[i / 32] >> (i % 32) & 1 != 0, there[i], "{place}: key {key:#x}");
        assert!(
            rows.is_none_or(|rows| rows.row(*key) == oracle.get(key).copied()),
            "{place}: key {key:#x} in a kernel"
        );
    }
    let present = there.iter().filter(|&&t| t).count() as u64;
    assert_eq!(
        bits.iter().map(|b| b.count_ones() as u64).sum::<u64>(),
        present,
        "{place}: bits behind the last"
    );
    assert_eq!(set.count(asked).unwrap(), present, "{place}");
}
fn check<V: ValueBits>(map: &Map128<V>, expected: &[(u128, V)], place: &str) {
    let report = map.report().unwrap();
    let place = &format!("{place}, {report:?}");
    let oracle = expected.iter().copied().collect::<FxHashMap<_, _>>();
    let keys = expected.iter().map(|&(key, _)| key).collect::<Vec<_>>();
    assert_eq!(
        (map.len(), map.is_empty(), report.entries),
        (keys.len(), keys.is_empty(), keys.len()),
        "{place}"
    );
    assert!(map.pairs().unwrap() == expected, "{place}: the pairs differ");
    let asked = queries(&keys);
    check_set(map.set(), &keys, &asked, place);
    assert!(map.contains(&asked).unwrap() == map.set().contains(&asked).unwrap());
    assert_eq!(map.count(&asked).unwrap(), map.set().count(&asked).unwrap());
    let answers = map.get(&asked).unwrap();
    let (device, stream) = (map.device(), map.device().stream().unwrap());
    let (staged, mut values) = (device.stage(&asked).unwrap(), device.alloc(asked.len()).unwrap());
    let missing = V::narrowed(0x1111_2222_3333_4444);
    map.get_or_into(&stream, staged.view(), values.view_mut(), missing).unwrap();
    for ((key, answer), value) in asked.iter().zip(answers).zip(values.download().unwrap()) {
        assert_eq!(answer, oracle.get(key).copied(), "{place}: key {key:#x}");
        assert_eq!(value, answer.unwrap_or(missing), "{place}: key {key:#x}");
    }
}

/// One builder, from the largest input to the smallest and again to a larger one, so that memory is
/// reused for inputs of other sizes.
fn every_column<V: ValueBits>(step: usize) {
    const POLICIES: [Duplicates; 2] = [Duplicates::KeepLast, Duplicates::KeepFirst];
    for device in devices() {
        let stream = device.stream().unwrap();
        for (p, policy) in POLICIES.into_iter().enumerate() {
            let mut builder = Map128Builder::new(&device, options(policy).with_seed(3)).unwrap();
            for (s, n) in sizes(&device).into_iter().rev().chain([3000]).enumerate() {
                for (name, of) in COLUMNS.into_iter().skip((s + p) % step).step_by(step) {
                    let (keys, values) = (column(of, n), values::<V>(n));
                    let (k, v) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
                    let map = builder.build(&stream, k.view(), v.view()).unwrap();
                    let expected = kept(&keys, &values, policy);
                    check(
                        &map,
                        &expected,
                        &format!("{name}, {n}, {policy:?} on {}", device.name()),
                    );
                    let report = map.report().unwrap();
                    assert_eq!((report.attempts, report.duplicates), (1, n - expected.len()));
                    assert_eq!(report.bytes, map.bytes());
                }
            }
        }
    }
}
#[test]
fn every_column_of_narrow_values() {
    every_column::<u32>(7);
}
#[test]
fn every_column_of_wide_values() {
    every_column::<u64>(7);
}
#[test]
fn every_load() {
    for device in devices() {
        let (stream, n) = (device.stream().unwrap(), if is_fast(&device) { 100_000 } else { 5000 });
        let (keys, values) = (column(COLUMNS[0].1, n), values::<u32>(n));
        for load in [0.3, 0.95] {
            let options = MapOptions::default().with_load(load);
            let map = build(&stream, &keys, &values, options).unwrap();
            check(
                &map,
                &kept(&keys, &values, Duplicates::KeepLast),
                &format!("load {load} on {}", device.name()),
            );
            let a_key = map.bytes() as f64 / n as f64;
            assert!(n < 50_000 || a_key < 20.0 + 17.0 / load, "{a_key} bytes a key at {load}");
        }
    }
}
/// A table is as large as its distinct keys need.
#[test]
fn copies_take_no_memory() {
    for device in devices() {
        let n = if is_fast(&device) { 100_000 } else { 8000 };
        let keys = (0..n).map(|i| (i as u128 % 100) << 77).collect::<Vec<_>>();
        let few = Map128::build(&device, &keys[..100], &values::<u64>(100)).unwrap();
        let all = Map128::build(&device, &keys, &values::<u64>(n)).unwrap();
        assert_eq!(
            (all.len(), all.bytes()),
            (100, few.bytes()),
            "{:?} on {}",
            all.report().unwrap(),
            device.name()
        );
    }
}
#[test]
fn equal_keys_are_rejected() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut keys = column(COLUMNS[0].1, 3000);
        let of =
            |keys: &[u128]| build(&stream, keys, &values::<u32>(3000), options(Duplicates::Reject));
        let expected = kept(&keys, &values::<u32>(3000), Duplicates::Reject);
        check(&of(&keys).unwrap(), &expected, &device.name());
        // The pair whose second index is lowest is named.
        keys[2900] = keys[5];
        keys[1234] = keys[77];
        let e = of(&keys).unwrap_err();
        assert!(
            matches!(e, Error::DuplicateKey { key, first: 77, second: 1234 } if key == keys[77]),
            "{e}"
        );
    }
}
#[test]
fn a_broken_promise_is_noticed() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = if is_fast(&device) { 50_000 } else { 4000 };
        for distinct in [1, 2, 100, n / 2, n - 1, n] {
            let mut random = Random(distinct as u64);
            let key =
                |i: usize| if i < distinct { i as u64 } else { random.below(distinct as u64) };
            let keys = (0..n)
                .map(key)
                .map(|word| (word as u128).wrapping_mul(!0 << 60 | 77))
                .collect::<Vec<_>>();
            let values = (0..n as u32).collect::<Vec<_>>();
            let map = build(&stream, &keys, &values, options(Duplicates::Unchecked)).unwrap();
            assert_eq!(
                (map.len(), map.report().unwrap().duplicates),
                (distinct, n - distinct),
                "on {}",
                device.name()
            );
            assert_eq!(map.report().unwrap().attempts, 1, "{distinct} on {}", device.name());
            for (key, value) in keys.iter().zip(map.get(&keys).unwrap()) {
                assert!(
                    value.is_some_and(|v| keys[v as usize] == *key),
                    "{distinct} on {}",
                    device.name()
                );
            }
        }
    }
}
/// More keys than a small input, of which kernels find copies that nobody expects.
#[test]
fn a_broken_promise_of_many_keys_is_noticed() {
    for device in devices() {
        let (stream, distinct) = (device.stream().unwrap(), (1 << 16) + 1);
        let keys = (0..2 * distinct).map(|i| (i as u128 / 2) << 70).collect::<Vec<_>>();
        let values = (0..keys.len() as u32).collect::<Vec<_>>();
        let map = build(&stream, &keys, &values, options(Duplicates::Unchecked)).unwrap();
        let report = map.report().unwrap();
        let counts = (map.len(), report.duplicates, report.attempts);
        assert_eq!(counts, (distinct, distinct, 1), "on {}", device.name());
        let asked = keys.iter().copied().step_by(1000).collect::<Vec<_>>();
        for (key, value) in asked.iter().zip(map.get(&asked).unwrap()) {
            assert!(value.is_some_and(|v| keys[v as usize] == *key), "on {}", device.name());
        }
    }
}

/// Added to a key of small words, it nearly always gives another key with the same fingerprint
/// under the function of seed 0. The sums over its words are less than 2^20 modulo 2^64, in both
/// halves: the shortest such vector, found by lattice reduction.
const COLLIDING: u128 = 1_125_655 | 57_218 << 32 | 1_249_472 << 64 | 1_202_508 << 96;
/// Returns groups of keys with the same fingerprint.
pub(super) fn colliding(groups: u128, each: u128) -> Vec<Vec<u128>> {
    let function = Fingerprint::new(0);
    let base = |group: u128| {
        group.wrapping_mul(0x0001_2345 | 0x0002_3456 << 32 | 0x0003_4567 << 64 | 0x0004_5678 << 96)
    };
    let group = |group: u128| {
        let of_first = function.of(base(group));
        (0..each)
            .map(|i| base(group) + i * COLLIDING)
            .filter(|&key| function.of(key) == of_first)
            .collect()
    };
    let groups = (0..groups).map(group).collect::<Vec<Vec<u128>>>();
    assert!(
        groups.iter().map(Vec::len).sum::<usize>() as f64
            > 0.9 * (groups.len() as f64 * each as f64)
    );
    groups
}
/// Crafted collisions: the function is redrawn, in every policy, and answers are right.
#[test]
fn keys_that_share_fingerprints() {
    for device in devices() {
        let stream = device.stream().unwrap();
        for (groups, each) in [(1, 2), (1, 500), (300, 2), (20, 50)] {
            let mut keys = colliding(groups, each).concat();
            keys.extend(column(COLUMNS[0].1, 2000));
            // Some occur twice, far from each other.
            let distinct = keys.len();
            keys.extend_from_within(..distinct / 3);
            let values = values::<u64>(keys.len());
            let place = format!("{groups} groups of {each} on {}", device.name());
            for policy in [Duplicates::KeepLast, Duplicates::KeepFirst] {
                let map = build(&stream, &keys, &values, options(policy)).unwrap();
                assert_eq!(map.report().unwrap().attempts, 2, "{place}");
                check(&map, &kept(&keys, &values, policy), &place);
                let another = options(policy).with_seed(1);
                assert_eq!(
                    build(&stream, &keys, &values, another).unwrap().report().unwrap().attempts,
                    1,
                    "{place}"
                );
            }
            let rejected = build(&stream, &keys, &values, options(Duplicates::Reject)).unwrap_err();
            assert!(
                matches!(
                    rejected,
                    Error::DuplicateKey { first: 0, second, .. } if second == distinct
                ),
                "{rejected}"
            );
            for policy in [Duplicates::Unchecked, Duplicates::Reject] {
                let (keys, values) = (&keys[..distinct], &values[..distinct]);
                let map = build(&stream, keys, values, options(policy)).unwrap();
                assert_eq!(map.report().unwrap().attempts, 2, "{place}");
                check(&map, &kept(keys, values, policy), &place);
            }
            let seed = IndexOptions::default().with_seed(0);
            let staged = device.stage(&keys).unwrap();
            let index =
                IndexBuilder::new(&device, seed).unwrap().build(&stream, staged.view()).unwrap();
            let ids = index.ids(&keys).unwrap().into_iter().map(Option::unwrap);
            assert_eq!((index.len(), index.report().unwrap().attempts), (distinct, 2), "{place}");
            let expected = (0..distinct as u32).chain(0..(distinct / 3) as u32);
            assert!(ids.eq(expected), "{place}");
        }
    }
}
/// One key of each group is present: the others are absent, though their fingerprints are present.
#[test]
fn a_fingerprint_is_no_key() {
    for device in devices() {
        let groups = colliding(500, 3);
        let there = groups.iter().map(|group| group[0]).collect::<Vec<_>>();
        let asked = groups.concat();
        let stream = device.stream().unwrap();
        let map =
            build(&stream, &there, &values::<u32>(there.len()), options(Duplicates::KeepLast))
                .unwrap();
        assert_eq!(map.report().unwrap().attempts, 1);
        check_set(map.set(), &there, &asked, &device.name());
        let found = map.get(&asked).unwrap().into_iter().flatten().count();
        assert_eq!(found, there.len(), "on {}", device.name());
        let (seed, staged) = (SetOptions::default().with_seed(0), device.stage(&there).unwrap());
        let set = Set128Builder::new(&device, seed).unwrap().build(&stream, staged.view()).unwrap();
        check_set(&set, &there, &asked, &device.name());
    }
}

fn check_index(
    builder: &mut koel::IndexBuilder<u128>,
    device: &Device,
    keys: &[u128],
    place: &str,
) {
    let (mut ids, mut distinct, mut counts) = (FxHashMap::default(), vec![], vec![]);
    for &key in keys {
        let id = *ids.entry(key).or_insert_with(|| {
            distinct.push(key);
            counts.push(0u32);
            distinct.len() as u32 - 1
        });
        counts[id as usize] += 1;
    }
    let stream = device.stream().unwrap();
    let uploaded = device.upload(keys).unwrap();
    let (index, counted) = builder.build_counted(&stream, uploaded.view()).unwrap();
    assert_eq!((index.len(), index.is_empty()), (distinct.len(), distinct.is_empty()), "{place}");
    assert!(counted.download().unwrap() == counts, "{place}");
    let asked = queries(keys);
    check_set(index.set(), &distinct, &asked, place);
    assert!(
        index.ids(&asked).unwrap().into_iter().eq(asked.iter().map(|key| ids.get(key).copied())),
        "{place}"
    );
    let mut column = device.alloc(keys.len()).unwrap();
    index.ids_into(&stream, uploaded.view(), column.view_mut()).unwrap();
    let column = column.download().unwrap();
    assert!(column.iter().eq(keys.iter().map(|key| &ids[key])), "{place}");
    // And back; invalid ids have no key.
    let back = index.keys_of(&[&column[..], &[index.len() as u32, NO_ID]].concat()).unwrap();
    assert!(back.into_iter().eq(keys.iter().copied().map(Some).chain([None, None])), "{place}");
}
#[test]
fn indexes_and_sets() {
    for device in devices() {
        let options = IndexOptions::default().with_load(0.9).with_seed(5);
        let mut builder = koel::IndexBuilder::new(&device, options).unwrap();
        let mut of_sets = Set128Builder::new(&device, SetOptions::default()).unwrap();
        for (s, n) in sizes(&device).into_iter().rev().chain([3000]).enumerate() {
            for (name, of) in COLUMNS.into_iter().skip(s % 7).step_by(7) {
                let (keys, place) = (column(of, n), format!("{name}, {n} on {}", device.name()));
                check_index(&mut builder, &device, &keys, &place);
                let staged = device.stage(&keys).unwrap();
                let set = of_sets.build(&device.stream().unwrap(), staged.view()).unwrap();
                let first = kept(&keys, &values::<u32>(n), Duplicates::KeepFirst);
                let distinct = first.into_iter().map(|(key, _)| key).collect::<Vec<_>>();
                assert_eq!(set.report().unwrap().duplicates, n - distinct.len());
                check_set(&set, &distinct, &queries(&keys), &place);
            }
        }
    }
}
/// A table built on one device answers on another.
#[test]
fn every_device_takes_what_others_built() {
    let keys = column(COLUMNS[11].1, 4000);
    let values = values::<u64>(keys.len());
    let expected = kept(&keys, &values, Duplicates::KeepLast);
    for from in devices() {
        let map = Map128::build(&from, &keys, &values).unwrap();
        let (index, ids) = Index::encode(&from, &keys).unwrap();
        for to in devices() {
            check(
                &map.to_device(&to).unwrap(),
                &expected,
                &format!("from {} to {}", from.name(), to.name()),
            );
            let found = index.to_device(&to).unwrap().ids(&keys).unwrap();
            assert!(found.into_iter().eq(ids.iter().copied().map(Some)));
        }
    }
}
/// With more and with fewer keys, with and without copies, in existing memory: nothing of the
/// previous build remains.
#[test]
fn tables_are_rebuilt() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut builder = Map128Builder::new(&device, options(Duplicates::KeepLast)).unwrap();
        let mut of_sets = Set128Builder::new(&device, SetOptions::default()).unwrap();
        let mut of_indexes = IndexBuilder::new(&device, IndexOptions::default()).unwrap();
        let mut map = Map128::build(&device, &[1, 2], &[3u64, 4]).unwrap();
        let mut set = Set128::build(&device, &[1, 2]).unwrap();
        let mut index = Index::build(&device, &[1u128, 2]).unwrap();
        let most = if is_fast(&device) { 150_000 } else { 5000 };
        for (n, c) in [
            (most, 11),
            (300, 0),
            (most / 2, 1),
            (0, 0),
            (4097, 9),
            (31, 10),
            (most, 0),
            (most - 1, 11),
        ] {
            let (name, of) = COLUMNS[c];
            let (keys, values) = (column(of, n), values::<u64>(n));
            let (k, v) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
            let place = format!("{name}, {n} on {}", device.name());
            builder.rebuild(&mut map, &stream, k.view(), v.view()).unwrap();
            let expected = kept(&keys, &values, Duplicates::KeepLast);
            check(&map, &expected, &place);
            let report = map.report().unwrap();
            assert_eq!(
                (report.attempts, report.duplicates, report.bytes),
                (1, n - expected.len(), map.bytes())
            );
            assert_eq!(report.device_seconds, None);
            of_sets.rebuild(&mut set, &stream, k.view()).unwrap();
            of_indexes.rebuild(&mut index, &stream, k.view()).unwrap();
            let distinct = kept(&keys, &values, Duplicates::KeepFirst)
                .iter()
                .map(|&(key, _)| key)
                .collect::<Vec<_>>();
            check_set(&set, &distinct, &queries(&keys), &place);
            check_set(index.set(), &distinct, &queries(&keys), &place);
            let ids = index.ids(&distinct).unwrap();
            assert!(ids.into_iter().eq((0..distinct.len() as u32).map(Some)), "{place}");
            // As a copy would have it.
            check(&map.to_device(&device).unwrap(), &expected, &place);
        }
        // Shared fingerprints, and redrawn functions.
        let keys = colliding(20, 50).concat();
        let (k, v) =
            (device.upload(&keys).unwrap(), device.upload(&values::<u64>(keys.len())).unwrap());
        builder.rebuild(&mut map, &stream, k.view(), v.view()).unwrap();
        assert_eq!(map.report().unwrap().attempts, 2);
        check(&map, &kept(&keys, &values(keys.len()), Duplicates::KeepLast), &device.name());
    }
}
/// Neither tables nor builders allocate in a loop, with or without duplicate keys.
#[test]
fn rebuilds_take_no_memory() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = if is_fast(&device) { 200_000 } else { 6000 };
        for distinct in [n, n / 2, 3] {
            let keys = (0..n).map(|i| (i as u128 % distinct as u128) << 77 | 5).collect::<Vec<_>>();
            let (k, v) = (device.upload(&keys).unwrap(), device.upload(&values::<u32>(n)).unwrap());
            let mut builder = Map128Builder::new(&device, options(Duplicates::KeepLast)).unwrap();
            let mut map = builder.build(&stream, k.view(), v.view()).unwrap();
            let mut places = vec![];
            for _ in 0..4 {
                builder.rebuild(&mut map, &stream, k.view(), v.view()).unwrap();
                let report = map.report().unwrap();
                // The share of each CPU thread changes from run to run.
                let scratch =
                    if device.kind() == DeviceKind::Cpu { 0 } else { report.scratch_bytes };
                places.push((
                    map.keys_view().address(),
                    map.values_view().address(),
                    report.bytes,
                    scratch,
                ));
            }
            assert!(
                places.iter().all(|place| *place == places[0]),
                "{distinct} of {n}: {places:?}"
            );
            check(&map, &kept(&keys, &values(n), Duplicates::KeepLast), &device.name());
        }
    }
}
/// After an error a table is unchanged, and can be rebuilt.
#[test]
fn a_rebuild_that_fails_changes_nothing() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut builder = Map128Builder::new(&device, options(Duplicates::Reject)).unwrap();
        let (keys, values) = (column(COLUMNS[0].1, 1000), values::<u32>(1000));
        let mut map = build(&stream, &keys, &values, options(Duplicates::Reject)).unwrap();
        let expected = kept(&keys, &values, Duplicates::KeepLast);
        let (k, v) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let e =
            builder.rebuild(&mut map, &stream, k.view().slice(1..).unwrap(), v.view()).unwrap_err();
        assert!(
            matches!(e, Error::Length { name: "values", found: 1000, expected: 999, .. }),
            "{e}"
        );
        let other = Device::executor(9);
        let mut elsewhere = Map128::build(&other, &[5], &[6u32]).unwrap();
        let e = builder.rebuild(&mut elsewhere, &stream, k.view(), v.view()).unwrap_err();
        assert!(matches!(e, Error::WrongDevice { name: "map", .. }), "{e}");
        assert_eq!(elsewhere.get(&[5]).unwrap(), [Some(6)]);
        let another = Map128::build(&device, &keys, &values).unwrap();
        let inputs = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let of_another = Map128Builder::new(&device, options(Duplicates::KeepLast)).unwrap();
        let captured = stream.capture(
            (of_another, another, inputs),
            |stream, (builder, map, (keys, values))| {
                builder.rebuild(map, stream, keys.view(), values.view())
            },
        );
        // On the CPU a graph is recorded when it is launched.
        let launched = captured.and_then(|mut graph| graph.launch(&stream));
        assert!(matches!(
            launched.unwrap_err(),
            Error::Capture { operation: "a rebuild with keys of 128 bits", .. }
        ));
        check(&map, &expected, &device.name());

        let twice = [&keys[..999], &keys[..1]].concat();
        let twice = device.upload(&twice).unwrap();
        let e = builder.rebuild(&mut map, &stream, twice.view(), v.view()).unwrap_err();
        assert!(matches!(e, Error::DuplicateKey { first: 0, second: 999, .. }), "{e}");
        check(&map, &expected, &device.name());
        builder.rebuild(&mut map, &stream, k.view(), v.view()).unwrap();
        check(&map, &expected, &device.name());
    }
}
/// Sub-views, and lookups in a graph, which is recorded once.
#[test]
fn views_and_graphs() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (n, keys) = (5000, column(COLUMNS[0].1, 5003));
        let (k, v) = (device.upload(&keys).unwrap(), device.upload(&values::<u32>(5003)).unwrap());
        for (i, j) in [(0, 1), (1, 0), (3, 2)] {
            let (k, v) = (k.view().slice(i..i + n).unwrap(), v.view().slice(j..j + n).unwrap());
            let map = Map128Builder::new(&device, MapOptions::default())
                .unwrap()
                .build(&stream, k, v)
                .unwrap();
            let expected =
                kept(&keys[i..i + n], &values::<u32>(5003)[j..j + n], Duplicates::KeepLast);
            check(&map, &expected, &device.name());
        }
        let map = Map128::build(&device, &keys, &values::<u32>(5003)).unwrap();
        let (queries, found) =
            (device.upload(&keys[..100]).unwrap(), device.alloc::<u32>(100).unwrap());
        let mut graph = stream
            .capture((map, queries, found), |stream, (map, queries, found)| {
                map.get_or_into(stream, queries.view(), found.view_mut(), 7)
            })
            .unwrap();
        for round in [0, 100, 4903] {
            graph.state_mut().1.view_mut().copy_from_host(&keys[round..round + 100]).unwrap();
            graph.launch(&stream).unwrap();
            assert!(graph.state().2.download().unwrap() == values::<u32>(5003)[round..round + 100]);
        }
    }
}
#[test]
fn what_does_not_fit_is_refused() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let e = Map128::build(&device, &[7, 8], &[1u32]).unwrap_err();
        assert!(matches!(e, Error::Length { name: "values", found: 1, expected: 2, .. }), "{e}");
        let e = Map128Builder::new(&device, MapOptions::default().with_load(0.99)).err().unwrap();
        assert!(matches!(e, Error::Setting { field: "load", .. }), "{e}");
        let map = Map128::build(&device, &[7, 8], &[1u32, 2]).unwrap();
        let (keys, mut short) =
            (device.upload(&[1u128, 2, 3]).unwrap(), device.alloc::<u32>(2).unwrap());
        let (mut flags, mut sums) =
            (device.alloc::<u8>(2).unwrap(), device.alloc::<u64>(2).unwrap());
        let e = map.get_or_into(&stream, keys.view(), short.view_mut(), 0).unwrap_err();
        assert!(matches!(e, Error::Length { name: "values", found: 2, expected: 3, .. }), "{e}");
        let e = map.get_into(&stream, keys.view(), short.view_mut(), flags.view_mut()).unwrap_err();
        assert!(matches!(e, Error::Length { name: "values", .. }), "{e}");
        let e = map.contains_into(&stream, keys.view(), flags.view_mut()).unwrap_err();
        assert!(matches!(e, Error::Length { name: "found", found: 2, expected: 3, .. }), "{e}");
        let e = map.contains_bits_into(&stream, keys.view(), short.view_mut()).unwrap_err();
        assert!(matches!(e, Error::Length { name: "found", found: 2, expected: 1, .. }), "{e}");
        let e = map.count_into(&stream, keys.view(), sums.view_mut()).unwrap_err();
        assert!(matches!(e, Error::Length { name: "count", found: 2, expected: 1, .. }), "{e}");
        let (index, _) = Index::encode(&device, &[5u128, 6]).unwrap();
        let e = index.ids_into(&stream, keys.view(), short.view_mut()).unwrap_err();
        assert!(matches!(e, Error::Length { name: "ids", found: 2, expected: 3, .. }), "{e}");
        let other = Device::executor(9);
        let elsewhere = other.upload(&[1u128, 2]).unwrap();
        let mut builder = Set128Builder::new(&device, SetOptions::default()).unwrap();
        let e = builder.build(&stream, elsewhere.view()).unwrap_err();
        assert!(matches!(e, Error::WrongDevice { .. }), "{e}");
        let e = builder.build(&other.stream().unwrap(), elsewhere.view()).unwrap_err();
        assert!(matches!(e, Error::WrongDevice { name: "stream", .. }), "{e}");
        let e = map.contains_into(&stream, elsewhere.view(), flags.view_mut()).unwrap_err();
        assert!(matches!(e, Error::WrongDevice { .. }), "{e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn any_pairs(
        words in prop::collection::vec(0u128..150, 0..1500),
        spread in any::<u128>(),
        first in any::<bool>()
    ) {
        let keys = words.into_iter().map(|word| word.wrapping_mul(spread | 1)).collect::<Vec<_>>();
        let policy = if first { Duplicates::KeepFirst } else { Duplicates::KeepLast };
        for device in devices() {
            let values = values::<u64>(keys.len());
            let map = build(&device.stream().unwrap(), &keys, &values, options(policy)).unwrap();
            check(&map, &kept(&keys, &values, policy), "any pairs");
        }
    }
    #[test]
    fn encoding_is_undone(
        keys in prop::collection::vec(any::<u128>(), 0..500),
        copies in 0..500usize
    ) {
        let keys = keys.iter().chain(keys.iter().take(copies)).copied().collect::<Vec<_>>();
        for device in devices() {
            let (index, ids) = Index::encode(&device, &keys).unwrap();
            prop_assert!(
                index.keys_of(&ids).unwrap().into_iter().eq(keys.iter().copied().map(Some))
            );
        }
    }
}
