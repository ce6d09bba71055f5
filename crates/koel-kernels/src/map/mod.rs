//! The flagship table: how its bytes are laid out, and the kernels that build and search it.
//!
//! In the order in which data meets them: [`partition`] brings the pairs of each partition
//! together, in one pass or two; [`build`] turns each partition into its buckets, one block a
//! partition, in shared memory, and resolves equal keys, by the [`records`] of pairs; [`small`]
//! does both for small inputs; [`stash`] keeps what found no place; [`settle`] ends a build: it
//! settles what [`build`] left open and writes the header; [`reproduce`] places all pairs anew
//! where the same bytes are wanted every time; [`find`] looks keys up, [`join`] does so in any
//! order, [`export`] gives all pairs back; [`update`] changes a table that is there, in
//! batches, and [`few`] does so where these are small. [`group`] makes groups of equal keys of the
//! partitions, for multimaps, and [`of_groups`] a table of their keys. Nothing in between needs the
//! host.
pub mod build;
pub mod export;
pub mod few;
pub mod find;
pub mod group;
pub mod join;
pub mod layout;
pub mod of_groups;
pub mod partition;
pub mod records;
pub mod reproduce;
pub mod settle;
pub mod small;
pub mod stamps;
pub mod stash;
pub mod update;

/// Words of a table's header, in device memory beside its slots. [`settle`] writes them.
pub mod header {
    /// Keys are mixed with it.
    pub const SEED: u32 = 0;
    /// Pairs in the stash.
    pub const STASHED: u32 = 1;
    /// 1 if the ambiguous key is in the table.
    pub const HELD: u32 = 2;
    /// Its value: the low word, and the high word behind.
    pub const HELD_VALUE: u32 = 4;
    /// Pairs in the table.
    pub const PAIRS: u32 = 6;
    /// Pairs dropped because another one had the same key.
    pub const DROPPED: u32 = 7;
    /// Pairs that were lost: the build has failed.
    pub const FAILED: u32 = 8;
    /// Builds that were begun: more than one if the fast one failed.
    pub const ATTEMPTS: u32 = 9;
    /// Pairs that were behind the bins of a pass.
    pub const OVERFLOWED: u32 = 10;
    /// Keys whose last (or first) copy had to be looked for in the input.
    pub const CONTESTED: u32 = 11;
    /// Words in all.
    pub const WORDS: usize = 16;
}

/// Words that the kernels of a build share: zero before it, and again after it.
pub mod state {
    /// Pairs behind the bins of the first pass.
    pub const OVERFLOW_FIRST: u32 = 0;
    /// Pairs behind the bins of the second pass.
    pub const OVERFLOW_SECOND: u32 = 1;
    /// Pairs that found no place: the build must be done in another way.
    pub const FAILED: u32 = 2;
    /// Pairs dropped because another one has the same key.
    pub const DROPPED: u32 = 3;
    /// Keys of which several copies may be the last (or first) one.
    pub const CONTESTED: u32 = 4;
    /// Pairs in the stash.
    pub const STASHED: u32 = 5;
    /// Of the ambiguous key, the greatest [`rank`](super::rank).
    pub const HELD: u32 = 6;
    /// Its copies.
    pub const HELD_COPIES: u32 = 7;
    /// Blocks that are done.
    pub const TICKET: u32 = 8;
    /// Blocks that came to the barrier of the grid.
    pub const ARRIVED: u32 = 9;
    /// The number of the attempt that succeeded, after the first.
    pub const ATTEMPTS: u32 = 10;
    /// From which stretch of the input on contested keys may have copies:
    /// [`Stamps::from`](super::stamps::Stamps::from).
    pub const FROM: u32 = 11;
    /// The seed of that attempt.
    pub const SEED: u32 = 12;
    /// Bins that were crowded in tiles of the first pass, but not by far.
    pub const CROWDED: u32 = 13;
    /// Partitions of a set of which the first keys, or the list, showed many copies.
    pub const COPIED: u32 = 14;
    /// From here on a word for each stretch of the input: not 0 if contested keys have copies
    /// there.
    pub const STRETCHES: u32 = 32;
    /// Words in all.
    pub const WORDS: usize = STRETCHES as usize + super::stamps::MAX_STAMPS as usize;
}

/// A filter behind the table of contested keys has 2^this bits: one that is cleared tells that
/// there may be a key of such a hash.
pub const CONTESTED_FILTER: u32 = 17;
/// Its words.
pub const FILTER_WORDS: u32 = 1 << (CONTESTED_FILTER - 6);
/// Words of the table of contested keys, of 2^`bits` slots, and its filter. All are ones between
/// builds.
pub const fn contested_words(bits: u32) -> usize {
    (1 << bits) + FILTER_WORDS as usize
}
/// The word of the filter, and the number of the bit in it, of a key with this hash.
#[inline(always)]
pub fn filter_bit(h: u32) -> (u32, u32) {
    let bit = h.wrapping_mul(0x9E37_79B1) >> (32 - CONTESTED_FILTER);
    (bit / 64, bit & 63)
}

/// Of equal keys, the one of the greatest rank stays: the last, or the first if `keep_first` is not
/// 0. Never 0.
#[inline(always)]
pub fn rank(i: u32, keep_first: u32) -> u32 {
    if keep_first != 0 { !i } else { i + 1 }
}
/// Where in the input the pair of a rank is.
#[inline(always)]
pub fn ranked(rank: u32, keep_first: u32) -> u32 {
    if keep_first != 0 { !rank } else { rank.wrapping_sub(1) }
}
