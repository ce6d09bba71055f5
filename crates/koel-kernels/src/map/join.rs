//! Lookups whose answers may come in any order.
//!
//! A lookup in a big table is a read of a sector at random, of which memory serves far fewer a
//! second than of sectors in a row. So queries are partitioned as the table is, in one pass or two;
//! then one block reads a partition of the table once, in order, into shared memory, and answers
//! the queries of that partition from there. Or, after one pass into bins of many partitions, bin
//! after bin is looked up in device memory, where the part of the table that a bin needs stays in
//! the cache. Answers are appended to arrays, a block's at a time.
//!
//! A query travels as its [`Routed`] key, [with its number](Numbered) for a join, or [alone](Alone)
//! to filter keys or count them.
//!
//! Bins have room for what evenly spread queries give them and some deviations more. What does not
//! fit, as with a key that is asked for again and again, goes to an overflow area and is looked up
//! from there one by one, at the end. If that is full too, the partitioned queries are left alone
//! and all are looked up one by one. Nothing of this needs the host.
use super::find::{Hit, Table, search};
use super::header;
use super::layout::{Layout, Narrow, Number, Shape, Wide};
use crate::partition::{
    AsTheyCome, ELSEWHERE, NOWHERE, fits, load_keys, load_run, scatter, tile_index,
};
use koel_simt::{Buf, In, Scalar, Shared, SharedMem, Thread, U64x2, Word, block, kernel, unroll};

/// Words that the kernels of a join share, zero before it; behind them are cursors.
pub mod state {
    /// Queries that the overflow area has been asked to take.
    pub const OVERFLOWED: u32 = 0;
    /// Queries that it had no room for, in the first pass.
    pub const LOST_FIRST: u32 = 1;
    /// The same in the second pass.
    pub const LOST_SECOND: u32 = 2;
    /// Words in all: a line of the cache.
    pub const WORDS: usize = 32;
}

/// Threads of a block that partitions queries into up to [`BINS`] bins.
pub const THREADS: u32 = 384;
/// Bins of such a block, at most.
pub const BINS: u32 = 256;
/// Threads of a block for up to [`MANY_BINS`] bins.
pub const MANY_THREADS: u32 = 1024;
/// Bins of such a block, at most.
pub const MANY_BINS: u32 = 1024;
/// Threads of a block that answers queries.
pub const ANSWERING: u32 = 256;
/// Queries that a thread looks up in device memory in a round.
pub const DIRECT_ITEMS: u32 = 4;

/// A pass that partitions queries: a kernel's argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Pass {
    /// Partitions of a bin.
    pub each: u32,
    /// 2^31 / `each`, rounded up.
    pub share: u32,
    /// Places of a bin.
    pub room: u32,
    /// Places of the overflow area, of both passes.
    pub area: u32,
}
// SAFETY: plain numbers, no padding.
#[cfg(not(target_arch = "nvptx64"))]
unsafe impl koel_simt::Arg for Pass {}
impl Pass {
    /// With bins of this many partitions.
    pub const fn new(each: u32, room: u32, area: u32) -> Pass {
        Pass { each, share: (1u32 << 31).div_ceil(each), room, area }
    }
    /// The bin of a partition: `partition / each`, if their product is below 2^31.
    #[inline(always)]
    pub fn bin(self, partition: u32) -> u32 {
        ((partition as u64 * self.share as u64) >> 31) as u32
    }
    /// Where a run goes: into its bin, or behind all of them. `lost`: the word of the [`state`]
    /// that counts what cannot be kept.
    #[inline(always)]
    fn place(
        self,
        first_bin: u32,
        lost: u32,
        spilled: Buf<u32>,
        join_state: Buf<u32>,
    ) -> impl Fn(u32, u32, u32) -> u32 {
        move |bin, before, run| {
            let bin = first_bin + bin;
            if fits(self.room, before, run) {
                return bin * self.room + before;
            }
            spilled.fetch_max(bin, !before);
            let place = join_state.fetch_add(state::OVERFLOWED, run);
            if fits(self.area, place, run) {
                return ELSEWHERE | place;
            }
            join_state.fetch_add(lost, run);
            NOWHERE
        }
    }
    /// The queries in a bin.
    #[inline(always)]
    pub(super) fn came(self, bin: u32, cursors: In<u32>, spilled: In<u32>) -> u32 {
        cursors.get(bin).min(!spilled.get(bin)).min(self.room)
    }
}

/// A layout whose keys are sent to their partitions.
pub trait Routed: Layout<Key: Carried> {
    /// What is sent in place of a key: a bijection of it, the mixed key where that is no wider.
    #[inline(always)]
    fn sent(seed: u32, key: Self::Key) -> Self::Key {
        if size_of::<Self::Mixed>() == size_of::<Self::Key>() {
            Self::Key::narrowed(Self::mixed(seed, key).widened())
        } else {
            key
        }
    }
    /// The mixed key of what was sent.
    #[inline(always)]
    fn mixed_of(seed: u32, sent: Self::Key) -> Self::Mixed {
        if size_of::<Self::Mixed>() == size_of::<Self::Key>() {
            Self::Mixed::narrowed(sent.widened())
        } else {
            Self::mixed(seed, sent)
        }
    }
    /// The key of what was sent.
    #[inline(always)]
    fn key_of(seed: u32, sent: Self::Key) -> Self::Key {
        if size_of::<Self::Mixed>() == size_of::<Self::Key>() {
            Self::unmixed(seed, Self::Mixed::narrowed(sent.widened()))
        } else {
            sent
        }
    }
    /// Its partition.
    #[inline(always)]
    fn partition_of(seed: u32, sent: Self::Key, shape: Shape) -> u32 {
        shape.partition(Self::hash(Self::mixed_of(seed, sent)))
    }
}
impl Routed for Narrow {}
impl<K: Carried, V: Number> Routed for Wide<K, V> {}

