//! Sets: the flagship table without values, built in bulk and looked up in bulk, with keys of 32 or
//! 64 bits.
//!
//! # How it works
//! As a [map](crate::map), with buckets of eight 32-bit keys or four 64-bit ones in one 32-byte
//! sector: a lookup reads one sector, a second one for few keys; a build partitions the keys and
//! fills each partition on chip. [`layout`] has the bytes, which are the same on every
//! device. Equal keys meet in one slot while it is filled, at no cost beside the lookup that every
//! key makes anyway.
//!
//! # Guarantees
//! Every key can be stored, that of all ones included. A build fails only for lack of memory.
//! Answers are the same on every device and in every run. Which key lies in which slot is not, and
//! nor is the order of [`keys`](Set::keys).
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
//! A [`SetBuilder`] keeps the memory that building needs, and [`rebuild`](SetBuilder::rebuild) puts
//! other keys into a set that is there: nothing is allocated, and nothing waits. A [`SetUpdater`]
//! puts keys in and takes keys out. A [`SetCombiner`] does so for distinct keys, unions,
//! intersections and differences of arrays.
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
//! Keys come and go in batches: [`insert`](Set::insert), [`erase`](Set::erase) and mixed ones by
//! [`update`](Set::update). The result is that of doing one operation after the other.
//!
//! ```
//! let mut set = koel::Set::build(&koel::Device::cpu()?, &[3u32, 5, 7])?;
//! set.insert(&[5, 9])?;
//! set.erase(&[7])?;
//! assert_eq!(set.contains(&[5, 7, 9])?, [true, false, true]);
//! # Ok::<(), koel::Error>(())
//! ```
mod builder;
mod combine;
mod export;
mod family;
mod file;
mod kernels;
#[cfg(test)]
mod tests;
mod update;

use crate::device::{Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::Result;
use crate::key::Key;
use crate::table::{Family, Report, Settings, Table};
pub use builder::SetBuilder;
pub use combine::{SetCombiner, difference, intersection, union, unique};
pub(crate) use family::Keys;
pub use koel_kernels::set::find::SetRef;
pub use koel_kernels::set::layout;
use koel_kernels::table::layout::Shape;
use std::fmt;
pub use update::{SetOperation, SetUpdater};

/// What a set is built with.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SetOptions {
    /// Keys per slot, 0.3 to 0.95. High loads save memory, low loads save time.
    pub load: f64,
    /// Hash seed. `None`: one drawn at random, once in a process, so that nobody can choose keys
    /// against it. Answers do not depend on it, but the set's bytes do, and the order of
    /// [`Set::keys`]: ask for a seed where these are to be the same in every run on a CPU.
    ///
    /// By a seed that is known, keys can be chosen that share their buckets. A build that would
    /// stash more than a 32nd of the keys (128 of few, 32,768 of many) takes another seed,
    /// drawn at random, and starts again: [`SetReport::attempts`] tells.
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

/// How a build went.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct SetReport {
    /// Keys stored.
    pub keys: usize,
    /// Keys dropped because they were there.
    pub duplicates: usize,
    /// Keys in the stash.
    pub stashed: usize,
    /// Slots of the table.
    pub slots: usize,
    /// Bytes that the set keeps.
    pub bytes: usize,
    /// Bytes that the build needed besides, kept by the [`SetBuilder`].
    pub scratch_bytes: usize,
    /// Times that building was begun, each with another seed: more than one if more keys came to a
    /// partition, or to the stash, than there was room for; 0 if the set came from a file.
    pub attempts: u32,
    /// Keys that were behind the bins of a partition pass.
    pub overflowed: usize,
    /// Seconds that the device worked on it; `None` after a [`rebuild`](SetBuilder::rebuild).
    pub device_seconds: Option<f64>,
}

impl From<Report> for SetReport {
    fn from(report: Report) -> SetReport {
        let Report { entries, duplicates, stashed, slots, bytes, scratch_bytes, .. } = report;
        let Report { attempts, overflowed, device_seconds, .. } = report;
        SetReport {
            keys: entries,
            duplicates,
            stashed,
            slots,
            bytes,
            scratch_bytes,
            attempts,
            overflowed,
            device_seconds,
        }
    }
}

/// A finished set, on a device.
pub struct Set<K: Key = u32> {
    table: Table<Keys<K>>,
}

