//! One-pass partition of pairs. A block sorts its tile by bin in shared memory, reserves room with
//! one global add per bin, and writes each bin's run coalesced.
use crate::bins::{Binning, Bits, Hash, Source};
use crate::table::layout::Number;
use koel_simt::{Buf, In, Shared, Thread, Word, block, kernel, unroll};

/// Threads, pairs and bins of a block.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Threads per block.
    pub threads: usize,
    /// Pairs per thread: a multiple of 4.
    pub items: usize,
    /// Maximum number of bins.
    pub bins: usize,
}
impl Shape {
    /// Returns the number of pairs per block.
    pub const fn tile(self) -> u32 {
        (self.threads * self.items) as u32
    }
    /// Returns the bytes of shared memory.
    pub const fn shared(self) -> u32 {
        self.tile() * 8 + self.bins as u32 * 8 + 32 * 4
    }
}
/// For up to 256 bins.
pub const NARROW: Shape = Shape { threads: 384, items: 20, bins: 256 };
/// For up to 1024 bins within the 64 KB of shared memory of compute capability 7.5.
pub const SMALL: Shape = Shape { threads: 512, items: 12, bins: 1024 };
/// For up to 1024 bins with more shared memory: runs are long enough to be written as whole lines.
pub const WIDE: Shape = Shape { threads: 1024, items: 16, bins: 1024 };

/// Maximum bytes of shared memory per block on compute capability 7.5.
const MIN_SHARED: u32 = 64 << 10;
const _: () = assert!(NARROW.shared() <= MIN_SHARED && SMALL.shared() <= MIN_SHARED);

/// First place outside the output. [`scatter`] passes places from here on to `put_elsewhere`.
pub const ELSEWHERE: u32 = 1 << 31;
/// Place of pairs that are not written. It is in no output, with any tile position added.
pub const NOWHERE: u32 = u32::MAX - (1 << 16);

/// Returns which of a block's pairs is pair `j` of a thread, in a tile that was
/// [loaded](load_tile).
#[inline(always)]
pub fn tile_index<const THREADS: usize>(t: Thread, j: u32) -> u32 {
    (j / 4 * THREADS as u32 + t.id()) * 4 + j % 4
}

/// Loads a tile from two arrays. Returns `pair(key, value)` for each element, `none` after the end,
/// and a bit for each valid pair. Each thread loads four adjacent elements at a time, so full tiles
/// are read in 16-byte accesses. `ITEMS` is a multiple of 4.
#[inline(always)]
pub fn load_tile<K: Number, V: Number, P: Copy, const THREADS: usize, const ITEMS: usize>(
    t: Thread,
    n: u32,
    aligned: u32,
    keys: In<K>,
    values: In<V>,
    none: P,
    pair: impl Fn(K, V) -> P,
) -> ([P; ITEMS], u32) {
    const { assert!(ITEMS.is_multiple_of(4)) };
    let first = t.block() * (THREADS * ITEMS) as u32;
    let count = (n - first).min((THREADS * ITEMS) as u32);
    let (mut pairs, mut live) = ([none; ITEMS], 0);
    if aligned != 0 && count == (THREADS * ITEMS) as u32 {
        // Issue all loads before waiting for the first.
        let (mut k, mut v) = ([K::default(); ITEMS], [V::default(); ITEMS]);
        unroll::<ITEMS>(|j| {
            if j % 4 == 0 {
                let i = (first + tile_index::<THREADS>(t, j as u32)) / 4;
                let (four_keys, four_values) = (K::four(keys, i), V::four(values, i));
                unroll::<4>(|l| (k[j + l], v[j + l]) = (four_keys[l], four_values[l]));
            }
        });
        unroll::<ITEMS>(|j| pairs[j] = pair(k[j], v[j]));
        live = (1 << ITEMS) - 1;
    } else {
        unroll::<ITEMS>(|j| {
            let at = tile_index::<THREADS>(t, j as u32);
            if at < count {
                pairs[j] = pair(keys.get_stream(first + at), values.get_stream(first + at));
                live |= 1 << j;
            }
        });
    }
    (pairs, live)
}