/// What is sent: `u32`, `u64`.
pub trait Carried: Number {
    /// With the number of its query.
    type Numbered: Word;
    /// With a number.
    fn numbered(self, i: u32) -> Self::Numbered;
    /// Without it, and the number.
    fn split(numbered: Self::Numbered) -> (Self, u32);
    /// An array, which begins on a multiple of 16 bytes.
    fn array(words: In<u64>) -> In<Self::Numbered>;
    /// The same, to write.
    fn array_mut(words: Buf<u64>) -> Buf<Self::Numbered>;
}
impl Carried for u32 {
    type Numbered = u64;
    #[inline(always)]
    fn numbered(self, i: u32) -> u64 {
        (i as u64) << 32 | self as u64
    }
    #[inline(always)]
    fn split(numbered: u64) -> (u32, u32) {
        (numbered as u32, (numbered >> 32) as u32)
    }
    #[inline(always)]
    fn array(words: In<u64>) -> In<u64> {
        words
    }
    #[inline(always)]
    fn array_mut(words: Buf<u64>) -> Buf<u64> {
        words
    }
}
impl Carried for u64 {
    type Numbered = U64x2;
    #[inline(always)]
    fn numbered(self, i: u32) -> U64x2 {
        U64x2([self, i as u64])
    }
    #[inline(always)]
    fn split(U64x2([key, i]): U64x2) -> (u64, u32) {
        (key, i as u32)
    }
    #[inline(always)]
    fn array(words: In<u64>) -> In<U64x2> {
        words.x2()
    }
    #[inline(always)]
    fn array_mut(words: Buf<u64>) -> Buf<U64x2> {
        words.x2()
    }
}

/// What queries travel as.
pub trait Form<L: Routed> {
    /// A query.
    type Query: Word;
    /// What arrays of queries are made of.
    type Element: Scalar;
    /// Query `i`, of which `sent` is sent.
    fn query(sent: L::Key, i: u32) -> Self::Query;
    /// What was sent, and the number; 0 if it is not known.
    fn split(query: Self::Query) -> (L::Key, u32);
    /// An array of queries, which begins on a multiple of 16 bytes.
    fn array(elements: In<Self::Element>) -> In<Self::Query>;
    /// The same, to write.
    fn array_mut(elements: Buf<Self::Element>) -> Buf<Self::Query>;
}
/// Only what is sent of the key.
pub struct Alone;
impl<L: Routed> Form<L> for Alone {
    type Query = L::Key;
    type Element = L::Key;
    #[inline(always)]
    fn query(sent: L::Key, _: u32) -> L::Key {
        sent
    }
    #[inline(always)]
    fn split(query: L::Key) -> (L::Key, u32) {
        (query, 0)
    }
    #[inline(always)]
    fn array(elements: In<L::Key>) -> In<L::Key> {
        elements
    }
    #[inline(always)]
    fn array_mut(elements: Buf<L::Key>) -> Buf<L::Key> {
        elements
    }
}
/// And the number of the query.
pub struct Numbered;
impl<L: Routed> Form<L> for Numbered {
    type Query = <L::Key as Carried>::Numbered;
    type Element = u64;
    #[inline(always)]
    fn query(sent: L::Key, i: u32) -> Self::Query {
        sent.numbered(i)
    }
    #[inline(always)]
    fn split(query: Self::Query) -> (L::Key, u32) {
        L::Key::split(query)
    }
    #[inline(always)]
    fn array(elements: In<u64>) -> In<Self::Query> {
        L::Key::array(elements)
    }
    #[inline(always)]
    fn array_mut(elements: Buf<u64>) -> Buf<Self::Query> {
        L::Key::array_mut(elements)
    }
}

/// Writes a query to its place in bins, or in the overflow area.
#[inline(always)]
fn put<L: Routed, F: Form<L>>(to: Buf<F::Element>) -> impl Fn(u32, F::Query) {
    let queries = F::array_mut(to);
    move |to, query| queries.store(to & !ELSEWHERE, query)
}

#[inline(always)]
fn from_input<
    L: Routed,
    F: Form<L>,
    const THREADS: usize,
    const ITEMS: usize,
    const BINS: usize,
