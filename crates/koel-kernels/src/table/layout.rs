//! The bytes of a table, the same on every device.
//!
//! A table is an array of buckets of four pairs. Buckets belong to partitions of equal size, and
//! every pair lies in one of two buckets of one partition. Keys are stored *mixed*. The mixer is a
//! bijection, so the mixed key identifies the key, and only the first pass over the input computes
//! it.
//!
//! A bucket begins with four 64-bit words, its *heads*: one memory sector of 32 bytes. There are
//! two layouts:
//!
//! | | head | bucket |
//! |---|---|---|
//! | [`Narrow`]: keys and values of 32 bits | `value << 32 \| mixed key` | 32 bytes: the heads |
//! | [`Wide`]: a 64-bit key or value | 64-bit mixed key | 64 bytes: heads, then 64-bit values |
//!
//! A lookup that misses thus reads one sector in either layout. A lookup that hits reads a second,
//! adjacent sector only if values are wide. Narrower members of wide pairs are zero-extended.
//!
//! An empty slot has a head of all ones. The one key whose mixed form is all ones, the *ambiguous*
//! key, is stored in the header instead.
//!
//! # Which misses end at the first bucket
//! A key whose first bucket was full went to its second bucket. The order of the four pairs in a
//! full bucket encodes, for each of four classes of keys, whether a key of that class *overflowed*
//! from here: the class bits of the bucket. A lookup reads the second bucket only if the first is
//! full, does not hold the key, and its class bit is set. The code costs no memory:
//!
//! | bit | is set if |
//! |---|---|
//! | class 0 | the first mixed key is greater than the second |
//! | class 1 | the third mixed key is greater than the fourth |
//! | class 2 | the lesser of the first two is greater than the lesser of the last two |
//! | class 3 | the greater of the first two is greater than the greater of the last two |
//!
//! A bucket that is not full has its empty slots last and no class bits. If a pair is dropped from
//! a full bucket while class bits are set or the stash holds pairs, a *filler* keeps the bucket
//! full: a slot whose key does not [belong](Shape::belongs) to the bucket, so that no lookup that
//! reads the bucket asks for it. A key for which neither bucket has room goes to the stash, which
//! is read only after two full buckets.
use crate::hash::mix::{mix, mix64, unmix, unmix64};
use crate::hash::mulhi;
use core::fmt::Debug;
use core::marker::PhantomData;
use koel_simt::{Arg, Buf, In, Scalar, U32x4, U64x2, Word, unroll};

/// Pairs per bucket.
pub const BUCKET: usize = 4;
/// The head of an empty slot.
pub const EMPTY: u64 = u64::MAX;

/// Number of partitions and of buckets per partition: a kernel argument.
///
/// The *hash* of a key, 32 bits of the mixed key, determines where its pair may lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Shape {
    /// Number of partitions; at least 1.
    pub partitions: u32,
    /// Buckets per partition; at least 1.
    pub buckets: u32,
}

/// A table that kernels change: a kernel argument. The words of its buckets are `W`.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct TableMut<W: Word = u64> {
    /// Partitions and buckets.
    pub shape: Shape,
    /// log2 of the number of slots in the stash.
    pub stash_bits: u32,
    /// The buckets.
    pub slots: Buf<W>,
    /// The stash.
    pub stash: Buf<u64>,
    /// The header.
    pub header: Buf<u32>,
}

