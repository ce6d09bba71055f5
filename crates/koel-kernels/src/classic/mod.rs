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

/// What a lookup gives back: written where the caller wants it.
#[inline(always)]
pub fn answer(i: u32, pair: Option<u64>, values: koel_simt::Buf<u32>, found: koel_simt::Buf<u8>) {
    values.store_stream(i, pair.map_or(0, value_of));
    found.store_stream(i, pair.is_some() as u8);
}
