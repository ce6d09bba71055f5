//! Strict reading of table files: no allocation and no offset depends on a number that has not been
//! checked against the length of the file.
use super::format::{Checksum, HEADER_BYTES, Header, MAX_FILLING, Meaning, Slotted, Types};
use super::kind::{Section, TableKind, Width};
use super::{FileError, FileErrorKind};
use crate::cpu::Stash;
use crate::device::{Buffer, Device, Element};
use crate::error::{Error, Result};
use crate::fallible::repeat;
use koel_kernels::table::layout::{Layout, Number};
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;

/// Elements read at a time: they stay in the cache until they are checked.
const PIECE: usize = 64 << 10;
/// Maximum number of steps to insert the pairs of a stash: a tenth of a second. Keys that were not
/// crafted to collide take one step each.
const MAX_STEPS: u64 = 1 << 26;

/// Where the bytes of a file come from.
pub(crate) trait Source: Read + Seek {}
impl<R: Read + Seek> Source for R {}

/// A table file with a valid header.
pub(crate) struct Reader<R> {
    source: R,
    path: PathBuf,
    header: Header,
}
impl Reader<File> {
    /// Opens a file and reads its header.
    pub(crate) fn open(path: &Path) -> Result<Reader<File>> {
        let at_path = |kind| FileError { path: path.to_owned(), kind };
        let refused = |e| at_path(FileErrorKind::Read(e));
        // Opening a pipe would block.
        if !std::fs::metadata(path).map_err(refused)?.is_file() {
            return Err(refused(io::Error::other("expected a regular file")).into());
        }
        let file = File::open(path).map_err(refused)?;
        let bytes = file.metadata().map_err(refused)?.len();
        Reader::new(file, bytes, path)
    }
    /// Maps the file, whose header has been read.
    ///
    /// # Safety
    /// Nobody changes or truncates the file while the mapping exists.
    pub(crate) unsafe fn map<S: Slotted>(&self) -> Result<Arc<Mapping>> {
        let bytes = usize::try_from(self.header.file_bytes()).map_err(|_| Error::OutOfMemory {
            device: "the host".into(),
            asked: usize::MAX,
            free: 0,
        })?;
        // SAFETY: memory of a mapping must not change while it is borrowed. The mapping is private
        // and never written here; `save` never changes an existing file, but replaces it; the
        // caller promises that nobody else does.
        let map = unsafe { MmapOptions::new().len(bytes).map_copy_read_only(&self.source) };
        let map = map.map_err(|e| self.fault(FileErrorKind::Read(e)))?;
        let check = |mapping: &Mapping| mapping.reader().check_sections::<S>();
        Ok(Arc::new(Mapping {
            map,
            path: self.path.clone(),
            header: self.header,
            check,
            checked: OnceLock::new(),
        }))
    }
}
impl<'a> Reader<Cursor<&'a [u8]>> {
    /// Reads a file in memory.
    pub(crate) fn of_bytes(bytes: &'a [u8]) -> Result<Self> {
        Reader::new(Cursor::new(bytes), bytes.len() as u64, Path::new("(memory)"))
    }
}
impl<R: Read + Seek> Reader<R> {
    fn new(mut source: R, bytes: u64, path: &Path) -> Result<Reader<R>> {
        let at_path = |kind| FileError { path: path.to_owned(), kind };
        let mut start = [0; HEADER_BYTES as usize];
        let start = &mut start[..bytes.min(HEADER_BYTES) as usize];
        source.read_exact(start).map_err(|e| at_path(FileErrorKind::Read(e)))?;
        let header = Header::decode(start, bytes).map_err(at_path)?;
        Ok(Reader { source, path: path.to_owned(), header })
    }
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }
    /// Fails if the file holds another kind of table, or other types.
    pub(crate) fn check_is(&self, kind: TableKind, types: Types, meaning: Meaning) -> Result<()> {
        let Header { kind: found_kind, types: of_file, meaning: found, .. } = self.header;
        if found_kind != kind {
            return Err(self.fault(FileErrorKind::Kind { found: found_kind, expected: kind }));
        }
        match of_file == types && found == meaning {
            true => Ok(()),
            false => Err(self.wrong_types(meaning.to_string())),
        }
    }
    /// Returns the error of a file whose types are not those expected.
    pub(crate) fn wrong_types(&self, expected: String) -> Error {
        let found = self.header.meaning;
        let found = format!("{} {found}", found.what());
        self.fault(FileErrorKind::WrongTypes { found, expected })
    }
    /// Returns the same reader, of a source of a type that all sources share.
    pub(crate) fn by_ref(&mut self) -> Reader<&mut dyn Source> {
        Reader { path: self.path.clone(), header: self.header, source: &mut self.source }
    }
    fn fault(&self, kind: FileErrorKind) -> Error {
        FileError { path: self.path.clone(), kind }.into()
    }
    fn seek(&mut self, section: Section) -> Result<()> {
        let sought = self.source.seek(SeekFrom::Start(self.header.extent(section).offset));
        sought.map(|_| ()).map_err(|e| self.fault(FileErrorKind::Read(e)))
    }
    fn read<T: Element>(&mut self, numbers: &mut [T]) -> Result<()> {
        let read = self.source.read_exact(bytemuck::cast_slice_mut(numbers));
        read.map_err(|e| self.fault(FileErrorKind::Read(e)))
    }

    /// Reads and checks the stash.
    pub(crate) fn stash<S: Slotted>(&mut self) -> Result<Stash<S::Pairs>> {
        let Header { held, .. } = self.header;
        let mut words = repeat(0u64, self.header.extent(Section::Stash).bytes as usize / 8)?;
        self.seek(Section::Stash)?;
        self.read(&mut words)?;
        check(Section::Stash, bytemuck::cast_slice(&words), &self.header)
            .map_err(|kind| self.fault(kind))?;
        let held = held.map(<S::Pairs as Layout>::Value::narrowed);
        stash_of(&words, held, &self.header)?.map_err(|kind| self.fault(kind))
    }
    /// Passes the slots to `take` in pieces of whole buckets, in order. The check comes after the
    /// last piece: if it fails, discard what was taken.
    pub(crate) fn slots<S: Slotted>(
        &mut self,
        mut take: impl FnMut(&[u64]) -> Result<()>,
    ) -> Result<()> {
        let mut slots = Slots::<S>::new(&self.header);
        self.pieces(Section::Slots, |piece| {
            slots.add(piece);
            take(piece)
        })?;
        slots.finish().map_err(|kind| self.fault(kind))
    }
    /// Passes a column to `take` in pieces, in order. The check comes after the last piece, as for
    /// [`slots`](Self::slots).
    pub(crate) fn column<T: Element>(
        &mut self,
        section: Section,
        mut take: impl FnMut(&[T]) -> Result<()>,
    ) -> Result<()> {
        let mut column = Column::new(&self.header, section);
        self.pieces(section, |piece: &[T]| {
            column.add(piece);
            take(piece)
        })?;
        let mut filling = [0u8; MAX_FILLING];
        let filling = &mut filling[..column.filling()];
        self.read(filling)?;
        column.finish(filling).map_err(|kind| self.fault(kind))
    }
    /// Passes the elements of a section to `take` in pieces.
    fn pieces<T: Element>(
        &mut self,
        section: Section,
        mut take: impl FnMut(&[T]) -> Result<()>,
    ) -> Result<()> {
        self.seek(section)?;
        let mut left = self.header.column(section).0 as usize;
        let mut piece = repeat(T::zeroed(), left.min(PIECE))?;
        while left > 0 {
            let piece = &mut piece[..left.min(PIECE)];
            self.read(piece)?;
            take(piece)?;
            left -= piece.len();
        }
        Ok(())
    }
    /// Reads and checks all sections except the stash.
    pub(crate) fn check_sections<S: Slotted>(&mut self) -> Result<()> {
        self.slots::<S>(|_| Ok(()))?;
        for &section in &self.header.kind.sections()[2..] {
            match self.header.column(section).1 {
                Width::U32 => self.column::<u32>(section, |_| Ok(())),
                Width::U64 => self.column::<u64>(section, |_| Ok(())),
                Width::U128 => self.column::<u128>(section, |_| Ok(())),
            }?;
        }
        Ok(())
    }
    /// Loads the slots, checked, into memory of a device.
    pub(crate) fn load_slots<S: Slotted, T: Element>(
        &mut self,
        device: &Device,
    ) -> Result<Buffer<T>> {
        let words = self.header.column(Section::Slots).0 as usize;
        let mut to = Filled::new(device, words * 8 / size_of::<T>())?;
        self.slots::<S>(|piece| to.add(bytemuck::cast_slice(piece)))?;
        Ok(to.buffer)
    }
    /// Loads a column, checked, into memory of a device.
    pub(crate) fn load_column<T: Element>(
        &mut self,
        device: &Device,
        section: Section,
    ) -> Result<Buffer<T>> {
        let mut to = Filled::new(device, self.header.column(section).0 as usize)?;
        self.column(section, |piece| to.add(piece))?;
        Ok(to.buffer)
    }
}
/// Memory of a device that is filled in pieces.
struct Filled<T> {
    buffer: Buffer<T>,
    len: usize,
}
impl<T: Element> Filled<T> {
    fn new(device: &Device, len: usize) -> Result<Filled<T>> {
        Ok(Filled { buffer: device.alloc(len)?, len: 0 })
    }
    fn add(&mut self, piece: &[T]) -> Result<()> {
        let end = self.len + piece.len();
        self.buffer.view_mut().slice(self.len..end)?.copy_from_host(piece)?;
        self.len = end;
        Ok(())
    }
}

