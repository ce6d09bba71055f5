//! koel's device code: one source for PTX and for the host.
//!
//! Every kernel here becomes an entry of one of the [`images`] (`cargo xtask ptx`), and also runs
//! in the host tests.
//!
//! The feature `executor` compiles all kernels for the test executor.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(clippy::too_many_arguments, reason = "a kernel takes what it needs one by one")]

pub mod bins;
pub mod compact;
#[cfg(not(target_arch = "nvptx64"))]
pub mod entries;
pub mod fold;
pub mod group_reduce;
pub mod groups;
pub mod hash;
pub mod histogram;
#[cfg(not(target_arch = "nvptx64"))]
pub mod images;
pub mod keys128;
pub mod lookback;
pub mod map;
pub mod math;
pub mod packed;
pub mod partition;
pub mod payload;
pub mod probe;
pub mod radix_sort;
pub mod reduce;
pub mod scan;
pub mod set;
pub mod strings;
pub mod table;
pub mod warp_demo;
