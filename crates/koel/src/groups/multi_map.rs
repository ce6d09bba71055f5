//! Multimaps: all values of each key.
use super::grouped::PairSorter;
use super::index::StoreOf;
use super::parting::{Parting, PartingSizes, brought, group};
use super::{
    Grouped, Grouping, Groups, Index, IndexOptions, IndexStore, MultiMapRef, SlotIndex, places_of,
    retrieve,
};
use crate::device::{Apart, Buffer, Device, Stream, View, ViewMut};
use crate::error::{Error, Result, check_length, count32};
use crate::file::reader::Mapping;
use crate::file::stored::Stored;
use crate::map::SlotMapBuilder;
use crate::primitives::Scan;
use crate::seed::Seeds;
use crate::table::plan::Plan;
use crate::types::{
    Bits, BitsOf, DeviceKey, DeviceValue, Key, KeyBits, Value, ValueBits, ordered_on,
    stage_ordered, stage_values, values_on, write_some,
};
use koel_kernels::table::layout::mixed_alike;
use std::fmt;

/// Order in which a [`MultiMap`] keeps its pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ValueOrder {
    /// Values of a key in input order, keys in ascending order: the same in every run and on every
    /// device. Pairs are sorted.
    #[default]
    Input,
    /// Unspecified order: groups and their values may be ordered differently in every run. Large
    /// inputs on a GPU are partitioned by hash, which moves half as many bytes as sorting. Inputs
    /// in which a few keys have most of the pairs are sorted nevertheless, as are all inputs on a
    /// CPU.
    Any,
}
/// Build options of a multimap.
#[derive(Clone, Copy, Debug)]
pub struct MultiMapOptions {
    /// Load factor in keys per slot of the table, 0.3 to 0.95. High loads save memory, low loads
    /// save time.
    pub load: f64,
    /// Hash seed, as for a [map](crate::MapOptions::seed). With [`ValueOrder::Input`] answers do
    /// not depend on it.
    pub seed: Option<u32>,
    /// Order of keys and values. Keys of more than 8 bytes are in order of first occurrence, and
    /// their values in input order.
    pub order: ValueOrder,
}
crate::options::setters! { MultiMapOptions:
    load by with_load: f64;
    seed by with_seed: impl Into<Option<u32>>;
    order by with_order: ValueOrder;
}
impl Default for MultiMapOptions {
    #[inline]
    fn default() -> Self {
        let IndexOptions { load, seed } = IndexOptions::default();
        MultiMapOptions { load, seed, order: ValueOrder::default() }
    }
}

