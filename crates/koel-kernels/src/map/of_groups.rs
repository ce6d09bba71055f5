//! Groups as [`group`](super::group) leaves them, each partition's where its pairs begin, brought
//! together; and the table of their keys, with their numbers as values.
//!
//! The groups are in the order of the partitions that their pairs had. Each partition of the table
//! consists of a whole number of those, because both go by the same hash: so a block brings the
//! groups of a few partitions together, and builds from what it has just written. Nothing is parted
//! again.
use super::build::{MAX_IN_LOOPS, THREADS, Target, build_in_loops, clear, in_shared, shared_bytes};
use super::records::{Placed, Records, indexed};
use crate::table::layout::{EMPTY, Layout, Narrow, Number, Shape, Wide};
use crate::table::state;
use koel_simt::{Buf, In, Thread, kernel, unroll};

/// Keys of one partition, with their places as values. A record is a hash and such a place.
#[derive(Clone, Copy)]
struct Numbered<L: Layout> {
    seed: u32,
    /// Written by the block.
    keys: Buf<L::Key>,
    /// The place of the first.
    first: u32,
}
impl<L: Layout<Value = u32>> Numbered<L> {
    #[inline(always)]
    fn mixed(self, i: u32) -> L::Mixed {
        L::mixed(self.seed, self.keys.load(i))
    }
}
impl<L: Layout<Value = u32>> Placed for Numbered<L> {
    type Layout = L;
    const EXACT: bool = false;
    #[inline(always)]
    fn hash(self, record: u64) -> u32 {
        record as u32
    }
    #[inline(always)]
    fn pair(self, record: u64) -> L::Pair {
        let i = (record >> 32) as u32;
        // A narrow key is its hash.
        let mixed = if L::SLOT_WORDS == 1 {
            L::Mixed::narrowed(record & 0xFFFF_FFFF)
        } else {
            self.mixed(i)
        };
        L::pair(mixed, i)
    }
    #[inline(always)]
    fn same_key(self, _: u64, _: u64) -> bool {
        false
    }
}
impl<L: Layout<Value = u32>> Records for Numbered<L> {
    #[inline(always)]
    fn record(self, number: u32) -> u64 {
        let i = self.first + number;
        indexed(L::hash(self.mixed(i)), i)
    }
    #[inline(always)]
    fn behind(self, _: u32) -> (u64, u32) {
        (EMPTY, 0)
    }
    #[inline(always)]
    fn search_from(self, _: u32) -> u32 {
        0
    }
}

/// Groups of pairs, in the order of partitions: a kernel's argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Ordered {
    /// How many there are.
    pub groups: u32,
    /// How many pairs.
    pub pairs: u32,
    /// How many partitions.
    pub partitions: u32,
    /// How many of them are one of the table.
    pub each: u32,
    /// The seed of the hash that tells both.
    pub seed: u32,
}

/// Keys and starts of groups, from where they are to where they stay: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Bringing<K: Number> {
    /// How many there are.
    pub ordered: Ordered,
    /// The key of each.
    pub keys: In<K>,
    /// Where its values begin.
    pub starts: In<u32>,
    /// Where the groups of each partition are.
    pub offsets: In<u32>,
    /// Where they go.
    pub firsts: In<u32>,
    /// The keys, brought together.
    pub keys_kept: Buf<K>,
    /// The starts, brought together; behind the last, the number of values.
    pub starts_kept: Buf<u32>,
}
impl<K: Number> Bringing<K> {
    /// Where the groups of partition `p` begin, and of all behind the last end.
    #[inline(always)]
    fn first(self, p: u32) -> u32 {
        if p < self.ordered.partitions { self.firsts.get(p) } else { self.ordered.groups }
    }
    /// Brings the groups of partition `p`, by `lanes` threads, of which this is number `lane`.
    #[inline(always)]
    fn bring(self, p: u32, lane: u32, lanes: u32) {
        let (from, to, end) = (self.offsets.get(p), self.first(p), self.first(p + 1));
        let mut i = lane;
        while i < end - to {
            // Behind the last one, the last one again.
            let at = |l: usize| (i + l as u32 * lanes).min(end - to - 1);
            let (mut keys, mut starts) = ([K::default(); 4], [0; 4]);
            unroll::<4>(|l| {
                (keys[l], starts[l]) = (self.keys.get(from + at(l)), self.starts.get(from + at(l)))
            });
            unroll::<4>(|l| {
                if i + l as u32 * lanes < end - to {
                    self.keys_kept.store(to + at(l), keys[l]);
                    self.starts_kept.store(to + at(l), starts[l]);
                }
            });
            i += 4 * lanes;
        }
    }
    /// Where the values of the last group end, by one thread of all.
    #[inline(always)]
    fn end(self) {
        self.starts_kept.store(self.ordered.groups, self.ordered.pairs);
    }
}

/// Brings the groups of `ordered.each` partitions together, and builds partition `t.block()` of the
/// table of their keys. No key is ambiguous.
#[kernel(
    image = GROUPS, threads = 256, min_blocks = 4,
    shared = shared_bytes(shape.buckets, to.source.list),
    for L in [Narrow, Wide<u64, u32>]
)]
pub fn map_of_groups<L: Layout<Value = u32>>(
    t: Thread,
    shape: Shape,
    groups: Bringing<L::Key>,
    to: Target,
) {
    let Ordered { each, seed, .. } = groups.ordered;
    let p = t.block() * each;
    let (first, end) = (groups.first(p), groups.first(p + each));
    // Of few partitions each is brought by several warps.
    let sharing = (THREADS / 32) >> each.trailing_zeros().min((THREADS / 32).ilog2());
    let mut q = t.warp_id() >> sharing.trailing_zeros();
    while q < each {
        groups.bring(p + q, (t.warp_id() & (sharing - 1)) * 32 + t.lane(), 32 * sharing);
        q += (THREADS / 32) >> sharing.trailing_zeros();
    }
    if t.global_id() == 0 {
        groups.end();
    }
    if end - first > MAX_IN_LOOPS {
        // All of the block leave.
        if t.id() == 0 {
            to.build_state.fetch_add(state::FAILED, 1);
        }
        return;
    }
    let (part, lists) =
        in_shared(t, shape, to, Numbered::<L> { seed, keys: groups.keys_kept, first });
    clear(t, part, lists);
    t.barrier();
    build_in_loops::<_, false>(t, part, lists, to, end - first, true)
}

/// Brings groups together. A warp for each partition.
#[kernel(image = GROUPS, threads = 256, for K in [u32, u64])]
pub fn map_bring_groups<K: Number>(t: Thread, groups: Bringing<K>) {
    let p = t.global_id() / 32;
    if p < groups.ordered.partitions {
        groups.bring(p, t.lane(), 32);
    }
    if t.global_id() == 0 {
        groups.end();
    }
}
