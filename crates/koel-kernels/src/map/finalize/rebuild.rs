//! Repeats a failed build in device memory, pair by pair with atomics.
use super::search::{heads, read_pair, with_value, write_pair, write_stashed};
use super::{BuildOutput, lock_words};
use crate::hash::mix::{mix, redrawn};
use crate::hash::mulhi;
use crate::map::build::write_bucket;
use crate::map::{contested_words, rank};
use crate::table::ending::MAX_ATTEMPTS;
use crate::table::ending::{grid_barrier, strided};
use crate::table::layout::{BUCKET, EMPTY, Layout, Number, class, empty_last, with_class_bits};
use crate::table::{stash, state};
use koel_simt::{Buf, Thread, unroll};

/// Evictions of a repeated build after which a pair goes to the stash.
pub(super) const MAX_MOVES: u32 = 500;

/// Builds everything again from the input: see the module. Until the end, ranks stand in place of
/// values.
#[inline(always)]
pub(super) fn rebuild<L: Layout>(t: Thread, built: BuildOutput<L>, times: &mut u32) {
    let BuildOutput { shape, build_state, .. } = built;
    let (begin, step) = strided(t, super::THREADS);
    let buckets = shape.all_buckets();
    let waiting = lock_words(buckets);
    let steps = Steps { t, built, begin, step, buckets, waiting };
    let mut attempt = 1;
    // All threads know now that the build has failed.
    grid_barrier(t, build_state, times);
    loop {
        let seed = steps.seed(attempt);
        steps.clear_table();
        steps.clear_contested();
        state::begin_attempt(t, build_state, attempt, seed);
        grid_barrier(t, build_state, times);
        steps.meet_all(seed);
        grid_barrier(t, build_state, times);
        steps.insert_waiting();
        grid_barrier(t, build_state, times);
        let lost = build_state.load_relaxed(state::FAILED) != 0;
        attempt += 1;
        // All threads must read the outcome before any clears it.
        grid_barrier(t, build_state, times);
        if !lost {
            break;
        }
        if attempt > MAX_ATTEMPTS {
            if t.global_id() == 0 {
                build_state.store_relaxed(state::ATTEMPTS, attempt);
            }
            break;
        }
    }
    steps.mark_buckets();
    steps.finish_stash();
    grid_barrier(t, build_state, times);
    steps.finish_buckets();
}

/// What the steps of a repeated build work on. The threads of the grid share every loop.
#[derive(Clone, Copy)]
struct Steps<L: Layout> {
    t: Thread,
    built: BuildOutput<L>,
    /// The thread's first index.
    begin: u64,
    /// The thread's stride.
    step: u64,
    buckets: u64,
    /// The words before the waiting table.
    waiting: u64,
}

