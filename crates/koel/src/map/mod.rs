//! Hash maps, built in bulk and looked up in bulk, with keys and values of [any type](crate::types)
//! of up to 16 bytes: the flagship table.
//!
//! # How it works
//! Bucketed two-choice hashing. A lookup reads one 32-byte sector, and a second one in about one of
//! seven cases (at load 0.8). A build partitions the pairs and builds each partition on chip, so no
//! step scatters over memory. [`layout`] defines the byte layout, which is the same on every
//! device.
//!
//! That is how keys and values of up to 8 bytes are stored, for which the documentation of each
//! operation states its cost. If keys or values have more, up to 16, all pairs of a map are in
//! [rows](crate::keys128).
//!
//! # Guarantees
//! Every key and value can be stored, all ones included. [`Duplicates`] selects which of several
//! pairs with equal keys stays. A build fails only when out of memory or, on request, for equal
//! keys. Answers are the same on every device and in every run. The slot of a key and the order of
//! [`pairs`](Map::pairs) may differ; [`MapOptions::reproducible`] makes the bytes of the table the
//! same everywhere.
//!
//! ```
//! let device = koel::Device::cpu()?; // or Device::best(): a GPU if a driver finds one
//! let map = koel::Map::build(&device, &[3u32, 5, 7], &[30u32, 50, 70])?;
//! assert_eq!(map.get(&[5, 6])?, [Some(50), None]);
//! let mut rows = map.join(&[5, 6, 3])?; // in any order
//! rows.sort();
//! assert_eq!(rows, [(0, 50), (2, 30)]);
//! # Ok::<(), koel::Error>(())
//! ```
//!
//! # In a loop
//! A [`MapBuilder`] keeps its scratch memory, and [`rebuild`](MapBuilder::rebuild) replaces the
//! content of an existing map. On a GPU, a rebuild does not wait, because all decisions are made on
//! the device, and allocates nothing unless there are more pairs than before.
//!
//! ```
//! use koel::{Device, MapBuilder, MapOptions};
//!
//! let device = Device::cpu()?;
//! let stream = device.stream()?;
//! let keys = device.upload(&[10u64, 20, 30])?;
//! let values = device.upload(&[1u32, 2, 3])?;
//! let mut found = device.alloc::<u32>(3)?;
//! let mut builder = MapBuilder::new(&device, MapOptions::default())?;
//! let mut map = builder.build(&stream, keys.view(), values.view())?;
//! for _frame in 0..3 {
//!     builder.rebuild(&mut map, &stream, keys.view(), values.view())?;
//!     map.get_or_into(&stream, keys.view(), found.view_mut(), 0)?;
//! }
//! assert_eq!(found.download()?, [1, 2, 3]);
//! # Ok::<(), koel::Error>(())
//! ```
//!
//! # Changing a map
//! Batches insert, change and remove pairs: [`insert`](Map::insert),
//! [`insert_or_assign`](Map::insert_or_assign), [`insert_or_add`](Map::insert_or_add),
//! [`erase`](Map::erase), and [`update`](Map::update) for mixed operations. The result equals that
//! of applying the operations sequentially. A [`MapUpdater`] applies batches in device memory, and
//! keeps its scratch memory.
//!
//! ```
//! let mut map = koel::Map::build(&koel::Device::cpu()?, &[3u32, 5, 7], &[30u32, 50, 70])?;
//! map.insert_or_add(&[5, 5, 9], &[1, 2, 3])?;
//! map.erase(&[7])?;
//! assert_eq!(map.get(&[5, 7, 9])?, [Some(53), None, Some(3)]);
//! # Ok::<(), koel::Error>(())
//! ```
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
mod builder;
mod export;
mod family;
mod file;
mod host;
mod host_ref;
mod join;
pub(crate) mod kernels;
mod lookup;
mod store;
#[cfg(test)]
mod tests;
mod update;

