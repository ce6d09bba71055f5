//! Atomic writing of table files.
use super::format::{
    Checksum, HEADER_BYTES, Header, MAX_FILLING, MAX_STASHED, Meaning, Slotted, Types,
};
use super::kind::TableKind;
use super::reader::stash_of;
use super::replacement::Replacement;
use super::{FileError, FileErrorKind};
use crate::cpu::{self, Stash};
use crate::device::{Element, View};
use crate::error::{Error, Result};
use crate::fallible::{collect, repeat};
use koel_kernels::table::layout::{Layout, Number, Shape};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

/// Elements downloaded from a device and written at a time.
pub(crate) const PIECE: usize = 1 << 18;

/// Where the bytes of a file go.
pub(crate) trait Sink: Write + Seek {}
impl<W: Write + Seek> Sink for W {}

/// The contents of a table of buckets, to be written.
pub(crate) struct Contents<'a, S: Slotted, T> {
    pub shape: Shape,
    pub seed: u32,
    pub pairs: usize,
    pub duplicates: usize,
    /// Including the value of the ambiguous key.
    pub stash: Stash<S::Pairs>,
    pub slots: View<'a, T>,
    /// Number of values of a multimap; 0 for other kinds.
    pub values: usize,
    /// Number of bytes of all keys that are strings; 0 for other kinds.
    pub key_bytes: usize,
    /// For 128-bit keys, the seed of the fingerprint function; 0 for other kinds.
    pub fingerprints: u64,
}

/// Writes a file from its beginning. The header comes last, when the checksums are known.
pub(crate) struct Writer<'a, W> {
    to: &'a mut W,
    path: &'a Path,
    meaning: Meaning,
}
impl<'a, W: Write + Seek> Writer<'a, W> {
    /// Creates a writer of a table whose bits have this meaning; `path` is for error messages.
    pub(crate) fn new(to: &'a mut W, path: &'a Path, meaning: Meaning) -> Writer<'a, W> {
        Writer { to, path, meaning }
    }
    fn fault(&self, kind: FileErrorKind) -> Error {
        FileError { path: self.path.to_owned(), kind }.into()
    }
    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.to.write_all(bytes);
        written.map_err(|e| self.fault(FileErrorKind::Write(e)))
    }
    fn rewind(&mut self) -> Result<()> {
        let sought = self.to.seek(SeekFrom::Start(0));
        sought.map(|_| ()).map_err(|e| self.fault(FileErrorKind::Write(e)))
    }

    /// Writes a table of this kind; `columns` adds its further sections.
    ///
    /// Errors: write failures; more pairs in the stash than a file may hold, or pairs that could
    /// not be read back.
    pub(crate) fn table<S: Slotted, T: Element>(
        mut self,
        kind: TableKind,
        types: Types,
        contents: Contents<'_, S, T>,
        columns: impl FnOnce(&mut Sections<'_, 'a, W>) -> Result<()>,
    ) -> Result<()> {
        let Contents { shape, seed, pairs, duplicates, stash, slots, .. } = contents;
        let Contents { values, key_bytes, fingerprints, .. } = contents;
        let mut stashed = collect(stash.iter())?;
        if stashed.len() as u64 > MAX_STASHED {
            return Err(Error::TooMany {
                what: "pairs in the stash",
                n: stashed.len(),
                max: MAX_STASHED as usize,
            });
        }
        stashed.sort_unstable_by_key(|&pair| S::Pairs::key(pair));
        let mut words = repeat(0, stashed.len() * S::Pairs::SLOT_WORDS)?;
        for (at, &pair) in stashed.iter().enumerate() {
            cpu::put_pair::<S::Pairs>(&mut words, at, pair);
        }
        let mut header = Header {
            kind,
            types,
            meaning: self.meaning,
            seed,
            held: stash.held().map(Number::widened),
            pairs: pairs as u64,
            duplicates: duplicates as u64,
            shape,
            stashed: stashed.len() as u64,
            values: values as u64,
            key_bytes: key_bytes as u64,
            fingerprints,
            checksums: Default::default(),
        };
        // Nothing is written that could not be read back.
        stash_of::<S::Pairs>(&words, None, &header)?.map_err(|kind| self.fault(kind))?;

        self.rewind()?;
        self.bytes(&[0; HEADER_BYTES as usize])?;
        let mut sections = Sections { writer: &mut self, header: &mut header, done: 0 };
        sections.add(slots)?;
        sections.pieces([Ok(&words[..])])?;
        columns(&mut sections)?;
        self.rewind()?;
        self.bytes(&header.encode())?;
        let written = self.to.flush();
        written.map_err(|e| self.fault(FileErrorKind::Write(e)))
    }
}
/// The sections of a file, added in order.
pub(crate) struct Sections<'b, 'a, W> {
    writer: &'b mut Writer<'a, W>,
    header: &'b mut Header,
    done: usize,
}
impl<W: Write + Seek> Sections<'_, '_, W> {
    /// Adds the next section, from any device.
    pub(crate) fn add<T: Element>(&mut self, from: View<'_, T>) -> Result<()> {
        if let Some(numbers) = from.host() {
            return self.pieces(numbers.chunks(PIECE).map(Ok));
        }
        let starts = (0..from.len()).step_by(PIECE);
        self.pieces(
            starts.map(|start| from.slice(start..from.len().min(start + PIECE))?.download()),
        )
    }
    /// Adds the words of strings of this many bytes as the next section, with zeros behind the last
    /// string.
    pub(crate) fn add_strings(&mut self, words: View<'_, u64>, bytes: usize) -> Result<()> {
        let whole = bytes / 8;
        let mut last = [0];
        let last = &mut last[..bytes.div_ceil(8) - whole];
        words.slice(whole..whole + last.len())?.copy_to_host(last)?;
        last.iter_mut().for_each(|word| *word &= (1 << (bytes % 8 * 8)) - 1);
        let starts = (0..whole).step_by(PIECE);
        let pieces = starts.map(|start| words.slice(start..whole.min(start + PIECE))?.download());
        let end = collect(last.iter().copied())?;
        self.pieces(pieces.chain([Ok(end)]))
    }
    fn pieces<T: Element, P: AsRef<[T]>>(
        &mut self,
        pieces: impl IntoIterator<Item = Result<P>>,
    ) -> Result<()> {
        let (mut checksum, mut written) = (Checksum::default(), 0usize);
        for piece in pieces {
            let piece = piece?;
            let bytes = bytemuck::cast_slice::<T, u8>(piece.as_ref());
            checksum.add(bytes);
            self.writer.bytes(bytes)?;
            written += bytes.len();
        }
        let section = self.header.kind.sections()[self.done];
        let filling = self.header.extent(section).bytes as usize - written;
        let filling = &[0; MAX_FILLING][..filling];
        checksum.add(filling);
        self.writer.bytes(filling)?;
        self.header.checksums[self.done] = checksum.finish();
        self.done += 1;
        Ok(())
    }
}

/// Puts a file in place when it is complete and on the disk: see [`Replacement`]. On failure no
/// temporary file remains, and an existing file is unchanged.
pub(crate) fn replace(path: &Path, write: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let refused = |e| FileError { path: path.to_owned(), kind: FileErrorKind::Write(e) };
    let mut new = Replacement::begin(path).map_err(refused)?;
    write(new.file())?;
    new.finish().map_err(refused)?;
    Ok(())
}
