//! The plane through some points.

use nalgebra::{Matrix3, SymmetricEigen, Vector3};

/// A fitted plane's normal.
pub(super) struct Fit {
    /// Of unit length.
    pub normal: [f64; 3],
    /// Whether the points span a plane: not all on a line.
    pub determined: bool,
}

/// The second eigenvalue of a covariance of trace 1 below which the points count as being on a
/// line: rounding of `f32` coordinates a million times finer than the neighbourhood.
const LINE: f64 = 1e-12;

/// The plane that fits these points of `positions` best, in the sense of least squares of
/// distances.
pub(super) fn fit(positions: &[[f32; 3]], indices: &[u32]) -> Fit {
    let points = || indices.iter().map(|&i| Vector3::from(positions[i as usize].map(f64::from)));
    let centroid = points().sum::<Vector3<f64>>() / indices.len() as f64;
    let covariance: Matrix3<f64> = points().map(|p| p - centroid).map(|d| d * d.transpose()).sum();
    let trace = covariance.trace();
    if trace == 0.0 {
        return Fit { normal: [0.0, 0.0, 1.0], determined: false };
    }
    let SymmetricEigen { eigenvalues, eigenvectors } = (covariance / trace).symmetric_eigen();
    let mut order = [0, 1, 2];
    order.sort_by(|&a, &b| eigenvalues[a].total_cmp(&eigenvalues[b]));
    let normal = eigenvectors.column(order[0]).normalize();
    Fit { normal: normal.into(), determined: eigenvalues[order[1]] > LINE }
}
