//! Two-way index of the occupied cells of all levels: its buffers and its construction in a frame.

use super::cloud::Points;
use super::parts::{host, host_mut};
use super::{blocks, bound, counted};
use koel::primitives::Scan;
use koel::{Buffer, Device, Result, Stream};
use koel_spatial_kernels::intersect::clouds::Groups;
use koel_spatial_kernels::intersect::index::*;
use koel_spatial_kernels::intersect::layout::Shape;
use koel_spatial_kernels::intersect::state;
use std::ops::Range;

/// Index from key to number by ranks, and from number to key by an array. See
/// [`koel_spatial_kernels::intersect::index`].
pub(super) struct CellIndex {
    pub shape: Shape,
    most_bricks: usize,
    most_cells: usize,
    most_voxels: usize,
    occupied: Buffer<u32>,
    counts: Buffer<u32>,
    before: Buffer<u32>,
    scan: Scan<u32>,
    words: Buffer<u64>,
    cells: Buffer<u64>,
    /// Bricks with their first cells, two words each.
    pub bricks: Buffer<u64>,
    /// Bit position of each occupied brick in the bitmap.
    places: Buffer<u32>,
    /// Code of each cell.
    pub codes: Buffer<u32>,
}
impl CellIndex {
    /// Allocates the index for the given number of points.
    pub(super) fn new(device: &Device, shape: Shape, points: usize) -> Result<CellIndex> {
        let most = |side_bits: u32| most_cells_of(side_bits, points);
        let sum = |of: &dyn Fn(u32) -> usize| (0..shape.levels()).map(of).sum::<usize>();
        let most_cells = sum(&|l| most(shape.bits - l));
        let most_bricks = sum(&|l| most((shape.bits - l).saturating_sub(2)));
        let scanned = (shape.words as usize).max(most_bricks + 1);
        Ok(CellIndex {
            shape,
            most_bricks,
            most_cells,
            most_voxels: most(shape.bits),
            occupied: device.alloc(shape.words as usize)?,
            counts: device.alloc(scanned)?,
            before: device.alloc(scanned)?,
            scan: Scan::new(device, scanned)?,
            words: device.alloc(shape.words as usize)?,
            cells: device.alloc(most_bricks)?,
            bricks: device.alloc(2 * (most_bricks + 1))?,
            places: device.alloc(most_bricks)?,
            codes: device.alloc(most_cells)?,
        })
    }
    /// Returns the maximum number of voxels that points of both clouds occupy.
    pub(super) fn most_voxels_of(shape: Shape, points: usize) -> usize {
        most_cells_of(shape.bits, points)
    }
    /// Returns the maximum number of cells of all levels.
    pub(super) fn most_cells(&self) -> usize {
        self.most_cells
    }
    /// Returns the maximum number of voxels of both clouds.
    pub(super) fn most_voxels(&self) -> usize {
        self.most_voxels
    }
    /// Returns the number of cells of all levels to launch threads for.
    pub(super) fn cells(&self, s: &Stream, state: &Buffer<u32>) -> usize {
        bound(s, state, state::FIRST_CELL + 2 * self.shape.levels(), self.most_cells)
    }
    /// Returns the number of voxels to launch threads for.
    pub(super) fn voxels(&self, s: &Stream, state: &Buffer<u32>) -> usize {
        bound(s, state, state::FIRST_CELL + 2, self.most_voxels)
    }
    /// Returns the number of cells of a range of levels to launch threads for.
    pub(super) fn cells_of(&self, s: &Stream, levels: Range<u32>, state: &Buffer<u32>) -> usize {
        let first = |level: u32| (state::FIRST_CELL + 2 * level) as usize;
        match counted(s, state) {
            Some(state) => (state[first(levels.end)] - state[first(levels.start)]) as usize,
            None => levels
                .map(|level| self.most_voxels.min(2usize << (3 * (self.shape.bits - level))))
                .sum(),
        }
    }
    /// Builds the argument for kernels that read the index.
    pub(super) fn arg(&self, s: &Stream) -> Result<Index> {
        Ok(Index {
            words: self.words.view().arg("words", s)?,
            bricks: self.bricks.view().arg("bricks", s)?,
            codes: self.codes.view().arg("codes", s)?,
            shape: self.shape,
        })
    }
    /// Builds the argument for kernels that clear and set the bitmap of bricks.
    pub(super) fn brick_marks(&mut self, s: &Stream) -> Result<BrickMarks> {
        Ok(BrickMarks {
            occupied: self.occupied.view_mut().arg("occupied", s)?,
            counts: self.counts.view_mut().arg("counts", s)?,
            shape: self.shape,
        })
    }

