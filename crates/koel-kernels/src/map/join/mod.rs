//! Lookups whose answers may come in any order.
//!
//! A lookup in a big table is a read of a sector at random, of which memory serves far fewer a
//! second than of sectors in a row. So queries are partitioned as the table is, in one pass or two;
//! then one block reads a partition of the table once, in order, into shared memory, and answers
//! the queries of that partition from there. Or, after one pass into bins of many partitions, bin
//! after bin is looked up in device memory, where the part of the table that a bin needs stays in
//! the cache. Answers are appended to arrays, a block's at a time.
//!
//! If the overflow area of the passes is full too, the partitioned queries are left alone and all
//! are looked up one by one. Nothing of this needs the host.
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

/// Queries that a thread looks up in device memory in a round.
pub const DIRECT_ITEMS: u32 = 4;

/// How queries are answered: a kernel's argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Answering {
    /// The last pass.
    pub pass: Pass,
    /// Blocks that share the queries of a bin.
    pub blocks: u32,
    /// Of a filter: which queries are kept.
    pub keep: u32,
}

/// Where a join appends rows: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct RowsOut<V: Word> {
    /// The number of the query of each row.
    pub numbers: Buf<u32>,
    /// Its value.
    pub values: Buf<V>,
    /// How many rows there are.
    pub count: Buf<u64>,
}

/// Bytes of shared memory for a partition of this many buckets: heads, and the values behind them
/// if they are `wide`.
pub const fn shared_bytes(buckets: u32, wide: bool) -> u32 {
    buckets * if wide { 64 } else { 32 } + SUMS * 4
}

/// Queries that a thread answers at a time.
pub const fn answered_items<L: Routed>() -> usize {
    64 / query_bytes::<L::Key, Numbered>() as usize
}

/// Answers the queries of partitions `t.block() / answering.blocks`: appends the number and the
/// value of each that is found.
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
/// The same for queries that are looked up in device memory: those that the [`source`] tells.
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
/// Answers the queries of partitions `t.block() / answering.blocks`: appends those that
/// `answering.keep` tells.
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
/// The same for queries that are looked up in device memory: those that the [`source`] tells.
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
