//! Membership lookups of maps and sets, however they are stored.
use crate::device::{Stream, View, ViewMut};
use crate::error::Result;
use crate::types::Bits;

/// Lookups that ask only for keys: what maps and sets have in common. Knows bits only.
pub trait Contains {
    type Key: Bits;
    fn contains(&self, keys: &[Self::Key]) -> Result<Vec<bool>>;
    fn contains_into(
        &self,
        stream: &Stream,
        keys: View<'_, Self::Key>,
        found: ViewMut<'_, u8>,
    ) -> Result<()>;
    fn contains_bits_into(
        &self,
        stream: &Stream,
        keys: View<'_, Self::Key>,
        found: ViewMut<'_, u32>,
    ) -> Result<()>;
    fn count(&self, keys: &[Self::Key]) -> Result<u64>;
    fn count_into(
        &self,
        stream: &Stream,
        keys: View<'_, Self::Key>,
        count: ViewMut<'_, u64>,
    ) -> Result<()>;
}
/// Implements [`Contains`] of a store by the methods of the same names of what holds its keys.
macro_rules! contains {
    (impl[$($generics:tt)*] $store:ty, $key:ty, |$this:ident| $keys:expr) => {
        impl<$($generics)*> $crate::table::Contains for $store {
            type Key = $key;
            #[inline]
            fn contains(&self, keys: &[$key]) -> $crate::Result<Vec<bool>> {
                let $this = self;
                $keys.contains(keys)
            }
            #[inline]
            fn contains_into(
                &self,
                stream: &$crate::Stream,
                keys: $crate::View<'_, $key>,
                found: $crate::ViewMut<'_, u8>,
            ) -> $crate::Result<()> {
                let $this = self;
                $keys.contains_into(stream, keys, found)
            }
            #[inline]
            fn contains_bits_into(
                &self,
                stream: &$crate::Stream,
                keys: $crate::View<'_, $key>,
                found: $crate::ViewMut<'_, u32>,
            ) -> $crate::Result<()> {
                let $this = self;
                $keys.contains_bits_into(stream, keys, found)
            }
            #[inline]
            fn count(&self, keys: &[$key]) -> $crate::Result<u64> {
                let $this = self;
                $keys.count(keys)
            }
            #[inline]
            fn count_into(
                &self,
                stream: &$crate::Stream,
                keys: $crate::View<'_, $key>,
                count: $crate::ViewMut<'_, u64>,
            ) -> $crate::Result<()> {
                let $this = self;
                $keys.count_into(stream, keys, count)
            }
        }
    };
}
pub(crate) use contains;