/// Loads a tile of keys, and returns a bit for each valid one. Each thread loads four adjacent keys
/// at a time, like [`load_tile`].
#[inline(always)]
#[track_caller]
pub fn load_keys<K: Number, const THREADS: usize, const ITEMS: usize>(
    t: Thread,
    n: u32,
    aligned: u32,
    keys: In<K>,
) -> ([K; ITEMS], u32) {
    const { assert!(ITEMS.is_multiple_of(4)) };
    let first = t.block() * (THREADS * ITEMS) as u32;
    let count = (n - first).min((THREADS * ITEMS) as u32);
    let at = |j: usize| tile_index::<THREADS>(t, j as u32);
    let (mut tile, mut live) = ([K::narrowed(0); ITEMS], 0);
    if aligned != 0 && count == (THREADS * ITEMS) as u32 {
        unroll::<ITEMS>(|j| {
            if j % 4 == 0 {
                let four = K::four(keys, (first + at(j)) / 4);
                unroll::<4>(|l| tile[j + l] = four[l]);
            }
        });
        live = u32::MAX >> (32 - ITEMS);
    } else {
        unroll::<ITEMS>(|j| {
            tile[j] = keys.get_stream(first + at(j).min(count - 1));
            live |= ((at(j) < count) as u32) << j;
        });
    }
    (tile, live)
}
/// Loads words from `first` on, `count` of them or a tile, and returns a bit for each valid one.
/// Word `j` of a thread is `j * THREADS` after its first. Issues all loads before using one. `none`
/// stands for words that are not loaded.
#[inline(always)]
#[track_caller]
pub fn load_run<W: Word, const THREADS: usize, const ITEMS: usize>(
    t: Thread,
    words: In<W>,
    first: u32,
    count: u32,
    none: W,
) -> ([W; ITEMS], u32) {
    let mut tile = [none; ITEMS];
    if count >= (THREADS * ITEMS) as u32 {
        // 64-bit indices, so that they differ by constants.
        let mine = first as u64 + t.id() as u64;
        unroll::<ITEMS>(|j| tile[j] = words.get_stream(mine + (j * THREADS) as u64));
        return (tile, u32::MAX >> (32 - ITEMS));
    }
    let mut live = 0;
    unroll::<ITEMS>(|j| {
        let at = (j * THREADS) as u32 + t.id();
        tile[j] = words.get_stream(first + at.min(count - 1));
        live |= ((at < count) as u32) << j;
    });
    (tile, live)
}

/// Treatment of *crowded* bins in a [`scatter`]: bins that receive more pairs of a tile than hashes
/// of distinct keys would send there. If several bins are crowded, all bins of the tile count as
/// crowded.
pub trait Crowd<P, const ITEMS: usize>: Copy {
    /// Whether to treat crowded bins at all.
    const THINS: bool = true;
    /// Returns the number of pairs of a tile from which a bin counts as crowded.
    fn limit(self) -> u32;
    /// Returns whether all bins count as crowded. Thread 0's answer decides.
    #[inline(always)]
    fn known(self) -> bool {
        false
    }
    /// Prepares the tile's memory for [`sample`](Self::sample). A barrier follows.
    #[inline(always)]
    fn begin_sample(self, _: Thread) {}
    /// Looks for copies among the thread's pairs, of which `live` marks the valid ones. Returns
    /// whether it found one; then all bins count as crowded. May use the tile's memory.
    #[inline(always)]
    fn sample(self, _: Thread, _pairs: &[P; ITEMS], _live: u32) -> bool {
        false
    }
    /// Called for a crowded bin, with the number of pairs it receives.
    #[inline(always)]
    fn seen(self, _pairs: u32) {}
    /// Thins the pairs in crowded bins. `live` marks the valid pairs, `crowded` those in crowded
    /// bins. Returns the pairs of the tile, and a bit for each pair that stays. All threads of the
    /// block call it. It may use the tile's memory. It should reload the pairs, so that the common
    /// case need not keep registers for this rare one.
    fn thinned(self, t: Thread, pairs: [P; ITEMS], live: u32, crowded: u32) -> ([P; ITEMS], u32);
}
/// Writes all pairs as they are.
#[derive(Clone, Copy)]
pub struct AsTheyCome;
impl<P, const ITEMS: usize> Crowd<P, ITEMS> for AsTheyCome {
    const THINS: bool = false;
    #[inline(always)]
    fn limit(self) -> u32 {
        u32::MAX
    }
    #[inline(always)]
    fn thinned(self, _: Thread, pairs: [P; ITEMS], live: u32, _: u32) -> ([P; ITEMS], u32) {
        (pairs, live)
    }
}

