//! Updates of tables of the CPU engine: in place where that suffices, else of whole partitions.
use super::{
    Batch, BatchOf, HostOperations, KeyOf, Lengths, MAX_GROWN_LOAD, Operations, Outcome, Updatable,
    UpdateTuning, Updater, slots_of,
};
use crate::cpu::{self, Buckets, Distributed, InPlace, Updated};
use crate::device::graph::{WAITS, outside_only};
use crate::device::memory::collect;
use crate::device::{Apart, Device, Element, not_on_host};
use crate::error::{Error, Result, outcomes_or};
use crate::fallible::repeat;
use crate::file::stored::Stored;
use crate::table::header::set_counts;
use crate::table::plan::Plan;
use crate::table::{
    BuildReport, OnCpu, PartsMut, Progress, Settings, Storage, Table, ValueOf, words_of,
};
use koel_kernels::table::layout::Shape;
use koel_kernels::table::update::{operation, status};
use std::mem::MaybeUninit;

/// A batch of up to this share of the slots, as a divisor, changes buckets in place. Beyond, most
/// buckets change, and those of whole partitions change in cache.
const IN_PLACE_SHARE: usize = 2;
/// Share of the load of crowded tables beyond which a table that grows doubles: streams of new keys
/// take half of the time in which they do if it grows only when a key finds no room.
const GROWS_AT: f64 = 0.85;
/// Entries of a table that grows, by those that it was made for.
const GROWN: f64 = 1.125;
/// Statuses of at most this many operations are on the stack.
const FEW: usize = 64;

/// Scratch memory of updates by the CPU engine.
#[derive(Default)]
pub(super) struct Memory {
    in_place: Distributed,
    of_partitions: cpu::Updates,
}
impl Memory {
    pub(super) fn bytes(&self) -> usize {
        self.in_place.bytes() + self.of_partitions.bytes()
    }
}

impl<F: Updatable> OnCpu<F> {
    /// Returns the words of the buckets and the stash, to be changed. A table in a file is copied
    /// to its own memory first. Errors: out of memory, faults of the file, memory that a graph may
    /// write.
    fn parts_mut(&mut self, shape: Shape, device: &Device) -> Result<PartsMut<'_, F>> {
        let len = words_of::<F>(shape);
        self.table.make_own(len)?;
        // The memory may have room for more words.
        let words = self.table.own_mut().and_then(|words| words.get_mut(..len));
        Ok((words.ok_or_else(|| not_on_host("slots", device))?, &mut self.stash))
    }
}

