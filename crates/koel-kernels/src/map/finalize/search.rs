//! Contested keys: searches the input for the copy of each key that stays.
use super::{BuildOutput, THREADS};
use crate::map::{FILTER_WORDS, contested_words, filter_bit, rank, ranked};
use crate::table::ending::strided;
use crate::table::layout::{EMPTY, Layout, Number};
use crate::table::{stash, state};
use koel_simt::{Buf, Shared, Thread, unroll};

/// Keys that a thread searches at a time.
pub(super) const SEARCHED: usize = 8;

/// Number of raised ranks that a block remembers.
pub(super) const RAISED: u32 = 1 << 10;

/// Finds the greatest rank of each contested key, in the tiles where it can be. Visits greater
/// ranks first.
#[inline(always)]
pub(super) fn search<L: Layout>(t: Thread, built: BuildOutput<L>) {
    let mut shared = t.shared();
    let filter = shared.array::<u64>(FILTER_WORDS);
    // A tag of the key and a rank that it has. Most copies of a frequent key end here.
    let raised = shared.array::<u64>(RAISED);
    let BuildOutput { finalizing, stamps, build_state, contested, .. } = built;
    let mut i = t.id();
    while i < FILTER_WORDS {
        filter.store(i, contested.load((1u64 << (finalizing.contested_bits & 31)) + i as u64));
        i += THREADS;
    }
    i = t.id();
    while i < RAISED {
        raised.store(i, EMPTY);
        i += THREADS;
    }
    t.barrier();
    // Each block takes one tile of the first pass at a time, which has one stamp, in the order of
    // decreasing ranks.
    let number = |i: u32, of: u32| if stamps.keep_first != 0 { i } else { of - 1 - i };
    let wanted = |i| {
        i < finalizing.tiles && {
            let stamp = stamps.of_tile(number(i, finalizing.tiles));
            build_state.load_relaxed(state::STRETCHES + stamps.word(stamp)) != 0
        }
    };
    let mut wanted_next = wanted(t.block());
    for tile in t.strided(t.block(), t.grid_dim(), finalizing.tiles) {
        let first = number(tile, finalizing.tiles) * finalizing.tile;
        let count = finalizing.tile.min(finalizing.n - first);
        let wanted_now = wanted_next;
        wanted_next = wanted(tile + t.grid_dim());
        let mut i = t.id();
        while wanted_now && i < count {
            // Several keys are in flight at a time.
            let input = |j: usize| first + number((i + j as u32 * THREADS).min(count - 1), count);
            let mut keys = [L::Key::default(); SEARCHED];
            unroll::<SEARCHED>(|j| keys[j] = built.keys.get_stream(input(j)));
            let mixed = keys.map(|key| L::mixed(finalizing.seed, key));
            let ranks = |j: usize| rank(input(j), stamps.keep_first);
            let mut seen = [EMPTY; SEARCHED];
            unroll::<SEARCHED>(|j| {
                let h = L::hash(mixed[j]);
                let (word, bit) = filter_bit(h);
                let contested_key =
                    i + (j as u32 * THREADS) < count && filter.load(word) >> bit & 1 == 0;
                // A narrow key is its hash.
                if contested_key && !(L::SLOT_WORDS == 1 && is_raised(raised, h, h, ranks(j))) {
                    seen[j] =
                        contested.load(stash::start::<L>(mixed[j], finalizing.contested_bits));
                }
            });
            unroll::<SEARCHED>(|j| raise(built, raised, mixed[j], ranks(j), seen[j]));
            i += SEARCHED as u32 * THREADS;
        }
    }
}

/// Returns whether the block remembers this rank or a greater one for the key with this hash and
/// tag.
#[inline(always)]
pub(super) fn is_raised(raised: Shared<u64>, h: u32, tag: u32, rank: u32) -> bool {
    let before = raised.load_volatile(h % RAISED);
    (before >> 32) as u32 == tag && before as u32 >= rank
}

