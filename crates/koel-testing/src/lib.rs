//! What tests, fuzz targets and measurements of several crates share: devices, arrangements of
//! keys, animated glTF files, and attacks on soundness from safe code.
//!
//! The tests of `koel` use this crate, which uses `koel`: unit tests of `koel` must not hand their
//! own types to it.

#[cfg(feature = "koel")]
pub mod arrangements;
pub mod gltf_scenes;
#[cfg(feature = "koel")]
pub mod soundness;
#[cfg(feature = "koel")]
pub mod tables;
