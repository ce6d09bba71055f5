//! Arrays in global memory.
use crate::{Access, Idx, Scalar, U32x4, U64x2, Word, imp};

/// Global array that nothing writes while the kernel runs. Loads take the read-only path
/// (`ld.global.nc`).
///
/// On the GPU it is a bare pointer, in the kernel's parameters too; on the host it knows its length
/// and name.
#[derive(Clone, Copy)]
#[cfg_attr(target_arch = "nvptx64", repr(transparent))]
pub struct In<T> {
    pub(crate) ptr: *const T,
    pub(crate) ext: imp::Extent,
}
impl<T: Word> In<T> {
    #[inline(always)]
    #[track_caller]
    fn at(self, i: impl Idx) -> *const T {
        self.ext.check(i.idx());
        let p = self.ptr.wrapping_add(i.idx());
        self.ext.touch_constant(p.addr(), size_of::<T>());
        p
    }
    /// Loads element `i`.
    #[inline(always)]
    #[track_caller]
    pub fn get(self, i: impl Idx) -> T {
        // SAFETY: in bounds (checked on the host, promised by the launch on the GPU), and not
        // written during the launch.
        unsafe { T::ld_nc(self.at(i)) }
    }
    /// Loads element `i` with a streaming hint (read once, evict first).
    #[inline(always)]
    #[track_caller]
    pub fn get_stream(self, i: impl Idx) -> T {
        // SAFETY: as in `get`.
        unsafe { T::ld_cs(self.at(i)) }
    }
    /// Loads element `i` without allocating it in L1.
    #[inline(always)]
    #[track_caller]
    pub fn get_no_alloc(self, i: impl Idx) -> T {
        // SAFETY: as in `get`.
        unsafe { T::ld_nc_na(self.at(i)) }
    }
}

macro_rules! views { ($s:ident, $m:ident) => {
    impl $s<u32> {
        /// Views the same memory four elements at a time. It must start at a multiple of 16 bytes.
        #[inline(always)]
        #[track_caller]
        pub fn x4(self) -> $s<U32x4> {
            $s { ptr: self.ptr as *$m U32x4, ext: self.ext.regroup(self.ptr.addr(), 4) }
        }
    }
    impl $s<u64> {
        /// Views the same memory two elements at a time. It must start at a multiple of 16 bytes.
        #[inline(always)]
        #[track_caller]
        pub fn x2(self) -> $s<U64x2> {
            $s { ptr: self.ptr as *$m U64x2, ext: self.ext.regroup(self.ptr.addr(), 2) }
        }
    }
} }
views!(In, const);
views!(Buf, mut);

/// Global array that the kernel reads and writes.
///
/// Plain accesses are for words that no other thread of the block accesses before the next barrier,
/// and no other block during the launch. Words that others change concurrently need the atomic
/// accesses. The executor reports violations ([the rules](crate#what-the-executor-checks)).
#[derive(Clone, Copy)]
#[cfg_attr(target_arch = "nvptx64", repr(transparent))]
pub struct Buf<T> {
    pub(crate) ptr: *mut T,
    pub(crate) ext: imp::Extent,
}
impl<T: Word> Buf<T> {
    #[inline(always)]
    #[track_caller]
    fn at(self, i: impl Idx, access: Access) -> *mut T {
        self.ext.check(i.idx());
        let p = self.ptr.wrapping_add(i.idx());
        self.ext.touch(p.addr(), size_of::<T>(), access);
        p
    }
    /// Loads element `i`. If others update the word with atomics, this is a race; use
    /// [`load_relaxed`](Buf::load_relaxed).
    #[inline(always)]
    #[track_caller]
    pub fn load(self, i: impl Idx) -> T {
        // SAFETY: in bounds (checked on the host, promised by the launch on the GPU).
        unsafe { T::ld(self.at(i, Access::Read)) }
    }
    /// Loads element `i` with a streaming hint (read once, evict first).
    #[inline(always)]
    #[track_caller]
    pub fn load_stream(self, i: impl Idx) -> T {
        // SAFETY: as in `load`.
        unsafe { T::ld_cs(self.at(i, Access::Read)) }
    }
    /// Stores to element `i`.
    #[inline(always)]
    #[track_caller]
    pub fn store(self, i: impl Idx, v: T) {
        // SAFETY: as in `load`.
        unsafe { T::st(self.at(i, Access::Write), v) }
    }
    /// Stores to element `i` with a streaming hint (not read soon, evict first).
    #[inline(always)]
    #[track_caller]
    pub fn store_stream(self, i: impl Idx, v: T) {
        // SAFETY: as in `load`.
        unsafe { T::st_cs(self.at(i, Access::Write), v) }
    }
}

/// Atomics: relaxed, scope `.gpu`, unless the name says otherwise.
impl<T: Scalar> Buf<T> {
    /// Loads element `i`, which others may change concurrently.
    #[inline(always)]
    #[track_caller]
    pub fn load_relaxed(self, i: impl Idx) -> T {
        // SAFETY: as in `load`.
        unsafe { T::ld_relaxed(self.at(i, Access::AtomicRead)) }
    }
    /// Loads element `i`. Everything written before the [`store_release`](Self::store_release) that
    /// it observes is visible after it.
    #[inline(always)]
    #[track_caller]
    pub fn load_acquire(self, i: impl Idx) -> T {
        let p = self.at(i, Access::AtomicRead);
        // SAFETY: as in `load`.
        let v = unsafe { T::ld_acquire(p) };
        self.ext.acquire(p.addr());
        v
    }
    /// Stores to element `i`, which others may read concurrently.
    #[inline(always)]
    #[track_caller]
    pub fn store_relaxed(self, i: impl Idx, v: T) {
        // SAFETY: as in `load`.
        unsafe { T::st_relaxed(self.at(i, Access::Atomic), v) }
    }
    /// Stores to element `i`, ordered after all earlier writes of this thread.
    #[inline(always)]
    #[track_caller]
    pub fn store_release(self, i: impl Idx, v: T) {
        let p = self.at(i, Access::Atomic);
        self.ext.release(p.addr());
        // SAFETY: as in `load`.
        unsafe { T::st_release(p, v) }
    }
    /// Compares and swaps: writes `new` if the element equals `old`. Returns the previous value,
    /// which equals `old` if and only if `new` was written.
    #[inline(always)]
    #[track_caller]
    pub fn cas(self, i: impl Idx, old: T, new: T) -> T {
        // SAFETY: as in `load`.
        unsafe { T::cas(self.at(i, Access::Atomic), old, new) }
    }
}
macro_rules! global_rmw { ($($(#[$doc:meta])* $f:ident $op:ident)*) => { impl<T: Scalar> Buf<T> { $(
    $(#[$doc])*
    #[inline(always)]
    #[track_caller]
    pub fn $f(self, i: impl Idx, v: T) -> T {
        // SAFETY: as in `load`.
        unsafe { T::$op(self.at(i, Access::Atomic), v) }
    }
)* } } }
global_rmw! {
    /// Writes `v`. Returns the previous value.
    swap swap
    /// Adds `v`, wrapping. Returns the previous value.
    fetch_add add
    /// Stores the minimum. Returns the previous value.
    fetch_min min
    /// Stores the maximum. Returns the previous value.
    fetch_max max
    /// Bitwise or. Returns the previous value.
    fetch_or or
    /// Bitwise and. Returns the previous value.
    fetch_and and
}