impl<K: Key> Set<K> {
    /// Builds a set on a device from host keys, with the options' defaults: load 0.8. Equal keys
    /// are one.
    ///
    /// Errors: more keys than 31-bit indices reach, out of memory.
    pub fn build(device: &Device, keys: &[K]) -> Result<Set<K>> {
        let keys = device.stage(keys)?;
        SetBuilder::new(device, SetOptions::default())?.build(&device.stream()?, keys.view())
    }
    /// The device it is on.
    pub fn device(&self) -> &Device {
        &self.table.device
    }
    /// Keys stored. After a [`rebuild`](SetBuilder::rebuild) this waits for it and reads the header
    /// back.
    pub fn len(&self) -> Result<usize> {
        self.table.len()
    }
    /// Whether it holds nothing; see [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    /// How its build went. After a [`rebuild`](SetBuilder::rebuild) this waits for it and reads the
    /// header back.
    ///
    /// Errors: [`BuildFailed`](crate::Error::BuildFailed) if its keys found no room.
    pub fn report(&self) -> Result<SetReport> {
        self.table.report().map(SetReport::from)
    }
    /// Bytes that the set keeps. Waits for nothing.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }
    /// How its buckets are laid out.
    pub fn shape(&self) -> Shape {
        self.table.plan.shape
    }
    /// The set as kernels see it: one parameter of a kernel, which looks keys up in it and is
    /// launched on `stream`. It owns nothing: neither drop nor rebuild the set until the kernel has
    /// run.
    ///
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let set = koel::Set::build(&device, &[3u32, 5, 7])?;
    /// let table = set.table(&device.stream()?)?;
    /// // Host code can look keys up in it, too, where the table is in its memory.
    /// // SAFETY: the set is there and is not changed.
    /// let table = unsafe { table.on_host() };
    /// assert!(table.contains(5) && !table.contains(6));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: a stream of another device.
    pub fn table(&self, stream: &Stream) -> Result<SetRef<K>> {
        self.table.handles(stream).map(Keys::<K>::table_ref)
    }

    /// A copy on another device, or on the same one: the same bytes, the same answers. Copies
    /// through host memory and waits. What was [opened](Self::open) is checked and then copied
    /// from where it is.
    ///
    /// Errors: a build that failed, out of memory; of a set that was opened, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<Set<K>> {
        Ok(Set { table: self.table.to_device(device)? })
    }

    /// Whether the set holds host keys. Copies both ways and waits.
    pub fn contains(&self, keys: &[K]) -> Result<Vec<bool>> {
        self.table.contains(keys)
    }
    /// Whether the set holds each key: `found[i]` becomes 1 or 0.
    ///
    /// One launch; allocates nothing, waits for nothing. Keys are read and answers written once; of
    /// the set one sector of 32 bytes a key, two for some 7 % of the 32-bit keys and 13 % of
    /// the 64-bit keys at load 0.8. Errors: lengths that differ, buffers of another device.
    pub fn contains_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        found: ViewMut<'_, u8>,
    ) -> Result<()> {
        self.table.contains_into(stream, keys, found)
    }
    /// Whether the set holds each key, as a bit mask: bit `i % 32` of `found[i / 32]`. The bits
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
    /// How many of the host keys the set holds. Copies and waits.
    pub fn count(&self, keys: &[K]) -> Result<u64> {
        self.table.count(keys)
    }
    /// How many of the keys the set holds: `count[0]`.
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

    /// All keys, in any order. Copies and waits.
    pub fn keys(&self) -> Result<Vec<K>> {
        export::keys_of(&self.table)
    }
    /// All keys, in any order, as `keys[..count[0]]`.
    ///
    /// A fill of one word and one launch, which reads the set once and writes the keys once.
    /// Errors: an array that has fewer elements than the set has keys, which it asks for as
    /// [`len`](Self::len) does; buffers of another device.
    pub fn export_into(
        &self,
        stream: &Stream,
        keys: ViewMut<'_, K>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        export::export(&self.table, stream, keys, count)
    }
}
impl<K: Key> fmt::Debug for Set<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = std::any::type_name::<K>();
        write!(f, "Set<{key}>[built of {} keys] on {}", self.table.plan.n, self.device().name())
    }
}
