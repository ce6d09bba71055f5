//! Groups of pairs with equal keys: from sorted keys to groups, and from groups to their keys and
//! values.
//!
//! Groups are numbered in key order. `starts[g]..starts[g + 1]` are the positions of group `g`
//! among the sorted keys.
use crate::compact::keep;
use crate::hash::{mix::mix, mulhi};
use crate::lookback::Tiles;
use crate::map::find::MapRef;
use crate::table::layout::{Layout, Narrow, Number, Wide};
use core::ops::Range;
use koel_simt::{Arg, Buf, In, Scalar, Thread, Word, block, kernel, unroll};

/// Threads per block of all kernels here except [`runs`](fn@runs).
pub const THREADS: u32 = 256;
/// Queries per block that [retrieves](fn@retrieve) values.
pub const QUERIES: u32 = THREADS;
/// Maximum number of values per group that those blocks write; other blocks share the rest.
pub const LONG: u32 = 4096;

/// A multimap as kernels see it: one kernel parameter. The table maps a key to its group.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct MultiMapRef<L: Layout<Value = u32>, V: Scalar> {
    /// Maps each key to its group.
    pub table: MapRef<L>,
    /// Start of each group among the values, and the end of the last one.
    pub starts: In<u32>,
    /// Values, in group order.
    pub values: In<V>,
}
impl<L: Layout<Value = u32>, V: Scalar> MultiMapRef<L, V> {
    /// Returns the same multimap for host code outside a kernel, which can then look keys up.
    ///
    /// # Safety
    /// The multimap must be on a device whose memory is the host's. Its memory must stay allocated
    /// and unchanged while the result is used.
    #[cfg(not(target_arch = "nvptx64"))]
    pub unsafe fn on_host(self) -> MultiMapRef<L, V> {
        // SAFETY: guaranteed by the caller.
        unsafe { koel_simt::Arg::native(self) }
    }
    /// Returns the positions of a key's values.
    #[inline(always)]
    pub fn places(self, key: L::Key) -> Range<u32> {
        match self.table.get(key) {
            Some(id) => self.starts.get(id)..self.starts.get(id + 1),
            None => 0..0,
        }
    }
    /// Calls a function with every value of a key, in input order.
    #[inline(always)]
    pub fn for_each(self, key: L::Key, mut with: impl FnMut(V)) {
        let Range { start: mut at, end } = self.places(key);
        while at < end {
            with(self.values.get(at));
            at += 1;
        }
    }
}

/// Output of the kernel that finds runs of equal keys: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct RunsOut<K: Number> {
    /// The key of each run.
    pub distinct: Buf<K>,
    /// Start of each run, followed by the number of keys.
    pub starts: Buf<u32>,
    /// Number of runs.
    pub count: Buf<u32>,
}

/// Finds runs of equal keys. One block per [`TILE`](crate::compact::TILE) of keys.
#[kernel(
    image = GROUPS, threads = 256, min_blocks = 4, shared = 32 * 4 + 4 + 4, for K in [u32, u64]
)]
pub fn runs<K: Number>(t: Thread, n: u32, keys: In<K>, to: RunsOut<K>, tiles: Tiles) {
    let RunsOut { distinct, starts, count } = to;
    let begins = |i| i == 0 || keys.get(i) != keys.get(i - 1);
    let put = |to, i| {
        distinct.store(to, keys.get(i));
        starts.store(to, i);
    };
    let end = |runs| {
        starts.store(runs, n);
        count.store(0, runs);
    };
    keep(t, n, begins, put, end, tiles)
}

/// Returns the thread's index, if it is below `n`.
#[inline(always)]
fn mine(t: Thread, n: u32) -> Option<u32> {
    let i = t.global_id();
    (i < n).then_some(i)
}
/// Sets `numbers[i]` to `first + i`, one thread per element.
#[kernel(image = GROUPS, threads = 256)]
pub fn group_numbers(t: Thread, n: u32, first: u32, numbers: Buf<u32>) {
    if let Some(i) = mine(t, n) {
        numbers.store(i, first + i);
    }
}

