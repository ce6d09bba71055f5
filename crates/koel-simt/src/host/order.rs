//! Ordering between the blocks of a launch: a release that an acquire observes.
//!
//! Each block keeps the set of blocks whose releases it has seen; each address released to keeps
//! the union of the sets of its releasers. This may report "ordered" too often, never too rarely:
//! an acquire is assumed to see every earlier release to its address, and to order everything that
//! those blocks do, also later.
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Set of blocks.
#[derive(Clone, Default)]
pub(super) struct Blocks(Vec<u64>);
impl Blocks {
    pub(super) fn contains(&self, block: u32) -> bool {
        self.0.get(block as usize / 64).is_some_and(|w| w >> (block % 64) & 1 != 0)
    }
    pub(super) fn insert(&mut self, block: u32) {
        let word = block as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (block % 64);
    }
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
    fn extend(&mut self, other: &Blocks) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }
}

/// Releasers by address.
#[derive(Default)]
pub(super) struct Releases(Mutex<HashMap<usize, Blocks>>);
impl Releases {
    /// Called before the releasing access.
    pub(super) fn release(&self, address: usize, block: u32, seen: &Blocks) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let set = all.entry(address).or_default();
        set.extend(seen);
        set.insert(block);
    }
    /// Called after the acquiring access. Returns whether `block` is among the releasers.
    pub(super) fn acquire(&self, address: usize, block: u32, seen: &mut Blocks) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&address).is_some_and(|set| {
            seen.extend(set);
            set.contains(block)
        })
    }
}
