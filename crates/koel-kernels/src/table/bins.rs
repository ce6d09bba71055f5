//! Bins: the output of a partition pass, and the input of the next pass or of a build.
use crate::partition::{ELSEWHERE, NOWHERE, fits};
use crate::table::state;
use koel_simt::{Buf, In, Word};

/// Maximum number of pairs per overflow area.
pub const MAX_OVERFLOW: u32 = 1 << 20;
/// Destination of a pass: a kernel argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Bins {
    /// Bins that one block scatters to.
    pub count: u32,
    /// Pairs per region of a bin; even.
    pub room: u32,
    /// Pairs of a tile from which a bin counts as [crowded](crate::partition::Crowd::limit). All
    /// ones if duplicates are not dropped.
    pub crowd: u32,
    /// Pairs per overflow area. Each pass has its own; the second follows the first.
    pub area: u32,
    /// Start of this pass's overflow area in the overflow array.
    pub overflow: u32,
    /// Word of the [`state`] that counts the pairs in the overflow area.
    pub overflow_word: u32,
    /// First of `count` words after the valid counts of several regions: if some pair did not fit
    /// its region, the word of its bin becomes zero. 0 if each bin is one region.
    pub flags: u32,
}

/// Output of a pass: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BinsOut<W: Word = u64> {
    /// Sizes of the bins and of the overflow area.
    pub bins: Bins,
    /// The bins.
    pub pairs: Buf<W>,
    /// The overflow areas of both passes.
    pub overflow: Buf<W>,
    /// Number of pairs sent to each bin; zero before the pass.
    pub cursors: Buf<u32>,
    /// Upper bound on the pairs stored in each bin, all ones if all of them are; all ones before
    /// the pass.
    pub valid: Buf<u32>,
    /// Words that the kernels of a build share.
    pub build_state: Buf<u32>,
}

/// Where the pass over the input left its pairs, as input of the second pass: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct CoarseIn {
    /// The bins of the first pass.
    pub bins: Bins,
    /// Blocks per region of a bin.
    pub tiles: u32,
    /// Regions per bin, which lie next to each other. The counts of the first regions of all bins
    /// come first.
    pub regions: u32,
    /// Number of pairs sent to each region.
    pub cursors: In<u32>,
    /// Upper bound on the pairs stored in each region.
    pub valid: In<u32>,
}

/// A stash that a pass empties: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct StashOut {
    /// Slots of the stash.
    pub slots: Buf<u64>,
    /// Number of words in `slots`.
    pub words: u32,
}

/// Location and fill of the bins of the last partition pass: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Source {
    /// Pairs per bin; even.
    pub room: u32,
    /// log2 of the number of slots in the stash.
    pub stash_bits: u32,
    /// log2 of the number of slots in the table of contested keys.
    pub contested_bits: u32,
    /// Capacity of a list, in pairs.
    pub list: u32,
    /// Partitions per first-pass bin.
    pub each: u32,
    /// Pairs per overflow area.
    pub area: u32,
    /// Words for the first of two passes, which precede those for the bins of the second; 0 if
    /// there was one pass.
    pub coarse: u32,
    /// First of the words that are not all ones for a bin of the first pass with overflow.
    pub flags: u32,
}

/// Output of the last pass, as input of a build: a kernel argument. The pass may run in the same
/// launch.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PartitionsIn<W: Word = u64> {
    /// The bins: pairs, or [records](crate::map::records::Indexed) of them.
    pub pairs: Buf<W>,
    /// Number of pairs sent to each bin, for both passes.
    pub counts: Buf<u32>,
    /// Upper bound on the pairs stored in each bin, all ones if all of them are.
    pub valid: Buf<u32>,
    /// Overflow areas of the passes. The build's state counts their pairs.
    pub overflow: Buf<W>,
}

/// Returns where a run goes: into its bin, or into the overflow area if it does not fit. The bins
/// have one region each.
#[inline(always)]
pub(crate) fn place(
    bins: Bins,
    first_bin: u32,
    valid: Buf<u32>,
    build_state: Buf<u32>,
) -> impl Fn(u32, u32, u32) -> u32 {
    place_in(bins, first_bin, move |bin| first_bin + bin, valid, build_state)
}
/// Returns where a run goes, like [`place`]. `region` returns the place of a bin's region among all
/// regions; the words of the bins start at `first_word`.
#[inline(always)]
pub(crate) fn place_in(
    bins: Bins,
    first_word: u32,
    region: impl Fn(u32) -> u32,
    valid: Buf<u32>,
    build_state: Buf<u32>,
) -> impl Fn(u32, u32, u32) -> u32 {
    move |bin, before, run| {
        if fits(bins.room, before, run) {
            region(bin) * bins.room + before
        } else {
            valid.fetch_min(first_word + bin, before);
            if bins.flags != 0 {
                valid.fetch_min(bins.flags + bin, 0);
            }
            // After a failure, blocks do not queue for counters.
            if build_state.load_relaxed(state::FAILED) != 0 {
                return NOWHERE;
            }
            let place = build_state.fetch_add(bins.overflow_word, run);
            if fits(bins.area, place, run) {
                ELSEWHERE | (bins.overflow + place)
            } else {
                build_state.fetch_add(state::FAILED, run);
                NOWHERE
            }
        }
    }
}
