//! Answers the queries of a partition from shared memory, one block per partition.
use super::{Answering, RowsOut};
use crate::map::find::{Hit, MapRef, search};
use crate::table::append::{ANSWERING, KeysOut, SUMS, append};
use crate::table::header;
use crate::table::layout::{Layout, Number};
use crate::table::sending::{Alone, Form, Numbered, Routed, Sent, load, lost};
use koel_simt::{Shared, SharedMem, Thread, U64x2, unroll};

/// Which queries a filter keeps.
pub mod keep {
    /// Queries in the table.
    pub const FOUND: u32 = 0;
    /// Queries that are not in the table.
    pub const MISSING: u32 = 1;
    /// None: queries in the table are only counted.
    pub const COUNT: u32 = 2;
}

/// A partition in shared memory.
pub(super) struct Near<L: Layout> {
    pub(super) table: MapRef<L>,
    pub(super) heads: Shared<u64>,
    pub(super) values: Shared<u64>,
}

impl<L: Layout> Near<L> {
    /// Reads partition `p`. All threads of the block must call it, and a barrier must follow.
    #[inline(always)]
    pub(super) fn read(
        t: Thread,
        shared: &mut SharedMem,
        table: MapRef<L>,
        p: u32,
        with_values: bool,
    ) -> Near<L> {
        /// Pieces that a thread loads at a time.
        const BATCH: usize = 5;
        let buckets = table.shape.buckets;
        let with_values = with_values && L::SLOT_WORDS > 1;
        let heads = shared.array::<u64>(buckets * 4);
        let values = shared.array::<u64>(if with_values { buckets * 4 } else { 0 });
        let first = table.shape.place(p, 0) * (L::WORDS as u64 / 2);
        // Pieces of sixteen bytes: the first two of a bucket are heads, two more are values.
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
    pub(super) fn heads(&self, bucket: u32) -> [u64; 4] {
        let U64x2([a, b]) = self.heads.x2().load(2 * bucket);
        let U64x2([c, d]) = self.heads.x2().load(2 * bucket + 1);
        [a, b, c, d]
    }
    /// Returns the heads of the first bucket of a mixed key of this partition.
    #[inline(always)]
    pub(super) fn first_heads(&self, key: L::Mixed) -> [u64; 4] {
        self.heads(self.table.shape.first(L::hash(key)))
    }
    #[inline(always)]
    pub(super) fn search(&self, key: L::Mixed, first_heads: [u64; 4]) -> Option<Hit> {
        let (shape, h) = (self.table.shape, L::hash(key));
        let first = shape.first(h);
        search::<L>(key, first, first_heads, || shape.other(h, first), |bucket| self.heads(bucket))
    }
    /// Returns the value of a mixed key of this partition, given the heads of its first bucket,
    /// like [`MapRef::get`].
    #[inline(always)]
    pub(super) fn get(&self, key: L::Mixed, first_heads: [u64; 4]) -> Option<L::Value> {
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
    /// Returns whether a mixed key of this partition is present, given the heads of its first
    /// bucket, like [`MapRef::contains`].
    #[inline(always)]
    pub(super) fn contains(&self, key: L::Mixed, first_heads: [u64; 4]) -> bool {
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

/// Queries whose first buckets are loaded before one is used.
pub(super) const TOGETHER: usize = 2;

/// Loads their heads.
#[inline(always)]
pub(super) fn together(heads: impl Fn(usize) -> [u64; 4]) -> [[u64; 4]; TOGETHER] {
    let mut all = [[0; 4]; TOGETHER];
    unroll::<TOGETHER>(|l| all[l] = heads(l));
    all
}

/// Answers the queries of a partition, `ITEMS` per thread at a time, by `answer(near, seed,
/// queries, live, sums)`.
#[inline(always)]
pub(super) fn partitioned<L: Routed, F: Form<L::Key>, const ITEMS: usize>(
    t: Thread,
    answering: Answering,
    table: MapRef<L>,
    with_values: bool,
    sent: Sent<F::Element>,
    mut answer: impl FnMut(&Near<L>, u32, [F::Query; ITEMS], u32, Shared<u32>),
) {
    let Sent { queries, cursors, spilled, state: join_state, .. } = sent;
    t.wait_for_previous();
    t.let_next_start();
    let round = ANSWERING * ITEMS as u32;
    let p = t.block().checked_div(answering.blocks).unwrap_or(0);
    let came = answering.pass.came(p, cursors, spilled);
    let mut first = (t.block() - p * answering.blocks) * round;
    // All threads of the block return, or none. If queries were lost, all are looked up in device
    // memory.
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
pub(super) fn join<L: Routed, const ITEMS: usize>(
    t: Thread,
    answering: Answering,
    table: MapRef<L>,
    sent: Sent<u64>,
    to: RowsOut<L::Value>,
) {
    let RowsOut { numbers, values, count } = to;
    let answer =
        |near: &Near<L>, seed, tile: [<Numbered as Form<L::Key>>::Query; ITEMS], live, sums| {
            let (mut answers, mut found) = ([L::Value::narrowed(0); ITEMS], 0);
            let key = |j: usize| L::mixed_of(seed, <Numbered as Form<L::Key>>::split(tile[j]).0);
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
                numbers.store_stream(to, <Numbered as Form<L::Key>>::split(tile[j]).1);
                values.store_stream(to, answers[j]);
            });
        };
    partitioned::<L, Numbered, ITEMS>(t, answering, table, true, sent, answer);
}

#[inline(always)]
pub(super) fn filter<L: Routed, const ITEMS: usize>(
    t: Thread,
    answering: Answering,
    table: MapRef<L>,
    sent: Sent<L::Key>,
    to: KeysOut<L::Key>,
) {
    let KeysOut { keys, count } = to;
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
    partitioned::<L, Alone, ITEMS>(t, answering, table, false, sent, answer);
}

/// Returns the bits of the queries that a filter keeps, given those of the queries found.
#[inline(always)]
pub(super) fn kept(keep: u32, found: u32) -> u32 {
    if keep == keep::MISSING { !found } else { found }
}

/// Which queries are looked up in device memory.
pub mod source {
    /// The whole input.
    pub const INPUT: u32 = 0;
    /// Queries in the overflow area, or all if partitioning lost some.
    pub const OVERFLOW: u32 = 1;
    /// Queries in bin `t.block() / answering.blocks`, or none if partitioning lost some.
    pub const BIN: u32 = 2;
}
