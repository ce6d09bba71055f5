//! The primitives on the host, and the two ways to run a kernel there.
//!
//! * [`Exec`], the test executor. Every GPU thread of a block is a stackful coroutine on one OS thread; barriers and warp
//!   operations are yields. Several OS threads run blocks at the same time, so global atomics really race. Which thread
//!   resumes next is drawn from a seed, and so is a yield before some memory accesses: a block by itself replays exactly.
//! * [`run_native`], plain loops over the threads of kernels whose threads do not wait for each other. Bounds are checked
//!   there too.
mod exec;
mod launch;
mod memory;
mod native;
mod shadow;

use crate::Access;
use exec::{WarpOp, current, fault, in_executor};
pub use exec::{Exec, Fault, FaultKind, Stats};
pub use launch::{Arg, Backend, DeviceArg, KernelBody, KernelSpec};
pub use memory::{Mem, Rmw};
pub use native::{native_thread, run_native};
use std::panic::Location;

/// Where a thread is.
#[derive(Clone, Copy)]
pub struct Place {
    block: u32,
    threads: u32,
    grid: u32,
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
}

/// What the host knows of an array: its length, its name or where it was made, and for a `Buf` which race detector.
#[derive(Clone, Copy)]
pub struct Extent {
    len: usize,
    name: &'static str,
    made: Option<&'static Location<'static>>,
    /// which of the launch's `Buf`s
    slot: u32,
}
impl Extent {
    pub(crate) fn global(len: usize) -> Extent {
        Extent { len, name: "?", made: None, slot: u32::MAX }
    }
    #[inline(always)]
    #[track_caller]
    pub(crate) fn touch(self, byte: usize, bytes: usize, access: Access) {
        if in_executor() {
            current().global_check(self.name, self.slot, byte, bytes, access, Location::caller())
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
        match self.made {
            None => fault(FaultKind::OutOfBounds, format!("index {i} of global `{}`, which has {} elements", self.name, self.len)),
            Some(at) => {
                fault(FaultKind::OutOfBounds, format!("index {i} of the shared array made at {at}, which has {} elements", self.len))
            }
        }
    }
    #[inline(always)]
    #[track_caller]
    pub(crate) fn regroup(self, address: usize, by: usize) -> Extent {
        if !address.is_multiple_of(16) {
            fault(FaultKind::OutOfBounds, format!("16-byte view of `{}` at an address that is no multiple of 16", self.name));
        }
        Extent { len: self.len / by, ..self }
    }
}

#[inline(always)]
pub(crate) fn shared_base() -> u32 {
    0
}
#[track_caller]
pub(crate) fn shared_extent(_at: u32, len: usize, end: u32) -> Extent {
    let have = current().shared_bytes;
    if end > have {
        fault(FaultKind::SharedLimit, format!("shared arrays need {end} bytes, the launch gave {have}"));
    }
    Extent { len, name: "shared", made: Some(Location::caller()), slot: u32::MAX }
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
    std::sync::atomic::fence(std::sync::atomic::Ordering::AcqRel)
}
// Launches of one stream follow each other on the host: nothing to wait for.
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
