//! Hash sets, built in bulk and looked up in bulk, with keys of [any type](crate::types) of up to
//! 16 bytes: the flagship table without values.
//!
//! # How it works
//! As a [map](crate::map), with buckets of eight 32-bit keys or four 64-bit keys in one 32-byte
//! sector. A lookup reads one sector, and a second one for few keys. A build partitions the keys
//! and fills each partition on chip. [`layout`] defines the byte layout, which is the same on every
//! device. Equal keys merge into one slot while the partition is filled, at no cost beyond the
//! lookup that every key needs anyway.
//!
//! That is how keys of up to 8 bytes are stored, for which the documentation of each operation
//! states its cost. Keys of 9 to 16 bytes are in [rows](crate::keys128).
//!
//! # Guarantees
//! Every key can be stored, the key of all ones included. A build fails only when out of memory.
//! Answers are the same on every device and in every run. The slot of a key and the order of
//! [`keys`](Set::keys) may differ.
//!
//! ```
//! let device = koel::Device::cpu()?; // or Device::best(): a GPU if a driver finds one
//! let set = koel::Set::build(&device, &[3u32, 5, 7, 5])?;
//! assert_eq!((set.len()?, set.contains(&[5, 6])?), (3, vec![true, false]));
//!
//! let mut common = koel::set::intersection(&device, &[3u32, 5, 7], &[7, 7, 8, 3])?;
//! common.sort(); // any order
//! assert_eq!(common, [3, 7]);
//! # Ok::<(), koel::Error>(())
//! ```
//!
//! # In a loop
//! A [`SetBuilder`] keeps its scratch memory, and [`rebuild`](SetBuilder::rebuild) replaces the
//! content of an existing set. On a GPU, a rebuild does not wait, because all decisions are made on
//! the device, and allocates nothing unless there are more keys than before. A [`SetUpdater`]
//! inserts and erases keys. A [`SetCombiner`] computes distinct keys, unions, intersections and
//! differences of arrays, likewise without waiting or allocating.
//!
//! ```
//! use koel::{Device, SetBuilder, SetOptions};
//!
//! let device = Device::cpu()?;
//! let stream = device.stream()?;
//! let keys = device.upload(&[10u64, 20, 30])?;
//! let mut found = device.alloc::<u8>(3)?;
//! let mut builder = SetBuilder::new(&device, SetOptions::default())?;
//! let mut set = builder.build(&stream, keys.view())?;
//! for _frame in 0..3 {
//!     builder.rebuild(&mut set, &stream, keys.view())?;
//!     set.contains_into(&stream, keys.view(), found.view_mut())?;
//! }
//! assert_eq!(found.download()?, [1, 1, 1]);
//! # Ok::<(), koel::Error>(())
//! ```
//!
//! # Changing a set
//! Batches insert and erase keys: [`insert`](Set::insert), [`erase`](Set::erase), and
//! [`update`](Set::update) for mixed operations. The result equals that of applying the operations
//! sequentially.
//!
//! ```
//! let mut set = koel::Set::build(&koel::Device::cpu()?, &[3u32, 5, 7])?;
//! set.insert(&[5, 9])?;
//! set.erase(&[7])?;
//! assert_eq!(set.contains(&[5, 7, 9])?, [true, false, true]);
//! # Ok::<(), koel::Error>(())
//! ```
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
mod builder;
mod combine;
mod export;
mod family;
mod file;
mod host;
mod host_ref;
mod kernels;
mod store;
#[cfg(test)]
mod tests;
mod update;

