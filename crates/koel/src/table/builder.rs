//! The sequence of a build: memory, attempts with different seeds, the report, and what is restored
//! after an error.
use super::family::device_bytes;
use super::family::{CpuBuild, Family, Scratch as _};
use super::plan::Plan;
use super::slots::Slots;
use super::{
    BuildReport, KeyOf, OnCpu, Progress, Storage, Table, ValueOf, WordOf, seconds_since, slots_of,
    words_of,
};
use crate::cpu;
use crate::device::{Apart, Device, Event, Stream, check_device};
use crate::duplicates::Duplicates;
use crate::error::{Error, Result};
use crate::file::stored::Stored;
use crate::seed::{Drawn, Seeds};
use koel_kernels::table::header;
use koel_kernels::table::layout::Layout;
use std::mem::replace;

/// Build options of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub load: f64,
    pub duplicates: Duplicates,
    pub seed: Option<u32>,
    pub reproducible: bool,
}

impl Settings {
    /// Errors: a load factor outside 0.3 to 0.95.
    pub(crate) fn check(&self) -> Result<()> {
        if (0.3..=0.95).contains(&self.load) {
            return Ok(());
        }
        Err(Error::Setting {
            field: "load",
            found: self.load.to_string(),
            expected: "0.3 to 0.95".into(),
        })
    }
}

/// Builds tables, and keeps scratch memory across builds.
pub(crate) struct Builder<F: Family> {
    pub device: Device,
    pub settings: Settings,
    seeds: Seeds,
    /// Scratch memory of either engine, once it has built a table.
    cpu: Option<F::CpuScratch>,
    kernels: Option<F::KernelScratch>,
}
impl<F: Family> Builder<F> {
    /// Creates a builder without scratch memory.
    ///
    /// Errors: a load outside 0.3 to 0.95.
    pub(crate) fn new(device: &Device, settings: Settings) -> Result<Builder<F>> {
        settings.check()?;
        let seeds = Seeds::new(settings.seed, settings.reproducible);
        Ok(Builder { device: device.clone(), settings, seeds, cpu: None, kernels: None })
    }
    /// Plans a table for `n` entries.
    ///
    /// Errors: a stream of another device; more entries than 31-bit indices can address.
    pub(crate) fn plan(&self, stream: &Stream, n: usize) -> Result<Plan> {
        check_device("stream", stream.device(), &self.device)?;
        F::plan(n, self.settings.load)
    }
    /// Returns an empty table with memory for `entries` entries, to be [rebuilt](Self::rebuild).
    pub(crate) fn with_room(&self, entries: usize) -> Result<Table<F>> {
        self.empty(F::plan(entries, self.settings.load)?)
    }
    /// Reserves memory in a table and in this builder for a build of `entries` entries, which then
    /// allocates nothing. A table with too little memory loses its content.
    pub(crate) fn reserve_for(&mut self, table: &mut Table<F>, entries: usize) -> Result<()> {
        let plan = F::plan(entries, self.settings.load)?;
        if self.device.runs_kernels() {
            F::reserve(&mut self.kernels, &self.device, &plan)?;
        }
        if !table.fits(&plan) {
            *table = self.empty(plan)?;
        }
        Ok(())
    }
    /// Returns the bytes that a table of `entries` entries occupies if its stash is empty.
    pub(crate) fn bytes_of(&self, entries: usize) -> Result<usize> {
        let plan = F::plan(entries, self.settings.load)?;
        if self.device.runs_kernels() {
            return Ok(device_bytes::<F>(&plan));
        }
        let words = words_of::<F>(plan.shape) * size_of::<WordOf<F>>();
        Ok(words + header::WORDS * size_of::<u32>())
    }
    fn empty(&self, plan: Plan) -> Result<Table<F>> {
        Ok(Table::new(&self.device, plan, self.storage(&plan)?))
    }
    /// Allocates the memory of a table.
    fn storage(&self, plan: &Plan) -> Result<Storage<F>> {
        let device = &self.device;
        Ok(match device.runs_kernels() {
            true => Storage::Kernels(Slots::new::<F>(device, plan)?),
            false => Storage::Cpu(OnCpu {
                table: Stored::Own(device.alloc(words_of::<F>(plan.shape))?),
                stash: cpu::Stash::default(),
                seed: self.seeds.first,
                header: device.alloc(header::WORDS)?,
                erased: 0,
            }),
        })
    }

