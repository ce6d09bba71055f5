//! Tables of rows in host memory of which one key at a time is asked.
use crate::rows::HostRows;
use crate::table::HostTable;
use std::iter::{Copied, Map, Zip};
use std::slice::Iter;

/// Rows of keys.
pub struct HostKeys<'t>(pub(super) HostRows<'t, &'t [u128]>);
/// Rows of keys and values.
pub struct HostPairs<'t, V> {
    pub(super) keys: HostKeys<'t>,
    pub(super) values: &'t [V],
}
impl<'t> HostTable for HostKeys<'t> {
    type Key = u128;
    type Value = ();
    type Entries = Map<Copied<Iter<'t, u128>>, fn(u128) -> (u128, ())>;
    #[inline]
    fn find(&self, key: u128) -> Option<()> {
        self.0.row(&[key][..]).map(|_| ())
    }
    fn len(&self) -> usize {
        self.0.keys.len()
    }
    fn entries(&self) -> Self::Entries {
        self.0.keys.iter().copied().map(|key| (key, ()))
    }
}
impl<'t, V: Copy> HostTable for HostPairs<'t, V> {
    type Key = u128;
    type Value = V;
    type Entries = Zip<Copied<Iter<'t, u128>>, Copied<Iter<'t, V>>>;
    #[inline]
    fn find(&self, key: u128) -> Option<V> {
        self.values.get(self.keys.0.row(&[key][..])?).copied()
    }
    fn len(&self) -> usize {
        self.keys.len()
    }
    fn entries(&self) -> Self::Entries {
        self.keys.0.keys.iter().copied().zip(self.values.iter().copied())
    }
}
