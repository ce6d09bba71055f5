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
use super::build::write_bucket;
use super::layout::{
    BUCKET, EMPTY, Layout, Narrow, Number, Shape, Wide, class, empty_last, with_class_bits,
};
use super::partition::Stamps;
use super::{FILTER_WORDS, contested_words, filter_bit, header, rank, ranked, stash, state};
use crate::hash::mix::{mix, redrawn};
use crate::hash::mulhi;
use koel_simt::{Buf, In, Shared, Thread, kernel, unroll};

/// Threads of a block.
const THREADS: u32 = 512;
/// Keys of a thread that are looked for at a time.
const SEARCHED: usize = 8;
/// Ranks that a block remembers to have raised.
const RAISED: u32 = 1 << 10;
/// Evictions until a pair goes to the stash, where the build is done again.
const MAX_MOVES: u32 = 500;
/// Seeds that are tried. Even keys chosen for one seed fit with the next.
pub(crate) const MAX_ATTEMPTS: u32 = 64;

/// What a build was: a kernel's argument.
#[derive(Clone, Copy, Debug)]
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
    /// What the [seeds after it](redrawn) follow from.
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
// SAFETY: plain numbers, no padding.
#[cfg(not(target_arch = "nvptx64"))]
unsafe impl koel_simt::Arg for Settling {}