/// A hash table that keeps every value of every key. The values of a key are contiguous, in input
/// order unless [`ValueOrder::Any`] is selected. Keys and values are of [any type](crate::types)
/// of up to 16 bytes.
///
/// ```
/// let device = koel::Device::cpu()?;
/// let map = koel::MultiMap::build(&device, &[7u32, 3, 7], &[70u32, 30, 71])?;
/// assert_eq!(map.counts(&[7, 8])?, [2, 0]);
/// let found = map.retrieve(&[7, 8, 3])?;
/// assert_eq!((found.of(0), found.of(1), found.of(2)), (&[70, 71][..], &[][..], &[30][..]));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # How it works
/// The pairs are sorted by key, as in the second multi-value table of Alcantara et al. 2011. An
/// [`Index`] of the distinct keys maps a key to its group, and an array holds the start of each
/// group. Sorting time does not depend on how the values are distributed over the keys. Answers are
/// the same on every device and in every run. With [any order](ValueOrder::Any), the pairs go to
/// the partitions of a [`Map`](crate::Map) instead, blocks group each partition in shared memory,
/// and the index reuses those partitions.
///
/// A lookup reads a sector of the index, 1.13 of them on average at load 0.8, and one with the
/// start of the group; then its values, which are contiguous.
///
/// # Keys of more than 8 bytes
/// Such keys are not sorted: an [`Index`] gives them ids in order of first occurrence, and the
/// pairs are sorted by id. Values of a key are in input order, whichever order is requested.
///
/// ```
/// let device = koel::Device::cpu()?;
/// let edges = [(1u64, 2u64), (2, 1), (1, 2)];
/// let map = koel::MultiMap::build(&device, &edges, &[0.5, 1.0, 1.5])?;
/// assert_eq!(map.index().keys()?, [(1, 2), (2, 1)]);
/// assert_eq!(map.retrieve(&[(1, 2), (2, 2)])?.of(0), [0.5, 1.5]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Values of more than 8 bytes
/// The numbers of their rows are sorted, and the values then copied to their places: a build takes
/// 36 bytes of memory traffic more per pair than with 4 bytes, in sectors at random.
///
/// # Memory
/// The values; 4 bytes and an entry of an [`Index`] per distinct key.
#[doc(alias("group by"))]
pub struct MultiMap<K: Key = u32, V: Value = u32> {
    pub(super) index: Index<K>,
    pub(super) grouped: Grouped<BitsOf<V>>,
}
impl<K: Key, V: Value> MultiMap<K, V> {
    /// Builds a multimap from pairs `keys[i]`, `values[i]` in host memory, with default options.
    /// Copies and waits.
    ///
    /// Errors: mismatched lengths, more pairs than 31-bit indices can address, out of memory.
    pub fn build(device: &Device, keys: &[K], values: &[V]) -> Result<MultiMap<K, V>> {
        MultiMap::build_with(device, MultiMapOptions::default(), keys, values)
    }
    /// Builds a multimap like [`build`](Self::build), with other options.
    ///
    /// Errors: also a load outside 0.3 to 0.95.
    pub fn build_with(
        device: &Device,
        options: MultiMapOptions,
        keys: &[K],
        values: &[V],
    ) -> Result<MultiMap<K, V>> {
        count32("keys", keys.len())?;
        count32("values", values.len())?;
        check_length("values", values.len(), "keys", keys.len())?;
        let (keys, values) = (stage_ordered(device, keys)?, stage_values(device, values)?);
        let mut grouper = StoreOf::<K>::grouper::<SortedOf<V>>(device, options)?;
        let stream = device.stream()?;
        MultiMap::of_bits(&mut grouper, &stream, keys.view(), values.view())
    }
    /// Builds the multimap of bits.
    fn of_bits(
        grouper: &mut GrouperOf<K, V>,
        stream: &Stream,
        keys: View<'_, BitsOf<K>>,
        values: View<'_, BitsOf<V>>,
    ) -> Result<MultiMap<K, V>> {
        let (store, grouped) = Bits::grouped(stream, values, |values| {
            StoreOf::<K>::grouped(grouper, stream, keys, values)
        })?;
        Ok(MultiMap { index: Index { store }, grouped })
    }
    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.grouped.values.len()
    }
    /// Returns whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the distinct keys. The values of the key with id `i` are those from `starts()[i]` to
    /// `starts()[i + 1]`. Ids follow key order, except with [any order](ValueOrder::Any): they are
    /// not those that [`Index::build`] gives to the same keys.
    pub fn index(&self) -> &Index<K> {
        &self.index
    }
    /// Returns the start of the values of each key, in id order, and the end of the last.
    pub fn starts_view(&self) -> View<'_, u32> {
        self.grouped.starts.view()
    }
    /// Downloads all values, in id order. Waits.
    ///
    /// Errors: out of memory.
    pub fn values(&self) -> Result<Vec<V>> {
        self.grouped.values.view().download_map(|bits| V::unpack(bits.into()))
    }
    /// Returns the device that holds the multimap.
    pub fn device(&self) -> &Device {
        self.index.device()
    }
    /// Returns the bytes of device memory that the multimap occupies.
    pub fn bytes(&self) -> usize {
        self.index.bytes() + self.grouped.bytes()
    }
    /// Copies the multimap to another device, or to the same one: the same bytes, the same answers.
    /// Copies through host memory and waits. An [opened](Self::open) multimap is verified first,
    /// then copied from where it is.
    ///
    /// Errors: out of memory; for an opened multimap, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<MultiMap<K, V>> {
        let _apart = Apart::begin();
        let (index, grouped) = (self.index.to_device(device)?, self.grouped.to_device(device)?);
        Ok(MultiMap { index, grouped })
    }
    /// Returns the number of values of each key in host memory. Copies both ways and waits.
    pub fn counts(&self, keys: &[K]) -> Result<Vec<u32>> {
        let device = self.device();
        let (staged, stream) = (stage_ordered(device, keys)?, device.stream()?);
        let mut counts = device.alloc(keys.len())?;
        self.counts_of_bits(&stream, staged.view(), counts.view_mut())?;
        counts.download()
    }
    /// See [`counts_into`](Self::counts_into).
    fn counts_of_bits(
        &self,
        stream: &Stream,
        keys: View<'_, BitsOf<K>>,
        mut counts: ViewMut<'_, u32>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        check_length("counts", counts.len(), "keys", keys.len())?;
        self.index.ids_of_bits(stream, keys, counts.reborrow())?;
        self.grouped.counts(stream, counts)
    }
    /// Returns all values of keys in host memory, in query order. Copies both ways and waits.
    ///
    /// Errors: out of memory.
    pub fn retrieve(&self, keys: &[K]) -> Result<Retrieved<V>> {
        let staged = stage_ordered(self.device(), keys)?;
        self.grouped.retrieve(self.device(), keys.len(), |stream, ids| {
            self.index.ids_of_bits(stream, staged.view(), ids)
        })
    }
}
impl<K: Bits, V: Bits> MultiMap<K, V> {
    /// Returns all values, in id order.
    pub fn values_view(&self) -> View<'_, V> {
        self.grouped.values.view()
    }
}
impl<K: DeviceKey, V: Value> MultiMap<K, V> {
    /// Writes the number of values of each key to `counts[i]`.
    ///
    /// Takes two launches, allocates nothing and does not wait. Per key, takes a lookup in the
    /// index, 12 bytes and one sector. Errors: mismatched lengths, buffers of another device.
    pub fn counts_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        counts: ViewMut<'_, u32>,
    ) -> Result<()> {
        self.counts_of_bits(stream, ordered_on(stream, keys)?.view(), counts)
    }
}
impl<K: KeyBits, V: ValueBits> MultiMap<K, V> {
    /// Returns the multimap as a kernel argument, for lookups in a kernel launched on `stream`: see
    /// [`Map::table`](crate::Map::table).
    ///
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let map = koel::MultiMap::build(&device, &[7u32, 3, 7], &[70u32, 30, 71])?;
    /// let (table, mut sum) = (map.table(&device.stream()?)?, 0);
    /// // Host code can look keys up in it too, if the table is in host memory.
    /// // SAFETY: the map exists and is not changed.
    /// let table = unsafe { table.on_host() };
    /// table.for_each(7, |value| sum += value);
    /// assert_eq!(sum, 141);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// An [opened](Self::open) multimap is verified first, once: kernels do not check the bounds of
    /// groups given in the file. Errors: a stream of another device; faults of the file.
    pub fn table(&self, stream: &Stream) -> Result<MultiMapRef<K::Layout<u32>, V>> {
        self.grouped.values.file().map_or(Ok(()), Mapping::verify_once)?;
        Ok(MultiMapRef {
            table: self.index.map().table(stream)?,
            starts: self.grouped.starts.view().arg("starts", stream)?,
            values: self.grouped.values.view().arg("values", stream)?,
        })
    }
}
impl<K: Key, V: Value> fmt::Debug for MultiMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = (std::any::type_name::<K>(), std::any::type_name::<V>());
        let (keys, device) = (self.index.len(), self.device().name());
        write!(f, "MultiMap<{key}, {value}>[{} pairs of {keys} keys] on {device}", self.len())
    }
}

