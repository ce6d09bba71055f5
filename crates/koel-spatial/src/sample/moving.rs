//! Samples that move with a mesh, made once for all of its shapes.

use super::{SampleError, Triangle, check_total, cover, cross, dot, most_samples, pieces, sub};
use koel_scans::PointCloud;
use rayon::prelude::*;

/// Relative excess of a squared length that an envelope ignores: rounding makes rigid triangles
/// longer by less.
const EXCESS: f64 = 1e-4;
/// Smallest extent of an envelope, in covering radii: thinner triangles have no weights.
const THINNEST: f64 = 1e-3;

/// For each triangle of a mesh that deforms, a triangle that is at least as long in every direction
/// as each of its shapes: samples that cover it cover them all.
///
/// A shape is the metric that it gives the plane of the triangle's weights, a 2 x 2 matrix of the
/// dot products of two edges. Two metrics are joined where both are diagonal, by the greater value
/// of each direction. A rigid motion changes no metric. Takes 24 bytes per triangle.
pub struct TriangleEnvelope {
    triangles: Vec<[u32; 3]>,
    vertices: usize,
    metrics: Vec<Metric>,
}

/// Dot products of the edges b - a and c - a: of the first with itself, of both, of the second with
/// itself.
type Metric = [f64; 3];

impl TriangleEnvelope {
    /// Creates the envelope of one shape of a mesh.
    ///
    /// # Errors
    /// A triangle refers to a vertex that does not exist; a position is not finite.
    pub fn new(
        triangles: &[[u32; 3]],
        positions: &[[f32; 3]],
    ) -> Result<TriangleEnvelope, SampleError> {
        let vertices = positions.len();
        for (triangle, corners) in triangles.iter().enumerate() {
            if let Some(&index) = corners.iter().find(|&&index| index as usize >= vertices) {
                return Err(SampleError::IndexOutOfRange { triangle, index, vertices });
            }
        }
        let metrics = vec![[0.0; 3]; triangles.len()];
        let mut envelope = TriangleEnvelope { triangles: triangles.to_vec(), vertices, metrics };
        envelope.include(positions)?;
        Ok(envelope)
    }
    /// Includes another shape. Linear time, over rayon's threads.
    ///
    /// # Errors
    /// Another number of positions, or one that is not finite.
    pub fn include(&mut self, positions: &[[f32; 3]]) -> Result<(), SampleError> {
        check_positions(positions, self.vertices)?;
        let all = self.metrics.par_iter_mut().zip(&self.triangles);
        all.for_each(|(metric, &corners)| {
            let [a, b, c] = triangle_at(positions, corners);
            let (u, v) = (sub(b, a), sub(c, a));
            *metric = joined(*metric, [dot(u, u), dot(u, v), dot(v, v)]);
        });
        Ok(())
    }
}

fn check_positions(positions: &[[f32; 3]], expected: usize) -> Result<(), SampleError> {
    if positions.len() != expected {
        return Err(SampleError::PositionCount { found: positions.len(), expected });
    }
    for (vertex, position) in positions.iter().enumerate() {
        if let Some(axis) = position.iter().position(|c| !c.is_finite()) {
            let (vertex, value) = (vertex as u32, position[axis]);
            return Err(SampleError::NotFinite { vertex, axis, value });
        }
    }
    Ok(())
}
fn triangle_at(positions: &[[f32; 3]], corners: [u32; 3]) -> Triangle {
    corners.map(|index| positions[index as usize].map(f64::from))
}

/// Returns a metric that is at least as long as both in every direction; the first one if the
/// second is longer nowhere.
fn joined(before: Metric, new: Metric) -> Metric {
    let size = before[0] + before[2] + new[0] + new[2];
    if size == 0.0 {
        return before;
    }
    // G = L L^T, of a matrix that is certainly positive definite.
    let least = 1e-9 * size;
    let l00 = (before[0] + least).sqrt();
    let l10 = before[1] / l00;
    let l11 = (before[2] + least - l10 * l10).max(least).sqrt();
    // M = L^-1 H L^-T.
    let m00 = new[0] / (l00 * l00);
    let m01 = (new[1] / l00 - l10 * m00) / l11;
    let m11 = (new[2] - 2.0 * l10 * new[1] / l00 + l10 * l10 * m00) / (l11 * l11);
    let (middle, half) = (0.5 * (m00 + m11), (0.5 * (m00 - m11)).hypot(m01));
    if middle + half <= 1.0 + EXCESS {
        return before;
    }
    // Directions of M, in which both metrics are diagonal.
    let angle = 0.5 * m01.atan2(0.5 * (m00 - m11));
    let (sin, cos) = angle.sin_cos();
    let (long, short) = ((middle + half).max(1.0), (middle - half).max(1.0));
    let (j00, j11) = (long * cos * cos + short * sin * sin, long * sin * sin + short * cos * cos);
    let j01 = (long - short) * sin * cos;
    // L J L^T.
    [
        l00 * l00 * j00,
        l00 * (l10 * j00 + l11 * j01),
        l10 * l10 * j00 + 2.0 * l10 * l11 * j01 + l11 * l11 * j11,
    ]
}

/// Samples that move with a mesh: places on its triangles, with the same number of points and the
/// same order for all shapes of an envelope. Takes 12 bytes per sample.
pub struct MovingSamples {
    triangles: Vec<[u32; 3]>,
    vertices: usize,
    /// Triangle of each sample, and the weights of its second and third corner.
    samples: Vec<(u32, [f32; 2])>,
}

