//! The bytes of a table of 32-bit keys and values, the same on every device.
//!
//! A table is an array of buckets of four pairs, 32 bytes each: a memory sector, or half a cache line. Buckets belong to
//! partitions, each with equally many, and every pair lies in one of two buckets of one partition. A pair is stored as
//! `value << 32 | mixed key`; the mixer is a bijection, so the mixed key tells everything, and only the first pass over the
//! input computes it.
//!
//! # Which misses end at the first bucket
//! A key whose first bucket was full went to its second bucket. The order of the four pairs in a full bucket says for each of
//! four classes of keys whether one of them *overflowed* from here: the class bits of the bucket. A lookup reads the second
//! bucket only if the first is full, does not hold the key, and its class bit is set. The code costs no memory:
//!
//! | bit | is set if |
//! |---|---|
//! | class 0 | the first key is greater than the second |
//! | class 1 | the third key is greater than the fourth |
//! | class 2 | the lesser of the first two is greater than the lesser of the last two |
//! | class 3 | the greater of the first two is greater than the greater of the last two |
//!
//! A bucket that is not full has its empty slots last and no class bits. A key of which neither bucket has room goes to the
//! stash, which is looked at only after two full buckets.
use crate::hash::mix::{mix, unmix};
use crate::hash::mulhi;

/// Pairs of a bucket.
pub const BUCKET: usize = 4;
/// An empty slot. The one pair that looks like it is kept apart: see [`AMBIGUOUS`].
pub const EMPTY: u64 = u64::MAX;
/// The mixed key that an empty slot seems to hold. A lookup of it must not trust a slot whose value is all ones too: whether the
/// table holds that pair is told by a flag of its own.
pub const AMBIGUOUS: u32 = u32::MAX;

/// How many partitions a table has, and buckets each of them: a kernel's argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Shape {
    /// At least 1.
    pub partitions: u32,
    /// Of each partition; at least 1.
    pub buckets: u32,
    /// Keys are mixed with it: another one makes other mixed keys of the same keys.
    pub seed: u32,
}
// SAFETY: plain numbers, no padding.
#[cfg(not(target_arch = "nvptx64"))]
unsafe impl koel_simt::Arg for Shape {}

impl Shape {
    /// Buckets in all.
    #[inline(always)]
    pub fn all_buckets(self) -> u64 {
        self.partitions as u64 * self.buckets as u64
    }
    /// The mixed key, as it is stored.
    #[inline(always)]
    pub fn mixed(self, key: u32) -> u32 {
        mix(key ^ self.seed)
    }
    /// The key of a mixed key.
    #[inline(always)]
    pub fn unmixed(self, h: u32) -> u32 {
        unmix(h) ^ self.seed
    }
    /// The partition of a mixed key: its high bits, scaled.
    #[inline(always)]
    pub fn partition(self, h: u32) -> u32 {
        mulhi(h, self.partitions)
    }
    /// The first bucket of a mixed key, counted inside the partition: the bits below, scaled.
    #[inline(always)]
    pub fn first(self, h: u32) -> u32 {
        mulhi(h.wrapping_mul(self.partitions), self.buckets)
    }
    /// Where the first bucket of a mixed key is among all buckets, which are fewer than 2^32: the same as
    /// `place(partition(h), first(h))`, because scaling by the product scales by one and then, what is below, by the other.
    #[inline(always)]
    pub fn first_place(self, h: u32) -> u32 {
        mulhi(h, self.partitions.wrapping_mul(self.buckets))
    }
    /// The bucket of a mixed key that is not `bucket`, counted inside the partition: the two add up to a hash of the key,
    /// modulo the number of buckets. They may be the same.
    #[inline(always)]
    pub fn other(self, h: u32, bucket: u32) -> u32 {
        let sum = mulhi((h ^ h >> 15).wrapping_mul(0x846C_A68B), self.buckets);
        let rest = sum.wrapping_sub(bucket);
        if sum < bucket { rest.wrapping_add(self.buckets) } else { rest }
    }
    /// Where bucket `bucket` of partition `partition` is among all buckets.
    #[inline(always)]
    pub fn place(self, partition: u32, bucket: u32) -> u64 {
        partition as u64 * self.buckets as u64 + bucket as u64
    }
}

