//! Records: 64 bits that stand for a pair of any types while its partition is built.
//!
//! * [`Stamped`]: for builds after the partition passes. A narrow pair is its own record. The
//!   record of a wide pair holds the hash of its key, without the bits that all keys of the
//!   partition share, and the number of the pair in the partition. The pair itself is fetched from
//!   the cache when its bucket is written, and its stamp if it has a copy.
//! * [`Indexed`]: for small inputs. It holds the hash of the key and the position of the pair in
//!   the input, which is in the cache. The position always decides which of two equal keys stays.
use super::partition::overflow_stamp;
use super::rank;
use super::stamps::{Stamps, hash_in, with_hash};
use crate::table::layout::{EMPTY, Layout, Narrow, Number, Wide};
use core::marker::PhantomData;
use koel_simt::{Buf, In, U64x2};

/// The pairs that records stand for.
pub type PairOf<R> = <<R as Placed>::Layout as Layout>::Pair;

/// Records that are placed in the buckets of a partition.
pub trait Placed: Copy {
    /// The layout of the pairs.
    type Layout: Layout;
    /// Whether all stamps are distinct.
    const EXACT: bool;
    /// Whether changed buckets are marked.
    const MARKS_CHANGES: bool = false;
    /// Whether eight lanes of a warp help each of the last pairs that evict, which takes registers.
    const HELPS_NEAR: bool = Self::EXACT;
    /// Returns the hash of a record's key, which belongs to this partition.
    fn hash(self, record: u64) -> u32;
    /// Returns bits of a record that differ only if the keys differ.
    #[inline(always)]
    fn tag(self, record: u64) -> u32 {
        self.hash(record)
    }
    /// Returns the stamp of a record. The copy with the greatest stamp stays. Not called where all
    /// keys are distinct.
    #[inline(always)]
    fn stamp(self, _record: u64) -> u32 {
        0
    }
    /// Returns the pair of a record.
    fn pair(self, record: u64) -> PairOf<Self>;
    /// Returns whether two records with equal tags have equal keys.
    fn same_key(self, a: u64, b: u64) -> bool;
}
/// The records of a partition's bin and of the overflow areas.
pub trait Records: Placed {
    /// Threads of a block that builds a partition from them.
    const THREADS: u32 = 256;
    /// Returns the record of pair `number` of the partition's bin.
    fn record(self, number: u32) -> u64;
    /// Returns the record of pair `place` of the overflow areas, and the hash of its key, which may
    /// belong to another partition.
    fn behind(self, place: u32) -> (u64, u32);
    /// Returns the word of [`Stamps::word`]. Not called where all stamps are distinct.
    #[inline(always)]
    fn search_word(self, _stamp: u32) -> u32 {
        0
    }
}

