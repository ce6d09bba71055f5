//! Orientation of normals: signs that agree with each other.

use super::hull::{FEW, Hull};
use super::median;
use super::plane::Fit;
use crate::forest::Forest;
use crate::vector::{Vector, dot, flip};
use rayon::prelude::*;
use std::collections::HashMap;

/// Agreement of two normals from which on they certainly belong to one piece of surface.
const CERTAIN: f64 = 0.9;
/// Variance across a plane, divided by that along it, at which the plane says nothing.
const NOT_FLAT: f64 = 0.3;

/// A surface of which signs are to agree.
pub(super) struct Surface<'a> {
    /// Positions on the fitted planes, without their noise.
    pub positions: Vec<Vector>,
    pub fits: &'a [Fit],
    /// The `k` neighbours of each point.
    pub graph: &'a [u32],
    pub k: usize,
}
impl Surface<'_> {
    /// Returns how well the normals of two points agree, from -1 (opposed) to 1: the cosine between
    /// one normal and the mirror image of the other in the plane half-way between the points. On a
    /// circular arc it is 1 or -1 at any distance; two walls back to back or face to face come out
    /// opposed. Symmetric in the two points.
    fn agreement(&self, from: u32, to: u32) -> f64 {
        let [a, b] = [from, to].map(|i| self.positions[i as usize]);
        let [m, n] = [from, to].map(|i| self.fits[i as usize].normal);
        let step: Vector = std::array::from_fn(|i| b[i] - a[i]);
        let squared = dot(step, step);
        // Coincident points have no plane between them.
        let along = if squared > 0.0 { dot(m, step) * dot(n, step) / squared } else { 0.0 };
        (dot(m, n) - 2.0 * along).clamp(-1.0, 1.0)
    }
    /// Returns the weight of the normal of a point, from 0 to 1: small where the neighbourhood is
    /// no plane.
    fn weight(&self, i: u32) -> f64 {
        (1.0 - self.fits[i as usize].thickness() / NOT_FLAT).max(0.0)
    }
    /// Returns the edges of the graph, each once.
    fn edges(&self) -> Vec<Edge> {
        let k = self.k;
        let of_point = |(from, near): (usize, &[u32])| -> Vec<Edge> {
            let edge = |&to: &u32| {
                // An edge that both points list is kept by the one with the lower index.
                let of_other = (to as usize) < from
                    && self.graph[to as usize * k..][..k].contains(&(from as u32));
                (to as usize != from && !of_other).then(|| {
                    let from = from as u32;
                    let agreement = self.agreement(from, to) as f32;
                    let weight = (self.weight(from) * self.weight(to)) as f32;
                    Edge { agreement, weight, from, to }
                })
            };
            near.iter().filter_map(edge).collect()
        };
        self.graph.par_chunks(k).enumerate().flat_map_iter(of_point).collect()
    }
}

/// Edge between two neighbours.
#[derive(Clone, Copy)]
struct Edge {
    agreement: f32,
    weight: f32,
    from: u32,
    to: u32,
}
impl Edge {
    /// Orders edges by cost, 1 - |agreement| weight, then by the points.
    fn key(&self) -> (u32, u32, u32) {
        let cost = 1.0 - self.agreement.abs() * self.weight;
        // The bits of positive floats sort in their order.
        (cost.max(0.0).to_bits(), self.from, self.to)
    }
    fn is_certain(&self) -> bool {
        f64::from(self.agreement.abs()) >= CERTAIN && self.weight > 0.0
    }
}

/// Components of the graph, whose signs agree within each.
pub(super) struct Parts {
    /// Number of the part of each point.
    pub part_of: Vec<u32>,
    pub count: usize,
    /// Whether to flip the normal of each point.
    pub flipped: Vec<bool>,
}