/// A mapped table file. Only its header has been checked.
pub(crate) struct Mapping {
    map: Mmap,
    path: PathBuf,
    header: Header,
    check: fn(&Mapping) -> Result<()>,
    checked: OnceLock<()>,
}
impl Mapping {
    /// Returns the elements of a section. The slots start on a multiple of 4,096 bytes, other
    /// sections on one of 8, 128-bit elements on one of 16.
    pub(crate) fn numbers<T: Element>(&self, section: Section) -> &[T] {
        let (start, (n, width)) =
            (self.header.extent(section).offset as usize, self.header.column(section));
        bytemuck::cast_slice(&self.map[start..][..n as usize * (width.bits() / 8) as usize])
    }
    fn reader(&self) -> Reader<Cursor<&[u8]>> {
        Reader { source: Cursor::new(&self.map), path: self.path.clone(), header: self.header }
    }
    /// Checks everything except the header and the stash. Reads the file once.
    pub(crate) fn verify(&self) -> Result<()> {
        (self.check)(self)?;
        let _ = self.checked.set(()); // may already be set
        Ok(())
    }
    /// Does the same, unless already done.
    pub(crate) fn verify_once(&self) -> Result<()> {
        if self.checked.get().is_some() { Ok(()) } else { self.verify() }
    }
}

