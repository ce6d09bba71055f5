//! Updates of a table that is there, in batches: keys are inserted, their values assigned or added
//! to, or they are erased.
//!
//! The operations of a batch are [partitioned](super::join) as the table is: each travels as its
//! key and its number. Then one block a partition that has operations reads the partition once, in
//! order, into shared memory, applies them there and writes back the buckets that changed. The
//! stash is emptied before ([`map_unstash`](fn@super::reproduce::map_unstash)): its pairs belong to
//! the blocks of their partitions, and find places again where others were erased.
//!
//! # Equal keys
//! The result is that of doing one operation after the other, in the order of their numbers, though
//! they come in any order. Every key of a batch gets an *entry* in a table in shared memory, and
//! what its operations do is gathered there by atomics that do not ask for order: the number of the
//! first one, of the last assignment, of the last erasure, the sum of what is added behind those.
//! That is enough to tell the value at the end. So a key may have any number of operations.
//!
//! What each operation found depends on the one before it with the same key, and only on whether
//! that erased. Where a key is both erased and written in one batch, its operations are therefore
//! linked, and each looks for the one before it.
//!
//! # Placing
//! In shared memory a pair is a [record](super::records). What is new takes free slots of its two
//! buckets, or evicts, as in a [build](super::build). Then the class bits of all buckets are
//! computed anew. A bucket from which keys overflowed and that is not full any more gets
//! [fillers](Shape::filler), whose slots the next update takes for free.
//!
//! # What cannot be done
//! A partition that would have more pairs than two choices place well, or whose pairs the stash has
//! no room for, stays as it was, and so does one with more keys in the batch than there are
//! entries. Their operations are told to be [not done](status::NOT_DONE); the host makes the table
//! larger, or the batch smaller, and does those [again](Applying::again). Until then nothing that
//! comes later in the batch is done there either.
use super::build::{
    CHANGED, FREE, HELP, HOMELESS, LENGTHS, LISTED, Lists, MAX_MOVES, MISSED_TWICE, Partition,
};
use super::build::{place_missed, write_bucket};
use super::join::{self, Form, Numbered, Pass, Routed};
use super::layout::{BUCKET, EMPTY, Layout, Narrow, Number, Shape, Wide};
use super::layout::{class, class_bit, empty_last, filled, with_class_bits};
use super::records::Placed;
use super::reproduce::NONE;
use super::{header, stash};
use crate::hash::mulhi;
use core::marker::PhantomData;
use koel_simt::{Buf, In, Shared, SharedMem, Thread, U64x2, kernel, unroll};

/// Threads of a block of narrow pairs.
pub const THREADS: u32 = 256;
/// Threads of a block of wide pairs.
pub const WIDE_THREADS: u32 = 512;
/// Buckets of a thread of a block of wide pairs, at most.
const ROUNDS: usize = 4;
/// Buckets of a partition, at most.
pub const MOST_BUCKETS: u32 = WIDE_THREADS * ROUNDS as u32;
/// Buckets that a thread asks for at a time.
const BATCH: usize = 2;

/// What an operation does.
pub mod operation {
    use koel_simt::In;

    /// The key gets the value if it is missing.
    pub const INSERT: u32 = 0;
    /// The key gets the value.
    pub const ASSIGN: u32 = 1;
    /// The value is added to that of the key, modulo 2^bits; a missing key gets it.
    pub const ADD: u32 = 2;
    /// The key is removed.
    pub const ERASE: u32 = 3;
    /// Of a batch: each operation has its own, the low two bits of a byte.
    pub const EACH: u32 = 4;

    /// The operation of such a byte. Of a set, which has no values: what does not erase inserts.
    #[inline(always)]
    pub fn of(byte: u8, values: bool) -> u32 {
        let code = byte as u32 & 3;
        if values || code == ERASE { code } else { INSERT }
    }
    /// What all operations of a batch do. Of a set what does not erase inserts.
    #[inline(always)]
    pub(crate) fn of_all(all: u32, values: bool) -> u32 {
        if values || all == EACH || all == ERASE { all } else { INSERT }
    }
    /// What an operation of a batch does.
    #[inline(always)]
    pub(crate) fn of_number(all: u32, operations: In<u8>, number: u32, values: bool) -> u32 {
        match of_all(all, values) {
            EACH => of(operations.get(number), values),
            all => all,
        }
    }
}
/// What became of an operation.
pub mod status {
    /// Nothing: its partition has no room.
    pub const NOT_DONE: u8 = 0;
    /// The key was missing and has the value now.
    pub const INSERTED: u8 = 1;
    /// The key was there and has kept its value.
    pub const KEPT: u8 = 2;
    /// The key was there and has the value now.
    pub const ASSIGNED: u8 = 3;
    /// The key was there and its value is greater by this one now.
    pub const ADDED: u8 = 4;
    /// The key was there and is there no more.
    pub const ERASED: u8 = 5;
    /// The key was not there.
    pub const MISSING: u8 = 6;
}
/// The status of an operation on a key that was there, or not.
#[inline(always)]
pub fn status_of(operation: u32, was_there: bool) -> u8 {
    match (operation, was_there) {
        (operation::ERASE, true) => status::ERASED,
        (operation::ERASE, false) => status::MISSING,
        (_, false) => status::INSERTED,
        (operation::INSERT, true) => status::KEPT,
        (operation::ASSIGN, true) => status::ASSIGNED,
        (_, true) => status::ADDED,
    }
}
/// Words that blocks write, zero before a batch.
pub mod state {
    /// Partitions that had no room for their pairs.
    pub const REFUSED: u32 = 0;
    /// New keys of those, as far as they were looked for, and an estimate of what comes later.
    pub const WANTED: u32 = 1;
    /// Partitions with more keys in the batch than there are entries.
    pub const CROWDED: u32 = 2;
    /// Of the crowded ones those where it is not the keys that are too many, but the operations of
    /// keys that are both erased and written.
    pub const LINKED: u32 = 3;
    /// Not 0: [few](crate::map::few) operations are not all done yet.
    pub const NEEDED: u32 = 4;
    /// From here on a word for each partition: not 0 if an earlier part of the batch left
    /// operations of it; then how many of 256 wanted new keys, plus 1.
    pub const LEFT: u32 = 5;
}
/// The value that a key has after an operation, if it had this one before.
#[inline(always)]
pub fn applied<V: Number>(operation: u32, before: Option<V>, value: V) -> Option<V> {
    match (operation, before) {
        (operation::ERASE, _) => None,
        (operation::INSERT, Some(before)) => Some(before),
        (operation::ADD, Some(before)) => {
            Some(V::narrowed(before.widened().wrapping_add(value.widened())))
        }
        _ => Some(value),
    }
}

