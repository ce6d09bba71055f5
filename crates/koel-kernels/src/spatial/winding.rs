//! Generalised winding numbers of oriented points (Barill, Dickson, Schmidt, Levin and Jacobson
//! 2018), with the levels of the grid as the hierarchy: far pieces of the surface count as one
//! dipole a cell, nearer ones on finer levels.
use super::clouds::Groups;
use super::dipoles::{Dipole, Surfaces, measure_surface};
use super::index::CORNERS;
use super::layout::Shape;
use super::margins::{DECIDED, margin_of};
use super::marks::SAMPLES;
use super::{NONE, state};
use crate::math::sqrt;
use core::ops::Range;
use koel_simt::{Buf, In, Thread, kernel};

/// 4 pi times winding numbers are summed in units of 1 / this, as integers: the parts come in any
/// order.
const UNIT: f32 = 4_294_967_296.0;
/// No part adds more (some 5,000 times around): all of them, 8 a level, stay below 2^[`SUM_BITS`]
/// units.
const MAX_OF_PART: f32 = 65_536.0;
/// Bits of a sum with its sign; above them it counts the parts that it has.
const SUM_BITS: u32 = 57;
const FOUR_PI: f32 = 4.0 * core::f32::consts::PI;

/// What a part of one level adds to the [sum](from_sum) of the winding number of `cloud` at `x`, if
/// `finest` is the finest level to look at: the cells around the parent of x's cell, less the 27
/// around its own, which finer levels resolve; on the finest level all. `corners`: of the up to
/// eight bricks that they lie in; the sum over corners is the same however they are shared out.
#[inline(always)]
#[track_caller]
pub fn solid_angle(
    surfaces: Surfaces,
    cloud: u32,
    x: [f32; 3],
    level: u32,
    finest: u32,
    corners: Range<u32>,
) -> i64 {
    let Surfaces { index, dipoles } = surfaces;
    let cell = x.map(|c| (c as u32 >> level) as i32);
    let from = cell.map(|c| (c >> 1) * 2 - 2);
    let to = cell.map(|c| (c >> 1) * 2 + 3);
    let last = level == finest;
    let near = (cell.map(|c| c - 1), cell.map(|c| c + 1));
    // Half a cell, squared: dipoles of the finest level are spread out.
    let softening =
        if last { 0.25 * ((1u32 << level) as f32) * ((1u32 << level) as f32) } else { 0.0 };
    let around = index.cells_in(level, cloud, from, to, if last { None } else { Some(near) });
    let (mut all, mut corner) = (0, corners.start);
    while corner < corners.end {
        let (cells, mut sum) = (around.corner(corner), 0.0);
        corner += 1;
        each_cell!(corner cells, |c| Dipole::get(dipoles, c), |d| {
            let v = [d.centre[0] - x[0], d.centre[1] - x[1], d.centre[2] - x[2]];
            let r2 = v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + softening;
            let flux = v[0] * d.normal[0] + v[1] * d.normal[1] + v[2] * d.normal[2];
            sum += flux / (r2 * sqrt(r2));
        });
        all += (sum.clamp(-MAX_OF_PART, MAX_OF_PART) * UNIT) as i64;
    }
    all
}
/// The whole winding number.
#[inline(always)]
#[track_caller]
pub fn winding_number(surfaces: Surfaces, cloud: u32, x: [f32; 3], finest: u32) -> f32 {
    let (mut sum, mut level) = (0, surfaces.index.shape.top());
    // The coarsest level has no cell that is not near.
    while level > finest {
        level -= 1;
        sum += solid_angle(surfaces, cloud, x, level, finest, 0..CORNERS);
    }
    from_sum(sum)
}
/// A winding number from the sum of its parts.
#[inline(always)]
pub fn from_sum(sum: i64) -> f32 {
    sum as f32 / UNIT / FOUR_PI
}
/// The finest level that the winding number of a free cell of a level looks at.
#[inline(always)]
pub fn finest_for(level: u32) -> u32 {
    level.saturating_sub(2)
}

/// The voxels of points: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PointVoxels {
    /// The number of each point's voxel, or [`NONE`].
    pub voxels: In<u32>,
    /// How many points there are.
    pub groups: Groups,
}
impl PointVoxels {
    /// The voxel of sample `i`, of both clouds: of points evenly spaced in memory. Of points, not
    /// of voxels: noise and outliers hold many voxels, but few points.
    #[inline(always)]
    #[track_caller]
    fn sample(self, i: u32) -> u32 {
        let (first, n) = self.groups.points((i >= SAMPLES) as u32);
        self.voxels.get(first + ((i % SAMPLES) as u64 * n as u64 / SAMPLES as u64) as u32)
    }
}

/// Queries, shared out in parts to any number of threads: thread by thread the queries of one part,
/// then those of the next. A part is a level, or one of the bricks around the query on a level.
#[derive(Clone, Copy)]
struct Turn {
    query: u32,
    part: u32,
    queries: u32,
    step: (u32, u32),
}
impl Turn {
    /// The first one of a thread. There is at least one query.
    #[inline(always)]
    fn first(t: Thread, queries: u32) -> Turn {
        let threads = t.grid_dim() * t.block_dim();
        // No panic for a divisor of 0, which is ruled out.
        let times = |n: u32| n.checked_div(queries).unwrap_or(0);
        let (part, ahead) = (times(t.global_id()), times(threads));
        let step = (ahead, threads - ahead * queries);
        Turn { query: t.global_id() - part * queries, part, queries, step }
    }
    /// The next one of the thread.
    #[inline(always)]
    fn advance(&mut self) {
        self.part += self.step.0;
        self.query += self.step.1;
        if self.query >= self.queries {
            self.query -= self.queries;
            self.part += 1;
        }
    }
    /// The level and corners of the part, if a level is `split` ones: 1 or 8.
    #[inline(always)]
    fn of_level(self, split: u32) -> (u32, Range<u32>) {
        if split == 1 {
            (self.part, 0..CORNERS)
        } else {
            (self.part >> 3, self.part & 7..(self.part & 7) + 1)
        }
    }
}

