//! Updates of a table that is there, in batches, in place.
//!
//! Operations are sorted by partition. Then each partition that has some is taken apart, changed by one operation after the other, in
//! their order, and put together again, by any of the threads. Pairs of its stash try to get out of it each time.
use super::simd::{behind_at, heads};
use super::stash::Stash;
use crate::device::Device;
use koel_kernels::map::layout::{BUCKET, EMPTY, Layout, Shape, class, empty_last, filled, with_class_bits};
use koel_kernels::map::update::{applied, operation, status, status_of};
use rayon::prelude::*;

/// Evictions until a pair goes to the stash.
const MOST_EVICTIONS: u32 = 512;
/// Fewer operations than this are done by the calling thread.
const PARALLEL: usize = 4096;

/// The operations of a batch.
#[derive(Clone, Copy)]
pub struct Batch<'a, L: Layout> {
    /// Of each operation.
    pub keys: &'a [L::Key],
    /// Of each operation; none if all erase.
    pub values: &'a [L::Value],
    /// What all operations do, or [`EACH`](operation::EACH).
    pub operation: u32,
    /// Then of each operation what it does, in the low two bits.
    pub operations: &'a [u8],
    /// Only operations that are not done yet count.
    pub again: bool,
    /// Pairs that a partition may have after new ones came.
    pub most: u32,
}
/// What a batch did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Updated {
    /// Keys that came.
    pub new: usize,
    /// Keys that went.
    pub gone: usize,
    /// Partitions that had no room: their operations from the first such one on are not done.
    pub refused: usize,
    /// New keys of those, at most.
    pub wanted: usize,
}
impl Updated {
    fn and(self, other: Updated) -> Updated {
        Updated {
            new: self.new + other.new,
            gone: self.gone + other.gone,
            refused: self.refused + other.refused,
            wanted: self.wanted + other.wanted,
        }
    }
}
/// Memory that is kept from batch to batch.
#[derive(Default)]
pub struct Updates {
    /// Partition and number of each operation.
    order: Vec<u64>,
    /// What became of them, in this order.
    statuses: Vec<u8>,
}
impl Updates {
    /// Bytes that it keeps.
    pub fn bytes(&self) -> usize {
        self.order.capacity() * size_of::<u64>() + self.statuses.capacity()
    }
}

/// A partition's part of the table and its operations.
struct Task<'a, L: Layout> {
    partition: u32,
    words: &'a mut [u64],
    order: &'a [u64],
    statuses: &'a mut [u8],
    stashed: Vec<L::Pair>,
    held: Option<L::Value>,
    updated: Updated,
}

/// Applies a batch: as if one operation was done after the other. `statuses` become those of the operations.
///
/// Sorts one word an operation, reads and writes each partition that has operations once. `seed`: of the table, which has this shape.
#[allow(clippy::too_many_arguments, reason = "as `build`")]
pub fn update<L: Layout>(
    device: &Device,
    shape: Shape,
    seed: u32,
    table: &mut [u64],
    stash: &mut Stash<L>,
    batch: Batch<'_, L>,
    statuses: &mut [u8],
    memory: &mut Updates,
) -> Updated {
    let Updates { order, statuses: sorted } = memory;
    let wanted = |i: usize| !batch.again || statuses[i] == status::NOT_DONE;
    order.clear();
    order.extend((0..batch.keys.len()).filter(|&i| wanted(i)).map(|i| {
        let h = L::hash(L::mixed(seed, batch.keys[i]));
        (shape.partition(h) as u64) << 32 | i as u64
    }));
    let is_parallel = order.len() >= PARALLEL;
    match is_parallel {
        true => device.install(|| order.par_sort_unstable()),
        false => order.sort_unstable(),
    }
    sorted.clear();
    sorted.resize(order.len(), status::NOT_DONE);

    let partition_of = |pair: &L::Pair| shape.partition(L::hash(L::key(*pair)));
    let mut stashed = stash.iter().collect::<Vec<_>>();
    stashed.sort_unstable_by_key(partition_of);
    let (mut tasks, mut stay) = (vec![], vec![]);
    let (mut words, mut next, mut outcomes, mut waiting) = (table, 0, &mut sorted[..], &stashed[..]);
    let each = shape.buckets as usize * L::WORDS;
    for order in order.chunk_by(|a, b| a >> 32 == b >> 32) {
        let partition = (order[0] >> 32) as u32;
        let (own, rest) = words.split_at_mut((partition - next) as usize * each).1.split_at_mut(each);
        (words, next) = (rest, partition + 1);
        let (statuses, rest) = outcomes.split_at_mut(order.len());
        outcomes = rest;
        let (before, rest) = waiting.split_at(waiting.partition_point(|pair| partition_of(pair) < partition));
        let (stashed, rest) = rest.split_at(rest.partition_point(|pair| partition_of(pair) == partition));
        stay.extend_from_slice(before);
        waiting = rest;
        // The ambiguous key has the greatest hash.
        let held = if partition == shape.partition(u32::MAX) { stash.held() } else { None };
        let (stashed, updated) = (stashed.to_vec(), Updated::default());
        tasks.push(Task { partition, words: own, order, statuses, stashed, held, updated });
    }
    stay.extend_from_slice(waiting);
    let run = |taken: &mut Taken<L>, task: &mut Task<'_, L>| taken.update(shape, seed, &batch, task);
    if is_parallel {
        device.install(|| tasks.par_iter_mut().with_max_len(1).for_each_init(Taken::default, run));
    } else {
        let mut taken = Taken::default();
        tasks.iter_mut().for_each(|task| run(&mut taken, task));
    }

    let updated = tasks.iter().fold(Updated::default(), |all, task| all.and(task.updated));
    let held = match tasks.last() {
        Some(last) if last.partition == shape.partition(u32::MAX) => last.held,
        _ => stash.held(),
    };
    stay.extend(tasks.iter().flat_map(|task| &task.stashed));
    if !(stay.is_empty() && stash.is_empty()) {
        stash.clear();
        stay.iter().for_each(|&pair| stash.insert(pair));
    }
    stash.hold(held);
    for (&of, &status) in order.iter().zip(&sorted[..]) {
        statuses[of as u32 as usize] = status;
    }
    updated
}