/// How a batch is applied: a kernel's argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Applying {
    /// The last pass of the operations: its bins are partitions, or some of them if operations are
    /// [few](crate::map::few).
    pub pass: Pass,
    /// Partitions of a bin of the first of two passes; 0: there was one pass.
    pub group: u32,
    /// What all operations do: one of [`operation`].
    pub operation: u32,
    /// Not 0: only operations that are [not done](status::NOT_DONE) yet count.
    pub again: u32,
    /// Keys that a block has room for.
    pub entries: u32,
    /// Pairs that the buckets of a partition may have after new ones came.
    pub most: u32,
    /// The stash has 2^this slots.
    pub stash_bits: u32,
}
// SAFETY: plain numbers, no padding.
#[cfg(not(target_arch = "nvptx64"))]
unsafe impl koel_simt::Arg for Applying {}
impl Applying {
    /// How many operations are in the bin of a partition, and how many in the overflow area, where
    /// those of other partitions are too; or in both.
    #[inline(always)]
    pub(super) fn came(
        &self,
        p: u32,
        cursors: In<u32>,
        spilled: In<u32>,
        group_spilled: In<u32>,
        sent_state: In<u32>,
    ) -> (u32, u32) {
        let of_group = p.checked_div(self.group).map_or(0, |group| group_spilled.get(group));
        // What a bin had no room for is in the overflow area.
        let bin = self.pass.bin(p);
        let behind = match spilled.get(bin) | of_group {
            0 => 0,
            _ => sent_state.get(join::state::OVERFLOWED).min(self.pass.area),
        };
        (self.pass.came(bin, cursors, spilled), behind)
    }
}

/// Bytes of shared memory for partitions of this many buckets and so many entries; `each`:
/// operations differ; `wide`: values have 64 bits.
pub const fn shared_bytes(buckets: u32, entries: u32, each: bool, wide: bool) -> u32 {
    // Beside the entries two lists of records.
    buckets * 32
        + buckets.next_multiple_of(4) * 4
        + entry_bytes(entries, each, 1 + wide as u32)
        + entries * 2 * 8
        + (LENGTHS + COUNTS) * 4
}
// What a block counts.
/// Slots that pairs had.
pub(crate) const TAKEN: u32 = 0;
/// Of those, how many have none now.
pub(crate) const REMOVED: u32 = 1;
/// Keys that are new.
pub(crate) const NEW: u32 = 2;
/// Keys that are gone.
pub(crate) const GONE: u32 = 3;
/// Pairs that were in the stash and stay there.
const KEPT: u32 = 4;
/// Operations that are linked.
const LINKED: u32 = 5;
/// Not 0: the stash has no room.
const NO_ROOM: u32 = 6;
pub(crate) const COUNTS: u32 = 8;

// What became of a key.
pub(crate) const WAS_THERE: u32 = 1;
pub(crate) const IS_THERE: u32 = 2;
pub(crate) const IS_OTHER: u32 = 4;

// Bits of a bucket's word besides those of a build.
/// The class bits that it had in the table.
const BEFORE: u32 = 8;
/// Those that it is to have.
const NOW: u32 = 12;
/// It must look full.
const NEEDED: u32 = 1 << 16;

/// In the word of a stashed pair, beside the slot of the next one: it is no longer in the stash.
const LEFT: u64 = 1 << 32;

/// The records of a partition that is updated. A narrow pair is its own. The record of a wide pair
/// is the hash of its key and, above, the pair's number: that of the slot where it was, behind
/// those the entry that has its key and value, behind those a slot of the stash.
#[derive(Clone, Copy)]
struct Moving<L> {
    shape: Shape,
    p: u32,
    slots: Buf<u64>,
    unstashed: Buf<u64>,
    entries: Entries,
    layout: PhantomData<L>,
}
impl<L: Layout> Moving<L> {
    #[inline(always)]
    fn in_buckets(self) -> u32 {
        self.shape.buckets * BUCKET as u32
    }
    /// The record of a pair that has this number.
    #[inline(always)]
    fn record(self, head: u64, number: u32) -> u64 {
        if L::SLOT_WORDS == 1 {
            head
        } else {
            (number as u64) << 32 | L::hash(L::key_in(head)) as u64
        }
    }
    /// Where a slot's head is in the table.
    #[inline(always)]
    fn at(self, slot: u32) -> u64 {
        self.shape.place(self.p, slot / BUCKET as u32) * L::WORDS as u64
            + (slot % BUCKET as u32) as u64
    }
    #[inline(always)]
    #[track_caller]
    fn head(self, record: u64) -> u64 {
        let (number, slots) = ((record >> 32) as u32, self.in_buckets());
        if L::SLOT_WORDS == 1 {
            record
        } else if number < slots {
            self.slots.load(self.at(number))
        } else if number - slots < self.entries.room {
            self.entries.keys.load_volatile(number - slots)
        } else {
            self.unstashed.load((number - slots - self.entries.room) * L::SLOT_WORDS as u32)
        }
    }
    /// The value of the pair in a slot.
    #[inline(always)]
    #[track_caller]
    fn value_at(self, slot: u32, record: u64) -> L::Value {
        L::value_in(
            record,
            if L::SLOT_WORDS == 1 { 0 } else { self.slots.load(self.at(slot) + BUCKET as u64) },
        )
    }
}
impl<L: Layout> Placed for Moving<L> {
    type Layout = L;
    // No two keys are equal.
    const EXACT: bool = true;
    const MARKS_CHANGES: bool = true;
    #[inline(always)]
    fn hash(self, record: u64) -> u32 {
        record as u32
    }
    #[inline(always)]
    fn pair(self, record: u64) -> L::Pair {
        let (number, slots) = ((record >> 32) as u32, self.in_buckets());
        let behind = if L::SLOT_WORDS == 1 {
            0
        } else if number < slots {
            self.slots.load(self.at(number) + BUCKET as u64)
        } else if number - slots < self.entries.room {
            self.entries.sum::<L::Value>(number - slots)
        } else {
            self.unstashed.load((number - slots - self.entries.room) * L::SLOT_WORDS as u32 + 1)
        };
        L::with_head(self.head(record), behind)
    }
    #[inline(always)]
    fn same_key(self, a: u64, b: u64) -> bool {
        self.head(a) == self.head(b)
    }
}

