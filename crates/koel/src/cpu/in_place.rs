//! Batches that change few keys of a table: each operation reads and writes the one or two buckets
//! where its key may lie, and those of keys that must make room.
//!
//! The rules are those of [sparse updates](koel_kernels::table::sparse) on a GPU. Class bits are
//! set when keys overflow and never cleared; [fillers](Shape::filler) count as free slots; a new
//! key without a free slot evicts one key, or one after another was evicted. What needs more is
//! left to the [update of partitions](super::update), and with it all that follows in the same
//! partition, so that operations on one key keep their order: the ambiguous key, keys in the stash,
//! and keys for which two evictions make no room.
//!
//! One thread applies a small batch in order. For a large one, the operations are first distributed
//! to ranges of partitions, in order, and each range is changed by one thread.
use super::batch::{Batch, Updated};
use super::bucketed::{Buckets, MAX_SLOTS, PairOf};
use super::place::{Place, place};
use super::stash::Stash;
use crate::device::Device;
use crate::device::memory::prefetch;
use crate::error::Result;
use crate::fallible::{push, repeat, resize, with_room};
use crate::parallel;
use koel_kernels::table::layout::{EMPTY, Layout, Shape, class};
use koel_kernels::table::update::{applied, operation, status, status_of};
use koel_simt::unroll;

/// The calling thread applies a batch if its operations, times the threads beside it, are fewer:
/// distributing them takes a third of the time of applying them.
const PARALLEL: usize = 1 << 16;
/// Operations between prefetching a first bucket and changing it, and a second one.
const AHEAD: usize = 24;
const AHEAD_OF_SECOND: usize = 10;
/// Ranges of partitions per thread, so that threads finish together.
const RANGES: u32 = 4;

/// Operations in order of their ranges of partitions: memory that is reused across batches.
#[derive(Default)]
pub(crate) struct Distributed {
    /// Numbers of the operations of each piece of the batch, range by range.
    numbers: Vec<u32>,
    /// Their statuses.
    statuses: Vec<u8>,
    /// For each piece, where the operations of each range begin.
    starts: Vec<u32>,
}
impl Distributed {
    /// Returns the number of bytes held.
    pub(crate) fn bytes(&self) -> usize {
        (self.numbers.capacity() + self.starts.capacity()) * size_of::<u32>()
            + self.statuses.capacity()
    }
}

/// What a batch in place came to.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct InPlace {
    pub updated: Updated,
    /// Number of operations that are not done.
    pub left: usize,
}
impl InPlace {
    fn and(self, other: InPlace) -> InPlace {
        InPlace { updated: self.updated.and(other.updated), left: self.left + other.left }
    }
}

