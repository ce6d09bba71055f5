//! Building tables whose keys are in rows: see [`RowsBuilder`].
use super::host::Stayed;
use super::{Column, Counts, Keys, Rows, write_rows};
use crate::cpu::InBins;
use crate::device::graph::may_wait;
use crate::device::{Apart, Buffer, Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::{Error, Result, check_length, count32};
use crate::file::stored::Stored;
use crate::map::{Map, MapOptions, SlotMapBuilder};
use crate::primitives::Compact;
use crate::primitives::compact::CompactElement;
use crate::seed::{Seeds, unforeseeable};
use crate::set::SetOptions;
use koel_kernels::keys128::build::counts;
use std::marker::PhantomData;

/// Builds tables whose keys are in rows, and keeps scratch memory across builds.
pub(crate) struct RowsBuilder<C> {
    device: Device,
    tables: SlotMapBuilder<u64, u32>,
    /// First draw of a build.
    first: u64,
    scratch: Option<Scratch>,
    /// Table that told the keys of a batch apart.
    of_batch: Option<Map<u64, u32>>,
    of: PhantomData<fn() -> C>,
}
/// Maximum number of draws of a function. The probability that none of them suits 2^31 keys is less
/// than 2^-120.
const MAX_ATTEMPTS: u32 = 40;
/// Memory of a build, sized by the keys of the input.
struct Scratch {
    of_keys: Fingerprinted,
    selection: Selection,
}
/// Which keys of the last input stayed.
struct Selection {
    /// 1 for keys that stay.
    kept: Buffer<u8>,
    counts: Buffer<u32>,
    compact: Compact,
    /// The same on devices that run no kernels.
    host: Stayed,
    /// Number of keys of the last build, and of those that stayed.
    last: (usize, usize),
}
/// The fingerprint and the row of each key of an input.
struct Fingerprinted {
    fingerprints: Buffer<u64>,
    rows: Buffer<u32>,
}
impl Fingerprinted {
    /// Returns those of the first `n` keys.
    #[inline]
    fn first(&self, n: usize) -> Result<(View<'_, u64>, View<'_, u32>)> {
        Ok((self.fingerprints.view().slice(..n)?, self.rows.view().slice(..n)?))
    }
    /// Returns those of the first `n` keys, to be written.
    #[inline]
    fn first_mut(&mut self, n: usize) -> Result<(ViewMut<'_, u64>, ViewMut<'_, u32>)> {
        Ok((self.fingerprints.view_mut().slice(..n)?, self.rows.view_mut().slice(..n)?))
    }
    /// Returns those of the first `n` keys in host memory.
    #[inline]
    fn first_on_host(&self, n: usize) -> Result<(&[u64], &[u32])> {
        let (fingerprints, rows) = self.first(n)?;
        Ok((fingerprints.elements("fingerprints")?, rows.elements("rows")?))
    }
}
/// Draw that gives all keys of an input rows of their own, number of draws tried, and number of
/// keys that stay.
#[derive(Clone, Copy)]
struct ToldApart {
    draw: u64,
    attempts: u32,
    kept: usize,
    /// Fingerprints and rows of all keys, if the CPU engine is to build the table.
    in_bins: Option<InBins>,
}
impl<C: Column> RowsBuilder<C> {
    /// Creates a builder. Errors: a load factor outside 0.3 to 0.95.
    pub(crate) fn new(device: &Device, options: SetOptions) -> Result<RowsBuilder<C>> {
        let SetOptions { load, seed } = options;
        let tables =
            SlotMapBuilder::new(device, MapOptions::default().with_load(load).with_seed(seed))?;
        Ok(RowsBuilder {
            device: device.clone(),
            tables,
            first: Seeds::new(seed, false).first.into(),
            scratch: None,
            of_batch: None,
            of: PhantomData,
        })
    }
    /// Builds a table of these keys with this policy. Waits for the device. [`kept`](Self::kept)
    /// can then select the values of the keys that stayed, from values given with the same input.
    ///
    /// Errors: more keys than 31-bit indices can address, buffers of another device, a rejected
    /// duplicate, out of memory.
    pub(crate) fn build(
        &mut self,
        stream: &Stream,
        keys: C::View<'_>,
        duplicates: Duplicates,
    ) -> Result<Rows<C>> {
        let _apart = Apart::begin();
        let told = self.tell(stream, keys, duplicates)?;
        let own = C::keep(&mut self.kept(), stream, keys)?;
        self.finish(stream, told, own)
    }
    /// As [`build`](Self::build) of keys that are kept, if all stay.
    pub(crate) fn build_of(
        &mut self,
        stream: &Stream,
        keys: C,
        duplicates: Duplicates,
    ) -> Result<Rows<C>> {
        let _apart = Apart::begin();
        let view = keys.view(usize::MAX);
        let told = self.tell(stream, view, duplicates)?;
        let (n, kept) = self.kept().counts();
        let own = if kept == n { None } else { Some(C::keep(&mut self.kept(), stream, view)?) };
        self.finish(stream, told, own.unwrap_or(keys))
    }
    /// Returns the distinct keys of a batch in order of first occurrence, or `None` if no key
    /// occurs twice: then this allocates nothing if it has seen as many keys before. Waits.
    ///
    /// Errors: as [`build`](Self::build).
    pub(crate) fn distinct(
        &mut self,
        stream: &Stream,
        keys: C::View<'_>,
    ) -> Result<Option<Rows<C>>> {
        let n = self.check(stream, keys)?;
        self.reserve(n)?;
        let of_all = if self.device.runs_kernels() { n } else { 0 };
        let mut table = match self.of_batch.take() {
            Some(kept) => kept,
            None => self.tables.with_room(of_all)?,
        };
        self.tables.reserve_for(&mut table, of_all)?;
        let told = self.tell_apart(stream, &mut table, keys, Duplicates::KeepFirst)?;
        if told.kept == n {
            self.of_batch = Some(table);
            return Ok(None);
        }
        let own = C::keep(&mut self.kept(), stream, keys)?;
        self.finish(stream, (table, told), own).map(Some)
    }
    /// Tells which keys stay. Returns a table that kernels have built from all of them, too.
    fn tell(
        &mut self,
        stream: &Stream,
        keys: C::View<'_>,
        duplicates: Duplicates,
    ) -> Result<(Map<u64, u32>, ToldApart)> {
        let n = self.check(stream, keys)?;
        self.reserve(n)?;
        // Kernels tell keys apart by a table of all of them.
        let of_all = if self.device.runs_kernels() { n } else { 0 };
        let mut table = self.tables.with_room(of_all)?;
        let told = self.tell_apart(stream, &mut table, keys, duplicates)?;
        Ok((table, told))
    }
    /// Builds the table of the keys that stay.
    fn finish(
        &mut self,
        stream: &Stream,
        (table, told): (Map<u64, u32>, ToldApart),
        own: C,
    ) -> Result<Rows<C>> {
        let ToldApart { draw, attempts, kept, .. } = told;
        let n = self.kept().counts().0;
        let table = self.complete(stream, table, told, own.view(kept))?;
        let built = self.built(n - kept, attempts);
        Ok(Rows { table, draw, keys: own, len: kept, built })
    }
    /// Returns the table of the keys that stay. Waits.
    fn complete(
        &mut self,
        stream: &Stream,
        mut table: Map<u64, u32>,
        told: ToldApart,
        kept: C::View<'_>,
    ) -> Result<Map<u64, u32>> {
        if !self.device.runs_kernels() || told.kept != self.kept().counts().0 {
            // Free the old table first: both may not fit together.
            drop(table);
            table = self.tables.with_room(told.kept)?;
        }
        self.put_kept(stream, &mut table, told, kept)?;
        table.report()?;
        Ok(table)
    }
    /// Checks the arguments of both kinds of build; returns the number of keys.
    fn check(&self, stream: &Stream, keys: C::View<'_>) -> Result<usize> {
        count32("keys", C::count(keys))?;
        C::check(keys, stream)?;
        if stream.device() != &self.device {
            let (found, expected) = (stream.device().name(), self.device.name());
            return Err(Error::WrongDevice { name: "stream", found, expected });
        }
        Ok(C::count(keys))
    }
    /// Returns the bytes of scratch memory, without that of the table's builder.
    pub(crate) fn scratch_bytes(&self) -> usize {
        let of_batch = self.of_batch.as_ref().map_or(0, Map::bytes);
        self.scratch.as_ref().map_or(0, Scratch::bytes) + of_batch
    }
    fn built(&self, duplicates: usize, attempts: u32) -> Counts {
        let scratch_bytes = self.scratch_bytes();
        Counts { duplicates, attempts, scratch_bytes, device_seconds: None }
    }
    /// Finds the first draw that distinguishes all these keys, and which of them stay. Kernels
    /// build the table of the rows of all keys, and this waits for the number of equal
    /// fingerprints; if there are any, for the counts of a lookup of every key.
    fn tell_apart(
        &mut self,
        stream: &Stream,
        table: &mut Map<u64, u32>,
        keys: C::View<'_>,
        duplicates: Duplicates,
    ) -> Result<ToldApart> {
        let (n, mut draw, mut attempts) = (C::count(keys), self.first, 1);
        // Keys that are promised to be distinct may still share a fingerprint.
        let policy = match duplicates {
            Duplicates::KeepFirst | Duplicates::Reject => Duplicates::KeepFirst,
            Duplicates::KeepLast | Duplicates::Unchecked => Duplicates::KeepLast,
        };
        let (kept, in_bins) = loop {
            if let Some(on_host) = self.on_host(keys) {
                let (to, rows) = reserved(&mut self.scratch).of_keys.first_mut(n)?;
                write_rows::<C>(stream, keys, (draw, 0), to, rows)?;
                if let (kept, Some(in_bins)) = self.find_kept(on_host, policy)? {
                    break (kept, Some(in_bins));
                }
            } else {
                self.put_rows(stream, table, draw, keys, policy)?;
                // Equal keys have equal fingerprints. Fails if the table lacks room.
                if table.report()?.duplicates == 0 {
                    break (n, None);
                }
                let [unfound, kept] = self.verify(stream, table, draw, keys)?;
                if unfound == 0 {
                    break (kept as usize, None);
                }
            }
            if attempts == MAX_ATTEMPTS {
                return Err(Error::SharedFingerprints { attempts, device: self.device.name() });
            }
            (draw, attempts) = (unforeseeable(), attempts + 1);
        };
        if kept < n && duplicates == Duplicates::Reject {
            return Err(C::first_duplicate(keys)?);
        }
        reserved(&mut self.scratch).selection.last = (n, kept);
        Ok(ToldApart { draw, attempts, kept, in_bins })
    }
    /// Returns the keys if native code is to read them.
    fn on_host<'v>(&self, keys: C::View<'v>) -> Option<C::Host<'v>> {
        if self.device.runs_kernels() { None } else { C::on_host(keys) }
    }
    /// Finds which keys in host memory stay, whose fingerprints are written. Returns their number,
    /// and the fingerprints and rows of all keys in bins unless different keys have one
    /// fingerprint.
    fn find_kept(
        &mut self,
        keys: C::Host<'_>,
        policy: Duplicates,
    ) -> Result<(usize, Option<InBins>)> {
        let Scratch { of_keys, selection: Selection { host, .. } } = reserved(&mut self.scratch);
        let (of_bins, keep_first) =
            (of_keys.first_on_host(keys.len())?, policy == Duplicates::KeepFirst);
        let in_bins = host.find(&mut self.tables, keys, of_bins, keep_first)?;
        Ok((host.ranks.kept(), in_bins))
    }
    /// Builds the table of the keys that stay, unless it is that of all keys, which has been built.
    /// The table has room for it. Asynchronous.
    fn put_kept(
        &mut self,
        stream: &Stream,
        table: &mut Map<u64, u32>,
        told: ToldApart,
        kept: C::View<'_>,
    ) -> Result<()> {
        let Scratch { of_keys, selection } = reserved(&mut self.scratch);
        let Selection { host, last: (n, _), .. } = selection;
        let Some(in_bins) = told.in_bins else {
            if told.kept == *n {
                return Ok(());
            }
            return self.put_rows(stream, table, told.draw, kept, Duplicates::Unchecked);
        };
        let ranks = (told.kept < *n).then_some(&host.ranks);
        self.tables.build_ranked(table, in_bins, of_keys.first_on_host(*n)?, ranks)
    }
    /// Returns which keys of the last build stayed.
    pub(crate) fn kept(&mut self) -> Kept<'_> {
        Kept { device: &self.device, scratch: reserved(&mut self.scratch) }
    }
    /// Reserves memory for `n` keys.
    fn reserve(&mut self, n: usize) -> Result<()> {
        if self.scratch.as_ref().is_none_or(|scratch| scratch.of_keys.rows.len() < n) {
            // Free the old memory first: both may not fit together.
            self.scratch = None;
            self.scratch = Some(Scratch::new(&self.device, n)?);
        }
        Ok(())
    }
    /// Builds the table of the rows of these keys, for which scratch memory has been reserved.
    /// Asynchronous.
    fn put_rows(
        &mut self,
        stream: &Stream,
        table: &mut Map<u64, u32>,
        draw: u64,
        keys: C::View<'_>,
        duplicates: Duplicates,
    ) -> Result<()> {
        let n = C::count(keys);
        let (to, of_rows) = reserved(&mut self.scratch).of_keys.first_mut(n)?;
        write_rows::<C>(stream, keys, (draw, 0), to, of_rows)?;
        let (fingerprints, rows) = reserved(&mut self.scratch).of_keys.first(n)?;
        self.tables.rebuild(duplicates, table, stream, fingerprints, rows)
    }
    /// Returns a table of keys that are distinct, the draw of its function, and the number of
    /// draws. Waits. Errors: as [`build`](Self::build).
    pub(crate) fn table_of(
        &mut self,
        stream: &Stream,
        keys: C::View<'_>,
    ) -> Result<(Map<u64, u32>, u64, u32)> {
        let (table, told) = self.tell(stream, keys, Duplicates::Unchecked)?;
        let table = self.complete(stream, table, told, keys)?;
        Ok((table, told.draw, told.attempts))
    }
    /// Looks up all keys that a table was built from, by a kernel, and marks those whose row is
    /// their own. Returns the [`counts`]; waits.
    fn verify(
        &mut self,
        stream: &Stream,
        table: &Map<u64, u32>,
        draw: u64,
        keys: C::View<'_>,
    ) -> Result<[u32; counts::WORDS]> {
        let Selection { kept, counts: of_device, .. } = &mut reserved(&mut self.scratch).selection;
        let n = C::count(keys);
        let (mut kept, mut to) = (kept.view_mut().slice(..n)?, of_device.view_mut());
        to.fill_bytes(0, stream)?;
        let (kept, to) = (kept.arg("kept", stream)?, to.arg("counts", stream)?);
        let (n, rows) = (count32("keys", n)?, (C::function(draw), table.table(stream)?));
        // SAFETY: `n` flags, and the counts; the table was built from these keys.
        unsafe { C::launch_verify(stream, n, keys, rows, kept, to) }?;
        let mut counted = [0; counts::WORDS];
        of_device.view().copy_to_host(&mut counted)?;
        Ok(counted)
    }
}
impl RowsBuilder<Stored<u128>> {
    /// Rebuilds in the memory of a table, like [`build`](Self::build). `name` is that of
    /// the table that owns the set. `reserve` makes room for the owner's data of the given number
    /// of keys, before any of the set's keys are overwritten.
    pub(crate) fn rebuild(
        &mut self,
        name: &'static str,
        set: &mut Rows<Stored<u128>>,
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
        // Also enough for the rows of the old keys, in case they must be restored.
        self.reserve(keys.len().max(set.len))?;
        self.tables.reserve_for(&mut set.table, set.len)?;
        let (told, larger) = match self.replace_rows(set, stream, keys, duplicates, reserve) {
            Ok(told) => told,
            Err(e) => {
                if self.restore_rows(set, stream).is_err() {
                    set.forget(stream);
                }
                return Err(e);
            }
        };
        let done = self.replace_keys(set, stream, keys, told, larger);
        // On a CPU, the old keys are there until the table is complete.
        let is_kept = told.in_bins.is_some();
        if done.is_err() && !(is_kept && self.restore_rows(set, stream).is_ok()) {
            set.forget(stream);
        }
        done
    }
    /// Builds the set's table from all these keys, and makes room for the keys that stay: larger
    /// memory, if they need it.
    fn replace_rows(
        &mut self,
        set: &mut Rows<Stored<u128>>,
        stream: &Stream,
        keys: View<'_, u128>,
        duplicates: Duplicates,
        reserve: impl FnOnce(usize) -> Result<()>,
    ) -> Result<(ToldApart, Option<Buffer<u128>>)> {
        let told = self.tell_apart(stream, &mut set.table, keys, duplicates)?;
        self.tables.reserve_for(&mut set.table, told.kept)?;
        // Old keys stay until there is room for everything new.
        let fits = set.keys.own().is_some_and(|own| own.len() >= told.kept);
        let larger = if fits { None } else { Some(self.device.alloc(told.kept)?) };
        reserve(told.kept)?;
        Ok((told, larger))
    }
    /// Overwrites the set's keys, for which there is room here or in `larger` memory.
    #[inline]
    fn replace_keys(
        &mut self,
        set: &mut Rows<Stored<u128>>,
        stream: &Stream,
        keys: View<'_, u128>,
        told: ToldApart,
        larger: Option<Buffer<u128>>,
    ) -> Result<()> {
        let (n, ToldApart { draw, attempts, kept, in_bins }) = (keys.len(), told);
        if in_bins.is_some() {
            // From the bins.
            self.put_kept(stream, &mut set.table, told, keys)?;
        }
        if let Some(larger) = larger {
            set.keys = Stored::Own(larger);
        }
        let own = set.keys.reserve(&self.device, kept)?;
        self.kept().select(stream, keys, own.view_mut().slice(..kept)?)?;
        if in_bins.is_none() {
            self.put_kept(stream, &mut set.table, told, own.view().slice(..kept)?)?;
        }
        (set.draw, set.len, set.built) = (draw, kept, self.built(n - kept, attempts));
        Ok(())
    }
    /// Restores the set's table from its keys, after others had used it. Needs no memory, as the
    /// keys were there before.
    #[inline]
    fn restore_rows(&mut self, set: &mut Rows<Stored<u128>>, stream: &Stream) -> Result<()> {
        let keys = set.keys.view().slice(..set.len)?;
        self.put_rows(stream, &mut set.table, set.draw, keys, Duplicates::Unchecked)
    }
}

