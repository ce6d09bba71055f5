//! Updates of few keys beside the pairs of a table, a map or a [set](crate::set::few): each
//! operation by a thread, in the one or two buckets where its key may lie.
//!
//! What [`update`](super::update) does for whole partitions reads all of the table. Where
//! operations are few, it is less to read and write the buckets of their keys. Operations are
//! brought together as for that, but by the first pass alone: its bins, each of some partitions,
//! are the *groups* here. Both buckets of a key are in its partition, so one block a group does all
//! that is done in its buckets, and its barriers order that:
//! 1. Operations wait for the first buckets of their keys. In each *round* every bucket is claimed
//!    by the operation of the least number, in shared memory; the others wait for the next round.
//!    An operation is done if the first bucket is enough for it: the key is there, or cannot be
//!    elsewhere, or is new and has a free slot there; [fillers](Shape::filler) are free slots too.
//! 2. The rest wait for second buckets, in rounds again. Where both buckets of a new key are full,
//!    another key of the second one, or of the first, goes to its other bucket, or does so after a
//!    third key did. Each round an operation tries one such way, or a few; what buckets that takes
//!    it claims besides, until the round ends.
//!
//! So operations on one key are done in the order of their numbers.
//!
//! Class bits are set where keys overflow, and never cleared: one may be set although the last such
//! key is gone, until another update reads the whole partition. Pairs in the stash stay there, and
//! buckets that were full stay so while there are any.
//!
//! # What is left
//! The ambiguous key, keys in the stash, those for which there is no room so near, operations for
//! which too many rounds are needed, and groups that had no room for their operations: they are
//! [not done](status::NOT_DONE), and the kernels of whole partitions, which follow, do them. They
//! find empty groups where nothing is left.
use super::build::write_bucket;
use super::header;
use super::join::{Form, Numbered, Pass, Routed};
use super::layout::{BUCKET, Layout, Narrow, Number, Shape, Wide, class, class_bit};
use super::stash;
use super::update::{applied, operation, ordered, state, status, status_of};
use core::marker::PhantomData;
use koel_simt::{Buf, In, Scalar, Shared, Thread, U32x4, U64x2, kernel, unroll};

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Rounds for first buckets: operations on one key that are done, at most.
const MOST_ROUNDS: u32 = 32;

/// How few operations are applied: a kernel's argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Few {
    /// The pass that brought the operations to their groups.
    pub pass: Pass,
    /// What all operations do: one of [`operation`].
    pub operation: u32,
    /// Words for the claims of a group, less 1: ones in its low bits, at least three.
    pub claims: u32,
    /// The stash has 2^this slots.
    pub stash_bits: u32,
}
// SAFETY: plain numbers, no padding.
#[cfg(not(target_arch = "nvptx64"))]
unsafe impl koel_simt::Arg for Few {}

/// Bytes of shared memory for groups of up to so many operations on keys of so many bytes.
pub const fn shared_bytes(few: Few, key_bytes: u32) -> u32 {
    let room = few.pass.room.next_multiple_of(4);
    room * (key_bytes + 4 + LISTS * 4) + (few.claims + 1) * 4 + COUNTS * 4
}
/// Lists of operations: those that wait, those that go on waiting, and those that need second
/// buckets.
const LISTS: u32 = 3;

// What a block counts: in the first words the operations of each list.
/// Not 0: operations are left.
const LEFT: u32 = LISTS;
/// Not 0: operations were done in a round.
const DONE: u32 = LISTS + 1;
/// Not 0: an operation was left in its second bucket; others on its key may follow.
const STUCK: u32 = LISTS + 2;
const COUNTS: u32 = 8;

/// In place of a number, which is less: the bucket is not claimed.
const FREE: u32 = !0;
/// With the number of a thread: it is claimed by that besides its own.
const TAKEN: u32 = 1 << 31;

