//! Histories of threads, searched for an order in which they are those of one map.
//!
//! Operations on different keys commute, so each key is searched alone (Wing and Gong 1993,
//! Herlihy and Wing 1990).
use crate::ConcurrentMap;
use koel_kernels::hash::mix::splitmix_at;
use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

/// What an operation did, with what it returned.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Did {
    Get(Option<u32>),
    Insert(u32, Option<u32>),
    Remove(Option<u32>),
    /// Adds 1 to a present value.
    Update(Option<u32>),
}
impl Did {
    /// Returns the value after the operation, if it may return what it did.
    fn after(self, value: Option<u32>) -> Option<Option<u32>> {
        let (was, then) = match self {
            Did::Get(was) => (was, value),
            Did::Insert(to, was) => (was, Some(to)),
            Did::Remove(was) => (was, None),
            Did::Update(was) => (was, value.map(|value| value + 1)),
        };
        (was == value).then_some(then)
    }
}
/// An operation of a history: when it was called, when it had returned, and what it did.
#[derive(Clone, Copy, Debug)]
struct Call {
    start: u64,
    end: u64,
    did: Did,
}
/// Returns whether the calls, at most 64, can be put in an order that respects their times and in
/// which each returns what it did. The key is absent at first.
fn is_linearizable(calls: &[Call]) -> bool {
    fn search(
        calls: &[Call],
        done: u64,
        value: Option<u32>,
        failed: &mut HashSet<(u64, Option<u32>)>,
    ) -> bool {
        let left = || (0..calls.len()).filter(|i| done >> i & 1 == 0);
        let Some(first_end) = left().map(|i| calls[i].end).min() else { return true };
        if !failed.insert((done, value)) {
            return false;
        }
        // Nothing may come before a call that had returned when it began.
        left().filter(|&i| calls[i].start <= first_end).any(|i| {
            let after = calls[i].did.after(value);
            after.is_some_and(|after| search(calls, done | 1 << i, after, failed))
        })
    }
    assert!(calls.len() <= 64);
    search(calls, 0, None, &mut HashSet::new())
}

#[test]
fn the_search_tells_histories_apart() {
    let call = |start, end, did| Call { start, end, did };
    let inserted = call(0, 10, Did::Insert(1, None));
    // Overlapping lookups may see the key or not, but in one order.
    assert!(is_linearizable(&[
        inserted,
        call(1, 2, Did::Get(None)),
        call(3, 4, Did::Get(Some(1)))
    ]));
    assert!(!is_linearizable(&[
        inserted,
        call(1, 2, Did::Get(Some(1))),
        call(3, 4, Did::Get(None))
    ]));
    assert!(!is_linearizable(&[inserted, call(11, 12, Did::Get(None))]));
    assert!(!is_linearizable(&[inserted, call(5, 12, Did::Update(Some(2)))]));
    assert!(is_linearizable(&[inserted, call(5, 12, Did::Remove(Some(1)))]));
}

/// Runs short bursts of threads on few keys of a map in which others come and go, so that pairs
/// move and tables grow.
fn histories<K: Copy + Send + Sync>(
    map: &(impl Fn(K, u64) -> Did + Sync),
    others: &(impl Fn(u64) + Sync),
    key: impl Fn(u64) -> K + Sync,
) {
    const THREADS: u64 = 3;
    const KEYS: u64 = 3;
    let bursts = if cfg!(miri) { 2 } else { 400 };
    for burst in 0..bursts {
        let (clock, barrier) = (AtomicU64::new(0), Barrier::new(THREADS as usize));
        let (clock, barrier, key) = (&clock, &barrier, &key);
        let calls = thread::scope(|scope| {
            let run = |thread| {
                scope.spawn(move || {
                    barrier.wait();
                    let of = |i| {
                        let random = splitmix_at(burst * THREADS + thread, i);
                        others(burst * 1000 + random % 1000);
                        let number = random % KEYS;
                        // Keys of their own in each burst: absent at first.
                        let key = key(burst * KEYS + number);
                        let start = clock.fetch_add(1, SeqCst);
                        let did = map(key, random >> 20);
                        (number, Call { start, end: clock.fetch_add(1, SeqCst), did })
                    };
                    (0..20).map(of).collect::<Vec<_>>()
                })
            };
            let running = (0..THREADS).map(run).collect::<Vec<_>>();
            running.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        for number in 0..KEYS {
            let of_key = calls.iter().filter(|(of, _)| *of == number);
            let of_key = of_key.map(|&(_, call)| call).collect::<Vec<_>>();
            assert!(is_linearizable(&of_key), "burst {burst}: {of_key:#?}");
        }
    }
}
/// Does what a random word says.
macro_rules! random_operation {
    ($map:expr) => {
        |key, random| match random % 8 {
            0..3 => Did::Get($map.get(key)),
            3..5 => {
                let value = (random >> 8) as u32;
                Did::Insert(value, $map.insert(key, value).unwrap())
            }
            5..7 => Did::Remove($map.remove(key)),
            _ => Did::Update($map.update(key, |value| value.map(|value| value + 1)).unwrap()),
        }
    };
}
#[test]
fn operations_on_a_key_have_one_order() {
    let map = ConcurrentMap::<u32, u32>::new().unwrap();
    let others = |i: u64| _ = map.insert(1 << 20 | i as u32, 0).unwrap();
    histories(&random_operation!(map), &others, |i| i as u32);
    let map = ConcurrentMap::<u64, u32>::new().unwrap();
    let others = |i: u64| match i % 3 {
        0 => _ = map.remove(1 << 40 | (i + 1)),
        _ => _ = map.insert(1 << 40 | i, 0).unwrap(),
    };
    histories(&random_operation!(map), &others, |i| i);
}
