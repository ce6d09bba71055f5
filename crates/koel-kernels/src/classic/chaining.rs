//! Separate chaining, lock-free: a list for each bucket, and pair `i` becomes the head of its list
//! by one exchange.
use super::{answer, key_of, pair};
use crate::hash::Functions;
use koel_simt::{Buf, In, Thread, kernel};

/// The end of a list, and the head of an empty one.
pub const END: u32 = u32::MAX;

/// Puts pair `i` in front of its bucket's list. Clear `heads` to ones before.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn chaining_insert(
    t: Thread,
    keys: In<u32>,
    values: In<u32>,
    n: u32,
    bucket_of: Functions,
    heads: Buf<u32>,
    next: Buf<u32>,
    pairs: Buf<u64>,
) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    let key = keys.get_stream(i);
    pairs.store_stream(i, pair(key, values.get_stream(i)));
    next.store_stream(i, heads.swap(bucket_of.slot(0, key), i));
}

/// Looks up query `i`.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn chaining_find(
    t: Thread,
    queries: In<u32>,
    n: u32,
    bucket_of: Functions,
    heads: In<u32>,
    next: In<u32>,
    pairs: In<u64>,
    values: Buf<u32>,
    found: Buf<u8>,
) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    let key = queries.get_stream(i);
    let (mut hit, mut at) = (None, heads.get(bucket_of.slot(0, key)));
    while at != END {
        let e = pairs.get(at);
        if key_of(e) == key {
            hit = Some(e);
            break;
        }
        at = next.get(at);
    }
    answer(i, hit, values, found);
}
