//! One-pass partition of pairs: a block sorts its tile by bin in shared memory, reserves room with
//! one global add per bin, and writes each bin's run coalesced.
use crate::bins::{Binning, Bits, Hash, Source};
use crate::table::layout::Number;
use koel_simt::{Buf, In, Shared, Thread, Word, block, kernel, unroll};

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
const MIN_SHARED: u32 = 64 << 10;
const _: () = assert!(NARROW.shared() <= MIN_SHARED && SMALL.shared() <= MIN_SHARED);

/// Places from here on are not in the output: the writer of a [`scatter`] is told so.
pub const ELSEWHERE: u32 = 1 << 31;
/// A place that no output has, with any tile position added: what goes there is not written.
pub const NOWHERE: u32 = u32::MAX - (1 << 16);

/// Which of a block's pairs is pair `j` of a thread, in a tile that was [loaded](load_tile).
#[inline(always)]
pub fn tile_index<const THREADS: usize>(t: Thread, j: u32) -> u32 {
    (j / 4 * THREADS as u32 + t.id()) * 4 + j % 4
}

/// Loads a tile from two arrays: `pair(key, value)` of each, `none` behind the end, and a bit for
/// each that is there. Four neighbours a thread, so that full tiles are read sixteen bytes at a
/// time. Four of `ITEMS` at least.
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
        // All loads are under way before the first is waited for.
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

/// Loads a tile of keys, and a bit for each that is there. Four neighbours a thread, as
/// [`load_tile`] does.
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
/// Words from `first` on, `count` of them or a tile, and a bit for each that counts: word `j` of a
/// thread is `j * THREADS` behind its first. All are asked for before one is used. `none` stands
/// where nothing is asked for.
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
        // As 64-bit numbers, so that they differ by constants.
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

/// What a [`scatter`] does about bins that are *crowded*: so many pairs of a tile go there that
/// they are not spread like hashes of distinct keys. If several are, all of the tile's are taken
/// for crowded.
pub trait Crowd<P, const ITEMS: usize>: Copy {
    /// Whether it does anything.
    const THINS: bool = true;
    /// Pairs of a tile from which on a bin is crowded.
    fn limit(self) -> u32;
    /// Whether all bins are taken for crowded: thread 0 is asked.
    #[inline(always)]
    fn known(self) -> bool {
        false
    }
    /// Called for a crowded bin, with the pairs that go there.
    #[inline(always)]
    fn seen(self, _pairs: u32) {}
    /// Of pairs with a bit in `live`, some are in crowded bins: those with one in `crowded`. Gives
    /// the pairs of the tile again, and a bit for each of them that stays. All threads of the
    /// block call it; it may use the memory of the tile. Best it loads the pairs again, so that
    /// nothing must be kept for what is rare.
    fn thinned(self, t: Thread, pairs: [P; ITEMS], live: u32, crowded: u32) -> ([P; ITEMS], u32);
}
/// Nothing is done.
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

/// Writes a tile to its bins: of `pairs`, those whose bit is set in `live`. `bin_of` a pair is
/// below BINS; `cursors[first_bin + bin]` counts what has come to it; `place(bin, before, run)` is
/// where a run of `run` pairs goes of which `before` came earlier: below [`ELSEWHERE`], or
/// somewhere else, or [`NOWHERE`]. `put(to, pair)` writes one pair; `put_elsewhere` one whose place
/// is not below [`ELSEWHERE`]. What is done about crowded bins, `crowd` says.
///
/// `shared` gives out `THREADS * ITEMS * size_of::<P>() + BINS * 8 + 128` bytes.
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
    let mut shared = t.shared();
    let tile = shared.array::<P>(THREADS * ITEMS);
    let start = shared.array::<u32>(BINS); // counts first, then where the bin begins in the tile
    // Where the bin's run goes, less where it begins in the tile.
    let global = shared.array::<u32>(BINS);
    let sums = shared.array::<u32>(32);
    let id = t.id();

    clear_bins::<THREADS, BINS, PER>(t, start);
    t.barrier();
    let mut ranks = count(pairs, live, &bin_of, start);
    t.barrier();

    // A thread's bins are neighbours. Above the sum of their pairs, that of the crowded ones.
    let (mut mine, mut sum) = ([0; PER], 0);
    let of_thread = |mine: &mut [u32; PER], sum: &mut u32| {
        unroll::<PER>(|j| {
            let bin = id * PER as u32 + j as u32;
            if bin < BINS as u32 {
                mine[j] = start.load(bin);
                *sum += mine[j];
            }
        });
    };
    of_thread(&mut mine, &mut sum);
    if C::THINS {
        unroll::<PER>(|j| {
            if mine[j] >= crowd.limit() {
                sum += CROWDED;
                crowd.seen(mine[j]);
            }
        });
        sum += if id == 0 && crowd.known() { MANY_CROWDED } else { 0 };
    }
    let (mut before, mut count_in_tile) = block::exclusive_sum(t, sum, sums);
    if C::THINS && count_in_tile >= CROWDED {
        // Where a few keys are frequent, others are often less so.
        let mut in_crowded = if count_in_tile >= MANY_CROWDED { live } else { 0 };
        unroll::<ITEMS>(|j| {
            if live >> j & 1 != 0 && start.load(ranks[j] >> 16) >= crowd.limit() {
                in_crowded |= 1 << j;
            }
        });
        (pairs, live) = crowd.thinned(t, pairs, live, in_crowded);
        clear_bins::<THREADS, BINS, PER>(t, start);
        t.barrier();
        ranks = count(pairs, live, &bin_of, start);
        t.barrier();
        sum = 0;
        of_thread(&mut mine, &mut sum);
        (before, count_in_tile) = block::exclusive_sum(t, sum, sums);
    }
    let (before, count) = (before % CROWDED, count_in_tile % CROWDED);
    let mut reserved = [0; PER];
    unroll::<PER>(|j| {
        if mine[j] != 0 {
            reserved[j] = cursors.fetch_add(first_bin + id * PER as u32 + j as u32, mine[j]);
        }
    });
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
        if live >> j & 1 != 0 {
            tile.store(start.load(ranks[j] >> 16) + (ranks[j] & 0xFFFF), pairs[j]);
        }
    });
    begin = before;
    let mut elsewhere = false;
    unroll::<PER>(|j| {
        let bin = id * PER as u32 + j as u32;
        if bin < BINS as u32 {
            let to = if mine[j] != 0 { place(bin, reserved[j], mine[j]) } else { 0 };
            elsewhere |= to >= ELSEWHERE;
            global.store(bin, if to < NOWHERE { to.wrapping_sub(begin) } else { NOWHERE });
            begin += mine[j];
        }
    });
    if t.barrier_count(elsewhere) == 0 {
        unroll::<ITEMS>(|j| {
            let i = (j * THREADS) as u32 + id;
            if i < count {
                let e = tile.load(i);
                put(global.load(bin_of(e)).wrapping_add(i), e);
            }
        });
    } else {
        let mut i = id;
        while i < count {
            let e = tile.load(i);
            let to = global.load(bin_of(e)).wrapping_add(i);
            if to < ELSEWHERE {
                put(to, e);
            } else if to < NOWHERE {
                put_elsewhere(to, e);
            }
            i += THREADS as u32;
        }
    }
}

