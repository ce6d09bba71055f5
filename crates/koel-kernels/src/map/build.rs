//! One block turns one partition into its buckets, in shared memory, and writes them out once: a
//! pair is read once and written once.
//!
//! In shared memory a pair is a [record](super::records) of 64 bits, whatever its types.
//!
//! Phases, with a barrier between each two:
//! * A. Every pair counts itself into its first bucket; the first four have their slots. The others
//!   are listed.
//! * B. The listed ones try their second bucket in the same way, and mark their class in the first.
//!   So do the pairs of this partition that wait behind the bins.
//! * C. The rest evicts: looks at the four pairs of its bucket, moves one whose other bucket has
//!   room, or swaps with one and goes on with that. Buckets are read while others change them.
//!   Whatever was seen is confirmed before it counts: a slot is taken by clearing its bit among the
//!   free slots of its bucket, and a pair is replaced by compare-and-swap of all its 64 bits. No
//!   record comes twice (those of equal pairs of equal stretches may, which phase F sets right), so
//!   what is equal is what was seen.
//! * D. What C gave up tries both buckets again, now that nobody gives slots back any more. What
//!   has no place then is homeless.
//! * E. Full buckets are ordered so that they tell their class bits, and everything is written out.
//!   A bucket from which copies were dropped, and that could hide keys if it were no longer full,
//!   gets [fillers](Shape::filler).
//! * F. Keys of which copies may still be in several places are resolved, and the buckets concerned
//!   are written again.
//! * G. Homeless pairs go to the stash.
//!
//! # Equal keys
//! Of copies that meet the one with the greatest stamp stays:
//! * In phase B, a pair that missed a bucket becomes one with a copy there; between B and C, with
//!   another one that missed both buckets, too.
//! * So only pairs of one bucket can be copies from then on. In phase C, who comes to a full bucket
//!   with two of them takes the slot of the lesser: copies do not part. Phase E looks at what is
//!   left.
//!
//! Where stamps do not decide, because they are equal or one is unknown, a key becomes *suspect*:
//! phase F looks for its copies in both buckets and among the homeless, and makes the key
//! *contested* if several have the greatest stamp. Of more than two of one stamp two are enough to
//! tell, so that a frequent key does not need more room than a rare one.
use super::layout::{
    EMPTY, Layout, Narrow, Number, Shape, Wide, class, empty_last, filled, with_class_bits,
};
use super::partition::{Stamps, paired};
use super::records::{Indexed, PairOf, Placed, Recorded, Records, Stamped};
use super::{filter_bit, stash, state};
use crate::hash::mulhi;
use core::marker::PhantomData;
use koel_simt::{Buf, In, Shared, Thread, U32x4, U64x2, block, kernel, unroll};

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Pairs of a thread.
pub const ITEMS: usize = 16;
/// Pairs of a partition, at most, overflow not counted.
pub const MOST: u32 = THREADS * ITEMS as u32;
const _: () = assert!(ITEMS.is_multiple_of(BATCH));
/// Slots that a thread asks for before it waits for the first.
const BATCH: usize = 8;
/// The same, of small inputs.
const INDEXED: usize = 4;
/// Evictions of a pair before it is given up.
pub(super) const MAX_MOVES: u32 = 500;
/// Pairs of a warp that all its lanes help: of small inputs, where nothing else is to be done
/// meanwhile, and the last ones of others.
const FEW: u32 = 4;
const LAST: u32 = 1;
/// Evictions of a pair from which on all lanes help, and as how many of them their help counts.
const LONG: u32 = 16;
pub(super) const HELP: u32 = 60;
/// Slots of the table of contested keys that one may find taken before the build is done in another
/// way.
const MAX_PROBES: u32 = 256;
/// Keys of one hash with which one that found both its buckets full is compared, at most: phase F
/// does that faster.
const MAX_COMPARED: u32 = 8;
/// Pairs of a partition that were given up, from which on the others are given up after few
/// evictions: so many have no room only if keys were chosen.
const MANY_GIVEN_UP: u32 = 256;
/// Pairs that a warp works on in phase C: fewer warps collide less.
const PAIRS_PER_WARP: u32 = 40;

/// Bytes of shared memory for partitions of this many buckets, with lists of this length.
pub const fn shared_bytes(buckets: u32, list: u32) -> u32 {
    buckets * 32 + buckets.next_multiple_of(4) * 4 + 2 * list * 8 + LENGTHS * 4
}

/// Where the bins of the last partition pass are, and how much they hold: a kernel's argument.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Source {
    /// Places of a bin: even.
    pub room: u32,
    /// The stash has 2^this slots.
    pub stash_bits: u32,
    /// The table of contested keys has 2^this slots.
    pub contested_bits: u32,
    /// Pairs that a list has room for.
    pub list: u32,
    /// Partitions of a group.
    pub each: u32,
    /// Pairs that the overflow area of a pass has room for.
    pub area: u32,
    /// Bins of the first of two passes, before those of the second; 0: there was one pass.
    pub groups: u32,
}
// SAFETY: plain numbers, no padding.
#[cfg(not(target_arch = "nvptx64"))]
unsafe impl koel_simt::Arg for Source {}

/// The partition that a block works on.
#[derive(Clone, Copy)]
pub(super) struct Partition<R> {
    pub shape: Shape,
    pub from: R,
    pub slots: Shared<u64>,
    /// A word for each bucket. First, bits 0-15 count the pairs that came; later, bits 0-3 are the
    /// free slots and bits 4-7 those that are dropped. Bits 20-23: the classes that
    /// overflowed; two marks follow.
    pub words: Shared<u32>,
}
const COUNT: u32 = 0xFFFF;
pub(super) const FREE: u32 = 0xF;
const DROPPED: u32 = 4;
const CLASS: u32 = 20;
/// Keys that have this bucket as their first may have copies.
const SUSPECT: u32 = 1 << 24;
/// Phase F has changed something here; of a table that is updated, anything has.
pub(super) const CHANGED: u32 = 1 << 25;
// The words behind the lists: how much is in them.
/// Of the first list: what missed once, or later what phase C gave up.
pub(super) const LISTED: u32 = 0;
/// Of the second list: what missed twice.
pub(super) const MISSED_TWICE: u32 = 1;
const GIVEN_UP: u32 = 2;
/// In the second list, after phase C.
pub(super) const HOMELESS: u32 = 3;
/// Not 0 if copies among the pairs of the second list may not have met.
const UNCOMPARED: u32 = 4;
// Phase F has a word of the first list for each homeless pair, its fingerprint in the low half.
/// The pair was dropped.
const DROPPED_HERE: u64 = 1 << 63;
pub(super) const LENGTHS: u32 = 8;

