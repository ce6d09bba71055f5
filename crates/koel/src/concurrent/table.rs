//! The table of one shard: two-choice buckets of atomic words.
//!
//! Every key has two buckets. A new pair goes to the first one; if that is full, to the second one;
//! if both are full, it takes the place of a pair that moves to its other bucket. The header of a
//! bucket counts the keys of each class that have it as their first bucket and lie in their second,
//! so that a lookup of an absent key rarely reads two buckets.
//!
//! # Protocol
//! A writer locks the buckets that it changes, which takes a bit in their headers. To change a pair
//! it holds the first bucket of the key, and that in which the pair lies; to move it, both of its
//! buckets. So the operations on a key follow one another.
//!
//! A lookup takes no lock, and may overlap anything:
//! * An empty slot holds a *filler*: a key that does not belong to the bucket, so that no lookup
//!   that reads the bucket asks for it. Whether a pair is there thus depends on one word.
//! * A pair moves in three steps: its copy is stored, the version of the *first bucket of its key*
//!   is advanced, its slot is cleared. A lookup that sees the cleared slot sees the new version
//!   too, as loads acquire and stores release. A lookup that finds nothing reads the version again:
//!   if it has not changed, the pair was in neither bucket at some moment of the lookup.
//! * A slot that is cleared advances the version of its own bucket before another pair is stored
//!   there. A lookup that reads key and value as two words therefore checks the version of that
//!   bucket: if it has not changed, the value is one of this key. A pair's value is stored before
//!   its key. If both are in one word, there is nothing to check.
//!
//! So a lookup repeats only if some other operation has made progress, and lookups never wait.
//!
//! A table that is replaced stays as it was in the moment of its replacement: all its buckets are
//! locked for ever. Lookups that began before may end in it.
use super::bucket::{Bucket, CLASSES, Header};
use super::word::Word;
use crate::device::memory::{collect, prefetch};
use crate::error::Result;
use koel_kernels::hash::mix::mix64;

/// Fewest buckets of a table: fillers exist.
pub(super) const MIN_BUCKETS: usize = 4;

/// How keys are hashed to shards, and to the buckets of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashing {
    /// Seed of the map.
    pub seed: u64,
    /// The highest bits of a hash, which determine the shard.
    pub shard_bits: u32,
    /// Another seed for this table; 0 if the first one will do.
    pub redrawn: u64,
}
impl Hashing {
    /// Hashes a key.
    #[inline(always)]
    pub(super) fn hash(self, key: u64) -> u64 {
        mix64(key ^ self.seed)
    }
    /// Returns the bits of a hash that determine the buckets.
    #[inline(always)]
    fn place(self, hash: u64) -> u64 {
        if self.redrawn == 0 { hash << self.shard_bits } else { mix64(hash ^ self.redrawn) }
    }
}

/// The buckets of a key, by their numbers, and its class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub first: usize,
    pub class: u32,
    bits: u64,
}

/// See [the module](self).
#[derive(Debug)]
pub(super) struct Table<B> {
    pub(super) buckets: Vec<B>,
    pub(super) hashing: Hashing,
    /// The buckets of key 0, which is the filler of all others.
    of_zero: [usize; 2],
    /// The filler of these two.
    other_filler: u64,
}

impl<B: Bucket> Table<B> {
    /// Makes an empty table of `buckets` buckets, at least [`MIN_BUCKETS`]. Errors: out of memory.
    pub(super) fn new(buckets: usize, hashing: Hashing) -> Result<Table<B>> {
        let buckets = buckets.max(MIN_BUCKETS);
        let of = |key| {
            let place = placed(buckets, hashing.place(hashing.hash(key)));
            [place.first, second(buckets, place)]
        };
        let of_zero = of(0);
        // Four buckets or more: about a quarter of all keys, or more, will do.
        let other_filler =
            (1..).find(|&key| of(key).iter().all(|at| !of_zero.contains(at))).unwrap_or(0);
        let filler = |at| if of_zero.contains(&at) { other_filler } else { 0 };
        let buckets = collect(buckets, |room| {
            room.iter_mut().enumerate().for_each(|(at, to)| {
                to.write(B::filled_with(filler(at)));
            });
            Ok(())
        })?;
        Ok(Table { buckets, hashing, of_zero, other_filler })
    }
    /// Returns the bytes of the buckets.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.buckets.as_slice())
    }
    /// Returns where a key with this hash belongs.
    #[inline(always)]
    pub(super) fn place(&self, hash: u64) -> Place {
        placed(self.buckets.len(), self.hashing.place(hash))
    }
    /// Returns the second bucket of a key. It differs from the first one.
    #[inline(always)]
    pub(super) fn second(&self, place: Place) -> usize {
        second(self.buckets.len(), place)
    }
    /// Returns the key in the empty slots of a bucket.
    pub(super) fn filler(&self, at: usize) -> u64 {
        if self.of_zero.contains(&at) { self.other_filler } else { 0 }
    }
    /// Prefetches the first bucket of a key.
    #[inline(always)]
    pub(super) fn prefetch(&self, place: Place) {
        prefetch(self.buckets.as_ptr().wrapping_add(place.first));
        self.prefetch_values(place);
    }
    /// Prefetches the values of the first bucket of a key, if they have a line of their own: read
    /// after the keys, they would make a lookup wait twice.
    #[inline(always)]
    pub(super) fn prefetch_values(&self, place: Place) {
        if B::TWO_WORDS {
            let bucket = self.buckets.as_ptr().wrapping_add(place.first);
            prefetch(bucket.cast::<u64>().wrapping_add(8));
        }
    }
    /// Returns the value of a key.
    #[inline(always)]
    pub(super) fn get(&self, place: Place, key: u64) -> Option<u64> {
        self.prefetch_values(place);
        let first = &self.buckets[place.first];
        loop {
            let before = Header::of(first.header().load());
            let found = first.value_of(key);
            if found.is_some() && !B::TWO_WORDS {
                return found;
            }
            if found.is_none() && before.overflowed(place.class) {
                match self.get_in_second(place, key) {
                    Ok(None) => {}
                    Ok(found) => return found,
                    Err(Changed) => continue,
                }
            }
            if before.same_version(Header::of(first.header().load())) {
                return found;
            }
        }
    }
    #[inline(never)]
    fn get_in_second(&self, place: Place, key: u64) -> std::result::Result<Option<u64>, Changed> {
        let second = &self.buckets[self.second(place)];
        let before = Header::of(second.header().load());
        let found = second.value_of(key);
        let is_checked = B::TWO_WORDS && found.is_some();
        if is_checked && !before.same_version(Header::of(second.header().load())) {
            return Err(Changed);
        }
        Ok(found)
    }
    /// Returns the number of slots.
    pub(super) fn slots(&self) -> usize {
        self.buckets.len() * B::Word::SLOTS
    }
}
/// A slot was reused while it was read.
struct Changed;

#[inline(always)]
fn placed(buckets: usize, bits: u64) -> Place {
    let class = (u64::from(bits as u32) * u64::from(CLASSES)) >> 32;
    Place { first: scaled(bits, buckets), class: class as u32, bits }
}
#[inline(always)]
fn second(buckets: usize, place: Place) -> usize {
    let at = scaled((place.bits ^ place.bits >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15), buckets);
    match at == place.first {
        false => at,
        true if at + 1 == buckets => 0,
        true => at + 1,
    }
}
/// Maps all 64-bit numbers to those below `n`, in order.
#[inline(always)]
fn scaled(bits: u64, n: usize) -> usize {
    ((u128::from(bits) * n as u128) >> 64) as usize
}
