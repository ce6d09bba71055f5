//! Partition passes: they bring the pairs of each partition together, in one pass, or in a first
//! pass to bins of several partitions and a second within each of these bins.
//!
//! A block sorts a tile of pairs by bin in shared memory, reserves room in each bin with one global
//! atomic add, and writes each bin's run coalesced. Each pass reads and writes a pair once. Only
//! the first pass hashes. Bins have room for what a good hash function sends them plus a few
//! standard deviations. A run that does not fit goes to an overflow area, which is normally empty.
//!
//! # Stamps
//! Bins do not keep the order of the input, but the last (or first) copy of a key must stay. Bits
//! of the hash that the bin implies hold a [stamp](super::stamps) instead: the tile of the pass
//! over the input that the pair came from. Stamps therefore rank copies from different tiles at no
//! cost in memory. Pairs in an overflow area have theirs behind it. For copies with the same stamp,
//! [`finalize`](super::finalize) searches the input; with too few bins for stamps, all stamps are
//! the same.
//!
//! # Copies in one tile
//! The pass over the input looks for copies within its tile: pairs with certain hashes, one in
//! `SAMPLED`, meet in a small table. If two of them are copies, all copies in the tile are
//! dropped in shared memory but the last (or first) of each key.
//!
//! # Frequent keys
//! The pairs of a frequent key would fill its bin. If a tile has more pairs for a bin than distinct
//! keys would send, copies are dropped in the same way: each key keeps one pair per tile. The
//! second pass keeps the copies with the greatest stamp. If tiles of the first pass are crowded now
//! and then, later tiles drop all copies: many keys may be too frequent for their bins although
//! none is frequent enough to be noticed within one tile.
use super::rank;
use super::stamps::{CoarseStamps, Stamps, hash_in, with_hash};
use super::thinning::without_copies;
use crate::hash::mulhi;
use crate::partition::{Crowd, ELSEWHERE, load_tile, scatter, tile_index};
use crate::table::bins::{BinsOut, CoarseIn, StashOut, place, place_in};
use crate::table::layout::{Layout, Narrow, Shape, Wide};
use crate::table::{stash, state};
use core::marker::PhantomData;
use koel_simt::{Buf, In, Thread, kernel, unroll};

/// The pairs that a table is built from, as a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Input<L: Layout> {
    /// The `n` keys.
    pub keys: In<L::Key>,
    /// The `n` values.
    pub values: In<L::Value>,
    /// Number of pairs.
    pub n: u32,
    /// Hash seed.
    pub seed: u32,
    /// Whether keys and values are aligned to 16 bytes (not 0).
    pub aligned: u32,
}

/// The work of a block: threads, pairs per thread, maximum number of bins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tile {
    /// Threads per block.
    pub threads: u32,
    /// Narrow pairs per thread, a multiple of 4. A thread has about half as many wide pairs.
    pub items: u32,
    /// Maximum number of bins.
    pub bins: u32,
}
impl Tile {
    /// Returns the pairs per thread.
    pub const fn items<L: Layout>(self) -> u32 {
        if L::SLOT_WORDS == 1 { self.items } else { self.items / 8 * 4 }
    }
    /// Returns the pairs per block.
    pub const fn pairs<L: Layout>(self) -> u32 {
        self.threads * self.items::<L>()
    }
    /// Returns the bytes of shared memory per block.
    pub const fn shared(self) -> u32 {
        self.threads * self.items * 8 + self.bins * 8 + 32 * 4
    }
}
/// For up to 256 bins.
pub const NARROW: Tile = Tile { threads: 384, items: 20, bins: 256 };
/// For up to 1280 bins of a medium input, where there is more shared memory than on compute
/// capability 7.5: a multiprocessor of a big GPU gets one tile, whose many threads hide latencies.
pub const MEDIUM: Tile = Tile { threads: 1024, items: 8, bins: 1280 };
/// For up to 1280 bins in the 64 KB of shared memory of compute capability 7.5.
pub const SMALL: Tile = Tile { threads: 512, items: 12, bins: 1280 };
/// For up to 1280 bins where there is yet more.
pub const WIDE: Tile = Tile { threads: 1024, items: 16, bins: 1280 };

