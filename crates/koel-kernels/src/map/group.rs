//! Groups the pairs of each partition by key without sorting, for multimaps. The order of the
//! groups, and of the values in a group, is arbitrary.
//!
//! The kernel follows the [partition passes](super::partition), which here drop and stamp nothing.
//! One block groups one partition. It divides the pairs into finer *bins* in shared memory, by the
//! hash bits that the partition leaves. Its steps:
//! * **Count.** Each pair counts itself into its bin, whatever its key, and gets its rank there.
//! * **Scatter.** A prefix sum over the bins finds where each begins, and every pair moves to its
//!   place in shared memory. Equal keys share a bin; most bins hold one key.
//! * **Order.** Each place has a bit that is set if a group begins there: at first, where a bin
//!   begins. A bin with a key that differs from its first is marked. Marked bins are ordered key by
//!   key, by teams of eight lanes, by warps, or by all threads, depending on their length, and set
//!   the bits of their other groups.
//! * **Write.** Values are written as they lie, coalesced. The bits are counted, the places where
//!   groups begin are listed, and keys and starts are written.
//!
//! A pair is read twice, the second time from the cache. Each value is written once, and one key
//! and one start per group. Partitions do not wait for each other: keys and starts go where the
//! pairs of their partition begin, and [of_groups](super::of_groups) compacts them where needed.
//! The order of the groups of a partition, and of the values of a group, depends on the order in
//! which threads ran.
use crate::hash::mulhi;
use crate::table::layout::{Layout, Narrow, Number, Wide};
use crate::table::state;
use koel_simt::{Buf, In, Shared, Thread, U32x4, block, kernel, unroll};

/// Threads per block.
pub const THREADS: u32 = 256;
/// Pairs that a thread loads at a time.
const BATCH: usize = 4;
/// Maximum number of batches per thread.
const BATCHES: usize = 5;
/// Maximum number of pairs per partition.
pub const MAX_PAIRS: u32 = THREADS * (BATCH * BATCHES) as u32;

/// Lanes that order a short bin, one pair each.
const TEAM: u32 = 8;
const TEAMS: u32 = 32 / TEAM;
/// Pairs per lane where a warp orders a bin.
const OF_LANE: usize = 4;
/// Maximum number of pairs of a bin that a warp orders. All threads of the block order longer bins.
const LONG: u32 = 32 * OF_LANE as u32;
/// Maximum number of long bins.
const MAX_LONG: u32 = MAX_PAIRS / LONG;
/// Pairs of a long bin that a thread holds at a time.
const HELD: usize = 5;
/// Maximum number of keys of a long bin. If there are more, grouping fails and the pairs are sorted
/// instead. With distinct hashes no bin has this many keys.
const MAX_KEYS: u32 = 32;

/// The number of bins is a multiple of this: half of what a block sums at a time, at two bins per
/// word and four words per thread.
const BINS: u32 = 4 * THREADS;
/// Spare words after those of the bins, one per lane of a warp.
const SPARE: u32 = 32;
/// Returns the bins of a partition with room for `room` pairs: about as many as pairs, but no more,
/// so that many blocks fit on a multiprocessor.
const fn bins(room: u32) -> u32 {
    let fitting = room / BINS;
    (fitting + (fitting == 0) as u32) * BINS
}
/// Returns the places for keys, and for values, rounded up so that the next array is aligned to 16
/// bytes.
const fn places(room: u32) -> u32 {
    room.next_multiple_of(4)
}
/// Returns the words of an array with one bit per place.
const fn rows(room: u32) -> u32 {
    room.div_ceil(32)
}
// A warp has a lane for each row of its stretch.
const _: () = assert!(rows(MAX_PAIRS).div_ceil(THREADS / 32) <= 32);
/// Returns the bytes of shared memory, if a mixed key and a value take `pair_bytes` together.
pub const fn shared_bytes(room: u32, pair_bytes: u32) -> u32 {
    let words = bins(room) / 32 + rows(room) + MAX_LONG + 1 + 32;
    places(room) * pair_bytes + bins(room) * 2 + (SPARE + words) * 4
}
/// Returns whether the passes left all pairs in their bins: none is of the ambiguous key, and none
/// is in an overflow area.
#[inline(always)]
fn all_arrived(build_state: In<u32>) -> bool {
    let word = |w: u32| build_state.get(w);
    word(state::OVERFLOW_FIRST)
        | word(state::OVERFLOW_SECOND)
        | word(state::FAILED)
        | word(state::HELD_COPIES)
        == 0
}

