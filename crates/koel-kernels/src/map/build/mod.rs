//! Builds a table: one block builds the buckets of one partition in shared memory and writes them
//! once. A pair is read once and written once.
//!
//! In shared memory a pair is a 64-bit [record](super::records), whatever its types. The block's
//! buckets and two lists are there too (`near`). The steps, with a barrier between them:
//! * **Count.** Every pair counts itself into its first bucket; the first four get the slots. The
//!   others are listed.
//! * **Place** (`place_listed`). The listed pairs mark their class in their first bucket and try
//!   the second in the same way. So do pairs of this partition from the overflow areas.
//! * **Evict** (`evict`). Each pair that found both buckets full looks at the four pairs of a
//!   bucket. It moves one whose other bucket has room, or swaps with one and continues with that
//!   pair. Pairs that gave up then retry both buckets, now that no slot is released any more. A
//!   pair that is still without a slot is *homeless*.
//! * **Write** (`write_buckets`). Full buckets are ordered so that they encode their class bits,
//!   and all buckets are written. A bucket that lost copies, and would hide keys if it were no
//!   longer full, gets [fillers](Shape::filler).
//! * **Resolve** (`resolve_suspects`). Keys that may still have copies in several places are
//!   resolved, and their buckets are written again.
//! * **Stash** (`stash_homeless`). Homeless pairs go to the stash.
//!
//! # Concurrent eviction
//! Buckets are read while others change them, so every observation is confirmed before it takes
//! effect: a slot is taken by clearing its bit in the bucket's free slots, and a pair is replaced
//! by compare-and-swap of all its 64 bits. No record occurs twice, so an equal record is the record
//! that was seen. (Equal pairs from one stretch may have equal records; the resolve step corrects
//! those.)
//!
//! # Equal keys
//! Of copies that meet, the one with the greatest stamp stays (`copies`):
//! * In the place step, a pair that missed a bucket is merged with a copy there. After that step it
//!   is also merged with another pair that missed both buckets.
//! * From then on only pairs in the same bucket can be copies. An evicting pair that finds two
//!   copies in a full bucket takes the slot of the lesser one, so copies stay together. The write
//!   step merges the rest.
//!
//! Where stamps do not decide, because they are equal, a key becomes *suspect*.
//! The resolve step searches for its copies in both buckets and among the homeless pairs, and makes
//! the key *contested* if several have the greatest stamp. Of the copies with one stamp two
//! suffice, so a frequent key needs no more room than a rare one.
mod copies;
mod evict;
mod near;
mod write;

pub(super) use evict::{HELP, MAX_MOVES, place_missed};
pub(super) use near::{
    CHANGED, CHANGES, CLASS, FREE, HOMELESS, LENGTHS, LISTED, Lists, MISSED_TWICE, Partition,
    clear, in_shared,
};
pub use write::write_bucket;

use super::partition::paired;
use super::records::{Indexed, Recorded, Records, Stamped};
use super::stamps::Stamps;
use crate::table::bins::{PartitionsIn, Source};
use crate::table::layout::{EMPTY, Layout, Narrow, Shape, Wide};
use crate::table::state;
use core::marker::PhantomData;
use koel_simt::{Buf, Thread, block, kernel, unroll};
use near::UNCOMPARED;

/// Threads per block.
pub const THREADS: u32 = 256;
/// Pairs per thread.
pub const ITEMS: usize = 16;
/// Maximum number of pairs per partition, excluding overflow.
pub const MAX_PAIRS: u32 = THREADS * ITEMS as u32;
const _: () = assert!(ITEMS.is_multiple_of(BATCH));
/// Pairs that a thread counts before it waits for the first result.
const BATCH: usize = 8;
/// Pairs of the overflow areas that a thread looks at before it waits for the first one.
const BEHIND: usize = 4;
/// Records that a thread loads at a time in builds in loops.
const INDEXED: usize = 4;

/// Returns the bytes of shared memory for partitions of `buckets` buckets, with lists of length
/// `list`.
pub const fn shared_bytes(buckets: u32, list: u32) -> u32 {
    buckets * 32 + buckets.next_multiple_of(4) * 4 + 2 * list * 8 + LENGTHS * 4
}

/// What a build writes, and what its blocks share, as a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Target {
    /// The geometry of the bins and of the tables below.
    pub source: Source,
    /// The buckets of all partitions.
    pub slots: Buf<u64>,
    /// The stash: empty before the build.
    pub stash: Buf<u64>,
    /// The contested keys and their filter: all ones before the build.
    pub contested: Buf<u64>,
    /// The words that the kernels of a build share.
    pub build_state: Buf<u32>,
}