/// A kind of table, as one bucket is changed by one thread.
pub(crate) trait Bucketed: Copy + 'static {
    /// How keys are mixed, and how the stash holds pairs.
    type Pairs: Routed;
    /// What slots are made of.
    type Word: Scalar;
    /// A bucket in registers.
    type Bucket: Copy;
    /// Slots of a bucket.
    const SLOTS: usize;
    /// Whether keys have values.
    const VALUES: bool;

    fn load(slots: Buf<Self::Word>, place: u32) -> Self::Bucket;
    fn store(slots: Buf<Self::Word>, place: u32, bucket: Self::Bucket);
    /// The mixed key in a slot: all ones if it is empty.
    fn key(bucket: &Self::Bucket, slot: usize) -> MixedOf<Self>;
    /// The value in a slot that is not empty.
    fn value(bucket: &Self::Bucket, slot: usize) -> ValueOf<Self>;
    /// Changes a slot: the pair, or empty.
    fn put(bucket: &mut Self::Bucket, slot: usize, pair: Option<(MixedOf<Self>, ValueOf<Self>)>);
    /// The class bits of a full bucket.
    fn class_bits(bucket: &Self::Bucket) -> u32;
    /// The bucket in this place as it is written, with these class bits, and these slots empty;
    /// `needed`: it must look full.
    fn ordered(
        shape: Shape,
        place: u32,
        bucket: Self::Bucket,
        free: u32,
        bits: u32,
        needed: bool,
    ) -> Self::Bucket;
    /// Writes the value of a slot of a bucket that has these pairs.
    fn store_value(
        slots: Buf<Self::Word>,
        place: u32,
        slot: u32,
        key: MixedOf<Self>,
        value: ValueOf<Self>,
    );
}
pub(crate) type MixedOf<T> = <<T as Bucketed>::Pairs as Layout>::Mixed;
pub(crate) type ValueOf<T> = <<T as Bucketed>::Pairs as Layout>::Value;

/// Buckets of a map.
#[derive(Clone, Copy)]
struct OfMap<L>(PhantomData<L>);
impl<L: Routed> Bucketed for OfMap<L> {
    type Pairs = L;
    type Word = u64;
    type Bucket = [L::Pair; BUCKET];
    const SLOTS: usize = BUCKET;
    const VALUES: bool = true;

    #[inline(always)]
    #[track_caller]
    fn load(slots: Buf<u64>, place: u32) -> [L::Pair; BUCKET] {
        let (at, wide) = (place as u64 * (L::WORDS as u64 / 2), L::SLOT_WORDS > 1);
        let U64x2([a, b]) = slots.x2().load(at);
        let U64x2([c, d]) = slots.x2().load(at + 1);
        let U64x2([e, f]) = if wide { slots.x2().load(at + 2) } else { U64x2([0; 2]) };
        let U64x2([g, h]) = if wide { slots.x2().load(at + 3) } else { U64x2([0; 2]) };
        [L::with_head(a, e), L::with_head(b, f), L::with_head(c, g), L::with_head(d, h)]
    }
    #[inline(always)]
    #[track_caller]
    fn store(slots: Buf<u64>, place: u32, bucket: [L::Pair; BUCKET]) {
        write_bucket::<L>(slots, place as u64, bucket);
    }
    #[inline(always)]
    fn key(bucket: &[L::Pair; BUCKET], slot: usize) -> L::Mixed {
        L::key(bucket[slot])
    }
    #[inline(always)]
    fn value(bucket: &[L::Pair; BUCKET], slot: usize) -> L::Value {
        L::value(bucket[slot])
    }
    #[inline(always)]
    fn put(bucket: &mut [L::Pair; BUCKET], slot: usize, pair: Option<(L::Mixed, L::Value)>) {
        bucket[slot] = match pair {
            Some((key, value)) => L::pair(key, value),
            None => L::EMPTY_PAIR,
        };
    }
    #[inline(always)]
    fn class_bits(bucket: &[L::Pair; BUCKET]) -> u32 {
        let (heads, mut bits) = (bucket.map(L::head), 0);
        unroll::<4>(|c| bits |= (class_bit::<L>(heads, c as u32) as u32) << c);
        bits
    }
    #[inline(always)]
    fn ordered(
        shape: Shape,
        place: u32,
        bucket: [L::Pair; BUCKET],
        free: u32,
        bits: u32,
        needed: bool,
    ) -> [L::Pair; BUCKET] {
        ordered::<L>(shape, place, bucket, free, bits, needed)
    }
    #[inline(always)]
    #[track_caller]
    fn store_value(slots: Buf<u64>, place: u32, slot: u32, key: L::Mixed, value: L::Value) {
        let (pair, at) = (L::pair(key, value), place as u64 * L::WORDS as u64 + slot as u64);
        if L::SLOT_WORDS > 1 {
            slots.store(at + BUCKET as u64, L::behind(pair));
        } else {
            slots.store(at, L::head(pair));
        }
    }
}

