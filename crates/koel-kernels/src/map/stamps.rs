//! Stamps: which stretch of the input a pair came from, in bits of its hash that its group tells.
use crate::hash::mulhi;
use crate::table::layout::Layout;

/// How stamps replace the high bits of a hash: a kernel's argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Stamps {
    /// The bits that a group tells; none: there are no stamps, and all numbers here are 0.
    pub mask: u32,
    /// How far a stamp is shifted to get there.
    pub shift: u32,
    /// How many stamps there are: two less than the mask could hold, so that none is all ones, and
    /// [`unknown`](Self::unknown) is left.
    pub count: u32,
    /// Stamps of a block of the first pass, times 2^32.
    pub per_block: u32,
    /// Not 0: of equal keys the first stays. Stamps then fall.
    pub keep_first: u32,
}
impl Stamps {
    /// No pair gets one.
    pub const NONE: Stamps = Stamps { mask: 0, shift: 0, count: 0, per_block: 0, keep_first: 0 };
    /// The stamp of the pairs of a block: of two blocks, the one whose pairs stay never has a
    /// lesser one.
    #[inline(always)]
    pub fn of_block(self, block: u32) -> u32 {
        let stamp = mulhi(block, self.per_block);
        if self.keep_first != 0 { self.count.saturating_sub(1 + stamp) } else { stamp }
    }
    /// The stamp of pairs whose stretch is not known: more than every other. Without stamps, the
    /// one that all pairs have.
    #[inline(always)]
    pub fn unknown(self) -> u32 {
        self.count
    }
    /// Tells [`settle`](super::settle) to search the stretch of this stamp and of all greater ones:
    /// the greatest of what copies give decides. Never 0.
    #[inline(always)]
    pub fn from(self, stamp: u32) -> u32 {
        let first = if stamp == self.unknown() { 0 } else { stamp };
        self.count.wrapping_sub(first).wrapping_add(1)
    }
    /// Whether [`from`](Self::from) tells to search the stretch of a stamp; 0 tells nothing.
    #[inline(always)]
    pub fn searched(self, from: u32, stamp: u32) -> bool {
        stamp + from > self.count
    }
    /// A hash with a stamp in its high bits.
    #[inline(always)]
    pub fn with(self, h: u32, stamp: u32) -> u32 {
        h & !self.mask | (stamp << (self.shift & 31)) & self.mask
    }
    /// The stamp of a stamped hash; 0 if there are none.
    #[inline(always)]
    pub fn of(self, stamped: u32) -> u32 {
        (stamped & self.mask) >> (self.shift & 31)
    }
    /// The high bits that a group tells.
    #[inline(always)]
    pub fn top(self, group: u32) -> u32 {
        (group << (self.shift & 31)) & self.mask
    }
    /// The hash of a stamped one, of a group with these high bits.
    #[inline(always)]
    pub fn hash(self, stamped: u32, top: u32) -> u32 {
        stamped & !self.mask | top
    }
}
/// A head with another hash.
#[inline(always)]
pub fn with_hash<L: Layout>(head: u64, h: u32) -> u64 {
    head & !((!0u32 as u64) << L::HASH_SHIFT) | (h as u64) << L::HASH_SHIFT
}
/// The hash in a head, stamped or not.
#[inline(always)]
pub fn hash_in<L: Layout>(head: u64) -> u32 {
    (head >> L::HASH_SHIFT) as u32
}