/// Checks of the slots: their checksum; that they hold as many pairs as the header says, on which
/// enumeration of all pairs relies; and that values that number keys are in range.
struct Slots<S> {
    header: Header,
    checksum: Checksum,
    place: u32,
    pairs: u64,
    greatest: u64,
    slotted: std::marker::PhantomData<S>,
}
impl<S: Slotted> Slots<S> {
    fn new(header: &Header) -> Slots<S> {
        let checksum = Checksum::default();
        Slots {
            header: *header,
            checksum,
            place: 0,
            pairs: 0,
            greatest: 0,
            slotted: std::marker::PhantomData,
        }
    }
    /// Adds the next words, of whole buckets.
    fn add(&mut self, words: &[u64]) {
        self.checksum.add(bytemuck::cast_slice(words));
        for bucket in words.chunks_exact(S::BUCKET_WORDS) {
            let (pairs, greatest) = S::entries(self.header.shape, self.place, bucket);
            (self.pairs, self.greatest) = (self.pairs + pairs, self.greatest.max(greatest));
            self.place += 1;
        }
    }
    fn finish(self) -> std::result::Result<(), FileErrorKind> {
        self.checksum.check(Section::Slots, &self.header)?;
        let (found, expected, most) =
            (self.pairs, self.header.in_buckets(), self.header.most_value());
        match found == expected {
            false => Err(FileErrorKind::Pairs { found, expected }),
            true if self.greatest > most => {
                Err(FileErrorKind::Number { found: self.greatest, most })
            }
            true => Ok(()),
        }
    }
}
/// Checks of a column: its checksum; that the starts ascend from 0 to the number of values, or of
/// bytes; that the padding to whole words is 0. Starts of strings may be equal.
struct Column {
    header: Header,
    section: Section,
    checksum: Checksum,
    /// Number of elements so far, and the last one.
    n: u64,
    last: u64,
    fault: Option<FileErrorKind>,
}
impl Column {
    fn new(header: &Header, section: Section) -> Column {
        Column {
            header: *header,
            section,
            checksum: Checksum::default(),
            n: 0,
            last: 0,
            fault: None,
        }
    }
    fn add<T: Element>(&mut self, numbers: &[T]) {
        self.checksum.add(bytemuck::cast_slice(numbers));
        let (header, section) = (&self.header, self.section);
        match (header.starts_in(section), header.column(section).1) {
            (Some((_, repeat)), Width::U32) => {
                self.ascend::<u32>(bytemuck::cast_slice(numbers), repeat)
            }
            (Some((_, repeat)), _) => self.ascend::<u64>(bytemuck::cast_slice(numbers), repeat),
            _ if header.strings_in(section).is_some() => {
                self.n += numbers.len() as u64;
                self.last = bytemuck::cast_slice(numbers).last().copied().unwrap_or(self.last);
            }
            // Values, and keys, which are in any order.
            _ => self.n += numbers.len() as u64,
        }
    }
    fn ascend<T: Number>(&mut self, numbers: &[T], repeat: bool) {
        for number in numbers.iter().map(|number| number.widened()) {
            let expected = match self.n {
                0 => (number != 0).then(|| "0".to_owned()),
                _ if repeat => (number < self.last).then(|| format!("at least {}", self.last)),
                _ => (number <= self.last).then(|| format!("more than {}", self.last)),
            };
            if let Some(expected) = expected {
                self.refuse(number, expected);
            }
            (self.n, self.last) = (self.n + 1, number);
        }
    }
    /// Keeps the first fault.
    fn refuse(&mut self, found: u64, expected: String) {
        let (section, element) = (self.section, self.n);
        let width = u64::from(self.header.column(section).1.bits() / 8);
        let byte = self.header.extent(section).offset + element * width;
        self.fault.get_or_insert(FileErrorKind::Element {
            byte,
            section,
            element,
            found,
            expected,
        });
    }
    /// Returns the bytes after the last element.
    fn filling(&self) -> usize {
        let (n, width) = self.header.column(self.section);
        (self.header.extent(self.section).bytes - n * u64::from(width.bits() / 8)) as usize
    }
    fn finish(mut self, filling: &[u8]) -> std::result::Result<(), FileErrorKind> {
        self.checksum.add(filling);
        self.checksum.check(self.section, &self.header)?;
        if let Some(&filled) = filling.iter().find(|byte| **byte != 0) {
            self.refuse(filled.into(), "0".into());
        }
        let used = self.header.strings_in(self.section).map_or(0, |bytes| bytes % 8 * 8);
        let behind = if used > 0 { self.last >> used } else { 0 };
        if behind != 0 {
            self.n -= 1;
            self.refuse(behind, "0 behind the last string".into());
        }
        let end = self.header.starts_in(self.section).map_or(self.last, |(end, _)| end);
        if self.last != end {
            self.n -= 1;
            self.refuse(self.last, end.to_string());
        }
        self.fault.map_or(Ok(()), Err)
    }
}
fn check(
    section: Section,
    bytes: &[u8],
    header: &Header,
) -> std::result::Result<(), FileErrorKind> {
    let mut checksum = Checksum::default();
    checksum.add(bytes);
    checksum.check(section, header)
}