/// A bucket that this thread alone changes.
struct Open<T: Bucketed> {
    /// Its partition, and where it is there.
    p: u32,
    b: u32,
    there: T::Bucket,
    is_full: bool,
    /// Class bits, if it is full.
    bits: u32,
}
impl<T: Bucketed> Open<T> {
    /// The slot of a key.
    #[inline(always)]
    fn slot_of(&self, key: MixedOf<T>) -> Option<u32> {
        let mut slot = None;
        unroll::<8>(|s| {
            if s < T::SLOTS && T::key(&self.there, s) == key {
                slot = Some(s as u32);
            }
        });
        slot
    }
    #[inline(always)]
    fn pair(&self, slot: u32) -> (MixedOf<T>, ValueOf<T>) {
        let mut pair = (T::key(&self.there, 0), T::value(&self.there, 0));
        unroll::<8>(|s| {
            if s > 0 && s < T::SLOTS && slot == s as u32 {
                pair = (T::key(&self.there, s), T::value(&self.there, s));
            }
        });
        pair
    }
    /// Slots that are empty or, in a full bucket, [fillers](Shape::filler).
    #[inline(always)]
    fn free(&self, shape: Shape) -> u32 {
        let (place, mut free) = (shape.place(self.p, self.b) as u32, 0);
        unroll::<8>(|s| {
            if s < T::SLOTS {
                let key = T::key(&self.there, s);
                let is_free = if self.is_full {
                    // It is the first bucket of the key, or the other one of that.
                    let (h, here) = (T::Pairs::hash(key), shape.place(self.p, 0) as u32);
                    let first = shape.first_place(h);
                    first != place && first != here + shape.other(h, self.b)
                } else {
                    key == T::Pairs::AMBIGUOUS
                };
                free |= (is_free as u32) << s;
            }
        });
        free
    }
    /// Gives a pair a slot.
    #[inline(always)]
    fn put(&mut self, slot: u32, pair: (MixedOf<T>, ValueOf<T>)) {
        unroll::<8>(|s| {
            if s < T::SLOTS && slot == s as u32 {
                T::put(&mut self.there, s, Some(pair));
            }
        });
    }
    /// A key with this hash overflows from here, if it is its first bucket.
    #[inline(always)]
    fn overflows(&mut self, shape: Shape, h: u32) {
        self.bits |= ((shape.first(h) == self.b) as u32) << class(h);
    }
}

/// What is applied to what: the kernels' arguments, and what is in shared memory.
#[derive(Clone, Copy)]
struct Work<T: Bucketed> {
    shape: Shape,
    few: Few,
    values: In<ValueOf<T>>,
    operations: In<u8>,
    slots: Buf<T::Word>,
    stash: Buf<u64>,
    statuses: Buf<u8>,
    /// There are pairs in the stash.
    has_stash: bool,
    /// Of each operation of the group.
    keys: Shared<MixedOf<T>>,
    numbers: Shared<u32>,
    /// Which operation may use a bucket in this round.
    claims: Shared<u32>,
    lists: Shared<u32>,
    counts: Shared<u32>,
}
impl<T: Bucketed> Work<T> {
    /// Ways to room: half of them in the second bucket, then those in the first.
    const WAYS: u32 = 2 * (T::SLOTS * (T::SLOTS + 1)) as u32;

    #[inline(always)]
    fn hash(key: MixedOf<T>) -> u32 {
        T::Pairs::hash(key)
    }
    /// The word of a bucket among the claims; buckets may share one.
    #[inline(always)]
    fn word(self, p: u32, b: u32) -> u32 {
        self.shape.place(p, b) as u32 & self.few.claims
    }
    /// The bucket that an operation waits for.
    #[inline(always)]
    fn bucket_of(self, h: u32, second: bool) -> (u32, u32) {
        let first = self.shape.first(h);
        (self.shape.partition(h), if second { self.shape.other(h, first) } else { first })
    }
    /// What an operation does.
    #[inline(always)]
    fn operation(self, number: u32) -> u32 {
        operation::of_number(self.few.operation, self.operations, number, T::VALUES)
    }
    /// Appends to a list.
    #[inline(always)]
    fn append(self, list: u32, i: u32) {
        let at = self.counts.fetch_add(list, 1);
        self.lists.store(list * self.few.pass.room + at, i);
    }
    /// An operation is left to others.
    #[inline(always)]
    fn leave(self, number: u32) {
        self.statuses.store(number, status::NOT_DONE);
        self.counts.store_volatile(LEFT, 1);
    }

