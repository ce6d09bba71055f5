//! Batched updates of sets: see [`SetUpdater`].
use super::export::{export, keys_of};
use super::kernels::plan_of;
use super::{Keys, Set, SetOptions, SetStore, StoreOf};
use crate::device::{Device, Stream, View, ViewMut};
use crate::error::Result;
use crate::fallible::{collect, collect_map};
use crate::table::plan::Plan;
use crate::table::update::{
    Batch, EntriesOnHost, HostOperations, Launch, Operations, Outcome, Updatable,
};
use crate::table::{Builder, Settings, Table};
use crate::types::{AsKeys, BitsOf, DeviceKey, Key, KeyBits, SlotKey, key_bits, keys_on};
use koel_kernels::set::sparse::set_update_sparse;
use koel_kernels::set::update::{set_update, set_update_left, shared_bytes};
use koel_kernels::table::sparse::{Sparse, shared_bytes as sparse_shared_bytes};
use koel_kernels::table::update::{Applying, operation};

#[cfg(test)]
mod tests;

/// Operation on a key of a set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum SetOperation {
    /// Inserts the key if it is missing. As a byte, every operation that does not erase inserts.
    Insert = operation::INSERT as u8,
    /// Removes the key.
    Erase = operation::ERASE as u8,
}

/// Changes sets in batches, and keeps scratch memory across batches.
///
/// A batch is an array of keys, and either one [`SetOperation`] for all or one for each. The result
/// equals that of applying the operations sequentially in array order, even if a key occurs several
/// times. Each operation reports its [`Outcome`], which is the same on every device: of equal new
/// keys, the first one is [`Inserted`](Outcome::Inserted), and the others are
/// [`Kept`](Outcome::Kept).
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
/// On a GPU, a set is updated like a [map](crate::MapUpdater). One pass partitions the operations
/// into bins of several partitions each; then one block per bin changes the buckets of its keys in
/// place. For 32-bit keys this takes 21 bytes of memory traffic per operation, a read of one bucket
/// of 32 bytes per operation (two if the first is full), and a write of 32 bytes per changed
/// bucket. A second kernel, for whole partitions, does the rest. A batch takes a fill and four
/// launches for every 2,100 operations per bin, or two million in a set of 2^24 keys of 32 bits.
///
/// The kernel for whole partitions does everything in two cases: if a batch inserts more than one
/// key per two buckets (one per bucket for 64-bit keys), and these keys and those that the set was
/// built for exceed load 0.8; and in the first batch after as many operations as the set has slots.
/// Then one block per partition reads it, changes it in shared memory and writes back the changed
/// buckets: 37 bytes of memory traffic per operation, and 5 bytes per key of the partitions at load
/// 0.8. 64-bit keys cost twice as much. Unless operations are mixed, the cost does not depend on
/// how often a key occurs. A batch takes a fill and four launches (three up to 1,024 partitions)
/// for every 1,000 operations per partition.
///
/// Scratch memory is about 32 bytes per operation, 64 for 64-bit keys.
///
/// On a CPU, a batch of up to half as many operations as the set has slots changes buckets in
/// place, too: the calling thread alone if there are few, else all threads, each in ranges of
/// partitions. Batches of slices ([`insert`](Set::insert) and others) then allocate only their
/// outcomes. Whole partitions are taken apart and rebuilt for what that leaves, by a larger batch,
/// whose operations all threads sort by partition first, and by the first batch after as many
/// erasures as the set has slots, which rebuilds all of them.
///
/// If a key is erased from a full bucket, fillers keep the bucket full, so that lookups still find
/// the keys that overflowed from it. Lookups of absent keys then read a few more second buckets,
/// until a batch is applied to whole partitions. Such a batch moves keys back to their first
/// buckets, after which lookups are as fast as in a newly built set.
///
/// # Growth
/// A partition that new keys would fill beyond 97 % is left unchanged. [`apply`](Self::apply) then
/// rebuilds the set for its current plus requested keys, at the options' load (0.85 if that is
/// higher), and applies the remaining operations. This costs an export and a build, and memory for
/// the keys, a new set and the build's scratch memory in addition to the old set. If only some
/// partitions are full rather than the set, as when keys were crafted against its seed, it is
/// rebuilt with another seed, drawn at random. Operations that are refused even then are applied on
/// the host, which always succeeds, but is slow. If a batch has more distinct keys in a partition
/// than a block has room for, it is split into halves, recursively.
///
/// On a CPU, a set grows to twice its buckets beyond load 0.88, as soon as a key finds no room by
/// two evictions: as a [map](crate::MapUpdater#growth).
///
/// # Keys of more than 8 bytes
/// As of a [map](crate::MapUpdater#keys-or-values-of-more-than-8-bytes).
pub struct SetUpdater<K: Key = u32> {
    device: Device,
    updater: <StoreOf<K> as SetStore>::Updater,
}
impl<K: Key> SetUpdater<K> {
    /// Creates an updater without scratch memory. Sets that grow are rebuilt with the load and seed
    /// of the options.
    ///
    /// Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: SetOptions) -> Result<SetUpdater<K>> {
        let updater = StoreOf::<K>::updater(device, options)?;
        Ok(SetUpdater { device: device.clone(), updater })
    }
    /// Returns the bytes of scratch memory, which the largest batch so far determines.
    pub fn scratch_bytes(&self) -> usize {
        StoreOf::<K>::bytes_of_updater(&self.updater)
    }
}
impl<K: DeviceKey> SetUpdater<K> {
    /// Applies the operations to `keys[i]` sequentially, and writes the [`Outcome`] of each to
    /// `outcomes[i]`, as a byte.
    ///
    /// All operations are done on return: waits for the device and, if there is no room, makes the
    /// set [larger](Self#growth). See [the cost](Self#cost). On a GPU, allocates nothing if it has
    /// applied as many operations to as big a set before and the set does not grow.
    ///
    /// Errors: mismatched lengths, a set or buffers of another device, more than 2^31 - 1
    /// operations, faults of the file that the set was opened from, out of memory. After an error
    /// in the arguments the set is unchanged; after any other error, the outcomes state which
    /// operations are done.
    pub fn apply(
        &mut self,
        set: &mut Set<K>,
        stream: &Stream,
        operations: Operations<'_, SetOperation>,
        keys: View<'_, K>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        let keys = keys_on(stream, keys)?;
        set.store.apply(&mut self.updater, stream, operations, keys.view(), outcomes)
    }
}
/// Of keys in slots: of up to 8 bytes.
impl<K: DeviceKey + SlotKey> SetUpdater<K> {
    /// Like [`apply`](Self::apply), but on a GPU it does not wait, and the set does not grow.
    /// Operations without room are [not done](Outcome::NotDone), and the caller must look for them
    /// among the outcomes. If an operation is not done, neither are later ones on the same key. Can
    /// be recorded in a [graph](Stream::capture) after a call with as many operations.
    ///
    /// On a CPU, if an operation is not done, neither are later ones of the same partition.
    ///
    /// Errors: also a set whose partitions do not fit a block, as in files from other programs.
    /// [`apply`](Self::apply) rebuilds such a set.
    pub fn enqueue(
        &mut self,
        set: &mut Set<K>,
        stream: &Stream,
        operations: Operations<'_, SetOperation>,
        keys: View<'_, K>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        let keys = keys_on(stream, keys)?;
        let batch = operations_on(operations, keys.view())?;
        self.updater.0.enqueue(set.as_table_mut(), stream, batch, outcomes)
    }
}
pub(crate) fn operations_on<'a, K: KeyBits>(
    operations: Operations<'a, SetOperation>,
    keys: View<'a, K>,
) -> Result<Batch<'a, K, K>> {
    let operations = operations.codes(|operation| operation as u32);
    Ok(Batch { operations, keys, values: keys.slice(..0)? })
}
impl<K: Key> std::fmt::Debug for SetUpdater<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (key, bytes) = (std::any::type_name::<K>(), self.scratch_bytes());
        write!(f, "SetUpdater<{key}>[{bytes} bytes] on {}", self.device.name())
    }
}

