//! What stands for a pair while its partition is built: a *record* of 64 bits, whatever the pair's
//! types.
//!
//! * [`Stamped`]: after the partition passes. Narrow pairs are their own records. The record of a
//!   wide pair is the hash of its key, but for bits that all keys of the partition share, and where
//!   the pair is among those of the partition; the pair itself is fetched when its bucket is
//!   written out, from the cache.
//! * [`Indexed`]: of small inputs. The hash of the key, and where the pair is in the input, which
//!   the cache holds. So it is always known which of two equal keys stays.
use super::rank;
use super::stamps::{Stamps, hash_in, with_hash};
use crate::table::bins::MAX_OVERFLOW;
use crate::table::layout::{EMPTY, Layout, Narrow, Number, Wide};
use crate::table::state::MAX_STAMPS;
use core::marker::PhantomData;
use koel_simt::{In, U64x2};

/// The pairs that records stand for.
pub type PairOf<R> = <<R as Placed>::Layout as Layout>::Pair;

/// Records that find their places in the buckets of a partition.
pub trait Placed: Copy {
    /// How the pairs are stored.
    type Layout: Layout;
    /// Whether no two records have the same stamp, and none an unknown one.
    const EXACT: bool;
    /// Whether buckets that change are marked.
    const MARKS_CHANGES: bool = false;
    /// The hash of a record's key, of this partition.
    fn hash(self, record: u64) -> u32;
    /// Bits of a record that are different only if the keys are.
    #[inline(always)]
    fn tag(self, record: u64) -> u32 {
        self.hash(record)
    }
    /// Of equal keys the one with the greatest stamp stays; where no two are equal, nobody asks.
    #[inline(always)]
    fn stamp(self, _record: u64) -> u32 {
        0
    }
    /// The stamp that tells nothing.
    #[inline(always)]
    fn unknown(self) -> u32 {
        0
    }
    /// The pair of a record.
    fn pair(self, record: u64) -> PairOf<Self>;
    /// Whether two records of equal tags have equal keys.
    fn same_key(self, a: u64, b: u64) -> bool;
}
/// The records of a partition that is built: how to read them.
pub trait Records: Placed {
    /// The record of pair `number` of the partition's bin.
    fn record(self, number: u32) -> u64;
    /// The record of pair `place` of those behind the bins, and the hash of its key, which may
    /// belong to another partition.
    fn behind(self, place: u32) -> (u64, u32);
    /// [`Stamps::from`].
    fn search_from(self, stamp: u32) -> u32;
}

