//! Surfaces as oriented pieces: sums per voxel, area per point, dipole per cell.

use super::blocks;
use super::cloud::Points;
use super::index::CellIndex;
use super::parts::host_mut;
use koel::primitives::Scan;
use koel::{Buffer, Device, DeviceKind, Result, Stream};
use koel_spatial_kernels::intersect::area::{
    AreasOut, BINS, spatial_area_of_points, spatial_cap_area, spatial_measure_cells,
};
use koel_spatial_kernels::intersect::dipoles::{
    self, Levels, SumsIn, Surfaces, spatial_dipoles, spatial_sum_dipoles,
};
use koel_spatial_kernels::intersect::sums::{
    self, PointsByVoxel, RanksOut, SummedVoxels, spatial_order_points, spatial_rank_points,
    spatial_sum_points,
};

/// Sums over the points.
pub(super) struct SurfaceSums {
    /// Number of points of each voxel.
    pub counts: Buffer<u32>,
    starts: Buffer<u32>,
    scan: Scan<u32>,
    /// Eight words per voxel.
    pub sums: Buffer<u32>,
    measured: Buffer<u32>,
    areas: Buffer<u32>,
    /// Histogram of points by area.
    pub histogram: Buffer<u32>,
    /// Eight words per cell.
    dipoles: Buffer<u32>,
}
impl SurfaceSums {
    /// Allocates the buffers for the cells of an index; with `whole`, areas and dipoles too.
    pub(super) fn new(device: &Device, index: &CellIndex, whole: bool) -> Result<SurfaceSums> {
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
    /// Groups the points by voxel, for kernels. Three launches. The counts must be zero.
    pub(super) fn gather(
        &mut self,
        s: &Stream,
        points: &mut Points,
        index: &CellIndex,
        state: &Buffer<u32>,
    ) -> Result<()> {
        let (n, voxels) = (points.padded(), index.voxels(s, state));
        let groups = points.groups().all;
        // SAFETY: a group has four points, whose bricks and keys are in the index; there is a count
        // for each voxel.
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
        // SAFETY: the ranks of a voxel's points are those below its count, so each point gets its
        // own slot.
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
    /// Sums over the points of each voxel, or only of those that `marks` marks as intersections.
    /// One launch; on the CPU, all of it is the work of parts, which find the points' voxels too.
    pub(super) fn add(
        &mut self,
        s: &Stream,
        points: &mut Points,
        motions: &Buffer<u64>,
        index: &CellIndex,
        marks: Option<&Buffer<u32>>,
        state: &Buffer<u32>,
    ) -> Result<()> {
        let voxels = index.voxels(s, state);
        if points.parts.is_some() {
            let mut sums = self.sums.view_mut().slice(..voxels * sums::WORDS as usize)?;
            return points.sum_parts(
                s.device(),
                motions,
                &index.bricks,
                marks,
                host_mut(&mut sums)?,
            );
        }
        let counts = self.counts.view().arg("counts", s)?;
        // SAFETY: the ordered points match the counts; there are eight words per voxel; marks are
        // read only if given.
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
    /// Computes areas and dipoles. Four launches, plus one for every two levels. The histogram must
    /// be zero.
    pub(super) fn measure(
        &mut self,
        s: &Stream,
        index: &CellIndex,
        state: &mut Buffer<u32>,
    ) -> Result<()> {
        self.measure_areas(s, index, state)?;
        self.sum_dipoles(s, index, state)
    }
    /// Computes the area per point in each cell, and its cap. Three launches.
    fn measure_areas(
        &mut self,
        s: &Stream,
        index: &CellIndex,
        state: &mut Buffer<u32>,
    ) -> Result<()> {
        let (cells, index) = (index.cells(s, state), index.arg(s)?);
        let shared = state.view().arg("state", s)?;
        // SAFETY: there are two measured words and one area per cell; cell numbers come from the
        // index.
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
    /// Computes dipoles of voxels, then of the cells above, level by level. One launch, plus one
    /// for every two levels.
    fn sum_dipoles(&mut self, s: &Stream, index: &CellIndex, state: &Buffer<u32>) -> Result<()> {
        let (levels, voxels) = (index.shape.levels(), index.voxels(s, state));
        let shared = state.view().arg("state", s)?;
        // SAFETY: there are eight words of dipole per cell; cell numbers come from the index.
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
            // Two levels per launch where launches are costly.
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
    /// Builds the argument for kernels that read both surfaces.
    pub(super) fn surfaces(&self, s: &Stream, index: &CellIndex) -> Result<Surfaces> {
        Ok(Surfaces { index: index.arg(s)?, dipoles: self.dipoles.view().arg("dipoles", s)? })
    }
    /// Copies the dipoles of some cells to the host.
    pub(super) fn dipoles(&self, cells: std::ops::Range<usize>) -> Result<Vec<u32>> {
        let words = dipoles::WORDS as usize;
        self.dipoles.view().slice(words * cells.start..words * cells.end)?.download()
    }
    /// Returns the bytes on the device.
    pub(super) fn bytes(&self) -> usize {
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
