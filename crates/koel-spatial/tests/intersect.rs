//! Labels against closed forms: accuracy, robustness, Booleans, determinism, devices.

mod intersect_scenes;

use intersect_scenes::{
    Errors, Random, Scan, Scanned, Shape, assert_same, errors, scan, volumes_of,
};
use koel::{Device, Error};
use koel_spatial::intersect::{
    Boolean, IntersectError, Intersector, Label, Method, PaperOptions, Pose, RobustOptions, Side,
};
use koel_spatial::{Grid, PointCloud};

const SPHERE: Shape = Shape::Sphere(0.6);
const TORUS: Shape = Shape::Torus { major: 0.55, minor: 0.22 };
const CLEAN: Scan =
    Scan { noise: 0.0, degrees: 0.0, outliers: 0.0, flipped: 0.0, hole: 0.0, density: 0.0 };
const NOISY: Scan = Scan { noise: 0.5, degrees: 15.0, ..CLEAN };
const POINTS: usize = 24_000;
const SIDE: u32 = 64;

fn grid(n: u32) -> Grid {
    Grid::new([-1.6; 3], 3.2 / f64::from(n), n).unwrap()
}
fn device() -> Device {
    Device::cpu_with_threads(2).unwrap()
}
/// Returns devices that run kernels: executors with these seeds, and a GPU if available.
fn kernels<const N: usize>(seeds: [u64; N]) -> impl Iterator<Item = Device> {
    seeds.into_iter().map(Device::executor).chain(Device::cuda(0).ok())
}
struct Scene {
    shapes: [Shape; 2],
    scans: [Scanned; 2],
    poses: [Pose; 2],
    grid: Grid,
}
fn scene(shapes: [Shape; 2], offset: f64, noise: Scan, seed: u64) -> Scene {
    let (mut random, grid) = (Random(seed), grid(SIDE));
    let scans = shapes.map(|shape| scan(shape, POINTS, noise, grid.voxel_size(), &mut random));
    let moved = random.direction().map(|c| c * offset);
    let poses = [random.pose(moved.map(|c| -0.5 * c)), random.pose(moved.map(|c| 0.5 * c))];
    Scene { shapes, scans, poses, grid }
}
impl Scene {
    fn run(&self, device: &Device, method: Method) -> Intersector {
        let [a, b] = &self.scans;
        let mut intersector =
            Intersector::new(device, &a.cloud, &b.cloud, self.grid, method).unwrap();
        intersector.frame(&self.poses[0], &self.poses[1]).unwrap();
        intersector
    }
    fn errors(&self, intersector: &mut Intersector) -> Errors {
        let mut worst = Errors::default();
        for side in Side::BOTH {
            let (i, o) = (side as usize, 1 - side as usize);
            let labels = intersector.point_labels(side).unwrap();
            let h = self.grid.voxel_size();
            let e =
                errors(&self.scans[i], &self.poses[i], &labels, self.shapes[o], &self.poses[o], h);
            worst = worst.worst(e);
        }
        worst
    }
    /// Returns the true volumes of [`Boolean::ALL`].
    fn volumes(&self) -> [f64; 4] {
        volumes_of([(self.shapes[0], &self.poses[0]), (self.shapes[1], &self.poses[1])], 256)
    }
}
fn robust() -> Method {
    Method::Robust(RobustOptions::default())
}
fn paper() -> Method {
    Method::Paper(PaperOptions::default())
}

/// Asserts the accuracy goals for one scene with the robust method: shares within 2 points (half of
/// the voxels of both counts, of an area that is larger on this coarse grid), and Boolean volumes
/// within `volume` of the smaller solid.
#[track_caller]
fn assert_accurate(scene: &Scene, volume: f64) {
    let mut intersector = scene.run(&device(), robust());
    let e = scene.errors(&mut intersector);
    assert!(e.far <= 0.001 && e.wrong <= 0.01 && e.unknown <= 0.005 && e.share <= 0.02, "{e:?}");
    let solids = intersector.solids().unwrap();
    let smaller = scene.shapes[0].volume().min(scene.shapes[1].volume());
    for (op, truth) in Boolean::ALL.into_iter().zip(scene.volumes()) {
        let found = solids.volume(op);
        assert!((found - truth).abs() <= volume * smaller, "{op:?}: {found}, not {truth}");
    }
}

