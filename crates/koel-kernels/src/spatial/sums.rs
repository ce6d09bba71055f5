//! Sums over the points of each voxel. Points are brought together by voxel first, one atomic
//! addition for several of them; then a thread sums up a voxel, in integers: whatever order the
//! points come in, the sums are the same.
use super::clouds::{Clouds, GROUP, LOCAL_BITS, Motion};
use super::index::Index;
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

/// Where the ranks of points go: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct RanksOut {
    /// The number of each point's brick before, of its voxel after; or [`NONE`].
    pub voxels: Buf<u32>,
    /// How many points of its voxel have come before it, in no particular order.
    pub ranks: Buf<u32>,
    /// How many points each voxel has.
    pub counts: Buf<u32>,
}

/// The voxel of each point, in place of its brick, and the point's rank. One thread for each of
/// `groups` groups of points, neighbours in the same voxel together.
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
/// Points brought together by voxel: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PointsByVoxel {
    /// The points of each voxel one after another.
    pub order: In<u32>,
    /// Where those of each voxel begin.
    pub starts: In<u32>,
    /// How many each voxel has.
    pub counts: In<u32>,
    /// The place of each point in its voxel: [`LOCAL_BITS`] an axis.
    pub local: In<u32>,
}
/// The voxels whose points are summed up: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SummedVoxels {
    /// The mark of each voxel.
    pub marks: In<u32>,
    /// Voxels that there is room for.
    pub voxels: u32,
    /// Not 0: only those marked as [intersections](super::mark::INTERSECTION). Marks are not read
    /// otherwise.
    pub only_intersections: u32,
}

/// The sums of each voxel. One thread a voxel.
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
