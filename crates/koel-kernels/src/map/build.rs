//! One block turns one partition into its buckets, in shared memory, and writes them out once: a pair is read once and written
//! once.
//!
//! In shared memory a pair is a *record* of 64 bits. Narrow pairs are their own records. The record of a wide pair is the
//! hash of its key, and where the pair is among those of the partition; the pair itself is fetched when its bucket is written
//! out, from the cache. So everything up to then is the same for both.
//!
//! Phases, with a barrier between each two:
//! * A. Every pair counts itself into its first bucket; the first four have their slots. The others are listed.
//! * B. The listed ones try their second bucket in the same way, and mark their class in the first. If the list was too short,
//!   the next ones are listed.
//!   Then, if equal keys are to be found, those of which a copy is in one of their two full buckets become one with it.
//! * C. The rest evicts: looks at the four pairs of its bucket, moves one whose other bucket has room, or swaps with one and
//!   goes on with that. Buckets are read while others change them. Whatever was seen is confirmed before it counts: a slot
//!   is taken by clearing its bit among the free slots of its bucket, and a pair is replaced by compare-and-swap of all its
//!   64 bits. No record comes twice (those of equal pairs of equal stretches may, which phase E sets right), so what is equal
//!   is what was seen.
//! * D. What C gave up tries both buckets again, now that nobody gives slots back any more. What has no place then is homeless.
//! * E. If asked, equal keys are looked for: all copies of a key are in its two buckets or homeless. Where there are some, one
//!   of each key stays, that with the greatest stamp, and the buckets are built again from these: slots that would be left empty
//!   could hide keys that overflowed. A key of which several copies have that stamp is *contested*.
//! * F. Homeless pairs go to the stash. Full buckets are ordered so that they tell their class bits, and everything is
//!   written out.
use super::layout::{EMPTY, Layout, Narrow, Number, Shape, Wide, class, with_class_bits};
use super::partition::{OVERFLOW, Stamps, hash_in, with_hash};
use super::{stash, state};
use koel_simt::{Buf, In, Shared, Thread, U32x4, U64x2, block, kernel, unroll};

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Pairs of a thread.
pub const ITEMS: usize = 16;
/// Pairs of a partition, at most, overflow not counted.
pub const MOST: u32 = THREADS * ITEMS as u32;
/// Evictions of a pair before it is given up.
const MAX_MOVES: u32 = 500;
/// Pairs that a warp works on in phase C: fewer warps collide less.
const PAIRS_PER_WARP: u32 = 96;

/// Bytes of shared memory for partitions of this many buckets, with lists of this length.
pub const fn shared_bytes(buckets: u32, list: u32) -> u32 {
    buckets * 32 + buckets.next_multiple_of(4) * 4 + 2 * list * 8 + 32 * 4
}

/// Where the bins of the last partition pass are, and how much they hold: a kernel's argument.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Source {
    /// Places of a bin: even.
    pub room: u32,
    /// 1: equal keys are to be found.
    pub check: u32,
    /// The stash has 2^this slots.
    pub stash_bits: u32,
    /// The table of contested keys has 2^this slots.
    pub contested_bits: u32,
    /// Pairs that may miss their first bucket in one round.
    pub list: u32,
    /// Partitions of a group.
    pub each: u32,
}
// SAFETY: plain numbers, no padding.
#[cfg(not(target_arch = "nvptx64"))]
unsafe impl koel_simt::Arg for Source {}

/// Where the pairs of a partition are.
#[derive(Clone, Copy)]
struct Pairs {
    stamps: Stamps,
    /// The high bits of all hashes.
    top: u32,
    /// The bins.
    bins: In<u64>,
    /// The first place of the partition's bin.
    bin: u32,
    /// Places of a bin: pairs from this number on are behind the bins.
    room: u32,
    overflow: In<u64>,
}
impl Pairs {
    /// Pair `number` of the partition, with its true hash; not to be read again soon.
    #[inline(always)]
    fn pair<L: Layout>(self, number: u32) -> L::Pair {
        if number < self.room {
            let pair = L::pairs(self.bins).get(self.bin + number);
            let head = L::head(pair);
            L::with_head(with_hash::<L>(head, self.stamps.hash(hash_in::<L>(head), self.top)), L::behind(pair))
        } else {
            L::pairs(self.overflow).get(number - self.room)
        }
    }
}

