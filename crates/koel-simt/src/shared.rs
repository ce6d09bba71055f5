//! Arrays in a block's shared memory.
use crate::{Idx, Scalar, U32x4, U64x2, Word, imp};
use core::marker::PhantomData;

/// Hands out the block's shared memory. With constant lengths every address is a constant.
pub struct SharedMem {
    next: u32, // offset from the base: alignment is then known when compiling
}
impl SharedMem {
    #[inline(always)]
    pub(crate) fn new() -> SharedMem {
        SharedMem { next: 0 }
    }
    /// The next `len` elements. What they hold is not defined.
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

/// An array in shared memory: a 32-bit shared-space address, so that every access is `LDS`, `STS`
/// or `ATOMS`.
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
    /// Element `i`.
    #[inline(always)]
    #[track_caller]
    pub fn load(self, i: impl Idx) -> T {
        // SAFETY: in bounds (checked on the host, the launch's promise on the GPU).
        unsafe { T::lds(self.addr(i)) }
    }
    /// Writes element `i`.
    #[inline(always)]
    #[track_caller]
    pub fn store(self, i: impl Idx, v: T) {
        // SAFETY: as in `load`.
        unsafe { T::sts(self.addr(i), v) }
    }
    /// Element `i`, which others may change at this moment; never merged, moved or left out. A
    /// vector is not one atomic access: each of its words is.
    #[inline(always)]
    #[track_caller]
    pub fn load_volatile(self, i: impl Idx) -> T {
        // SAFETY: as in `load`.
        unsafe { T::lds_volatile(self.addr(i)) }
    }
    /// Writes element `i`, which others may read or write at this moment: one of the values written
    /// stays.
    #[inline(always)]
    #[track_caller]
    pub fn store_volatile(self, i: impl Idx, v: T) {
        // SAFETY: as in `load`.
        unsafe { T::sts_volatile(self.addr(i), v) }
    }
}

/// Atomics: relaxed, among the threads of the block.
impl<T: Scalar> Shared<T> {
    /// Writes `new` if `old` is there. Returns what was there: equal to `old` if and only if `new`
    /// was written.
    #[inline(always)]
    #[track_caller]
    pub fn cas(self, i: impl Idx, old: T, new: T) -> T {
        // SAFETY: as in `load`.
        unsafe { T::cas_s(self.addr(i), old, new) }
    }
}
macro_rules! shared_rmw { ($($(#[$doc:meta])* $f:ident $op:ident)*) => { impl<T: Scalar> Shared<T> { $(
    $(#[$doc])*
    #[inline(always)]
    #[track_caller]
    pub fn $f(self, i: impl Idx, v: T) -> T {
        // SAFETY: as in `load`.
        unsafe { T::$op(self.addr(i), v) }
    }
)* } } }
shared_rmw! {
    /// Writes `v`. Returns what was there.
    swap swap_s
    /// Adds, wrapping. Returns what was there.
    fetch_add add_s
    /// Keeps the lesser. Returns what was there.
    fetch_min min_s
    /// Keeps the greater. Returns what was there.
    fetch_max max_s
    /// Bitwise or. Returns what was there.
    fetch_or or_s
    /// Bitwise and. Returns what was there.
    fetch_and and_s
}

macro_rules! shared_view {
    ($of:ty, $f:ident, $to:ty, $by:literal) => {
        impl Shared<$of> {
            /// The same memory, sixteen bytes at a time. It must begin on a multiple of 16 bytes.
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
    /// The same memory, half a word at a time, the low one first.
    #[inline(always)]
    pub fn halves(self) -> Shared<u16> {
        Shared { at: self.at, ext: self.ext.split(2), of: PhantomData }
    }
}
