//! Surface area per point: the denser the points, the less area each stands for.
//!
//! At the level whose cells hold about 24 points, nearly every cell that the surface crosses is
//! occupied. Averaged over all positions of the surface, a cell of side h with mean normal n
//! contains the area h^2 / |n|_1, whatever the sign of the normal.
use super::index::Index;
use super::layout::cell_of;
use super::sums::Sums;
use super::{NONE, state};
use koel_kernels::math::sqrt;
use koel_simt::{Buf, In, Thread, kernel};

/// Bins in the histogram of areas: 8 per octave, from 2^-24 to 2^24 voxel faces per point.
pub const BINS: u32 = 48 * 8;
const FIRST_BIN: u32 = (127 - 24) << 3;
/// Maximum area of a point, in medians. Limits outliers, which have few neighbours.
const MAX_MEDIANS: f32 = 8.0;

/// Measures each cell of its cloud's area level: surface area and number of points, stored next to
/// each other as `f32`.
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
    // Without normals, assume that they are evenly distributed: |n|_1 is 1.5 on average.
    let mean = if taxicab > 0.5 * points { taxicab / points } else { 1.5 };
    measured.store(2 * i, (side(level) * side(level) / mean).to_bits());
    measured.store(2 * i + 1, points.to_bits());
}
/// Returns the side of a cell in voxels.
#[inline(always)]
pub fn side(level: u32) -> f32 {
    (1u32 << level) as f32
}

/// Output of the areas of points: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct AreasOut {
    /// Area per point in each cell of its cloud's area level (`f32`, voxel faces).
    pub areas: Buf<u32>,
    /// Number of points by area: [`BINS`] words per cloud.
    pub histogram: Buf<u32>,
}

/// Computes the area per point for each cell of its cloud's area level, from the cell and its
/// neighbours, and a histogram of it over the points.
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
    // Cells of which the surface only cuts a corner stay empty. The occupied share is an
    // experimental fit.
    let density = points / around;
    let occupied = 1.0 - 0.48 / sqrt(if density > 4.0 { density } else { 4.0 });
    let of_point = area / points / occupied;
    areas.store(i, of_point.to_bits());
    let bin = (of_point.to_bits() >> 20).saturating_sub(FIRST_BIN);
    let bin = if bin < BINS { bin } else { BINS - 1 };
    histogram.fetch_add(cloud * BINS + bin, f32::from_bits(measured.get(2 * i + 1)) as u32);
}

/// Sets the cap to `MAX_MEDIANS` times the median over the points. One thread per cloud and bin;
/// the thread whose bin holds the median writes the cap.
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

/// Returns the area per point in a voxel.
#[inline(always)]
#[track_caller]
pub fn area_at(index: Index, cloud: u32, key: u32, areas: In<u32>, state: In<u32>) -> f32 {
    let level = state.get(state::AREA_LEVEL + cloud);
    let cell = index.find(level, cloud, key >> (3 * level));
    let area = if cell == NONE { 0.0 } else { f32::from_bits(areas.get(cell)) };
    let cap = f32::from_bits(state.get(state::AREA_CAP + cloud));
    if area < cap { area } else { cap }
}
