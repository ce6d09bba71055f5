//! Decoupled look-back (Merrill and Garland 2016): a running sum over the tiles of one launch, in
//! one pass.
//!
//! Tiles are assigned by a ticket, so a tile only waits for tiles that a running block took
//! earlier, and progress does not depend on the order in which blocks start. Each tile publishes
//! first its own sum, then the sum up to its end. A status word holds the launch's epoch, the state
//! and 32 bits of value together, so relaxed accesses suffice, and a plan that increments the epoch
//! with every launch need not clear the words.
use koel_simt::{Buf, Scalar, Shared, Thread, unroll};

/// State: the value is the tile's own sum.
pub const AGGREGATE: u32 = 1;
/// State: the value is the sum of this tile and all before it.
pub const PREFIX: u32 = 2;
/// Greatest epoch; the first one is 1.
pub const MAX_EPOCH: u32 = (1 << 30) - 1;

/// Memory that the tiles of a launch share: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Tiles {
    /// Status words, as many per tile as the kernel needs. None is of this epoch before the launch.
    pub status: Buf<u64>,
    /// Counter of the tiles taken; zero before the launch and after it.
    pub ticket: Buf<u32>,
    /// Epoch of the launch: 1 to [`MAX_EPOCH`].
    pub epoch: u32,
}

/// Packs a status word.
#[inline(always)]
pub fn pack(epoch: u32, state: u32, value: u32) -> u64 {
    ((epoch << 2 | state) as u64) << 32 | value as u64
}
/// Returns the state and value of a status word; state 0 if nothing was published in this epoch.
#[inline(always)]
pub fn unpack(epoch: u32, word: u64) -> (u32, u32) {
    let tag = (word >> 32) as u32;
    (if tag >> 2 == epoch { tag & 3 } else { 0 }, word as u32)
}

/// Type that is summed over tiles. Sums wrap.
pub trait Carried: Scalar {
    /// Status words per tile.
    const WORDS: u32;
    /// Zero.
    const ZERO: Self;
    /// Returns the wrapping sum.
    fn plus(self, other: Self) -> Self;
    /// Returns the wrapping difference.
    fn minus(self, other: Self) -> Self;
    /// Publishes the state and value of a tile.
    fn publish(self, tiles: Tiles, tile: u32, state: u32);
    /// Returns the published state and value of a tile; state 0 if nothing is published yet.
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
/// Uses two words, each with half of the value. They belong together if their states agree, in
/// whatever order they arrive.
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

/// Takes the next tile, by thread 0, and stores it in `slot[0]`; a barrier must follow. The last
/// ticket resets the counter.
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

/// Publishes `own`, the sum of `tile`, and returns the sum of all tiles before it. All lanes of one
/// warp of the block call it.
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
            // Lanes before tile 0 end the search. They come after the lane of tile 0, which ends it
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

/// Returns the inclusive sum over the warp.
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
