//! Sequences of operations, compared with a hash map of the standard library.
use crate::types::{SlotKey, SlotValue};
use crate::{ConcurrentMap, ConcurrentMapOptions, Device, Error, Map};
use koel_kernels::hash::mix::{splitmix_at, unmix64};
use std::collections::HashMap;
use std::fmt::Debug;

/// Operations of a sequence.
const OPERATIONS: u32 = if cfg!(miri) { 300 } else { 20_000 };

/// Compares a random sequence on keys and values made of random words. `keys`: how many there are.
fn compare<K, V>(seed: u64, keys: u64, key: impl Fn(u64) -> K, value: impl Fn(u64) -> V)
where
    K: SlotKey + Debug,
    V: SlotValue + Debug,
{
    let bits = |key: K| key.canonical().pack();
    let same = |a: Option<V>, b: Option<V>| assert_eq!(a.map(V::pack), b.map(V::pack));
    let mut map = ConcurrentMap::new().unwrap();
    let mut oracle = HashMap::new();
    for i in 0..OPERATIONS {
        let random = splitmix_at(seed, i);
        // Ascending, then shrinking: the map grows, and is emptied.
        let (k, v) = (key(splitmix_at(1, (random % keys) as u32)), value(random));
        let removes = if i / 4096 % 3 == 2 { 50 } else { 10 };
        match random >> 32 & 127 {
            kind if kind < removes => same(map.remove(k), oracle.remove(&bits(k))),
            60..80 => same(map.get(k), oracle.get(&bits(k)).copied()),
            80..85 => assert_eq!(map.contains_key(k), oracle.contains_key(&bits(k))),
            85..95 => {
                let to =
                    |was: Option<V>| (random >> 40 & 1 == 0 || was.is_none()).then_some(v).or(was);
                let was = oracle.get(&bits(k)).copied();
                oracle.extend(to(was).map(|v| (bits(k), v)));
                same(map.update(k, to).unwrap(), was);
            }
            95..100 => {
                let was = oracle.remove(&bits(k));
                same(map.update(k, |_| None).unwrap(), was);
            }
            100 if random >> 50 == 0 => {
                map.clear();
                oracle.clear();
            }
            101 if random >> 53 == 0 => map.shrink().unwrap(),
            102 if random >> 53 == 0 => map.free_replaced(),
            _ => same(map.insert(k, v).unwrap(), oracle.insert(bits(k), v)),
        }
        assert_eq!(map.len(), oracle.len());
    }
    let words = |(k, v): (K, V)| (bits(k), v.pack());
    let mut pairs = map.pairs().unwrap().into_iter().map(words).collect::<Vec<_>>();
    let mut expected = oracle.iter().map(|(&k, v)| (k, v.pack())).collect::<Vec<_>>();
    pairs.sort_unstable();
    expected.sort_unstable();
    assert_eq!(pairs, expected);
    let all = (0..keys).map(|i| key(splitmix_at(1, i as u32))).collect::<Vec<_>>();
    for (k, found) in all.iter().zip(map.get_many(&all).unwrap()) {
        same(found, oracle.get(&bits(*k)).copied());
    }
}

