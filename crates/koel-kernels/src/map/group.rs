//! The pairs of each partition grouped by key, without sorting: what a multimap is made of, in any order.
//!
//! Behind the [passes](super::partition), which drop nothing and stamp nothing here, one block a partition, whose pairs have finer *bins*, by
//! what the partition leaves of the hash:
//! * A. Pairs are counted: each gets its number among those of its bin, whatever their keys are.
//! * B. Sums over the bins tell where each begins, and every pair goes to its place in shared memory. Equal keys are in one bin; mostly it has
//!   no others.
//! * C. A group begins where a bin does: for each place a bit tells whether one does. Where neighbours in a bin differ, the bin is listed.
//!   A thread puts the pairs of a listed bin in order, or all of them do, if it is long, and sets the bits of its other groups.
//! * D. The bits are counted, and how many there are is announced to the partitions behind. Values are written as they lie, coalesced.
//!   Meanwhile those before have announced theirs: a [look-back](crate::lookback) tells where keys and starts go.
//!
//! A pair is read twice, the second time from the cache; its value and, once for each key, the key and a start are written. The order of the
//! groups of a partition, and of the values of a group, is that in which threads came.
use super::layout::{Layout, Narrow, Wide};
use super::state;
use crate::hash::mulhi;
use crate::lookback::{announce, sum_of_announced, take_tile};
use koel_simt::{Buf, In, Shared, Thread, U32x4, block, kernel, unroll};

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Pairs of a thread that are under way at a time.
const BATCH: usize = 4;
/// How many times so many a thread has, at most.
const BATCHES: usize = 5;
/// Pairs that a partition has room for, at most.
pub const MOST: u32 = THREADS * (BATCH * BATCHES) as u32;

/// Bins of more pairs are ordered by all threads of a block.
const LONG: u32 = 64;
/// They are so many at most.
const MOST_LONG: u32 = MOST / LONG;
/// Pairs of such a bin that a thread holds at a time.
const HELD: usize = 5;
/// Keys of a bin that is ordered, at most: where there are more, pairs are sorted. Distinct hashes give no bin so many.
const MOST_KEYS: u32 = 32;

// What a block counts.
/// Bins with several keys.
const LISTED: u32 = 0;
/// The long ones of them.
const LISTED_LONG: u32 = 1;
const TALLIES: u32 = 2;

/// Bins come by so many: half of what a block sums at a time, two in a word, four words a thread.
const BINS: u32 = 4 * THREADS;
/// Words behind those of the bins: one for each lane of a warp.
const SPARE: u32 = 32;
/// Bins of a partition with room for so many pairs: about as many, but no more, so that many blocks fit a multiprocessor.
const fn bins(room: u32) -> u32 {
    let fitting = room / BINS;
    (fitting + (fitting == 0) as u32) * BINS
}
/// Bins that can be listed. Of those with a pair of one key on average, a quarter have others.
const fn listable(room: u32) -> u32 {
    bins(room) * 3 / 8
}
/// Places for keys, and for values: one is before the first.
const fn places(room: u32) -> u32 {
    (room + 1).next_multiple_of(4)
}
/// Words with a bit for each place.
const fn rows(room: u32) -> u32 {
    room.div_ceil(32)
}
// A lane of a warp for each row of its stretch.
const _: () = assert!(rows(MOST).div_ceil(THREADS / 32) <= 32);
/// Bytes of shared memory, with mixed keys and values of so many bytes together.
pub const fn shared_bytes(room: u32, pair_bytes: u32) -> u32 {
    let words = listable(room) + bins(room) / 32 + rows(room) + TALLIES + MOST_LONG + 32 + 2;
    places(room) * pair_bytes + bins(room) * 2 + (SPARE + words) * 4
}
/// Whether the passes have left all pairs in their bins: the ambiguous key is not among them, and none is behind its bin.
#[inline(always)]
fn all_arrived(build_state: In<u32>) -> bool {
    let word = |w: u32| build_state.get(w);
    word(state::OVERFLOW_FIRST) | word(state::OVERFLOW_SECOND) | word(state::FAILED) | word(state::HELD_COPIES) == 0
}

