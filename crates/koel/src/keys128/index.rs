//! Dense numbers for keys, and back.
use super::Report128;
use super::set::{Set128, Set128Builder};
use crate::device::{Buffer, Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::{Result, check_length};
use crate::groups::{IndexBuilder, IndexOptions, NO_ID, keys_of};
use crate::set::SetOptions;
use koel_kernels::keys128::find::NO_ROW;
use std::fmt;

const _: () = assert!(NO_ID == NO_ROW);

/// A two-way index of keys of 128 bits: the distinct keys of a column get the numbers `0..len`, in
/// the order in which they first come.
///
/// No key is compared with another one for order, and nothing is sorted: ids are the same in every
/// run and on every device, but they are no ranks, as those of an [`Index`](crate::Index) are.
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
/// How it works, and what it costs: [`keys128`](super).
pub struct Index128 {
    pub(super) keys: Set128,
}
impl Index128 {
    /// Of host keys, with the options' defaults. Copies, and waits.
    ///
    /// Errors: more keys than 31-bit indices reach, out of memory.
    pub fn build(device: &Device, keys: &[u128]) -> Result<Index128> {
        let (staged, stream) = (device.stage(keys)?, device.stream()?);
        Index128Builder::new(device, IndexOptions::default())?.build(&stream, staged.view())
    }
    /// Of a column of host keys; and the id of each of them. Copies both ways, and waits.
    ///
    /// Errors: as [`build`](Self::build).
    pub fn encode(device: &Device, keys: &[u128]) -> Result<(Index128, Vec<u32>)> {
        let (staged, stream) = (device.stage(keys)?, device.stream()?);
        let index =
            Index128Builder::new(device, IndexOptions::default())?.build(&stream, staged.view())?;
        let mut ids = device.alloc(keys.len())?;
        index.ids_into(&stream, staged.view(), ids.view_mut())?;
        Ok((index, ids.download()?))
    }
    /// Distinct keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
    /// The device it is on.
    pub fn device(&self) -> &Device {
        self.keys.device()
    }
    /// Bytes of device memory that it keeps.
    pub fn bytes(&self) -> usize {
        self.keys.bytes()
    }
    /// How its build went. After a [`rebuild`](Index128Builder::rebuild) this waits for it and
    /// reads the table's header back.
    pub fn report(&self) -> Result<Report128> {
        self.keys.report()
    }
    /// The keys in the order of ids: that of id `i` is element `i`.
    pub fn keys(&self) -> View<'_, u128> {
        self.keys.keys()
    }
    /// The keys as a set, whose [rows](Set128::rows) are ids: for kernels of one's own.
    pub fn set(&self) -> &Set128 {
        &self.keys
    }
    /// A copy on another device, or on the same one: the same ids. Copies through host memory and
    /// waits. What was [opened](Self::open) is checked and then copied from where it is.
    ///
    /// Errors: out of memory; of an index that was opened, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<Index128> {
        Ok(Index128 { keys: self.keys.to_device(device)? })
    }
    /// The ids of host keys. Copies both ways, and waits.
    pub fn ids(&self, keys: &[u128]) -> Result<Vec<Option<u32>>> {
        let (device, mut ids) = (self.device(), self.device().alloc(keys.len())?);
        self.ids_into(&device.stream()?, device.stage(keys)?.view(), ids.view_mut())?;
        Ok(ids.download()?.into_iter().map(|id| (id != NO_ID).then_some(id)).collect())
    }
    /// `ids[i]` = the id of `keys[i]`, or [`NO_ID`].
    ///
    /// One launch; allocates nothing, waits for nothing; traffic as of [`Set128::contains_into`].
    /// Errors: lengths that differ, buffers of another device.
    pub fn ids_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        ids: ViewMut<'_, u32>,
    ) -> Result<()> {
        check_length("ids", ids.len(), "keys", keys.len())?;
        self.keys.rows_into(stream, keys, ids)
    }
    /// The keys of ids. Copies both ways, and waits.
    pub fn keys_of(&self, ids: &[u32]) -> Result<Vec<Option<u128>>> {
        let (device, mut keys) = (self.device(), self.device().alloc(ids.len())?);
        self.keys_of_into(&device.stream()?, device.stage(ids)?.view(), keys.view_mut(), 0)?;
        let keys = keys.download()?.into_iter().zip(ids);
        Ok(keys.map(|(key, &id)| ((id as usize) < self.len()).then_some(key)).collect())
    }
    /// `keys[i]` = the key of `ids[i]`, or `missing` if no key has this id.
    ///
    /// One launch; allocates nothing, waits for nothing. 20 bytes a query in order, and a sector of
    /// 32 bytes at random. Errors: lengths that differ, buffers of another device.
    pub fn keys_of_into(
        &self,
        stream: &Stream,
        ids: View<'_, u32>,
        keys: ViewMut<'_, u128>,
        missing: u128,
    ) -> Result<()> {
        keys_of(stream, ids, self.keys.keys(), missing, keys)
    }
}
impl fmt::Debug for Index128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index128[{} keys] on {}", self.len(), self.device().name())
    }
}

/// Builds indexes of 128-bit keys, and keeps the memory that building needs from one build to the
/// next.
pub struct Index128Builder {
    rows: Set128Builder,
    /// Counts ids.
    groups: IndexBuilder<u32>,
}
impl Index128Builder {
    /// Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: IndexOptions) -> Result<Index128Builder> {
        let IndexOptions { load, seed } = options;
        let rows = Set128Builder::new(device, SetOptions { load, seed })?;
        Ok(Index128Builder { rows, groups: IndexBuilder::new(device, options)? })
    }
    /// The index of a column of keys, in which keys may come often. Waits for the device.
    ///
    /// Allocates the index, and scratch memory if there were never so many keys before. [What it
    /// costs](super). Errors: more keys than 31-bit indices reach, buffers of another device,
    /// out of memory.
    pub fn build(&mut self, stream: &Stream, keys: View<'_, u128>) -> Result<Index128> {
        Ok(Index128 { keys: self.rows.build(stream, keys)? })
    }
    /// Puts the distinct keys of another column into an index, whatever it held: see
    /// [`Set128Builder::rebuild`].
    pub fn rebuild(
        &mut self,
        index: &mut Index128,
        stream: &Stream,
        keys: View<'_, u128>,
    ) -> Result<()> {
        self.rows.rebuild_rows(
            "index",
            &mut index.keys,
            stream,
            keys,
            Duplicates::KeepFirst,
            |_| Ok(()),
        )
    }
    /// The same, and how often each key comes, in the order of ids.
    ///
    /// Besides, the ids of the column are looked up and counted as [`IndexBuilder::group_counts`]
    /// does it. Errors: as [`build`](Self::build).
    pub fn build_counted(
        &mut self,
        stream: &Stream,
        keys: View<'_, u128>,
    ) -> Result<(Index128, Buffer<u32>)> {
        let (index, mut ids) = (self.build(stream, keys)?, stream.device().alloc(keys.len())?);
        index.ids_into(stream, keys, ids.view_mut())?;
        // Every id comes, so they are the groups.
        let (_, counts) = self.groups.group_counts(stream, ids.view())?;
        Ok((index, counts))
    }
}
