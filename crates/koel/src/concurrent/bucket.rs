//! Buckets: a header and seven pairs, for pairs of one word and of two.
use super::word::Word;
use koel_kernels::table::layout::{Layout, Narrow, Wide};
use std::fmt::Debug;
use std::hint::select_unpredictable;
use std::sync::atomic::AtomicU64;

/// Bits of a header, from the lowest: a bit for each slot that is taken, the lock, whether the
/// table has been replaced, a count of overflowed keys for each class, and the version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header(u64);
const TAKEN: u64 = 0x7F;
const LOCKED: u64 = 1 << 7;
const REPLACED: u64 = 1 << 8;
const COUNTS_AT: u32 = 9;
const COUNT_BITS: u32 = 3;
/// The greatest count. It says "this many or more", so it stays until the table is rebuilt.
const MANY: u64 = (1 << COUNT_BITS) - 1;
/// Classes of keys. Most buckets have no overflowed key, and few have several, so that a lookup of
/// an absent key of another class ends at the first bucket.
pub(super) const CLASSES: u32 = 5;
/// 40 bits remain for the version. It takes hours of nothing but changes to one bucket, while one
/// lookup of the bucket stands still, to repeat a version.
const VERSION_AT: u32 = COUNTS_AT + COUNT_BITS * CLASSES;

impl Header {
    #[inline(always)]
    pub(super) fn of(bits: u64) -> Header {
        Header(bits)
    }
    /// Returns whether the versions are equal: no key moved from or to a bucket that is its first
    /// one, and no slot became free for another key.
    #[inline(always)]
    pub(super) fn same_version(self, other: Header) -> bool {
        (self.0 ^ other.0) >> VERSION_AT == 0
    }
    /// Advances the version.
    #[inline(always)]
    pub(super) fn advance(&mut self) {
        self.0 = self.0.wrapping_add(1 << VERSION_AT);
    }
    /// Returns a free slot.
    #[inline(always)]
    pub(super) fn free_slot(self, slots: usize) -> Option<usize> {
        let slot = (!self.0).trailing_zeros() as usize;
        (slot < slots).then_some(slot)
    }
    #[inline(always)]
    pub(super) fn take(&mut self, slot: usize) {
        self.0 |= 1 << slot;
    }
    #[inline(always)]
    pub(super) fn free(&mut self, slot: usize) {
        self.0 &= !(1 << slot);
    }
    /// Returns the slots that are taken.
    #[inline(always)]
    pub(super) fn taken(self) -> impl Iterator<Item = usize> {
        let taken = self.0 & TAKEN;
        (0..TAKEN.count_ones() as usize).filter(move |slot| taken >> slot & 1 != 0)
    }
    /// Returns the number of pairs in the bucket.
    #[inline(always)]
    pub(super) fn pairs(self) -> usize {
        (self.0 & TAKEN).count_ones() as usize
    }
    /// Returns the count of keys of a class that have this first bucket and lie in their second.
    #[inline(always)]
    fn count(self, class: u32) -> u64 {
        self.0 >> (COUNTS_AT + COUNT_BITS * class) & MANY
    }
    /// Returns whether keys of a class may lie in their second bucket.
    #[inline(always)]
    pub(super) fn overflowed(self, class: u32) -> bool {
        self.count(class) != 0
    }
    /// Counts a key of a class that goes to its second bucket.
    #[inline(always)]
    pub(super) fn add_overflowed(&mut self, class: u32) {
        self.0 += u64::from(self.count(class) < MANY) << (COUNTS_AT + COUNT_BITS * class);
    }
    /// Forgets a key of a class that has left its second bucket.
    #[inline(always)]
    pub(super) fn remove_overflowed(&mut self, class: u32) {
        let is_counted = (1..MANY).contains(&self.count(class));
        self.0 -= u64::from(is_counted) << (COUNTS_AT + COUNT_BITS * class);
    }
    /// Forgets all overflowed keys.
    pub(super) fn forget_overflowed(&mut self) {
        self.0 &= !((1 << VERSION_AT) - (1 << COUNTS_AT));
    }
    #[inline(always)]
    pub(super) fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }
    #[inline(always)]
    pub(super) fn is_replaced(self) -> bool {
        self.0 & REPLACED != 0
    }
    #[inline(always)]
    pub(super) fn locked(self) -> u64 {
        self.0 | LOCKED
    }
    #[inline(always)]
    pub(super) fn unlocked(self) -> u64 {
        self.0 & !LOCKED
    }
    /// Returns the header of a bucket that stays locked for ever.
    pub(super) fn replaced(self) -> u64 {
        self.0 | LOCKED | REPLACED
    }
}

