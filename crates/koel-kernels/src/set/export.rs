//! Export of a set's keys to an array.
use super::find::SetRef;
use super::layout::{Member, fillers, in_bucket, unmixed};
use crate::table::append::{SUMS, append};
use crate::table::header;
use crate::table::layout::{EMPTY, Layout};
use koel_simt::{Buf, Shared, Thread, kernel, unroll};

/// In the bits of the keys that a thread [appends], the bit of the ambiguous key. It follows those
/// of a bucket.
///
/// [appends]: append
pub(super) const HELD: usize = 8;

/// Appends every key, in any order, to an array that holds `count` keys. Uses one thread per
/// bucket, and one per bucket-sized run of stash slots.
#[kernel(image = SET, threads = 256, shared = SUMS * 4, starts_early, for K in [u32, u64])]
pub fn set_export<K: Member>(t: Thread, table: SetRef<K>, keys: Buf<K>, count: Buf<u64>) {
    let sums = t.shared().array::<u32>(SUMS);
    t.wait_for_previous();
    t.let_next_start();
    let seed = table.header.get(header::SEED);
    let (buckets, i) = (table.shape.all_buckets(), t.global_id() as u64);
    let stashed = if table.header.get(header::STASHED) != 0 { 1u64 << table.stash_bits } else { 0 };
    // A bucket, or as many slots of the stash.
    let bucket = if i < buckets {
        table.bucket(i)
    } else {
        let half = |half: u64| {
            K::half(|s| {
                let slot = (i - buckets) * K::SLOTS as u64 + half * K::SLOTS as u64 / 2 + s as u64;
                let head = if slot < stashed {
                    table.stash.get(slot * K::Pairs::SLOT_WORDS as u64)
                } else {
                    EMPTY
                };
                K::narrowed(head)
            })
        };
        [half(0), half(1)]
    };
    let held = i == 0 && table.header.get(header::HELD) != 0;
    let of_stash = i >= buckets;
    let fillers = if of_stash { 0 } else { fillers::<K>(table.shape, i as u32, &bucket) };
    let has = with_keys::<K>(bucket) & !fillers | (held as u32) << HELD;
    append_keys::<K>(t, seed, bucket, has, sums, keys, count);
}
/// Returns a bit for each slot of a bucket that has a key.
#[inline(always)]
pub(super) fn with_keys<K: Member>(bucket: [K::Half; 2]) -> u32 {
    let mut has = 0;
    unroll::<HELD>(|s| {
        if s < K::SLOTS as usize {
            has |= ((in_bucket::<K>(&bucket, s) != K::EMPTY) as u32) << s;
        }
    });
    has
}
/// Appends the keys of a bucket that have a bit in `has`, and the ambiguous key if its bit is set.
#[inline(always)]
pub(super) fn append_keys<K: Member>(
    t: Thread,
    seed: u32,
    bucket: [K::Half; 2],
    has: u32,
    sums: Shared<u32>,
    keys: Buf<K>,
    count: Buf<u64>,
) {
    append::<{ HELD + 1 }>(t, has, count, sums, |s, to| {
        let mixed = if s < K::SLOTS as usize { in_bucket::<K>(&bucket, s) } else { K::EMPTY };
        keys.store_stream(to, unmixed(seed, mixed));
    });
}
