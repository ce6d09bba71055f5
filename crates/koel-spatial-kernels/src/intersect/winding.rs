//! Generalised winding numbers of oriented points (Barill, Dickson, Schmidt, Levin and Jacobson
//! 2018), with the levels of the grid as the hierarchy: distant pieces of the surface count as one
//! dipole per cell, closer ones are resolved on finer levels.
use super::clouds::Groups;
use super::dipoles::{Dipole, Surfaces, measure_surface};
use super::index::{CORNERS, Cells};
use super::layout::{Shape, cell_of};
use super::margins::{DECIDED, margin_of};
use super::marks::SAMPLES;
use super::{NONE, state};
use core::ops::Range;
use koel_kernels::math::sqrt;
use koel_simt::{Buf, In, Thread, kernel, unroll};

/// Winding numbers times 4 pi are summed as integers in units of 1 / this, because the parts arrive
/// in any order.
const UNIT: f32 = 4_294_967_296.0;
/// Maximum magnitude of a part (about 5,000 windings). All parts together, 8 per level, stay below
/// 2^[`SUM_BITS`] units.
const MAX_OF_PART: f32 = 65_536.0;
/// Bits of a sum, including its sign. The bits above count the parts added.
const SUM_BITS: u32 = 57;
const FOUR_PI: f32 = 4.0 * core::f32::consts::PI;

/// Returns the part that one level adds to the [sum](from_sum) of the winding number of `cloud` at
/// `x`. It covers the cells around the parent of x's cell without the 27 cells around x's own,
/// which finer levels resolve; on the level `finest` it covers all of them. `corners` selects among
/// the up to eight bricks that contain these cells. The sum over all corners does not depend on how
/// they are split.
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
    let cell = x.map(|c| (c as u32 >> level) as i32);
    let last = level == finest;
    let near = (cell.map(|c| c - 1), cell.map(|c| c + 1));
    let but = if last { None } else { Some(near) };
    let around = around_parent(surfaces, cloud, level, cell.map(|c| c >> 1), but);
    angle_of(surfaces, x, around, if last { softening(level) } else { 0.0 }, corners)
}
/// Returns the cells of a level around a cell of the level above, without those of a box.
#[inline(always)]
fn around_parent(
    surfaces: Surfaces,
    cloud: u32,
    level: u32,
    parent: [i32; 3],
    but: Option<([i32; 3], [i32; 3])>,
) -> Cells {
    let (from, to) = (parent.map(|c| 2 * c - 2), parent.map(|c| 2 * c + 3));
    surfaces.index.cells_in(level, cloud, from, to, but)
}
/// Returns half a cell of a level, squared: spreads out the dipoles of the finest level.
#[inline(always)]
fn softening(level: u32) -> f32 {
    0.25 * ((1u32 << level) as f32) * ((1u32 << level) as f32)
}
/// Returns the part that cells add to the [sum](from_sum) of the winding number at `x`.
#[inline(always)]
#[track_caller]
fn angle_of(
    surfaces: Surfaces,
    x: [f32; 3],
    around: Cells,
    softening: f32,
    corners: Range<u32>,
) -> i64 {
    let (mut all, mut corner) = (0, corners.start);
    while corner < corners.end {
        let (cells, mut sum) = (around.corner(corner), 0.0);
        corner += 1;
        each_cell!(corner cells, |c| Dipole::get(surfaces.dipoles, c), |d| {
            let v = [d.centre[0] - x[0], d.centre[1] - x[1], d.centre[2] - x[2]];
            let r2 = v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + softening;
            let flux = v[0] * d.normal[0] + v[1] * d.normal[1] + v[2] * d.normal[2];
            sum += flux / (r2 * sqrt(r2));
        });
        all += fixed(sum);
    }
    all
}
/// Returns a part in the units of sums.
#[inline(always)]
fn fixed(part: f32) -> i64 {
    (part.clamp(-MAX_OF_PART, MAX_OF_PART) * UNIT) as i64
}

