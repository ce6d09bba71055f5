//! Changing a map that is there, in batches: see [`MapUpdater`].
use super::join::{Route, Rule, Sent, reserve, send};
use super::kernels::{self, Kernels, Slots};
use super::plan::Plan;
use super::{Key, LayoutOf, Map, MapBuilder, MapOptions, OnCpu, Report, Storage, Value};
use crate::cpu;
use crate::device::{Buffer, Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::{Error, Result, check_length};
use crate::file::stored::Stored;
use koel_kernels::map::join::Numbered;
use koel_kernels::map::layout::{BUCKET, Layout, Shape};
use koel_kernels::map::reproduce::{self, unstashed_words};
use koel_kernels::map::update::{Applying, MOST_BUCKETS, applied, operation, shared_bytes, state, status, status_of};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::Range;

#[cfg(test)]
mod tests;

/// What is done with a key and its value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Operation {
    /// The key gets the value if it is missing; else it keeps what it has.
    Insert = operation::INSERT as u8,
    /// The key gets the value.
    InsertOrAssign = operation::ASSIGN as u8,
    /// The value is added to that of the key, modulo 2^32 or 2^64; a missing key gets it.
    InsertOrAdd = operation::ADD as u8,
    /// The key is removed. The value does not matter.
    Erase = operation::ERASE as u8,
}
/// What became of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Outcome {
    /// Nothing: there was no room, or too many operations were for too few partitions. Only [`enqueue`](MapUpdater::enqueue) leaves it.
    NotDone = status::NOT_DONE,
    /// The key was missing and has the value now.
    Inserted = status::INSERTED,
    /// The key was there and has kept its value.
    Kept = status::KEPT,
    /// The key was there and has the value now.
    Assigned = status::ASSIGNED,
    /// The key was there and the value was added to its own.
    Added = status::ADDED,
    /// The key was there and is removed.
    Erased = status::ERASED,
    /// The key was not there, and is not.
    Missing = status::MISSING,
}
impl Outcome {
    const ALL: [Outcome; 7] = [
        Outcome::NotDone,
        Outcome::Inserted,
        Outcome::Kept,
        Outcome::Assigned,
        Outcome::Added,
        Outcome::Erased,
        Outcome::Missing,
    ];
    /// That of a byte which a [`MapUpdater`] has written; `None` for other bytes.
    pub fn of(byte: u8) -> Option<Outcome> {
        Outcome::ALL.get(byte as usize).copied()
    }
}
/// The operations of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Operations<'a> {
    /// The same on every key.
    All(Operation),
    /// One for each key: an [`Operation`] as a byte, of which the low two bits count.
    Each(View<'a, u8>),
}
impl Operations<'_> {
    fn code(&self) -> u32 {
        match self {
            Operations::All(operation) => *operation as u32,
            Operations::Each(_) => operation::EACH,
        }
    }
}

