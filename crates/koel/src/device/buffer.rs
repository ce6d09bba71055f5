//! Memory of a device, and parts of it.
use super::cpu::HostMemory;
#[cfg(feature = "cuda")]
use super::{Backing, Queue, cuda};
use super::{Device, Stream};
use crate::error::{Error, Result, check_length};
use koel_simt::{Buf, In, Word};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Mutex;

/// What buffers hold: `u8`, `u32`, `u64`.
pub trait Element: Word + bytemuck::Pod + Send + Sync + PartialEq + fmt::Debug {}
impl Element for u8 {}
impl Element for u32 {}
impl Element for u64 {}

/// An array in a device's memory, aligned to 128 bytes or more.
///
/// It is used in the order of the calls that use it, also across streams: a stream that uses it after another one waits
/// for that one. Dropping it waits for what still uses it, without blocking the caller.
pub struct Buffer<T> {
    memory: Memory,
    len: usize,
    device: Device,
    /// The stream that used it last.
    last: Mutex<Option<Stream>>,
    of: PhantomData<T>,
}
enum Memory {
    Host(HostMemory),
    #[cfg(feature = "cuda")]
    Cuda(cuda::CudaMemory),
}

impl<T: Element> Buffer<T> {
    pub(super) fn new(device: &Device, len: usize) -> Result<Buffer<T>> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| Error::OutOfMemory {
            device: device.name(),
            asked: usize::MAX,
            free: 0,
        })?;
        let memory = match &device.0.backing {
            #[cfg(feature = "cuda")]
            Backing::Cuda(cuda) => Memory::Cuda(cuda.alloc(bytes)?),
            _ => Memory::Host(HostMemory::new(bytes)?),
        };
        Ok(Buffer { memory, len, device: device.clone(), last: Mutex::new(None), of: PhantomData })
    }
    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }
    /// The device it is on.
    pub fn device(&self) -> &Device {
        &self.device
    }
    /// All of it.
    pub fn view(&self) -> View<'_, T> {
        View { address: self.address(), len: self.len, device: &self.device, last: Some(&self.last), of: PhantomData }
    }
    /// All of it, to write.
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut { address: self.address(), len: self.len, device: &self.device, last: &self.last, of: PhantomData }
    }
    /// A copy in host memory. Waits for what still writes it.
    pub fn download(&self) -> Result<Vec<T>> {
        self.view().download()
    }
    /// The elements, where they are in host memory and nothing can be writing them.
    pub(crate) fn host(&self) -> Option<&[T]> {
        self.view().host()
    }
    /// The elements, to write, where they are in host memory.
    pub(crate) fn host_mut(&mut self) -> Option<&mut [T]> {
        match &mut self.memory {
            // SAFETY: as in `View::host`, and `&mut self`.
            Memory::Host(m) => Some(unsafe { std::slice::from_raw_parts_mut(m.ptr.as_ptr().cast(), self.len) }),
            #[cfg(feature = "cuda")]
            Memory::Cuda(_) => None,
        }
    }
    fn address(&self) -> u64 {
        match &self.memory {
            Memory::Host(m) => m.ptr.as_ptr() as u64,
            #[cfg(feature = "cuda")]
            Memory::Cuda(m) => m.address,
        }
    }
}
impl<T: Element> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer<{}>[{}] on {}", std::any::type_name::<T>(), self.len, self.device.name())
    }
}

/// The later stream waits for the earlier one.
fn used_on(last: &Mutex<Option<Stream>>, stream: &Stream) -> Result<()> {
    let mut last = last.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(before) = last.as_ref()
        && before != stream
    {
        stream.wait(&before.record()?)?;
    }
    if last.as_ref() != Some(stream) {
        *last = Some(stream.clone());
    }
    Ok(())
}
fn check_device(name: &'static str, found: &Device, expected: &Device) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::WrongDevice { name, found: found.name(), expected: expected.name() })
}
/// `range` of `len` elements: where it begins, how long it is.
fn resolve(range: impl RangeBounds<usize>, len: usize) -> Result<(usize, usize)> {
    let start = match range.start_bound() {
        Bound::Included(&s) => s,
        Bound::Excluded(&s) => s.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&e) => e.saturating_add(1),
        Bound::Excluded(&e) => e,
        Bound::Unbounded => len,
    };
    if start > end || end > len {
        return Err(Error::Setting {
            field: "range",
            found: format!("{start}..{end}"),
            expected: format!("inside 0..{len}"),
        });
    }
    Ok((start, end - start))
}