impl<K: KeyBits> Updatable for Keys<K> {
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
        Ok(collect_map(keys_of(table, |key| (key, K::default()))?)?)
    }
    fn build_of(
        table: &mut Table<Self>,
        stream: &Stream,
        entries: EntriesOnHost<Self>,
        settings: Settings,
    ) -> Result<()> {
        let keys = collect(entries.into_keys())?;
        let keys = table.device.stage(&keys)?;
        let mut builder = Builder::new(&table.device, settings)?;
        let plan = builder.plan(stream, keys.view().len())?;
        *table = builder.build(plan, stream, keys.view())?;
        Ok(())
    }

    fn shared_bytes(buckets: u32, entries: u32, each: bool) -> Option<u32> {
        Some(shared_bytes(buckets, entries, each, size_of::<K>() as u32))
    }
    fn sparse_shared_bytes(sparse: Sparse) -> u32 {
        sparse_shared_bytes(sparse, size_of::<K>() as u32)
    }
    unsafe fn launch(stream: &Stream, applying: Applying, on: Launch<Self>) -> Result<()> {
        let Launch { table, sent, unstashed, batch, .. } = on;
        let grid = table.shape.partitions;
        // SAFETY: guaranteed by the caller.
        unsafe { set_update::launch(stream, grid, applying, table, sent, unstashed, batch) }
    }
    unsafe fn launch_sparse(
        stream: &Stream,
        grid: u32,
        sparse: Sparse,
        on: Launch<Self>,
    ) -> Result<()> {
        let Launch { table, sent, cursors, batch, .. } = on;
        // SAFETY: guaranteed by the caller.
        unsafe { set_update_sparse::launch(stream, grid, sparse, table, sent, cursors, batch) }
    }
    unsafe fn launch_left(
        stream: &Stream,
        grid: u32,
        applying: Applying,
        on: Launch<Self>,
    ) -> Result<()> {
        let Launch { table, sent, unstashed, batch, .. } = on;
        // SAFETY: guaranteed by the caller.
        unsafe { set_update_left::launch(stream, grid, applying, table, sent, unstashed, batch) }
    }
}