use crate::cpu;
use crate::device::{Device, Stream, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::{Error, Result, check_length};
use crate::fallible::collect;
use crate::set::SetOptions;
pub use crate::table::update::{Operations, Outcome};
use crate::table::{BuildReport, Contains, Family, OnHost, Settings, Storage, Table, words_of};
use crate::types::{
    Bits, BitsOf, DeviceKey, DeviceValue, KeyBits, SlotKey, SlotValue, ValueBits, stage_keys,
    stage_values, write_bits,
};
pub use crate::types::{Key, Value};
pub use builder::MapBuilder;
pub(crate) use builder::SlotMapBuilder;
pub(crate) use family::Pairs;
pub use host::{Entry, HostIter, HostMap};
pub use host_ref::{HostMapRef, Iter};
pub use join::MapJoiner;
use koel_kernels::hash::mix::mix64;
pub use koel_kernels::map::find::MapRef;
pub use koel_kernels::table::layout;
use layout::{Layout, Number, Shape};
use std::borrow::Cow;
use std::fmt;
pub(crate) use store::{MapStore, RowsTo, SlotMap};
pub(crate) use update::check_adds;
pub use update::{MapUpdater, Operation};

/// Build options of a map, also of one whose keys are in [rows](crate::keys128) or are
/// [strings](crate::StringMap).
#[derive(Clone, Copy, Debug)]
pub struct MapOptions {
    /// Load factor in pairs per slot, 0.3 to 0.95. High loads save memory, low loads save time.
    pub load: f64,
    /// Treatment of pairs with equal keys. Where keys are in rows, a broken promise of
    /// [`Unchecked`](Duplicates::Unchecked) is detected: one of the pairs stays.
    pub duplicates: Duplicates,
    /// Hash seed. `None` selects a random seed, drawn once per process so that nobody can craft
    /// keys against it; a [reproducible](Self::reproducible) table then uses 0. Answers do not
    /// depend on the seed; the bytes of the table and the order of [`Map::pairs`] do. Set a seed if
    /// these must be the same in every run. The seed is stored in the header of the table, and in
    /// the files that it is saved to.
    ///
    /// If the seed is known, keys can be crafted to share their buckets. A build that would fill
    /// more than half of the stash, 1/64 to 1/32 of the pairs (128 pairs for small inputs, 32,768
    /// for large ones), restarts with another seed: see [`BuildReport::attempts`]. That seed is
    /// random too, unless the table is reproducible.
    pub seed: Option<u32>,
    /// Whether the bytes of the table are the same in every run and on every device and, if no key
    /// occurs twice, for every order of the pairs: see [`Map::fingerprint`]. The bytes then depend
    /// only on the number of pairs given, the pairs kept, the load and the seed.
    ///
    /// Not of maps whose keys are in rows: an error there.
    ///
    /// Such a build ends with a pass that places all pairs anew. On a GPU this takes two more
    /// launches, and memory traffic of twice the table: at load 0.8, 20 bytes per pair of 32-bit
    /// keys and values or 40 per wider pair, in addition to the 50 or 100 of a build. It needs no
    /// additional memory. On a CPU the pass works in the cache and takes 17 ns per pair and core,
    /// 25 for a wider pair (Zen 5): three to four times as long as the build. Lookups are as fast
    /// as in other tables.
    ///
    /// There is one limit, which only keys crafted against the seed, or equal keys with
    /// [`Unchecked`](Duplicates::Unchecked), can reach: the stash must have room for twice the
    /// pairs in it. (It has 256 slots; from 8192 pairs on, between 1/32 and 1/16 of their number,
    /// up to 65,536.) Beyond this limit, the build takes another seed, derived from the first. On a
    /// CPU, which one depends only on the inputs listed above, whatever the order of the pairs; on
    /// a GPU it may depend on the run. Answers are correct on both.
    pub reproducible: bool,
}
crate::options::setters! { MapOptions:
    load by with_load: f64;
    duplicates by with_duplicates: Duplicates;
    seed by with_seed: impl Into<Option<u32>>;
    reproducible by with_reproducible: bool;
}
impl Default for MapOptions {
    fn default() -> Self {
        MapOptions { load: 0.8, duplicates: Duplicates::default(), seed: None, reproducible: false }
    }
}
impl MapOptions {
    /// Returns the options of the set of keys of a map in rows. Errors: a reproducible table.
    pub(crate) fn of_rows(self) -> Result<SetOptions> {
        if self.reproducible {
            return Err(Error::Setting {
                field: "reproducible",
                found: "true".into(),
                expected: "false for strings, and for keys or values of more than 8 bytes".into(),
            });
        }
        Ok(SetOptions::default().with_load(self.load).with_seed(self.seed))
    }
}
impl From<MapOptions> for Settings {
    fn from(options: MapOptions) -> Settings {
        let MapOptions { load, duplicates, seed, reproducible } = options;
        Settings { load, duplicates, seed, reproducible }
    }
}

/// Layout of pairs of these bits.
pub(crate) type LayoutOf<K, V> = <K as KeyBits>::Layout<V>;
/// Layout of pairs of these types: see [`MapRef`].
pub type LayoutFor<K, V> = LayoutOf<BitsOf<K>, BitsOf<V>>;
/// Entries of a map of these types.
pub(crate) type PairsOf<K, V> = Pairs<BitsOf<K>, BitsOf<V>>;
/// How a map of these types is stored.
pub(crate) type StoreOf<K, V> = <BitsOf<V> as Bits>::MapFrom<BitsOf<K>>;
/// Bits that a map of these types stores for a key.
pub(crate) type StoredKey<K, V> = <StoreOf<K, V> as Contains>::Key;

/// A hash map on a device. For method, guarantees and examples see the [module](self); for the cost
/// of each operation, its documentation.
#[doc(alias("HashMap", "dictionary"))]
pub struct Map<K: Key = u32, V: Value = u32> {
    store: StoreOf<K, V>,
}

impl<K: Key, V: Value> Map<K, V> {
    /// Builds a map from pairs `keys[i]`, `values[i]` in host memory, with default options: load
    /// 0.8, a random seed, and the last of equal keys stays. Copies and waits.
    ///
    /// Errors: mismatched lengths, more pairs than 31-bit indices can address, out of memory.
    pub fn build(device: &Device, keys: &[K], values: &[V]) -> Result<Map<K, V>> {
        Map::build_with(device, MapOptions::default(), keys, values)
    }
    /// Builds a map like [`build`](Self::build), with other options.
    ///
    /// ```
    /// use koel::{Device, Duplicates, Map, MapOptions};
    ///
    /// let options = MapOptions::default().with_duplicates(Duplicates::KeepFirst);
    /// let map = Map::build_with(&Device::cpu()?, options, &[-1i8, -1], &['a', 'b'])?;
    /// assert_eq!(map.get(&[-1])?, [Some('a')]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: also a load outside 0.3 to 0.95, and a rejected duplicate, whose key is given as its
    /// bits.
    pub fn build_with(
        device: &Device,
        options: MapOptions,
        keys: &[K],
        values: &[V],
    ) -> Result<Map<K, V>> {
        StoreOf::<K, V>::check(keys.len(), options.load)?; // before anything is allocated
        check_length("values", values.len(), "keys", keys.len())?;
        let (keys, values) =
            (stage_keys::<K, StoredKey<K, V>>(device, keys)?, stage_values(device, values)?);
        let mut builder = StoreOf::<K, V>::builder(device, options)?;
        let (stream, keys, values) = (device.stream()?, keys.view(), values.view());
        Ok(Map { store: StoreOf::<K, V>::build(&mut builder, &stream, keys, values)? })
    }
    /// Returns the device that holds the map.
    pub fn device(&self) -> &Device {
        self.store.device()
    }
    /// Returns the number of pairs. After a [`rebuild`](MapBuilder::rebuild) or an update, this
    /// waits for it and reads the header back.
    ///
    /// Errors: as [`report`](Self::report).
    pub fn len(&self) -> Result<usize> {
        Ok(self.report()?.entries)
    }
    /// Returns whether the map is empty; see [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Returns the statistics of the build. After a [`rebuild`](MapBuilder::rebuild) or an update,
    /// this waits for it and reads the header back.
    ///
    /// Errors: [`BuildFailed`](crate::Error::BuildFailed) if the keys did not fit in any attempt.
    pub fn report(&self) -> Result<BuildReport> {
        self.store.report()
    }
    /// Returns the bytes of memory that the map occupies. Does not wait.
    pub fn bytes(&self) -> usize {
        self.store.bytes()
    }
    /// Copies the map to another device, or to the same one: the same bytes, the same answers.
    /// Copies through host memory and waits. An [opened](Self::open) map is verified first, then
    /// copied from where it is.
    ///
    /// Errors: a build that failed, out of memory; for an opened map, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<Map<K, V>> {
        Ok(Map { store: self.store.to_device(device)? })
    }
    /// Returns all pairs, in any order. Copies and waits.
    ///
    /// Errors: as [`len`](Self::len), out of memory.
    pub fn pairs(&self) -> Result<Vec<(K, V)>> {
        self.store.pairs(|key, value| (K::unpack(key.into()), V::unpack(value.into())))
    }
    /// Writes all pairs to `keys[i]`, `values[i]`, in any order, and their number to `count[0]`.
    /// Elements after the last pair stay unchanged.
    ///
    /// Takes a fill of one word and one launch, which reads the table once and writes the pairs
    /// once; for keys or values of more than 8 bytes, two copies. Determines the number of pairs as
    /// [`len`](Self::len) does. Errors: `keys` or `values` shorter than the number of pairs; a
    /// `count` that is not one element long; buffers of another device.
    pub fn export_into(
        &self,
        stream: &Stream,
        keys: ViewMut<'_, K>,
        values: ViewMut<'_, V>,
        count: ViewMut<'_, u64>,
    ) -> Result<()>
    where
        K: DeviceKey,
        V: DeviceValue,
    {
        let n = self.len()?;
        let (keys, values) = (keys.first(n), values.first(n));
        write_bits(stream, keys, |keys| {
            write_bits(stream, values, |values| self.store.export_into(stream, keys, values, count))
        })
    }
}
/// Of keys and values in slots: of up to 8 bytes.
impl<K: SlotKey, V: SlotValue> Map<K, V> {
    /// Returns a table as a map.
    pub(crate) fn of_table(table: Table<PairsOf<K, V>>) -> Map<K, V> {
        Map { store: BitsOf::<V>::map(SlotMap(table)) }
    }
    pub(crate) fn as_table(&self) -> &Table<PairsOf<K, V>> {
        &BitsOf::<V>::slots(&self.store).0
    }
    pub(crate) fn as_table_mut(&mut self) -> &mut Table<PairsOf<K, V>> {
        &mut BitsOf::<V>::slots_mut(&mut self.store).0
    }
    /// Empties the map, after a rebuild that failed.
    pub(crate) fn forget(&mut self, stream: &Stream) {
        self.as_table_mut().forget(stream);
    }
    /// Returns the number of partitions, and of buckets per partition.
    pub fn shape(&self) -> Shape {
        self.as_table().plan.shape
    }
    /// Returns what the CPU engine needs for lookups; `None` if kernels look keys up.
    pub(crate) fn finder(&self) -> Result<Option<cpu::PairFinder<'_, LayoutFor<K, V>>>> {
        self.as_table().finder()
    }
    /// Returns the table as a kernel argument, for lookups in a kernel launched on `stream`. The
    /// argument owns nothing: do not drop, rebuild or update the map before the kernel has run.
    /// Safe code cannot dereference its handles; launches are `unsafe` for this reason.
    ///
    /// ```
    /// use koel::map::{MapRef, layout::Narrow};
    ///
    /// let device = koel::Device::cpu()?;
    /// let map = koel::Map::build(&device, &[3u32, 5, 7], &[30u32, 50, 70])?;
    /// let table: MapRef<Narrow> = map.table(&device.stream()?)?;
    /// // Host code can look keys up in it too, if the table is in host memory.
    /// // SAFETY: the map exists and is not changed.
    /// let table = unsafe { table.on_host() };
    /// assert_eq!(table.get(5), Some(50));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: a stream of another device.
    pub fn table(&self, stream: &Stream) -> Result<MapRef<LayoutFor<K, V>>> {
        self.as_table().handles(stream).map(PairsOf::<K, V>::table_ref)
    }

    /// Returns a checksum of the table: of its shape and seed, all slots in order, the pairs of the
    /// stash in the order of their mixed keys, and the value of the ambiguous key. If these are
    /// equal, so is the checksum; if not, it almost certainly differs.
    ///
    /// Fingerprints of [reproducible](MapOptions::reproducible) tables tell whether the tables hold
    /// the same pairs, without copying them to one device. Other versions of this crate may lay out
    /// tables differently.
    ///
    /// Copies the table to the host and waits; the computation takes about 2 ns per slot on one
    /// core. Errors: a build that failed, out of memory.
    ///
    /// ```
    /// use koel::{Device, MapBuilder, MapOptions};
    ///
    /// let build = |keys: &[u32], values: &[u32]| -> koel::Result<_> {
    ///     let device = Device::cpu()?;
    ///     let options = MapOptions::default().with_reproducible(true);
    ///     let (keys, values) = (device.upload(keys)?, device.upload(values)?);
    ///     MapBuilder::new(&device, options)?.build(&device.stream()?, keys.view(), values.view())
    /// };
    /// let map = build(&[3, 5, 7], &[30, 50, 70])?;
    /// assert_eq!(map.fingerprint()?, build(&[7, 3, 5], &[70, 30, 50])?.fingerprint()?);
    /// assert_ne!(map.fingerprint()?, build(&[3, 5, 7], &[30, 50, 71])?.fingerprint()?);
    /// # Ok::<(), koel::Error>(())
    /// ```
    pub fn fingerprint(&self) -> Result<u64> {
        type L<K, V> = LayoutFor<K, V>;
        self.report()?;
        let table = self.as_table();
        let OnHost { stash, seed, held } = table.on_host()?;
        let words = words_of::<PairsOf<K, V>>(self.shape());
        let slots = match &table.storage {
            Storage::Kernels(table) => Cow::Owned(table.slots.view().slice(..words)?.download()?),
            Storage::Cpu(table) => Cow::Borrowed(table.words(self.shape())),
        };
        let stash = cpu::Stash::<L<K, V>>::from_slots(&stash, held)?;
        let parts = |pair| (L::<K, V>::key(pair), L::<K, V>::value(pair));
        let mut stashed = collect(stash.iter().map(parts))?;
        stashed.sort_unstable();
        let Shape { partitions, buckets } = self.shape();
        let lead =
            [partitions, buckets, seed, stashed.len() as u32, held.is_some() as u32].map(u64::from);
        let pairs = stashed.into_iter().flat_map(|(key, value)| [key.widened(), value.widened()]);
        let words = lead
            .into_iter()
            .chain(held.map(Number::widened))
            .chain(slots.iter().copied())
            .chain(pairs);
        Ok(words.fold(0, |sum, word| mix64((sum ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15))))
    }
}
impl<K: Key, V: Value> fmt::Debug for Map<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = (std::any::type_name::<K>(), std::any::type_name::<V>());
        write!(f, "Map<{key}, {value}>[{} bytes] on {}", self.bytes(), self.device().name())
    }
}
