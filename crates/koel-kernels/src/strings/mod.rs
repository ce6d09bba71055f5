//! Keys of any number of bytes: an array of them, and a map from their 64-bit fingerprints to their
//! rows in it.
//!
//! As for [keys of 128 bits](super::keys128): [`fingerprint`] reduces bytes to 64 bits; the
//! [map](super::map) from fingerprints to row numbers is built; [`build`] verifies that no two keys
//! share a fingerprint, and moves the keys that stay together; [`find`] looks keys up, and compares
//! what it finds with the key itself.
pub mod build;
pub mod column;
pub mod find;
pub mod fingerprint;
