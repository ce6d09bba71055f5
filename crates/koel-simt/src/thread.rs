//! The thread, its block and its warp.
use crate::{Scalar, SharedMem, imp};

/// This thread. Proof that the code runs inside a kernel; `Copy`, one register on a GPU.
#[derive(Clone, Copy)]
pub struct Thread {
    id: u32,
    #[cfg(not(target_arch = "nvptx64"))]
    place: imp::Place,
}

impl Thread {
    /// The thread that runs.
    ///
    /// # Safety
    /// Only the kernel entry that `#[kernel]` writes may call this.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub unsafe fn enter<const THREADS: u32>() -> Thread {
        let id = imp::tid();
        // SAFETY: the entry's launch bound (.maxntid) is THREADS.
        unsafe { core::hint::assert_unchecked(id < THREADS && imp::block_dim() <= THREADS) };
        Thread { id }
    }
    /// Thread `id` of a block, for an executor.
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

    /// Index in the block.
    #[inline(always)]
    pub fn id(self) -> u32 {
        self.id
    }
    /// Index of the block in the grid.
    #[inline(always)]
    pub fn block(self) -> u32 {
        self.place().block()
    }
    /// Threads in a block.
    #[inline(always)]
    pub fn block_dim(self) -> u32 {
        self.place().threads()
    }
    /// Blocks in the grid.
    #[inline(always)]
    pub fn grid_dim(self) -> u32 {
        self.place().grid()
    }
    /// Index in the grid. The grid must have at most 2^32 threads.
    #[inline(always)]
    pub fn global_id(self) -> u32 {
        self.block() * self.block_dim() + self.id
    }
    /// Index in the warp.
    #[inline(always)]
    pub fn lane(self) -> u32 {
        self.id & 31
    }
    /// How many of these lanes, a bit each, come before this one: its number among them, if it is
    /// one.
    #[inline(always)]
    pub fn rank_in(self, lanes: u32) -> u32 {
        (lanes & ((1 << self.lane()) - 1)).count_ones()
    }
    /// Index of the warp in the block.
    #[inline(always)]
    pub fn warp_id(self) -> u32 {
        self.id >> 5
    }

    /// All threads of the block meet here; orders shared and global memory between them.
    /// On the host every thread must wait at the same line, and none may have returned.
    #[inline(always)]
    #[track_caller]
    pub fn barrier(self) {
        imp::barrier(self.id)
    }
    /// A [`barrier`](Self::barrier) that tells how many threads of the block said true.
    #[inline(always)]
    #[track_caller]
    pub fn barrier_count(self, p: bool) -> u32 {
        imp::barrier_count(self.id, p)
    }
    /// Orders this thread's earlier global accesses before its later ones, as seen by all threads
    /// of the GPU. After a [`barrier`](Self::barrier), those of its block too. Costs about as
    /// much as a global load.
    #[inline(always)]
    pub fn fence(self) {
        imp::fence()
    }

    /// All 32 lanes.
    #[inline(always)]
    pub fn warp(self) -> Warp {
        Warp { id: self.id, mask: !0 }
    }
    /// Only the lanes in `mask`, which must include this one and be the same in all of them.
    #[inline(always)]
    pub fn lanes(self, mask: u32) -> Warp {
        Warp { id: self.id, mask }
    }
    /// Dynamic shared memory, handed out from its beginning. Every thread must make the same calls.
    #[inline(always)]
    pub fn shared(self) -> SharedMem {
        SharedMem::new()
    }

    /// The same number, of which the compiler is not to know that it is the same: what follows from
    /// it is computed again. For code that is rarely run and that would keep registers busy
    /// until then.
    #[inline(always)]
    pub fn anew(self, x: u32) -> u32 {
        imp::anew(x)
    }
    /// Programmatic dependent launch: the next kernel of the stream may start now; what it reads of
    /// this kernel's output it must read after [`wait_for_previous`](Self::wait_for_previous).
    /// No effect below compute capability 9.0 and when the next kernel was launched in the
    /// ordinary way.
    #[inline(always)]
    pub fn let_next_start(self) {
        imp::let_next_start()
    }
    /// Programmatic dependent launch: waits until the kernels before this one have ended and their
    /// writes can be seen.
    #[inline(always)]
    pub fn wait_for_previous(self) {
        imp::wait_for_previous()
    }
}

/// The lanes that take part in a warp operation. Each operation waits for all of them.
#[derive(Clone, Copy)]
pub struct Warp {
    id: u32,
    mask: u32,
}

impl Warp {
    /// Orders memory between the lanes. The other operations do not: they only exchange values.
    #[inline(always)]
    #[track_caller]
    pub fn sync(self) {
        imp::warp_sync(self.id, self.mask)
    }
    /// Bit `l`: lane `l` said true.
    #[inline(always)]
    #[track_caller]
    pub fn ballot(self, p: bool) -> u32 {
        imp::ballot(self.id, self.mask, p)
    }
    /// Whether a lane said true.
    #[inline(always)]
    #[track_caller]
    pub fn any(self, p: bool) -> bool {
        self.ballot(p) != 0
    }
    /// Whether no lane said false.
    #[inline(always)]
    #[track_caller]
    pub fn all(self, p: bool) -> bool {
        self.ballot(!p) == 0
    }
    /// The value of lane `lane & 31`.
    #[inline(always)]
    #[track_caller]
    pub fn shfl<T: Scalar>(self, v: T, lane: u32) -> T {
        v.shfl_idx(self.id, self.mask, lane)
    }
    /// The value of lane `own - delta`; below lane 0, the own value.
    #[inline(always)]
    #[track_caller]
    pub fn shfl_up<T: Scalar>(self, v: T, delta: u32) -> T {
        v.shfl_up(self.id, self.mask, delta)
    }
    /// The value of lane `own + delta`; above lane 31, the own value.
    #[inline(always)]
    #[track_caller]
    pub fn shfl_down<T: Scalar>(self, v: T, delta: u32) -> T {
        v.shfl_down(self.id, self.mask, delta)
    }
    /// The value of lane `own ^ bits`.
    #[inline(always)]
    #[track_caller]
    pub fn shfl_xor<T: Scalar>(self, v: T, bits: u32) -> T {
        v.shfl_xor(self.id, self.mask, bits)
    }
    /// Bit `l`: lane `l` has the same value.
    #[inline(always)]
    #[track_caller]
    pub fn match_any<T: Scalar>(self, v: T) -> u32 {
        v.match_any(self.id, self.mask)
    }
    /// The sum over the lanes. Five shuffles below compute capability 8.0: there the mask must be
    /// full.
    #[inline(always)]
    #[track_caller]
    pub fn reduce_add(self, v: u32) -> u32 {
        imp::reduce_add(self.id, self.mask, v)
    }
    /// The least value. Five shuffles below compute capability 8.0: there the mask must be full.
    #[inline(always)]
    #[track_caller]
    pub fn reduce_min(self, v: u32) -> u32 {
        imp::reduce_min(self.id, self.mask, v)
    }
    /// The greatest value. Five shuffles below compute capability 8.0: there the mask must be full.
    #[inline(always)]
    #[track_caller]
    pub fn reduce_max(self, v: u32) -> u32 {
        imp::reduce_max(self.id, self.mask, v)
    }
}
