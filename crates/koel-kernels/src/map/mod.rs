//! The flagship table of 32-bit keys and values: how its bytes are laid out, and the kernels that build and search it.
pub mod layout;
