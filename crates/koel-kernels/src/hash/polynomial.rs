//! Polynomials modulo a large prime.
use super::Constants;

const P: u64 = (1 << 61) - 1;

/// `c0 + c1 k + .. + cD k^D mod 2^61 - 1`, scaled to the slots: (D + 1)-wise independent. Dietzfelbinger and Schellbach
/// (2009) show that linear functions are not enough at high load. The prime is above every key.
#[inline(always)]
pub fn slot<const D: u32>(key: u32, c: Constants, slots: u32) -> u32 {
    let (mut h, mut i) = (0, D + 1);
    while i > 0 {
        i -= 1;
        h = add(mul(h, key), c.word(i) >> 3);
    }
    // h / P is uniform in 0..1.
    ((h as u128 * slots as u128) >> 61) as u32
}
/// `a k mod P`, for a <= P.
#[inline(always)]
fn mul(a: u64, k: u32) -> u64 {
    let product = a as u128 * k as u128;
    add((product >> 61) as u64, product as u64 & P)
}
/// `a + b mod P`, for a, b <= P.
#[inline(always)]
fn add(a: u64, b: u64) -> u64 {
    let s = a.wrapping_add(b);
    if s >= P { s.wrapping_sub(P) } else { s }
}
