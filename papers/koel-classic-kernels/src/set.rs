//! The set of Alcantara et al. 2011, and the kernels that its compacting table adds. Slots have 32
//! bits; keys may repeat.
//!
//! Kernels in build order: insert, clean, (scan), number; then find.
use super::{CuckooMut, ListQueries, pair, status};
use koel_kernels::hash::Functions;
use koel_simt::{Buf, In, Thread, kernel};

/// An empty slot. The key equal to it is kept outside the slots.
pub const NO_KEY: u32 = u32::MAX;

/// A set: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SetRef {
    /// Hash functions from keys to slots.
    pub functions: Functions,
    /// Slots.
    pub slots: In<u32>,
    /// 1 if the set holds the all-ones key, else 0.
    pub all_ones: u32,
}

/// A compacting table: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct CompactingRef {
    /// Hash functions from keys to slots.
    pub functions: Functions,
    /// Slots, each a key with its number.
    pub slots: In<u64>,
    /// 1 if the table holds the all-ones key, else 0.
    pub all_ones: u32,
    /// Number of the all-ones key, if the table holds it.
    pub last: u32,
}

/// Inserts key `i` and what it evicts, until an exchange finds an empty slot or the same key.
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

/// Empties slot `i` if an earlier slot of its key also holds the key. Sets `present[i]` to 1 if the
/// slot still holds a key, else to 0.
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
        // The first copy is never emptied, so all others see it.
        keeps = table.load_relaxed(at) != key;
        f += 1;
    }
    if !keeps && key != NO_KEY {
        table.store_relaxed(i, NO_KEY);
    }
    present.store(i, keeps as u32);
}

/// Writes each slot as its key with its number, and lists the keys by number.
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

/// Looks up the number of query `i` in the compacting table.
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
