//! Stable least-significant-digit radix sort with 8 bits per pass, each pass in one sweep over the
//! data ("Onesweep", Adinets and Merrill 2022). Digits are counted once for all passes. A pass
//! ranks its tiles in registers and shared memory, and finds where each digit's run of a tile goes
//! by decoupled look-back, one thread per digit.
use crate::lookback::{AGGREGATE, PREFIX, Tiles, pack, take_tile, unpack};
use crate::payload::{FromTo, NoPayload, Payload};
use koel_simt::{Buf, In, Scalar, Shared, Thread, Word, block, kernel, unroll};

/// Number of values of a digit.
pub const RADIX: usize = 256;
/// Threads per block of a pass.
pub const THREADS: usize = 512;
const WARPS: usize = THREADS / 32;

/// Key type for sorting.
pub trait SortKey: Scalar {
    /// Number of 8-bit digits.
    const DIGITS: usize;
    /// All ones.
    const LAST: Self;
    /// Returns the bits from `shift` on, masked with `mask`.
    fn digit(self, shift: u32, mask: u32) -> u32;
}
impl SortKey for u32 {
    const DIGITS: usize = 4;
    const LAST: u32 = u32::MAX;
    #[inline(always)]
    fn digit(self, shift: u32, mask: u32) -> u32 {
        self >> (shift & 31) & mask
    }
}
impl SortKey for u64 {
    const DIGITS: usize = 8;
    const LAST: u64 = u64::MAX;
    #[inline(always)]
    fn digit(self, shift: u32, mask: u32) -> u32 {
        (self >> (shift & 63)) as u32 & mask
    }
}

const COUNT_THREADS: u32 = 256;
/// Keys per thread in one iteration.
const COUNT_FLIGHT: usize = 8;
/// Keys that a block counts in one iteration: grids need not be finer.
pub const COUNT_TURN: u32 = COUNT_THREADS * COUNT_FLIGHT as u32;

/// Adds the numbers of keys with each digit value, from bit `begin` to bit `end`, to
/// `counts[pass * 256 ..]`.
#[kernel(
    image = PRIMITIVES, threads = 256, min_blocks = 4, shared = K::DIGITS * RADIX * 4,
    for K in [u32, u64]
)]
pub fn count_digits<K: SortKey>(
    t: Thread,
    begin: u32,
    end: u32,
    n: u32,
    keys: In<K>,
    counts: Buf<u32>,
) {
    let own = t.shared().array::<u32>(K::DIGITS * RADIX);
    unroll::<8>(|p| {
        if p < K::DIGITS {
            own.store((p * RADIX) as u32 + t.id(), 0);
        }
    });
    t.barrier();
    let threads = t.grid_dim() * COUNT_THREADS;
    for i in t.strided(t.global_id(), threads.saturating_mul(COUNT_FLIGHT as u32), n) {
        let mut key = [K::LAST; COUNT_FLIGHT];
        let at = |j: usize| i as u64 + j as u64 * threads as u64;
        unroll::<COUNT_FLIGHT>(|j| {
            if at(j) < n as u64 {
                key[j] = keys.get_stream(at(j));
            }
        });
        unroll::<8>(|p| {
            let shift = begin + 8 * p as u32;
            if p < K::DIGITS && shift < end {
                let mask = digit_mask(shift, end);
                unroll::<COUNT_FLIGHT>(|j| {
                    if at(j) < n as u64 {
                        own.fetch_add((p * RADIX) as u32 + key[j].digit(shift, mask), 1);
                    }
                });
            }
        });
    }
    t.barrier();
    unroll::<8>(|p| {
        if p < K::DIGITS {
            let c = own.load((p * RADIX) as u32 + t.id());
            if c != 0 {
                counts.fetch_add((p * RADIX) as u32 + t.id(), c);
            }
        }
    });
}
/// Returns the mask of a digit that begins at `shift`, where sorting ends at bit `end`.
#[inline(always)]
pub fn digit_mask(shift: u32, end: u32) -> u32 {
    if end - shift < 8 { (1 << (end - shift)) - 1 } else { 0xff }
}

