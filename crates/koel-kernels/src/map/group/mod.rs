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
//! pairs of their partition begin, and [from_groups](super::from_groups) compacts them where
//! needed. The order of the groups of a partition, and of the values of a group, depends on the
//! order in which threads ran.
mod near;

use crate::table::layout::{Layout, Narrow, Number, Wide};
use crate::table::state;
use koel_simt::{Buf, In, Shared, Thread, U32x4, block, kernel, unroll};
use near::Near;

/// Threads per block.
pub const THREADS: u32 = 256;
/// Pairs that a thread loads at a time.
const BATCH: usize = 4;
/// Maximum number of batches per thread.
const BATCHES: usize = 5;
/// Maximum number of pairs per partition.
pub const MAX_PAIRS: u32 = THREADS * (BATCH * BATCHES) as u32;

/// Pairs per lane where a warp orders a bin.
const OF_LANE: usize = 4;
/// Maximum number of pairs of a bin that a warp orders. All threads of the block order longer bins.
const LONG: u32 = 32 * OF_LANE as u32;
/// Maximum number of long bins.
const MAX_LONG: u32 = MAX_PAIRS / LONG;

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
    // All blocks return, or none.
    if !all_arrived(from.build_state) {
        if t.global_id() == 0 {
            to.groups.store(1, 1);
        }
        return;
    }
    let steps = Steps::new(t, from, to);
    steps.clear();
    t.barrier();
    let places = steps.count();
    t.barrier();
    steps.near.sum(t, steps.sums);
    t.barrier();
    steps.scatter(places);
    t.barrier();
    let stretch = steps.stretch();
    steps.mark(stretch);
    t.barrier();
    steps.near.order_marked(t, steps.marks, steps.long, steps.listed);
    t.barrier();
    steps.order_long();
    t.barrier();
    steps.write_values();
    steps.write_groups(stretch);
}

/// What the steps of grouping work on.
#[derive(Clone, Copy)]
struct Steps<L: Layout> {
    t: Thread,
    /// The partition of the block.
    p: u32,
    from: Ungrouped,
    to: GroupsOut<L>,
    near: Near<L>,
    /// Place of the partition's last pair in the bins of the passes.
    last: u32,
    /// Place of the partition's first value in the output.
    first_value: u32,
    /// One bit per bin: whether it has several keys.
    marks: Shared<u32>,
    /// Long bins.
    long: Shared<u32>,
    /// Number of long bins.
    listed: Shared<u32>,
    sums: Shared<u32>,
}
/// A warp's stretch of the pairs, in rows of 32.
#[derive(Clone, Copy)]
struct Stretch {
    first: u32,
    behind: u32,
}

