//! What a scan is made of: points, perhaps normals, perhaps triangles.

use crate::grid::Bounds;
use crate::read::{ParseError, ParseErrorKind, Place, ReadReport};

/// A triangle mesh. Positions are in the units of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mesh {
    /// Vertex positions.
    pub positions: Vec<[f32; 3]>,
    /// Corners of each triangle, as indices into `positions`, counter-clockwise seen from outside
    /// where the file says so.
    pub triangles: Vec<[u32; 3]>,
}

/// Points in space, with or without one normal a point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointCloud {
    /// Point positions.
    pub positions: Vec<[f32; 3]>,
    /// One normal for each point, as the file gives them (not made unit length), or none at all.
    pub normals: Option<Vec<[f32; 3]>>,
}

/// The content of a scan file, mesh or cloud: what [`crate::read()`] returns.
///
/// Every reader guarantees finite coordinates and normals, triangle indices below the number of
/// points, and as many normals as points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scan {
    /// The vertices, or the points of a cloud.
    pub points: PointCloud,
    /// The triangles; empty for a point cloud.
    pub triangles: Vec<[u32; 3]>,
    /// What the file was, and what was left out.
    pub report: ReadReport,
}

impl Scan {
    /// Whether the file holds at least one face.
    pub fn is_mesh(&self) -> bool {
        !self.triangles.is_empty()
    }

    /// The box around the points, relative to the report's origin.
    ///
    /// # Errors
    /// [`GridError::NoPoints`](crate::GridError::NoPoints) for a scan that no reader made.
    pub fn bounds(&self) -> Result<Bounds, crate::GridError> {
        Bounds::of(&self.points.positions)
    }

    /// In one line, for people: format, counts, dropped points, unit, and the box around the points
    /// in the file's coordinates.
    pub fn summary(&self) -> String {
        let ReadReport { format, dropped, unit, origin, .. } = &self.report;
        let (points, triangles) = (self.points.positions.len(), self.triangles.len());
        let normals =
            if self.points.normals.is_some() { "with normals" } else { "without normals" };
        let unit = unit.as_deref().unwrap_or("unit not told");
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
            "{format}: {points} points {normals}, {triangles} triangles, {dropped} points dropped, {unit}, {corners}"
        )
    }

    /// Moves the points so that they are relative to another origin, for instance that of a second
    /// scan: coordinates in the file stay what they were, but for rounding to 32 bits.
    pub fn set_origin(&mut self, origin: [f64; 3]) {
        let by: [f64; 3] = std::array::from_fn(|a| self.report.origin[a] - origin[a]);
        if by != [0.0; 3] {
            for p in &mut self.points.positions {
                *p = std::array::from_fn(|a| (f64::from(p[a]) + by[a]) as f32);
            }
        }
        self.report.origin = origin;
    }

    /// The points with their normals.
    ///
    /// # Errors
    /// [`ParseErrorKind::NoNormals`], at the place where the format declares what a point has.
    pub fn into_oriented_cloud(self) -> Result<PointCloud, ParseError> {
        if self.points.normals.is_none() {
            let (points, fields) =
                (self.points.positions.len(), self.report.format.normal_fields());
            return Err(ParseError {
                place: self.report.fields_at,
                kind: ParseErrorKind::NoNormals { points, fields },
            });
        }
        Ok(self.points)
    }

    /// The triangle mesh, without vertex normals.
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

    /// The points, whether or not faces join them.
    pub fn into_cloud(self) -> PointCloud {
        self.points
    }
}
