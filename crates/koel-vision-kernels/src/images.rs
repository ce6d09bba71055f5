//! The GPU code of these kernels.
koel_simt::images! {
    /// Search for images in images.
    VISION "vision";
}
