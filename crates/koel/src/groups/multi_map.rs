//! All values of each key.
use super::parting::{Parting, PartingSizes, brought, group};
use super::{
    Grouping, Groups, Index, IndexOptions, MultiMapRef, Sorting, places_of, retrieve, sizes_of,
};
use crate::device::{Buffer, Device, Stream, View, ViewMut};
use crate::error::{Error, Result, check_length};
use crate::file::reader::Mapping;
use crate::file::stored::Stored;
use crate::key::{Key, Value};
use crate::map::MapBuilder;
use crate::primitives::radix_sort::SortPair;
use crate::primitives::{Scan, SortPairs};
use crate::seed::Seeds;
use crate::table::plan::Plan;
use koel_kernels::table::layout::mixed_alike;
use std::fmt;

/// In which order a [`MultiMap`] keeps what it is built of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ValueOrder {
    /// The values of a key as they came, the keys in ascending order: the same in every run and on
    /// every device. Pairs are sorted.
    #[default]
    Input,
    /// As it comes: groups and their values may lie in another order in every run. Large inputs on
    /// a GPU are parted by hash, which moves half as many bytes as sorting does; keys of which
    /// a few have most of the pairs are sorted nevertheless, and so is everything on a CPU.
    Any,
}
/// What a multimap is built with.
#[derive(Clone, Copy, Debug)]
pub struct MultiMapOptions {
    /// Keys per slot of the table, 0.3 to 0.95. High loads save memory, low loads save time.
    pub load: f64,
    /// Hash seed, as of a [map](crate::MapOptions::seed). With [`ValueOrder::Input`] answers do
    /// not depend on it.
    pub seed: Option<u32>,
    /// The order of keys and values.
    pub order: ValueOrder,
}
impl Default for MultiMapOptions {
    fn default() -> Self {
        let IndexOptions { load, seed } = IndexOptions::default();
        MultiMapOptions { load, seed, order: ValueOrder::default() }
    }
}

