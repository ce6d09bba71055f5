//! AVX2: the heads of a bucket are one register.
use super::{Compared, GROUP, Heads, LINE, Line, Simd, Work};
use koel_kernels::table::layout::BUCKET;
use std::arch::x86_64::*;

/// Proof that the machine has AVX2 and the bit instructions introduced with it.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());
impl Avx2 {
    /// Detects AVX2; `None` if the machine lacks it.
    #[inline]
    pub(super) fn new() -> Option<Avx2> {
        (is_x86_feature_detected!("avx2") && has_bit_instructions()).then_some(Avx2(()))
    }
}

/// Returns whether the machine has BMI1, BMI2, LZCNT and POPCNT, as machines with AVX2 do unless a
/// hypervisor hides them.
#[inline]
pub(super) fn has_bit_instructions() -> bool {
    is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

/// Loads the heads of a bucket into a register.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load(heads: &Heads) -> __m256i {
    // SAFETY: 32 bytes, any alignment.
    unsafe { _mm256_loadu_si256(heads.as_ptr().cast()) }
}
/// Loads four words of a table, starting at word `at`.
///
/// # Safety
/// The words are in bounds.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load_at(words: &[u64], at: usize) -> __m256i {
    debug_assert!(at + 4 <= words.len());
    // SAFETY: in bounds by the caller's contract; 32 bytes, any alignment.
    unsafe { _mm256_loadu_si256(words.as_ptr().add(at).cast()) }
}
/// Returns whether every place is a bucket of a table with `words` words per bucket.
#[inline(always)]
pub(super) fn are_in(places: &[u32; GROUP], words: usize, buckets: &[u64]) -> bool {
    let greatest = places.iter().fold(0, |greatest, &place| place.max(greatest));
    (greatest as usize + 1) * words <= buckets.len()
}
/// Returns a mask of the 32-bit lanes that are all ones.
#[inline]
#[target_feature(enable = "avx2")]
fn lanes(x: __m256i) -> u32 {
    _mm256_movemask_ps(_mm256_castsi256_ps(x)) as u32
}
/// Returns a mask of the 64-bit lanes that are all ones.
#[inline]
#[target_feature(enable = "avx2")]
fn lanes64(x: __m256i) -> u32 {
    _mm256_movemask_pd(_mm256_castsi256_pd(x)) as u32
}
#[inline]
#[target_feature(enable = "avx2")]
fn slot32(heads: &Heads, mixed: u32) -> Option<usize> {
    let bits = lanes(_mm256_cmpeq_epi32(load(heads), _mm256_set1_epi32(mixed as i32))) & 0x55;
    (bits != 0).then_some(bits.trailing_zeros() as usize / 2)
}
#[inline]
#[target_feature(enable = "avx2")]
fn slot64(heads: &Heads, mixed: u64) -> Option<usize> {
    let bits = lanes64(_mm256_cmpeq_epi64(load(heads), _mm256_set1_epi64x(mixed as i64)));
    (bits != 0).then_some(bits.trailing_zeros() as usize)
}
/// Gathers eight narrow buckets: for each slot the keys and the values.
///
/// # Safety
/// The places are below the number of buckets.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn gather(buckets: &[u64], places: &[u32; 8]) -> [(__m256i, __m256i); 4] {
    // SAFETY: by the caller's contract.
    let bucket = |i: usize| unsafe { load_at(buckets, places[i] as usize * BUCKET) };
    // In this order keys and values come out in the order of the places.
    let (first, last) = (
        columns([bucket(0), bucket(1), bucket(4), bucket(5)]),
        columns([bucket(2), bucket(3), bucket(6), bucket(7)]),
    );
    let split = |i: usize| {
        let (a, b) = (_mm256_castsi256_ps(first[i]), _mm256_castsi256_ps(last[i]));
        let (keys, values) =
            (_mm256_shuffle_ps::<0b10_00_10_00>(a, b), _mm256_shuffle_ps::<0b11_01_11_01>(a, b));
        (_mm256_castps_si256(keys), _mm256_castps_si256(values))
    };
    [split(0), split(1), split(2), split(3)]
}
/// Transposes four buckets into four vectors, one per slot.
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
/// Compares eight keys. Returns the values, and the bits of found keys, full buckets and set class
/// bits.
///
/// # Safety
/// The places are below the number of buckets.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn compare32(
    buckets: &[u64],
    places: &[u32; 8],
    mixed: &[u32; 8],
    missing: u32,
) -> ([u32; 8], [u32; 3]) {
    // SAFETY: by the caller's contract.
    let [(k0, v0), (k1, v1), (k2, v2), (k3, v3)] = unsafe { gather(buckets, places) };
    // SAFETY: 32 bytes, any alignment.
    let h = unsafe { _mm256_loadu_si256(mixed.as_ptr().cast()) };
    let equal = |keys| _mm256_cmpeq_epi32(keys, h);
    let (m0, m1, m2, m3) = (equal(k0), equal(k1), equal(k2), equal(k3));
    // Blend the first match last: if an ambiguous key matches several slots, the lowest counts.
    let value = _mm256_blendv_epi8(_mm256_set1_epi32(missing as i32), v3, m3);
    let value = _mm256_blendv_epi8(_mm256_blendv_epi8(value, v2, m2), v1, m1);
    let value = _mm256_blendv_epi8(value, v0, m0);
    let found = lanes(_mm256_or_si256(_mm256_or_si256(m0, m1), _mm256_or_si256(m2, m3)));
    let not_full = _mm256_cmpeq_epi32(_mm256_and_si256(k3, v3), _mm256_set1_epi32(-1));
    // AVX2 compares signed numbers only: flip the highest bit.
    let high = _mm256_set1_epi32(i32::MIN);
    let greater = |a, b| _mm256_cmpgt_epi32(_mm256_xor_si256(a, high), _mm256_xor_si256(b, high));
    let lesser_two = greater(_mm256_min_epu32(k0, k1), _mm256_min_epu32(k2, k3));
    let greater_two = greater(_mm256_max_epu32(k0, k1), _mm256_max_epu32(k2, k3));
    // Blends test the sign: bits 0 and 1 of the mixed key.
    let choose = |sign, yes, no| {
        let (sign, yes, no) =
            (_mm256_castsi256_ps(sign), _mm256_castsi256_ps(yes), _mm256_castsi256_ps(no));
        _mm256_castps_si256(_mm256_blendv_ps(no, yes, sign))
    };
    let (odd, upper) = (_mm256_slli_epi32::<31>(h), _mm256_slli_epi32::<30>(h));
    let bit = choose(
        upper,
        choose(odd, greater_two, lesser_two),
        choose(odd, greater(k2, k3), greater(k0, k1)),
    );
    let mut values = [0; 8];
    // SAFETY: 32 bytes, any alignment.
    unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), value) };
    (values, [found, !lanes(not_full) & 0xFF, lanes(bit)])
}
/// Compares four keys, like [`compare32`].
///
/// # Safety
/// The places are below the number of buckets.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn compare64(
    buckets: &[u64],
    places: &[u32; 4],
    mixed: &[u64; 4],
    missing: u64,
) -> ([u64; 4], [u32; 3]) {
    // SAFETY: by the caller's contract.
    let row =
        |i: usize, from: usize| unsafe { load_at(buckets, places[i] as usize * 2 * BUCKET + from) };
    let [k0, k1, k2, k3] = columns([row(0, 0), row(1, 0), row(2, 0), row(3, 0)]);
    let [v0, v1, v2, v3] =
        columns([row(0, BUCKET), row(1, BUCKET), row(2, BUCKET), row(3, BUCKET)]);
    let h = load(mixed);
    let equal = |keys| _mm256_cmpeq_epi64(keys, h);
    let (m0, m1, m2, m3) = (equal(k0), equal(k1), equal(k2), equal(k3));
    let value = _mm256_blendv_epi8(_mm256_set1_epi64x(missing as i64), v3, m3);
    let value = _mm256_blendv_epi8(_mm256_blendv_epi8(value, v2, m2), v1, m1);
    let value = _mm256_blendv_epi8(value, v0, m0);
    let found = lanes64(_mm256_or_si256(_mm256_or_si256(m0, m1), _mm256_or_si256(m2, m3)));
    let not_full = lanes64(_mm256_cmpeq_epi64(k3, _mm256_set1_epi32(-1)));
    let high = _mm256_set1_epi64x(i64::MIN);
    let greater = |a, b| _mm256_cmpgt_epi64(_mm256_xor_si256(a, high), _mm256_xor_si256(b, high));
    // Blends test the sign.
    let choose = |sign, yes, no| {
        let (sign, yes, no) =
            (_mm256_castsi256_pd(sign), _mm256_castsi256_pd(yes), _mm256_castsi256_pd(no));
        _mm256_castpd_si256(_mm256_blendv_pd(no, yes, sign))
    };
    let (front, back) = (greater(k0, k1), greater(k2, k3));
    let lesser_two = greater(choose(front, k1, k0), choose(back, k3, k2));
    let greater_two = greater(choose(front, k0, k1), choose(back, k2, k3));
    // The class is bits 32 and 33 of the mixed key.
    let (odd, upper) = (_mm256_slli_epi64::<31>(h), _mm256_slli_epi64::<30>(h));
    let bit = choose(upper, choose(odd, greater_two, lesser_two), choose(odd, back, front));
    let mut values = [0; 4];
    // SAFETY: 32 bytes, any alignment.
    unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), value) };
    (values, [found, !not_full & 0xF, lanes64(bit)])
}
#[inline]
#[target_feature(enable = "avx2")]
fn stream(to: &mut Line, from: &[u64; LINE]) {
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
        // SAFETY: `self` proves these features.
        unsafe { run(self, work) }
    }
    #[inline(always)]
    fn slot32(self, heads: &Heads, mixed: u32) -> Option<usize> {
        // SAFETY: `self` proves AVX2.
        unsafe { slot32(heads, mixed) }
    }
    #[inline(always)]
    fn slot64(self, heads: &Heads, mixed: u64) -> Option<usize> {
        // SAFETY: `self` proves AVX2.
        unsafe { slot64(heads, mixed) }
    }
    #[inline(always)]
    fn compare32(
        self,
        buckets: &[u64],
        places: &[u32; GROUP],
        mixed: &[u32; GROUP],
        missing: u32,
    ) -> Compared<u32> {
        assert!(are_in(places, BUCKET, buckets));
        let mut compared = Compared { values: [0; GROUP], found: 0, full: 0, overflowed: 0 };
        let (places, mixed) = (places.as_chunks().0, mixed.as_chunks().0);
        for half in 0..2 {
            // SAFETY: `self` proves AVX2, and the places are below the number of buckets.
            let (values, bits) =
                unsafe { compare32(buckets, &places[half], &mixed[half], missing) };
            compared.values[half * 8..][..8].copy_from_slice(&values);
            compared.add(bits, half * 8);
        }
        compared
    }
    #[inline(always)]
    fn compare64(
        self,
        buckets: &[u64],
        places: &[u32; GROUP],
        mixed: &[u64; GROUP],
        missing: u64,
    ) -> Compared<u64> {
        assert!(are_in(places, 2 * BUCKET, buckets));
        let mut compared = Compared { values: [0; GROUP], found: 0, full: 0, overflowed: 0 };
        let (places, mixed) = (places.as_chunks().0, mixed.as_chunks().0);
        for quarter in 0..4 {
            // SAFETY: as above.
            let (values, bits) =
                unsafe { compare64(buckets, &places[quarter], &mixed[quarter], missing) };
            compared.values[quarter * 4..][..4].copy_from_slice(&values);
            compared.add(bits, quarter * 4);
        }
        compared
    }
    #[inline(always)]
    fn stream(self, to: &mut Line, from: &[u64; LINE]) {
        // SAFETY: `self` proves AVX2.
        unsafe { stream(to, from) }
    }
    #[inline(always)]
    fn fence(self) {
        // SAFETY: every x86-64 has SSE.
        unsafe { _mm_sfence() }
    }
}
