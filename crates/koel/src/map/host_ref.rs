//! Lookups of one key after the other: see [`HostMapRef`].
#[cfg(doc)]
use super::HostMap;
use super::{Map, MapStore, StoreOf};
use crate::device::not_on_host;
use crate::error::Result;
use crate::table::HostTable;
use crate::types::{Key, Value, bits_of_key};
use std::fmt;
use std::iter::FusedIterator;

/// A map in host memory, of which one key after the other is asked on the calling thread: see
/// [`Map::host`].
pub struct HostMapRef<'m, K: Key = u32, V: Value = u32> {
    map: &'m Map<K, V>,
    table: <StoreOf<K, V> as MapStore>::Host<'m>,
}
impl<K: Key, V: Value> Map<K, V> {
    /// Returns the map for lookups of one key after the other, as a hash map of the standard
    /// library is asked. Many keys at a time are looked up faster by [`get`](Self::get). A map that
    /// also changes one key after the other is a [`HostMap`]: see [`to_host`](Self::to_host).
    ///
    /// ```
    /// let map = koel::Map::build(&koel::Device::cpu()?, &["x", "y"].map(str::len), &['x', 'y'])?;
    /// let host = map.host()?;
    /// assert_eq!((host.get(1), host.get(2), host.contains_key(1)), (Some('y'), None, true));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Costs tens of nanoseconds; allocates nothing and does not wait. Errors: a map on another
    /// device than a CPU, which [`to_device`](Self::to_device) copies; a build that failed; for an
    /// opened map, faults of its file.
    #[doc(alias("get_one", "contains_one"))]
    #[inline]
    pub fn host(&self) -> Result<HostMapRef<'_, K, V>> {
        let table = self.store.host()?.ok_or_else(|| not_on_host("map", self.device()))?;
        Ok(HostMapRef { map: self, table })
    }
}
impl<'m, K: Key, V: Value> HostMapRef<'m, K, V> {
    /// Returns the value of a key.
    ///
    /// Reads one cache line of the table, or two for about 13 % of the keys at load 0.8, and one
    /// more per present key if keys or values have 64 bits; of keys or values of more than 8 bytes,
    /// also the row.
    #[inline]
    pub fn get(&self, key: K) -> Option<V> {
        self.table.find(bits_of_key(key)).map(|bits| V::unpack(bits.into()))
    }
    /// Returns whether the map holds a key.
    #[inline]
    pub fn contains_key(&self, key: K) -> bool {
        self.table.find(bits_of_key(key)).is_some()
    }
    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.table.len()
    }
    /// Returns whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns all pairs, in any order. Reads the whole table.
    pub fn iter(&self) -> Iter<'m, K, V> {
        Iter { left: self.len(), entries: self.table.entries() }
    }
}

/// The pairs of a map in host memory: see [`HostMap::iter`](super::HostMap::iter).
pub struct Iter<'m, K: Key, V: Value> {
    left: usize,
    entries: <<StoreOf<K, V> as MapStore>::Host<'m> as HostTable>::Entries,
}
impl<K: Key, V: Value> Iterator for Iter<'_, K, V> {
    type Item = (K, V);
    #[inline]
    fn next(&mut self) -> Option<(K, V)> {
        let (key, value) = self.entries.next()?;
        self.left = self.left.saturating_sub(1);
        Some((K::unpack(key.into()), V::unpack(value.into())))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}
impl<K: Key, V: Value> ExactSizeIterator for Iter<'_, K, V> {}
impl<K: Key, V: Value> FusedIterator for Iter<'_, K, V> {}
impl<K: Key, V: Value> fmt::Debug for Iter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Iter[{} pairs]", self.left)
    }
}
impl<'m, K: Key, V: Value> IntoIterator for &HostMapRef<'m, K, V> {
    type Item = (K, V);
    type IntoIter = Iter<'m, K, V>;
    fn into_iter(self) -> Iter<'m, K, V> {
        self.iter()
    }
}
impl<K: Key, V: Value> fmt::Debug for HostMapRef<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMapRef of {:?}", self.map)
    }
}
