//! Maps in host memory that many threads read and change at the same time: see [`ConcurrentMap`].
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
mod batch;
mod bucket;
mod change;
mod shards;
mod table;
#[cfg(test)]
mod tests;
mod whole;
mod word;

use crate::device::Device;
use crate::error::Result;
use crate::fallible::with_room;
use crate::map::{LayoutFor, Map};
use crate::seed::unforeseeable;
use crate::types::{SlotKey, SlotValue};
pub(crate) use bucket::SharedLayout;
use change::Change;
use koel_kernels::hash::mix::splitmix_at;
use shards::Shards;
use std::fmt;
use std::marker::PhantomData;

/// Options of a [`ConcurrentMap`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ConcurrentMapOptions {
    /// Number of pairs that the map has room for at first. It grows beyond.
    pub capacity: usize,
    /// Hash seed. `None` selects a random one for each map, so that nobody can craft keys against
    /// it. Only the order of [`pairs`](ConcurrentMap::pairs) depends on the seed. Keys crafted
    /// against a known seed cost time, and memory of one doubling: then their shard takes a random
    /// seed.
    pub seed: Option<u32>,
}
crate::options::setters! { ConcurrentMapOptions:
    capacity by with_capacity: usize;
    seed by with_seed: impl Into<Option<u32>>;
}

/// Buckets of pairs of these types.
type BucketOf<K, V> = <LayoutFor<K, V> as SharedLayout>::Bucket;

/// A hash map in host memory that any number of threads read and change at the same time, through
/// a shared reference.
///
/// Keys and values are of [any type](crate::types) of up to 8 bytes, packed. Every key and every
/// value can be stored.
///
/// ```
/// let map = koel::ConcurrentMap::new()?;
/// std::thread::scope(|scope| {
///     for thread in 0..4u64 {
///         let map = &map;
///         scope.spawn(move || -> koel::Result<()> {
///             for i in 0..1000 {
///                 map.update(i % 10, |count| Some(count.unwrap_or(0) + 1))?;
///                 map.insert(1000 * (thread + 1) + i, i)?;
///             }
///             Ok(())
///         });
///     }
/// });
/// assert_eq!(map.get(7), Some(400));
/// assert_eq!(map.remove(1000), Some(0));
/// assert_eq!(map.get_many(&[1000, 1001])?, [None, Some(1)]);
/// assert_eq!(map.len(), 4009);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Consistency
/// Operations on single keys are linearizable: each takes effect at one moment between its call and
/// its return, in one order for all threads. A lookup that returns a value sees all that the thread
/// that stored it did before. A batch is one operation after the other. [`pairs`](Self::pairs) and
/// [`clear`](Self::clear) say what they see and remove.
///
/// # Progress
/// Lookups take no lock and never wait. A lookup repeats if keys were moved or removed in the same
/// bucket meanwhile; one that finds a key of up to 4 bytes with a value of up to 4 bytes never
/// does. A change locks one bucket of seven pairs, rarely two or three, for some nanoseconds, and
/// runs no code of the caller meanwhile. While one of the shards (at least four for each thread of
/// the machine) grows, changes to its keys wait.
///
/// # Cost
/// A lookup reads one cache line; one of a present key reads two adjacent ones if keys or values
/// have more than 4 bytes. Keys that did not fit into their first bucket, few below load 0.7, cost
/// one more. A change reads and writes the same lines, and no memory that other threads write
/// otherwise: there is no lock and no counter that all share. [`get_many`](Self::get_many) and the
/// other batches have some twenty lookups in flight on one thread.
///
/// # Memory
/// A bucket of seven pairs takes 64 bytes, or 128 if keys or values have more than 4 bytes. A shard
/// in which a pair finds no room, at load 0.9 to 0.95, doubles. Lookups may still read the table
/// that it had before, which stays in memory until the map is dropped or
/// [`free_replaced`](Self::free_replaced) or [`shrink`](Self::shrink) is called. All such tables
/// together are smaller than the current one. [`bytes`](Self::bytes) counts them.
///
/// Lack of memory is an error of the operation that needed it, and leaves the map as it was.
#[doc(alias("DashMap", "HashMap", "ConcurrentHashMap"))]
pub struct ConcurrentMap<K: SlotKey, V: SlotValue> {
    shards: Shards<BucketOf<K, V>>,
    types: PhantomData<(K, V)>,
}