/// The keys of a block's operations and what these do. The ambiguous key has the entry behind all
/// others.
#[derive(Clone, Copy)]
pub(crate) struct Entries {
    room: u32,
    pub keys: Shared<u64>,
    /// The number of the first operation.
    pub first: Shared<u32>,
    /// The number of the last assignment behind all erasures, plus 1. Later what became of the
    /// key: [`WAS_THERE`] and so on.
    pub assigned: Shared<u32>,
    /// The sum of what is added behind that, or what the value is at the end: low words, and high
    /// words of wide values. A set has neither.
    low: Shared<u32>,
    high: Shared<u32>,
    /// The number of the last erasure, plus 1. This and what follows only where operations differ.
    erased: Shared<u32>,
    /// The number of the first operation behind that which inserts or adds.
    made: Shared<u32>,
    /// The last linked operation, plus 1.
    chains: Shared<u32>,
    /// Linked operations: number, whether it erases (bit 32), the next one plus 1 (from bit 33
    /// on).
    links: Shared<u64>,
}
/// Bytes of shared memory of so many entries, where operations differ (`each`) or not, and values
/// have so many words of 32 bits.
pub(crate) const fn entry_bytes(entries: u32, each: bool, value_words: u32) -> u32 {
    let (words, arrays) = if each { (2, 5) } else { (1, 2) };
    entries * words * 8 + (entries + 1) * (arrays + value_words) * 4
}
impl Entries {
    /// With memory for so many.
    #[inline(always)]
    pub fn new<V: Number, const VALUES: bool>(
        shared: &mut SharedMem,
        room: u32,
        is_each: bool,
    ) -> Entries {
        let (keys, links) =
            (shared.array::<u64>(room), shared.array::<u64>(if is_each { room } else { 0 }));
        let mut words = |is_there: bool| shared.array::<u32>(if is_there { room + 1 } else { 0 });
        Entries {
            room,
            keys,
            first: words(true),
            assigned: words(true),
            low: words(VALUES),
            high: words(VALUES && size_of::<V>() > 4),
            erased: words(is_each),
            made: words(is_each),
            chains: words(is_each),
            links,
        }
    }
    /// Makes all of them empty, by all threads of a block.
    #[inline(always)]
    pub fn clear<V: Number, const VALUES: bool, const THREADS: u32>(
        self,
        t: Thread,
        is_each: bool,
    ) {
        let mut i = t.id();
        while i <= self.room {
            if i < self.room {
                self.keys.store(i, EMPTY);
            }
            self.first.store(i, !0);
            self.assigned.store(i, 0);
            if VALUES {
                self.set(i, V::default());
            }
            if is_each {
                self.erased.store(i, 0);
                self.made.store(i, !0);
                self.chains.store(i, 0);
            }
            i += THREADS;
        }
    }
    /// The entry of a mixed key, which it gets if it has none; `None` if there is no room.
    #[inline(always)]
    fn of<L: Layout>(self, key: L::Mixed) -> Option<u32> {
        self.of_within::<L>(self.room, key)
    }
    /// The same; `None` if looking for it takes more than so many tries.
    #[inline(always)]
    fn of_within<L: Layout>(self, tries: u32, key: L::Mixed) -> Option<u32> {
        if key == L::AMBIGUOUS {
            return Some(self.room);
        }
        let word = key.widened();
        // Keys may have been chosen that share one hash.
        let (mut at, mut looked) = (mulhi(stash::spread::<L>(key), self.room), 0);
        while looked < tries {
            let mut there = self.keys.load_volatile(at);
            if there == EMPTY {
                there = self.keys.cas(at, EMPTY, word);
            }
            if there == EMPTY || there == word {
                return Some(at);
            }
            at = if at + 1 < self.room { at + 1 } else { 0 };
            looked += 1;
        }
        None
    }
    /// The mixed key of an entry, if it has one.
    #[inline(always)]
    pub fn key<L: Layout>(self, at: u32) -> Option<L::Mixed> {
        let is_used =
            if at < self.room { self.keys.load(at) != EMPTY } else { self.first.load(at) != !0 };
        is_used.then(|| {
            if at < self.room { L::Mixed::narrowed(self.keys.load(at)) } else { L::AMBIGUOUS }
        })
    }
    /// Adds to the sum of an entry: in 32 bits, where atomics of shared memory are fast.
    #[inline(always)]
    fn add<V: Number>(self, at: u32, value: V) {
        let value = value.widened();
        let before = self.low.fetch_add(at, value as u32);
        if size_of::<V>() > 4 {
            let carry = before.checked_add(value as u32).is_none();
            self.high.fetch_add(at, ((value >> 32) as u32).wrapping_add(carry as u32));
        }
    }
    #[inline(always)]
    pub fn sum<V: Number>(self, at: u32) -> u64 {
        let high = if size_of::<V>() > 4 { self.high.load(at) } else { 0 };
        (high as u64) << 32 | self.low.load(at) as u64
    }
    #[inline(always)]
    pub fn set<V: Number>(self, at: u32, value: V) {
        self.low.store(at, value.widened() as u32);
        if size_of::<V>() > 4 {
            self.high.store(at, (value.widened() >> 32) as u32);
        }
    }
}
/// Raises a word to this number; most often it is there already.
#[inline(always)]
fn raise(words: Shared<u32>, at: u32, to: u32) {
    if words.load_volatile(at) < to {
        words.fetch_max(at, to);
    }
}
#[inline(always)]
fn lower(words: Shared<u32>, at: u32, to: u32) {
    if words.load_volatile(at) > to {
        words.fetch_min(at, to);
    }
}

/// The operations of a block's partition; `VALUES`: of a map, and not of a set.
#[derive(Clone, Copy)]
pub(crate) struct Batch<L: Routed, const VALUES: bool = true> {
    pub shape: Shape,
    pub p: u32,
    pub applying: Applying,
    pub seed: u32,
    /// In the bin.
    pub came: u32,
    /// In the overflow area, where those of other partitions are too.
    pub behind: u32,
    pub sent: In<u64>,
    pub overflow: In<u64>,
    pub operations: In<u8>,
    pub statuses: Buf<u8>,
    pub layout: PhantomData<L>,
}
impl<L: Routed, const VALUES: bool> Batch<L, VALUES> {
    /// What all operations do.
    #[inline(always)]
    fn all(self) -> u32 {
        operation::of_all(self.applying.operation, VALUES)
    }
    /// What an operation does.
    #[inline(always)]
    fn operation(self, number: u32) -> u32 {
        operation::of_number(self.applying.operation, self.operations, number, VALUES)
    }
    /// The operations of a thread, always in the same order: mixed key, number.
    #[inline(always)]
    pub fn for_each<const THREADS: u32>(self, t: Thread, mut apply: impl FnMut(L::Mixed, u32)) {
        let mut i = t.id();
        while i < self.came + self.behind {
            let query = if i < self.came {
                <Numbered as Form<L>>::array(self.sent)
                    .get(self.applying.pass.bin(self.p) * self.applying.pass.room + i)
            } else {
                <Numbered as Form<L>>::array(self.overflow).get(i - self.came)
            };
            let (sent, number) = <Numbered as Form<L>>::split(query);
            let key = L::mixed_of(self.seed, sent);
            let is_alone = i < self.came && self.applying.pass.each == 1;
            let is_ours = is_alone || self.shape.partition(L::hash(key)) == self.p;
            if is_ours
                && (self.applying.again == 0 || self.statuses.load(number) == status::NOT_DONE)
            {
                apply(key, number);
            }
            i += THREADS;
        }
    }
}

