//! Arrays of a table: in memory of a device, or in a file that was opened.
use super::format::Section;
use super::reader::Mapping;
use crate::device::{Buffer, Device, Element, View};
use crate::error::Result;
use std::sync::Arc;

/// An array of a table.
pub enum Stored<T> {
    /// In memory of its own.
    Own(Buffer<T>),
    /// In a file, to read.
    Mapped(Mapped),
}
/// A section of a file, for a CPU.
pub struct Mapped {
    file: Arc<Mapping>,
    section: Section,
    device: Device,
}
impl<T: Element> Stored<T> {
    pub fn mapped(file: &Arc<Mapping>, section: Section, device: &Device) -> Stored<T> {
        Stored::Mapped(Mapped { file: file.clone(), section, device: device.clone() })
    }
    /// All of it.
    pub fn view(&self) -> View<'_, T> {
        match self {
            Stored::Own(buffer) => buffer.view(),
            Stored::Mapped(of) => View::of_host(&of.device, of.file.numbers(of.section)),
        }
    }
    /// The elements; none of them if they are in memory of a GPU.
    pub fn host(&self) -> &[T] {
        self.view().host().unwrap_or(&[])
    }
    /// Elements.
    pub fn len(&self) -> usize {
        self.view().len()
    }
    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.len() * size_of::<T>()
    }
    /// The memory, if it is its own. A file is never written to.
    pub fn own(&self) -> Option<&Buffer<T>> {
        match self {
            Stored::Own(buffer) => Some(buffer),
            Stored::Mapped(_) => None,
        }
    }
    /// Memory of its own for so many elements, whatever they hold: what it has, if it has as much.
    pub fn reserve(&mut self, device: &Device, len: usize) -> Result<&mut Buffer<T>> {
        if self.own().is_none_or(|own| own.len() < len) {
            *self = Stored::Own(device.alloc(len)?);
        }
        match self {
            Stored::Own(buffer) => Ok(buffer),
            Stored::Mapped(_) => unreachable!("it got memory of its own"),
        }
    }
    /// The file that it is in.
    pub fn file(&self) -> Option<&Mapping> {
        match self {
            Stored::Own(_) => None,
            Stored::Mapped(of) => Some(&of.file),
        }
    }
    /// A copy of the first `len` elements on a device. What is in a file is checked first: kernels
    /// rely on what is checked.
    pub fn upload(&self, len: usize, device: &Device) -> Result<Buffer<T>> {
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
