//! One-pass partition of pairs: a block sorts its tile by bin in shared memory, reserves room with one global add per bin,
//! and writes each bin's run coalesced.
use crate::bins::{Bits, Hash, Source, bin_of};
use koel_simt::{Buf, In, Thread, block, kernel, unroll};

/// Pairs of a block, bins at most, and bytes of shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Threads of a block.
    pub threads: usize,
    /// Pairs of a thread: a multiple of 4.
    pub items: usize,
    /// Bins, at most.
    pub bins: usize,
}
impl Shape {
    /// Pairs of a block.
    pub const fn tile(self) -> u32 {
        (self.threads * self.items) as u32
    }
    /// Bytes of shared memory.
    pub const fn shared(self) -> u32 {
        self.tile() * 8 + self.bins as u32 * 8 + 32 * 4
    }
}
/// For up to 256 bins.
pub const NARROW: Shape = Shape { threads: 384, items: 20, bins: 256 };
/// For up to 1024 bins within the 64 KB of shared memory of compute capability 7.5.
pub const SMALL: Shape = Shape { threads: 512, items: 12, bins: 1024 };
/// For up to 1024 bins where there is more: runs are long enough to be written as whole lines.
pub const WIDE: Shape = Shape { threads: 1024, items: 16, bins: 1024 };

/// What a block may have on compute capability 7.5.
const LEAST_SHARED: u32 = 64 << 10;
const _: () = assert!(NARROW.shared() <= LEAST_SHARED && SMALL.shared() <= LEAST_SHARED);

/// Places that no output has: below 2^32 with any tile position added.
const NOWHERE: u32 = u32::MAX - (1 << 16);

/// `stride`: from the beginning of a bin's room to that of the next. `room`: places of a bin.
#[inline(always)]
fn partition<S: Source, const THREADS: usize, const ITEMS: usize, const BINS: usize, const PER: usize>(
    t: Thread,
    drop: u32,
    bins: u32,
    stride: u32,
    room: u32,
    aligned: u32,
    n: u32,
    keys: In<u32>,
    values: In<u32>,
    out: Buf<u64>,
    cursors: Buf<u32>,
    overflow: Buf<u32>,
) {
    const { assert!(ITEMS.is_multiple_of(4) && PER * THREADS >= BINS && THREADS * ITEMS <= 1 << 16) };
    let mut shared = t.shared();
    let tile = shared.array::<u64>(THREADS * ITEMS);
    let start = shared.array::<u32>(BINS); // counts first, then where the bin begins in the tile
    let global = shared.array::<u32>(BINS); // where the bin's run goes, less where it begins in the tile
    let sums = shared.array::<u32>(32);

    let first = t.block() * (THREADS * ITEMS) as u32;
    let count = (n - first).min((THREADS * ITEMS) as u32);
    let id = t.id();
    // Four neighbours a thread, so that full tiles are read sixteen bytes at a time.
    let at = |j: usize| ((j / 4 * THREADS) as u32 + id) * 4 + j as u32 % 4;

    unroll::<PER>(|j| {
        let bin = (j * THREADS) as u32 + id;
        if bin < BINS as u32 {
            start.store(bin, 0);
        }
    });
    let mut pair = [0; ITEMS];
    if aligned != 0 && count == (THREADS * ITEMS) as u32 {
        unroll::<ITEMS>(|j| {
            if j % 4 == 0 {
                let i = first / 4 + at(j) / 4;
                let (k, v) = (keys.x4().get_stream(i).0, values.x4().get_stream(i).0);
                unroll::<4>(|l| pair[j + l] = (v[l] as u64) << 32 | S::stored(k[l]) as u64);
            }
        });
    } else {
        unroll::<ITEMS>(|j| {
            if at(j) < count {
                let (k, v) = (keys.get_stream(first + at(j)), values.get_stream(first + at(j)));
                pair[j] = (v as u64) << 32 | S::stored(k) as u64;
            }
        });
    }
    t.barrier();

    let mut place = [0; ITEMS]; // the bin, and the rank in it
    unroll::<ITEMS>(|j| {
        if at(j) < count {
            let bin = bin_of(pair[j] as u32, drop, bins);
            place[j] = bin << 16 | start.fetch_add(bin, 1);
        }
    });
    t.barrier();

    // A thread's bins are neighbours. Reserving comes before the scan, to overlap with it.
    let (mut mine, mut reserved, mut sum) = ([0; PER], [0; PER], 0);
    unroll::<PER>(|j| {
        let bin = id * PER as u32 + j as u32;
        if bin < BINS as u32 {
            mine[j] = start.load(bin);
            if mine[j] != 0 {
                reserved[j] = cursors.fetch_add(bin, mine[j]);
            }
            sum += mine[j];
        }
    });
    let (before, _) = block::exclusive_sum(t, sum, sums);
    let mut begin = before;
    unroll::<PER>(|j| {
        let bin = id * PER as u32 + j as u32;
        if bin < BINS as u32 {
            start.store(bin, begin);
            begin += mine[j];
        }
    });
    t.barrier();

    unroll::<ITEMS>(|j| {
        if at(j) < count {
            tile.store(start.load(place[j] >> 16) + (place[j] & 0xffff), pair[j]);
        }
    });
    begin = before;
    unroll::<PER>(|j| {
        let bin = id * PER as u32 + j as u32;
        if bin < BINS as u32 {
            let mut to = bin.wrapping_mul(stride).wrapping_add(reserved[j]).wrapping_sub(begin);
            // Also when the cursor has come near 2^32.
            if mine[j] != 0 && (reserved[j] > room || room - reserved[j] < mine[j]) {
                overflow.fetch_add(0, mine[j]);
                to = NOWHERE;
            }
            global.store(bin, to);
            begin += mine[j];
        }
    });
    t.barrier();

    unroll::<ITEMS>(|j| {
        let i = (j * THREADS) as u32 + id;
        if i < count {
            let e = tile.load(i);
            let to = global.load(bin_of(e as u32, drop, bins)).wrapping_add(i);
            if to < NOWHERE {
                out.store(to, e);
            }
        }
    });
}

