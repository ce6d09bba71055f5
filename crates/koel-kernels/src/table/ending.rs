//! What the ends of builds share: the grid barrier, the header, and the reset of build state.
use super::{header, state};
use koel_simt::{Buf, Thread};

/// Maximum number of seeds tried. Even keys crafted against one seed fit with the next.
pub const MAX_ATTEMPTS: u32 = 64;

/// Returns a thread's first index and its stride, for a loop that a grid of `threads`-thread blocks
/// shares.
#[inline(always)]
pub fn strided(t: Thread, threads: u32) -> (u64, u64) {
    (t.global_id() as u64, t.grid_dim() as u64 * threads as u64)
}

/// Waits until all blocks of the grid arrive, for the `times`-th time. Orders memory between them.
#[inline(always)]
pub fn grid_barrier(t: Thread, build_state: Buf<u32>, times: &mut u32) {
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

/// Returns whether this block ends a build: the last block to arrive here, or block 0 if no block
/// has `worked`. All threads of all blocks call it.
#[inline(always)]
pub fn ends(t: Thread, worked: bool, build_state: Buf<u32>) -> bool {
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

/// Writes the header of a build of `n` pairs from what its kernels counted; one block calls it.
/// Ends with a barrier. `held_value` returns the value of the ambiguous key's copy with the given
/// rank. `rebuilt`: the build was repeated and the last seed tried is in the state; otherwise
/// `seed` is the build's seed, and `given_up` says whether its keys did not fit.
#[inline(always)]
pub fn write_header(
    t: Thread,
    n: u32,
    (rebuilt, given_up): (bool, bool),
    seed: u32,
    build_state: Buf<u32>,
    table_header: Buf<u32>,
    held_value: impl Fn(u32) -> u64,
) {
    // Words without a meaning yet are zero.
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

/// Resets a build's state words for the next build; one block of `threads` threads calls it.
#[inline(always)]
pub fn clear_state(t: Thread, threads: u32, build_state: Buf<u32>) {
    let mut word = t.id();
    while word < state::WORDS as u32 {
        build_state.store_relaxed(word, 0);
        word += threads;
    }
}

/// Resets a build's bins for the next build. Each thread resets its share, from `begin` in steps of
/// `step`.
#[inline(always)]
pub fn clear_bins(begin: u64, step: u64, bins: u32, cursors: Buf<u32>, valid: Buf<u32>) {
    let mut bin = begin;
    while bin < bins as u64 {
        cursors.store(bin, 0);
        valid.store(bin, !0);
        bin += step;
    }
}
