//! Decoupled look-back (Merrill and Garland 2016): a running sum over the tiles of one launch, in
//! one pass.
//!
//! Tiles are handed out by a ticket, so a tile only ever waits for tiles that a running block has
//! taken before: progress does not depend on the order in which blocks start. Each tile publishes
//! first its own sum, then the sum up to its end. A status word carries the launch's epoch, the
//! state and 32 bits of value at once, so that relaxed accesses are enough, and a plan that raises
//! the epoch from launch to launch need not clear the words.
use koel_simt::{Buf, Scalar, Shared, Thread, unroll};

/// The value is the tile's own.
pub const AGGREGATE: u32 = 1;
/// The value is the sum of this tile and of all before it.
pub const PREFIX: u32 = 2;
/// Epochs are from 1 to this.
pub const MAX_EPOCH: u32 = (1 << 30) - 1;

/// What the tiles of a launch share: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Tiles {
    /// Status words, as many a tile as the kernel needs; none is of this epoch before the launch.
    pub status: Buf<u64>,
    /// One counter of the tiles that were taken; zero before the launch and after it.
    pub ticket: Buf<u32>,
    /// The launch's epoch: 1 to [`MAX_EPOCH`].
    pub epoch: u32,
}

/// A status word.
#[inline(always)]
pub fn pack(epoch: u32, state: u32, value: u32) -> u64 {
    ((epoch << 2 | state) as u64) << 32 | value as u64
}
/// State and value of a status word; state 0 if nothing was published in this epoch.
#[inline(always)]
pub fn unpack(epoch: u32, word: u64) -> (u32, u32) {
    let tag = (word >> 32) as u32;
    (if tag >> 2 == epoch { tag & 3 } else { 0 }, word as u32)
}

/// What is summed over tiles. Sums wrap.
pub trait Carried: Scalar {
    /// Status words a tile.
    const WORDS: u32;
    /// Nothing.
    const ZERO: Self;
    /// Wrapping sum.
    fn plus(self, other: Self) -> Self;
    /// Wrapping difference.
    fn minus(self, other: Self) -> Self;
    /// Makes state and value known.
    fn publish(self, tiles: Tiles, tile: u32, state: u32);
    /// What is known of a tile; state 0 if nothing yet.
    fn read(tiles: Tiles, tile: u32) -> (u32, Self);
}
impl Carried for u32 {
    const WORDS: u32 = 1;
    const ZERO: u32 = 0;
    #[inline(always)]
    fn plus(self, other: u32) -> u32 {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn minus(self, other: u32) -> u32 {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    #[track_caller]
    fn publish(self, Tiles { status, epoch, .. }: Tiles, tile: u32, state: u32) {
        status.store_relaxed(tile, pack(epoch, state, self));
    }
    #[inline(always)]
    #[track_caller]
    fn read(Tiles { status, epoch, .. }: Tiles, tile: u32) -> (u32, u32) {
        unpack(epoch, status.load_relaxed(tile))
    }
}
/// Two words, each with half of the value: they belong together if their states agree, in whatever
/// order they arrive.
impl Carried for u64 {
    const WORDS: u32 = 2;
    const ZERO: u64 = 0;
    #[inline(always)]
    fn plus(self, other: u64) -> u64 {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn minus(self, other: u64) -> u64 {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    #[track_caller]
    fn publish(self, Tiles { status, epoch, .. }: Tiles, tile: u32, state: u32) {
        status.store_relaxed(2 * tile, pack(epoch, state, self as u32));
        status.store_relaxed(2 * tile + 1, pack(epoch, state, (self >> 32) as u32));
    }
    #[inline(always)]
    #[track_caller]
    fn read(Tiles { status, epoch, .. }: Tiles, tile: u32) -> (u32, u64) {
        let (a, low) = unpack(epoch, status.load_relaxed(2 * tile));
        let (b, high) = unpack(epoch, status.load_relaxed(2 * tile + 1));
        (if a == b { a } else { 0 }, (high as u64) << 32 | low as u64)
    }
}

/// The next tile, by thread 0, into `slot[0]`: a barrier must follow. The last ticket sets the
/// counter back.
#[inline(always)]
#[track_caller]
pub fn take_tile(t: Thread, ticket: Buf<u32>, slot: Shared<u32>) {
    if t.id() == 0 {
        let tile = ticket.fetch_add(0, 1);
        if tile == t.grid_dim() - 1 {
            ticket.store_relaxed(0, 0);
        }
        slot.store(0, tile);
    }
}

/// Publishes `own`, the sum of `tile`, and returns the sum of all tiles before it. For all lanes of
/// one warp of the block.
#[inline(always)]
#[track_caller]
pub fn sum_before<T: Carried>(t: Thread, tiles: Tiles, tile: u32, own: T) -> T {
    if t.lane() == 0 {
        own.publish(tiles, tile, if tile == 0 { PREFIX } else { AGGREGATE });
    }
    let (mut sum, mut end) = (T::ZERO, tile);
    while end != 0 {
        let (mut state, mut value);
        loop {
            // Lanes before tile 0 end the search; they are behind the lane of tile 0, which does so
            // too.
            (state, value) = (PREFIX, T::ZERO);
            if t.lane() < end {
                (state, value) = T::read(tiles, end - 1 - t.lane());
            }
            if t.warp().all(state != 0) {
                break;
            }
        }
        let closed = t.warp().ballot(state == PREFIX);
        sum = sum
            .plus(warp_sum(t, if t.lane() <= closed.trailing_zeros() { value } else { T::ZERO }));
        if closed != 0 {
            break;
        }
        end -= 32;
    }
    if t.lane() == 0 && tile != 0 {
        sum.plus(own).publish(tiles, tile, PREFIX);
    }
    sum
}

#[inline(always)]
#[track_caller]
fn warp_sum<T: Carried>(t: Thread, x: T) -> T {
    let mut sum = x;
    unroll::<5>(|j| sum = sum.plus(t.warp().shfl_xor(sum, 1 << j)));
    sum
}

/// Inclusive sum over the warp.
#[inline(always)]
#[track_caller]
pub fn warp_inclusive<T: Carried>(t: Thread, x: T) -> T {
    let mut sum = x;
    unroll::<5>(|j| {
        let other = t.warp().shfl_up(sum, 1 << j);
        if t.lane() >= 1 << j {
            sum = sum.plus(other);
        }
    });
    sum
}
