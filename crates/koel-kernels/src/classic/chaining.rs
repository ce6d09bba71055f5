//! Separate chaining, lock-free: a list for each bucket, and pair `i` becomes the head of its list
//! by one exchange.
use super::{PairsIn, Queries, key_of, pair};
use crate::hash::Functions;
use koel_simt::{Buf, In, Thread, kernel};

/// The end of a list, and the head of an empty one.
pub const END: u32 = u32::MAX;

/// A chained table that is built: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct ChainingMut {
    /// From keys to buckets.
    pub bucket_of: Functions,
    /// The first pair of each bucket's list; all ones before the build.
    pub heads: Buf<u32>,
    /// The pair after each.
    pub next: Buf<u32>,
    /// The pairs.
    pub pairs: Buf<u64>,
}

/// A chained table: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct ChainingRef {
    /// From keys to buckets.
    pub bucket_of: Functions,
    /// The first pair of each bucket's list.
    pub heads: In<u32>,
    /// The pair after each.
    pub next: In<u32>,
    /// The pairs.
    pub pairs: In<u64>,
}

/// Puts pair `i` in front of its bucket's list.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn chaining_insert(t: Thread, pairs: PairsIn, table: ChainingMut) {
    let i = t.global_id();
    if i >= pairs.n {
        return;
    }
    let key = pairs.keys.get_stream(i);
    table.pairs.store_stream(i, pair(key, pairs.values.get_stream(i)));
    table.next.store_stream(i, table.heads.swap(table.bucket_of.slot(0, key), i));
}

/// Looks up query `i`.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn chaining_find(t: Thread, table: ChainingRef, queries: Queries) {
    let i = t.global_id();
    if i >= queries.n {
        return;
    }
    let key = queries.keys.get_stream(i);
    let (mut hit, mut at) = (None, table.heads.get(table.bucket_of.slot(0, key)));
    while at != END {
        let e = table.pairs.get(at);
        if key_of(e) == key {
            hit = Some(e);
            break;
        }
        at = table.next.get(at);
    }
    queries.answer(i, hit);
}
