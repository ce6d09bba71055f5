//! Faults of files, and their places.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Error for a file that cannot be read as a scan.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{}: {error}", file.display())]
#[non_exhaustive]
pub struct ReadError {
    /// Path of the file.
    pub file: PathBuf,
    /// Fault and its place.
    #[source]
    pub error: Box<ParseError>,
}

/// Fault in the content of a file.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{place}{kind}")]
#[non_exhaustive]
pub struct ParseError {
    /// Place of the fault.
    pub place: Place,
    /// Kind of the fault.
    pub kind: ParseErrorKind,
}

/// Place in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// File as a whole.
    #[default]
    File,
    /// Line of text, starting at 1.
    Line(u64),
    /// Offset in bytes, starting at 0.
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

/// Kinds of faults. Indices of vertices and faces start at 0; OBJ's own indices start at 1.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The operating system reported an error.
    #[error("cannot be read: {1}")]
    Io(io::ErrorKind, String),
    /// The file has no bytes.
    #[error("is empty, expected a PLY, PCD, OBJ, STL, OFF, XYZ, LAS, LAZ, E57 or glTF file")]
    Empty,
    /// The content matches none of the formats.
    #[error(
        "unknown format, starts with {found:?}; expected a PLY, PCD, STL, OFF, LAS, LAZ, E57 or \
         glTF file, or one named .obj, .xyz or .asc"
    )]
    UnknownFormat {
        /// First bytes.
        found: String,
    },
    /// The format has no such header line or OBJ line.
    #[error("found {found:?}, expected {expected}")]
    Unexpected {
        /// Valid content at this place.
        expected: &'static str,
        /// Start of the line.
        found: String,
    },
    /// A header field has an invalid value.
    #[error("{field} is {found}, expected {expected}")]
    Header {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        found: String,
        /// Valid values.
        expected: String,
    },
    /// The same element or property is declared twice.
    #[error("{what} {name:?} is declared twice")]
    Duplicate {
        /// "element" or "property".
        what: &'static str,
        /// Name of the element or property.
        name: String,
    },
    /// A required element is missing or lacks a property.
    #[error("element {element} has no {field}")]
    MissingField {
        /// Name of the element.
        element: &'static str,
        /// Missing property.
        field: &'static str,
    },
    /// A property has an unsuitable type.
    #[error("element {element}, property {field}: the type is {found}, expected {expected}")]
    FieldType {
        /// Name of the element.
        element: String,
        /// Name of the property.
        field: String,
        /// Suitable types.
        expected: &'static str,
        /// Declared type.
        found: String,
    },
    /// There are more vertices than 32-bit indices can address.
    #[error("{count} vertices, expected at most {limit}")]
    TooManyVertices {
        /// Number of vertices, declared or found.
        count: u64,
        /// Maximum number of vertices.
        limit: u64,
    },
    /// The data end before the declared number of elements.
    #[error(
        "truncated: {expected} of element {element} declared, but the data end in number {found}"
    )]
    Truncated {
        /// Name of the element.
        element: String,
        /// Number declared in the header.
        expected: u64,
        /// Index of the truncated instance.
        found: u64,
    },
    /// The data continue after the declared elements.
    #[error("{found} bytes after the last element, expected none")]
    Trailing {
        /// Number of remaining bytes.
        found: u64,
    },
    /// A line has too few or too many values.
    #[error("{element} {index}: {found} values, expected {expected}")]
    Values {
        /// Name of the element.
        element: String,
        /// Index of the instance.
        index: u64,
        /// Expected number of values, in words or digits.
        expected: String,
        /// Number of values found.
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
        /// Declared type.
        expected: &'static str,
        /// Word found.
        found: String,
    },
    /// A coordinate of a mesh is NaN, infinite, or out of range of 32-bit floating point. (Such
    /// points of a cloud are dropped.)
    #[error("vertex {vertex}: {field} is {value:?}, expected a finite 32-bit number")]
    NotFinite {
        /// Index of the vertex.
        vertex: u64,
        /// Name of the property: x, y, z, nx, ny, nz.
        field: &'static str,
        /// Value found.
        value: f64,
    },
    /// A face has fewer than three corners.
    #[error("face {face} has {corners} corners, expected at least 3")]
    Corners {
        /// Index of the face.
        face: u64,
        /// Number of corners.
        corners: i64,
    },
    /// A face refers to a vertex that does not exist.
    #[error("face {face}, corner {corner}: index {index}, but there are {vertices} vertices")]
    IndexOutOfRange {
        /// Index of the face.
        face: u64,
        /// Corner of the face, starting at 0.
        corner: u64,
        /// Index as written in the file.
        index: i64,
        /// Number of vertices that can be referred to at this place.
        vertices: u64,
    },
    /// A cloud has normals, but not one per point.
    #[error("{normals} normals for {points} points, expected one each or none")]
    NormalCount {
        /// Number of normals found.
        normals: u64,
        /// Number of points found.
        points: u64,
    },
    /// The file holds only a header or comments.
    #[error("holds no vertices")]
    NoVertices,
    /// No points remain after dropping those that are not finite.
    #[error(
        "all {dropped} points have coordinates or normals that are NaN, infinite or \
         beyond 32-bit floating point"
    )]
    NoFinite {
        /// Number of dropped points.
        dropped: u64,
    },
    /// Normals were requested, but the file holds none.
    #[error(
        "{points} points without normals{}, expected the fields {fields}; normals can be \
         estimated (--estimate-normals)",
        found_fields(found)
    )]
    NoNormals {
        /// Number of points found.
        points: usize,
        /// Fields for normals in this format.
        fields: &'static str,
        /// Names of the fields of a point in the file, if it names them.
        found: Vec<String>,
    },
    /// Compressed data cannot be decompressed.
    #[error("compressed data, {element} {index}: {reason}")]
    Compressed {
        /// "byte" or "point".
        element: &'static str,
        /// Number of bytes or points decompressed before the fault.
        index: u64,
        /// Description of the fault.
        reason: String,
    },
    /// An element of a glTF document is missing, faulty or not supported.
    #[error("{at}: {reason}")]
    Gltf {
        /// Place in the document, such as `meshes[0].primitives[1].indices`.
        at: String,
        /// Description with figures.
        reason: String,
    },
    /// A part of an E57 file is missing, faulty or not supported.
    #[error("{at}: {reason}")]
    E57 {
        /// Part of the file, such as `scan 0`.
        at: String,
        /// Description with figures.
        reason: String,
    },
    /// The format is known, but koel was built without support for it.
    #[error("is {format}, which koel was built without (feature `{feature}`)")]
    Unsupported {
        /// Name of the format.
        format: &'static str,
        /// Feature of this crate that enables it.
        feature: &'static str,
    },
    /// A mesh was requested, but the file holds a point cloud.
    #[error("holds {points} points and no faces, expected a triangle mesh")]
    NoFaces {
        /// Number of points found.
        points: usize,
    },
}

impl ParseErrorKind {
    pub(crate) fn at(self, place: Place) -> ParseError {
        ParseError { place, kind: self }
    }

    pub(crate) fn in_file(self) -> ParseError {
        self.at(Place::File)
    }
}

/// Returns the names of the fields of a point for a message.
fn found_fields(found: &[String]) -> String {
    match found {
        [] => String::new(),
        found => {
            let found = found.iter().map(String::as_str).collect::<Vec<&str>>();
            format!(" (found {})", listed(&found))
        }
    }
}

/// Returns the first bytes as text for a message.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    const LONGEST: usize = 40;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]);
    text.trim_end().to_owned()
}

/// Maximum number of names listed in a note; further names are counted.
const LISTED: usize = 8;

/// Lists the first few names, separated by commas.
pub(crate) fn listed(names: &[&str]) -> String {
    let mut text = names[..names.len().min(LISTED)].join(", ");
    if names.len() > LISTED {
        text.push_str(&format!(" and {} more", names.len() - LISTED));
    }
    text
}
