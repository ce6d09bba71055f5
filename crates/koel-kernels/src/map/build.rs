//! One block turns one partition into its buckets, in shared memory, and writes them out once: 8 bytes read and 8 / load
//! written a pair.
//!
//! Phases, with a barrier between each two:
//! * A. Every pair counts itself into its first bucket; the first four have their slots. The others are listed.
//! * B. The listed ones try their second bucket in the same way, and mark their class in the first. If the list was too short,
//!   the next ones are listed.
//! * C. The rest evicts: looks at the four pairs of its bucket, moves one whose other bucket has room, or swaps with one and
//!   goes on with that. Buckets are read while others change them. Whatever was seen is confirmed before it counts: a slot
//!   is taken by clearing its bit among the free slots of its bucket, and a pair is replaced by compare-and-swap of all its
//!   64 bits.
//! * D. What C gave up tries both buckets again, now that nobody gives slots back any more, then goes to the stash.
//! * E. Full buckets are ordered so that they tell their class bits, and everything is written out. If asked, equal keys are
//!   found here: all copies of a key are in its two buckets or in the stash.
use super::layout::{AMBIGUOUS, EMPTY, Shape, class, with_class_bits};
use super::partition::OVERFLOW;
use super::{header, stash};
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
    buckets * 32 + buckets.next_multiple_of(4) * 4 + (list + second_list(list)) * 8 + 16
}
/// The length of the second list.
#[inline(always)]
const fn second_list(list: u32) -> u32 {
    list * 5 / 8
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
    /// Pairs that may miss their first bucket in one round.
    pub list: u32,
}
// SAFETY: plain numbers, no padding.
#[cfg(not(target_arch = "nvptx64"))]
unsafe impl koel_simt::Arg for Source {}

/// The partition that a block works on.
#[derive(Clone, Copy)]
struct Partition {
    shape: Shape,
    slots: Shared<u64>,
    /// A word for each bucket. First, bits 0-15 count the pairs that came; later, bits 0-3 are the free slots. Bits 20-23:
    /// the classes that overflowed.
    words: Shared<u32>,
}
const COUNT: u32 = 0xFFFF;
const FREE: u32 = 0xF;
const CLASS: u32 = 20;

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
    fn try_second(self, e: u64) -> bool {
        let h = e as u32;
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
}

