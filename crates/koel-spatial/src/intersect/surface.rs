//! The surfaces as oriented pieces: sums a voxel, area a point, dipoles a cell.

use super::blocks;
use super::cloud::Points;
use super::index::CellIndex;
use koel::primitives::Scan;
use koel::{Buffer, Device, DeviceKind, Result, Stream};
use koel_kernels::spatial::area::{
    BINS, spatial_area_of_points, spatial_cap_area, spatial_measure_cells,
};
use koel_kernels::spatial::dipoles::{self, spatial_dipoles, spatial_sum_dipoles};
use koel_kernels::spatial::sums::{
    self, spatial_order_points, spatial_rank_points, spatial_sum_points,
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
    pub dipoles: Buffer<u32>,
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
        let (_, bricks) = index.args(s)?;
        // SAFETY: four points a group, whose bricks and keys are in the index; a count for each
        // voxel.
        unsafe {
            spatial_rank_points::launch(
                s,
                blocks(points.groups() as usize, 128),
                points.groups(),
                bricks,
                points.keys.view().arg("keys", s)?,
                points.voxels.view_mut().arg("voxels", s)?,
                points.ranks.view_mut().arg("ranks", s)?,
                self.counts.view_mut().arg("counts", s)?,
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
        let [nx, ny, nz] = points.normals(s)?;
        // SAFETY: as many points in order as counted; eight words a voxel; marks are read only if
        // there are any.
        unsafe {
            spatial_sum_points::launch(
                s,
                blocks(voxels, 64),
                voxels as u32,
                marks.is_some() as u32,
                index.shape,
                motions.view().arg("motions", s)?,
                index.codes.view().arg("codes", s)?,
                marks.map_or(Ok(counts), |marks| marks.view().arg("marks", s))?,
                self.starts.view().arg("starts", s)?,
                counts,
                points.order_by_voxel.view().arg("order", s)?,
                points.local.view().arg("local", s)?,
                nx,
                ny,
                nz,
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
        let (shape, (words, bricks)) = (index.shape, index.args(s)?);
        let codes = index.codes.view().arg("codes", s)?;
        let cells = index.cells(s, state);
        let shared = state.view().arg("state", s)?;
        // SAFETY: two words measured and one area a cell; numbers of cells come from the index.
        unsafe {
            spatial_measure_cells::launch(
                s,
                blocks(cells, 64),
                cells as u32,
                shape,
                words,
                bricks,
                codes,
                self.sums.view().arg("sums", s)?,
                shared,
                self.measured.view_mut().arg("measured", s)?,
            )?;
            spatial_area_of_points::launch(
                s,
                blocks(cells, 64),
                cells as u32,
                shape,
                words,
                bricks,
                codes,
                self.measured.view().arg("measured", s)?,
                shared,
                self.areas.view_mut().arg("areas", s)?,
                self.histogram.view_mut().arg("histogram", s)?,
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
        let (shape, (words, bricks)) = (index.shape, index.args(s)?);
        let codes = index.codes.view().arg("codes", s)?;
        let shared = state.view().arg("state", s)?;
        let voxels = index.voxels(s, state);
        // SAFETY: eight words of dipole a cell; numbers of cells come from the index.
        unsafe {
            spatial_dipoles::launch(
                s,
                blocks(voxels, 128),
                voxels as u32,
                shape,
                words,
                bricks,
                codes,
                self.sums.view().arg("sums", s)?,
                self.areas.view().arg("areas", s)?,
                shared,
                self.dipoles.view_mut().arg("dipoles", s)?,
            )?;
            // Where launches count, two levels in one.
            let at_once = if s.device().kind() == DeviceKind::Cpu { 1 } else { 2 };
            for level in (1..shape.levels()).step_by(at_once as usize) {
                let end = (level + at_once).min(shape.levels());
                let cells = index.cells_of(s, level..end, state);
                spatial_sum_dipoles::launch(
                    s,
                    blocks(cells, 64),
                    cells as u32,
                    level,
                    end - level,
                    shape,
                    words,
                    bricks,
                    codes,
                    shared,
                    self.dipoles.view_mut().arg("dipoles", s)?,
                )?;
            }
        }
        Ok(())
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
