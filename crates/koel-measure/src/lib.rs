//! What programs that measure hash tables share: repeated runs ([`repeat`]), distinct keys
//! ([`NumberedKey`], [`Permutation`]), and [arrangements](Arrangement) of equal keys.
//!
//! The limits of a machine are in [`koel::limits`].
mod arrangement;
mod keys;
mod numbers;
mod times;

pub use arrangement::Arrangement;
pub use keys::{NumberedKey, Permutation, Random, keys, random_word, unit};
pub use numbers::{decimals, digits, size};
pub use times::{RUNS, Times, WARM_UP, on_clock, on_stream, repeat, seconds_of};

/// Runs the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
