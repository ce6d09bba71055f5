//! Batched updates of a table: keys are inserted, their values are assigned or added to, or they
//! are erased.
//!
//! The operations of a batch are [partitioned](super::join) like the table; each travels as a key
//! and a number. Then one block per partition with operations reads the partition once,
//! sequentially, into shared memory, applies the operations there, and writes back the buckets that
//! changed. Before that, the stash is emptied ([`map_unstash`](fn@super::reproduce::map_unstash)):
//! its pairs are handed to the blocks of their partitions, and find slots again where others were
//! erased.
//!
//! # Placing
//! In shared memory a pair is a [record](super::records). A new pair takes a free slot of its two
//! buckets, or evicts, as in a [build](super::build). Then the class bits of all buckets are
//! recomputed. A bucket from which keys overflowed and that is no longer full gets
//! [fillers](crate::table::layout::Shape::filler), whose slots count as free in the next update.
//!
//! # Refused operations
//! A partition stays as it was if it would get more pairs than two choices place well, if its pairs
//! have no room in the stash, or if it has more keys in the batch than there are entries. Its
//! operations are [not done](crate::table::update::status::NOT_DONE). The host enlarges the table,
//! or splits the batch, and does those operations [again](Applying::again). Until then, later
//! operations of the batch on this partition are not done either.
mod buckets;

pub(super) use buckets::ordered;

use super::build::{
    CHANGED, HELP, HOMELESS, LENGTHS, LISTED, Lists, MAX_MOVES, MISSED_TWICE, Partition,
    place_missed,
};
use super::records::Placed;
use crate::table::layout::{BUCKET, EMPTY, Narrow, Number, TableMut, Wide, class};
use crate::table::sending::{Routed, Sent};
use crate::table::update::{
    Applying, Batch, BatchIn, COUNTS, Entries, GONE, IS_OTHER, IS_THERE, KEPT, NEW, NONE, REMOVED,
    TAKEN, There, Unstashed, WAS_THERE, Work, add_counts, begin, end, entry_bytes, gather,
    has_room, is_idle, operation, state, tell, write_header, written,
};
use buckets::{Moving, NOW, find, put_in_stash, read, write};
use core::marker::PhantomData;
use koel_simt::{In, Thread, kernel, unroll};

/// Threads per block for narrow pairs.
pub const THREADS: u32 = 256;

/// Threads per block for wide pairs.
pub const WIDE_THREADS: u32 = 512;

/// Maximum number of buckets per thread for wide pairs.
const ROUNDS: usize = 4;

/// Maximum number of buckets per partition.
pub const MAX_BUCKETS: u32 = WIDE_THREADS * ROUNDS as u32;

/// Buckets that a thread loads at a time.
const BATCH: usize = 2;

/// Returns the bytes of shared memory for partitions of `buckets` buckets and for `entries`
/// entries. `each`: whether operations differ; `wide`: whether values have 64 bits.
pub const fn shared_bytes(buckets: u32, entries: u32, each: bool, wide: bool) -> u32 {
    // Includes two lists of records in addition to the entries.
    buckets * 32
        + buckets.next_multiple_of(4) * 4
        + entry_bytes(entries, each, 1 + wide as u32)
        + entries * 2 * 8
        + (LENGTHS + COUNTS) * 4
}

/// Returns the bytes of shared memory of a block that applies operations in this way.
fn bytes_of<L: Routed>(buckets: u32, applying: Applying) -> u32 {
    let is_each = applying.operation == operation::EACH;
    shared_bytes(buckets, applying.entries, is_each, size_of::<L::Value>() > 4)
}

/// Applies the operations, or leaves the table as it was, except for the pairs that were in the
/// stash, and returns the reason: the word of the [`state`] and the number of new keys.
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

    // Computes the outcome for each key. This step frees slots and takes none.
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
        // Stashed pairs retry their buckets, as far as the list has room.
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
    // No pair may stay in the stash of a table of one bucket: no filler could keep the bucket full.
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

    // Marks the classes that overflow from each first bucket.
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

/// Returns the value that the key of an entry has at the end, given its value before.
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
        // Additions to an absent key start from zero.
        _ if batch.operation(made) == operation::ADD => Some(L::Value::narrowed(sum)),
        _ => added(values.get(made)),
    }
}

const _: () = assert!(THREADS == 256 && WIDE_THREADS == 512);

/// Applies the operations of partition `t.block()`: see the module. `sent` is the output of the
/// passes of a join, `unstashed` that of [`map_unstash`](fn@super::reproduce::map_unstash). Resets
/// the partition's list to all ones.
#[kernel(
    threads = 512, THREADS = 512,
    shared = bytes_of::<L>(table.shape.buckets, applying), starts_early,
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
/// Applies the operations that [few](crate::table::few) left, of partitions `t.block()`, `t.block()
/// + t.grid_dim()` and so on.
#[kernel(
    threads = 512, THREADS = 512,
    shared = bytes_of::<L>(table.shape.buckets, applying), starts_early,
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
