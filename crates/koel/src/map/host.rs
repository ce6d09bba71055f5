//! Maps that change one key after the other: see [`HostMap`].
use super::host_ref::Iter;
use super::{HostMapRef, Map, MapStore, Operation};
use crate::device::{Device, not_on_host};
use crate::error::{Result, or_panic};
use crate::fallible::{push, reserve};
use crate::table::one_key::{BATCH, FEWEST, PIECE};
use crate::types::{BitsOf, Key, Value, bits_of_key, bits_of_value};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::fmt;

/// A map in host memory that is asked and changed one key after the other, as a hash map of the
/// standard library is.
///
/// It is a [`Map`] on a CPU, and becomes one at no cost ([`into_map`](Self::into_map)), as a `Map`
/// becomes a `HostMap` ([`Map::into_host`]): one is built and asked in batches, the other is
/// changed key by key. Keys and values are copied in and out; [types] says which there are.
///
/// ```
/// use koel::{Device, HostMap};
///
/// let mut map = HostMap::new(&Device::cpu()?)?;
/// for word in ["to", "be", "or", "not", "to", "be"] {
///     map.entry(word.len()).and_modify(|count| *count += 1).or_insert(1)?;
/// }
/// assert_eq!((map.get(2), map.get(3), map.len()), (Some(5), Some(1), 2));
/// assert_eq!(map.insert(3, 10)?, Some(1));
/// assert_eq!((map.remove(3), map.remove(4)), (Some(10), None));
/// assert!(map.iter().eq([(2, 5)]));
/// let lengths = map.into_map();
/// assert_eq!(lengths.get(&[2, 3])?, [Some(5), None]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Cost and memory
/// A lookup reads one or two cache lines, as that of [`HostMapRef`]; a change writes them, and
/// allocates nothing. Insertions make the map grow to twice its buckets beyond load 0.88; removals
/// keep the memory: see [`shrink_to_fit`](Self::shrink_to_fit). Only what may grow the map
/// returns a [`Result`], and its only error is lack of memory, after which the map is as before.
///
/// A batch is faster: from some hundred keys on, [`get_many`](Self::get_many) and
/// [`try_extend`](Self::try_extend).
///
/// [types]: crate::types
#[doc(alias("HashMap", "dictionary"))]
pub struct HostMap<K: Key = u32, V: Value = u32> {
    /// On a CPU, in its own memory.
    map: Map<K, V>,
}
impl<K: Key, V: Value> Map<K, V> {
    /// Returns the map as one that is changed one key after the other. The reverse of
    /// [`HostMap::into_map`]. Costs nothing, but copies an [opened](Self::open) map to memory.
    ///
    /// ```
    /// let map = koel::Map::build(&koel::Device::cpu()?, &[3u32, 5], &['c', 'e'])?;
    /// let mut map = map.into_host()?;
    /// assert_eq!(map.insert(5, 'E')?, Some('e'));
    /// assert_eq!(map.get(5), Some('E'));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: a map on another device than a CPU, which [`to_device`](Self::to_device) copies; for
    /// an opened map, faults of its file, out of memory.
    pub fn into_host(mut self) -> Result<HostMap<K, V>> {
        self.report()?;
        if !self.store.make_own()? {
            return Err(not_on_host("map", self.device()));
        }
        Ok(HostMap { map: self })
    }
}
impl<K: Key, V: Value> HostMap<K, V> {
    /// Creates an empty map on a CPU.
    ///
    /// Errors: another device, out of memory.
    pub fn new(device: &Device) -> Result<HostMap<K, V>> {
        HostMap::with_capacity(device, 0)
    }
    /// Creates an empty map on a CPU with room for some pairs. Errors: as [`new`](Self::new).
    pub fn with_capacity(device: &Device, pairs: usize) -> Result<HostMap<K, V>> {
        let mut map = Map::build(device, &[], &[])?.into_host()?;
        map.reserve(pairs.max(FEWEST))?;
        Ok(map)
    }
    /// Returns the map as one that is asked and changed in batches. Costs nothing.
    pub fn into_map(self) -> Map<K, V> {
        self.map
    }
    #[inline]
    fn host(&self) -> HostMapRef<'_, K, V> {
        let Ok(host) = self.map.host() else { unreachable!("it is in its own host memory") };
        host
    }
    /// Returns the value of a key.
    #[inline]
    pub fn get(&self, key: K) -> Option<V> {
        self.map.store.find_own(bits_of_key(key)).map(|bits| V::unpack(bits.into()))
    }
    /// Returns whether the map holds a key.
    #[inline]
    pub fn contains_key(&self, key: K) -> bool {
        self.map.store.find_own(bits_of_key(key)).is_some()
    }
    /// Looks up many keys: [`Map::get`].
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        self.map.get(keys)
    }
    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.host().len()
    }
    /// Returns whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the bytes of memory that the map occupies.
    pub fn bytes(&self) -> usize {
        self.map.bytes()
    }
    /// Returns the device, a CPU.
    pub fn device(&self) -> &Device {
        self.map.device()
    }
    /// Returns all pairs, in any order. Reads the whole table.
    pub fn iter(&self) -> Iter<'_, K, V> {
        self.host().iter()
    }
    /// Returns all keys, in the order of [`iter`](Self::iter).
    pub fn keys(&self) -> impl ExactSizeIterator<Item = K> + use<'_, K, V> {
        self.iter().map(|(key, _)| key)
    }
    /// Returns all values, in the order of [`iter`](Self::iter).
    pub fn values(&self) -> impl ExactSizeIterator<Item = V> + use<'_, K, V> {
        self.iter().map(|(_, value)| value)
    }
    /// Returns all pairs as a parallel iterator of rayon, in any order.
    ///
    /// ```
    /// use rayon::iter::ParallelIterator;
    ///
    /// let map = koel::HostMap::from_iter((0u32..1000).map(|key| (key, key % 7)));
    /// assert_eq!(map.par_iter().filter(|&(_, value)| value == 6).count(), 142);
    /// ```
    pub fn par_iter(&self) -> impl ParallelIterator<Item = (K, V)> + use<'_, K, V> {
        let pieces = 0..self.host().slots().div_ceil(PIECE);
        let of_piece = |piece| self.host().in_slots(piece * PIECE..(piece + 1) * PIECE);
        pieces.into_par_iter().flat_map_iter(of_piece)
    }

    /// Sets the value of a key. Returns the value that it had. Errors: out of memory.
    #[inline]
    pub fn insert(&mut self, key: K, value: V) -> Result<Option<V>> {
        self.update(key, |_| Some(value))
    }
    /// Removes a key. Returns the value that it had. The map keeps its memory.
    #[inline]
    pub fn remove(&mut self, key: K) -> Option<V> {
        // Only insertions can be left.
        self.alter(key, |_| None).1
    }
    /// Sets the value of a key to what `change` makes of its value: `None` is that of a missing
    /// key. Returns the value that it had. Errors: out of memory, if it was missing.
    ///
    /// ```
    /// let mut map = koel::HostMap::from_iter([('a', 1), ('b', 2)]);
    /// let halve = |value: Option<i64>| value.map(|value| value / 2).filter(|&half| half > 0);
    /// assert_eq!(map.update('a', halve)?, Some(1));
    /// assert_eq!(map.update('b', halve)?, Some(2));
    /// assert!(map.iter().eq([('b', 1)]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    #[inline]
    pub fn update(
        &mut self,
        key: K,
        change: impl FnOnce(Option<V>) -> Option<V>,
    ) -> Result<Option<V>> {
        let (left, before) = self.alter(key, change);
        match left {
            None => Ok(before),
            Some(value) => self.insert_by_batch(key, value).map(|()| None),
        }
    }
    /// Returns the key's place, for changes that depend on whether the map holds it.
    #[inline]
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        Entry { map: self, key, value: None }
    }
    /// Changes a key. Returns the value whose insertion is left, and the value before.
    #[inline]
    fn alter(
        &mut self,
        key: K,
        change: impl FnOnce(Option<V>) -> Option<V>,
    ) -> (Option<BitsOf<V>>, Option<V>) {
        let of_bits = |bits: BitsOf<V>| V::unpack(bits.into());
        let altered = self
            .map
            .store
            .alter(bits_of_key(key), |before| change(before.map(of_bits)).map(bits_of_value));
        (altered.left(), altered.before.map(of_bits))
    }
    /// Inserts a missing key for which there is no room.
    #[cold]
    fn insert_by_batch(&mut self, key: K, value: BitsOf<V>) -> Result<()> {
        let value = V::unpack(value.into());
        self.map.store.reserve_row()?;
        if self.alter(key, |_| Some(value)).0.is_some() {
            self.map.update_all(Operation::Insert, &[key], &[value])?;
        }
        Ok(())
    }
    /// Removes the pairs for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(K, V) -> bool) {
        let store = &mut self.map.store;
        store.retain(|key, value| keep(K::unpack(key.into()), V::unpack(value.into())));
    }
    /// Removes all pairs. The map keeps its memory.
    pub fn clear(&mut self) {
        self.map.store.clear();
    }
    /// Makes room for more pairs, at load 0.8. Errors: out of memory; then the map is as before.
    pub fn reserve(&mut self, more: usize) -> Result<()> {
        self.map.store.reserve(more)
    }
    /// Frees memory that the pairs do not need: see [`Map::shrink`]. Errors: out of memory; then
    /// the map is as before.
    pub fn shrink_to_fit(&mut self) -> Result<()> {
        self.map.shrink()
    }
    /// Sets the values of keys: of equal keys, the last counts. In batches, which is faster than
    /// [one by one](Self::insert). Errors: out of memory; the pairs before that are in the map.
    pub fn try_extend(&mut self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        let mut pairs = pairs.into_iter();
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        loop {
            gather(pairs.by_ref().take(BATCH), &mut keys, &mut values)?;
            if keys.is_empty() {
                return Ok(());
            }
            self.map.insert_or_assign(&keys, &values)?;
            keys.clear();
            values.clear();
        }
    }
    /// Builds a map from pairs: of equal keys, the last counts. Errors: as [`new`](Self::new).
    pub fn try_from_iter(
        device: &Device,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<HostMap<K, V>> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        gather(pairs.into_iter(), &mut keys, &mut values)?;
        let mut map = Map::build(device, &keys, &values)?.into_host()?;
        map.reserve(FEWEST.saturating_sub(map.len()))?;
        Ok(map)
    }
    /// Returns a copy. Errors: out of memory.
    pub fn try_clone(&self) -> Result<HostMap<K, V>> {
        self.map.to_device(self.device())?.into_host()
    }
}
/// Appends pairs to keys and values. Errors: out of memory.
fn gather<K, V>(
    pairs: impl Iterator<Item = (K, V)>,
    keys: &mut Vec<K>,
    values: &mut Vec<V>,
) -> Result<()> {
    reserve(keys, pairs.size_hint().0)?;
    reserve(values, pairs.size_hint().0)?;
    for (key, value) in pairs {
        push(keys, key)?;
        push(values, value)?;
    }
    Ok(())
}

