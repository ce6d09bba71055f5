//! Lookups whose answers may come in any order.
//!
//! A lookup in a big table is a read of a sector at random, of which memory serves far fewer a
//! second than of sectors in a row. So queries are partitioned as the table is, in one pass or two;
//! then one block reads a partition of the table once, in order, into shared memory, and answers
//! the queries of that partition from there. Or, after one pass into bins of many partitions, bin
//! after bin is looked up in device memory, where the part of the table that a bin needs stays in
//! the cache. Answers are appended to arrays, a block's at a time.
//!
//! A query travels as its [`Routed`] key, [with its number](Numbered) for a join, or [alone](Alone)
//! to filter keys or count them.
//!
//! Bins have room for what evenly spread queries give them and some deviations more. What does not
//! fit, as with a key that is asked for again and again, goes to an overflow area and is looked up
//! from there one by one, at the end. If that is full too, the partitioned queries are left alone
//! and all are looked up one by one. Nothing of this needs the host.
mod answer;
mod direct;
mod pass;
mod route;

pub(crate) use answer::{SUMS, append};
pub use answer::{keep, source};
pub use route::{Alone, Carried, Form, Numbered, Routed};

use super::find::Table;
use super::layout::{Narrow, Shape, Wide};
use crate::partition::{ELSEWHERE, NOWHERE, fits};
use answer::{filter, join};
use direct::{filter_direct, join_direct};
use koel_simt::{Buf, In, Thread, kernel};
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

/// Threads of a block that answers queries.
pub const ANSWERING: u32 = 256;

/// Queries that a thread looks up in device memory in a round.
pub const DIRECT_ITEMS: u32 = 4;

/// A pass that partitions queries: a kernel's argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

// SAFETY: plain numbers, no padding.
#[cfg(not(target_arch = "nvptx64"))]
unsafe impl koel_simt::Arg for Pass {}

impl Pass {
    /// With bins of this many partitions.
    pub const fn new(each: u32, room: u32, area: u32) -> Pass {
        Pass { each, share: (1u32 << 31).div_ceil(each), room, area }
    }
    /// The bin of a partition: `partition / each`, if their product is below 2^31.
    #[inline(always)]
    pub fn bin(self, partition: u32) -> u32 {
        ((partition as u64 * self.share as u64) >> 31) as u32
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
    pub(super) fn came(self, bin: u32, cursors: In<u32>, spilled: In<u32>) -> u32 {
        cursors.get(bin).min(!spilled.get(bin)).min(self.room)
    }
}

/// How queries are answered: a kernel's argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Answering {
    /// The last pass.
    pub pass: Pass,
    /// Blocks that share the queries of a bin.
    pub blocks: u32,
    /// Of a filter: which queries are kept.
    pub keep: u32,
}

// SAFETY: plain numbers, no padding.
#[cfg(not(target_arch = "nvptx64"))]
unsafe impl koel_simt::Arg for Answering {}

