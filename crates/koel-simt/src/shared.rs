//! Arrays in a block's shared memory.
use crate::{Idx, Scalar, U32x4, U64x2, Word, imp};
use core::marker::PhantomData;

/// Allocator of the block's shared memory. With constant lengths, every address is a constant.
pub struct SharedMem {
    next: u32, // offset from the base, so that alignment is known at compile time
}
impl SharedMem {
    #[inline(always)]
    pub(crate) fn new() -> SharedMem {
        SharedMem { next: 0 }
    }
    /// Allocates the next `len` elements, uninitialised.
    #[inline(always)]
    #[track_caller]
    pub fn array<T: Word>(&mut self, len: impl Idx) -> Shared<T> {
        let align = align_of::<T>() as u32;
        let at = (self.next + align - 1) & !(align - 1);
        self.next = at + (len.idx() * size_of::<T>()) as u32;
        Shared {
            at: imp::shared_base() + at,
            ext: imp::shared_extent(at, len.idx(), self.next),
            of: PhantomData,
        }
    }
}

/// Array in shared memory: a 32-bit shared-space address, so that every access is `LDS`, `STS` or
/// `ATOMS`.
#[derive(Clone, Copy)]
pub struct Shared<T> {
    at: u32,
    ext: imp::Extent,
    of: PhantomData<*mut T>,
}
impl<T: Word> Shared<T> {
    #[inline(always)]
    #[track_caller]
    fn addr(self, i: impl Idx) -> u32 {
        self.ext.check(i.idx());
        self.at.wrapping_add((i.idx() as u32).wrapping_mul(size_of::<T>() as u32))
    }
    /// Loads element `i`.
    #[inline(always)]
    #[track_caller]
    pub fn load(self, i: impl Idx) -> T {
        // SAFETY: in bounds (checked on the host, promised by the launch on the GPU).
        unsafe { T::lds(self.addr(i)) }
    }
    /// Stores to element `i`.
    #[inline(always)]
    #[track_caller]
    pub fn store(self, i: impl Idx, v: T) {
        // SAFETY: as in `load`.
        unsafe { T::sts(self.addr(i), v) }
    }
    /// Loads element `i`, which others may change concurrently. The access is never merged, moved
    /// or dropped. A vector is not one atomic access: each of its words is.
    #[inline(always)]
    #[track_caller]
    pub fn load_volatile(self, i: impl Idx) -> T {
        // SAFETY: as in `load`.
        unsafe { T::lds_volatile(self.addr(i)) }
    }
    /// Stores to element `i`, which others may read or write concurrently: one of the written
    /// values remains.
    #[inline(always)]
    #[track_caller]
    pub fn store_volatile(self, i: impl Idx, v: T) {
        // SAFETY: as in `load`.
        unsafe { T::sts_volatile(self.addr(i), v) }
    }
}

/// Atomics: relaxed, scope of the block.
impl<T: Scalar> Shared<T> {
    /// Compares and swaps: writes `new` if the element equals `old`. Returns the previous value,
    /// which equals `old` if and only if `new` was written.
    #[inline(always)]
    #[track_caller]
    pub fn cas(self, i: impl Idx, old: T, new: T) -> T {
        // SAFETY: as in `load`.
        unsafe { T::cas_s(self.addr(i), old, new) }
    }
}
macro_rules! shared_rmw { ($($(#[$doc:meta])* $f:ident $op:ident)*) => {
impl<T: Scalar> Shared<T> { $(
    $(#[$doc])*
    #[inline(always)]
    #[track_caller]
    pub fn $f(self, i: impl Idx, v: T) -> T {
        // SAFETY: as in `load`.
        unsafe { T::$op(self.addr(i), v) }
    }
)* } } }
shared_rmw! {
    /// Writes `v`. Returns the previous value.
    swap swap_s
    /// Adds `v`, wrapping. Returns the previous value.
    fetch_add add_s
    /// Stores the minimum. Returns the previous value.
    fetch_min min_s
    /// Stores the maximum. Returns the previous value.
    fetch_max max_s
    /// Bitwise or. Returns the previous value.
    fetch_or or_s
    /// Bitwise and. Returns the previous value.
    fetch_and and_s
}

macro_rules! shared_view {
    ($of:ty, $f:ident, $to:ty, $by:literal) => {
        impl Shared<$of> {
            /// Views the same memory 16 bytes at a time. It must start at a multiple of 16 bytes.
            #[inline(always)]
            #[track_caller]
            pub fn $f(self) -> Shared<$to> {
                Shared {
                    at: self.at,
                    ext: self.ext.regroup(self.at as usize, $by),
                    of: PhantomData,
                }
            }
        }
    };
}
shared_view!(u32, x4, U32x4, 4);
shared_view!(u64, x2, U64x2, 2);
impl Shared<u32> {
    /// Views the same memory as half words, the low half first.
    #[inline(always)]
    pub fn halves(self) -> Shared<u16> {
        Shared { at: self.at, ext: self.ext.split(2), of: PhantomData }
    }
}
