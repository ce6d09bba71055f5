//! Memory of a device, and parts of it.
use super::cpu::HostMemory;
use super::users::{Usage, Users};
use super::{Device, Stream, graph};
#[cfg(feature = "cuda")]
use super::{Queue, cuda};
use crate::error::{Error, Result, check_length};
use koel_simt::{Buf, In, Word};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// What buffers hold: `u8`, `u32`, `u64`, `u128`. No other type can be one: memory is aligned to
/// 128 bytes, and its bytes are those of any element.
///
/// ```compile_fail,E0277
/// #[derive(Clone, Copy, PartialEq, Debug)]
/// #[repr(align(4096))]
/// struct Page([u8; 4096]);
/// impl koel::device::Element for Page {}
/// ```
pub trait Element:
    sealed::Sealed + Word + bytemuck::Pod + Send + Sync + PartialEq + fmt::Debug
{
}
mod sealed {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl Sealed for u128 {}
}
impl Element for u8 {}
impl Element for u32 {}
impl Element for u64 {}
impl Element for u128 {}

/// An array in a device's memory, aligned to 128 bytes or more.
///
/// It is used in the order of the calls that use it, also across streams: a stream that reads it
/// waits for the one that wrote it last, a stream that writes it for all that read it since.
/// Streams that only read it do not wait for each other. Its memory is given back after what still
/// uses it, without blocking who drops it.
pub struct Buffer<T> {
    shared: Arc<Shared>,
    len: usize,
    of: PhantomData<T>,
}
/// Memory, and who uses it.
pub(super) struct Shared {
    memory: Memory,
    bytes: usize,
    device: Device,
    users: Mutex<Users>,
    /// Graphs that use it.
    graphs: AtomicU32,
}
pub(super) enum Memory {
    Host(HostMemory),
    #[cfg(feature = "cuda")]
    Cuda(cuda::CudaMemory),
    /// Somebody else's.
    #[cfg(feature = "cuda")]
    Lent,
}
impl Shared {
    pub(super) fn new(
        device: &Device,
        memory: Memory,
        bytes: usize,
        last: Option<Stream>,
    ) -> Arc<Shared> {
        Arc::new(Shared {
            memory,
            bytes,
            device: device.clone(),
            users: Mutex::new(Users::new(last.as_ref())),
            graphs: AtomicU32::new(0),
        })
    }
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
    fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// What is put on `stream` from now on runs after the uses that this one conflicts with.
    pub(super) fn used_on(self: &Arc<Shared>, stream: &Stream, usage: Usage) -> Result<()> {
        stream.check_usable()?;
        match stream.capture_of() {
            Some(capture) => capture.uses(self, stream, usage),
            None => self.users().enter(stream, usage),
        }
    }
    /// Waits for what uses it. From then on it is as if new.
    #[cfg(feature = "cuda")]
    fn settle(&self) -> Result<()> {
        let mut users = self.users();
        users.last().try_for_each(|stream| stream.synchronize())?;
        *users = Users::new(None);
        Ok(())
    }
    /// The memory, without its owner, and who used it.
    #[cfg(feature = "cuda")]
    pub(super) fn into_memory(mut self) -> (Memory, Users) {
        let users = std::mem::replace(&mut *self.users(), Users::new(None));
        (std::mem::replace(&mut self.memory, Memory::Lent), users)
    }
    /// A graph may write it from now on, whoever else refers to it.
    pub(super) fn enters_graph(&self) {
        self.graphs.fetch_add(1, Relaxed);
    }
    pub(super) fn leaves_graph(&self) {
        self.graphs.fetch_sub(1, Relaxed);
    }
}
#[cfg(feature = "cuda")]
impl Drop for Shared {
    fn drop(&mut self) {
        // The memory goes back on the legacy stream, which follows every stream but those that do
        // not block.
        let users = self.users.get_mut().unwrap_or_else(|e| e.into_inner());
        if let Memory::Cuda(_) = &self.memory {
            for stream in users.last() {
                if let Queue::Cuda(queue) = &stream.queue {
                    let _ = queue.lead_legacy(); // an error means a lost context
                }
            }
        }
    }
}

