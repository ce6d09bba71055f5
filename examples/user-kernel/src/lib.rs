//! A custom kernel that looks keys up in a koel map: for each voxel, the sum of its neighbours'
//! values.
//!
//! The steps from the source to the launch:
//! 1. `kernels.rs` contains the kernel, an ordinary Rust function. Host and GPU compile the same
//!    source.
//! 2. `cargo xtask ptx --crate examples/user-kernel` (in koel's repository) compiles it to `ptx/`,
//!    which is committed; `--check` fails when source and PTX disagree. Building this crate does
//!    not need CUDA.
//! 3. [`load`] loads the PTX onto a device, once. [`sum_neighbours`] launches the kernel on a
//!    stream.
//! 4. The test runs the kernel on the CPU, on koel's executor, which runs every GPU thread and
//!    finds races and accesses out of bounds, and on a GPU if there is one.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

pub mod kernels;

#[cfg(not(target_arch = "nvptx64"))]
mod host;
#[cfg(not(target_arch = "nvptx64"))]
pub use host::{PTX, load, sum_neighbours};
