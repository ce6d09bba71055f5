//! Pinned host memory, through which large copies between host and device go.
//!
//! The driver copies from and to pageable memory at 8 to 9 GB/s on an H200, through one thread;
//! from and to pinned memory it reached 55. So large copies go piece by piece through pinned slots:
//! all cores copy one piece between the caller's memory and a slot while the device copies others.
//! The copies are on the legacy default stream, like those of the driver.
use super::{Context, Cuda, CudaStream, LEGACY, driver};
use crate::error::Result;
use crate::parallel;
use cudarc::driver::{result, sys};
use std::mem::MaybeUninit;

/// Smaller copies are left to the driver.
const MIN_BYTES: usize = 64 << 10;
/// Number of slots: the device works on some while the host works on another.
const SLOTS: usize = 4;
/// Smallest and greatest size of a slot. Pinning takes about a quarter of a millisecond per
/// megabyte, so that slots only grow when larger copies need it.
const SLOT_BYTES: (usize, usize) = (512 << 10, 8 << 20);

/// The slots of a device; none before the first large copy.
#[derive(Default)]
pub(super) struct Staging {
    slots: Vec<Slot>,
    next: usize,
}
/// Pinned memory, and the last copy that used it.
struct Slot {
    memory: *mut u8,
    bytes: usize,
    copied: sys::CUevent,
}
// SAFETY: plain memory and a driver handle, used by whoever has the slot mutably.
unsafe impl Send for Slot {}

