//! Turns points into voxels: moves them, rounds down and marks the index.
use super::clouds::{Clouds, GROUP, LOCAL_BITS, Motion};
use super::index::BrickMarks;
use super::layout::key_of;
use super::{NONE, state};
use koel_simt::{Buf, Thread, kernel};

/// Position of the grid in space: a kernel argument.
#[derive(Clone, Copy, PartialEq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Frame {
    /// Corner of voxel (0, 0, 0).
    pub origin: [f64; 3],
    /// Side of a voxel.
    pub voxel_size: f64,
}

/// Output of the voxels of points: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct VoxelsOut {
    /// Key of each point's voxel, or [`NONE`] outside the grid.
    pub keys: Buf<u32>,
    /// Position of each point within its voxel: [`LOCAL_BITS`] per axis.
    pub local: Buf<u32>,
    /// Bitmap that marks the voxels' bricks.
    pub bricks: BrickMarks,
}

/// Computes each point's voxel and its position there. One thread per group of points.
///
/// Uses double precision and the order of operations of `Grid::to_voxel_units`: a point that does
/// not move gets the same voxel as on the host.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_voxelize(t: Thread, clouds: Clouds, frame: Frame, to: VoxelsOut, state: Buf<u32>) {
    let Clouds { x, y, z, motions, groups, .. } = clouds;
    let VoxelsOut { keys, local, bricks } = to;
    let i = t.global_id();
    if i >= groups.all {
        return;
    }
    let cloud = groups.cloud(i);
    let motion = Motion::get(motions, cloud);
    let (mut last, mut dropped, mut j) = (NONE, 0, GROUP * i);
    while j < GROUP * i + GROUP {
        let p = [float(x.get_stream(j)), float(y.get_stream(j)), float(z.get_stream(j))];
        let r = motion.rotation;
        let moved = |row: usize| {
            r[3 * row] * p[0]
                + r[3 * row + 1] * p[1]
                + r[3 * row + 2] * p[2]
                + motion.translation[row]
        };
        let q = [
            (moved(0) - frame.origin[0]) / frame.voxel_size,
            (moved(1) - frame.origin[1]) / frame.voxel_size,
            (moved(2) - frame.origin[2]) / frame.voxel_size,
        ];
        let side = bricks.shape.resolution as f64;
        let inside = |c: f64| c >= 0.0 && c < side;
        let mut key = NONE;
        if inside(q[0]) && inside(q[1]) && inside(q[2]) {
            // The voxel and the position in it, packed together. Scaling by a power of two is
            // exact.
            let fixed = |a: usize| {
                // SAFETY: `q[a]` is in `0.0..2^10`, so the product is finite and in `0.0..2^20`,
                // which fits an `i32`.
                unsafe { (q[a] * (1 << LOCAL_BITS) as f64).to_int_unchecked::<i32>() as u32 }
            };
            let (x, y, z, mask) = (fixed(0), fixed(1), fixed(2), (1 << LOCAL_BITS) - 1);
            key = key_of([x >> LOCAL_BITS, y >> LOCAL_BITS, z >> LOCAL_BITS]);
            local.store(j, x & mask | (y & mask) << LOCAL_BITS | (z & mask) << (2 * LOCAL_BITS));
            if key >> 6 != last {
                last = key >> 6;
                bricks.mark(cloud, key);
            }
        } else {
            dropped += 1;
        }
        keys.store(j, key);
        j += 1;
    }
    if dropped != 0 {
        state.fetch_add(state::DROPPED + cloud, dropped);
    }
}
#[inline(always)]
fn float(bits: u32) -> f64 {
    f32::from_bits(bits) as f64
}
