//! The set of Alcantara et al. 2011, and what its compacting table adds: slots of 32 bits, keys
//! that may repeat.
//!
//! Kernels in the order of the build: insert, clean, (scan), number; then find.
use super::{CuckooMut, ListQueries, pair, status};
use crate::hash::Functions;
use koel_simt::{Buf, In, Thread, kernel};

/// An empty slot. The key that looks like it is kept outside the slots.
pub const NO_KEY: u32 = u32::MAX;

/// A set: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SetRef {
    /// From keys to slots.
    pub functions: Functions,
    /// The slots.
    pub slots: In<u32>,
    /// 1: it holds the key of all ones.
    pub all_ones: u32,
}

/// A compacting table: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct CompactingRef {
    /// From keys to slots.
    pub functions: Functions,
    /// The slots: keys beside their numbers.
    pub slots: In<u64>,
    /// 1: it holds the key of all ones.
    pub all_ones: u32,
    /// The number that this key has then.
    pub last: u32,
}

/// Inserts key `i` and what it evicts, until a slot was empty or held the same key.
#[kernel(image = CLASSIC, threads = 64, independent)]
pub fn set_insert(t: Thread, keys: In<u32>, n: u32, max_exchanges: u32, table: CuckooMut<u32>) {
    let CuckooMut { functions, slots, status } = table;
    let i = t.global_id();
    if i >= n {
        return;
    }
    let mut key = keys.get_stream(i);
    if key == NO_KEY {
        status.store_relaxed(status::ALL_ONES, 1);
        return;
    }
    let (mut f, mut step) = (0, 0);
    while step < max_exchanges {
        let at = functions.slot(f, key);
        let there = slots.swap(at, key);
        if there == NO_KEY || there == key {
            return;
        }
        key = there;
        f = super::random_walk::next_function(key, at, 0, &functions, false);
        step += 1;
    }
    status.fetch_add(status::FAILED, 1);
}

/// Slot `i` is emptied if an earlier one of its key's slots holds the key too; `present[i]` tells
/// whether it holds one still.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn set_clean(t: Thread, functions: Functions, table: Buf<u32>, present: Buf<u32>) {
    let i = t.global_id();
    if i >= functions.slots() {
        return;
    }
    let key = table.load_relaxed(i);
    let mut keeps = key != NO_KEY;
    let mut f = 0;
    while keeps && f < functions.count() {
        let at = functions.slot(f, key);
        if at == i {
            break;
        }
        // The first copy is never emptied, so that all others see it.
        keeps = table.load_relaxed(at) != key;
        f += 1;
    }
    if !keeps && key != NO_KEY {
        table.store_relaxed(i, NO_KEY);
    }
    present.store(i, keeps as u32);
}

/// A slot beside the number of its key, and the list of the keys in the order of their numbers.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn compacting_number(
    t: Thread,
    slots: u32,
    table: In<u32>,
    ids: In<u32>,
    entries: Buf<u64>,
    unique: Buf<u32>,
) {
    let i = t.global_id();
    if i >= slots {
        return;
    }
    let key = table.get(i);
    let mut entry = super::EMPTY;
    if key != NO_KEY {
        entry = pair(key, ids.get(i));
        unique.store(ids.get(i), key);
    }
    entries.store_stream(i, entry);
}

/// Looks up query `i`.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn set_find(t: Thread, table: SetRef, queries: ListQueries) {
    let SetRef { functions, slots, all_ones } = table;
    let i = t.global_id();
    if i >= queries.n {
        return;
    }
    let key = queries.keys.get_stream(i);
    let (mut f, mut hit) = (0, all_ones != 0 && key == NO_KEY);
    while f < functions.count() && !hit {
        hit = key != NO_KEY && slots.get(functions.slot(f, key)) == key;
        f += 1;
    }
    queries.answer(i, 0, hit as u32);
}

/// Looks up query `i` in the compacting table: its number.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn compacting_find(t: Thread, table: CompactingRef, queries: ListQueries) {
    let CompactingRef { functions, slots, all_ones, last } = table;
    let i = t.global_id();
    if i >= queries.n {
        return;
    }
    let key = queries.keys.get_stream(i);
    let mut hit = all_ones != 0 && key == NO_KEY;
    let (mut f, mut id) = (0, if hit { last } else { 0 });
    while f < functions.count() && !hit {
        let e = slots.get(functions.slot(f, key));
        if super::holds(e, key) {
            (id, hit) = (super::value_of(e), true);
        }
        f += 1;
    }
    queries.answer(i, id, hit as u32);
}
