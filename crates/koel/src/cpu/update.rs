//! In-place batch updates of an existing table.
//!
//! Operations are sorted by partition. Each partition with operations is then unpacked, changed by
//! its operations in order, and packed again, on any of the threads. Each time, pairs of its stash
//! try to leave it.
use super::simd::{behind_at, heads};
use super::stash::Stash;
use crate::device::Device;
use crate::parallel;
use koel_kernels::set::layout::{Member, finished, in_bucket};
use koel_kernels::table::layout::{
    BUCKET, EMPTY, Layout, Number, Shape, class, empty_last, filled, with_class_bits,
};
use koel_kernels::table::update::{applied, operation, status, status_of};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::Range;

/// Maximum number of evictions before a pair goes to the stash.
const MAX_EVICTIONS: u32 = 512;
/// The calling thread applies fewer operations than this.
const PARALLEL: usize = 4096;

/// Buckets of a kind of table.
pub(crate) trait Buckets {
    /// Layout of the pairs that operations work on, and that the stash holds.
    type Pairs: Layout;
    /// Element type of the table array.
    type Word: Copy + Send;
    /// Words per bucket.
    const WORDS: usize;
    /// Pairs per bucket.
    const SLOTS: usize;
    /// Whether pairs have values.
    const VALUES: bool;
    /// Returns the pair in a slot of a bucket of these words; the empty pair if the slot has none.
    fn pair(words: &[Self::Word], bucket: usize, slot: usize) -> PairOf<Self>;
    /// Writes the pairs of bucket `place`, from which keys of the classes in `bits` overflowed.
    fn write(shape: Shape, place: u32, pairs: &[PairOf<Self>], bits: u8, words: &mut [Self::Word]);
}
type PairOf<B> = <<B as Buckets>::Pairs as Layout>::Pair;
/// Buckets of a map.
pub(crate) struct OfMap<L>(PhantomData<L>);
impl<L: Layout> Buckets for OfMap<L> {
    type Pairs = L;
    type Word = u64;
    const WORDS: usize = L::WORDS;
    const SLOTS: usize = BUCKET;
    const VALUES: bool = true;
    #[inline(always)]
    fn pair(words: &[u64], bucket: usize, slot: usize) -> L::Pair {
        L::with_head(heads::<L>(words, bucket)[slot], words[behind_at::<L>(bucket, slot)])
    }
    fn write(shape: Shape, place: u32, pairs: &[L::Pair], bits: u8, words: &mut [u64]) {
        let pairs = [0, 1, 2, 3].map(|slot| pairs[slot]);
        let gone = (0..BUCKET)
            .filter(|&slot| L::head(pairs[slot]) == EMPTY)
            .fold(0, |gone, slot| gone | 1 << slot);
        // A lookup continues only from a full bucket.
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
}
/// Buckets of a set. A key returns from its second bucket when its first one has room: no
/// [filler](Shape::filler) is needed.
pub(crate) struct OfSet<K>(PhantomData<K>);
impl<K: Member + Send> Buckets for OfSet<K> {
    type Pairs = K::Pairs;
    type Word = K;
    const WORDS: usize = K::SLOTS as usize;
    const SLOTS: usize = K::SLOTS as usize;
    const VALUES: bool = false;
    #[inline(always)]
    fn pair(words: &[K], bucket: usize, slot: usize) -> PairOf<Self> {
        let key = words[bucket * Self::SLOTS + slot];
        if key == K::EMPTY { K::Pairs::EMPTY_PAIR } else { K::Pairs::pair(key, K::narrowed(0)) }
    }
    fn write(_: Shape, _: u32, pairs: &[PairOf<Self>], bits: u8, words: &mut [K]) {
        words.fill(K::EMPTY);
        let keys = pairs
            .iter()
            .filter(|&&pair| K::Pairs::head(pair) != EMPTY)
            .map(|&pair| K::Pairs::key(pair));
        words.iter_mut().zip(keys).for_each(|(word, key)| *word = key);
        let half = |half: usize| K::half(|i| words[half * Self::SLOTS / 2 + i as usize]);
        let bucket = finished::<K>([half(0), half(1)], bits.into());
        words.iter_mut().enumerate().for_each(|(i, word)| *word = in_bucket::<K>(&bucket, i));
    }
}

/// Operations of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a, L: Layout> {
    /// Key of each operation.
    pub keys: &'a [L::Key],
    /// Value of each operation; empty if all erase, or if there are no values.
    pub values: &'a [L::Value],
    /// What all operations do, or [`EACH`](operation::EACH).
    pub operation: u32,
    /// With `EACH`: what each operation does, in the low two bits.
    pub operations: &'a [u8],
    /// Whether to apply only the operations not done yet.
    pub again: bool,
    /// Maximum number of pairs per partition after insertions.
    pub most: u32,
}
/// Outcome of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Updated {
    /// Number of keys inserted.
    pub new: usize,
    /// Number of keys removed.
    pub gone: usize,
    /// Number of partitions without room: from the first operation that did not fit, theirs are not
    /// done.
    pub refused: usize,
    /// Upper bound on the new keys of those partitions.
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
    stashed: Vec<PairOf<B>>,
    held: Option<<B::Pairs as Layout>::Value>,
    updated: Updated,
}

