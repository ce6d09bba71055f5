//! The surfaces as oriented pieces: sums a voxel, area a point, dipoles a cell.

use super::blocks;
use super::cloud::Points;
use super::index::CellIndex;
use koel::{Buffer, Device, Result, Stream};
use koel_kernels::spatial::area::{BINS, spatial_area_of_points, spatial_cap_area, spatial_measure_cells};
use koel_kernels::spatial::dipoles::{self, spatial_dipoles, spatial_sum_dipoles, spatial_sum_surfaces};
use koel_kernels::spatial::sums::{self, dropped_bits, spatial_add_points};
use koel_kernels::spatial::voxelize::Motion;

/// What is summed up of the points.
pub struct SurfaceSums {
    /// Four words a voxel.
    pub sums: Buffer<u64>,
    /// Bits left out of each coordinate.
    pub dropped: u32,
    measured: Buffer<u32>,
    areas: Buffer<u32>,
    histogram: Buffer<u32>,
    /// Eight words a cell.
    pub dipoles: Buffer<u32>,
}
impl SurfaceSums {
    /// For the cells of an index; `whole`: areas and dipoles too.
    pub fn new(device: &Device, index: &CellIndex, points: &Points, whole: bool) -> Result<SurfaceSums> {
        let cells = if whole { index.most_cells() } else { 0 };
        let most = points.padded_of(super::Side::A).max(points.padded_of(super::Side::B));
        Ok(SurfaceSums {
            sums: device.alloc(index.most_voxels() * sums::WORDS as usize)?,
            dropped: dropped_bits(most as u32),
            measured: device.alloc(2 * cells)?,
            areas: device.alloc(cells)?,
            histogram: device.alloc(2 * BINS as usize)?,
            dipoles: device.alloc(cells * dipoles::WORDS as usize)?,
        })
    }
    /// Sums over the points of each voxel. A fill and a launch.
    pub fn add(
        &mut self,
        s: &Stream,
        points: &mut Points,
        [a, b]: [Motion; 2],
        index: &CellIndex,
        state: &Buffer<u32>,
    ) -> Result<()> {
        let words_in_use = index.voxels(state) * sums::WORDS as usize;
        self.sums.view_mut().slice(..words_in_use)?.fill_bytes(0, s)?;
        let (words, bricks) = index.args(s)?;
        let [nx, ny, nz] = points.normals(s)?;
        // SAFETY: four points a group, whose keys are in the index; four words a voxel.
        unsafe {
            spatial_add_points::launch(
                s,
                blocks(points.groups() as usize, 128),
                points.groups(),
                points.groups_a(),
                index.shape,
                self.dropped,
                a,
                b,
                words,
                bricks,
                points.keys.view().arg("keys", s)?,
                points.local.view().arg("local", s)?,
                nx,
                ny,
                nz,
                points.voxels.view_mut().arg("voxels", s)?,
                self.sums.view_mut().arg("sums", s)?,
            )
        }
    }
    /// Areas, dipoles, closedness. A fill and five launches, and one a level.
    pub fn measure(
        &mut self,
        s: &Stream,
        index: &CellIndex,
        assume_closed: bool,
        state: &mut Buffer<u32>,
    ) -> Result<()> {
        let (shape, (words, bricks)) = (index.shape, index.args(s)?);
        let codes = index.codes.view().arg("codes", s)?;
        let cells = index.cells(state);
        self.histogram.view_mut().fill_bytes(0, s)?;
        let shared = state.view().arg("state", s)?;
        let sums = self.sums.view().arg("sums", s)?;
        // SAFETY: two words measured, one area, eight words of dipole a cell; numbers of cells come from the index.
        unsafe {
            spatial_measure_cells::launch(
                s,
                blocks(cells, 64),
                cells as u32,
                shape,
                self.dropped,
                words,
                bricks,
                codes,
                sums,
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
            spatial_cap_area::launch(s, (2 * BINS).div_ceil(64), histogram, state.view_mut().arg("state", s)?)?;
            let voxels = index.voxels(state);
            spatial_dipoles::launch(
                s,
                blocks(voxels, 128),
                voxels as u32,
                shape,
                self.dropped,
                words,
                bricks,
                codes,
                sums,
                self.areas.view().arg("areas", s)?,
                shared,
                self.dipoles.view_mut().arg("dipoles", s)?,
            )?;
            for level in 1..shape.levels() {
                let cells = index.cells_of(level, state);
                spatial_sum_dipoles::launch(
                    s,
                    blocks(cells, 64),
                    cells as u32,
                    level,
                    shape,
                    words,
                    bricks,
                    codes,
                    shared,
                    self.dipoles.view_mut().arg("dipoles", s)?,
                )?;
            }
            spatial_sum_surfaces::launch(
                s,
                1,
                shape,
                assume_closed as u32,
                self.dipoles.view().arg("dipoles", s)?,
                state.view_mut().arg("state", s)?,
            )
        }
    }
    /// Bytes on the device.
    pub fn bytes(&self) -> usize {
        self.sums.bytes() + self.measured.bytes() + self.areas.bytes() + self.histogram.bytes() + self.dipoles.bytes()
    }
}
