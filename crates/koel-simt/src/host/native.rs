//! Kernels at the speed of ordinary Rust.
use super::Place;
use super::launch::{KernelBody, KernelSpec};
use crate::Thread;
use std::ops::Range;

/// Runs some blocks of a grid on this OS thread, each thread to its end before the next begins.
/// Call it from several OS threads with ranges that together make up the grid: global accesses are
/// atomic.
///
/// The order of the threads is that of their indices; a kernel whose answer depends on it is wrong
/// on a GPU.
///
/// # Panics
/// If the kernel is not marked `independent`: its threads wait for each other, or share memory.
///
/// # Safety
/// The arguments captured by `body` must be alive. Indices are checked.
pub unsafe fn run_native(spec: &KernelSpec, blocks: Range<u32>, grid: u32, body: KernelBody<'_>) {
    match body.blocks {
        Some(run) => run(blocks, grid),
        None => {
            panic!("kernel `{}` is not marked independent: only the executor can run it", spec.name)
        }
    }
}

/// Thread `id` of a block of a grid, for the loops that `#[kernel]` writes.
#[doc(hidden)]
#[inline(always)]
pub fn native_thread(id: u32, block: u32, threads: u32, grid: u32) -> Thread {
    Thread::on_host(id, Place { block, threads, grid })
}

/// For kernels marked `native_v3`: `v3` with the instructions of x86-64-v3 that count and move
/// bits, where the CPU has them, else `plain`: the same loop.
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
        // SAFETY: the CPU has them.
        return unsafe { compiled_for_v3(v3) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    drop(v3);
    plain()
}
/// No fused operations: sums keep their bits.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn compiled_for_v3(work: impl FnOnce()) {
    work()
}
