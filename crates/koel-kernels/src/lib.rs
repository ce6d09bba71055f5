//! koel's device code: one source for PTX and for the host.
//!
//! Files stand in the order in which data meets them. Every kernel here becomes an entry of `ptx/sm_75.ptx` and
//! `ptx/sm_90.ptx` (`cargo xtask ptx`), and runs in the host tests.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(clippy::too_many_arguments, reason = "a kernel takes what it needs one by one")]

pub mod bins;
pub mod classic;
pub mod compact;
#[cfg(not(target_arch = "nvptx64"))]
pub mod entries;
pub mod group_reduce;
pub mod groups;
pub mod hash;
pub mod histogram;
pub mod keys128;
pub mod lookback;
pub mod map;
pub mod moved;
pub mod partition;
pub mod probe;
pub mod radix_sort;
pub mod reduce;
pub mod scan;
pub mod set;
pub mod spatial;
pub mod spatial_search;
pub mod vision;
pub mod warp_demo;

/// The kernels as PTX, by compute capability; the newest that the device has is the one to load.
#[cfg(not(target_arch = "nvptx64"))]
pub const PTX: [(u32, &str); 2] = [(90, include_str!("../ptx/sm_90.ptx")), (75, include_str!("../ptx/sm_75.ptx"))];
