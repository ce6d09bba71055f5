//! Strict readers for PLY, PCD, OBJ, STL, OFF, XYZ, LAS, LAZ, E57 and glTF files.
//!
//! A reader accepts or rejects a file as a whole. A [`ReadError`] names the file, the line (text)
//! or byte (binary), and the expected and found values. The only exception are points of a cloud
//! that are not finite: they are dropped and counted. Content other than points and triangles is
//! not kept, but [noted](ReadReport::notes). Files may be untrusted: no input makes a reader panic
//! or hang, and memory stays within a multiple of the file's size (below 300 bytes per byte for
//! compressed data, a few bytes otherwise), whatever counts the header claims. Only the nodes of a
//! glTF file can show a mesh many times, up to a limit ([`parse_gltf`]).
//!
//! Most readers are written from scratch; crates for the formats (`ply-rs-bw`, `tobj`, `pcd-rs`,
//! `stl_io`, `las`, `gltf`) serve as oracles in the tests. `tobj` splits and re-indexes vertices,
//! `pcd-rs` allocates what a header claims, and none of them reports the faulty line, byte, vertex
//! or face. External are only the arithmetic decoder of LAZ (the crate `laz` is given one chunk at
//! a time, after the sizes in the chunk have been checked against the file), E57 (the crate `e57`),
//! JSON and base64 of glTF, and the division of concave faces (the crate `earcut`).

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
mod stl;
mod xyz;

use std::path::Path;

use polygon::Faces;
use positions::{Positions, Relative};
use report::Rounding;

pub use error::{ParseError, ParseErrorKind, Place, ReadError};
pub use gltf::{DeformingMesh, MeshAnimation, parse_gltf};
pub use las::parse_las;
pub use obj::parse_obj;
pub use off::parse_off;
pub use pcd::parse_pcd;
pub use ply::parse_ply;
pub use report::{Format, ReadNote, ReadReport};
pub use stl::parse_stl;
pub use xyz::parse_xyz;

use crate::mesh::{Mesh, PointCloud, Scan};

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
    match Format::of(&bytes, extension) {
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
    match Format::of(bytes, extension) {
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

/// Drops the points of a cloud whose coordinates or normal are not finite. `first` is the fault of
/// the first such point; for a mesh it is returned as the error.
fn drop_not_finite(mut scan: Scan, first: Option<ParseError>) -> Result<Scan, ParseError> {
    let Some(fault) = first else { return Ok(scan) };
    let finite = |v: &[f32; 3]| v.iter().all(|c| c.is_finite());
    if scan.is_mesh() {
        // The fault may be that of a vertex of no face.
        let mut all = scan.points.positions.iter().chain(scan.points.normals.iter().flatten());
        return if all.all(finite) { Ok(scan) } else { Err(fault) };
    }
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

/// Returns the length in bytes and the number of lines of the record at the beginning of a text, if
/// it spans several lines: its `words` words end with the last of them. Otherwise the first line is
/// the record, with too few words.
fn several_lines(text: &[u8], words: u64) -> Option<(usize, u64)> {
    let (mut found, mut lines, mut end) = (0, 0, 0);
    for line in text.split(|&b| b == b'\n') {
        lines += 1;
        end += line.len() + usize::from(lines > 1);
        let in_line = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        found += in_line.count() as u64;
        if found >= words || lines == 1 && found == 0 {
            return (found == words && lines > 1).then_some((end, lines));
        }
    }
    None
}

/// Divides faces into triangles, drops the vertices of a mesh that belong to none, and makes
/// positions relative to an origin. Returns the scan, with notes on the faces and vertices, and the
/// coordinates that were rounded.
fn assemble(
    mut positions: Positions,
    mut normals: Option<Vec<[f32; 3]>>,
    faces: Faces,
    mut report: ReadReport,
) -> (Scan, Rounding) {
    let (mut triangles, notes) = faces.divide(|vertex| positions.get(vertex as usize));
    report.notes.extend(notes);
    if !triangles.is_empty()
        && let Some(unused) = Unused::of(positions.len(), &triangles)
    {
        positions.retain(&unused.is_used);
        unused.retain(normals.iter_mut());
        unused.renumber(&mut triangles);
        report.notes.push(unused.note());
    }
    let Relative { positions, origin, rounding } = positions.finish();
    report.origin = origin;
    (Scan { points: PointCloud { positions, normals }, triangles, report }, rounding)
}

/// Vertices of a mesh that belong to no face. They are no part of its surface, and would size the
/// grid around it.
struct Unused {
    is_used: Vec<bool>,
    count: usize,
}

impl Unused {
    /// Returns `None` if all vertices are used.
    fn of(vertices: usize, triangles: &[[u32; 3]]) -> Option<Unused> {
        let mut is_used = vec![false; vertices];
        triangles.iter().flatten().for_each(|&corner| is_used[corner as usize] = true);
        let count = is_used.iter().filter(|is_used| !**is_used).count();
        (count > 0).then_some(Unused { is_used, count })
    }
    /// Drops the elements of unused vertices.
    fn retain<'a, T: 'a>(&self, of: impl Iterator<Item = &'a mut Vec<T>>) {
        for all in of {
            let mut is_used = self.is_used.iter();
            all.retain(|_| is_used.next() == Some(&true));
        }
    }
    /// Gives corners the numbers that the vertices have without those that are dropped.
    fn renumber(&self, triangles: &mut [[u32; 3]]) {
        let new = self.is_used.iter().scan(0, |next, &is_used| {
            let number = *next;
            *next += u32::from(is_used);
            Some(number)
        });
        let new = new.collect::<Vec<u32>>();
        triangles.iter_mut().flatten().for_each(|corner| *corner = new[*corner as usize]);
    }
    fn note(&self) -> ReadNote {
        let (count, all) = (self.count, self.is_used.len());
        let first = self.is_used.iter().position(|is_used| !is_used).unwrap_or_default();
        let text = format!(
            "{count} of {all} vertices belong to no face and were not kept, the first is vertex \
             {first}"
        );
        ReadNote { place: Place::File, text }
    }
}
