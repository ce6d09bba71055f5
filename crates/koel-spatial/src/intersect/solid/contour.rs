//! Smooth surfaces of Booleans by dual contouring (T. Ju, F. Losasso, S. Schaefer and J. Warren
//! 2002): the faces of the voxels, with each vertex moved to where the planes that touch the
//! surface at the faces around it meet.

use super::pieces::Plane;
use super::quads::Quads;
use nalgebra::{Matrix3, SymmetricEigen, Vector3};
use rayon::prelude::*;

/// Greatest distance of a vertex from its corner along each axis, in voxels: vertices stay apart.
const REACH: f64 = 0.5 - 1.0 / 1024.0;
/// The same on a crease: the thin edge of a wedge contains no centres of voxels, so its vertices
/// are farther from their corners.
const CREASE_REACH: f64 = 1.5;
/// Length of the mean normal around a vertex below which the vertex lies on a crease: planes at
/// more than about 20 degrees.
const CREASE_BELOW: f64 = 0.985;
/// Share of the largest eigenvalue below which planes do not determine a direction.
const MIN_EIGENVALUE: f64 = 0.002;
/// Share below which a step in a direction is made as a whole or not at all: it is that to the edge
/// of a thin wedge, between whose sides a part of it would end.
const EDGE_EIGENVALUE: f64 = 0.02;
/// Rounds that smooth vertices without planes.
const ROUNDS: usize = 12;
/// Twice the area, in square voxels, below which a triangle is degenerate.
const DEGENERATE: f64 = 1e-6;
/// Rounds that pull the vertices of degenerate triangles to their corners.
const REPAIRS: u32 = 24;

/// Vertices of a smooth surface, in voxels.
pub(super) struct Contour {
    pub positions: Vec<[f64; 3]>,
    pub normals: Vec<[f32; 3]>,
    pub triangles: Vec<[u32; 3]>,
}
/// A vertex while it is placed.
#[derive(Clone, Copy)]
struct Vertex {
    position: [f64; 3],
    kind: Kind,
}
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// No plane is known.
    Unsupported,
    Smooth,
    Crease,
}

/// Places the vertices of faces. `planes` has the plane at each face, with its normal towards the
/// outside. `rounded` is what becomes of a position in the output.
pub(super) fn contour(
    quads: &Quads,
    planes: &[Option<Plane>],
    rounded: impl Fn([f64; 3]) -> [f64; 3] + Sync,
) -> Contour {
    let placed = |vertex| place(quads, planes, vertex);
    let mut vertices =
        (0..quads.corners.len()).into_par_iter().map(placed).collect::<Vec<Vertex>>();
    smooth_unsupported(quads, &mut vertices);
    let mut triangles;
    let mut round = 0;
    loop {
        vertices.par_iter_mut().for_each(|v| v.position = rounded(v.position));
        triangles = triangulate(quads, planes, &vertices);
        let degenerate = triangles.par_iter().filter(|t| doubled(&vertices, t) < DEGENERATE);
        let mut moved = degenerate.flatten_iter().copied().collect::<Vec<u32>>();
        if moved.is_empty() || round == REPAIRS {
            break;
        }
        round += 1;
        moved.sort_unstable();
        moved.dedup();
        for v in moved {
            let corner = quads.corners[v as usize].map(f64::from);
            // Corners make no degenerate triangles.
            let keep = if round == REPAIRS { 0.0 } else { 0.75 };
            let p = &mut vertices[v as usize].position;
            *p = [0, 1, 2].map(|a| corner[a] + keep * (p[a] - corner[a]));
        }
    }
    let normals = normals(quads, planes, &vertices);
    Contour { positions: vertices.into_iter().map(|v| v.position).collect(), normals, triangles }
}

/// Places a vertex by the planes around it.
fn place(quads: &Quads, planes: &[Option<Plane>], vertex: usize) -> Vertex {
    let around = quads.around(vertex);
    let known = || around.iter().filter_map(|&f| planes[f as usize].as_ref());
    let corner = Vector3::from(quads.corners[vertex].map(f64::from));
    let (mut mean, mut normal, mut count) = (Vector3::zeros(), Vector3::zeros(), 0.0);
    for plane in known() {
        mean += Vector3::from(plane.point.map(f64::from));
        normal += Vector3::from(plane.normal.map(f64::from));
        count += 1.0;
    }
    if count == 0.0 {
        let centres = around.iter().map(|&f| quads.faces[f as usize].centre().map(f64::from));
        let sum = centres.map(Vector3::from).sum::<Vector3<f64>>();
        let position = within(REACH, corner, sum / around.len() as f64);
        return Vertex { position, kind: Kind::Unsupported };
    }
    (mean, normal) = (mean / count, normal / count);
    let (mut products, mut pull) = (Matrix3::zeros(), Vector3::zeros());
    for plane in known() {
        let n = Vector3::from(plane.normal.map(f64::from));
        products += n * n.transpose();
        pull += n * n.dot(&(Vector3::from(plane.point.map(f64::from)) - mean));
    }
    let length = normal.norm();
    if length >= CREASE_BELOW {
        let n = normal / length;
        // The points' mean is as far below a curved surface as their planes meet above it.
        let step = 0.5 * n * (n.dot(&pull) / n.dot(&(products * n)));
        return Vertex { position: within(REACH, corner, mean + step), kind: Kind::Smooth };
    }
    // From the direction that the planes determine best to the one that they determine least.
    let eigen = SymmetricEigen::new(products);
    let mut by_value = [0, 1, 2];
    by_value.sort_by(|&i, &j| eigen.eigenvalues[j].total_cmp(&eigen.eigenvalues[i]));
    let greatest = eigen.eigenvalues[by_value[0]];
    let mut position = Vector3::from(within(CREASE_REACH, corner, mean));
    for i in by_value {
        let (value, vector) = (eigen.eigenvalues[i], eigen.eigenvectors.column(i));
        if value > MIN_EIGENVALUE * greatest {
            let step = vector * (vector.dot(&pull) / value);
            let share = share_within_reach(corner, position, step);
            if share == 1.0 || value > EDGE_EIGENVALUE * greatest {
                position += share * step;
            }
        }
    }
    Vertex { position: within(CREASE_REACH, corner, position), kind: Kind::Crease }
}
/// Returns the nearest position within reach of a corner along each axis.
fn within(reach: f64, corner: Vector3<f64>, position: Vector3<f64>) -> [f64; 3] {
    std::array::from_fn(|a| position[a].clamp(corner[a] - reach, corner[a] + reach))
}
/// Returns the share of a step that a vertex on a crease can go, at most 1. Cut along each axis
/// instead, the step would leave the planes.
fn share_within_reach(corner: Vector3<f64>, position: Vector3<f64>, step: Vector3<f64>) -> f64 {
    let along = |a: usize| {
        let room = (CREASE_REACH - (position[a] - corner[a]) * step[a].signum()).max(0.0);
        if step[a].abs() > room { room / step[a].abs() } else { 1.0 }
    };
    along(0).min(along(1)).min(along(2))
}

