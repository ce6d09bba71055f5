//! Thinning of tiles: copies of a key are dropped before their tile is written.
use crate::hash::mulhi;
use crate::table::layout::{EMPTY, Layout, Number};
use crate::table::{stash, state};
use koel_simt::{Buf, Thread, block, unroll};

/// Returns the pairs of a tile that stay, of those with a bit in `live`: of each key, the copies
/// with the greatest rank, and all copies of the few keys that find no slot in the table. Adds the
/// number of dropped pairs to the build state. `key` returns the key of a pair, which is never all
/// ones; `rank` that of pair `j` of the thread. Reuses the shared memory of the tile.
///
/// All threads of the block must call it. It serves rare tiles: the state of its loops is in local
/// memory, so that the common path keeps its registers.
#[inline(always)]
pub(super) fn without_copies<L: Layout, const THREADS: usize, const ITEMS: usize>(
    t: Thread,
    pairs: [L::Pair; ITEMS],
    live: u32,
    key: impl Fn(L::Pair) -> L::Mixed,
    rank: impl Fn(u32, L::Pair) -> u32,
    build_state: Buf<u32>,
) -> u32 {
    let candidates = candidates::<L, THREADS, ITEMS>(t, &pairs, live, &key);
    // A pair takes at least four bytes more than its key.
    let count = (THREADS * ITEMS) as u32;
    let mut shared = t.shared();
    let (keys, ranks) = (shared.array::<L::Mixed>(count), shared.array::<u32>(count));
    let none = L::Mixed::narrowed(EMPTY);
    let mut i = t.id();
    while i < count {
        keys.store(i, none);
        ranks.store(i, 0);
        i += THREADS as u32;
    }
    t.barrier();
    let pair = |j: u32| pairs.get(j as usize).copied().unwrap_or(L::EMPTY_PAIR);
    let mut slots = [NO_SLOT; ITEMS];
    // A lane does not wait for the keys of others: each step tries one slot, for the next key as
    // soon as one is done.
    let (mut rest, mut tries, mut at) = (candidates, 0, 0);
    while rest != 0 {
        let j = rest.trailing_zeros();
        let (key, rank) = (key(pair(j)), rank(j, pair(j)) + 1);
        let spread = stash::spread::<L>(key);
        // The step and the number of slots have no common divisor.
        at = if tries == 0 { mulhi(spread, count) } else { at + (spread & 31) * 30 + 7 };
        at = if at < count { at } else { at - count };
        let there = keys.cas(at, none, key);
        let mine = there == none || there == key;
        if mine {
            if ranks.load_volatile(at) < rank {
                ranks.fetch_max(at, rank);
            }
            if let Some(slot) = slots.get_mut(j as usize) {
                *slot = at;
            }
        }
        tries += 1;
        if mine || tries == TRIES {
            rest &= rest - 1;
            tries = 0;
        }
    }
    t.barrier();
    let mut stay = live;
    rest = candidates;
    while rest != 0 {
        let j = rest.trailing_zeros();
        rest &= rest - 1;
        let slot = slots.get(j as usize).copied().unwrap_or(NO_SLOT);
        if slot != NO_SLOT && ranks.load_volatile(slot) != rank(j, pair(j)) + 1 {
            stay &= !(1 << j);
        }
    }
    let dropped = block::warp_inclusive_sum(t, live.count_ones() - stay.count_ones());
    if t.lane() == 31 && dropped != 0 {
        build_state.fetch_add(state::DROPPED, dropped);
    }
    stay
}
/// Maximum number of slots that a key tries.
const TRIES: u32 = 16;
const NO_SLOT: u32 = u32::MAX;

/// Returns the pairs, of those with a bit in `live`, that may have copies in the tile: all that do,
/// and of the others about one in sixteen in a full tile. Of two bits for each hash, the first says
/// that a key came, the second that two did.
#[inline(always)]
fn candidates<L: Layout, const THREADS: usize, const ITEMS: usize>(
    t: Thread,
    pairs: &[L::Pair; ITEMS],
    live: u32,
    key: &impl Fn(L::Pair) -> L::Mixed,
) -> u32 {
    let bits = ((THREADS * ITEMS) as u32 * 16).next_power_of_two();
    let mut shared = t.shared();
    let (once, twice) = (shared.array::<u32>(bits / 32), shared.array::<u32>(bits / 32));
    let mut i = t.id();
    while i < bits / 32 {
        once.store(i, 0);
        twice.store(i, 0);
        i += THREADS as u32;
    }
    t.barrier();
    let place = |pair| {
        let at = stash::spread::<L>(key(pair)) >> (32 - bits.ilog2());
        (at / 32, 1u32 << (at % 32))
    };
    // Several keys are in flight at a time.
    unroll::<ITEMS>(|j| {
        if j % 4 == 0 {
            let mut before = [0u32; 4];
            unroll::<4>(|l| {
                let (word, bit) = place(pairs[j + l]);
                if live >> (j + l) & 1 != 0 {
                    before[l] = once.fetch_or(word, bit);
                }
            });
            unroll::<4>(|l| {
                let (word, bit) = place(pairs[j + l]);
                if before[l] & bit != 0 {
                    twice.fetch_or(word, bit);
                }
            });
        }
    });
    t.barrier();
    let mut found = 0u32;
    unroll::<ITEMS>(|j| {
        let (word, bit) = place(pairs[j]);
        found |= ((twice.load(word) & bit != 0) as u32) << j;
    });
    t.barrier();
    found & live
}
