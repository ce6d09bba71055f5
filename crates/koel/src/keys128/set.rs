//! Distinct keys, each in its own row: also the basis of maps and indexes.
mod builder;

use super::Report128;
use super::THREADS;
use super::host::{CHUNK, HostRows};
use crate::device::memory::collect_later;
use crate::device::{Apart, Device, Stream, View, ViewMut};
use crate::error::{Result, check_length, count32};
use crate::file::reader::Mapping;
use crate::file::stored::Stored;
use crate::map::Map;
use crate::set::SetOptions;
pub use builder::Set128Builder;
use koel_kernels::keys128::find::{
    NO_ROW, RowsRef, keys128_contains, keys128_contains_bits, keys128_count, keys128_rows,
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
    /// Map from fingerprints to rows.
    pub(super) table: Map<u64, u32>,
    /// Draw that determines the fingerprint function.
    pub(super) draw: u64,
    /// May have capacity for more.
    pub(super) keys: Stored<u128>,
    pub(super) len: usize,
    pub(super) built: Counts128,
}
/// Report of a build, as far as it is known when the build is on the stream.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts128 {
    pub duplicates: usize,
    pub attempts: u32,
    /// Bytes of scratch memory, without that of the table's builder.
    pub scratch_bytes: usize,
    pub device_seconds: Option<f64>,
}
impl Set128 {
    /// Builds a set from keys in host memory, with default options: load 0.8. Equal keys become
    /// one. Copies and waits.
    ///
    /// Errors: more keys than 31-bit indices can address, out of memory.
    pub fn build(device: &Device, keys: &[u128]) -> Result<Set128> {
        let keys = device.stage32("keys", keys)?;
        Set128Builder::new(device, SetOptions::default())?.build(&device.stream()?, keys.view())
    }
    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the device that holds the set.
    pub fn device(&self) -> &Device {
        self.table.device()
    }
    /// Returns the bytes of device memory that the set occupies.
    pub fn bytes(&self) -> usize {
        self.table.bytes() + self.keys.bytes()
    }
    /// Returns the report of the build. After a [`rebuild`](Set128Builder::rebuild) this waits for
    /// it and reads the table's header back.
    pub fn report(&self) -> Result<Report128> {
        let (of_table, Counts128 { duplicates, attempts, scratch_bytes, device_seconds }) =
            (self.table.report()?, self.built);
        Ok(Report128 {
            keys: self.len,
            duplicates,
            attempts,
            stashed: of_table.stashed,
            bytes: self.bytes(),
            scratch_bytes: of_table.scratch_bytes + scratch_bytes,
            device_seconds,
        })
    }
    /// Returns all keys in row order: the order of first occurrence or, in a map's set, the input
    /// order of the remaining pairs.
    pub fn keys_view(&self) -> View<'_, u128> {
        self.keys.view().first(self.len)
    }
    /// Downloads all keys in row order. Waits.
    ///
    /// Errors: out of memory.
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
    pub fn rows(&self, stream: &Stream) -> Result<RowsRef> {
        self.keys.file().map_or(Ok(()), Mapping::verify_once)?;
        self.unchecked_rows(stream)
    }
    /// Like [`rows`](Self::rows), without verification: rows of a file may be out of bounds.
    fn unchecked_rows(&self, stream: &Stream) -> Result<RowsRef> {
        rows_of(&self.table, self.draw, self.keys_view(), stream)
    }
    /// Copies the set to another device, or to the same one: the same rows, the same answers.
    /// Copies through host memory and waits. An [opened](Self::open) set is verified first, then
    /// copied from where it is.
    ///
    /// Errors: out of memory; for an opened set, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<Set128> {
        let _apart = Apart::begin();
        let (table, keys) = (self.table.to_device(device)?, self.keys.upload(self.len, device)?);
        Ok(Set128 {
            table,
            draw: self.draw,
            keys: Stored::Own(keys),
            len: self.len,
            built: self.built,
        })
    }
    /// Empties the set after a failed rebuild.
    pub(super) fn forget(&mut self, stream: &Stream) {
        self.table.forget(stream);
        (self.len, self.built) = (0, Counts128::default());
    }

    /// Returns whether the set holds each key in host memory. Copies both ways and waits.
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
    /// Writes the row of `keys[i]`, or [`NO_ROW`], to `found[i]`.
    pub(super) fn rows_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        mut found: ViewMut<'_, u32>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        let to = found.arg("found", stream)?;
        self.look_up(
            stream,
            keys,
            // SAFETY: `n` queries and answers, as the caller has checked; the rows are as built.
            |grid, n, rows, queries| unsafe {
                keys128_rows::launch(stream, grid, rows, n, queries, to)
            },
            |rows, queries| {
                let found = found.host_mut().unwrap_or(&mut []).chunks_mut(CHUNK);
                rows.look_up(queries, found, |found, rows| found.copy_from_slice(rows))
            },
        )
    }
    /// Looks keys up by a kernel, for which `launch` receives the grid and the number of queries,
    /// or by native code.
    pub(super) fn look_up(
        &self,
        stream: &Stream,
        queries: View<'_, u128>,
        launch: impl FnOnce(u32, u32, RowsRef, In<u128>) -> Result<()>,
        on_host: impl FnOnce(HostRows<'_>, &[u128]) -> Result<()>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        let n = count32("keys", queries.len())?;
        // Kernels never look up a set that is in a file.
        let (rows, from) = (self.unchecked_rows(stream)?, queries.arg("keys", stream)?);
        match (self.table.finder()?, self.keys_view().host(), queries.host()) {
            (None, ..) => launch(n.div_ceil(THREADS), n, rows, from),
            (Some(table), Some(keys), Some(queries)) => on_host(
                HostRows { device: self.device(), fingerprint: rows.fingerprint, table, keys },
                queries,
            ),
            _ => Ok(()),
        }
    }
}
/// Returns the rows as a kernel argument.
fn rows_of(
    table: &Map<u64, u32>,
    draw: u64,
    keys: View<'_, u128>,
    stream: &Stream,
) -> Result<RowsRef> {
    Ok(RowsRef {
        fingerprint: Fingerprint::new(draw),
        table: table.table(stream)?,
        keys: keys.arg("rows", stream)?,
    })
}
impl fmt::Debug for Set128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Set128[{} keys] on {}", self.len(), self.device().name())
    }
}
