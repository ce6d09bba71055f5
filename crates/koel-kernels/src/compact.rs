//! Stream compaction: keeps the elements whose flag is set, in order, in one pass.
use crate::lookback::{Tiles, sum_before, take_tile};
use crate::payload::{FromTo, NoPayload, Payload};
use koel_simt::{Buf, In, Thread, Word, block, kernel, unroll};

const THREADS: u32 = 256;
const ITEMS: usize = 16;
/// Elements per block.
pub const TILE: u32 = THREADS * ITEMS as u32;

/// Keeps some of `n` elements, in order. `keeps(i)` returns whether element `i` stays, `put(to, i)`
/// writes it as the `to`-th, and `end(kept)` is called once. Each block takes a tile of [`TILE`],
/// and uses 32 * 4 + 4 + 4 bytes of shared memory.
///
/// A warp owns 16 rows of 32 elements. The kept elements of a row go to consecutive places, so no
/// staging is needed.
#[inline(always)]
pub fn keep(
    t: Thread,
    n: u32,
    keeps: impl Fn(u32) -> bool,
    put: impl Fn(u32, u32),
    end: impl Fn(u32),
    tiles: Tiles,
) {
    let mut shared = t.shared();
    let sums = shared.array::<u32>(32);
    let carry = shared.array::<u32>(1);
    let slot = shared.array::<u32>(1);

    take_tile(t, tiles.ticket, slot);
    t.barrier();
    let tile = slot.load(0);
    let mine = tile * TILE + t.warp_id() * (32 * ITEMS as u32) + t.lane();
    let at = |j: usize| mine + j as u32 * 32;

    let mut stays = [false; ITEMS];
    unroll::<ITEMS>(|j| {
        if at(j) < n {
            stays[j] = keeps(at(j));
        }
    });
    // Rank of each row's element among those the warp keeps, and the number it has kept so far.
    let (mut rank, mut kept) = ([0; ITEMS], 0);
    unroll::<ITEMS>(|j| {
        let votes = t.warp().ballot(stays[j]);
        rank[j] = kept + t.rank_in(votes);
        kept += votes.count_ones();
    });
    let (before_warp, own) = block::exclusive_sum(t, if t.lane() == 0 { kept } else { 0 }, sums);
    let before_warp = t.warp().shfl(before_warp, 0);
    if t.warp_id() == 0 {
        let before_tile = sum_before(t, tiles, tile, own);
        if t.lane() == 0 {
            carry.store(0, before_tile);
            if tile == t.grid_dim() - 1 {
                end(before_tile + own);
            }
        }
    }
    t.barrier();
    let base = carry.load(0) + before_warp;
    unroll::<ITEMS>(|j| {
        if stays[j] {
            put(base + rank[j], at(j));
        }
    });
}

/// Keeps the flagged elements and the values that move with them.
#[inline(always)]
fn keep_flagged<T: Word, V: Payload>(
    t: Thread,
    n: u32,
    flags: In<u8>,
    elements: FromTo<T>,
    values: V,
    count: Buf<u32>,
    tiles: Tiles,
) {
    let FromTo { from: input, to: output } = elements;
    let put = |to, i| {
        output.store(to, input.get_stream(i));
        values.store(to, values.load(i));
    };
    keep(t, n, |i| flags.get_stream(i) != 0, put, |kept| count.store(0, kept), tiles)
}

/// Moves the elements whose flag is not 0, in order, and sets `count[0]` to their number. One block
/// per [`TILE`].
#[kernel(
    image = PRIMITIVES, threads = 256, min_blocks = 4, shared = 32 * 4 + 4 + 4,
    for T in [u32, u64, u128]
)]
pub fn compact<T: Word>(
    t: Thread,
    n: u32,
    flags: In<u8>,
    elements: FromTo<T>,
    count: Buf<u32>,
    tiles: Tiles,
) {
    keep_flagged(t, n, flags, elements, NoPayload, count, tiles)
}
/// Moves the pairs whose flag is not 0, like [`compact`](fn@compact).
#[kernel(
    image = PRIMITIVES, threads = 256, min_blocks = 4, shared = 32 * 4 + 4 + 4,
    for K in [u32, u64], V in [u32, u64]
)]
pub fn compact_pairs<K: Word, V: Word>(
    t: Thread,
    n: u32,
    flags: In<u8>,
    keys: FromTo<K>,
    values: FromTo<V>,
    count: Buf<u32>,
    tiles: Tiles,
) {
    keep_flagged(t, n, flags, keys, values, count, tiles)
}