/// Builds the stash of a table from the words of its section.
///
/// Errors: out of memory. The result is a fault if keys are out of order or such that no stash
/// holds, values are out of range, or keys collide too often.
pub(crate) fn stash_of<L: Layout>(
    words: &[u64],
    held: Option<L::Value>,
    header: &Header,
) -> Result<std::result::Result<Stash<L>, FileErrorKind>> {
    let (offset, most) = (header.extent(Section::Stash).offset, header.most_value());
    let pairs = words
        .chunks_exact(L::SLOT_WORDS)
        .map(|slot| L::with_head(slot[0], slot[L::SLOT_WORDS - 1]));
    let n = pairs.len() as u64;
    let mut before = None;
    for (pair, i) in pairs.clone().zip(0..) {
        let key = L::key(pair);
        let fault = match before {
            _ if key == L::AMBIGUOUS => "has the ambiguous key",
            Some(before) if key == before => "has the key of the one before it",
            Some(before) if key < before => "is out of order",
            _ if L::value(pair).widened() > most => "has a value that is too large",
            _ => {
                before = Some(key);
                continue;
            }
        };
        let byte = offset + i * 8 * L::SLOT_WORDS as u64;
        return Ok(Err(FileErrorKind::Stash { byte, pair: i, fault }));
    }
    let stash = Stash::from_pairs_within(pairs, held, MAX_STEPS)?;
    Ok(stash.ok_or(FileErrorKind::Collisions { pairs: n, limit: MAX_STEPS }))
}

#[cfg(test)]
mod tests;
