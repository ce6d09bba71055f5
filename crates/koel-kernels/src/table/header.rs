//! Words of a table's header, in device memory beside its slots. The end of a build writes them.
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