#[inline(always)]
fn class_mark(h: u32) -> u32 {
    1 << (CLASS + class(h))
}
/// One of four, without an array in memory.
#[inline(always)]
fn pick<T: Copy>(i: u32, v: [T; 4]) -> T {
    let low = if i & 1 != 0 { v[1] } else { v[0] };
    let high = if i & 1 != 0 { v[3] } else { v[2] };
    if i & 2 != 0 { high } else { low }
}

impl<R: Placed> Partition<R> {
    #[inline(always)]
    pub fn hash(self, record: u64) -> u32 {
        self.from.hash(record)
    }
    #[inline(always)]
    fn tag(self, record: u64) -> u32 {
        self.from.tag(record)
    }
    #[inline(always)]
    fn key(self, record: u64) -> <R::Layout as Layout>::Mixed {
        R::Layout::key(self.from.pair(record))
    }
    #[inline(always)]
    #[track_caller]
    pub fn bucket(self, bucket: u32) -> [u64; 4] {
        let U64x2([a, b]) = self.slots.x2().load_volatile(2 * bucket);
        let U64x2([c, d]) = self.slots.x2().load_volatile(2 * bucket + 1);
        [a, b, c, d]
    }
    /// Phases A and B: a slot by counting.
    #[inline(always)]
    #[track_caller]
    fn count_in(self, bucket: u32, e: u64) -> bool {
        let place = self.words.fetch_add(bucket, 1) & COUNT;
        if place < 4 {
            self.slots.store_volatile(4 * bucket + place, e);
        }
        place < 4
    }
    /// Phase B for one pair: marks its class in the first bucket, tries the second.
    #[inline(always)]
    #[track_caller]
    fn try_second(self, e: u64) -> bool {
        let h = self.hash(e);
        let first = self.shape.first(h);
        self.words.fetch_or(first, class_mark(h));
        let second = self.shape.other(h, first);
        // Looks before it counts, so that counts stay small.
        self.words.load_volatile(second) & COUNT < 4 && self.count_in(second, e)
    }
    /// From phase C on: takes a free slot of a bucket, if there is one and nobody else takes it.
    #[inline(always)]
    #[track_caller]
    fn take_slot(self, bucket: u32) -> Option<u32> {
        let free = self.words.load_volatile(bucket) & FREE;
        let bit = free & free.wrapping_neg();
        if bit != 0 && self.words.fetch_and(bucket, !bit) & bit != 0 {
            self.mark_changed(bucket);
            Some(4 * bucket + bit.trailing_zeros())
        } else {
            None
        }
    }
    /// When no slots are given back any more: takes a slot, unless the bucket is full.
    #[inline(always)]
    #[track_caller]
    pub fn take_last_slot(self, bucket: u32) -> Option<u32> {
        while self.words.load_volatile(bucket) & FREE != 0 {
            if let Some(slot) = self.take_slot(bucket) {
                return Some(slot);
            }
        }
        None
    }
    /// Notes that a bucket may change, where that is asked for.
    #[inline(always)]
    #[track_caller]
    pub fn mark_changed(self, bucket: u32) {
        if R::MARKS_CHANGES {
            self.words.fetch_or(bucket, CHANGED);
        }
    }
    /// Marks the key of a record, copies of which may be in several places.
    #[inline(always)]
    fn suspect(self, e: u64) {
        self.words.fetch_or(self.shape.first(self.hash(e)), SUSPECT);
    }
    #[inline(always)]
    fn is_suspect(self, e: u64) -> bool {
        self.words.load_volatile(self.shape.first(self.hash(e))) & SUSPECT != 0
    }
    #[inline(always)]
    fn same(self, a: u64, b: u64) -> bool {
        a != EMPTY && b != EMPTY && self.tag(a) == self.tag(b) && self.from.same_key(a, b)
    }
    /// Of the whole key: keys of one hash have different ones.
    #[inline(always)]
    fn fingerprint(self, e: u64) -> u32 {
        stash::spread::<R::Layout>(self.key(e))
    }
}
/// The two lists, and their lengths.
#[derive(Clone, Copy)]
pub(super) struct Lists {
    pub first: Shared<u64>,
    pub second: Shared<u64>,
    pub lengths: Shared<u32>,
    pub room: u32,
    pub build_state: Buf<u32>,
}
impl Lists {
    /// A pair that found both its buckets full. If the list is full too, the build fails.
    #[inline(always)]
    pub fn miss_twice(self, e: u64) {
        let at = self.lengths.fetch_add(MISSED_TWICE, 1);
        if at < self.room {
            self.second.store(at, e);
        } else {
            self.build_state.fetch_add(state::FAILED, 1);
        }
    }
    /// Whether the second list was too short: the build has failed, and the block need do no more.
    #[inline(always)]
    fn is_lost(self) -> bool {
        self.lengths.load_volatile(MISSED_TWICE) > self.room
    }
    /// Makes one of pair `i` of the second list and another one there of its key, if there is one:
    /// the one of the greater stamp stays, of equal stamps both do, and the key is suspect.
    /// They meet in a table of numbers in the memory of the first list. Whether one
    /// was dropped.
    #[inline(always)]
    fn merge_missed<R: Records>(self, part: Partition<R>, i: u32, e: u64) -> bool {
        let mut at = mulhi(part.hash(e).wrapping_mul(0x9E37_79B1), self.room);
        let (mut looked, mut compared) = (0, 0);
        loop {
            if looked == self.room || compared == MAX_COMPARED {
                self.lengths.store_volatile(UNCOMPARED, 1);
                break;
            }
            let there = self.first.cas(at, EMPTY, i as u64);
            if there == EMPTY {
                return false;
            }
            let other = self.second.load_volatile(there as u32);
            if part.same(other, e) {
                let (mine, its) = (part.from.stamp(e), part.from.stamp(other));
                if !R::EXACT && (mine == its || mine.max(its) == part.from.unknown()) {
                    break;
                }
                // Who takes the other's place in the table drops it.
                if mine < its || self.first.cas(at, there, i as u64) == there {
                    self.second.store_volatile(if mine < its { i } else { there as u32 }, EMPTY);
                    return true;
                }
            } else if other != EMPTY {
                at = if at + 1 < self.room { at + 1 } else { 0 };
                looked += 1;
                compared += (part.tag(other) == part.tag(e)) as u32;
            }
        }
        part.suspect(e);
        false
    }
}

