//! Partition of keys, in one pass into the partitions, or in two: into coarse bins, each of several
//! partitions, and inside the coarse bins. It works as for [maps](crate::map::partition) with half
//! the bytes: each pass reads and writes a key once, and only the first pass hashes.
//!
//! Equal keys need not be told apart. If a tile has more keys for a bin than distinct keys would
//! give it, duplicates are dropped in shared memory before the bin is written.
use super::fill::{Outcome, claim};
use super::layout::{Member, hash, mixed};
use crate::hash::mulhi;
use crate::partition::{Crowd, ELSEWHERE, load_keys, load_run, scatter};
use crate::table::bins::{BinsOut, CoarseIn, StashOut, place};
use crate::table::{stash, state};
use koel_simt::{Buf, In, Thread, block, kernel, unroll};

/// Size of a block's work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tile {
    /// Threads per block.
    pub threads: u32,
    /// 32-bit keys per thread.
    pub items: u32,
    /// 64-bit keys per thread.
    pub items_u64: u32,
    /// Maximum number of bins.
    pub bins: u32,
}
impl Tile {
    /// Returns the number of keys per thread.
    pub const fn items<K: Member>(self) -> u32 {
        if size_of::<K>() == 4 { self.items } else { self.items_u64 }
    }
    /// Returns the number of keys per block.
    pub const fn keys<K: Member>(self) -> u32 {
        self.threads * self.items::<K>()
    }
    /// Returns the bytes of shared memory.
    pub const fn shared<K: Member>(self) -> u32 {
        self.keys::<K>() * size_of::<K>() as u32 + self.bins * 8 + 32 * 4
    }
}
/// For up to 256 bins.
pub const FEW_BINS: Tile = Tile { threads: 384, items: 28, items_u64: 20, bins: 256 };
/// For up to 1024 bins, within the 64 KB of shared memory of compute capability 7.5.
pub const MANY_BINS: Tile = Tile { threads: 512, items: 20, items_u64: 12, bins: 1024 };

/// Keys that a set is built from: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct KeysIn<K: Member> {
    /// The `n` keys.
    pub keys: In<K>,
    /// Number of keys.
    pub n: u32,
    /// Hash seed.
    pub seed: u32,
    /// Not 0 if `keys` begin on a multiple of 16 bytes.
    pub aligned: u32,
}

/// Maximum number of slots that a key probes when a tile's duplicates are dropped.
const TRIES: u32 = 8;

/// Treatment of crowded bins: drops duplicates. `again` reloads the keys of the tile.
#[derive(Clone, Copy)]
struct Copies<A> {
    limit: u32,
    known: bool,
    /// Whether to count crowded tiles.
    counts: bool,
    again: A,
    build_state: Buf<u32>,
}
impl<K: Member, A: Fn() -> [K; ITEMS] + Copy, const ITEMS: usize> Crowd<K, ITEMS> for Copies<A> {
    #[inline(always)]
    fn limit(self) -> u32 {
        self.limit
    }
    #[inline(always)]
    fn known(self) -> bool {
        self.known
    }
    #[inline(always)]
    fn seen(self, keys: u32) {
        // A key with more copies than that is seen in every tile.
        if self.counts && keys < 2 * self.limit {
            self.build_state.fetch_add(state::CROWDED, 1);
        }
    }
    /// Keeps, of equal keys, the first to enter a table in the tile's memory, and all keys that
    /// find no slot there.
    #[inline(always)]
    fn thinned(self, t: Thread, keys: [K; ITEMS], live: u32, crowded: u32) -> ([K; ITEMS], u32) {
        let count = t.block_dim() * ITEMS as u32;
        let table = t.shared().array::<K>(count);
        let mut i = t.id();
        while i < count {
            table.store(i, K::EMPTY);
            i += t.block_dim();
        }
        t.barrier();
        let (mut stay, mut rest) = (live, crowded);
        while rest != 0 {
            let j = rest.trailing_zeros();
            rest &= rest - 1;
            let key = keys.get(j as usize).copied().unwrap_or(K::EMPTY);
            if claim(count, TRIES, key, |at| table.cas(at, K::EMPTY, key)) == Outcome::Met {
                stay &= !(1 << j);
            }
        }
        let dropped = block::warp_inclusive_sum(t, live.count_ones() - stay.count_ones());
        if t.lane() == 31 && dropped != 0 {
            self.build_state.fetch_add(state::DROPPED, dropped);
        }
        // The memory holds the tile again.
        t.barrier();
        ((self.again)(), stay)
    }
}

/// Returns the mixed keys of a tile of the input, and a bit for each valid one.
#[inline(always)]
fn tile_of_input<K: Member, const THREADS: usize, const ITEMS: usize>(
    t: Thread,
    seed: u32,
    n: u32,
    aligned: u32,
    keys: In<K>,
) -> ([K; ITEMS], u32) {
    if n == 0 {
        return ([K::EMPTY; ITEMS], 0);
    }
    let (mut keys, live) = load_keys::<K, THREADS, ITEMS>(t, n, aligned, keys);
    unroll::<ITEMS>(|j| keys[j] = mixed(seed, keys[j]));
    (keys, live)
}
#[inline(always)]
fn from_input<
    K: Member,
    const THREADS: usize,
    const ITEMS: usize,
    const BINS: usize,
    const PER: usize,
