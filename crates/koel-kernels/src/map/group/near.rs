//! The pairs of a partition in shared memory, and how bins with several keys are ordered.
use super::{LONG, OF_LANE, THREADS};
use crate::hash::mulhi;
use crate::table::layout::Layout;
use koel_simt::{Shared, Thread, U32x4, block, unroll};

/// Lanes that order a short bin, one pair each.
const TEAM: u32 = 8;
const TEAMS: u32 = 32 / TEAM;
/// Pairs of a long bin that a thread holds at a time.
const HELD: usize = 5;
/// Maximum number of keys of a long bin. If there are more, grouping fails and the pairs are sorted
/// instead. With distinct hashes no bin has this many keys.
const MAX_KEYS: u32 = 32;

/// The pairs of a partition in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Near<L: Layout> {
    pub keys: Shared<L::Mixed>,
    pub values: Shared<L::Value>,
    /// Two bins per word: the number of pairs in each, later where it begins. Spare words follow.
    pub begins: Shared<u32>,
    /// One bit per place: whether a group begins there.
    pub firsts: Shared<u32>,
    pub partitions: u32,
    pub bins: u32,
    pub count: u32,
}
impl<L: Layout> Near<L> {
    /// Returns the bin of a key: the hash bits that the partition leaves, scaled.
    #[inline(always)]
    pub(super) fn bin(self, key: L::Mixed) -> u32 {
        mulhi(L::hash(key).wrapping_mul(self.partitions), self.bins)
    }
    /// Counts a pair into this bin and returns its rank there.
    #[inline(always)]
    pub(super) fn count(self, bin: u32) -> u32 {
        // Unlike shifts, rotations need no amount below 32.
        self.begins.fetch_add(bin / 2, 1u32.rotate_left(bin << 4)).rotate_right(bin << 4) & 0xFFFF
    }
    /// Returns where a bin begins.
    #[inline(always)]
    pub(super) fn begin(self, bin: u32) -> u32 {
        self.begins.halves().load(bin) as u32
    }
    /// Returns where a bin ends.
    #[inline(always)]
    pub(super) fn end(self, bin: u32) -> u32 {
        if bin + 1 < self.bins { self.begin(bin + 1) } else { self.count }
    }
    /// Replaces the count of each bin by the place where it begins. All threads of the block must
    /// call it, with barriers before and after.
    #[inline(always)]
    pub(super) fn sum(self, t: Thread, sums: Shared<u32>) {
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
    pub(super) fn key(self, place: u32) -> L::Mixed {
        self.keys.load(place)
    }
    #[inline(always)]
    pub(super) fn put(self, place: u32, key: L::Mixed, value: L::Value) {
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
    pub(super) fn order_marked(
        self,
        t: Thread,
        marks: Shared<u32>,
        long: Shared<u32>,
        listed: Shared<u32>,
    ) {
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
    pub(super) fn order_long(self, t: Thread, mut begin: u32, end: u32, sums: Shared<u32>) -> bool {
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
