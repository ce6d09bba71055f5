//! Looking keys up in maps.
use super::{Key, Map, MapJoiner, Value};
use crate::device::{Stream, View, ViewMut};
use crate::error::{Result, check_length, count32};
use crate::table::{Storage, grid};
use koel_kernels::map::find::{map_find, map_find_or};

impl<K: Key, V: Value> Map<K, V> {
    /// Looks up host keys. Copies both ways and waits.
    pub fn get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let (device, n) = (self.device(), keys.len());
        let (mut values, mut found) = (device.alloc(n)?, device.alloc(n)?);
        let staged = device.stage(keys)?;
        self.get_into(&device.stream()?, staged.view(), values.view_mut(), found.view_mut())?;
        let (values, found) = (values.download()?, found.download()?);
        Ok(values.into_iter().zip(found).map(|(v, f)| (f != 0).then_some(v)).collect())
    }
    /// Looks up every key: `found[i]` becomes 1 and `values[i]` the value if `keys[i]` is in the
    /// map, else both become 0.
    ///
    /// One launch; allocates nothing, waits for nothing. Keys are read and answers written once; of
    /// the table about 1.13 sectors of 32 bytes a key at load 0.8, one more if it is there and
    /// keys or values have 64 bits. Errors: lengths that differ, buffers of another device.
    pub fn get_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        mut values: ViewMut<'_, V>,
        mut found: ViewMut<'_, u8>,
    ) -> Result<()> {
        self.table.check_stream(stream)?;
        check_length("values", values.len(), "keys", keys.len())?;
        check_length("found", found.len(), "keys", keys.len())?;
        let n = count32("keys", keys.len())?;
        let (queries, values_arg) = (keys.arg("keys", stream)?, values.arg("values", stream)?);
        let found_arg = found.arg("found", stream)?;
        match &self.table.storage {
            Storage::Kernels(_) => {
                let (grid, table) = (grid(n), self.table(stream)?);
                // SAFETY: `n` queries and answers; the table as built with this plan.
                unsafe { map_find::launch(stream, grid, table, n, queries, values_arg, found_arg) }
            }
            Storage::Cpu(table) => {
                let (values, found) = (values.elements("values")?, found.elements("found")?);
                let (keys, missing) = (keys.elements("keys")?, V::narrowed(0));
                table.finder(self.shape())?.find(self.device(), keys, values, missing, found)
            }
        }
    }
    /// Looks up every key: `values[i]` becomes the value of `keys[i]`, or `missing`.
    ///
    /// One launch; allocates nothing, waits for nothing. A byte a key less to write than
    /// [`get_into`](Self::get_into). Errors: lengths that differ, buffers of another device.
    pub fn get_or_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        mut values: ViewMut<'_, V>,
        missing: V,
    ) -> Result<()> {
        self.table.check_stream(stream)?;
        check_length("values", values.len(), "keys", keys.len())?;
        let n = count32("keys", keys.len())?;
        let (queries, values_arg) = (keys.arg("keys", stream)?, values.arg("values", stream)?);
        match &self.table.storage {
            Storage::Kernels(_) => {
                let (grid, table) = (grid(n), self.table(stream)?);
                // SAFETY: as in `get_into`.
                unsafe { map_find_or::launch(stream, grid, table, n, missing, queries, values_arg) }
            }
            Storage::Cpu(table) => {
                let (keys, values) = (keys.elements("keys")?, values.elements("values")?);
                table.finder(self.shape())?.values(self.device(), keys, values, missing)
            }
        }
    }
    /// Whether the map holds host keys. Copies both ways and waits.
    pub fn contains(&self, keys: &[K]) -> Result<Vec<bool>> {
        self.table.contains(keys)
    }
    /// Whether the map holds each key: `found[i]` becomes 1 or 0.
    ///
    /// One launch; allocates nothing, waits for nothing. Of the table about 1.13 sectors of 32
    /// bytes a key at load 0.8, whatever the types. Errors: lengths that differ, buffers of
    /// another device.
    pub fn contains_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        found: ViewMut<'_, u8>,
    ) -> Result<()> {
        self.table.contains_into(stream, keys, found)
    }
    /// Whether the map holds each key, as a bit mask: bit `i % 32` of `found[i / 32]`. The bits
    /// behind the last key become 0.
    ///
    /// As [`contains_into`](Self::contains_into), with an eighth of the bytes written. Errors:
    /// fewer or more words than `keys / 32`, rounded up; buffers of another device.
    pub fn contains_bits_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        found: ViewMut<'_, u32>,
    ) -> Result<()> {
        self.table.contains_bits_into(stream, keys, found)
    }
    /// How many of the host keys the map holds. Copies and waits.
    pub fn count(&self, keys: &[K]) -> Result<u64> {
        self.table.count(keys)
    }
    /// How many of the keys the map holds: `count[0]`.
    ///
    /// A fill of one word and one launch; allocates nothing, waits for nothing. Otherwise as
    /// [`contains_into`](Self::contains_into).
    pub fn count_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        self.table.count_into(stream, keys, count)
    }

    /// Index and value of each of the host keys that the map holds, in any order: a join. Copies
    /// both ways and waits.
    ///
    /// For many keys in a big map faster than [`get`](Self::get) on a GPU; a [`MapJoiner`] keeps
    /// the memory that this needs.
    pub fn join(&self, keys: &[K]) -> Result<Vec<(u32, V)>> {
        let device = self.device();
        let (mut numbers, mut values) = (device.alloc(keys.len())?, device.alloc(keys.len())?);
        let mut count = device.alloc(1)?;
        let (stream, staged) = (device.stream()?, device.stage(keys)?);
        let (to_numbers, to_values) = (numbers.view_mut(), values.view_mut());
        MapJoiner::new(device)?.join_into(
            &stream,
            self,
            staged.view(),
            to_numbers,
            to_values,
            count.view_mut(),
        )?;
        let rows = ..count.download()?[0] as usize;
        let (numbers, values) =
            (numbers.view().slice(rows)?.download()?, values.view().slice(rows)?.download()?);
        Ok(numbers.into_iter().zip(values).collect())
    }
    /// Those of the host keys that the map holds, in any order: a semi-join. Copies both ways and
    /// waits.
    pub fn semi_join(&self, keys: &[K]) -> Result<Vec<K>> {
        let (device, mut kept, mut count) =
            (self.device(), self.device().alloc(keys.len())?, self.device().alloc(1)?);
        let (stream, staged) = (device.stream()?, device.stage(keys)?);
        MapJoiner::new(device)?.semi_join_into(
            &stream,
            self,
            staged.view(),
            kept.view_mut(),
            count.view_mut(),
        )?;
        kept.view().slice(..count.download()?[0] as usize)?.download()
    }
    /// Those of the host keys that the map does not hold, in any order: an anti-join. Copies both
    /// ways and waits.
    pub fn anti_join(&self, keys: &[K]) -> Result<Vec<K>> {
        let (device, mut kept, mut count) =
            (self.device(), self.device().alloc(keys.len())?, self.device().alloc(1)?);
        let (stream, staged) = (device.stream()?, device.stage(keys)?);
        MapJoiner::new(device)?.anti_join_into(
            &stream,
            self,
            staged.view(),
            kept.view_mut(),
            count.view_mut(),
        )?;
        kept.view().slice(..count.download()?[0] as usize)?.download()
    }
}