/// Applies a batch as if its operations were done sequentially. Sets `statuses` to those of the
/// operations.
///
/// Sorts one word per operation; reads and writes each partition with operations once. `seed` and
/// `shape` are those of the table.
#[allow(clippy::too_many_arguments, reason = "as `build`")]
pub(crate) fn update<B: Buckets>(
    device: &Device,
    shape: Shape,
    seed: u32,
    table: &mut [B::Word],
    stash: &mut Stash<B::Pairs>,
    batch: Batch<'_, B::Pairs>,
    statuses: &mut [u8],
    memory: &mut Updates,
) -> Updated {
    type L<B> = <B as Buckets>::Pairs;
    let Updates { order, statuses: sorted } = memory;
    let wanted = |i: usize| !batch.again || statuses[i] == status::NOT_DONE;
    order.clear();
    order.extend((0..batch.keys.len()).filter(|&i| wanted(i)).map(|i| {
        let h = L::<B>::hash(L::<B>::mixed(seed, batch.keys[i]));
        (shape.partition(h) as u64) << 32 | i as u64
    }));
    let is_parallel = order.len() >= PARALLEL;
    match is_parallel {
        true => device.install(|| parallel::sort(order)),
        false => order.sort_unstable(),
    }
    sorted.clear();
    sorted.resize(order.len(), status::NOT_DONE);

    let partition_of = |pair: &PairOf<B>| shape.partition(L::<B>::hash(L::<B>::key(*pair)));
    let mut stashed = stash.iter().collect::<Vec<_>>();
    stashed.sort_unstable_by_key(partition_of);
    let (mut tasks, mut stay) = (vec![], vec![]);
    let (mut words, mut next, mut outcomes, mut waiting) =
        (table, 0, &mut sorted[..], &stashed[..]);
    let each = shape.buckets as usize * B::WORDS;
    for order in order.chunk_by(|a, b| a >> 32 == b >> 32) {
        let partition = (order[0] >> 32) as u32;
        let (own, rest) =
            words.split_at_mut((partition - next) as usize * each).1.split_at_mut(each);
        (words, next) = (rest, partition + 1);
        let (statuses, rest) = outcomes.split_at_mut(order.len());
        outcomes = rest;
        let (before, rest) =
            waiting.split_at(waiting.partition_point(|pair| partition_of(pair) < partition));
        let (stashed, rest) =
            rest.split_at(rest.partition_point(|pair| partition_of(pair) == partition));
        stay.extend_from_slice(before);
        waiting = rest;
        // The ambiguous key has the greatest hash.
        let held = if partition == shape.partition(u32::MAX) { stash.held() } else { None };
        let (stashed, updated) = (stashed.to_vec(), Updated::default());
        tasks.push(Task { partition, words: own, order, statuses, stashed, held, updated });
    }
    stay.extend_from_slice(waiting);
    let run =
        |taken: &mut Taken<B>, task: &mut Task<'_, B>| taken.update(shape, seed, &batch, task);
    if is_parallel {
        let all = tasks.iter_mut();
        device
            .install(|| parallel::map_with(all, Taken::default, |taken, _, task| run(taken, task)));
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

/// An unpacked partition.
struct Taken<B: Buckets> {
    /// The pairs of each bucket, in any of its slots.
    pairs: Vec<PairOf<B>>,
    stashed: Stashed<B::Pairs>,
    /// Number of pairs without room since a removal: each halves the evictions of later ones.
    failures: u32,
    /// Class bits of each bucket.
    bits: Vec<u8>,
    random: u32,
}
impl<B: Buckets> Default for Taken<B> {
    fn default() -> Taken<B> {
        Taken {
            pairs: vec![],
            stashed: Stashed::default(),
            failures: 0,
            bits: vec![],
            random: 0x2545_F491,
        }
    }
}
/// Pairs without a slot while a partition is unpacked, indexed by mixed key: crafted keys may share
/// one hash.
struct Stashed<L: Layout> {
    pairs: Vec<L::Pair>,
    numbers: HashMap<u64, usize>,
}
impl<L: Layout> Default for Stashed<L> {
    fn default() -> Stashed<L> {
        Stashed { pairs: vec![], numbers: HashMap::new() }
    }
}
impl<L: Layout> Stashed<L> {
    fn clear(&mut self) {
        self.pairs.clear();
        self.numbers.clear();
    }
    fn position(&self, mixed: L::Mixed) -> Option<usize> {
        // Usually there are none.
        if self.pairs.is_empty() { None } else { self.numbers.get(&mixed.widened()).copied() }
    }
    fn push(&mut self, pair: L::Pair) {
        self.numbers.insert(L::key(pair).widened(), self.pairs.len());
        self.pairs.push(pair);
    }
    /// Removes a pair; the last one takes its number.
    fn remove(&mut self, number: usize) {
        let pair = self.pairs.swap_remove(number);
        self.numbers.remove(&L::key(pair).widened());
        if let Some(&moved) = self.pairs.get(number) {
            self.numbers.insert(L::key(moved).widened(), number);
        }
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
    fn update(&mut self, shape: Shape, seed: u32, batch: &Batch<'_, L>, task: &mut Task<'_, B>) {
        let (mut count, has_gaps) = self.read(shape, task);
        let mut refused = false;
        for (&of, status) in task.order.iter().zip(&mut *task.statuses) {
            let i = of as u32 as usize;
            let operation = match batch.operation {
                operation::EACH => operation::of(batch.operations[i], B::VALUES),
                all => all,
            };
            let mixed = L::mixed(seed, batch.keys[i]);
            let (there, before) = self.find(shape, mixed, task.held);
            // The ambiguous key has no slot: there is always room for it.
            let has_slot = mixed != L::AMBIGUOUS;
            let is_full = has_slot && count >= batch.most as usize;
            // Later operations are refused too, to keep their order.
            if refused || before.is_none() && operation != operation::ERASE && is_full {
                task.updated.refused = 1;
                task.updated.wanted += (before.is_none() && operation != operation::ERASE) as usize;
                refused = true;
                continue;
            }
            *status = status_of(operation, before.is_some());
            let value = batch.values.get(i).copied().unwrap_or_default();
            let after = applied(operation, before, value);
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
            let pair = after.map(|value| L::pair(mixed, value));
            match (there, pair) {
                (There::Held, _) => task.held = after,
                (There::Slot(slot), pair) => self.pairs[slot] = pair.unwrap_or(L::EMPTY_PAIR),
                (There::Stash(at), Some(pair)) => self.stashed.pairs[at] = pair,
                (There::Stash(at), None) => self.stashed.remove(at),
                (There::Nowhere, Some(pair)) => self.place(shape, pair),
                (There::Nowhere, None) => {}
            }
        }
        if !B::VALUES && (has_gaps || task.updated.gone > 0) {
            while self.come_home(shape) {}
        }
        self.write(shape, task);
    }

    /// Unpacks the partition, and takes its pairs out of the stash where there is room. Returns the
    /// number of its pairs, without that of the ambiguous key, and whether there were fillers.
    fn read(&mut self, shape: Shape, task: &mut Task<'_, B>) -> (usize, bool) {
        self.pairs.clear();
        self.stashed.clear();
        self.failures = 0;
        let first = shape.place(task.partition, 0) as u32;
        let (mut count, mut has_gaps) = (0, false);
        for bucket in 0..shape.buckets {
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
        count += task.stashed.len();
        std::mem::take(&mut task.stashed).into_iter().for_each(|pair| self.place(shape, pair));
        (count, has_gaps)
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
    /// that is evicted to its other bucket, and so on; otherwise in the stash.
    fn place(&mut self, shape: Shape, mut pair: L::Pair) {
        let h = L::hash(L::key(pair));
        let first = shape.first(h);
        if self.put(first, pair) || self.put(shape.other(h, first), pair) {
            return;
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
                return;
            }
        }
        self.failures += 1;
        self.stashed.push(pair);
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
        self.bits.resize(shape.buckets as usize, 0);
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
            B::write(shape, place, pairs, bits, words);
        }
        task.stashed.extend_from_slice(&stashed);
        self.stashed.pairs = stashed;
    }
}
