//! Device code of koel-classic and koel-vision-classic: one source for PTX and for the host.
//!
//! Kernels of the published tables, one file per table, of the baseline, a sorted array, and of the
//! published [`matcher`] of images. Every kernel here becomes an entry of one of the [`images`]
//! (`cargo xtask ptx`), and also runs on the host.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(clippy::too_many_arguments, reason = "a kernel takes what it needs one by one")]

pub mod bfs;
pub mod bucketed;
pub mod chaining;
#[cfg(not(target_arch = "nvptx64"))]
pub mod entries;
pub mod fks;
pub mod function_id;
#[cfg(not(target_arch = "nvptx64"))]
pub mod images;
pub mod matcher;
pub mod multi_value;
pub mod perfect_spatial;
pub mod probing;
pub mod random_walk;
pub mod residues;
pub mod set;
pub mod single_level;
pub mod sorted;
pub mod stored_step;
pub mod strided;
pub mod two_kernel;
pub mod two_level;
pub mod two_level_multi;

use koel_kernels::hash::Functions;
use koel_simt::{Buf, In, Word};

/// An empty slot. The one pair equal to it, whose key and value are all ones, is kept outside the
/// slots.
pub const EMPTY: u64 = u64::MAX;

/// Packs a pair: key in the low half, value in the high half.
#[inline(always)]
pub fn pair(key: u32, value: u32) -> u64 {
    (value as u64) << 32 | key as u64
}
/// Returns the key of a pair.
#[inline(always)]
pub fn key_of(pair: u64) -> u32 {
    pair as u32
}
/// Returns the value of a pair.
#[inline(always)]
pub fn value_of(pair: u64) -> u32 {
    (pair >> 32) as u32
}
/// Returns whether a slot holds a pair with this key.
#[inline(always)]
pub fn holds(slot: u64, key: u32) -> bool {
    key_of(slot) == key && slot != EMPTY
}

/// Words of the `status` buffer that build kernels write and the host reads.
pub mod status {
    /// Number of pairs (or buckets, or overflows) that could not be placed. If it is not 0, the
    /// build has failed.
    pub const FAILED: u32 = 0;
    /// Number of pairs sent to the stash.
    pub const STASHED: u32 = 1;
    /// 1 if the input contains the all-ones pair.
    pub const ALL_ONES: u32 = 2;
    /// Number of distinct keys, of tables whose keys may repeat.
    pub const KEYS: u32 = 3;
    /// Number of words.
    pub const WORDS: usize = 4;
}

/// Pairs that a table is built from: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PairsIn {
    /// `n` keys.
    pub keys: In<u32>,
    /// `n` values.
    pub values: In<u32>,
    /// Number of pairs.
    pub n: u32,
}
impl PairsIn {
    /// Returns pair `i` by a streaming load, for data that is read once.
    #[inline(always)]
    #[track_caller]
    pub fn get_stream(self, i: u32) -> u64 {
        pair(self.keys.get_stream(i), self.values.get_stream(i))
    }
}

/// A cuckoo table built in global memory: a kernel argument. The caller sets all bits of the slots
/// and clears the status.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct CuckooMut<W: Word = u64> {
    /// Hash functions from keys to slots.
    pub functions: Functions,
    /// Slots.
    pub slots: Buf<W>,
    /// The words of [`status`].
    pub status: Buf<u32>,
}

/// Pairs gathered by bucket: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BucketsIn {
    /// First pair of each bucket.
    pub starts: In<u32>,
    /// Number of pairs in each bucket.
    pub counts: In<u32>,
    /// Pairs, bucket by bucket.
    pub pairs: In<u64>,
}

/// Output of a bucket build: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BucketsOut {
    /// Slots of all buckets.
    pub slots: Buf<u64>,
    /// Seed of each bucket's functions.
    pub seeds: Buf<u32>,
    /// The words of [`status`].
    pub status: Buf<u32>,
}

/// Queries and their answers: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Queries {
    /// `n` keys to look up.
    pub keys: In<u32>,
    /// Value of each key; 0 if the table does not hold it.
    pub values: Buf<u32>,
    /// 1 if the table holds the key, else 0.
    pub found: Buf<u8>,
    /// Number of queries.
    pub n: u32,
}
impl Queries {
    /// Writes the answer to query `i`.
    #[inline(always)]
    #[track_caller]
    pub fn answer(self, i: u32, pair: Option<u64>) {
        self.values.store_stream(i, pair.map_or(0, value_of));
        self.found.store_stream(i, pair.is_some() as u8);
    }
}

/// Queries whose answers are ranges of a list: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct ListQueries {
    /// `n` keys to look up.
    pub keys: In<u32>,
    /// First entry of each key in the list; 0 if the table does not hold the key.
    pub starts: Buf<u32>,
    /// Number of entries of each key.
    pub counts: Buf<u32>,
    /// Number of queries.
    pub n: u32,
}
impl ListQueries {
    /// Writes the answer to query `i`.
    #[inline(always)]
    #[track_caller]
    pub fn answer(self, i: u32, start: u32, count: u32) {
        self.starts.store_stream(i, start);
        self.counts.store_stream(i, count);
    }
}

/// Returns the number, but at least 1, so that the compiler knows that a divisor is not 0.
#[inline(always)]
fn at_least_one(n: u32) -> u32 {
    if n == 0 { 1 } else { n }
}
