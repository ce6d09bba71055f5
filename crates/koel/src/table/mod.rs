//! The floor of maps and sets on the host: a table of buckets with a stash, on a device, and its
//! life, from the build to the last lookup.
//!
//! A [`Family`] says what the entries of a table are: the pairs of a map or the keys of a set. It
//! supplies layouts, kernels and the code of the CPU engine. Everything else is here, once:
//! [`plan`], memory ([`slots`]), the build's order of events ([`builder`]), reports, copies
//! between devices, [files](file), membership [lookups](lookup), the routing of operations to
//! partitions ([`sending`]) and batched [updates](update).
pub mod builder;
mod family;
pub mod file;
pub mod header;
mod lookup;
pub mod plan;
pub mod sending;
pub mod slots;
pub mod update;

use crate::cpu;
use crate::device::{Buffer, Device, Event, Stream, check_device};
use crate::error::{Error, Result};
use crate::file::stored::Stored;
pub use builder::{Builder, Settings};
pub use family::{CpuBuild, DeviceLayout, Family, Handles, Membership, Scratch};
use header::{Header, header_words, read_header};
use koel_kernels::table::layout::{EMPTY, Layout, Shape};
use plan::Plan;
use slots::Slots;
use std::sync::Mutex;

/// Threads per block of the kernels that look keys up or export a table.
pub const THREADS: u32 = 256;

/// A finished table on a device.
pub struct Table<F: Family> {
    pub device: Device,
    pub plan: Plan,
    pub storage: Storage<F>,
    /// Of the last build or update, as far as it is known; read from the header on request.
    report: Mutex<Progress>,
}
/// Where the entries are.
pub enum Storage<F: Family> {
    Cpu(OnCpu<F>),
    Kernels(Slots<WordOf<F>>),
}
/// A table of the CPU engine.
pub struct OnCpu<F: Family> {
    pub table: Stored<WordOf<F>>,
    pub stash: cpu::Stash<F::Pairs>,
    pub seed: u32,
    /// Read by users' kernels.
    pub header: Buffer<u32>,
}
/// What a table holds besides its slots, on the host.
pub struct OnHost<V> {
    /// The slots of the stash.
    pub stash: Vec<u64>,
    pub seed: u32,
    /// The value of the ambiguous key.
    pub held: Option<V>,
}
/// The words that buckets consist of.
pub type WordOf<F> = <<F as Family>::Buckets as cpu::Buckets>::Word;
pub type KeyOf<F> = <<F as Family>::Pairs as Layout>::Key;
pub type ValueOf<F> = <<F as Family>::Pairs as Layout>::Value;

/// How a build went.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Report {
    /// Entries stored.
    pub entries: usize,
    /// Entries dropped because another one had the same key.
    pub duplicates: usize,
    pub stashed: usize,
    pub slots: usize,
    pub bytes: usize,
    pub scratch_bytes: usize,
    pub attempts: u32,
    pub overflowed: usize,
    pub contested: usize,
    pub device_seconds: Option<f64>,
}
/// What the host knows about the last build.
#[derive(Clone, Copy)]
enum Progress {
    Known(Report),
    /// The header tells the rest once the device has run.
    InHeader {
        scratch_bytes: usize,
        device_seconds: Option<f64>,
        /// Builds that were given up before.
        given_up: u32,
    },
}

/// Number of words of the buckets of a table.
pub fn words_of<F: Family>(shape: Shape) -> usize {
    shape.all_buckets() as usize * <F::Buckets as cpu::Buckets>::WORDS
}
/// Number of slots of a table.
pub fn slots_of<F: Family>(shape: Shape) -> usize {
    shape.all_buckets() as usize * <F::Buckets as cpu::Buckets>::SLOTS
}
/// Number of blocks of a lookup of `n` keys.
pub fn grid(n: u32) -> u32 {
    n.div_ceil(THREADS)
}
/// Returns the seconds since a mark on the stream.
pub fn seconds_since(stream: &Stream, start: Option<&Event>) -> Result<Option<f64>> {
    start.map(|start| stream.record()?.seconds_since(start)).transpose()
}