use crate::device::{Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::Result;
use crate::table::{BuildReport, Contains, Family, Settings, Table};
use crate::types::{
    AsKeys, Bits, BitsOf, DeviceKey, Key, SlotKey, key_bits, keys_on, stage_keys, write_bits,
};
pub use builder::SetBuilder;
pub use combine::{SetCombiner, difference, intersection, union, unique};
pub(crate) use family::Keys;
pub use host::{HostIter, HostSet};
pub use host_ref::{HostSetRef, Iter};
pub use koel_kernels::set::find::SetRef;
pub use koel_kernels::set::layout;
use koel_kernels::table::layout::Shape;
use std::fmt;
pub(crate) use store::{SetStore, SlotSet};
pub(crate) use update::operations_on;
pub use update::{SetOperation, SetUpdater};

/// Build options of a set.
#[derive(Clone, Copy, Debug)]
pub struct SetOptions {
    /// Load factor in keys per slot, 0.3 to 0.95. High loads save memory, low loads save time.
    pub load: f64,
    /// Hash seed. `None` selects a random seed, drawn once per process so that nobody can craft
    /// keys against it. Answers do not depend on the seed; the bytes of the set and the order of
    /// [`Set::keys`] do. Set a seed if these must be the same in every run on a CPU; on a GPU they
    /// depend on the run.
    ///
    /// If the seed is known, keys can be crafted to share their buckets. A build that would fill
    /// more than half of the stash, 1/64 to 1/32 of the keys (128 keys for small inputs, 32,768 for
    /// large ones), restarts with another seed, drawn at random: see [`BuildReport::attempts`].
    pub seed: Option<u32>,
}
crate::options::setters! { SetOptions:
    load by with_load: f64;
    seed by with_seed: impl Into<Option<u32>>;
}
impl Default for SetOptions {
    fn default() -> Self {
        SetOptions { load: 0.8, seed: None }
    }
}
impl From<SetOptions> for Settings {
    fn from(options: SetOptions) -> Settings {
        let SetOptions { load, seed } = options;
        Settings { load, duplicates: Duplicates::KeepFirst, seed, reproducible: false }
    }
}

/// How a set of these keys is stored.
type StoreOf<K> = <BitsOf<K> as Bits>::Set;

/// A hash set on a device. For method, guarantees and examples see the [module](self); for the cost
/// of each operation, its documentation.
#[doc(alias("HashSet"))]
pub struct Set<K: Key = u32> {
    store: StoreOf<K>,
}

impl<K: Key> Set<K> {
    /// Builds a set from keys in host memory, with default options: load 0.8 and a random seed.
    /// Equal keys are stored once. Copies and waits.
    ///
    /// Errors: more keys than 31-bit indices can address, out of memory.
    pub fn build(device: &Device, keys: &[K]) -> Result<Set<K>> {
        Set::build_with(device, SetOptions::default(), keys)
    }
    /// Builds a set like [`build`](Self::build), with other options.
    ///
    /// Errors: also a load outside 0.3 to 0.95.
    pub fn build_with(device: &Device, options: SetOptions, keys: &[K]) -> Result<Set<K>> {
        StoreOf::<K>::check(keys.len(), options.load)?; // before anything is allocated
        let keys = stage_keys::<K, BitsOf<K>>(device, keys)?;
        let mut builder = StoreOf::<K>::builder(device, options)?;
        Ok(Set { store: StoreOf::<K>::build(&mut builder, &device.stream()?, keys.view())? })
    }
    /// Returns the device that holds the set.
    pub fn device(&self) -> &Device {
        self.store.device()
    }
    /// Returns the number of keys. After a [`rebuild`](SetBuilder::rebuild) or an update, this
    /// waits for it and reads the header back.
    ///
    /// Errors: as [`report`](Self::report).
    pub fn len(&self) -> Result<usize> {
        Ok(self.report()?.entries)
    }
    /// Returns whether the set is empty; see [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Returns the statistics of the build. After a [`rebuild`](SetBuilder::rebuild) or an update,
    /// this waits for it and reads the header back.
    ///
    /// Errors: [`BuildFailed`](crate::Error::BuildFailed) if the keys did not fit in any attempt.
    pub fn report(&self) -> Result<BuildReport> {
        self.store.report()
    }
    /// Returns the bytes of memory that the set occupies. Does not wait.
    pub fn bytes(&self) -> usize {
        self.store.bytes()
    }
    /// Copies the set to another device, or to the same one: the same bytes, the same answers.
    /// Copies through host memory and waits. An [opened](Self::open) set is verified first, then
    /// copied from where it is.
    ///
    /// Errors: a build that failed, out of memory; for an opened set, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<Set<K>> {
        Ok(Set { store: self.store.to_device(device)? })
    }

    /// Returns whether the set holds each key in host memory. Copies both ways and waits.
    ///
    /// Errors: more keys than 32-bit indices can address, out of memory.
    pub fn contains(&self, keys: impl AsKeys<K>) -> Result<Vec<bool>> {
        self.store.contains(&key_bits::<K, _>(self.device(), keys.as_keys())?)
    }
    /// Writes whether the set holds each key: sets `found[i]` to 1 or 0.
    ///
    /// Takes one launch, allocates nothing and does not wait. Reads keys and writes answers once,
    /// and reads one sector of 32 bytes of the set per key, or two for about 7 % of the 32-bit keys
    /// and 13 % of the 64-bit keys at load 0.8. Errors: mismatched lengths, more keys than 32-bit
    /// indices can address, buffers of another device.
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
    /// Writes whether the set holds each key, as a bit mask: bit `i % 32` of `found[i / 32]` stands
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
    /// Returns how many of the keys in host memory the set holds. Copies and waits.
    ///
    /// Errors: as [`contains`](Self::contains).
    pub fn count(&self, keys: &[K]) -> Result<u64> {
        self.store.count(&key_bits::<K, _>(self.device(), keys)?)
    }
    /// Writes how many of the keys the set holds to `count[0]`, the only element.
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

    /// Returns all keys, in any order. Copies and waits.
    ///
    /// Errors: as [`len`](Self::len), out of memory.
    pub fn keys(&self) -> Result<Vec<K>> {
        self.store.keys(|key| K::unpack(key.into()))
    }
    /// Writes all keys to `keys[..count[0]]`, in any order, and their number to `count[0]`.
    ///
    /// Takes a fill of one word and one launch, which reads the set once and writes the keys once.
    /// Determines the number of keys as [`len`](Self::len) does. Errors: `keys` shorter than the
    /// number of keys in the set, a `count` that is not one element long, buffers of another
    /// device.
    pub fn export_into(
        &self,
        stream: &Stream,
        keys: ViewMut<'_, K>,
        count: ViewMut<'_, u64>,
    ) -> Result<()>
    where
        K: DeviceKey,
    {
        let keys = keys.first(self.len()?);
        write_bits(stream, keys, |keys| self.store.export_into(stream, keys, count))
    }
}
/// Of keys in slots: of up to 8 bytes.
impl<K: SlotKey> Set<K> {
    /// Returns a table as a set.
    #[cfg(test)]
    pub(crate) fn of_table(table: Table<Keys<BitsOf<K>>>) -> Set<K> {
        Set { store: SlotSet(table) }
    }
    pub(crate) fn as_table(&self) -> &Table<Keys<BitsOf<K>>> {
        &self.store.0
    }
    pub(crate) fn as_table_mut(&mut self) -> &mut Table<Keys<BitsOf<K>>> {
        &mut self.store.0
    }
    /// Returns the number of partitions, and of buckets per partition.
    pub fn shape(&self) -> Shape {
        self.as_table().plan.shape
    }
    /// Returns the set as a kernel argument, for lookups in a kernel launched on `stream`. The
    /// argument owns nothing: do not drop, rebuild or update the set before the kernel has run.
    /// Safe code cannot dereference its handles; launches are `unsafe` for this reason.
    ///
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let set = koel::Set::build(&device, &[3u32, 5, 7])?;
    /// let table = set.table(&device.stream()?)?;
    /// // Host code can look keys up in it too, if the table is in host memory.
    /// // SAFETY: the set exists and is not changed.
    /// let table = unsafe { table.on_host() };
    /// assert!(table.contains(5) && !table.contains(6));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: a stream of another device.
    pub fn table(&self, stream: &Stream) -> Result<SetRef<BitsOf<K>>> {
        self.as_table().handles(stream).map(Keys::<BitsOf<K>>::table_ref)
    }
}
impl<K: Key> fmt::Debug for Set<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = std::any::type_name::<K>();
        write!(f, "Set<{key}>[{} bytes] on {}", self.bytes(), self.device().name())
    }
}
