//! The pairs that no bucket has room for.
use koel_kernels::map::layout::EMPTY;
use koel_kernels::map::stash;

/// A small table with linear probing of pairs `value << 32 | mixed key`, normally empty, and the flag of the one pair that looks
/// like an empty slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stash {
    /// A power of two, or none; more than half of them are empty.
    slots: Vec<u64>,
    len: usize,
    ambiguous: bool,
}
impl Stash {
    /// Of pairs with distinct keys, none of them the ambiguous pair; whether the table holds that is told apart.
    pub fn from_pairs(pairs: &[u64], ambiguous: bool) -> Stash {
        let mut stash = Stash { ambiguous, ..Stash::default() };
        pairs.iter().for_each(|&pair| stash.insert(pair));
        stash
    }
    /// Pairs, the ambiguous one not counted.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether it has no pair, the ambiguous one not counted.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Whether the table holds the pair of mixed key and value all ones.
    pub fn holds_ambiguous(&self) -> bool {
        self.ambiguous
    }
    /// The slots as other devices read them: none, or a power of two.
    pub fn slots(&self) -> &[u64] {
        &self.slots
    }
    /// The pairs, in the order of the slots.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().copied().filter(|&slot| slot != EMPTY)
    }
    /// The value of a mixed key.
    pub fn get(&self, h: u32) -> Option<u32> {
        self.slot(h).map(|i| (self.slots[i] >> 32) as u32)
    }

    pub(super) fn set_ambiguous(&mut self, held: bool) {
        self.ambiguous = held;
    }
    /// Empties it; the memory is kept.
    pub(super) fn clear(&mut self) {
        if self.len > 0 {
            self.slots.fill(EMPTY);
        }
        (self.len, self.ambiguous) = (0, false);
    }
    /// The value of a mixed key, to change. The caller does not make the ambiguous pair of it.
    pub(super) fn pair_mut(&mut self, h: u32) -> Option<&mut u64> {
        self.slot(h).map(|i| &mut self.slots[i])
    }
    /// Adds a pair whose key is not there, and which is not the ambiguous one.
    pub(super) fn insert(&mut self, pair: u64) {
        debug_assert_ne!(pair, EMPTY);
        if (self.len + 1) * 2 > self.slots.len() {
            let larger = vec![EMPTY; (self.slots.len() * 2).max(16)];
            for pair in std::mem::replace(&mut self.slots, larger) {
                if pair != EMPTY {
                    self.put(pair);
                }
            }
        }
        self.put(pair);
        self.len += 1;
    }
    fn put(&mut self, pair: u64) {
        let mut i = self.start(pair as u32);
        while self.slots[i] != EMPTY {
            i = (i + 1) & (self.slots.len() - 1);
        }
        self.slots[i] = pair;
    }
    fn slot(&self, h: u32) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let mut i = self.start(h);
        while self.slots[i] != EMPTY {
            if self.slots[i] as u32 == h {
                return Some(i);
            }
            i = (i + 1) & (self.slots.len() - 1);
        }
        None
    }
    /// Where the search for a mixed key begins.
    fn start(&self, h: u32) -> usize {
        stash::start(h, self.slots.len().ilog2()) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koel_kernels::map::layout::pair;

    #[test]
    fn pairs_are_found_and_others_are_not() {
        for n in [0, 1, 7, 8, 9, 1000] {
            let mut stash = Stash::default();
            (0..n).for_each(|i| stash.insert(pair(i * 3, i)));
            stash.insert(pair(u32::MAX, 5)); // the ambiguous key, with another value
            for i in 0..n {
                assert_eq!(stash.get(i * 3), Some(i));
                assert_eq!(stash.get(i * 3 + 1), None);
            }
            assert_eq!((stash.get(u32::MAX), stash.len()), (Some(5), n as usize + 1));
            assert!(stash.slots().len() > 2 * stash.len() - 1 && stash.slots().len().is_power_of_two());
            *stash.pair_mut(u32::MAX).unwrap() = pair(u32::MAX, 6);
            assert_eq!(stash.get(u32::MAX), Some(6));
            assert_eq!(stash.iter().count(), stash.len());
            let memory = stash.slots().len();
            stash.clear();
            assert_eq!((stash.get(0), stash.get(u32::MAX), stash.slots().len()), (None, None, memory));
        }
    }
    /// Keys that all begin at one slot, the last: the search goes round.
    #[test]
    fn a_crowded_slot_overflows_into_the_next() {
        let crowded = (0u32..).filter(|h| h.wrapping_mul(0x9E37_79B1) >> 24 == 0xFF).take(100).collect::<Vec<_>>();
        let stash = Stash::from_pairs(&crowded.iter().map(|&h| pair(h, !h)).collect::<Vec<_>>(), true);
        assert!(stash.holds_ambiguous());
        assert!(crowded.iter().all(|&h| stash.get(h) == Some(!h)));
    }
}
