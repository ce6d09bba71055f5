//! The stash: pairs for which no bucket has room, and the pair that no bucket may hold.
use super::simd::GROUP;
use crate::fallible::{Result, repeat};
use koel_kernels::table::layout::{EMPTY, Layout};
use koel_kernels::table::stash;

/// Minimum number of slots per pair: a search for an absent key nearly always ends at its first
/// slot.
const SPARSE: usize = 8;

/// A small table with linear probing, usually empty; and the value of the ambiguous key, if the
/// table holds it.
#[derive(Clone)]
pub(crate) struct Stash<L: Layout> {
    /// No slots or a power of two: the head of each, followed by the value word if values are wide.
    slots: Vec<u64>,
    len: usize,
    held: Option<L::Value>,
}
impl<L: Layout> Default for Stash<L> {
    fn default() -> Stash<L> {
        Stash { slots: Vec::new(), len: 0, held: None }
    }
}
impl<L: Layout> Stash<L> {
    /// Builds a stash from pairs with distinct keys, none of them the ambiguous one, and its value.
    pub(crate) fn from_pairs(
        pairs: impl IntoIterator<Item = L::Pair>,
        held: Option<L::Value>,
    ) -> Result<Stash<L>> {
        let mut stash = Stash { held, ..Stash::default() };
        for pair in pairs {
            stash.reserve(1)?;
            stash.insert(pair);
        }
        Ok(stash)
    }
    /// Builds a stash from the slots of another device, in any arrangement, and the value of the
    /// ambiguous key. Words of an incomplete last slot are ignored.
    pub(crate) fn from_slots(slots: &[u64], held: Option<L::Value>) -> Result<Stash<L>> {
        Stash::from_pairs(pairs_of::<L>(slots), held)
    }
    /// Like [`from_pairs`](Self::from_pairs), for pairs that may have been chosen to collide:
    /// returns `None` if insertion takes more than `most` steps in total after the first slot of
    /// each pair.
    pub(crate) fn from_pairs_within(
        pairs: impl ExactSizeIterator<Item = L::Pair>,
        held: Option<L::Value>,
        most: u64,
    ) -> Result<Option<Stash<L>>> {
        let mut stash = Stash { held, ..Stash::default() };
        stash.reserve(pairs.len())?;
        stash.len = pairs.len();
        let mut steps = 0;
        for pair in pairs {
            steps += stash.put(pair);
            if steps > most {
                return Ok(None);
            }
        }
        Ok(Some(stash))
    }
    /// Returns the number of pairs, without that of the ambiguous key.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
    /// Returns whether there is no pair, not counting that of the ambiguous key.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the value of the ambiguous key.
    pub(crate) fn held(&self) -> Option<L::Value> {
        self.held
    }
    /// Returns the words of the slots, as other devices read them: no slots or a power of two.
    pub(crate) fn slots(&self) -> &[u64] {
        &self.slots
    }
    /// Returns the size of the slots in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.slots[..])
    }
    /// Returns the pairs in slot order, without that of the ambiguous key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = L::Pair> + use<'_, L> {
        pairs_of::<L>(&self.slots)
    }
    /// Returns the value of a mixed key other than the ambiguous one.
    pub(crate) fn get(&self, mixed: L::Mixed) -> Option<L::Value> {
        self.slot(mixed).map(|at| L::value(pair_at::<L>(&self.slots, at)))
    }
    /// Returns those of the mixed keys in `bits` whose search does not end at the first slot.
    #[inline(always)]
    pub(super) fn suspects(&self, mixed: &[L::Mixed; GROUP], bits: u32) -> u32 {
        if self.is_empty() {
            return 0;
        }
        let taken = |i: usize| self.slots[self.start(mixed[i]) * L::SLOT_WORDS] != EMPTY;
        (0..GROUP).fold(0, |suspects, i| suspects | (taken(i) as u32) << i) & bits
    }

    /// Returns the number of slots.
    pub(super) fn slot_count(&self) -> usize {
        self.slots.len() / L::SLOT_WORDS
    }
    /// Returns the pair in a slot.
    #[inline]
    pub(super) fn pair_in(&self, slot: usize) -> Option<L::Pair> {
        (self.slots[slot * L::SLOT_WORDS] != EMPTY).then(|| pair_at::<L>(&self.slots, slot))
    }
    pub(super) fn hold(&mut self, value: Option<L::Value>) {
        self.held = value;
    }
    /// Removes all pairs; keeps the memory.
    pub(crate) fn clear(&mut self) {
        if self.len > 0 {
            self.slots.fill(EMPTY);
        }
        (self.len, self.held) = (0, None);
    }
    /// Replaces the pair with the same key; returns false if there is none.
    pub(super) fn replace(&mut self, pair: L::Pair) -> bool {
        let slot = self.slot(L::key(pair));
        slot.inspect(|&at| put_pair::<L>(&mut self.slots, at, pair)).is_some()
    }
    /// Adds a pair whose key is not the ambiguous one, or replaces the pair with the same key.
    /// Returns whether it replaced one. Copies added side by side would form a chain, and adding
    /// many of them would take quadratic time.
    pub(super) fn insert_or_replace(&mut self, pair: L::Pair) -> Result<bool> {
        let replaced = self.replace(pair);
        if !replaced {
            self.reserve(1)?;
            self.insert(pair);
        }
        Ok(replaced)
    }
    /// Makes room for `more` pairs. Errors: out of memory.
    pub(super) fn reserve(&mut self, more: usize) -> Result<()> {
        let words = words_for::<L>(self.len + more);
        if words > self.slots.len() {
            self.take_memory(repeat(EMPTY, words)?);
        }
        Ok(())
    }
    /// Moves the pairs to larger memory: a power of two of empty slots.
    pub(super) fn take_memory(&mut self, larger: Vec<u64>) {
        let slots = std::mem::replace(&mut self.slots, larger);
        for pair in pairs_of::<L>(&slots) {
            self.put(pair);
        }
    }
    /// Inserts a pair whose key is absent. [`reserve`](Self::reserve) has made room for it.
    pub(super) fn insert(&mut self, pair: L::Pair) {
        debug_assert_ne!(L::head(pair), EMPTY);
        debug_assert!(words_for::<L>(self.len + 1) <= self.slots.len());
        self.put(pair);
        self.len += 1;
    }
    /// Returns the number of slots skipped.
    fn put(&mut self, pair: L::Pair) -> u64 {
        let (mut at, mut steps) = (self.start(L::key(pair)), 0);
        while self.slots[at * L::SLOT_WORDS] != EMPTY {
            at = self.after(at);
            steps += 1;
        }
        put_pair::<L>(&mut self.slots, at, pair);
        steps
    }
    fn slot(&self, mixed: L::Mixed) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let mut at = self.start(mixed);
        while self.slots[at * L::SLOT_WORDS] != EMPTY {
            if L::key_in(self.slots[at * L::SLOT_WORDS]) == mixed {
                return Some(at);
            }
            at = self.after(at);
        }
        None
    }
    /// Returns the slot where the search for a mixed key begins. There must be slots.
    #[inline(always)]
    fn start(&self, mixed: L::Mixed) -> usize {
        stash::start::<L>(mixed, self.slot_count().ilog2()) as usize
    }
    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slot_count() - 1)
    }
}