/// Where a key is before the batch.
#[derive(Clone, Copy)]
pub(crate) enum There {
    Nowhere,
    /// In a slot of the partition.
    Slot(u32),
    /// In a slot of the stash.
    Stash(u32),
    /// It is the ambiguous key.
    Header,
}

/// The pairs of the partition that were in the stash.
#[derive(Clone, Copy)]
pub(crate) struct Stashed {
    /// The slot of the first one, or [`NONE`].
    pub list: u32,
    /// Where the words are that link them.
    links: u32,
    unstashed: Buf<u64>,
}
impl Stashed {
    #[inline(always)]
    #[track_caller]
    fn link(self, slot: u32) -> u64 {
        self.unstashed.load_relaxed(self.links + slot)
    }
    #[inline(always)]
    #[track_caller]
    pub fn pair<L: Layout>(self, slot: u32) -> L::Pair {
        let at = slot * L::SLOT_WORDS as u32;
        L::with_head(
            self.unstashed.load(at),
            if L::SLOT_WORDS == 1 { 0 } else { self.unstashed.load(at + 1) },
        )
    }
    #[inline(always)]
    #[track_caller]
    pub fn leave(self, slot: u32) {
        self.unstashed.store_relaxed(self.links + slot, self.link(slot) | LEFT);
    }
    /// The slot of a mixed key.
    #[inline(always)]
    #[track_caller]
    pub fn slot_of<L: Layout>(self, key: L::Mixed) -> Option<u32> {
        let mut slot = self.list;
        while slot != NONE {
            if L::key(self.pair::<L>(slot)) == key {
                return Some(slot);
            }
            slot = self.link(slot) as u32;
        }
        None
    }
    /// The slots of a thread's share, and whether each has been left. Tells how many there are in
    /// all.
    #[inline(always)]
    pub fn for_each<const THREADS: u32>(self, t: Thread, mut each: impl FnMut(u32, bool)) -> u32 {
        let (mut slot, mut listed) = (self.list, 0);
        while slot != NONE {
            let word = self.link(slot);
            if listed % THREADS == t.id() {
                each(slot, word & LEFT != 0);
            }
            slot = word as u32;
            listed += 1;
        }
        listed
    }
}

/// What a block has to do.
#[derive(Clone, Copy)]
pub(crate) struct Work<L: Routed, const VALUES: bool> {
    pub batch: Batch<L, VALUES>,
    pub stashed: Stashed,
    /// Not 0: what an earlier part of the batch left of this partition, as in the [`state`].
    left: u32,
}
impl<L: Routed, const VALUES: bool> Work<L, VALUES> {
    /// If something was left before, so is this, because of what the error tells: the word of the
    /// [`state`] that counts why operations are not done, and how many keys are new.
    #[inline(always)]
    pub fn may_begin(&self) -> Result<(), (u32, u32)> {
        // What comes later must not be done before.
        match self.left {
            0 => Ok(()),
            left => {
                // Of the bin, which may have operations of several partitions: an equal share.
                let (pass, wanted) =
                    (self.batch.applying.pass, self.batch.came as u64 * (left - 1) as u64);
                Err((state::REFUSED, pass.bin(wanted.div_ceil(256) as u32 + pass.each - 1)))
            }
        }
    }
}
/// Whether a block has nothing to do, because all was done as [few](crate::map::few) operations,
/// and nothing of its partitions was in the stash.
#[inline(always)]
pub(crate) fn is_idle<const THREADS: u32>(
    t: Thread,
    shape: Shape,
    lists: Buf<u32>,
    batch_state: Buf<u32>,
) -> bool {
    let (mut p, mut is_needed) =
        (t.block() + t.id() * t.grid_dim(), batch_state.load(state::NEEDED) != 0);
    while p < shape.partitions {
        is_needed |= lists.load(p) != NONE;
        p += t.grid_dim() * THREADS;
    }
    t.barrier_count(is_needed) == 0
}
/// What the block of a partition has to do, if anything.
#[inline(always)]
pub(crate) fn begin<L: Routed, const VALUES: bool>(
    p: u32,
    shape: Shape,
    applying: Applying,
    sent: In<u64>,
    overflow: In<u64>,
    cursors: In<u32>,
    spilled: In<u32>,
    group_spilled: In<u32>,
    sent_state: In<u32>,
    operations: In<u8>,
    unstashed: Buf<u64>,
    lists: Buf<u32>,
    statuses: Buf<u8>,
    table_header: Buf<u32>,
    batch_state: Buf<u32>,
) -> Option<Work<L, VALUES>> {
    let list = lists.load(p);
    let (came, behind) = applying.came(p, cursors, spilled, group_spilled, sent_state);
    // Every thread of the block leaves, or none.
    if came + behind == 0 && list == NONE {
        return None;
    }
    let seed = table_header.load(header::SEED);
    let batch = Batch {
        shape,
        p,
        applying,
        seed,
        came,
        behind,
        sent,
        overflow,
        operations,
        statuses,
        layout: PhantomData,
    };
    let links = (L::SLOT_WORDS as u32) << (applying.stash_bits & 31);
    Some(Work {
        batch,
        stashed: Stashed { list, links, unstashed },
        left: batch_state.load(state::LEFT + p),
    })
}
/// What follows the work: if it was not `done`, that is counted, its operations are told to be not
/// done, and what was in the stash is there again.
#[inline(always)]
pub(crate) fn end<L: Routed, const VALUES: bool, const THREADS: u32>(
    t: Thread,
    work: Work<L, VALUES>,
    done: Result<(), (u32, u32)>,
    lists: Buf<u32>,
    stash: Buf<u64>,
    batch_state: Buf<u32>,
) {
    let Work { batch, stashed, left } = work;
    let (id, p) = (t.id(), batch.p);
    if let Err((why, new)) = done {
        stashed.for_each::<THREADS>(t, |slot, _| {
            stash::insert::<L>(stash, batch.applying.stash_bits, stashed.pair::<L>(slot));
        });
        let word = state::LEFT + p;
        batch.for_each::<THREADS>(t, |_, number| {
            batch.statuses.store(number, status::NOT_DONE);
            if left == 0 {
                // Nothing was left before: it counts from 0.
                batch_state.fetch_add(word, 1);
            }
        });
        t.barrier();
        if id == 0 {
            batch_state.fetch_add(state::WANTED, new);
            if left == 0 {
                let not_done = batch_state.load(word);
                batch_state.fetch_add(why, 1);
                batch_state
                    .store(word, 1 + (new * 256).checked_div(not_done).unwrap_or(0).min(256));
            }
        }
    }
    if id == 0 && stashed.list != NONE {
        lists.store(p, NONE);
    }
}

