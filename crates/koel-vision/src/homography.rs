//! Homographies: maps of planes in perspective.
use crate::affine::{Affine, corners};
use nalgebra::Matrix3;

/// Map of a plane seen in perspective: `x' = (a x + b y + c) / w`, `y' = (d x + e y + f) / w`,
/// `w = g x + h y + 1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Homography {
    /// Rows `[a, b, c]`, `[d, e, f]`, `[g, h, 1]`.
    pub rows: [[f64; 3]; 3],
}

impl From<Affine> for Homography {
    fn from(map: Affine) -> Homography {
        let ([[a, b], [d, e]], [c, f]) =
            (map.linear.map(|row| row.map(f64::from)), map.shift.map(f64::from));
        Homography { rows: [[a, b, c], [d, e, f], [0.0, 0.0, 1.0]] }
    }
}

impl Homography {
    /// Maps a point; `None` if it lies on the horizon or beyond.
    pub fn apply(&self, (x, y): (f32, f32)) -> Option<(f32, f32)> {
        let [u, v, w] = self.rows.map(|[a, b, c]| a * x as f64 + b * y as f64 + c);
        (w > 1e-9).then(|| ((u / w) as f32, (v / w) as f32))
    }
    /// Composes two maps: `other` first, then `self`. `None` if the result has no third row ending
    /// in 1.
    pub fn after(&self, other: &Homography) -> Option<Homography> {
        Homography::of(self.matrix() * other.matrix())
    }
    /// Returns the inverse; `None` if the map is singular.
    pub fn inverse(&self) -> Option<Homography> {
        Homography::of(self.matrix().try_inverse()?)
    }
    /// Maps the centres of the four corner pixels of an image, in cyclic order; `None` if one lies
    /// on the horizon or beyond.
    pub fn outline(&self, width: usize, height: usize) -> Option<[(f32, f32); 4]> {
        let [a, b, c, d] = corners(width, height).map(|p| self.apply(p));
        Some([a?, b?, c?, d?])
    }
    fn matrix(&self) -> Matrix3<f64> {
        Matrix3::from_fn(|i, j| self.rows[i][j])
    }
    fn of(matrix: Matrix3<f64>) -> Option<Homography> {
        let matrix = matrix / matrix[(2, 2)];
        let rows = std::array::from_fn(|i| std::array::from_fn(|j| matrix[(i, j)]));
        matrix.iter().all(|v| v.is_finite()).then_some(Homography { rows })
    }
}
