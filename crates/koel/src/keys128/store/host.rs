//! Lookups of one key after the other in tables of rows in host memory.
use crate::rows::HostRows;
use crate::table::HostTable;

/// Rows of keys.
pub struct HostKeys<'t>(pub(super) HostRows<'t, &'t [u128]>);
/// Rows of keys and values.
pub struct HostPairs<'t, V> {
    pub(super) keys: HostKeys<'t>,
    pub(super) values: &'t [V],
}
impl HostTable for HostKeys<'_> {
    type Key = u128;
    type Value = usize;
    /// Returns the row of a key.
    #[inline]
    fn find(&self, key: u128) -> Option<usize> {
        self.0.row(&[key][..])
    }
}
impl<V: Copy> HostTable for HostPairs<'_, V> {
    type Key = u128;
    type Value = V;
    #[inline]
    fn find(&self, key: u128) -> Option<V> {
        self.values.get(self.keys.find(key)?).copied()
    }
}
