//! The single-level cuckoo table of Alcantara et al. 2011: one pair a slot, two to five functions,
//! insertion by atomic exchange in global memory, one thread per pair.
use super::{CuckooMut, EMPTY, PairsIn, Queries, holds, key_of, status};
use crate::hash::{Family, Functions, InShared, mix::mix, mulhi};
use koel_simt::{Buf, In, Thread, kernel};

/// What to do with an evicted pair when several of its functions name the slot it was in. The 2011
/// paper names all three.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub enum Coinciding {
    /// The function after the first one that names the slot: as listed in the paper. The pair may
    /// never see some of its slots.
    #[default]
    FirstMatch = 0,
    /// The next function that names another slot.
    Advance = 1,
    /// A function picked at random.
    Random = 2,
}
/// Where pairs go whose eviction chain got too long (Zachmann's lecture).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum StashKind {
    /// An array, searched from its beginning.
    Array = 0,
    /// A small table with one function and linear probing.
    Table = 1,
}

/// How insertion goes: a kernel's argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Insertion {
    /// Evictions before a pair is given up.
    pub max_evictions: u32,
    /// A [`Coinciding`].
    pub coinciding: u32,
    /// A [`StashKind`].
    pub stash_kind: u32,
    /// Pairs that the stash has room for; 0: no stash.
    pub stash_room: u32,
}

/// How lookups go: a kernel's argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Lookup {
    /// A [`StashKind`].
    pub stash_kind: u32,
    /// Slots of the stash to look at: its pairs if it is an array, all its slots if it is a table;
    /// 0: it is empty.
    pub stash_slots: u32,
    /// 1: the table holds the pair of all ones.
    pub all_ones: u32,
    /// 1: an empty slot ends the search (Zachmann's lecture). Pairs must have been inserted in the
    /// order of the functions.
    pub stop_at_empty: u32,
}

/// A single-level table: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SingleLevelRef {
    /// From keys to slots.
    pub functions: Functions,
    /// How lookups go.
    pub lookup: Lookup,
    /// The slots.
    pub slots: In<u64>,
    /// The stash.
    pub stash: In<u64>,
}

/// Where a pair is that has no slot yet.
pub const NOWHERE: u32 = u32::MAX;

/// The slot that a pair tries after slot `at`: its first one if it comes from nowhere. `slot`: of
/// one of `d` functions and a key.
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
    // The first function that names the slot, then the one after it, or the first after it that
    // names another.
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
/// Eviction chains differ in length, and a warp takes as long as its longest: so a thread has
/// `each` pairs, one after the other, and the chains of a warp's threads add up to nearly the same.
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
/// The pairs of a thread: every [`THREADS`]th from `first` on.
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
    // The pair after this one is fetched before it is needed.
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

/// Whether the stash had room for a pair.
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
    // At most half full: an empty slot is found.
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

/// A key that is in none of its slots: the pair of all ones, or one in the stash.
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
