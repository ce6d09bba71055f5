//! Bijective mixing with random constants.
use super::{Constants, mulhi};

/// Xor with a random word, multiply by a random odd word, fold, multiply, fold, multiply: a bijection of the 32-bit words,
/// then the high word of the product with the number of slots. Different keys have different hashes in every function.
#[inline(always)]
pub fn slot(key: u32, c: Constants, slots: u32) -> u32 {
    let mut h = (key ^ c.word32(0)).wrapping_mul(c.word32(1) | 1);
    h ^= h >> 15;
    h = h.wrapping_mul(0x2C1B_3C6D);
    h ^= h >> 13;
    h = h.wrapping_mul(0x297A_2D39);
    mulhi(h, slots)
}