#[test]
fn clean_and_noisy_scans_meet_the_goals() {
    assert_accurate(&scene([SPHERE, SPHERE], 0.5, CLEAN, 1), 0.02);
    assert_accurate(&scene([SPHERE, TORUS], 0.4, NOISY, 2), 0.04);
}
#[test]
fn solids_that_do_not_touch_or_contain_each_other_are_told_apart() {
    for (shapes, offset, label) in [
        ([Shape::Sphere(0.4), Shape::Sphere(0.5)], 1.1, Label::Outside),
        ([Shape::Sphere(0.35), Shape::Sphere(0.8)], 0.2, Label::Inside),
    ] {
        let scene = scene(shapes, offset, NOISY, 3);
        let mut intersector = scene.run(&device(), robust());
        assert!(intersector.point_labels(Side::A).unwrap().iter().all(|&l| l == label));
        assert!(intersector.point_labels(Side::B).unwrap().iter().all(|&l| l == Label::Outside));
    }
}
#[test]
fn outliers_flipped_normals_holes_and_densities_are_borne() {
    for noise in [
        Scan { outliers: 0.02, ..NOISY },
        Scan { flipped: 0.05, ..NOISY },
        Scan { hole: 0.05, ..NOISY },
        Scan { density: 10.0, ..NOISY },
    ] {
        let scene = scene([SPHERE, TORUS], 0.4, noise, 4);
        let e = scene.errors(&mut scene.run(&device(), robust()));
        assert!(e.far <= 0.002 && e.wrong <= 0.01 && e.unknown <= 0.005, "{noise:?}: {e:?}");
    }
}
/// Where the other sphere was not seen, its surface is assumed to continue with its curvature, not
/// as a flat lid.
#[test]
fn holes_are_closed_by_round_surfaces() {
    let closed = Method::Robust(RobustOptions::default().with_assume_closed(true));
    for seed in [20, 21, 22] {
        let scene = scene([SPHERE, SPHERE], 0.3, Scan { hole: 0.15, ..NOISY }, seed);
        let e = scene.errors(&mut scene.run(&device(), closed));
        assert!(e.far <= 0.001 && e.wrong <= 0.01 && e.unknown <= 0.02, "{e:?}");
    }
}
#[test]
fn thin_plates_and_cavities_have_insides() {
    let h = grid(SIDE).voxel_size();
    assert_accurate(&scene([Shape::Plate([0.7, 0.5, 1.5 * h]), SPHERE], 0.3, CLEAN, 5), 0.06);
    assert_accurate(
        &scene([Shape::Hollow { outer: 0.7, inner: 0.4 }, SPHERE], 0.4, NOISY, 6),
        0.04,
    );
}
#[test]
fn of_open_surfaces_only_what_is_certain_is_labelled() {
    let scene = scene([Shape::Cap { radius: 0.7, above: 0.1 }, SPHERE], 0.4, CLEAN, 7);
    let mut intersector = scene.run(&device(), robust());
    let summary = intersector.summary().unwrap();
    assert!(summary.a.measures.unwrap().open && !summary.b.measures.unwrap().open);
    // A against the closed sphere as usual. B against the open cap: a part is certain, and nearly
    // all of it correct.
    let labels = [Side::A, Side::B].map(|side| intersector.point_labels(side).unwrap());
    let e = [0, 1].map(|i| {
        let (scans, h) = (&scene.scans[i], scene.grid.voxel_size());
        errors(scans, &scene.poses[i], &labels[i], scene.shapes[1 - i], &scene.poses[1 - i], h)
    });
    assert!(e[0].wrong <= 0.01 && e[0].unknown <= 0.005, "{e:?}");
    assert!(e[1].wrong <= 0.01 && (0.05..0.9).contains(&e[1].unknown), "{e:?}");
    assert!(matches!(intersector.solids(), Err(IntersectError::Open { cloud: Side::A, .. })));
    // A surface declared closed is treated as closed.
    let closed = Method::Robust(RobustOptions::default().with_assume_closed(true));
    let mut intersector = scene.run(&device(), closed);
    assert!(!intersector.summary().unwrap().a.measures.unwrap().open);
    assert!(intersector.solids().is_ok());
}

