//! The outside of each part of a surface.

use super::orient::{Parts, Vector, dot, flip};
use std::collections::HashMap;
use std::f64::consts::{PI, TAU};

/// Length of the sum of a part's normals, times area, divided by its area, below which the part is
/// closed.
pub(super) const CLOSED: f64 = 0.1;
/// Points below which a part is not judged by its volume.
const FEW: usize = 100;
/// Number of the largest closed parts that may contain each other.
const MOST_NESTED: usize = 64;
/// Cells along the longest side of a part whose points make one dipole each.
const CELLS: f64 = 12.0;
/// Points of a part whose winding numbers around another one are computed.
const SAMPLES: usize = 33;
/// Winding number from which on a point is inside: far below 1, because holes and noise change it.
const INSIDE: f64 = 0.3;

/// What the orientation of the parts found.
#[derive(Clone, Copy, Default)]
pub(super) struct Sides {
    /// Closed parts that lie in an odd number of other ones.
    pub cavities: usize,
    /// Points of parts whose outside is a convention, because they are not closed.
    pub open_points: usize,
}

/// Orients each part outwards: closed ones by their volume and by the parts that contain them,
/// others by their outermost points. `areas` are those that the points stand for.
pub(super) fn outwards(
    positions: &[Vector],
    areas: &[f64],
    parts: &Parts,
    normals: &mut [Vector],
) -> Sides {
    normals.iter_mut().zip(&parts.flipped).filter(|(_, f)| **f).for_each(|(n, _)| flip(n));
    let mut members = vec![vec![]; parts.count];
    parts.part_of.iter().zip(0u32..).for_each(|(&part, i)| members[part as usize].push(i));
    let mut found: Vec<Part> =
        members.into_iter().map(|members| Part::new(members, positions, areas, normals)).collect();
    for part in found.iter_mut().filter(|part| part.inward) {
        part.turn(normals);
    }
    let cavities = cavities(&found, positions, areas, normals);
    cavities.iter().for_each(|&part| found[part].turn(normals));
    let open_points = found.iter().filter(|part| !part.closed).map(|part| part.members.len()).sum();
    Sides { cavities: cavities.len(), open_points }
}

/// A part, and how its normals stand to it.
struct Part {
    members: Vec<u32>,
    closed: bool,
    inward: bool,
    volume: f64,
    min: Vector,
    max: Vector,
}
impl Part {
    fn new(members: Vec<u32>, positions: &[Vector], areas: &[f64], normals: &[Vector]) -> Part {
        let (mut min, mut max) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
        let (mut area, mut centre, mut sum) = (0.0, [0.0; 3], [0.0; 3]);
        for i in members.iter().map(|&i| i as usize) {
            let (p, n) = (positions[i], normals[i]);
            area += areas[i];
            for a in 0..3 {
                (min[a], max[a]) = (min[a].min(p[a]), max[a].max(p[a]));
                centre[a] += areas[i] * p[a];
                sum[a] += areas[i] * n[a];
            }
        }
        let area = f64::max(area, f64::MIN_POSITIVE);
        let centre = centre.map(|c| c / area);
        let (mut volume, mut size) = (0.0, 0.0);
        for i in members.iter().map(|&i| i as usize) {
            let from: Vector = std::array::from_fn(|a| positions[i][a] - centre[a]);
            volume += areas[i] * dot(from, normals[i]) / 3.0;
            size += areas[i] * dot(from, from).sqrt() / 3.0;
        }
        // Less than this of a ball's volume is a sheet or a tangle.
        let is_solid = volume.abs() > 0.02 * size;
        let closed = members.len() >= FEW && dot(sum, sum).sqrt() < CLOSED * area && is_solid;
        let inward = if closed { volume < 0.0 } else { faces_inward(&members, positions, normals) };
        Part { members, closed, inward, volume: volume.abs(), min, max }
    }
    fn turn(&self, normals: &mut [Vector]) {
        self.members.iter().for_each(|&i| flip(&mut normals[i as usize]));
    }
    fn box_contains(&self, other: &Part) -> bool {
        (0..3).all(|a| self.min[a] <= other.min[a] && other.max[a] <= self.max[a])
    }
}

