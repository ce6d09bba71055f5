//! Bins: what a partition pass writes, and the next pass or a build reads.
use crate::partition::{ELSEWHERE, NOWHERE, fits};
use crate::table::state;
use koel_simt::{Buf, In, Word};

/// Pairs that an overflow area has room for, at most.
pub const MAX_OVERFLOW: u32 = 1 << 20;
/// Where a pass puts pairs: a kernel's argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Bins {
    /// Bins that a block chooses from.
    pub count: u32,
    /// Places of a bin: even.
    pub room: u32,
    /// Pairs of a tile from which on a bin is [crowded](crate::partition::Crowd::limit); all ones:
    /// copies are not dropped.
    pub crowd: u32,
    /// Pairs that an overflow area has room for. There is one for each pass, the second behind the
    /// first.
    pub area: u32,
    /// Where the pass's overflow area begins in the array of overflows.
    pub overflow: u32,
    /// The word of the [`state`] that counts its pairs.
    pub overflow_word: u32,
}

/// What a pass writes: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BinsOut<W: Word = u64> {
    /// Where pairs go.
    pub bins: Bins,
    /// The bins.
    pub pairs: Buf<W>,
    /// The overflow areas of both passes.
    pub overflow: Buf<W>,
    /// Pairs that came to each bin; zero before the pass.
    pub cursors: Buf<u32>,
    /// How many of them are in it at most, all ones if all are; all ones before the pass.
    pub valid: Buf<u32>,
    /// The words that the kernels of a build share.
    pub build_state: Buf<u32>,
}

/// What the pass over the input left, for the pass inside the groups: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct GroupsIn<W: Word = u64> {
    /// The bins of the first pass.
    pub bins: Bins,
    /// Blocks for each of them.
    pub tiles: u32,
    /// Pairs that came to each.
    pub cursors: In<u32>,
    /// How many of them are in it at most.
    pub valid: In<u32>,
    /// The pairs.
    pub pairs: In<W>,
}

/// A stash that a pass empties: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct StashOut {
    /// Its slots.
    pub slots: Buf<u64>,
    /// Words of them.
    pub words: u32,
}

/// Where the bins of the last partition pass are, and how much they hold: a kernel's argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Source {
    /// Places of a bin: even.
    pub room: u32,
    /// The stash has 2^this slots.
    pub stash_bits: u32,
    /// The table of contested keys has 2^this slots.
    pub contested_bits: u32,
    /// Pairs that a list has room for.
    pub list: u32,
    /// Partitions of a group.
    pub each: u32,
    /// Pairs that the overflow area of a pass has room for.
    pub area: u32,
    /// Bins of the first of two passes, before those of the second; 0: there was one pass.
    pub groups: u32,
}

/// What the last pass left, for a build: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PartitionsIn<W: Word = u64> {
    /// The bins: pairs, or [records](crate::map::records::Indexed) of them.
    pub pairs: In<W>,
    /// Pairs that came to each bin of both passes.
    pub counts: In<u32>,
    /// How many of them are in it at most, all ones if all are.
    pub valid: In<u32>,
    /// The overflow areas of the passes, whose pairs the build's state counts.
    pub overflow: In<W>,
}

/// Where a run goes: into its bin, or behind all of them.
#[inline(always)]
pub(crate) fn place(
    bins: Bins,
    first_bin: u32,
    valid: Buf<u32>,
    build_state: Buf<u32>,
) -> impl Fn(u32, u32, u32) -> u32 {
    move |bin, before, run| {
        let bin = first_bin + bin;
        if fits(bins.room, before, run) {
            bin * bins.room + before
        } else {
            valid.fetch_min(bin, before);
            // Where all is lost, nobody queues for counters.
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
