//! One block turns one partition into its buckets, in shared memory, and writes them out once: a
//! key is read once and written once.
//!
//! Phases, with a barrier between each two; [`fill`](super::fill) has the reasons:
//! * A. Every key takes the next slot of its first bucket by counting, without looking what is
//!   there: an addition and a store in shared memory. Those that find the bucket full are listed.
//!   Then of equal keys in a bucket one stays.
//! * B. The listed ones meet their first bucket, where slots may have become free, mark their class
//!   there and meet the second; those that find that full too wait in a table. If the list was too
//!   short, all keys do so: those that have a place are met there.
//! * C. The keys that wait are put side by side, and each evicts. One that finds no place goes to
//!   the stash.
//! * D. Full buckets are ordered so that they tell their class bits, and everything is written out.
//!
//! Where copies are many, counting would list most of them. So the first keys of a partition are a
//! sample; if it shows that many are equal, the other keys meet their first bucket in A: they look
//! whether they are there before they take a slot. Blocks that come later do so from the beginning
//! if it was so in many. A union's second array, of which half the keys may be in the first, always
//! meets. Keys of this partition that wait behind the bins come after those in its bin.
//!
//! Equal keys are one before C, so C has each key once, and what was dropped is what came less what
//! is there.
use super::fill::{Filling, Outcome, claim, evict, meet, meet_second};
use super::layout::{Member, finished, has_copies, hash};
use crate::partition::load_run;
use crate::table::bins::Source;
use crate::table::layout::{Layout, Shape};
use crate::table::{stash, state};
use koel_simt::{Buf, In, Shared, SharedMem, Thread, block, kernel, unroll};

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Keys of a set that have come to their partitions: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Arrived<K: Member> {
    /// Partitions and buckets.
    pub shape: Shape,
    /// How the bins of the last pass are.
    pub source: Source,
    /// The bins.
    pub keys: In<K>,
    /// Keys that came to each bin of both passes.
    pub counts: In<u32>,
    /// How many of them are in it at most, all ones if all are.
    pub valid: In<u32>,
    /// The overflow areas of the passes, whose keys `build_state` counts.
    pub overflow: In<K>,
    /// The words that the kernels of a build share.
    pub build_state: Buf<u32>,
}
/// Those of one partition.
#[derive(Clone, Copy)]
pub(super) struct Partition<K: Member> {
    of: Arrived<K>,
    number: u32,
    /// In the bin.
    count: u32,
    /// Behind the bins of the first pass, and of both: of all partitions.
    behind_first: u32,
    all_behind: u32,
}
impl<K: Member> Arrived<K> {
    /// The keys of a partition.
    #[inline(always)]
    pub(super) fn partition(self, number: u32) -> Partition<K> {
        let Arrived { source, build_state, .. } = self;
        let group = number.checked_div(source.each).unwrap_or(0);
        let valid_here = self.valid.get(source.groups + number);
        let of_group = if source.groups != 0 { self.valid.get(group) } else { !0 };
        // These counts no longer change; if an area was too small, everything is done again.
        let behind = |valid, word| {
            if valid == !0 { 0 } else { build_state.load_relaxed(word).min(source.area) }
        };
        let behind_first = behind(of_group, state::OVERFLOW_FIRST);
        Partition {
            of: self,
            number,
            count: self.counts.get(source.groups + number).min(valid_here).min(source.room),
            behind_first,
            all_behind: behind_first + behind(valid_here, state::OVERFLOW_SECOND),
        }
    }
}
impl<K: Member> Partition<K> {
    /// Key `i` of those behind the bins, which may be of another partition.
    #[inline(always)]
    fn behind(&self, i: u32) -> K {
        let area = self.of.source.area;
        self.of.overflow.get(if i < self.behind_first { i } else { area + i - self.behind_first })
    }
    /// None of them.
    #[inline(always)]
    pub fn nothing(self) -> Partition<K> {
        Partition { count: 0, behind_first: 0, all_behind: 0, ..self }
    }
    /// The keys in the bin, each once, for one of the threads of a block, all of which call it.
    #[inline(always)]
    fn rounds<const BATCH: usize>(self, t: Thread) -> Rounds<K, BATCH> {
        let mut rounds =
            Rounds { of: self, t, next: 0, more: true, loaded: ([K::EMPTY; BATCH], 0) };
        rounds.load();
        rounds
    }
    /// Those behind the bins, in the same way. Gives how many were this thread's.
    #[inline(always)]
    fn each_behind<const BATCH: usize>(&self, t: Thread, mut each: impl FnMut(K)) -> u32 {
        let (mut came, mut first) = (0, t.id());
        while first < self.all_behind {
            // All blocks look at all of them: what takes long is to wait for them.
            let (mut keys, mut live) = ([K::EMPTY; BATCH], 0u32);
            unroll::<BATCH>(|j| {
                let i = first + j as u32 * THREADS;
                if i < self.all_behind {
                    keys[j] = self.behind(i);
                    live |= 1 << j;
                }
            });
            unroll::<BATCH>(|j| {
                if self.of.shape.partition(hash(keys[j])) != self.number {
                    live &= !(1 << j);
                }
            });
            came += live.count_ones();
            each_live(keys, live, &mut each);
            first += BATCH as u32 * THREADS;
        }
        came
    }
    /// All of them.
    #[inline(always)]
    pub fn each<const BATCH: usize>(&self, t: Thread, mut each: impl FnMut(K)) -> u32 {
        let mut came = 0;
        let mut rounds = self.rounds::<BATCH>(t);
        while let Some((keys, live)) = rounds.batch() {
            came += live.count_ones();
            each_live(keys, live, &mut each);
        }
        came + self.each_behind::<BATCH>(t, each)
    }
}
/// Keys of a bin that come to a thread.
#[derive(Clone, Copy)]
struct Rounds<K: Member, const BATCH: usize> {
    of: Partition<K>,
    t: Thread,
    /// The first key of the block's next round.
    next: u32,
    /// Whether there are some that were loaded.
    more: bool,
    /// What comes next, and a bit for each that is there.
    loaded: ([K; BATCH], u32),
}
impl<K: Member, const BATCH: usize> Rounds<K, BATCH> {
    #[inline(always)]
    fn load(&mut self) {
        self.more = self.next < self.of.count;
        if self.more {
            let (from, count) =
                (self.of.number * self.of.of.source.room + self.next, self.of.count - self.next);
            self.loaded = load_run::<K, { THREADS as usize }, BATCH>(
                self.t,
                self.of.of.keys,
                from,
                count,
                K::EMPTY,
            );
            self.next += THREADS * BATCH as u32;
        }
    }
    /// Some of them, with a bit for each that is there, while the next ones are on their way.
    #[inline(always)]
    fn batch(&mut self) -> Option<([K; BATCH], u32)> {
        self.more.then(|| {
            let now = self.loaded;
            self.load();
            now
        })
    }
}

