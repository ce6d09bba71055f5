//! Winding numbers of many points around a surface.

use crate::vector::{Vector, dot};
use std::f64::consts::PI;
use std::ops::Range;

/// Points of a leaf.
const LEAF: usize = 8;
/// Squared radius of a node, divided by its squared distance, below which it counts as one dipole.
const FAR: f64 = 0.25;

/// Area times normal, and where.
struct Dipole {
    at: Vector,
    area: f64,
    moment: Vector,
}

/// Node of the tree. Its first child follows it.
struct Node {
    sum: Dipole,
    squared_radius: f64,
    points: Range<usize>,
    /// Node that follows the last descendant.
    next: usize,
}

/// Dipoles of the points of a surface in a tree (Barnes and Hut 1986).
pub(super) struct Field {
    dipoles: Vec<Dipole>,
    nodes: Vec<Node>,
}
impl Field {
    /// Builds the field of points with areas and unit normals. Points that follow each other should
    /// be close to each other: nodes are halves of the sequence. Points without area do not count.
    pub(super) fn new(points: impl Iterator<Item = (Vector, f64, Vector)>) -> Field {
        let dipoles: Vec<Dipole> = points
            .filter(|&(_, area, _)| area > 0.0)
            .map(|(at, area, normal)| Dipole { at, area, moment: normal.map(|c| area * c) })
            .collect();
        let all = 0..dipoles.len();
        let mut field = Field { dipoles, nodes: vec![] };
        if !all.is_empty() {
            field.add(all);
        }
        field
    }
    fn add(&mut self, points: Range<usize>) {
        let mut sum = Dipole { at: [0.0; 3], area: 0.0, moment: [0.0; 3] };
        for dipole in &self.dipoles[points.clone()] {
            sum.area += dipole.area;
            for a in 0..3 {
                sum.at[a] += dipole.area * dipole.at[a];
                sum.moment[a] += dipole.moment[a];
            }
        }
        sum.at = sum.at.map(|c| c / sum.area);
        let squared = |dipole: &Dipole| {
            let from: Vector = std::array::from_fn(|a| dipole.at[a] - sum.at[a]);
            dot(from, from)
        };
        let squared_radius = self.dipoles[points.clone()].iter().map(squared).fold(0.0, f64::max);
        let id = self.nodes.len();
        self.nodes.push(Node { sum, squared_radius, points: points.clone(), next: 0 });
        if points.len() > LEAF {
            let middle = points.start + points.len() / 2;
            self.add(points.start..middle);
            self.add(middle..points.end);
        }
        self.nodes[id].next = self.nodes.len();
    }
    /// Returns the winding number of the surface around a point: the solid angle of all dipoles,
    /// seen from there, divided by 4 pi. Those within about `width` are blurred, so that the result
    /// on the surface is half-way between its two sides. Logarithmic in the number of points.
    pub(super) fn winding(&self, p: Vector, width: f64) -> f64 {
        /// Keeps the cube of a distance from vanishing.
        const LEAST: f64 = 1e-200;
        let blur = (width * width).max(LEAST);
        let mut sum = 0.0;
        let mut add = |dipole: &Dipole| {
            let from: Vector = std::array::from_fn(|a| dipole.at[a] - p[a]);
            let squared = dot(from, from) + blur;
            sum += dot(from, dipole.moment) / (squared * squared.sqrt());
        };
        let mut id = 0;
        while let Some(node) = self.nodes.get(id) {
            let from: Vector = std::array::from_fn(|a| node.sum.at[a] - p[a]);
            if node.squared_radius < FAR * dot(from, from) {
                add(&node.sum);
                id = node.next;
                continue;
            }
            if node.points.len() <= LEAF {
                self.dipoles[node.points.clone()].iter().for_each(&mut add);
            }
            id += 1;
        }
        sum / (4.0 * PI)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points of a sphere around the origin, from pole to pole.
    fn sphere(points: usize) -> Vec<(Vector, f64, Vector)> {
        let area = 4.0 * PI / points as f64;
        (0..points)
            .map(|i| {
                let (z, turn) =
                    ((2 * i + 1) as f64 / points as f64 - 1.0, 2.399_963_229 * i as f64);
                let r = (1.0 - z * z).sqrt();
                let p = [r * turn.cos(), r * turn.sin(), z];
                (p, area, p)
            })
            .collect()
    }

    #[test]
    fn winding_numbers_tell_inside_surface_and_outside() {
        let field = Field::new(sphere(5000).into_iter());
        for (at, expected) in [(0.0, 1.0), (0.8, 1.0), (1.0, 0.5), (1.2, 0.0), (5.0, 0.0)] {
            let direction = [0.48, 0.6, 0.64];
            let found = field.winding(direction.map(|c: f64| at * c), 0.05);
            assert!((found - expected).abs() < 0.06, "{at}: {found}");
        }
    }
    /// Far nodes count as one dipole each, which must not change the sum by much.
    #[test]
    fn trees_agree_with_the_sum_over_all_points() {
        let points = sphere(3000);
        let field = Field::new(points.iter().copied());
        for i in 0..50 {
            let p = [0.03 * f64::from(i), 0.4, -0.2];
            let of = |&(at, area, n): &(Vector, f64, Vector)| {
                let from: Vector = std::array::from_fn(|a| at[a] - p[a]);
                let squared = dot(from, from) + 0.01;
                area * dot(from, n) / (squared * squared.sqrt())
            };
            let expected = points.iter().map(of).sum::<f64>() / (4.0 * PI);
            assert!((field.winding(p, 0.1) - expected).abs() < 0.01, "{p:?}");
        }
    }
    #[test]
    fn points_without_area_do_not_count() {
        let at = [1.0, 2.0, 3.0];
        let none = Field::new([(at, 0.0, [0.0, 0.0, 1.0])].into_iter());
        assert_eq!(none.winding(at, 0.0), 0.0);
        let one = Field::new([(at, 1.0, [0.0, 0.0, 1.0]); 20].into_iter());
        assert_eq!(one.winding(at, 0.0), 0.0);
    }
}
