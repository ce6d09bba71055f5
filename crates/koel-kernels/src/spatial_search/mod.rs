//! Neighbour search in a hashed voxel grid.
//!
//! In the order in which data meets them: [`cells`] gives every point the key of its cell in a
//! [`Grid`](table::Grid), and turns the sorted points, as [`CellsIn`](cells::CellsIn), into a table
//! of occupied cells, [`CellsOut`](cells::CellsOut); a map is built of that; [`table`] reads all of
//! it as [`Cells`](table::Cells) and finds the points of a row of cells; [`within`] and [`nearest`]
//! answer queries with it, one thread a query.
pub mod cells;
pub mod nearest;
pub mod table;
pub mod within;
