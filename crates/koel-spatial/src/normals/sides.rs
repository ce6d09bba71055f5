//! The outside of each part of a surface.

use super::field::Field;
use super::hull::Hull;
use super::orient::Parts;
use crate::vector::{Vector, dot, flip};
use rayon::prelude::*;

/// Number of the largest closed parts that may contain each other.
const MOST_NESTED: usize = 64;
/// Points of a part whose winding numbers around another one are computed.
const SAMPLES: usize = 33;
/// Winding number from which on a point is inside: far below 1, because holes and noise change it.
const INSIDE: f64 = 0.3;
/// Points of an open part whose winding numbers around it are computed.
const VIEWS: usize = 2048;
/// Mean winding number of an open part around its own points from which on its sides differ: 0 for
/// a sheet, a half for a closed surface.
const SEEN: f64 = 0.05;
/// Cosine between a normal and the direction that open parts are seen from below which the part
/// decides the sign, not the normal: about 80 degrees.
const STEEP: f64 = 0.17;

/// What the orientation of the parts found.
#[derive(Clone, Default)]
pub(super) struct Sides {
    /// Closed parts that lie in an odd number of other ones.
    pub cavities: usize,
    /// Points of parts that are not closed.
    pub open_points: usize,
    /// Of these, points whose outside is a convention.
    pub undecided_points: usize,
    /// Whether each part is closed.
    pub closed: Vec<bool>,
}

/// Orients each part outwards: closed ones by their volume and by the parts that contain them,
/// others `towards` a direction or to the side that is seen from more directions. `areas` are those
/// that the points stand for.
pub(super) fn outwards(
    positions: &[Vector],
    areas: &[f64],
    parts: &Parts,
    towards: Option<Vector>,
    normals: &mut [Vector],
) -> Sides {
    normals.iter_mut().zip(&parts.flipped).filter(|(_, f)| **f).for_each(|(n, _)| flip(n));
    let mut members = vec![vec![]; parts.count];
    parts.part_of.iter().zip(0u32..).for_each(|(&part, i)| members[part as usize].push(i));
    let found: Vec<Part> =
        members.into_iter().map(|members| Part::new(members, positions, areas, normals)).collect();
    let mut sides = Sides::default();
    for part in &found {
        sides.closed.push(part.closed);
        if part.closed {
            if part.hull.volume() < 0.0 {
                part.turn(normals);
            }
            continue;
        }
        sides.open_points += part.members.len();
        match towards {
            Some(direction) => part.face(direction, normals),
            None if part.turn_to_seen_side(positions, areas, normals) => {}
            None => sides.undecided_points += part.members.len(),
        }
    }
    let cavities = cavities(&found, positions, areas, normals);
    cavities.iter().for_each(|&part| found[part].turn(normals));
    sides.cavities = cavities.len();
    sides
}