/// Builds partition `p` from the bins of the partition passes.
#[inline(always)]
pub(super) fn build_stamped<L: Recorded, const CHECK: bool>(
    t: Thread,
    p: u32,
    shape: Shape,
    stamps: Stamps,
    from: PartitionsIn,
    to: Target,
) {
    let PartitionsIn { pairs, counts, valid, overflow } = from;
    let source = to.source;
    let coarse_bin = p.checked_div(source.each).unwrap_or(0);
    let layout = PhantomData;
    // A constant, so that hashes need not be decoded.
    let stamps = if CHECK { stamps } else { Stamps::NONE };
    let from = Stamped::<L> {
        stamps,
        base: stamps.base(p),
        bins: pairs,
        bin: p * source.room,
        room: source.room,
        overflow,
        area: source.area,
        layout,
    };
    let (part, lists) = in_shared(t, p, shape, to, from);
    let steps = Steps { t, part, lists, to };
    // Pairs that did not fit in their bin are in the overflow areas.
    let valid_here = valid.load_relaxed(source.coarse + p);
    let of_coarse_bin =
        if source.coarse != 0 { valid.load_relaxed(source.flags + coarse_bin) } else { !0 };
    let count = counts.load_relaxed(source.coarse + p).min(valid_here).min(source.room);
    let mut e = steps.load_heads(count);
    clear(t, part, lists);
    t.barrier();
    let missed = steps.count(&mut e, count);
    let missed = steps.list_missed(&e, missed);
    build_rest::<_, CHECK>(
        t,
        part,
        lists,
        to,
        count,
        missed,
        |j| steps.number(j),
        [of_coarse_bin == !0, valid_here == !0],
    )
}

impl<L: Recorded> Steps<Stamped<L>> {
    /// Returns the number in the bin of the thread's pair `j`.
    #[inline(always)]
    fn number(self, j: u32) -> u32 {
        paired::<{ THREADS as usize }>(self.t.id(), j)
    }
    /// Loads the heads of the thread's pairs, of `count` pairs in the bin.
    #[inline(always)]
    fn load_heads(self, count: u32) -> [u64; ITEMS] {
        let Stamped { bins: pairs, bin, .. } = self.part.from;
        let mut e = [EMPTY; ITEMS];
        if count != 0 {
            // Threads without pairs read the last two again, which avoids divergent branches.
            let last = (count & !1).saturating_sub(2);
            if count > 1 {
                unroll::<ITEMS>(|j| {
                    if j % 2 == 0 {
                        [e[j], e[j + 1]] =
                            L::two_heads(pairs, (bin + self.number(j as u32).min(last)) / 2);
                    }
                });
            }
            if !count.is_multiple_of(2) {
                unroll::<ITEMS>(|j| {
                    if j % 2 == 0 && self.number(j as u32) == count - 1 {
                        e[j] = L::head(L::pairs(pairs).load(bin + count - 1));
                    }
                });
            }
        }
        e
    }
    /// The count step. Replaces the heads by records. Returns the pairs that found their first
    /// bucket full: bit `j` stands for pair `j` of the thread.
    #[inline(always)]
    fn count(self, e: &mut [u64; ITEMS], count: u32) -> u32 {
        let part = self.part;
        let mut missed = 0u32;
        unroll::<{ ITEMS / BATCH }>(|batch| {
            let mut places = [0; BATCH];
            unroll::<BATCH>(|l| {
                let j = batch * BATCH + l;
                let number = self.number(j as u32);
                if number < count {
                    e[j] = L::record(e[j], number, part.from);
                    places[l] = part.words.fetch_add(part.shape.first(part.hash(e[j])), 1);
                }
            });
            unroll::<BATCH>(|l| {
                let j = batch * BATCH + l;
                if self.number(j as u32) < count {
                    if places[l] < 4 {
                        let first = part.shape.first(part.hash(e[j]));
                        part.slots.store_volatile(4 * first + places[l], e[j]);
                    } else {
                        missed |= 1 << j;
                    }
                }
            });
        });
        missed
    }
    /// Lists the missed pairs, as far as the list has room. Returns those that it had no room for.
    /// All lanes of a warp must call it.
    #[inline(always)]
    fn list_missed(self, e: &[u64; ITEMS], mut missed: u32) -> u32 {
        let Steps { t, lists, to: Target { source, .. }, .. } = self;
        let all = missed.count_ones();
        let before = block::warp_inclusive_sum(t, all);
        let mut at = 0;
        if t.lane() == 31 {
            at = lists.lengths.fetch_add(LISTED, before);
        }
        at = t.warp().shfl(at, 31) + before - all;
        unroll::<ITEMS>(|j| {
            if missed >> j & 1 != 0 {
                if at < source.list {
                    lists.first.store(at, e[j]);
                    missed &= !(1 << j);
                }
                at += 1;
            }
        });
        missed
    }
}