/// Returns a function that writes a pair to an overflow area, and its stamp behind both areas.
#[inline(always)]
fn put_elsewhere<L: Layout>(
    overflow: Buf<u64>,
    area: u32,
    stamps: Stamps,
    hash: impl Fn(u64) -> u32,
    stamp: impl Fn(u64) -> u32,
) -> impl Fn(u32, L::Pair) {
    let put = put::<L>(overflow, move |head| with_hash::<L>(head, hash(head)));
    move |to, pair| {
        put(to, pair);
        if stamps.count != 0 {
            let at = overflow_stamp::<L>(area, to & !ELSEWHERE);
            overflow.store(at, stamp(L::head(pair)) as u64);
        }
    }
}
/// Returns where the stamp of pair `place` of the overflow areas is, each for `area` pairs.
#[inline(always)]
pub fn overflow_stamp<L: Layout>(area: u32, place: u32) -> u32 {
    2 * area * L::SLOT_WORDS as u32 + place
}
/// Returns a function that writes a pair to a place of an array, with its head changed by `head`.
#[inline(always)]
fn put<L: Layout>(out: Buf<u64>, head: impl Fn(u64) -> u64) -> impl Fn(u32, L::Pair) {
    let out = L::pairs(out);
    move |to, pair| out.store(to & !ELSEWHERE, L::with_head(head(L::head(pair)), L::behind(pair)))
}

impl<L: Layout> Input<L> {
    /// Loads the block's pairs with mixed keys, and a bit for each pair that exists.
    #[inline(always)]
    fn tile<const THREADS: usize, const ITEMS: usize>(self, t: Thread) -> ([L::Pair; ITEMS], u32) {
        let Input { seed, n, aligned, keys, values } = self;
        let pair = |key, value| L::pair(L::mixed(seed, key), value);
        load_tile::<_, _, _, THREADS, ITEMS>(t, n, aligned, keys, values, L::EMPTY_PAIR, pair)
    }
}
/// One hash in this many is in the sample of a tile.
const SAMPLED: u32 = 16;
/// Slots of the sample.
const SAMPLE: u32 = 1024;
/// Handling of crowded bins in the pass over the input.
#[derive(Clone, Copy)]
struct InputCrowd<L: Layout, const THREADS: usize> {
    limit: u32,
    known: bool,
    keep_first: u32,
    input: Input<L>,
    build_state: Buf<u32>,
}
impl<L: Layout, const THREADS: usize, const ITEMS: usize> Crowd<L::Pair, ITEMS>
    for InputCrowd<L, THREADS>
{
    #[inline(always)]
    fn limit(self) -> u32 {
        self.limit
    }
    #[inline(always)]
    fn known(self) -> bool {
        self.known
    }
    #[inline(always)]
    fn seen(self, pairs: u32) {
        // Every tile notices a key with more copies than that.
        if pairs < 2 * self.limit {
            self.build_state.fetch_add(state::CROWDED, 1);
        }
    }
    #[inline(always)]
    fn begin_sample(self, t: Thread) {
        let mut i = t.id();
        while i < SAMPLE {
            t.shared().array::<u32>(SAMPLE).store(i, 0);
            i += THREADS as u32;
        }
    }
    #[inline(always)]
    fn sample(self, t: Thread, pairs: &[L::Pair; ITEMS], live: u32) -> bool {
        let (sample, mut seen) = (t.shared().array::<u32>(SAMPLE), false);
        // Without a limit, all keys are distinct.
        if self.limit != !0 {
            unroll::<ITEMS>(|j| {
                let h = L::hash(L::key(pairs[j]));
                // Zero stands for no hash.
                if h % SAMPLED == 1 && live >> j & 1 != 0 {
                    seen |= sample.swap(h / SAMPLED % SAMPLE, h) == h;
                }
            });
        }
        seen
    }
    #[inline(always)]
    fn thinned(
        self,
        t: Thread,
        pairs: [L::Pair; ITEMS],
        live: u32,
        crowded: u32,
    ) -> ([L::Pair; ITEMS], u32) {
        let last = (THREADS * ITEMS) as u32 - 1;
        let rank = |j, _| {
            let i = tile_index::<THREADS>(t, j);
            if self.keep_first != 0 { last - i } else { i }
        };
        let stay =
            without_copies::<L, THREADS, ITEMS>(t, pairs, crowded, L::key, rank, self.build_state);
        let input = Input { n: t.anew(self.input.n), ..self.input };
        (input.tile::<THREADS, ITEMS>(t).0, live & !crowded | stay)
    }
}
#[inline(always)]
fn from_input<
    L: Layout,
    const THREADS: usize,
    const ITEMS: usize,
    const BINS: usize,
    const PER: usize,
