//! What a scan is made of: points, perhaps normals, perhaps triangles.

use crate::read::{ParseError, ParseErrorKind, Place};

/// A triangle mesh. Positions are in the units of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mesh {
    /// Vertex positions.
    pub positions: Vec<[f32; 3]>,
    /// Corners of each triangle, as indices into `positions`, counter-clockwise seen from outside where the file says so.
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
/// Every reader guarantees finite coordinates and normals, triangle indices below the number of points, and as many
/// normals as points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scan {
    /// The vertices, or the points of a cloud.
    pub points: PointCloud,
    /// The triangles; empty for a point cloud.
    pub triangles: Vec<[u32; 3]>,
}

impl Scan {
    /// Whether the file holds at least one face.
    pub fn is_mesh(&self) -> bool {
        !self.triangles.is_empty()
    }

    /// The triangle mesh, without vertex normals.
    ///
    /// # Errors
    /// [`ParseErrorKind::NoFaces`] for a point cloud.
    pub fn into_mesh(self) -> Result<Mesh, ParseError> {
        if self.triangles.is_empty() {
            let points = self.points.positions.len();
            return Err(ParseError { place: Place::File, kind: ParseErrorKind::NoFaces { points } });
        }
        Ok(Mesh { positions: self.points.positions, triangles: self.triangles })
    }

    /// The points, whether or not faces join them.
    pub fn into_cloud(self) -> PointCloud {
        self.points
    }
}