/// Computes exclusive sums of each pass's counts, one block per pass, and resets the counts to
/// zero.
#[kernel(image = PRIMITIVES, threads = 256, shared = 32 * 4)]
pub fn digit_starts(t: Thread, counts: Buf<u32>, starts: Buf<u32>) {
    let sums = t.shared().array::<u32>(32);
    let i = t.global_id();
    let (before, _) = block::exclusive_sum(t, counts.load(i), sums);
    starts.store(i, before);
    counts.store(i, 0);
}

/// Returns the lanes with the same digit, by one vote per bit.
#[inline(always)]
#[track_caller]
fn lanes_with(t: Thread, digit: u32) -> u32 {
    let mut lanes = !0;
    unroll::<8>(|b| {
        // LLVM would test the bit once more for the vote.
        let one = t.anew(digit & 1 << b) != 0;
        let votes = t.warp().ballot(one);
        lanes &= if one { votes } else { !votes };
    });
    lanes
}

/// Digit that a pass sorts by: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Digit {
    /// Start in the output of the keys with each digit value: [`RADIX`] of them.
    pub starts: In<u32>,
    /// Lowest bit of the digit in the key.
    pub shift: u32,
    /// Mask of the digit's bits, shifted down.
    pub mask: u32,
}

/// Returns the number of keys, or pairs, per thread of a pass. For keys alone, `V` is `()`.
pub const fn items<K, V>() -> usize {
    match (size_of::<K>(), size_of::<V>()) {
        (4, 0) => 15,
        (4, 4) => 16,
        _ => 11,
    }
}
/// Returns the bytes of shared memory for the items of a tile: keys, later values.
const fn tile_bytes<K, V>() -> usize {
    let widest = if size_of::<K>() > size_of::<V>() { size_of::<K>() } else { size_of::<V>() };
    THREADS * items::<K, V>() * widest
}
/// Returns the bytes of shared memory of a pass.
const fn shared<K, V>() -> u32 {
    let counts = WARPS * RADIX + RADIX + 32 + 1;
    (tile_bytes::<K, V>() + counts * 4) as u32
}
/// Maximum bytes of shared memory per block on compute capability 7.5.
const MIN_SHARED: u32 = 64 << 10;

/// Words that hold a thread's digits, four each.
const DIGIT_WORDS: usize = 4;

