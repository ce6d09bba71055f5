//! Faults of a document.

use crate::error::{ParseError, ParseErrorKind, Place};

/// A fault, and the place in the document.
#[derive(Debug)]
pub(super) struct Fault {
    pub at: String,
    pub reason: String,
}
impl Fault {
    pub(super) fn into_error(self, place: Place) -> ParseError {
        ParseErrorKind::Gltf { at: self.at, reason: self.reason }.at(place)
    }
}
pub(super) fn fault(at: String, reason: String) -> Fault {
    Fault { at, reason }
}
/// Returns an element that `at` refers to.
pub(super) fn get<'a, T>(all: &'a [T], name: &str, index: usize, at: &str) -> Result<&'a T, Fault> {
    all.get(index).ok_or_else(|| {
        fault(at.into(), format!("{name}[{index}] does not exist, there are {}", all.len()))
    })
}
