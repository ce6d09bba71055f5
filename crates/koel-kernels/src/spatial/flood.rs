//! The 2009 paper's way to labels: seeds beside the intersection, then a flood over face
//! neighbours.
//!
//! The flood spreads step by step from all seeds at once; a voxel belongs to the nearest seed, of
//! several to the one with the lowest number: the same in every run. Where an inside voxel touches
//! an outside one, both seeds are cleared and the flood begins again.
//!
//! [`SeedsIn`] says what seeds are made of, [`SeedsOut`] takes them and the neighbours of voxels;
//! the flood goes over a [`VoxelGraph`] from one side of a [`Frontier`] to the other; [`Flooded`]
//! tells which seed has reached each voxel.
use super::index::Index;
use super::labels::Faces;
use super::sums::Sums;
use super::{NONE, label, mark, state};
use crate::math::length;
use koel_simt::{Buf, In, Thread, kernel};

/// Not reached yet.
pub const DRY: u64 = u64::MAX;
/// The seed is in force no more.
pub const CLEARED: u32 = 0x80;

/// What seeds are made of: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SeedsIn {
    /// The [`Sums`] of each voxel that is an intersection.
    pub sums: In<u32>,
    /// The mark of each voxel.
    pub marks: In<u32>,
    /// A step whose cosine with the other surface's normal is below this leads inside.
    pub inside_below: f32,
    /// One whose cosine is above this leads outside.
    pub outside_above: f32,
}
/// Where seeds go: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SeedsOut {
    /// The six face neighbours of each voxel, or [`NONE`].
    pub neighbours: Buf<u32>,
    /// The label of each voxel that is a seed, unknown of the others.
    pub seeds: Buf<u32>,
}
/// What the flood goes over: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct VoxelGraph {
    /// The six face neighbours of each voxel, or [`NONE`].
    pub neighbours: In<u32>,
    /// The mark of each voxel: intersections stay dry.
    pub marks: In<u32>,
}
/// Where the flood is: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Frontier {
    /// The voxels reached by the last step.
    pub voxels: In<u32>,
    /// Where those reached by this step go.
    pub next: Buf<u32>,
    /// Odd or even: tells which count of the state is whose.
    pub step: u32,
    /// Voxels that there is room for.
    pub most: u32,
}
/// What the flood has found: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Flooded {
    /// The seed that reached each voxel, and in the high half after how many steps; or [`DRY`].
    pub reached: In<u64>,
    /// The label of each seed, with [`CLEARED`] if it is in force no more.
    pub seeds: In<u32>,
}
impl Flooded {
    /// The label of the seed that reached a voxel.
    #[inline(always)]
    #[track_caller]
    fn label(self, voxel: u32) -> u32 {
        let seed = self.reached.get(voxel);
        if seed == DRY { label::UNKNOWN } else { self.seeds.get(seed as u32) & 3 }
    }
}

/// The six neighbours of each voxel; and whether it is a seed: not an intersection, beside one, and
/// the step away from that goes clearly against the other surface's normal there (inside) or along
/// it (outside). Of several the clearest counts.
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
            // From the neighbour to this voxel is against the side's direction.
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

/// All seeds in force become the first frontier, everything else is dry.
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
/// One step: the dry neighbours of the frontier get its seeds and are the next frontier.
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
/// The count of a frontier that has been left behind: 0.
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
/// The label of each voxel: that of the seed that reached it. Where different ones still meet,
/// after the last round: unknown.
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