/// Calls a function with each key that is there: with a bit of `live`.
#[inline(always)]
fn each_live<K: Member, const BATCH: usize>(
    mut keys: [K; BATCH],
    mut live: u32,
    mut each: impl FnMut(K),
) {
    // A loop, because what is done with a key is long: eight of it would not stay in the
    // instruction cache.
    while live != 0 {
        if live & 1 != 0 {
            each(keys[0]);
        }
        live >>= 1;
        rotate(&mut keys);
    }
}
/// The second key becomes the first one, and the first one the last.
#[inline(always)]
fn rotate<K: Member, const BATCH: usize>(keys: &mut [K; BATCH]) {
    // If the last one stayed, the compiler would take a loop that does this apart: nothing would
    // change any more after seven times.
    let first = keys[0];
    unroll::<BATCH>(|j| keys[j] = if j + 1 < BATCH { keys[(j + 1) % BATCH] } else { first });
}

/// A partition in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Near<K> {
    pub shape: Shape,
    pub slots: Shared<K>,
    /// A word for each bucket: how many keys came when slots were counted, and from bit [`MARKS`]
    /// on the classes that overflowed.
    words: Shared<u32>,
    /// Keys that found their first bucket full, and how many.
    listed: Shared<K>,
    /// Those that found the second full too, in a table of as many slots.
    pub waiting: Shared<K>,
    list: u32,
    counts: Shared<u32>,
}
/// The bits of classes in a bucket's word.
const MARKS: u32 = 28;

