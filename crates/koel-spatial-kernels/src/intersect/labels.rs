//! Turns winding numbers into margins, margins into labels, and labels into sums.
use super::dipoles::Dipole;
use super::index::{Brick, Index};
use super::layout::beside;
use super::margins::{FAR, MarginsIn, MarginsOut, OPEN_MARGIN};
use super::marks::{SAMPLES, UnitsIn};
use super::winding::from_sum;
use super::{NONE, label, mark, state};
use koel_simt::{Buf, In, Thread, kernel, unroll};

/// A unit stays undecided if its winding number differs from the surface's own by less than this
/// fraction of the latter.
const UNIT_MARGIN: f32 = 0.4;
/// Margin of voxels in a free cell, in voxels.
const SURE: f32 = 50.0;

/// Gives each voxel within a unit a margin, by the winding number of the unit. If that is close to
/// the surface's own, the voxel stays undecided. One thread per voxel.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_judge_free(
    t: Thread,
    voxels: u32,
    index: Index,
    units: UnitsIn,
    to: MarginsOut,
    state: Buf<u32>,
) {
    let UnitsIn { marks, numbers, windings } = units;
    let i = t.global_id();
    if i >= voxels || i >= state.load_relaxed(state::FIRST_CELL + 2) {
        return;
    }
    let place = marks.get(i);
    if place < mark::FREE {
        return;
    }
    let (_, cloud, key) = index.cell(i);
    let level = place - mark::FREE;
    let unit = index.find(level, cloud, key >> (3 * level));
    let iso = f32::from_bits(state.load_relaxed(state::ISO + 1 - cloud));
    let open = state.load_relaxed(state::OPEN + 1 - cloud) != 0;
    let above = from_sum(windings.get(2 * SAMPLES + numbers.get(unit)) as i64) - iso;
    let least = if open { OPEN_MARGIN } else { UNIT_MARGIN * if iso > 0.25 { iso } else { 0.25 } };
    if above.abs() >= least {
        to.margins.store(i, if above > 0.0 { -SURE } else { SURE }.to_bits());
        return;
    }
    to.leave_undecided(i, FAR, state);
}

/// Labels each voxel. Of two face neighbours on different sides, the one with the smaller margin
/// becomes unknown. One thread per voxel.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_label(
    t: Thread,
    voxels: u32,
    index: Index,
    of: MarginsIn,
    state: In<u32>,
    labels: Buf<u32>,
) {
    let MarginsIn { marks, margins } = of;
    let i = t.global_id();
    if i >= voxels || i >= state.get(state::FIRST_CELL + 2) {
        return;
    }
    if marks.get(i) == mark::INTERSECTION {
        labels.store(i, label::INTERSECTION);
        return;
    }
    let margin = f32::from_bits(margins.get(i));
    let mut found = if margin < 0.0 {
        label::INSIDE
    } else if margin > 0.0 {
        label::OUTSIDE
    } else {
        label::UNKNOWN
    };
    let (_, cloud, key) = index.cell(i);
    let faces = Faces::of(index, cloud, key);
    let mut side = 0;
    while side < 6 && found != label::UNKNOWN {
        let j = faces.across(side);
        if j != NONE && marks.get(j) != mark::INTERSECTION {
            let other = f32::from_bits(margins.get(j));
            let opposite = margin < 0.0 && other > 0.0 || margin > 0.0 && other < 0.0;
            // If both margins are equal, the voxel with the lower coordinate becomes unknown.
            let less = margin.abs() < other.abs() || margin.abs() == other.abs() && side & 1 != 0;
            if opposite && less {
                found = label::UNKNOWN;
            }
        }
        side += 1;
    }
    labels.store(i, found);
}
/// A voxel with its brick, to find its face neighbours. Most of them are in the same brick.
#[derive(Clone, Copy)]
pub struct Faces {
    index: Index,
    cloud: u32,
    key: u32,
    own: Brick,
}
impl Faces {
    /// Loads the brick of the voxel with this key.
    #[inline(always)]
    #[track_caller]
    pub fn of(index: Index, cloud: u32, key: u32) -> Faces {
        Faces { index, cloud, key, own: index.brick(0, cloud, key >> 6) }
    }
    /// Returns the voxel of the same cloud across side 0 to 5 (-x, +x, -y, +y, -z, +z), or
    /// [`NONE`].
    #[inline(always)]
    #[track_caller]
    pub fn across(self, side: u32) -> u32 {
        let key = beside(self.key, side, self.index.shape);
        if key == NONE {
            return NONE;
        }
        let bit = key & 63;
        let brick = if (key ^ self.key) >> 6 == 0 {
            self.own
        } else {
            self.index.brick(0, self.cloud, key >> 6)
        };
        if brick.cells >> bit & 1 != 0 { brick.number(bit) } else { NONE }
    }
}

/// Words of `spatial_measure`'s result: the area of each label of each cloud.
pub const MEASURES: u32 = 2 * 4;
/// Areas are summed in units of 1 / 2^this.
pub const MEASURE_BITS: u32 = 16;
/// Voxels per thread.
pub const MEASURE_TURN: u32 = 64;
/// Sums the area of each label of each cloud. Uses `threads` threads per cloud; each takes every
/// `threads`-th voxel.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_measure(
    t: Thread,
    threads: u32,
    dipoles: In<u32>,
    labels: In<u32>,
    state: In<u32>,
    areas: Buf<u64>,
) {
    let (i, cloud) = (t.global_id() >> 1, t.global_id() & 1);
    if i >= threads {
        return;
    }
    let end = state.get(state::FIRST_CELL + cloud + 1);
    let mut voxel = state.get(state::FIRST_CELL + cloud) + i;
    let mut sums = [0u64; 4];
    while voxel < end {
        let area = (Dipole::get(dipoles, voxel).area * (1u32 << MEASURE_BITS) as f32) as u64;
        let label = labels.get(voxel);
        unroll::<4>(|k| sums[k] += if label == k as u32 { area } else { 0 });
        voxel += threads;
    }
    unroll::<4>(|k| {
        if sums[k] != 0 {
            areas.fetch_add(cloud * 4 + k as u32, sums[k]);
        }
    });
}

/// Gives each point the label of its voxel, or unknown outside the grid.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_label_points(
    t: Thread,
    n: u32,
    voxels: In<u32>,
    labels: In<u32>,
    of_points: Buf<u8>,
) {
    let i = t.global_id();
    if i < n {
        let voxel = voxels.get(i);
        of_points.store(i, if voxel == NONE { label::UNKNOWN } else { labels.get(voxel) } as u8);
    }
}