/// Applies the operations. Or leaves the table as it was, but for the pairs that were in the stash,
/// and tells why: the word of the [`state`], and how many keys are new.
#[inline(always)]
fn apply<L: Routed, const THREADS: u32>(
    t: Thread,
    work: Work<L, true>,
    values: In<L::Value>,
    slots: Buf<u64>,
    stash: Buf<u64>,
    table_header: Buf<u32>,
    batch_state: Buf<u32>,
) -> Result<(), (u32, u32)> {
    work.may_begin()?;
    let Work { batch, stashed, .. } = work;
    let Batch { shape, p, applying, .. } = batch;
    let (id, room, list) = (t.id(), applying.entries, stashed.list);
    let is_each = applying.operation == operation::EACH;
    let mut shared = t.shared();
    let in_slots = shared.array::<u64>(shape.buckets * 4);
    let (first_list, second_list) = (shared.array::<u64>(room), shared.array::<u64>(room));
    let entries = Entries::new::<L::Value, true>(&mut shared, room, is_each);
    let words = shared.array::<u32>((shape.buckets + 3) & !3);
    let lengths = shared.array::<u32>(LENGTHS);
    let counts = shared.array::<u32>(COUNTS);
    let unstashed = stashed.unstashed;
    let from = Moving::<L> { shape, p, slots, unstashed, entries, layout: PhantomData };
    let part = Partition { shape, from, slots: in_slots, words };
    let waiting =
        Lists { first: first_list, second: second_list, lengths, room, build_state: batch_state };

    entries.clear::<L::Value, true, THREADS>(t, is_each);
    if id < LENGTHS {
        lengths.store(id, 0);
    }
    if id < COUNTS {
        counts.store(id, 0);
    }
    t.barrier();
    let taken = read::<L, THREADS>(t, part);
    if taken != 0 {
        counts.fetch_add(TAKEN, taken);
    }

    if gather::<L, true, THREADS>(t, batch, entries, counts, batch_state, |number| {
        values.get(number)
    }) {
        return Err((state::CROWDED, 0));
    }

    // What follows for the pair of each key. Free slots become more, and none is taken.
    let (mut new, mut gone, mut removed) = (0u32, 0u32, 0u32);
    let mut i = id;
    while i <= room {
        let at = i;
        i += THREADS;
        let Some(key) = entries.key::<L>(at) else { continue };
        let (there, before) = find::<L>(part, stashed, key, table_header);
        let value = result::<L>(batch, entries, at, before, values);
        let (was_there, is_there) =
            (before.is_some() as u32 * WAS_THERE, value.is_some() as u32 * IS_THERE);
        let is_other = (before != value) as u32 * IS_OTHER;
        entries.assigned.store(at, was_there | is_there | is_other);
        new += (before.is_none() && value.is_some()) as u32;
        gone += (before.is_some() && value.is_none()) as u32;
        if before == value {
            continue;
        }
        let mut record = EMPTY;
        if let Some(value) = value {
            let pair = L::pair(key, value);
            record = from.record(L::head(pair), from.in_buckets() + at);
            entries.set(at, value);
        }
        match there {
            There::Slot(slot) => {
                part.slots.store_volatile(slot, record);
                let free = if value.is_none() { 1 << (slot % 4) } else { 0 };
                part.words.fetch_or(slot / 4, CHANGED | free);
                removed += (value.is_none()) as u32;
            }
            There::Stash(slot) => stashed.leave(slot),
            There::Nowhere | There::Header => {}
        }
        if value.is_some() && matches!(there, There::Stash(_) | There::Nowhere) {
            // There is room for every entry.
            waiting.first.store(lengths.fetch_add(LISTED, 1), record);
        }
    }
    add_counts(counts, [(NEW, new), (GONE, gone), (REMOVED, removed)]);
    t.barrier();
    let mut stashed_before = 0;
    if list != NONE {
        // They try to get out of the stash, as far as there is room in the list.
        stashed_before = stashed.for_each::<THREADS>(t, |slot, has_left| {
            if !has_left {
                let at = lengths.fetch_add(LISTED, 1);
                if at < room {
                    let head = L::head(stashed.pair::<L>(slot));
                    waiting.first.store(at, from.record(head, from.in_buckets() + room + slot));
                    stashed.leave(slot);
                } else {
                    counts.fetch_add(KEPT, 1);
                }
            }
        });
        t.barrier();
    }

    let (new, listed) = (counts.load(NEW), lengths.load(LISTED).min(room));
    let pairs = (counts.load(TAKEN) + listed).wrapping_sub(counts.load(REMOVED));
    // A stash beside one bucket alone must not grow: no filler could keep that full.
    let hidden = counts.load(KEPT) != 0 && shape.all_buckets() == 1;
    if new != 0 && listed != 0 && pairs > applying.most || hidden {
        return Err((state::REFUSED, new));
    }
    i = id;
    while i < listed {
        let record = waiting.first.load(i);
        let h = part.hash(record);
        let first = shape.first(h);
        match part.take_last_slot(first).or_else(|| part.take_last_slot(shape.other(h, first))) {
            Some(slot) => part.slots.store_volatile(slot, record),
            None => waiting.miss_twice(record),
        }
        i += THREADS;
    }
    t.barrier();
    let missed = lengths.load_volatile(MISSED_TWICE);
    let help = if pairs * 25 > shape.buckets * 97 { MAX_MOVES } else { HELP };
    place_missed::<_, false, THREADS>(t, part, waiting, help, missed);

    let homeless = lengths.load_volatile(HOMELESS);
    if homeless != 0 || list != NONE {
        let more = || (homeless + counts.load(KEPT)).wrapping_sub(stashed_before);
        if !has_room(t, applying, counts, table_header, more) {
            return Err((state::REFUSED, new));
        }
    }

    // Which keys overflow from where.
    i = id;
    while i < shape.buckets {
        let records = part.bucket(i);
        unroll::<BUCKET>(|s| {
            let h = part.hash(records[s]);
            if records[s] != EMPTY && shape.first(h) != i {
                part.words.fetch_or(shape.first(h), 1 << (NOW + class(h)));
            }
        });
        i += THREADS;
    }
    i = id;
    while i < homeless {
        put_in_stash(part, applying.stash_bits, stash, from.pair(waiting.second.load(i)));
        i += THREADS;
    }
    if list != NONE {
        stashed.for_each::<THREADS>(t, |slot, has_left| {
            if !has_left {
                put_in_stash(part, applying.stash_bits, stash, stashed.pair::<L>(slot));
            }
        });
    }
    t.barrier();
    write::<L, THREADS>(t, part);

    tell::<L, true, THREADS>(t, batch, entries);
    if id == 0 {
        write_header(entries, counts, table_header, || entries.sum::<L::Value>(room));
    }
    Ok(())
}
/// Reserves room in the stash for so many pairs more than were in it, by all threads of a block.
/// Tells whether there is as much.
#[inline(always)]
pub(crate) fn has_room(
    t: Thread,
    applying: Applying,
    counts: Shared<u32>,
    table_header: Buf<u32>,
    more: impl FnOnce() -> u32,
) -> bool {
    if t.id() == 0 {
        let more = more();
        let sum = table_header.fetch_add(header::STASHED, more).wrapping_add(more);
        // Fewer always fit.
        if (more as i32) > 0 && sum > 1 << (applying.stash_bits & 31) {
            table_header.fetch_add(header::STASHED, more.wrapping_neg());
            counts.store(NO_ROOM, 1);
        }
    }
    t.barrier();
    counts.load(NO_ROOM) == 0
}
/// Writes to the header what a block has changed there; `value`: of the ambiguous key.
#[inline(always)]
pub(crate) fn write_header(
    entries: Entries,
    counts: Shared<u32>,
    table_header: Buf<u32>,
    value: impl FnOnce() -> u64,
) {
    let more = counts.load(NEW).wrapping_sub(counts.load(GONE));
    if more != 0 {
        table_header.fetch_add(header::PAIRS, more);
    }
    // Of the ambiguous key.
    let fate = if entries.first.load(entries.room) != !0 {
        entries.assigned.load(entries.room)
    } else {
        0
    };
    if fate & IS_OTHER != 0 {
        let value = if fate & IS_THERE != 0 { value() } else { 0 };
        table_header.store(header::HELD, (fate & IS_THERE != 0) as u32);
        table_header.store(header::HELD_VALUE, value as u32);
        table_header.store(header::HELD_VALUE + 1, (value >> 32) as u32);
    }
}
/// Gathers what the operations of each key do. Tells whether there was no room.
#[inline(always)]
pub(crate) fn gather<L: Routed, const VALUES: bool, const THREADS: u32>(
    t: Thread,
    batch: Batch<L, VALUES>,
    entries: Entries,
    counts: Shared<u32>,
    batch_state: Buf<u32>,
    value: impl Fn(u32) -> L::Value,
) -> bool {
    let mut crowded = false;
    batch.for_each::<THREADS>(t, |key, number| {
        // Once there is no room, looking for some takes long.
        let tries = if crowded { 0 } else { entries.room };
        match entries.of_within::<L>(tries, key) {
            None => crowded = true,
            Some(at) => {
                lower(entries.first, at, number);
                match batch.all() {
                    operation::ASSIGN => raise(entries.assigned, at, number + 1),
                    operation::ADD => entries.add(at, value(number)),
                    operation::EACH if batch.operation(number) == operation::ERASE => {
                        raise(entries.erased, at, number + 1);
                    }
                    _ => {}
                }
            }
        }
    });
    if t.barrier_count(crowded) != 0 {
        return true;
    }
    if batch.all() == operation::EACH {
        batch.for_each::<THREADS>(t, |key, number| {
            let Some(at) = entries.of::<L>(key) else { return };
            let (erased, operation) = (entries.erased.load(at), batch.operation(number));
            if number >= erased && operation == operation::ASSIGN {
                raise(entries.assigned, at, number + 1);
            } else if number >= erased && operation != operation::ERASE {
                lower(entries.made, at, number);
            }
            if erased != 0 {
                let link = counts.fetch_add(LINKED, 1);
                if link < entries.room {
                    let next = entries.chains.swap(at, link + 1);
                    let erases = (operation == operation::ERASE) as u64;
                    entries.links.store(link, (next as u64) << 33 | erases << 32 | number as u64);
                } else {
                    crowded = true;
                }
            }
        });
        if t.barrier_count(crowded) != 0 {
            if t.id() == 0 {
                batch_state.fetch_add(state::LINKED, 1);
            }
            return true;
        }
        if VALUES {
            batch.for_each::<THREADS>(t, |key, number| {
                let Some(at) = entries.of::<L>(key) else { return };
                let is_last =
                    number >= entries.erased.load(at) && number >= entries.assigned.load(at);
                if is_last && batch.operation(number) == operation::ADD {
                    entries.add(at, value(number));
                }
            });
            t.barrier();
        }
    }
    false
}
/// Tells what each operation found.
#[inline(always)]
pub(crate) fn tell<L: Routed, const VALUES: bool, const THREADS: u32>(
    t: Thread,
    batch: Batch<L, VALUES>,
    entries: Entries,
) {
    batch.for_each::<THREADS>(t, |key, number| {
        let Some(at) = entries.of::<L>(key) else { return };
        let (was_first, operation) = (entries.first.load(at) == number, batch.operation(number));
        let fate = entries.assigned.load(at);
        let mut was_there =
            if was_first { fate & WAS_THERE != 0 } else { operation != operation::ERASE };
        if batch.all() == operation::EACH {
            was_there |= !was_first;
            let mut link = entries.chains.load(at);
            // The one before it, plus 1.
            let mut latest = 0;
            while link != 0 {
                let word = entries.links.load(link - 1);
                if (word as u32) < number && word as u32 + 1 > latest {
                    (latest, was_there) = (word as u32 + 1, word >> 32 & 1 == 0);
                }
                link = (word >> 33) as u32;
            }
        }
        batch.statuses.store(number, status_of(operation, was_there));
    });
}
#[inline(always)]
pub(crate) fn add_counts<const N: usize>(counts: Shared<u32>, adds: [(u32, u32); N]) {
    unroll::<N>(|j| {
        if adds[j].1 != 0 {
            counts.fetch_add(adds[j].0, adds[j].1);
        }
    });
}

