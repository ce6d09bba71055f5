//! Oriented pieces of surface: where a cell's points are on average, and their area times normal.
use super::area::area_at;
use super::index::Index;
use super::layout::{Shape, cell_of};
use super::math::length;
use super::state;
use super::sums::Sums;
use koel_simt::{Buf, In, Thread, U32x4, kernel, unroll};

/// Above this |sum of dipoles| / area a surface counts as open. Closed ones had at most 0.05, open scans 0.1 and more.
pub const OPEN_ABOVE: f32 = 0.08;

/// What is known of an occupied cell: eight words.
#[derive(Clone, Copy)]
pub struct Dipole {
    /// The centre of its surface, in voxels.
    pub centre: [f32; 3],
    /// Area, in voxel faces.
    pub area: f32,
    /// Sum of area times normal.
    pub normal: [f32; 3],
    /// Points.
    pub count: u32,
}
/// Words of a [`Dipole`].
pub const WORDS: u32 = 8;
impl Dipole {
    /// Reads that of a cell.
    #[inline(always)]
    #[track_caller]
    pub fn get(dipoles: In<u32>, cell: u32) -> Dipole {
        Dipole::of(dipoles.x4().get(2 * cell).0, dipoles.x4().get(2 * cell + 1).0)
    }
    #[inline(always)]
    fn of(a: [u32; 4], b: [u32; 4]) -> Dipole {
        let f = f32::from_bits;
        Dipole { centre: [f(a[0]), f(a[1]), f(a[2])], area: f(a[3]), normal: [f(b[0]), f(b[1]), f(b[2])], count: b[3] }
    }
    #[inline(always)]
    #[track_caller]
    fn store(self, dipoles: Buf<u32>, cell: u32) {
        let ([x, y, z], [u, v, w]) = (self.centre.map(f32::to_bits), self.normal.map(f32::to_bits));
        dipoles.x4().store(2 * cell, U32x4([x, y, z, self.area.to_bits()]));
        dipoles.x4().store(2 * cell + 1, U32x4([u, v, w, self.count]));
    }
}

/// The dipole of each voxel.
#[kernel(threads = 128, independent)]
pub fn spatial_dipoles(
    t: Thread,
    voxels: u32,
    shape: Shape,
    words: In<u64>,
    bricks: In<u64>,
    codes: In<u32>,
    sums: In<u32>,
    areas: In<u32>,
    state: In<u32>,
    dipoles: Buf<u32>,
) {
    let i = t.global_id();
    if i >= voxels || i >= state.get(state::FIRST_CELL + 2) {
        return;
    }
    let (_, cloud, key) = shape.decode(codes.get(i));
    let area = area_at(Index { shape, words, bricks }, cloud, key, areas, state);
    let s = Sums::get(sums, i);
    let (corner, points) = (cell_of(key), s.count as f32);
    let mut d = Dipole { centre: [0.0; 3], area: area * points, normal: [0.0; 3], count: s.count };
    unroll::<3>(|a| {
        d.centre[a] = corner[a] as f32 + s.place[a] / points;
        d.normal[a] = area * s.normal[a];
    });
    d.store(dipoles, i);
}

/// The dipoles of a level from those of the level below. One thread a cell.
#[kernel(threads = 64, independent)]
pub fn spatial_sum_dipoles(
    t: Thread,
    cells: u32,
    level: u32,
    shape: Shape,
    words: In<u64>,
    bricks: In<u64>,
    codes: In<u32>,
    state: In<u32>,
    dipoles: Buf<u32>,
) {
    let i = state.get(state::FIRST_CELL + 2 * level) + t.global_id();
    if t.global_id() >= cells || i >= state.get(state::FIRST_CELL + 2 * level + 2) {
        return;
    }
    let (_, cloud, key) = shape.decode(codes.get(i));
    let index = Index { shape, words, bricks };
    // The children lie side by side, in one brick.
    let brick = index.brick(level - 1, cloud, key >> 3);
    let first_bit = key << 3 & 63;
    let children = (brick.cells >> first_bit & 255).count_ones();
    let mut child = brick.number(first_bit);
    let end = child + children;
    let mut sum = Dipole { centre: [0.0; 3], area: 0.0, normal: [0.0; 3], count: 0 };
    while child < end {
        let d = Dipole::of(dipoles.x4().load(2 * child).0, dipoles.x4().load(2 * child + 1).0);
        unroll::<3>(|a| {
            sum.centre[a] += d.area * d.centre[a];
            sum.normal[a] += d.normal[a];
        });
        sum.area += d.area;
        sum.count += d.count;
        child += 1;
    }
    unroll::<3>(|a| sum.centre[a] /= sum.area);
    sum.store(dipoles, i);
}

/// Area and closedness of each cloud, from its coarsest level. One thread a cloud.
#[kernel(threads = 32, independent)]
pub fn spatial_sum_surfaces(t: Thread, shape: Shape, assume_closed: u32, dipoles: In<u32>, state: Buf<u32>) {
    let cloud = t.global_id();
    if cloud >= 2 {
        return;
    }
    let (mut area, mut normal) = (0.0, [0.0; 3]);
    let mut cell = state.load(state::FIRST_CELL + 2 * shape.top() + cloud);
    let end = state.load(state::FIRST_CELL + 2 * shape.top() + cloud + 1);
    while cell < end {
        let d = Dipole::get(dipoles, cell);
        area += d.area;
        unroll::<3>(|a| normal[a] += d.normal[a]);
        cell += 1;
    }
    let closedness = if area > 0.0 { length(normal) / area } else { 1.0 };
    state.store(state::AREA + cloud, area.to_bits());
    state.store(state::CLOSEDNESS + cloud, closedness.to_bits());
    state.store(state::OPEN + cloud, (assume_closed == 0 && closedness > OPEN_ABOVE) as u32);
}
