//! Lookups in maps.
use super::join::Joiner;
use super::{Map, Pairs};
use crate::device::graph::{WAITS, outside_only};
use crate::device::memory::{collect, collect_later, value_if_found};
use crate::device::{Apart, Stream, View, ViewMut};
use crate::error::{Result, check_length, count32};
use crate::table::sending::RouteTuning;
use crate::table::{Family, Storage, Table, grid};
use crate::types::{
    BitsOf, DeviceKey, DeviceValue, Key, KeyBits, Value, ValueBits, key_bits, stage_keys,
};
use koel_kernels::map::find::{map_find, map_find_or};
use koel_kernels::map::join::keep;
use koel_kernels::table::layout::Number;

impl<K: Key, V: Value> Map<K, V> {
    /// Returns the value of each key in host memory, `None` if it is missing. Copies both ways and
    /// waits.
    ///
    /// Errors: more keys than 32-bit indices can address, out of memory.
    pub fn get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let (device, n) = (self.device(), keys.len());
        let keys = key_bits(device, keys)?;
        let of_bits = |bits: BitsOf<V>| V::unpack(bits.into());
        if let Storage::Cpu(table) = &self.table.storage {
            outside_only("Map::get", device, WAITS)?;
            let finder = table.finder(self.shape())?;
            return collect(n, |to| finder.options(device, &keys, to, of_bits));
        }
        collect_later(device, n, |to| {
            let (mut values, mut found) = (device.alloc(n)?, device.alloc(n)?);
            let (staged, stream) = (device.stage(&keys)?, device.stream()?);
            self.table.find_into(&stream, staged.view(), values.view_mut(), found.view_mut())?;
            let of_bits = |bits, found| value_if_found(bits, found).map(of_bits);
            values.view().copy_zip(found.view(), to, of_bits)
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
        values: ViewMut<'_, V>,
        found: ViewMut<'_, u8>,
    ) -> Result<()>
    where
        K: DeviceKey,
        V: DeviceValue,
    {
        self.table.find_into(stream, keys.key_bits()?, values.value_bits()?, found)
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
        values: ViewMut<'_, V>,
        missing: V,
    ) -> Result<()>
    where
        K: DeviceKey,
        V: DeviceValue,
    {
        let missing = BitsOf::<V>::narrowed(missing.pack());
        self.table.find_or_into(stream, keys.key_bits()?, values.value_bits()?, missing)
    }
    /// Returns whether the map holds each key in host memory. Copies both ways and waits.
    ///
    /// Errors: as [`get`](Self::get).
    pub fn contains(&self, keys: &[K]) -> Result<Vec<bool>> {
        self.table.contains(&key_bits(self.device(), keys)?)
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
    ) -> Result<()>
    where
        K: DeviceKey,
    {
        self.table.contains_into(stream, keys.key_bits()?, found)
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
    ) -> Result<()>
    where
        K: DeviceKey,
    {
        self.table.contains_bits_into(stream, keys.key_bits()?, found)
    }
    /// Returns how many of the keys in host memory the map holds. Copies and waits.
    ///
    /// Errors: as [`get`](Self::get).
    pub fn count(&self, keys: &[K]) -> Result<u64> {
        self.table.count(&key_bits(self.device(), keys)?)
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
    ) -> Result<()>
    where
        K: DeviceKey,
    {
        self.table.count_into(stream, keys.key_bits()?, count)
    }

    /// Returns the index and the value of each key in host memory that the map holds, in any order:
    /// a join. Copies both ways and waits.
    ///
    /// For many keys in a big map, this is faster than [`get`](Self::get) on a GPU. A
    /// [`MapJoiner`](super::MapJoiner) keeps the scratch memory. Errors: as [`get`](Self::get).
    pub fn join(&self, keys: &[K]) -> Result<Vec<(u32, V)>> {
        let device = self.device();
        let (staged, stream) = (stage_keys(device, keys)?, device.stream()?);
        let (mut numbers, mut values) = (device.alloc(keys.len())?, device.alloc(keys.len())?);
        let mut count = device.alloc(1)?;
        let (to_numbers, to_values) = (numbers.view_mut(), values.view_mut());
        Joiner::new(device, RouteTuning::TUNED)?.join_into(
            &stream,
            &self.table,
            staged.view(),
            to_numbers,
            to_values,
            count.view_mut(),
        )?;
        let rows = ..count.download()?[0] as usize;
        let (numbers, values) = (numbers.view().slice(rows)?, values.view().slice(rows)?);
        numbers.download_zip(values, |number, bits: BitsOf<V>| (number, V::unpack(bits.into())))
    }
    /// Returns the keys in host memory that the map holds, in any order: a semi-join. Copies both
    /// ways and waits. Errors: as [`get`](Self::get).
    pub fn semi_join(&self, keys: &[K]) -> Result<Vec<K>> {
        self.filter(keys, keep::FOUND)
    }
    /// Returns the keys in host memory that the map does not hold, in any order: an anti-join.
    /// Copies both ways and waits. Errors: as [`get`](Self::get).
    pub fn anti_join(&self, keys: &[K]) -> Result<Vec<K>> {
        self.filter(keys, keep::MISSING)
    }
    fn filter(&self, keys: &[K], keep: u32) -> Result<Vec<K>> {
        let device = self.device();
        let (staged, stream) = (stage_keys(device, keys)?, device.stream()?);
        let (mut kept, mut count) = (device.alloc(keys.len())?, device.alloc(1)?);
        Joiner::new(device, RouteTuning::TUNED)?.filter(
            &stream,
            &self.table,
            staged.view(),
            Some(kept.view_mut()),
            count.view_mut(),
            keep,
        )?;
        let kept = kept.view().slice(..count.download()?[0] as usize)?;
        kept.download_map(|bits: BitsOf<K>| K::unpack(bits.into()))
    }
}

impl<K: KeyBits, V: ValueBits> Table<Pairs<K, V>> {
    /// See [`Map::get_into`].
    fn find_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        mut values: ViewMut<'_, V>,
        mut found: ViewMut<'_, u8>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        self.check_stream(stream)?;
        check_length("values", values.len(), "keys", keys.len())?;
        check_length("found", found.len(), "keys", keys.len())?;
        let n = count32("keys", keys.len())?;
        let (queries, values_arg) = (keys.arg("keys", stream)?, values.arg("values", stream)?);
        let found_arg = found.arg("found", stream)?;
        match &self.storage {
            Storage::Kernels(_) => {
                let (grid, table) = (grid(n), Pairs::<K, V>::table_ref(self.handles(stream)?));
                // SAFETY: there are `n` queries and answers; the table is as built with this plan.
                unsafe { map_find::launch(stream, grid, table, n, queries, values_arg, found_arg) }
            }
            Storage::Cpu(table) => {
                let (values, found) = (values.elements("values")?, found.elements("found")?);
                let (keys, missing) = (keys.elements("keys")?, V::narrowed(0));
                table.finder(self.plan.shape)?.find(&self.device, keys, values, missing, found)
            }
        }
    }
    /// See [`Map::get_or_into`].
    fn find_or_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        mut values: ViewMut<'_, V>,
        missing: V,
    ) -> Result<()> {
        let _apart = Apart::begin();
        self.check_stream(stream)?;
        check_length("values", values.len(), "keys", keys.len())?;
        let n = count32("keys", keys.len())?;
        let (queries, values_arg) = (keys.arg("keys", stream)?, values.arg("values", stream)?);
        match &self.storage {
            Storage::Kernels(_) => {
                let (grid, table) = (grid(n), Pairs::<K, V>::table_ref(self.handles(stream)?));
                // SAFETY: as in `get_into`.
                unsafe { map_find_or::launch(stream, grid, table, n, missing, queries, values_arg) }
            }
            Storage::Cpu(table) => {
                let (keys, values) = (keys.elements("keys")?, values.elements("values")?);
                table.finder(self.plan.shape)?.values(&self.device, keys, values, missing)
            }
        }
    }
}
