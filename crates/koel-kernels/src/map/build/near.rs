//! A partition and its lists in shared memory.
use super::Target;
use crate::map::records::{Placed, Records};
use crate::table::layout::{EMPTY, Layout, Shape, class};
use crate::table::{stash, state};
use koel_simt::{Buf, Shared, Thread, U32x4, U64x2};

/// The partition that a block works on.
#[derive(Clone, Copy)]
pub(in crate::map) struct Partition<R> {
    /// Number of the partition in its table.
    pub number: u32,
    pub shape: Shape,
    pub from: R,
    pub slots: Shared<u64>,
    /// One word per bucket. Bits 0-15 first count the pairs that came; later, bits 0-3 are the free
    /// slots and bits 4-7 the dropped ones. Bits 20-23 are the classes that overflowed; two marks
    /// follow.
    pub words: Shared<u32>,
}
pub(super) const COUNT: u32 = 0xFFFF;
pub(in crate::map) const FREE: u32 = 0xF;
pub(super) const DROPPED: u32 = 4;
pub(in crate::map) const CLASS: u32 = 20;
/// Mark: keys with this first bucket may have copies.
pub(super) const SUSPECT: u32 = 1 << 24;
/// Mark: the resolve step changed something here; in an update, anything changed.
pub(in crate::map) const CHANGED: u32 = 1 << 25;
// Indices of the words after the lists.
/// Length of the first list: pairs that missed once, later those that gave up.
pub(in crate::map) const LISTED: u32 = 0;
/// Length of the second list: pairs that missed twice.
pub(in crate::map) const MISSED_TWICE: u32 = 1;
pub(super) const GIVEN_UP: u32 = 2;
/// Length of the second list after eviction: homeless pairs.
pub(in crate::map) const HOMELESS: u32 = 3;
/// Not 0 if the second list may hold copies that were not compared.
pub(super) const UNCOMPARED: u32 = 4;
/// In an update: number of buckets that changed.
pub(in crate::map) const CHANGES: u32 = 5;
// In the resolve step, the first list has a word for each homeless pair, with its fingerprint in
// the low half.
/// Mark: the pair was dropped.
pub(super) const DROPPED_HERE: u64 = 1 << 63;
pub(in crate::map) const LENGTHS: u32 = 8;

#[inline(always)]
pub(super) fn class_mark(h: u32) -> u32 {
    1 << (CLASS + class(h))
}
/// Returns one of four values without an array in memory.
#[inline(always)]
pub(super) fn pick<T: Copy>(i: u32, v: [T; 4]) -> T {
    let low = if i & 1 != 0 { v[1] } else { v[0] };
    let high = if i & 1 != 0 { v[3] } else { v[2] };
    if i & 2 != 0 { high } else { low }
}

