//! Export of a table's pairs as arrays.
use super::find::{self, MapRef};
use crate::table::header;
use crate::table::layout::{BUCKET, EMPTY, Layout, Narrow, Wide};
use koel_simt::{Buf, Thread, block, kernel, unroll};

/// Slots per thread: one bucket.
const SLOTS: usize = BUCKET;

/// Appends every pair to two arrays, which already hold `count` pairs, in any order. One thread per
/// bucket and per four slots of the stash.
#[kernel(threads = 256, starts_early, for L in [
    Narrow { image = MAP }, Wide<u32, u64> { image = MAP_WIDE },
    Wide<u64, u32> { image = MAP_WIDE }, Wide<u64, u64> { image = MAP_WIDE }
])]
pub fn map_export<L: Layout>(
    t: Thread,
    table: MapRef<L>,
    keys: Buf<L::Key>,
    values: Buf<L::Value>,
    count: Buf<u64>,
) {
    let MapRef { shape, stash_bits, slots, stash, header: table_header, .. } = table;
    t.wait_for_previous();
    t.let_next_start();
    let seed = table_header.get(header::SEED);
    let (buckets, i) = (shape.all_buckets(), t.global_id() as u64);
    let stashed = if table_header.get(header::STASHED) != 0 { 1u64 << stash_bits } else { 0 };
    // A bucket, or four slots of the stash.
    let (mut pairs, mut mine) = ([L::EMPTY_PAIR; SLOTS], 0);
    unroll::<SLOTS>(|s| {
        let (head, behind) = if i < buckets {
            let at = i * L::WORDS as u64 + s as u64;
            (slots.get(at), if L::SLOT_WORDS > 1 { slots.get(at + SLOTS as u64) } else { 0 })
        } else {
            let slot = (i - buckets) * SLOTS as u64 + s as u64;
            let at = slot * L::SLOT_WORDS as u64;
            if slot >= stashed {
                (EMPTY, 0)
            } else {
                (stash.get(at), if L::SLOT_WORDS > 1 { stash.get(at + 1) } else { 0 })
            }
        };
        // Fillers belong to other buckets.
        let belongs = i >= buckets || shape.belongs(L::hash(L::key_in(head)), i as u32);
        if head != EMPTY && belongs {
            pairs[s] = L::with_head(head, behind);
            mine += 1;
        }
    });
    let held = i == 0 && table_header.get(header::HELD) != 0;
    let up_to_me = block::warp_inclusive_sum(t, mine + held as u32);
    let mut first = 0;
    if t.lane() == 31 {
        first = count.fetch_add(0, up_to_me as u64) as u32;
    }
    let mut to = t.warp().shfl(first, 31) + up_to_me - mine - held as u32;
    unroll::<SLOTS>(|s| {
        if L::head(pairs[s]) != EMPTY {
            keys.store(to, L::unmixed(seed, L::key(pairs[s])));
            values.store(to, L::value(pairs[s]));
            to += 1;
        }
    });
    if held {
        keys.store(to, L::unmixed(seed, L::AMBIGUOUS));
        values.store(to, find::held_value(table_header));
    }
}
