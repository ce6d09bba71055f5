//! The two-level table of Alcantara et al. 2009: buckets of at most 512 (or 1024) pairs, each a
//! cuckoo table of three sub-tables that one block builds in shared memory.
//!
//! Kernels in the order of the build: count, (scan), scatter, build; then find.
use super::{BucketsIn, BucketsOut, EMPTY, PairsIn, Queries, holds, key_of, pair, status};
use crate::hash::{Family, Functions, InShared};
use koel_simt::{Buf, In, Shared, Thread, kernel, unroll};

/// Sub-tables of a bucket.
pub const SUB_TABLES: u32 = 3;
/// Loops through the sub-tables before a bucket takes other functions.
pub const MAX_LOOPS: u32 = 25;
/// Seeds that a bucket tries before the whole build is begun again.
pub const MAX_SEEDS: u32 = 16;

/// How keys are placed inside the buckets: a kernel's argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Inner {
    /// From keys to the slots of a sub-table, one function each; every bucket has a seed of its
    /// own.
    pub functions: Functions,
    /// Buckets.
    pub buckets: u32,
    /// The seed that every bucket tries first.
    pub seed: u32,
}
impl Inner {
    /// Three functions of a family. The paper derives the constants from a bucket's seed by xor
    /// with fixed words; here they are mixed with it.
    pub fn new(family: Family, buckets: u32, sub_slots: u32, seed: u32) -> Inner {
        Inner { functions: Functions::new(family, SUB_TABLES, sub_slots, 0), buckets, seed }
    }
    /// Slots of a sub-table.
    #[inline(always)]
    pub fn sub_slots(&self) -> u32 {
        self.functions.slots()
    }
    /// The slot of a key in sub-table `j` of a bucket with this seed.
    #[inline(always)]
    pub fn slot(&self, j: u32, key: u32, seed: u32) -> u32 {
        self.functions.with_seed(seed).slot(j, key)
    }
    /// Where slot `slot` of sub-table `j` of a bucket is in the table: all first sub-tables, then
    /// all second ones, ...
    #[inline(always)]
    pub fn place(&self, j: u32, bucket: u32, slot: u32) -> u32 {
        (j * self.buckets + bucket) * self.sub_slots() + slot
    }
    /// The seed that a bucket tries after this one.
    #[inline(always)]
    pub fn next_seed(seed: u32) -> u32 {
        seed.wrapping_mul(747_796_405).wrapping_add(2_891_336_453)
    }
}

/// Where keys are counted by bucket: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct CountsOut {
    /// Keys of each bucket; zero before.
    pub counts: Buf<u32>,
    /// The place of each key among those of its bucket.
    pub offsets: Buf<u32>,
    /// Words of the [`status`]; zero before.
    pub status: Buf<u32>,
}

/// Counts the keys of each bucket; each key learns its place there. A bucket of more than `limit`
/// keys has failed.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn two_level_count(
    t: Thread,
    keys: In<u32>,
    n: u32,
    bucket_of: Functions,
    limit: u32,
    out: CountsOut,
) {
    let CountsOut { counts, offsets, status } = out;
    let i = t.global_id();
    if i >= n {
        return;
    }
    let offset = counts.fetch_add(bucket_of.slot(0, keys.get_stream(i)), 1);
    offsets.store_stream(i, offset);
    if offset == limit {
        status.fetch_add(status::FAILED, 1);
    }
}

/// Brings the pairs of each bucket together.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn two_level_scatter(
    t: Thread,
    pairs: PairsIn,
    bucket_of: Functions,
    starts: In<u32>,
    offsets: In<u32>,
    together: Buf<u64>,
) {
    let i = t.global_id();
    if i >= pairs.n {
        return;
    }
    let key = pairs.keys.get_stream(i);
    let at = starts.get(bucket_of.slot(0, key)) + offsets.get_stream(i);
    together.store(at, pair(key, pairs.values.get_stream(i)));
}

/// One block builds one bucket of at most 512 pairs. Writes every slot of the bucket's sub-tables.
#[kernel(
    image = CLASSIC, threads = 512, min_blocks = 4,
    shared = 512 * 8 + InShared::BYTES + inner.sub_slots() * 12
)]
pub fn two_level_build_512(t: Thread, inner: Inner, buckets: BucketsIn, out: BucketsOut) {
    build(t, 512, inner, buckets, out)
}
/// One block builds one bucket of at most 1024 pairs. Writes every slot of the bucket's sub-tables.
#[kernel(
    image = CLASSIC, threads = 1024, min_blocks = 2,
    shared = 1024 * 8 + InShared::BYTES + inner.sub_slots() * 12
)]
pub fn two_level_build_1024(t: Thread, inner: Inner, buckets: BucketsIn, out: BucketsOut) {
    build(t, 1024, inner, buckets, out)
}

