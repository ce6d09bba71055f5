//! The entries of a table of single keys.
use super::slots::{Field, Slots};
use super::{TAKEN, first_slot};
use std::marker::PhantomData;

/// Key and value of each entry of some groups.
pub(crate) struct Iter<'a, K, V> {
    /// The group that is read, and those after it.
    words: &'a [u64],
    /// Its slots that have not been read.
    taken: u64,
    of: PhantomData<(K, V)>,
}
impl<'a, K: Field, V: Field> Iter<'a, K, V> {
    pub(super) fn new(words: &'a [u64]) -> Iter<'a, K, V> {
        Iter { words, taken: words.first().map_or(0, |tags| tags & TAKEN), of: PhantomData }
    }
}
impl<K: Field, V: Field> Iterator for Iter<'_, K, V> {
    type Item = (K, V);
    #[inline]
    fn next(&mut self) -> Option<(K, V)> {
        while self.taken == 0 {
            self.words = self.words.get(Slots::<K, V>::WORDS..)?;
            self.taken = self.words.first()? & TAKEN;
        }
        let slot = first_slot(self.taken);
        self.taken &= self.taken - 1;
        let group = &self.words[..Slots::<K, V>::WORDS];
        Some((Slots::<K, V>::key(group, slot), Slots::<K, V>::value(group, slot)))
    }
}
impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Iter { ..*self }
    }
}
