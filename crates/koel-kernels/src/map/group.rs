//! The pairs of each partition grouped by key, without sorting: what a multimap is made of, in any order.
//!
//! Behind the [passes](super::partition), which drop nothing and stamp nothing here, one block a partition, whose pairs have finer *bins*, by
//! what the partition leaves of the hash:
//! * A. Pairs are counted: each gets its number among those of its bin, whatever their keys are.
//! * B. Sums over the bins tell where each begins, and every pair goes to its place in shared memory. Equal keys are in one bin; mostly it has
//!   no others.
//! * C. A group begins where a bin does. Where neighbours in a bin differ, the bin is listed. A thread puts the pairs of a listed bin in
//!   order, or all of them do, if it is long, and counts its other groups.
//! * D. Now a group begins wherever neighbours differ. A [look-back](crate::lookback) over the partitions tells where those of this
//!   one go: keys, starts and values are written as they lie, coalesced.
//!
//! A pair is read twice, the second time from the cache; its value and, once for each key, the key and a start are written. The order of the
//! groups of a partition, and of the values of a group, is that in which threads came.
use super::layout::{Layout, Narrow, Wide};
use super::state;
use crate::hash::mulhi;
use crate::lookback::{sum_before, take_tile};
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
/// Groups.
const GROUPS: u32 = 2;
const TALLIES: u32 = 3;