/// Returns pair `at` of contiguous pairs, as in the slots of a stash and in bins.
#[inline(always)]
pub(super) fn pair_at<L: Layout>(words: &[u64], at: usize) -> L::Pair {
    let slot = &words[at * L::SLOT_WORDS..][..L::SLOT_WORDS];
    L::with_head(slot[0], slot[L::SLOT_WORDS - 1])
}
/// Like [`pair_at`], without bounds checks.
///
/// # Safety
/// The pair exists.
#[inline(always)]
pub(super) unsafe fn pair_unchecked<L: Layout>(words: &[u64], at: usize) -> L::Pair {
    debug_assert!((at + 1) * L::SLOT_WORDS <= words.len());
    // SAFETY: by the caller's contract.
    unsafe {
        let behind = *words.get_unchecked(at * L::SLOT_WORDS + L::SLOT_WORDS - 1);
        L::with_head(*words.get_unchecked(at * L::SLOT_WORDS), behind)
    }
}
/// Writes pair `at`, for `pair_at` to read.
#[inline(always)]
pub(crate) fn put_pair<L: Layout>(words: &mut [u64], at: usize, pair: L::Pair) {
    let slot = &mut words[at * L::SLOT_WORDS..][..L::SLOT_WORDS];
    // A narrow pair has one word, its head, which is written last.
    slot[L::SLOT_WORDS - 1] = L::behind(pair);
    slot[0] = L::head(pair);
}
/// Returns the pairs in the slots that are not empty.
fn pairs_of<L: Layout>(slots: &[u64]) -> impl Iterator<Item = L::Pair> + use<'_, L> {
    let taken = slots.chunks_exact(L::SLOT_WORDS).filter(|slot| slot[0] != EMPTY);
    taken.map(|slot| L::with_head(slot[0], slot[L::SLOT_WORDS - 1]))
}

