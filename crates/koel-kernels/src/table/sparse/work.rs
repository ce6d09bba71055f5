//! Rounds in which a block applies the operations of its coarse bin.
use super::bucketed::{Bucketed, MixedOf, Open, ValueOf};
use super::{COUNTS, DONE, FREE, LEFT, LISTS, MAX_ROUNDS, STUCK, Sparse, TAKEN, THREADS};
use crate::table::layout::{Layout, Number, Shape, TableMut, class};
use crate::table::stash;
use crate::table::update::{BatchIn, applied, operation, status, status_of};
use koel_simt::{Buf, In, Shared, Thread, U32x4, unroll};

/// The kernel's arguments and the arrays in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Work<T: Bucketed> {
    pub(super) shape: Shape,
    pub(super) sparse: Sparse,
    /// log2 of the number of slots in the stash.
    pub(super) stash_bits: u32,
    pub(super) values: In<ValueOf<T>>,
    pub(super) operations: In<u8>,
    pub(super) slots: Buf<T::Word>,
    pub(super) stash: Buf<u64>,
    pub(super) statuses: Buf<u8>,
    /// Whether the stash holds pairs.
    pub(super) has_stash: bool,
    /// Mixed key of each operation of the coarse bin.
    pub(super) keys: Shared<MixedOf<T>>,
    pub(super) numbers: Shared<u32>,
    /// The operation that may use each bucket in this round.
    pub(super) claims: Shared<u32>,
    pub(super) lists: Shared<u32>,
    pub(super) counts: Shared<u32>,
}

impl<T: Bucketed> Work<T> {
    /// Ways to make room: half of them in the second bucket, followed by those in the first.
    pub(super) const WAYS: u32 = 2 * (T::SLOTS * (T::SLOTS + 1)) as u32;