/// Builds partition `t.block()`.
///
/// `counts`, `valid`: pairs that came to each bin, and at most how many of them are in it. `overflow_first`,
/// `overflow_second`: the overflow areas of the passes, whose pairs `table_header` counts.
#[kernel(threads = 256, min_blocks = 4, shared = shared_bytes(shape.buckets, source.list), starts_early)]
pub fn map_build(
    t: Thread,
    shape: Shape,
    source: Source,
    pairs: In<u64>,
    counts: In<u32>,
    valid: In<u32>,
    overflow_first: In<u64>,
    overflow_second: In<u64>,
    slots: Buf<u64>,
    stash: Buf<u64>,
    table_header: Buf<u32>,
) {
    let mut shared = t.shared();
    let part = Partition {
        shape,
        slots: shared.array::<u64>(shape.buckets * 4),
        words: shared.array::<u32>((shape.buckets + 3) & !3),
    };
    let list = shared.array::<u64>(source.list);
    let missed_twice = shared.array::<u64>(second_list(source.list));
    let lengths = shared.array::<u32>(4); // of the two lists, and of what C gave up
    let (id, p) = (t.id(), t.block());

    t.wait_for_previous();
    t.let_next_start();
    let count = counts.get(p).min(valid.get(p)).min(source.room);
    let (mut e, mut ambiguous) = ([EMPTY; ITEMS], 0);
    unroll::<ITEMS>(|j| {
        if j % 2 == 0 {
            let i = ((j / 2) as u32 * THREADS + id) * 2;
            if i < count {
                let U64x2([a, b]) = pairs.x2().get_stream((p * source.room + i) / 2);
                e[j] = a;
                e[(j + 1) % ITEMS] = if i + 1 < count { b } else { EMPTY };
                // What was read looks like nothing only if it is the ambiguous pair.
                ambiguous += (a == EMPTY) as u32 + (i + 1 < count && b == EMPTY) as u32;
            }
        }
    });
    if ambiguous != 0 {
        table_header.fetch_add(header::AMBIGUOUS, ambiguous);
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
    if id < 4 {
        lengths.store(id, 0);
    }
    t.barrier();

    // A.
    let mut missed = 0u32;
    unroll::<ITEMS>(|j| {
        if e[j] != EMPTY && !part.count_in(shape.first(e[j] as u32), e[j]) {
            missed |= 1 << j;
        }
    });
    // Normally one round: the list holds all that missed.
    loop {
        let all = missed.count_ones();
        let before = block::warp_inclusive_sum(t, all);
        let mut at = 0;
        if t.lane() == 31 {
            at = lengths.fetch_add(0, before);
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
        let here = lengths.load_volatile(0).min(source.list);
        let mut i = id;
        while i < here {
            let e = list.load(i);
            if !part.try_second(e) {
                miss_twice(e, missed_twice, lengths, stash, source, table_header);
            }
            i += THREADS;
        }
        t.barrier();
        if unlisted == 0 {
            break;
        }
        if id == 0 {
            lengths.store(0, 0);
        }
        t.barrier();
    }
    // A and B for what waits behind the bins of the passes: normally two words are read.
    let (first, second) =
        (table_header.load_relaxed(header::OVERFLOW_FIRST), table_header.load_relaxed(header::OVERFLOW_SECOND));
    let (first, second) = (first.min(OVERFLOW), second.min(OVERFLOW));
    let mut i = id;
    while i < first + second {
        let e = if i < first { overflow_first.get(i) } else { overflow_second.get(i - first) };
        if shape.partition(e as u32) == p {
            if e == EMPTY {
                table_header.fetch_add(header::AMBIGUOUS, 1);
            } else if !part.count_in(shape.first(e as u32), e) && !part.try_second(e) {
                miss_twice(e, missed_twice, lengths, stash, source, table_header);
            }
        }
        i += THREADS;
    }
    t.barrier();

    // Counts become free slots.
    let mut i = id;
    while i < shape.buckets {
        let word = part.words.load(i);
        let taken = (word & COUNT).min(4);
        part.words.store(i, word & (0xF << CLASS) | (FREE << taken) & FREE);
        i += THREADS;
    }
    t.barrier();

    // C.
    let left = lengths.load_volatile(1).min(second_list(source.list));
    let warps = left.div_ceil(PAIRS_PER_WARP).clamp(1, THREADS / 32);
    if t.warp_id() < warps {
        // A warp's share, without a division that could be by zero.
        let share = left.checked_div(warps).unwrap_or(0) + 1;
        let from = (share * t.warp_id()).min(left);
        evict(t, part, missed_twice, from, (from + share).min(left), list, lengths);
    }
    t.barrier();

    // D.
    let given_up = lengths.load_volatile(2);
    i = id;
    while i < given_up {
        let e = list.load(i);
        let first = shape.first(e as u32);
        // Its class is marked: it missed its first bucket once, or was evicted from it.
        let slot = part.take_slot(first).or_else(|| part.take_slot(shape.other(e as u32, first)));
        match slot {
            Some(slot) => part.slots.store_volatile(slot, e),
            None => put_into_stash(e, stash, source, table_header),
        }
        i += THREADS;
    }
    t.barrier();

    // E.
    let mut equal = false;
    i = id;
    while i < shape.buckets {
        let mut bucket = part.bucket(i);
        if source.check != 0 {
            equal |= has_equal_keys(part, i, bucket);
        }
        let word = part.words.load(i);
        if bucket[0] != EMPTY && bucket[1] != EMPTY && bucket[2] != EMPTY && bucket[3] != EMPTY {
            bucket = with_class_bits(bucket, word >> CLASS);
        } else {
            bucket = empty_last(bucket);
        }
        let to = 2 * shape.place(p, i);
        slots.x2().store_stream(to, U64x2([bucket[0], bucket[1]]));
        slots.x2().store_stream(to + 1, U64x2([bucket[2], bucket[3]]));
        i += THREADS;
    }
    if source.check != 0 && t.barrier_count(equal) != 0 && id == 0 {
        table_header.fetch_add(header::DUPLICATED, 1);
    }
}

/// A pair that found both its buckets full: listed for phase C. If that list is full too, the stash takes it: the buckets stay
/// full.
#[inline(always)]
fn miss_twice(
    e: u64,
    list: Shared<u64>,
    lengths: Shared<u32>,
    stash: Buf<u64>,
    source: Source,
    table_header: Buf<u32>,
) {
    let at = lengths.fetch_add(1, 1);
    if at < second_list(source.list) {
        list.store(at, e);
    } else {
        put_into_stash(e, stash, source, table_header);
    }
}
/// Both buckets of the pair are full, and its class is marked in the first: a lookup comes here.
#[inline(always)]
fn put_into_stash(e: u64, stash: Buf<u64>, source: Source, table_header: Buf<u32>) {
    if stash::insert(stash, source.stash_bits, e) {
        table_header.fetch_add(header::STASHED, 1);
    } else {
        table_header.fetch_add(header::FAILED, 1);
    }
}

/// Phase C for the pairs `from..to` of `pairs`, one lane each; what is given up is appended to `given_up`.
#[inline(always)]
fn evict(
    t: Thread,
    part: Partition,
    pairs: Shared<u64>,
    from: u32,
    to: u32,
    given_up: Shared<u64>,
    lengths: Shared<u32>,
) {
    let (shape, lane) = (part.shape, t.lane());
    let (mut active, mut x, mut bucket, mut moves, mut next) = (false, EMPTY, 0, 0, from);
    loop {
        // Lanes that are done take the next pairs together.
        let idle = t.warp().ballot(!active);
        if idle != 0 && next < to {
            if !active {
                let i = next + (idle & ((1 << lane) - 1)).count_ones();
                if i < to {
                    x = pairs.load(i);
                    (active, bucket, moves) = (true, shape.first(x as u32), 0);
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
            let other = [0, 1, 2, 3].map(|s| shape.other(y[s] as u32, bucket));
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
                if shape.first(evicted as u32) == bucket {
                    part.words.fetch_or(bucket, class_mark(evicted as u32));
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
            given_up.store(lengths.fetch_add(2, 1), x);
            active = false;
        }
    }
}

/// Whether a pair of this bucket has an equal key beside it, or, if this is its second bucket, in the first.
#[inline(always)]
fn has_equal_keys(part: Partition, bucket: u32, y: [u64; 4]) -> bool {
    let k = y.map(|e| e as u32);
    let mut equal = (k[0] == k[1] && y[1] != EMPTY)
        || ((k[0] == k[2] || k[1] == k[2]) && y[2] != EMPTY)
        || ((k[0] == k[3] || k[1] == k[3] || k[2] == k[3]) && y[3] != EMPTY);
    unroll::<4>(|s| {
        let first = part.shape.first(k[s]);
        if y[s] != EMPTY && first != bucket {
            let z = part.bucket(first);
            unroll::<4>(|r| equal |= z[r] as u32 == k[s] && z[r] != EMPTY);
        }
    });
    equal
}

/// The same pairs in the same order, the empty slots behind them.
#[inline(always)]
fn empty_last([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    let sink = |x: &mut u64, y: &mut u64| {
        if *x == EMPTY {
            (*x, *y) = (*y, EMPTY);
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

/// After a build that was to find equal keys: looks for keys of the stash in the table and elsewhere in the stash, and for the
/// key of the ambiguous pair. One thread a slot of the stash.
#[kernel(threads = 256, independent, starts_early)]
pub fn map_check_stash(
    t: Thread,
    shape: Shape,
    source: Source,
    slots: In<u64>,
    stash: In<u64>,
    table_header: Buf<u32>,
) {
    t.wait_for_previous();
    t.let_next_start();
    let i = t.global_id();
    if i >= 1 << source.stash_bits {
        return;
    }
    let stashed = table_header.load_relaxed(header::STASHED) != 0;
    let ambiguous = if i == 0 { table_header.load_relaxed(header::AMBIGUOUS) } else { 0 };
    let mut equal = ambiguous != 0 && ambiguous + copies(AMBIGUOUS, shape, source, slots, stash, stashed) > 1;
    if stashed {
        let e = stash.get(i);
        equal |= e != EMPTY && copies(e as u32, shape, source, slots, stash, true) > 1;
    }
    if equal {
        table_header.fetch_add(header::DUPLICATED, 1);
    }
}

/// How often a mixed key is in its buckets and in the stash.
#[inline(always)]
fn copies(h: u32, shape: Shape, source: Source, slots: In<u64>, stash: In<u64>, stashed: bool) -> u32 {
    let first = shape.first(h);
    let second = shape.other(h, first);
    let (mut copies, mut bucket) = (0, first);
    loop {
        let at = 2 * shape.place(shape.partition(h), bucket);
        unroll::<2>(|half| {
            let U64x2(two) = slots.x2().get(at + half as u64);
            unroll::<2>(|s| copies += (two[s] as u32 == h && two[s] != EMPTY) as u32);
        });
        if bucket == second {
            break;
        }
        bucket = second;
    }
    // Equal keys follow each other in a run without gaps.
    let mask = (1u32 << source.stash_bits) - 1;
    let (mut at, mut looked) = (stash::start(h, source.stash_bits), 0);
    while stashed && looked <= mask && stash.get(at) != EMPTY {
        copies += (stash.get(at) as u32 == h) as u32;
        at = (at + 1) & mask;
        looked += 1;
    }
    copies
}
