//! The entries of a table, one after the other: see [`Iter`].
use super::bucketed::{Buckets, PairOf};
use super::stash::Stash;
use koel_kernels::table::layout::{EMPTY, Layout, Shape};
use std::ops::Range;

/// Key and value of each entry in some slots of a table in host memory: the slots of its buckets,
/// then those of its stash, then one for the ambiguous key.
pub(crate) struct Iter<'a, B: Buckets> {
    shape: Shape,
    seed: u32,
    words: &'a [B::Word],
    stash: &'a Stash<B::Pairs>,
    /// Slots that have not been read.
    slots: Range<usize>,
}
impl<'a, L: Layout, B: Buckets<Pairs = L>> Iter<'a, B> {
    /// Of all slots. The words are those of the table's shape.
    pub(crate) fn new(
        shape: Shape,
        seed: u32,
        words: &'a [B::Word],
        stash: &'a Stash<L>,
    ) -> Iter<'a, B> {
        let slots = 0..words.len() / B::WORDS * B::SLOTS + stash.slot_count() + 1;
        Iter { shape, seed, words, stash, slots }
    }
    /// Returns the pair in a slot of a bucket.
    #[inline(always)]
    fn in_bucket(&self, slot: usize) -> Option<PairOf<B>> {
        let bucket = slot / B::SLOTS;
        let pair = B::pair(self.words, bucket, slot % B::SLOTS);
        // Fillers do not belong to their bucket.
        let is_entry = |pair| self.shape.belongs(L::hash(L::key(pair)), bucket as u32);
        (L::head(pair) != EMPTY && is_entry(pair)).then_some(pair)
    }
    /// Returns the pair in a slot behind those of the buckets.
    #[cold]
    fn behind(&self, slot: usize) -> Option<PairOf<B>> {
        if slot < self.stash.slot_count() {
            return self.stash.pair_in(slot);
        }
        self.stash.held().map(|value| L::pair(L::AMBIGUOUS, value))
    }
}
impl<L: Layout, B: Buckets<Pairs = L>> Iterator for Iter<'_, B> {
    type Item = (L::Key, B::Value);
    #[inline]
    fn next(&mut self) -> Option<(L::Key, B::Value)> {
        let in_buckets = self.words.len() / B::WORDS * B::SLOTS;
        loop {
            let slot = self.slots.next()?;
            let found = match slot.checked_sub(in_buckets) {
                None => self.in_bucket(slot),
                Some(behind) => self.behind(behind),
            };
            if let Some(pair) = found {
                return Some((L::unmixed(self.seed, L::key(pair)), B::value(pair)));
            }
        }
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.slots.len()))
    }
}
impl<B: Buckets> Clone for Iter<'_, B> {
    fn clone(&self) -> Self {
        Iter { slots: self.slots.clone(), ..*self }
    }
}