    /// Allocates the arrays without clearing them.
    #[inline(always)]
    pub(super) fn new(
        t: Thread,
        sparse: Sparse,
        table: TableMut<T::Word>,
        batch: BatchIn<ValueOf<T>>,
        has_stash: bool,
    ) -> Work<T> {
        let TableMut { shape, stash_bits, slots, stash, .. } = table;
        let BatchIn { values, operations, statuses, .. } = batch;
        let (mut shared, rounded) = (t.shared(), sparse.pass.room.next_multiple_of(4));
        Work {
            shape,
            sparse,
            stash_bits,
            values,
            operations,
            slots,
            stash,
            statuses,
            has_stash,
            keys: shared.array::<MixedOf<T>>(rounded),
            numbers: shared.array::<u32>(rounded),
            claims: shared.array::<u32>(sparse.claims + 1),
            lists: shared.array::<u32>(rounded * LISTS),
            counts: shared.array::<u32>(COUNTS),
        }
    }
    #[inline(always)]
    pub(super) fn hash(key: MixedOf<T>) -> u32 {
        T::Pairs::hash(key)
    }
    /// Returns the claim word of a bucket; buckets may share one.
    #[inline(always)]
    pub(super) fn word(self, p: u32, b: u32) -> u32 {
        self.shape.place(p, b) as u32 & self.sparse.claims
    }
    /// Returns the bucket that an operation waits for.
    #[inline(always)]
    pub(super) fn bucket_of(self, h: u32, second: bool) -> (u32, u32) {
        let first = self.shape.first(h);
        (self.shape.partition(h), if second { self.shape.other(h, first) } else { first })
    }
    /// Returns the kind of an operation.
    #[inline(always)]
    pub(super) fn operation(self, number: u32) -> u32 {
        operation::of_number(self.sparse.operation, self.operations, number, T::VALUES)
    }
    /// Appends an operation to a list.
    #[inline(always)]
    pub(super) fn append(self, list: u32, i: u32) {
        let at = self.counts.fetch_add(list, 1);
        self.lists.store(list * self.sparse.pass.room + at, i);
    }
    /// Leaves an operation to the kernels that follow.
    #[inline(always)]
    pub(super) fn leave(self, number: u32) {
        self.statuses.store(number, status::NOT_DONE);
        self.counts.store_volatile(LEFT, 1);
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn open(self, p: u32, b: u32) -> Open<T> {
        let there = T::load(self.slots, self.shape.place(p, b) as u32);
        let is_full = T::key(&there, T::SLOTS - 1) != T::Pairs::AMBIGUOUS;
        Open { p, b, there, is_full, bits: if is_full { T::class_bits(&there) } else { 0 } }
    }
    /// Writes a bucket after emptying the slots in `gone`.
    #[inline(always)]
    #[track_caller]
    pub(super) fn close(self, mut bucket: Open<T>, gone: u32) {
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
    /// Puts a pair into a free slot and writes the bucket.
    #[inline(always)]
    #[track_caller]
    pub(super) fn put(self, mut bucket: Open<T>, slot: u32, pair: (MixedOf<T>, ValueOf<T>)) {
        bucket.put(slot, pair);
        self.close(bucket, 0);
    }
    /// Claims a bucket in addition to the thread's own, whose claim word is `own`.
    #[inline(always)]
    pub(super) fn take(self, t: Thread, p: u32, b: u32, own: u32) -> bool {
        let (word, mine) = (self.word(p, b), TAKEN | t.id());
        if word == own {
            return true;
        }
        let there = self.claims.cas(word, FREE, mine);
        there == FREE || there == mine
    }
    /// Makes room in a full bucket by evicting the key in slot `s` to its other bucket. With `by`,
    /// the key in that slot of the other bucket is first evicted to its own other bucket.
    #[inline(always)]
    pub(super) fn evict(
        self,
        t: Thread,
        own: u32,
        bucket: &Open<T>,
        s: u32,
        by: Option<u32>,
    ) -> Fate {
        let (p, b) = (bucket.p, bucket.b);
        let pair = bucket.pair(s);
        let to = self.shape.other(Self::hash(pair.0), b);
        if to == b {
            // Both buckets of the key are this one.
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
    /// Applies an operation in the bucket that it has claimed, the first or the second of its key,
    /// and adds the change in the number of keys to `more`. If the second bucket has no room, it
    /// tries the ways from `way` up to `last`, exclusive, and leaves the next one to try in `way`.
    /// `is_late`: another operation held the claim before.
    #[inline(always)]
    pub(super) fn apply<const SECOND: bool>(
        self,
        t: Thread,
        i: u32,
        way: &mut u32,
        last: u32,
        is_late: bool,
        more: &mut u32,
    ) -> Fate {
        let (key, number) = (self.keys.load(i), self.numbers.load(i));
        let h = Self::hash(key);
        let (p, first) = (self.shape.partition(h), self.shape.first(h));
        let second = self.shape.other(h, first);
        let own = self.word(p, second);
        // A key that found no slot in an earlier round is not in the table.
        let is_new = SECOND && *way != 0;
        let mut is_in_first = !SECOND || *way >= Self::WAYS / 2;
        if SECOND && !is_new && is_late {
            // An earlier operation may have inserted the key, and another one may have evicted it
            // to its first bucket.
            if !self.take(t, p, first, own) {
                return Fate::Waits;
            }
            is_in_first = self.open(p, first).slot_of(key).is_some();
        }
        if SECOND && is_in_first && !self.take(t, p, first, own) {
            return Fate::Waits;
        }
        let bucket = self.open(p, if is_in_first { first } else { second });
        let slot = if is_new { None } else { bucket.slot_of(key) };
        let may_be_elsewhere = !is_new && slot.is_none() && bucket.is_full;
        if !SECOND && may_be_elsewhere && bucket.bits >> class(h) & 1 != 0 {
            return Fate::Goes;
        }
        let in_stash = || stash::slot_of::<T::Pairs>(self.stash, self.stash_bits, key).is_some();
        if SECOND && may_be_elsewhere && self.has_stash && in_stash() {
            return Fate::Left;
        }
        self.change::<SECOND>(t, (key, number), own, bucket, slot, way, last, more)
    }
    /// Applies an operation in `bucket`, where its key is in `slot` or new, as for
    /// [`apply`](Self::apply). `own` is the claim word of the thread's own bucket.
    #[inline(always)]
    fn change<const SECOND: bool>(
        self,
        t: Thread,
        (key, number): (MixedOf<T>, u32),
        own: u32,
        mut bucket: Open<T>,
        slot: Option<u32>,
        way: &mut u32,
        last: u32,
        more: &mut u32,
    ) -> Fate {
        let (h, slots) = (Self::hash(key), T::SLOTS as u32);
        let before = slot.map(|slot| bucket.pair(slot).1);
        let operation = self.operation(number);
        let after = self.value_after(operation, number, before);
        let (mut gone, mut fate) = (0, Fate::Done);
        match (slot, after) {
            (Some(slot), Some(after)) => {
                if T::VALUES && before != Some(after) {
                    // The order of the pairs does not depend on their values.
                    let place = self.shape.place(bucket.p, bucket.b) as u32;
                    T::store_value(self.slots, place, slot, key, after);
                }
            }
            (Some(slot), None) => gone = 1 << slot,
            (None, Some(after)) => {
                let mut free = bucket.free(self.shape);
                while free == 0 && SECOND {
                    // First try each key directly, then each one after each key of its other
                    // bucket.
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
    /// Returns the value of a key after an operation, given its value before.
    #[inline(always)]
    fn value_after(
        self,
        operation: u32,
        number: u32,
        before: Option<ValueOf<T>>,
    ) -> Option<ValueOf<T>> {
        let needs_value = T::VALUES
            && operation != operation::ERASE
            && (operation != operation::INSERT || before.is_none());
        let value = if needs_value { self.values.get(number) } else { Number::narrowed(0) };
        applied(operation, before, value)
    }

    /// Runs rounds in which the operations of a list do what they can in first (or second) buckets.
    /// Ends when no operation waits, after too many rounds, or when each waits for another one.
    /// Operations that still wait are left.
    #[inline(always)]
    pub(super) fn rounds<const SECOND: bool>(
        self,
        t: Thread,
        mut waiting: u32,
        mut later: u32,
        mut count: u32,
        more: &mut u32,
    ) {
        let mut round = 0;
        while count != 0 {
            self.free_claims(t, later);
            t.barrier();
            let is_stuck = self.counts.load(STUCK) != 0;
            self.claim::<SECOND>(t, waiting, count, round);
            t.barrier();
            let mut at = t.id();
            let mut done = false;
            while at < count {
                let entry = self.listed::<SECOND>(waiting, at, round);
                at += THREADS;
                self.try_once::<SECOND>(t, entry, later, count, is_stuck, &mut done, more);
            }
            if SECOND && done {
                self.counts.store_volatile(DONE, 1);
            }
            t.barrier();
            count = self.counts.load(later);
            (waiting, later) = (later, waiting);
            round += 1;
            let is_over = if SECOND { self.counts.load(DONE) == 0 } else { round == MAX_ROUNDS };
            if is_over {
                at = t.id();
                while at < count {
                    self.leave(self.numbers.load(self.listed::<SECOND>(waiting, at, round).0));
                    at += THREADS;
                }
                break;
            }
            t.barrier();
        }
    }
    /// Returns an entry of a list: an operation, the way that it tries next, and [`IS_LATE`] or 0.
    #[inline(always)]
    fn listed<const SECOND: bool>(self, list: u32, at: u32, round: u32) -> (u32, u32, u32) {
        // In the first round all operations wait.
        let word = if SECOND || round != 0 {
            self.lists.load(list * self.sparse.pass.room + at)
        } else {
            at
        };
        (word & ((1 << WAY) - 1), (word & !IS_LATE) >> WAY, word & IS_LATE)
    }
    /// Frees all buckets, and empties the list `later`, for a new round. A barrier must follow.
    #[inline(always)]
    fn free_claims(self, t: Thread, later: u32) {
        let mut word = t.id();
        while word <= self.sparse.claims / 4 {
            self.claims.x4().store(word, U32x4([FREE; 4]));
            word += THREADS;
        }
        if t.id() == 0 {
            self.counts.store(later, 0);
            self.counts.store(DONE, 0);
        }
    }
    /// Claims the buckets of the operations that wait, for those with the lowest indices. A barrier
    /// must follow.
    #[inline(always)]
    fn claim<const SECOND: bool>(self, t: Thread, waiting: u32, count: u32, round: u32) {
        let mut at = t.id();
        while at < count {
            let (i, ..) = self.listed::<SECOND>(waiting, at, round);
            let (p, b) = self.bucket_of(Self::hash(self.keys.load(i)), SECOND);
            self.claims.fetch_min(self.word(p, b), self.numbers.load(i));
            at += THREADS;
        }
    }
    /// Applies an operation if it has claimed its bucket. Otherwise, or if it is not done yet, it
    /// continues to wait, in the list `later`, or is left. Sets `done` if it got on. `count` is the
    /// number of operations that wait; `is_stuck`: one was left in its second bucket before.
    #[inline(always)]
    fn try_once<const SECOND: bool>(
        self,
        t: Thread,
        (i, mut way, late): (u32, u32, u32),
        later: u32,
        count: u32,
        is_stuck: bool,
        done: &mut bool,
        more: &mut u32,
    ) {
        let (key, number) = (self.keys.load(i), self.numbers.load(i));
        let (p, b) = self.bucket_of(Self::hash(key), SECOND);
        if self.claims.load_volatile(self.word(p, b)) != number {
            self.append(later, i | way << WAY | IS_LATE);
            return;
        }
        // An operation must not precede an earlier one on the same key that was left.
        let may_follow = SECOND && way == 0 && late != 0 && is_stuck;
        if key == T::Pairs::AMBIGUOUS || may_follow {
            self.leave(number);
            return;
        }
        // If few operations wait, each tries several ways. Both buckets have a multiple of `SLOTS`
        // ways.
        let last = way + if count > THREADS { 1 } else { T::SLOTS as u32 - way % T::SLOTS as u32 };
        let fate = match self.apply::<SECOND>(t, i, &mut way, last, late != 0, more) {
            Fate::Goes if SECOND && way == Self::WAYS => Fate::Left,
            fate => fate,
        };
        *done |= fate == Fate::Done || fate == Fate::Goes;
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
}

/// Outcome of an operation in a round.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Done,
    /// Continues with the second bucket, or with another way to make room there.
    Goes,
    /// Needs a bucket that another operation has claimed.
    Waits,
    /// Left: the key is in the stash, or no way makes room.
    Left,
}

/// List of the operations that need their second buckets.
pub(super) const NEED_SECOND: u32 = 2;

/// Lowest bit, in a list entry, of the way that the operation tries next.
pub(super) const WAY: u32 = 20;

/// Set if another operation held the claim before.
pub(super) const IS_LATE: u32 = 1 << 31;
