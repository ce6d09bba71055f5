//! What orders two blocks of one launch: a release that an acquire sees.
//!
//! Kept for each block as the set of blocks whose releases it has seen; an address that was
//! released to keeps the union of the sets of those who did. That says "ordered" too often, never
//! too seldom: an acquire is taken to see every release to its address before it, and to order all
//! that those blocks did, also later.
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// A set of blocks.
#[derive(Clone, Default)]
pub struct Blocks(Vec<u64>);
impl Blocks {
    pub fn contains(&self, block: u32) -> bool {
        self.0.get(block as usize / 64).is_some_and(|w| w >> (block % 64) & 1 != 0)
    }
    pub fn insert(&mut self, block: u32) {
        let word = block as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (block % 64);
    }
    pub fn clear(&mut self) {
        self.0.clear();
    }
    fn extend(&mut self, other: &Blocks) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }
}

/// By address, who released to it.
#[derive(Default)]
pub struct Releases(Mutex<HashMap<usize, Blocks>>);
impl Releases {
    /// Before the access that releases.
    pub fn release(&self, address: usize, block: u32, seen: &Blocks) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let set = all.entry(address).or_default();
        set.extend(seen);
        set.insert(block);
    }
    /// After the access that acquires. Whether `block` is among those who released.
    pub fn acquire(&self, address: usize, block: u32, seen: &mut Blocks) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&address).is_some_and(|set| {
            seen.extend(set);
            set.contains(block)
        })
    }
}
