//! The pairs that no bucket has room for, and the one that none may hold.
use super::simd::GROUP;
use koel_kernels::table::layout::{EMPTY, Layout};
use koel_kernels::table::stash;

/// Of this many slots one is taken at most: a search for what is not there ends at its first slot,
/// nearly always.
const SPARSE: usize = 8;

/// A small table with linear probing, normally empty; and the value of the ambiguous key, if the
/// table holds that.
#[derive(Clone)]
pub struct Stash<L: Layout> {
    /// A power of two of slots, or none: the head of each, then the word behind it if values are
    /// wide.
    slots: Vec<u64>,
    len: usize,
    held: Option<L::Value>,
}
impl<L: Layout> Default for Stash<L> {
    fn default() -> Stash<L> {
        Stash { slots: vec![], len: 0, held: None }
    }
}
impl<L: Layout> Stash<L> {
    /// Of pairs with distinct keys, none of them the ambiguous one, and the value of that.
    pub fn from_pairs(
        pairs: impl IntoIterator<Item = L::Pair>,
        held: Option<L::Value>,
    ) -> Stash<L> {
        let mut stash = Stash { held, ..Stash::default() };
        pairs.into_iter().for_each(|pair| stash.insert(pair));
        stash
    }
    /// Of the slots of another device, however they are arranged, and the value of the ambiguous
    /// key. What is left of an incomplete last slot does not count.
    pub fn from_slots(slots: &[u64], held: Option<L::Value>) -> Stash<L> {
        Stash::from_pairs(pairs_of::<L>(slots), held)
    }
    /// As [`from_pairs`](Self::from_pairs), of pairs that may have been chosen to collide: `None`
    /// if putting them in takes more than `most` steps beyond the first of each.
    pub fn from_pairs_within(
        pairs: impl ExactSizeIterator<Item = L::Pair>,
        held: Option<L::Value>,
        most: u64,
    ) -> Option<Stash<L>> {
        let slots =
            if pairs.len() == 0 { 0 } else { (pairs.len() * SPARSE).next_power_of_two().max(16) };
        let mut stash = Stash { slots: vec![EMPTY; slots * L::SLOT_WORDS], len: pairs.len(), held };
        let mut steps = 0;
        for pair in pairs {
            steps += stash.put(pair);
            if steps > most {
                return None;
            }
        }
        Some(stash)
    }
    /// Pairs; that of the ambiguous key not counted.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether it has no pair; that of the ambiguous key not counted.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The value of the ambiguous key.
    pub fn held(&self) -> Option<L::Value> {
        self.held
    }
    /// The words of the slots, as other devices read them: of no slot, or of a power of two.
    pub fn slots(&self) -> &[u64] {
        &self.slots
    }
    /// Bytes of the slots.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.slots[..])
    }
    /// The pairs in the order of the slots, without that of the ambiguous key.
    pub fn iter(&self) -> impl Iterator<Item = L::Pair> + use<'_, L> {
        pairs_of::<L>(&self.slots)
    }
    /// The value of a mixed key, which is not the ambiguous one.
    pub fn get(&self, mixed: L::Mixed) -> Option<L::Value> {
        self.slot(mixed).map(|at| L::value(pair_at::<L>(&self.slots, at)))
    }
    /// Those of the mixed keys with these bits for which a search does not end at once.
    #[inline(always)]
    pub(super) fn suspects(&self, mixed: &[L::Mixed; GROUP], bits: u32) -> u32 {
        let taken = |i: usize| self.slots[self.start(mixed[i]) * L::SLOT_WORDS] != EMPTY;
        (0..GROUP).fold(0, |suspects, i| suspects | (taken(i) as u32) << i) & bits
    }

    pub(super) fn hold(&mut self, value: Option<L::Value>) {
        self.held = value;
    }
    /// Empties it; the memory is kept.
    pub(super) fn clear(&mut self) {
        if self.len > 0 {
            self.slots.fill(EMPTY);
        }
        (self.len, self.held) = (0, None);
    }
    /// Puts a pair in the place of that of its key; false if there is none.
    pub(super) fn replace(&mut self, pair: L::Pair) -> bool {
        let slot = self.slot(L::key(pair));
        slot.inspect(|&at| put_pair::<L>(&mut self.slots, at, pair)).is_some()
    }
    /// Adds a pair whose key is not there, and not the ambiguous one.
    pub(super) fn insert(&mut self, pair: L::Pair) {
        debug_assert_ne!(L::head(pair), EMPTY);
        if (self.len + 1) * SPARSE > self.slots.len() / L::SLOT_WORDS {
            let larger = vec![EMPTY; (self.slots.len() * 2).max(16 * L::SLOT_WORDS)];
            let slots = std::mem::replace(&mut self.slots, larger);
            for pair in pairs_of::<L>(&slots) {
                self.put(pair);
            }
        }
        self.put(pair);
        self.len += 1;
    }
    /// Returns how many slots further it had to go.
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
    /// Where the search for a mixed key begins. There must be slots.
    #[inline(always)]
    fn start(&self, mixed: L::Mixed) -> usize {
        stash::start::<L>(mixed, (self.slots.len() / L::SLOT_WORDS).ilog2()) as usize
    }
    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() / L::SLOT_WORDS - 1)
    }
}

