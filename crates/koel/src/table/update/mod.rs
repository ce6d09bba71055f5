//! Batched updates of tables.
mod memory;
mod on_cpu;
mod operations;
pub(crate) mod outcome;
#[cfg(test)]
pub(crate) mod tests;
mod tuning;

use super::sending::{Route, RouteTuning, reserve_route};
use super::{Builder, Family, KeyOf, Settings, Storage, Table, ValueOf, WordOf, slots_of};
use crate::cpu;
use crate::device::memory::collect;
use crate::device::{Apart, Device, Element, Stream, View, ViewMut, check_device};
use crate::error::{Error, Result, check_length, outcomes_or};
use crate::fallible::{repeat, reserve_map};
use crate::seed::unforeseeable;
use koel_kernels::table::layout::{Shape, TableMut};
use koel_kernels::table::sending::{Numbered, Sent};
use koel_kernels::table::sparse::Sparse;
use koel_kernels::table::update::{
    Applying, BatchIn, Unstashed, applied, operation, state, status, status_of,
};
use koel_simt::Buf;
use memory::{Memory, sparse, state_words};
use on_cpu::on_host;
pub(crate) use on_cpu::{HostBatch, update_once};
pub use operations::Operations;
pub(crate) use operations::{Codes, HostOperations};
pub use outcome::Outcome;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::mem::replace;
use std::ops::Range;
pub(crate) use tuning::UpdateTuning;

/// Families whose tables can be updated.
pub(crate) trait Updatable: Family {
    /// Rebuilds the table from its own entries, with room for `room` entries.
    fn rebuild(
        table: &mut Table<Self>,
        stream: &Stream,
        room: usize,
        settings: Settings,
    ) -> Result<()>;
    /// Downloads the entries.
    fn entries_on_host(table: &Table<Self>) -> Result<EntriesOnHost<Self>>;
    /// Rebuilds the table from these entries.
    fn build_of(
        table: &mut Table<Self>,
        stream: &Stream,
        entries: EntriesOnHost<Self>,
        settings: Settings,
    ) -> Result<()>;

    /// Returns the bytes of shared memory of a block that updates a partition of `buckets` buckets
    /// and has room for `entries` keys. `each`: operations differ. Returns `None` if no block can
    /// update such a partition.
    fn shared_bytes(buckets: u32, entries: u32, each: bool) -> Option<u32>;
    /// Returns the bytes of shared memory of a block that changes only the buckets of its keys.
    fn sparse_shared_bytes(sparse: Sparse) -> u32;
    /// Launches the kernel that applies sent operations, one block per partition.
    ///
    /// # Safety
    /// The arguments must fit the kernel.
    unsafe fn launch(stream: &Stream, applying: Applying, on: Launch<Self>) -> Result<()>;
    /// Launches the kernel that changes only the buckets of the operations' keys, one block per
    /// bin.
    ///
    /// # Safety
    /// The arguments must fit the kernel.
    unsafe fn launch_sparse(
        stream: &Stream,
        grid: u32,
        sparse: Sparse,
        on: Launch<Self>,
    ) -> Result<()>;
    /// Launches the kernel that applies the operations that [`launch_sparse`](Self::launch_sparse)
    /// left, in `grid` blocks.
    ///
    /// # Safety
    /// The arguments must fit the kernel.
    unsafe fn launch_left(
        stream: &Stream,
        grid: u32,
        applying: Applying,
        on: Launch<Self>,
    ) -> Result<()>;
}
pub(crate) type EntriesOnHost<F> = HashMap<KeyOf<F>, ValueOf<F>>;
/// Arguments of kernels that update a table.
pub(crate) struct Launch<F: Family> {
    /// The table.
    pub table: TableMut<WordOf<F>>,
    /// The operations, and their cursors again, mutable.
    pub sent: Sent<u64>,
    pub cursors: Buf<u32>,
    /// Pairs taken from the stash.
    pub unstashed: Unstashed,
    /// The operations except their keys, and their outcomes.
    pub batch: BatchIn<ValueOf<F>>,
}
impl<F: Family> Clone for Launch<F> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<F: Family> Copy for Launch<F> {}
/// Returns the number of slots per bucket.
fn slots_of_bucket<F: Family>() -> usize {
    <F::Buckets as cpu::Buckets>::SLOTS
}

