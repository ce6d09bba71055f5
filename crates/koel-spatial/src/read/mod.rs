//! Strict readers for PLY, PCD, OBJ, STL, OFF, XYZ, LAS, LAZ, E57 and glTF files.
//!
//! A reader accepts or rejects a file as a whole. A [`ReadError`] names the file, the line (text)
//! or byte (binary), and the expected and found values. The only exception are points of a cloud
//! that are not finite: they are dropped and counted. Content other than points and triangles is
//! not kept, but [noted](ReadReport::notes). Files may be untrusted: no input makes a reader panic
//! or hang, and memory stays within a multiple of the file's size (below 300 bytes per byte and 3
//! MB for compressed data, a few bytes otherwise), whatever counts the header claims. Only the
//! nodes of a glTF file can show a mesh many times, up to a limit ([`parse_gltf`]).
//!
//! Most readers are written from scratch; crates for the formats (`ply-rs-bw`, `tobj`, `pcd-rs`,
//! `stl_io`, `las`, `gltf`) serve as oracles in the tests. `docs/readers.md` of the repository has
//! what each of them does with damaged and hostile files. External are only the arithmetic decoder
//! of LAZ (the crate `laz` is given one chunk at a time, after the sizes in the chunk have been
//! checked against the file), E57 (the crate `e57`), JSON and base64 of glTF, and the division of
//! concave faces (the crate `earcut`).

mod assembly;
mod detect;
#[cfg(feature = "e57")]
mod e57;
mod error;
mod gltf;
mod las;
mod names;
mod obj;
mod off;
mod pcd;
mod ply;
mod polygon;
mod positions;
mod report;
mod scan;
mod spanned;
mod stl;
mod xyz;

use std::path::Path;

pub use error::{ParseError, ParseErrorKind, Place, ReadError};
pub use gltf::{DeformingMesh, MeshAnimation, parse_gltf};
pub use las::parse_las;
pub use obj::parse_obj;
pub use off::parse_off;
pub use pcd::parse_pcd;
pub use ply::parse_ply;
pub use report::{Format, ReadNote, ReadReport};
pub use scan::Scan;
pub use stl::parse_stl;
pub use xyz::parse_xyz;

use crate::mesh::{Mesh, PointCloud};
use detect::format_of;

/// Reads a scan from a file. The content determines the format: PLY, PCD, LAS, LAZ, E57, OFF,
/// binary glTF and text STL by their first bytes, binary STL by its length. Otherwise the extension
/// decides, notably for `.obj`, `.gltf` and `.xyz`, which have no signature. The whole file is read
/// into memory first. Of an animated file, reads the mesh without its animations; see
/// [`DeformingMesh`].
///
/// # Errors
/// [`ReadError`] for every fault of the file.
pub fn read(path: impl AsRef<Path>) -> Result<Scan, ReadError> {
    let path = path.as_ref();
    let at_path = |error| ReadError { file: path.to_owned(), error: Box::new(error) };
    let bytes = std::fs::read(path)
        .map_err(|e| at_path(ParseErrorKind::Io(e.kind(), e.to_string()).in_file()))?;
    let extension = path.extension().and_then(|e| e.to_str());
    match format_of(&bytes, extension) {
        // Its buffers may be other files.
        Some(Format::Gltf) => DeformingMesh::parse_beside(&bytes, path).map(|mesh| mesh.scan()),
        _ => parse(&bytes, extension),
    }
    .map_err(at_path)
}

/// Reads a scan from memory; `extension` is the extension of the file name. See [`read()`].
///
/// # Errors
/// [`ParseError`] for every fault of the content.
pub fn parse(bytes: &[u8], extension: Option<&str>) -> Result<Scan, ParseError> {
    if bytes.is_empty() {
        return Err(ParseErrorKind::Empty.in_file());
    }
    match format_of(bytes, extension) {
        Some(Format::Ply) => parse_ply(bytes),
        Some(Format::Obj) => parse_obj(bytes),
        Some(Format::Pcd) => parse_pcd(bytes),
        Some(Format::Stl) => parse_stl(bytes),
        Some(Format::Las | Format::Laz) => parse_las(bytes),
        Some(Format::Gltf) => parse_gltf(bytes),
        Some(Format::Off) => parse_off(bytes),
        Some(Format::Xyz) => parse_xyz(bytes),
        Some(Format::E57) => parse_e57(bytes),
        None => Err(ParseErrorKind::UnknownFormat {
            found: error::excerpt(&bytes[..bytes.len().min(64)]),
        }
        .in_file()),
    }
}

/// Reads an E57 file from memory: the points of all its scans, in one system of coordinates.
///
/// Cartesian coordinates are read, or else spherical ones are converted, and each scan is moved by
/// its pose. Fields named normalX, normalY and normalZ of an extension are normals, if all scans
/// have them. Points without a position are dropped and [noted](ReadReport::notes), as are other
/// fields and images. The unit is the metre. Needs the feature `e57`. There may be at most 16
/// points per byte of the file. Time is linear in the file's size.
///
/// # Errors
/// [`ParseError`] with the scan at fault.
pub fn parse_e57(bytes: &[u8]) -> Result<Scan, ParseError> {
    if bytes.is_empty() {
        return Err(ParseErrorKind::Empty.in_file());
    }
    #[cfg(feature = "e57")]
    return e57::parse(bytes);
    #[cfg(not(feature = "e57"))]
    Err(ParseErrorKind::Unsupported { format: "E57", feature: "e57" }.in_file())
}

/// Reads a triangle mesh; see [`read()`], which also tells the
/// [origin](ReadReport::origin) of the positions.
///
/// # Errors
/// [`ReadError`], including [`ParseErrorKind::NoFaces`] for a file without faces.
pub fn read_mesh(path: impl AsRef<Path>) -> Result<Mesh, ReadError> {
    let path = path.as_ref();
    read(path)?
        .into_mesh()
        .map_err(|error| ReadError { file: path.to_owned(), error: Box::new(error) })
}

/// Reads a point cloud, with normals if the file has them. Of a mesh, reads the vertices. See
/// [`read()`], which also tells the [origin](ReadReport::origin) of the positions.
///
/// # Errors
/// [`ReadError`].
pub fn read_cloud(path: impl AsRef<Path>) -> Result<PointCloud, ReadError> {
    Ok(read(path)?.into_cloud())
}

/// Reads a point cloud that must have normals. See [`read()`].
///
/// # Errors
/// [`ReadError`], including [`ParseErrorKind::NoNormals`] for a file without normals.
pub fn read_oriented_cloud(path: impl AsRef<Path>) -> Result<PointCloud, ReadError> {
    let path = path.as_ref();
    read(path)?
        .into_oriented_cloud()
        .map_err(|error| ReadError { file: path.to_owned(), error: Box::new(error) })
}
