//! Grid that holds both clouds wherever B moves.

use koel_spatial::intersect::Pose;
use koel_spatial::{Bounds, BoundsError, Grid, GridError};

/// A bounding ball of a cloud.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ball {
    /// Centre of the cloud's bounding box.
    pub centre: [f64; 3],
    /// Distance to the farthest point.
    pub radius: f64,
}
impl Ball {
    /// Computes a ball around all positions, in one pass after that for their bounding box.
    ///
    /// # Errors
    /// There are no positions, or one is not finite.
    pub fn around(positions: &[[f32; 3]]) -> Result<Ball, BoundsError> {
        Ok(Self::within(Bounds::of(positions)?, positions))
    }
    /// Computes a ball around those positions that lie in a box, in one pass: with the box of
    /// [`Bounds::without_outliers`], points far from all others do not decide the grid.
    pub fn within(bounds: Bounds, positions: &[[f32; 3]]) -> Ball {
        let (min, max) = (bounds.min(), bounds.max());
        let centre = std::array::from_fn(|a| 0.5 * (f64::from(min[a]) + f64::from(max[a])));
        let inside = positions.iter().filter(|position| bounds.contains(**position));
        let radii = inside.map(|p| length(std::array::from_fn(|a| f64::from(p[a]) - centre[a])));
        Ball { centre, radius: radii.fold(0.0, f64::max) }
    }
    /// Returns a ball around this one and all positions: it is moved and grown to each position
    /// outside it in turn (J. Ritter 1990), in one pass. Positions that are not finite are ignored.
    pub fn with<'a>(mut self, positions: impl IntoIterator<Item = &'a [f32; 3]>) -> Ball {
        for position in positions {
            let p = position.map(f64::from);
            let to: [f64; 3] = std::array::from_fn(|a| p[a] - self.centre[a]);
            let distance = length(to);
            if distance > self.radius && distance.is_finite() {
                let by = 0.5 * (distance - self.radius);
                self.centre = std::array::from_fn(|a| self.centre[a] + by * to[a] / distance);
                self.radius += by;
            }
        }
        self
    }
}

/// Placement of both clouds, and the grid around them.
///
/// Only the relative pose matters, so the clouds share the motion: when B moves by a distance, both
/// move by a part of it, the smaller cloud by the larger part. If A and B have radii a and b and
/// centres at most r = a + b apart, both stay within a cube of side 2 (a + b), and B can reach
/// every position where the two touch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Placement {
    balls: [Ball; 2],
    reach: f64,
    share_of_a: f64,
    grid: Grid,
}
impl Placement {
    /// Places clouds in these balls on a grid with `resolution` voxels per side.
    ///
    /// # Errors
    /// Those of [`Grid::enclosing`].
    pub fn new(balls: [Ball; 2], resolution: u32) -> Result<Placement, GridError> {
        let [a, b] = balls.map(|ball| ball.radius);
        let apart = length(std::array::from_fn(|i| balls[1].centre[i] - balls[0].centre[i]));
        let reach = (a + b).max(apart);
        // Of a distance d between the centres, A moves by `share` to one side and B by the rest to
        // the other. At d = reach both end equally far from the middle: share reach + a = (1 -
        // share) reach + b.
        let share_of_a = if reach > 0.0 { 0.5 + 0.5 * (b - a) / reach } else { 0.5 };
        let half = 0.5 * (reach + a + b) as f32;
        let grid = Grid::enclosing(Bounds::of(&[[-half; 3], [half; 3]])?, resolution)?;
        Ok(Placement { balls, reach, share_of_a, grid })
    }
    /// Returns the grid. Its centre is the origin.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }
    /// Returns the balls around A and B.
    pub fn balls(&self) -> &[Ball; 2] {
        &self.balls
    }
    /// Returns the maximum distance between the centres.
    pub fn reach(&self) -> f64 {
        self.reach
    }
    /// Returns the distance between the centres when B is moved by `moved`.
    pub fn distance(&self, moved: [f64; 3]) -> f64 {
        length(self.apart(moved))
    }
    /// Returns the vector from A's centre to B's.
    fn apart(&self, moved: [f64; 3]) -> [f64; 3] {
        std::array::from_fn(|i| self.balls[1].centre[i] - self.balls[0].centre[i] + moved[i])
    }
    /// Returns the poses of A and B in the grid when B is rotated around its centre and moved by
    /// `moved` from its position in the file.
    pub fn poses(&self, rotation: [[f64; 3]; 3], moved: [f64; 3]) -> [Pose; 2] {
        let [a, b] = self.balls.map(|ball| ball.centre);
        let apart = self.apart(moved);
        let (of_a, of_b) = (self.share_of_a, 1.0 - self.share_of_a);
        [
            Pose {
                translation: std::array::from_fn(|i| -a[i] - of_a * apart[i]),
                ..Pose::IDENTITY
            },
            Pose::around(rotation, b, std::array::from_fn(|i| of_b * apart[i] - b[i])),
        ]
    }
}

