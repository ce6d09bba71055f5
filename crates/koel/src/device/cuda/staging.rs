//! Pinned host memory, through which large copies between host and device go.
//!
//! The driver copies from and to pageable memory at 8 to 9 GB/s on an H200, through one thread;
//! from and to pinned memory it reached 55. So large copies are divided into pieces, which go
//! through slots of pinned memory. One thread calls the driver; it and others copy between the
//! caller's memory and the slots meanwhile. (Driver calls from several threads wait for each
//! other: copies took twice as long.)
use super::crew::Crew;
use super::{Cuda, CudaStream, LEGACY, driver};
use crate::error::Result;
use crate::parallel::{LARGE, Pieces, SMALL_PIECE};
use cudarc::driver::{result, sys};
use std::time::Instant;

/// Smaller copies are left to the driver.
pub(in crate::device) const MIN_BYTES: usize = 64 << 10;
/// Bytes up to which one thread copies all: others would wake up too late.
const MAX_ALONE: usize = 1 << 20;
/// Maximum number of threads that help: they copy as fast as host memory allows.
const MAX_HELPERS: usize = 15;
/// Bytes of a piece of a large copy to the device, and units of a piece, which several threads copy
/// so that the device can begin soon.
const UP_PIECE: usize = 1 << 20;
const UP_UNITS: usize = 8;
/// Minimum and maximum bytes of all slots. Pinning takes about a quarter of a millisecond per
/// megabyte, so the memory only grows when larger copies need it.
const BYTES: (usize, usize) = (1 << 20, 32 << 20);
/// Number of copies of at most [`MAX_ALONE`] bytes that are left to the driver before memory is
/// pinned for such a one: pinning takes two milliseconds, which the first calls of a program save.
const EARLY: usize = 8;
/// Maximum number of slots.
const MAX_SLOTS: usize = 32;
/// Alignment of the columns of a piece in a slot.
const ALIGN: usize = 16;

/// Pinned memory, divided into slots which are used in turn. None before the first large copy.
#[derive(Default)]
pub(super) struct Staging {
    memory: Option<Pinned>,
    slot_bytes: usize,
    /// The last copy from or to each slot.
    copied: Vec<Event>,
    /// Next slot.
    next: usize,
    /// Number of copies that were left to the driver because no memory is pinned.
    early: usize,
    /// Bytes that could be pinned when more could not.
    limit: Option<usize>,
}
/// Pinned, initialised memory.
struct Pinned {
    start: *mut u8,
    bytes: usize,
}
// SAFETY: plain memory; the slots say who uses it.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}
/// An event of the driver.
struct Event(sys::CUevent);
// SAFETY: a driver handle, which any thread may use.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

/// Device memory of elements of `size` bytes.
#[derive(Clone, Copy)]
pub(in crate::device) struct Column {
    pub address: u64,
    pub size: usize,
}
impl Column {
    /// Returns the bytes of `len` elements in a slot.
    fn room(self, len: usize) -> usize {
        (len * self.size).next_multiple_of(ALIGN)
    }
}

/// Divides memory that a copy fills.
pub(in crate::device) fn pieces_of<T>(to: &[T]) -> Pieces {
    match size_of_val(to) {
        ..=MAX_ALONE => Pieces::even(to.len(), to.len()),
        _ => Pieces::of(to, SMALL_PIECE),
    }
}
/// Returns the number of threads that help with a copy.
fn helpers(bytes: usize, units: usize) -> usize {
    let others = rayon::current_num_threads().min(units).saturating_sub(1);
    if bytes <= MAX_ALONE { 0 } else { others.min(MAX_HELPERS) }
}

