//! The two-level perfect table of Fredman, Komlós and Szemerédi 1984. A bucket of `c` pairs has
//! `c^2` slots and a function without collisions among its keys.
//!
//! Kernels in build order: count and scatter (those of [`two_level`](super::two_level)), square,
//! (scan), build; then find.
use super::{BucketsIn, BucketsOut, EMPTY, Queries, holds, key_of, status};
use koel_kernels::hash::{Family, Functions};
use koel_simt::{Buf, In, Thread, kernel};

/// Maximum number of pairs per bucket.
pub const BUCKET_LIMIT: u32 = 32;
/// Maximum number of functions tried per bucket. On average at least half of all functions are
/// perfect.
pub const MAX_SEEDS: u32 = 64;

/// Returns the slot of a key within its bucket.
#[inline(always)]
fn inner_slot(key: u32, seed: u32, slots: u32) -> u32 {
    Functions::new(Family::Mixed, 1, slots, seed as u64).slot(0, key)
}

/// Computes the number of slots of each bucket.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn fks_square(t: Thread, counts: In<u32>, buckets: u32, squares: Buf<u32>) {
    let b = t.global_id();
    if b >= buckets {
        return;
    }
    let count = counts.get(b);
    squares.store(b, count * count);
}

/// Finds a perfect function for each of `n` buckets, one thread per bucket. The slots of bucket `b`
/// begin at `places[b]`. The caller sets all bits of the slots.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn fks_build(
    t: Thread,
    n: u32,
    first_seed: u32,
    buckets: BucketsIn,
    places: In<u32>,
    out: BucketsOut,
) {
    let BucketsIn { starts, counts, pairs } = buckets;
    let BucketsOut { slots, seeds, status } = out;
    let b = t.global_id();
    if b >= n {
        return;
    }
    let (count, start, place) = (counts.get(b), starts.get(b), places.get(b));
    let (mut seed, mut tried, mut placed) = (first_seed.wrapping_add(b), 0, false);
    while !placed && tried < MAX_SEEDS {
        seed = koel_kernels::hash::mix::mix(seed.wrapping_add(0x9E37_79B9));
        placed = true;
        let mut k = 0;
        while k < count && placed {
            let e = pairs.get(start + k);
            if e == EMPTY {
                status.store_relaxed(status::ALL_ONES, 1);
            } else {
                let at = place + inner_slot(key_of(e), seed, count * count);
                let there = slots.load(at);
                // Keys should be distinct, but an equal key is no collision: one of the pairs
                // stays.
                placed = there == EMPTY || holds(there, key_of(e));
                if there == EMPTY {
                    slots.store(at, e);
                }
            }
            k += 1;
        }
        let mut at = place;
        while !placed && at < place + count * count {
            slots.store(at, EMPTY);
            at += 1;
        }
        tried += 1;
    }
    seeds.store(b, seed);
    if !placed {
        status.fetch_add(status::FAILED, 1);
    }
}

/// A two-level perfect table: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct FksRef {
    /// Hash function from keys to buckets.
    pub bucket_of: Functions,
    /// First slot of each bucket, and the end of the last bucket.
    pub places: In<u32>,
    /// Seed of each bucket's function.
    pub seeds: In<u32>,
    /// Slots.
    pub slots: In<u64>,
    /// 1 if the table holds the all-ones pair, else 0.
    pub all_ones: u32,
}

/// Looks up query `i`: reads the location and seed of its bucket, then one slot.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn fks_find(t: Thread, table: FksRef, queries: Queries) {
    let i = t.global_id();
    if i >= queries.n {
        return;
    }
    let key = queries.keys.get_stream(i);
    let b = table.bucket_of.slot(0, key);
    let (place, end) = (table.places.get(b), table.places.get(b + 1));
    let mut hit = None;
    if place < end {
        let e = table.slots.get(place + inner_slot(key, table.seeds.get(b), end - place));
        if holds(e, key) {
            hit = Some(e);
        }
    }
    if hit.is_none() && table.all_ones != 0 && key == u32::MAX {
        hit = Some(EMPTY);
    }
    queries.answer(i, hit);
}
