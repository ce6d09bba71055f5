//! Changes of one key, which allocate nothing.
//!
//! The rules are those of batches [in place](super::in_place). As nobody else changes the table,
//! keys of the stash and the ambiguous key are changed here, too. Only an insertion for which two
//! evictions make no room is left.
use super::bucketed::Buckets;
use super::in_place::{In, Part};
use super::place::Place;
use super::stash::Stash;
use koel_kernels::table::layout::{EMPTY, Layout, Shape, class};

/// What a change of one key came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Altered<V> {
    /// The value before; `None` if the key was missing.
    pub before: Option<V>,
    /// The value after, or the one that was to be inserted.
    pub after: Option<V>,
    /// Whether the insertion is left: the table is as before.
    pub is_left: bool,
}
impl<V> Altered<V> {
    /// Of a change that is done.
    pub(crate) fn done(before: Option<V>, after: Option<V>) -> Altered<V> {
        Altered { before, after, is_left: false }
    }
    /// Returns the value whose insertion is left.
    pub(crate) fn left(self) -> Option<V> {
        self.after.filter(|_| self.is_left)
    }
}

/// A table of which one key at a time changes.
pub(crate) struct OneKey<'a, B: Buckets> {
    pub shape: Shape,
    pub seed: u32,
    pub words: &'a mut [B::Word],
    pub stash: &'a mut Stash<B::Pairs>,
}
impl<L: Layout, B: Buckets<Pairs = L>> OneKey<'_, B> {
    /// Sets the value of a key to what `change` makes of it; `None` is that of a missing key. Only
    /// insertions can be left.
    #[inline]
    pub(crate) fn alter(
        &mut self,
        key: L::Key,
        change: impl FnOnce(Option<B::Value>) -> Option<B::Value>,
    ) -> Altered<B::Value> {
        let mixed = L::mixed(self.seed, key);
        if mixed == L::AMBIGUOUS {
            let of_pair = |value| B::value(L::pair(mixed, value));
            let before = self.stash.held().map(of_pair);
            let after = change(before);
            self.stash.hold(after.map(|value| L::value(B::with_value(mixed, value))));
            return Altered::done(before, after);
        }
        let h = L::hash(mixed);
        let place = self.part().place(mixed, h);
        match place {
            Place::Slot(bucket, slot) => {
                let before = Some(B::value(B::pair(self.words, bucket, slot)));
                let after = change(before);
                match after {
                    // The order of the pairs does not depend on their values.
                    Some(value) if B::VALUES => {
                        B::put(self.words, bucket, slot, B::with_value(mixed, value));
                    }
                    Some(_) => {}
                    None => {
                        self.part().remove(bucket, slot);
                        self.refill();
                    }
                }
                Altered::done(before, after)
            }
            Place::Stash => {
                let of_pair = |value| B::value(L::pair(mixed, value));
                let before = self.stash.get(mixed).map(of_pair);
                let after = change(before);
                match after {
                    Some(value) => _ = self.stash.replace(B::with_value(mixed, value)),
                    None => _ = self.stash.remove(mixed),
                }
                Altered::done(before, after)
            }
            Place::Nowhere => {
                let after = change(None);
                let inserts = |value| self.part().insert(h, B::with_value(mixed, value));
                let is_left = !after.is_none_or(inserts);
                Altered { before: None, after, is_left }
            }
        }
    }
    /// Removes the entries that are not to be kept, and adds their number to `gone`, also if `keep`
    /// panics.
    pub(crate) fn retain(
        &mut self,
        mut keep: impl FnMut(L::Key, B::Value) -> bool,
        gone: &mut usize,
    ) {
        let seed = self.seed;
        let mut keeps = |pair| keep(L::unmixed(seed, L::key(pair)), B::value(pair));
        for bucket in 0..self.words.len() / B::WORDS {
            let is_full = B::is_full(self.words, bucket);
            let mut pairs = self.part().pairs(bucket, is_full);
            let entries = pairs.iter_mut().filter(|pair| L::head(**pair) != EMPTY);
            let mut gone_here = 0;
            for pair in entries {
                if !keeps(*pair) {
                    (*pair, gone_here) = (L::EMPTY_PAIR, gone_here + 1);
                }
            }
            if gone_here > 0 {
                self.part().keep(bucket, &pairs, is_full);
                *gone += gone_here;
            }
        }
        self.stash.retain(|pair| {
            let is_kept = keeps(pair);
            *gone += usize::from(!is_kept);
            is_kept
        });
        self.refill();
        if let Some(value) = self.stash.held()
            && !keeps(L::pair(L::AMBIGUOUS, value))
        {
            self.stash.hold(None);
            *gone += 1;
        }
    }
    /// Moves pairs of the stash to free slots of the only bucket, if there is only one. It has no
    /// fillers, and lookups continue only from a full bucket.
    #[inline]
    fn refill(&mut self) {
        if !self.stash.is_empty() && self.shape.all_buckets() == 1 {
            self.refill_only_bucket();
        }
    }
    #[cold]
    fn refill_only_bucket(&mut self) {
        let mut pairs = self.part().pairs(0, false);
        for slot in pairs[..B::SLOTS].iter_mut().filter(|pair| L::head(**pair) == EMPTY) {
            let Some(pair) = self.stash.iter().next() else { break };
            *slot = pair;
            self.stash.remove(L::key(pair));
        }
        let classes = self.stash.iter().map(|pair| 1 << class(L::hash(L::key(pair))));
        let bits = classes.fold(0, |bits, class| bits | class);
        self.part().write(0, &pairs, bits, false);
    }
    fn part(&mut self) -> Part<'_, B> {
        Part::new(In { shape: self.shape, seed: self.seed, stash: self.stash }, 0, self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{OfMap, OfSet, find};
    use koel_kernels::hash::mix::splitmix_at;
    use koel_kernels::table::layout::{Narrow, Number, Wide};
    use std::fmt::Debug;

    /// A table of few buckets, which keys fill and overflow into the stash, and leave in another
    /// order: all that are there are found, in every state.
    fn check<B: Buckets<Value: PartialEq + Debug>>(buckets: u32, empty: B::Word) {
        let (shape, seed) = (Shape { partitions: 1, buckets }, 5);
        let keys = (0..u64::from(buckets) * 9 + 7).collect::<Vec<_>>();
        let key = |i: u64| <B::Pairs as Layout>::Key::narrowed(i);
        let pair = |i: u64| B::Pairs::pair(B::Pairs::mixed(seed, key(i)), Number::narrowed(!i));
        let value = |i: u64| B::value(pair(i));
        for order in 0..20 {
            let mut words = vec![empty; buckets as usize * B::WORDS];
            let (mut stash, mut held) = (Stash::<B::Pairs>::default(), vec![]);
            for step in 0..3 * keys.len() as u32 {
                let i = splitmix_at(order, step) % keys.len() as u64;
                let at = held.iter().position(|&other| other == i);
                let words = &mut words[..];
                let mut table = OneKey::<B> { shape, seed, words, stash: &mut stash };
                let altered =
                    table.alter(key(i), |_| if at.is_some() { None } else { Some(value(i)) });
                assert_eq!(altered.before, at.map(|_| value(i)));
                if altered.is_left {
                    assert!(!table.part().insert_or_overflow(pair(i)));
                    stash.reserve(1).unwrap();
                    stash.insert(pair(i));
                }
                match at {
                    Some(at) => _ = held.swap_remove(at),
                    None => held.push(i),
                }
                for &i in &keys {
                    let found = find::<B>(shape, seed, words, &stash, key(i));
                    assert_eq!(found, held.contains(&i).then(|| value(i)), "key {i}");
                }
            }
            let (keeps, mut gone) = (|i: u64| i.is_multiple_of(3), 0);
            let mut table = OneKey::<B> { shape, seed, words: &mut words, stash: &mut stash };
            table.retain(|key, _| keeps(key.widened()), &mut gone);
            assert_eq!(gone, held.iter().filter(|&&i| !keeps(i)).count());
            for &i in &keys {
                let expected = (held.contains(&i) && keeps(i)).then(|| value(i));
                assert_eq!(find::<B>(shape, seed, &words, &stash, key(i)), expected, "key {i}");
            }
        }
    }
    #[test]
    fn keys_beside_a_stash_are_found() {
        for buckets in [1, 2, 3] {
            check::<OfMap<Narrow>>(buckets, EMPTY);
            check::<OfMap<Wide<u64, u32>>>(buckets, EMPTY);
            check::<OfSet<u32>>(buckets, u32::MAX);
            check::<OfSet<u64>>(buckets, u64::MAX);
        }
    }
}
