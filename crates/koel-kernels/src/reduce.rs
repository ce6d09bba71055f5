//! Sum, least and greatest.
use koel_simt::{Buf, In, Scalar, Thread, U32x4, U64x2, kernel, unroll};

const THREADS: u32 = 256;
/// Sixteen-byte loads in flight a thread.
const FLIGHT: usize = 4;
/// Elements that a block takes in one turn, at most: grids need not be finer.
pub const TURN: u32 = THREADS * FLIGHT as u32 * 4;

/// Elements, sixteen bytes at a time.
pub trait Chunked: Scalar {
    /// Elements in sixteen bytes.
    const LANES: u32;
    /// Chunk `i` of an array aligned to sixteen bytes, folded into `acc`.
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

/// Folds all elements into `out[0]`, which holds the neutral element or an earlier result.
#[inline(always)]
fn reduce<T: Chunked, A: Scalar>(
    t: Thread,
    aligned: u32,
    n: u32,
    input: In<T>,
    neutral: A,
    take: impl Fn(A, T) -> A,
    merge: impl Fn(A, A) -> A,
    publish: impl Fn(A),
) {
    let of_warp = t.shared().array::<A>(THREADS / 32);
    let threads = t.grid_dim() * THREADS;
    let mut acc = neutral;
    let mut scalar = t.global_id();
    if aligned != 0 {
        let chunks = n / T::LANES;
        let mut i = t.global_id();
        while i < chunks {
            unroll::<FLIGHT>(|j| {
                let at = i as u64 + j as u64 * threads as u64;
                if at < chunks as u64 {
                    acc = T::fold(input, at as u32, acc, &take);
                }
            });
            // Stops rather than wraps: the last index is below 2^32, the step need not be.
            i = i.saturating_add(threads.saturating_mul(FLIGHT as u32));
        }
        scalar = (chunks * T::LANES).saturating_add(scalar);
    }
    while scalar < n {
        acc = take(acc, input.get_stream(scalar));
        scalar = scalar.saturating_add(threads);
    }
    unroll::<5>(|j| acc = merge(acc, t.warp().shfl_xor(acc, 1 << j)));
    if t.lane() == 0 {
        of_warp.store(t.warp_id(), acc);
    }
    t.barrier();
    if t.warp_id() == 0 {
        acc = if t.lane() < THREADS / 32 { of_warp.load(t.lane()) } else { neutral };
        unroll::<5>(|j| acc = merge(acc, t.warp().shfl_xor(acc, 1 << j)));
        if t.lane() == 0 {
            publish(acc);
        }
    }
}

macro_rules! entries { ($($(#[$doc:meta])* $name:ident $t:ident $a:ident $neutral:expr, $op:ident $atomic:ident;)*) => { $(
    $(#[$doc])*
    #[kernel(image = PRIMITIVES, threads = 256, min_blocks = 4, shared = THREADS / 32 * 8)]
    pub fn $name(t: Thread, aligned: u32, n: u32, input: In<$t>, out: Buf<$a>) {
        reduce::<$t, $a>(t, aligned, n, input, $neutral, |a, x| $a::$op(a, x as $a), |a, b| $a::$op(a, b), |a| {
            out.$atomic(0, a);
        })
    }
)* } }
entries! {
    /// `out[0]` += sum of the elements.
    reduce_sum_u32 u32 u64 0, wrapping_add fetch_add;
    /// `out[0]` += sum of the elements, wrapping.
    reduce_sum_u64 u64 u64 0, wrapping_add fetch_add;
    /// `out[0]` = least of it and the elements.
    reduce_min_u32 u32 u32 u32::MAX, min fetch_min;
    /// `out[0]` = least of it and the elements.
    reduce_min_u64 u64 u64 u64::MAX, min fetch_min;
    /// `out[0]` = greatest of it and the elements.
    reduce_max_u32 u32 u32 0, max fetch_max;
    /// `out[0]` = greatest of it and the elements.
    reduce_max_u64 u64 u64 0, max fetch_max;
}