/// Values of a batch of keys, on the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Retrieved<V> {
    /// The values of query `i` are those from `offsets[i]` to `offsets[i + 1]`.
    pub offsets: Vec<u64>,
    /// The values of all queries.
    pub values: Vec<V>,
}
impl<V> Retrieved<V> {
    /// Returns the values of query `i`, in the multimap's [order](ValueOrder).
    pub fn of(&self, i: usize) -> &[V] {
        &self.values[self.offsets[i] as usize..self.offsets[i + 1] as usize]
    }
}

/// Builds multimaps, and keeps scratch memory across builds.
///
/// On a GPU, a build is a radix sort of the pairs, a launch that finds the distinct keys, and a map
/// build of those; it waits once, for their number. Memory traffic for 32-bit pairs: 68 bytes per
/// pair for the sort, 4 for the runs, and 62 per distinct key.
///
/// A build in [any order](ValueOrder::Any), from 2^18 pairs on, is: a launch that samples the keys,
/// five fills, two partition passes (one for up to 3 million pairs), a scan of the bins, a launch
/// that groups, a scan of the groups, and two launches for the map, which reuses the partitions (an
/// ordinary map build if there are too few keys for that). It waits three times. Memory traffic: 44
/// bytes per pair, and 34 per distinct key.
///
/// A build with keys of 128 bits is that of their [index](crate::IndexBuilder), a lookup of each
/// key, and a sort of pairs of ids and values.
///
/// ```
/// use koel::{Device, MultiMapBuilder, MultiMapOptions, ValueOrder};
///
/// let device = Device::cpu()?;
/// let (keys, values) = (device.upload(&[7u32, 3, 7])?, device.upload(&[70u32, 30, 71])?);
/// let options = MultiMapOptions::default().with_order(ValueOrder::Any);
/// let mut builder = MultiMapBuilder::new(&device, options)?;
/// let map = builder.build(&device.stream()?, keys.view(), values.view())?;
/// let mut of_seven = map.retrieve(&[7])?.of(0).to_vec();
/// of_seven.sort();
/// assert_eq!(of_seven, [70, 71]);
/// # Ok::<(), koel::Error>(())
/// ```
pub struct MultiMapBuilder<K: Key = u32, V: Value = u32> {
    grouper: GrouperOf<K, V>,
}
/// What is sorted in place of values.
type SortedOf<V> = <BitsOf<V> as Bits>::Sorted;
/// What groups values by keys.
type GrouperOf<K, V> = <StoreOf<K> as IndexStore>::Grouper<SortedOf<V>>;
impl<K: DeviceKey, V: DeviceValue> MultiMapBuilder<K, V> {
    /// Creates a builder. Errors: a load factor outside 0.3 to 0.95.
    pub fn new(device: &Device, options: MultiMapOptions) -> Result<MultiMapBuilder<K, V>> {
        Ok(MultiMapBuilder { grouper: StoreOf::<K>::grouper::<SortedOf<V>>(device, options)? })
    }
    /// Builds the multimap of pairs `keys[i]`, `values[i]`. Waits.
    ///
    /// Allocates the multimap, and scratch memory if there are more pairs than ever before: 4 times
    /// the keys, the values, and somewhat more; in any order 5 times the keys and twice the values,
    /// increasing with the frequency of keys; for keys of 128 bits that of an index, 16 bytes and
    /// the value. Errors: mismatched lengths, more pairs than 31-bit indices can address, buffers
    /// of another device, out of memory.
    pub fn build(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<MultiMap<K, V>> {
        let (keys, values) = (ordered_on(stream, keys)?, values_on(stream, values)?);
        MultiMap::of_bits(&mut self.grouper, stream, keys.view(), values.view())
    }
    /// Returns the bytes of device memory that the builder keeps for sorting, partitioning and
    /// grouping.
    pub fn scratch_bytes(&self) -> usize {
        StoreOf::<K>::bytes_of_grouper::<SortedOf<V>>(&self.grouper)
    }
}

/// Groups values by keys in slots: what builds multimaps of these.
pub struct KeyGrouper<K: KeyBits, V: ValueBits> {
    device: Device,
    options: MultiMapOptions,
    sizes: PartingSizes,
    map: SlotMapBuilder<K, u32>,
    parting: Option<Parting>,
    sorter: PairSorter<K, V>,
}
impl<K: KeyBits, V: ValueBits> KeyGrouper<K, V> {
    pub(super) fn new(device: &Device, options: MultiMapOptions) -> Result<KeyGrouper<K, V>> {
        KeyGrouper::sized(device, options, PartingSizes::TUNED)
    }
    /// Uses sizes other than the tuned ones.
    pub(super) fn sized(
        device: &Device,
        options: MultiMapOptions,
        sizes: PartingSizes,
    ) -> Result<KeyGrouper<K, V>> {
        let MultiMapOptions { load, seed, .. } = options;
        let map = SlotMapBuilder::new(
            device,
            IndexOptions::default().with_load(load).with_seed(seed).of_map(),
        )?;
        Ok(KeyGrouper {
            device: device.clone(),
            options,
            sizes,
            map,
            parting: None,
            sorter: PairSorter::new(),
        })
    }
    /// See [`IndexStore::grouped`]. Waits.
    pub(super) fn grouped(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<(SlotIndex<K>, Grouped<V>)> {
        let _apart = Apart::begin();
        let (device, n) = (&self.device, keys.len());
        check_length("values", values.len(), "keys", n)?;
        count32("keys", n)?;
        keys.arg("keys", stream)?;
        values.arg("values", stream)?;
        let grouping = Grouping::reserve(device, &mut self.sorter.grouping, n)?;
        let mut grouped = device.alloc(n)?;
        // Complement the seed, so that a map that does not reuse the partitions mixes differently:
        // to it, the keys of one partition have nothing in common.
        let (MultiMapOptions { load, seed, order }, mut parted) = (self.options, None);
        let seeds = Seeds::new(seed, false);
        if order == ValueOrder::Any {
            let (kept, to) = (&mut self.parting, grouped.view_mut());
            parted = group(
                stream,
                self.sizes,
                Seeds { first: !seeds.first, ..seeds },
                (keys, values),
                kept,
                grouping,
                to,
            )?;
        }
        let Groups { keys, starts } = match parted {
            Some(parted) => {
                let (groups, partitions) = (parted.groups, parted.firsts.len() as u32);
                let plan = match mixed_alike::<K::Layout<V>, K::Layout<u32>>() {
                    true => Plan::of_ordered(groups, load, partitions, self.sizes.keys)?,
                    false => None,
                };
                if let Some(plan) = plan {
                    let (mut keys, mut starts) = (device.alloc(groups)?, device.alloc(groups + 1)?);
                    let kept = (keys.view_mut(), starts.view_mut());
                    let map = self.map.build_from_groups(stream, plan, parted, kept)?;
                    let (starts, values) = (Stored::Own(starts), Stored::Own(grouped));
                    let index = SlotIndex { map, keys: Stored::Own(keys) };
                    return Ok((index, Grouped { starts, values }));
                }
                brought(stream, &parted)?
            }
            None => self.sorter.sorted(stream, keys, values, grouped.view_mut())?,
        };
        let numbers = Grouping::reserve(device, &mut self.sorter.grouping, n)?.numbers.view();
        let index = SlotIndex::of_distinct(stream, &mut self.map, numbers, keys)?;
        Ok((index, Grouped { starts: Stored::Own(starts), values: Stored::Own(grouped) }))
    }
    pub(super) fn scratch_bytes(&self) -> usize {
        self.sorter.scratch_bytes() + self.parting.as_ref().map_or(0, Parting::bytes)
    }
}

/// Retrieves the values of many keys in two steps, and keeps the memory for them: first the
/// [positions](Self::find) of the output, then the [values](Self::values_into). Between the steps,
/// [`total`](Self::total) returns the number of values.
///
/// ```
/// use koel::{Device, MultiMap, Retriever};
///
/// let device = Device::cpu()?;
/// let stream = device.stream()?;
/// let map = MultiMap::build(&device, &[7u32, 3, 7], &[70u32, 30, 71])?;
/// let queries = device.upload(&[3u32, 7])?;
/// let mut retriever = Retriever::new(&device, 2)?;
/// retriever.find(&stream, &map, queries.view())?;
/// let mut values = device.alloc(retriever.total()?)?;
/// retriever.values_into(&stream, &map, values.view_mut())?;
/// assert_eq!(values.download()?, [30, 70, 71]);
/// # Ok::<(), koel::Error>(())
/// ```
pub struct Retriever {
    /// The id of each query's key; later the start of its values.
    places: Buffer<u32>,
    sizes: Buffer<u64>,
    offsets: Buffer<u64>,
    /// Whether a second launch must copy remaining values.
    rest: Buffer<u32>,
    scan: Scan<u64>,
    /// Number of keys of the last lookup.
    n: usize,
}
impl Retriever {
    /// Creates a retriever for at most `max_n` keys at a time, with 20 bytes per key. Errors: out
    /// of memory, more than 32-bit indices can address.
    #[inline]
    pub fn new(device: &Device, max_n: usize) -> Result<Retriever> {
        let (places, sizes, mut offsets) =
            (device.alloc(max_n)?, device.alloc(max_n + 1)?, device.alloc(max_n + 1)?);
        offsets.view_mut().fill_bytes(0, &device.stream()?)?;
        Ok(Retriever {
            places,
            sizes,
            offsets,
            rest: device.alloc(1)?,
            scan: Scan::new(device, max_n + 1)?,
            n: 0,
        })
    }
    /// Looks keys up: computes the [`offsets`](Self::offsets) of each key's values in the output.
    ///
    /// Takes three launches, allocates nothing and does not wait. Per key, takes a lookup in the
    /// index, 36 bytes and one sector. Errors: more keys than the retriever's maximum, buffers of
    /// another device.
    pub fn find<K: DeviceKey, V: Value>(
        &mut self,
        stream: &Stream,
        map: &MultiMap<K, V>,
        keys: View<'_, K>,
    ) -> Result<()> {
        let n = keys.len();
        let keys = ordered_on(stream, keys)?;
        let ids = |to: ViewMut<'_, u32>| map.index.ids_of_bits(stream, keys.view(), to);
        self.find_ids(stream, &map.grouped, n, ids)
    }
    /// Finds the values of the ids of `n` keys, which `ids` writes: see [`find`](Self::find).
    pub(super) fn find_ids<V: Bits>(
        &mut self,
        stream: &Stream,
        grouped: &Grouped<V>,
        n: usize,
        ids: impl FnOnce(ViewMut<'_, u32>) -> Result<()>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        let max = self.places.len();
        if n > max {
            return Err(Error::TooMany { what: "keys", n, max });
        }
        ids(self.places.view_mut().slice(..n)?)?;
        self.n = n;
        let behind = self.n + 1;
        let sizes = self.sizes.view_mut().slice(..behind)?;
        places_of(
            stream,
            self.places.view_mut().slice(..self.n)?,
            grouped.starts.view(),
            grouped.values.len(),
            sizes,
        )?;
        let offsets = self.offsets.view_mut().slice(..behind)?;
        self.scan.exclusive(stream, self.sizes.view().slice(..behind)?, offsets)
    }
    /// Returns the output position of each key's values from the last [`find`](Self::find), and the
    /// end of the last key's values.
    #[inline]
    pub fn offsets(&self) -> View<'_, u64> {
        let whole = self.offsets.view();
        whole.slice(..self.n + 1).unwrap_or(whole)
    }
    /// Returns the number of values of all keys of the last [`find`](Self::find). Waits for it.
    #[inline]
    pub fn total(&self) -> Result<usize> {
        Ok(self.offsets.view().slice(self.n..self.n + 1)?.download()?[0] as usize)
    }
    /// Writes the values of the keys of the last [`find`](Self::find), in query order, up to the
    /// length of `values`. `map` must be the multimap of that lookup: values from another one are
    /// meaningless.
    ///
    /// Takes a fill and two launches, allocates nothing and does not wait. Reads 12 bytes per key;
    /// reads and writes each value once, groups of a few values in sectors at random. Errors:
    /// buffers of another device.
    pub fn values_into<K: Key, V: DeviceValue>(
        &mut self,
        stream: &Stream,
        map: &MultiMap<K, V>,
        values: ViewMut<'_, V>,
    ) -> Result<()> {
        write_some(stream, values, |values| self.bits_into(stream, &map.grouped, values))
    }
    pub(super) fn bits_into<V: Bits>(
        &mut self,
        stream: &Stream,
        grouped: &Grouped<V>,
        values: ViewMut<'_, V>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        let (begins, offsets) =
            (self.places.view().slice(..self.n)?, self.offsets.view().slice(..self.n + 1)?);
        retrieve(stream, begins, offsets, grouped.values.view(), values, self.rest.view_mut())
    }
}
