//! What a frame begins with: where the clouds stand, and nothing counted yet.
use super::area::BINS;
use super::layout::Shape;
use super::state;
use koel_simt::{Buf, In, Thread, kernel, unroll};

/// Where a cloud stands, in the units of its points: a kernel's argument.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub struct Motion {
    /// Rows of the rotation.
    pub rotation: [f64; 9],
    /// Added after it.
    pub translation: [f64; 3],
}
// SAFETY: plain numbers, no padding.
#[cfg(not(target_arch = "nvptx64"))]
unsafe impl koel_simt::Arg for Motion {}
impl Motion {
    /// Words of 64 bits that it takes in device memory.
    pub const WORDS: u32 = 12;
    /// Reads that of a cloud.
    #[inline(always)]
    #[track_caller]
    pub fn get(motions: In<u64>, cloud: u32) -> Motion {
        let mut motion =
            Motion { rotation: Motion::rotation(motions, cloud), translation: [0.0; 3] };
        unroll::<3>(|a| {
            motion.translation[a] =
                f64::from_bits(motions.get(cloud * Motion::WORDS + 9 + a as u32))
        });
        motion
    }
    /// Reads only the rotation.
    #[inline(always)]
    #[track_caller]
    pub fn rotation(motions: In<u64>, cloud: u32) -> [f64; 9] {
        let mut rotation = [0.0; 9];
        unroll::<9>(|c| {
            rotation[c] = f64::from_bits(motions.get(cloud * Motion::WORDS + c as u32))
        });
        rotation
    }
}

/// Writes the motions of both clouds to device memory, where kernels of a recorded graph find new
/// ones each time; clears the state, the bitmap of bricks with its counts, and the histogram of
/// areas. One thread a word of the longest of them.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_begin(
    t: Thread,
    shape: Shape,
    motion_a: Motion,
    motion_b: Motion,
    motions: Buf<u64>,
    occupied: Buf<u32>,
    counts: Buf<u32>,
    histogram: Buf<u32>,
    state: Buf<u32>,
) {
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
        state.store(i, 0);
    }
    if i < 2 * BINS {
        histogram.store(i, 0);
    }
    if i < shape.words {
        occupied.store(i, 0);
        counts.store(i, 0);
    }
}
/// Threads of [`spatial_begin()`].
pub const fn threads(shape: Shape) -> u32 {
    if shape.words > 2 * BINS { shape.words } else { 2 * BINS }
}
