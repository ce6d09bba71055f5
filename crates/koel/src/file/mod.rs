//! Files of tables: saved from any device, loaded on any device, or opened in place.
//!
//! [`Map::save`], [`Map::load`] and [`Map::open`] write and read them, as do the same methods of
//! [`Set`], [`Index`], [`MultiMap`], [`Map128`], [`Set128`], [`StringMap`], [`StringSet`],
//! [`StringIndex`], [`StringMultiMap`] and [`ToStrings`](crate::ToStrings); a
//! [`Table`](crate::any::Table) is read from files of each of them. This module has what all kinds
//! share: [`info`] returns what a file holds, and [`FileError`] describes its faults.
//! `docs/format.md` describes the bytes, so that other programs can read them.
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
//! // SAFETY: no program changes the file while `opened` exists.
//! let opened = unsafe { Map::<u32, u32>::open(&path) }?; // reads only the header
//! assert_eq!(opened.get(&[5, 6])?, [Some(50), None]);
//! let info = koel::file::info(&path)?;
//! assert_eq!((info.pairs, info.types.to_string()), (3, "u32 -> u32".to_string()));
//! # drop(opened);
//! # std::fs::remove_file(&path).unwrap();
//! # Ok::<(), koel::Error>(())
//! ```
//!
//! # What is checked, and when
//! * [`info`] reads the header, 4,096 bytes; `open` also reads the stash, normally empty. They
//!   check the length of the file, every field of the header, and the checksums of what they read.
//! * `load`, `verify` and [`verify`](verify()) read the file once. They also check the checksum of
//!   each section; that the slots hold as many entries as the header says, and no number without a
//!   key; that the starts of a multimap ascend up to the number of values, and those of strings up
//!   to the number of bytes.
//!
//! A file that is truncated, foreign, newer, of another kind or other types, or damaged in its
//! header or stash is therefore always refused; a file damaged elsewhere is refused only by
//! functions that read all of it. Until then lookups in it may return wrong answers, but stay
//! within the file: no file, however crafted, makes koel read out of bounds, loop forever, or
//! allocate more than about 16 times the file's length. (What is
//! [retrieved](crate::MultiMap::retrieve) from a multimap is, for each query, as long as the file
//! says.)
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
pub(crate) mod error;
pub(crate) mod filed;
pub(crate) mod format;
pub(crate) mod kind;
pub(crate) mod reader;
mod replacement;
pub(crate) mod stored;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod writer;

use crate::error::Result;
#[cfg(doc)]
use crate::{
    Index, Map, Map128, MultiMap, Set, Set128, StringIndex, StringMap, StringMultiMap, StringSet,
};
pub use error::{FileError, FileErrorKind};
pub use format::{HEADER_BYTES, MAGIC, Meaning, Types};
use format::{Header, Members, Slotted};
pub use kind::{Section, TableKind, VERSION, Width};
use koel_kernels::table::layout::{Narrow, Wide};
use reader::Reader;
#[doc(hidden)] // for koel-cli, which writes all its files with it
pub use replacement::Replacement;
use std::path::Path;

/// The contents of a table file, according to its header.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct FileInfo {
    /// Version of the format.
    pub version: u32,
    /// The kind of table.
    pub kind: TableKind,
    /// The bits of keys and values.
    pub types: Types,
    /// What these bits mean.
    pub meaning: Meaning,
    /// Number of distinct keys.
    pub keys: usize,
    /// Number of pairs: that of the keys, or of all values in a multimap.
    pub pairs: usize,
    /// Number of pairs dropped by the build because another pair had the same key.
    pub duplicates: usize,
    /// Number of keys in the stash.
    pub stashed: usize,
    /// Whether the table contains the ambiguous key, which is stored in the header.
    pub held: bool,
    /// Hash seed.
    pub seed: u32,
    /// Number of partitions.
    pub partitions: u32,
    /// Buckets per partition.
    pub buckets: u32,
    /// Number of slots.
    pub slots: usize,
    /// Size of the file, in bytes.
    pub bytes: u64,
}
impl FileInfo {
    /// Returns the keys per slot.
    pub fn load(&self) -> f64 {
        self.keys as f64 / self.slots as f64
    }
    fn of(header: &Header) -> FileInfo {
        FileInfo {
            version: header.version(),
            kind: header.kind,
            types: header.types,
            meaning: header.meaning,
            keys: header.pairs as usize,
            pairs: if header.kind.is_multi_map() { header.values } else { header.pairs } as usize,
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

/// Returns what a table file holds. Reads the header.
///
/// Errors: see [what is checked](self#what-is-checked-and-when).
pub fn info(path: impl AsRef<Path>) -> Result<FileInfo> {
    Ok(FileInfo::of(Reader::open(path.as_ref())?.header()))
}
/// Checks a whole table file, then returns its [`info`]. Reads the file once.
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
        // 32-bit values, or numbers of groups or rows.
        (_, Width::U32, _) => all::<Narrow>(reader),
        (_, Width::U64 | Width::U128, _) => all::<Wide<u64, u32>>(reader),
    }?;
    Ok(info)
}