/// Writes a tile to its bins: those of `pairs` whose bit is set in `live`. `bin_of` returns a
/// pair's bin, below BINS. `cursors[first_bin + bin]` counts the pairs sent to a bin.
/// `place(bin, before, run)` returns where a run of `run` pairs goes, after `before` earlier ones:
/// below [`ELSEWHERE`], somewhere else, or [`NOWHERE`]. `put(to, pair)` writes one pair;
/// `put_elsewhere` writes one whose place is not below [`ELSEWHERE`]. `crowd` treats crowded bins.
///
/// Takes `THREADS * ITEMS * size_of::<P>() + BINS * 8 + 128` bytes of shared memory.
#[inline(always)]
#[track_caller]
pub fn scatter<
    P: Word,
    const THREADS: usize,
    const ITEMS: usize,
    const BINS: usize,
    const PER: usize,
    C: Crowd<P, ITEMS>,
>(
    t: Thread,
    (mut pairs, mut live): ([P; ITEMS], u32),
    crowd: C,
    bin_of: impl Fn(P) -> u32,
    first_bin: u32,
    cursors: Buf<u32>,
    place: impl Fn(u32, u32, u32) -> u32,
    put: impl Fn(u32, P),
    put_elsewhere: impl Fn(u32, P),
) {
    const { assert!(PER * THREADS >= BINS && THREADS * ITEMS < 1 << 16 && BINS < 1 << 15) };
    let tile = Tile::<P, THREADS, ITEMS, BINS, PER>::new(t);
    tile.clear();
    crowd.begin_sample(t);
    t.barrier();
    let mut ranks = tile.count(&pairs, live, &bin_of);
    let copies = crowd.sample(t, &pairs, live);
    t.barrier();
    let mut mine = [0; PER];
    let mut sum = tile.load_counts(&mut mine);
    if C::THINS {
        sum = tile.add_crowded(crowd, &mine, sum);
        sum += if copies { MANY_CROWDED } else { 0 };
    }
    let (mut before, mut count_in_tile) = block::exclusive_sum(t, sum, tile.sums);
    if C::THINS && count_in_tile >= CROWDED {
        // If a few keys are frequent, others are often less so.
        let all = if count_in_tile >= MANY_CROWDED { live } else { 0 };
        let in_crowded = tile.in_crowded(crowd, live, &ranks, all);
        (pairs, live) = crowd.thinned(t, pairs, live, in_crowded);
        ranks = tile.rank(&pairs, live, &bin_of);
        sum = tile.load_counts(&mut mine);
        (before, count_in_tile) = block::exclusive_sum(t, sum, tile.sums);
    }
    let (before, count) = (before % CROWDED, count_in_tile % CROWDED);
    let reserved = tile.reserve(first_bin, cursors, &mine);
    tile.store_starts(before, &mine);
    t.barrier();
    tile.stage(&pairs, live, &ranks);
    let elsewhere = tile.locate(before, &mine, &reserved, place);
    if t.barrier_count(elsewhere) == 0 {
        tile.write(count, bin_of, put);
    } else {
        tile.write_apart(count, bin_of, put, put_elsewhere);
    }
}

