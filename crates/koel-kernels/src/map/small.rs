//! Builds of small inputs: a pass that scatters a [record](super::records::Indexed) of every pair
//! to its partition, and a build with few pairs per block.
//!
//! The input fits in the cache, so pairs stay in place until their buckets are written. A record
//! holds the position of its pair in the input, which also decides which of two equal keys stays;
//! the input is never searched afterwards. Partitions are small, so that every multiprocessor of a
//! big GPU gets one. A thread has few pairs, so it loops where builds of big inputs unroll.
use super::build::{Target, build_indexed, shared_bytes};
use super::partition::Input;
use super::rank;
use super::records::{Indexed, Records, indexed};
use crate::hash::mulhi;
use crate::partition::{ELSEWHERE, NOWHERE};
use crate::table::bins::PartitionsIn;
use crate::table::bins::{BinsOut, StashOut, place};
use crate::table::layout::{Layout, Narrow, Shape, Wide};
use crate::table::{stash, state};
use koel_simt::{Buf, In, Shared, Thread, block, kernel, unroll};

/// Threads per block.
const THREADS: u32 = 256;
/// Keys that a thread loads at a time.
const BATCH: usize = 4;
/// Maximum number of pairs per block of the pass.
pub const MAX_TILE: u32 = 4096;

/// The keys of a small input, as a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct KeysIn<L: Layout> {
    /// The `n` keys.
    pub keys: In<L::Key>,
    /// Number of keys.
    pub n: u32,
    /// Hash seed.
    pub seed: u32,
}

/// Returns the bytes of shared memory per block of the pass.
pub const fn pass_bytes(tile: u32, bins: u32) -> u32 {
    tile * 16 + bins * 4
}

/// The state of a tile in the pass, in shared memory.
#[derive(Clone, Copy)]
struct Tile {
    /// Number of pairs in the tile.
    count: u32,
    /// Hash of each pair's key.
    hashes: Shared<u32>,
    /// Bin of each pair and, in the low 16 bits, its rank among the tile's pairs of that bin; or
    /// [`GONE`].
    places: Shared<u32>,
    /// Number of the tile's pairs for each bin.
    counts: Shared<u32>,
    /// Two slots per pair, to find equal keys.
    firsts: Shared<u32>,
}
/// Maximum number of pairs of a tile that a pair is compared with: many keys may share one hash.
const MAX_COMPARED: u32 = 32;
/// The place of a pair that is not written.
const GONE: u32 = u32::MAX;

impl Tile {
    /// Assigns pair `i` its rank in its bin, and returns it.
    #[inline(always)]
    fn count_in(self, i: u32, bin: u32) -> u32 {
        let number = self.counts.fetch_add(bin, 1);
        self.places.store_volatile(i, bin << 16 | number);
        number
    }
    #[inline(always)]
    fn clear_counts(self, t: Thread, bins: u32) {
        let mut bin = t.id();
        while bin < bins {
            self.counts.store(bin, 0);
            bin += THREADS;
        }
    }
    /// Drops all copies that it finds of each key but the one that stays, and counts again. All
    /// threads of the block must call it.
    #[inline(always)]
    fn drop_copies<L: Layout>(
        self,
        t: Thread,
        bins: u32,
        keep_first: u32,
        key: impl Fn(u32) -> L::Mixed,
        build_state: Buf<u32>,
    ) {
        let slots = 2 * self.count;
        let mut i = t.id();
        while i < slots {
            self.firsts.store(i, GONE);
            i += THREADS;
        }
        self.clear_counts(t, bins);
        t.barrier();
        let mut dropped = 0;
        i = t.id();
        while i < self.count {
            let mut live = self.places.load_volatile(i) != GONE;
            let h = if live { self.hashes.load(i) } else { 0 };
            let mut at = mulhi(h.wrapping_mul(0x9E37_79B1), slots);
            let mut looked = 0;
            while live && looked < MAX_COMPARED {
                let there = self.firsts.cas(at, GONE, i);
                if there == GONE {
                    break;
                }
                if self.hashes.load(there) == h && (L::SLOT_WORDS == 1 || key(there) == key(i)) {
                    if (there < i) == (keep_first != 0) {
                        self.places.store_volatile(i, GONE);
                        (live, dropped) = (false, dropped + 1);
                    } else if self.firsts.cas(at, there, i) == there {
                        self.places.store_volatile(there, GONE);
                        dropped += 1;
                        break;
                    }
                } else {
                    at = if at + 1 < slots { at + 1 } else { 0 };
                    looked += 1;
                }
            }
            i += THREADS;
        }
        dropped = block::warp_inclusive_sum(t, dropped);
        if t.lane() == 31 && dropped != 0 {
            build_state.fetch_add(state::DROPPED, dropped);
        }
        t.barrier();
        i = t.id();
        while i < self.count {
            if self.places.load_volatile(i) != GONE {
                self.count_in(i, mulhi(self.hashes.load(i), bins));
            }
            i += THREADS;
        }
        t.barrier();
    }
}