/// What the steps of a pass share. A warp owns `ITEMS` rows of 32 items, so the order tile, warp,
/// row, lane is that of the input, which equal digits keep.
#[derive(Clone, Copy)]
struct Pass<K: SortKey, V: Payload, const ITEMS: usize> {
    t: Thread,
    digit: Digit,
    keys: FromTo<K>,
    values: V,
    tiles: Tiles,
    /// The tile, its first item in the input, and the number of its items.
    tile: u32,
    first: u32,
    count: u32,
    /// The items of the tile, sorted: keys first, then values in the same memory, so that tiles
    /// are large and runs long.
    tile_keys: Shared<K>,
    tile_values: V::Tile,
    /// For each warp: counts first, then places in the tile.
    counts: Shared<u32>,
    /// Where the digit's run goes, minus where it begins in the tile.
    global: Shared<u32>,
    sums: Shared<u32>,
}
impl<K: SortKey, V: Payload, const ITEMS: usize> Pass<K, V, ITEMS> {
    /// Takes a tile and clears the counts. All threads of the block call it.
    #[inline(always)]
    fn begin(
        t: Thread,
        n: u32,
        digit: Digit,
        keys: FromTo<K>,
        values: V,
        tiles: Tiles,
    ) -> Pass<K, V, ITEMS> {
        const { assert!((WARPS * RADIX).is_multiple_of(THREADS) && THREADS >= RADIX) };
        const { assert!(shared::<K, V::Value>() <= MIN_SHARED && ITEMS <= 4 * DIGIT_WORDS) };
        let mut shared = t.shared();
        let tile_keys = t.shared().array::<K>(THREADS * ITEMS);
        let tile_values = V::tile(&mut t.shared(), THREADS * ITEMS);
        shared.array::<u32>(tile_bytes::<K, V::Value>() / 4);
        let counts = shared.array::<u32>(WARPS * RADIX);
        let global = shared.array::<u32>(RADIX);
        let sums = shared.array::<u32>(32);
        let slot = shared.array::<u32>(1);
        take_tile(t, tiles.ticket, slot);
        unroll::<{ WARPS * RADIX / THREADS }>(|j| counts.store((j * THREADS) as u32 + t.id(), 0));
        t.barrier();
        let tile = slot.load(0);
        let first = tile * (THREADS * ITEMS) as u32;
        let count = (n - first).min((THREADS * ITEMS) as u32);
        Pass {
            t,
            digit,
            keys,
            values,
            tiles,
            tile,
            first,
            count,
            tile_keys,
            tile_values,
            counts,
            global,
            sums,
        }
    }
    /// Returns where item `j` of the thread is in the tile.
    #[inline(always)]
    fn at(self, j: usize) -> u32 {
        self.t.warp_id() * (32 * ITEMS) as u32 + (j * 32) as u32 + self.t.lane()
    }
    #[inline(always)]
    fn digit(self, key: K) -> u32 {
        key.digit(self.digit.shift, self.digit.mask)
    }
    /// Returns the thread's items. Items that the last tile lacks are `missing`. A full tile checks
    /// none, so that all its loads share an address.
    #[inline(always)]
    fn load<P: Payload>(self, from: P, missing: P::Value) -> [P::Value; ITEMS] {
        let mut item = [missing; ITEMS];
        let first = self.first as u64 + self.at(0) as u64;
        if self.count == (THREADS * ITEMS) as u32 {
            unroll::<ITEMS>(|j| item[j] = from.load(first + (32 * j) as u64));
        } else {
            unroll::<ITEMS>(|j| {
                if self.at(j) < self.count {
                    item[j] = from.load(first + (32 * j) as u64);
                }
            });
        }
        item
    }
    /// Counts the digits of each warp. A barrier must follow.
    #[inline(always)]
    fn count_digits(self, key: &[K; ITEMS]) {
        let own = self.t.warp_id() * RADIX as u32;
        unroll::<ITEMS>(|j| {
            self.counts.fetch_add(own + self.digit(key[j]), 1);
        });
    }
    /// Returns, with one thread per digit, the count in each earlier warp and in all. Publishes it
    /// to later tiles.
    #[inline(always)]
    fn publish_counts(self) -> ([u32; WARPS], u32) {
        let (id, tile, Tiles { status, epoch, .. }) = (self.t.id(), self.tile, self.tiles);
        let (mut before, mut all) = ([0; WARPS], 0);
        if id < RADIX as u32 {
            unroll::<WARPS>(|w| {
                before[w] = all;
                all += self.counts.load((w * RADIX) as u32 + id);
            });
            if tile != 0 {
                status.store_relaxed(tile * RADIX as u32 + id, pack(epoch, AGGREGATE, all));
            } else {
                let to = self.digit.starts.get(id) + all;
                status.store_relaxed(id, pack(epoch, PREFIX, to));
            }
        }
        (before, all)
    }
    /// Stores where the digit of each warp begins in the tile. `begin`: where the digit does. A
    /// barrier must follow.
    #[inline(always)]
    fn store_places(self, begin: u32, before: &[u32; WARPS]) {
        let id = self.t.id();
        if id < RADIX as u32 {
            unroll::<WARPS>(|w| self.counts.store((w * RADIX) as u32 + id, begin + before[w]));
        }
    }
    /// Returns the places of the thread's items in the sorted tile. Row by row, the first lane with
    /// a digit takes places for all lanes with it.
    #[inline(always)]
    fn rank(self, key: &[K; ITEMS]) -> [u32; ITEMS] {
        let (t, own) = (self.t, self.t.warp_id() * RADIX as u32);
        let mut place = [0; ITEMS];
        unroll::<ITEMS>(|j| {
            let digit = self.digit(key[j]);
            let lanes = lanes_with(t, digit);
            let mut to = 0;
            if lanes.trailing_zeros() == t.lane() {
                to = self.counts.fetch_add(own + digit, lanes.count_ones());
            }
            place[j] = t.warp().shfl(to, lanes.trailing_zeros()) + t.rank_in(lanes);
        });
        place
    }
    /// Finds where the run of each digit goes, with one thread per digit, and publishes the sum so
    /// far. `begin`: where the digit begins in the tile; `all`: its count. A barrier must follow.
    #[inline(always)]
    fn look_back(self, begin: u32, all: u32) {
        let (id, tile, Tiles { status, epoch, .. }) = (self.t.id(), self.tile, self.tiles);
        if id < RADIX as u32 {
            let mut to = self.digit.starts.get(id);
            if tile != 0 {
                to = 0;
                let mut back = tile - 1;
                loop {
                    let (state, sum) = unpack(epoch, status.load_relaxed(back * RADIX as u32 + id));
                    if state != 0 {
                        to += sum;
                        if state == PREFIX {
                            break;
                        }
                        back -= 1;
                    }
                }
                status.store_relaxed(tile * RADIX as u32 + id, pack(epoch, PREFIX, to + all));
            }
            self.global.store(id, to.wrapping_sub(begin));
        }
    }
    /// Writes the sorted keys of the tile, each digit's run to its place. Returns the digits.
    #[inline(always)]
    fn write_keys(self) -> [u32; DIGIT_WORDS] {
        let mut digits = [0; DIGIT_WORDS];
        unroll::<ITEMS>(|j| {
            let i = (j * THREADS) as u32 + self.t.id();
            if i < self.count {
                let k = self.tile_keys.load(i);
                let digit = self.digit(k);
                digits[j / 4] |= digit << (8 * (j % 4));
                self.keys.to.store(self.global.load(digit).wrapping_add(i), k);
            }
        });
        digits
    }
    /// Writes the values like the keys, whose digits these are.
    #[inline(always)]
    fn write_values(self, digits: [u32; DIGIT_WORDS]) {
        unroll::<ITEMS>(|j| {
            let i = (j * THREADS) as u32 + self.t.id();
            if i < self.count {
                let digit = digits[j / 4] >> (8 * (j % 4)) & 0xff;
                let to = self.global.load(digit).wrapping_add(i);
                self.values.store(to, V::staged(self.tile_values, i));
            }
        });
    }
}