/// A layout whose pairs have records with stamps.
pub trait Recorded: Layout {
    /// The record of a pair with this head as it came: stamped, or from behind the bins with its
    /// true hash.
    fn record(head: u64, number: u32, from: Stamped<Self>) -> u64;
    /// The heads of pairs `2 i` and `2 i + 1` of an array.
    fn two_heads(pairs: In<u64>, i: u32) -> [u64; 2];
    /// The hash of a record's key.
    fn hash_of(record: u64, from: Stamped<Self>) -> u32;
    /// The tag of a record.
    fn tag_of(record: u64, from: Stamped<Self>) -> u32;
    /// The stamp of a record.
    fn stamp_of(record: u64, from: Stamped<Self>) -> u32;
    /// The pair of a record.
    fn pair_of(record: u64, from: Stamped<Self>) -> Self::Pair;
    /// Whether two records of equal tags have equal keys.
    fn same_key(a: u64, b: u64, from: Stamped<Self>) -> bool;
}
/// Pairs of a partition as the partition passes leave them.
#[derive(Clone, Copy)]
pub struct Stamped<L> {
    /// How hashes are stamped.
    pub stamps: Stamps,
    /// The high bits of all hashes.
    pub top: u32,
    /// The bins.
    pub bins: In<u64>,
    /// The first place of the partition's bin.
    pub bin: u32,
    /// Places of a bin: pairs from this number on are behind the bins.
    pub room: u32,
    /// What is behind the bins.
    pub overflow: In<u64>,
    /// How pairs are stored.
    pub layout: PhantomData<L>,
}
impl<L: Layout> Stamped<L> {
    /// Pair `number` of the partition, with its true hash; not to be read again soon.
    #[inline(always)]
    fn numbered(self, number: u32) -> L::Pair {
        if number < self.room {
            let pair = L::pairs(self.bins).get(self.bin + number);
            let head = L::head(pair);
            L::with_head(
                with_hash::<L>(head, self.stamps.hash(hash_in::<L>(head), self.top)),
                L::behind(pair),
            )
        } else {
            L::pairs(self.overflow).get(number - self.room)
        }
    }
}
impl<L: Recorded> Placed for Stamped<L> {
    type Layout = L;
    const EXACT: bool = false;
    #[inline(always)]
    fn hash(self, record: u64) -> u32 {
        L::hash_of(record, self)
    }
    #[inline(always)]
    fn tag(self, record: u64) -> u32 {
        L::tag_of(record, self)
    }
    #[inline(always)]
    fn stamp(self, record: u64) -> u32 {
        L::stamp_of(record, self)
    }
    #[inline(always)]
    fn unknown(self) -> u32 {
        self.stamps.unknown()
    }
    #[inline(always)]
    fn pair(self, record: u64) -> L::Pair {
        L::pair_of(record, self)
    }
    #[inline(always)]
    fn same_key(self, a: u64, b: u64) -> bool {
        L::same_key(a, b, self)
    }
}
impl<L: Recorded> Records for Stamped<L> {
    #[inline(always)]
    fn record(self, number: u32) -> u64 {
        L::record(L::head(L::pairs(self.bins).get(self.bin + number)), number, self)
    }
    #[inline(always)]
    fn behind(self, place: u32) -> (u64, u32) {
        let pair = L::pairs(self.overflow).get(place);
        (L::record(L::head(pair), self.room + place, self), L::hash(L::key(pair)))
    }
    #[inline(always)]
    fn search_from(self, stamp: u32) -> u32 {
        self.stamps.from(stamp)
    }
}
impl Recorded for Narrow {
    #[inline(always)]
    fn record(head: u64, number: u32, from: Stamped<Narrow>) -> u64 {
        let stamps = from.stamps;
        if number < from.room {
            head
        } else {
            with_hash::<Narrow>(head, stamps.with(head as u32, stamps.unknown()))
        }
    }
    #[inline(always)]
    fn two_heads(pairs: In<u64>, i: u32) -> [u64; 2] {
        Self::two(pairs, i)
    }
    #[inline(always)]
    fn hash_of(record: u64, from: Stamped<Narrow>) -> u32 {
        from.stamps.hash(record as u32, from.top)
    }
    #[inline(always)]
    fn tag_of(record: u64, from: Stamped<Narrow>) -> u32 {
        Self::hash_of(record, from)
    }
    #[inline(always)]
    fn stamp_of(record: u64, from: Stamped<Narrow>) -> u32 {
        from.stamps.of(record as u32)
    }
    #[inline(always)]
    fn pair_of(record: u64, from: Stamped<Narrow>) -> u64 {
        with_hash::<Narrow>(record, Self::hash_of(record, from))
    }
    #[inline(always)]
    fn same_key(_: u64, _: u64, _: Stamped<Narrow>) -> bool {
        true
    }
}
/// Bits of a wide record for the number of the pair.
const NUMBER: u32 = 22;
const _: () = assert!(
    super::build::MAX_PAIRS + 2 * MAX_OVERFLOW <= 1 << NUMBER && MAX_STAMPS <= 1 << (32 - NUMBER)
);
impl Recorded for Wide<u64, u64> {
    #[inline(always)]
    fn record(head: u64, number: u32, from: Stamped<Self>) -> u64 {
        let (stamps, stored) = (from.stamps, hash_in::<Self>(head));
        let stamp = if number < from.room { stamps.of(stored) } else { stamps.unknown() };
        // In place of the bits of the hash that all keys of the partition share some of the other
        // half of the mixed key: the pairs of a bucket have little else to differ in, where
        // there are many partitions.
        let tag = stamps.hash(stored, head as u32 & stamps.mask);
        ((stamp << NUMBER | number) as u64) << 32 | tag as u64
    }
    #[inline(always)]
    fn two_heads(pairs: In<u64>, i: u32) -> [u64; 2] {
        // The values are fetched when the bucket is written.
        [pairs.get(4 * i), pairs.get(4 * i + 2)]
    }
    #[inline(always)]
    fn hash_of(record: u64, from: Stamped<Self>) -> u32 {
        from.stamps.hash(record as u32, from.top)
    }
    #[inline(always)]
    fn tag_of(record: u64, _: Stamped<Self>) -> u32 {
        record as u32
    }
    #[inline(always)]
    fn stamp_of(record: u64, _: Stamped<Self>) -> u32 {
        (record >> (32 + NUMBER)) as u32
    }
    #[inline(always)]
    fn pair_of(record: u64, from: Stamped<Self>) -> U64x2 {
        from.numbered((record >> 32) as u32 & ((1 << NUMBER) - 1))
    }
    #[inline(always)]
    fn same_key(a: u64, b: u64, from: Stamped<Self>) -> bool {
        Self::head(Self::pair_of(a, from)) == Self::head(Self::pair_of(b, from))
    }
}

