//! NEON: a bucket is two registers.
use super::{Heads, Simd, Work};
use std::arch::aarch64::*;

/// Proof that the machine has NEON.
#[derive(Clone, Copy)]
pub struct Neon(());
impl Neon {
    /// Detects NEON; `None` if the machine lacks it.
    #[inline]
    pub fn new() -> Option<Neon> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Neon(()))
    }
}

/// Returns the first of four lanes that is all ones.
#[inline]
#[target_feature(enable = "neon")]
fn first(lanes: uint16x4_t) -> Option<usize> {
    let bits = vget_lane_u64::<0>(vreinterpret_u64_u16(lanes));
    (bits != 0).then_some(bits.trailing_zeros() as usize / 16)
}
#[inline]
#[target_feature(enable = "neon")]
fn slot32(heads: &Heads, mixed: u32) -> Option<usize> {
    // SAFETY: 32 bytes; the load requires no alignment beyond that of `u32`.
    let keys = unsafe { vld2q_u32(heads.as_ptr().cast()) }.0;
    first(vmovn_u32(vceqq_u32(keys, vdupq_n_u32(mixed))))
}
#[inline]
#[target_feature(enable = "neon")]
fn slot64(heads: &Heads, mixed: u64) -> Option<usize> {
    // SAFETY: 16 bytes each.
    let (front, back) = unsafe { (vld1q_u64(heads.as_ptr()), vld1q_u64(heads[2..].as_ptr())) };
    let mixed = vdupq_n_u64(mixed);
    let lanes = vcombine_u32(vmovn_u64(vceqq_u64(front, mixed)), vmovn_u64(vceqq_u64(back, mixed)));
    first(vmovn_u32(lanes))
}

impl Simd for Neon {
    #[inline(always)]
    fn vectorize<W: Work>(self, work: W) -> W::Output {
        #[target_feature(enable = "neon")]
        fn run<W: Work>(simd: Neon, work: W) -> W::Output {
            work.run(simd)
        }
        // SAFETY: `self` proves NEON.
        unsafe { run(self, work) }
    }
    #[inline(always)]
    fn slot32(self, heads: &Heads, mixed: u32) -> Option<usize> {
        // SAFETY: `self` proves NEON.
        unsafe { slot32(heads, mixed) }
    }
    #[inline(always)]
    fn slot64(self, heads: &Heads, mixed: u64) -> Option<usize> {
        // SAFETY: `self` proves NEON.
        unsafe { slot64(heads, mixed) }
    }
}