/// Scatters the records of pairs `t.block() * tile..` to the bins of their partitions. Clears the
/// stash.
#[kernel(
    threads = 256, min_blocks = 4, shared = pass_bytes(tile, out.bins.count), starts_early,
    for L in [
        Narrow { image = MAP }, Wide<u32, u64> { image = MAP_WIDE },
        Wide<u64, u64> { image = MAP_WIDE }
    ]
)]
pub fn map_records<L: Layout>(
    t: Thread,
    keys: KeysIn<L>,
    tile: u32,
    keep_first: u32,
    out: BinsOut,
    stash: StashOut,
) {
    let bins = out.bins.count;
    let mut shared = t.shared();
    let first = t.block() * tile;
    let of = Tile {
        count: tile.min(keys.n.saturating_sub(first)),
        hashes: shared.array::<u32>(tile),
        places: shared.array::<u32>(tile),
        firsts: shared.array::<u32>(2 * tile),
        counts: shared.array::<u32>(bins),
    };
    let steps = Steps { t, keys, first, keep_first, of, out };
    of.clear_counts(t, bins);
    t.wait_for_previous();
    t.let_next_start();
    stash::clear(t, THREADS, stash.slots, stash.words);
    t.barrier();
    let crowded = steps.count();
    if t.barrier_count(crowded) != 0 {
        of.drop_copies::<L>(t, bins, keep_first, |i| steps.key(i), out.build_state);
    }
    steps.place_runs();
    t.barrier();
    steps.scatter();
}

/// What the steps of the pass work on.
#[derive(Clone, Copy)]
struct Steps<L: Layout> {
    t: Thread,
    keys: KeysIn<L>,
    /// Position of the tile's first pair in the input.
    first: u32,
    keep_first: u32,
    of: Tile,
    out: BinsOut,
}
impl<L: Layout> Steps<L> {
    /// Returns the mixed key of pair `i` of the tile.
    #[inline(always)]
    fn key(self, i: u32) -> L::Mixed {
        L::mixed(self.keys.seed, self.keys.keys.get(self.first + i))
    }
    /// Counts each pair into its bin. Returns whether the thread saw a bin that is crowded.
    #[inline(always)]
    fn count(self) -> bool {
        let Steps { t, keys: KeysIn { keys, seed, .. }, first, keep_first, of, out } = self;
        let BinsOut { bins, build_state, .. } = out;
        let (mut crowded, mut i) = (false, t.id());
        while i < of.count {
            let at = |l: usize| i + l as u32 * THREADS;
            let mut batch = [L::Key::default(); BATCH];
            unroll::<BATCH>(|l| {
                if at(l) < of.count {
                    batch[l] = keys.get(first + at(l));
                }
            });
            unroll::<BATCH>(|l| {
                if at(l) < of.count {
                    let mixed = L::mixed(seed, batch[l]);
                    if mixed == L::AMBIGUOUS {
                        build_state.fetch_max(state::HELD, rank(first + at(l), keep_first));
                        build_state.fetch_add(state::HELD_COPIES, 1);
                        of.places.store_volatile(at(l), GONE);
                    } else {
                        let h = L::hash(mixed);
                        of.hashes.store(at(l), h);
                        crowded |= of.count_in(at(l), mulhi(h, bins.count)) >= bins.crowd;
                    }
                }
            });
            i += BATCH as u32 * THREADS;
        }
        crowded
    }
    /// Replaces the count of each bin by the place of the tile's run there.
    #[inline(always)]
    fn place_runs(self) {
        let Steps { t, of, out: BinsOut { bins, cursors, valid, build_state, .. }, .. } = self;
        let place = place(bins, 0, valid, build_state);
        let mut bin = t.id();
        while bin < bins.count {
            let run = of.counts.load(bin);
            if run != 0 {
                of.counts.store(bin, place(bin, cursors.fetch_add(bin, run), run));
            }
            bin += THREADS;
        }
    }
    /// Writes the records of the pairs that are not [`GONE`].
    #[inline(always)]
    fn scatter(self) {
        let Steps { t, first, of, out: BinsOut { pairs, overflow, .. }, .. } = self;
        let mut i = t.id();
        while i < of.count {
            let place = of.places.load_volatile(i);
            if place != GONE {
                let (run, record) =
                    (of.counts.load(place >> 16), indexed(of.hashes.load(i), first + i));
                let to = run.wrapping_add(place & 0xFFFF);
                if run < ELSEWHERE {
                    pairs.store(to, record);
                } else if run < NOWHERE {
                    overflow.store(to & !ELSEWHERE, record);
                }
            }
            i += THREADS;
        }
    }
}

/// Builds partition `t.block()` from records, as [`map_build`](fn@super::build::map_build) does
/// from pairs.
#[kernel(
    threads = 512, min_blocks = 2, shared = shared_bytes(shape.buckets, to.source.list),
    starts_early,
    for L in [
    Narrow { image = MAP }, Wide<u32, u64> { image = MAP_WIDE },
    Wide<u64, u32> { image = MAP_WIDE }, Wide<u64, u64> { image = MAP_WIDE }
]
)]
pub fn map_build_small<L: Layout>(
    t: Thread,
    shape: Shape,
    input: Input<L>,
    keep_first: u32,
    from: PartitionsIn,
    to: Target,
) {
    const { assert!(<Indexed<L> as Records>::THREADS == 512) };
    let Input { keys, values, seed, .. } = input;
    let PartitionsIn { pairs: bins, counts, valid, overflow } = from;
    let bin = t.block() * to.source.room;
    let from = Indexed { seed, keep_first, keys, values, bins, bin, overflow };
    build_indexed::<L>(t, shape, from, counts, valid, to)
}
