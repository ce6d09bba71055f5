//! The flagship table of 32-bit keys and values: how its bytes are laid out, and the kernels that build and search it.
//!
//! In the order in which data meets them: [`partition`] brings the pairs of each partition together, in one pass or two;
//! [`build`] turns each partition into its buckets, one block a partition, in shared memory; [`stash`] keeps what found no
//! place; [`find`] looks keys up.
pub mod build;
pub mod find;
pub mod layout;
pub mod partition;
pub mod stash;

/// Words of a table's header, in device memory beside its slots.
pub mod header {
    /// Not 0: the pair that looks like an empty slot is in the table, and came so often.
    pub const AMBIGUOUS: u32 = 0;
    /// Pairs in the stash.
    pub const STASHED: u32 = 1;
    /// Pairs that were lost because the stash or an overflow area was full: the build has failed.
    pub const FAILED: u32 = 2;
    /// Partitions in which two pairs had the same key.
    pub const DUPLICATED: u32 = 3;
    /// Pairs behind the bins of the first pass.
    pub const OVERFLOW_FIRST: u32 = 4;
    /// Pairs behind the bins of the second pass.
    pub const OVERFLOW_SECOND: u32 = 5;
    /// Words in all.
    pub const WORDS: usize = 8;
}