/// A bucket of pairs of a key and a value, widened to 64 bits. A slot without a pair has the key
/// of its bucket's [filler](super::table).
pub trait Bucket: Debug + Send + Sync {
    /// Type of its words.
    type Word: Word;
    /// Whether a lookup that finds a key must check the version: key and value are two words.
    const TWO_WORDS: bool;
    /// Makes a bucket whose slots have this key.
    fn filled_with(key: u64) -> Self;
    /// Returns the header.
    fn header(&self) -> &Self::Word;
    /// Returns the value of a key for a thread that holds no lock.
    fn value_of(&self, key: u64) -> Option<u64>;
    /// Returns the slot of a key.
    fn slot_of(&self, key: u64) -> Option<usize>;
    /// Returns the key and the value in a slot.
    fn pair(&self, slot: usize) -> (u64, u64);
    /// Stores a pair in a free slot: first its value, then its key, which publishes it.
    fn put(&self, slot: usize, key: u64, value: u64);
    /// Replaces the value of a key.
    fn assign(&self, slot: usize, key: u64, value: u64);
    /// Replaces the key in a slot by the filler. Does not change the value, which others may read.
    fn clear(&self, slot: usize, filler: u64);
}

/// Pairs of a 32-bit key and a 32-bit value, in one word each: a cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct OneLine<W> {
    header: W,
    /// `value << 32 | key`.
    pairs: [W; 7],
}
impl<W: Word + Debug> Bucket for OneLine<W> {
    type Word = W;
    const TWO_WORDS: bool = false;

    fn filled_with(key: u64) -> OneLine<W> {
        OneLine { header: W::new(0), pairs: std::array::from_fn(|_| W::new(key)) }
    }
    #[inline(always)]
    fn header(&self) -> &W {
        &self.header
    }
    #[inline(always)]
    fn value_of(&self, key: u64) -> Option<u64> {
        let (mut pair, mut found) = (0, false);
        for word in &self.pairs[..W::SLOTS] {
            let word = word.load();
            let is_key = word as u32 == key as u32;
            pair = select_unpredictable(is_key, word, pair);
            found |= is_key;
        }
        found.then_some(pair >> 32)
    }
    #[inline(always)]
    fn slot_of(&self, key: u64) -> Option<usize> {
        slot_with(&self.pairs, |word| word as u32 == key as u32)
    }
    #[inline(always)]
    fn pair(&self, slot: usize) -> (u64, u64) {
        let pair = self.pairs[slot].load();
        (pair & 0xFFFF_FFFF, pair >> 32)
    }
    #[inline(always)]
    fn put(&self, slot: usize, key: u64, value: u64) {
        self.pairs[slot].store(value << 32 | key);
    }
    #[inline(always)]
    fn assign(&self, slot: usize, key: u64, value: u64) {
        self.put(slot, key, value);
    }
    #[inline(always)]
    fn clear(&self, slot: usize, filler: u64) {
        self.pairs[slot].store(filler);
    }
}

/// Pairs with a key or a value of 64 bits: a cache line of keys, and the next one of values.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct TwoLines<W> {
    header: W,
    keys: [W; 7],
    /// One more than keys: every number of three bits is an index.
    values: [W; 8],
}
impl<W: Word + Debug> Bucket for TwoLines<W> {
    type Word = W;
    const TWO_WORDS: bool = true;

    fn filled_with(key: u64) -> TwoLines<W> {
        let (keys, values) = (|_| W::new(key), |_| W::new(0));
        TwoLines {
            header: W::new(0),
            keys: std::array::from_fn(keys),
            values: std::array::from_fn(values),
        }
    }
    #[inline(always)]
    fn header(&self) -> &W {
        &self.header
    }
    #[inline(always)]
    fn value_of(&self, key: u64) -> Option<u64> {
        self.slot_of(key).map(|slot| self.values[slot % 8].load())
    }
    #[inline(always)]
    fn slot_of(&self, key: u64) -> Option<usize> {
        slot_with(&self.keys, |word| word == key)
    }
    #[inline(always)]
    fn pair(&self, slot: usize) -> (u64, u64) {
        (self.keys[slot].load(), self.values[slot].load())
    }
    #[inline(always)]
    fn put(&self, slot: usize, key: u64, value: u64) {
        self.values[slot].store(value);
        self.keys[slot].store(key);
    }
    #[inline(always)]
    fn assign(&self, slot: usize, _: u64, value: u64) {
        self.values[slot].store(value);
    }
    #[inline(always)]
    fn clear(&self, slot: usize, filler: u64) {
        self.keys[slot].store(filler);
    }
}
/// Returns the slot whose word is the wanted one, without branches on the slot.
#[inline(always)]
fn slot_with<W: Word>(words: &[W; 7], is_wanted: impl Fn(u64) -> bool) -> Option<usize> {
    let mut found = 0u32;
    for (slot, word) in words[..W::SLOTS].iter().enumerate() {
        found |= u32::from(is_wanted(word.load())) << slot;
    }
    (found != 0).then(|| found.trailing_zeros() as usize)
}

/// Layouts of pairs, for the buckets of tables that threads share.
pub trait SharedLayout {
    /// Buckets of these pairs.
    type Bucket: Bucket<Word = AtomicU64>;
}
impl SharedLayout for Narrow {
    type Bucket = OneLine<AtomicU64>;
}
impl<K, V> SharedLayout for Wide<K, V>
where
    Wide<K, V>: Layout,
{
    type Bucket = TwoLines<AtomicU64>;
}
