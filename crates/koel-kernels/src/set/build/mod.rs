//! Builds the buckets of a partition with one block, in shared memory, and writes them out once:
//! every key is read once and written once.
//!
//! Phases, separated by barriers; [`fill`](super::fill) has the reasons:
//! * A. Every key takes the next slot of its first bucket by counting, without reading the bucket:
//!   an addition and a store in shared memory. Keys that find the bucket full are listed. Then
//!   duplicates within a bucket are dropped.
//! * B. The listed keys try their first bucket again, where slots may have become free, mark their
//!   class there and try the second bucket. Those that find that full too wait in a table. If the
//!   list was too short, all keys do this; those that already have a slot are found there.
//! * C. The waiting keys are compacted, and each evicts. A key without a slot goes to the stash.
//! * D. Full buckets are ordered so that they encode their class bits, and everything is written
//!   out.
//!
//! If there are many duplicates, counting would list most of them. The first keys of a partition
//! therefore serve as a sample. If it shows many duplicates, the other keys search their first
//! bucket in phase A before they take a slot. If many partitions show duplicates, later blocks do
//! this from the start. The second array of a union, half of whose keys may be in the first, is
//! always inserted so. Keys of this partition in the overflow areas follow those in its bin.
//!
//! Duplicates are merged before C, so C sees each key once, and the number dropped is the number
//! that came less the number in the table.
mod keys;

pub use keys::Arrived;

use super::fill::{Filling, Outcome, claim, evict, meet, meet_second};
use super::layout::{Member, finished, has_copies, hash};
use crate::table::layout::{Layout, Shape};
use crate::table::{stash, state};
use keys::{Partition, Rounds, each_live};
use koel_simt::{Buf, Shared, SharedMem, Thread, block, kernel, unroll};

/// Threads per block.
pub const THREADS: u32 = 256;

/// A partition in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Near<K> {
    pub shape: Shape,
    pub slots: Shared<K>,
    /// One word per bucket: the number of keys that came while slots were counted and, from bit
    /// [`MARKS`] on, the classes that overflowed.
    words: Shared<u32>,
    /// Keys that found their first bucket full.
    listed: Shared<K>,
    /// Keys that found the second bucket full too, in a table with as many slots as the list.
    pub waiting: Shared<K>,
    list: u32,
    counts: Shared<u32>,
}
/// Lowest bit of the class marks in a bucket's word.
const MARKS: u32 = 28;

// Counters of a block.
/// Keys that found their first bucket full.
const LISTED: u32 = 0;
/// Keys that evict.
const EVICTING: u32 = 1;
/// Not 0 if many duplicates are expected.
const COPIES: u32 = 2;
/// Not 0 if an earlier block or this one has failed.
const LOST: u32 = 3;
const COUNTS: u32 = 4;

