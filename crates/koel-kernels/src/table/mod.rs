//! What tables of all kinds share: maps, sets, and what is made of them.
//!
//! [`layout`]: how the bytes of a table lie, [`header`] beside them, and the [`stash`]. Builds:
//! [`bins`] are what passes write and builds read, [`state`] what their kernels count, [`ending`]
//! how they end. Lookups: [`answers`] and [`append`] write what is found. Updates and lookups in
//! any order: [`sending`] brings operations and queries to their partitions, [`update`] says what
//! operations do and what becomes of them, [`few`] does them in the buckets of their keys.
pub mod answers;
pub mod append;
pub mod bins;
pub mod ending;
pub mod few;
pub mod header;
pub mod layout;
pub mod sending;
pub mod stash;
pub mod state;
pub mod update;
