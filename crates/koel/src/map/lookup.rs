//! Lookups in maps.
use super::{Key, Map, MapJoiner, Value};
use crate::device::graph::{WAITS, outside_only};
use crate::device::memory::{collect, collect_later, value_if_found};
use crate::device::{Apart, Stream, View, ViewMut};
use crate::error::{Result, check_length, count32};
use crate::table::{Storage, grid};
use koel_kernels::map::find::{map_find, map_find_or};

impl<K: Key, V: Value> Map<K, V> {
    /// Returns the value of each key in host memory, `None` if it is missing. Copies both ways and
    /// waits.
    ///
    /// Errors: more keys than 32-bit indices can address, out of memory.
    pub fn get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let (device, n) = (self.device(), keys.len());
        if let Storage::Cpu(table) = &self.table.storage {
            outside_only("Map::get", device, WAITS)?;
            count32("keys", n)?;
            let finder = table.finder(self.shape())?;
            return collect(n, |to| finder.options(device, keys, to));
        }
        collect_later(device, n, |to| {
            let (mut values, mut found) = (device.alloc(n)?, device.alloc(n)?);
            let staged = device.stage(keys)?;
            self.get_into(&device.stream()?, staged.view(), values.view_mut(), found.view_mut())?;
            values.view().copy_zip(found.view(), to, value_if_found)
        })
    }
    /// Looks up every key: sets `found[i]` to 1 and `values[i]` to the value if the map holds
    /// `keys[i]`; sets both to 0 otherwise.
    ///
    /// Takes one launch, allocates nothing and does not wait. Reads keys and writes answers once,
    /// and reads about 1.13 sectors of 32 bytes of the table per key at load 0.8, plus one per
    /// present key if keys or values have 64 bits. Errors: mismatched lengths, more keys than
    /// 32-bit indices can address, buffers of another device.
    pub fn get_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        mut values: ViewMut<'_, V>,
        mut found: ViewMut<'_, u8>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        self.table.check_stream(stream)?;
        check_length("values", values.len(), "keys", keys.len())?;
        check_length("found", found.len(), "keys", keys.len())?;
        let n = count32("keys", keys.len())?;
        let (queries, values_arg) = (keys.arg("keys", stream)?, values.arg("values", stream)?);
        let found_arg = found.arg("found", stream)?;
        match &self.table.storage {
            Storage::Kernels(_) => {
                let (grid, table) = (grid(n), self.table(stream)?);
                // SAFETY: there are `n` queries and answers; the table is as built with this plan.
                unsafe { map_find::launch(stream, grid, table, n, queries, values_arg, found_arg) }
            }
            Storage::Cpu(table) => {
                let (values, found) = (values.elements("values")?, found.elements("found")?);
                let (keys, missing) = (keys.elements("keys")?, V::narrowed(0));
                table.finder(self.shape())?.find(self.device(), keys, values, missing, found)
            }
        }
    }
    /// Looks up every key: sets `values[i]` to the value of `keys[i]`, or to `missing`.
    ///
    /// Takes one launch, allocates nothing and does not wait. Like [`get_into`](Self::get_into),
    /// with one byte less written per key. Errors: mismatched lengths, more keys than 32-bit
    /// indices can address, buffers of another device.
    pub fn get_or_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        mut values: ViewMut<'_, V>,
        missing: V,
    ) -> Result<()> {
        let _apart = Apart::begin();
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
    /// Returns whether the map holds each key in host memory. Copies both ways and waits.
    ///
    /// Errors: as [`get`](Self::get).
    pub fn contains(&self, keys: &[K]) -> Result<Vec<bool>> {
        self.table.contains(keys)
    }
    /// Writes whether the map holds each key: sets `found[i]` to 1 or 0.
    ///
    /// Takes one launch, allocates nothing and does not wait. Reads about 1.13 sectors of 32 bytes
    /// of the table per key at load 0.8, for all types. Errors: mismatched lengths, more keys than
    /// 32-bit indices can address, buffers of another device.
    pub fn contains_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        found: ViewMut<'_, u8>,
    ) -> Result<()> {
        self.table.contains_into(stream, keys, found)
    }
    /// Writes whether the map holds each key, as a bit mask: bit `i % 32` of `found[i / 32]` stands
    /// for `keys[i]`. The bits after the last key become 0.
    ///
    /// Like [`contains_into`](Self::contains_into), with an eighth of the bytes written. Errors:
    /// `found` does not have `keys / 32` words, rounded up; more keys than 32-bit indices can
    /// address; buffers of another device.
    pub fn contains_bits_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        found: ViewMut<'_, u32>,
    ) -> Result<()> {
        self.table.contains_bits_into(stream, keys, found)
    }
    /// Returns how many of the keys in host memory the map holds. Copies and waits.
    ///
    /// Errors: as [`get`](Self::get).
    pub fn count(&self, keys: &[K]) -> Result<u64> {
        self.table.count(keys)
    }
    /// Writes how many of the keys the map holds to `count[0]`, the only element.
    ///
    /// Takes a fill of one word and one launch, allocates nothing and does not wait. Otherwise like
    /// [`contains_into`](Self::contains_into).
    pub fn count_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        self.table.count_into(stream, keys, count)
    }

    /// Returns the index and the value of each key in host memory that the map holds, in any order:
    /// a join. Copies both ways and waits.
    ///
    /// For many keys in a big map, this is faster than [`get`](Self::get) on a GPU. A [`MapJoiner`]
    /// keeps the scratch memory. Errors: as [`get`](Self::get).
    pub fn join(&self, keys: &[K]) -> Result<Vec<(u32, V)>> {
        let device = self.device();
        let (staged, stream) = (device.stage32("keys", keys)?, device.stream()?);
        let (mut numbers, mut values) = (device.alloc(keys.len())?, device.alloc(keys.len())?);
        let mut count = device.alloc(1)?;
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
        let (numbers, values) = (numbers.view().slice(rows)?, values.view().slice(rows)?);
        numbers.download_zip(values, |number, value| (number, value))
    }
    /// Returns the keys in host memory that the map holds, in any order: a semi-join. Copies both
    /// ways and waits. Errors: as [`get`](Self::get).
    pub fn semi_join(&self, keys: &[K]) -> Result<Vec<K>> {
        let device = self.device();
        let (staged, stream) = (device.stage32("keys", keys)?, device.stream()?);
        let (mut kept, mut count) = (device.alloc(keys.len())?, device.alloc(1)?);
        MapJoiner::new(device)?.semi_join_into(
            &stream,
            self,
            staged.view(),
            kept.view_mut(),
            count.view_mut(),
        )?;
        kept.view().slice(..count.download()?[0] as usize)?.download()
    }
    /// Returns the keys in host memory that the map does not hold, in any order: an anti-join.
    /// Copies both ways and waits. Errors: as [`get`](Self::get).
    pub fn anti_join(&self, keys: &[K]) -> Result<Vec<K>> {
        let device = self.device();
        let (staged, stream) = (device.stage32("keys", keys)?, device.stream()?);
        let (mut kept, mut count) = (device.alloc(keys.len())?, device.alloc(1)?);
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
