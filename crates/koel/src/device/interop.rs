//! The driver's handles and cudarc's types, in and out: memory and streams of other libraries,
//! without copies.
use super::buffer::{Memory, Shared, check_address};
use super::cuda::{Cuda, CudaMemory, CudaStream};
use super::users::Usage;
use super::{Backing, Buffer, Device, Element, Queue, Stream, View, ViewMut, graph};
use crate::error::{Error, Result};
use cudarc::driver::{self, CudaContext, CudaSlice, DevicePtr, DevicePtrMut, SyncOnDrop};
use std::ffi::c_void;
use std::sync::Arc;

impl Device {
    fn as_cuda(&self, what: &'static str) -> Result<&Cuda> {
        match &self.0.backing {
            Backing::Cuda(cuda) => Ok(cuda),
            _ => Err(Error::NotCuda { what, device: self.name() }),
        }
    }
    /// The GPU of a cudarc context, which must be its primary one (`CudaContext::new`): koel uses
    /// that too, so that memory, streams and events of both are each other's.
    ///
    /// Errors: as [`Device::cuda`]; another context of the GPU.
    pub fn from_cudarc(context: &Arc<CudaContext>) -> Result<Device> {
        let device = Device::cuda(context.ordinal())?;
        check_context(device.as_cuda("Device::from_cudarc")?, context)?;
        Ok(device)
    }
}
fn check_context(cuda: &Cuda, context: &CudaContext) -> Result<()> {
    if cuda.context() == context.cu_ctx() {
        return Ok(());
    }
    Err(Error::Setting {
        field: "context",
        found: format!(
            "a context of device {} that is not its primary one, or of another device",
            context.ordinal()
        ),
        expected: format!("the primary context of {}", cuda.name()),
    })
}

impl Stream {
    fn as_cuda(&self, what: &'static str) -> Result<&CudaStream> {
        match &self.0.queue {
            Queue::Cuda(stream) => Ok(stream),
            Queue::Host => Err(Error::NotCuda { what, device: self.device().name() }),
        }
    }
    fn of_queue(device: &Device, queue: CudaStream) -> Stream {
        Stream::new(device, Queue::Cuda(queue), None)
    }
    /// Another library's stream (a `CUstream`, which is a `cudaStream_t`; null is the legacy
    /// default stream). koel puts work on it and never destroys it. The default stream of a
    /// thread is refused: it is another one on every thread.
    ///
    /// While its owner captures it, koel's work becomes part of the owner's graph. Buffers that
    /// another stream used last must then be used on it once before the capture: to wait for
    /// the other stream is an error inside.
    ///
    /// Errors: a device that is no GPU, a stream of another context.
    ///
    /// # Safety
    /// It is a stream, and stays one for as long as the result, its clones, and buffers that were
    /// used on it last.
    pub unsafe fn from_raw(device: &Device, stream: *mut c_void) -> Result<Stream> {
        // SAFETY: the caller's.
        let queue = unsafe { device.as_cuda("Stream::from_raw")?.borrow_stream(stream.cast()) }?;
        Ok(Stream::of_queue(device, queue))
    }
    /// The driver's handle (a `CUstream`, which is a `cudaStream_t`) of a stream of a GPU, for
    /// other libraries. It lives as long as the stream and its clones.
    pub fn raw(&self) -> Option<*mut c_void> {
        self.as_cuda("Stream::raw").ok().map(|stream| stream.raw().cast())
    }
    /// cudarc's stream, which the result keeps alive.
    ///
    /// Errors: a device that is no GPU, a stream of another context.
    pub fn from_cudarc(device: &Device, stream: &Arc<driver::CudaStream>) -> Result<Stream> {
        let cuda = device.as_cuda("Stream::from_cudarc")?;
        check_context(cuda, stream.context())?;
        // SAFETY: kept alive.
        let queue = unsafe { cuda.borrow_stream(stream.cu_stream()) }?;
        queue.keep(stream.clone());
        Ok(Stream::of_queue(device, queue))
    }
    /// Calls `work` with a `CudaSlice` or `CudaView` of cudarc's, to be read on this stream: it
    /// waits for what cudarc knows to write the slice, and afterwards cudarc learns what was
    /// put on the stream meanwhile.
    ///
    /// Errors: those of `work`; a device that is no GPU, a slice of another context, inside a
    /// capture (lend before it).
    pub fn lend<T: Element, R>(
        &self,
        slice: &impl DevicePtr<T>,
        work: impl FnOnce(View<'_, T>) -> Result<R>,
    ) -> Result<R> {
        let stream = self.for_slice("Stream::lend", slice.stream().context())?;
        let (address, order) = slice.device_ptr(stream);
        let lent = Lent::new::<T>(self, address, slice.len(), order)?;
        work(View::of(&lent.shared, lent.address, slice.len()))
    }
    /// Calls `work` with a `CudaSlice` or `CudaViewMut` of cudarc's, to be written on this stream.
    /// As [`lend`](Self::lend), but waits for readers, too.
    pub fn lend_mut<T: Element, R>(
        &self,
        slice: &mut impl DevicePtrMut<T>,
        work: impl FnOnce(ViewMut<'_, T>) -> Result<R>,
    ) -> Result<R> {
        let (len, stream) =
            (slice.len(), self.for_slice("Stream::lend_mut", slice.stream().context())?);
        let (address, order) = slice.device_ptr_mut(stream);
        let lent = Lent::new::<T>(self, address, len, order)?;
        work(ViewMut::of(&lent.shared, lent.address, len))
    }
    /// This stream as cudarc's, for a slice of a context.
    fn for_slice(
        &self,
        operation: &'static str,
        context: &Arc<CudaContext>,
    ) -> Result<&driver::CudaStream> {
        let stream = self.as_cuda(operation)?;
        let reason = "cudarc's events are outside: do that before";
        graph::outside_only(operation, self.device(), reason)?;
        self.check_usable()?;
        check_context(stream.cuda(), context)?;
        Ok(stream.as_cudarc(context))
    }
}

/// A slice of cudarc's on loan to a stream. It is never given out: if it were leaked, cudarc would
/// not learn of the uses, and could free the slice under them.
struct Lent<'a> {
    shared: Arc<Shared>,
    address: u64,
    stream: &'a Stream,
    /// cudarc orders by events. (If not, all its work is on the legacy default stream.)
    events: bool,
    /// Dropped after `drop` has run.
    _order: SyncOnDrop<'a>,
}
impl<'a> Lent<'a> {
    fn new<T: Element>(
        stream: &'a Stream,
        address: u64,
        len: usize,
        order: SyncOnDrop<'a>,
    ) -> Result<Lent<'a>> {
        let address = check_address::<T>(address, len)?;
        let queue = stream.as_cuda("Stream::lend")?;
        let events = queue.cudarc_orders();
        if !events {
            queue.follow_legacy()?;
        }
        let shared =
            Shared::new(stream.device(), Memory::Lent, len * size_of::<T>(), Some(stream.clone()));
        Ok(Lent { shared, address, stream, events, _order: order })
    }
}
impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // Whatever other stream used it: the one that cudarc learns of follows it. An error means a
        // lost context.
        let _ = self.shared.used_on(self.stream, Usage::Write);
        if !self.events
            && let Queue::Cuda(queue) = &self.stream.0.queue
        {
            let _ = queue.lead_legacy();
        }
    }
}

