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
mod file;
pub(crate) mod kernels;
#[cfg(test)]
mod tests;
mod update;

use crate::cpu;
use crate::device::{Buffer, Device, Stream, View, ViewMut};
use crate::error::{Error, Result, check_length, count32};
use crate::file::stored::Stored;
use crate::map::kernels::{Slots, header_words, read_header};
use crate::map::plan::Plan;
use crate::map::{Key, OnHost};
pub use builder::SetBuilder;
pub use combine::{SetCombiner, difference, intersection, union, unique};
use kernels::slots_of;
use koel_kernels::set::export::set_export;
pub use koel_kernels::set::find::SetRef;
use koel_kernels::set::find::{set_contains, set_contains_bits, set_count};
pub use koel_kernels::set::layout;
use koel_kernels::set::layout::unmixed;
use koel_kernels::table::layout::{EMPTY, Layout, Shape};
use std::fmt;
use std::sync::Mutex;
pub use update::{SetOperation, SetUpdater};

/// What a set is built with.
#[derive(Clone, Copy, Debug)]
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
impl Default for SetOptions {
    fn default() -> Self {
        SetOptions { load: 0.8, seed: None }
    }
}

/// How a build went.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
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

/// A finished set, on a device.
pub struct Set<K: Key = u32> {
    device: Device,
    plan: Plan,
    storage: Storage<K>,
    /// Of the last build, as far as it is known; read from the header when it is asked for.
    report: Mutex<Report>,
}
enum Storage<K: Key> {
    Cpu(OnCpu<K>),
    Kernels(Slots<K>),
}
struct OnCpu<K: Key> {
    table: Stored<K>,
    stash: cpu::Stash<K::Pairs>,
    seed: u32,
    /// What kernels of the user read.
    header: Buffer<u32>,
}
#[derive(Clone, Copy)]
enum Report {
    Known(SetReport),
    /// Bytes of scratch memory, seconds, and how many builds were given up before.
    InHeader(usize, Option<f64>, u32),
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
        &self.device
    }
    /// Keys stored. After a [`rebuild`](SetBuilder::rebuild) this waits for it and reads the header
    /// back.
    pub fn len(&self) -> Result<usize> {
        Ok(self.report()?.keys)
    }
    /// Whether it holds nothing; see [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    /// How its build went. After a [`rebuild`](SetBuilder::rebuild) this waits for it and reads the
    /// header back.
    pub fn report(&self) -> Result<SetReport> {
        self.outcome()?.map_err(|attempts| Error::Setting {
            field: "load",
            found: format!("too high for these keys in {attempts} attempts"),
            expected: "a load at which distinct keys find places".into(),
        })
    }
    /// The report of its build, or in how many attempts no place was found for its keys.
    fn outcome(&self) -> Result<std::result::Result<SetReport, u32>> {
        let mut report = self.report.lock().unwrap_or_else(|e| e.into_inner());
        let (scratch_bytes, device_seconds, given_up) = match *report {
            Report::Known(report) => return Ok(Ok(report)),
            Report::InHeader(bytes, seconds, given_up) => (bytes, seconds, given_up),
        };
        let Storage::Kernels(table) = &self.storage else { return Ok(Ok(SetReport::default())) };
        let read = read_header::<K>(&table.header.download()?);
        if read.failed {
            return Ok(Err(given_up + read.attempts));
        }
        let known = SetReport {
            keys: read.pairs as usize,
            duplicates: read.dropped as usize,
            stashed: read.stashed as usize,
            slots: slots_of::<K>(&self.plan),
            bytes: table.bytes(),
            scratch_bytes,
            attempts: given_up + read.attempts,
            overflowed: read.overflowed as usize,
            device_seconds,
        };
        // A rebuild may be launched again as a part of a graph, of which nothing here would know.
        if device_seconds.is_some() {
            *report = Report::Known(known);
        }
        Ok(Ok(known))
    }
    /// Bytes that the set keeps. Waits for nothing.
    pub fn bytes(&self) -> usize {
        match &self.storage {
            Storage::Kernels(table) => table.bytes(),
            Storage::Cpu(OnCpu { table, stash, header, .. }) => {
                table.bytes() + stash.bytes() + header.bytes()
            }
        }
    }
    /// Makes it hold nothing, after a rebuild that failed.
    fn forget(&mut self, stream: &Stream) {
        let emptied = match &mut self.storage {
            Storage::Kernels(table) => table.clear(stream),
            Storage::Cpu(OnCpu { table, stash, header, .. }) => {
                *stash = cpu::Stash::default();
                if let Stored::Own(table) = table {
                    table.view_mut().host_mut().unwrap_or(&mut []).fill(K::EMPTY);
                }
                header.view_mut().fill_bytes(0, stream)
            }
        };
        // If not even that can be done, the device answers no lookup either.
        drop(emptied);
        *self.report.lock().unwrap_or_else(|e| e.into_inner()) =
            Report::Known(SetReport::default());
    }
    /// How its buckets are laid out.
    pub fn shape(&self) -> Shape {
        self.plan.shape
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
        match &self.storage {
            Storage::Kernels(table) => kernels::table(table, stream, &self.plan),
            Storage::Cpu(OnCpu { table, stash, header, .. }) => {
                let slots_of_stash = stash.slots().len() / K::Pairs::SLOT_WORDS;
                Ok(SetRef {
                    shape: self.plan.shape,
                    stash_bits: slots_of_stash.checked_ilog2().unwrap_or(0),
                    slots: table.view().arg("slots", stream)?,
                    stash: self.device.stage(stash.slots())?.view().arg("stash", stream)?,
                    header: header.view().arg("header", stream)?,
                })
            }
        }
    }

    /// A copy on another device, or on the same one: the same bytes, the same answers. Copies
    /// through host memory and waits. What was [opened](Self::open) is checked and then copied
    /// from where it is.
    ///
    /// Errors: a build that failed, out of memory; of a set that was opened, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<Set<K>> {
        let (report, mut plan) = (self.report()?, self.plan);
        let (len, of_slot) = (slots_of::<K>(&plan), K::Pairs::SLOT_WORDS);
        let OnHost { stash, seed, held } = self.on_host()?;
        let slots = match &self.storage {
            Storage::Kernels(table) => {
                device.upload(&table.slots.view().slice(..len)?.download()?)?
            }
            Storage::Cpu(OnCpu { table, .. }) => table.upload(len, device)?,
        };
        // Only a stash that holds something has slots to speak of.
        let stash = if report.stashed > 0 { stash } else { vec![EMPTY; of_slot] };
        let header = device.upload(&header_words(seed, report.keys, report.stashed, held))?;
        let storage = if device.runs_kernels() {
            plan.stash_bits = (stash.len() / of_slot).ilog2();
            Storage::Kernels(Slots { slots, stash: device.upload(&stash)?, header })
        } else {
            let stash = cpu::Stash::from_slots(&stash, held);
            Storage::Cpu(OnCpu { table: Stored::Own(slots), stash, seed, header })
        };
        Ok(Set { device: device.clone(), plan, storage, report: Mutex::new(Report::Known(report)) })
    }
    /// What it holds besides its slots, on the host.
    fn on_host(&self) -> Result<OnHost<K>> {
        Ok(match &self.storage {
            Storage::Kernels(table) => {
                let header = read_header::<K>(&table.header.download()?);
                // A set may have memory for more keys than it was built of.
                let words = K::Pairs::SLOT_WORDS << self.plan.stash_bits;
                let stash = table.stash.view().slice(..words)?.download()?;
                OnHost { stash, seed: header.seed, held: header.held }
            }
            Storage::Cpu(OnCpu { stash, seed, .. }) => {
                OnHost { stash: stash.slots().to_vec(), seed: *seed, held: stash.held() }
            }
        })
    }

    /// Whether the set holds host keys. Copies both ways and waits.
    pub fn contains(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut found = self.device.alloc(keys.len())?;
        self.contains_into(
            &self.device.stream()?,
            self.device.stage(keys)?.view(),
            found.view_mut(),
        )?;
        Ok(found.download()?.into_iter().map(|f: u8| f != 0).collect())
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
        mut found: ViewMut<'_, u8>,
    ) -> Result<()> {
        check_length("found", found.len(), "keys", keys.len())?;
        let n = count32("keys", keys.len())?;
        let (queries, found_arg) = (keys.arg("keys", stream)?, found.arg("found", stream)?);
        match &self.storage {
            Storage::Kernels(table) => {
                let table = kernels::table(table, stream, &self.plan)?;
                // SAFETY: `n` queries and answers; the set as built with this plan.
                unsafe { set_contains::launch(stream, grid(n), table, n, queries, found_arg) }
            }
            Storage::Cpu(table) => match (keys.host(), found.host_mut()) {
                (Some(keys), Some(found)) => {
                    table.finder(self.plan.shape).contains(&self.device, keys, found)
                }
                _ => Ok(()),
            },
        }
    }
    /// Whether the set holds each key, as a bit mask: bit `i % 32` of `found[i / 32]`. The bits
    /// behind the last key become 0.
    ///
    /// As [`contains_into`](Self::contains_into), with an eighth of the bytes written. Errors:
    /// fewer or more words than `keys / 32`, rounded up; buffers of another device.
    pub fn contains_bits(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        mut found: ViewMut<'_, u32>,
    ) -> Result<()> {
        check_length("found", found.len(), "keys / 32", keys.len().div_ceil(32))?;
        let n = count32("keys", keys.len())?;
        let (queries, found_arg) = (keys.arg("keys", stream)?, found.arg("found", stream)?);
        match &self.storage {
            Storage::Kernels(table) => {
                let table = kernels::table(table, stream, &self.plan)?;
                // SAFETY: as in `contains_into`; a bit for each query.
                unsafe { set_contains_bits::launch(stream, grid(n), table, n, queries, found_arg) }
            }
            Storage::Cpu(table) => match (keys.host(), found.host_mut()) {
                (Some(keys), Some(found)) => {
                    table.finder(self.plan.shape).contains_bits(&self.device, keys, found)
                }
                _ => Ok(()),
            },
        }
    }
    /// How many of the host keys the set holds. Copies and waits.
    pub fn count(&self, keys: &[K]) -> Result<u64> {
        let mut count = self.device.alloc(1)?;
        self.count_into(&self.device.stream()?, self.device.stage(keys)?.view(), count.view_mut())?;
        Ok(count.download()?[0])
    }
    /// How many of the keys the set holds: `count[0]`.
    ///
    /// A fill of one word and one launch; allocates nothing, waits for nothing. Otherwise as
    /// [`contains_into`](Self::contains_into).
    pub fn count_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        mut count: ViewMut<'_, u64>,
    ) -> Result<()> {
        check_length("count", count.len(), "one sum", 1)?;
        let n = count32("keys", keys.len())?;
        let (queries, count_arg) = (keys.arg("keys", stream)?, count.arg("count", stream)?);
        match &self.storage {
            Storage::Kernels(table) => {
                count.fill_bytes(0, stream)?;
                let table = kernels::table(table, stream, &self.plan)?;
                // SAFETY: as in `contains_into`; one sum.
                unsafe { set_count::launch(stream, grid(n), table, n, queries, count_arg) }
            }
            Storage::Cpu(table) => {
                if let (Some(keys), Some(count)) = (keys.host(), count.host_mut()) {
                    count[0] = table.finder(self.plan.shape).count(&self.device, keys) as u64;
                }
                Ok(())
            }
        }
    }

    /// All keys, in any order. Copies and waits.
    pub fn keys(&self) -> Result<Vec<K>> {
        let (mut keys, mut count) = (self.device.alloc(self.len()?)?, self.device.alloc(1)?);
        self.export_into(&self.device.stream()?, keys.view_mut(), count.view_mut())?;
        keys.download()
    }
    /// All keys, in any order, as `keys[..count[0]]`.
    ///
    /// A fill of one word and one launch, which reads the set once and writes the keys once.
    /// Errors: an array that has fewer elements than the set has keys, which it asks for as
    /// [`len`](Self::len) does; buffers of another device.
    pub fn export_into(
        &self,
        stream: &Stream,
        mut keys: ViewMut<'_, K>,
        mut count: ViewMut<'_, u64>,
    ) -> Result<()> {
        check_length("count", count.len(), "one sum", 1)?;
        let n = self.len()?;
        check_length("keys", keys.len().min(n), "keys of the set", n)?;
        let (keys_arg, count_arg) = (keys.arg("keys", stream)?, count.arg("count", stream)?);
        match &self.storage {
            Storage::Kernels(table) => {
                count.fill_bytes(0, stream)?;
                let table = kernels::table(table, stream, &self.plan)?;
                let threads = table.shape.all_buckets()
                    + (1u64 << table.stash_bits).div_ceil(K::SLOTS.into());
                let grid = threads.div_ceil(kernels::THREADS as u64) as u32;
                // SAFETY: the set as built; room for as many keys as it has.
                unsafe { set_export::launch(stream, grid, table, keys_arg, count_arg) }
            }
            Storage::Cpu(OnCpu { table, stash, seed, .. }) => {
                if let (Some(keys), Some(count)) = (keys.host_mut(), count.host_mut()) {
                    let in_slots =
                        cpu::set::keys(self.plan.shape, &table.host()[..slots_of::<K>(&self.plan)]);
                    let held = stash.held().map(|_| K::EMPTY);
                    let all = in_slots.chain(stash.iter().map(K::Pairs::key)).chain(held);
                    keys.iter_mut().zip(all).for_each(|(to, mixed)| *to = unmixed(*seed, mixed));
                    count[0] = n as u64;
                }
                Ok(())
            }
        }
    }
}
/// Blocks of a lookup of `n` keys.
fn grid(n: u32) -> u32 {
    n.div_ceil(kernels::THREADS)
}
impl<K: Key> OnCpu<K> {
    fn finder(&self, shape: Shape) -> cpu::set::Finder<'_, K> {
        cpu::set::Finder { shape, seed: self.seed, table: self.table.host(), stash: &self.stash }
    }
}
impl<K: Key> fmt::Debug for Set<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = std::any::type_name::<K>();
        write!(f, "Set<{key}>[built of {} keys] on {}", self.plan.n, self.device.name())
    }
}
