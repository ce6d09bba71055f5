//! The single-level cuckoo table that stores the number of the function with the key (Zachmann's
//! lecture): a thread that evicts a pair reads the number instead of evaluating every function.
//!
//! A slot holds the key and, in place of the value, the function's number and the index of the
//! pair. Values are stored separately.
use super::{CuckooMut, EMPTY, Queries, key_of};
use koel_kernels::hash::Functions;
use koel_simt::{In, Thread, kernel};

/// Bits of a pair's index.
pub const INDEX_BITS: u32 = 29;
/// Maximum number of pairs.
pub const MAX_PAIRS: usize = 1 << INDEX_BITS;

/// Packs a slot. Never [`EMPTY`], because no function has number 7.
#[inline(always)]
fn slot_with(key: u32, function: u32, index: u32) -> u64 {
    ((function << INDEX_BITS | index) as u64) << 32 | key as u64
}
#[inline(always)]
fn function_of(e: u64) -> u32 {
    (e >> (32 + INDEX_BITS)) as u32
}
#[inline(always)]
fn index_of(e: u64) -> u32 {
    (e >> 32) as u32 & ((1 << INDEX_BITS) - 1)
}

/// A table with function numbers: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct FunctionIdRef {
    /// Hash functions from keys to slots.
    pub functions: Functions,
    /// Slots.
    pub slots: In<u64>,
    /// Value of each pair.
    pub values: In<u32>,
}

/// Inserts the key of pair `i` and what it evicts.
#[kernel(image = CLASSIC, threads = 64, independent)]
pub fn function_id_insert(t: Thread, keys: In<u32>, n: u32, max_exchanges: u32, table: CuckooMut) {
    let CuckooMut { functions, slots, status } = table;
    let i = t.global_id();
    if i >= n {
        return;
    }
    let (mut e, mut step) = (slot_with(keys.get_stream(i), 0, i), 0);
    while step < max_exchanges {
        e = slots.swap(functions.slot(function_of(e), key_of(e)), e);
        if e == EMPTY {
            return;
        }
        let next = function_of(e) + 1;
        e = slot_with(key_of(e), if next < functions.count() { next } else { 0 }, index_of(e));
        step += 1;
    }
    status.fetch_add(super::status::FAILED, 1);
}

/// Looks up query `i`.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn function_id_find(t: Thread, table: FunctionIdRef, queries: Queries) {
    let FunctionIdRef { functions, slots, values } = table;
    let i = t.global_id();
    if i >= queries.n {
        return;
    }
    let key = queries.keys.get_stream(i);
    let (mut value, mut hit, mut f) = (0, 0, 0);
    while f < functions.count() {
        let e = slots.get(functions.slot(f, key));
        if e != EMPTY && key_of(e) == key {
            (value, hit) = (values.get(index_of(e)), 1);
            break;
        }
        f += 1;
    }
    queries.values.store_stream(i, value);
    queries.found.store_stream(i, hit);
}
