//! Host code that maps and sets share: a table of buckets with a stash, on a device, from its build
//! to the last lookup.
//!
//! A [`Family`] defines what the entries of a table are: the pairs of a map or the keys of a set.
//! It supplies layouts, kernels and the code of the CPU engine. The modules here supply the rest,
//! once for both: [plans](plan), memory ([`slots`]), the sequence of a [build](builder), reports,
//! copies between devices, [files](file), membership [lookups](lookup), the routing of operations
//! to partitions ([`sending`]) and batched [updates](update).
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
pub(crate) mod builder;
mod contains;
mod family;
pub(crate) mod file;
pub(crate) mod header;
mod host;
mod lookup;
pub(crate) mod plan;
pub(crate) mod sending;
pub(crate) mod slots;
pub(crate) mod update;

use crate::cpu;
use crate::device::{Apart, Buffer, Device, Event, Stream, check_device};
use crate::error::{Error, Result};
use crate::fallible::collect;
use crate::file::stored::Stored;
pub(crate) use builder::{Builder, Settings};
pub(crate) use contains::{Contains, contains};
pub(crate) use family::{CpuBuild, DeviceLayout, Family, Scratch};
use header::{Header, header_words, read_header};
pub(crate) use host::{EntryOf, HostBuckets, HostTable, host_table};
use koel_kernels::table::layout::{EMPTY, Layout, Shape};
use plan::Plan;
pub(crate) use slots::Handles;
use slots::Slots;
use std::sync::Mutex;

/// Threads per block of the kernels that look keys up or export a table.
pub(crate) const THREADS: u32 = 256;

/// A table on a device.
pub(crate) struct Table<F: Family> {
    pub device: Device,
    pub plan: Plan,
    pub storage: Storage<F>,
    /// Report of the last build or update, as far as it is known; the rest is read from the header
    /// on request.
    report: Mutex<Progress>,
}
/// Storage of the entries.
pub(crate) enum Storage<F: Family> {
    Cpu(OnCpu<F>),
    Kernels(Slots<WordOf<F>>),
}
/// Storage of the CPU engine.
pub(crate) struct OnCpu<F: Family> {
    pub table: Stored<WordOf<F>>,
    pub stash: cpu::Stash<F::Pairs>,
    pub seed: u32,
    /// Header, which users' kernels read.
    pub header: Buffer<u32>,
    /// Number of entries erased in place since class bits were last computed from the entries.
    pub erased: usize,
}
/// The words of a table and its stash.
type PartsMut<'a, F> = (&'a mut [WordOf<F>], &'a mut cpu::Stash<<F as Family>::Pairs>);
/// Content of a table other than its slots, on the host.
pub(crate) struct OnHost<V> {
    /// Slots of the stash.
    pub stash: Vec<u64>,
    pub seed: u32,
    /// Value of the ambiguous key.
    pub held: Option<V>,
}
/// Type of the words of buckets.
pub(crate) type WordOf<F> = <<F as Family>::Buckets as cpu::Buckets>::Word;
pub(crate) type KeyOf<F> = <<F as Family>::Pairs as Layout>::Key;
pub(crate) type ValueOf<F> = <<F as Family>::Pairs as Layout>::Value;

/// Statistics of a build.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct BuildReport {
    /// Entries stored: pairs of a map, keys of a set or an index.
    pub entries: usize,
    /// Entries dropped because another one has the same key.
    pub duplicates: usize,
    /// Entries in the stash.
    pub stashed: usize,
    /// Slots of the table.
    pub slots: usize,
    /// Bytes of memory that the table occupies.
    pub bytes: usize,
    /// Bytes of scratch memory that the build used, kept by the builder.
    pub scratch_bytes: usize,
    /// Number of attempts, each with another seed. More than 1 if a partition or the stash received
    /// more entries than it has room for, or if two keys in [rows](crate::keys128) shared a
    /// fingerprint; 0 if the table was loaded from a file.
    pub attempts: u32,
    /// Entries that did not fit their bins in a partition pass.
    pub overflowed: usize,
    /// Keys of a map whose last (or first) copy had to be searched for in the input.
    pub contested: usize,
    /// Seconds of device time; `None` after a rebuild, and if the table was loaded from a file.
    pub device_seconds: Option<f64>,
}
/// The host's knowledge of the last build.
#[derive(Clone, Copy)]
enum Progress {
    Known(BuildReport),
    /// The header has the rest once the device has run.
    InHeader {
        scratch_bytes: usize,
        device_seconds: Option<f64>,
        /// Number of builds that were given up before.
        given_up: u32,
    },
}

