//! Saving, loading and opening, common to all tables.
use super::format::{Header, Meaning, Slotted, Types};
use super::kind::{Section, TableKind};
use super::reader::{Mapping, Reader};
use super::stored::Stored;
use super::writer::{Contents, Sections, Writer, replace};
use crate::cpu::Stash;
use crate::device::{Apart, Device, DeviceKind, Element};
use crate::error::{Error, Result};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;

/// A table that can be saved in files.
pub(crate) trait Filed: Sized {
    const KIND: TableKind;
    /// What its slots hold.
    type Slots: Slotted;
    fn types() -> Types;
    /// Returns what the bits mean. Errors: a longer description than files hold.
    fn meaning() -> Result<Meaning> {
        Ok(Meaning::plain(Self::types()))
    }
    /// Writes the table.
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()>;
    /// Reads the table from a file of this kind and these types.
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Self>;
    /// Returns the file that it was opened from.
    fn file(&self) -> Option<&Mapping>;
}

/// An index, which is also the first part of tables with values for its keys.
pub(crate) trait FiledIndex: Filed {
    /// The kind of multimaps of such keys, and of maps from them to strings.
    const MULTI_MAP: TableKind;
    const TO_STRINGS: TableKind;
    /// Returns the contents that are written before the keys.
    fn contents(&self) -> Result<Contents<'_, Self::Slots, u64>>;
    /// Adds the sections of the keys.
    fn add_keys<W: Write + Seek>(&self, sections: &mut Sections<'_, '_, W>) -> Result<()>;
}

/// The parts of a file, for a table on a device: copied, or used in place.
pub(crate) struct Parts<'a, R> {
    pub device: &'a Device,
    reader: Reader<R>,
    /// The mapped file, if the parts are used in place.
    file: Option<Arc<Mapping>>,
}
impl<R: Read + Seek> Parts<'_, R> {
    pub(crate) fn header(&self) -> &Header {
        self.reader.header()
    }
    /// Reads and checks the stash.
    pub(crate) fn stash<S: Slotted>(&mut self) -> Result<Stash<S::Pairs>> {
        self.reader.stash::<S>()
    }
    pub(crate) fn slots<S: Slotted, T: Element>(&mut self) -> Result<Stored<T>> {
        match &self.file {
            Some(file) => Ok(Stored::mapped(file, Section::Slots, self.device)),
            None => self.reader.load_slots::<S, T>(self.device).map(Stored::Own),
        }
    }
    pub(crate) fn column<T: Element>(&mut self, section: Section) -> Result<Stored<T>> {
        match &self.file {
            Some(file) => Ok(Stored::mapped(file, section, self.device)),
            None => self.reader.load_column(self.device, section).map(Stored::Own),
        }
    }
}

/// A table in files, whether its types are known to the compiler, as those of [`Filed`] tables, or
/// only to the running program.
pub(crate) trait InFiles: Sized {
    /// Writes the table; `path` is for error messages.
    fn write_all(&self, to: &mut (impl Write + Seek), path: &Path) -> Result<()>;
    /// Reads the table from any file. Errors: it holds another kind or other types.
    fn read_all<R: Read + Seek>(device: &Device, reader: Reader<R>) -> Result<Self>;
    /// Uses a file in place, likewise.
    ///
    /// # Safety
    /// As for [`Reader::map`].
    unsafe fn map(device: &Device, reader: Reader<File>) -> Result<Self>;
    /// Returns the file that it was opened from.
    fn mapping(&self) -> Option<&Mapping>;
}
impl<T: Filed> InFiles for T {
    fn write_all(&self, to: &mut (impl Write + Seek), path: &Path) -> Result<()> {
        self.write(Writer::new(to, path, T::meaning()?))
    }
    fn read_all<R: Read + Seek>(device: &Device, reader: Reader<R>) -> Result<T> {
        read_as(device, reader, T::meaning()?)
    }
    unsafe fn map(device: &Device, reader: Reader<File>) -> Result<T> {
        // SAFETY: the caller upholds the contract.
        unsafe { map_as(device, reader, T::meaning()?) }
    }
    fn mapping(&self) -> Option<&Mapping> {
        self.file()
    }
}
/// Reads a table whose bits have this meaning. Errors: the file holds another one.
pub(crate) fn read_as<T: Filed, R: Read + Seek>(
    device: &Device,
    reader: Reader<R>,
    meaning: Meaning,
) -> Result<T> {
    reader.check_is(T::KIND, T::types(), meaning)?;
    T::read(&mut Parts { device, reader, file: None })
}
/// Uses the file of such a table in place.
///
/// # Safety
/// As for [`Reader::map`].
pub(crate) unsafe fn map_as<T: Filed>(
    device: &Device,
    reader: Reader<File>,
    meaning: Meaning,
) -> Result<T> {
    reader.check_is(T::KIND, T::types(), meaning)?;
    // SAFETY: the caller upholds `map`'s contract.
    let file = Some(unsafe { reader.map::<T::Slots>() }?);
    T::read(&mut Parts::<File> { device, reader, file })
}

