//! One block turns one partition into its buckets, in shared memory, and writes them out once: a pair is read once and written
//! once.
//!
//! In shared memory a pair is a *record* of 64 bits. Narrow pairs are their own records. The record of a wide pair is the
//! hash of its key, and where the pair is among those of the partition; the pair itself is fetched when its bucket is written
//! out, from the cache. So everything up to then is the same for both.
//!
//! Phases, with a barrier between each two:
//! * A. Every pair counts itself into its first bucket; the first four have their slots. The others are listed.
//! * B. The listed ones try their second bucket in the same way, and mark their class in the first. So do the pairs of this partition
//!   that wait behind the bins.
//! * C. The rest evicts: looks at the four pairs of its bucket, moves one whose other bucket has room, or swaps with one and
//!   goes on with that. Buckets are read while others change them. Whatever was seen is confirmed before it counts: a slot
//!   is taken by clearing its bit among the free slots of its bucket, and a pair is replaced by compare-and-swap of all its
//!   64 bits. No record comes twice (those of equal pairs of equal stretches may, which phase F sets right), so what is equal
//!   is what was seen.
//! * D. What C gave up tries both buckets again, now that nobody gives slots back any more. What has no place then is homeless.
//! * E. Full buckets are ordered so that they tell their class bits, and everything is written out. A bucket from which copies were
//!   dropped, and that could hide keys if it were no longer full, gets [fillers](Shape::filler).
//! * F. Keys of which copies may still be in several places are resolved, and the buckets concerned are written again.
//! * G. Homeless pairs go to the stash.
//!
//! # Equal keys
//! Of copies that meet the one with the greatest stamp stays:
//! * In phase B, a pair that missed a bucket becomes one with a copy there; between B and C, with another one that missed
//!   both buckets, too.
//! * So only pairs of one bucket can be copies from then on. In phase C, who comes to a full bucket with two of them takes the slot of
//!   the lesser: copies do not part. Phase E looks at what is left.
//!
//! Where stamps do not decide, because they are equal or one is unknown, a key becomes *suspect*: phase F looks for its copies in
//! both buckets and among the homeless, and makes the key *contested* if several have the greatest stamp. Of more than two
//! of one stamp two are enough to tell, so that a frequent key does not need more room than a rare one.
use super::layout::{EMPTY, Layout, Narrow, Number, Shape, Wide, class, empty_last, with_class_bits};
use super::partition::{MOST_OVERFLOW, MOST_STAMPS, Stamps, hash_in, paired, with_hash};
use super::{CONTESTED_FILTER, stash, state};
use crate::hash::mulhi;
use koel_simt::{Buf, In, Shared, Thread, U32x4, U64x2, block, kernel, unroll};

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Pairs of a thread.
pub const ITEMS: usize = 16;
/// Pairs of a partition, at most, overflow not counted.
pub const MOST: u32 = THREADS * ITEMS as u32;
const _: () = assert!(ITEMS.is_multiple_of(BATCH));
/// Slots that a thread asks for before it waits for the first.
const BATCH: usize = 8;
/// Evictions of a pair before it is given up.
const MAX_MOVES: u32 = 500;
/// Slots of the table of contested keys that one may find taken before the build is done in another way.
const MAX_PROBES: u32 = 256;
/// Pairs that a warp works on in phase C: fewer warps collide less.
const PAIRS_PER_WARP: u32 = 96;

/// Bytes of shared memory for partitions of this many buckets, with lists of this length.
pub const fn shared_bytes(buckets: u32, list: u32) -> u32 {
    buckets * 32 + buckets.next_multiple_of(4) * 4 + 2 * list * 8 + LENGTHS * 4
}