    #[inline(always)]
    #[track_caller]
    fn open(self, p: u32, b: u32) -> Open<T> {
        let there = T::load(self.slots, self.shape.place(p, b) as u32);
        let is_full = T::key(&there, T::SLOTS - 1) != T::Pairs::AMBIGUOUS;
        Open { p, b, there, is_full, bits: if is_full { T::class_bits(&there) } else { 0 } }
    }
    /// Writes a bucket in which these slots have become free.
    #[inline(always)]
    #[track_caller]
    fn close(self, mut bucket: Open<T>, gone: u32) {
        let (place, free) =
            (self.shape.place(bucket.p, bucket.b) as u32, bucket.free(self.shape) | gone);
        unroll::<8>(|s| {
            if s < T::SLOTS && free >> s & 1 != 0 {
                T::put(&mut bucket.there, s, None);
            }
        });
        let needed = bucket.is_full && self.has_stash;
        T::store(
            self.slots,
            place,
            T::ordered(self.shape, place, bucket.there, free, bucket.bits, needed),
        );
    }
    /// Gives a pair a slot that is free, and writes the bucket.
    #[inline(always)]
    #[track_caller]
    fn put(self, mut bucket: Open<T>, slot: u32, pair: (MixedOf<T>, ValueOf<T>)) {
        bucket.put(slot, pair);
        self.close(bucket, 0);
    }
    /// Claims a bucket besides one's own, which this is the word of.
    #[inline(always)]
    fn take(self, t: Thread, p: u32, b: u32, own: u32) -> bool {
        let (word, mine) = (self.word(p, b), TAKEN | t.id());
        if word == own {
            return true;
        }
        let there = self.claims.cas(word, FREE, mine);
        there == FREE || there == mine
    }
    /// Makes room in a full bucket by the key in slot `s`, which goes to its other bucket; with
    /// `by`, when the key in that slot there has gone to its own other one.
    #[inline(always)]
    fn evict(self, t: Thread, own: u32, bucket: &Open<T>, s: u32, by: Option<u32>) -> Fate {
        let (p, b) = (bucket.p, bucket.b);
        let pair = bucket.pair(s);
        let to = self.shape.other(Self::hash(pair.0), b);
        if to == b {
            // It cannot leave.
            return Fate::Goes;
        }
        if !self.take(t, p, to, own) {
            return Fate::Waits;
        }
        let mut other = self.open(p, to);
        let mut free = other.free(self.shape);
        if let (Some(by), 0) = (by, free) {
            let third = other.pair(by);
            let h = Self::hash(third.0);
            let beyond = self.shape.other(h, to);
            if beyond == to || beyond == b {
                return Fate::Goes;
            }
            if !self.take(t, p, beyond, own) {
                return Fate::Waits;
            }
            let last = self.open(p, beyond);
            let room = last.free(self.shape);
            if room != 0 {
                self.put(last, room.trailing_zeros(), third);
                other.overflows(self.shape, h);
                free = 1 << by;
            }
        }
        if free == 0 {
            return Fate::Goes;
        }
        self.put(other, free.trailing_zeros(), pair);
        Fate::Done
    }
    /// Does an operation in the bucket that it has claimed, the first or the second one of its key,
    /// and adds to `more` the keys that came or went. `way`: how it tries to make room if there
    /// is none in the second, up to the way before `last`; then the one that comes next. `is_late`:
    /// another operation had the claim before.
    #[inline(always)]
    fn apply<const SECOND: bool>(
        self,
        t: Thread,
        i: u32,
        way: &mut u32,
        last: u32,
        is_late: bool,
        more: &mut u32,
    ) -> Fate {
        let (key, number, slots) = (self.keys.load(i), self.numbers.load(i), T::SLOTS as u32);
        let h = Self::hash(key);
        let (p, first) = (self.shape.partition(h), self.shape.first(h));
        let second = self.shape.other(h, first);
        let own = self.word(p, second);
        // Where it did not find a place before it is not.
        let is_new = SECOND && *way != 0;
        let mut is_in_first = !SECOND || *way >= Self::WAYS / 2;
        if SECOND && !is_new && is_late {
            // One before it may have brought the key to the table, and another one have moved it to
            // its first bucket.
            if !self.take(t, p, first, own) {
                return Fate::Waits;
            }
            is_in_first = self.open(p, first).slot_of(key).is_some();
        }
        if SECOND && is_in_first && !self.take(t, p, first, own) {
            return Fate::Waits;
        }
        let mut bucket = self.open(p, if is_in_first { first } else { second });
        let slot = if is_new { None } else { bucket.slot_of(key) };
        let may_be_elsewhere = !is_new && slot.is_none() && bucket.is_full;
        if !SECOND && may_be_elsewhere && bucket.bits >> class(h) & 1 != 0 {
            return Fate::Goes;
        }
        let in_stash =
            || stash::slot_of::<T::Pairs>(self.stash, self.few.stash_bits, key).is_some();
        if SECOND && may_be_elsewhere && self.has_stash && in_stash() {
            return Fate::Left;
        }
        let before = slot.map(|slot| bucket.pair(slot).1);
        let operation = self.operation(number);
        let needs_value = T::VALUES
            && operation != operation::ERASE
            && (operation != operation::INSERT || before.is_none());
        let value = if needs_value { self.values.get(number) } else { Number::narrowed(0) };
        let after = applied(operation, before, value);
        let (mut gone, mut fate) = (0, Fate::Done);
        match (slot, after) {
            (Some(slot), Some(after)) => {
                if T::VALUES && before != Some(after) {
                    // The order of the pairs does not depend on their values.
                    T::store_value(
                        self.slots,
                        self.shape.place(p, bucket.b) as u32,
                        slot,
                        key,
                        after,
                    );
                }
            }
            (Some(slot), None) => gone = 1 << slot,
            (None, Some(after)) => {
                let mut free = bucket.free(self.shape);
                while free == 0 && SECOND {
                    // First each key at once, then each one after each key of its other bucket.
                    let (s, by) = (*way % slots, (*way % (Self::WAYS / 2) / slots).checked_sub(1));
                    match self.evict(t, own, &bucket, s, by) {
                        Fate::Done => {
                            bucket.overflows(self.shape, Self::hash(bucket.pair(s).0));
                            free = 1 << s;
                        }
                        Fate::Goes => {
                            *way += 1;
                            if *way == last {
                                return Fate::Goes;
                            }
                        }
                        fate => return fate,
                    }
                }
                if free != 0 {
                    bucket.put(free.trailing_zeros(), (key, after));
                } else {
                    bucket.bits |= 1 << class(h);
                    fate = Fate::Goes;
                }
            }
            (None, None) => {}
        }
        if slot.is_some() != after.is_some() {
            *more = more
                .wrapping_add((fate == Fate::Done && after.is_some()) as u32)
                .wrapping_sub(slot.is_some() as u32);
            self.close(bucket, gone);
        }
        if fate == Fate::Done {
            self.statuses.store(number, status_of(operation, before.is_some()));
        }
        fate
    }
    /// Rounds in which the operations of a list do what they can in first, or else in second
    /// buckets, until none waits; or too many rounds were needed, or each waits for another
    /// one. What waits then is left.
    #[inline(always)]
    fn rounds<const SECOND: bool>(
        self,
        t: Thread,
        mut waiting: u32,
        mut later: u32,
        mut count: u32,
        more: &mut u32,
    ) {
        let (id, room, mut round) = (t.id(), self.few.pass.room, 0);
        // In the first round all wait.
        let all = |list: u32, at: u32, round: u32| {
            let word = if SECOND || round != 0 { self.lists.load(list * room + at) } else { at };
            (word & ((1 << WAY) - 1), (word & !IS_LATE) >> WAY, word & IS_LATE)
        };
        while count != 0 {
            let mut word = id;
            while word <= self.few.claims / 4 {
                self.claims.x4().store(word, U32x4([FREE; 4]));
                word += THREADS;
            }
            if id == 0 {
                self.counts.store(later, 0);
                self.counts.store(DONE, 0);
            }
            t.barrier();
            let is_stuck = self.counts.load(STUCK) != 0;
            let mut at = id;
            while at < count {
                let (i, ..) = all(waiting, at, round);
                let (p, b) = self.bucket_of(Self::hash(self.keys.load(i)), SECOND);
                self.claims.fetch_min(self.word(p, b), self.numbers.load(i));
                at += THREADS;
            }
            t.barrier();
            at = id;
            let mut done = false;
            while at < count {
                let (i, mut way, late) = all(waiting, at, round);
                at += THREADS;
                let (key, number) = (self.keys.load(i), self.numbers.load(i));
                let (p, b) = self.bucket_of(Self::hash(key), SECOND);
                if self.claims.load_volatile(self.word(p, b)) != number {
                    self.append(later, i | way << WAY | IS_LATE);
                    continue;
                }
                // What comes behind an operation on the same key that was left must not be done
                // before that.
                let may_follow = SECOND && way == 0 && late != 0 && is_stuck;
                if key == T::Pairs::AMBIGUOUS || may_follow {
                    self.leave(number);
                    continue;
                }
                // Where few wait, each tries several ways. There are as many in either bucket as
                // whole rounds take.
                let last =
                    way + if count > THREADS { 1 } else { T::SLOTS as u32 - way % T::SLOTS as u32 };
                let fate = match self.apply::<SECOND>(t, i, &mut way, last, late != 0, more) {
                    Fate::Goes if SECOND && way == Self::WAYS => Fate::Left,
                    fate => fate,
                };
                done |= fate == Fate::Done || fate == Fate::Goes;
                match fate {
                    Fate::Done => {}
                    Fate::Goes if SECOND => self.append(later, i | way << WAY | late),
                    Fate::Goes => self.append(NEED_SECOND, i),
                    Fate::Waits => self.append(later, i | way << WAY | late),
                    Fate::Left => {
                        self.leave(number);
                        self.counts.store_volatile(STUCK, 1);
                    }
                }
            }
            if SECOND && done {
                self.counts.store_volatile(DONE, 1);
            }
            t.barrier();
            count = self.counts.load(later);
            (waiting, later) = (later, waiting);
            round += 1;
            let is_over = if SECOND { self.counts.load(DONE) == 0 } else { round == MOST_ROUNDS };
            if is_over {
                at = id;
                while at < count {
                    self.leave(self.numbers.load(all(waiting, at, round).0));
                    at += THREADS;
                }
                break;
            }
            t.barrier();
        }
    }
}
/// What becomes of an operation in a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    /// It goes on to the second bucket, or tries another way to room there.
    Goes,
    /// It needs a bucket that another one has claimed.
    Waits,
    /// The key is in the stash, or no way leads to room.
    Left,
}
/// The list of those that need their second buckets.
const NEED_SECOND: u32 = 2;
/// In a list: from this bit on the way that an operation tries next.
const WAY: u32 = 20;
/// Another operation had the claim before.
const IS_LATE: u32 = 1 << 31;