/// Makes one of a pair and a copy of it in a full bucket, if there is one: the record of the
/// greater stamp stays there. Of equal stamps two stay, and the key is suspect: `ties` counts those
/// of the pair's own.
#[inline(always)]
fn merge<R: Records>(
    part: Partition<R>,
    lists: Lists,
    bucket: u32,
    e: u64,
    ties: &mut u32,
    source: Source,
    contested: Buf<u64>,
) -> bool {
    let (tag, there, mut alike) = (part.tag(e), part.bucket(bucket), 0u32);
    unroll::<4>(|s| alike |= ((part.tag(there[s]) == tag) as u32) << s);
    if alike == 0 {
        return false;
    }
    let mine = part.from.stamp(e);
    while alike != 0 {
        let s = alike.trailing_zeros();
        alike &= alike - 1;
        let mut other = pick(s, there);
        while part.same(other, e) {
            let its = part.from.stamp(other);
            let unknown = !R::EXACT && mine.max(its) == part.from.unknown();
            if unknown {
                contest::<R::Layout>(
                    contested,
                    source.contested_bits,
                    part.key(e),
                    lists.build_state,
                );
                // Copies with greater stamps may come: then the stretch of this one would not be
                // the one to search.
                lists.build_state.fetch_max(state::FROM, part.from.search_from(mine.min(its)));
            }
            if mine < its || unknown && mine == its {
                return true;
            }
            if !R::EXACT && mine == its {
                *ties += 1;
                break;
            }
            let now = part.slots.cas(4 * bucket + s, other, e);
            if now == other {
                return true;
            }
            other = now;
        }
    }
    if *ties == 1 {
        part.suspect(e);
    }
    // Two that stay with the same stamp tell as much as three.
    *ties > 1
}

/// Where a block's partition goes, and what blocks share.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub source: Source,
    pub slots: Buf<u64>,
    pub stash: Buf<u64>,
    pub contested: Buf<u64>,
    pub build_state: Buf<u32>,
}

/// A partition and its lists in shared memory, not cleared yet.
#[inline(always)]
pub(super) fn in_shared<R: Placed>(
    t: Thread,
    shape: Shape,
    to: Target,
    from: R,
) -> (Partition<R>, Lists) {
    let mut shared = t.shared();
    let part = Partition {
        shape,
        from,
        slots: shared.array::<u64>(shape.buckets * 4),
        words: shared.array::<u32>((shape.buckets + 3) & !3),
    };
    let lists = Lists {
        first: shared.array::<u64>(to.source.list),
        second: shared.array::<u64>(to.source.list),
        lengths: shared.array::<u32>(LENGTHS),
        room: to.source.list,
        build_state: to.build_state,
    };
    (part, lists)
}
#[inline(always)]
pub(super) fn clear<R: Placed>(t: Thread, part: Partition<R>, lists: Lists) {
    let mut i = t.id();
    while i < part.shape.buckets * 2 {
        part.slots.x2().store(i, U64x2([EMPTY; 2]));
        i += THREADS;
    }
    i = t.id();
    while i < part.shape.buckets.div_ceil(4) {
        part.words.x4().store(i, U32x4([0; 4]));
        i += THREADS;
    }
    if t.id() < LENGTHS {
        lists.lengths.store(t.id(), 0);
    }
}

/// Builds from the bins of the partition passes.
#[inline(always)]
fn build_stamped<L: Recorded, const CHECK: bool>(
    t: Thread,
    shape: Shape,
    stamps: Stamps,
    pairs: In<u64>,
    counts: In<u32>,
    valid: In<u32>,
    overflow: In<u64>,
    to: Target,
) {
    let source = to.source;
    let (id, p) = (t.id(), t.block());
    let group = p.checked_div(source.each).unwrap_or(0);
    let (top, layout) = (stamps.top(group), PhantomData);
    let from = Stamped::<L> {
        stamps,
        top,
        bins: pairs,
        bin: p * source.room,
        room: source.room,
        overflow,
        layout,
    };
    let (part, lists) = in_shared(t, shape, to, from);

    t.wait_for_previous();
    t.let_next_start();
    // What a bin had no room for is behind the bins.
    let valid_here = valid.get(source.groups + p);
    let of_group = if source.groups != 0 { valid.get(group) } else { !0 };
    let count = counts.get(source.groups + p).min(valid_here).min(source.room);
    let number = |j| paired::<{ THREADS as usize }>(id, j);
    let mut e = [EMPTY; ITEMS];
    if count != 0 {
        // Who has nothing to read reads the last two pairs again: no branch that others wait for.
        let last = (count & !1).saturating_sub(2);
        if count > 1 {
            unroll::<ITEMS>(|j| {
                if j % 2 == 0 {
                    [e[j], e[j + 1]] =
                        L::two_heads(pairs, (from.bin + number(j as u32).min(last)) / 2);
                }
            });
        }
        if !count.is_multiple_of(2) {
            unroll::<ITEMS>(|j| {
                if j % 2 == 0 && number(j as u32) == count - 1 {
                    e[j] = L::head(L::pairs(pairs).get(from.bin + count - 1));
                }
            });
        }
    }
    clear(t, part, lists);
    t.barrier();

    // A.
    let mut missed = 0u32;
    unroll::<{ ITEMS / BATCH }>(|batch| {
        let mut places = [0; BATCH];
        unroll::<BATCH>(|l| {
            let j = batch * BATCH + l;
            if number(j as u32) < count {
                e[j] = L::record(e[j], number(j as u32), from);
                places[l] = part.words.fetch_add(shape.first(part.hash(e[j])), 1);
            }
        });
        unroll::<BATCH>(|l| {
            let j = batch * BATCH + l;
            if number(j as u32) < count {
                if places[l] < 4 {
                    part.slots.store_volatile(4 * shape.first(part.hash(e[j])) + places[l], e[j]);
                } else {
                    missed |= 1 << j;
                }
            }
        });
    });
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
    build_rest::<_, CHECK>(
        t,
        part,
        lists,
        to,
        count,
        missed,
        number,
        [of_group == !0, valid_here == !0],
    )
}

