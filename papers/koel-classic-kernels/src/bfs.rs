//! BFS insertion into the single-level cuckoo table: finds the shortest eviction chain first, then
//! exchanges along it.
//!
//! The textbook search inspects all slots under a lock. This one takes no lock: slots may change
//! while a thread searches, so a chain is only a plan. Exchanges lose no pair. If an evicted pair
//! is not the planned one, its thread searches again. Lookups use
//! [`single_level_find`](fn@super::single_level::single_level_find).
use super::{CuckooMut, EMPTY, PairsIn, key_of, status};
use koel_kernels::hash::Functions;
use koel_simt::{Buf, Thread, kernel};

/// Limits of an insertion: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Search {
    /// Maximum number of exchanges per insertion.
    pub max_exchanges: u32,
    /// Maximum number of slots per search. Each thread has room for as many in `nodes`.
    pub max_nodes: u32,
}

/// No node.
const NONE: u32 = u32::MAX;
/// Packs a slot and a link: the parent node during the search, then the next node of the chain.
#[inline(always)]
fn node(slot: u32, link: u32) -> u64 {
    (link as u64) << 32 | slot as u64
}
#[inline(always)]
fn slot_of(node: u64) -> u32 {
    node as u32
}
#[inline(always)]
fn link_of(node: u64) -> u32 {
    (node >> 32) as u32
}

/// Inserts pairs and what they evict. Thread `i` takes every pair whose index is `i` modulo the
/// number of threads.
#[kernel(image = CLASSIC, threads = 64, independent)]
pub fn bfs_insert(t: Thread, pairs: PairsIn, search: Search, table: CuckooMut, nodes: Buf<u64>) {
    let CuckooMut { functions, slots, status } = table;
    let threads = t.grid_dim() * t.block_dim();
    let base = t.global_id() * search.max_nodes;
    for i in t.strided(t.global_id(), threads, pairs.n) {
        let mut e = pairs.get_stream(i);
        if e == EMPTY {
            status.store_relaxed(status::ALL_ONES, 1);
        }
        let mut step = 0;
        while e != EMPTY && step < search.max_exchanges {
            let goal = find_chain(e, table, search.max_nodes, nodes, base);
            // The chain is linked from its end: reverse it.
            let (mut at, mut after) = (goal, NONE);
            while at != NONE {
                let this = nodes.load(base + at);
                nodes.store(base + at, node(slot_of(this), after));
                after = at;
                at = link_of(this);
            }
            while after != NONE && e != EMPTY {
                let this = nodes.load(base + after);
                if !names(key_of(e), slot_of(this), &functions) {
                    break;
                }
                e = slots.swap(slot_of(this), e);
                after = link_of(this);
                step += 1;
            }
        }
        if e != EMPTY {
            status.fetch_add(status::FAILED, 1);
        }
    }
}
/// Returns whether a function of the key names the slot.
#[inline(always)]
fn names(key: u32, slot: u32, functions: &Functions) -> bool {
    let mut f = 0;
    while f < functions.count() {
        if functions.slot(f, key) == slot {
            return true;
        }
        f += 1;
    }
    false
}
/// Returns the node of the nearest empty slot, or of the last slot searched if none was empty.
#[inline(always)]
fn find_chain(e: u64, table: CuckooMut, max_nodes: u32, nodes: Buf<u64>, base: u32) -> u32 {
    let CuckooMut { functions, slots, .. } = table;
    let (mut head, mut tail) = (0, 0);
    let (mut key, mut from, mut parent) = (key_of(e), NONE, NONE);
    loop {
        let mut f = 0;
        while f < functions.count() && tail < max_nodes {
            let slot = functions.slot(f, key);
            if slot != from {
                nodes.store(base + tail, node(slot, parent));
                tail += 1;
            }
            f += 1;
        }
        if head >= tail {
            return head - 1;
        }
        from = slot_of(nodes.load(base + head));
        let there = slots.load_relaxed(from);
        if there == EMPTY {
            return head;
        }
        (key, parent) = (key_of(there), head);
        head += 1;
    }
}
