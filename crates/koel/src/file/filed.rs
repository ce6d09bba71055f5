//! What all tables have in common that are saved, loaded and opened.
use super::format::{Header, Section, Slotted, TableKind, Types};
use super::reader::{Mapping, Reader};
use super::stored::Stored;
use super::writer::{Writer, replace};
use crate::cpu::Stash;
use crate::device::{Device, DeviceKind, Element, View};
use crate::error::{Error, Result};
use koel_kernels::table::layout::Shape;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;

/// A table that is saved in files.
pub trait Filed: Sized {
    const KIND: TableKind;
    /// What its slots hold.
    type Slots: Slotted;
    fn types() -> Types;
    /// Writes it.
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()>;
    /// Takes it from a file of this kind and these types.
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Self>;
    /// The file that it was opened from.
    fn file(&self) -> Option<&Mapping>;
}

/// What is written of a table of buckets.
pub struct Contents<'a, S: Slotted, T> {
    pub shape: Shape,
    pub seed: u32,
    pub pairs: usize,
    pub duplicates: usize,
    /// With the value of the ambiguous key.
    pub stash: Stash<S::Pairs>,
    pub slots: View<'a, T>,
    /// Values of a multimap; 0 of other kinds.
    pub values: usize,
    /// Of keys of 128 bits, what the function of their fingerprints follows from; 0 of other
    /// kinds.
    pub fingerprints: u64,
}

/// The parts of a file for a table on a device: to copy, or to look at where they are.
pub struct Parts<'a, R> {
    pub device: &'a Device,
    reader: Reader<R>,
    /// Where they are.
    file: Option<Arc<Mapping>>,
}
impl<R: Read + Seek> Parts<'_, R> {
    pub fn header(&self) -> &Header {
        self.reader.header()
    }
    /// The stash, which is read and checked.
    pub fn stash<S: Slotted>(&mut self) -> Result<Stash<S::Pairs>> {
        self.reader.stash::<S>()
    }
    pub fn slots<S: Slotted, T: Element>(&mut self) -> Result<Stored<T>> {
        match &self.file {
            Some(file) => Ok(Stored::mapped(file, Section::Slots, self.device)),
            None => self.reader.load_slots::<S, T>(self.device).map(Stored::Own),
        }
    }
    pub fn column<T: Element>(&mut self, section: Section) -> Result<Stored<T>> {
        match &self.file {
            Some(file) => Ok(Stored::mapped(file, section, self.device)),
            None => self.reader.load_column(self.device, section).map(Stored::Own),
        }
    }
}

pub fn save<T: Filed>(table: &T, path: &Path) -> Result<()> {
    replace(path, |file| write(table, file, path))
}
pub fn save_to<T: Filed>(table: &T, to: &mut (impl Write + Seek)) -> Result<()> {
    write(table, to, Path::new("(stream)"))
}
fn write<T: Filed>(table: &T, to: &mut (impl Write + Seek), path: &Path) -> Result<()> {
    if let Some(file) = table.file() {
        file.verify_once()?;
    }
    table.write(Writer::new(to, path))
}
pub fn load<T: Filed>(device: &Device, path: &Path) -> Result<T> {
    read(device, Reader::open(path)?)
}
pub fn load_bytes<T: Filed>(device: &Device, bytes: &[u8]) -> Result<T> {
    read(device, Reader::of_bytes(bytes)?)
}
fn read<T: Filed, R: Read + Seek>(device: &Device, reader: Reader<R>) -> Result<T> {
    reader.check_is(T::KIND, T::types())?;
    T::read(&mut Parts { device, reader, file: None })
}
/// # Safety
/// As for [`Reader::map`].
pub unsafe fn open_on<T: Filed>(device: &Device, path: &Path) -> Result<T> {
    if device.kind() != DeviceKind::Cpu {
        let expected = "a CPU: load copies a file to other devices".into();
        return Err(Error::Setting { field: "device", found: device.name(), expected });
    }
    let reader = Reader::open(path)?;
    reader.check_is(T::KIND, T::types())?;
    // SAFETY: the caller's.
    let file = Some(unsafe { reader.map::<T::Slots>() }?);
    T::read(&mut Parts::<File> { device, reader, file })
}
pub fn verify<T: Filed>(table: &T) -> Result<()> {
    table.file().map_or(Ok(()), Mapping::verify)
}