/// Words of the locks and marks of so many buckets: a bit each, then four bits each; an even
/// number.
pub const fn lock_words(buckets: u64) -> u64 {
    (buckets.div_ceil(64) + buckets.div_ceil(16)).next_multiple_of(2)
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

#[inline(always)]
fn settle<L: Layout>(
    t: Thread,
    built: Built<L>,
    cursors: Buf<u32>,
    valid: Buf<u32>,
    table_header: Buf<u32>,
) {
    let Built { settling, stamps, build_state, .. } = built;
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

/// The greatest rank of each contested key, where it can be. Greater ranks come first.
#[inline(always)]
fn search<L: Layout>(t: Thread, built: Built<L>) {
    let mut shared = t.shared();
    let filter = shared.array::<u64>(FILTER_WORDS);
    // What tells a key, and a rank that it has: most copies of a key that has many end here.
    let raised = shared.array::<u64>(RAISED);
    let Built { settling, stamps, build_state, contested, .. } = built;
    let from = build_state.load_relaxed(state::FROM);
    let mut i = t.id();
    while i < FILTER_WORDS {
        filter.store(i, contested.load((1u64 << (settling.contested_bits & 31)) + i as u64));
        i += THREADS;
    }
    i = t.id();
    while i < RAISED {
        raised.store(i, EMPTY);
        i += THREADS;
    }
    t.barrier();
    // A block takes a tile of the first pass at a time: all of it has one stamp.
    // In the order of falling ranks.
    let number = |i: u32, of: u32| if stamps.keep_first != 0 { i } else { of - 1 - i };
    let wanted = |i| {
        let marked = |stretch| build_state.load_relaxed(state::STRETCHES + stretch) != 0;
        i < settling.tiles && {
            let stretch = stamps.of_block(number(i, settling.tiles));
            marked(stretch) || stamps.searched(from, stretch)
        }
    };
    let mut tile = t.block();
    let mut wanted_next = wanted(tile);
    while tile < settling.tiles {
        let first = number(tile, settling.tiles) * settling.tile;
        let count = settling.tile.min(settling.n - first);
        let wanted_now = wanted_next;
        wanted_next = wanted(tile + t.grid_dim());
        let mut i = t.id();
        while wanted_now && i < count {
            // Several keys are under way at a time.
            let input = |j: usize| first + number((i + j as u32 * THREADS).min(count - 1), count);
            let mut keys = [L::Key::default(); SEARCHED];
            unroll::<SEARCHED>(|j| keys[j] = built.keys.get_stream(input(j)));
            let mixed = keys.map(|key| L::mixed(settling.seed, key));
            let ranks = |j: usize| rank(input(j), stamps.keep_first);
            let mut seen = [EMPTY; SEARCHED];
            unroll::<SEARCHED>(|j| {
                let h = L::hash(mixed[j]);
                let (word, bit) = filter_bit(h);
                let contested_key =
                    i + (j as u32 * THREADS) < count && filter.load(word) >> bit & 1 == 0;
                // A narrow key is its hash.
                if contested_key && !(L::SLOT_WORDS == 1 && is_raised(raised, h, h, ranks(j))) {
                    seen[j] = contested.load(stash::start::<L>(mixed[j], settling.contested_bits));
                }
            });
            unroll::<SEARCHED>(|j| raise(built, raised, mixed[j], ranks(j), seen[j]));
            i += SEARCHED as u32 * THREADS;
        }
        tile += t.grid_dim();
    }
}
/// Whether a block remembers that the key of this hash and tag has this rank, or a greater one.
#[inline(always)]
fn is_raised(raised: Shared<u64>, h: u32, tag: u32, rank: u32) -> bool {
    let before = raised.load_volatile(h % RAISED);
    (before >> 32) as u32 == tag && before as u32 >= rank
}
/// Raises the rank of a key, if it is contested. `there`: what is where the search for it begins.
#[inline(always)]
fn raise<L: Layout>(
    built: Built<L>,
    raised: Shared<u64>,
    key: L::Mixed,
    rank: u32,
    mut there: u64,
) {
    let Built { settling, contested, .. } = built;
    let (h, mask) = (L::hash(key), (1u32 << (settling.contested_bits & 31)) - 1);
    let (mut at, mut looked) = (stash::start::<L>(key, settling.contested_bits), 0);
    while there != EMPTY && looked <= mask {
        if L::Mixed::narrowed(there) == key {
            let tag = if L::SLOT_WORDS == 1 { h } else { at };
            if !is_raised(raised, h, tag, rank) {
                raised.store_volatile(h % RAISED, (tag as u64) << 32 | rank as u64);
                built.ranks.fetch_max(at, rank);
            }
            return;
        }
        at = (at + 1) & mask;
        there = contested.load(at);
        looked += 1;
    }
}

/// The values of contested keys, which the table holds once each; then the keys are forgotten.
#[inline(always)]
fn replace<L: Layout>(t: Thread, built: Built<L>) {
    let Built { shape, settling, stamps, contested, ranks, slots, .. } = built;
    let (mut at, step) = strided(t);
    while at < 1 << settling.contested_bits {
        let key = contested.load(at);
        if key != EMPTY {
            let mixed = L::Mixed::narrowed(key);
            let pair =
                L::pair(mixed, built.values.get(ranked(ranks.load_relaxed(at), stamps.keep_first)));
            let h = L::hash(mixed);
            match slot_in_buckets::<L>(slots, [shape.first_place(h), shape.second_place(h)], mixed)
            {
                Some((bucket, slot)) => write_pair::<L>(slots, bucket, slot, pair),
                None => {
                    if let Some(at) = stash::slot_of::<L>(built.stash, settling.stash_bits, mixed) {
                        write_stashed::<L>(built.stash, at, pair);
                    }
                }
            }
            contested.store(at, EMPTY);
            ranks.store_relaxed(at, 0);
        }
        at += step;
    }
    while at < contested_words(settling.contested_bits) as u64 {
        contested.store(at, EMPTY);
        at += step;
    }
}

#[inline(always)]
#[track_caller]
fn heads<L: Layout>(slots: Buf<u64>, bucket: u32) -> [u64; 4] {
    let at = bucket as u64 * L::WORDS as u64;
    [0, 1, 2, 3].map(|s| slots.load_relaxed(at + s))
}
/// The slot of a key in two buckets.
#[inline(always)]
#[track_caller]
fn slot_in_buckets<L: Layout>(
    slots: Buf<u64>,
    buckets: [u32; 2],
    key: L::Mixed,
) -> Option<(u32, u32)> {
    let mut hit = None;
    unroll::<2>(|b| {
        let heads = heads::<L>(slots, buckets[b]);
        unroll::<4>(|s| {
            if heads[s] != EMPTY && L::key_in(heads[s]) == key {
                hit = Some((buckets[b], s as u32));
            }
        });
    });
    hit
}
#[inline(always)]
#[track_caller]
fn write_pair<L: Layout>(slots: Buf<u64>, bucket: u32, slot: u32, pair: L::Pair) {
    let at = bucket as u64 * L::WORDS as u64 + slot as u64;
    if L::SLOT_WORDS > 1 {
        slots.store_relaxed(at + 4, L::behind(pair));
    }
    slots.store_relaxed(at, L::head(pair));
}
#[inline(always)]
#[track_caller]
fn read_pair<L: Layout>(slots: Buf<u64>, bucket: u32, slot: u32) -> L::Pair {
    let at = bucket as u64 * L::WORDS as u64 + slot as u64;
    let behind = if L::SLOT_WORDS > 1 { slots.load_relaxed(at + 4) } else { 0 };
    L::with_head(slots.load_relaxed(at), behind)
}
#[inline(always)]
#[track_caller]
fn write_stashed<L: Layout>(stash: Buf<u64>, slot: u32, pair: L::Pair) {
    let at = slot * L::SLOT_WORDS as u32;
    if L::SLOT_WORDS > 1 {
        stash.store_relaxed(at + 1, L::behind(pair));
    }
    stash.store_relaxed(at, L::head(pair));
}

/// Everything again, from the input: see the module. Until the end, ranks stand where values will
/// be.
#[inline(always)]
fn rebuild<L: Layout>(t: Thread, built: Built<L>, times: &mut u32) {
    let Built {
        shape, settling, stamps, build_state, slots, stash, contested, ranks, locks, ..
    } = built;
    let (begin, step) = strided(t);
    let buckets = shape.all_buckets();
    let stash_words = (1u64 << settling.stash_bits) * L::SLOT_WORDS as u64;
    let waiting = lock_words(buckets);
    let mut attempt = 1;
    let mut seed;
    // All threads know now that the build has failed.
    grid_barrier(t, build_state, times);
    loop {
        let keeps_seed = attempt == 1 && settling.keeps_seed != 0;
        seed = if keeps_seed { settling.seed } else { redrawn(settling.redraws, attempt) };
        let mut i = begin;
        while i < buckets * L::WORDS as u64 {
            // No rank, behind the heads.
            let head = i as usize % L::WORDS < BUCKET;
            slots.store_relaxed(i, if head { EMPTY } else { 0 });
            i += step;
        }
        i = begin;
        while i < settling.waiting as u64 * L::SLOT_WORDS as u64 {
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
        i = begin;
        while i < 1 << settling.contested_bits {
            ranks.store_relaxed(i, 0);
            i += step;
        }
        i = begin;
        while i < contested_words(settling.contested_bits) as u64 {
            contested.store_relaxed(i, EMPTY);
            i += step;
        }
        if t.global_id() == 0 {
            build_state.store_relaxed(state::FAILED, 0);
            build_state.store_relaxed(state::DROPPED, 0);
            build_state.store_relaxed(state::STASHED, 0);
            build_state.store_relaxed(state::HELD, 0);
            build_state.store_relaxed(state::HELD_COPIES, 0);
            build_state.store_relaxed(state::ATTEMPTS, attempt);
            build_state.store_relaxed(state::SEED, seed);
        }
        grid_barrier(t, build_state, times);

        let mut dropped = 0;
        i = begin;
        while i < settling.n as u64 {
            // Greatest rank first: later copies of a key then only read.
            let at = if stamps.keep_first != 0 { i as u32 } else { settling.n - 1 - i as u32 };
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
        grid_barrier(t, build_state, times);
        i = begin;
        while i < settling.waiting as u64 {
            let at = waiting + i * L::SLOT_WORDS as u64;
            let head = locks.load_relaxed(at);
            if head != EMPTY {
                let behind = if L::SLOT_WORDS > 1 { locks.load_relaxed(at + 1) } else { 0 };
                insert(t, built, L::with_head(head, behind));
            }
            i += step;
        }
        grid_barrier(t, build_state, times);
        let lost = build_state.load_relaxed(state::FAILED) != 0;
        attempt += 1;
        // Nobody clears before everybody has read.
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

    // Classes of the keys that overflowed, in the words behind the locks: sixteen buckets a word.
    let marks = buckets.div_ceil(64);
    let mark = |h: u32| {
        let first = shape.first_place(h);
        locks.fetch_or(marks + first as u64 / 16, 1 << (first % 16 * 4 + class(h)));
    };
    let mut i = begin;
    while i < buckets {
        let heads = heads::<L>(slots, i as u32);
        unroll::<4>(|s| {
            let h = L::hash(L::key_in(heads[s]));
            if heads[s] != EMPTY && shape.first_place(h) as u64 != i {
                mark(h);
            }
        });
        i += step;
    }
    i = begin;
    while i < 1 << settling.stash_bits {
        let head = stash.load_relaxed(i * L::SLOT_WORDS as u64);
        if head != EMPTY {
            mark(L::hash(L::key_in(head)));
            let behind = if L::SLOT_WORDS > 1 { stash.load_relaxed(i * 2 + 1) } else { 0 };
            write_stashed::<L>(stash, i as u32, with_value(built, L::with_head(head, behind)));
        }
        i += step;
    }
    grid_barrier(t, build_state, times);
    i = begin;
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
        let bits = (locks.load_relaxed(marks + i / 16) >> (i as u32 % 16 * 4)) as u32 & 0xF;
        let bucket =
            if full { with_class_bits::<L>(bucket, bits) } else { empty_last::<L>(bucket) };
        write_bucket::<L>(slots, i, bucket);
        i += step;
    }
}
/// The pair of a key and a rank: with the value of that rank.
#[inline(always)]
fn with_value<L: Layout>(built: Built<L>, ranked_pair: L::Pair) -> L::Pair {
    let rank = L::value(ranked_pair).widened() as u32;
    let i = ranked(rank, built.stamps.keep_first);
    L::pair(L::key(ranked_pair), built.values.get(i))
}

/// Gives a key its slot, where nothing moves: an empty one of its buckets, or one among those that
/// wait; or raises the rank in the slot that it has, which is told.
///
/// Copies of a key meet in one slot: all of them take the first that is empty when they come there,
/// and no slot before it becomes empty again.
#[inline(always)]
fn meet<L: Layout>(built: Built<L>, waiting: u64, key: L::Mixed, rank: u32) -> bool {
    let Built { shape, settling, slots, locks, build_state, .. } = built;
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
    let (mut slot, mut looked) = (mulhi(stash::spread::<L>(key), settling.waiting), 0);
    while looked < settling.waiting {
        let at = waiting + slot as u64 * L::SLOT_WORDS as u64;
        match claim::<L>(locks, at, at + 1, key, rank) {
            Claim::Other => slot = if slot + 1 == settling.waiting { 0 } else { slot + 1 },
            claim => return claim == Claim::Met,
        }
        looked += 1;
    }
    build_state.fetch_add(state::FAILED, 1);
    false
}
/// Whose slot it was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// Nobody's: now the key's.
    New,
    /// The key's.
    Met,
    /// Another key's.
    Other,
}
#[inline(always)]
fn claim<L: Layout>(array: Buf<u64>, at: u64, behind: u64, key: L::Mixed, rank: u32) -> Claim {
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
    // In a head the rank is above the key.
    if L::SLOT_WORDS > 1 {
        if array.load_relaxed(behind) < rank as u64 {
            array.fetch_max(behind, rank as u64);
        }
    } else if there < head {
        array.fetch_max(at, head);
    }
    claim
}

/// Inserts a key of which there is no other copy, with its rank.
#[inline(always)]
fn insert<L: Layout>(t: Thread, built: Built<L>, mut pair: L::Pair) {
    let Built { shape, settling, build_state, slots, stash, locks, .. } = built;
    let mut moves = 0;
    loop {
        let h = L::hash(L::key(pair));
        let (first, second) = (shape.first_place(h), shape.second_place(h));
        // What others lost is enough: this attempt is in vain.
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
            // Another one must go: it is nowhere until it is inserted again.
            let draw = mix(h.wrapping_add(moves));
            let (bucket, slot) = (if draw & 4 != 0 { first } else { second }, draw & 3);
            let evicted = read_pair::<L>(slots, bucket, slot);
            write_pair::<L>(slots, bucket, slot, pair);
            (pair, done) = (evicted, false);
            moves += 1;
        } else if stash::insert_near::<L>(stash, settling.stash_bits, pair) {
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
fn empty_slot<L: Layout>(slots: Buf<u64>, first: u32, second: u32) -> Option<(u32, u32)> {
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

/// Tries to lock two buckets, which may be the same. A lock is a bit. What others did under the
/// locks is seen after it. The lesser bucket comes first: two threads of a warp that want the same
/// two in opposite orders would both give way, for ever.
#[inline(always)]
#[track_caller]
fn lock(t: Thread, locks: Buf<u64>, a: u32, b: u32) -> bool {
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
fn unlock(t: Thread, locks: Buf<u64>, a: u32, b: u32) {
    t.fence();
    locks.fetch_and(a / 64, !bit(a));
    if a != b {
        locks.fetch_and(b / 64, !bit(b));
    }
}
#[inline(always)]
fn bit(bucket: u32) -> u64 {
    1 << (bucket & 63)
}

macro_rules! entries { ($($(#[$doc:meta])* $image:ident $name:ident $layout:ty, $key:ty, $value:ty;)*) => { $(
    $(#[$doc])*
    #[kernel(image = $image, threads = 512, min_blocks = 2, shared = (FILTER_WORDS + RAISED) * 8, starts_early)]
    pub fn $name(
        t: Thread,
        shape: Shape,
        settling: Settling,
        stamps: Stamps,
        keys: In<$key>,
        values: In<$value>,
        slots: Buf<u64>,
        stash: Buf<u64>,
        contested: Buf<u64>,
        ranks: Buf<u32>,
        locks: Buf<u64>,
        cursors: Buf<u32>,
        valid: Buf<u32>,
        build_state: Buf<u32>,
        table_header: Buf<u32>,
    ) {
        let built = Built::<$layout> {
            shape, settling, stamps, keys, values, slots, stash, contested, ranks, locks, build_state,
        };
        settle(t, built, cursors, valid, table_header)
    }
)* } }
entries! {
    /// Ends a build: see the module. At most as many blocks as can be resident at once.
    MAP map_settle Narrow, u32, u32;
    /// The same.
    MAP_WIDE map_settle_u32_u64 Wide<u32, u64>, u32, u64;
    /// The same.
    MAP_WIDE map_settle_u64_u32 Wide<u64, u32>, u64, u32;
    /// The same.
    MAP_WIDE map_settle_u64_u64 Wide<u64, u64>, u64, u64;
}