/// Moves vertices without planes to the mean of their faces' corners, several times: holes are
/// closed by smooth lids.
fn smooth_unsupported(quads: &Quads, vertices: &mut [Vertex]) {
    let is_free = |&v: &usize| vertices[v].kind == Kind::Unsupported;
    let free = (0..vertices.len()).filter(is_free).collect::<Vec<usize>>();
    for _ in 0..ROUNDS {
        let mean = |&v: &usize| {
            let around = quads.around(v);
            let corners = around.iter().flat_map(|&f| quads.vertices[f as usize]);
            let sum = corners.map(|c| Vector3::from(vertices[c as usize].position)).sum();
            let sum: Vector3<f64> = sum;
            let corner = Vector3::from(quads.corners[v].map(f64::from));
            within(REACH, corner, sum / (4 * around.len()) as f64)
        };
        let moved = free.par_iter().map(mean).collect::<Vec<[f64; 3]>>();
        free.iter().zip(moved).for_each(|(&v, to)| vertices[v].position = to);
    }
}

/// Divides each face along the better diagonal: the one along a crease, or the one that keeps both
/// triangles largest as seen along the normal.
fn triangulate(quads: &Quads, planes: &[Option<Plane>], vertices: &[Vertex]) -> Vec<[u32; 3]> {
    let divide = |(i, &[a, b, c, d]): (usize, &[u32; 4])| {
        let face = quads.faces[i];
        let mut up = [0.0; 3];
        up[usize::from(face.axis)] = f64::from(face.step());
        if let Some(plane) = &planes[i] {
            up = [0, 1, 2].map(|axis| up[axis] + 2.0 * f64::from(plane.normal[axis]));
        }
        let up = Vector3::from(up);
        let least = |pair: [[u32; 3]; 2]| {
            pair.iter().map(|t| area(vertices, t).dot(&up)).fold(f64::MAX, f64::min)
        };
        let is_crease = |v: u32| vertices[v as usize].kind == Kind::Crease;
        let (first, second) = ([[a, b, c], [a, c, d]], [[a, b, d], [b, c, d]]);
        let (of_first, of_second) = (least(first), least(second));
        let along_first = is_crease(a) && is_crease(c) && of_first > DEGENERATE;
        let along_second = is_crease(b) && is_crease(d) && of_second > DEGENERATE;
        match (along_first, along_second) {
            (true, false) => first,
            (false, true) => second,
            _ if of_second > of_first => second,
            _ => first,
        }
    };
    quads.vertices.par_iter().enumerate().flat_map_iter(divide).collect()
}
/// Returns the normal of a triangle, of twice its area.
fn area(vertices: &[Vertex], t: &[u32; 3]) -> Vector3<f64> {
    let [a, b, c] = t.map(|v| Vector3::from(vertices[v as usize].position));
    (b - a).cross(&(c - a))
}
fn doubled(vertices: &[Vertex], t: &[u32; 3]) -> f64 {
    area(vertices, t).norm()
}
/// Returns the unit normals of vertices: the mean of the planes around, or of the faces.
fn normals(quads: &Quads, planes: &[Option<Plane>], vertices: &[Vertex]) -> Vec<[f32; 3]> {
    let of_vertex = |v: usize| {
        let around = quads.around(v);
        let known = around.iter().filter_map(|&f| planes[f as usize].as_ref());
        let sum: Vector3<f64> = known.map(|p| Vector3::from(p.normal.map(f64::from))).sum();
        let normal = if sum.norm() > 0.1 {
            sum
        } else {
            let quad = |&f: &u32| {
                let [a, b, c, d] = quads.vertices[f as usize];
                area(vertices, &[a, b, c]) + area(vertices, &[a, c, d])
            };
            let sum: Vector3<f64> = around.iter().map(quad).sum();
            if sum.norm() > 0.0 {
                sum
            } else {
                let face = quads.faces[around[0] as usize];
                let mut step = Vector3::zeros();
                step[usize::from(face.axis)] = f64::from(face.step());
                step
            }
        };
        normal.normalize().map(|c| c as f32).into()
    };
    (0..vertices.len()).into_par_iter().map(of_vertex).collect()
}