impl Staging {
    /// Copies to device memory; there are slots for that. On return the source is free, although
    /// the device may still be copying.
    ///
    /// # Safety
    /// `to` is `from.len()` bytes of live device memory, which only the legacy default stream and
    /// streams that wait for it use.
    pub(super) unsafe fn upload(&mut self, to: u64, from: &[u8]) -> Result<()> {
        let piece = self.piece(from.len());
        for (i, from) in from.chunks(piece).enumerate() {
            let slot = self.take();
            slot.wait()?;
            // SAFETY: the slot has this many bytes, and the device has finished with them.
            let staged = unsafe {
                std::slice::from_raw_parts_mut(slot.memory.cast::<MaybeUninit<u8>>(), from.len())
            };
            parallel::fill(staged, |start, part| {
                part.write_copy_of_slice(&from[start..][..part.len()]);
            });
            // SAFETY: both are valid for this many bytes; the slot is not touched before the event.
            unsafe {
                let to = to + (i * piece) as u64;
                sys::cuMemcpyHtoDAsync_v2(to, slot.memory.cast(), from.len(), LEGACY)
            }
            .result()
            .map_err(driver("cuMemcpyHtoDAsync"))?;
            slot.mark()?;
        }
        Ok(())
    }
    /// Copies device memory to the host; there are slots for that. Calls `take` with each piece and
    /// its offset, in order.
    ///
    /// # Safety
    /// `from` is `bytes` bytes of live, initialised device memory, and all writes of it precede
    /// what is put on the legacy default stream now.
    pub(super) unsafe fn download(
        &mut self,
        from: u64,
        bytes: usize,
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<()> {
        let piece = self.piece(bytes);
        let (count, first) = (bytes.div_ceil(piece), self.next);
        let length = |i: usize| piece.min(bytes - i * piece);
        for i in 0..count + SLOTS {
            if let Some(i) = i.checked_sub(SLOTS) {
                let slot = &self.slots[(first + i) % SLOTS];
                slot.wait()?;
                // SAFETY: the device has copied this many bytes, and the slot is not used again
                // before `take` returns.
                let staged = unsafe { std::slice::from_raw_parts(slot.memory, length(i)) };
                take(i * piece, staged);
            }
            if i < count {
                let slot = self.take();
                slot.wait()?;
                // SAFETY: both are valid for this many bytes; the host reads the slot after the
                // event.
                unsafe {
                    let from = from + (i * piece) as u64;
                    sys::cuMemcpyDtoHAsync_v2(slot.memory.cast(), from, length(i), LEGACY)
                }
                .result()
                .map_err(driver("cuMemcpyDtoHAsync"))?;
                slot.mark()?;
            }
        }
        Ok(())
    }
    /// Returns the size of the pieces of a copy: two rounds of all slots, so that host and device
    /// work at the same time.
    fn piece(&self, bytes: usize) -> usize {
        (bytes / (2 * SLOTS)).next_power_of_two().clamp(SLOT_BYTES.0, SLOT_BYTES.1)
    }
    /// Makes slots for a copy of this size.
    fn reserve(&mut self, bytes: usize) -> Result<()> {
        let piece = self.piece(bytes);
        if self.slots.first().is_none_or(|slot| slot.bytes < piece) {
            self.free();
            self.slots = (0..SLOTS).map(|_| Slot::new(piece)).collect::<Result<_>>()?;
        }
        Ok(())
    }
    /// Returns the slot that was used longest ago.
    fn take(&mut self) -> &mut Slot {
        self.next = (self.next + 1) % SLOTS;
        &mut self.slots[(self.next + SLOTS - 1) % SLOTS]
    }
    /// Frees the slots. The context must be current.
    pub(super) fn free(&mut self) {
        self.slots.clear();
    }
}
impl Slot {
    fn new(bytes: usize) -> Result<Slot> {
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
        let copied = result::event::create(flags).map_err(driver("cuEventCreate"))?;
        let mut slot = Slot { memory: std::ptr::null_mut(), bytes, copied };
        // SAFETY: freed once, when the slot is dropped.
        slot.memory =
            unsafe { result::malloc_host(bytes, 0) }.map_err(driver("cuMemHostAlloc"))?.cast();
        Ok(slot)
    }
    /// Waits until the device has finished with the slot.
    fn wait(&self) -> Result<()> {
        // SAFETY: the event is alive. One that was never recorded is complete.
        unsafe { result::event::synchronize(self.copied) }.map_err(driver("cuEventSynchronize"))
    }
    /// Records that the device uses the slot until now.
    fn mark(&self) -> Result<()> {
        // SAFETY: the event is alive.
        unsafe { result::event::record(self.copied, LEGACY) }.map_err(driver("cuEventRecord"))
    }
}
impl Drop for Slot {
    fn drop(&mut self) {
        // Errors mean that the context is lost, and all memory with it.
        let _ = self.wait();
        // SAFETY: made by `new`, and nothing uses them any more.
        unsafe {
            let _ = result::event::destroy(self.copied);
            if !self.memory.is_null() {
                let _ = result::free_host(self.memory.cast());
            }
        }
    }
}
impl Cuda {
    /// Calls `run` with a function that copies `bytes` bytes between pinned host memory and the
    /// memory at `address`, in the order of a stream: to the device if its argument is true.
    ///
    /// # Safety
    /// `address` is `bytes` bytes of live device memory that only this stream uses.
    pub(in crate::device) unsafe fn with_pinned_copies<R>(
        &self,
        stream: &CudaStream,
        address: u64,
        bytes: usize,
        run: impl FnOnce(&dyn Fn(bool) -> Result<()>) -> Result<R>,
    ) -> Result<R> {
        self.0.bind()?;
        let slot = Slot::new(bytes)?;
        let result = run(&|up| {
            let host = slot.memory.cast();
            // SAFETY: both are valid for this many bytes, and stay so until the stream has ended.
            unsafe {
                match up {
                    true => sys::cuMemcpyHtoDAsync_v2(address, host, bytes, stream.raw()),
                    false => sys::cuMemcpyDtoHAsync_v2(host, address, bytes, stream.raw()),
                }
            }
            .result()
            .map_err(driver("cuMemcpyAsync"))
        });
        stream.synchronize()?;
        result
    }
}
impl Context {
    /// Runs a copy of this size with the slots, unless it is small, another copy has the slots, or
    /// there is no memory to pin.
    ///
    /// Never waits for another copy: host code that runs in parallel may come here again while it
    /// waits inside of one.
    pub(super) fn staged(
        &self,
        bytes: usize,
        copy: impl FnOnce(&mut Staging) -> Result<()>,
    ) -> Option<Result<()>> {
        if bytes < MIN_BYTES {
            return None;
        }
        let mut staging = self.staging.try_lock().ok()?;
        staging.reserve(bytes).ok()?;
        Some(copy(&mut staging))
    }
}
