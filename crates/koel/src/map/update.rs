//! Changing a map that is there, in batches: see [`MapUpdater`].
use super::export::{export, pairs_of};
use super::{Key, LayoutOf, Map, MapOptions, Pairs, Value};
use crate::device::{Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::Result;
use crate::table::plan::Plan;
use crate::table::update::{
    Batch, EntriesOnHost, Launch, Limits, Operations, Outcome, Updatable, Updater,
};
use crate::table::{Builder, Settings, Table};
use koel_kernels::map::few::map_update_few;
use koel_kernels::map::update::{MAX_BUCKETS, map_update, map_update_left, shared_bytes};
use koel_kernels::table::few::{Few, shared_bytes as few_shared_bytes};
use koel_kernels::table::layout::Layout;
use koel_kernels::table::update::{Applying, operation};

#[cfg(test)]
mod tests;

/// What is done with a key and its value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Operation {
    /// The key gets the value if it is missing; else it keeps what it has.
    Insert = operation::INSERT as u8,
    /// The key gets the value.
    InsertOrAssign = operation::ASSIGN as u8,
    /// The value is added to that of the key, modulo 2^32 or 2^64; a missing key gets it.
    InsertOrAdd = operation::ADD as u8,
    /// The key is removed. The value does not matter.
    Erase = operation::ERASE as u8,
}
/// Changes maps in batches, and keeps the memory that this needs from one batch to the next.
///
/// A batch is an array of keys with values, and either one [`Operation`] for all or one for each.
/// The result is that of doing one after the other, in the order of the array, also where a key
/// comes several times; each operation's [`Outcome`] is told.
///
/// ```
/// use koel::{Device, Map, MapOptions, MapUpdater, Operation, Operations, Outcome};
///
/// let device = Device::cpu()?;
/// let stream = device.stream()?;
/// let mut map = Map::build(&device, &[3u32, 5, 7], &[30u32, 50, 70])?;
/// let mut updater = MapUpdater::new(&device, MapOptions::default())?;
/// let keys = device.upload(&[5u32, 6, 6])?;
/// let values = device.upload(&[1u32, 2, 3])?;
/// let mut outcomes = device.alloc::<u8>(3)?;
/// let all = Operations::All(Operation::InsertOrAdd);
/// for _frame in 0..3 {
///     updater.apply(&mut map, &stream, all, keys.view(), values.view(), outcomes.view_mut())?;
/// }
/// assert_eq!(map.get(&[3, 5, 6])?, [Some(30), Some(53), Some(15)]);
/// assert_eq!(Outcome::of(outcomes.download()?[0]), Some(Outcome::Added));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Cost
/// On a GPU one pass brings the operations into groups, each of some partitions, and one block a
/// group reads and writes the buckets of its keys, where they lie. Of 32-bit keys and values that
/// is 20 bytes of memory traffic an operation for the groups, 1 for the outcome, 4 for a value, and
/// 1 to 2 buckets of 32 bytes read and written at random; wider pairs cost twice as much. What is
/// not done so, the kernel of whole partitions does behind it: it reads those once, in order,
/// changes them in shared memory and writes the buckets that changed. That are keys for which no
/// other key makes room in two steps, operations behind 31 others on the same bucket, and what is
/// in the stash. A fill and four launches, for each 2,100 operations a group, two million in a map
/// of 2^24 pairs.
///
/// All is done in whole partitions where keys are [inserted](Operation::Insert), one for seven
/// buckets or more (for three of wide pairs), and a map as full as it was built for would pass a
/// load of 0.8, because a third of them would have to evict others. And so it is once whenever as
/// many operations were done as the map has slots, so that what erased keys leave behind in the
/// buckets does not become more and more. Then there are two passes and 41 bytes an operation, the
/// partitions that have operations read once, and the changed buckets written; operations without
/// order inside a key (all but mixed ones) cost the same however often a key comes.
/// A fill and four launches (three up to 1,024 partitions), for each 600 operations a partition.
///
/// Scratch memory for either way is about 32 bytes an operation, 64 for 64-bit keys.
///
/// On a CPU operations are sorted by partition, and partitions with operations taken apart and put
/// together again, by all threads.
///
/// # Growth
/// A partition that new keys would fill to more than 97 % stays as it was. Then
/// [`apply`](Self::apply) builds the map again, for as many pairs as there are and are wanted, at
/// the options' load (0.85 at most), and does what is not done: the cost of an export and a build,
/// and memory for the pairs, a new table and a build's scratch besides the old table. Where it is
/// not the map that is full, only some partitions, as when keys were chosen against its seed, it is
/// built again by another seed, drawn at random. What is refused even then is done on the host:
/// always possible, and slow. A partition of which a batch has more different keys than its block
/// has room for makes the batch be done in two halves, and so on.
///
/// An updated map has its pairs where its history brought them: it is not
/// [reproducible](MapOptions::reproducible).
pub struct MapUpdater<K: Key = u32, V: Value = u32> {
    updater: Updater<Pairs<K, V>>,
}

