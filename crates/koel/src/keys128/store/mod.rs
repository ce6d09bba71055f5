//! Tables in rows, as maps and sets of keys of more than 64 bits ask for them.
mod host;
mod join;
mod map;
mod set;

use crate::file::stored::Stored;
use crate::rows::update::RowsUpdater;

/// Updates maps and sets with keys in rows.
pub struct KeysUpdater(RowsUpdater<Stored<u128>>);