impl Shape {
    /// Returns the total number of buckets.
    #[inline(always)]
    pub fn all_buckets(self) -> u64 {
        self.partitions as u64 * self.buckets as u64
    }
    /// Returns the partition of a hash: its high bits, scaled.
    #[inline(always)]
    pub fn partition(self, h: u32) -> u32 {
        mulhi(h, self.partitions)
    }
    /// Returns the first bucket of a hash as an index in its partition: the lower bits, scaled.
    #[inline(always)]
    pub fn first(self, h: u32) -> u32 {
        mulhi(h.wrapping_mul(self.partitions), self.buckets)
    }
    /// Returns the index of a hash's first bucket among all buckets, fewer than 2^32. It equals
    /// `place(partition(h), first(h))`: scaling by a product is scaling by each factor in turn.
    #[inline(always)]
    pub fn first_place(self, h: u32) -> u32 {
        mulhi(h, self.partitions.wrapping_mul(self.buckets))
    }
    /// Returns the bucket of a hash other than `bucket`, as an index in its partition. The two
    /// indices add up to another hash, modulo the number of buckets. They may be equal.
    #[inline(always)]
    pub fn other(self, h: u32, bucket: u32) -> u32 {
        let sum = mulhi((h ^ h >> 15).wrapping_mul(0x846C_A68B), self.buckets);
        let rest = sum.wrapping_sub(bucket);
        if sum < bucket { rest.wrapping_add(self.buckets) } else { rest }
    }
    /// Returns the index of bucket `bucket` of partition `partition` among all buckets.
    #[inline(always)]
    pub fn place(self, partition: u32, bucket: u32) -> u64 {
        partition as u64 * self.buckets as u64 + bucket as u64
    }
    /// Returns whether the bucket at `place` is one of the two of a hash.
    #[inline(always)]
    pub fn belongs(self, h: u32, place: u32) -> bool {
        self.first_place(h) == place || self.second_place(h) == place
    }
    /// Returns whether a bucket with free slots and these class bits must look full. `needed` is
    /// set if the stash holds pairs. Lookups continue only from full buckets. A table with a single
    /// bucket needs no fillers.
    #[inline(always)]
    pub fn looks_full(self, bits: u32, needed: bool) -> bool {
        (bits != 0 || needed) && self.all_buckets() > 1
    }
    /// Returns the first hash from `h` on, 0 at first, that does not belong to the bucket at
    /// `place`: no lookup that reads the bucket asks for it. The table must have two buckets.
    #[inline(always)]
    pub fn filler(self, place: u32, h: u32) -> u32 {
        // Low hashes belong to the very first bucket; those from the middle on do not.
        let mut h = if place == 0 { h | 1 << 31 } else { h };
        while self.belongs(h, place) {
            h += 1;
        }
        h
    }
    /// Returns whether a hash in the bucket at `place`, of partition `p`, is of no key there. All
    /// fillers must be [these](Self::filler).
    #[inline(always)]
    pub fn is_filler(self, p: u32, place: u32, h: u32) -> bool {
        // The lowest hashes belong to the first partition, so they are the fillers of all others.
        if p != 0 { h < BUCKET as u32 } else { !self.belongs(h, place) }
    }
    /// Returns the index of a hash's second bucket among all buckets.
    #[inline(always)]
    pub fn second_place(self, h: u32) -> u32 {
        let first = self.first(h);
        self.place(self.partition(h), self.other(h, first)) as u32
    }
}

/// Returns the class of a hash, 0 to 3.
#[inline(always)]
pub fn class(h: u32) -> u32 {
    h & 3
}

/// Type of keys and values: `u32` or `u64`.
pub trait Number: Scalar + Arg + Default + Ord + Debug + Send + Sync {
    /// Zero-extends to 64 bits.
    fn widened(self) -> u64;
    /// Truncates to the low bits.
    fn narrowed(word: u64) -> Self;
    /// Loads elements `4 i..4 i + 4` of an array that begins on a multiple of 16 bytes and is not
    /// read again soon.
    fn four(array: In<Self>, i: u32) -> [Self; 4];
}
impl Number for u32 {
    #[inline(always)]
    fn widened(self) -> u64 {
        self as u64
    }
    #[inline(always)]
    fn narrowed(word: u64) -> u32 {
        word as u32
    }
    #[inline(always)]
    fn four(array: In<u32>, i: u32) -> [u32; 4] {
        let U32x4(four) = array.x4().get_stream(i);
        four
    }
}
impl Number for u64 {
    #[inline(always)]
    fn widened(self) -> u64 {
        self
    }
    #[inline(always)]
    fn narrowed(word: u64) -> u64 {
        word
    }
    #[inline(always)]
    fn four(array: In<u64>, i: u32) -> [u64; 4] {
        let (U64x2([a, b]), U64x2([c, d])) =
            (array.x2().get_stream(2 * i), array.x2().get_stream(2 * i + 1));
        [a, b, c, d]
    }
}

