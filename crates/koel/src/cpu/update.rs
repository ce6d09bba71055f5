//! Batch updates of whole partitions: of what an update [in place](super::in_place) leaves, and of
//! batches for which that takes longer.
//!
//! Operations are sorted by partition. Each partition with operations is then unpacked, changed by
//! its operations in order, and packed again, on any of the threads. Each time, pairs of its stash
//! try to leave it.
use super::batch::{Batch, Updated};
use super::bucketed::{Buckets, PairOf};
use super::stash::Stash;
use super::stashed::{Places, Stashed, fill, lock};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::fallible::{collect, extend, push, resize, with_room};
use crate::parallel;
use koel_kernels::table::layout::{EMPTY, Layout, Shape, class};
use koel_kernels::table::update::{applied, operation, status, status_of};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Mutex;

/// Maximum number of evictions before a pair goes to the stash.
const MAX_EVICTIONS: u32 = 512;
/// The calling thread applies fewer operations than this.
const PARALLEL: usize = 4096;

/// How a batch is applied to whole partitions.
#[derive(Clone, Copy)]
pub(crate) struct Applying {
    /// Whether to apply only the operations not done yet.
    pub again: bool,
    /// Maximum number of pairs per partition after insertions.
    pub most: u32,
    /// Whether to pack all partitions anew, not only those with operations.
    pub recounts: bool,
}
/// Memory that is reused across batches.
#[derive(Default)]
pub(crate) struct Updates {
    /// Partition and number of each operation.
    order: Vec<u64>,
    /// Statuses of the operations, in this order.
    statuses: Vec<u8>,
}
impl Updates {
    /// Returns the number of bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.order.capacity() * size_of::<u64>() + self.statuses.capacity()
    }
}

/// A partition's part of the table and its operations.
struct Task<'a, B: Buckets> {
    partition: u32,
    words: &'a mut [B::Word],
    order: &'a [u64],
    statuses: &'a mut [u8],
    /// Its pairs in the stash before, and after if anything was done.
    unstashed: &'a [PairOf<B>],
    stashed: Vec<PairOf<B>>,
    is_done: bool,
    held: Option<<B::Pairs as Layout>::Value>,
    updated: Updated,
}

impl<B: Buckets> Task<'_, B> {
    /// Returns the partition's pairs in the stash after the batch.
    fn after(&self) -> &[PairOf<B>] {
        if self.is_done { &self.stashed } else { self.unstashed }
    }
}

