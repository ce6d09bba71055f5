//! Memory accesses and warp exchanges on the host.
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each block is the one access that its function's name says"
)]
use super::block::{WarpOp, current};
use super::warp;
use crate::{Access, U32x4, U64x2};
use std::panic::Location;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::*};

/// Memory accesses. A `Buf` is accessed with relaxed atomics, so that a race on the GPU is not
/// undefined behaviour here. An `In`, which nothing writes, is read with plain loads.
#[allow(
    clippy::missing_safety_doc,
    reason = "one contract for all: the address is valid for the access"
)]
#[doc(hidden)]
pub trait Mem: Copy {
    unsafe fn ld(p: *const Self) -> Self;
    unsafe fn st(p: *mut Self, v: Self);
    #[inline(always)]
    unsafe fn ld_nc(p: *const Self) -> Self {
        unsafe { p.read() }
    }
    #[inline(always)]
    unsafe fn ld_nc_na(p: *const Self) -> Self {
        unsafe { p.read() }
    }
    #[inline(always)]
    unsafe fn ld_cs(p: *const Self) -> Self {
        unsafe { p.read() }
    }
    #[inline(always)]
    unsafe fn st_cs(p: *mut Self, v: Self) {
        unsafe { Self::st(p, v) }
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn lds(at: u32) -> Self {
        unsafe { *shared_at(at, Access::Read, true) }
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn lds_volatile(at: u32) -> Self {
        unsafe { *shared_at(at, Access::AtomicRead, true) }
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn sts(at: u32, v: Self) {
        unsafe { *shared_at(at, Access::Write, false) = v }
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn sts_volatile(at: u32, v: Self) {
        unsafe { *shared_at(at, Access::Atomic, false) = v }
    }
}
/// Checks an access of shared memory and returns its address. A block's shared memory belongs to
/// one OS thread, so plain pointers suffice. `reads`: whether the value there matters.
#[inline(always)]
#[track_caller]
fn shared_at<T>(at: u32, access: Access, reads: bool) -> *mut T {
    current().shared_access(at, size_of::<T>() as u32, access, reads, Location::caller()).cast()
}

/// Applies a read-modify-write operation to plain values.
fn apply<T: Rmw>(old: T, v: T, op: RmwOp) -> T {
    let (a, b) = (old.to_u64(), v.to_u64());
    T::of_u64(match op {
        RmwOp::Swap => b,
        RmwOp::Add => a.wrapping_add(b),
        RmwOp::Min => a.min(b),
        RmwOp::Max => a.max(b),
        RmwOp::Or => a | b,
        RmwOp::And => a & b,
    })
}
#[derive(Clone, Copy)]
pub(super) enum RmwOp {
    Swap,
    Add,
    Min,
    Max,
    Or,
    And,
}
macro_rules! shared_rmw { ($($f:ident $op:ident)*) => { $(
    #[track_caller]
    unsafe fn $f(at: u32, v: Self) -> Self {
        let p = shared_at::<Self>(at, Access::Atomic, true);
        unsafe { std::ptr::replace(p, apply(*p, v, RmwOp::$op)) }
    }
)* } }

#[allow(
    clippy::missing_safety_doc,
    reason = "one contract for all: the address is valid for the access"
)]
#[doc(hidden)]
pub trait Rmw: Mem {
    fn to_u64(self) -> u64;
    fn of_u64(v: u64) -> Self;
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
    shared_rmw! { add_s Add swap_s Swap min_s Min max_s Max or_s Or and_s And }
    #[track_caller]
    unsafe fn cas_s(at: u32, old: Self, new: Self) -> Self {
        let p = shared_at::<Self>(at, Access::Atomic, true);
        unsafe { std::ptr::replace(p, if (*p).to_u64() == old.to_u64() { new } else { *p }) }
    }
    #[track_caller]
    fn shfl_idx(self, id: u32, mask: u32, lane: u32) -> Self {
        Self::of_u64(warp(id, mask, WarpOp::Shuffle, self.to_u64(), lane & 31))
    }
    #[track_caller]
    fn shfl_up(self, id: u32, mask: u32, delta: u32) -> Self {
        Self::of_u64(warp(
            id,
            mask,
            WarpOp::Shuffle,
            self.to_u64(),
            (id & 31).checked_sub(delta).unwrap_or(id & 31),
        ))
    }
    #[track_caller]
    fn shfl_down(self, id: u32, mask: u32, delta: u32) -> Self {
        let from = (id & 31) + delta;
        Self::of_u64(warp(
            id,
            mask,
            WarpOp::Shuffle,
            self.to_u64(),
            if from < 32 { from } else { id & 31 },
        ))
    }
    #[track_caller]
    fn shfl_xor(self, id: u32, mask: u32, bits: u32) -> Self {
        Self::of_u64(warp(id, mask, WarpOp::Shuffle, self.to_u64(), (id ^ bits) & 31))
    }
    #[track_caller]
    fn match_any(self, id: u32, mask: u32) -> u32 {
        warp(id, mask, WarpOp::Match, self.to_u64(), 0) as u32
    }
}

macro_rules! word {
    ($T:ty, $A:ident) => {
        impl Mem for $T {
            #[inline(always)]
            unsafe fn ld(p: *const Self) -> Self {
                unsafe { $A::from_ptr(p as *mut $T) }.load(Relaxed)
            }
            #[inline(always)]
            unsafe fn st(p: *mut Self, v: Self) {
                unsafe { $A::from_ptr(p) }.store(v, Relaxed)
            }
        }
    };
}
word!(u8, AtomicU8);
word!(u16, AtomicU16);
word!(u32, AtomicU32);
word!(u64, AtomicU64);
macro_rules! scalar {
    ($T:ty, $A:ident) => {
        impl Rmw for $T {
            fn to_u64(self) -> u64 {
                self as u64
            }
            fn of_u64(v: u64) -> Self {
                v as $T
            }
            #[inline(always)]
            unsafe fn ld_relaxed(p: *const Self) -> Self {
                unsafe { Self::ld(p) }
            }
            #[inline(always)]
            unsafe fn ld_acquire(p: *const Self) -> Self {
                unsafe { $A::from_ptr(p as *mut $T) }.load(Acquire)
            }
            #[inline(always)]
            unsafe fn st_relaxed(p: *mut Self, v: Self) {
                unsafe { Self::st(p, v) }
            }
            #[inline(always)]
            unsafe fn st_release(p: *mut Self, v: Self) {
                unsafe { $A::from_ptr(p) }.store(v, Release)
            }
            scalar!(@rmw $A add fetch_add swap swap min fetch_min max fetch_max
                or fetch_or and fetch_and);
            #[inline(always)]
            unsafe fn cas(p: *mut Self, old: Self, new: Self) -> Self {
                unsafe { $A::from_ptr(p) }
                    .compare_exchange(old, new, Relaxed, Relaxed)
                    .unwrap_or_else(|was| was)
            }
        }
    };
    (@rmw $A:ident $($f:ident $op:ident)*) => { $(
        #[inline(always)]
        unsafe fn $f(p: *mut Self, v: Self) -> Self {
            unsafe { $A::from_ptr(p) }.$op(v, Relaxed)
        }
    )* };
}
scalar!(u32, AtomicU32);
scalar!(u64, AtomicU64);
macro_rules! vector {
    ($T:ident, $S:ty, $n:literal) => {
        impl Mem for $T {
            #[inline(always)]
            unsafe fn ld(p: *const Self) -> Self {
                $T(std::array::from_fn(|i| unsafe { <$S>::ld(p.cast::<$S>().add(i)) }))
            }
            #[inline(always)]
            unsafe fn st(p: *mut Self, v: Self) {
                for i in 0..$n {
                    unsafe { <$S>::st(p.cast::<$S>().add(i), v.0[i]) }
                }
            }
            // Each word is a separate access: others may come in between.
            #[inline(always)]
            #[track_caller]
            unsafe fn lds_volatile(at: u32) -> Self {
                let mut v = [0; $n];
                for (i, w) in v.iter_mut().enumerate() {
                    *w = unsafe { <$S>::lds_volatile(at + (i * size_of::<$S>()) as u32) };
                }
                $T(v)
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn sts_volatile(at: u32, v: Self) {
                for i in 0..$n {
                    unsafe { <$S>::sts_volatile(at + (i * size_of::<$S>()) as u32, v.0[i]) }
                }
            }
        }
    };
}
vector!(U32x4, u32, 4);
vector!(U64x2, u64, 2);
// Accessed as two words: 16 bytes are not one atomic access.
impl Mem for u128 {
    #[inline(always)]
    unsafe fn ld(p: *const Self) -> Self {
        unsafe { U64x2::ld(p.cast()) }.into()
    }
    #[inline(always)]
    unsafe fn st(p: *mut Self, v: Self) {
        unsafe { U64x2::st(p.cast(), v.into()) }
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn lds_volatile(at: u32) -> Self {
        unsafe { U64x2::lds_volatile(at) }.into()
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn sts_volatile(at: u32, v: Self) {
        unsafe { U64x2::sts_volatile(at, v.into()) }
    }
}
