//! A grid that holds both clouds wherever B may go.

use koel_spatial::intersect::Pose;
use koel_spatial::{Bounds, Grid, GridError};

/// A ball around a cloud.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ball {
    /// The middle of the cloud's box.
    pub centre: [f64; 3],
    /// To the farthest point.
    pub radius: f64,
}
impl Ball {
    /// Around all positions, in one pass after that of their box.
    ///
    /// # Errors
    /// No positions, or one that is not finite.
    pub fn around(positions: &[[f32; 3]]) -> Result<Ball, GridError> {
        let bounds = Bounds::of(positions)?;
        let centre = std::array::from_fn(|a| {
            0.5 * (f64::from(bounds.min()[a]) + f64::from(bounds.max()[a]))
        });
        let radius =
            positions.iter().map(|p| length(std::array::from_fn(|a| f64::from(p[a]) - centre[a])));
        Ok(Ball { centre, radius: radius.fold(0.0, f64::max) })
    }
}

/// Where both clouds stand, and the grid around them.
///
/// Only their relative pose matters, so the clouds share the way: when B is moved by a distance,
/// both are moved by a part of it, the smaller cloud by the greater. With A and B of the radii a
/// and b and centres that are at most r = a + b apart, both stay within a cube of side 2 (a + b),
/// and B can be anywhere where the two touch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Placement {
    balls: [Ball; 2],
    reach: f64,
    share_of_a: f64,
    grid: Grid,
}
impl Placement {
    /// For clouds in these balls, and a grid of so many voxels a side.
    ///
    /// # Errors
    /// As of [`Grid::enclosing`].
    pub fn new(balls: [Ball; 2], resolution: u32) -> Result<Placement, GridError> {
        let [a, b] = balls.map(|ball| ball.radius);
        let apart = length(std::array::from_fn(|i| balls[1].centre[i] - balls[0].centre[i]));
        let reach = (a + b).max(apart);
        // Of a distance d of the centres, A takes `share` on one side, B the rest on the other; at
        // d = reach both end at the same distance from the middle: share reach + a = (1 -
        // share) reach + b.
        let share_of_a = if reach > 0.0 { 0.5 + 0.5 * (b - a) / reach } else { 0.5 };
        let half = 0.5 * (reach + a + b) as f32;
        let grid = Grid::enclosing(Bounds::of(&[[-half; 3], [half; 3]])?, resolution)?;
        Ok(Placement { balls, reach, share_of_a, grid })
    }
    /// The grid. Its middle is the origin.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }
    /// Around A, around B.
    pub fn balls(&self) -> &[Ball; 2] {
        &self.balls
    }
    /// How far apart the centres may be.
    pub fn reach(&self) -> f64 {
        self.reach
    }
    /// How far apart the centres are when B is moved by this.
    pub fn distance(&self, moved: [f64; 3]) -> f64 {
        length(self.apart(moved))
    }
    /// From A's centre to B's.
    fn apart(&self, moved: [f64; 3]) -> [f64; 3] {
        std::array::from_fn(|i| self.balls[1].centre[i] - self.balls[0].centre[i] + moved[i])
    }
    /// The poses in the grid, of A and of B, when B is turned around its centre and moved by
    /// `moved` from where its file puts it.
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
        assert!(Ball::around(&[]).is_err() && Ball::around(&[[f32::NAN; 3]]).is_err());
    }

    /// Every pose within reach keeps both balls inside the grid, and moves B against A as asked.
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
            // No larger than it must be: at reach, the balls come to the enclosed cube's sides.
            if reach > 0.0 {
                assert!(
                    (0.875 * p.grid().voxel_size() * 64.0 - (reach + a + b)).abs() < 1e-5 * reach
                );
            }
        }
    }
}