/// Bytes of shared memory for a partition of this many buckets: heads, and the values behind them
/// if they are `wide`.
pub const fn shared_bytes(buckets: u32, wide: bool) -> u32 {
    buckets * if wide { 64 } else { 32 } + SUMS * 4
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
const fn pass_shared(threads: u32, items: u32, bins: u32, bytes: u32) -> u32 {
    threads * items * bytes + bins * 8 + 32 * 4
}

/// What a block for [`MANY_BINS`] bins needs of it, at most.
pub const MANY_SHARED: u32 = pass_shared(MANY_THREADS, many_items(8), MANY_BINS, 8);

macro_rules! passes { ($($image:ident $layout:ty, $key:ty, $form:ident, $element:ty, $bytes:literal:
    $from_input:ident $from_input_many:ident $from_groups:ident, $items:literal $many_items:literal;)*
) => { $(
    /// Brings the queries into up to [`BINS`] bins. `aligned`: they begin on a multiple of 16
    /// bytes. `cursors`, `spilled` and `join_state` are zero before it.
    #[kernel(image = $image, threads = 384, min_blocks = 2, shared = pass_shared(THREADS, $items, BINS, $bytes), starts_early)]
    pub fn $from_input(
        t: Thread,
        n: u32,
        aligned: u32,
        shape: Shape,
        pass: Pass,
        table_header: In<u32>,
        queries: In<$key>,
        out: Buf<$element>,
        overflow: Buf<$element>,
        cursors: Buf<u32>,
        spilled: Buf<u32>,
        join_state: Buf<u32>,
    ) {
        const { assert!($items == items($bytes) && $many_items == many_items($bytes)) };
        from_input::<$layout, $form, { THREADS as usize }, $items, { BINS as usize }>(
            t, n, aligned, shape, pass, table_header, queries, out, overflow, cursors, spilled, join_state,
        )
    }
    /// The same, into up to [`MANY_BINS`] bins.
    #[kernel(image = $image, threads = 1024, shared = pass_shared(MANY_THREADS, $many_items, MANY_BINS, $bytes), starts_early)]
    pub fn $from_input_many(
        t: Thread,
        n: u32,
        aligned: u32,
        shape: Shape,
        pass: Pass,
        table_header: In<u32>,
        queries: In<$key>,
        out: Buf<$element>,
        overflow: Buf<$element>,
        cursors: Buf<u32>,
        spilled: Buf<u32>,
        join_state: Buf<u32>,
    ) {
        from_input::<$layout, $form, { MANY_THREADS as usize }, $many_items, { MANY_BINS as usize }>(
            t, n, aligned, shape, pass, table_header, queries, out, overflow, cursors, spilled, join_state,
        )
    }
    /// Brings the queries of each group, a bin of the first pass, to their partitions, each block a
    /// tile of one group: `tiles` blocks for each. `cursors` and `spilled` are zero before it.
    #[kernel(image = $image, threads = 384, min_blocks = 2, shared = pass_shared(THREADS, $items, BINS, $bytes), starts_early)]
    pub fn $from_groups(
        t: Thread,
        shape: Shape,
        groups: Pass,
        tiles: u32,
        pass: Pass,
        table_header: In<u32>,
        group_cursors: In<u32>,
        group_spilled: In<u32>,
        input: In<$element>,
        out: Buf<$element>,
        overflow: Buf<$element>,
        cursors: Buf<u32>,
        spilled: Buf<u32>,
        join_state: Buf<u32>,
    ) {
        from_groups::<$layout, $form, { THREADS as usize }, $items>(
            t, shape, groups, tiles, pass, table_header, group_cursors, group_spilled, input, out, overflow, cursors, spilled,
            join_state,
        )
    }
)* } }

passes! {
    MAP_JOIN Narrow, u32, Numbered, u64, 8:
        map_join_from_input map_join_from_input_many map_join_from_groups, 20 16;
    MAP_JOIN_WIDE Wide<u32, u64>, u32, Numbered, u64, 8:
        map_join_from_input_u32 map_join_from_input_many_u32 map_join_from_groups_u32, 20 16;
    MAP_JOIN_WIDE Wide<u64, u64>, u64, Numbered, u64, 16:
        map_join_from_input_u64 map_join_from_input_many_u64 map_join_from_groups_u64, 8 8;
    MAP_JOIN Narrow, u32, Alone, u32, 4:
        map_filter_from_input map_filter_from_input_many map_filter_from_groups, 28 20;
    MAP_JOIN_WIDE Wide<u32, u64>, u32, Alone, u32, 4:
        map_filter_from_input_u32 map_filter_from_input_many_u32 map_filter_from_groups_u32, 28 20;
    MAP_JOIN_WIDE Wide<u64, u64>, u64, Alone, u64, 8:
        map_filter_from_input_u64 map_filter_from_input_many_u64 map_filter_from_groups_u64, 20 16;
}

macro_rules! joins { ($($image:ident $layout:ty, $key:ty, $value:ty, $wide:literal, $items:literal $blocks:literal $direct_blocks:literal: $join:ident $join_direct:ident;)*) => { $(
    /// Answers the queries of partitions `t.block() / answering.blocks`: appends to `numbers` and
    /// `values`, of which `count` are taken, the number and the value of each that is found.
    #[kernel(image = $image, threads = 256, min_blocks = $blocks, shared = shared_bytes(shape.buckets, $wide), starts_early)]
    pub fn $join(
        t: Thread,
        answering: Answering,
        shape: Shape,
        stash_bits: u32,
        slots: In<u64>,
        stash: In<u64>,
        table_header: In<u32>,
        queries: In<u64>,
        cursors: In<u32>,
        spilled: In<u32>,
        join_state: In<u32>,
        numbers: Buf<u32>,
        values: Buf<$value>,
        count: Buf<u64>,
    ) {
        let table = Table::<$layout>::new(shape, stash_bits, slots, stash, table_header);
        join::<$layout, $items>(t, answering, table, queries, cursors, spilled, join_state, numbers, values, count)
    }
    /// The same for queries that are looked up in device memory: those that the [`source`] tells.
    #[kernel(image = $image, threads = 256, min_blocks = $direct_blocks, shared = SUMS * 4, starts_early)]
    pub fn $join_direct(
        t: Thread,
        n: u32,
        source: u32,
        answering: Answering,
        shape: Shape,
        stash_bits: u32,
        slots: In<u64>,
        stash: In<u64>,
        table_header: In<u32>,
        queries: In<$key>,
        sent: In<u64>,
        cursors: In<u32>,
        spilled: In<u32>,
        join_state: In<u32>,
        numbers: Buf<u32>,
        values: Buf<$value>,
        count: Buf<u64>,
    ) {
        let table = Table::<$layout>::new(shape, stash_bits, slots, stash, table_header);
        join_direct::<$layout>(
            t, n, source, answering, table, queries, sent, cursors, spilled, join_state, numbers, values, count,
        )
    }
)* } }

joins! {
    MAP_JOIN Narrow, u32, u32, false, 8 4 4: map_join map_join_direct;
    MAP_JOIN_WIDE Wide<u32, u64>, u32, u64, true, 8 3 3: map_join_u32_u64 map_join_direct_u32_u64;
    MAP_JOIN_WIDE Wide<u64, u32>, u64, u32, true, 4 3 3: map_join_u64_u32 map_join_direct_u64_u32;
    MAP_JOIN_WIDE Wide<u64, u64>, u64, u64, true, 4 3 3: map_join_u64_u64 map_join_direct_u64_u64;
}

macro_rules! filters { ($($image:ident $layout:ty, $key:ty: $filter:ident $filter_direct:ident;)*) => { $(
    /// Answers the queries of partitions `t.block() / answering.blocks`: appends to `keys`, of
    /// which `count` are taken, those that `answering.keep` tells.
    #[kernel(image = $image, threads = 256, min_blocks = 4, shared = shared_bytes(shape.buckets, false), starts_early)]
    pub fn $filter(
        t: Thread,
        answering: Answering,
        shape: Shape,
        stash_bits: u32,
        slots: In<u64>,
        stash: In<u64>,
        table_header: In<u32>,
        queries: In<$key>,
        cursors: In<u32>,
        spilled: In<u32>,
        join_state: In<u32>,
        keys: Buf<$key>,
        count: Buf<u64>,
    ) {
        let table = Table::<$layout>::new(shape, stash_bits, slots, stash, table_header);
        filter::<$layout, 8>(t, answering, table, queries, cursors, spilled, join_state, keys, count)
    }
    /// The same for queries that are looked up in device memory: those that the [`source`] tells.
    #[kernel(image = $image, threads = 256, min_blocks = 4, shared = SUMS * 4, starts_early)]
    pub fn $filter_direct(
        t: Thread,
        n: u32,
        source: u32,
        answering: Answering,
        shape: Shape,
        stash_bits: u32,
        slots: In<u64>,
        stash: In<u64>,
        table_header: In<u32>,
        queries: In<$key>,
        sent: In<$key>,
        cursors: In<u32>,
        spilled: In<u32>,
        join_state: In<u32>,
        keys: Buf<$key>,
        count: Buf<u64>,
    ) {
        let table = Table::<$layout>::new(shape, stash_bits, slots, stash, table_header);
        filter_direct::<$layout>(t, n, source, answering, table, queries, sent, cursors, spilled, join_state, keys, count)
    }
)* } }

filters! {
    MAP_JOIN Narrow, u32: map_filter map_filter_direct;
    MAP_JOIN_WIDE Wide<u32, u64>, u32: map_filter_u32 map_filter_direct_u32;
    MAP_JOIN_WIDE Wide<u64, u64>, u64: map_filter_u64 map_filter_direct_u64;
}
