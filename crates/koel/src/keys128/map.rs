//! Maps from keys of 128 bits to values.
use super::set::{Set128, Set128Builder};
use crate::device::memory::{collect_later, value_if_found};
use crate::device::{Apart, Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::{Result, check_length};
use crate::file::stored::Stored;
use crate::map::{MapOptions, Operation, check_adds};
use crate::rows::update::{RowsUpdater, apply_to_pairs, outcomes_of};
use crate::rows::{CHUNK, joined};
use crate::table::BuildReport;
use crate::table::update::{Operations, Outcome};
use crate::types::{Addable, Bits};
use koel_kernels::keys128::find::{keys128_find, keys128_find_or};
use std::fmt;

/// A map from keys of 128 bits to values of 32, 64 or 128 bits, on a device.
///
/// ```
/// use koel::MapOptions;
/// use koel::keys128::Map128Builder;
/// use koel::{Device, Duplicates};
///
/// let device = Device::cpu()?;
/// let stream = device.stream()?;
/// let keys = device.upload(&[9u128 << 100, 3, 9 << 100])?;
/// let values = device.upload(&[1u64, 2, 3])?;
/// let options = MapOptions::default().with_duplicates(Duplicates::KeepFirst);
/// let map = Map128Builder::new(&device, options)?.build(&stream, keys.view(), values.view())?;
/// let mut found = device.alloc::<u64>(3)?;
/// map.get_or_into(&stream, keys.view(), found.view_mut(), 0)?;
/// assert_eq!(found.download()?, [1, 2, 1]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Method and cost: see [`keys128`](super).
pub struct Map128<V: Bits = u32> {
    pub(super) keys: Set128,
    /// May have capacity for more.
    pub(super) values: Stored<V>,
}
impl<V: Bits> Map128<V> {
    /// Builds a map from pairs `keys[i]`, `values[i]` in host memory, with default options: load
    /// 0.8, the last of equal keys stays. Copies and waits.
    ///
    /// Errors: mismatched lengths, more pairs than 31-bit indices can address, out of memory.
    pub fn build(device: &Device, keys: &[u128], values: &[V]) -> Result<Map128<V>> {
        let (keys, values) = (device.stage32("keys", keys)?, device.stage32("values", values)?);
        Map128Builder::new(device, MapOptions::default())?.build(
            &device.stream()?,
            keys.view(),
            values.view(),
        )
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
    /// Returns the report of the build. After a [`rebuild`](Map128Builder::rebuild) this waits for
    /// it and reads the table's header back.
    pub fn report(&self) -> Result<BuildReport> {
        Ok(BuildReport { bytes: self.bytes(), ..self.keys.report()? })
    }
    /// Returns the keys, in row order: the input order of the remaining pairs. Keys that a batch
    /// inserts come after the others; where it erases some, the last ones take their places.
    pub fn keys_view(&self) -> View<'_, u128> {
        self.keys.keys_view()
    }
    /// Downloads the keys, in row order. Waits.
    ///
    /// Errors: out of memory.
    pub fn keys(&self) -> Result<Vec<u128>> {
        self.keys_view().download()
    }
    /// Returns the values, in the order of [`keys`](Self::keys).
    pub fn values_view(&self) -> View<'_, V> {
        self.values.view().first(self.len())
    }
    /// Downloads the values, in the order of [`keys`](Self::keys). Waits.
    ///
    /// Errors: out of memory.
    pub fn values(&self) -> Result<Vec<V>> {
        self.values_view().download()
    }
    /// Returns the keys as a set, whose [rows](Set128::rows) are positions in
    /// [`values`](Self::values): for custom kernels.
    pub fn set(&self) -> &Set128 {
        &self.keys
    }
    /// Returns all pairs, in row order. Copies and waits.
    pub fn pairs(&self) -> Result<Vec<(u128, V)>> {
        self.keys_view().download_zip(self.values_view(), |key, value| (key, value))
    }
    /// Copies the map to another device, or to the same one: the same pairs in the same order.
    /// Copies through host memory and waits. An [opened](Self::open) map is verified first, then
    /// copied from where it is.
    ///
    /// Errors: out of memory; for an opened map, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<Map128<V>> {
        let _apart = Apart::begin();
        let keys = self.keys.to_device(device)?;
        Ok(Map128 { keys, values: Stored::Own(self.values.upload(self.len(), device)?) })
    }

    /// Looks up keys in host memory. Copies both ways and waits.
    pub fn get(&self, keys: &[u128]) -> Result<Vec<Option<V>>> {
        self.get_map(keys, |value| value)
    }
    /// As [`get`](Self::get), with each value converted.
    pub(super) fn get_map<T: Send>(
        &self,
        keys: &[u128],
        convert: impl Fn(V) -> T + Sync,
    ) -> Result<Vec<Option<T>>> {
        let (device, n) = (self.device(), keys.len());
        collect_later(device, n, |to| {
            let (mut values, mut found) = (device.alloc(n)?, device.alloc(n)?);
            let staged = device.stage(keys)?;
            self.get_into(&device.stream()?, staged.view(), values.view_mut(), found.view_mut())?;
            let answer = |value, found| value_if_found(value, found).map(&convert);
            values.view().copy_zip(found.view(), to, answer)
        })
    }
    /// Looks up every key: sets `found[i]` to 1 and `values[i]` to the value if the map holds
    /// `keys[i]`; sets both to 0 otherwise.
    ///
    /// Takes one launch, allocates nothing and does not wait. Reads keys and writes answers once,
    /// and reads 4.13 sectors of 32 bytes per present key, 1.11 per absent key (load 0.8). Errors:
    /// mismatched lengths, buffers of another device.
    pub fn get_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        mut values: ViewMut<'_, V>,
        mut found: ViewMut<'_, u8>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        check_length("values", values.len(), "keys", keys.len())?;
        check_length("found", found.len(), "keys", keys.len())?;
        let (to, to_found) = (values.arg("values", stream)?, found.arg("found", stream)?);
        let of_rows = self.values_view().arg("map", stream)?;
        self.keys.look_up(
            stream,
            keys,
            // SAFETY: `n` queries and answers; one value per row.
            |grid, n, rows, queries| unsafe {
                keys128_find::launch(stream, grid, rows, of_rows, n, queries, to, to_found)
            },
            |rows, queries| {
                let of_rows = self.values_view().host().unwrap_or(&[]);
                let values = values.host_mut().unwrap_or(&mut []).chunks_mut(CHUNK);
                let found = found.host_mut().unwrap_or(&mut []).chunks_mut(CHUNK);
                rows.look_up(queries, values.zip(found), |(values, found), rows| {
                    for ((value, found), &row) in values.iter_mut().zip(found).zip(rows) {
                        let of_row = of_rows.get(row as usize);
                        (*value, *found) =
                            (of_row.copied().unwrap_or_default(), of_row.is_some() as u8);
                    }
                })
            },
        )
    }
    /// Looks up every key: sets `values[i]` to the value of `keys[i]`, or `missing`.
    ///
    /// Like [`get_into`](Self::get_into), with one byte less written per key. Errors: mismatched
    /// lengths, buffers of another device.
    pub fn get_or_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        mut values: ViewMut<'_, V>,
        missing: V,
    ) -> Result<()> {
        let _apart = Apart::begin();
        check_length("values", values.len(), "keys", keys.len())?;
        let (to, of_rows) = (values.arg("values", stream)?, self.values_view().arg("map", stream)?);
        self.keys.look_up(
            stream,
            keys,
            // SAFETY: as in `get_into`.
            |grid, n, rows, queries| unsafe {
                keys128_find_or::launch(stream, grid, rows, of_rows, n, missing, queries, to)
            },
            |rows, queries| {
                let of_rows = self.values_view().host().unwrap_or(&[]);
                let values = values.host_mut().unwrap_or(&mut []).chunks_mut(CHUNK);
                rows.look_up(queries, values, |values, rows| {
                    for (value, &row) in values.iter_mut().zip(rows) {
                        *value = of_rows.get(row as usize).copied().unwrap_or(missing);
                    }
                })
            },
        )
    }
    /// Returns whether the map holds each key in host memory: see [`Set128::contains`].
    pub fn contains(&self, keys: &[u128]) -> Result<Vec<bool>> {
        self.keys.contains(keys)
    }
    /// Writes whether the map holds each key: see [`Set128::contains_into`].
    pub fn contains_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        found: ViewMut<'_, u8>,
    ) -> Result<()> {
        self.keys.contains_into(stream, keys, found)
    }
    /// Writes whether the map holds each key, as a bit mask: see [`Set128::contains_bits_into`].
    pub fn contains_bits_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        found: ViewMut<'_, u32>,
    ) -> Result<()> {
        self.keys.contains_bits_into(stream, keys, found)
    }
    /// Returns how many of the keys in host memory the map holds: see [`Set128::count`].
    pub fn count(&self, keys: &[u128]) -> Result<u64> {
        self.keys.count(keys)
    }
    /// Writes how many of the keys the map holds: see [`Set128::count_into`].
    pub fn count_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        self.keys.count_into(stream, keys, count)
    }
}
impl<V: Bits> Map128<V> {
    /// Inserts the keys in host memory that are missing, with their values: `outcomes[i]` is
    /// [`Inserted`](Outcome::Inserted) or [`Kept`](Outcome::Kept). Of equal keys the first counts.
    /// Copies both ways and waits.
    ///
    /// ```
    /// use koel::Outcome::*;
    ///
    /// let mut map = koel::Map128::build(&koel::Device::cpu()?, &[3, 5 << 99], &[30u64, 50])?;
    /// assert_eq!(map.insert(&[3, 7, 7], &[31, 70, 71])?, [Kept, Inserted, Kept]);
    /// assert_eq!(map.insert_or_assign(&[5 << 99], &[52])?, [Assigned]);
    /// assert_eq!(map.erase(&[3, 4])?, [Erased, Missing]);
    /// assert_eq!(map.pairs()?, [(7, 70), (5 << 99, 52)]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: as [`apply`](Self::apply).
    pub fn insert(&mut self, keys: &[u128], values: &[V]) -> Result<Vec<Outcome>> {
        self.update_with(Operations::All(Operation::Insert), keys, values)
    }
    /// Sets the value of each key in host memory, and inserts missing keys: the outcome is
    /// [`Inserted`](Outcome::Inserted) or [`Assigned`](Outcome::Assigned). Of equal keys the last
    /// counts. Otherwise like [`insert`](Self::insert).
    pub fn insert_or_assign(&mut self, keys: &[u128], values: &[V]) -> Result<Vec<Outcome>> {
        self.update_with(Operations::All(Operation::InsertOrAssign), keys, values)
    }
    /// Adds each value to that of its key, modulo 2^32 or 2^64, and inserts missing keys: the
    /// outcome is [`Inserted`](Outcome::Inserted) or [`Added`](Outcome::Added). Otherwise like
    /// [`insert`](Self::insert).
    pub fn insert_or_add(&mut self, keys: &[u128], values: &[V]) -> Result<Vec<Outcome>>
    where
        V: Addable,
    {
        self.update_with(Operations::All(Operation::InsertOrAdd), keys, values)
    }
    /// Removes each key in host memory: the outcome is [`Erased`](Outcome::Erased) or
    /// [`Missing`](Outcome::Missing). Otherwise like [`insert`](Self::insert).
    pub fn erase(&mut self, keys: &[u128]) -> Result<Vec<Outcome>> {
        self.update_with(Operations::All(Operation::Erase), keys, &[])
    }
    fn update_with(
        &mut self,
        operations: Operations<'_>,
        keys: &[u128],
        values: &[V],
    ) -> Result<Vec<Outcome>> {
        let device = self.device().clone();
        let (keys, values) = (device.stage32("keys", keys)?, device.stage32("values", values)?);
        outcomes_of(&device, keys.view().len(), |stream, outcomes| {
            self.apply(stream, operations, keys.view(), values.view(), outcomes)
        })
    }
    /// Applies a batch of operations, as a [`MapUpdater`](crate::MapUpdater) does: the result
    /// equals that of applying them one after the other, in array order. Writes the [`Outcome`] of
    /// each. Erasing takes no values. Waits.
    ///
    /// Numbers the distinct keys of the batch, which is a build of their rows, and looks each of
    /// them up; applies the operations to a small map of those that are present; then changes rows,
    /// values and the table once per key. Allocates about 170 bytes per operation, most of which a
    /// [`MapUpdater`](crate::MapUpdater) of a [`Map`](crate::Map) with such keys keeps; keys and
    /// values grow by half more than they need.
    ///
    /// Errors: mismatched lengths; buffers of another device; more keys than 31-bit indices can
    /// address; additions of values of 128 bits; a stream that is being captured; out of memory;
    /// for an [opened](Self::open) map, faults of its file. After an error the map is as before,
    /// unless the device itself failed, or memory for a restored table is lacking, too: then it is
    /// empty.
    pub fn apply(
        &mut self,
        stream: &Stream,
        operations: Operations<'_>,
        keys: View<'_, u128>,
        values: View<'_, V>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        let mut updater = RowsUpdater::new(self.device())?;
        self.apply_by(&mut updater, stream, operations, (keys, values), outcomes)
    }
    /// See [`apply`](Self::apply).
    pub(super) fn apply_by(
        &mut self,
        updater: &mut RowsUpdater<Stored<u128>>,
        stream: &Stream,
        operations: Operations<'_>,
        batch: (View<'_, u128>, View<'_, V>),
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        check_adds::<V>(operations)?;
        let table = (&mut self.keys.rows, &mut self.values);
        apply_to_pairs(updater, table, stream, operations, batch, outcomes)
    }
    /// Rebuilds the map at load 0.8 without room for more, unless that would take no less memory.
    /// Waits.
    ///
    /// Errors: out of memory. After an error the map is unchanged.
    pub fn shrink(&mut self) -> Result<()> {
        self.shrink_to(MapOptions::default().load)
    }
    pub(super) fn shrink_to(&mut self, load: f64) -> Result<()> {
        let (device, duplicates) = (self.device().clone(), Duplicates::Unchecked);
        let options = MapOptions::default().with_load(load).with_duplicates(duplicates);
        let shrunk = Map128Builder::new(&device, options)?.build(
            &device.stream()?,
            self.keys_view(),
            self.values_view(),
        )?;
        if shrunk.bytes() < self.bytes() {
            *self = shrunk;
        }
        Ok(())
    }
    /// Returns the index and the value of each key in host memory that the map holds, in order.
    /// Copies both ways and waits. Errors: as [`get`](Self::get).
    pub fn join(&self, keys: &[u128]) -> Result<Vec<(u32, V)>> {
        joined(self.get(keys)?)
    }
    /// Returns the keys in host memory that the map holds, in order: a semi-join. Copies both ways
    /// and waits. Errors: as [`get`](Self::get).
    pub fn semi_join(&self, keys: &[u128]) -> Result<Vec<u128>> {
        self.keys.filter(keys, true)
    }
    /// Returns the keys in host memory that the map does not hold, in order: an anti-join. Copies
    /// both ways and waits. Errors: as [`get`](Self::get).
    pub fn anti_join(&self, keys: &[u128]) -> Result<Vec<u128>> {
        self.keys.filter(keys, false)
    }
}
impl<V: Bits> fmt::Debug for Map128<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = std::any::type_name::<V>();
        write!(f, "Map128<{value}>[{} pairs] on {}", self.len(), self.device().name())
    }
}

