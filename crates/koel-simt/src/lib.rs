//! What a GPU kernel may ask of its thread, warp, block and memory.
//!
//! One API, two implementations of its primitives:
//! * on `nvptx64` every call is one or two instructions, and every type has the size of a register;
//! * anywhere else the same calls run on the host, in one of two ways: the test executor runs every
//!   thread of every block as a coroutine and checks what a GPU does not (feature `executor`), and
//!   [`run_native`] runs kernels whose threads never wait for each other as plain loops, at the
//!   speed of ordinary Rust.
//!
//! A kernel is a plain function `fn k(t: Thread, args...)` marked [`#[kernel(threads =
//! N)]`](kernel). It owns nothing, calls nothing that is not `#[inline(always)]`, and cannot panic.
//! Grids have one dimension: hash tables need no more.
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
//! A [`Fault`] names the kernel, the block, the thread, the line and the numbers. Each kind has a
//! test in `tests/faults.rs`.
//!
//! | fault | how it is found |
//! |---|---|
//! | index past the end of a global or shared array | every access; in native mode too, as a panic |
//! | race in shared memory | each word (of arrays of `u8`: each byte; halves count as their word) knows who touched it how since the last barrier; `warp().sync()` of the whole warp orders a warp, shuffles and votes do not |
//! | race in global memory inside a block | the same |
//! | race in global memory between blocks | each word knows the first two blocks that touched it, and how |
//! | `In` of which the launch writes a word | arrays that share memory share a detector |
//! | barrier or warp operation that not all reach, or reach at different lines | nobody can go on: says how many wait where |
//! | mask without its caller or with lanes that do not exist, shuffle from such a lane | when the lanes meet |
//! | shared memory read before it was written; more than the launch gave | each byte; memory begins as garbage |
//! | an endless loop around memory accesses, barriers or warp operations | [`Exec::patience`] |
//! | lost updates and whatever else depends on the order | threads are preempted before one memory access in 16, a worker interleaves blocks, workers run at the same time: try several seeds |
//!
//! Atomics, `load_relaxed`, `load_acquire`, `store_relaxed`, `store_release` and the `volatile`
//! accesses of shared memory never race with each other. Plain data may pass from one block to
//! another if the writer says `store_release` after it, or `fence` and then any atomic; and the
//! reader sees that by `load_acquire`, or by any atomic and then `fence`. Everything else between
//! blocks of one launch needs relaxed accesses.
//!
//! # What it cannot show
//! * Reordering. Atomics of the host are stronger than those of the GPU: a relaxed store that
//!   should be a release works here, unless plain data depends on it, which is then reported as a
//!   race. Two relaxed stores are never seen in the other order on x86.
//! * Orders that release and acquire do not give: an acquire counts as seeing every earlier release
//!   to its address, and from then on everything that those blocks do counts as before it. Such
//!   races are missed; what is reported is a race. Inside a block an acquire of what the block
//!   itself released counts as a barrier.
//! * In a word that two blocks touched, races inside one of them, and with a third whose access
//!   neither of the first two conflicts with. In a word that several warps touched since the last
//!   barrier, races inside one warp.
//! * A partial `lanes(mask).sync()` orders nothing for the race detector: if the data it guards is
//!   plain, that is reported.
//! * The same shared bytes through arrays of `u8` and of wider elements are not checked against
//!   each other.
//! * A loop that touches no memory and waits for nothing cannot be interrupted: it hangs.
//! * The GPU's scheduling. Here every resident thread goes on sooner or later, also in divergent
//!   code. Blocks become resident in shuffled order, [`Exec::resident`] a worker, so that blocks
//!   that wait for others without having drawn tickets end as an endless loop.
//! * Programmatic dependent launch: kernels follow each other, so that a missing
//!   `wait_for_previous` goes unseen. Caches, streaming hints, bank conflicts, registers, the 48 KB
//!   limit without opt-in. `cargo xtask sass` shows some of these.
//! * `compute-sanitizer` on a GPU sees what the driver's compiler did; the executor sees the
//!   source.
//!
//! Run the tests both with and without `--release`: rustc joins two arms of a branch that are the
//! same barrier call, so that only unoptimised kernels show that fault. `cargo +nightly miri test
//! -p koel-simt --test native` holds the accesses of native mode to Rust's own rules (the
//! executor's coroutines are assembly, which Miri cannot run). `cargo run --release -p koel-simt
//! --example overhead` tells what the checks cost: some 20 to 35 ns an access of one worker, 15 us
//! a launch of 256 threads.
//!
//! # The device side
//! It has four rules, which `cargo xtask ptx` checks: what waits for other threads is an LLVM
//! intrinsic, what touches memory is inline PTX, everything is inlined, and nothing can panic.
#![cfg_attr(target_arch = "nvptx64", no_std)]
// The whole unstable surface: inline PTX, and the `convergent` LLVM intrinsics (see ptx.rs).
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
    Arg, Backend, Code, CodeKind, DeviceArg, Fault, FaultKind, Image, ImageError, KernelBody,
    KernelSpec, run_native,
};
#[cfg(all(feature = "executor", not(target_arch = "nvptx64")))]
pub use host::{ArrayArg, Exec, KeptBody, Stats};
pub use koel_simt_macros::{Arg, kernel};
#[cfg(target_arch = "nvptx64")]
pub use ptx::Arg;
pub use shared::{Shared, SharedMem};
pub use thread::{Thread, Warp};
pub use word::{Idx, Scalar, U32x4, U64x2, Word};

/// The most shared memory that one block may ask for on any GPU: compute capability 9.0, in bytes.
pub const MAX_SHARED: u32 = 227 * 1024;

/// What an access is, for the race detectors. `AtomicRead`: relaxed, acquire or volatile, meant to
/// meet atomics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(target_arch = "nvptx64", allow(dead_code, reason = "nothing is checked there"))]
pub(crate) enum Access {
    Read,
    Write,
    AtomicRead,
    Atomic,
}

/// The high word of `a * b`: one instruction of a GPU.
///
/// In kernels write this and not `(a as u64 * b as u64) >> 32`. Where a factor is widened outside
/// of a loop, LLVM does not see in the loop that both have 32 bits, and multiplies 64; and from
/// `((h * p) >> 32) * b`, with `p` and `b` that are launch arguments, the ptxas of CUDA 13.0 and a
/// driver of an H200 made `h * ((p * b) >> 32)`, which is another number. `cargo xtask ptx` refuses
/// such products.
#[inline(always)]
pub fn mul_hi(a: u32, b: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    return imp::mul_hi(a, b);
    #[cfg(not(target_arch = "nvptx64"))]
    return ((a as u64 * b as u64) >> 32) as u32;
}

/// `f(0); f(1); .. f(N - 1)`, written out, for N up to 32.
///
/// Use it where a per-thread array must live in registers: LLVM's own unrolling stops at a size
/// limit, and one loop left rolled puts the array into local memory.
#[inline(always)]
pub fn unroll<const N: usize>(mut f: impl FnMut(usize)) {
    const { assert!(N <= 32) };
    // The host has no registers to save, and each written-out call would be compiled.
    #[cfg(not(target_arch = "nvptx64"))]
    for i in 0..N {
        f(i);
    }
    #[cfg(target_arch = "nvptx64")]
    macro_rules! calls { ($($i:literal)*) => { $(if const { N > $i } { f($i) })* } }
    #[cfg(target_arch = "nvptx64")]
    calls!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
}
