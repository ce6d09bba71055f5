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
/// Loads a bucket of a set.
///
/// # Safety
/// The place is below the number of buckets.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load_bucket<T>(buckets: &[T], place: u32) -> __m256i {
    const { assert!(size_of::<T>() == 32) };
    debug_assert!((place as usize) < buckets.len());
    // SAFETY: in bounds by the caller's contract; 32 bytes, any alignment.
    unsafe { _mm256_loadu_si256(buckets.as_ptr().add(place as usize).cast()) }
}
/// Returns whether every place is a bucket, of `each` elements of a table of `all`.
#[inline(always)]
pub(super) fn are_in(places: &[u32; GROUP], each: usize, all: usize) -> bool {
    let greatest = places.iter().fold(0, |greatest, &place| place.max(greatest));
    (greatest as usize + 1) * each <= all
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
/// Transposes eight buckets into the low and the high halves of their four words: keys and values
/// of a map, slots `2 i` and `2 i + 1` of a set.
#[inline]
#[target_feature(enable = "avx2")]
fn gather(bucket: impl Fn(usize) -> __m256i) -> [(__m256i, __m256i); 4] {
    // In this order the halves come out in the order of the buckets.
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
    let bucket = |i: usize| unsafe { load_at(buckets, places[i] as usize * BUCKET) };
    let [(k0, v0), (k1, v1), (k2, v2), (k3, v3)] = gather(bucket);
    let h = load32(mixed);
    let equal = |keys| _mm256_cmpeq_epi32(keys, h);
    let (m0, m1, m2, m3) = (equal(k0), equal(k1), equal(k2), equal(k3));
    // Blend the first match last: if an ambiguous key matches several slots, the lowest counts.
    let value = _mm256_blendv_epi8(_mm256_set1_epi32(missing as i32), v3, m3);
    let value = _mm256_blendv_epi8(_mm256_blendv_epi8(value, v2, m2), v1, m1);
    let value = _mm256_blendv_epi8(value, v0, m0);
    let found = lanes(_mm256_or_si256(_mm256_or_si256(m0, m1), _mm256_or_si256(m2, m3)));
    let not_full = _mm256_cmpeq_epi32(_mm256_and_si256(k3, v3), _mm256_set1_epi32(-1));
    let lesser_two = greater32(_mm256_min_epu32(k0, k1), _mm256_min_epu32(k2, k3));
    let greater_two = greater32(_mm256_max_epu32(k0, k1), _mm256_max_epu32(k2, k3));
    let bit = of_class32(h, [greater32(k0, k1), greater32(k2, k3), lesser_two, greater_two]);
    let mut values = [0; 8];
    // SAFETY: 32 bytes, any alignment.
    unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), value) };
    (values, [found, !lanes(not_full) & 0xFF, bit])
}
/// Returns all ones in the lanes where `a` is greater than `b`.
#[inline]
#[target_feature(enable = "avx2")]
fn greater32(a: __m256i, b: __m256i) -> __m256i {
    // AVX2 compares signed numbers only: flip the highest bit.
    let high = _mm256_set1_epi32(i32::MIN);
    _mm256_cmpgt_epi32(_mm256_xor_si256(a, high), _mm256_xor_si256(b, high))
}
/// Returns the lanes in which the class of the mixed key in `h` has its bit, given those of each
/// class.
#[inline]
#[target_feature(enable = "avx2")]
fn of_class32(h: __m256i, classes: [__m256i; 4]) -> u32 {
    // Blends test the sign: bits 0 and 1 of the mixed key.
    let choose = |sign, yes, no| _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(sign));
    let [c0, c1, c2, c3] = classes.map(|lanes| _mm256_castsi256_ps(lanes));
    let (odd, upper) = (_mm256_slli_epi32::<31>(h), _mm256_slli_epi32::<30>(h));
    _mm256_movemask_ps(choose(upper, choose(odd, c3, c2), choose(odd, c1, c0))) as u32
}
/// Loads eight mixed keys.
#[inline]
#[target_feature(enable = "avx2")]
fn load32(mixed: &[u32; 8]) -> __m256i {
    // SAFETY: 32 bytes, any alignment.
    unsafe { _mm256_loadu_si256(mixed.as_ptr().cast()) }
}
/// Compares eight keys with buckets of a set. Returns the bits of found keys, full buckets and set
/// class bits.
///
/// # Safety
/// The places are below the number of buckets.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn keys32(buckets: &[[u32; 8]], places: &[u32; 8], mixed: &[u32; 8]) -> [u32; 3] {
    // SAFETY: by the caller's contract.
    let pairs = gather(|i| unsafe { load_bucket(buckets, places[i]) });
    let h = load32(mixed);
    let either =
        |(even, odd)| _mm256_or_si256(_mm256_cmpeq_epi32(even, h), _mm256_cmpeq_epi32(odd, h));
    let found = pairs.into_iter().fold(0, |found, pair| found | lanes(either(pair)));
    let not_full = lanes(_mm256_cmpeq_epi32(pairs[3].1, _mm256_set1_epi32(-1)));
    let bit = of_class32(h, pairs.map(|(even, odd)| greater32(even, odd)));
    [found, !not_full & 0xFF, bit]
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
    let keys = columns([row(0, 0), row(1, 0), row(2, 0), row(3, 0)]);
    let [v0, v1, v2, v3] =
        columns([row(0, BUCKET), row(1, BUCKET), row(2, BUCKET), row(3, BUCKET)]);
    let ([m0, m1, m2, m3], bits) = look64(keys, mixed);
    let value = _mm256_blendv_epi8(_mm256_set1_epi64x(missing as i64), v3, m3);
    let value = _mm256_blendv_epi8(_mm256_blendv_epi8(value, v2, m2), v1, m1);
    let value = _mm256_blendv_epi8(value, v0, m0);
    let mut values = [0; 4];
    // SAFETY: 32 bytes, any alignment.
    unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), value) };
    (values, bits)
}
/// Compares four keys with buckets that have one key per word, in columns. Returns the matches in
/// each column, and the bits of found keys, full buckets and set class bits.
#[inline]
#[target_feature(enable = "avx2")]
fn look64([k0, k1, k2, k3]: [__m256i; 4], mixed: &[u64; 4]) -> ([__m256i; 4], [u32; 3]) {
    let h = load(mixed);
    let matches = [k0, k1, k2, k3].map(|keys| _mm256_cmpeq_epi64(keys, h));
    let [m0, m1, m2, m3] = matches;
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
    (matches, [found, !not_full & 0xF, lanes64(bit)])
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
        assert!(are_in(places, BUCKET, buckets.len()));
        let mut compared = Compared::none(0);
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
        assert!(are_in(places, 2 * BUCKET, buckets.len()));
        let mut compared = Compared::none(0);
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
    fn keys32(
        self,
        buckets: &[[u32; 8]],
        places: &[u32; GROUP],
        mixed: &[u32; GROUP],
    ) -> Compared<()> {
        assert!(are_in(places, 1, buckets.len()));
        let mut compared = Compared::none(());
        let (places, mixed) = (places.as_chunks().0, mixed.as_chunks().0);
        for half in 0..2 {
            // SAFETY: `self` proves AVX2, and the places are below the number of buckets.
            let bits = unsafe { keys32(buckets, &places[half], &mixed[half]) };
            compared.add(bits, half * 8);
        }
        compared
    }
    #[inline(always)]
    fn keys64(
        self,
        buckets: &[[u64; 4]],
        places: &[u32; GROUP],
        mixed: &[u64; GROUP],
    ) -> Compared<()> {
        assert!(are_in(places, 1, buckets.len()));
        let mut compared = Compared::none(());
        for (quarter, mixed) in mixed.as_chunks().0.iter().enumerate() {
            // SAFETY: as above.
            let (_, bits) = unsafe {
                let bucket = |i: usize| load_bucket(buckets, places[quarter * 4 + i]);
                look64(columns([bucket(0), bucket(1), bucket(2), bucket(3)]), mixed)
            };
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
