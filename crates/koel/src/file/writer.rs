//! Writes table files: whole, or not at all.
use super::format::{Checksum, HEADER_BYTES, Header};
use super::{FileError, FileErrorKind};
use crate::error::Result;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Writes a file from its beginning. The header comes last, when the checksums are known.
pub struct Writer<'a, W> {
    to: &'a mut W,
    path: &'a Path,
    checksum: Checksum,
}
impl<'a, W: Write + Seek> Writer<'a, W> {
    /// `path` is for errors.
    pub fn new(to: &'a mut W, path: &'a Path) -> Result<Writer<'a, W>> {
        let mut writer = Writer { to, path, checksum: Checksum::default() };
        let written = writer.to.seek(SeekFrom::Start(0)).and_then(|_| writer.to.write_all(&[0; HEADER_BYTES as usize]));
        writer.ok(written)?;
        Ok(writer)
    }
    fn ok(&mut self, written: io::Result<()>) -> Result<()> {
        written.map_err(|e| FileError { path: self.path.to_owned(), kind: FileErrorKind::Write(e) }.into())
    }
    /// The next words of a section.
    pub fn words(&mut self, words: &[u64]) -> Result<()> {
        let bytes = bytemuck::cast_slice(words);
        self.checksum.add(bytes);
        let written = self.to.write_all(bytes);
        self.ok(written)
    }
    /// The end of a section: its checksum.
    pub fn end_section(&mut self) -> u64 {
        std::mem::take(&mut self.checksum).finish()
    }
    /// The header.
    pub fn finish(mut self, header: &Header) -> Result<()> {
        let written = self.to.seek(SeekFrom::Start(0)).and_then(|_| self.to.write_all(&header.encode()));
        let written = written.and_then(|()| self.to.flush());
        self.ok(written)
    }
}

/// Has a file written beside its place, and puts it there when it is whole and on the disk. If that fails, nothing is left beside, and
/// the old file, if there was one, is as it was.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let refused = |e| FileError { path: path.to_owned(), kind: FileErrorKind::Write(e) };
    // Known before the work is done, and on every system.
    if path.is_dir() {
        return Err(refused(io::Error::from(io::ErrorKind::IsADirectory)).into());
    }
    let beside = Beside::new(path).map_err(refused)?;
    let mut file = OpenOptions::new().write(true).create_new(true).open(&beside.path).map_err(refused)?;
    write(&mut file)?;
    file.sync_all().map_err(refused)?;
    drop(file);
    fs::rename(&beside.path, path).map_err(refused)?;
    Ok(())
}
/// A file that is removed, unless it was renamed.
struct Beside {
    path: PathBuf,
}
impl Beside {
    /// A name that no other thread and no other process uses.
    fn new(path: &Path) -> io::Result<Beside> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = path.file_name().ok_or_else(|| io::Error::other("expected the name of a file"))?;
        let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Relaxed));
        Ok(Beside { path: path.with_file_name(format!(".{}.{process}.{number}", name.display())) })
    }
}
impl Drop for Beside {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // it may have been renamed, or never made
    }
}
