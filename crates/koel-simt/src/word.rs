//! What memory holds, and what indexes it.
use crate::imp;

/// Sixteen bytes, moved by one instruction (`LDG.128`, `STS.128`, ...).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(16))]
pub struct U32x4(pub [u32; 4]);
/// Sixteen bytes, moved by one instruction (`LDG.128`, `STS.128`, ...).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(16))]
pub struct U64x2(pub [u64; 2]);

/// The same sixteen bytes as one number; the first word is the low one.
impl From<U64x2> for u128 {
    #[inline(always)]
    fn from(U64x2([low, high]): U64x2) -> u128 {
        low as u128 | (high as u128) << 64
    }
}
impl From<u128> for U64x2 {
    #[inline(always)]
    fn from(word: u128) -> U64x2 {
        U64x2([word as u64, (word >> 64) as u64])
    }
}

/// What memory holds: `u8`, `u16`, `u32`, `u64`, `u128`, [`U32x4`], [`U64x2`]. The last three move
/// sixteen bytes at a time; no such access is atomic.
pub trait Word: Copy + Default + imp::Mem + 'static {}
impl Word for u8 {}
impl Word for u16 {}
impl Word for u32 {}
impl Word for u64 {}
impl Word for u128 {}
impl Word for U32x4 {}
impl Word for U64x2 {}

/// What atomics and warp operations work on: `u32`, `u64`.
pub trait Scalar: Word + Eq + imp::Rmw {}
impl Scalar for u32 {}
impl Scalar for u64 {}

/// Anything that indexes an array. `u32` is the cheap one on a GPU (it becomes `mad.wide.u32`).
pub trait Idx: Copy {
    /// As an offset in elements.
    fn idx(self) -> usize;
}
macro_rules! idx { ($($t:ty)*) => { $(impl Idx for $t { #[inline(always)] fn idx(self) -> usize { self as usize } })* } }
idx!(u32 u64 usize i32); // i32 so that a bare literal works; a negative one becomes huge and fails the check
