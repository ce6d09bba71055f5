//! The bytes of a set, the same on every device.
//!
//! A set is an array of 32-byte buckets, one memory sector each: eight mixed keys of 32 bits, or
//! four of 64 bits. As in a [map](crate::table::layout), a key's hash determines where it may lie:
//! in one of two buckets of one partition. An empty slot is all ones; empty slots come last in a
//! bucket. The one key whose mixed form is all ones, the *ambiguous* key, is stored in the header
//! instead.
//!
//! # Which misses end at the first bucket
//! A key whose first bucket was full went to its second bucket. The order of the keys in a full
//! bucket encodes, for each of four classes of keys, whether a key of that class *overflowed* from
//! here. For eight keys, the bit of class `c` is set if key `2 c` is greater than key `2 c + 1`;
//! for four, the bits are those of a [map's bucket](crate::table::layout). A lookup reads the
//! second bucket only if the first is full, does not hold the key and has the bit of its class set,
//! and the stash only if the second is full too.
//!
//! If a key is erased from a full bucket from which others overflowed, a *filler* may keep it full:
//! a key that does not [belong](Shape::belongs) to the bucket, as in a map.
use crate::table::layout::{Layout, Narrow, Shape, Wide, class, class_bit, with_class_bits};
use crate::table::sending::{Carried, Routed};
use core::fmt::Debug;
use koel_simt::{Buf, In, Shared, U32x4, U64x2, unroll};

/// Key type of a set: `u32` or `u64`. A mixed key has the same type.
pub trait Member: Carried {
    /// How keys are mixed, and how the stash stores them: as pairs whose values are zero.
    type Pairs: Routed<Key = Self, Value = Self, Mixed = Self>;
    /// Half a bucket: sixteen bytes.
    type Half: Copy + Debug + Send + Sync;
    /// Keys per bucket.
    const SLOTS: u32;
    /// An empty slot, and the mixed form of the ambiguous key.
    const EMPTY: Self;

    /// Packs keys into half a bucket.
    fn half(key: impl Fn(u32) -> Self) -> Self::Half;
    /// Returns key `i` of half a bucket.
    fn in_half(half: &Self::Half, i: usize) -> Self;
    /// Loads sixteen bytes of a finished table.
    fn read_half(slots: In<Self>, i: u64) -> Self::Half;
    /// Loads sixteen bytes of a table that this thread may change.
    fn load_half(slots: Buf<Self>, i: u64) -> Self::Half;
    /// Loads sixteen bytes that other threads may change concurrently.
    fn shared_half(slots: Shared<Self>, i: u32) -> Self::Half;
    /// Stores sixteen bytes that no other thread touches.
    fn store_shared_half(slots: Shared<Self>, i: u32, half: Self::Half);
    /// Stores sixteen bytes that are not read again soon.
    fn write_half(slots: Buf<Self>, i: u64, half: Self::Half);
    /// Returns the bit of this class that the order of a full bucket encodes.
    fn class_bit(bucket: [Self::Half; 2], class: u32) -> bool;
    /// Orders a full bucket of distinct keys so that exactly these class bits are set.
    fn with_class_bits(bucket: [Self::Half; 2], bits: u32) -> [Self::Half; 2];
}
impl Member for u32 {
    type Pairs = Narrow;
    type Half = [u32; 4];
    const SLOTS: u32 = 8;
    const EMPTY: u32 = u32::MAX;

    #[inline(always)]
    fn half(key: impl Fn(u32) -> u32) -> [u32; 4] {
        [key(0), key(1), key(2), key(3)]
    }
    #[inline(always)]
    fn in_half(half: &[u32; 4], i: usize) -> u32 {
        half[i]
    }
    #[inline(always)]
    #[track_caller]
    fn read_half(slots: In<u32>, i: u64) -> [u32; 4] {
        slots.x4().get(i).0
    }
    #[inline(always)]
    #[track_caller]
    fn load_half(slots: Buf<u32>, i: u64) -> [u32; 4] {
        slots.x4().load(i).0
    }
    #[inline(always)]
    #[track_caller]
    fn shared_half(slots: Shared<u32>, i: u32) -> [u32; 4] {
        slots.x4().load_volatile(i).0
    }
    #[inline(always)]
    #[track_caller]
    fn store_shared_half(slots: Shared<u32>, i: u32, half: [u32; 4]) {
        slots.x4().store(i, U32x4(half));
    }
    #[inline(always)]
    #[track_caller]
    fn write_half(slots: Buf<u32>, i: u64, half: [u32; 4]) {
        slots.x4().store_stream(i, U32x4(half));
    }
    #[inline(always)]
    fn class_bit([low, high]: [[u32; 4]; 2], class: u32) -> bool {
        let [a, b, c, d] = if class < 2 { low } else { high };
        if class.is_multiple_of(2) { a > b } else { c > d }
    }
    #[inline(always)]
    fn with_class_bits(mut bucket: [[u32; 4]; 2], bits: u32) -> [[u32; 4]; 2] {
        unroll::<4>(|c| {
            let half = &mut bucket[c / 2];
            let (a, b) = (half[c % 2 * 2], half[c % 2 * 2 + 1]);
            let (least, greatest) = (a.min(b), a.max(b));
            let set = bits >> c & 1 != 0;
            (half[c % 2 * 2], half[c % 2 * 2 + 1]) =
                if set { (greatest, least) } else { (least, greatest) };
        });
        bucket
    }
}
impl Member for u64 {
    type Pairs = Wide<u64, u64>;
    type Half = [u64; 2];
    const SLOTS: u32 = 4;
    const EMPTY: u64 = u64::MAX;

