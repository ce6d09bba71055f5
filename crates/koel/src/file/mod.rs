//! Files of tables: saved from any device, loaded on any device, or opened where they are.
//!
//! [`Map::save`], [`Map::load`] and [`Map::open`] write and read them; here is what is common to all kinds of tables:
//! [`info`] tells what a file holds, and [`FileError`] what is wrong with it. `docs/format.md` describes the bytes, so that other
//! programs can read them.
//!
//! ```
//! use koel::{Device, Map};
//!
//! let folder = std::env::temp_dir();
//! let path = folder.join(format!("doc-{}.koel", std::process::id()));
//! let map = Map::build(&Device::cpu()?, &[3u32, 5, 7], &[30u32, 50, 70])?;
//! map.save(&path)?;
//!
//! let opened = Map::<u32, u32>::open(&path)?; // nothing is read but the header
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
//! | [`info`], [`Map::open`] | the header, 4,096 bytes; [`Map::open`] the stash too, normally no bytes | length of the file, every field of the header, checksums of what was read |
//! | [`Map::load`], [`Map::verify`], [`verify`] | the file, once | besides, the checksum of the slots, and that they hold as many pairs as the header says |
//!
//! So a file that is truncated, foreign, newer, of other types, or damaged in its header or stash is always refused; a file whose slots
//! are damaged only by those that read the slots. Until then lookups in it may tell nonsense, but look nowhere else: no file, however it
//! was made, makes koel read out of bounds, loop without end, or allocate more than some 16 times what the file is long.
mod error;
pub(crate) mod format;
pub(crate) mod reader;
pub(crate) mod writer;

#[cfg(doc)]
use crate::Map;
use crate::error::Result;
pub use error::{FileError, FileErrorKind};
use format::Header;
pub use format::{HEADER_BYTES, MAGIC, Section, TableKind, Types, VERSION, Width};
use koel_kernels::map::layout::{Layout, Narrow, Wide};
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
    /// Pairs stored.
    pub pairs: usize,
    /// Pairs dropped when it was built, because another one had the same key.
    pub duplicates: usize,
    /// Pairs in the stash.
    pub stashed: usize,
    /// Whether it holds the one key that is kept in the header.
    pub held: bool,
    /// Keys are mixed with it.
    pub seed: u32,
    /// Partitions of the table.
    pub partitions: u32,
    /// Buckets of each partition, of four slots.
    pub buckets: u32,
    /// Slots of the table.
    pub slots: usize,
    /// Bytes of the file.
    pub bytes: u64,
}
impl FileInfo {
    /// Pairs per slot.
    pub fn load(&self) -> f64 {
        self.pairs as f64 / self.slots as f64
    }
    fn of(header: &Header) -> FileInfo {
        FileInfo {
            version: VERSION,
            kind: TableKind::Map,
            types: header.types,
            pairs: header.pairs as usize,
            duplicates: header.duplicates as usize,
            stashed: header.stashed() as usize,
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
    fn all<L: Layout>(mut reader: Reader<std::fs::File>) -> Result<()> {
        reader.stash::<L>()?;
        reader.slots::<L>(|_| Ok(()))
    }
    let reader = Reader::open(path.as_ref())?;
    let info = FileInfo::of(reader.header());
    match (info.types.key, info.types.value) {
        (Width::U32, Width::U32) => all::<Narrow>(reader),
        (Width::U32, Width::U64) => all::<Wide<u32, u64>>(reader),
        (Width::U64, Width::U32) => all::<Wide<u64, u32>>(reader),
        (Width::U64, Width::U64) => all::<Wide<u64, u64>>(reader),
    }?;
    Ok(info)
}
