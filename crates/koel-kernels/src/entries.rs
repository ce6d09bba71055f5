//! Every kernel, by name. A kernel that is missing here fails `tests/abi.rs`.
use koel_simt::KernelSpec;

macro_rules! entries {
    (@spec ($($module:tt)*) $name:ident) => { &$($module)*::$name::SPEC };
    ($($module:tt { $($name:ident)* })*) => {
        /// What a launcher must know of each entry of the PTX.
        pub const ALL: &[&KernelSpec] = &[$($(entries!(@spec $module $name)),*),*];
    };
}
entries! {
    (crate::probe) { number_sectors random_sectors }
    (crate::reduce) { reduce_max_u32 reduce_max_u64 reduce_min_u32 reduce_min_u64 reduce_sum_u32 reduce_sum_u64 }
    (crate::scan) { scan_u32 scan_u64 }
    (crate::compact) { compact_u32 compact_u32_u32 compact_u32_u64 compact_u64 compact_u64_u32 compact_u64_u64 }
    (crate::histogram) { histogram_bits_global histogram_bits_shared histogram_hash_global histogram_hash_shared }
    (crate::partition) {
        bin_starts partition_bits_narrow partition_bits_small partition_bits_wide
        partition_hash_narrow partition_hash_small partition_hash_wide
    }
    (crate::radix_sort) {
        count_digits_u32 count_digits_u64 digit_starts
        sort_pass_u32 sort_pass_u32_u32 sort_pass_u32_u64 sort_pass_u64 sort_pass_u64_u32 sort_pass_u64_u64
    }
    (crate::classic::single_level) { single_level_insert single_level_find }
    (crate::classic::two_level) { two_level_count two_level_scatter two_level_build_512 two_level_build_1024 two_level_find }
    (crate::classic::two_kernel) { two_kernel_distribute two_kernel_build two_kernel_find }
    (crate::classic::sorted) { mark_kept sorted_find }
    (crate::map::partition) { map_from_input_narrow map_from_input_small map_from_input_wide map_from_groups }
    (crate::map::build) { map_build map_check_stash }
    (crate::map::find) { map_find map_find_or }
    (crate::spatial_search::cells) { point_bounds cell_keys mark_cells gather_points write_cells link_cells }
    (crate::spatial_search::within) { count_within list_within }
    (crate::spatial_search::nearest) { find_nearest }
    (crate::warp_demo) { warp_demo memory_demo }
}
