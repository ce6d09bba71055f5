//! Faults of files of numbers.
use crate::failure::Failure;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Reports bad input: the file and its fault.
pub(super) fn in_file(file: &Path, fault: impl Display) -> Failure {
    Failure::Usage(format!("{}: {fault}", file.display()))
}
pub(super) fn cannot_be_read(file: &Path, error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::OutOfMemory => out_of_memory(file, "reading"),
        _ => in_file(file, format_args!("cannot be read: {error}")),
    }
}
pub(super) fn out_of_memory(file: &Path, what: impl Display) -> Failure {
    Failure::Other(format!("{}: out of memory for {what}", file.display()))
}