/// A partition taken apart.
struct Taken<L: Layout> {
    /// The pairs of each bucket, in any of its slots.
    buckets: Vec<[L::Pair; BUCKET]>,
    stashed: Vec<L::Pair>,
    /// Of each bucket the class bits.
    bits: Vec<u8>,
    random: u32,
}
impl<L: Layout> Default for Taken<L> {
    fn default() -> Taken<L> {
        Taken { buckets: vec![], stashed: vec![], bits: vec![], random: 0x2545_F491 }
    }
}
/// Where a key is.
#[derive(Clone, Copy)]
enum There {
    Nowhere,
    Slot(usize, usize),
    Stash(usize),
    Held,
}
impl<L: Layout> Taken<L> {
    fn update(&mut self, shape: Shape, seed: u32, batch: &Batch<'_, L>, task: &mut Task<'_, L>) {
        let mut count = self.read(shape, task);
        let mut refused = false;
        for (&of, status) in task.order.iter().zip(&mut *task.statuses) {
            let i = of as u32 as usize;
            let operation = match batch.operation {
                operation::EACH => batch.operations[i] as u32 & 3,
                all => all,
            };
            let mixed = L::mixed(seed, batch.keys[i]);
            let (there, before) = self.find(shape, mixed, task.held);
            // Whatever follows would have to be in its order.
            if refused || before.is_none() && operation != operation::ERASE && count >= batch.most as usize {
                task.updated.refused = 1;
                task.updated.wanted += (before.is_none() && operation != operation::ERASE) as usize;
                refused = true;
                continue;
            }
            *status = status_of(operation, before.is_some());
            let value = batch.values.get(i).copied().unwrap_or_default();
            let after = applied(operation, before, value);
            count = count + after.is_some() as usize - before.is_some() as usize;
            task.updated.new += (before.is_none() && after.is_some()) as usize;
            task.updated.gone += (before.is_some() && after.is_none()) as usize;
            let pair = after.map(|value| L::pair(mixed, value));
            match (there, pair) {
                (There::Held, _) => task.held = after,
                (There::Slot(bucket, slot), pair) => self.buckets[bucket][slot] = pair.unwrap_or(L::EMPTY_PAIR),
                (There::Stash(at), Some(pair)) => self.stashed[at] = pair,
                (There::Stash(at), None) => {
                    self.stashed.swap_remove(at);
                }
                (There::Nowhere, Some(pair)) => self.place(shape, pair),
                (There::Nowhere, None) => {}
            }
        }
        self.write(shape, task);
    }

    /// Takes the partition apart, and its pairs out of the stash, if there is room. Tells how many pairs it has.
    fn read(&mut self, shape: Shape, task: &mut Task<'_, L>) -> usize {
        self.buckets.clear();
        self.stashed.clear();
        let first = shape.place(task.partition, 0) as u32;
        let mut count = 0;
        for bucket in 0..shape.buckets {
            let (place, mut pairs) = (bucket as usize, [L::EMPTY_PAIR; BUCKET]);
            for (slot, &head) in heads::<L>(task.words, place).iter().enumerate() {
                // Fillers do not belong where they are.
                if head != EMPTY && shape.belongs(L::hash(L::key_in(head)), first + bucket) {
                    pairs[slot] = L::with_head(head, task.words[behind_at::<L>(place, slot)]);
                    count += 1;
                }
            }
            self.buckets.push(pairs);
        }
        count += task.stashed.len();
        std::mem::take(&mut task.stashed).into_iter().for_each(|pair| self.place(shape, pair));
        count
    }

