//! Sums over the points of each voxel, in integers: the same in every order.
use super::NONE;
use super::index::Index;
use super::layout::Shape;
use super::voxelize::{LOCAL_BITS, Motion};
use koel_simt::{Buf, In, Thread, kernel, unroll};

/// Units of a normal's component, 1 / 2^this.
pub const NORMAL_BITS: u32 = 10;

/// Four words of 64 bits a voxel, each two sums of 32 bits: x and y of the places, z and the count, x and y of the normals,
/// z and |n|_1. Components of normals are summed plus one each, so that no sum is negative.
pub const WORDS: u32 = 4;

/// How many bits of each coordinate and component are left out, so that no sum of `points` overflows: 2 * 2^10 units a point.
pub const fn dropped_bits(points: u32) -> u32 {
    let needed = 32 - points.leading_zeros();
    needed.saturating_sub(31 - NORMAL_BITS)
}

/// A voxel's sums.
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
/// Reads the sums of a voxel.
#[inline(always)]
#[track_caller]
pub fn sums_of(sums: In<u64>, voxel: u32, dropped: u32) -> Sums {
    let (a, b) = (sums.x2().get(2 * voxel).0, sums.x2().get(2 * voxel + 1).0);
    let count = (a[1] >> 32) as u32;
    let (unit, normal_unit) =
        (1.0 / (1u32 << (LOCAL_BITS - dropped)) as f32, 1.0 / (1u32 << (NORMAL_BITS - dropped)) as f32);
    let one = (1u32 << (NORMAL_BITS - dropped)).wrapping_mul(count);
    // Half a unit a point: places were rounded down.
    let place = |sum: u32| (sum as f32 + 0.5 * count as f32) * unit;
    let normal = |sum: u32| sum.wrapping_sub(one) as i32 as f32 * normal_unit;
    Sums {
        count,
        place: [place(a[0] as u32), place((a[0] >> 32) as u32), place(a[1] as u32)],
        normal: [normal(b[0] as u32), normal((b[0] >> 32) as u32), normal(b[1] as u32)],
        taxicab: (b[1] >> 32) as u32 as f32 * normal_unit,
    }
}

/// Adds each point to the sums of its voxel, and notes which voxel that is. One thread for four points; neighbours in the
/// same voxel are added together first. Normals are of length 1, or 0 where unknown.
#[kernel(threads = 128, independent)]
pub fn spatial_add_points(
    t: Thread,
    groups: u32,
    groups_a: u32,
    shape: Shape,
    dropped: u32,
    motion_a: Motion,
    motion_b: Motion,
    words: In<u64>,
    bricks: In<u64>,
    keys: In<u32>,
    local: In<u32>,
    nx: In<u32>,
    ny: In<u32>,
    nz: In<u32>,
    voxels: Buf<u32>,
    sums: Buf<u64>,
) {
    let i = t.global_id();
    if i >= groups {
        return;
    }
    let cloud = (i >= groups_a) as u32;
    let motion = if cloud == 0 { motion_a } else { motion_b };
    let index = Index { shape, words, bricks };
    let mut r = [0.0f32; 9];
    unroll::<9>(|c| r[c] = motion.rotation[c] as f32);
    let (mut key, mut voxel, mut sum) = (NONE, NONE, [0; 4]);
    let mut j = 4 * i;
    while j <= 4 * i + 4 {
        // One turn more: what is left is added there.
        let next = if j < 4 * i + 4 { keys.get(j) } else { NONE };
        if next != key {
            add(sums, voxel, sum);
            sum = [0; 4];
            key = next;
            voxel = if key == NONE { NONE } else { index.find(0, cloud, key) };
        }
        if j < 4 * i + 4 {
            voxels.store(j, voxel);
            let n = [nx.get_stream(j), ny.get_stream(j), nz.get_stream(j)];
            let n = [f32::from_bits(n[0]), f32::from_bits(n[1]), f32::from_bits(n[2])];
            let turned = |row: usize| r[3 * row] * n[0] + r[3 * row + 1] * n[1] + r[3 * row + 2] * n[2];
            let of_point = units(local.get(j), [turned(0), turned(1), turned(2)], dropped);
            unroll::<4>(|w| sum[w] = of_point[w].wrapping_add(sum[w]));
        }
        j += 1;
    }
}
/// One point's part of the four words.
#[inline(always)]
fn units(local: u32, normal: [f32; 3], dropped: u32) -> [u64; 4] {
    const MASK: u32 = (1 << LOCAL_BITS) - 1;
    let place = |axis: u32| ((local >> (axis * LOCAL_BITS) & MASK) >> dropped) as u64;
    let one = 1u32 << (NORMAL_BITS - dropped);
    // Rounded to the nearest; a turn may leave a little more than 1. Below -1 the conversion ends at 0.
    let whole = |c: f32| (((c + 1.0) * one as f32 + 0.5) as u32).min(2 * one);
    let (x, y, z) = (whole(normal[0]), whole(normal[1]), whole(normal[2]));
    let size = |c: u32| c.abs_diff(one) as u64;
    [
        place(0) | place(1) << 32,
        place(2) | 1 << 32,
        x as u64 | (y as u64) << 32,
        z as u64 | (size(x) + size(y) + size(z)) << 32,
    ]
}
#[inline(always)]
#[track_caller]
fn add(sums: Buf<u64>, voxel: u32, sum: [u64; 4]) {
    if voxel != NONE {
        sums.fetch_add(WORDS * voxel, sum[0]);
        sums.fetch_add(WORDS * voxel + 1, sum[1]);
        sums.fetch_add(WORDS * voxel + 2, sum[2]);
        sums.fetch_add(WORDS * voxel + 3, sum[3]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sum_of_so_many_points_overflows() {
        for points in [1, 100, (1 << 20) - 1, 1 << 21, 1 << 24] {
            let dropped = dropped_bits(points);
            assert!(dropped <= NORMAL_BITS);
            for normal in [[1.0, 1.0, 1.0], [-1.0; 3], [0.6, 0.6, 0.6]] {
                for word in units(u32::MAX >> 2, normal, dropped) {
                    for half in [word as u32, (word >> 32) as u32] {
                        assert!(half as u64 * points as u64 <= u32::MAX as u64, "{points} {normal:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn sums_are_means_again() {
        let normal = [0.36, -0.48, 0.8];
        for dropped in [0, 3] {
            let local = 512 | 256 << 10 | 1016 << 20;
            let mut sum = [0u64; 4];
            for _ in 0..5 {
                let point = units(local, normal, dropped);
                (0..4).for_each(|w| sum[w] += point[w]);
            }
            let s = sums_of(In::new(&sum), 0, dropped);
            assert_eq!(s.count, 5);
            let close = |a: f32, b: f32| assert!((a / 5.0 - b).abs() < 0.01, "{a} {b}");
            (0..3).for_each(|a| close(s.normal[a], normal[a]));
            (0..3).for_each(|a| close(s.place[a], [0.5, 0.25, 0.992][a]));
            close(s.taxicab, 1.64);
        }
        assert_eq!(units(0, [-1.001, 1.001, 0.0], 0), units(0, [-1.0, 1.0, 0.0], 0));
    }
}