fn length(v: [f64; 3]) -> f64 {
    v.iter().map(|c| c * c).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURNED: [[f64; 3]; 3] = [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]];

    #[test]
    fn a_ball_holds_its_points_and_no_less() {
        let ball = Ball::around(&[[-1.0, 0.0, 0.0], [3.0, 0.0, 0.0], [1.0, 1.0, 0.5]]).unwrap();
        assert_eq!(
            ball,
            Ball { centre: [1.0, 0.5, 0.25], radius: (4.0f64 + 0.25 + 0.0625).sqrt() }
        );
        let mut sphere = [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]].repeat(1000);
        sphere.push([1000.0, 0.0, 0.0]);
        let (bounds, outliers) = Bounds::without_outliers(&sphere).unwrap();
        assert_eq!(outliers, 1);
        assert_eq!(Ball::within(bounds, &sphere), Ball { centre: [0.0; 3], radius: 1.0 });
        assert!(Ball::around(&[]).is_err() && Ball::around(&[[f32::NAN; 3]]).is_err());
    }

    #[test]
    fn a_ball_grows_around_what_is_outside_and_keeps_what_it_holds() {
        let first = [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]];
        let ball = Ball::around(&first).unwrap();
        assert_eq!(ball.with(&[[0.5, 0.5, 0.0], [f32::NAN; 3]]), ball);
        let more = [[3.0, 0.0, 0.0], [0.0, 4.0, 1.0], [0.0, 0.0, -2.5]];
        let grown = ball.with(&more);
        for p in first.iter().chain(&more) {
            let from = std::array::from_fn(|a| f64::from(p[a]) - grown.centre[a]);
            assert!(length(from) <= grown.radius + 1e-12, "{p:?}");
        }
        assert_eq!(ball.with(&more[..1]), Ball { centre: [1.0, 0.0, 0.0], radius: 2.0 });
    }

    /// Every pose within reach keeps both balls inside the grid and moves B relative to A as
    /// requested.
    #[test]
    fn the_grid_holds_every_pose() {
        for (a, b, apart) in
            [(1.0, 1.0, 0.5), (1.0, 10.0, 0.0), (10.0, 1.0, 40.0), (1.0, 0.0, 0.0), (0.0, 0.0, 0.0)]
        {
            let balls = [
                Ball { centre: [100.0, -7.0, 3.0], radius: a },
                Ball { centre: [100.0 + apart, -7.0, 3.0], radius: b },
            ];
            let p = Placement::new(balls, 64).unwrap();
            let reach = p.reach();
            for direction in [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.6, -0.8]]
            {
                let moved: [f64; 3] = std::array::from_fn(|i| {
                    reach * direction[i] - (balls[1].centre[i] - balls[0].centre[i])
                });
                assert!((p.distance(moved) - reach).abs() < 1e-9);
                let poses = p.poses(TURNED, moved);
                let centres = [0, 1].map(|i| poses[i].apply(balls[i].centre));
                for i in 0..2 {
                    for axis in 0..3 {
                        for sign in [-1.0, 1.0] {
                            let mut end = centres[i];
                            end[axis] += sign * balls[i].radius;
                            assert!(
                                p.grid().voxel_of(end).is_some(),
                                "{a} {b} {apart} {direction:?}: {end:?}"
                            );
                        }
                    }
                }
                (0..3).for_each(|i| {
                    assert!((centres[1][i] - centres[0][i] - reach * direction[i]).abs() < 1e-9)
                });
                let beside = poses[1].apply([
                    balls[1].centre[0] + 1.0,
                    balls[1].centre[1],
                    balls[1].centre[2],
                ]);
                (0..3).for_each(|i| {
                    assert!((beside[i] - centres[1][i] - [0.0, 1.0, 0.0][i]).abs() < 1e-9)
                });
            }
            // No larger than necessary: at reach, the balls touch the sides of the enclosed cube.
            if reach > 0.0 {
                assert!(
                    (0.875 * p.grid().voxel_size() * 64.0 - (reach + a + b)).abs() < 1e-5 * reach
                );
            }
        }
    }
}