/// What every table that is [`Filed`] offers; the attributes are an example of `save_to`.
macro_rules! in_files { ($(#[$example:meta])* impl[$($generics:tt)*] $table:ty) => {
    impl<$($generics)*> $table {
        /// Writes it to a file, which [`load`](Self::load) and [`open`](Self::open) read, on any
        /// device.
        ///
        /// The file is written beside its place and renamed: at `path` there is all of it or what
        /// was there before, whatever happens. The same table gives the same bytes each time. It is
        /// as long as the table, and 4,096 bytes. Waits for the device, copies through host memory
        /// piece by piece, and waits for the disk.
        ///
        /// Errors: the file cannot be written; more than 2^20 entries in the stash, which only keys
        /// that were chosen to collide cause: build with another seed; of what was
        /// [opened](Self::open), faults of its file.
        pub fn save(&self, path: impl AsRef<std::path::Path>) -> $crate::Result<()> {
            $crate::file::filed::save(self, path.as_ref())
        }
        /// Writes the bytes of a file to a writer, from its beginning. Otherwise as
        /// [`save`](Self::save).
        ///
        $(#[$example])*
        pub fn save_to(&self, to: &mut (impl std::io::Write + std::io::Seek)) -> $crate::Result<()> {
            $crate::file::filed::save_to(self, to)
        }
        /// Reads a file that [`save`](Self::save) wrote, on any device, into memory of a device.
        /// The answers are the same.
        ///
        /// Reads the file once, piece by piece, and checks all of it. What is told of builds,
        /// seconds and scratch memory, is not in a file. Errors: a file that cannot be read or is
        /// not what it should be, with what and where
        /// ([`FileErrorKind`](crate::file::FileErrorKind)); out of memory.
        pub fn load(device: &$crate::Device, path: impl AsRef<std::path::Path>) -> $crate::Result<Self> {
            $crate::file::filed::load(device, path.as_ref())
        }
        /// As [`load`](Self::load), of the bytes of a file in memory.
        pub fn load_bytes(device: &$crate::Device, bytes: &[u8]) -> $crate::Result<Self> {
            $crate::file::filed::load_bytes(device, bytes)
        }
        /// Opens a file that [`save`](Self::save) wrote where it is: lookups on the CPU, with all
        /// cores, look into the file's pages, and nothing is copied.
        ///
        /// Reads the header and the stash (normally empty), whatever the size of the file; the
        /// system brings other pages in when they are first touched. Two programs that open the
        /// same file share its pages. [`verify`](Self::verify) checks the rest, and
        /// [`to_device`](Self::to_device) takes it to a GPU, each array in one copy. Nothing is
        /// ever written to the file: what changes gets memory of its own.
        ///
        /// [`load`](Self::load) is the safe way: it reads the file once, into memory of its own.
        ///
        /// Errors: a file that cannot be read or is not what it should be, with what and where
        /// ([`FileErrorKind`](crate::file::FileErrorKind)); damage behind the header and the stash
        /// is not looked for.
        ///
        /// # Safety
        /// Until the table is dropped, no program changes the file's bytes or cuts it short. koel
        /// itself does neither: [`save`](Self::save) puts a new file in its place, which this table
        /// does not see. The table lends slices of the file's pages, which Rust takes to be
        /// constant; and the system ends a program that touches pages which are gone (`SIGBUS` on
        /// Unix).
        pub unsafe fn open(path: impl AsRef<std::path::Path>) -> $crate::Result<Self> {
            // SAFETY: the caller's.
            unsafe { Self::open_on(&$crate::Device::cpu()?, path) }
        }
        /// As [`open`](Self::open), on a CPU device that is there already, which has its own number
        /// of threads.
        ///
        /// Errors: besides, a device that is not the CPU.
        ///
        /// # Safety
        /// As for [`open`](Self::open).
        pub unsafe fn open_on(device: &$crate::Device, path: impl AsRef<std::path::Path>) -> $crate::Result<Self> {
            // SAFETY: the caller's.
            unsafe { $crate::file::filed::open_on(device, path.as_ref()) }
        }
        /// Checks all bytes of the file that it was [opened](Self::open) from: reads it once. Of
        /// other tables there is nothing to check.
        ///
        /// Errors: bytes that are not those which were saved.
        pub fn verify(&self) -> $crate::Result<()> {
            $crate::file::filed::verify(self)
        }
    }
} }
pub(crate) use in_files;