/// Reads the partition: records, free slots, class bits. Fillers are forgotten. Tells how many
/// pairs the thread has read.
#[inline(always)]
fn read<L: Layout, const THREADS: u32>(t: Thread, part: Partition<Moving<L>>) -> u32 {
    let (shape, from) = (part.shape, part.from);
    let (mut i, mut taken) = (t.id(), 0);
    while i < shape.buckets {
        let mut all = [[EMPTY; BUCKET]; BATCH];
        unroll::<BATCH>(|j| {
            let bucket = (i + j as u32 * THREADS).min(shape.buckets - 1);
            let at = shape.place(from.p, bucket) * (L::WORDS as u64 / 2);
            let U64x2([a, b]) = from.slots.x2().load(at);
            let U64x2([c, d]) = from.slots.x2().load(at + 1);
            all[j] = [a, b, c, d];
        });
        unroll::<BATCH>(|j| {
            let (bucket, heads) = (i + j as u32 * THREADS, all[j]);
            if bucket < shape.buckets {
                let place = shape.place(from.p, bucket) as u32;
                let (mut records, mut free, mut bits) = ([EMPTY; BUCKET], FREE, 0);
                unroll::<BUCKET>(|s| {
                    if heads[s] != EMPTY && shape.belongs(L::hash(L::key_in(heads[s])), place) {
                        records[s] = from.record(heads[s], bucket * BUCKET as u32 + s as u32);
                        free &= !(1 << s);
                    }
                    bits |= (heads[BUCKET - 1] != EMPTY && class_bit::<L>(heads, s as u32)) as u32
                        * (1 << s);
                });
                taken += BUCKET as u32 - free.count_ones();
                part.slots.x2().store(2 * bucket, U64x2([records[0], records[1]]));
                part.slots.x2().store(2 * bucket + 1, U64x2([records[2], records[3]]));
                part.words.store(bucket, free | bits << BEFORE);
            }
        });
        i += BATCH as u32 * THREADS;
    }
    taken
}

