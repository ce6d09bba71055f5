//! The single-level cuckoo table of Alcantara et al. 2011: one pair per slot, two to five
//! functions. One thread inserts each pair and what it evicts, by atomic exchanges in global
//! memory.
use super::{CuckooMut, EMPTY, PairsIn, Queries, holds, key_of, status};
use koel_kernels::hash::{Family, Functions, InShared, mix::mix, mulhi};
use koel_simt::{Buf, In, Thread, kernel};

/// Rule for an evicted pair of which several functions name the slot it was in. The 2011 paper
/// names all three.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub enum Coinciding {
    /// Takes the function after the first one that names the slot, as listed in the paper. The pair
    /// may never try some of its slots.
    #[default]
    FirstMatch = 0,
    /// Takes the next function that names another slot.
    Advance = 1,
    /// Takes a random function.
    Random = 2,
}
/// Kind of stash for pairs whose eviction chain exceeds the limit (Zachmann's lecture).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum StashKind {
    /// An array, searched from its start.
    Array = 0,
    /// A small table with one function and linear probing.
    Table = 1,
}

/// Parameters of insertion: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Insertion {
    /// Maximum number of evictions per insertion.
    pub max_evictions: u32,
    /// A [`Coinciding`].
    pub coinciding: u32,
    /// A [`StashKind`].
    pub stash_kind: u32,
    /// Capacity of the stash in pairs; 0 if there is no stash.
    pub stash_room: u32,
}

/// Parameters of lookups: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Lookup {
    /// A [`StashKind`].
    pub stash_kind: u32,
    /// Number of stash slots to search: the stashed pairs of an array, all slots of a table, 0 if
    /// the stash is empty.
    pub stash_slots: u32,
    /// 1 if the table holds the all-ones pair, else 0.
    pub all_ones: u32,
    /// 1 if an empty slot ends the search (Zachmann's lecture). Requires that pairs were inserted
    /// in the order of the functions.
    pub stop_at_empty: u32,
}

/// A single-level table: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SingleLevelRef {
    /// Hash functions from keys to slots.
    pub functions: Functions,
    /// Parameters of lookups.
    pub lookup: Lookup,
    /// Slots.
    pub slots: In<u64>,
    /// Stash.
    pub stash: In<u64>,
}

/// Marks a pair that has no slot yet.
pub const NOWHERE: u32 = u32::MAX;

/// Returns the slot that a pair tries after slot `at`, or its first slot if `at` is [`NOWHERE`].
/// `slot(f, key)` is the slot that function `f` of `d` names.
#[inline(always)]
pub fn next_slot(
    key: u32,
    at: u32,
    step: u32,
    d: u32,
    slot: impl Fn(u32, u32) -> u32,
    coinciding: u32,
) -> u32 {
    let random = coinciding == Coinciding::Random as u32 && at != NOWHERE;
    // Find the first function that names the slot, then take the next one, or the next one that
    // names another slot.
    let (mut f, mut first, mut seen) =
        (if random { mulhi(mix(key ^ mix(step)), d) } else { 0 }, 0, at == NOWHERE);
    loop {
        let h = slot(f, key);
        if random || seen && (coinciding == Coinciding::FirstMatch as u32 || h != at) {
            return h;
        }
        seen |= h == at;
        first = if f == 0 { h } else { first };
        f += 1;
        if f >= d {
            return first;
        }
    }
}

