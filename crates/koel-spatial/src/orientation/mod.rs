//! Checks of which side of a surface is outside, before anything relies on it.
mod parts;
mod solids;

use koel_scans::{Mesh, PointCloud};
pub use parts::{CloudParts, Part, cloud_parts};
use rayon::prelude::*;
pub use solids::{MeshSolids, Solid, mesh_solids};
use std::collections::HashMap;

/// How the faces of a mesh fit together; see [`mesh_orientation`].
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct MeshOrientation {
    /// Edges of one face only: the surface has a border there.
    pub open_edges: u64,
    /// Edges that faces do not cross in opposite directions in equal numbers: neighbours disagree
    /// about the outside.
    pub opposed_edges: u64,
    /// Edges of more than two faces: solids touch there, or the faces are two-sided.
    pub crowded_edges: u64,
    /// Volume enclosed by the faces, in cubic units: negative if they are clockwise seen from
    /// outside. Means nothing if there are open or opposed edges.
    pub volume: f64,
}
impl MeshOrientation {
    /// Returns whether every edge joins faces that agree about the outside.
    pub fn is_closed(&self) -> bool {
        self.open_edges == 0 && self.opposed_edges == 0
    }
    /// Returns whether the surface is certainly inside out.
    pub fn is_inside_out(&self) -> bool {
        self.is_closed() && self.volume < 0.0
    }
}

/// Checks the orientation of a mesh. Vertices at the same position count as one; faces with two
/// corners at one position do not count.
///
/// Cost: a hash lookup per vertex and a sort of all edges, some 0.3 microseconds per face on one
/// core. Indices past the last vertex are ignored. Deterministic up to the rounding of the volume.
pub fn mesh_orientation(mesh: &Mesh) -> MeshOrientation {
    let edges = edges_of(mesh);
    let (mut open_edges, mut opposed_edges, mut crowded_edges) = (0, 0, 0);
    for of_edge in edges.chunk_by(Edge::is_same) {
        let forward = of_edge.iter().filter(|e| e.forward).count();
        open_edges += (of_edge.len() == 1) as u64;
        opposed_edges += (of_edge.len() > 1 && 2 * forward != of_edge.len()) as u64;
        crowded_edges += (of_edge.len() > 2) as u64;
    }
    MeshOrientation { open_edges, opposed_edges, crowded_edges, volume: signed_volume(mesh) }
}

/// Where the border of a face runs along an edge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    /// Vertices, the smaller index first; those at one position have one index.
    ends: [u32; 2],
    /// Whether the face lies to the left when going from the first to the second.
    forward: bool,
    face: u32,
}
impl Edge {
    fn is_same(&self, other: &Edge) -> bool {
        self.ends == other.ends
    }
}
/// Returns the edges of all faces but those with two corners at one position, sorted.
fn edges_of(mesh: &Mesh) -> Vec<Edge> {
    let mut ids = HashMap::with_capacity(mesh.positions.len());
    let welded = mesh
        .positions
        .iter()
        .map(|p| {
            let next = ids.len() as u32;
            *ids.entry(p.map(|c| (c + 0.0).to_bits())).or_insert(next)
        })
        .collect::<Vec<_>>();
    let corner = |i: u32| welded.get(i as usize).copied();
    let of_face = |(face, t): (u32, &[u32; 3])| {
        let [a, b, c] = [corner(t[0])?, corner(t[1])?, corner(t[2])?];
        let edge = |from: u32, to: u32| {
            let (ends, forward) = ([from.min(to), from.max(to)], from < to);
            Edge { ends, forward, face }
        };
        (a != b && b != c && c != a).then(|| [edge(a, b), edge(b, c), edge(c, a)])
    };
    let mut edges = (0..).zip(&mesh.triangles).filter_map(of_face).flatten().collect::<Vec<_>>();
    edges.par_sort_unstable();
    edges
}

