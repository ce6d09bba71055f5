//! The robust method, from the dipoles of both surfaces to labels.

use super::cloud::Points;
use super::index::CellIndex;
use super::surface::SurfaceSums;
use super::{blocks, bound};
use koel::{Buffer, Device, DeviceKind, Result, Stream};
use koel_spatial_kernels::intersect::index::CORNERS;
use koel_spatial_kernels::intersect::labels::*;
use koel_spatial_kernels::intersect::margins::{MarginsIn, MarginsOut};
use koel_spatial_kernels::intersect::marks::{MarksOut, SAMPLES, UnitsIn, spatial_mark};
use koel_spatial_kernels::intersect::nearby::{spatial_judge_holes, spatial_judge_near};
use koel_spatial_kernels::intersect::state;
use koel_spatial_kernels::intersect::winding::{
    PointVoxels, UnitQueries, VoxelQueries, spatial_judge_surfaces, spatial_wind_units,
    spatial_wind_voxels,
};

/// Per-cell and per-voxel buffers of the method.
pub(super) struct Robust {
    most_units: usize,
    marks: Buffer<u32>,
    near: Buffer<u32>,
    units: Buffer<u32>,
    /// Index of each unit in `units`, by its cell.
    numbers: Buffer<u32>,
    /// Winding numbers of samples and units.
    windings: Buffer<u64>,
    undecided: Buffer<u32>,
    /// Winding numbers of undecided voxels.
    sums: Buffer<u64>,
    reach: Buffer<u32>,
    margins: Buffer<u32>,
    /// Areas by cloud and label.
    measures: Buffer<u64>,
}
impl Robust {
    /// Allocates the buffers for the cells of an index.
    pub(super) fn new(device: &Device, index: &CellIndex) -> Result<Robust> {
        let (cells, voxels) = (index.most_cells(), index.most_voxels());
        Ok(Robust {
            most_units: cells,
            marks: device.alloc(voxels)?,
            near: device.alloc(voxels)?,
            units: device.alloc(cells)?,
            numbers: device.alloc(cells)?,
            windings: device.alloc(cells + 2 * SAMPLES as usize)?,
            undecided: device.alloc(voxels)?,
            sums: device.alloc(voxels)?,
            reach: device.alloc(voxels)?,
            margins: device.alloc(voxels)?,
            measures: device.alloc(MEASURES as usize)?,
        })
    }
    /// Finds intersections, units and near voxels. One launch.
    pub(super) fn mark(
        &mut self,
        s: &Stream,
        index: &CellIndex,
        state: &mut Buffer<u32>,
    ) -> Result<()> {
        let cells = index.cells(s, state);
        // SAFETY: lists have room for every cell and voxel.
        unsafe {
            spatial_mark::launch(
                s,
                blocks(cells.max(2 * SAMPLES as usize), 64),
                cells as u32,
                index.arg(s)?,
                MarksOut {
                    marks: self.marks.view_mut().arg("marks", s)?,
                    near: self.near.view_mut().arg("near", s)?,
                    units: self.units.view_mut().arg("units", s)?,
                    numbers: self.numbers.view_mut().arg("numbers", s)?,
                    windings: self.windings.view_mut().arg("windings", s)?,
                },
                state.view_mut().arg("state", s)?,
            )
        }
    }
    /// Computes winding numbers of units and samples, areas, closedness and iso values. Two
    /// launches.
    pub(super) fn wind_units(
        &mut self,
        s: &Stream,
        index: &CellIndex,
        sums: &SurfaceSums,
        points: &Points,
        assume_closed: bool,
        state: &mut Buffer<u32>,
    ) -> Result<()> {
        let (shape, surfaces) = (index.shape, sums.surfaces(s, index)?);
        let queries = bound(s, state, state::UNITS, self.most_units) + 2 * SAMPLES as usize;
        let split = split(s);
        // SAFETY: there is a winding number for each query; units are cells.
        unsafe {
            spatial_wind_units::launch(
                s,
                turns(s, queries * (shape.top() * split) as usize),
                split,
                surfaces,
                PointVoxels {
                    voxels: points.voxels.view().arg("voxels", s)?,
                    groups: points.groups(),
                },
                UnitQueries {
                    units: self.units.view().arg("units", s)?,
                    sums: self.windings.view_mut().arg("windings", s)?,
                },
                state.view().arg("state", s)?,
            )?;
            spatial_judge_surfaces::launch(
                s,
                2 * SAMPLES / 64,
                shape,
                assume_closed as u32,
                surfaces.dipoles,
                self.windings.view().arg("windings", s)?,
                state.view_mut().arg("state", s)?,
            )
        }
    }
    /// Computes margins and labels of all voxels. Five launches.
    pub(super) fn label(
        &mut self,
        s: &Stream,
        index: &CellIndex,
        sums: &SurfaceSums,
        labels: &mut Buffer<u32>,
        state: &mut Buffer<u32>,
    ) -> Result<()> {
        self.judge_near(s, index, sums, state)?;
        self.judge_free(s, index, state)?;
        self.judge_undecided(s, index, sums, state)?;
        let voxels = index.voxels(s, state);
        // SAFETY: every buffer has a word per voxel.
        unsafe {
            spatial_label::launch(
                s,
                blocks(voxels, 128),
                voxels as u32,
                index.arg(s)?,
                MarginsIn {
                    marks: self.marks.view().arg("marks", s)?,
                    margins: self.margins.view().arg("margins", s)?,
                },
                state.view().arg("state", s)?,
                labels.view_mut().arg("labels", s)?,
            )
        }
    }
    /// Builds the argument for kernels that judge voxels.
    fn margins_out(&mut self, s: &Stream) -> Result<MarginsOut> {
        Ok(MarginsOut {
            margins: self.margins.view_mut().arg("margins", s)?,
            reach: self.reach.view_mut().arg("reach", s)?,
            undecided: self.undecided.view_mut().arg("undecided", s)?,
            sums: self.sums.view_mut().arg("sums", s)?,
        })
    }
    /// Computes margins of voxels near the other surface, or marks them as undecided. One launch.
    fn judge_near(
        &mut self,
        s: &Stream,
        index: &CellIndex,
        sums: &SurfaceSums,
        state: &mut Buffer<u32>,
    ) -> Result<()> {
        let near = bound(s, state, state::NEAR, index.voxels(s, state));
        // SAFETY: lists hold voxels and have room for all; every buffer has a word per voxel.
        unsafe {
            spatial_judge_near::launch(
                s,
                turns(s, near),
                sums.surfaces(s, index)?,
                self.near.view().arg("near", s)?,
                self.margins_out(s)?,
                state.view_mut().arg("state", s)?,
            )
        }
    }
    /// Computes margins of the voxels in units from the units' winding numbers, or marks them as
    /// undecided. One launch.
    fn judge_free(&mut self, s: &Stream, index: &CellIndex, state: &mut Buffer<u32>) -> Result<()> {
        let voxels = index.voxels(s, state);
        // SAFETY: the list has room for every voxel; every buffer has a word per voxel or per cell.
        unsafe {
            spatial_judge_free::launch(
                s,
                blocks(voxels, 128),
                voxels as u32,
                index.arg(s)?,
                UnitsIn {
                    marks: self.marks.view().arg("marks", s)?,
                    numbers: self.numbers.view().arg("numbers", s)?,
                    windings: self.windings.view().arg("windings", s)?,
                },
                self.margins_out(s)?,
                state.view_mut().arg("state", s)?,
            )
        }
    }
    /// Computes margins of undecided voxels: first of those close to the continuation of a surface
    /// beyond a hole, then of the others by their own winding numbers. Two launches.
    fn judge_undecided(
        &mut self,
        s: &Stream,
        index: &CellIndex,
        sums: &SurfaceSums,
        state: &Buffer<u32>,
    ) -> Result<()> {
        let (shape, surfaces) = (index.shape, sums.surfaces(s, index)?);
        let undecided = self.undecided.view().arg("undecided", s)?;
        let queries = bound(s, state, state::UNDECIDED, index.voxels(s, state));
        let (split, state) = (split(s), state.view().arg("state", s)?);
        // SAFETY: the list holds voxels; every buffer has a word per voxel.
        unsafe {
            spatial_judge_holes::launch(
                s,
                turns(s, queries),
                surfaces,
                undecided,
                self.reach.view_mut().arg("reach", s)?,
                self.margins.view_mut().arg("margins", s)?,
                state,
            )?;
            spatial_wind_voxels::launch(
                s,
                turns(s, queries * (shape.top() * split) as usize),
                split,
                surfaces,
                VoxelQueries {
                    undecided,
                    reach: self.reach.view().arg("reach", s)?,
                    sums: self.sums.view_mut().arg("sums", s)?,
                    margins: self.margins.view_mut().arg("margins", s)?,
                },
                state,
            )
        }
    }
    /// Returns areas by cloud and label, in fixed point.
    pub(super) fn measure(
        &mut self,
        s: &Stream,
        index: &CellIndex,
        sums: &SurfaceSums,
        labels: &Buffer<u32>,
        state: &Buffer<u32>,
    ) -> Result<Vec<u64>> {
        self.measures.view_mut().fill_bytes(0, s)?;
        let threads = blocks(index.voxels(s, state), MEASURE_TURN);
        // SAFETY: there is a label and a dipole for each voxel.
        unsafe {
            spatial_measure::launch(
                s,
                blocks(2 * threads as usize, 64),
                threads,
                sums.surfaces(s, index)?.dipoles,
                labels.view().arg("labels", s)?,
                state.view().arg("state", s)?,
                self.measures.view_mut().arg("measures", s)?,
            )?
        };
        self.measures.download()
    }
    /// Returns the bytes on the device.
    pub(super) fn bytes(&self) -> usize {
        let words = [
            &self.marks,
            &self.near,
            &self.units,
            &self.numbers,
            &self.undecided,
            &self.margins,
            &self.reach,
        ];
        words.iter().map(|b| b.bytes()).sum::<usize>()
            + self.windings.bytes()
            + self.sums.bytes()
            + self.measures.bytes()
    }
}

/// Returns the number of parts per level of a winding number: one per brick on devices with many
/// threads.
fn split(s: &Stream) -> u32 {
    if s.device().kind() == DeviceKind::Cpu { 1 } else { CORNERS }
}
/// Returns the number of blocks of 64 threads for `n` iterations, which any number of threads can
/// share. On a GPU `n` is only an upper bound, so the blocks are capped at a full device.
fn turns(s: &Stream, n: usize) -> u32 {
    const BLOCKS_PER_MULTIPROCESSOR: usize = 32;
    let needed = n.div_ceil(64);
    let device = s.device();
    let most = if device.kind() == DeviceKind::Cuda {
        device.parallelism() * BLOCKS_PER_MULTIPROCESSOR
    } else {
        needed
    };
    needed.min(most) as u32
}
