//! Lookups in maps.
use super::{Map, MapStore, Pairs, StoredKey};
use crate::device::{Apart, Stream, View, ViewMut};
use crate::error::{Result, check_length, count32};
use crate::table::{Contains, Family, Storage, Table, grid};
use crate::types::{
    AsKeys, DeviceKey, DeviceValue, Key, KeyBits, Value, ValueBits, bits_of_value, key_bits,
    keys_on, write_bits,
};
use koel_kernels::map::find::{map_find, map_find_or};

impl<K: Key, V: Value> Map<K, V> {
    /// Returns the value of each key in host memory, `None` if it is missing. Copies both ways and
    /// waits.
    ///
    /// Errors: more keys than 32-bit indices can address, out of memory.
    pub fn get(&self, keys: impl AsKeys<K>) -> Result<Vec<Option<V>>> {
        let keys = key_bits::<K, StoredKey<K, V>>(self.device(), keys.as_keys())?;
        self.store.get(&keys, |bits| V::unpack(bits.into()))
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
        let keys = keys_on(stream, keys)?;
        write_bits(stream, values, |values| self.store.get_into(stream, keys.view(), values, found))
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
        let missing = bits_of_value(missing);
        let keys = keys_on(stream, keys)?;
        write_bits(stream, values, |values| {
            self.store.get_or_into(stream, keys.view(), values, missing)
        })
    }
    /// Returns whether the map holds each key in host memory. Copies both ways and waits.
    ///
    /// Errors: as [`get`](Self::get).
    #[doc(alias("contains_key"))]
    pub fn contains(&self, keys: impl AsKeys<K>) -> Result<Vec<bool>> {
        self.store.contains(&key_bits::<K, _>(self.device(), keys.as_keys())?)
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
        self.store.contains_into(stream, keys_on(stream, keys)?.view(), found)
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
        self.store.contains_bits_into(stream, keys_on(stream, keys)?.view(), found)
    }
    /// Returns how many of the keys in host memory the map holds. Copies and waits.
    ///
    /// Errors: as [`get`](Self::get).
    pub fn count(&self, keys: &[K]) -> Result<u64> {
        self.store.count(&key_bits::<K, _>(self.device(), keys)?)
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
        self.store.count_into(stream, keys_on(stream, keys)?.view(), count)
    }

    /// Returns the index and the value of each key in host memory that the map holds, in any order:
    /// a join. Copies both ways and waits.
    ///
    /// For many keys in a big map, this is faster than [`get`](Self::get) on a GPU. A
    /// [`MapJoiner`](super::MapJoiner) keeps the scratch memory. Errors: as [`get`](Self::get).
    pub fn join(&self, keys: &[K]) -> Result<Vec<(u32, V)>> {
        let keys = key_bits::<K, StoredKey<K, V>>(self.device(), keys)?;
        self.store.join(&keys, |bits| V::unpack(bits.into()))
    }
    /// Returns the keys in host memory that the map holds, in any order: a semi-join. Copies both
    /// ways and waits. Errors: as [`get`](Self::get).
    pub fn semi_join(&self, keys: &[K]) -> Result<Vec<K>> {
        self.filter(keys, true)
    }
    /// Returns the keys in host memory that the map does not hold, in any order: an anti-join.
    /// Copies both ways and waits. Errors: as [`get`](Self::get).
    pub fn anti_join(&self, keys: &[K]) -> Result<Vec<K>> {
        self.filter(keys, false)
    }
    fn filter(&self, keys: &[K], held: bool) -> Result<Vec<K>> {
        let keys = key_bits::<K, StoredKey<K, V>>(self.device(), keys)?;
        self.store.filter(&keys, held, |bits| K::unpack(bits.into()))
    }
}

impl<K: KeyBits, V: ValueBits> Table<Pairs<K, V>> {
    /// See [`Map::get_into`].
    pub(super) fn find_into(
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
    pub(super) fn find_or_into(
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