>(
    t: Thread,
    input: Input<L>,
    stamps: Stamps,
    out: BinsOut,
    stash: StashOut,
) {
    let BinsOut { bins, pairs: out, overflow, cursors, valid, build_state } = out;
    t.wait_for_previous();
    t.let_next_start();
    stash::clear(t, THREADS as u32, stash.slots, stash.words);
    let (pairs, mut live) = input.tile::<THREADS, ITEMS>(t);
    let mut held = 0u32;
    unroll::<ITEMS>(|j| held |= ((L::key(pairs[j]) == L::AMBIGUOUS) as u32) << j);
    held &= live;
    live &= !held;
    if held != 0 {
        // The pairs of a thread are numbered in input order.
        let j =
            if stamps.keep_first != 0 { held.trailing_zeros() } else { 31 - held.leading_zeros() };
        let i = t.block() * (THREADS * ITEMS) as u32 + tile_index::<THREADS>(t, j);
        build_state.fetch_max(state::HELD, rank(i, stamps.keep_first));
        build_state.fetch_add(state::HELD_COPIES, held.count_ones());
    }
    let bin_of = |pair| mulhi(hash_in::<L>(L::head(pair)), bins.count);
    let known = t.id() == 0
        && bins.crowd != !0
        && build_state.load_relaxed(state::CROWDED) > 2 + t.block() / 128;
    let keep_first = stamps.keep_first;
    let crowd =
        InputCrowd::<L, THREADS> { limit: bins.crowd, known, keep_first, input, build_state };
    let (stretch, coarse) = stamps.coarse_of_tile(t.block());
    let first_bin = stretch * bins.count;
    let region = |bin| bin * stamps.coarse.stretches + stretch;
    let place = place_in(bins, first_bin, region, valid, build_state);
    let (mask, stamp) = if stamps.coarse.used != 0 {
        (!stamps.coarse.mask, stamps.coarse.with(0, coarse))
    } else {
        (stamps.mask, stamps.with(0, stamps.of_tile(t.block())))
    };
    let stamped = |head| with_hash::<L>(head, hash_in::<L>(head) & mask | stamp);
    let of_tile = stamps.of_tile(t.block());
    let put = put::<L>(out, stamped);
    let put_elsewhere =
        put_elsewhere::<L>(overflow, bins.area, stamps, hash_in::<L>, move |_| of_tile);
    scatter::<_, THREADS, ITEMS, BINS, PER, _>(
        t,
        (pairs, live),
        crowd,
        bin_of,
        first_bin,
        cursors,
        place,
        put,
        put_elsewhere,
    )
}

