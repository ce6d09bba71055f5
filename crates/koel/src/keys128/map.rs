//! Values of keys.
use super::Report128;
use super::host::CHUNK;
use super::set::{Set128, Set128Builder};
use crate::device::{Buffer, Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::{Result, check_length};
use crate::map::Value;
use crate::set::SetOptions;
use rayon::prelude::*;
use std::fmt;

/// What a map of 128-bit keys is built with.
#[derive(Clone, Copy, Debug)]
pub struct Map128Options {
    /// Keys per slot of the table, 0.3 to 0.95. High loads save memory, low loads save time.
    pub load: f64,
    /// Equal keys. A broken promise of [`Unchecked`](Duplicates::Unchecked) is noticed here: one of the pairs stays.
    pub duplicates: Duplicates,
    /// The first fingerprint function follows from it. Answers do not depend on it.
    pub seed: u32,
}
impl Default for Map128Options {
    fn default() -> Self {
        Map128Options { load: 0.8, duplicates: Duplicates::default(), seed: 0 }
    }
}

/// A map from keys of 128 bits to values of 32 or 64, on a device.
///
/// ```
/// use koel::keys128::{Map128Builder, Map128Options};
/// use koel::{Device, Duplicates};
///
/// let device = Device::cpu()?;
/// let stream = device.stream()?;
/// let keys = device.upload(&[9u128 << 100, 3, 9 << 100])?;
/// let values = device.upload(&[1u64, 2, 3])?;
/// let options = Map128Options { duplicates: Duplicates::KeepFirst, ..Map128Options::default() };
/// let map = Map128Builder::new(&device, options)?.build(&stream, keys.view(), values.view())?;
/// let mut found = device.alloc::<u64>(3)?;
/// map.get_or(&stream, keys.view(), found.view_mut(), 0)?;
/// assert_eq!(found.download()?, [1, 2, 1]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// How it works, and what it costs: [`keys128`](super).
pub struct Map128<V: Value = u32> {
    keys: Set128,
    values: Buffer<V>,
    report: Report128,
}
impl<V: Value> Map128<V> {
    /// Of host pairs `keys[i]`, `values[i]`, with the options' defaults: load 0.8, the last of equal keys stays. Copies, and waits.
    ///
    /// Errors: lengths that differ, more pairs than 31-bit indices reach, out of memory.
    pub fn build(device: &Device, keys: &[u128], values: &[V]) -> Result<Map128<V>> {
        let (keys, values) = (device.stage(keys)?, device.stage(values)?);
        Map128Builder::new(device, Map128Options::default())?.build(&device.stream()?, keys.view(), values.view())
    }
    /// Pairs stored.
    pub fn len(&self) -> usize {
        self.keys.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
    /// The device it is on.
    pub fn device(&self) -> &Device {
        self.keys.device()
    }
    /// Bytes of device memory that it keeps.
    pub fn bytes(&self) -> usize {
        self.keys.bytes() + self.values.bytes()
    }
    /// How its build went.
    pub fn report(&self) -> Report128 {
        self.report
    }
    /// The keys, in the order in which the pairs that stayed were given.
    pub fn keys(&self) -> View<'_, u128> {
        self.keys.keys()
    }
    /// The values, in the order of [`keys`](Self::keys).
    pub fn values(&self) -> View<'_, V> {
        self.values.view()
    }
    /// The keys as a set, whose [rows](Set128::rows) are the places of [`values`](Self::values): for kernels of one's own.
    pub fn set(&self) -> &Set128 {
        &self.keys
    }
    /// All pairs, in the order in which those that stayed were given. Copies and waits.
    pub fn pairs(&self) -> Result<Vec<(u128, V)>> {
        Ok(self.keys.keys().download()?.into_iter().zip(self.values.download()?).collect())
    }
    /// A copy on another device, or on the same one: the same pairs in the same order. Copies through host memory and waits.
    ///
    /// Errors: out of memory.
    pub fn to_device(&self, device: &Device) -> Result<Map128<V>> {
        let (keys, values) = (self.keys.to_device(device)?, device.upload(&self.values.download()?)?);
        Ok(Map128 { keys, values, report: self.report })
    }

    /// Looks up host keys. Copies both ways and waits.
    pub fn get(&self, keys: &[u128]) -> Result<Vec<Option<V>>> {
        let (device, n) = (self.device(), keys.len());
        let (mut values, mut found) = (device.alloc(n)?, device.alloc(n)?);
        let staged = device.stage(keys)?;
        self.get_into(&device.stream()?, staged.view(), values.view_mut(), found.view_mut())?;
        let (values, found) = (values.download()?, found.download()?);
        Ok(values.into_iter().zip(found).map(|(v, f)| (f != 0).then_some(v)).collect())
    }
    /// Looks up every key: `found[i]` becomes 1 and `values[i]` the value if `keys[i]` is in the map, else both become 0.
    ///
    /// One launch; allocates nothing, waits for nothing. Keys are read and answers written once; besides, 4.13 sectors of 32 bytes for a key
    /// that is there, 1.11 for one that is not (load 0.8). Errors: lengths that differ, buffers of another device.
    pub fn get_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        mut values: ViewMut<'_, V>,
        mut found: ViewMut<'_, u8>,
    ) -> Result<()> {
        check_length("values", values.len(), "keys", keys.len())?;
        check_length("found", found.len(), "keys", keys.len())?;
        let (to, to_found) = (values.arg("values", stream)?, found.arg("found", stream)?);
        let of_rows = self.values.view().arg("map", stream)?;
        self.keys.look_up(
            stream,
            keys,
            // SAFETY: `n` queries and answers; a value for each row.
            |grid, n, rows, queries| unsafe { V::find(stream, grid, n, rows, of_rows, queries, to, to_found) },
            |rows, queries| {
                let of_rows = self.values.host().unwrap_or(&[]);
                let values = values.host_mut().unwrap_or(&mut []).par_chunks_mut(CHUNK);
                let found = found.host_mut().unwrap_or(&mut []).par_chunks_mut(CHUNK);
                rows.look_up(queries, values.zip(found), |(values, found), rows| {
                    for ((value, found), &row) in values.iter_mut().zip(found).zip(rows) {
                        let of_row = of_rows.get(row as usize);
                        (*value, *found) = (of_row.copied().unwrap_or_default(), of_row.is_some() as u8);
                    }
                })
            },
        )
    }
    /// Looks up every key: `values[i]` becomes the value of `keys[i]`, or `missing`.
    ///
    /// As [`get_into`](Self::get_into), with a byte a key less to write. Errors: lengths that differ, buffers of another device.
    pub fn get_or(&self, stream: &Stream, keys: View<'_, u128>, mut values: ViewMut<'_, V>, missing: V) -> Result<()> {
        check_length("values", values.len(), "keys", keys.len())?;
        let (to, of_rows) = (values.arg("values", stream)?, self.values.view().arg("map", stream)?);
        self.keys.look_up(
            stream,
            keys,
            // SAFETY: as in `get_into`.
            |grid, n, rows, queries| unsafe { V::find_or(stream, grid, n, missing, rows, of_rows, queries, to) },
            |rows, queries| {
                let of_rows = self.values.host().unwrap_or(&[]);
                let values = values.host_mut().unwrap_or(&mut []).par_chunks_mut(CHUNK);
                rows.look_up(queries, values, |values, rows| {
                    for (value, &row) in values.iter_mut().zip(rows) {
                        *value = of_rows.get(row as usize).copied().unwrap_or(missing);
                    }
                })
            },
        )
    }
    /// Whether the map holds host keys: see [`Set128::contains`].
    pub fn contains(&self, keys: &[u128]) -> Result<Vec<bool>> {
        self.keys.contains(keys)
    }
    /// Whether the map holds each key: see [`Set128::contains_into`].
    pub fn contains_into(&self, stream: &Stream, keys: View<'_, u128>, found: ViewMut<'_, u8>) -> Result<()> {
        self.keys.contains_into(stream, keys, found)
    }
    /// Whether the map holds each key, as a bit mask: see [`Set128::contains_bits`].
    pub fn contains_bits(&self, stream: &Stream, keys: View<'_, u128>, found: ViewMut<'_, u32>) -> Result<()> {
        self.keys.contains_bits(stream, keys, found)
    }
    /// How many of the host keys the map holds: see [`Set128::count`].
    pub fn count(&self, keys: &[u128]) -> Result<u64> {
        self.keys.count(keys)
    }
    /// How many of the keys the map holds: see [`Set128::count_into`].
    pub fn count_into(&self, stream: &Stream, keys: View<'_, u128>, count: ViewMut<'_, u64>) -> Result<()> {
        self.keys.count_into(stream, keys, count)
    }
}
impl<V: Value> fmt::Debug for Map128<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = std::any::type_name::<V>();
        write!(f, "Map128<{value}>[{} pairs] on {}", self.len(), self.device().name())
    }
}