/// Sets `out[i]` to the key of group `ids[i]`, or to `missing` if there is no such group. One
/// thread per element.
#[kernel(image = GROUPS, threads = 256, for K in [u32, u64, u128])]
pub fn group_keys<K: Word + Arg>(
    t: Thread,
    n: u32,
    groups: u32,
    missing: K,
    ids: In<u32>,
    keys: In<K>,
    out: Buf<K>,
) {
    if let Some(i) = mine(t, n) {
        let id = ids.get_stream(i);
        out.store(i, if id < groups { keys.get(id) } else { missing });
    }
}

/// Returns the size of a group; 0 if there is no such group.
#[inline(always)]
fn size(groups: u32, starts: In<u32>, id: u32) -> u32 {
    if id < groups { starts.get(id + 1) - starts.get(id) } else { 0 }
}
/// Replaces each of `n` group indices with the group's size, 0 if there is no such group. One
/// thread per index.
#[kernel(image = GROUPS, threads = 256)]
pub fn group_sizes_of(t: Thread, n: u32, groups: u32, starts: In<u32>, sizes: Buf<u32>) {
    if let Some(i) = mine(t, n) {
        sizes.store(i, size(groups, starts, sizes.load(i)));
    }
}
/// Replaces each of `n` group indices in `places` with the group's start, and writes its size to
/// `sizes`; both are 0 if there is no such group. Sizes from `n` up to `all` become 0. One thread
/// per element.
#[kernel(image = GROUPS, threads = 256)]
pub fn group_places(
    t: Thread,
    n: u32,
    all: u32,
    groups: u32,
    places: Buf<u32>,
    starts: In<u32>,
    sizes: Buf<u64>,
) {
    if let Some(i) = mine(t, all) {
        let mut of_group = 0;
        if i < n {
            let id = places.load(i);
            of_group = size(groups, starts, id);
            places.store(i, if id < groups { starts.get(id) } else { 0 });
        }
        sizes.store(i, of_group as u64);
    }
}
/// Sets `sizes[g]` to the size of group `g`, one thread per group.
#[kernel(image = GROUPS, threads = 256)]
pub fn group_sizes(t: Thread, groups: u32, starts: In<u32>, sizes: Buf<u32>) {
    if let Some(g) = mine(t, groups) {
        sizes.store(g, size(groups, starts, g));
    }
}

/// Retrieval of the values of queries: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Retrieval<V: Word> {
    /// Start of each query's group among all values.
    pub begins: In<u32>,
    /// Output range of query `i`: `offsets[i]` to `offsets[i + 1]`.
    pub offsets: In<u64>,
    /// All values.
    pub values: In<V>,
    /// Output array.
    pub out: Buf<V>,
    /// Capacity of the output.
    pub room: u64,
    /// Number of values.
    pub held: u32,
    /// Number of queries.
    pub n: u32,
}

/// Writes the values of the queries' groups. Groups of adjacent queries are adjacent in the output,
/// so the threads of a block write them in order and search for each output's query. A group's
/// values beyond [`LONG`] are left to [`retrieve_rest`](fn@retrieve_rest), and `rest[0]` becomes 1.
/// One block per [`QUERIES`].
#[kernel(image = GROUPS, threads = 256, shared = 256 * 12, for V in [u32, u64, u128])]
pub fn retrieve<V: Word>(t: Thread, of: Retrieval<V>, rest: Buf<u32>) {
    let Retrieval { begins, offsets, values, out, room, held, n } = of;
    let mut shared = t.shared();
    let to = shared.array::<u64>(QUERIES);
    let from = shared.array::<u32>(QUERIES);
    let first = t.block() * QUERIES;
    let count = QUERIES.min(n - first);
    if t.id() < count {
        to.store(t.id(), offsets.get(first + t.id()));
        from.store(t.id(), begins.get_stream(first + t.id()));
    }
    t.barrier();
    let end = offsets.get(first + count).min(room);
    let mut at = offsets.get(first) + t.id() as u64;
    while at < end {
        // The last query that begins at or before `at`: queries without values begin where the next
        // one does.
        let mut query = 0;
        unroll::<8>(|step| {
            let next = query + (QUERIES >> (step + 1));
            if next < count && to.load(next) <= at {
                query = next;
            }
        });
        let begin = to.load(query);
        if at - begin >= LONG as u64 {
            rest.store_relaxed(0, 1);
            let next = if query + 1 < count { to.load(query + 1) } else { end };
            at += (next - at).next_multiple_of(THREADS as u64);
            continue;
        }
        let place = from.load(query) as u64 + (at - begin);
        // Always true for positions in this multimap.
        if place < held as u64 {
            out.store(at, values.get(place));
        }
        at += THREADS as u64;
    }
}

