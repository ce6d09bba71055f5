//! The solids of a mesh, each judged by itself.
use super::{Edge, corners_from, determinant, edges_of};
use crate::forest::Forest;
use koel_scans::Mesh;
use rayon::prelude::*;
use std::f64::consts::TAU;

/// Maximum number of pairs of a position and a face that [`mesh_solids`] compares to tell which
/// solid contains which: some seconds of one core.
const MAX_COMPARISONS: usize = 100_000_000;
/// Vertices of a solid that are compared with each solid whose box contains its own.
const SAMPLES: usize = 3;

/// Connected component of the faces of a mesh; see [`mesh_solids`].
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Solid {
    /// Number of faces.
    pub faces: usize,
    /// Whether every edge joins faces that agree about the outside.
    pub closed: bool,
    /// Volume enclosed by the faces, in cubic units: negative if they are clockwise seen from
    /// outside. Means nothing if the solid is not closed.
    pub volume: f64,
    /// Number of closed solids that contain it, if known; an odd number makes it a cavity.
    pub depth: Option<usize>,
    /// Whether the solid is certainly inside out: closed, and either contained in no other solid
    /// and of negative volume, or opposed to the outermost solid around it, which is inside out,
    /// as a cavity is.
    pub inside_out: bool,
    /// Whether the solid lies in an odd number of others but is oriented like a solid of its own,
    /// or in an even number but like a cavity: it may be either, and space counts twice there.
    pub ambiguous: bool,
}

/// The solids of a mesh; see [`mesh_solids`].
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct MeshSolids {
    /// Number of the solid of each face; `None` for faces with two corners at one position.
    pub solid_of: Vec<Option<u32>>,
    /// All solids, in the order of their first faces.
    pub solids: Vec<Solid>,
}
impl MeshSolids {
    /// Turns the faces of all solids that are certainly inside out. `mesh` must be the mesh that
    /// was judged. Returns the number of solids and of faces that were turned.
    pub fn turn(&self, mesh: &mut Mesh) -> (usize, usize) {
        let mut turned = 0;
        for (face, solid) in mesh.triangles.iter_mut().zip(&self.solid_of) {
            let solid = solid.and_then(|solid| self.solids.get(solid as usize));
            if solid.is_some_and(|solid| solid.inside_out) {
                face.swap(1, 2);
                turned += 1;
            }
        }
        (self.solids.iter().filter(|solid| solid.inside_out).count(), turned)
    }
}

/// Judges the orientation of each solid of a mesh by itself. A solid is a connected component of
/// faces across edges of exactly two faces; vertices at the same position count as one. Solids may
/// touch: an edge of more than two faces joins none of them.
///
/// A closed solid contains another one if three vertices of that have winding numbers of at least
/// 1/2 around it; solids that cross contain each other in neither way. Cost: that of
/// [`mesh_orientation`](super::mesh_orientation), and some 20 nanoseconds for each face of a solid
/// and each vertex compared with it, at most 100 million; beyond, depths are unknown.
/// Deterministic.
pub fn mesh_solids(mesh: &Mesh) -> MeshSolids {
    let edges = edges_of(mesh);
    let (solid_of, count) = components(mesh.triangles.len(), &edges);
    let mut faces = vec![vec![]; count];
    for (face, solid) in (0u32..).zip(&solid_of) {
        if let Some(solid) = solid {
            faces[*solid as usize].push(face);
        }
    }
    let is_closed = closed(&edges, &solid_of, count);
    let parts: Vec<Component> = (faces.into_iter().zip(is_closed))
        .map(|(faces, closed)| Component::new(mesh, faces, closed))
        .collect();
    let around = containers(mesh, &parts);
    let is_inward = |i: usize| parts[i].volume < 0.0;
    let judge = |i: usize| {
        let part = &parts[i];
        let containers = around.as_ref().map(|around| &around[i]);
        let depth = containers.map(Vec::len);
        // The outermost container encloses the largest volume.
        let outermost = containers.and_then(|all| {
            all.iter().copied().max_by(|&a, &b| {
                parts[a].volume.abs().total_cmp(&parts[b].volume.abs()).then(b.cmp(&a))
            })
        });
        let is_wrong = part.closed
            && part.volume != 0.0
            && depth.is_some_and(|depth| is_inward(i) != (depth % 2 == 1));
        let inside_out = is_wrong && outermost.is_none_or(is_inward);
        let ambiguous = is_wrong && !inside_out;
        let (faces, closed, volume) = (part.faces.len(), part.closed, part.volume);
        Solid { faces, closed, volume, depth, inside_out, ambiguous }
    };
    let solids = (0..parts.len()).map(judge).collect();
    MeshSolids { solid_of, solids }
}

