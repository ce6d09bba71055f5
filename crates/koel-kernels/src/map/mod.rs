//! The flagship table: the kernels that build and search maps.
//!
//! In the order in which data meets them: [`partition`] brings the pairs of each partition
//! together, in one pass or two; [`build`] turns each partition into its buckets, one block a
//! partition, in shared memory, and resolves equal keys, by the [`records`] of pairs; [`small`]
//! does both for small inputs; [`settle`] ends a build: it settles what [`build`] left open and
//! writes the header; [`reproduce`] places all pairs anew where the same bytes are wanted every
//! time; [`find`] looks keys up, [`join`] does so in any order, [`export`] gives all pairs back;
//! [`update`] changes a table that is there, in batches, and [`few`] does so where these are small.
//! [`group`] makes groups of equal keys of the partitions, for multimaps, and [`of_groups`] a table
//! of their keys. Nothing in between needs the host.
//!
//! What sets need too is in [`table`](crate::table).
pub mod build;
pub mod export;
pub mod few;
pub mod find;
pub mod group;
pub mod join;
pub mod kinds;
pub mod of_groups;
pub mod partition;
pub mod records;
pub mod reproduce;
pub mod settle;
pub mod small;
pub mod stamps;
pub mod update;

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