/// Where a key is before the batch, and its value.
#[inline(always)]
fn find<L: Layout>(
    part: Partition<Moving<L>>,
    stashed: Stashed,
    key: L::Mixed,
    table_header: Buf<u32>,
) -> (There, Option<L::Value>) {
    let (shape, from) = (part.shape, part.from);
    if key == L::AMBIGUOUS {
        let word = |word: u32| table_header.load(word) as u64;
        let value =
            L::Value::narrowed(word(header::HELD_VALUE + 1) << 32 | word(header::HELD_VALUE));
        return (There::Header, (word(header::HELD) != 0).then_some(value));
    }
    let (h, mut hit) = (L::hash(key), None);
    let first = shape.first(h);
    unroll::<2>(|b| {
        let bucket = if b == 0 { first } else { shape.other(h, first) };
        let records = part.bucket(bucket);
        unroll::<BUCKET>(|s| {
            let is_it = records[s] != EMPTY && part.hash(records[s]) == h;
            if is_it && (L::SLOT_WORDS == 1 || from.head(records[s]) == key.widened()) {
                hit = Some((bucket * BUCKET as u32 + s as u32, records[s]));
            }
        });
    });
    if let Some((slot, record)) = hit {
        return (There::Slot(slot), Some(from.value_at(slot, record)));
    }
    match stashed.slot_of::<L>(key) {
        Some(slot) => (There::Stash(slot), Some(L::value(stashed.pair::<L>(slot)))),
        None => (There::Nowhere, None),
    }
}
/// Whether the key of an entry is erased, and the number of the first operation behind that which
/// inserts or adds, or all ones.
#[inline(always)]
pub(crate) fn written<L: Routed, const VALUES: bool>(
    batch: Batch<L, VALUES>,
    entries: Entries,
    at: u32,
) -> (bool, u32) {
    match batch.all() {
        operation::EACH => (entries.erased.load(at) != 0, entries.made.load(at)),
        operation::ERASE => (true, !0),
        _ => (false, entries.first.load(at)),
    }
}
/// The value that the key of an entry has at the end, if it had this one before.
#[inline(always)]
pub(super) fn result<L: Routed>(
    batch: Batch<L>,
    entries: Entries,
    at: u32,
    before: Option<L::Value>,
    values: In<L::Value>,
) -> Option<L::Value> {
    let (assigned, sum) = (entries.assigned.load(at), entries.sum::<L::Value>(at));
    let (is_erased, made) = written(batch, entries, at);
    let added = |value: L::Value| Some(L::Value::narrowed(value.widened().wrapping_add(sum)));
    if assigned != 0 {
        return added(values.get(assigned - 1));
    }
    match before {
        Some(value) if !is_erased => added(value),
        _ if made == !0 => None,
        // What is added comes to nothing.
        _ if batch.operation(made) == operation::ADD => Some(L::Value::narrowed(sum)),
        _ => added(values.get(made)),
    }
}