/// Returns whether the outermost point whose normal is closest to its axis faces inward; see
/// [`Orientation::Outwards`](super::Orientation::Outwards).
fn faces_inward(members: &[u32], positions: &[Vector], normals: &[Vector]) -> bool {
    const DIRECTIONS: [(usize, f64); 6] =
        [(2, 1.0), (1, 1.0), (0, 1.0), (2, -1.0), (1, -1.0), (0, -1.0)];
    /// Cosines that differ by less count as equal: a sheet, which looks the same from both sides,
    /// then gets the same orientation despite noise.
    const EQUAL: f64 = 0.02;
    let (mut inward, mut closest) = (false, -EQUAL);
    for (axis, sign) in DIRECTIONS {
        let height = |i: u32| positions[i as usize][axis] * sign;
        let first_of_highest = |top: u32, &i: &u32| if height(i) > height(top) { i } else { top };
        let Some(&first) = members.first() else { return false };
        let top = members.iter().fold(first, first_of_highest);
        let cosine = normals[top as usize][axis] * sign;
        if cosine.abs() > closest + EQUAL {
            (closest, inward) = (cosine.abs(), cosine < 0.0);
        }
    }
    inward
}

/// Returns the closed parts that an odd number of others contain. All must face outward.
fn cavities(parts: &[Part], positions: &[Vector], areas: &[f64], normals: &[Vector]) -> Vec<usize> {
    let mut closed: Vec<usize> = (0..parts.len()).filter(|&part| parts[part].closed).collect();
    closed.sort_by(|&a, &b| parts[b].volume.total_cmp(&parts[a].volume).then(a.cmp(&b)));
    closed.truncate(MOST_NESTED);
    let mut depth = vec![0; closed.len()];
    for (at, &outer) in closed.iter().enumerate() {
        let inner = (at + 1..closed.len())
            .filter(|&inner| parts[outer].box_contains(&parts[closed[inner]]))
            .collect::<Vec<_>>();
        if inner.is_empty() {
            continue;
        }
        let dipoles = dipoles(&parts[outer], positions, areas, normals);
        for inner in inner {
            let members = &parts[closed[inner]].members;
            let samples = members.iter().step_by(members.len().div_ceil(SAMPLES));
            let is_inside = |&&i: &&u32| winding_number(&dipoles, positions[i as usize]) > INSIDE;
            let (all, inside) = (samples.clone().count(), samples.filter(is_inside).count());
            // A part that crosses another one is no cavity.
            depth[inner] += usize::from(10 * inside >= 9 * all);
        }
    }
    let is_cavity = |&(_, depth): &(usize, usize)| depth % 2 == 1;
    closed.into_iter().zip(depth).filter(is_cavity).map(|(part, _)| part).collect()
}

/// Area times normal, and where.
struct Dipole {
    at: Vector,
    area: f64,
    normal: Vector,
}
fn dipoles(part: &Part, positions: &[Vector], areas: &[f64], normals: &[Vector]) -> Vec<Dipole> {
    let longest = (0..3).map(|a| part.max[a] - part.min[a]).fold(0.0, f64::max);
    let size = (longest / CELLS).max(f64::MIN_POSITIVE);
    let mut number = HashMap::new();
    let mut all: Vec<Dipole> = vec![];
    for i in part.members.iter().map(|&i| i as usize) {
        let (p, n, area) = (positions[i], normals[i], areas[i]);
        let cell: [i32; 3] = std::array::from_fn(|a| ((p[a] - part.min[a]) / size) as i32);
        let at = *number.entry(cell).or_insert_with(|| {
            all.push(Dipole { at: [0.0; 3], area: 0.0, normal: [0.0; 3] });
            all.len() - 1
        });
        all[at].area += area;
        for a in 0..3 {
            all[at].at[a] += area * p[a];
            all[at].normal[a] += area * n[a];
        }
    }
    for dipole in &mut all {
        let area = dipole.area.max(f64::MIN_POSITIVE);
        dipole.at = dipole.at.map(|c| c / area);
    }
    all
}
/// Returns the winding number of a surface around a point.
fn winding_number(dipoles: &[Dipole], p: Vector) -> f64 {
    let of = |dipole: &Dipole| {
        let from: Vector = std::array::from_fn(|a| dipole.at[a] - p[a]);
        // Next to a dipole, that of its area spread out.
        let squared = dot(from, from) + dipole.area / PI;
        dot(from, dipole.normal) / (squared * squared.sqrt())
    };
    dipoles.iter().map(of).sum::<f64>() / (2.0 * TAU)
}
