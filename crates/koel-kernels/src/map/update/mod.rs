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
mod steps;

pub(super) use buckets::ordered;

use super::build::LENGTHS;
use crate::table::layout::{Narrow, TableMut, Wide};
use crate::table::sending::{Routed, Sent};
use crate::table::update::{
    Applying, BatchIn, COUNTS, Unstashed, Work, begin, end, entry_bytes, gather, is_idle,
    operation, state, tell, write_header,
};
use buckets::write;
use koel_simt::{Thread, kernel};
use steps::Steps;

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
    work.may_begin()?;
    let steps = Steps::<L, THREADS>::new(t, work, table, of_batch);
    let Steps { batch, entries, counts, .. } = steps;
    steps.clear();
    t.barrier();
    steps.read();
    let known = gather::<L, true, THREADS>(t, batch, entries, counts, of_batch.state, |number| {
        of_batch.values.get(number)
    });
    let Some(known) = known else { return Err((state::CROWDED, 0)) };
    steps.change_keys(known);
    t.barrier();
    let stashed_before = steps.list_stashed();

    let arriving = steps.arriving();
    if steps.is_full(arriving) {
        return Err((state::REFUSED, arriving.new));
    }
    steps.place(arriving);
    t.barrier();
    steps.evict(arriving);
    let homeless = steps.homeless();
    if !steps.has_room(homeless, stashed_before) {
        return Err((state::REFUSED, arriving.new));
    }
    steps.mark_classes();
    steps.stash(homeless);
    t.barrier();
    write::<L, THREADS>(t, steps.part, steps.waiting, batch.applying.recounts != 0);
    tell::<L, true, THREADS>(t, batch, entries, known);
    if t.id() == 0 {
        let value = || entries.sum::<L::Value>(entries.room);
        write_header(entries, counts, table.header, value);
    }
    Ok(())
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
/// Applies the operations that a [sparse update](crate::table::sparse) left, of partitions
/// `t.block()`, `t.block() + t.grid_dim()` and so on.
#[kernel(
    threads = 512, THREADS = 512,
    shared = bytes_of::<L>(table.shape.buckets, applying), starts_early,
    for L in [
        Narrow { image = MAP_UPDATE, THREADS = 256, threads = 256, min_blocks = 3 },
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
    for p in t.strided(t.block(), t.grid_dim(), table.shape.partitions) {
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
    }
}