/// What the steps of a [`scatter`] share: the tile and its bins in shared memory.
#[derive(Clone, Copy)]
struct Tile<P, const THREADS: usize, const ITEMS: usize, const BINS: usize, const PER: usize> {
    t: Thread,
    pairs: Shared<P>,
    /// Counts of the bins first, then where each bin begins in the tile.
    start: Shared<u32>,
    /// Where the bin's run goes, minus where it begins in the tile.
    global: Shared<u32>,
    sums: Shared<u32>,
}
impl<P: Word, const THREADS: usize, const ITEMS: usize, const BINS: usize, const PER: usize>
    Tile<P, THREADS, ITEMS, BINS, PER>
{
    #[inline(always)]
    #[track_caller]
    fn new(t: Thread) -> Self {
        let mut shared = t.shared();
        Tile {
            t,
            pairs: shared.array::<P>(THREADS * ITEMS),
            start: shared.array::<u32>(BINS),
            global: shared.array::<u32>(BINS),
            sums: shared.array::<u32>(32),
        }
    }
    /// Counts pairs into their bins. Returns, for each pair, its bin and, in the low 16 bits, its
    /// rank in the bin. All threads of the block call it.
    #[inline(always)]
    fn rank(self, pairs: &[P; ITEMS], live: u32, bin_of: &impl Fn(P) -> u32) -> [u32; ITEMS] {
        self.clear();
        self.t.barrier();
        let ranks = self.count(pairs, live, bin_of);
        self.t.barrier();
        ranks
    }
    #[inline(always)]
    fn clear(self) {
        unroll::<PER>(|j| {
            let bin = (j * THREADS) as u32 + self.t.id();
            if bin < BINS as u32 {
                self.start.store(bin, 0);
            }
        });
    }
    #[inline(always)]
    fn count(self, pairs: &[P; ITEMS], live: u32, bin_of: &impl Fn(P) -> u32) -> [u32; ITEMS] {
        let mut ranks = [0; ITEMS];
        unroll::<ITEMS>(|j| {
            if live >> j & 1 != 0 {
                let bin = bin_of(pairs[j]);
                ranks[j] = bin << 16 | self.start.fetch_add(bin, 1);
            }
        });
        ranks
    }
    /// Returns bin `j` of the thread, whose bins are adjacent. It may be past the last one.
    #[inline(always)]
    fn bin(self, j: usize) -> u32 {
        self.t.id() * PER as u32 + j as u32
    }
    /// Loads the counts of the thread's bins. Returns their sum.
    #[inline(always)]
    fn load_counts(self, mine: &mut [u32; PER]) -> u32 {
        let mut sum = 0;
        unroll::<PER>(|j| {
            let bin = self.bin(j);
            if bin < BINS as u32 {
                mine[j] = self.start.load(bin);
                sum += mine[j];
            }
        });
        sum
    }
    /// Adds the number of the thread's crowded bins to the sum of its counts, from bit 16 on.
    #[inline(always)]
    fn add_crowded(self, crowd: impl Crowd<P, ITEMS>, mine: &[u32; PER], mut sum: u32) -> u32 {
        unroll::<PER>(|j| {
            if mine[j] >= crowd.limit() {
                sum += CROWDED;
                crowd.seen(mine[j]);
            }
        });
        sum + if self.t.id() == 0 && crowd.known() { MANY_CROWDED } else { 0 }
    }
    /// Adds the thread's pairs in crowded bins to `found`, one bit each.
    #[inline(always)]
    fn in_crowded(
        self,
        crowd: impl Crowd<P, ITEMS>,
        live: u32,
        ranks: &[u32; ITEMS],
        mut found: u32,
    ) -> u32 {
        unroll::<ITEMS>(|j| {
            if live >> j & 1 != 0 && self.start.load(ranks[j] >> 16) >= crowd.limit() {
                found |= 1 << j;
            }
        });
        found
    }
    /// Reserves room for the runs of the thread's bins. Returns how many pairs precede each.
    #[inline(always)]
    fn reserve(self, first_bin: u32, cursors: Buf<u32>, mine: &[u32; PER]) -> [u32; PER] {
        let mut reserved = [0; PER];
        unroll::<PER>(|j| {
            if mine[j] != 0 {
                reserved[j] = cursors.fetch_add(first_bin + self.bin(j), mine[j]);
            }
        });
        reserved
    }
    /// Stores where the thread's bins begin in the tile, `before` pairs after its start. A barrier
    /// must follow.
    #[inline(always)]
    fn store_starts(self, before: u32, mine: &[u32; PER]) {
        let mut begin = before;
        unroll::<PER>(|j| {
            let bin = self.bin(j);
            if bin < BINS as u32 {
                self.start.store(bin, begin);
                begin += mine[j];
            }
        });
    }
    /// Sorts the pairs by bin into the tile.
    #[inline(always)]
    fn stage(self, pairs: &[P; ITEMS], live: u32, ranks: &[u32; ITEMS]) {
        unroll::<ITEMS>(|j| {
            if live >> j & 1 != 0 {
                let to = self.start.load(ranks[j] >> 16) + (ranks[j] & 0xFFFF);
                self.pairs.store(to, pairs[j]);
            }
        });
    }
    /// Stores where the runs of the thread's bins go. Returns whether one of them goes elsewhere. A
    /// barrier must follow.
    #[inline(always)]
    fn locate(
        self,
        before: u32,
        mine: &[u32; PER],
        reserved: &[u32; PER],
        place: impl Fn(u32, u32, u32) -> u32,
    ) -> bool {
        let mut begin = before;
        let mut elsewhere = false;
        unroll::<PER>(|j| {
            let bin = self.bin(j);
            if bin < BINS as u32 {
                let to = if mine[j] != 0 { place(bin, reserved[j], mine[j]) } else { 0 };
                elsewhere |= to >= ELSEWHERE;
                self.global.store(bin, if to < NOWHERE { to.wrapping_sub(begin) } else { NOWHERE });
                begin += mine[j];
            }
        });
        elsewhere
    }
    /// Writes the `count` pairs of the tile.
    #[inline(always)]
    fn write(self, count: u32, bin_of: impl Fn(P) -> u32, put: impl Fn(u32, P)) {
        unroll::<ITEMS>(|j| {
            let i = (j * THREADS) as u32 + self.t.id();
            if i < count {
                let e = self.pairs.load(i);
                put(self.global.load(bin_of(e)).wrapping_add(i), e);
            }
        });
    }
    /// Writes the pairs of a tile some of which go elsewhere or nowhere.
    #[inline(always)]
    fn write_apart(
        self,
        count: u32,
        bin_of: impl Fn(P) -> u32,
        put: impl Fn(u32, P),
        put_elsewhere: impl Fn(u32, P),
    ) {
        let mut i = self.t.id();
        while i < count {
            let e = self.pairs.load(i);
            let to = self.global.load(bin_of(e)).wrapping_add(i);
            if to < ELSEWHERE {
                put(to, e);
            } else if to < NOWHERE {
                put_elsewhere(to, e);
            }
            i += THREADS as u32;
        }
    }
}

