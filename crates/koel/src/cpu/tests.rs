//! Tables against a naive oracle: every size, policy, load, instruction set and number of threads.
use super::*;
use crate::device::memory::collect;
use koel_kernels::hash::mix::{mix, splitmix_at};
use koel_kernels::table::layout::{BUCKET, EMPTY};
use rustc_hash::FxHashMap;
use std::hash::Hash;

const POLICIES: [Duplicates; 4] =
    [Duplicates::KeepLast, Duplicates::KeepFirst, Duplicates::Reject, Duplicates::Unchecked];
const SEED: u32 = 77;

/// A pairing of types that a test runs on.
trait Pairing: Layout<Key: Hash, Value: Hash> {
    fn key_of(word: u64) -> Self::Key {
        Self::Key::narrowed(word)
    }
    fn value_of(word: u64) -> Self::Value {
        Self::Value::narrowed(word)
    }
}
impl<L: Layout<Key: Hash, Value: Hash>> Pairing for L {}
/// Runs each test on each pairing, and others only where keys and values have the same width.
macro_rules! on_every_pairing {
    ($($name:ident)*; $($of_alike:ident)*) => {
        on_every_pairing! { @pairing narrow Narrow { $($name)* $($of_alike)* } }
        on_every_pairing! { @pairing wide_values Wide<u32, u64> { $($name)* } }
        on_every_pairing! { @pairing wide_keys Wide<u64, u32> { $($name)* } }
        on_every_pairing! { @pairing wide Wide<u64, u64> { $($name)* $($of_alike)* } }
    };
    (@pairing $module:ident $layout:ty { $($name:ident)* }) => {
        mod $module {
            use koel_kernels::table::layout::*;
            $(#[test] fn $name() { super::$name::<$layout>(); })*
        }
    };
}
on_every_pairing! {
    keys_of_every_kind duplicates_of_every_kind the_ambiguous_key
    what_has_no_room_is_in_the_stash wrong_lengths_are_errors;
    every_size every_load copies_among_other_pairs copies_share_a_place_in_the_stash
    scratch_is_reused
}

fn shape(n: usize, load: f64, partition: f64) -> Shape {
    let partitions = (n as f64 / partition).ceil().max(1.0);
    let buckets = (n as f64 / load / 4.0 / partitions).ceil().max(1.0);
    Shape { partitions: partitions as u32, buckets: buckets as u32 }
}
type Map<L> = FxHashMap<<L as Layout>::Key, <L as Layout>::Value>;
fn oracle<L: Pairing>(keys: &[L::Key], values: &[L::Value], policy: Duplicates) -> Map<L> {
    let mut map = FxHashMap::default();
    for (&key, &value) in keys.iter().zip(values) {
        if policy == Duplicates::KeepFirst {
            map.entry(key).or_insert(value);
        } else {
            map.insert(key, value);
        }
    }
    map
}
/// Returns the ambiguous key, if it is a key of this type.
fn ambiguous<L: Pairing>() -> Option<L::Key> {
    Some(L::unmixed(SEED, L::AMBIGUOUS)).filter(|&key| L::mixed(SEED, key) == L::AMBIGUOUS)
}

struct BuiltTable<L: Layout> {
    shape: Shape,
    table: Vec<u64>,
    stash: Stash<L>,
    counts: Counts,
}
fn built<L: Pairing>(
    device: &Device,
    shape: Shape,
    keys: &[L::Key],
    values: &[L::Value],
    policy: Duplicates,
    scratch: &mut Scratch<L>,
) -> Result<BuiltTable<L>> {
    // Neither the previous content of a table nor its alignment may matter.
    let words = shape.all_buckets() as usize * L::WORDS;
    let (mut table, skip) = (vec![0x1234_5678_9ABC_DEF0; words + 1], keys.len() % 2);
    let mut stash =
        Stash::from_pairs([L::pair(L::Mixed::narrowed(1), L::value_of(1))], Some(L::value_of(1)))?;
    let (how, slots) = (
        How { policy, reproducible: false, most_stashed: usize::MAX },
        &mut table[skip..][..words],
    );
    let counts =
        build(device, shape, SEED, keys, values, how, slots, &mut stash, scratch)?.unwrap();
    let table = table[skip..][..words].to_vec();
    Ok(BuiltTable { shape, table, stash, counts })
}
/// Checks the rules of the layout, then every lookup.
fn check<L: Pairing>(device: &Device, built: &BuiltTable<L>, expected: &Map<L>, given: usize) {
    let BuiltTable { shape, ref table, ref stash, counts } = *built;
    assert_eq!(counts.pairs, expected.len());
    assert_eq!(counts.duplicates, given - expected.len());
    assert_eq!(counts.stashed, stash.len());
    assert_eq!(stash.held(), ambiguous::<L>().and_then(|key| expected.get(&key).copied()));
    let held = Iter::<OfMap<L>>::new(shape, SEED, table, stash).collect::<Vec<_>>();
    assert_eq!(held.len(), expected.len());
    assert_eq!(&held.into_iter().collect::<FxHashMap<_, _>>(), expected);
    for (place, bucket) in table.chunks_exact(L::WORDS).enumerate() {
        let fill = bucket[..4].iter().position(|&head| head == EMPTY).unwrap_or(4);
        assert!(bucket[fill..4].iter().all(|&head| head == EMPTY), "empty slots are last");
        assert!(
            bucket[4..].iter().skip(fill).all(|&value| value == EMPTY),
            "and hold no old values"
        );
        for &head in &bucket[..fill] {
            assert_ne!(L::key_in(head), L::AMBIGUOUS);
            let (h, at) = (L::hash(L::key_in(head)), place as u32 % shape.buckets);
            let first = shape.first(h);
            assert_eq!(shape.partition(h), place as u32 / shape.buckets);
            assert!(at == first || at == shape.other(h, first));
        }
    }
    let mut queries = expected.keys().copied().collect::<Vec<_>>();
    queries.extend((0..queries.len() as u32 / 2 + 40).map(|i| L::key_of(splitmix_at(99, i))));
    queries.extend([0, u64::MAX].map(L::key_of).into_iter().chain(ambiguous::<L>()));
    queries.push(L::unmixed(SEED, L::Mixed::narrowed(0)));
    let finder = Finder::new(Tables::new(shape, SEED, table, stash).unwrap());
    let wanted = queries.iter().map(|q| expected.get(q).copied()).collect::<Vec<_>>();
    assert!(queries.iter().zip(&wanted).all(|(&q, &wanted)| finder.get(q) == wanted));
    let missing = L::value_of(5);
    let expected_values = wanted.iter().map(|v| v.unwrap_or(missing)).collect::<Vec<_>>();
    let expected_found = wanted.iter().map(|v| v.is_some() as u8).collect::<Vec<_>>();
    for level in Level::available() {
        let finder = finder.with_level(level);
        // Inputs of any length.
        for n in (0..queries.len().min(40)).chain([queries.len()]) {
            let (queries, wanted_found) = (&queries[..n], &expected_found[..n]);
            let (mut values, mut found) = (vec![L::value_of(1); n], vec![2; n]);
            finder.find(device, queries, &mut values, missing, &mut found).unwrap();
            assert_eq!(
                (&values[..], &found[..]),
                (&expected_values[..n], wanted_found),
                "{level:?}"
            );
            values.fill(L::value_of(1));
            finder.values(device, queries, &mut values, missing).unwrap();
            assert_eq!(values, &expected_values[..n], "{level:?}");
            let options =
                collect(n, |to| finder.options(device, queries, to, |bits| bits)).unwrap();
            assert_eq!(options, &wanted[..n], "{level:?}");
            found.fill(2);
            finder.contains(device, queries, &mut found).unwrap();
            assert_eq!(found, wanted_found, "{level:?}");
            let mut bits = vec![0xAAAA_5555; n.div_ceil(32)];
            finder.contains_bits(device, queries, &mut bits).unwrap();
            let word =
                |flags: &[u8]| flags.iter().rev().fold(0, |word, &flag| word << 1 | flag as u32);
            assert_eq!(bits, wanted_found.chunks(32).map(word).collect::<Vec<_>>(), "{level:?}");
            let count = wanted_found.iter().map(|&flag| flag as usize).sum::<usize>();
            assert_eq!(finder.count(device, queries).unwrap(), count, "{level:?}");
        }
    }
}
/// Builds with every instruction set and number of threads, alone and in bins: the bytes are the
/// same, and the answers are right.
fn check_all<L: Pairing>(
    shape: Shape,
    keys: &[L::Key],
    values: &[L::Value],
    policies: &[Duplicates],
) -> Counts {
    let mut counts = Counts::default();
    for &policy in policies {
        let expected = oracle::<L>(keys, values, policy);
        let mut reference: Option<BuiltTable<L>> = None;
        for &threads in if cfg!(miri) { &[1][..] } else { &[1, 3] } {
            let device = Device::cpu_with_threads(threads).unwrap();
            for level in Level::available() {
                let new = || Scratch::with_level(Pages::System, level);
                let (mut alone, mut in_bins) = (new(), new().in_bins());
                // Threads matter in bins only.
                let alone_too = [false, true, true];
                for is_in_bins in alone_too.into_iter().skip((threads > 1) as usize) {
                    let scratch = if is_in_bins { &mut in_bins } else { &mut alone };
                    let result = built::<L>(&device, shape, keys, values, policy, scratch);
                    let built = match result {
                        Err(Error::DuplicateKey { key, first, second }) => {
                            assert!(policy == Duplicates::Reject && first < second);
                            let is = |k: L::Key| u128::from(k.widened()) == key;
                            assert!(is(keys[first]) && is(keys[second]));
                            assert!(
                                !keys[..second]
                                    .iter()
                                    .enumerate()
                                    .any(|(i, &k)| is(k) && i != first)
                            );
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
                                && reference.stash.slots() == built.stash.slots()
                                && reference.stash.held() == built.stash.held()
                                && reference.counts == built.counts,
                            "{policy:?}, {threads} threads, {level:?}"
                        ),
                    }
                }
            }
        }
        assert_eq!(
            reference.is_none(),
            policy == Duplicates::Reject && expected.len() < keys.len()
        );
    }
    counts
}
fn random_keys<L: Pairing>(n: usize, seed: u32) -> Vec<L::Key> {
    // Distinct, because the low half is bijective.
    (0..n as u32)
        .map(|i| L::key_of(splitmix_at(seed.into(), i) << 32 | mix(i ^ seed) as u64))
        .collect()
}
fn numbers<L: Pairing>(n: usize) -> Vec<L::Value> {
    (0..n as u64).map(|i| L::value_of(i.wrapping_mul(0x9E37_79B1_9E37_79B1))).collect()
}
const fn scaled(n: usize) -> usize {
    if cfg!(miri) { n / 200 } else { n }
}

fn every_size<L: Pairing>() {
    for n in [
        0,
        1,
        2,
        3,
        4,
        5,
        15,
        16,
        17,
        63,
        100,
        511,
        512,
        513,
        scaled(3000),
        scaled(40_000),
        scaled(100_000),
    ] {
        let policies = if n < 5000 { &POLICIES } else { &POLICIES[..1] };
        check_all::<L>(shape(n, 0.8, 3600.0), &random_keys::<L>(n, 3), &numbers::<L>(n), policies);
    }
}
fn every_load<L: Pairing>() {
    let n = scaled(15_000);
    for load in [0.5, 0.7, 0.8, 0.9, 0.95] {
        for partition in [300.0, 3600.0] {
            let (keys, values) = (random_keys::<L>(n, 4), numbers::<L>(n));
            let counts = check_all::<L>(shape(n, load, partition), &keys, &values, &POLICIES[..1]);
            assert!(
                load > 0.8 || partition < 3600.0 || counts.stashed == 0,
                "{} in the stash at load {load}",
                counts.stashed
            );
        }
    }
}
fn keys_of_every_kind<L: Pairing>() {
    let n = scaled(10_000);
    let kinds: [fn(u64) -> u64; 8] = [
        |i| i,
        |i| !i,
        |i| i << 32,
        |i| i << 40 | i,
        |i| i.wrapping_mul(4096).wrapping_add(i >> 20),
        |i| (i as u32).rotate_left(12).into(),
        |i| i.reverse_bits() | (i as u32).reverse_bits() as u64,
        |i| (i % 12) * 334_214_459 + i / 12,
    ];
    for key in kinds {
        let mut keys = (0..n as u64).map(|i| L::key_of(key(i))).collect::<Vec<_>>();
        keys.sort_unstable();
        keys.dedup();
        check_all::<L>(shape(n, 0.8, 3600.0), &keys, &numbers::<L>(keys.len()), &POLICIES[..3]);
    }
}
/// In more than one bin, and with the second copies far from the first.
fn duplicates_of_every_kind<L: Pairing>() {
    for n in [scaled(2000), scaled(12_000)] {
        let distinct = random_keys::<L>(n, 6);
        let values = numbers::<L>(n);
        let twice = (0..n).map(|i| distinct[i % n.div_ceil(2)]).collect::<Vec<_>>();
        let zipf = (0..n).map(|i| {
            let u = (splitmix_at(1, i as u32) >> 11) as f64 / (1u64 << 53) as f64;
            distinct[((n as f64).powf(u) as usize - 1).min(n - 1)]
        });
        let tenth = (0..n).map(|i| distinct[if i % 10 == 3 { 0 } else { i }]);
        // Three times in a row, and ever more often.
        let thrice = (0..n).map(|i| distinct[i / 3]).collect::<Vec<_>>();
        let runs = (0..n).map(|i| distinct[i.isqrt()]).collect::<Vec<_>>();
        let mut one = distinct.clone();
        one[n - 1] = one[n / 3];
        // Room for all of them, or for the distinct ones only.
        let tenth = tenth.collect();
        for keys in [twice, zipf.collect(), tenth, thrice, runs, one, vec![distinct[0]; n]] {
            let unique = oracle::<L>(&keys, &values, Duplicates::KeepLast).len();
            check_all::<L>(shape(n, 0.8, 3600.0), &keys, &values, &POLICIES[..3]);
            check_all::<L>(shape(unique, 0.9, 500.0), &keys, &values, &POLICIES[..3]);
        }
    }
}
/// Copies that come unpredictably, of pairs that came this far before or of the ambiguous key; of
/// neighbours, and of pairs with no room.
fn copies_among_other_pairs<L: Pairing>() {
    let n = scaled(8000);
    let (distinct, values) = (random_keys::<L>(n, 7), numbers::<L>(n));
    let ambiguous = ambiguous::<L>().unwrap_or(distinct[0]);
    for distance in [1, 2, 7, 300, n / 2] {
        let mut keys = distinct.clone();
        for i in distance..n {
            match splitmix_at(3, i as u32) % 100 {
                0 => keys[i] = ambiguous,
                1..40 => keys[i] = keys[i - distance],
                _ => {}
            }
        }
        let unique = oracle::<L>(&keys, &values, Duplicates::KeepLast).len();
        check_all::<L>(shape(unique, 0.95, 1000.0), &keys, &values, &POLICIES[..3]);
    }
}
/// The key whose mixed form looks like an empty slot, with values that do or do not look like one,
/// in tables with and without room. Some pairings have no such key.
fn the_ambiguous_key<L: Pairing>() {
    let n = 200;
    let ambiguous = ambiguous::<L>().unwrap_or(L::key_of(u64::MAX));
    let shapes = [(1, 1), (9, 7), (1, 20), (40, 1), (6_000, 3)];
    for (partitions, buckets) in shapes.into_iter().take(if cfg!(miri) { 2 } else { 5 }) {
        let shape = Shape { partitions, buckets };
        for others in if partitions > 1000 { vec![n] } else { vec![0, 1, 7, n] } {
            for of_it in [
                &[u64::MAX][..],
                &[3],
                &[3, u64::MAX],
                &[u64::MAX, 3],
                &[u64::MAX, 3, u64::MAX],
                &[1, u64::MAX, 2],
            ] {
                let mut keys = random_keys::<L>(others, 9);
                let mut values = numbers::<L>(others);
                for (i, &value) in of_it.iter().enumerate() {
                    let at = (i * others).min(keys.len());
                    keys.insert(at, ambiguous);
                    values.insert(at, L::value_of(value));
                }
                // All ones as another key's value.
                let middle = keys.len() / 2;
                if keys[middle] != ambiguous {
                    values[middle] = L::value_of(u64::MAX);
                }
                check_all::<L>(shape, &keys, &values, &POLICIES[..3]);
            }
        }
        // Looked up, but absent.
        check_all::<L>(shape, &random_keys::<L>(n, 9), &numbers::<L>(n), &POLICIES[..1]);
    }
}
/// Tables too small for their pairs.
fn what_has_no_room_is_in_the_stash<L: Pairing>() {
    let n = scaled(3000).max(100);
    for (partitions, buckets) in
        [(1, 1), (1, 10), (7, 1), (50, 3), (6_000, 1), (1, scaled(700).max(20) as u32)]
    {
        let shape = Shape { partitions, buckets };
        let counts = check_all::<L>(shape, &random_keys::<L>(n, 8), &numbers::<L>(n), &POLICIES);
        let slots = shape.all_buckets() as usize * BUCKET;
        assert!(counts.stashed >= n.saturating_sub(slots));
        let twice = random_keys::<L>(n / 2, 8).repeat(2);
        check_all::<L>(shape, &twice, &numbers::<L>(twice.len()), &POLICIES[..3]);
    }
    // Keys of adjacent hashes, if keys have as many bits as their mixed forms.
    if size_of::<L::Key>() < size_of::<L::Mixed>() {
        return;
    }
    let of_hash = |h: u64| L::unmixed(SEED, L::Mixed::narrowed(h << L::HASH_SHIFT | 5));
    // All in one partition of many, more than it holds.
    let shape = Shape { partitions: 100, buckets: 100 };
    let keys = (0..2000).map(|i| of_hash(0x7000_0000 + i * 1000)).collect::<Vec<_>>();
    assert!(check_all::<L>(shape, &keys, &numbers::<L>(2000), &POLICIES[..3]).stashed >= 1600);
    // All in one bucket.
    let keys = (0..2000).map(|i| of_hash(0x7000_0000 + i)).collect::<Vec<_>>();
    check_all::<L>(shape, &keys, &numbers::<L>(2000), &POLICIES[..3]);
}
/// Copies of keys although the caller promised that there are none: as many as there are, the stash
/// holds each key once, and its chains stay short.
fn copies_share_a_place_in_the_stash<L: Pairing>() {
    let device = Device::cpu_with_threads(2).unwrap();
    for (n, distinct) in [(3_000, 1), (3_000, 20), (100_000, 3)] {
        let keys = (0..n).map(|i| L::key_of(i % distinct)).collect::<Vec<_>>();
        let values = numbers::<L>(keys.len());
        let shape = shape(keys.len(), 0.8, 1000.0);
        let scratch = &mut Scratch::<L>::new(Pages::System);
        let built = built(&device, shape, &keys, &values, Duplicates::Unchecked, scratch).unwrap();
        assert!(built.stash.len() <= distinct as usize, "{} of {distinct}", built.stash.len());
        assert_eq!(built.counts.pairs + built.counts.duplicates, keys.len());
        let pairs = Iter::<OfMap<L>>::new(shape, SEED, &built.table, &built.stash);
        assert_eq!(pairs.count(), built.counts.pairs);
    }
}
fn scratch_is_reused<L: Pairing>() {
    let n = scaled(60_000);
    let device = Device::cpu_with_threads(2).unwrap();
    let mut scratch = Scratch::<L>::new(Pages::default()).in_bins();
    let mut bytes = None;
    for seed in 0..3 {
        let (keys, values) = (random_keys::<L>(n, seed), numbers::<L>(n));
        let shape = shape(n, 0.8, 3600.0);
        let built =
            built(&device, shape, &keys, &values, Duplicates::KeepLast, &mut scratch).unwrap();
        check(&device, &built, &oracle::<L>(&keys, &values, Duplicates::KeepLast), n);
        // Which thread gets the largest bin may vary, but the size not by much.
        assert!(scratch.bytes() < 2 * *bytes.get_or_insert(scratch.bytes()));
    }
}
fn wrong_lengths_are_errors<L: Pairing>() {
    let device = Device::cpu_with_threads(1).unwrap();
    let mut scratch = Scratch::<L>::new(Pages::System);
    let mut stash = Stash::default();
    let ok = Shape { partitions: 2, buckets: 3 };
    let (keys, both) = ([1, 2].map(L::key_of), [3, 4].map(L::value_of));
    let words = 6 * L::WORDS;
    let mut go = |shape, values: &[L::Value], words: usize| {
        let mut table = vec![0; words];
        let how =
            How { policy: Duplicates::KeepLast, reproducible: false, most_stashed: usize::MAX };
        build(&device, shape, SEED, &keys, values, how, &mut table, &mut stash, &mut scratch)
            .map(|_| ())
    };
    assert!(go(ok, &both, words).is_ok());
    assert!(matches!(
        go(ok, &both[..1], words),
        Err(Error::Length { name: "values", found: 1, expected: 2, .. })
    ));
    let error = go(ok, &both, words - 1);
    assert!(matches!(
        error,
        Err(Error::Length { name: "table", found, expected, .. })
            if (found, expected) == (words - 1, words)
    ));
    assert!(matches!(
        go(Shape { partitions: 0, ..ok }, &both, 0),
        Err(Error::Setting { field: "shape", .. })
    ));
    let huge = Shape { partitions: 1 << 16, buckets: 1 << 16 };
    assert!(matches!(go(huge, &both, 0), Err(Error::TooMany { .. })));
    let (table, stash) = (vec![EMPTY; words], Stash::<L>::default());
    assert!(Tables::new(ok, SEED, &table[1..], &stash).is_err());
    let finder = Finder::new(Tables::new(ok, SEED, &table, &stash).unwrap());
    let (key, value) = ([keys[0]], both[0]);
    assert!(matches!(
        finder.values(&device, &key, &mut [], value),
        Err(Error::Length { name: "values", .. })
    ));
    assert!(matches!(
        finder.contains(&device, &key, &mut [1, 2]),
        Err(Error::Length { name: "found", .. })
    ));
    assert!(matches!(
        finder.contains_bits(&device, &key, &mut []),
        Err(Error::Length { name: "bits", .. })
    ));
    assert!(finder.find(&device, &key, &mut [value], value, &mut []).is_err());
}