    fn find(&self, shape: Shape, mixed: L::Mixed, held: Option<L::Value>) -> (There, Option<L::Value>) {
        if mixed == L::AMBIGUOUS {
            return (There::Held, held);
        }
        let is_it = |&pair: &L::Pair| L::head(pair) != EMPTY && L::key(pair) == mixed;
        let h = L::hash(mixed);
        let first = shape.first(h);
        for bucket in [first, shape.other(h, first)].map(|bucket| bucket as usize) {
            if let Some(slot) = self.buckets[bucket].iter().position(is_it) {
                return (There::Slot(bucket, slot), Some(L::value(self.buckets[bucket][slot])));
            }
        }
        match self.stashed.iter().position(is_it) {
            Some(at) => (There::Stash(at), Some(L::value(self.stashed[at]))),
            None => (There::Nowhere, None),
        }
    }

    /// A slot for a pair whose key is not there: a free one of its buckets, or that of another pair which goes to its other bucket, and so
    /// on; or else the stash.
    fn place(&mut self, shape: Shape, mut pair: L::Pair) {
        let h = L::hash(L::key(pair));
        let first = shape.first(h);
        if self.put(first, pair) || self.put(shape.other(h, first), pair) {
            return;
        }
        let mut bucket = first;
        for _ in 0..MOST_EVICTIONS {
            let others = self.buckets[bucket as usize].map(|pair| shape.other(L::hash(L::key(pair)), bucket));
            let hit = others.iter().position(|&other| self.free(other).is_some());
            self.random = self.random.wrapping_mul(0x2C1B_3C6D).wrapping_add(0x297A_2D39);
            let slot = hit.unwrap_or(self.random as usize >> 30);
            std::mem::swap(&mut pair, &mut self.buckets[bucket as usize][slot]);
            bucket = others[slot];
            if self.put(bucket, pair) {
                return;
            }
        }
        self.stashed.push(pair);
    }
    fn free(&self, bucket: u32) -> Option<usize> {
        self.buckets[bucket as usize].iter().position(|&pair| L::head(pair) == EMPTY)
    }
    fn put(&mut self, bucket: u32, pair: L::Pair) -> bool {
        let free = self.free(bucket);
        free.inspect(|&slot| self.buckets[bucket as usize][slot] = pair).is_some()
    }

    /// Puts the partition together again.
    fn write(&mut self, shape: Shape, task: &mut Task<'_, L>) {
        // What is in the stash has two full buckets.
        for pair in std::mem::take(&mut self.stashed) {
            let h = L::hash(L::key(pair));
            let first = shape.first(h);
            if !self.put(first, pair) && !self.put(shape.other(h, first), pair) {
                self.stashed.push(pair);
            }
        }
        self.bits.clear();
        self.bits.resize(shape.buckets as usize, 0);
        for (bucket, pairs) in (0..).zip(&self.buckets) {
            for &pair in pairs.iter().filter(|&&pair| L::head(pair) != EMPTY) {
                let h = L::hash(L::key(pair));
                self.bits[shape.first(h) as usize] |= ((shape.first(h) != bucket) as u8) << class(h);
            }
        }
        for &pair in &self.stashed {
            let h = L::hash(L::key(pair));
            self.bits[shape.first(h) as usize] |= 1 << class(h);
        }
        let first = shape.place(task.partition, 0) as u32;
        let buckets = self.buckets.iter().zip(&self.bits).zip(task.words.chunks_exact_mut(L::WORDS));
        for (place, ((&pairs, &bits), words)) in (first..).zip(buckets) {
            let gone = (0..BUCKET).filter(|&slot| L::head(pairs[slot]) == EMPTY).fold(0, |gone, slot| gone | 1 << slot);
            // A lookup goes on only from a bucket that is full.
            let pairs = if gone == 0 || bits != 0 {
                with_class_bits::<L>(filled::<L>(shape, place, pairs, gone), bits as u32)
            } else {
                empty_last::<L>(pairs)
            };
            for (slot, pair) in pairs.into_iter().enumerate() {
                words[behind_at::<L>(0, slot)] = L::behind(pair);
                words[slot] = L::head(pair);
            }
        }
        task.stashed.extend_from_slice(&self.stashed);
    }
}
