//! Lookups of one key after the other: see [`HostSetRef`].
#[cfg(doc)]
use super::HostSet;
use super::{Set, SetStore, StoreOf};
use crate::device::not_on_host;
use crate::error::Result;
use crate::table::HostTable;
use crate::types::{Key, bits_of_key};
use std::fmt;
use std::iter::FusedIterator;

/// A set in host memory, of which one key after the other is asked on the calling thread: see
/// [`Set::host`].
pub struct HostSetRef<'s, K: Key = u32> {
    set: &'s Set<K>,
    table: <StoreOf<K> as SetStore>::Host<'s>,
}
impl<K: Key> Set<K> {
    /// Returns the set for lookups of one key after the other, as a hash set of the standard
    /// library is asked. Many keys at a time are looked up faster by [`contains`](Self::contains).
    /// A set that also changes one key after the other is a [`HostSet`]: see
    /// [`to_host`](Self::to_host).
    ///
    /// ```
    /// let set = koel::Set::build(&koel::Device::cpu()?, &['k', 'o', 'e', 'l'])?;
    /// let host = set.host()?;
    /// assert!(host.contains('k') && !host.contains('x'));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Costs and errors: as [`Map::host`](crate::Map::host).
    #[doc(alias("contains_one"))]
    #[inline]
    pub fn host(&self) -> Result<HostSetRef<'_, K>> {
        let table = self.store.host()?.ok_or_else(|| not_on_host("set", self.device()))?;
        Ok(HostSetRef { set: self, table })
    }
}
impl<'s, K: Key> HostSetRef<'s, K> {
    /// Returns whether the set holds a key. Reads one cache line of the set, or two for about 10 %
    /// of the keys at load 0.8; of keys of more than 8 bytes, also the row.
    #[inline]
    pub fn contains(&self, key: K) -> bool {
        self.table.find(bits_of_key(key)).is_some()
    }
    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.table.len()
    }
    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns all keys, in any order. Reads the whole table.
    pub fn iter(&self) -> Iter<'s, K> {
        Iter { left: self.len(), entries: self.table.entries() }
    }
}

/// The keys of a set in host memory: see [`HostSet::iter`](super::HostSet::iter).
pub struct Iter<'s, K: Key> {
    left: usize,
    entries: <<StoreOf<K> as SetStore>::Host<'s> as HostTable>::Entries,
}
impl<K: Key> Iterator for Iter<'_, K> {
    type Item = K;
    #[inline]
    fn next(&mut self) -> Option<K> {
        let (key, ()) = self.entries.next()?;
        self.left = self.left.saturating_sub(1);
        Some(K::unpack(key.into()))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}
impl<K: Key> ExactSizeIterator for Iter<'_, K> {}
impl<K: Key> FusedIterator for Iter<'_, K> {}
impl<K: Key> fmt::Debug for Iter<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Iter[{} keys]", self.left)
    }
}
impl<'s, K: Key> IntoIterator for &HostSetRef<'s, K> {
    type Item = K;
    type IntoIter = Iter<'s, K>;
    fn into_iter(self) -> Iter<'s, K> {
        self.iter()
    }
}
impl<K: Key> fmt::Debug for HostSetRef<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostSetRef of {:?}", self.set)
    }
}
