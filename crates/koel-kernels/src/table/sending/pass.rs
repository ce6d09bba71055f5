//! Passes that partition queries.
use super::route::{Form, Routed};
use super::{Destination, Queries, SendTo, SentCoarse, state};
use crate::partition::{AsTheyCome, ELSEWHERE, load_keys, load_run, scatter, tile_index};
use crate::table::header;
use crate::table::layout::Number;
use koel_simt::{Buf, In, Thread, unroll};

/// Writes a query to its place in the bins or in the overflow area.
#[inline(always)]
pub(super) fn put<L: Routed, F: Form<L::Key>>(to: Buf<F::Element>) -> impl Fn(u32, F::Query) {
    let queries = F::array_mut(to);
    move |to, query| queries.store(to & !ELSEWHERE, query)
}

#[inline(always)]
pub(super) fn from_input<
    L: Routed,
    F: Form<L::Key>,
    const THREADS: usize,
    const ITEMS: usize,
    const BINS: usize,
>(
    t: Thread,
    queries: Queries<L::Key>,
    table: Destination,
    to: SendTo<F::Element>,
) {
    let Queries { keys: queries, n, aligned } = queries;
    let Destination { shape, header: table_header } = table;
    let SendTo { pass, queries: out, overflow, cursors, spilled, state: join_state } = to;
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
pub(super) fn from_coarse<L: Routed, F: Form<L::Key>, const THREADS: usize, const ITEMS: usize>(
    t: Thread,
    coarse: SentCoarse<F::Element>,
    table: Destination,
    to: SendTo<F::Element>,
) {
    let SentCoarse {
        pass: coarse,
        tiles,
        cursors: coarse_cursors,
        spilled: coarse_spilled,
        queries: input,
    } = coarse;
    let Destination { shape, header: table_header } = table;
    let SendTo { pass, queries: out, overflow, cursors, spilled, state: join_state } = to;
    t.wait_for_previous();
    t.let_next_start();
    let coarse_bin = t.block().checked_div(tiles).unwrap_or(0);
    let first = (t.block() - coarse_bin * tiles) * (THREADS * ITEMS) as u32;
    let came = coarse.came(coarse_bin, coarse_cursors, coarse_spilled);
    // Every thread of the block returns, or none. If queries were lost, all queries are looked up
    // one by one.
    if came <= first || join_state.load_relaxed(state::LOST_FIRST) != 0 {
        return;
    }
    let seed = table_header.get(header::SEED);
    let (tile, live) =
        load::<L, F, THREADS, ITEMS>(t, input, coarse_bin * coarse.room + first, came - first);
    let first_bin = coarse_bin * coarse.each;
    let bin_of = |query| L::partition_of(seed, F::split(query).0, shape) - first_bin;
    let place = pass.place(first_bin, state::LOST_SECOND, spilled, join_state);
    let (put, put_elsewhere) = (put::<L, F>(out), put::<L, F>(overflow));
    const BINS: usize = super::BINS as usize;
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

/// Loads queries from `first` on, `count` of them or a tile, and returns a bit for each valid one.
/// Issues all loads before using one.
#[inline(always)]
pub(crate) fn load<L: Routed, F: Form<L::Key>, const THREADS: usize, const ITEMS: usize>(
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

/// Returns whether a finished pass lost queries.
#[inline(always)]
pub(crate) fn lost(join_state: In<u32>) -> bool {
    join_state.get(state::LOST_FIRST) | join_state.get(state::LOST_SECOND) != 0
}
