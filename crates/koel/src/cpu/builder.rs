//! Memory of a thread that builds bins.
use super::outcome::Outcome;
use super::partition::BLOCK;
use super::reproduce::Reproducer;
use super::simd::{GROUP, LINE, Line};
use super::stash::Stash;
use crate::fallible::{Result, reserve, resize};
use koel_kernels::table::layout::{BUCKET, Layout};

/// State for building bins sequentially. Its memory is reused across builds.
pub(super) struct Builder<L: Layout> {
    /// Buckets of a bin, and a spare one for pairs without room.
    pub buckets: Vec<Line>,
    /// Number of pairs in each bucket.
    pub fills: Vec<u8>,
    /// For each bucket, the classes of the keys that overflowed from it.
    pub overflowed: Vec<u8>,
    /// Pairs whose first bucket was full.
    pub waiting: Vec<L::Pair>,
    /// Pairs of the bin's partitions for which neither bucket had room.
    pub bin_stash: Stash<L>,
    /// For each partition of the bin, the number of pairs that found no room; empty until one did.
    pub failures: Vec<u8>,
    /// Reproducible placement; empty until requested.
    pub reproducer: Reproducer<L>,
    /// Outcome of this thread's bins.
    pub outcome: Outcome<L>,
}
impl<L: Layout> Default for Builder<L> {
    fn default() -> Builder<L> {
        Builder {
            buckets: Vec::new(),
            fills: Vec::new(),
            overflowed: Vec::new(),
            waiting: Vec::new(),
            bin_stash: Stash::default(),
            failures: Vec::new(),
            reproducer: Reproducer::default(),
            outcome: Outcome::of(Vec::new()),
        }
    }
}
impl<L: Layout> Builder<L> {
    /// Discards the outcome of the last build.
    pub(super) fn begin(&mut self) {
        self.outcome = Outcome::of(std::mem::take(&mut self.outcome.stashed));
    }
    /// Makes room for bins of `buckets` buckets, in a build of `pairs` pairs. More is needed only
    /// if many pairs find no room. Errors: out of memory.
    pub(super) fn reserve(&mut self, buckets: usize, pairs: usize) -> Result<()> {
        let room = room_of(buckets);
        let waiting = (buckets * BUCKET).min(pairs) + BLOCK + GROUP;
        self.buckets.clear();
        reserve(&mut self.buckets, room * L::WORDS / LINE)?;
        for bytes in [&mut self.fills, &mut self.overflowed, &mut self.failures] {
            bytes.clear();
            reserve(bytes, room)?;
        }
        let more = waiting.saturating_sub(self.waiting.len());
        reserve(&mut self.waiting, more)
    }
    /// Returns the number of bytes held.
    pub(super) fn bytes(&self) -> usize {
        let lists = self.waiting.capacity() * size_of::<L::Pair>()
            + self.outcome.stashed.capacity() * size_of::<L::Pair>();
        size_of_val(&self.buckets[..])
            + self.fills.len()
            + self.overflowed.len()
            + lists
            + self.bin_stash.bytes()
            + self.reproducer.bytes()
    }
}

/// Makes room for `least` waiting entries: for twice as many, or what was reserved for most bins.
#[cold]
#[inline(never)]
pub(super) fn grow<T: Copy>(waiting: &mut Vec<T>, least: usize, any: T) -> Result<()> {
    let room = if waiting.capacity() < least { 2 * least } else { waiting.capacity() };
    resize(waiting, room.min(2 * least), any)
}
/// Returns the number of buckets of a bin, with one for pairs without room, and full vectors.
pub(super) fn room_of(buckets: usize) -> usize {
    (buckets + 1).next_multiple_of(8)
}
