//! Sets: the flagship table without values, how its bytes are laid out, and the kernels that build,
//! search and combine sets.
//!
//! In the order in which data meets them: [`partition`] brings the keys of each partition together,
//! in one pass or two; [`build`] [fills] the buckets of each partition, one block a partition, in
//! shared memory; [`settle`] ends a build: it does everything again in device memory if that must
//! be, and writes the header; [`find`] looks keys up, [`export`] gives all keys back, [`update`]
//! and [`few`] put keys in and take keys out. [`combine`] makes distinct keys, unions,
//! intersections and differences of arrays, without a table in device memory. Nothing in between
//! needs the host.
//!
//! Headers, the words that kernels of a build share, and the stash are those of [maps](super::map),
//! a set's keys in the stash being pairs whose values are zero.
//!
//! [fills]: fill
pub mod build;
pub mod combine;
pub mod export;
pub mod few;
pub mod fill;
pub mod find;
pub mod layout;
pub mod partition;
pub mod settle;
pub mod update;
