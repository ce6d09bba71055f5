//! The primitives on the host, and the two ways to run a kernel there.
//!
//! * `Exec`, the test executor (feature `executor`). Every GPU thread of a block is a stackful
//!   coroutine; barriers, warp operations and some memory accesses are yields. An OS thread
//!   interleaves a few resident blocks, and several OS threads run in parallel, so that global
//!   atomics really race.
//! * [`run_native`]: plain loops over the threads of kernels whose threads do not wait for each
//!   other. Bounds are checked there too.
#[cfg(feature = "images")]
mod agreement;
#[cfg(feature = "executor")]
mod block;
#[cfg(not(feature = "executor"))]
#[path = "no_block.rs"]
mod block;
#[cfg(feature = "executor")]
mod exec;
mod fault;
mod image;
mod launch;
mod memory;
mod native;
#[cfg(feature = "executor")]
mod order;
#[cfg(feature = "executor")]
mod shadow;
#[cfg(feature = "executor")]
mod stacks;

use crate::Access;
#[cfg(feature = "images")]
pub use agreement::assert_images;
use block::{WarpOp, current, fault, running_block};
#[cfg(feature = "executor")]
pub use exec::{Exec, Stats};
pub use fault::{Fault, FaultKind};
#[doc(hidden)]
pub use image::chosen_files;
pub use image::{Code, CodeKind, Image, ImageError};
pub use launch::{Arg, Backend, KernelBody, KernelSpec, Params};
#[cfg(feature = "executor")]
pub use launch::{ArrayArg, KeptBody};
#[doc(hidden)]
pub use launch::{alignment, no_instance, same_type, size};
pub use memory::{Mem, Rmw};
pub use native::{Work, native_thread, on_v3, run_native, run_v3};
use std::panic::Location;

/// Position of a thread in the grid.
#[derive(Clone, Copy)]
pub struct Place {
    block: u32,
    threads: u32,
    grid: u32,
    /// Whether strided loops run only their last two rounds.
    last: bool,
}
impl Place {
    #[inline(always)]
    pub(crate) fn block(self) -> u32 {
        self.block
    }
    #[inline(always)]
    pub(crate) fn threads(self) -> u32 {
        self.threads
    }
    #[inline(always)]
    pub(crate) fn grid(self) -> u32 {
        self.grid
    }
    /// Returns the first index of a strided loop.
    #[inline(always)]
    pub(crate) fn skip(self, first: u32, step: u32, end: u32) -> u32 {
        if self.last && first < end {
            let rounds = (end - 1 - first) / step;
            first + rounds.saturating_sub(1) * step
        } else {
            first
        }
    }
}

