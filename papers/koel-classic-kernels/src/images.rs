//! The GPU code of these kernels: one [`Image`](koel_simt::Image) per family.
koel_simt::images! {
    /// Published tables.
    CLASSIC "classic";
    /// The published matcher of images.
    MATCHER "matcher";
}
