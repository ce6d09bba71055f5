//! What can be wrong with a table file, and where.
use super::format::{Section, TableKind, Types, VERSION};
use std::io;
use std::path::PathBuf;

/// A table file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
pub struct FileError {
    /// The file; `(memory)` if it was bytes in memory, `(stream)` if it was a writer.
    pub path: PathBuf,
    /// What is wrong, and where.
    #[source]
    pub kind: FileErrorKind,
}

/// The faults of table files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileErrorKind {
    /// The operating system refused to read.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// The operating system refused to write. The file, if there was one, is as it was.
    #[error("cannot be written: {0}")]
    Write(io::Error),
    /// Another format.
    #[error("is no koel table: begins with \"{found}\", expected \"\\x89KOEL\\r\\n\\x1a\"")]
    Foreign {
        /// The first bytes, escaped.
        found: String,
    },
    /// The format of a later koel.
    #[error("has format version {found}, this koel reads versions up to {VERSION}")]
    Newer {
        /// The version of the file.
        found: u32,
    },
    /// The file ends too early.
    #[error("truncated: {found} bytes, the {section} needs {expected}")]
    Truncated {
        /// Where it ends.
        section: Section,
        /// Bytes that the file must have for this section to be whole.
        expected: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// The file goes on after its last section.
    #[error("has {found} bytes, expected {expected}: something follows after the {section}")]
    Trailing {
        /// The last one.
        section: Section,
        /// Bytes of all sections.
        expected: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// Bytes that are not those which were written.
    #[error("corrupted: the {section} has checksum {found:#018x}, expected {expected:#018x}")]
    Checksum {
        /// Where.
        section: Section,
        /// Of the bytes that were read.
        found: u64,
        /// As written in the file.
        expected: u64,
    },
    /// A field has a value that it cannot have.
    #[error("byte {byte}: {field} is {found}, expected {expected}")]
    Field {
        /// Where the field is, in bytes from the beginning of the file.
        byte: u64,
        /// Its name in the description of the format.
        field: &'static str,
        /// What it holds.
        found: u64,
        /// What it may hold.
        expected: String,
    },
    /// Another kind of table.
    #[error("holds {found}, expected {expected}")]
    Kind {
        /// The kind in the file.
        found: TableKind,
        /// The kind that was asked for.
        expected: TableKind,
    },
    /// Other types of keys or values.
    #[error("holds {} {found}, expected {expected}", found.what())]
    WrongTypes {
        /// The types in the file.
        found: Types,
        /// The types that were asked for.
        expected: Types,
    },
    /// The buckets and the header do not agree.
    #[error("the slots hold {found} pairs, the header tells of {expected}")]
    Pairs {
        /// Pairs in the buckets.
        found: u64,
        /// Pairs that should be there.
        expected: u64,
    },
    /// A value of a pair that is the number of no key.
    #[error("the slots hold the number {found}, expected at most {most}, that of the last key")]
    Number {
        /// The greatest number in the buckets.
        found: u64,
        /// The greatest number that a key has.
        most: u64,
    },
    /// An element of a column that cannot be there.
    #[error("byte {byte}: element {element} of the {section} is {found}, expected {expected}")]
    Element {
        /// Where the element is, in bytes from the beginning of the file.
        byte: u64,
        /// Which column.
        section: Section,
        /// Its number, from 0; that behind the last one is what fills the section up.
        element: u64,
        /// What it is.
        found: u64,
        /// What it may be.
        expected: String,
    },
    /// A pair of the stash that cannot be there.
    #[error("byte {byte}: pair {pair} of the stash {fault}")]
    Stash {
        /// Where the pair is, in bytes from the beginning of the file.
        byte: u64,
        /// Its number, from 0.
        pair: u64,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// Keys in the stash that were chosen to collide.
    #[error(
        "the keys of the stash collide: putting {pairs} pairs in takes more than {limit} steps (another seed helps)"
    )]
    Collisions {
        /// Pairs of the stash.
        pairs: u64,
        /// Steps that may be taken.
        limit: u64,
    },
}
