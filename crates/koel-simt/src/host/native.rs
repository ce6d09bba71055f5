//! Kernels at the speed of ordinary Rust.
use super::Place;
use super::launch::{KernelBody, KernelSpec};
use crate::Thread;
use std::ops::Range;

/// Runs some blocks of a grid on this OS thread, each thread to its end before the next begins. Call it from several OS
/// threads with ranges that together make up the grid: global accesses are atomic.
///
/// The order of the threads is that of their indices; a kernel whose answer depends on it is wrong on a GPU.
///
/// # Panics
/// If the kernel is not marked `independent`: its threads wait for each other, or share memory.
///
/// # Safety
/// The arguments captured by `body` must be alive. Indices are checked.
pub unsafe fn run_native(spec: &KernelSpec, blocks: Range<u32>, grid: u32, body: KernelBody<'_>) {
    assert!(spec.independent, "kernel `{}` is not marked independent: only the executor can run it", spec.name);
    (body.blocks)(blocks, grid)
}

/// Thread `id` of a block of a grid, for the loops that `#[kernel]` writes.
#[doc(hidden)]
#[inline(always)]
pub fn native_thread(id: u32, block: u32, threads: u32, grid: u32) -> Thread {
    Thread::on_host(id, Place { block, threads, grid })
}
