//! Sheets of a surface that lie closer together than noise lets planes tell them apart.
//!
//! Two walls that are back to back or face to face within a few standard deviations of the noise
//! get one plane between them, and signs that propagate along it flip one of them. The winding
//! numbers on both sides of the plane, beyond the noise, tell what it is: in mean one half at a
//! single sheet, 0 at a thin wall (both sides are outside) and 1 at a narrow gap (both are inside).
//! This also holds while one of the two sheets is flipped, which changes both winding numbers by
//! the same amount in opposite directions. A point of a wall then belongs to the sheet on its own
//! side of the plane and faces away from the plane; a point at a gap faces the plane.

use super::field::Field;
use super::median;
use super::orient::Surface;
use crate::vector::{Vector, dot, flip};
use rayon::prelude::*;

/// Variance across a plane, divided by the median of all, from which on there may be two sheets.
const THICK: f64 = 1.2;
/// Distance of a point from its plane, in standard deviations of the points across it, below which
/// the point may belong to either sheet.
const APART: f64 = 0.3;
/// Distance from the plane of the positions whose winding numbers count, in the same unit.
const BEYOND: f64 = 3.0;
/// Median of the standard deviation of the points across their planes, divided by that of their
/// distance from each other, up to which planes tell sheets apart.
const FINE: f64 = 0.5;
/// Deviation of a mean winding number from 0 or 1 up to which it is that of a wall or a gap. Edges
/// of solids have at least 0.3.
const NEAR: f64 = 0.25;

/// Flips the normals of points that lie on the wrong side of a plane through two sheets. `closed`
/// tells whether the part of a point is closed: only then the winding numbers around it are known.
/// Returns the number of flipped normals.
pub(super) fn mend(
    surface: &Surface<'_>,
    areas: &[f64],
    closed: impl Fn(usize) -> bool + Sync,
    normals: &mut [Vector],
) -> usize {
    let usual = median(surface.fits.iter().map(|fit| fit.across));
    if usual <= FINE * FINE * median(areas.iter().copied()) {
        return 0;
    }
    let above = |i: usize| -dot(surface.fits[i].centre, normals[i]);
    let is_doubtful = |&i: &usize| {
        let across = surface.fits[i].across;
        across > THICK * usual && above(i).abs() > APART * across.sqrt() && closed(i)
    };
    let doubtful: Vec<usize> = (0..normals.len()).filter(is_doubtful).collect();
    if doubtful.is_empty() {
        return 0;
    }
    let of_closed = (0..normals.len()).filter(|&i| closed(i));
    let field = Field::new(of_closed.map(|i| (surface.positions[i], areas[i], normals[i])));
    let is_wrong = |&i: &usize| {
        let (noise, spacing) = (surface.fits[i].across.sqrt(), areas[i].sqrt());
        let at = |side: f64| {
            let step = side * BEYOND * noise;
            field.winding(
                std::array::from_fn(|a| surface.positions[i][a] + step * normals[i][a]),
                noise.max(spacing),
            )
        };
        let mean = (at(-1.0) + at(1.0)) / 2.0;
        let (is_wall, is_gap) = (mean.abs() < NEAR, (mean - 1.0).abs() < NEAR);
        is_wall && above(i) < 0.0 || is_gap && above(i) > 0.0
    };
    let wrong: Vec<usize> = doubtful.into_par_iter().filter(is_wrong).collect();
    wrong.iter().for_each(|&i| flip(&mut normals[i]));
    wrong.len()
}
