//! The flagship: a hash table that is built in bulk and looked up in bulk, with keys and values of
//! 32 or 64 bits.
//!
//! # How it works
//! A lookup reads one 32-byte sector, a second one in about one of seven cases (at load 0.8); a
//! build partitions the pairs and builds each partition on chip, so that no step scatters over
//! memory. [`layout`] has the bytes, which are the same on every device.
//!
//! # Guarantees
//! Every key and value can be stored, all ones included. Equal keys are resolved by [`Duplicates`].
//! A build fails only for lack of memory or, if asked to, for equal keys. Answers are the same on
//! every device and in every run. Which key lies in which slot is not, and nor is the order of
//! [`pairs`](Map::pairs), unless [`MapOptions::reproducible`] says so.
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
//! A [`MapBuilder`] keeps the memory that building needs, and [`rebuild`](MapBuilder::rebuild) puts
//! other pairs into a map that is there: nothing is allocated, and nothing waits. Everything is
//! decided on the device.
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
//! Pairs come, change and go in batches: [`insert`](Map::insert),
//! [`insert_or_assign`](Map::insert_or_assign), [`insert_or_add`](Map::insert_or_add),
//! [`erase`](Map::erase) and mixed ones by [`update`](Map::update). The result is that of doing one
//! operation after the other. A [`MapUpdater`] does that on the device and keeps its memory.
//!
//! ```
//! let mut map = koel::Map::build(&koel::Device::cpu()?, &[3u32, 5, 7], &[30u32, 50, 70])?;
//! map.insert_or_add(&[5, 5, 9], &[1, 2, 3])?;
//! map.erase(&[7])?;
//! assert_eq!(map.get(&[5, 7, 9])?, [Some(53), None, Some(3)]);
//! # Ok::<(), koel::Error>(())
//! ```
mod builder;
mod export;
mod family;
mod file;
mod join;
pub(crate) mod kernels;
mod lookup;
#[cfg(test)]
mod tests;
mod update;

use crate::cpu;
use crate::device::{Device, Stream, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::Result;
pub use crate::key::{Key, Value};
pub use crate::table::update::{Operations, Outcome};
use crate::table::{Family, OnHost, Report, Settings, Storage, Table, words_of};
pub use builder::MapBuilder;
pub(crate) use family::Pairs;
pub use join::MapJoiner;
use koel_kernels::hash::mix::mix64;
pub use koel_kernels::map::find::MapRef;
pub use koel_kernels::table::layout;
use layout::{Layout, Number, Shape};
use std::borrow::Cow;
use std::fmt;
pub use update::{MapUpdater, Operation};

/// What a map is built with.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MapOptions {
    /// Pairs per slot, 0.3 to 0.95. High loads save memory, low loads save time.
    pub load: f64,
    /// Equal keys.
    pub duplicates: Duplicates,
    /// Hash seed. `None`: one drawn at random, once in a process, so that nobody can choose keys
    /// against it; 0 if the table is to be [reproducible](Self::reproducible). Answers do not
    /// depend on it, but the table's bytes do, and the order of [`Map::pairs`]: ask for a seed
    /// where these are to be the same in every run. The seed is in the header of the table, and in
    /// a file that it is saved to.
    ///
    /// By a seed that is known, keys can be chosen that share their buckets. A build that would
    /// stash more than a 32nd of the pairs (128 of few, 32,768 of many) takes another seed and
    /// starts again: [`MapReport::attempts`] tells. That seed is random too, unless the table
    /// is to be reproducible.
    pub seed: Option<u32>,
    /// Whether the table's bytes are to be the same in every run and on every device, and for
    /// every order of the pairs if no key comes twice: see [`Map::fingerprint`]. What they
    /// follow from is the number of pairs given, the pairs kept, the load and the seed.
    ///
    /// A build then ends with a pass that places all pairs anew. On a GPU that is two more
    /// launches and, of memory traffic, two times the table: 20 bytes a pair of 32-bit keys
    /// and values at load 0.8, 40 a wider one, besides the 50 or 100 of a build, and no memory
    /// besides. On a CPU it is done in the cache: 17 ns a pair and core, 25 a wider one (Zen 5),
    /// which is three to four times the build. Lookups are as fast as ever.
    ///
    /// There is a limit that only keys chosen against the seed, or equal keys with
    /// [`Unchecked`](Duplicates::Unchecked), can reach: the stash must have room for twice the
    /// pairs in it (it has 256 slots, from 8192 pairs on between a 32nd and a 16th of their
    /// number, at most 65,536). Beyond it another seed is taken, which follows from the seed.
    /// On a CPU which one follows from the same things as above, whatever the order of the
    /// pairs; on a GPU it may depend on the run. Answers are right on both.
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
impl From<MapOptions> for Settings {
    fn from(options: MapOptions) -> Settings {
        let MapOptions { load, duplicates, seed, reproducible } = options;
        Settings { load, duplicates, seed, reproducible }
    }
}

/// How a build went.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct MapReport {
    /// Pairs stored.
    pub pairs: usize,
    /// Pairs dropped because another one had the same key.
    pub duplicates: usize,
    /// Pairs in the stash.
    pub stashed: usize,
    /// Slots of the table.
    pub slots: usize,
    /// Bytes that the table keeps.
    pub bytes: usize,
    /// Bytes that the build needed besides, kept by the [`MapBuilder`].
    pub scratch_bytes: usize,
    /// Times that building was begun, each with another seed: more than one if more pairs came to
    /// a partition, or to the stash, than there was room for; 0 if the map came from a file.
    pub attempts: u32,
    /// Pairs that were behind the bins of a partition pass.
    pub overflowed: usize,
    /// Keys whose last (or first) copy had to be looked for in the input.
    pub contested: usize,
    /// Seconds that the device worked on it; `None` after a [`rebuild`](MapBuilder::rebuild).
    pub device_seconds: Option<f64>,
}