    #[inline(always)]
    fn half(key: impl Fn(u32) -> u64) -> [u64; 2] {
        [key(0), key(1)]
    }
    #[inline(always)]
    fn in_half(half: &[u64; 2], i: usize) -> u64 {
        half[i]
    }
    #[inline(always)]
    #[track_caller]
    fn read_half(slots: In<u64>, i: u64) -> [u64; 2] {
        slots.x2().get(i).0
    }
    #[inline(always)]
    #[track_caller]
    fn load_half(slots: Buf<u64>, i: u64) -> [u64; 2] {
        slots.x2().load(i).0
    }
    #[inline(always)]
    #[track_caller]
    fn shared_half(slots: Shared<u64>, i: u32) -> [u64; 2] {
        slots.x2().load_volatile(i).0
    }
    #[inline(always)]
    #[track_caller]
    fn store_shared_half(slots: Shared<u64>, i: u32, half: [u64; 2]) {
        slots.x2().store(i, U64x2(half));
    }
    #[inline(always)]
    #[track_caller]
    fn write_half(slots: Buf<u64>, i: u64, half: [u64; 2]) {
        slots.x2().store_stream(i, U64x2(half));
    }
    #[inline(always)]
    fn class_bit([[a, b], [c, d]]: [[u64; 2]; 2], class: u32) -> bool {
        class_bit::<Self::Pairs>([a, b, c, d], class)
    }
    #[inline(always)]
    fn with_class_bits([[a, b], [c, d]]: [[u64; 2]; 2], bits: u32) -> [[u64; 2]; 2] {
        let [a, b, c, d] =
            with_class_bits::<Self::Pairs>([a, b, c, d].map(|key| Self::Pairs::pair(key, 0)), bits);
        [[a.0[0], b.0[0]], [c.0[0], d.0[0]]]
    }
}