impl<F: Family> Table<F> {
    /// A table that holds nothing yet.
    fn new(device: &Device, plan: Plan, storage: Storage<F>) -> Table<F> {
        let report = Mutex::new(Progress::Known(Report::default()));
        Table { device: device.clone(), plan, storage, report }
    }
    /// A table that kernels have been launched to build.
    pub fn of_kernels(
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
    /// Makes this the report.
    pub fn set_report(&self, report: Report) {
        self.set_progress(Progress::Known(report));
    }
    fn set_progress(&self, progress: Progress) {
        *self.report.lock().unwrap_or_else(|e| e.into_inner()) = progress;
    }
    /// Entries stored.
    pub fn len(&self) -> Result<usize> {
        Ok(self.report()?.entries)
    }
    /// Returns how the build went. Waits for it and reads the header if that is not known yet.
    ///
    /// Errors: the keys did not fit in any attempt.
    pub fn report(&self) -> Result<Report> {
        self.outcome()?.map_err(|attempts| Error::BuildFailed { table: F::NAMES[0], attempts })
    }
    /// Returns the report of the build, or the number of attempts after which it was given up.
    fn outcome(&self) -> Result<std::result::Result<Report, u32>> {
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
        let known = Report {
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
        // A rebuild may be launched again as part of a graph, which would not be noticed here.
        if device_seconds.is_some() {
            *progress = Progress::Known(known);
        }
        Ok(Ok(known))
    }
    /// Whether a build that has not failed dropped entries. Waits for it.
    pub fn has_dropped(&self) -> Result<bool> {
        Ok(self.outcome()?.is_ok_and(|report| report.duplicates > 0))
    }
    /// Records that kernels change the table: the header tells the result once they have run.
    fn changed_by_kernels(&self, scratch_bytes: usize) {
        // A rebuild may have been launched before, and this may be launched again in a graph.
        self.set_progress(Progress::InHeader { scratch_bytes, device_seconds: None, given_up: 0 });
    }
    fn read_header(&self, table: &Slots<WordOf<F>>) -> Result<Header<ValueOf<F>>> {
        Ok(read_header(&table.header.download()?))
    }
    /// Bytes that the table keeps. Waits for nothing.
    pub fn bytes(&self) -> usize {
        match &self.storage {
            Storage::Kernels(table) => table.bytes(),
            Storage::Cpu(table) => table.bytes(),
        }
    }
    /// Whether it owns enough memory for a table of this plan.
    fn fits(&self, plan: &Plan) -> bool {
        match &self.storage {
            Storage::Kernels(table) => table.fits::<F>(plan),
            Storage::Cpu(OnCpu { table, .. }) => {
                table.own().is_some_and(|table| table.len() >= words_of::<F>(plan.shape))
            }
        }
    }
    /// Makes it hold nothing, after a rebuild that failed.
    pub fn forget(&mut self, stream: &Stream) {
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
        // If not even this can be done, the device answers no lookup either.
        drop(emptied);
        self.set_report(Report::default());
    }
    /// Errors: a stream of another device.
    pub fn check_stream(&self, stream: &Stream) -> Result<()> {
        check_device("stream", stream.device(), &self.device)
    }
    /// Returns the table's arrays for a kernel that reads them.
    ///
    /// Errors: a stream of another device.
    pub fn handles(&self, stream: &Stream) -> Result<Handles<WordOf<F>>> {
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
    /// Downloads what it holds besides its slots.
    pub fn on_host(&self) -> Result<OnHost<ValueOf<F>>> {
        Ok(match &self.storage {
            Storage::Kernels(table) => {
                let header = self.read_header(table)?;
                // There may be memory for more entries than the table was built of.
                let words = F::Pairs::SLOT_WORDS << self.plan.stash_bits;
                let stash = table.stash.view().slice(..words)?.download()?;
                OnHost { stash, seed: header.seed, held: header.held }
            }
            Storage::Cpu(OnCpu { stash, seed, .. }) => {
                OnHost { stash: stash.slots().to_vec(), seed: *seed, held: stash.held() }
            }
        })
    }
    /// Copies the table to a device: the same bytes, the same answers. Waits.
    ///
    /// Errors: a failed build; out of memory; faults of the file that the table was opened from.
    pub fn to_device(&self, device: &Device) -> Result<Table<F>> {
        let report = self.report()?;
        let OnHost { stash, seed, held } = self.on_host()?;
        let words = words_of::<F>(self.plan.shape);
        let slots = match &self.storage {
            Storage::Kernels(table) => {
                device.upload(&table.slots.view().slice(..words)?.download()?)?
            }
            Storage::Cpu(OnCpu { table, .. }) => table.upload(words, device)?,
        };
        // A stash that holds nothing may have no slots.
        let stash = if report.stashed > 0 { &stash[..] } else { &[] };
        let stash = cpu::Stash::from_slots(stash, held);
        Table::of_parts(device, self.plan, Stored::Own(slots), stash, seed, report)
    }
    /// A table of slots and a stash from somewhere else.
    fn of_parts(
        device: &Device,
        mut plan: Plan,
        slots: Stored<WordOf<F>>,
        stash: cpu::Stash<F::Pairs>,
        seed: u32,
        report: Report,
    ) -> Result<Table<F>> {
        let header =
            device.upload(&header_words(seed, report.entries, report.stashed, stash.held()))?;
        let storage = match slots {
            Stored::Own(slots) if device.runs_kernels() => {
                let none = vec![EMPTY; F::Pairs::SLOT_WORDS];
                let stash = device.upload(if stash.is_empty() { &none } else { stash.slots() })?;
                plan.stash_bits = (stash.len() / F::Pairs::SLOT_WORDS).ilog2();
                Storage::Kernels(Slots { slots, stash, header })
            }
            table => Storage::Cpu(OnCpu { table, stash, seed, header }),
        };
        let table = Table::new(device, plan, storage);
        table.set_report(report);
        Ok(table)
    }
}
impl<F: Family> OnCpu<F> {
    pub fn bytes(&self) -> usize {
        self.table.bytes() + self.stash.bytes() + self.header.bytes()
    }
    /// The words of the buckets; the memory may have room for more.
    pub fn words(&self, shape: Shape) -> &[WordOf<F>] {
        self.table.host().get(..words_of::<F>(shape)).unwrap_or(&[])
    }
    pub fn finder(&self, shape: Shape) -> Result<F::Finder<'_>> {
        F::finder(shape, self.seed, self.words(shape), &self.stash)
    }
    /// Writes the header after the table has changed.
    fn write_header(&mut self, entries: usize) -> Result<()> {
        let words = header_words(self.seed, entries, self.stash.len(), self.stash.held());
        self.header.view_mut().elements("header")?.copy_from_slice(&words);
        Ok(())
    }
}
