//! Distinct strings, each in its own row: also the basis of maps and indexes.
use super::column::{Slices, StringVec, Strings};
use crate::device::memory::collect_later;
use crate::device::{Device, Stream, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::Result;
use crate::rows::update::{RowsUpdater, apply_to_keys, outcomes_of};
use crate::rows::{CHUNK, Keys, Rows, RowsBuilder, check_rows};
use crate::set::{SetOperation, SetOptions};
use crate::table::BuildReport;
use crate::table::update::{Operations, Outcome};
use koel_kernels::keys128::find::NO_ROW;
use std::fmt;
use std::mem::MaybeUninit;

/// A set of strings, on a device.
///
/// ```
/// let device = koel::Device::cpu()?;
/// let set = koel::StringSet::build(&device, &["one", "two", "one"])?;
/// assert_eq!(set.contains(&["two", "three"])?, [true, false]);
/// assert_eq!(set.keys()?, ["one", "two"]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Method and cost: see [`strings`](crate::strings).
#[doc(alias("HashSet", "unique", "dedup"))]
pub struct StringSet {
    pub(super) rows: Rows<Strings>,
}
impl StringSet {
    /// Builds a set from keys in host memory, with default options: load 0.8. Equal keys become
    /// one. Copies and waits.
    ///
    /// Errors: more keys than 31-bit indices can address, more than 2^35 - 8 bytes, out of memory.
    pub fn build<S: AsRef<[u8]> + Sync>(device: &Device, keys: &[S]) -> Result<StringSet> {
        StringSet::build_with(device, SetOptions::default(), keys)
    }
    /// Builds a set like [`build`](Self::build), with other options. Errors: also a load outside
    /// 0.3 to 0.95.
    pub fn build_with<S: AsRef<[u8]> + Sync>(
        device: &Device,
        options: SetOptions,
        keys: &[S],
    ) -> Result<StringSet> {
        check_rows(keys.len(), options.load)?;
        let mut builder = RowsBuilder::new(device, options)?;
        let keys = Strings::upload(device, keys)?;
        let (stream, policy) = (device.stream()?, Duplicates::KeepFirst);
        Ok(StringSet { rows: builder.build_of(&stream, keys, policy)? })
    }
    /// Builds a set from a column on a device. Waits.
    ///
    /// Errors: as [`build_with`](Self::build_with); a stream of another device.
    #[inline]
    pub fn build_from(stream: &Stream, options: SetOptions, keys: &Strings) -> Result<StringSet> {
        let mut builder = RowsBuilder::new(stream.device(), options)?;
        Ok(StringSet { rows: builder.build(stream, keys, Duplicates::KeepFirst)? })
    }
    /// Returns the number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows.len
    }
    /// Returns whether there are no keys.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows.len == 0
    }
    /// Returns the device that holds the set.
    #[inline]
    pub fn device(&self) -> &Device {
        self.rows.device()
    }
    /// Returns the bytes of device memory that the set occupies.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.rows.bytes()
    }
    /// Returns the report of the build.
    #[inline]
    pub fn report(&self) -> Result<BuildReport> {
        self.rows.report()
    }
    /// Returns all keys, in row order: that of first occurrence. Keys that a batch inserts come
    /// after the others; where it erases some, the last ones take their places.
    #[inline]
    pub fn column(&self) -> &Strings {
        &self.rows.keys
    }
    /// Downloads all keys, in row order. Waits.
    ///
    /// Errors: out of memory.
    #[inline]
    pub fn keys(&self) -> Result<StringVec> {
        self.column().download()
    }
    /// Copies the set to another device, or to the same one: the same rows, the same answers.
    /// Copies through host memory and waits.
    ///
    /// Errors: out of memory.
    #[inline]
    pub fn to_device(&self, device: &Device) -> Result<StringSet> {
        Ok(StringSet { rows: self.rows.to_device(device)? })
    }
    /// Returns whether the set holds each key in host memory. Waits; on a GPU, copies both ways.
    ///
    /// Errors: more keys or bytes than a column holds, out of memory.
    pub fn contains<S: AsRef<[u8]> + Sync>(&self, keys: &[S]) -> Result<Vec<bool>> {
        self.answers(Slices(keys), |row| row != NO_ROW)
    }
    /// Returns how many of the keys in host memory the set holds. Waits; on a GPU, copies both
    /// ways.
    ///
    /// Errors: as [`contains`](Self::contains).
    pub fn count<S: AsRef<[u8]> + Sync>(&self, keys: &[S]) -> Result<u64> {
        let rows = self.answers(Slices(keys), |row| row)?;
        Ok(rows.into_iter().filter(|&row| row != NO_ROW).count() as u64)
    }
    /// Returns the answer to each key in host memory, from its row or [`NO_ROW`].
    pub(super) fn answers<K: Keys<Key = [u8]>, A: Send>(
        &self,
        keys: K,
        answer: impl Fn(u32) -> A + Sync,
    ) -> Result<Vec<A>> {
        collect_later(self.device(), keys.len(), |to| {
            if let Some(rows) = self.rows.on_host()? {
                let write = |to: &mut [MaybeUninit<A>], rows: &[u32]| {
                    to.iter_mut().zip(rows).for_each(|(to, &row)| _ = to.write(answer(row)));
                };
                return rows.look_up(keys, to.chunks_mut(CHUNK), write);
            }
            let (device, mut rows) = (self.device(), self.device().alloc(keys.len())?);
            let keys = Strings::of_keys(device, keys)?;
            self.rows_into(&device.stream()?, &keys, rows.view_mut())?;
            rows.view().copy_map(to, answer)
        })
    }
    /// Writes the row of each string, its position among [`keys`](Self::keys), or 2^32 - 1, to
    /// `rows[i]`.
    ///
    /// Takes one launch, allocates nothing and does not wait. Errors: mismatched lengths, buffers
    /// of another device.
    #[inline]
    pub fn rows_into(&self, stream: &Stream, keys: &Strings, rows: ViewMut<'_, u32>) -> Result<()> {
        self.rows.rows_into(stream, keys, rows)
    }
    /// Inserts the keys in host memory that are missing: `outcomes[i]` is
    /// [`Inserted`](Outcome::Inserted) or [`Kept`](Outcome::Kept). Of equal new keys the first is
    /// inserted. Copies both ways and waits.
    ///
    /// ```
    /// use koel::Outcome::*;
    ///
    /// let mut set = koel::StringSet::build(&koel::Device::cpu()?, &["one", "two"])?;
    /// assert_eq!(set.insert(&["two", "three"])?, [Kept, Inserted]);
    /// assert_eq!(set.erase(&["one", "four"])?, [Erased, Missing]);
    /// assert_eq!(set.keys()?, ["three", "two"]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: as [`apply`](Self::apply).
    pub fn insert<S: AsRef<[u8]> + Sync>(&mut self, keys: &[S]) -> Result<Vec<Outcome>> {
        self.update_all(SetOperation::Insert, keys)
    }
    /// Removes each key in host memory: the outcome is [`Erased`](Outcome::Erased) or
    /// [`Missing`](Outcome::Missing). Copies the column of keys that stay. Otherwise like
    /// [`insert`](Self::insert).
    pub fn erase<S: AsRef<[u8]> + Sync>(&mut self, keys: &[S]) -> Result<Vec<Outcome>> {
        self.update_all(SetOperation::Erase, keys)
    }
    fn update_all<S: AsRef<[u8]> + Sync>(
        &mut self,
        operation: SetOperation,
        keys: &[S],
    ) -> Result<Vec<Outcome>> {
        let (device, operations) = (self.device().clone(), Operations::All(operation));
        let keys = Strings::upload(&device, keys)?;
        outcomes_of(&device, keys.len(), |stream, outcomes| {
            self.apply(stream, operations, &keys, outcomes)
        })
    }
    /// Applies a batch of operations on a column on the device: see
    /// [`StringMap::apply`](super::StringMap::apply).
    #[inline]
    pub fn apply(
        &mut self,
        stream: &Stream,
        operations: Operations<'_, SetOperation>,
        keys: &Strings,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        let mut updater = RowsUpdater::new(stream.device())?;
        apply_to_keys(&mut updater, &mut self.rows, stream, operations, keys, outcomes)
    }
}
impl fmt::Debug for StringSet {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StringSet[{} keys] on {}", self.len(), self.device().name())
    }
}
