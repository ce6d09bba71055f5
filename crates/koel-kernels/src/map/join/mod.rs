//! Lookups that may answer in any order.
//!
//! A lookup in a big table reads a random sector, and memory serves far fewer random sectors per
//! second than sequential ones. So queries are partitioned like the table, in one pass or two. Then
//! one block reads each partition of the table once, sequentially, into shared memory, and answers
//! its queries from there. Alternatively, after one pass to bins of many partitions, the bins are
//! looked up in device memory in order, and the part of the table that a bin needs stays in the
//! cache. Blocks append their answers to arrays, one batch at a time.
//!
//! If the overflow area of the passes is full too, the partitioned queries are ignored, and all are
//! looked up in device memory. None of this needs the host.
mod answer;
mod direct;

pub use answer::{keep, source};

use super::find::MapRef;
use crate::table::append::{KeysOut, SUMS};
use crate::table::layout::{Narrow, Wide};
use crate::table::sending::{Numbered, Pass, Queries, Routed, Sent, query_bytes};
use answer::{filter, join};
use direct::{filter_direct, join_direct};
use koel_simt::{Buf, Thread, Word, kernel};

/// Queries that a thread looks up in device memory per round.
pub const DIRECT_ITEMS: u32 = 4;

/// How queries are answered, as a kernel argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Answering {
    /// The last pass.
    pub pass: Pass,
    /// Number of blocks that share the queries of a bin.
    pub blocks: u32,
    /// Which queries a filter keeps; see [`keep`].
    pub keep: u32,
}

/// Where a join appends rows, as a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct RowsOut<V: Word> {
    /// The number of the query of each row.
    pub numbers: Buf<u32>,
    /// The value of each row.
    pub values: Buf<V>,
    /// Number of rows.
    pub count: Buf<u64>,
}

/// Returns the bytes of shared memory for a partition of `buckets` buckets: heads, and if `wide`,
/// the values after them.
pub const fn shared_bytes(buckets: u32, wide: bool) -> u32 {
    buckets * if wide { 64 } else { 32 } + SUMS * 4
}

/// Returns the queries that a thread answers at a time.
pub const fn answered_items<L: Routed>() -> usize {
    64 / query_bytes::<L::Key, Numbered>() as usize
}

/// Answers the queries of partition `t.block() / answering.blocks`: appends the number and the
/// value of each query found.
#[kernel(
    threads = 256, min_blocks = 3,
    shared = shared_bytes(table.shape.buckets, L::SLOT_WORDS > 1), starts_early,
    ITEMS = answered_items::<L>(),
    for L in [
        Narrow { image = MAP_JOIN, min_blocks = 4 },
        Wide<u32, u64> { image = MAP_JOIN_WIDE },
        Wide<u64, u32> { image = MAP_JOIN_WIDE },
        Wide<u64, u64> { image = MAP_JOIN_WIDE }
    ]
)]
pub fn map_join<L: Routed, const ITEMS: usize>(
    t: Thread,
    answering: Answering,
    table: MapRef<L>,
    sent: Sent<u64>,
    to: RowsOut<L::Value>,
) {
    join::<L, ITEMS>(t, answering, table, sent, to)
}
/// Does the same for queries looked up in device memory, which [`source`] selects.
#[kernel(
    threads = 256, min_blocks = 3, shared = SUMS * 4, starts_early,
    for L in [
        Narrow { image = MAP_JOIN, min_blocks = 4 },
        Wide<u32, u64> { image = MAP_JOIN_WIDE },
        Wide<u64, u32> { image = MAP_JOIN_WIDE },
        Wide<u64, u64> { image = MAP_JOIN_WIDE }
    ]
)]
pub fn map_join_direct<L: Routed>(
    t: Thread,
    source: u32,
    answering: Answering,
    table: MapRef<L>,
    queries: Queries<L::Key>,
    sent: Sent<u64>,
    to: RowsOut<L::Value>,
) {
    join_direct::<L>(t, source, answering, table, queries, sent, to)
}
/// Answers the queries of partition `t.block() / answering.blocks`: appends those that
/// `answering.keep` selects.
#[kernel(
    threads = 256, min_blocks = 4, shared = shared_bytes(table.shape.buckets, false), starts_early,
    for L in [
        Narrow { image = MAP_JOIN }, Wide<u32, u64> { image = MAP_JOIN_WIDE },
        Wide<u64, u64> { image = MAP_JOIN_WIDE }
    ]
)]
pub fn map_filter<L: Routed>(
    t: Thread,
    answering: Answering,
    table: MapRef<L>,
    sent: Sent<L::Key>,
    to: KeysOut<L::Key>,
) {
    filter::<L, 8>(t, answering, table, sent, to)
}
/// Does the same for queries looked up in device memory, which [`source`] selects.
#[kernel(
    threads = 256, min_blocks = 4, shared = SUMS * 4, starts_early,
    for L in [
        Narrow { image = MAP_JOIN }, Wide<u32, u64> { image = MAP_JOIN_WIDE },
        Wide<u64, u64> { image = MAP_JOIN_WIDE }
    ]
)]
pub fn map_filter_direct<L: Routed>(
    t: Thread,
    source: u32,
    answering: Answering,
    table: MapRef<L>,
    queries: Queries<L::Key>,
    sent: Sent<L::Key>,
    to: KeysOut<L::Key>,
) {
    filter_direct::<L>(t, source, answering, table, queries, sent, to)
}