>(
    t: Thread,
    n: u32,
    aligned: u32,
    shape: Shape,
    pass: Pass,
    table_header: In<u32>,
    queries: In<L::Key>,
    out: Buf<F::Element>,
    overflow: Buf<F::Element>,
    cursors: Buf<u32>,
    spilled: Buf<u32>,
    join_state: Buf<u32>,
) {
    t.wait_for_previous();
    t.let_next_start();
    let seed = table_header.get(header::SEED);
    let first = t.block() * (THREADS * ITEMS) as u32;
    let at = |j: usize| tile_index::<THREADS>(t, j as u32);
    let (keys, live) = load_keys::<L::Key, THREADS, ITEMS>(t, n, aligned, queries);
    let mut tile = [F::query(keys[0], 0); ITEMS];
    unroll::<ITEMS>(|j| tile[j] = F::query(L::sent(seed, keys[j]), first + at(j)));
    let bin_of = |query| pass.bin(L::partition_of(seed, F::split(query).0, shape));
    let place = pass.place(0, state::LOST_FIRST, spilled, join_state);
    let (put, put_elsewhere) = (put::<L, F>(out), put::<L, F>(overflow));
    scatter::<_, THREADS, ITEMS, BINS, 1, _>(
        t,
        (tile, live),
        AsTheyCome,
        bin_of,
        0,
        cursors,
        place,
        put,
        put_elsewhere,
    )
}

#[inline(always)]
fn from_groups<L: Routed, F: Form<L>, const THREADS: usize, const ITEMS: usize>(
    t: Thread,
    shape: Shape,
    groups: Pass,
    tiles: u32,
    pass: Pass,
    table_header: In<u32>,
    group_cursors: In<u32>,
    group_spilled: In<u32>,
    input: In<F::Element>,
    out: Buf<F::Element>,
    overflow: Buf<F::Element>,
    cursors: Buf<u32>,
    spilled: Buf<u32>,
    join_state: Buf<u32>,
) {
    t.wait_for_previous();
    t.let_next_start();
    let group = t.block().checked_div(tiles).unwrap_or(0);
    let first = (t.block() - group * tiles) * (THREADS * ITEMS) as u32;
    let came = groups.came(group, group_cursors, group_spilled);
    // Every thread of the block leaves, or none. If queries were lost, all will be looked up one by
    // one.
    if came <= first || join_state.load_relaxed(state::LOST_FIRST) != 0 {
        return;
    }
    let seed = table_header.get(header::SEED);
    let (tile, live) =
        load::<L, F, THREADS, ITEMS>(t, input, group * groups.room + first, came - first);
    let first_bin = group * groups.each;
    let bin_of = |query| L::partition_of(seed, F::split(query).0, shape) - first_bin;
    let place = pass.place(first_bin, state::LOST_SECOND, spilled, join_state);
    let (put, put_elsewhere) = (put::<L, F>(out), put::<L, F>(overflow));
    const BINS: usize = super::join::BINS as usize;
    scatter::<_, THREADS, ITEMS, BINS, 1, _>(
        t,
        (tile, live),
        AsTheyCome,
        bin_of,
        first_bin,
        cursors,
        place,
        put,
        put_elsewhere,
    )
}
/// Queries from `first` on, `count` of them or a tile, and a bit for each that counts. All are
/// asked for before one is used.
#[inline(always)]
fn load<L: Routed, F: Form<L>, const THREADS: usize, const ITEMS: usize>(
    t: Thread,
    queries: In<F::Element>,
    first: u32,
    count: u32,
) -> ([F::Query; ITEMS], u32) {
    load_run::<F::Query, THREADS, ITEMS>(
        t,
        F::array(queries),
        first,
        count,
        F::query(L::Key::narrowed(0), 0),
    )
}

/// Whether queries were lost in a pass that has ended.
#[inline(always)]
fn lost(join_state: In<u32>) -> bool {
    join_state.get(state::LOST_FIRST) | join_state.get(state::LOST_SECOND) != 0
}

/// How queries are answered: a kernel's argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Answering {
    /// The last pass.
    pub pass: Pass,
    /// Blocks that share the queries of a bin.
    pub blocks: u32,
    /// Of a filter: which queries are kept.
    pub keep: u32,
}
// SAFETY: plain numbers, no padding.
#[cfg(not(target_arch = "nvptx64"))]
unsafe impl koel_simt::Arg for Answering {}
/// Which queries a filter keeps.
pub mod keep {
    /// Those in the table.
    pub const FOUND: u32 = 0;
    /// Those that are not.
    pub const MISSING: u32 = 1;
    /// Those in the table are counted, and none is written.
    pub const COUNT: u32 = 2;
}

/// Bytes of shared memory for a partition of this many buckets: heads, and the values behind them
/// if they are `wide`.
pub const fn shared_bytes(buckets: u32, wide: bool) -> u32 {
    buckets * if wide { 64 } else { 32 } + SUMS * 4
}
/// Words with which the threads of a block agree where to write.
pub(crate) const SUMS: u32 = 33;

