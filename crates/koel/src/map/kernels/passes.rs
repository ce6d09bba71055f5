//! Passes that partition pairs.
use super::division::Division;
use crate::device::{Stream, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::Result;
use crate::table::DeviceLayout;
use crate::table::plan::{Plan, with_crowd};
use crate::table::slots::stash_words;
use koel_kernels::map::partition::{
    Input, MEDIUM, NARROW, SMALL, Tile, map_from_coarse, map_from_input_medium,
    map_from_input_narrow, map_from_input_small, map_from_input_wide,
};
use koel_kernels::table::bins::{BinsOut, CoarseIn, StashOut};
use koel_simt::Buf;

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
    division: &Division,
    input: Input<L>,
    duplicates: Duplicates,
    mut memory: Passes<'_>,
) -> Result<()> {
    memory.pass_over_input(stream, plan, division, input, duplicates)?;
    match plan.coarse {
        Some(_) => memory.pass_over_coarse::<L>(stream, plan, division, duplicates),
        None => Ok(()),
    }
}
impl Passes<'_> {
    /// Launches the pass over the input, to the bins of the first of two passes or to the
    /// partitions.
    pub(super) fn pass_over_input<L: DeviceLayout>(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        division: &Division,
        input: Input<L>,
        duplicates: Duplicates,
    ) -> Result<()> {
        let &Division { tile, tiles, stamps, .. } = division;
        let words = plan.coarse.map_or(division.bin_words(plan), |_| division.coarse_words(plan));
        let ours = ..words as usize;
        let pairs = match plan.coarse {
            Some(_) => &mut self.by_coarse,
            None => &mut self.by_partition,
        };
        let out = BinsOut {
            bins: with_crowd(division.first_bins(plan), duplicates, tile.pairs::<L>()),
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
            MEDIUM => map_from_input_medium::launch::<L, Stream>,
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
        division: &Division,
        duplicates: Duplicates,
    ) -> Result<()> {
        let (coarse, pairs, out) = self.between::<L>(stream, plan, division, duplicates, NARROW)?;
        let grid = coarse.bins.count * coarse.regions * coarse.tiles;
        // SAFETY: there is a cursor per bin; the input bins are as the first pass left them; there
        // is room for every output bin, and both overflow areas.
        unsafe {
            map_from_coarse::launch::<L::Stored, _>(
                stream,
                grid,
                plan.shape,
                division.stamps,
                coarse,
                pairs,
                out,
            )
        }
    }
    /// Returns the bins of the first of two passes, their pairs, and the bins of the second pass,
    /// in tiles of `tile`.
    pub(super) fn between<L: DeviceLayout>(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        division: &Division,
        duplicates: Duplicates,
        tile: Tile,
    ) -> Result<(CoarseIn, Buf<u64>, BinsOut)> {
        let coarse_bins = division.first_bins(plan);
        let coarse = division.coarse_words(plan) as usize;
        let bins = division.bin_words(plan) as usize;
        let tiles = coarse_bins.room.div_ceil(tile.pairs::<L>());
        let from = CoarseIn {
            bins: coarse_bins,
            tiles,
            regions: division.regions,
            cursors: self.cursors.view().slice(..coarse)?.arg("cursors", stream)?,
            valid: self.valid.view().slice(..coarse)?.arg("valid", stream)?,
        };
        let pairs = self.by_coarse.arg("coarse", stream)?;
        let out = BinsOut {
            bins: with_crowd(plan.partitions, duplicates, tile.pairs::<L>()),
            pairs: self.by_partition.arg("partitions", stream)?,
            overflow: self.overflow.arg("overflow", stream)?,
            cursors: self.cursors.reborrow().slice(coarse..bins)?.arg("cursors", stream)?,
            valid: self.valid.reborrow().slice(coarse..bins)?.arg("valid", stream)?,
            build_state: self.state.arg("state", stream)?,
        };
        Ok((from, pairs, out))
    }
}