/// A layout whose pairs have stamped records.
pub trait Recorded: Layout {
    /// Returns the record of a pair with this head: stamped if it is from a bin, with its true hash
    /// if it is from an overflow area.
    fn record(head: u64, number: u32, from: Stamped<Self>) -> u64;
    /// Returns the heads of pairs `2 i` and `2 i + 1` of an array.
    fn two_heads(pairs: Buf<u64>, i: u32) -> [u64; 2];
    /// Returns the hash of a record's key.
    fn hash_of(record: u64, from: Stamped<Self>) -> u32;
    /// Returns the tag of a record.
    fn tag_of(record: u64, from: Stamped<Self>) -> u32;
    /// Returns the stamp of a record.
    fn stamp_of(record: u64, from: Stamped<Self>) -> u32;
    /// Returns the pair of a record.
    fn pair_of(record: u64, from: Stamped<Self>) -> Self::Pair;
    /// Returns whether two records with equal tags have equal keys.
    fn same_key(a: u64, b: u64, from: Stamped<Self>) -> bool;
}
/// The pairs of a partition as the partition passes leave them.
#[derive(Clone, Copy)]
pub struct Stamped<L> {
    /// How hashes are stamped.
    pub stamps: Stamps,
    /// The [base](Stamps::base) of the partition.
    pub base: u32,
    /// The bins.
    pub bins: Buf<u64>,
    /// First place of the partition's bin.
    pub bin: u32,
    /// Places per bin. Pairs with this number or a greater one are in the overflow areas.
    pub room: u32,
    /// The overflow areas, and behind them the stamps of their pairs.
    pub overflow: Buf<u64>,
    /// Pairs per overflow area.
    pub area: u32,
    /// The layout of the pairs.
    pub layout: PhantomData<L>,
}
impl<L: Layout> Stamped<L> {
    /// Returns the stamp of pair `number` of the partition, which is in an overflow area.
    #[inline(always)]
    fn stamp_behind(self, number: u32) -> u32 {
        if self.stamps.count == 0 {
            return 0;
        }
        self.overflow.load(overflow_stamp::<L>(self.area, number - self.room)) as u32
    }
    /// Returns pair `number` of the partition, with its true hash. The pair will not be read again
    /// soon.
    #[inline(always)]
    fn numbered(self, number: u32) -> L::Pair {
        if number < self.room {
            let pair = L::pairs(self.bins).load(self.bin + number);
            let head = L::head(pair);
            L::with_head(
                with_hash::<L>(head, self.stamps.hash(hash_in::<L>(head), self.base)),
                L::behind(pair),
            )
        } else {
            L::pairs(self.overflow).load(number - self.room)
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
        L::record(L::head(L::pairs(self.bins).load(self.bin + number)), number, self)
    }
    #[inline(always)]
    fn behind(self, place: u32) -> (u64, u32) {
        let pair = L::pairs(self.overflow).load(place);
        (L::record(L::head(pair), self.room + place, self), L::hash(L::key(pair)))
    }
    #[inline(always)]
    fn search_word(self, stamp: u32) -> u32 {
        self.stamps.word(stamp)
    }
}
impl Recorded for Narrow {
    #[inline(always)]
    fn record(head: u64, number: u32, from: Stamped<Narrow>) -> u64 {
        let stamps = from.stamps;
        if number < from.room {
            head
        } else {
            with_hash::<Narrow>(head, stamps.with(head as u32, from.stamp_behind(number)))
        }
    }
    #[inline(always)]
    fn two_heads(pairs: Buf<u64>, i: u32) -> [u64; 2] {
        Self::two(pairs, i)
    }
    #[inline(always)]
    fn hash_of(record: u64, from: Stamped<Narrow>) -> u32 {
        from.stamps.hash(record as u32, from.base)
    }
    #[inline(always)]
    fn tag_of(record: u64, from: Stamped<Narrow>) -> u32 {
        record as u32 & from.stamps.mask
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
impl Recorded for Wide<u64, u64> {
    #[inline(always)]
    fn record(head: u64, number: u32, from: Stamped<Self>) -> u64 {
        // In the place of the stamp, bits of the other half of the mixed key: with many partitions,
        // the pairs of a bucket differ in little else.
        let mask = from.stamps.mask;
        let tag = hash_in::<Self>(head) & mask | head as u32 & !mask;
        (number as u64) << 32 | tag as u64
    }
    #[inline(always)]
    fn two_heads(pairs: Buf<u64>, i: u32) -> [u64; 2] {
        // Values are fetched when the bucket is written.
        [pairs.load(4 * i), pairs.load(4 * i + 2)]
    }
    #[inline(always)]
    fn hash_of(record: u64, from: Stamped<Self>) -> u32 {
        from.stamps.hash(record as u32, from.base)
    }
    #[inline(always)]
    fn tag_of(record: u64, _: Stamped<Self>) -> u32 {
        record as u32
    }
    #[inline(always)]
    fn stamp_of(record: u64, from: Stamped<Self>) -> u32 {
        let number = (record >> 32) as u32;
        // Only copies are compared by their stamps, so it is fetched when it is needed.
        if number < from.room {
            from.stamps.of(hash_in::<Self>(from.bins.load((from.bin + number) * 2)))
        } else {
            from.stamp_behind(number)
        }
    }
    #[inline(always)]
    fn pair_of(record: u64, from: Stamped<Self>) -> U64x2 {
        from.numbered((record >> 32) as u32)
    }
    #[inline(always)]
    fn same_key(a: u64, b: u64, from: Stamped<Self>) -> bool {
        Self::head(Self::pair_of(a, from)) == Self::head(Self::pair_of(b, from))
    }
}

/// Records that hold the position of a pair in the input.
#[derive(Clone, Copy)]
pub struct Indexed<L: Layout> {
    /// Hash seed.
    pub seed: u32,
    /// Whether the first of equal keys stays (not 0).
    pub keep_first: u32,
    /// The keys of the input.
    pub keys: In<L::Key>,
    /// The values of the input.
    pub values: In<L::Value>,
    /// The bins.
    pub bins: Buf<u64>,
    /// First place of the partition's bin.
    pub bin: u32,
    /// The overflow area.
    pub overflow: Buf<u64>,
}
/// Returns the record of pair `i` of the input, whose key has hash `h`. Never [`EMPTY`]: an input
/// has fewer pairs than that.
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
    // A multiprocessor has few partitions of a small input: more threads hide latencies.
    const THREADS: u32 = 512;
    #[inline(always)]
    fn record(self, number: u32) -> u64 {
        self.bins.load(self.bin + number)
    }
    #[inline(always)]
    fn behind(self, place: u32) -> (u64, u32) {
        let record = self.overflow.load(place);
        (record, record as u32)
    }
}
