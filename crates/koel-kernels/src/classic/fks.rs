//! The two-level perfect table of Fredman, Komlós and Szemerédi 1984: a bucket of `c` pairs has `c
//! * c` slots and a function that sends no two of them to the same.
//!
//! Kernels in the order of the build: count and scatter (those of [`two_level`](super::two_level)),
//! square, (scan), build; then find.
use super::{EMPTY, answer, holds, key_of, status};
use crate::hash::{Family, Functions};
use koel_simt::{Buf, In, Thread, kernel};

/// Pairs that a bucket may hold.
pub const BUCKET_LIMIT: u32 = 32;
/// Functions that a bucket tries. Half of them are perfect on average (or more).
pub const MAX_SEEDS: u32 = 64;

/// The slot of a key among those of its bucket.
#[inline(always)]
fn inner_slot(key: u32, seed: u32, slots: u32) -> u32 {
    Functions::new(Family::Mixed, 1, slots, seed as u64).slot(0, key)
}

/// Slots of each bucket.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn fks_square(t: Thread, counts: In<u32>, buckets: u32, squares: Buf<u32>) {
    let b = t.global_id();
    if b >= buckets {
        return;
    }
    let count = counts.get(b);
    squares.store(b, count * count);
}

/// Each thread finds a perfect function for a bucket, whose pairs begin at `starts[b]` and whose
/// slots at `places[b]`. Clear `table` to ones before.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn fks_build(
    t: Thread,
    buckets: u32,
    first_seed: u32,
    counts: In<u32>,
    starts: In<u32>,
    places: In<u32>,
    pairs: In<u64>,
    table: Buf<u64>,
    seeds: Buf<u32>,
    status: Buf<u32>,
) {
    let b = t.global_id();
    if b >= buckets {
        return;
    }
    let (count, start, place) = (counts.get(b), starts.get(b), places.get(b));
    let (mut seed, mut tried, mut placed) = (first_seed.wrapping_add(b), 0, false);
    while !placed && tried < MAX_SEEDS {
        seed = crate::hash::mix::mix(seed.wrapping_add(0x9E37_79B9));
        placed = true;
        let mut k = 0;
        while k < count && placed {
            let e = pairs.get(start + k);
            if e == EMPTY {
                status.store_relaxed(status::ALL_ONES, 1);
            } else {
                let at = place + inner_slot(key_of(e), seed, count * count);
                let there = table.load(at);
                // An equal key, though none was promised, is no collision: one of them stays.
                placed = there == EMPTY || holds(there, key_of(e));
                if there == EMPTY {
                    table.store(at, e);
                }
            }
            k += 1;
        }
        let mut at = place;
        while !placed && at < place + count * count {
            table.store(at, EMPTY);
            at += 1;
        }
        tried += 1;
    }
    seeds.store(b, seed);
    if !placed {
        status.fetch_add(status::FAILED, 1);
    }
}

/// Looks up query `i`: one slot, after its bucket's place and seed.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn fks_find(
    t: Thread,
    queries: In<u32>,
    n: u32,
    bucket_of: Functions,
    all_ones: u32,
    places: In<u32>,
    seeds: In<u32>,
    table: In<u64>,
    values: Buf<u32>,
    found: Buf<u8>,
) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    let key = queries.get_stream(i);
    let b = bucket_of.slot(0, key);
    let (place, end) = (places.get(b), places.get(b + 1));
    let mut hit = None;
    if place < end {
        let e = table.get(place + inner_slot(key, seeds.get(b), end - place));
        if holds(e, key) {
            hit = Some(e);
        }
    }
    if hit.is_none() && all_ones != 0 && key == u32::MAX {
        hit = Some(EMPTY);
    }
    answer(i, hit, values, found);
}
