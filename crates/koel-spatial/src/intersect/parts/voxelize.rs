//! From points to the bricks and cells of parts.

use super::{BLOCK, CACHED, Part, PartBrick};
use koel_simt::host::Work;
use koel_spatial_kernels::intersect::NONE;
use koel_spatial_kernels::intersect::clouds::{LOCAL_BITS, Motion};
use koel_spatial_kernels::intersect::layout::key_of;
use koel_spatial_kernels::intersect::voxelize::Frame;

/// Moves the points of a part and gathers their bricks.
pub(super) struct Voxelize<'a> {
    pub part: &'a mut Part,
    pub positions: [&'a [u32]; 3],
    pub motion: Motion,
    pub frame: Frame,
    pub resolution: u32,
    /// Entry and cell of each point.
    pub cells: &'a mut [u32],
}
impl Work for Voxelize<'_> {
    #[inline(always)]
    fn run(self) {
        let Voxelize { part, positions: [x, y, z], motion, frame, resolution, cells } = self;
        part.bricks.clear();
        part.dropped = 0;
        let mut cache = [(NONE, 0); CACHED as usize];
        let positions = x.chunks(BLOCK).zip(y.chunks(BLOCK)).zip(z.chunks(BLOCK));
        let to = part.local.chunks_mut(BLOCK).zip(cells.chunks_mut(BLOCK));
        for (((x, y), z), (local, cells)) in positions.zip(to) {
            move_points([x, y, z], motion, (frame, resolution), local, cells);
            for cell in cells {
                let (key, brick) = (*cell, *cell >> 6);
                let cached = &mut cache[((brick ^ brick >> 11) % CACHED) as usize];
                if cached.0 != brick {
                    if key == NONE {
                        part.dropped += 1;
                        continue;
                    }
                    *cached = (brick, part.bricks.len() as u32);
                    part.bricks.push(PartBrick { cells: 0, own: 0, key: brick, first: 0 });
                }
                part.bricks[cached.1 as usize].cells |= 1 << (key & 63);
                *cell = cached.1 << 6 | key & 63;
            }
        }
    }
}
/// Moves points into the grid: writes the position of each within its voxel, and the voxel's key or
/// [`NONE`].
#[inline(always)]
fn move_points(
    [x, y, z]: [&[u32]; 3],
    Motion { rotation: r, translation: t }: Motion,
    (Frame { origin, voxel_size }, resolution): (Frame, u32),
    local: &mut [u32],
    keys: &mut [u32],
) {
    const MASK: u32 = (1 << LOCAL_BITS) - 1;
    let (side, units) = (f64::from(resolution), f64::from(1 << LOCAL_BITS));
    for ((((x, y), z), local), key) in x.iter().zip(y).zip(z).zip(local).zip(keys) {
        let (x, y, z) = (float(*x), float(*y), float(*z));
        let u = (r[0] * x + r[1] * y + r[2] * z + t[0] - origin[0]) / voxel_size;
        let v = (r[3] * x + r[4] * y + r[5] * z + t[1] - origin[1]) / voxel_size;
        let w = (r[6] * x + r[7] * y + r[8] * z + t[2] - origin[2]) / voxel_size;
        let inside = (u >= 0.0) & (u < side) & (v >= 0.0) & (v < side) & (w >= 0.0) & (w < side);
        let (u, v, w) =
            ((u * units) as i32 as u32, (v * units) as i32 as u32, (w * units) as i32 as u32);
        *local = u & MASK | (v & MASK) << LOCAL_BITS | (w & MASK) << (2 * LOCAL_BITS);
        let of_voxel = key_of([u >> LOCAL_BITS, v >> LOCAL_BITS, w >> LOCAL_BITS]);
        *key = if inside { of_voxel } else { NONE };
    }
}
#[inline(always)]
fn float(bits: u32) -> f64 {
    f64::from(f32::from_bits(bits))
}
