//! Queries and operations on their way to the partitions of a table, partitioned like the table in
//! one pass or two.
//!
//! A query travels as its [`Routed`] key, [with its index](Numbered) or [alone](Alone). Bins have
//! room for uniformly distributed queries plus some standard deviations. Queries that do not fit,
//! as when one key is queried again and again, go to an overflow area. If that is full too, queries
//! are lost and counted.
mod pass;
mod route;

pub(crate) use pass::{load, lost};
pub use route::{Alone, Carried, Form, Numbered, Routed};

use crate::hash::mulhi;
use crate::partition::{ELSEWHERE, NOWHERE, fits};
use crate::table::layout::{Narrow, Shape, Wide};
use koel_simt::{Buf, In, Thread, Word, kernel};
use pass::{from_coarse, from_input};

/// Words that the kernels of a join share, zero before it. Cursors follow them.
pub mod state {
    /// Queries sent to the overflow area.
    pub const OVERFLOWED: u32 = 0;
    /// Queries that the overflow area had no room for in the first pass.
    pub const LOST_FIRST: u32 = 1;
    /// Queries that it had no room for in the second pass.
    pub const LOST_SECOND: u32 = 2;
    /// Number of words: one cache line.
    pub const WORDS: usize = 32;
}

/// Threads per block that partitions queries into up to [`BINS`] bins.
pub const THREADS: u32 = 384;

/// Maximum number of bins for blocks of [`THREADS`] threads.
pub const BINS: u32 = 256;

/// Threads per block that partitions queries into up to [`MANY_BINS`] bins.
pub const MANY_THREADS: u32 = 1024;

/// Maximum number of bins for blocks of [`MANY_THREADS`] threads.
pub const MANY_BINS: u32 = 1024;

/// A pass that partitions queries: a kernel argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Pass {
    /// Partitions per bin.
    pub each: u32,
    /// 2^31 / `each`, rounded up.
    pub share: u32,
    /// Queries per bin.
    pub room: u32,
    /// Queries in the overflow area that both passes share.
    pub area: u32,
}
impl Pass {
    /// Returns a pass with bins of `each` partitions.
    pub const fn new(each: u32, room: u32, area: u32) -> Pass {
        Pass { each, share: (1u32 << 31).div_ceil(each), room, area }
    }
    /// Returns the bin of a partition: `partition / each`, if their product is below 2^31.
    #[inline(always)]
    pub fn bin(self, partition: u32) -> u32 {
        mulhi(partition << 1, self.share)
    }
    /// Returns where a run goes: into its bin, or into the overflow area if it does not fit.
    /// `lost`: the word of the [`state`] that counts lost queries.
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
    /// Returns the number of queries in a bin.
    #[inline(always)]
    pub(crate) fn came(self, bin: u32, cursors: In<u32>, spilled: In<u32>) -> u32 {
        cursors.get(bin).min(!spilled.get(bin)).min(self.room)
    }
}

/// Queries of a join: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Queries<K: Word> {
    /// Keys of the `n` queries.
    pub keys: In<K>,
    /// Number of queries.
    pub n: u32,
    /// Not 0 if `keys` begin on a multiple of 16 bytes.
    pub aligned: u32,
}

/// The table that queries are sent to: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Destination {
    /// Partitions and buckets.
    pub shape: Shape,
    /// The header.
    pub header: In<u32>,
}

/// Output of a pass: a kernel argument. Arrays of queries have elements of type `E`.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SendTo<E: Word> {
    /// Sizes of the bins.
    pub pass: Pass,
    /// The bins.
    pub queries: Buf<E>,
    /// Overflow area of both passes.
    pub overflow: Buf<E>,
    /// Number of queries sent to each bin; zero before the pass.
    pub cursors: Buf<u32>,
    /// Complement of the fill at which queries of a bin began to overflow, 0 if none did; zero
    /// before the pass.
    pub spilled: Buf<u32>,
    /// Words that the kernels of a join share.
    pub state: Buf<u32>,
}