impl<T: Element> Buffer<T> {
    pub(super) fn new(device: &Device, len: usize) -> Result<Buffer<T>> {
        graph::outside_only("Device::alloc", device, graph::ALLOCATES)?;
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| Error::OutOfMemory {
            device: device.name(),
            asked: usize::MAX,
            free: 0,
        })?;
        let memory = match &device.0.backing {
            #[cfg(feature = "cuda")]
            super::Backing::Cuda(cuda) => Memory::Cuda(cuda.alloc(bytes)?),
            _ => Memory::Host(HostMemory::new(bytes, device.pages())?),
        };
        Ok(Buffer::of(Shared::new(device, memory, bytes, None), len))
    }
    pub(super) fn of(shared: Arc<Shared>, len: usize) -> Buffer<T> {
        Buffer { shared, len, of: PhantomData }
    }
    #[cfg(feature = "cuda")]
    pub(super) fn into_shared(self) -> Arc<Shared> {
        self.shared
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
        &self.shared.device
    }
    /// Where it is: an address of the GPU, or of the host.
    pub fn address(&self) -> u64 {
        match &self.shared.memory {
            Memory::Host(m) => m.ptr.as_ptr() as u64,
            #[cfg(feature = "cuda")]
            Memory::Cuda(m) => m.address,
            #[cfg(feature = "cuda")]
            Memory::Lent => unreachable!("buffers own their memory"),
        }
    }
    /// All of it.
    pub fn view(&self) -> View<'_, T> {
        View {
            address: self.address(),
            len: self.len,
            device: self.device(),
            owner: Some(&self.shared),
            of: PhantomData,
        }
    }
    /// All of it, to write.
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut {
            address: self.address(),
            len: self.len,
            device: self.device(),
            owner: Some(&self.shared),
            of: PhantomData,
        }
    }
    /// A copy in host memory. Waits for what still writes it.
    pub fn download(&self) -> Result<Vec<T>> {
        self.view().download()
    }
    /// The elements, where they are in host memory and nothing can be writing them.
    #[cfg(feature = "classic")]
    pub(crate) fn host(&self) -> Option<&[T]> {
        self.view().host()
    }
    /// The elements, to write, where they are in host memory.
    pub(crate) fn host_mut(&mut self) -> Option<&mut [T]> {
        self.view_mut().into_host_mut()
    }
}
impl<T: Element> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Buffer<{}>[{}] on {}",
            std::any::type_name::<T>(),
            self.len,
            self.device().name()
        )
    }
}

