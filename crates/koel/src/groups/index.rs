//! Dense numbers for keys, and back.
use super::counting::Counter;
use super::{IndexOptions, IndexStore, NO_ID, keys_of};
use crate::device::memory::collect_later;
use crate::device::{Apart, Buffer, Device, Stream, View, ViewMut};
use crate::error::{Result, check_length};
use crate::map::Map;
use crate::types::{
    Bits, BitsOf, DeviceKey, Key, KeyBits, SlotKey, keys_of_ordered, ordered_on, stage_ordered,
    write_ordered,
};
use std::fmt;

/// How an index of these keys is stored.
pub(super) type StoreOf<K> = <BitsOf<K> as Bits>::Index;
/// What builds indexes of these bits.
type BuilderOf<K> = <<K as Bits>::Index as IndexStore>::Builder;

/// A two-way index: numbers the distinct keys of a column `0..len`, with one-step access in both
/// directions. Keys are of [any type](crate::types) of up to 16 bytes.
///
/// Keys get their *ids* in order of first occurrence: the same in every run and on every device.
/// (Where an index comes from a [`MultiMap`](crate::MultiMap) with keys of up to 8 bytes, ids are
/// in the order of the multimap's keys.) Every key can be stored. The index is modelled on the
/// compacting table of Alcantara et al. 2009, whose ids depend on the run.
///
/// ```
/// let device = koel::Device::cpu()?;
/// let (index, ids) = koel::Index::encode(&device, &[70u64, 30, 70, 50])?;
/// assert_eq!(ids, [0, 1, 0, 2]);
/// assert_eq!(index.ids(&[50, 60])?, [Some(2), None]);
/// assert_eq!(index.keys_of(&[0, 3])?, [Some(70), None]);
/// let (index, ids) = koel::Index::encode(&device, &[(1u128 << 99), 5, 1 << 99])?;
/// assert_eq!((index.keys()?, ids), (vec![1 << 99, 5], vec![0, 1, 0]));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # How it works
/// On a GPU, rows are sorted by their keys; the first row of each key, in ascending order, tells
/// the keys of the index. On a CPU, each thread numbers the keys of a stretch of the column in one
/// pass, with a growing table; keys that ascend need none. Where keys are many and hardly repeat, a
/// map of all keys takes its place.
///
/// # Memory
/// A [`Map`] of the distinct keys, 8.2 / load bytes per key of 32 bits (twice that for 64), and the
/// keys themselves. Keys of more than 8 bytes: as in [`keys128`](crate::keys128).
#[doc(alias("factorize", "dictionary encoding", "categorical"))]
pub struct Index<K: Key = u32> {
    /// Of the keys as [ordered](Key::ordered) numbers.
    pub(crate) store: StoreOf<K>,
}
impl<K: Key> Index<K> {
    /// Builds an index from keys in host memory, with default options. Copies and waits.
    ///
    /// Errors: more keys than 31-bit indices can address, out of memory.
    pub fn build(device: &Device, keys: &[K]) -> Result<Index<K>> {
        let (staged, stream) = (stage_ordered(device, keys)?, device.stream()?);
        let mut builder = StoreOf::<K>::builder(device, IndexOptions::default())?;
        let store = StoreOf::<K>::build(&mut builder, &stream, staged.view(), None)?;
        Ok(Index { store })
    }
    /// Builds an index from a column of keys in host memory, and returns the id of each of them.
    /// Copies both ways and waits.
    ///
    /// Errors: as [`build`](Self::build).
    pub fn encode(device: &Device, keys: &[K]) -> Result<(Index<K>, Vec<u32>)> {
        Index::encode_with(device, IndexOptions::default(), keys)
    }
    /// Does the same with other options. Errors: also a load outside 0.3 to 0.95.
    pub(crate) fn encode_with(
        device: &Device,
        options: IndexOptions,
        keys: &[K],
    ) -> Result<(Index<K>, Vec<u32>)> {
        let (staged, stream) = (stage_ordered(device, keys)?, device.stream()?);
        let mut ids = device.alloc(keys.len())?;
        let mut builder = StoreOf::<K>::builder(device, options)?;
        let to = Some(ids.view_mut());
        let store = StoreOf::<K>::build(&mut builder, &stream, staged.view(), to)?;
        Ok((Index { store }, ids.download()?))
    }
    /// Returns the number of distinct keys.
    pub fn len(&self) -> usize {
        self.store.keys().len()
    }
    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the device that holds the index.
    pub fn device(&self) -> &Device {
        self.store.device()
    }
    /// Returns the bytes of device memory that the index occupies.
    pub fn bytes(&self) -> usize {
        self.store.bytes()
    }
    /// Downloads the keys in id order. Waits.
    ///
    /// Errors: out of memory.
    pub fn keys(&self) -> Result<Vec<K>> {
        self.store.keys().download_map(|bits| K::of_ordered(bits.into()))
    }
    /// Copies the index to another device, or to the same one: the same bytes, the same answers.
    /// Copies through host memory and waits. An [opened](Self::open) index is verified first, then
    /// copied from where it is.
    ///
    /// Errors: out of memory; for an opened index, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<Index<K>> {
        let _apart = Apart::begin();
        Ok(Index { store: self.store.to_device(device)? })
    }
    /// Returns the ids of keys in host memory. Copies both ways and waits.
    ///
    /// Errors: more keys than 32-bit indices can address, out of memory.
    pub fn ids(&self, keys: &[K]) -> Result<Vec<Option<u32>>> {
        collect_later(self.device(), keys.len(), |to| {
            let (device, mut ids) = (self.device(), self.device().alloc(keys.len())?);
            let staged = stage_ordered(device, keys)?;
            self.ids_of_bits(&device.stream()?, staged.view(), ids.view_mut())?;
            ids.view().copy_map(to, |id| (id != NO_ID).then_some(id))
        })
    }
    /// See [`ids_into`](Self::ids_into).
    pub(super) fn ids_of_bits(
        &self,
        stream: &Stream,
        keys: View<'_, BitsOf<K>>,
        ids: ViewMut<'_, u32>,
    ) -> Result<()> {
        check_length("ids", ids.len(), "keys", keys.len())?;
        self.store.ids_into(stream, keys, ids)
    }
    /// Returns the keys of ids in host memory. Copies both ways and waits.
    ///
    /// Errors: more ids than 32-bit indices can address, out of memory.
    pub fn keys_of(&self, ids: &[u32]) -> Result<Vec<Option<K>>> {
        collect_later(self.device(), ids.len(), |to| {
            let (device, mut keys) = (self.device(), self.device().alloc(ids.len())?);
            let (staged, stream) = (device.stage32("ids", ids)?, device.stream()?);
            let (ids, missing) = (staged.view(), BitsOf::<K>::default());
            keys_of(&stream, ids, self.store.keys(), missing, keys.view_mut())?;
            let n = self.len();
            let key = |bits: BitsOf<K>, id| ((id as usize) < n).then(|| K::of_ordered(bits.into()));
            keys.view().copy_zip(ids, to, key)
        })
    }
}
impl<K: DeviceKey> Index<K> {
    /// Writes the id of `keys[i]`, or [`NO_ID`], to `ids[i]`.
    ///
    /// Takes one launch, allocates nothing and does not wait; memory traffic is that of
    /// [`Map::get_or_into`], for `u128` that of [`Set::contains_into`](crate::Set::contains_into).
    /// Errors: mismatched lengths, buffers of another device.
    pub fn ids_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        ids: ViewMut<'_, u32>,
    ) -> Result<()> {
        self.ids_of_bits(stream, ordered_on(stream, keys)?.view(), ids)
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
        let missing = BitsOf::<K>::of_packed(missing.ordered());
        write_ordered(stream, keys, |keys| keys_of(stream, ids, self.store.keys(), missing, keys))
    }
}
impl<K: Bits> Index<K> {
    /// Returns the keys in id order: element `i` is the key of id `i`.
    pub fn keys_view(&self) -> View<'_, K> {
        self.store.keys()
    }
}
impl<K: KeyBits> Index<K> {
    /// Returns the map from keys to ids: for joins, and for custom kernels. If the index was
    /// [opened](Self::open) from a file and not [verified](Self::verify), values of the map may be
    /// invalid ids.
    pub fn map(&self) -> &Map<K, u32> {
        &self.store.map
    }
}
impl<K: Key> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, device) = (std::any::type_name::<K>(), self.device().name());
        write!(f, "Index<{key}>[{} keys] on {device}", self.len())
    }
}

