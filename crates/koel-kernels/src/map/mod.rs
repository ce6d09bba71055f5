//! The flagship table: the kernels that build and search maps.
//!
//! A build runs these kernels in order:
//! * [`partition`] brings the pairs of each partition together, in one pass or two.
//! * [`build`] builds the buckets of each partition in shared memory, one block per partition, and
//!   resolves duplicate keys. It works on [`records`] of pairs.
//! * [`pipeline`] does the second of two passes and the build in one launch.
//! * [`small`] does both for small inputs.
//! * [`finalize`] ends a build: it settles what [`build`] left open and writes the header.
//! * [`reproduce`] places all pairs anew if the table must have the same bytes every time.
//!
//! Other kernels use a built table:
//! * [`find`] looks keys up, [`join`] does so with answers in any order, and [`export`] returns all
//!   pairs.
//! * [`update`] changes a table in batches; [`sparse`] does so for small batches.
//! * [`group`] groups the pairs of each partition by key, for multimaps; [`from_groups`] builds a
//!   table of the groups' keys.
//!
//! None of these steps needs the host. Code shared with sets is in [`table`](crate::table).
pub mod build;
pub mod export;
pub mod finalize;
pub mod find;
pub mod from_groups;
pub mod group;
pub mod join;
pub mod kinds;
pub mod partition;
pub mod pipeline;
pub mod records;
pub mod reproduce;
pub mod small;
pub mod sparse;
pub mod stamps;
mod thinning;
pub mod update;

/// Base-2 logarithm of the bits in the filter of the table of contested keys. A cleared bit means
/// that a contested key may have a hash that maps to it.
pub const CONTESTED_FILTER: u32 = 17;
/// Words of the filter.
pub const FILTER_WORDS: u32 = 1 << (CONTESTED_FILTER - 6);
/// Words of a table of contested keys with 2^`bits` slots, filter included. All words are all ones
/// between builds.
pub const fn contested_words(bits: u32) -> usize {
    (1 << bits) + FILTER_WORDS as usize
}
/// Returns the word of the filter, and the bit in that word, for a key with hash `h`.
#[inline(always)]
pub fn filter_bit(h: u32) -> (u32, u32) {
    let bit = h.wrapping_mul(0x9E37_79B1) >> (32 - CONTESTED_FILTER);
    (bit / 64, bit & 63)
}

/// Returns the rank of pair `i` of the input. The copy with the greatest rank stays: the last, or
/// the first if `keep_first` is not 0. A rank is never 0.
#[inline(always)]
pub fn rank(i: u32, keep_first: u32) -> u32 {
    if keep_first != 0 { !i } else { i + 1 }
}
/// Returns the position in the input of the pair with this rank.
#[inline(always)]
pub fn ranked(rank: u32, keep_first: u32) -> u32 {
    if keep_first != 0 { !rank } else { rank.wrapping_sub(1) }
}
