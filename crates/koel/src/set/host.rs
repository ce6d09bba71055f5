//! Lookups of one key after the other: see [`HostSet`].
use super::{Set, SetStore, StoreOf};
use crate::device::not_on_host;
use crate::error::Result;
use crate::table::HostTable;
use crate::types::{Bits, BitsOf, Key};
use std::fmt;

/// A set in host memory, which looks up one key after the other on the calling thread: see
/// [`Set::host`].
pub struct HostSet<'s, K: Key = u32> {
    set: &'s Set<K>,
    table: <StoreOf<K> as SetStore>::Host<'s>,
}
impl<K: Key> Set<K> {
    /// Returns the set for lookups of one key after the other: as a hash set of the standard
    /// library is asked. Many keys at a time are looked up faster by [`contains`](Self::contains).
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
    pub fn host(&self) -> Result<HostSet<'_, K>> {
        let table = self.store.host()?.ok_or_else(|| not_on_host("set", self.device()))?;
        Ok(HostSet { set: self, table })
    }
}
impl<K: Key> HostSet<'_, K> {
    /// Returns whether the set holds a key. Reads one cache line of the set, or two for about 10 %
    /// of the keys at load 0.8; of keys of more than 8 bytes, also the row.
    #[inline]
    pub fn contains(&self, key: K) -> bool {
        self.table.find(BitsOf::<K>::of_packed(key.canonical().pack())).is_some()
    }
}
impl<K: Key> fmt::Debug for HostSet<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostSet of {:?}", self.set)
    }
}