// What a block counts.
/// Keys that found their first bucket full.
const LISTED: u32 = 0;
/// Keys that evict.
const EVICTING: u32 = 1;
/// Not 0 if many copies are expected.
const COPIES: u32 = 2;
/// Not 0 if something failed before, or here.
const LOST: u32 = 3;
const COUNTS: u32 = 4;

/// Bytes of shared memory for partitions of this many buckets, with lists of this many keys of so
/// many bytes.
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
    /// Not cleared yet.
    #[inline(always)]
    pub fn new(shared: &mut SharedMem, shape: Shape, list: u32) -> Near<K> {
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
    /// All threads of the block call it; a barrier must follow.
    #[inline(always)]
    pub fn clear(self, t: Thread) {
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
    /// Looks at what blocks before this one met, and the passes over one array or two. All threads
    /// of the block call it; a barrier must follow.
    #[inline(always)]
    pub fn begin<const ARRAYS: usize>(self, t: Thread, build_states: [Buf<u32>; ARRAYS]) {
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
    /// Whether everything will be done again, whatever this block does.
    #[inline(always)]
    pub fn is_lost(self) -> bool {
        self.counts.load(LOST) != 0
    }
    /// Phase A for some keys where few are equal: each takes the next slot of its first bucket,
    /// whatever is in the others. Gives how many.
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
    /// Of equal keys that were counted into a bucket, one stays. Gives how many are there then. No
    /// other thread touches the bucket.
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
    /// Notes that a key found its first bucket full.
    #[inline(always)]
    #[track_caller]
    fn list(self, key: K) {
        let at = self.counts.fetch_add(LISTED, 1);
        if at < self.list {
            self.listed.store(at, key);
        }
    }
    /// A key meets its first bucket, or is listed: 1 if it was not there.
    #[inline(always)]
    fn meet_first(self, key: K) -> u32 {
        let outcome = meet(self, self.first(hash(key)), key);
        if outcome == Outcome::Full {
            self.list(key);
        }
        (outcome == Outcome::New) as u32
    }
    /// Phase B for one key: 1 if it was not there.
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
    /// The same of all buckets. Gives how many keys are in those of this thread then.
    #[inline(always)]
    fn drop_all_copies(self, t: Thread) -> u32 {
        let (mut kept, mut bucket) = (0, t.id());
        while bucket < self.shape.buckets {
            kept += self.drop_copies(bucket);
            bucket += THREADS;
        }
        kept
    }
    /// Whether the keys that were counted in so far show that many are equal, because buckets hold
    /// copies or are full already; and whether most of what is listed are copies, and the list
    /// was emptied. All threads of the block call it, with a barrier before what they
    /// do with the buckets next.
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
    /// Phases A and B: puts in the keys of one partition, of one array or two. All threads of the
    /// block call it, with barriers before and after it. Counts what was dropped.
    #[inline(always)]
    pub fn put<const ARRAYS: usize, const BATCH: usize>(
        self,
        t: Thread,
        arrays: [Partition<K>; ARRAYS],
        build_state: Buf<u32>,
    ) {
        let (mut came, mut new) = (0u32, 0u32);
        // A.
        let mut rounds = arrays[0].rounds::<BATCH>(t);
        let mut meets = self.counts.load(COPIES) != 0;
        if !meets {
            came = rounds.batch().map_or(0, |batch| self.count_in(batch));
            let (many, empties) = self.shows_copies(t, build_state);
            meets = many;
            if empties {
                (rounds, came) = (arrays[0].rounds::<BATCH>(t), 0);
            }
            if !meets {
                while let Some(batch) = rounds.batch() {
                    came += self.count_in(batch);
                }
                // Where the list is too short, all keys are met in phase B.
                let count_in = |key| {
                    if self.counts.load_volatile(LISTED) <= self.list {
                        self.count_in_all([key]);
                    }
                };
                came += arrays[0].each_behind::<BATCH>(t, count_in);
                t.barrier();
            }
            new = self.drop_all_copies(t);
            t.barrier();
        }
        // Of the arrays, which are not the same code twice, those that were not counted in.
        let first = !meets as usize;
        let mut a = first;
        while a < ARRAYS {
            let array = if a == 0 { arrays[0] } else { arrays[ARRAYS - 1] };
            if a != 0 {
                rounds = array.rounds::<BATCH>(t);
            }
            while let Some((keys, live)) = rounds.batch() {
                came += live.count_ones();
                unroll::<BATCH>(|j| {
                    if live >> j & 1 != 0 {
                        new += self.meet_first(keys[j]);
                    }
                });
            }
            came += array.each_behind::<BATCH>(t, |key| new += self.meet_first(key));
            a += 1;
        }
        if first < ARRAYS {
            t.barrier();
        }
        // B.
        let listed = self.counts.load(LISTED);
        if listed <= self.list {
            let mut i = t.id();
            while i < listed {
                new += self.meet_both(self.listed.load(i), build_state);
                i += THREADS;
            }
        } else {
            if t.id() == 0 {
                build_state.fetch_add(state::COPIED, 1);
            }
            a = 0;
            while a < ARRAYS {
                let array = if a == 0 { arrays[0] } else { arrays[ARRAYS - 1] };
                let mut rounds = array.rounds::<BATCH>(t);
                while let Some((keys, live)) = rounds.batch() {
                    each_live(keys, live, |key| new += self.meet_both(key, build_state));
                }
                // Where keys were chosen, so many may come that looking for places in vain would
                // take long.
                if self.counts.load_volatile(LOST) == 0 {
                    array.each_behind::<BATCH>(t, |key| new += self.meet_both(key, build_state));
                }
                a += 1;
            }
        }
        let dropped = block::warp_inclusive_sum(t, came.wrapping_sub(new));
        if t.lane() == 31 && dropped != 0 {
            build_state.fetch_add(state::DROPPED, dropped);
        }
    }
    /// Bucket `bucket`, which nobody changes any more.
    #[inline(always)]
    #[track_caller]
    pub fn bucket(self, bucket: u32) -> [K::Half; 2] {
        [self.half(bucket, 0), self.half(bucket, 1)]
    }
}

/// Builds partition `t.block()`. The stash is empty, but for what other blocks put there. A thread
/// has eight keys on their way at a time, or as many bytes.
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

    // C.
    let mut i = id;
    while i < source.list {
        let key = table.waiting.load(i);
        if key != K::EMPTY {
            // Side by side, so that few warps evict.
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

    // D.
    i = id;
    while i < shape.buckets {
        let bits = table.words.load(i) >> MARKS;
        write_bucket::<K>(slots, shape.place(p, i), finished::<K>(table.bucket(i), bits));
        i += THREADS;
    }
}
/// Writes a bucket, which is not read soon.
#[inline(always)]
#[track_caller]
pub(super) fn write_bucket<K: Member>(slots: Buf<K>, place: u64, [low, high]: [K::Half; 2]) {
    K::write_half(slots, 2 * place, low);
    K::write_half(slots, 2 * place + 1, high);
}
