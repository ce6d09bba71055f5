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
//! [fillers](super::layout::Shape::filler), whose slots the next update takes for free.
//!
//! # What cannot be done
//! A partition that would have more pairs than two choices place well, or whose pairs the stash has
//! no room for, stays as it was, and so does one with more keys in the batch than there are
//! entries. Their operations are told to be [not done](status::NOT_DONE); the host makes the table
//! larger, or the batch smaller, and does those [again](Applying::again). Until then nothing that
//! comes later in the batch is done there either.
mod buckets;
mod entries;
mod work;

pub(super) use buckets::ordered;
pub(crate) use entries::{Entries, entry_bytes, gather, tell};
pub(crate) use work::{
    Batch, COUNTS, GONE, NEW, REMOVED, Stashed, TAKEN, There, Work, add_counts, begin, end,
    has_room, is_idle, write_header,
};

use super::build::{
    CHANGED, HELP, HOMELESS, LENGTHS, LISTED, Lists, MAX_MOVES, MISSED_TWICE, Partition,
    place_missed,
};
use super::records::Placed;
use super::reproduce::NONE;
use crate::table::layout::{BUCKET, EMPTY, Narrow, Number, TableMut, Wide, class};
use crate::table::sending;
use crate::table::sending::{Pass, Routed, Sent};
use buckets::{Moving, NOW, find, put_in_stash, read, write};
use core::marker::PhantomData;
use koel_simt::{Buf, In, Thread, Word, kernel, unroll};
use work::KEPT;

/// Threads of a block of narrow pairs.
pub const THREADS: u32 = 256;

/// Threads of a block of wide pairs.
pub const WIDE_THREADS: u32 = 512;

/// Buckets of a thread of a block of wide pairs, at most.
const ROUNDS: usize = 4;

/// Buckets of a partition, at most.
pub const MAX_BUCKETS: u32 = WIDE_THREADS * ROUNDS as u32;

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
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
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
}

/// The operations of a batch besides their keys, and what became of them: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BatchIn<V: Word> {
    /// The value of each operation.
    pub values: In<V>,
    /// What each does, if they differ.
    pub operations: In<u8>,
    /// What became of each: a [`status`].
    pub statuses: Buf<u8>,
    /// The words of [`state`].
    pub state: Buf<u32>,
}
/// The pairs that were in the stash: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Unstashed {
    /// The pairs, and words that link them.
    pub pairs: Buf<u64>,
    /// The slot of one of each partition, or all ones.
    pub lists: Buf<u32>,
}

impl Applying {
    /// Bytes of shared memory for partitions of this many buckets.
    fn shared_bytes<L: Routed>(self, buckets: u32) -> u32 {
        let is_each = self.operation == operation::EACH;
        shared_bytes(buckets, self.entries, is_each, size_of::<L::Value>() > 4)
    }
    /// How many operations are in the bin of a partition, and how many in the overflow area, where
    /// those of other partitions are too; or in both.
    #[inline(always)]
    pub(super) fn came(&self, p: u32, sent: Sent<u64>) -> (u32, u32) {
        let Sent { cursors, spilled, group_spilled, state: sent_state, .. } = sent;
        let of_group = p.checked_div(self.group).map_or(0, |group| group_spilled.get(group));
        // What a bin had no room for is in the overflow area.
        let bin = self.pass.bin(p);
        let behind = match spilled.get(bin) | of_group {
            0 => 0,
            _ => sent_state.get(sending::state::OVERFLOWED).min(self.pass.area),
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

// What became of a key.
pub(crate) const WAS_THERE: u32 = 1;

pub(crate) const IS_THERE: u32 = 2;

pub(crate) const IS_OTHER: u32 = 4;

/// Applies the operations. Or leaves the table as it was, but for the pairs that were in the stash,
/// and tells why: the word of the [`state`], and how many keys are new.
#[inline(always)]
fn apply<L: Routed, const THREADS: u32>(
    t: Thread,
    work: Work<L, true>,
    table: TableMut,
    of_batch: BatchIn<L::Value>,
) -> Result<(), (u32, u32)> {
    let TableMut { stash_bits, slots, stash, header: table_header, .. } = table;
    let BatchIn { values, state: batch_state, .. } = of_batch;
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
        if !has_room(t, stash_bits, counts, table_header, more) {
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
        put_in_stash(part, stash_bits, stash, from.pair(waiting.second.load(i)));
        i += THREADS;
    }
    if list != NONE {
        stashed.for_each::<THREADS>(t, |slot, has_left| {
            if !has_left {
                put_in_stash(part, stash_bits, stash, stashed.pair::<L>(slot));
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

const _: () = assert!(THREADS == 256 && WIDE_THREADS == 512);

/// Applies the operations of partition `t.block()`: see the module. `sent`: as the passes of a
/// join leave them; `unstashed`: as [`map_unstash`](fn@super::reproduce::map_unstash)
/// does. Leaves all ones in its lists.
#[kernel(
    threads = 512, THREADS = 512,
    shared = applying.shared_bytes::<L>(table.shape.buckets), starts_early,
    for L in [
        Narrow { image = MAP_UPDATE, THREADS = 256, threads = 256, min_blocks = 4 },
        Wide<u32, u64> { image = MAP_UPDATE_WIDE }, Wide<u64, u32> { image = MAP_UPDATE_WIDE },
        Wide<u64, u64> { image = MAP_UPDATE_WIDE }
    ]
)]
pub fn map_update<L: Routed, const THREADS: u32>(
    t: Thread,
    applying: Applying,
    table: TableMut,
    sent: Sent<u64>,
    unstashed: Unstashed,
    batch: BatchIn<L::Value>,
) {
    t.wait_for_previous();
    t.let_next_start();
    let p = t.block();
    if let Some(work) = begin::<L, _, true>(p, applying, table, sent, unstashed, batch) {
        let done = apply::<L, THREADS>(t, work, table, batch);
        end::<L, true, THREADS>(
            t,
            work,
            done,
            table.stash_bits,
            unstashed.lists,
            table.stash,
            batch.state,
        );
    }
}
/// The same behind [few](crate::map::few) operations, of partitions `t.block()`, `t.block() +
/// t.grid_dim()` and so on.
#[kernel(
    threads = 512, THREADS = 512,
    shared = applying.shared_bytes::<L>(table.shape.buckets), starts_early,
    for L in [
        Narrow { image = MAP_UPDATE, THREADS = 256, threads = 256, min_blocks = 4 },
        Wide<u32, u64> { image = MAP_UPDATE_WIDE }, Wide<u64, u32> { image = MAP_UPDATE_WIDE },
        Wide<u64, u64> { image = MAP_UPDATE_WIDE }
    ]
)]
pub fn map_update_left<L: Routed, const THREADS: u32>(
    t: Thread,
    applying: Applying,
    table: TableMut,
    sent: Sent<u64>,
    unstashed: Unstashed,
    batch: BatchIn<L::Value>,
) {
    t.wait_for_previous();
    t.let_next_start();
    if is_idle::<THREADS>(t, table.shape, unstashed.lists, batch.state) {
        return;
    }
    let mut p = t.block();
    while p < table.shape.partitions {
        if let Some(work) = begin::<L, _, true>(p, applying, table, sent, unstashed, batch) {
            let done = apply::<L, THREADS>(t, work, table, batch);
            end::<L, true, THREADS>(
                t,
                work,
                done,
                table.stash_bits,
                unstashed.lists,
                table.stash,
                batch.state,
            );
            t.barrier();
        }
        p += t.grid_dim();
    }
}
