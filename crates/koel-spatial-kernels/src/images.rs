//! The GPU code of these kernels: one [`Image`](koel_simt::Image) per family.
koel_simt::images! {
    /// Intersection of point clouds.
    SPATIAL "spatial";
    /// Nearest-neighbour search.
    SEARCH "search";
}
