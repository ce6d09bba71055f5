//! Parts against kernels.

use super::*;
use crate::grid::Grid;
use crate::intersect::{Intersector, Method, PaperOptions, Pose, Side, Way};
use koel_scans::PointCloud;
use koel_spatial_kernels::intersect::{NONE, mark};

/// SplitMix64.
struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^ (z >> 31)
    }
    /// Uniform in -1.0..1.0.
    fn signed(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
    fn vector(&mut self) -> [f32; 3] {
        [self.signed(), self.signed(), self.signed()]
    }
}
/// Clouds that strain the parts: in turn scattered points, a plane along the grid, one point
/// many times with points that are nowhere, and a sphere.
fn cloud(kind: usize, points: usize, random: &mut Random) -> PointCloud {
    let position = |i: usize, random: &mut Random| match kind {
        0 => random.vector(),
        1 => [random.signed(), random.signed(), 0.125],
        2 => [[0.3; 3], [0.3, -0.3, 0.3], [f32::NAN, 0.0, 0.0], [9.0; 3], [-1.0; 3]][i % 5],
        _ => koel_kernels::math::unit(random.vector()).map(|c| 0.7 * c),
    };
    let positions = (0..points).map(|i| position(i, random)).collect();
    let normals = (0..points).map(|_| random.vector()).collect();
    PointCloud { positions, normals: Some(normals) }
}
/// Runs the stages of a frame up to the sums. With the paper's method, the sums are those of
/// shared voxels.
fn summed(
    device: &Device,
    [a, b]: &[PointCloud; 2],
    side: u32,
    method: Method,
    poses: &[[Pose; 2]],
) -> Intersector {
    let grid = Grid::new([-1.0; 3], 2.0 / f64::from(side), side).unwrap();
    let mut made = Intersector::new(device, a, b, grid, method).unwrap();
    let s = made.stream.clone();
    for [a, b] in poses {
        let motions = [a.motion(Side::A).unwrap(), b.motion(Side::B).unwrap()];
        made.begin(&s, motions).unwrap();
        made.find_voxels(&s, || Ok(())).unwrap();
        let Intersector { points, index, sums, way, motions, state, .. } = &mut made;
        let marks = match way {
            Way::Robust(_) => None,
            Way::Paper(flood) => {
                flood.mark(&s, index, state).unwrap();
                Some(flood.marks())
            }
        };
        sums.add(&s, points, motions, index, marks, state).unwrap();
    }
    made
}
/// State, codes, bricks, voxels of points, sums.
type Results = (Vec<u32>, Vec<u32>, Vec<u64>, Vec<u32>, Vec<u32>);
/// Index, voxels of points and sums of voxels; of voxels without marks, if only those are
/// summed, none.
fn results(made: &Intersector) -> Results {
    let state = made.state.download().unwrap();
    let cells = state[(state::FIRST_CELL + 2 * made.shape.levels()) as usize] as usize;
    let voxels = state[state::FIRST_CELL as usize + 2] as usize;
    let bricks = state[state::BRICKS as usize] as usize;
    let mut sums = made.sums.sums.download().unwrap();
    sums.truncate(WORDS * voxels);
    if let Way::Paper(flood) = &made.way {
        let marks = flood.marks().download().unwrap();
        for (sums, mark) in sums.chunks_mut(WORDS).zip(marks) {
            if mark != mark::INTERSECTION {
                sums.fill(0);
            }
        }
    }
    (
        state,
        made.index.codes.download().unwrap()[..cells].to_vec(),
        made.index.bricks.download().unwrap()[..2 * bricks].to_vec(),
        made.points.voxels.download().unwrap(),
        sums,
    )
}

#[test]
fn parts_and_kernels_give_the_same_bits() {
    let mut random = Random(7);
    let turned = Pose::turned([1.0, 0.3, -0.2], 2.0, [0.0; 3], [0.03, -0.02, 0.01]);
    let both = [[turned, Pose::IDENTITY], [Pose::IDENTITY, turned]];
    let paper = Method::Paper(PaperOptions::default());
    // More points than one part has; grids whose side is a power of two, and others.
    for (kinds, points, side, method) in [
        ([0, 3], [2600, 1500], 64, Method::default()),
        ([1, 2], [1100, 2100], 20, Method::default()),
        ([3, 3], [2050, 1030], 16, paper),
        ([2, 1], [9, 1200], 9, paper),
    ] {
        let clouds = [0, 1].map(|i| cloud(kinds[i], points[i], &mut random));
        // The last of the frames is compared: those before leave nothing behind.
        let run = |device: &Device| results(&summed(device, &clouds, side, method, &both));
        let expected = run(&Device::executor(3));
        for threads in [1, 3] {
            let found = run(&Device::cpu_with_threads(threads).unwrap());
            assert!(found == expected, "{kinds:?} on {threads} threads");
        }
    }
}
/// Parts hold a whole number of blocks or end a cloud, and all voxels are summed once.
#[test]
fn sums_count_every_point_inside_the_grid() {
    let mut random = Random(11);
    let clouds = [3, 0].map(|kind| cloud(kind, 20_000, &mut random));
    let device = Device::cpu_with_threads(2).unwrap();
    let here = [[Pose::IDENTITY; 2]];
    let made = summed(&device, &clouds, 32, Method::default(), &here);
    let (state, _, _, voxels, sums) = results(&made);
    let mut counts = vec![0; sums.len() / WORDS];
    for &voxel in voxels.iter().filter(|&&voxel| voxel != NONE) {
        counts[voxel as usize] += 1;
    }
    let found = sums.chunks(WORDS).map(|sums| sums[3]).collect::<Vec<_>>();
    assert_eq!(found, counts);
    assert_eq!(state[state::POINTS as usize], 20_000);
    assert!(made.points.parts.as_ref().unwrap().parts.len() >= 8);
    assert!(made.points.parts.as_ref().unwrap().parts.iter().any(|p| !p.elsewhere.is_empty()));
}
