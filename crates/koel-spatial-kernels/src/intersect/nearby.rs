//! Voxels close to the other surface: decides the side by the nearest normals (implicit moving
//! least squares: C. Shen, J. F. O'Brien and J. R. Shewchuk 2004; weights by distance relative to
//! the nearest).
use super::dipoles::{Dipole, Surfaces};
use super::index::{Cells, Index};
use super::margins::{DECIDED, FAR, MarginsOut};
use super::state;
use koel_kernels::math::{exp_neg, length, sqrt};
use koel_simt::{Buf, In, Thread, kernel, unroll};

/// Coarsest level at which neighbours are searched.
const LAST_LEVEL: u32 = 2;
/// Minimum coherence of the normals for an answer.
const MIN_COHERENCE: f32 = 0.6;
/// Minimum support, as a share of what a plane would give, which is 9 cells at the level.
const MIN_SUPPORT: f32 = 0.15 * 9.0;

/// Signed distance of a point from a surface, estimated from its neighbours.
#[derive(Clone, Copy)]
struct Estimate {
    /// Signed distance, positive outside.
    distance: f32,
    /// |sum of weighted normals| / sum of weights; 1 if all agree.
    coherence: f32,
    /// Distance to the points of the nearest voxel.
    nearest: f32,
    /// Signed distance if the surface were a sphere, or any other surface on which a chord makes
    /// equal angles with the normals at its ends.
    round: f32,
}
/// Estimates the distance from the cells of a level around a point, `reach` cells to each side (at
/// most 2). Weights fall off over `width` cells, slowly enough that none is 0. Returns `None` if
/// there are no cells.
#[inline(always)]
#[track_caller]
fn estimate(
    surfaces: Surfaces,
    cloud: u32,
    x: [f32; 3],
    level: u32,
    reach: i32,
    width: f32,
) -> Option<Estimate> {
    let Surfaces { index, dipoles } = surfaces;
    let around = around(index, cloud, x, level, reach);
    let scale = width * (1u32 << level) as f32;
    let fall = 1.0 / (scale * scale);
    let (mut nearest, mut weight, mut flux, mut normal, mut moment) =
        (f32::MAX, 0.0, 0.0, [0.0; 3], [0.0; 3]);
    each_cell!(around, |c| Dipole::get(dipoles, c), |d| {
        let r2 = squared(x, d.centre);
        nearest = if r2 < nearest { r2 } else { nearest };
        let w = exp_neg(r2 * fall);
        weight += w * d.area;
        unroll::<3>(|a| {
            flux += w * (x[a] - d.centre[a]) * d.normal[a];
            normal[a] += w * d.normal[a];
            moment[a] += w * d.area * (x[a] - d.centre[a]);
        });
    });
    if nearest == f32::MAX {
        return None;
    }
    let size = length(normal);
    let own = (normal[0] * moment[0] + normal[1] * moment[1] + normal[2] * moment[2]) / size;
    Some(Estimate {
        distance: flux / weight,
        coherence: size / weight,
        nearest: sqrt(nearest),
        round: 0.5 * (flux + own) / weight,
    })
}
/// Counts the points in the cells of a level around a point, one cell to each side.
#[inline(always)]
#[track_caller]
fn points_around(surfaces: Surfaces, cloud: u32, x: [f32; 3], level: u32) -> u32 {
    let Surfaces { index, dipoles } = surfaces;
    let around = around(index, cloud, x, level, 1);
    let mut points = 0;
    each_cell!(around, |c| Dipole::count(dipoles, c), |count| { points += count });
    points
}
/// Returns the cells of a level around a point, `reach` cells to each side.
#[inline(always)]
fn around(index: Index, cloud: u32, x: [f32; 3], level: u32, reach: i32) -> Cells {
    let cell = x.map(|c| (c as u32 >> level) as i32);
    index.cells_in(level, cloud, cell.map(|c| c - reach), cell.map(|c| c + reach), None)
}
/// Returns the signed distance of a position that is far from all points of a surface, to where the
/// surface would be if it continued as it does nearby: a hole is closed by a piece of a sphere
/// rather than by a flat lid. Returns `None` where the parts of the surface disagree.
#[inline(always)]
#[track_caller]
fn distance_across_hole(surfaces: Surfaces, cloud: u32, x: [f32; 3]) -> Option<f32> {
    let mut level = 0;
    while level < surfaces.index.shape.top() {
        level += 1;
        if points_around(surfaces, cloud, x, level) != 0 {
            let e = estimate(surfaces, cloud, x, level, 2, 1.5)?;
            return if e.coherence >= MIN_COHERENCE { Some(e.round) } else { None };
        }
    }
    None
}
#[inline(always)]
fn squared(a: [f32; 3], b: [f32; 3]) -> f32 {
    let v = [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
    v[0] * v[0] + v[1] * v[1] + v[2] * v[2]
}

/// Returns the signed distance of a position from a surface close to it. If the normals give no
/// clear answer, returns the unsigned distance as an error.
#[inline(always)]
#[track_caller]
pub fn distance_nearby(
    surfaces: Surfaces,
    cloud: u32,
    x: [f32; 3],
    area: f32,
    points: u32,
) -> Result<f32, f32> {
    let mut level = 0;
    while level < LAST_LEVEL {
        level += 1;
        let around = points_around(surfaces, cloud, x, level);
        if around == 0 {
            continue;
        }
        // The finer level may have no cells in reach; then use a coarse estimate.
        let fine = estimate(surfaces, cloud, x, level - 1, 2, 1.5);
        let Some(e) = fine.or_else(|| estimate(surfaces, cloud, x, level, 1, 0.75)) else {
            continue;
        };
        let support = around as f32 * (area / points as f32) / (1u32 << (2 * level)) as f32;
        let flat = e.nearest > 1.5 && e.distance.abs() < 0.35 * e.nearest;
        if e.coherence >= MIN_COHERENCE && !flat && support >= MIN_SUPPORT {
            return Ok(e.distance);
        }
        return Err(e.nearest);
    }
    Err(FAR)
}
/// Iterator over a thread's share of a list, for any number of threads.
#[derive(Clone, Copy)]
struct Places {
    next: u32,
    step: u32,
    end: u32,
}
impl Places {
    /// Returns the share of a thread. If there are at least eight threads per element, only every
    /// eighth works, because the threads of a warp wait for the one with the most cells around its
    /// voxel.
    #[inline(always)]
    fn first(t: Thread, places: u32) -> Places {
        let (i, threads) = (t.global_id(), t.grid_dim() * t.block_dim());
        if places > threads / 8 {
            return Places { next: i, step: threads, end: places };
        }
        Places { next: if i & 7 == 0 { i >> 3 } else { places }, step: places, end: places }
    }
    /// Returns the next element of the thread, or `None` after the last.
    #[inline(always)]
    fn pop(&mut self) -> Option<u32> {
        if self.next >= self.end {
            return None;
        }
        let place = self.next;
        self.next = self.next.saturating_add(self.step);
        Some(place)
    }
}
/// Sets the margin of each voxel of `near` to its signed distance, positive outside. If the normals
/// give no clear answer, or the surface is open, the voxel stays undecided. Works with any number
/// of threads.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_judge_near(
    t: Thread,
    surfaces: Surfaces,
    near: In<u32>,
    to: MarginsOut,
    state: Buf<u32>,
) {
    let Surfaces { index, dipoles } = surfaces;
    let mut places = Places::first(t, state.load_relaxed(state::NEAR));
    while let Some(i) = places.pop() {
        let voxel = near.get(i);
        let (_, cloud, _) = index.cell(voxel);
        let other = 1 - cloud;
        let x = Dipole::get(dipoles, voxel).centre;
        let far = if state.load_relaxed(state::OPEN + other) != 0 {
            FAR
        } else {
            let area = f32::from_bits(state.load_relaxed(state::AREA + other));
            let points = state.load_relaxed(state::POINTS + other);
            match distance_nearby(surfaces, other, x, area, points) {
                Ok(distance) => {
                    to.margins.store(voxel, distance.to_bits());
                    continue;
                }
                Err(far) => far,
            }
        };
        to.leave_undecided(voxel, far, state);
    }
}
/// Sets the margins of those voxels in `undecided` that are far from a closed surface, but close to
/// where it would continue as a sphere, and their `reach` to [`DECIDED`]. Works with any number of
/// threads.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_judge_holes(
    t: Thread,
    surfaces: Surfaces,
    undecided: In<u32>,
    reach: Buf<u32>,
    margins: Buf<u32>,
    state: In<u32>,
) {
    let Surfaces { index, dipoles } = surfaces;
    let mut places = Places::first(t, state.get(state::UNDECIDED));
    while let Some(i) = places.pop() {
        let voxel = undecided.get(i);
        let (_, cloud, _) = index.cell(voxel);
        let other = 1 - cloud;
        if f32::from_bits(reach.load(voxel)) == FAR
            && state.get(state::OPEN + other) == 0
            && let Some(distance) =
                distance_across_hole(surfaces, other, Dipole::get(dipoles, voxel).centre)
        {
            margins.store(voxel, distance.to_bits());
            reach.store(voxel, DECIDED.to_bits());
        }
    }
}
