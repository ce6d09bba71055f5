//! Sum, minimum and maximum.
use crate::fold::{Accumulate, Form, Max, Min, Sum};
use koel_simt::{Buf, In, Scalar, Thread, U32x4, U64x2, kernel, unroll};

const THREADS: u32 = 256;
/// 16-byte loads in flight per thread.
const FLIGHT: usize = 4;
/// Maximum number of elements per block in one iteration: grids need not be finer.
pub const TURN: u32 = THREADS * FLIGHT as u32 * 4;

/// Elements that are loaded sixteen bytes at a time.
pub trait Chunked: Scalar {
    /// Elements in sixteen bytes.
    const LANES: u32;
    /// Folds chunk `i` of an array, which is aligned to sixteen bytes, into `acc`.
    fn fold<A>(from: In<Self>, i: u32, acc: A, f: impl Fn(A, Self) -> A) -> A;
}
impl Chunked for u32 {
    const LANES: u32 = 4;
    #[inline(always)]
    #[track_caller]
    fn fold<A>(from: In<u32>, i: u32, acc: A, f: impl Fn(A, u32) -> A) -> A {
        let U32x4([a, b, c, d]) = from.x4().get_stream(i);
        f(f(f(f(acc, a), b), c), d)
    }
}
impl Chunked for u64 {
    const LANES: u32 = 2;
    #[inline(always)]
    #[track_caller]
    fn fold<A>(from: In<u64>, i: u32, acc: A, f: impl Fn(A, u64) -> A) -> A {
        let U64x2([a, b]) = from.x2().get_stream(i);
        f(f(acc, a), b)
    }
}

/// Folds all elements into `out[0]`, which holds the neutral part or an earlier result. `aligned`:
/// the elements begin on a multiple of 16 bytes.
#[kernel(
    image = PRIMITIVES, threads = 256, min_blocks = 4, shared = THREADS / 32 * 8,
    for F in [Sum<u32>, Sum<u64>, Min<u32>, Min<u64>, Max<u32>, Max<u64>]
)]
pub fn reduce<F: Accumulate>(
    t: Thread,
    aligned: u32,
    n: u32,
    input: In<F::Value>,
    out: Buf<F::Part>,
) where
    F::Value: Chunked,
{
    let take = |part, value| F::merge(part, F::part(value, Form::UNSIGNED));
    let of_warp = t.shared().array::<F::Part>(THREADS / 32);
    let threads = t.grid_dim() * THREADS;
    let mut acc = F::neutral();
    let mut scalar = t.global_id();
    if aligned != 0 {
        let chunks = n / <F::Value>::LANES;
        for i in t.strided(t.global_id(), threads.saturating_mul(FLIGHT as u32), chunks) {
            unroll::<FLIGHT>(|j| {
                let at = i as u64 + j as u64 * threads as u64;
                if at < chunks as u64 {
                    acc = <F::Value>::fold(input, at as u32, acc, take);
                }
            });
        }
        scalar = (chunks * <F::Value>::LANES).saturating_add(scalar);
    }
    for i in t.strided(scalar, threads, n) {
        acc = take(acc, input.get_stream(i));
    }
    unroll::<5>(|j| acc = F::merge(acc, t.warp().shfl_xor(acc, 1 << j)));
    if t.lane() == 0 {
        of_warp.store(t.warp_id(), acc);
    }
    t.barrier();
    if t.warp_id() == 0 {
        acc = if t.lane() < THREADS / 32 { of_warp.load(t.lane()) } else { F::neutral() };
        unroll::<5>(|j| acc = F::merge(acc, t.warp().shfl_xor(acc, 1 << j)));
        if t.lane() == 0 {
            F::accumulate(out, acc);
        }
    }
}
