//! Errors of the neighbour search.

use thiserror::Error;

use crate::vector::axis_name;

/// Reason why points cannot be hashed or a query cannot be answered.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SearchError {
    /// Device error: out of memory, mismatched lengths, or buffers of another device.
    #[error(transparent)]
    Device(#[from] koel::Error),
    /// A coordinate is NaN or infinite.
    #[error("{what} {index}: {axis} is {value}, expected a finite number",
        axis = axis_name(*.axis))]
    NotFinite {
        /// "point" or "query".
        what: &'static str,
        /// Index of the point or query.
        index: usize,
        /// 0, 1, 2 for x, y, z.
        axis: usize,
        /// The coordinate.
        value: f32,
    },
    /// The length of a coordinate buffer is not a multiple of three.
    #[error("{found} coordinates, expected three for each {what}")]
    Coordinates {
        /// "point" or "query".
        what: &'static str,
        /// Number of coordinates given.
        found: usize,
    },
    /// The cell size is not a positive finite number.
    #[error("cell size {found}, expected a positive finite number")]
    CellSize {
        /// Requested size.
        found: f64,
    },
    /// The cells are too small for their numbers to fit.
    #[error(
        "cells of size {size} make a grid of {} x {} x {} around the points, expected at most \
         2^32 - 1 per axis and 2^63 in total",
        cells[0], cells[1], cells[2]
    )]
    TooManyCells {
        /// Requested size.
        size: f64,
        /// Cells along each axis.
        cells: [f64; 3],
    },
    /// The radius is negative, NaN or infinite.
    #[error("radius {found}, expected a finite number, 0 or more")]
    Radius {
        /// Requested radius.
        found: f64,
    },
}
