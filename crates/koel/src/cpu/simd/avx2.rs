//! AVX2: a bucket is one register.
use super::{Bucket, Line, Simd, Work};
use std::arch::x86_64::*;

/// Proof that the machine has AVX2, and the bit instructions that came with it.
#[derive(Clone, Copy)]
pub struct Avx2(());
impl Avx2 {
    /// `None` if the machine does not have it.
    #[inline]
    pub fn new() -> Option<Avx2> {
        (is_x86_feature_detected!("avx2") && has_bit_instructions()).then_some(Avx2(()))
    }
}

/// Whether the machine has BMI1, BMI2, LZCNT and POPCNT, as those with AVX2 do unless a hypervisor hides them.
#[inline]
pub fn has_bit_instructions() -> bool {
    is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

/// A bucket in a register.
#[inline]
#[target_feature(enable = "avx2")]
pub fn load(bucket: &Bucket) -> __m256i {
    // SAFETY: 32 bytes, any alignment.
    unsafe { _mm256_loadu_si256(bucket.as_ptr().cast()) }
}
/// Bit `i` is set if lane `i` is all ones.
#[inline]
#[target_feature(enable = "avx2")]
fn lanes(x: __m256i) -> u32 {
    _mm256_movemask_ps(_mm256_castsi256_ps(x)) as u32
}
#[inline]
#[target_feature(enable = "avx2")]
fn matches(bucket: &Bucket, h: u32) -> u32 {
    lanes(_mm256_cmpeq_epi32(load(bucket), _mm256_set1_epi32(h as i32))) & 0x55
}
/// For each class, a byte with its bit of the codes that `overflowed` gathers.
const CODE: u32 = 0x08_02_10_01;
/// Keys in lanes 0, 2, 4, 6; `swapped` has the keys of each half exchanged. Two vectors whose comparison tells the class bits:
/// lane 0 of the first class 0, lane 4 class 1; lane 0 of the second class 2, lane 2 class 3.
#[inline]
#[target_feature(enable = "avx2")]
fn extremes(keys: __m256i, swapped: __m256i) -> (__m256i, __m256i) {
    // Lane 0: the lesser of the first two; lane 2: the greater; lanes 4 and 6: of the last two.
    let x = _mm256_blend_epi32::<0b1100_1100>(_mm256_min_epu32(keys, swapped), _mm256_max_epu32(keys, swapped));
    (x, _mm256_permute4x64_epi64::<0b01_00_11_10>(x))
}
#[inline]
#[target_feature(enable = "avx2")]
fn overflowed(bucket: &Bucket, class: u32) -> bool {
    // AVX2 compares signed numbers only: the highest bit is turned over.
    let high = _mm256_set1_epi32(i32::MIN);
    let greater = |a, b| lanes(_mm256_cmpgt_epi32(_mm256_xor_si256(a, high), _mm256_xor_si256(b, high)));
    let pairs = load(bucket);
    let swapped = _mm256_shuffle_epi32::<0b01_00_11_10>(pairs);
    let (x, y) = extremes(pairs, swapped);
    let codes = greater(pairs, swapped) & 0x11 | (greater(x, y) & 5) << 1;
    (codes & CODE >> (class * 8) & 0xFF != 0) & (bucket[3] != u64::MAX)
}
#[inline]
#[target_feature(enable = "avx2")]
fn stream(to: &mut Line, from: &[u64; 8]) {
    let (to, from) = (to.0.as_mut_ptr().cast::<__m256i>(), from.as_ptr().cast::<__m256i>());
    // SAFETY: 64 bytes each; `to` is aligned to 64.
    unsafe {
        _mm256_stream_si256(to, _mm256_loadu_si256(from));
        _mm256_stream_si256(to.add(1), _mm256_loadu_si256(from.add(1)));
    }
}

impl Simd for Avx2 {
    #[inline(always)]
    fn vectorize<W: Work>(self, work: W) -> W::Output {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn run<W: Work>(simd: Avx2, work: W) -> W::Output {
            work.run(simd)
        }
        // SAFETY: `self` proves these.
        unsafe { run(self, work) }
    }
    #[inline(always)]
    fn matches(self, bucket: &Bucket, h: u32) -> u32 {
        // SAFETY: `self` proves AVX2.
        unsafe { matches(bucket, h) }
    }
    #[inline(always)]
    fn overflowed(self, bucket: &Bucket, class: u32) -> bool {
        // SAFETY: `self` proves AVX2.
        unsafe { overflowed(bucket, class) }
    }
    #[inline(always)]
    fn stream(self, to: &mut Line, from: &[u64; 8]) {
        // SAFETY: `self` proves AVX2.
        unsafe { stream(to, from) }
    }
    #[inline(always)]
    fn fence(self) {
        // SAFETY: every x86-64 has SSE.
        unsafe { _mm_sfence() }
    }
    #[inline(always)]
    fn ask<T>(self, address: *const T) {
        // SAFETY: a hint, which reads nothing, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
}