/// Returns the number of words in the buckets of a table.
#[inline]
pub(crate) fn words_of<F: Family>(shape: Shape) -> usize {
    shape.all_buckets() as usize * <F::Buckets as cpu::Buckets>::WORDS
}
/// Returns the number of slots of a table.
pub(crate) fn slots_of<F: Family>(shape: Shape) -> usize {
    shape.all_buckets() as usize * <F::Buckets as cpu::Buckets>::SLOTS
}
/// Returns the number of blocks for a lookup of `n` keys.
pub(crate) fn grid(n: u32) -> u32 {
    n.div_ceil(THREADS)
}
/// Returns the seconds since the event `start` on the stream, `None` without one.
pub(crate) fn seconds_since(stream: &Stream, start: Option<&Event>) -> Result<Option<f64>> {
    start.map(|start| stream.record()?.seconds_since(start)).transpose()
}

impl<F: Family> Table<F> {
    /// Returns an empty table.
    fn new(device: &Device, plan: Plan, storage: Storage<F>) -> Table<F> {
        let report = Mutex::new(Progress::Known(BuildReport::default()));
        Table { device: device.clone(), plan, storage, report }
    }
    /// Returns a table that launched kernels build.
    pub(crate) fn of_kernels(
        device: &Device,
        plan: Plan,
        slots: Slots<WordOf<F>>,
        scratch_bytes: usize,
        device_seconds: Option<f64>,
    ) -> Table<F> {
        let table = Table::new(device, plan, Storage::Kernels(slots));
        table.set_progress(Progress::InHeader { scratch_bytes, device_seconds, given_up: 0 });
        table
    }
    /// Sets the report.
    pub(crate) fn set_report(&self, report: BuildReport) {
        self.set_progress(Progress::Known(report));
    }
    fn set_progress(&self, progress: Progress) {
        *self.report.lock().unwrap_or_else(|e| e.into_inner()) = progress;
    }
    /// Returns the report of a table of the CPU engine, which knows it when it returns.
    #[inline]
    fn known(&self) -> BuildReport {
        match *self.report.lock().unwrap_or_else(|e| e.into_inner()) {
            Progress::Known(report) => report,
            Progress::InHeader { .. } => unreachable!("only kernels leave a report in the header"),
        }
    }
    /// Returns the number of entries.
    pub(crate) fn len(&self) -> Result<usize> {
        Ok(self.report()?.entries)
    }
    /// Returns the statistics of the build. Unless they are known, waits for the build and reads
    /// the header.
    ///
    /// Errors: the keys did not fit in any attempt.
    pub(crate) fn report(&self) -> Result<BuildReport> {
        self.outcome()?.map_err(|attempts| Error::BuildFailed { table: F::NAMES[0], attempts })
    }
    /// Returns the statistics of the build, or the number of attempts after which it was given up.
    fn outcome(&self) -> Result<std::result::Result<BuildReport, u32>> {
        let mut progress = self.report.lock().unwrap_or_else(|e| e.into_inner());
        let (scratch_bytes, device_seconds, given_up, table) = match (&*progress, &self.storage) {
            (Progress::Known(report), _) => return Ok(Ok(*report)),
            (
                &Progress::InHeader { scratch_bytes, device_seconds, given_up },
                Storage::Kernels(table),
            ) => (scratch_bytes, device_seconds, given_up, table),
            // The CPU engine knows its report when it returns.
            (Progress::InHeader { .. }, Storage::Cpu(_)) => {
                unreachable!("only kernels leave a report in the header")
            }
        };
        let read = self.read_header(table)?;
        if read.failed {
            return Ok(Err(given_up + read.attempts));
        }
        let known = BuildReport {
            entries: read.pairs as usize,
            duplicates: read.dropped as usize,
            stashed: read.stashed as usize,
            slots: slots_of::<F>(self.plan.shape),
            bytes: table.bytes(),
            scratch_bytes,
            attempts: given_up + read.attempts,
            overflowed: read.overflowed as usize,
            contested: read.contested as usize,
            device_seconds,
        };
        // A graph may launch a rebuild again, which would not be noticed here.
        if device_seconds.is_some() {
            *progress = Progress::Known(known);
        }
        Ok(Ok(known))
    }
    /// Returns whether the build dropped entries and did not fail. Waits for it.
    pub(crate) fn has_dropped(&self) -> Result<bool> {
        Ok(self.outcome()?.is_ok_and(|report| report.duplicates > 0))
    }
    /// Records that kernels change the table: the header tells the result once they have run.
    fn changed_by_kernels(&self, scratch_bytes: usize) {
        // A rebuild may have been launched before, and a graph may launch this again.
        self.set_progress(Progress::InHeader { scratch_bytes, device_seconds: None, given_up: 0 });
    }
    fn read_header(&self, table: &Slots<WordOf<F>>) -> Result<Header<ValueOf<F>>> {
        Ok(read_header(&table.header.download()?))
    }
    /// Returns the bytes of memory that the table occupies. Does not wait.
    pub(crate) fn bytes(&self) -> usize {
        match &self.storage {
            Storage::Kernels(table) => table.bytes(),
            Storage::Cpu(table) => table.bytes(),
        }
    }
    /// Returns whether the table owns enough memory for this plan.
    fn fits(&self, plan: &Plan) -> bool {
        match &self.storage {
            Storage::Kernels(table) => table.fits::<F>(plan),
            Storage::Cpu(OnCpu { table, .. }) => {
                table.own().is_some_and(|table| table.len() >= words_of::<F>(plan.shape))
            }
        }
    }
    /// Empties the table, after a rebuild that failed.
    pub(crate) fn forget(&mut self, stream: &Stream) {
        let emptied = match &mut self.storage {
            Storage::Kernels(table) => table.clear(stream),
            Storage::Cpu(OnCpu { table, stash, header, .. }) => {
                *stash = cpu::Stash::default();
                if let Stored::Own(table) = table {
                    table.view_mut().host_mut().unwrap_or(&mut []).fill(F::EMPTY_WORD);
                }
                header.view_mut().fill_bytes(0, stream)
            }
        };
        // If even this fails, the device does not answer lookups either.
        drop(emptied);
        self.set_report(BuildReport::default());
    }
    /// Checks that the stream is on the table's device.
    ///
    /// Errors: a stream of another device.
    pub(crate) fn check_stream(&self, stream: &Stream) -> Result<()> {
        check_device("stream", stream.device(), &self.device)
    }
    /// Returns the table's arrays for a kernel that reads them.
    ///
    /// Errors: a stream of another device.
    pub(crate) fn handles(&self, stream: &Stream) -> Result<Handles<WordOf<F>>> {
        match &self.storage {
            Storage::Kernels(table) => table.handles(stream, &self.plan),
            Storage::Cpu(OnCpu { table, stash, header, .. }) => {
                let slots_of_stash = stash.slots().len() / F::Pairs::SLOT_WORDS;
                Ok(Handles {
                    shape: self.plan.shape,
                    stash_bits: slots_of_stash.checked_ilog2().unwrap_or(0),
                    slots: table.view().arg("slots", stream)?,
                    stash: self.device.stage(stash.slots())?.view().arg("stash", stream)?,
                    header: header.view().arg("header", stream)?,
                })
            }
        }
    }
    /// Downloads the content other than the slots.
    pub(crate) fn on_host(&self) -> Result<OnHost<ValueOf<F>>> {
        Ok(match &self.storage {
            Storage::Kernels(table) => {
                let header = self.read_header(table)?;
                // The memory may have room for more entries.
                let words = F::Pairs::SLOT_WORDS << self.plan.stash_bits;
                let stash = table.stash.view().slice(..words)?.download()?;
                OnHost { stash, seed: header.seed, held: header.held }
            }
            Storage::Cpu(OnCpu { stash, seed, .. }) => OnHost {
                stash: collect(stash.slots().iter().copied())?,
                seed: *seed,
                held: stash.held(),
            },
        })
    }
    /// Copies the table to a device: the same bytes, the same answers. Waits.
    ///
    /// Errors: a failed build; out of memory; faults of the file that the table was opened from.
    pub(crate) fn to_device(&self, device: &Device) -> Result<Table<F>> {
        let _apart = Apart::begin();
        let report = self.report()?;
        let OnHost { stash, seed, held } = self.on_host()?;
        let words = words_of::<F>(self.plan.shape);
        let slots = match &self.storage {
            Storage::Kernels(table) => {
                device.upload(&table.slots.view().slice(..words)?.download()?)?
            }
            Storage::Cpu(OnCpu { table, .. }) => table.upload(words, device)?,
        };
        // An empty stash may have no slots.
        let stash = if report.stashed > 0 { &stash[..] } else { &[] };
        let stash = cpu::Stash::from_slots(stash, held)?;
        Table::of_parts(device, self.plan, Stored::Own(slots), stash, seed, report)
    }
    /// Returns a table made of existing slots and an existing stash.
    fn of_parts(
        device: &Device,
        mut plan: Plan,
        slots: Stored<WordOf<F>>,
        stash: cpu::Stash<F::Pairs>,
        seed: u32,
        report: BuildReport,
    ) -> Result<Table<F>> {
        let header =
            device.upload(&header_words(seed, report.entries, report.stashed, stash.held()))?;
        let storage = match slots {
            Stored::Own(slots) if device.runs_kernels() => {
                // A slot has one word, or two.
                let none = &[EMPTY; 2][..F::Pairs::SLOT_WORDS];
                let stash = device.upload(if stash.is_empty() { none } else { stash.slots() })?;
                plan.stash_bits = (stash.len() / F::Pairs::SLOT_WORDS).ilog2();
                Storage::Kernels(Slots { slots, stash, header })
            }
            table => Storage::Cpu(OnCpu { table, stash, seed, header, erased: 0 }),
        };
        let table = Table::new(device, plan, storage);
        table.set_report(report);
        Ok(table)
    }
}
impl<F: Family> OnCpu<F> {
    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes() + self.stash.bytes() + self.header.bytes()
    }
    /// Returns the words of the buckets, without further memory of the table.
    #[inline]
    pub(crate) fn words(&self, shape: Shape) -> &[WordOf<F>] {
        self.table.host().get(..words_of::<F>(shape)).unwrap_or(&[])
    }
    /// Returns the entries, in slot order.
    #[inline]
    pub(crate) fn entries(&self, shape: Shape) -> cpu::Iter<'_, F::Buckets> {
        cpu::Iter::new(shape, self.seed, self.words(shape), &self.stash)
    }
    #[inline]
    pub(crate) fn finder(&self, shape: Shape) -> Result<cpu::Finder<F::Probe<'_>>> {
        Ok(cpu::Finder::new(F::probe(shape, self.seed, self.words(shape), &self.stash)?))
    }
    /// Updates the header after a change of the table.
    fn write_header(&mut self, entries: usize) -> Result<()> {
        let words = header_words(self.seed, entries, self.stash.len(), self.stash.held());
        self.header.view_mut().elements("header")?.copy_from_slice(&words);
        Ok(())
    }
}
