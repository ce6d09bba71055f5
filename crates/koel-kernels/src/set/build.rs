//! One block turns one partition into its buckets, in shared memory, and writes them out once: a key is read once and written once.
//!
//! Phases, with a barrier between each two; [`fill`](super::fill) has the reasons:
//! * A. Every key meets its first bucket; those that find it full are listed. So do keys of this partition that wait behind the bins.
//! * B. The listed ones mark their class in the first bucket and meet the second; those that find that full too wait in a table. If the list
//!   was too short, all keys go through A and B again: those that have a place are met there.
//! * C. Each key that waits evicts. One that finds no place goes to the stash.
//! * D. Full buckets are ordered so that they tell their class bits, and everything is written out.
//!
//! Equal keys meet in A and B, so C has each key once, and what was dropped is what came less what is there.
use super::fill::{Filling, Outcome, claim, evict, meet, meet_second};
use super::layout::{Member, finished, hash};
use crate::map::build::Source;
use crate::map::layout::{Layout, Shape};
use crate::map::{stash, state};
use crate::partition::load_run;
use koel_simt::{Buf, In, Shared, SharedMem, Thread, block, kernel, unroll};

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Keys of a thread that are on their way at a time.
const BATCH: usize = 8;

/// Keys of a set that have come to their partitions.
#[derive(Clone, Copy)]
pub(super) struct Arrived<K> {
    pub shape: Shape,
    pub source: Source,
    pub keys: In<K>,
    pub counts: In<u32>,
    pub valid: In<u32>,
    pub overflow: In<K>,
    pub build_state: Buf<u32>,
}
/// Those of one partition.
#[derive(Clone, Copy)]
pub(super) struct Partition<K> {
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
    pub fn partition(self, number: u32) -> Partition<K> {
        let Arrived { source, build_state, .. } = self;
        let group = number.checked_div(source.each).unwrap_or(0);
        let valid_here = self.valid.get(source.groups + number);
        let of_group = if source.groups != 0 { self.valid.get(group) } else { !0 };
        // These counts no longer change; if an area was too small, everything is done again.
        let behind = |valid, word| if valid == !0 { 0 } else { build_state.load_relaxed(word).min(source.area) };
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
    /// Key `i`, of fewer than [`most`](Self::most); those behind the bins may be of another partition.
    #[inline(always)]
    fn key(&self, i: u32) -> Option<K> {
        let Source { room, area, .. } = self.of.source;
        if i < self.count {
            return Some(self.of.keys.get(self.number * room + i));
        }
        let behind = i - self.count;
        let key =
            self.of.overflow.get(if behind < self.behind_first { behind } else { area + behind - self.behind_first });
        (self.of.shape.partition(hash(key)) == self.number).then_some(key)
    }
    /// None of them.
    #[inline(always)]
    pub fn nothing(self) -> Partition<K> {
        Partition { count: 0, behind_first: 0, all_behind: 0, ..self }
    }
    #[inline(always)]
    fn most(&self) -> u32 {
        self.count + self.all_behind
    }
    /// Each key, once, by one of the threads of a block, all of which call it. Gives how many were this thread's.
    #[inline(always)]
    pub fn each(&self, t: Thread, mut each: impl FnMut(K)) -> u32 {
        const ROUND: u32 = THREADS * BATCH as u32;
        let load = |first: u32| {
            let count = self.count.saturating_sub(first);
            if count == 0 {
                return ([K::EMPTY; BATCH], 0);
            }
            let from = self.number * self.of.source.room + first;
            load_run::<K, { THREADS as usize }, BATCH>(t, self.of.keys, from, count, K::EMPTY)
        };
        let (mut came, mut first) = (0, 0);
        let mut next = load(0);
        while first < self.count {
            let (keys, live) = next;
            first += ROUND;
            next = load(first);
            unroll::<BATCH>(|j| {
                if live >> j & 1 != 0 {
                    each(keys[j]);
                }
            });
            came += live.count_ones();
        }
        came + self.each_from(t, self.count, each)
    }
    /// The same from key `from` on, for what is rare.
    #[inline(always)]
    fn each_from(&self, t: Thread, from: u32, mut each: impl FnMut(K)) -> u32 {
        let (mut came, mut i) = (0, from + t.id());
        while i < self.most() {
            if let Some(key) = self.key(i) {
                each(key);
                came += 1;
            }
            i += THREADS;
        }
        came
    }
}

/// A partition in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Near<K> {
    pub shape: Shape,
    pub slots: Shared<K>,
    /// Four bits a bucket: the classes that overflowed.
    marks: Shared<u32>,
    /// Keys that found their first bucket full, and how many.
    listed: Shared<K>,
    /// Those that found the second full too, in a table of as many slots.
    pub waiting: Shared<K>,
    list: u32,
    lengths: Shared<u32>,
}
/// Words of the marks.
const fn mark_words(buckets: u32) -> u32 {
    buckets.div_ceil(8)
}
/// Bytes of shared memory for partitions of this many buckets, with lists of this many keys of so many bytes.
pub const fn shared_bytes(buckets: u32, list: u32, key_bytes: u32) -> u32 {
    buckets * 32 + 2 * list * key_bytes + mark_words(buckets) * 4 + 4
}
impl<K: Member> Filling<K> for Near<K> {
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
        self.marks.fetch_or(bucket / 8, 1 << (bucket % 8 * 4 + class));
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
            marks: shared.array::<u32>(mark_words(shape.buckets)),
            lengths: shared.array::<u32>(1u32),
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
        while i < self.list {
            self.waiting.store(i, K::EMPTY);
            i += THREADS;
        }
        i = t.id();
        while i < mark_words(self.shape.buckets) {
            self.marks.store(i, 0);
            i += THREADS;
        }
        if t.id() == 0 {
            self.lengths.store(0u32, 0);
        }
    }
    /// Phase B for one key: 1 if it was not there.
    #[inline(always)]
    fn meet_rest(self, key: K, build_state: Buf<u32>) -> u32 {
        let mut outcome = meet_second(self, key);
        if outcome == Outcome::Full {
            outcome = claim(self.list, self.list, key, |at| self.waiting.cas(at, K::EMPTY, key));
            if outcome == Outcome::Full {
                build_state.fetch_add(state::FAILED, 1);
            }
        }
        (outcome == Outcome::New) as u32
    }
    /// Phases A and B: puts in the keys of one partition, of one array or two. All threads of the block call it, with barriers before and
    /// after it. Counts what was dropped.
    #[inline(always)]
    pub fn put<const ARRAYS: usize>(self, t: Thread, arrays: [Partition<K>; ARRAYS], build_state: Buf<u32>) {
        let (mut came, mut new) = (0u32, 0u32);
        // A.
        let array = |a: usize| if a + 1 < ARRAYS { arrays[0] } else { arrays[ARRAYS - 1] };
        let mut a = 0;
        while a < ARRAYS {
            came += array(a).each(t, |key| match meet(self, self.first(hash(key)), key) {
                Outcome::Met => {}
                Outcome::New => new += 1,
                Outcome::Full => {
                    let at = self.lengths.fetch_add(0u32, 1);
                    if at < self.list {
                        self.listed.store(at, key);
                    }
                }
            });
            a += 1;
        }
        t.barrier();
        // B.
        let listed = self.lengths.load(0u32);
        if listed <= self.list {
            let mut i = t.id();
            while i < listed {
                new += self.meet_rest(self.listed.load(i), build_state);
                i += THREADS;
            }
        } else {
            a = 0;
            while a < ARRAYS {
                array(a).each_from(t, 0, |key| match meet(self, self.first(hash(key)), key) {
                    Outcome::Met => {}
                    Outcome::New => new += 1,
                    Outcome::Full => new += self.meet_rest(key, build_state),
                });
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

#[inline(always)]
fn build<K: Member>(t: Thread, arrived: Arrived<K>, slots: Buf<K>, stash: Buf<u64>) {
    let Arrived { shape, source, build_state, .. } = arrived;
    let (id, p) = (t.id(), t.block());
    let table = Near::new(&mut t.shared(), shape, source.list);
    table.clear(t);
    t.wait_for_previous();
    t.let_next_start();
    let keys = arrived.partition(p);
    t.barrier();
    table.put(t, [keys], build_state);
    t.barrier();

    // C.
    let mut i = id;
    while i < source.list {
        let key = table.waiting.load(i);
        if key != K::EMPTY
            && let Some(key) = evict(table, key)
        {
            let done = stash::insert::<K::Pairs>(stash, source.stash_bits, K::Pairs::pair(key, K::narrowed(0)));
            build_state.fetch_add(if done { state::STASHED } else { state::FAILED }, 1);
        }
        i += THREADS;
    }
    t.barrier();

    // D.
    i = id;
    while i < shape.buckets {
        let bits = table.marks.load(i / 8) >> (i % 8 * 4) & 0xF;
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

macro_rules! entries { ($($(#[$doc:meta])* $name:ident $key:ty, $bytes:literal;)*) => { $(
    $(#[$doc])*
    #[kernel(threads = 256, min_blocks = 4, shared = shared_bytes(shape.buckets, source.list, $bytes), starts_early)]
    pub fn $name(
        t: Thread,
        shape: Shape,
        source: Source,
        keys: In<$key>,
        counts: In<u32>,
        valid: In<u32>,
        overflow: In<$key>,
        slots: Buf<$key>,
        stash: Buf<u64>,
        build_state: Buf<u32>,
    ) {
        build::<$key>(t, Arrived { shape, source, keys, counts, valid, overflow, build_state }, slots, stash)
    }
)* } }
entries! {
    /// Builds partition `t.block()`.
    ///
    /// `counts`, `valid`: keys that came to each bin of both passes, and at most how many of them are in it: all ones if all are.
    /// `overflow`: the overflow areas of the passes, whose keys `build_state` counts. The stash is empty, but for what other blocks put
    /// there.
    set_build_u32 u32, 4;
    /// The same.
    set_build_u64 u64, 8;
}