/// Interpolates sums at the centres of the octants of a cell for the centres of the octants of one
/// of them: linearly along each axis, between and beyond the given ones.
#[inline(always)]
fn interpolated(sums: [i64; 8], part: [u32; 3]) -> [i64; 8] {
    let (mut values, mut found) = ([0.0; 8], [0; 8]);
    unroll::<8>(|o| values[o] = sums[o] as f32);
    unroll::<3>(|a| {
        let (bit, mut along) = (4 >> a, [0.0; 8]);
        // With the given centres at 0 and 1, the others are at -0.25, 0.25, 0.75 and 1.25.
        unroll::<8>(|o| {
            let upper = if o & bit == 0 { 0.25 } else { 0.75 };
            let place = part[a] as f32 - 0.5 + upper;
            along[o] = values[o & !bit] + place * (values[o | bit] - values[o & !bit]);
        });
        values = along;
    });
    unroll::<8>(|o| found[o] = values[o] as i64);
    found
}

/// Winding numbers at the centres of the eight octants of a cell. Their sums share the cells that
/// they add up, which are read once.
#[derive(Clone, Copy)]
pub struct Octants {
    cell: [i32; 3],
    level: u32,
    /// Centres, by axis.
    centres: [[f32; 8]; 3],
    /// [Sum](from_sum) of each octant, in key order.
    sums: [i64; 8],
}
impl Octants {
    /// Adds up the surface that is far from a cell of level 1 or above: all cells of its level and
    /// the levels above, except those around its own.
    #[inline(always)]
    #[track_caller]
    pub fn far(surfaces: Surfaces, cloud: u32, level: u32, key: u32) -> Octants {
        let cell = cell_of(key).map(|c| c as i32);
        let mut octants = Octants::at(level, cell, [0; 8]);
        // On the coarsest level all cells are near.
        let mut above = surfaces.index.shape.top();
        while above > level {
            above -= 1;
            octants.add_level(surfaces, cloud, above, cell.map(|c| c >> (above - level)));
        }
        octants
    }
    #[inline(always)]
    fn at(level: u32, cell: [i32; 3], sums: [i64; 8]) -> Octants {
        let quarter = 0.25 * (1u32 << level) as f32;
        let mut centres = [[0.0; 8]; 3];
        unroll::<8>(|o| {
            let part = [o >> 2, o >> 1 & 1, o & 1];
            unroll::<3>(|a| {
                centres[a][o] = (4 * cell[a] + 1 + 2 * part[a] as i32) as f32 * quarter
            });
        });
        // A CPU adds to all octants at once only if it does not know that they share coordinates.
        #[cfg(not(target_arch = "nvptx64"))]
        let centres = core::hint::black_box(centres);
        Octants { cell, level, centres, sums }
    }
    /// Adds the cells of a level around the parent of a cell, except those around the cell.
    #[inline(always)]
    #[track_caller]
    fn add_level(&mut self, surfaces: Surfaces, cloud: u32, level: u32, cell: [i32; 3]) {
        let near = (cell.map(|c| c - 1), cell.map(|c| c + 1));
        let around = around_parent(surfaces, cloud, level, cell.map(|c| c >> 1), Some(near));
        self.add(surfaces, around, 0.0);
    }
    /// Adds the parts of cells.
    #[inline(always)]
    #[track_caller]
    fn add(&mut self, surfaces: Surfaces, around: Cells, softening: f32) {
        let [x, y, z] = self.centres;
        let mut corner = 0;
        while corner < CORNERS {
            let (cells, mut sums) = (around.corner(corner), [0.0f32; 8]);
            corner += 1;
            each_cell!(corner cells, |c| Dipole::get(surfaces.dipoles, c), |d| {
                unroll::<8>(|o| {
                    let v = [d.centre[0] - x[o], d.centre[1] - y[o], d.centre[2] - z[o]];
                    let r2 = v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + softening;
                    let flux = v[0] * d.normal[0] + v[1] * d.normal[1] + v[2] * d.normal[2];
                    sums[o] += flux / (r2 * sqrt(r2));
                });
            });
            unroll::<8>(|o| self.sums[o] += fixed(sums[o]));
        }
    }
    /// Returns a bit for each voxel in an octant of a cell of level 2: whether its winding number
    /// is above a value. `self` has what is [far](Self::far) from the cell, which is interpolated.
    #[inline(always)]
    #[track_caller]
    pub fn voxels_above(self, surfaces: Surfaces, cloud: u32, octant: u32, value: f32) -> u32 {
        let part = [octant >> 2, octant >> 1 & 1, octant & 1];
        let sums = interpolated(self.sums, part);
        let cell = [0, 1, 2].map(|a| 2 * self.cell[a] + part[a] as i32);
        let mut voxels = Octants::at(1, cell, sums);
        voxels.add_level(surfaces, cloud, 1, cell);
        voxels.add(surfaces, around_parent(surfaces, cloud, 0, cell, None), softening(0));
        let mut bits = 0;
        unroll::<8>(|o| bits |= ((from_sum(voxels.sums[o]) > value) as u32) << o);
        bits
    }
    /// Adds, to what is [far](Self::far) from a cell of level 2 or above, what its octants share on
    /// the level below.
    #[inline(always)]
    #[track_caller]
    pub fn add_shared(&mut self, surfaces: Surfaces, cloud: u32) {
        let near = (self.cell.map(|c| 2 * c - 1), self.cell.map(|c| 2 * c + 2));
        let around = around_parent(surfaces, cloud, self.level - 1, self.cell, Some(near));
        self.add(surfaces, around, 0.0);
    }
    /// Returns the winding number of an octant that is free of the surface and has several voxels,
    /// resolving what is near two levels finer. `self` has what the octants
    /// [share](Self::add_shared).
    #[inline(always)]
    #[track_caller]
    pub fn of_free(self, surfaces: Surfaces, cloud: u32, octant: u32) -> f32 {
        let (mut sum, mut x) = (0, [0.0; 3]);
        unroll::<8>(|o| {
            if o as u32 == octant {
                sum = self.sums[o];
                unroll::<3>(|a| x[a] = self.centres[a][o]);
            }
        });
        let part = [octant >> 2, octant >> 1 & 1, octant & 1];
        let (mut level, cell) = (self.level - 1, self.cell);
        let own = [0, 1, 2].map(|a| 2 * cell[a] + part[a] as i32);
        let around = surfaces.index.cells_in(
            level,
            cloud,
            cell.map(|c| 2 * c - 1),
            cell.map(|c| 2 * c + 2),
            Some((own.map(|c| c - 1), own.map(|c| c + 1))),
        );
        sum += angle_of(surfaces, x, around, 0.0, 0..CORNERS);
        let finest = finest_for(level);
        while level > finest {
            level -= 1;
            sum += solid_angle(surfaces, cloud, x, level, finest, 0..CORNERS);
        }
        from_sum(sum)
    }
}
/// Returns the winding number for a sum of parts.
#[inline(always)]
pub fn from_sum(sum: i64) -> f32 {
    sum as f32 / UNIT / FOUR_PI
}
/// Returns the finest level for the winding number of a free cell of a level.
#[inline(always)]
pub fn finest_for(level: u32) -> u32 {
    level.saturating_sub(2)
}

