//! Keys in rows of an array, and a map from their fingerprints to their rows: what the tables of
//! [128-bit keys](crate::keys128) and of [strings](crate::strings) share.
//!
//! [`builder`] tells equal keys from those that share a fingerprint, and builds the map; [`host`]
//! looks keys up natively; [`numbering`] makes short work of columns with few distinct keys. Types
//! of columns say how keys are stored and which kernels know them: see [`Column`].
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
mod builder;
mod changes;
pub(crate) mod file;
mod host;
mod numbering;
pub(crate) mod update;

use crate::device::{Apart, Device, Stream, View, ViewMut};
use crate::error::{Error, Result, check_length, count32};
use crate::fallible::collect;
use crate::map::{Map, PairsOf};
use crate::table::BuildReport;
use crate::table::Family;
use crate::types::Bits;
pub(crate) use builder::{Kept, RowsBuilder};
pub(crate) use changes::{Gaps, compare, gathered};
use host::write_fingerprints;
pub(crate) use host::{CHUNK, HostRows};
#[cfg(doc)]
use koel_kernels::keys128::find::NO_ROW;
use koel_kernels::keys128::find::keys128_rows;
use koel_kernels::map::find::MapRef;
use koel_kernels::table::layout::Wide;
use koel_simt::Buf;
pub(crate) use numbering::{Hashed, Numbered, Other, Own, Way, number};

/// Threads per block of all kernels of rows.
pub(crate) const THREADS: u32 = keys128_rows::SPEC.threads;
/// Table of the rows of fingerprints, as kernels see it.
pub(crate) type RowTable = MapRef<Wide<u64, u32>>;

/// Report of a build, as far as it is known when the build is on the stream.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub duplicates: usize,
    pub attempts: u32,
    /// Bytes of scratch memory, without that of the table's builder.
    pub scratch_bytes: usize,
    pub device_seconds: Option<f64>,
}

/// Checks that a table at this load has room for the rows of `n` keys, before anything is
/// allocated.
#[inline]
pub(crate) fn check_rows(n: usize, load: f64) -> Result<()> {
    PairsOf::<u64, u32>::plan(n, load).map(|_| ())
}

