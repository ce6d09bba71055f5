//! Changing a set that is there, in batches: see [`SetUpdater`].
use super::export::{export, keys_of};
use super::kernels::plan_of;
use super::{Keys, Set, SetOptions};
use crate::device::{Device, Stream, View, ViewMut};
use crate::error::Result;
use crate::key::Key;
use crate::table::plan::Plan;
use crate::table::update::{
    Batch, EntriesOnHost, Launch, Limits, Operations, Outcome, Updatable, Updater,
};
use crate::table::{Builder, Settings, Table};
use koel_kernels::set::few::set_update_few;
use koel_kernels::set::update::{set_update, set_update_left, shared_bytes};
use koel_kernels::table::few::{Few, shared_bytes as few_shared_bytes};
use koel_kernels::table::update::{Applying, operation};

#[cfg(test)]
mod tests;

/// What is done with a key of a set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum SetOperation {
    /// The key is in the set now, whether it was or not. As a byte, so is each one that does not
    /// erase.
    Insert = operation::INSERT as u8,
    /// The key is removed.
    Erase = operation::ERASE as u8,
}

/// Changes sets in batches, and keeps the memory that this needs from one batch to the next.
///
/// A batch is an array of keys, and either one [`SetOperation`] for all or one for each. The result
/// is that of doing one after the other, in the order of the array, also where a key comes several
/// times; each operation's [`Outcome`] is told: of equal keys that are inserted the first
/// one is [`Inserted`](Outcome::Inserted), the others are [`Kept`](Outcome::Kept), on every device.
///
/// ```
/// use koel::{Device, Operations, Outcome, Set, SetOperation, SetOptions, SetUpdater};
///
/// let device = Device::cpu()?;
/// let stream = device.stream()?;
/// let mut seen = Set::build(&device, &[3u32, 5, 7])?;
/// let mut updater = SetUpdater::new(&device, SetOptions::default())?;
/// let mut outcomes = device.alloc::<u8>(3)?;
/// let insert = Operations::All(SetOperation::Insert);
/// for frame in 0..3 {
///     let keys = device.upload(&[5, 10 + frame, 10 + frame])?;
///     updater.apply(&mut seen, &stream, insert, keys.view(), outcomes.view_mut())?;
///     let outcomes = outcomes.download()?.into_iter().map(Outcome::of);
///     assert!(outcomes.eq([Outcome::Kept, Outcome::Inserted, Outcome::Kept].map(Some)));
/// }
/// assert_eq!(seen.len()?, 6);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Cost
/// On a GPU it works as a [`MapUpdater`](crate::MapUpdater): one pass brings the operations to
/// groups of partitions, and a block a group does them in the buckets of their keys: of 32-bit keys
/// 21 bytes of memory traffic an operation, a bucket of 32 read for each (two if the first is
/// full), and 32 written for each that changed. What that cannot do goes to whole partitions. A
/// fill and four launches, for each 2,100 operations a group, two million in a set of 2^24 keys of
/// 32 bits.
///
/// All is done in whole partitions where keys are inserted, one for two buckets or more (of 64-bit
/// keys one for each), and a set as full as it was built for would pass a load of 0.8; and once
/// whenever as many operations were done as the set has slots. Then a block a partition
/// reads it, changes it in shared memory and writes the buckets that changed: 37 bytes an
/// operation, and 5 bytes a key of the partitions at load 0.8. 64-bit keys cost twice as much.
/// Batches of one operation cost the same there however often a key comes. A fill and four launches
/// (three up to 1,024 partitions), for each 1,000 operations a partition.
///
/// Scratch memory is about 32 bytes an operation, 64 for 64-bit keys.
///
/// On a CPU operations are sorted by partition, and partitions with operations taken apart and put
/// together again, by all threads.
///
/// Where a key is erased from a full bucket, fillers keep it full, so that keys which found it full
/// are found: lookups of absent keys read a few second buckets more, until a batch is done in whole
/// partitions. Then, and on a CPU always, keys that found it full come back to it, and lookups are
/// as good as in a set that was just built.
///
/// # Growth
/// A partition that new keys would fill to more than 97 % stays as it was. Then
/// [`apply`](Self::apply) builds the set again, for as many keys as there are and are wanted, at
/// the options' load (0.85 at most), and does what is not done: the cost of an export and a build,
/// and memory for the keys, a new set and a build's scratch besides the old set. Where it is not
/// the set that is full, only some partitions, as when keys were chosen against its seed, it is
/// built again by another seed, drawn at random. What is refused even then is done on the host:
/// always possible, and slow. A partition of which a batch has more different keys than its block
/// has room for makes the batch be done in two halves, and so on.
pub struct SetUpdater<K: Key = u32> {
    updater: Updater<Keys<K>>,
}
impl<K: Key> SetUpdater<K> {
    /// Without memory yet. Sets that grow are built with the options' load and seed.
    ///
    /// Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: SetOptions) -> Result<SetUpdater<K>> {
        SetUpdater::with_limits(device, options, Limits::OF_SETS)
    }
    /// With other limits than the best, so that tests take every way.
    fn with_limits(device: &Device, options: SetOptions, limits: Limits) -> Result<SetUpdater<K>> {
        Ok(SetUpdater { updater: Updater::new(device, options.into(), limits)? })
    }
    /// Bytes that it keeps: what the greatest batch so far needed.
    pub fn scratch_bytes(&self) -> usize {
        self.updater.scratch_bytes()
    }

    /// Does the operations on `keys[i]`, one after the other: `outcomes[i]` becomes the [`Outcome`]
    /// as a byte.
    ///
    /// All are done when it returns: it waits for the device and, if there is no room, makes the
    /// set [larger](Self#growth). See [the cost](Self#cost). On a GPU nothing is allocated if
    /// there were as many operations on as big a set before and it does not grow.
    ///
    /// Errors: lengths that differ, a set or buffers of another device, more operations than 31-bit
    /// numbers reach, faults of a file that the set was opened from, out of memory. After an
    /// error of the arguments the set is as it was; after any other one all operations are done
    /// or not, as their outcomes tell.
    pub fn apply(
        &mut self,
        set: &mut Set<K>,
        stream: &Stream,
        operations: Operations<'_, SetOperation>,
        keys: View<'_, K>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        self.updater.apply(&mut set.table, stream, batch(operations, keys)?, outcomes)
    }
    /// As [`apply`](Self::apply), but on a GPU it does not wait, and the set does not grow:
    /// operations for which there is no room are [not done](Outcome::NotDone), and it is for
    /// the caller to look for those among the outcomes. Of operations on one key none is
    /// done behind one that is not. It can be recorded in a [graph](Stream::capture) if it has been
    /// called with as many operations before.
    ///
    /// On a CPU, operations behind one of the same partition that was not done are not done either.
    ///
    /// Errors: besides, a set whose partitions no block has room for, as other programs may have
    /// made them: [`apply`](Self::apply) builds such a set again.
    pub fn enqueue(
        &mut self,
        set: &mut Set<K>,
        stream: &Stream,
        operations: Operations<'_, SetOperation>,
        keys: View<'_, K>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        self.updater.enqueue(&mut set.table, stream, batch(operations, keys)?, outcomes)
    }
}
fn batch<'a, K: Key>(
    operations: Operations<'a, SetOperation>,
    keys: View<'a, K>,
) -> Result<Batch<'a, K, K>> {
    let operations = operations.codes(|operation| operation as u32);
    Ok(Batch { operations, keys, values: keys.slice(..0)? })
}
impl<K: Key> std::fmt::Debug for SetUpdater<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.updater.describe(f, &format!("SetUpdater<{}>", std::any::type_name::<K>()))
    }
}

