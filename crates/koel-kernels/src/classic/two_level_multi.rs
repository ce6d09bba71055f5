//! The multi-value and compacting tables of Alcantara et al. 2009: buckets whose keys may repeat.
//! Each bucket is a cuckoo table of three sub-tables that one block builds in shared memory.
//!
//! Kernels in build order: count and scatter (those of [`two_level`](super::two_level)), build; for
//! the compacting table also (scan and) number; then find.
use super::two_level::{Inner, MAX_LOOPS, MAX_SEEDS, SUB_TABLES};
use super::{BucketsIn, ListQueries, key_of, status, value_of};
use crate::hash::Functions;
use koel_simt::{Buf, In, Shared, Thread, kernel};

const THREADS: u32 = 512;
const NOBODY: u32 = u32::MAX;

/// Output of a bucket build: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct MultiOut {
    /// Key of each slot.
    pub keys: Buf<u32>,
    /// First value of each slot's key and, in the high half, the number of values: 0 in an empty
    /// slot.
    pub places: Buf<u64>,
    /// Values. Those of a key are contiguous.
    pub values: Buf<u32>,
    /// Seed of each bucket's functions.
    pub seeds: Buf<u32>,
    /// The words of [`status`].
    pub status: Buf<u32>,
}

/// A multi-value or compacting table: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct TwoLevelMultiRef {
    /// Hash function from keys to buckets.
    pub bucket_of: Functions,
    /// Placement of keys within buckets.
    pub inner: Inner,
    /// Seed of each bucket's functions.
    pub seeds: In<u32>,
    /// Key of each slot.
    pub keys: In<u32>,
    /// First entry of each slot's key and, in the high half, the number of entries: 0 in an empty
    /// slot.
    pub places: In<u64>,
}

/// A bucket being built: what the steps of its block share.
#[derive(Clone, Copy)]
struct Bucket {
    t: Thread,
    inner: Inner,
    pairs: In<u64>,
    /// First pair of the bucket, and the number of its pairs.
    start: u32,
    count: u32,
    /// Slots of all sub-tables.
    slots: u32,
    /// The pair that owns each slot, or [`NOBODY`].
    owners: Shared<u32>,
    /// Number of values of each slot's key, later the place of its next value.
    cursors: Shared<u32>,
    /// Number of values that have places.
    next: Shared<u32>,
}
impl Bucket {
    /// Allocates the bucket without clearing it.
    #[inline(always)]
    fn new(t: Thread, inner: Inner, BucketsIn { starts, counts, pairs }: BucketsIn) -> Bucket {
        let (b, slots) = (t.block(), inner.sub_slots() * SUB_TABLES);
        let mut shared = t.shared();
        let owners = shared.array::<u32>(slots);
        let cursors = shared.array::<u32>(slots);
        let next = shared.array::<u32>(1);
        let (start, count) = (starts.get(b), counts.get(b));
        Bucket { t, inner, pairs, start, count, slots, owners, cursors, next }
    }
    #[inline(always)]
    fn pair(self, i: u32) -> u64 {
        self.pairs.get(self.start + i)
    }
    /// Returns the slot within the bucket that holds the key, or [`NOBODY`]. `CHANGES` is true
    /// while other threads write.
    #[inline(always)]
    fn slot_of<const CHANGES: bool>(self, key: u32, seed: u32) -> u32 {
        let Bucket { inner, owners, .. } = self;
        let mut j = 0;
        while j < SUB_TABLES {
            let slot = j * inner.sub_slots() + inner.slot(j, key, seed);
            let owner = if CHANGES { owners.fetch_or(slot, 0) } else { owners.load(slot) };
            if owner != NOBODY && key_of(self.pair(owner)) == key {
                return slot;
            }
            j += 1;
        }
        NOBODY
    }
    /// Sets all words of an array that has one per slot.
    #[inline(always)]
    fn fill(self, words: Shared<u32>, word: u32) {
        let mut i = self.t.id();
        while i < self.slots {
            words.store(i, word);
            i += THREADS;
        }
    }
    /// Gives every key a slot, with as many seeds as it takes. Returns the seed, and the number of
    /// threads whose keys have no slot.
    #[inline(always)]
    fn place(self) -> (u32, u32) {
        let (mut seed, mut tried, mut unplaced) = (self.inner.seed, 0, 1);
        while unplaced != 0 && tried < MAX_SEEDS {
            self.fill(self.owners, NOBODY);
            self.t.barrier();
            let mut loops = 0;
            unplaced = 1;
            while unplaced != 0 && loops < MAX_LOOPS {
                self.claim(seed);
                unplaced = self.t.barrier_count(self.is_homeless(seed));
                loops += 1;
            }
            if unplaced != 0 {
                seed = Inner::next_seed(seed);
                tried += 1;
            }
        }
        (seed, unplaced)
    }
    /// Goes through the sub-tables. All pairs whose key has no slot write themselves into the next
    /// one. A key is stored if one of its pairs is.
    #[inline(always)]
    fn claim(self, seed: u32) {
        let Bucket { t, inner, .. } = self;
        let mut j = 0;
        while j < SUB_TABLES {
            let mut i = t.id();
            while i < self.count {
                let key = key_of(self.pair(i));
                // A key that is evicted during this search writes itself in the next round.
                if self.slot_of::<true>(key, seed) == NOBODY {
                    self.owners.swap(j * inner.sub_slots() + inner.slot(j, key, seed), i);
                }
                i += THREADS;
            }
            t.barrier();
            j += 1;
        }
    }
    /// Returns whether a key of the thread's pairs has no slot.
    #[inline(always)]
    fn is_homeless(self, seed: u32) -> bool {
        let (mut i, mut homeless) = (self.t.id(), false);
        while i < self.count && !homeless {
            homeless = self.slot_of::<false>(key_of(self.pair(i)), seed) == NOBODY;
            i += THREADS;
        }
        homeless
    }
    /// Counts the values of each key, if none is `unplaced`.
    #[inline(always)]
    fn count_values(self, seed: u32, unplaced: u32) {
        let mut i = self.t.id();
        while i < self.count && unplaced == 0 {
            self.cursors.fetch_add(self.slot_of::<false>(key_of(self.pair(i)), seed), 1);
            i += THREADS;
        }
    }
    /// Locates the first value of each key, and writes all slots.
    #[inline(always)]
    fn write_slots(self, keys: Buf<u32>, places: Buf<u64>) {
        let Bucket { t, inner, owners, cursors, .. } = self;
        let mut i = t.id();
        while i < self.slots {
            let (owner, many) = (owners.load(i), cursors.load(i));
            let place = self.start + self.next.fetch_add(0, many);
            cursors.store(i, place);
            let j = (i >= inner.sub_slots()) as u32 + (i >= 2 * inner.sub_slots()) as u32;
            let at = inner.place(j, t.block(), i - j * inner.sub_slots());
            keys.store(at, if owner == NOBODY { 0 } else { key_of(self.pair(owner)) });
            places.store(at, (many as u64) << 32 | place as u64);
            i += THREADS;
        }
    }
    /// Writes each value to the next free position of its key, if none is `unplaced`.
    #[inline(always)]
    fn write_values(self, seed: u32, unplaced: u32, values: Buf<u32>) {
        let mut i = self.t.id();
        while i < self.count && unplaced == 0 {
            let e = self.pair(i);
            let slot = self.slot_of::<false>(key_of(e), seed);
            values.store(self.cursors.fetch_add(slot, 1), value_of(e));
            i += THREADS;
        }
    }
}

