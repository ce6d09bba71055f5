//! Sets against a naive oracle: every size, load, instruction set and number of threads.
use super::*;
use crate::cpu::{Finder, Iter, OfSet};
use koel_kernels::hash::mix::splitmix_at;
use std::collections::HashSet;
use std::hash::Hash;

const SEED: u32 = 77;

/// A key type that a test runs on.
trait Tested: Member + Pod + Hash {}
impl<K: Member + Pod + Hash> Tested for K {}

const fn scaled(n: usize) -> usize {
    if cfg!(miri) { n / 50 } else { n }
}
fn shape<K: Member>(n: usize, load: f64, partition: f64) -> Shape {
    let partitions = (n as f64 / partition).ceil().max(1.0);
    let buckets = (n as f64 / load / K::SLOTS as f64 / partitions).ceil().max(1.0);
    Shape { partitions: partitions as u32, buckets: buckets as u32 }
}
/// Returns the key that looks like an empty slot.
fn ambiguous<K: Member>() -> K {
    unmixed(SEED, K::EMPTY)
}

/// Builds a set of keys in every way, compares it with a `HashSet`, and looks up these keys and
/// others.
fn check<K: Tested>(shape: Shape, keys: &[K], others: &[K], most_stashed: usize) {
    let expected = keys.iter().copied().collect::<HashSet<_>>();
    let queries = keys.iter().chain(others).copied().collect::<Vec<_>>();
    let is_in = queries.iter().map(|key| expected.contains(key)).collect::<Vec<_>>();
    for (threads, level) in
        [1, 3].into_iter().flat_map(|t| Level::available().into_iter().map(move |l| (t, l)))
    {
        let what = format!("{level:?}, {threads} threads, {shape:?}, {} keys", keys.len());
        let device = Device::cpu_with_threads(threads).unwrap();
        // Neither the previous content of a table nor its alignment may matter.
        let slots = shape.all_buckets() as usize * K::SLOTS as usize;
        let mut memory = vec![K::narrowed(5); slots + 1];
        let table = &mut memory[1..];
        let (mut stash, mut scratch) = (Stash::default(), Scratch::with_level(level));
        let counts =
            build(&device, shape, SEED, keys, most_stashed, table, &mut stash, &mut scratch)
                .unwrap()
                .unwrap_or_else(|| panic!("{what}: too many stashed"));
        assert_eq!(counts.keys, expected.len(), "{what}");
        assert_eq!(counts.duplicates, keys.len() - expected.len(), "{what}");
        assert_eq!(counts.stashed, stash.len(), "{what}");
        let mut entries = Iter::<OfSet<K>>::new(shape, SEED, table, &stash);
        assert_eq!(entries.clone().count(), expected.len(), "{what}");
        assert!(entries.all(|(key, ())| expected.contains(&key)), "{what}");
        for (place, bucket) in table.chunks_exact(K::SLOTS as usize).enumerate() {
            let fill = bucket.iter().take_while(|&&key| key != K::EMPTY).count();
            assert!(bucket[fill..].iter().all(|&key| key == K::EMPTY), "{what}: bucket {place}");
        }
        let set = Keys::new(shape, SEED, table, &stash).unwrap();
        let finder = Finder::new(set).with_level(level);
        for n in (0..queries.len().min(40)).chain([queries.len()]) {
            let mut found = vec![7; n];
            finder.contains(&device, &queries[..n], &mut found).unwrap();
            let flags = is_in[..n].iter().map(|&is_in| is_in as u8).collect::<Vec<_>>();
            assert!(found == flags, "{what}: {n} queries");
            let count = flags.iter().filter(|&&found| found != 0).count();
            assert_eq!(finder.count(&device, &queries[..n]).unwrap(), count, "{what}");
            let mut bits = vec![u32::MAX; n.div_ceil(32)];
            finder.contains_bits(&device, &queries[..n], &mut bits).unwrap();
            let bit = |i: usize| bits[i / 32] >> (i % 32) & 1 != 0;
            assert!((0..n).all(|i| bit(i) == is_in[i]), "{what}: {n} bits");
        }
    }
}
fn random<K: Member>(seed: u64, n: usize) -> Vec<K> {
    (0..n as u32).map(|i| K::narrowed(splitmix_at(seed, i))).collect()
}

