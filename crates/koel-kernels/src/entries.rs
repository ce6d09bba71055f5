//! Every kernel, by name, where all families are compiled. A kernel that is missing here fails
//! `tests/abi.rs`.
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
    (crate::compact) {
        compact_u128 compact_u32 compact_u32_u32 compact_u32_u64 compact_u64 compact_u64_u32 compact_u64_u64
    }
    (crate::group_reduce) {
        group_max_f32 group_max_join_f32 group_max_join_u32 group_max_join_u64 group_max_u32 group_max_u64
        group_min_f32 group_min_join_f32 group_min_join_u32 group_min_join_u64 group_min_u32 group_min_u64
        group_sum_f32 group_sum_join_f32 group_sum_join_u32 group_sum_join_u64 group_sum_u32 group_sum_u64
    }
    (crate::groups) {
        group_keys_u128 group_keys_u32 group_keys_u64 group_numbers group_places group_sample_u32 group_sample_u64
        group_sizes group_sizes_of
        retrieve_u32 retrieve_u64 retrieve_rest_u32 retrieve_rest_u64 runs_u32 runs_u64
    }
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
    (crate::classic::chaining) { chaining_insert chaining_find }
    (crate::classic::probing) { probing_insert probing_find }
    (crate::classic::bucketed) { bucketed_insert bucketed_find }
    (crate::classic::random_walk) { random_walk_insert }
    (crate::classic::bfs) { bfs_insert }
    (crate::classic::function_id) { function_id_insert function_id_find }
    (crate::classic::fks) { fks_square fks_build fks_find }
    (crate::classic::perfect_spatial) { perfect_spatial_find }
    (crate::classic::set) { set_insert set_clean set_find compacting_number compacting_find }
    (crate::classic::strided) { strided_updates }
    (crate::classic::multi_value) { multi_value_heads multi_value_list multi_value_places }
    (crate::classic::two_level_multi) {
        two_level_multi_build two_level_multi_present two_level_multi_number two_level_multi_find
    }
    (crate::map::partition) {
        map_from_input_narrow map_from_input_small map_from_input_wide
        map_from_input_narrow_u32_u64 map_from_input_small_u32_u64 map_from_input_wide_u32_u64
        map_from_input_narrow_u64_u32 map_from_input_small_u64_u32 map_from_input_wide_u64_u32
        map_from_input_narrow_u64_u64 map_from_input_small_u64_u64 map_from_input_wide_u64_u64
        map_from_groups map_from_groups_wide
    }
    (crate::map::build) { map_build map_build_unchecked map_build_unchecked_wide map_build_wide }
    (crate::map::group) {
        map_group map_group_u32_u64 map_group_u64_u32 map_group_u64_u64
    }
    (crate::map::of_groups) { map_bring_groups map_bring_groups_u64 map_of_groups map_of_groups_u64 }
    (crate::map::small) {
        map_records map_records_u32 map_records_u64
        map_build_small map_build_small_u32_u64 map_build_small_u64_u32 map_build_small_u64_u64
    }
    (crate::map::export) { map_export map_export_u32_u64 map_export_u64_u32 map_export_u64_u64 }
    (crate::map::reproduce) { map_reproduce map_reproduce_wide map_unstash map_unstash_wide }
    (crate::map::settle) { map_settle map_settle_u32_u64 map_settle_u64_u32 map_settle_u64_u64 }
    (crate::map::find) {
        map_find map_find_or map_contains map_contains_bits map_count
        map_find_u32_u64 map_find_or_u32_u64 map_contains_u32_u64 map_contains_bits_u32_u64 map_count_u32_u64
        map_find_u64_u32 map_find_or_u64_u32 map_contains_u64_u32 map_contains_bits_u64_u32 map_count_u64_u32
        map_find_u64_u64 map_find_or_u64_u64 map_contains_u64_u64 map_contains_bits_u64_u64 map_count_u64_u64
    }
    (crate::map::join) {
        map_join_from_input map_join_from_input_many map_join_from_groups
        map_join_from_input_u32 map_join_from_input_many_u32 map_join_from_groups_u32
        map_join_from_input_u64 map_join_from_input_many_u64 map_join_from_groups_u64
        map_filter_from_input map_filter_from_input_many map_filter_from_groups
        map_filter_from_input_u32 map_filter_from_input_many_u32 map_filter_from_groups_u32
        map_filter_from_input_u64 map_filter_from_input_many_u64 map_filter_from_groups_u64
        map_join map_join_direct map_join_u32_u64 map_join_direct_u32_u64
        map_join_u64_u32 map_join_direct_u64_u32 map_join_u64_u64 map_join_direct_u64_u64
        map_filter map_filter_direct map_filter_u32 map_filter_direct_u32 map_filter_u64 map_filter_direct_u64
    }
    (crate::map::update) {
        map_update map_update_u32_u64 map_update_u64_u32 map_update_u64_u64
        map_update_left map_update_left_u32_u64 map_update_left_u64_u32 map_update_left_u64_u64
    }
    (crate::map::few) { map_update_few map_update_few_u32_u64 map_update_few_u64_u32 map_update_few_u64_u64 }
    (crate::set::partition) {
        set_from_input_u32 set_from_input_many_u32 set_from_input_u64 set_from_input_many_u64
        set_from_groups_u32 set_from_groups_u64
    }
    (crate::set::build) { set_build_u32 set_build_u64 }
    (crate::set::settle) { set_settle_u32 set_settle_u64 }
    (crate::set::find) {
        set_contains_u32 set_contains_bits_u32 set_count_u32 set_contains_u64 set_contains_bits_u64 set_count_u64
    }
    (crate::set::export) { set_export_u32 set_export_u64 }
    (crate::set::update) { set_update_u32 set_update_u64 set_update_left_u32 set_update_left_u64 }
    (crate::set::few) { set_update_few_u32 set_update_few_u64 }
    (crate::set::combine) { set_combine_u32 set_combine_u64 set_combined_u32 set_combined_u64 }
    (crate::keys128::build) { keys128_fingerprints keys128_verify }
    (crate::keys128::find) {
        keys128_rows keys128_contains keys128_contains_bits keys128_count
        keys128_find_u32 keys128_find_or_u32 keys128_find_u64 keys128_find_or_u64
    }
    (crate::vision::edges) {
        vision_gradient vision_noise vision_median vision_row_sums vision_ridges vision_pixels vision_edges
    }
    (crate::vision::corners) { vision_corner_scores vision_corner_peaks vision_corners }
    (crate::vision::spread) { vision_order vision_ranks vision_spread vision_points }
    (crate::vision::maps) { vision_members vision_nearest vision_log_ratios vision_likelihoods vision_inliers }
    (crate::vision::vote) { vision_vote }
    (crate::vision::refine) { vision_moments vision_step }
    (crate::spatial_search::cells) { point_bounds cell_keys mark_cells gather_points write_cells link_cells }
    (crate::spatial_search::within) { count_within list_within }
    (crate::spatial_search::nearest) { find_nearest }
    (crate::spatial::begin) { spatial_begin }
    (crate::spatial::voxelize) { spatial_voxelize }
    (crate::spatial::index) {
        spatial_number_bricks spatial_mark_cells spatial_count_cells spatial_number_cells
    }
    (crate::spatial::sums) { spatial_rank_points spatial_order_points spatial_sum_points }
    (crate::spatial::area) { spatial_measure_cells spatial_area_of_points spatial_cap_area }
    (crate::spatial::dipoles) { spatial_dipoles spatial_sum_dipoles }
    (crate::spatial::marks) { spatial_mark spatial_mark_intersections }
    (crate::spatial::winding) { spatial_wind_units spatial_wind_voxels spatial_judge_surfaces }
    (crate::spatial::nearby) { spatial_judge_near spatial_judge_holes }
    (crate::spatial::labels) { spatial_judge_free spatial_label spatial_measure spatial_label_points }
    (crate::spatial::flood) {
        spatial_seed spatial_flood_begin spatial_flood_step spatial_flood_turn spatial_flood_conflicts spatial_flood_label
    }
    (crate::spatial::solid) { spatial_fill }
    (crate::warp_demo) { warp_demo memory_demo }
}