/// Units that ask for their winding numbers: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct UnitQueries {
    /// Their cells.
    pub units: In<u32>,
    /// The [sum](from_sum) of each sample, then of each unit: at first 0.
    pub sums: Buf<u64>,
}
/// Voxels that ask for their winding numbers: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct VoxelQueries {
    /// Their numbers.
    pub undecided: In<u32>,
    /// How far away the other surface is from each voxel that asks (`f32`).
    pub reach: In<u32>,
    /// The [sum](from_sum) of each query, with the parts that it has: at first 0.
    pub sums: Buf<u64>,
    /// Where the margin of each voxel goes (`f32`).
    pub margins: Buf<u32>,
}

/// Winding numbers of cells at their centres: first of the samples of both clouds in their own
/// surface, then of the units in the other one. Queries times levels times `split` (1 or
/// [`CORNERS`]), by any number of threads.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_wind_units(
    t: Thread,
    split: u32,
    surfaces: Surfaces,
    samples: PointVoxels,
    queries: UnitQueries,
    state: In<u32>,
) {
    let Surfaces { index, dipoles } = surfaces;
    let UnitQueries { units, sums } = queries;
    let mut turn = Turn::first(t, 2 * SAMPLES + state.get(state::UNITS));
    while turn.part < index.shape.top() * split {
        let (i, (level, corners)) = (turn.query, turn.of_level(split));
        turn.advance();
        let (cell, cloud, finest) = if i < 2 * SAMPLES {
            (samples.sample(i), i / SAMPLES, 0)
        } else {
            let cell = units.get(i - 2 * SAMPLES);
            let (of_cell, cloud, _) = index.cell(cell);
            (cell, 1 - cloud, finest_for(of_cell))
        };
        if cell != NONE && level >= finest {
            let centre = Dipole::get(dipoles, cell).centre;
            let part = solid_angle(surfaces, cloud, centre, level, finest, corners);
            if part != 0 {
                sums.fetch_add(i, part as u64);
            }
        }
    }
}
/// Winding numbers of undecided voxels in the other surface, to the finest level, but for those
/// that are [`DECIDED`]; from each its voxel's margin. Queries times levels times `split` (1 or
/// [`CORNERS`]), by any number of threads: the last one of a query has its sum.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_wind_voxels(
    t: Thread,
    split: u32,
    surfaces: Surfaces,
    of: VoxelQueries,
    state: In<u32>,
) {
    let Surfaces { index, dipoles } = surfaces;
    let VoxelQueries { undecided, reach, sums, margins } = of;
    let queries = state.get(state::UNDECIDED);
    if queries == 0 {
        return;
    }
    let (mut turn, parts) = (Turn::first(t, queries), index.shape.top() * split);
    while turn.part < parts {
        let (i, (level, corners)) = (turn.query, turn.of_level(split));
        turn.advance();
        let voxel = undecided.get(i);
        let far = f32::from_bits(reach.get(voxel));
        if far == DECIDED {
            continue;
        }
        let (_, cloud, _) = index.cell(voxel);
        let centre = Dipole::get(dipoles, voxel).centre;
        let part = solid_angle(surfaces, 1 - cloud, centre, level, 0, corners);
        let part = (part as u64).wrapping_add(1 << SUM_BITS);
        let sum = sums.fetch_add(i, part).wrapping_add(part);
        // A negative sum has borrowed one from the count.
        if sum.wrapping_add(1 << (SUM_BITS - 1)) >> SUM_BITS == parts as u64 {
            let sum = sum.wrapping_sub((parts as u64) << SUM_BITS) as i64;
            let iso = f32::from_bits(state.get(state::ISO + 1 - cloud));
            let open = state.get(state::OPEN + 1 - cloud) != 0;
            margins.store(voxel, margin_of(iso - from_sum(sum), far, open).to_bits());
        }
    }
}

/// What is known of each surface as a whole: area and closedness, from its coarsest level, by one
/// thread a cloud; and the median of its samples, by one thread a sample: the one in the middle
/// answers.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_judge_surfaces(
    t: Thread,
    shape: Shape,
    assume_closed: u32,
    dipoles: In<u32>,
    sums: In<u64>,
    state: Buf<u32>,
) {
    let i = t.global_id();
    if i < 2 {
        measure_surface(shape, i, assume_closed != 0, dipoles, state);
    }
    if i >= 2 * SAMPLES {
        return;
    }
    // A point outside the grid has no winding number: 0, which counts like any other.
    let (cloud, own) = (i / SAMPLES, sums.get(i) as i64);
    let mut less = 0;
    each_of!(cloud * SAMPLES, (cloud + 1) * SAMPLES, |j| (j, sums.get(j) as i64), |other| {
        less += (other.1 < own || other.1 == own && other.0 < i) as u32;
    });
    if less == SAMPLES / 2 {
        state.store(state::ISO + cloud, from_sum(own).to_bits());
    }
}