/// Puts a pair in the stash, so that lookups go there.
#[inline(always)]
fn put_in_stash<L: Layout>(
    part: Partition<Moving<L>>,
    stash_bits: u32,
    stash: Buf<u64>,
    pair: L::Pair,
) {
    let h = L::hash(L::key(pair));
    let first = part.shape.first(h);
    part.words.fetch_or(first, 1 << (NOW + class(h)) | NEEDED);
    part.words.fetch_or(part.shape.other(h, first), NEEDED);
    // There is room: it was reserved, or is what was there before.
    stash::insert::<L>(stash, stash_bits, pair);
}
/// Whether a bucket with this word is another one than before.
#[inline(always)]
fn is_other(word: u32) -> bool {
    word & CHANGED != 0 || (word >> BEFORE ^ word >> NOW) & 0xF != 0
}
/// A bucket as it is written.
#[inline(always)]
fn finished<L: Layout>(part: Partition<Moving<L>>, bucket: u32, word: u32) -> [L::Pair; BUCKET] {
    let (shape, records, bits) = (part.shape, part.bucket(bucket), word >> NOW & 0xF);
    let mut pairs = [L::EMPTY_PAIR; BUCKET];
    unroll::<BUCKET>(|s| {
        if word >> s & 1 == 0 {
            pairs[s] = part.from.pair(records[s]);
        }
    });
    ordered::<L>(
        shape,
        shape.place(part.from.p, bucket) as u32,
        pairs,
        word & FREE,
        bits,
        word & NEEDED != 0,
    )
}
/// The bucket in this place as it is written, with these class bits and slots that are free.
/// `needed`: it must look full.
#[inline(always)]
pub(super) fn ordered<L: Layout>(
    shape: Shape,
    place: u32,
    pairs: [L::Pair; BUCKET],
    free: u32,
    bits: u32,
    needed: bool,
) -> [L::Pair; BUCKET] {
    if free == 0 || shape.looks_full(bits, needed) {
        with_class_bits::<L>(filled::<L>(shape, place, pairs, free), bits)
    } else {
        empty_last::<L>(pairs)
    }
}
/// Writes the buckets that are others than before.
#[inline(always)]
fn write<L: Layout, const THREADS: u32>(t: Thread, part: Partition<Moving<L>>) {
    let (shape, from) = (part.shape, part.from);
    if L::SLOT_WORDS == 1 {
        let mut bucket = t.id();
        while bucket < shape.buckets {
            let word = part.words.load_volatile(bucket);
            if is_other(word) {
                write_bucket::<L>(
                    from.slots,
                    shape.place(from.p, bucket),
                    finished(part, bucket, word),
                );
            }
            bucket += THREADS;
        }
        return;
    }
    // All are read before one is written.
    let round = |round: u32| t.id() + round * THREADS;
    let others: [_; ROUNDS] = [
        other(part, round(0)),
        other(part, round(1)),
        other(part, round(2)),
        other(part, round(3)),
    ];
    t.barrier();
    unroll::<ROUNDS>(|j| {
        if let Some(bucket) = others[j] {
            write_bucket::<L>(from.slots, shape.place(from.p, round(j as u32)), bucket);
        }
    });
}
/// A bucket as it is written, if there is one and it is another one than before.
#[inline(always)]
fn other<L: Layout>(part: Partition<Moving<L>>, bucket: u32) -> Option<[L::Pair; BUCKET]> {
    if bucket >= part.shape.buckets {
        return None;
    }
    let word = part.words.load_volatile(bucket);
    if is_other(word) { Some(finished(part, bucket, word)) } else { None }
}

macro_rules! entries { ($($(#[$doc:meta])* $image:ident $name:ident $left:ident $layout:ty, $value:ty, $wide:literal, $threads:literal $min_blocks:literal;)*) => { $(
    $(#[$doc])*
    #[kernel(image = $image, threads = $threads, min_blocks = $min_blocks, shared = shared_bytes(shape.buckets, applying.entries, applying.operation == operation::EACH, $wide), starts_early)]
    pub fn $name(
        t: Thread,
        shape: Shape,
        applying: Applying,
        sent: In<u64>,
        overflow: In<u64>,
        cursors: In<u32>,
        spilled: In<u32>,
        group_spilled: In<u32>,
        sent_state: In<u32>,
        values: In<$value>,
        operations: In<u8>,
        unstashed: Buf<u64>,
        lists: Buf<u32>,
        slots: Buf<u64>,
        stash: Buf<u64>,
        statuses: Buf<u8>,
        table_header: Buf<u32>,
        batch_state: Buf<u32>,
    ) {
        t.wait_for_previous();
        t.let_next_start();
        if let Some(work) = begin::<$layout, true>(
            t.block(), shape, applying, sent, overflow, cursors, spilled, group_spilled, sent_state, operations, unstashed, lists, statuses,
            table_header, batch_state,
        ) {
            let done = apply::<$layout, $threads>(t, work, values, slots, stash, table_header, batch_state);
            end::<$layout, true, $threads>(t, work, done, lists, stash, batch_state);
        }
    }
    /// The same behind [few](crate::map::few) operations, of partitions `t.block()`, `t.block() +
    /// t.grid_dim()` and so on.
    #[kernel(image = $image, threads = $threads, min_blocks = $min_blocks, shared = shared_bytes(shape.buckets, applying.entries, applying.operation == operation::EACH, $wide), starts_early)]
    pub fn $left(
        t: Thread,
        shape: Shape,
        applying: Applying,
        sent: In<u64>,
        overflow: In<u64>,
        cursors: In<u32>,
        spilled: In<u32>,
        group_spilled: In<u32>,
        sent_state: In<u32>,
        values: In<$value>,
        operations: In<u8>,
        unstashed: Buf<u64>,
        lists: Buf<u32>,
        slots: Buf<u64>,
        stash: Buf<u64>,
        statuses: Buf<u8>,
        table_header: Buf<u32>,
        batch_state: Buf<u32>,
    ) {
        t.wait_for_previous();
        t.let_next_start();
        if is_idle::<$threads>(t, shape, lists, batch_state) {
            return;
        }
        let mut p = t.block();
        while p < shape.partitions {
            if let Some(work) = begin::<$layout, true>(
                p, shape, applying, sent, overflow, cursors, spilled, group_spilled, sent_state, operations, unstashed, lists, statuses,
                table_header, batch_state,
            ) {
                let done = apply::<$layout, $threads>(t, work, values, slots, stash, table_header, batch_state);
                end::<$layout, true, $threads>(t, work, done, lists, stash, batch_state);
                t.barrier();
            }
            p += t.grid_dim();
        }
    }
)* } }
const _: () = assert!(THREADS == 256 && WIDE_THREADS == 512);
entries! {
    /// Applies the operations of partition `t.block()`: see the module. `sent`, `overflow` and what
    /// follows up to `sent_state`: as the passes of a [join](super::join) leave them. `values` and
    /// `operations`, if these differ, and `statuses`: of each operation. `unstashed` and `lists`:
    /// as [`map_unstash`](fn@super::reproduce::map_unstash) leaves them; leaves all ones in
    /// `lists`.
    MAP_UPDATE map_update map_update_left Narrow, u32, false, 256 4;
    /// The same.
    MAP_UPDATE_WIDE map_update_u32_u64 map_update_left_u32_u64 Wide<u32, u64>, u64, true, 512 1;
    /// The same.
    MAP_UPDATE_WIDE map_update_u64_u32 map_update_left_u64_u32 Wide<u64, u32>, u32, false, 512 1;
    /// The same.
    MAP_UPDATE_WIDE map_update_u64_u64 map_update_left_u64_u64 Wide<u64, u64>, u64, true, 512 1;
}