/// Counts one crowded bin in a sum of pairs, which is itself less than this.
const CROWDED: u32 = 1 << 16;
/// Sum from which all bins count as crowded: four crowded bins.
const MANY_CROWDED: u32 = 4 * CROWDED;

/// Returns whether a run fits a bin of `room` places after `taken` pairs. Holds also if the cursor
/// is near 2^32.
#[inline(always)]
pub fn fits(room: u32, taken: u32, run: u32) -> bool {
    taken <= room && run <= room - taken
}

/// Input pairs of a partition: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PairsIn {
    /// Keys of the `n` pairs.
    pub keys: In<u32>,
    /// Values of the `n` pairs.
    pub values: In<u32>,
    /// Number of pairs.
    pub n: u32,
    /// Not 0 if keys and values begin on multiples of 16 bytes.
    pub aligned: u32,
}
/// Output of a partition, with a fixed region per bin: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct RoomsOut {
    /// The regions.
    pub pairs: Buf<u64>,
    /// Number of pairs sent to each bin.
    pub cursors: Buf<u32>,
    /// Counter of the pairs that did not fit.
    pub overflow: Buf<u32>,
    /// Distance between the starts of adjacent regions, in pairs.
    pub stride: u32,
    /// Pairs per region.
    pub room: u32,
}

