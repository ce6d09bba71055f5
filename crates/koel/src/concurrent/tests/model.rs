//! The protocol of the buckets under a model checker, which tries all orders of one or two
//! preemptions, and every value that a load may return in the memory model.
//!
//! The table is that of maps, with the checker's words, four buckets and two slots in each.
use crate::concurrent::bucket::{Bucket, OneLine, TwoLines};
use crate::concurrent::change::{Change, Refused};
use crate::concurrent::table::{Hashing, Table};
use crate::concurrent::word::Word;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use loom::thread;

/// A word of the model checker.
#[derive(Debug)]
struct Modelled(AtomicU64);
impl Word for Modelled {
    const SLOTS: usize = 2;
    fn new(value: u64) -> Modelled {
        Modelled(AtomicU64::new(value))
    }
    fn load(&self) -> u64 {
        self.0.load(Acquire)
    }
    fn store(&self, value: u64) {
        self.0.store(value, Release);
    }
    fn exchange(&self, from: u64, to: u64) -> bool {
        self.0.compare_exchange(from, to, Acquire, Relaxed).is_ok()
    }
    fn pause(_: u32) {
        thread::yield_now();
    }
}

const HASHING: Hashing = Hashing { seed: 0, shard_bits: 1, redrawn: 0 };
fn table<B: Bucket>() -> Table<B> {
    Table::new(4, HASHING).unwrap()
}
/// Returns keys by their buckets, `[first, second]`, each key once.
fn keys(of: &[[usize; 2]]) -> Vec<u64> {
    // Of one table of words of the machine, whose places are the same.
    let table = table::<OneLine<std::sync::atomic::AtomicU64>>();
    let mut left = (1..).map(|key| {
        let place = table.place(HASHING.hash(key));
        (key, [place.first, table.second(place)])
    });
    of.iter().map(|of| left.find(|(_, places)| places == of).unwrap().0).collect()
}
fn get<B: Bucket>(table: &Table<B>, key: u64) -> Option<u64> {
    table.get(table.place(HASHING.hash(key)), key)
}
fn change<B: Bucket>(table: &Table<B>, key: u64, to: Option<u64>) -> Option<u64> {
    loop {
        match table.change(table.place(HASHING.hash(key)), Change { key, only_if: None, to }) {
            Ok(was) => return was,
            Err(Refused::Busy) => thread::yield_now(),
            Err(refused) => panic!("{refused:?}"),
        }
    }
}
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(model);
}

/// A pair that moves to its second bucket, and back, is found at all times.
fn moves<B: Bucket<Word = Modelled> + 'static>() {
    let all = keys(&[[0, 2], [0, 2], [1, 0], [1, 0], [0, 1], [2, 1], [2, 1]]);
    check(1, move || {
        let table = Arc::new(table::<B>());
        let [moved, stays, one, other, new, beside, last] = all[..] else { unreachable!() };
        let present = [moved, stays, one, other];
        for key in present {
            change(&table, key, Some(key + 100));
        }
        let lookups = {
            let table = table.clone();
            thread::spawn(move || {
                assert_eq!(get(&table, moved), Some(moved + 100), "a present key");
            })
        };
        // Both buckets of the new key are full: a pair of bucket 0 moves to bucket 2.
        assert_eq!(change(&table, new, Some(new + 100)), None);
        assert!(table.buckets[2].slot_of(moved).is_some());
        assert_eq!(change(&table, new, None), Some(new + 100));
        // Now bucket 2 is full, and the pair moves back.
        for key in [beside, last] {
            assert_eq!(change(&table, key, Some(key + 100)), None);
        }
        assert!(table.buckets[0].slot_of(moved).is_some());
        lookups.join().unwrap();
        for key in [moved, stays, one, other, beside, last] {
            assert_eq!(get(&table, key), Some(key + 100));
        }
    });
}
#[test]
fn a_key_that_moves_is_found() {
    moves::<OneLine<Modelled>>();
    moves::<TwoLines<Modelled>>();
}
/// A slot that another key takes over never lends its value to the key before.
#[test]
fn a_slot_is_reused() {
    let all = keys(&[[0, 1], [0, 1]]);
    check(2, move || {
        let table = Arc::new(table::<TwoLines<Modelled>>());
        let [before, after] = all[..] else { unreachable!() };
        change(&table, before, Some(1));
        let lookup = {
            let table = table.clone();
            thread::spawn(move || {
                assert!([None, Some(1)].contains(&get(&table, before)));
            })
        };
        assert_eq!(change(&table, before, None), Some(1));
        assert_eq!(change(&table, after, Some(2)), None);
        lookup.join().unwrap();
    });
}
/// A key that is removed and inserted again: no lookup sees it before it is there, and then not.
#[test]
fn a_key_returns() {
    let all = keys(&[[0, 1]]);
    check(2, move || {
        let table = Arc::new(table::<TwoLines<Modelled>>());
        let key = all[0];
        change(&table, key, Some(1));
        let lookups = {
            let table = table.clone();
            thread::spawn(move || {
                let [first, second] = [get(&table, key), get(&table, key)];
                assert!(first != Some(2) || second == Some(2), "{second:?} after {first:?}");
            })
        };
        assert_eq!(change(&table, key, None), Some(1));
        assert_eq!(change(&table, key, Some(2)), None);
        lookups.join().unwrap();
    });
}
/// Two threads that change keys whose buckets cross neither lose a change nor wait for ever.
#[test]
fn crossing_changes_are_made() {
    let all = keys(&[[0, 1], [0, 1], [0, 1], [1, 0], [1, 0]]);
    check(2, move || {
        let table = Arc::new(table::<OneLine<Modelled>>());
        let [a, b, over, c, crossing] = all[..] else { unreachable!() };
        for key in [a, b, c] {
            change(&table, key, Some(1));
        }
        let other = {
            let table = table.clone();
            thread::spawn(move || {
                change(&table, c, None);
                change(&table, crossing, Some(3));
            })
        };
        change(&table, a, None);
        change(&table, over, Some(2));
        other.join().unwrap();
        let found = [a, b, over, c, crossing].map(|key| get(&table, key));
        assert_eq!(found, [None, Some(1), Some(2), None, Some(3)]);
    });
}
