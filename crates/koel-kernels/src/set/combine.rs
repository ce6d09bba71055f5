//! Distinct keys, unions, intersections and differences of arrays, without a table in device
//! memory.
//!
//! Both arrays are [partitioned](super::partition) alike; then one block takes a partition of each.
//! It [fills](super::fill) a table in shared memory with the keys of the first array, or of both
//! arrays for a union, merging duplicates. For an intersection or a difference it looks up the keys
//! of the second array and marks the slots where it finds them. Then it appends the resulting keys
//! to the output, in any order. There are no evictions: keys for which neither bucket has room stay
//! in the table of waiting keys.
//!
//! If a partition receives more keys than it has room for, the operation restarts in device memory
//! with a linear-probing table that has more slots than there are keys.
use super::build::{Arrived, Near, THREADS, shared_bytes};
use super::export::{HELD, append_keys, with_keys};
use super::fill::{self, claim, claimed};
use super::layout::{Member, mixed};
use crate::hash::mix::mix;
use crate::table::append::{ANSWERING, KeysOut, SUMS};
use crate::table::ending::strided;
use crate::table::ending::{clear_bins, clear_state, ends, grid_barrier};
use crate::table::state;
use koel_simt::{Buf, In, Thread, kernel};

const _: () = assert!(THREADS == ANSWERING);

/// Operations on two arrays.
pub mod how {
    /// The distinct keys of the first array; there is no second.
    pub const DISTINCT: u32 = 0;
    /// Keys that are in either array or in both.
    pub const UNION: u32 = 1;
    /// Keys that are in both arrays.
    pub const INTERSECTION: u32 = 2;
    /// Keys of the first array that are not in the second.
    pub const DIFFERENCE: u32 = 3;
}
/// Returns the bits of the slots whose keys belong to the result. `hit` marks slots whose keys are
/// in the second array.
#[inline(always)]
fn wanted(what: u32, hit: u32) -> u32 {
    match what {
        how::INTERSECTION => hit,
        how::DIFFERENCE => !hit,
        _ => !0,
    }
}
/// Returns whether the ambiguous key belongs to the result.
#[inline(always)]
fn wants_held(what: u32, first: Buf<u32>, second: Buf<u32>) -> bool {
    let of_first = first.load_relaxed(state::HELD) != 0;
    if what == how::DISTINCT {
        return of_first;
    }
    let of_second = second.load_relaxed(state::HELD) != 0;
    match what {
        how::UNION => of_first || of_second,
        how::INTERSECTION => of_first && of_second,
        _ => of_first && !of_second,
    }
}

/// Number of words for one bit per slot of the buckets and of the list.
const fn hit_words(buckets: u32, list: u32) -> u32 {
    // Buckets have 8 slots for 32-bit keys, the larger number.
    (buckets * 8 + list).div_ceil(32)
}
/// Returns the bytes of shared memory of a block, for partitions of `buckets` buckets, with lists
/// of `list` keys of `key_bytes` bytes.
pub const fn combine_bytes(buckets: u32, list: u32, key_bytes: u32) -> u32 {
    shared_bytes(buckets, list, key_bytes) + (hit_words(buckets, list) + SUMS) * 4
}

/// Returns the slot of a key in a filled table, numbered like the bits of hits.
#[inline(always)]
fn slot_of<K: Member>(table: Near<K>, list: u32, key: K) -> Option<u32> {
    fill::slot_of(table, key, || {
        let waiting = claimed(list, key, |at| table.waiting.load(at));
        waiting.map(|at| table.shape.buckets * K::SLOTS + at)
    })
}

