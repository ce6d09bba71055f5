//! AVX-512: comparisons return masks, and eight buckets are ordered at once.
use super::avx2::{Avx2, are_in, load, load_at, load_bucket};
use super::{Compared, GROUP, Heads, LINE, Line, Simd, Work};
use koel_kernels::table::layout::BUCKET;
use std::arch::x86_64::*;

/// Proof that the machine has AVX-512 F, VL, DQ and BW, and what [`Avx2`] proves.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());
impl Avx512 {
    /// Detects AVX-512; `None` if the machine lacks it.
    #[inline]
    pub(super) fn new() -> Option<Avx512> {
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
fn slot32(heads: &Heads, mixed: u32) -> Option<usize> {
    let bits = _mm256_cmpeq_epi32_mask(load(heads), _mm256_set1_epi32(mixed as i32)) & 0x55;
    (bits != 0).then_some(bits.trailing_zeros() as usize / 2)
}
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn slot64(heads: &Heads, mixed: u64) -> Option<usize> {
    let bits = _mm256_cmpeq_epi64_mask(load(heads), _mm256_set1_epi64x(mixed as i64));
    (bits != 0).then_some(bits.trailing_zeros() as usize)
}
#[inline]
#[target_feature(enable = "avx512f")]
fn stream(to: &mut Line, from: &[u64; LINE]) {
    // SAFETY: 64 bytes each; `to` is aligned to 64.
    unsafe {
        _mm512_stream_si512(to.0.as_mut_ptr().cast(), _mm512_loadu_si512(from.as_ptr().cast()))
    }
}

/// Transposes eight buckets into four vectors, one per word.
#[inline]
#[target_feature(enable = "avx512f")]
fn gather_columns(bucket: impl Fn(usize) -> __m256i) -> Columns {
    let row =
        |low, high| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(bucket(low)), bucket(high));
    // In this order the columns come out in the order of the buckets.
    columns([row(0, 2), row(1, 3), row(4, 6), row(5, 7)])
}
/// Splits one word of eight and eight buckets into sixteen low and sixteen high halves: keys and
/// values of a map, slots `2 i` and `2 i + 1` of a set.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(first: __m512i, last: __m512i) -> (__m512i, __m512i) {
    let keys = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    let values = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    (_mm512_permutex2var_epi32(first, keys, last), _mm512_permutex2var_epi32(first, values, last))
}
/// Compares sixteen keys.
///
/// # Safety
/// The places are below the number of buckets.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn compare32(
    buckets: &[u64],
    places: &[u32; GROUP],
    mixed: &[u32; GROUP],
    missing: u32,
) -> Compared<u32> {
    // SAFETY: by the caller's contract.
    let bucket = |i: usize| unsafe { load_at(buckets, places[i] as usize * BUCKET) };
    let (first, last) = (gather_columns(bucket), gather_columns(|i| bucket(i + 8)));
    let (k0, v0) = halves(first[0], last[0]);
    let (k1, v1) = halves(first[1], last[1]);
    let (k2, v2) = halves(first[2], last[2]);
    let (k3, v3) = halves(first[3], last[3]);
    // SAFETY: 64 bytes, any alignment.
    let h = unsafe { _mm512_loadu_si512(mixed.as_ptr().cast()) };
    let (m0, m1) = (_mm512_cmpeq_epi32_mask(k0, h), _mm512_cmpeq_epi32_mask(k1, h));
    let (m2, m3) = (_mm512_cmpeq_epi32_mask(k2, h), _mm512_cmpeq_epi32_mask(k3, h));
    // Blend the first match last: if an ambiguous key matches several slots, the lowest counts.
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
    let bit = choose(
        high,
        choose(odd, greater_two, lesser_two),
        choose(odd, greater(k2, k3), greater(k0, k1)),
    );
    let mut values = [0; GROUP];
    // SAFETY: 64 bytes, any alignment.
    unsafe { _mm512_storeu_si512(values.as_mut_ptr().cast(), value) };
    Compared {
        values,
        found: found.into(),
        full: full.into(),
        overflowed: (bit & full & !found).into(),
    }
}
/// Compares eight of the keys, starting at key `i`. Returns the values, and the bits of found keys,
/// full buckets and set class bits.
///
/// # Safety
/// The places are below the number of buckets.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn compare64(
    buckets: &[u64],
    places: &[u32; GROUP],
    mixed: &[u64; GROUP],
    missing: u64,
    i: usize,
) -> ([u64; 8], [u32; 3]) {
    let columns = |from: usize| {
        let at = |j: usize| places[i + j] as usize * 2 * BUCKET + from;
        // SAFETY: by the caller's contract.
        gather_columns(|j| unsafe { load_at(buckets, at(j)) })
    };
    let (keys, [v0, v1, v2, v3]) = (columns(0), columns(BUCKET));
    let ([m0, m1, m2, m3], full, bit) = look64(keys, mixed, i);
    // Blend the first match last: if an ambiguous key matches several slots, the lowest counts.
    let value = _mm512_mask_mov_epi64(_mm512_set1_epi64(missing as i64), m3, v3);
    let value = _mm512_mask_mov_epi64(value, m2, v2);
    let value = _mm512_mask_mov_epi64(_mm512_mask_mov_epi64(value, m1, v1), m0, v0);
    let mut values = [0; 8];
    // SAFETY: 64 bytes, any alignment.
    unsafe { _mm512_storeu_si512(values.as_mut_ptr().cast(), value) };
    (values, [(m0 | m1 | m2 | m3).into(), full.into(), bit.into()])
}
/// Compares eight keys, starting at key `i`, with buckets that have one key per word, in columns.
/// Returns the matches in each column, and the bits of full buckets and set class bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn look64(
    [k0, k1, k2, k3]: Columns,
    mixed: &[u64; GROUP],
    i: usize,
) -> ([__mmask8; 4], __mmask8, __mmask8) {
    // SAFETY: 64 bytes, any alignment.
    let h = unsafe { _mm512_loadu_si512(mixed[i..i + 8].as_ptr().cast()) };
    let found = [k0, k1, k2, k3].map(|keys| _mm512_cmpeq_epi64_mask(keys, h));
    let full = _mm512_cmpneq_epi64_mask(k3, _mm512_set1_epi64(-1));
    let greater = |a, b| _mm512_cmpgt_epu64_mask(a, b);
    let lesser_two = greater(_mm512_min_epu64(k0, k1), _mm512_min_epu64(k2, k3));
    let greater_two = greater(_mm512_max_epu64(k0, k1), _mm512_max_epu64(k2, k3));
    // The class is bits 32 and 33 of the mixed key.
    let odd = _mm512_test_epi64_mask(h, _mm512_set1_epi64(1 << 32));
    let high = _mm512_test_epi64_mask(h, _mm512_set1_epi64(2 << 32));
    let choose = |mask: __mmask8, yes, no| mask & yes | !mask & no;
    let bit = choose(
        high,
        choose(odd, greater_two, lesser_two),
        choose(odd, greater(k2, k3), greater(k0, k1)),
    );
    (found, full, bit)
}
/// Compares sixteen keys with buckets of a set.
///
/// # Safety
/// The places are below the number of buckets.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn keys32(
    buckets: &[[u32; 8]],
    places: &[u32; GROUP],
    mixed: &[u32; GROUP],
) -> Compared<()> {
    // SAFETY: by the caller's contract.
    let bucket = |i: usize| unsafe { load_bucket(buckets, places[i]) };
    let (first, last) = (gather_columns(bucket), gather_columns(|i| bucket(i + 8)));
    // SAFETY: 64 bytes, any alignment.
    let h = unsafe { _mm512_loadu_si512(mixed.as_ptr().cast()) };
    let (mut found, mut greater, mut full) = (0, [0; 4], 0);
    for pair in 0..4 {
        let (even, odd) = halves(first[pair], last[pair]);
        found |= _mm512_cmpeq_epi32_mask(even, h) | _mm512_cmpeq_epi32_mask(odd, h);
        greater[pair] = _mm512_cmpgt_epu32_mask(even, odd);
        full = _mm512_cmpneq_epi32_mask(odd, _mm512_set1_epi32(-1));
    }
    // Pair `c` has the bit of class `c`: the lowest bits of the mixed key.
    let odd = _mm512_test_epi32_mask(h, _mm512_set1_epi32(1));
    let high = _mm512_test_epi32_mask(h, _mm512_set1_epi32(2));
    let choose = |mask: __mmask16, yes, no| mask & yes | !mask & no;
    let [g0, g1, g2, g3] = greater;
    let bit = choose(high, choose(odd, g3, g2), choose(odd, g1, g0));
    let mut compared = Compared::none(());
    compared.add([found.into(), full.into(), bit.into()], 0);
    compared
}
#[inline]
#[target_feature(enable = "avx512f")]
fn compact32(words: &[u32; GROUP], bits: u32) -> [u32; GROUP] {
    let mut compacted = [0; GROUP];
    // SAFETY: 64 bytes each, any alignment.
    unsafe {
        let words = _mm512_loadu_si512(words.as_ptr().cast());
        _mm512_storeu_si512(
            compacted.as_mut_ptr().cast(),
            _mm512_maskz_compress_epi32(bits as u16, words),
        );
    }
    compacted
}

