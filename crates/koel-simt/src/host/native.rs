//! Native execution: kernels at the speed of ordinary Rust.
use super::Place;
use super::launch::{KernelBody, KernelSpec};
use crate::Thread;
use std::cell::Cell;
use std::ops::Range;

/// Runs a range of blocks of a grid on this OS thread, each thread to completion before the next.
/// To run in parallel, call it from several OS threads with ranges that together cover the grid:
/// global accesses are atomic.
///
/// Threads run in index order; a kernel whose result depends on that is wrong on a GPU.
///
/// # Panics
/// Panics if the kernel is not marked `independent`, that is, if its threads wait for each other or
/// use shared memory.
///
/// # Safety
/// Memory that the arguments captured by `body` point to must be valid. Indices are checked.
pub unsafe fn run_native(spec: &KernelSpec, blocks: Range<u32>, grid: u32, body: KernelBody<'_>) {
    match body.blocks {
        Some(run) => run(blocks, grid),
        None => {
            panic!("kernel `{}` is not marked independent: only the executor can run it", spec.name)
        }
    }
}

/// Returns thread `id` of a block of a grid, for the loops that `#[kernel]` generates.
#[doc(hidden)]
#[inline(always)]
pub fn native_thread(id: u32, block: u32, threads: u32, grid: u32) -> Thread {
    Thread::on_host(id, Place { block, threads, grid, last: false })
}

/// Runs the loop of a kernel marked `native_v3`: `v3`, compiled with the x86-64-v3 instructions
/// that count and move bits, if the CPU has them, otherwise `plain`, the same loop.
#[doc(hidden)]
#[inline(always)]
pub fn run_v3(v3: impl FnOnce(), plain: impl FnOnce()) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
    {
        // SAFETY: the CPU supports these features.
        return unsafe { compiled_for_v3(v3) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    drop(v3);
    plain()
}
/// Work of a thread that is worth compiling for vectors.
#[doc(hidden)]
pub trait Work {
    /// Does the work; implementations are always inlined.
    fn run(self);
}
/// Runs `work` with the instructions of x86-64-v3, if the CPU has them. Results are the same.
#[doc(hidden)]
#[inline(always)]
pub fn on_v3(work: impl Work) {
    let work = Cell::new(Some(work));
    // Two closures: each must be inlined to be compiled for its CPU.
    run_v3(
        #[inline(always)]
        || {
            if let Some(work) = work.take() {
                work.run();
            }
        },
        #[inline(always)]
        || {
            if let Some(work) = work.take() {
                work.run();
            }
        },
    );
}
/// Without fused multiply-add, so that sums stay bit-identical.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn compiled_for_v3(work: impl FnOnce()) {
    work()
}