/// Sorts by one digit.
#[inline(always)]
fn sort_by_digit<K: SortKey, V: Payload, const ITEMS: usize>(
    t: Thread,
    n: u32,
    digit: Digit,
    keys: FromTo<K>,
    values: V,
    tiles: Tiles,
) {
    let pass = Pass::<K, V, ITEMS>::begin(t, n, digit, keys, values, tiles);
    // Missing items act as the greatest key: they come last within the last digit, and are not
    // written.
    let key = pass.load(keys, K::LAST);
    pass.count_digits(&key);
    t.barrier();
    // Later tiles get the counts before this one is ranked.
    let (before, all) = pass.publish_counts();
    let (begin, _) = block::exclusive_sum(t, all, pass.sums);
    pass.store_places(begin, &before);
    t.barrier();
    let place = pass.rank(&key);
    unroll::<ITEMS>(|j| pass.tile_keys.store(place[j], key[j]));
    let value = pass.load(values, V::Value::default());
    pass.look_back(begin, all);
    t.barrier();
    let digits = pass.write_keys();
    if size_of::<V::Value>() != 0 {
        t.barrier();
        unroll::<ITEMS>(|j| V::stage(pass.tile_values, place[j], value[j]));
        t.barrier();
        pass.write_values(digits);
    }
}

/// Sorts keys stably by a digit. One block per tile.
#[kernel(
    image = PRIMITIVES, threads = 512, min_blocks = 2, shared = shared::<K, ()>(),
    ITEMS = items::<K, ()>(), for K in [u32, u64]
)]
pub fn sort_pass<K: SortKey, const ITEMS: usize>(
    t: Thread,
    n: u32,
    digit: Digit,
    keys: FromTo<K>,
    tiles: Tiles,
) {
    sort_by_digit::<K, _, ITEMS>(t, n, digit, keys, NoPayload, tiles)
}
/// Sorts pairs stably by a digit. One block per tile.
#[kernel(
    image = PRIMITIVES, threads = 512, min_blocks = 2, shared = shared::<K, V>(),
    ITEMS = items::<K, V>(), for K in [u32, u64], V in [u32, u64]
)]
pub fn sort_pairs<K: SortKey, V: Word, const ITEMS: usize>(
    t: Thread,
    n: u32,
    digit: Digit,
    keys: FromTo<K>,
    values: FromTo<V>,
    tiles: Tiles,
) {
    sort_by_digit::<K, _, ITEMS>(t, n, digit, keys, values, tiles)
}