impl<F: Updatable> Table<F> {
    /// Returns whether a batch of `n` operations changes buckets in place.
    fn updates_in_place(&self, n: usize, tuning: UpdateTuning) -> bool {
        let shape = self.plan.shape;
        let Storage::Cpu(OnCpu { erased, .. }) = &self.storage else { return false };
        let slots = slots_of::<F>(shape);
        // A table of one bucket has no fillers.
        tuning.sparse && n <= slots / IN_PLACE_SHARE && *erased < slots && shape.all_buckets() > 1
    }
    /// Applies the operations of a batch that few buckets suffice for, and sets all statuses.
    /// Errors: nothing was changed.
    fn update_in_place(
        &mut self,
        batch: cpu::Batch<'_, F::Pairs>,
        statuses: &mut [u8],
        memory: &mut Memory,
    ) -> Result<InPlace> {
        let (shape, device) = (self.plan.shape, &self.device);
        let Storage::Cpu(on_cpu) = &mut self.storage else { return Ok(InPlace::default()) };
        let seed = on_cpu.seed;
        let (words, stash) = on_cpu.parts_mut(shape, device)?;
        let memory = &mut memory.in_place;
        let done = cpu::update_in_place::<F::Buckets>(
            device, shape, seed, words, stash, batch, statuses, memory,
        )?;
        let Updated { new, gone, .. } = done.updated;
        on_cpu.erased += gone;
        if (new, gone) != (0, 0) {
            self.count_on_cpu(new, gone)?;
        }
        Ok(done)
    }
    /// Applies a batch to whole partitions. `again`: only operations that are not done.
    fn update_partitions(
        &mut self,
        batch: cpu::Batch<'_, F::Pairs>,
        statuses: &mut [u8],
        again: bool,
        most: u32,
        memory: &mut Memory,
    ) -> Result<Updated> {
        let (shape, device) = (self.plan.shape, &self.device);
        let Storage::Cpu(on_cpu) = &mut self.storage else { return Ok(Updated::default()) };
        let (seed, recounts) = (on_cpu.seed, on_cpu.erased >= slots_of::<F>(shape));
        let (words, stash) = on_cpu.parts_mut(shape, device)?;
        let batch = (batch, cpu::Applying { again, most, recounts });
        let memory = &mut memory.of_partitions;
        let done =
            cpu::update::<F::Buckets>(device, shape, seed, words, stash, batch, statuses, memory)?;
        if recounts {
            on_cpu.erased = 0;
        }
        self.count_on_cpu(done.new, done.gone)?;
        Ok(done)
    }
    /// Applies a batch as far as there is room. Errors: if `again` is not set, nothing was changed.
    pub(super) fn update_on_cpu(
        &mut self,
        batch: cpu::Batch<'_, F::Pairs>,
        statuses: &mut [u8],
        again: bool,
        tuning: UpdateTuning,
        memory: &mut Memory,
    ) -> Result<Updated> {
        let most = tuning.most_pairs::<F>(self.plan.shape);
        if again || !self.updates_in_place(batch.keys.len(), tuning) {
            return self.update_partitions(batch, statuses, again, most, memory);
        }
        let InPlace { updated, left } = self.update_in_place(batch, statuses, memory)?;
        if left == 0 {
            if updated.new > 0 {
                self.grow_in_time(tuning);
            }
            return Ok(updated);
        }
        if self.is_crowded(left, tuning)? {
            return Ok(Updated { refused: 1, wanted: left, ..updated });
        }
        match self.update_partitions(batch, statuses, true, most, memory) {
            Ok(rest) => Ok(updated.and(rest)),
            Err(Error::OutOfMemory { asked, .. }) => {
                Ok(Updated { starved: asked.max(1), ..updated })
            }
            Err(e) => Err(e),
        }
    }
    /// Doubles the buckets of a table on a CPU, if that makes room for `room` entries. Returns
    /// whether it did; if not, the table is as before. Errors: out of memory; then, too.
    pub(super) fn double(&mut self, room: usize, load: f64) -> Result<bool> {
        let Storage::Cpu(on_cpu) = &mut self.storage else { return Ok(false) };
        let (shape, device) = (self.plan.shape, &self.device);
        let Some(larger) = cpu::doubled(shape) else { return Ok(false) };
        let slots = slots_of::<F>(larger) as f64;
        let Ok(plan) = F::plan(room, load) else { return Ok(false) };
        if room as f64 > MAX_GROWN_LOAD * slots {
            return Ok(false);
        }
        let len = words_of::<F>(larger);
        let mut words = device.alloc(len)?;
        let Some(to) = words.host_mut() else { return Ok(false) };
        let from = (shape, on_cpu.words(shape), &on_cpu.stash);
        let stash =
            cpu::double::<F::Buckets>(device, on_cpu.seed, from, (larger, to), F::EMPTY_WORD)?;
        on_cpu.table = Stored::Own(words);
        (on_cpu.stash, on_cpu.erased) = (stash, 0);
        self.plan = Plan { shape: larger, ..plan };
        let slots = slots_of::<F>(larger);
        self.count_on_cpu(0, 0)?;
        if let Progress::Known(report) = self.report.get_mut().unwrap_or_else(|e| e.into_inner()) {
            *report = BuildReport { slots, ..*report };
        }
        Ok(true)
    }
    /// Doubles a table that has grown well beyond what it was made for, before insertions evict
    /// many keys. Without memory for that, it grows when there is no room.
    fn grow_in_time(&mut self, tuning: UpdateTuning) {
        let (entries, slots) = (self.known().entries, slots_of::<F>(self.plan.shape));
        let is_late = entries as f64 > GROWS_AT * tuning.crowded * slots as f64;
        if is_late && entries as f64 > GROWN * f64::from(self.plan.n) {
            drop(self.double(entries, MAX_GROWN_LOAD));
        }
    }
    /// Returns whether a table with `more` entries should grow.
    fn is_crowded(&self, more: usize, tuning: UpdateTuning) -> Result<bool> {
        Ok((self.len()? + more) as f64 > tuning.crowded * slots_of::<F>(self.plan.shape) as f64)
    }
    /// Returns whether the stash holds more entries than a build leaves there, on a CPU.
    pub(super) fn has_full_stash(&self) -> bool {
        match &self.storage {
            Storage::Cpu(on_cpu) => on_cpu.stash.len() > self.plan.most_stashed(),
            Storage::Kernels(_) => false,
        }
    }
    /// Counts entries that the CPU engine has inserted, and those that it has removed.
    #[inline]
    fn count_on_cpu(&mut self, new: usize, gone: usize) -> Result<()> {
        let Progress::Known(report) = self.report.get_mut().unwrap_or_else(|e| e.into_inner())
        else {
            unreachable!("only kernels leave a report in the header")
        };
        let Storage::Cpu(on_cpu) = &mut self.storage else { return Ok(()) };
        report.entries = report.entries + new - gone;
        report.stashed = on_cpu.stash.len();
        report.bytes = on_cpu.bytes();
        let stash = &on_cpu.stash;
        let mut header = on_cpu.header.view_mut();
        set_counts(header.elements("header")?, report.entries, stash.len(), stash.held());
        Ok(())
    }
}
/// Returns a batch as the CPU engine takes it.
pub(super) fn on_host<'a, F: Updatable>(
    batch: &'a BatchOf<'_, F>,
) -> Result<cpu::Batch<'a, F::Pairs>> {
    let (code, operations) = match &batch.operations {
        Operations::Each(each) => (operation::EACH, each.elements("operations")?),
        all => (all.code(), &[][..]),
    };
    let (keys, values) = (batch.keys.elements("keys")?, batch.values.elements("values")?);
    Ok(cpu::Batch { keys, values, operation: code, operations })
}

