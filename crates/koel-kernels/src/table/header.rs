//! Words of a table's header, stored in device memory beside the slots. The end of a build writes
//! them.
/// Hash seed.
pub const SEED: u32 = 0;
/// Pairs in the stash.
pub const STASHED: u32 = 1;
/// 1 if the ambiguous key is in the table.
pub const HELD: u32 = 2;
/// Value of the ambiguous key, if it is in the table: the low word, followed by the high word.
pub const HELD_VALUE: u32 = 4;
/// Pairs in the table.
pub const PAIRS: u32 = 6;
/// Pairs dropped as duplicates of another pair's key.
pub const DROPPED: u32 = 7;
/// Pairs lost; not 0 if the build has failed.
pub const FAILED: u32 = 8;
/// Attempts of the build: more than 1 if the fast build failed.
pub const ATTEMPTS: u32 = 9;
/// Pairs that did not fit their bins in a partition pass.
pub const OVERFLOWED: u32 = 10;
/// Keys whose last (or first) copy had to be searched for in the input.
pub const CONTESTED: u32 = 11;
/// 1 if the table comes from a file, or from another device: other programs may have written other
/// fillers than [`Shape::filler`](super::layout::Shape::filler) returns.
pub const FOREIGN: u32 = 12;
/// Number of words.
pub const WORDS: usize = 16;
