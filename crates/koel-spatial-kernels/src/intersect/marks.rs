//! Finds the voxels that both clouds occupy, and the cells of one cloud that are free of the other.
//!
//! A *unit* is a cell of a saturated level that is free of the other cloud, while its parent is
//! not. No surface crosses a unit: it is inside or outside as a whole. Units and voxels near the
//! other surface are listed in [`MarksOut`]. Once units have winding numbers, kernels read them as
//! [`UnitsIn`].
use super::index::Index;
use super::{NONE, mark, state};
use koel_simt::{Buf, In, Thread, kernel};

/// Samples per cloud: points at whose voxels the cloud's own winding number is evaluated. Among the
/// winding numbers the samples come before the units.
pub const SAMPLES: u32 = 256;

/// Output of marks and lists: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct MarksOut {
    /// [Mark](mark) of each voxel.
    pub marks: Buf<u32>,
    /// Voxels near the other surface.
    pub near: Buf<u32>,
    /// Cells that are units.
    pub units: Buf<u32>,
    /// Index in `units` of each cell that is a unit.
    pub numbers: Buf<u32>,
    /// [Sum](super::winding::from_sum) of the winding number of each sample, then of each unit.
    /// Set to 0.
    pub windings: Buf<u64>,
}
/// Units and their winding numbers: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct UnitsIn {
    /// [Mark](mark) of each voxel, which identifies the unit that contains it.
    pub marks: In<u32>,
    /// Number of each cell that is a unit.
    pub numbers: In<u32>,
    /// [Sum](super::winding::from_sum) of the winding number of each sample, then of each unit by
    /// number.
    pub windings: In<u64>,
}

/// Marks each voxel; lists the voxels near the other surface, and the units.
///
/// One thread per cell, and one per sample. The order of the lists differs between runs; the
/// results do not depend on it.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_mark(t: Thread, cells: u32, index: Index, to: MarksOut, state: Buf<u32>) {
    let MarksOut { marks, near, units, numbers, windings } = to;
    let shape = index.shape;
    let i = t.global_id();
    if i < 2 * SAMPLES {
        windings.store(i, 0);
    }
    if i >= cells || i >= state.load_relaxed(state::FIRST_CELL + 2 * shape.levels()) {
        return;
    }
    let (level, cloud, key) = index.cell(i);
    let other = 1 - cloud;
    let saturated = state.load_relaxed(state::SATURATED + other);
    // Find the finest level, from the coarser of the cell's own and the saturated one, at which the
    // other cloud is present. All levels below it are free.
    let first = if level > saturated { level } else { saturated };
    let mut met = first;
    while met <= shape.top() && index.find(met, other, key >> (3 * (met - level))) == NONE {
        met += 1;
    }
    if level >= saturated && met == level + 1 {
        let place = state.fetch_add(state::UNITS, 1);
        units.store(place, i);
        numbers.store(i, place);
        windings.store(2 * SAMPLES + place, 0);
    }
    if level != 0 {
        return;
    }
    if met > first {
        marks.store(i, mark::FREE + met - 1);
    } else if saturated == 0 || index.find(0, other, key) != NONE {
        marks.store(i, mark::INTERSECTION);
    } else {
        marks.store(i, mark::NEAR);
        let place = state.fetch_add(state::NEAR, 1);
        near.store(place, i);
    }
}
/// Marks only the voxels that both clouds occupy, which is all that the flood needs. One thread per
/// voxel.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_mark_intersections(
    t: Thread,
    voxels: u32,
    index: Index,
    state: In<u32>,
    marks: Buf<u32>,
) {
    let i = t.global_id();
    if i >= voxels || i >= state.get(state::FIRST_CELL + 2) {
        return;
    }
    let (_, cloud, key) = index.cell(i);
    let shared = index.find(0, 1 - cloud, key) != NONE;
    marks.store(i, if shared { mark::INTERSECTION } else { mark::NEAR });
}
