//! Buckets that updates read and write: those of a map, and those of a set.
use super::simd::{behind_at, equal_heads, has_class_bit, heads};
use koel_kernels::set::layout::{self, Member, in_bucket};
use koel_kernels::table::layout::{
    BUCKET, EMPTY, Layout, Shape, class, class_bit, empty_last, filled, with_class_bits,
};
use koel_simt::unroll;
use std::marker::PhantomData;

/// Maximum number of slots of a bucket.
pub(super) const MAX_SLOTS: usize = 8;

/// Buckets of a kind of table, each by its number in `words`.
pub(crate) trait Buckets {
    /// Layout of the pairs that operations work on, and that the stash holds.
    type Pairs: Layout;
    /// Element type of the table array.
    type Word: Copy + Send;
    /// Type of the values; `()` if there are none.
    type Value: Copy;
    /// Words per bucket.
    const WORDS: usize;
    /// Pairs per bucket.
    const SLOTS: usize;
    /// Whether pairs have values.
    const VALUES: bool;
    /// Returns the value of a pair.
    fn value(pair: PairOf<Self>) -> Self::Value;
    /// Returns the pair in a slot; the empty pair if the slot has none.
    fn pair(words: &[Self::Word], bucket: usize, slot: usize) -> PairOf<Self>;
    /// Returns the slot of a key, which is not the ambiguous one.
    fn slot_of(words: &[Self::Word], bucket: usize, mixed: MixedOf<Self>) -> Option<usize>;
    /// Returns the number of slots that are not empty. The empty ones come last.
    #[inline(always)]
    fn taken(words: &[Self::Word], bucket: usize) -> usize {
        let mut taken = 0;
        unroll::<MAX_SLOTS>(|slot| {
            if slot < Self::SLOTS {
                let head = Self::Pairs::head(Self::pair(words, bucket, slot));
                taken += usize::from(head != EMPTY);
            }
        });
        taken
    }
    /// Returns whether a bucket is full.
    #[inline(always)]
    fn is_full(words: &[Self::Word], bucket: usize) -> bool {
        Self::Pairs::head(Self::pair(words, bucket, Self::SLOTS - 1)) != EMPTY
    }
    /// Returns whether a key of this hash that is not in its first bucket, `bucket`, may lie
    /// elsewhere: that bucket is full, and a key of the same class overflowed from it. Both are
    /// known before the only branch.
    fn overflowed(words: &[Self::Word], bucket: usize, h: u32) -> bool;
    /// Returns the class bits of a full bucket.
    fn class_bits(words: &[Self::Word], bucket: usize) -> u32;
    /// Writes a pair to a slot. The order of a full bucket's keys must remain.
    fn put(words: &mut [Self::Word], bucket: usize, slot: usize, pair: PairOf<Self>);
    /// Removes the pair in a slot of a bucket that need not look full: the last pair takes its
    /// slot.
    #[inline(always)]
    fn vacate(words: &mut [Self::Word], bucket: usize, slot: usize) {
        let last = Self::taken(words, bucket) - 1;
        Self::put(words, bucket, slot, Self::pair(words, bucket, last));
        Self::put(words, bucket, last, Self::Pairs::EMPTY_PAIR);
    }
    /// Writes the pairs of bucket `place` of the table, from which keys of the classes in `bits`
    /// overflowed, to the `words` of the bucket. `needed`: it must look full.
    fn write(
        shape: Shape,
        place: u32,
        pairs: &[PairOf<Self>],
        bits: u32,
        needed: bool,
        words: &mut [Self::Word],
    );
}
pub(super) type PairOf<B> = <<B as Buckets>::Pairs as Layout>::Pair;
pub(super) type MixedOf<B> = <<B as Buckets>::Pairs as Layout>::Mixed;

/// Returns the index of the first of these that is set. All are known before the only branch: which
/// slot holds a key cannot be predicted.
#[inline(always)]
fn first_of<const N: usize>(are: [bool; N]) -> Option<usize> {
    let bits = (0..N).fold(0u32, |bits, i| bits | (are[i] as u32) << i);
    (bits != 0).then_some(bits.trailing_zeros() as usize)
}

