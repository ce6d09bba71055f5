//! The kernels of maps, by layout.
use crate::device::{Element, Stream};
use crate::error::Result;
use koel_kernels::map::build::Source;
use koel_kernels::map::few::Few;
use koel_kernels::map::find::Table;
use koel_kernels::map::join::{Answering, Pass};
use koel_kernels::map::layout::{Layout, Narrow, Shape, Wide};
use koel_kernels::map::partition::{Bins, NARROW, SMALL, Stamps, Tile};
use koel_kernels::map::settle::Settling;
use koel_kernels::map::update::Applying;
use koel_kernels::map::{
    build, export, few, find, group, join, partition, reproduce, settle, small, update,
};
use koel_simt::{Buf, In};

macro_rules! kernels { (
    $($(#[$doc:meta])* $f:ident($($arg:ident: $of:ty),* $(; table; $($more:ident: $more_of:ty),*)?): $($module:ident $kernel:ident)*;)*
) => {
    /// A layout and its kernels: each launches one of them on a stream, in `grid` blocks. Kernels
    /// take a table in parts.
    #[allow(clippy::too_many_arguments, reason = "as many as the kernels have")]
    pub trait Kernels: Layout<Key: Element, Value: Element> {
        /// The pass over the input, in the tiles of `tile`.
        ///
        /// # Safety
        /// The arguments must fit the kernel.
        unsafe fn from_input(
            stream: &Stream, grid: u32, tile: Tile, seed: u32, n: u32, aligned: u32, stamps: Stamps, keys: In<Self::Key>, values: In<Self::Value>,
            bins: Bins, out: Buf<u64>, overflow: Buf<u64>, cursors: Buf<u32>, valid: Buf<u32>, stash: Buf<u64>, stash_words: u32,
            build_state: Buf<u32>,
        ) -> Result<()>;
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The arguments must fit the kernel.
            unsafe fn $f(stream: &Stream, grid: u32, $($arg: $of,)* $(table: Table<Self>, $($more: $more_of),*)?) -> Result<()>;
        )*
    }
    kernels!(@layouts [$($f($($arg: $of),* $(; table; $($more: $more_of),*)?): $($module $kernel)*;)*]);
};
    (@layouts $all:tt) => {
        kernels!(@layout 0 Narrow, map_from_input_narrow map_from_input_small map_from_input_wide; $all);
        kernels!(@layout 1 Wide<u32, u64>, map_from_input_narrow_u32_u64 map_from_input_small_u32_u64 map_from_input_wide_u32_u64; $all);
        kernels!(@layout 2 Wide<u64, u32>, map_from_input_narrow_u64_u32 map_from_input_small_u64_u32 map_from_input_wide_u64_u32; $all);
        kernels!(@layout 3 Wide<u64, u64>, map_from_input_narrow_u64_u64 map_from_input_small_u64_u64 map_from_input_wide_u64_u64; $all);
    };
    (@layout $i:tt $layout:ty, $narrow:ident $small:ident $wide:ident; [$($f:ident($($arg:ident: $of:ty),* $(; table; $($more:ident: $more_of:ty),*)?): $($module:ident $kernel:ident)*;)*]) => {
        impl Kernels for $layout {
            unsafe fn from_input(
                stream: &Stream, grid: u32, tile: Tile, seed: u32, n: u32, aligned: u32, stamps: Stamps, keys: In<Self::Key>, values: In<Self::Value>,
                bins: Bins, out: Buf<u64>, overflow: Buf<u64>, cursors: Buf<u32>, valid: Buf<u32>, stash: Buf<u64>, stash_words: u32,
                build_state: Buf<u32>,
            ) -> Result<()> {
                let launch = match tile {
                    NARROW => partition::$narrow::launch::<Stream>,
                    SMALL => partition::$small::launch::<Stream>,
                    _ => partition::$wide::launch::<Stream>,
                };
                // SAFETY: the caller's.
                unsafe {
                    launch(
                        stream, grid, seed, n, aligned, stamps, keys, values, bins, out, overflow, cursors, valid, stash, stash_words, build_state,
                    )
                }
            }
            $(
                unsafe fn $f(stream: &Stream, grid: u32, $($arg: $of,)* $(table: Table<Self>, $($more: $more_of),*)?) -> Result<()> {
                    // SAFETY: the caller's.
                    unsafe {
                        kernels!(@pick $i $($module $kernel)*)(
                            stream, grid, $($arg,)*
                            $(table.shape, table.stash_bits, table.slots, table.stash, table.header, $($more),*)?
                        )
                    }
                }
            )*
        }
    };
    (@pick 0 $m0:ident $k0:ident $($rest:ident)*) => { $m0::$k0::launch::<Stream> };
    (@pick 1 $m0:ident $k0:ident $m1:ident $k1:ident $($rest:ident)*) => { $m1::$k1::launch::<Stream> };
    (@pick 2 $m0:ident $k0:ident $m1:ident $k1:ident $m2:ident $k2:ident $($rest:ident)*) => { $m2::$k2::launch::<Stream> };
    (@pick 3 $m0:ident $k0:ident $m1:ident $k1:ident $m2:ident $k2:ident $m3:ident $k3:ident) => { $m3::$k3::launch::<Stream> };
}
kernels! {
    /// The pass over a small input.
    from_small(
        seed: u32, n: u32, tile: u32, keep_first: u32, keys: In<Self::Key>, bins: Bins, out: Buf<u64>, overflow: Buf<u64>, cursors: Buf<u32>,
        valid: Buf<u32>, stash: Buf<u64>, stash_words: u32, build_state: Buf<u32>
    ): small map_records small map_records_u32 small map_records_u64 small map_records_u64;
    /// The pass inside the groups.
    from_groups(
        shape: Shape, stamps: Stamps, groups: Bins, tiles: u32, group_cursors: In<u32>, group_valid: In<u32>, input: In<u64>, bins: Bins,
        out: Buf<u64>, overflow: Buf<u64>, cursors: Buf<u32>, valid: Buf<u32>, build_state: Buf<u32>
    ): partition map_from_groups partition map_from_groups_wide partition map_from_groups_wide partition map_from_groups_wide;
    /// The buckets of each partition, one block a partition.
    build(
        shape: Shape, source: Source, stamps: Stamps, pairs: In<u64>, counts: In<u32>, valid: In<u32>, overflow: In<u64>, slots: Buf<u64>,
        stash: Buf<u64>, contested: Buf<u64>, build_state: Buf<u32>
    ): build map_build build map_build_wide build map_build_wide build map_build_wide;
    /// The same, where no two keys are equal.
    build_unchecked(
        shape: Shape, source: Source, stamps: Stamps, pairs: In<u64>, counts: In<u32>, valid: In<u32>, overflow: In<u64>, slots: Buf<u64>,
        stash: Buf<u64>, contested: Buf<u64>, build_state: Buf<u32>
    ): build map_build_unchecked build map_build_unchecked_wide build map_build_unchecked_wide build map_build_unchecked_wide;
    /// The groups of equal keys of each partition, one block a partition.
    group(
        seed: u32, partitions: u32, room: u32, pairs: In<u64>, counts: In<u32>, offsets: In<u32>, build_state: In<u32>,
        keys: Buf<Self::Key>, starts: Buf<u32>, values: Buf<Self::Value>, sizes: Buf<u32>, groups: Buf<u32>
    ): group map_group group map_group_u32_u64 group map_group_u64_u32 group map_group_u64_u64;
    /// The buckets of each partition of a small input.
    build_small(
        shape: Shape, source: Source, seed: u32, keep_first: u32, keys: In<Self::Key>, values: In<Self::Value>, records: In<u64>,
        counts: In<u32>, valid: In<u32>, overflow: In<u64>, slots: Buf<u64>, stash: Buf<u64>, contested: Buf<u64>, build_state: Buf<u32>
    ): small map_build_small small map_build_small_u32_u64 small map_build_small_u64_u32 small map_build_small_u64_u64;
    /// What is stashed, linked by partition.
    unstash(
        shape: Shape, stash_bits: u32, stash: Buf<u64>, unstashed: Buf<u64>, lists: Buf<u32>, table_header: In<u32>
    ): reproduce map_unstash reproduce map_unstash_wide reproduce map_unstash_wide reproduce map_unstash_wide;
    /// The pairs of each partition placed anew, one block a partition.
    reproduce(
        shape: Shape, stash_bits: u32, unstashed: In<u64>, lists: Buf<u32>, slots: Buf<u64>, stash: Buf<u64>, table_header: Buf<u32>
    ): reproduce map_reproduce reproduce map_reproduce_wide reproduce map_reproduce_wide reproduce map_reproduce_wide;
    /// The operations of each group, one block a group, as far as that is done in few buckets.
    update_few(
        shape: Shape, few: Few, sent: In<u64>, overflow: In<u64>, cursors: Buf<u32>, spilled: In<u32>, sent_state: In<u32>,
        values: In<Self::Value>, operations: In<u8>, slots: Buf<u64>, stash: Buf<u64>, statuses: Buf<u8>, table_header: Buf<u32>,
        batch_state: Buf<u32>
    ): few map_update_few few map_update_few_u32_u64 few map_update_few_u64_u32 few map_update_few_u64_u64;
    /// The operations of each partition, one block a partition.
    update(
        shape: Shape, applying: Applying, sent: In<u64>, overflow: In<u64>, cursors: In<u32>, spilled: In<u32>, group_spilled: In<u32>,
        sent_state: In<u32>, values: In<Self::Value>, operations: In<u8>, unstashed: Buf<u64>, lists: Buf<u32>, slots: Buf<u64>,
        stash: Buf<u64>, statuses: Buf<u8>, table_header: Buf<u32>, batch_state: Buf<u32>
    ): update map_update update map_update_u32_u64 update map_update_u64_u32 update map_update_u64_u64;
    /// What few operations left.
    update_left(
        shape: Shape, applying: Applying, sent: In<u64>, overflow: In<u64>, cursors: In<u32>, spilled: In<u32>, group_spilled: In<u32>,
        sent_state: In<u32>, values: In<Self::Value>, operations: In<u8>, unstashed: Buf<u64>, lists: Buf<u32>, slots: Buf<u64>,
        stash: Buf<u64>, statuses: Buf<u8>, table_header: Buf<u32>, batch_state: Buf<u32>
    ): update map_update_left update map_update_left_u32_u64 update map_update_left_u64_u32 update map_update_left_u64_u64;
    /// The end of a build, in blocks that are resident all at once.
    settle(
        shape: Shape, settling: Settling, stamps: Stamps, keys: In<Self::Key>, values: In<Self::Value>, slots: Buf<u64>, stash: Buf<u64>,
        contested: Buf<u64>, ranks: Buf<u32>, locks: Buf<u64>, cursors: Buf<u32>, valid: Buf<u32>, build_state: Buf<u32>, table_header: Buf<u32>
    ): settle map_settle settle map_settle_u32_u64 settle map_settle_u64_u32 settle map_settle_u64_u64;
    /// Values and found flags.
    find(
        n: u32; table; queries: In<Self::Key>, values: Buf<Self::Value>, found: Buf<u8>
    ): find map_find find map_find_u32_u64 find map_find_u64_u32 find map_find_u64_u64;
    /// Values, or `missing`.
    find_or(
        n: u32, missing: Self::Value; table; queries: In<Self::Key>, values: Buf<Self::Value>
    ): find map_find_or find map_find_or_u32_u64 find map_find_or_u64_u32 find map_find_or_u64_u64;
    /// Found flags.
    contains(
        n: u32; table; queries: In<Self::Key>, found: Buf<u8>
    ): find map_contains find map_contains_u32_u64 find map_contains_u64_u32 find map_contains_u64_u64;
    /// Found bits.
    contains_bits(
        n: u32; table; queries: In<Self::Key>, found: Buf<u32>
    ): find map_contains_bits find map_contains_bits_u32_u64 find map_contains_bits_u64_u32 find map_contains_bits_u64_u64;
    /// How many are found.
    count(
        n: u32; table; queries: In<Self::Key>, count: Buf<u64>
    ): find map_count find map_count_u32_u64 find map_count_u64_u32 find map_count_u64_u64;
    /// All pairs.
    export(
        ; table; keys: Buf<Self::Key>, values: Buf<Self::Value>, count: Buf<u32>
    ): export map_export export map_export_u32_u64 export map_export_u64_u32 export map_export_u64_u64;
    /// Of a join: the pass over the queries.
    join_from_input(
        n: u32, aligned: u32, shape: Shape, pass: Pass, table_header: In<u32>, queries: In<Self::Key>, out: Buf<u64>, overflow: Buf<u64>,
        cursors: Buf<u32>, spilled: Buf<u32>, join_state: Buf<u32>
    ): join map_join_from_input join map_join_from_input_u32 join map_join_from_input_u64 join map_join_from_input_u64;
    /// Of a join: the same, into many bins.
    join_from_input_many(
        n: u32, aligned: u32, shape: Shape, pass: Pass, table_header: In<u32>, queries: In<Self::Key>, out: Buf<u64>, overflow: Buf<u64>,
        cursors: Buf<u32>, spilled: Buf<u32>, join_state: Buf<u32>
    ): join map_join_from_input_many join map_join_from_input_many_u32 join map_join_from_input_many_u64 join map_join_from_input_many_u64;
    /// Of a join: the pass inside the groups.
    join_from_groups(
        shape: Shape, groups: Pass, tiles: u32, pass: Pass, table_header: In<u32>, group_cursors: In<u32>, group_spilled: In<u32>,
        input: In<u64>, out: Buf<u64>, overflow: Buf<u64>, cursors: Buf<u32>, spilled: Buf<u32>, join_state: Buf<u32>
    ): join map_join_from_groups join map_join_from_groups_u32 join map_join_from_groups_u64 join map_join_from_groups_u64;
    /// The rows of the queries in their partitions.
    join(
        answering: Answering; table; queries: In<u64>, cursors: In<u32>, spilled: In<u32>, join_state: In<u32>, numbers: Buf<u32>,
        values: Buf<Self::Value>, count: Buf<u64>
    ): join map_join join map_join_u32_u64 join map_join_u64_u32 join map_join_u64_u64;
    /// The rows of queries that are looked up in device memory.
    join_direct(
        n: u32, source: u32, answering: Answering; table; queries: In<Self::Key>, sent: In<u64>, cursors: In<u32>, spilled: In<u32>,
        join_state: In<u32>, numbers: Buf<u32>, values: Buf<Self::Value>, count: Buf<u64>
    ): join map_join_direct join map_join_direct_u32_u64 join map_join_direct_u64_u32 join map_join_direct_u64_u64;
    /// Of a filter: the pass over the queries.
    filter_from_input(
        n: u32, aligned: u32, shape: Shape, pass: Pass, table_header: In<u32>, queries: In<Self::Key>, out: Buf<Self::Key>, overflow: Buf<Self::Key>,
        cursors: Buf<u32>, spilled: Buf<u32>, join_state: Buf<u32>
    ): join map_filter_from_input join map_filter_from_input_u32 join map_filter_from_input_u64 join map_filter_from_input_u64;
    /// Of a filter: the same, into many bins.
    filter_from_input_many(
        n: u32, aligned: u32, shape: Shape, pass: Pass, table_header: In<u32>, queries: In<Self::Key>, out: Buf<Self::Key>, overflow: Buf<Self::Key>,
        cursors: Buf<u32>, spilled: Buf<u32>, join_state: Buf<u32>
    ): join map_filter_from_input_many join map_filter_from_input_many_u32 join map_filter_from_input_many_u64 join map_filter_from_input_many_u64;
    /// Of a filter: the pass inside the groups.
    filter_from_groups(
        shape: Shape, groups: Pass, tiles: u32, pass: Pass, table_header: In<u32>, group_cursors: In<u32>, group_spilled: In<u32>,
        input: In<Self::Key>, out: Buf<Self::Key>, overflow: Buf<Self::Key>, cursors: Buf<u32>, spilled: Buf<u32>, join_state: Buf<u32>
    ): join map_filter_from_groups join map_filter_from_groups_u32 join map_filter_from_groups_u64 join map_filter_from_groups_u64;
    /// Of the queries in their partitions, those that are kept.
    filter(
        answering: Answering; table; queries: In<Self::Key>, cursors: In<u32>, spilled: In<u32>, join_state: In<u32>, keys: Buf<Self::Key>,
        count: Buf<u64>
    ): join map_filter join map_filter_u32 join map_filter_u64 join map_filter_u64;
    /// Of the queries that are looked up in device memory, those that are kept.
    filter_direct(
        n: u32, source: u32, answering: Answering; table; queries: In<Self::Key>, sent: In<Self::Key>, cursors: In<u32>, spilled: In<u32>,
        join_state: In<u32>, keys: Buf<Self::Key>, count: Buf<u64>
    ): join map_filter_direct join map_filter_direct_u32 join map_filter_direct_u64 join map_filter_direct_u64;
}
