//! Every primitive of koel-simt once: a test of what they do and what they compile to
//! (`sass-expectations.txt`).
use koel_simt::{Buf, In, Thread, U32x4, U64x2, block, kernel};

/// Runs warp operations with full and partial masks, 16-byte accesses, and divergent code between
/// them.
#[kernel(image = PROBE, threads = 128)]
pub fn warp_demo(t: Thread, input: In<u32>, wide: In<u64>, out: Buf<u32>) {
    let i = t.global_id();
    let U32x4([x, y, z, w]) = input.x4().get_no_alloc(i);
    let v = wide.x2().get(i).0;
    let warp = t.warp();
    let quad = t.lanes(0xf << (t.lane() & !3));
    let (mut a, mut b) = (warp.ballot(x & 1 != 0), warp.match_any(y & 7));
    if z & 1 != 0 {
        a ^= w; // divergent code on both sides of warp operations: LLVM must not copy them
    }
    b ^= warp.match_any(v[0] & 3);
    let c = warp.reduce_add(z) ^ warp.reduce_min(w) ^ warp.reduce_max(w);
    let d = quad.shfl_xor(x, 1)
        ^ quad.shfl(y, t.lane() & !3)
        ^ warp.shfl_up(z, 3)
        ^ warp.shfl_down(w, 5);
    let e = warp.shfl_xor(v[1], 16);
    let f = warp.any(x == y) as u32 | (warp.all(z != w) as u32) << 1;
    out.x4().store_stream(i, U32x4([a ^ b, c ^ d, e as u32, (e >> 32) as u32 ^ f]));
}

/// Runs every atomic on shared and global words of both sizes, 16-byte and byte accesses to shared
/// memory, block sums, and a counting barrier. `words` and `wide_words` hold seven results each.
#[kernel(image = PROBE, threads = 128, shared = 128 * 16 + 8 * 8 + 8 * 8 + 8 * 4 + 8 * 8 + 128)]
pub fn memory_demo(
    t: Thread,
    input: In<u32>,
    words: Buf<u32>,
    wide_words: Buf<u64>,
    out: Buf<u32>,
    bytes: Buf<u8>,
) {
    let mut shared = t.shared();
    let staged = shared.array::<u32>(512);
    let (wide, wide_sums) = (shared.array::<u64>(8), shared.array::<u64>(8));
    let (small, sums) = (shared.array::<u32>(8), shared.array::<u32>(4));
    let marks = shared.array::<u8>(128);
    let (i, l) = (t.global_id(), t.id());
    let x = input.x4().get(i);
    staged.x4().store(l, x);
    marks.store(l, x.0[0] as u8);
    if l < 8 {
        small.store(l, if l == 2 || l == 5 { u32::MAX } else { 0 });
        wide.store(l, if l == 2 || l == 5 { u64::MAX } else { 0 });
    }
    t.barrier();
    // The neighbour's sixteen bytes, word by word.
    let word = staged.load(4 * (l ^ 1) + (l & 3));
    let long = (word as u64) << 20 | l as u64;
    small.swap(0, 1);
    small.fetch_add(1, word);
    small.fetch_min(2, word);
    small.fetch_max(3, word);
    small.fetch_or(4, word);
    small.fetch_and(5, word);
    small.cas(6, 0, 7);
    wide.swap(0, 1);
    wide.fetch_add(1, long);
    wide.fetch_min(2, long);
    wide.fetch_max(3, long);
    wide.fetch_or(4, long);
    wide.fetch_and(5, long);
    wide.cas(6, 0, 7);
    let (before, _) = block::exclusive_sum(t, word & 0xff, sums);
    let (up_to, _) = block::inclusive_sum(t, long, wide_sums);
    let odd = t.barrier_count(word & 1 != 0);
    if l == 0 {
        words.swap(0, small.load(0));
        words.fetch_add(1, small.load(1));
        words.fetch_min(2, small.load(2));
        words.fetch_max(3, small.load(3));
        words.fetch_or(4, small.load(4));
        words.fetch_and(5, small.load(5));
        words.cas(6, 0, small.load(6));
        wide_words.swap(0, wide.load(0));
        wide_words.fetch_add(1, wide.load(1));
        wide_words.fetch_min(2, wide.load(2));
        wide_words.fetch_max(3, wide.load(3));
        wide_words.fetch_or(4, wide.load(4));
        wide_words.fetch_and(5, wide.load(5));
        wide_words.cas(6, 0, wide.load(6));
    }
    let U64x2([lo, hi]) = wide.x2().load(3);
    bytes.store(i, marks.load(l ^ 3));
    out.x4().store(i, U32x4([before, up_to as u32, (up_to >> 32) as u32, odd ^ (lo ^ hi) as u32]));
}
