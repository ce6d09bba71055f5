//! The multi-value table of Alcantara et al. 2011: pairs sorted by key, and a table from each key
//! to the location of its values.
//!
//! Kernels in build order: heads, (scan), list. After a lookup of key numbers, places turns them
//! into ranges.
use koel_simt::{Buf, In, Thread, kernel};

/// Sets `heads[i]` to 1 if sorted key `i` is the first of its group, else to 0.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn multi_value_heads(t: Thread, keys: In<u32>, n: u32, heads: Buf<u32>) {
    let i = t.global_id();
    if i < n {
        let first = i == 0 || keys.get(i - 1) != keys.get(i);
        heads.store(i, first as u32);
    }
}

/// Output of the distinct keys: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct DistinctOut {
    /// The `count` distinct keys.
    pub keys: Buf<u32>,
    /// Number of each key.
    pub ids: Buf<u32>,
    /// First value of each key, and the end of the last one.
    pub places: Buf<u32>,
    /// Number of distinct keys.
    pub count: u32,
}

/// Lists each distinct key, its number and its first value. `heads` marks the first key of each
/// group; `numbers` is the number of marks before each key.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn multi_value_list(
    t: Thread,
    keys: In<u32>,
    n: u32,
    heads: In<u32>,
    numbers: In<u32>,
    distinct: DistinctOut,
) {
    let i = t.global_id();
    if i == 0 {
        distinct.places.store(distinct.count, n);
    }
    if i < n && heads.get(i) != 0 {
        let id = numbers.get(i);
        distinct.keys.store(id, keys.get(i));
        distinct.ids.store(id, id);
        distinct.places.store(id, i);
    }
}

/// Turns the key number of query `i` into the first value and the number of values.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn multi_value_places(
    t: Thread,
    n: u32,
    found: In<u8>,
    places: In<u32>,
    starts: Buf<u32>,
    counts: Buf<u32>,
) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    let (mut start, mut count) = (0, 0);
    if found.get(i) != 0 {
        let id = starts.load(i);
        start = places.get(id);
        count = places.get(id + 1) - start;
    }
    starts.store(i, start);
    counts.store(i, count);
}
