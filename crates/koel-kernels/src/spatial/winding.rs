//! Generalised winding numbers of oriented points (Barill, Dickson, Schmidt, Levin and Jacobson 2018), with the levels of the
//! grid as the hierarchy: far pieces of the surface count as one dipole a cell, nearer ones on finer levels.
use super::dipoles::Dipole;
use super::index::Index;
use super::layout::Shape;
use super::math::sqrt;
use super::{NONE, state};
use koel_simt::{Buf, In, Thread, kernel};

/// Points of each cloud at whose voxels its own winding number is sampled.
pub const SAMPLES: u32 = 256;
/// Winding numbers are summed in units of 1 / 2^this, as integers: the levels come in any order.
const UNIT: f32 = 4_294_967_296.0;
const FOUR_PI: f32 = 4.0 * core::f32::consts::PI;

/// What one level adds to 4 pi times the winding number of `cloud` at `x`, if `finest` is the finest level to look at: the cells
/// around the parent of x's cell, less the 27 around its own, which finer levels resolve; on the finest level all.
#[inline(always)]
#[track_caller]
pub fn solid_angle(index: Index, dipoles: In<u32>, cloud: u32, x: [f32; 3], level: u32, finest: u32) -> f32 {
    let cell = x.map(|c| (c as u32 >> level) as i32);
    let from = cell.map(|c| (c >> 1) * 2 - 2);
    let to = cell.map(|c| (c >> 1) * 2 + 3);
    let last = level == finest;
    let near = (cell.map(|c| c - 1), cell.map(|c| c + 1));
    // Half a cell, squared: dipoles of the finest level are spread out.
    let softening = if last { 0.25 * ((1u32 << level) as f32) * ((1u32 << level) as f32) } else { 0.0 };
    let mut cells = index.cells_in(level, cloud, from, to, if last { None } else { Some(near) });
    let mut sum = 0.0;
    loop {
        let c = cells.pop();
        if c == NONE {
            return sum;
        }
        let d = Dipole::get(dipoles, c);
        let v = [d.centre[0] - x[0], d.centre[1] - x[1], d.centre[2] - x[2]];
        let r2 = v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + softening;
        let flux = v[0] * d.normal[0] + v[1] * d.normal[1] + v[2] * d.normal[2];
        sum += flux / (r2 * sqrt(r2));
    }
}
/// The whole winding number.
#[inline(always)]
#[track_caller]
pub fn winding_number(index: Index, dipoles: In<u32>, cloud: u32, x: [f32; 3], finest: u32) -> f32 {
    let (mut sum, mut level) = (0.0, index.shape.top());
    // The coarsest level has no cell that is not near.
    while level > finest {
        level -= 1;
        sum += solid_angle(index, dipoles, cloud, x, level, finest);
    }
    sum / FOUR_PI
}
/// The finest level that the winding number of a free cell of a level looks at.
#[inline(always)]
pub fn finest_for(level: u32) -> u32 {
    level.saturating_sub(2)
}

/// The voxel of sample `i` of a cloud: of points evenly spaced in memory. Of points, not of voxels: noise and outliers hold
/// many voxels, but few points.
#[inline(always)]
#[track_caller]
fn sample(voxels: In<u32>, padded_a: u32, padded: u32, i: u32) -> u32 {
    let (first, n) = if i < SAMPLES { (0, padded_a) } else { (padded_a, padded - padded_a) };
    voxels.get(first + ((i % SAMPLES) as u64 * n as u64 / SAMPLES as u64) as u32)
}

/// Winding numbers of cells at their centres: first of the samples of both clouds in their own surface, then of the free cells
/// listed in `units` in the other one. Queries times levels, by any number of threads.
#[kernel(threads = 64, independent)]
pub fn spatial_wind_units(
    t: Thread,
    shape: Shape,
    padded_a: u32,
    padded: u32,
    voxels: In<u32>,
    words: In<u64>,
    bricks: In<u64>,
    codes: In<u32>,
    dipoles: In<u32>,
    state: In<u32>,
    units: In<u32>,
    sums: Buf<u64>,
) {
    let index = Index { shape, words, bricks };
    let queries = 2 * SAMPLES + state.get(state::UNITS);
    let mut turn = t.global_id();
    while turn < queries * shape.top() {
        // No panic for a divisor of 0, which the loop rules out.
        let level = turn.checked_div(queries).unwrap_or(0);
        let i = turn - level * queries;
        let (cell, cloud, finest) = if i < 2 * SAMPLES {
            (sample(voxels, padded_a, padded, i), i / SAMPLES, 0)
        } else {
            let cell = units.get(i - 2 * SAMPLES);
            let (of_cell, cloud, _) = shape.decode(codes.get(cell));
            (cell, 1 - cloud, finest_for(of_cell))
        };
        if cell != NONE && level >= finest {
            let part = solid_angle(index, dipoles, cloud, Dipole::get(dipoles, cell).centre, level, finest);
            sums.fetch_add(i, (part * UNIT) as i64 as u64);
        }
        turn += t.grid_dim() * t.block_dim();
    }
}
/// Winding numbers of the voxels listed in `undecided` in the other surface, to the finest level. Queries times levels, by any
/// number of threads.
#[kernel(threads = 64, independent)]
pub fn spatial_wind_voxels(
    t: Thread,
    shape: Shape,
    words: In<u64>,
    bricks: In<u64>,
    codes: In<u32>,
    dipoles: In<u32>,
    state: In<u32>,
    undecided: In<u32>,
    sums: Buf<u64>,
) {
    let index = Index { shape, words, bricks };
    let queries = state.get(state::UNDECIDED);
    let mut turn = t.global_id();
    while turn < queries * shape.top() {
        // No panic for a divisor of 0, which the loop rules out.
        let level = turn.checked_div(queries).unwrap_or(0);
        let i = turn - level * queries;
        let voxel = undecided.get(i);
        let (_, cloud, _) = shape.decode(codes.get(voxel));
        let part = solid_angle(index, dipoles, 1 - cloud, Dipole::get(dipoles, voxel).centre, level, 0);
        sums.fetch_add(i, (part * UNIT) as i64 as u64);
        turn += t.grid_dim() * t.block_dim();
    }
}
/// A winding number from the sum of its levels.
#[inline(always)]
pub fn from_sum(sum: u64) -> f32 {
    sum as i64 as f32 / UNIT / FOUR_PI
}

/// The median of the samples of each cloud. One thread a sample: the one in the middle answers.
#[kernel(threads = 64, independent)]
pub fn spatial_find_iso(t: Thread, sums: In<u64>, state: Buf<u32>) {
    let i = t.global_id();
    if i >= 2 * SAMPLES {
        return;
    }
    // A point outside the grid has no winding number: 0, which counts like any other.
    let (cloud, own) = (i / SAMPLES, sums.get(i) as i64);
    let (mut less, mut j) = (0, cloud * SAMPLES);
    while j < (cloud + 1) * SAMPLES {
        let other = sums.get(j) as i64;
        less += (other < own || other == own && j < i) as u32;
        j += 1;
    }
    if less == SAMPLES / 2 {
        state.store(state::ISO + cloud, from_sum(own as u64).to_bits());
    }
}