/// Voxels of the points: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PointVoxels {
    /// Number of each point's voxel, or [`NONE`].
    pub voxels: In<u32>,
    /// Numbers of point groups.
    pub groups: Groups,
}
impl PointVoxels {
    /// Returns the voxel of sample `i`, counted over both clouds. Samples are points evenly spaced
    /// in memory. They are points rather than voxels because noise and outliers occupy many voxels
    /// but few points.
    #[inline(always)]
    #[track_caller]
    fn sample(self, i: u32, state: In<u32>) -> u32 {
        let cloud = (i >= SAMPLES) as u32;
        let (first, n) = (self.groups.points(cloud).0, state.get(state::GIVEN + cloud));
        self.voxels.get(first + ((i % SAMPLES) as u64 * n as u64 / SAMPLES as u64) as u32)
    }
}

/// Position of a thread in the work, which is divided among any number of threads: all queries of
/// one part, then those of the next. A part is a level, or one of the bricks around the query on a
/// level.
#[derive(Clone, Copy)]
struct Turn {
    query: u32,
    part: u32,
    queries: u32,
    step: (u32, u32),
}
impl Turn {
    /// Returns the first item of a thread. `queries` is at least 1.
    #[inline(always)]
    fn first(t: Thread, queries: u32) -> Turn {
        let threads = t.grid_dim() * t.block_dim();
        // Avoids the panic for a divisor of 0, which cannot occur.
        let times = |n: u32| n.checked_div(queries).unwrap_or(0);
        let (part, ahead) = (times(t.global_id()), times(threads));
        let step = (ahead, threads - ahead * queries);
        Turn { query: t.global_id() - part * queries, part, queries, step }
    }
    /// Advances to the next item of the thread.
    #[inline(always)]
    fn advance(&mut self) {
        self.part += self.step.0;
        self.query += self.step.1;
        if self.query >= self.queries {
            self.query -= self.queries;
            self.part += 1;
        }
    }
    /// Returns the level and the corners of the part. `split` is the number of parts per level, 1
    /// or 8.
    #[inline(always)]
    fn of_level(self, split: u32) -> (u32, Range<u32>) {
        if split == 1 {
            (self.part, 0..CORNERS)
        } else {
            (self.part >> 3, self.part & 7..(self.part & 7) + 1)
        }
    }
}