/// Applies a batch as if its operations were done sequentially. Sets `statuses` to those of the
/// operations.
///
/// Sorts one word per operation; reads and writes each partition with operations once. `seed` and
/// `shape` are those of the table.
///
/// Errors: out of memory; nothing was changed, statuses included. If memory runs out later, which
/// takes many pairs without room in their buckets, [`Updated::check`] fails.
#[allow(clippy::too_many_arguments, reason = "as `build`")]
pub(crate) fn update<B: Buckets>(
    device: &Device,
    shape: Shape,
    seed: u32,
    table: &mut [B::Word],
    stash: &mut Stash<B::Pairs>,
    (batch, applying): (Batch<'_, B::Pairs>, Applying),
    statuses: &mut [u8],
    memory: &mut Updates,
) -> Result<Updated> {
    let Updates { order, statuses: sorted } = memory;
    sort_by_partition(device, (shape, seed), &batch, applying.again.then_some(&*statuses), order)?;
    sorted.clear();
    resize(sorted, order.len(), status::NOT_DONE)?;
    let mut stashed = collect(stash.iter())?;
    stashed.sort_unstable_by_key(|pair| partition_of::<B>(shape, pair));
    let (mut tasks, stay) =
        tasks_of::<B>(shape, table, (stash, &stashed), (order, sorted), applying.recounts)?;
    let (taken, words) = (stash.len(), stash.slots().len());
    let places = Mutex::new(Places { taken, words, larger: Vec::new(), layout: PhantomData });
    let run = |taken: &mut Taken<B>, task: &mut Task<'_, B>| {
        if let Err(Error::OutOfMemory { asked, .. }) =
            taken.update(shape, seed, (&batch, applying.most), &places, task)
        {
            task.updated.starved = asked.max(1);
        }
    };
    if order.len() >= PARALLEL || applying.recounts {
        let all = tasks.iter_mut();
        device.install(|| {
            parallel::map_with(all, || Taken::new(shape), |taken, _, task| run(taken, task))
        })?;
    } else {
        let mut taken = Taken::new(shape)?;
        tasks.iter_mut().for_each(|task| run(&mut taken, task));
    }

    let updated = tasks.iter().fold(Updated::default(), |all, task| all.and(task.updated));
    let held = match tasks.last() {
        Some(last) if last.partition == shape.partition(u32::MAX) => last.held,
        _ => stash.held(),
    };
    let larger = std::mem::take(&mut lock(&places).larger);
    let all = stay.iter().chain(tasks.iter().flat_map(Task::after)).copied();
    fill(stash, larger, all);
    stash.hold(held);
    for (&of, &status) in order.iter().zip(&sorted[..]) {
        statuses[of as u32 as usize] = status;
    }
    Ok(updated)
}
fn partition_of<B: Buckets>(shape: Shape, pair: &PairOf<B>) -> u32 {
    shape.partition(<B::Pairs as Layout>::hash(<B::Pairs as Layout>::key(*pair)))
}
/// Lists operations with their partitions, in ascending order of both: all, or given their statuses
/// those that are not done.
fn sort_by_partition<L: Layout>(
    device: &Device,
    (shape, seed): (Shape, u32),
    batch: &Batch<'_, L>,
    again: Option<&[u8]>,
    order: &mut Vec<u64>,
) -> Result<()> {
    order.clear();
    let number = |i: usize| {
        let h = L::hash(L::mixed(seed, batch.keys[i]));
        (shape.partition(h) as u64) << 32 | i as u64
    };
    match again {
        Some(statuses) => {
            let wanted = |&i: &usize| statuses[i] == status::NOT_DONE;
            extend(order, (0..batch.keys.len()).filter(wanted).map(number))?;
        }
        None => extend(order, (0..batch.keys.len()).map(number))?,
    }
    match order.len() >= PARALLEL {
        true => device.install(|| parallel::sort(order)),
        false => order.sort_unstable(),
    }
    Ok(())
}
/// A task for each partition with operations, and the pairs of the stash of other partitions.
type Tasks<'a, B> = (Vec<Task<'a, B>>, Vec<PairOf<B>>);
/// Divides a table, the pairs of its stash and the statuses among the partitions of the operations,
/// or `all`; pairs and operations are sorted by partition.
fn tasks_of<'a, B: Buckets>(
    shape: Shape,
    table: &'a mut [B::Word],
    (stash, stashed): (&Stash<B::Pairs>, &'a [PairOf<B>]),
    (order, statuses): (&'a [u64], &'a mut [u8]),
    all: bool,
) -> Result<Tasks<'a, B>> {
    let mut stay = with_room(stashed.len())?;
    let partitions = shape.partitions as usize;
    let mut tasks = with_room(if all { partitions } else { order.len().min(partitions) })?;
    let (mut words, mut next, mut outcomes, mut waiting) = (table, 0, statuses, stashed);
    let each = shape.buckets as usize * B::WORDS;
    let (mut later, place) = (order, |operation: &u64| (operation >> 32) as u32);
    loop {
        let partition = match later.first() {
            _ if all && next < shape.partitions => next,
            Some(operation) => place(operation),
            None => break,
        };
        let own = later.partition_point(|operation| place(operation) <= partition);
        let (order, rest) = later.split_at(own);
        later = rest;
        let (own, rest) =
            words.split_at_mut((partition - next) as usize * each).1.split_at_mut(each);
        (words, next) = (rest, partition + 1);
        let (statuses, rest) = outcomes.split_at_mut(order.len());
        outcomes = rest;
        let of = |pair: &PairOf<B>| partition_of::<B>(shape, pair);
        let (before, rest) = waiting.split_at(waiting.partition_point(|pair| of(pair) < partition));
        let (unstashed, rest) = rest.split_at(rest.partition_point(|pair| of(pair) == partition));
        extend(&mut stay, before.iter().copied())?;
        waiting = rest;
        // The ambiguous key has the greatest hash.
        let held = if partition == shape.partition(u32::MAX) { stash.held() } else { None };
        let (stashed, is_done, updated) = (Vec::new(), false, Updated::default());
        push(
            &mut tasks,
            Task {
                partition,
                words: own,
                order,
                statuses,
                unstashed,
                stashed,
                is_done,
                held,
                updated,
            },
        )?;
    }
    extend(&mut stay, waiting.iter().copied())?;
    Ok((tasks, stay))
}
/// An unpacked partition.
struct Taken<B: Buckets> {
    /// The pairs of each bucket, in any of its slots.
    pairs: Vec<PairOf<B>>,
    stashed: Stashed<B::Pairs>,
    /// Whether it has taken a place in the stash that it has not used yet.
    has_place: bool,
    /// Number of pairs without room since a removal: each halves the evictions of later ones.
    failures: u32,
    /// Class bits of each bucket.
    bits: Vec<u8>,
    random: u32,
}
impl<B: Buckets> Taken<B> {
    /// Returns memory for a partition. Errors: out of memory.
    fn new(shape: Shape) -> Result<Taken<B>> {
        Ok(Taken {
            pairs: with_room(shape.buckets as usize * B::SLOTS)?,
            stashed: Stashed::default(),
            has_place: false,
            failures: 0,
            bits: with_room(shape.buckets as usize)?,
            random: 0x2545_F491,
        })
    }
}
/// Location of a key.
#[derive(Clone, Copy)]
enum There {
    Nowhere,
    Slot(usize),
    Stash(usize),
    Held,
}
impl<L: Layout, B: Buckets<Pairs = L>> Taken<B> {
    /// Updates a partition. Errors: out of memory; some operations may be done nevertheless.
    fn update(
        &mut self,
        shape: Shape,
        seed: u32,
        (batch, most): (&Batch<'_, L>, u32),
        places: &Mutex<Places<L>>,
        task: &mut Task<'_, B>,
    ) -> Result<()> {
        let (mut count, has_gaps) = self.read(shape, task, places)?;
        let (mut refused, mut done) = (false, Ok(()));
        for (&of, status) in task.order.iter().zip(&mut *task.statuses) {
            let i = of as u32 as usize;
            let operation = batch.operation(i, B::VALUES);
            let mixed = L::mixed(seed, batch.keys[i]);
            let (there, before) = self.find(shape, mixed, task.held);
            // The ambiguous key has no slot: there is always room for it.
            let has_slot = mixed != L::AMBIGUOUS;
            let is_full = has_slot && count >= most as usize;
            // Later operations are refused too, to keep their order.
            if refused || before.is_none() && operation != operation::ERASE && is_full {
                task.updated.refused = 1;
                task.updated.wanted += (before.is_none() && operation != operation::ERASE) as usize;
                refused = true;
                continue;
            }
            let after = applied(operation, before, batch.value(i));
            let pair = after.map(|value| L::pair(mixed, value));
            if let (There::Nowhere, Some(pair)) = (there, pair) {
                done = self.place(shape, pair, places);
                if done.is_err() {
                    break;
                }
            }
            *status = status_of(operation, before.is_some());
            match (before.is_some(), after.is_some()) {
                (false, true) => {
                    count += has_slot as usize;
                    task.updated.new += 1;
                }
                (true, false) => {
                    count -= has_slot as usize;
                    task.updated.gone += 1;
                    // There is room again.
                    self.failures = 0;
                }
                _ => {}
            }
            match (there, pair) {
                (There::Held, _) => task.held = after,
                (There::Slot(slot), pair) => self.pairs[slot] = pair.unwrap_or(L::EMPTY_PAIR),
                (There::Stash(at), Some(pair)) => self.stashed.pairs[at] = pair,
                (There::Stash(at), None) => self.stashed.remove(at),
                (There::Nowhere, _) => {}
            }
        }
        if !B::VALUES && (has_gaps || task.updated.gone > 0) {
            while self.come_home(shape) {}
        }
        if std::mem::take(&mut self.has_place) {
            lock(places).taken -= 1;
        }
        self.write(shape, task);
        done
    }

    /// Unpacks the partition, and takes its pairs out of the stash where there is room. Returns the
    /// number of its pairs, without that of the ambiguous key, and whether there were fillers.
    /// Errors: out of memory.
    fn read(
        &mut self,
        shape: Shape,
        task: &Task<'_, B>,
        places: &Mutex<Places<L>>,
    ) -> Result<(usize, bool)> {
        self.pairs.clear();
        self.stashed.clear();
        self.stashed.reserve(task.unstashed.len())?;
        self.failures = 0;
        let first = shape.place(task.partition, 0) as u32;
        let (mut count, mut has_gaps) = (0, false);
        for bucket in 0..shape.buckets {
            // There is room for a partition.
            self.pairs.extend((0..B::SLOTS).map(|slot| {
                let pair = B::pair(task.words, bucket as usize, slot);
                // Drop fillers, which do not belong to their bucket.
                if L::head(pair) == EMPTY || !shape.belongs(L::hash(L::key(pair)), first + bucket) {
                    has_gaps |= L::head(pair) != EMPTY;
                    return L::EMPTY_PAIR;
                }
                count += 1;
                pair
            }));
        }
        count += task.unstashed.len();
        for &pair in task.unstashed {
            // It has a place already, and leaves it to the next one if it needs none.
            self.has_place = true;
            self.place(shape, pair, places)?;
            if std::mem::take(&mut self.has_place) {
                lock(places).taken -= 1;
            }
        }
        Ok((count, has_gaps))
    }

    /// Returns the slots of a bucket.
    fn slots(bucket: u32) -> Range<usize> {
        let first = bucket as usize * B::SLOTS;
        first..first + B::SLOTS
    }
    fn position(&self, bucket: u32, is_it: impl Fn(&L::Pair) -> bool) -> Option<usize> {
        let slots = Self::slots(bucket);
        self.pairs[slots.clone()].iter().position(is_it).map(|slot| slots.start + slot)
    }
    fn find(
        &self,
        shape: Shape,
        mixed: L::Mixed,
        held: Option<L::Value>,
    ) -> (There, Option<L::Value>) {
        if mixed == L::AMBIGUOUS {
            return (There::Held, held);
        }
        let is_it = |&pair: &L::Pair| L::head(pair) != EMPTY && L::key(pair) == mixed;
        let h = L::hash(mixed);
        let first = shape.first(h);
        for bucket in [first, shape.other(h, first)] {
            if let Some(slot) = self.position(bucket, is_it) {
                return (There::Slot(slot), Some(L::value(self.pairs[slot])));
            }
        }
        match self.stashed.position(mixed) {
            Some(at) => (There::Stash(at), Some(L::value(self.stashed.pairs[at]))),
            None => (There::Nowhere, None),
        }
    }

    /// Places a pair whose key is absent: in a free slot of its buckets, or in the slot of a pair
    /// that is evicted to its other bucket, and so on; otherwise in the stash. Errors: out of
    /// memory, before any pair is moved.
    fn place(&mut self, shape: Shape, mut pair: L::Pair, places: &Mutex<Places<L>>) -> Result<()> {
        let h = L::hash(L::key(pair));
        let first = shape.first(h);
        if self.put(first, pair) || self.put(shape.other(h, first), pair) {
            return Ok(());
        }
        self.stashed.reserve(1)?;
        if !self.has_place {
            lock(places).take()?;
            self.has_place = true;
        }
        let mut bucket = first;
        for _ in 0..MAX_EVICTIONS.checked_shr(self.failures).unwrap_or(0) {
            let other = |pair: L::Pair| shape.other(L::hash(L::key(pair)), bucket);
            let mut slots = Self::slots(bucket);
            let hit = slots.clone().find(|&slot| self.free(other(self.pairs[slot])).is_some());
            self.random = self.random.wrapping_mul(0x2C1B_3C6D).wrapping_add(0x297A_2D39);
            let any = ((self.random as u64 * B::SLOTS as u64) >> 32) as usize;
            let slot = hit.or(slots.nth(any)).unwrap_or(slots.start);
            let next = other(self.pairs[slot]);
            std::mem::swap(&mut pair, &mut self.pairs[slot]);
            bucket = next;
            if self.put(bucket, pair) {
                return Ok(());
            }
        }
        self.failures += 1;
        self.stashed.push(pair);
        self.has_place = false;
        Ok(())
    }
    fn free(&self, bucket: u32) -> Option<usize> {
        self.position(bucket, |&pair| L::head(pair) == EMPTY)
    }
    fn put(&mut self, bucket: u32, pair: L::Pair) -> bool {
        let free = self.free(bucket);
        free.inspect(|&slot| self.pairs[slot] = pair).is_some()
    }
    /// Moves pairs to their first buckets where these have room. Returns whether one moved.
    fn come_home(&mut self, shape: Shape) -> bool {
        let mut came = false;
        for bucket in 0..shape.buckets {
            for slot in Self::slots(bucket) {
                let pair = self.pairs[slot];
                let first = shape.first(L::hash(L::key(pair)));
                if L::head(pair) != EMPTY && first != bucket && self.put(first, pair) {
                    self.pairs[slot] = L::EMPTY_PAIR;
                    came = true;
                }
            }
        }
        came
    }

    /// Packs the partition again.
    fn write(&mut self, shape: Shape, task: &mut Task<'_, B>) {
        // Pairs remain in the stash only if both their buckets are full.
        let mut stashed = std::mem::take(&mut self.stashed.pairs);
        stashed.retain(|&pair| {
            let h = L::hash(L::key(pair));
            let first = shape.first(h);
            !self.put(first, pair) && !self.put(shape.other(h, first), pair)
        });
        self.bits.clear();
        // There is room for a partition.
        self.bits.extend((0..shape.buckets).map(|_| 0));
        for (bucket, pairs) in (0..).zip(self.pairs.chunks_exact(B::SLOTS)) {
            for &pair in pairs.iter().filter(|&&pair| L::head(pair) != EMPTY) {
                let h = L::hash(L::key(pair));
                self.bits[shape.first(h) as usize] |=
                    ((shape.first(h) != bucket) as u8) << class(h);
            }
        }
        for &pair in &stashed {
            let h = L::hash(L::key(pair));
            self.bits[shape.first(h) as usize] |= 1 << class(h);
        }
        let first = shape.place(task.partition, 0) as u32;
        let buckets = self
            .pairs
            .chunks_exact(B::SLOTS)
            .zip(&self.bits)
            .zip(task.words.chunks_exact_mut(B::WORDS));
        for (place, ((pairs, &bits), words)) in (first..).zip(buckets) {
            B::write(shape, place, pairs, bits.into(), false, words);
        }
        (task.stashed, task.is_done) = (stashed, true);
    }
}
