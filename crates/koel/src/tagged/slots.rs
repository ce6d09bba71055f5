//! How a group of slots stores keys and values in words.
use std::marker::PhantomData;

/// Slots of a group.
pub(super) const SLOTS: usize = 7;

/// Bits of keys and values: up to two words.
pub trait Field: Copy + PartialEq + Default + Send + Sync {
    /// Number of bytes: 0, 4, 8 or 16.
    const BYTES: usize;
    /// Returns the low and the high word.
    fn words(self) -> [u64; 2];
    /// Returns the field with these words.
    fn of_words(words: [u64; 2]) -> Self;
}
macro_rules! fields {
    ($($type:ty: $bytes:literal, $words:expr, $of_words:expr;)+) => {
        $(impl Field for $type {
            const BYTES: usize = $bytes;
            #[inline(always)]
            fn words(self) -> [u64; 2] {
                ($words)(self)
            }
            #[inline(always)]
            fn of_words(words: [u64; 2]) -> Self {
                ($of_words)(words)
            }
        })+
    };
}
fields! {
    (): 0, |()| [0, 0], |_| ();
    u32: 4, |bits| [u64::from(bits), 0], |words: [u64; 2]| words[0] as u32;
    u64: 8, |bits| [bits, 0], |words: [u64; 2]| words[0];
    u128: 16, |bits: u128| [bits as u64, (bits >> 64) as u64],
        |words: [u64; 2]| u128::from(words[1]) << 64 | u128::from(words[0]);
}

/// The words of a group of slots with keys `K` and values `V`: a word of tags first, then the
/// slots. Key and value share a word if they fit; keys of 32 bits without values are two in one.
pub(super) struct Slots<K, V>(PhantomData<(K, V)>);
impl<K: Field, V: Field> Slots<K, V> {
    const IS_HALF: bool = K::BYTES == 4 && V::BYTES == 0;
    const IS_JOINED: bool = K::BYTES == 4 && V::BYTES == 4;
    const KEY_WORDS: usize = K::BYTES.div_ceil(8);
    /// Words of a slot.
    const EACH: usize = if Self::IS_JOINED { 1 } else { Self::KEY_WORDS + V::BYTES.div_ceil(8) };
    /// Words of a group: whole cache lines, unless keys are so small that much would be unused.
    pub(super) const WORDS: usize = if Self::IS_HALF {
        1 + SLOTS.div_ceil(2)
    } else {
        (1 + SLOTS * Self::EACH).next_multiple_of(8)
    };
    #[inline(always)]
    fn at(slot: usize) -> usize {
        1 + slot * Self::EACH
    }
    /// Returns the key in a slot.
    #[inline(always)]
    pub(super) fn key(group: &[u64], slot: usize) -> K {
        if Self::IS_HALF {
            return K::of_words([group[1 + slot / 2] >> (slot % 2 * 32), 0]);
        }
        let at = Self::at(slot);
        K::of_words([group[at], if K::BYTES == 16 { group[at + 1] } else { 0 }])
    }
    /// Returns the value in a slot.
    #[inline(always)]
    pub(super) fn value(group: &[u64], slot: usize) -> V {
        if V::BYTES == 0 {
            return V::default();
        }
        let at = Self::at(slot);
        if Self::IS_JOINED {
            return V::of_words([group[at] >> 32, 0]);
        }
        let at = at + Self::KEY_WORDS;
        V::of_words([group[at], if V::BYTES == 16 { group[at + 1] } else { 0 }])
    }
    /// Writes a key and its value to a slot.
    #[inline(always)]
    pub(super) fn put(group: &mut [u64], slot: usize, key: K, value: V) {
        let [low, high] = key.words();
        if Self::IS_HALF {
            let (word, shift) = (&mut group[1 + slot / 2], slot % 2 * 32);
            *word = *word & !(u64::from(u32::MAX) << shift) | low << shift;
            return;
        }
        let at = Self::at(slot);
        let [value_low, value_high] = value.words();
        if Self::IS_JOINED {
            group[at] = value_low << 32 | low;
            return;
        }
        group[at] = low;
        if K::BYTES == 16 {
            group[at + 1] = high;
        }
        if V::BYTES > 0 {
            group[at + Self::KEY_WORDS] = value_low;
        }
        if V::BYTES == 16 {
            group[at + Self::KEY_WORDS + 1] = value_high;
        }
    }
}
