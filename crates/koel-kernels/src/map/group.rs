//! The pairs of each partition grouped by key, without sorting: what a multimap is made of, in any order.
//!
//! Behind the [passes](super::partition), which drop nothing and stamp nothing here, one block a partition:
//! * A. Every key finds or takes its slot of a table in shared memory and counts itself there: its number among the pairs of its key.
//! * B. Sums over the table tell where the values of each key go; a [look-back](crate::lookback) over the partitions tells where those of
//!   the partition do. The distinct keys, and where their groups begin, are written in the order of the table.
//! * C. Every value goes to its place in shared memory, and from there to memory, coalesced.
//!
//! A pair is read twice, the second time from the cache; its value and, once for each key, the key and a start are written. The order of the
//! groups of a partition, and of the values of a group, is that in which threads came.
use super::layout::{Layout, Narrow, Wide};
use super::state;
use crate::hash::mulhi;
use crate::lookback::{sum_before, take_tile};
use koel_simt::{Buf, In, Thread, U32x4, block, kernel, unroll};

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Pairs of a thread that are under way at a time.
const BATCH: usize = 4;
/// How many times so many a thread has, at most.
const BATCHES: usize = 5;
/// Pairs that a partition has room for, at most.
pub const MOST: u32 = THREADS * (BATCH * BATCHES) as u32;

/// Slots of the table of a partition with room for so many pairs.
pub const fn slots(room: u32) -> u32 {
    room.next_multiple_of(4)
}
/// Bytes of shared memory, with mixed keys of so many bytes.
pub const fn shared_bytes(room: u32, key_bytes: u32) -> u32 {
    slots(room) * (key_bytes + 4) + 32 * 4 + 8 + 4
}
/// Whether the passes have left all pairs in their bins: the ambiguous key is not among them, and none is behind its bin.
#[inline(always)]
fn all_arrived(build_state: In<u32>) -> bool {
    let word = |w: u32| build_state.get(w);
    word(state::OVERFLOW_FIRST) | word(state::OVERFLOW_SECOND) | word(state::FAILED) | word(state::HELD_COPIES) == 0
}

/// A partition's pairs and groups, packed so that both are summed at once. Neither reaches 2^32 in all, nor 2^16 in a block.
#[inline(always)]
fn in_all(of_block: u32) -> u64 {
    ((of_block >> 16) as u64) << 32 | (of_block & 0xFFFF) as u64
}