/// Output of the first pass, as input of the second: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SentCoarse<E: Word> {
    /// Sizes of the bins of the first pass.
    pub pass: Pass,
    /// Blocks per bin.
    pub tiles: u32,
    /// Number of queries sent to each bin.
    pub cursors: In<u32>,
    /// Where the queries of each bin began to overflow, as in [`SendTo::spilled`].
    pub spilled: In<u32>,
    /// The queries.
    pub queries: In<E>,
}

/// Output of all passes: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Sent<E: Word> {
    /// The bins of the last pass.
    pub queries: In<E>,
    /// Overflow area of both passes.
    pub overflow: In<E>,
    /// Number of queries sent to each bin of the last pass.
    pub cursors: In<u32>,
    /// Where the queries of these bins began to overflow, as in [`SendTo::spilled`].
    pub spilled: In<u32>,
    /// The same for the bins of the first of two passes.
    pub coarse_spilled: In<u32>,
    /// Words that the kernels of a join share.
    pub state: In<u32>,
}

/// Returns the number of queries per thread, of `bytes` bytes each, in a block of [`THREADS`].
pub const fn items(bytes: u32) -> u32 {
    match bytes {
        4 => 28,
        8 => 20,
        _ => 8,
    }
}

/// Returns the same for a block of [`MANY_THREADS`].
pub const fn many_items(bytes: u32) -> u32 {
    match bytes {
        4 => 20,
        8 => 16,
        _ => 8,
    }
}

/// Returns the bytes of shared memory of a block that partitions.
pub const fn pass_shared(threads: u32, items: u32, bins: u32, bytes: u32) -> u32 {
    threads * items * bytes + bins * 8 + 32 * 4
}

/// Maximum bytes of shared memory of a block for [`MANY_BINS`] bins.
pub const MANY_SHARED: u32 = pass_shared(MANY_THREADS, many_items(8), MANY_BINS, 8);

/// Returns the bytes per query.
pub const fn query_bytes<K: Carried, F: Form<K>>() -> u32 {
    size_of::<F::Query>() as u32
}

/// Returns the number of queries per thread in a block of [`THREADS`].
pub const fn items_of<L: Routed, F: Form<L::Key>>() -> usize {
    items(query_bytes::<L::Key, F>()) as usize
}

/// Returns the number of queries per thread in a block of [`MANY_THREADS`].
pub const fn many_items_of<L: Routed, F: Form<L::Key>>() -> usize {
    many_items(query_bytes::<L::Key, F>()) as usize
}

/// Returns the bytes of shared memory of a block of [`THREADS`] that partitions.
const fn send_shared<L: Routed, F: Form<L::Key>>() -> u32 {
    pass_shared(THREADS, items(query_bytes::<L::Key, F>()), BINS, query_bytes::<L::Key, F>())
}

/// Returns the bytes of shared memory of a block of [`MANY_THREADS`] that partitions.
const fn send_many_shared<L: Routed, F: Form<L::Key>>() -> u32 {
    pass_shared(
        MANY_THREADS,
        many_items(query_bytes::<L::Key, F>()),
        MANY_BINS,
        query_bytes::<L::Key, F>(),
    )
}

/// Partitions queries into up to [`BINS`] bins.
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
/// Partitions queries into up to [`MANY_BINS`] bins.
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
/// Partitions the queries of each coarse bin, a bin of the first pass. Each block handles one tile
/// of one coarse bin.
#[kernel(
    threads = 384, min_blocks = 2, shared = send_shared::<L, F>(), starts_early,
    ITEMS = items_of::<L, F>(), for L in [
        Narrow { image = MAP_JOIN }, Wide<u32, u64> { image = MAP_JOIN_WIDE },
        Wide<u64, u64> { image = MAP_JOIN_WIDE }
    ],
    F in [Numbered, Alone]
)]
pub fn map_send_coarse<L: Routed, F: Form<L::Key>, const ITEMS: usize>(
    t: Thread,
    coarse: SentCoarse<F::Element>,
    table: Destination,
    to: SendTo<F::Element>,
) {
    from_coarse::<L, F, { THREADS as usize }, ITEMS>(t, coarse, table, to)
}
