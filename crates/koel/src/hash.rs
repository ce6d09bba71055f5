//! Hashes of keys in host memory.

/// Returns both halves of a product, one over the other: a fast hash of `a` for a random odd `b`.
#[inline(always)]
pub(crate) fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
