//! The GPU code that this build carries: one [`Image`] a family of kernels.
//!
//! `cargo xtask ptx` writes the files; a kernel says by `#[kernel(image = NAME)]` to which family
//! it belongs. A program links the images of the kernels that it can launch, and a device loads an
//! image when its first kernel is launched. Which GPUs it has code for is a matter of features:
//! `ptx` (any GPU since compute capability 7.5, compiled by the driver), `sm_8x` (machine code for
//! 8.0, 8.6 and 8.9), `sm_90` and `sm_1xx` (10.0 and 12.0).
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
    /// All of them. A program that uses this list links them all.
    pub static ALL: &[&Image] = &[$(&$name),*];
} }
images! {
    /// Maps of `u32` keys and values: built, looked up, written out.
    MAP "map";
    /// The same for the other layouts of maps.
    MAP_WIDE "map_wide";
    /// Maps of `u32` keys and values: updated.
    MAP_UPDATE "map_update";
    /// The same for the other layouts of maps.
    MAP_UPDATE_WIDE "map_update_wide";
    /// Maps of `u32` keys and values: joined.
    MAP_JOIN "map_join";
    /// The same for the other layouts of maps.
    MAP_JOIN_WIDE "map_join_wide";
    /// Sets: built, looked up, written out.
    SET "set";
    /// Sets: updated.
    SET_UPDATE "set_update";
    /// Unions, intersections and differences of sets.
    SET_COMBINE "set_combine";
    /// Groups of equal keys: indices and multimaps.
    GROUPS "groups";
    /// Keys of 128 bits.
    KEYS128 "keys128";
    /// Scan, reduction, compaction, histogram, partition, radix sort.
    PRIMITIVES "primitives";
    /// The published tables.
    CLASSIC "classic";
    /// Intersection of point clouds.
    SPATIAL "spatial";
    /// Neighbour search.
    SEARCH "search";
    /// Images found in images.
    VISION "vision";
    /// What the machine can do at most; demonstrations.
    PROBE "probe";
}