/// A partition in shared memory.
struct Near<L> {
    table: Table<L>,
    heads: Shared<u64>,
    values: Shared<u64>,
}
impl<L: Layout> Near<L> {
    /// Reads partition `p`, all threads of the block together; a barrier must follow.
    #[inline(always)]
    fn read(
        t: Thread,
        shared: &mut SharedMem,
        table: Table<L>,
        p: u32,
        with_values: bool,
    ) -> Near<L> {
        /// Pieces that a thread asks for at a time.
        const BATCH: usize = 5;
        let buckets = table.shape.buckets;
        let with_values = with_values && L::SLOT_WORDS > 1;
        let heads = shared.array::<u64>(buckets * 4);
        let values = shared.array::<u64>(if with_values { buckets * 4 } else { 0 });
        let first = table.shape.place(p, 0) * (L::WORDS as u64 / 2);
        // Sixteen bytes each: the first two of a bucket are heads, two more are values.
        let of_bucket = if with_values { 4 } else { 2 };
        let pieces = buckets * of_bucket;
        let mut i = t.id();
        while i < pieces {
            let mut batch = [U64x2([0; 2]); BATCH];
            unroll::<BATCH>(|j| {
                let piece = (i + j as u32 * ANSWERING).min(pieces - 1);
                let from = piece / of_bucket * (L::WORDS as u32 / 2) + piece % of_bucket;
                batch[j] = table.slots.x2().get_stream(first + from as u64);
            });
            unroll::<BATCH>(|j| {
                let piece = i + j as u32 * ANSWERING;
                if piece < pieces {
                    let (bucket, part) = (piece / of_bucket, piece % of_bucket);
                    if part < 2 {
                        heads.x2().store(2 * bucket + part, batch[j]);
                    } else {
                        values.x2().store(2 * bucket + part - 2, batch[j]);
                    }
                }
            });
            i += BATCH as u32 * ANSWERING;
        }
        Near { table, heads, values }
    }
    #[inline(always)]
    fn heads(&self, bucket: u32) -> [u64; 4] {
        let U64x2([a, b]) = self.heads.x2().load(2 * bucket);
        let U64x2([c, d]) = self.heads.x2().load(2 * bucket + 1);
        [a, b, c, d]
    }
    /// The heads of the first bucket of a mixed key of this partition.
    #[inline(always)]
    fn first_heads(&self, key: L::Mixed) -> [u64; 4] {
        self.heads(self.table.shape.first(L::hash(key)))
    }
    #[inline(always)]
    fn search(&self, key: L::Mixed, first_heads: [u64; 4]) -> Option<Hit> {
        let (shape, h) = (self.table.shape, L::hash(key));
        let first = shape.first(h);
        search::<L>(key, first, first_heads, || shape.other(h, first), |bucket| self.heads(bucket))
    }
    /// As [`Table::get`], of a mixed key of this partition, of whose first bucket these are the
    /// heads.
    #[inline(always)]
    fn get(&self, key: L::Mixed, first_heads: [u64; 4]) -> Option<L::Value> {
        if key == L::AMBIGUOUS {
            return self.table.held();
        }
        match self.search(key, first_heads) {
            None => None,
            Some(Hit::Slot(bucket, slot, head)) => Some(L::value_in(
                head,
                if L::SLOT_WORDS > 1 { self.values.load(4 * bucket + slot) } else { 0 },
            )),
            Some(Hit::Stash) => self.table.in_stash(key),
        }
    }
    /// As [`Table::contains`], of a mixed key of this partition, of whose first bucket these are
    /// the heads.
    #[inline(always)]
    fn contains(&self, key: L::Mixed, first_heads: [u64; 4]) -> bool {
        if key == L::AMBIGUOUS {
            return self.table.held().is_some();
        }
        match self.search(key, first_heads) {
            None => false,
            Some(Hit::Slot(..)) => true,
            Some(Hit::Stash) => self.table.in_stash(key).is_some(),
        }
    }
}

/// Queries of which the heads of the first buckets are asked for before one is used.
const TOGETHER: usize = 2;
/// Their heads.
#[inline(always)]
fn together(heads: impl Fn(usize) -> [u64; 4]) -> [[u64; 4]; TOGETHER] {
    let mut all = [[0; 4]; TOGETHER];
    unroll::<TOGETHER>(|l| all[l] = heads(l));
    all
}

/// Appends to arrays of which `count` elements are taken: of each thread what the bits of `has`
/// tell, `put(j, to)` for each of them. The array grows by one addition a block of [`ANSWERING`]
/// threads. `sums` has [`SUMS`] words.
#[inline(always)]
pub(crate) fn append<const ITEMS: usize>(
    t: Thread,
    has: u32,
    count: Buf<u64>,
    sums: Shared<u32>,
    mut put: impl FnMut(usize, u32),
) {
    const BASE: u32 = SUMS - 1;
    let mut of_warp = 0;
    unroll::<ITEMS>(|j| of_warp += t.warp().ballot(has >> j & 1 != 0).count_ones());
    if t.lane() == 0 {
        sums.store(t.warp_id(), of_warp);
    }
    t.barrier();
    let of_lane = if t.lane() < ANSWERING / 32 { sums.load(t.lane()) } else { 0 };
    let up_to_lane = block::warp_inclusive_sum(t, of_lane);
    let all = t.warp().shfl(up_to_lane, 31);
    if t.id() == 0 {
        sums.store(BASE, if all != 0 { count.fetch_add(0, all as u64) as u32 } else { 0 });
    }
    let before = t.warp().shfl(up_to_lane - of_lane, t.warp_id());
    t.barrier();
    let mut to = sums.load(BASE) + before;
    unroll::<ITEMS>(|j| {
        let those = t.warp().ballot(has >> j & 1 != 0);
        if has >> j & 1 != 0 {
            put(j, to + t.rank_in(those));
        }
        to += those.count_ones();
    });
}