/// A part of a buffer, to read. Any alignment that the elements have.
#[derive(Clone, Copy)]
pub struct View<'a, T> {
    address: u64,
    len: usize,
    device: &'a Device,
    last: Option<&'a Mutex<Option<Stream>>>,
    of: PhantomData<&'a [T]>,
}
impl<'a, T: Element> View<'a, T> {
    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The device it is on.
    pub fn device(&self) -> &'a Device {
        self.device
    }
    /// Whether it begins on a multiple of `bytes`.
    pub(crate) fn is_aligned(&self, bytes: u64) -> bool {
        self.address.is_multiple_of(bytes)
    }
    /// A part of the part.
    pub fn slice(self, range: impl RangeBounds<usize>) -> Result<View<'a, T>> {
        let (start, len) = resolve(range, self.len)?;
        Ok(View { address: self.address + (start * size_of::<T>()) as u64, len, ..self })
    }
    /// As a kernel's argument, for a launch on `stream`; `name` is for errors.
    pub fn arg(&self, name: &'static str, stream: &Stream) -> Result<In<T>> {
        check_device(name, self.device, stream.device())?;
        if let Some(last) = self.last {
            used_on(last, stream)?;
        }
        Ok(In::from_device(self.address, self.len))
    }
    /// A copy in host memory. Waits for what still writes it.
    pub fn download(&self) -> Result<Vec<T>> {
        let mut data = vec![T::zeroed(); self.len];
        self.copy_to_host(&mut data)?;
        Ok(data)
    }
    /// Copies it to host memory. Waits for what still writes it.
    pub fn copy_to_host(&self, to: &mut [T]) -> Result<()> {
        check_length("to", to.len(), "the buffer", self.len)?;
        if let Some(from) = self.host() {
            to.copy_from_slice(from);
            return Ok(());
        }
        #[cfg(feature = "cuda")]
        if let Backing::Cuda(cuda) = &self.device.0.backing {
            let last = self.last.and_then(|l| l.lock().unwrap_or_else(|e| e.into_inner()).clone());
            let stream = last.as_ref().and_then(|s| if let Queue::Cuda(s) = &s.0.queue { Some(s) } else { None });
            cuda.copy_to_host(self.address, bytemuck::cast_slice_mut(to), stream)?;
        }
        Ok(())
    }
    /// The elements, where they are in host memory.
    pub fn host(&self) -> Option<&'a [T]> {
        #[cfg(feature = "cuda")]
        if let Backing::Cuda(_) = &self.device.0.backing {
            return None;
        }
        // SAFETY: `len` elements, initialised (zeroed at first), or a slice borrowed for 'a; kernels that write them have
        // ended, as launches on the host are synchronous and take the buffer by `&mut`.
        Some(unsafe { std::slice::from_raw_parts(self.address as *const T, self.len) })
    }
}
impl<T: Element> fmt::Debug for View<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View<{}>[{}] on {}", std::any::type_name::<T>(), self.len, self.device.name())
    }
}

