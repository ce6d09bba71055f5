//! The multi-value and compacting tables of Alcantara et al. 2009: buckets whose keys may repeat.
//! Each bucket is a cuckoo table of three sub-tables that one block builds in shared memory.
//!
//! Kernels in build order: count and scatter (those of [`two_level`](super::two_level)), build; for
//! the compacting table also (scan and) number; then find.
use super::two_level::{Inner, MAX_LOOPS, MAX_SEEDS, SUB_TABLES};
use super::{BucketsIn, ListQueries, key_of, status, value_of};
use koel_kernels::hash::{Functions, InShared};
use koel_kernels::lookback::warp_inclusive;
use koel_simt::{Buf, In, Shared, SharedMem, Thread, kernel, unroll};

const THREADS: u32 = 512;
const NOBODY: u32 = u32::MAX;
/// Marks a pair whose key has no slot.
const NOWHERE: u32 = u32::MAX;

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
    /// 0 if no values are written and each key counts one.
    pub has_values: u32,
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
    /// Functions of the seed that is being tried.
    functions: InShared,
    /// The pair that owns each slot, or [`NOBODY`].
    owners: Shared<u32>,
    /// Number of values of each slot's key, later the place of its first or next value.
    cursors: Shared<u32>,
    /// Number of values that have places.
    next: Shared<u32>,
}
impl Bucket {
    /// Allocates the bucket without clearing it.
    #[inline(always)]
    fn new(
        t: Thread,
        shared: &mut SharedMem,
        inner: Inner,
        BucketsIn { starts, counts, pairs }: BucketsIn,
    ) -> Bucket {
        let (b, slots) = (t.block(), inner.sub_slots() * SUB_TABLES);
        let functions = InShared::new(t, shared, inner.functions.with_seed(inner.seed));
        let owners = shared.array::<u32>(slots);
        let cursors = shared.array::<u32>(slots);
        let next = shared.array::<u32>(1);
        let (start, count) = (starts.get(b), counts.get(b));
        Bucket { t, inner, pairs, start, count, slots, functions, owners, cursors, next }
    }
    #[inline(always)]
    fn pair(self, i: u32) -> u64 {
        self.pairs.get(self.start + i)
    }
    /// Returns the slot of a key in sub-table `j`, among those of all sub-tables.
    #[inline(always)]
    fn slot(self, j: u32, key: u32) -> u32 {
        j * self.inner.sub_slots() + self.functions.slot(j, key)
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
    /// Tries seeds until `place` gives every key a slot and returns 0, the number of threads whose
    /// keys have none. Returns the seed and that number.
    #[inline(always)]
    fn try_seeds(&mut self, mut place: impl FnMut(Bucket) -> u32) -> (u32, u32) {
        let (mut seed, mut tried, mut unplaced) = (self.inner.seed, 0, 1);
        while unplaced != 0 && tried < MAX_SEEDS {
            self.fill(self.owners, NOBODY);
            self.t.barrier();
            unplaced = place(*self);
            if unplaced != 0 {
                seed = Inner::next_seed(seed);
                self.functions = self.functions.with(self.t, self.inner.functions.with_seed(seed));
                tried += 1;
            }
        }
        (seed, unplaced)
    }
    /// Writes all slots. Locates the first value of each key, whose number is in `cursors`, and
    /// leaves its place there; without values, each key counts one and has no place. Counts the
    /// keys in the status.
    #[inline(always)]
    fn write_slots(self, key_of_owner: impl Fn(u32) -> u32, out: MultiOut) {
        let Bucket { t, inner, owners, cursors, .. } = self;
        let (lane, mut first, mut keys) = (t.id() % 32, 0, 0);
        while first < self.slots {
            let i = first + t.id();
            let owner = if i < self.slots { owners.load(i) } else { NOBODY };
            let taken = owner != NOBODY;
            let (mut many, mut place) = (taken as u32, 0);
            if out.has_values != 0 {
                many = if taken { cursors.load(i) } else { 0 };
                // One atomic for a warp.
                let upto = warp_inclusive(t, many);
                let mut before = 0;
                if lane == 31 {
                    before = self.next.fetch_add(0, upto);
                }
                place = self.start + t.warp().shfl(before, 31) + upto - many;
            }
            if i < self.slots {
                cursors.store(i, place);
                let j = (i >= inner.sub_slots()) as u32 + (i >= 2 * inner.sub_slots()) as u32;
                let at = inner.place(j, t.block(), i - j * inner.sub_slots());
                out.keys.store_stream(at, if taken { key_of_owner(owner) } else { 0 });
                out.places.store_stream(at, (many as u64) << 32 | place as u64);
            }
            keys += t.barrier_count(taken);
            first += THREADS;
        }
        if t.id() == 0 {
            out.status.fetch_add(status::KEYS, keys);
        }
    }
    /// Writes the seed, and counts a failure if keys are `unplaced`.
    #[inline(always)]
    fn write_seed(self, (seed, unplaced): (u32, u32), out: MultiOut) {
        if self.t.id() == 0 {
            self.next.store(0, 0);
            out.seeds.store(self.t.block(), seed);
            if unplaced != 0 {
                out.status.fetch_add(status::FAILED, 1);
            }
        }
    }

    /// Builds a bucket of at most one pair per thread. `keys` has a word per thread.
    #[inline(always)]
    fn build_few(mut self, keys: Shared<u32>, out: MultiOut) {
        let (t, id) = (self.t, self.t.id());
        let has_pair = id < self.count;
        let e = if has_pair { self.pair(id) } else { 0 };
        let key = key_of(e);
        keys.store(id, key);
        let mut at = NOWHERE;
        // All pairs whose key has no slot write themselves into the next sub-table at the same
        // time. The pair seen in a slot after the barrier owns it for its key. Pairs of one key go
        // to the same slots, so either all of them have one or none.
        let placed = self.try_seeds(|bucket| {
            let (mut slots, mut j) = ([0; SUB_TABLES as usize], 0);
            while j < SUB_TABLES {
                slots = [slots[1], slots[2], bucket.slot(j, key)];
                j += 1;
            }
            at = NOWHERE;
            let (mut loops, mut unplaced, mut homeless) = (0, 1, has_pair);
            while unplaced != 0 && loops < MAX_LOOPS {
                unroll::<{ SUB_TABLES as usize }>(|j| {
                    if homeless {
                        bucket.owners.swap(slots[j], id);
                        at = slots[j];
                    }
                    t.barrier();
                    // Only slots of this sub-table can have changed owner. It is not written again
                    // before two more barriers.
                    if homeless || at == slots[j] {
                        homeless = keys.load(bucket.owners.load_volatile(slots[j])) != key;
                    }
                });
                unplaced = t.barrier_count(homeless);
                loops += 1;
            }
            unplaced
        });
        self.write_seed(placed, out);
        let counts = has_pair && placed.1 == 0 && out.has_values != 0;
        let mut rank = 0;
        if out.has_values != 0 {
            self.fill(self.cursors, 0);
            t.barrier();
            if counts {
                rank = self.cursors.fetch_add(at, 1);
            }
        }
        t.barrier();
        self.write_slots(|owner| keys.load(owner), out);
        // `write_slots` ends with a barrier.
        if counts {
            out.values.store(self.cursors.load(at) + rank, value_of(e));
        }
    }

    /// Builds a bucket of any number of pairs.
    #[inline(always)]
    fn build_many(mut self, out: MultiOut) {
        let t = self.t;
        let placed = self.try_seeds(|bucket| {
            let (mut loops, mut unplaced) = (0, 1);
            while unplaced != 0 && loops < MAX_LOOPS {
                bucket.claim();
                unplaced = t.barrier_count(bucket.is_homeless());
                loops += 1;
            }
            unplaced
        });
        self.write_seed(placed, out);
        let counts = placed.1 == 0 && out.has_values != 0;
        self.fill(self.cursors, 0);
        t.barrier();
        if counts {
            self.each_pair(|bucket, e| {
                bucket.cursors.fetch_add(bucket.slot_of::<false>(key_of(e)), 1);
            });
        }
        t.barrier();
        self.write_slots(|owner| key_of(self.pair(owner)), out);
        // `write_slots` ends with a barrier.
        if counts {
            self.each_pair(|bucket, e| {
                let slot = bucket.slot_of::<false>(key_of(e));
                out.values.store(bucket.cursors.fetch_add(slot, 1), value_of(e));
            });
        }
    }
    /// Calls `each` with the pairs of this thread.
    #[inline(always)]
    fn each_pair(self, mut each: impl FnMut(Bucket, u64)) {
        let mut i = self.t.id();
        while i < self.count {
            each(self, self.pair(i));
            i += THREADS;
        }
    }
    /// Returns the slot within the bucket that holds the key, or [`NOBODY`]. `CHANGES` is true
    /// while other threads write.
    #[inline(always)]
    fn slot_of<const CHANGES: bool>(self, key: u32) -> u32 {
        let mut j = 0;
        while j < SUB_TABLES {
            let slot = self.slot(j, key);
            let owner =
                if CHANGES { self.owners.fetch_or(slot, 0) } else { self.owners.load(slot) };
            if owner != NOBODY && key_of(self.pair(owner)) == key {
                return slot;
            }
            j += 1;
        }
        NOBODY
    }
    /// Goes through the sub-tables. All pairs whose key has no slot write themselves into the next
    /// one. A key is stored if one of its pairs is.
    #[inline(always)]
    fn claim(self) {
        let mut j = 0;
        while j < SUB_TABLES {
            let mut i = self.t.id();
            while i < self.count {
                let key = key_of(self.pair(i));
                // A key that is evicted during this search writes itself in the next round.
                if self.slot_of::<true>(key) == NOBODY {
                    self.owners.swap(self.slot(j, key), i);
                }
                i += THREADS;
            }
            self.t.barrier();
            j += 1;
        }
    }
    /// Returns whether a key of the thread's pairs has no slot.
    #[inline(always)]
    fn is_homeless(self) -> bool {
        let (mut i, mut homeless) = (self.t.id(), false);
        while i < self.count && !homeless {
            homeless = self.slot_of::<false>(key_of(self.pair(i))) == NOBODY;
            i += THREADS;
        }
        homeless
    }
}

/// Builds a bucket of any number of pairs, one block per bucket. Writes every slot of its
/// sub-tables and, if there are any, the values of each key contiguously.
#[kernel(
    image = CLASSIC, threads = 512, min_blocks = 4,
    shared = InShared::BYTES + inner.sub_slots() * 24 + 4 + 512 * 4
)]
pub fn two_level_multi_build(t: Thread, inner: Inner, buckets: BucketsIn, out: MultiOut) {
    let mut shared = t.shared();
    let bucket = Bucket::new(t, &mut shared, inner, buckets);
    let keys = shared.array::<u32>(THREADS);
    if bucket.count <= THREADS {
        bucket.build_few(keys, out);
    } else {
        bucket.build_many(out);
    }
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
