//! Refinement: each candidate, an affine map from model to scene, is moved to where its points lie on edges.
//!
//! Iterated closest points. Each step pairs the moved model points with the nearest scene edge of their direction, by one
//! read of a map, and solves for the affine change that brings them there: mostly across the edge, a little along it.
use super::class;
use super::direction::direction;
use koel_simt::{Buf, In, Thread, U32x4, kernel, unroll};

/// No edge is near.
pub const FAR: u8 = 255;
/// What a point that falls outside the scene adds to a score, in sixteenths.
pub const OUTSIDE: i32 = -15;
/// Fewer pairs than this determine nothing.
const FEWEST_PAIRS: u32 = 8;
/// A determinant of the linear part outside this range, or a ratio of its singular values `s` with `s + 1/s` above
/// twice `STRETCH`, ends the refinement: the model would collapse or explode.
const DETERMINANTS: (f32, f32) = (0.1, 3.5);
const STRETCH: f32 = 2.6;

/// Scores that differ by less than this part are equal.
const TIE: f32 = 0.02;

/// One batch.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Refinement {
    /// Candidates.
    pub candidates: u32,
    /// Model points.
    pub points: u32,
    /// Scene width, pixels.
    pub width: u32,
    /// Scene height, pixels.
    pub height: u32,
    /// Steps.
    pub steps: u32,
    /// Model points are given in units of this many pixels, about their centre.
    pub unit: f32,
    /// How far an edge may be, pixels: in the first step.
    pub radius: f32,
    /// The factor from step to step.
    pub shrink: f32,
    /// Weight of the distance along the edge against that across.
    pub along: f32,
    /// Damping, relative to the mean of the diagonal.
    pub damping: f32,
}
// SAFETY: `repr(C)`, plain numbers.
#[cfg(not(target_arch = "nvptx64"))]
unsafe impl koel_simt::Arg for Refinement {}

/// The lower triangle of a symmetric 6 x 6 matrix, row by row.
type Triangle = [f32; 21];
#[inline(always)]
const fn at(row: usize, column: usize) -> usize {
    row * (row + 1) / 2 + column
}

/// Solves `a x = b` for a positive definite `a` (Cholesky without roots); `None` if it is not.
#[inline(always)]
fn solve(mut a: Triangle, mut b: [f32; 6]) -> Option<[f32; 6]> {
    let mut good = true;
    unroll::<6>(|j| {
        unroll::<6>(|k| {
            if k < j {
                // Column k is done: row j of L times D.
                let scaled = a[at(j, k)];
                let l = scaled / a[at(k, k)];
                unroll::<6>(|i| {
                    if i >= j {
                        // a[i][k] holds L times D still, for rows not yet reached.
                        a[at(i, j)] -= a[at(i, k)] * l;
                    }
                });
                b[j] -= l * b[k];
            }
        });
        good &= a[at(j, j)] > 1e-12;
    });
    // b is now D times the unknowns of L^T x; a[i][k], i > k, is L times D.
    unroll::<6>(|back| {
        let j = 5 - back;
        unroll::<6>(|i| {
            if i > j {
                b[j] -= a[at(i, j)] * b[i];
            }
        });
        b[j] /= a[at(j, j)];
    });
    good.then_some(b)
}

