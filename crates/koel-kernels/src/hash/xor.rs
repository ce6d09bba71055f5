//! The XOR form of the linear function.
use super::{Constants, Source, modulo::remainder, mulhi};

const P: u64 = 4_294_967_291; // the largest prime below 2^32

/// Draws two words below the prime.
#[inline(always)]
pub(super) fn constants(s: Source) -> Constants {
    [mulhi(s.word32(0), P as u32) as u64, mulhi(s.word32(1), P as u32) as u64, 0, 0, 0]
}
/// Returns `(((a xor k) + b) mod 4294967291) mod slots`. Cheap but weak: keys that differ little
/// get slots that differ little.
#[inline(always)]
pub(super) fn slot(key: u32, c: &Constants, slots: u32) -> u32 {
    remainder(((c[0] ^ key as u64).wrapping_add(c[1]) % P) as u32, slots)
}