/// Propagates signs: along a minimum spanning tree of the certain edges of the neighbour graph, and
/// between the patches that result by the votes of all edges between them.
///
/// Where solids touch, their surfaces merge into one plane, along which signs must not propagate: a
/// solid would come out inside out. Patches that are closed but for a small hole are therefore not
/// joined with each other; each has an outside of its own. `areas` are those of the points.
pub(super) fn propagate(surface: &Surface<'_>, areas: &[f64]) -> Parts {
    let points = surface.positions.len();
    let limit = thickness_limit(surface.fits);
    let (mut certain, mut votes): (Vec<Edge>, Vec<Edge>) =
        surface.edges().into_par_iter().partition(|edge| {
            let is_flat = |i: u32| surface.fits[i as usize].thickness() <= limit;
            edge.is_certain() && is_flat(edge.from) && is_flat(edge.to)
        });
    certain.par_sort_unstable_by_key(Edge::key);
    let mut patches = Patches { forest: Forest::new(points), closed: vec![false; points] };
    for edge in &certain {
        patches.forest.join(edge.from, edge.to, edge.agreement < 0.0);
    }
    let mut before = usize::MAX;
    while votes.len() < before {
        before = votes.len();
        votes = patches.join_by_votes(votes, |size, _| size < SMALL);
    }
    // A closed patch that another one has joined may be open after all, and then joins others if
    // it is small or the votes agree.
    for (border, most) in [(BORDER, u32::MAX), (f64::INFINITY, points as u32 / PARTS_OF_PATCH)] {
        patches.find_closed(surface, areas, &votes, border);
        let mut left = votes.clone();
        let mut before = usize::MAX;
        while left.len() < before {
            before = left.len();
            left = patches.join_by_votes(left, |size, unity| size < most || unity > UNITED);
        }
    }
    patches.parts()
}

/// Points at the border of a closed patch, divided by the root of all its points, at most.
const BORDER: f64 = 2.0;
/// Share of all points below which a patch is small.
const PARTS_OF_PATCH: u32 = 50;
/// Sum of the votes between two patches, divided by that of their sizes, above which they agree.
const UNITED: f64 = 0.8;
/// Points below which a patch joins another one before closed ones are looked for.
const SMALL: u32 = FEW as u32;

/// Returns the variance across a plane, divided by that along it, from which on a neighbourhood is
/// less flat than noise and bends make most of them: where surfaces meet.
fn thickness_limit(fits: &[Fit]) -> f64 {
    const LEAST: f64 = 0.03;
    const MEDIANS: f64 = 1.5;
    (MEDIANS * median(fits.iter().map(Fit::thickness))).max(LEAST)
}

