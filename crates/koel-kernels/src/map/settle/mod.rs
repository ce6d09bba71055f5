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

use super::stamps::Stamps;
use super::{FILTER_WORDS, ranked};
use crate::table::ending::{clear_bins, clear_state, ends, grid_barrier, strided, write_header};
use crate::table::layout::{Layout, Narrow, Number, Shape, TableMut, Wide};
use crate::table::state;
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
    let (begin, step) = strided(t, THREADS);
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