/// Answers the queries of a partition, `ITEMS` of each thread at a time: `answer(near, seed,
/// queries, live, sums)`.
#[inline(always)]
fn partitioned<L: Routed, F: Form<L>, const ITEMS: usize>(
    t: Thread,
    answering: Answering,
    table: Table<L>,
    with_values: bool,
    queries: In<F::Element>,
    cursors: In<u32>,
    spilled: In<u32>,
    join_state: In<u32>,
    mut answer: impl FnMut(&Near<L>, u32, [F::Query; ITEMS], u32, Shared<u32>),
) {
    t.wait_for_previous();
    t.let_next_start();
    let round = ANSWERING * ITEMS as u32;
    let p = t.block().checked_div(answering.blocks).unwrap_or(0);
    let came = answering.pass.came(p, cursors, spilled);
    let mut first = (t.block() - p * answering.blocks) * round;
    // Every thread of the block leaves, or none. If queries were lost, all will be looked up one by
    // one.
    if came <= first || lost(join_state) {
        return;
    }
    let seed = table.header.get(header::SEED);
    let bin = p * answering.pass.room;
    let (mut tile, mut live) =
        load::<L, F, { ANSWERING as usize }, ITEMS>(t, queries, bin + first, came - first);
    let mut shared = t.shared();
    let near = Near::read(t, &mut shared, table, p, with_values);
    let sums = shared.array::<u32>(SUMS);
    t.barrier();
    loop {
        answer(&near, seed, tile, live, sums);
        first += answering.blocks * round;
        if came <= first {
            break;
        }
        (tile, live) =
            load::<L, F, { ANSWERING as usize }, ITEMS>(t, queries, bin + first, came - first);
    }
}

#[inline(always)]
fn join<L: Routed, const ITEMS: usize>(
    t: Thread,
    answering: Answering,
    table: Table<L>,
    queries: In<u64>,
    cursors: In<u32>,
    spilled: In<u32>,
    join_state: In<u32>,
    numbers: Buf<u32>,
    values: Buf<L::Value>,
    count: Buf<u64>,
) {
    let answer = |near: &Near<L>, seed, tile: [<Numbered as Form<L>>::Query; ITEMS], live, sums| {
        let (mut answers, mut found) = ([L::Value::narrowed(0); ITEMS], 0);
        let key = |j: usize| L::mixed_of(seed, <Numbered as Form<L>>::split(tile[j]).0);
        unroll::<ITEMS>(|j| {
            if j % TOGETHER == 0 {
                let heads = together(|l| near.first_heads(key(j + l)));
                unroll::<TOGETHER>(|l| {
                    let answer = near.get(key(j + l), heads[l]);
                    answers[j + l] = answer.unwrap_or(L::Value::narrowed(0));
                    found |= (answer.is_some() as u32) << (j + l);
                });
            }
        });
        append::<ITEMS>(t, found & live, count, sums, |j, to| {
            numbers.store_stream(to, <Numbered as Form<L>>::split(tile[j]).1);
            values.store_stream(to, answers[j]);
        });
    };
    partitioned::<L, Numbered, ITEMS>(
        t, answering, table, true, queries, cursors, spilled, join_state, answer,
    );
}
#[inline(always)]
fn filter<L: Routed, const ITEMS: usize>(
    t: Thread,
    answering: Answering,
    table: Table<L>,
    queries: In<L::Key>,
    cursors: In<u32>,
    spilled: In<u32>,
    join_state: In<u32>,
    keys: Buf<L::Key>,
    count: Buf<u64>,
) {
    let answer = |near: &Near<L>, seed, tile: [L::Key; ITEMS], live: u32, sums| {
        let mut found = 0;
        let key = |j: usize| L::mixed_of(seed, tile[j]);
        unroll::<ITEMS>(|j| {
            if j % TOGETHER == 0 {
                let heads = together(|l| near.first_heads(key(j + l)));
                unroll::<TOGETHER>(|l| {
                    found |= (near.contains(key(j + l), heads[l]) as u32) << (j + l)
                });
            }
        });
        append::<ITEMS>(t, kept(answering.keep, found) & live, count, sums, |j, to| {
            if answering.keep != keep::COUNT {
                keys.store_stream(to, L::key_of(seed, tile[j]));
            }
        });
    };
    partitioned::<L, Alone, ITEMS>(
        t, answering, table, false, queries, cursors, spilled, join_state, answer,
    );
}
/// Of the bits of queries, those that a filter keeps.
#[inline(always)]
fn kept(keep: u32, found: u32) -> u32 {
    if keep == keep::MISSING { !found } else { found }
}

