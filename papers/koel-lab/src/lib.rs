//! Experiments with cuckoo hashing on the host: the thresholds that theory predicts ([`theory`]),
//! the loads that exact matching reaches ([`matching`]) and that insertion reaches ([`insertion`]),
//! the ranks of the matrices in a proof of placement ([`rank`]), the failure rates of builds
//! ([`failures`]), keys that no linear function separates ([`residues`]), rounds of simultaneous
//! claims ([`rounds`]), reads of lookups ([`probes`]), and stashed keys ([`stash`]).
//!
//! Every result follows from a seed. Runs are sequential; only whole runs execute in parallel. The
//! production tables are in `koel_classic`; here their schemes are restated in the simplest form,
//! so that their steps can be counted.
pub mod choices;
pub mod failures;
pub mod insertion;
pub mod keys;
pub mod matching;
pub mod probes;
pub mod rank;
pub mod residues;
pub mod rounds;
pub mod stash;
pub mod sweep;
pub mod table;
pub mod theory;

pub use choices::Choices;
pub use insertion::{Insertion, Method};
pub use table::Table;

/// Tests the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
