//! Copies between views and host memory.
use super::{View, ViewMut};
use crate::device::memory::collect;
#[cfg(feature = "cuda")]
use crate::device::{Backing, Queue, cuda};
use crate::device::{Element, graph};
use crate::error::{Result, check_length};
use crate::parallel;
use std::mem::MaybeUninit;

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
            return self
                .after_writer(|writer| unsafe { cuda.copy_to_host(self.address, to, writer) });
        }
        let from = self.address;
        self.device.install(|| {
            parallel::fill(to, |start, part| {
                // SAFETY: host memory, initialised (zeroed at first); its writers have ended, as in
                // `host`, and `to` is borrowed mutably.
                unsafe {
                    let from = (from as *const T).add(start);
                    part.as_mut_ptr().cast::<T>().copy_from(from, part.len());
                }
            });
        });
        Ok(())
    }
    /// Calls `take` with consecutive pieces of the elements and the index of their first. Waits for
    /// pending writes.
    fn for_each_piece(&self, take: &mut dyn FnMut(usize, &[T])) -> Result<()> {
        graph::outside_only("View::copy_to_host", self.device, graph::WAITS)?;
        if let Some(all) = self.host() {
            take(0, all);
            return Ok(());
        }
        #[cfg(feature = "cuda")]
        if let Backing::Cuda(cuda) = &self.device.0.backing {
            let mut piece = |start: usize, bytes: &[u8]| {
                take(start / size_of::<T>(), bytemuck::cast_slice(bytes));
            };
            let (from, bytes) = (self.address, self.len * size_of::<T>());
            // SAFETY: `len` elements of a live buffer.
            let copy =
                |writer: Option<&_>| unsafe { cuda.download(from, bytes, writer, &mut piece) };
            if self.after_writer(copy)? {
                return Ok(());
            }
        }
        take(0, &self.download()?);
        Ok(())
    }
    /// Copies the elements to host memory, as the values of those whose flag is not 0. Waits for
    /// pending writes.
    pub(crate) fn download_found(&self, found: View<'_, u8>) -> Result<Vec<Option<T>>> {
        let found = found.download()?;
        check_length("found", found.len(), "values", self.len)?;
        collect(self.len, |to| {
            self.for_each_piece(&mut |first, values| {
                let (to, found) = (&mut to[first..][..values.len()], &found[first..]);
                self.device.install(|| {
                    parallel::fill(to, |start, part| {
                        let answers = values[start..].iter().zip(&found[start..]);
                        for (to, (&value, &found)) in part.iter_mut().zip(answers) {
                            to.write((found != 0).then_some(value));
                        }
                    });
                });
            })
        })
    }
    /// Calls `copy` with the stream that wrote the memory last.
    #[cfg(feature = "cuda")]
    fn after_writer<R>(&self, copy: impl FnOnce(Option<&cuda::CudaStream>) -> R) -> R {
        let writer = self.owner.and_then(|o| o.users().writer().cloned());
        copy(
            writer
                .as_ref()
                .and_then(|s| if let Queue::Cuda(s) = &s.queue { Some(s) } else { None }),
        )
    }
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
        unsafe { std::ptr::copy(from.as_ptr(), self.address as *mut T, self.len) };
        Ok(())
    }
}