/// Builds in loops from the bins of the [pass over small inputs](super::small).
#[inline(always)]
pub(super) fn build_indexed<L: Layout>(
    t: Thread,
    shape: Shape,
    from: Indexed<L>,
    counts: Buf<u32>,
    valid: Buf<u32>,
    to: Target,
) {
    let (source, p) = (to.source, t.block());
    let (part, lists) = in_shared(t, p, shape, to, from);
    clear(t, part, lists);
    t.wait_for_previous();
    t.let_next_start();
    let valid_here = valid.load(p);
    let count = counts.load(p).min(valid_here).min(source.room);
    t.barrier();
    build_in_loops::<_, true>(t, part, lists, to, count, valid_here == !0)
}

/// Runs all steps for a cleared partition, after a barrier. `count`: number of pairs in the bin, at
/// most [`MAX_IN_LOOPS`]. `valid`: whether the overflow area is empty.
#[inline(always)]
pub(super) fn build_in_loops<R: Records, const CHECK: bool>(
    t: Thread,
    part: Partition<R>,
    lists: Lists,
    to: Target,
    count: u32,
    valid: bool,
) {
    // Count.
    let (shape, from, list) = (part.shape, part.from, to.source.list);
    let number = |j| j * R::THREADS + t.id();
    let (mut missed, mut j) = (0u32, 0);
    while number(j) < count {
        let mut e = [EMPTY; INDEXED];
        unroll::<INDEXED>(|l| {
            if number(j + l as u32) < count {
                e[l] = from.record(number(j + l as u32));
            }
        });
        unroll::<INDEXED>(|l| {
            if e[l] != EMPTY && !part.count_in(shape.first(part.hash(e[l])), e[l]) {
                let at = lists.lengths.fetch_add(LISTED, 1);
                if at < list {
                    lists.first.store(at, e[l]);
                } else {
                    missed |= 1 << (j + l as u32);
                }
            }
        });
        j += INDEXED as u32;
    }
    build_rest::<_, CHECK>(t, part, lists, to, count, missed, number, [true, valid])
}
/// Maximum number of pairs of a build in loops: a thread has one bit for each of its pairs.
pub(super) const MAX_IN_LOOPS: u32 = 32 * THREADS;

/// What the steps of a build work on.
#[derive(Clone, Copy)]
struct Steps<R> {
    t: Thread,
    part: Partition<R>,
    lists: Lists,
    to: Target,
}
/// Numbers of pairs in the overflow areas of the passes, for all partitions.
#[derive(Clone, Copy)]
struct Behind {
    first: u32,
    all: u32,
}

/// Runs all steps after the count. `count`: number of pairs in the bin. `missed`: pairs of this
/// thread that the list had no room for; bit `j` stands for pair `number(j)` of the bin. `valid`:
/// whether the overflow area of each pass is empty.
#[inline(always)]
fn build_rest<R: Records, const CHECK: bool>(
    t: Thread,
    part: Partition<R>,
    lists: Lists,
    to: Target,
    count: u32,
    missed: u32,
    number: impl Fn(u32) -> u32,
    valid: [bool; 2],
) {
    let steps = Steps { t, part, lists, to };
    t.barrier();
    // If an area was too small, the build has failed, and scanning the areas would only take time.
    let Some(behind) = steps.behind(valid) else { return };
    let mut dropped = steps.place_listed::<CHECK>(missed, number, behind);
    t.barrier();
    steps.free_slots();
    if lists.is_lost() {
        return;
    }
    let missed_twice = lists.lengths.load_volatile(MISSED_TWICE);
    if CHECK {
        dropped += steps.merge_missed_twice(missed_twice);
    }
    t.barrier();
    // Beyond the load that two choices among buckets of four can place, some searches are futile.
    let help = if count * 25 > part.shape.buckets * 97 { MAX_MOVES } else { HELP };
    dropped += place_missed::<R, CHECK>(t, R::THREADS, part, lists, help, missed_twice);
    let homeless = lists.lengths.load_volatile(HOMELESS);
    let suspects = steps.write_buckets::<CHECK>(homeless, &mut dropped);
    let mut resolved = false;
    if CHECK {
        // Normally nothing is suspect.
        let may_be = !R::EXACT || behind.all != 0 || lists.lengths.load_volatile(UNCOMPARED) != 0;
        resolved = may_be && t.barrier_count(suspects) != 0;
        if resolved {
            dropped += steps.resolve_suspects(homeless);
        }
        dropped = block::warp_inclusive_sum(t, dropped);
        if t.lane() == 31 && dropped != 0 {
            to.build_state.fetch_add(state::DROPPED, dropped);
        }
    }
    steps.stash_homeless(homeless, resolved);
}

