//! Fills the space inside a cloud, for Booleans: one bit per voxel, in key order.
use super::dipoles::Surfaces;
use super::layout::cell_of;
use super::winding::{finest_for, winding_number};
use super::{NONE, state};
use koel_simt::{Buf, In, Thread, kernel};

/// Sets the bits of all voxels whose centres are inside the surface of a cloud. One thread per
/// octant of each occupied cell of level 1 and above, and per occupied voxel: an octant that is
/// free of the cloud is inside or outside as a whole. (A free cell of the coarsest level touches
/// the grid's border, so it is outside.) The caller clears `inside`.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_fill(
    t: Thread,
    cells: u32,
    cloud: u32,
    surfaces: Surfaces,
    state: In<u32>,
    inside: Buf<u32>,
) {
    let index = surfaces.index;
    let (i, part) = (t.global_id() >> 3, t.global_id() & 7);
    if i >= cells || i >= state.get(state::FIRST_CELL + 2 * index.shape.levels()) {
        return;
    }
    let (level, of_cloud, key) = index.cell(i);
    if of_cloud != cloud || level == 0 && part != 0 {
        return;
    }
    let (level, key) = if level == 0 {
        (0, key)
    } else if index.find(level - 1, cloud, key << 3 | part) == NONE {
        (level - 1, key << 3 | part)
    } else {
        return; // an occupied octant has its own threads
    };
    let half = 0.5 * (1u32 << level) as f32;
    let centre = cell_of(key).map(|c| (c << level) as f32 + half);
    let iso = f32::from_bits(state.get(state::ISO + cloud));
    if winding_number(surfaces, cloud, centre, finest_for(level)) <= iso {
        return;
    }
    // The voxels of a cell have contiguous keys.
    let (first, count) = (key << (3 * level), 1u32 << (3 * level));
    if count < 32 {
        inside.fetch_or(first >> 5, ((1u32 << count) - 1) << (first & 31));
        return;
    }
    let mut word = first >> 5;
    while word < (first + count) >> 5 {
        inside.store(word, u32::MAX);
        word += 1;
    }
}