macro_rules! entries { ($($(#[$doc:meta])* $name:ident $s:ident, $th:literal $blocks:literal $items:literal $bins:literal $per:literal;)*) => { $(
    $(#[$doc])*
    #[kernel(threads = $th, min_blocks = $blocks, shared = Shape { threads: $th, items: $items, bins: $bins }.shared())]
    pub fn $name(
        t: Thread,
        drop: u32,
        bins: u32,
        stride: u32,
        room: u32,
        aligned: u32,
        n: u32,
        keys: In<u32>,
        values: In<u32>,
        out: Buf<u64>,
        cursors: Buf<u32>,
        overflow: Buf<u32>,
    ) {
        partition::<$s, $th, $items, $bins, $per>(t, drop, bins, stride, room, aligned, n, keys, values, out, cursors, overflow)
    }
)* } }
entries! {
    /// Pairs `value << 32 | key` to the rooms of their bins: bin `b`'s `i`-th to `out[b * stride + i]`, `i` from
    /// `cursors[b]` on, which is raised. What finds no place is counted in `overflow[0]`. [`NARROW`], by bits of the key.
    partition_bits_narrow Bits, 384 2 20 256 1;
    /// The same with the key mixed, by its mix.
    partition_hash_narrow Hash, 384 2 20 256 1;
    /// [`SMALL`], by bits of the key.
    partition_bits_small Bits, 512 1 12 1024 2;
    /// [`SMALL`], with the key mixed.
    partition_hash_small Hash, 512 1 12 1024 2;
    /// [`WIDE`], by bits of the key.
    partition_bits_wide Bits, 1024 1 16 1024 1;
    /// [`WIDE`], with the key mixed.
    partition_hash_wide Hash, 1024 1 16 1024 1;
}

const START_THREADS: u32 = 256;
/// Exclusive sums of counts, by one block: `starts[b]`, `cursors[b]` = `counts[..b]`, `starts[bins]` = all.
#[kernel(threads = 256, shared = 32 * 4)]
pub fn bin_starts(t: Thread, bins: u32, counts: In<u32>, starts: Buf<u32>, cursors: Buf<u32>) {
    let sums = t.shared().array::<u32>(32);
    let (mut first, mut carry) = (0, 0);
    while first < bins {
        let bin = first + t.id();
        let mine = if bin < bins { counts.get(bin) } else { 0 };
        let (before, all) = block::exclusive_sum(t, mine, sums);
        if bin < bins {
            starts.store(bin, carry + before);
            cursors.store(bin, carry + before);
        }
        carry += all;
        first += START_THREADS;
        t.barrier();
    }
    if t.id() == 0 {
        starts.store(bins, carry);
    }
}
