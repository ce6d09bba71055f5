//! Sum, least and greatest of the values of each group.
//!
//! The values of a group are neighbours, and no group is empty. A block reduces the groups in a
//! tile of values; a group that reaches over several tiles is put together from its parts
//! afterwards, always in the same order: sums of `f32` too are the same in every run.
use crate::map::layout::Number;
use core::marker::PhantomData;
use koel_simt::{Buf, In, Thread, kernel, unroll};

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Values of a thread.
const ITEMS: usize = 8;
/// Values of a block.
pub const TILE: u32 = THREADS * ITEMS as u32;
/// Groups of a tile from which on each thread takes one at a time; each warp does if there are
/// fewer.
const MANY: u32 = 64;
/// In place of the group of a tile's first value, if it begins there.
const NONE: u32 = u32::MAX;

/// What becomes of the values of a group.
pub trait Fold: Copy {
    /// Of the caller.
    type Value: Number;
    /// What is known of some values, and in the end the result.
    type Part: Number;
    /// Of no value.
    const NEUTRAL: Self::Part;
    /// Of one value.
    fn part(value: Self::Value) -> Self::Part;
    /// Of two parts.
    fn merge(a: Self::Part, b: Self::Part) -> Self::Part;
    /// The result, of all values.
    #[inline(always)]
    fn result(all: Self::Part) -> Self::Part {
        all
    }
}
/// The sum, modulo 2^64.
#[derive(Clone, Copy)]
pub struct Sum<V>(PhantomData<V>);
impl<V: Number> Fold for Sum<V> {
    type Value = V;
    type Part = u64;
    const NEUTRAL: u64 = 0;
    #[inline(always)]
    fn part(value: V) -> u64 {
        value.widened()
    }
    #[inline(always)]
    fn merge(a: u64, b: u64) -> u64 {
        a.wrapping_add(b)
    }
}
macro_rules! extremes { ($($(#[$doc:meta])* $name:ident $t:ident $neutral:expr, $of:ident;)*) => { $(
    $(#[$doc])*
    #[derive(Clone, Copy)]
    pub struct $name;
    impl Fold for $name {
        type Value = $t;
        type Part = $t;
        const NEUTRAL: $t = $neutral;
        #[inline(always)]
        fn part(value: $t) -> $t {
            value
        }
        #[inline(always)]
        fn merge(a: $t, b: $t) -> $t {
            a.$of(b)
        }
    }
)* } }
extremes! {
    /// The least.
    MinU32 u32 u32::MAX, min;
    /// The least.
    MinU64 u64 u64::MAX, min;
    /// The greatest.
    MaxU32 u32 0, max;
    /// The greatest.
    MaxU64 u64 0, max;
}
/// The sum of `f32`, of which values and results are the bits.
#[derive(Clone, Copy)]
pub struct SumF32;
impl Fold for SumF32 {
    type Value = u32;
    type Part = u32;
    // The sum of this and -0 is -0.
    const NEUTRAL: u32 = 1 << 31;
    #[inline(always)]
    fn part(value: u32) -> u32 {
        value
    }
    #[inline(always)]
    fn merge(a: u32, b: u32) -> u32 {
        (f32::from_bits(a) + f32::from_bits(b)).to_bits()
    }
}
/// The bits of an `f32` as a number of the same order, as of `f32::total_cmp`.
#[inline(always)]
fn ordered(bits: u32) -> u32 {
    bits ^ if bits >> 31 != 0 { !0 } else { 1 << 31 }
}
/// The bits again.
#[inline(always)]
fn unordered(number: u32) -> u32 {
    number ^ if number >> 31 != 0 { 1 << 31 } else { !0 }
}
macro_rules! extremes_f32 { ($($(#[$doc:meta])* $name:ident $neutral:expr, $of:ident;)*) => { $(
    $(#[$doc])*
    #[derive(Clone, Copy)]
    pub struct $name;
    impl Fold for $name {
        type Value = u32;
        type Part = u32;
        const NEUTRAL: u32 = $neutral;
        #[inline(always)]
        fn part(value: u32) -> u32 {
            ordered(value)
        }
        #[inline(always)]
        fn merge(a: u32, b: u32) -> u32 {
            a.$of(b)
        }
        #[inline(always)]
        fn result(all: u32) -> u32 {
            unordered(all)
        }
    }
)* } }
extremes_f32! {
    /// The least `f32`, in the order of `f32::total_cmp`.
    MinF32 u32::MAX, min;
    /// The greatest `f32`.
    MaxF32 0, max;
}

/// The group of a value.
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

#[inline(always)]
fn reduce<F: Fold>(
    t: Thread,
    n: u32,
    groups: u32,
    starts: In<u32>,
    values: In<F::Value>,
    firsts: Buf<u32>,
    heads: Buf<F::Part>,
    out: Buf<F::Part>,
) {
    let mut shared = t.shared();
    let tile = shared.array::<F::Part>(TILE);
    let ends = shared.array::<u32>(2);
    let (id, begin) = (t.id(), t.block() * TILE);
    let count = TILE.min(n - begin);
    let end = begin + count;
    unroll::<ITEMS>(|j| {
        let at = j as u32 * THREADS + id;
        if at < count {
            tile.store(at, F::part(values.get_stream(begin + at)));
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
    // What is in this tile of a group, and the end of it.
    let places = |group: u32| {
        let (from, to) = (starts.get(group), starts.get(group + 1));
        (from, to, from.max(begin) - begin, to.min(end) - begin)
    };
    let put = |group: u32, from: u32, to: u32, part: F::Part| {
        if from < begin {
            heads.store(t.block(), part);
        } else {
            out.store(group, if to <= end { F::result(part) } else { part });
        }
    };
    if last - first >= MANY {
        let mut group = first + id;
        while group <= last {
            let (from, to, mut at, stop) = places(group);
            let mut part = F::NEUTRAL;
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
            let (mut part, mut at) = (F::NEUTRAL, start + t.lane());
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

/// A warp for each tile: puts the group together that ends there and began in another one.
#[inline(always)]
fn join<F: Fold>(
    t: Thread,
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
    let (mut part, mut at) = (F::NEUTRAL, from / TILE + 1 + t.lane());
    while at <= tile {
        part = F::merge(part, heads.get(at));
        at += 32;
    }
    unroll::<5>(|j| part = F::merge(part, t.warp().shfl_xor(part, 1 << j)));
    if t.lane() == 0 {
        out.store(group, F::result(F::merge(out.load_relaxed(group), part)));
    }
}

macro_rules! entries { ($($reduce:ident $join:ident $fold:ty, $value:ty, $part:ty;)*) => { $(
    /// The result of each group whose values are all in one tile. Of others, `out` gets the part in
    /// their first tile, and `heads` the parts in each later one, whose first value is of group
    /// `firsts`. `groups` begin at `starts`, and the last one ends there. One block a [`TILE`].
    #[kernel(image = GROUPS, threads = 256, min_blocks = 4, shared = TILE * size_of::<$part>() as u32 + 8)]
    pub fn $reduce(
        t: Thread,
        n: u32,
        groups: u32,
        starts: In<u32>,
        values: In<$value>,
        firsts: Buf<u32>,
        heads: Buf<$part>,
        out: Buf<$part>,
    ) {
        reduce::<$fold>(t, n, groups, starts, values, firsts, heads, out)
    }
    /// The groups of which there are parts. A warp a tile.
    #[kernel(image = GROUPS, threads = 256)]
    pub fn $join(t: Thread, n: u32, starts: In<u32>, firsts: In<u32>, heads: In<$part>, out: Buf<$part>) {
        join::<$fold>(t, n, starts, firsts, heads, out)
    }
)* } }
entries! {
    group_sum_u32 group_sum_join_u32 Sum<u32>, u32, u64;
    group_sum_u64 group_sum_join_u64 Sum<u64>, u64, u64;
    group_min_u32 group_min_join_u32 MinU32, u32, u32;
    group_min_u64 group_min_join_u64 MinU64, u64, u64;
    group_max_u32 group_max_join_u32 MaxU32, u32, u32;
    group_max_u64 group_max_join_u64 MaxU64, u64, u64;
    group_sum_f32 group_sum_join_f32 SumF32, u32, u32;
    group_min_f32 group_min_join_f32 MinF32, u32, u32;
    group_max_f32 group_max_join_f32 MaxF32, u32, u32;
}
