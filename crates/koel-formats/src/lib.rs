//! Strict, streaming readers of files of numbers: records of CSV files, and headers of NumPy
//! arrays.

pub mod csv;
pub mod npy;

/// Runs the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
