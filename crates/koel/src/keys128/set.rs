//! Distinct keys, each in a row of its own: what maps and indexes are made of too.
use super::Report128;
use super::host::{CHUNK, HostRows};
use super::kernels::{THREADS, with_rows};
use crate::device::{Buffer, Device, Stream, View, ViewMut};
use crate::duplicates::{Duplicates, first_duplicate};
use crate::error::{Error, Result, check_length, count32};
use crate::map::{Map, MapBuilder, MapOptions};
use crate::primitives::Compact;
use crate::primitives::compact::CompactElement;
use crate::set::SetOptions;
use koel_kernels::keys128::build::{counts, keys128_fingerprints, keys128_verify};
use koel_kernels::keys128::find::{NO_ROW, Rows, keys128_contains, keys128_contains_bits, keys128_count, keys128_rows};
use koel_kernels::keys128::fingerprint::Fingerprint;
use koel_simt::In;
use rayon::prelude::*;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A set of keys of 128 bits, on a device.
///
/// ```
/// let device = koel::Device::cpu()?;
/// let set = koel::Set128::build(&device, &[9 << 100, 3, 9 << 100])?;
/// assert_eq!(set.contains(&[3, 4])?, [true, false]);
/// assert_eq!(set.keys().download()?, [9 << 100, 3]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// How it works, and what it costs: [`keys128`](super).
pub struct Set128 {
    /// From fingerprints to rows.
    table: Map<u64, u32>,
    fingerprint: Fingerprint,
    keys: Buffer<u128>,
    pub(super) report: Report128,
}
impl Set128 {
    /// Of host keys, with the options' defaults: load 0.8. Equal keys are one. Copies, and waits.
    ///
    /// Errors: more keys than 31-bit indices reach, out of memory.
    pub fn build(device: &Device, keys: &[u128]) -> Result<Set128> {
        let keys = device.stage(keys)?;
        Set128Builder::new(device, SetOptions::default())?.build(&device.stream()?, keys.view())
    }
    /// Keys stored.
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
        self.table.bytes() + self.keys.bytes()
    }
    /// How its build went.
    pub fn report(&self) -> Report128 {
        self.report
    }
    /// All keys, row by row: in the order in which they first came, or, of a map's set, in that of the pairs that stayed.
    pub fn keys(&self) -> View<'_, u128> {
        self.keys.view()
    }
    /// The set as kernels see it, to look keys up inside a kernel that is launched on `stream`: hand over its parts and put them together
    /// again there. It owns nothing: do not drop the set until the kernel has run.
    ///
    /// ```
    /// use koel::keys128::Rows;
    ///
    /// let device = koel::Device::cpu()?;
    /// let set = koel::Set128::build(&device, &[9 << 100, 3])?;
    /// let Rows { fingerprint, table, keys } = set.rows(&device.stream()?)?;
    /// // In a kernel, from its arguments:
    /// let rows = Rows::new(fingerprint, table.shape, table.stash_bits, table.slots, table.stash, table.header, keys);
    /// assert_eq!((rows.row(3), rows.row(4)), (Some(1), None));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: a stream of another device.
    pub fn rows(&self, stream: &Stream) -> Result<Rows> {
        rows_of(&self.table, self.fingerprint, self.keys.view(), stream)
    }
    /// A copy on another device, or on the same one: the same rows, the same answers. Copies through host memory and waits.
    ///
    /// Errors: out of memory.
    pub fn to_device(&self, device: &Device) -> Result<Set128> {
        let (table, keys) = (self.table.to_device(device)?, device.upload(&self.keys.download()?)?);
        Ok(Set128 { table, keys, ..*self })
    }

    /// Whether the set holds host keys. Copies both ways and waits.
    pub fn contains(&self, keys: &[u128]) -> Result<Vec<bool>> {
        let mut found = self.device().alloc(keys.len())?;
        self.contains_into(&self.device().stream()?, self.device().stage(keys)?.view(), found.view_mut())?;
        Ok(found.download()?.into_iter().map(|f: u8| f != 0).collect())
    }
    /// Whether the set holds each key: `found[i]` becomes 1 or 0.
    ///
    /// One launch; allocates nothing, waits for nothing. Keys are read and answers written once; besides, 3.13 sectors of 32 bytes for a key
    /// that is there, 1.11 for one that is not (load 0.8). Errors: lengths that differ, buffers of another device.
    pub fn contains_into(&self, stream: &Stream, keys: View<'_, u128>, mut found: ViewMut<'_, u8>) -> Result<()> {
        check_length("found", found.len(), "keys", keys.len())?;
        let to = found.arg("found", stream)?;
        self.look_up(
            stream,
            keys,
            // SAFETY: `n` queries and answers; rows as they were built.
            |grid, n, rows, queries| unsafe {
                with_rows!(rows, keys128_contains::launch, (stream, grid, n), (queries, to))
            },
            |rows, queries| {
                let found = found.host_mut().unwrap_or(&mut []).par_chunks_mut(CHUNK);
                rows.look_up(queries, found, |found, rows| {
                    found.iter_mut().zip(rows).for_each(|(to, &row)| *to = (row != NO_ROW) as u8);
                })
            },
        )
    }
    /// Whether the set holds each key, as a bit mask: bit `i % 32` of `found[i / 32]`. The bits behind the last key become 0.
    ///
    /// As [`contains_into`](Self::contains_into), with an eighth of the bytes written. Errors: fewer or more words than `keys / 32`,
    /// rounded up; buffers of another device.
    pub fn contains_bits(&self, stream: &Stream, keys: View<'_, u128>, mut found: ViewMut<'_, u32>) -> Result<()> {
        check_length("found", found.len(), "keys / 32", keys.len().div_ceil(32))?;
        let to = found.arg("found", stream)?;
        self.look_up(
            stream,
            keys,
            // SAFETY: `n` queries, a bit for each; rows as they were built.
            |grid, n, rows, queries| unsafe {
                with_rows!(rows, keys128_contains_bits::launch, (stream, grid, n), (queries, to))
            },
            |rows, queries| {
                let found = found.host_mut().unwrap_or(&mut []).par_chunks_mut(CHUNK / 32);
                rows.look_up(queries, found, |found, rows| {
                    for (word, rows) in found.iter_mut().zip(rows.chunks(32)) {
                        *word = rows.iter().rev().fold(0, |bits, &row| bits << 1 | (row != NO_ROW) as u32);
                    }
                })
            },
        )
    }
    /// How many of the host keys the set holds. Copies and waits.
    pub fn count(&self, keys: &[u128]) -> Result<u64> {
        let mut count = self.device().alloc(1)?;
        self.count_into(&self.device().stream()?, self.device().stage(keys)?.view(), count.view_mut())?;
        Ok(count.download()?[0])
    }
    /// How many of the keys the set holds: `count[0]`.
    ///
    /// A fill of one word and one launch; allocates nothing, waits for nothing. Otherwise as [`contains_into`](Self::contains_into).
    pub fn count_into(&self, stream: &Stream, keys: View<'_, u128>, mut count: ViewMut<'_, u64>) -> Result<()> {
        check_length("count", count.len(), "one sum", 1)?;
        count.fill_bytes(0, stream)?;
        let to = count.arg("count", stream)?;
        self.look_up(
            stream,
            keys,
            // SAFETY: `n` queries, one sum; rows as they were built.
            |grid, n, rows, queries| unsafe {
                with_rows!(rows, keys128_count::launch, (stream, grid, n), (queries, to))
            },
            |rows, queries| {
                let total = AtomicU64::new(0);
                let chunks = (0..queries.len().div_ceil(CHUNK)).into_par_iter();
                rows.look_up(queries, chunks, |_, rows| {
                    total.fetch_add(rows.iter().filter(|&&row| row != NO_ROW).count() as u64, Relaxed);
                })?;
                if let Some(count) = count.host_mut() {
                    count[0] = total.into_inner();
                }
                Ok(())
            },
        )
    }
    /// `found[i]` = the row of `keys[i]`, or [`NO_ROW`].
    pub(super) fn rows_into(&self, stream: &Stream, keys: View<'_, u128>, mut found: ViewMut<'_, u32>) -> Result<()> {
        let to = found.arg("found", stream)?;
        self.look_up(
            stream,
            keys,
            // SAFETY: `n` queries and answers, as the caller has checked; rows as they were built.
            |grid, n, rows, queries| unsafe {
                with_rows!(rows, keys128_rows::launch, (stream, grid, n), (queries, to))
            },
            |rows, queries| {
                let found = found.host_mut().unwrap_or(&mut []).par_chunks_mut(CHUNK);
                rows.look_up(queries, found, |found, rows| found.copy_from_slice(rows))
            },
        )
    }
    /// Looks keys up by a kernel, which `launch` gets the grid and the number of queries for, or by native code.
    pub(super) fn look_up(
        &self,
        stream: &Stream,
        queries: View<'_, u128>,
        launch: impl FnOnce(u32, u32, Rows, In<u128>) -> Result<()>,
        on_host: impl FnOnce(HostRows<'_>, &[u128]) -> Result<()>,
    ) -> Result<()> {
        let n = count32("keys", queries.len())?;
        let (rows, from) = (self.rows(stream)?, queries.arg("keys", stream)?);
        match (self.table.finder()?, self.keys.host(), queries.host()) {
            (None, ..) => launch(n.div_ceil(THREADS), n, rows, from),
            (Some(table), Some(keys), Some(queries)) => {
                on_host(HostRows { device: self.device(), fingerprint: self.fingerprint, table, keys }, queries)
            }
            _ => Ok(()),
        }
    }
}
/// Rows as kernels see them.
fn rows_of(table: &Map<u64, u32>, fingerprint: Fingerprint, keys: View<'_, u128>, stream: &Stream) -> Result<Rows> {
    Ok(Rows { fingerprint, table: table.table(stream)?, keys: keys.arg("rows", stream)? })
}
impl fmt::Debug for Set128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Set128[{} keys] on {}", self.len(), self.device().name())
    }
}