/// Returns a sixth of the sum of the determinants of all faces, around the first vertex.
fn signed_volume(mesh: &Mesh) -> f64 {
    let Some(centre) = mesh.positions.first().map(|p| p.map(f64::from)) else { return 0.0 };
    let of_face = |t: &[u32; 3]| corners_from(mesh, t, centre).map_or(0.0, determinant);
    mesh.triangles.iter().map(of_face).sum::<f64>() / 6.0
}
/// Returns the corners of a face relative to `centre`; `None` if one is past the last vertex.
fn corners_from(mesh: &Mesh, face: &[u32; 3], centre: [f64; 3]) -> Option<[[f64; 3]; 3]> {
    let at = |i: u32| {
        let p = mesh.positions.get(i as usize)?;
        Some([0, 1, 2].map(|a| f64::from(p[a]) - centre[a]))
    };
    Some([at(face[0])?, at(face[1])?, at(face[2])?])
}
fn determinant([a, b, c]: [[f64; 3]; 3]) -> f64 {
    a[0] * (b[1] * c[2] - b[2] * c[1])
        + a[1] * (b[2] * c[0] - b[0] * c[2])
        + a[2] * (b[0] * c[1] - b[1] * c[0])
}

/// How the normals of a cloud stand to its points; see [`cloud_orientation`].
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct CloudOrientation {
    /// Number of normals that are zero or not finite.
    pub without_direction: usize,
    /// Length of the mean of all unit normals: 0 for evenly sampled closed surfaces, 1 for a plate.
    pub bias: f64,
    /// Mean of the distance from the centre along the normal, divided by the mean distance from the
    /// centre: 1 for a sphere with outward normals, -1 with inward ones. By the divergence theorem
    /// it has the sign of the volume if the surface is closed and evenly sampled.
    pub outward: f64,
}
impl CloudOrientation {
    /// Returns whether the normals certainly point inward: the surface is closed as far as its
    /// normals tell, and most of them point to its centre.
    pub fn is_inside_out(&self) -> bool {
        self.bias < 0.1 && self.outward < -0.05
    }
    /// Returns whether the normals certainly point outward, by the same limits.
    pub fn is_outward(&self) -> bool {
        self.bias < 0.1 && self.outward > 0.05
    }
}