/// The slots of one copy.
struct Slots<'a> {
    memory: &'a Pinned,
    bytes: usize,
    copied: &'a [Event],
    /// Slot of the first piece.
    first: usize,
}
impl Slots<'_> {
    fn number(&self, piece: usize) -> usize {
        (self.first + piece) % self.copied.len()
    }
    fn event(&self, piece: usize) -> &Event {
        &self.copied[self.number(piece)]
    }
    /// Returns bytes of the slot of a piece. Panics if it has too few.
    ///
    /// # Safety
    /// Nothing else uses these bytes now, neither the device nor another thread.
    #[expect(clippy::mut_from_ref, reason = "the pieces of the memory are distinct")]
    unsafe fn part(&self, piece: usize, start: usize, len: usize) -> &mut [u8] {
        let at = self.number(piece) * self.bytes + start;
        assert!(start + len <= self.bytes && at + len <= self.memory.bytes);
        // SAFETY: inside the memory, and for the caller alone.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start.add(at), len) }
    }
}
impl Staging {
    /// Divides the memory into slots of this size, for this many pieces. The context must be
    /// current.
    fn slots(&mut self, bytes: usize, pieces: usize) -> Result<Slots<'_>> {
        let wanted = (bytes * pieces.min(MAX_SLOTS)).next_power_of_two().clamp(BYTES.0, BYTES.1);
        let wanted = wanted.min(self.limit.unwrap_or(usize::MAX)).max(bytes);
        let memory = match self.memory.take() {
            Some(memory) if memory.bytes >= wanted => memory,
            old => {
                self.finish()?;
                drop(old);
                self.pinned(wanted, bytes)?
            }
        };
        if self.slot_bytes != bytes {
            self.finish()?;
            (self.slot_bytes, self.next) = (bytes, 0);
        }
        let memory = &*self.memory.insert(memory);
        let count = (memory.bytes / bytes).min(MAX_SLOTS);
        while self.copied.len() < count {
            self.copied.push(Event::new()?);
        }
        let first = self.next % count;
        self.next = (first + pieces) % count;
        Ok(Slots { memory, bytes, copied: &self.copied[..count], first })
    }
    /// Pins `wanted` bytes, or fewer if the system does not grant as many, but `least`.
    fn pinned(&mut self, wanted: usize, least: usize) -> Result<Pinned> {
        let mut bytes = wanted;
        loop {
            match Pinned::new(bytes) {
                Err(_) if bytes / 2 >= least => bytes /= 2,
                pinned => {
                    self.limit = (bytes < wanted).then_some(bytes).or(self.limit);
                    return pinned;
                }
            }
        }
    }
    /// Waits for all copies.
    fn finish(&self) -> Result<()> {
        self.copied.iter().try_for_each(Event::wait)
    }
    /// Frees the memory. The context must be current.
    pub(super) fn free(&mut self) {
        let _ = self.finish(); // an error means that the context is lost, and all memory with it
        *self = Staging::default();
    }
}
impl Cuda {
    /// Copies to device memory. On return the source is free, although the device may still be
    /// copying, on the legacy default stream. Returns `None`, before any copy, if the copy has to
    /// be made in another way.
    ///
    /// # Safety
    /// `to` is `from.len()` bytes of live device memory, which only the legacy default stream and
    /// streams that wait for it use.
    pub(super) unsafe fn upload(&self, to: u64, from: &[u8]) -> Option<Result<()>> {
        let piece = match from.len() {
            bytes @ ..=MAX_ALONE => bytes.max(1).next_multiple_of(MIN_BYTES),
            ..LARGE => SMALL_PIECE,
            _ => UP_PIECE,
        };
        let (pieces, unit) = (Pieces::even(from.len(), piece), piece.div_ceil(UP_UNITS));
        let (count, units) = (pieces.count(), from.len().div_ceil(unit));
        self.with_slots(from.len(), piece, count, |slots| {
            let fill = |i: usize| {
                let (start, from) = (i % UP_UNITS * unit, &from[i * unit..]);
                let from = &from[..from.len().min(unit)];
                // SAFETY: the unit is ready, so the device has finished with the slot; no other
                // thread has this unit.
                unsafe { slots.part(i / UP_UNITS, start, from.len()) }.copy_from_slice(from);
            };
            let crew = Crew::new(units, UP_UNITS, &fill);
            crew.run(helpers(from.len(), units), || {
                let (mut ready, mut sent) = (0, 0);
                while sent < count {
                    // A slot is free again when the device has copied its last piece.
                    let again = ready < count && ready < sent + slots.copied.len();
                    if again && slots.event(ready).has_happened()? {
                        ready += 1;
                        crew.make_ready(ready * UP_UNITS);
                    } else if sent < ready && crew.is_done(sent) {
                        let range = pieces.range(sent);
                        // SAFETY: both are valid for this many bytes. No thread uses the slot
                        // before the event.
                        unsafe {
                            let staged = slots.part(sent, 0, range.len()).as_ptr().cast();
                            let to = to + range.start as u64;
                            sys::cuMemcpyHtoDAsync_v2(to, staged, range.len(), LEGACY)
                        }
                        .result()
                        .map_err(driver("cuMemcpyHtoDAsync"))?;
                        slots.event(sent).record(LEGACY)?;
                        sent += 1;
                    } else {
                        crew.step();
                    }
                }
                Ok(())
            })
        })
    }
    /// Copies columns of device memory to slots, after the work that is on the stream `after`, and
    /// calls `take` with each piece and its number, on several threads. Returns `None`, before any
    /// call, if the copy has to be made in another way.
    ///
    /// # Safety
    /// The columns are `pieces` of live, initialised device memory, and all writes of it precede
    /// what is put on the stream now: `after`, or else the legacy default stream.
    pub(in crate::device) unsafe fn download<const N: usize>(
        &self,
        columns: [Column; N],
        pieces: Pieces,
        after: Option<&CudaStream>,
        take: &(dyn Fn(usize, [&[u8]; N]) + Sync),
    ) -> Option<Result<()>> {
        let places = |len: usize| {
            let mut end = 0;
            let starts = columns.map(|column| {
                end += column.room(len);
                end - column.room(len)
            });
            (starts, end)
        };
        let (count, bytes) = (pieces.count(), places(pieces.len()).1);
        let stream = after.map_or(LEGACY, |stream| stream.raw());
        let copied = self.with_slots(bytes, places(pieces.longest()).1, count, |slots| {
            let empty = |i: usize| {
                let len = pieces.range(i).len();
                let (starts, end) = places(len);
                // SAFETY: the unit is ready, so the device has copied these bytes; no other thread
                // has this unit.
                let staged = &*unsafe { slots.part(i, 0, end) };
                take(i, std::array::from_fn(|c| &staged[starts[c]..][..len * columns[c].size]));
            };
            let crew = Crew::new(count, 1, &empty);
            let helpers = helpers(bytes, count);
            if let Some(stream) = after.filter(|_| helpers > 0) {
                stream.synchronize()?; // helpers would wait busily for kernels
            }
            crew.run(helpers, || {
                let (mut sent, mut arrived, mut taken) = (0usize, 0, 0);
                let mut since = (0, Instant::now());
                while taken < count {
                    // A slot is free again when its last piece has been taken, or the device has
                    // copied it for an earlier call.
                    let free = match sent.checked_sub(slots.copied.len()) {
                        _ if sent == count => false,
                        Some(before) => before < taken,
                        None => slots.event(sent).has_happened()?,
                    };
                    if free {
                        let range = pieces.range(sent);
                        for (column, start) in columns.iter().zip(places(range.len()).0) {
                            let from = column.address + (range.start * column.size) as u64;
                            // SAFETY: both are valid for this many bytes. No thread uses the slot
                            // before the event.
                            unsafe {
                                let to = slots.part(sent, start, range.len() * column.size);
                                let (to, bytes) = (to.as_mut_ptr().cast(), to.len());
                                sys::cuMemcpyDtoHAsync_v2(to, from, bytes, stream)
                            }
                            .result()
                            .map_err(driver("cuMemcpyDtoHAsync"))?;
                        }
                        slots.event(sent).record(stream)?;
                        sent += 1;
                    } else if arrived < sent && slots.event(arrived).has_happened()? {
                        arrived += 1;
                        crew.make_ready(arrived);
                    } else if taken < arrived && crew.is_done(taken) {
                        taken += 1;
                    } else {
                        crew.step_if_late(helpers, &mut since);
                    }
                }
                Ok(())
            })
        });
        // The stream names the kernel that failed.
        copied.map(|copied| match after {
            Some(stream) if copied.is_err() => stream.synchronize().and(copied),
            _ => copied,
        })
    }
    /// Calls `copy` with slots, for a copy of `bytes` bytes. Returns `None` if that is little, or
    /// one of the first small copies, another copy has the slots, or there is no memory to pin.
    ///
    /// Never waits for another copy: host code that runs in parallel may come here again while it
    /// waits inside of one.
    fn with_slots(
        &self,
        bytes: usize,
        slot_bytes: usize,
        pieces: usize,
        copy: impl FnOnce(&Slots<'_>) -> Result<()>,
    ) -> Option<Result<()>> {
        if bytes < MIN_BYTES {
            return None;
        }
        if let Err(e) = self.0.bind() {
            return Some(Err(e));
        }
        let mut staging = self.0.staging.try_lock().ok()?;
        if staging.memory.is_none() && bytes <= MAX_ALONE && staging.early < EARLY {
            staging.early += 1;
            return None;
        }
        let slots = staging.slots(slot_bytes, pieces).ok()?;
        let copied = copy(&slots);
        if copied.is_err() {
            staging.free();
        }
        Some(copied)
    }
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
        let memory = Pinned::new(bytes)?;
        let result = run(&|up| {
            let host = memory.start.cast();
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
impl Pinned {
    fn new(bytes: usize) -> Result<Pinned> {
        // SAFETY: freed once, when dropped.
        let start = unsafe { result::malloc_host(bytes, 0) }.map_err(driver("cuMemHostAlloc"))?;
        let start = start.cast::<u8>();
        // SAFETY: this many bytes; from now on they are initialised.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Pinned { start, bytes })
    }
}
impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: made by `new`; `Staging::free` has waited for the copies. An error means that the
        // context is lost, and the memory with it.
        let _ = unsafe { result::free_host(self.start.cast()) };
    }
}
impl Event {
    fn new() -> Result<Event> {
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
        result::event::create(flags).map(Event).map_err(driver("cuEventCreate"))
    }
    fn record(&self, stream: sys::CUstream) -> Result<()> {
        // SAFETY: both are alive.
        unsafe { result::event::record(self.0, stream) }.map_err(driver("cuEventRecord"))
    }
    /// Waits for what it was recorded after last, if anything.
    fn wait(&self) -> Result<()> {
        // SAFETY: the event is alive.
        unsafe { result::event::synchronize(self.0) }.map_err(driver("cuEventSynchronize"))
    }
    /// Returns whether [`wait`](Self::wait) would not wait.
    fn has_happened(&self) -> Result<bool> {
        // SAFETY: the event is alive.
        match unsafe { sys::cuEventQuery(self.0) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => other.result().map(|()| true).map_err(driver("cuEventQuery")),
        }
    }
}
impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: destroyed once. An error means that the context is lost.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}