/// A layout whose pairs have records.
trait Recorded: Layout {
    /// The record of a pair as it came: stamped, or from behind the bins with its true hash.
    fn record(pair: Self::Pair, number: u32, from: Pairs) -> u64;
    /// The hash of a record's key.
    fn hash_of(record: u64, from: Pairs) -> u32;
    /// The stamp of a record.
    fn stamp_of(record: u64, from: Pairs) -> u32;
    /// The pair of a record.
    fn pair_of(record: u64, from: Pairs) -> Self::Pair;
    /// Whether two records of equal hashes have equal keys.
    fn same_key(a: u64, b: u64, from: Pairs) -> bool;
}
impl Recorded for Narrow {
    #[inline(always)]
    fn record(pair: u64, number: u32, from: Pairs) -> u64 {
        let stamps = from.stamps;
        if number < from.room { pair } else { with_hash::<Narrow>(pair, stamps.with(pair as u32, stamps.unknown())) }
    }
    #[inline(always)]
    fn hash_of(record: u64, from: Pairs) -> u32 {
        from.stamps.hash(record as u32, from.top)
    }
    #[inline(always)]
    fn stamp_of(record: u64, from: Pairs) -> u32 {
        from.stamps.of(record as u32)
    }
    #[inline(always)]
    fn pair_of(record: u64, from: Pairs) -> u64 {
        with_hash::<Narrow>(record, Self::hash_of(record, from))
    }
    #[inline(always)]
    fn same_key(_: u64, _: u64, _: Pairs) -> bool {
        true
    }
}
/// Bits of a wide record for the number of the pair.
const NUMBER: u32 = 18;
const _: () = assert!(MOST + 2 * OVERFLOW <= 1 << NUMBER);
impl Recorded for Wide<u64, u64> {
    #[inline(always)]
    fn record(pair: U64x2, number: u32, from: Pairs) -> u64 {
        let (stamps, stored) = (from.stamps, hash_in::<Self>(Self::head(pair)));
        let (hash, stamp) = if number < from.room {
            (stamps.hash(stored, from.top), stamps.of(stored))
        } else {
            (stored, if stamps.mask != 0 { stamps.unknown() } else { 0 })
        };
        ((stamp << NUMBER | number) as u64) << 32 | hash as u64
    }
    #[inline(always)]
    fn hash_of(record: u64, _: Pairs) -> u32 {
        record as u32
    }
    #[inline(always)]
    fn stamp_of(record: u64, _: Pairs) -> u32 {
        (record >> (32 + NUMBER)) as u32
    }
    #[inline(always)]
    fn pair_of(record: u64, from: Pairs) -> U64x2 {
        from.pair::<Self>((record >> 32) as u32 & ((1 << NUMBER) - 1))
    }
    #[inline(always)]
    fn same_key(a: u64, b: u64, from: Pairs) -> bool {
        Self::head(Self::pair_of(a, from)) == Self::head(Self::pair_of(b, from))
    }
}

/// The partition that a block works on.
#[derive(Clone, Copy)]
struct Partition {
    shape: Shape,
    from: Pairs,
    slots: Shared<u64>,
    /// A word for each bucket. First, bits 0-15 count the pairs that came; later, bits 0-3 are the free slots and bits 4-7 those that
    /// are dropped. Bits 20-23: the classes that overflowed.
    words: Shared<u32>,
}
const COUNT: u32 = 0xFFFF;
const FREE: u32 = 0xF;
const DROPPED: u32 = 4;
const CLASS: u32 = 20;
// The words behind the lists: how much is in them.
/// Of the first list: what missed once, or later what phase C gave up.
const LISTED: u32 = 0;
/// Of the second list: what missed twice.
const MISSED_TWICE: u32 = 1;
const GIVEN_UP: u32 = 2;
/// In the second list, after phase C.
const HOMELESS: u32 = 3;
/// From here on a word for each warp.
const SUMS: u32 = 8;
const LENGTHS: u32 = 32;

