//! Margins: signed distances of voxels from the other surface, in voxels. Positive outside,
//! negative inside, 0 if unknown.
//!
//! Kernels that judge voxels write margins to [`MarginsOut`], or leave a voxel undecided there with
//! its *reach*, the distance of the other surface. Such a voxel is decided by its own winding
//! number.
use super::state;
use koel_simt::{Buf, In};

/// Distance in voxels above which all surfaces count as equally far.
pub const FAR: f32 = 8.0;
/// Reach of an undecided voxel whose margin has been set.
pub const DECIDED: f32 = -1.0;
/// Minimum difference between winding numbers that decides at an open surface, where they change
/// slowly.
pub const OPEN_MARGIN: f32 = 0.25;

/// Returns the margin of an undecided voxel. `below` is how much its winding number is below that
/// of the surface, and `reach` is the distance of the surface.
#[inline(always)]
pub fn margin_of(below: f32, reach: f32, open: bool) -> f32 {
    if open && below.abs() <= OPEN_MARGIN { 0.0 } else { below * 2.0 * reach.clamp(0.25, FAR) }
}

/// Output of margins: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct MarginsOut {
    /// Margin of each voxel (`f32`).
    pub margins: Buf<u32>,
    /// Reach of each undecided voxel (`f32`).
    pub reach: Buf<u32>,
    /// Undecided voxels, in any order.
    pub undecided: Buf<u32>,
    /// [Sum](super::winding::from_sum) of the winding number of each undecided voxel. Set to 0.
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

/// Input for labels: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct MarginsIn {
    /// Mark of each voxel.
    pub marks: In<u32>,
    /// Margin of each voxel that is not an intersection (`f32`).
    pub margins: In<u32>,
}