/// Appends the result of operation `what` for partition `t.block()` of two arrays.
///
/// If there is no second array, the first stands in for it. The number of partitions and the size
/// of the lists are those of the first.
#[kernel(
    image = SET_COMBINE, threads = 256, min_blocks = 4,
    shared = combine_bytes(first.shape.buckets, first.source.list, size_of::<K>() as u32),
    starts_early,
    for K in [u32 { BATCH = 8 }, u64 { BATCH = 4 }]
)]
pub fn set_combine<K: Member, const BATCH: usize>(
    t: Thread,
    what: u32,
    seed: u32,
    first: Arrived<K>,
    second: Arrived<K>,
    to: KeysOut<K>,
) {
    let KeysOut { keys, count } = to;
    let (shape, list, p) = (first.shape, first.source.list, t.block());
    let mut shared = t.shared();
    let table = Near::<K>::new(&mut shared, shape, list);
    let words = hit_words(shape.buckets, list);
    let (hits, sums) = (shared.array::<u32>(words), shared.array::<u32>(SUMS));
    table.clear(t);
    let mut i = t.id();
    while i < words {
        hits.store(i, 0);
        i += THREADS;
    }
    t.wait_for_previous();
    t.let_next_start();
    table.begin(t, [first.build_state, second.build_state]);
    let (of_first, of_second) = (first.partition(p), second.partition(p));
    let (also, looked_up) = if what == how::UNION {
        (of_second, of_second.nothing())
    } else if what == how::DISTINCT {
        (of_second.nothing(), of_second.nothing())
    } else {
        (of_second.nothing(), of_second)
    };
    t.barrier();
    if table.is_lost() {
        return;
    }
    table.put::<2, BATCH>(t, [of_first, also], first.build_state);
    t.barrier();
    if table.is_lost() {
        return;
    }
    looked_up.each::<BATCH>(t, |key| {
        if let Some(slot) = slot_of(table, list, key) {
            hits.fetch_or(slot / 32, 1 << (slot % 32));
        }
    });
    t.barrier();

    let all = shape.buckets + list.div_ceil(K::SLOTS);
    let mut from = 0;
    while from < all {
        let i = from + t.id();
        let bucket = if i < shape.buckets {
            table.bucket(i)
        } else {
            let half = |half: u32| {
                K::half(|s| {
                    let at = (i - shape.buckets) * K::SLOTS + half * K::SLOTS / 2 + s;
                    if at < list { table.waiting.load(at) } else { K::EMPTY }
                })
            };
            [half(0), half(1)]
        };
        let slot = i * K::SLOTS;
        let hit = if slot / 32 < words { hits.load(slot / 32) >> (slot % 32) } else { 0 };
        let held = p == 0 && i == 0 && wants_held(what, first.build_state, second.build_state);
        let has = with_keys::<K>(bucket) & wanted(what, hit) | (held as u32) << HELD;
        append_keys::<K>(t, seed, bucket, has, sums, keys, count);
        from += THREADS;
    }
}
/// Parameters of the end of an operation: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Ending {
    /// Operation: one of [`how`].
    pub what: u32,
    /// Seed that keys were mixed with.
    pub seed: u32,
    /// Number of keys of each array.
    pub n: [u32; 2],
    /// Number of bins of both passes, for each array.
    pub bins: [u32; 2],
    /// Slots of the table of a restarted operation: more than there are keys to insert.
    pub slots: u32,
}
/// Returns the number of key-sized words for a table of `slots` slots and one bit per slot.
pub const fn spare_words(slots: usize) -> usize {
    slots + slots.div_ceil(32)
}

/// The combined arrays and the memory of the operation: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Combined<K: Member> {
    /// The two arrays.
    pub inputs: [In<K>; 2],
    /// The [words](spare_words) of [`Ending::slots`] slots.
    pub spare: Buf<K>,
    /// Cursors of the bins of both passes, for each array.
    pub cursors: [Buf<u32>; 2],
    /// Valid counts of the bins of both passes, for each array.
    pub valid: [Buf<u32>; 2],
    /// Words that the kernels share, for each array.
    pub states: [Buf<u32>; 2],
}

