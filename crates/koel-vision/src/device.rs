//! What launches share.
use koel::{DeviceKind, Stream};
use koel_kernels::vision::Size;

/// A byte of [`koel_kernels::vision::edges::NONE`].
pub const ALL_ONES: u8 = 0xFF;

/// Whether images go through kernels there, and not through the rows of the CPU.
pub fn in_kernels(stream: &Stream) -> bool {
    stream.device().kind() != DeviceKind::Cpu
}
/// The size of an image as kernels take it.
pub fn size(width: usize, height: usize) -> Size {
    Size { width: width as u32, height: height as u32 }
}
/// Blocks of 256 threads for a thread each.
pub fn grid(n: u32) -> u32 {
    n.div_ceil(256)
}
