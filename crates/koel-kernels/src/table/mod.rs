//! What tables of all kinds share, maps and sets: how keys come to the bins of their partitions.
pub mod answers;
pub mod append;
pub mod bins;
pub mod ending;
pub mod header;
pub mod layout;
pub mod sending;
pub mod stash;
pub mod state;