>(
    t: Thread,
    input: KeysIn<K>,
    out: BinsOut<K>,
    stash: StashOut,
) {
    let KeysIn { keys: input, n, seed, aligned } = input;
    let BinsOut { bins, pairs: out, overflow, cursors, valid, build_state } = out;
    t.wait_for_previous();
    t.let_next_start();
    stash::clear(t, THREADS as u32, stash.slots, stash.words);
    let (keys, mut live) = tile_of_input::<K, THREADS, ITEMS>(t, seed, n, aligned, input);
    let mut held = 0u32;
    unroll::<ITEMS>(|j| held |= ((keys[j] == K::EMPTY) as u32) << j);
    held &= live;
    live &= !held;
    if held != 0 {
        build_state.fetch_max(state::HELD, 1);
        build_state.fetch_add(state::HELD_COPIES, held.count_ones());
    }
    let known = t.id() == 0
        && bins.crowd != !0
        && build_state.load_relaxed(state::CROWDED) > 2 + t.block() / 128;
    let again = || tile_of_input::<K, THREADS, ITEMS>(t, seed, t.anew(n), aligned, input).0;
    let crowd = Copies { limit: bins.crowd, known, counts: true, again, build_state };
    let bin_of = |key| mulhi(hash::<K>(key), bins.count);
    let place = place(bins, 0, valid, build_state);
    let put = |to, key| out.store(to, key);
    let put_elsewhere = |to, key| overflow.store(to & !ELSEWHERE, key);
    scatter::<K, THREADS, ITEMS, BINS, PER, _>(
        t,
        (keys, live),
        crowd,
        bin_of,
        0,
        cursors,
        place,
        put,
        put_elsewhere,
    )
}
#[inline(always)]
fn from_coarse<K: Member, const THREADS: usize, const ITEMS: usize, const BINS: usize>(
    t: Thread,
    partitions: u32,
    coarse: CoarseIn,
    input: In<K>,
    out: BinsOut<K>,
) {
    let CoarseIn { bins: coarse, tiles, regions: _, cursors: coarse_cursors, valid: coarse_valid } =
        coarse;
    let BinsOut { bins, pairs: out, overflow, cursors, valid, build_state } = out;
    t.wait_for_previous();
    t.let_next_start();
    let coarse_bin = t.block().checked_div(tiles).unwrap_or(0);
    let first = (t.block() - coarse_bin * tiles) * (THREADS * ITEMS) as u32;
    let all = coarse_cursors.get(coarse_bin).min(coarse_valid.get(coarse_bin)).min(coarse.room);
    // Every thread of the block returns, or none.
    if all <= first {
        return;
    }
    let (from, count) = (coarse_bin * coarse.room + first, all - first);
    let tile = |from, count| load_run::<K, THREADS, ITEMS>(t, input, from, count, K::EMPTY);
    let (keys, live) = tile(from, count);
    let first_bin = coarse_bin * bins.count;
    let bin_of = |key| mulhi(hash::<K>(key), partitions) - first_bin;
    let again = || tile(t.anew(from), t.anew(count)).0;
    let crowd = Copies { limit: bins.crowd, known: false, counts: false, again, build_state };
    let place = place(bins, first_bin, valid, build_state);
    let put = |to, key| out.store(to, key);
    let put_elsewhere = |to, key| overflow.store(to & !ELSEWHERE, key);
    scatter::<K, THREADS, ITEMS, BINS, 1, _>(
        t,
        (keys, live),
        crowd,
        bin_of,
        first_bin,
        cursors,
        place,
        put,
        put_elsewhere,
    )
}

/// Partitions the input into up to 256 bins: coarse bins, each of several partitions, or
/// partitions. Empties the stash, if there is one.
#[kernel(
    image = SET, threads = 384, min_blocks = 2, shared = FEW_BINS.shared::<K>(),
    starts_early, local_arrays, ITEMS = FEW_BINS.items::<K>() as usize, for K in [u32, u64]
)]
pub fn set_from_input<K: Member, const ITEMS: usize>(
    t: Thread,
    input: KeysIn<K>,
    out: BinsOut<K>,
    stash: StashOut,
) {
    const { assert!(FEW_BINS.threads == 384 && FEW_BINS.bins == 256) };
    from_input::<K, 384, ITEMS, 256, 1>(t, input, out, stash)
}
/// Partitions the input with [`MANY_BINS`].
#[kernel(
    image = SET, threads = 512, min_blocks = 2, shared = MANY_BINS.shared::<K>(),
    starts_early, local_arrays, ITEMS = MANY_BINS.items::<K>() as usize, for K in [u32, u64]
)]
pub fn set_from_input_many<K: Member, const ITEMS: usize>(
    t: Thread,
    input: KeysIn<K>,
    out: BinsOut<K>,
    stash: StashOut,
) {
    const { assert!(MANY_BINS.threads == 512 && MANY_BINS.bins == 1024) };
    from_input::<K, 512, ITEMS, 1024, 2>(t, input, out, stash)
}
/// Partitions the coarse bins of the first pass into their partitions, `partitions` in all. Each
/// block handles one tile of one coarse bin.
#[kernel(
    image = SET, threads = 384, min_blocks = 2, shared = FEW_BINS.shared::<K>(),
    starts_early, local_arrays, ITEMS = FEW_BINS.items::<K>() as usize, for K in [u32, u64]
)]
pub fn set_from_coarse<K: Member, const ITEMS: usize>(
    t: Thread,
    partitions: u32,
    coarse: CoarseIn,
    input: In<K>,
    out: BinsOut<K>,
) {
    const { assert!(FEW_BINS.threads == 384 && FEW_BINS.bins == 256) };
    from_coarse::<K, 384, ITEMS, 256>(t, partitions, coarse, input, out)
}
