//! Exclusive and inclusive sums in one pass, by decoupled look-back.
use crate::lookback::{Carried, Tiles, sum_before, take_tile, warp_inclusive};
use koel_simt::{Buf, In, Thread, U32x4, U64x2, kernel, unroll};

const THREADS: u32 = 256;
const WARPS: u32 = THREADS / 32;
/// 16-byte chunks per thread.
const CHUNKS: usize = 4;

/// Element type of a scan, and its 16-byte accesses.
pub trait Scanned: Carried {
    /// Elements in sixteen bytes; at most 4.
    const LANES: u32;
    /// Elements per tile.
    const TILE: u32 = THREADS * CHUNKS as u32 * Self::LANES;
    /// Loads the elements from `i` on, a multiple of `LANES`. The array is aligned to sixteen
    /// bytes.
    fn load(from: In<Self>, i: u32) -> [Self; 4];
    /// Stores the elements from `i` on.
    fn store(to: Buf<Self>, i: u32, v: [Self; 4]);
}
impl Scanned for u32 {
    const LANES: u32 = 4;
    #[inline(always)]
    #[track_caller]
    fn load(from: In<u32>, i: u32) -> [u32; 4] {
        from.x4().get_stream(i >> 2).0
    }
    #[inline(always)]
    #[track_caller]
    fn store(to: Buf<u32>, i: u32, v: [u32; 4]) {
        to.x4().store(i >> 2, U32x4(v));
    }
}
impl Scanned for u64 {
    const LANES: u32 = 2;
    #[inline(always)]
    #[track_caller]
    fn load(from: In<u64>, i: u32) -> [u64; 4] {
        let U64x2([a, b]) = from.x2().get_stream(i >> 1);
        [a, b, 0, 0]
    }
    #[inline(always)]
    #[track_caller]
    fn store(to: Buf<u64>, i: u32, v: [u64; 4]) {
        to.x2().store(i >> 1, U64x2([v[0], v[1]]));
    }
}

/// Output of a scan: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SumsOut<T: Scanned> {
    /// One sum for each element.
    pub sums: Buf<T>,
    /// One element: the sum of all.
    pub total: Buf<T>,
    /// Not 0 if each sum includes its own element.
    pub inclusive: u32,
}

/// Sets `sums[i]` to the sum of `input[..i]`, or of `input[..=i]` if `inclusive`, and `total[0]` to
/// the sum of all. One block per tile. `aligned`: both arrays begin on multiples of 16 bytes.
///
/// A warp owns `CHUNKS` consecutive runs of 32 chunks, so that every access is coalesced and the
/// order is kept.
#[kernel(
    image = PRIMITIVES, threads = 256, min_blocks = 4, shared = WARPS * 8 + 8 + 8,
    for T in [u32, u64]
)]
pub fn scan<T: Scanned>(
    t: Thread,
    aligned: u32,
    n: u32,
    input: In<T>,
    to: SumsOut<T>,
    tiles: Tiles,
) {
    let SumsOut { sums: output, total, inclusive } = to;
    let mut shared = t.shared();
    let sums = shared.array::<T>(WARPS);
    let carry = shared.array::<T>(1);
    let slot = shared.array::<u32>(1);

    take_tile(t, tiles.ticket, slot);
    t.barrier();
    let tile = slot.load(0);
    let first = tile * T::TILE;
    let vector = aligned != 0 && n - first >= T::TILE;
    let mine = first + t.warp_id() * (T::TILE / WARPS) + t.lane() * T::LANES;
    let at = |c: usize| mine + c as u32 * (32 * T::LANES);

    let mut x = [[T::ZERO; 4]; CHUNKS];
    if vector {
        unroll::<CHUNKS>(|c| x[c] = T::load(input, at(c)));
    } else {
        unroll::<CHUNKS>(|c| {
            unroll::<4>(|k| {
                if (k as u32) < T::LANES && at(c) + (k as u32) < n {
                    x[c][k] = input.get(at(c) + k as u32);
                }
            })
        });
    }
    // The sum before each chunk, within the warp.
    let (mut before, mut warp_total) = ([T::ZERO; CHUNKS], T::ZERO);
    unroll::<CHUNKS>(|c| {
        let own = x[c][0].plus(x[c][1]).plus(x[c][2]).plus(x[c][3]);
        let upto = warp_inclusive(t, own);
        before[c] = warp_total.plus(upto.minus(own));
        warp_total = warp_total.plus(t.warp().shfl(upto, 31));
    });
    if t.lane() == 0 {
        sums.store(t.warp_id(), warp_total);
    }
    t.barrier();
    let of_lane = if t.lane() < WARPS { sums.load(t.lane()) } else { T::ZERO };
    let upto = warp_inclusive(t, of_lane);
    let before_warp = t.warp().shfl(upto.minus(of_lane), t.warp_id());
    if t.warp_id() == 0 {
        let own = t.warp().shfl(upto, 31);
        let before_tile = sum_before(t, tiles, tile, own);
        if t.lane() == 0 {
            carry.store(0, before_tile);
            if tile == t.grid_dim() - 1 {
                total.store(0, before_tile.plus(own));
            }
        }
    }
    t.barrier();

    let base = carry.load(0).plus(before_warp);
    unroll::<CHUNKS>(|c| {
        let mut sum = base.plus(before[c]);
        let mut y = [T::ZERO; 4];
        unroll::<4>(|k| {
            let upto = sum.plus(x[c][k]);
            y[k] = if inclusive != 0 { upto } else { sum };
            sum = upto;
        });
        if vector {
            T::store(output, at(c), y);
        } else {
            unroll::<4>(|k| {
                if (k as u32) < T::LANES && at(c) + (k as u32) < n {
                    output.store(at(c) + k as u32, y[k]);
                }
            });
        }
    });
}
