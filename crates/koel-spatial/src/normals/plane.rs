//! Least-squares planes.

use nalgebra::{Matrix3, SymmetricEigen, Vector3};

/// Plane fitted to points around a point.
#[derive(Clone, Copy)]
pub(super) struct Fit {
    /// Unit normal.
    pub normal: [f64; 3],
    /// Centroid of the points, relative to the point.
    pub centre: [f64; 3],
    /// Variance of the points along the normal, and the smaller one in the plane.
    pub across: f64,
    pub along: f64,
    /// Whether the points span a plane, that is, are not collinear.
    pub determined: bool,
}

impl Fit {
    /// Returns the variance across the plane, divided by that along it: 0 for a plane, 1 for a heap
    /// of points.
    pub(super) fn thickness(&self) -> f64 {
        if self.along > 0.0 { self.across / self.along } else { 1.0 }
    }
}

/// Threshold for the second eigenvalue of a covariance of trace 1 below which points count as
/// collinear: rounding of `f32` coordinates a million times finer than the neighbourhood.
const LINE: f64 = 1e-12;

/// Fits a plane to these points of `positions`, by least squares of the distances.
pub(super) fn fit(positions: &[[f32; 3]], at: usize, indices: &[u32]) -> Fit {
    let points = || indices.iter().map(|&i| Vector3::from(positions[i as usize].map(f64::from)));
    let each = 1.0 / indices.len() as f64;
    let centroid = points().sum::<Vector3<f64>>() * each;
    let covariance: Matrix3<f64> = points().map(|p| p - centroid).map(|d| d * d.transpose()).sum();
    of_covariance(centroid - Vector3::from(positions[at].map(f64::from)), covariance * each)
}

/// Fits a plane to points with this centroid, relative to the point, and this covariance.
pub(super) fn of_covariance(centre: Vector3<f64>, covariance: Matrix3<f64>) -> Fit {
    let (centre, trace) = (centre.into(), covariance.trace());
    if trace <= 0.0 {
        let normal = [0.0, 0.0, 1.0];
        return Fit { normal, centre, across: 0.0, along: 0.0, determined: false };
    }
    let SymmetricEigen { eigenvalues, eigenvectors } = (covariance / trace).symmetric_eigen();
    let mut order = [0, 1, 2];
    order.sort_by(|&a, &b| eigenvalues[a].total_cmp(&eigenvalues[b]));
    let normal = eigenvectors.column(order[0]).normalize();
    let [across, along] = [order[0], order[1]].map(|i| eigenvalues[i].max(0.0) * trace);
    let determined = eigenvalues[order[1]] > LINE;
    Fit { normal: normal.into(), centre, across, along, determined }
}