/// Builds from the bins of the [pass over small inputs](super::small), in loops.
#[inline(always)]
pub(super) fn build_indexed<L: Layout>(
    t: Thread,
    shape: Shape,
    from: Indexed<L>,
    counts: In<u32>,
    valid: In<u32>,
    to: Target,
) {
    let (source, p) = (to.source, t.block());
    let (part, lists) = in_shared(t, shape, to, from);
    clear(t, part, lists);
    t.wait_for_previous();
    t.let_next_start();
    let valid_here = valid.get(p);
    let count = counts.get(p).min(valid_here).min(source.room);
    t.barrier();
    build_in_loops::<_, true>(t, part, lists, to, count, valid_here == !0)
}

/// Everything behind the clearing of a partition, and a barrier behind that, for `count` pairs,
/// [`MOST_IN_LOOPS`] at most. `valid`: whether none are behind the bins.
#[inline(always)]
pub(super) fn build_in_loops<R: Records, const CHECK: bool>(
    t: Thread,
    part: Partition<R>,
    lists: Lists,
    to: Target,
    count: u32,
    valid: bool,
) {
    // A.
    let (shape, from, list) = (part.shape, part.from, to.source.list);
    let number = |j| j * THREADS + t.id();
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
/// So many pairs are built in loops, at most: a thread has a bit for each of its own.
pub(super) const MOST_IN_LOOPS: u32 = 32 * THREADS;

/// Everything behind phase A. `count`: pairs in the bin. `missed`: pairs of this thread for which
/// the list had no room, pair `number(j)` of the bin for bit `j`. `valid`: whether no pairs are
/// behind the bins of each pass.
#[inline(always)]
fn build_rest<R: Records, const CHECK: bool>(
    t: Thread,
    part: Partition<R>,
    lists: Lists,
    to: Target,
    count: u32,
    mut missed: u32,
    number: impl Fn(u32) -> u32,
    [valid_first, valid_second]: [bool; 2],
) {
    let Target { source, slots, stash, contested, build_state } = to;
    let Lists { first: list, lengths, .. } = lists;
    let (id, p, shape) = (t.id(), t.block(), part.shape);
    t.barrier();

    // B. For what the list had no room for, and what waits behind the bins, too.
    let listed = lengths.load_volatile(LISTED).min(source.list);
    // The counts no longer change.
    let behind = |all_valid, word| if all_valid { 0 } else { build_state.load_relaxed(word) };
    let behind_first = behind(valid_first, state::OVERFLOW_FIRST);
    let behind_second = behind(valid_second, state::OVERFLOW_SECOND);
    if behind_first.max(behind_second) > source.area {
        // An area was too small: the build has failed, and to look at all that is there would take
        // long.
        return;
    }
    let all_behind = behind_first + behind_second;
    let (mut next, mut next_behind, mut dropped) = (id, id, 0);
    loop {
        let e = if next < listed {
            next += THREADS;
            list.load(next - THREADS)
        } else if lists.is_lost() {
            break;
        } else if missed != 0 {
            let j = missed.trailing_zeros();
            missed &= missed - 1;
            part.from.record(number(j))
        } else if next_behind < all_behind {
            let area = if next_behind < behind_first { 0 } else { source.area - behind_first };
            let (e, h) = part.from.behind(area + next_behind);
            next_behind += THREADS;
            if shape.partition(h) != p {
                continue;
            }
            if CHECK {
                // Another copy from there may not see this one in a bucket before it goes on to the
                // next.
                part.suspect(e);
            }
            if part.count_in(shape.first(h), e) {
                continue;
            }
            e
        } else {
            break;
        };
        let first = shape.first(part.hash(e));
        let (mut bucket, mut ties) = (first, 0);
        loop {
            if CHECK && merge::<R>(part, lists, bucket, e, &mut ties, source, contested) {
                dropped += 1;
                break;
            }
            let second = shape.other(part.hash(e), first);
            if bucket == first && part.try_second(e) {
                break;
            }
            if bucket == second {
                lists.miss_twice(e);
                break;
            }
            bucket = second;
        }
    }
    t.barrier();

    // Counts become free slots.
    let mut i = id;
    while i < shape.buckets {
        let word = part.words.load(i);
        let taken = (word & COUNT).min(4);
        part.words.store(i, word & (!0 << CLASS) | (FREE << taken) & FREE);
        i += THREADS;
    }
    if lists.is_lost() {
        return;
    }
    let missed_twice = lengths.load_volatile(MISSED_TWICE);
    if CHECK {
        i = id;
        while i < source.list {
            list.store(i, EMPTY);
            i += THREADS;
        }
        t.barrier();
        // Copies of what came to the second buckets meanwhile need no place either.
        i = id;
        while i < missed_twice {
            let e = lists.second.load_volatile(i);
            let h = part.hash(e);
            if merge::<R>(part, lists, shape.other(h, shape.first(h)), e, &mut 0, source, contested)
            {
                lists.second.store_volatile(i, EMPTY);
                dropped += 1;
            } else {
                dropped += lists.merge_missed(part, i, e) as u32;
            }
            i += THREADS;
        }
    }
    t.barrier();

    // Where there are more pairs than two choices of four can place, some search in vain.
    let help = if count * 25 > shape.buckets * 97 { MAX_MOVES } else { HELP };
    dropped += place_missed::<R, CHECK, THREADS>(t, part, lists, help, missed_twice);

    // E.
    let homeless = lengths.load_volatile(HOMELESS);
    let mut suspects = false;
    i = id;
    while i < shape.buckets {
        let (records, mut word) = (part.bucket(i), part.words.load_volatile(i));
        suspects |= word & SUSPECT != 0;
        if CHECK {
            let (gone, tied) = lesser_copies::<R>(part, records, !word);
            suspects |= tied;
            if gone != 0 {
                dropped += gone.count_ones();
                word |= gone << DROPPED;
                part.words.fetch_or(i, gone << DROPPED);
                unroll::<4>(|s| {
                    if gone >> s & 1 != 0 {
                        part.slots.store_volatile(4 * i + s as u32, EMPTY);
                    }
                });
            }
        }
        let bucket = if word >> DROPPED & FREE != 0 {
            thinned::<R>(part, lists, p, i, records, word, homeless)
        } else {
            finished::<R>(part, records, word)
        };
        write_bucket::<R::Layout>(slots, shape.place(p, i), bucket);
        i += THREADS;
    }
    let mut resolved = false;
    if CHECK {
        // F. Where nothing is suspect, which is normal, this was all.
        let may_be = !R::EXACT || all_behind != 0 || lengths.load_volatile(UNCOMPARED) != 0;
        resolved = may_be && t.barrier_count(suspects) != 0;
        if resolved {
            i = id;
            while i < homeless {
                let e = lists.second.load_volatile(i);
                list.store(
                    i,
                    if part.is_suspect(e) { part.fingerprint(e) } else { part.tag(e) } as u64,
                );
                i += THREADS;
            }
            t.barrier();
            i = id;
            while i < shape.buckets {
                let (records, taken) = (part.bucket(i), !part.words.load_volatile(i));
                let mut here = 0u32;
                unroll::<4>(|s| {
                    let pair = taken >> s & 1 != 0 && records[s] != EMPTY;
                    here |= ((pair && part.is_suspect(records[s])) as u32) << s;
                });
                while here != 0 {
                    let slot = 4 * i + here.trailing_zeros();
                    here &= here - 1;
                    dropped +=
                        resolve::<R>(part, lists, slot, homeless, source.contested_bits, contested)
                            as u32;
                }
                i += THREADS;
            }
            i = id;
            while i < homeless {
                let e = lists.second.load_volatile(i);
                if part.is_suspect(e) {
                    let slot = shape.buckets * 4 + i;
                    dropped +=
                        resolve::<R>(part, lists, slot, homeless, source.contested_bits, contested)
                            as u32;
                }
                i += THREADS;
            }
            t.barrier();
            // By the threads that have written them before.
            i = id;
            while i < shape.buckets {
                let word = part.words.load(i);
                if word & CHANGED != 0 {
                    let bucket = thinned::<R>(part, lists, p, i, part.bucket(i), word, homeless);
                    write_bucket::<R::Layout>(slots, shape.place(p, i), bucket);
                }
                i += THREADS;
            }
        }
        dropped = block::warp_inclusive_sum(t, dropped);
        if t.lane() == 31 && dropped != 0 {
            build_state.fetch_add(state::DROPPED, dropped);
        }
    }

    // G.
    i = id;
    while i < homeless {
        // Both buckets of the pair are full, and its class is marked in the first: a lookup comes
        // here.
        if !resolved || list.load(i) & DROPPED_HERE == 0 {
            let done = stash::insert_near::<R::Layout>(
                stash,
                source.stash_bits,
                part.from.pair(lists.second.load(i)),
            );
            build_state.fetch_add(if done { state::STASHED } else { state::FAILED }, 1);
        }
        i += THREADS;
    }
}

/// Phases C and D for the first `missed` pairs of the second list, which found both their buckets
/// full. What has no place afterwards is homeless. Tells how many copies it dropped. All `BLOCK`
/// threads of the block call it; a barrier follows if something was given up.
#[inline(always)]
pub(super) fn place_missed<R: Placed, const CHECK: bool, const BLOCK: u32>(
    t: Thread,
    part: Partition<R>,
    lists: Lists,
    help: u32,
    missed: u32,
) -> u32 {
    let (shape, lengths) = (part.shape, lists.lengths);
    let mut dropped = 0;
    // C.
    let warps = missed.div_ceil(if R::EXACT { FEW } else { PAIRS_PER_WARP }).clamp(1, BLOCK / 32);
    if t.warp_id() < warps {
        // A warp's share, without a division that could be by zero.
        let share = missed.checked_div(warps).unwrap_or(0) + 1;
        let start = (share * t.warp_id()).min(missed);
        dropped = evict::<R, CHECK>(t, part, lists, help, start, (start + share).min(missed));
    }
    t.barrier();

    // D. Normally nothing.
    let given_up = lengths.load_volatile(GIVEN_UP);
    if given_up != 0 {
        let mut i = t.id();
        while i < given_up {
            let e = lists.first.load(i);
            let h = part.hash(e);
            let first = shape.first(h);
            // Its class is marked: it missed its first bucket once, or was evicted from it.
            let slot =
                part.take_last_slot(first).or_else(|| part.take_last_slot(shape.other(h, first)));
            match slot {
                Some(slot) => part.slots.store_volatile(slot, e),
                None => lists.second.store(lengths.fetch_add(HOMELESS, 1), e),
            }
            i += BLOCK;
        }
        t.barrier();
    }
    dropped
}

/// A bucket of these records as it is written out.
#[inline(always)]
fn finished<R: Placed>(part: Partition<R>, records: [u64; 4], word: u32) -> [PairOf<R>; 4] {
    let mut bucket = [R::Layout::EMPTY_PAIR; 4];
    unroll::<4>(|s| {
        if word >> s & 1 == 0 {
            bucket[s] = part.from.pair(records[s]);
        }
    });
    let taken = !word & FREE;
    if taken == FREE {
        bucket = with_class_bits::<R::Layout>(bucket, word >> CLASS);
    } else if taken & (taken + 1) != 0 {
        // A slot before others was given back.
        bucket = empty_last::<R::Layout>(bucket);
    }
    bucket
}
/// A bucket some of whose pairs were dropped, as it is written out.
#[inline(always)]
fn thinned<R: Records>(
    part: Partition<R>,
    lists: Lists,
    p: u32,
    at: u32,
    records: [u64; 4],
    word: u32,
    homeless: u32,
) -> [PairOf<R>; 4] {
    let shape = part.shape;
    let gone = (word | word >> DROPPED) & FREE;
    // A lookup may have to look further than here, which it does only if the bucket is full.
    let hides = word & FREE == 0 && (word >> CLASS & 0xF != 0 || homeless != 0);
    let mut bucket = [R::Layout::EMPTY_PAIR; 4];
    if hides && gone != 0 && shape.all_buckets() == 1 {
        // Every key belongs here.
        lists.build_state.fetch_add(state::FAILED, 1);
        return bucket;
    }
    unroll::<4>(|s| {
        if gone >> s & 1 == 0 {
            bucket[s] = part.from.pair(records[s]);
        }
    });
    if gone == 0 || hides {
        with_class_bits::<R::Layout>(
            filled::<R::Layout>(shape, shape.place(p, at) as u32, bucket, gone),
            word >> CLASS,
        )
    } else {
        empty_last::<R::Layout>(bucket)
    }
}

/// Writes a bucket, which is not read soon.
#[inline(always)]
#[track_caller]
pub fn write_bucket<L: Layout>(slots: Buf<u64>, place: u64, bucket: [L::Pair; 4]) {
    let to = place * (L::WORDS as u64 / 2);
    slots.x2().store_stream(to, U64x2([L::head(bucket[0]), L::head(bucket[1])]));
    slots.x2().store_stream(to + 1, U64x2([L::head(bucket[2]), L::head(bucket[3])]));
    if L::SLOT_WORDS > 1 {
        slots.x2().store_stream(to + 2, U64x2([L::behind(bucket[0]), L::behind(bucket[1])]));
        slots.x2().store_stream(to + 3, U64x2([L::behind(bucket[2]), L::behind(bucket[3])]));
    }
}

macro_rules! entries { ($($(#[$doc:meta])* $image:ident $name:ident $layout:ty, $check:literal;)*) => { $(
    $(#[$doc])*
    #[kernel(image = $image, threads = 256, min_blocks = 4, shared = shared_bytes(shape.buckets, source.list), starts_early)]
    pub fn $name(
        t: Thread,
        shape: Shape,
        source: Source,
        stamps: Stamps,
        pairs: In<u64>,
        counts: In<u32>,
        valid: In<u32>,
        overflow: In<u64>,
        slots: Buf<u64>,
        stash: Buf<u64>,
        contested: Buf<u64>,
        build_state: Buf<u32>,
    ) {
        let to = Target { source, slots, stash, contested, build_state };
        build_stamped::<$layout, $check>(t, shape, stamps, pairs, counts, valid, overflow, to)
    }
)* } }
entries! {
    /// Builds partition `t.block()`, and finds equal keys.
    ///
    /// `counts`, `valid`: pairs that came to each bin of both passes, and at most how many of them
    /// are in it: all ones if all are. `overflow`: the overflow areas of the passes, whose pairs
    /// `build_state` counts. The stash is empty, but for what other blocks put there.
    MAP map_build Narrow, true;
    /// The same for wide pairs.
    MAP_WIDE map_build_wide Wide<u64, u64>, true;
    /// As `map_build`, where no two keys are equal.
    MAP map_build_unchecked Narrow, false;
    /// As `map_build_wide`, where no two keys are equal.
    MAP_WIDE map_build_unchecked_wide Wide<u64, u64>, false;
}

/// Looks for a way to a free slot for a pair that found both its buckets full: past one pair that
/// goes to its other bucket, or two. All lanes of a warp look, each at one way of 32. Gives the
/// pair that has no place afterwards: [`EMPTY`] if all have, the one it was given if nothing was
/// moved, or one that was moved by which somebody else was faster.
#[inline(always)]
fn search_together<R: Placed, const CHECK: bool>(t: Thread, part: Partition<R>, pair: u64) -> u64 {
    let (shape, lane, warp) = (part.shape, t.lane(), t.warp());
    let h = part.hash(pair);
    let first = shape.first(h);
    // Each lane has a pair of a bucket, one of the bucket where that would go, and the bucket where
    // this would go.
    let bucket = if lane < 16 { first } else { shape.other(h, first) };
    let slot = 4 * bucket + (lane >> 2 & 3);
    // Others may change it meanwhile: what four lanes look behind is what one of them saw.
    let evicted = warp.shfl(part.slots.load_volatile(slot), lane & !3);
    let h_evicted = part.hash(if evicted != EMPTY { evicted } else { pair });
    let next = shape.other(h_evicted, bucket);
    let next_slot = 4 * next + (lane & 3);
    let next_evicted = part.slots.load_volatile(next_slot);
    let h_next = part.hash(if next_evicted != EMPTY { next_evicted } else { pair });
    let last = shape.other(h_next, next);
    // Nothing leaves a bucket that is not full for good: a slot that is empty may be given back.
    let half = 0xFFFF << (lane & 16);
    let mut one = warp.ballot(evicted == EMPTY) & half == 0;
    let mut two = warp.ballot(next_evicted == EMPTY) >> (lane & 28) & 0xF == 0;
    if CHECK {
        // Copies do not part.
        unroll::<3>(|i| {
            one &= warp.shfl_xor(h_evicted, 4 * (i as u32 + 1)) != h_evicted;
            two &= warp.shfl_xor(h_next, i as u32 + 1) != h_next;
        });
    }
    two &= one;
    one &= part.words.load_volatile(next) & FREE != 0;
    two &= part.words.load_volatile(last) & FREE != 0;
    let (ones, twos) = (warp.ballot(one), warp.ballot(two));
    let ways = if ones != 0 { ones } else { twos };
    let way = ways.trailing_zeros() & 31;
    let mut left = pair;
    if ways != 0 && lane == way {
        let end = if ones != 0 { next } else { last };
        if let Some(free) = part.take_slot(end) {
            if shape.first(h_evicted) == bucket {
                part.words.fetch_or(bucket, class_mark(h_evicted));
            }
            if part.slots.cas(slot, evicted, pair) == evicted {
                part.mark_changed(bucket);
                left = evicted;
            }
            if left == evicted && ones == 0 {
                if shape.first(h_next) == next {
                    part.words.fetch_or(next, class_mark(h_next));
                }
                if part.slots.cas(next_slot, next_evicted, evicted) == next_evicted {
                    part.mark_changed(next);
                    left = next_evicted;
                }
            }
            if left != pair && (ones != 0 || left != evicted) {
                part.slots.store_volatile(free, left);
                left = EMPTY;
            } else {
                // Somebody was faster: the slot is free again.
                part.words.fetch_or(end, 1 << (free & 3));
            }
        }
    }
    warp.shfl(left, way)
}

/// Phase C for the pairs `next..to` of the second list, one lane each; what is given up is appended
/// to the first list. Tells how many copies it dropped.
#[inline(always)]
fn evict<R: Placed, const CHECK: bool>(
    t: Thread,
    part: Partition<R>,
    lists: Lists,
    help: u32,
    mut next: u32,
    to: u32,
) -> u32 {
    let (shape, lane, lengths) = (part.shape, t.lane(), lists.lengths);
    let (mut active, mut x, mut bucket, mut moves, mut dropped) = (false, EMPTY, 0, 0, 0);
    loop {
        // Lanes that are done take the next pairs together.
        let idle = t.warp().ballot(!active);
        if idle != 0 && next < to {
            if !active {
                let i = next + t.rank_in(idle);
                if i < to {
                    x = lists.second.load(i);
                    (active, bucket, moves) = (x != EMPTY, shape.first(part.hash(x)), 0);
                }
            }
            next += idle.count_ones();
        } else if idle == !0 {
            break;
        }
        // All lanes help the few that are left at the end, and those that take long.
        let few = t.warp().ballot(active).count_ones() <= if R::EXACT { FEW } else { LAST };
        let mut rest = t.warp().ballot(active && (few || moves >= LONG));
        while rest != 0 {
            let helped = rest.trailing_zeros();
            rest &= rest - 1;
            let pair = t.warp().shfl(x, helped);
            let left = search_together::<R, CHECK>(t, part, pair);
            if lane == helped {
                moves += help;
                if left != pair {
                    (active, x, bucket) = (left != EMPTY, left, shape.first(part.hash(left)));
                }
            }
        }
        if !active {
            continue;
        }
        let y = part.bucket(bucket);
        if y[0] == EMPTY || y[1] == EMPTY || y[2] == EMPTY || y[3] == EMPTY {
            // Rare: a slot is being filled at this moment, or was given back.
            if let Some(slot) = part.take_slot(bucket) {
                part.slots.store_volatile(slot, x);
                active = false;
            }
        } else {
            // One of the four whose other bucket has room, else any of them.
            let hashes = y.map(|e| part.hash(e));
            if hashes == [part.hash(x); 4] {
                // Keys that were chosen: none has more room elsewhere than this one. Perhaps there
                // are others in its other bucket.
                bucket = shape.other(part.hash(x), bucket);
                if moves > MAX_MOVES || part.bucket(bucket).map(|e| part.hash(e)) == hashes {
                    lists.first.store(lengths.fetch_add(GIVEN_UP, 1), x);
                    active = false;
                }
                moves += 1;
                continue;
            }
            let lesser = if CHECK { lesser_copies::<R>(part, y, FREE).0 } else { 0 };
            if lesser != 0 {
                // It needs no slot any more.
                let slot = lesser.trailing_zeros();
                if part.slots.cas(4 * bucket + slot, pick(slot, y), x) == pick(slot, y) {
                    dropped += 1;
                    active = false;
                }
                continue;
            }
            let other = hashes.map(|h| shape.other(h, bucket));
            let free = [0, 1, 2, 3].map(|s| part.words.load_volatile(other[s]) & FREE);
            let mut hit = 4;
            unroll::<4>(|s| {
                if free[s] != 0 && (hit == 4 || (s as u32 ^ lane) & 1 == 0) {
                    hit = s as u32;
                }
            });
            let swaps = hit == 4;
            if swaps {
                hit = (moves + lane) & 3;
            }
            let (evicted, its_other) = (pick(hit, y), pick(hit, other));
            let slot = if swaps { None } else { part.take_slot(its_other) };
            if swaps || slot.is_some() {
                let h = part.hash(evicted);
                if shape.first(h) == bucket {
                    part.words.fetch_or(bucket, class_mark(h));
                }
                if part.slots.cas(4 * bucket + hit, evicted, x) == evicted {
                    part.mark_changed(bucket);
                    match slot {
                        Some(slot) => {
                            part.slots.store_volatile(slot, evicted);
                            active = false;
                        }
                        None => (x, bucket) = (evicted, its_other),
                    }
                } else if let Some(slot) = slot {
                    // Somebody was faster: the slot is free again.
                    part.words.fetch_or(its_other, 1 << (slot & 3));
                }
            }
        }
        moves += active as u32;
        // An update has no registers left for that, and no keys that were chosen for long.
        let many = !R::MARKS_CHANGES
            && active
            && moves > LONG
            && lengths.load_volatile(GIVEN_UP) > MANY_GIVEN_UP;
        if active && (many || moves > MAX_MOVES) {
            lists.first.store(lengths.fetch_add(GIVEN_UP, 1), x);
            active = false;
        }
    }
    dropped
}

/// All pairs of slots of a bucket.
const TWO_OF_FOUR: [(usize, usize); 6] = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)];
/// Of copies in a bucket, the slots of those that need not stay, a bit each; and whether some are
/// left of which that is not known: their key is suspect. `taken`: the slots that hold a pair.
#[inline(always)]
fn lesser_copies<R: Placed>(part: Partition<R>, records: [u64; 4], taken: u32) -> (u32, bool) {
    let tags = records.map(|e| part.tag(e));
    let alike = |(a, b): (usize, usize)| tags[a] == tags[b] && taken >> a & taken >> b & 1 != 0;
    let (mut any, mut lesser, mut tied) = (false, 0, false);
    unroll::<6>(|i| any |= alike(TWO_OF_FOUR[i]));
    if any {
        unroll::<6>(|i| {
            let (a, b) = TWO_OF_FOUR[i];
            if alike((a, b)) && part.from.same_key(records[a], records[b]) {
                let (of_a, of_b) = (part.from.stamp(records[a]), part.from.stamp(records[b]));
                if !R::EXACT && (of_a == of_b || of_a.max(of_b) == part.from.unknown()) {
                    part.suspect(records[a]);
                    tied = true;
                } else {
                    lesser |= 1 << if of_a < of_b { a } else { b };
                }
            }
        });
    }
    (lesser, tied)
}
/// Phase F for the pair in slot `at`, or behind the slots for homeless pair `at - slots`: if it is
/// the first of several equal ones, it takes the place of all, with the record that stays; else it
/// is marked as dropped, which is what is told.
///
/// Others read the record meanwhile: the one that stays has the same key, and only the first copy
/// decides.
#[inline(always)]
fn resolve<R: Records>(
    part: Partition<R>,
    lists: Lists,
    at: u32,
    homeless: u32,
    contested_bits: u32,
    contested: Buf<u64>,
) -> bool {
    let slots = part.shape.buckets * 4;
    let me = if at < slots {
        part.slots.load_volatile(at)
    } else {
        lists.second.load_volatile(at - slots)
    };
    let print = part.fingerprint(me);
    let h = part.hash(me);
    let first = part.shape.first(h);
    let second = part.shape.other(h, first);
    let (mut best, mut greatest, mut ties, mut copies, mut first_copy) =
        (me, part.from.stamp(me), false, 0, at);
    let mut meet = |other: u32, e: u64| {
        copies += 1;
        first_copy = first_copy.min(other);
        let stamp = part.from.stamp(e);
        ties = stamp == greatest || ties && stamp < greatest;
        if stamp > greatest {
            (best, greatest) = (e, stamp);
        }
    };
    let mut i = 0;
    while i < 8 {
        let bucket = if i < 4 { first } else { second };
        if i < 4 || second != first {
            let slot = 4 * bucket + (i & 3);
            let e = part.slots.load_volatile(slot);
            if slot != at && part.same(e, me) {
                meet(slot, e);
            }
        }
        i += 1;
    }
    i = 0;
    while i < homeless {
        // Not the keys are compared: many may share one hash.
        if lists.first.load_volatile(i) as u32 == print && slots + i != at {
            let e = lists.second.load_volatile(i);
            if part.same(e, me) {
                meet(slots + i, e);
            }
        }
        i += 1;
    }
    if copies == 0 {
        return false;
    }
    if first_copy != at {
        if at < slots {
            part.words.fetch_or(at / 4, CHANGED | 1 << (DROPPED + at % 4));
        } else {
            lists.first.store_volatile(at - slots, DROPPED_HERE | print as u64);
        }
        return true;
    }
    if at < slots {
        part.slots.store_volatile(at, best);
        part.words.fetch_or(at / 4, CHANGED);
    } else {
        lists.second.store_volatile(at - slots, best);
    }
    let build_state = lists.build_state;
    let unknown = greatest == part.from.unknown();
    if !R::EXACT && (ties || unknown) {
        contest::<R::Layout>(contested, contested_bits, part.key(best), build_state);
        // Where copies of it are: in the stretch of its stamp, if it has one.
        if unknown {
            build_state.fetch_max(state::FROM, part.from.search_from(greatest));
        } else {
            build_state.store_relaxed(state::STRETCHES + greatest, 1);
        }
    }
    false
}

/// Adds a key to the contested ones, and to their [filter](super::CONTESTED_FILTER).
#[inline(always)]
fn contest<L: Layout>(contested: Buf<u64>, bits: u32, key: L::Mixed, build_state: Buf<u32>) {
    let mask = (1u32 << (bits & 31)) - 1;
    let (mut at, mut looked) = (stash::start::<L>(key, bits), 0);
    // A table as full as this would cost more than building in the other way.
    while looked <= mask.min(MAX_PROBES) {
        let there = contested.cas(at, EMPTY, key.widened());
        if there == EMPTY {
            build_state.fetch_add(state::CONTESTED, 1);
            let (word, bit) = filter_bit(L::hash(key));
            contested.fetch_and((1u64 << (bits & 31)) + word as u64, !(1 << bit));
        }
        if there == EMPTY || there == key.widened() {
            return;
        }
        at = (at + 1) & mask;
        looked += 1;
    }
    build_state.fetch_add(state::FAILED, 1);
}