/// Returns the words of memory for `pairs` pairs.
pub(super) fn words_for<L: Layout>(pairs: usize) -> usize {
    if pairs == 0 { 0 } else { (pairs * SPARSE).next_power_of_two().max(16) * L::SLOT_WORDS }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koel_kernels::table::layout::{Narrow, Number, Wide};

    fn pair<L: Layout>(key: u64, value: u64) -> L::Pair {
        L::pair(L::Mixed::narrowed(key), L::Value::narrowed(value))
    }
    fn pairs_are_found<L: Layout>() {
        let value = |value| Some(L::Value::narrowed(value));
        for n in [0, 1, 7, 8, 9, 1000] {
            let mut stash = Stash::<L>::default();
            // Distinct hashes: they are in the high half if mixed keys are wide.
            let key = |i: u64| (i << 4 | 5) << L::HASH_SHIFT | 5;
            for i in 0..n {
                stash.reserve(1).unwrap();
                stash.insert(pair::<L>(key(i * 2), i));
            }
            stash.reserve(1).unwrap();
            for i in 0..n {
                assert_eq!(stash.get(L::Mixed::narrowed(key(i * 2))), value(i));
                assert_eq!(stash.get(L::Mixed::narrowed(key(i * 2 + 1))), None);
            }
            stash.insert(pair::<L>(u64::MAX - 1, u64::MAX));
            let last = L::Mixed::narrowed(u64::MAX - 1);
            assert_eq!((stash.get(last), stash.len()), (value(u64::MAX), n as usize + 1));
            let slots = stash.slots().len() / L::SLOT_WORDS;
            assert!(slots >= SPARSE * stash.len() && slots.is_power_of_two());
            assert!(stash.replace(pair::<L>(u64::MAX - 1, 6)) && !stash.replace(pair::<L>(3, 6)));
            assert_eq!(stash.get(last), value(6));
            assert_eq!(stash.iter().count(), stash.len());
            let copy = Stash::<L>::from_slots(stash.slots(), value(9)).unwrap();
            assert_eq!(
                (copy.held(), copy.len(), copy.get(last)),
                (value(9), stash.len(), value(6))
            );
            stash.clear();
            assert_eq!((stash.get(last), stash.slots().len()), (None, slots * L::SLOT_WORDS));
        }
    }
    #[test]
    fn pairs_are_found_and_others_are_not() {
        pairs_are_found::<Narrow>();
        pairs_are_found::<Wide<u32, u64>>();
        pairs_are_found::<Wide<u64, u32>>();
        pairs_are_found::<Wide<u64, u64>>();
    }
    /// Keys chosen to share their buckets have one hash: their searches begin at distinct slots.
    #[test]
    fn keys_of_one_hash_do_not_share_a_chain() {
        let pairs = |n: u64| {
            (0..n).map(|i| pair::<Wide<u64, u64>>(0x1234_5678 << 32 | i, i)).collect::<Vec<_>>()
        };
        for n in [1_000, 30_000] {
            let stash =
                Stash::<Wide<u64, u64>>::from_pairs_within(pairs(n).into_iter(), None, n).unwrap();
            assert!(
                (0..n).all(|i| stash.as_ref().unwrap().get(0x1234_5678 << 32 | i) == Some(i)),
                "{n}"
            );
        }
    }
    /// Keys whose searches all begin at the last slot: the search wraps around.
    #[test]
    fn a_crowded_slot_overflows_into_the_next() {
        let crowded = (0u32..)
            .filter(|h| h.wrapping_mul(0x9E37_79B1) >> 22 == 0x3FF)
            .take(100)
            .collect::<Vec<_>>();
        let stash =
            Stash::<Narrow>::from_pairs(crowded.iter().map(|&h| Narrow::pair(h, !h)), Some(3))
                .unwrap();
        assert_eq!((stash.held(), stash.slots().len()), (Some(3), 1024));
        assert!(crowded.iter().all(|&h| stash.get(h) == Some(!h)));
        let mut mixed = [7; GROUP];
        mixed[3] = crowded[0];
        assert_eq!(
            (stash.suspects(&mixed, 0xFFFF) >> 3 & 1, stash.suspects(&mixed, 0xFFF7) >> 3 & 1),
            (1, 0)
        );
    }
}