/// Writes the values beyond the first [`LONG`] of each group, unless `rest[0]` is 0. The output is
/// divided into parts of [`LONG`] values, one per block. What is left to write in a part belongs to
/// one group, that of the part's first place. There must be a query.
#[kernel(image = GROUPS, threads = 256, for V in [u32, u64, u128])]
pub fn retrieve_rest<V: Word>(t: Thread, of: Retrieval<V>, rest: In<u32>) {
    let Retrieval { begins, offsets, values, out, room, held, n } = of;
    let first = t.block() as u64 * LONG as u64;
    if rest.get(0) == 0 || first >= offsets.get(n) {
        return;
    }
    // The last query that begins at or before `first`: each warp loads 32 offsets at a time.
    let (mut query, mut behind) = (0, n);
    while behind - query > 1 {
        let step = (behind - query).div_ceil(32);
        let at = query + t.lane() * step;
        let begun = t.warp().ballot(at < behind && offsets.get(at) <= first);
        query += (begun.count_ones() - 1) * step;
        behind = behind.min(query + step);
    }
    let (begin, end, from) =
        (offsets.get(query), offsets.get(query + 1).min(room), begins.get(query) as u64);
    let mut at = first.max(begin + LONG as u64) + t.id() as u64;
    while at < end.min(first + LONG as u64) {
        let place = from + (at - begin);
        // As above.
        if place < held as u64 {
            out.store(at, values.get(place));
        }
        at += THREADS as u64;
    }
}

/// Keys per block that [samples](fn@group_sample).
pub const SAMPLE: u32 = 4096;
/// Number of blocks that sample.
pub const SAMPLES: u32 = 16;
/// Table slots of a block that samples.
const SAMPLE_SLOTS: u32 = 2 * SAMPLE;

/// Samples [`SAMPLE`] keys per block at random, with replacement, and adds the number of pairs of
/// equal ones to `couples[0]`. Launch [`SAMPLES`] blocks. There must be a key.
#[kernel(
    image = GROUPS, threads = 256, shared = 2 * SAMPLE_SLOTS * 4, for L in [Narrow, Wide<u64, u64>]
)]
pub fn group_sample<L: Layout>(t: Thread, n: u32, keys: In<L::Key>, couples: Buf<u32>) {
    const NONE: u32 = u32::MAX;
    let mut shared = t.shared();
    let table = shared.array::<u32>(SAMPLE_SLOTS);
    let counted = shared.array::<u32>(SAMPLE_SLOTS);
    let mut i = t.id();
    while i < SAMPLE_SLOTS {
        table.store(i, NONE);
        counted.store(i, 0);
        i += THREADS;
    }
    t.barrier();
    let mut found = 0;
    i = t.id();
    while i < SAMPLE {
        let key = keys.get(mulhi(mix(!(t.block() * SAMPLE + i)), n));
        // Distinct keys of a sample rarely share a hash, however wide they are.
        let h = L::hash(L::mixed(0, key)).min(NONE - 1);
        let mut at = h % SAMPLE_SLOTS;
        loop {
            let there = table.cas(at, NONE, h);
            if there == NONE || there == h {
                break;
            }
            at = (at + 1) % SAMPLE_SLOTS;
        }
        found += counted.fetch_add(at, 1);
        i += THREADS;
    }
    let found = block::warp_inclusive_sum(t, found);
    if t.lane() == 31 && found != 0 {
        couples.fetch_add(0, found);
    }
}
