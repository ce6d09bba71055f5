//! Batched updates of maps: see [`MapUpdater`].
use super::export::{export, pairs_of};
use super::{LayoutOf, Map, MapOptions, MapStore, Pairs, StoreOf, StoredKey};
use crate::device::{Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::{Error, Result, count32};
use crate::fallible::{collect, collect_map};
use crate::table::plan::Plan;
use crate::table::update::{
    Batch, EntriesOnHost, HostOperations, Launch, Operations, Outcome, Updatable,
};
use crate::table::{Builder, Settings, Table};
use crate::types::{
    Addable, AsKeys, BitsOf, DeviceKey, DeviceValue, Key, KeyBits, SlotKey, SlotValue, Value,
    ValueBits, key_bits, keys_on, value_bits, values_on,
};
use koel_kernels::map::sparse::map_update_sparse;
use koel_kernels::map::update::{MAX_BUCKETS, map_update, map_update_left, shared_bytes};
use koel_kernels::table::layout::Layout;
use koel_kernels::table::sparse::{Sparse, shared_bytes as sparse_shared_bytes};
use koel_kernels::table::update::{Applying, operation};

pub(super) mod summed;
#[cfg(test)]
mod tests;

/// Operation on a key and its value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Operation {
    /// Inserts the key with the value if the key is missing; otherwise keeps its value.
    Insert = operation::INSERT as u8,
    /// Sets the value of the key, and inserts the key if it is missing.
    InsertOrAssign = operation::ASSIGN as u8,
    /// Adds the value to that of the key, modulo 2^32 or 2^64; a missing key is inserted with it.
    InsertOrAdd = operation::ADD as u8,
    /// Removes the key. Ignores the value.
    Erase = operation::ERASE as u8,
}
/// Changes maps in batches, and keeps scratch memory across batches.
///
/// A batch is an array of keys with values, and either one [`Operation`] for all or one for each.
/// The result equals that of applying the operations sequentially in array order, even if a key
/// occurs several times. Each operation reports its [`Outcome`], which is the same on every device.
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
/// On a GPU, operations change buckets in place where possible. One pass partitions them into bins
/// of several partitions each; then one block per bin reads and writes the buckets of its keys. For
/// 32-bit keys and values this takes 20 bytes of memory traffic per operation for the pass, 1 for
/// the outcome, 4 for the value, and 1 to 2 buckets of 32 bytes read and written at random. Wider
/// pairs cost twice as much. A second kernel, for whole partitions, does the rest: it reads such
/// partitions once, sequentially, changes them in shared memory, and writes back the changed
/// buckets. The rest are operations on keys that need more than two evictions, operations that come
/// after 31 others on the same bucket, and operations on stashed keys. A batch takes a fill and
/// four launches for every 2,100 operations per bin, or two million in a map of 2^24 pairs.
///
/// The kernel for whole partitions does everything in two cases. The first is a batch of
/// [insertions](Operation::Insert) with more than one key per seven buckets (three for wide pairs),
/// if these keys and the pairs that the map was built for exceed load 0.8: a third of the keys
/// would have to evict others. The second is the first batch after as many operations as the map
/// has slots, so that what erased keys leave behind in their buckets does not accumulate. There are
/// two passes then: 41 bytes of memory traffic per operation, one read of each partition that has
/// operations, and one write of each changed bucket. Unless operations are mixed, the cost does not
/// depend on how often a key occurs. A batch takes a fill and four launches (three up to 1,024
/// partitions) for every 600 operations per partition.
///
/// Scratch memory is about 32 bytes per operation, 64 for 64-bit keys, in both cases.
///
/// On a CPU, a batch of up to half as many operations as the map has slots changes buckets in
/// place, too: the calling thread alone if there are few, else all threads, each in ranges of
/// partitions. Batches of slices ([`insert`](Map::insert) and others) then allocate only their
/// outcomes. Whole partitions are taken apart and rebuilt for what that leaves, by a larger batch,
/// whose operations all threads sort by partition first, and by the first batch after as many
/// erasures as the map has slots, which rebuilds all of them.
///
/// # Growth
/// A partition that new keys would fill beyond 97 % is left unchanged. [`apply`](Self::apply) then
/// rebuilds the map for its current plus requested pairs, at the options' load (0.85 if that is
/// higher), and applies the remaining operations. This costs an export and a build, and memory for
/// the pairs, a new table and the build's scratch memory in addition to the old table. If only some
/// partitions are full rather than the map, as when keys were crafted against its seed, it is
/// rebuilt with another seed, drawn at random. Operations that are refused even then are applied on
/// the host, which always succeeds, but is slow. If a batch has more distinct keys in a partition
/// than a block has room for, it is split into halves, recursively.
///
/// On a CPU, a map grows to twice its buckets, so that pairs can come in small batches: beyond
/// load 0.75 after a batch with new keys, if it has an eighth more pairs than it was made for, and
/// beyond 0.88 as soon as a pair finds no room by two evictions. Each partition becomes two, whose
/// buckets are written once and in order; this takes memory for the new table in addition to the
/// old one. For a batch that does not fit then, it is rebuilt as above.
///
/// The placement of pairs in an updated map depends on its history: it is not
/// [reproducible](MapOptions::reproducible).
///
/// # Keys or values of more than 8 bytes
/// A batch is reduced to its distinct keys, which takes the table of a build, and each of them is
/// looked up; then rows, values and the table change once per key: see
/// [`keys128`](crate::keys128#changing-a-table). It waits for counts. Scratch memory is about 110
/// bytes per operation; about 60 more are allocated during a batch, and more if keys occur twice.
pub struct MapUpdater<K: Key = u32, V: Value = u32> {
    device: Device,
    updater: <StoreOf<K, V> as MapStore>::Updater,
}

