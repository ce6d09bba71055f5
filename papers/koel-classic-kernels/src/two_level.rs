//! The two-level cuckoo table of Alcantara et al. 2009: buckets of at most 512 (or 1024) pairs.
//! Each bucket is a cuckoo table of three sub-tables that one block builds in shared memory. With
//! two functions from keys to buckets, a key goes to the less loaded of two buckets.
//!
//! Kernels in build order: count, (scan), scatter, build; then find.
use super::{BucketsIn, BucketsOut, EMPTY, PairsIn, Queries, holds, key_of, pair, status};
use koel_kernels::hash::{Family, Functions, InShared, mulhi};
use koel_simt::{Buf, In, Shared, Thread, kernel, unroll};

/// Sub-tables per bucket.
pub const SUB_TABLES: u32 = 3;
/// Maximum number of rounds over the sub-tables before a bucket takes other functions.
pub const MAX_LOOPS: u32 = 25;
/// Maximum number of seeds per bucket before the whole build restarts.
pub const MAX_SEEDS: u32 = 16;

/// Location of a bucket's sub-tables.
#[derive(Clone, Copy, Default)]
pub struct Part {
    /// First slot of the first sub-table.
    pub first: u32,
    /// Slots per sub-table.
    pub slots: u32,
}

/// Placement of keys within buckets: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Inner {
    /// Hash functions from keys to slots, one per sub-table. Every bucket has its own seed.
    pub functions: Functions,
    /// Slots of a sub-table per pair of its bucket, times 2^32. 0: all sub-tables are equally
    /// large.
    per_pair: u64,
    /// Slots of the first sub-tables of all buckets.
    stride: u32,
    /// Number of buckets.
    pub buckets: u32,
    /// First seed that every bucket tries.
    pub seed: u32,
}
impl Inner {
    /// Takes three functions of a family. The paper derives the constants from a bucket's seed by
    /// xor with fixed words; here they are mixed with it.
    pub fn new(family: Family, buckets: u32, sub_slots: u32, seed: u32) -> Inner {
        let functions = Functions::new(family, SUB_TABLES, sub_slots, 0);
        Inner { functions, per_pair: 0, stride: buckets * sub_slots, buckets, seed }
    }
    /// Sizes sub-tables by their bucket: a bucket of `c` pairs has `per_pair * c` slots per
    /// sub-table, rounded down or up and increased by one. There are `n` pairs in all. No bucket
    /// may need more than `sub_slots`.
    pub fn sized(
        family: Family,
        buckets: u32,
        sub_slots: u32,
        seed: u32,
        (per_pair, n): (f64, u32),
    ) -> Inner {
        let functions = Functions::new(family, SUB_TABLES, sub_slots, 0);
        let per_pair = (per_pair * 4_294_967_296.0) as u64;
        let inner = Inner { functions, per_pair, stride: 0, buckets, seed };
        Inner { stride: buckets + inner.slots_of(n), ..inner }
    }
    /// Returns the slots of the first sub-tables of all buckets.
    pub fn stride(&self) -> u32 {
        self.stride
    }
    #[inline(always)]
    fn slots_of(&self, pairs: u32) -> u32 {
        // The high word of the product, by words.
        pairs * (self.per_pair >> 32) as u32 + mulhi(pairs, self.per_pair as u32)
    }
    /// Returns the location of a bucket's sub-tables. `bounds` returns the first pair of the bucket
    /// and of the next one, in bucket order; it is called if sub-tables are sized.
    #[inline(always)]
    pub fn part(&self, bucket: u32, bounds: impl FnOnce() -> (u32, u32)) -> Part {
        if self.per_pair == 0 {
            return Part { first: bucket * self.sub_slots(), slots: self.sub_slots() };
        }
        let (start, end) = bounds();
        let first = bucket + self.slots_of(start);
        Part { first, slots: bucket + 1 + self.slots_of(end) - first }
    }
    /// Returns the functions to the sub-tables of a bucket with this seed.
    #[inline(always)]
    pub fn functions_of(&self, part: Part, seed: u32) -> Functions {
        self.functions.with_seed(seed).with_slots(part.slots)
    }
    /// Returns the index in the table of slot `slot` of sub-table `j` of a bucket.
    #[inline(always)]
    pub fn place_in(&self, part: Part, j: u32, slot: u32) -> u32 {
        j * self.stride + part.first + slot
    }
    /// Returns the slots per sub-table; if they are sized, the most that a bucket may need.
    #[inline(always)]
    pub fn sub_slots(&self) -> u32 {
        self.functions.slots()
    }
    /// Returns the slot of a key in sub-table `j` of a bucket with this seed, if all sub-tables are
    /// equally large.
    #[inline(always)]
    pub fn slot(&self, j: u32, key: u32, seed: u32) -> u32 {
        self.functions.with_seed(seed).slot(j, key)
    }
    /// Returns the index in the table of slot `slot` of sub-table `j` of a bucket, if all
    /// sub-tables are equally large. All first sub-tables come first, then all second ones, and so
    /// on.
    #[inline(always)]
    pub fn place(&self, j: u32, bucket: u32, slot: u32) -> u32 {
        (j * self.buckets + bucket) * self.sub_slots() + slot
    }
    /// Returns the seed that a bucket tries after this one.
    #[inline(always)]
    pub fn next_seed(seed: u32) -> u32 {
        seed.wrapping_mul(747_796_405).wrapping_add(2_891_336_453)
    }
}