/// Checks the orientation of a cloud's normals. `None` for a cloud without normals. Linear in the
/// number of points; deterministic.
pub fn cloud_orientation(cloud: &PointCloud) -> Option<CloudOrientation> {
    Some(orientation_of(cloud.positions.iter().zip(cloud.normals.as_ref()?)))
}
fn orientation_of<'a>(
    points: impl Iterator<Item = (&'a [f32; 3], &'a [f32; 3])> + Clone,
) -> CloudOrientation {
    let unit = |v: &[f32; 3]| {
        let v = v.map(f64::from);
        let length = v.iter().map(|c| c * c).sum::<f64>().sqrt();
        (length > 0.0 && length.is_finite()).then(|| v.map(|c| c / length))
    };
    let sum = |all: &mut dyn Iterator<Item = [f64; 3]>| {
        all.fold([0.0; 3], |sum, v| [0, 1, 2].map(|a| sum[a] + v[a]))
    };
    let directed = || points.clone().filter_map(|(p, v)| Some((p.map(f64::from), unit(v)?)));
    let count = directed().count();
    let each = 1.0 / count.max(1) as f64;
    let centre = sum(&mut directed().map(|(p, _)| p)).map(|c| c * each);
    let mean = sum(&mut directed().map(|(_, v)| v)).map(|c| c * each);
    let (mut along, mut distance) = (0.0, 0.0);
    for (p, v) in directed() {
        let from = [0, 1, 2].map(|a| p[a] - centre[a]);
        along += (0..3).map(|a| from[a] * v[a]).sum::<f64>();
        distance += from.iter().map(|c| c * c).sum::<f64>().sqrt();
    }
    CloudOrientation {
        without_direction: points.count() - count,
        bias: mean.iter().map(|c| c * c).sum::<f64>().sqrt(),
        outward: if distance > 0.0 { along / distance } else { 0.0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cube() -> Mesh {
        let positions =
            (0..8).map(|i| [0, 1, 2].map(|a| (i >> a & 1) as f32 + 5.0)).collect::<Vec<_>>();
        let quads =
            [[0, 2, 3, 1], [4, 5, 7, 6], [0, 1, 5, 4], [2, 6, 7, 3], [0, 4, 6, 2], [1, 3, 7, 5]];
        let triangles = quads.iter().flat_map(|&[a, b, c, d]| [[a, b, c], [a, c, d]]).collect();
        Mesh { positions, triangles }
    }
    fn turned(mesh: &Mesh, which: impl Fn(usize) -> bool) -> Mesh {
        let turn =
            |(i, &[a, b, c]): (usize, &[u32; 3])| if which(i) { [a, c, b] } else { [a, b, c] };
        Mesh { triangles: mesh.triangles.iter().enumerate().map(turn).collect(), ..mesh.clone() }
    }

    #[test]
    fn closed_meshes_have_an_outside() {
        let right = mesh_orientation(&cube());
        assert!(right.is_closed() && !right.is_inside_out() && (right.volume - 1.0).abs() < 1e-9);
        let wrong = mesh_orientation(&turned(&cube(), |_| true));
        assert!(wrong.is_inside_out() && (wrong.volume + 1.0).abs() < 1e-9);
        // Vertices of their own for each face make no border.
        let apart = cube();
        let positions = apart.triangles.iter().flatten().map(|&i| apart.positions[i as usize]);
        let triangles = (0..12).map(|i| [3 * i, 3 * i + 1, 3 * i + 2]).collect();
        assert_eq!(mesh_orientation(&Mesh { positions: positions.collect(), triangles }), right);
    }
    #[test]
    fn borders_and_faces_that_disagree_are_counted() {
        let mut open = cube();
        open.triangles.pop();
        assert_eq!(
            (mesh_orientation(&open).open_edges, mesh_orientation(&open).opposed_edges),
            (3, 0)
        );
        let one = mesh_orientation(&turned(&cube(), |i| i == 3));
        assert_eq!((one.open_edges, one.opposed_edges), (0, 3));
        assert!(!one.is_closed() && !one.is_inside_out());
        // Every face twice, once from each side.
        let mut two_sided = cube();
        two_sided.triangles.extend(turned(&cube(), |_| true).triangles);
        let both = mesh_orientation(&two_sided);
        assert!(both.volume.abs() < 1e-9 && both.crowded_edges == 18 && !both.is_inside_out());
        let beyond = Mesh { triangles: vec![[0, 1, 99]], ..cube() };
        assert_eq!(mesh_orientation(&beyond).volume, 0.0);
    }
    #[test]
    fn normals_of_closed_clouds_have_a_side() {
        let positions: Vec<[f32; 3]> = (0..2000)
            .map(|i| {
                let (z, turn) = ((i as f64 + 0.5) / 1000.0 - 1.0, i as f64 * 2.399_963);
                let r = (1.0 - z * z).sqrt();
                [(r * turn.cos()) as f32, (r * turn.sin()) as f32, 3.0 * z as f32]
            })
            .collect();
        let outward = |sign: f32| {
            let normals = positions.iter().map(|p| [sign * p[0], sign * p[1], sign * p[2] / 9.0]);
            PointCloud { positions: positions.clone(), normals: Some(normals.collect()) }
        };
        let (out, inward) = (cloud_orientation(&outward(1.0)), cloud_orientation(&outward(-0.2)));
        assert!(out.is_some_and(|o| o.outward > 0.4 && !o.is_inside_out()));
        assert!(inward.is_some_and(|o| o.is_inside_out() && o.without_direction == 0));
        // Half a surface does not tell.
        let mut half = outward(-1.0);
        half.positions.truncate(1000);
        half.normals.as_mut().unwrap().truncate(1000);
        assert!(cloud_orientation(&half).is_some_and(|o| !o.is_inside_out() && o.bias > 0.1));
        let zero = PointCloud { normals: Some(vec![[0.0; 3]; 2000]), ..outward(1.0) };
        assert!(cloud_orientation(&zero).is_some_and(|o| o.without_direction == 2000));
        assert_eq!(cloud_orientation(&PointCloud { normals: None, ..zero }), None);
    }
}