/// Queries for the winding numbers of units: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct UnitQueries {
    /// Cells of the units.
    pub units: In<u32>,
    /// [Sum](from_sum) of each sample, then of each unit. Initially 0.
    pub sums: Buf<u64>,
}
/// Queries for the winding numbers of voxels: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct VoxelQueries {
    /// Numbers of the voxels.
    pub undecided: In<u32>,
    /// Distance of the other surface from each queried voxel (`f32`).
    pub reach: In<u32>,
    /// [Sum](from_sum) of each query, with the count of its parts. Initially 0.
    pub sums: Buf<u64>,
    /// Output of the margin of each voxel (`f32`).
    pub margins: Buf<u32>,
}

/// Computes winding numbers at the centres of cells: first of the samples of both clouds in their
/// own surface, then of the units in the other surface. The work is queries times levels times
/// `split` (1 or [`CORNERS`]), by any number of threads.
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
            (samples.sample(i, state), i / SAMPLES, 0)
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
/// Computes the winding numbers of undecided voxels in the other surface, down to the finest level,
/// and from them the margins. Skips voxels that are [`DECIDED`]. The work is queries times levels
/// times `split` (1 or [`CORNERS`]), by any number of threads. The thread that adds the last part
/// of a query has the complete sum and writes the margin.
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
        // A negative sum has borrowed 1 from the count; adding half a count undoes that.
        if sum.wrapping_add(1 << (SUM_BITS - 1)) >> SUM_BITS == parts as u64 {
            let sum = sum.wrapping_sub((parts as u64) << SUM_BITS) as i64;
            let iso = f32::from_bits(state.get(state::ISO + 1 - cloud));
            let open = state.get(state::OPEN + 1 - cloud) != 0;
            margins.store(voxel, margin_of(iso - from_sum(sum), far, open).to_bits());
        }
    }
}

/// Measures each surface as a whole. One thread per cloud computes area and closedness from the
/// coarsest level. One thread per sample ranks its sample; the thread of the median writes it.
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
    // A point outside the grid has winding number 0, which counts like any other.
    let (cloud, own) = (i / SAMPLES, sums.get(i) as i64);
    let mut less = 0;
    each_of!(cloud * SAMPLES, (cloud + 1) * SAMPLES, |j| (j, sums.get(j) as i64), |other| {
        less += (other.1 < own || other.1 == own && other.0 < i) as u32;
    });
    if less == SAMPLES / 2 {
        state.store(state::ISO + cloud, from_sum(own).to_bits());
    }
}

#[cfg(test)]
mod tests {
    use super::super::index::Index;
    use super::*;
    use koel_kernels::hash::mix::splitmix_at;
    use koel_simt::Arg;