fn every_size<K: Tested>() {
    for n in [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 511, 512, 513, 3000, 30_000, 100_000] {
        let n = scaled(n).max(n.min(40));
        for load in [0.5, 0.8, 0.95] {
            let shape = shape::<K>(n, load, if n % 2 == 0 { 300.0 } else { 3600.0 });
            check::<K>(shape, &random(3, n), &random(4, n.min(3000)), n.max(10));
        }
    }
}
fn keys_of_every_kind<K: Tested>() {
    let n = scaled(15_000);
    let bits = 8 * size_of::<K>() as u32;
    let columns: [&dyn Fn(u64) -> u64; 6] =
        [&|i| i, &|i| i << 10, &|i| i << (bits - 18), &|i| i * 3 % 1000, &|i| i / 50, &|i| {
            if i % 3 == 0 { 5 } else { i }
        }];
    for column in columns {
        let keys = (0..n as u64).map(|i| K::narrowed(column(i))).collect::<Vec<_>>();
        check::<K>(shape::<K>(n, 0.8, 500.0), &keys, &random(9, 1000), n);
    }
}
fn the_ambiguous_key<K: Tested>() {
    for n in [1, 16, 40, 3000] {
        for places in [vec![0], vec![n / 2], vec![n - 1], (0..n).collect()] {
            let mut keys = random::<K>(8, n);
            places.iter().for_each(|&i| keys[i] = ambiguous());
            let others = [ambiguous(), K::narrowed(1)];
            check::<K>(shape::<K>(n, 0.8, 100.0), &keys, &others, n);
            check::<K>(shape::<K>(n, 0.8, 100.0), &random(8, n), &others, n);
        }
    }
}
/// More keys than slots: the rest is stashed, or the build fails.
fn what_has_no_room_is_in_the_stash<K: Tested>() {
    for (partitions, buckets) in [(1, 1), (1, 9), (7, 3), (40, 20)] {
        let shape = Shape { partitions, buckets };
        let slots = shape.all_buckets() as usize * K::SLOTS as usize;
        let n = slots + slots / 10 + 3;
        // Copies of keys that have no room.
        let keys = [random::<K>(5, n), random(5, n)].concat();
        check::<K>(shape, &keys, &random(6, 500), n);
        let mut table = vec![K::EMPTY; slots];
        let (mut stash, mut scratch) = (Stash::default(), Scratch::default());
        let device = Device::cpu().unwrap();
        let built = build(&device, shape, SEED, &keys, 1, &mut table, &mut stash, &mut scratch);
        assert!(built.unwrap().is_none());
    }
}
fn combinations<K: Tested>() {
    for (n, m) in [(0, 0), (0, 9), (40, 0), (1, 1), (300, 3000), (scaled(60_000), scaled(50_000))] {
        let mut a = random::<K>(1, n);
        let mut b = [&random::<K>(1, n)[..n / 2], &random::<K>(2, m)[..]].concat();
        a.extend_from_within(..n / 3);
        if n % 2 == 0 {
            a.push(ambiguous());
        }
        if m % 2 == 0 {
            b.push(ambiguous());
        }
        let [of_a, of_b] = [&a, &b].map(|keys| keys.iter().copied().collect::<HashSet<K>>());
        let (device, total) = (Device::cpu_with_threads(2).unwrap(), a.len() + b.len());
        for level in Level::available() {
            for (what, expected) in [
                (how::DISTINCT, of_a.clone()),
                (how::UNION, &of_a | &of_b),
                (how::INTERSECTION, &of_a & &of_b),
                (how::DIFFERENCE, &of_a - &of_b),
            ] {
                let mut output = vec![K::narrowed(0); total];
                let mut scratch = [Scratch::with_level(level), Scratch::with_level(level)];
                let shape = shape::<K>(total, 0.7, 200.0);
                let arrays = [&a[..], &b[..]];
                let scratch = scratch.each_mut();
                let count =
                    combine(&device, shape, SEED, what, arrays, &mut output, scratch).unwrap();
                let found = output[..count].iter().copied().collect::<HashSet<_>>();
                assert_eq!(count, expected.len(), "{what} of {n} and {m}");
                assert!(found == expected, "{what} of {n} and {m}");
            }
        }
    }
}
macro_rules! of_both_types {
    ($($name:ident)*) => {
        mod keys32 {
            $(#[test] fn $name() { super::$name::<u32>(); })*
        }
        mod keys64 {
            $(#[test] fn $name() { super::$name::<u64>(); })*
        }
    };
}
of_both_types! {
    every_size keys_of_every_kind the_ambiguous_key what_has_no_room_is_in_the_stash combinations
}
#[test]
fn wrong_lengths_are_errors() {
    let shape = Shape { partitions: 1, buckets: 4 };
    let (device, mut stash, mut scratch) =
        (Device::cpu().unwrap(), Stash::default(), Scratch::default());
    let built = build::<u32>(&device, shape, 1, &[1], 9, &mut [0; 9], &mut stash, &mut scratch);
    assert!(built.is_err());
    assert!(Keys::<u64>::new(shape, 1, &[0; 9], &Stash::default()).is_err());
}