impl<L: Layout> Steps<L> {
    /// Returns the seed of an attempt.
    #[inline(always)]
    fn seed(self, attempt: u32) -> u32 {
        let finalizing = self.built.finalizing;
        let keeps_seed = attempt == 1 && finalizing.keeps_seed != 0;
        if keeps_seed { finalizing.seed } else { redrawn(finalizing.redraws, attempt) }
    }
    /// Clears the buckets, the waiting table, the stash, and the locks and marks.
    #[inline(always)]
    fn clear_table(self) {
        let Steps { begin, step, buckets, waiting, .. } = self;
        let BuildOutput { finalizing, slots, stash, locks, .. } = self.built;
        let stash_words = (1u64 << finalizing.stash_bits) * L::SLOT_WORDS as u64;
        let mut i = begin;
        while i < buckets * L::WORDS as u64 {
            // The words after the heads hold ranks, initially 0.
            let head = i as usize % L::WORDS < BUCKET;
            slots.store_relaxed(i, if head { EMPTY } else { 0 });
            i += step;
        }
        i = begin;
        while i < finalizing.waiting as u64 * L::SLOT_WORDS as u64 {
            let head = (i as usize).is_multiple_of(L::SLOT_WORDS);
            locks.store_relaxed(waiting + i, if head { EMPTY } else { 0 });
            i += step;
        }
        i = begin;
        while i < stash_words {
            stash.store_relaxed(i, EMPTY);
            i += step;
        }
        i = begin;
        while i < waiting {
            locks.store_relaxed(i, 0);
            i += step;
        }
    }
    /// Clears the table of contested keys.
    #[inline(always)]
    fn clear_contested(self) {
        let Steps { begin, step, .. } = self;
        let BuildOutput { finalizing, contested, ranks, .. } = self.built;
        let mut i = begin;
        while i < 1 << finalizing.contested_bits {
            ranks.store_relaxed(i, 0);
            i += step;
        }
        i = begin;
        while i < contested_words(finalizing.contested_bits) as u64 {
            contested.store_relaxed(i, EMPTY);
            i += step;
        }
    }
    /// Runs the first phase, in which no pair moves.
    #[inline(always)]
    fn meet_all(self, seed: u32) {
        let Steps { built, begin, step, waiting, .. } = self;
        let BuildOutput { finalizing, stamps, build_state, .. } = built;
        let mut dropped = 0;
        let mut i = begin;
        while i < finalizing.n as u64 {
            // Greatest rank first, so that later copies of a key only read.
            let at = if stamps.keep_first != 0 { i as u32 } else { finalizing.n - 1 - i as u32 };
            let mixed = L::mixed(seed, built.keys.get_stream(at));
            let rank = rank(at, stamps.keep_first);
            if mixed == L::AMBIGUOUS {
                build_state.fetch_max(state::HELD, rank);
                build_state.fetch_add(state::HELD_COPIES, 1);
            } else {
                dropped += meet(built, waiting, mixed, rank) as u32;
            }
            i += step;
        }
        if dropped != 0 {
            build_state.fetch_add(state::DROPPED, dropped);
        }
    }
    /// Runs the second phase, in which the waiting keys evict others.
    #[inline(always)]
    fn insert_waiting(self) {
        let Steps { t, built, begin, step, waiting, .. } = self;
        let BuildOutput { finalizing, locks, .. } = built;
        let mut i = begin;
        while i < finalizing.waiting as u64 {
            let at = waiting + i * L::SLOT_WORDS as u64;
            let head = locks.load_relaxed(at);
            if head != EMPTY {
                let behind = if L::SLOT_WORDS > 1 { locks.load_relaxed(at + 1) } else { 0 };
                insert(t, built, L::with_head(head, behind));
            }
            i += step;
        }
    }
    /// Returns the first word of the marks, which follow the locks: sixteen buckets per word.
    #[inline(always)]
    fn marks(self) -> u64 {
        self.buckets.div_ceil(64)
    }
    /// Marks the class of a key that overflowed.
    #[inline(always)]
    fn mark(self, h: u32) {
        let first = self.built.shape.first_place(h);
        self.built
            .locks
            .fetch_or(self.marks() + first as u64 / 16, 1 << (first % 16 * 4 + class(h)));
    }
    /// Marks the classes of the keys in their second buckets.
    #[inline(always)]
    fn mark_buckets(self) {
        let Steps { begin, step, buckets, .. } = self;
        let BuildOutput { shape, slots, .. } = self.built;
        let mut i = begin;
        while i < buckets {
            let heads = heads::<L>(slots, i as u32);
            unroll::<4>(|s| {
                let h = L::hash(L::key_in(heads[s]));
                if heads[s] != EMPTY && shape.first_place(h) as u64 != i {
                    self.mark(h);
                }
            });
            i += step;
        }
    }
    /// Marks the classes of the keys in the stash, and replaces their ranks by values.
    #[inline(always)]
    fn finish_stash(self) {
        let Steps { built, begin, step, .. } = self;
        let BuildOutput { finalizing, stash, .. } = built;
        let mut i = begin;
        while i < 1 << finalizing.stash_bits {
            let head = stash.load_relaxed(i * L::SLOT_WORDS as u64);
            if head != EMPTY {
                self.mark(L::hash(L::key_in(head)));
                let behind = if L::SLOT_WORDS > 1 { stash.load_relaxed(i * 2 + 1) } else { 0 };
                write_stashed::<L>(stash, i as u32, with_value(built, L::with_head(head, behind)));
            }
            i += step;
        }
    }
    /// Writes the buckets, with values in place of ranks, and with class bits.
    #[inline(always)]
    fn finish_buckets(self) {
        let Steps { built, begin, step, buckets, .. } = self;
        let BuildOutput { slots, locks, .. } = built;
        let mut i = begin;
        while i < buckets {
            let mut bucket = [0, 1, 2, 3].map(|s| read_pair::<L>(slots, i as u32, s));
            let mut full = true;
            unroll::<4>(|s| {
                if L::head(bucket[s]) != EMPTY {
                    bucket[s] = with_value(built, bucket[s]);
                } else {
                    (bucket[s], full) = (L::EMPTY_PAIR, false);
                }
            });
            let word = locks.load_relaxed(self.marks() + i / 16);
            let bits = (word >> (i as u32 % 16 * 4)) as u32 & 0xF;
            let bucket =
                if full { with_class_bits::<L>(bucket, bits) } else { empty_last::<L>(bucket) };
            write_bucket::<L>(slots, i, bucket);
            i += step;
        }
    }
}

/// Gives a key a slot while no pair moves: an empty slot of its buckets or of the waiting table. If
/// the key already has a slot, raises the rank there. Returns whether it had one.
///
/// Copies of a key meet in one slot: each takes the first that is empty when it arrives, and no
/// earlier slot becomes empty again.
#[inline(always)]
pub(super) fn meet<L: Layout>(
    built: BuildOutput<L>,
    waiting: u64,
    key: L::Mixed,
    rank: u32,
) -> bool {
    let BuildOutput { shape, finalizing, slots, locks, build_state, .. } = built;
    let h = L::hash(key);
    let (first, second) = (shape.first_place(h), shape.second_place(h));
    let mut i = 0;
    while i < 8 {
        let bucket = if i < 4 { first } else { second };
        let at = bucket as u64 * L::WORDS as u64 + (i & 3);
        match claim::<L>(slots, at, at + BUCKET as u64, key, rank) {
            Claim::Other => i += 1,
            claim => return claim == Claim::Met,
        }
    }
    let (mut slot, mut looked) = (mulhi(stash::spread::<L>(key), finalizing.waiting), 0);
    while looked < finalizing.waiting {
        let at = waiting + slot as u64 * L::SLOT_WORDS as u64;
        match claim::<L>(locks, at, at + 1, key, rank) {
            Claim::Other => slot = if slot + 1 == finalizing.waiting { 0 } else { slot + 1 },
            claim => return claim == Claim::Met,
        }
        looked += 1;
    }
    build_state.fetch_add(state::FAILED, 1);
    false
}

