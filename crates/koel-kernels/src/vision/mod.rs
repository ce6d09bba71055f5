//! Matching of oriented edge points.
//!
//! In the order in which data meets them: [`edges`] finds them in an image, [`spread`] chooses some
//! evenly, [`maps`] tells what a scene's edges say of every pixel, [`vote`] makes hypotheses from
//! pairs, [`refine`] brings them closer. [`corners`] are other features.
//!
//! Angles are [`u32`] fractions of a turn (2^32 to the turn, counter-clockwise in x right, y down),
//! so that differences wrap by themselves. Arrays of floats travel as bits. Everything is basic
//! arithmetic in a fixed order: the same bits on every device.
pub mod corners;
pub mod direction;
pub mod edges;
pub mod maps;
pub mod refine;
pub mod spread;
pub mod vote;

use koel_simt::In;

/// The size of an image: a kernel argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Size {
    /// Pixels a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// Edges, as [`edges::vision_edges()`] leaves them: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct EdgesIn {
    /// Of each x, y and the normal's x, y: floats.
    pub places: In<u32>,
    /// Of each its direction, strength, contrast (floats) and the number of its pixel.
    pub traits: In<u32>,
    /// How many there are.
    pub count: u32,
}

/// A scene in which the nearest edge of a direction is looked up: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SceneIn {
    /// Of each edge x, y and the normal's x, y: floats.
    pub edges: In<u32>,
    /// Of each pixel its edge.
    pub index: In<u32>,
    /// Class by class, row by row, a number of `offsets`, to the nearest edge pixel, in the order
    /// of distance; [`refine::FAR`] if there is none.
    pub nearest: In<u8>,
    /// x and y, as signed 16-bit halves.
    pub offsets: In<u32>,
    /// The size of the image.
    pub size: Size,
}

/// Edges are kept apart in this many classes of direction.
pub const CLASSES: u32 = 16;

/// The class of a direction: the nearest multiple of 1/16 of a turn.
#[inline(always)]
pub fn class(direction: u32) -> u32 {
    direction.wrapping_add(1 << 27) >> 28
}

/// The same number, at least 1: a divisor of which the compiler knows that it is not 0.
#[inline(always)]
fn at_least_one(n: u32) -> u32 {
    if n == 0 { 1 } else { n }
}
