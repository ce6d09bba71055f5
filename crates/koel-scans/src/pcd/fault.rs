//! Points that are missing from a PCD file, and bytes that follow them.

use crate::error::{ParseError, ParseErrorKind, Place};

pub(super) fn truncated(expected: u64, found: u64) -> ParseErrorKind {
    ParseErrorKind::Truncated { element: "point".to_owned(), expected, found }
}

/// Rejects anything but white space after the points.
pub(super) fn check_end(rest: &[u8], at: u64) -> Result<(), ParseError> {
    match rest.trim_ascii().len() as u64 {
        0 => Ok(()),
        found => Err(ParseErrorKind::Trailing { found }.at(Place::Byte(at))),
    }
}