/// Maximum load of tables that have grown.
const MAX_GROWN_LOAD: f64 = 0.85;

/// A batch of operations, or part of one.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a, K, V> {
    pub operations: Codes<'a>,
    pub keys: View<'a, K>,
    /// Empty if all operations erase, or if entries have no values.
    pub values: View<'a, V>,
}
type BatchOf<'a, F> = Batch<'a, KeyOf<F>, ValueOf<F>>;
impl<K: Element, V: Element> Batch<'_, K, V> {
    /// Checks the lengths of the arrays. `has_values`: entries have values.
    fn check(&self, has_values: bool) -> Result<()> {
        let operations = match self.operations {
            Operations::Each(each) => Some(each.len()),
            Operations::All(_) => None,
        };
        let lengths = Lengths { values: self.values.len(), operations };
        lengths.check(self.keys.len(), self.operations.code(), has_values)
    }
    fn part(self, range: Range<usize>) -> Result<Self> {
        Ok(Batch {
            operations: match self.operations {
                Operations::Each(each) => Operations::Each(each.slice(range.clone())?),
                all => all,
            },
            keys: self.keys.slice(range.clone())?,
            values: if self.values.is_empty() { self.values } else { self.values.slice(range)? },
        })
    }
}

/// Lengths of the arrays of a batch beside the keys.
struct Lengths {
    values: usize,
    operations: Option<usize>,
}
impl Lengths {
    /// Checks them for `n` keys. `has_values`: entries have values.
    fn check(self, n: usize, code: u32, has_values: bool) -> Result<()> {
        if n >= 1 << 31 {
            return Err(Error::TooMany { what: "operations", n, max: (1 << 31) - 1 });
        }
        if has_values && (code != operation::ERASE || self.values > 0) {
            check_length("values", self.values, "keys", n)?;
        }
        self.operations.map_or(Ok(()), |each| check_length("operations", each, "keys", n))
    }
}

/// Work that a launch left.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    refused: usize,
    wanted: usize,
    crowded: usize,
    /// Those of the crowded partitions that have too many operations on few keys.
    linked: usize,
    /// Whether the table was rebuilt with another seed since the batch began.
    is_redrawn: bool,
}

impl<F: Updatable> Table<F> {
    /// Rebuilds the table for its current entries, unless that would take no less memory. Waits.
    pub(crate) fn shrink(&mut self, settings: Settings) -> Result<()> {
        let (stream, entries) = (self.device.stream()?, self.len()?);
        if Builder::<F>::new(&self.device, settings)?.bytes_of(entries)? >= self.bytes() {
            return Ok(());
        }
        F::rebuild(self, &stream, entries, settings)
    }
}