#[inline(always)]
fn class_mark(h: u32) -> u32 {
    1 << (CLASS + class(h))
}
/// One of four, without an array in memory.
#[inline(always)]
fn pick<T: Copy>(i: u32, v: [T; 4]) -> T {
    let low = if i & 1 != 0 { v[1] } else { v[0] };
    let high = if i & 1 != 0 { v[3] } else { v[2] };
    if i & 2 != 0 { high } else { low }
}

impl Partition {
    #[inline(always)]
    fn hash<L: Recorded>(self, record: u64) -> u32 {
        L::hash_of(record, self.from)
    }
    #[inline(always)]
    #[track_caller]
    fn bucket(self, bucket: u32) -> [u64; 4] {
        let U64x2([a, b]) = self.slots.x2().load_volatile(2 * bucket);
        let U64x2([c, d]) = self.slots.x2().load_volatile(2 * bucket + 1);
        [a, b, c, d]
    }
    /// Phases A and B: a slot by counting.
    #[inline(always)]
    #[track_caller]
    fn count_in(self, bucket: u32, e: u64) -> bool {
        let place = self.words.fetch_add(bucket, 1) & COUNT;
        if place < 4 {
            self.slots.store_volatile(4 * bucket + place, e);
        }
        place < 4
    }
    /// Phase B for one pair: marks its class in the first bucket, tries the second.
    #[inline(always)]
    #[track_caller]
    fn try_second<L: Recorded>(self, e: u64) -> bool {
        let h = self.hash::<L>(e);
        let first = self.shape.first(h);
        self.words.fetch_or(first, class_mark(h));
        let second = self.shape.other(h, first);
        // Looks before it counts, so that counts stay small.
        self.words.load_volatile(second) & COUNT < 4 && self.count_in(second, e)
    }
    /// From phase C on: takes a free slot of a bucket, if there is one.
    #[inline(always)]
    #[track_caller]
    fn take_slot(self, bucket: u32) -> Option<u32> {
        let free = self.words.load_volatile(bucket) & FREE;
        let bit = free & free.wrapping_neg();
        if bit != 0 && self.words.fetch_and(bucket, !bit) & bit != 0 {
            Some(4 * bucket + bit.trailing_zeros())
        } else {
            None
        }
    }
    #[inline(always)]
    fn same<L: Recorded>(self, a: u64, b: u64) -> bool {
        a != EMPTY && b != EMPTY && self.hash::<L>(a) == self.hash::<L>(b) && L::same_key(a, b, self.from)
    }
}
/// The two lists, and their lengths.
#[derive(Clone, Copy)]
struct Lists {
    first: Shared<u64>,
    second: Shared<u64>,
    lengths: Shared<u32>,
    room: u32,
    build_state: Buf<u32>,
}
impl Lists {
    /// A pair that found both its buckets full. If the list is full too, the build fails.
    #[inline(always)]
    fn miss_twice(self, e: u64) {
        let at = self.lengths.fetch_add(MISSED_TWICE, 1);
        if at < self.room {
            self.second.store(at, e);
        } else {
            self.build_state.fetch_add(state::FAILED, 1);
        }
    }
}

/// Makes one of a pair, both of whose buckets are full, and a pair there of an equal key, if there is one.
#[inline(always)]
fn merge_with_bucket<L: Recorded>(part: Partition, lists: Lists, e: u64, source: Source, contested: Buf<u64>) -> bool {
    let h = part.hash::<L>(e);
    let first = part.shape.first(h);
    let mut i = 0;
    while i < 8 {
        let bucket = if i < 4 { first } else { part.shape.other(h, first) };
        if merge::<L>(part, lists, 4 * bucket + (i & 3), e, source, contested) {
            return true;
        }
        i += 1;
    }
    false
}
/// Makes one of a pair and that in a slot, if their keys are equal.
#[inline(always)]
fn merge<L: Recorded>(part: Partition, lists: Lists, slot: u32, e: u64, source: Source, contested: Buf<u64>) -> bool {
    let mut there = part.slots.load_volatile(slot);
    while part.same::<L>(there, e) {
        let (mine, its) = (L::stamp_of(e, part.from), L::stamp_of(there, part.from));
        if mine == its || mine.max(its) == part.from.stamps.unknown() {
            // Copies with greater stamps may come: then the stretch of this one would not be the one to search.
            contest::<L>(contested, source.contested_bits, L::key(L::pair_of(e, part.from)), lists.build_state);
            lists.build_state.store_relaxed(state::ANYWHERE, 1);
        }
        if mine <= its {
            return true;
        }
        let now = part.slots.cas(slot, there, e);
        if now == there {
            return true;
        }
        there = now;
    }
    false
}