/// See [`tagged`](Simd::tagged).
///
/// # Safety
/// There are a slot of each place and one behind it.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn tagged(slots: &[u64], shift: u32, tags: &[u32; GROUP], found: &mut [u32; GROUP]) -> u16 {
    let slots = slots.as_ptr().cast::<i64>();
    // SAFETY: 64 bytes, any alignment.
    let tag = unsafe { _mm512_loadu_si512(tags.as_ptr().cast()) };
    let places = _mm512_srl_epi32(tag, _mm_cvtsi32_si128(shift as i32));
    let (low, high) = (_mm512_castsi512_si256(places), _mm512_extracti64x4_epi64::<1>(places));
    // SAFETY: by the caller's contract.
    let (first, last) = unsafe {
        (_mm512_i32gather_epi64::<8>(low, slots), _mm512_i32gather_epi64::<8>(high, slots))
    };
    let (_, of_slot) = halves(first, last);
    let is_here = _mm512_cmpeq_epi32_mask(of_slot, tag);
    let elsewhere = !is_here;
    // SAFETY: as above.
    let (first, last) = unsafe {
        let next = slots.add(1);
        (
            _mm512_mask_i32gather_epi64::<8>(first, elsewhere as u8, low, next),
            _mm512_mask_i32gather_epi64::<8>(last, (elsewhere >> 8) as u8, high, next),
        )
    };
    // Slots found at once are as before.
    let (number, of_slot) = halves(first, last);
    // SAFETY: 64 bytes, any alignment.
    unsafe { _mm512_storeu_si512(found.as_mut_ptr().cast(), number) };
    _mm512_cmpeq_epi32_mask(of_slot, tag) & _mm512_test_epi32_mask(number, number)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn compact64(words: &[u64; GROUP], bits: u32) -> [u64; GROUP] {
    // The second half goes after what the first half leaves, and fits there.
    let mut compacted = [0; GROUP];
    let kept = (bits & 0xFF).count_ones() as usize;
    // SAFETY: 64 bytes each, any alignment; `kept` is at most 8.
    unsafe {
        let half = |i: usize| _mm512_loadu_si512(words[i..i + 8].as_ptr().cast());
        let to = compacted.as_mut_ptr();
        _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi64(bits as u8, half(0)));
        _mm512_storeu_si512(
            to.add(kept).cast(),
            _mm512_maskz_compress_epi64((bits >> 8) as u8, half(8)),
        );
    }
    compacted
}