impl<K: Key> Set<K> {
    /// Inserts the keys in host memory that are missing: `outcomes[i]` is
    /// [`Inserted`](Outcome::Inserted) or [`Kept`](Outcome::Kept). Of equal new keys the first is
    /// inserted. Copies both ways and waits; a [`SetUpdater`] works in device memory and keeps its
    /// scratch memory.
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
    pub fn insert(&mut self, keys: impl AsKeys<K>) -> Result<Vec<Outcome>> {
        self.update_with(HostOperations::All(SetOperation::Insert), keys.as_keys())
    }
    /// Removes each key in host memory: the outcome is [`Erased`](Outcome::Erased) or
    /// [`Missing`](Outcome::Missing). The set keeps its memory: see [`shrink`](Self::shrink).
    /// Otherwise like [`insert`](Self::insert).
    pub fn erase(&mut self, keys: impl AsKeys<K>) -> Result<Vec<Outcome>> {
        self.update_with(HostOperations::All(SetOperation::Erase), keys.as_keys())
    }
    /// Applies `operations[i]` to `keys[i]`, sequentially. Otherwise like [`insert`](Self::insert).
    pub fn update(&mut self, operations: &[SetOperation], keys: &[K]) -> Result<Vec<Outcome>> {
        let codes = collect(operations.iter().map(|&operation| operation as u8))?;
        self.update_with(HostOperations::Each(&codes), keys)
    }
    fn update_with(
        &mut self,
        operations: HostOperations<'_, SetOperation>,
        keys: &[K],
    ) -> Result<Vec<Outcome>> {
        let keys = key_bits::<K, BitsOf<K>>(self.device(), keys)?;
        self.store.update(operations, &keys)
    }
    /// Rebuilds the set at load 0.8 if that saves memory, as after many erasures:
    /// [`shrink_to`](Self::shrink_to) with the default load.
    pub fn shrink(&mut self) -> Result<()> {
        self.shrink_to(SetOptions::default().load)
    }
    /// Rebuilds the set for its current keys at this load, unless that would take no less memory.
    /// Waits. Costs an export and a build, and memory for the keys, a new set and the build's
    /// scratch memory in addition to the old set.
    ///
    /// Errors: a load outside 0.3 to 0.95, out of memory. After an error the set is unchanged.
    pub fn shrink_to(&mut self, load: f64) -> Result<()> {
        self.store.shrink_to(load)
    }
}