/// A pair, as it is stored.
#[inline(always)]
pub fn pair(h: u32, value: u32) -> u64 {
    (value as u64) << 32 | h as u64
}
/// The class of a mixed key, 0 to 3.
#[inline(always)]
pub fn class(h: u32) -> u32 {
    h & 3
}

/// Whether the order of a full bucket has the bit of this class set.
#[inline(always)]
pub fn class_bit(bucket: [u64; 4], class: u32) -> bool {
    let [k0, k1, k2, k3] = bucket.map(|p| p as u32);
    let (x, y) = if class < 2 {
        if class == 0 { (k0, k1) } else { (k2, k3) }
    } else if class == 2 {
        (k0.min(k1), k2.min(k3))
    } else {
        (k0.max(k1), k2.max(k3))
    };
    x > y
}
/// A full bucket of distinct keys, ordered so that exactly these class bits are set.
#[inline(always)]
pub fn with_class_bits([mut a, mut b, mut c, mut d]: [u64; 4], bits: u32) -> [u64; 4] {
    // Sorted first, by a network of five exchanges.
    exchange(&mut a, &mut b);
    exchange(&mut c, &mut d);
    exchange(&mut a, &mut c);
    exchange(&mut b, &mut d);
    exchange(&mut b, &mut c);
    // Which two go to the front: bit 2 decides where the least is, bit 3 where the greatest is.
    let (x, y) = (bits & 4 != 0, bits & 8 != 0);
    let low0 = if x { if y { c } else { b } } else { a };
    let high0 = if y {
        d
    } else if x {
        c
    } else {
        b
    };
    let low1 = if x {
        a
    } else if y {
        b
    } else {
        c
    };
    let high1 = if y { if x { b } else { c } } else { d };
    let (p, q) = (bits & 1 != 0, bits & 2 != 0);
    [
        if p { high0 } else { low0 },
        if p { low0 } else { high0 },
        if q { high1 } else { low1 },
        if q { low1 } else { high1 },
    ]
}
#[inline(always)]
fn exchange(a: &mut u64, b: &mut u64) {
    let swap = *a as u32 > *b as u32;
    (*a, *b) = if swap { (*b, *a) } else { (*a, *b) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix::splitmix_at;

    #[test]
    fn every_code_can_be_written_and_read() {
        for seed in 0..2000 {
            let pairs = [0, 1, 2, 3].map(|i| splitmix_at(seed, i));
            for bits in 0..16 {
                let coded = with_class_bits(pairs, bits);
                let (mut a, mut b) = (pairs, coded);
                a.sort_unstable();
                b.sort_unstable();
                assert_eq!(a, b, "bits {bits:#b}");
                for class in 0..4 {
                    assert_eq!(class_bit(coded, class), bits >> class & 1 != 0, "bits {bits:#b} class {class}");
                }
            }
        }
    }
    #[test]
    fn both_buckets_lead_to_each_other() {
        for (partitions, buckets) in [(1, 1), (1, 2), (3, 7), (36_409, 1150), (1 << 20, 1126)] {
            let shape = Shape { partitions, buckets, seed: 5 };
            for i in 0..10_000 {
                let h = shape.mixed(i);
                let (first, partition) = (shape.first(h), shape.partition(h));
                let second = shape.other(h, first);
                assert!(partition < partitions && first < buckets && second < buckets);
                assert_eq!(shape.first_place(h) as u64, shape.place(partition, first));
                assert_eq!((shape.other(h, second), shape.unmixed(h)), (first, i));
            }
        }
    }
    /// The two buckets are spread evenly and independently.
    #[test]
    fn buckets_are_spread() {
        let shape = Shape { partitions: 64, buckets: 16, seed: 0 };
        let mut count = vec![0f64; 16 * 16];
        let n = 1 << 18;
        for i in 0..n {
            let h = shape.mixed(i);
            let first = shape.first(h);
            count[(first * 16 + shape.other(h, first)) as usize] += 1.0;
        }
        let mean = n as f64 / 256.0;
        let chi2 = count.iter().map(|c| (c - mean) * (c - mean) / mean).sum::<f64>();
        // 255 degrees of freedom: deviation 22.6.
        assert!((chi2 - 255.0).abs() < 6.0 * 22.6, "{chi2}");
    }
}
