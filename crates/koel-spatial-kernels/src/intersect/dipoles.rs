//! Dipoles, oriented pieces of surface: the mean position of a cell's points, and area times
//! normal.
use super::area::area_at;
use super::index::Index;
use super::layout::{Shape, cell_of};
use super::state;
use super::sums::Sums;
use koel_kernels::math::length;
use koel_simt::{Buf, In, Thread, U32x4, kernel, unroll};

/// A surface counts as open if |sum of dipoles| / area exceeds this. In experiments closed surfaces
/// had at most 0.05, open scans at least 0.1.
pub const OPEN_ABOVE: f32 = 0.08;

/// The surface in an occupied cell: eight words.
#[derive(Clone, Copy)]
pub struct Dipole {
    /// Centre of the surface, in voxels.
    pub centre: [f32; 3],
    /// Area, in voxel faces.
    pub area: f32,
    /// Sum of area times normal.
    pub normal: [f32; 3],
    /// Number of points.
    pub count: u32,
}
/// Words of a [`Dipole`].
pub const WORDS: u32 = 8;
impl Dipole {
    const NOTHING: Dipole = Dipole { centre: [0.0; 3], area: 0.0, normal: [0.0; 3], count: 0 };
    /// Adds another dipole. The centre becomes a sum weighted by area.
    #[inline(always)]
    fn add(&mut self, d: Dipole) {
        unroll::<3>(|a| {
            self.centre[a] += d.area * d.centre[a];
            self.normal[a] += d.normal[a];
        });
        self.area += d.area;
        self.count += d.count;
    }
    /// Divides the centre by the area, after all dipoles have been added.
    #[inline(always)]
    fn centred(mut self) -> Dipole {
        unroll::<3>(|a| self.centre[a] /= self.area);
        self
    }
    /// Reads the dipole of a cell.
    #[inline(always)]
    #[track_caller]
    pub fn get(dipoles: In<u32>, cell: u32) -> Dipole {
        Dipole::of(dipoles.x4().get(2 * cell).0, dipoles.x4().get(2 * cell + 1).0)
    }
    /// Reads only the number of points of a cell.
    #[inline(always)]
    #[track_caller]
    pub fn count(dipoles: In<u32>, cell: u32) -> u32 {
        dipoles.get(WORDS * cell + WORDS - 1)
    }
    #[inline(always)]
    fn of(a: [u32; 4], b: [u32; 4]) -> Dipole {
        let f = f32::from_bits;
        Dipole {
            centre: [f(a[0]), f(a[1]), f(a[2])],
            area: f(a[3]),
            normal: [f(b[0]), f(b[1]), f(b[2])],
            count: b[3],
        }
    }
    #[inline(always)]
    #[track_caller]
    fn store(self, dipoles: Buf<u32>, cell: u32) {
        let ([x, y, z], [u, v, w]) = (self.centre.map(f32::to_bits), self.normal.map(f32::to_bits));
        dipoles.x4().store(2 * cell, U32x4([x, y, z, self.area.to_bits()]));
        dipoles.x4().store(2 * cell + 1, U32x4([u, v, w, self.count]));
    }
}

/// Both surfaces as dipoles: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Surfaces {
    /// Index of the occupied cells.
    pub index: Index,
    /// [`Dipole`] of each cell.
    pub dipoles: In<u32>,
}

/// Input for the dipoles of voxels: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SumsIn {
    /// [`Sums`] of each voxel.
    pub sums: In<u32>,
    /// Area per point in each cell of its cloud's area level.
    pub areas: In<u32>,
}

/// Computes the dipole of each voxel.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_dipoles(
    t: Thread,
    voxels: u32,
    index: Index,
    of: SumsIn,
    state: In<u32>,
    dipoles: Buf<u32>,
) {
    let SumsIn { sums, areas } = of;
    let i = t.global_id();
    if i >= voxels || i >= state.get(state::FIRST_CELL + 2) {
        return;
    }
    let (_, cloud, key) = index.cell(i);
    let area = area_at(index, cloud, key, areas, state);
    let s = Sums::get(sums, i);
    let (corner, points) = (cell_of(key), s.count as f32);
    let mut d = Dipole { centre: [0.0; 3], area: area * points, normal: [0.0; 3], count: s.count };
    unroll::<3>(|a| {
        d.centre[a] = corner[a] as f32 + s.place[a] / points;
        d.normal[a] = area * s.normal[a];
    });
    d.store(dipoles, i);
}

/// Levels whose dipoles are summed: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Levels {
    /// First level, at least 1.
    pub first: u32,
    /// Number of levels, 1 or 2.
    pub count: u32,
}

/// Computes the dipoles of one or two levels from those of the level below. One thread per cell.
/// Two levels at once save a launch; each cell of the second level sums those of the first again,
/// in the same order.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_sum_dipoles(
    t: Thread,
    cells: u32,
    levels: Levels,
    index: Index,
    state: In<u32>,
    dipoles: Buf<u32>,
) {
    let Levels { first: level, count } = levels;
    let i = state.get(state::FIRST_CELL + 2 * level) + t.global_id();
    if t.global_id() >= cells || i >= state.get(state::FIRST_CELL + 2 * (level + count)) {
        return;
    }
    let (own, cloud, key) = index.cell(i);
    if own == level {
        sum_of_children(index, own, cloud, key, dipoles).store(dipoles, i);
        return;
    }
    let mut sum = Dipole::NOTHING;
    let mut children = index.brick(level, cloud, key >> 3).cells >> (key << 3 & 63) & 255;
    while children != 0 {
        let child = key << 3 | children.trailing_zeros();
        children &= children - 1;
        sum.add(sum_of_children(index, level, cloud, child, dipoles));
    }
    sum.centred().store(dipoles, i);
}
/// Returns the dipole of a cell, from those of the level below.
#[inline(always)]
#[track_caller]
fn sum_of_children(index: Index, level: u32, cloud: u32, key: u32, dipoles: Buf<u32>) -> Dipole {
    // The children are contiguous, in one brick.
    let brick = index.brick(level - 1, cloud, key >> 3);
    let first_bit = key << 3 & 63;
    let first = brick.number(first_bit);
    let end = first + (brick.cells >> first_bit & 255).count_ones();
    let mut sum = Dipole::NOTHING;
    each_of!(
        first,
        end,
        |child| Dipole::of(dipoles.x4().load(2 * child).0, dipoles.x4().load(2 * child + 1).0),
        |d| { sum.add(d) }
    );
    sum.centred()
}

/// Measures area and closedness of a cloud, from its coarsest level.
#[inline(always)]
#[track_caller]
pub fn measure_surface(
    shape: Shape,
    cloud: u32,
    assume_closed: bool,
    dipoles: In<u32>,
    state: Buf<u32>,
) {
    let (mut area, mut normal) = (0.0, [0.0; 3]);
    let first = state.load(state::FIRST_CELL + 2 * shape.top() + cloud);
    let end = state.load(state::FIRST_CELL + 2 * shape.top() + cloud + 1);
    each_of!(first, end, |cell| Dipole::get(dipoles, cell), |d| {
        area += d.area;
        unroll::<3>(|a| normal[a] += d.normal[a]);
    });
    let closedness = if area > 0.0 { length(normal) / area } else { 1.0 };
    state.store(state::AREA + cloud, area.to_bits());
    state.store(state::CLOSEDNESS + cloud, closedness.to_bits());
    state.store(state::OPEN + cloud, (!assume_closed && closedness > OPEN_ABOVE) as u32);
}
