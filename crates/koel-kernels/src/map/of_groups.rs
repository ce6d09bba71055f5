//! The table of the keys of groups as [`group`](super::group) leaves them, with their numbers as values: nothing is brought anywhere.
//!
//! The groups are in the order of the partitions that their pairs had. Each partition of the table consists of a whole number of those, because both
//! go by the same hash; so its keys are a stretch of the array, which a block reads in one go. On the way it copies keys and starts to where
//! they stay: how many there are nobody knew before.
use super::build::{MOST_IN_LOOPS, Source, THREADS, Target, build_in_loops, clear, in_shared};
use super::layout::{EMPTY, Layout, Narrow, Number, Shape, Wide};
use super::records::{Placed, Records, indexed};
use super::state;
use koel_simt::{Buf, In, Thread, kernel};

/// Keys of one partition, with their places as values. A record is a hash and such a place.
#[derive(Clone, Copy)]
struct Numbered<L: Layout> {
    seed: u32,
    keys: In<L::Key>,
    /// The place of the first.
    first: u32,
}
impl<L: Layout<Value = u32>> Numbered<L> {
    #[inline(always)]
    fn mixed(self, i: u32) -> L::Mixed {
        L::mixed(self.seed, self.keys.get(i))
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
        let mixed = if L::SLOT_WORDS == 1 { L::Mixed::narrowed(record & 0xFFFF_FFFF) } else { self.mixed(i) };
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
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Ordered {
    /// How many there are.
    pub groups: u32,
    /// Partitions that the pairs had for each of the table's.
    pub each: u32,
    /// The seed of the hash that tells both.
    pub seed: u32,
}
// SAFETY: plain numbers, no padding.
#[cfg(not(target_arch = "nvptx64"))]
unsafe impl koel_simt::Arg for Ordered {}

#[inline(always)]
fn of_groups<L: Layout<Value = u32>>(
    t: Thread,
    shape: Shape,
    ordered: Ordered,
    keys: In<L::Key>,
    starts: In<u32>,
    firsts: In<u32>,
    keys_kept: Buf<L::Key>,
    starts_kept: Buf<u32>,
    to: Target,
) {
    let Ordered { groups, each, seed } = ordered;
    let (p, is_last) = (t.block(), t.block() + 1 == t.grid_dim());
    let first = firsts.get(p * each);
    let end = if is_last { groups } else { firsts.get((p + 1) * each) };
    let mut i = first + t.id();
    while i < end {
        keys_kept.store(i, keys.get(i));
        starts_kept.store(i, starts.get(i));
        i += THREADS;
    }
    if is_last && t.id() == 0 {
        // Where the last group ends.
        starts_kept.store(groups, starts.get(groups));
    }
    if end - first > MOST_IN_LOOPS {
        // All of the block leave.
        if t.id() == 0 {
            to.build_state.fetch_add(state::FAILED, 1);
        }
        return;
    }
    let (part, lists) = in_shared(t, shape, to, Numbered::<L> { seed, keys, first });
    clear(t, part, lists);
    t.barrier();
    build_in_loops::<_, false>(t, part, lists, to, end - first, true)
}

macro_rules! entries { ($($(#[$doc:meta])* $name:ident $layout:ty, $key:ty;)*) => { $(
    $(#[$doc])*
    #[kernel(threads = 256, min_blocks = 4, shared = crate::map::build::shared_bytes(shape.buckets, source.list))]
    pub fn $name(
        t: Thread,
        shape: Shape,
        source: Source,
        ordered: Ordered,
        keys: In<$key>,
        starts: In<u32>,
        firsts: In<u32>,
        keys_kept: Buf<$key>,
        starts_kept: Buf<u32>,
        slots: Buf<u64>,
        stash: Buf<u64>,
        contested: Buf<u64>,
        build_state: Buf<u32>,
    ) {
        let to = Target { source, slots, stash, contested, build_state };
        of_groups::<$layout>(t, shape, ordered, keys, starts, firsts, keys_kept, starts_kept, to)
    }
)* } }
entries! {
    /// Builds partition `t.block()` of the table, of the groups of partitions from `ordered.each * t.block()` on, of which `q` has its first group at
    /// `firsts[q]`; copies their keys and starts. No key is ambiguous. The stash is empty, but for what other blocks put there.
    map_of_groups Narrow, u32;
    /// The same for wide keys.
    map_of_groups_u64 Wide<u64, u32>, u64;
}