#[inline(always)]
pub(crate) fn update_few<T: Bucketed>(
    t: Thread,
    shape: Shape,
    few: Few,
    sent: In<u64>,
    overflow: In<u64>,
    cursors: Buf<u32>,
    spilled: In<u32>,
    sent_state: In<u32>,
    values: In<ValueOf<T>>,
    operations: In<u8>,
    slots: Buf<T::Word>,
    stash: Buf<u64>,
    statuses: Buf<u8>,
    table_header: Buf<u32>,
    batch_state: Buf<u32>,
) {
    t.wait_for_previous();
    t.let_next_start();
    let (id, group, room) = (t.id(), t.block(), few.pass.room);
    let has_spilled = spilled.get(group) != 0;
    let came = cursors.load(group).min(!spilled.get(group)).min(room);
    if came == 0 && !has_spilled {
        return;
    }
    let (seed, has_stash) =
        (table_header.load(header::SEED), table_header.load(header::STASHED) != 0);
    let query = |i: u32| {
        let (sent, number) = <Numbered as Form<T::Pairs>>::split(
            <Numbered as Form<T::Pairs>>::array(sent).get(group * room + i),
        );
        (T::Pairs::mixed_of(seed, sent), number)
    };
    // Operations that an earlier part of the batch has left must be done before.
    if has_spilled || batch_state.load(state::REFUSED) | batch_state.load(state::CROWDED) != 0 {
        let mut i = id;
        while i < came {
            statuses.store(query(i).1, status::NOT_DONE);
            i += THREADS;
        }
        i = id;
        let behind = if has_spilled {
            sent_state.get(super::join::state::OVERFLOWED).min(few.pass.area)
        } else {
            0
        };
        while i < behind {
            let (sent, number) = <Numbered as Form<T::Pairs>>::split(
                <Numbered as Form<T::Pairs>>::array(overflow).get(i),
            );
            if few.pass.bin(T::Pairs::partition_of(seed, sent, shape)) == group {
                statuses.store(number, status::NOT_DONE);
            }
            i += THREADS;
        }
        if id == 0 {
            batch_state.store_relaxed(state::NEEDED, 1);
        }
        return;
    }
    let (mut shared, rounded) = (t.shared(), room.next_multiple_of(4));
    let work = Work::<T> {
        shape,
        few,
        values,
        operations,
        slots,
        stash,
        statuses,
        has_stash,
        keys: shared.array::<MixedOf<T>>(rounded),
        numbers: shared.array::<u32>(rounded),
        claims: shared.array::<u32>(few.claims + 1),
        lists: shared.array::<u32>(rounded * LISTS),
        counts: shared.array::<u32>(COUNTS),
    };
    let mut i = id;
    while i < came {
        let (key, number) = query(i);
        work.keys.store(i, key);
        work.numbers.store(i, number);
        i += THREADS;
    }
    if id < COUNTS {
        work.counts.store(id, 0);
    }
    t.barrier();
    let mut more = 0;
    work.rounds::<false>(t, 0, 1, came, &mut more);
    t.barrier();
    work.rounds::<true>(t, NEED_SECOND, 0, work.counts.load(NEED_SECOND), &mut more);
    t.barrier();
    let more = t.warp().reduce_add(more);
    if t.lane() == 0 && more != 0 {
        table_header.fetch_add(header::PAIRS, more);
    }
    if id == 0 {
        if work.counts.load(LEFT) != 0 {
            batch_state.store_relaxed(state::NEEDED, 1);
        } else {
            // Nothing is to be sent on.
            cursors.store(group, 0);
        }
    }
}

