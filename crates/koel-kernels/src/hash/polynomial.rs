//! Polynomials modulo a large prime.
use super::{Constants, Source};

const P: u64 = (1 << 61) - 1;

/// Draws coefficients up to degree D; the others are zero.
#[inline(always)]
pub(super) fn constants<const D: usize>(s: Source) -> Constants {
    let mut c = [0; 5];
    koel_simt::unroll::<5>(|i| {
        if i <= D {
            c[i] = s.word(i as u32) >> 3;
        }
    });
    c
}
/// Returns `c0 + c1 k + .. + cD k^D mod 2^61 - 1`, scaled to the slots: (D + 1)-wise independent.
/// Dietzfelbinger and Schellbach (2009) show that linear functions do not suffice at high load
/// factors. The prime exceeds every key.
#[inline(always)]
pub(super) fn slot<const D: usize>(key: u32, c: &Constants, slots: u32) -> u32 {
    let mut h = c[D];
    koel_simt::unroll::<4>(|i| {
        if i < D {
            h = add(mul(h, key), c[D - 1 - i]);
        }
    });
    // h / P is uniform in 0..1.
    ((h as u128 * slots as u128) >> 61) as u32
}
/// Returns `a k mod P`, for a <= P.
#[inline(always)]
fn mul(a: u64, k: u32) -> u64 {
    let product = a as u128 * k as u128;
    add((product >> 61) as u64, product as u64 & P)
}
/// Returns `a + b mod P`, for a, b <= P.
#[inline(always)]
fn add(a: u64, b: u64) -> u64 {
    let s = a.wrapping_add(b);
    if s >= P { s.wrapping_sub(P) } else { s }
}
