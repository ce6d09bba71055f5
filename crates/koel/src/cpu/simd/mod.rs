//! What the engine asks of vector instructions: one small trait, one file for each instruction set.
//!
//! The engine's loops are generic over [`Simd`] and compiled once for each set ([`Simd::vectorize`]), so that the compiler
//! vectorises the plain parts (mixing, scaling) by itself, and only comparisons of a bucket and stores past the cache are
//! written by hand.
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

use crate::device::memory::prefetch;
use koel_kernels::map::layout::{EMPTY, class, class_bit, with_class_bits};
use std::hint::select_unpredictable;
use std::sync::OnceLock;

/// Four pairs.
pub type Bucket = [u64; 4];
/// An empty bucket.
pub const EMPTY_BUCKET: Bucket = [EMPTY; 4];

/// A cache line of eight pairs.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Line(pub [u64; 8]);
// SAFETY: words whose bits may be zero.
unsafe impl bytemuck::Zeroable for Line {}
// SAFETY: words, as many bytes as the alignment: no padding.
unsafe impl bytemuck::Pod for Line {}

/// Queries that are compared at a time.
pub const GROUP: usize = 16;
/// What comparing a group with a bucket each told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compared {
    /// The value of each key that is in its bucket; of the others the one given.
    pub values: [u32; GROUP],
    /// Bit `i` is set if key `i` is in its bucket. Empty slots match the ambiguous key.
    pub found: u32,
    /// Bit `i` is set if key `i` is not in its bucket, which is full and has the bit of the key's class set.
    pub overflowed: u32,
}

/// Pairs of a line.
pub const LINE: usize = 8;

/// A loop that is compiled for each instruction set.
pub trait Work {
    /// What it gives.
    type Output;
    /// Runs it. Must be `#[inline(always)]`, and so must what it calls, to be compiled for the set.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// An instruction set that this machine has. The provided methods are the portable ones.
pub trait Simd: Copy {
    /// Runs a loop that is compiled for this set.
    fn vectorize<W: Work>(self, work: W) -> W::Output;

