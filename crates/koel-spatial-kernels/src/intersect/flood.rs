//! Labels as in the 2009 paper: seeds next to the intersection, then a flood over face neighbours.
//!
//! The flood spreads step by step from all seeds at once. A voxel belongs to the nearest seed, or
//! to the lowest-numbered one of several, which is the same in every run. Where an inside voxel
//! touches an outside one, both seeds are cleared and the flood restarts.
//!
//! [`SeedsIn`] is the input for seeds, and [`SeedsOut`] takes the seeds and the neighbours of
//! voxels. The flood moves over a [`VoxelGraph`] from one side of a [`Frontier`] to the other.
//! [`Flooded`] holds the seed that reached each voxel.
use super::index::Index;
use super::labels::Faces;
use super::sums::Sums;
use super::{NONE, label, mark, state};
use koel_kernels::math::length;
use koel_simt::{Buf, In, Thread, kernel};

/// Not reached yet.
pub const DRY: u64 = u64::MAX;
/// Flag of a seed that has been cleared.
pub const CLEARED: u32 = 0x80;

/// Input for seeds: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SeedsIn {
    /// [`Sums`] of each voxel that is an intersection.
    pub sums: In<u32>,
    /// Mark of each voxel.
    pub marks: In<u32>,
    /// A step leads inside if its cosine with the other surface's normal is below this.
    pub inside_below: f32,
    /// A step leads outside if the cosine is above this.
    pub outside_above: f32,
}
/// Output of seeds: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SeedsOut {
    /// The six face neighbours of each voxel, or [`NONE`].
    pub neighbours: Buf<u32>,
    /// Label of each voxel that is a seed; unknown for other voxels.
    pub seeds: Buf<u32>,
}
/// The graph of voxels that is flooded: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct VoxelGraph {
    /// The six face neighbours of each voxel, or [`NONE`].
    pub neighbours: In<u32>,
    /// Mark of each voxel. Intersections stay dry.
    pub marks: In<u32>,
}
/// The frontier of the flood: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Frontier {
    /// Voxels that the previous step reached.
    pub voxels: In<u32>,
    /// Output for the voxels that this step reaches.
    pub next: Buf<u32>,
    /// Number of the step. Its parity selects the frontier's count in the state.
    pub step: u32,
    /// Maximum number of voxels.
    pub most: u32,
}
/// Result of the flood: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Flooded {
    /// Seed that reached each voxel and, in the high half, the number of steps; or [`DRY`].
    pub reached: In<u64>,
    /// Label of each seed, with [`CLEARED`] if it has been cleared.
    pub seeds: In<u32>,
}
impl Flooded {
    /// Returns the label of the seed that reached a voxel.
    #[inline(always)]
    #[track_caller]
    fn label(self, voxel: u32) -> u32 {
        let seed = self.reached.get(voxel);
        if seed == DRY { label::UNKNOWN } else { self.seeds.get(seed as u32) & 3 }
    }
}

/// Lists the six neighbours of each voxel and finds the seeds. A seed is next to an intersection
/// but not one itself, and the step away from the intersection goes clearly against the other
/// surface's normal there (inside) or along it (outside). The clearest of several steps counts.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_seed(
    t: Thread,
    voxels: u32,
    index: Index,
    of: SeedsIn,
    state: In<u32>,
    to: SeedsOut,
) {
    let SeedsIn { sums, marks, inside_below, outside_above } = of;
    let SeedsOut { neighbours, seeds } = to;
    let i = t.global_id();
    if i >= voxels || i >= state.get(state::FIRST_CELL + 2) {
        return;
    }
    let (_, cloud, key) = index.cell(i);
    let faces = Faces::of(index, cloud, key);
    let (mut clearest, mut side) = (0.0f32, 0);
    while side < 6 {
        let j = faces.across(side);
        neighbours.store(6 * i + side, j);
        if j != NONE && marks.get(j) == mark::INTERSECTION && marks.get(i) != mark::INTERSECTION {
            let (_, _, shared) = index.cell(j);
            let other = index.find(0, 1 - cloud, shared);
            let n = if other == NONE { [0.0; 3] } else { Sums::get(sums, other).normal };
            let along = if side < 2 {
                n[0]
            } else if side < 4 {
                n[1]
            } else {
                n[2]
            };
            // The step from the neighbour to this voxel is opposite to the side's direction.
            let cosine = if side & 1 != 0 { -along } else { along } / length(n);
            if cosine.abs() > clearest.abs() {
                clearest = cosine;
            }
        }
        side += 1;
    }
    let seed = if clearest < inside_below {
        label::INSIDE
    } else if clearest > outside_above {
        label::OUTSIDE
    } else {
        label::UNKNOWN
    };
    seeds.store(i, seed);
}