/// Mixes a key. Different seeds give different mixed keys.
#[inline(always)]
pub fn mixed<K: Member>(seed: u32, key: K) -> K {
    K::Pairs::mixed(seed, key)
}
/// Recovers the key from a mixed key.
#[inline(always)]
pub fn unmixed<K: Member>(seed: u32, mixed: K) -> K {
    K::Pairs::unmixed(seed, mixed)
}
/// Returns the 32 bits of a mixed key that determine where it may lie.
#[inline(always)]
pub fn hash<K: Member>(mixed: K) -> u32 {
    K::Pairs::hash(mixed)
}
/// Returns key `i` of a bucket.
#[inline(always)]
pub fn in_bucket<K: Member>(bucket: &[K::Half; 2], i: usize) -> K {
    let of_half = K::SLOTS as usize / 2;
    K::in_half(&bucket[i / of_half], i % of_half)
}
/// Returns whether half a bucket holds a mixed key, which is not the ambiguous one.
#[inline(always)]
pub fn holds<K: Member>(half: K::Half, mixed: K) -> bool {
    let mut any = false;
    unroll::<4>(|i| {
        if i < K::SLOTS as usize / 2 {
            any |= K::in_half(&half, i) == mixed;
        }
    });
    any
}
/// Returns whether two keys of a bucket are equal. Its empty slots come last.
#[inline(always)]
pub fn has_copies<K: Member>(bucket: &[K::Half; 2]) -> bool {
    let mut any = false;
    unroll::<8>(|i| {
        let later = 7 - i;
        if later < K::SLOTS as usize {
            let key = in_bucket::<K>(bucket, later);
            unroll::<8>(|earlier| {
                if earlier < later {
                    any |= in_bucket::<K>(bucket, earlier) == key;
                }
            });
            // Slots after an empty one are empty too, and compare equal.
            any &= key != K::EMPTY;
        }
    });
    any
}
/// Returns the number of keys in half a bucket: the index of its first empty slot. Other threads
/// may have been filling it, and its words need not be from one moment.
#[inline(always)]
pub fn taken<K: Member>(half: K::Half) -> u32 {
    let of_half = K::SLOTS as usize / 2;
    let mut taken = of_half as u32;
    unroll::<4>(|i| {
        if i < of_half && K::in_half(&half, of_half - 1 - i) == K::EMPTY {
            taken = (of_half - 1 - i) as u32;
        }
    });
    taken
}
/// Returns whether a bucket is full.
#[inline(always)]
pub fn is_full<K: Member>(bucket: &[K::Half; 2]) -> bool {
    in_bucket::<K>(bucket, K::SLOTS as usize - 1) != K::EMPTY
}
/// Returns the class bits of a full bucket.
#[inline(always)]
pub fn class_bits<K: Member>(bucket: [K::Half; 2]) -> u32 {
    let mut bits = 0;
    unroll::<4>(|c| bits |= (K::class_bit(bucket, c as u32) as u32) << c);
    bits
}
/// Returns the bucket with `key` in a slot.
#[inline(always)]
pub fn with_key<K: Member>(mut bucket: [K::Half; 2], slot: usize, key: K) -> [K::Half; 2] {
    let of_half = K::SLOTS as usize / 2;
    let half = bucket[slot / of_half];
    bucket[slot / of_half] =
        K::half(|i| if i as usize == slot % of_half { key } else { K::in_half(&half, i as usize) });
    bucket
}
/// Returns a bit for each slot of the bucket at `place` that holds a [filler](Shape::filler). Only
/// full buckets have fillers.
#[inline(always)]
pub fn fillers<K: Member>(shape: Shape, place: u32, bucket: &[K::Half; 2]) -> u32 {
    let mut fillers = 0;
    if is_full::<K>(bucket) {
        unroll::<8>(|s| {
            if s < K::SLOTS as usize {
                fillers |= (!shape.belongs(hash(in_bucket::<K>(bucket, s)), place) as u32) << s;
            }
        });
    }
    fillers
}
/// Puts [fillers](Shape::filler) into the slots that have a bit in `gone`, so that the bucket is
/// full. The table must have two buckets.
#[inline(always)]
pub fn filled<K: Member>(
    shape: Shape,
    place: u32,
    mut bucket: [K::Half; 2],
    gone: u32,
) -> [K::Half; 2] {
    let mut filler = 0;
    unroll::<8>(|s| {
        if s < K::SLOTS as usize && gone >> s & 1 != 0 {
            filler = shape.filler(place, filler);
            bucket = with_key::<K>(bucket, s, K::narrowed((filler as u64) << K::Pairs::HASH_SHIFT));
            filler += 1;
        }
    });
    bucket
}
/// Sorts the keys, which moves the empty slots to the end.
#[inline(always)]
pub fn empty_last<K: Member>(mut bucket: [K::Half; 2]) -> [K::Half; 2] {
    // No key is greater than an empty slot.
    unroll::<8>(|round| {
        unroll::<4>(|i| {
            let s = 2 * i + round % 2;
            if round < K::SLOTS as usize && s + 1 < K::SLOTS as usize {
                let (a, b) = (in_bucket::<K>(&bucket, s), in_bucket::<K>(&bucket, s + 1));
                bucket = with_key::<K>(with_key::<K>(bucket, s, a.min(b)), s + 1, a.max(b));
            }
        });
    });
    bucket
}
/// Returns a bucket as it is written out, given the classes that overflowed.
#[inline(always)]
pub fn finished<K: Member>(bucket: [K::Half; 2], bits: u32) -> [K::Half; 2] {
    if is_full::<K>(&bucket) { K::with_class_bits(bucket, bits) } else { bucket }
}
/// Searches for a mixed key, which is not the ambiguous one, in its two buckets. `bucket` loads a
/// bucket. Returns whether the key is there, or `None` if it may be in the stash.
#[inline(always)]
#[track_caller]
pub fn search<K: Member>(
    shape: Shape,
    mixed: K,
    bucket: impl Fn(u32) -> [K::Half; 2],
) -> Option<bool> {
    let h = hash(mixed);
    let first = bucket(shape.first_place(h));
    if holds::<K>(first[0], mixed) | holds::<K>(first[1], mixed) {
        return Some(true);
    }
    if !is_full::<K>(&first) || !K::class_bit(first, class(h)) {
        return Some(false);
    }
    let second = bucket(shape.second_place(h));
    if holds::<K>(second[0], mixed) | holds::<K>(second[1], mixed) {
        return Some(true);
    }
    if is_full::<K>(&second) { None } else { Some(false) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix::splitmix_at;

    fn every_code<K: Member>() {
        let slots = K::SLOTS as usize;
        for seed in 0..500 {
            let keys = (0..8).map(|i| K::narrowed(splitmix_at(seed, i))).collect::<Vec<_>>();
            let half = |half: usize| K::half(|i| keys[half * slots / 2 + i as usize]);
            let bucket = [half(0), half(1)];
            assert!(is_full::<K>(&bucket));
            for bits in 0..16 {
                let coded = finished::<K>(bucket, bits);
                let all = |bucket: &[K::Half; 2]| {
                    let mut keys =
                        (0..slots).map(|i| in_bucket::<K>(bucket, i)).collect::<Vec<_>>();
                    keys.sort_unstable();
                    keys
                };
                assert_eq!(all(&bucket), all(&coded), "bits {bits:#b}");
                for class in 0..4 {
                    assert_eq!(
                        K::class_bit(coded, class),
                        bits >> class & 1 != 0,
                        "bits {bits:#b} class {class}"
                    );
                }
            }
        }
    }
    #[test]
    fn every_code_can_be_written_and_read() {
        every_code::<u32>();
        every_code::<u64>();
    }
    fn gaps<K: Member>() {
        let shape = Shape { partitions: 3, buckets: 50 };
        let keys = (0..).map(|i| K::narrowed(splitmix_at(1, i)));
        for place in 0..150 {
            let ours = keys.clone().filter(|&key| shape.belongs(hash(key), place));
            let ours = ours.take(K::SLOTS as usize).collect::<Vec<_>>();
            for gone in 0..1u32 << K::SLOTS {
                let slot = |i: u32| if gone >> i & 1 != 0 { K::EMPTY } else { ours[i as usize] };
                let bucket = [K::half(slot), K::half(|i| slot(i + K::SLOTS / 2))];
                let all = |bucket: [K::Half; 2]| {
                    (0..K::SLOTS as usize).map(move |i| in_bucket::<K>(&bucket, i))
                };
                let mut kept = (0..K::SLOTS)
                    .filter(|i| gone >> i & 1 == 0)
                    .map(|i| ours[i as usize])
                    .collect::<Vec<_>>();
                kept.sort_unstable();
                let last = all(empty_last::<K>(bucket)).take(kept.len()).collect::<Vec<_>>();
                assert_eq!(last, kept);
                assert!(all(empty_last::<K>(bucket)).skip(kept.len()).all(|key| key == K::EMPTY));
                let full = filled::<K>(shape, place, bucket, gone);
                assert_eq!((is_full::<K>(&full), fillers::<K>(shape, place, &full)), (true, gone));
                // No two fillers are equal, so all class bits can be encoded.
                for bits in 0..16 {
                    assert_eq!(class_bits::<K>(finished::<K>(full, bits)), bits);
                }
            }
        }
    }
    #[test]
    fn gaps_are_closed_or_filled() {
        gaps::<u32>();
        gaps::<u64>();
    }
    fn halves<K: Member>() {
        for filled in 0..=K::SLOTS / 2 {
            let half = K::half(|i| if i < filled { K::narrowed(i as u64 + 5) } else { K::EMPTY });
            assert_eq!(taken::<K>(half), filled);
            for i in 0..8 {
                assert_eq!(holds::<K>(half, K::narrowed(i + 5)), (i as u32) < filled);
            }
            let bucket = [K::half(|i| K::narrowed(i as u64)), half];
            assert_eq!(is_full::<K>(&bucket), filled == K::SLOTS / 2);
            // A bucket that is not full has no class bits.
            assert!(is_full::<K>(&bucket) || taken::<K>(finished::<K>(bucket, 15)[1]) == filled);
        }
    }
    #[test]
    fn halves_tell_what_they_hold() {
        halves::<u32>();
        halves::<u64>();
    }
    #[test]
    fn keys_are_mixed_and_back() {
        for i in 0..10_000 {
            let key = splitmix_at(3, i);
            assert_eq!(unmixed(i, mixed(i, key)), key);
            assert_eq!(unmixed(i, mixed(i, key as u32)), key as u32);
        }
    }
}
