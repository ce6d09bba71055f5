//! Spacing of points.

use rayon::prelude::*;

use koel_scans::Bounds;

/// Maximum number of sampled points.
const SAMPLES: usize = 32;
/// Maximum number of cells along the longest side, so that cell numbers fit.
const MAX_CELLS: f64 = (1 << 20) as f64;

/// Returns the median, over a sample of the points, of the distance to the k-th nearest point (the
/// point itself is the first); 1 if there is no positive distance. All coordinates must be finite.
pub(crate) fn cell_size(points: &[[f32; 3]], k: usize) -> f64 {
    let Ok(bounds) = Bounds::of(points) else { return 1.0 };
    let step = points.len().div_ceil(SAMPLES);
    let samples: Vec<[f32; 3]> = points.iter().copied().step_by(step).collect();
    let mut distances: Vec<f64> =
        samples.par_iter().map(|&sample| distance_to_nth(points, sample, k)).collect();
    distances.sort_by(f64::total_cmp);
    // If most points coincide with k others, use the smallest positive distance.
    let median = distances[distances.len() / 2];
    let distance =
        if median > 0.0 { median } else { distances.into_iter().find(|&d| d > 0.0).unwrap_or(1.0) };
    distance.max(bounds.longest_side() / MAX_CELLS).max(f64::from(f32::MIN_POSITIVE))
}

fn distance_to_nth(points: &[[f32; 3]], from: [f32; 3], n: usize) -> f64 {
    let squared = |p: &[f32; 3]| {
        p.iter().zip(from).map(|(&a, b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>()
    };
    let mut all: Vec<f64> = points.iter().map(squared).collect();
    let nth = n.clamp(1, all.len()) - 1;
    all.select_nth_unstable_by(nth, f64::total_cmp).1.sqrt()
}
