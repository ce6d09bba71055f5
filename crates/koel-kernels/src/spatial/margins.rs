//! Margins: how far a voxel lies outside the other surface, in voxels, inside below 0; 0 where
//! nobody knows.
//!
//! Kernels that judge voxels write them to [`MarginsOut`], or leave a voxel undecided there: with
//! its *reach*, the distance of the other surface, for its own winding number to decide.
use super::state;
use koel_simt::{Buf, In};

/// A surface at least this far away, in voxels, is as good as any further.
pub const FAR: f32 = 8.0;
/// The reach of an undecided voxel that has its margin after all.
pub const DECIDED: f32 = -1.0;
/// Of an open surface winding numbers change slowly: only those that differ so much count.
pub const OPEN_MARGIN: f32 = 0.25;

/// The margin of an undecided voxel: `below` is how far its winding number lies below the one of
/// the surface, `reach` how far away that surface is.
#[inline(always)]
pub fn margin_of(below: f32, reach: f32, open: bool) -> f32 {
    if open && below.abs() <= OPEN_MARGIN { 0.0 } else { below * 2.0 * reach.clamp(0.25, FAR) }
}

/// Where margins go: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct MarginsOut {
    /// The margin of each voxel (`f32`).
    pub margins: Buf<u32>,
    /// The reach of each undecided voxel (`f32`).
    pub reach: Buf<u32>,
    /// The undecided voxels, in any order.
    pub undecided: Buf<u32>,
    /// The [sum](super::winding::from_sum) of the winding number of each of these: 0 yet.
    pub sums: Buf<u64>,
}
impl MarginsOut {
    /// Leaves a voxel undecided.
    #[inline(always)]
    #[track_caller]
    pub fn leave_undecided(self, voxel: u32, reach: f32, state: Buf<u32>) {
        self.reach.store(voxel, reach.to_bits());
        let place = state.fetch_add(state::UNDECIDED, 1);
        self.undecided.store(place, voxel);
        self.sums.store(place, 0);
    }
}

/// What labels are made of: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct MarginsIn {
    /// The mark of each voxel.
    pub marks: In<u32>,
    /// The margin of each voxel that is no intersection (`f32`).
    pub margins: In<u32>,
}