/// The owner of a slot that was tried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// Nobody; now this key.
    New,
    /// This key.
    Met,
    /// Another key.
    Other,
}

#[inline(always)]
pub(super) fn claim<L: Layout>(
    array: Buf<u64>,
    at: u64,
    behind: u64,
    key: L::Mixed,
    rank: u32,
) -> Claim {
    let head = L::head(L::pair(key, L::Value::narrowed(rank as u64)));
    let mut there = array.load_relaxed(at);
    let mut claim = Claim::Met;
    if there == EMPTY {
        there = array.cas(at, EMPTY, head);
        if there == EMPTY {
            (there, claim) = (head, Claim::New);
        }
    }
    if L::key_in(there) != key {
        return Claim::Other;
    }
    // A head holds the rank in the bits above the key.
    if L::SLOT_WORDS > 1 {
        if array.load_relaxed(behind) < rank as u64 {
            array.fetch_max(behind, rank as u64);
        }
    } else if there < head {
        array.fetch_max(at, head);
    }
    claim
}

/// Inserts a key that has no other copy, with its rank.
#[inline(always)]
pub(super) fn insert<L: Layout>(t: Thread, built: BuildOutput<L>, mut pair: L::Pair) {
    let BuildOutput { shape, finalizing, build_state, slots, stash, locks, .. } = built;
    let mut moves = 0;
    loop {
        let h = L::hash(L::key(pair));
        let (first, second) = (shape.first_place(h), shape.second_place(h));
        // The attempt has failed already: other threads lost pairs.
        if build_state.load_relaxed(state::FAILED) != 0 {
            return;
        }
        if !lock(t, locks, first, second) {
            continue;
        }
        let mut done = true;
        if let Some((bucket, slot)) = empty_slot::<L>(slots, first, second) {
            write_pair::<L>(slots, bucket, slot, pair);
        } else if moves < MAX_MOVES {
            // Evicts a pair, which is in no slot until it is inserted again.
            let draw = mix(h.wrapping_add(moves));
            let (bucket, slot) = (if draw & 4 != 0 { first } else { second }, draw & 3);
            let evicted = read_pair::<L>(slots, bucket, slot);
            write_pair::<L>(slots, bucket, slot, pair);
            (pair, done) = (evicted, false);
            moves += 1;
        } else if stash::insert_near::<L>(stash, finalizing.stash_bits, pair) {
            build_state.fetch_add(state::STASHED, 1);
        } else {
            build_state.fetch_add(state::FAILED, 1);
        }
        unlock(t, locks, first, second);
        if done {
            return;
        }
    }
}

#[inline(always)]
pub(super) fn empty_slot<L: Layout>(
    slots: Buf<u64>,
    first: u32,
    second: u32,
) -> Option<(u32, u32)> {
    let mut empty = None;
    unroll::<2>(|b| {
        let bucket = if b == 0 { second } else { first };
        let heads = heads::<L>(slots, bucket);
        unroll::<4>(|s| {
            if heads[3 - s] == EMPTY {
                empty = Some((bucket, 3 - s as u32));
            }
        });
    });
    empty
}

/// Tries to lock two buckets, which may be the same. A lock is one bit. After locking, all writes
/// under earlier locks are visible. The lower bucket is locked first: otherwise two threads of a
/// warp that lock the same two buckets in opposite orders would back off forever.
#[inline(always)]
#[track_caller]
pub(super) fn lock(t: Thread, locks: Buf<u64>, a: u32, b: u32) -> bool {
    let (a, b) = (a.min(b), a.max(b));
    if locks.fetch_or(a / 64, bit(a)) & bit(a) != 0 {
        return false;
    }
    if a != b && locks.fetch_or(b / 64, bit(b)) & bit(b) != 0 {
        locks.fetch_and(a / 64, !bit(a));
        return false;
    }
    t.fence();
    true
}

#[inline(always)]
#[track_caller]
pub(super) fn unlock(t: Thread, locks: Buf<u64>, a: u32, b: u32) {
    t.fence();
    locks.fetch_and(a / 64, !bit(a));
    if a != b {
        locks.fetch_and(b / 64, !bit(b));
    }
}

#[inline(always)]
pub(super) fn bit(bucket: u32) -> u64 {
    1 << (bucket & 63)
}
