//! Files of tables: saved from any device, loaded on any device, or opened where they are.
//!
//! [`Map::save`], [`Map::load`] and [`Map::open`] write and read them, and so do those of [`Set`],
//! [`Index`] and [`MultiMap`], and of [`Map128`], [`Set128`] and [`Index128`]; here is what is
//! common to all kinds of tables: [`info`] tells what a file holds, and [`FileError`] what is wrong
//! with it. `docs/format.md` describes the bytes, so that other programs can read them.
//!
//! ```
//! use koel::{Device, Map};
//!
//! let folder = std::env::temp_dir();
//! let path = folder.join(format!("doc-{}.koel", std::process::id()));
//! let map = Map::build(&Device::cpu()?, &[3u32, 5, 7], &[30u32, 50, 70])?;
//! map.save(&path)?;
//!
//! let loaded = Map::<u32, u32>::load(&Device::cpu()?, &path)?;
//! assert_eq!(loaded.get(&[5, 6])?, [Some(50), None]);
//! // SAFETY: no program changes the file while `opened` is there.
//! let opened = unsafe { Map::<u32, u32>::open(&path) }?; // nothing is read but the header
//! assert_eq!(opened.get(&[5, 6])?, [Some(50), None]);
//! let info = koel::file::info(&path)?;
//! assert_eq!((info.pairs, info.types.to_string()), (3, "u32 -> u32".to_string()));
//! # drop(opened);
//! # std::fs::remove_file(&path).unwrap();
//! # Ok::<(), koel::Error>(())
//! ```
//!
//! # What is checked, and when
//! | | reads | checks |
//! |---|---|---|
//! | [`info`], `open` | the header, 4,096 bytes; `open` the stash too, normally no bytes | length of the file, every field of the header, checksums of what was read |
//! | `load`, `verify`, [`verify`](verify()) | the file, once | besides, the checksum of each section; that the slots hold as many entries as the header says, and no number that is of no key; that keys of an index ascend, and so do the places where values of a multimap begin, up to the number of values |
//!
//! So a file that is truncated, foreign, newer, of another kind or other types, or damaged in its
//! header or stash is always refused; a file that is damaged elsewhere only by those that read all
//! of it. Until then lookups in it may tell nonsense, but look nowhere else: no file, however it
//! was made, makes koel read out of bounds, loop without end, or allocate more than some 16 times
//! what the file is long. (What is [retrieved](crate::MultiMap::retrieve) from a multimap is as
//! long as its values tell, for each query.)
mod error;
pub(crate) mod filed;
pub(crate) mod format;
pub(crate) mod reader;
pub(crate) mod stored;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod writer;

use crate::error::Result;
#[cfg(doc)]
use crate::{Index, Index128, Map, Map128, MultiMap, Set, Set128};
pub use error::{FileError, FileErrorKind};
pub use format::{HEADER_BYTES, MAGIC, Section, TableKind, Types, VERSION, Width};
use format::{Header, Members, Slotted};
use koel_kernels::table::layout::{Narrow, Wide};
use reader::Reader;
use std::path::Path;

/// What a table file holds, as its header tells.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct FileInfo {
    /// Version of the format.
    pub version: u32,
    /// The kind of table.
    pub kind: TableKind,
    /// The types of keys and values.
    pub types: Types,
    /// Distinct keys stored.
    pub keys: usize,
    /// Pairs stored: as many as keys, but of a multimap all of them.
    pub pairs: usize,
    /// Pairs dropped when it was built, because another one had the same key.
    pub duplicates: usize,
    /// Keys in the stash.
    pub stashed: usize,
    /// Whether it holds the one key that is kept in the header.
    pub held: bool,
    /// Keys are mixed with it.
    pub seed: u32,
    /// Partitions of the table.
    pub partitions: u32,
    /// Buckets of each partition.
    pub buckets: u32,
    /// Slots of the table.
    pub slots: usize,
    /// Bytes of the file.
    pub bytes: u64,
}
impl FileInfo {
    /// Keys per slot.
    pub fn load(&self) -> f64 {
        self.keys as f64 / self.slots as f64
    }
    fn of(header: &Header) -> FileInfo {
        FileInfo {
            version: VERSION,
            kind: header.kind,
            types: header.types,
            keys: header.pairs as usize,
            pairs: if header.kind == TableKind::MultiMap { header.values } else { header.pairs }
                as usize,
            duplicates: header.duplicates as usize,
            stashed: header.stashed as usize,
            held: header.held.is_some(),
            seed: header.seed,
            partitions: header.shape.partitions,
            buckets: header.shape.buckets,
            slots: header.all_slots() as usize,
            bytes: header.file_bytes(),
        }
    }
}

/// What a table file holds, for callers who do not know. Reads the header.
///
/// Errors: see [what is checked](self#what-is-checked-and-when).
pub fn info(path: impl AsRef<Path>) -> Result<FileInfo> {
    Ok(FileInfo::of(Reader::open(path.as_ref())?.header()))
}
/// As [`info`], after everything was checked. Reads the file once.
///
/// Errors: see [what is checked](self#what-is-checked-and-when).
pub fn verify(path: impl AsRef<Path>) -> Result<FileInfo> {
    fn all<S: Slotted>(mut reader: Reader<std::fs::File>) -> Result<()> {
        reader.stash::<S>()?;
        reader.check_sections::<S>()
    }
    let reader = Reader::open(path.as_ref())?;
    let info = FileInfo::of(reader.header());
    match (info.kind, info.types.key, info.types.value) {
        (TableKind::Set, Width::U32, _) => all::<Members<u32>>(reader),
        (TableKind::Set, Width::U64, _) => all::<Members<u64>>(reader),
        (TableKind::Map, Width::U32, Some(Width::U64)) => all::<Wide<u32, u64>>(reader),
        (TableKind::Map, Width::U64, Some(Width::U64)) => all::<Wide<u64, u64>>(reader),
        // Values of 32 bits, or numbers of groups or rows.
        (_, Width::U32, _) => all::<Narrow>(reader),
        (_, Width::U64 | Width::U128, _) => all::<Wide<u64, u32>>(reader),
    }?;
    Ok(info)
}