/// The place of a key in a map: see [`HostMap::entry`].
///
/// ```
/// let mut map = koel::HostMap::from_iter([('a', 1)]);
/// assert_eq!(map.entry('a').and_modify(|count| *count += 1).or_insert(1)?, 2);
/// assert_eq!(map.entry('b').and_modify(|count| *count += 1).or_default()?, 0);
/// assert_eq!((map.get('a'), map.get('b')), (Some(2), Some(0)));
/// # Ok::<(), koel::Error>(())
/// ```
pub struct Entry<'m, K: Key, V: Value> {
    map: &'m mut HostMap<K, V>,
    key: K,
    /// The value, if it is known.
    value: Option<V>,
}
impl<K: Key, V: Value> Entry<'_, K, V> {
    /// Returns the key.
    pub fn key(&self) -> K {
        self.key
    }
    /// Changes the value, if the map holds the key. Reads and writes its place once.
    #[inline]
    pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Self {
        let value = &mut self.value;
        self.map.alter(self.key, |before| {
            *value = before;
            value.as_mut().map(change);
            *value
        });
        self
    }
    /// Inserts the value if the map does not hold the key. Returns the value that it has then.
    /// Errors: out of memory.
    #[inline]
    pub fn or_insert(self, value: V) -> Result<V> {
        self.or_insert_with(|| value)
    }
    /// As [`or_insert`](Self::or_insert), with the value that `make` returns.
    #[inline]
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> Result<V> {
        let Entry { map, key, value } = self;
        match value {
            Some(value) => Ok(value),
            None => {
                let mut now = None;
                map.update(key, |before| {
                    now = before.or_else(|| Some(make()));
                    now
                })?;
                let Some(value) = now else { unreachable!("it was held, or made") };
                Ok(value)
            }
        }
    }
    /// As [`or_insert`](Self::or_insert), with the type's default value.
    #[inline]
    pub fn or_default(self) -> Result<V>
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}
impl<K: Key + fmt::Debug, V: Value> fmt::Debug for Entry<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({:?})", self.key)
    }
}

