//! The GPU code of these kernels: one [`Image`](koel_simt::Image) per family.
koel_simt::images! {
    /// Build, lookup and export of maps with `u32` keys and values.
    MAP "map";
    /// Build, lookup and export of maps in the other layouts.
    MAP_WIDE "map_wide";
    /// Updates of maps with `u32` keys and values.
    MAP_UPDATE "map_update";
    /// Updates of maps in the other layouts.
    MAP_UPDATE_WIDE "map_update_wide";
    /// Joins with maps of `u32` keys and values.
    MAP_JOIN "map_join";
    /// Joins with maps in the other layouts.
    MAP_JOIN_WIDE "map_join_wide";
    /// Build, lookup and export of sets.
    SET "set";
    /// Updates of sets.
    SET_UPDATE "set_update";
    /// Unions, intersections and differences of sets.
    SET_COMBINE "set_combine";
    /// Groups of pairs with equal keys: indices and multimaps.
    GROUPS "groups";
    /// Tables of 128-bit keys.
    KEYS128 "keys128";
    /// Tables of strings.
    STRINGS "strings";
    /// Scan, reduction, compaction, histogram, partition, radix sort.
    PRIMITIVES "primitives";
    /// Measurement of hardware limits, and demonstrations.
    PROBE "probe";
}
