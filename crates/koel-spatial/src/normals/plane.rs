//! Least-squares planes.

use nalgebra::{Matrix3, SymmetricEigen, Vector3};

/// Normal of a fitted plane.
pub(super) struct Fit {
    /// Unit normal.
    pub normal: [f64; 3],
    /// Whether the points span a plane, that is, are not collinear.
    pub determined: bool,
}

/// Threshold for the second eigenvalue of a covariance of trace 1 below which points count as
/// collinear: rounding of `f32` coordinates a million times finer than the neighbourhood.
const LINE: f64 = 1e-12;

/// Fits a plane to these points of `positions`, by least squares of the distances.
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
