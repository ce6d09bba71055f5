//! Looks queries up in device memory: those of a bin, those that overflowed, or all.
use super::answer::{keep, kept, source};
use super::{Answering, DIRECT_ITEMS, RowsOut};
use crate::map::find::MapRef;
use crate::table::append::{ANSWERING, KeysOut, SUMS, append};
use crate::table::header;
use crate::table::layout::Number;
use crate::table::sending::{Alone, Form, Numbered, Queries, Routed, Sent, load, lost, state};
use koel_simt::{Thread, unroll};

/// Looks queries up in device memory, [`DIRECT_ITEMS`] per thread at a time, by `answer(seed,
/// queries, live)`. `sent.queries` is the overflow area or the bins, depending on the source.
#[inline(always)]
pub(super) fn direct<L: Routed, F: Form<L::Key>>(
    t: Thread,
    source: u32,
    answering: Answering,
    table: MapRef<L>,
    queries: Queries<L::Key>,
    sent: Sent<F::Element>,
    mut answer: impl FnMut(u32, [F::Query; DIRECT_ITEMS as usize], u32),
) {
    let Queries { keys: queries, n, .. } = queries;
    let Sent { queries: sent, cursors, spilled, state: join_state, .. } = sent;
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
    for first in t.strided((t.block() - bin * blocks) * ROUND, blocks * ROUND, number) {
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
    }
}

/// Returns the mixed keys of queries and the heads of their first buckets. Issues all loads before
/// the first is used.
#[inline(always)]
pub(super) fn first_buckets<L: Routed, const ITEMS: usize>(
    seed: u32,
    table: MapRef<L>,
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
pub(super) fn join_direct<L: Routed>(
    t: Thread,
    source: u32,
    answering: Answering,
    table: MapRef<L>,
    queries: Queries<L::Key>,
    sent: Sent<u64>,
    to: RowsOut<L::Value>,
) {
    let RowsOut { numbers, values, count } = to;
    const ITEMS: usize = DIRECT_ITEMS as usize;
    let sums = t.shared().array::<u32>(SUMS);
    let answer = |seed, tile: [<Numbered as Form<L::Key>>::Query; ITEMS], live: u32| {
        let split = |j: usize| <Numbered as Form<L::Key>>::split(tile[j]);
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
    direct::<L, Numbered>(t, source, answering, table, queries, sent, answer);
}

#[inline(always)]
pub(super) fn filter_direct<L: Routed>(
    t: Thread,
    source: u32,
    answering: Answering,
    table: MapRef<L>,
    queries: Queries<L::Key>,
    sent: Sent<L::Key>,
    to: KeysOut<L::Key>,
) {
    let KeysOut { keys, count } = to;
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
    direct::<L, Alone>(t, source, answering, table, queries, sent, answer);
}