    /// Builds a table by a plan. Waits for the device.
    pub(crate) fn build(
        &mut self,
        plan: Plan,
        stream: &Stream,
        input: F::Input<'_>,
    ) -> Result<Table<F>> {
        let _apart = Apart::begin();
        let mut table = self.empty(plan)?;
        let start = stream.record()?;
        // If the seed must be kept, kernels place homeless keys, however long that takes.
        let waits = self.device.runs_kernels() && !self.settings.reproducible;
        let [first, then] = if waits { self.seeds.apart() } else { [self.seeds; 2] };
        self.run(&mut table, stream, input, Some(&start), first)?;
        if waits && table.outcome()?.is_err() {
            self.run(&mut table, stream, input, Some(&start), then)?;
            let progress = table.report.get_mut().unwrap_or_else(|e| e.into_inner());
            if let Progress::InHeader { given_up, .. } = progress {
                *given_up = 1;
            }
        }
        table.report()?;
        Ok(table)
    }
    /// Builds a table by kernels that `launch` puts on the stream. Waits for the device.
    pub(crate) fn build_with(
        &mut self,
        plan: Plan,
        stream: &Stream,
        launch: impl FnOnce(&mut Slots<WordOf<F>>, &mut F::KernelScratch) -> Result<()>,
    ) -> Result<Table<F>> {
        let _apart = Apart::begin();
        let mut slots = Slots::new::<F>(&self.device, &plan)?;
        let scratch = F::reserve(&mut self.kernels, &self.device, &plan)?;
        let start = stream.record()?;
        launch(&mut slots, scratch)?;
        let (bytes, seconds) = (scratch.bytes(), seconds_since(stream, Some(&start))?);
        let table = Table::of_kernels(&self.device, plan, slots, bytes, seconds);
        table.report()?;
        Ok(table)
    }
    /// Replaces the entries of a table. After an error in the arguments, or when out of memory, the
    /// table is unchanged; after any other error it is empty.
    pub(crate) fn rebuild(
        &mut self,
        table: &mut Table<F>,
        plan: Plan,
        stream: &Stream,
        input: F::Input<'_>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        check_device(F::NAMES[0], &table.device, &self.device)?;
        let (done, is_whole) = self.replace(table, plan, stream, input);
        // A captured build does not run now.
        let is_spoiled = match done {
            Ok(()) => false,
            Err(Error::OutOfMemory { .. }) => !is_whole,
            Err(_) => true,
        };
        if is_spoiled && !stream.is_capturing() {
            table.forget(stream);
        }
        done
    }
    /// Also returns whether the table is as before if there is too little memory.
    fn replace(
        &mut self,
        table: &mut Table<F>,
        plan: Plan,
        stream: &Stream,
        input: F::Input<'_>,
    ) -> (Result<()>, bool) {
        let larger = if table.fits(&plan) { None } else { Some(self.storage(&plan)) };
        let larger = match larger.transpose() {
            Ok(larger) => larger,
            Err(e) => return (Err(e), true),
        };
        let plan = replace(&mut table.plan, plan);
        let storage = larger.map(|larger| replace(&mut table.storage, larger));
        let done = self.run(table, stream, input, None, self.seeds);
        // Nearly all memory is reserved before anything is written: the CPU engine may need more
        // where many entries find no room.
        let mut is_whole =
            self.cpu.as_mut().and_then(|cpu| cpu.begun()).is_none_or(|begun| !*begun);
        if let Err(Error::OutOfMemory { .. }) = done {
            table.plan = plan;
            if let Some(storage) = storage {
                (table.storage, is_whole) = (storage, true);
            }
        }
        (done, is_whole)
    }
    /// Builds. Takes the time from event `start` on the stream, if there is one.
    fn run(
        &mut self,
        table: &mut Table<F>,
        stream: &Stream,
        input: F::Input<'_>,
        start: Option<&Event>,
        seeds: Seeds,
    ) -> Result<()> {
        let (device, settings, plan) = (&self.device, &self.settings, table.plan);
        let progress = match &mut table.storage {
            Storage::Cpu(on_cpu) => {
                let scratch = self.cpu.get_or_insert_with(|| F::cpu_scratch(device));
                if let Some(begun) = scratch.begun() {
                    *begun = false;
                }
                let report = build_on_cpu(device, (settings, seeds), &plan, on_cpu, |build| {
                    F::build_on_cpu(build, input, scratch)
                })?;
                let (scratch_bytes, device_seconds) =
                    (scratch.bytes(), seconds_since(stream, start)?);
                Progress::Known(BuildReport { scratch_bytes, device_seconds, ..report })
            }
            Storage::Kernels(slots) => {
                let scratch = F::reserve(&mut self.kernels, device, &plan)?;
                F::build_by_kernels(stream, &plan, (settings, seeds), input, slots, scratch)?;
                Progress::InHeader {
                    scratch_bytes: scratch.bytes(),
                    device_seconds: seconds_since(stream, start)?,
                    given_up: 0,
                }
            }
        };
        table.set_progress(progress);
        F::check_built(table, settings, input)
    }
}
/// Builds a table with the CPU engine, with successive seeds until the entries fit. Returns the
/// report, without the scratch memory.
fn build_on_cpu<F: Family>(
    device: &Device,
    (settings, seeds): (&Settings, Seeds),
    plan: &Plan,
    on_cpu: &mut OnCpu<F>,
    mut build: impl FnMut(CpuBuild<'_, F>) -> Result<Option<cpu::Counts>>,
) -> Result<BuildReport> {
    let OnCpu { table, stash, seed: of_table, erased, .. } = on_cpu;
    let len = words_of::<F>(plan.shape);
    let mut view = table.reserve(device, len)?.view_mut().slice(..len)?;
    let words = view.elements("slots")?;
    let Drawn { built: counts, seed, attempts } =
        seeds.build(plan.most_stashed(), |seed, max_stashed| {
            let (words, stash) = (&mut *words, &mut *stash);
            let shape = plan.shape;
            build(CpuBuild { device, shape, seed, settings, max_stashed, words, stash })
        })?;
    (*of_table, *erased) = (seed, 0);
    on_cpu.write_header(counts.pairs)?;
    Ok(BuildReport {
        entries: counts.pairs,
        duplicates: counts.duplicates,
        stashed: counts.stashed,
        slots: slots_of::<F>(plan.shape),
        bytes: on_cpu.bytes(),
        attempts,
        ..BuildReport::default()
    })
}

impl<F> Builder<F>
where
    F: Family<CpuScratch = cpu::Scratch<<F as Family>::Pairs>>,
    F: Family<Buckets = cpu::OfMap<<F as Family>::Pairs>>,
{
    /// Partitions keys, of which some may be equal, and their rows for a later
    /// [build](Self::build_ranked) by the CPU engine of those that stay, and calls `take` with the
    /// copies: see [`cpu::find_copies`]. No table is changed. Returns `None` if the keys were
    /// probably chosen to slow this down. Errors: out of memory.
    pub(crate) fn find_copies(
        &mut self,
        keys: &[KeyOf<F>],
        rows: &[u32],
        keep_first: bool,
        take: impl Fn(&[cpu::Copied]) + Sync,
    ) -> Result<Option<cpu::InBins>>
    where
        F::Pairs: Layout<Value = u32>,
    {
        let (device, shape) = (&self.device, F::plan(keys.len(), self.settings.load)?.shape);
        let scratch = self.cpu.get_or_insert_with(|| F::cpu_scratch(device));
        let in_bins = cpu::partition(device, shape, self.seeds.first, (keys, rows), scratch)?;
        let is_done = cpu::find_copies(device, in_bins, keep_first, take, scratch)?;
        Ok(is_done.then_some(in_bins))
    }
    /// Rebuilds a table of the CPU engine from entries in bins, for which it has memory: those that
    /// stay, with ranks as values. See [`cpu::build_ranked`]. Errors: out of memory.
    pub(crate) fn build_ranked(
        &mut self,
        table: &mut Table<F>,
        mut in_bins: cpu::InBins,
        (keys, values): (&[KeyOf<F>], &[ValueOf<F>]),
        ranks: Option<&cpu::Ranks>,
    ) -> Result<()> {
        let (device, kept) = (&self.device, ranks.map_or(keys.len(), cpu::Ranks::kept));
        let Storage::Cpu(on_cpu) = &mut table.storage else {
            unreachable!("a device without kernels")
        };
        let (settings, plan) = (&self.settings, F::plan(kept, self.settings.load)?);
        let scratch = self.cpu.get_or_insert_with(|| F::cpu_scratch(device));
        let of_entries = F::plan(keys.len(), self.settings.load)?.shape;
        let report = build_on_cpu(device, (settings, self.seeds), &plan, on_cpu, |build| {
            let CpuBuild { shape, seed, max_stashed: most_stashed, words, stash, .. } = build;
            if in_bins.seed() != seed {
                in_bins = cpu::partition(device, of_entries, seed, (keys, values), scratch)?;
            }
            let (policy, reproducible) = (Duplicates::Unchecked, settings.reproducible);
            let how = cpu::How { policy, reproducible, most_stashed };
            cpu::build_ranked(device, (in_bins, ranks), shape, how, words, stash, scratch)
        })?;
        table.plan = plan;
        table.set_report(BuildReport { scratch_bytes: scratch.bytes(), ..report });
        Ok(())
    }
}