/// Returns the component of each face that has edges, and the number of components.
fn components(faces: usize, edges: &[Edge]) -> (Vec<Option<u32>>, usize) {
    let mut forest = Forest::new(faces);
    for of_edge in edges.chunk_by(Edge::is_same) {
        if let [a, b] = of_edge {
            forest.join(a.face, b.face, false);
        }
    }
    let mut has_edges = vec![false; faces];
    edges.iter().for_each(|edge| has_edges[edge.face as usize] = true);
    let (mut number, mut count) = (vec![None; faces], 0);
    let of_face = |face: usize| {
        has_edges[face].then(|| {
            let root = forest.find(face as u32).0 as usize;
            *number[root].get_or_insert_with(|| {
                count += 1;
                count - 1
            })
        })
    };
    let solid_of = (0..faces).map(of_face).collect();
    (solid_of, count as usize)
}

/// Returns whether each component crosses every edge as often forward as backward.
fn closed(edges: &[Edge], solid_of: &[Option<u32>], count: usize) -> Vec<bool> {
    let mut closed = vec![true; count];
    for of_edge in edges.chunk_by(Edge::is_same) {
        let mut crossings: Vec<(u32, i64)> = (of_edge.iter())
            .filter_map(|e| Some((solid_of[e.face as usize]?, if e.forward { 1 } else { -1 })))
            .collect();
        crossings.sort_unstable();
        for of_solid in crossings.chunk_by(|a, b| a.0 == b.0) {
            if of_solid.iter().map(|c| c.1).sum::<i64>() != 0 {
                closed[of_solid[0].0 as usize] = false;
            }
        }
    }
    closed
}

/// Faces of a solid, its box, and its volume.
struct Component {
    faces: Vec<u32>,
    closed: bool,
    volume: f64,
    min: [f32; 3],
    max: [f32; 3],
}
impl Component {
    fn new(mesh: &Mesh, faces: Vec<u32>, closed: bool) -> Component {
        let (mut min, mut max) = ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]);
        let corners = faces.iter().flat_map(|&face| mesh.triangles[face as usize]);
        for p in corners.map(|i| mesh.positions[i as usize]) {
            (0..3).for_each(|a| (min[a], max[a]) = (min[a].min(p[a]), max[a].max(p[a])));
        }
        let of_face = |&face: &u32| {
            let corners = corners_from(mesh, &mesh.triangles[face as usize], min.map(f64::from));
            corners.map_or(0.0, determinant)
        };
        let volume = faces.iter().map(of_face).sum::<f64>() / 6.0;
        Component { faces, closed, volume, min, max }
    }
    fn box_contains(&self, other: &Component) -> bool {
        (0..3).all(|a| self.min[a] <= other.min[a] && other.max[a] <= self.max[a])
    }
    /// Returns whether the solid contains a few vertices of the other.
    fn contains(&self, mesh: &Mesh, other: &Component) -> bool {
        let step = other.faces.len().div_ceil(SAMPLES);
        other.faces.iter().step_by(step).all(|&face| {
            let vertex = mesh.triangles[face as usize][0];
            self.winding(mesh, mesh.positions[vertex as usize].map(f64::from)).abs() >= 0.5
        })
    }
    /// Returns the winding number of the faces around a position: the sum of their solid angles (A.
    /// van Oosterom, J. Strackee: The solid angle of a plane triangle, 1983).
    fn winding(&self, mesh: &Mesh, p: [f64; 3]) -> f64 {
        let dot = |u: [f64; 3], v: [f64; 3]| u[0] * v[0] + u[1] * v[1] + u[2] * v[2];
        let of_face = |&face: &u32| {
            let corners = corners_from(mesh, &mesh.triangles[face as usize], p);
            let Some([a, b, c]) = corners else { return 0.0 };
            let [la, lb, lc] = [a, b, c].map(|v| dot(v, v).sqrt());
            let below = la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb;
            determinant([a, b, c]).atan2(below)
        };
        self.faces.iter().map(of_face).sum::<f64>() / TAU
    }
}

