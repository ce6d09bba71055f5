//! Why clouds cannot be intersected.

use super::{MAX_POINTS, Side};
use koel_spatial_kernels::intersect::layout::MAX_BITS;
use thiserror::Error;

/// Reason why clouds cannot be intersected.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IntersectError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] koel::Error),
    /// A cloud has no normals.
    #[error("cloud {cloud} has no normals: estimate them first")]
    NoNormals {
        /// Cloud without normals.
        cloud: Side,
    },
    /// A cloud has no points.
    #[error("cloud {cloud} has no points")]
    Empty {
        /// Cloud without points.
        cloud: Side,
    },
    /// The number of normals differs from the number of points.
    #[error("cloud {cloud} has {points} points but {normals} normals")]
    NormalCount {
        /// Cloud at fault.
        cloud: Side,
        /// Number of its points.
        points: usize,
        /// Number of its normals.
        normals: usize,
    },
    /// A cloud has too many points.
    #[error("cloud {cloud} has {points} points, expected at most {MAX_POINTS}")]
    TooManyPoints {
        /// Cloud at fault.
        cloud: Side,
        /// Number of its points.
        points: usize,
    },
    /// New points are more than there is room for.
    #[error(
        "cloud {cloud} has room for {room} points, not for {points}: reserve it with \
         Intersector::with_room"
    )]
    NoRoom {
        /// Cloud at fault.
        cloud: Side,
        /// Number of new points.
        points: usize,
        /// Maximum number of points.
        room: usize,
    },
    /// New positions or normals are not three coordinates for each point.
    #[error("the new points of cloud {cloud} have {words} coordinates, expected a multiple of 3")]
    NotTriples {
        /// Cloud at fault.
        cloud: Side,
        /// Number of coordinates.
        words: usize,
    },
    /// The grid is finer than 32-bit keys can represent.
    #[error("a grid of {resolution} voxels per side was requested, expected 1 to {}",
        1u32 << MAX_BITS)]
    Resolution {
        /// Requested voxels per side.
        resolution: u32,
    },
    /// A pose is not a rigid motion.
    #[error(
        "the pose of cloud {cloud} is not a rigid motion: row {row} of the rotation times row \
         {other} is {product}, expected {expected}"
    )]
    NotRigid {
        /// Cloud at fault.
        cloud: Side,
        /// Row of the rotation.
        row: usize,
        /// Other row, or the same.
        other: usize,
        /// Scalar product of the rows.
        product: f64,
        /// Expected product, 0 or 1.
        expected: f64,
    },
    /// The angle thresholds are out of order.
    #[error(
        "seeds inside above {inside_above} and outside below {outside_below} degrees: \
         expected 180 >= inside >= 90 >= outside >= 0"
    )]
    Angles {
        /// Minimum angle for inside.
        inside_above: f64,
        /// Maximum angle for outside.
        outside_below: f64,
    },
    /// A Boolean of an open surface was requested; an open surface has no inside.
    #[error("cloud {cloud} is open (closedness {closedness:.3}): it does not bound a solid")]
    Open {
        /// Cloud with the open surface.
        cloud: Side,
        /// |sum of area x normal| / area.
        closedness: f64,
    },
    /// Booleans and areas need winding numbers.
    #[error("{what} are available only with method robust")]
    NeedsRobust {
        /// Requested result.
        what: &'static str,
    },
}