impl<K: Key> Updatable for Keys<K> {
    fn rebuild(
        table: &mut Table<Self>,
        stream: &Stream,
        room: usize,
        settings: Settings,
    ) -> Result<()> {
        let (device, n) = (&table.device, table.len()?);
        let (mut keys, mut count) = (device.alloc(n)?, device.alloc(1)?);
        export(table, stream, keys.view_mut(), count.view_mut())?;
        let mut builder = Builder::new(device, settings)?;
        let plan = Plan { n: n as u32, ..plan_of::<K>(room.max(n), settings.load)? };
        *table = builder.build(plan, stream, keys.view())?;
        Ok(())
    }
    fn entries_on_host(table: &Table<Self>) -> Result<EntriesOnHost<Self>> {
        Ok(keys_of(table)?.into_iter().map(|key| (key, K::default())).collect())
    }
    fn build_of(
        table: &mut Table<Self>,
        stream: &Stream,
        entries: EntriesOnHost<Self>,
        settings: Settings,
    ) -> Result<()> {
        let keys = entries.into_keys().collect::<Vec<_>>();
        let keys = table.device.stage(&keys)?;
        let mut builder = Builder::new(&table.device, settings)?;
        let plan = builder.plan(stream, keys.view().len())?;
        *table = builder.build(plan, stream, keys.view())?;
        Ok(())
    }

