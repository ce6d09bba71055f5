//! What can be wrong with a file, and where.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A file that cannot be read as a scan.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{}: {error}", file.display())]
pub struct ReadError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it, and where.
    #[source]
    pub error: Box<ParseError>,
}

/// A fault in the content of a file.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{place}{kind}")]
pub struct ParseError {
    /// Where the fault is.
    pub place: Place,
    /// What it is.
    pub kind: ParseErrorKind,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    #[default]
    File,
    /// A line of text, from 1.
    Line(u64),
    /// An offset in bytes, from 0.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File => Ok(()),
            Place::Line(line) => write!(f, "line {line}: "),
            Place::Byte(byte) => write!(f, "byte {byte}: "),
        }
    }
}

/// The faults. Indices of vertices and faces count from 0; OBJ's own indices count from 1.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ParseErrorKind {
    /// The operating system refused.
    #[error("cannot be read: {1}")]
    Io(io::ErrorKind, String),
    /// No bytes at all.
    #[error("is empty, expected a PLY, PCD, OBJ, STL, LAS or LAZ file")]
    Empty,
    /// None of the formats.
    #[error(
        "unknown format, starts with {found:?}; expected a PLY, PCD, STL, LAS or LAZ file, or an OBJ file named .obj"
    )]
    UnknownFormat {
        /// The first bytes.
        found: String,
    },
    /// A header line, or an OBJ line, that the format does not have.
    #[error("found {found:?}, expected {expected}")]
    Unexpected {
        /// What may stand here.
        expected: &'static str,
        /// The start of the line.
        found: String,
    },
    /// A field of a header has a value that it cannot have.
    #[error("{field} is {found}, expected {expected}")]
    Header {
        /// Name of the field.
        field: &'static str,
        /// What it holds.
        found: String,
        /// What it may hold.
        expected: String,
    },
    /// The same element or property is declared twice.
    #[error("{what} {name:?} is declared twice")]
    Duplicate {
        /// "element" or "property".
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// An element that must be there is not, or lacks a property.
    #[error("element {element} has no {field}")]
    MissingField {
        /// Name of the element.
        element: &'static str,
        /// The property asked for.
        field: &'static str,
    },
    /// A property has a type that cannot serve.
    #[error("element {element}, property {field}: the type is {found}, expected {expected}")]
    FieldType {
        /// Name of the element.
        element: String,
        /// Name of the property.
        field: String,
        /// Types that can serve.
        expected: &'static str,
        /// The type declared.
        found: String,
    },
    /// More vertices than 32-bit indices can name.
    #[error("{count} vertices, expected at most {limit}")]
    TooManyVertices {
        /// The vertices declared or found.
        count: u64,
        /// The most that can be named.
        limit: u64,
    },
    /// The data end before all that the header declares.
    #[error(
        "truncated: {expected} of element {element} are declared, the data end in number {found}"
    )]
    Truncated {
        /// Name of the element.
        element: String,
        /// Declared in the header.
        expected: u64,
        /// Index of the one that is cut.
        found: u64,
    },
    /// Data go on after all that the header declares.
    #[error("{found} bytes follow after the last element, expected none")]
    Trailing {
        /// Bytes left.
        found: u64,
    },
    /// A line has too few or too many values.
    #[error("{element} {index}: {found} values, expected {expected}")]
    Values {
        /// Name of the element.
        element: String,
        /// Index of the instance.
        index: u64,
        /// How many, in words or digits.
        expected: String,
        /// How many there are.
        found: u64,
    },
    /// A word is not a number of the declared type.
    #[error("{element} {index}, {field}: found {found:?}, expected {expected}")]
    Number {
        /// Name of the element.
        element: String,
        /// Index of the instance.
        index: u64,
        /// Name of the property.
        field: String,
        /// The type declared.
        expected: &'static str,
        /// The word.
        found: String,
    },
    /// A coordinate of a mesh is NaN, infinite, or beyond 32-bit floating point. (Of a cloud, such
    /// points are dropped.)
    #[error("vertex {vertex}: {field} is {value:?}, expected a finite 32-bit number")]
    NotFinite {
        /// Index of the vertex.
        vertex: u64,
        /// Name of the property: x, y, z, nx, ny, nz.
        field: &'static str,
        /// The value.
        value: f64,
    },
    /// A face has fewer than three corners.
    #[error("face {face} has {corners} corners, expected at least 3")]
    Corners {
        /// Index of the face.
        face: u64,
        /// Its corners.
        corners: i64,
    },
    /// A face names a vertex that is not there.
    #[error("face {face}, corner {corner}: index {index}, but there are {vertices} vertices")]
    IndexOutOfRange {
        /// Index of the face.
        face: u64,
        /// Corner within the face, from 0.
        corner: u64,
        /// The index as written in the file.
        index: i64,
        /// Vertices that can be named at this place.
        vertices: u64,
    },
    /// A cloud has normals, but not one a point.
    #[error("{normals} normals for {points} points, expected one each or none")]
    NormalCount {
        /// Normals found.
        normals: u64,
        /// Points found.
        points: u64,
    },
    /// Nothing but header or comments.
    #[error("holds no vertices")]
    NoVertices,
    /// Nothing is left when points that are not finite are dropped.
    #[error(
        "all {dropped} points have coordinates or normals that are NaN, infinite or beyond 32-bit floating point"
    )]
    NoFinite {
        /// Points that were dropped.
        dropped: u64,
    },
    /// Normals were asked for, the file holds none.
    #[error(
        "{points} points without normals, expected the fields {fields}; normals can be estimated (--estimate-normals)"
    )]
    NoNormals {
        /// Points found.
        points: usize,
        /// The fields that the format has for normals.
        fields: &'static str,
    },
    /// Compressed data that cannot be unpacked.
    #[error("compressed data, {element} {index}: {reason}")]
    Compressed {
        /// "byte" or "point".
        element: &'static str,
        /// How many were unpacked before.
        index: u64,
        /// What is wrong.
        reason: String,
    },
    /// The format is known, but koel was built without it.
    #[error("is {format}, which koel was built without (feature `{feature}`)")]
    Unsupported {
        /// The format.
        format: &'static str,
        /// The feature of this crate.
        feature: &'static str,
    },
    /// A mesh was asked for, the file holds a point cloud.
    #[error("holds {points} points and no faces, expected a triangle mesh")]
    NoFaces {
        /// Points found.
        points: usize,
    },
}

impl ParseErrorKind {
    pub(super) fn at(self, place: Place) -> ParseError {
        ParseError { place, kind: self }
    }

    pub(super) fn in_file(self) -> ParseError {
        self.at(Place::File)
    }
}

/// The start of some bytes, fit to be quoted in a message.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    const LONGEST: usize = 40;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]);
    text.trim_end().to_owned()
}