impl<K: Key, V: Value> MapUpdater<K, V> {
    /// Creates an updater without scratch memory. Maps that grow are rebuilt with the load and seed
    /// of the options; those with keys or values of more than 8 bytes with the default ones.
    ///
    /// Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: MapOptions) -> Result<MapUpdater<K, V>> {
        let updater = StoreOf::<K, V>::updater(device, options)?;
        Ok(MapUpdater { device: device.clone(), updater })
    }
    /// Returns the bytes of scratch memory, which the largest batch so far determines.
    pub fn scratch_bytes(&self) -> usize {
        StoreOf::<K, V>::bytes_of_updater(&self.updater)
    }
}
impl<K: DeviceKey, V: DeviceValue> MapUpdater<K, V> {
    /// Applies the operations to `keys[i]`, `values[i]` sequentially, and writes the [`Outcome`] of
    /// each to `outcomes[i]`, as a byte. `values` may be empty if all operations
    /// [erase](Operation::Erase).
    ///
    /// All operations are done on return: waits for the device and, if there is no room, makes the
    /// map [larger](Self#growth). See [the cost](Self#cost). On a GPU, allocates nothing if it has
    /// applied as many operations to as big a map before and the map does not grow.
    ///
    /// Errors: mismatched lengths, a map or buffers of another device, more than 2^31 - 1
    /// operations, faults of the file that the map was opened from, out of memory. After an error
    /// in the arguments the map is unchanged; after any other error, the outcomes state which
    /// operations are done.
    pub fn apply(
        &mut self,
        map: &mut Map<K, V>,
        stream: &Stream,
        operations: Operations<'_>,
        keys: View<'_, K>,
        values: View<'_, V>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        check_adds::<V>(operations)?;
        let (keys, values) = (keys_on(stream, keys)?, values_on(stream, values)?);
        let (updater, keys, values) = (&mut self.updater, keys.view(), values.view());
        map.store.apply(updater, stream, operations, keys, values, outcomes)
    }
}
/// Of keys and values in slots: of up to 8 bytes.
impl<K: DeviceKey + SlotKey, V: DeviceValue + SlotValue> MapUpdater<K, V> {
    /// Like [`apply`](Self::apply), but on a GPU it does not wait, and the map does not grow.
    /// Operations without room are [not done](Outcome::NotDone), and the caller must look for them
    /// among the outcomes. If an operation is not done, neither are later ones on the same key. Can
    /// be recorded in a [graph](Stream::capture) after a call with as many operations.
    ///
    /// On a CPU, if an operation is not done, neither are later ones of the same partition.
    ///
    /// Errors: also a map whose partitions do not fit a block, as in files from other programs.
    /// [`apply`](Self::apply) rebuilds such a map.
    pub fn enqueue(
        &mut self,
        map: &mut Map<K, V>,
        stream: &Stream,
        operations: Operations<'_>,
        keys: View<'_, K>,
        values: View<'_, V>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        check_adds::<V>(operations)?;
        let (keys, values) = (keys_on(stream, keys)?, values_on(stream, values)?);
        let operations = operations.codes(|operation| operation as u32);
        let batch = Batch { operations, keys: keys.view(), values: values.view() };
        let updater = BitsOf::<V>::slot_updater::<BitsOf<K>>(&mut self.updater);
        updater.0.enqueue(map.as_table_mut(), stream, batch, outcomes)
    }
}
/// Checks operations on values of this type. Errors: operations that add, or may add, values that
/// are not [`Addable`].
pub(crate) fn check_adds<V: Value>(operations: Operations<'_>) -> Result<()> {
    match operations {
        Operations::All(Operation::InsertOrAdd) => adds::<V>("InsertOrAdd"),
        Operations::All(_) => Ok(()),
        Operations::Each(_) => adds::<V>("one for each key, which may be InsertOrAdd"),
    }
}
/// Errors: tables do not add values of this type, as the operations `found` do.
fn adds<V: Value>(found: &str) -> Result<()> {
    if V::ADDS {
        return Ok(());
    }
    Err(Error::Setting {
        field: "operations",
        found: found.into(),
        expected: format!("no addition of values of type {}", std::any::type_name::<V>()),
    })
}
impl<K: Key, V: Value> std::fmt::Debug for MapUpdater<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (key, value) = (std::any::type_name::<K>(), std::any::type_name::<V>());
        let (bytes, device) = (self.scratch_bytes(), self.device.name());
        write!(f, "MapUpdater<{key}, {value}>[{bytes} bytes] on {device}")
    }
}

