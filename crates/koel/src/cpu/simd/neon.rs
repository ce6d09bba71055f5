//! NEON: a bucket is two registers.
use super::{Bucket, Simd, Work};
use std::arch::aarch64::*;

/// Proof that the machine has NEON.
#[derive(Clone, Copy)]
pub struct Neon(());
impl Neon {
    /// `None` if the machine does not have it.
    #[inline]
    pub fn new() -> Option<Neon> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Neon(()))
    }
}

/// The keys of a bucket.
#[inline]
#[target_feature(enable = "neon")]
fn keys(bucket: &Bucket) -> uint32x4_t {
    // SAFETY: 32 bytes; the load asks for no alignment beyond that of `u32`.
    unsafe { vld2q_u32(bucket.as_ptr().cast()) }.0
}
/// The sum of `weights` over the lanes that are all ones.
#[inline]
#[target_feature(enable = "neon")]
fn weigh(lanes: uint32x4_t, weights: [u32; 4]) -> u32 {
    // SAFETY: 16 bytes.
    vaddvq_u32(vandq_u32(lanes, unsafe { vld1q_u32(weights.as_ptr()) }))
}
#[inline]
#[target_feature(enable = "neon")]
fn matches(bucket: &Bucket, h: u32) -> u32 {
    weigh(vceqq_u32(keys(bucket), vdupq_n_u32(h)), [1, 4, 16, 64])
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
    fn matches(self, bucket: &Bucket, h: u32) -> u32 {
        // SAFETY: `self` proves NEON.
        unsafe { matches(bucket, h) }
    }
}
