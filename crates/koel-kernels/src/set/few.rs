//! Updates of few keys beside those of a set: as [those of a map](crate::map::few), in buckets of a
//! set.
use super::build::write_bucket;
use super::layout::{Member, class_bits, empty_last, filled, in_bucket, with_key};
use crate::map::few::{Bucketed, Few, update_few};
use crate::map::layout::Shape;
use core::marker::PhantomData;
use koel_simt::{Buf, In, Thread, kernel};

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
    /// There is none.
    #[inline(always)]
    fn store_value(_: Buf<K>, _: u32, _: u32, _: K, _: K) {}
}

macro_rules! entries { ($($(#[$doc:meta])* $name:ident $key:ty, $bytes:literal;)*) => { $(
    $(#[$doc])*
    #[kernel(image = SET_UPDATE, threads = 256, min_blocks = 4, shared = crate::map::few::shared_bytes(few, $bytes), starts_early)]
    pub fn $name(
        t: Thread,
        shape: Shape,
        few: Few,
        sent: In<u64>,
        overflow: In<u64>,
        cursors: Buf<u32>,
        spilled: In<u32>,
        sent_state: In<u32>,
        values: In<$key>,
        operations: In<u8>,
        slots: Buf<$key>,
        stash: Buf<u64>,
        statuses: Buf<u8>,
        table_header: Buf<u32>,
        batch_state: Buf<u32>,
    ) {
        update_few::<OfSet<$key>>(
            t, shape, few, sent, overflow, cursors, spilled, sent_state, values, operations, slots, stash, statuses, table_header, batch_state,
        )
    }
)* } }
entries! {
    /// Applies the operations of group `t.block()`, as far as that is done in few buckets: what it
    /// is given, and leaves: [`map_update_few`](fn@crate::map::few::map_update_few); `values` are
    /// not read.
    set_update_few_u32 u32, 4;
    /// The same.
    set_update_few_u64 u64, 8;
}
