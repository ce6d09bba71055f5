//! Experiments with cuckoo hashing on the host: what theory predicts ([`theory`]), what random
//! choices allow ([`matching`]), what insertion reaches ([`insertion`]), how the linear algebra of
//! the proof looks in numbers ([`rank`]), and how often builds begin again ([`failures`]).
//!
//! Everything follows from a seed and is sequential inside; only whole runs go on at the same time.
//! The tables themselves are in `koel::classic`; here their schemes are written down once more in
//! the plainest way, so that one can count.
pub mod choices;
pub mod failures;
pub mod insertion;
pub mod keys;
pub mod matching;
pub mod rank;
pub mod sweep;
pub mod theory;

pub use choices::Choices;
pub use insertion::{Insertion, Method, Table};

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
