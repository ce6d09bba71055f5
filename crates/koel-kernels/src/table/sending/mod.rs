//! Queries and operations on their way to the partitions of a table: partitioned as it is, in one
//! pass or two.
//!
//! A query travels as its [`Routed`] key, [with its number](Numbered) or [alone](Alone). Bins have
//! room for what evenly spread queries give them and some deviations more. What does not fit, as
//! with a key that is asked for again and again, goes to an overflow area. If that is full too,
//! what is lost is counted.
mod pass;
mod route;

pub(crate) use pass::{load, lost};
pub use route::{Alone, Carried, Form, Numbered, Routed};

use crate::hash::mulhi;
use crate::partition::{ELSEWHERE, NOWHERE, fits};
use crate::table::layout::{Narrow, Shape, Wide};
use koel_simt::{Buf, In, Thread, Word, kernel};
use pass::{from_groups, from_input};

/// Words that the kernels of a join share, zero before it; behind them are cursors.
pub mod state {
    /// Queries that the overflow area has been asked to take.
    pub const OVERFLOWED: u32 = 0;
    /// Queries that it had no room for, in the first pass.
    pub const LOST_FIRST: u32 = 1;
    /// The same in the second pass.
    pub const LOST_SECOND: u32 = 2;
    /// Words in all: a line of the cache.
    pub const WORDS: usize = 32;
}

/// Threads of a block that partitions queries into up to [`BINS`] bins.
pub const THREADS: u32 = 384;

/// Bins of such a block, at most.
pub const BINS: u32 = 256;

/// Threads of a block for up to [`MANY_BINS`] bins.
pub const MANY_THREADS: u32 = 1024;

/// Bins of such a block, at most.
pub const MANY_BINS: u32 = 1024;

/// A pass that partitions queries: a kernel's argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Pass {
    /// Partitions of a bin.
    pub each: u32,
    /// 2^31 / `each`, rounded up.
    pub share: u32,
    /// Places of a bin.
    pub room: u32,
    /// Places of the overflow area, of both passes.
    pub area: u32,
}
impl Pass {
    /// With bins of this many partitions.
    pub const fn new(each: u32, room: u32, area: u32) -> Pass {
        Pass { each, share: (1u32 << 31).div_ceil(each), room, area }
    }
    /// The bin of a partition: `partition / each`, if their product is below 2^31.
    #[inline(always)]
    pub fn bin(self, partition: u32) -> u32 {
        mulhi(partition << 1, self.share)
    }
    /// Where a run goes: into its bin, or behind all of them. `lost`: the word of the [`state`]
    /// that counts what cannot be kept.
    #[inline(always)]
    fn place(
        self,
        first_bin: u32,
        lost: u32,
        spilled: Buf<u32>,
        join_state: Buf<u32>,
    ) -> impl Fn(u32, u32, u32) -> u32 {
        move |bin, before, run| {
            let bin = first_bin + bin;
            if fits(self.room, before, run) {
                return bin * self.room + before;
            }
            spilled.fetch_max(bin, !before);
            let place = join_state.fetch_add(state::OVERFLOWED, run);
            if fits(self.area, place, run) {
                return ELSEWHERE | place;
            }
            join_state.fetch_add(lost, run);
            NOWHERE
        }
    }
    /// The queries in a bin.
    #[inline(always)]
    pub(crate) fn came(self, bin: u32, cursors: In<u32>, spilled: In<u32>) -> u32 {
        cursors.get(bin).min(!spilled.get(bin)).min(self.room)
    }
}

/// The queries of a join: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Queries<K: Word> {
    /// `n` of them.
    pub keys: In<K>,
    /// How many there are.
    pub n: u32,
    /// Not 0: they begin on a multiple of 16 bytes.
    pub aligned: u32,
}

/// The table that queries are sent to: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Destination {
    /// Partitions and buckets.
    pub shape: Shape,
    /// The header.
    pub header: In<u32>,
}

/// What a pass writes: a kernel's argument. Arrays of queries are made of `E`.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SendTo<E: Word> {
    /// How its bins are.
    pub pass: Pass,
    /// The bins.
    pub queries: Buf<E>,
    /// The overflow area of both passes.
    pub overflow: Buf<E>,
    /// Queries that came to each bin; zero before the pass.
    pub cursors: Buf<u32>,
    /// Where bins were left: zero before the pass.
    pub spilled: Buf<u32>,
    /// The words that the kernels of a join share.
    pub state: Buf<u32>,
}

/// What the first pass left, for the second: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SentGroups<E: Word> {
    /// How the bins of the first pass are.
    pub pass: Pass,
    /// Blocks for each of them.
    pub tiles: u32,
    /// Queries that came to each.
    pub cursors: In<u32>,
    /// Where they were left.
    pub spilled: In<u32>,
    /// The queries.
    pub queries: In<E>,
}