/// A part of a buffer, to read and write. Any alignment that the elements have.
pub struct ViewMut<'a, T> {
    address: u64,
    len: usize,
    device: &'a Device,
    last: &'a Mutex<Option<Stream>>,
    of: PhantomData<&'a mut [T]>,
}
impl<'a, T: Element> ViewMut<'a, T> {
    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The device it is on.
    pub fn device(&self) -> &'a Device {
        self.device
    }
    /// The same, for a shorter time.
    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut { address: self.address, len: self.len, device: self.device, last: self.last, of: PhantomData }
    }
    /// To read.
    pub fn view(&self) -> View<'_, T> {
        View { address: self.address, len: self.len, device: self.device, last: Some(self.last), of: PhantomData }
    }
    /// A part of the part.
    pub fn slice(self, range: impl RangeBounds<usize>) -> Result<ViewMut<'a, T>> {
        let (start, len) = resolve(range, self.len)?;
        Ok(ViewMut { address: self.address + (start * size_of::<T>()) as u64, len, ..self })
    }
    /// As a kernel's argument, for a launch on `stream`; `name` is for errors.
    pub fn arg(&mut self, name: &'static str, stream: &Stream) -> Result<Buf<T>> {
        check_device(name, self.device, stream.device())?;
        used_on(self.last, stream)?;
        Ok(Buf::from_device(self.address, self.len))
    }
    /// Copies host memory to it. Waits for what still uses it.
    pub fn copy_from_host(&mut self, from: &[T]) -> Result<()> {
        check_length("from", from.len(), "the buffer", self.len)?;
        if let Some(to) = self.host_mut() {
            to.copy_from_slice(from);
            return Ok(());
        }
        #[cfg(feature = "cuda")]
        if let Backing::Cuda(cuda) = &self.device.0.backing {
            let last = self.last.lock().unwrap_or_else(|e| e.into_inner()).clone();
            let stream = last.as_ref().and_then(|s| if let Queue::Cuda(s) = &s.0.queue { Some(s) } else { None });
            cuda.copy_from_host(self.address, bytemuck::cast_slice(from), stream)?;
        }
        Ok(())
    }
    /// Copies another part of the device's memory to it, in the order of `stream`.
    pub fn copy_from(&mut self, from: View<'_, T>, stream: &Stream) -> Result<()> {
        check_length("from", from.len(), "the buffer", self.len)?;
        from.arg("from", stream)?;
        self.arg("to", stream)?;
        if let (Some(from), Some(to)) = (from.host(), self.host_mut()) {
            to.copy_from_slice(from);
            return Ok(());
        }
        #[cfg(feature = "cuda")]
        if let Queue::Cuda(queue) = &stream.0.queue {
            queue.copy(self.address, from.address, self.len * size_of::<T>())?;
        }
        Ok(())
    }
    /// Sets every byte to `byte`, in the order of `stream`.
    pub fn fill_bytes(&mut self, byte: u8, stream: &Stream) -> Result<()> {
        self.arg("to", stream)?;
        if let Some(to) = self.host_mut() {
            bytemuck::cast_slice_mut::<T, u8>(to).fill(byte);
            return Ok(());
        }
        #[cfg(feature = "cuda")]
        if let Queue::Cuda(queue) = &stream.0.queue {
            queue.fill(self.address, byte, self.len * size_of::<T>())?;
        }
        Ok(())
    }
    /// The elements, where they are in host memory.
    pub fn host_mut(&mut self) -> Option<&mut [T]> {
        #[cfg(feature = "cuda")]
        if let Backing::Cuda(_) = &self.device.0.backing {
            return None;
        }
        // SAFETY: as in `View::host`, and the part is borrowed mutably.
        Some(unsafe { std::slice::from_raw_parts_mut(self.address as *mut T, self.len) })
    }
}
impl<T: Element> fmt::Debug for ViewMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ViewMut<{}>[{}] on {}", std::any::type_name::<T>(), self.len, self.device.name())
    }
}

/// Host data where a device can read it: borrowed on the CPU, copied elsewhere.
pub struct Staged<'a, T>(Place<'a, T>);
enum Place<'a, T> {
    Host(&'a [T], Device),
    Copy(Buffer<T>),
}
impl<'a, T: Element> Staged<'a, T> {
    pub(super) fn new(device: &Device, data: &'a [T]) -> Result<Staged<'a, T>> {
        Ok(Staged(match device.runs_kernels() {
            false => Place::Host(data, device.clone()),
            true => Place::Copy(device.upload(data)?),
        }))
    }
    /// All of it.
    pub fn view(&self) -> View<'_, T> {
        match &self.0 {
            Place::Host(data, device) => {
                View { address: data.as_ptr() as u64, len: data.len(), device, last: None, of: PhantomData }
            }
            Place::Copy(buffer) => buffer.view(),
        }
    }
}
