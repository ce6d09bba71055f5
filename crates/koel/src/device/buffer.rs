//! Buffers of device memory, and views of them.
mod foreign;
mod staged;
mod transfer;

use super::apart::{Apart, Gate, keep_apart};
use super::cpu::HostMemory;
use super::users::{Usage, Users};
use super::{Device, Stream, graph};
#[cfg(feature = "cuda")]
use super::{Queue, cuda};
use crate::error::{Error, Result, check_length};
pub use foreign::Foreign;
use koel_simt::{Buf, In, Word};
pub use staged::Staged;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard};

/// Element types of buffers: plain data, of which any bytes are valid, such as integers, floats,
/// arrays of them, and structs that derive `bytemuck::Pod`.
///
/// Memory is aligned to 128 bytes: types of a larger alignment do not compile.
///
/// ```compile_fail,E0080
/// #[derive(Clone, Copy, Debug)]
/// #[repr(C, align(4096))]
/// struct Page([u8; 4096]);
/// // SAFETY: an array of bytes, as large as its alignment.
/// unsafe impl bytemuck::Zeroable for Page {}
/// unsafe impl bytemuck::Pod for Page {}
/// let buffer = koel::Device::cpu().unwrap().alloc::<Page>(1);
/// ```
pub trait Plain: bytemuck::Pod + Send + Sync + fmt::Debug {}
impl<T: bytemuck::Pod + Send + Sync + fmt::Debug> Plain for T {}

/// Element types that kernels read and write: `u8`, `u32`, `u64`, `u128`. The trait is sealed.
pub trait Element: sealed::Sealed + Word + Plain + PartialEq {}
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

/// Minimum alignment of device memory, in bytes.
const ALIGNMENT: usize = 128;
/// An array in a device's memory, aligned to 128 bytes or more.
///
/// Uses of a buffer are ordered, also across streams: a stream that reads it waits for the one that
/// wrote it last; a stream that writes it waits for all that have read it since. Streams that only
/// read it do not wait for each other. Dropping it never blocks: the memory is freed after the last
/// use has run.
pub struct Buffer<T> {
    shared: Arc<Shared>,
    len: usize,
    of: PhantomData<T>,
}
/// Memory and its users.
pub(super) struct Shared {
    memory: Memory,
    bytes: usize,
    device: Device,
    users: Mutex<Users>,
    /// Number of graphs that use it.
    graphs: AtomicU32,
    gate: Gate,
}
pub(super) enum Memory {
    Host(HostMemory),
    #[cfg(feature = "cuda")]
    Cuda(cuda::CudaMemory),
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "it is only dropped"))]
    Foreign(foreign::Owner),
    /// Owned by another library.
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
            gate: Gate::default(),
        })
    }
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
    fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// Makes later work on `stream` run after the uses that conflict with this one.
    pub(super) fn used_on(self: &Arc<Shared>, stream: &Stream, usage: Usage) -> Result<()> {
        stream.check_usable()?;
        match stream.capture_of() {
            Some(capture) => capture.uses(self, stream, usage),
            None => {
                self.keep_apart(usage);
                self.enter(stream, usage)
            }
        }
    }
    /// Enters a use by a stream outside of a capture.
    pub(super) fn enter(&self, stream: &Stream, usage: Usage) -> Result<()> {
        self.users().enter(stream, usage)
    }
    /// Waits for launches of graphs that conflict with this use, which is part of the
    /// [operation](Apart) of this thread.
    fn keep_apart(self: &Arc<Shared>, usage: Usage) {
        if self.is_in_graph() {
            keep_apart(self, usage);
        }
    }
    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }
    /// Waits for all users, then forgets them.
    #[cfg(feature = "cuda")]
    fn settle(&self) -> Result<()> {
        let mut users = self.users();
        users.last().try_for_each(|stream| stream.synchronize())?;
        *users = Users::new(None);
        Ok(())
    }
    /// Returns the memory, no longer owned, and its users.
    #[cfg(feature = "cuda")]
    pub(super) fn into_memory(mut self) -> (Memory, Users) {
        let users = std::mem::replace(&mut *self.users(), Users::new(None));
        (std::mem::replace(&mut self.memory, Memory::Lent), users)
    }
    /// Marks that a graph may write it from now on, whatever else refers to it.
    pub(super) fn enters_graph(&self) {
        self.graphs.fetch_add(1, Relaxed);
    }
    pub(super) fn leaves_graph(&self) {
        self.graphs.fetch_sub(1, Release);
    }
    /// Returns whether a graph may write it. If not, what graphs wrote has happened before.
    #[inline]
    fn is_in_graph(&self) -> bool {
        self.graphs.load(Acquire) > 0
    }
}
#[cfg(feature = "cuda")]
impl Drop for Shared {
    fn drop(&mut self) {
        // Memory is freed on the legacy stream, which follows every blocking stream; make it follow
        // the non-blocking users too.
        let users = self.users.get_mut().unwrap_or_else(|e| e.into_inner());
        if let Memory::Cuda(_) = &self.memory {
            for stream in users.last() {
                if let Queue::Cuda(queue) = &stream.queue {
                    let _ = queue.lead_legacy(); // an error means a lost context
                }
            }
        }
        if let Memory::Foreign(owner) = &mut self.memory {
            owner.outlive(users);
        }
    }
}