/// The pairs of a partition in shared memory.
#[derive(Clone, Copy)]
struct Near<L: Layout> {
    /// From place 1 on; before them what no key is.
    keys: Shared<L::Mixed>,
    values: Shared<L::Value>,
    /// Two bins a word: how many pairs each has, and then where it begins. Spare words follow.
    begins: Shared<u32>,
    /// A bit for each place: a group begins there.
    firsts: Shared<u32>,
    partitions: u32,
    bins: u32,
    count: u32,
}
impl<L: Layout> Near<L> {
    /// The bin of a key: what the partition leaves of the hash, scaled.
    #[inline(always)]
    fn bin(self, key: L::Mixed) -> u32 {
        mulhi(L::hash(key).wrapping_mul(self.partitions), self.bins)
    }
    /// Counts a pair of this bin. Gives its number there.
    #[inline(always)]
    fn count(self, bin: u32) -> u32 {
        // Rotations need no shift amount below 32.
        self.begins.fetch_add(bin / 2, 1u32.rotate_left(bin << 4)).rotate_right(bin << 4) & 0xFFFF
    }
    /// Where a bin begins.
    #[inline(always)]
    fn begin(self, bin: u32) -> u32 {
        self.begins.halves().load(bin) as u32
    }
    /// Where it ends.
    #[inline(always)]
    fn end(self, bin: u32) -> u32 {
        if bin + 1 < self.bins { self.begin(bin + 1) } else { self.count }
    }
    /// From the pairs of each bin to where it begins. All threads of the block call it, with barriers before and after it.
    #[inline(always)]
    fn sum(self, t: Thread, sums: Shared<u32>) {
        // No half overflows: a block has fewer than 2^16 pairs.
        let halves = |words: [u32; 4]| {
            let both = words[0] + words[1] + words[2] + words[3];
            (both & 0xFFFF) + (both >> 16)
        };
        // Each warp has a stretch, four neighbouring words a lane.
        let of_warp = self.bins / THREADS * 4;
        let first = t.warp_id() * of_warp;
        let behind = first + of_warp;
        let four = |i: u32| if i < behind { self.begins.x4().load(i).0 } else { [0; 4] };
        let (mut mine, mut row) = (0, first);
        while row < behind {
            mine += halves(four(row + t.lane()));
            row += 32;
        }
        let (before, _) = block::exclusive_sum(t, mine, sums);
        // Of the warps before this one.
        let mut before = t.warp().shfl(before, 0);
        row = first;
        while row < behind {
            let at = row + t.lane();
            let mut words = four(at);
            let inclusive = block::warp_inclusive_sum(t, halves(words));
            let mut here = before + (inclusive - halves(words));
            unroll::<4>(|l| {
                let (low, high) = (words[l] & 0xFFFF, words[l] >> 16);
                words[l] = here | (here + low) << 16;
                here += low + high;
            });
            if at < behind {
                self.begins.x4().store(at, U32x4(words));
            }
            before += t.warp().shfl(inclusive, 31);
            row += 32;
        }
    }
    #[inline(always)]
    fn key(self, place: u32) -> L::Mixed {
        self.keys.load(place + 1)
    }
    #[inline(always)]
    fn put(self, place: u32, key: L::Mixed, value: L::Value) {
        self.keys.store(place + 1, key);
        self.values.store(place, value);
    }
    /// Notes that a group begins here.
    #[inline(always)]
    fn begin_group(self, place: u32) {
        self.firsts.fetch_or(place / 32, 1 << (place % 32));
    }
    /// Brings equal keys of a bin together, by one thread, and notes where the groups behind the first one begin. Whether keys are few.
    #[inline(always)]
    fn order(self, mut begin: u32, end: u32) -> bool {
        let mut keys = 0;
        while begin < end && keys < MOST_KEYS {
            if keys != 0 {
                self.begin_group(begin);
            }
            let key = self.key(begin);
            begin += 1;
            let mut i = begin;
            while i < end {
                if self.key(i) == key {
                    if i != begin {
                        let value = self.values.load(i);
                        self.put(i, self.key(begin), self.values.load(begin));
                        self.put(begin, key, value);
                    }
                    begin += 1;
                }
                i += 1;
            }
            keys += 1;
        }
        begin >= end
    }
    /// The same of a long bin, by all threads of the block, which all get the answer: one key after the other. The next barrier is before
    /// the end.
    #[inline(always)]
    fn order_long(self, t: Thread, mut begin: u32, end: u32, sums: Shared<u32>) -> bool {
        let mut keys = 0;
        while begin < end && keys < MOST_KEYS && end - begin <= THREADS * HELD as u32 {
            if keys != 0 && t.id() == 0 {
                self.begin_group(begin);
            }
            let first = self.key(begin);
            let mut held = [(L::Mixed::default(), L::Value::default()); HELD];
            let mut mine = 0;
            unroll::<HELD>(|h| {
                let i = begin + h as u32 * THREADS + t.id();
                if i < end {
                    held[h] = (self.key(i), self.values.load(i));
                    mine += if held[h].0 == first { 1 } else { 1 << 16 };
                }
            });
            // All have read what they hold.
            let (before, all) = block::exclusive_sum(t, mine, sums);
            let (mut equal, mut other) = (begin + (before & 0xFFFF), begin + (all & 0xFFFF) + (before >> 16));
            unroll::<HELD>(|h| {
                if begin + (h as u32 * THREADS + t.id()) < end {
                    let to = if held[h].0 == first { &mut equal } else { &mut other };
                    self.put(*to, held[h].0, held[h].1);
                    *to += 1;
                }
            });
            begin += all & 0xFFFF;
            keys += 1;
            t.barrier();
        }
        begin >= end
    }
}

