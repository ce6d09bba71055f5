//! The thread, its block and its warp.
use crate::{Scalar, SharedMem, imp};

/// The calling thread. Proves that the code runs inside a kernel; `Copy`, one register on a GPU.
#[derive(Clone, Copy)]
pub struct Thread {
    id: u32,
    #[cfg(not(target_arch = "nvptx64"))]
    place: imp::Place,
}

impl Thread {
    /// Returns the calling thread.
    ///
    /// # Safety
    /// Only the kernel entry that `#[kernel]` generates may call this.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub unsafe fn enter<const THREADS: u32>() -> Thread {
        let id = imp::tid();
        // SAFETY: the entry's launch bound (.maxntid) is THREADS.
        unsafe { core::hint::assert_unchecked(id < THREADS && imp::block_dim() <= THREADS) };
        Thread { id }
    }
    /// Returns thread `id` of a block, for an executor.
    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    pub(crate) fn on_host(id: u32, place: imp::Place) -> Thread {
        Thread { id, place }
    }
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    fn place(self) -> imp::Place {
        imp::Place
    }
    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    fn place(self) -> imp::Place {
        self.place
    }

    /// Returns the index of the thread in its block.
    #[inline(always)]
    pub fn id(self) -> u32 {
        self.id
    }
    /// Returns the index of the block in the grid.
    #[inline(always)]
    pub fn block(self) -> u32 {
        self.place().block()
    }
    /// Returns the number of threads per block.
    #[inline(always)]
    pub fn block_dim(self) -> u32 {
        self.place().threads()
    }
    /// Returns the number of blocks in the grid.
    #[inline(always)]
    pub fn grid_dim(self) -> u32 {
        self.place().grid()
    }
    /// Returns the index of the thread in the grid, which must have at most 2^32 threads.
    #[inline(always)]
    pub fn global_id(self) -> u32 {
        self.block() * self.block_dim() + self.id
    }
    /// Returns `first`, `first + step`, `first + 2 * step` and so on below `end`: the share of a
    /// thread or block in a loop over a range that exceeds the grid. Never wraps, whatever the
    /// numbers are; a `step` of 0 is 1. On the executor, `Exec::last` leaves out all but the last
    /// two.
    #[inline(always)]
    pub fn strided(self, first: u32, step: u32, end: u32) -> Strided {
        let step = step.max(1);
        Strided { at: self.place().skip(first, step, end), step, end }
    }
    /// Returns the index of the lane in its warp.
    #[inline(always)]
    pub fn lane(self) -> u32 {
        self.id & 31
    }
    /// Returns the number of lanes in the bit mask `lanes` below this one: its rank among them, if
    /// it is one of them.
    #[inline(always)]
    pub fn rank_in(self, lanes: u32) -> u32 {
        (lanes & ((1 << self.lane()) - 1)).count_ones()
    }
    /// Returns the index of the warp in the block.
    #[inline(always)]
    pub fn warp_id(self) -> u32 {
        self.id >> 5
    }

    /// Waits for all threads of the block; orders shared and global memory between them. On the
    /// host, every thread must wait at the same line, and none may have returned.
    #[inline(always)]
    #[track_caller]
    pub fn barrier(self) {
        imp::barrier(self.id)
    }
    /// Waits as [`barrier`](Self::barrier) does, and returns the number of threads whose `p` is
    /// true.
    #[inline(always)]
    #[track_caller]
    pub fn barrier_count(self, p: bool) -> u32 {
        imp::barrier_count(self.id, p)
    }
    /// Orders this thread's earlier global accesses before its later ones, as seen by all threads
    /// of the GPU. After a [`barrier`](Self::barrier), it covers the accesses of the whole block
    /// too. Costs about as much as a global load.
    #[inline(always)]
    pub fn fence(self) {
        imp::fence()
    }

    /// Returns the whole warp, all 32 lanes.
    #[inline(always)]
    pub fn warp(self) -> Warp {
        Warp { id: self.id, mask: !0 }
    }
    /// Returns the lanes in `mask`, which must include this one and be the same in all of them.
    #[inline(always)]
    pub fn lanes(self, mask: u32) -> Warp {
        Warp { id: self.id, mask }
    }
    /// Returns the dynamic shared memory, allocated from its start. Every thread must make the same
    /// calls.
    #[inline(always)]
    pub fn shared(self) -> SharedMem {
        SharedMem::new()
    }

    /// Returns `x` in a way that hides from the compiler that it is the same number: values derived
    /// from the result are recomputed. For rarely run code whose values would otherwise occupy
    /// registers until then.
    #[inline(always)]
    pub fn anew(self, x: u32) -> u32 {
        imp::anew(x)
    }
    /// Programmatic dependent launch: lets the next kernel of the stream start. That kernel must
    /// call [`wait_for_previous`](Self::wait_for_previous) before it reads this kernel's output. No
    /// effect below compute capability 9.0, or if the next kernel was launched normally.
    #[inline(always)]
    pub fn let_next_start(self) {
        imp::let_next_start()
    }
    /// Programmatic dependent launch: waits until the preceding kernels have finished and their
    /// writes are visible.
    #[inline(always)]
    pub fn wait_for_previous(self) {
        imp::wait_for_previous()
    }
}

