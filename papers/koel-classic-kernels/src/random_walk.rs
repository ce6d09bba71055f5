//! Variants of insertion into the single-level cuckoo table: an evicted pair takes a random one of
//! its other functions (random-walk insertion), or a new pair starts with a random function.
//! Lookups use [`single_level_find`](fn@super::single_level::single_level_find).
use super::{CuckooMut, EMPTY, PairsIn, key_of, status};
use koel_kernels::hash::{Functions, mix::mix, mulhi};
use koel_simt::{Buf, Thread, kernel};

/// Parameters of insertion: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Walk {
    /// Maximum number of exchanges per insertion.
    pub max_exchanges: u32,
    /// 1 if an evicted pair takes a random other function, 0 if it takes the next one.
    pub random_order: u32,
    /// 1 if a new pair starts with a random function, 0 if it starts with the first.
    pub random_start: u32,
    /// 1 to write to `exchanges[i]` the number of exchanges for pair `i` and what it evicted.
    pub record: u32,
}

/// Returns the function that a pair takes after the one that put it into slot `at`.
#[inline(always)]
pub fn next_function(
    key: u32,
    at: u32,
    random: u32,
    functions: &Functions,
    random_order: bool,
) -> u32 {
    let (d, mut f) = (functions.count(), 0);
    while f + 1 < d && functions.slot(f, key) != at {
        f += 1;
    }
    f += 1 + if random_order { mulhi(random, d - 1) } else { 0 };
    if f >= d { f - d } else { f }
}

/// Inserts pair `i` and what it evicts.
#[kernel(image = CLASSIC, threads = 64, independent)]
pub fn random_walk_insert(
    t: Thread,
    pairs: PairsIn,
    walk: Walk,
    table: CuckooMut,
    exchanges: Buf<u32>,
) {
    let CuckooMut { functions, slots, status } = table;
    let i = t.global_id();
    if i >= pairs.n {
        return;
    }
    let mut e = pairs.get_stream(i);
    let (mut step, mut random) = (0, mix(i));
    if e == EMPTY {
        status.store_relaxed(status::ALL_ONES, 1);
    } else {
        let mut f = if walk.random_start != 0 { mulhi(random, functions.count()) } else { 0 };
        while step < walk.max_exchanges {
            let at = functions.slot(f, key_of(e));
            e = slots.swap(at, e);
            step += 1;
            if e == EMPTY {
                break;
            }
            random = mix(random.wrapping_add(0x9E37_79B9));
            f = next_function(key_of(e), at, random, &functions, walk.random_order != 0);
        }
        if e != EMPTY {
            status.fetch_add(status::FAILED, 1);
        }
    }
    if walk.record != 0 {
        exchanges.store_stream(i, step);
    }
}
