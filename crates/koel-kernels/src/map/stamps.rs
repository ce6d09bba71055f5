//! Stamps: the stretch of the input that a pair came from, stored in the bits of its hash that its
//! first-pass bin implies.
use crate::hash::mulhi;
use crate::table::layout::Layout;

/// How stamps replace the high bits of a hash, as a kernel argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Stamps {
    /// The bits that the first-pass bin implies. If 0, there are no stamps, and all fields are 0.
    pub mask: u32,
    /// Shift of a stamp into these bits.
    pub shift: u32,
    /// Number of stamps: two less than the mask could hold, so that no stamp is all ones, and one
    /// value is left for [`unknown`](Self::unknown).
    pub count: u32,
    /// Stamps per block of the first pass, times 2^32.
    pub per_block: u32,
    /// Whether the first of equal keys stays (not 0). Stamps then decrease along the input.
    pub keep_first: u32,
}
impl Stamps {
    /// Stamps of a build that stamps no pairs.
    pub const NONE: Stamps = Stamps { mask: 0, shift: 0, count: 0, per_block: 0, keep_first: 0 };
    /// Returns the stamp of a block's pairs. Of two blocks, the one whose copies stay never has the
    /// lesser stamp.
    #[inline(always)]
    pub fn of_block(self, block: u32) -> u32 {
        let stamp = mulhi(block, self.per_block);
        if self.keep_first != 0 { self.count.saturating_sub(1 + stamp) } else { stamp }
    }
    /// Returns the stamp of pairs from an unknown stretch, which is greater than all others.
    /// Without stamps, all pairs have it.
    #[inline(always)]
    pub fn unknown(self) -> u32 {
        self.count
    }
    /// Returns the word that makes [`finalize`](super::finalize) search the stretch of this stamp
    /// and those of all greater stamps. The greatest word that any copy requests wins. Never 0.
    #[inline(always)]
    pub fn from(self, stamp: u32) -> u32 {
        let first = if stamp == self.unknown() { 0 } else { stamp };
        self.count.wrapping_sub(first).wrapping_add(1)
    }
    /// Returns whether the word `from` (see [`from`](Self::from)) requests a search of a stamp's
    /// stretch. A word of 0 requests none.
    #[inline(always)]
    pub fn searched(self, from: u32, stamp: u32) -> bool {
        stamp + from > self.count
    }
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
    /// Returns the high bits that a first-pass bin implies.
    #[inline(always)]
    pub fn top(self, coarse_bin: u32) -> u32 {
        (coarse_bin << (self.shift & 31)) & self.mask
    }
    /// Returns the hash of a stamped one, given the high bits that its first-pass bin implies.
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
