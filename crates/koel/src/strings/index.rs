//! Dense numbers for strings, and back.
use super::column::{StringVec, Strings};
use super::set::StringSet;
use crate::device::{Buffer, Device, Stream, ViewMut};
use crate::error::Result;
use crate::fallible::collect;
use crate::groups::{IndexBuilder, IndexOptions, NO_ID};
use crate::rows::RowsReport;
use crate::set::SetOptions;
use koel_kernels::keys128::find::NO_ROW;
use std::fmt;

const _: () = assert!(NO_ID == NO_ROW);

/// A two-way index of strings: numbers the distinct strings of a column `0..len`, in order of first
/// occurrence.
///
/// Strings are neither ordered nor sorted: ids are the same in every run and on every device, but
/// they are not ranks, unlike those of an [`Index`](crate::Index).
///
/// ```
/// let device = koel::Device::cpu()?;
/// let (index, ids) = koel::StringIndex::encode(&device, &["b", "a", "b"])?;
/// assert_eq!(ids, [0, 1, 0]);
/// assert_eq!(index.ids(&["a", "c"])?, [Some(1), None]);
/// assert_eq!(index.keys_of(&[1, 2])?, [Some(b"a".to_vec()), None]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Method and cost: see [`strings`](crate::strings).
#[doc(alias("factorize", "dictionary encoding", "categorical"))]
pub struct StringIndex {
    keys: StringSet,
}
impl StringIndex {
    /// Builds an index from strings in host memory, with default options. Copies and waits.
    ///
    /// Errors: as [`StringSet::build`].
    pub fn build<S: AsRef<[u8]> + Sync>(device: &Device, keys: &[S]) -> Result<StringIndex> {
        Ok(StringIndex { keys: StringSet::build(device, keys)? })
    }
    /// Builds an index from a column of strings in host memory, and returns the id of each of them.
    /// Copies and waits.
    ///
    /// Errors: as [`build`](Self::build).
    pub fn encode<S: AsRef<[u8]> + Sync>(
        device: &Device,
        keys: &[S],
    ) -> Result<(StringIndex, Vec<u32>)> {
        let (column, stream) = (Strings::upload(device, keys)?, device.stream()?);
        let (index, ids) = StringIndex::encode_from(&stream, IndexOptions::default(), &column)?;
        Ok((index, ids.download()?))
    }
    /// Does the same for a column on a device. Waits.
    ///
    /// Errors: a load outside 0.3 to 0.95, a stream of another device, more keys than 31-bit indices
    /// can address, out of memory.
    pub fn encode_from(
        stream: &Stream,
        options: IndexOptions,
        keys: &Strings,
    ) -> Result<(StringIndex, Buffer<u32>)> {
        let IndexOptions { load, seed } = options;
        let options = SetOptions::default().with_load(load).with_seed(seed);
        let index = StringIndex { keys: StringSet::build_from(stream, options, keys)? };
        let mut ids = stream.device().alloc(keys.len())?;
        index.ids_into(stream, keys, ids.view_mut())?;
        Ok((index, ids))
    }
    /// Returns the number of distinct strings.
    pub fn len(&self) -> usize {
        self.keys.len()
    }
    /// Returns whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
    /// Returns the device that holds the index.
    pub fn device(&self) -> &Device {
        self.keys.device()
    }
    /// Returns the bytes of device memory that the index occupies.
    pub fn bytes(&self) -> usize {
        self.keys.bytes()
    }
    /// Returns the report of the build.
    pub fn report(&self) -> Result<RowsReport> {
        self.keys.report()
    }
    /// Returns the strings in id order: string `i` has id `i`.
    pub fn column(&self) -> &Strings {
        self.keys.column()
    }
    /// Downloads the strings in id order. Waits.
    ///
    /// Errors: out of memory.
    pub fn keys(&self) -> Result<StringVec> {
        self.keys.keys()
    }
    /// Copies the index to another device, or to the same one: the same ids. Copies through host
    /// memory and waits.
    ///
    /// Errors: out of memory.
    pub fn to_device(&self, device: &Device) -> Result<StringIndex> {
        Ok(StringIndex { keys: self.keys.to_device(device)? })
    }
    /// Returns the ids of strings in host memory. Waits; on a GPU, copies both ways.
    ///
    /// Errors: as [`StringSet::contains`].
    pub fn ids<S: AsRef<[u8]> + Sync>(&self, keys: &[S]) -> Result<Vec<Option<u32>>> {
        self.keys.answers(keys, |row| (row != NO_ID).then_some(row))
    }
    /// Writes the id of string `i`, or [`NO_ID`], to `ids[i]`: see [`StringSet::rows_into`].
    pub fn ids_into(&self, stream: &Stream, keys: &Strings, ids: ViewMut<'_, u32>) -> Result<()> {
        self.keys.rows_into(stream, keys, ids)
    }
    /// Returns the strings of ids in host memory. Waits; on a GPU, copies both ways.
    ///
    /// Errors: more ids than 32-bit indices can address, out of memory.
    pub fn keys_of(&self, ids: &[u32]) -> Result<Vec<Option<Vec<u8>>>> {
        let (device, n) = (self.device(), self.len());
        let (staged, stream) = (device.stage32("ids", ids)?, device.stream()?);
        let strings = self.column().select(&stream, staged.view())?.download()?;
        let own = |(&id, bytes): (&u32, &[u8])| {
            let copied = || collect(bytes.iter().copied());
            ((id as usize) < n).then(copied).transpose()
        };
        Ok(crate::fallible::try_collect(ids.iter().zip(strings.iter()).map(own))?)
    }
}
impl fmt::Debug for StringIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StringIndex[{} keys] on {}", self.len(), self.device().name())
    }
}

/// Returns the distinct strings of host memory in order of first occurrence, and how often each
/// occurs. Copies and waits.
///
/// ```
/// let device = koel::Device::cpu()?;
/// let (words, counts) = koel::string_counts(&device, &["b", "a", "b"])?;
/// assert_eq!((words.to_strs(), counts), (Ok(vec!["b", "a"]), vec![2, 1]));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Errors: as [`StringIndex::build`].
#[doc(alias("value_counts", "group by", "word count"))]
pub fn string_counts<S: AsRef<[u8]> + Sync>(
    device: &Device,
    keys: &[S],
) -> Result<(StringVec, Vec<u32>)> {
    let (column, stream, options) =
        (Strings::upload(device, keys)?, device.stream()?, IndexOptions::default());
    let (index, ids) = StringIndex::encode_from(&stream, options, &column)?;
    // Every id occurs, so the groups are the ids.
    let mut groups = IndexBuilder::<u32>::new(device, options)?;
    let (_, counts) = groups.group_counts(&stream, ids.view())?;
    Ok((index.keys()?, counts.download()?))
}