/// An empty map on a CPU device that all such maps and sets of the process share. Panics if there
/// is no memory, as the standard library's do.
impl<K: Key, V: Value> Default for HostMap<K, V> {
    fn default() -> Self {
        or_panic(Device::shared_cpu().and_then(|device| HostMap::new(&device)))
    }
}
/// On the device of [`Default`]: see [`HostMap::try_from_iter`]. Panics if there is no memory.
impl<K: Key, V: Value> FromIterator<(K, V)> for HostMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        or_panic(Device::shared_cpu().and_then(|device| HostMap::try_from_iter(&device, pairs)))
    }
}
/// As [`FromIterator`].
impl<K: Key, V: Value, const N: usize> From<[(K, V); N]> for HostMap<K, V> {
    fn from(pairs: [(K, V); N]) -> Self {
        HostMap::from_iter(pairs)
    }
}
/// See [`HostMap::try_extend`]. Panics if there is no memory.
impl<K: Key, V: Value> Extend<(K, V)> for HostMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        or_panic(self.try_extend(pairs));
    }
}
/// See [`HostMap::try_clone`]. Panics if there is no memory.
impl<K: Key, V: Value> Clone for HostMap<K, V> {
    fn clone(&self) -> Self {
        or_panic(self.try_clone())
    }
}
/// Whether the maps hold the same pairs, wherever they lie.
impl<K: Key, V: Value + PartialEq> PartialEq for HostMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        let other = other.host();
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}
impl<K: Key, V: Value + Eq> Eq for HostMap<K, V> {}
impl<'m, K: Key, V: Value> IntoIterator for &'m HostMap<K, V> {
    type Item = (K, V);
    type IntoIter = Iter<'m, K, V>;
    fn into_iter(self) -> Iter<'m, K, V> {
        self.iter()
    }
}
impl<K: Key, V: Value> fmt::Debug for HostMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = (std::any::type_name::<K>(), std::any::type_name::<V>());
        write!(f, "HostMap<{key}, {value}>[{} pairs in {} bytes]", self.len(), self.bytes())
    }
}
