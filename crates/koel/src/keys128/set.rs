//! Distinct keys, each in its own row: also the basis of maps and indexes.
use super::rows_ref;
use crate::device::memory::collect_later;
use crate::device::{Apart, Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::{Result, check_length};
use crate::fallible::collect;
use crate::file::reader::Mapping;
use crate::file::stored::Stored;
use crate::rows::update::{RowsUpdater, apply_to_keys, outcomes_of};
use crate::rows::{CHUNK, HostRows, Kept, Rows, RowsBuilder};
use crate::set::{SetOperation, SetOptions};
use crate::table::BuildReport;
use crate::table::update::{Operations, Outcome};
use koel_kernels::keys128::find::{
    NO_ROW, RowsRef, keys128_contains, keys128_contains_bits, keys128_count,
};
use koel_kernels::keys128::fingerprint::Fingerprint;
use koel_simt::In;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A set of keys of 128 bits, on a device.
///
/// ```
/// let device = koel::Device::cpu()?;
/// let set = koel::Set128::build(&device, &[9 << 100, 3, 9 << 100])?;
/// assert_eq!(set.contains(&[3, 4])?, [true, false]);
/// assert_eq!(set.keys()?, [9 << 100, 3]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Method and cost: see [`keys128`](super).
pub struct Set128 {
    pub(super) rows: Rows<Stored<u128>>,
}
impl Set128 {
    /// Builds a set from keys in host memory, with default options: load 0.8. Equal keys become
    /// one. Copies and waits.
    ///
    /// Errors: more keys than 31-bit indices can address, out of memory.
    #[inline]
    pub fn build(device: &Device, keys: &[u128]) -> Result<Set128> {
        let keys = device.stage32("keys", keys)?;
        Set128Builder::new(device, SetOptions::default())?.build(&device.stream()?, keys.view())
    }
    /// Returns the number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows.len
    }
    /// Returns whether there are no keys.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows.len == 0
    }
    /// Returns the device that holds the set.
    #[inline]
    pub fn device(&self) -> &Device {
        self.rows.device()
    }
    /// Returns the bytes of device memory that the set occupies.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.rows.bytes()
    }
    /// Returns the report of the build. After a [`rebuild`](Set128Builder::rebuild) this waits for
    /// it and reads the table's header back.
    #[inline]
    pub fn report(&self) -> Result<BuildReport> {
        self.rows.report()
    }
    /// Returns all keys in row order: the order of first occurrence or, in a map's set, the input
    /// order of the remaining pairs.
    #[inline]
    pub fn keys_view(&self) -> View<'_, u128> {
        self.rows.view()
    }
    /// Downloads all keys in row order. Waits.
    ///
    /// Errors: out of memory.
    #[inline]
    pub fn keys(&self) -> Result<Vec<u128>> {
        self.keys_view().download()
    }
    /// Returns the set as a kernel argument, for lookups in a kernel launched on `stream`. It owns
    /// nothing: do not drop the set until the kernel has run.
    ///
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let set = koel::Set128::build(&device, &[9 << 100, 3])?;
    /// let rows = set.rows(&device.stream()?)?;
    /// // Host code can look keys up in it too, if the table is in host memory.
    /// // SAFETY: the set exists and is not changed.
    /// let rows = unsafe { rows.on_host() };
    /// assert_eq!((rows.row(3), rows.row(4)), (Some(1), None));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// An [opened](Self::open) set is verified first, once: kernels do not check the rows given in
    /// the file. Errors: a stream of another device; faults of the file.
    #[inline]
    pub fn rows(&self, stream: &Stream) -> Result<RowsRef> {
        self.rows.keys.file().map_or(Ok(()), Mapping::verify_once)?;
        // Otherwise, rows of a file may be out of bounds.
        let Rows { table, draw, .. } = &self.rows;
        rows_ref(stream, self.keys_view(), Fingerprint::new(*draw), table.table(stream)?)
    }
    /// Copies the set to another device, or to the same one: the same rows, the same answers.
    /// Copies through host memory and waits. An [opened](Self::open) set is verified first, then
    /// copied from where it is.
    ///
    /// Errors: out of memory; for an opened set, faults of its file.
    #[inline]
    pub fn to_device(&self, device: &Device) -> Result<Set128> {
        Ok(Set128 { rows: self.rows.to_device(device)? })
    }

    /// Returns whether the set holds each key in host memory. Copies both ways and waits.
    #[inline]
    pub fn contains(&self, keys: &[u128]) -> Result<Vec<bool>> {
        collect_later(self.device(), keys.len(), |to| {
            let (device, mut found) = (self.device(), self.device().alloc(keys.len())?);
            let staged = device.stage32("keys", keys)?;
            self.contains_into(&device.stream()?, staged.view(), found.view_mut())?;
            found.view().copy_map(to, |found: u8| found != 0)
        })
    }
    /// Writes whether the set holds each key: sets `found[i]` to 1 or 0.
    ///
    /// Takes one launch, allocates nothing and does not wait. Reads keys and writes answers once,
    /// and reads 3.13 sectors of 32 bytes per present key, 1.11 per absent key (load 0.8). Errors:
    /// mismatched lengths, buffers of another device.
    #[inline]
    pub fn contains_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        mut found: ViewMut<'_, u8>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        check_length("found", found.len(), "keys", keys.len())?;
        let to = found.arg("found", stream)?;
        self.look_up(
            stream,
            keys,
            // SAFETY: `n` queries and answers; the rows are as built.
            |grid, n, rows, queries| unsafe {
                keys128_contains::launch(stream, grid, rows, n, queries, to)
            },
            |rows, queries| {
                let found = found.host_mut().unwrap_or(&mut []).chunks_mut(CHUNK);
                rows.look_up(queries, found, |found, rows| {
                    found.iter_mut().zip(rows).for_each(|(to, &row)| *to = (row != NO_ROW) as u8);
                })
            },
        )
    }
    /// Writes whether the set holds each key, as a bit mask: bit `i % 32` of `found[i / 32]`. Sets
    /// the bits after the last key to 0.
    ///
    /// Like [`contains_into`](Self::contains_into), with an eighth of the bytes written. Errors: a
    /// number of words other than `keys / 32`, rounded up; buffers of another device.
    #[inline]
    pub fn contains_bits_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        mut found: ViewMut<'_, u32>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        check_length("found", found.len(), "keys / 32", keys.len().div_ceil(32))?;
        let to = found.arg("found", stream)?;
        self.look_up(
            stream,
            keys,
            // SAFETY: `n` queries, one bit per query; the rows are as built.
            |grid, n, rows, queries| unsafe {
                keys128_contains_bits::launch(stream, grid, rows, n, queries, to)
            },
            |rows, queries| {
                let found = found.host_mut().unwrap_or(&mut []).chunks_mut(CHUNK / 32);
                rows.look_up(queries, found, |found, rows| {
                    for (word, rows) in found.iter_mut().zip(rows.chunks(32)) {
                        *word = rows
                            .iter()
                            .rev()
                            .fold(0, |bits, &row| bits << 1 | (row != NO_ROW) as u32);
                    }
                })
            },
        )
    }
    /// Returns how many of the keys in host memory the set holds. Copies and waits.
    #[inline]
    pub fn count(&self, keys: &[u128]) -> Result<u64> {
        let (device, staged) = (self.device(), self.device().stage32("keys", keys)?);
        let mut count = device.alloc(1)?;
        self.count_into(&device.stream()?, staged.view(), count.view_mut())?;
        Ok(count.download()?[0])
    }
    /// Writes how many of the keys the set holds to `count[0]`.
    ///
    /// Takes a fill of one word and one launch, allocates nothing and does not wait. Otherwise like
    /// [`contains_into`](Self::contains_into).
    #[inline]
    pub fn count_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        mut count: ViewMut<'_, u64>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        check_length("count", count.len(), "the total", 1)?;
        count.fill_bytes(0, stream)?;
        let to = count.arg("count", stream)?;
        self.look_up(
            stream,
            keys,
            // SAFETY: `n` queries, one sum; the rows are as built.
            |grid, n, rows, queries| unsafe {
                keys128_count::launch(stream, grid, rows, n, queries, to)
            },
            |rows, queries| {
                let total = AtomicU64::new(0);
                let chunks = 0..queries.len().div_ceil(CHUNK);
                rows.look_up(queries, chunks, |_, rows| {
                    total.fetch_add(
                        rows.iter().filter(|&&row| row != NO_ROW).count() as u64,
                        Relaxed,
                    );
                })?;
                if let Some(count) = count.host_mut() {
                    count[0] = total.into_inner();
                }
                Ok(())
            },
        )
    }
    /// Inserts the keys in host memory that are missing: `outcomes[i]` is
    /// [`Inserted`](Outcome::Inserted) or [`Kept`](Outcome::Kept). Of equal new keys the first is
    /// inserted. Copies both ways and waits.
    ///
    /// ```
    /// use koel::Outcome::*;
    ///
    /// let mut set = koel::Set128::build(&koel::Device::cpu()?, &[3, 5 << 99])?;
    /// assert_eq!(set.insert(&[3, 7, 7])?, [Kept, Inserted, Kept]);
    /// assert_eq!(set.erase(&[3, 4])?, [Erased, Missing]);
    /// assert_eq!(set.keys()?, [7, 5 << 99]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: as [`apply`](Self::apply).
    #[inline]
    pub fn insert(&mut self, keys: &[u128]) -> Result<Vec<Outcome>> {
        self.update_all(SetOperation::Insert, keys)
    }
    /// Removes each key in host memory: the outcome is [`Erased`](Outcome::Erased) or
    /// [`Missing`](Outcome::Missing). Otherwise like [`insert`](Self::insert).
    #[inline]
    pub fn erase(&mut self, keys: &[u128]) -> Result<Vec<Outcome>> {
        self.update_all(SetOperation::Erase, keys)
    }
    #[inline]
    fn update_all(&mut self, operation: SetOperation, keys: &[u128]) -> Result<Vec<Outcome>> {
        let (device, operations) = (self.device().clone(), Operations::All(operation));
        let keys = device.stage32("keys", keys)?;
        outcomes_of(&device, keys.view().len(), |stream, outcomes| {
            self.apply(stream, operations, keys.view(), outcomes)
        })
    }
    /// Applies a batch of operations, as a [`SetUpdater`](crate::SetUpdater) does: see
    /// [`Map128::apply`](super::Map128::apply).
    #[inline]
    pub fn apply(
        &mut self,
        stream: &Stream,
        operations: Operations<'_, SetOperation>,
        keys: View<'_, u128>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        let mut updater = RowsUpdater::new(self.device())?;
        apply_to_keys(&mut updater, &mut self.rows, stream, operations, keys, outcomes)
    }
    /// Rebuilds the set at load 0.8 without room for more, unless that would take no less memory.
    /// Waits.
    ///
    /// Errors: out of memory. After an error the set is unchanged.
    #[inline]
    pub fn shrink(&mut self) -> Result<()> {
        self.shrink_to(SetOptions::default().load)
    }
    #[inline]
    pub(super) fn shrink_to(&mut self, load: f64) -> Result<()> {
        let (device, options) = (self.device().clone(), SetOptions::default().with_load(load));
        let mut builder = Set128Builder::new(&device, options)?;
        let shrunk = builder.build(&device.stream()?, self.keys_view())?;
        if shrunk.bytes() < self.bytes() {
            *self = shrunk;
        }
        Ok(())
    }
    /// Returns the keys in host memory that the set holds, or those that it does not hold.
    #[inline]
    pub(super) fn filter(&self, keys: &[u128], held: bool) -> Result<Vec<u128>> {
        let found = self.contains(keys)?;
        let kept = keys.iter().zip(found).filter(|&(_, found)| found == held);
        Ok(collect(kept.map(|(&key, _)| key))?)
    }
    /// Looks keys up by a kernel, for which `launch` receives the grid and the number of queries,
    /// or by native code.
    pub(super) fn look_up(
        &self,
        stream: &Stream,
        queries: View<'_, u128>,
        launch: impl FnOnce(u32, u32, RowsRef, In<u128>) -> Result<()>,
        on_host: impl FnOnce(HostRows<'_, &[u128]>, &[u128]) -> Result<()>,
    ) -> Result<()> {
        // Kernels never look up a set that is in a file.
        let launch = |grid, n, function, table| {
            let rows = rows_ref(stream, self.keys_view(), function, table)?;
            launch(grid, n, rows, queries.arg("keys", stream)?)
        };
        self.rows.look_up(stream, queries, launch, on_host)
    }
}
impl fmt::Debug for Set128 {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Set128[{} keys] on {}", self.len(), self.device().name())
    }
}