/// Keys in host memory, by number.
pub(crate) trait Keys: Copy + Send + Sync {
    type Key: ?Sized + PartialEq;
    /// Returns the number of keys.
    fn len(&self) -> usize;
    /// Returns a key; `None` if there is none of this number.
    fn key(&self, i: usize) -> Option<&Self::Key>;
    /// Returns `len` keys from `start` on. Panics if there are not as many.
    fn part(&self, start: usize, len: usize) -> Self;
}
impl<B: Bits> Keys for &[B] {
    type Key = B;
    #[inline(always)]
    fn len(&self) -> usize {
        (**self).len()
    }
    #[inline(always)]
    fn key(&self, i: usize) -> Option<&B> {
        self.get(i)
    }
    fn part(&self, start: usize, len: usize) -> Self {
        &self[start..][..len]
    }
}
/// Keys that are looked up.
pub(crate) trait Queries: Keys {
    /// Hash function from keys to fingerprints.
    type Function: Copy + Sync;
    /// Writes the fingerprints of all keys. `#[inline(always)]`: compiled for the vector
    /// instructions of its caller.
    fn fingerprints(&self, function: Self::Function, to: &mut [u64]);
}
/// Keys in rows, which are read at random.
pub(crate) trait InRows: Queries {
    /// Number of steps in which a key is prefetched: what one step reads, the step before fetches.
    const STEPS: usize;
    /// Takes a step to prefetch a key. Any number is allowed.
    fn prefetch(&self, i: usize, step: usize);
}
/// A column of keys in its own memory.
pub(crate) trait Column: Sized {
    /// Keys of an input, or of a table.
    type View<'v>: Copy;
    type Key: ?Sized + PartialEq;
    type Host<'v>: InRows<Key = Self::Key, Function = Self::Function>;
    type Function: Copy + Sync;
    /// Returns the function of a draw.
    fn function(draw: u64) -> Self::Function;
    /// Returns the first `len` keys.
    fn view(&self, len: usize) -> Self::View<'_>;
    /// Returns the size in bytes.
    fn bytes(&self) -> usize;
    /// Returns the number of keys.
    fn count(keys: Self::View<'_>) -> usize;
    /// Checks that a stream can use the keys.
    fn check(keys: Self::View<'_>, stream: &Stream) -> Result<()>;
    /// Returns the keys if they are in host memory and no graph may write them.
    fn on_host<'v>(keys: Self::View<'v>) -> Option<Self::Host<'v>>;
    /// Writes the fingerprint and the row of each key by a kernel. Receives the number of keys and
    /// the first row.
    ///
    /// # Safety
    /// There is memory for as many fingerprints and rows.
    unsafe fn launch_fingerprints(
        stream: &Stream,
        keys_and_row: (u32, u32),
        keys: Self::View<'_>,
        function: Self::Function,
        fingerprints: Buf<u64>,
        rows: Buf<u32>,
    ) -> Result<()>;
    /// Writes the row of each of `n` queries in the table of a function, or [`NO_ROW`], by a
    /// kernel.
    ///
    /// # Safety
    /// The table was built from the keys; there is memory for `n` rows.
    unsafe fn launch_rows(
        stream: &Stream,
        n: u32,
        keys: Self::View<'_>,
        of: (Self::Function, RowTable),
        queries: Self::View<'_>,
        rows: Buf<u32>,
    ) -> Result<()>;
    /// Looks up `n` keys by a kernel in the table of a function, which tells those that stay: see
    /// [`tell_kept`](koel_kernels::keys128::build::tell_kept).
    ///
    /// # Safety
    /// The table was built from the keys; there is memory for `n` flags, and for the counts.
    unsafe fn launch_verify(
        stream: &Stream,
        n: u32,
        keys: Self::View<'_>,
        of: (Self::Function, RowTable),
        kept: Buf<u8>,
        counts: Buf<u32>,
    ) -> Result<()>;
    /// Returns the keys of the last input that stay, in own memory.
    fn keep(kept: &mut Kept<'_>, stream: &Stream, keys: Self::View<'_>) -> Result<Self>;
    /// Returns the keys of these rows, in this order.
    fn select(keys: Self::View<'_>, stream: &Stream, rows: View<'_, u32>) -> Result<Self>;
    /// Adds the keys of another column behind the first `len` keys. Errors: out of memory; faults
    /// of a file that holds the keys. After an error the first `len` keys are as before.
    fn append(&mut self, stream: &Stream, len: usize, more: Self::View<'_>) -> Result<()>;
    /// Forgets the keys behind the first `len`.
    fn truncate(&mut self, len: usize);
    /// Moves keys from the last rows into gaps. Errors: out of memory; then the keys are as before.
    fn fill_gaps(&mut self, stream: &Stream, gaps: &Gaps, moved: Self::View<'_>) -> Result<()>;
    /// Copies the first `len` keys to a device, through host memory. Waits. Errors: out of memory;
    /// faults of a file that holds them.
    fn copied(&self, len: usize, device: &Device) -> Result<Self>;
    /// Returns the error for the first key that occurred before.
    fn first_duplicate(keys: Self::View<'_>) -> Result<Error>;
}

/// Writes the fingerprint and the row of each key: the function is that of a draw, and the first
/// row is `first`. Asynchronous.
pub(crate) fn write_rows<C: Column>(
    stream: &Stream,
    keys: C::View<'_>,
    (draw, first): (u64, usize),
    mut fingerprints: ViewMut<'_, u64>,
    mut rows: ViewMut<'_, u32>,
) -> Result<()> {
    let (n, first, function) =
        (count32("keys", C::count(keys))?, count32("rows", first)?, C::function(draw));
    check_length("fingerprints", fingerprints.len(), "keys", n as usize)?;
    check_length("rows", rows.len(), "keys", n as usize)?;
    if !stream.device().runs_kernels()
        && let Some(keys) = C::on_host(keys)
    {
        let to = (fingerprints.elements("fingerprints")?, rows.elements("rows")?);
        write_fingerprints(stream.device(), keys, function, first, to);
        return Ok(());
    }
    let (to, rows) = (fingerprints.arg("fingerprints", stream)?, rows.arg("rows", stream)?);
    // SAFETY: `n` fingerprints and rows.
    unsafe { C::launch_fingerprints(stream, (n, first), keys, function, to, rows) }
}

/// Distinct keys, each in its own row.
pub(crate) struct Rows<C> {
    /// Map from fingerprints to rows.
    pub table: Map<u64, u32>,
    /// Draw that determines the fingerprint function.
    pub draw: u64,
    /// May have capacity for more.
    pub keys: C,
    pub len: usize,
    pub built: Counts,
}
impl<C: Column> Rows<C> {
    /// Returns the keys in row order.
    pub(crate) fn view(&self) -> C::View<'_> {
        self.keys.view(self.len)
    }
    pub(crate) fn device(&self) -> &Device {
        self.table.device()
    }
    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes() + self.keys.bytes()
    }
    /// Returns the report of the build. After a rebuild this waits for it and reads the table's
    /// header back.
    pub(crate) fn report(&self) -> Result<BuildReport> {
        let (of_table, Counts { duplicates, attempts, scratch_bytes, device_seconds }) =
            (self.table.report()?, self.built);
        Ok(BuildReport {
            entries: self.len,
            duplicates,
            attempts,
            bytes: self.bytes(),
            scratch_bytes: of_table.scratch_bytes + scratch_bytes,
            device_seconds,
            ..of_table
        })
    }
    /// Copies the table to a device, or to the same one. Errors: as [`Column::copied`].
    pub(crate) fn to_device(&self, device: &Device) -> Result<Rows<C>> {
        let _apart = Apart::begin();
        let &Rows { ref table, draw, ref keys, len, built } = self;
        let (table, keys) = (table.to_device(device)?, keys.copied(len, device)?);
        Ok(Rows { table, draw, keys, len, built })
    }
    /// Empties the table after a failed rebuild.
    pub(crate) fn forget(&mut self, stream: &Stream) {
        self.table.forget(stream);
        (self.len, self.built) = (0, Counts::default());
    }
    /// Writes the row of each query, or [`NO_ROW`], to `found`.
    ///
    /// Errors: mismatched lengths, buffers of another device.
    pub(crate) fn rows_into(
        &self,
        stream: &Stream,
        queries: C::View<'_>,
        mut found: ViewMut<'_, u32>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        check_length("rows", found.len(), "keys", C::count(queries))?;
        let to = found.arg("rows", stream)?;
        self.look_up(
            stream,
            queries,
            // SAFETY: `n` queries and answers; the rows are as built.
            |_, n, function, table| unsafe {
                C::launch_rows(stream, n, self.view(), (function, table), queries, to)
            },
            |rows, queries| {
                let found = found.host_mut().unwrap_or(&mut []).chunks_mut(CHUNK);
                rows.look_up(queries, found, |found, rows| found.copy_from_slice(rows))
            },
        )
    }
    /// Looks keys up by a kernel, for which `launch` receives the grid, the number of queries, the
    /// fingerprint function and the table, or by native code.
    pub(crate) fn look_up(
        &self,
        stream: &Stream,
        queries: C::View<'_>,
        launch: impl FnOnce(u32, u32, C::Function, RowTable) -> Result<()>,
        on_host: impl FnOnce(HostRows<'_, C::Host<'_>>, C::Host<'_>) -> Result<()>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        let n = count32("keys", C::count(queries))?;
        let table = self.table.table(stream)?;
        if self.device().runs_kernels() {
            return launch(n.div_ceil(THREADS), n, C::function(self.draw), table);
        }
        C::check(queries, stream)?;
        match (self.on_host()?, C::on_host(queries)) {
            (Some(rows), Some(queries)) => on_host(rows, queries),
            _ => Ok(()),
        }
    }
    /// Returns what native lookups need, on a device that runs no kernels.
    pub(crate) fn on_host(&self) -> Result<Option<HostRows<'_, C::Host<'_>>>> {
        let (Some(table), Some(keys)) = (self.table.finder()?, C::on_host(self.view())) else {
            return Ok(None);
        };
        Ok(Some(HostRows { device: self.device(), function: C::function(self.draw), table, keys }))
    }
}
/// Returns the answers to keys that are found, with the number of each key.
pub(crate) fn joined<T>(found: Vec<Option<T>>) -> Result<Vec<(u32, T)>> {
    let rows = (0..).zip(found).filter_map(|(number, answer)| Some((number, answer?)));
    Ok(collect(rows)?)
}