/// Builds indexes, and keeps scratch memory across builds.
///
/// On a GPU, a build sorts pairs of keys and rows, and sorts the first rows of the distinct keys if
/// keys repeat; a [`Map`] build of the distinct keys follows. It waits for their number, and for
/// the map. Memory traffic for 32-bit keys: 72 bytes per key, and 110 bytes and two sectors at
/// random per distinct key. Keys of 128 bits: see [`keys128`](crate::keys128).
pub struct IndexBuilder<K: Key = u32> {
    pub(crate) builder: BuilderOf<BitsOf<K>>,
    counter: Counter<u32>,
}
impl<K: DeviceKey> IndexBuilder<K> {
    /// Creates a builder. Errors: a load factor outside 0.3 to 0.95.
    pub fn new(device: &Device, options: IndexOptions) -> Result<IndexBuilder<K>> {
        let builder = StoreOf::<K>::builder(device, options)?;
        Ok(IndexBuilder { builder, counter: Counter::new(device) })
    }
    /// Builds the index of a column of keys, which may repeat. Waits.
    ///
    /// Allocates the index, and scratch memory if the column is larger than all before: on a GPU,
    /// four times the keys and 20 bytes per key. During a build it takes 4 bytes per key and 8 per
    /// distinct key in addition. Errors: more keys than 31-bit indices can address, buffers
    /// of another device, a stream that is being captured, out of memory.
    pub fn build(&mut self, stream: &Stream, keys: View<'_, K>) -> Result<Index<K>> {
        let keys = ordered_on(stream, keys)?;
        Ok(Index { store: StoreOf::<K>::build(&mut self.builder, stream, keys.view(), None)? })
    }
    /// Like [`build`](Self::build), and writes the id of `keys[i]` to `ids[i]`: on a GPU, by a
    /// lookup of each key.
    ///
    /// Errors: as [`build`](Self::build), mismatched lengths.
    pub fn encode(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
        ids: ViewMut<'_, u32>,
    ) -> Result<Index<K>> {
        check_length("ids", ids.len(), "keys", keys.len())?;
        let keys = ordered_on(stream, keys)?;
        Ok(Index { store: StoreOf::<K>::build(&mut self.builder, stream, keys.view(), Some(ids))? })
    }
    /// Like [`build`](Self::build), and returns how often each key occurs, in id order.
    ///
    /// Encodes the column, and counts ids: on a GPU by a radix sort, of 36 bytes of memory traffic
    /// per key. Errors: as [`build`](Self::build).
    pub fn build_counted(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
    ) -> Result<(Index<K>, Buffer<u32>)> {
        let _apart = Apart::begin();
        let mut ids = stream.device().alloc(keys.len())?;
        let index = self.encode(stream, keys, ids.view_mut())?;
        let counts = self.counter.of_ids(stream, ids.view(), index.len())?;
        Ok((index, counts))
    }
    /// Returns the bytes of device memory that the builder keeps for numbering and counting,
    /// besides those of table builds, which [`Map::report`] states.
    pub fn scratch_bytes(&self) -> usize {
        StoreOf::<K>::scratch_bytes(&self.builder) + self.counter.bytes()
    }
}
impl<K: DeviceKey + SlotKey> IndexBuilder<K> {
    /// Returns the distinct keys of a column in ascending order, and how often each occurs, without
    /// building an index. Sorts the keys; on a CPU only the distinct ones, if they are few. Waits.
    ///
    /// Errors: more than 2^31 - 1 keys, out of memory, buffers of another device.
    pub fn group_counts(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
    ) -> Result<(Buffer<K>, Buffer<u32>)> {
        let keys = ordered_on(stream, keys)?;
        let (distinct, counts) = self.builder.counter.counted(stream, keys.view())?;
        Ok((keys_of_ordered(stream, distinct)?, counts))
    }
}

/// Returns the distinct keys of host memory in ascending order, and how often each occurs. Sorts
/// the keys; on a CPU, few distinct keys are counted first, and only they are sorted. Copies both
/// ways and waits.
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
    let (keys, counts) = Counter::<BitsOf<K>>::new(device).counted(&stream, staged.view())?;
    keys.view().download_zip(counts.view(), |bits, count| (K::of_ordered(bits.into()), count))
}