/// Resets the memory of [`set_combine`](fn@set_combine) and its passes. If something failed,
/// restarts the operation: see the module. Launch no more blocks than can be resident at once.
#[kernel(
    image = SET_COMBINE, threads = 256, min_blocks = 2, shared = SUMS * 4, starts_early,
    for K in [u32, u64]
)]
pub fn set_combined<K: Member>(t: Thread, ending: Ending, of: Combined<K>, to: KeysOut<K>) {
    let Combined { inputs, spare, cursors, valid, states } = of;
    let KeysOut { keys, count } = to;
    t.wait_for_previous();
    t.let_next_start();
    let (begin, step) = strided(t, THREADS);
    let second = ending.what != how::DISTINCT;
    // No block changes these before all blocks have read them.
    let mut failed = states[0].load_relaxed(state::FAILED) != 0;
    clear_bins(begin, step, ending.bins[0], cursors[0], valid[0]);
    if second {
        failed |= states[1].load_relaxed(state::FAILED) != 0;
        clear_bins(begin, step, ending.bins[1], cursors[1], valid[1]);
    }
    if failed {
        again(t, ending, inputs, spare, states, keys, count);
    }
    if ends(t, failed, states[0]) {
        clear_state(t, THREADS, states[0]);
        if second {
            clear_state(t, THREADS, states[1]);
        }
    }
}
/// Repeats the operation from the inputs: see the module.
#[inline(always)]
fn again<K: Member>(
    t: Thread,
    ending: Ending,
    inputs: [In<K>; 2],
    spare: Buf<K>,
    states: [Buf<u32>; 2],
    keys: Buf<K>,
    count: Buf<u64>,
) {
    let Ending { what, slots, n, .. } = ending;
    let sums = t.shared().array::<u32>(SUMS);
    let (begin, step) = strided(t, THREADS);
    // Another seed spreads keys that were crafted against the first.
    let seed = mix(!ending.seed);
    let mut times = 0;
    grid_barrier(t, states[0], &mut times);
    let mut i = begin;
    while i < spare_words(slots as usize) as u64 {
        spare.store_relaxed(i, if i < slots as u64 { K::EMPTY } else { K::narrowed(0) });
        i += step;
    }
    if t.global_id() == 0 {
        count.store_relaxed(0, 0);
        states[0].store_relaxed(state::HELD, 0);
        if what != how::DISTINCT {
            states[1].store_relaxed(state::HELD, 0);
        }
    }
    grid_barrier(t, states[0], &mut times);
    put_again(t, seed, n[0], slots, inputs[0], spare, states[0]);
    if what == how::UNION {
        put_again(t, seed, n[1], slots, inputs[1], spare, states[1]);
    }
    grid_barrier(t, states[0], &mut times);
    // Bits per word: as many as a key has.
    let of_word = size_of::<K>() as u32 * 8;
    if what == how::INTERSECTION || what == how::DIFFERENCE {
        i = begin;
        while i < n[1] as u64 {
            let key = mixed(seed, inputs[1].get_stream(i));
            if key == K::EMPTY {
                states[1].fetch_max(state::HELD, 1);
            } else if let Some(slot) = claimed(slots, key, |at| spare.load_relaxed(at)) {
                spare.fetch_or(
                    slots as u64 + (slot / of_word) as u64,
                    K::narrowed(1 << (slot % of_word)),
                );
            }
            i += step;
        }
        grid_barrier(t, states[0], &mut times);
    }
    let of_grid = t.grid_dim() as u64 * THREADS as u64;
    let mut from = t.block() as u64 * THREADS as u64;
    while from * (K::SLOTS as u64) < slots as u64 {
        let first = (from + t.id() as u64) * K::SLOTS as u64;
        let half = |half: u64| {
            K::half(|s| {
                let at = first + half * K::SLOTS as u64 / 2 + s as u64;
                if at < slots as u64 { spare.load_relaxed(at) } else { K::EMPTY }
            })
        };
        let bucket = [half(0), half(1)];
        let hit = if first < slots as u64 {
            spare.load_relaxed(slots as u64 + first / of_word as u64).widened()
                >> (first % of_word as u64)
        } else {
            0
        };
        let held = first == 0 && wants_held(what, states[0], states[1]);
        let has = with_keys::<K>(bucket) & wanted(what, hit as u32) | (held as u32) << HELD;
        append_keys::<K>(t, seed, bucket, has, sums, keys, count);
        from += of_grid;
    }
}
/// Inserts the keys of an input into the table in device memory, each once.
#[inline(always)]
fn put_again<K: Member>(
    t: Thread,
    seed: u32,
    n: u32,
    slots: u32,
    input: In<K>,
    spare: Buf<K>,
    build_state: Buf<u32>,
) {
    let (mut i, step) = strided(t, THREADS);
    while i < n as u64 {
        let key = mixed(seed, input.get_stream(i));
        if key == K::EMPTY {
            build_state.fetch_max(state::HELD, 1);
        } else {
            claim(slots, slots, key, |at| {
                let there = spare.load_relaxed(at);
                if there == K::EMPTY { spare.cas(at, K::EMPTY, key) } else { there }
            });
        }
        i += step;
    }
}