    fn shared_bytes(buckets: u32, entries: u32, each: bool) -> Option<u32> {
        Some(shared_bytes(buckets, entries, each, size_of::<K>() as u32))
    }
    fn few_shared_bytes(few: Few) -> u32 {
        few_shared_bytes(few, size_of::<K>() as u32)
    }
    unsafe fn launch(stream: &Stream, applying: Applying, on: Launch<Self>) -> Result<()> {
        let Launch { table, sent, unstashed, batch, .. } = on;
        let grid = table.shape.partitions;
        // SAFETY: the caller's.
        unsafe { set_update::launch(stream, grid, applying, table, sent, unstashed, batch) }
    }
    unsafe fn launch_few(stream: &Stream, grid: u32, few: Few, on: Launch<Self>) -> Result<()> {
        let Launch { table, sent, cursors, batch, .. } = on;
        // SAFETY: the caller's.
        unsafe { set_update_few::launch(stream, grid, few, table, sent, cursors, batch) }
    }
    unsafe fn launch_left(
        stream: &Stream,
        grid: u32,
        applying: Applying,
        on: Launch<Self>,
    ) -> Result<()> {
        let Launch { table, sent, unstashed, batch, .. } = on;
        // SAFETY: the caller's.
        unsafe { set_update_left::launch(stream, grid, applying, table, sent, unstashed, batch) }
    }
}

impl<K: Key> Set<K> {
    /// Puts host keys into the set: `outcomes[i]` is [`Inserted`](Outcome::Inserted) or
    /// [`Kept`](Outcome::Kept). Of equal keys that were not there the first is inserted. Copies
    /// both ways and waits; a [`SetUpdater`] works on the device and keeps its memory.
    ///
    /// ```
    /// use koel::Outcome::*;
    ///
    /// let mut set = koel::Set::build(&koel::Device::cpu()?, &[3u32, 5])?;
    /// assert_eq!(set.insert(&[5, 7, 7])?, [Kept, Inserted, Kept]);
    /// assert_eq!(set.erase(&[3, 4])?, [Erased, Missing]);
    /// assert_eq!(set.contains(&[3, 5, 7])?, [false, true, true]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: as [`SetUpdater::apply`].
    pub fn insert(&mut self, keys: &[K]) -> Result<Vec<Outcome>> {
        self.update_with(Operations::All(SetOperation::Insert), keys)
    }
    /// Removes each of the host keys: [`Erased`](Outcome::Erased) or [`Missing`](Outcome::Missing).
    /// The set keeps its memory: see [`shrink`](Self::shrink). Otherwise as
    /// [`insert`](Self::insert).
    pub fn erase(&mut self, keys: &[K]) -> Result<Vec<Outcome>> {
        self.update_with(Operations::All(SetOperation::Erase), keys)
    }
    /// Does `operations[i]` with `keys[i]`, one after the other. Otherwise as
    /// [`insert`](Self::insert).
    pub fn update(&mut self, operations: &[SetOperation], keys: &[K]) -> Result<Vec<Outcome>> {
        let codes = operations.iter().map(|&operation| operation as u8).collect::<Vec<_>>();
        let device = self.device().clone();
        let codes = device.stage(&codes)?;
        self.update_with(Operations::Each(codes.view()), keys)
    }
    fn update_with(
        &mut self,
        operations: Operations<'_, SetOperation>,
        keys: &[K],
    ) -> Result<Vec<Outcome>> {
        let device = self.device().clone();
        let (staged, mut outcomes) = (device.stage(keys)?, device.alloc::<u8>(keys.len())?);
        let mut updater = SetUpdater::new(&device, SetOptions::default())?;
        updater.apply(self, &device.stream()?, operations, staged.view(), outcomes.view_mut())?;
        Ok(Outcome::all(outcomes.download()?))
    }
    /// Builds it again for the keys that it has, at a load of 0.8, unless that takes no less memory
    /// than it has: memory that erased keys leave is given back.
    pub fn shrink(&mut self) -> Result<()> {
        self.shrink_to(SetOptions::default().load)
    }
    /// Builds it again for the keys that it has, at this load; it stays as it is if that takes no
    /// less memory than it has. Waits. Costs an export and a build, and memory for the keys, a
    /// new set and a build's scratch besides the old set.
    ///
    /// Errors: a load outside 0.3 to 0.95, out of memory. After an error it is as it was.
    pub fn shrink_to(&mut self, load: f64) -> Result<()> {
        self.table.shrink(SetOptions::default().with_load(load).into())
    }
}
