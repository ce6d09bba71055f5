//! Strict readers for PLY, PCD, OBJ, STL, LAS and LAZ files.
//!
//! A reader accepts a file whole or refuses it whole, with a [`ReadError`] that names the file, the
//! line (text) or byte (binary), and the numbers expected and found. Only points of a cloud that
//! are not finite are dropped, and counted. What a file holds besides points and triangles is not
//! kept, and [noted](ReadReport::notes). Files may come from anywhere: no input makes a reader
//! panic or hang, and memory stays within a multiple of the file's size (below 300 bytes a byte
//! where data are compressed, a few bytes elsewhere), whatever counts its header claims.
//!
//! Own code, with the formats' crates as oracles in the tests (`ply-rs-bw`, `tobj`, `pcd-rs`,
//! `stl_io`, `las`): `tobj` splits and re-indexes vertices, `pcd-rs` allocates what a header
//! claims, and none of them tells which line, byte, vertex or face of a damaged file is at fault.
//! Only the arithmetic decoder of LAZ is not ours: it is that of the crate `laz`, which is given
//! one chunk at a time, after the sizes in it were held against the file.

mod error;
mod las;
mod obj;
mod pcd;
mod ply;
mod report;
mod stl;

use std::path::Path;

pub use error::{ParseError, ParseErrorKind, Place, ReadError};
pub use las::parse_las;
pub use obj::parse_obj;
pub use pcd::parse_pcd;
pub use ply::parse_ply;
pub use report::{Format, ReadNote, ReadReport};
pub use stl::parse_stl;

use crate::mesh::{Mesh, PointCloud, Scan};

/// Reads a scan from a file. The format is told by the content: PLY, PCD, LAS, LAZ and text STL by
/// how they begin, binary STL by its length; what is none of them is taken for what its extension
/// says, `.obj` above all, which has no mark. The whole file is read into memory first.
///
/// # Errors
/// [`ReadError`], for every fault of the file.
pub fn read(path: impl AsRef<Path>) -> Result<Scan, ReadError> {
    let path = path.as_ref();
    let at_path = |error| ReadError { file: path.to_owned(), error: Box::new(error) };
    let bytes = std::fs::read(path)
        .map_err(|e| at_path(ParseErrorKind::Io(e.kind(), e.to_string()).in_file()))?;
    parse(&bytes, path.extension().and_then(|e| e.to_str())).map_err(at_path)
}

/// Reads a scan from memory; `extension` is that of the file's name. See [`read()`].
///
/// # Errors
/// [`ParseError`], for every fault of the content.
pub fn parse(bytes: &[u8], extension: Option<&str>) -> Result<Scan, ParseError> {
    if bytes.is_empty() {
        return Err(ParseErrorKind::Empty.in_file());
    }
    match Format::of(bytes, extension) {
        Some(Format::Ply) => parse_ply(bytes),
        Some(Format::Obj) => parse_obj(bytes),
        Some(Format::Pcd) => parse_pcd(bytes),
        Some(Format::Stl) => parse_stl(bytes),
        Some(Format::Las | Format::Laz) => parse_las(bytes),
        None => Err(ParseErrorKind::UnknownFormat {
            found: error::excerpt(&bytes[..bytes.len().min(64)]),
        }
        .in_file()),
    }
}

/// Reads a triangle mesh; see [`read()`].
///
/// # Errors
/// [`ReadError`]; a file without faces is one ([`ParseErrorKind::NoFaces`]).
pub fn read_mesh(path: impl AsRef<Path>) -> Result<Mesh, ReadError> {
    let path = path.as_ref();
    read(path)?
        .into_mesh()
        .map_err(|error| ReadError { file: path.to_owned(), error: Box::new(error) })
}

/// Reads a point cloud, with the file's normals if it has them; of a mesh, the vertices. See
/// [`read()`].
///
/// # Errors
/// [`ReadError`].
pub fn read_cloud(path: impl AsRef<Path>) -> Result<PointCloud, ReadError> {
    Ok(read(path)?.into_cloud())
}

/// Reads a point cloud that must have normals. See [`read()`].
///
/// # Errors
/// [`ReadError`]; a file without normals is one ([`ParseErrorKind::NoNormals`]).
pub fn read_oriented_cloud(path: impl AsRef<Path>) -> Result<PointCloud, ReadError> {
    let path = path.as_ref();
    read(path)?
        .into_oriented_cloud()
        .map_err(|error| ReadError { file: path.to_owned(), error: Box::new(error) })
}

/// Drops the points of a cloud that have a coordinate or a normal that is not finite; `first` is
/// the fault of the first such point, and of a mesh the error.
fn drop_not_finite(mut scan: Scan, first: Option<ParseError>) -> Result<Scan, ParseError> {
    let Some(fault) = first else { return Ok(scan) };
    if scan.is_mesh() {
        return Err(fault);
    }
    let finite = |v: &[f32; 3]| v.iter().all(|c| c.is_finite());
    let PointCloud { positions, normals } = &mut scan.points;
    let keep: Vec<bool> = match normals {
        Some(normals) => {
            positions.iter().zip(&*normals).map(|(p, n)| finite(p) && finite(n)).collect()
        }
        None => positions.iter().map(finite).collect(),
    };
    let mut kept = keep.iter();
    positions.retain(|_| kept.next() == Some(&true));
    if let Some(normals) = normals {
        let mut kept = keep.iter();
        normals.retain(|_| kept.next() == Some(&true));
    }
    let dropped = (keep.len() - positions.len()) as u64;
    if positions.is_empty() {
        return Err(ParseErrorKind::NoFinite { dropped }.at(fault.place));
    }
    scan.report.dropped = dropped;
    Ok(scan)
}

/// Splits a polygon into the triangles of a fan around its first corner. Right for convex polygons.
fn fan(polygon: &[u32]) -> impl Iterator<Item = [u32; 3]> + '_ {
    polygon.windows(2).skip(1).map(|edge| [polygon[0], edge[0], edge[1]])
}
