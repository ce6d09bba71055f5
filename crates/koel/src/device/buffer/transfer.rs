//! Copies between views and host memory.
use super::{View, ViewMut};
use crate::device::memory::collect;
#[cfg(feature = "cuda")]
use crate::device::{Backing, Queue, StreamInner, cuda};
use crate::device::{Element, graph};
use crate::error::{Result, check_length};
use crate::parallel::SMALL_PIECE;
use std::mem::MaybeUninit;
#[cfg(feature = "cuda")]
use std::sync::Arc;

impl<T: Element> View<'_, T> {
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
        self.device.fill(to, SMALL_PIECE, |start, part| {
            // SAFETY: host memory, initialised (zeroed at first); its writers have ended, as in
            // `host`, and `to` is borrowed mutably.
            unsafe {
                let from = (from as *const T).add(start);
                part.as_mut_ptr().cast::<T>().copy_from(from, part.len());
            }
        });
        Ok(())
    }
    /// Copies the elements to host memory, as the values of those whose flag is not 0. Waits for
    /// pending writes.
    pub(crate) fn download_found(&self, found: View<'_, u8>) -> Result<Vec<Option<T>>> {
        check_length("found", found.len(), "values", self.len)?;
        graph::outside_only("View::copy_to_host", self.device, graph::WAITS)?;
        let convert = |to: &mut [MaybeUninit<Option<T>>], values: &[T], found: &[u8]| {
            for (to, (&value, &found)) in to.iter_mut().zip(values.iter().zip(found)) {
                to.write((found != 0).then_some(value));
            }
        };
        collect(self.len, |to| {
            #[cfg(feature = "cuda")]
            if let Backing::Cuda(cuda) = &self.device.0.backing {
                let pieces = cuda::pieces_of(to);
                let parts = pieces.split(to);
                let take = |i: usize, [values, found]: [&[u8]; 2]| {
                    convert(parts.take(i), bytemuck::cast_slice(values), found);
                };
                let columns = [self.column(), found.column()];
                let writers = [self.writer(), found.writer()];
                let [writer, other] = writers.each_ref().map(cuda_of);
                if let Some(stream) = other.filter(|_| !same(&writers)) {
                    stream.synchronize()?;
                }
                // SAFETY: `len` elements of live buffers; what writes the flags has ended, or is
                // on the stream that writes the values.
                if let Some(copied) = unsafe { cuda.download(columns, pieces, writer, &take) } {
                    return copied;
                }
            }
            let write = |to: &mut [MaybeUninit<Option<T>>], values: &[T], found: &[u8]| {
                self.device.fill(to, SMALL_PIECE, |start, part| {
                    convert(part, &values[start..], &found[start..]);
                });
            };
            match (self.host(), found.host()) {
                (Some(values), Some(found)) => write(to, values, found),
                _ => write(to, &self.download()?, &found.download()?),
            }
            Ok(())
        })
    }
    /// Returns the elements as a column for copies.
    #[cfg(feature = "cuda")]
    fn column(&self) -> cuda::Column {
        cuda::Column { address: self.address, size: size_of::<T>() }
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
#[cfg(feature = "cuda")]
fn same([a, b]: &[Option<Arc<StreamInner>>; 2]) -> bool {
    matches!((a, b), (Some(a), Some(b)) if Arc::ptr_eq(a, b))
}
impl<T: Element> ViewMut<'_, T> {
    /// Copies host memory to the view. Waits for all pending uses.
    pub fn copy_from_host(&mut self, from: &[T]) -> Result<()> {
        check_length("from", from.len(), "the buffer", self.len)?;
        graph::outside_only("ViewMut::copy_from_host", self.device, graph::ALLOCATES)?;
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
        // SAFETY: host memory, borrowed mutably; its uses have ended, as in `View::host`.
        let to = unsafe { std::slice::from_raw_parts_mut(self.address as *mut _, self.len) };
        self.device.fill(to, SMALL_PIECE, |start, part| {
            part.write_copy_of_slice(&from[start..][..part.len()]);
        });
        Ok(())
    }
}