/// Which keys of the last build stayed.
pub(crate) struct Kept<'b> {
    pub device: &'b Device,
    scratch: &'b mut Scratch,
}
impl Kept<'_> {
    /// Returns the number of keys of the input, and of those that stayed.
    #[inline]
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.scratch.selection.last
    }
    /// Selects the elements of the last build's input that belong to keys that stayed, in order.
    /// Errors: lengths other than those of that build.
    pub(crate) fn select<T: CompactElement>(
        &mut self,
        stream: &Stream,
        input: View<'_, T>,
        output: ViewMut<'_, T>,
    ) -> Result<()> {
        self.scratch.selection.select(stream, input, output)
    }
    /// Returns the rows of the keys that stayed, in order.
    #[inline]
    pub(crate) fn rows(&mut self, stream: &Stream) -> Result<Buffer<u32>> {
        let Scratch { of_keys, selection } = &mut *self.scratch;
        let (n, kept) = selection.last;
        let mut rows = self.device.alloc(kept)?;
        selection.select(stream, of_keys.first(n)?.1, rows.view_mut())?;
        Ok(rows)
    }
}
impl Selection {
    #[inline]
    fn new(device: &Device, n: usize) -> Result<Selection> {
        let (of_kernels, of_host) = if device.runs_kernels() { (n, 0) } else { (0, n) };
        Ok(Selection {
            kept: device.alloc(of_kernels)?,
            counts: device.alloc(counts::WORDS)?,
            compact: Compact::new(device, of_kernels)?,
            host: Stayed::new(of_host)?,
            last: (0, 0),
        })
    }
    #[inline]
    fn bytes(&self) -> usize {
        let of_flags = self.kept.bytes() + self.counts.bytes();
        of_flags + self.compact.scratch_bytes() + self.host.bytes()
    }
    /// See [`Kept::select`].
    fn select<T: CompactElement>(
        &mut self,
        stream: &Stream,
        input: View<'_, T>,
        mut output: ViewMut<'_, T>,
    ) -> Result<()> {
        let (n, kept) = self.last;
        check_length("input", input.len(), "the keys", n)?;
        check_length("output", output.len(), "the keys that stay", kept)?;
        if kept == n {
            return output.copy_from(input, stream);
        }
        let device = stream.device();
        if let (false, Some(input), Some(output)) =
            (device.runs_kernels(), input.host(), output.host_mut())
        {
            device.install(|| self.host.ranks.compact(input, output));
            return Ok(());
        }
        let (flags, count) = (self.kept.view().slice(..n)?, self.counts.view_mut().slice(..1)?);
        // SAFETY: the number of flags set is that counted by the same build.
        unsafe { self.compact.run_kept(stream, flags, input, output, count) }
    }
}
/// Returns the memory of a build, which has been reserved.
#[inline]
fn reserved(scratch: &mut Option<Scratch>) -> &mut Scratch {
    scratch.as_mut().unwrap_or_else(|| unreachable!("it was reserved"))
}
impl Scratch {
    #[inline]
    fn new(device: &Device, n: usize) -> Result<Scratch> {
        let of_keys = Fingerprinted { fingerprints: device.alloc(n)?, rows: device.alloc(n)? };
        Ok(Scratch { of_keys, selection: Selection::new(device, n)? })
    }
    #[inline]
    fn bytes(&self) -> usize {
        let Fingerprinted { fingerprints, rows } = &self.of_keys;
        fingerprints.bytes() + rows.bytes() + self.selection.bytes()
    }
}