/// Changes maps in batches, and keeps the memory that this needs from one batch to the next.
///
/// A batch is an array of keys with values, and either one [`Operation`] for all or one for each. The result is that of doing one after
/// the other, in the order of the array, also where a key comes several times; each operation's [`Outcome`] is told.
///
/// ```
/// use koel::{Device, Map, MapOptions, MapUpdater, Operation, Operations, Outcome};
///
/// let device = Device::cpu()?;
/// let stream = device.stream()?;
/// let mut map = Map::build(&device, &[3u32, 5, 7], &[30u32, 50, 70])?;
/// let mut updater = MapUpdater::new(&device, MapOptions::default())?;
/// let keys = device.upload(&[5u32, 6, 6])?;
/// let values = device.upload(&[1u32, 2, 3])?;
/// let mut outcomes = device.alloc::<u8>(3)?;
/// let all = Operations::All(Operation::InsertOrAdd);
/// for _frame in 0..3 {
///     updater.apply(&mut map, &stream, all, keys.view(), values.view(), outcomes.view_mut())?;
/// }
/// assert_eq!(map.get(&[3, 5, 6])?, [Some(30), Some(53), Some(15)]);
/// assert_eq!(Outcome::of(outcomes.download()?[0]), Some(Outcome::Added));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Cost
/// On a GPU the operations are partitioned as the table is, and one block a partition reads it, changes it in shared memory and writes the
/// buckets that changed. Of 32-bit keys and values that is 41 bytes of memory traffic an operation for the partitions, values and outcomes, the
/// partitions that have operations read once, and the changed buckets written; wider pairs cost twice as much. Operations without order
/// inside a key (all but mixed ones) cost the same however often a key comes. A fill and four launches (three up to 1,024
/// partitions), for each 600 operations a partition, some 2.9 million in a map of 2^24 pairs. Scratch memory is about 27 bytes an
/// operation, 54 for 64-bit keys.
///
/// A batch of one kind of operation that has at most one for two buckets takes a launch more, which reads only the buckets of its keys and does what
/// it can there: all, nearly always. If keys may be new, only in maps built for a load of 0.65 at most. Every sixteenth such batch is done in whole
/// partitions, so that what erased keys leave behind in the buckets does not become more and more.
///
/// On a CPU operations are sorted by partition, and partitions with operations taken apart and put together again, by all threads.
///
/// # Growth
/// A partition that new keys would fill to more than 97 % stays as it was. Then [`apply`](Self::apply) builds the map again, for as many
/// pairs as there are and are wanted, at the options' load (0.85 at most), and does what is not done: the cost of an
/// export and a build, and memory for the pairs, a new table and a build's scratch besides the old table. Keys chosen to collide, for which
/// that does not help, are applied on the host and the map built again of the result: always possible, and slow. A partition of
/// which a batch has more different keys than its block has room for makes the batch be done in two halves, and so on.
///
/// An updated map has its pairs where its history brought them: it is not [reproducible](MapOptions::reproducible).
pub struct MapUpdater<K: Key = u32, V: Value = u32> {
    device: Device,
    options: MapOptions,
    limits: Limits,
    memory: Memory,
    of: PhantomData<fn() -> (K, V)>,
}
/// What updates need besides the table.
struct Memory {
    sent: Sent<u64>,
    /// What the passes share.
    counters: Buffer<u32>,
    /// Pairs of the stash, and of each partition the first of its own: all ones between batches.
    unstashed: Buffer<u64>,
    lists: Buffer<u32>,
    are_ones: bool,
    /// What blocks tell.
    state: Buffer<u32>,
    /// Operations of a batch that has one for all.
    no_operations: Buffer<u8>,
    /// Batches that were done in the buckets of their keys, since one was done in whole partitions.
    sparse: u32,
    of_cpu: cpu::Updates,
}

/// How batches are cut, and how full partitions may be.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// How operations are partitioned.
    pub rule: Rule,
    /// Operations of a partition on average, at most.
    pub operations: u32,
    /// Entries of a block, in deviations of what comes to it, and beyond.
    pub deviations: f64,
    pub spare: u32,
    /// Of a partition's slots that pairs may take.
    pub most_load: f64,
    /// Operations for a bucket up to which only the buckets of their keys are read; then partitions are read as a whole.
    pub sparse: f64,
    /// The same of the load that the map was built for, where keys may be new: above, too many have to evict others.
    pub sparse_load: f64,
}
impl Limits {
    pub const TUNED: Limits = Limits {
        rule: Rule { cached: 0, pairs: 1, area: 0, ..Rule::TUNED },
        operations: 600,
        deviations: 6.0,
        spare: 24,
        most_load: 0.97,
        sparse: 0.5,
        sparse_load: 0.65,
    };
    /// Keys that a block has room for, if there are so many operations for it on average.
    fn entries(self, mean: f64) -> u32 {
        ((mean + self.deviations * mean.sqrt()) * 1.2) as u32 + self.spare
    }
    /// Operations of a partition on average, at most; `None`: blocks have no room for such partitions.
    fn most_operations(self, shape: Shape, each: bool, wide: bool, max_shared: u32) -> Option<u32> {
        let bytes = |mean: u32| shared_bytes(shape.buckets, self.entries(mean as f64), each, wide);
        let fits = |&mean: &u32| bytes(mean) <= max_shared;
        let mut means =
            std::iter::successors(Some(self.operations), |&mean| Some(mean * 3 / 4).filter(|&mean| mean > 0));
        if shape.buckets <= MOST_BUCKETS { means.find(fits) } else { None }
    }
    /// Whether so many operations are done in the buckets of their keys, as far as they can be.
    fn are_few(self, n: usize, code: u32, plan: &Plan) -> bool {
        let buckets = plan.shape.all_buckets();
        let evicts = code != operation::ERASE && plan.n as f64 > self.sparse_load * plan.slots() as f64;
        code != operation::EACH && !evicts && buckets > 1 && n as f64 <= self.sparse * buckets as f64
    }
    fn most_pairs(self, shape: Shape) -> u32 {
        (shape.buckets as f64 * BUCKET as f64 * self.most_load) as u32
    }
}
/// Batches in a row that read the buckets of their keys alone, at most: class bits of erased keys stay until one reads all.
const MOST_SPARSE: u32 = 15;
/// Blocks that empty a stash, at most.
const MOST_UNSTASHING: u32 = 64;
/// The load of maps that have grown, at most.
const MOST_GROWN_LOAD: f64 = 0.85;