/// Indices of a loop, from [`Thread::strided`].
#[derive(Clone, Copy)]
pub struct Strided {
    at: u32,
    step: u32,
    end: u32,
}
impl Iterator for Strided {
    type Item = u32;
    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        let at = self.at;
        // Saturates, to end the loop rather than wrap: no index is `u32::MAX`.
        self.at = at.saturating_add(self.step);
        (at < self.end).then_some(at)
    }
}

/// Lanes that take part in a warp operation. Each operation waits for all of them.
#[derive(Clone, Copy)]
pub struct Warp {
    id: u32,
    mask: u32,
}

impl Warp {
    /// Orders memory between the lanes. The other operations only exchange values.
    #[inline(always)]
    #[track_caller]
    pub fn sync(self) {
        imp::warp_sync(self.id, self.mask)
    }
    /// Returns a mask: bit `l` is set if `p` is true in lane `l`.
    #[inline(always)]
    #[track_caller]
    pub fn ballot(self, p: bool) -> u32 {
        imp::ballot(self.id, self.mask, p)
    }
    /// Returns whether `p` is true in any lane.
    #[inline(always)]
    #[track_caller]
    pub fn any(self, p: bool) -> bool {
        self.ballot(p) != 0
    }
    /// Returns whether `p` is true in all lanes.
    #[inline(always)]
    #[track_caller]
    pub fn all(self, p: bool) -> bool {
        self.ballot(!p) == 0
    }
    /// Returns the value of lane `lane & 31`.
    #[inline(always)]
    #[track_caller]
    pub fn shfl<T: Scalar>(self, v: T, lane: u32) -> T {
        v.shfl_idx(self.id, self.mask, lane)
    }
    /// Returns the value of lane `own - delta`, or the own value below lane 0.
    #[inline(always)]
    #[track_caller]
    pub fn shfl_up<T: Scalar>(self, v: T, delta: u32) -> T {
        v.shfl_up(self.id, self.mask, delta)
    }
    /// Returns the value of lane `own + delta`, or the own value above lane 31.
    #[inline(always)]
    #[track_caller]
    pub fn shfl_down<T: Scalar>(self, v: T, delta: u32) -> T {
        v.shfl_down(self.id, self.mask, delta)
    }
    /// Returns the value of lane `own ^ bits`.
    #[inline(always)]
    #[track_caller]
    pub fn shfl_xor<T: Scalar>(self, v: T, bits: u32) -> T {
        v.shfl_xor(self.id, self.mask, bits)
    }
    /// Returns a mask: bit `l` is set if lane `l` has the same value.
    #[inline(always)]
    #[track_caller]
    pub fn match_any<T: Scalar>(self, v: T) -> u32 {
        v.match_any(self.id, self.mask)
    }
    /// Returns the sum over the lanes. Below compute capability 8.0 it takes five shuffles and
    /// needs a full mask.
    #[inline(always)]
    #[track_caller]
    pub fn reduce_add(self, v: u32) -> u32 {
        imp::reduce_add(self.id, self.mask, v)
    }
    /// Returns the minimum. Below compute capability 8.0 it takes five shuffles and needs a full
    /// mask.
    #[inline(always)]
    #[track_caller]
    pub fn reduce_min(self, v: u32) -> u32 {
        imp::reduce_min(self.id, self.mask, v)
    }
    /// Returns the maximum. Below compute capability 8.0 it takes five shuffles and needs a full
    /// mask.
    #[inline(always)]
    #[track_caller]
    pub fn reduce_max(self, v: u32) -> u32 {
        imp::reduce_max(self.id, self.mask, v)
    }
}
