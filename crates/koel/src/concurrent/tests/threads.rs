//! Threads that change the same map.
use crate::ConcurrentMap;
use crate::types::{SlotKey, SlotValue};
use koel_kernels::hash::mix::splitmix_at;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const ROUNDS: u32 = if cfg!(miri) { 60 } else { 40_000 };

/// Counters that threads increment, while others look them up: no increment is lost, and no
/// thread sees a counter decrease.
fn counters<K: SlotKey + From<u16>>() {
    const KEYS: u16 = 16;
    let map = ConcurrentMap::<K, u32>::new().unwrap();
    thread::scope(|scope| {
        for thread in 0..2 {
            let map = &map;
            scope.spawn(move || {
                for i in 0..ROUNDS {
                    let key = (splitmix_at(thread, i) % u64::from(KEYS)) as u16;
                    map.update(key.into(), |count| Some(count.unwrap_or(0) + 1)).unwrap();
                }
            });
            scope.spawn(move || {
                let mut seen = [0; KEYS as usize];
                for i in 0..ROUNDS {
                    let key = (splitmix_at(9 + thread, i) % u64::from(KEYS)) as u16;
                    let count = map.get(key.into()).unwrap_or(0);
                    assert!(count >= seen[usize::from(key)], "counter {key} decreased");
                    seen[usize::from(key)] = count;
                }
            });
        }
    });
    let sum = (0..KEYS).map(|key| map.get(key.into()).unwrap_or(0)).sum::<u32>();
    assert_eq!((sum, map.len()), (2 * ROUNDS, usize::from(KEYS).min(2 * ROUNDS as usize)));
}
#[test]
fn counters_only_grow() {
    counters::<u32>();
    counters::<u64>();
}

/// Keys that stay, in tables that others fill, empty and grow around them, so that pairs move: no
/// lookup misses one, or finds the value of another key. The value of a key is derived from it.
fn churn<K: SlotKey, V: SlotValue + PartialEq + std::fmt::Debug>(
    of: impl Fn(u64) -> (K, V) + Sync,
) {
    let (stay, come) = if cfg!(miri) { (40, 300) } else { (2000, 15_000) };
    let map = ConcurrentMap::<K, V>::new().unwrap();
    for i in 0..stay {
        let (key, value) = of(i);
        map.insert(key, value).unwrap();
    }
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let changes = (0..2).map(|thread| {
            let (map, of) = (&map, &of);
            scope.spawn(move || {
                let coming = stay + thread * come..stay + (thread + 1) * come;
                for round in 0..if cfg!(miri) { 1 } else { 3u64 } {
                    for i in coming.clone() {
                        let (key, value) = of(i);
                        assert_eq!(map.insert(key, value).unwrap(), None);
                        // Replaces one of those that stay, too.
                        let (key, value) = of(i % stay);
                        assert_eq!(map.insert(key, value).unwrap(), Some(value));
                    }
                    for i in coming.clone() {
                        let (key, value) = of(i);
                        assert_eq!(map.remove(key), Some(value), "round {round}");
                    }
                }
            })
        });
        let changes = changes.collect::<Vec<_>>();
        let (map, of, is_done) = (&map, &of, &is_done);
        scope.spawn(move || {
            for i in 0.. {
                if is_done.load(Relaxed) {
                    break;
                }
                let (key, value) = of(splitmix_at(7, i) % stay);
                assert_eq!(map.get(key), Some(value), "a present key");
                let (key, value) = of(stay + splitmix_at(8, i) % (2 * come));
                assert!(map.get(key).is_none_or(|found| found == value), "another key's value");
            }
        });
        scope.spawn(move || {
            while !is_done.load(Relaxed) {
                let pairs = map.pairs().unwrap();
                assert!(pairs.len() as u64 >= stay);
                thread::sleep(Duration::from_millis(5)); // changes wait for a copy
            }
        });
        let ends = changes.into_iter().map(|change| change.join()).collect::<Vec<_>>();
        is_done.store(true, Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
    assert_eq!(map.len() as u64, stay);
    assert!((0..stay).map(of).all(|(key, value)| map.get(key) == Some(value)));
}
#[test]
fn present_keys_are_never_missed() {
    churn(|i| (i as u32, !i as u32));
    churn(|i| (i, !i));
}

/// Threads that insert and remove the same keys: each insertion of an absent key is matched by at
/// most one removal, by the values that are returned.
#[test]
fn every_value_is_returned_once() {
    const THREADS: u64 = 3;
    let map = ConcurrentMap::<u64, u64>::new().unwrap();
    let mut returned = thread::scope(|scope| {
        let threads = (0..THREADS).map(|thread| {
            let map = &map;
            scope.spawn(move || {
                let mut returned = vec![];
                for i in 0..ROUNDS {
                    let random = splitmix_at(thread, i);
                    let value = u64::from(i) * THREADS + thread;
                    returned.extend(match random >> 32 & 1 {
                        0 => map.insert(random % 50, value).unwrap().or(Some(u64::MAX)),
                        _ => map.remove(random % 50),
                    });
                }
                returned
            })
        });
        let threads = threads.collect::<Vec<_>>();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let absent = returned.iter().filter(|&&value| value == u64::MAX).count();
    returned.retain(|&value| value != u64::MAX);
    let removed = returned.len();
    returned.sort_unstable();
    returned.dedup();
    assert_eq!(returned.len(), removed, "a value was returned twice");
    assert!(map.len() <= absent);
    assert!(map.pairs().unwrap().iter().all(|(_, value)| returned.binary_search(value).is_err()));
}
/// Clearing does not leave keys behind that were there, whatever moves.
#[test]
fn cleared_keys_are_gone() {
    let map = ConcurrentMap::<u32, u32>::new().unwrap();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (map, is_done) = (&map, &is_done);
        scope.spawn(move || {
            for i in 0.. {
                if is_done.load(Relaxed) {
                    break;
                }
                let key = 1_000_000 + i % 5000;
                map.insert(key, key).unwrap();
            }
        });
        for round in 0..if cfg!(miri) { 2 } else { 200 } {
            let keys = 0..if cfg!(miri) { 20 } else { 500 };
            for key in keys.clone() {
                map.insert(key, round).unwrap();
            }
            map.clear();
            assert!(keys.into_iter().all(|key| !map.contains_key(key)));
        }
        is_done.store(true, Relaxed);
    });
    map.clear();
    assert!(map.is_empty() && map.pairs().unwrap().is_empty());
}