const NOBODY: u32 = u32::MAX;
/// Where an item is that has no slot.
const NOWHERE: u32 = u32::MAX;

#[inline(always)]
fn build(t: Thread, threads: u32, inner: Inner, buckets: BucketsIn, out: BucketsOut) {
    let BucketsIn { starts, counts, pairs } = buckets;
    let BucketsOut { slots: table, seeds, status } = out;
    let (b, id, sub_slots) = (t.block(), t.id(), inner.sub_slots());
    let mut shared = t.shared();
    let items = shared.array::<u64>(threads);
    let mut functions = InShared::new(t, &mut shared, inner.functions.with_seed(inner.seed));
    let owners = shared.array::<u32>(sub_slots * SUB_TABLES);

    let count = counts.get(b);
    let mut mine = EMPTY;
    if id < count {
        mine = pairs.get_stream(starts.get(b) + id);
        if mine == EMPTY {
            status.store_relaxed(status::ALL_ONES, 1);
        }
    }
    items.store(id, mine);

    // All items without a slot write themselves into the next sub-table at the same time; who is
    // seen there after the barrier has it; who was overwritten goes on.
    let (mut seed, mut tried, mut unplaced) = (inner.seed, 0, 1);
    while unplaced != 0 && tried < MAX_SEEDS {
        clear(t, threads, owners, sub_slots);
        t.barrier();
        // Hashed once a seed, in one place: functions of any family are long.
        let (mut slots, mut j) = ([0; SUB_TABLES as usize], 0);
        while j < SUB_TABLES {
            let slot = j * sub_slots + functions.slot(j, key_of(mine));
            slots = [slots[1], slots[2], slot];
            j += 1;
        }
        let mut at = NOWHERE;
        let (mut loops, mut homeless) = (0, mine != EMPTY);
        unplaced = 1;
        while unplaced != 0 && loops < MAX_LOOPS {
            unroll::<{ SUB_TABLES as usize }>(|j| {
                if homeless {
                    owners.swap(slots[j], id);
                    at = slots[j];
                }
                t.barrier();
                // Only slots of this sub-table can have changed hands. Nobody writes it again
                // before two more barriers.
                if homeless || at == slots[j] {
                    homeless = owners.load_volatile(slots[j]) != id;
                }
            });
            unplaced = t.barrier_count(homeless);
            loops += 1;
        }
        if unplaced != 0 {
            seed = Inner::next_seed(seed);
            functions = functions.with(t, inner.functions.with_seed(seed));
            tried += 1;
        }
    }
    if id == 0 {
        seeds.store(b, seed);
        if unplaced != 0 {
            status.fetch_add(status::FAILED, 1);
        }
    }
    let mut i = id;
    while i < sub_slots * SUB_TABLES {
        let owner = owners.load(i);
        let e = if owner == NOBODY { EMPTY } else { items.load(owner) };
        let j = (i >= sub_slots) as u32 + (i >= 2 * sub_slots) as u32;
        table.store_stream(inner.place(j, b, i - j * sub_slots), e);
        i += threads;
    }
}
#[inline(always)]
fn clear(t: Thread, threads: u32, owners: Shared<u32>, sub_slots: u32) {
    let mut i = t.id();
    while i < sub_slots * SUB_TABLES {
        owners.store(i, NOBODY);
        i += threads;
    }
}

/// A two-level table: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct TwoLevelRef {
    /// From keys to buckets.
    pub bucket_of: Functions,
    /// How keys are placed inside them.
    pub inner: Inner,
    /// The seed of each bucket's functions.
    pub seeds: In<u32>,
    /// The slots.
    pub slots: In<u64>,
    /// 1: it holds the pair of all ones.
    pub all_ones: u32,
}

/// Looks up query `i`.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn two_level_find(t: Thread, table: TwoLevelRef, queries: Queries) {
    let inner = table.inner;
    let i = t.global_id();
    if i >= queries.n {
        return;
    }
    let key = queries.keys.get_stream(i);
    let b = table.bucket_of.slot(0, key);
    let seed = table.seeds.get(b);
    let (mut hit, mut j) = (None, 0);
    while j < SUB_TABLES {
        let e = table.slots.get(inner.place(j, b, inner.slot(j, key, seed)));
        if holds(e, key) {
            hit = Some(e);
            break;
        }
        j += 1;
    }
    if hit.is_none() && table.all_ones != 0 && key == u32::MAX {
        hit = Some(EMPTY);
    }
    queries.answer(i, hit);
}
