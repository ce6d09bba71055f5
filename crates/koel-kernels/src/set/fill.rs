//! Concurrent insertion into a set's buckets by many threads, in shared memory, device memory or on
//! a host.
//!
//! * First nothing moves. A key takes the first empty slot of its first bucket, of its second
//!   bucket if that is full, or else waits in a small table. Each slot is taken by a
//!   compare-and-swap of the key itself. Equal keys therefore [meet](fn@meet): all copies probe the
//!   same slots in the same order, none of which becomes empty again, and find the copy that came
//!   first. (In a [build](super::build), most keys were counted into their first bucket before,
//!   each once.)
//! * Then each waiting key [evicts](fn@evict): it takes the slot of another key, which goes to its
//!   other bucket, and so on. A key is in a slot or held by one thread. No slot becomes empty, so a
//!   bucket that is full stays full.
use super::layout::{Member, hash, holds, in_bucket, is_full, taken};
use crate::hash::mulhi;
use crate::table::layout::class;
use koel_simt::unroll;

/// Maximum number of evictions for a key.
const MAX_MOVES: u32 = 250;

/// A table that is being filled. It numbers buckets as suits its memory.
pub trait Filling<K: Member>: Copy {
    /// Whether to give up a key early if it meets only keys of its own hash.
    const GIVES_UP_EARLY: bool = false;
    /// Returns the first bucket of a hash.
    fn first(self, h: u32) -> u32;
    /// Returns the bucket of a hash other than `bucket`.
    fn other(self, h: u32, bucket: u32) -> u32;
    /// Loads half a bucket, which other threads may change concurrently.
    fn half(self, bucket: u32, half: u32) -> K::Half;
    /// Returns the last slot of a bucket: [`Member::EMPTY`] unless it is full.
    fn last(self, bucket: u32) -> K;
    /// Puts `new` into a slot if it holds `old`. Returns what it held.
    fn replace(self, bucket: u32, slot: u32, old: K, new: K) -> K;
    /// Records that a key of this class overflowed from a bucket.
    fn mark(self, bucket: u32, class: u32);
}

/// Outcome of an insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The key was inserted.
    New,
    /// The key was already there.
    Met,
    /// There is no room.
    Full,
}

/// Inserts a mixed key into a bucket while nothing moves.
#[inline(always)]
#[track_caller]
pub fn meet<K: Member, T: Filling<K>>(table: T, bucket: u32, key: K) -> Outcome {
    let low = table.half(bucket, 0);
    let mut slot = taken::<K>(low);
    if holds::<K>(low, key) {
        return Outcome::Met;
    }
    // Most keys come to buckets that are less than half full.
    if slot == K::SLOTS / 2 {
        let high = table.half(bucket, 1);
        slot += taken::<K>(high);
        if holds::<K>(high, key) {
            return Outcome::Met;
        }
    }
    while slot < K::SLOTS {
        let there = table.replace(bucket, slot, K::EMPTY, key);
        if there == K::EMPTY {
            return Outcome::New;
        }
        if there == key {
            return Outcome::Met;
        }
        slot += 1;
    }
    Outcome::Full
}
/// Inserts a key that found its first bucket full into its second.
#[inline(always)]
#[track_caller]
pub fn meet_second<K: Member, T: Filling<K>>(table: T, key: K) -> Outcome {
    let h = hash(key);
    let first = table.first(h);
    table.mark(first, class(h));
    meet(table, table.other(h, first), key)
}

/// Returns the slot of a mixed key, counted from the table's first slot, while nothing changes.
/// Calls `elsewhere` if both buckets are full and do not hold the key.
#[inline(always)]
#[track_caller]
pub fn slot_of<K: Member, T: Filling<K>>(
    table: T,
    key: K,
    elsewhere: impl FnOnce() -> Option<u32>,
) -> Option<u32> {
    let h = hash(key);
    let first = table.first(h);
    in_full(table, first, key).unwrap_or_else(|| {
        let second = table.other(h, first);
        in_full(table, second, key).unwrap_or_else(elsewhere)
    })
}
/// Returns the slot of a key in a bucket; `None` if the bucket is full, so the key may be
/// elsewhere.
#[inline(always)]
#[track_caller]
fn in_full<K: Member, T: Filling<K>>(table: T, bucket: u32, key: K) -> Option<Option<u32>> {
    let keys = [table.half(bucket, 0), table.half(bucket, 1)];
    let mut slot = None;
    unroll::<8>(|s| {
        if s < K::SLOTS as usize && in_bucket::<K>(&keys, s) == key {
            slot = Some(bucket * K::SLOTS + s as u32);
        }
    });
    if slot.is_some() || !is_full::<K>(&keys) { Some(slot) } else { None }
}

