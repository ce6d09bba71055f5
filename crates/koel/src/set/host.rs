//! Sets that change one key after the other: see [`HostSet`].
use super::Set;
use crate::device::Device;
use crate::error::{Result, or_panic};
use crate::fallible;
use crate::tagged::{self, Tagged};
use crate::types::{BitsOf, Key, bits_of_key};
use rayon::iter::ParallelIterator;
use std::fmt;
use std::iter::FusedIterator;

/// A set in host memory that is asked and changed one key after the other, as a hash set of the
/// standard library is: to a [`Set`] what a [`HostMap`](crate::HostMap) is to a
/// [`Map`](crate::Map).
///
/// ```
/// use koel::{Device, HostSet};
///
/// let mut set = HostSet::new();
/// assert!(set.insert('k')? && set.insert('o')? && !set.insert('k')?);
/// assert!(set.contains('o') && set.remove('o') && !set.remove('o'));
/// assert!(set.iter().eq(['k']) && set == HostSet::from(['k']));
/// assert_eq!(set.to_set(&Device::cpu()?)?.contains(&['k', 'o'])?, [true, false]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Cost, memory and errors: as of a [`HostMap`](crate::HostMap#cost-and-memory); a slot has 5.7
/// bytes for keys of up to 4 bytes, and 9.1 for those of up to 8.
#[doc(alias("HashSet"))]
pub struct HostSet<K: Key = u32> {
    table: Tagged<BitsOf<K>, ()>,
}
impl<K: Key> Set<K> {
    /// Returns a copy of the set that is changed one key after the other, in host memory. The
    /// reverse of [`HostSet::to_set`]. Costs and errors: as [`Map::to_host`](crate::Map::to_host).
    pub fn to_host(&self) -> Result<HostSet<K>> {
        HostSet::try_from_iter(self.keys()?)
    }
}
impl<K: Key> HostSet<K> {
    /// Creates an empty set. Allocates nothing.
    pub fn new() -> HostSet<K> {
        HostSet { table: Tagged::new() }
    }
    /// Creates an empty set with room for some keys. Errors: out of memory.
    pub fn with_capacity(keys: usize) -> Result<HostSet<K>> {
        let mut set = HostSet::new();
        set.reserve(keys)?;
        Ok(set)
    }
    /// Returns a copy of the set on a device, which is asked and changed in batches. Errors: out of
    /// memory.
    pub fn to_set(&self, device: &Device) -> Result<Set<K>> {
        Set::build(device, &fallible::collect(self)?)
    }
    /// Returns whether the set holds a key.
    #[inline]
    pub fn contains(&self, key: K) -> bool {
        self.table.get(bits_of_key(key)).is_some()
    }
    /// Returns whether the set holds each of many keys: waits for the memory of several at a time.
    /// On the calling thread. Errors: out of memory.
    pub fn contains_many(&self, keys: &[K]) -> Result<Vec<bool>> {
        self.table.get_each(keys, bits_of_key, |found| found.is_some())
    }
    /// Returns the number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.table.len()
    }
    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the bytes of memory that the set occupies.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }
    /// Returns all keys, in any order. Reads the whole table.
    pub fn iter(&self) -> HostIter<'_, K> {
        HostIter { left: self.len(), entries: self.table.iter() }
    }
    /// Returns all keys as a parallel iterator of rayon, in any order.
    pub fn par_iter(&self) -> impl ParallelIterator<Item = K> + use<'_, K> {
        self.table.par_iter().map(|(key, ())| K::unpack(key.into()))
    }

    /// Inserts a key. Returns whether it was missing. Errors: out of memory.
    #[inline]
    pub fn insert(&mut self, key: K) -> Result<bool> {
        let before = self.table.alter(bits_of_key(key), |_| Some(()))?;
        Ok(before.is_none())
    }
    /// Removes a key. Returns whether the set held it. The set keeps its memory.
    #[inline]
    pub fn remove(&mut self, key: K) -> bool {
        self.table.remove(bits_of_key(key)).is_some()
    }
    /// Removes the keys for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(K) -> bool) {
        self.table.retain(|key, ()| keep(K::unpack(key.into())));
    }
    /// Removes all keys. The set keeps its memory.
    pub fn clear(&mut self) {
        self.table.clear();
    }
    /// Makes room for more keys. Errors: out of memory; then the set is as before.
    pub fn reserve(&mut self, more: usize) -> Result<()> {
        self.table.reserve(more)
    }
    /// Frees memory that the keys do not need. Errors: out of memory; then the set is as before.
    pub fn shrink_to_fit(&mut self) -> Result<()> {
        self.table.shrink()
    }
    /// Inserts keys. Waits for the memory of several at a time, which is faster than
    /// [one by one](Self::insert). Errors: out of memory; the keys before that are in the set.
    pub fn try_extend(&mut self, keys: impl IntoIterator<Item = K>) -> Result<()> {
        self.table.extend(keys.into_iter().map(|key| (bits_of_key(key), ())))
    }
    /// Returns a set of keys. Errors: out of memory.
    pub fn try_from_iter(keys: impl IntoIterator<Item = K>) -> Result<HostSet<K>> {
        let mut set = HostSet::new();
        set.try_extend(keys)?;
        Ok(set)
    }
    /// Returns a copy. Errors: out of memory.
    pub fn try_clone(&self) -> Result<HostSet<K>> {
        Ok(HostSet { table: self.table.try_clone()? })
    }
}