#[test]
fn the_papers_method_floods_closed_voxel_surfaces() {
    let scene = scene([SPHERE, TORUS], 0.4, CLEAN, 8);
    let e = scene.errors(&mut scene.run(&device(), paper()));
    assert!(e.far <= 0.001 && e.wrong <= 0.01 && e.unknown <= 0.02, "{e:?}");
    assert!(matches!(
        scene.run(&device(), paper()).solids(),
        Err(IntersectError::NeedsRobust { .. })
    ));
    assert_eq!(scene.run(&device(), paper()).summary().unwrap().a.measures, None);
}
#[test]
fn the_papers_method_knows_nothing_where_nothing_meets() {
    let scene = scene([Shape::Sphere(0.4), Shape::Sphere(0.5)], 1.1, CLEAN, 9);
    let summary = scene.run(&device(), paper()).summary().unwrap();
    assert_eq!(summary.a.voxels.unknown, summary.a.voxels.total());
}

/// Naive reference: every voxel of both clouds, and which are shared.
#[test]
fn voxels_and_intersections_are_those_of_the_points() {
    use std::collections::BTreeSet;
    let (mut random, grid) = (Random(10), Grid::new([-1.0; 3], 0.15, 13).unwrap());
    let cloud = |random: &mut Random, n: usize| PointCloud {
        // Some points lie outside the grid, some on its faces.
        positions: (0..n)
            .map(|_| [0; 3].map(|_| (random.between(-1.1, 1.0) * 20.0).round() as f32 / 20.0))
            .collect(),
        normals: Some((0..n).map(|_| random.direction().map(|c| c as f32)).collect()),
    };
    for (n, m) in [(1, 1), (7, 500), (900, 3000)] {
        let clouds = [cloud(&mut random, n), cloud(&mut random, m)];
        let sets = clouds.each_ref().map(|c| {
            c.positions
                .iter()
                .filter_map(|p| grid.voxel_of(p.map(f64::from)))
                .collect::<BTreeSet<[u32; 3]>>()
        });
        let assume = Method::Robust(RobustOptions::default().with_assume_closed(true));
        for method in [assume, paper()] {
            let mut intersector =
                Intersector::new(&device(), &clouds[0], &clouds[1], grid, method).unwrap();
            intersector.frame(&Pose::IDENTITY, &Pose::IDENTITY).unwrap();
            let summary = intersector.summary().unwrap();
            for side in Side::BOTH {
                let (own, other) = (&sets[side as usize], &sets[1 - side as usize]);
                let voxels = intersector.voxels(side).unwrap();
                assert_eq!(voxels.len(), own.len());
                assert_eq!(&voxels.iter().map(|v| v.voxel).collect::<BTreeSet<_>>(), own);
                for v in &voxels {
                    assert_eq!(v.label == Label::Intersection, other.contains(&v.voxel), "{v:?}");
                }
                let cloud = &clouds[side as usize];
                let outside = cloud
                    .positions
                    .iter()
                    .filter(|p| grid.voxel_of(p.map(f64::from)).is_none())
                    .count();
                assert_eq!(summary.side(side).dropped, outside);
                // Each point has the label of its voxel.
                for (p, label) in
                    cloud.positions.iter().zip(intersector.point_labels(side).unwrap())
                {
                    let expected = grid.voxel_of(p.map(f64::from)).map_or(Label::Unknown, |v| {
                        voxels.iter().find(|w| w.voxel == v).unwrap().label
                    });
                    assert_eq!(label, expected);
                }
            }
        }
    }
}

#[test]
fn no_inside_voxel_touches_an_outside_one() {
    use std::collections::HashMap;
    // Noisy enough for margins to conflict and floods to meet.
    let scene =
        scene([SPHERE, TORUS], 0.4, Scan { noise: 1.5, degrees: 60.0, outliers: 0.1, ..CLEAN }, 18);
    for method in [robust(), paper()] {
        let intersector = scene.run(&device(), method);
        for side in Side::BOTH {
            let voxels = intersector.voxels(side).unwrap();
            let labels = voxels.iter().map(|v| (v.voxel, v.label)).collect::<HashMap<_, _>>();
            assert!(
                voxels.iter().any(|v| v.label == Label::Inside)
                    && voxels.iter().any(|v| v.label == Label::Outside)
            );
            for v in voxels.iter().filter(|v| v.label == Label::Inside) {
                for axis in 0..3 {
                    for step in [1, u32::MAX] {
                        let mut beside = v.voxel;
                        beside[axis] = beside[axis].wrapping_add(step);
                        assert_ne!(
                            labels.get(&beside),
                            Some(&Label::Outside),
                            "{method:?}: {v:?} and {beside:?}"
                        );
                    }
                }
            }
        }
    }
}

