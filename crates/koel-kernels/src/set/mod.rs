//! Sets: koel's main table without values. Defines the layout of its bytes, and the kernels that
//! build, search and combine sets.
//!
//! In the order in which data meets them: [`partition`] brings the keys of each partition together
//! in one pass or two; [`build`] [fills] the buckets of each partition in shared memory, one block
//! per partition; [`finalize`] ends a build, repeats it in device memory if it failed, and writes
//! the header; [`find`] looks keys up, [`export`] returns all keys, [`update`] and [`sparse`]
//! insert and erase keys. [`combine`] computes distinct keys, unions, intersections and differences
//! of arrays without a table in device memory. None of these needs the host in between.
//!
//! Headers, the words that build kernels share, and the stash are those of [maps](super::map). The
//! stash holds a set's keys as pairs whose values are zero.
//!
//! [fills]: fill
pub mod build;
pub mod combine;
pub mod export;
pub mod fill;
pub mod finalize;
pub mod find;
pub mod layout;
pub mod partition;
pub mod sparse;
pub mod update;