/// Which queries are looked up in device memory.
pub mod source {
    /// All that came in.
    pub const INPUT: u32 = 0;
    /// Those in the overflow area; or all, if partitioning lost some.
    pub const OVERFLOW: u32 = 1;
    /// Those of bin `t.block() / answering.blocks`; or none, if partitioning lost some.
    pub const BIN: u32 = 2;
}
/// Looks queries up in device memory, [`DIRECT_ITEMS`] of each thread at a time: `answer(seed,
/// queries, live)`. `sent`: the overflow area, or the bins.
#[inline(always)]
fn direct<L: Routed, F: Form<L>>(
    t: Thread,
    n: u32,
    source: u32,
    answering: Answering,
    table: Table<L>,
    queries: In<L::Key>,
    sent: In<F::Element>,
    cursors: In<u32>,
    spilled: In<u32>,
    join_state: In<u32>,
    mut answer: impl FnMut(u32, [F::Query; DIRECT_ITEMS as usize], u32),
) {
    const ITEMS: usize = DIRECT_ITEMS as usize;
    const THREADS: usize = ANSWERING as usize;
    const ROUND: u32 = (THREADS * ITEMS) as u32;
    t.wait_for_previous();
    t.let_next_start();
    let lost = source != source::INPUT && lost(join_state);
    let from_input = source == source::INPUT || source == source::OVERFLOW && lost;
    let (bin, blocks) = match source {
        source::BIN => (t.block().checked_div(answering.blocks).unwrap_or(0), answering.blocks),
        _ => (0, t.grid_dim()),
    };
    let number = if from_input {
        n
    } else if source == source::OVERFLOW {
        join_state.get(state::OVERFLOWED).min(answering.pass.area)
    } else if lost {
        0
    } else {
        answering.pass.came(bin, cursors, spilled)
    };
    let seed = table.header.get(header::SEED);
    let mut first = (t.block() - bin * blocks) * ROUND;
    while first < number {
        let (tile, live) = if from_input {
            let (mut keys, mut live) = ([L::Key::narrowed(0); ITEMS], 0);
            let at = |j: usize| first + (j * THREADS) as u32 + t.id();
            unroll::<ITEMS>(|j| {
                keys[j] = queries.get_stream(at(j).min(n - 1));
                live |= ((at(j) < n) as u32) << j;
            });
            let mut tile = [F::query(keys[0], 0); ITEMS];
            unroll::<ITEMS>(|j| tile[j] = F::query(L::sent(seed, keys[j]), at(j)));
            (tile, live)
        } else {
            load::<L, F, THREADS, ITEMS>(t, sent, bin * answering.pass.room + first, number - first)
        };
        answer(seed, tile, live);
        first += blocks * ROUND;
    }
}
/// The mixed keys of queries, and the heads of their first buckets: all are asked for before one is
/// used.
#[inline(always)]
fn first_buckets<L: Routed, const ITEMS: usize>(
    seed: u32,
    table: Table<L>,
    sent: impl Fn(usize) -> L::Key,
) -> ([L::Mixed; ITEMS], [[u64; 4]; ITEMS]) {
    let (mut mixed, mut heads) = ([L::AMBIGUOUS; ITEMS], [[0; 4]; ITEMS]);
    unroll::<ITEMS>(|j| {
        mixed[j] = L::mixed_of(seed, sent(j));
        heads[j] = table.first_heads(mixed[j]);
    });
    (mixed, heads)
}
#[inline(always)]
fn join_direct<L: Routed>(
    t: Thread,
    n: u32,
    source: u32,
    answering: Answering,
    table: Table<L>,
    queries: In<L::Key>,
    sent: In<u64>,
    cursors: In<u32>,
    spilled: In<u32>,
    join_state: In<u32>,
    numbers: Buf<u32>,
    values: Buf<L::Value>,
    count: Buf<u64>,
) {
    const ITEMS: usize = DIRECT_ITEMS as usize;
    let sums = t.shared().array::<u32>(SUMS);
    let answer = |seed, tile: [<Numbered as Form<L>>::Query; ITEMS], live: u32| {
        let split = |j: usize| <Numbered as Form<L>>::split(tile[j]);
        let (mixed, heads) = first_buckets::<L, ITEMS>(seed, table, |j| split(j).0);
        let (mut answers, mut found) = ([L::Value::narrowed(0); ITEMS], 0);
        unroll::<ITEMS>(|j| {
            let answer = table.get_mixed(mixed[j], heads[j]);
            answers[j] = answer.unwrap_or(L::Value::narrowed(0));
            found |= (answer.is_some() as u32) << j;
        });
        append::<ITEMS>(t, found & live, count, sums, |j, to| {
            numbers.store_stream(to, split(j).1);
            values.store_stream(to, answers[j]);
        });
    };
    direct::<L, Numbered>(
        t, n, source, answering, table, queries, sent, cursors, spilled, join_state, answer,
    );
}
#[inline(always)]
fn filter_direct<L: Routed>(
    t: Thread,
    n: u32,
    source: u32,
    answering: Answering,
    table: Table<L>,
    queries: In<L::Key>,
    sent: In<L::Key>,
    cursors: In<u32>,
    spilled: In<u32>,
    join_state: In<u32>,
    keys: Buf<L::Key>,
    count: Buf<u64>,
) {
    const ITEMS: usize = DIRECT_ITEMS as usize;
    let sums = t.shared().array::<u32>(SUMS);
    let answer = |seed, tile: [L::Key; ITEMS], live: u32| {
        let (mixed, heads) = first_buckets::<L, ITEMS>(seed, table, |j| tile[j]);
        let mut found = 0;
        unroll::<ITEMS>(|j| found |= (table.contains_mixed(mixed[j], heads[j]) as u32) << j);
        append::<ITEMS>(t, kept(answering.keep, found) & live, count, sums, |j, to| {
            if answering.keep != keep::COUNT {
                keys.store_stream(to, L::key_of(seed, tile[j]));
            }
        });
    };
    direct::<L, Alone>(
        t, n, source, answering, table, queries, sent, cursors, spilled, join_state, answer,
    );
}

