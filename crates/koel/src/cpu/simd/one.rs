//! Comparing one key with the keys of a bucket.
//!
//! Which slot holds a key, and which bucket, cannot be predicted: nothing here branches.
use super::Heads;
use koel_kernels::table::layout::{Layout, Number, class};
use std::hint::select_unpredictable;

/// Returns a bit for each head with this mixed key. An empty slot has that of the ambiguous key.
#[inline(always)]
pub(in crate::cpu) fn equal_heads<L: Layout>(heads: &Heads, mixed: L::Mixed) -> u32 {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    // SAFETY: the program is compiled for processors that have these instructions.
    return unsafe { sse2::equal_heads::<L>(heads, mixed) };
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
    compared::<L>(heads, mixed)
}
#[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "sse2"))))]
fn compared<L: Layout>(heads: &Heads, mixed: L::Mixed) -> u32 {
    let [a, b, c, d] = heads.map(|head| u32::from(L::key_in(head) == mixed));
    a | b << 1 | c << 2 | d << 3
}
/// Returns whether a full bucket with these heads has the class bit of the hash `h`: what
/// [`class_bit`](koel_kernels::table::layout::class_bit) defines. Computes one of the four bits.
#[inline(always)]
pub(in crate::cpu) fn has_class_bit<L: Layout>(heads: &Heads, h: u32) -> bool {
    let key = |slot: usize| L::key_in(heads[slot & 3]);
    let class = class(h) as usize;
    // Of the pairs of keys, the places of the lesser, or of the greater.
    let greater = class & 1;
    let (low, high) = (usize::from(key(0) > key(1)), usize::from(key(2) > key(3)));
    let left = select_unpredictable(class < 2, 2 * class, low ^ greater);
    let right = select_unpredictable(class < 2, 2 * class + 1, 2 + (high ^ greater));
    key(left) > key(right)
}

/// The vector instructions that each processor of this architecture has.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod sse2 {
    use super::*;
    use std::arch::x86_64::*;

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn equal_heads<L: Layout>(heads: &Heads, mixed: L::Mixed) -> u32 {
        let two = |i: usize| _mm_set_epi64x(heads[i + 1] as i64, heads[i] as i64);
        let (ab, cd) = (two(0), two(2));
        // The even words of each, then the odd ones.
        let words = |ab, cd, odd| {
            let (ab, cd) = (_mm_castsi128_ps(ab), _mm_castsi128_ps(cd));
            _mm_castps_si128(if odd {
                _mm_shuffle_ps::<0b11_01_11_01>(ab, cd)
            } else {
                _mm_shuffle_ps::<0b10_00_10_00>(ab, cd)
            })
        };
        let equal = if size_of::<L::Mixed>() == 4 {
            _mm_cmpeq_epi32(words(ab, cd, false), _mm_set1_epi32(mixed.widened() as i32))
        } else {
            let all = _mm_set1_epi64x(mixed.widened() as i64);
            let (ab, cd) = (_mm_cmpeq_epi32(ab, all), _mm_cmpeq_epi32(cd, all));
            _mm_and_si128(words(ab, cd, false), words(ab, cd, true))
        };
        _mm_movemask_ps(_mm_castsi128_ps(equal)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koel_kernels::hash::mix::splitmix_at;
    use koel_kernels::table::layout::{EMPTY, Narrow, Wide, class_bit};

    fn check<L: Layout>() {
        for i in 0..1000 {
            // Few words, so that some are equal, in part or in full.
            let word = |j| match splitmix_at(i, j) {
                word if word.is_multiple_of(7) => EMPTY,
                word => word & 0x8000_0003_8000_0003,
            };
            let heads = [0, 1, 2, 3].map(word);
            let mixed = L::Mixed::narrowed(word(4));
            assert_eq!(equal_heads::<L>(&heads, mixed), compared::<L>(&heads, mixed), "{heads:x?}");
            let distinct = [0, 1, 2, 3].map(|j| splitmix_at(i, j));
            for h in 0..4 {
                let expected = class_bit::<L>(distinct, class(h));
                assert_eq!(has_class_bit::<L>(&distinct, h), expected, "{distinct:x?} {h}");
            }
        }
    }
    #[test]
    fn a_key_is_compared_as_defined() {
        check::<Narrow>();
        check::<Wide<u64, u32>>();
    }
}
