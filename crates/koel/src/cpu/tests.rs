//! Tables against a naive oracle: every size, policy, load, instruction set and number of threads.
use super::*;
use koel_kernels::hash::mix::splitmix_at;
use koel_kernels::map::layout::{AMBIGUOUS, pair};
use std::collections::HashMap;

const POLICIES: [Duplicates; 4] =
    [Duplicates::KeepLast, Duplicates::KeepFirst, Duplicates::Reject, Duplicates::Unchecked];

fn shape(n: usize, load: f64, partition: f64) -> Shape {
    let partitions = (n as f64 / partition).ceil().max(1.0);
    let buckets = (n as f64 / load / 4.0 / partitions).ceil().max(1.0);
    Shape { partitions: partitions as u32, buckets: buckets as u32, seed: 77 }
}
fn oracle(keys: &[u32], values: &[u32], policy: Duplicates) -> HashMap<u32, u32> {
    let mut map = HashMap::new();
    for (&key, &value) in keys.iter().zip(values) {
        if policy == Duplicates::KeepFirst {
            map.entry(key).or_insert(value);
        } else {
            map.insert(key, value);
        }
    }
    map
}

struct Built {
    shape: Shape,
    table: Vec<u64>,
    stash: Stash,
    counts: Counts,
}
fn built(
    device: &Device,
    shape: Shape,
    keys: &[u32],
    values: &[u32],
    policy: Duplicates,
    scratch: &mut Scratch,
) -> Result<Built> {
    // What a table held before must not matter; nor how it is aligned.
    let slots = shape.all_buckets() as usize * BUCKET;
    let (mut table, skip) = (vec![0x1234_5678_9ABC_DEF0; slots + 1], keys.len() % 2);
    let mut stash = Stash::from_pairs(&[pair(1, 1)], true);
    let counts = build(device, shape, keys, values, policy, &mut table[skip..][..slots], &mut stash, scratch)?;
    let table = table[skip..][..slots].to_vec();
    Ok(Built { shape, table, stash, counts })
}
/// The layout's rules, then every lookup.
fn check(device: &Device, built: &Built, expected: &HashMap<u32, u32>, given: usize) {
    let Built { shape, ref table, ref stash, counts } = *built;
    assert_eq!(counts.pairs, expected.len());
    assert_eq!(counts.duplicates, given - expected.len());
    assert_eq!(counts.stashed, stash.len());
    let held = pairs(table, stash).map(|pair| (shape.unmixed(pair as u32), (pair >> 32) as u32)).collect::<Vec<_>>();
    assert_eq!(held.len(), expected.len());
    assert_eq!(&held.into_iter().collect::<HashMap<_, _>>(), expected);
    for (place, bucket) in table.as_chunks::<4>().0.iter().enumerate() {
        let fill = bucket.iter().position(|&pair| pair == EMPTY).unwrap_or(4);
        assert!(bucket[fill..].iter().all(|&pair| pair == EMPTY), "empty slots are last");
        for &pair in &bucket[..fill] {
            let (h, at) = (pair as u32, place as u32 % shape.buckets);
            let first = shape.first(h);
            assert_eq!(shape.partition(h), place as u32 / shape.buckets);
            assert!(at == first || at == shape.other(h, first));
        }
    }
    let mut queries = expected.keys().copied().collect::<Vec<_>>();
    queries.extend((0..queries.len() as u32 / 2 + 40).map(|i| splitmix_at(99, i) as u32));
    queries.extend([0, u32::MAX, shape.unmixed(AMBIGUOUS), shape.unmixed(0)]);
    let finder = Finder::new(shape, table, stash).unwrap();
    let wanted = queries.iter().map(|q| expected.get(q).copied()).collect::<Vec<_>>();
    assert!(queries.iter().zip(&wanted).all(|(&q, &wanted)| finder.get(q) == wanted));
    for level in Level::available() {
        let finder = finder.with_level(level);
        let (mut values, mut found) = (vec![1; queries.len()], vec![2; queries.len()]);
        finder.find(device, &queries, &mut values, 5, &mut found).unwrap();
        let expected_values = wanted.iter().map(|v| v.unwrap_or(5)).collect::<Vec<_>>();
        let expected_found = wanted.iter().map(|v| v.is_some() as u8).collect::<Vec<_>>();
        assert_eq!((&values, &found), (&expected_values, &expected_found), "{level:?}");
        values.fill(1);
        finder.values(device, &queries, &mut values, 5).unwrap();
        assert_eq!(values, expected_values, "{level:?}");
        found.fill(2);
        finder.contains(device, &queries, &mut found).unwrap();
        assert_eq!(found, expected_found, "{level:?}");
        // Any length of a batch.
        for n in 0..queries.len().min(40) {
            let (mut values, mut found) = (vec![1; n], vec![2; n]);
            finder.find(device, &queries[..n], &mut values, 5, &mut found).unwrap();
            assert_eq!((&values[..], &found[..]), (&expected_values[..n], &expected_found[..n]), "{level:?}");
        }
    }
}
/// Builds with every instruction set and number of threads: the bytes are the same, and the answers right.
fn check_all(shape: Shape, keys: &[u32], values: &[u32], policies: &[Duplicates]) -> Counts {
    let mut counts = Counts::default();
    for &policy in policies {
        let expected = oracle(keys, values, policy);
        let mut reference: Option<Built> = None;
        for threads in if cfg!(miri) { 1..2 } else { 1..4 } {
            let device = Device::cpu_with_threads(threads).unwrap();
            for level in Level::available() {
                let mut scratch = Scratch::with_level(Pages::System, level);
                for _ in 0..2 {
                    let result = built(&device, shape, keys, values, policy, &mut scratch);
                    let built = match result {
                        Err(Error::DuplicateKey { key, first, second }) => {
                            assert!(policy == Duplicates::Reject && first < second);
                            assert_eq!((keys[first] as u64, keys[second] as u64), (key, key));
                            assert!(expected.len() < keys.len());
                            continue;
                        }
                        other => other.unwrap(),
                    };
                    match &reference {
                        None => {
                            check(&device, &built, &expected, keys.len());
                            counts = built.counts;
                            reference = Some(built);
                        }
                        Some(reference) => assert!(
                            reference.table == built.table
                                && reference.stash.iter().eq(built.stash.iter())
                                && reference.stash.holds_ambiguous() == built.stash.holds_ambiguous()
                                && reference.counts == built.counts,
                            "{policy:?}, {threads} threads, {level:?}"
                        ),
                    }
                }
            }
        }
        assert_eq!(reference.is_none(), policy == Duplicates::Reject && expected.len() < keys.len());
    }
    counts
}
fn random_keys(n: usize, seed: u32) -> Vec<u32> {
    // Distinct: a bijection.
    (0..n as u32).map(|i| koel_kernels::hash::mix::mix(i ^ seed)).collect()
}
fn numbers(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| i.wrapping_mul(0x9E37_79B1)).collect()
}
const fn scaled(n: usize) -> usize {
    if cfg!(miri) { n / 200 } else { n }
}

