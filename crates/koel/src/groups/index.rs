//! Dense numbers for keys, and back.
use super::{CHUNK, Grouping, Groups, IndexOptions, Sorting, keys_of, sizes};
use crate::device::memory::collect_later;
use crate::device::{Apart, Buffer, Device, Stream, View, ViewMut};
use crate::error::{Result, check_length};
use crate::file::stored::Stored;
use crate::map::{Map, MapBuilder};
use crate::parallel;
use crate::primitives::SortKeys;
use crate::types::{BitsOf, KeyBits, SlotKey, ordered_bits, stage_ordered};
use std::fmt;

/// Id of a key that is not in an [`Index`].
pub const NO_ID: u32 = u32::MAX;

/// A two-way index: numbers the distinct keys of a column `0..len`, with one-step access in both
/// directions.
///
/// The *id* of a key is its rank among the distinct keys, in ascending order: the same in every run
/// and on every device, and ids compare as keys do. Every key can be stored. The index is modelled
/// on the compacting table of Alcantara et al. 2009, whose ids depend on the run; here the column
/// is sorted, so a key may occur once or a million times.
///
/// ```
/// let device = koel::Device::cpu()?;
/// let (index, ids) = koel::Index::encode(&device, &[70u64, 30, 70, 50])?;
/// assert_eq!(ids, [2, 0, 2, 1]);
/// assert_eq!(index.ids(&[50, 60])?, [Some(1), None]);
/// assert_eq!(index.keys_of(&[2, 3])?, [Some(70), None]);
/// let (_, ids) = koel::Index::encode(&device, &[0.5, -1.0, 0.5])?;
/// assert_eq!(ids, [1, 0, 1]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Memory
/// A [`Map`] of the distinct keys, 8.2 / load bytes per key of 32 bits (twice that for 64), and the
/// keys themselves.
#[doc(alias("factorize", "dictionary encoding"))]
pub struct Index<K: SlotKey = u32> {
    /// From the keys as [ordered](Key::ordered) numbers.
    pub(super) map: Map<BitsOf<K>, u32>,
    /// Such numbers, too.
    pub(super) keys: Stored<BitsOf<K>>,
}
impl<K: SlotKey> Index<K> {
    /// Builds an index from keys in host memory, with default options. Copies and waits.
    ///
    /// Errors: more keys than 31-bit indices can address, out of memory.
    pub fn build(device: &Device, keys: &[K]) -> Result<Index<K>> {
        Index::of_bits(device, stage_ordered(device, keys)?.view())
    }
    fn of_bits(device: &Device, keys: View<'_, BitsOf<K>>) -> Result<Index<K>> {
        let mut builder = IndexBuilder::<BitsOf<K>>::new(device, IndexOptions::default())?;
        let Index { map, keys } = builder.build(&device.stream()?, keys)?;
        Ok(Index { map, keys })
    }
    /// Builds an index from a column of keys in host memory, and returns the id of each of them.
    /// Copies both ways and waits.
    ///
    /// Errors: as [`build`](Self::build).
    pub fn encode(device: &Device, keys: &[K]) -> Result<(Index<K>, Vec<u32>)> {
        let (staged, stream) = (stage_ordered(device, keys)?, device.stream()?);
        let index = Index::of_bits(device, staged.view())?;
        let mut ids = device.alloc(keys.len())?;
        index.ids_of_bits(&stream, staged.view(), ids.view_mut())?;
        Ok((index, ids.download()?))
    }
    /// Returns the number of distinct keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }
    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the device that holds the index.
    pub fn device(&self) -> &Device {
        self.map.device()
    }
    /// Returns the bytes of device memory that the index occupies.
    pub fn bytes(&self) -> usize {
        self.map.bytes() + self.keys.bytes()
    }
    /// Downloads the keys in ascending order. Waits.
    ///
    /// Errors: out of memory.
    pub fn keys(&self) -> Result<Vec<K>> {
        self.keys.view().download_map(|bits| K::of_ordered(bits.into()))
    }
    /// Copies the index to another device, or to the same one: the same bytes, the same answers.
    /// Copies through host memory and waits. An [opened](Self::open) index is verified first, then
    /// copied from where it is.
    ///
    /// Errors: out of memory; for an opened index, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<Index<K>> {
        let map = self.map.to_device(device)?;
        Ok(Index { map, keys: Stored::Own(self.keys.upload(self.len(), device)?) })
    }
    /// Returns the ids of keys in host memory. Copies both ways and waits.
    pub fn ids(&self, keys: &[K]) -> Result<Vec<Option<u32>>> {
        let mut ids = self.map.get(&ordered_bits(self.device(), keys)?)?;
        if let Stored::Mapped(_) = self.keys {
            // A file may hold invalid ids.
            let n = self.len();
            let invalid = |id: &&mut Option<u32>| id.is_some_and(|id| id as usize >= n);
            ids.iter_mut().filter(invalid).for_each(|id| *id = None);
        }
        Ok(ids)
    }
    /// See [`ids_into`](Self::ids_into).
    pub(super) fn ids_of_bits(
        &self,
        stream: &Stream,
        keys: View<'_, BitsOf<K>>,
        mut ids: ViewMut<'_, u32>,
    ) -> Result<()> {
        check_length("ids", ids.len(), "keys", keys.len())?;
        self.map.get_or_into(stream, keys, ids.reborrow(), NO_ID)?;
        if let (Stored::Mapped(_), Some(ids)) = (&self.keys, ids.host_mut()) {
            // The file may hold invalid ids.
            let n = self.len();
            let invalid = |id: &&mut u32| **id as usize >= n;
            self.device().install(|| {
                parallel::each(ids.chunks_mut(CHUNK), |_, ids| {
                    ids.iter_mut().filter(invalid).for_each(|id| *id = NO_ID)
                })
            });
        }
        Ok(())
    }
    /// Returns the keys of ids in host memory. Copies both ways and waits.
    pub fn keys_of(&self, ids: &[u32]) -> Result<Vec<Option<K>>> {
        collect_later(self.device(), ids.len(), |to| {
            let (device, mut keys) = (self.device(), self.device().alloc(ids.len())?);
            let (staged, stream) = (device.stage32("ids", ids)?, device.stream()?);
            let (ids, missing) = (staged.view(), BitsOf::<K>::default());
            keys_of(&stream, ids, self.keys.view(), missing, keys.view_mut())?;
            let n = self.len();
            let key = |bits: BitsOf<K>, id| ((id as usize) < n).then(|| K::of_ordered(bits.into()));
            keys.view().copy_zip(ids, to, key)
        })
    }
}
impl<K: KeyBits> Index<K> {
    /// Returns the keys in ascending order: element `i` is the key of id `i`.
    pub fn keys_view(&self) -> View<'_, K> {
        self.keys.view()
    }
    /// Returns the map from keys to ids: for joins, and for custom kernels. If the index was
    /// [opened](Self::open) from a file and not [verified](Self::verify), values of the map may be
    /// invalid ids.
    pub fn map(&self) -> &Map<K, u32> {
        &self.map
    }
    /// Writes the id of `keys[i]`, or [`NO_ID`], to `ids[i]`.
    ///
    /// Takes one launch, allocates nothing and does not wait; memory traffic is that of
    /// [`Map::get_or_into`]. Errors: mismatched lengths, buffers of another device.
    pub fn ids_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        ids: ViewMut<'_, u32>,
    ) -> Result<()> {
        self.ids_of_bits(stream, keys, ids)
    }
    /// Writes the key of `ids[i]`, or `missing` if no key has this id, to `keys[i]`.
    ///
    /// Takes one launch, allocates nothing and does not wait. Per query, accesses 4 bytes and a key
    /// in order, and one sector of 32 bytes at random. Errors: mismatched lengths, buffers of
    /// another device.
    pub fn keys_of_into(
        &self,
        stream: &Stream,
        ids: View<'_, u32>,
        keys: ViewMut<'_, K>,
        missing: K,
    ) -> Result<()> {
        keys_of(stream, ids, self.keys.view(), missing, keys)
    }
}
impl<K: SlotKey> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Index<{}>[{} keys] on {}",
            std::any::type_name::<K>(),
            self.len(),
            self.device().name()
        )
    }
}