/// Builds sets of 128-bit keys, and keeps the memory that building needs from one build to the next.
pub struct Set128Builder {
    device: Device,
    tables: MapBuilder<u64, u32>,
    /// What a build tries first.
    first: Fingerprint,
    scratch: Option<Scratch>,
}
/// Draws of a function. The chance that none of them suits 2^31 keys is less than 2^-120.
const MOST_ATTEMPTS: u32 = 40;
/// Memory of a build, for each key of the input.
struct Scratch {
    fingerprints: Buffer<u64>,
    rows: Buffer<u32>,
    /// 1 for those that stay.
    kept: Buffer<u8>,
    counts: Buffer<u32>,
    compact: Compact,
    /// How many keys the last build had, and how many stayed.
    last: (usize, usize),
}
impl Set128Builder {
    /// Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: SetOptions) -> Result<Set128Builder> {
        let SetOptions { load, seed } = options;
        let tables = MapBuilder::new(device, MapOptions { load, seed, ..MapOptions::default() })?;
        Ok(Set128Builder { device: device.clone(), tables, first: Fingerprint::new(seed.into()), scratch: None })
    }
    /// Builds a set of these keys; equal ones are one. Waits for the device.
    ///
    /// Allocates the set, and scratch memory if there were never so many keys before. [What it costs](super). Errors: more keys than 31-bit
    /// indices reach, buffers of another device, out of memory.
    pub fn build(&mut self, stream: &Stream, keys: View<'_, u128>) -> Result<Set128> {
        let (mut set, seconds) = stream.time(|| self.build_rows(stream, keys, Duplicates::KeepFirst))?;
        set.report.device_seconds = seconds;
        Ok(set)
    }
    /// Builds, by this policy. Of the values of the same input [`keep`](Self::keep) then keeps those of the keys that stayed.
    pub(super) fn build_rows(
        &mut self,
        stream: &Stream,
        keys: View<'_, u128>,
        duplicates: Duplicates,
    ) -> Result<Set128> {
        let n = keys.len();
        count32("keys", n)?;
        keys.arg("keys", stream)?;
        if stream.device() != &self.device {
            let (found, expected) = (stream.device().name(), self.device.name());
            return Err(Error::WrongDevice { name: "stream", found, expected });
        }
        self.reserve(n)?;
        let (mut fingerprint, mut attempts) = (self.first, 1);
        let mut policy = match duplicates {
            Duplicates::Reject => Duplicates::KeepFirst,
            other => other,
        };
        let (table, kept) = loop {
            let table = self.table_of(stream, fingerprint, keys, policy)?;
            let [unfound, kept] = self.verify(stream, &table, fingerprint, keys)?;
            if unfound == 0 {
                break (table, kept as usize);
            }
            if policy == Duplicates::Unchecked {
                // Equal keys that were promised not to be there may be why.
                policy = Duplicates::KeepLast;
            } else {
                // Not for want of a place in the table.
                table.report()?;
            }
            if attempts == MOST_ATTEMPTS {
                return Err(Error::SharedFingerprints { attempts, device: self.device.name() });
            }
            (fingerprint, attempts) = (Fingerprint::new(unforeseeable()), attempts + 1);
        };
        if kept < n && duplicates == Duplicates::Reject {
            return Err(first_duplicate(&keys.download()?));
        }
        if let Some(scratch) = &mut self.scratch {
            scratch.last = (n, kept);
        }
        let mut own = self.device.alloc(kept)?;
        let table = if kept == n {
            self.keep(stream, keys, own.view_mut())?;
            table
        } else {
            // The old one is given back first: both need not fit.
            drop(table);
            self.keep(stream, keys, own.view_mut())?;
            self.table_of(stream, fingerprint, own.view(), Duplicates::Unchecked)?
        };
        let of_table = table.report()?;
        let report = Report128 {
            keys: kept,
            duplicates: n - kept,
            attempts,
            stashed: of_table.stashed,
            bytes: table.bytes() + own.bytes(),
            scratch_bytes: of_table.scratch_bytes + self.scratch.as_ref().map_or(0, Scratch::bytes),
            device_seconds: 0.0,
        };
        Ok(Set128 { table, fingerprint, keys: own, report })
    }
    /// Elements of the last build's input that belong to keys that stayed, in their order. Errors: lengths that are not those of that build.
    pub(super) fn keep<T: CompactElement>(
        &mut self,
        stream: &Stream,
        input: View<'_, T>,
        mut output: ViewMut<'_, T>,
    ) -> Result<()> {
        let Some(scratch) = &mut self.scratch else { return Ok(()) };
        let (n, kept) = scratch.last;
        check_length("input", input.len(), "the keys", n)?;
        check_length("output", output.len(), "the keys that stay", kept)?;
        if kept == n {
            return output.copy_from(input, stream);
        }
        let (flags, count) = (scratch.kept.view().slice(..n)?, scratch.counts.view_mut().slice(..1)?);
        // SAFETY: as many flags of that build are set as it counted.
        unsafe { scratch.compact.run_kept(stream, flags, input, output, count) }
    }
    /// Memory for `n` keys.
    fn reserve(&mut self, n: usize) -> Result<()> {
        if self.scratch.as_ref().is_none_or(|scratch| scratch.rows.len() < n) {
            // The old one is given back first: both need not fit.
            self.scratch = None;
            self.scratch = Some(Scratch::new(&self.device, n)?);
        }
        Ok(())
    }
    /// A table of the rows of these keys. Nothing waits.
    fn table_of(
        &mut self,
        stream: &Stream,
        fingerprint: Fingerprint,
        keys: View<'_, u128>,
        duplicates: Duplicates,
    ) -> Result<Map<u64, u32>> {
        let n = keys.len();
        self.reserve(n)?;
        let Some(Scratch { fingerprints, rows, .. }) = &mut self.scratch else { unreachable!("it was reserved") };
        let (mut to, mut to_rows) = (fingerprints.view_mut().slice(..n)?, rows.view_mut().slice(..n)?);
        let (out, out_rows) = (to.arg("fingerprints", stream)?, to_rows.arg("rows", stream)?);
        if self.device.runs_kernels() {
            let (count, from) = (count32("keys", n)?, keys.arg("keys", stream)?);
            // SAFETY: `n` keys, fingerprints and rows.
            unsafe {
                keys128_fingerprints::launch(stream, count.div_ceil(THREADS), count, fingerprint, from, out, out_rows)
            }?;
        } else if let (Some(keys), Some(to), Some(to_rows)) = (keys.host(), to.host_mut(), to_rows.host_mut()) {
            let chunks = to.par_chunks_mut(CHUNK).zip(to_rows.par_chunks_mut(CHUNK)).zip(keys.par_chunks(CHUNK));
            self.device.install(|| {
                chunks.enumerate().for_each(|(chunk, ((to, to_rows), keys))| {
                    to.iter_mut().zip(keys).for_each(|(to, &key)| *to = fingerprint.of(key));
                    to_rows.iter_mut().zip((chunk * CHUNK) as u32..).for_each(|(to, row)| *to = row);
                })
            });
        }
        self.tables.enqueue(duplicates, stream, fingerprints.view().slice(..n)?, rows.view().slice(..n)?)
    }
    /// Looks up all keys that a table was built of, and marks those whose row is their own. Returns the [`counts`]; waits.
    fn verify(
        &mut self,
        stream: &Stream,
        table: &Map<u64, u32>,
        fingerprint: Fingerprint,
        keys: View<'_, u128>,
    ) -> Result<[u32; counts::WORDS]> {
        let Some(Scratch { kept, counts: of_device, .. }) = &mut self.scratch else { unreachable!("it was reserved") };
        let mut kept = kept.view_mut().slice(..keys.len())?;
        match (table.finder()?, keys.host(), kept.host_mut()) {
            (None, ..) => {
                of_device.view_mut().fill_bytes(0, stream)?;
                let n = count32("keys", keys.len())?;
                let rows = rows_of(table, fingerprint, keys, stream)?;
                let (to, counts) = (kept.arg("kept", stream)?, of_device.view_mut().arg("counts", stream)?);
                // SAFETY: `n` keys and flags; the table was built of them.
                unsafe { with_rows!(rows, keys128_verify::launch, (stream, n.div_ceil(THREADS), n), (to, counts)) }?;
                let counted = of_device.download()?;
                Ok(std::array::from_fn(|i| counted[i]))
            }
            (Some(table), Some(keys), Some(kept)) => {
                let [unfound, own] = [AtomicU32::new(0), AtomicU32::new(0)];
                let rows = HostRows { device: &self.device, fingerprint, table, keys };
                rows.look_up(keys, kept.par_chunks_mut(CHUNK).enumerate(), |(chunk, kept), rows| {
                    for ((kept, &row), i) in kept.iter_mut().zip(rows).zip((chunk * CHUNK) as u32..) {
                        *kept = (row == i) as u8;
                    }
                    unfound.fetch_add(rows.iter().filter(|&&row| row == NO_ROW).count() as u32, Relaxed);
                    own.fetch_add(kept.iter().map(|&kept| kept as u32).sum(), Relaxed);
                })?;
                Ok([unfound.into_inner(), own.into_inner()])
            }
            _ => Ok([0; counts::WORDS]),
        }
    }
}
impl Scratch {
    fn new(device: &Device, n: usize) -> Result<Scratch> {
        Ok(Scratch {
            fingerprints: device.alloc(n)?,
            rows: device.alloc(n)?,
            kept: device.alloc(n)?,
            counts: device.alloc(counts::WORDS)?,
            compact: Compact::new(device, n)?,
            last: (0, 0),
        })
    }
    fn bytes(&self) -> usize {
        let of_keys = self.fingerprints.bytes() + self.rows.bytes() + self.kept.bytes();
        of_keys + self.counts.bytes() + self.compact.scratch_bytes()
    }
}
/// A number that nobody who chose keys could know.
fn unforeseeable() -> u64 {
    RandomState::new().build_hasher().finish()
}