/// Storage of pairs of one combination of key and value types.
pub trait Layout: Copy + Send + Sync + 'static {
    /// Key type of the caller.
    type Key: Number;
    /// Value type of the caller.
    type Value: Number;
    /// A mixed key.
    type Mixed: Number;
    /// A pair outside a bucket: its head, followed by its value if values are wide.
    type Pair: Word + Debug + Send + Sync;
    /// The words of a bucket.
    type Bucket: Copy + Debug + Send + Sync;
    /// Words per bucket: heads, and values if they are wide.
    const WORDS: usize;
    /// Words per slot.
    const SLOT_WORDS: usize = Self::WORDS / BUCKET;
    /// The mixed form of the ambiguous key.
    const AMBIGUOUS: Self::Mixed;
    /// Lowest bit of the hash in the head.
    const HASH_SHIFT: u32;
    /// Pair that represents an empty slot.
    const EMPTY_PAIR: Self::Pair;

    /// Mixes a key. Different seeds give different mixed keys.
    fn mixed(seed: u32, key: Self::Key) -> Self::Mixed;
    /// Recovers the key from a mixed key.
    fn unmixed(seed: u32, mixed: Self::Mixed) -> Self::Key;
    /// Returns the 32 bits of the mixed key that determine where its pair may lie.
    #[inline(always)]
    fn hash(mixed: Self::Mixed) -> u32 {
        (mixed.widened() >> Self::HASH_SHIFT) as u32
    }
    /// Returns the mixed key in a head that is not empty.
    #[inline(always)]
    fn key_in(head: u64) -> Self::Mixed {
        Self::Mixed::narrowed(head)
    }
    /// Makes a pair.
    fn pair(mixed: Self::Mixed, value: Self::Value) -> Self::Pair;
    /// Returns the head of a pair.
    fn head(pair: Self::Pair) -> u64;
    /// Makes a pair of a head and the word that follows it, which is ignored if values are narrow.
    fn with_head(head: u64, behind: u64) -> Self::Pair;
    /// Returns the value in a head, or in the word that follows it if values are wide.
    fn value_in(head: u64, behind: u64) -> Self::Value;
    /// Returns the word that follows the head; 0 if values are narrow.
    fn behind(pair: Self::Pair) -> u64;
    /// Returns the mixed key of a pair.
    #[inline(always)]
    fn key(pair: Self::Pair) -> Self::Mixed {
        Self::key_in(Self::head(pair))
    }
    /// Returns the value of a pair.
    #[inline(always)]
    fn value(pair: Self::Pair) -> Self::Value {
        Self::value_in(Self::head(pair), Self::behind(pair))
    }

    /// Views words as an array of pairs. The array begins on a multiple of 16 bytes.
    fn pairs(array: Buf<u64>) -> Buf<Self::Pair>;
    /// Loads pairs `2 i` and `2 i + 1`.
    fn two(array: Buf<u64>, i: u32) -> [Self::Pair; 2];

    /// Packs four pairs into the words of a bucket.
    fn bucket(pairs: [Self::Pair; 4]) -> Self::Bucket;
    /// Returns pair `i` of a bucket.
    fn in_bucket(bucket: &Self::Bucket, i: usize) -> Self::Pair;
}

/// Returns whether keys have the same hashes in both layouts, which holds if their mixed keys have
/// one size.
pub const fn mixed_alike<A: Layout, B: Layout<Key = A::Key>>() -> bool {
    size_of::<A::Mixed>() == size_of::<B::Mixed>()
}

/// Layout for keys and values of 32 bits.
#[derive(Clone, Copy, Debug)]
pub struct Narrow;
impl Layout for Narrow {
    type Key = u32;
    type Value = u32;
    type Mixed = u32;
    type Pair = u64;
    type Bucket = [u64; 4];
    const WORDS: usize = 4;
    const AMBIGUOUS: u32 = u32::MAX;
    const HASH_SHIFT: u32 = 0;
    const EMPTY_PAIR: u64 = EMPTY;

    #[inline(always)]
    fn mixed(seed: u32, key: u32) -> u32 {
        mix(key ^ seed)
    }
    #[inline(always)]
    fn unmixed(seed: u32, mixed: u32) -> u32 {
        unmix(mixed) ^ seed
    }
    #[inline(always)]
    fn pair(mixed: u32, value: u32) -> u64 {
        (value as u64) << 32 | mixed as u64
    }
    #[inline(always)]
    fn head(pair: u64) -> u64 {
        pair
    }
    #[inline(always)]
    fn with_head(head: u64, _: u64) -> u64 {
        head
    }
    #[inline(always)]
    fn value_in(head: u64, _: u64) -> u32 {
        (head >> 32) as u32
    }
    #[inline(always)]
    fn behind(_: u64) -> u64 {
        0
    }
    #[inline(always)]
    fn pairs(array: Buf<u64>) -> Buf<u64> {
        array
    }
    #[inline(always)]
    fn two(array: Buf<u64>, i: u32) -> [u64; 2] {
        let U64x2(two) = array.x2().load_stream(i);
        two
    }
    #[inline(always)]
    fn bucket(pairs: [u64; 4]) -> [u64; 4] {
        pairs
    }
    #[inline(always)]
    fn in_bucket(bucket: &[u64; 4], i: usize) -> u64 {
        bucket[i]
    }
}