/// Builds maps of 128-bit keys, and keeps scratch memory across builds.
pub struct Map128Builder {
    rows: Set128Builder,
    duplicates: Duplicates,
}
impl Map128Builder {
    /// Creates a builder. Errors: a load factor outside 0.3 to 0.95, a reproducible table.
    #[inline]
    pub fn new(device: &Device, options: MapOptions) -> Result<Map128Builder> {
        let rows = Set128Builder::new(device, options.of_rows()?)?;
        Ok(Map128Builder { rows, duplicates: options.duplicates })
    }
    /// Builds a map from pairs `keys[i]`, `values[i]`. Waits for the device.
    ///
    /// Allocates the map, and scratch memory if there are more pairs than ever before.
    /// [Cost](super). Errors: mismatched lengths, more pairs than 31-bit indices can address,
    /// buffers of another device, a rejected duplicate, out of memory.
    pub fn build<V: Bits>(
        &mut self,
        stream: &Stream,
        keys: View<'_, u128>,
        values: View<'_, V>,
    ) -> Result<Map128<V>> {
        let _apart = Apart::begin();
        check_length("values", values.len(), "keys", keys.len())?;
        values.arg("values", stream)?;
        let ((mut keys, values), seconds) = stream.time(|| {
            let keys = self.rows.build_by(stream, keys, self.duplicates)?;
            let mut own = stream.device().alloc(keys.len())?;
            self.rows.kept().select(stream, values, own.view_mut())?;
            Ok((keys, own))
        })?;
        keys.rows.built.device_seconds = Some(seconds);
        Ok(Map128 { keys, values: Stored::Own(values) })
    }
    /// Replaces the content of a map by other pairs. Like [`build`](Self::build), but allocates
    /// nothing if the map and this builder have held as many pairs before, and waits for the device
    /// only midway, for counts, not at the end.
    ///
    /// ```
    /// use koel::MapOptions;
    /// use koel::keys128::Map128Builder;
    ///
    /// let device = koel::Device::cpu()?;
    /// let stream = device.stream()?;
    /// let mut builder = Map128Builder::new(&device, MapOptions::default())?;
    /// let (keys, values) = (device.upload(&[9u128 << 100, 3])?, device.upload(&[1u32, 2])?);
    /// let mut map = builder.build(&stream, keys.view(), values.view())?;
    /// for _frame in 0..3 {
    ///     builder.rebuild(&mut map, &stream, keys.view(), values.view())?;
    ///     assert_eq!(map.get(&[3, 4])?, [Some(2), None]);
    /// }
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// From here on in stream order, the map answers for the new pairs. On a GPU, it keeps memory
    /// for a table of all keys of an input in which some are equal. [`Map128::report`] returns the
    /// report of the rebuild.
    ///
    /// Errors: as [`build`](Self::build); a map on another device; a stream that is being captured.
    /// After an error the map is unchanged, unless the device itself failed: then it is empty.
    pub fn rebuild<V: Bits>(
        &mut self,
        map: &mut Map128<V>,
        stream: &Stream,
        keys: View<'_, u128>,
        values: View<'_, V>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        check_length("values", values.len(), "keys", keys.len())?;
        values.arg("values", stream)?;
        let Map128 { keys: of_map, values: own } = map;
        let mut larger = None;
        let reserve = |kept| {
            if own.own().is_none_or(|own| own.len() < kept) {
                larger = Some(stream.device().alloc(kept)?);
            }
            Ok(())
        };
        self.rows.rebuild_by("map", of_map, stream, keys, self.duplicates, reserve)?;
        let kept = map.len();
        if let Some(larger) = larger {
            map.values = Stored::Own(larger);
        }
        let own =
            map.values.reserve(stream.device(), kept).and_then(|own| own.view_mut().slice(..kept));
        let done = own.and_then(|own| self.rows.kept().select(stream, values, own));
        if done.is_err() {
            map.keys.rows.forget(stream);
        }
        done
    }
}
