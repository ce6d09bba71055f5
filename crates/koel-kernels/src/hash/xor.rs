//! The XOR form.
use super::{Constants, modulo::remainder};

const P: u64 = 4_294_967_291; // the largest prime below 2^32

/// `(((a xor k) + b) mod 4294967291) mod slots`: cheap, and weak: keys that differ little get slots that differ little.
#[inline(always)]
pub fn slot(key: u32, c: Constants, slots: u32) -> u32 {
    let (a, b) = (c.word(0) % P, c.word(1) % P);
    remainder(((a ^ key as u64).wrapping_add(b) % P) as u32, slots)
}
