//! Helpers of kernel launches.
use crate::picture::Grey;
use koel::{Buffer, Device, DeviceKind, Stream};
use std::sync::Arc;

/// Image in device memory, a float per pixel.
pub(crate) type Image = Arc<Buffer<u32>>;

/// Byte pattern of [`koel_vision_kernels::edges::NONE`].
pub(crate) const ALL_ONES: u8 = 0xFF;

/// Returns whether images are processed by kernels instead of by rows on the CPU.
pub(crate) fn in_kernels(stream: &Stream) -> bool {
    stream.device().kind() != DeviceKind::Cpu
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