macro_rules! entries { ($($(#[$doc:meta])* $image:ident $name:ident $table:ty, $value:ty, $key_bytes:literal $min_blocks:literal;)*) => { $(
    $(#[$doc])*
    #[kernel(image = $image, threads = 256, min_blocks = $min_blocks, shared = shared_bytes(few, $key_bytes), starts_early)]
    pub fn $name(
        t: Thread,
        shape: Shape,
        few: Few,
        sent: In<u64>,
        overflow: In<u64>,
        cursors: Buf<u32>,
        spilled: In<u32>,
        sent_state: In<u32>,
        values: In<$value>,
        operations: In<u8>,
        slots: Buf<u64>,
        stash: Buf<u64>,
        statuses: Buf<u8>,
        table_header: Buf<u32>,
        batch_state: Buf<u32>,
    ) {
        update_few::<$table>(
            t, shape, few, sent, overflow, cursors, spilled, sent_state, values, operations, slots, stash, statuses, table_header, batch_state,
        )
    }
)* } }
const _: () = assert!(THREADS == 256);
entries! {
    /// Applies the operations of group `t.block()`, as far as that is done in few buckets: see the
    /// module. There must be two buckets. `sent`, `overflow` and what follows up to `sent_state`:
    /// as the first pass of a [join](super::join) leaves them. `values` and `operations`, if these
    /// differ, and `statuses`: of each operation. [`map_update`](fn@super::update::map_update) must
    /// follow.
    MAP_UPDATE map_update_few OfMap<Narrow>, u32, 4 4;
    /// The same.
    MAP_UPDATE_WIDE map_update_few_u32_u64 OfMap<Wide<u32, u64>>, u64, 8 3;
    /// The same.
    MAP_UPDATE_WIDE map_update_few_u64_u32 OfMap<Wide<u64, u32>>, u32, 8 3;
    /// The same.
    MAP_UPDATE_WIDE map_update_few_u64_u64 OfMap<Wide<u64, u64>>, u64, 8 3;
}