fn small(seed: u64) -> Scene {
    small_scans(seed, CLEAN)
}
fn small_scans(seed: u64, noise: Scan) -> Scene {
    let (mut random, grid) = (Random(seed), grid(16));
    let scans = [SPHERE, TORUS].map(|s| scan(s, 700, noise, grid.voxel_size(), &mut random));
    let poses = [random.pose([-0.2, 0.0, 0.0]), random.pose([0.2, 0.0, 0.0])];
    Scene { shapes: [SPHERE, TORUS], scans, poses, grid }
}
#[test]
fn kernels_give_the_labels_of_the_cpu() {
    // Rough enough for many voxels to need a winding number of their own.
    let rough = Scan { noise: 0.6, degrees: 40.0, outliers: 0.05, hole: 0.05, ..CLEAN };
    for (method, scene) in
        [(robust(), small(11)), (paper(), small(11)), (robust(), small_scans(23, rough))]
    {
        let mut expected = scene.run(&device(), method);
        for device in kernels([1, 2]) {
            let mut checked = scene.run(&device, method);
            for side in Side::BOTH {
                assert_eq!(checked.voxels(side).unwrap(), expected.voxels(side).unwrap());
                assert_eq!(
                    checked.point_labels(side).unwrap(),
                    expected.point_labels(side).unwrap()
                );
            }
            // Labels of both clouds at once, appended to existing content.
            let mut numbers = vec![9];
            checked.append_point_labels(&mut numbers).unwrap();
            let labels = Side::BOTH.map(|side| expected.point_labels(side).unwrap()).concat();
            assert_eq!(numbers[0], 9);
            assert!(numbers[1..].iter().copied().eq(labels.into_iter().map(|label| label as u8)));
            assert_eq!(checked.summary().unwrap(), expected.summary().unwrap());
        }
    }
    let scene = small(12);
    let solids = |device: &Device| scene.run(device, robust()).solids().unwrap();
    let expected = solids(&device());
    for device in kernels([3]) {
        let solids = solids(&device);
        assert_eq!(solids.volumes(), expected.volumes());
        for op in Boolean::ALL {
            assert_eq!(solids.mesh(op), expected.mesh(op));
            assert_eq!(solids.smooth_mesh(op), expected.smooth_mesh(op));
        }
    }
}
#[test]
fn frames_repeat_and_poses_matter() {
    let scene = scene([SPHERE, TORUS], 0.4, NOISY, 13);
    let mut intersector = scene.run(&device(), robust());
    let first = [Side::A, Side::B].map(|side| intersector.voxels(side).unwrap());
    let bytes = intersector.bytes();
    for _ in 0..3 {
        intersector.frame(&Pose::IDENTITY, &scene.poses[1]).unwrap();
    }
    assert_ne!(intersector.voxels(Side::A).unwrap(), first[0]);
    intersector.frame(&scene.poses[0], &scene.poses[1]).unwrap();
    assert_eq!([Side::A, Side::B].map(|side| intersector.voxels(side).unwrap()), first);
    assert_eq!(intersector.bytes(), bytes);
    let timings = intersector.timings().unwrap();
    assert!(timings.total() > 0.0 && timings.build > 0.0);
}