    /// The slots whose key is `h`: bit `2 i` for slot `i`. Empty slots match the ambiguous key.
    #[inline(always)]
    fn matches(self, bucket: &Bucket, h: u32) -> u32 {
        (0..4).fold(0, |bits, i| bits | ((bucket[i] as u32 == h) as u32) << (2 * i))
    }
    /// Whether the bucket is full, and has the bit of this class set.
    #[inline(always)]
    fn overflowed(self, bucket: &Bucket, class: u32) -> bool {
        bucket[3] != EMPTY && class_bit(*bucket, class)
    }
    /// Compares a group of mixed keys with a bucket each. The places must be below the number of buckets.
    #[inline(always)]
    fn compare(self, buckets: &[Bucket], places: &[u32; GROUP], mixed: &[u32; GROUP], missing: u32) -> Compared {
        let mut compared = Compared { values: [missing; GROUP], found: 0, overflowed: 0 };
        for i in 0..GROUP {
            let bucket = &buckets[places[i] as usize];
            let same = self.matches(bucket, mixed[i]);
            let value = (bucket[(same.trailing_zeros() / 2 % 4) as usize] >> 32) as u32;
            compared.values[i] = select_unpredictable(same != 0, value, missing);
            compared.found |= ((same != 0) as u32) << i;
            compared.overflowed |= (self.overflowed(bucket, class(mixed[i])) as u32) << i;
        }
        compared.overflowed &= !compared.found;
        compared
    }
    /// Those of the words whose bit is set, in their order, then anything.
    #[inline(always)]
    fn compact(self, words: &[u32; GROUP], bits: u32) -> [u32; GROUP] {
        let (mut compacted, mut count) = ([0; GROUP], 0);
        for (i, &word) in words.iter().enumerate() {
            compacted[count % GROUP] = word;
            count += (bits >> i & 1) as usize;
        }
        compacted
    }
    /// Orders those of the buckets that are full so that they have these class bits.
    #[inline(always)]
    fn order(self, buckets: &mut [Bucket; 8], bits: &[u8; 8]) {
        for (bucket, &bits) in buckets.iter_mut().zip(bits) {
            if bucket[3] != EMPTY {
                *bucket = with_class_bits(*bucket, bits.into());
            }
        }
    }
    /// Copies a line, past the cache where the machine can. Not seen by other threads before [`fence`](Self::fence).
    #[inline(always)]
    fn stream(self, to: &mut Line, from: &[u64; 8]) {
        to.0 = *from;
    }
    /// Lines that were streamed are seen by whoever sees later stores.
    #[inline(always)]
    fn fence(self) {}
    /// Asks for the line of an address: a hint, which may be wrong.
    #[inline(always)]
    fn ask<T>(self, address: *const T) {
        prefetch(address);
    }
}

/// The instruction sets that the engine is compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// No vector instructions but those that every machine of the architecture has.
    Portable,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, VL, DQ and BW.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// NEON.
    #[cfg(target_arch = "aarch64")]
    Neon,
}
impl Level {
    /// Those that this machine has, the best last.
    pub fn available() -> Vec<Level> {
        let mut levels = vec![Level::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            levels.extend(avx2::Avx2::new().map(|_| Level::Avx2));
            levels.extend(avx512::Avx512::new().map(|_| Level::Avx512));
        }
        #[cfg(target_arch = "aarch64")]
        levels.extend(neon::Neon::new().map(|_| Level::Neon));
        levels
    }
    /// The best that this machine has.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| Level::available().pop().unwrap_or(Level::Portable))
    }
    /// Runs a loop with it; with portable code if this machine has it not.
    #[inline]
    pub fn run<W: Work>(self, work: W) -> W::Output {
        match self {
            Level::Portable => portable::Portable.vectorize(work),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => match avx2::Avx2::new() {
                Some(simd) => simd.vectorize(work),
                None => portable::Portable.vectorize(work),
            },
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => match avx512::Avx512::new() {
                Some(simd) => simd.vectorize(work),
                None => portable::Portable.vectorize(work),
            },
            #[cfg(target_arch = "aarch64")]
            Level::Neon => match neon::Neon::new() {
                Some(simd) => simd.vectorize(work),
                None => portable::Portable.vectorize(work),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::portable::Portable;
    use super::*;
    use koel_kernels::hash::mix::splitmix_at;

    /// Every set does what the portable one does, on buckets of every fill, with keys that match and keys that do not.
    struct Same {
        seed: u64,
    }
    impl Work for Same {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let mut buckets = [EMPTY_BUCKET; 8];
            let mut bits = [0; 8];
            for (i, bucket) in buckets.iter_mut().enumerate() {
                let word = splitmix_at(self.seed, 100 + i as u32);
                bits[i] = word as u8 & 15;
                let fill = if word >> 8 & 3 == 0 { 4 } else { (word >> 16) as usize % 5 };
                for (j, slot) in bucket.iter_mut().enumerate().take(fill) {
                    // Few different bits, so that signed and unsigned order differ and values decide nothing.
                    let key = (splitmix_at(self.seed, (i * 4 + j) as u32) as u32 & 0xC000_000F) | (j as u32) << 8;
                    *slot = splitmix_at(!self.seed, j as u32) << 32 | key as u64;
                }
            }
            for bucket in &buckets {
                for h in bucket.iter().map(|&p| p as u32).chain([0, 5, u32::MAX, self.seed as u32]) {
                    assert_eq!(simd.matches(bucket, h), Portable.matches(bucket, h), "{bucket:x?} {h:x}");
                }
                for class in 0..4 {
                    assert_eq!(
                        simd.overflowed(bucket, class),
                        Portable.overflowed(bucket, class),
                        "{bucket:x?} {class}"
                    );
                }
                simd.ask(&buckets);
            }
            for round in 0..4 {
                let word = |i: usize| splitmix_at(self.seed, 200 + round * 16 + i as u32);
                let places = std::array::from_fn(|i| word(i) as u32 % 8);
                let mixed = std::array::from_fn(|i| match word(i) >> 32 & 15 {
                    0 => u32::MAX,
                    1 => 0,
                    2 => (word(i) >> 36) as u32,
                    slot => buckets[if slot < 7 { slot } else { places[i] as u64 } as usize][slot as usize % 4] as u32,
                });
                let found = simd.compare(&buckets, &places, &mixed, round);
                assert_eq!(
                    found,
                    Portable.compare(&buckets, &places, &mixed, round),
                    "{buckets:x?} {places:?} {mixed:x?}"
                );
                let bits = word(0) as u32 & 0xFFFF;
                let kept = bits.count_ones() as usize;
                assert_eq!(simd.compact(&mixed, bits)[..kept], Portable.compact(&mixed, bits)[..kept]);
                let expected = (0..GROUP).filter(|i| bits >> i & 1 != 0).map(|i| mixed[i]).collect::<Vec<_>>();
                assert_eq!(simd.compact(&mixed, bits)[..kept], expected);
            }
            let mut expected = buckets;
            Portable.order(&mut expected, &bits);
            let before = buckets;
            simd.order(&mut buckets, &bits);
            assert_eq!(buckets, expected, "of {before:x?} with {bits:?}");
            for (bucket, bits) in buckets.iter().zip(bits).filter(|(bucket, _)| bucket[3] != EMPTY) {
                (0..4).for_each(|class| assert_eq!(simd.overflowed(bucket, class), bits >> class & 1 != 0));
            }
            let mut line = Line([0; 8]);
            simd.stream(&mut line, &[1, 2, 3, 4, 5, 6, 7, self.seed]);
            simd.fence();
            assert_eq!(line.0, [1, 2, 3, 4, 5, 6, 7, self.seed]);
        }
    }
    #[test]
    fn every_set_agrees_with_the_portable_one() {
        for level in Level::available() {
            (0..if cfg!(miri) { 20 } else { 2000 }).for_each(|seed| level.run(Same { seed }));
        }
    }
}
