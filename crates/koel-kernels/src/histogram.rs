//! Histogram: the number of keys in each bin.
use crate::bins::{Binning, Bits, Hash, Source};
use koel_simt::{Buf, In, Thread, U32x4, kernel, unroll};

const THREADS: u32 = 256;
/// 16-byte loads in flight per thread.
const FLIGHT: usize = 4;
/// Keys per block in one iteration: grids need not be finer.
pub const TURN: u32 = THREADS * FLIGHT as u32 * 4;
/// Maximum number of bins that are counted in shared memory.
pub const MAX_SHARED_BINS: u32 = 8192;

/// Calls `f` for every key, across the whole grid.
#[inline(always)]
fn each_key(t: Thread, aligned: u32, n: u32, keys: In<u32>, f: impl Fn(u32)) {
    let threads = t.grid_dim() * t.block_dim();
    let mut first = t.global_id();
    if aligned != 0 {
        let chunks = n / 4;
        for i in t.strided(first, threads.saturating_mul(FLIGHT as u32), chunks) {
            let mut x = [U32x4::default(); FLIGHT];
            unroll::<FLIGHT>(|j| {
                let at = i as u64 + j as u64 * threads as u64;
                if at < chunks as u64 {
                    x[j] = keys.x4().get_stream(at);
                }
            });
            unroll::<FLIGHT>(|j| {
                if i as u64 + j as u64 * (threads as u64) < chunks as u64 {
                    unroll::<4>(|k| f(x[j].0[k]));
                }
            });
        }
        first = (n & !3).saturating_add(first);
    }
    for i in t.strided(first, threads, n) {
        f(keys.get_stream(i));
    }
}

/// Adds the number of keys in bin `b` to `counts[b]`. Counts in shared memory, with one global add
/// per block and bin. `aligned`: the keys begin on a multiple of 16 bytes.
#[kernel(
    image = PRIMITIVES, threads = 256, min_blocks = 4, shared = binning.bins * 4,
    for S in [Bits, Hash]
)]
pub fn histogram_shared<S: Source>(
    t: Thread,
    binning: Binning,
    aligned: u32,
    n: u32,
    keys: In<u32>,
    counts: Buf<u32>,
) {
    let bins = binning.bins;
    let own = t.shared().array::<u32>(bins);
    let mut i = t.id();
    while i < bins {
        own.store(i, 0);
        i += THREADS;
    }
    t.barrier();
    each_key(t, aligned, n, keys, |key| {
        own.fetch_add(binning.bin_of(S::stored(key)), 1);
    });
    t.barrier();
    let mut i = t.id();
    while i < bins {
        let c = own.load(i);
        if c != 0 {
            counts.fetch_add(i, c);
        }
        i += THREADS;
    }
}
/// Computes the same histogram with one global add per key.
#[kernel(image = PRIMITIVES, threads = 256, min_blocks = 4, for S in [Bits, Hash])]
pub fn histogram_global<S: Source>(
    t: Thread,
    binning: Binning,
    aligned: u32,
    n: u32,
    keys: In<u32>,
    counts: Buf<u32>,
) {
    each_key(t, aligned, n, keys, |key| {
        counts.fetch_add(binning.bin_of(S::stored(key)), 1);
    });
}
