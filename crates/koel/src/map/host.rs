//! Lookups of one key after the other: see [`HostMap`].
use super::{Map, MapStore, StoreOf, StoredKey};
use crate::device::not_on_host;
use crate::error::Result;
use crate::table::HostTable;
use crate::types::{Bits, Key, Value};
use std::fmt;

/// A map in host memory, which looks up one key after the other on the calling thread: see
/// [`Map::host`].
pub struct HostMap<'m, K: Key = u32, V: Value = u32> {
    map: &'m Map<K, V>,
    table: <StoreOf<K, V> as MapStore>::Host<'m>,
}
impl<K: Key, V: Value> Map<K, V> {
    /// Returns the map for lookups of one key after the other: as a hash map of the standard
    /// library is asked. Many keys at a time are looked up faster by [`get`](Self::get).
    ///
    /// ```
    /// let map = koel::Map::build(&koel::Device::cpu()?, &["x", "y"].map(str::len), &['x', 'y'])?;
    /// let host = map.host()?;
    /// assert_eq!((host.get(1), host.get(2), host.contains(1)), (Some('y'), None, true));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Costs tens of nanoseconds; allocates nothing and does not wait. Errors: a map on another
    /// device than a CPU, which [`to_device`](Self::to_device) copies; a build that failed; for an
    /// opened map, faults of its file.
    #[doc(alias("get_one", "contains_key", "contains_one"))]
    pub fn host(&self) -> Result<HostMap<'_, K, V>> {
        let table = self.store.host()?.ok_or_else(|| not_on_host("map", self.device()))?;
        Ok(HostMap { map: self, table })
    }
}
impl<K: Key, V: Value> HostMap<'_, K, V> {
    /// Returns the value of a key.
    ///
    /// Reads one cache line of the table, or two for about 13 % of the keys at load 0.8, and one
    /// more per present key if keys or values have 64 bits; of keys or values of more than 8 bytes,
    /// also the row.
    #[inline]
    pub fn get(&self, key: K) -> Option<V> {
        let bits = StoredKey::<K, V>::of_packed(key.canonical().pack());
        self.table.find(bits).map(|bits| V::unpack(bits.into()))
    }
    /// Returns whether the map holds a key.
    #[inline]
    pub fn contains(&self, key: K) -> bool {
        self.table.find(StoredKey::<K, V>::of_packed(key.canonical().pack())).is_some()
    }
}
impl<K: Key, V: Value> fmt::Debug for HostMap<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMap of {:?}", self.map)
    }
}
