//! Strict readers for PLY and OBJ files.
//!
//! A reader accepts a file whole or refuses it whole, with a [`ReadError`] that names the file, the line (text) or byte
//! (binary), and the numbers expected and found. Files may come from anywhere: no input makes a reader panic or hang,
//! and memory stays within a small multiple of the file's size, whatever counts its header claims.
//!
//! Own code rather than the crates `ply-rs-bw` and `tobj`, which serve as oracles in the tests: `tobj` splits and
//! re-indexes vertices, and neither tells which vertex or face of a damaged file is at fault.

mod error;
mod obj;
mod ply;

use std::path::Path;

pub use error::{ParseError, ParseErrorKind, Place, ReadError};
pub use obj::parse_obj;
pub use ply::parse_ply;

use crate::mesh::{Mesh, PointCloud, Scan};

/// Reads a scan from a PLY or OBJ file: PLY if the content starts with the line `ply`, else OBJ if the file is named
/// `.obj`. The whole file is read into memory first.
///
/// # Errors
/// [`ReadError`], for every fault of the file.
pub fn read(path: impl AsRef<Path>) -> Result<Scan, ReadError> {
    let path = path.as_ref();
    let at_path = |error| ReadError { file: path.to_owned(), error: Box::new(error) };
    let bytes = std::fs::read(path).map_err(|e| at_path(ParseErrorKind::Io(e.kind(), e.to_string()).in_file()))?;
    let extension = path.extension().map(|e| e.to_ascii_lowercase());
    let parsed = if bytes.is_empty() {
        Err(ParseErrorKind::Empty.in_file())
    } else if ply::starts_as_ply(&bytes) {
        parse_ply(&bytes)
    } else if extension.as_deref().is_some_and(|e| e == "obj") {
        parse_obj(&bytes)
    } else {
        Err(ParseErrorKind::UnknownFormat { found: error::excerpt(&bytes[..bytes.len().min(64)]) }.in_file())
    };
    parsed.map_err(at_path)
}

/// Reads a triangle mesh; see [`read()`].
///
/// # Errors
/// [`ReadError`]; a file without faces is one ([`ParseErrorKind::NoFaces`]).
pub fn read_mesh(path: impl AsRef<Path>) -> Result<Mesh, ReadError> {
    let path = path.as_ref();
    read(path)?.into_mesh().map_err(|error| ReadError { file: path.to_owned(), error: Box::new(error) })
}

/// Reads a point cloud, with the file's normals if it has them; of a mesh, the vertices. See [`read()`].
///
/// # Errors
/// [`ReadError`].
pub fn read_cloud(path: impl AsRef<Path>) -> Result<PointCloud, ReadError> {
    Ok(read(path)?.into_cloud())
}

/// Splits a polygon into the triangles of a fan around its first corner. Right for convex polygons.
fn fan(polygon: &[u32]) -> impl Iterator<Item = [u32; 3]> + '_ {
    polygon.windows(2).skip(1).map(|edge| [polygon[0], edge[0], edge[1]])
}