/// Builds indexes, and keeps scratch memory across builds.
///
/// On a GPU, a build is a radix sort of the keys, a launch that finds the distinct ones, and a
/// [`Map`] build of those; it waits once, for their number. Memory traffic for 32-bit keys: 36
/// bytes per key for the sort, 4 for the runs, and 58 per distinct key.
pub struct IndexBuilder<K: KeyBits = u32> {
    device: Device,
    map: MapBuilder<K, u32>,
    sorting: Option<Sorting<K, SortKeys<K>>>,
    grouping: Option<Grouping<K>>,
}
impl<K: KeyBits> IndexBuilder<K> {
    /// Creates a builder. Errors: a load factor outside 0.3 to 0.95.
    pub fn new(device: &Device, options: IndexOptions) -> Result<IndexBuilder<K>> {
        let map = MapBuilder::new(device, options.of_map())?;
        Ok(IndexBuilder { device: device.clone(), map, sorting: None, grouping: None })
    }
    /// Builds the index of a column of keys, which may repeat. Waits.
    ///
    /// Allocates the index, and scratch memory if the column is larger than all before: 4 times the
    /// keys, and somewhat more for 32-bit keys. Errors: more keys than 31-bit indices can address,
    /// buffers of another device, out of memory.
    pub fn build(&mut self, stream: &Stream, keys: View<'_, K>) -> Result<Index<K>> {
        Ok(self.build_counted(stream, keys)?.0)
    }
    /// Like [`build`](Self::build), and returns how often each key occurs, in id order.
    ///
    /// Errors: as [`build`](Self::build).
    pub fn build_counted(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
    ) -> Result<(Index<K>, Buffer<u32>)> {
        let _apart = Apart::begin();
        let Groups { keys, starts } = self.groups(stream, keys)?;
        let counts = sizes(stream, starts.view())?;
        Ok((self.finish(stream, keys)?, counts))
    }
    /// Returns the distinct keys of a column in ascending order, and how often each occurs, without
    /// building an index. Waits.
    ///
    /// Errors: more than 2^31 - 1 keys, out of memory, buffers of another device.
    pub fn group_counts(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
    ) -> Result<(Buffer<K>, Buffer<u32>)> {
        let _apart = Apart::begin();
        let Groups { keys, starts } = self.groups(stream, keys)?;
        Ok((keys, sizes(stream, starts.view())?))
    }
    /// Returns the bytes of device memory that the builder keeps for sorting and grouping.
    pub fn scratch_bytes(&self) -> usize {
        let sorting = self.sorting.as_ref().map_or(0, |s| s.bytes(s.sort.scratch_bytes()));
        sorting + self.grouping.as_ref().map_or(0, Grouping::bytes)
    }
    fn groups(&mut self, stream: &Stream, keys: View<'_, K>) -> Result<Groups<K>> {
        let _apart = Apart::begin();
        let (device, n) = (&self.device, keys.len());
        keys.arg("keys", stream)?;
        let sorting = Sorting::reserve(device, &mut self.sorting, n, || SortKeys::new(device, n))?;
        sorting.sort.run(stream, keys, sorting.sorted.view_mut().slice(..n)?)?;
        Grouping::reserve(device, &mut self.grouping, n)?.of_sorted(stream, sorting, n)
    }
    fn finish(&mut self, stream: &Stream, keys: Buffer<K>) -> Result<Index<K>> {
        let Some(grouping) = &self.grouping else { unreachable!("groups come from it") };
        Index::from_groups(stream, &mut self.map, grouping, keys)
    }
}
impl<K: KeyBits> Index<K> {
    /// Builds an index of distinct keys: the id of each key is its position.
    pub(super) fn from_groups(
        stream: &Stream,
        builder: &mut MapBuilder<K, u32>,
        grouping: &Grouping<K>,
        keys: Buffer<K>,
    ) -> Result<Index<K>> {
        let _apart = Apart::begin();
        let numbers = grouping.numbers.view().slice(..keys.len())?;
        Ok(Index { map: builder.build(stream, keys.view(), numbers)?, keys: Stored::Own(keys) })
    }
}

/// Returns the distinct keys of host memory in ascending order, and how often each occurs. Copies
/// both ways and waits.
///
/// ```
/// let device = koel::Device::cpu()?;
/// assert_eq!(koel::group_counts(&device, &[7u32, 3, 7])?, [(3, 1), (7, 2)]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Errors: more keys than 32-bit indices can address, out of memory.
#[doc(alias("value_counts", "group by"))]
pub fn group_counts<K: SlotKey>(device: &Device, keys: &[K]) -> Result<Vec<(K, u32)>> {
    let (staged, stream) = (stage_ordered(device, keys)?, device.stream()?);
    let mut builder = IndexBuilder::<BitsOf<K>>::new(device, IndexOptions::default())?;
    let (keys, counts) = builder.group_counts(&stream, staged.view())?;
    keys.view().download_zip(counts.view(), |bits, count| (K::of_ordered(bits.into()), count))
}
