//! GPU kernels in Rust: threads, warps, blocks and memory behind one API.
//!
//! The primitives have two implementations:
//! * On `nvptx64`, every call is one or two instructions, and every type has the size of a
//!   register.
//! * On any other target, the same calls run on the host, in one of two ways. The test executor
//!   (feature `executor`) runs every thread of every block as a coroutine and checks what a GPU
//!   does not. [`run_native`] runs kernels whose threads never wait for each other as plain loops,
//!   at the speed of ordinary Rust.
//!
//! A kernel is a plain function `fn k(t: Thread, args...)` marked
//! [`#[kernel(threads = N)]`](kernel). It owns nothing, calls only `#[inline(always)]` functions,
//! and cannot panic. Grids are one-dimensional: hash tables need no more.
//!
//! ```
//! use koel_simt::{Buf, Exec, In, Thread, kernel};
//!
//! #[kernel(threads = 64, shared = 256 * 4)]
//! fn histogram(t: Thread, keys: In<u32>, n: u32, bins: Buf<u32>) {
//!     let count = t.shared().array::<u32>(256);
//!     for j in 0..4 {
//!         count.store(t.id() + j * 64, 0);
//!     }
//!     t.barrier();
//!     let mut i = t.global_id();
//!     while i < n {
//!         count.fetch_add(keys.get_stream(i) & 255, 1);
//!         i += t.grid_dim() * t.block_dim();
//!     }
//!     t.barrier();
//!     for j in 0..4 {
//!         bins.fetch_add(t.id() + j * 64, count.load(t.id() + j * 64));
//!     }
//! }
//!
//! fn main() -> Result<(), koel_simt::Fault> {
//!     let keys = (0..1000).collect::<Vec<u32>>();
//!     let mut bins = vec![0; 256];
//!     // SAFETY: the kernel reads `keys[..1000]` and updates `bins[..256]`.
//!     unsafe { histogram::launch(&Exec::new(1), 3, In::new(&keys), 1000, Buf::new(&mut bins)) }?;
//!     assert_eq!(bins[0], 4);
//!     Ok(())
//! }
//! ```
//!
//! # What the executor checks
//! A [`Fault`] names the kernel, the block, the thread, the line and the numbers involved. Each
//! kind has a test in `tests/faults.rs`. The executor finds:
//!
//! * **An index past the end of a global or shared array**: checked at every access; in native mode
//!   too, where it panics.
//! * **A race in shared memory**: each word records which threads accessed it, and how, since the
//!   last barrier. Arrays of `u8` are tracked per byte; halves count as their word. `warp().sync()`
//!   of the whole warp orders that warp; shuffles and votes do not.
//! * **A race in global memory inside a block**: tracked in the same way.
//! * **A race in global memory between blocks**: each word records the first two blocks that
//!   accessed it, and how.
//! * **A write to memory that the launch also reads through an `In`**: arrays that share memory
//!   share a detector.
//! * **Divergence**, a barrier or warp operation that some threads do not reach, or reach at
//!   another line: found when no thread can run. The fault lists how many threads wait where.
//! * **Warp misuse**, a mask without its caller or with lanes that do not exist, or a shuffle from
//!   such a lane: found when the lanes meet.
//! * **A read of shared memory before it was written, or more shared memory than the launch
//!   provided**: tracked per byte. Shared memory starts as garbage.
//! * **An endless loop around memory accesses, barriers or warp operations**: see
//!   [`Exec::patience`].
//! * **Lost updates and other dependence on the schedule**: threads are preempted before one memory
//!   access in 16, each worker interleaves blocks, and workers run in parallel. Try several seeds.
//!
//! Atomics, `load_relaxed`, `load_acquire`, `store_relaxed`, `store_release` and the `volatile`
//! accesses of shared memory never race with each other. Plain data may pass from one block to
//! another if the writer follows it with `store_release`, or with `fence` and then any atomic, and
//! the reader observes that with `load_acquire`, or with any atomic and then `fence`. All other
//! communication between the blocks of a launch needs relaxed accesses.
//!
//! # What it cannot show
//! * Reordering. Host atomics are stronger than GPU atomics. A relaxed store that should be a
//!   release works here unless plain data depends on it, which is then reported as a race. On x86,
//!   two relaxed stores never appear reordered.
//! * Orderings that release and acquire do not give. An acquire counts as seeing every earlier
//!   release to its address, and from then on everything those blocks do counts as ordered before
//!   it. Such races are missed; every reported race is real. Inside a block, an acquire of the
//!   block's own release counts as a barrier.
//! * In a word that two blocks accessed: races inside one of them, and races with a third block
//!   that conflicts with neither of the first two. In a word that several warps accessed since the
//!   last barrier: races inside one warp.
//! * A partial `lanes(mask).sync()` orders nothing for the race detector: plain data that it guards
//!   is reported.
//! * The same shared bytes accessed through arrays of `u8` and of wider elements are not checked
//!   against each other.
//! * A loop that accesses no memory and waits for nothing cannot be interrupted: it hangs.
//! * The GPU's scheduling. Here every resident thread eventually makes progress, in divergent code
//!   too. Blocks become resident in shuffled order, [`Exec::resident`] per worker, so blocks that
//!   wait for other blocks without having drawn tickets are reported as an endless loop.
//! * Programmatic dependent launch: kernels run in order, so a missing `wait_for_previous` goes
//!   unnoticed. The same holds for caches, streaming hints, bank conflicts, registers, and the 48
//!   KB limit without opt-in. `cargo xtask sass` shows some of these.
//! * The driver's compiler. `compute-sanitizer` on a GPU checks its output; the executor checks the
//!   source.
//!
//! Run the tests both with and without `--release`: rustc merges the two arms of a branch that make
//! the same barrier call, so only unoptimised kernels show that fault.
//! `cargo +nightly miri test -p koel-simt --test native` checks the accesses of native mode against
//! Rust's rules; Miri cannot run the executor, whose coroutines are assembly.
//! `cargo run --release -p koel-simt --example overhead` measures the cost of the checks: 20 to 35
//! ns per access on one worker, 15 us per launch of 256 threads.
//!
//! # The device side
//! `cargo xtask ptx` checks its four rules: whatever waits for other threads is an LLVM intrinsic,
//! memory accesses are inline PTX, everything is inlined, and nothing can panic.
#![cfg_attr(target_arch = "nvptx64", no_std)]
// All unstable features: inline PTX, and the `convergent` LLVM intrinsics (see ptx.rs).
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch, link_llvm_intrinsics))]
#![cfg_attr(
    target_arch = "nvptx64",
    allow(internal_features, reason = "link_llvm_intrinsics: see ptx.rs")
)]

