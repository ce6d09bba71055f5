//! End of a build: writes the header and resets the memory of the build.
//!
//! Normally this is a launch of some blocks that read a word. If the build failed, because a
//! partition received more keys than it has room for or the stash overflowed, the blocks
//! [fill](super::fill) the table again from the input, in device memory, and wait for each other
//! between steps. All of them must therefore be resident: launch no more blocks than the device has
//! multiprocessors. This fallback does not depend on how keys are distributed. Each attempt draws
//! another seed.
use super::build::write_bucket;
use super::fill::{Filling, Outcome, claim, evict, meet, meet_second};
use super::layout::{Member, finished, hash, mixed};
use crate::hash::mix::redrawn;
use crate::table::ending::strided;
use crate::table::ending::{
    MAX_ATTEMPTS, clear_bins, clear_state, ends, grid_barrier, write_header,
};
use crate::table::layout::{EMPTY, Layout, Shape, TableMut};
use crate::table::{stash, state};
use koel_simt::{Buf, In, Thread, kernel};

/// Threads per block.
const THREADS: u32 = 512;

/// Parameters of the build: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Finalizing {
    /// Number of keys in the input.
    pub n: u32,
    /// Hash seed of the build.
    pub seed: u32,
    /// Number from which the [seeds after it](redrawn) are derived.
    pub redraws: u32,
    /// Number of bins of both passes.
    pub bins: u32,
    /// Slots of the table of waiting keys, which follows the marks: more than `n`.
    pub waiting: u32,
    /// Whether to leave a build failed if its keys do not fit, so that the caller restarts it with
    /// another seed.
    pub gives_up: u32,
}

/// Returns the number of buckets whose marks, four bits each, fit a word of `bytes` bytes.
const fn marked(bytes: usize) -> u64 {
    2 * bytes as u64
}
/// Returns the number of key-sized words for the marks of `buckets` buckets.
pub const fn mark_words<K: Member>(buckets: u64) -> u64 {
    buckets.div_ceil(marked(size_of::<K>()))
}

/// A table in device memory.
#[derive(Clone, Copy)]
struct Far<K> {
    shape: Shape,
    slots: Buf<K>,
    marks: Buf<K>,
}
impl<K: Member> Filling<K> for Far<K> {
    #[inline(always)]
    fn first(self, h: u32) -> u32 {
        self.shape.first_place(h)
    }
    #[inline(always)]
    fn other(self, h: u32, place: u32) -> u32 {
        let partition = self.shape.partition(h) * self.shape.buckets;
        partition + self.shape.other(h, place - partition)
    }
    #[inline(always)]
    #[track_caller]
    fn half(self, bucket: u32, half: u32) -> K::Half {
        let first = (2 * bucket as u64 + half as u64) * (K::SLOTS as u64 / 2);
        K::half(|i| self.slots.load_relaxed(first + i as u64))
    }
    #[inline(always)]
    #[track_caller]
    fn last(self, bucket: u32) -> K {
        self.slots.load_relaxed((bucket as u64 + 1) * K::SLOTS as u64 - 1)
    }
    #[inline(always)]
    #[track_caller]
    fn replace(self, bucket: u32, slot: u32, old: K, new: K) -> K {
        self.slots.cas(bucket as u64 * K::SLOTS as u64 + slot as u64, old, new)
    }
    #[inline(always)]
    #[track_caller]
    fn mark(self, bucket: u32, class: u32) {
        let of_word = marked(size_of::<K>());
        let bit = 1u64 << (bucket as u64 % of_word * 4 + class as u64);
        self.marks.fetch_or(bucket as u64 / of_word, K::narrowed(bit));
    }
}

/// Memory of a build except the table: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Memory<K: Member> {
    /// [`mark_words`] words, followed by the number of slots that [`Finalizing`] gives.
    pub spare: Buf<K>,
    /// Cursors of the bins of both passes.
    pub cursors: Buf<u32>,
    /// Valid counts of the bins of both passes.
    pub valid: Buf<u32>,
    /// Words that the kernels of a build share.
    pub build_state: Buf<u32>,
}

/// Ends a build: see the module. Launch no more blocks than can be resident at once.
#[kernel(image = SET, threads = 512, min_blocks = 2, starts_early, for K in [u32, u64])]
pub fn set_finalize<K: Member>(
    t: Thread,
    finalizing: Finalizing,
    keys: In<K>,
    table: TableMut<K>,
    memory: Memory<K>,
) {
    let TableMut { shape, stash_bits, slots, stash, header: table_header } = table;
    let Memory { spare, cursors, valid, build_state } = memory;
    t.wait_for_previous();
    t.let_next_start();
    let (begin, step) = strided(t, THREADS);
    clear_bins(begin, step, finalizing.bins, cursors, valid);
    // No block changes it before all blocks have read it.
    let failed = build_state.load_relaxed(state::FAILED) != 0;
    let rebuilt = failed && finalizing.gives_up == 0;
    if rebuilt {
        let table = Far { shape, slots, marks: spare };
        rebuild(t, finalizing, keys, table, stash, stash_bits, build_state);
    }
    if ends(t, failed, build_state) {
        write_header(
            t,
            finalizing.n,
            (rebuilt, failed && !rebuilt),
            finalizing.seed,
            build_state,
            table_header,
            |_| 0,
        );
        clear_state(t, THREADS, build_state);
    }
}

