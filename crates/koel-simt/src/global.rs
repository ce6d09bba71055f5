//! Arrays in global memory.
use crate::{Access, Idx, Scalar, U32x4, U64x2, Word, imp};

/// A global array that nobody writes while the kernel runs: loads take the read-only path
/// (`ld.global.nc`).
///
/// On the GPU a bare pointer (and so in the kernel's parameters); on the host it knows its length
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
    /// Element `i`.
    #[inline(always)]
    #[track_caller]
    pub fn get(self, i: impl Idx) -> T {
        // SAFETY: in bounds (checked on the host, the launch's promise on the GPU), written by
        // nobody meanwhile.
        unsafe { T::ld_nc(self.at(i)) }
    }
    /// Element `i`, which is read once: evicted first.
    #[inline(always)]
    #[track_caller]
    pub fn get_stream(self, i: impl Idx) -> T {
        // SAFETY: as in `get`.
        unsafe { T::ld_cs(self.at(i)) }
    }
    /// Element `i`, which takes no room in L1.
    #[inline(always)]
    #[track_caller]
    pub fn get_no_alloc(self, i: impl Idx) -> T {
        // SAFETY: as in `get`.
        unsafe { T::ld_nc_na(self.at(i)) }
    }
}

macro_rules! views { ($s:ident, $m:ident) => {
    impl $s<u32> {
        /// The same memory, four at a time. It must begin on a multiple of 16 bytes.
        #[inline(always)]
        #[track_caller]
        pub fn x4(self) -> $s<U32x4> { $s { ptr: self.ptr as *$m U32x4, ext: self.ext.regroup(self.ptr.addr(), 4) } }
    }
    impl $s<u64> {
        /// The same memory, two at a time. It must begin on a multiple of 16 bytes.
        #[inline(always)]
        #[track_caller]
        pub fn x2(self) -> $s<U64x2> { $s { ptr: self.ptr as *$m U64x2, ext: self.ext.regroup(self.ptr.addr(), 2) } }
    }
} }
views!(In, const);
views!(Buf, mut);

/// A global array that the kernel reads and writes.
///
/// Plain accesses are for words that no other thread touches before the next barrier, or, of other
/// blocks, in the whole launch. Words that others change meanwhile take the atomic accesses: the
/// executor reports what is neither ([the rules](crate#what-the-executor-checks)).
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
    /// Element `i`. A word that others change by atomics is a race: say
    /// [`load_relaxed`](Buf::load_relaxed).
    #[inline(always)]
    #[track_caller]
    pub fn load(self, i: impl Idx) -> T {
        // SAFETY: in bounds (checked on the host, the launch's promise on the GPU).
        unsafe { T::ld(self.at(i, Access::Read)) }
    }
    /// Writes element `i`.
    #[inline(always)]
    #[track_caller]
    pub fn store(self, i: impl Idx, v: T) {
        // SAFETY: as in `load`.
        unsafe { T::st(self.at(i, Access::Write), v) }
    }
    /// Writes element `i`, which is not read soon: evicted first.
    #[inline(always)]
    #[track_caller]
    pub fn store_stream(self, i: impl Idx, v: T) {
        // SAFETY: as in `load`.
        unsafe { T::st_cs(self.at(i, Access::Write), v) }
    }
}

/// Atomics: relaxed, scope `.gpu`, except where the name says more.
impl<T: Scalar> Buf<T> {
    /// Element `i`, which others may change at this moment.
    #[inline(always)]
    #[track_caller]
    pub fn load_relaxed(self, i: impl Idx) -> T {
        // SAFETY: as in `load`.
        unsafe { T::ld_relaxed(self.at(i, Access::AtomicRead)) }
    }
    /// Element `i`; what was written before the [`store_release`](Self::store_release) it sees can
    /// be seen after it.
    #[inline(always)]
    #[track_caller]
    pub fn load_acquire(self, i: impl Idx) -> T {
        let p = self.at(i, Access::AtomicRead);
        // SAFETY: as in `load`.
        let v = unsafe { T::ld_acquire(p) };
        self.ext.acquire(p.addr());
        v
    }
    /// Writes element `i`, which others may read at this moment.
    #[inline(always)]
    #[track_caller]
    pub fn store_relaxed(self, i: impl Idx, v: T) {
        // SAFETY: as in `load`.
        unsafe { T::st_relaxed(self.at(i, Access::Atomic), v) }
    }
    /// Writes element `i` after all that this thread wrote before.
    #[inline(always)]
    #[track_caller]
    pub fn store_release(self, i: impl Idx, v: T) {
        let p = self.at(i, Access::Atomic);
        self.ext.release(p.addr());
        // SAFETY: as in `load`.
        unsafe { T::st_release(p, v) }
    }
    /// Writes `new` if `old` is there. Returns what was there: equal to `old` if and only if `new`
    /// was written.
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
    /// Writes `v`. Returns what was there.
    swap swap
    /// Adds, wrapping. Returns what was there.
    fetch_add add
    /// Keeps the lesser. Returns what was there.
    fetch_min min
    /// Keeps the greater. Returns what was there.
    fetch_max max
    /// Bitwise or. Returns what was there.
    fetch_or or
    /// Bitwise and. Returns what was there.
    fetch_and and
}