impl<L: Layout> Steps<L> {
    /// Allocates the shared memory of a block, without clearing it.
    #[inline(always)]
    fn new(t: Thread, from: Ungrouped, to: GroupsOut<L>) -> Steps<L> {
        let Ungrouped { counts, offsets, partitions, room, .. } = from;
        let p = t.block();
        let (count, first_value) = (counts.get(p).min(room), offsets.get(p));
        let bins = bins(room);
        let mut shared = t.shared();
        let begins = shared.array::<u32>(bins / 2 + SPARE);
        let keys = shared.array::<L::Mixed>(places(room));
        let values = shared.array::<L::Value>(places(room));
        let (marks, firsts) = (shared.array::<u32>(bins / 32), shared.array::<u32>(rows(room)));
        let (long, listed) = (shared.array::<u32>(MAX_LONG), shared.array::<u32>(1));
        let sums = shared.array::<u32>(32);
        let near = Near { keys, values, begins, firsts, partitions, bins, count };
        let last = p * room + count.wrapping_sub(1);
        Steps { t, p, from, to, near, last, first_value, marks, long, listed, sums }
    }
    /// Clears the counts and the marks of all bins, and the number of long bins.
    #[inline(always)]
    fn clear(self) {
        let Steps { t, near: Near { begins, bins, .. }, marks, listed, .. } = self;
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
    }
    /// Loads a word of each pair of a batch. Threads without a pair load the last one.
    #[inline(always)]
    fn load(self, id: u32, batch: usize, word: u32) -> [u64; BATCH] {
        let Ungrouped { pairs, room, .. } = self.from;
        let mut of = [0; BATCH];
        unroll::<BATCH>(|l| {
            let at = (self.p * room + id + (batch * BATCH + l) as u32 * THREADS).min(self.last);
            of[l] = pairs.get(at * L::SLOT_WORDS as u32 + word);
        });
        of
    }
    /// Returns whether thread `id` has pair `l` of a batch.
    #[inline(always)]
    fn is_there(self, id: u32, batch: usize, l: usize) -> bool {
        id + (batch * BATCH + l) as u32 * THREADS < self.near.count
    }
    /// The count step. Returns the bin of each pair and, in the low 16 bits, its rank there.
    /// Threads without a pair count into their lane's spare word.
    #[inline(always)]
    fn count(self) -> [[u32; BATCH]; BATCHES] {
        let Steps { t, near, .. } = self;
        let mut places = [[0u32; BATCH]; BATCHES];
        unroll::<BATCHES>(|batch| {
            if (batch * BATCH) as u32 * THREADS < near.count {
                let heads = self.load(t.id(), batch, 0);
                unroll::<BATCH>(|l| {
                    let bin = near.bin(L::key_in(heads[l]));
                    let there = self.is_there(t.id(), batch, l);
                    let bin = if there { bin } else { near.bins + 2 * t.lane() };
                    places[batch][l] = bin << 16 | near.count(bin);
                });
            }
        });
        places
    }
    /// The scatter step, once the bins are summed.
    #[inline(always)]
    fn scatter(self, places: [[u32; BATCH]; BATCHES]) {
        let Steps { t, near, .. } = self;
        // Recomputed: addresses are not kept in registers from the count step.
        let id = t.anew(t.id());
        unroll::<BATCHES>(|batch| {
            if (batch * BATCH) as u32 * THREADS < near.count {
                let heads = self.load(id, batch, 0);
                let behind = if L::SLOT_WORDS == 1 { [0; BATCH] } else { self.load(id, batch, 1) };
                unroll::<BATCH>(|l| {
                    let place = near.begin(places[batch][l] >> 16) + (places[batch][l] & 0xFFFF);
                    if self.is_there(id, batch, l) {
                        near.put(place, L::key_in(heads[l]), L::value_in(heads[l], behind[l]));
                    }
                });
            }
        });
    }
    /// Returns the stretch of the thread's warp.
    #[inline(always)]
    fn stretch(self) -> Stretch {
        let Steps { t, near: Near { count, .. }, .. } = self;
        let rows = count.div_ceil(THREADS);
        let first = t.warp_id() * rows * 32;
        Stretch { first, behind: (first + rows * 32).min(count) }
    }
    /// Begins the order step: sets the bits of the places where bins begin, and marks the bins
    /// that have several keys.
    #[inline(always)]
    fn mark(self, Stretch { first, behind }: Stretch) {
        let Steps { t, near, marks, .. } = self;
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
    }
    /// Ends the order step: orders the long bins, with all threads of the block.
    #[inline(always)]
    fn order_long(self) {
        let Steps { t, near, long, listed, sums, .. } = self;
        let mut ordered = true;
        let mut i = 0;
        while i < listed.load(0) {
            let bin = long.load(i);
            ordered &= near.order_long(t, near.begin(bin), near.end(bin), sums);
            i += 1;
        }
        if !ordered && t.id() == 0 {
            self.to.groups.store_relaxed(1, 1);
        }
    }
    /// Begins the write step: writes the values as they lie.
    #[inline(always)]
    fn write_values(self) {
        let Steps { t, near, first_value, to: GroupsOut { values, .. }, .. } = self;
        let mut i = t.id();
        while i < near.count {
            unroll::<4>(|l| {
                let at = i + l as u32 * THREADS;
                if at < near.count {
                    values.store(first_value + at, near.values.load(at));
                }
            });
            i += 4 * THREADS;
        }
    }
    /// Ends the write step: counts the groups, lists where they begin in place of the values, and
    /// writes their keys and starts.
    #[inline(always)]
    fn write_groups(self, Stretch { first, behind }: Stretch) {
        let Steps { t, p, near, first_value, to, sums, .. } = self;
        // Each lane has the bits of a row, and the number of groups that begin before it.
        let at = first + t.lane() * 32;
        let of_row = if at < behind { near.firsts.load(at / 32) } else { 0 };
        // The sum's barrier guarantees that all values were read before they are overwritten.
        let (before, own) = block::exclusive_sum(t, of_row.count_ones(), sums);
        if t.id() == 0 {
            to.sizes.store(p, own);
            to.groups.fetch_add(0, own);
        }
        let (mut bits, mut number) = (of_row, before);
        while bits != 0 {
            near.values.store(number, L::Value::narrowed((at + bits.trailing_zeros()) as u64));
            bits &= bits - 1;
            number += 1;
        }
        t.barrier();
        let mut i = t.id();
        while i < own {
            unroll::<2>(|l| {
                let number = i + l as u32 * THREADS;
                if number < own {
                    let at = near.values.load(number).widened() as u32;
                    to.keys.store(first_value + number, L::unmixed(self.from.seed, near.key(at)));
                    to.starts.store(first_value + number, first_value + at);
                }
            });
            i += 2 * THREADS;
        }
    }
}