/// Returns a sequence of poses, each with more or fewer cells and other levels than the one before;
/// one of them leaves nothing in the grid.
fn animation(scene: &Scene) -> Vec<[Pose; 2]> {
    let [a, b] = scene.poses;
    let moved = |x: f64| Pose { translation: [x, 0.05, -0.02], ..b };
    vec![
        [a, moved(50.0)],
        [Pose::IDENTITY, b],
        [a, moved(0.9)],
        [moved(50.0), moved(-50.0)],
        [b, a],
        [a, a],
        [a, b],
    ]
}
#[test]
fn recorded_frames_have_the_labels_of_separate_ones() {
    let scene = small(19);
    let [a, b] = &scene.scans;
    for device in kernels([4, 5]).chain([device()]) {
        let new = |device: &Device| {
            Intersector::new(device, &a.cloud, &b.cloud, scene.grid, robust()).unwrap()
        };
        let mut expected = new(&Device::cpu_with_threads(1).unwrap());
        let mut first = new(&device);
        // Work before a recording is not part of it.
        let far = Pose { translation: [60.0; 3], ..Pose::IDENTITY };
        first.frame(&scene.poses[0], &far).unwrap();
        let bytes = first.bytes();
        let mut recorded = first.record().unwrap();
        for [a, b] in animation(&scene) {
            recorded.frame(&a, &b).unwrap();
            expected.frame(&a, &b).unwrap();
            assert_same(recorded.intersector_mut(), &mut expected);
        }
        assert!(recorded.milliseconds().unwrap() > 0.0);
        let solids = recorded.intersector_mut().solids().unwrap();
        assert_eq!(solids.mesh(Boolean::Union), expected.solids().unwrap().mesh(Boolean::Union));
        // Other frames may run between and after recorded ones.
        let [a, b] = animation(&scene)[1];
        recorded.intersector_mut().frame(&b, &a).unwrap();
        recorded.frame(&a, &b).unwrap();
        expected.frame(&a, &b).unwrap();
        assert_same(recorded.intersector_mut(), &mut expected);
        let bent = Pose { rotation: [[0.5; 3]; 3], ..a };
        assert!(matches!(
            recorded.frame(&bent, &b),
            Err(IntersectError::NotRigid { cloud: Side::A, .. })
        ));
        let mut after = recorded.into_intersector();
        assert_eq!(after.bytes(), bytes);
        let [a, b] = animation(&scene)[2];
        after.frame(&a, &b).unwrap();
        expected.frame(&a, &b).unwrap();
        assert_same(&mut after, &mut expected);
    }
    let refused = scene.run(&device(), paper()).record().err();
    assert!(matches!(refused, Some(IntersectError::NeedsRobust { what: "recorded frames" })));
}

#[test]
fn surfaces_of_booleans_hold_the_volumes_of_their_voxels() {
    let scene = scene([SPHERE, SPHERE], 0.5, CLEAN, 14);
    let solids = scene.run(&device(), robust()).solids().unwrap();
    let voxel = scene.grid.voxel_size().powi(3);
    for op in Boolean::ALL {
        let made = solids.mesh(op);
        let p = |i: u32| made.mesh.positions[i as usize].map(f64::from);
        let six = |t: &[u32; 3]| {
            let [a, b, c] = t.map(p);
            a[0] * (b[1] * c[2] - b[2] * c[1])
                + a[1] * (b[2] * c[0] - b[0] * c[2])
                + a[2] * (b[0] * c[1] - b[1] * c[0])
        };
        let enclosed = made.mesh.triangles.iter().map(six).sum::<f64>() / 6.0;
        let filled = solids.volume(op) + made.filled as f64 * voxel;
        assert!((enclosed - filled).abs() < 1e-3 * filled, "{op:?}: {enclosed}, not {filled}");
    }
    let [union, both, difference, reverse] = Boolean::ALL.map(|op| solids.volume(op));
    assert!((union - both - difference - reverse).abs() < 1e-9);
}
#[test]
fn labelled_points_stand_where_the_poses_put_them() {
    let scene = scene([SPHERE, SPHERE], 0.5, CLEAN, 15);
    let mut intersector = scene.run(&device(), robust());
    let clouds =
        [(&scene.scans[0].cloud, &scene.poses[0]), (&scene.scans[1].cloud, &scene.poses[1])];
    let all = intersector.labelled_points(clouds, None).unwrap();
    assert_eq!(all.labels.len(), 2 * POINTS);
    let difference = intersector.labelled_points(clouds, Some(Boolean::Difference)).unwrap();
    let normals = difference.points.normals.as_ref().unwrap();
    for (i, p) in difference.points.positions.iter().enumerate() {
        let side = difference.sides[i];
        let centre = scene.poses[side as usize].translation;
        let outward: f64 =
            (0..3).map(|a| (f64::from(p[a]) - centre[a]) * f64::from(normals[i][a])).sum();
        // The part of B in A bounds A - B from the other side.
        assert_eq!(outward > 0.0, side == Side::A);
        assert_ne!(difference.labels[i], Label::Unknown);
    }
}