pub(super) fn check_device(name: &'static str, found: &Device, expected: &Device) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::WrongDevice { name, found: found.name(), expected: expected.name() })
}
/// What native code says of memory that it cannot reach.
fn not_on_host(name: &'static str, found: &Device) -> Error {
    Error::WrongDevice { name, found: found.name(), expected: "the CPU".into() }
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

/// Whether host code may look into the memory.
fn is_open(device: &Device, owner: Option<&Arc<Shared>>) -> bool {
    device.is_host() && owner.is_none_or(|o| o.graphs.load(Relaxed) == 0)
}
/// An address at which `T` can be, or why not.
pub(super) fn check_address<T>(address: u64, len: usize) -> Result<u64> {
    match (len, address) {
        (0, _) => Ok(align_of::<T>() as u64),
        (_, a) if a != 0 && a.is_multiple_of(align_of::<T>() as u64) => Ok(a),
        _ => Err(Error::Setting {
            field: "address",
            found: format!("{address:#x}"),
            expected: format!("a multiple of {}, and not null", align_of::<T>()),
        }),
    }
}

/// A part of a buffer, to read. Any alignment that the elements have.
#[derive(Clone, Copy)]
pub struct View<'a, T> {
    address: u64,
    len: usize,
    device: &'a Device,
    owner: Option<&'a Arc<Shared>>,
    of: PhantomData<&'a [T]>,
}
impl<'a, T: Element> View<'a, T> {
    /// `len` elements at an address of a device, to read: of the GPU, or of the host for other
    /// devices.
    ///
    /// Errors: an address that is null or no multiple of the size of `T` (of no elements any is
    /// right).
    ///
    /// # Safety
    /// For 'a, and until everything that was put on a stream with it has run (with a graph: until
    /// the graph is dropped and its last launch has run):
    /// * the memory is there, is the device's, and holds `len` elements;
    /// * nobody writes it, except in the order of the streams it is used on.
    ///
    /// Nothing is known of its other uses: what wrote it before must have run, or be earlier on the
    /// same stream. `download` and `copy_to_host` wait for streams that block the legacy
    /// default stream, and for no other ones.
    pub unsafe fn from_raw(device: &'a Device, address: u64, len: usize) -> Result<View<'a, T>> {
        Ok(View {
            address: check_address::<T>(address, len)?,
            len,
            device,
            owner: None,
            of: PhantomData,
        })
    }
    /// Elements in memory of the host, for the CPU.
    pub(crate) fn of_host(device: &'a Device, data: &'a [T]) -> View<'a, T> {
        debug_assert!(!device.runs_kernels());
        View {
            address: data.as_ptr() as u64,
            len: data.len(),
            device,
            owner: None,
            of: PhantomData,
        }
    }
    #[cfg(feature = "cuda")]
    pub(super) fn of(shared: &'a Arc<Shared>, address: u64, len: usize) -> View<'a, T> {
        View { address, len, device: &shared.device, owner: Some(shared), of: PhantomData }
    }
    /// Where it begins: an address of the GPU, or of the host for other devices.
    pub fn address(&self) -> u64 {
        self.address
    }
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
    /// The first elements: so many of them, or all that there are.
    pub(crate) fn first(self, len: usize) -> View<'a, T> {
        View { len: len.min(self.len), ..self }
    }
    /// As a kernel's argument, for a launch on `stream`; `name` is for errors.
    ///
    /// What is put on the stream from now on waits for who wrote the memory before, not for others
    /// that read it. The handle does not keep the memory, and only a launch can look through
    /// it: launch while the view is borrowed.
    pub fn arg(&self, name: &'static str, stream: &Stream) -> Result<In<T>> {
        self.enter(name, stream, Usage::Read)?;
        Ok(In::from_device(self.address, self.len))
    }
    fn enter(&self, name: &'static str, stream: &Stream, usage: Usage) -> Result<()> {
        check_device(name, self.device, stream.device())?;
        match self.owner {
            Some(owner) => owner.used_on(stream, usage),
            None => stream.check_usable(),
        }
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
        graph::outside_only("View::copy_to_host", self.device, graph::WAITS)?;
        #[cfg(feature = "cuda")]
        if let super::Backing::Cuda(cuda) = &self.device.0.backing {
            let writer = self.owner.and_then(|o| o.users().writer().cloned());
            let stream = writer
                .as_ref()
                .and_then(|s| if let Queue::Cuda(s) = &s.queue { Some(s) } else { None });
            return cuda.copy_to_host(self.address, bytemuck::cast_slice_mut(to), stream);
        }
        // SAFETY: host memory, initialised (zeroed at first); whatever writes it has ended, as in
        // `host`.
        unsafe { std::ptr::copy(self.address as *const T, to.as_mut_ptr(), self.len) };
        Ok(())
    }
    /// The elements, for native code.
    ///
    /// Errors: memory of a device that runs kernels.
    pub(crate) fn elements(&self, name: &'static str) -> Result<&'a [T]> {
        self.host().ok_or_else(|| not_on_host(name, self.device))
    }
    /// The elements, where they are in host memory and no [`Graph`](super::Graph) may write them.
    pub fn host(&self) -> Option<&'a [T]> {
        if !is_open(self.device, self.owner) {
            return None;
        }
        // SAFETY: `len` elements, initialised (zeroed at first), or a slice borrowed for 'a;
        // kernels that write them have ended, as launches on the host are synchronous and
        // take the buffer by `&mut`, and no graph has it.
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
    owner: Option<&'a Arc<Shared>>,
    of: PhantomData<&'a mut [T]>,
}
impl<'a, T: Element> ViewMut<'a, T> {
    /// `len` elements at an address of a device, to read and write.
    ///
    /// Errors: as [`View::from_raw`].
    ///
    /// # Safety
    /// As [`View::from_raw`], and nobody else reads it either, except in the order of the streams
    /// it is used on. On a host device the elements are initialised.
    pub unsafe fn from_raw(device: &'a Device, address: u64, len: usize) -> Result<ViewMut<'a, T>> {
        Ok(ViewMut {
            address: check_address::<T>(address, len)?,
            len,
            device,
            owner: None,
            of: PhantomData,
        })
    }
    #[cfg(feature = "cuda")]
    pub(super) fn of(shared: &'a Arc<Shared>, address: u64, len: usize) -> ViewMut<'a, T> {
        ViewMut { address, len, device: &shared.device, owner: Some(shared), of: PhantomData }
    }
    /// Where it begins: an address of the GPU, or of the host for other devices.
    pub fn address(&self) -> u64 {
        self.address
    }
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
        ViewMut {
            address: self.address,
            len: self.len,
            device: self.device,
            owner: self.owner,
            of: PhantomData,
        }
    }
    /// To read.
    pub fn view(&self) -> View<'_, T> {
        View {
            address: self.address,
            len: self.len,
            device: self.device,
            owner: self.owner,
            of: PhantomData,
        }
    }
    /// A part of the part.
    pub fn slice(self, range: impl RangeBounds<usize>) -> Result<ViewMut<'a, T>> {
        let (start, len) = resolve(range, self.len)?;
        Ok(ViewMut { address: self.address + (start * size_of::<T>()) as u64, len, ..self })
    }
    /// As a kernel's argument, for a launch on `stream`; `name` is for errors.
    ///
    /// What is put on the stream from now on waits for everyone who used the memory before.
    /// Otherwise as [`View::arg`].
    pub fn arg(&mut self, name: &'static str, stream: &Stream) -> Result<Buf<T>> {
        self.view().enter(name, stream, Usage::Write)?;
        Ok(Buf::from_device(self.address, self.len))
    }
    /// Copies host memory to it. Waits for what still uses it.
    pub fn copy_from_host(&mut self, from: &[T]) -> Result<()> {
        check_length("from", from.len(), "the buffer", self.len)?;
        graph::outside_only("ViewMut::copy_from_host", self.device, graph::ALLOCATES)?;
        #[cfg(feature = "cuda")]
        if let super::Backing::Cuda(cuda) = &self.device.0.backing {
            if let Some(owner) = self.owner {
                owner.settle()?;
            }
            return cuda.copy_from_host(self.address, bytemuck::cast_slice(from));
        }
        // SAFETY: host memory, borrowed mutably; whatever used it has ended, as in `View::host`.
        unsafe { std::ptr::copy(from.as_ptr(), self.address as *mut T, self.len) };
        Ok(())
    }
    /// Copies another part of the device's memory to it, in the order of `stream`.
    pub fn copy_from(&mut self, from: View<'_, T>, stream: &Stream) -> Result<()> {
        check_length("from", from.len(), "the buffer", self.len)?;
        from.arg("from", stream)?;
        self.arg("to", stream)?;
        // SAFETY: as long as both parts, which were borrowed; one of them mutably.
        unsafe { stream.copy(self.address, from.address, self.len * size_of::<T>()) }
    }
    /// Sets every byte to `byte`, in the order of `stream`.
    pub fn fill_bytes(&mut self, byte: u8, stream: &Stream) -> Result<()> {
        self.arg("to", stream)?;
        // SAFETY: as long as the part, which was borrowed mutably.
        unsafe { stream.fill(self.address, byte, self.len * size_of::<T>()) }
    }
    /// The elements, for native code.
    ///
    /// Errors: memory of a device that runs kernels.
    pub(crate) fn elements(&mut self, name: &'static str) -> Result<&mut [T]> {
        let device = self.device();
        self.host_mut().ok_or_else(|| not_on_host(name, device))
    }
    /// The elements, where they are in host memory and no [`Graph`](super::Graph) may write them.
    pub fn host_mut(&mut self) -> Option<&mut [T]> {
        self.reborrow().into_host_mut()
    }
    fn into_host_mut(self) -> Option<&'a mut [T]> {
        if !is_open(self.device, self.owner) {
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
            Place::Host(data, device) => View::of_host(device, data),
            Place::Copy(buffer) => buffer.view(),
        }
    }
}
