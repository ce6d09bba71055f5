//! The baseline: pairs sorted by key and binary search. Also marks, for the other tables, which of
//! several sorted pairs with equal keys stays.
use super::{PairsIn, Queries};
use koel_simt::{Buf, In, Thread, kernel};

/// Sets `keep[i]` to 1 if sorted pair `i` is the one of its key that stays (the last one or the
/// first one), else to 0.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn mark_kept(t: Thread, keys: In<u32>, n: u32, keep_last: u32, keep: Buf<u8>) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    let key = keys.get(i);
    let other = if keep_last != 0 { i.wrapping_add(1) } else { i.wrapping_sub(1) };
    let kept = other >= n || keys.get(other) != key;
    keep.store(i, kept as u8);
}

/// Looks up query `i` in pairs sorted by key. All keys are distinct.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn sorted_find(t: Thread, pairs: PairsIn, queries: Queries) {
    let PairsIn { keys, values, n } = pairs;
    let i = t.global_id();
    if i >= queries.n {
        return;
    }
    let key = queries.keys.get_stream(i);
    // Branch-free lower bound: `low` keys are known to be less.
    let (mut low, mut size) = (0u32, n);
    while size > 0 {
        let half = size / 2;
        let less = keys.get(low + half) < key;
        low = if less { low + half + 1 } else { low };
        size = if less { size - half - 1 } else { half };
    }
    let hit = low < n && keys.get(low) == key;
    queries.values.store_stream(i, if hit { values.get(low) } else { 0 });
    queries.found.store_stream(i, hit as u8);
}
