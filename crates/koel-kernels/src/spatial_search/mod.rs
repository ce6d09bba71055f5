//! Neighbour search in a hashed voxel grid.
//!
//! In the order in which data meets them: [`cells`] gives every point the key of its cell, and
//! turns the sorted points into a table of occupied cells; [`table`] finds the points of a row of
//! cells; [`within`] and [`nearest`] answer queries with it, one thread a query.
pub mod cells;
pub mod nearest;
pub mod table;
pub mod within;
