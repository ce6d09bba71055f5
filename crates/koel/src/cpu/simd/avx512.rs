//! AVX-512: comparisons give masks, and eight buckets are ordered at once.
use super::avx2::{Avx2, load};
use super::{Bucket, Compared, GROUP, Line, Simd, Work};
use std::arch::x86_64::*;

/// Proof that the machine has AVX-512 F, VL, DQ and BW, and what [`Avx2`] proves.
#[derive(Clone, Copy)]
pub struct Avx512(());
impl Avx512 {
    /// `None` if the machine does not have it.
    #[inline]
    pub fn new() -> Option<Avx512> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && Avx2::new().is_some();
        has.then_some(Avx512(()))
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn matches(bucket: &Bucket, h: u32) -> u32 {
    (_mm256_cmpeq_epi32_mask(load(bucket), _mm256_set1_epi32(h as i32)) & 0x55).into()
}
#[inline]
#[target_feature(enable = "avx512f")]
fn stream(to: &mut Line, from: &[u64; 8]) {
    // SAFETY: 64 bytes each; `to` is aligned to 64.
    unsafe { _mm512_stream_si512(to.0.as_mut_ptr().cast(), _mm512_loadu_si512(from.as_ptr().cast())) }
}

/// Four vectors, each of one slot of buckets `i` to `i + 7`.
///
/// # Safety
/// The places are below the number of buckets.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn gather_columns(buckets: &[Bucket], places: &[u32; GROUP], i: usize) -> Columns {
    let bucket = |i: usize| {
        debug_assert!((places[i] as usize) < buckets.len());
        // SAFETY: the caller's; 32 bytes, any alignment.
        unsafe { _mm256_loadu_si256(buckets.as_ptr().add(places[i] as usize).cast()) }
    };
    let row = |low, high| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(bucket(i + low)), bucket(i + high));
    // In this order the columns come out in the order of the places.
    columns([row(0, 2), row(1, 3), row(4, 6), row(5, 7)])
}
/// The slots of sixteen buckets, from those of eight and eight: keys and values.
#[inline]
#[target_feature(enable = "avx512f")]
fn keys_and_values(first: __m512i, last: __m512i) -> (__m512i, __m512i) {
    let keys = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    let values = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    (_mm512_permutex2var_epi32(first, keys, last), _mm512_permutex2var_epi32(first, values, last))
}
/// # Safety
/// The places are below the number of buckets.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn compare(buckets: &[Bucket], places: &[u32; GROUP], mixed: &[u32; GROUP], missing: u32) -> Compared {
    // SAFETY: the caller's.
    let (first, last) = unsafe { (gather_columns(buckets, places, 0), gather_columns(buckets, places, 8)) };
    let (k0, v0) = keys_and_values(first[0], last[0]);
    let (k1, v1) = keys_and_values(first[1], last[1]);
    let (k2, v2) = keys_and_values(first[2], last[2]);
    let (k3, v3) = keys_and_values(first[3], last[3]);
    // SAFETY: 64 bytes, any alignment.
    let h = unsafe { _mm512_loadu_si512(mixed.as_ptr().cast()) };
    let (m0, m1) = (_mm512_cmpeq_epi32_mask(k0, h), _mm512_cmpeq_epi32_mask(k1, h));
    let (m2, m3) = (_mm512_cmpeq_epi32_mask(k2, h), _mm512_cmpeq_epi32_mask(k3, h));
    // The first match last: of an ambiguous key's many the least slot counts.
    let value = _mm512_mask_mov_epi32(_mm512_set1_epi32(missing as i32), m3, v3);
    let value = _mm512_mask_mov_epi32(value, m2, v2);
    let value = _mm512_mask_mov_epi32(_mm512_mask_mov_epi32(value, m1, v1), m0, v0);
    let found = m0 | m1 | m2 | m3;
    let full = _mm512_cmpneq_epi32_mask(_mm512_and_si512(k3, v3), _mm512_set1_epi32(-1));
    let greater = |a, b| _mm512_cmpgt_epu32_mask(a, b);
    let lesser_two = greater(_mm512_min_epu32(k0, k1), _mm512_min_epu32(k2, k3));
    let greater_two = greater(_mm512_max_epu32(k0, k1), _mm512_max_epu32(k2, k3));
    let odd = _mm512_test_epi32_mask(h, _mm512_set1_epi32(1));
    let high = _mm512_test_epi32_mask(h, _mm512_set1_epi32(2));
    let choose = |mask: __mmask16, yes, no| mask & yes | !mask & no;
    let bit = choose(high, choose(odd, greater_two, lesser_two), choose(odd, greater(k2, k3), greater(k0, k1)));
    let mut values = [0; GROUP];
    // SAFETY: 64 bytes, any alignment.
    unsafe { _mm512_storeu_si512(values.as_mut_ptr().cast(), value) };
    Compared { values, found: found.into(), overflowed: (bit & full & !found).into() }
}
#[inline]
#[target_feature(enable = "avx512f")]
fn compact(words: &[u32; GROUP], bits: u32) -> [u32; GROUP] {
    let mut compacted = [0; GROUP];
    // SAFETY: 64 bytes each, any alignment.
    unsafe {
        let words = _mm512_loadu_si512(words.as_ptr().cast());
        _mm512_storeu_si512(compacted.as_mut_ptr().cast(), _mm512_maskz_compress_epi32(bits as u16, words));
    }
    compacted
}

