//! Whether a piece of surface is closed.

use crate::vector::{Vector, dot};
use std::f64::consts::PI;

/// Points below which a piece is never closed.
pub(super) const FEW: usize = 100;
/// Length of the sum of a piece's normals, times area, divided by its area, below which it is
/// closed.
const CLOSED: f64 = 0.1;
/// Volume of a closed piece, divided by that of a ball of its area, at least: less is a sheet or a
/// tangle. A square plate has 0.1 if its thickness is about 0.03 of its length.
const SOLID: f64 = 0.1;

/// Sums over a piece of surface, each point times its area.
#[derive(Clone, Copy, Default)]
pub(super) struct Hull {
    points: usize,
    area: f64,
    sum: Vector,
    centre: Vector,
    /// Of positions times normals.
    cone: f64,
}
impl Hull {
    pub(super) fn add(&mut self, position: Vector, area: f64, normal: Vector) {
        self.points += 1;
        self.area += area;
        self.cone += area * dot(position, normal);
        for a in 0..3 {
            self.sum[a] += area * normal[a];
            self.centre[a] += area * position[a];
        }
    }
    /// Returns the sum of the normals, each times its area.
    pub(super) fn sum(&self) -> Vector {
        self.sum
    }
    /// Returns the volume that the piece encloses if it is closed: negative if normals point
    /// inward.
    pub(super) fn volume(&self) -> f64 {
        let centre = self.centre.map(|c| c / self.area.max(f64::MIN_POSITIVE));
        (self.cone - dot(centre, self.sum)) / 3.0
    }
    /// Returns whether the piece has enough points, and its normals sum to nearly nothing and bound
    /// a volume that is not negligible for such an area.
    pub(super) fn is_closed(&self) -> bool {
        let of_ball = self.area.powf(1.5) / (6.0 * PI.sqrt());
        self.points >= FEW
            && dot(self.sum, self.sum).sqrt() < CLOSED * self.area
            && self.volume().abs() > SOLID * of_ball
    }
}