#[inline(always)]
fn group<L: Layout>(
    t: Thread,
    n: u32,
    seed: u32,
    partitions: u32,
    room: u32,
    epoch: u32,
    pairs: In<u64>,
    counts: In<u32>,
    offsets: In<u32>,
    build_state: In<u32>,
    keys: Buf<L::Key>,
    starts: Buf<u32>,
    values: Buf<L::Value>,
    firsts: Buf<u32>,
    groups: Buf<u32>,
    status: Buf<u64>,
    ticket: Buf<u32>,
) {
    // All blocks leave, or none.
    if !all_arrived(build_state) {
        if t.global_id() == 0 {
            groups.fetch_max(0, u32::MAX);
        }
        return;
    }
    let bins = bins(room);
    let mut shared = t.shared();
    let begins = shared.array::<u32>(bins / 2 + SPARE);
    let keys_here = shared.array::<L::Mixed>(places(room));
    let values_here = shared.array::<L::Value>(places(room));
    let (list, marks) = (shared.array::<u32>(listable(room)), shared.array::<u32>(bins / 32));
    let group_firsts = shared.array::<u32>(rows(room));
    // How many bins are listed, and how many of them are long; those.
    let (tallies, long) = (shared.array::<u32>(TALLIES), shared.array::<u32>(MOST_LONG));
    let (sums, tile, carry) = (shared.array::<u32>(32), shared.array::<u32>(1), shared.array::<u32>(1));
    take_tile(t, ticket, tile);
    let mut i = t.id();
    while i < (bins / 2 + SPARE) / 4 {
        begins.x4().store(i, U32x4([0; 4]));
        i += THREADS;
    }
    i = t.id();
    while i < bins / 32 {
        marks.store(i, 0);
        i += THREADS;
    }
    if t.id() == 0 {
        tallies.store(LISTED, 0);
        tallies.store(LISTED_LONG, 0);
        keys_here.store(0, L::AMBIGUOUS);
    }
    t.barrier();
    let p = tile.load(0);
    let count = counts.get(p).min(room);
    let near =
        Near::<L> { keys: keys_here, values: values_here, begins, firsts: group_firsts, partitions, bins, count };
    // Words of the pairs of a batch: of the last one where there is none.
    let last = p * room + count.wrapping_sub(1);
    let load = |id: u32, batch: usize, word: u32| {
        let mut of = [0; BATCH];
        unroll::<BATCH>(|l| {
            let at = (p * room + id + (batch * BATCH + l) as u32 * THREADS).min(last);
            of[l] = pairs.get(at * L::SLOT_WORDS as u32 + word);
        });
        of
    };
    let is_there = |id: u32, batch: usize, l: usize| id + (batch * BATCH + l) as u32 * THREADS < count;

    // A. Who has no pair counts in a word of its own, behind those of the bins.
    let mut places = [[0u32; BATCH]; BATCHES];
    unroll::<BATCHES>(|batch| {
        if (batch * BATCH) as u32 * THREADS < count {
            let heads = load(t.id(), batch, 0);
            unroll::<BATCH>(|l| {
                let bin = near.bin(L::key_in(heads[l]));
                let bin = if is_there(t.id(), batch, l) { bin } else { bins + 2 * t.lane() };
                places[batch][l] = bin << 16 | near.count(bin);
            });
        }
    });
    t.barrier();

    // B.
    near.sum(t, sums);
    t.barrier();
    // Addresses are not kept from A on.
    let id = t.anew(t.id());
    unroll::<BATCHES>(|batch| {
        if (batch * BATCH) as u32 * THREADS < count {
            let heads = load(id, batch, 0);
            let behind = if L::SLOT_WORDS == 1 { [0; BATCH] } else { load(id, batch, 1) };
            unroll::<BATCH>(|l| {
                let place = near.begin(places[batch][l] >> 16) + (places[batch][l] & 0xFFFF);
                if is_there(id, batch, l) {
                    near.put(place, L::key_in(heads[l]), L::value_in(heads[l], behind[l]));
                }
            });
        }
    });
    t.barrier();

    // Each warp has a stretch of the pairs, in rows of 32.
    let rows = count.div_ceil(THREADS);
    let first = t.warp_id() * rows * 32;
    let behind = (first + rows * 32).min(count);

    // C.
    let mut row = first;
    while row < behind {
        unroll::<4>(|l| {
            let at = row + l as u32 * 32 + t.lane();
            let mut begins = false;
            if at < behind {
                let (key, before) = (near.key(at), near.keys.load(at));
                if key != before {
                    let bin = near.bin(key);
                    begins = at == 0 || bin != near.bin(before);
                    if !begins && marks.fetch_or(bin / 32, 1 << (bin % 32)) >> (bin % 32) & 1 == 0 {
                        let at = tallies.fetch_add(LISTED, 1);
                        if at < listable(room) {
                            list.store(at, bin);
                        }
                    }
                }
            }
            let of_row = t.warp().ballot(begins);
            if t.lane() == 0 && at < behind {
                near.firsts.store(at / 32, of_row);
            }
        });
        row += 4 * 32;
    }
    t.barrier();
    let listed = tallies.load(LISTED);
    let mut ordered = listed <= listable(room);
    i = t.id();
    while i < listed.min(listable(room)) {
        let bin = list.load(i);
        let (begin, end) = (near.begin(bin), near.end(bin));
        if end - begin > LONG {
            long.store(tallies.fetch_add(LISTED_LONG, 1), bin);
        } else if end - begin > 2 {
            ordered &= near.order(begin, end);
        } else {
            near.begin_group(begin + 1);
        }
        i += THREADS;
    }
    t.barrier();
    i = 0;
    while i < tallies.load(LISTED_LONG) {
        let bin = long.load(i);
        ordered &= near.order_long(t, near.begin(bin), near.end(bin), sums);
        i += 1;
    }
    if !ordered {
        groups.fetch_max(0, u32::MAX);
    }
    t.barrier();

    // D. A lane has the bits of a row, and knows how many groups begin before it.
    let at = first + t.lane() * 32;
    let of_row = if at < behind { near.firsts.load(at / 32) } else { 0 };
    let (before, own) = block::exclusive_sum(t, of_row.count_ones(), sums);
    if t.id() == 0 {
        announce(status, epoch, p, own);
    }
    let first_value = offsets.get(p);
    row = first;
    while row < behind {
        unroll::<4>(|l| {
            let at = row + l as u32 * 32 + t.lane();
            if at < behind {
                values.store(first_value + at, near.values.load(at));
            }
        });
        row += 4 * 32;
    }
    if t.warp_id() == 0 {
        let of_others = sum_of_announced(t, status, epoch, p, own);
        if t.lane() == 0 {
            carry.store(0, of_others);
            firsts.store(p, of_others);
            if p == t.grid_dim() - 1 {
                groups.fetch_max(0, of_others + own);
                starts.store(of_others + own, n);
            }
        }
    }
    t.barrier();
    let first_group = carry.load(0) + before;
    i = 0;
    while i < rows {
        unroll::<2>(|l| {
            let r = i + l as u32;
            let (of_row, first_group) = (t.warp().shfl(of_row, r & 31), t.warp().shfl(first_group, r & 31));
            if r < rows && of_row >> t.lane() & 1 != 0 {
                let (id, at) = (first_group + (of_row & ((1 << t.lane()) - 1)).count_ones(), first + r * 32 + t.lane());
                keys.store(id, L::unmixed(seed, near.key(at)));
                starts.store(id, first_value + at);
            }
        });
        i += 2;
    }
}