    /// Random cells of all levels of a cloud, each with a dipole in it.
    struct Random {
        words: Vec<u64>,
        bricks: Vec<u64>,
        dipoles: Vec<u32>,
        shape: Shape,
    }
    impl Random {
        fn new(shape: Shape, seed: u64) -> Random {
            let word = |i: u32| u64::from(32 * i) << 32 | 0xFFFF_FFFF;
            let words = (0..shape.words).map(word).collect();
            let (mut bricks, mut dipoles) = (vec![], vec![]);
            for brick in 0..32 * shape.words {
                let cells = splitmix_at(seed, 2 * brick) & splitmix_at(seed, 2 * brick + 1);
                bricks.extend([cells, dipoles.len() as u64 / 8]);
                dipoles.resize(dipoles.len() + 8 * cells.count_ones() as usize, 0);
            }
            for level in 0..shape.levels() {
                for key in 0..shape.side(level).pow(3) {
                    let brick = 2 * (32 * shape.region(level, 0) + (key >> 6)) as usize;
                    let (cells, bit) = (bricks[brick], 1u64 << (key & 63));
                    if cells & bit == 0 {
                        continue;
                    }
                    let number = bricks[brick + 1] as u32 + (cells & (bit - 1)).count_ones();
                    let part =
                        |i: u32| (splitmix_at(seed + 1, 8 * number + i) >> 40) as f32 / 1.7e7;
                    let cell = cell_of(key);
                    let centre = [0, 1, 2].map(|a| (cell[a] as f32 + part(a as u32)) * side(level));
                    let normal = [3, 4, 5].map(|i| (part(i) - 0.5) * side(level) * side(level));
                    let [x, y, z] = centre.map(f32::to_bits);
                    let [u, v, w] = normal.map(f32::to_bits);
                    dipoles[8 * number as usize..][..8].copy_from_slice(&[
                        x,
                        y,
                        z,
                        1.0f32.to_bits(),
                        u,
                        v,
                        w,
                        1,
                    ]);
                }
            }
            Random { words, bricks, dipoles, shape }
        }
        fn surfaces(&self) -> Surfaces {
            // SAFETY: the arrays live as long as `self`, which the callers keep.
            unsafe {
                Surfaces {
                    index: Index {
                        words: In::new(&self.words).native(),
                        bricks: In::new(&self.bricks).native(),
                        codes: In::new(&[]).native(),
                        shape: self.shape,
                    },
                    dipoles: In::new(&self.dipoles).native(),
                }
            }
        }
    }
    fn side(level: u32) -> f32 {
        (1u32 << level) as f32
    }

    /// Products of linear functions of the coordinates are interpolated exactly.
    #[test]
    fn sums_are_interpolated_linearly_along_each_axis() {
        let value = |[x, y, z]: [f32; 3]| (3.0 + 2.0 * x) * (5.0 - y) * (7.0 + 4.0 * z);
        let bits = |o: usize| [o >> 2, o >> 1 & 1, o & 1].map(|bit| bit as f32);
        let sums =
            std::array::from_fn(|o| (64.0 * value(bits(o).map(|bit| 1.0 + 2.0 * bit))) as i64);
        for octant in 0..8 {
            let found = interpolated(sums, bits(octant).map(|bit| bit as u32));
            for (o, found) in found.into_iter().enumerate() {
                let (part, within) = (bits(octant), bits(o));
                let place = [0, 1, 2].map(|a| 2.0 * part[a] + 0.5 + within[a]);
                assert_eq!(found as f32, 64.0 * value(place), "{octant}, {o}");
            }
        }
    }
    /// The winding number of each octant is that of its centre on all levels, but for the order of
    /// additions; that of a voxel is close to it, because what is far is interpolated.
    #[test]
    fn octants_add_up_what_their_centres_do() {
        let shape = Shape::new(32).unwrap();
        for seed in 0..3 {
            let random = Random::new(shape, 10 * seed);
            let surfaces = random.surfaces();
            let winding_number = |level: u32, key: u32| {
                let (centre, finest) =
                    (cell_of(key).map(|c| (c as f32 + 0.5) * side(level)), finest_for(level));
                let part = |l| solid_angle(surfaces, 0, centre, l, finest, 0..CORNERS);
                from_sum((finest..shape.top()).map(part).sum::<i64>())
            };
            for level in 2..=shape.top() {
                for key in (0..shape.side(level).pow(3)).step_by(11) {
                    let mut octants = Octants::far(surfaces, 0, level, key);
                    for octant in (0..8).filter(|_| level == 2) {
                        let above = |value| octants.voxels_above(surfaces, 0, octant, value);
                        for voxel in 0..8 {
                            let expected = winding_number(0, (key << 3 | octant) << 3 | voxel);
                            assert_eq!(above(expected + 0.03) >> voxel & 1, 0, "{expected}");
                            assert_eq!(above(expected - 0.03) >> voxel & 1, 1, "{expected}");
                        }
                    }
                    octants.add_shared(surfaces, 0);
                    for octant in 0..8 {
                        let found = octants.of_free(surfaces, 0, octant);
                        let expected = winding_number(level - 1, key << 3 | octant);
                        let off = (found - expected).abs();
                        assert!(off <= 1e-5 * (1.0 + expected.abs()), "{found}, not {expected}");
                    }
                }
            }
        }
    }
}