/// Host-side metadata of an array.
#[derive(Clone, Copy)]
pub struct Extent {
    len: usize,
    name: &'static str,
    /// where a shared array was allocated
    made: Option<&'static Location<'static>>,
    /// number of the global array in its launch, or `NATIVE`, `IDLE` or `SHARED`
    slot: u32,
    /// address of the first element
    first: usize,
}
impl Extent {
    /// The kernel runs natively. Known at compile time, so that the executor's checks vanish.
    const NATIVE: u32 = u32::MAX;
    /// No kernel is running: host code holds the handle, which may outlive the memory. No element
    /// can be accessed.
    const IDLE: u32 = u32::MAX - 1;
    /// A shared array, which has no number among the launch's global arrays.
    const SHARED: u32 = u32::MAX - 2;
    pub(crate) fn global(len: usize) -> Extent {
        Extent { len, name: "?", made: None, slot: Extent::IDLE, first: 0 }
    }
    #[cold]
    #[track_caller]
    fn not_in_a_kernel(&self) -> ! {
        let of = self.len;
        fault(
            FaultKind::NotInKernel,
            format!("a global array of {of} elements is accessed outside of a launch"),
        )
    }
    /// Called before each access of a `Buf`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn touch(self, address: usize, bytes: usize, access: Access) {
        if self.slot != Extent::NATIVE {
            self.touch_in_block(address, bytes, access, false)
        }
    }
    /// Called before each read of an `In`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn touch_constant(self, address: usize, bytes: usize) {
        if self.slot != Extent::NATIVE {
            self.touch_in_block(address, bytes, Access::Read, true)
        }
    }
    /// Out of line, so that each access is a single call: kernels have thousands of them.
    #[inline(never)]
    #[track_caller]
    fn touch_in_block(&self, address: usize, bytes: usize, access: Access, constant: bool) {
        match running_block() {
            Some(block) if self.slot != Extent::IDLE => {
                block.global_access(self, address, bytes, access, constant, Location::caller())
            }
            _ => self.not_in_a_kernel(),
        }
    }
    /// Called before a releasing store.
    #[inline(always)]
    pub(crate) fn release(self, address: usize) {
        if self.slot != Extent::NATIVE
            && let Some(block) = running_block()
        {
            block.release(address)
        }
    }
    /// Called after an acquiring load.
    #[inline(always)]
    pub(crate) fn acquire(self, address: usize) {
        if self.slot != Extent::NATIVE
            && let Some(block) = running_block()
        {
            block.acquire(address)
        }
    }
    #[inline(always)]
    #[track_caller]
    pub(crate) fn check(self, i: usize) {
        if i >= self.len {
            self.out_of_bounds(i)
        }
    }
    #[cold]
    #[track_caller]
    fn out_of_bounds(self, i: usize) -> ! {
        let of = match self.made {
            None => format!("global `{}`", self.name),
            Some(at) => format!("the shared array allocated at {at}"),
        };
        fault(FaultKind::OutOfBounds, format!("index {i} of {of}, which has {} elements", self.len))
    }
    #[inline(always)]
    #[track_caller]
    pub(crate) fn regroup(self, address: usize, by: usize) -> Extent {
        if !address.is_multiple_of(16) {
            fault(
                FaultKind::Misaligned,
                format!("16-byte view of `{}` at {address:#x}, not a multiple of 16", self.name),
            );
        }
        Extent { len: self.len / by, ..self }
    }
    /// Returns the extent in elements smaller by the factor `by`.
    #[inline(always)]
    pub(crate) fn split(self, by: usize) -> Extent {
        Extent { len: self.len * by, ..self }
    }
}

#[inline(always)]
pub(crate) fn shared_base() -> u32 {
    0
}
#[track_caller]
pub(crate) fn shared_extent(_at: u32, len: usize, end: u32) -> Extent {
    let have = current().shared_bytes();
    if end > have {
        fault(
            FaultKind::SharedLimit,
            format!("shared arrays need {end} bytes, the launch provides {have}"),
        );
    }
    Extent { len, name: "shared", made: Some(Location::caller()), slot: Extent::SHARED, first: 0 }
}
#[track_caller]
pub(crate) fn barrier(_id: u32) {
    current().wait_barrier(Location::caller(), false);
}
#[track_caller]
pub(crate) fn barrier_count(_id: u32, p: bool) -> u32 {
    current().wait_barrier(Location::caller(), p)
}
#[inline(always)]
pub(crate) fn fence() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::AcqRel);
    if let Some(block) = running_block() {
        block.fence()
    }
}
// Launches of a stream run in order on the host: there is nothing to wait for.
#[inline(always)]
pub(crate) fn anew(x: u32) -> u32 {
    x
}
#[inline(always)]
pub(crate) fn let_next_start() {}
#[inline(always)]
pub(crate) fn wait_for_previous() {}

#[track_caller]
fn warp(id: u32, mask: u32, op: WarpOp, value: u64, aux: u32) -> u64 {
    current().warp_op(id, mask, op, value, aux, Location::caller())
}
#[track_caller]
pub(crate) fn warp_sync(id: u32, mask: u32) {
    warp(id, mask, WarpOp::Sync, 0, 0);
}
#[track_caller]
pub(crate) fn ballot(id: u32, mask: u32, p: bool) -> u32 {
    warp(id, mask, WarpOp::Ballot, p as u64, 0) as u32
}
#[track_caller]
pub(crate) fn reduce_add(id: u32, mask: u32, v: u32) -> u32 {
    warp(id, mask, WarpOp::Add, v as u64, 0) as u32
}
#[track_caller]
pub(crate) fn reduce_min(id: u32, mask: u32, v: u32) -> u32 {
    warp(id, mask, WarpOp::Min, v as u64, 0) as u32
}
#[track_caller]
pub(crate) fn reduce_max(id: u32, mask: u32, v: u32) -> u32 {
    warp(id, mask, WarpOp::Max, v as u64, 0) as u32
}
