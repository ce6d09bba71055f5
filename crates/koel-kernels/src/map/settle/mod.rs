//! The end of a build: settles what it left open, writes the header, and leaves the memory of the
//! build as it found it.
//!
//! Normally this is a launch of some blocks that read two words. Otherwise the blocks wait for each
//! other between steps, so all of them must be resident: launch no more than the device has
//! multiprocessors.
//!
//! * Contested keys: the stretches of the input where they have copies are searched for the last
//!   (or first) one, whose value replaces what the table has.
//! * A build that failed, because more pairs came to a partition than there is room for: everything
//!   is built again from the input, pair by pair, in device memory. That takes some ten times as
//!   long, and does not depend on how keys are distributed. First nothing moves: a key takes the
//!   first empty slot of its first bucket, of its second if that is full, or else waits in a table
//!   of its own, so that its copies meet in the same slot. Then the keys that wait, each there
//!   once, evict others, under locks of the buckets. If even the stash overflows, which keys chosen
//!   for the seed can bring about, another seed is drawn; the first time too, unless the seed is to
//!   be kept.
mod rebuild;
mod search;

pub(crate) use rebuild::MAX_ATTEMPTS;

use super::stamps::Stamps;
use super::{FILTER_WORDS, ranked};
use crate::table::layout::{Layout, Narrow, Number, Shape, TableMut, Wide};
use crate::table::{header, state};
use koel_simt::{Buf, In, Thread, kernel};
use rebuild::rebuild;
use search::search;
use search::{RAISED, replace};

/// Threads of a block.
const THREADS: u32 = 512;

/// What a build was: a kernel's argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Settling {
    /// Pairs of the input.
    pub n: u32,
    /// Pairs of a block of the first pass: those of one stamp.
    pub tile: u32,
    /// How many such blocks there were.
    pub tiles: u32,
    /// The seed of the build.
    pub seed: u32,
    /// What the [seeds after it](crate::hash::mix::redrawn) follow from.
    pub redraws: u32,
    /// The stash has 2^this slots.
    pub stash_bits: u32,
    /// The table of contested keys has 2^this slots.
    pub contested_bits: u32,
    /// Bins of both passes.
    pub bins: u32,
    /// Slots of the table of keys that wait, behind the locks.
    pub waiting: u32,
    /// 1 if a build that is done again is to keep its seed at first: the table's bytes depend on
    /// it.
    pub keeps_seed: u32,
    /// Whether a build whose keys have no room is left failed, for its caller to begin again by
    /// another seed.
    pub gives_up: u32,
}

/// Words of the locks and marks of so many buckets: a bit each, then four bits each; an even
/// number.
pub const fn lock_words(buckets: u64) -> u64 {
    (buckets.div_ceil(64) + buckets.div_ceil(16)).next_multiple_of(2)
}

/// The memory of a build besides the table: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Memory {
    /// Contested keys and their filter.
    pub contested: Buf<u64>,
    /// The rank of each of them.
    pub ranks: Buf<u32>,
    /// Locks and marks of buckets, and keys that wait.
    pub locks: Buf<u64>,
    /// Of the bins of both passes.
    pub cursors: Buf<u32>,
    /// Of the bins of both passes.
    pub valid: Buf<u32>,
    /// The words that the kernels of a build share.
    pub build_state: Buf<u32>,
}
/// The pairs that a table was built of: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PairsIn<L: Layout> {
    /// The keys.
    pub keys: In<L::Key>,
    /// As many values.
    pub values: In<L::Value>,
}
/// Everything that a build leaves.
#[derive(Clone, Copy)]
struct Built<L: Layout> {
    shape: Shape,
    settling: Settling,
    stamps: Stamps,
    keys: In<L::Key>,
    values: In<L::Value>,
    slots: Buf<u64>,
    stash: Buf<u64>,
    contested: Buf<u64>,
    ranks: Buf<u32>,
    locks: Buf<u64>,
    build_state: Buf<u32>,
}

/// Where a thread begins with what all threads of the grid share, and how far it is to its next.
#[inline(always)]
fn strided(t: Thread) -> (u64, u64) {
    (t.global_id() as u64, t.grid_dim() as u64 * THREADS as u64)
}

/// All blocks of the grid meet here, for the `times`-th time; orders memory between them.
#[inline(always)]
pub(crate) fn grid_barrier(t: Thread, build_state: Buf<u32>, times: &mut u32) {
    *times += 1;
    t.barrier();
    if t.id() == 0 {
        t.fence();
        build_state.fetch_add(state::ARRIVED, 1);
        while build_state.load_acquire(state::ARRIVED) < *times * t.grid_dim() {}
        t.fence();
    }
    t.barrier();
}