/// Builds a bucket of any number of pairs, one block per bucket. Writes every slot of its
/// sub-tables, and the values of each key contiguously.
#[kernel(image = CLASSIC, threads = 512, shared = inner.sub_slots() * 24 + 4)]
pub fn two_level_multi_build(t: Thread, inner: Inner, buckets: BucketsIn, out: MultiOut) {
    let MultiOut { keys, places, values, seeds, status } = out;
    let bucket = Bucket::new(t, inner, buckets);
    let (seed, unplaced) = bucket.place();
    if t.id() == 0 {
        bucket.next.store(0, 0);
        seeds.store(t.block(), seed);
        if unplaced != 0 {
            status.fetch_add(status::FAILED, 1);
        }
    }
    bucket.fill(bucket.cursors, 0);
    t.barrier();
    bucket.count_values(seed, unplaced);
    t.barrier();
    bucket.write_slots(keys, places);
    t.barrier();
    bucket.write_values(seed, unplaced, values);
}

/// Sets `present[i]` to 1 if slot `i` holds a key, else to 0.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn two_level_multi_present(t: Thread, slots: u32, places: In<u64>, present: Buf<u32>) {
    let i = t.global_id();
    if i < slots {
        present.store(i, (places.get(i) >> 32 != 0) as u32);
    }
}

/// Replaces the range of a slot's key by its number, and lists the distinct keys by number.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn two_level_multi_number(
    t: Thread,
    slots: u32,
    keys: In<u32>,
    ids: In<u32>,
    places: Buf<u64>,
    unique: Buf<u32>,
) {
    let i = t.global_id();
    if i < slots && places.load(i) >> 32 != 0 {
        unique.store(ids.get(i), keys.get(i));
        places.store(i, 1 << 32 | ids.get(i) as u64);
    }
}

/// Looks up query `i`: its first value and the number of values.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn two_level_multi_find(t: Thread, table: TwoLevelMultiRef, queries: ListQueries) {
    let TwoLevelMultiRef { bucket_of, inner, seeds, keys, places } = table;
    let i = t.global_id();
    if i >= queries.n {
        return;
    }
    let key = queries.keys.get_stream(i);
    let b = bucket_of.slot(0, key);
    let seed = seeds.get(b);
    let (mut start, mut count, mut j) = (0, 0, 0);
    while j < SUB_TABLES && count == 0 {
        let at = inner.place(j, b, inner.slot(j, key, seed));
        if keys.get(at) == key {
            // An empty slot has 0 values.
            let place = places.get(at);
            (start, count) = (place as u32, (place >> 32) as u32);
        }
        j += 1;
    }
    queries.answer(i, if count > 0 { start } else { 0 }, count);
}
