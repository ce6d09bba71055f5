//! Bijective mixing with random constants.
use super::{Constants, Source, mulhi};

/// Draws a random word and a random odd word.
#[inline(always)]
pub(super) fn constants(s: Source) -> Constants {
    [s.word32(0) as u64, (s.word32(1) | 1) as u64, 0, 0, 0]
}
/// Xors the key with the word, multiplies by the odd word, folds, multiplies, folds and multiplies,
/// which is a bijection of 32-bit words; then returns the high word of the product with the number
/// of slots. Different keys have different hashes in every function.
#[inline(always)]
pub(super) fn slot(key: u32, c: &Constants, slots: u32) -> u32 {
    let mut h = (key ^ c[0] as u32).wrapping_mul(c[1] as u32);
    h ^= h >> 15;
    h = h.wrapping_mul(0x2C1B_3C6D);
    h ^= h >> 13;
    h = h.wrapping_mul(0x297A_2D39);
    mulhi(h, slots)
}