/// A batch, or a part of one.
#[derive(Clone, Copy)]
struct Batch<'a, K, V> {
    operations: Operations<'a>,
    keys: View<'a, K>,
    values: View<'a, V>,
}
impl<K: Key, V: Value> Batch<'_, K, V> {
    fn part(self, range: Range<usize>) -> Result<Self> {
        Ok(Batch {
            operations: match self.operations {
                Operations::Each(each) => Operations::Each(each.slice(range.clone())?),
                all => all,
            },
            keys: self.keys.slice(range.clone())?,
            // There may be none.
            values: if self.values.is_empty() { self.values } else { self.values.slice(range)? },
        })
    }
}
/// What was left to do.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    refused: usize,
    wanted: usize,
    crowded: usize,
}

impl<K: Key, V: Value> MapUpdater<K, V> {
    /// Without memory yet. Maps that grow are built with the options' load and seed.
    ///
    /// Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: MapOptions) -> Result<MapUpdater<K, V>> {
        MapUpdater::with_limits(device, options, Limits::TUNED)
    }
    /// With other limits than the best, so that tests take every way.
    pub(super) fn with_limits(device: &Device, options: MapOptions, limits: Limits) -> Result<MapUpdater<K, V>> {
        // What is wrong with the options, building tells.
        MapBuilder::<K, V>::new(device, options)?;
        let memory = Memory {
            sent: Sent::new(device)?,
            counters: device.alloc(0)?,
            unstashed: device.alloc(0)?,
            lists: device.alloc(0)?,
            are_ones: false,
            state: device.alloc(state::LEFT as usize)?,
            no_operations: device.alloc(0)?,
            sparse: 0,
            of_cpu: cpu::Updates::default(),
        };
        Ok(MapUpdater { device: device.clone(), options, limits, memory, of: PhantomData })
    }
    /// Bytes that it keeps: what the greatest batch so far needed.
    pub fn scratch_bytes(&self) -> usize {
        let Memory { sent, counters, unstashed, lists, state, of_cpu, .. } = &self.memory;
        let words = sent.bytes() + unstashed.bytes() + counters.bytes() + lists.bytes() + state.bytes();
        words + of_cpu.bytes()
    }

    /// Does the operations on `keys[i]`, `values[i]`, one after the other: `outcomes[i]` becomes the [`Outcome`] as a byte. If all
    /// [erase](Operation::Erase), there need be no values.
    ///
    /// All are done when it returns: it waits for the device and, if there is no room, makes the map [larger](Self#growth). See
    /// [the cost](Self#cost). On a GPU nothing is allocated if there were as many operations on as big
    /// a map before and it does not grow.
    ///
    /// Errors: lengths that differ, a map or buffers of another device, more operations than 31-bit numbers reach, faults of a file that the
    /// map was opened from, out of memory. After an error of the arguments the map is as it was; after any other one all operations
    /// are done or not, as their outcomes tell.
    pub fn apply(
        &mut self,
        map: &mut Map<K, V>,
        stream: &Stream,
        operations: Operations<'_>,
        keys: View<'_, K>,
        values: View<'_, V>,
        mut outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        let batch = Batch { operations, keys, values };
        self.check(map, stream, batch, &mut outcomes)?;
        let all = 0..keys.len();
        let left = self.begin(map, stream, batch, &mut outcomes)?;
        self.finish(map, stream, batch, &mut outcomes, all, left)
    }
    /// As [`apply`](Self::apply), but on a GPU it does not wait, and the map does not grow: operations for which there is no room are
    /// [not done](Outcome::NotDone), and it is for the caller to look for those among the outcomes. Of operations on one key either all are done
    /// or none. It can be recorded in a [graph](Stream::capture) if it has been called with as many operations before.
    ///
    /// On a CPU, operations behind one of the same partition that was not done are not done either.
    ///
    /// Errors: besides, a map whose partitions no block has room for, as other programs may have made them: [`apply`](Self::apply) builds
    /// such a map again.
    pub fn enqueue(
        &mut self,
        map: &mut Map<K, V>,
        stream: &Stream,
        operations: Operations<'_>,
        keys: View<'_, K>,
        values: View<'_, V>,
        mut outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        let batch = Batch { operations, keys, values };
        self.check(map, stream, batch, &mut outcomes)?;
        self.launch(map, stream, batch, &mut outcomes, 0..keys.len(), false)
    }

    fn check(
        &self,
        map: &Map<K, V>,
        stream: &Stream,
        batch: Batch<'_, K, V>,
        outcomes: &mut ViewMut<'_, u8>,
    ) -> Result<()> {
        for (name, device) in [("map", &map.device), ("stream", stream.device())] {
            if *device != self.device {
                return Err(Error::WrongDevice { name, found: device.name(), expected: self.device.name() });
            }
        }
        let n = batch.keys.len();
        if n >= 1 << 31 {
            return Err(Error::TooMany { what: "operations", n, max: (1 << 31) - 1 });
        }
        let needs_no_values = matches!(batch.operations, Operations::All(Operation::Erase)) && batch.values.is_empty();
        if !needs_no_values {
            check_length("values", batch.values.len(), "keys", n)?;
        }
        check_length("outcomes", outcomes.len(), "keys", n)?;
        if let Operations::Each(each) = batch.operations {
            check_length("operations", each.len(), "keys", n)?;
            each.arg("operations", stream)?;
        }
        batch.keys.arg("keys", stream)?;
        batch.values.arg("values", stream)?;
        outcomes.arg("outcomes", stream)?;
        Ok(())
    }
    /// Whether the map's partitions fit the blocks that would change them.
    fn can_update(&self, map: &Map<K, V>, batch: Batch<'_, K, V>) -> bool {
        match &map.storage {
            Storage::Kernels(_) => self.piece(map.shape(), batch).is_some(),
            Storage::Cpu(_) => true,
        }
    }
    /// Operations that are done at once, at most, and how they are partitioned.
    fn piece(&self, shape: Shape, batch: Batch<'_, K, V>) -> Option<(usize, Rule)> {
        let max_shared = self.device.max_shared();
        let each = batch.operations.code() == operation::EACH;
        let most = self.limits.most_operations(shape, each, size_of::<V>() > 4, max_shared)? as usize
            * shape.partitions as usize;
        let piece = most.min(batch.keys.len()).max(1);
        // The overflow area has room for all.
        let rule = Rule { area: self.limits.rule.area + piece as u32, ..self.limits.rule };
        self.route(piece, shape, rule).is_some_and(|route| route.shared).then_some((piece, rule))
    }
    fn route(&self, n: usize, shape: Shape, rule: Rule) -> Option<Route> {
        Route::new::<LayoutOf<K, V>>(n as u32, 0, false, shape, self.device.max_shared(), rule)
    }

    /// Does what can be done at once. If there are many more operations than slots, a few first, so that the map grows in time.
    fn begin(
        &mut self,
        map: &mut Map<K, V>,
        stream: &Stream,
        batch: Batch<'_, K, V>,
        outcomes: &mut ViewMut<'_, u8>,
    ) -> Result<Left> {
        let n = batch.keys.len();
        if !self.can_update(map, batch) {
            self.rebuild(map, stream, map.len()?)?;
        }
        let first = map.plan.slots().max(1 << 12);
        let is_much = n / 2 >= first && self.can_update(map, batch);
        if is_much {
            outcomes.fill_bytes(status::NOT_DONE, stream)?;
            self.launch(map, stream, batch, outcomes, 0..first, true)?;
            let Left { refused, wanted, .. } = self.left()?;
            if refused > 0 {
                // The others want as much.
                let more = (wanted as f64 * n as f64 / first as f64).min(n as f64);
                self.rebuild(map, stream, map.len()? + more as usize)?;
            }
        }
        if self.can_update(map, batch) {
            self.launch(map, stream, batch, outcomes, 0..n, is_much)?;
            return self.left();
        }
        if !is_much {
            outcomes.fill_bytes(status::NOT_DONE, stream)?;
        }
        self.apply_on_host(map, stream, batch, outcomes, 0..n)?;
        Ok(Left::default())
    }
    /// Does what is left of the operations of a range.
    fn finish(
        &mut self,
        map: &mut Map<K, V>,
        stream: &Stream,
        batch: Batch<'_, K, V>,
        outcomes: &mut ViewMut<'_, u8>,
        range: Range<usize>,
        mut left: Left,
    ) -> Result<()> {
        while left.refused > 0 {
            let pairs = map.len()? + left.wanted;
            if pairs as f64 <= map.plan.slots() as f64 * self.grown_load() {
                // It is not the map that is full, only some partitions.
                return self.apply_on_host(map, stream, batch, outcomes, range);
            }
            self.rebuild(map, stream, pairs)?;
            if !self.can_update(map, batch) {
                return self.apply_on_host(map, stream, batch, outcomes, range);
            }
            self.launch(map, stream, batch, outcomes, range.clone(), true)?;
            left = self.left()?;
        }
        if left.crowded > 0 {
            if range.len() < 2 {
                return self.apply_on_host(map, stream, batch, outcomes, range);
            }
            let middle = range.start + range.len() / 2;
            for half in [range.start..middle, middle..range.end] {
                self.launch(map, stream, batch, outcomes, half.clone(), true)?;
                let left = self.left()?;
                self.finish(map, stream, batch, outcomes, half, left)?;
            }
        }
        Ok(())
    }
    /// What the last launches left to do. Waits for them.
    fn left(&mut self) -> Result<Left> {
        let state = self.memory.state.view().slice(..state::LEFT as usize)?.download()?;
        let word = |word: u32| state[word as usize] as usize;
        Ok(Left { refused: word(state::REFUSED), wanted: word(state::WANTED), crowded: word(state::CROWDED) })
    }
    fn grown_load(&self) -> f64 {
        self.options.load.min(MOST_GROWN_LOAD)
    }
    /// Builds the map again, with room for so many pairs.
    fn rebuild(&self, map: &mut Map<K, V>, stream: &Stream, pairs: usize) -> Result<()> {
        map.rebuild_for(stream, pairs, MapOptions { load: self.grown_load(), ..self.options })
    }

    /// Does the operations of a range, a piece after the other; of all, or of those that are not done yet.
    fn launch(
        &mut self,
        map: &mut Map<K, V>,
        stream: &Stream,
        batch: Batch<'_, K, V>,
        outcomes: &mut ViewMut<'_, u8>,
        range: Range<usize>,
        again: bool,
    ) -> Result<()> {
        let (plan, shape) = (map.plan, map.plan.shape);
        let words = state::LEFT as usize + shape.partitions as usize;
        reserve(&mut self.memory.state, words)?;
        self.memory.state.view_mut().slice(..words)?.fill_bytes(0, stream)?;
        let part = batch.part(range.clone())?;
        match &mut map.storage {
            Storage::Kernels(slots) => {
                let unfit = || {
                    let expected = "partitions that fit a block's shared memory".into();
                    Error::Setting { field: "map.shape", found: format!("{shape:?}"), expected }
                };
                let (piece, rule) = self.piece(shape, part).ok_or_else(unfit)?;
                for start in range.clone().step_by(piece) {
                    let range = start..range.end.min(start + piece);
                    let route = self.route(range.len(), shape, rule).ok_or_else(unfit)?;
                    let outcomes = outcomes.reborrow().slice(range.clone())?;
                    let (memory, limits) = (&mut self.memory, self.limits);
                    memory.run::<LayoutOf<K, V>>(
                        stream,
                        &plan,
                        &route,
                        limits,
                        slots,
                        batch.part(range)?,
                        outcomes,
                        again,
                    )?;
                }
                // A rebuild may have been launched before, and this be launched again as a part of a graph.
                *map.report.get_mut().unwrap_or_else(|e| e.into_inner()) = Report::InHeader(self.scratch_bytes(), None);
                Ok(())
            }
            Storage::Cpu(on_cpu) => {
                let mut outcomes = outcomes.reborrow().slice(range)?;
                let updated = on_cpu.update(
                    &self.device,
                    &plan,
                    self.limits,
                    part,
                    &mut outcomes,
                    again,
                    &mut self.memory.of_cpu,
                )?;
                let (stashed, bytes) =
                    (on_cpu.stash.len(), on_cpu.table.bytes() + on_cpu.stash.bytes() + on_cpu.header.bytes());
                if let Report::Known(report) = map.report.get_mut().unwrap_or_else(|e| e.into_inner()) {
                    report.pairs = report.pairs + updated.new - updated.gone;
                    (report.stashed, report.bytes) = (stashed, bytes);
                }
                if let Some(state) = self.memory.state.view_mut().host_mut() {
                    state[state::REFUSED as usize] = updated.refused as u32;
                    state[state::WANTED as usize] = updated.wanted as u32;
                }
                Ok(())
            }
        }
    }

    /// Does what is not done of a range by a table of the host, and builds the map again of that.
    fn apply_on_host(
        &mut self,
        map: &mut Map<K, V>,
        stream: &Stream,
        batch: Batch<'_, K, V>,
        outcomes: &mut ViewMut<'_, u8>,
        range: Range<usize>,
    ) -> Result<()> {
        let part = batch.part(range.clone())?;
        let (keys, values) = (part.keys.download()?, part.values.download()?);
        let operations = match part.operations {
            Operations::Each(each) => each.download()?,
            Operations::All(operation) => vec![operation as u8; keys.len()],
        };
        let mut outcomes = outcomes.reborrow().slice(range)?;
        let mut done = outcomes.view().download()?;
        let mut pairs = map.pairs()?.into_iter().collect::<HashMap<_, _>>();
        for (i, done) in done.iter_mut().enumerate().filter(|(_, done)| **done == status::NOT_DONE) {
            let operation = (operations[i] & 3) as u32;
            let before = pairs.get(&keys[i]).copied();
            match applied(operation, before, values.get(i).copied().unwrap_or_default()) {
                Some(value) => pairs.insert(keys[i], value),
                None => pairs.remove(&keys[i]),
            };
            *done = status_of(operation, before.is_some());
        }
        let (keys, values): (Vec<K>, Vec<V>) = pairs.into_iter().unzip();
        let (keys, values) = (self.device.stage(&keys)?, self.device.stage(&values)?);
        let options = MapOptions { duplicates: Duplicates::Unchecked, load: self.grown_load(), ..self.options };
        *map = MapBuilder::new(&self.device, options)?.build(stream, keys.view(), values.view())?;
        outcomes.copy_from_host(&done)
    }
}