/// Inserts pairs and what they evict.
///
/// Eviction chains differ in length, and a warp takes as long as its longest thread. Each thread
/// therefore inserts `each` pairs in order, so that the total lengths of the chains of a warp's
/// threads are nearly equal.
#[kernel(image = CLASSIC, threads = 64, min_blocks = 32, shared = InShared::BYTES)]
pub fn single_level_insert(
    t: Thread,
    pairs: PairsIn,
    each: u32,
    insertion: Insertion,
    table: CuckooMut,
    stash: Buf<u64>,
) {
    let bound = InShared::new(t, &mut t.shared(), table.functions);
    t.barrier();
    let first = t.block() * THREADS * each + t.id();
    let share = Share { pairs, first, end: pairs.n.min(first.saturating_add(THREADS * each)) };
    if table.functions.are(Family::Mixed) {
        insert(share, |f, key| bound.mixed_slot(f, key), insertion, table, stash)
    } else {
        insert(share, |f, key| bound.slot(f, key), insertion, table, stash)
    }
}
const THREADS: u32 = 64;
/// The pairs of a thread: every [`THREADS`]th pair, starting at `first`.
struct Share {
    pairs: PairsIn,
    first: u32,
    end: u32,
}
#[inline(always)]
fn insert(
    share: Share,
    slot: impl Fn(u32, u32) -> u32,
    insertion: Insertion,
    table: CuckooMut,
    stash: Buf<u64>,
) {
    let CuckooMut { functions, slots, status } = table;
    let (d, Share { pairs, first: mut next, end }) = (functions.count(), share);
    let load = |i| if i < end { pairs.get_stream(i) } else { EMPTY };
    // Prefetch the next pair.
    let (mut e, mut at, mut step, mut waiting) = (EMPTY, NOWHERE, 0, load(next));
    loop {
        if e == EMPTY {
            if next >= end {
                break;
            }
            (e, at, step) = (waiting, NOWHERE, 0);
            next += THREADS;
            waiting = load(next);
            if e == EMPTY {
                status.store_relaxed(status::ALL_ONES, 1);
                continue;
            }
        }
        at = next_slot(key_of(e), at, step, d, &slot, insertion.coinciding);
        e = slots.swap(at, e);
        step += 1;
        if step >= insertion.max_evictions && e != EMPTY {
            if !put_into_stash(e, insertion, stash, status) {
                status.fetch_add(status::FAILED, 1);
            }
            e = EMPTY;
        }
    }
}

/// Puts a pair into the stash. Returns whether there was room.
#[inline(always)]
pub fn put_into_stash(e: u64, insertion: Insertion, stash: Buf<u64>, status: Buf<u32>) -> bool {
    let room = insertion.stash_room;
    if room == 0 {
        return false;
    }
    let place = status.fetch_add(status::STASHED, 1);
    if place >= room {
        return false;
    }
    if insertion.stash_kind == StashKind::Array as u32 {
        stash.store(place, e);
        return true;
    }
    // The stash is at most half full, so the search ends at an empty slot.
    let slots = 2 * room;
    let mut at = mulhi(mix(key_of(e)), slots);
    while stash.cas(at, EMPTY, e) != EMPTY {
        at = if at + 1 < slots { at + 1 } else { 0 };
    }
    true
}

/// Looks up query `i`.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn single_level_find(t: Thread, table: SingleLevelRef, queries: Queries) {
    let SingleLevelRef { functions, lookup, slots, stash } = table;
    let i = t.global_id();
    if i >= queries.n {
        return;
    }
    let key = queries.keys.get_stream(i);
    let (mut hit, mut f) = (None, 0);
    while f < functions.count() {
        let e = slots.get(functions.slot(f, key));
        if holds(e, key) {
            hit = Some(e);
            break;
        }
        if lookup.stop_at_empty != 0 && e == EMPTY {
            break;
        }
        f += 1;
    }
    if hit.is_none() {
        hit = find_outside(key, lookup, stash);
    }
    queries.answer(i, hit);
}

/// Looks up a key that is in none of its slots: the all-ones pair, then the stash.
#[inline(always)]
pub fn find_outside(key: u32, lookup: Lookup, stash: In<u64>) -> Option<u64> {
    if lookup.all_ones != 0 && key == u32::MAX {
        return Some(EMPTY);
    }
    let slots = lookup.stash_slots;
    let table = lookup.stash_kind == StashKind::Table as u32;
    let mut at = if table { mulhi(mix(key), slots) } else { 0 };
    let mut looked = 0;
    while looked < slots {
        let e = stash.get(at);
        if holds(e, key) {
            return Some(e);
        }
        if table && e == EMPTY {
            return None;
        }
        at = if at + 1 < slots { at + 1 } else { 0 };
        looked += 1;
    }
    None
}