/// A hash table that keeps every value of every key: those of a key side by side, in the order of
/// the input unless [`ValueOrder::Any`] will do.
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
/// The pairs are sorted by key, as in the second multi-value table of Alcantara et al. 2011; an
/// [`Index`] of the distinct keys tells the group of a key, an array where each group begins. A key
/// may have one value or all: sorting takes as long. Answers are the same on every device and in
/// every run. Where [any order](ValueOrder::Any) will do, the pairs come to the partitions of a
/// [`Map`](crate::Map) instead, blocks group each partition in shared memory, and
/// the index is made of the same partitions.
///
/// A lookup reads a sector of the index, 1.13 of them on average at load 0.8, and one where its
/// group begins; then its values, side by side.
///
/// # Memory
/// The values; 4 bytes and an entry of an [`Index`] for each distinct key.
pub struct MultiMap<K: Key = u32, V: Value = u32> {
    pub(super) index: Index<K>,
    pub(super) starts: Stored<u32>,
    pub(super) values: Stored<V>,
}
impl<K: Key + SortPair<V>, V: Value> MultiMap<K, V> {
    /// Of host pairs `keys[i]`, `values[i]`, with the options' defaults. Copies, and waits.
    ///
    /// Errors: lengths that differ, more pairs than 31-bit indices reach, out of memory.
    pub fn build(device: &Device, keys: &[K], values: &[V]) -> Result<MultiMap<K, V>> {
        let (keys, values, stream) = (device.stage(keys)?, device.stage(values)?, device.stream()?);
        MultiMapBuilder::new(device, MultiMapOptions::default())?.build(
            &stream,
            keys.view(),
            values.view(),
        )
    }
}
impl<K: Key, V: Value> MultiMap<K, V> {
    /// Pairs.
    pub fn len(&self) -> usize {
        self.values.len()
    }
    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The distinct keys. Those of id `i` have the values from `starts()[i]` to `starts()[i + 1]`.
    /// Ids follow the order of the keys, unless [any order](ValueOrder::Any) was good enough.
    pub fn index(&self) -> &Index<K> {
        &self.index
    }
    /// Where the values of each key begin, in the order of ids, and where those of the last one
    /// end.
    pub fn starts(&self) -> View<'_, u32> {
        self.starts.view()
    }
    /// All values, in the order of ids.
    pub fn values(&self) -> View<'_, V> {
        self.values.view()
    }
    /// The device it is on.
    pub fn device(&self) -> &Device {
        self.index.device()
    }
    /// Bytes of device memory that it keeps.
    pub fn bytes(&self) -> usize {
        self.index.bytes() + self.starts.bytes() + self.values.bytes()
    }
    /// A copy on another device, or on the same one: the same bytes, the same answers. Copies
    /// through host memory and waits. What was [opened](Self::open) is checked and then copied
    /// from where it is.
    ///
    /// Errors: out of memory; of a multimap that was opened, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<MultiMap<K, V>> {
        let index = self.index.to_device(device)?;
        let starts = Stored::Own(self.starts.upload(self.starts.len(), device)?);
        Ok(MultiMap { index, starts, values: Stored::Own(self.values.upload(self.len(), device)?) })
    }
    /// How many values each of the host keys has. Copies both ways, and waits.
    pub fn counts(&self, keys: &[K]) -> Result<Vec<u32>> {
        let (device, mut counts) = (self.device(), self.device().alloc(keys.len())?);
        let (staged, stream) = (device.stage(keys)?, device.stream()?);
        self.counts_into(&stream, staged.view(), counts.view_mut())?;
        counts.download()
    }
    /// How many values each key has: `counts[i]`.
    ///
    /// Two launches; allocates nothing, waits for nothing. A lookup in the index, and 12 bytes and
    /// a sector a key. Errors: lengths that differ, buffers of another device.
    pub fn counts_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        mut counts: ViewMut<'_, u32>,
    ) -> Result<()> {
        check_length("counts", counts.len(), "keys", keys.len())?;
        self.index.ids_into(stream, keys, counts.reborrow())?;
        sizes_of(stream, counts, self.starts.view(), self.len())
    }
    /// All values of the host keys, key after key. Copies both ways, and waits.
    ///
    /// Errors: out of memory.
    pub fn retrieve(&self, keys: &[K]) -> Result<Retrieved<V>> {
        let (device, stream) = (self.device(), self.device().stream()?);
        let staged = device.stage(keys)?;
        let mut retriever = Retriever::new(device, keys.len())?;
        retriever.find(&stream, self, staged.view())?;
        let offsets = retriever.offsets().download()?;
        let mut values = device.alloc(offsets.last().map_or(0, |&end| end as usize))?;
        retriever.values_into(&stream, self, values.view_mut())?;
        Ok(Retrieved { offsets, values: values.download()? })
    }
    /// The multimap as kernels see it, to look keys up inside a kernel that is launched on
    /// `stream`: see [`Map::table`](crate::Map::table).
    ///
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let map = koel::MultiMap::build(&device, &[7u32, 3, 7], &[70u32, 30, 71])?;
    /// let (table, mut sum) = (map.table(&device.stream()?)?, 0);
    /// // Host code can look keys up in it, too, where the table is in its memory.
    /// // SAFETY: the map is there and is not changed.
    /// let table = unsafe { table.on_host() };
    /// table.for_each(7, |value| sum += value);
    /// assert_eq!(sum, 141);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// What was [opened](Self::open) is checked first, once: kernels do not look whether groups are
    /// where the file says. Errors: a stream of another device; faults of the file.
    pub fn table(&self, stream: &Stream) -> Result<MultiMapRef<K::Layout<u32>, V>> {
        self.values.file().map_or(Ok(()), Mapping::verify_once)?;
        Ok(MultiMapRef {
            table: self.index.map.table(stream)?,
            starts: self.starts.view().arg("starts", stream)?,
            values: self.values.view().arg("values", stream)?,
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

/// The values of some keys, on the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Retrieved<V> {
    /// Those of key `i` are from `offsets[i]` to `offsets[i + 1]`.
    pub offsets: Vec<u64>,
    /// All of them.
    pub values: Vec<V>,
}
impl<V> Retrieved<V> {
    /// The values of key `i` of the query, in the order in which they were put in.
    pub fn of(&self, i: usize) -> &[V] {
        &self.values[self.offsets[i] as usize..self.offsets[i + 1] as usize]
    }
}

/// Builds multimaps, and keeps the memory that building needs from one build to the next.
///
/// On a GPU: a radix sort of the pairs, a launch that finds the distinct keys, and a map of those;
/// waits once, for their number. Memory traffic of 32-bit pairs: 68 bytes a pair for the sort, 4
/// for the runs, and 62 a distinct key. In [any order](ValueOrder::Any), from 2^18 pairs on: a
/// launch that samples the keys, five fills, two partition passes (one, up to 3 million pairs), a
/// scan of the bins, a launch that groups, a scan of the groups, and two for the map, of which
/// the partitions are some of those (a map like others, if keys are few for that); waits three
/// times; 44 bytes a pair, and 34 a distinct key.
///
/// ```
/// use koel::{Device, MultiMapBuilder, MultiMapOptions, ValueOrder};
///
/// let device = Device::cpu()?;
/// let (keys, values) = (device.upload(&[7u32, 3, 7])?, device.upload(&[70u32, 30, 71])?);
/// let options = MultiMapOptions { order: ValueOrder::Any, ..MultiMapOptions::default() };
/// let mut builder = MultiMapBuilder::new(&device, options)?;
/// let map = builder.build(&device.stream()?, keys.view(), values.view())?;
/// let mut of_seven = map.retrieve(&[7])?.of(0).to_vec();
/// of_seven.sort();
/// assert_eq!(of_seven, [70, 71]);
/// # Ok::<(), koel::Error>(())
/// ```
pub struct MultiMapBuilder<K: Key = u32, V: Value = u32> {
    device: Device,
    options: MultiMapOptions,
    sizes: PartingSizes,
    map: MapBuilder<K, u32>,
    parting: Option<Parting>,
    sorting: Option<Sorting<K, SortPairs<K, V>>>,
    grouping: Option<Grouping<K>>,
}
impl<K: Key + SortPair<V>, V: Value> MultiMapBuilder<K, V> {
    /// Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: MultiMapOptions) -> Result<MultiMapBuilder<K, V>> {
        MultiMapBuilder::sized(device, options, PartingSizes::TUNED)
    }
    /// With other sizes than the best.
    pub(super) fn sized(
        device: &Device,
        options: MultiMapOptions,
        sizes: PartingSizes,
    ) -> Result<MultiMapBuilder<K, V>> {
        let MultiMapOptions { load, seed, .. } = options;
        let map = MapBuilder::new(device, IndexOptions { load, seed }.of_map())?;
        Ok(MultiMapBuilder {
            device: device.clone(),
            options,
            sizes,
            map,
            parting: None,
            sorting: None,
            grouping: None,
        })
    }
    /// The multimap of pairs `keys[i]`, `values[i]`. Waits.
    ///
    /// Allocates the multimap, and scratch memory if there were never so many pairs before: 4 times
    /// the keys, the values, and some more; in any order 5 times the keys and twice the values,
    /// and more the more often keys come. Errors: lengths that differ, more pairs than 31-bit
    /// indices reach, buffers of another device, out of memory.
    pub fn build(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<MultiMap<K, V>> {
        let (device, n) = (&self.device, keys.len());
        check_length("values", values.len(), "keys", n)?;
        keys.arg("keys", stream)?;
        values.arg("values", stream)?;
        let grouping = Grouping::reserve(device, &mut self.grouping, n)?;
        let mut grouped = device.alloc(n)?;
        // Where the map is not made of the partitions of the pairs, it mixes in another way: to it,
        // keys of one partition have nothing in common.
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
                    let map = self.map.build_of_groups(stream, plan, parted, kept)?;
                    let index = Index { map, keys: Stored::Own(keys) };
                    return Ok(MultiMap {
                        index,
                        starts: Stored::Own(starts),
                        values: Stored::Own(grouped),
                    });
                }
                brought(stream, &parted)?
            }
            None => {
                let sorting =
                    Sorting::reserve(device, &mut self.sorting, n, || SortPairs::new(device, n))?;
                let sorted = sorting.sorted.view_mut().slice(..n)?;
                sorting.sort.run(stream, keys, values, sorted, grouped.view_mut())?;
                grouping.of_sorted(stream, sorting, n)?
            }
        };
        let index = Index::of_groups(stream, &mut self.map, grouping, keys)?;
        Ok(MultiMap { index, starts: Stored::Own(starts), values: Stored::Own(grouped) })
    }
    /// Bytes of device memory that the builder keeps for sorting, parting and grouping.
    pub fn scratch_bytes(&self) -> usize {
        let sorting = self.sorting.as_ref().map_or(0, |s| s.bytes(s.sort.scratch_bytes()));
        sorting
            + self.parting.as_ref().map_or(0, Parting::bytes)
            + self.grouping.as_ref().map_or(0, Grouping::bytes)
    }
}

