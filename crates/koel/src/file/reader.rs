//! Reads table files, strictly: nothing is allocated, and no place is computed, from a number that was not held against the
//! length of the file.
use super::format::{Checksum, HEADER_BYTES, Header, Section, Types};
use super::{FileError, FileErrorKind};
use crate::cpu::Stash;
use crate::error::{Error, Result};
use koel_kernels::map::layout::{BUCKET, EMPTY, Layout, Number, Shape};
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Words that are read at a time: they stay in the cache until they are checked.
const PIECE: usize = 64 << 10;
/// Steps that putting the pairs of a stash in may take: a tenth of a second. Keys that were not chosen to collide take one each.
const MOST_STEPS: u64 = 1 << 26;

/// A table file whose header is sound.
pub struct Reader<R> {
    source: R,
    path: PathBuf,
    header: Header,
}
impl Reader<File> {
    /// Opens a file. Reads its header.
    pub fn open(path: &Path) -> Result<Reader<File>> {
        let at_path = |kind| FileError { path: path.to_owned(), kind };
        let refused = |e| at_path(FileErrorKind::Read(e));
        // A pipe would be waited for.
        if !std::fs::metadata(path).map_err(refused)?.is_file() {
            return Err(refused(io::Error::other("expected a regular file")).into());
        }
        let file = File::open(path).map_err(refused)?;
        let bytes = file.metadata().map_err(refused)?.len();
        Reader::new(file, bytes, path)
    }
    /// Maps the slots, as they are in the file.
    pub fn map(&self) -> Result<Mapping> {
        let slots = self.header.slots;
        let bytes = usize::try_from(slots.bytes).map_err(|_| Error::OutOfMemory {
            device: "the host".into(),
            asked: usize::MAX,
            free: 0,
        })?;
        // SAFETY: memory of a mapping must not change while it is borrowed, and a file may be changed by others. The mapping is private
        // and never written here, and `save` never changes a file that is there, but puts another one in its place. That nobody else
        // changes the file or cuts it short is the condition of `Map::open`, which says so. What is computed from the mapped bytes are
        // answers, never places: those follow from the shape, which was copied and checked.
        let map = unsafe { MmapOptions::new().offset(slots.offset).len(bytes).map_copy_read_only(&self.source) };
        let map = map.map_err(|e| self.fault(FileErrorKind::Read(e)))?;
        Ok(Mapping { map, path: self.path.clone(), header: self.header })
    }
}
impl<'a> Reader<Cursor<&'a [u8]>> {
    /// Of a file in memory.
    pub fn of_bytes(bytes: &'a [u8]) -> Result<Self> {
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
    pub fn header(&self) -> &Header {
        &self.header
    }
    /// Errors: other types than those of this layout.
    pub fn check_types<L: Layout>(&self) -> Result<()> {
        let (found, expected) = (self.header.types, Types::of::<L>());
        match found == expected {
            true => Ok(()),
            false => Err(self.fault(FileErrorKind::WrongTypes { found, expected })),
        }
    }
    fn fault(&self, kind: FileErrorKind) -> Error {
        FileError { path: self.path.clone(), kind }.into()
    }
    fn seek(&mut self, section: Section) -> Result<()> {
        let extent = if section == Section::Stash { self.header.stash } else { self.header.slots };
        let sought = self.source.seek(SeekFrom::Start(extent.offset));
        sought.map(|_| ()).map_err(|e| self.fault(FileErrorKind::Read(e)))
    }
    fn read(&mut self, words: &mut [u64]) -> Result<()> {
        let read = self.source.read_exact(bytemuck::cast_slice_mut(words));
        read.map_err(|e| self.fault(FileErrorKind::Read(e)))
    }

    /// The stash, checked.
    pub fn stash<L: Layout>(&mut self) -> Result<Stash<L>> {
        let stash = self.header.stash;
        let mut words = vec![0; stash.bytes as usize / 8];
        self.seek(Section::Stash)?;
        self.read(&mut words)?;
        check(Section::Stash, bytemuck::cast_slice(&words), stash.checksum).map_err(|kind| self.fault(kind))?;
        let held = self.header.held.map(L::Value::narrowed);
        stash_of(&words, held, stash.offset).map_err(|kind| self.fault(kind))
    }
    /// The slots, in pieces of whole buckets, one after the other. They are checked when all have been taken: if this is an error, what
    /// was taken is worth nothing.
    pub fn slots<L: Layout>(&mut self, mut take: impl FnMut(&[u64]) -> Result<()>) -> Result<()> {
        self.seek(Section::Slots)?;
        let mut left = self.header.slots.bytes as usize / 8;
        let (mut piece, mut slots) = (vec![0; left.min(PIECE)], Slots::<L>::new(self.header.shape));
        while left > 0 {
            let words = left.min(PIECE);
            let piece = &mut piece[..words];
            self.read(piece)?;
            slots.add(piece);
            take(piece)?;
            left -= words;
        }
        slots.finish(&self.header).map_err(|kind| self.fault(kind))
    }
}

/// The slots of a table file, in memory while they are looked at. Nothing of them was checked.
pub struct Mapping {
    map: Mmap,
    path: PathBuf,
    header: Header,
}
impl Mapping {
    pub fn words(&self) -> &[u64] {
        // On a page's beginning, and whole buckets.
        bytemuck::cast_slice(&self.map)
    }
    /// Checks the slots: reads them once.
    pub fn verify<L: Layout>(&self) -> Result<()> {
        let mut slots = Slots::<L>::new(self.header.shape);
        self.words().chunks(PIECE).for_each(|piece| slots.add(piece));
        slots.finish(&self.header).map_err(|kind| FileError { path: self.path.clone(), kind }.into())
    }
}

/// What is checked of slots: that they are those which were written, and that they hold as many pairs as the header says. Whoever takes
/// all pairs out relies on that.
struct Slots<L> {
    shape: Shape,
    checksum: Checksum,
    place: u32,
    pairs: u64,
    layout: std::marker::PhantomData<L>,
}
impl<L: Layout> Slots<L> {
    fn new(shape: Shape) -> Slots<L> {
        Slots { shape, checksum: Checksum::default(), place: 0, pairs: 0, layout: std::marker::PhantomData }
    }
    /// The next words, of whole buckets.
    fn add(&mut self, words: &[u64]) {
        self.checksum.add(bytemuck::cast_slice(words));
        for bucket in words.chunks_exact(L::WORDS) {
            for &head in &bucket[..BUCKET] {
                // Fillers do not belong where they are.
                let h = L::hash(L::key_in(head));
                self.pairs += (head != EMPTY && self.shape.belongs(h, self.place)) as u64;
            }
            self.place += 1;
        }
    }
    fn finish(self, header: &Header) -> std::result::Result<(), FileErrorKind> {
        let (found, expected) = (self.checksum.finish(), header.slots.checksum);
        if found != expected {
            return Err(FileErrorKind::Checksum { section: Section::Slots, found, expected });
        }
        match (self.pairs, header.in_buckets()) {
            (found, expected) if found != expected => Err(FileErrorKind::Pairs { found, expected }),
            _ => Ok(()),
        }
    }
}
fn check(section: Section, bytes: &[u8], expected: u64) -> std::result::Result<(), FileErrorKind> {
    let mut checksum = Checksum::default();
    checksum.add(bytes);
    match checksum.finish() {
        found if found != expected => Err(FileErrorKind::Checksum { section, found, expected }),
        _ => Ok(()),
    }
}

/// A stash of the words of a section, which begins at byte `offset`.
///
/// Errors: keys that are not in ascending order or that no stash holds; keys that collide too often.
pub fn stash_of<L: Layout>(
    words: &[u64],
    held: Option<L::Value>,
    offset: u64,
) -> std::result::Result<Stash<L>, FileErrorKind> {
    let pairs = words.chunks_exact(L::SLOT_WORDS).map(|slot| L::with_head(slot[0], slot[L::SLOT_WORDS - 1]));
    let n = pairs.len() as u64;
    let mut before = None;
    for (pair, i) in pairs.clone().zip(0..) {
        let key = L::key(pair);
        let fault = match before {
            _ if key == L::AMBIGUOUS => "has the ambiguous key",
            Some(before) if key == before => "has the key of the one before it",
            Some(before) if key < before => "is out of order",
            _ => {
                before = Some(key);
                continue;
            }
        };
        return Err(FileErrorKind::Stash { byte: offset + i * 8 * L::SLOT_WORDS as u64, pair: i, fault });
    }
    let stash = Stash::from_pairs_within(pairs, held, MOST_STEPS);
    stash.ok_or(FileErrorKind::Collisions { pairs: n, limit: MOST_STEPS })
}

#[cfg(test)]
mod tests;