/// Makes all seeds that are not cleared the first frontier, and everything else dry.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_flood_begin(
    t: Thread,
    voxels: u32,
    seeds: In<u32>,
    reached: Buf<u64>,
    frontier: Buf<u32>,
    state: Buf<u32>,
) {
    let i = t.global_id();
    if i >= voxels || i >= state.load_relaxed(state::FIRST_CELL + 2) {
        return;
    }
    let seed = seeds.get(i);
    let in_force = seed != label::UNKNOWN && seed & CLEARED == 0;
    reached.store(i, if in_force { i as u64 } else { DRY });
    if in_force {
        let place = state.fetch_add(state::FRONTIER, 1);
        frontier.store(place, i);
    }
}
/// Performs one step: the dry neighbours of the frontier take its seeds and become the next
/// frontier.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_flood_step(
    t: Thread,
    graph: VoxelGraph,
    frontier: Frontier,
    reached: Buf<u64>,
    state: Buf<u32>,
) {
    let VoxelGraph { neighbours, marks } = graph;
    let Frontier { voxels, next, step, most } = frontier;
    let i = t.global_id();
    if i >= most || i >= state.load_relaxed(state::FRONTIER + (step & 1)) {
        return;
    }
    let voxel = voxels.get(i);
    let mine = reached.load_relaxed(voxel) + (1 << 32);
    let mut side = 0;
    while side < 6 {
        let j = neighbours.get(6 * voxel + side);
        if j != NONE
            && marks.get(j) != mark::INTERSECTION
            && reached.load_relaxed(j) > mine
            && reached.fetch_min(j, mine) == DRY
        {
            let place = state.fetch_add(state::FRONTIER + ((step + 1) & 1), 1);
            next.store(place, j);
        }
        side += 1;
    }
}
/// Resets the count of the frontier that the last step started from.
#[kernel(image = SPATIAL, threads = 32, independent, native_v3)]
pub fn spatial_flood_turn(t: Thread, step: u32, state: Buf<u32>) {
    if t.global_id() == 0 {
        state.store(state::FRONTIER + (step & 1), 0);
    }
}
/// Clears the seeds whose floods meet with different labels.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_flood_conflicts(
    t: Thread,
    voxels: u32,
    neighbours: In<u32>,
    reached: In<u64>,
    seeds: Buf<u32>,
    state: Buf<u32>,
) {
    let i = t.global_id();
    if i >= voxels || i >= state.load_relaxed(state::FIRST_CELL + 2) {
        return;
    }
    let mine = reached.get(i);
    if mine == DRY {
        return;
    }
    let mut side = 1;
    while side < 6 {
        let j = neighbours.get(6 * i + side);
        let theirs = if j == NONE { DRY } else { reached.get(j) };
        if theirs != DRY {
            let (a, b) = (seeds.load_relaxed(mine as u32), seeds.load_relaxed(theirs as u32));
            if (a ^ b) & 3 != 0 {
                let cleared = (seeds.fetch_or(mine as u32, CLEARED) & CLEARED == 0) as u32
                    + (seeds.fetch_or(theirs as u32, CLEARED) & CLEARED == 0) as u32;
                if cleared != 0 {
                    state.fetch_add(state::CLEARED, cleared);
                }
            }
        }
        side += 2;
    }
}
/// Gives each voxel the label of the seed that reached it. Where different labels still meet after
/// the last round, they become unknown.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_flood_label(
    t: Thread,
    voxels: u32,
    graph: VoxelGraph,
    flooded: Flooded,
    state: In<u32>,
    labels: Buf<u32>,
) {
    let VoxelGraph { neighbours, marks } = graph;
    let i = t.global_id();
    if i >= voxels || i >= state.get(state::FIRST_CELL + 2) {
        return;
    }
    if marks.get(i) == mark::INTERSECTION {
        labels.store(i, label::INTERSECTION);
        return;
    }
    let mut found = flooded.label(i);
    let mut side = 0;
    while side < 6 && found != label::UNKNOWN {
        let j = neighbours.get(6 * i + side);
        let theirs = if j == NONE { label::UNKNOWN } else { flooded.label(j) };
        if theirs ^ found == label::INSIDE ^ label::OUTSIDE {
            found = label::UNKNOWN;
        }
        side += 1;
    }
    labels.store(i, found);
}
