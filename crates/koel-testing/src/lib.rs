//! What tests and fuzz targets of several crates share: devices, sets of keys, animated glTF files,
//! and attacks on soundness from safe code.
//!
//! The tests of `koel` use this crate, which uses `koel`: unit tests of `koel` must not hand their
//! own types to it.

pub mod gltf_scenes;
#[cfg(feature = "koel")]
pub mod soundness;
#[cfg(feature = "koel")]
pub mod tables;

#[cfg(feature = "koel")]
pub use koel_measure::Arrangement;