/// Inserts a mixed key into an open-addressing table of `slots` slots while nothing moves, within
/// `tries` probes. `claim(slot)` puts the key there if the slot is empty, and returns what it held.
#[inline(always)]
pub fn claim<K: Member>(slots: u32, tries: u32, key: K, claim: impl Fn(u32) -> K) -> Outcome {
    let (mut slot, mut tried) = (start(slots, key), 0);
    while tried < tries {
        let there = claim(slot);
        if there == K::EMPTY {
            return Outcome::New;
        }
        if there == key {
            return Outcome::Met;
        }
        slot = after(slots, slot);
        tried += 1;
    }
    Outcome::Full
}
/// Returns the slot of a key in such a table, which does not change meanwhile.
#[inline(always)]
pub fn claimed<K: Member>(slots: u32, key: K, get: impl Fn(u32) -> K) -> Option<u32> {
    let (mut slot, mut tried) = (start(slots, key), 0);
    while tried < slots {
        let there = get(slot);
        if there == key {
            return Some(slot);
        }
        if there == K::EMPTY {
            return None;
        }
        slot = after(slots, slot);
        tried += 1;
    }
    None
}
#[inline(always)]
fn start<K: Member>(slots: u32, key: K) -> u32 {
    // Depends on all bits of the key, and differs from its other hashes.
    let word = key.widened() ^ key.widened() << 32;
    mulhi(((word.wrapping_mul(0x9E37_79B9_7F4A_7C15)) >> 32) as u32, slots)
}
#[inline(always)]
fn after(slots: u32, slot: u32) -> u32 {
    if slot + 1 < slots { slot + 1 } else { 0 }
}

/// Inserts a mixed key that found both its buckets full by evicting others to their other buckets.
/// Returns the key that ends without a slot, if any: both its buckets are full, and its class is
/// marked in the first.
#[inline(always)]
#[track_caller]
pub fn evict<K: Member, T: Filling<K>>(table: T, mut key: K) -> Option<K> {
    // The key goes to its first bucket, where lookups find it at once.
    let (mut bucket, mut moves) = (table.first(hash(key)), 0);
    while moves < MAX_MOVES {
        let there = [table.half(bucket, 0), table.half(bucket, 1)];
        let any = mulhi(hash(key).wrapping_add(moves).wrapping_mul(0x9E37_79B1), K::SLOTS);
        let mut others = 0;
        unroll::<8>(|i| others |= hash(in_bucket::<K>(&there, i % K::SLOTS as usize)) ^ hash(key));
        if T::GIVES_UP_EARLY && others == 0 {
            // Crafted keys: none has more room elsewhere than this one. The key's other bucket may
            // hold other keys.
            bucket = table.other(hash(key), bucket);
            moves += MAX_MOVES / 4;
            continue;
        }
        // Evict a key whose other bucket has room, or else an arbitrary one.
        let (mut slot, mut victim, mut next, mut room) = (0, K::EMPTY, bucket, false);
        unroll::<8>(|i| {
            if i < K::SLOTS as usize {
                let candidate = in_bucket::<K>(&there, i);
                let to = table.other(hash(candidate), bucket);
                let has_room = table.last(to) == K::EMPTY;
                if !room && (has_room || i as u32 == any) {
                    (slot, victim, next, room) = (i as u32, candidate, to, has_room);
                }
            }
        });
        if table.replace(bucket, slot, victim, key) == victim {
            let h = hash(victim);
            if table.first(h) == bucket {
                table.mark(bucket, class(h));
            }
            (key, bucket) = (victim, next);
            if meet(table, bucket, key) != Outcome::Full {
                return None;
            }
        }
        moves += 1;
    }
    Some(key)
}