impl Memory {
    /// Puts a piece of a batch on the stream: a fill and three to five launches.
    #[allow(clippy::too_many_arguments, reason = "what an update has at hand")]
    fn run<L: Kernels>(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        route: &Route,
        limits: Limits,
        table: &mut Slots,
        batch: Batch<'_, L::Key, L::Value>,
        mut outcomes: ViewMut<'_, u8>,
        again: bool,
    ) -> Result<()>
    where
        L::Key: Key,
        L::Value: Value,
    {
        let (n, shape) = (batch.keys.len(), plan.shape);
        let in_table = table.table::<L>(stream, plan)?;
        let came = send::<L, Numbered>(stream, route, in_table, batch.keys, &mut self.sent, &mut self.counters)?;

        let partitions = shape.partitions as usize;
        reserve(&mut self.unstashed, unstashed_words::<L>(plan.stash_bits))?;
        self.are_ones &= self.lists.len() >= partitions;
        reserve(&mut self.lists, partitions)?;
        if !self.are_ones {
            self.lists.view_mut().fill_bytes(0xFF, stream)?;
        }
        self.are_ones = false;
        let unstashed = self.unstashed.view_mut().arg("unstashed", stream)?;
        let lists = self.lists.view_mut().arg("lists", stream)?;
        let slots = table.slots.view_mut().arg("slots", stream)?;
        let stash = table.stash.view_mut().arg("stash", stream)?;
        let grid = (1u32 << plan.stash_bits).div_ceil(reproduce::THREADS).min(MOST_UNSTASHING);
        // SAFETY: a table that is built; a word for each partition, and as many for the stash as it takes.
        unsafe { L::unstash(stream, grid, shape, plan.stash_bits, stash, unstashed, lists, in_table.header) }?;

        let (code, operations) = match batch.operations {
            Operations::Each(each) => (operation::EACH, each),
            all => (all.code(), self.no_operations.view()),
        };
        let few = !again && limits.are_few(n, code, plan) && self.sparse < MOST_SPARSE;
        self.sparse = if few { self.sparse + 1 } else { 0 };
        let applying = Applying {
            pass: route.last,
            group: route.groups.map_or(0, |groups| groups.each),
            operation: code,
            again: (again || few) as u32,
            entries: limits.entries(n as f64 / shape.partitions as f64),
            most: limits.most_pairs(shape),
            stash_bits: plan.stash_bits,
        };
        let (values, operations) = (batch.values.arg("values", stream)?, operations.arg("operations", stream)?);
        let statuses = outcomes.arg("outcomes", stream)?;
        let header = table.header.view_mut().arg("header", stream)?;
        let state = self.state.view_mut().arg("state", stream)?;
        if few {
            let applying = Applying { again: 0, ..applying };
            // SAFETY: as below.
            unsafe {
                L::update_sparse(
                    stream,
                    shape.partitions,
                    shape,
                    applying,
                    came.queries,
                    came.overflow,
                    came.cursors,
                    came.spilled,
                    came.group_spilled,
                    came.state,
                    values,
                    operations,
                    lists,
                    slots,
                    statuses,
                    header,
                    state,
                )
            }?;
        }
        // SAFETY: the operations as sent, `n` of everything that they have; the table as built with this plan, its stash as it was left.
        unsafe {
            L::update(
                stream,
                shape.partitions,
                shape,
                applying,
                came.queries,
                came.overflow,
                came.cursors,
                came.spilled,
                came.group_spilled,
                came.state,
                values,
                operations,
                unstashed,
                lists,
                slots,
                stash,
                statuses,
                header,
                state,
            )
        }?;
        self.are_ones = true;
        Ok(())
    }
}
impl<L: Layout> OnCpu<L> {
    #[allow(clippy::too_many_arguments, reason = "what an update has at hand")]
    fn update(
        &mut self,
        device: &Device,
        plan: &Plan,
        limits: Limits,
        batch: Batch<'_, L::Key, L::Value>,
        outcomes: &mut ViewMut<'_, u8>,
        again: bool,
        memory: &mut cpu::Updates,
    ) -> Result<cpu::Updated>
    where
        L::Key: Key,
        L::Value: Value,
    {
        if self.table.own().is_none() {
            self.table = Stored::Own(self.table.upload(self.table.len(), device)?);
        }
        let Stored::Own(table) = &mut self.table else { return Ok(cpu::Updated::default()) };
        let (code, operations) = match &batch.operations {
            Operations::Each(each) => (operation::EACH, each.host()),
            all => (all.code(), Some(&[][..])),
        };
        let mut words = table.view_mut().slice(..plan.words::<L>())?;
        let (Some(words), Some(keys), Some(values), Some(operations), Some(outcomes)) =
            (words.host_mut(), batch.keys.host(), batch.values.host(), operations, outcomes.host_mut())
        else {
            return Ok(cpu::Updated::default());
        };
        let most = limits.most_pairs(plan.shape);
        let batch = cpu::Batch { keys, values, operation: code, operations, again, most };
        let updated = cpu::update(device, plan.shape, self.seed, words, &mut self.stash, batch, outcomes, memory);
        if let Some(words) = self.header.view_mut().host_mut() {
            let pairs = kernels::read_header::<L::Value>(words).pairs as usize + updated.new - updated.gone;
            words.copy_from_slice(&kernels::header_words(self.seed, pairs, self.stash.len(), self.stash.held()));
        }
        Ok(updated)
    }
}
impl<K: Key, V: Value> std::fmt::Debug for MapUpdater<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (key, value) = (std::any::type_name::<K>(), std::any::type_name::<V>());
        write!(f, "MapUpdater<{key}, {value}>[{} bytes] on {}", self.scratch_bytes(), self.device.name())
    }
}