/// Four vectors, each of one slot of eight buckets, in the order 0, 2, 1, 3, 4, 6, 5, 7.
type Columns = [__m512i; 4];
#[inline]
#[target_feature(enable = "avx512f")]
fn load_columns(buckets: &[Bucket; 8]) -> Columns {
    // SAFETY: two buckets each, any alignment.
    let row = |i: usize| unsafe { _mm512_loadu_si512(buckets[2 * i..2 * i + 2].as_ptr().cast()) };
    columns([row(0), row(1), row(2), row(3)])
}
#[inline]
#[target_feature(enable = "avx512f")]
fn columns([r0, r1, r2, r3]: [__m512i; 4]) -> Columns {
    let (even01, odd01) = (_mm512_unpacklo_epi64(r0, r1), _mm512_unpackhi_epi64(r0, r1));
    let (even23, odd23) = (_mm512_unpacklo_epi64(r2, r3), _mm512_unpackhi_epi64(r2, r3));
    [
        _mm512_shuffle_i64x2::<0b10_00_10_00>(even01, even23),
        _mm512_shuffle_i64x2::<0b10_00_10_00>(odd01, odd23),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(even01, even23),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(odd01, odd23),
    ]
}
#[inline]
#[target_feature(enable = "avx512f")]
fn store_columns(buckets: &mut [Bucket; 8], [a, b, c, d]: Columns) {
    let first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    let last = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    let (low_ab, high_ab) = (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    let (low_cd, high_cd) = (_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d));
    let rows = [
        _mm512_permutex2var_epi64(low_ab, first, low_cd),
        _mm512_permutex2var_epi64(high_ab, first, high_cd),
        _mm512_permutex2var_epi64(low_ab, last, low_cd),
        _mm512_permutex2var_epi64(high_ab, last, high_cd),
    ];
    for (i, row) in rows.into_iter().enumerate() {
        // SAFETY: two buckets, any alignment.
        unsafe { _mm512_storeu_si512(buckets[2 * i..2 * i + 2].as_mut_ptr().cast(), row) }
    }
}
#[inline]
#[target_feature(enable = "avx512f")]
fn order(buckets: &mut [Bucket; 8], bits: &[u8; 8]) {
    let before = load_columns(buckets);
    // The key in the high half: the order of the words is that of the keys.
    let [mut a, mut b, mut c, mut d] = before.map(|x| _mm512_rol_epi64::<32>(x));
    // As `with_class_bits` does it: a network of five exchanges, then the places.
    let exchange = |a: &mut __m512i, b: &mut __m512i| {
        (*a, *b) = (_mm512_min_epu64(*a, *b), _mm512_max_epu64(*a, *b));
    };
    exchange(&mut a, &mut b);
    exchange(&mut c, &mut d);
    exchange(&mut a, &mut c);
    exchange(&mut b, &mut d);
    exchange(&mut b, &mut c);
    let bits = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(i64::from_le_bytes(*bits)));
    let bits = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 1, 3, 4, 6, 5, 7), bits);
    let set = |bit: i64| _mm512_test_epi64_mask(bits, _mm512_set1_epi64(bit));
    let (p, q, x, y) = (set(1), set(2), set(4), set(8));
    let choose = |mask, yes, no| _mm512_mask_blend_epi64(mask, no, yes);
    let low0 = choose(x, choose(y, c, b), a);
    let high0 = choose(y, d, choose(x, c, b));
    let low1 = choose(x, a, choose(y, b, c));
    let high1 = choose(y, choose(x, b, c), d);
    let after = [choose(p, high0, low0), choose(p, low0, high0), choose(q, high1, low1), choose(q, low1, high1)];
    let full = _mm512_cmpneq_epi64_mask(before[3], _mm512_set1_epi64(-1));
    let keep = |i: usize| _mm512_mask_rol_epi64::<32>(before[i], full, after[i]);
    store_columns(buckets, [keep(0), keep(1), keep(2), keep(3)]);
}

impl Simd for Avx512 {
    #[inline(always)]
    fn vectorize<W: Work>(self, work: W) -> W::Output {
        #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn run<W: Work>(simd: Avx512, work: W) -> W::Output {
            work.run(simd)
        }
        // SAFETY: `self` proves these.
        unsafe { run(self, work) }
    }
    #[inline(always)]
    fn matches(self, bucket: &Bucket, h: u32) -> u32 {
        // SAFETY: `self` proves AVX-512.
        unsafe { matches(bucket, h) }
    }
    #[inline(always)]
    fn compare(self, buckets: &[Bucket], places: &[u32; GROUP], mixed: &[u32; GROUP], missing: u32) -> Compared {
        let greatest = places.iter().fold(0, |greatest, &place| place.max(greatest));
        assert!((greatest as usize) < buckets.len());
        // SAFETY: `self` proves AVX-512, and the places are below the number of buckets.
        unsafe { compare(buckets, places, mixed, missing) }
    }
    #[inline(always)]
    fn compact(self, words: &[u32; GROUP], bits: u32) -> [u32; GROUP] {
        // SAFETY: `self` proves AVX-512.
        unsafe { compact(words, bits) }
    }
    #[inline(always)]
    fn order(self, buckets: &mut [Bucket; 8], bits: &[u8; 8]) {
        // SAFETY: `self` proves AVX-512.
        unsafe { order(buckets, bits) }
    }
    #[inline(always)]
    fn stream(self, to: &mut Line, from: &[u64; 8]) {
        // SAFETY: `self` proves AVX-512.
        unsafe { stream(to, from) }
    }
    #[inline(always)]
    fn fence(self) {
        // SAFETY: every x86-64 has SSE.
        unsafe { _mm_sfence() }
    }
}
