//! Fingerprints: from 128 bits to 64, by a function drawn from a universal family.
use crate::hash::mix::splitmix_at;
use koel_simt::unroll;

/// A hash function from 128 bits to 64: a kernel argument.
///
/// Each half is a vector multiply-shift (Dietzfelbinger 1996): the four 32-bit words of the key are
/// multiplied by random 64-bit numbers and added to another one, modulo 2^64; the result is the
/// high word of the sum. The function is strongly universal, and the halves are drawn
/// independently: two different keys, chosen without knowledge of the draw, share their fingerprint
/// with probability 2^-64. Keys crafted with that knowledge can collide at will, so equal
/// fingerprints never count as equal keys.
///
/// Costs eight products of 32 and 64 bits, of which the low 64 bits count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Fingerprint {
    /// For each half, the factors of the key's words, lowest word first, and the addend.
    constants: [[u64; 5]; 2],
}
impl Fingerprint {
    /// Returns the function of a seed.
    pub fn new(seed: u64) -> Fingerprint {
        let half = |half: u32| core::array::from_fn(|i| splitmix_at(seed, half * 5 + i as u32));
        Fingerprint { constants: [half(0), half(1)] }
    }
    /// Returns the fingerprint of a key.
    #[inline(always)]
    pub fn of(&self, key: u128) -> u64 {
        let [low, high] = [self.half(0, key), self.half(1, key)];
        low | high << 32
    }
    #[inline(always)]
    fn half(&self, half: usize, key: u128) -> u64 {
        let constants = &self.constants[half];
        let mut sum = constants[4];
        unroll::<4>(|i| {
            sum = sum.wrapping_add(constants[i].wrapping_mul((key >> (32 * i)) as u32 as u64))
        });
        sum >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_match_big_integers() {
        for seed in 0..50 {
            let f = Fingerprint::new(seed);
            for key in [
                0,
                1,
                u128::MAX,
                1 << 127,
                (splitmix_at(seed, 90) as u128) << 64 | splitmix_at(seed, 91) as u128,
            ] {
                let half = |c: [u64; 5]| {
                    let words = (0..4).map(|i| (key >> (32 * i)) & 0xFFFF_FFFF);
                    // At most 2^98, so nothing wraps.
                    let sum =
                        words.zip(c).map(|(word, factor)| word * factor as u128).sum::<u128>()
                            + c[4] as u128;
                    sum >> 32 & 0xFFFF_FFFF
                };
                assert_eq!(f.of(key) as u128, half(f.constants[0]) | half(f.constants[1]) << 32);
            }
        }
    }
    /// Keys that differ little, or in one word only, share 16 bits of their fingerprints no more
    /// often than random numbers do: each word of the key counts in both halves.
    #[test]
    fn keys_that_are_alike_have_other_fingerprints() {
        let patterns: [fn(u128) -> u128; 6] = [
            |i| i,
            |i| i << 32,
            |i| i << 64,
            |i| i << 96,
            |i| i << 64 | i,
            |i| 1u128.rotate_left(i as u32) ^ i << 7,
        ];
        for (p, pattern) in patterns.into_iter().enumerate() {
            for part in [0, 16, 32, 48] {
                // Over the draws, 0.46 of 30,000 pairs should share a part.
                let same = (0..300u64)
                    .map(|seed| {
                        let f = Fingerprint::new(seed ^ 0xABCD << 32);
                        let of = |i: u128| f.of(pattern(i)) >> part & 0xFFFF;
                        (0..100).filter(|&i| of(2 * i) == of(2 * i + 1)).count()
                    })
                    .sum::<usize>();
                assert!(same <= 6, "pattern {p}, bits from {part}: {same}");
            }
        }
    }
}
