//! Lock-free separate chaining: one list per bucket. Pair `i` becomes the head of its list by one
//! atomic exchange.
use super::{PairsIn, Queries, key_of, pair};
use crate::hash::Functions;
use koel_simt::{Buf, In, Thread, kernel};

/// Marks the end of a list. Head of an empty list.
pub const END: u32 = u32::MAX;

/// A chained table under construction: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct ChainingMut {
    /// Hash function from keys to buckets.
    pub bucket_of: Functions,
    /// First pair of each bucket's list. All ones before the build.
    pub heads: Buf<u32>,
    /// Successor of each pair in its list.
    pub next: Buf<u32>,
    /// Pairs.
    pub pairs: Buf<u64>,
}

/// A chained table: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct ChainingRef {
    /// Hash function from keys to buckets.
    pub bucket_of: Functions,
    /// First pair of each bucket's list.
    pub heads: In<u32>,
    /// Successor of each pair in its list.
    pub next: In<u32>,
    /// Pairs.
    pub pairs: In<u64>,
}

/// Inserts pair `i` at the head of its bucket's list.
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