impl<K: Key, V: Value> Map<K, V> {
    /// Gives each of the host keys its value, unless the map holds it already: `outcomes[i]` is [`Inserted`](Outcome::Inserted) or
    /// [`Kept`](Outcome::Kept). Of equal keys the first counts. Copies both ways and waits; a [`MapUpdater`] works on the device and keeps
    /// its memory.
    ///
    /// ```
    /// use koel::Outcome::*;
    ///
    /// let mut map = koel::Map::build(&koel::Device::cpu()?, &[3u32, 5], &[30u32, 50])?;
    /// assert_eq!(map.insert(&[5, 7, 7], &[51, 70, 71])?, [Kept, Inserted, Kept]);
    /// assert_eq!(map.insert_or_assign(&[5], &[52])?, [Assigned]);
    /// assert_eq!(map.insert_or_add(&[5, 9], &[3, 90])?, [Added, Inserted]);
    /// assert_eq!(map.erase(&[3, 4])?, [Erased, Missing]);
    /// assert_eq!(map.get(&[3, 5, 7, 9])?, [None, Some(55), Some(70), Some(90)]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: as [`MapUpdater::apply`].
    pub fn insert(&mut self, keys: &[K], values: &[V]) -> Result<Vec<Outcome>> {
        self.update_all(Operation::Insert, keys, values)
    }
    /// Gives each of the host keys its value; of equal keys the last counts: [`Inserted`](Outcome::Inserted) or
    /// [`Assigned`](Outcome::Assigned). Otherwise as [`insert`](Self::insert).
    pub fn insert_or_assign(&mut self, keys: &[K], values: &[V]) -> Result<Vec<Outcome>> {
        self.update_all(Operation::InsertOrAssign, keys, values)
    }
    /// Adds each value to that of its key, which gets it if it is missing: [`Inserted`](Outcome::Inserted) or [`Added`](Outcome::Added).
    /// Sums wrap. Otherwise as [`insert`](Self::insert).
    pub fn insert_or_add(&mut self, keys: &[K], values: &[V]) -> Result<Vec<Outcome>> {
        self.update_all(Operation::InsertOrAdd, keys, values)
    }
    /// Removes each of the host keys: [`Erased`](Outcome::Erased) or [`Missing`](Outcome::Missing). The table keeps its memory: see
    /// [`shrink`](Self::shrink). Otherwise as [`insert`](Self::insert).
    pub fn erase(&mut self, keys: &[K]) -> Result<Vec<Outcome>> {
        self.update_all(Operation::Erase, keys, &[])
    }
    /// Does `operations[i]` with `keys[i]` and `values[i]`, one after the other. Otherwise as [`insert`](Self::insert).
    pub fn update(&mut self, operations: &[Operation], keys: &[K], values: &[V]) -> Result<Vec<Outcome>> {
        let codes = operations.iter().map(|&operation| operation as u8).collect::<Vec<_>>();
        let device = self.device.clone();
        let codes = device.stage(&codes)?;
        self.update_with(Operations::Each(codes.view()), keys, values)
    }
    fn update_all(&mut self, operation: Operation, keys: &[K], values: &[V]) -> Result<Vec<Outcome>> {
        self.update_with(Operations::All(operation), keys, values)
    }
    fn update_with(&mut self, operations: Operations<'_>, keys: &[K], values: &[V]) -> Result<Vec<Outcome>> {
        let device = self.device.clone();
        let (staged_keys, staged_values) = (device.stage(keys)?, device.stage(values)?);
        let mut outcomes = device.alloc::<u8>(keys.len())?;
        let (keys, values) = (staged_keys.view(), staged_values.view());
        let mut updater = MapUpdater::new(&device, MapOptions::default())?;
        updater.apply(self, &device.stream()?, operations, keys, values, outcomes.view_mut())?;
        let outcomes = outcomes.download()?.into_iter();
        Ok(outcomes.map(|byte| Outcome::of(byte).unwrap_or(Outcome::NotDone)).collect())
    }
    /// Builds it again for the pairs that it has, at a load of 0.8: memory that erased pairs leave is given back.
    pub fn shrink(&mut self) -> Result<()> {
        self.shrink_to(MapOptions::default().load)
    }
    /// Builds it again for the pairs that it has, at this load, however much room it has now. Waits. Costs an export and a build, and memory
    /// for the pairs, a new table and a build's scratch besides the old table.
    ///
    /// Errors: a load outside 0.3 to 0.95, out of memory. After an error it is as it was.
    pub fn shrink_to(&mut self, load: f64) -> Result<()> {
        let (stream, pairs) = (self.device.stream()?, self.len()?);
        self.rebuild_for(&stream, pairs, MapOptions { load, ..MapOptions::default() })
    }
    /// Builds it again of its own pairs, with room for so many.
    fn rebuild_for(&mut self, stream: &Stream, pairs: usize, options: MapOptions) -> Result<()> {
        let (device, n) = (&self.device, self.len()?);
        let (mut keys, mut values, mut count) = (device.alloc(n)?, device.alloc(n)?, device.alloc(1)?);
        self.export_into(stream, keys.view_mut(), values.view_mut(), count.view_mut())?;
        let mut builder = MapBuilder::new(device, MapOptions { duplicates: Duplicates::Unchecked, ..options })?;
        let plan = Plan { n: n as u32, ..Plan::new(pairs.max(n), options.load)? };
        *self = builder.build_planned(plan, stream, keys.view(), values.view())?;
        Ok(())
    }
}