/// Returns the bytes of shared memory for partitions of `buckets` buckets, with lists of `list`
/// keys of `key_bytes` bytes.
pub const fn shared_bytes(buckets: u32, list: u32, key_bytes: u32) -> u32 {
    buckets * 36 + 2 * list * key_bytes + COUNTS * 4
}
impl<K: Member> Filling<K> for Near<K> {
    const GIVES_UP_EARLY: bool = true;
    #[inline(always)]
    fn first(self, h: u32) -> u32 {
        self.shape.first(h)
    }
    #[inline(always)]
    fn other(self, h: u32, bucket: u32) -> u32 {
        self.shape.other(h, bucket)
    }
    #[inline(always)]
    #[track_caller]
    fn half(self, bucket: u32, half: u32) -> K::Half {
        K::shared_half(self.slots, 2 * bucket + half)
    }
    #[inline(always)]
    #[track_caller]
    fn last(self, bucket: u32) -> K {
        self.slots.load_volatile(bucket * K::SLOTS + K::SLOTS - 1)
    }
    #[inline(always)]
    #[track_caller]
    fn replace(self, bucket: u32, slot: u32, old: K, new: K) -> K {
        self.slots.cas(bucket * K::SLOTS + slot, old, new)
    }
    #[inline(always)]
    #[track_caller]
    fn mark(self, bucket: u32, class: u32) {
        self.words.fetch_or(bucket, 1 << (MARKS + class));
    }
}
impl<K: Member> Near<K> {
    /// Allocates the partition without clearing it.
    #[inline(always)]
    pub(super) fn new(shared: &mut SharedMem, shape: Shape, list: u32) -> Near<K> {
        Near {
            shape,
            slots: shared.array::<K>(shape.buckets * K::SLOTS),
            listed: shared.array::<K>(list),
            waiting: shared.array::<K>(list),
            words: shared.array::<u32>(shape.buckets),
            counts: shared.array::<u32>(COUNTS),
            list,
        }
    }
    /// Clears the partition. All threads of the block call it; a barrier must follow.
    #[inline(always)]
    pub(super) fn clear(self, t: Thread) {
        let mut i = t.id();
        while i < 2 * self.shape.buckets {
            K::store_shared_half(self.slots, i, K::half(|_| K::EMPTY));
            i += THREADS;
        }
        i = t.id();
        while i < self.shape.buckets {
            self.words.store(i, 0);
            i += THREADS;
        }
        i = t.id();
        while i < self.list {
            self.waiting.store(i, K::EMPTY);
            i += THREADS;
        }
    }
    /// Initializes the counters from what earlier blocks, and the passes over one array or two,
    /// recorded. All threads of the block call it; a barrier must follow.
    #[inline(always)]
    pub(super) fn begin<const ARRAYS: usize>(self, t: Thread, build_states: [Buf<u32>; ARRAYS]) {
        if t.id() == 0 {
            self.counts.store(LISTED, 0);
            self.counts.store(EVICTING, 0);
            let crowded = build_states[0].load_relaxed(state::COPIED) > 2 + t.block() / 128;
            self.counts.store(COPIES, crowded as u32);
            let mut failed = 0;
            unroll::<ARRAYS>(|a| failed |= build_states[a].load_relaxed(state::FAILED));
            self.counts.store(LOST, failed);
        }
    }
    /// Returns whether the build restarts whatever this block does.
    #[inline(always)]
    pub(super) fn is_lost(self) -> bool {
        self.counts.load(LOST) != 0
    }
    /// Runs phase A for some keys if duplicates are few: each takes the next slot of its first
    /// bucket, whatever the other slots hold. Returns the number of keys.
    #[inline(always)]
    fn count_in<const BATCH: usize>(self, (keys, live): ([K; BATCH], u32)) -> u32 {
        if live == u32::MAX >> (32 - BATCH) {
            self.count_in_all::<BATCH>(keys);
        } else {
            each_live(keys, live, |key| self.count_in_all([key]));
        }
        live.count_ones()
    }
    #[inline(always)]
    fn count_in_all<const KEYS: usize>(self, keys: [K; KEYS]) {
        let (mut slot, mut over) = ([0; KEYS], 0);
        unroll::<KEYS>(|j| {
            slot[j] = self.words.fetch_add(self.first(hash(keys[j])), 1);
            over += (slot[j] >= K::SLOTS) as u32;
        });
        unroll::<KEYS>(|j| {
            if slot[j] < K::SLOTS {
                self.slots.store(self.first(hash(keys[j])) * K::SLOTS + slot[j], keys[j]);
            }
        });
        if over != 0 {
            let mut at = self.counts.fetch_add(LISTED, over);
            if at + over <= self.list {
                unroll::<KEYS>(|j| {
                    if slot[j] >= K::SLOTS {
                        self.listed.store(at, keys[j]);
                        at += 1;
                    }
                });
            }
        }
    }
    /// Drops duplicates among the keys that were counted into a bucket. Returns the number of keys
    /// left. No other thread touches the bucket.
    #[inline(always)]
    #[track_caller]
    fn drop_copies(self, bucket: u32) -> u32 {
        let count = self.words.load(bucket).min(K::SLOTS);
        if !has_copies::<K>(&self.bucket(bucket)) {
            return count;
        }
        let (first, mut kept, mut s) = (bucket * K::SLOTS, 0, 0);
        while s < count {
            let key = self.slots.load(first + s);
            let mut i = 0;
            while i < kept && self.slots.load(first + i) != key {
                i += 1;
            }
            if i == kept {
                self.slots.store(first + kept, key);
                kept += 1;
            }
            s += 1;
        }
        s = kept;
        while s < count {
            self.slots.store(first + s, K::EMPTY);
            s += 1;
        }
        kept
    }
    /// Lists a key that found its first bucket full.
    #[inline(always)]
    #[track_caller]
    fn list(self, key: K) {
        let at = self.counts.fetch_add(LISTED, 1);
        if at < self.list {
            self.listed.store(at, key);
        }
    }
    /// Inserts a key into its first bucket, or lists it. Returns 1 if it was new.
    #[inline(always)]
    fn meet_first(self, key: K) -> u32 {
        let outcome = meet(self, self.first(hash(key)), key);
        if outcome == Outcome::Full {
            self.list(key);
        }
        (outcome == Outcome::New) as u32
    }
    /// Runs phase B for one key. Returns 1 if it was new.
    #[inline(always)]
    fn meet_both(self, key: K, build_state: Buf<u32>) -> u32 {
        let mut outcome = meet(self, self.first(hash(key)), key);
        if outcome == Outcome::Full {
            outcome = meet_second(self, key);
        }
        if outcome == Outcome::Full && self.counts.load_volatile(LOST) == 0 {
            outcome = claim(self.list, self.list, key, |at| self.waiting.cas(at, K::EMPTY, key));
            if outcome == Outcome::Full {
                self.counts.store_volatile(LOST, 1);
                build_state.fetch_add(state::FAILED, 1);
            }
        }
        (outcome == Outcome::New) as u32
    }
    /// Drops duplicates in all buckets. Returns the number of keys left in this thread's buckets.
    #[inline(always)]
    fn drop_all_copies(self, t: Thread) -> u32 {
        let (mut kept, mut bucket) = (0, t.id());
        while bucket < self.shape.buckets {
            kept += self.drop_copies(bucket);
            bucket += THREADS;
        }
        kept
    }
    /// Returns whether the keys counted so far show many duplicates, because buckets hold copies or
    /// are already full; and whether most of the list are copies and it was emptied. All threads of
    /// the block call it, with a barrier before they next use the buckets.
    #[inline(always)]
    fn shows_copies(self, t: Thread, build_state: Buf<u32>) -> (bool, bool) {
        t.barrier();
        let sampled = THREADS.min(self.shape.buckets);
        let shows = t.id() < sampled && has_copies::<K>(&self.bucket(t.id()));
        let listed = self.counts.load(LISTED);
        let many = t.barrier_count(shows) + listed > sampled / 8;
        let empties = many && listed > self.list / 8;
        if t.id() == 0 && many {
            if empties {
                self.counts.store(LISTED, 0);
            }
            build_state.fetch_add(state::COPIED, 1);
        }
        (many, empties)
    }
    /// Runs phases A and B: inserts the keys of one partition, from one array or two. Counts the
    /// dropped keys. All threads of the block call it, with barriers before and after it.
    #[inline(always)]
    pub(super) fn put<const ARRAYS: usize, const BATCH: usize>(
        self,
        t: Thread,
        arrays: [Partition<K>; ARRAYS],
        build_state: Buf<u32>,
    ) {
        let (mut came, mut new) = (0u32, 0u32);
        // Phase A.
        let mut rounds = arrays[0].rounds::<BATCH>(t);
        let mut meets = self.counts.load(COPIES) != 0;
        if !meets {
            (came, meets) = self.count_first::<BATCH>(t, arrays[0], &mut rounds, build_state);
            new = self.drop_all_copies(t);
            t.barrier();
        }
        // The arrays that were not counted in.
        let first = !meets as usize;
        self.meet_from::<ARRAYS, BATCH>(t, first, &arrays, rounds, &mut came, &mut new);
        if first < ARRAYS {
            t.barrier();
        }
        // Phase B.
        let listed = self.counts.load(LISTED);
        if listed <= self.list {
            let mut i = t.id();
            while i < listed {
                new += self.meet_both(self.listed.load(i), build_state);
                i += THREADS;
            }
        } else {
            self.meet_all::<ARRAYS, BATCH>(t, &arrays, build_state, &mut new);
        }
        let dropped = block::warp_inclusive_sum(t, came.wrapping_sub(new));
        if t.lane() == 31 && dropped != 0 {
            build_state.fetch_add(state::DROPPED, dropped);
        }
    }
    /// Counts the keys of the first array into their buckets. Stops if the first of them show many
    /// duplicates, and returns the number of counted keys and whether it did: `rounds` then has the
    /// other keys, or all keys of the bin if the list was emptied.
    #[inline(always)]
    fn count_first<const BATCH: usize>(
        self,
        t: Thread,
        array: Partition<K>,
        rounds: &mut Rounds<K, BATCH>,
        build_state: Buf<u32>,
    ) -> (u32, bool) {
        let mut came = rounds.batch().map_or(0, |batch| self.count_in(batch));
        let (many, empties) = self.shows_copies(t, build_state);
        if empties {
            (*rounds, came) = (array.rounds::<BATCH>(t), 0);
        }
        if !many {
            while let Some(batch) = rounds.batch() {
                came += self.count_in(batch);
            }
            // If the list is too short, phase B takes all keys.
            let count_in = |key| {
                if self.counts.load_volatile(LISTED) <= self.list {
                    self.count_in_all([key]);
                }
            };
            came += array.each_behind::<BATCH>(t, count_in);
            t.barrier();
        }
        (came, many)
    }
    /// Inserts the keys of the arrays from `first` on into their first buckets, or lists them.
    /// `rounds` has those in the bin of array 0. Adds up the keys that came and those that are new.
    #[inline(always)]
    fn meet_from<const ARRAYS: usize, const BATCH: usize>(
        self,
        t: Thread,
        first: usize,
        arrays: &[Partition<K>; ARRAYS],
        mut rounds: Rounds<K, BATCH>,
        came: &mut u32,
        new: &mut u32,
    ) {
        // A loop, so that the code is not there twice.
        let mut a = first;
        while a < ARRAYS {
            let array = if a == 0 { arrays[0] } else { arrays[ARRAYS - 1] };
            if a != 0 {
                rounds = array.rounds::<BATCH>(t);
            }
            while let Some((keys, live)) = rounds.batch() {
                *came += live.count_ones();
                unroll::<BATCH>(|j| {
                    if live >> j & 1 != 0 {
                        *new += self.meet_first(keys[j]);
                    }
                });
            }
            *came += array.each_behind::<BATCH>(t, |key| *new += self.meet_first(key));
            a += 1;
        }
    }
    /// Runs phase B for all keys, because the list was too short. Adds up those that are new.
    #[inline(always)]
    fn meet_all<const ARRAYS: usize, const BATCH: usize>(
        self,
        t: Thread,
        arrays: &[Partition<K>; ARRAYS],
        build_state: Buf<u32>,
        new: &mut u32,
    ) {
        if t.id() == 0 {
            build_state.fetch_add(state::COPIED, 1);
        }
        let mut a = 0;
        while a < ARRAYS {
            let array = if a == 0 { arrays[0] } else { arrays[ARRAYS - 1] };
            let mut rounds = array.rounds::<BATCH>(t);
            while let Some((keys, live)) = rounds.batch() {
                each_live(keys, live, |key| *new += self.meet_both(key, build_state));
            }
            // Crafted keys may overflow in numbers that make futile searches slow.
            if self.counts.load_volatile(LOST) == 0 {
                array.each_behind::<BATCH>(t, |key| *new += self.meet_both(key, build_state));
            }
            a += 1;
        }
    }
    /// Returns a bucket that no longer changes.
    #[inline(always)]
    #[track_caller]
    pub(super) fn bucket(self, bucket: u32) -> [K::Half; 2] {
        [self.half(bucket, 0), self.half(bucket, 1)]
    }
}

