//! The surfaces as oriented pieces: sums a voxel, area a point, dipoles a cell.

use super::blocks;
use super::cloud::Points;
use super::index::CellIndex;
use koel::primitives::Scan;
use koel::{Buffer, Device, DeviceKind, Result, Stream};
use koel_kernels::spatial::area::{
    AreasOut, BINS, spatial_area_of_points, spatial_cap_area, spatial_measure_cells,
};
use koel_kernels::spatial::dipoles::{
    self, Levels, SumsIn, Surfaces, spatial_dipoles, spatial_sum_dipoles,
};
use koel_kernels::spatial::sums::{
    self, PointsByVoxel, RanksOut, SummedVoxels, spatial_order_points, spatial_rank_points,
    spatial_sum_points,
};

/// What is summed up of the points.
pub struct SurfaceSums {
    /// Points of each voxel.
    pub counts: Buffer<u32>,
    starts: Buffer<u32>,
    scan: Scan<u32>,
    /// Eight words a voxel.
    pub sums: Buffer<u32>,
    measured: Buffer<u32>,
    areas: Buffer<u32>,
    /// Points by area.
    pub histogram: Buffer<u32>,
    /// Eight words a cell.
    dipoles: Buffer<u32>,
}
impl SurfaceSums {
    /// For the cells of an index; `whole`: areas and dipoles too.
    pub fn new(device: &Device, index: &CellIndex, whole: bool) -> Result<SurfaceSums> {
        let cells = if whole { index.most_cells() } else { 0 };
        let voxels = index.most_voxels();
        Ok(SurfaceSums {
            counts: device.alloc(voxels)?,
            starts: device.alloc(voxels)?,
            scan: Scan::new(device, voxels)?,
            sums: device.alloc(voxels * sums::WORDS as usize)?,
            measured: device.alloc(2 * cells)?,
            areas: device.alloc(cells)?,
            histogram: device.alloc(2 * BINS as usize)?,
            dipoles: device.alloc(cells * dipoles::WORDS as usize)?,
        })
    }
    /// Brings the points of each voxel together. Three launches. Clear the counts before.
    pub fn gather(
        &mut self,
        s: &Stream,
        points: &mut Points,
        index: &CellIndex,
        state: &Buffer<u32>,
    ) -> Result<()> {
        let (n, voxels) = (points.padded(), index.voxels(s, state));
        let groups = points.groups().all;
        // SAFETY: four points a group, whose bricks and keys are in the index; a count for each
        // voxel.
        unsafe {
            spatial_rank_points::launch(
                s,
                blocks(groups as usize, 128),
                groups,
                index.arg(s)?.bricks,
                points.keys.view().arg("keys", s)?,
                RanksOut {
                    voxels: points.voxels.view_mut().arg("voxels", s)?,
                    ranks: points.ranks.view_mut().arg("ranks", s)?,
                    counts: self.counts.view_mut().arg("counts", s)?,
                },
            )?
        };
        self.scan.exclusive(
            s,
            self.counts.view().slice(..voxels)?,
            self.starts.view_mut().slice(..voxels)?,
        )?;
        // SAFETY: the ranks of a voxel's points are those below its count: each point gets a place
        // of its own.
        unsafe {
            spatial_order_points::launch(
                s,
                blocks(n, 128),
                n as u32,
                points.voxels.view().arg("voxels", s)?,
                points.ranks.view().arg("ranks", s)?,
                self.starts.view().arg("starts", s)?,
                points.order_by_voxel.view_mut().arg("order", s)?,
            )
        }
    }
    /// Sums over the points of each voxel, or only of those that `marks` calls intersections. A
    /// launch.
    pub fn add(
        &mut self,
        s: &Stream,
        points: &Points,
        motions: &Buffer<u64>,
        index: &CellIndex,
        marks: Option<&Buffer<u32>>,
        state: &Buffer<u32>,
    ) -> Result<()> {
        let voxels = index.voxels(s, state);
        let counts = self.counts.view().arg("counts", s)?;
        // SAFETY: as many points in order as counted; eight words a voxel; marks are read only if
        // there are any.
        unsafe {
            spatial_sum_points::launch(
                s,
                blocks(voxels, 64),
                SummedVoxels {
                    marks: marks.map_or(Ok(counts), |marks| marks.view().arg("marks", s))?,
                    voxels: voxels as u32,
                    only_intersections: marks.is_some() as u32,
                },
                index.arg(s)?,
                points.clouds(s, motions)?,
                PointsByVoxel {
                    order: points.order_by_voxel.view().arg("order", s)?,
                    starts: self.starts.view().arg("starts", s)?,
                    counts,
                    local: points.local.view().arg("local", s)?,
                },
                state.view().arg("state", s)?,
                self.sums.view_mut().arg("sums", s)?,
            )
        }
    }
    /// Areas and dipoles. Four launches, and one for two levels. Clear the histogram before.
    pub fn measure(
        &mut self,
        s: &Stream,
        index: &CellIndex,
        state: &mut Buffer<u32>,
    ) -> Result<()> {
        self.measure_areas(s, index, state)?;
        self.sum_dipoles(s, index, state)
    }
    /// The area of a point in each cell, and the cap on it. Three launches.
    fn measure_areas(
        &mut self,
        s: &Stream,
        index: &CellIndex,
        state: &mut Buffer<u32>,
    ) -> Result<()> {
        let (cells, index) = (index.cells(s, state), index.arg(s)?);
        let shared = state.view().arg("state", s)?;
        // SAFETY: two words measured and one area a cell; numbers of cells come from the index.
        unsafe {
            spatial_measure_cells::launch(
                s,
                blocks(cells, 64),
                cells as u32,
                index,
                self.sums.view().arg("sums", s)?,
                shared,
                self.measured.view_mut().arg("measured", s)?,
            )?;
            spatial_area_of_points::launch(
                s,
                blocks(cells, 64),
                cells as u32,
                index,
                self.measured.view().arg("measured", s)?,
                shared,
                AreasOut {
                    areas: self.areas.view_mut().arg("areas", s)?,
                    histogram: self.histogram.view_mut().arg("histogram", s)?,
                },
            )?;
            let histogram = self.histogram.view().arg("histogram", s)?;
            spatial_cap_area::launch(
                s,
                (2 * BINS).div_ceil(64),
                histogram,
                state.view_mut().arg("state", s)?,
            )
        }
    }
    /// Dipoles of voxels, then of the cells above, level by level. A launch, and one for two
    /// levels.
    fn sum_dipoles(&mut self, s: &Stream, index: &CellIndex, state: &Buffer<u32>) -> Result<()> {
        let (levels, voxels) = (index.shape.levels(), index.voxels(s, state));
        let shared = state.view().arg("state", s)?;
        // SAFETY: eight words of dipole a cell; numbers of cells come from the index.
        unsafe {
            spatial_dipoles::launch(
                s,
                blocks(voxels, 128),
                voxels as u32,
                index.arg(s)?,
                SumsIn {
                    sums: self.sums.view().arg("sums", s)?,
                    areas: self.areas.view().arg("areas", s)?,
                },
                shared,
                self.dipoles.view_mut().arg("dipoles", s)?,
            )?;
            // Where launches count, two levels in one.
            let at_once = if s.device().kind() == DeviceKind::Cpu { 1 } else { 2 };
            for first in (1..levels).step_by(at_once as usize) {
                let end = (first + at_once).min(levels);
                let cells = index.cells_of(s, first..end, state);
                spatial_sum_dipoles::launch(
                    s,
                    blocks(cells, 64),
                    cells as u32,
                    Levels { first, count: end - first },
                    index.arg(s)?,
                    shared,
                    self.dipoles.view_mut().arg("dipoles", s)?,
                )?;
            }
        }
        Ok(())
    }
    /// For kernels that read both surfaces.
    pub fn surfaces(&self, s: &Stream, index: &CellIndex) -> Result<Surfaces> {
        Ok(Surfaces { index: index.arg(s)?, dipoles: self.dipoles.view().arg("dipoles", s)? })
    }
    /// Bytes on the device.
    pub fn bytes(&self) -> usize {
        let of_voxels = self.counts.bytes()
            + self.starts.bytes()
            + self.scan.scratch_bytes()
            + self.sums.bytes();
        of_voxels
            + self.measured.bytes()
            + self.areas.bytes()
            + self.histogram.bytes()
            + self.dipoles.bytes()
    }
}
