//! Sets that change one key after the other: see [`HostSet`].
use super::host_ref::Iter;
use super::{HostSetRef, Set, SetStore};
use crate::device::{Device, not_on_host};
use crate::error::{Result, or_panic};
use crate::fallible::{collect, extend};
use crate::table::one_key::{BATCH, FEWEST, PIECE};
use crate::types::{Key, bits_of_key};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::fmt;

/// A set in host memory that is asked and changed one key after the other, as a hash set of the
/// standard library is: to a [`Set`] what a [`HostMap`](crate::HostMap) is to a
/// [`Map`](crate::Map).
///
/// ```
/// use koel::{Device, HostSet};
///
/// let mut set = HostSet::new(&Device::cpu()?)?;
/// assert!(set.insert('k')? && set.insert('o')? && !set.insert('k')?);
/// assert!(set.contains('o') && set.remove('o') && !set.remove('o'));
/// assert!(set.iter().eq(['k']) && set == HostSet::from(['k']));
/// assert_eq!(set.into_set().contains(&['k', 'o'])?, [true, false]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Cost, memory and errors: as of a [`HostMap`](crate::HostMap#cost-and-memory).
#[doc(alias("HashSet"))]
pub struct HostSet<K: Key = u32> {
    /// On a CPU, in its own memory.
    set: Set<K>,
}
impl<K: Key> Set<K> {
    /// Returns the set as one that is changed one key after the other. The reverse of
    /// [`HostSet::into_set`]. Costs and errors: as [`Map::into_host`](crate::Map::into_host).
    pub fn into_host(mut self) -> Result<HostSet<K>> {
        self.report()?;
        if !self.store.make_own()? {
            return Err(not_on_host("set", self.device()));
        }
        Ok(HostSet { set: self })
    }
}
impl<K: Key> HostSet<K> {
    /// Creates an empty set on a CPU.
    ///
    /// Errors: another device, out of memory.
    pub fn new(device: &Device) -> Result<HostSet<K>> {
        HostSet::with_capacity(device, 0)
    }
    /// Creates an empty set on a CPU with room for some keys. Errors: as [`new`](Self::new).
    pub fn with_capacity(device: &Device, keys: usize) -> Result<HostSet<K>> {
        let mut set = Set::build(device, &[])?.into_host()?;
        set.reserve(keys.max(FEWEST))?;
        Ok(set)
    }
    /// Returns the set as one that is asked and changed in batches. Costs nothing.
    pub fn into_set(self) -> Set<K> {
        self.set
    }
    #[inline]
    fn host(&self) -> HostSetRef<'_, K> {
        let Ok(host) = self.set.host() else { unreachable!("it is in its own host memory") };
        host
    }
    /// Returns whether the set holds a key.
    #[inline]
    pub fn contains(&self, key: K) -> bool {
        self.set.store.find_own(bits_of_key(key))
    }
    /// Returns whether the set holds each of many keys: [`Set::contains`].
    pub fn contains_many(&self, keys: &[K]) -> Result<Vec<bool>> {
        self.set.contains(keys)
    }
    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.host().len()
    }
    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the bytes of memory that the set occupies.
    pub fn bytes(&self) -> usize {
        self.set.bytes()
    }
    /// Returns the device, a CPU.
    pub fn device(&self) -> &Device {
        self.set.device()
    }
    /// Returns all keys, in any order. Reads the whole table.
    pub fn iter(&self) -> Iter<'_, K> {
        self.host().iter()
    }
    /// Returns all keys as a parallel iterator of rayon, in any order.
    pub fn par_iter(&self) -> impl ParallelIterator<Item = K> + use<'_, K> {
        let pieces = 0..self.host().slots().div_ceil(PIECE);
        let of_piece = |piece| self.host().in_slots(piece * PIECE..(piece + 1) * PIECE);
        pieces.into_par_iter().flat_map_iter(of_piece)
    }

    /// Inserts a key. Returns whether it was missing. Errors: out of memory.
    #[inline]
    pub fn insert(&mut self, key: K) -> Result<bool> {
        let altered = self.set.store.alter(bits_of_key(key), |_| Some(()));
        if altered.is_left {
            self.insert_by_batch(key)?;
        }
        Ok(altered.before.is_none())
    }
    /// Inserts a missing key for which there is no room.
    #[cold]
    fn insert_by_batch(&mut self, key: K) -> Result<()> {
        self.set.store.reserve_row()?;
        if self.set.store.alter(bits_of_key(key), |_| Some(())).is_left {
            self.set.insert(&[key])?;
        }
        Ok(())
    }
    /// Removes a key. Returns whether the set held it. The set keeps its memory.
    #[inline]
    pub fn remove(&mut self, key: K) -> bool {
        // Only insertions can be left.
        self.set.store.alter(bits_of_key(key), |_| None).before.is_some()
    }
    /// Removes the keys for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(K) -> bool) {
        self.set.store.retain(|key| keep(K::unpack(key.into())));
    }
    /// Removes all keys. The set keeps its memory.
    pub fn clear(&mut self) {
        self.set.store.clear();
    }
    /// Makes room for more keys, at load 0.8. Errors: out of memory; then the set is as before.
    pub fn reserve(&mut self, more: usize) -> Result<()> {
        self.set.store.reserve(more)
    }
    /// Frees memory that the keys do not need: see [`Set::shrink`]. Errors: out of memory; then the
    /// set is as before.
    pub fn shrink_to_fit(&mut self) -> Result<()> {
        self.set.shrink()
    }
    /// Inserts keys in batches, which is faster than [one by one](Self::insert). Errors: out of
    /// memory; the keys before that are in the set.
    pub fn try_extend(&mut self, keys: impl IntoIterator<Item = K>) -> Result<()> {
        let (mut keys, mut batch) = (keys.into_iter(), Vec::new());
        loop {
            extend(&mut batch, keys.by_ref().take(BATCH))?;
            if batch.is_empty() {
                return Ok(());
            }
            self.set.insert(&batch)?;
            batch.clear();
        }
    }
    /// Builds a set of keys. Errors: as [`new`](Self::new).
    pub fn try_from_iter(device: &Device, keys: impl IntoIterator<Item = K>) -> Result<HostSet<K>> {
        let mut set = Set::build(device, &collect(keys)?)?.into_host()?;
        set.reserve(FEWEST.saturating_sub(set.len()))?;
        Ok(set)
    }
    /// Returns a copy. Errors: out of memory.
    pub fn try_clone(&self) -> Result<HostSet<K>> {
        self.set.to_device(self.device())?.into_host()
    }
}
/// An empty set on the device of an empty [`HostMap`](crate::HostMap). Panics if there is no
/// memory, as the standard library's do.
impl<K: Key> Default for HostSet<K> {
    fn default() -> Self {
        or_panic(Device::shared_cpu().and_then(|device| HostSet::new(&device)))
    }
}
/// On the device of [`Default`]: see [`HostSet::try_from_iter`]. Panics if there is no memory.
impl<K: Key> FromIterator<K> for HostSet<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        or_panic(Device::shared_cpu().and_then(|device| HostSet::try_from_iter(&device, keys)))
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
        let other = other.host();
        self.len() == other.len() && self.iter().all(|key| other.contains(key))
    }
}
impl<K: Key> Eq for HostSet<K> {}
impl<'s, K: Key> IntoIterator for &'s HostSet<K> {
    type Item = K;
    type IntoIter = Iter<'s, K>;
    fn into_iter(self) -> Iter<'s, K> {
        self.iter()
    }
}
impl<K: Key> fmt::Debug for HostSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = std::any::type_name::<K>();
        write!(f, "HostSet<{key}>[{} keys in {} bytes]", self.len(), self.bytes())
    }
}
