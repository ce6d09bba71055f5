//! The scan of a file, from all that a reader found: triangles of faces, points that are kept, and
//! positions relative to an origin.

use crate::error::{ParseError, ParseErrorKind, Place};
use crate::mesh::PointCloud;
use crate::polygon::Faces;
use crate::positions::{Positions, Relative};
use crate::report::{ReadNote, ReadReport, Rounding};
use crate::scan::Scan;

/// Drops the points of a cloud whose coordinates or normal are not finite. `first` is the fault of
/// the first such point; for a mesh it is returned as the error.
pub(crate) fn drop_not_finite(
    mut scan: Scan,
    first: Option<ParseError>,
) -> Result<Scan, ParseError> {
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

/// Divides faces into triangles, drops the vertices of a mesh that belong to none, and makes
/// positions relative to an origin. Returns the scan, with notes on the faces and vertices, and the
/// coordinates that were rounded.
pub(crate) fn assemble(
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
pub(crate) struct Unused {
    pub is_used: Vec<bool>,
    pub count: usize,
}

impl Unused {
    /// Returns `None` if all vertices are used.
    pub(crate) fn of(vertices: usize, triangles: &[[u32; 3]]) -> Option<Unused> {
        let mut is_used = vec![false; vertices];
        triangles.iter().flatten().for_each(|&corner| is_used[corner as usize] = true);
        let count = is_used.iter().filter(|is_used| !**is_used).count();
        (count > 0).then_some(Unused { is_used, count })
    }
    /// Drops the elements of unused vertices.
    pub(crate) fn retain<'a, T: 'a>(&self, of: impl Iterator<Item = &'a mut Vec<T>>) {
        for all in of {
            let mut is_used = self.is_used.iter();
            all.retain(|_| is_used.next() == Some(&true));
        }
    }
    /// Gives corners the numbers that the vertices have without those that are dropped.
    pub(crate) fn renumber(&self, triangles: &mut [[u32; 3]]) {
        let new = self.is_used.iter().scan(0, |next, &is_used| {
            let number = *next;
            *next += u32::from(is_used);
            Some(number)
        });
        let new = new.collect::<Vec<u32>>();
        triangles.iter_mut().flatten().for_each(|corner| *corner = new[*corner as usize]);
    }
    pub(crate) fn note(&self) -> ReadNote {
        let (count, all) = (self.count, self.is_used.len());
        let first = self.is_used.iter().position(|is_used| !is_used).unwrap_or_default();
        let text = format!(
            "{count} of {all} vertices belong to no face and were not kept, the first is vertex \
             {first}"
        );
        ReadNote { place: Place::File, text }
    }
}
