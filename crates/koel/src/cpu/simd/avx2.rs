//! AVX2: a bucket is one register.
use super::{Bucket, Compared, GROUP, Line, Simd, Work};
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
/// The slots of eight buckets: for each slot the keys and the values.
///
/// # Safety
/// The places are below the number of buckets.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn gather(buckets: &[Bucket], places: &[u32; 8]) -> [(__m256i, __m256i); 4] {
    let bucket = |i: usize| {
        debug_assert!((places[i] as usize) < buckets.len());
        // SAFETY: the caller's; 32 bytes, any alignment.
        unsafe { _mm256_loadu_si256(buckets.as_ptr().add(places[i] as usize).cast()) }
    };
    // In this order keys and values come out in the order of the places.
    let (first, last) =
        (columns([bucket(0), bucket(1), bucket(4), bucket(5)]), columns([bucket(2), bucket(3), bucket(6), bucket(7)]));
    let split = |i: usize| {
        let (a, b) = (_mm256_castsi256_ps(first[i]), _mm256_castsi256_ps(last[i]));
        let (keys, values) = (_mm256_shuffle_ps::<0b10_00_10_00>(a, b), _mm256_shuffle_ps::<0b11_01_11_01>(a, b));
        (_mm256_castps_si256(keys), _mm256_castps_si256(values))
    };
    [split(0), split(1), split(2), split(3)]
}
/// Four vectors, each of one slot, from four buckets.
#[inline]
#[target_feature(enable = "avx2")]
fn columns([r0, r1, r2, r3]: [__m256i; 4]) -> [__m256i; 4] {
    let (even01, odd01) = (_mm256_unpacklo_epi64(r0, r1), _mm256_unpackhi_epi64(r0, r1));
    let (even23, odd23) = (_mm256_unpacklo_epi64(r2, r3), _mm256_unpackhi_epi64(r2, r3));
    [
        _mm256_permute2x128_si256::<0x20>(even01, even23),
        _mm256_permute2x128_si256::<0x20>(odd01, odd23),
        _mm256_permute2x128_si256::<0x31>(even01, even23),
        _mm256_permute2x128_si256::<0x31>(odd01, odd23),
    ]
}
/// Of eight keys: the values, and the bits of those found and of those that overflowed, as in `Compared`.
///
/// # Safety
/// The places are below the number of buckets.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn compare(buckets: &[Bucket], places: &[u32; 8], mixed: &[u32; 8], missing: u32) -> ([u32; 8], u32, u32) {
    // SAFETY: the caller's.
    let [(k0, v0), (k1, v1), (k2, v2), (k3, v3)] = unsafe { gather(buckets, places) };
    // SAFETY: 32 bytes, any alignment.
    let h = unsafe { _mm256_loadu_si256(mixed.as_ptr().cast()) };
    let equal = |keys| _mm256_cmpeq_epi32(keys, h);
    let (m0, m1, m2, m3) = (equal(k0), equal(k1), equal(k2), equal(k3));
    // The first match last: of an ambiguous key's many the least slot counts.
    let value = _mm256_blendv_epi8(_mm256_set1_epi32(missing as i32), v3, m3);
    let value = _mm256_blendv_epi8(_mm256_blendv_epi8(value, v2, m2), v1, m1);
    let value = _mm256_blendv_epi8(value, v0, m0);
    let found = lanes(_mm256_or_si256(_mm256_or_si256(m0, m1), _mm256_or_si256(m2, m3)));
    let not_full = _mm256_cmpeq_epi32(_mm256_and_si256(k3, v3), _mm256_set1_epi32(-1));
    // AVX2 compares signed numbers only: the highest bit is turned over.
    let high = _mm256_set1_epi32(i32::MIN);
    let greater = |a, b| _mm256_cmpgt_epi32(_mm256_xor_si256(a, high), _mm256_xor_si256(b, high));
    let lesser_two = greater(_mm256_min_epu32(k0, k1), _mm256_min_epu32(k2, k3));
    let greater_two = greater(_mm256_max_epu32(k0, k1), _mm256_max_epu32(k2, k3));
    // Blends look at the sign: bits 0 and 1 of the mixed key.
    let choose = |sign, yes, no| {
        let (sign, yes, no) = (_mm256_castsi256_ps(sign), _mm256_castsi256_ps(yes), _mm256_castsi256_ps(no));
        _mm256_castps_si256(_mm256_blendv_ps(no, yes, sign))
    };
    let (odd, upper) = (_mm256_slli_epi32::<31>(h), _mm256_slli_epi32::<30>(h));
    let bit = choose(upper, choose(odd, greater_two, lesser_two), choose(odd, greater(k2, k3), greater(k0, k1)));
    let mut values = [0; 8];
    // SAFETY: 32 bytes, any alignment.
    unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), value) };
    (values, found, lanes(_mm256_andnot_si256(not_full, bit)) & !found)
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
    fn compare(self, buckets: &[Bucket], places: &[u32; GROUP], mixed: &[u32; GROUP], missing: u32) -> Compared {
        let greatest = places.iter().fold(0, |greatest, &place| place.max(greatest));
        assert!((greatest as usize) < buckets.len());
        let mut compared = Compared { values: [0; GROUP], found: 0, overflowed: 0 };
        let (places, mixed) = (places.as_chunks().0, mixed.as_chunks().0);
        for half in 0..2 {
            // SAFETY: `self` proves AVX2, and the places are below the number of buckets.
            let (values, found, overflowed) = unsafe { compare(buckets, &places[half], &mixed[half], missing) };
            compared.values[half * 8..][..8].copy_from_slice(&values);
            compared.found |= found << (half * 8);
            compared.overflowed |= overflowed << (half * 8);
        }
        compared
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
}