/// Builds maps of 128-bit keys, and keeps the memory that building needs from one build to the next.
pub struct Map128Builder {
    rows: Set128Builder,
    duplicates: Duplicates,
}
impl Map128Builder {
    /// Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: Map128Options) -> Result<Map128Builder> {
        let Map128Options { load, duplicates, seed } = options;
        Ok(Map128Builder { rows: Set128Builder::new(device, SetOptions { load, seed })?, duplicates })
    }
    /// Builds a map of pairs `keys[i]`, `values[i]`. Waits for the device.
    ///
    /// Allocates the map, and scratch memory if there were never so many pairs before. [What it costs](super). Errors: lengths that differ, more
    /// pairs than 31-bit indices reach, buffers of another device, a rejected duplicate, out of memory.
    pub fn build<V: Value>(&mut self, stream: &Stream, keys: View<'_, u128>, values: View<'_, V>) -> Result<Map128<V>> {
        check_length("values", values.len(), "keys", keys.len())?;
        values.arg("values", stream)?;
        let ((keys, values), seconds) = stream.time(|| {
            let keys = self.rows.build_rows(stream, keys, self.duplicates)?;
            let mut own = stream.device().alloc(keys.len())?;
            self.rows.keep(stream, values, own.view_mut())?;
            Ok((keys, own))
        })?;
        let of_keys = keys.report;
        let report = Report128 { bytes: of_keys.bytes + values.bytes(), device_seconds: seconds, ..of_keys };
        Ok(Map128 { keys, values, report })
    }
}