pub(crate) fn save<T: InFiles>(table: &T, path: &Path) -> Result<()> {
    replace(path, |file| write(table, file, path))
}
pub(crate) fn save_to<T: InFiles>(table: &T, to: &mut (impl Write + Seek)) -> Result<()> {
    write(table, to, Path::new("(stream)"))
}
fn write<T: InFiles>(table: &T, to: &mut (impl Write + Seek), path: &Path) -> Result<()> {
    let _apart = Apart::begin();
    if let Some(file) = table.mapping() {
        file.verify_once()?;
    }
    table.write_all(to, path)
}
pub(crate) fn load<T: InFiles>(device: &Device, path: &Path) -> Result<T> {
    T::read_all(device, Reader::open(path)?)
}
pub(crate) fn load_bytes<T: InFiles>(device: &Device, bytes: &[u8]) -> Result<T> {
    T::read_all(device, Reader::of_bytes(bytes)?)
}
/// # Safety
/// As for [`Reader::map`].
pub(crate) unsafe fn open_on<T: InFiles>(device: &Device, path: &Path) -> Result<T> {
    if device.kind() != DeviceKind::Cpu {
        let expected = "a CPU: load copies a file to other devices".into();
        return Err(Error::Setting { field: "device", found: device.name(), expected });
    }
    // SAFETY: the caller upholds the contract.
    unsafe { T::map(device, Reader::open(path)?) }
}
pub(crate) fn verify<T: InFiles>(table: &T) -> Result<()> {
    table.mapping().map_or(Ok(()), Mapping::verify)
}

/// Methods of every table [in files](InFiles); the attributes are an example of `save_to`.
macro_rules! in_files { ($(#[$example:meta])* impl[$($generics:tt)*] $table:ty) => {
    impl<$($generics)*> $table {
        /// Writes the table to a file, which [`load`](Self::load) and [`open`](Self::open) read on
        /// any device.
        ///
        /// Writes a temporary file in the same folder and renames it: `path` holds either the whole
        /// file or its previous contents, whatever happens. An existing file passes on its mode,
        /// owner and group, and a symbolic link stays: the file that it leads to is replaced. The
        /// same table always produces the same bytes. The file is 4,096 bytes larger than the
        /// table. Waits for the device, copies through host memory in pieces, and waits for the
        /// disk.
        ///
        /// A process that is killed leaves the temporary file, `.NAME.RANDOM.koel-part`; the next
        /// file that koel writes into the folder removes it. [`save_to`](Self::save_to) writes
        /// elsewhere.
        ///
        /// Errors: the file cannot be written, or is a device or a pipe; more than 2^20 entries in
        /// the stash, which only crafted keys cause (build with another seed); for an
        /// [opened](Self::open) table, faults of its file.
        pub fn save(&self, path: impl AsRef<std::path::Path>) -> $crate::Result<()> {
            $crate::file::filed::save(self, path.as_ref())
        }
        /// Writes the bytes of a file to a writer, from its beginning. Otherwise as
        /// [`save`](Self::save).
        ///
        $(#[$example])*
        pub fn save_to(
            &self,
            to: &mut (impl std::io::Write + std::io::Seek)
        ) -> $crate::Result<()> {
            $crate::file::filed::save_to(self, to)
        }
        /// Reads a file that [`save`](Self::save) wrote, on any device, into memory of a device.
        /// The answers are the same.
        ///
        /// Reads the file once, in pieces, and checks all of it. The file does not contain the
        /// report's build times and scratch memory. Errors: an unreadable or invalid file, with the
        /// fault and its location ([`FileErrorKind`](crate::file::FileErrorKind)); out of memory.
        pub fn load(
            device: &$crate::Device,
            path: impl AsRef<std::path::Path>
        ) -> $crate::Result<Self> {
            $crate::file::filed::load(device, path.as_ref())
        }
        /// As [`load`](Self::load), from the bytes of a file in memory.
        #[inline]
        pub fn load_bytes(device: &$crate::Device, bytes: &[u8]) -> $crate::Result<Self> {
            $crate::file::filed::load_bytes(device, bytes)
        }
        /// Opens a file that [`save`](Self::save) wrote, in place: lookups on the CPU, with all
        /// cores, read the file's pages, and nothing is copied.
        ///
        /// Reads the header and the stash (normally empty), whatever the size of the file; the
        /// system loads other pages when they are first touched. Programs that open the same file
        /// share its pages. [`verify`](Self::verify) checks the rest, and
        /// [`to_device`](Self::to_device) copies the table to a GPU, each array in one copy. The
        /// file is never written to: a change copies the table into memory of its own.
        ///
        /// [`load`](Self::load) is the safe alternative: it reads the file once, into memory of its
        /// own.
        ///
        /// Errors: an unreadable or invalid file, with the fault and its location
        /// ([`FileErrorKind`](crate::file::FileErrorKind)). Damage after the header and the stash
        /// is not detected.
        ///
        /// # Safety
        /// Until the table is dropped, no program changes the file's bytes or truncates it. koel
        /// itself does neither: [`save`](Self::save) puts a new file in its place, which this table
        /// does not see. The table hands out slices of the file's pages, which Rust assumes to be
        /// constant; and the system terminates a program that touches truncated pages (`SIGBUS` on
        /// Unix).
        pub unsafe fn open(path: impl AsRef<std::path::Path>) -> $crate::Result<Self> {
            // SAFETY: the caller upholds the contract.
            unsafe { Self::open_on(&$crate::Device::cpu()?, path) }
        }
        /// As [`open`](Self::open), on an existing CPU device with its own number of threads.
        ///
        /// Errors: as for [`open`](Self::open), and a device that is not a CPU.
        ///
        /// # Safety
        /// As for [`open`](Self::open).
        pub unsafe fn open_on(
            device: &$crate::Device,
            path: impl AsRef<std::path::Path>
        ) -> $crate::Result<Self> {
            // SAFETY: the caller upholds the contract.
            unsafe { $crate::file::filed::open_on(device, path.as_ref()) }
        }
        /// Checks all bytes of the file that the table was [opened](Self::open) from, reading it
        /// once. Does nothing for other tables.
        ///
        /// Errors: bytes that differ from those that were saved.
        #[inline]
        pub fn verify(&self) -> $crate::Result<()> {
            $crate::file::filed::verify(self)
        }
    }
} }
pub(crate) use in_files;
