//! The bytes of label files and PLY files.
use koel_spatial::intersect::{BooleanMesh, Label, LabelledPoints, LabelledVoxel, Side};

/// Encodes rows of i, j, k and label as 32-bit little-endian integers.
pub(super) fn labels(voxels: &[LabelledVoxel]) -> Vec<u8> {
    let rows = voxels.iter().flat_map(|v| {
        let [i, j, k] = v.voxel;
        [i, j, k, v.label as u32]
    });
    rows.flat_map(u32::to_le_bytes).collect()
}

/// Coordinates of positions in the files' system: as 64-bit numbers if the positions are relative
/// to an origin other than zero.
#[derive(Clone, Copy)]
pub(super) struct Coordinates {
    pub origin: [f64; 3],
}
impl Coordinates {
    fn is_wide(self) -> bool {
        self.origin != [0.0; 3]
    }
    /// Returns the declaration of x, y and z in a PLY header.
    fn properties(self) -> String {
        let kind = if self.is_wide() { "double" } else { "float" };
        ["x", "y", "z"].map(|axis| format!("property {kind} {axis}\n")).concat()
    }
    /// Appends the bytes of a position.
    fn write(self, position: [f32; 3], bytes: &mut Vec<u8>) {
        if self.is_wide() {
            let wide = position.iter().zip(self.origin).map(|(&c, o)| f64::from(c) + o);
            bytes.extend(wide.flat_map(f64::to_le_bytes));
        } else {
            bytes.extend(position.into_iter().flat_map(f32::to_le_bytes));
        }
    }
}

const NORMALS: &str = "property float nx\nproperty float ny\nproperty float nz\n";

/// Encodes triangles, and normals if there are any, as binary little-endian PLY.
pub(super) fn mesh_ply(made: &BooleanMesh, coordinates: Coordinates) -> Vec<u8> {
    let mesh = &made.mesh;
    let mut bytes = format!(
        "ply\nformat binary_little_endian 1.0\ncomment koel intersect\n\
         element vertex {}\n{}{}\
         element face {}\nproperty list uchar int vertex_indices\nend_header\n",
        mesh.positions.len(),
        coordinates.properties(),
        if made.normals.is_some() { NORMALS } else { "" },
        mesh.triangles.len()
    )
    .into_bytes();
    for (i, &p) in mesh.positions.iter().enumerate() {
        coordinates.write(p, &mut bytes);
        if let Some(normals) = &made.normals {
            bytes.extend(normals[i].iter().flat_map(|c| c.to_le_bytes()));
        }
    }
    for triangle in &mesh.triangles {
        bytes.push(3);
        bytes.extend(triangle.iter().flat_map(|i| i.to_le_bytes()));
    }
    bytes
}

/// Encodes points as binary little-endian PLY, with normals, colours, labels and the cloud of each
/// point (0 or 1).
pub(super) fn cloud_ply(cloud: &LabelledPoints, coordinates: Coordinates) -> Vec<u8> {
    let mut bytes = format!(
        "ply\nformat binary_little_endian 1.0\n\
         comment koel intersect: label 0 unknown, 1 intersection, 2 inside, 3 outside\n\
         element vertex {}\n{}\
         {NORMALS}\
         property uchar red\nproperty uchar green\nproperty uchar blue\nproperty uchar label\n\
         property uchar cloud\nend_header\n",
        cloud.points.positions.len(),
        coordinates.properties()
    )
    .into_bytes();
    let normals = cloud.points.normals.as_deref().unwrap_or_default();
    for (((p, n), label), side) in
        cloud.points.positions.iter().zip(normals).zip(&cloud.labels).zip(&cloud.sides)
    {
        coordinates.write(*p, &mut bytes);
        bytes.extend(n.iter().flat_map(|c| c.to_le_bytes()));
        bytes.extend(colour(*label, *side));
        bytes.extend([*label as u8, *side as u8]);
    }
    bytes
}
/// Returns a colour-blind-safe colour (M. Okabe and K. Ito 2008); B's are darker.
fn colour(label: Label, side: Side) -> [u8; 3] {
    let rgb = match label {
        Label::Unknown => [0x99, 0x99, 0x99],
        Label::Intersection => [0xF0, 0xE4, 0x42],
        Label::Inside => [0x00, 0x72, 0xB2],
        Label::Outside => [0xE6, 0x9F, 0x00],
    };
    if side == Side::A { rgb } else { rgb.map(|c: u8| c / 4 * 3) }
}