/// What the passes left: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Sent<E: Word> {
    /// The bins of the last pass.
    pub queries: In<E>,
    /// The overflow area of both.
    pub overflow: In<E>,
    /// Queries that came to each bin of the last pass.
    pub cursors: In<u32>,
    /// Where these bins were left.
    pub spilled: In<u32>,
    /// Where the bins of the first of two passes were left.
    pub group_spilled: In<u32>,
    /// The words that the kernels of a join share.
    pub state: In<u32>,
}

/// Queries of a thread, of this many bytes each, in a block of [`THREADS`].
pub const fn items(bytes: u32) -> u32 {
    match bytes {
        4 => 28,
        8 => 20,
        _ => 8,
    }
}

/// The same in a block of [`MANY_THREADS`].
pub const fn many_items(bytes: u32) -> u32 {
    match bytes {
        4 => 20,
        8 => 16,
        _ => 8,
    }
}

/// Bytes of shared memory of a block that partitions.
pub const fn pass_shared(threads: u32, items: u32, bins: u32, bytes: u32) -> u32 {
    threads * items * bytes + bins * 8 + 32 * 4
}

/// What a block for [`MANY_BINS`] bins needs of it, at most.
pub const MANY_SHARED: u32 = pass_shared(MANY_THREADS, many_items(8), MANY_BINS, 8);

/// Bytes of a query.
pub const fn query_bytes<K: Carried, F: Form<K>>() -> u32 {
    size_of::<F::Query>() as u32
}

/// Queries of a thread of a block of [`THREADS`].
pub const fn items_of<L: Routed, F: Form<L::Key>>() -> usize {
    items(query_bytes::<L::Key, F>()) as usize
}

/// The same of a block of [`MANY_THREADS`].
pub const fn many_items_of<L: Routed, F: Form<L::Key>>() -> usize {
    many_items(query_bytes::<L::Key, F>()) as usize
}

/// Bytes of shared memory of a block of [`THREADS`] that partitions.
const fn send_shared<L: Routed, F: Form<L::Key>>() -> u32 {
    pass_shared(THREADS, items(query_bytes::<L::Key, F>()), BINS, query_bytes::<L::Key, F>())
}

/// The same of a block of [`MANY_THREADS`].
const fn send_many_shared<L: Routed, F: Form<L::Key>>() -> u32 {
    pass_shared(
        MANY_THREADS,
        many_items(query_bytes::<L::Key, F>()),
        MANY_BINS,
        query_bytes::<L::Key, F>(),
    )
}

/// Brings queries into up to [`BINS`] bins.
#[kernel(
    threads = 384, min_blocks = 2, shared = send_shared::<L, F>(), starts_early,
    ITEMS = items_of::<L, F>(), for L in [
        Narrow { image = MAP_JOIN }, Wide<u32, u64> { image = MAP_JOIN_WIDE },
        Wide<u64, u64> { image = MAP_JOIN_WIDE }
    ],
    F in [Numbered, Alone]
)]
pub fn map_send<L: Routed, F: Form<L::Key>, const ITEMS: usize>(
    t: Thread,
    queries: Queries<L::Key>,
    table: Destination,
    to: SendTo<F::Element>,
) {
    from_input::<L, F, { THREADS as usize }, ITEMS, { BINS as usize }>(t, queries, table, to)
}
/// The same, into up to [`MANY_BINS`] bins.
#[kernel(
    threads = 1024, shared = send_many_shared::<L, F>(), starts_early,
    ITEMS = many_items_of::<L, F>(), for L in [
        Narrow { image = MAP_JOIN }, Wide<u32, u64> { image = MAP_JOIN_WIDE },
        Wide<u64, u64> { image = MAP_JOIN_WIDE }
    ],
    F in [Numbered, Alone]
)]
pub fn map_send_many<L: Routed, F: Form<L::Key>, const ITEMS: usize>(
    t: Thread,
    queries: Queries<L::Key>,
    table: Destination,
    to: SendTo<F::Element>,
) {
    from_input::<L, F, { MANY_THREADS as usize }, ITEMS, { MANY_BINS as usize }>(
        t, queries, table, to,
    )
}
/// Brings the queries of each group, a bin of the first pass, to their partitions, each block a
/// tile of one group.
#[kernel(
    threads = 384, min_blocks = 2, shared = send_shared::<L, F>(), starts_early,
    ITEMS = items_of::<L, F>(), for L in [
        Narrow { image = MAP_JOIN }, Wide<u32, u64> { image = MAP_JOIN_WIDE },
        Wide<u64, u64> { image = MAP_JOIN_WIDE }
    ],
    F in [Numbered, Alone]
)]
pub fn map_send_groups<L: Routed, F: Form<L::Key>, const ITEMS: usize>(
    t: Thread,
    groups: SentGroups<F::Element>,
    table: Destination,
    to: SendTo<F::Element>,
) {
    from_groups::<L, F, { THREADS as usize }, ITEMS>(t, groups, table, to)
}