impl<K: Key, V: Value> MapUpdater<K, V> {
    /// Without memory yet. Maps that grow are built with the options' load and seed.
    ///
    /// Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: MapOptions) -> Result<MapUpdater<K, V>> {
        MapUpdater::with_limits(device, options, Limits::TUNED)
    }
    /// With other limits than the best, so that tests take every way.
    pub(super) fn with_limits(
        device: &Device,
        options: MapOptions,
        limits: Limits,
    ) -> Result<MapUpdater<K, V>> {
        Ok(MapUpdater { updater: Updater::new(device, options.into(), limits)? })
    }
    /// Bytes that it keeps: what the greatest batch so far needed.
    pub fn scratch_bytes(&self) -> usize {
        self.updater.scratch_bytes()
    }

    /// Does the operations on `keys[i]`, `values[i]`, one after the other: `outcomes[i]` becomes
    /// the [`Outcome`] as a byte. If all [erase](Operation::Erase), there need be no values.
    ///
    /// All are done when it returns: it waits for the device and, if there is no room, makes the
    /// map [larger](Self#growth). See [the cost](Self#cost). On a GPU nothing is allocated if
    /// there were as many operations on as big a map before and it does not grow.
    ///
    /// Errors: lengths that differ, a map or buffers of another device, more operations than 31-bit
    /// numbers reach, faults of a file that the map was opened from, out of memory. After an
    /// error of the arguments the map is as it was; after any other one all operations are done
    /// or not, as their outcomes tell.
    pub fn apply(
        &mut self,
        map: &mut Map<K, V>,
        stream: &Stream,
        operations: Operations<'_>,
        keys: View<'_, K>,
        values: View<'_, V>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        let operations = operations.codes(|operation| operation as u32);
        self.updater.apply(&mut map.table, stream, Batch { operations, keys, values }, outcomes)
    }
    /// As [`apply`](Self::apply), but on a GPU it does not wait, and the map does not grow:
    /// operations for which there is no room are [not done](Outcome::NotDone), and it is for
    /// the caller to look for those among the outcomes. Of operations on one key none is
    /// done behind one that is not. It can be recorded in a [graph](Stream::capture) if it has been
    /// called with as many operations before.
    ///
    /// On a CPU, operations behind one of the same partition that was not done are not done either.
    ///
    /// Errors: besides, a map whose partitions no block has room for, as other programs may have
    /// made them: [`apply`](Self::apply) builds such a map again.
    pub fn enqueue(
        &mut self,
        map: &mut Map<K, V>,
        stream: &Stream,
        operations: Operations<'_>,
        keys: View<'_, K>,
        values: View<'_, V>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        let operations = operations.codes(|operation| operation as u32);
        self.updater.enqueue(&mut map.table, stream, Batch { operations, keys, values }, outcomes)
    }
}
impl<K: Key, V: Value> std::fmt::Debug for MapUpdater<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (key, value) = (std::any::type_name::<K>(), std::any::type_name::<V>());
        self.updater.describe(f, &format!("MapUpdater<{key}, {value}>"))
    }
}

