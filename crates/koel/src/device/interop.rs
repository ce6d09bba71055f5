//! Conversion to and from driver handles and cudarc's types: memory and streams of other libraries,
//! without copies.
use super::buffer::{Memory, Shared, check_address};
use super::cuda::{Cuda, CudaMemory, CudaStream};
use super::users::Usage;
use super::{Backing, Buffer, Device, Element, Queue, Stream, View, ViewMut, graph};
use crate::error::{Error, Result};
use cudarc::driver::{
    self, CudaContext, CudaSlice, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, SyncOnDrop,
};
use std::ffi::c_void;
use std::sync::Arc;

impl Device {
    fn as_cuda(&self, what: &'static str) -> Result<&Cuda> {
        match &self.0.backing {
            Backing::Cuda(cuda) => Ok(cuda),
            _ => Err(Error::NotCuda { what, device: self.name() }),
        }
    }
    /// Opens the GPU of a cudarc context, which must be its primary one (`CudaContext::new`). koel
    /// uses that context too, so memory, streams and events can be exchanged.
    ///
    /// Errors: as for [`Device::cuda`]; another context of the GPU.
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

/// A `CudaSlice`, `CudaView` or `CudaViewMut` of cudarc. The trait is sealed: cudarc's own trait is
/// safe to implement, and promises nothing about the address that it returns.
///
/// ```compile_fail,E0277
/// use koel::device::cudarc::driver::{CudaStream, DevicePtr, DeviceSlice, SyncOnDrop};
/// use std::sync::Arc;
///
/// struct Anywhere(Arc<CudaStream>);
/// impl DeviceSlice<u32> for Anywhere {
///     fn len(&self) -> usize {
///         1 << 40
///     }
///     fn stream(&self) -> &Arc<CudaStream> {
///         &self.0
///     }
/// }
/// impl DevicePtr<u32> for Anywhere {
///     fn device_ptr<'a>(&'a self, _: &'a CudaStream) -> (u64, SyncOnDrop<'a>) {
///         (0x1234_5600, SyncOnDrop::Sync(None))
///     }
/// }
/// fn lend(stream: &koel::Stream, anywhere: &Anywhere) -> koel::Result<Vec<u32>> {
///     stream.lend(anywhere, |view| view.download())
/// }
/// ```
pub trait Lendable<T>: sealed::Sealed + DevicePtr<T> {}
/// A `CudaSlice` or `CudaViewMut` of cudarc. The trait is sealed, as [`Lendable`] is.
pub trait LendableMut<T>: sealed::Sealed + DevicePtrMut<T> {}
mod sealed {
    use super::{CudaSlice, CudaView, CudaViewMut};

