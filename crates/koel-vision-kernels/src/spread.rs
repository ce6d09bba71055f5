//! Chooses an evenly spread subset of edges: in a given order, each edge that is not too close to
//! one already chosen.
//!
//! The result equals that of a sequential pass. An edge is decided once the earlier ones that could
//! crowd it out are decided; its thread waits for them. Blocks take tickets in the order of the
//! edges, so every edge that is waited for belongs to a running block or a finished one.
use crate::edges::NONE;
use crate::{EdgesIn, Size};
use koel_kernels::lookback::take_tile;
use koel_simt::{Buf, In, Thread, U32x4, kernel};

const THREADS: u32 = 256;
/// Cosine of 60 degrees. Edges whose directions differ by less than that are alike.
pub const ALIKE: f32 = 0.5;
/// State of an undecided edge, the initial one.
const OPEN: u32 = 0;
const DROPPED: u32 = 1;
const KEPT: u32 = 2;

/// Returns whether one of two edges crowds out the other: whether they are alike and less than the
/// square root of `apart2` pixels apart. Each edge is x, y, normal x, normal y.
#[inline(always)]
pub fn crowd(e: [f32; 4], o: [f32; 4], apart2: f32) -> bool {
    let (dx, dy) = (e[0] - o[0], e[1] - o[1]);
    e[2] * o[2] + e[3] * o[3] > ALIKE && dx * dx + dy * dy < apart2
}

/// Writes the edges' numbers, and keys that sort the edges by decreasing contrast. One thread per
/// edge.
#[kernel(image = VISION, threads = 256, independent)]
pub fn vision_order(t: Thread, edges: EdgesIn, keys: Buf<u32>, numbers: Buf<u32>) {
    let i = t.global_id();
    if i < edges.count {
        // Positive floats have the same order as their bits.
        keys.store(i, !edges.traits.get(4 * i + 2));
        numbers.store(i, i);
    }
}

/// Sets `ranks[order[r]]` to r, and `at[p]` to the edge in pixel `p`. One thread per edge. `at`
/// must be all ones initially.
#[kernel(image = VISION, threads = 256, independent)]
pub fn vision_ranks(t: Thread, edges: EdgesIn, order: In<u32>, ranks: Buf<u32>, at: Buf<u32>) {
    let r = t.global_id();
    if r < edges.count {
        let edge = order.get(r);
        ranks.store(edge, r);
        at.store(edges.traits.get(4 * edge + 3), edge);
    }
}

/// Input of [`vision_spread()`]: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Spread {
    /// Edges.
    pub edges: EdgesIn,
    /// Edge of each rank. Rank 0 is chosen first.
    pub order: In<u32>,
    /// Rank of each edge.
    pub ranks: In<u32>,
    /// Edge in each pixel; all ones if there is none.
    pub at: In<u32>,
    /// Size of the image.
    pub size: Size,
    /// Minimum distance between alike edges, in pixels.
    pub apart: f32,
}

/// Sets `flags[r]` to 1 if the edge of rank `r` is chosen, else to 0. One thread per rank. `states`
/// (one per edge) and `ticket` must be 0 initially.
#[kernel(image = VISION, threads = 256, shared = 4)]
pub fn vision_spread(
    t: Thread,
    spread: Spread,
    states: Buf<u32>,
    flags: Buf<u8>,
    ticket: Buf<u32>,
) {
    let Spread { edges, order, ranks, at, size, apart } = spread;
    let EdgesIn { places, traits, count } = edges;
    let (width, height) = (crate::at_least_one(size.width), size.height);
    let slot = t.shared().array::<u32>(1);
    take_tile(t, ticket, slot);
    t.barrier();
    let rank = slot.load(0) * THREADS + t.id();
    let (mut open, mut edge, mut place, mut pixel) = (rank < count, 0, [0.0; 4], 0);
    if open {
        edge = order.get(rank);
        place = places.x4().get(edge).0.map(f32::from_bits);
        pixel = traits.get(4 * edge + 3);
    }
    // An edge is at most half a pixel from the centre of its pixel.
    let reach = apart as u32 + 1;
    let (left, right) = crate::edges::window(pixel % width, reach, width);
    let (top, bottom) = crate::edges::window(pixel / width, reach, height);
    loop {
        if open {
            let (mut crowded, mut waits) = (false, false);
            let mut y = top;
            while y < bottom {
                let mut x = left;
                while x < right {
                    let other = at.get(y * width + x);
                    if other != NONE && ranks.get(other) < rank {
                        let U32x4(words) = places.x4().get(other);
                        if crowd(place, words.map(f32::from_bits), apart * apart) {
                            let state = states.load_relaxed(other);
                            crowded |= state == KEPT;
                            waits |= state == OPEN;
                        }
                    }
                    x += 1;
                }
                y += 1;
            }
            if crowded || !waits {
                open = false;
                states.store_relaxed(edge, if crowded { DROPPED } else { KEPT });
                flags.store(rank, !crowded as u8);
            }
        }
        if !t.warp().any(open) {
            break;
        }
    }
}

/// Writes x, y, direction and number of each chosen edge to `points`. One thread per entry of
/// `chosen`, of which `count[0]` are valid.
#[kernel(image = VISION, threads = 256, independent)]
pub fn vision_points(
    t: Thread,
    most: u32,
    count: In<u32>,
    chosen: In<u32>,
    edges: EdgesIn,
    points: Buf<u32>,
) {
    let EdgesIn { places, traits, .. } = edges;
    let i = t.global_id();
    if i < most && i < count.get(0) {
        let edge = chosen.get(i);
        let words = [places.get(4 * edge), places.get(4 * edge + 1), traits.get(4 * edge), edge];
        points.x4().store(i, U32x4(words));
    }
}