#[inline(always)]
fn build<L: Recorded>(
    t: Thread,
    shape: Shape,
    source: Source,
    stamps: Stamps,
    pairs: In<u64>,
    counts: In<u32>,
    valid: In<u32>,
    overflow: In<u64>,
    slots: Buf<u64>,
    stash: Buf<u64>,
    contested: Buf<u64>,
    build_state: Buf<u32>,
) {
    let mut shared = t.shared();
    let (id, p) = (t.id(), t.block());
    let top = stamps.top(p.checked_div(source.each).unwrap_or(0));
    let from = Pairs { stamps, top, bins: pairs, bin: p * source.room, room: source.room, overflow };
    let part = Partition {
        shape,
        from,
        slots: shared.array::<u64>(shape.buckets * 4),
        words: shared.array::<u32>((shape.buckets + 3) & !3),
    };
    let lists = Lists {
        first: shared.array::<u64>(source.list),
        second: shared.array::<u64>(source.list),
        lengths: shared.array::<u32>(LENGTHS),
        room: source.list,
        build_state,
    };
    let Lists { first: list, lengths, .. } = lists;

    t.wait_for_previous();
    t.let_next_start();
    let count = counts.get(p).min(valid.get(p)).min(source.room);
    let mut e = [EMPTY; ITEMS];
    unroll::<ITEMS>(|j| {
        if j % 2 == 0 {
            let i = ((j / 2) as u32 * THREADS + id) * 2;
            if i < count {
                let [a, b] = L::two(pairs, (p * source.room + i) / 2);
                e[j] = L::record(a, i, from);
                e[(j + 1) % ITEMS] = if i + 1 < count { L::record(b, i + 1, from) } else { EMPTY };
            }
        }
    });

    let (mut again, mut dropped) = (false, 0);
    loop {
        let mut i = id;
        while i < shape.buckets * 2 {
            part.slots.x2().store(i, U64x2([EMPTY; 2]));
            i += THREADS;
        }
        i = id;
        while i < shape.buckets.div_ceil(4) {
            part.words.x4().store(i, U32x4([0; 4]));
            i += THREADS;
        }
        if id < LENGTHS {
            lengths.store(id, 0);
        }
        t.barrier();

        // A.
        let mut missed = 0u32;
        unroll::<ITEMS>(|j| {
            if e[j] != EMPTY && !part.count_in(shape.first(part.hash::<L>(e[j])), e[j]) {
                missed |= 1 << j;
            }
        });
        // Normally one round: the list holds all that missed.
        loop {
            let all = missed.count_ones();
            let before = block::warp_inclusive_sum(t, all);
            let mut at = 0;
            if t.lane() == 31 {
                at = lengths.fetch_add(LISTED, before);
            }
            at = t.warp().shfl(at, 31) + before - all;
            unroll::<ITEMS>(|j| {
                if missed >> j & 1 != 0 {
                    if at < source.list {
                        list.store(at, e[j]);
                        missed &= !(1 << j);
                    }
                    at += 1;
                }
            });
            let unlisted = t.barrier_count(missed != 0);

            // B.
            let here = lengths.load_volatile(LISTED).min(source.list);
            let mut i = id;
            while i < here {
                let e = list.load(i);
                if !part.try_second::<L>(e) {
                    lists.miss_twice(e);
                }
                i += THREADS;
            }
            t.barrier();
            if unlisted == 0 {
                break;
            }
            if id == 0 {
                lengths.store(LISTED, 0);
            }
            t.barrier();
        }
        // A and B for what waits behind the bins of the passes: normally two words are read. They no longer change; if an area was
        // too small, the build fails.
        let behind = |word| if again { 0 } else { build_state.load_relaxed(word).min(OVERFLOW) };
        let (behind_first, behind_second) = (behind(state::OVERFLOW_FIRST), behind(state::OVERFLOW_SECOND));
        let mut i = id;
        while i < behind_first + behind_second {
            let number = if i < behind_first { i } else { OVERFLOW + (i - behind_first) };
            let pair = L::pairs(overflow).get(number);
            let h = L::hash(L::key(pair));
            if shape.partition(h) == p {
                let e = L::record(pair, source.room + number, from);
                if !part.count_in(shape.first(h), e) && !part.try_second::<L>(e) {
                    lists.miss_twice(e);
                }
            }
            i += THREADS;
        }
        t.barrier();

        // Copies of what the full buckets hold need no place.
        let missed_twice = lengths.load_volatile(MISSED_TWICE).min(source.list);
        if source.check != 0 {
            i = id;
            while i < missed_twice {
                if merge_with_bucket::<L>(part, lists, lists.second.load(i), source, contested) {
                    lists.second.store(i, EMPTY);
                    dropped += 1;
                }
                i += THREADS;
            }
        }
        // Counts become free slots.
        i = id;
        while i < shape.buckets {
            let word = part.words.load(i);
            let taken = (word & COUNT).min(4);
            part.words.store(i, word & (0xF << CLASS) | (FREE << taken) & FREE);
            i += THREADS;
        }
        t.barrier();

        // C.
        let warps = missed_twice.div_ceil(PAIRS_PER_WARP).clamp(1, THREADS / 32);
        if t.warp_id() < warps {
            // A warp's share, without a division that could be by zero.
            let share = missed_twice.checked_div(warps).unwrap_or(0) + 1;
            let start = (share * t.warp_id()).min(missed_twice);
            evict::<L>(t, part, lists, start, (start + share).min(missed_twice));
        }
        t.barrier();

        // D.
        let given_up = lengths.load_volatile(GIVEN_UP);
        i = id;
        while i < given_up {
            let e = list.load(i);
            let h = part.hash::<L>(e);
            let first = shape.first(h);
            // Its class is marked: it missed its first bucket once, or was evicted from it.
            let slot = part.take_slot(first).or_else(|| part.take_slot(shape.other(h, first)));
            match slot {
                Some(slot) => part.slots.store_volatile(slot, e),
                None => lists.second.store(lengths.fetch_add(HOMELESS, 1), e),
            }
            i += THREADS;
        }
        t.barrier();

        // E.
        if source.check == 0 || again {
            break;
        }
        let homeless = lengths.load_volatile(HOMELESS);
        let mut equal = false;
        i = id;
        while i < shape.buckets {
            equal |= has_equal_keys::<L>(part, i);
            i += THREADS;
        }
        // Where nothing is homeless and nothing is equal, which is normal, this was all.
        if t.barrier_count(equal) == 0 && homeless == 0 {
            break;
        }
        let before = dropped;
        i = id;
        while i < shape.buckets * 4 + homeless {
            dropped += resolve::<L>(part, lists, i, homeless, contested, source.contested_bits) as u32;
            i += THREADS;
        }
        if t.barrier_count(dropped != before) == 0 {
            break;
        }
        e = survivors(t, part, lists, homeless);
        again = true;
    }

    // F.
    if source.check != 0 {
        let dropped = block::warp_inclusive_sum(t, dropped);
        if t.lane() == 31 && dropped != 0 {
            build_state.fetch_add(state::DROPPED, dropped);
        }
    }
    let homeless = lengths.load_volatile(HOMELESS);
    let mut i = id;
    while i < homeless {
        // Both buckets of the pair are full, and its class is marked in the first: a lookup comes here.
        let done = stash::insert::<L>(stash, source.stash_bits, L::pair_of(lists.second.load(i), from));
        build_state.fetch_add(if done { state::STASHED } else { state::FAILED }, 1);
        i += THREADS;
    }
    i = id;
    while i < shape.buckets {
        let records = part.bucket(i);
        let full = records[0] != EMPTY && records[1] != EMPTY && records[2] != EMPTY && records[3] != EMPTY;
        let mut bucket = [L::EMPTY_PAIR; 4];
        unroll::<4>(|s| {
            if records[s] != EMPTY {
                bucket[s] = L::pair_of(records[s], from);
            }
        });
        bucket = match full {
            true => with_class_bits::<L>(bucket, part.words.load(i) >> CLASS),
            false => empty_last::<L>(bucket),
        };
        write_bucket::<L>(slots, shape.place(p, i), bucket);
        i += THREADS;
    }
}

