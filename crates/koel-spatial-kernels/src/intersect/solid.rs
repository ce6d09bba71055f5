//! Fills the space inside both clouds, for Booleans: one bit per voxel, in key order.
use super::dipoles::Surfaces;
use super::state;
use super::winding::Octants;
use koel_simt::{Buf, In, Thread, kernel};

/// Sets the bits of all voxels whose centres are inside the surface of a cloud: those of A, then
/// those of B. One thread per occupied cell of level 2 and above, which decides its octants: as a
/// whole each one that is free of the cloud, and of level 2 each voxel of the others. (A free cell
/// of the coarsest level touches the grid's border, so it is outside.) The caller clears `inside`.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_fill(t: Thread, cells: u32, surfaces: Surfaces, state: In<u32>, inside: Buf<u32>) {
    let index = surfaces.index;
    let i = state.get(state::FIRST_CELL + 4) + t.global_id();
    if t.global_id() >= cells || i >= state.get(state::FIRST_CELL + 2 * index.shape.levels()) {
        return;
    }
    let (level, cloud, key) = index.cell(i);
    let occupied = index.brick(level - 1, cloud, key >> 3).cells >> (key << 3 & 63);
    let (mut occupied, mut free) = (occupied as u32 & 255, !(occupied as u32) & 255);
    if level > 2 && free == 0 {
        return; // occupied octants have their own threads
    }
    let iso = f32::from_bits(state.get(state::ISO + cloud));
    let mut octants = Octants::far(surfaces, cloud, level, key);
    // The voxels of a cell have contiguous keys.
    let (first, size) = (key << (3 * level), 1u32 << (3 * (level - 1)));
    let of_cloud = cloud << (3 * index.shape.bits - 5);
    while level == 2 && occupied != 0 {
        let octant = occupied.trailing_zeros();
        occupied &= occupied - 1;
        let bits = octants.voxels_above(surfaces, cloud, octant, iso);
        let first = first + 8 * octant;
        if bits != 0 {
            inside.fetch_or(of_cloud + (first >> 5), bits << (first & 31));
        }
    }
    if free != 0 {
        octants.add_shared(surfaces, cloud);
    }
    while free != 0 {
        let octant = free.trailing_zeros();
        free &= free - 1;
        if octants.of_free(surfaces, cloud, octant) <= iso {
            continue;
        }
        let first = first + octant * size;
        if size < 32 {
            inside.fetch_or(of_cloud + (first >> 5), ((1u32 << size) - 1) << (first & 31));
            continue;
        }
        let mut word = first >> 5;
        while word < (first + size) >> 5 {
            inside.store(of_cloud + word, u32::MAX);
            word += 1;
        }
    }
}
