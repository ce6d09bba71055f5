//! Dense numbers for strings, and back.
use super::column::{Slices, StringVec, Strings, StringsOnHost};
use super::set::StringSet;
use crate::device::{Buffer, Device, Stream, ViewMut};
use crate::error::Result;
use crate::fallible::repeat;
use crate::groups::{IndexOptions, NO_ID};
use crate::rows::{Hashed, Other, Way, check_rows, number};
use crate::table::BuildReport;
use koel_kernels::keys128::find::NO_ROW;
use std::fmt;

const _: () = assert!(NO_ID == NO_ROW);

/// A two-way index of strings: numbers the distinct strings of a column `0..len`, in order of first
/// occurrence.
///
/// Ids are the same in every run and on every device.
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
    pub(super) keys: StringSet,
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
        StringIndex::encode_with(device, IndexOptions::default(), keys)
    }
    /// Does the same with other options. Errors: also a load outside 0.3 to 0.95.
    pub(super) fn encode_with<S: AsRef<[u8]> + Sync>(
        device: &Device,
        options: IndexOptions,
        keys: &[S],
    ) -> Result<(StringIndex, Vec<u32>)> {
        check_rows(keys.len(), options.load)?;
        if !device.runs_kernels() {
            let mut ids = repeat(0, keys.len())?;
            if let Some((index, _)) = repeating(device, options, Slices(keys), Some(&mut ids))? {
                return Ok((index, ids));
            }
        }
        StringIndex::of_slices(device, options, keys)
    }
    /// Encodes by a column on the device.
    fn of_slices<S: AsRef<[u8]> + Sync>(
        device: &Device,
        options: IndexOptions,
        keys: &[S],
    ) -> Result<(StringIndex, Vec<u32>)> {
        let (column, mut ids) = (Strings::upload(device, keys)?, device.alloc(keys.len())?);
        let index = StringIndex::encode_into(&device.stream()?, options, &column, ids.view_mut())?;
        Ok((index, ids.download()?))
    }
    /// Builds the index of a column, and writes the id of each string.
    #[inline]
    fn encode_into(
        stream: &Stream,
        options: IndexOptions,
        keys: &Strings,
        ids: ViewMut<'_, u32>,
    ) -> Result<StringIndex> {
        let index = StringIndex { keys: StringSet::build_from(stream, options.of_set(), keys)? };
        index.ids_into(stream, keys, ids)?;
        Ok(index)
    }
    /// Does the same for a column on a device. Waits.
    ///
    /// Errors: a load outside 0.3 to 0.95, a stream of another device, more keys than 31-bit
    /// indices can address, out of memory.
    #[inline]
    pub fn encode_from(
        stream: &Stream,
        options: IndexOptions,
        keys: &Strings,
    ) -> Result<(StringIndex, Buffer<u32>)> {
        let device = stream.device();
        let mut ids = device.alloc(keys.len())?;
        if let (Some(on_host), Some(ids_on_host), false) =
            (StringsOnHost::of(keys), ids.host_mut(), device.runs_kernels())
            && let Some((index, _)) = repeating(device, options, on_host, Some(ids_on_host))?
        {
            return Ok((index, ids));
        }
        let index = StringIndex::encode_into(stream, options, keys, ids.view_mut())?;
        Ok((index, ids))
    }
    /// Returns the number of distinct strings.
    #[inline]
    pub fn len(&self) -> usize {
        self.keys.len()
    }
    /// Returns whether there are no strings.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
    /// Returns the device that holds the index.
    #[inline]
    pub fn device(&self) -> &Device {
        self.keys.device()
    }
    /// Returns the bytes of device memory that the index occupies.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.keys.bytes()
    }
    /// Returns the report of the build.
    #[inline]
    pub fn report(&self) -> Result<BuildReport> {
        self.keys.report()
    }
    /// Returns the strings in id order: string `i` has id `i`.
    #[inline]
    pub fn column(&self) -> &Strings {
        self.keys.column()
    }
    /// Downloads the strings in id order. Waits.
    ///
    /// Errors: out of memory.
    #[inline]
    pub fn keys(&self) -> Result<StringVec> {
        self.keys.keys()
    }
    /// Copies the index to another device, or to the same one: the same ids. Copies through host
    /// memory and waits.
    ///
    /// Errors: out of memory.
    #[inline]
    pub fn to_device(&self, device: &Device) -> Result<StringIndex> {
        Ok(StringIndex { keys: self.keys.to_device(device)? })
    }
    /// Returns the ids of strings in host memory. Waits; on a GPU, copies both ways.
    ///
    /// Errors: as [`StringSet::contains`].
    pub fn ids<S: AsRef<[u8]> + Sync>(&self, keys: &[S]) -> Result<Vec<Option<u32>>> {
        self.keys.answers(Slices(keys), |row| (row != NO_ID).then_some(row))
    }
    /// Writes the id of string `i`, or [`NO_ID`], to `ids[i]`: see [`StringSet::rows_into`].
    #[inline]
    pub fn ids_into(&self, stream: &Stream, keys: &Strings, ids: ViewMut<'_, u32>) -> Result<()> {
        self.keys.rows_into(stream, keys, ids)
    }
    /// Returns the strings of ids in host memory. Waits; on a GPU, copies both ways.
    ///
    /// Errors: more ids than 32-bit indices can address, out of memory.
    #[inline]
    pub fn keys_of(&self, ids: &[u32]) -> Result<Vec<Option<Vec<u8>>>> {
        self.column().options(ids)
    }
}
impl fmt::Debug for StringIndex {
    #[inline]
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
/// assert_eq!(words, ["b", "a"]);
/// assert_eq!(counts, [2, 1]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Errors: as [`StringIndex::build`].
#[doc(alias("value_counts", "group by", "word count"))]
pub fn string_counts<S: AsRef<[u8]> + Sync>(
    device: &Device,
    keys: &[S],
) -> Result<(StringVec, Vec<u32>)> {
    check_rows(keys.len(), IndexOptions::default().load)?;
    if !device.runs_kernels()
        && let Some((index, counts)) =
            repeating(device, IndexOptions::default(), Slices(keys), None)?
    {
        return Ok((index.keys()?, counts));
    }
    let (index, ids) = StringIndex::of_slices(device, IndexOptions::default(), keys)?;
    let mut counts = repeat(0, index.len())?;
    ids.iter().for_each(|&id| counts[id as usize] += 1);
    Ok((index.keys()?, counts))
}

/// Builds the index of a column in host memory in which strings repeat, by native code, and writes
/// the id of each string, if they are wanted. Returns how often each id occurs, too; `None` if
/// strings do not repeat.
fn repeating<K: Hashed<Key = [u8]>>(
    device: &Device,
    options: IndexOptions,
    keys: K,
    ids: Option<&mut [u32]>,
) -> Result<Option<(StringIndex, Vec<u32>)>> {
    let way = Way { counts: true, other: Other::Map };
    let Some(numbered) = number(device, &keys, way, ids)? else { return Ok(None) };
    let string = |id: usize| keys.key(numbered.firsts[id] as usize).unwrap_or(&[]);
    let column = Strings::of(device, numbered.firsts.len(), string)?;
    let stream = device.stream()?;
    let index = StringIndex { keys: StringSet::build_from(&stream, options.of_set(), &column)? };
    let counts = numbered.counts;
    Ok(Some((index, counts)))
}