/// Applies the operations of a batch that few buckets suffice for, and sets all `statuses`.
///
/// Errors: out of memory; nothing was changed.
#[allow(clippy::too_many_arguments, reason = "as `build`")]
pub(crate) fn update_in_place<B: Buckets>(
    device: &Device,
    shape: Shape,
    seed: u32,
    words: &mut [B::Word],
    stash: &Stash<B::Pairs>,
    batch: Batch<'_, B::Pairs>,
    statuses: &mut [u8],
    memory: &mut Distributed,
) -> Result<InPlace> {
    let table = In::<B> { shape, seed, stash };
    let threads = device.parallelism();
    if batch.keys.len().saturating_mul(threads - 1) < PARALLEL || shape.partitions == 1 {
        let mut part = Part::new(table, 0, words);
        part.apply_numbered(&batch, |i| i, statuses);
        return Ok(part.done);
    }
    // Numbers of ranges are few, and cheap to compute.
    let most = (threads as u32).saturating_mul(RANGES);
    let shift = shape.partitions.div_ceil(most).next_power_of_two().ilog2();
    let ranges = ((shape.partitions - 1) >> shift) as usize + 1;
    let piece = batch.keys.len().div_ceil(threads);
    memory.distribute(device, table, &batch, (piece, shift, ranges))?;
    let parts = memory.parts(table, words, (piece, shift, ranges))?;
    let done = device.install(|| {
        parallel::map(parts.into_iter(), |_, (mut part, mut lists)| {
            for (numbers, statuses) in &mut lists {
                part.apply_numbered(&batch, |i| numbers[i] as usize, statuses);
            }
            part.done
        })
    })?;
    memory.hand_out(device, piece, statuses);
    Ok(done.into_iter().fold(InPlace::default(), InPlace::and))
}
impl Distributed {
    /// Lists the operations of each piece by ranges of `1 << shift` partitions. Errors: out of
    /// memory.
    fn distribute<B: Buckets>(
        &mut self,
        device: &Device,
        table: In<'_, B>,
        batch: &Batch<'_, B::Pairs>,
        (piece, shift, ranges): (usize, u32, usize),
    ) -> Result<()> {
        let (n, pieces) = (batch.keys.len(), batch.keys.len().div_ceil(piece));
        resize(&mut self.numbers, n, 0)?;
        resize(&mut self.statuses, n, status::NOT_DONE)?;
        self.starts.clear();
        resize(&mut self.starts, pieces * (ranges + 1), 0)?;
        let range_of = |&key: &<B::Pairs as Layout>::Key| {
            let h = B::Pairs::hash(B::Pairs::mixed(table.seed, key));
            (table.shape.partition(h) >> shift) as usize
        };
        let all = batch.keys.chunks(piece).zip(self.numbers.chunks_mut(piece));
        let all = all.zip(self.starts.chunks_mut(ranges + 1));
        device.install(|| {
            parallel::each(all, |i, ((keys, numbers), starts)| {
                keys.iter().for_each(|key| starts[range_of(key)] += 1);
                // The last one has a range of its own, which ends where the list does.
                let mut end = 0;
                for start in starts.iter_mut() {
                    end += *start;
                    *start = end - *start;
                }
                let first = i * piece;
                for (number, key) in keys.iter().enumerate() {
                    let next = &mut starts[range_of(key)];
                    numbers[*next as usize] = (first + number) as u32;
                    *next += 1;
                }
                // Each now is where the next one begins.
                starts.copy_within(..ranges, 1);
                starts[0] = 0;
            });
        });
        Ok(())
    }
    /// Returns the buckets of each range, with its operations and their statuses, piece by piece.
    /// Errors: out of memory.
    fn parts<'a, B: Buckets>(
        &'a mut self,
        table: In<'a, B>,
        words: &'a mut [B::Word],
        (piece, shift, ranges): (usize, u32, usize),
    ) -> Result<Vec<(Part<'a, B>, Lists<'a>)>> {
        let each = (table.shape.buckets as usize * B::WORDS) << shift;
        let mut parts = with_room(ranges)?;
        for (i, words) in words.chunks_mut(each).enumerate() {
            let first = table.shape.place((i as u32) << shift, 0) as u32;
            let lists = with_room(self.starts.len() / (ranges + 1))?;
            push(&mut parts, (Part::new(table, first, words), lists))?;
        }
        let pieces = self.numbers.chunks(piece).zip(self.statuses.chunks_mut(piece));
        for ((mut numbers, mut statuses), starts) in pieces.zip(self.starts.chunks(ranges + 1)) {
            for ((_, lists), bounds) in parts.iter_mut().zip(starts.windows(2)) {
                let len = (bounds[1] - bounds[0]) as usize;
                let (own, later) = numbers.split_at(len);
                let (own_statuses, later_statuses) = statuses.split_at_mut(len);
                (numbers, statuses) = (later, later_statuses);
                push(lists, (own, own_statuses))?;
            }
        }
        Ok(parts)
    }
    /// Writes the statuses in order of the operations.
    fn hand_out(&self, device: &Device, piece: usize, statuses: &mut [u8]) {
        let lists = self.numbers.chunks(piece).zip(self.statuses.chunks(piece));
        device.install(|| {
            parallel::each(lists.zip(statuses.chunks_mut(piece)), |i, ((numbers, from), to)| {
                for (&number, &status) in numbers.iter().zip(from) {
                    to[number as usize - i * piece] = status;
                }
            });
        });
    }
}
/// Numbers of operations, with their statuses.
type Lists<'a> = Vec<(&'a [u32], &'a mut [u8])>;

