//! Errors of table files, with their location.
use super::kind::{Section, TableKind, VERSION};
use std::io;
use std::path::PathBuf;

/// A table file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
pub struct FileError {
    /// The file; `(memory)` for bytes in memory, `(stream)` for a writer.
    pub path: PathBuf,
    /// What is wrong, and where.
    #[source]
    pub kind: FileErrorKind,
}

/// The faults of table files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileErrorKind {
    /// The operating system failed to read.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// The operating system failed to write. An existing file is unchanged.
    #[error("cannot be written: {0}")]
    Write(io::Error),
    /// The file has another format.
    #[error("is not a koel table: begins with \"{found}\", expected \"\\x89KOEL\\r\\n\\x1a\"")]
    Foreign {
        /// The first bytes, escaped.
        found: String,
    },
    /// The file has the format of a later koel.
    #[error("has format version {found}, this koel reads versions up to {VERSION}")]
    Newer {
        /// The version of the file.
        found: u32,
    },
    /// The file ends too early.
    #[error("truncated: {found} bytes, the {section} needs {expected}")]
    Truncated {
        /// The section in which it ends.
        section: Section,
        /// Bytes the file must have for this section to be complete.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// The file has bytes after its last section.
    #[error("has {found} bytes, expected {expected}: extra bytes after the {section}")]
    Trailing {
        /// The last section.
        section: Section,
        /// Total bytes of all sections.
        expected: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// The bytes are not those that were written.
    #[error("corrupted: the {section} has checksum {found:#018x}, expected {expected:#018x}")]
    Checksum {
        /// The damaged section.
        section: Section,
        /// Checksum of the bytes read.
        found: u64,
        /// Checksum stored in the file.
        expected: u64,
    },
    /// A field has an invalid value.
    #[error("byte {byte}: {field} is {found}, expected {expected}")]
    Field {
        /// Offset of the field in the file, in bytes.
        byte: u64,
        /// Its name in the description of the format.
        field: &'static str,
        /// Its value.
        found: u64,
        /// The allowed values.
        expected: String,
    },
    /// The file holds another kind of table.
    #[error("holds {found}, expected {expected}")]
    Kind {
        /// The kind in the file.
        found: TableKind,
        /// The requested kind.
        expected: TableKind,
    },
    /// The file holds other types of keys or values.
    #[error("holds {found}, expected {expected}")]
    WrongTypes {
        /// What the file holds: keys or pairs of these types.
        found: String,
        /// The requested types.
        expected: String,
    },
    /// Buckets and header disagree.
    #[error("the slots hold {found} pairs, the header says {expected}")]
    Pairs {
        /// Pairs in the buckets.
        found: u64,
        /// Pairs according to the header.
        expected: u64,
    },
    /// A pair's value is the number of a key that does not exist.
    #[error("the slots hold number {found}, expected at most {most}, the number of the last key")]
    Number {
        /// The greatest number in the buckets.
        found: u64,
        /// The number of the last key.
        most: u64,
    },
    /// An element of a column is invalid.
    #[error("byte {byte}: element {element} of the {section} is {found}, expected {expected}")]
    Element {
        /// Offset of the element in the file, in bytes.
        byte: u64,
        /// The column.
        section: Section,
        /// Its index, from 0; the index after the last element denotes the padding of the section.
        element: u64,
        /// Its value.
        found: u64,
        /// The allowed values.
        expected: String,
    },
    /// A pair of the stash is invalid.
    #[error("byte {byte}: pair {pair} of the stash {fault}")]
    Stash {
        /// Offset of the pair in the file, in bytes.
        byte: u64,
        /// Its index, from 0.
        pair: u64,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The stash holds keys that were crafted to collide.
    #[error(
        "the keys of the stash collide: inserting {pairs} pairs takes more than {limit} steps \
         (use another seed)"
    )]
    Collisions {
        /// Pairs in the stash.
        pairs: u64,
        /// Maximum number of steps.
        limit: u64,
    },
}
