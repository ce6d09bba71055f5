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
//!    elsewhere, or is new and has a free slot there; [fillers](super::layout::Shape::filler) are
//!    free slots too.
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
mod bucketed;
mod work;

pub(crate) use bucketed::{Bucketed, MixedOf, ValueOf};

use crate::table::header;
use crate::table::layout::{Layout, TableMut};
use crate::table::sending::{Form, Numbered, Pass, Routed, Sent};
use crate::table::update::{BatchIn, state, status};
use koel_simt::{Buf, Thread};
use work::{NEED_SECOND, Work};

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Rounds for first buckets: operations on one key that are done, at most.
const MAX_ROUNDS: u32 = 32;

/// How few operations are applied: a kernel's argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Few {
    /// The pass that brought the operations to their groups.
    pub pass: Pass,
    /// What all operations do: one of [`operation`](crate::table::update::operation).
    pub operation: u32,
    /// Words for the claims of a group, less 1: ones in its low bits, at least three.
    pub claims: u32,
}

/// Bytes of shared memory for groups of up to so many operations on keys of so many bytes.
pub const fn shared_bytes(few: Few, key_bytes: u32) -> u32 {
    let room = few.pass.room.next_multiple_of(4);
    room * (key_bytes + 4 + LISTS * 4) + (few.claims + 1) * 4 + COUNTS * 4
}

/// The keys of a table, as they are sent.
type KeyOf<T> = <<T as Bucketed>::Pairs as Layout>::Key;

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

#[inline(always)]
pub(crate) fn update_few<T: Bucketed>(
    t: Thread,
    few: Few,
    table: TableMut<T::Word>,
    sent: Sent<u64>,
    cursors: Buf<u32>,
    batch: BatchIn<ValueOf<T>>,
) {
    let TableMut { shape, stash_bits, slots, stash, header: table_header } = table;
    let Sent { queries: sent, overflow, spilled, state: sent_state, .. } = sent;
    let BatchIn { values, operations, statuses, state: batch_state } = batch;
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
        let (sent, number) = <Numbered as Form<KeyOf<T>>>::split(
            <Numbered as Form<KeyOf<T>>>::array(sent).get(group * room + i),
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
            sent_state.get(crate::table::sending::state::OVERFLOWED).min(few.pass.area)
        } else {
            0
        };
        while i < behind {
            let (sent, number) = <Numbered as Form<KeyOf<T>>>::split(
                <Numbered as Form<KeyOf<T>>>::array(overflow).get(i),
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
        stash_bits,
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

const _: () = assert!(THREADS == 256);
