//! The pairs of each partition grouped by key, without sorting: what a multimap is made of, in any
//! order.
//!
//! Behind the [passes](super::partition), which drop nothing and stamp nothing here, one block a
//! partition, whose pairs have finer *bins*, by what the partition leaves of the hash:
//! * A. Pairs are counted: each gets its number among those of its bin, whatever their keys are.
//! * B. Sums over the bins tell where each begins, and every pair goes to its place in shared
//!   memory. Equal keys are in one bin; mostly it has no others.
//! * C. A group begins where a bin does: for each place a bit tells whether one does. A bin with a
//!   key that is not its first is marked. Marked bins are put in order, key by key, by teams of
//!   eight lanes, by warps, or by all threads, as they are long, and their other groups get bits.
//! * D. Values are written as they lie, coalesced. The bits are counted; the places where groups
//!   begin are listed, and so are keys and starts written.
//!
//! A pair is read twice, the second time from the cache; its value and, once for each key, the key
//! and a start are written. Nobody waits for other partitions: keys and starts go where the pairs
//! of their partition begin, and [whoever needs them](super::of_groups) brings them together. The
//! order of the groups of a partition, and of the values of a group, is that in which threads came.
use crate::hash::mulhi;
use crate::table::layout::{Layout, Narrow, Number, Wide};
use crate::table::state;
use koel_simt::{Buf, In, Shared, Thread, U32x4, block, kernel, unroll};

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Pairs of a thread that are under way at a time.
const BATCH: usize = 4;
/// How many times so many a thread has, at most.
const BATCHES: usize = 5;
/// Pairs that a partition has room for, at most.
pub const MAX_PAIRS: u32 = THREADS * (BATCH * BATCHES) as u32;

/// Lanes that put a short bin in order, a pair each.
const TEAM: u32 = 8;
const TEAMS: u32 = 32 / TEAM;
/// Pairs of a lane where a warp does.
const OF_LANE: usize = 4;
/// Bins of more pairs are ordered by all threads of a block.
const LONG: u32 = 32 * OF_LANE as u32;
/// They are so many at most.
const MAX_LONG: u32 = MAX_PAIRS / LONG;
/// Pairs of such a bin that a thread holds at a time.
const HELD: usize = 5;
/// Keys of a long bin that is ordered, at most: where there are more, pairs are sorted. Distinct
/// hashes give no bin so many.
const MAX_KEYS: u32 = 32;

