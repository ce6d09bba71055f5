//! Which voxels both clouds occupy, and which cells of one cloud are free of the other.
//!
//! *Units* are the cells, of a saturated level, of which the other cloud is free while it occupies
//! their parent. No surface crosses a unit: it is inside or outside as a whole. Units and voxels
//! near the other surface are listed in [`MarksOut`]; once units have winding numbers, kernels read
//! them as [`UnitsIn`].
use super::index::Index;
use super::{NONE, mark, state};
use koel_simt::{Buf, In, Thread, kernel};

/// Points of each cloud at whose voxels its own winding number is sampled. These samples come
/// before the units among the winding numbers.
pub const SAMPLES: u32 = 256;

/// Where marks and lists go: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct MarksOut {
    /// The [mark] of each voxel.
    pub marks: Buf<u32>,
    /// The voxels near the other surface.
    pub near: Buf<u32>,
    /// The cells that are units.
    pub units: Buf<u32>,
    /// The place in `units` of each cell that is one.
    pub numbers: Buf<u32>,
    /// The [sum](super::winding::from_sum) of the winding number of each sample, then of each unit:
    /// 0 yet.
    pub windings: Buf<u64>,
}
/// Units and their winding numbers: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct UnitsIn {
    /// The [mark] of each voxel: which unit holds it.
    pub marks: In<u32>,
    /// The number of each cell that is a unit.
    pub numbers: In<u32>,
    /// The [sum](super::winding::from_sum) of the winding number of each sample, then of each unit,
    /// by number.
    pub windings: In<u64>,
}

/// Marks each voxel; lists the voxels close to the other surface, and the units.
///
/// One thread a cell, and one a sample. The order of the lists is not the same in every run; what
/// follows from them does not depend on it.
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
    // The finest level, from the cell's own and a saturated one up, at which the other cloud is
    // there; those below are free.
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
/// Marks only the voxels that both clouds occupy: all that the flood asks for. One thread a voxel.
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