#[test]
fn every_size() {
    for n in [0, 1, 2, 3, 4, 5, 15, 16, 17, 63, 100, 511, 512, 513, scaled(3000), scaled(40_000), scaled(150_000)] {
        check_all(
            shape(n, 0.8, 3600.0),
            &random_keys(n, 3),
            &numbers(n),
            if n < 5000 { &POLICIES } else { &POLICIES[..1] },
        );
    }
}
#[test]
fn every_load() {
    let n = scaled(30_000);
    for load in [0.5, 0.7, 0.8, 0.9, 0.95] {
        for partition in [300.0, 3600.0] {
            let counts = check_all(shape(n, load, partition), &random_keys(n, 4), &numbers(n), &POLICIES[..1]);
            assert!(
                load > 0.8 || partition < 3600.0 || counts.stashed == 0,
                "{} in the stash at load {load}",
                counts.stashed
            );
        }
    }
}
#[test]
fn keys_of_every_kind() {
    let n = scaled(20_000);
    let kinds: [fn(u32) -> u32; 6] = [
        |i| i,
        |i| !i,
        |i| i.wrapping_mul(4096).wrapping_add(i >> 20),
        |i| i.rotate_left(12),
        |i| i.reverse_bits(),
        |i| (i % 12) * 334_214_459 + i / 12,
    ];
    for key in kinds {
        let keys = (0..n as u32).map(key).collect::<Vec<_>>();
        check_all(shape(n, 0.8, 3600.0), &keys, &numbers(n), &POLICIES[..3]);
    }
}
/// In more than one bin, and with the second copies far from the first.
#[test]
fn duplicates_of_every_kind() {
    for n in [scaled(2000), scaled(60_000)] {
        let distinct = random_keys(n, 6);
        let values = numbers(n);
        let twice = (0..n).map(|i| distinct[i % n.div_ceil(2)]).collect::<Vec<_>>();
        let zipf = (0..n).map(|i| {
            let u = (splitmix_at(1, i as u32) >> 11) as f64 / (1u64 << 53) as f64;
            distinct[((n as f64).powf(u) as usize - 1).min(n - 1)]
        });
        let tenth = (0..n).map(|i| distinct[if i % 10 == 3 { 0 } else { i }]);
        let mut one = distinct.clone();
        one[n - 1] = one[n / 3];
        // Room for all of them, or for the distinct ones only.
        for keys in [twice, zipf.collect(), tenth.collect(), one, vec![distinct[0]; n]] {
            let unique = oracle(&keys, &values, Duplicates::KeepLast).len();
            check_all(shape(n, 0.8, 3600.0), &keys, &values, &POLICIES[..3]);
            check_all(shape(unique, 0.9, 500.0), &keys, &values, &POLICIES[..3]);
        }
    }
}
/// The mixed key that looks like an empty slot, with values that make it one or not, in tables with and without room.
#[test]
fn all_ones() {
    let n = 200;
    let shapes = [(1, 1), (9, 7), (1, 20), (40, 1), (30_000, 3)];
    for (partitions, buckets) in shapes.into_iter().take(if cfg!(miri) { 2 } else { 5 }) {
        let shape = Shape { partitions, buckets, seed: 5 };
        let ambiguous = shape.unmixed(AMBIGUOUS);
        for others in [0, 1, 7, n] {
            for of_it in
                [&[u32::MAX][..], &[3], &[3, u32::MAX], &[u32::MAX, 3], &[u32::MAX, 3, u32::MAX], &[1, u32::MAX, 2]]
            {
                let mut keys = random_keys(others, 9);
                let mut values = numbers(others);
                for (i, &value) in of_it.iter().enumerate() {
                    let at = (i * others).min(keys.len());
                    keys.insert(at, ambiguous);
                    values.insert(at, value);
                }
                // All ones as another key's value.
                values[keys.len() / 2] =
                    if keys[keys.len() / 2] == ambiguous { values[keys.len() / 2] } else { u32::MAX };
                check_all(shape, &keys, &values, &POLICIES[..3]);
            }
        }
        // Looked up, but not there.
        check_all(shape, &random_keys(n, 9), &numbers(n), &POLICIES[..1]);
    }
}
/// Tables too small for their pairs.
#[test]
fn what_has_no_room_is_in_the_stash() {
    let n = scaled(5000).max(100);
    for (partitions, buckets) in [(1, 1), (1, 10), (7, 1), (50, 3), (20_000, 1), (1, scaled(1200).max(20) as u32)] {
        let shape = Shape { partitions, buckets, seed: 5 };
        let counts = check_all(shape, &random_keys(n, 8), &numbers(n), &POLICIES);
        let slots = shape.all_buckets() as usize * BUCKET;
        assert!(counts.stashed >= n.saturating_sub(slots));
        let twice = random_keys(n / 2, 8).repeat(2);
        check_all(shape, &twice, &numbers(twice.len()), &POLICIES[..3]);
    }
    // All in one partition of many, more than it holds.
    let shape = Shape { partitions: 100, buckets: 100, seed: 5 };
    let keys = (0..2000u32).map(|i| shape.unmixed(0x7000_0000 + i * 1000)).collect::<Vec<_>>();
    assert!(check_all(shape, &keys, &numbers(2000), &POLICIES[..3]).stashed >= 1600);
    // All in one bucket.
    let keys = (0..2000u32).map(|i| shape.unmixed(0x7000_0000 + i)).collect::<Vec<_>>();
    check_all(shape, &keys, &numbers(2000), &POLICIES[..3]);
}
#[test]
fn scratch_is_reused() {
    let n = scaled(60_000);
    let device = Device::cpu_with_threads(2).unwrap();
    let mut scratch = Scratch::new(Pages::default());
    let mut bytes = None;
    for seed in 0..3 {
        let keys = random_keys(n, seed);
        let built = built(&device, shape(n, 0.8, 3600.0), &keys, &keys, Duplicates::KeepLast, &mut scratch).unwrap();
        check(&device, &built, &oracle(&keys, &keys, Duplicates::KeepLast), n);
        // Which thread has the largest bin may differ, but not much.
        assert!(scratch.bytes() < 2 * *bytes.get_or_insert(scratch.bytes()));
    }
}
#[test]
fn wrong_lengths_are_errors() {
    let device = Device::cpu_with_threads(1).unwrap();
    let mut scratch = Scratch::new(Pages::System);
    let mut stash = Stash::default();
    let ok = Shape { partitions: 2, buckets: 3, seed: 0 };
    let mut go = |shape, values: &[u32], slots: usize| {
        let mut table = vec![0; slots];
        build(&device, shape, &[1, 2], values, Duplicates::KeepLast, &mut table, &mut stash, &mut scratch).map(|_| ())
    };
    assert!(go(ok, &[3, 4], 24).is_ok());
    assert!(matches!(go(ok, &[3], 24), Err(Error::Length { name: "values", found: 1, expected: 2, .. })));
    assert!(matches!(go(ok, &[3, 4], 23), Err(Error::Length { name: "table", found: 23, expected: 24, .. })));
    assert!(matches!(go(Shape { partitions: 0, ..ok }, &[3, 4], 0), Err(Error::Setting { field: "shape", .. })));
    let huge = Shape { partitions: 1 << 16, buckets: 1 << 16, seed: 0 };
    assert!(matches!(go(huge, &[3, 4], 0), Err(Error::TooMany { .. })));
    let (table, stash) = (vec![EMPTY; 24], Stash::default());
    assert!(Finder::new(ok, &table[1..], &stash).is_err());
    let finder = Finder::new(ok, &table, &stash).unwrap();
    assert!(matches!(finder.values(&device, &[1], &mut [], 0), Err(Error::Length { name: "values", .. })));
    assert!(matches!(finder.contains(&device, &[1], &mut [1, 2]), Err(Error::Length { name: "found", .. })));
    assert!(finder.find(&device, &[1], &mut [1], 0, &mut []).is_err());
}