/// Queries of a thread, of this many bytes each, in a block of [`THREADS`].
pub const fn items(bytes: u32) -> u32 {
    match bytes {
        4 => 28,
        8 => 20,
        _ => 8,
    }
}
/// The same in a block of [`MANY_THREADS`].
pub const fn many_items(bytes: u32) -> u32 {
    match bytes {
        4 => 20,
        8 => 16,
        _ => 8,
    }
}
/// Bytes of shared memory of a block that partitions.
const fn pass_shared(threads: u32, items: u32, bins: u32, bytes: u32) -> u32 {
    threads * items * bytes + bins * 8 + 32 * 4
}
/// What a block for [`MANY_BINS`] bins needs of it, at most.
pub const MANY_SHARED: u32 = pass_shared(MANY_THREADS, many_items(8), MANY_BINS, 8);
macro_rules! passes { ($($image:ident $layout:ty, $key:ty, $form:ident, $element:ty, $bytes:literal:
    $from_input:ident $from_input_many:ident $from_groups:ident, $items:literal $many_items:literal;)*
) => { $(
    /// Brings the queries into up to [`BINS`] bins. `aligned`: they begin on a multiple of 16
    /// bytes. `cursors`, `spilled` and `join_state` are zero before it.
    #[kernel(image = $image, threads = 384, min_blocks = 2, shared = pass_shared(THREADS, $items, BINS, $bytes), starts_early)]
    pub fn $from_input(
        t: Thread,
        n: u32,
        aligned: u32,
        shape: Shape,
        pass: Pass,
        table_header: In<u32>,
        queries: In<$key>,
        out: Buf<$element>,
        overflow: Buf<$element>,
        cursors: Buf<u32>,
        spilled: Buf<u32>,
        join_state: Buf<u32>,
    ) {
        const { assert!($items == items($bytes) && $many_items == many_items($bytes)) };
        from_input::<$layout, $form, { THREADS as usize }, $items, { BINS as usize }>(
            t, n, aligned, shape, pass, table_header, queries, out, overflow, cursors, spilled, join_state,
        )
    }
    /// The same, into up to [`MANY_BINS`] bins.
    #[kernel(image = $image, threads = 1024, shared = pass_shared(MANY_THREADS, $many_items, MANY_BINS, $bytes), starts_early)]
    pub fn $from_input_many(
        t: Thread,
        n: u32,
        aligned: u32,
        shape: Shape,
        pass: Pass,
        table_header: In<u32>,
        queries: In<$key>,
        out: Buf<$element>,
        overflow: Buf<$element>,
        cursors: Buf<u32>,
        spilled: Buf<u32>,
        join_state: Buf<u32>,
    ) {
        from_input::<$layout, $form, { MANY_THREADS as usize }, $many_items, { MANY_BINS as usize }>(
            t, n, aligned, shape, pass, table_header, queries, out, overflow, cursors, spilled, join_state,
        )
    }
    /// Brings the queries of each group, a bin of the first pass, to their partitions, each block a
    /// tile of one group: `tiles` blocks for each. `cursors` and `spilled` are zero before it.
    #[kernel(image = $image, threads = 384, min_blocks = 2, shared = pass_shared(THREADS, $items, BINS, $bytes), starts_early)]
    pub fn $from_groups(
        t: Thread,
        shape: Shape,
        groups: Pass,
        tiles: u32,
        pass: Pass,
        table_header: In<u32>,
        group_cursors: In<u32>,
        group_spilled: In<u32>,
        input: In<$element>,
        out: Buf<$element>,
        overflow: Buf<$element>,
        cursors: Buf<u32>,
        spilled: Buf<u32>,
        join_state: Buf<u32>,
    ) {
        from_groups::<$layout, $form, { THREADS as usize }, $items>(
            t, shape, groups, tiles, pass, table_header, group_cursors, group_spilled, input, out, overflow, cursors, spilled,
            join_state,
        )
    }
)* } }
passes! {
    MAP_JOIN Narrow, u32, Numbered, u64, 8:
        map_join_from_input map_join_from_input_many map_join_from_groups, 20 16;
    MAP_JOIN_WIDE Wide<u32, u64>, u32, Numbered, u64, 8:
        map_join_from_input_u32 map_join_from_input_many_u32 map_join_from_groups_u32, 20 16;
    MAP_JOIN_WIDE Wide<u64, u64>, u64, Numbered, u64, 16:
        map_join_from_input_u64 map_join_from_input_many_u64 map_join_from_groups_u64, 8 8;
    MAP_JOIN Narrow, u32, Alone, u32, 4:
        map_filter_from_input map_filter_from_input_many map_filter_from_groups, 28 20;
    MAP_JOIN_WIDE Wide<u32, u64>, u32, Alone, u32, 4:
        map_filter_from_input_u32 map_filter_from_input_many_u32 map_filter_from_groups_u32, 28 20;
    MAP_JOIN_WIDE Wide<u64, u64>, u64, Alone, u64, 8:
        map_filter_from_input_u64 map_filter_from_input_many_u64 map_filter_from_groups_u64, 20 16;
}

