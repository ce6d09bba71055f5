//! Dense numbers for keys, and back.
use super::set::{Set128, Set128Builder};
use crate::device::memory::collect_later;
use crate::device::{Apart, Buffer, Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::{Result, check_length};
use crate::groups::{IndexBuilder, IndexOptions, NO_ID, keys_of};
use crate::rows::RowsReport;
use koel_kernels::keys128::find::NO_ROW;
use std::fmt;

const _: () = assert!(NO_ID == NO_ROW);

/// A two-way index of keys of 128 bits: numbers the distinct keys of a column `0..len`, in order of
/// first occurrence.
///
/// Keys are neither ordered nor sorted: ids are the same in every run and on every device, but they
/// are not ranks, unlike those of an [`Index`](crate::Index).
///
/// ```
/// let device = koel::Device::cpu()?;
/// let (index, ids) = koel::Index128::encode(&device, &[7 << 99, 30, 7 << 99, 50])?;
/// assert_eq!(ids, [0, 1, 0, 2]);
/// assert_eq!(index.ids(&[50, 60])?, [Some(2), None]);
/// assert_eq!(index.keys_of(&[0, 3])?, [Some(7 << 99), None]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Method and cost: see [`keys128`](super).
pub struct Index128 {
    pub(super) keys: Set128,
}
impl Index128 {
    /// Builds an index from keys in host memory, with default options. Copies and waits.
    ///
    /// Errors: more keys than 31-bit indices can address, out of memory.
    pub fn build(device: &Device, keys: &[u128]) -> Result<Index128> {
        let (staged, stream) = (device.stage32("keys", keys)?, device.stream()?);
        Index128Builder::new(device, IndexOptions::default())?.build(&stream, staged.view())
    }
    /// Builds an index from a column of keys in host memory, and returns the id of each of them.
    /// Copies both ways and waits.
    ///
    /// Errors: as [`build`](Self::build).
    pub fn encode(device: &Device, keys: &[u128]) -> Result<(Index128, Vec<u32>)> {
        let (staged, stream) = (device.stage32("keys", keys)?, device.stream()?);
        let index =
            Index128Builder::new(device, IndexOptions::default())?.build(&stream, staged.view())?;
        let mut ids = device.alloc(keys.len())?;
        index.ids_into(&stream, staged.view(), ids.view_mut())?;
        Ok((index, ids.download()?))
    }
    /// Returns the number of distinct keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }
    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
    /// Returns the device that holds the index.
    pub fn device(&self) -> &Device {
        self.keys.device()
    }
    /// Returns the bytes of device memory that the index occupies.
    pub fn bytes(&self) -> usize {
        self.keys.bytes()
    }
    /// Returns the report of the build. After a [`rebuild`](Index128Builder::rebuild) this waits
    /// for it and reads the table's header back.
    pub fn report(&self) -> Result<RowsReport> {
        self.keys.report()
    }
    /// Returns the keys in id order: element `i` is the key of id `i`.
    pub fn keys_view(&self) -> View<'_, u128> {
        self.keys.keys_view()
    }
    /// Downloads the keys in id order. Waits.
    ///
    /// Errors: out of memory.
    pub fn keys(&self) -> Result<Vec<u128>> {
        self.keys_view().download()
    }
    /// Returns the keys as a set, whose [rows](Set128::rows) are ids: for custom kernels.
    pub fn set(&self) -> &Set128 {
        &self.keys
    }
    /// Copies the index to another device, or to the same one: the same ids. Copies through host
    /// memory and waits. An [opened](Self::open) index is verified first, then copied from where it
    /// is.
    ///
    /// Errors: out of memory; for an opened index, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<Index128> {
        let _apart = Apart::begin();
        Ok(Index128 { keys: self.keys.to_device(device)? })
    }
    /// Returns the ids of keys in host memory. Copies both ways and waits.
    pub fn ids(&self, keys: &[u128]) -> Result<Vec<Option<u32>>> {
        collect_later(self.device(), keys.len(), |to| {
            let (device, mut ids) = (self.device(), self.device().alloc(keys.len())?);
            let staged = device.stage32("keys", keys)?;
            self.ids_into(&device.stream()?, staged.view(), ids.view_mut())?;
            ids.view().copy_map(to, |id| (id != NO_ID).then_some(id))
        })
    }
    /// Writes the id of `keys[i]`, or [`NO_ID`], to `ids[i]`.
    ///
    /// Takes one launch, allocates nothing and does not wait; memory traffic is that of
    /// [`Set128::contains_into`]. Errors: mismatched lengths, buffers of another device.
    pub fn ids_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        ids: ViewMut<'_, u32>,
    ) -> Result<()> {
        check_length("ids", ids.len(), "keys", keys.len())?;
        self.keys.rows.rows_into(stream, keys, ids)
    }
    /// Returns the keys of ids in host memory. Copies both ways and waits.
    pub fn keys_of(&self, ids: &[u32]) -> Result<Vec<Option<u128>>> {
        collect_later(self.device(), ids.len(), |to| {
            let (device, mut keys) = (self.device(), self.device().alloc(ids.len())?);
            let staged = device.stage32("ids", ids)?;
            self.keys_of_into(&device.stream()?, staged.view(), keys.view_mut(), 0)?;
            let n = self.len();
            keys.view().copy_zip(staged.view(), to, |key, id| ((id as usize) < n).then_some(key))
        })
    }
    /// Writes the key of `ids[i]`, or `missing` if no key has this id, to `keys[i]`.
    ///
    /// Takes one launch, allocates nothing and does not wait. Per query, accesses 20 bytes in
    /// order, and one sector of 32 bytes at random. Errors: mismatched lengths, buffers of another
    /// device.
    pub fn keys_of_into(
        &self,
        stream: &Stream,
        ids: View<'_, u32>,
        keys: ViewMut<'_, u128>,
        missing: u128,
    ) -> Result<()> {
        keys_of(stream, ids, self.keys.keys_view(), missing, keys)
    }
}
impl fmt::Debug for Index128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index128[{} keys] on {}", self.len(), self.device().name())
    }
}

