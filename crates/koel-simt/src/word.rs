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

/// What memory holds: `u8`, `u32`, `u64`, [`U32x4`], [`U64x2`].
pub trait Word: Copy + imp::Mem + 'static {}
impl Word for u8 {}
impl Word for u32 {}
impl Word for u64 {}
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