/// Pair `at` of words that are pairs one after the other, as in slots of a stash and in bins.
#[inline(always)]
fn pair_at<L: Layout>(words: &[u64], at: usize) -> L::Pair {
    let slot = &words[at * L::SLOT_WORDS..][..L::SLOT_WORDS];
    L::with_head(slot[0], slot[L::SLOT_WORDS - 1])
}
/// As [`pair_at`].
///
/// # Safety
/// There is that pair.
#[inline(always)]
pub unsafe fn pair_unchecked<L: Layout>(words: &[u64], at: usize) -> L::Pair {
    debug_assert!((at + 1) * L::SLOT_WORDS <= words.len());
    // SAFETY: the caller's.
    unsafe {
        let behind = *words.get_unchecked(at * L::SLOT_WORDS + L::SLOT_WORDS - 1);
        L::with_head(*words.get_unchecked(at * L::SLOT_WORDS), behind)
    }
}
/// Puts a pair where `pair_at` finds it.
#[inline(always)]
pub fn put_pair<L: Layout>(words: &mut [u64], at: usize, pair: L::Pair) {
    let slot = &mut words[at * L::SLOT_WORDS..][..L::SLOT_WORDS];
    // A narrow pair has one word: its head, which comes last here.
    slot[L::SLOT_WORDS - 1] = L::behind(pair);
    slot[0] = L::head(pair);
}
/// The pairs of slots that are not empty.
fn pairs_of<L: Layout>(slots: &[u64]) -> impl Iterator<Item = L::Pair> + use<'_, L> {
    let taken = slots.chunks_exact(L::SLOT_WORDS).filter(|slot| slot[0] != EMPTY);
    taken.map(|slot| L::with_head(slot[0], slot[L::SLOT_WORDS - 1]))
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
            // Hashes that differ: in the high half if mixed keys are wide.
            let key = |i: u64| (i << 4 | 5) << L::HASH_SHIFT | 5;
            (0..n).for_each(|i| stash.insert(pair::<L>(key(i * 2), i)));
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
            let copy = Stash::<L>::from_slots(stash.slots(), value(9));
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
    /// Keys chosen to share their buckets have one hash: their searches begin at slots of their
    /// own.
    #[test]
    fn keys_of_one_hash_do_not_share_a_chain() {
        let pairs = |n: u64| {
            (0..n).map(|i| pair::<Wide<u64, u64>>(0x1234_5678 << 32 | i, i)).collect::<Vec<_>>()
        };
        for n in [1_000, 30_000] {
            let stash = Stash::<Wide<u64, u64>>::from_pairs_within(pairs(n).into_iter(), None, n);
            assert!(
                (0..n).all(|i| stash.as_ref().unwrap().get(0x1234_5678 << 32 | i) == Some(i)),
                "{n}"
            );
        }
    }
    /// Keys that all begin at one slot, the last: the search goes round.
    #[test]
    fn a_crowded_slot_overflows_into_the_next() {
        let crowded = (0u32..)
            .filter(|h| h.wrapping_mul(0x9E37_79B1) >> 22 == 0x3FF)
            .take(100)
            .collect::<Vec<_>>();
        let stash =
            Stash::<Narrow>::from_pairs(crowded.iter().map(|&h| Narrow::pair(h, !h)), Some(3));
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
