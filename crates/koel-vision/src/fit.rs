//! Least squares: the map that brings points closest to their partners.
use crate::affine::Affine;
use nalgebra::{Matrix3, Vector3};
use std::str::FromStr;

/// Allowed maps, and the points that determine one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freedom {
    /// Rotation and translation: two points, whose distance is kept.
    Rigid,
    /// Rotation, translation and scale: two points.
    Similarity,
    /// Any affine map: three points that are not collinear.
    Affine,
}
impl FromStr for Freedom {
    type Err = String;
    fn from_str(text: &str) -> Result<Freedom, String> {
        match text {
            "rigid" => Ok(Freedom::Rigid),
            "similarity" => Ok(Freedom::Similarity),
            "affine" => Ok(Freedom::Affine),
            _ => Err("expected rigid, similarity or affine".into()),
        }
    }
}

/// Point and its target.
pub type PointPair = ((f32, f32), (f32, f32));

/// Returns the map that minimizes the sum of squared distances between the mapped first points and
/// the second ones. Returns `None` if there are too few points, or if they coincide (for affine
/// maps: if they are collinear).
///
/// Rigid maps and similarities are computed in closed form (Umeyama 1991), affine maps by the
/// normal equations about the mean.
pub fn fit(freedom: Freedom, pairs: &[PointPair]) -> Option<Affine> {
    let n = pairs.len() as f64;
    if pairs.is_empty() {
        return None;
    }
    let mean = |of: fn(&PointPair) -> f32| pairs.iter().map(|p| of(p) as f64).sum::<f64>() / n;
    let (px, py, qx, qy) = (mean(|p| p.0.0), mean(|p| p.0.1), mean(|p| p.1.0), mean(|p| p.1.1));
    let centered = pairs
        .iter()
        .map(|&(p, q)| (p.0 as f64 - px, p.1 as f64 - py, q.0 as f64 - qx, q.1 as f64 - qy));
    let linear = match freedom {
        Freedom::Rigid | Freedom::Similarity => {
            let (mut dot, mut cross, mut square) = (0.0, 0.0, 0.0);
            for (x, y, u, v) in centered {
                dot += x * u + y * v;
                cross += x * v - y * u;
                square += x * x + y * y;
            }
            let length = match freedom {
                Freedom::Rigid => dot.hypot(cross),
                _ => square,
            };
            if length < 1e-9 * n {
                return None;
            }
            let (cos, sin) = (dot / length, cross / length);
            [[cos, -sin], [sin, cos]]
        }
        Freedom::Affine => {
            let (mut moments, mut rx, mut ry) =
                (Matrix3::<f64>::zeros(), Vector3::zeros(), Vector3::zeros());
            for (x, y, u, v) in centered {
                let p = Vector3::new(x, y, 1.0);
                moments += p * p.transpose();
                rx += p * u;
                ry += p * v;
            }
            // For collinear points the smaller moment vanishes relative to the larger.
            let (sxx, sxy, syy) = (moments[(0, 0)], moments[(0, 1)], moments[(1, 1)]);
            if sxx * syy - sxy * sxy <= 1e-9 * (sxx + syy).powi(2) {
                return None;
            }
            let solver = moments.cholesky()?;
            let (x, y) = (solver.solve(&rx), solver.solve(&ry));
            [[x[0], x[1]], [y[0], y[1]]]
        }
    };
    let linear = linear.map(|row| row.map(|v| v as f32));
    Some(Affine { linear, shift: [0.0; 2] }.moving((px as f32, py as f32), (qx as f32, qy as f32)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::f32::consts::TAU;

    #[test]
    fn exact_pairs_give_back_their_map() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let similarity = Affine::similarity(
                random.between(0.0, TAU),
                random.between(0.3, 3.0),
                (5.0, 6.0),
                (7.0, 8.0),
            );
            let rigid = Affine::similarity(random.between(0.0, TAU), 1.0, (1.0, 2.0), (30.0, 40.0));
            let shear = Affine {
                linear: [[1.0, random.between(-1.0, 1.0)], [0.2, 1.5]],
                shift: [3.0, -4.0],
            };
            for (freedom, truth) in [
                (Freedom::Rigid, rigid),
                (Freedom::Similarity, similarity),
                (Freedom::Affine, shear.after(&rigid)),
            ] {
                let points =
                    (0..8).map(|_| (random.between(0.0, 200.0), random.between(0.0, 100.0)));
                let pairs = points.map(|p| (p, truth.apply(p))).collect::<Vec<_>>();
                let found = fit(freedom, &pairs).unwrap();
                assert!(
                    found.corner_error(&truth, 200, 100) < 1e-3,
                    "{freedom:?}, seed {seed}: {found:?} {truth:?}"
                );
            }
        }
    }

    #[test]
    fn no_other_map_is_closer() {
        let mut random = Random::new(3);
        for freedom in [Freedom::Rigid, Freedom::Similarity, Freedom::Affine] {
            let points =
                |random: &mut Random| (random.between(0.0, 50.0), random.between(0.0, 50.0));
            let pairs =
                (0..12).map(|_| (points(&mut random), points(&mut random))).collect::<Vec<_>>();
            let square = |m: &Affine| {
                let off = |&(p, q): &PointPair| {
                    let (x, y) = m.apply(p);
                    (x - q.0).powi(2) + (y - q.1).powi(2)
                };
                pairs.iter().map(off).sum::<f32>()
            };
            let best = fit(freedom, &pairs).unwrap();
            for _ in 0..200 {
                let (angle, scale) = (random.between(-0.1, 0.1), random.between(0.95, 1.05));
                let scale = if freedom == Freedom::Rigid { 1.0 } else { scale };
                let mut other = Affine::similarity(
                    angle,
                    scale,
                    (25.0, 25.0),
                    (25.0 + random.between(-1.0, 1.0), 25.0),
                )
                .after(&best);
                if freedom == Freedom::Affine {
                    other.linear[0][1] += random.between(-0.05, 0.05);
                }
                assert!(square(&best) <= square(&other) * 1.0001, "{freedom:?}");
            }
        }
    }

    #[test]
    fn degenerate_pairs_are_refused() {
        let line =
            (0..5).map(|i| ((i as f32, 2.0 * i as f32), (i as f32, 0.0))).collect::<Vec<_>>();
        assert_eq!(fit(Freedom::Affine, &line), None);
        assert!(fit(Freedom::Similarity, &line).is_some());
        for freedom in [Freedom::Rigid, Freedom::Similarity, Freedom::Affine] {
            assert_eq!(fit(freedom, &[]), None);
            assert_eq!(fit(freedom, &[((1.0, 1.0), (2.0, 2.0)); 4]), None);
        }
    }
}