impl<T: Element> Buffer<T> {
    /// Its memory as a slice of cudarc's, for use on `stream`, which waits for what used it before.
    /// Copies nothing.
    ///
    /// Errors: a device that is no GPU, a stream of another context, inside a capture. A graph that
    /// uses the buffer can no longer be launched.
    pub fn into_cudarc(self, stream: &Arc<driver::CudaStream>) -> Result<CudaSlice<T>> {
        let (device, len) = (self.device().clone(), self.len());
        let theirs = Stream::from_cudarc(&device, stream)?;
        let mut shared = self.into_shared();
        shared.used_on(&theirs, Usage::Write)?;
        // From here on no graph finds it; one that is being launched now has it for a moment.
        let (memory, users) = loop {
            match Arc::try_unwrap(shared) {
                Ok(shared) => break shared.into_memory(),
                Err(again) => shared = again,
            }
            std::thread::yield_now();
        };
        users.last().try_for_each(|last| theirs.0.follow(Some(last)))?;
        let Memory::Cuda(memory) = memory else { unreachable!("a GPU's buffer") };
        // SAFETY: an allocation of `len` elements from the driver's pool, any bytes of which are
        // elements; cudarc frees it, in the order of the stream, which follows every
        // earlier use.
        Ok(unsafe { stream.upgrade_device_ptr(memory.release(), len) })
    }
    /// A slice of cudarc's as a buffer. Copies nothing. cudarc's stream stays alive as long as it
    /// was the last to use it.
    ///
    /// Errors: a device that is no GPU, a slice of another context or that begins on no multiple of
    /// 128 bytes.
    pub fn from_cudarc(device: &Device, slice: CudaSlice<T>) -> Result<Buffer<T>> {
        let cuda = device.as_cuda("Buffer::from_cudarc")?;
        graph::outside_only("Buffer::from_cudarc", device, graph::ALLOCATES)?;
        let (stream, len) = (Stream::from_cudarc(device, slice.stream())?, slice.len());
        let address = slice.device_ptr(slice.stream()).0;
        if !address.is_multiple_of(128) {
            let found = format!("at {address:#x}");
            return Err(Error::Setting {
                field: "slice",
                found,
                expected: "on a multiple of 128 bytes".into(),
            });
        }
        let memory = Memory::Cuda(CudaMemory::adopt(cuda, slice.leak()));
        Ok(Buffer::of(Shared::new(device, memory, len * size_of::<T>(), Some(stream)), len))
    }
}