impl MovingSamples {
    /// Samples all shapes of an envelope at once: in each of them every point of the surface has a
    /// sample within `radius`. A mesh that moves rigidly has as many samples as
    /// [`sample_cloud`](super::sample_cloud) makes.
    ///
    /// # Errors
    /// A radius that is not positive and finite, or too small for the surface.
    pub fn new(envelope: TriangleEnvelope, radius: f64) -> Result<MovingSamples, SampleError> {
        if !(radius.is_finite() && radius > 0.0) {
            return Err(SampleError::Radius { radius });
        }
        let radius = radius / (1.0 + EXCESS).sqrt();
        let TriangleEnvelope { triangles, vertices, metrics } = envelope;
        let planes = metrics.iter().map(|&metric| plane(metric, radius));
        check_total(planes.map(|of| most_samples(of, radius)).sum())?;
        let of_triangle = |(index, &metric): (usize, &Metric)| {
            let whole = plane(metric, radius);
            pieces(whole, radius).flat_map_iter(move |piece| {
                let mut samples = vec![];
                cover(piece, radius, &mut |p| samples.push((index as u32, weights(whole, p))));
                samples
            })
        };
        let samples = metrics.par_iter().enumerate().flat_map(of_triangle).collect();
        Ok(MovingSamples { triangles, vertices, samples })
    }
    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.samples.len()
    }
    /// Returns whether there are no samples: the mesh has no triangles.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }
    /// Places the samples on a shape of the mesh, each with the unit normal of its triangle (zero
    /// for a degenerate one). Linear time, over rayon's threads.
    ///
    /// # Errors
    /// Another number of positions, or one that is not finite.
    pub fn cloud(&self, positions: &[[f32; 3]]) -> Result<PointCloud, SampleError> {
        check_positions(positions, self.vertices)?;
        let place = |&(triangle, [u, v]): &(u32, [f32; 2])| {
            let [a, b, c] = triangle_at(positions, self.triangles[triangle as usize]);
            let (along, across) = (sub(b, a), sub(c, a));
            let (u, v) = (f64::from(u), f64::from(v));
            let position = std::array::from_fn(|i| (a[i] + u * along[i] + v * across[i]) as f32);
            let normal = cross(along, across);
            let length = dot(normal, normal).sqrt();
            let unit = if length > 0.0 { normal.map(|n| (n / length) as f32) } else { [0.0; 3] };
            (position, unit)
        };
        let (positions, normals) = self.samples.par_iter().map(place).unzip();
        Ok(PointCloud { positions, normals: Some(normals) })
    }
}

/// Returns a triangle in the plane z = 0 with this metric: the first corner at the origin, the
/// second on the x axis. It is not thinner than needed for weights.
fn plane([uu, uv, vv]: Metric, radius: f64) -> Triangle {
    let least = THINNEST * radius;
    let length = uu.sqrt().max(least);
    let along = uv / length;
    let across = (vv - along * along).max(0.0).sqrt().max(least);
    [[0.0; 3], [length, 0.0, 0.0], [along, across, 0.0]]
}
/// Returns the weights of the second and third corner of a point in such a triangle.
fn weights([_, b, c]: Triangle, p: [f64; 3]) -> [f32; 2] {
    let v = (p[1] / c[1]).clamp(0.0, 1.0);
    let u = ((p[0] - v * c[0]) / b[0]).clamp(0.0, 1.0 - v);
    [u as f32, v as f32]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the longest length of direction (cos, sin) under the metric, squared.
    fn length([uu, uv, vv]: Metric, angle: f64) -> f64 {
        let (y, x) = angle.sin_cos();
        uu * x * x + 2.0 * uv * x * y + vv * y * y
    }
    fn metric(a: [f64; 2], b: [f64; 2]) -> Metric {
        let dot = |u: [f64; 2], v: [f64; 2]| u[0] * v[0] + u[1] * v[1];
        [dot(a, a), dot(a, b), dot(b, b)]
    }

    #[test]
    fn a_joined_metric_is_long_enough_everywhere_and_no_longer_than_both() {
        let shapes = [
            metric([1.0, 0.0], [0.0, 1.0]),
            metric([2.0, 0.0], [0.0, 0.5]),
            metric([1.0, 1.0], [1.0, 1.0]),
            metric([3.0, -1.0], [-3.0, 1.0]),
            metric([1e-4, 0.0], [0.0, 1e4]),
            metric([0.0, 0.0], [0.0, 0.0]),
            metric([0.3, 0.7], [-0.9, 0.2]),
        ];
        for a in shapes {
            assert_eq!(joined(a, a), a);
            for b in shapes {
                let joined = joined(a, b);
                for step in 0..360 {
                    let angle = f64::from(step).to_radians();
                    let [of_a, of_b, all] = [a, b, joined].map(|m| length(m, angle));
                    let size = 1e-8 * (a[0] + a[2] + b[0] + b[2]);
                    let most = of_a.max(of_b);
                    assert!(all >= most / (1.0 + 2.0 * EXCESS) - size, "{a:?} {b:?} {angle}");
                    assert!(all <= of_a + of_b + 2.0 * size, "{a:?} {b:?} {angle}: {all}");
                }
            }
        }
    }

    #[test]
    fn weights_lead_back_to_the_point() {
        for shape in [[4.0, 1.0, 2.0], [1.0, -0.9, 1.0], [0.0, 0.0, 1.0], [0.0; 3]] {
            let whole = plane(shape, 0.1);
            cover(whole, 0.1, &mut |p| {
                let [u, v] = weights(whole, p).map(f64::from);
                assert!(u >= 0.0 && v >= 0.0 && u + v <= 1.0 + 1e-6);
                for i in 0..3 {
                    let back = u * whole[1][i] + v * whole[2][i];
                    assert!((back - p[i]).abs() < 1e-6, "{shape:?} {p:?}");
                }
            });
        }
    }
}
