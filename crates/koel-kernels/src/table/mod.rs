//! What tables of all kinds share: maps, sets, and the tables made of them.
//!
//! [`layout`] defines the bytes of a table; the [`header`] and the [`stash`] are stored beside
//! them. Builds: [`bins`] is what passes write and builds read, [`state`] what build kernels count,
//! and [`ending`] how builds end. Lookups: [`answers`] and [`append`] write results. Updates and
//! lookups in any order: [`sending`] brings operations and queries to their partitions, [`update`]
//! defines operations and their outcomes, and [`sparse`] applies them in the buckets of their keys.
pub mod answers;
pub mod append;
pub mod bins;
pub mod ending;
pub mod header;
pub mod layout;
pub mod sending;
pub mod sparse;
pub mod stash;
pub mod state;
pub mod update;
