//! Linear functions modulo a prime, as the papers draw them.
use super::{Constants, Source, modulo::remainder, mulhi};

/// Draws `a` from 1 to P - 1, and `b` below P.
#[inline(always)]
pub(super) fn constants<const P: u64>(s: Source) -> Constants {
    let (a, b) = (1 + mulhi(s.word32(0), P as u32 - 1), mulhi(s.word32(1), P as u32));
    [a as u64, b as u64, 0, 0, 0]
}
/// Returns `((a k + b) mod P) mod slots`, computed exactly. 2-wise independent for keys below P
/// (Carter and Wegman 1979). The papers use primes below 2^32, so larger keys share all slots with
/// smaller ones.
#[inline(always)]
pub(super) fn slot<const P: u64>(key: u32, c: &Constants, slots: u32) -> u32 {
    // a, b < P < 2^32: no overflow.
    let h = c[0].wrapping_mul(key as u64).wrapping_add(c[1]) % P;
    remainder(h as u32, slots)
}