/// Buckets of a map.
pub(crate) struct OfMap<L>(PhantomData<L>);
impl<L: Layout> Buckets for OfMap<L> {
    type Pairs = L;
    type Word = u64;
    const WORDS: usize = L::WORDS;
    const SLOTS: usize = BUCKET;
    const VALUES: bool = true;
    type Value = L::Value;
    #[inline(always)]
    fn value(pair: L::Pair) -> L::Value {
        L::value(pair)
    }
    #[inline(always)]
    fn pair(words: &[u64], bucket: usize, slot: usize) -> L::Pair {
        let words = &words[bucket * L::WORDS..][..L::WORDS];
        L::with_head(words[slot], words[behind_at::<L>(0, slot)])
    }
    #[inline(always)]
    fn slot_of(words: &[u64], bucket: usize, mixed: L::Mixed) -> Option<usize> {
        // An empty slot has the mixed form of the ambiguous key.
        let equal = equal_heads::<L>(heads::<L>(words, bucket), mixed);
        (equal != 0).then(|| equal.trailing_zeros() as usize % BUCKET)
    }
    #[inline(always)]
    fn overflowed(words: &[u64], bucket: usize, h: u32) -> bool {
        let heads = heads::<L>(words, bucket);
        (heads[BUCKET - 1] != EMPTY) & has_class_bit::<L>(heads, h)
    }
    #[inline(always)]
    fn class_bits(words: &[u64], bucket: usize) -> u32 {
        let heads = *heads::<L>(words, bucket);
        let bit = |class| (class_bit::<L>(heads, class) as u32) << class;
        bit(0) | bit(1) | bit(2) | bit(3)
    }
    #[inline(always)]
    fn put(words: &mut [u64], bucket: usize, slot: usize, pair: L::Pair) {
        super::buckets::put::<L>(words, bucket, slot, pair);
    }
    fn write(
        shape: Shape,
        place: u32,
        pairs: &[L::Pair],
        bits: u32,
        needed: bool,
        words: &mut [u64],
    ) {
        let pairs = [pairs[0], pairs[1], pairs[2], pairs[3]];
        let mut gone = 0;
        unroll::<BUCKET>(|slot| gone |= u32::from(L::head(pairs[slot]) == EMPTY) << slot);
        // A lookup continues only from a full bucket.
        let pairs = if gone == 0 || shape.looks_full(bits, needed) {
            with_class_bits::<L>(filled::<L>(shape, place, pairs, gone), bits)
        } else {
            empty_last::<L>(pairs)
        };
        unroll::<BUCKET>(|slot| Self::put(words, 0, slot, pairs[slot]));
    }
}
/// Buckets of a set.
pub(crate) struct OfSet<K>(PhantomData<K>);
impl<K: Member + Send> OfSet<K> {
    #[inline(always)]
    fn bucket(words: &[K], bucket: usize) -> [K::Half; 2] {
        let words = &words[bucket * Self::SLOTS..][..Self::SLOTS];
        let half = |half: usize| K::half(|i| words[half * Self::SLOTS / 2 + i as usize]);
        [half(0), half(1)]
    }
}
impl<K: Member + Send> Buckets for OfSet<K> {
    type Pairs = K::Pairs;
    type Word = K;
    const WORDS: usize = K::SLOTS as usize;
    const SLOTS: usize = K::SLOTS as usize;
    const VALUES: bool = false;
    type Value = ();
    #[inline(always)]
    fn value(_: PairOf<Self>) {}
    #[inline(always)]
    fn pair(words: &[K], bucket: usize, slot: usize) -> PairOf<Self> {
        let key = words[bucket * Self::SLOTS + slot];
        if key == K::EMPTY { K::Pairs::EMPTY_PAIR } else { K::Pairs::pair(key, K::narrowed(0)) }
    }
    #[inline(always)]
    fn slot_of(words: &[K], bucket: usize, mixed: K) -> Option<usize> {
        let keys = &words[bucket * Self::SLOTS..][..Self::SLOTS];
        let is_it = |slot: usize| slot < Self::SLOTS && keys[slot % Self::SLOTS] == mixed;
        first_of([0, 1, 2, 3, 4, 5, 6, 7].map(is_it))
    }
    #[inline(always)]
    fn overflowed(words: &[K], bucket: usize, h: u32) -> bool {
        Self::is_full(words, bucket) & K::class_bit(Self::bucket(words, bucket), class(h))
    }
    #[inline(always)]
    fn class_bits(words: &[K], bucket: usize) -> u32 {
        layout::class_bits::<K>(Self::bucket(words, bucket))
    }
    #[inline(always)]
    fn put(words: &mut [K], bucket: usize, slot: usize, pair: PairOf<Self>) {
        words[bucket * Self::SLOTS + slot] = K::Pairs::key(pair);
    }
    fn write(
        shape: Shape,
        place: u32,
        pairs: &[PairOf<Self>],
        bits: u32,
        needed: bool,
        words: &mut [K],
    ) {
        words.fill(K::EMPTY);
        let keys = pairs
            .iter()
            .filter(|&&pair| K::Pairs::head(pair) != EMPTY)
            .map(|&pair| K::Pairs::key(pair));
        let count = words.iter_mut().zip(keys).map(|(word, key)| *word = key).count();
        let mut bucket = Self::bucket(words, 0);
        if shape.looks_full(bits, needed) {
            let gone = (1u32 << Self::SLOTS) - (1 << count);
            bucket = layout::filled::<K>(shape, place, bucket, gone);
        }
        let bucket = layout::finished::<K>(bucket, bits);
        words.iter_mut().enumerate().for_each(|(i, word)| *word = in_bucket::<K>(&bucket, i));
    }
}
