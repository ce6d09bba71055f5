//! Random words, and distinct keys.
use koel_kernels::hash::mix::{mix, mix64, splitmix_at};
use rayon::prelude::*;
use std::ops::Range;

/// Returns a random word for each seed and number (Steele, Lea, Flood 2014: SplitMix).
pub fn random_word(seed: u64, i: u64) -> u64 {
    mix64(seed.wrapping_add(i.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}
/// Maps a random word to a number from 0 to below 1.
pub fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1u64 << 53) as f64
}

/// A generator of random words, in the state of this seed.
pub struct Random(pub u64);
impl Random {
    /// Returns 64 bits.
    pub fn word(&mut self) -> u64 {
        let word = random_word(self.0, 1);
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        word
    }
    /// Returns a number below `n`, or 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.word() % n.max(1)
    }
    /// Returns one of these.
    ///
    /// # Panics
    /// If there are none.
    pub fn of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len() as u64) as usize]
    }
}

/// Keys that look random and are distinct for distinct numbers.
pub trait NumberedKey: Copy + Send {
    /// Returns the key of a number.
    fn numbered(i: u32) -> Self;
}
impl NumberedKey for u32 {
    fn numbered(i: u32) -> u32 {
        mix(i ^ 0x5BD1_E995)
    }
}
impl NumberedKey for u64 {
    fn numbered(i: u32) -> u64 {
        splitmix_at(0, i)
    }
}
impl NumberedKey for u128 {
    fn numbered(i: u32) -> u128 {
        splitmix_at(0, i) as u128 | (splitmix_at(1, i) as u128) << 64
    }
}
/// Returns the keys of the numbers in a range, which must lie below 2^32.
pub fn keys<K: NumberedKey>(numbers: Range<usize>) -> Vec<K> {
    numbers.into_par_iter().map(|i| K::numbered(i as u32)).collect()
}

/// A bijection of `0..len` onto itself, derived from a seed. Rounds of "add a key, multiply by an
/// odd number, fold the high bits down" run on the next power of two and repeat until the image is
/// below `len` (at most twice on average).
pub struct Permutation {
    len: u64,
    mask: u64,
    fold: u32,
    round_keys: [u64; 3],
}
impl Permutation {
    /// Returns the bijection of a seed.
    pub fn new(len: u64, seed: u64) -> Permutation {
        let mask = len.max(1).next_power_of_two() - 1;
        let round_keys = [1, 2, 3].map(|i| random_word(seed, i));
        Permutation { len, mask, fold: mask.count_ones().div_ceil(2).max(1), round_keys }
    }
    /// Returns the image of each number, in their order.
    pub fn images(&self) -> impl Iterator<Item = u64> {
        (0..self.len).map(|i| self.at(i))
    }
    /// Returns the image of `i`, which must be below the length.
    pub fn at(&self, i: u64) -> u64 {
        const MULTIPLIERS: [u64; 3] =
            [0x9E37_79B9_85EB_CA6B, 0xD6E8_FEB8_C2B2_AE35, 0xFF51_AFD7_27D4_EB2F];
        let mut x = i;
        loop {
            for (key, multiplier) in self.round_keys.iter().zip(MULTIPLIERS) {
                x = x.wrapping_add(*key).wrapping_mul(multiplier) & self.mask;
                x ^= x >> self.fold;
            }
            if x < self.len {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn permutations_hit_everything_once() {
        for len in [1, 2, 3, 4, 5, 7, 8, 9, 100, 1000, 1024, 1025, 10_000] {
            for seed in 0..5 {
                let permutation = Permutation::new(len, seed);
                let images = permutation.images().collect::<HashSet<u64>>();
                assert_eq!(images.len() as u64, len);
                assert!(images.iter().all(|&x| x < len));
            }
        }
    }

    #[test]
    fn permutations_mix() {
        // Neighbours end up far apart: in random order, about 2 in n pairs remain neighbours.
        let permutation = Permutation::new(100_000, 7);
        let close = (0..99_999)
            .filter(|&i| permutation.at(i).abs_diff(permutation.at(i + 1)) < 100)
            .count();
        assert!((100..400).contains(&close), "{close}");
        let other = Permutation::new(100_000, 8);
        assert!((0..100).any(|i| other.at(i) != permutation.at(i)));
    }

    #[test]
    fn random_words_are_those_of_the_generator() {
        let mut random = Random(9);
        assert_eq!([random.word(), random.word()], [random_word(9, 1), splitmix_at(9, 1)]);
        assert!((0..100).all(|_| random.below(3) < 3 && random.of(&[5, 6]) / 2 < 4));
        assert_eq!((random.below(0), unit(0)), (0, 0.0));
        assert!(unit(u64::MAX) < 1.0);
    }
}