/// Where the bins of the last partition pass are, and how much they hold: a kernel's argument.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Source {
    /// Places of a bin: even.
    pub room: u32,
    /// The stash has 2^this slots.
    pub stash_bits: u32,
    /// The table of contested keys has 2^this slots.
    pub contested_bits: u32,
    /// Pairs that a list has room for.
    pub list: u32,
    /// Partitions of a group.
    pub each: u32,
    /// Pairs that the overflow area of a pass has room for.
    pub area: u32,
    /// Bins of the first of two passes, before those of the second; 0: there was one pass.
    pub groups: u32,
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
    /// The record of a pair with this head as it came: stamped, or from behind the bins with its true hash.
    fn record(head: u64, number: u32, from: Pairs) -> u64;
    /// The heads of pairs `2 i` and `2 i + 1` of an array.
    fn two_heads(pairs: In<u64>, i: u32) -> [u64; 2];
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
    fn record(head: u64, number: u32, from: Pairs) -> u64 {
        let stamps = from.stamps;
        if number < from.room { head } else { with_hash::<Narrow>(head, stamps.with(head as u32, stamps.unknown())) }
    }
    #[inline(always)]
    fn two_heads(pairs: In<u64>, i: u32) -> [u64; 2] {
        Self::two(pairs, i)
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
const NUMBER: u32 = 22;
const _: () = assert!(MOST + 2 * MOST_OVERFLOW <= 1 << NUMBER && MOST_STAMPS <= 1 << (32 - NUMBER));
impl Recorded for Wide<u64, u64> {
    #[inline(always)]
    fn record(head: u64, number: u32, from: Pairs) -> u64 {
        let (stamps, stored) = (from.stamps, hash_in::<Self>(head));
        let (hash, stamp) = if number < from.room {
            (stamps.hash(stored, from.top), stamps.of(stored))
        } else {
            (stored, stamps.unknown())
        };
        ((stamp << NUMBER | number) as u64) << 32 | hash as u64
    }
    #[inline(always)]
    fn two_heads(pairs: In<u64>, i: u32) -> [u64; 2] {
        // The values are fetched when the bucket is written.
        [pairs.get(4 * i), pairs.get(4 * i + 2)]
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
    /// are dropped. Bits 20-23: the classes that overflowed; two marks follow.
    words: Shared<u32>,
}
const COUNT: u32 = 0xFFFF;
const FREE: u32 = 0xF;
const DROPPED: u32 = 4;
const CLASS: u32 = 20;
/// Keys that have this bucket as their first may have copies.
const SUSPECT: u32 = 1 << 24;
/// Phase F has changed something here.
const CHANGED: u32 = 1 << 25;
// The words behind the lists: how much is in them.
/// Of the first list: what missed once, or later what phase C gave up.
const LISTED: u32 = 0;
/// Of the second list: what missed twice.
const MISSED_TWICE: u32 = 1;
const GIVEN_UP: u32 = 2;
/// In the second list, after phase C.
const HOMELESS: u32 = 3;
const LENGTHS: u32 = 8;

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
    /// Marks the key of a record, copies of which may be in several places.
    #[inline(always)]
    fn suspect<L: Recorded>(self, e: u64) {
        self.words.fetch_or(self.shape.first(self.hash::<L>(e)), SUSPECT);
    }
    #[inline(always)]
    fn is_suspect<L: Recorded>(self, e: u64) -> bool {
        self.words.load_volatile(self.shape.first(self.hash::<L>(e))) & SUSPECT != 0
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
    /// Makes one of pair `i` of the second list and another one there of its key, if there is one: the one of the greater stamp stays, of
    /// equal stamps both do, and the key is suspect. They meet in a table of numbers in the memory of the first list. Whether one
    /// was dropped.
    #[inline(always)]
    fn merge_missed<L: Recorded>(self, part: Partition, i: u32, e: u64) -> bool {
        let mut at = mulhi(part.hash::<L>(e).wrapping_mul(0x9E37_79B1), self.room);
        let mut looked = 0;
        while looked < self.room {
            let there = self.first.cas(at, EMPTY, i as u64);
            if there == EMPTY {
                return false;
            }
            let other = self.second.load_volatile(there as u32);
            if part.same::<L>(other, e) {
                let (mine, its) = (L::stamp_of(e, part.from), L::stamp_of(other, part.from));
                if mine == its || mine.max(its) == part.from.stamps.unknown() {
                    break;
                }
                // Who takes the other's place in the table drops it.
                if mine < its || self.first.cas(at, there, i as u64) == there {
                    self.second.store_volatile(if mine < its { i } else { there as u32 }, EMPTY);
                    return true;
                }
            } else if other != EMPTY {
                at = if at + 1 < self.room { at + 1 } else { 0 };
                looked += 1;
            }
        }
        part.suspect::<L>(e);
        false
    }
}

/// Makes one of a pair and a copy of it in a full bucket, if there is one: the record of the greater stamp stays there. Of equal stamps
/// two stay, and the key is suspect: `ties` counts those of the pair's own.
#[inline(always)]
fn merge<L: Recorded>(
    part: Partition,
    lists: Lists,
    bucket: u32,
    e: u64,
    ties: &mut u32,
    source: Source,
    contested: Buf<u64>,
) -> bool {
    let (h, there, mut alike) = (part.hash::<L>(e), part.bucket(bucket), 0u32);
    unroll::<4>(|s| alike |= ((part.hash::<L>(there[s]) == h) as u32) << s);
    if alike == 0 {
        return false;
    }
    let (stamps, mine) = (part.from.stamps, L::stamp_of(e, part.from));
    while alike != 0 {
        let s = alike.trailing_zeros();
        alike &= alike - 1;
        let mut other = pick(s, there);
        while part.same::<L>(other, e) {
            let its = L::stamp_of(other, part.from);
            let unknown = mine.max(its) == stamps.unknown();
            if unknown {
                contest::<L>(contested, source.contested_bits, L::key(L::pair_of(e, part.from)), lists.build_state);
                // Copies with greater stamps may come: then the stretch of this one would not be the one to search.
                lists.build_state.fetch_max(state::FROM, stamps.from(mine.min(its)));
            }
            if mine < its || unknown && mine == its {
                return true;
            }
            if mine == its {
                *ties += 1;
                break;
            }
            let now = part.slots.cas(4 * bucket + s, other, e);
            if now == other {
                return true;
            }
            other = now;
        }
    }
    if *ties == 1 {
        part.suspect::<L>(e);
    }
    // Two that stay with the same stamp tell as much as three.
    *ties > 1
}

#[inline(always)]
fn build<L: Recorded, const CHECK: bool>(
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
    let (bin, group) = (source.groups + p, p.checked_div(source.each).unwrap_or(0));
    // What a bin had no room for is behind the bins.
    let valid_here = valid.get(bin);
    let of_group = if source.groups != 0 { valid.get(group) } else { !0 };
    let count = counts.get(bin).min(valid_here).min(source.room);
    let number = |j| paired::<{ THREADS as usize }>(id, j);
    let mut e = [EMPTY; ITEMS];
    if count != 0 {
        // Who has nothing to read reads the last two pairs again: no branch that others wait for.
        let last = (count & !1).saturating_sub(2);
        if count > 1 {
            unroll::<ITEMS>(|j| {
                if j % 2 == 0 {
                    [e[j], e[j + 1]] = L::two_heads(pairs, (from.bin + number(j as u32).min(last)) / 2);
                }
            });
        }
        if !count.is_multiple_of(2) {
            unroll::<ITEMS>(|j| {
                if j % 2 == 0 && number(j as u32) == count - 1 {
                    e[j] = L::head(L::pairs(pairs).get(from.bin + count - 1));
                }
            });
        }
    }
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
    unroll::<{ ITEMS / BATCH }>(|batch| {
        let mut places = [0; BATCH];
        unroll::<BATCH>(|l| {
            let j = batch * BATCH + l;
            if number(j as u32) < count {
                e[j] = L::record(e[j], number(j as u32), from);
                places[l] = part.words.fetch_add(shape.first(part.hash::<L>(e[j])), 1);
            }
        });
        unroll::<BATCH>(|l| {
            let j = batch * BATCH + l;
            if number(j as u32) < count {
                if places[l] < 4 {
                    part.slots.store_volatile(4 * shape.first(part.hash::<L>(e[j])) + places[l], e[j]);
                } else {
                    missed |= 1 << j;
                }
            }
        });
    });
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
    t.barrier();

    // B. For what the list had no room for, and what waits behind the bins, too.
    let listed = lengths.load_volatile(LISTED).min(source.list);
    // The counts no longer change; if an area was too small, the build fails.
    let behind = |all_valid, word| if all_valid { 0 } else { build_state.load_relaxed(word).min(source.area) };
    let behind_first = behind(of_group == !0, state::OVERFLOW_FIRST);
    let all_behind = behind_first + behind(valid_here == !0, state::OVERFLOW_SECOND);
    let (mut next, mut next_behind, mut dropped) = (id, id, 0);
    loop {
        let e = if next < listed {
            next += THREADS;
            list.load(next - THREADS)
        } else if missed != 0 {
            let j = missed.trailing_zeros();
            missed &= missed - 1;
            L::record(L::head(L::pairs(pairs).get(from.bin + number(j))), number(j), from)
        } else if next_behind < all_behind {
            let area = if next_behind < behind_first { 0 } else { source.area - behind_first };
            let pair = L::pairs(overflow).get(area + next_behind);
            let e = L::record(L::head(pair), source.room + area + next_behind, from);
            next_behind += THREADS;
            let h = L::hash(L::key(pair));
            if shape.partition(h) != p {
                continue;
            }
            if CHECK {
                part.suspect::<L>(e);
            }
            if part.count_in(shape.first(h), e) {
                continue;
            }
            e
        } else {
            break;
        };
        let first = shape.first(part.hash::<L>(e));
        let (mut bucket, mut ties) = (first, 0);
        loop {
            if CHECK && merge::<L>(part, lists, bucket, e, &mut ties, source, contested) {
                dropped += 1;
                break;
            }
            let second = shape.other(part.hash::<L>(e), first);
            if bucket == first && part.try_second::<L>(e) {
                break;
            }
            if bucket == second {
                lists.miss_twice(e);
                break;
            }
            bucket = second;
        }
    }
    t.barrier();

    // Counts become free slots.
    i = id;
    while i < shape.buckets {
        let word = part.words.load(i);
        let taken = (word & COUNT).min(4);
        part.words.store(i, word & (!0 << CLASS) | (FREE << taken) & FREE);
        i += THREADS;
    }
    let missed_twice = lengths.load_volatile(MISSED_TWICE).min(source.list);
    if CHECK {
        i = id;
        while i < source.list {
            list.store(i, EMPTY);
            i += THREADS;
        }
        t.barrier();
        // Copies of what came to the second buckets meanwhile need no place either.
        i = id;
        while i < missed_twice {
            let e = lists.second.load_volatile(i);
            let h = part.hash::<L>(e);
            if merge::<L>(part, lists, shape.other(h, shape.first(h)), e, &mut 0, source, contested) {
                lists.second.store_volatile(i, EMPTY);
                dropped += 1;
            } else {
                dropped += lists.merge_missed::<L>(part, i, e) as u32;
            }
            i += THREADS;
        }
    }
    t.barrier();

    // C.
    let warps = missed_twice.div_ceil(PAIRS_PER_WARP).clamp(1, THREADS / 32);
    if t.warp_id() < warps {
        // A warp's share, without a division that could be by zero.
        let share = missed_twice.checked_div(warps).unwrap_or(0) + 1;
        let start = (share * t.warp_id()).min(missed_twice);
        dropped += evict::<L, CHECK>(t, part, lists, start, (start + share).min(missed_twice));
    }
    t.barrier();

    // D. Normally nothing.
    let given_up = lengths.load_volatile(GIVEN_UP);
    if given_up != 0 {
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
    }

    // E.
    let homeless = lengths.load_volatile(HOMELESS);
    let mut suspects = false;
    i = id;
    while i < shape.buckets {
        let (records, mut word) = (part.bucket(i), part.words.load_volatile(i));
        suspects |= word & SUSPECT != 0;
        if CHECK {
            let hashes = records.map(|e| part.hash::<L>(e));
            let (gone, tied) = lesser_copies::<L>(part, records, hashes, !word);
            suspects |= tied;
            if gone != 0 {
                dropped += gone.count_ones();
                word |= gone << DROPPED;
                part.words.fetch_or(i, gone << DROPPED);
                unroll::<4>(|s| {
                    if gone >> s & 1 != 0 {
                        part.slots.store_volatile(4 * i + s as u32, EMPTY);
                    }
                });
            }
        }
        let bucket = if word >> DROPPED & FREE != 0 {
            thinned::<L>(part, lists, p, i, records, word, homeless)
        } else {
            finished::<L>(part, records, word)
        };
        write_bucket::<L>(slots, shape.place(p, i), bucket);
        i += THREADS;
    }
    let mut resolved = false;
    if CHECK {
        // F. Where nothing is suspect, which is normal, this was all.
        resolved = t.barrier_count(suspects) != 0;
        if resolved {
            i = id;
            while i < shape.buckets {
                let (records, taken) = (part.bucket(i), !part.words.load_volatile(i));
                let mut here = 0u32;
                unroll::<4>(|s| {
                    let pair = taken >> s & 1 != 0 && records[s] != EMPTY;
                    here |= ((pair && part.is_suspect::<L>(records[s])) as u32) << s;
                });
                while here != 0 {
                    let slot = 4 * i + here.trailing_zeros();
                    here &= here - 1;
                    dropped += resolve::<L>(part, lists, slot, homeless, source.contested_bits, contested) as u32;
                }
                i += THREADS;
            }
            i = id;
            while i < homeless {
                let e = lists.second.load_volatile(i);
                if part.is_suspect::<L>(e) {
                    let slot = shape.buckets * 4 + i;
                    dropped += resolve::<L>(part, lists, slot, homeless, source.contested_bits, contested) as u32;
                } else {
                    list.store(i, e);
                }
                i += THREADS;
            }
            t.barrier();
            // By the threads that have written them before.
            i = id;
            while i < shape.buckets {
                let word = part.words.load(i);
                if word & CHANGED != 0 {
                    let bucket = thinned::<L>(part, lists, p, i, part.bucket(i), word, homeless);
                    write_bucket::<L>(slots, shape.place(p, i), bucket);
                }
                i += THREADS;
            }
        }
        dropped = block::warp_inclusive_sum(t, dropped);
        if t.lane() == 31 && dropped != 0 {
            build_state.fetch_add(state::DROPPED, dropped);
        }
    }

    // G.
    i = id;
    while i < homeless {
        // Both buckets of the pair are full, and its class is marked in the first: a lookup comes here.
        if !resolved || list.load(i) != EMPTY {
            let done = stash::insert::<L>(stash, source.stash_bits, L::pair_of(lists.second.load(i), from));
            build_state.fetch_add(if done { state::STASHED } else { state::FAILED }, 1);
        }
        i += THREADS;
    }
}

/// A bucket of these records as it is written out.
#[inline(always)]
fn finished<L: Recorded>(part: Partition, records: [u64; 4], word: u32) -> [L::Pair; 4] {
    let mut bucket = [L::EMPTY_PAIR; 4];
    unroll::<4>(|s| {
        if word >> s & 1 == 0 {
            bucket[s] = L::pair_of(records[s], part.from);
        }
    });
    let taken = !word & FREE;
    if taken == FREE {
        bucket = with_class_bits::<L>(bucket, word >> CLASS);
    } else if taken & (taken + 1) != 0 {
        // A slot before others was given back.
        bucket = empty_last::<L>(bucket);
    }
    bucket
}
/// A bucket some of whose pairs were dropped, as it is written out.
#[inline(always)]
fn thinned<L: Recorded>(
    part: Partition,
    lists: Lists,
    p: u32,
    at: u32,
    records: [u64; 4],
    word: u32,
    homeless: u32,
) -> [L::Pair; 4] {
    let shape = part.shape;
    let gone = (word | word >> DROPPED) & FREE;
    // A lookup may have to look further than here, which it does only if the bucket is full.
    let hides = word & FREE == 0 && (word >> CLASS & 0xF != 0 || homeless != 0);
    let (mut bucket, mut filler) = ([L::EMPTY_PAIR; 4], 0);
    if hides && gone != 0 && shape.all_buckets() == 1 {
        // Every key belongs here.
        lists.build_state.fetch_add(state::FAILED, 1);
        return bucket;
    }
    unroll::<4>(|s| {
        if gone >> s & 1 == 0 {
            bucket[s] = L::pair_of(records[s], part.from);
        } else if hides {
            filler = shape.filler(shape.place(p, at) as u32, filler);
            bucket[s] = L::with_head((filler as u64) << L::HASH_SHIFT, 0);
            filler += 1;
        }
    });
    if gone == 0 || hides { with_class_bits::<L>(bucket, word >> CLASS) } else { empty_last::<L>(bucket) }
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

macro_rules! entries { ($($(#[$doc:meta])* $name:ident $layout:ty, $check:literal;)*) => { $(
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
        build::<$layout, $check>(
            t, shape, source, stamps, pairs, counts, valid, overflow, slots, stash, contested, build_state,
        )
    }
)* } }
entries! {
    /// Builds partition `t.block()`, and finds equal keys.
    ///
    /// `counts`, `valid`: pairs that came to each bin of both passes, and at most how many of them are in it: all ones if all are. `overflow`: the overflow areas of the
    /// passes, whose pairs `build_state` counts. The stash is empty, but for what other blocks put there.
    map_build Narrow, true;
    /// The same for wide pairs.
    map_build_wide Wide<u64, u64>, true;
    /// As `map_build`, where no two keys are equal.
    map_build_unchecked Narrow, false;
    /// As `map_build_wide`, where no two keys are equal.
    map_build_unchecked_wide Wide<u64, u64>, false;
}

/// Phase C for the pairs `next..to` of the second list, one lane each; what is given up is appended to the first list. Tells how many
/// copies it dropped.
#[inline(always)]
fn evict<L: Recorded, const CHECK: bool>(t: Thread, part: Partition, lists: Lists, mut next: u32, to: u32) -> u32 {
    let (shape, lane, lengths) = (part.shape, t.lane(), lists.lengths);
    let (mut active, mut x, mut bucket, mut moves, mut dropped) = (false, EMPTY, 0, 0, 0);
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
            let hashes = y.map(|e| part.hash::<L>(e));
            let lesser = if CHECK { lesser_copies::<L>(part, y, hashes, FREE).0 } else { 0 };
            if lesser != 0 {
                // It needs no slot any more.
                let slot = lesser.trailing_zeros();
                if part.slots.cas(4 * bucket + slot, pick(slot, y), x) == pick(slot, y) {
                    dropped += 1;
                    active = false;
                }
                continue;
            }
            let other = hashes.map(|h| shape.other(h, bucket));
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
    dropped
}

/// All pairs of slots of a bucket.
const TWO_OF_FOUR: [(usize, usize); 6] = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)];
/// Of copies in a bucket, the slots of those that need not stay, a bit each; and whether some are left of which that is not known: their
/// key is suspect. `taken`: the slots that hold a pair.
#[inline(always)]
fn lesser_copies<L: Recorded>(part: Partition, records: [u64; 4], hashes: [u32; 4], taken: u32) -> (u32, bool) {
    let alike = |(a, b): (usize, usize)| hashes[a] == hashes[b] && taken >> a & taken >> b & 1 != 0;
    let (mut any, mut lesser, mut tied) = (false, 0, false);
    unroll::<6>(|i| any |= alike(TWO_OF_FOUR[i]));
    if any {
        unroll::<6>(|i| {
            let (a, b) = TWO_OF_FOUR[i];
            if alike((a, b)) && L::same_key(records[a], records[b], part.from) {
                let (of_a, of_b) = (L::stamp_of(records[a], part.from), L::stamp_of(records[b], part.from));
                if of_a == of_b || of_a.max(of_b) == part.from.stamps.unknown() {
                    part.suspect::<L>(records[a]);
                    tied = true;
                } else {
                    lesser |= 1 << if of_a < of_b { a } else { b };
                }
            }
        });
    }
    (lesser, tied)
}
/// Adds the key of a copy that stays to the contested ones, if another one may have to: several had its stamp, the greatest, or it is
/// not known.
#[inline(always)]
fn undecided<L: Recorded>(
    part: Partition,
    lists: Lists,
    stays: u64,
    greatest: u32,
    ties: bool,
    contested_bits: u32,
    contested: Buf<u64>,
) {
    let (stamps, build_state) = (part.from.stamps, lists.build_state);
    let unknown = greatest == stamps.unknown();
    if ties || unknown {
        contest::<L>(contested, contested_bits, L::key(L::pair_of(stays, part.from)), build_state);
        // Where copies of it are: in the stretch of its stamp, if it has one.
        if unknown {
            build_state.fetch_max(state::FROM, stamps.from(greatest));
        } else {
            build_state.store_relaxed(state::STRETCHES + greatest, 1);
        }
    }
}

/// Phase F for the pair in slot `at`, or behind the slots for homeless pair `at - slots`: if it is the first of several equal
/// ones, it takes the place of all, with the record that stays; else it is marked as dropped, which is what is told.
///
/// Others read the record meanwhile: the one that stays has the same key, and only the first copy decides.
#[inline(always)]
fn resolve<L: Recorded>(
    part: Partition,
    lists: Lists,
    at: u32,
    homeless: u32,
    contested_bits: u32,
    contested: Buf<u64>,
) -> bool {
    let slots = part.shape.buckets * 4;
    let me = if at < slots { part.slots.load_volatile(at) } else { lists.second.load_volatile(at - slots) };
    if at >= slots {
        lists.first.store(at - slots, me);
    }
    let h = part.hash::<L>(me);
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
            part.words.fetch_or(at / 4, CHANGED | 1 << (DROPPED + at % 4));
        } else {
            lists.first.store(at - slots, EMPTY);
        }
        return true;
    }
    if at < slots {
        part.slots.store_volatile(at, best);
        part.words.fetch_or(at / 4, CHANGED);
    } else {
        lists.second.store_volatile(at - slots, best);
    }
    undecided::<L>(part, lists, best, greatest, ties, contested_bits, contested);
    false
}

/// Adds a key to the contested ones, and to their [filter](CONTESTED_FILTER).
#[inline(always)]
fn contest<L: Layout>(contested: Buf<u64>, bits: u32, key: L::Mixed, build_state: Buf<u32>) {
    let mask = (1u32 << (bits & 31)) - 1;
    let (mut at, mut looked) = (stash::start(L::hash(key), bits), 0);
    // A table as full as this would cost more than building in the other way.
    while looked <= mask.min(MAX_PROBES) {
        let there = contested.cas(at, EMPTY, key.widened());
        if there == EMPTY {
            build_state.fetch_add(state::CONTESTED, 1);
            let bit = stash::start(L::hash(key), CONTESTED_FILTER);
            contested.fetch_and((1u64 << (bits & 31)) + bit as u64 / 64, !(1 << (bit & 63)));
        }
        if there == EMPTY || there == key.widened() {
            return;
        }
        at = (at + 1) & mask;
        looked += 1;
    }
    build_state.fetch_add(state::FAILED, 1);
}
