//! Stamps: numbers that rank copies of a key by their place in the input, stored in bits of their
//! hashes that their bins imply.
//!
//! The tiles of the pass over the input are numbered in the order in which their copies give way:
//! of two copies, the one from the tile with the greater number stays.
//!
//! * A bin of the last pass implies all but the lower bits of a hash. The others hold the number of
//!   the tile that a pair came from.
//! * A bin of the first of two passes implies fewer bits. Such a bin is therefore divided into
//!   *regions*, one for each stretch of the input, and these bits hold the number of the tile
//!   within the stretch. The second pass knows the stretch from the region.
//!
//! Where there are more tiles than the bits of the last pass can tell apart, several adjacent tiles
//! share a number.
use crate::hash::mulhi;
use crate::table::layout::Layout;

/// How the pairs of a build are stamped, as a kernel argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Stamps {
    /// Stamps in the bins of the first of two passes.
    pub coarse: CoarseStamps,
    /// The bits of a hash that a bin of the last pass does not imply. All ones without stamps.
    pub mask: u32,
    /// Shift of a stamp into the other bits.
    pub shift: u32,
    /// Low word of 2^64 divided by the number of partitions.
    pub step_low: u32,
    /// High word of it.
    pub step_high: u32,
    /// Number of stamps, less than the bits could hold: no stamp is all ones. 0 without stamps.
    pub count: u32,
    /// Base-2 logarithm of the coarse stamps per stamp.
    pub stamp_shift: u32,
    /// Base-2 logarithm of the stamps per [word](Self::word).
    pub word_shift: u32,
    /// Whether the first of equal keys stays (not 0). Tiles are then numbered backwards.
    pub keep_first: u32,
}
/// How pairs are stamped in the bins of the first of two passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct CoarseStamps {
    /// Whether there are two passes (not 0).
    pub used: u32,
    /// The bits of a hash that the bin implies and that hold the stamp.
    pub mask: u32,
    /// Shift of a stamp into these bits.
    pub shift: u32,
    /// Number of stamps per stretch of the input.
    pub per_stretch: u32,
    /// Number of stamps of all stretches together.
    pub count: u32,
    /// Number of stretches.
    pub stretches: u32,
}
impl Stamps {
    /// Stamps of a build that stamps no pairs: all have the stamp 0, as have all tiles.
    pub const NONE: Stamps = Stamps {
        coarse: CoarseStamps {
            used: 0,
            mask: 0,
            shift: 0,
            per_stretch: u32::MAX,
            count: 0,
            stretches: 1,
        },
        mask: u32::MAX,
        shift: 0,
        step_low: 0,
        step_high: 0,
        count: 0,
        stamp_shift: 31,
        word_shift: 0,
        keep_first: 0,
    };
    /// Returns the coarse stamp of a tile, counted through all stretches. Of two tiles, the one
    /// whose copies stay never has the lesser one.
    #[inline(always)]
    fn counted(self, tile: u32) -> u32 {
        if self.keep_first != 0 { self.coarse.count.wrapping_sub(1 + tile) } else { tile }
    }
    /// Returns the stretch of a tile and its coarse stamp within the stretch.
    #[inline(always)]
    pub fn coarse_of_tile(self, tile: u32) -> (u32, u32) {
        let (counted, each) = (self.counted(tile), self.coarse.per_stretch);
        let stretch = counted.checked_div(each).unwrap_or(0);
        (stretch, counted - stretch * each)
    }
    /// Returns the stamp of a tile.
    #[inline(always)]
    pub fn of_tile(self, tile: u32) -> u32 {
        self.counted(tile) >> (self.stamp_shift & 31)
    }
    /// Returns the stamp of a coarse stamp of a stretch.
    #[inline(always)]
    pub fn of_coarse(self, stretch: u32, coarse: u32) -> u32 {
        (stretch.wrapping_mul(self.coarse.per_stretch) + coarse) >> (self.stamp_shift & 31)
    }
    /// Returns the word, of those that start at [`STRETCHES`](crate::table::state::STRETCHES),
    /// that makes [`finalize`](super::finalize) search a stamp's tiles.
    #[inline(always)]
    pub fn word(self, stamp: u32) -> u32 {
        stamp >> (self.word_shift & 31)
    }
    /// Returns a hash with a stamp in its high bits.
    #[inline(always)]
    pub fn with(self, h: u32, stamp: u32) -> u32 {
        h & self.mask | (stamp << (self.shift & 31)) & !self.mask
    }
    /// Returns the stamp of a stamped hash, or 0 if there are no stamps.
    #[inline(always)]
    pub fn of(self, stamped: u32) -> u32 {
        (stamped & !self.mask) >> (self.shift & 31)
    }
    /// Returns a number that is not greater than any hash of a partition, by at most 2.
    #[inline(always)]
    pub fn base(self, partition: u32) -> u32 {
        mulhi(partition, self.step_low).wrapping_add(partition.wrapping_mul(self.step_high))
    }
    /// Returns the hash of a stamped one, given the [`base`](Self::base) of its partition.
    #[inline(always)]
    pub fn hash(self, stamped: u32, base: u32) -> u32 {
        (stamped.wrapping_sub(base) & self.mask).wrapping_add(base)
    }
}
impl CoarseStamps {
    /// Returns a hash with a stamp in its high bits.
    #[inline(always)]
    pub fn with(self, h: u32, stamp: u32) -> u32 {
        h & !self.mask | (stamp << (self.shift & 31)) & self.mask
    }
    /// Returns the stamp of a stamped hash, or 0 if there are no stamps.
    #[inline(always)]
    pub fn of(self, stamped: u32) -> u32 {
        (stamped & self.mask) >> (self.shift & 31)
    }
    /// Returns the high bits that a bin implies.
    #[inline(always)]
    pub fn top(self, bin: u32) -> u32 {
        (bin << (self.shift & 31)) & self.mask
    }
    /// Returns the hash of a stamped one, given the high bits that its bin implies.
    #[inline(always)]
    pub fn hash(self, stamped: u32, top: u32) -> u32 {
        stamped & !self.mask | top
    }
}
/// Returns a head with another hash.
#[inline(always)]
pub fn with_hash<L: Layout>(head: u64, h: u32) -> u64 {
    head & !((!0u32 as u64) << L::HASH_SHIFT) | (h as u64) << L::HASH_SHIFT
}
/// Returns the hash in a head, stamped or not.
#[inline(always)]
pub fn hash_in<L: Layout>(head: u64) -> u32 {
    (head >> L::HASH_SHIFT) as u32
}