impl From<Report> for MapReport {
    fn from(report: Report) -> MapReport {
        let Report { entries, duplicates, stashed, slots, bytes, scratch_bytes, .. } = report;
        let Report { attempts, overflowed, contested, device_seconds, .. } = report;
        MapReport {
            pairs: entries,
            duplicates,
            stashed,
            slots,
            bytes,
            scratch_bytes,
            attempts,
            overflowed,
            contested,
            device_seconds,
        }
    }
}

/// How pairs of these types are stored.
pub(crate) type LayoutOf<K, V> = <K as Key>::Layout<V>;

/// A finished map, on a device.
pub struct Map<K: Key = u32, V: Value = u32> {
    pub(crate) table: Table<Pairs<K, V>>,
}

impl<K: Key, V: Value> Map<K, V> {
    /// Builds a map on a device from host pairs `keys[i]`, `values[i]`, with the options' defaults:
    /// load 0.8, the last of equal keys stays.
    ///
    /// Errors: lengths that differ, more pairs than 31-bit indices reach, out of memory.
    pub fn build(device: &Device, keys: &[K], values: &[V]) -> Result<Map<K, V>> {
        let (keys, values) = (device.stage(keys)?, device.stage(values)?);
        MapBuilder::new(device, MapOptions::default())?.build(
            &device.stream()?,
            keys.view(),
            values.view(),
        )
    }
    /// The device it is on.
    pub fn device(&self) -> &Device {
        &self.table.device
    }
    /// Pairs stored. After a [`rebuild`](MapBuilder::rebuild) this waits for it and reads the
    /// header back.
    pub fn len(&self) -> Result<usize> {
        self.table.len()
    }
    /// Whether it holds nothing; see [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    /// How its build went. After a [`rebuild`](MapBuilder::rebuild) this waits for it and reads the
    /// header back.
    ///
    /// Errors: [`BuildFailed`](crate::Error::BuildFailed) if its keys found no room.
    pub fn report(&self) -> Result<MapReport> {
        self.table.report().map(MapReport::from)
    }
    /// Bytes that the table keeps. Waits for nothing.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }
    /// Makes it hold nothing, after a rebuild that failed.
    pub(crate) fn forget(&mut self, stream: &Stream) {
        self.table.forget(stream);
    }
    /// How its buckets are laid out.
    pub fn shape(&self) -> Shape {
        self.table.plan.shape
    }
    /// For lookups by native code, on a device that has it.
    pub(crate) fn finder(&self) -> Result<Option<cpu::Finder<'_, LayoutOf<K, V>>>> {
        match &self.table.storage {
            Storage::Kernels(_) => Ok(None),
            Storage::Cpu(table) => table.finder(self.shape()).map(Some),
        }
    }
    /// The table as kernels see it: one parameter of a kernel, which looks keys up in it and is
    /// launched on `stream`. It owns nothing: neither drop nor rebuild the map until the kernel has
    /// run. Only a launch, which is `unsafe` for this reason, can look through its handles.
    ///
    /// ```
    /// use koel::map::{MapRef, layout::Narrow};
    ///
    /// let device = koel::Device::cpu()?;
    /// let map = koel::Map::build(&device, &[3u32, 5, 7], &[30u32, 50, 70])?;
    /// let table: MapRef<Narrow> = map.table(&device.stream()?)?;
    /// // Host code can look keys up in it, too, where the table is in its memory.
    /// // SAFETY: the map is there and is not changed.
    /// let table = unsafe { table.on_host() };
    /// assert_eq!(table.get(5), Some(50));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: a stream of another device.
    pub fn table(&self, stream: &Stream) -> Result<MapRef<LayoutOf<K, V>>> {
        self.table.handles(stream).map(Pairs::<K, V>::table_ref)
    }

    /// A checksum of the table: of its shape and seed, all slots in their order, the pairs of the
    /// stash in the order of their mixed keys, and the value of the one key that is in neither.
    /// Where those are equal it is equal, else almost certainly not.
    ///
    /// Of tables that are [reproducible](MapOptions::reproducible) it tells whether they hold the
    /// same pairs, on whatever devices they are: no need to bring them together. Other versions
    /// of this crate may lay out tables in another way.
    ///
    /// Copies the table to the host and waits; there some 2 ns a slot, on one core. Errors: a build
    /// that failed, out of memory.
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
        type L<K, V> = LayoutOf<K, V>;
        self.report()?;
        let OnHost { stash, seed, held } = self.table.on_host()?;
        let words = words_of::<Pairs<K, V>>(self.shape());
        let slots = match &self.table.storage {
            Storage::Kernels(table) => Cow::Owned(table.slots.view().slice(..words)?.download()?),
            Storage::Cpu(table) => Cow::Borrowed(table.words(self.shape())),
        };
        let stash = cpu::Stash::<L<K, V>>::from_slots(&stash, held);
        let mut stashed = stash
            .iter()
            .map(|pair| (L::<K, V>::key(pair), L::<K, V>::value(pair)))
            .collect::<Vec<_>>();
        stashed.sort_unstable();
        let Shape { partitions, buckets } = self.shape();
        let lead =
            [partitions, buckets, seed, stashed.len() as u32, held.is_some() as u32].map(u64::from);
        let pairs = stashed.into_iter().flat_map(|(key, value)| [key.widened(), value.widened()]);
        let words =
            lead.into_iter().chain(held.map(V::widened)).chain(slots.iter().copied()).chain(pairs);
        Ok(words.fold(0, |sum, word| mix64((sum ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15))))
    }

    /// A copy on another device, or on the same one: the same bytes, the same answers. Copies
    /// through host memory and waits. What was [opened](Self::open) is checked and then copied
    /// from where it is.
    ///
    /// Errors: out of memory; of a map that was opened, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<Map<K, V>> {
        Ok(Map { table: self.table.to_device(device)? })
    }

    /// All pairs, in any order. Copies and waits.
    pub fn pairs(&self) -> Result<Vec<(K, V)>> {
        export::pairs_of(&self.table)
    }
    /// All pairs, in any order, as `keys[i]`, `values[i]`, and their number as `count[0]`.
    ///
    /// A fill of one word and one launch, which reads the table once and writes the pairs once.
    /// Errors: arrays that have fewer elements than the map has pairs, which it asks for as
    /// [`len`](Self::len) does; buffers of another device.
    pub fn export_into(
        &self,
        stream: &Stream,
        keys: ViewMut<'_, K>,
        values: ViewMut<'_, V>,
        count: ViewMut<'_, u32>,
    ) -> Result<()> {
        export::export(&self.table, stream, keys, values, count)
    }
}
impl<K: Key, V: Value> fmt::Debug for Map<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = (std::any::type_name::<K>(), std::any::type_name::<V>());
        write!(
            f,
            "Map<{key}, {value}>[built of {} pairs] on {}",
            self.table.plan.n,
            self.device().name()
        )
    }
}