impl<K: Key, V: Value> Updatable for Pairs<K, V> {
    fn rebuild(
        table: &mut Table<Self>,
        stream: &Stream,
        room: usize,
        settings: Settings,
    ) -> Result<()> {
        let (device, n) = (&table.device, table.len()?);
        let (mut keys, mut values, mut count) =
            (device.alloc(n)?, device.alloc(n)?, device.alloc(1)?);
        export(table, stream, keys.view_mut(), values.view_mut(), count.view_mut())?;
        let settings = Settings { duplicates: Duplicates::Unchecked, ..settings };
        let mut builder = Builder::new(device, settings)?;
        let plan = Plan { n: n as u32, ..Plan::new(room.max(n), settings.load)? };
        *table = builder.build(plan, stream, (keys.view(), values.view()))?;
        Ok(())
    }
    fn entries_on_host(table: &Table<Self>) -> Result<EntriesOnHost<Self>> {
        Ok(pairs_of(table)?.into_iter().collect())
    }
    fn build_of(
        table: &mut Table<Self>,
        stream: &Stream,
        entries: EntriesOnHost<Self>,
        settings: Settings,
    ) -> Result<()> {
        let (keys, values): (Vec<K>, Vec<V>) = entries.into_iter().unzip();
        let (keys, values) = (table.device.stage(&keys)?, table.device.stage(&values)?);
        let settings = Settings { duplicates: Duplicates::Unchecked, ..settings };
        let mut builder = Builder::new(&table.device, settings)?;
        let plan = builder.plan(stream, keys.view().len())?;
        *table = builder.build(plan, stream, (keys.view(), values.view()))?;
        Ok(())
    }

    fn shared_bytes(buckets: u32, entries: u32, each: bool) -> Option<u32> {
        (buckets <= MAX_BUCKETS).then(|| shared_bytes(buckets, entries, each, size_of::<V>() > 4))
    }
    fn few_shared_bytes(few: Few) -> u32 {
        few_shared_bytes(few, size_of::<<LayoutOf<K, V> as Layout>::Mixed>() as u32)
    }
    unsafe fn launch(stream: &Stream, applying: Applying, on: Launch<Self>) -> Result<()> {
        let Launch { table, sent, unstashed, batch, .. } = on;
        let grid = table.shape.partitions;
        // SAFETY: the caller's.
        unsafe {
            map_update::launch::<LayoutOf<K, V>, _>(
                stream, grid, applying, table, sent, unstashed, batch,
            )
        }
    }
    unsafe fn launch_few(stream: &Stream, grid: u32, few: Few, on: Launch<Self>) -> Result<()> {
        let Launch { table, sent, cursors, batch, .. } = on;
        // SAFETY: the caller's.
        unsafe {
            map_update_few::launch::<LayoutOf<K, V>, _>(
                stream, grid, few, table, sent, cursors, batch,
            )
        }
    }
    unsafe fn launch_left(
        stream: &Stream,
        grid: u32,
        applying: Applying,
        on: Launch<Self>,
    ) -> Result<()> {
        let Launch { table, sent, unstashed, batch, .. } = on;
        // SAFETY: the caller's.
        unsafe {
            map_update_left::launch::<LayoutOf<K, V>, _>(
                stream, grid, applying, table, sent, unstashed, batch,
            )
        }
    }
}