/// Scatters the input to at most 256 bins, each of one or several partitions. Clears the stash.
#[kernel(
    threads = 384, min_blocks = 2, shared = NARROW.shared(), starts_early, local_arrays,
    ITEMS = NARROW.items::<L>() as usize, for L in [
        Narrow { image = MAP }, Wide<u32, u64> { image = MAP_WIDE },
        Wide<u64, u32> { image = MAP_WIDE }, Wide<u64, u64> { image = MAP_WIDE }
    ]
)]
pub fn map_from_input_narrow<L: Layout, const ITEMS: usize>(
    t: Thread,
    input: Input<L>,
    stamps: Stamps,
    out: BinsOut,
    stash: StashOut,
) {
    const { assert!(NARROW.threads == 384 && NARROW.bins == 256) };
    from_input::<L, 384, ITEMS, 256, 1>(t, input, stamps, out, stash)
}
/// Does the same with tiles of [`SMALL`].
#[kernel(
    threads = 512, shared = SMALL.shared(), starts_early, local_arrays,
    ITEMS = SMALL.items::<L>() as usize, for L in [
        Narrow { image = MAP }, Wide<u32, u64> { image = MAP_WIDE },
        Wide<u64, u32> { image = MAP_WIDE }, Wide<u64, u64> { image = MAP_WIDE }
    ]
)]
pub fn map_from_input_small<L: Layout, const ITEMS: usize>(
    t: Thread,
    input: Input<L>,
    stamps: Stamps,
    out: BinsOut,
    stash: StashOut,
) {
    const { assert!(SMALL.threads == 512 && SMALL.bins == 1280) };
    from_input::<L, 512, ITEMS, 1280, 3>(t, input, stamps, out, stash)
}
/// Does the same with tiles of [`MEDIUM`].
#[kernel(
    threads = 1024, shared = MEDIUM.shared(), starts_early, local_arrays,
    ITEMS = MEDIUM.items::<L>() as usize, for L in [
        Narrow { image = MAP }, Wide<u32, u64> { image = MAP_WIDE },
        Wide<u64, u32> { image = MAP_WIDE }, Wide<u64, u64> { image = MAP_WIDE }
    ]
)]
pub fn map_from_input_medium<L: Layout, const ITEMS: usize>(
    t: Thread,
    input: Input<L>,
    stamps: Stamps,
    out: BinsOut,
    stash: StashOut,
) {
    const { assert!(MEDIUM.threads == 1024 && MEDIUM.bins == 1280) };
    from_input::<L, 1024, ITEMS, 1280, 2>(t, input, stamps, out, stash)
}
/// Does the same with tiles of [`WIDE`].
#[kernel(
    threads = 1024, shared = WIDE.shared(), starts_early, local_arrays,
    ITEMS = WIDE.items::<L>() as usize, for L in [
        Narrow { image = MAP }, Wide<u32, u64> { image = MAP_WIDE },
        Wide<u64, u32> { image = MAP_WIDE }, Wide<u64, u64> { image = MAP_WIDE }
    ]
)]
pub fn map_from_input_wide<L: Layout, const ITEMS: usize>(
    t: Thread,
    input: Input<L>,
    stamps: Stamps,
    out: BinsOut,
    stash: StashOut,
) {
    const { assert!(WIDE.threads == 1024 && WIDE.bins == 1280) };
    from_input::<L, 1024, ITEMS, 1280, 2>(t, input, stamps, out, stash)
}

/// Returns the number of pair `j` of thread `id`, where threads take two adjacent pairs at a time.
#[inline(always)]
pub fn paired<const THREADS: usize>(id: u32, j: u32) -> u32 {
    (j / 2 * THREADS as u32 + id) * 2 + j % 2
}

/// Loads the pairs of thread `id`, of `count` pairs that start at place `from`, which is even.
#[inline(always)]
fn tile_of_coarse_bin<L: Layout, const THREADS: usize, const ITEMS: usize>(
    id: u32,
    input: Buf<u64>,
    from: u32,
    count: u32,
) -> ([L::Pair; ITEMS], u32) {
    let number = |j| paired::<THREADS>(id, j);
    let (mut pairs, mut live) = ([L::EMPTY_PAIR; ITEMS], 0);
    unroll::<ITEMS>(|j| {
        if j % 2 == 0 {
            let at = number(j as u32);
            if at + 1 < count {
                let two = L::two(input, (from + at) / 2);
                unroll::<2>(|l| pairs[j + l] = two[l]);
                live |= 3 << j;
            }
        }
    });
    if !count.is_multiple_of(2) {
        unroll::<ITEMS>(|j| {
            if j % 2 == 0 && number(j as u32) == count - 1 {
                pairs[j] = L::pairs(input).load(from + count - 1);
                live |= 1 << j;
            }
        });
    }
    (pairs, live)
}
/// Handling of crowded bins in the second pass. Without `CHECK`, all keys are distinct.
#[derive(Clone, Copy)]
struct CoarseCrowd<L: Layout, const THREADS: usize, const CHECK: bool> {
    limit: u32,
    stamps: CoarseStamps,
    top: u32,
    input: Buf<u64>,
    from: u32,
    count: u32,
    build_state: Buf<u32>,
    layout: PhantomData<L>,
}
impl<L: Layout, const THREADS: usize, const ITEMS: usize, const CHECK: bool> Crowd<L::Pair, ITEMS>
    for CoarseCrowd<L, THREADS, CHECK>
{
    const THINS: bool = CHECK;
    #[inline(always)]
    fn limit(self) -> u32 {
        self.limit
    }
    #[inline(always)]
    fn thinned(
        self,
        t: Thread,
        pairs: [L::Pair; ITEMS],
        live: u32,
        crowded: u32,
    ) -> ([L::Pair; ITEMS], u32) {
        let CoarseCrowd { stamps, top, input, from, count, build_state, .. } = self;
        let stamped = |pair| hash_in::<L>(L::head(pair));
        let key = |pair| L::key_in(with_hash::<L>(L::head(pair), stamps.hash(stamped(pair), top)));
        // All copies with one stamp stay: nothing here ranks them.
        let rank = |_, pair| stamps.of(stamped(pair));
        let stay = without_copies::<L, THREADS, ITEMS>(t, pairs, crowded, key, rank, build_state);
        (
            tile_of_coarse_bin::<L, THREADS, ITEMS>(
                t.anew(t.id()),
                input,
                t.anew(from),
                t.anew(count),
            )
            .0,
            live & !crowded | stay,
        )
    }
}
/// Scatters a tile of a bin of the first pass: tile `number` of all bins.
#[inline(always)]
pub(super) fn from_coarse<
    L: Layout,
    const THREADS: usize,
    const ITEMS: usize,
    const CHECK: bool,
