//! Maps from strings to values.
use super::column::{Slices, StringVec, Strings};
use super::set::StringSet;
use crate::device::memory::collect_later;
use crate::device::{Apart, Buffer, Device, Stream, View, ViewMut};
use crate::error::{Result, check_length, count32};
use crate::file::stored::Stored;
use crate::groups::keys_of;
use crate::map::{MapOptions, Operation, check_adds};
use crate::rows::update::{RowsUpdater, apply_to_pairs, outcomes_of};
use crate::rows::{Keys, RowsBuilder, check_rows, joined};
use crate::table::BuildReport;
use crate::table::update::{Operations, Outcome};
use crate::types::{
    Addable, BitsOf, DeviceValue, Value, bits_of_value, stage_values, values_on, write_bits,
};
use koel_kernels::keys128::find::NO_ROW;
use std::fmt;

/// A map from strings to values, on a device.
///
/// ```
/// let device = koel::Device::cpu()?;
/// let map = koel::StringMap::build(&device, &["one", "two", "one"], &[1.0, 2.0, 1.5])?;
/// assert_eq!(map.get(&["one", "three"])?, [Some(1.5), None]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Method and cost: see [`strings`](crate::strings).
#[doc(alias("HashMap", "dictionary"))]
pub struct StringMap<V: Value = u32> {
    pub(super) keys: StringSet,
    /// May have capacity for more.
    pub(super) values: Stored<BitsOf<V>>,
}
impl<V: Value> StringMap<V> {
    /// Builds a map from pairs `keys[i]`, `values[i]` in host memory, with default options: load
    /// 0.8, the last of equal keys stays. Copies and waits.
    ///
    /// Errors: mismatched lengths, more pairs than 31-bit indices can address, more than 2^35 - 8
    /// bytes, out of memory.
    pub fn build<S: AsRef<[u8]> + Sync>(
        device: &Device,
        keys: &[S],
        values: &[V],
    ) -> Result<StringMap<V>> {
        StringMap::build_with(device, MapOptions::default(), keys, values)
    }
    /// Builds a map like [`build`](Self::build), with other options.
    ///
    /// ```
    /// use koel::{Device, Duplicates, MapOptions, StringMap};
    ///
    /// let options = MapOptions::default().with_duplicates(Duplicates::Reject);
    /// let map = StringMap::build_with(&Device::cpu()?, options, &["a", "b", "a"], &[1, 2, 3]);
    /// let error = map.unwrap_err().to_string();
    /// assert_eq!(error, "key \"a\" occurs more than once: at 0 and at 2");
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: also a load outside 0.3 to 0.95, and a rejected duplicate.
    pub fn build_with<S: AsRef<[u8]> + Sync>(
        device: &Device,
        options: MapOptions,
        keys: &[S],
        values: &[V],
    ) -> Result<StringMap<V>> {
        StringMap::build_of(device, options, Slices(keys), values)
    }
    /// Builds a map of keys, wherever they are in host memory.
    pub(crate) fn build_of(
        device: &Device,
        options: MapOptions,
        keys: impl Keys<Key = [u8]>,
        values: &[V],
    ) -> Result<StringMap<V>> {
        check_rows(keys.len(), options.load)?;
        check_length("values", values.len(), "keys", keys.len())?;
        let mut builder = RowsBuilder::new(device, options.of_rows()?)?;
        let (values, keys) = (stage_values(device, values)?, Strings::of_keys(device, keys)?);
        let (_apart, stream) = (Apart::begin(), device.stream()?);
        let rows = builder.build_of(&stream, keys, options.duplicates)?;
        let mut own = device.alloc(rows.len)?;
        builder.kept().select(&stream, values.view(), own.view_mut())?;
        Ok(StringMap { keys: StringSet { rows }, values: Stored::Own(own) })
    }
    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.keys.len()
    }
    /// Returns whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
    /// Returns the device that holds the map.
    pub fn device(&self) -> &Device {
        self.keys.device()
    }
    /// Returns the bytes of device memory that the map occupies.
    pub fn bytes(&self) -> usize {
        self.keys.bytes() + self.values.bytes()
    }
    /// Returns the report of the build.
    pub fn report(&self) -> Result<BuildReport> {
        Ok(BuildReport { bytes: self.bytes(), ..self.keys.report()? })
    }
    /// Returns the keys, as a set. The row of a key is the position of its value.
    pub fn set(&self) -> &StringSet {
        &self.keys
    }
    /// Downloads the keys, in row order: the input order of the remaining pairs. Keys that a batch
    /// inserts come after the others; where it erases some, the last ones take their places. Waits.
    ///
    /// Errors: out of memory.
    pub fn keys(&self) -> Result<StringVec> {
        self.keys.keys()
    }
    /// Downloads the values, in the order of [`keys`](Self::keys). Waits.
    ///
    /// Errors: out of memory.
    pub fn values(&self) -> Result<Vec<V>> {
        self.bits().download_map(|bits| V::unpack(bits.into()))
    }
    /// Copies the map to another device, or to the same one: the same pairs in the same order.
    /// Copies through host memory and waits.
    ///
    /// Errors: out of memory.
    pub fn to_device(&self, device: &Device) -> Result<StringMap<V>> {
        let keys = self.keys.to_device(device)?;
        Ok(StringMap { keys, values: Stored::Own(self.values.upload(self.len(), device)?) })
    }
    /// Looks up keys in host memory. Waits; on a GPU, copies both ways.
    ///
    /// Errors: more keys or bytes than a column holds, out of memory.
    pub fn get<S: AsRef<[u8]> + Sync>(&self, keys: &[S]) -> Result<Vec<Option<V>>> {
        self.get_of(Slices(keys))
    }
    /// Looks up keys, wherever they are in host memory.
    pub(crate) fn get_of(&self, keys: impl Keys<Key = [u8]>) -> Result<Vec<Option<V>>> {
        let unpacked = |bits: BitsOf<V>| V::unpack(bits.into());
        if let Some(values) = self.values_on_host() {
            return self.keys.answers(keys, |row| values.get(row as usize).copied().map(unpacked));
        }
        let (device, n) = (self.device(), keys.len());
        collect_later(device, n, |to| {
            let (keys, mut values) = (Strings::of_keys(device, keys)?, device.alloc(n)?);
            let (stream, missing) = (device.stream()?, BitsOf::<V>::default());
            let rows = self.bits_into(&stream, &keys, values.view_mut(), missing)?;
            let answer = |bits, row| (row != NO_ROW).then(|| unpacked(bits));
            values.view().copy_zip(rows.view(), to, answer)
        })
    }
    /// Looks up keys in host memory: the value of each, or `missing`. Waits; on a GPU, copies both
    /// ways.
    ///
    /// Errors: as [`get`](Self::get).
    pub fn get_or<S: AsRef<[u8]> + Sync>(&self, keys: &[S], missing: V) -> Result<Vec<V>> {
        let unpacked = |bits: BitsOf<V>| V::unpack(bits.into());
        if let Some(values) = self.values_on_host() {
            let answer = |row| values.get(row as usize).copied().map_or(missing, unpacked);
            return self.keys.answers(Slices(keys), answer);
        }
        let device = self.device();
        let keys = Strings::upload(device, keys)?;
        let (mut values, missing) = (device.alloc(keys.len())?, bits_of_value(missing));
        self.bits_into(&device.stream()?, &keys, values.view_mut(), missing)?;
        values.view().download_map(unpacked)
    }
    /// Writes the bits of the value of each string, or `missing`. Returns the rows.
    fn bits_into(
        &self,
        stream: &Stream,
        keys: &Strings,
        values: ViewMut<'_, BitsOf<V>>,
        missing: BitsOf<V>,
    ) -> Result<Buffer<u32>> {
        let _apart = Apart::begin();
        let mut rows = stream.device().alloc(keys.len())?;
        self.keys.rows_into(stream, keys, rows.view_mut())?;
        keys_of(stream, rows.view(), self.bits(), missing, values)?;
        Ok(rows)
    }
    pub(super) fn bits(&self) -> View<'_, BitsOf<V>> {
        self.values.view().first(self.len())
    }
    /// Returns the values if native code answers queries.
    fn values_on_host(&self) -> Option<&[BitsOf<V>]> {
        self.bits().host().filter(|_| !self.device().runs_kernels())
    }
    /// Returns whether the map holds each key in host memory: see [`StringSet::contains`].
    pub fn contains<S: AsRef<[u8]> + Sync>(&self, keys: &[S]) -> Result<Vec<bool>> {
        self.keys.contains(keys)
    }
}
impl<V: Value> StringMap<V> {
    /// Inserts the keys in host memory that are missing, with their values: `outcomes[i]` is
    /// [`Inserted`](Outcome::Inserted) or [`Kept`](Outcome::Kept). Of equal keys the first counts.
    /// Copies both ways and waits.
    ///
    /// ```
    /// use koel::Outcome::*;
    ///
    /// let mut map = koel::StringMap::build(&koel::Device::cpu()?, &["one", "two"], &[1, 2])?;
    /// assert_eq!(map.insert(&["two", "three"], &[20, 3])?, [Kept, Inserted]);
    /// assert_eq!(map.insert_or_add(&["two", "two"], &[5, 6])?, [Added, Added]);
    /// assert_eq!(map.erase(&["one", "four"])?, [Erased, Missing]);
    /// assert_eq!(map.keys()?, ["three", "two"]);
    /// assert_eq!(map.values()?, [3, 13]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: as [`apply`](Self::apply).
    pub fn insert<S: AsRef<[u8]> + Sync>(
        &mut self,
        keys: &[S],
        values: &[V],
    ) -> Result<Vec<Outcome>> {
        self.update_with(Operations::All(Operation::Insert), keys, values)
    }
    /// Sets the value of each key in host memory, and inserts missing keys: the outcome is
    /// [`Inserted`](Outcome::Inserted) or [`Assigned`](Outcome::Assigned). Of equal keys the last
    /// counts. Otherwise like [`insert`](Self::insert).
    pub fn insert_or_assign<S: AsRef<[u8]> + Sync>(
        &mut self,
        keys: &[S],
        values: &[V],
    ) -> Result<Vec<Outcome>> {
        self.update_with(Operations::All(Operation::InsertOrAssign), keys, values)
    }
    /// Adds each value to that of its key, modulo a power of two, and inserts missing keys: the
    /// outcome is [`Inserted`](Outcome::Inserted) or [`Added`](Outcome::Added). Otherwise like
    /// [`insert`](Self::insert).
    pub fn insert_or_add<S: AsRef<[u8]> + Sync>(
        &mut self,
        keys: &[S],
        values: &[V],
    ) -> Result<Vec<Outcome>>
    where
        V: Addable,
    {
        self.update_with(Operations::All(Operation::InsertOrAdd), keys, values)
    }
    /// Removes each key in host memory: the outcome is [`Erased`](Outcome::Erased) or
    /// [`Missing`](Outcome::Missing). Copies the column of keys that stay. Otherwise like
    /// [`insert`](Self::insert).
    pub fn erase<S: AsRef<[u8]> + Sync>(&mut self, keys: &[S]) -> Result<Vec<Outcome>> {
        self.update_with(Operations::All(Operation::Erase), keys, &[])
    }
    pub(crate) fn update_with<S: AsRef<[u8]> + Sync>(
        &mut self,
        operations: Operations<'_>,
        keys: &[S],
        values: &[V],
    ) -> Result<Vec<Outcome>> {
        let device = self.device().clone();
        count32("keys", keys.len())?; // before anything is allocated
        let (values, keys) = (stage_values(&device, values)?, Strings::upload(&device, keys)?);
        outcomes_of(&device, keys.len(), |stream, outcomes| {
            let table = (&mut self.keys.rows, &mut self.values);
            let (mut updater, batch) = (RowsUpdater::new(&device)?, (&keys, values.view()));
            apply_to_pairs(&mut updater, table, stream, operations, batch, outcomes)
        })
    }
    /// Returns the index and the value of each key in host memory that the map holds, in order.
    /// Waits; on a GPU, copies both ways. Errors: as [`get`](Self::get).
    pub fn join<S: AsRef<[u8]> + Sync>(&self, keys: &[S]) -> Result<Vec<(u32, V)>> {
        joined(self.get(keys)?)
    }
}
impl<V: DeviceValue> StringMap<V> {
    /// Looks up every string: sets `values[i]` to the value of string `i`, or `missing`.
    ///
    /// Takes two launches, and allocates 4 bytes per key for rows. Does not wait. Errors:
    /// mismatched lengths, buffers of another device, out of memory.
    pub fn get_or_into(
        &self,
        stream: &Stream,
        keys: &Strings,
        values: ViewMut<'_, V>,
        missing: V,
    ) -> Result<()> {
        check_length("values", values.len(), "keys", keys.len())?;
        write_bits(stream, values, |values| {
            self.bits_into(stream, keys, values, bits_of_value(missing)).map(drop)
        })
    }
    /// Applies a batch of operations on a column on the device, as a
    /// [`MapUpdater`](crate::MapUpdater) does: the result equals that of applying them one after
    /// the other. Writes the [`Outcome`] of each. Erasing takes no values. Waits.
    ///
    /// Cost as of [`Map128::apply`](crate::Map128::apply); if keys are erased, the column of those
    /// that stay is copied. Errors: as there, and columns of more than 2^35 - 8 bytes.
    pub fn apply(
        &mut self,
        stream: &Stream,
        operations: Operations<'_>,
        keys: &Strings,
        values: View<'_, V>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        check_adds::<V>(operations)?;
        let table = (&mut self.keys.rows, &mut self.values);
        let mut updater = RowsUpdater::new(stream.device())?;
        let values = values_on(stream, values)?;
        let batch = (keys, values.view());
        apply_to_pairs(&mut updater, table, stream, operations, batch, outcomes)
    }
}
impl<V: Value> fmt::Debug for StringMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = std::any::type_name::<V>();
        write!(f, "StringMap<{value}>[{} pairs] on {}", self.len(), self.device().name())
    }
}