#[test]
fn bad_input_is_refused() {
    let good = scan(SPHERE, 10, CLEAN, 0.1, &mut Random(1)).cloud;
    let new = |a: &PointCloud, b: &PointCloud, n: u32, method: Method| {
        Intersector::new(&device(), a, b, Grid::new([-1.0; 3], 0.1, n).unwrap(), method).err()
    };
    let bare = PointCloud { normals: None, ..good.clone() };
    assert!(matches!(
        new(&good, &bare, 16, robust()),
        Some(IntersectError::NoNormals { cloud: Side::B })
    ));
    let empty = PointCloud { positions: vec![], normals: Some(vec![]) };
    assert!(matches!(
        new(&empty, &good, 16, robust()),
        Some(IntersectError::Empty { cloud: Side::A })
    ));
    let short = PointCloud { normals: Some(vec![[0.0; 3]; 3]), ..good.clone() };
    assert!(matches!(
        new(&good, &short, 16, robust()),
        Some(IntersectError::NormalCount { cloud: Side::B, points: 10, normals: 3 })
    ));
    assert!(matches!(
        new(&good, &good, 1025, robust()),
        Some(IntersectError::Resolution { resolution: 1025 })
    ));
    for (inside_above, outside_below) in
        [(80.0, 70.0), (110.0, 100.0), (f64::NAN, 70.0), (190.0, 0.0)]
    {
        let method = Method::Paper(
            PaperOptions::default()
                .with_inside_above(inside_above)
                .with_outside_below(outside_below)
                .with_rounds(3),
        );
        assert!(matches!(new(&good, &good, 16, method), Some(IntersectError::Angles { .. })));
    }
    let mut intersector =
        Intersector::new(&device(), &good, &good, Grid::new([-1.0; 3], 0.1, 20).unwrap(), robust())
            .unwrap();
    let bent = Pose { rotation: [[1.0; 3]; 3], ..Pose::IDENTITY };
    assert!(matches!(
        intersector.frame(&Pose::IDENTITY, &bent),
        Err(IntersectError::NotRigid { cloud: Side::B, row: 0, other: 0, .. })
    ));
    let error = IntersectError::from(Error::NotIndependent { kernel: "k" });
    assert!(error.to_string().contains("`k`"));
}
#[test]
fn strange_points_and_normals_do_no_harm() {
    let mut strange = scan(SPHERE, 3000, CLEAN, 0.1, &mut Random(16)).cloud;
    for (i, p) in strange.positions.iter_mut().enumerate().filter(|(i, _)| i % 100 == 0) {
        *p = [[f32::NAN; 3], [f32::INFINITY; 3], [1e30; 3], [f32::MIN; 3]][i / 100 % 4];
    }
    let normals = strange.normals.as_mut().unwrap();
    for (i, n) in normals.iter_mut().enumerate().filter(|(i, _)| i % 50 == 1) {
        *n = [[f32::NAN; 3], [0.0; 3], [f32::INFINITY; 3], n.map(|c| 1e20 * c)][i / 50 % 4];
    }
    let good = scan(SPHERE, 3000, CLEAN, 0.1, &mut Random(17)).cloud;
    for method in [robust(), paper()] {
        let mut intersector =
            Intersector::new(&device(), &strange, &good, grid(32), method).unwrap();
        intersector
            .frame(&Pose::IDENTITY, &Pose::turned([0.0; 3], 0.0, [0.0; 3], [0.3, 0.0, 0.0]))
            .unwrap();
        let summary = intersector.summary().unwrap();
        assert_eq!(summary.a.dropped, 30);
        if matches!(method, Method::Robust(_)) {
            let counts = summary.b.voxels;
            assert!(
                counts.inside > counts.total() / 10 && counts.unknown < counts.total() / 50,
                "{counts:?}"
            );
        }
    }
    // All points coincide, and all normals are unknown.
    let lone = PointCloud { positions: vec![[0.1; 3]; 50], normals: Some(vec![[0.0; 3]; 50]) };
    for method in [robust(), paper()] {
        let mut intersector = Intersector::new(&device(), &lone, &good, grid(32), method).unwrap();
        intersector.frame(&Pose::IDENTITY, &Pose::IDENTITY).unwrap();
        assert_eq!(intersector.voxels(Side::A).unwrap().len(), 1);
    }
}
