//! Which bin a key belongs to.
use crate::hash::{mix::mix, mulhi};

/// What a bin is taken from: the key itself or its mix.
pub trait Source {
    /// What is stored in place of the key: a bijection of it.
    fn stored(key: u32) -> u32;
}
/// The key's own bits.
pub struct Bits;
impl Source for Bits {
    #[inline(always)]
    fn stored(key: u32) -> u32 {
        key
    }
}
/// The key, [mixed](mix).
pub struct Hash;
impl Source for Hash {
    #[inline(always)]
    fn stored(key: u32) -> u32 {
        mix(key)
    }
}

/// The bin of a stored key: its bits below the `drop` highest, as a fraction of their range, times
/// the number of bins.
#[inline(always)]
pub fn bin_of(stored: u32, drop: u32, bins: u32) -> u32 {
    mulhi(stored << (drop & 31), bins)
}