impl<K: KeyBits, V: ValueBits> Updatable for Pairs<K, V> {
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
        Ok(collect_map(pairs_of(table, |key, value| (key, value))?)?)
    }
    fn build_of(
        table: &mut Table<Self>,
        stream: &Stream,
        entries: EntriesOnHost<Self>,
        settings: Settings,
    ) -> Result<()> {
        let (keys, values) =
            (collect(entries.keys().copied())?, collect(entries.values().copied())?);
        drop(entries);
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
    fn sparse_shared_bytes(sparse: Sparse) -> u32 {
        sparse_shared_bytes(sparse, size_of::<<LayoutOf<K, V> as Layout>::Mixed>() as u32)
    }
    unsafe fn launch(stream: &Stream, applying: Applying, on: Launch<Self>) -> Result<()> {
        let Launch { table, sent, unstashed, batch, .. } = on;
        let grid = table.shape.partitions;
        // SAFETY: guaranteed by the caller.
        unsafe {
            map_update::launch::<LayoutOf<K, V>, _>(
                stream, grid, applying, table, sent, unstashed, batch,
            )
        }
    }
    unsafe fn launch_sparse(
        stream: &Stream,
        grid: u32,
        sparse: Sparse,
        on: Launch<Self>,
    ) -> Result<()> {
        let Launch { table, sent, cursors, batch, .. } = on;
        // SAFETY: guaranteed by the caller.
        unsafe {
            map_update_sparse::launch::<LayoutOf<K, V>, _>(
                stream, grid, sparse, table, sent, cursors, batch,
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
        // SAFETY: guaranteed by the caller.
        unsafe {
            map_update_left::launch::<LayoutOf<K, V>, _>(
                stream, grid, applying, table, sent, unstashed, batch,
            )
        }
    }
}

impl<K: Key, V: Value> Map<K, V> {
    /// Inserts the keys in host memory that are missing, with their values: `outcomes[i]` is
    /// [`Inserted`](Outcome::Inserted) or [`Kept`](Outcome::Kept). Of equal keys the first counts.
    /// Copies both ways and waits; a [`MapUpdater`] works in device memory and keeps its scratch
    /// memory.
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
    pub fn insert(&mut self, keys: impl AsKeys<K>, values: &[V]) -> Result<Vec<Outcome>> {
        self.update_all(Operation::Insert, keys.as_keys(), values)
    }
    /// Sets the value of each key in host memory, and inserts missing keys: the outcome is
    /// [`Inserted`](Outcome::Inserted) or [`Assigned`](Outcome::Assigned). Of equal keys the last
    /// counts. Otherwise like [`insert`](Self::insert).
    pub fn insert_or_assign(&mut self, keys: impl AsKeys<K>, values: &[V]) -> Result<Vec<Outcome>> {
        self.update_all(Operation::InsertOrAssign, keys.as_keys(), values)
    }
    /// Adds each value to that of its key, modulo 2^32 or 2^64, and inserts missing keys: the
    /// outcome is [`Inserted`](Outcome::Inserted) or [`Added`](Outcome::Added). Otherwise like
    /// [`insert`](Self::insert).
    pub fn insert_or_add(&mut self, keys: impl AsKeys<K>, values: &[V]) -> Result<Vec<Outcome>>
    where
        V: Addable,
    {
        self.update_all(Operation::InsertOrAdd, keys.as_keys(), values)
    }
    /// Removes each key in host memory: the outcome is [`Erased`](Outcome::Erased) or
    /// [`Missing`](Outcome::Missing). The table keeps its memory: see [`shrink`](Self::shrink).
    /// Otherwise like [`insert`](Self::insert).
    pub fn erase(&mut self, keys: impl AsKeys<K>) -> Result<Vec<Outcome>> {
        self.update_all(Operation::Erase, keys.as_keys(), &[])
    }
    /// Applies `operations[i]` to `keys[i]` and `values[i]`, sequentially. Otherwise like
    /// [`insert`](Self::insert).
    pub fn update(
        &mut self,
        operations: &[Operation],
        keys: &[K],
        values: &[V],
    ) -> Result<Vec<Outcome>> {
        if operations.contains(&Operation::InsertOrAdd) {
            adds::<V>("InsertOrAdd")?;
        }
        let codes = collect(operations.iter().map(|&operation| operation as u8))?;
        self.update_with(HostOperations::Each(&codes), keys, values)
    }
    pub(crate) fn update_all(
        &mut self,
        operation: Operation,
        keys: &[K],
        values: &[V],
    ) -> Result<Vec<Outcome>> {
        self.update_with(HostOperations::All(operation), keys, values)
    }
    fn update_with(
        &mut self,
        operations: HostOperations<'_, Operation>,
        keys: &[K],
        values: &[V],
    ) -> Result<Vec<Outcome>> {
        // Before the other is converted.
        count32("values", values.len())?;
        let keys = key_bits::<K, StoredKey<K, V>>(self.device(), keys)?;
        let values = value_bits(self.device(), values)?;
        self.store.update(operations, &keys, &values)
    }
    /// Rebuilds the map at load 0.8 if that saves memory, as after many erasures:
    /// [`shrink_to`](Self::shrink_to) with the default load.
    pub fn shrink(&mut self) -> Result<()> {
        self.shrink_to(MapOptions::default().load)
    }
    /// Rebuilds the map for its current pairs at this load, unless that would take no less memory.
    /// Waits. Costs an export and a build, and memory for the pairs, a new table and the build's
    /// scratch memory in addition to the old table.
    ///
    /// Errors: a load outside 0.3 to 0.95, out of memory. After an error the map is unchanged.
    pub fn shrink_to(&mut self, load: f64) -> Result<()> {
        self.store.shrink_to(load)
    }
}
