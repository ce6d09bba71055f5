//! Device code of koel-spatial: one source for PTX and for the host.
//!
//! Every kernel here becomes an entry of one of the [`images`] (`cargo xtask ptx`), and also runs
//! on the host. A folder of koel-spatial launches what the module of the same name here computes.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(clippy::too_many_arguments, reason = "a kernel takes what it needs one by one")]

#[cfg(not(target_arch = "nvptx64"))]
pub mod entries;
#[cfg(not(target_arch = "nvptx64"))]
pub mod images;
pub mod intersect;
pub mod search;