/// The pairs of a partition in shared memory.
#[derive(Clone, Copy)]
struct Near<L: Layout> {
    keys: Shared<L::Mixed>,
    values: Shared<L::Value>,
    /// Two bins per word: the number of pairs in each, later where it begins. Spare words follow.
    begins: Shared<u32>,
    /// One bit per place: whether a group begins there.
    firsts: Shared<u32>,
    partitions: u32,
    bins: u32,
    count: u32,
}
impl<L: Layout> Near<L> {
    /// Returns the bin of a key: the hash bits that the partition leaves, scaled.
    #[inline(always)]
    fn bin(self, key: L::Mixed) -> u32 {
        mulhi(L::hash(key).wrapping_mul(self.partitions), self.bins)
    }
    /// Counts a pair into this bin and returns its rank there.
    #[inline(always)]
    fn count(self, bin: u32) -> u32 {
        // Unlike shifts, rotations need no amount below 32.
        self.begins.fetch_add(bin / 2, 1u32.rotate_left(bin << 4)).rotate_right(bin << 4) & 0xFFFF
    }
    /// Returns where a bin begins.
    #[inline(always)]
    fn begin(self, bin: u32) -> u32 {
        self.begins.halves().load(bin) as u32
    }
    /// Returns where a bin ends.
    #[inline(always)]
    fn end(self, bin: u32) -> u32 {
        if bin + 1 < self.bins { self.begin(bin + 1) } else { self.count }
    }
    /// Replaces the count of each bin by the place where it begins. All threads of the block must
    /// call it, with barriers before and after.
    #[inline(always)]
    fn sum(self, t: Thread, sums: Shared<u32>) {
        // No half overflows: a block has fewer than 2^16 pairs.
        let halves = |words: [u32; 4]| {
            let both = words[0] + words[1] + words[2] + words[3];
            (both & 0xFFFF) + (both >> 16)
        };
        // Each warp sums a stretch, four adjacent words per lane.
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
        // The sum of the warps before this one.
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
        self.keys.load(place)
    }
    #[inline(always)]
    fn put(self, place: u32, key: L::Mixed, value: L::Value) {
        self.keys.store(place, key);
        self.values.store(place, value);
    }
    /// Sets the bit of a place where a group begins.
    #[inline(always)]
    fn begin_group(self, place: u32) {
        self.firsts.fetch_or(place / 32, 1 << (place % 32));
    }
    /// Orders one bin per team of `team` lanes: gathers equal keys, one key at a time, and marks
    /// where the groups after the first begin. All lanes of a warp must call it, with at most
    /// `HELD` pairs per lane. A team without a bin passes an empty one.
    #[inline(always)]
    fn order<const HELD: usize>(self, t: Thread, team: u32, begin: u32, end: u32) {
        let warp = t.warp();
        let lane = t.lane() & (team - 1);
        let of_team = (u32::MAX >> (32 - team)) << (t.lane() - lane);
        let at = |h: usize| begin + h as u32 * team + lane;
        // Only a whole warp holds more than one row, so this condition is uniform.
        let is_row = |h: usize| h == 0 || begin + h as u32 * team < end;
        let mut held = [(L::Mixed::default(), L::Value::default()); HELD];
        // Lanes of each row whose pairs have no place yet, and the places of the others.
        let (mut waiting, mut places) = ([0; HELD], [0; HELD]);
        unroll::<HELD>(|h| {
            if is_row(h) {
                if at(h) < end {
                    held[h] = (self.key(at(h)), self.values.load(at(h)));
                }
                waiting[h] = warp.ballot(at(h) < end) & of_team;
            }
        });
        let mut place = begin;
        while warp.any(waiting.iter().fold(0, |all, row| all | row) != 0) {
            // The next key is that of the first lane still waiting.
            let (mut key, mut row) = (held[0].0, waiting[0]);
            unroll::<HELD>(|h| {
                if row == 0 {
                    (key, row) = (held[h].0, waiting[h]);
                }
            });
            let first = row.trailing_zeros();
            let key = warp.shfl(key, first & 31);
            if place != begin && t.lane() == first {
                self.begin_group(place);
            }
            unroll::<HELD>(|h| {
                if is_row(h) {
                    let equal = warp.ballot(held[h].0 == key) & waiting[h];
                    if equal >> t.lane() & 1 != 0 {
                        places[h] = place + t.rank_in(equal);
                    }
                    place += equal.count_ones();
                    waiting[h] &= !equal;
                }
            });
        }
        // All have read what they hold.
        warp.sync();
        unroll::<HELD>(|h| {
            if at(h) < end {
                self.put(places[h], held[h].0, held[h].1);
            }
        });
    }
    /// Orders this warp's share of the marked bins, a stretch of the words of marks. Lists the bins
    /// that are too long for a warp.
    #[inline(always)]
    fn order_marked(self, t: Thread, marks: Shared<u32>, long: Shared<u32>, listed: Shared<u32>) {
        let warp = t.warp();
        // One word per lane.
        let words = self.bins / THREADS;
        let first = t.warp_id() * words;
        let mut bits = if t.lane() < words { marks.load(first + t.lane()) } else { 0 };
        let bin = |lane: u32, bits: u32| (first + lane) * 32 + bits.trailing_zeros();
        // Bins that are too long for a team.
        let mut longer = 0;
        loop {
            // Each team takes one bin, from the next lanes that have any left.
            let lanes = warp.ballot(bits != 0);
            if lanes == 0 {
                break;
            }
            let mut left = lanes;
            unroll::<{ TEAMS as usize - 1 }>(|k| {
                if t.lane() / TEAM > k as u32 {
                    left &= left.wrapping_sub(1);
                }
            });
            let from = left.trailing_zeros() & 31;
            let of_lane = warp.shfl(bits, from);
            let (mut begin, mut end) = (0, 0);
            if left != 0 {
                let bin = bin(from, of_lane);
                (begin, end) = (self.begin(bin), self.end(bin));
            }
            let too_long = end - begin > TEAM;
            let teams_too_long = warp.ballot(too_long);
            let team = t.rank_in(lanes);
            if bits != 0 && team < TEAMS {
                if teams_too_long >> (team * TEAM) & 1 != 0 {
                    longer |= bits & bits.wrapping_neg();
                }
                bits &= bits - 1;
            }
            self.order::<1>(t, TEAM, begin, if too_long { begin } else { end });
        }
        loop {
            let lanes = warp.ballot(longer != 0);
            if lanes == 0 {
                break;
            }
            let from = lanes.trailing_zeros();
            let bin = bin(from, warp.shfl(longer, from));
            if t.lane() == from {
                longer &= longer - 1;
            }
            let (begin, end) = (self.begin(bin), self.end(bin));
            if end - begin <= LONG {
                self.order::<OF_LANE>(t, 32, begin, end);
            } else if t.lane() == 0 {
                long.store(listed.fetch_add(0, 1), bin);
            }
        }
    }
    /// Orders a long bin with all threads of the block, one key at a time. Returns to all threads
    /// whether the bin had few enough keys. Ends with a barrier.
    #[inline(always)]
    fn order_long(self, t: Thread, mut begin: u32, end: u32, sums: Shared<u32>) -> bool {
        let mut keys = 0;
        while begin < end && keys < MAX_KEYS && end - begin <= THREADS * HELD as u32 {
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
            // The sum's barrier guarantees that all threads have read what they hold.
            let (before, all) = block::exclusive_sum(t, mine, sums);
            let (mut equal, mut other) =
                (begin + (before & 0xFFFF), begin + (all & 0xFFFF) + (before >> 16));
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

/// Returns the bytes of a mixed key and a value.
pub const fn pair_bytes<L: Layout>() -> u32 {
    (size_of::<L::Mixed>() + size_of::<L::Value>()) as u32
}

/// The output of the passes, the input of grouping, as a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Ungrouped {
    /// The bins of the last pass.
    pub pairs: In<u64>,
    /// Number of pairs in each bin.
    pub counts: In<u32>,
    /// Number of pairs in all bins before each.
    pub offsets: In<u32>,
    /// The words in which the passes count.
    pub build_state: In<u32>,
    /// Number of bins.
    pub partitions: u32,
    /// Places per bin, at most [`MAX_PAIRS`].
    pub room: u32,
    /// Hash seed.
    pub seed: u32,
}
/// Where groups are written, as a kernel argument. The groups of partition `p` start where its
/// pairs begin.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct GroupsOut<L: Layout> {
    /// The key of each group.
    pub keys: Buf<L::Key>,
    /// Where the values of each group begin.
    pub starts: Buf<u32>,
    /// The values of all groups.
    pub values: Buf<L::Value>,
    /// Number of groups in each partition.
    pub sizes: Buf<u32>,
    /// The number of groups, then 1 if grouping failed.
    pub groups: Buf<u32>,
}

/// Groups the pairs of each partition by key. The pairs of partition `p` begin at `offsets[p]`. Its
/// group `g` of `sizes[p]` has key `keys[offsets[p] + g]`, and its values begin at
/// `values[starts[offsets[p] + g]]`. Adds the number of groups to `groups[0]`. If the passes did
/// not bring all pairs to their bins, or a bin has too many keys, `groups[1]` is 1, and the rest of
/// the output is meaningless. One block per partition.
#[kernel(
    image = GROUPS, threads = 256, min_blocks = 3,
    shared = shared_bytes(from.room, pair_bytes::<L>()),
    for L in [Narrow { min_blocks = 4 }, Wide<u32, u64>, Wide<u64, u32>, Wide<u64, u64>]
)]
pub fn map_group<L: Layout>(t: Thread, from: Ungrouped, to: GroupsOut<L>) {
    let Ungrouped { pairs, counts, offsets, build_state, partitions, room, seed } = from;
    let GroupsOut { keys, starts, values, sizes, groups } = to;
    // All blocks return, or none.
    if !all_arrived(build_state) {
        if t.global_id() == 0 {
            groups.store(1, 1);
        }
        return;
    }
    let p = t.block();
    let (count, first_value) = (counts.get(p).min(room), offsets.get(p));
    let bins = bins(room);
    let mut shared = t.shared();
    let begins = shared.array::<u32>(bins / 2 + SPARE);
    let keys_here = shared.array::<L::Mixed>(places(room));
    let values_here = shared.array::<L::Value>(places(room));
    let (marks, group_firsts) = (shared.array::<u32>(bins / 32), shared.array::<u32>(rows(room)));
    // Long bins, and their number.
    let (long, listed) = (shared.array::<u32>(MAX_LONG), shared.array::<u32>(1));
    let sums = shared.array::<u32>(32);
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
        listed.store(0, 0);
    }
    t.barrier();
    let near = Near::<L> {
        keys: keys_here,
        values: values_here,
        begins,
        firsts: group_firsts,
        partitions,
        bins,
        count,
    };
    // Words of the pairs of a batch. Threads without a pair load the last one.
    let last = p * room + count.wrapping_sub(1);
    let load = |id: u32, batch: usize, word: u32| {
        let mut of = [0; BATCH];
        unroll::<BATCH>(|l| {
            let at = (p * room + id + (batch * BATCH + l) as u32 * THREADS).min(last);
            of[l] = pairs.get(at * L::SLOT_WORDS as u32 + word);
        });
        of
    };
    let is_there =
        |id: u32, batch: usize, l: usize| id + (batch * BATCH + l) as u32 * THREADS < count;

    // Count. Threads without a pair count into their lane's spare word.
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

    // Scatter.
    near.sum(t, sums);
    t.barrier();
    // Recomputed: addresses are not kept in registers from the count step.
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

    // Order.
    let mut row = first;
    while row < behind {
        let (mut here, mut begin, mut of_lane) = ([L::Mixed::default(); 4], [0; 4], 0);
        unroll::<4>(|l| here[l] = near.key((row + l as u32 * 32 + t.lane()).min(behind - 1)));
        unroll::<4>(|l| begin[l] = near.begin(near.bin(here[l])));
        unroll::<4>(|l| {
            if near.key(begin[l]) != here[l] {
                let bin = near.bin(here[l]);
                marks.fetch_or(bin / 32, 1 << (bin % 32));
            }
            // Never set for places after the last pair.
            let of_row = t.warp().ballot(begin[l] == row + l as u32 * 32 + t.lane());
            of_lane = if t.lane() == l as u32 { of_row } else { of_lane };
        });
        if t.lane() < 4 && row + t.lane() * 32 < behind {
            near.firsts.store(row / 32 + t.lane(), of_lane);
        }
        row += 4 * 32;
    }
    t.barrier();
    near.order_marked(t, marks, long, listed);
    t.barrier();
    let mut ordered = true;
    i = 0;
    while i < listed.load(0) {
        let bin = long.load(i);
        ordered &= near.order_long(t, near.begin(bin), near.end(bin), sums);
        i += 1;
    }
    if !ordered && t.id() == 0 {
        groups.store_relaxed(1, 1);
    }
    t.barrier();

    // Write.
    i = t.id();
    while i < count {
        unroll::<4>(|l| {
            let at = i + l as u32 * THREADS;
            if at < count {
                values.store(first_value + at, near.values.load(at));
            }
        });
        i += 4 * THREADS;
    }
    // Each lane has the bits of a row, and the number of groups that begin before it.
    let at = first + t.lane() * 32;
    let of_row = if at < behind { near.firsts.load(at / 32) } else { 0 };
    // The sum's barrier guarantees that all values were read before they are overwritten.
    let (before, own) = block::exclusive_sum(t, of_row.count_ones(), sums);
    if t.id() == 0 {
        sizes.store(p, own);
        groups.fetch_add(0, own);
    }
    let (mut bits, mut number) = (of_row, before);
    while bits != 0 {
        near.values.store(number, L::Value::narrowed((at + bits.trailing_zeros()) as u64));
        bits &= bits - 1;
        number += 1;
    }
    t.barrier();
    i = t.id();
    while i < own {
        unroll::<2>(|l| {
            let number = i + l as u32 * THREADS;
            if number < own {
                let at = near.values.load(number).widened() as u32;
                keys.store(first_value + number, L::unmixed(seed, near.key(at)));
                starts.store(first_value + number, first_value + at);
            }
        });
        i += 2 * THREADS;
    }
}
