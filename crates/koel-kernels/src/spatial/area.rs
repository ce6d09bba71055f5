//! How much surface a point stands for: where points lie dense each stands for less.
//!
//! At the level whose cells hold some 24 points nearly every cell that the surface crosses is
//! occupied, and a cell of side h with mean normal n holds h^2 / |n|_1 of it on average over all
//! places of the surface: independent of the normal's sign.
use super::index::Index;
use super::layout::cell_of;
use super::sums::Sums;
use super::{NONE, state};
use crate::math::sqrt;
use koel_simt::{Buf, In, Thread, kernel};

/// Bins of the histogram of areas: 8 an octave, from 2^-24 to 2^24 voxel faces a point.
pub const BINS: u32 = 48 * 8;
const FIRST_BIN: u32 = (127 - 24) << 3;
/// The most that a point may stand for, in medians: outliers lie alone.
const MAX_MEDIANS: f32 = 8.0;

/// For each cell of its cloud's area level: its surface and its points, side by side as `f32`.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_measure_cells(
    t: Thread,
    cells: u32,
    index: Index,
    sums: In<u32>,
    state: In<u32>,
    measured: Buf<u32>,
) {
    let i = t.global_id();
    if i >= cells || i >= state.get(state::FIRST_CELL + 2 * index.shape.levels()) {
        return;
    }
    let (level, cloud, key) = index.cell(i);
    if level != state.get(state::AREA_LEVEL + cloud) {
        return;
    }
    let mut voxel = index.rank(0, cloud, key << (3 * level));
    let end = index.rank(0, cloud, (key + 1) << (3 * level));
    let (mut count, mut taxicab) = (0, 0.0);
    while voxel < end {
        let s = Sums::get(sums, voxel);
        count += s.count;
        taxicab += s.taxicab;
        voxel += 1;
    }
    let points = count as f32;
    // Without normals, as if they were spread evenly: 1.5 on average.
    let mean = if taxicab > 0.5 * points { taxicab / points } else { 1.5 };
    measured.store(2 * i, (side(level) * side(level) / mean).to_bits());
    measured.store(2 * i + 1, points.to_bits());
}
/// The side of a cell in voxels.
#[inline(always)]
pub fn side(level: u32) -> f32 {
    (1u32 << level) as f32
}

/// Where the areas of points go: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct AreasOut {
    /// The area of a point in each cell of its cloud's area level (`f32`, voxel faces).
    pub areas: Buf<u32>,
    /// The points of each cloud by that area: [`BINS`] words a cloud.
    pub histogram: Buf<u32>,
}

/// For each cell of its cloud's area level: the area of a point, from the cell and its neighbours;
/// and a histogram of it over the points.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_area_of_points(
    t: Thread,
    cells: u32,
    index: Index,
    measured: In<u32>,
    state: In<u32>,
    to: AreasOut,
) {
    let AreasOut { areas, histogram } = to;
    let i = t.global_id();
    if i >= cells || i >= state.get(state::FIRST_CELL + 2 * index.shape.levels()) {
        return;
    }
    let (level, cloud, key) = index.cell(i);
    if level != state.get(state::AREA_LEVEL + cloud) {
        return;
    }
    let c = cell_of(key).map(|c| c as i32);
    let (mut area, mut points, mut around) = (0.0, 0.0, 0.0);
    let near = index.cells_in(level, cloud, c.map(|c| c - 1), c.map(|c| c + 1), None);
    each_cell!(near, |j| (measured.get(2 * j), measured.get(2 * j + 1)), |cell| {
        area += f32::from_bits(cell.0);
        points += f32::from_bits(cell.1);
        around += 1.0;
    });
    // Cells of which the surface only cuts a corner stay empty: the occupied share was fitted in
    // experiments.
    let density = points / around;
    let occupied = 1.0 - 0.48 / sqrt(if density > 4.0 { density } else { 4.0 });
    let of_point = area / points / occupied;
    areas.store(i, of_point.to_bits());
    let bin = (of_point.to_bits() >> 20).saturating_sub(FIRST_BIN);
    let bin = if bin < BINS { bin } else { BINS - 1 };
    histogram.fetch_add(cloud * BINS + bin, f32::from_bits(measured.get(2 * i + 1)) as u32);
}

/// The cap: so many times the median of the points. One thread a bin of each cloud; the bin of the
/// median answers.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_cap_area(t: Thread, histogram: In<u32>, state: Buf<u32>) {
    let i = t.global_id();
    if i >= 2 * BINS {
        return;
    }
    let (cloud, bin) = (i / BINS, i % BINS);
    let (mut before, mut all) = (0, 0);
    each_of!(0, BINS, |j| (j, histogram.get(cloud * BINS + j)), |of_bin| {
        before += if of_bin.0 < bin { of_bin.1 } else { 0 };
        all += of_bin.1;
    });
    let here = histogram.get(i);
    if here != 0 && before <= all / 2 && all / 2 < before + here {
        let median = f32::from_bits((FIRST_BIN + bin) << 20 | 1 << 19);
        state.store(state::AREA_CAP + cloud, (MAX_MEDIANS * median).to_bits());
    }
}

/// The area of a point in a voxel.
#[inline(always)]
#[track_caller]
pub fn area_at(index: Index, cloud: u32, key: u32, areas: In<u32>, state: In<u32>) -> f32 {
    let level = state.get(state::AREA_LEVEL + cloud);
    let cell = index.find(level, cloud, key >> (3 * level));
    let area = if cell == NONE { 0.0 } else { f32::from_bits(areas.get(cell)) };
    let cap = f32::from_bits(state.get(state::AREA_CAP + cloud));
    if area < cap { area } else { cap }
}
