//! Sums over the points of each voxel. Points are brought together by voxel first, one atomic
//! addition for several of them; then a thread sums up a voxel, in integers: whatever order the
//! points come in, the sums are the same.
use super::begin::Motion;
use super::index::Index;
use super::layout::Shape;
use super::voxelize::LOCAL_BITS;
use super::{NONE, mark, state};
use koel_simt::{Buf, In, Thread, U32x4, kernel, unroll};

/// Units of a normal's component, 1 / 2^this.
const NORMAL_BITS: u32 = 16;

/// A voxel's sums: eight words.
#[derive(Clone, Copy)]
pub struct Sums {
    /// Points.
    pub count: u32,
    /// Sum of the places in the voxel, in voxels.
    pub place: [f32; 3],
    /// Sum of the normals.
    pub normal: [f32; 3],
    /// Sum of |n|_1.
    pub taxicab: f32,
}
/// Words of [`Sums`].
pub const WORDS: u32 = 8;
impl Sums {
    /// Reads those of a voxel.
    #[inline(always)]
    #[track_caller]
    pub fn get(sums: In<u32>, voxel: u32) -> Sums {
        let (a, b) = (sums.x4().get(2 * voxel).0, sums.x4().get(2 * voxel + 1).0);
        let f = f32::from_bits;
        Sums {
            count: a[3],
            place: [f(a[0]), f(a[1]), f(a[2])],
            normal: [f(b[0]), f(b[1]), f(b[2])],
            taxicab: f(b[3]),
        }
    }
}

/// The voxel of each point, in place of its brick, and how many of its points have come before in
/// no particular order; how many there are. One thread for four points, neighbours in the same
/// voxel together.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_rank_points(
    t: Thread,
    groups: u32,
    bricks: In<u64>,
    keys: In<u32>,
    voxels: Buf<u32>,
    ranks: Buf<u32>,
    counts: Buf<u32>,
) {
    let i = t.global_id();
    if i >= groups {
        return;
    }
    let (mut j, end) = (4 * i, 4 * i + 4);
    while j < end {
        let (key, brick) = (keys.get(j), voxels.load(j));
        let mut after = j + 1;
        while after < end && keys.get(after) == key {
            after += 1;
        }
        let (mut voxel, mut rank) = (NONE, 0);
        if brick != NONE {
            voxel = Index::brick_at(bricks, brick).number(key & 63);
            rank = counts.fetch_add(voxel, after - j);
        }
        while j < after {
            voxels.store(j, voxel);
            ranks.store(j, rank);
            rank += 1;
            j += 1;
        }
    }
}
/// The points of each voxel one after another.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_order_points(
    t: Thread,
    n: u32,
    voxels: In<u32>,
    ranks: In<u32>,
    starts: In<u32>,
    order: Buf<u32>,
) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    let voxel = voxels.get(i);
    if voxel != NONE {
        order.store(starts.get(voxel) + ranks.get(i), i);
    }
}
/// The sums of each voxel, or only of those marked as [intersections](super::mark::INTERSECTION).
/// Normals are of length 1, or 0 where unknown.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_sum_points(
    t: Thread,
    voxels: u32,
    only_intersections: u32,
    shape: Shape,
    motions: In<u64>,
    codes: In<u32>,
    marks: In<u32>,
    starts: In<u32>,
    counts: In<u32>,
    order: In<u32>,
    local: In<u32>,
    nx: In<u32>,
    ny: In<u32>,
    nz: In<u32>,
    state: In<u32>,
    sums: Buf<u32>,
) {
    let i = t.global_id();
    if i >= voxels || i >= state.get(state::FIRST_CELL + 2) {
        return;
    }
    let count = counts.get(i);
    if only_intersections != 0 && marks.get(i) != mark::INTERSECTION {
        return;
    }
    let (_, cloud, _) = shape.decode(codes.get(i));
    let rotation = Motion::rotation(motions, cloud);
    let mut r = [0.0f32; 9];
    unroll::<9>(|c| r[c] = rotation[c] as f32);
    let (mut place, mut normal, mut taxicab) = ([0u64; 3], [0i64; 3], 0u64);
    let mut j = starts.get(i);
    let end = j + count;
    while j < end {
        let point = order.get(j);
        j += 1;
        let at = local.get(point);
        let n = [
            f32::from_bits(nx.get(point)),
            f32::from_bits(ny.get(point)),
            f32::from_bits(nz.get(point)),
        ];
        unroll::<3>(|a| {
            let turned = r[3 * a] * n[0] + r[3 * a + 1] * n[1] + r[3 * a + 2] * n[2];
            let units = (turned * (1u32 << NORMAL_BITS) as f32) as i32;
            place[a] += (at >> (a as u32 * LOCAL_BITS) & ((1 << LOCAL_BITS) - 1)) as u64;
            normal[a] += units as i64;
            taxicab += units.unsigned_abs() as u64;
        });
    }
    // Half a unit a point: places were rounded down.
    let (unit, normal_unit) =
        (1.0 / (1u32 << LOCAL_BITS) as f32, 1.0 / (1u32 << NORMAL_BITS) as f32);
    let middle = |sum: u64| ((2 * sum + count as u64) as f32 * 0.5 * unit).to_bits();
    let component = |sum: i64| (sum as f32 * normal_unit).to_bits();
    sums.x4().store(2 * i, U32x4([middle(place[0]), middle(place[1]), middle(place[2]), count]));
    let taxicab = (taxicab as f32 * normal_unit).to_bits();
    sums.x4().store(
        2 * i + 1,
        U32x4([component(normal[0]), component(normal[1]), component(normal[2]), taxicab]),
    );
}
