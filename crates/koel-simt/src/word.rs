//! Element and index types of arrays.
use crate::imp;

/// 16 bytes, moved by one instruction (`LDG.128`, `STS.128`, ...).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(16))]
pub struct U32x4(pub [u32; 4]);
/// 16 bytes, moved by one instruction (`LDG.128`, `STS.128`, ...).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(16))]
pub struct U64x2(pub [u64; 2]);

/// The same 16 bytes as one number; the first word is the low one.
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

/// Element type of arrays: `u8`, `u16`, `u32`, `u64`, `u128`, [`U32x4`] or [`U64x2`]. The last
/// three move 16 bytes at a time; these accesses are not atomic.
pub trait Word: Copy + Default + imp::Mem + 'static {}
impl Word for u8 {}
impl Word for u16 {}
impl Word for u32 {}
impl Word for u64 {}
impl Word for u128 {}
impl Word for U32x4 {}
impl Word for U64x2 {}

/// Type that atomics and warp operations support: `u32` or `u64`.
pub trait Scalar: Word + Eq + imp::Rmw {}
impl Scalar for u32 {}
impl Scalar for u64 {}

/// Index type of arrays. `u32` is the cheapest on a GPU (it becomes `mad.wide.u32`).
pub trait Idx: Copy {
    /// Returns the index as an offset in elements.
    fn idx(self) -> usize;
}
macro_rules! idx { ($($t:ty)*) => { $(
    impl Idx for $t {
        #[inline(always)]
        fn idx(self) -> usize {
            self as usize
        }
    }
)* } }
// `i32` so that a bare literal works; a negative one becomes huge and fails the check.
idx!(u32 u64 usize i32);