/// A build from the input, in device memory. What its steps share.
#[derive(Clone, Copy)]
struct Rebuild<K: Member> {
    finalizing: Finalizing,
    keys: In<K>,
    table: Far<K>,
    stash: Buf<u64>,
    stash_bits: u32,
    build_state: Buf<u32>,
    /// The thread's first item of an array, and the distance to its next one.
    begin: u64,
    step: u64,
    buckets: u64,
    /// Number of words of the marks, which the waiting keys follow.
    waiting: u64,
}
impl<K: Member> Rebuild<K> {
    /// Clears the table, the marks, the waiting keys and the stash.
    #[inline(always)]
    fn clear(self) {
        let Rebuild { finalizing, table, stash, stash_bits, begin, step, waiting, .. } = self;
        let mut i = begin;
        while i < self.buckets * K::SLOTS as u64 {
            table.slots.store_relaxed(i, K::EMPTY);
            i += step;
        }
        i = begin;
        while i < waiting + finalizing.waiting as u64 {
            table.marks.store_relaxed(i, if i < waiting { K::narrowed(0) } else { K::EMPTY });
            i += step;
        }
        i = begin;
        while i < (1u64 << stash_bits) * K::Pairs::SLOT_WORDS as u64 {
            stash.store_relaxed(i, EMPTY);
            i += step;
        }
    }
    /// Inserts the keys while nothing moves. Those that find both buckets full wait.
    #[inline(always)]
    fn place(self, seed: u32) {
        let Rebuild { finalizing, keys, build_state, begin, step, .. } = self;
        let mut dropped = 0;
        let mut i = begin;
        while i < finalizing.n as u64 {
            let key = mixed(seed, keys.get_stream(i));
            if key == K::EMPTY {
                build_state.fetch_max(state::HELD, 1);
                build_state.fetch_add(state::HELD_COPIES, 1);
            } else {
                dropped += (self.meet(key) == Outcome::Met) as u32;
            }
            i += step;
        }
        if dropped != 0 {
            build_state.fetch_add(state::DROPPED, dropped);
        }
    }
    #[inline(always)]
    fn meet(self, key: K) -> Outcome {
        let Rebuild { finalizing, table, waiting, .. } = self;
        let mut outcome = meet(table, table.first(hash(key)), key);
        if outcome == Outcome::Full {
            outcome = meet_second(table, key);
        }
        if outcome == Outcome::Full {
            // The table has room for all keys.
            let slots = finalizing.waiting;
            outcome =
                claim(slots, slots, key, |at| table.marks.cas(waiting + at as u64, K::EMPTY, key));
        }
        outcome
    }
    /// Makes room for the waiting keys. Those that end without a slot go to the stash.
    #[inline(always)]
    fn evict(self) {
        let Rebuild { table, stash, stash_bits, build_state, begin, step, waiting, .. } = self;
        let mut i = begin;
        while i < self.finalizing.waiting as u64 {
            let key = table.marks.load_relaxed(waiting + i);
            // If another thread lost a key, this attempt has already failed.
            if key != K::EMPTY
                && build_state.load_relaxed(state::FAILED) == 0
                && let Some(key) = evict(table, key)
            {
                let done = stash::insert_near::<K::Pairs>(
                    stash,
                    stash_bits,
                    K::Pairs::pair(key, K::narrowed(0)),
                );
                build_state.fetch_add(if done { state::STASHED } else { state::FAILED }, 1);
            }
            i += step;
        }
    }
    /// Writes the buckets so that they encode their marks.
    #[inline(always)]
    fn write(self) {
        let table = self.table;
        let mut i = self.begin;
        while i < self.buckets {
            let of_word = marked(size_of::<K>());
            let bits = table.marks.load_relaxed(i / of_word).widened() >> (i % of_word * 4);
            let bucket = [table.half(i as u32, 0), table.half(i as u32, 1)];
            write_bucket::<K>(table.slots, i, finished::<K>(bucket, bits as u32 & 0xF));
            i += self.step;
        }
    }
}

/// Builds the set again from the input: see the module.
#[inline(always)]
fn rebuild<K: Member>(
    t: Thread,
    finalizing: Finalizing,
    keys: In<K>,
    table: Far<K>,
    stash: Buf<u64>,
    stash_bits: u32,
    build_state: Buf<u32>,
) {
    let (begin, step) = strided(t, THREADS);
    let buckets = table.shape.all_buckets();
    let waiting = mark_words::<K>(buckets);
    let build = Rebuild {
        finalizing,
        keys,
        table,
        stash,
        stash_bits,
        build_state,
        begin,
        step,
        buckets,
        waiting,
    };
    let (mut times, mut attempt) = (0, 1);
    // All threads now know that the build has failed.
    grid_barrier(t, build_state, &mut times);
    loop {
        let seed = redrawn(finalizing.redraws, attempt);
        build.clear();
        state::begin_attempt(t, build_state, attempt, seed);
        grid_barrier(t, build_state, &mut times);
        build.place(seed);
        grid_barrier(t, build_state, &mut times);
        build.evict();
        grid_barrier(t, build_state, &mut times);
        let lost = build_state.load_relaxed(state::FAILED) != 0;
        attempt += 1;
        // No thread clears the word before all have read it.
        grid_barrier(t, build_state, &mut times);
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
    build.write();
}
