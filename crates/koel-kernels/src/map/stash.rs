//! Pairs that found no place in their two buckets: a small open-addressing table with linear probing, normally empty.
use super::layout::EMPTY;
use koel_simt::{Buf, In};

/// Where the search for a mixed key begins, in a stash of 2^`bits` slots.
#[inline(always)]
pub fn start(h: u32, bits: u32) -> u32 {
    (h.wrapping_mul(0x9E37_79B1) as u64 >> (32 - (bits & 31))) as u32
}

/// Puts a pair in, from a kernel. False if there is no room.
#[inline(always)]
pub fn insert(stash: Buf<u64>, bits: u32, pair: u64) -> bool {
    let mask = (1u32 << (bits & 31)) - 1;
    let (mut at, mut looked) = (start(pair as u32, bits), 0);
    while looked <= mask {
        if stash.cas(at, EMPTY, pair) == EMPTY {
            return true;
        }
        at = (at + 1) & mask;
        looked += 1;
    }
    false
}

/// The pair of a mixed key. It must not be the ambiguous one.
#[inline(always)]
pub fn find(stash: In<u64>, bits: u32, h: u32) -> Option<u64> {
    let mask = (1u32 << (bits & 31)) - 1;
    let (mut at, mut looked) = (start(h, bits), 0);
    while looked <= mask {
        let e = stash.get(at);
        if e == EMPTY {
            return None;
        }
        if e as u32 == h {
            return Some(e);
        }
        at = (at + 1) & mask;
        looked += 1;
    }
    None
}
