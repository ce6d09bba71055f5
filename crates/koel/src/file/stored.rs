//! Arrays of a table: in device memory, or in an opened file.
use super::kind::Section;
use super::reader::Mapping;
use crate::device::{Buffer, Device, Element, Stream, View};
use crate::error::Result;
use std::sync::Arc;

/// An array of a table.
pub(crate) enum Stored<T> {
    /// In its own memory.
    Own(Buffer<T>),
    /// In a file, read-only.
    Mapped(Mapped),
}
/// A section of a file, for a CPU.
pub(crate) struct Mapped {
    file: Arc<Mapping>,
    section: Section,
    device: Device,
}
impl<T: Element> Stored<T> {
    pub(crate) fn mapped(file: &Arc<Mapping>, section: Section, device: &Device) -> Stored<T> {
        Stored::Mapped(Mapped { file: file.clone(), section, device: device.clone() })
    }
    /// Returns a view of all elements.
    #[inline]
    pub(crate) fn view(&self) -> View<'_, T> {
        match self {
            Stored::Own(buffer) => buffer.view(),
            Stored::Mapped(of) => View::of_host(&of.device, of.file.numbers(of.section)),
        }
    }
    /// Returns the elements; none if they are in GPU memory.
    #[inline]
    pub(crate) fn host(&self) -> &[T] {
        self.view().host().unwrap_or(&[])
    }
    /// Returns the device on which they are used.
    pub(crate) fn device(&self) -> &Device {
        match self {
            Stored::Own(buffer) => buffer.device(),
            Stored::Mapped(of) => &of.device,
        }
    }
    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        self.view().len()
    }
    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.len() * size_of::<T>()
    }
    /// Returns the memory unless it is a file's. A file is never written to.
    pub(crate) fn own(&self) -> Option<&Buffer<T>> {
        match self {
            Stored::Own(buffer) => Some(buffer),
            Stored::Mapped(_) => None,
        }
    }
    /// Returns the elements mutably if they are in their own host memory and no graph may write
    /// them.
    #[inline]
    pub(crate) fn own_mut(&mut self) -> Option<&mut [T]> {
        match self {
            Stored::Own(buffer) => buffer.host_mut(),
            Stored::Mapped(_) => None,
        }
    }
    /// Copies the first `len` elements of a file to own memory. Errors: out of memory; faults of
    /// the file.
    pub(crate) fn make_own(&mut self, len: usize) -> Result<()> {
        if let Stored::Mapped(of) = self {
            let device = of.device.clone();
            *self = Stored::Own(self.upload(len, &device)?);
        }
        Ok(())
    }
    /// Returns own memory for `len` elements with arbitrary contents, reusing memory that is large
    /// enough.
    pub(crate) fn reserve(&mut self, device: &Device, len: usize) -> Result<&mut Buffer<T>> {
        if self.own().is_none_or(|own| own.len() < len) {
            *self = Stored::Own(device.alloc(len)?);
        }
        match self {
            Stored::Own(buffer) => Ok(buffer),
            Stored::Mapped(_) => unreachable!("replaced above"),
        }
    }
    /// Makes room for `room` elements, and keeps the first `len`. Memory that grows has room for
    /// half as many more. Errors: out of memory; faults of a file.
    pub(crate) fn grow(&mut self, stream: &Stream, len: usize, room: usize) -> Result<()> {
        if self.own().is_some_and(|own| own.len() >= room) {
            return Ok(());
        }
        if let Some(file) = self.file() {
            file.verify_once()?;
        }
        *self = Stored::Own(grown(stream, self.view().slice(..len)?, room)?);
        Ok(())
    }
    /// Returns the file that contains it.
    pub(crate) fn file(&self) -> Option<&Mapping> {
        match self {
            Stored::Own(_) => None,
            Stored::Mapped(of) => Some(&of.file),
        }
    }
    /// Copies the first `len` elements to a device. Verifies a file first, because kernels rely on
    /// the checks.
    pub(crate) fn upload(&self, len: usize, device: &Device) -> Result<Buffer<T>> {
        if let Some(file) = self.file() {
            file.verify_once()?;
        }
        let view = self.view().slice(..len)?;
        match view.host() {
            Some(elements) => device.upload(elements),
            None => device.upload(&view.download()?),
        }
    }
}
/// Returns memory for `room` elements, and for half as many more, that begins with these.
fn grown<T: Element>(stream: &Stream, from: View<'_, T>, room: usize) -> Result<Buffer<T>> {
    let mut to = stream.device().alloc(room + room / 2)?;
    to.view_mut().slice(..from.len())?.copy_from(from, stream)?;
    Ok(to)
}
