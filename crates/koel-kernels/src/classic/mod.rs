//! The kernels of the published tables, one file per table. The yardstick, a sorted array, is among
//! them.
pub mod bfs;
pub mod bucketed;
pub mod chaining;
pub mod fks;
pub mod function_id;
pub mod multi_value;
pub mod perfect_spatial;
pub mod probing;
pub mod random_walk;
pub mod set;
pub mod single_level;
pub mod sorted;
pub mod strided;
pub mod two_kernel;
pub mod two_level;
pub mod two_level_multi;

use crate::hash::Functions;
use koel_simt::{Buf, In, Word};

/// An empty slot. The one pair that looks like it, key and value all ones, is kept outside the
/// slots.
pub const EMPTY: u64 = u64::MAX;

/// Key in the low half, value in the high half.
#[inline(always)]
pub fn pair(key: u32, value: u32) -> u64 {
    (value as u64) << 32 | key as u64
}
/// The key of a pair.
#[inline(always)]
pub fn key_of(pair: u64) -> u32 {
    pair as u32
}
/// The value of a pair.
#[inline(always)]
pub fn value_of(pair: u64) -> u32 {
    (pair >> 32) as u32
}
/// Whether a slot holds a pair with this key.
#[inline(always)]
pub fn holds(slot: u64, key: u32) -> bool {
    key_of(slot) == key && slot != EMPTY
}

/// Words of the `status` buffer that build kernels write and the host reads.
pub mod status {
    /// Pairs that could not be placed (or buckets, or overflows): the build has failed.
    pub const FAILED: u32 = 0;
    /// Pairs handed to the stash.
    pub const STASHED: u32 = 1;
    /// 1 if the pair of all ones was among the input.
    pub const ALL_ONES: u32 = 2;
    /// Words in all.
    pub const WORDS: usize = 4;
}

/// The pairs that a table is built of: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PairsIn {
    /// `n` of them.
    pub keys: In<u32>,
    /// `n` of them.
    pub values: In<u32>,
    /// How many pairs there are.
    pub n: u32,
}
impl PairsIn {
    /// Pair `i`, which is read once.
    #[inline(always)]
    #[track_caller]
    pub fn get_stream(self, i: u32) -> u64 {
        pair(self.keys.get_stream(i), self.values.get_stream(i))
    }
}

/// A cuckoo table that is built in global memory: a kernel's argument. Clear the slots to ones and
/// the status to zeros before.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct CuckooMut<W: Word = u64> {
    /// From keys to slots.
    pub functions: Functions,
    /// The slots.
    pub slots: Buf<W>,
    /// Words of the [`status`].
    pub status: Buf<u32>,
}

/// Pairs brought together by bucket: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BucketsIn {
    /// Where the pairs of each bucket begin.
    pub starts: In<u32>,
    /// How many each bucket has.
    pub counts: In<u32>,
    /// The pairs, bucket after bucket.
    pub pairs: In<u64>,
}

/// What the build of buckets writes: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BucketsOut {
    /// The slots of all buckets.
    pub slots: Buf<u64>,
    /// The seed of each bucket's functions.
    pub seeds: Buf<u32>,
    /// Words of the [`status`].
    pub status: Buf<u32>,
}

/// Queries and where their answers go: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Queries {
    /// `n` keys to look up.
    pub keys: In<u32>,
    /// The value of each; 0 if the table does not hold the key.
    pub values: Buf<u32>,
    /// 1 if the table holds the key, else 0.
    pub found: Buf<u8>,
    /// How many queries there are.
    pub n: u32,
}
impl Queries {
    /// Answers query `i`.
    #[inline(always)]
    #[track_caller]
    pub fn answer(self, i: u32, pair: Option<u64>) {
        self.values.store_stream(i, pair.map_or(0, value_of));
        self.found.store_stream(i, pair.is_some() as u8);
    }
}

/// Queries of a table that leads into a list, and where their answers go: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct ListQueries {
    /// `n` keys to look up.
    pub keys: In<u32>,
    /// Where the entries of each begin in the list; 0 if the table does not hold the key.
    pub starts: Buf<u32>,
    /// How many each has.
    pub counts: Buf<u32>,
    /// How many queries there are.
    pub n: u32,
}
impl ListQueries {
    /// Answers query `i`.
    #[inline(always)]
    #[track_caller]
    pub fn answer(self, i: u32, start: u32, count: u32) {
        self.starts.store_stream(i, start);
        self.counts.store_stream(i, count);
    }
}