impl<K: SlotKey, V: SlotValue> ConcurrentMap<K, V> {
    /// Makes an empty map. Errors: out of memory.
    pub fn new() -> Result<ConcurrentMap<K, V>> {
        ConcurrentMap::with_options(ConcurrentMapOptions::default())
    }
    /// Makes an empty map with room for this number of pairs. Errors: out of memory.
    pub fn with_capacity(capacity: usize) -> Result<ConcurrentMap<K, V>> {
        ConcurrentMap::with_options(ConcurrentMapOptions::default().with_capacity(capacity))
    }
    /// Makes an empty map. Errors: out of memory.
    pub fn with_options(options: ConcurrentMapOptions) -> Result<ConcurrentMap<K, V>> {
        let ConcurrentMapOptions { capacity, seed } = options;
        let seed = seed.map_or_else(unforeseeable, |seed| splitmix_at(seed.into(), 0));
        Ok(ConcurrentMap { shards: Shards::new(capacity, seed)?, types: PhantomData })
    }
    /// Makes a map with the pairs of another, which is copied through host memory.
    ///
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let map = koel::Map::build(&device, &[3u32, 5], &['a', 'b'])?;
    /// let shared = koel::ConcurrentMap::from_map(&map)?;
    /// shared.insert(7, 'c')?;
    /// assert_eq!(shared.to_map(&device)?.get(&[5, 7, 9])?, [Some('b'), Some('c'), None]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: as [`Map::pairs`], out of memory.
    pub fn from_map(map: &Map<K, V>) -> Result<ConcurrentMap<K, V>> {
        let pairs = map.pairs()?;
        let to = ConcurrentMap::with_capacity(pairs.len())?;
        for (key, value) in pairs {
            to.insert(key, value)?;
        }
        Ok(to)
    }
    /// Builds a map of the [pairs](Self::pairs) on a device. Errors: as [`Map::build`].
    pub fn to_map(&self, device: &Device) -> Result<Map<K, V>> {
        let pairs = self.pairs()?;
        let (mut keys, mut values) = (with_room(pairs.len())?, with_room(pairs.len())?);
        keys.extend(pairs.iter().map(|pair| pair.0));
        values.extend(pairs.iter().map(|pair| pair.1));
        Map::build(device, &keys, &values)
    }

