//! Sparse updates of a set: as [those of a map](crate::map::sparse), in buckets of a set.
use super::build::write_bucket;
use super::layout::{Member, class_bits, empty_last, filled, in_bucket, with_key};
use crate::table::layout::{Shape, TableMut};
use crate::table::sending::Sent;
use crate::table::sparse::{Bucketed, Sparse, shared_bytes, update_sparse};
use crate::table::update::BatchIn;
use core::marker::PhantomData;
use koel_simt::{Buf, Thread, kernel};

/// Buckets of a set.
#[derive(Clone, Copy)]
struct OfSet<K>(PhantomData<K>);
impl<K: Member> Bucketed for OfSet<K> {
    type Pairs = K::Pairs;
    type Word = K;
    type Bucket = [K::Half; 2];
    const SLOTS: usize = K::SLOTS as usize;
    const VALUES: bool = false;

    #[inline(always)]
    #[track_caller]
    fn load(slots: Buf<K>, place: u32) -> [K::Half; 2] {
        [K::load_half(slots, place as u64 * 2), K::load_half(slots, place as u64 * 2 + 1)]
    }
    #[inline(always)]
    #[track_caller]
    fn store(slots: Buf<K>, place: u32, bucket: [K::Half; 2]) {
        write_bucket::<K>(slots, place as u64, bucket);
    }
    #[inline(always)]
    fn key(bucket: &[K::Half; 2], slot: usize) -> K {
        in_bucket::<K>(bucket, slot)
    }
    #[inline(always)]
    fn value(_: &[K::Half; 2], _: usize) -> K {
        K::narrowed(0)
    }
    #[inline(always)]
    fn put(bucket: &mut [K::Half; 2], slot: usize, pair: Option<(K, K)>) {
        *bucket = with_key::<K>(*bucket, slot, pair.map_or(K::EMPTY, |(key, _)| key));
    }
    #[inline(always)]
    fn class_bits(bucket: &[K::Half; 2]) -> u32 {
        class_bits::<K>(*bucket)
    }
    #[inline(always)]
    fn ordered(
        shape: Shape,
        place: u32,
        bucket: [K::Half; 2],
        free: u32,
        bits: u32,
        needed: bool,
    ) -> [K::Half; 2] {
        if free == 0 || shape.looks_full(bits, needed) {
            K::with_class_bits(filled::<K>(shape, place, bucket, free), bits)
        } else {
            empty_last::<K>(bucket)
        }
    }
    /// Does nothing: a set has no values.
    #[inline(always)]
    fn store_value(_: Buf<K>, _: u32, _: u32, _: K, _: K) {}
}

/// Applies the operations of coarse bin `t.block()` that can be done in few buckets. Inputs and
/// results are those of [`map_update_sparse`](fn@crate::map::sparse::map_update_sparse). The values
/// of the batch are not read.
#[kernel(
    image = SET_UPDATE, threads = 256, min_blocks = 4,
    shared = shared_bytes(sparse, size_of::<K>() as u32), starts_early,
    for K in [u32, u64]
)]
pub fn set_update_sparse<K: Member>(
    t: Thread,
    sparse: Sparse,
    table: TableMut<K>,
    sent: Sent<u64>,
    cursors: Buf<u32>,
    batch: BatchIn<K>,
) {
    update_sparse::<OfSet<K>>(t, sparse, table, sent, cursors, batch)
}