/// Retrieves the values of many keys in two steps, and keeps the memory that this needs: first
/// [where they go](Self::find), then the [values](Self::values_into). In between one may ask [how
/// many](Self::total) there are.
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
    /// Of each query the id of its key; then where its values are.
    places: Buffer<u32>,
    sizes: Buffer<u64>,
    offsets: Buffer<u64>,
    /// Whether values are left to a second launch.
    rest: Buffer<u32>,
    scan: Scan<u64>,
    /// Of the last queries.
    n: usize,
}
impl Retriever {
    /// For at most so many keys at a time: 20 bytes each. Errors: out of memory, more than 32-bit
    /// indices reach.
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
    /// Looks keys up: the [`offsets`](Self::offsets) tell where the values of each go.
    ///
    /// Three launches; allocates nothing, waits for nothing. A lookup in the index, 36 bytes and a
    /// sector a key. Errors: more keys than this was made for, buffers of another device.
    pub fn find<K: Key, V: Value>(
        &mut self,
        stream: &Stream,
        map: &MultiMap<K, V>,
        keys: View<'_, K>,
    ) -> Result<()> {
        let max = self.places.len();
        if keys.len() > max {
            return Err(Error::TooMany { what: "keys", n: keys.len(), max });
        }
        map.index.ids_into(stream, keys, self.places.view_mut().slice(..keys.len())?)?;
        self.n = keys.len();
        let behind = self.n + 1;
        let sizes = self.sizes.view_mut().slice(..behind)?;
        places_of(
            stream,
            self.places.view_mut().slice(..self.n)?,
            map.starts.view(),
            map.len(),
            sizes,
        )?;
        let offsets = self.offsets.view_mut().slice(..behind)?;
        self.scan.exclusive(stream, self.sizes.view().slice(..behind)?, offsets)
    }
    /// Where the values of each key of the last [`find`](Self::find) go, and where those of the
    /// last key end.
    pub fn offsets(&self) -> View<'_, u64> {
        let whole = self.offsets.view();
        whole.slice(..self.n + 1).unwrap_or(whole)
    }
    /// How many values the keys of the last [`find`](Self::find) have. Waits for it.
    pub fn total(&self) -> Result<usize> {
        Ok(self.offsets.view().slice(self.n..self.n + 1)?.download()?[0] as usize)
    }
    /// The values of the keys of the last [`find`](Self::find), key after key; as many of them as
    /// `values` has room for. Of another multimap than the keys were looked up in they mean
    /// nothing.
    ///
    /// A fill and two launches; allocates nothing, waits for nothing. 12 bytes a key, and each
    /// value read and written once; groups of a few values in sectors at random. Errors:
    /// buffers of another device.
    pub fn values_into<K: Key, V: Value>(
        &mut self,
        stream: &Stream,
        map: &MultiMap<K, V>,
        values: ViewMut<'_, V>,
    ) -> Result<()> {
        let (begins, offsets) =
            (self.places.view().slice(..self.n)?, self.offsets.view().slice(..self.n + 1)?);
        retrieve(stream, begins, offsets, map.values.view(), values, self.rest.view_mut())
    }
}