    /// Returns the value of a key.
    #[inline]
    pub fn get(&self, key: K) -> Option<V> {
        let key = key_bits(key);
        let (table, place) = self.shards.locate(key);
        table.get(place, key).map(value_of)
    }
    /// Returns whether the map holds a key.
    #[inline]
    pub fn contains_key(&self, key: K) -> bool {
        let key = key_bits(key);
        let (table, place) = self.shards.locate(key);
        table.get(place, key).is_some()
    }
    /// Sets the value of a key. Returns its value before, or `None` if the key was absent. Errors:
    /// out of memory, when an absent key needs a larger table.
    #[inline]
    pub fn insert(&self, key: K, value: V) -> Result<Option<V>> {
        self.change(key_bits(key), None, Some(value))
    }
    /// Removes a key. Returns its value, or `None` if the key was absent.
    #[inline]
    #[doc(alias("erase", "delete"))]
    pub fn remove(&self, key: K) -> Option<V> {
        // No removal needs memory.
        self.change(key_bits(key), None, None).unwrap_or(None)
    }
    /// Replaces the value of a key by a function of it; `None` stands for an absent key. Returns
    /// the value before.
    ///
    /// ```
    /// let map = koel::ConcurrentMap::new()?;
    /// map.update(5u16, |count| Some(count.unwrap_or(0u64) + 1))?;
    /// map.update(5, |count| count.map(|count| count * 10))?;
    /// assert_eq!(map.get(5), Some(10));
    /// assert_eq!(map.update(5, |_| None)?, Some(10)); // removes it
    /// assert!(map.is_empty());
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// The function runs without a lock, and again if the value has changed meanwhile: the last
    /// call counts. It may use the map. Errors: as [`insert`](Self::insert).
    #[inline]
    pub fn update(&self, key: K, mut to: impl FnMut(Option<V>) -> Option<V>) -> Result<Option<V>> {
        let key = key_bits(key);
        let (table, place) = self.shards.locate(key);
        let mut seen = table.get(place, key);
        loop {
            let new = to(seen.map(value_of));
            let was =
                self.shards.change(Change { key, only_if: Some(seen), to: new.map(bits_of) })?;
            if was == seen {
                return Ok(was.map(value_of));
            }
            seen = was;
        }
    }
    #[inline(always)]
    fn change(&self, key: u64, only_if: Option<Option<u64>>, to: Option<V>) -> Result<Option<V>> {
        let was = self.shards.change(Change { key, only_if, to: to.map(bits_of) })?;
        Ok(was.map(value_of))
    }

    /// Returns the number of pairs. Changes that other threads make meanwhile may be counted or
    /// not. Reads a cache line for each shard.
    pub fn len(&self) -> usize {
        self.shards.len()
    }
    /// Returns whether the map is empty, as [`len`](Self::len) counts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the bytes of memory that the map occupies, [replaced tables](Self#memory) included.
    pub fn bytes(&self) -> usize {
        self.shards.bytes()
    }
    /// Returns all pairs, in any order.
    ///
    /// A snapshot of one shard after the other: the pairs of a shard are those of one moment, in
    /// which changes to its keys wait. A key that is present during the whole call occurs once; one
    /// that is inserted or removed meanwhile, once or not at all. Errors: out of memory.
    #[doc(alias("iter", "snapshot"))]
    pub fn pairs(&self) -> Result<Vec<(K, V)>> {
        let mut pairs = with_room(self.len())?;
        self.shards.copy_to(&mut pairs, |key, value| (K::unpack(key.into()), value_of(value)))?;
        Ok(pairs)
    }
    /// Removes all pairs. A pair that another thread inserts meanwhile may stay. Keeps the memory.
    pub fn clear(&self) {
        self.shards.clear();
    }
    /// Frees the [tables that were replaced](Self#memory) when shards grew.
    pub fn free_replaced(&mut self) {
        self.shards.free_replaced();
    }
    /// Rebuilds shards at load 0.75 if that saves memory, and frees
    /// [tables that were replaced](Self#memory).
    ///
    /// Errors: out of memory, which leaves the pairs as they were.
    pub fn shrink(&mut self) -> Result<()> {
        self.shards.shrink()
    }
}
impl<K: SlotKey, V: SlotValue> fmt::Debug for ConcurrentMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = (std::any::type_name::<K>(), std::any::type_name::<V>());
        write!(f, "ConcurrentMap<{key}, {value}>[{} pairs, {} bytes]", self.len(), self.bytes())
    }
}

/// Returns the bits of a key.
#[inline(always)]
fn key_bits<K: SlotKey>(key: K) -> u64 {
    key.canonical().pack() as u64
}
/// Returns the bits of a value.
#[inline(always)]
fn bits_of<V: SlotValue>(value: V) -> u64 {
    value.pack() as u64
}
/// Returns the value of bits.
#[inline(always)]
fn value_of<V: SlotValue>(bits: u64) -> V {
    V::unpack(bits.into())
}