#[inline(always)]
fn clear_bins<const THREADS: usize, const BINS: usize, const PER: usize>(
    t: Thread,
    counts: Shared<u32>,
) {
    unroll::<PER>(|j| {
        let bin = (j * THREADS) as u32 + t.id();
        if bin < BINS as u32 {
            counts.store(bin, 0);
        }
    });
}
/// Counts pairs into their bins: of each pair the bin, and behind it, in 16 bits, the rank in it.
#[inline(always)]
fn count<P: Word, const ITEMS: usize>(
    pairs: [P; ITEMS],
    live: u32,
    bin_of: &impl Fn(P) -> u32,
    counts: Shared<u32>,
) -> [u32; ITEMS] {
    let mut ranks = [0; ITEMS];
    unroll::<ITEMS>(|j| {
        if live >> j & 1 != 0 {
            let bin = bin_of(pairs[j]);
            ranks[j] = bin << 16 | counts.fetch_add(bin, 1);
        }
    });
    ranks
}

/// In a sum of pairs, above which they do not reach: a crowded bin.
const CROWDED: u32 = 1 << 16;
/// So many that all are taken for crowded.
const MANY_CROWDED: u32 = 4 * CROWDED;

/// Whether a run fits a bin of `room` places of which some are taken; also when the cursor has come
/// near 2^32.
#[inline(always)]
pub fn fits(room: u32, taken: u32, run: u32) -> bool {
    taken <= room && run <= room - taken
}

/// Pairs that are partitioned: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PairsIn {
    /// `n` of them.
    pub keys: In<u32>,
    /// `n` of them.
    pub values: In<u32>,
    /// How many pairs there are.
    pub n: u32,
    /// Not 0: keys and values begin on multiples of 16 bytes.
    pub aligned: u32,
}
/// Where pairs go, each bin to a room of its own: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct RoomsOut {
    /// The rooms.
    pub pairs: Buf<u64>,
    /// Pairs that came to each bin.
    pub cursors: Buf<u32>,
    /// One counter of the pairs that found no place.
    pub overflow: Buf<u32>,
    /// Places from the beginning of a room to that of the next.
    pub stride: u32,
    /// Places of a room.
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

/// Pairs `value << 32 | stored key` to the rooms of their bins: bin `b`'s `i`-th to `pairs[b *
/// stride + i]`, `i` from `cursors[b]` on, which is raised. What finds no place is counted in
/// `overflow[0]`. One block a tile of [`NARROW`].
#[kernel(
    image = PRIMITIVES, threads = 384, min_blocks = 2, shared = NARROW.shared(),
    for S in [Bits, Hash]
)]
pub fn partition_narrow<S: Source>(t: Thread, binning: Binning, input: PairsIn, to: RoomsOut) {
    const { assert!(NARROW.threads == 384) };
    partition::<S, 384, { NARROW.items }, { NARROW.bins }, 1>(t, binning, input, to)
}
/// The same in tiles of [`SMALL`].
#[kernel(image = PRIMITIVES, threads = 512, shared = SMALL.shared(), for S in [Bits, Hash])]
pub fn partition_small<S: Source>(t: Thread, binning: Binning, input: PairsIn, to: RoomsOut) {
    const { assert!(SMALL.threads == 512) };
    partition::<S, 512, { SMALL.items }, { SMALL.bins }, 2>(t, binning, input, to)
}
/// The same in tiles of [`WIDE`].
#[kernel(image = PRIMITIVES, threads = 1024, shared = WIDE.shared(), for S in [Bits, Hash])]
pub fn partition_wide<S: Source>(t: Thread, binning: Binning, input: PairsIn, to: RoomsOut) {
    const { assert!(WIDE.threads == 1024) };
    partition::<S, 1024, { WIDE.items }, { WIDE.bins }, 1>(t, binning, input, to)
}

const START_THREADS: u32 = 256;
/// Exclusive sums of counts, by one block: `starts[b]`, `cursors[b]` = `counts[..b]`,
/// `starts[bins]` = all.
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
