//! Helpers of kernel launches.
use crate::picture::Grey;
use koel::{Buffer, Device, DeviceKind, Stream};
use koel_kernels::vision::Size;
use koel_simt::host::run_v3;
use std::cell::Cell;
use std::sync::Arc;

/// Image in device memory, a float per pixel.
pub(crate) type Image = Arc<Buffer<u32>>;

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
/// Copies an image to a device.
pub(crate) fn upload(image: &Grey, device: &Device) -> koel::Result<Image> {
    let words = image.pixels.iter().map(|v| v.to_bits()).collect::<Vec<u32>>();
    Ok(Arc::new(device.upload(&words)?))
}
/// Runs `f` in the thread pool: each of many short loops would wake the threads again if it came
/// from outside.
pub(crate) fn in_pool<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    rayon::scope(|_| f())
}

/// Work of a thread, compiled twice: see [`on_v3`].
pub(crate) trait Work {
    /// Does the work; implementations are always inlined.
    fn run(self);
}
/// Runs `work` with the instructions of x86-64-v3, if the CPU has them. Results are the same.
pub(crate) fn on_v3(work: impl Work) {
    let work = Cell::new(Some(work));
    // Two closures: each must be inlined to be compiled for its CPU.
    run_v3(
        #[inline(always)]
        || {
            if let Some(work) = work.take() {
                work.run();
            }
        },
        #[inline(always)]
        || {
            if let Some(work) = work.take() {
                work.run();
            }
        },
    );
}
