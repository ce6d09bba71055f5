//! Start of a frame: sets the motions and sizes of the clouds and clears all counts.
use super::area::BINS;
use super::clouds::{Motion, Motions};
use super::index::BrickMarks;
use super::layout::Shape;
use super::state;
use koel_simt::{Buf, Thread, kernel, unroll};

/// Writes the motions and sizes of both clouds to device memory, where the kernels of a recorded
/// graph find new ones each time. Clears the rest of the state, the bitmap of bricks with its
/// counts, and the histogram of areas. One thread per word of the longest of these.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_begin(
    t: Thread,
    given: Motions,
    motions: Buf<u64>,
    bricks: BrickMarks,
    histogram: Buf<u32>,
    state: Buf<u32>,
) {
    let Motions { a: motion_a, b: motion_b, points: [points_a, points_b] } = given;
    let BrickMarks { occupied, counts, shape } = bricks;
    let i = t.global_id();
    if i < 2 {
        let first = i * Motion::WORDS;
        unroll::<9>(|c| {
            let of = if i == 0 { motion_a.rotation[c] } else { motion_b.rotation[c] };
            motions.store(first + c as u32, of.to_bits());
        });
        unroll::<3>(|a| {
            let of = if i == 0 { motion_a.translation[a] } else { motion_b.translation[a] };
            motions.store(first + 9 + a as u32, of.to_bits());
        });
    }
    if i < state::WORDS as u32 {
        let of_b = if i == state::GIVEN + 1 { points_b } else { 0 };
        state.store(i, if i == state::GIVEN { points_a } else { of_b });
    }
    if i < 2 * BINS {
        histogram.store(i, 0);
    }
    if i < shape.words {
        occupied.store(i, 0);
        counts.store(i, 0);
    }
}
/// Returns the number of threads of [`spatial_begin()`].
pub const fn threads(shape: Shape) -> u32 {
    if shape.words > 2 * BINS { shape.words } else { 2 * BINS }
}
