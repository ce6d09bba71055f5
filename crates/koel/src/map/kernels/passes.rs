//! The passes that bring pairs to their partitions.
use super::{Kernels, stash_words};
use crate::device::{Stream, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::Result;
use crate::map::plan::{Plan, with_crowd};
use koel_kernels::map::layout::Layout;
use koel_kernels::map::partition::{Bins, NARROW, Stamps, Tile};
use koel_simt::In;

/// Memory that the partition passes write, and the stash that they clear.
pub struct Passes<'a> {
    /// Pairs by group, if there are two passes.
    pub by_group: ViewMut<'a, u64>,
    pub by_partition: ViewMut<'a, u64>,
    /// Behind the bins of both passes.
    pub overflow: ViewMut<'a, u64>,
    /// Of both passes, zero before them.
    pub cursors: ViewMut<'a, u32>,
    /// Of both passes, all ones before them.
    pub valid: ViewMut<'a, u32>,
    pub stash: ViewMut<'a, u64>,
    pub state: ViewMut<'a, u32>,
}
/// Pairs to be brought to their partitions.
#[derive(Clone, Copy)]
pub struct Unparted<L: Layout> {
    pub keys: In<L::Key>,
    pub values: In<L::Value>,
    /// Whether both begin on multiples of 16 bytes.
    pub aligned: bool,
    pub seed: u32,
    pub duplicates: Duplicates,
}
/// The partition passes: one or two launches.
pub fn partition<L: Kernels>(
    stream: &Stream,
    plan: &Plan,
    pairs: Unparted<L>,
    stamps: Stamps,
    mut memory: Passes<'_>,
) -> Result<()> {
    memory.pass_over_input(stream, plan, pairs, stamps)?;
    match plan.groups {
        Some(group_bins) => {
            memory.pass_in_groups::<L>(stream, plan, group_bins, pairs.duplicates, stamps)
        }
        None => Ok(()),
    }
}
impl Passes<'_> {
    /// The first pass: to the bins of the groups, or of the partitions if there are no groups.
    fn pass_over_input<L: Kernels>(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        pairs: Unparted<L>,
        stamps: Stamps,
    ) -> Result<()> {
        let Unparted { keys, values, aligned, seed, duplicates } = pairs;
        let tile = plan.first_tile(stream.device().max_shared());
        let tiles = tiles::<L>(plan, tile);
        let overflow = self.overflow.arg("overflow", stream)?;
        let state = self.state.arg("state", stream)?;
        let out = match plan.groups {
            Some(_) => &mut self.by_group,
            None => &mut self.by_partition,
        };
        let out = out.arg("bins", stream)?;
        let bins = with_crowd(plan.first_bins(), duplicates, tile.pairs::<L>());
        let ours = ..plan.groups.map_or(plan.bins(), |groups| groups.count) as usize;
        let cursors = self.cursors.reborrow().slice(ours)?.arg("cursors", stream)?;
        let valid = self.valid.reborrow().slice(ours)?.arg("valid", stream)?;
        let words = stash_words::<L>(plan) as u32;
        let stash = self.stash.arg("stash", stream)?;
        // SAFETY: `n` keys and values; one cursor a bin; `out` has every bin's room, `overflow`
        // both areas.
        unsafe {
            L::from_input(
                stream,
                tiles,
                tile,
                seed,
                plan.n,
                aligned as u32,
                stamps,
                keys,
                values,
                bins,
                out,
                overflow,
                cursors,
                valid,
                stash,
                words,
                state,
            )
        }
    }
    /// The second pass, from the groups that the first one left to the bins of the partitions.
    fn pass_in_groups<L: Kernels>(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        group_bins: Bins,
        duplicates: Duplicates,
        stamps: Stamps,
    ) -> Result<()> {
        let (groups, bins) = (group_bins.count as usize, plan.bins() as usize);
        let tiles = group_bins.room.div_ceil(NARROW.pairs::<L>());
        let partition_bins = with_crowd(plan.partitions, duplicates, NARROW.pairs::<L>());
        let grid = group_bins.count * tiles;
        let group_cursors = self.cursors.view().slice(..groups)?.arg("cursors", stream)?;
        let group_valid = self.valid.view().slice(..groups)?.arg("valid", stream)?;
        let input = self.by_group.view().arg("groups", stream)?;
        let out = self.by_partition.arg("partitions", stream)?;
        let overflow = self.overflow.arg("overflow", stream)?;
        let cursors = self.cursors.reborrow().slice(groups..bins)?.arg("cursors", stream)?;
        let valid = self.valid.reborrow().slice(groups..bins)?.arg("valid", stream)?;
        let state = self.state.arg("state", stream)?;
        // SAFETY: one cursor a bin; the input has every group's room, as the first pass left it;
        // `out` has every bin's, `overflow` both areas.
        unsafe {
            L::from_groups(
                stream,
                grid,
                plan.shape,
                stamps,
                group_bins,
                tiles,
                group_cursors,
                group_valid,
                input,
                partition_bins,
                out,
                overflow,
                cursors,
                valid,
                state,
            )
        }
    }
}
/// Blocks of the pass over the input.
pub(super) fn tiles<L: Layout>(plan: &Plan, tile: Tile) -> u32 {
    plan.n.div_ceil(tile.pairs::<L>()).max(1)
}
