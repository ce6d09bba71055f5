//! The paper's method, from intersections to labels.

use super::index::CellIndex;
use super::surface::SurfaceSums;
use super::{PaperOptions, blocks, bound};
use koel::{Buffer, Device, DeviceKind, Result, Stream};
use koel_spatial_kernels::intersect::flood::*;
use koel_spatial_kernels::intersect::marks::spatial_mark_intersections;
use koel_spatial_kernels::intersect::state;

/// Steps of the flood between two polls of a GPU; a poll waits for all of them.
const STEPS_BETWEEN_LOOKS: u32 = 16;

/// Per-voxel buffers of the flood.
pub(super) struct Flood {
    marks: Buffer<u32>,
    neighbours: Buffer<u32>,
    seeds: Buffer<u32>,
    reached: Buffer<u64>,
    frontiers: [Buffer<u32>; 2],
}
impl Flood {
    /// Allocates the buffers for the given number of voxels.
    pub(super) fn new(device: &Device, voxels: usize) -> Result<Flood> {
        Ok(Flood {
            marks: device.alloc(voxels)?,
            neighbours: device.alloc(6 * voxels)?,
            seeds: device.alloc(voxels)?,
            reached: device.alloc(voxels)?,
            frontiers: [device.alloc(voxels)?, device.alloc(voxels)?],
        })
    }
    /// Returns the intersection mark of each voxel.
    pub(super) fn marks(&self) -> &Buffer<u32> {
        &self.marks
    }
    /// Marks intersections.
    pub(super) fn mark(
        &mut self,
        s: &Stream,
        index: &CellIndex,
        state: &Buffer<u32>,
    ) -> Result<()> {
        let voxels = index.voxels(s, state);
        // SAFETY: there is a mark per voxel.
        unsafe {
            spatial_mark_intersections::launch(
                s,
                blocks(voxels, 128),
                voxels as u32,
                index.arg(s)?,
                state.view().arg("state", s)?,
                self.marks.view_mut().arg("marks", s)?,
            )
        }
    }
    /// Finds neighbours and seeds.
    pub(super) fn seed(
        &mut self,
        s: &Stream,
        index: &CellIndex,
        sums: &SurfaceSums,
        options: PaperOptions,
        state: &Buffer<u32>,
    ) -> Result<()> {
        let voxels = index.voxels(s, state);
        let cosine = |degrees: f64| degrees.to_radians().cos() as f32;
        // SAFETY: there are six neighbours and a seed per voxel.
        unsafe {
            spatial_seed::launch(
                s,
                blocks(voxels, 64),
                voxels as u32,
                index.arg(s)?,
                SeedsIn {
                    sums: sums.sums.view().arg("sums", s)?,
                    marks: self.marks.view().arg("marks", s)?,
                    inside_below: cosine(options.inside_above),
                    outside_above: cosine(options.outside_below),
                },
                state.view().arg("state", s)?,
                SeedsOut {
                    neighbours: self.neighbours.view_mut().arg("neighbours", s)?,
                    seeds: self.seeds.view_mut().arg("seeds", s)?,
                },
            )
        }
    }
    /// Floods until no conflict clears a seed, then labels.
    pub(super) fn fill(
        &mut self,
        s: &Stream,
        index: &CellIndex,
        options: PaperOptions,
        labels: &mut Buffer<u32>,
        state: &mut Buffer<u32>,
    ) -> Result<()> {
        let voxels = index.voxels(s, state);
        let mut cleared_before = 0;
        for _ in 0..options.rounds.max(1) {
            self.flood(s, voxels, state)?;
            // SAFETY: as in `seed`.
            unsafe {
                spatial_flood_conflicts::launch(
                    s,
                    blocks(voxels, 128),
                    voxels as u32,
                    self.neighbours.view().arg("neighbours", s)?,
                    self.reached.view().arg("reached", s)?,
                    self.seeds.view_mut().arg("seeds", s)?,
                    state.view_mut().arg("state", s)?,
                )?
            };
            let cleared = read(state, state::CLEARED)?;
            if cleared == cleared_before {
                break;
            }
            cleared_before = cleared;
        }
        // SAFETY: as in `seed`.
        unsafe {
            spatial_flood_label::launch(
                s,
                blocks(voxels, 128),
                voxels as u32,
                self.graph(s)?,
                Flooded {
                    reached: self.reached.view().arg("reached", s)?,
                    seeds: self.seeds.view().arg("seeds", s)?,
                },
                state.view().arg("state", s)?,
                labels.view_mut().arg("labels", s)?,
            )
        }
    }
    /// Builds the argument for kernels that step from voxel to voxel.
    fn graph(&self, s: &Stream) -> Result<VoxelGraph> {
        Ok(VoxelGraph {
            neighbours: self.neighbours.view().arg("neighbours", s)?,
            marks: self.marks.view().arg("marks", s)?,
        })
    }
    /// Floods from all active seeds to all voxels that they reach.
    fn flood(&mut self, s: &Stream, voxels: usize, state: &mut Buffer<u32>) -> Result<()> {
        state
            .view_mut()
            .slice(state::FRONTIER as usize..state::FRONTIER as usize + 2)?
            .fill_bytes(0, s)?;
        // SAFETY: a frontier has room for every voxel, and each enters one only once.
        unsafe {
            spatial_flood_begin::launch(
                s,
                blocks(voxels, 128),
                voxels as u32,
                self.seeds.view().arg("seeds", s)?,
                self.reached.view_mut().arg("reached", s)?,
                self.frontiers[0].view_mut().arg("frontier", s)?,
                state.view_mut().arg("state", s)?,
            )?
        };
        let graph = self.graph(s)?;
        let on_host = s.device().kind() != DeviceKind::Cuda;
        for step in 0.. {
            let count = state::FRONTIER + (step & 1);
            if (on_host || step % STEPS_BETWEEN_LOOKS == 0) && read(state, count)? == 0 {
                break;
            }
            let threads = bound(s, state, count, voxels);
            let [even, odd] = &mut self.frontiers;
            let (from, to) = if step & 1 == 0 { (even, odd) } else { (odd, even) };
            // SAFETY: as above.
            unsafe {
                spatial_flood_step::launch(
                    s,
                    blocks(threads, 64),
                    graph,
                    Frontier {
                        voxels: from.view().arg("voxels", s)?,
                        next: to.view_mut().arg("next", s)?,
                        step,
                        most: threads as u32,
                    },
                    self.reached.view_mut().arg("reached", s)?,
                    state.view_mut().arg("state", s)?,
                )?;
                spatial_flood_turn::launch(s, 1, step, state.view_mut().arg("state", s)?)?;
            }
        }
        Ok(())
    }
    /// Returns the bytes on the device.
    pub(super) fn bytes(&self) -> usize {
        let [even, odd] = &self.frontiers;
        self.marks.bytes()
            + self.neighbours.bytes()
            + self.seeds.bytes()
            + self.reached.bytes()
            + even.bytes()
            + odd.bytes()
    }
}
/// Reads a word of the state. Synchronizes.
fn read(state: &Buffer<u32>, word: u32) -> Result<u32> {
    let mut value = [0];
    state.view().slice(word as usize..word as usize + 1)?.copy_to_host(&mut value)?;
    Ok(value[0])
}
