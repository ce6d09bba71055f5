//! The multi-value table of Alcantara et al. 2011: pairs sorted by key, and a table from keys to
//! where their values are.
//!
//! Kernels in the order of the build: heads, (scan), list; then the step after the lookup of a
//! key's number.
use koel_simt::{Buf, In, Thread, kernel};

/// `heads[i]` becomes 1 if sorted key `i` is the first of its kind.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn multi_value_heads(t: Thread, keys: In<u32>, n: u32, heads: Buf<u32>) {
    let i = t.global_id();
    if i < n {
        let first = i == 0 || keys.get(i - 1) != keys.get(i);
        heads.store(i, first as u32);
    }
}

/// Where the distinct keys go: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct DistinctOut {
    /// Each of `count` keys.
    pub keys: Buf<u32>,
    /// Its number.
    pub ids: Buf<u32>,
    /// Where its values begin; behind the last, where they end.
    pub places: Buf<u32>,
    /// How many there are.
    pub count: u32,
}

/// Lists each distinct key, its number, and where its values begin. `heads` and `numbers`: the
/// marks of the first of each kind, and how many there are before each key.
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

/// From the number of query `i`'s key to where its values begin and how many they are.
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
