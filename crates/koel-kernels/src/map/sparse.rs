//! Updates that change few keys of a map in place: see [`crate::table::sparse`].
use super::build::write_bucket;
use super::update::ordered;
use crate::table::layout::{BUCKET, Narrow, Shape, TableMut, Wide, class_bit};
use crate::table::sending::{Routed, Sent};
use crate::table::sparse::{Bucketed, Sparse, shared_bytes, update_sparse};
use crate::table::update::BatchIn;
use core::marker::PhantomData;
use koel_simt::{Buf, Thread, U64x2, kernel, unroll};

/// The buckets of a map.
#[derive(Clone, Copy)]
struct OfMap<L>(PhantomData<L>);

impl<L: Routed> Bucketed for OfMap<L> {
    type Pairs = L;
    type Word = u64;
    type Bucket = [L::Pair; BUCKET];
    const SLOTS: usize = BUCKET;
    const VALUES: bool = true;

    #[inline(always)]
    #[track_caller]
    fn load(slots: Buf<u64>, place: u32) -> [L::Pair; BUCKET] {
        let (at, wide) = (place as u64 * (L::WORDS as u64 / 2), L::SLOT_WORDS > 1);
        let U64x2([a, b]) = slots.x2().load(at);
        let U64x2([c, d]) = slots.x2().load(at + 1);
        let U64x2([e, f]) = if wide { slots.x2().load(at + 2) } else { U64x2([0; 2]) };
        let U64x2([g, h]) = if wide { slots.x2().load(at + 3) } else { U64x2([0; 2]) };
        [L::with_head(a, e), L::with_head(b, f), L::with_head(c, g), L::with_head(d, h)]
    }
    #[inline(always)]
    #[track_caller]
    fn store(slots: Buf<u64>, place: u32, bucket: [L::Pair; BUCKET]) {
        write_bucket::<L>(slots, place as u64, bucket);
    }
    #[inline(always)]
    fn key(bucket: &[L::Pair; BUCKET], slot: usize) -> L::Mixed {
        L::key(bucket[slot])
    }
    #[inline(always)]
    fn value(bucket: &[L::Pair; BUCKET], slot: usize) -> L::Value {
        L::value(bucket[slot])
    }
    #[inline(always)]
    fn put(bucket: &mut [L::Pair; BUCKET], slot: usize, pair: Option<(L::Mixed, L::Value)>) {
        bucket[slot] = match pair {
            Some((key, value)) => L::pair(key, value),
            None => L::EMPTY_PAIR,
        };
    }
    #[inline(always)]
    fn class_bits(bucket: &[L::Pair; BUCKET]) -> u32 {
        let (heads, mut bits) = (bucket.map(L::head), 0);
        unroll::<4>(|c| bits |= (class_bit::<L>(heads, c as u32) as u32) << c);
        bits
    }
    #[inline(always)]
    fn ordered(
        shape: Shape,
        place: u32,
        bucket: [L::Pair; BUCKET],
        free: u32,
        bits: u32,
        needed: bool,
    ) -> [L::Pair; BUCKET] {
        ordered::<L>(shape, place, bucket, free, bits, needed)
    }
    #[inline(always)]
    #[track_caller]
    fn store_value(slots: Buf<u64>, place: u32, slot: u32, key: L::Mixed, value: L::Value) {
        let (pair, at) = (L::pair(key, value), place as u64 * L::WORDS as u64 + slot as u64);
        if L::SLOT_WORDS > 1 {
            slots.store(at + BUCKET as u64, L::behind(pair));
        } else {
            slots.store(at, L::head(pair));
        }
    }
}

/// Applies the operations of first-pass bin `t.block()`, as far as few buckets suffice: see the
/// module. The table must have at least two buckets. `sent` is the output of the first pass of a
/// [join](super::join); `cursors` are its cursors again, mutable.
/// [`map_update`](fn@super::update::map_update) must follow.
#[kernel(
    threads = 256, min_blocks = 3, shared = shared_bytes(sparse, size_of::<L::Mixed>() as u32),
    starts_early,
    for L in [
        Narrow { image = MAP_UPDATE, min_blocks = 4 },
        Wide<u32, u64> { image = MAP_UPDATE_WIDE }, Wide<u64, u32> { image = MAP_UPDATE_WIDE },
        Wide<u64, u64> { image = MAP_UPDATE_WIDE }
    ]
)]
pub fn map_update_sparse<L: Routed>(
    t: Thread,
    sparse: Sparse,
    table: TableMut,
    sent: Sent<u64>,
    cursors: Buf<u32>,
    batch: BatchIn<L::Value>,
) {
    update_sparse::<OfMap<L>>(t, sparse, table, sent, cursors, batch)
}
