//! Batches of operations, and what they came to.
use crate::error::Result;
use crate::fallible::out_of_memory;
use koel_kernels::table::layout::Layout;
use koel_kernels::table::update::operation;

/// Operations of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a, L: Layout> {
    /// Key of each operation.
    pub keys: &'a [L::Key],
    /// Value of each operation; empty if all erase, or if there are no values.
    pub values: &'a [L::Value],
    /// What all operations do, or [`EACH`](operation::EACH).
    pub operation: u32,
    /// With `EACH`: what each operation does, in the low two bits.
    pub operations: &'a [u8],
}
impl<L: Layout> Batch<'_, L> {
    /// Returns what operation `i` does to buckets with or without values.
    #[inline(always)]
    pub(super) fn operation(&self, i: usize, has_values: bool) -> u32 {
        match self.operation {
            operation::EACH => operation::of(self.operations[i], has_values),
            all => all,
        }
    }
    /// Returns the value of operation `i`.
    #[inline(always)]
    pub(super) fn value(&self, i: usize) -> L::Value {
        self.values.get(i).copied().unwrap_or_default()
    }
}
/// Outcome of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Updated {
    /// Number of keys inserted.
    pub new: usize,
    /// Number of keys removed.
    pub gone: usize,
    /// Number of partitions without room: from the first operation that did not fit, theirs are not
    /// done.
    pub refused: usize,
    /// Upper bound on the new keys of those partitions.
    pub wanted: usize,
    /// Bytes of an allocation that failed in a partition, whose operations are not done from there
    /// on; 0 if none failed.
    pub starved: usize,
}
impl Updated {
    /// Errors: there was too little memory for some operations.
    pub(crate) fn check(self) -> Result<()> {
        if self.starved == 0 { Ok(()) } else { Err(out_of_memory(self.starved)) }
    }
    pub(crate) fn and(self, other: Updated) -> Updated {
        Updated {
            new: self.new + other.new,
            gone: self.gone + other.gone,
            refused: self.refused + other.refused,
            wanted: self.wanted + other.wanted,
            starved: self.starved.max(other.starved),
        }
    }
}