/// Four vectors, each of one slot of eight buckets, in the order 0, 2, 1, 3, 4, 6, 5, 7.
type Columns = [__m512i; 4];
#[inline]
#[target_feature(enable = "avx512f")]
fn load_columns(buckets: &[[u64; 4]; 8]) -> Columns {
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
fn rows([a, b, c, d]: Columns) -> [__m512i; 4] {
    let first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    let last = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    let (low_ab, high_ab) = (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    let (low_cd, high_cd) = (_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d));
    [
        _mm512_permutex2var_epi64(low_ab, first, low_cd),
        _mm512_permutex2var_epi64(high_ab, first, high_cd),
        _mm512_permutex2var_epi64(low_ab, last, low_cd),
        _mm512_permutex2var_epi64(high_ab, last, high_cd),
    ]
}
/// Returns the class bits of eight buckets, in column order.
#[inline]
#[target_feature(enable = "avx512f")]
fn wanted(bits: &[u8; 8]) -> Wanted {
    let bits = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(i64::from_le_bytes(*bits)));
    let bits = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 1, 3, 4, 6, 5, 7), bits);
    let set = |bit: i64| _mm512_test_epi64_mask(bits, _mm512_set1_epi64(bit));
    [set(1), set(2), set(4), set(8)]
}
/// One mask per class.
type Wanted = [__mmask8; 4];
/// Applies the placement of `with_class_bits` to four columns that are sorted by key, or to columns
/// permuted along with them.
#[inline]
#[target_feature(enable = "avx512f")]
fn placed([a, b, c, d]: Columns, [p, q, x, y]: Wanted) -> Columns {
    let choose = |mask, yes, no| _mm512_mask_blend_epi64(mask, no, yes);
    let low0 = choose(x, choose(y, c, b), a);
    let high0 = choose(y, d, choose(x, c, b));
    let low1 = choose(x, a, choose(y, b, c));
    let high1 = choose(y, choose(x, b, c), d);
    [choose(p, high0, low0), choose(p, low0, high0), choose(q, high1, low1), choose(q, low1, high1)]
}
/// Exchanges of the sorting network of `with_class_bits`.
const EXCHANGES: [(usize, usize); 5] = [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)];