>(
    t: Thread,
    number: u32,
    shape: Shape,
    stamps: Stamps,
    coarse: CoarseIn,
    input: Buf<u64>,
    out: BinsOut,
) {
    let CoarseIn { bins: coarse, tiles, regions, cursors: coarse_cursors, valid: coarse_valid } =
        coarse;
    let BinsOut { bins, pairs: out, overflow, cursors, valid, build_state } = out;
    let pairs_of_tile = (THREADS * ITEMS) as u32;
    let divided = number.checked_div(tiles).unwrap_or(0);
    let first = (number - divided * tiles) * pairs_of_tile;
    let coarse_bin = divided.checked_div(regions).unwrap_or(0);
    let stretch = divided - coarse_bin * regions;
    let region = stretch * coarse.count + coarse_bin;
    let all = coarse_cursors.get(region).min(coarse_valid.get(region)).min(coarse.room);
    // All threads of the block return, or none.
    if all <= first {
        return;
    }
    let count = (all - first).min(pairs_of_tile);
    let from = divided * coarse.room + first;
    let (pairs, live) = tile_of_coarse_bin::<L, THREADS, ITEMS>(t.id(), input, from, count);
    let first_bin = coarse_bin * bins.count;
    let top = stamps.coarse.top(coarse_bin);
    let hash = |head| stamps.coarse.hash(hash_in::<L>(head), top);
    let stamp = |head| stamps.of_coarse(stretch, stamps.coarse.of(hash_in::<L>(head)));
    let stamped = |head| with_hash::<L>(head, stamps.with(hash(head), stamp(head)));
    let bin_of = |pair| shape.partition(hash(L::head(pair))) - first_bin;
    // Fewer pairs than a tile has places send fewer to each bin.
    let missing = (pairs_of_tile - count).checked_div(bins.count).unwrap_or(0);
    let crowd = CoarseCrowd::<L, THREADS, CHECK> {
        limit: if bins.crowd == !0 { !0 } else { bins.crowd - missing },
        stamps: stamps.coarse,
        top,
        input,
        from,
        count,
        build_state,
        layout: PhantomData,
    };
    let place = place(bins, first_bin, valid, build_state);
    let put = put::<L>(out, stamped);
    let put_elsewhere = put_elsewhere::<L>(overflow, bins.area, stamps, hash, stamp);
    scatter::<_, THREADS, ITEMS, 256, 1, _>(
        t,
        (pairs, live),
        crowd,
        bin_of,
        first_bin,
        cursors,
        place,
        put,
        put_elsewhere,
    )
}

/// Scatters the first-pass bins to their partitions; each block takes a tile of one bin.
#[kernel(
    threads = 384, min_blocks = 2, shared = NARROW.shared(), starts_early, local_arrays,
    ITEMS = NARROW.items::<L>() as usize,
    for L in [Narrow { image = MAP }, Wide<u64, u64> { image = MAP_WIDE }]
)]
pub fn map_from_coarse<L: Layout, const ITEMS: usize>(
    t: Thread,
    shape: Shape,
    stamps: Stamps,
    coarse: CoarseIn,
    input: Buf<u64>,
    out: BinsOut,
) {
    const { assert!(NARROW.threads == 384) };
    t.wait_for_previous();
    t.let_next_start();
    from_coarse::<L, 384, ITEMS, true>(t, t.block(), shape, stamps, coarse, input, out)
}
