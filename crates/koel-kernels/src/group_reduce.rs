//! Sum, minimum and maximum of the values of each group.
//!
//! The values of a group are adjacent, and no group is empty. A block reduces the groups in a tile
//! of values. A group that spans several tiles is merged from its parts afterwards, always in the
//! same order, so that sums of floats too are the same in every run.
use crate::fold::{Fold, Form, Max, Min, Sum, SumOfFloats};
use koel_simt::{Buf, In, Thread, Word, kernel, unroll};

/// Threads per block.
pub const THREADS: u32 = 256;
/// Values per thread.
const ITEMS: usize = 8;
/// Values per block.
pub const TILE: u32 = THREADS * ITEMS as u32;
/// Number of groups in a tile from which each thread takes one group at a time. With fewer groups,
/// each warp takes one.
const MANY: u32 = 64;
/// In place of the group of a tile's first value, if that group begins there.
const NONE: u32 = u32::MAX;

/// Returns the group of a value.
#[inline(always)]
fn group_of(groups: u32, starts: In<u32>, place: u32) -> u32 {
    let (mut from, mut to) = (0, groups);
    while to - from > 1 {
        let middle = from + (to - from) / 2;
        if starts.get(middle) <= place {
            from = middle;
        } else {
            to = middle;
        }
    }
    from
}

/// Grouped values: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct GroupedIn<V: Word> {
    /// Start of each group, and the end of the last one.
    pub starts: In<u32>,
    /// The `n` values, in group order.
    pub values: In<V>,
    /// Number of values.
    pub n: u32,
    /// Number of groups.
    pub groups: u32,
}
/// Parts of groups that began in an earlier tile: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PartsOut<P: Word> {
    /// For each tile, the group of its first value, or all ones if that group begins there.
    pub firsts: Buf<u32>,
    /// For each tile, the part of that group.
    pub heads: Buf<P>,
}

/// Computes the result of each group whose values are all in one tile. For other groups, `out` gets
/// the part of their first tile, and `parts` that of each later one. One block per [`TILE`].
#[kernel(
    image = GROUPS, threads = 256, min_blocks = 4,
    shared = TILE * size_of::<F::Part>() as u32 + 8,
    for F in [
        Sum<u32>, Sum<u64>, Min<u32>, Min<u64>, Max<u32>, Max<u64>, SumOfFloats<u32>,
        SumOfFloats<u64>
    ]
)]
pub fn group_reduce<F: Fold>(
    t: Thread,
    form: Form,
    grouped: GroupedIn<F::Value>,
    parts: PartsOut<F::Part>,
    out: Buf<F::Part>,
) {
    let GroupedIn { starts, values, n, groups } = grouped;
    let PartsOut { firsts, heads } = parts;
    let mut shared = t.shared();
    let tile = shared.array::<F::Part>(TILE);
    let ends = shared.array::<u32>(2);
    let (id, begin) = (t.id(), t.block() * TILE);
    let count = TILE.min(n - begin);
    let end = begin + count;
    unroll::<ITEMS>(|j| {
        let at = j as u32 * THREADS + id;
        if at < count {
            tile.store(at, F::part(values.get_stream(begin + at), form));
        }
    });
    if id == 0 || id == 32 {
        ends.store(id / 32, group_of(groups, starts, if id == 0 { begin } else { end - 1 }));
    }
    t.barrier();
    let (first, last) = (ends.load(0), ends.load(1));
    if id == 0 {
        firsts.store(t.block(), if starts.get(first) < begin { first } else { NONE });
    }
    // Range of a group, and of its part in this tile.
    let places = |group: u32| {
        let (from, to) = (starts.get(group), starts.get(group + 1));
        (from, to, from.max(begin) - begin, to.min(end) - begin)
    };
    let put = |group: u32, from: u32, to: u32, part: F::Part| {
        if from < begin {
            heads.store(t.block(), part);
        } else {
            out.store(group, if to <= end { F::result(part, form) } else { part });
        }
    };
    if last - first >= MANY {
        let mut group = first + id;
        while group <= last {
            let (from, to, mut at, stop) = places(group);
            let mut part = F::neutral();
            while at < stop {
                part = F::merge(part, tile.load(at));
                at += 1;
            }
            put(group, from, to, part);
            group += THREADS;
        }
    } else {
        let mut group = first + t.warp_id();
        while group <= last {
            let (from, to, start, stop) = places(group);
            let (mut part, mut at) = (F::neutral(), start + t.lane());
            while at < stop {
                part = F::merge(part, tile.load(at));
                at += 32;
            }
            unroll::<5>(|j| part = F::merge(part, t.warp().shfl_xor(part, 1 << j)));
            if t.lane() == 0 {
                put(group, from, to, part);
            }
            group += THREADS / 32;
        }
    }
}

/// Merges the parts of groups that span several tiles. One warp per tile merges the group that ends
/// there and began in an earlier tile.
#[kernel(
    image = GROUPS, threads = 256,
    for F in [
        Sum<u32>, Sum<u64>, Min<u32>, Min<u64>, Max<u32>, Max<u64>, SumOfFloats<u32>,
        SumOfFloats<u64>
    ]
)]
pub fn group_reduce_join<F: Fold>(
    t: Thread,
    form: Form,
    n: u32,
    starts: In<u32>,
    firsts: In<u32>,
    heads: In<F::Part>,
    out: Buf<F::Part>,
) {
    let tile = t.global_id() / 32;
    if tile >= n.div_ceil(TILE) {
        return;
    }
    let group = firsts.get(tile);
    if group == NONE {
        return;
    }
    let (from, to) = (starts.get(group), starts.get(group + 1));
    if to.div_ceil(TILE) > tile + 1 {
        return;
    }
    let (mut part, mut at) = (F::neutral(), from / TILE + 1 + t.lane());
    while at <= tile {
        part = F::merge(part, heads.get(at));
        at += 32;
    }
    unroll::<5>(|j| part = F::merge(part, t.warp().shfl_xor(part, 1 << j)));
    if t.lane() == 0 {
        out.store(group, F::result(F::merge(out.load_relaxed(group), part), form));
    }
}