/// Builds sets of 128-bit keys, and keeps scratch memory across builds.
pub struct Set128Builder {
    rows: RowsBuilder<Stored<u128>>,
}
impl Set128Builder {
    /// Creates a builder. Errors: a load factor outside 0.3 to 0.95.
    #[inline]
    pub fn new(device: &Device, options: SetOptions) -> Result<Set128Builder> {
        Ok(Set128Builder { rows: RowsBuilder::new(device, options)? })
    }
    /// Builds a set of these keys; equal keys become one. Waits for the device.
    ///
    /// Allocates the set, and scratch memory if there are more keys than ever before.
    /// [Cost](crate::keys128). Errors: more keys than 31-bit indices can address, buffers of
    /// another device, out of memory.
    #[inline]
    pub fn build(&mut self, stream: &Stream, keys: View<'_, u128>) -> Result<Set128> {
        let _apart = Apart::begin();
        let (mut set, seconds) =
            stream.time(|| self.build_by(stream, keys, Duplicates::KeepFirst))?;
        set.rows.built.device_seconds = Some(seconds);
        Ok(set)
    }
    /// Replaces the content of a set by other keys. Like [`build`](Self::build), but allocates
    /// nothing if the set and this builder have held as many keys before, and waits for the device
    /// only midway, for counts, not at the end.
    ///
    /// From here on in stream order, the set answers for the new keys. On a GPU, it keeps memory
    /// for a table of all keys of an input in which some are equal. [`Set128::report`] returns the
    /// report of the rebuild.
    ///
    /// Errors: as [`build`](Self::build); a set on another device; a stream that is being captured.
    /// After an error the set is unchanged, unless the device itself failed: then it is empty.
    #[inline]
    pub fn rebuild(
        &mut self,
        set: &mut Set128,
        stream: &Stream,
        keys: View<'_, u128>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        self.rebuild_by("set", set, stream, keys, Duplicates::KeepFirst, |_| Ok(()))
    }
    /// Builds a set with this policy: see [`RowsBuilder::build`].
    #[inline]
    pub(super) fn build_by(
        &mut self,
        stream: &Stream,
        keys: View<'_, u128>,
        duplicates: Duplicates,
    ) -> Result<Set128> {
        Ok(Set128 { rows: self.rows.build(stream, keys, duplicates)? })
    }
    /// Rebuilds a set with this policy: see [`RowsBuilder::rebuild`].
    pub(super) fn rebuild_by(
        &mut self,
        name: &'static str,
        set: &mut Set128,
        stream: &Stream,
        keys: View<'_, u128>,
        duplicates: Duplicates,
        reserve: impl FnOnce(usize) -> Result<()>,
    ) -> Result<()> {
        self.rows.rebuild(name, &mut set.rows, stream, keys, duplicates, reserve)
    }
    #[inline]
    pub(super) fn scratch_bytes(&self) -> usize {
        self.rows.scratch_bytes()
    }
    /// Returns which keys of the last build stayed.
    #[inline]
    pub(super) fn kept(&mut self) -> Kept<'_> {
        self.rows.kept()
    }
}
