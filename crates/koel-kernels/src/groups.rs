//! Groups of equal keys: from sorted keys to the groups, and from groups to their keys and values.
//!
//! The groups are numbered in the order of their keys. `starts[g]..starts[g + 1]` are the places of
//! group `g` among the sorted keys.
use crate::compact::keep;
use crate::hash::{mix::mix, mulhi};
use crate::lookback::Tiles;
use crate::map::find::MapRef;
use crate::table::layout::{Layout, Narrow, Number, Wide};
use core::ops::Range;
use koel_simt::{Arg, Buf, In, Scalar, Thread, Word, block, kernel, unroll};

/// Threads of a block of all kernels here but [`runs`](fn@runs).
pub const THREADS: u32 = 256;
/// Queries of a block that [retrieves](fn@retrieve) values.
pub const QUERIES: u32 = THREADS;
/// Values of a group that those blocks write; what there is beyond is shared out among others.
pub const LONG: u32 = 4096;

/// A multimap as kernels see it: one parameter of a kernel. The table tells the group of a key.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct MultiMapRef<L: Layout<Value = u32>, V: Scalar> {
    /// The group of each key.
    pub table: MapRef<L>,
    /// Where groups begin among the values, and where the last one ends.
    pub starts: In<u32>,
    /// The values, group by group.
    pub values: In<V>,
}
impl<L: Layout<Value = u32>, V: Scalar> MultiMapRef<L, V> {
    /// The same for host code outside of a kernel, which can then look keys up.
    ///
    /// # Safety
    /// It is on a device whose memory is the host's, and is there and not changed as long as the
    /// result is used.
    #[cfg(not(target_arch = "nvptx64"))]
    pub unsafe fn on_host(self) -> MultiMapRef<L, V> {
        // SAFETY: the caller's.
        unsafe { koel_simt::Arg::native(self) }
    }
    /// Where the values of a key are.
    #[inline(always)]
    pub fn places(self, key: L::Key) -> Range<u32> {
        match self.table.get(key) {
            Some(id) => self.starts.get(id)..self.starts.get(id + 1),
            None => 0..0,
        }
    }
    /// Calls a function with every value of a key, in the order of the input.
    #[inline(always)]
    pub fn for_each(self, key: L::Key, mut with: impl FnMut(V)) {
        let Range { start: mut at, end } = self.places(key);
        while at < end {
            with(self.values.get(at));
            at += 1;
        }
    }
}

/// Where runs of equal keys go: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct RunsOut<K: Number> {
    /// The key of each run.
    pub distinct: Buf<K>,
    /// Where each begins; behind the last, the number of keys.
    pub starts: Buf<u32>,
    /// How many there are.
    pub count: Buf<u32>,
}

/// Runs of equal keys. One block for each [`TILE`](crate::compact::TILE) of keys.
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

/// Element `i` of the thread, if there are so many.
#[inline(always)]
fn mine(t: Thread, n: u32) -> Option<u32> {
    let i = t.global_id();
    (i < n).then_some(i)
}
/// `numbers[i]` = `i`. A thread each.
#[kernel(image = GROUPS, threads = 256)]
pub fn group_numbers(t: Thread, n: u32, numbers: Buf<u32>) {
    if let Some(i) = mine(t, n) {
        numbers.store(i, i);
    }
}

/// `out[i]` = the key of group `ids[i]`, or `missing` if there is none. A thread each.
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

/// Elements of a group; none of what is no group.
#[inline(always)]
fn size(groups: u32, starts: In<u32>, id: u32) -> u32 {
    if id < groups { starts.get(id + 1) - starts.get(id) } else { 0 }
}
/// In place of the number of each of `n` groups its elements, 0 if there is no such group. A thread
/// each.
#[kernel(image = GROUPS, threads = 256)]
pub fn group_sizes_of(t: Thread, n: u32, groups: u32, starts: In<u32>, sizes: Buf<u32>) {
    if let Some(i) = mine(t, n) {
        sizes.store(i, size(groups, starts, sizes.load(i)));
    }
}
/// In place of the number of each of `n` groups where it begins, and its size: 0 and 0 if there is
/// no such group. The sizes behind, up to `all`, are 0. A thread each.
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
/// `sizes[g]` = the elements of group `g`. A thread each.
#[kernel(image = GROUPS, threads = 256)]
pub fn group_sizes(t: Thread, groups: u32, starts: In<u32>, sizes: Buf<u32>) {
    if let Some(g) = mine(t, groups) {
        sizes.store(g, size(groups, starts, g));
    }
}

/// Values that queries retrieve: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Retrieval<V: Number> {
    /// Where the values of query `i` begin among all values.
    pub begins: In<u32>,
    /// They go from `offsets[i]` to `offsets[i + 1]`.
    pub offsets: In<u64>,
    /// All values.
    pub values: In<V>,
    /// Where they go.
    pub out: Buf<V>,
    /// How many of these places there are.
    pub room: u64,
    /// How many values there are.
    pub held: u32,
    /// How many queries.
    pub n: u32,
}

/// The values of the groups that neighbouring queries ask for are neighbours in the output: the
/// threads of a block write them one after the other, and look for each one's query. What a group
/// has beyond [`LONG`] values they leave to [`retrieve_rest`](fn@retrieve_rest): `rest[0]` becomes
/// 1. One block for each [`QUERIES`].
#[kernel(image = GROUPS, threads = 256, shared = 256 * 12, for V in [u32, u64])]
pub fn retrieve<V: Number>(t: Thread, of: Retrieval<V>, rest: Buf<u32>) {
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
        // The last query that begins here or before: those that get nothing begin where the next
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
        // Always, if these are places of this multimap.
        if place < held as u64 {
            out.store(at, values.get(place));
        }
        at += THREADS as u64;
    }
}

/// The values of long groups beyond the first [`LONG`] of each, unless `rest[0]` is 0. The output
/// is cut into parts of so many, one for each block; what was left there is of one group, the one
/// that its first place belongs to. There must be a query.
#[kernel(image = GROUPS, threads = 256, for V in [u32, u64])]
pub fn retrieve_rest<V: Number>(t: Thread, of: Retrieval<V>, rest: In<u32>) {
    let Retrieval { begins, offsets, values, out, room, held, n } = of;
    let first = t.block() as u64 * LONG as u64;
    if rest.get(0) == 0 || first >= offsets.get(n) {
        return;
    }
    // The last query that begins there or before: each warp asks for 32 offsets at a time.
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

/// Keys that a block [samples](fn@group_sample).
pub const SAMPLE: u32 = 4096;
/// Blocks that sample.
pub const SAMPLES: u32 = 16;
/// Slots of the table of such a block.
const SAMPLE_SLOTS: u32 = 2 * SAMPLE;

/// Each block draws [`SAMPLE`] keys at random, some of them perhaps twice, and raises `couples[0]`
/// by the couples of equal ones: [`SAMPLES`] blocks. There must be a key.
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
        // Of the distinct keys of a sample hardly two have one hash, however wide they are.
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
