//! The primitives on nvptx64.
//!
//! RULE: `asm!` is not `convergent`, and rustc cannot mark it so: LLVM may copy it into both arms
//! of a branch, and does. A copied load or atomic is harmless; a copied barrier, ballot or shuffle
//! is wrong on the GPU. Hence:
//!   * Operations that wait for other threads are LLVM intrinsics, which LLVM knows to be
//!     convergent.
//!   * Memory accesses are `asm!`, because Rust has no address spaces and no cache operators.
//!   * Every function must be inlined, because the callers are not convergent either. xtask checks
//!     this.
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each block is the one instruction that its function's name says"
)]
use crate::{U32x4, U64x2};
use core::arch::{asm, global_asm};

/// Type of a kernel argument; the host checks it.
pub trait Arg {}
impl<T> Arg for T {}

global_asm!(".extern .shared .align 128 .b8 simt_shared[];");

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe { asm!("trap;", "exit;", options(noreturn, nostack)) }
}

#[allow(improper_ctypes, reason = "bool is i1 in these intrinsics")]
unsafe extern "C" {
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.all"]
    safe fn nv_barrier(id: u32);
    #[link_name = "llvm.nvvm.barrier.cta.red.popc.aligned.all"]
    safe fn nv_barrier_popc(id: u32, p: bool) -> u32;
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    safe fn nv_warp_sync(mask: u32);
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    safe fn nv_ballot(mask: u32, p: bool) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    safe fn nv_shfl_idx(mask: u32, v: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
    safe fn nv_shfl_up(mask: u32, v: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    safe fn nv_shfl_down(mask: u32, v: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    safe fn nv_shfl_bfly(mask: u32, v: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.mulhi.ui"]
    safe fn nv_mul_hi(a: u32, b: u32) -> u32;
    #[link_name = "llvm.nvvm.match.any.sync.i32"]
    safe fn nv_match32(mask: u32, v: u32) -> u32;
    #[link_name = "llvm.nvvm.match.any.sync.i64"]
    safe fn nv_match64(mask: u32, v: u64) -> u32;
    #[cfg(not(simt_sm = "75"))]
    #[link_name = "llvm.nvvm.redux.sync.add"]
    safe fn nv_redux_add(v: u32, mask: u32) -> u32;
    #[cfg(not(simt_sm = "75"))]
    #[link_name = "llvm.nvvm.redux.sync.umin"]
    safe fn nv_redux_umin(v: u32, mask: u32) -> u32;
    #[cfg(not(simt_sm = "75"))]
    #[link_name = "llvm.nvvm.redux.sync.umax"]
    safe fn nv_redux_umax(v: u32, mask: u32) -> u32;
}

macro_rules! sreg { ($($f:ident $reg:literal)*) => { $(
    #[inline(always)]
    pub fn $f() -> u32 {
        let r: u32;
        unsafe {
            asm!(
                concat!("mov.u32 {0}, %", $reg, ";"),
                out(reg32) r, options(pure, nomem, nostack, preserves_flags)
            )
        };
        r
    }
)* } }
sreg!(tid "tid.x" block_id "ctaid.x" block_dim "ntid.x" grid_dim "nctaid.x");

/// Position of a thread in the grid, read from special registers on demand.
#[derive(Clone, Copy)]
pub struct Place;
impl Place {
    #[inline(always)]
    pub fn block(self) -> u32 {
        block_id()
    }
    #[inline(always)]
    pub fn threads(self) -> u32 {
        block_dim()
    }
    #[inline(always)]
    pub fn grid(self) -> u32 {
        grid_dim()
    }
    /// Returns the first index of a strided loop.
    #[inline(always)]
    pub fn skip(self, first: u32, _step: u32, _end: u32) -> u32 {
        first
    }
}

#[inline(always)]
pub fn barrier(_: u32) {
    nv_barrier(0)
}
#[inline(always)]
pub fn barrier_count(_: u32, p: bool) -> u32 {
    nv_barrier_popc(0, p)
}
#[inline(always)]
pub fn fence() {
    unsafe { asm!("fence.acq_rel.gpu;", options(nostack, preserves_flags)) }
}
#[inline(always)]
pub fn warp_sync(_: u32, mask: u32) {
    nv_warp_sync(mask)
}
#[inline(always)]
pub fn ballot(_: u32, mask: u32, p: bool) -> u32 {
    nv_ballot(mask, p)
}
// redux.sync needs sm_80. The fallback is five shuffles in sequence, which are convergent.
macro_rules! reduce { ($($f:ident $redux:ident |$a:ident, $b:ident| $op:expr;)*) => { $(
    #[cfg(not(simt_sm = "75"))]
    #[inline(always)]
    pub fn $f(_: u32, mask: u32, v: u32) -> u32 {
        $redux(v, mask)
    }
    #[cfg(simt_sm = "75")]
    #[inline(always)]
    pub fn $f(_: u32, mask: u32, v: u32) -> u32 {
        let mut $a = v;
        crate::unroll::<5>(|j| {
            let $b = nv_shfl_bfly(mask, $a, 1 << j, 31);
            $a = $op;
        });
        $a
    }
)* } }
reduce! {
    reduce_add nv_redux_add |a, b| a.wrapping_add(b);
    reduce_min nv_redux_umin |a, b| a.min(b);
    reduce_max nv_redux_umax |a, b| a.max(b);
}

#[inline(always)]
pub fn anew(mut x: u32) -> u32 {
    unsafe { asm!("/* {0} */", inout(reg32) x, options(nomem, nostack, preserves_flags)) };
    x
}
#[inline(always)]
pub fn mul_hi(a: u32, b: u32) -> u32 {
    nv_mul_hi(a, b)
}
// griddepcontrol needs sm_90. It waits for kernels, not threads: a copy in each arm of a branch
// does no harm.
#[cfg(not(simt_sm = "75"))]
#[inline(always)]
pub fn let_next_start() {
    unsafe { asm!("griddepcontrol.launch_dependents;", options(nostack, preserves_flags)) }
}
#[cfg(not(simt_sm = "75"))]
#[inline(always)]
pub fn wait_for_previous() {
    unsafe { asm!("griddepcontrol.wait;", options(nostack, preserves_flags)) }
}
#[cfg(simt_sm = "75")]
#[inline(always)]
pub fn let_next_start() {}
#[cfg(simt_sm = "75")]
#[inline(always)]
pub fn wait_for_previous() {}

#[inline(always)]
pub fn shared_base() -> u32 {
    let r: u32;
    unsafe {
        asm!(
            "mov.u32 {0}, simt_shared;",
            out(reg32) r, options(pure, nomem, nostack, preserves_flags)
        )
    };
    r
}

/// Lengths are unknown on the GPU.
#[derive(Clone, Copy)]
pub struct Extent;
impl Extent {
    #[inline(always)]
    pub fn check(self, _: usize) {}
    #[inline(always)]
    pub fn touch(self, _: usize, _: usize, _: crate::Access) {}
    #[inline(always)]
    pub fn touch_constant(self, _: usize, _: usize) {}
    #[inline(always)]
    pub fn release(self, _: usize) {}
    #[inline(always)]
    pub fn acquire(self, _: usize) {}
    #[inline(always)]
    pub fn regroup(self, _: usize, _: usize) -> Extent {
        Extent
    }
    #[inline(always)]
    pub fn split(self, _: usize) -> Extent {
        Extent
    }
}
#[inline(always)]
pub fn shared_extent(_at: u32, _len: usize, _end: u32) -> Extent {
    Extent
}

#[allow(
    clippy::missing_safety_doc,
    reason = "one contract for all: the address is valid for the access"
)]
pub trait Mem: Sized {
    unsafe fn ld(p: *const Self) -> Self;
    unsafe fn ld_nc(p: *const Self) -> Self;
    unsafe fn ld_nc_na(p: *const Self) -> Self;
    unsafe fn ld_cs(p: *const Self) -> Self;
    unsafe fn st(p: *mut Self, v: Self);
    unsafe fn st_cs(p: *mut Self, v: Self);
    unsafe fn lds(a: u32) -> Self;
    unsafe fn lds_volatile(a: u32) -> Self;
    unsafe fn sts(a: u32, v: Self);
    unsafe fn sts_volatile(a: u32, v: Self);
}

// Memory effects of `asm!`: `readonly` reads are ordered with stores and barriers but may be merged
// or dropped; `pure, nomem` reads, of read-only data, may move freely; without options, the access
// is volatile.
macro_rules! mem { (
    $T:ty, $ty:literal, $reg:ident, ($($r:ident $i:tt)*), $lst:literal, $a:literal,
    |$v:ident| $to:expr
) => {
    impl Mem for $T {
        mem!(@ld ld(*const Self, reg64) $ty $reg ($($r)*) $lst $a "ld.global" $to, pure, readonly);
        mem!(@ld ld_nc(*const Self, reg64) $ty $reg ($($r)*)
            $lst $a "ld.global.nc" $to, pure, nomem);
        mem!(@ld ld_nc_na(*const Self, reg64) $ty $reg ($($r)*)
            $lst $a "ld.global.nc.L1::no_allocate" $to, pure, nomem);
        mem!(@ld ld_cs(*const Self, reg64) $ty $reg ($($r)*)
            $lst $a "ld.global.cs" $to, pure, readonly);
        mem!(@ld lds(u32, reg32) $ty $reg ($($r)*) $lst $a "ld.shared" $to, pure, readonly);
        mem!(@ld lds_volatile(u32, reg32) $ty $reg ($($r)*) $lst $a "ld.volatile.shared" $to,);
        mem!(@st st(*mut Self, reg64) $v $ty $reg ($($r $i)*) $lst $a "st.global");
        mem!(@st st_cs(*mut Self, reg64) $v $ty $reg ($($r $i)*) $lst $a "st.global.cs");
        mem!(@st sts(u32, reg32) $v $ty $reg ($($r $i)*) $lst $a "st.shared");
        mem!(@st sts_volatile(u32, reg32) $v $ty $reg ($($r $i)*) $lst $a "st.volatile.shared");
    } };
    (@ld $f:ident($P:ty, $preg:ident) $ty:literal $reg:ident ($($r:ident)*)
        $lst:literal $a:literal $op:literal $to:expr, $($opt:ident),*) => {
        #[inline(always)]
        unsafe fn $f(p: $P) -> Self {
            $(let $r;)*
            unsafe {
                asm!(
                    concat!($op, $ty, " ", $lst, ", [", $a, "];"),
                    $(out($reg) $r,)* in($preg) p,
                    options($($opt,)* nostack, preserves_flags)
                )
            };
            $to
        }
    };
    (@st $f:ident($P:ty, $preg:ident) $v:ident $ty:literal $reg:ident ($($r:ident $i:tt)*)
        $lst:literal $a:literal $op:literal) => {
        #[inline(always)]
        unsafe fn $f(p: $P, $v: Self) {
            let ($($r,)*) = ($(mem!(@f $v $i),)*);
            unsafe {
                asm!(
                    concat!($op, $ty, " [", $a, "], ", $lst, ";"),
                    $(in($reg) $r,)* in($preg) p,
                    options(nostack, preserves_flags)
                )
            }
        }
    };
    (@f $v:ident s) => { $v };
    (@f $v:ident low) => { $v as u64 };
    (@f $v:ident high) => { ($v >> 64) as u64 };
    (@f $v:ident $i:literal) => { $v.0[$i] };
}
mem!(u8, ".u8", reg32, (a s), "{0}", "{1}", |v| a);
mem!(u16, ".u16", reg16, (a s), "{0}", "{1}", |v| a);
mem!(u32, ".u32", reg32, (a s), "{0}", "{1}", |v| a);
mem!(u64, ".u64", reg64, (a s), "{0}", "{1}", |v| a);
mem!(U32x4, ".v4.u32", reg32, (a 0 b 1 c 2 d 3), "{{{0},{1},{2},{3}}}", "{4}",
    |v| U32x4([a, b, c, d]));
mem!(U64x2, ".v2.u64", reg64, (a 0 b 1), "{{{0},{1}}}", "{2}", |v| U64x2([a, b]));
mem!(u128, ".v2.u64", reg64, (a low b high), "{{{0},{1}}}", "{2}", |v| U64x2([a, b]).into());

#[allow(
    clippy::missing_safety_doc,
    reason = "one contract for all: the address is valid for the access"
)]
pub trait Rmw: Sized {
    unsafe fn ld_relaxed(p: *const Self) -> Self;
    unsafe fn ld_acquire(p: *const Self) -> Self;
    unsafe fn st_relaxed(p: *mut Self, v: Self);
    unsafe fn st_release(p: *mut Self, v: Self);
    unsafe fn add(p: *mut Self, v: Self) -> Self;
    unsafe fn swap(p: *mut Self, v: Self) -> Self;
    unsafe fn min(p: *mut Self, v: Self) -> Self;
    unsafe fn max(p: *mut Self, v: Self) -> Self;
    unsafe fn or(p: *mut Self, v: Self) -> Self;
    unsafe fn and(p: *mut Self, v: Self) -> Self;
    unsafe fn cas(p: *mut Self, old: Self, new: Self) -> Self;
    unsafe fn add_s(a: u32, v: Self) -> Self;
    unsafe fn swap_s(a: u32, v: Self) -> Self;
    unsafe fn min_s(a: u32, v: Self) -> Self;
    unsafe fn max_s(a: u32, v: Self) -> Self;
    unsafe fn or_s(a: u32, v: Self) -> Self;
    unsafe fn and_s(a: u32, v: Self) -> Self;
    unsafe fn cas_s(a: u32, old: Self, new: Self) -> Self;
    fn shfl_idx(self, id: u32, mask: u32, lane: u32) -> Self;
    fn shfl_up(self, id: u32, mask: u32, delta: u32) -> Self;
    fn shfl_down(self, id: u32, mask: u32, delta: u32) -> Self;
    fn shfl_xor(self, id: u32, mask: u32, bits: u32) -> Self;
    fn match_any(self, id: u32, mask: u32) -> u32;
}
macro_rules! rmw { (
    $T:ty, $b:literal, $reg:ident, $match:ident, |$v:ident, $s:ident| $shfl:expr
) => {
    impl Rmw for $T {
        rmw!(@ld ld_relaxed $reg, concat!("ld.relaxed.gpu.global.u", $b));
        rmw!(@ld ld_acquire $reg, concat!("ld.acquire.gpu.global.u", $b));
        rmw!(@st st_relaxed $reg, concat!("st.relaxed.gpu.global.u", $b));
        rmw!(@st st_release $reg, concat!("st.release.gpu.global.u", $b));
        rmw!(@2 add *mut Self, reg64, $reg, concat!("atom.relaxed.gpu.global.add.u", $b));
        rmw!(@2 swap *mut Self, reg64, $reg, concat!("atom.relaxed.gpu.global.exch.b", $b));
        rmw!(@2 min *mut Self, reg64, $reg, concat!("atom.relaxed.gpu.global.min.u", $b));
        rmw!(@2 max *mut Self, reg64, $reg, concat!("atom.relaxed.gpu.global.max.u", $b));
        rmw!(@2 or *mut Self, reg64, $reg, concat!("atom.relaxed.gpu.global.or.b", $b));
        rmw!(@2 and *mut Self, reg64, $reg, concat!("atom.relaxed.gpu.global.and.b", $b));
        rmw!(@3 cas *mut Self, reg64, $reg, concat!("atom.relaxed.gpu.global.cas.b", $b));
        rmw!(@2 add_s u32, reg32, $reg, concat!("atom.relaxed.cta.shared.add.u", $b));
        rmw!(@2 swap_s u32, reg32, $reg, concat!("atom.relaxed.cta.shared.exch.b", $b));
        rmw!(@2 min_s u32, reg32, $reg, concat!("atom.relaxed.cta.shared.min.u", $b));
        rmw!(@2 max_s u32, reg32, $reg, concat!("atom.relaxed.cta.shared.max.u", $b));
        rmw!(@2 or_s u32, reg32, $reg, concat!("atom.relaxed.cta.shared.or.b", $b));
        rmw!(@2 and_s u32, reg32, $reg, concat!("atom.relaxed.cta.shared.and.b", $b));
        rmw!(@3 cas_s u32, reg32, $reg, concat!("atom.relaxed.cta.shared.cas.b", $b));
        #[inline(always)]
        fn shfl_idx(self, _: u32, mask: u32, lane: u32) -> Self {
            let ($v, $s) = (self, |w| nv_shfl_idx(mask, w, lane, 31));
            $shfl
        }
        #[inline(always)]
        fn shfl_up(self, _: u32, mask: u32, delta: u32) -> Self {
            let ($v, $s) = (self, |w| nv_shfl_up(mask, w, delta, 0));
            $shfl
        }
        #[inline(always)]
        fn shfl_down(self, _: u32, mask: u32, delta: u32) -> Self {
            let ($v, $s) = (self, |w| nv_shfl_down(mask, w, delta, 31));
            $shfl
        }
        #[inline(always)]
        fn shfl_xor(self, _: u32, mask: u32, bits: u32) -> Self {
            let ($v, $s) = (self, |w| nv_shfl_bfly(mask, w, bits, 31));
            $shfl
        }
        #[inline(always)]
        fn match_any(self, _: u32, mask: u32) -> u32 { $match(mask, self) }
    } };
    (@ld $f:ident $reg:ident, $op:expr) => {
        #[inline(always)]
        unsafe fn $f(p: *const Self) -> Self {
            let r;
            unsafe {
                asm!(
                    concat!($op, " {0}, [{1}];"),
                    out($reg) r, in(reg64) p,
                    options(nostack, preserves_flags)
                )
            };
            r
        }
    };
    (@st $f:ident $reg:ident, $op:expr) => {
        #[inline(always)]
        unsafe fn $f(p: *mut Self, v: Self) {
            unsafe {
                asm!(
                    concat!($op, " [{0}], {1};"),
                    in(reg64) p, in($reg) v,
                    options(nostack, preserves_flags)
                )
            }
        }
    };
    (@2 $f:ident $P:ty, $preg:ident, $reg:ident, $op:expr) => {
        #[inline(always)]
        unsafe fn $f(p: $P, v: Self) -> Self {
            let r;
            unsafe {
                asm!(
                    concat!($op, " {0}, [{1}], {2};"),
                    out($reg) r, in($preg) p, in($reg) v,
                    options(nostack, preserves_flags)
                )
            };
            r
        }
    };
    (@3 $f:ident $P:ty, $preg:ident, $reg:ident, $op:expr) => {
        #[inline(always)]
        unsafe fn $f(p: $P, old: Self, new: Self) -> Self {
            let r;
            unsafe {
                asm!(
                    concat!($op, " {0}, [{1}], {2}, {3};"),
                    out($reg) r, in($preg) p, in($reg) old, in($reg) new,
                    options(nostack, preserves_flags)
                )
            };
            r
        }
    };
}
rmw!(u32, "32", reg32, nv_match32, |v, s| s(v));
rmw!(u64, "64", reg64, nv_match64, |v, s| s(v as u32) as u64 | (s((v >> 32) as u32) as u64) << 32);
