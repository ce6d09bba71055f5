//! Triangle meshes and clouds of points.

/// Triangle mesh. Positions are in the units of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mesh {
    /// Vertex positions.
    pub positions: Vec<[f32; 3]>,
    /// Corners of each triangle, as indices into `positions`; counter-clockwise seen from outside
    /// if the file says so.
    pub triangles: Vec<[u32; 3]>,
}

/// Points in space, with or without normals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointCloud {
    /// Point positions.
    pub positions: Vec<[f32; 3]>,
    /// One normal per point, as given by the file (not normalized), or none.
    pub normals: Option<Vec<[f32; 3]>>,
}
