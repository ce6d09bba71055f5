//! Maps that change one key after the other: see [`HostMap`].
use super::Map;
use crate::device::Device;
use crate::error::{Result, or_panic};
use crate::fallible::{push, with_room};
use crate::tagged::{self, Tagged};
use crate::types::{BitsOf, Key, Value, bits_of_key, bits_of_value};
use rayon::iter::ParallelIterator;
use std::fmt;
use std::iter::FusedIterator;

/// A map in host memory that is asked and changed one key after the other, as a hash map of the
/// standard library is.
///
/// Keys and values are copied in and out; [types] says which there are. A [`Map`] is built and
/// asked in batches, on a CPU or a GPU: [`to_map`](Self::to_map) and [`Map::to_host`] copy one to
/// the other.
///
/// ```
/// use koel::{Device, HostMap};
///
/// let mut map = HostMap::new();
/// for word in ["to", "be", "or", "not", "to", "be"] {
///     map.entry(word.len()).and_modify(|count| *count += 1).or_insert(1)?;
/// }
/// assert_eq!((map.get(2), map.get(3), map.len()), (Some(5), Some(1), 2));
/// assert_eq!(map.insert(3, 10)?, Some(1));
/// assert_eq!((map.remove(3), map.remove(4)), (Some(10), None));
/// assert!(map.iter().eq([(2, 5)]));
/// let lengths = map.to_map(&Device::cpu()?)?;
/// assert_eq!(lengths.get(&[2, 3])?, [Some(5), None]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Cost and memory
/// A table of its own, made for single keys: groups of seven slots, and a byte of the hash of each
/// key, which a lookup compares first. A lookup reads one cache line if key and value have 8 bytes
/// together, and mostly two adjacent ones if they have 16. Insertions make the map grow to twice
/// its groups beyond load 0.86, at 9.1 bytes a slot for pairs of 8 bytes and 18.3 for pairs of 16;
/// removals keep the memory: see [`shrink_to_fit`](Self::shrink_to_fit). An empty map has none.
/// Only what may grow the map returns a [`Result`], and its only error is lack of memory, after
/// which the map is as before. Hashes have random factors, so that nobody can choose keys that
/// share their slots.
///
/// From some hundred keys on, [`get_many`](Self::get_many) and [`try_extend`](Self::try_extend) are
/// faster than one key after the other.
///
/// [types]: crate::types
#[doc(alias("HashMap", "dictionary"))]
pub struct HostMap<K: Key = u32, V: Value = u32> {
    table: Tagged<BitsOf<K>, BitsOf<V>>,
}
impl<K: Key, V: Value> Map<K, V> {
    /// Returns a copy of the map that is changed one key after the other, in host memory. The
    /// reverse of [`HostMap::to_map`].
    ///
    /// ```
    /// let map = koel::Map::build(&koel::Device::cpu()?, &[3u32, 5], &['c', 'e'])?;
    /// let mut host = map.to_host()?;
    /// assert_eq!(host.insert(5, 'E')?, Some('e'));
    /// assert_eq!((host.get(5), map.get(&[5])?), (Some('E'), vec![Some('e')]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Costs as [`pairs`](Self::pairs) and an insertion of each. Errors: those of `pairs`.
    pub fn to_host(&self) -> Result<HostMap<K, V>> {
        HostMap::try_from_iter(self.pairs()?)
    }
}
impl<K: Key, V: Value> HostMap<K, V> {
    /// Creates an empty map. Allocates nothing.
    pub fn new() -> HostMap<K, V> {
        HostMap { table: Tagged::new() }
    }
    /// Creates an empty map with room for some pairs. Errors: out of memory.
    pub fn with_capacity(pairs: usize) -> Result<HostMap<K, V>> {
        let mut map = HostMap::new();
        map.reserve(pairs)?;
        Ok(map)
    }
    /// Returns a copy of the map on a device, which is asked and changed in batches. Errors: out of
    /// memory.
    pub fn to_map(&self, device: &Device) -> Result<Map<K, V>> {
        let (mut keys, mut values) = (with_room(self.len())?, with_room(self.len())?);
        for (key, value) in self {
            push(&mut keys, key)?;
            push(&mut values, value)?;
        }
        Map::build(device, &keys, &values)
    }
    /// Returns the value of a key.
    #[inline]
    pub fn get(&self, key: K) -> Option<V> {
        self.table.get(bits_of_key(key)).map(of_bits)
    }
    /// Returns whether the map holds a key.
    #[inline]
    pub fn contains_key(&self, key: K) -> bool {
        self.table.get(bits_of_key(key)).is_some()
    }
    /// Looks up many keys: waits for the memory of several at a time. On the calling thread.
    /// Errors: out of memory.
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        self.table.get_each(keys, bits_of_key, |bits| bits.map(of_bits))
    }
    /// Returns the number of pairs.
    #[inline]
    pub fn len(&self) -> usize {
        self.table.len()
    }
    /// Returns whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the bytes of memory that the map occupies.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }
    /// Returns all pairs, in any order. Reads the whole table.
    pub fn iter(&self) -> HostIter<'_, K, V> {
        HostIter { left: self.len(), entries: self.table.iter() }
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
        self.table.par_iter().map(pair_of_bits)
    }

    /// Sets the value of a key. Returns the value that it had. Errors: out of memory.
    #[inline]
    pub fn insert(&mut self, key: K, value: V) -> Result<Option<V>> {
        let before = self.table.alter(bits_of_key(key), |_| Some(bits_of_value(value)))?;
        Ok(before.map(of_bits))
    }
    /// Removes a key. Returns the value that it had. The map keeps its memory.
    #[inline]
    pub fn remove(&mut self, key: K) -> Option<V> {
        self.table.remove(bits_of_key(key)).map(of_bits)
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
        let change = |before: Option<BitsOf<V>>| change(before.map(of_bits)).map(bits_of_value);
        let before = self.table.alter(bits_of_key(key), change)?;
        Ok(before.map(of_bits))
    }
    /// Returns the key's place, for changes that depend on whether the map holds it.
    #[inline]
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        Entry { map: self, key, value: None }
    }
    /// Removes the pairs for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(K, V) -> bool) {
        self.table.retain(|key, value| {
            let (key, value) = pair_of_bits((key, value));
            keep(key, value)
        });
    }
    /// Removes all pairs. The map keeps its memory.
    pub fn clear(&mut self) {
        self.table.clear();
    }
    /// Makes room for more pairs. Errors: out of memory; then the map is as before.
    pub fn reserve(&mut self, more: usize) -> Result<()> {
        self.table.reserve(more)
    }
    /// Frees memory that the pairs do not need. Errors: out of memory; then the map is as before.
    pub fn shrink_to_fit(&mut self) -> Result<()> {
        self.table.shrink()
    }
    /// Sets the values of keys: of equal keys, the last counts. Waits for the memory of several
    /// keys at a time, which is faster than [one by one](Self::insert). Errors: out of memory; the
    /// pairs before that are in the map.
    pub fn try_extend(&mut self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        let of_pair = |(key, value)| (bits_of_key(key), bits_of_value(value));
        self.table.extend(pairs.into_iter().map(of_pair))
    }
    /// Returns a map of pairs: of equal keys, the last counts. Errors: out of memory.
    pub fn try_from_iter(pairs: impl IntoIterator<Item = (K, V)>) -> Result<HostMap<K, V>> {
        let mut map = HostMap::new();
        map.try_extend(pairs)?;
        Ok(map)
    }
    /// Returns a copy. Errors: out of memory.
    pub fn try_clone(&self) -> Result<HostMap<K, V>> {
        Ok(HostMap { table: self.table.try_clone()? })
    }
}
fn of_bits<V: Value>(bits: BitsOf<V>) -> V {
    V::unpack(bits.into())
}
fn pair_of_bits<K: Key, V: Value>((key, value): (BitsOf<K>, BitsOf<V>)) -> (K, V) {
    (K::unpack(key.into()), V::unpack(value.into()))
}

