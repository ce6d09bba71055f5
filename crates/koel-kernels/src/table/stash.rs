//! Stash: homeless pairs, in a small open-addressing table with linear probing that is normally
//! empty.
//!
//! The start of a probe sequence depends on all bits of the mixed key. Keys that share both buckets
//! have one hash, and would share one probe sequence if the start depended on the hash alone. Keys
//! can still be crafted to share a start if the seed is known. A build therefore gives up, and
//! draws another seed, if a pair is not placed within [`MAX_PROBES`].
use super::layout::{EMPTY, Layout, Number};
use koel_simt::{Buf, In, Thread};

/// Maximum log2 of the number of slots in a stash.
pub const MAX_BITS: u32 = 20;

/// Maximum number of slots that a build probes for a pair. At a load factor of 0.5, no probe
/// sequence in a stash of 2^20 slots is longer, unless keys were crafted.
pub const MAX_PROBES: u32 = 128;

/// Returns 32 bits of a mixed key that also differ between keys with equal hashes.
#[inline(always)]
pub fn spread<L: Layout>(key: L::Mixed) -> u32 {
    let low = key.widened() as u32;
    // A narrow mixed key is its own hash.
    let folded =
        if L::HASH_SHIFT == 0 { low } else { L::hash(key) ^ low.wrapping_mul(0x85EB_CA6B) };
    folded.wrapping_mul(0x9E37_79B1)
}

/// Returns where the search for a mixed key begins, in a stash of 2^`bits` slots.
#[inline(always)]
pub fn start<L: Layout>(key: L::Mixed, bits: u32) -> u32 {
    (spread::<L>(key) as u64 >> (32 - (bits & 31))) as u32
}

/// Empties a stash of `words` words before a build. Each block of `threads` threads empties a
/// share.
#[inline(always)]
pub fn clear(t: Thread, threads: u32, stash: Buf<u64>, words: u32) {
    for word in t.strided(t.global_id(), t.grid_dim() * threads, words) {
        stash.store(word, EMPTY);
    }
}

/// Inserts a pair from a kernel; its key must not be in the stash. Returns false if there is no
/// room.
#[inline(always)]
pub fn insert<L: Layout>(stash: Buf<u64>, bits: u32, pair: L::Pair) -> bool {
    insert_within::<L>(stash, bits, !0, pair)
}
/// Inserts a pair from a build, like [`insert`]. Returns false if there is no room within
/// [`MAX_PROBES`] slots.
#[inline(always)]
pub fn insert_near<L: Layout>(stash: Buf<u64>, bits: u32, pair: L::Pair) -> bool {
    insert_within::<L>(stash, bits, MAX_PROBES - 1, pair)
}
#[inline(always)]
fn insert_within<L: Layout>(stash: Buf<u64>, bits: u32, most: u32, pair: L::Pair) -> bool {
    let mask = (1u32 << (bits & 31)) - 1;
    let (mut at, mut looked) = (start::<L>(L::key(pair), bits), 0);
    while looked <= mask.min(most) {
        let word = at * L::SLOT_WORDS as u32;
        if stash.cas(word, EMPTY, L::head(pair)) == EMPTY {
            if L::SLOT_WORDS > 1 {
                stash.store_relaxed(word + 1, L::behind(pair));
            }
            return true;
        }
        at = (at + 1) & mask;
        looked += 1;
    }
    false
}

/// Returns the slot of a mixed key while other threads insert. It may miss concurrent insertions.
#[inline(always)]
pub fn slot_of<L: Layout>(stash: Buf<u64>, bits: u32, key: L::Mixed) -> Option<u32> {
    let mask = (1u32 << (bits & 31)) - 1;
    let (mut at, mut looked) = (start::<L>(key, bits), 0);
    while looked <= mask {
        let head = stash.load_relaxed(at * L::SLOT_WORDS as u32);
        if head == EMPTY {
            return None;
        }
        if L::key_in(head) == key {
            return Some(at);
        }
        at = (at + 1) & mask;
        looked += 1;
    }
    None
}

/// Returns the value of a mixed key, which must not be the ambiguous one.
#[inline(always)]
#[track_caller]
pub fn find<L: Layout>(stash: In<u64>, bits: u32, key: L::Mixed) -> Option<L::Value> {
    let mask = (1u32 << (bits & 31)) - 1;
    let (mut at, mut looked) = (start::<L>(key, bits), 0);
    while looked <= mask {
        let word = at * L::SLOT_WORDS as u32;
        let head = stash.get(word);
        if head == EMPTY {
            return None;
        }
        if L::key_in(head) == key {
            let behind = if L::SLOT_WORDS > 1 { stash.get(word + 1) } else { 0 };
            return Some(L::value_in(head, behind));
        }
        at = (at + 1) & mask;
        looked += 1;
    }
    None
}
