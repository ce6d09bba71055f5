//! Compacts the groups of [`group`](super::group), which lie where the pairs of their partitions
//! begin, and builds the table of their keys, with the numbers of the groups as values.
//!
//! The groups are in the order of the partitions of their pairs. Each partition of the table covers
//! a whole number of those partitions, because both use the same hash. So a block compacts the
//! groups of a few partitions and builds from what it has just written, without another partition
//! pass.
use super::build::{MAX_IN_LOOPS, THREADS, Target, build_in_loops, clear, in_shared, shared_bytes};
use super::records::{Placed, Records, indexed};
use crate::table::layout::{EMPTY, Layout, Narrow, Number, Shape, Wide};
use crate::table::state;
use koel_simt::{Buf, In, Thread, kernel, unroll};

/// Keys of one partition, with their positions as values. A record is a hash and a position.
#[derive(Clone, Copy)]
struct Numbered<L: Layout> {
    seed: u32,
    /// The keys, written by this block.
    keys: Buf<L::Key>,
    /// Position of the first key.
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
}

/// The numbers of groups, pairs and partitions, as a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Ordered {
    /// Number of groups.
    pub groups: u32,
    /// Number of pairs.
    pub pairs: u32,
    /// Number of partitions of the pairs.
    pub partitions: u32,
    /// Number of these partitions per partition of the table.
    pub each: u32,
    /// The seed of the hash that both are partitioned by.
    pub seed: u32,
}

/// The keys and starts of groups, from their partitions to their final place, as a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Compacting<K: Number> {
    /// Numbers of groups, pairs and partitions.
    pub ordered: Ordered,
    /// The key of each group.
    pub keys: In<K>,
    /// Where the values of each group begin.
    pub starts: In<u32>,
    /// Where the groups of each partition are.
    pub offsets: In<u32>,
    /// Where the groups of each partition go.
    pub firsts: In<u32>,
    /// The compacted keys.
    pub keys_kept: Buf<K>,
    /// The compacted starts; after the last, the number of values.
    pub starts_kept: Buf<u32>,
}
impl<K: Number> Compacting<K> {
    /// Returns where the groups of partition `p` begin, or for the number of partitions, where all
    /// end.
    #[inline(always)]
    fn first(self, p: u32) -> u32 {
        if p < self.ordered.partitions { self.firsts.get(p) } else { self.ordered.groups }
    }
    /// Compacts the groups of partition `p` with `lanes` threads, of which this is number `lane`.
    #[inline(always)]
    fn bring(self, p: u32, lane: u32, lanes: u32) {
        let (from, to, end) = (self.offsets.get(p), self.first(p), self.first(p + 1));
        let mut i = lane;
        while i < end - to {
            // Past the last group, loads the last one again.
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
    /// Writes where the values of the last group end. One thread of the grid calls it.
    #[inline(always)]
    fn end(self) {
        self.starts_kept.store(self.ordered.groups, self.ordered.pairs);
    }
}

/// Compacts the groups of `ordered.each` partitions, and builds partition `t.block()` of the table
/// of their keys. No key is ambiguous.
#[kernel(
    image = GROUPS, threads = 256, min_blocks = 4,
    shared = shared_bytes(shape.buckets, to.source.list),
    for L in [Narrow, Wide<u64, u32>]
)]
pub fn map_build_from_groups<L: Layout<Value = u32>>(
    t: Thread,
    shape: Shape,
    groups: Compacting<L::Key>,
    to: Target,
) {
    let Ordered { each, seed, .. } = groups.ordered;
    let p = t.block() * each;
    let (first, end) = (groups.first(p), groups.first(p + each));
    // If there are few partitions, several warps share each.
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
        // All threads of the block return.
        if t.id() == 0 {
            to.build_state.fetch_add(state::FAILED, 1);
        }
        return;
    }
    let (part, lists) =
        in_shared(t, t.block(), shape, to, Numbered::<L> { seed, keys: groups.keys_kept, first });
    clear(t, part, lists);
    t.barrier();
    build_in_loops::<_, false>(t, part, lists, to, end - first, true)
}

/// Compacts groups, with one warp per partition.
#[kernel(image = GROUPS, threads = 256, for K in [u32, u64])]
pub fn map_compact_groups<K: Number>(t: Thread, groups: Compacting<K>) {
    let p = t.global_id() / 32;
    if p < groups.ordered.partitions {
        groups.bring(p, t.lane(), 32);
    }
    if t.global_id() == 0 {
        groups.end();
    }
}
