//! Copies between views and host memory.
use super::{View, ViewMut};
use crate::device::apart::Apart;
use crate::device::memory::collect;
use crate::device::users::Usage;
#[cfg(feature = "cuda")]
use crate::device::{Backing, Device, Queue, StreamInner, cuda};
use crate::device::{Plain, graph};
use crate::error::{Result, check_length};
use crate::parallel::SMALL_PIECE;
use std::mem::MaybeUninit;
#[cfg(feature = "cuda")]
use std::sync::Arc;

/// Initialises elements from as many of another type.
type Write<'a, T, U> = dyn Fn(&mut [MaybeUninit<U>], &[T]) + Sync + 'a;
/// Initialises elements from as many of two other types.
type WriteZip<'a, T, B, U> = dyn Fn(&mut [MaybeUninit<U>], &[T], &[B]) + Sync + 'a;

impl<T: Plain> View<'_, T> {
    /// Copies the elements to host memory. Waits for pending writes. Errors: out of memory.
    pub fn download(&self) -> Result<Vec<T>> {
        collect(self.len, |to| self.copy_out(to))
    }
    /// Copies the elements to host memory. Waits for pending writes.
    pub fn copy_to_host(&self, to: &mut [T]) -> Result<()> {
        check_length("to", to.len(), "the buffer", self.len)?;
        // SAFETY: only elements are written.
        self.copy_out(unsafe { &mut *(std::ptr::from_mut(to) as *mut [MaybeUninit<T>]) })
    }
    /// Copies the elements to memory for as many; initialises all of it.
    fn copy_out(&self, to: &mut [MaybeUninit<T>]) -> Result<()> {
        graph::outside_only("View::copy_to_host", self.device, graph::WAITS)?;
        let _apart = self.apart();
        #[cfg(feature = "cuda")]
        if let Backing::Cuda(cuda) = &self.device.0.backing {
            // SAFETY: the same memory; the copy initialises it.
            let to = unsafe {
                let (start, bytes) = (to.as_mut_ptr().cast(), size_of_val(to));
                std::slice::from_raw_parts_mut(start, bytes)
            };
            // SAFETY: `len` elements of a live buffer.
            return unsafe { cuda.copy_to_host(self.address, to, cuda_of(&self.writer())) };
        }
        let from = self.address;
        self.device.fill(to, SMALL_PIECE, &|start, part| {
            // SAFETY: host memory, initialised (zeroed at first); its writers have ended, as in
            // `host`, or are graphs, which are kept apart; `to` is borrowed mutably.
            unsafe {
                let from = (from as *const T).add(start);
                part.as_mut_ptr().cast::<T>().copy_from(from, part.len());
            }
            Ok(())
        })
    }
    /// Copies the elements to host memory, converted in parallel as they arrive. Waits for pending
    /// writes.
    pub(crate) fn download_map<U: Send>(&self, convert: impl Fn(T) -> U + Sync) -> Result<Vec<U>> {
        collect(self.len, |to| self.copy_map(to, convert))
    }
    /// As [`download_map`](Self::download_map), from pairs of these elements and those of another
    /// view of the same length.
    pub(crate) fn download_zip<B: Plain, U: Send>(
        &self,
        other: View<'_, B>,
        convert: impl Fn(T, B) -> U + Sync,
    ) -> Result<Vec<U>> {
        collect(self.len, |to| self.copy_zip(other, to, convert))
    }
    /// As [`download_map`](Self::download_map), to memory for as many elements; initialises all of
    /// it.
    pub(crate) fn copy_map<U: Send>(
        &self,
        to: &mut [MaybeUninit<U>],
        convert: impl Fn(T) -> U + Sync,
    ) -> Result<()> {
        self.copy_by(to, &|to, from| {
            to.iter_mut().zip(from).for_each(|(to, &from)| _ = to.write(convert(from)));
        })
    }
    /// See [`copy_map`](Self::copy_map): compiled once for two types.
    fn copy_by<U: Send>(&self, to: &mut [MaybeUninit<U>], write: &Write<'_, T, U>) -> Result<()> {
        check_length("to", to.len(), "the buffer", self.len)?;
        graph::outside_only("View::copy_to_host", self.device, graph::WAITS)?;
        let _apart = self.apart();
        #[cfg(feature = "cuda")]
        if let Some(copied) = through_slots(self.device, [self.source()], to, &|to, [from]| {
            write(to, bytemuck::cast_slice(from));
        }) {
            return copied;
        }
        let own = self.host().is_none().then(|| self.download()).transpose()?;
        let from = self.host().or(own.as_deref()).unwrap_or_default();
        self.device.fill(to, SMALL_PIECE, &|start, part| {
            write(part, &from[start..]);
            Ok(())
        })
    }
    /// As [`download_zip`](Self::download_zip), to memory for as many elements; initialises all of
    /// it.
    pub(crate) fn copy_zip<B: Plain, U: Send>(
        &self,
        other: View<'_, B>,
        to: &mut [MaybeUninit<U>],
        convert: impl Fn(T, B) -> U + Sync,
    ) -> Result<()> {
        self.copy_zip_by(other, to, &|to, a, b| {
            let pairs = to.iter_mut().zip(a.iter().zip(b));
            pairs.for_each(|(to, (&a, &b))| _ = to.write(convert(a, b)));
        })
    }
    /// See [`copy_zip`](Self::copy_zip): compiled once for three types.
    fn copy_zip_by<B: Plain, U: Send>(
        &self,
        other: View<'_, B>,
        to: &mut [MaybeUninit<U>],
        write: &WriteZip<'_, T, B, U>,
    ) -> Result<()> {
        check_length("to", to.len(), "the buffer", self.len)?;
        check_length("the other buffer", other.len, "the buffer", self.len)?;
        graph::outside_only("View::copy_to_host", self.device, graph::WAITS)?;
        let _apart = (self.apart(), other.apart());
        #[cfg(feature = "cuda")]
        if let Some(copied) =
            through_slots(self.device, [self.source(), other.source()], to, &|to, [a, b]| {
                write(to, bytemuck::cast_slice(a), bytemuck::cast_slice(b));
            })
        {
            return copied;
        }
        let own = self.host().is_none().then(|| self.download()).transpose()?;
        let own_other = other.host().is_none().then(|| other.download()).transpose()?;
        let a = self.host().or(own.as_deref()).unwrap_or_default();
        let b = other.host().or(own_other.as_deref()).unwrap_or_default();
        self.device.fill(to, SMALL_PIECE, &|start, part| {
            write(part, &a[start..], &b[start..]);
            Ok(())
        })
    }
    /// Begins an operation that reads the elements.
    fn apart(&self) -> Apart {
        let apart = Apart::begin();
        if let Some(owner) = self.owner {
            owner.keep_apart(Usage::Read);
        }
        apart
    }
    /// Returns the elements as a column for copies, and the stream that wrote them last.
    #[cfg(feature = "cuda")]
    fn source(&self) -> Source {
        let column = cuda::Column { address: self.address, size: size_of::<T>() };
        Source { column, writer: self.writer() }
    }
    /// Returns the stream that wrote the memory last.
    #[cfg(feature = "cuda")]
    fn writer(&self) -> Option<Arc<StreamInner>> {
        self.owner.and_then(|o| o.users().writer().cloned())
    }
}
#[cfg(feature = "cuda")]
fn cuda_of(stream: &Option<Arc<StreamInner>>) -> Option<&cuda::CudaStream> {
    match &stream.as_ref()?.queue {
        Queue::Cuda(stream) => Some(stream),
        _ => None,
    }
}
/// Device memory of a view.
#[cfg(feature = "cuda")]
struct Source {
    column: cuda::Column,
    writer: Option<Arc<StreamInner>>,
}
/// Initialises elements from the bytes of columns.
#[cfg(feature = "cuda")]
type Convert<'a, const N: usize, U> = dyn Fn(&mut [MaybeUninit<U>], [&[u8]; N]) + Sync + 'a;
/// Copies columns of device memory through pinned memory, and calls `convert` with parts of `to`
/// and the bytes of the same elements. Returns `None`, before any copy,
/// if the device is no GPU or the copy has to be made in another way.
#[cfg(feature = "cuda")]
fn through_slots<const N: usize, U: Send>(
    device: &Device,
    sources: [Source; N],
    to: &mut [MaybeUninit<U>],
    convert: &Convert<'_, N, U>,
) -> Option<Result<()>> {
    let Backing::Cuda(cuda) = &device.0.backing else { return None };
    let pieces = cuda::pieces_of(to);
    let parts = match pieces.split(to) {
        Ok(parts) => parts,
        Err(e) => return Some(Err(e)),
    };
    let take = |i: usize, columns: [&[u8]; N]| convert(parts.take(i), columns);
    let first = sources[0].writer.as_ref();
    let is_first =
        |writer: &Arc<StreamInner>| first.is_some_and(|first| Arc::ptr_eq(first, writer));
    for source in &sources[1..] {
        if source.writer.as_ref().is_none_or(is_first) {
            continue;
        }
        if let Some(Err(e)) = cuda_of(&source.writer).map(|stream| stream.synchronize()) {
            return Some(Err(e));
        }
    }
    let writer = cuda_of(&sources[0].writer);
    let columns = sources.each_ref().map(|source| source.column);
    // SAFETY: as many elements of live buffers; what writes the other columns has ended, or is on
    // the stream that writes the first.
    unsafe { cuda.download(columns, pieces, writer, &take) }
}
impl<T: Plain> ViewMut<'_, T> {
    /// Copies host memory to the view. Waits for all pending uses.
    pub fn copy_from_host(&mut self, from: &[T]) -> Result<()> {
        check_length("from", from.len(), "the buffer", self.len)?;
        graph::outside_only("ViewMut::copy_from_host", self.device, graph::ALLOCATES)?;
        let _apart = Apart::begin();
        if let Some(owner) = self.owner {
            owner.keep_apart(Usage::Write);
        }
        #[cfg(feature = "cuda")]
        if let Backing::Cuda(cuda) = &self.device.0.backing {
            if let Some(owner) = self.owner {
                owner.settle()?;
            }
            // SAFETY: `len` elements of a live buffer; later uses wait for the legacy default
            // stream.
            unsafe { cuda.copy_from_host(self.address, bytemuck::cast_slice(from)) }?;
            // koel does not know the later uses of memory of others.
            return self.owner.map_or_else(|| cuda.synchronize_legacy(), |_| Ok(()));
        }
        // SAFETY: host memory, borrowed mutably; its uses have ended, as in `View::host`, or are
        // graphs, which are kept apart.
        let to = unsafe { std::slice::from_raw_parts_mut(self.address as *mut _, self.len) };
        self.device.fill(to, SMALL_PIECE, &|start, part| {
            part.write_copy_of_slice(&from[start..][..part.len()]);
            Ok(())
        })
    }
}