/// Raises the rank of a key if it is contested. `there`: the word where its probe sequence starts.
#[inline(always)]
pub(super) fn raise<L: Layout>(
    built: BuildOutput<L>,
    raised: Shared<u64>,
    key: L::Mixed,
    rank: u32,
    mut there: u64,
) {
    let BuildOutput { finalizing, contested, .. } = built;
    let (h, mask) = (L::hash(key), (1u32 << (finalizing.contested_bits & 31)) - 1);
    let (mut at, mut looked) = (stash::start::<L>(key, finalizing.contested_bits), 0);
    while there != EMPTY && looked <= mask {
        if L::Mixed::narrowed(there) == key {
            let tag = if L::SLOT_WORDS == 1 { h } else { at };
            if !is_raised(raised, h, tag, rank) {
                raised.store_volatile(h % RAISED, (tag as u64) << 32 | rank as u64);
                built.ranks.fetch_max(at, rank);
            }
            return;
        }
        at = (at + 1) & mask;
        there = contested.load(at);
        looked += 1;
    }
}

/// Replaces the values of contested keys, which the table holds once each, and clears the table of
/// contested keys.
#[inline(always)]
pub(super) fn replace<L: Layout>(t: Thread, built: BuildOutput<L>) {
    let BuildOutput { shape, finalizing, stamps, contested, ranks, slots, .. } = built;
    let (mut at, step) = strided(t, THREADS);
    while at < 1 << finalizing.contested_bits {
        let key = contested.load(at);
        if key != EMPTY {
            let mixed = L::Mixed::narrowed(key);
            let pair =
                L::pair(mixed, built.values.get(ranked(ranks.load_relaxed(at), stamps.keep_first)));
            let h = L::hash(mixed);
            match slot_in_buckets::<L>(slots, [shape.first_place(h), shape.second_place(h)], mixed)
            {
                Some((bucket, slot)) => write_pair::<L>(slots, bucket, slot, pair),
                None => {
                    if let Some(at) = stash::slot_of::<L>(built.stash, finalizing.stash_bits, mixed)
                    {
                        write_stashed::<L>(built.stash, at, pair);
                    }
                }
            }
            contested.store(at, EMPTY);
            ranks.store_relaxed(at, 0);
        }
        at += step;
    }
    while at < contested_words(finalizing.contested_bits) as u64 {
        contested.store(at, EMPTY);
        at += step;
    }
}

#[inline(always)]
#[track_caller]
pub(super) fn heads<L: Layout>(slots: Buf<u64>, bucket: u32) -> [u64; 4] {
    let at = bucket as u64 * L::WORDS as u64;
    [0, 1, 2, 3].map(|s| slots.load_relaxed(at + s))
}

/// Returns the bucket and slot of a key in two buckets.
#[inline(always)]
#[track_caller]
pub(super) fn slot_in_buckets<L: Layout>(
    slots: Buf<u64>,
    buckets: [u32; 2],
    key: L::Mixed,
) -> Option<(u32, u32)> {
    let mut hit = None;
    unroll::<2>(|b| {
        let heads = heads::<L>(slots, buckets[b]);
        unroll::<4>(|s| {
            if heads[s] != EMPTY && L::key_in(heads[s]) == key {
                hit = Some((buckets[b], s as u32));
            }
        });
    });
    hit
}

#[inline(always)]
#[track_caller]
pub(super) fn write_pair<L: Layout>(slots: Buf<u64>, bucket: u32, slot: u32, pair: L::Pair) {
    let at = bucket as u64 * L::WORDS as u64 + slot as u64;
    if L::SLOT_WORDS > 1 {
        slots.store_relaxed(at + 4, L::behind(pair));
    }
    slots.store_relaxed(at, L::head(pair));
}

#[inline(always)]
#[track_caller]
pub(super) fn read_pair<L: Layout>(slots: Buf<u64>, bucket: u32, slot: u32) -> L::Pair {
    let at = bucket as u64 * L::WORDS as u64 + slot as u64;
    let behind = if L::SLOT_WORDS > 1 { slots.load_relaxed(at + 4) } else { 0 };
    L::with_head(slots.load_relaxed(at), behind)
}

#[inline(always)]
#[track_caller]
pub(super) fn write_stashed<L: Layout>(stash: Buf<u64>, slot: u32, pair: L::Pair) {
    let at = slot * L::SLOT_WORDS as u32;
    if L::SLOT_WORDS > 1 {
        stash.store_relaxed(at + 1, L::behind(pair));
    }
    stash.store_relaxed(at, L::head(pair));
}

/// Returns a pair with the value of its rank, from a pair that holds the rank.
#[inline(always)]
pub(super) fn with_value<L: Layout>(built: BuildOutput<L>, ranked_pair: L::Pair) -> L::Pair {
    let rank = L::value(ranked_pair).widened() as u32;
    let i = ranked(rank, built.stamps.keep_first);
    L::pair(L::key(ranked_pair), built.values.get(i))
}
