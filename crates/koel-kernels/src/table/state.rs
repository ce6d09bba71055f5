//! Words that the kernels of a build share: zero before it, and again after it.
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
/// Of the ambiguous key, the greatest [`rank`](crate::map::rank).
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
/// [`Stamps::from`](crate::map::stamps::Stamps::from).
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
pub const WORDS: usize = STRETCHES as usize + MAX_STAMPS as usize;
/// Stretches of the input that stamps distinguish, at most.
pub const MAX_STAMPS: u32 = 1 << 10;