/// The pairs of a map: see [`HostMap::iter`].
pub struct HostIter<'m, K: Key, V: Value> {
    left: usize,
    entries: tagged::Iter<'m, BitsOf<K>, BitsOf<V>>,
}
impl<K: Key, V: Value> Iterator for HostIter<'_, K, V> {
    type Item = (K, V);
    #[inline]
    fn next(&mut self) -> Option<(K, V)> {
        let pair = pair_of_bits(self.entries.next()?);
        self.left -= 1;
        Some(pair)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}
impl<K: Key, V: Value> ExactSizeIterator for HostIter<'_, K, V> {}
impl<K: Key, V: Value> FusedIterator for HostIter<'_, K, V> {}
impl<K: Key, V: Value> Clone for HostIter<'_, K, V> {
    fn clone(&self) -> Self {
        HostIter { left: self.left, entries: self.entries.clone() }
    }
}
impl<K: Key, V: Value> fmt::Debug for HostIter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostIter[{} pairs]", self.left)
    }
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
        let changed = self.map.update(self.key, |before| {
            *value = before;
            value.as_mut().map(change);
            *value
        });
        let Ok(_) = changed else { unreachable!("nothing is inserted") };
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

/// An empty map.
impl<K: Key, V: Value> Default for HostMap<K, V> {
    fn default() -> Self {
        HostMap::new()
    }
}
/// See [`HostMap::try_from_iter`]. Panics if there is no memory, as the standard library's do.
impl<K: Key, V: Value> FromIterator<(K, V)> for HostMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        or_panic(HostMap::try_from_iter(pairs))
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
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}
impl<K: Key, V: Value + Eq> Eq for HostMap<K, V> {}
impl<'m, K: Key, V: Value> IntoIterator for &'m HostMap<K, V> {
    type Item = (K, V);
    type IntoIter = HostIter<'m, K, V>;
    fn into_iter(self) -> HostIter<'m, K, V> {
        self.iter()
    }
}
impl<K: Key, V: Value> fmt::Debug for HostMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = (std::any::type_name::<K>(), std::any::type_name::<V>());
        write!(f, "HostMap<{key}, {value}>[{} pairs in {} bytes]", self.len(), self.bytes())
    }
}
