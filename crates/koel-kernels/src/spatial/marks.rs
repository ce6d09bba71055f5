//! Which voxels both clouds occupy, and which cells of one cloud are free of the other.
use super::index::Index;
use super::layout::Shape;
use super::winding::SAMPLES;
use super::{NONE, mark, state};
use koel_simt::{Buf, In, Thread, kernel};

/// Marks each voxel; lists the voxels close to the other surface, and the *units*: the cells, of a
/// saturated level, of which the other cloud is free while it occupies their parent. No surface
/// crosses a unit: it is inside or outside as a whole. `numbers`: of each unit its place in the
/// list; its winding number, and those of the samples, become 0.
///
/// One thread a cell, and one a sample. The order of the lists is not the same in every run; what
/// follows from them does not depend on it.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_mark(
    t: Thread,
    cells: u32,
    shape: Shape,
    words: In<u64>,
    bricks: In<u64>,
    codes: In<u32>,
    marks: Buf<u32>,
    near: Buf<u32>,
    units: Buf<u32>,
    numbers: Buf<u32>,
    windings: Buf<u64>,
    state: Buf<u32>,
) {
    let i = t.global_id();
    if i < 2 * SAMPLES {
        windings.store(i, 0);
    }
    if i >= cells || i >= state.load_relaxed(state::FIRST_CELL + 2 * shape.levels()) {
        return;
    }
    let (level, cloud, key) = shape.decode(codes.get(i));
    let (index, other) = (Index { shape, words, bricks }, 1 - cloud);
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
    shape: Shape,
    words: In<u64>,
    bricks: In<u64>,
    codes: In<u32>,
    state: In<u32>,
    marks: Buf<u32>,
) {
    let i = t.global_id();
    if i >= voxels || i >= state.get(state::FIRST_CELL + 2) {
        return;
    }
    let (_, cloud, key) = shape.decode(codes.get(i));
    let shared = Index { shape, words, bricks }.find(0, 1 - cloud, key) != NONE;
    marks.store(i, if shared { mark::INTERSECTION } else { mark::NEAR });
}