/// Output of counting keys by bucket: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct CountsOut {
    /// Number of keys in each bucket. The caller clears it.
    pub counts: Buf<u32>,
    /// Rank of each key within its bucket, and [`SECOND`] if the second function gives the bucket.
    pub offsets: Buf<u32>,
    /// The words of [`status`]. The caller clears them.
    pub status: Buf<u32>,
}

/// Marks the rank of a key in the bucket that the second of two functions gives.
pub const SECOND: u32 = 1 << 31;

/// Counts the keys of each bucket and writes the rank of each key within its bucket. Counts a
/// failure for every key above the `limit` of its bucket. The grid may have fewer threads than
/// keys.
///
/// With two functions, a key takes the bucket that has fewer keys when the thread looks, and the
/// other one if the first has filled up meanwhile.
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
    let has_choice = bucket_of.count() > 1;
    for i in t.strided(t.global_id(), t.grid_dim() * t.block_dim(), n) {
        let key = keys.get_stream(i);
        let (mut offset, mut settled) = (0, false);
        while !settled {
            let (mut bucket, mut least, mut mark, mut f) = (0, u32::MAX, 0, 0);
            while f < bucket_of.count() {
                let other = bucket_of.slot(f, key);
                let load = if has_choice { counts.load_relaxed(other) } else { 0 };
                if load < least {
                    (bucket, least, mark) = (other, load, f * SECOND);
                }
                f += 1;
            }
            let rank = counts.fetch_add(bucket, 1);
            // Ranks from the limit on are never valid, so the count of a full bucket can be taken
            // back: it stays at the limit or above, and this key will not choose it again.
            settled = rank < limit || !has_choice || least >= limit;
            if !settled {
                counts.fetch_add(bucket, u32::MAX);
            } else if rank >= limit {
                status.fetch_add(status::FAILED, 1);
            }
            offset = rank | mark;
        }
        offsets.store_stream(i, offset);
    }
}

/// Gathers the pairs of each bucket.
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
    let (key, mut rank, mut f) = (pairs.keys.get_stream(i), offsets.get_stream(i), 0);
    if bucket_of.count() > 1 {
        (rank, f) = (rank & !SECOND, rank / SECOND);
    }
    let at = starts.get(bucket_of.slot(f, key)) + rank;
    together.store(at, pair(key, pairs.values.get_stream(i)));
}