/// Ends a build: see the module. At most as many blocks as can be resident at once.
#[kernel(
    threads = 512, min_blocks = 2, shared = (FILTER_WORDS + RAISED) * 8, starts_early,
    for L in [
    Narrow { image = MAP }, Wide<u32, u64> { image = MAP_WIDE },
    Wide<u64, u32> { image = MAP_WIDE }, Wide<u64, u64> { image = MAP_WIDE }
]
)]
pub fn map_settle<L: Layout>(
    t: Thread,
    settling: Settling,
    stamps: Stamps,
    input: PairsIn<L>,
    table: TableMut,
    memory: Memory,
) {
    let PairsIn { keys, values } = input;
    let TableMut { shape, slots, stash, header: table_header, .. } = table;
    let Memory { contested, ranks, locks, cursors, valid, build_state } = memory;
    let built = Built::<L> {
        shape,
        settling,
        stamps,
        keys,
        values,
        slots,
        stash,
        contested,
        ranks,
        locks,
        build_state,
    };
    t.wait_for_previous();
    t.let_next_start();
    let (begin, step) = strided(t);
    clear_bins(begin, step, settling.bins, cursors, valid);
    // Nobody changes these before all blocks have read them, or they are zero and are cleared.
    let failed = build_state.load_relaxed(state::FAILED) != 0;
    let contested = build_state.load_relaxed(state::CONTESTED) != 0;
    let mut times = 0;
    // By another seed as many keys are contested.
    let given_up = failed && !contested && settling.gives_up != 0;
    if given_up {
        // Nothing is put right here.
    } else if failed {
        rebuild(t, built, &mut times);
    } else if contested {
        search(t, built);
        grid_barrier(t, build_state, &mut times);
        replace(t, built);
    }

    if !ends(t, failed || contested, build_state) {
        return;
    }
    let rebuilt = failed && !given_up;
    write_header(
        t,
        settling.n,
        (rebuilt, given_up),
        settling.seed,
        build_state,
        table_header,
        |rank| built.values.get(ranked(rank, stamps.keep_first)).widened(),
    );
    clear_state(t, THREADS, build_state);
}

/// Whether this block ends a build: the last to come here, or the first block if nobody has more to
/// do. All threads of all blocks call it.
#[inline(always)]
pub(crate) fn ends(t: Thread, worked: bool, build_state: Buf<u32>) -> bool {
    if !worked {
        return t.block() == 0;
    }
    t.barrier();
    let mut last = false;
    if t.id() == 0 {
        t.fence();
        last = build_state.fetch_add(state::TICKET, 1) == t.grid_dim() - 1;
        t.fence();
    }
    t.barrier_count(last) != 0
}

/// Writes the header of a build of `n` pairs, from what its kernels counted, by one block; a
/// barrier follows. `held_value`: that of the ambiguous key, of the greatest rank. `rebuilt`:
/// whether it was done again, by the last seed tried; else `seed` is that of the build, and
/// `given_up` tells whether its keys had no room.
#[inline(always)]
pub(crate) fn write_header(
    t: Thread,
    n: u32,
    (rebuilt, given_up): (bool, bool),
    seed: u32,
    build_state: Buf<u32>,
    table_header: Buf<u32>,
    held_value: impl Fn(u32) -> u64,
) {
    // Words that mean nothing yet are zero.
    if t.id() < header::WORDS as u32 {
        table_header.store(t.id(), 0);
    }
    t.barrier();
    if t.id() == 0 {
        let word = |word: u32| build_state.load_relaxed(word);
        let held = word(state::HELD);
        let copies = word(state::HELD_COPIES);
        let value = if held != 0 { held_value(held) } else { 0 };
        let dropped = word(state::DROPPED) + copies - (held != 0) as u32;
        let attempts = word(state::ATTEMPTS);
        let put = |at: u32, value: u32| table_header.store(at, value);
        put(header::SEED, if rebuilt { word(state::SEED) } else { seed });
        put(header::STASHED, word(state::STASHED));
        put(header::HELD, (held != 0) as u32);
        put(header::HELD_VALUE, value as u32);
        put(header::HELD_VALUE + 1, (value >> 32) as u32);
        put(header::PAIRS, n - dropped);
        put(header::DROPPED, dropped);
        put(header::FAILED, (given_up || rebuilt && attempts > MAX_ATTEMPTS) as u32);
        put(header::ATTEMPTS, 1 + attempts);
        put(header::OVERFLOWED, word(state::OVERFLOW_FIRST) + word(state::OVERFLOW_SECOND));
        put(header::CONTESTED, word(state::CONTESTED));
    }
    t.barrier();
}

/// Leaves the words of a build as the next one needs them, by one block of so many threads.
#[inline(always)]
pub(crate) fn clear_state(t: Thread, threads: u32, build_state: Buf<u32>) {
    let mut word = t.id();
    while word < state::WORDS as u32 {
        build_state.store_relaxed(word, 0);
        word += threads;
    }
}

/// Leaves the bins of a build as the next one needs them: each thread its share, from `begin` on.
#[inline(always)]
pub(crate) fn clear_bins(begin: u64, step: u64, bins: u32, cursors: Buf<u32>, valid: Buf<u32>) {
    let mut bin = begin;
    while bin < bins as u64 {
        cursors.store(bin, 0);
        valid.store(bin, !0);
        bin += step;
    }
}