/// Writes a bucket, which is not read soon.
#[inline(always)]
#[track_caller]
pub fn write_bucket<L: Layout>(slots: Buf<u64>, place: u64, bucket: [L::Pair; 4]) {
    let to = place * (L::WORDS as u64 / 2);
    slots.x2().store_stream(to, U64x2([L::head(bucket[0]), L::head(bucket[1])]));
    slots.x2().store_stream(to + 1, U64x2([L::head(bucket[2]), L::head(bucket[3])]));
    if L::SLOT_WORDS > 1 {
        slots.x2().store_stream(to + 2, U64x2([L::behind(bucket[0]), L::behind(bucket[1])]));
        slots.x2().store_stream(to + 3, U64x2([L::behind(bucket[2]), L::behind(bucket[3])]));
    }
}

macro_rules! entries { ($($(#[$doc:meta])* $name:ident $layout:ty;)*) => { $(
    $(#[$doc])*
    #[kernel(threads = 256, min_blocks = 4, shared = shared_bytes(shape.buckets, source.list), starts_early)]
    pub fn $name(
        t: Thread,
        shape: Shape,
        source: Source,
        stamps: Stamps,
        pairs: In<u64>,
        counts: In<u32>,
        valid: In<u32>,
        overflow: In<u64>,
        slots: Buf<u64>,
        stash: Buf<u64>,
        contested: Buf<u64>,
        build_state: Buf<u32>,
    ) {
        build::<$layout>(
            t, shape, source, stamps, pairs, counts, valid, overflow, slots, stash, contested, build_state,
        )
    }
)* } }
entries! {
    /// Builds partition `t.block()`.
    ///
    /// `counts`, `valid`: pairs that came to each bin, and at most how many of them are in it. `overflow`: the overflow areas of the
    /// passes, whose pairs `build_state` counts. The stash is empty, but for what other blocks put there.
    map_build Narrow;
    /// The same for wide pairs.
    map_build_wide Wide<u64, u64>;
}

/// Phase C for the pairs `next..to` of the second list, one lane each; what is given up is appended to the first list.
#[inline(always)]
fn evict<L: Recorded>(t: Thread, part: Partition, lists: Lists, mut next: u32, to: u32) {
    let (shape, lane, lengths) = (part.shape, t.lane(), lists.lengths);
    let (mut active, mut x, mut bucket, mut moves) = (false, EMPTY, 0, 0);
    loop {
        // Lanes that are done take the next pairs together.
        let idle = t.warp().ballot(!active);
        if idle != 0 && next < to {
            if !active {
                let i = next + (idle & ((1 << lane) - 1)).count_ones();
                if i < to {
                    x = lists.second.load(i);
                    (active, bucket, moves) = (x != EMPTY, shape.first(part.hash::<L>(x)), 0);
                }
            }
            next += idle.count_ones();
        } else if idle == !0 {
            break;
        }
        if !active {
            continue;
        }
        let y = part.bucket(bucket);
        if y[0] == EMPTY || y[1] == EMPTY || y[2] == EMPTY || y[3] == EMPTY {
            // Rare: a slot is being filled at this moment, or was given back.
            if let Some(slot) = part.take_slot(bucket) {
                part.slots.store_volatile(slot, x);
                active = false;
            }
        } else {
            // One of the four whose other bucket has room, else any of them.
            let other = [0, 1, 2, 3].map(|s| shape.other(part.hash::<L>(y[s]), bucket));
            let free = [0, 1, 2, 3].map(|s| part.words.load_volatile(other[s]) & FREE);
            let mut hit = 4;
            unroll::<4>(|s| {
                if free[s] != 0 && (hit == 4 || (s as u32 ^ lane) & 1 == 0) {
                    hit = s as u32;
                }
            });
            let swaps = hit == 4;
            if swaps {
                hit = (moves + lane) & 3;
            }
            let (evicted, its_other) = (pick(hit, y), pick(hit, other));
            let slot = if swaps { None } else { part.take_slot(its_other) };
            if swaps || slot.is_some() {
                let h = part.hash::<L>(evicted);
                if shape.first(h) == bucket {
                    part.words.fetch_or(bucket, class_mark(h));
                }
                if part.slots.cas(4 * bucket + hit, evicted, x) == evicted {
                    match slot {
                        Some(slot) => {
                            part.slots.store_volatile(slot, evicted);
                            active = false;
                        }
                        None => (x, bucket) = (evicted, its_other),
                    }
                } else if let Some(slot) = slot {
                    // Somebody was faster: the slot is free again.
                    part.words.fetch_or(its_other, 1 << (slot & 3));
                }
            }
        }
        moves += active as u32;
        if moves > MAX_MOVES {
            lists.first.store(lengths.fetch_add(GIVEN_UP, 1), x);
            active = false;
        }
    }
}

/// Whether a pair of this bucket has an equal key beside it, or, if this is its second bucket, in the first.
#[inline(always)]
fn has_equal_keys<L: Recorded>(part: Partition, bucket: u32) -> bool {
    let y = part.bucket(bucket);
    let h = y.map(|e| part.hash::<L>(e));
    let same = |a: usize, b: usize| h[a] == h[b] && part.same::<L>(y[a], y[b]);
    let mut equal = same(0, 1) || same(0, 2) || same(1, 2) || same(0, 3) || same(1, 3) || same(2, 3);
    unroll::<4>(|s| {
        let first = part.shape.first(h[s]);
        if y[s] != EMPTY && first != bucket {
            let z = part.bucket(first);
            unroll::<4>(|r| equal |= part.hash::<L>(z[r]) == h[s] && part.same::<L>(z[r], y[s]));
        }
    });
    equal
}

/// Phase E for the pair in slot `at`, or behind the slots for homeless pair `at - slots`: if it is the first of several equal
/// ones, it takes the place of all, with the record that stays; else it is marked as dropped, which is what is told.
///
/// Others read the record meanwhile: the one that stays has the same key, and only the first copy decides.
#[inline(always)]
fn resolve<L: Recorded>(
    part: Partition,
    lists: Lists,
    at: u32,
    homeless: u32,
    contested: Buf<u64>,
    contested_bits: u32,
) -> bool {
    let slots = part.shape.buckets * 4;
    let me = if at < slots { part.slots.load_volatile(at) } else { lists.second.load_volatile(at - slots) };
    if me == EMPTY {
        return false;
    }
    if at >= slots {
        lists.first.store(at - slots, me);
    }
    let (h, stamps, build_state) = (part.hash::<L>(me), part.from.stamps, lists.build_state);
    let first = part.shape.first(h);
    let second = part.shape.other(h, first);
    let (mut best, mut greatest, mut ties, mut copies, mut first_copy) = (me, L::stamp_of(me, part.from), false, 0, at);
    let mut look = |other: u32, e: u64| {
        if other != at && part.same::<L>(e, me) {
            copies += 1;
            first_copy = first_copy.min(other);
            let stamp = L::stamp_of(e, part.from);
            ties = stamp == greatest || ties && stamp < greatest;
            if stamp > greatest {
                (best, greatest) = (e, stamp);
            }
        }
    };
    let mut i = 0;
    while i < 8 {
        let bucket = if i < 4 { first } else { second };
        if i < 4 || second != first {
            let slot = 4 * bucket + (i & 3);
            look(slot, part.slots.load_volatile(slot));
        }
        i += 1;
    }
    i = 0;
    while i < homeless {
        look(slots + i, lists.second.load_volatile(i));
        i += 1;
    }
    if copies == 0 {
        return false;
    }
    if first_copy != at {
        if at < slots {
            part.words.fetch_or(at / 4, 1 << (DROPPED + at % 4));
        } else {
            lists.first.store(at - slots, EMPTY);
        }
        return true;
    }
    if at < slots {
        part.slots.store_volatile(at, best);
    } else {
        lists.second.store_volatile(at - slots, best);
    }
    if ties || stamps.mask == 0 || greatest == stamps.unknown() {
        contest::<L>(contested, contested_bits, L::key(L::pair_of(best, part.from)), build_state);
        // Where copies of it are: in the stretch of its stamp, if it has one.
        let somewhere = stamps.mask != 0 && greatest != stamps.unknown();
        build_state.store_relaxed(if somewhere { state::STRETCHES + greatest } else { state::ANYWHERE }, 1);
    }
    false
}

/// Adds a key to the contested ones.
#[inline(always)]
fn contest<L: Layout>(contested: Buf<u64>, bits: u32, key: L::Mixed, build_state: Buf<u32>) {
    let mask = (1u32 << (bits & 31)) - 1;
    let (mut at, mut looked) = (stash::start(L::hash(key), bits), 0);
    while looked <= mask {
        let there = contested.cas(at, EMPTY, key.widened());
        if there == EMPTY {
            build_state.fetch_add(state::CONTESTED, 1);
        }
        if there == EMPTY || there == key.widened() {
            return;
        }
        at = (at + 1) & mask;
        looked += 1;
    }
    build_state.fetch_add(state::FAILED, 1);
}

/// What phase E left, as the records of the threads: compacted in the slots, a stretch at a time, then read.
#[inline(always)]
fn survivors(t: Thread, part: Partition, lists: Lists, homeless: u32) -> [u64; ITEMS] {
    let (slots, id) = (part.shape.buckets * 4, t.id());
    let (all, mut kept, mut from) = (slots + homeless, 0, 0);
    while from < all {
        let at = from + id;
        let mut record = EMPTY;
        if at < slots {
            if part.words.load(at / 4) >> (DROPPED + at % 4) & 1 == 0 {
                record = part.slots.load(at);
            }
        } else if at < all && lists.first.load(at - slots) != EMPTY {
            record = lists.second.load(at - slots);
        }
        let up_to_me = block::warp_inclusive_sum(t, (record != EMPTY) as u32);
        if t.lane() == 31 {
            lists.lengths.store(SUMS + t.warp_id(), up_to_me);
        }
        t.barrier();
        // Everybody has read this stretch. What was kept of it ends before it does.
        let (mut place, mut w) = (kept, 0);
        while w < THREADS / 32 {
            let of_warp = lists.lengths.load(SUMS + w);
            place += if w < t.warp_id() { of_warp } else { 0 };
            kept += of_warp;
            w += 1;
        }
        place = place.wrapping_add(up_to_me).wrapping_sub(1);
        if record != EMPTY && place < slots {
            part.slots.store(place, record);
        }
        from += THREADS;
        t.barrier();
    }
    let fitting = kept.min(MOST).min(slots);
    if id == 0 && kept > fitting {
        lists.build_state.fetch_add(state::FAILED, kept - fitting);
    }
    let mut e = [EMPTY; ITEMS];
    unroll::<ITEMS>(|j| {
        let i = j as u32 * THREADS + id;
        if i < fitting {
            e[j] = part.slots.load(i);
        }
    });
    t.barrier();
    e
}

/// The same pairs in the same order, the empty slots behind them.
#[inline(always)]
pub fn empty_last<L: Layout>([mut a, mut b, mut c, mut d]: [L::Pair; 4]) -> [L::Pair; 4] {
    let sink = |x: &mut L::Pair, y: &mut L::Pair| {
        if L::head(*x) == EMPTY {
            (*x, *y) = (*y, L::EMPTY_PAIR);
        }
    };
    sink(&mut a, &mut b);
    sink(&mut b, &mut c);
    sink(&mut c, &mut d);
    sink(&mut a, &mut b);
    sink(&mut b, &mut c);
    sink(&mut a, &mut b);
    [a, b, c, d]
}
