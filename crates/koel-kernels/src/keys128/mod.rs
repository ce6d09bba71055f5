//! Keys of 128 bits: an array of them, and the flagship table from their 64-bit fingerprints to
//! their rows in it.
//!
//! In the order in which data meets them: [`fingerprint`] makes 64 bits of 128; the
//! [map](super::map) of those and of row numbers is built; [`build`] verifies that no two keys
//! share a fingerprint; [`find`] looks keys up, and compares what it finds with the key itself.
pub mod build;
pub mod find;
pub mod fingerprint;