#[inline]
#[target_feature(enable = "avx512f")]
fn order32(buckets: &mut [[u64; 4]; 8], bits: &[u8; 8]) {
    let before = load_columns(buckets);
    // Rotate the key into the high half: words then sort by key.
    let turned = |i: usize| _mm512_rol_epi64::<32>(before[i]);
    let mut pairs = [turned(0), turned(1), turned(2), turned(3)];
    for (i, j) in EXCHANGES {
        (pairs[i], pairs[j]) =
            (_mm512_min_epu64(pairs[i], pairs[j]), _mm512_max_epu64(pairs[i], pairs[j]));
    }
    let after = placed(pairs, wanted(bits));
    let full = _mm512_cmpneq_epi64_mask(before[3], _mm512_set1_epi64(-1));
    let keep = |i: usize| _mm512_mask_rol_epi64::<32>(before[i], full, after[i]);
    for (i, row) in rows([keep(0), keep(1), keep(2), keep(3)]).into_iter().enumerate() {
        // SAFETY: two buckets, any alignment.
        unsafe { _mm512_storeu_si512(buckets[2 * i..2 * i + 2].as_mut_ptr().cast(), row) }
    }
}
#[inline]
#[target_feature(enable = "avx512f")]
fn order64(buckets: &mut [[u64; 8]; 8], bits: &[u8; 8]) {
    // SAFETY: one bucket each, any alignment.
    let bucket = |i: usize| unsafe { _mm512_loadu_si512(buckets[i].as_ptr().cast()) };
    // Heads and values of two buckets each.
    let heads = |i| _mm512_shuffle_i64x2::<0b01_00_01_00>(bucket(i), bucket(i + 1));
    let behind = |i| _mm512_shuffle_i64x2::<0b11_10_11_10>(bucket(i), bucket(i + 1));
    let keys_before = columns([heads(0), heads(2), heads(4), heads(6)]);
    let values_before = columns([behind(0), behind(2), behind(4), behind(6)]);
    let (mut keys, mut values) = (keys_before, values_before);
    for (i, j) in EXCHANGES {
        let swap = _mm512_cmpgt_epu64_mask(keys[i], keys[j]);
        (keys[i], keys[j]) =
            (_mm512_min_epu64(keys[i], keys[j]), _mm512_max_epu64(keys[i], keys[j]));
        let choose = |yes, no| _mm512_mask_blend_epi64(swap, no, yes);
        (values[i], values[j]) = (choose(values[j], values[i]), choose(values[i], values[j]));
    }
    let wanted = wanted(bits);
    let full = _mm512_cmpneq_epi64_mask(keys_before[3], _mm512_set1_epi64(-1));
    let keep = |before: Columns, after: Columns| {
        let keep = |i: usize| _mm512_mask_blend_epi64(full, before[i], after[i]);
        rows([keep(0), keep(1), keep(2), keep(3)])
    };
    let (keys, values) =
        (keep(keys_before, placed(keys, wanted)), keep(values_before, placed(values, wanted)));
    for i in 0..4 {
        let even = _mm512_shuffle_i64x2::<0b01_00_01_00>(keys[i], values[i]);
        let odd = _mm512_shuffle_i64x2::<0b11_10_11_10>(keys[i], values[i]);
        // SAFETY: one bucket each, any alignment.
        unsafe {
            _mm512_storeu_si512(buckets[2 * i].as_mut_ptr().cast(), even);
            _mm512_storeu_si512(buckets[2 * i + 1].as_mut_ptr().cast(), odd);
        }
    }
}