impl<R: Records> Steps<R> {
    /// Returns the numbers of pairs in the overflow areas, whose counts no longer change, or `None`
    /// if an area was too small.
    #[inline(always)]
    fn behind(self, [valid_first, valid_second]: [bool; 2]) -> Option<Behind> {
        let Target { source, build_state, .. } = self.to;
        let count = |all_valid, word| if all_valid { 0 } else { build_state.load_relaxed(word) };
        let first = count(valid_first, state::OVERFLOW_FIRST);
        let second = count(valid_second, state::OVERFLOW_SECOND);
        (first.max(second) <= source.area).then_some(Behind { first, all: first + second })
    }
    /// The place step, for the listed pairs, those that the list had no room for, and those in the
    /// overflow areas. Returns the number of copies dropped.
    #[inline(always)]
    fn place_listed<const CHECK: bool>(
        self,
        mut missed: u32,
        number: impl Fn(u32) -> u32,
        behind: Behind,
    ) -> u32 {
        let Steps { t, part, lists, to: Target { source, .. } } = self;
        let (id, p, shape) = (t.id(), part.number, part.shape);
        let listed = lists.lengths.load_volatile(LISTED).min(source.list);
        let (mut next, mut next_behind, mut dropped) = (id, id, 0);
        loop {
            let e = if next < listed {
                next += R::THREADS;
                lists.first.load(next - R::THREADS)
            } else if lists.is_lost() {
                break;
            } else if missed != 0 {
                let j = missed.trailing_zeros();
                missed &= missed - 1;
                part.from.record(number(j))
            } else if next_behind < behind.all {
                // Nearly all of them belong elsewhere: looks at several at a time.
                let at = |l| {
                    let i = next_behind + l * R::THREADS;
                    if i < behind.first { i } else { i + source.area - behind.first }
                };
                let mut ours = 0u32;
                unroll::<BEHIND>(|l| {
                    if next_behind + l as u32 * R::THREADS < behind.all {
                        let (_, h) = part.from.behind(at(l as u32));
                        ours |= ((shape.partition(h) == p) as u32) << l;
                    }
                });
                if ours == 0 {
                    next_behind += BEHIND as u32 * R::THREADS;
                    continue;
                }
                let (e, h) = part.from.behind(at(ours.trailing_zeros()));
                next_behind += (ours.trailing_zeros() + 1) * R::THREADS;
                if CHECK {
                    // Another copy from an overflow area may miss this one in a bucket before it
                    // moves on to the next.
                    part.suspect(e);
                }
                if part.count_in(shape.first(h), e) {
                    continue;
                }
                e
            } else {
                break;
            };
            dropped += self.place_or_miss::<CHECK>(e);
        }
        dropped
    }
    /// Merges a pair that found its first bucket full with a copy, or gives it a slot of its second
    /// bucket, or lists it as missed twice. Returns the number of copies dropped.
    #[inline(always)]
    fn place_or_miss<const CHECK: bool>(self, e: u64) -> u32 {
        let Steps { part, lists, .. } = self;
        let shape = part.shape;
        let first = shape.first(part.hash(e));
        let (mut bucket, mut ties) = (first, 0);
        loop {
            if CHECK && self.merge(bucket, e, &mut ties) {
                return 1;
            }
            let second = shape.other(part.hash(e), first);
            if bucket == first && part.try_second(e) {
                return 0;
            }
            if bucket == second {
                lists.miss_twice(e);
                return 0;
            }
            bucket = second;
        }
    }
    /// Replaces the counts of all buckets by their free slots.
    #[inline(always)]
    fn free_slots(self) {
        let part = self.part;
        let mut i = self.t.id();
        while i < part.shape.buckets {
            part.count_to_free(i);
            i += R::THREADS;
        }
    }
}

/// Builds partition `t.block()` and resolves equal keys.
#[kernel(
    threads = 256, min_blocks = 4, shared = shared_bytes(shape.buckets, to.source.list),
    starts_early,
    for L in [Narrow { image = MAP }, Wide<u64, u64> { image = MAP_WIDE }]
)]
pub fn map_build<L: Recorded>(
    t: Thread,
    shape: Shape,
    stamps: Stamps,
    from: PartitionsIn,
    to: Target,
) {
    t.wait_for_previous();
    t.let_next_start();
    build_stamped::<L, true>(t, t.block(), shape, stamps, from, to)
}
/// Builds partition `t.block()` from distinct keys.
#[kernel(
    threads = 256, min_blocks = 4, shared = shared_bytes(shape.buckets, to.source.list),
    starts_early,
    for L in [Narrow { image = MAP }, Wide<u64, u64> { image = MAP_WIDE }]
)]
pub fn map_build_unchecked<L: Recorded>(
    t: Thread,
    shape: Shape,
    stamps: Stamps,
    from: PartitionsIn,
    to: Target,
) {
    t.wait_for_previous();
    t.let_next_start();
    build_stamped::<L, false>(t, t.block(), shape, stamps, from, to)
}
