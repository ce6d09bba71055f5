//! The two-kernel table of Wang and Hu (ShanghaiTech): the first kernel writes pairs directly into
//! buckets of 512 slots; the second turns each bucket into a cuckoo table in the same 512 slots,
//! one block per bucket.
use super::{EMPTY, PairsIn, Queries, holds, key_of, pair, status};
use koel_kernels::hash::Functions;
use koel_simt::{Buf, In, Thread, U64x2, kernel};

/// Slots per bucket, and threads of the block that builds it.
pub const SLOTS: u32 = 512;
/// Maximum number of evictions per pair. The report gives no number; this is ample for a bucket
/// that is 85 % full.
pub const MAX_EVICTIONS: u32 = 2048;

/// Writes each pair into its bucket. The caller clears `counts` and `status`.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn two_kernel_distribute(
    t: Thread,
    pairs: PairsIn,
    bucket_of: Functions,
    counts: Buf<u32>,
    buckets: Buf<u64>,
    status: Buf<u32>,
) {
    let i = t.global_id();
    if i >= pairs.n {
        return;
    }
    let key = pairs.keys.get_stream(i);
    let e = pair(key, pairs.values.get_stream(i));
    if e == EMPTY {
        status.store_relaxed(status::ALL_ONES, 1);
        return;
    }
    let b = bucket_of.slot(0, key);
    let place = counts.fetch_add(b, 1);
    if place < SLOTS {
        buckets.store(b * SLOTS + place, e);
    } else {
        status.fetch_add(status::FAILED, 1);
    }
}

/// Marks a pair that has no slot yet.
pub const NOWHERE: u32 = u32::MAX;

/// Returns the slot that a pair tries after slot `at`, or its first slot if `at` is [`NOWHERE`].
/// Takes the functions in round-robin order and skips those that also name `at`. In such small
/// tables functions often coincide, and two pairs that share their only slot would otherwise evict
/// each other forever.
#[inline(always)]
pub fn next_slot(key: u32, at: u32, functions: &Functions) -> u32 {
    let (mut f, mut first, mut seen) = (0, 0, at == NOWHERE);
    while f < functions.count() {
        let h = functions.slot(f, key);
        if seen && h != at {
            return h;
        }
        seen |= h == at;
        first = if f == 0 { h } else { first };
        f += 1;
    }
    first
}

/// Turns one bucket into a cuckoo table in place. One block per bucket.
#[kernel(image = CLASSIC, threads = 512, min_blocks = 2, shared = SLOTS * 8)]
pub fn two_kernel_build(
    t: Thread,
    functions: Functions,
    counts: In<u32>,
    buckets: Buf<u64>,
    status: Buf<u32>,
) {
    let slots = t.shared().array::<u64>(SLOTS);
    let (b, id) = (t.block(), t.id());
    let mut e = EMPTY;
    if id < counts.get(b) {
        e = buckets.load(b * SLOTS + id);
    }
    slots.store(id, EMPTY);
    t.barrier();
    let (mut at, mut step) = (NOWHERE, 0);
    while e != EMPTY && step < MAX_EVICTIONS {
        at = next_slot(key_of(e), at, &functions);
        e = slots.swap(at, e);
        step += 1;
    }
    if e != EMPTY {
        status.fetch_add(status::FAILED, 1);
    }
    t.barrier();
    if id < SLOTS / 2 {
        let U64x2(two) = slots.x2().load(id);
        buckets.x2().store_stream(b * (SLOTS / 2) + id, U64x2(two));
    }
}

/// A two-kernel table: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct TwoKernelRef {
    /// Hash function from keys to buckets.
    pub bucket_of: Functions,
    /// Hash functions from keys to slots of a bucket.
    pub functions: Functions,
    /// Slots, bucket by bucket.
    pub slots: In<u64>,
    /// 1 if the table holds the all-ones pair, else 0.
    pub all_ones: u32,
}

/// Looks up query `i`.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn two_kernel_find(t: Thread, table: TwoKernelRef, queries: Queries) {
    let functions = table.functions;
    let i = t.global_id();
    if i >= queries.n {
        return;
    }
    let key = queries.keys.get_stream(i);
    let b = table.bucket_of.slot(0, key);
    let (mut hit, mut f) = (None, 0);
    while f < functions.count() {
        let e = table.slots.get(b * SLOTS + functions.slot(f, key));
        if holds(e, key) {
            hit = Some(e);
            break;
        }
        f += 1;
    }
    if hit.is_none() && table.all_ones != 0 && key == u32::MAX {
        hit = Some(EMPTY);
    }
    queries.answer(i, hit);
}
