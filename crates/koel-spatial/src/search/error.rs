//! Why a neighbour search cannot be made.

use thiserror::Error;

use crate::grid::axis_name;

/// Why points cannot be hashed, or a query cannot be answered.
#[derive(Debug, Error)]
pub enum SearchError {
    /// The device refused: out of memory, lengths that differ, buffers of another device.
    #[error(transparent)]
    Device(#[from] koel::Error),
    /// A coordinate is NaN or infinite.
    #[error("{what} {index}: {axis} is {value}, expected a finite number", axis = axis_name(*.axis))]
    NotFinite {
        /// "point" or "query".
        what: &'static str,
        /// Its index.
        index: usize,
        /// 0, 1, 2 for x, y, z.
        axis: usize,
        /// The coordinate.
        value: f32,
    },
    /// A buffer of coordinates does not hold three for each point.
    #[error("{found} coordinates, expected three for each {what}")]
    Coordinates {
        /// "point" or "query".
        what: &'static str,
        /// Coordinates given.
        found: usize,
    },
    /// The cell size is not a positive finite number.
    #[error("cell size {found}, expected a positive finite number")]
    CellSize {
        /// The size asked for.
        found: f64,
    },
    /// The cells are so small that their numbers do not fit.
    #[error(
        "cells of size {size} make a grid of {} x {} x {} around the points, expected at most 2^32 - 1 along an axis \
         and 2^63 in all",
        cells[0], cells[1], cells[2]
    )]
    TooManyCells {
        /// The size asked for.
        size: f64,
        /// Cells along each axis.
        cells: [f64; 3],
    },
    /// The radius is negative, NaN or infinite.
    #[error("radius {found}, expected a finite number, 0 or more")]
    Radius {
        /// The radius asked for.
        found: f64,
    },
}
