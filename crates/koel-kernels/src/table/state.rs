//! Words that the kernels of a build share: zero before the build, and reset to zero after it.
use koel_simt::{Buf, Thread};

/// Pairs that did not fit their bins in the first pass.
pub const OVERFLOW_FIRST: u32 = 0;
/// Pairs that did not fit their bins in the second pass.
pub const OVERFLOW_SECOND: u32 = 1;
/// Pairs without any slot: the build must take the fallback path.
pub const FAILED: u32 = 2;
/// Pairs dropped as duplicates.
pub const DROPPED: u32 = 3;
/// Keys with several copies that may be the last (or first) one.
pub const CONTESTED: u32 = 4;
/// Pairs in the stash.
pub const STASHED: u32 = 5;
/// Greatest [`rank`](crate::map::rank) of the ambiguous key's copies.
pub const HELD: u32 = 6;
/// Copies of the ambiguous key.
pub const HELD_COPIES: u32 = 7;
/// Blocks that have finished.
pub const TICKET: u32 = 8;
/// Blocks that have arrived at the grid barrier.
pub const ARRIVED: u32 = 9;
/// Number of the attempt that succeeded, after the first.
pub const ATTEMPTS: u32 = 10;
/// Seed of the attempt that succeeded.
pub const SEED: u32 = 12;
/// Slightly crowded bins in tiles of the first pass.
pub const CROWDED: u32 = 13;
/// Partitions of a set whose first keys, or whose list, showed many copies.
pub const COPIED: u32 = 14;
/// Work taken by the blocks of the last pass and the build, where one launch does both.
pub const TAKEN: u32 = 15;
/// First of [`MAX_STRETCHES`] words, each for a stretch of the input: not 0 if contested keys have
/// copies there.
pub const STRETCHES: u32 = 32;
/// Number of words.
pub const WORDS: usize = STRETCHES as usize + MAX_STRETCHES as usize;
/// Maximum number of stretches of the input that are searched or not.
pub const MAX_STRETCHES: u32 = 1 << 10;

/// Initializes the words for one more attempt of a build, in one thread of the grid.
#[inline(always)]
pub(crate) fn begin_attempt(t: Thread, build_state: Buf<u32>, attempt: u32, seed: u32) {
    if t.global_id() == 0 {
        build_state.store_relaxed(FAILED, 0);
        build_state.store_relaxed(DROPPED, 0);
        build_state.store_relaxed(STASHED, 0);
        build_state.store_relaxed(HELD, 0);
        build_state.store_relaxed(HELD_COPIES, 0);
        build_state.store_relaxed(ATTEMPTS, attempt);
        build_state.store_relaxed(SEED, seed);
    }
}