/// Candidate `i` refined: `maps` holds six words of each, the linear part (by rows, pixels a unit) and the place of the
/// model's centre; it is left with the last of the best steps, and `scores` with its score.
///
/// `points`: x, y (in units, about the centre), and the normal's x, y, of each model point; `weights`: of their votes.
/// `edges`: x, y and the normal's x, y of each scene edge; `index`: of each pixel its edge. `nearest`: class by class, row by row, a
/// number of `offsets`, to the nearest edge pixel, in the order of distance; [`FAR`] if there is none.
/// `offsets`: x and y, as signed 16-bit halves. `likelihood`: class by class, signed, sixteenths.
#[kernel(threads = 32, independent)]
pub fn vision_refine(
    t: Thread,
    refinement: Refinement,
    points: In<u32>,
    weights: In<u32>,
    edges: In<u32>,
    index: In<u32>,
    nearest: In<u8>,
    offsets: In<u32>,
    likelihood: In<u8>,
    maps: Buf<u32>,
    scores: Buf<u32>,
) {
    let Refinement { candidates, points: count, width, height, steps, unit, .. } = refinement;
    let i = t.global_id();
    if i >= candidates {
        return;
    }
    let mut m = [0.0f32; 6];
    unroll::<6>(|k| m[k] = f32::from_bits(maps.load(6 * i + k as u32)));
    let (mut best, mut best_score, mut top) = (m, f32::MIN, f32::MIN);
    let mut radius = refinement.radius;
    let mut step = 0;
    loop {
        let [a, b, c, d, x0, y0] = m;
        // The normal equations: `n` of the pairs' moments, three times for xx, xy and yy of the directions.
        let (mut xx, mut xy, mut yy) = ([0.0f32; 6], [0.0f32; 6], [0.0f32; 6]);
        let (mut rx, mut ry) = ([0.0f32; 3], [0.0f32; 3]);
        let (mut score, mut pairs) = (0.0f32, 0);
        let sharpness = 2.0 / (radius * radius);
        let mut k = 0;
        while k < count {
            let U32x4([px, py, nx, ny]) = points.x4().get(k);
            let (px, py, nx, ny) = (f32::from_bits(px), f32::from_bits(py), f32::from_bits(nx), f32::from_bits(ny));
            let weight = f32::from_bits(weights.get(k));
            let (qx, qy) = (a * px + b * py + x0, c * px + d * py + y0);
            let (x, y) = ((qx + 0.5) as i32 as u32, (qy + 0.5) as i32 as u32);
            k += 1;
            if x >= width || y >= height {
                score += weight * OUTSIDE as f32;
                continue;
            }
            let class = class(direction(d * nx - c * ny, a * ny - b * nx));
            let place = (class * height + y) * width + x;
            score += weight * (likelihood.get(place) as i8 as f32);
            let code = nearest.get(place);
            if code == FAR {
                continue;
            }
            let offset = offsets.get(code as u32);
            let (ox, oy) = (offset as i16 as i32, (offset >> 16) as i16 as i32);
            if (ox * ox + oy * oy) as f32 > radius * radius {
                continue;
            }
            let edge = index.get((y.wrapping_add(oy as u32)) * width + x.wrapping_add(ox as u32));
            let U32x4([ex, ey, ux, uy]) = edges.x4().get(edge);
            let (ex, ey) = (f32::from_bits(ex) - qx, f32::from_bits(ey) - qy);
            let (ux, uy) = (f32::from_bits(ux), f32::from_bits(uy));
            // exp(-z), nearly.
            let z = (ex * ex + ey * ey) * sharpness;
            let w = 1.0 / (1.0 + z * (1.0 + z * (0.5 + z * (1.0 / 6.0 + z * (1.0 / 24.0)))));
            let v = w * refinement.along;
            pairs += 1;
            let (sxx, sxy, syy) = (w * ux * ux + v * uy * uy, (w - v) * ux * uy, w * uy * uy + v * ux * ux);
            let (fx, fy) = (sxx * ex + sxy * ey, sxy * ex + syy * ey);
            let moments = [px * px, px * py, py * py, px, py, 1.0];
            unroll::<6>(|n| {
                xx[n] += sxx * moments[n];
                xy[n] += sxy * moments[n];
                yy[n] += syy * moments[n];
            });
            unroll::<3>(|n| {
                rx[n] += fx * moments[3 + n];
                ry[n] += fy * moments[3 + n];
            });
        }
        // Scores are coarse, steps are not: a later one is closer, unless it lost something.
        top = if score > top { score } else { top };
        if score >= top - TIE * top.abs() {
            (best, best_score) = (m, score);
        }
        if step == steps || pairs < FEWEST_PAIRS {
            break;
        }
        // Unknowns: the change of a, b, x0, then of c, d, y0. Moments of (px, py, 1) with itself: xx xy x / yy y / 1.
        let mut n: Triangle = [
            xx[0], //
            xx[1], xx[2], //
            xx[3], xx[4], xx[5], //
            xy[0], xy[1], xy[3], yy[0], //
            xy[1], xy[2], xy[4], yy[1], yy[2], //
            xy[3], xy[4], xy[5], yy[3], yy[4], yy[5],
        ];
        let mut trace = 0.0;
        unroll::<6>(|j| trace += n[at(j, j)]);
        unroll::<6>(|j| n[at(j, j)] += refinement.damping * trace * (1.0 / 6.0));
        let Some(change) = solve(n, [rx[0], rx[1], rx[2], ry[0], ry[1], ry[2]]) else { break };
        m = [a + change[0], b + change[1], c + change[3], d + change[4], x0 + change[2], y0 + change[5]];
        let determinant = (m[0] * m[3] - m[1] * m[2]) / (unit * unit);
        let frobenius = (m[0] * m[0] + m[1] * m[1] + m[2] * m[2] + m[3] * m[3]) / (unit * unit);
        // Written so that no number passes that is not one.
        let sound = determinant >= DETERMINANTS.0
            && determinant <= DETERMINANTS.1
            && frobenius <= 2.0 * STRETCH * determinant
            && m[4].abs() + m[5].abs() < 1e6;
        if !sound {
            break;
        }
        radius *= refinement.shrink;
        step += 1;
    }
    unroll::<6>(|k| maps.store(6 * i + k as u32, best[k].to_bits()));
    scores.store(i, best_score.to_bits());
}
