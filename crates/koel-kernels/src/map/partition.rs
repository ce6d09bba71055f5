//! The pairs of each partition brought together: one pass into the partitions, or a pass into groups of partitions and one
//! inside the groups.
//!
//! A block sorts a tile of pairs by bin in shared memory, reserves room in each bin with one global add, and writes each
//! bin's run coalesced: 16 bytes of traffic a pair and pass. Only the first pass hashes. Bins have room for what a good
//! hash function gives them and some deviations more; a run that does not fit goes to an overflow area behind the bins,
//! which is normally empty.
use super::header;
use super::layout::Shape;
use crate::hash::mulhi;
use crate::partition::{NOWHERE, fits, load_tile, scatter};
use koel_simt::{Buf, In, Thread, U64x2, kernel, unroll};

/// Pairs that an overflow area has room for.
pub const OVERFLOW: u32 = 1 << 16;

/// Where a pass puts pairs: a kernel's argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Bins {
    /// Bins that a block chooses from.
    pub count: u32,
    /// Places of a bin: even.
    pub room: u32,
    /// Where the overflow area begins: behind the last bin.
    pub overflow: u32,
    /// The header word that counts its pairs.
    pub overflow_word: u32,
}
// SAFETY: plain numbers, no padding.
#[cfg(not(target_arch = "nvptx64"))]
unsafe impl koel_simt::Arg for Bins {}

/// A block's work: threads, pairs of a thread, most bins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tile {
    /// Threads of a block.
    pub threads: u32,
    /// Pairs of a thread: a multiple of 4.
    pub items: u32,
    /// Bins, at most.
    pub bins: u32,
}
impl Tile {
    /// Pairs of a block.
    pub const fn pairs(self) -> u32 {
        self.threads * self.items
    }
    /// Bytes of shared memory.
    pub const fn shared(self) -> u32 {
        self.pairs() * 8 + self.bins * 8 + 32 * 4
    }
}
/// For up to 256 bins.
pub const NARROW: Tile = Tile { threads: 384, items: 20, bins: 256 };
/// For up to 1024 bins within the 64 KB of shared memory of compute capability 7.5.
pub const SMALL: Tile = Tile { threads: 512, items: 12, bins: 1024 };
/// For up to 1280 bins where there is more.
pub const WIDE: Tile = Tile { threads: 1024, items: 16, bins: 1280 };

/// Where a run goes: into its bin, or behind all of them.
#[inline(always)]
fn place(bins: Bins, first_bin: u32, valid: Buf<u32>, table_header: Buf<u32>) -> impl Fn(u32, u32, u32) -> u32 {
    move |bin, before, run| {
        let bin = first_bin + bin;
        if fits(bins.room, before, run) {
            bin * bins.room + before
        } else {
            valid.fetch_min(bin, before);
            overflow_place(run, bins, table_header)
        }
    }
}
/// Room for a run behind the bins.
#[inline(always)]
fn overflow_place(run: u32, bins: Bins, table_header: Buf<u32>) -> u32 {
    let place = table_header.fetch_add(bins.overflow_word, run);
    if !fits(OVERFLOW, place, run) {
        table_header.fetch_add(header::FAILED, run);
        return NOWHERE;
    }
    bins.overflow + place
}

#[inline(always)]
fn from_input<const THREADS: usize, const ITEMS: usize, const BINS: usize, const PER: usize>(
    t: Thread,
    shape: Shape,
    n: u32,
    aligned: u32,
    keys: In<u32>,
    values: In<u32>,
    bins: Bins,
    out: Buf<u64>,
    cursors: Buf<u32>,
    valid: Buf<u32>,
    table_header: Buf<u32>,
) {
    t.wait_for_previous();
    t.let_next_start();
    let tile = load_tile::<THREADS, ITEMS>(t, n, aligned, keys, values, |key| shape.mixed(key));
    let bin_of = |h: u32| mulhi(h, bins.count);
    let place = place(bins, 0, valid, table_header);
    scatter::<THREADS, ITEMS, BINS, PER>(t, tile, bin_of, 0, cursors, place, out)
}

macro_rules! from_input { ($($(#[$doc:meta])* $name:ident $tile:ident: $threads:literal $items:literal $bins:literal $blocks:literal $per:literal;)*) => { $(
    $(#[$doc])*
    #[kernel(threads = $threads, min_blocks = $blocks, shared = $tile.shared(), starts_early)]
    pub fn $name(
        t: Thread,
        shape: Shape,
        n: u32,
        aligned: u32,
        keys: In<u32>,
        values: In<u32>,
        bins: Bins,
        out: Buf<u64>,
        cursors: Buf<u32>,
        valid: Buf<u32>,
        table_header: Buf<u32>,
    ) {
        const { assert!($tile.threads == $threads && $tile.items == $items && $tile.bins == $bins) };
        from_input::<$threads, $items, $bins, $per>(t, shape, n, aligned, keys, values, bins, out, cursors, valid, table_header)
    }
)* } }
from_input! {
    /// The input into at most 256 bins: groups of partitions, or partitions. `aligned`: keys and values begin on multiples
    /// of 16 bytes. Set `cursors` to zeros and `valid` to ones before.
    map_from_input_narrow NARROW: 384 20 256 2 1;
    /// The same with [`SMALL`].
    map_from_input_small SMALL: 512 12 1024 1 2;
    /// The same with [`WIDE`].
    map_from_input_wide WIDE: 1024 16 1280 1 2;
}

/// The groups of the first pass into their partitions, each block a tile of one group.
///
/// `groups`: the bins of the first pass; `tiles`: blocks for each of them. Set `cursors` to zeros and `valid` to ones
/// before.
#[kernel(threads = 384, min_blocks = 2, shared = NARROW.shared(), starts_early)]
pub fn map_from_groups(
    t: Thread,
    shape: Shape,
    groups: Bins,
    tiles: u32,
    group_cursors: In<u32>,
    group_valid: In<u32>,
    input: In<u64>,
    bins: Bins,
    out: Buf<u64>,
    cursors: Buf<u32>,
    valid: Buf<u32>,
    table_header: Buf<u32>,
) {
    const THREADS: usize = NARROW.threads as usize;
    const ITEMS: usize = NARROW.items as usize;
    t.wait_for_previous();
    t.let_next_start();
    let group = t.block().checked_div(tiles).unwrap_or(0);
    let first = (t.block() - group * tiles) * NARROW.pairs();
    let all = group_cursors.get(group).min(group_valid.get(group)).min(groups.room);
    // Every thread of the block leaves, or none.
    if all <= first {
        return;
    }
    let count = (all - first).min(NARROW.pairs());
    let at = |j: usize| ((j / 2 * THREADS) as u32 + t.id()) * 2 + j as u32 % 2;
    let mut pairs = [0; ITEMS];
    unroll::<ITEMS>(|j| {
        if j % 2 == 0 && at(j) < count {
            // Rooms are even: the second one exists, though it may not count.
            let U64x2(two) = input.x2().get_stream((group * groups.room + first + at(j)) / 2);
            unroll::<2>(|l| pairs[j + l] = two[l]);
        }
    });
    let first_bin = group * bins.count;
    let bin_of = |h: u32| shape.partition(h) - first_bin;
    let place = place(bins, first_bin, valid, table_header);
    scatter::<THREADS, ITEMS, 256, 1>(t, (pairs, count, at), bin_of, first_bin, cursors, place, out)
}