macro_rules! entries { ($($(#[$doc:meta])* $name:ident $layout:ty, $key:ty, $value:ty, $bytes:literal, $blocks:literal;)*) => { $(
    $(#[$doc])*
    #[kernel(threads = 256, min_blocks = $blocks, shared = shared_bytes(room, $bytes))]
    pub fn $name(
        t: Thread,
        n: u32,
        seed: u32,
        partitions: u32,
        room: u32,
        epoch: u32,
        pairs: In<u64>,
        counts: In<u32>,
        offsets: In<u32>,
        build_state: In<u32>,
        keys: Buf<$key>,
        starts: Buf<u32>,
        values: Buf<$value>,
        firsts: Buf<u32>,
        groups: Buf<u32>,
        status: Buf<u64>,
        ticket: Buf<u32>,
    ) {
        group::<$layout>(
            t, n, seed, partitions, room, epoch, pairs, counts, offsets, build_state, keys, starts, values, firsts, groups, status, ticket,
        )
    }
)* } }
entries! {
    /// The pairs of partition after partition by key: group `g` is of `keys[g]`, its values begin at `values[starts[g]]`; `groups[0]` = how many
    /// there are, and `starts` behind the last of them is `n`. It is zero before. If the passes did not bring all pairs to their bins, or keys
    /// are too alike, it is all ones, and the rest means nothing. Those of partition `p` begin with group `firsts[p]`.
    ///
    /// One block a partition; `counts`: pairs of each bin of the last pass, and `offsets`: of all before; `room`: places of a bin, [`MOST`] at most.
    map_group Narrow, u32, u32, 8, 4;
    /// The same.
    map_group_u32_u64 Wide<u32, u64>, u32, u64, 16, 3;
    /// The same.
    map_group_u64_u32 Wide<u64, u32>, u64, u32, 12, 3;
    /// The same.
    map_group_u64_u64 Wide<u64, u64>, u64, u64, 16, 3;
}