/// A table that is changed.
pub(super) struct In<'a, B: Buckets> {
    pub shape: Shape,
    pub seed: u32,
    pub stash: &'a Stash<B::Pairs>,
}
impl<B: Buckets> Clone for In<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<B: Buckets> Copy for In<'_, B> {}

/// The buckets of some partitions, changed by one thread.
pub(super) struct Part<'a, B: Buckets> {
    table: In<'a, B>,
    /// Number of the first bucket in the table.
    first: u32,
    words: &'a mut [B::Word],
    stuck: Stuck,
    done: InPlace,
}
impl<'a, L: Layout, B: Buckets<Pairs = L>> Part<'a, B> {
    pub(super) fn new(table: In<'a, B>, first: u32, words: &'a mut [B::Word]) -> Part<'a, B> {
        Part { table, first, words, stuck: Stuck::None, done: InPlace::default() }
    }
    /// Applies the operations with these numbers, and sets their statuses, in this order.
    #[inline(always)]
    fn apply_numbered(
        &mut self,
        batch: &Batch<'_, L>,
        number: impl Fn(usize) -> usize,
        statuses: &mut [u8],
    ) {
        let count = statuses.len();
        for (i, status) in statuses.iter_mut().enumerate() {
            if i + AHEAD < count {
                self.ask(batch.keys[number(i + AHEAD)]);
            }
            if i + AHEAD_OF_SECOND < count {
                self.ask_second(batch.keys[number(i + AHEAD_OF_SECOND)]);
            }
            *status = self.apply(batch, number(i));
        }
    }
    /// Prefetches the first bucket of a key.
    #[inline(always)]
    fn ask(&self, key: L::Key) {
        let place = self.table.shape.first_place(L::hash(L::mixed(self.table.seed, key)));
        let at = place.wrapping_sub(self.first) as usize * B::WORDS;
        prefetch(self.words.as_ptr().wrapping_add(at));
    }
    /// Prefetches the second bucket of a key whose first one, which has been prefetched, is full.
    #[inline(always)]
    fn ask_second(&self, key: L::Key) {
        let In { shape, seed, .. } = self.table;
        let h = L::hash(L::mixed(seed, key));
        if B::is_full(self.words, self.at(shape.first_place(h))) {
            let at = self.at(shape.second_place(h)) * B::WORDS;
            prefetch(self.words.as_ptr().wrapping_add(at));
        }
    }
    /// Applies operation `i`, unless it must be left. Returns its status.
    #[inline(always)]
    fn apply(&mut self, batch: &Batch<'_, L>, i: usize) -> u8 {
        let In { shape, seed, .. } = self.table;
        let mixed = L::mixed(seed, batch.keys[i]);
        let h = L::hash(mixed);
        if mixed == L::AMBIGUOUS || self.stuck.holds(shape.partition(h)) {
            return self.leave();
        }
        let (operation, value) = (batch.operation(i, B::VALUES), || batch.value(i));
        match self.place(mixed, h) {
            Place::Slot(bucket, slot) => return self.change(bucket, slot, operation, value),
            Place::Stash => {
                self.stuck.add(shape, shape.partition(h));
                return self.leave();
            }
            Place::Nowhere => {}
        }
        if operation == operation::ERASE {
            return status::MISSING;
        }
        if !self.insert(h, L::pair(mixed, value())) {
            self.stuck.add(shape, shape.partition(h));
            return self.leave();
        }
        self.done.updated.new += 1;
        status::INSERTED
    }
    /// Returns where a key lies that is not the ambiguous one, and has the hash `h`.
    #[inline(always)]
    fn place(&self, mixed: L::Mixed, h: u32) -> Place {
        let In { shape, stash, .. } = self.table;
        place::<B>(shape, (self.words, self.first), stash, mixed, h)
    }
    /// Leaves an operation to the update of partitions.
    #[cold]
    fn leave(&mut self) -> u8 {
        self.done.left += 1;
        status::NOT_DONE
    }
    /// Returns the number in this part of a bucket of the table.
    #[inline(always)]
    fn at(&self, place: u32) -> usize {
        (place - self.first) as usize
    }
    /// Returns the number in this part of a key's bucket other than `bucket`; `None` if there is
    /// none.
    #[inline(always)]
    fn other(&self, pair: L::Pair, bucket: usize) -> Option<usize> {
        let (shape, h) = (self.table.shape, L::hash(L::key(pair)));
        let partition = self.at(shape.place(shape.partition(h), 0) as u32);
        let other = partition + shape.other(h, (bucket - partition) as u32) as usize;
        (other != bucket).then_some(other)
    }

    /// Applies an operation to a key that is in this slot.
    #[inline(always)]
    fn change(
        &mut self,
        bucket: usize,
        slot: usize,
        operation: u32,
        value: impl Fn() -> L::Value,
    ) -> u8 {
        if operation == operation::ERASE {
            self.remove(bucket, slot);
            self.done.updated.gone += 1;
        } else if B::VALUES && operation != operation::INSERT {
            let pair = B::pair(self.words, bucket, slot);
            if let Some(after) = applied(operation, Some(L::value(pair)), value()) {
                // The order of the pairs does not depend on their values.
                B::put(self.words, bucket, slot, L::pair(L::key(pair), after));
            }
        }
        status_of(operation, true)
    }
    #[inline(always)]
    fn remove(&mut self, bucket: usize, slot: usize) {
        if !B::is_full(self.words, bucket) {
            return B::vacate(self.words, bucket, slot);
        }
        self.remove_from_full(bucket, slot);
    }
    fn remove_from_full(&mut self, bucket: usize, slot: usize) {
        let mut pairs = self.pairs(bucket, true);
        pairs[slot] = L::EMPTY_PAIR;
        let bits = B::class_bits(self.words, bucket);
        self.write(bucket, &pairs, bits, !self.table.stash.is_empty());
    }
    /// Inserts a pair whose key is absent and has the hash `h`. Returns false if there is no room;
    /// no key is lost or moved then.
    #[inline(always)]
    fn insert(&mut self, h: u32, pair: L::Pair) -> bool {
        let first = self.at(self.table.shape.first_place(h));
        self.put(first, pair) || self.insert_elsewhere(first, h, pair)
    }
    /// Inserts a pair whose key is absent. Returns false if it belongs to the stash.
    #[inline(always)]
    pub(super) fn insert_or_overflow(&mut self, pair: L::Pair) -> bool {
        let h = L::hash(L::key(pair));
        let is_in = self.insert(h, pair);
        if !is_in {
            self.overflow(self.at(self.table.shape.first_place(h)), h);
        }
        is_in
    }
    /// Inserts a pair whose first bucket is full of keys.
    fn insert_elsewhere(&mut self, first: usize, h: u32, pair: L::Pair) -> bool {
        let second = self.at(self.table.shape.second_place(h));
        if second != first && self.put(second, pair) {
            self.overflow(first, h);
            return true;
        }
        for after_another in [false, true] {
            for bucket in [second, first] {
                if let Some(slot) = self.evict(bucket, after_another) {
                    self.replace(bucket, slot, pair);
                    if bucket != first {
                        self.overflow(first, h);
                    }
                    return true;
                }
            }
        }
        false
    }
    /// Puts a pair into a free slot of a bucket. Returns false if there is none.
    #[inline(always)]
    fn put(&mut self, bucket: usize, pair: L::Pair) -> bool {
        if B::is_full(self.words, bucket) {
            return self.put_for_filler(bucket, pair);
        }
        let slot = B::taken(self.words, bucket);
        B::put(self.words, bucket, slot, pair);
        if slot == B::SLOTS - 1 {
            // It is full now: its order tells that nothing overflowed.
            let pairs = self.pairs(bucket, false);
            self.write(bucket, &pairs, 0, false);
        }
        true
    }
    /// Puts a pair into the slot of a filler, if the bucket has any.
    fn put_for_filler(&mut self, bucket: usize, pair: L::Pair) -> bool {
        let mut pairs = self.pairs(bucket, true);
        let Some(free) = pairs[..B::SLOTS].iter().position(|&pair| L::head(pair) == EMPTY) else {
            return false;
        };
        pairs[free] = pair;
        let bits = B::class_bits(self.words, bucket);
        // It has looked full, and may have to.
        self.write(bucket, &pairs, bits, !self.table.stash.is_empty());
        true
    }
    /// Moves a key of a bucket that is full of keys to its other bucket; with `after_another`,
    /// after a key of that bucket was moved to its own other one. Returns the slot of the copy that
    /// remains, for [`replace`](Self::replace).
    fn evict(&mut self, bucket: usize, after_another: bool) -> Option<usize> {
        for slot in 0..B::SLOTS {
            let pair = B::pair(self.words, bucket, slot);
            let Some(other) = self.other(pair, bucket) else { continue };
            if !after_another {
                if self.put(other, pair) {
                    return Some(slot);
                }
                continue;
            }
            for by in 0..B::SLOTS {
                let third = B::pair(self.words, other, by);
                let beyond = self.other(third, other).filter(|&beyond| beyond != bucket);
                if beyond.is_some_and(|beyond| self.put(beyond, third)) {
                    self.replace(other, by, pair);
                    return Some(slot);
                }
            }
        }
        None
    }
    /// Replaces a key that has moved to its other bucket by another one.
    fn replace(&mut self, bucket: usize, slot: usize, pair: L::Pair) {
        let moved = L::hash(L::key(B::pair(self.words, bucket, slot)));
        let overflows = self.at(self.table.shape.first_place(moved)) == bucket;
        let bits = B::class_bits(self.words, bucket) | (overflows as u32) << class(moved);
        let mut pairs = self.pairs(bucket, false);
        pairs[slot] = pair;
        self.write(bucket, &pairs, bits, false);
    }
    /// Records that a key overflowed from a full bucket.
    fn overflow(&mut self, bucket: usize, h: u32) {
        let bits = B::class_bits(self.words, bucket);
        if bits >> class(h) & 1 == 0 {
            let pairs = self.pairs(bucket, false);
            self.write(bucket, &pairs, bits | 1 << class(h), false);
        }
    }
    /// Returns the pairs of a bucket, each in its slot; without fillers if it `may_have_fillers`.
    #[inline(always)]
    fn pairs(&self, bucket: usize, may_have_fillers: bool) -> [PairOf<B>; MAX_SLOTS] {
        let (shape, place) = (self.table.shape, self.first + bucket as u32);
        let mut pairs = [L::EMPTY_PAIR; MAX_SLOTS];
        unroll::<MAX_SLOTS>(|slot| {
            if slot < B::SLOTS {
                let pair = B::pair(self.words, bucket, slot);
                let belongs = |h| !may_have_fillers || shape.belongs(h, place);
                pairs[slot] = if belongs(L::hash(L::key(pair))) { pair } else { L::EMPTY_PAIR };
            }
        });
        pairs
    }
    /// Writes a bucket.
    fn write(&mut self, bucket: usize, pairs: &[L::Pair; MAX_SLOTS], bits: u32, needed: bool) {
        let words = &mut self.words[bucket * B::WORDS..][..B::WORDS];
        let place = self.first + bucket as u32;
        B::write(self.table.shape, place, &pairs[..B::SLOTS], bits, needed, words);
    }
}

/// Partitions with operations that were left: what follows there is left, too.
enum Stuck {
    None,
    /// A bit for each partition of the table.
    Some(Vec<u64>),
    /// All, as there is no memory for the bits.
    All,
}
impl Stuck {
    #[inline(always)]
    fn holds(&self, partition: u32) -> bool {
        match self {
            Stuck::None => false,
            Stuck::Some(bits) => bits[partition as usize / 64] >> (partition % 64) & 1 != 0,
            Stuck::All => true,
        }
    }
    #[cold]
    fn add(&mut self, shape: Shape, partition: u32) {
        if let Stuck::None = self {
            let bits = repeat(0, (shape.partitions as usize).div_ceil(64));
            *self = bits.map_or(Stuck::All, Stuck::Some);
        }
        if let Stuck::Some(bits) = self {
            bits[partition as usize / 64] |= 1 << (partition % 64);
        }
    }
}