/// A part, and its sums before it is oriented.
struct Part {
    members: Vec<u32>,
    hull: Hull,
    closed: bool,
    min: Vector,
    max: Vector,
}
impl Part {
    fn new(members: Vec<u32>, positions: &[Vector], areas: &[f64], normals: &[Vector]) -> Part {
        let (mut min, mut max) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
        let mut hull = Hull::default();
        for i in members.iter().map(|&i| i as usize) {
            hull.add(positions[i], areas[i], normals[i]);
            for (a, c) in positions[i].into_iter().enumerate() {
                (min[a], max[a]) = (min[a].min(c), max[a].max(c));
            }
        }
        Part { members, closed: hull.is_closed(), hull, min, max }
    }
    fn turn(&self, normals: &mut [Vector]) {
        self.members.iter().for_each(|&i| flip(&mut normals[i as usize]));
    }
    fn box_contains(&self, other: &Part) -> bool {
        (0..3).all(|a| self.min[a] <= other.min[a] && other.max[a] <= self.max[a])
    }
    fn field(&self, positions: &[Vector], areas: &[f64], normals: &[Vector]) -> Field {
        let at = self.members.iter().map(|&i| i as usize);
        Field::new(at.map(|i| (positions[i], areas[i], normals[i])))
    }
    /// Turns every normal towards a direction. Those that are nearly perpendicular to it, as on
    /// walls seen from above, keep their sign relative to the part, most of which faces it.
    fn face(&self, direction: Vector, normals: &mut [Vector]) {
        if dot(self.hull.sum(), direction) < 0.0 {
            self.turn(normals);
        }
        for &i in &self.members {
            let normal = &mut normals[i as usize];
            if dot(*normal, direction) < -STEEP {
                flip(normal);
            }
        }
    }
    /// Turns the normals to the side of the part that is seen from more directions. The winding
    /// number of the part around a point of it is the share of directions in which the part hides
    /// the view on the back, less that on the front. Returns whether the sides differ; if not, the
    /// normals point along +z in mean, or along +y or +x if they hardly do so.
    fn turn_to_seen_side(
        &self,
        positions: &[Vector],
        areas: &[f64],
        normals: &mut [Vector],
    ) -> bool {
        let field = self.field(positions, areas, normals);
        let samples: Vec<usize> = (self.members.iter().map(|&i| i as usize))
            .step_by(self.members.len().div_ceil(VIEWS))
            .collect();
        let of = |&i: &usize| areas[i] * field.winding(positions[i], areas[i].sqrt());
        let windings: Vec<f64> = samples.par_iter().map(of).collect();
        let area: f64 = samples.iter().map(|&i| areas[i]).sum();
        let mean = windings.iter().sum::<f64>() / area.max(f64::MIN_POSITIVE);
        let differ = mean.abs() > SEEN;
        if if differ { mean < 0.0 } else { points_down(self.hull.sum()) } {
            self.turn(normals);
        }
        differ
    }
}

/// Returns whether the first of z, y and x that is not much smaller than the others is negative.
fn points_down(sum: Vector) -> bool {
    /// Share of the length.
    const SMALL: f64 = 0.02;
    let length = dot(sum, sum).sqrt();
    [2, 1, 0]
        .into_iter()
        .map(|a| sum[a])
        .find(|c| c.abs() > SMALL * length)
        .is_some_and(|c| c < 0.0)
}

/// Returns the closed parts that an odd number of others contain. All must face outward.
fn cavities(parts: &[Part], positions: &[Vector], areas: &[f64], normals: &[Vector]) -> Vec<usize> {
    let mut closed: Vec<usize> = (0..parts.len()).filter(|&part| parts[part].closed).collect();
    let size = |part: usize| parts[part].hull.volume().abs();
    closed.sort_by(|&a, &b| size(b).total_cmp(&size(a)).then(a.cmp(&b)));
    closed.truncate(MOST_NESTED);
    let mut depth = vec![0; closed.len()];
    for (at, &outer) in closed.iter().enumerate() {
        let inner = (at + 1..closed.len())
            .filter(|&inner| parts[outer].box_contains(&parts[closed[inner]]))
            .collect::<Vec<_>>();
        if inner.is_empty() {
            continue;
        }
        let field = parts[outer].field(positions, areas, normals);
        for inner in inner {
            let members = &parts[closed[inner]].members;
            let samples = members.iter().map(|&i| i as usize);
            let samples = samples.step_by(members.len().div_ceil(SAMPLES));
            let is_inside = |&i: &usize| field.winding(positions[i], areas[i].sqrt()) > INSIDE;
            let (all, inside) = (samples.clone().count(), samples.filter(is_inside).count());
            // A part that crosses another one is no cavity.
            depth[inner] += usize::from(10 * inside >= 9 * all);
        }
    }
    let is_cavity = |&(_, depth): &(usize, usize)| depth % 2 == 1;
    closed.into_iter().zip(depth).filter(is_cavity).map(|(part, _)| part).collect()
}
