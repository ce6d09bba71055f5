//! Which bin a key belongs to.
use crate::hash::{mix::mix, mulhi};

/// What a bin is taken from: the key itself or its mix.
pub trait Source: 'static {
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

/// How stored keys are divided into bins: a kernel's argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Binning {
    /// How many bins there are.
    pub bins: u32,
    /// The highest bits of a stored key that do not count.
    pub drop: u32,
}
impl Binning {
    /// The bin of a stored key: the bits that count, as a fraction of their range, times the number
    /// of bins.
    #[inline(always)]
    pub fn bin_of(self, stored: u32) -> u32 {
        mulhi(stored << (self.drop & 31), self.bins)
    }
}
