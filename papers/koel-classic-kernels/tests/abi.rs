//! Checks what a CUDA launcher passes to the driver against what the committed images declare and
//! hold.
use koel_classic_kernels::{entries, images};

#[test]
fn images_hold_what_launchers_expect() {
    koel_simt::host::assert_images(images::ALL, entries::ALL);
}
