//! Pairs without a slot while a batch is applied: their places in the stash of the table, and those
//! of an unpacked partition.
use super::stash::{Stash, words_for};
use crate::error::Result;
use crate::fallible::{self, repeat, reserve, reserve_map};
use koel_kernels::table::layout::{EMPTY, Layout, Number};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Places in the stash for pairs that find no room in their buckets. A partition takes one before
/// it moves any pair, so that none is ever without a place.
pub(super) struct Places<L: Layout> {
    /// Number of places taken.
    pub taken: usize,
    /// Words of the stash, and larger memory for it if that is too little.
    pub words: usize,
    pub larger: Vec<u64>,
    pub layout: PhantomData<L>,
}
impl<L: Layout> Places<L> {
    /// Takes a place. Errors: out of memory.
    pub(super) fn take(&mut self) -> Result<()> {
        let words = words_for::<L>(self.taken + 1);
        if words > self.words.max(self.larger.len()) {
            self.larger = repeat(EMPTY, words)?;
        }
        self.taken += 1;
        Ok(())
    }
}
pub(super) fn lock<L: Layout>(places: &Mutex<Places<L>>) -> MutexGuard<'_, Places<L>> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fills a stash with pairs, in larger memory if it has too little.
pub(super) fn fill<L: Layout>(
    stash: &mut Stash<L>,
    mut larger: Vec<u64>,
    pairs: impl Iterator<Item = L::Pair> + Clone,
) {
    let count = pairs.clone().count();
    if count == 0 && stash.is_empty() {
        return;
    }
    stash.clear();
    let words = words_for::<L>(count);
    if words > stash.slots().len() {
        larger.truncate(words);
        stash.take_memory(larger);
    }
    pairs.for_each(|pair| stash.insert(pair));
}

/// Pairs without a slot while a partition is unpacked, indexed by mixed key: crafted keys may share
/// one hash.
pub(super) struct Stashed<L: Layout> {
    pub pairs: Vec<L::Pair>,
    numbers: HashMap<u64, usize>,
}
impl<L: Layout> Default for Stashed<L> {
    fn default() -> Stashed<L> {
        Stashed { pairs: Vec::new(), numbers: HashMap::new() }
    }
}
impl<L: Layout> Stashed<L> {
    pub(super) fn clear(&mut self) {
        self.pairs.clear();
        self.numbers.clear();
    }
    pub(super) fn position(&self, mixed: L::Mixed) -> Option<usize> {
        // Usually there are none.
        if self.pairs.is_empty() { None } else { self.numbers.get(&mixed.widened()).copied() }
    }
    /// Makes room for more pairs. Errors: out of memory.
    pub(super) fn reserve(&mut self, more: usize) -> fallible::Result<()> {
        reserve(&mut self.pairs, more)?;
        reserve_map(&mut self.numbers, more)
    }
    /// Adds a pair, for which there is room.
    #[allow(clippy::disallowed_methods, reason = "there is room")]
    pub(super) fn push(&mut self, pair: L::Pair) {
        self.numbers.insert(L::key(pair).widened(), self.pairs.len());
        self.pairs.push(pair);
    }
    /// Removes a pair; the last one takes its number.
    pub(super) fn remove(&mut self, number: usize) {
        let pair = self.pairs.swap_remove(number);
        self.numbers.remove(&L::key(pair).widened());
        if let Some(&moved) = self.pairs.get(number) {
            self.numbers.insert(L::key(moved).widened(), number);
        }
    }
}