/// Bins come by so many: half of what a block sums at a time, two in a word, four words a thread.
const BINS: u32 = 4 * THREADS;
/// Words behind those of the bins: one for each lane of a warp.
const SPARE: u32 = 32;
/// Bins of a partition with room for so many pairs: about as many, but no more, so that many blocks
/// fit a multiprocessor.
const fn bins(room: u32) -> u32 {
    let fitting = room / BINS;
    (fitting + (fitting == 0) as u32) * BINS
}
/// Places for keys, and for values: what is behind them begins on a multiple of 16 bytes.
const fn places(room: u32) -> u32 {
    room.next_multiple_of(4)
}
/// Words with a bit for each place.
const fn rows(room: u32) -> u32 {
    room.div_ceil(32)
}
// A lane of a warp for each row of its stretch.
const _: () = assert!(rows(MAX_PAIRS).div_ceil(THREADS / 32) <= 32);
/// Bytes of shared memory, with mixed keys and values of so many bytes together.
pub const fn shared_bytes(room: u32, pair_bytes: u32) -> u32 {
    let words = bins(room) / 32 + rows(room) + MAX_LONG + 1 + 32;
    places(room) * pair_bytes + bins(room) * 2 + (SPARE + words) * 4
}
/// Whether the passes have left all pairs in their bins: the ambiguous key is not among them, and
/// none is behind its bin.
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
    /// From the pairs of each bin to where it begins. All threads of the block call it, with
    /// barriers before and after it.
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
        self.keys.load(place)
    }
    #[inline(always)]
    fn put(self, place: u32, key: L::Mixed, value: L::Value) {
        self.keys.store(place, key);
        self.values.store(place, value);
    }
    /// Notes that a group begins here.
    #[inline(always)]
    fn begin_group(self, place: u32) {
        self.firsts.fetch_or(place / 32, 1 << (place % 32));
    }
    /// Brings equal keys of a bin of each team of so many lanes together, one key after the other,
    /// and notes where the groups behind the first one begin. All lanes of a warp call it, with
    /// `HELD` pairs for each lane at most; of an empty bin, who has none.
    #[inline(always)]
    fn order<const HELD: usize>(self, t: Thread, team: u32, begin: u32, end: u32) {
        let warp = t.warp();
        let lane = t.lane() & (team - 1);
        let of_team = (u32::MAX >> (32 - team)) << (t.lane() - lane);
        let at = |h: usize| begin + h as u32 * team + lane;
        // Only a whole warp holds more than a row: all of it look at one.
        let is_row = |h: usize| h == 0 || begin + h as u32 * team < end;
        let mut held = [(L::Mixed::default(), L::Value::default()); HELD];
        // Lanes of each row whose pairs have no place yet, and the places.
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
            // The next key is that of the first who waits.
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
    /// Puts the marked bins of this warp in order, a stretch of the words of marks. Lists those
    /// that are too long for a warp.
    #[inline(always)]
    fn order_marked(self, t: Thread, marks: Shared<u32>, long: Shared<u32>, listed: Shared<u32>) {
        let warp = t.warp();
        // A lane has a word.
        let words = self.bins / THREADS;
        let first = t.warp_id() * words;
        let mut bits = if t.lane() < words { marks.load(first + t.lane()) } else { 0 };
        let bin = |lane: u32, bits: u32| (first + lane) * 32 + bits.trailing_zeros();
        // Bins that are too long for a team.
        let mut longer = 0;
        loop {
            // A bin of each of the next lanes that have some, for each team.
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
    /// The same of a long bin, by all threads of the block: one key after the other. Whether keys
    /// are few, for all. The next barrier is before the end.
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
            // All have read what they hold.
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

/// Bytes of a mixed key and a value.
pub const fn pair_bytes<L: Layout>() -> u32 {
    (size_of::<L::Mixed>() + size_of::<L::Value>()) as u32
}

/// What the passes left, for grouping: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Ungrouped {
    /// The bins of the last pass.
    pub pairs: In<u64>,
    /// Pairs of each.
    pub counts: In<u32>,
    /// Pairs of all bins before each.
    pub offsets: In<u32>,
    /// The words that the passes counted in.
    pub build_state: In<u32>,
    /// How many bins there are.
    pub partitions: u32,
    /// Places of a bin, [`MAX_PAIRS`] at most.
    pub room: u32,
    /// Keys were mixed with it.
    pub seed: u32,
}
/// Where groups go: a kernel's argument. Those of partition `p` are where its pairs begin.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct GroupsOut<L: Layout> {
    /// The key of each group.
    pub keys: Buf<L::Key>,
    /// Where its values begin.
    pub starts: Buf<u32>,
    /// The values of all groups.
    pub values: Buf<L::Value>,
    /// Groups of each partition.
    pub sizes: Buf<u32>,
    /// How many groups there are; then 1 if grouping has failed.
    pub groups: Buf<u32>,
}

/// The pairs of each partition by key: group `g` of `sizes[p]` of partition `p`, whose pairs begin
/// at `offsets[p]`, is of `keys[offsets[p] + g]`; its values begin at
/// `values[starts[offsets[p] + g]]`. Adds to `groups[0]` how many there are. If the passes did not
/// bring all pairs to their bins, or keys are too alike, `groups[1]` is 1, and the rest means
/// nothing. One block a partition.
#[kernel(
    image = GROUPS, threads = 256, min_blocks = 3,
    shared = shared_bytes(from.room, pair_bytes::<L>()),
    for L in [Narrow { min_blocks = 4 }, Wide<u32, u64>, Wide<u64, u32>, Wide<u64, u64>]
)]
pub fn map_group<L: Layout>(t: Thread, from: Ungrouped, to: GroupsOut<L>) {
    let Ungrouped { pairs, counts, offsets, build_state, partitions, room, seed } = from;
    let GroupsOut { keys, starts, values, sizes, groups } = to;
    // All blocks leave, or none.
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
    // Long bins, and how many.
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
    let is_there =
        |id: u32, batch: usize, l: usize| id + (batch * BATCH + l) as u32 * THREADS < count;

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
        let (mut here, mut begin, mut of_lane) = ([L::Mixed::default(); 4], [0; 4], 0);
        unroll::<4>(|l| here[l] = near.key((row + l as u32 * 32 + t.lane()).min(behind - 1)));
        unroll::<4>(|l| begin[l] = near.begin(near.bin(here[l])));
        unroll::<4>(|l| {
            if near.key(begin[l]) != here[l] {
                let bin = near.bin(here[l]);
                marks.fetch_or(bin / 32, 1 << (bin % 32));
            }
            // Never behind the last pair.
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

    // D.
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
    // A lane has the bits of a row, and knows how many groups begin before it.
    let at = first + t.lane() * 32;
    let of_row = if at < behind { near.firsts.load(at / 32) } else { 0 };
    // All have read their values.
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