/// Pieces of a surface whose signs agree within each.
struct Patches {
    forest: Forest,
    /// By root: whether the patch is closed but for a small hole.
    closed: Vec<bool>,
}
impl Patches {
    /// Joins each patch of a size that `joins` with the neighbour to which the sum of the votes of
    /// all edges is greatest, unless both are closed. Returns the edges that still lie between
    /// patches that may join.
    fn join_by_votes(&mut self, edges: Vec<Edge>, joins: impl Fn(u32, f64) -> bool) -> Vec<Edge> {
        /// Weight of an edge whose planes say nothing: it decides only where there are no others.
        const LEAST: f32 = 1e-3;
        let mut votes: Vec<(u32, u32, f64)> = vec![];
        let mut left = vec![];
        for edge in edges {
            let ((a, of_a), (b, of_b)) = (self.forest.find(edge.from), self.forest.find(edge.to));
            if a == b || self.closed[a as usize] && self.closed[b as usize] {
                continue;
            }
            let sign = if of_a != of_b { -1.0 } else { 1.0 };
            let vote = sign * f64::from(edge.agreement * edge.weight.max(LEAST));
            votes.extend([(a, b, vote), (b, a, vote)]);
            left.push(edge);
        }
        // Stable: the votes of a pair are summed in the order of the edges.
        votes.par_sort_by_key(|&(a, b, _)| (a, b));
        let mut best: Vec<(u32, u32, f64)> = vec![];
        for of_pair in votes.chunk_by(|x, y| (x.0, x.1) == (y.0, y.1)) {
            let sum = of_pair.iter().map(|v| v.2).sum::<f64>();
            let (a, b, _) = of_pair[0];
            let cast = of_pair.iter().map(|v| v.2.abs()).sum::<f64>();
            if !joins(self.forest.size(a), sum.abs() / cast) {
                continue;
            }
            match best.last_mut() {
                Some(last) if last.0 == a && last.2.abs() >= sum.abs() => {}
                Some(last) if last.0 == a => *last = (a, b, sum),
                _ => best.push((a, b, sum)),
            }
        }
        best.sort_by(|x, y| y.2.abs().total_cmp(&x.2.abs()).then((x.0, x.1).cmp(&(y.0, y.1))));
        for (a, b, vote) in best {
            self.join(a, b, vote < 0.0);
        }
        left
    }
    /// Joins the patches of two points, unless both are closed. `a` and `b` were roots, relative to
    /// which they are opposed or not.
    fn join(&mut self, a: u32, b: u32, opposed: bool) {
        let [of_a, of_b] = [a, b].map(|i| self.closed[self.forest.find(i).0 as usize]);
        if !(of_a && of_b) {
            self.forest.join(a, b, opposed);
            let root = self.forest.find(a).0;
            self.closed[root as usize] = of_a || of_b;
        }
    }
    /// Finds the patches that are closed but for holes with at most `most_border` points around
    /// them, in roots of all points: with 2, a circumference about as long as the root of the area.
    /// `between` are the edges between patches.
    fn find_closed(
        &mut self,
        surface: &Surface<'_>,
        areas: &[f64],
        between: &[Edge],
        most_border: f64,
    ) {
        let points = areas.len();
        let mut at_border = vec![false; points];
        for edge in between {
            if self.forest.find(edge.from).0 != self.forest.find(edge.to).0 {
                at_border[edge.from as usize] = true;
                at_border[edge.to as usize] = true;
            }
        }
        let mut hulls = HashMap::<u32, (Hull, f64)>::new();
        for i in 0..points {
            let (root, opposed) = self.forest.find(i as u32);
            let (hull, border) = hulls.entry(root).or_default();
            let mut normal = surface.fits[i].normal;
            if opposed {
                flip(&mut normal);
            }
            hull.add(surface.positions[i], areas[i], normal);
            *border += f64::from(u8::from(at_border[i]));
        }
        for (root, (hull, border)) in hulls {
            let has_small_holes = border < most_border * f64::from(self.forest.size(root)).sqrt();
            self.closed[root as usize] = hull.is_closed() && has_small_holes;
        }
    }
    fn parts(mut self) -> Parts {
        let points = self.closed.len() as u32;
        let found: Vec<(u32, bool)> = (0..points).map(|i| self.forest.find(i)).collect();
        let mut number = vec![u32::MAX; points as usize];
        let mut count = 0;
        for (i, _) in found.iter().enumerate().filter(|&(i, of)| of.0 == i as u32) {
            number[i] = count;
            count += 1;
        }
        let part_of = found.iter().map(|of| number[of.0 as usize]).collect();
        let flipped = found.iter().map(|of| of.1).collect();
        Parts { part_of, count: count as usize, flipped }
    }
}

/// Flips each normal that does not face `viewpoint`. Returns the number of those that hardly face
/// it from either side.
pub(super) fn towards(
    positions: &[[f32; 3]],
    viewpoint: [f32; 3],
    normals: &mut [Vector],
) -> usize {
    /// Sine of the angle between a plane and the line of sight.
    const GRAZING: f64 = 0.05;
    let mut grazing = 0;
    for (p, normal) in positions.iter().zip(normals) {
        let sight = std::array::from_fn(|a| f64::from(viewpoint[a]) - f64::from(p[a]));
        let towards = dot(*normal, sight);
        grazing += usize::from(towards.abs() < GRAZING * dot(sight, sight).sqrt());
        if towards < 0.0 {
            flip(normal);
        }
    }
    grazing
}
