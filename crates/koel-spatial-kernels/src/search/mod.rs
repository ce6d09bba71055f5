//! Neighbour search in a hashed voxel grid.
//!
//! In the order of the data flow: [`cells`] gives every point the key of its cell in a
//! [`Grid`](table::Grid), and turns the sorted points, as [`CellsIn`](cells::CellsIn), into a table
//! of occupied cells, [`CellsOut`](cells::CellsOut), from which a map is built. [`table`] reads all
//! of it as [`Cells`](table::Cells) and finds the points of a row of cells. [`within`] and
//! [`nearest`] use it to answer queries, one thread per query.
pub mod cells;
pub mod nearest;
pub mod table;
pub mod within;