/// Returns the closed solids that contain each solid; `None` if that would take too long.
fn containers(mesh: &Mesh, parts: &[Component]) -> Option<Vec<Vec<usize>>> {
    // Solids by the left end of their boxes: a container begins no later.
    let mut by_left: Vec<usize> = (0..parts.len()).filter(|&i| parts[i].closed).collect();
    by_left.sort_by(|&a, &b| parts[a].min[0].total_cmp(&parts[b].min[0]).then(a.cmp(&b)));
    let (mut pairs, mut comparisons) = (vec![], 0usize);
    for (i, part) in parts.iter().enumerate().filter(|(_, part)| part.closed) {
        let before = by_left.partition_point(|&j| parts[j].min[0] <= part.min[0]);
        comparisons = comparisons.saturating_add(before);
        if comparisons > MAX_COMPARISONS {
            return None;
        }
        for &j in &by_left[..before] {
            let larger = parts[j].volume.abs() > part.volume.abs();
            if j != i && larger && parts[j].box_contains(part) {
                comparisons = comparisons.saturating_add(SAMPLES * parts[j].faces.len());
                pairs.push((i, j));
            }
        }
    }
    if comparisons > MAX_COMPARISONS {
        return None;
    }
    let is_inside: Vec<bool> =
        pairs.par_iter().map(|&(i, j)| parts[j].contains(mesh, &parts[i])).collect();
    let mut around = vec![vec![]; parts.len()];
    for ((i, j), _) in pairs.into_iter().zip(is_inside).filter(|(_, inside)| *inside) {
        around[i].push(j);
    }
    Some(around)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a cube with this corner and side; `outward` or inside out.
    fn add_cube(mesh: &mut Mesh, corner: [f32; 3], side: f32, outward: bool) {
        let first = mesh.positions.len() as u32;
        mesh.positions.extend(
            (0..8).map(|i| [0, 1, 2].map(|a: usize| corner[a] + side * (i >> a & 1) as f32)),
        );
        let quads =
            [[0, 2, 3, 1], [4, 5, 7, 6], [0, 1, 5, 4], [2, 6, 7, 3], [0, 4, 6, 2], [1, 3, 7, 5]];
        for [a, b, c, d] in quads.map(|quad: [u32; 4]| quad.map(|i| first + i)) {
            for [p, q, r] in [[a, b, c], [a, c, d]] {
                mesh.triangles.push(if outward { [p, q, r] } else { [p, r, q] });
            }
        }
    }
    fn cubes(all: &[([f32; 3], f32, bool)]) -> Mesh {
        let mut mesh = Mesh::default();
        all.iter().for_each(|&(corner, side, outward)| add_cube(&mut mesh, corner, side, outward));
        mesh
    }
    /// Depth, whether inside out, and whether ambiguous, of each solid.
    fn verdicts(mesh: &Mesh) -> Vec<(Option<usize>, bool, bool)> {
        let found = mesh_solids(mesh);
        assert!(found.solids.iter().all(|solid| solid.closed && solid.faces == 12));
        found.solids.iter().map(|s| (s.depth, s.inside_out, s.ambiguous)).collect()
    }

    #[test]
    fn each_solid_is_turned_by_itself() {
        // One of three solids apart is inside out; their total volume is positive.
        let mut mesh = cubes(&[
            ([0.0; 3], 1.0, true),
            ([3.0, 0.0, 0.0], 0.5, false),
            ([6.0, 0.0, 0.0], 1.0, true),
        ]);
        let found = mesh_solids(&mesh);
        assert_eq!(found.turn(&mut mesh), (1, 12));
        assert!(mesh_solids(&mesh).solids.iter().all(|s| s.volume > 0.0 && !s.inside_out));
    }
    #[test]
    fn cavities_are_opposed_to_what_contains_them() {
        let nest = |signs: [bool; 3]| {
            let corners = [[0.0; 3], [1.0; 3], [2.0; 3]];
            let all = [0, 1, 2].map(|i| (corners[i], 6.0 - 2.0 * i as f32, signs[i]));
            verdicts(&cubes(&all))
        };
        let depths = |all: [(bool, bool); 3]| {
            (0..3).map(|i| (Some(i), all[i].0, all[i].1)).collect::<Vec<_>>()
        };
        let (good, turn, doubt) = ((false, false), (true, false), (false, true));
        assert_eq!(nest([true, false, true]), depths([good; 3]));
        assert_eq!(nest([false, true, false]), depths([turn; 3]));
        assert_eq!(nest([true, true, true]), depths([good, doubt, good]));
        assert_eq!(nest([true, false, false]), depths([good, good, doubt]));
        assert_eq!(nest([false, false, true]), depths([turn, good, good]));
    }
    #[test]
    fn solids_that_touch_or_cross_contain_nothing() {
        // Edge to edge: four faces meet there, which join no solids.
        let touching = cubes(&[([0.0; 3], 1.0, true), ([1.0, 1.0, 0.0], 1.0, false)]);
        assert_eq!(verdicts(&touching), [(Some(0), false, false), (Some(0), true, false)]);
        let crossing = cubes(&[([0.0; 3], 2.0, true), ([1.0; 3], 1.5, false)]);
        assert_eq!(verdicts(&crossing), [(Some(0), false, false), (Some(0), true, false)]);
        // In the box of a ring, but not in the ring.
        let mut ring = cubes(&[]);
        for (corner, side) in [([0.0; 3], 1.0), ([4.0; 3], 1.0)] {
            add_cube(&mut ring, corner, side, true);
        }
        assert!(mesh_solids(&ring).solids.iter().all(|s| s.depth == Some(0)));
    }
    #[test]
    fn open_and_degenerate_faces_are_not_judged() {
        let mut mesh = cubes(&[([0.0; 3], 1.0, false), ([3.0; 3], 1.0, false)]);
        mesh.triangles.pop();
        mesh.triangles.push([0, 0, 1]);
        mesh.triangles.push([0, 1, 99]);
        let found = mesh_solids(&mesh);
        assert_eq!(found.solid_of[23..], [None, None]);
        assert_eq!(
            found.solids.iter().map(|s| (s.closed, s.inside_out)).collect::<Vec<_>>(),
            [(true, true), (false, false)]
        );
        assert_eq!(mesh_solids(&Mesh::default()).solids, []);
    }
}