#[inline(always)]
fn partition<
    S: Source,
    const THREADS: usize,
    const ITEMS: usize,
    const BINS: usize,
    const PER: usize,
>(
    t: Thread,
    binning: Binning,
    input: PairsIn,
    to: RoomsOut,
) {
    let PairsIn { keys, values, n, aligned } = input;
    let RoomsOut { pairs: out, cursors, overflow, stride, room } = to;
    let tile =
        load_tile::<_, _, _, THREADS, ITEMS>(t, n, aligned, keys, values, 0, |key, value| {
            (value as u64) << 32 | S::stored(key) as u64
        });
    let place = |bin: u32, before, run| {
        if fits(room, before, run) {
            bin.wrapping_mul(stride).wrapping_add(before)
        } else {
            overflow.fetch_add(0, run);
            NOWHERE
        }
    };
    let bin = |e: u64| binning.bin_of(e as u32);
    let put = |to: u32, e| out.store(to, e);
    scatter::<_, THREADS, ITEMS, BINS, PER, _>(
        t, tile, AsTheyCome, bin, 0, cursors, place, put, put,
    )
}

/// Partitions pairs `value << 32 | stored key`. Pair `i` of bin `b` goes to
/// `pairs[b * stride + i]`; `i` starts at `cursors[b]`, which is advanced. Pairs that do not fit
/// are counted in `overflow[0]`. One block per tile of [`NARROW`].
#[kernel(
    image = PRIMITIVES, threads = 384, min_blocks = 2, shared = NARROW.shared(),
    for S in [Bits, Hash]
)]
pub fn partition_narrow<S: Source>(t: Thread, binning: Binning, input: PairsIn, to: RoomsOut) {
    const { assert!(NARROW.threads == 384) };
    partition::<S, 384, { NARROW.items }, { NARROW.bins }, 1>(t, binning, input, to)
}
/// Partitions pairs in tiles of [`SMALL`].
#[kernel(image = PRIMITIVES, threads = 512, shared = SMALL.shared(), for S in [Bits, Hash])]
pub fn partition_small<S: Source>(t: Thread, binning: Binning, input: PairsIn, to: RoomsOut) {
    const { assert!(SMALL.threads == 512) };
    partition::<S, 512, { SMALL.items }, { SMALL.bins }, 2>(t, binning, input, to)
}
/// Partitions pairs in tiles of [`WIDE`].
#[kernel(image = PRIMITIVES, threads = 1024, shared = WIDE.shared(), for S in [Bits, Hash])]
pub fn partition_wide<S: Source>(t: Thread, binning: Binning, input: PairsIn, to: RoomsOut) {
    const { assert!(WIDE.threads == 1024) };
    partition::<S, 1024, { WIDE.items }, { WIDE.bins }, 1>(t, binning, input, to)
}

const START_THREADS: u32 = 256;
/// Computes exclusive sums of counts with one block: `starts[b]` and `cursors[b]` become the sum of
/// `counts[..b]`, `starts[bins]` the sum of all.
#[kernel(image = PRIMITIVES, threads = 256, shared = 32 * 4)]
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