/// Records that tell where pairs are in the input.
#[derive(Clone, Copy)]
pub struct Indexed<L: Layout> {
    /// Keys are mixed with it.
    pub seed: u32,
    /// Not 0: of equal keys the first stays.
    pub keep_first: u32,
    /// The input.
    pub keys: In<L::Key>,
    /// The input.
    pub values: In<L::Value>,
    /// The bins.
    pub bins: In<u64>,
    /// The first place of the partition's bin.
    pub bin: u32,
    /// What is behind the bins.
    pub overflow: In<u64>,
}
/// The record of pair `i` of the input, whose key has this hash. Never [`EMPTY`]: there are fewer
/// pairs.
#[inline(always)]
pub fn indexed(h: u32, i: u32) -> u64 {
    (i as u64) << 32 | h as u64
}
const _: () = assert!(EMPTY >> 32 == u32::MAX as u64);
impl<L: Layout> Indexed<L> {
    #[inline(always)]
    fn mixed(self, record: u64) -> L::Mixed {
        L::mixed(self.seed, self.keys.get((record >> 32) as u32))
    }
}
impl<L: Layout> Placed for Indexed<L> {
    type Layout = L;
    const EXACT: bool = true;
    #[inline(always)]
    fn hash(self, record: u64) -> u32 {
        record as u32
    }
    #[inline(always)]
    fn stamp(self, record: u64) -> u32 {
        rank((record >> 32) as u32, self.keep_first)
    }
    #[inline(always)]
    fn unknown(self) -> u32 {
        // No pair has this rank.
        0
    }
    #[inline(always)]
    fn pair(self, record: u64) -> L::Pair {
        let value = self.values.get((record >> 32) as u32);
        // A narrow key is its hash.
        let mixed = if L::SLOT_WORDS == 1 {
            L::Mixed::narrowed(record & 0xFFFF_FFFF)
        } else {
            self.mixed(record)
        };
        L::pair(mixed, value)
    }
    #[inline(always)]
    fn same_key(self, a: u64, b: u64) -> bool {
        L::SLOT_WORDS == 1 || self.mixed(a) == self.mixed(b)
    }
}
impl<L: Layout> Records for Indexed<L> {
    #[inline(always)]
    fn record(self, number: u32) -> u64 {
        self.bins.get(self.bin + number)
    }
    #[inline(always)]
    fn behind(self, place: u32) -> (u64, u32) {
        let record = self.overflow.get(place);
        (record, record as u32)
    }
    #[inline(always)]
    fn search_from(self, _: u32) -> u32 {
        0
    }
}
