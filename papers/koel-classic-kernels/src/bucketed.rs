//! Bucketed cuckoo hashing (Dietzfelbinger and Weidling 2007). A function names a bucket of several
//! slots; a pair takes any free slot of its buckets, or evicts a random pair from one of them.
use super::{EMPTY, PairsIn, Queries, holds, key_of, status};
use koel_kernels::hash::{Functions, mix::mix, mulhi};
use koel_simt::{Buf, In, Thread, kernel};

/// Shape of the table: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Buckets {
    /// Hash functions from keys to buckets.
    pub functions: Functions,
    /// Slots per bucket.
    pub slots: u32,
    /// Maximum number of evictions per insertion.
    pub max_evictions: u32,
}

/// A bucketed table: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BucketedRef {
    /// Shape of the table.
    pub buckets: Buckets,
    /// Slots, bucket by bucket.
    pub slots: In<u64>,
    /// 1 if the table holds the all-ones pair, else 0.
    pub all_ones: u32,
}

/// Inserts pair `i` and what it evicts. The caller sets all bits of `table` and clears `status`.
#[kernel(image = CLASSIC, threads = 64, independent)]
pub fn bucketed_insert(
    t: Thread,
    pairs: PairsIn,
    buckets: Buckets,
    table: Buf<u64>,
    status: Buf<u32>,
) {
    let i = t.global_id();
    if i >= pairs.n {
        return;
    }
    let mut e = pairs.get_stream(i);
    if e == EMPTY {
        status.store_relaxed(status::ALL_ONES, 1);
        return;
    }
    let (mut step, mut random, mut from) = (0, mix(i), u32::MAX);
    while step < buckets.max_evictions {
        let mut f = 0;
        while f < buckets.functions.count() {
            if take_free(e, buckets.functions.slot(f, key_of(e)), buckets.slots, table) {
                return;
            }
            f += 1;
        }
        // Pick a random function, or the next one if it names the bucket that the pair was evicted
        // from.
        random = mix(random.wrapping_add(0x9E37_79B9));
        let d = buckets.functions.count();
        let f = mulhi(random, d);
        let mut bucket = buckets.functions.slot(f, key_of(e));
        if bucket == from {
            bucket = buckets.functions.slot(if f + 1 < d { f + 1 } else { 0 }, key_of(e));
        }
        e = table.swap(bucket * buckets.slots + mulhi(mix(random), buckets.slots), e);
        if e == EMPTY {
            return;
        }
        from = bucket;
        step += 1;
    }
    status.fetch_add(status::FAILED, 1);
}
/// Puts the pair into a free slot of the bucket. Returns whether there was one.
#[inline(always)]
fn take_free(e: u64, bucket: u32, slots: u32, table: Buf<u64>) -> bool {
    let mut at = bucket * slots;
    let end = at + slots;
    while at < end {
        if table.load_relaxed(at) == EMPTY && table.cas(at, EMPTY, e) == EMPTY {
            return true;
        }
        at += 1;
    }
    false
}

/// Looks up query `i`.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn bucketed_find(t: Thread, table: BucketedRef, queries: Queries) {
    let buckets = table.buckets;
    let i = t.global_id();
    if i >= queries.n {
        return;
    }
    let key = queries.keys.get_stream(i);
    let (mut hit, mut f) = (None, 0);
    while f < buckets.functions.count() && hit.is_none() {
        let mut at = buckets.functions.slot(f, key) * buckets.slots;
        let end = at + buckets.slots;
        while at < end {
            let e = table.slots.get(at);
            if holds(e, key) {
                hit = Some(e);
                break;
            }
            at += 1;
        }
        f += 1;
    }
    if hit.is_none() && table.all_ones != 0 && key == u32::MAX {
        hit = Some(EMPTY);
    }
    queries.answer(i, hit);
}