/// Builds a bucket of at most 512 pairs, one block per bucket. Writes every slot of the bucket's
/// sub-tables.
#[kernel(
    image = CLASSIC, threads = 512, min_blocks = 4,
    shared = 512 * 8 + InShared::BYTES + inner.sub_slots() * 12
)]
pub fn two_level_build_512(t: Thread, inner: Inner, buckets: BucketsIn, out: BucketsOut) {
    build(t, 512, inner, buckets, out)
}
/// Builds a bucket of at most 1024 pairs, one block per bucket. Writes every slot of the bucket's
/// sub-tables.
#[kernel(
    image = CLASSIC, threads = 1024, min_blocks = 2,
    shared = 1024 * 8 + InShared::BYTES + inner.sub_slots() * 12
)]
pub fn two_level_build_1024(t: Thread, inner: Inner, buckets: BucketsIn, out: BucketsOut) {
    build(t, 1024, inner, buckets, out)
}

const NOBODY: u32 = u32::MAX;
/// Marks an item that has no slot.
const NOWHERE: u32 = u32::MAX;

#[inline(always)]
fn build(t: Thread, threads: u32, inner: Inner, buckets: BucketsIn, out: BucketsOut) {
    let BucketsIn { starts, counts, pairs } = buckets;
    let BucketsOut { slots: table, seeds, status } = out;
    let (b, id) = (t.block(), t.id());
    let (start, count) = (starts.get(b), counts.get(b));
    let part = inner.part(b, || (start, start + count));
    let sub_slots = part.slots;
    let mut shared = t.shared();
    let items = shared.array::<u64>(threads);
    let mut functions = InShared::new(t, &mut shared, inner.functions_of(part, inner.seed));
    let owners = shared.array::<u32>(sub_slots * SUB_TABLES);

    let mut mine = EMPTY;
    if id < count {
        mine = pairs.get_stream(start + id);
        if mine == EMPTY {
            status.store_relaxed(status::ALL_ONES, 1);
        }
    }
    items.store(id, mine);

    // All items without a slot write themselves into the next sub-table at the same time. The item
    // seen in a slot after the barrier owns it; the overwritten ones continue.
    let (mut seed, mut tried, mut unplaced) = (inner.seed, 0, 1);
    while unplaced != 0 && tried < MAX_SEEDS {
        clear(t, threads, owners, sub_slots);
        t.barrier();
        // Hash once per seed, in one place: the code for functions of any family is long.
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
                // Only slots of this sub-table can have changed owner. It is not written again
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
            functions = functions.with(t, inner.functions_of(part, seed));
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
        table.store_stream(inner.place_in(part, j, i - j * sub_slots), e);
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

/// A two-level table: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct TwoLevelRef {
    /// One or two hash functions from keys to buckets.
    pub bucket_of: Functions,
    /// Placement of keys within buckets.
    pub inner: Inner,
    /// Seed of each bucket's functions.
    pub seeds: In<u32>,
    /// First pair of each bucket in bucket order, and the end of the last one. Read if sub-tables
    /// are sized by their bucket.
    pub starts: In<u32>,
    /// Slots.
    pub slots: In<u64>,
    /// 1 if the table holds the all-ones pair, else 0.
    pub all_ones: u32,
}

/// Looks up query `i` in the buckets of its key.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn two_level_find(t: Thread, table: TwoLevelRef, queries: Queries) {
    let inner = table.inner;
    let i = t.global_id();
    if i >= queries.n {
        return;
    }
    let key = queries.keys.get_stream(i);
    let (mut hit, mut f) = (None, 0);
    while f < table.bucket_of.count() && hit.is_none() {
        let b = table.bucket_of.slot(f, key);
        let part = inner.part(b, || (table.starts.get(b), table.starts.get(b + 1)));
        let (functions, mut j) = (inner.functions_of(part, table.seeds.get(b)), 0);
        while j < SUB_TABLES {
            let e = table.slots.get(inner.place_in(part, j, functions.slot(j, key)));
            if holds(e, key) {
                hit = Some(e);
                break;
            }
            j += 1;
        }
        f += 1;
    }
    if hit.is_none() && table.all_ones != 0 && key == u32::MAX {
        hit = Some(EMPTY);
    }
    queries.answer(i, hit);
}
