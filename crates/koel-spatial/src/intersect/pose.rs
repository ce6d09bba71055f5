//! Pose of a cloud.

use super::{IntersectError, Side};
use koel_spatial_kernels::intersect::clouds::Motion;

/// Rigid motion: a rotation, then a translation in the units of the points.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pose {
    /// Rows of the rotation matrix.
    pub rotation: [[f64; 3]; 3],
    /// Translation, applied after the rotation.
    pub translation: [f64; 3],
}
impl Default for Pose {
    fn default() -> Self {
        Pose::IDENTITY
    }
}
impl Pose {
    /// Pose that leaves the points in place.
    pub const IDENTITY: Pose = Pose {
        rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        translation: [0.0; 3],
    };

    /// Rotates by `angle` radians around an axis through `centre` (O. Rodrigues 1840), then
    /// translates by `moved`. An axis of length 0 rotates nothing.
    pub fn turned(axis: [f64; 3], angle: f64, centre: [f64; 3], moved: [f64; 3]) -> Pose {
        let length = axis.iter().map(|a| a * a).sum::<f64>().sqrt();
        if length == 0.0 {
            return Pose { translation: moved, ..Pose::IDENTITY };
        }
        let u = axis.map(|a| a / length);
        let (sin, cos) = angle.sin_cos();
        let cross = [[0.0, -u[2], u[1]], [u[2], 0.0, -u[0]], [-u[1], u[0], 0.0]];
        let rotation: [[f64; 3]; 3] = std::array::from_fn(|r| {
            std::array::from_fn(|c| {
                f64::from(u8::from(r == c)) * cos + sin * cross[r][c] + (1.0 - cos) * u[r] * u[c]
            })
        });
        Pose::around(rotation, centre, moved)
    }
    /// Rotates around `centre`, then translates by `moved`.
    pub fn around(rotation: [[f64; 3]; 3], centre: [f64; 3], moved: [f64; 3]) -> Pose {
        let back = Pose { rotation, translation: [0.0; 3] }.apply(centre);
        Pose { rotation, translation: std::array::from_fn(|a| centre[a] - back[a] + moved[a]) }
    }
    /// Transforms a point.
    pub fn apply(&self, p: [f64; 3]) -> [f64; 3] {
        let turned = self.turn(p);
        std::array::from_fn(|r| turned[r] + self.translation[r])
    }
    /// Rotates a direction.
    pub fn turn(&self, v: [f64; 3]) -> [f64; 3] {
        let r = &self.rotation;
        std::array::from_fn(|a| r[a][0] * v[0] + r[a][1] * v[1] + r[a][2] * v[2])
    }

    /// Converts to the argument for kernels, after checking that the motion is rigid.
    pub(super) fn motion(&self, cloud: Side) -> Result<Motion, IntersectError> {
        for row in 0..3 {
            for other in row..3 {
                let product: f64 =
                    (0..3).map(|c| self.rotation[row][c] * self.rotation[other][c]).sum();
                let expected = f64::from(u8::from(row == other));
                let off = (product - expected).abs();
                if off.is_nan() || off >= 1e-3 || !self.translation[row].is_finite() {
                    return Err(IntersectError::NotRigid { cloud, row, other, product, expected });
                }
            }
        }
        Ok(Motion {
            rotation: std::array::from_fn(|i| self.rotation[i / 3][i % 3]),
            translation: self.translation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_keeps_its_centre_and_is_rigid() {
        let pose = Pose::turned([1.0, 2.0, -0.5], 2.0, [3.0, 4.0, 5.0], [0.5, 0.0, 0.0]);
        let moved = pose.apply([3.0, 4.0, 5.0]);
        (0..3).for_each(|a| assert!((moved[a] - [3.5, 4.0, 5.0][a]).abs() < 1e-12));
        assert!(pose.motion(Side::A).is_ok());
        let quarter =
            Pose::turned([0.0, 0.0, 2.0], std::f64::consts::FRAC_PI_2, [0.0; 3], [0.0; 3]);
        let x = quarter.apply([1.0, 0.0, 0.0]);
        assert!((x[0]).abs() < 1e-12 && (x[1] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_rigid_is_refused() {
        for rotation in
            [[[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [[f64::NAN; 3]; 3], [[0.0; 3]; 3]]
        {
            let pose = Pose { rotation, translation: [0.0; 3] };
            assert!(matches!(
                pose.motion(Side::B),
                Err(IntersectError::NotRigid { cloud: Side::B, .. })
            ));
        }
        assert!(
            Pose { translation: [0.0, f64::INFINITY, 0.0], ..Pose::IDENTITY }
                .motion(Side::A)
                .is_err()
        );
    }
}
