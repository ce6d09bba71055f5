//! Sums over the points of each voxel. Points are first gathered by voxel, with one atomic addition
//! for several of them. Then one thread sums each voxel, in integers, so that the sums do not
//! depend on the order of the points.
use super::clouds::{Clouds, GROUP, LOCAL_BITS, Motion};
use super::index::Index;
use super::{NONE, mark, state};
use koel_simt::{Buf, In, Thread, U32x4, kernel, unroll};

/// Normal components are summed in units of 1 / 2^this.
pub const NORMAL_BITS: u32 = 16;

/// Sums of a voxel: eight words.
#[derive(Clone, Copy)]
pub struct Sums {
    /// Number of points.
    pub count: u32,
    /// Sum of the positions within the voxel, in voxels.
    pub place: [f32; 3],
    /// Sum of the normals.
    pub normal: [f32; 3],
    /// Sum of |n|_1.
    pub taxicab: f32,
}
/// Words of [`Sums`].
pub const WORDS: u32 = 8;
impl Sums {
    /// Reads the sums of a voxel.
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

/// Output of the ranks of points: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct RanksOut {
    /// Number of each point's brick on input and of its voxel on output, or [`NONE`].
    pub voxels: Buf<u32>,
    /// Rank of each point in its voxel, in no particular order.
    pub ranks: Buf<u32>,
    /// Number of points in each voxel.
    pub counts: Buf<u32>,
}

/// Replaces the brick of each point by its voxel, and writes the point's rank. One thread per group
/// of points, `groups` groups; consecutive points in the same voxel are counted together.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_rank_points(t: Thread, groups: u32, bricks: In<u64>, keys: In<u32>, to: RanksOut) {
    let RanksOut { voxels, ranks, counts } = to;
    let i = t.global_id();
    if i >= groups {
        return;
    }
    let (mut j, end) = (GROUP * i, GROUP * i + GROUP);
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
/// Lists the points of each voxel contiguously.
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
/// Points gathered by voxel: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PointsByVoxel {
    /// Points, voxel by voxel.
    pub order: In<u32>,
    /// First point of each voxel.
    pub starts: In<u32>,
    /// Number of points in each voxel.
    pub counts: In<u32>,
    /// Position of each point within its voxel: [`LOCAL_BITS`] per axis.
    pub local: In<u32>,
}
/// Voxels whose points are summed: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SummedVoxels {
    /// Mark of each voxel.
    pub marks: In<u32>,
    /// Maximum number of voxels.
    pub voxels: u32,
    /// If not 0, sums only the voxels marked as [intersections](super::mark::INTERSECTION).
    /// Otherwise marks are not read.
    pub only_intersections: u32,
}

/// Computes the sums of each voxel. One thread per voxel.
#[kernel(image = SPATIAL, threads = 64, independent, native_v3)]
pub fn spatial_sum_points(
    t: Thread,
    summed: SummedVoxels,
    index: Index,
    clouds: Clouds,
    points: PointsByVoxel,
    state: In<u32>,
    sums: Buf<u32>,
) {
    let SummedVoxels { marks, voxels, only_intersections } = summed;
    let Clouds { nx, ny, nz, motions, .. } = clouds;
    let PointsByVoxel { order, starts, counts, local } = points;
    let i = t.global_id();
    if i >= voxels || i >= state.get(state::FIRST_CELL + 2) {
        return;
    }
    let count = counts.get(i);
    if only_intersections != 0 && marks.get(i) != mark::INTERSECTION {
        return;
    }
    let (_, cloud, _) = index.cell(i);
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
    // Add half a unit per point, because positions were rounded down.
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
