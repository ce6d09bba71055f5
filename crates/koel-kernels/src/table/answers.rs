//! Results of membership lookups: flags, bits, a count.
use koel_simt::{Buf, Thread};

/// Writes 1 for each query that is found and 0 otherwise, one thread per query.
#[inline(always)]
pub fn tell_flags(t: Thread, n: u32, found: Buf<u8>, contains: impl Fn(u32) -> bool) {
    t.wait_for_previous();
    t.let_next_start();
    let i = t.global_id();
    if i < n {
        found.store_stream(i, contains(i) as u8);
    }
}

/// Writes the same as bits: query `i` is bit `i % 32` of word `i / 32`.
#[inline(always)]
pub fn tell_bits(t: Thread, n: u32, found: Buf<u32>, contains: impl Fn(u32) -> bool) {
    t.wait_for_previous();
    t.let_next_start();
    let i = t.global_id();
    let bits = t.warp().ballot(i < n && contains(i));
    if t.lane() == 0 && i < n {
        found.store_stream(i / 32, bits);
    }
}

/// Counts the queries that are found; each block adds its share to `count`.
#[inline(always)]
pub fn tell_count(t: Thread, n: u32, count: Buf<u64>, contains: impl Fn(u32) -> bool) {
    t.wait_for_previous();
    t.let_next_start();
    let i = t.global_id();
    let found = t.barrier_count(i < n && contains(i));
    if t.id() == 0 && found != 0 {
        count.fetch_add(0, found as u64);
    }
}