/// Bins come by so many: half of what a block sums at a time, two in a word, four words a thread.
const BINS: u32 = 4 * THREADS;
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
/// Bytes of shared memory, with mixed keys and values of so many bytes together.
pub const fn shared_bytes(room: u32, pair_bytes: u32) -> u32 {
    places(room) * pair_bytes
        + bins(room) * 2
        + (listable(room) + bins(room) / 32 + TALLIES + MOST_LONG + 32 + 1) * 4
        + 4
        + 8
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
    /// Two bins a word: how many pairs each has, and then where it begins.
    begins: Shared<u32>,
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
        let shift = bin % 2 * 16;
        self.begins.fetch_add(bin / 2, 1 << shift) >> shift & 0xFFFF
    }
    /// Where a bin begins.
    #[inline(always)]
    fn begin(self, bin: u32) -> u32 {
        self.begins.load(bin / 2) >> (bin % 2 * 16) & 0xFFFF
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
    /// The key in this place, and whether it differs from that before it.
    #[inline(always)]
    fn begins_group(self, place: u32) -> (L::Mixed, bool) {
        let key = self.key(place);
        (key, key != self.keys.load(place))
    }
    /// Calls a function with places from `first` to `behind`, each lane of a warp with every 32nd; and whether there is such a place.
    #[inline(always)]
    fn each(self, t: Thread, first: u32, behind: u32, mut each: impl FnMut(u32, bool)) {
        let mut row = first;
        while row < behind {
            unroll::<4>(|l| {
                let place = row + l as u32 * 32 + t.lane();
                each(place, place < behind);
            });
            row += 4 * 32;
        }
    }
    /// Brings equal keys of a bin together, by one thread. How many there are; `None`: too many.
    #[inline(always)]
    fn order(self, mut begin: u32, end: u32) -> Option<u32> {
        let mut keys = 0;
        while begin < end && keys < MOST_KEYS {
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
        (begin >= end).then_some(keys)
    }
    /// The same of a long bin, by all threads of the block, which all get the answer: one key after the other. The next barrier is before
    /// the end.
    #[inline(always)]
    fn order_long(self, t: Thread, mut begin: u32, end: u32, sums: Shared<u32>) -> Option<u32> {
        let mut keys = 0;
        while begin < end && keys < MOST_KEYS && end - begin <= THREADS * HELD as u32 {
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
        (begin >= end).then_some(keys)
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
    let begins = shared.array::<u32>(bins / 2);
    let keys_here = shared.array::<L::Mixed>(places(room));
    let values_here = shared.array::<L::Value>(places(room));
    let (list, marks) = (shared.array::<u32>(listable(room)), shared.array::<u32>(bins / 32));
    // How many bins are listed, and how many of them are long, and groups; the long bins.
    let (tallies, long) = (shared.array::<u32>(TALLIES), shared.array::<u32>(MOST_LONG));
    let (sums, tile) = (shared.array::<u32>(32), shared.array::<u32>(1));
    let carry = shared.array::<u64>(1);
    take_tile(t, ticket, tile);
    let mut i = t.id();
    while i < bins / 8 {
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
        tallies.store(GROUPS, 0);
        keys_here.store(0, L::AMBIGUOUS);
    }
    t.barrier();
    let p = tile.load(0);
    let count = counts.get(p).min(room);
    let near = Near::<L> { keys: keys_here, values: values_here, begins, partitions, bins, count };
    // Words of the pairs of a batch, and whether all of them are there.
    let load = |id: u32, batch: usize, word: u32| {
        let mut of = [0; BATCH];
        let first = id + (batch * BATCH) as u32 * THREADS;
        let all = (batch * BATCH + BATCH) as u32 * THREADS <= count;
        if all {
            let at = (p * room + first) * L::SLOT_WORDS as u32 + word;
            unroll::<BATCH>(|l| of[l] = pairs.get(at as u64 + (l * THREADS as usize * L::SLOT_WORDS) as u64));
        } else {
            unroll::<BATCH>(|l| {
                let i = (first + l as u32 * THREADS).min(count - 1);
                of[l] = pairs.get((p * room + i) * L::SLOT_WORDS as u32 + word);
            });
        }
        (of, all)
    };
    let is_there = |id: u32, batch: usize, l: usize| id + (batch * BATCH + l) as u32 * THREADS < count;

    // A.
    let mut places = [[0u32; BATCH]; BATCHES];
    unroll::<BATCHES>(|batch| {
        if (batch * BATCH) as u32 * THREADS < count {
            let (heads, all) = load(t.id(), batch, 0);
            let mut place = |l: usize| {
                let bin = near.bin(L::key_in(heads[l]));
                places[batch][l] = bin << 16 | near.count(bin);
            };
            if all {
                unroll::<BATCH>(&mut place);
            } else {
                unroll::<BATCH>(|l| {
                    if is_there(t.id(), batch, l) {
                        place(l);
                    }
                });
            }
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
            let (heads, all) = load(id, batch, 0);
            let behind = if L::SLOT_WORDS == 1 { [0; BATCH] } else { load(id, batch, 1).0 };
            let put = |l: usize| {
                let place = near.begin(places[batch][l] >> 16) + (places[batch][l] & 0xFFFF);
                near.put(place, L::key_in(heads[l]), L::value_in(heads[l], behind[l]));
            };
            if all {
                unroll::<BATCH>(put);
            } else {
                unroll::<BATCH>(|l| {
                    if is_there(id, batch, l) {
                        put(l);
                    }
                });
            }
        }
    });
    t.barrier();

    // Each warp has a stretch of the pairs.
    let of_warp = count.div_ceil(THREADS) * 32;
    let first = t.warp_id() * of_warp;
    let behind = (first + of_warp).min(count);

    // C.
    let mut own = 0;
    near.each(t, first, behind, |at, is_there| {
        if is_there {
            let (before, (key, differs)) = (near.keys.load(at), near.begins_group(at));
            let bin = near.bin(key);
            if differs && (at == 0 || bin != near.bin(before)) {
                own += 1;
            } else if differs && marks.fetch_or(bin / 32, 1 << (bin % 32)) >> (bin % 32) & 1 == 0 {
                let at = tallies.fetch_add(LISTED, 1);
                if at < listable(room) {
                    list.store(at, bin);
                }
            }
        }
    });
    t.barrier();
    let listed = tallies.load(LISTED);
    let mut ordered = listed <= listable(room);
    // One group of a listed bin is counted already.
    let mut tally = |keys: Option<u32>| match keys {
        Some(keys) => own += keys - 1,
        None => ordered = false,
    };
    i = t.id();
    while i < listed.min(listable(room)) {
        let bin = list.load(i);
        let (begin, end) = (near.begin(bin), near.end(bin));
        if end - begin > LONG {
            long.store(tallies.fetch_add(LISTED_LONG, 1), bin);
        } else {
            tally(if end - begin > 2 { near.order(begin, end) } else { Some(2) });
        }
        i += THREADS;
    }
    t.barrier();
    i = 0;
    while i < tallies.load(LISTED_LONG) {
        let bin = long.load(i);
        let keys = near.order_long(t, near.begin(bin), near.end(bin), sums);
        if t.id() == 0 {
            tally(keys);
        }
        i += 1;
    }
    if !ordered {
        groups.fetch_max(0, u32::MAX);
        // As many groups as there can be: each has its place, whatever is in it.
        tallies.fetch_add(GROUPS, count);
    }
    let of_warp = block::warp_inclusive_sum(t, own);
    if t.lane() == 31 {
        tallies.fetch_add(GROUPS, of_warp);
    }
    t.barrier();

    // D. While others count, a warp looks back.
    if t.warp_id() == 0 {
        // Pairs and groups are summed at once: neither reaches 2^32 in all.
        let here = (count as u64) << 32 | tallies.load(GROUPS).min(count) as u64;
        let of_others = sum_before(t, status, epoch, p, here);
        if t.lane() == 0 {
            carry.store(0, of_others);
            firsts.store(p, of_others as u32);
            if p == t.grid_dim() - 1 {
                let all = (of_others + here) as u32;
                groups.fetch_max(0, all);
                starts.store(all, n);
            }
        }
    }
    let mut mine = 0;
    near.each(t, first, behind, |at, is_there| mine += (is_there && near.begins_group(at).1) as u32);
    let (before, _) = block::exclusive_sum(t, mine, sums);
    // Of the warps before this one.
    let mut before = t.warp().shfl(before, 0);
    let (first_value, first_group) = ((carry.load(0) >> 32) as u32, carry.load(0) as u32);
    near.each(t, first, behind, |at, is_there| {
        let (key, begins) = if is_there { near.begins_group(at) } else { (L::AMBIGUOUS, false) };
        let all = t.warp().ballot(begins);
        if begins {
            let id = first_group + before + (all & ((1 << t.lane()) - 1)).count_ones();
            keys.store(id, L::unmixed(seed, key));
            starts.store(id, first_value + at);
        }
        if is_there {
            values.store(first_value + at, near.values.load(at));
        }
        before += all.count_ones();
    });
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
            t, n, seed, partitions, room, epoch, pairs, counts, build_state, keys, starts, values, firsts, groups, status, ticket,
        )
    }
)* } }
entries! {
    /// The pairs of partition after partition by key: group `g` is of `keys[g]`, its values begin at `values[starts[g]]`; `groups[0]` = how many
    /// there are, and `starts` behind the last of them is `n`. It is zero before. If the passes did not bring all pairs to their bins, or keys
    /// are too alike, it is all ones, and the rest means nothing. Those of partition `p` begin with group `firsts[p]`.
    ///
    /// One block a partition; `counts`: pairs of each bin of the last pass; `room`: places of a bin, [`MOST`] at most.
    map_group Narrow, u32, u32, 8, 4;
    /// The same.
    map_group_u32_u64 Wide<u32, u64>, u32, u64, 16, 3;
    /// The same.
    map_group_u64_u32 Wide<u64, u32>, u64, u32, 12, 3;
    /// The same.
    map_group_u64_u64 Wide<u64, u64>, u64, u64, 16, 3;
}