macro_rules! joins { ($($image:ident $layout:ty, $key:ty, $value:ty, $wide:literal, $items:literal $blocks:literal $direct_blocks:literal: $join:ident $join_direct:ident;)*) => { $(
    /// Answers the queries of partitions `t.block() / answering.blocks`: appends to `numbers` and
    /// `values`, of which `count` are taken, the number and the value of each that is found.
    #[kernel(image = $image, threads = 256, min_blocks = $blocks, shared = shared_bytes(shape.buckets, $wide), starts_early)]
    pub fn $join(
        t: Thread,
        answering: Answering,
        shape: Shape,
        stash_bits: u32,
        slots: In<u64>,
        stash: In<u64>,
        table_header: In<u32>,
        queries: In<u64>,
        cursors: In<u32>,
        spilled: In<u32>,
        join_state: In<u32>,
        numbers: Buf<u32>,
        values: Buf<$value>,
        count: Buf<u64>,
    ) {
        let table = Table::<$layout>::new(shape, stash_bits, slots, stash, table_header);
        join::<$layout, $items>(t, answering, table, queries, cursors, spilled, join_state, numbers, values, count)
    }
    /// The same for queries that are looked up in device memory: those that the [`source`] tells.
    #[kernel(image = $image, threads = 256, min_blocks = $direct_blocks, shared = SUMS * 4, starts_early)]
    pub fn $join_direct(
        t: Thread,
        n: u32,
        source: u32,
        answering: Answering,
        shape: Shape,
        stash_bits: u32,
        slots: In<u64>,
        stash: In<u64>,
        table_header: In<u32>,
        queries: In<$key>,
        sent: In<u64>,
        cursors: In<u32>,
        spilled: In<u32>,
        join_state: In<u32>,
        numbers: Buf<u32>,
        values: Buf<$value>,
        count: Buf<u64>,
    ) {
        let table = Table::<$layout>::new(shape, stash_bits, slots, stash, table_header);
        join_direct::<$layout>(
            t, n, source, answering, table, queries, sent, cursors, spilled, join_state, numbers, values, count,
        )
    }
)* } }
joins! {
    MAP_JOIN Narrow, u32, u32, false, 8 4 4: map_join map_join_direct;
    MAP_JOIN_WIDE Wide<u32, u64>, u32, u64, true, 8 3 3: map_join_u32_u64 map_join_direct_u32_u64;
    MAP_JOIN_WIDE Wide<u64, u32>, u64, u32, true, 4 3 3: map_join_u64_u32 map_join_direct_u64_u32;
    MAP_JOIN_WIDE Wide<u64, u64>, u64, u64, true, 4 3 3: map_join_u64_u64 map_join_direct_u64_u64;
}

macro_rules! filters { ($($image:ident $layout:ty, $key:ty: $filter:ident $filter_direct:ident;)*) => { $(
    /// Answers the queries of partitions `t.block() / answering.blocks`: appends to `keys`, of
    /// which `count` are taken, those that `answering.keep` tells.
    #[kernel(image = $image, threads = 256, min_blocks = 4, shared = shared_bytes(shape.buckets, false), starts_early)]
    pub fn $filter(
        t: Thread,
        answering: Answering,
        shape: Shape,
        stash_bits: u32,
        slots: In<u64>,
        stash: In<u64>,
        table_header: In<u32>,
        queries: In<$key>,
        cursors: In<u32>,
        spilled: In<u32>,
        join_state: In<u32>,
        keys: Buf<$key>,
        count: Buf<u64>,
    ) {
        let table = Table::<$layout>::new(shape, stash_bits, slots, stash, table_header);
        filter::<$layout, 8>(t, answering, table, queries, cursors, spilled, join_state, keys, count)
    }
    /// The same for queries that are looked up in device memory: those that the [`source`] tells.
    #[kernel(image = $image, threads = 256, min_blocks = 4, shared = SUMS * 4, starts_early)]
    pub fn $filter_direct(
        t: Thread,
        n: u32,
        source: u32,
        answering: Answering,
        shape: Shape,
        stash_bits: u32,
        slots: In<u64>,
        stash: In<u64>,
        table_header: In<u32>,
        queries: In<$key>,
        sent: In<$key>,
        cursors: In<u32>,
        spilled: In<u32>,
        join_state: In<u32>,
        keys: Buf<$key>,
        count: Buf<u64>,
    ) {
        let table = Table::<$layout>::new(shape, stash_bits, slots, stash, table_header);
        filter_direct::<$layout>(t, n, source, answering, table, queries, sent, cursors, spilled, join_state, keys, count)
    }
)* } }
filters! {
    MAP_JOIN Narrow, u32: map_filter map_filter_direct;
    MAP_JOIN_WIDE Wide<u32, u64>, u32: map_filter_u32 map_filter_direct_u32;
    MAP_JOIN_WIDE Wide<u64, u64>, u64: map_filter_u64 map_filter_direct_u64;
}
