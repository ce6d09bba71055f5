//! Passes that partition pairs.
use crate::device::{Stream, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::Result;
use crate::table::DeviceLayout;
use crate::table::plan::{Plan, with_crowd};
use crate::table::slots::stash_words;
use koel_kernels::map::partition::{
    Input, NARROW, SMALL, Tile, map_from_coarse, map_from_input_narrow, map_from_input_small,
    map_from_input_wide,
};
use koel_kernels::map::stamps::Stamps;
use koel_kernels::table::bins::{Bins, BinsOut, CoarseIn, StashOut};
use koel_kernels::table::layout::Layout;

/// Output of the partition passes, and the stash that they clear.
pub(crate) struct Passes<'a> {
    /// Bins of the first of two passes.
    pub by_coarse: ViewMut<'a, u64>,
    pub by_partition: ViewMut<'a, u64>,
    /// Overflow areas of both passes.
    pub overflow: ViewMut<'a, u64>,
    /// Cursors of both passes, zero before them.
    pub cursors: ViewMut<'a, u32>,
    /// Valid counts of both passes, all ones before them.
    pub valid: ViewMut<'a, u32>,
    pub stash: ViewMut<'a, u64>,
    pub state: ViewMut<'a, u32>,
}
/// Partitions the input: one or two launches.
pub(crate) fn partition<L: DeviceLayout>(
    stream: &Stream,
    plan: &Plan,
    input: Input<L>,
    duplicates: Duplicates,
    stamps: Stamps,
    mut memory: Passes<'_>,
) -> Result<()> {
    memory.pass_over_input(stream, plan, input, duplicates, stamps)?;
    match plan.coarse {
        Some(coarse_bins) => {
            memory.pass_over_coarse::<L>(stream, plan, coarse_bins, duplicates, stamps)
        }
        None => Ok(()),
    }
}
impl Passes<'_> {
    /// Launches the pass over the input, to the bins of the first of two passes or to the
    /// partitions.
    fn pass_over_input<L: DeviceLayout>(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        input: Input<L>,
        duplicates: Duplicates,
        stamps: Stamps,
    ) -> Result<()> {
        let tile = plan.first_tile(stream.device().max_shared());
        let tiles = tiles::<L>(plan, tile);
        let ours = ..plan.coarse.map_or(plan.bins(), |coarse| coarse.count) as usize;
        let pairs = match plan.coarse {
            Some(_) => &mut self.by_coarse,
            None => &mut self.by_partition,
        };
        let out = BinsOut {
            bins: with_crowd(plan.first_bins(), duplicates, tile.pairs::<L>()),
            pairs: pairs.arg("bins", stream)?,
            overflow: self.overflow.arg("overflow", stream)?,
            cursors: self.cursors.reborrow().slice(ours)?.arg("cursors", stream)?,
            valid: self.valid.reborrow().slice(ours)?.arg("valid", stream)?,
            build_state: self.state.arg("state", stream)?,
        };
        let words = stash_words::<L>(plan) as u32;
        let stash = StashOut { slots: self.stash.arg("stash", stream)?, words };
        let launch = match tile {
            NARROW => map_from_input_narrow::launch::<L, Stream>,
            SMALL => map_from_input_small::launch::<L, Stream>,
            _ => map_from_input_wide::launch::<L, Stream>,
        };
        // SAFETY: there are `n` keys and values, a cursor per bin, room for every bin, and both
        // overflow areas.
        unsafe { launch(stream, tiles, input, stamps, out, stash) }
    }
    /// Launches the second pass, from the bins of the first one to the partitions.
    fn pass_over_coarse<L: DeviceLayout>(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        coarse_bins: Bins,
        duplicates: Duplicates,
        stamps: Stamps,
    ) -> Result<()> {
        let (coarse, bins) = (coarse_bins.count as usize, plan.bins() as usize);
        let tiles = coarse_bins.room.div_ceil(NARROW.pairs::<L>());
        let from = CoarseIn {
            bins: coarse_bins,
            tiles,
            cursors: self.cursors.view().slice(..coarse)?.arg("cursors", stream)?,
            valid: self.valid.view().slice(..coarse)?.arg("valid", stream)?,
            pairs: self.by_coarse.view().arg("coarse", stream)?,
        };
        let out = BinsOut {
            bins: with_crowd(plan.partitions, duplicates, NARROW.pairs::<L>()),
            pairs: self.by_partition.arg("partitions", stream)?,
            overflow: self.overflow.arg("overflow", stream)?,
            cursors: self.cursors.reborrow().slice(coarse..bins)?.arg("cursors", stream)?,
            valid: self.valid.reborrow().slice(coarse..bins)?.arg("valid", stream)?,
            build_state: self.state.arg("state", stream)?,
        };
        let grid = coarse_bins.count * tiles;
        // SAFETY: there is a cursor per bin; the input bins are as the first pass left them; there
        // is room for every output bin, and both overflow areas.
        unsafe {
            map_from_coarse::launch::<L::Stored, _>(stream, grid, plan.shape, stamps, from, out)
        }
    }
}
/// Returns the number of blocks of the pass over the input.
pub(super) fn tiles<L: Layout>(plan: &Plan, tile: Tile) -> u32 {
    plan.n.div_ceil(tile.pairs::<L>()).max(1)
}