pub mod block;
mod global;
mod shared;
mod thread;
mod word;

#[cfg(not(target_arch = "nvptx64"))]
pub mod host;
#[cfg(not(target_arch = "nvptx64"))]
use host as imp;
#[cfg(target_arch = "nvptx64")]
mod ptx;
#[cfg(target_arch = "nvptx64")]
use ptx as imp;

pub use global::{Buf, In};
#[cfg(not(target_arch = "nvptx64"))]
pub use host::{
    Arg, Backend, Code, CodeKind, Fault, FaultKind, Image, ImageError, KernelBody, KernelSpec,
    Params, run_native,
};
#[cfg(all(feature = "executor", not(target_arch = "nvptx64")))]
pub use host::{ArrayArg, Exec, KeptBody, Stats};
pub use koel_simt_macros::{Arg, kernel};
#[cfg(target_arch = "nvptx64")]
pub use ptx::Arg;
pub use shared::{Shared, SharedMem};
pub use thread::{Strided, Thread, Warp};
pub use word::{Idx, Scalar, U32x4, U64x2, Word};

/// Maximum shared memory per block on any GPU, in bytes: that of compute capability 9.0.
pub const MAX_SHARED: u32 = 227 * 1024;

/// Kind of an access, for the race detectors. `AtomicRead` is a relaxed, acquire or volatile read,
/// which may meet atomics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(target_arch = "nvptx64", allow(dead_code, reason = "nothing is checked there"))]
pub(crate) enum Access {
    Read,
    Write,
    AtomicRead,
    Atomic,
}

/// Returns the high word of `a * b`; one instruction on a GPU.
///
/// Use this in kernels instead of `(a as u64 * b as u64) >> 32`. If a factor is widened outside a
/// loop, LLVM does not see inside the loop that both have 32 bits, and emits a 64-bit
/// multiplication. Worse, the ptxas of CUDA 13.0 and the driver of an H200 rewrote
/// `((h * p) >> 32) * b`, where `p` and `b` are launch arguments, as `h * ((p * b) >> 32)`, which
/// is a different number. `cargo xtask ptx` rejects such products.
#[inline(always)]
pub fn mul_hi(a: u32, b: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    return imp::mul_hi(a, b);
    #[cfg(not(target_arch = "nvptx64"))]
    return ((a as u64 * b as u64) >> 32) as u32;
}

/// Calls `f(0); f(1); .. f(N - 1)`, fully unrolled, for N up to 32.
///
/// Use it where a per-thread array must live in registers: LLVM's own unrolling stops at a size
/// limit, and one loop left rolled puts the array into local memory.
#[inline(always)]
pub fn unroll<const N: usize>(mut f: impl FnMut(usize)) {
    const { assert!(N <= 32) };
    // The host has no registers to save, and unrolled calls would only add compile time.
    #[cfg(not(target_arch = "nvptx64"))]
    for i in 0..N {
        f(i);
    }
    #[cfg(target_arch = "nvptx64")]
    macro_rules! calls { ($($i:literal)*) => { $(if const { N > $i } { f($i) })* } }
    #[cfg(target_arch = "nvptx64")]
    calls!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
}