#[test]
fn sequences_of_every_width_match_the_oracle() {
    for seed in if cfg!(miri) { 0..1 } else { 0..3 } {
        let keys = [30, 3000, 15_000][seed as usize];
        compare(seed, keys, |word| word as u32, |word| word as u32);
        compare(seed, keys, |word| word, |word| word);
        compare(seed, keys, |word| word as u16, |word| word as u8);
        compare(seed, keys, |word| word as i64, |word| (word as i16, word & 1 == 0));
        compare(seed, keys, |word| word as u8, f64::from_bits);
        compare(seed, keys, |word| (word as u8, word as i32), |word| word as i8);
    }
}
#[test]
fn floats_are_keys_as_in_other_tables() {
    let map = ConcurrentMap::new().unwrap();
    map.insert(0.0, 1u8).unwrap();
    assert_eq!(map.insert(-0.0, 2).unwrap(), Some(1));
    assert_eq!(map.insert(f64::NAN, 3).unwrap(), None);
    assert_eq!(map.get(-f64::NAN), Some(3));
    assert_eq!(map.len(), 2);
}
#[test]
fn derived_types_are_keys_and_values() {
    #[derive(Clone, Copy, PartialEq, Debug, koel::Key)]
    struct Cell {
        x: i16,
        y: i16,
        level: u8,
    }
    let map = ConcurrentMap::new().unwrap();
    let cells = |n| (0..n).map(|i| Cell { x: i, y: -i, level: 7 });
    for cell in cells(500) {
        map.insert(cell, (cell.x, cell.level)).unwrap();
    }
    assert!(cells(500).all(|cell| map.get(cell) == Some((cell.x, 7))));
    assert_eq!(map.get(Cell { x: 1, y: 1, level: 7 }), None);
}
/// Keys in order, keys that differ in their highest bits only, and the lowest and highest ones.
#[test]
fn regular_keys_are_found() {
    let n = if cfg!(miri) { 200 } else { 20_000u64 };
    let ways: [fn(u64) -> u64; 4] = [|i| i, |i| i << 48, |i| i << 32 | 7, u64::wrapping_neg];
    for of in ways {
        let map = ConcurrentMap::new().unwrap();
        for i in 0..n {
            assert_eq!(map.insert(of(i), i).unwrap(), None);
        }
        assert!((0..n).all(|i| map.get(of(i)) == Some(i)));
        assert!((n..2 * n).all(|i| !map.contains_key(of(i))));
        assert_eq!(map.len() as u64, n);
        let keys = (0..n).map(of).collect::<Vec<_>>();
        assert_eq!(map.remove_many(&keys[1..]) as u64, n - 1);
        assert_eq!(map.pairs().unwrap(), [(of(0), 0)]);
    }
}
/// Keys whose hashes by a known seed differ in their lowest bits only. All have the same buckets.
#[test]
fn keys_against_a_known_seed_cost_one_doubling() {
    let seed = splitmix_at(5, 0);
    let options = ConcurrentMapOptions::default().with_seed(5).with_capacity(20_000);
    let map = ConcurrentMap::with_options(options).unwrap();
    let before = map.bytes();
    let n = if cfg!(miri) { 40 } else { 500u64 };
    let keys = (0..n).map(|i| unmix64(0xABCD << 48 | i) ^ seed).collect::<Vec<_>>();
    for (&key, i) in keys.iter().zip(0..) {
        assert_eq!(map.insert(key, i).unwrap(), None);
    }
    assert!(keys.iter().zip(0..).all(|(&key, i)| map.get(key) == Some(i)));
    assert_eq!(map.len() as u64, n);
    // Of one shard.
    assert!(map.bytes() < before + before / 4, "{} bytes after {before}", map.bytes());
}
#[test]
fn memory_of_replaced_tables_is_bounded_and_freed() {
    let n = if cfg!(miri) { 2000 } else { 100_000u32 };
    let mut map = ConcurrentMap::new().unwrap();
    for i in 0..n {
        map.insert(i, i).unwrap();
    }
    let grown = map.bytes();
    map.free_replaced();
    let current = map.bytes();
    assert!(current < grown && grown < 2 * current, "{grown} bytes, then {current}");
    for i in 100..n {
        map.remove(i);
    }
    assert_eq!(map.bytes(), current);
    map.shrink().unwrap();
    assert!(map.bytes() < current / 4);
    assert!((0..n).all(|i| map.contains_key(i) == (i < 100)));
}
#[test]
fn batches_are_their_operations_in_order() {
    let map = ConcurrentMap::new().unwrap();
    assert_eq!(map.insert_many(&[1u32, 2, 1], &[10u32, 20, 30]).unwrap(), 2);
    assert_eq!(map.get_many(&[1, 2, 3]).unwrap(), [Some(30), Some(20), None]);
    assert_eq!(map.remove_many(&[2, 2, 3]), 1);
    assert_eq!(map.get_many(&[]).unwrap(), []);
    assert!(matches!(map.insert_many(&[1], &[]), Err(Error::Length { found: 0, expected: 1, .. })));
    assert_eq!(map.pairs().unwrap(), [(1, 30)]);
}
#[test]
fn maps_become_shared_and_back() {
    let device = Device::cpu().unwrap();
    let keys = (0..1000u64).collect::<Vec<_>>();
    let values = keys.iter().map(|&key| key as f32).collect::<Vec<_>>();
    let shared = ConcurrentMap::from_map(&Map::build(&device, &keys, &values).unwrap()).unwrap();
    assert_eq!((shared.len(), shared.get(7)), (1000, Some(7.0)));
    shared.remove(7);
    let map = shared.to_map(&device).unwrap();
    assert_eq!(map.get(&[7, 8]).unwrap(), [None, Some(8.0)]);
}
