//! Close to the other surface: the side of the voxel by the nearest normals (implicit moving least
//! squares: C. Shen, J. F. O'Brien and J. R. Shewchuk 2004; weights by distance over the nearest).
use super::dipoles::{Dipole, Surfaces};
use super::index::{Cells, Index};
use super::margins::{DECIDED, FAR, MarginsOut};
use super::state;
use crate::math::{exp_neg, length, sqrt};
use koel_simt::{Buf, In, Thread, kernel, unroll};

/// The coarsest level whose neighbours are asked.
const LAST_LEVEL: u32 = 2;
/// Normals that agree less than this are no answer.
const MIN_COHERENCE: f32 = 0.6;
/// A support of less than this share of what a plane would give is thin: 9 cells at the level.
const MIN_SUPPORT: f32 = 0.15 * 9.0;

/// The signed distance of a point from a surface, as its neighbours see it.
#[derive(Clone, Copy)]
struct Estimate {
    /// Positive outside.
    distance: f32,
    /// |sum of weighted normals| / sum of weights: 1 if all agree.
    coherence: f32,
    /// Distance to the nearest voxel's points.
    nearest: f32,
    /// The same distance if the surface were a sphere, or any other on which a chord makes equal
    /// angles with the normals at its ends.
    round: f32,
}
/// Asks the cells of a level around a point, `reach` to each side (at most 2); weights fall off
/// over `width` cells (so slowly that none is 0). None: there are none.
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
/// The points in the cells of a level around a point, one to each side.
#[inline(always)]
#[track_caller]
fn points_around(surfaces: Surfaces, cloud: u32, x: [f32; 3], level: u32) -> u32 {
    let Surfaces { index, dipoles } = surfaces;
    let around = around(index, cloud, x, level, 1);
    let mut points = 0;
    each_cell!(around, |c| Dipole::count(dipoles, c), |count| { points += count });
    points
}
/// The cells of a level around a point, `reach` to each side.
#[inline(always)]
fn around(index: Index, cloud: u32, x: [f32; 3], level: u32, reach: i32) -> Cells {
    let cell = x.map(|c| (c as u32 >> level) as i32);
    index.cells_in(level, cloud, cell.map(|c| c - reach), cell.map(|c| c + reach), None)
}
/// The signed distance of a place that is far from all points of a surface, from where that surface
/// would be if it went on as it does around: a hole is closed by a piece of a sphere rather than by
/// a lid. None where its parts disagree.
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

/// The signed distance of a place from a surface close to it. Where its normals give no clear
/// answer: an error, how far away it is.
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
        // One level finer there may be none: then a coarse answer.
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
/// Places in a list, shared out to any number of threads.
#[derive(Clone, Copy)]
struct Places {
    next: u32,
    step: u32,
    end: u32,
}
impl Places {
    /// The first one of a thread. Where threads abound only every eighth works: those of a warp
    /// wait for the one that has most cells around its voxel.
    #[inline(always)]
    fn first(t: Thread, places: u32) -> Places {
        let (i, threads) = (t.global_id(), t.grid_dim() * t.block_dim());
        if places > threads / 8 {
            return Places { next: i, step: threads, end: places };
        }
        Places { next: if i & 7 == 0 { i >> 3 } else { places }, step: places, end: places }
    }
    /// The next one of the thread; `None`: no more.
    #[inline(always)]
    fn pop(&mut self) -> Option<u32> {
        if self.next >= self.end {
            return None;
        }
        let place = self.next;
        self.next += self.step;
        Some(place)
    }
}
/// The margin of each voxel of `near`: its signed distance, positive outside. Where the normals
/// give no clear answer, or the surface is open, the voxel stays undecided. By any number of
/// threads.
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
/// Of the voxels in `undecided` those that are far from a closed surface, but close to where it
/// would go on if it were a sphere there: their margins; `reach` is [`DECIDED`]. By any number of
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