impl<T: Plain> Buffer<T> {
    pub(super) fn new(device: &Device, len: usize) -> Result<Buffer<T>> {
        const { assert!(align_of::<T>() <= ALIGNMENT, "buffers are aligned to 128 bytes") };
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
    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    /// Returns whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }
    /// Returns the device it is on.
    #[inline]
    pub fn device(&self) -> &Device {
        &self.shared.device
    }
    /// Returns the address: a GPU address, or a host address on other devices.
    #[inline]
    pub fn address(&self) -> u64 {
        match &self.shared.memory {
            Memory::Host(m) => m.ptr.as_ptr() as u64,
            #[cfg(feature = "cuda")]
            Memory::Cuda(m) => m.address,
            _ => unreachable!("buffers own their memory"),
        }
    }
    /// Returns a view of all elements.
    #[inline]
    pub fn view(&self) -> View<'_, T> {
        View {
            address: self.address(),
            len: self.len,
            device: self.device(),
            owner: Some(&self.shared),
            of: PhantomData,
        }
    }
    /// Returns a mutable view of all elements.
    #[inline]
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut {
            address: self.address(),
            len: self.len,
            device: self.device(),
            owner: Some(&self.shared),
            of: PhantomData,
        }
    }
    /// Copies the elements to host memory. Waits for pending writes.
    pub fn download(&self) -> Result<Vec<T>> {
        self.view().download()
    }
    /// Returns the elements mutably if they are in host memory and no graph may write them.
    #[inline]
    pub(crate) fn host_mut(&mut self) -> Option<&mut [T]> {
        self.view_mut().into_host_mut()
    }
    /// Returns the same memory as elements of another type of the same size. Errors: another size.
    pub(crate) fn cast<U: Plain>(self) -> Result<Buffer<U>> {
        const { assert!(align_of::<U>() <= ALIGNMENT) }
        check_size::<T, U>()?;
        let Buffer { shared, len, .. } = self;
        Ok(Buffer { shared, len, of: PhantomData })
    }
}
impl<T: Plain> fmt::Debug for Buffer<T> {
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

/// Checks that elements can be cast to others. Errors: other sizes, as where keys are stored in
/// more bytes than they have because values are wide.
fn check_size<T, U>() -> Result<()> {
    if size_of::<T>() == size_of::<U>() {
        return Ok(());
    }
    Err(Error::Setting {
        field: "buffer",
        found: format!("elements of type {}", std::any::type_name::<T>()),
        expected: format!("elements of {} bytes, as the table stores them", size_of::<U>()),
    })
}
pub(crate) fn check_device(name: &'static str, found: &Device, expected: &Device) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::WrongDevice { name, found: found.name(), expected: expected.name() })
}
/// What native code says of memory that it cannot reach.
pub(crate) fn not_on_host(name: &'static str, found: &Device) -> Error {
    Error::WrongDevice { name, found: found.name(), expected: "the CPU".into() }
}
/// Resolves `range` within `len` elements to its start and length.
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

/// Returns whether host code may access the memory.
#[inline]
fn is_open(device: &Device, owner: Option<&Arc<Shared>>) -> bool {
    device.is_host() && owner.is_none_or(|owner| !owner.is_in_graph())
}
/// Checks that an address is valid for `T`.
pub(super) fn check_address<T>(address: u64, len: usize) -> Result<u64> {
    match (len, address) {
        (0, _) => Ok(align_of::<T>() as u64),
        (_, a) if a != 0 && a.is_multiple_of(align_of::<T>() as u64) => Ok(a),
        _ => Err(Error::Setting {
            field: "address",
            found: format!("{address:#x}"),
            expected: format!("a non-null multiple of {}", align_of::<T>()),
        }),
    }
}

/// A read-only view of part of a buffer. The alignment of the element type suffices.
#[derive(Clone, Copy)]
pub struct View<'a, T> {
    address: u64,
    len: usize,
    device: &'a Device,
    owner: Option<&'a Arc<Shared>>,
    of: PhantomData<&'a [T]>,
}
impl<'a, T: Plain> View<'a, T> {
    /// Creates a read-only view of `len` elements at an address: a GPU address, or a host address
    /// on other devices.
    ///
    /// Errors: an address that is null or not a multiple of the alignment of `T` (unless `len` is
    /// 0).
    ///
    /// # Safety
    /// For 'a, and until all work put on streams with it has run (for a graph: until the graph is
    /// dropped and its last launch has run):
    /// * the memory is valid, belongs to the device, and holds `len` elements;
    /// * nobody writes it, except in the order of the streams it is used on.
    ///
    /// koel does not know other uses of the memory: earlier writes must have completed, or be
    /// earlier on the same stream. `download` and `copy_to_host` wait only for streams that
    /// synchronize with the legacy default stream.
    pub unsafe fn from_raw(device: &'a Device, address: u64, len: usize) -> Result<View<'a, T>> {
        Ok(View {
            address: check_address::<T>(address, len)?,
            len,
            device,
            owner: None,
            of: PhantomData,
        })
    }
    /// Creates a view of host memory, for the CPU.
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
    pub(super) fn of(shared: &'a Arc<Shared>, address: u64, len: usize) -> View<'a, T> {
        View { address, len, device: &shared.device, owner: Some(shared), of: PhantomData }
    }
    /// Returns the start address: a GPU address, or a host address on other devices.
    #[inline]
    pub fn address(&self) -> u64 {
        self.address
    }
    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    /// Returns whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the device it is on.
    #[inline]
    pub fn device(&self) -> &'a Device {
        self.device
    }
    /// Returns whether it starts on a multiple of `bytes`.
    pub(crate) fn is_aligned(&self, bytes: u64) -> bool {
        self.address.is_multiple_of(bytes)
    }
    /// Returns a sub-view.
    pub fn slice(self, range: impl RangeBounds<usize>) -> Result<View<'a, T>> {
        let (start, len) = resolve(range, self.len)?;
        Ok(View { address: self.address + (start * size_of::<T>()) as u64, len, ..self })
    }
    /// Returns the same bytes as elements of another type of the same size.
    ///
    /// Errors: an address that is not aligned for them.
    pub(crate) fn cast<U: Plain>(self) -> Result<View<'a, U>> {
        check_size::<T, U>()?;
        let View { len, device, owner, .. } = self;
        Ok(View {
            address: check_address::<U>(self.address, len)?,
            len,
            device,
            owner,
            of: PhantomData,
        })
    }
    /// Returns the bytes of the elements.
    pub(crate) fn bytes(self) -> View<'a, u8> {
        let View { address, len, device, owner, .. } = self;
        View { address, len: len * size_of::<T>(), device, owner, of: PhantomData }
    }
    /// Returns the first `len` elements, or all if there are fewer.
    pub(crate) fn first(self, len: usize) -> View<'a, T> {
        View { len: len.min(self.len), ..self }
    }
    fn enter(&self, name: &'static str, stream: &Stream, usage: Usage) -> Result<()> {
        check_device(name, self.device, stream.device())?;
        match self.owner {
            Some(owner) => owner.used_on(stream, usage),
            None => stream.check_usable(),
        }
    }
    /// The elements, for native code.
    ///
    /// Errors: memory of a device that runs kernels.
    pub(crate) fn elements(&self, name: &'static str) -> Result<&'a [T]> {
        self.host().ok_or_else(|| not_on_host(name, self.device))
    }
    /// Returns the elements if they are in host memory and no [`Graph`](super::Graph) may write
    /// them.
    #[inline]
    pub fn host(&self) -> Option<&'a [T]> {
        if !is_open(self.device, self.owner) {
            return None;
        }
        // SAFETY: `len` elements, initialised (zeroed at first), or a slice borrowed for 'a;
        // kernels that write them have ended, because launches on the host are synchronous and take
        // the buffer by `&mut`, and no graph uses it.
        Some(unsafe { std::slice::from_raw_parts(self.address as *const T, self.len) })
    }
}
impl<T: Element> View<'_, T> {
    /// Returns the view as a kernel argument, for a launch on `stream`; `name` is for error
    /// messages.
    ///
    /// Later work on the stream waits for the last writer of the memory, not for other readers. The
    /// handle does not keep the memory alive, and only a launch can read through it: launch while
    /// the view is borrowed. [`Apart`] keeps launches of graphs away until then.
    pub fn arg(&self, name: &'static str, stream: &Stream) -> Result<In<T>> {
        self.enter(name, stream, Usage::Read)?;
        Ok(In::from_device(self.address, self.len))
    }
}
impl<T: Plain> fmt::Debug for View<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View<{}>[{}] on {}", std::any::type_name::<T>(), self.len, self.device.name())
    }
}