/// Builds partition `t.block()`. The stash is empty except for what other blocks put there. A
/// thread keeps eight 32-bit keys in flight, or the same number of bytes.
#[kernel(
    image = SET, threads = 256, min_blocks = 4,
    shared = shared_bytes(arrived.shape.buckets, arrived.source.list, size_of::<K>() as u32),
    starts_early,
    for K in [u32 { BATCH = 8 }, u64 { BATCH = 4 }]
)]
pub fn set_build<K: Member, const BATCH: usize>(
    t: Thread,
    arrived: Arrived<K>,
    slots: Buf<K>,
    stash: Buf<u64>,
) {
    let Arrived { shape, source, build_state, .. } = arrived;
    let (id, p) = (t.id(), t.block());
    let table = Near::new(&mut t.shared(), shape, source.list);
    table.clear(t);
    t.wait_for_previous();
    t.let_next_start();
    table.begin(t, [build_state]);
    let keys = arrived.partition(p);
    t.barrier();
    if table.is_lost() {
        return;
    }
    table.put::<1, BATCH>(t, [keys], build_state);
    t.barrier();
    if table.is_lost() {
        return;
    }

    // Phase C.
    let mut i = id;
    while i < source.list {
        let key = table.waiting.load(i);
        if key != K::EMPTY {
            // Compacted, so that few warps evict.
            table.listed.store(table.counts.fetch_add(EVICTING, 1), key);
        }
        i += THREADS;
    }
    t.barrier();
    let evicting = table.counts.load(EVICTING);
    i = id;
    while i < evicting {
        if let Some(key) = evict(table, table.listed.load(i)) {
            let done = stash::insert_near::<K::Pairs>(
                stash,
                source.stash_bits,
                K::Pairs::pair(key, K::narrowed(0)),
            );
            build_state.fetch_add(if done { state::STASHED } else { state::FAILED }, 1);
        }
        i += THREADS;
    }
    t.barrier();

    // Phase D.
    i = id;
    while i < shape.buckets {
        let bits = table.words.load(i) >> MARKS;
        write_bucket::<K>(slots, shape.place(p, i), finished::<K>(table.bucket(i), bits));
        i += THREADS;
    }
}
/// Writes a bucket that is not read again soon.
#[inline(always)]
#[track_caller]
pub(super) fn write_bucket<K: Member>(slots: Buf<K>, place: u64, [low, high]: [K::Half; 2]) {
    K::write_half(slots, 2 * place, low);
    K::write_half(slots, 2 * place + 1, high);
}