/// Builds indexes of 128-bit keys, and keeps scratch memory across builds.
pub struct Index128Builder {
    rows: Set128Builder,
    /// Counts occurrences of ids.
    groups: IndexBuilder<u32>,
}
impl Index128Builder {
    /// Creates a builder. Errors: a load factor outside 0.3 to 0.95.
    pub fn new(device: &Device, options: IndexOptions) -> Result<Index128Builder> {
        let rows = Set128Builder::new(device, options.of_set())?;
        Ok(Index128Builder { rows, groups: IndexBuilder::new(device, options)? })
    }
    /// Builds the index of a column of keys, which may repeat. Waits for the device.
    ///
    /// Allocates the index, and scratch memory if the column is larger than all before.
    /// [Cost](super). Errors: more keys than 31-bit indices can address, buffers of another device,
    /// out of memory.
    pub fn build(&mut self, stream: &Stream, keys: View<'_, u128>) -> Result<Index128> {
        Ok(Index128 { keys: self.rows.build(stream, keys)? })
    }
    /// Replaces the content of an index by the distinct keys of another column: see
    /// [`Set128Builder::rebuild`].
    pub fn rebuild(
        &mut self,
        index: &mut Index128,
        stream: &Stream,
        keys: View<'_, u128>,
    ) -> Result<()> {
        self.rows
            .rebuild_by("index", &mut index.keys, stream, keys, Duplicates::KeepFirst, |_| Ok(()))
    }
    /// Like [`build`](Self::build), and returns how often each key occurs, in id order.
    ///
    /// In addition, looks up the ids of the column and counts them as
    /// [`IndexBuilder::group_counts`] does. Errors: as [`build`](Self::build).
    pub fn build_counted(
        &mut self,
        stream: &Stream,
        keys: View<'_, u128>,
    ) -> Result<(Index128, Buffer<u32>)> {
        let (index, mut ids) = (self.build(stream, keys)?, stream.device().alloc(keys.len())?);
        index.ids_into(stream, keys, ids.view_mut())?;
        // Every id occurs, so the groups are the ids.
        let (_, counts) = self.groups.group_counts(stream, ids.view())?;
        Ok((index, counts))
    }
}
