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
