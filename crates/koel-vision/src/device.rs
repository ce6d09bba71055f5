//! Helpers of kernel launches.
use koel::{DeviceKind, Stream};
use koel_kernels::vision::Size;

/// Byte pattern of [`koel_kernels::vision::edges::NONE`].
pub(crate) const ALL_ONES: u8 = 0xFF;

/// Returns whether images are processed by kernels instead of by rows on the CPU.
pub(crate) fn in_kernels(stream: &Stream) -> bool {
    stream.device().kind() != DeviceKind::Cpu
}
/// Returns the size of an image as a kernel argument.
pub(crate) fn size(width: usize, height: usize) -> Size {
    Size { width: width as u32, height: height as u32 }
}
/// Returns the number of blocks of 256 threads for `n` threads.
pub(crate) fn grid(n: u32) -> u32 {
    n.div_ceil(256)
}
