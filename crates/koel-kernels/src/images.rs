//! The GPU code in this build: one [`Image`] per family of kernels.
//!
//! `cargo xtask ptx` writes the files; `#[kernel(image = NAME)]` assigns a kernel to its family. A
//! program links the images of the kernels that it can launch, and a device loads an image when its
//! first kernel is launched. Features choose the GPUs that images have code for: `ptx` (any GPU
//! since compute capability 7.5, compiled by the driver), `sm_8x` (machine code for 8.0, 8.6 and
//! 8.9), `sm_90` and `sm_1xx` (10.0 and 12.0).
use koel_simt::Image;

macro_rules! images { ($($(#[$doc:meta])* $name:ident $file:literal;)*) => {
    $(
        $(#[$doc])*
        pub static $name: Image = Image {
            name: $file,
            files: &[
                #[cfg(feature = "sm_8x")]
                include_bytes!(concat!("../images/", $file, ".sm_8x")),
                #[cfg(feature = "sm_90")]
                include_bytes!(concat!("../images/", $file, ".sm_90")),
                #[cfg(feature = "sm_1xx")]
                include_bytes!(concat!("../images/", $file, ".sm_1xx")),
                #[cfg(feature = "ptx")]
                include_bytes!(concat!("../images/", $file, ".ptx")),
            ],
        };
    )*
    /// All images. A program that uses this list links all of them.
    pub static ALL: &[&Image] = &[$(&$name),*];
} }
images! {
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
    /// Published tables.
    CLASSIC "classic";
    /// Intersection of point clouds.
    SPATIAL "spatial";
    /// Nearest-neighbour search.
    SEARCH "search";
    /// Search for images in images.
    VISION "vision";
    /// Measurement of hardware limits, and demonstrations.
    PROBE "probe";
}