/// The keys of a set: see [`HostSet::iter`].
pub struct HostIter<'s, K: Key> {
    left: usize,
    entries: tagged::Iter<'s, BitsOf<K>, ()>,
}
impl<K: Key> Iterator for HostIter<'_, K> {
    type Item = K;
    #[inline]
    fn next(&mut self) -> Option<K> {
        let (key, ()) = self.entries.next()?;
        self.left -= 1;
        Some(K::unpack(key.into()))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}
impl<K: Key> ExactSizeIterator for HostIter<'_, K> {}
impl<K: Key> FusedIterator for HostIter<'_, K> {}
impl<K: Key> Clone for HostIter<'_, K> {
    fn clone(&self) -> Self {
        HostIter { left: self.left, entries: self.entries.clone() }
    }
}
impl<K: Key> fmt::Debug for HostIter<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostIter[{} keys]", self.left)
    }
}

/// An empty set.
impl<K: Key> Default for HostSet<K> {
    fn default() -> Self {
        HostSet::new()
    }
}
/// See [`HostSet::try_from_iter`]. Panics if there is no memory, as the standard library's do.
impl<K: Key> FromIterator<K> for HostSet<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        or_panic(HostSet::try_from_iter(keys))
    }
}
/// As [`FromIterator`].
impl<K: Key, const N: usize> From<[K; N]> for HostSet<K> {
    fn from(keys: [K; N]) -> Self {
        HostSet::from_iter(keys)
    }
}
/// See [`HostSet::try_extend`]. Panics if there is no memory.
impl<K: Key> Extend<K> for HostSet<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        or_panic(self.try_extend(keys));
    }
}
/// See [`HostSet::try_clone`]. Panics if there is no memory.
impl<K: Key> Clone for HostSet<K> {
    fn clone(&self) -> Self {
        or_panic(self.try_clone())
    }
}
/// Whether the sets hold the same keys, wherever they lie.
impl<K: Key> PartialEq for HostSet<K> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|key| other.contains(key))
    }
}
impl<K: Key> Eq for HostSet<K> {}
impl<'s, K: Key> IntoIterator for &'s HostSet<K> {
    type Item = K;
    type IntoIter = HostIter<'s, K>;
    fn into_iter(self) -> HostIter<'s, K> {
        self.iter()
    }
}
impl<K: Key> fmt::Debug for HostSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = std::any::type_name::<K>();
        write!(f, "HostSet<{key}>[{} keys in {} bytes]", self.len(), self.bytes())
    }
}