    /// Builds the index from the bitmap of bricks and the points' keys, or their parts. Zeroes
    /// `of_voxels`, one word per voxel. Six launches on a GPU.
    pub(super) fn build(
        &mut self,
        s: &Stream,
        points: &mut Points,
        of_voxels: &mut Buffer<u32>,
        state: &mut Buffer<u32>,
    ) -> Result<()> {
        self.number_bricks(s, state)?;
        match &mut points.parts {
            Some(parts) => parts.mark_cells(
                self.shape,
                host(self.words.view())?,
                host_mut(&mut self.cells.view_mut())?,
            ),
            None => self.mark_cells(s, points)?,
        }
        let bricks = bound(s, state, state::BRICKS, self.most_bricks);
        self.count_cells(s, bricks, state)?;
        self.number_cells(s, bricks, points.groups(), of_voxels, state)
    }
    /// Marks the bricks of the points' parts.
    pub(super) fn mark_bricks(&mut self, points: &Points) -> Result<()> {
        let Some(parts) = &points.parts else { return Ok(()) };
        let (mut occupied, mut counts) = (self.occupied.view_mut(), self.counts.view_mut());
        parts.mark_bricks(self.shape, host_mut(&mut occupied)?, host_mut(&mut counts)?);
        Ok(())
    }
    /// Numbers the marked bricks.
    fn number_bricks(&mut self, s: &Stream, state: &mut Buffer<u32>) -> Result<()> {
        let n_words = self.shape.words as usize;
        self.scan.exclusive(
            s,
            self.counts.view().slice(..n_words)?,
            self.before.view_mut().slice(..n_words)?,
        )?;
        // SAFETY: there are `shape.words` words, with at most `most_bricks` bricks.
        unsafe {
            spatial_number_bricks::launch(
                s,
                blocks(n_words, 128),
                self.shape.words,
                self.occupied.view().arg("occupied", s)?,
                self.before.view().arg("before", s)?,
                BricksOut {
                    words: self.words.view_mut().arg("words", s)?,
                    cells: self.cells.view_mut().arg("cells", s)?,
                    places: self.places.view_mut().arg("places", s)?,
                },
                state.view_mut().arg("state", s)?,
            )
        }
    }
    /// Marks the occupied cells of each brick.
    fn mark_cells(&mut self, s: &Stream, points: &mut Points) -> Result<()> {
        let groups = points.groups();
        // SAFETY: a group has four keys, whose bricks are all marked: their numbers are below
        // `most_bricks`.
        unsafe {
            spatial_mark_cells::launch(
                s,
                blocks(groups.all as usize, 128),
                groups,
                points.keys.view().arg("keys", s)?,
                CellMarks {
                    words: self.words.view().arg("words", s)?,
                    cells: self.cells.view_mut().arg("cells", s)?,
                    shape: self.shape,
                },
                points.voxels.view_mut().arg("bricks_of", s)?,
            )
        }
    }
    /// Counts the cells of each brick, and those of the bricks before it.
    fn count_cells(&mut self, s: &Stream, bricks: usize, state: &Buffer<u32>) -> Result<()> {
        // SAFETY: there are `bricks` bricks, and a count more.
        unsafe {
            // One more entry after the last brick: the number of all cells.
            spatial_count_cells::launch(
                s,
                blocks(bricks + 1, 128),
                bricks as u32 + 1,
                self.cells.view().arg("cells", s)?,
                state.view().arg("state", s)?,
                self.counts.view_mut().arg("counts", s)?,
            )?;
        }
        self.scan.exclusive(
            s,
            self.counts.view().slice(..=bricks)?,
            self.before.view_mut().slice(..=bricks)?,
        )
    }
    /// Numbers the cells of all bricks, and zeroes `of_voxels`.
    fn number_cells(
        &mut self,
        s: &Stream,
        bricks: usize,
        groups: Groups,
        of_voxels: &mut Buffer<u32>,
        state: &mut Buffer<u32>,
    ) -> Result<()> {
        // SAFETY: bricks and cells are as counted; the state has room for every level.
        unsafe {
            spatial_number_cells::launch(
                s,
                blocks(bricks + 1 + 2 * self.shape.levels() as usize, 128),
                bricks as u32 + 1,
                groups,
                BricksIn {
                    words: self.words.view().arg("words", s)?,
                    cells: self.cells.view().arg("cells", s)?,
                    before: self.before.view().arg("before", s)?,
                    places: self.places.view().arg("places", s)?,
                    shape: self.shape,
                },
                IndexOut {
                    bricks: self.bricks.view_mut().arg("bricks", s)?,
                    codes: self.codes.view_mut().arg("codes", s)?,
                    points: of_voxels.view_mut().arg("points", s)?,
                },
                state.view_mut().arg("state", s)?,
            )
        }
    }
    /// Returns the bytes on the device.
    pub(super) fn bytes(&self) -> usize {
        self.occupied.bytes()
            + self.counts.bytes()
            + self.before.bytes()
            + self.scan.scratch_bytes()
            + self.words.bytes()
            + self.cells.bytes()
            + self.bricks.bytes()
            + self.places.bytes()
            + self.codes.bytes()
    }
}
/// Returns the maximum number of cells of a level: the points and the size of both grids bound it.
fn most_cells_of(side_bits: u32, points: usize) -> usize {
    points.min(2usize << (3 * side_bits))
}
