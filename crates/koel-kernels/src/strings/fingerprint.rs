//! Fingerprints: from any number of bytes to 64 bits, by a function drawn from a nearly universal
//! family.
use crate::hash::mix::splitmix_at;
use crate::keys128::fingerprint::Fingerprint;
use koel_simt::unroll;

/// Bytes of a coefficient of the polynomials.
pub const PIECE: u32 = 7;
/// Modulus of the polynomials, a Mersenne prime.
const PRIME: u64 = (1 << 61) - 1;

/// A hash function from bytes to 64 bits: a kernel argument.
///
/// The bytes, seven at a time, and their number are the coefficients of a polynomial modulo
/// 2^61 - 1, as in Carter and Wegman 1979. Its values at two random points, 122 bits, are reduced
/// by a [`Fingerprint`]. Two different keys of at most `7 n` bytes, chosen without knowledge of the
/// draw, share their fingerprint with probability (`(n + 1) / 2^61`)^2 + 2^-64. Keys crafted with
/// that knowledge can collide at will, so equal fingerprints never count as equal keys.
///
/// Costs two products of 64 bits for every seven bytes, and those of the [`Fingerprint`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct StringFingerprint {
    /// Where the polynomials are evaluated.
    points: [u64; 2],
    last: Fingerprint,
}
impl StringFingerprint {
    /// Returns the function of a seed.
    pub fn new(seed: u64) -> StringFingerprint {
        // Behind the numbers of `Fingerprint`.
        let point = |i: usize| splitmix_at(seed, 10 + i as u32) >> 3;
        StringFingerprint { points: core::array::from_fn(point), last: Fingerprint::new(seed) }
    }
    /// Returns where the polynomials are evaluated: whoever knows that can craft keys that share
    /// their fingerprints.
    pub fn points(&self) -> [u64; 2] {
        self.points
    }
    /// Adds the next [`PIECE`] bytes, or the last ones, as a number.
    #[inline(always)]
    pub(super) fn add(&self, values: &mut [u64; 2], piece: u64) {
        unroll::<2>(|i| values[i] = times(values[i] + piece, self.points[i]));
    }
    /// Returns the fingerprint of `len` bytes from the values of their polynomials.
    #[inline(always)]
    pub(super) fn finish(&self, mut values: [u64; 2], len: u64) -> u64 {
        self.add(&mut values, len);
        let reduced = |v: u64| if v >= PRIME { v - PRIME } else { v };
        self.last.of(reduced(values[0]) as u128 | (reduced(values[1]) as u128) << 64)
    }
    /// Returns the fingerprint of bytes in host memory.
    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    pub fn of(&self, bytes: &[u8]) -> u64 {
        let (mut values, mut rest) = ([0; 2], bytes);
        while let Some(eight) = rest.first_chunk::<8>() {
            self.add(&mut values, u64::from_le_bytes(*eight) & (!0 >> 8));
            rest = &rest[PIECE as usize..];
        }
        if !rest.is_empty() {
            self.add(&mut values, last_piece(rest));
        }
        self.finish(values, bytes.len() as u64)
    }
}
/// Returns one to seven bytes as a number, the first one lowest.
#[cfg(not(target_arch = "nvptx64"))]
#[inline(always)]
pub fn last_piece(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        // Both contain the bytes in the middle.
        (Some(first), Some(last)) => {
            let last = u64::from(u32::from_le_bytes(*last)) << (8 * (n - 4));
            u64::from(u32::from_le_bytes(*first)) | last
        }
        _ => {
            let at = |i: usize| u64::from(bytes[i]) << (8 * i);
            at(0) | at(n / 2) | at(n - 1)
        }
    }
}
/// Returns a number below 2^61 + 3 that is the product modulo [`PRIME`], for `a` below 2^62 and `b`
/// below 2^61.
#[inline(always)]
fn times(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    let sum = (product as u64 & PRIME) + (product >> 61) as u64;
    (sum & PRIME) + (sum >> 61)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(seed: u64, n: usize) -> Vec<u8> {
        (0..n as u32).map(|i| splitmix_at(seed, i) as u8).collect()
    }
    /// By the definition, one byte and one bit of a product at a time.
    fn expected(f: &StringFingerprint, bytes: &[u8]) -> u64 {
        let plus = |a: u64, b: u64| ((a as u128 + b as u128) % PRIME as u128) as u64;
        let times = |a: u64, b: u64| {
            (0..61).rev().fold(0, |sum, bit| {
                let twice = plus(sum, sum);
                if b >> bit & 1 == 1 { plus(twice, a) } else { twice }
            })
        };
        let number = |piece: &[u8]| piece.iter().rev().fold(0, |n, &byte| n << 8 | byte as u64);
        let values = f.points.map(|x| {
            let of_pieces = bytes.chunks(7).map(number).chain([bytes.len() as u64]);
            of_pieces.fold(0, |value, piece| times(plus(value, piece), x % PRIME))
        });
        f.last.of(values[0] as u128 | (values[1] as u128) << 64)
    }

    #[test]
    fn fingerprints_match_their_definition() {
        for seed in 0..20 {
            let f = StringFingerprint::new(seed);
            for n in (0..40).chain([100, 1000]) {
                for bytes in [bytes(seed, n), vec![0; n], vec![0xFF; n]] {
                    assert_eq!(f.of(&bytes), expected(&f, &bytes), "{seed}, {bytes:?}");
                }
            }
        }
        // The greatest values.
        let f = StringFingerprint { points: [PRIME, PRIME - 1], last: Fingerprint::new(1) };
        assert_eq!(f.of(&[0xFF; 70]), expected(&f, &[0xFF; 70]));
    }
    /// Keys that are alike share 16 bits of their fingerprints no more often than random numbers
    /// do: prefixes, zeros at either end, one other byte, other orders.
    #[test]
    fn keys_that_are_alike_have_other_fingerprints() {
        let patterns: [fn(usize) -> Vec<u8>; 6] = [
            |i| vec![0; i],
            |i| [vec![0; i], vec![1]].concat(),
            |i| [b"key ".to_vec(), i.to_string().into_bytes()].concat(),
            |i| [i.to_le_bytes().to_vec(), vec![7; 20]].concat(),
            |i| [vec![7; 20], (i << 40).to_le_bytes().to_vec()].concat(),
            |i| {
                let mut bytes = (0..101).collect::<Vec<u8>>();
                bytes.swap(i % 101, (i + 7) % 101);
                bytes
            },
        ];
        for (p, pattern) in patterns.into_iter().enumerate() {
            for part in [0, 16, 32, 48] {
                // Over the draws, 0.23 of 15,000 pairs should share a part.
                let same = (0..300)
                    .map(|seed| {
                        let f = StringFingerprint::new(seed ^ 0xABCD << 32);
                        let of = |i| f.of(&pattern(i)) >> part & 0xFFFF;
                        (0..50).filter(|&i| of(2 * i) == of(2 * i + 1)).count()
                    })
                    .sum::<usize>();
                assert!(same <= 5, "pattern {p}, bits from {part}: {same}");
            }
        }
    }
}