/// A batch in host memory.
#[derive(Clone, Copy)]
pub(crate) struct HostBatch<'a, K, V> {
    pub operations: HostOperations<'a, u32>,
    pub keys: &'a [K],
    /// Empty if all operations erase, or if entries have no values.
    pub values: &'a [V],
}
impl<K: Element, V: Element> HostBatch<'_, K, V> {
    /// Calls `apply` with the batch where a device reads it.
    fn on<R>(self, device: &Device, apply: impl FnOnce(Batch<'_, K, V>) -> Result<R>) -> Result<R> {
        let (keys, values) = (device.stage(self.keys)?, device.stage(self.values)?);
        let (keys, values) = (keys.view(), values.view());
        self.operations.on(device, |operations| apply(Batch { operations, keys, values }))
    }
}

/// Applies a batch in host memory. On a CPU, where few buckets suffice, it takes no updater and
/// nothing of what that allocates.
///
/// Errors: as [`Updater::apply`]; if some operations are done, the error has the outcomes.
pub(crate) fn update_once<F: Updatable>(
    table: &mut Table<F>,
    batch: HostBatch<'_, KeyOf<F>, ValueOf<F>>,
    settings: Settings,
    tuning: UpdateTuning,
) -> Result<Vec<Outcome>> {
    let HostBatch { operations, keys, values } = batch;
    let n = keys.len();
    if n == 0 || !table.updates_in_place(n, tuning) {
        let device = table.device.clone();
        let mut updater = Updater::new(&device, settings, tuning)?;
        return batch.on(&device, |batch| updater.apply_from_host(table, batch));
    }
    let (operation, operations) = match operations {
        HostOperations::All(code) => (code, None),
        HostOperations::Each(codes) => (operation::EACH, Some(codes)),
    };
    let lengths = Lengths { values: values.len(), operations: operations.map(<[u8]>::len) };
    lengths.check(n, operation, <F::Buckets as Buckets>::VALUES)?;
    let _apart = Apart::begin();
    outside_only("update", &table.device, WAITS)?;
    let on_host = cpu::Batch { keys, values, operation, operations: operations.unwrap_or(&[]) };
    let (mut few, mut many);
    let statuses = if n <= FEW {
        few = [status::NOT_DONE; FEW];
        &mut few[..n]
    } else {
        many = repeat(status::NOT_DONE, n)?;
        &mut many[..]
    };
    let mut done = Ok(());
    // Room for the outcomes comes first.
    let outcomes = collect(n, |to: &mut [MaybeUninit<Outcome>]| {
        let memory = &mut Memory::default();
        let updated = table.update_on_cpu(on_host, statuses, false, tuning, memory)?;
        done = updated.check();
        if done.is_ok() && (updated.refused > 0 || table.has_full_stash()) {
            done = finish(table, batch, (statuses, updated), settings, tuning);
        }
        let outcomes = statuses.iter().map(|&status| Outcome::of_byte(status));
        to.iter_mut().zip(outcomes).for_each(|(to, outcome)| _ = to.write(outcome));
        Ok(())
    })?;
    outcomes_or(outcomes, done)
}
/// Applies the operations for which a table has no room, and relieves its stash.
#[cold]
fn finish<F: Updatable>(
    table: &mut Table<F>,
    batch: HostBatch<'_, KeyOf<F>, ValueOf<F>>,
    (statuses, updated): (&mut [u8], Updated),
    settings: Settings,
    tuning: UpdateTuning,
) -> Result<()> {
    let device = table.device.clone();
    let (stream, mut updater) = (device.stream()?, Updater::new(&device, settings, tuning)?);
    let mut outcomes = device.upload(&*statuses)?;
    let done = batch
        .on(&device, |batch| updater.resume(table, &stream, batch, outcomes.view_mut(), updated));
    statuses.copy_from_slice(outcomes.view().elements("outcomes")?);
    done
}