/// A mutable view of part of a buffer. The alignment of the element type suffices.
pub struct ViewMut<'a, T> {
    address: u64,
    len: usize,
    device: &'a Device,
    owner: Option<&'a Arc<Shared>>,
    of: PhantomData<&'a mut [T]>,
}
impl<'a, T: Plain> ViewMut<'a, T> {
    /// Creates a mutable view of `len` elements at an address of a device.
    ///
    /// Errors: as for [`View::from_raw`].
    ///
    /// # Safety
    /// As for [`View::from_raw`], and nobody else reads it either, except in the order of the
    /// streams it is used on. On a host device the elements are initialised.
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
    /// Returns the start address: a GPU address, or a host address on other devices.
    #[inline]
    pub fn address(&self) -> u64 {
        self.address
    }
    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    /// Returns whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the device it is on.
    #[inline]
    pub fn device(&self) -> &'a Device {
        self.device
    }
    /// Reborrows the view for a shorter lifetime.
    #[inline]
    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut {
            address: self.address,
            len: self.len,
            device: self.device,
            owner: self.owner,
            of: PhantomData,
        }
    }
    /// Returns a read-only view of the same elements.
    #[inline]
    pub fn view(&self) -> View<'_, T> {
        View {
            address: self.address,
            len: self.len,
            device: self.device,
            owner: self.owner,
            of: PhantomData,
        }
    }
    /// Returns a sub-view.
    pub fn slice(self, range: impl RangeBounds<usize>) -> Result<ViewMut<'a, T>> {
        let (start, len) = resolve(range, self.len)?;
        Ok(ViewMut { address: self.address + (start * size_of::<T>()) as u64, len, ..self })
    }
    /// Returns the same bytes as elements of another type of the same size.
    ///
    /// Errors: an address that is not aligned for them.
    pub(crate) fn cast<U: Plain>(self) -> Result<ViewMut<'a, U>> {
        check_size::<T, U>()?;
        let ViewMut { len, device, owner, .. } = self;
        Ok(ViewMut {
            address: check_address::<U>(self.address, len)?,
            len,
            device,
            owner,
            of: PhantomData,
        })
    }
    /// Returns the first `len` elements, or all if there are fewer.
    pub(crate) fn first(self, len: usize) -> ViewMut<'a, T> {
        ViewMut { len: len.min(self.len), ..self }
    }
    /// Returns the bytes of the elements.
    pub(crate) fn into_bytes(self) -> ViewMut<'a, u8> {
        let ViewMut { address, len, device, owner, .. } = self;
        ViewMut { address, len: len * size_of::<T>(), device, owner, of: PhantomData }
    }
    /// Returns the first bytes as elements of another type: as many as the view has elements, which
    /// are no smaller.
    pub(crate) fn heads<U: Plain>(self) -> ViewMut<'a, U> {
        const { assert!(size_of::<U>() <= size_of::<T>() && align_of::<U>() <= align_of::<T>()) }
        let ViewMut { address, len, device, owner, .. } = self;
        ViewMut { address, len, device, owner, of: PhantomData }
    }
    /// Copies another part of the device's memory to the view, in the order of `stream`.
    pub fn copy_from(&mut self, from: View<'_, T>, stream: &Stream) -> Result<()> {
        check_length("from", from.len(), "the buffer", self.len)?;
        let _apart = Apart::begin();
        from.enter("from", stream, Usage::Read)?;
        self.view().enter("to", stream, Usage::Write)?;
        // SAFETY: both views have this length and are borrowed, one of them mutably.
        unsafe { stream.copy(self.address, from.address, self.len * size_of::<T>()) }
    }
    /// Sets every byte to `byte`, in the order of `stream`.
    pub fn fill_bytes(&mut self, byte: u8, stream: &Stream) -> Result<()> {
        let _apart = Apart::begin();
        self.view().enter("to", stream, Usage::Write)?;
        // SAFETY: the view has this length and is borrowed mutably.
        unsafe { stream.fill(self.address, byte, self.len * size_of::<T>()) }
    }
    /// The elements, for native code.
    ///
    /// Errors: memory of a device that runs kernels.
    pub(crate) fn elements(&mut self, name: &'static str) -> Result<&mut [T]> {
        let device = self.device();
        self.host_mut().ok_or_else(|| not_on_host(name, device))
    }
    /// Returns the elements mutably if they are in host memory and no [`Graph`](super::Graph) may
    /// write them.
    #[inline]
    pub fn host_mut(&mut self) -> Option<&mut [T]> {
        self.reborrow().into_host_mut()
    }
    #[inline]
    pub(crate) fn into_host_mut(self) -> Option<&'a mut [T]> {
        if !is_open(self.device, self.owner) {
            return None;
        }
        // SAFETY: as in `View::host`, and the view is borrowed mutably.
        Some(unsafe { std::slice::from_raw_parts_mut(self.address as *mut T, self.len) })
    }
}
impl<T: Element> ViewMut<'_, T> {
    /// Returns the view as a kernel argument, for a launch on `stream`; `name` is for error
    /// messages.
    ///
    /// Later work on the stream waits for all earlier users of the memory. Otherwise as
    /// [`View::arg`].
    pub fn arg(&mut self, name: &'static str, stream: &Stream) -> Result<Buf<T>> {
        self.view().enter(name, stream, Usage::Write)?;
        Ok(Buf::from_device(self.address, self.len))
    }
}
impl<T: Plain> fmt::Debug for ViewMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ViewMut<{}>[{}] on {}", std::any::type_name::<T>(), self.len, self.device.name())
    }
}
