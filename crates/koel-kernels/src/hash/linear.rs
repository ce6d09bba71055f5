//! Linear functions modulo a prime, as the papers draw them.
use super::{Constants, modulo::remainder};

/// `((a k + b) mod P) mod slots`, computed exactly. 2-wise independent for keys below P (Carter and Wegman 1979); the
/// papers use primes below 2^32, so larger keys share all slots with smaller ones.
#[inline(always)]
pub fn slot<const P: u64>(key: u32, c: Constants, slots: u32) -> u32 {
    // 1 <= a < P and b < P < 2^32: no overflow.
    let (a, b) = (1 + c.word(0) % (P - 1), c.word(1) % P);
    let h = a.wrapping_mul(key as u64).wrapping_add(b) % P;
    remainder(h as u32, slots)
}
