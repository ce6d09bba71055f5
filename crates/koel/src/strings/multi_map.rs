//! All values of strings.
use super::column::Strings;
use super::index::StringIndex;
use crate::device::{Apart, Device, View};
use crate::error::{Result, check_length, count32};
use crate::groups::{Grouped, IdGrouper, IndexOptions, MultiMapOptions, Retrieved};
use crate::types::{Bits, BitsOf, Value, stage_values};
use std::fmt;

/// A hash table that keeps every value of every string, in input order. Values are of [any
/// type](crate::types) of up to 16 bytes.
///
/// ```
/// let device = koel::Device::cpu()?;
/// let (cities, people) = (["Bonn", "Rome", "Bonn"], [331u32, 2748, 332]);
/// let map = koel::StringMultiMap::build(&device, &cities, &people)?;
/// assert_eq!(map.counts(&["Bonn", "Oslo"])?, [2, 0]);
/// let found = map.retrieve(&["Oslo", "Bonn"])?;
/// assert_eq!((found.of(0), found.of(1)), (&[][..], &[331, 332][..]));
/// assert_eq!(map.index().keys()?, ["Bonn", "Rome"]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// A [`StringIndex`] gives ids to the strings, and the pairs are sorted by id: answers are the same
/// on every device and in every run.
#[doc(alias("group by"))]
pub struct StringMultiMap<V: Value = u32> {
    pub(super) index: StringIndex,
    pub(super) grouped: Grouped<BitsOf<V>>,
}
impl<V: Value> StringMultiMap<V> {
    /// Builds a multimap from pairs `keys[i]`, `values[i]` in host memory, with default options.
    /// Copies and waits.
    ///
    /// Encodes the strings as a [`StringIndex`] does, then sorts pairs of ids and values: 72 bytes
    /// of memory traffic per pair with values of 32 bits. Errors: mismatched lengths, more pairs
    /// than 31-bit indices can address, more than 2^35 - 8 bytes of strings, out of memory.
    pub fn build<S: AsRef<[u8]> + Sync>(
        device: &Device,
        keys: &[S],
        values: &[V],
    ) -> Result<StringMultiMap<V>> {
        StringMultiMap::build_with(device, MultiMapOptions::default(), keys, values)
    }
    /// Builds a multimap like [`build`](Self::build), with other options; values stay in input
    /// order, whichever is requested.
    ///
    /// Errors: also a load outside 0.3 to 0.95.
    pub fn build_with<S: AsRef<[u8]> + Sync>(
        device: &Device,
        MultiMapOptions { load, seed, .. }: MultiMapOptions,
        keys: &[S],
        values: &[V],
    ) -> Result<StringMultiMap<V>> {
        let options = IndexOptions::default().with_load(load).with_seed(seed);
        let _apart = Apart::begin();
        count32("keys", keys.len())?;
        check_length("values", values.len(), "keys", keys.len())?;
        let (mut index, ids) = StringIndex::encode_with(device, options, keys)?;
        // Of a multimap no pair is dropped.
        index.keys.rows.built.duplicates = 0;
        let (ids, values) = (device.stage(&ids)?, stage_values(device, values)?);
        let stream = device.stream()?;
        let ((), grouped) = Bits::grouped(&stream, values.view(), |values| {
            Ok(((), IdGrouper::new().grouped(&stream, ids.view(), values)?))
        })?;
        Ok(StringMultiMap { index, grouped })
    }
    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.grouped.values.len()
    }
    /// Returns whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the distinct strings, in order of first occurrence. The values of the string with id
    /// `i` are those from `starts_view()[i]` to `starts_view()[i + 1]`.
    pub fn index(&self) -> &StringIndex {
        &self.index
    }
    /// Returns the start of the values of each string, in id order, and the end of the last.
    pub fn starts_view(&self) -> View<'_, u32> {
        self.grouped.starts.view()
    }
    /// Downloads all values, in id order. Waits.
    ///
    /// Errors: out of memory.
    pub fn values(&self) -> Result<Vec<V>> {
        self.grouped.values.view().download_map(|bits| V::unpack(bits.into()))
    }
    /// Returns the device that holds the multimap.
    pub fn device(&self) -> &Device {
        self.index.device()
    }
    /// Returns the bytes of device memory that the multimap occupies.
    pub fn bytes(&self) -> usize {
        self.index.bytes() + self.grouped.bytes()
    }
    /// Copies the multimap to another device, or to the same one: the same answers. Copies through
    /// host memory and waits. An [opened](Self::open) multimap is verified first, then copied from
    /// where it is.
    ///
    /// Errors: out of memory; for an opened multimap, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<StringMultiMap<V>> {
        let _apart = Apart::begin();
        let (index, grouped) = (self.index.to_device(device)?, self.grouped.to_device(device)?);
        Ok(StringMultiMap { index, grouped })
    }
    /// Returns the number of values of each string in host memory. Copies both ways and waits.
    ///
    /// Errors: more keys than 32-bit indices can address, more than 2^35 - 8 bytes of strings, out
    /// of memory.
    pub fn counts<S: AsRef<[u8]> + Sync>(&self, keys: &[S]) -> Result<Vec<u32>> {
        count32("keys", keys.len())?;
        let device = self.device();
        let (keys, stream) = (Strings::upload(device, keys)?, device.stream()?);
        let mut counts = device.alloc(keys.len())?;
        self.index.ids_into(&stream, &keys, counts.view_mut())?;
        self.grouped.counts(&stream, counts.view_mut())?;
        counts.download()
    }
    /// Returns all values of strings in host memory, in query order. Copies both ways and waits.
    ///
    /// Errors: as [`counts`](Self::counts).
    pub fn retrieve<S: AsRef<[u8]> + Sync>(&self, keys: &[S]) -> Result<Retrieved<V>> {
        count32("keys", keys.len())?;
        let keys = Strings::upload(self.device(), keys)?;
        self.grouped.retrieve(self.device(), keys.len(), |stream, ids| {
            self.index.ids_into(stream, &keys, ids)
        })
    }
}
impl<V: Value> fmt::Debug for StringMultiMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, keys) = (std::any::type_name::<V>(), self.index.len());
        let (pairs, device) = (self.len(), self.device().name());
        write!(f, "StringMultiMap<{value}>[{pairs} pairs of {keys} keys] on {device}")
    }
}
