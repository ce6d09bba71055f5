//! Distinct keys, each in a row of its own: what maps and indexes are made of too.
use super::Report128;
use super::host::{CHUNK, HostRows};
use super::kernels::{THREADS, with_rows};
use crate::device::graph::may_wait;
use crate::device::{Buffer, Device, Stream, View, ViewMut};
use crate::duplicates::{Duplicates, first_duplicate};
use crate::error::{Error, Result, check_length, count32};
use crate::file::reader::Mapping;
use crate::file::stored::Stored;
use crate::map::{Map, MapBuilder, MapOptions};
use crate::primitives::Compact;
use crate::primitives::compact::CompactElement;
use crate::seed::{Seeds, unforeseeable};
use crate::set::SetOptions;
use koel_kernels::keys128::build::{counts, keys128_fingerprints, keys128_verify};
use koel_kernels::keys128::find::{
    NO_ROW, Rows, keys128_contains, keys128_contains_bits, keys128_count, keys128_rows,
};
use koel_kernels::keys128::fingerprint::Fingerprint;
use koel_simt::In;
use rayon::prelude::*;
use std::fmt;
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
    pub(super) table: Map<u64, u32>,
    /// What the fingerprint function follows from.
    pub(super) draw: u64,
    /// There may be memory for more.
    pub(super) keys: Stored<u128>,
    pub(super) len: usize,
    pub(super) built: Built,
}
/// How a build went, as far as it is known when it is on the stream.
#[derive(Clone, Copy, Default)]
pub(super) struct Built {
    pub duplicates: usize,
    pub attempts: u32,
    /// Bytes of scratch memory besides that of the table's builder.
    pub scratch_bytes: usize,
    pub device_seconds: Option<f64>,
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
        self.len
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The device it is on.
    pub fn device(&self) -> &Device {
        self.table.device()
    }
    /// Bytes of device memory that it keeps.
    pub fn bytes(&self) -> usize {
        self.table.bytes() + self.keys.bytes()
    }
    /// How its build went. After a [`rebuild`](Set128Builder::rebuild) this waits for it and reads
    /// the table's header back.
    pub fn report(&self) -> Result<Report128> {
        let (of_table, Built { duplicates, attempts, scratch_bytes, device_seconds }) =
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
    /// All keys, row by row: in the order in which they first came, or, of a map's set, in that of
    /// the pairs that stayed.
    pub fn keys(&self) -> View<'_, u128> {
        self.keys.view().first(self.len)
    }
    /// The set as kernels see it, to look keys up inside a kernel that is launched on `stream`:
    /// hand over its parts and put them together again there. It owns nothing: do not drop the
    /// set until the kernel has run.
    ///
    /// ```
    /// use koel::keys128::Rows;
    ///
    /// let device = koel::Device::cpu()?;
    /// let set = koel::Set128::build(&device, &[9 << 100, 3])?;
    /// let Rows { fingerprint, table, keys } = set.rows(&device.stream()?)?;
    /// // In a kernel, from its arguments:
    /// let rows = Rows::new(fingerprint, table.shape, table.stash_bits, table.slots, table.stash,
    /// table.header, keys); // Host code can look keys up in it, too, where the table is in its
    /// memory. // SAFETY: the set is there and is not changed. let rows = unsafe { rows.on_host()
    /// }; assert_eq!((rows.row(3), rows.row(4)), (Some(1), None));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// What was [opened](Self::open) is checked first, once: kernels do not look whether there is a
    /// key in the row that the file says. Errors: a stream of another device; faults of the
    /// file.
    pub fn rows(&self, stream: &Stream) -> Result<Rows> {
        self.keys.file().map_or(Ok(()), Mapping::verify_once)?;
        self.unchecked_rows(stream)
    }
    /// Of what is in a file, rows may be such as there are none.
    fn unchecked_rows(&self, stream: &Stream) -> Result<Rows> {
        rows_of(&self.table, self.draw, self.keys(), stream)
    }
    /// A copy on another device, or on the same one: the same rows, the same answers. Copies
    /// through host memory and waits. What was [opened](Self::open) is checked and then copied
    /// from where it is.
    ///
    /// Errors: out of memory; of a set that was opened, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<Set128> {
        let (table, keys) = (self.table.to_device(device)?, self.keys.upload(self.len, device)?);
        Ok(Set128 {
            table,
            draw: self.draw,
            keys: Stored::Own(keys),
            len: self.len,
            built: self.built,
        })
    }
    /// Makes it hold nothing, after a rebuild that failed.
    pub(super) fn forget(&mut self, stream: &Stream) {
        self.table.forget(stream);
        (self.len, self.built) = (0, Built::default());
    }

    /// Whether the set holds host keys. Copies both ways and waits.
    pub fn contains(&self, keys: &[u128]) -> Result<Vec<bool>> {
        let mut found = self.device().alloc(keys.len())?;
        self.contains_into(
            &self.device().stream()?,
            self.device().stage(keys)?.view(),
            found.view_mut(),
        )?;
        Ok(found.download()?.into_iter().map(|f: u8| f != 0).collect())
    }
    /// Whether the set holds each key: `found[i]` becomes 1 or 0.
    ///
    /// One launch; allocates nothing, waits for nothing. Keys are read and answers written once;
    /// besides, 3.13 sectors of 32 bytes for a key that is there, 1.11 for one that is not
    /// (load 0.8). Errors: lengths that differ, buffers of another device.
    pub fn contains_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        mut found: ViewMut<'_, u8>,
    ) -> Result<()> {
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
    /// Whether the set holds each key, as a bit mask: bit `i % 32` of `found[i / 32]`. The bits
    /// behind the last key become 0.
    ///
    /// As [`contains_into`](Self::contains_into), with an eighth of the bytes written. Errors:
    /// fewer or more words than `keys / 32`, rounded up; buffers of another device.
    pub fn contains_bits(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        mut found: ViewMut<'_, u32>,
    ) -> Result<()> {
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
                        *word = rows
                            .iter()
                            .rev()
                            .fold(0, |bits, &row| bits << 1 | (row != NO_ROW) as u32);
                    }
                })
            },
        )
    }
    /// How many of the host keys the set holds. Copies and waits.
    pub fn count(&self, keys: &[u128]) -> Result<u64> {
        let mut count = self.device().alloc(1)?;
        self.count_into(
            &self.device().stream()?,
            self.device().stage(keys)?.view(),
            count.view_mut(),
        )?;
        Ok(count.download()?[0])
    }
    /// How many of the keys the set holds: `count[0]`.
    ///
    /// A fill of one word and one launch; allocates nothing, waits for nothing. Otherwise as
    /// [`contains_into`](Self::contains_into).
    pub fn count_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        mut count: ViewMut<'_, u64>,
    ) -> Result<()> {
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
    /// `found[i]` = the row of `keys[i]`, or [`NO_ROW`].
    pub(super) fn rows_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        mut found: ViewMut<'_, u32>,
    ) -> Result<()> {
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
    /// Looks keys up by a kernel, which `launch` gets the grid and the number of queries for, or by
    /// native code.
    pub(super) fn look_up(
        &self,
        stream: &Stream,
        queries: View<'_, u128>,
        launch: impl FnOnce(u32, u32, Rows, In<u128>) -> Result<()>,
        on_host: impl FnOnce(HostRows<'_>, &[u128]) -> Result<()>,
    ) -> Result<()> {
        let n = count32("keys", queries.len())?;
        // Only what is not in a file is looked up by kernels.
        let (rows, from) = (self.unchecked_rows(stream)?, queries.arg("keys", stream)?);
        match (self.table.finder()?, self.keys().host(), queries.host()) {
            (None, ..) => launch(n.div_ceil(THREADS), n, rows, from),
            (Some(table), Some(keys), Some(queries)) => on_host(
                HostRows { device: self.device(), fingerprint: rows.fingerprint, table, keys },
                queries,
            ),
            _ => Ok(()),
        }
    }
}
/// Rows as kernels see them.
fn rows_of(
    table: &Map<u64, u32>,
    draw: u64,
    keys: View<'_, u128>,
    stream: &Stream,
) -> Result<Rows> {
    Ok(Rows {
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

/// Builds sets of 128-bit keys, and keeps the memory that building needs from one build to the
/// next.
pub struct Set128Builder {
    device: Device,
    tables: MapBuilder<u64, u32>,
    /// The draw that a build tries first.
    first: u64,
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
/// The draw by which all keys of an input have rows, how many were tried, and how many keys stay.
struct ToldApart {
    draw: u64,
    attempts: u32,
    kept: usize,
}
impl Set128Builder {
    /// Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: SetOptions) -> Result<Set128Builder> {
        let SetOptions { load, seed } = options;
        let tables = MapBuilder::new(device, MapOptions { load, seed, ..MapOptions::default() })?;
        Ok(Set128Builder {
            device: device.clone(),
            tables,
            first: Seeds::new(seed, false).first.into(),
            scratch: None,
        })
    }
    /// Builds a set of these keys; equal ones are one. Waits for the device.
    ///
    /// Allocates the set, and scratch memory if there were never so many keys before. [What it
    /// costs](super). Errors: more keys than 31-bit indices reach, buffers of another device,
    /// out of memory.
    pub fn build(&mut self, stream: &Stream, keys: View<'_, u128>) -> Result<Set128> {
        let (mut set, seconds) =
            stream.time(|| self.build_rows(stream, keys, Duplicates::KeepFirst))?;
        set.built.device_seconds = Some(seconds);
        Ok(set)
    }
    /// Puts other keys into a set, whatever it held: as [`build`](Self::build), but nothing is
    /// allocated if the set and this builder have had as many keys before, and the device is
    /// waited for once in between, not at the end.
    ///
    /// The set answers for the new keys from here on in the order of the stream. Of an input with
    /// equal keys it keeps memory for a table of all of them. How it went, [`Set128::report`]
    /// tells.
    ///
    /// Errors: as [`build`](Self::build); a set on another device; a stream that is being captured.
    /// After an error the set is as it was, unless the device itself failed: then it holds
    /// nothing.
    pub fn rebuild(
        &mut self,
        set: &mut Set128,
        stream: &Stream,
        keys: View<'_, u128>,
    ) -> Result<()> {
        self.rebuild_rows("set", set, stream, keys, Duplicates::KeepFirst, |_| Ok(()))
    }
    /// Builds, by this policy. Of the values of the same input [`keep`](Self::keep) then keeps
    /// those of the keys that stayed.
    pub(super) fn build_rows(
        &mut self,
        stream: &Stream,
        keys: View<'_, u128>,
        duplicates: Duplicates,
    ) -> Result<Set128> {
        let n = self.check(stream, keys)?;
        self.reserve(n)?;
        let mut table = self.tables.with_room(n)?;
        let ToldApart { draw, attempts, kept } =
            self.tell_apart(stream, &mut table, keys, duplicates)?;
        let mut own = self.device.alloc(kept)?;
        self.keep(stream, keys, own.view_mut())?;
        if kept < n {
            // The old one is given back first: both need not fit.
            drop(table);
            table = self.tables.with_room(kept)?;
            self.put_rows(stream, &mut table, draw, own.view(), Duplicates::Unchecked)?;
        }
        table.report()?;
        Ok(Set128 {
            table,
            draw,
            keys: Stored::Own(own),
            len: kept,
            built: self.built(n - kept, attempts),
        })
    }
    /// Builds in the memory of a set, as [`build_rows`](Self::build_rows). `name`: of what it
    /// belongs to. `reserve`: makes room for what else is kept of so many keys, before any of
    /// the set's keys are overwritten.
    pub(super) fn rebuild_rows(
        &mut self,
        name: &'static str,
        set: &mut Set128,
        stream: &Stream,
        keys: View<'_, u128>,
        duplicates: Duplicates,
        reserve: impl FnOnce(usize) -> Result<()>,
    ) -> Result<()> {
        self.check(stream, keys)?;
        if *set.device() != self.device {
            let (found, expected) = (set.device().name(), self.device.name());
            return Err(Error::WrongDevice { name, found, expected });
        }
        may_wait("a rebuild with keys of 128 bits", &self.device)?;
        // Also for the rows of the old keys, should they be needed again.
        self.reserve(keys.len().max(set.len))?;
        self.tables.reserve_for(&mut set.table, set.len)?;
        let told = match self.replace_rows(set, stream, keys, duplicates, reserve) {
            Ok(told) => told,
            Err(e) => {
                if self.restore_rows(set, stream).is_err() {
                    set.forget(stream);
                }
                return Err(e);
            }
        };
        let done = self.replace_keys(set, stream, keys, told);
        if done.is_err() {
            set.forget(stream);
        }
        done
    }
    /// Makes its table that of all these keys, and room for the keys that stay.
    fn replace_rows(
        &mut self,
        set: &mut Set128,
        stream: &Stream,
        keys: View<'_, u128>,
        duplicates: Duplicates,
        reserve: impl FnOnce(usize) -> Result<()>,
    ) -> Result<ToldApart> {
        let told = self.tell_apart(stream, &mut set.table, keys, duplicates)?;
        self.tables.reserve_for(&mut set.table, told.kept)?;
        // Old keys stay until there is room for all that is new.
        let fits = set.keys.own().is_some_and(|own| own.len() >= told.kept);
        let new = if fits { None } else { Some(self.device.alloc(told.kept)?) };
        reserve(told.kept)?;
        if let Some(new) = new {
            set.keys = Stored::Own(new);
        }
        Ok(told)
    }
    /// Overwrites its keys; there is room for them.
    fn replace_keys(
        &mut self,
        set: &mut Set128,
        stream: &Stream,
        keys: View<'_, u128>,
        told: ToldApart,
    ) -> Result<()> {
        let (n, ToldApart { draw, attempts, kept }) = (keys.len(), told);
        let own = set.keys.reserve(&self.device, kept)?;
        self.keep(stream, keys, own.view_mut().slice(..kept)?)?;
        if kept < n {
            self.put_rows(
                stream,
                &mut set.table,
                draw,
                own.view().slice(..kept)?,
                Duplicates::Unchecked,
            )?;
        }
        (set.draw, set.len, set.built) = (draw, kept, self.built(n - kept, attempts));
        Ok(())
    }
    /// Makes its table that of its keys again, after others had it. Needs no memory: they were
    /// there before.
    fn restore_rows(&mut self, set: &mut Set128, stream: &Stream) -> Result<()> {
        let keys = set.keys.view().slice(..set.len)?;
        self.put_rows(stream, &mut set.table, set.draw, keys, Duplicates::Unchecked)
    }
    /// Checks what both take: how many keys there are.
    fn check(&self, stream: &Stream, keys: View<'_, u128>) -> Result<usize> {
        count32("keys", keys.len())?;
        keys.arg("keys", stream)?;
        if stream.device() != &self.device {
            let (found, expected) = (stream.device().name(), self.device.name());
            return Err(Error::WrongDevice { name: "stream", found, expected });
        }
        Ok(keys.len())
    }
    fn built(&self, duplicates: usize, attempts: u32) -> Built {
        let scratch_bytes = self.scratch.as_ref().map_or(0, Scratch::bytes);
        Built { duplicates, attempts, scratch_bytes, device_seconds: None }
    }
    /// Makes it the table of the rows of all these keys, by the first draw that tells them apart.
    /// Waits for the counts of each.
    fn tell_apart(
        &mut self,
        stream: &Stream,
        table: &mut Map<u64, u32>,
        keys: View<'_, u128>,
        duplicates: Duplicates,
    ) -> Result<ToldApart> {
        let (n, mut draw, mut attempts) = (keys.len(), self.first, 1);
        let mut policy = match duplicates {
            Duplicates::Reject => Duplicates::KeepFirst,
            other => other,
        };
        let kept = loop {
            self.put_rows(stream, table, draw, keys, policy)?;
            let [unfound, kept] = self.verify(stream, table, draw, keys)?;
            if unfound == 0 {
                break kept as usize;
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
            (draw, attempts) = (unforeseeable(), attempts + 1);
        };
        if kept < n && duplicates == Duplicates::Reject {
            return Err(first_duplicate(&keys.download()?));
        }
        if let Some(scratch) = &mut self.scratch {
            scratch.last = (n, kept);
        }
        Ok(ToldApart { draw, attempts, kept })
    }
    /// Elements of the last build's input that belong to keys that stayed, in their order. Errors:
    /// lengths that are not those of that build.
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
        let (flags, count) =
            (scratch.kept.view().slice(..n)?, scratch.counts.view_mut().slice(..1)?);
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
    /// Makes it the table of the rows of these keys, of which there is scratch memory for as many.
    /// Nothing waits.
    fn put_rows(
        &mut self,
        stream: &Stream,
        table: &mut Map<u64, u32>,
        draw: u64,
        keys: View<'_, u128>,
        duplicates: Duplicates,
    ) -> Result<()> {
        let (n, fingerprint) = (keys.len(), Fingerprint::new(draw));
        let Some(Scratch { fingerprints, rows, .. }) = &mut self.scratch else {
            unreachable!("it was reserved")
        };
        let (mut to, mut to_rows) =
            (fingerprints.view_mut().slice(..n)?, rows.view_mut().slice(..n)?);
        let (out, out_rows) = (to.arg("fingerprints", stream)?, to_rows.arg("rows", stream)?);
        if self.device.runs_kernels() {
            let (count, from) = (count32("keys", n)?, keys.arg("keys", stream)?);
            // SAFETY: `n` keys, fingerprints and rows.
            unsafe {
                keys128_fingerprints::launch(
                    stream,
                    count.div_ceil(THREADS),
                    count,
                    fingerprint,
                    from,
                    out,
                    out_rows,
                )
            }?;
        } else if let (Some(keys), Some(to), Some(to_rows)) =
            (keys.host(), to.host_mut(), to_rows.host_mut())
        {
            let chunks = to
                .par_chunks_mut(CHUNK)
                .zip(to_rows.par_chunks_mut(CHUNK))
                .zip(keys.par_chunks(CHUNK));
            self.device.install(|| {
                chunks.enumerate().for_each(|(chunk, ((to, to_rows), keys))| {
                    to.iter_mut().zip(keys).for_each(|(to, &key)| *to = fingerprint.of(key));
                    to_rows
                        .iter_mut()
                        .zip((chunk * CHUNK) as u32..)
                        .for_each(|(to, row)| *to = row);
                })
            });
        }
        let (fingerprints, rows) = (fingerprints.view().slice(..n)?, rows.view().slice(..n)?);
        self.tables.rebuild_by(duplicates, table, stream, fingerprints, rows)
    }
    /// Looks up all keys that a table was built of, and marks those whose row is their own. Returns
    /// the [`counts`]; waits.
    fn verify(
        &mut self,
        stream: &Stream,
        table: &Map<u64, u32>,
        draw: u64,
        keys: View<'_, u128>,
    ) -> Result<[u32; counts::WORDS]> {
        let Some(Scratch { kept, counts: of_device, .. }) = &mut self.scratch else {
            unreachable!("it was reserved")
        };
        let mut kept = kept.view_mut().slice(..keys.len())?;
        match (table.finder()?, keys.host(), kept.host_mut()) {
            (None, ..) => {
                of_device.view_mut().fill_bytes(0, stream)?;
                let n = count32("keys", keys.len())?;
                let rows = rows_of(table, draw, keys, stream)?;
                let (to, counts) =
                    (kept.arg("kept", stream)?, of_device.view_mut().arg("counts", stream)?);
                // SAFETY: `n` keys and flags; the table was built of them.
                unsafe {
                    with_rows!(
                        rows,
                        keys128_verify::launch,
                        (stream, n.div_ceil(THREADS), n),
                        (to, counts)
                    )
                }?;
                let mut counted = [0; counts::WORDS];
                of_device.view().copy_to_host(&mut counted)?;
                Ok(counted)
            }
            (Some(table), Some(keys), Some(kept)) => {
                let [unfound, own] = [AtomicU32::new(0), AtomicU32::new(0)];
                let rows = HostRows {
                    device: &self.device,
                    fingerprint: Fingerprint::new(draw),
                    table,
                    keys,
                };
                rows.look_up(
                    keys,
                    kept.par_chunks_mut(CHUNK).enumerate(),
                    |(chunk, kept), rows| {
                        for ((kept, &row), i) in
                            kept.iter_mut().zip(rows).zip((chunk * CHUNK) as u32..)
                        {
                            *kept = (row == i) as u8;
                        }
                        unfound.fetch_add(
                            rows.iter().filter(|&&row| row == NO_ROW).count() as u32,
                            Relaxed,
                        );
                        own.fetch_add(kept.iter().map(|&kept| kept as u32).sum(), Relaxed);
                    },
                )?;
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