impl<R: Placed> Partition<R> {
    #[inline(always)]
    pub(crate) fn hash(self, record: u64) -> u32 {
        self.from.hash(record)
    }
    #[inline(always)]
    pub(super) fn tag(self, record: u64) -> u32 {
        self.from.tag(record)
    }
    #[inline(always)]
    pub(super) fn key(self, record: u64) -> <R::Layout as Layout>::Mixed {
        R::Layout::key(self.from.pair(record))
    }
    #[inline(always)]
    #[track_caller]
    pub(crate) fn bucket(self, bucket: u32) -> [u64; 4] {
        let U64x2([a, b]) = self.slots.x2().load_volatile(2 * bucket);
        let U64x2([c, d]) = self.slots.x2().load_volatile(2 * bucket + 1);
        [a, b, c, d]
    }
    /// Takes a slot of a bucket by counting. Returns whether there was one.
    #[inline(always)]
    #[track_caller]
    pub(super) fn count_in(self, bucket: u32, e: u64) -> bool {
        let place = self.words.fetch_add(bucket, 1) & COUNT;
        if place < 4 {
            self.slots.store_volatile(4 * bucket + place, e);
        }
        place < 4
    }
    /// Marks the class of a hash in its first bucket.
    #[inline(always)]
    #[track_caller]
    pub(in crate::map) fn mark_class(self, h: u32) {
        self.words.fetch_or(self.shape.first(h), class_mark(h));
    }
    /// Marks the class of a pair in its first bucket and tries the second.
    #[inline(always)]
    #[track_caller]
    pub(super) fn try_second(self, e: u64) -> bool {
        let h = self.hash(e);
        let first = self.shape.first(h);
        self.mark_class(h);
        let second = self.shape.other(h, first);
        // Looks before it counts, so that counts stay small.
        self.words.load_volatile(second) & COUNT < 4 && self.count_in(second, e)
    }
    /// Replaces the count of a bucket by its free slots.
    #[inline(always)]
    pub(super) fn count_to_free(self, bucket: u32) {
        let word = self.words.load(bucket);
        let taken = (word & COUNT).min(4);
        self.words.store(bucket, word & (!0 << CLASS) | (FREE << taken) & FREE);
    }
    /// Takes a free slot of a bucket while pairs evict, if there is one and no other thread takes
    /// it.
    #[inline(always)]
    #[track_caller]
    pub(super) fn take_slot(self, bucket: u32) -> Option<u32> {
        let free = self.words.load_volatile(bucket) & FREE;
        let bit = free & free.wrapping_neg();
        if bit != 0 && self.words.fetch_and(bucket, !bit) & bit != 0 {
            self.mark_changed(bucket);
            Some(4 * bucket + bit.trailing_zeros())
        } else {
            None
        }
    }
    /// Takes a slot once slots are no longer released, unless the bucket is full.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn take_last_slot(self, bucket: u32) -> Option<u32> {
        while self.words.load_volatile(bucket) & FREE != 0 {
            if let Some(slot) = self.take_slot(bucket) {
                return Some(slot);
            }
        }
        None
    }
    /// Marks a bucket that may change, if the build marks changes.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn mark_changed(self, bucket: u32) {
        if R::MARKS_CHANGES {
            self.words.fetch_or(bucket, CHANGED);
        }
    }
    /// Marks the key of a record that may have copies in several places.
    #[inline(always)]
    pub(super) fn suspect(self, e: u64) {
        self.words.fetch_or(self.shape.first(self.hash(e)), SUSPECT);
    }
    #[inline(always)]
    pub(super) fn is_suspect(self, e: u64) -> bool {
        self.words.load_volatile(self.shape.first(self.hash(e))) & SUSPECT != 0
    }
    #[inline(always)]
    pub(super) fn same(self, a: u64, b: u64) -> bool {
        a != EMPTY && b != EMPTY && self.tag(a) == self.tag(b) && self.from.same_key(a, b)
    }
    /// Returns a fingerprint of the whole key, which differs even between keys with one hash.
    #[inline(always)]
    pub(super) fn fingerprint(self, e: u64) -> u32 {
        stash::spread::<R::Layout>(self.key(e))
    }
}
/// The two lists and their lengths.
#[derive(Clone, Copy)]
pub(in crate::map) struct Lists {
    pub first: Shared<u64>,
    pub second: Shared<u64>,
    pub lengths: Shared<u32>,
    pub room: u32,
    pub build_state: Buf<u32>,
}
impl Lists {
    /// Lists a pair that found both its buckets full. If the list is full too, the build fails.
    #[inline(always)]
    pub(crate) fn miss_twice(self, e: u64) {
        let at = self.lengths.fetch_add(MISSED_TWICE, 1);
        if at < self.room {
            self.second.store(at, e);
        } else {
            self.build_state.fetch_add(state::FAILED, 1);
        }
    }
    /// Returns whether the second list was too short. Then the build has failed, and the block can
    /// stop.
    #[inline(always)]
    pub(super) fn is_lost(self) -> bool {
        self.lengths.load_volatile(MISSED_TWICE) > self.room
    }
}

/// Allocates a partition and its lists in shared memory, without clearing them.
#[inline(always)]
pub(in crate::map) fn in_shared<R: Placed>(
    t: Thread,
    number: u32,
    shape: Shape,
    to: Target,
    from: R,
) -> (Partition<R>, Lists) {
    let mut shared = t.shared();
    let part = Partition {
        number,
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
pub(in crate::map) fn clear<R: Records>(t: Thread, part: Partition<R>, lists: Lists) {
    let mut i = t.id();
    while i < part.shape.buckets * 2 {
        part.slots.x2().store(i, U64x2([EMPTY; 2]));
        i += R::THREADS;
    }
    i = t.id();
    while i < part.shape.buckets.div_ceil(4) {
        part.words.x4().store(i, U32x4([0; 4]));
        i += R::THREADS;
    }
    if t.id() < LENGTHS {
        lists.lengths.store(t.id(), 0);
    }
}
