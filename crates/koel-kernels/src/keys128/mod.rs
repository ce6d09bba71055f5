//! 128-bit keys: an array of keys, and a map from their 64-bit fingerprints to their rows in it.
//!
//! In the order in which data meets them: [`fingerprint`] reduces 128 bits to 64; the
//! [map](super::map) from fingerprints to row numbers is built; [`build`] verifies that no two keys
//! share a fingerprint; [`find`] looks keys up, and compares what it finds with the key itself;
//! [`update`] changes a table in batches.
pub mod build;
pub mod find;
pub mod fingerprint;
pub mod update;