impl<K: Key, V: Value> Map<K, V> {
    /// Gives each of the host keys its value, unless the map holds it already: `outcomes[i]` is
    /// [`Inserted`](Outcome::Inserted) or [`Kept`](Outcome::Kept). Of equal keys the first
    /// counts. Copies both ways and waits; a [`MapUpdater`] works on the device and keeps
    /// its memory.
    ///
    /// ```
    /// use koel::Outcome::*;
    ///
    /// let mut map = koel::Map::build(&koel::Device::cpu()?, &[3u32, 5], &[30u32, 50])?;
    /// assert_eq!(map.insert(&[5, 7, 7], &[51, 70, 71])?, [Kept, Inserted, Kept]);
    /// assert_eq!(map.insert_or_assign(&[5], &[52])?, [Assigned]);
    /// assert_eq!(map.insert_or_add(&[5, 9], &[3, 90])?, [Added, Inserted]);
    /// assert_eq!(map.erase(&[3, 4])?, [Erased, Missing]);
    /// assert_eq!(map.get(&[3, 5, 7, 9])?, [None, Some(55), Some(70), Some(90)]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: as [`MapUpdater::apply`].
    pub fn insert(&mut self, keys: &[K], values: &[V]) -> Result<Vec<Outcome>> {
        self.update_all(Operation::Insert, keys, values)
    }
    /// Gives each of the host keys its value; of equal keys the last counts:
    /// [`Inserted`](Outcome::Inserted) or [`Assigned`](Outcome::Assigned). Otherwise as
    /// [`insert`](Self::insert).
    pub fn insert_or_assign(&mut self, keys: &[K], values: &[V]) -> Result<Vec<Outcome>> {
        self.update_all(Operation::InsertOrAssign, keys, values)
    }
    /// Adds each value to that of its key, which gets it if it is missing:
    /// [`Inserted`](Outcome::Inserted) or [`Added`](Outcome::Added). Sums wrap. Otherwise as
    /// [`insert`](Self::insert).
    pub fn insert_or_add(&mut self, keys: &[K], values: &[V]) -> Result<Vec<Outcome>> {
        self.update_all(Operation::InsertOrAdd, keys, values)
    }
    /// Removes each of the host keys: [`Erased`](Outcome::Erased) or [`Missing`](Outcome::Missing).
    /// The table keeps its memory: see [`shrink`](Self::shrink). Otherwise as
    /// [`insert`](Self::insert).
    pub fn erase(&mut self, keys: &[K]) -> Result<Vec<Outcome>> {
        self.update_all(Operation::Erase, keys, &[])
    }
    /// Does `operations[i]` with `keys[i]` and `values[i]`, one after the other. Otherwise as
    /// [`insert`](Self::insert).
    pub fn update(
        &mut self,
        operations: &[Operation],
        keys: &[K],
        values: &[V],
    ) -> Result<Vec<Outcome>> {
        let codes = operations.iter().map(|&operation| operation as u8).collect::<Vec<_>>();
        let device = self.device().clone();
        let codes = device.stage(&codes)?;
        self.update_with(Operations::Each(codes.view()), keys, values)
    }
    fn update_all(
        &mut self,
        operation: Operation,
        keys: &[K],
        values: &[V],
    ) -> Result<Vec<Outcome>> {
        self.update_with(Operations::All(operation), keys, values)
    }
    fn update_with(
        &mut self,
        operations: Operations<'_>,
        keys: &[K],
        values: &[V],
    ) -> Result<Vec<Outcome>> {
        let device = self.device().clone();
        let (staged_keys, staged_values) = (device.stage(keys)?, device.stage(values)?);
        let mut outcomes = device.alloc::<u8>(keys.len())?;
        let (keys, values) = (staged_keys.view(), staged_values.view());
        let mut updater = MapUpdater::new(&device, MapOptions::default())?;
        updater.apply(self, &device.stream()?, operations, keys, values, outcomes.view_mut())?;
        Ok(Outcome::all(outcomes.download()?))
    }
    /// Builds it again for the pairs that it has, at a load of 0.8, unless that takes no less
    /// memory than it has: memory that erased pairs leave is given back.
    pub fn shrink(&mut self) -> Result<()> {
        self.shrink_to(MapOptions::default().load)
    }
    /// Builds it again for the pairs that it has, at this load; it stays as it is if that takes no
    /// less memory than it has. Waits. Costs an export and a build, and memory for the pairs, a
    /// new table and a build's scratch besides the old table.
    ///
    /// Errors: a load outside 0.3 to 0.95, out of memory. After an error it is as it was.
    pub fn shrink_to(&mut self, load: f64) -> Result<()> {
        self.table.shrink(MapOptions::default().with_load(load).into())
    }
}