impl Simd for Avx512 {
    #[inline(always)]
    fn vectorize<W: Work>(self, work: W) -> W::Output {
        #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn run<W: Work>(simd: Avx512, work: W) -> W::Output {
            work.run(simd)
        }
        // SAFETY: `self` proves these features.
        unsafe { run(self, work) }
    }
    #[inline(always)]
    fn slot32(self, heads: &Heads, mixed: u32) -> Option<usize> {
        // SAFETY: `self` proves AVX-512.
        unsafe { slot32(heads, mixed) }
    }
    #[inline(always)]
    fn slot64(self, heads: &Heads, mixed: u64) -> Option<usize> {
        // SAFETY: `self` proves AVX-512.
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
        // SAFETY: `self` proves AVX-512, and the places are below the number of buckets.
        unsafe { compare32(buckets, places, mixed, missing) }
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
        for half in [0, 8] {
            // SAFETY: as above.
            let (values, bits) = unsafe { compare64(buckets, places, mixed, missing, half) };
            compared.values[half..][..8].copy_from_slice(&values);
            compared.add(bits, half);
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
        // SAFETY: `self` proves AVX-512, and the places are below the number of buckets.
        unsafe { keys32(buckets, places, mixed) }
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
        for half in [0, 8] {
            // SAFETY: as above.
            let ([m0, m1, m2, m3], full, bit) = unsafe {
                let bucket = |i: usize| load_bucket(buckets, places[half + i]);
                look64(gather_columns(bucket), mixed, half)
            };
            compared.add([(m0 | m1 | m2 | m3).into(), full.into(), bit.into()], half);
        }
        compared
    }
    #[inline(always)]
    fn compact32(self, words: &[u32; GROUP], bits: u32) -> [u32; GROUP] {
        // SAFETY: `self` proves AVX-512.
        unsafe { compact32(words, bits) }
    }
    #[inline(always)]
    fn compact64(self, words: &[u64; GROUP], bits: u32) -> [u64; GROUP] {
        // SAFETY: `self` proves AVX-512.
        unsafe { compact64(words, bits) }
    }
    #[inline(always)]
    fn tagged(
        self,
        slots: &[u64],
        shift: u32,
        tags: &[u32; GROUP],
        found: &mut [u32; GROUP],
    ) -> u16 {
        // Places are indices of gathers: 31 bits.
        assert!((1..u32::BITS).contains(&shift));
        assert!(slots.len() > (u32::MAX >> shift) as usize + 1);
        // SAFETY: `self` proves AVX-512; there is a slot behind that of the highest place.
        unsafe { tagged(slots, shift, tags, found) }
    }
    #[inline(always)]
    fn order32(self, buckets: &mut [[u64; 4]; 8], bits: &[u8; 8]) {
        // SAFETY: `self` proves AVX-512.
        unsafe { order32(buckets, bits) }
    }
    #[inline(always)]
    fn order64(self, buckets: &mut [[u64; 8]; 8], bits: &[u8; 8]) {
        // SAFETY: `self` proves AVX-512.
        unsafe { order64(buckets, bits) }
    }
    #[inline(always)]
    fn stream(self, to: &mut Line, from: &[u64; LINE]) {
        // SAFETY: `self` proves AVX-512.
        unsafe { stream(to, from) }
    }
    #[inline(always)]
    fn fence(self) {
        // SAFETY: every x86-64 has SSE.
        unsafe { _mm_sfence() }
    }
}
