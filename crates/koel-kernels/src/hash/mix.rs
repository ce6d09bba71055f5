//! Bijective mixers of 32-bit and 64-bit words, and a source of random words.

/// Mixes a 32-bit word with two multiplications (exact avalanche bias 0.17 by C. Wellons' measure).
/// See [`unmix`].
#[inline(always)]
pub fn mix(mut x: u32) -> u32 {
    x ^= x >> 15;
    x = x.wrapping_mul(0x2C1B_3C6D);
    x ^= x >> 12;
    x = x.wrapping_mul(0x297A_2D39);
    x ^ x >> 15
}
/// Inverts [`mix`].
#[inline(always)]
pub fn unmix(mut x: u32) -> u32 {
    x ^= x >> 15 ^ x >> 30;
    x = x.wrapping_mul(inverse(0x297A_2D39) as u32);
    x ^= x >> 12 ^ x >> 24;
    x = x.wrapping_mul(inverse(0x2C1B_3C6D) as u32);
    x ^ x >> 15 ^ x >> 30
}
/// Returns the multiplicative inverse of an odd number modulo 2^64, by Newton's iteration. Its low
/// half is the inverse modulo 2^32.
const fn inverse(a: u64) -> u64 {
    let mut x = a; // correct in 3 bits; each step doubles the number
    let mut i = 0;
    while i < 5 {
        x = x.wrapping_mul(2u64.wrapping_sub(a.wrapping_mul(x)));
        i += 1;
    }
    x
}

/// Mixes a 64-bit word with D. Stafford's variant 13 of the finaliser of MurmurHash3. See
/// [`unmix64`].
#[inline(always)]
pub fn mix64(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(STAFFORD[0]);
    x = (x ^ x >> 27).wrapping_mul(STAFFORD[1]);
    x ^ x >> 31
}
/// Inverts [`mix64`].
#[inline(always)]
pub fn unmix64(mut x: u64) -> u64 {
    x ^= x >> 31 ^ x >> 62;
    x = x.wrapping_mul(inverse(STAFFORD[1]));
    x ^= x >> 27 ^ x >> 54;
    x = x.wrapping_mul(inverse(STAFFORD[0]));
    x ^ x >> 30 ^ x >> 60
}
const STAFFORD: [u64; 2] = [0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB];

/// Returns word `i` of the generator SplitMix64 (Steele, Lea and Flood 2014) for a seed.
#[inline(always)]
pub fn splitmix_at(seed: u64, i: u32) -> u64 {
    mix64(seed.wrapping_add((i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

/// Returns the seed for attempt `times` of a build whose keys did not fit with another seed. Equal
/// `redraws` give equal seeds.
#[inline(always)]
pub fn redrawn(redraws: u32, times: u32) -> u32 {
    mix(redraws ^ mix(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmix_inverts_mix() {
        for i in 0..100_000 {
            let x = splitmix_at(1, i) as u32;
            assert_eq!(unmix(mix(x)), x);
            assert_eq!(mix(unmix(x)), x);
        }
        for x in [0, 1, u32::MAX, 1 << 31] {
            assert_eq!(unmix(mix(x)), x);
        }
    }
    #[test]
    fn unmix64_inverts_mix64() {
        for x in (0..100_000).map(|i| splitmix_at(1, i)).chain([0, 1, u64::MAX, 1 << 63]) {
            assert_eq!(unmix64(mix64(x)), x);
            assert_eq!(mix64(unmix64(x)), x);
        }
    }
}