    pub trait Sealed {}
    impl<T> Sealed for CudaSlice<T> {}
    impl<T> Sealed for CudaView<'_, T> {}
    impl<T> Sealed for CudaViewMut<'_, T> {}
}
impl<T> Lendable<T> for CudaSlice<T> {}
impl<T> Lendable<T> for CudaView<'_, T> {}
impl<T> Lendable<T> for CudaViewMut<'_, T> {}
impl<T> LendableMut<T> for CudaSlice<T> {}
impl<T> LendableMut<T> for CudaViewMut<'_, T> {}

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
    /// Wraps another library's stream (a `CUstream`, which is a `cudaStream_t`; null is the legacy
    /// default stream). koel puts work on it and never destroys it. A per-thread default stream is
    /// refused, because it differs from thread to thread.
    ///
    /// While its owner captures it, koel's work becomes part of the owner's graph. Use buffers that
    /// another stream used last once on this stream before the capture: waiting for the other
    /// stream inside the capture is an error.
    ///
    /// Errors: a device that is not a GPU; a stream of another context.
    ///
    /// # Safety
    /// `stream` is a stream, and outlives the result, its clones, and buffers that were last used
    /// on it.
    pub unsafe fn from_raw(device: &Device, stream: *mut c_void) -> Result<Stream> {
        // SAFETY: the caller upholds the contract.
        let queue = unsafe { device.as_cuda("Stream::from_raw")?.borrow_stream(stream.cast()) }?;
        Ok(Stream::of_queue(device, queue))
    }
    /// Returns the driver's handle (a `CUstream`, which is a `cudaStream_t`) of a GPU's stream, for
    /// other libraries. It is valid as long as the stream or a clone exists.
    pub fn raw(&self) -> Option<*mut c_void> {
        self.as_cuda("Stream::raw").ok().map(|stream| stream.raw().cast())
    }
    /// Wraps a cudarc stream, which the result keeps alive.
    ///
    /// Errors: a device that is not a GPU; a stream of another context.
    pub fn from_cudarc(device: &Device, stream: &Arc<driver::CudaStream>) -> Result<Stream> {
        let cuda = device.as_cuda("Stream::from_cudarc")?;
        check_context(cuda, stream.context())?;
        // SAFETY: kept alive.
        let queue = unsafe { cuda.borrow_stream(stream.cu_stream()) }?;
        queue.keep(stream.clone());
        Ok(Stream::of_queue(device, queue))
    }
    /// Calls `work` with a cudarc `CudaSlice` or `CudaView`, to be read on this stream. The stream
    /// waits for all writes of the slice that cudarc knows of; afterwards cudarc learns of the work
    /// that was put on the stream.
    ///
    /// Errors: those of `work`; a device that is not a GPU; a slice of another context; a call
    /// inside a capture (lend before it).
    pub fn lend<T: Element, R>(
        &self,
        slice: &impl Lendable<T>,
        work: impl FnOnce(View<'_, T>) -> Result<R>,
    ) -> Result<R> {
        let stream = self.for_slice("Stream::lend", slice.stream().context())?;
        let (address, order) = slice.device_ptr(stream);
        let lent = Lent::new::<T>(self, address, slice.len(), order)?;
        work(View::of(&lent.shared, lent.address, slice.len()))
    }
    /// Calls `work` with a cudarc `CudaSlice` or `CudaViewMut`, to be written on this stream. As
    /// [`lend`](Self::lend), but waits for readers, too.
    pub fn lend_mut<T: Element, R>(
        &self,
        slice: &mut impl LendableMut<T>,
        work: impl FnOnce(ViewMut<'_, T>) -> Result<R>,
    ) -> Result<R> {
        let (len, stream) =
            (slice.len(), self.for_slice("Stream::lend_mut", slice.stream().context())?);
        let (address, order) = slice.device_ptr_mut(stream);
        let lent = Lent::new::<T>(self, address, len, order)?;
        work(ViewMut::of(&lent.shared, lent.address, len))
    }
    /// Returns this stream as a cudarc stream, for a slice of that context.
    fn for_slice(
        &self,
        operation: &'static str,
        context: &Arc<CudaContext>,
    ) -> Result<&driver::CudaStream> {
        let stream = self.as_cuda(operation)?;
        let reason = "cudarc's events are outside the capture: do so before it";
        graph::outside_only(operation, self.device(), reason)?;
        self.check_usable()?;
        check_context(stream.cuda(), context)?;
        Ok(stream.as_cudarc(context))
    }
}

/// A cudarc slice lent to a stream. It never leaves this module: if it were leaked, cudarc would
/// not learn of the uses, and could free the slice during them.
struct Lent<'a> {
    shared: Arc<Shared>,
    address: u64,
    stream: &'a Stream,
    /// Whether cudarc orders by events. (If not, all its work is on the legacy default stream.)
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
        // If another stream used it, the one known to cudarc must follow that. An error means a
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
    /// Converts the buffer into a cudarc slice for use on `stream`, which waits for earlier uses.
    /// Copies nothing.
    ///
    /// Errors: a device that is not a GPU; a stream of another context; a call inside a capture. A
    /// graph that uses the buffer can no longer be launched.
    pub fn into_cudarc(self, stream: &Arc<driver::CudaStream>) -> Result<CudaSlice<T>> {
        let (device, len) = (self.device().clone(), self.len());
        let theirs = Stream::from_cudarc(&device, stream)?;
        let mut shared = self.into_shared();
        shared.used_on(&theirs, Usage::Write)?;
        // From here on no graph can reach the memory; one that is being launched now holds it for a
        // moment.
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
        // valid elements; cudarc frees it in the order of the stream, which follows every earlier
        // use.
        Ok(unsafe { stream.upgrade_device_ptr(memory.release(), len) })
    }
    /// Converts a cudarc slice into a buffer. Copies nothing. Keeps cudarc's stream alive while it
    /// is the buffer's last user.
    ///
    /// Errors: a device that is not a GPU; a slice of another context, or one that does not start
    /// on a multiple of 128 bytes.
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
