//! Assignment of keys to bins.
use crate::hash::{mix::mix, mulhi};

/// What determines the bin: the key itself or its mix.
pub trait Source: 'static {
    /// Returns what is stored in place of the key: a bijection of it.
    fn stored(key: u32) -> u32;
}
/// Bins by the bits of the key.
pub struct Bits;
impl Source for Bits {
    #[inline(always)]
    fn stored(key: u32) -> u32 {
        key
    }
}
/// Bins by the [mixed](mix) key.
pub struct Hash;
impl Source for Hash {
    #[inline(always)]
    fn stored(key: u32) -> u32 {
        mix(key)
    }
}

/// Division of stored keys into bins: a kernel argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Binning {
    /// Number of bins.
    pub bins: u32,
    /// Number of high bits of a stored key to ignore.
    pub drop: u32,
}
impl Binning {
    /// Returns the bin of a stored key: the remaining bits, as a fraction of their range, times the
    /// number of bins.
    #[inline(always)]
    pub fn bin_of(self, stored: u32) -> u32 {
        mulhi(stored << (self.drop & 31), self.bins)
    }
}
