//! Matching of oriented edge points: hypotheses from pairs, and their refinement.
//!
//! Angles are [`u32`] fractions of a turn (2^32 to the turn, counter-clockwise in x right, y down), so that differences
//! wrap by themselves. Arrays of floats travel as bits. Everything is basic arithmetic in a fixed order: the same bits on
//! every device.
pub mod direction;
pub mod refine;
pub mod vote;

/// Edges are kept apart in this many classes of direction.
pub const CLASSES: u32 = 16;

/// The class of a direction: the nearest multiple of 1/16 of a turn.
#[inline(always)]
pub fn class(direction: u32) -> u32 {
    direction.wrapping_add(1 << 27) >> 28
}
