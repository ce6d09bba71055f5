//! Content of a scan: points, optional normals, optional triangles.

use crate::bounds::{Bounds, BoundsError};
use crate::error::{ParseError, ParseErrorKind, Place};
use crate::mesh::{Mesh, PointCloud};
use crate::report::ReadReport;

/// Content of a scan file, mesh or cloud, as every reader returns it.
///
/// Every reader guarantees finite coordinates and normals, triangle indices below the number of
/// points, and one normal per point if there are normals.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Scan {
    /// Vertices of the mesh, or points of the cloud.
    pub points: PointCloud,
    /// Triangles; empty for a point cloud.
    pub triangles: Vec<[u32; 3]>,
    /// Format of the file, and what was omitted.
    pub report: ReadReport,
}

impl Scan {
    /// Returns whether the file holds at least one face.
    pub fn is_mesh(&self) -> bool {
        !self.triangles.is_empty()
    }

    /// Returns the box around the points, relative to the report's origin.
    ///
    /// # Errors
    /// [`BoundsError::NoPoints`] for an empty scan, which no reader
    /// returns.
    pub fn bounds(&self) -> Result<Bounds, BoundsError> {
        Bounds::of(&self.points.positions)
    }

    /// Summarizes the scan in one line: format, counts, dropped points, unit, and the box around
    /// the points in the file's coordinates.
    pub fn summary(&self) -> String {
        let ReadReport { format, dropped, unit, origin, .. } = &self.report;
        let (points, triangles) = (self.points.positions.len(), self.triangles.len());
        let normals =
            if self.points.normals.is_some() { "with normals" } else { "without normals" };
        let unit = unit.as_deref().unwrap_or("unknown unit");
        let corners = match self.bounds() {
            Ok(bounds) => {
                let corner = |c: [f32; 3]| -> [f64; 3] {
                    std::array::from_fn(|a| origin[a] + f64::from(c[a]))
                };
                format!("from {:?} to {:?}", corner(bounds.min()), corner(bounds.max()))
            }
            Err(none) => none.to_string(),
        };
        format!(
            "{format}: {points} points {normals}, {triangles} triangles, \
             {dropped} points dropped, {unit}, {corners}"
        )
    }

    /// Makes the points relative to another origin, for instance that of a second scan. Coordinates
    /// in the file's system stay the same up to rounding to 32 bits.
    pub fn set_origin(&mut self, origin: [f64; 3]) {
        let by: [f64; 3] = std::array::from_fn(|a| self.report.origin[a] - origin[a]);
        if by != [0.0; 3] {
            for p in &mut self.points.positions {
                *p = std::array::from_fn(|a| (f64::from(p[a]) + by[a]) as f32);
            }
        }
        self.report.origin = origin;
    }

    /// Returns the points with their normals.
    ///
    /// # Errors
    /// [`ParseErrorKind::NoNormals`], at the place where the format declares the fields of a point.
    pub fn into_oriented_cloud(self) -> Result<PointCloud, ParseError> {
        if self.points.normals.is_none() {
            let (points, fields) =
                (self.points.positions.len(), self.report.format.normal_fields());
            return Err(ParseError {
                place: self.report.fields_at,
                kind: ParseErrorKind::NoNormals { points, fields, found: self.report.fields },
            });
        }
        Ok(self.points)
    }

    /// Returns the triangle mesh, without vertex normals.
    ///
    /// # Errors
    /// [`ParseErrorKind::NoFaces`] for a point cloud.
    pub fn into_mesh(self) -> Result<Mesh, ParseError> {
        if self.triangles.is_empty() {
            let points = self.points.positions.len();
            return Err(ParseError {
                place: Place::File,
                kind: ParseErrorKind::NoFaces { points },
            });
        }
        Ok(Mesh { positions: self.points.positions, triangles: self.triangles })
    }

    /// Returns the points, ignoring any faces.
    pub fn into_cloud(self) -> PointCloud {
        self.points
    }
}