/// Updates tables of a family, and keeps scratch memory across batches.
pub(crate) struct Updater<F: Updatable> {
    device: Device,
    settings: Settings,
    tuning: UpdateTuning,
    pub memory: Memory,
    of: PhantomData<fn() -> F>,
}
impl<F: Updatable> Updater<F> {
    /// Creates an updater without scratch memory.
    pub(crate) fn new(
        device: &Device,
        settings: Settings,
        tuning: UpdateTuning,
    ) -> Result<Updater<F>> {
        settings.check()?;
        let memory = Memory::new(device)?;
        Ok(Updater { device: device.clone(), settings, tuning, memory, of: PhantomData })
    }
    /// Returns the bytes of scratch memory, which the largest batch so far determines.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.memory.bytes()
    }
    /// Applies a batch in host memory. Errors: as [`apply`](Self::apply); if memory runs out after
    /// some operations are done, the error has the outcomes.
    pub(crate) fn apply_from_host(
        &mut self,
        table: &mut Table<F>,
        batch: BatchOf<'_, F>,
    ) -> Result<Vec<Outcome>> {
        let (stream, n) = (self.device.stream()?, batch.keys.len());
        let (mut outcomes, mut done) = (self.device.alloc(n)?, Ok(()));
        // Room for the outcomes comes first.
        let outcomes = collect(n, |to| {
            done = self.apply(table, &stream, batch, outcomes.view_mut());
            match replace(&mut done, Ok(())) {
                Err(e @ Error::OutOfMemory { .. }) => done = Err(e),
                other => other?,
            }
            outcomes.view().copy_map(to, Outcome::of_byte)
        })?;
        outcomes_or(outcomes, done)
    }
    /// Applies a batch. All operations are done on return.
    pub(crate) fn apply(
        &mut self,
        table: &mut Table<F>,
        stream: &Stream,
        batch: BatchOf<'_, F>,
        mut outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        self.check(table, stream, batch, &mut outcomes)?;
        let all = 0..batch.keys.len();
        if all.is_empty() {
            return Ok(());
        }
        let left = self.begin(table, stream, batch, &mut outcomes)?;
        self.finish(table, stream, batch, &mut outcomes, all, left)?;
        self.relieve(table, stream)
    }
    /// Rebuilds a table on a CPU with another seed if its stash holds more pairs than a build
    /// leaves there: each batch would take them out and put them back.
    fn relieve(&mut self, table: &mut Table<F>, stream: &Stream) -> Result<()> {
        if !table.has_full_stash() {
            return Ok(());
        }
        match self.redraw(table, stream) {
            // The next batch tries again.
            Err(Error::OutOfMemory { .. }) => Ok(()),
            done => done,
        }
    }
    /// Rebuilds the table in its current size, with a secret seed: keys were crafted against the
    /// current one. Later builds use the new seed, too.
    fn redraw(&mut self, table: &mut Table<F>, stream: &Stream) -> Result<()> {
        self.settings.seed = Some(unforeseeable() as u32);
        let room = (slots_of::<F>(table.plan.shape) as f64 * self.grown_load()) as usize;
        self.rebuild(table, stream, room)
    }
    /// Applies a batch without waiting. Operations without room are not done.
    pub(crate) fn enqueue(
        &mut self,
        table: &mut Table<F>,
        stream: &Stream,
        batch: BatchOf<'_, F>,
        mut outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        self.check(table, stream, batch, &mut outcomes)?;
        match batch.keys.len() {
            0 => Ok(()),
            n => {
                // The table does not grow, so all that has room is done.
                let crowded = replace(&mut self.tuning.crowded, f64::INFINITY);
                let done = self.launch(table, stream, batch, &mut outcomes, 0..n, false);
                self.tuning.crowded = crowded;
                done
            }
        }
    }

    fn check(
        &self,
        table: &Table<F>,
        stream: &Stream,
        batch: BatchOf<'_, F>,
        outcomes: &mut ViewMut<'_, u8>,
    ) -> Result<()> {
        check_device(F::NAMES[0], &table.device, &self.device)?;
        check_device("stream", stream.device(), &self.device)?;
        batch.check(<F::Buckets as cpu::Buckets>::VALUES)?;
        check_length("outcomes", outcomes.len(), "keys", batch.keys.len())?;
        if let Operations::Each(each) = batch.operations {
            each.arg("operations", stream)?;
        }
        batch.keys.arg("keys", stream)?;
        batch.values.arg("values", stream)?;
        outcomes.arg("outcomes", stream)?;
        Ok(())
    }
    /// Returns whether the table's partitions fit the blocks that would update them.
    fn can_update(&self, table: &Table<F>, batch: BatchOf<'_, F>) -> bool {
        !self.device.runs_kernels() || self.piece(table.plan.shape, batch, false).is_some()
    }
    /// Returns the number of operations per piece of a batch, and how they are partitioned.
    fn piece(
        &self,
        shape: Shape,
        batch: BatchOf<'_, F>,
        is_sparse: bool,
    ) -> Option<(usize, RouteTuning)> {
        let max_shared = self.device.max_shared();
        let each = batch.operations.code() == operation::EACH;
        let mut most = self.tuning.most_operations::<F>(shape, each, max_shared)? as usize
            * shape.partitions as usize;
        let mut tuning = self.tuning.route;
        if is_sparse {
            // A single pass.
            tuning = RouteTuning { smallest: true, shared: false, part: usize::MAX, ..tuning };
            let coarse = self.route(1, shape, tuning)?.bins(shape.partitions)[1] as usize;
            let fits = |&each: &usize| {
                let route = self.route(each * coarse, shape, tuning);
                route.is_some_and(|route| {
                    F::sparse_shared_bytes(sparse(&route, each * coarse, shape, 0)) <= max_shared
                })
            };
            let halves = |&each: &usize| (each > 1).then_some(each / 2);
            most = most.min(
                std::iter::successors(Some(self.tuning.coarse_bin as usize), halves).find(fits)?
                    * coarse,
            );
        }
        let piece = most.min(batch.keys.len()).max(1);
        // The overflow area has room for all operations.
        tuning.area += piece as u32;
        let fits =
            self.route(piece, shape, tuning).is_some_and(|route| route.shared == tuning.shared);
        fits.then_some((piece, tuning))
    }
    fn route(&self, n: usize, shape: Shape, tuning: RouteTuning) -> Option<Route> {
        Route::new::<F::Pairs>(n as u32, 0, false, shape, self.device.max_shared(), tuning)
    }

    /// Applies the operations for which there was no room in an update that came to this.
    fn resume(
        &mut self,
        table: &mut Table<F>,
        stream: &Stream,
        batch: BatchOf<'_, F>,
        mut outcomes: ViewMut<'_, u8>,
        cpu::Updated { refused, wanted, .. }: cpu::Updated,
    ) -> Result<()> {
        let (all, left) = (0..batch.keys.len(), Left { refused, wanted, ..Left::default() });
        self.finish(table, stream, batch, &mut outcomes, all, left)?;
        self.relieve(table, stream)
    }
    /// Applies the operations that have room. If there are many more operations than slots, applies
    /// a few first, so that the table grows early.
    fn begin(
        &mut self,
        table: &mut Table<F>,
        stream: &Stream,
        batch: BatchOf<'_, F>,
        outcomes: &mut ViewMut<'_, u8>,
    ) -> Result<Left> {
        let n = batch.keys.len();
        if !self.can_update(table, batch) {
            outcomes.fill_bytes(status::NOT_DONE, stream)?;
            self.rebuild(table, stream, table.len()?)?;
        }
        let first = slots_of::<F>(table.plan.shape).max(1 << 12);
        let is_much = n / 2 >= first && self.can_update(table, batch);
        if is_much {
            outcomes.fill_bytes(status::NOT_DONE, stream)?;
            let before = table.len()?;
            self.launch(table, stream, batch, outcomes, 0..first, true)?;
            let Left { refused, wanted, .. } = self.left()?;
            if refused > 0 {
                // Assume that the remaining operations add keys at the same rate.
                let more = (table.len()? + wanted).saturating_sub(before) as f64;
                self.grow(
                    table,
                    stream,
                    before + (more * n as f64 / first as f64).min(n as f64) as usize,
                )?;
            }
        }
        if self.can_update(table, batch) {
            self.launch(table, stream, batch, outcomes, 0..n, is_much)?;
            return self.left();
        }
        if !is_much {
            outcomes.fill_bytes(status::NOT_DONE, stream)?;
        }
        self.apply_on_host(table, stream, batch, outcomes, 0..n)?;
        Ok(Left::default())
    }
    /// Applies the operations that are left in a range.
    fn finish(
        &mut self,
        table: &mut Table<F>,
        stream: &Stream,
        batch: BatchOf<'_, F>,
        outcomes: &mut ViewMut<'_, u8>,
        range: Range<usize>,
        mut left: Left,
    ) -> Result<()> {
        while left.refused > 0 || left.crowded > left.linked && !left.is_redrawn {
            let pairs = table.len()? + left.wanted;
            if pairs as f64 > slots_of::<F>(table.plan.shape) as f64 * self.grown_load() {
                self.grow(table, stream, pairs)?;
            } else if !left.is_redrawn {
                // Only some partitions are full, not the table; or more keys come to one than by
                // chance.
                self.redraw(table, stream)?;
                left.is_redrawn = true;
            } else {
                return self.apply_on_host(table, stream, batch, outcomes, range);
            }
            if !self.can_update(table, batch) {
                return self.apply_on_host(table, stream, batch, outcomes, range);
            }
            self.launch(table, stream, batch, outcomes, range.clone(), true)?;
            left = Left { is_redrawn: left.is_redrawn, ..self.left()? };
        }
        if left.crowded > 0 {
            if range.len() < 2 {
                return self.apply_on_host(table, stream, batch, outcomes, range);
            }
            let middle = range.start + range.len() / 2;
            for half in [range.start..middle, middle..range.end] {
                self.launch(table, stream, batch, outcomes, half.clone(), true)?;
                let left = Left { is_redrawn: left.is_redrawn, ..self.left()? };
                self.finish(table, stream, batch, outcomes, half, left)?;
            }
        }
        Ok(())
    }
    /// Returns what the last launches left. Waits for them.
    fn left(&mut self) -> Result<Left> {
        let at = self.memory.state;
        let state = self.memory.counters.view().slice(at..at + state::LEFT as usize)?.download()?;
        let word = |word: u32| state[word as usize] as usize;
        Ok(Left {
            refused: word(state::REFUSED),
            wanted: word(state::WANTED),
            crowded: word(state::CROWDED),
            linked: word(state::LINKED),
            is_redrawn: false,
        })
    }
    /// Returns the settings of a table that grows.
    fn grown(&self) -> Settings {
        Settings { load: self.grown_load(), ..self.settings }
    }
    fn grown_load(&self) -> f64 {
        self.settings.load.min(MAX_GROWN_LOAD)
    }
    /// Makes room for `pairs` pairs; on a CPU, where small batches are cheap, for twice as many as
    /// now if that is more, so that growth in small steps costs little per step.
    fn grow(&self, table: &mut Table<F>, stream: &Stream, pairs: usize) -> Result<()> {
        let room = match &table.storage {
            Storage::Cpu(_) => pairs.max(2 * table.len()?),
            Storage::Kernels(_) => pairs,
        };
        if table.double(room, self.grown_load())? {
            return Ok(());
        }
        let is_possible = F::plan(room, self.grown_load()).is_ok();
        self.rebuild(table, stream, if is_possible { room } else { pairs })
    }
    /// Rebuilds the table with room for `pairs` pairs.
    fn rebuild(&self, table: &mut Table<F>, stream: &Stream, pairs: usize) -> Result<()> {
        F::rebuild(table, stream, pairs, self.grown())
    }

    /// Applies the operations of a range, piece by piece. `again`: only those that are not done
    /// yet. If memory runs out or the table's file is faulty, `outcomes` state what is done.
    fn launch(
        &mut self,
        table: &mut Table<F>,
        stream: &Stream,
        batch: BatchOf<'_, F>,
        outcomes: &mut ViewMut<'_, u8>,
        range: Range<usize>,
        again: bool,
    ) -> Result<()> {
        match self.launch_range(table, stream, batch, outcomes, range.clone(), again) {
            // Files are verified and all memory is reserved before the first change.
            Err(e @ (Error::OutOfMemory { .. } | Error::File(_))) if !again => {
                outcomes.reborrow().slice(range)?.fill_bytes(status::NOT_DONE, stream)?;
                Err(e)
            }
            done => done?.check(),
        }
    }
    fn launch_range(
        &mut self,
        table: &mut Table<F>,
        stream: &Stream,
        batch: BatchOf<'_, F>,
        outcomes: &mut ViewMut<'_, u8>,
        range: Range<usize>,
        again: bool,
    ) -> Result<cpu::Updated> {
        let mut done = cpu::Updated::default();
        let plan = table.plan;
        let shape = plan.shape;
        let part = batch.part(range.clone())?;
        match &mut table.storage {
            Storage::Kernels(slots) => {
                let unfit = || {
                    let expected = "partitions that fit a block's shared memory".into();
                    Error::Setting { field: F::NAMES[1], found: format!("{shape:?}"), expected }
                };
                let (code, all) = (part.operations.code(), slots_of::<F>(shape));
                // Class bits of erased keys stay set until they are computed anew.
                let is_due = self.memory.uncounted >= all;
                let can = !again && !is_due;
                let is_sparse = can && self.tuning.is_sparse::<F>(range.len(), code, &plan, all);
                let erases = matches!(code, operation::ERASE | operation::EACH);
                // What sparse operations leave, in few partitions, recounts those.
                let recounts = is_sparse || is_due || erases;
                self.memory.uncounted = match recounts && !is_sparse {
                    true => 0,
                    false => self.memory.uncounted + range.len(),
                };
                let ways = [false, true].map(|is_sparse| self.piece(shape, part, is_sparse));
                // Reserve memory for both ways, so that a later batch of this size never allocates.
                for &(piece, route) in ways.iter().flatten() {
                    let route =
                        self.route(range.len().min(piece), shape, route).ok_or_else(unfit)?;
                    let Memory { sent, counters, .. } = &mut self.memory;
                    reserve_route::<F::Pairs, Numbered>(
                        &route,
                        shape,
                        sent,
                        counters,
                        state_words(shape),
                    )?;
                }
                let (piece, route) = ways[is_sparse as usize].ok_or_else(unfit)?;
                // Pieces of equal length.
                let piece = range.len().div_ceil(range.len().div_ceil(piece).max(1)).max(1);
                let first = range.start;
                for start in range.clone().step_by(piece) {
                    let range = start..range.end.min(start + piece);
                    let route = self.route(range.len(), shape, route).ok_or_else(unfit)?;
                    let outcomes = outcomes.reborrow().slice(range.clone())?;
                    let (memory, tuning) = (&mut self.memory, self.tuning);
                    let (is_first, part) = (start == first, batch.part(range)?);
                    memory.run::<F>(
                        stream, &plan, &route, tuning, slots, part, outcomes, again, is_sparse,
                        is_first, recounts,
                    )?;
                }
                table.changed_by_kernels(self.scratch_bytes());
            }
            Storage::Cpu(_) => {
                let mut outcomes = outcomes.reborrow().slice(range)?;
                let statuses = outcomes.elements("outcomes")?;
                let (tuning, memory) = (self.tuning, &mut self.memory.of_cpu);
                done =
                    table.update_on_cpu(on_host::<F>(&part)?, statuses, again, tuning, memory)?;
                let mut counters = self.memory.counters.view_mut();
                let state = counters.elements("state")?;
                state.fill(0);
                state[state::REFUSED as usize] = done.refused as u32;
                state[state::WANTED as usize] = done.wanted as u32;
            }
        }
        Ok(done)
    }

    /// Applies the operations of a range that are not done to a hash table on the host, and
    /// rebuilds the table from that.
    fn apply_on_host(
        &mut self,
        table: &mut Table<F>,
        stream: &Stream,
        batch: BatchOf<'_, F>,
        outcomes: &mut ViewMut<'_, u8>,
        range: Range<usize>,
    ) -> Result<()> {
        let part = batch.part(range.clone())?;
        let (keys, values) = (part.keys.download()?, part.values.download()?);
        let operations = match part.operations {
            Operations::Each(each) => each.download()?,
            Operations::All(code) => repeat(code as u8, keys.len())?,
        };
        let mut outcomes = outcomes.reborrow().slice(range)?;
        let mut done = outcomes.view().download()?;
        let mut pairs = F::entries_on_host(table)?;
        reserve_map(&mut pairs, keys.len())?;
        for (i, done) in done.iter_mut().enumerate().filter(|(_, done)| **done == status::NOT_DONE)
        {
            let operation = operation::of(operations[i], <F::Buckets as cpu::Buckets>::VALUES);
            let before = pairs.get(&keys[i]).copied();
            match applied(operation, before, values.get(i).copied().unwrap_or_default()) {
                Some(value) => pairs.insert(keys[i], value),
                None => pairs.remove(&keys[i]),
            };
            *done = status_of(operation, before.is_some());
        }
        F::build_of(table, stream, pairs, self.grown())?;
        outcomes.copy_from_host(&done)
    }
}