/// Layout for pairs with a key or a value, or both, of 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct Wide<K, V>(PhantomData<(K, V)>);
impl<K: Number, V: Number> Layout for Wide<K, V> {
    type Key = K;
    type Value = V;
    type Mixed = u64;
    type Pair = U64x2;
    type Bucket = [u64; 8];
    const WORDS: usize = 8;
    const AMBIGUOUS: u64 = u64::MAX;
    const HASH_SHIFT: u32 = 32;
    const EMPTY_PAIR: U64x2 = U64x2([EMPTY; 2]);

    #[inline(always)]
    fn mixed(seed: u32, key: K) -> u64 {
        mix64(key.widened() ^ (seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
    #[inline(always)]
    fn unmixed(seed: u32, mixed: u64) -> K {
        K::narrowed(unmix64(mixed) ^ (seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
    #[inline(always)]
    fn pair(mixed: u64, value: V) -> U64x2 {
        U64x2([mixed, value.widened()])
    }
    #[inline(always)]
    fn head(pair: U64x2) -> u64 {
        pair.0[0]
    }
    #[inline(always)]
    fn with_head(head: u64, behind: u64) -> U64x2 {
        U64x2([head, behind])
    }
    #[inline(always)]
    fn value_in(_: u64, behind: u64) -> V {
        V::narrowed(behind)
    }
    #[inline(always)]
    fn behind(pair: U64x2) -> u64 {
        pair.0[1]
    }
    #[inline(always)]
    fn pairs(array: Buf<u64>) -> Buf<U64x2> {
        array.x2()
    }
    #[inline(always)]
    fn two(array: Buf<u64>, i: u32) -> [U64x2; 2] {
        [array.x2().load_stream(2 * i), array.x2().load_stream(2 * i + 1)]
    }
    #[inline(always)]
    fn bucket([a, b, c, d]: [U64x2; 4]) -> [u64; 8] {
        [a.0[0], b.0[0], c.0[0], d.0[0], a.0[1], b.0[1], c.0[1], d.0[1]]
    }
    #[inline(always)]
    fn in_bucket(bucket: &[u64; 8], i: usize) -> U64x2 {
        U64x2([bucket[i], bucket[BUCKET + i]])
    }
}

/// Returns the bit of this class that the order of a full bucket encodes.
#[inline(always)]
pub fn class_bit<L: Layout>(heads: [u64; 4], class: u32) -> bool {
    let [k0, k1, k2, k3] = heads.map(L::key_in);
    let (x, y) = if class < 2 {
        if class == 0 { (k0, k1) } else { (k2, k3) }
    } else if class == 2 {
        (k0.min(k1), k2.min(k3))
    } else {
        (k0.max(k1), k2.max(k3))
    };
    x > y
}
/// Orders a full bucket of distinct keys so that exactly these class bits are set.
#[inline(always)]
pub fn with_class_bits<L: Layout>(
    [mut a, mut b, mut c, mut d]: [L::Pair; 4],
    bits: u32,
) -> [L::Pair; 4] {
    // Sort first, with a network of five exchanges.
    exchange::<L>(&mut a, &mut b);
    exchange::<L>(&mut c, &mut d);
    exchange::<L>(&mut a, &mut c);
    exchange::<L>(&mut b, &mut d);
    exchange::<L>(&mut b, &mut c);
    // Choose the two pairs in front: bit 2 decides where the least is, bit 3 where the greatest is.
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
/// Puts [fillers](Shape::filler) into the slots that have a bit in `gone`, so that the bucket is
/// full. The table must have two buckets.
#[inline(always)]
pub fn filled<L: Layout>(
    shape: Shape,
    place: u32,
    mut pairs: [L::Pair; 4],
    gone: u32,
) -> [L::Pair; 4] {
    let mut filler = 0;
    unroll::<4>(|s| {
        if gone >> s & 1 != 0 {
            filler = shape.filler(place, filler);
            pairs[s] = L::with_head((filler as u64) << L::HASH_SHIFT, 0);
            filler += 1;
        }
    });
    pairs
}
/// Moves the empty slots to the end and keeps the order of the pairs.
#[inline(always)]
pub fn empty_last<L: Layout>([mut a, mut b, mut c, mut d]: [L::Pair; 4]) -> [L::Pair; 4] {
    let sink = |x: &mut L::Pair, y: &mut L::Pair| {
        if L::head(*x) == EMPTY {
            (*x, *y) = (*y, L::EMPTY_PAIR);
        }
    };
    sink(&mut a, &mut b);
    sink(&mut b, &mut c);
    sink(&mut c, &mut d);
    sink(&mut a, &mut b);
    sink(&mut b, &mut c);
    sink(&mut a, &mut b);
    [a, b, c, d]
}
#[inline(always)]
fn exchange<L: Layout>(a: &mut L::Pair, b: &mut L::Pair) {
    let swap = L::key(*a) > L::key(*b);
    (*a, *b) = if swap { (*b, *a) } else { (*a, *b) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix::splitmix_at;

    #[test]
    fn fillers_do_not_belong() {
        for (partitions, buckets) in [(1, 2), (1, 3), (2, 1), (2, 2), (3, 1000), (4864, 1125)] {
            let shape = Shape { partitions, buckets };
            let all = partitions * buckets;
            for place in (0..all).step_by((all as usize / 100).max(1)).chain([all - 1]) {
                let mut h = 0;
                for _ in 0..4 {
                    h = shape.filler(place, h);
                    assert!(![shape.first_place(h), shape.second_place(h)].contains(&place));
                    assert!(h != u32::MAX && shape.is_filler(place / buckets, place, h));
                    h += 1;
                }
            }
        }
    }
    fn every_code<L: Layout>() {
        for seed in 0..2000 {
            let pairs =
                [0, 1, 2, 3].map(|i| L::with_head(splitmix_at(seed, i), splitmix_at(seed, i + 4)));
            for bits in 0..16 {
                let coded = with_class_bits::<L>(pairs, bits);
                let sorted = |pairs: [L::Pair; 4]| {
                    let mut words = pairs.map(|p| (L::head(p), L::behind(p)));
                    words.sort_unstable();
                    words
                };
                assert_eq!(sorted(pairs), sorted(coded), "bits {bits:#b}");
                let bucket = L::bucket(coded);
                let heads = [0, 1, 2, 3].map(|i| L::head(L::in_bucket(&bucket, i)));
                for class in 0..4 {
                    assert_eq!(
                        class_bit::<L>(heads, class),
                        bits >> class & 1 != 0,
                        "bits {bits:#b} class {class}"
                    );
                }
            }
        }
    }
    #[test]
    fn every_code_can_be_written_and_read() {
        every_code::<Narrow>();
        every_code::<Wide<u64, u64>>();
    }
    #[test]
    fn keys_are_mixed_and_back() {
        fn check<L: Layout>() {
            for i in 0..10_000 {
                let (key, value) =
                    (L::Key::narrowed(splitmix_at(3, i)), L::Value::narrowed(splitmix_at(4, i)));
                let mixed = L::mixed(i, key);
                let pair = L::pair(mixed, value);
                assert_eq!(
                    (L::unmixed(i, mixed), L::key(pair), L::value(pair)),
                    (key, mixed, value)
                );
                let bucket = L::bucket([L::EMPTY_PAIR, pair, L::EMPTY_PAIR, pair]);
                assert_eq!(L::value(L::in_bucket(&bucket, 3)), value);
                assert_eq!(L::head(L::in_bucket(&bucket, 2)), EMPTY);
            }
        }
        check::<Narrow>();
        check::<Wide<u32, u64>>();
        check::<Wide<u64, u32>>();
        check::<Wide<u64, u64>>();
    }
    #[test]
    fn both_buckets_lead_to_each_other() {
        for (partitions, buckets) in [(1, 1), (1, 2), (3, 7), (36_409, 1150), (1 << 20, 1126)] {
            let shape = Shape { partitions, buckets };
            for i in 0..10_000 {
                let h = mix(i);
                let (first, partition) = (shape.first(h), shape.partition(h));
                let second = shape.other(h, first);
                assert!(partition < partitions && first < buckets && second < buckets);
                assert_eq!(shape.first_place(h) as u64, shape.place(partition, first));
                assert_eq!(shape.second_place(h) as u64, shape.place(partition, second));
                assert_eq!(shape.other(h, second), first);
            }
        }
    }
    /// The two buckets are distributed uniformly and independently.
    #[test]
    fn buckets_are_spread() {
        let shape = Shape { partitions: 64, buckets: 16 };
        let mut count = vec![0f64; 16 * 16];
        let n = 1 << 18;
        for i in 0..n {
            let h = mix(i);
            let first = shape.first(h);
            count[(first * 16 + shape.other(h, first)) as usize] += 1.0;
        }
        let mean = n as f64 / 256.0;
        let chi2 = count.iter().map(|c| (c - mean) * (c - mean) / mean).sum::<f64>();
        // 255 degrees of freedom: standard deviation 22.6.
        assert!((chi2 - 255.0).abs() < 6.0 * 22.6, "{chi2}");
    }
}
