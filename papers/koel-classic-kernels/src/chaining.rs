//! Lock-free separate chaining: one list per bucket. Pair `i` becomes the head of a list by one
//! atomic exchange. With several functions, a pair chooses the shortest of its lists.
use super::{PairsIn, Queries, key_of, pair};
use koel_kernels::hash::Functions;
use koel_simt::{Buf, In, Thread, kernel};

/// Marks the end of a list. Head of an empty list.
pub const END: u32 = u32::MAX;

/// The lists that may hold a key, one per function: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Lists {
    /// Hash functions from keys to lists, or to the lists of a part.
    pub functions: Functions,
    /// Number of lists before those of the next function: 0 if all functions share all lists.
    pub part: u32,
}
impl Lists {
    /// Returns the list of a key by function `f`.
    #[inline(always)]
    pub fn list(&self, f: u32, key: u32) -> u32 {
        f * self.part + self.functions.slot(f, key)
    }
}

/// A chained table under construction: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct ChainingMut {
    /// Lists of each key.
    pub lists: Lists,
    /// Number of pairs that have chosen each list. 0 before the build; unused with one function.
    pub lengths: Buf<u32>,
    /// First pair of each list. All ones before the build.
    pub heads: Buf<u32>,
    /// Successor of each pair in its list.
    pub next: Buf<u32>,
    /// Pairs.
    pub pairs: Buf<u64>,
}
impl ChainingMut {
    /// Chooses the shortest list of a key, the first one if several are. Other threads may make it
    /// longer before the pair is in it.
    #[inline(always)]
    fn choose(self, key: u32) -> u32 {
        let (mut shortest, mut least, mut f) = (0, u32::MAX, 0);
        while f < self.lists.functions.count() {
            let list = self.lists.list(f, key);
            let length = self.lengths.load_relaxed(list);
            if length < least {
                (shortest, least) = (list, length);
            }
            f += 1;
        }
        self.lengths.fetch_add(shortest, 1);
        shortest
    }
}

/// A chained table: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct ChainingRef {
    /// Lists of each key.
    pub lists: Lists,
    /// First pair of each list.
    pub heads: In<u32>,
    /// Successor of each pair in its list.
    pub next: In<u32>,
    /// Pairs.
    pub pairs: In<u64>,
}

/// Inserts pair `i` at the head of the list that it chooses.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn chaining_insert(t: Thread, pairs: PairsIn, table: ChainingMut) {
    let i = t.global_id();
    if i >= pairs.n {
        return;
    }
    let key = pairs.keys.get_stream(i);
    table.pairs.store_stream(i, pair(key, pairs.values.get_stream(i)));
    let one = table.lists.functions.count() == 1;
    let list = if one { table.lists.list(0, key) } else { table.choose(key) };
    table.next.store_stream(i, table.heads.swap(list, i));
}

/// Sets `longest` to the number of pairs in the longest of `n` lists, one thread per list. The
/// caller clears it.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn chaining_longest(t: Thread, n: u32, heads: In<u32>, next: In<u32>, longest: Buf<u32>) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    let (mut length, mut at) = (0, heads.get(i));
    while at != END {
        length += 1;
        at = next.get(at);
    }
    if length > longest.load_relaxed(0) {
        longest.fetch_max(0, length);
    }
}

/// Looks up query `i` in the lists of its key.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn chaining_find(t: Thread, table: ChainingRef, queries: Queries) {
    let i = t.global_id();
    if i >= queries.n {
        return;
    }
    let key = queries.keys.get_stream(i);
    let (mut hit, mut f) = (None, 0);
    while f < table.lists.functions.count() && hit.is_none() {
        let mut at = table.heads.get(table.lists.list(f, key));
        while at != END {
            let e = table.pairs.get(at);
            if key_of(e) == key {
                hit = Some(e);
                break;
            }
            at = table.next.get(at);
        }
        f += 1;
    }
    queries.answer(i, hit);
}