#[inline(always)]
fn group<L: Layout>(
    t: Thread,
    n: u32,
    seed: u32,
    partitions: u32,
    room: u32,
    epoch: u32,
    pairs: In<u64>,
    counts: In<u32>,
    build_state: In<u32>,
    keys: Buf<L::Key>,
    starts: Buf<u32>,
    values: Buf<L::Value>,
    groups: Buf<u32>,
    status: Buf<u64>,
    ticket: Buf<u32>,
) {
    // All blocks leave, or none.
    if !all_arrived(build_state) {
        if t.global_id() == 0 {
            groups.store(0, u32::MAX);
        }
        return;
    }
    let slots = slots(room);
    let mut shared = t.shared();
    let table = shared.array::<L::Mixed>(slots);
    let counted = shared.array::<u32>(slots);
    let sums = shared.array::<u32>(32);
    let carry = shared.array::<u64>(1);
    let tile = shared.array::<u32>(1);
    take_tile(t, ticket, tile);
    let mut i = t.id();
    while i < slots {
        table.store(i, L::AMBIGUOUS);
        counted.store(i, 0);
        i += THREADS;
    }
    t.barrier();
    let p = tile.load(0);
    let count = counts.get(p).min(room);
    let word = |i: u32| (p * room + i) * L::SLOT_WORDS as u32;
    let number = |j: usize| j as u32 * THREADS + t.id();

    // A.
    let mut places = [[0u32; BATCH]; BATCHES];
    unroll::<BATCHES>(|batch| {
        if number(batch * BATCH) < count {
            let mut heads = [0; BATCH];
            unroll::<BATCH>(|l| heads[l] = pairs.get(word(number(batch * BATCH + l).min(count - 1))));
            unroll::<BATCH>(|l| {
                if number(batch * BATCH + l) < count {
                    let key = L::key_in(heads[l]);
                    // What the partition leaves of the hash.
                    let mut at = mulhi(L::hash(key).wrapping_mul(partitions), slots);
                    // There are as many slots as keys at least.
                    loop {
                        let mut there = table.load_volatile(at);
                        if there == L::AMBIGUOUS {
                            there = table.cas(at, L::AMBIGUOUS, key);
                        }
                        if there == L::AMBIGUOUS || there == key {
                            break;
                        }
                        at = if at + 1 < slots { at + 1 } else { 0 };
                    }
                    places[batch][l] = at << 16 | counted.fetch_add(at, 1);
                }
            });
        }
    });
    t.barrier();

    // B. Each warp has a stretch of the table, four neighbours a lane.
    let of_warp = (slots / 4).div_ceil(THREADS / 32);
    let first = t.warp_id() * of_warp;
    let behind = (first + of_warp).min(slots / 4);
    let four = |i: u32| if i < behind { counted.x4().load(i).0 } else { [0; 4] };
    let packed = |counts: [u32; 4]| {
        let mut sum = 0;
        unroll::<4>(|l| sum += counts[l] << 16 | (counts[l] != 0) as u32);
        sum
    };
    let (mut mine, mut row) = (0, first);
    while row < behind {
        mine += packed(four(row + t.lane()));
        row += 32;
    }
    let (before, own) = block::exclusive_sum(t, mine, sums);
    // Of the warps before this one.
    let mut before = t.warp().shfl(before, 0);
    if t.warp_id() == 0 {
        let of_others = sum_before(t, status, epoch, p, in_all(own));
        if t.lane() == 0 {
            carry.store(0, of_others);
            if p == t.grid_dim() - 1 {
                let all = of_others + in_all(own);
                groups.store(0, all as u32);
                starts.store(all as u32, n);
            }
        }
    }
    t.barrier();
    let (first_value, first_group) = ((carry.load(0) >> 32) as u32, carry.load(0) as u32);
    row = first;
    while row < behind {
        let at = row + t.lane();
        let mut counts = four(at);
        let sum = packed(counts);
        let inclusive = block::warp_inclusive_sum(t, sum);
        let mut here = before + (inclusive - sum);
        unroll::<4>(|l| {
            let begin = here >> 16;
            if counts[l] != 0 {
                let id = first_group + (here & 0xFFFF);
                keys.store(id, L::unmixed(seed, table.load(4 * at + l as u32)));
                starts.store(id, first_value + begin);
                here += counts[l] << 16 | 1;
            }
            counts[l] = begin;
        });
        if at < behind {
            counted.x4().store(at, U32x4(counts));
        }
        before += t.warp().shfl(inclusive, 31);
        row += 32;
    }
    t.barrier();

    // C. The keys have been written.
    let grouped = t.shared().array::<L::Value>(slots);
    // Places are not kept from A on.
    let id = t.anew(t.id());
    let number = |j: usize| j as u32 * THREADS + id;
    unroll::<BATCHES>(|batch| {
        if number(batch * BATCH) < count {
            let mut of = [L::Value::default(); BATCH];
            unroll::<BATCH>(|l| {
                let at = word(number(batch * BATCH + l).min(count - 1));
                of[l] =
                    if L::SLOT_WORDS == 1 { L::value_in(pairs.get(at), 0) } else { L::value_in(0, pairs.get(at + 1)) };
            });
            unroll::<BATCH>(|l| {
                if number(batch * BATCH + l) < count {
                    let place = places[batch][l];
                    grouped.store(counted.load(place >> 16) + (place & 0xFFFF), of[l]);
                }
            });
        }
    });
    t.barrier();
    i = t.id();
    while i < count {
        values.store(first_value + i, grouped.load(i));
        i += THREADS;
    }
}

macro_rules! entries { ($($(#[$doc:meta])* $name:ident $layout:ty, $key:ty, $value:ty, $bytes:literal, $blocks:literal;)*) => { $(
    $(#[$doc])*
    #[kernel(threads = 256, min_blocks = $blocks, shared = shared_bytes(room, $bytes))]
    pub fn $name(
        t: Thread,
        n: u32,
        seed: u32,
        partitions: u32,
        room: u32,
        epoch: u32,
        pairs: In<u64>,
        counts: In<u32>,
        build_state: In<u32>,
        keys: Buf<$key>,
        starts: Buf<u32>,
        values: Buf<$value>,
        groups: Buf<u32>,
        status: Buf<u64>,
        ticket: Buf<u32>,
    ) {
        group::<$layout>(
            t, n, seed, partitions, room, epoch, pairs, counts, build_state, keys, starts, values, groups, status, ticket,
        )
    }
)* } }
entries! {
    /// The pairs of partition after partition by key: group `g` is of `keys[g]`, its values begin at `values[starts[g]]`; `groups[0]` = how many
    /// there are, and `starts` behind the last of them is `n`. If the passes did not bring all pairs to their bins, `groups[0]` is all ones and
    /// nothing else is written.
    ///
    /// One block a partition; `counts`: pairs of each bin of the last pass; `room`: places of a bin, [`MOST`] at most.
    map_group Narrow, u32, u32, 4, 4;
    /// The same.
    map_group_u32_u64 Wide<u32, u64>, u32, u64, 8, 3;
    /// The same.
    map_group_u64_u32 Wide<u64, u32>, u64, u32, 8, 3;
    /// The same.
    map_group_u64_u64 Wide<u64, u64>, u64, u64, 8, 3;
}
