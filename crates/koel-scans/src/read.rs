//! Reading of a file or bytes in whatever format they are.

use std::path::Path;

use crate::detect::format_of;
#[cfg(feature = "e57")]
use crate::e57;
use crate::error::{ParseError, ParseErrorKind, ReadError, excerpt};
use crate::gltf::{DeformingMesh, parse_gltf};
use crate::las::parse_las;
use crate::mesh::{Mesh, PointCloud};
use crate::obj::parse_obj;
use crate::off::parse_off;
use crate::pcd::parse_pcd;
use crate::ply::parse_ply;
use crate::report::Format;
use crate::scan::Scan;
use crate::stl::parse_stl;
use crate::xyz::parse_xyz;

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
        None => {
            Err(ParseErrorKind::UnknownFormat { found: excerpt(&bytes[..bytes.len().min(64)]) }
                .in_file())
        }
    }
}

/// Reads an E57 file from memory: the points of all its scans, in one system of coordinates.
///
/// Cartesian coordinates are read, or else spherical ones are converted, and each scan is moved by
/// its pose. Fields named normalX, normalY and normalZ of an extension are normals, if all scans
/// have them. Points without a position are dropped and [noted](crate::ReadReport::notes), as are
/// other fields and images. The unit is the metre. Needs the feature `e57`. There may be at most 16
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
/// [origin](crate::ReadReport::origin) of the positions.
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
/// [`read()`], which also tells the [origin](crate::ReadReport::origin) of the positions.
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
