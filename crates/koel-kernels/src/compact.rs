//! Stream compaction: the elements whose flag is set, in their order, in one pass.
use crate::lookback::{sum_before, take_tile};
use crate::moved::{Moved, Nothing, Values};
use koel_simt::{Buf, In, Thread, Word, block, kernel, unroll};

const THREADS: u32 = 256;
const ITEMS: usize = 16;
/// Elements of a block.
pub const TILE: u32 = THREADS * ITEMS as u32;

/// Keeps some of `n` elements, in their order: `keeps(i)` tells whether element `i` stays, `put(to,
/// i)` writes it as the `to`-th; `end(kept)` is called once. A block takes a tile of [`TILE`]; 32 *
/// 4 + 4 + 4 bytes of shared memory.
///
/// A warp owns 16 rows of 32 elements. The kept ones of a row go to consecutive places: no staging
/// is needed.
#[inline(always)]
pub(crate) fn keep(
    t: Thread,
    n: u32,
    epoch: u32,
    keeps: impl Fn(u32) -> bool,
    put: impl Fn(u32, u32),
    end: impl Fn(u32),
    status: Buf<u64>,
    ticket: Buf<u32>,
) {
    let mut shared = t.shared();
    let sums = shared.array::<u32>(32);
    let carry = shared.array::<u32>(1);
    let slot = shared.array::<u32>(1);

    take_tile(t, ticket, slot);
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
    // The row's votes of this lane's bit and below, and how many the warp kept before.
    let (mut rank, mut kept) = ([0; ITEMS], 0);
    unroll::<ITEMS>(|j| {
        let votes = t.warp().ballot(stays[j]);
        rank[j] = kept + t.rank_in(votes);
        kept += votes.count_ones();
    });
    let (before_warp, own) = block::exclusive_sum(t, if t.lane() == 0 { kept } else { 0 }, sums);
    let before_warp = t.warp().shfl(before_warp, 0);
    if t.warp_id() == 0 {
        let before_tile = sum_before(t, status, epoch, tile, own);
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

#[inline(always)]
fn compact<T: Word, V: Moved>(
    t: Thread,
    n: u32,
    epoch: u32,
    flags: In<u8>,
    input: In<T>,
    output: Buf<T>,
    values: V,
    count: Buf<u32>,
    status: Buf<u64>,
    ticket: Buf<u32>,
) {
    let put = |to, i| {
        output.store(to, input.get_stream(i));
        values.store(to, values.load(i));
    };
    keep(
        t,
        n,
        epoch,
        |i| flags.get_stream(i) != 0,
        put,
        |kept| count.store(0, kept),
        status,
        ticket,
    )
}

macro_rules! entries { ($($(#[$doc:meta])* $name:ident $t:ident $(+ $v:ident)?;)*) => { $(
    $(#[$doc])*
    #[kernel(image = PRIMITIVES, threads = 256, min_blocks = 4, shared = 32 * 4 + 4 + 4)]
    pub fn $name(
        t: Thread,
        n: u32,
        epoch: u32,
        flags: In<u8>,
        input: In<$t>,
        output: Buf<$t>,
        $(values: In<$v>, values_out: Buf<$v>,)?
        count: Buf<u32>,
        status: Buf<u64>,
        ticket: Buf<u32>,
    ) {
        let moved = Nothing;
        $(let _ = moved; let moved = Values::<$v> { from: values, to: values_out };)?
        compact::<$t, _>(t, n, epoch, flags, input, output, moved, count, status, ticket)
    }
)* } }
entries! {
    /// `output` = the elements whose flag is not 0, in their order; `count[0]` = how many. One
    /// block a tile.
    compact_u32 u32;
    /// The same for 64-bit elements.
    compact_u64 u64;
    /// The same for 128-bit elements.
    compact_u128 u128;
    /// The same for pairs.
    compact_u32_u32 u32 + u32;
    /// The same for pairs.
    compact_u32_u64 u32 + u64;
    /// The same for pairs.
    compact_u64_u32 u64 + u32;
    /// The same for pairs.
    compact_u64_u64 u64 + u64;
}
