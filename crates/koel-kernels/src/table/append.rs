//! Appends to arrays that blocks fill together.
use koel_simt::{Buf, Shared, Thread, Word, block, unroll};

/// Threads per block that answers queries.
pub const ANSWERING: u32 = 256;

/// Output of a filter that appends keys: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct KeysOut<K: Word> {
    /// The keys.
    pub keys: Buf<K>,
    /// Number of keys.
    pub count: Buf<u64>,
}

/// Words of shared memory by which the threads of a block agree where to write.
pub const SUMS: u32 = 33;

/// Appends to arrays that hold `count` elements. Calls `put(j, to)` for each bit `j` that is set in
/// a thread's `has`. Each block of [`ANSWERING`] threads reserves room with one addition. `sums`
/// has [`SUMS`] words.
#[inline(always)]
pub fn append<const ITEMS: usize>(
    t: Thread,
    has: u32,
    count: Buf<u64>,
    sums: Shared<u32>,
    mut put: impl FnMut(usize, u32),
) {
    const BASE: u32 = SUMS - 1;
    let mut of_warp = 0;
    unroll::<ITEMS>(|j| of_warp += t.warp().ballot(has >> j & 1 != 0).count_ones());
    if t.lane() == 0 {
        sums.store(t.warp_id(), of_warp);
    }
    t.barrier();
    let of_lane = if t.lane() < ANSWERING / 32 { sums.load(t.lane()) } else { 0 };
    let up_to_lane = block::warp_inclusive_sum(t, of_lane);
    let all = t.warp().shfl(up_to_lane, 31);
    if t.id() == 0 {
        sums.store(BASE, if all != 0 { count.fetch_add(0, all as u64) as u32 } else { 0 });
    }
    let before = t.warp().shfl(up_to_lane - of_lane, t.warp_id());
    t.barrier();
    let mut to = sums.load(BASE) + before;
    unroll::<ITEMS>(|j| {
        let those = t.warp().ballot(has >> j & 1 != 0);
        if has >> j & 1 != 0 {
            put(j, to + t.rank_in(those));
        }
        to += those.count_ones();
    });
}
