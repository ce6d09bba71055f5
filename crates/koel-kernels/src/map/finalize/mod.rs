//! Ends a build: settles what the build left open, writes the header, and resets the memory of the
//! build.
//!
//! Normally a few blocks read two words and finish. Otherwise the blocks wait for each other
//! between steps, so all of them must be resident: launch at most one block per multiprocessor.
//!
//! * Contested keys: the tiles of the input that hold their copies are searched for the last
//!   (or first) copy, whose value replaces the one in the table.
//! * A failed build, in which some partition received more pairs than it has room for, is repeated
//!   from the input, pair by pair in device memory. This takes some ten times as long, regardless
//!   of the distribution of keys. In the first phase no pair moves: a key takes the first empty
//!   slot of its first bucket, then of its second, or else a slot of a separate waiting table, so
//!   that its copies meet in one slot. In the second phase the waiting keys, each present once,
//!   evict others under bucket locks. If even the stash overflows, which keys crafted for the seed
//!   can cause, another seed is drawn. The first attempt also draws another seed, unless the seed
//!   is to be kept.
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

/// Threads per block.
const THREADS: u32 = 512;

/// The parameters of a build, as a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Finalizing {
    /// Number of pairs in the input.
    pub n: u32,
    /// Pairs per block of the first pass, which share one stamp.
    pub tile: u32,
    /// Number of blocks of the first pass.
    pub tiles: u32,
    /// The seed of the build.
    pub seed: u32,
    /// The value that [later seeds](crate::hash::mix::redrawn) derive from.
    pub redraws: u32,
    /// Base-2 logarithm of the slots in the stash.
    pub stash_bits: u32,
    /// Base-2 logarithm of the slots in the table of contested keys.
    pub contested_bits: u32,
    /// Number of bins of both passes.
    pub bins: u32,
    /// Slots of the table of waiting keys, which follows the locks.
    pub waiting: u32,
    /// 1 if a repeated build keeps its seed on the first attempt, because the table's bytes depend
    /// on the seed.
    pub keeps_seed: u32,
    /// Whether a build without room for all keys is left failed, so that its caller restarts it
    /// with another seed.
    pub gives_up: u32,
}

/// Returns the words of the locks and marks of `buckets` buckets, at one bit and four bits each,
/// rounded up to an even number.
pub const fn lock_words(buckets: u64) -> u64 {
    (buckets.div_ceil(64) + buckets.div_ceil(16)).next_multiple_of(2)
}

/// The memory of a build other than the table, as a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Memory {
    /// The contested keys and their filter.
    pub contested: Buf<u64>,
    /// The rank of each contested key.
    pub ranks: Buf<u32>,
    /// Locks and marks of buckets, then waiting keys.
    pub locks: Buf<u64>,
    /// Cursors of the bins of both passes.
    pub cursors: Buf<u32>,
    /// Valid counts of the bins of both passes.
    pub valid: Buf<u32>,
    /// The words that the kernels of a build share.
    pub build_state: Buf<u32>,
}
/// The pairs that a table was built from, as a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PairsIn<L: Layout> {
    /// The keys.
    pub keys: In<L::Key>,
    /// The values, one per key.
    pub values: In<L::Value>,
}
/// The output of a build and its parameters.
#[derive(Clone, Copy)]
struct BuildOutput<L: Layout> {
    shape: Shape,
    finalizing: Finalizing,
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

/// Ends a build: see the module. Launch at most as many blocks as can be resident at once.
#[kernel(
    threads = 512, min_blocks = 2, shared = (FILTER_WORDS + RAISED) * 8, starts_early,
    for L in [
    Narrow { image = MAP }, Wide<u32, u64> { image = MAP_WIDE },
    Wide<u64, u32> { image = MAP_WIDE }, Wide<u64, u64> { image = MAP_WIDE }
]
)]
pub fn map_finalize<L: Layout>(
    t: Thread,
    finalizing: Finalizing,
    stamps: Stamps,
    input: PairsIn<L>,
    table: TableMut,
    memory: Memory,
) {
    let PairsIn { keys, values } = input;
    let TableMut { shape, slots, stash, header: table_header, .. } = table;
    let Memory { contested, ranks, locks, cursors, valid, build_state } = memory;
    let built = BuildOutput::<L> {
        shape,
        finalizing,
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
    clear_bins(begin, step, finalizing.bins, cursors, valid);
    // All blocks read the same: the words change only after a barrier, or are zero and cleared.
    let failed = build_state.load_relaxed(state::FAILED) != 0;
    let contested = build_state.load_relaxed(state::CONTESTED) != 0;
    let mut times = 0;
    // Another seed would leave as many keys contested.
    let given_up = failed && !contested && finalizing.gives_up != 0;
    if given_up {
        // The caller restarts the build.
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
        finalizing.n,
        (rebuilt, given_up),
        finalizing.seed,
        build_state,
        table_header,
        |rank| built.values.get(ranked(rank, stamps.keep_first)).widened(),
    );
    clear_state(t, THREADS, build_state);
}
