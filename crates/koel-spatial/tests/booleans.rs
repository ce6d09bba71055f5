//! Smooth surfaces and volume errors of Booleans against closed forms.

mod intersect_scenes;

use intersect_scenes::{
    MeshErrors, Placed, Random, Scan, Shape, areas_of, mesh_errors, scan, volumes_of,
};
use koel::Device;
use koel_spatial::intersect::{Boolean, Intersector, Method, Pose, Solids};
use koel_spatial::{Grid, Mesh};
use std::collections::HashMap;
use std::f64::consts::PI;

const SPHERE: Shape = Shape::Sphere(0.6);
const TORUS: Shape = Shape::Torus { major: 0.55, minor: 0.22 };
const BOX: Shape = Shape::Plate([0.4, 0.5, 0.6]);
const OTHER_BOX: Shape = Shape::Plate([0.5, 0.3, 0.45]);
const CLEAN: Scan =
    Scan { noise: 0.0, degrees: 0.0, outliers: 0.0, flipped: 0.0, hole: 0.0, density: 0.0 };
const NOISY: Scan = Scan { noise: 0.5, degrees: 15.0, ..CLEAN };
const SIDE: u32 = 64;
const H: f64 = 2.0 / SIDE as f64;

struct Scene {
    shapes: [Shape; 2],
    poses: [Pose; 2],
    solids: Solids,
}
impl Scene {
    fn new(shapes: [Shape; 2], offset: f64, noise: Scan, seed: u64) -> Scene {
        let mut random = Random(seed);
        let moved = random.direction().map(|c| c * offset);
        let poses = [random.pose(moved.map(|c| -0.5 * c)), random.pose(moved.map(|c| 0.5 * c))];
        Scene::posed(shapes, poses, noise, random)
    }
    fn posed(shapes: [Shape; 2], poses: [Pose; 2], noise: Scan, mut random: Random) -> Scene {
        let [a, b] = shapes.map(|shape| scan(shape, 24_000, noise, H, &mut random).cloud);
        let grid = Grid::new([-1.0; 3], H, SIDE).unwrap();
        let device = Device::cpu_with_threads(2).unwrap();
        let mut frames = Intersector::new(&device, &a, &b, grid, Method::default()).unwrap();
        frames.frame(&poses[0], &poses[1]).unwrap();
        Scene { shapes, poses, solids: frames.solids().unwrap() }
    }
    fn placed(&self) -> [Placed<'_>; 2] {
        [(self.shapes[0], &self.poses[0]), (self.shapes[1], &self.poses[1])]
    }
    fn smaller(&self, of: impl Fn(Shape) -> f64) -> f64 {
        of(self.shapes[0]).min(of(self.shapes[1]))
    }
}
/// Every edge belongs to two triangles of opposite direction, and no triangle is degenerate.
#[track_caller]
fn assert_closed(mesh: &Mesh) {
    let mut edges = HashMap::new();
    for t in &mesh.triangles {
        for i in 0..3 {
            let (a, b) = (t[i], t[(i + 1) % 3]);
            edges.entry((a.min(b), a.max(b))).or_insert([0, 0])[usize::from(a < b)] += 1;
        }
        let [a, b, c] = t.map(|v| mesh.positions[v as usize].map(f64::from));
        let [u, v] = [b, c].map(|p| [p[0] - a[0], p[1] - a[1], p[2] - a[2]]);
        let normal = [1, 2, 0].map(|i| u[i] * v[(i + 1) % 3] - u[(i + 1) % 3] * v[i]);
        assert!(normal.map(|c: f64| c * c).iter().sum::<f64>().sqrt() > 1e-7 * H * H);
    }
    assert!(edges.values().all(|&e| e == [1, 1]));
}

/// Asserts that the smooth meshes of all Booleans have these errors: shares of area and volume, and
/// the mean distance in voxels.
#[track_caller]
fn assert_smooth(scene: &Scene, area: f64, volume: f64, distance: f64) {
    let placed = scene.placed();
    let (volumes, areas) = (volumes_of(placed, 256), areas_of(placed, 40_000));
    for (i, op) in Boolean::ALL.into_iter().enumerate() {
        let made = scene.solids.smooth_mesh(op);
        assert_closed(&made.mesh);
        let e = mesh_errors(&made.mesh, op, placed);
        let of_area = areas[i].max(scene.smaller(Shape::area));
        let of_volume = volumes[i].max(scene.smaller(Shape::volume));
        assert!((e.area - areas[i]).abs() <= area * of_area, "{op:?}: {e:?}, not {}", areas[i]);
        assert!((e.volume - volumes[i]).abs() <= volume * of_volume, "{op:?}: {e:?}");
        let MeshErrors { mean_distance, inverted, .. } = e;
        assert!(mean_distance <= distance * H && inverted < 0.005, "{op:?}: {e:?}");
    }
    let faces = mesh_errors(&scene.solids.mesh(Boolean::Union).mesh, Boolean::Union, placed);
    assert!(faces.area > 1.3 * areas[0] && faces.mean_distance > 0.15 * H, "{faces:?}");
}

#[test]
fn smooth_surfaces_are_those_of_spheres_tori_and_boxes() {
    assert_smooth(&Scene::new([SPHERE, SPHERE], 0.5, CLEAN, 1), 0.02, 0.005, 0.05);
    assert_smooth(&Scene::new([SPHERE, TORUS], 0.4, CLEAN, 2), 0.03, 0.005, 0.05);
    assert_smooth(&Scene::new([BOX, OTHER_BOX], 0.4, CLEAN, 3), 0.03, 0.005, 0.05);
}
#[test]
fn smooth_surfaces_of_noisy_scans_are_smooth() {
    assert_smooth(&Scene::new([SPHERE, TORUS], 0.4, NOISY, 4), 0.03, 0.01, 0.1);
    let flipped = Scan { flipped: 0.05, ..NOISY };
    assert_smooth(&Scene::new([SPHERE, SPHERE], 0.5, flipped, 5), 0.03, 0.01, 0.1);
}
/// A box less the same box turned: wedges, whose edges contain no centres of voxels.
#[test]
fn edges_of_wedges_are_not_cut_off() {
    for degrees in [28.0, 32.0f64] {
        let poses = [0.5, 0.5 + degrees.to_radians()]
            .map(|angle| Pose::turned([1.0, 2.0, 4.0], angle, [0.0; 3], [0.01; 3]));
        let scene = Scene::posed([BOX, BOX], poses, CLEAN, Random(8));
        assert_smooth(&scene, 0.05, 0.005, 0.02);
    }
}
/// Two sheets 3 voxels apart do not pull at each other.
#[test]
fn thin_plates_keep_their_thickness() {
    let plate = Shape::Plate([0.7, 0.5, 1.5 * H]);
    assert_smooth(&Scene::new([plate, SPHERE], 0.3, CLEAN, 6), 0.03, 0.01, 0.05);
}
/// Normals point outward, also along creases; those of B are flipped in A - B.
#[test]
fn normals_point_outward() {
    let scene = Scene::new([SPHERE, SPHERE], 0.5, CLEAN, 7);
    let centres = [0, 1].map(|side| scene.poses[side].translation);
    let made = scene.solids.smooth_mesh(Boolean::Difference);
    let normals = made.normals.unwrap();
    assert_eq!(normals.len(), made.mesh.positions.len());
    let (mut checked, mut flipped) = (0, 0);
    for (p, n) in made.mesh.positions.iter().zip(&normals) {
        let from = centres.map(|c| [0, 1, 2].map(|a| f64::from(p[a]) - c[a]));
        let height = from.map(|v| v.map(|c| c * c).iter().sum::<f64>().sqrt() - 0.6);
        let side = usize::from(height[0].abs() > height[1].abs());
        if height[1 - side].abs() > 2.0 * H {
            let along = (0..3).map(|a| f64::from(n[a]) * from[side][a]).sum::<f64>() / 0.6;
            assert!(if side == 0 { along > 0.98 } else { along < -0.98 }, "{along}");
            (checked, flipped) = (checked + 1, flipped + side);
        }
    }
    assert!(flipped > 500 && checked > flipped + 500);
}
#[test]
fn volume_errors_cover_the_true_volumes() {
    let hole = Scan { hole: 0.05, ..NOISY };
    let plate = Shape::Plate([0.7, 0.5, 1.5 * H]);
    let hollow = Shape::Hollow { outer: 0.7, inner: 0.4 };
    for (i, (shapes, offset, noise)) in [
        ([SPHERE, SPHERE], 0.5, CLEAN),
        ([SPHERE, TORUS], 0.4, NOISY),
        ([SPHERE, SPHERE], 0.5, hole),
        ([plate, SPHERE], 0.3, CLEAN),
        ([hollow, SPHERE], 0.4, NOISY),
    ]
    .into_iter()
    .enumerate()
    {
        for seed in 1..=2 {
            let scene = Scene::new(shapes, offset, noise, 10 * i as u64 + seed);
            let smaller = scene.smaller(Shape::volume);
            let truth = volumes_of(scene.placed(), 256);
            let found = scene.solids.volumes();
            for ((op, truth), found) in Boolean::ALL.into_iter().zip(truth).zip(found) {
                let off = (found.volume - truth).abs();
                assert!(
                    off <= found.error,
                    "{shapes:?}, {noise:?}, {op:?}: {found:?}, not {truth}"
                );
                let vague = 0.1 * smaller.max(truth);
                assert!(found.error < vague, "{op:?}: {found:?} says nothing");
            }
            let [union, both, difference, reverse] = found.map(|of| of.volume);
            assert!((union - both - difference - reverse).abs() < 1e-9);
        }
    }
}

/// Walls of every thickness in any pose: plates, balls of thin shells, rods and wedges, inside a
/// ball or cut by one.
#[test]
fn volume_errors_cover_thin_walls_in_every_pose() {
    let mut random = Random(77);
    let grid = Grid::new([-1.0; 3], H, SIDE).unwrap();
    for thickness in [0.1, 0.25, 0.5, 1.0, 1.5] {
        let t = 0.5 * thickness * H;
        let plate = Shape::Plate([0.6, 0.45, t]);
        let shell = Shape::Hollow { outer: 0.55 + t, inner: 0.55 - t };
        let around = Shape::Sphere(0.9);
        // A disc, less what the ball's curvature cuts off.
        let disc = 2.0 * PI * t * (0.35f64.powi(2) - t * t / 3.0);
        for (shape, ball, both) in [
            (plate, around, plate.volume()),
            (plate, Shape::Sphere(0.35), disc),
            (shell, around, shell.volume()),
            (Shape::Plate([0.7, t, t]), around, 8.0 * 0.7 * t * t),
        ] {
            let (pose, other) = (random.pose([0.01, 0.02, 0.03]), random.pose([0.01, 0.02, 0.03]));
            let scene = Scene::posed([shape, ball], [pose, other], CLEAN, Random(random.0));
            let (a, b) = (shape.volume(), ball.volume());
            let truth = [a + b - both, both, a - both, b - both];
            let what = format!("{thickness} voxels, {shape:?}, {ball:?}");
            let found = scene.solids.volumes();
            for ((op, truth), found) in Boolean::ALL.into_iter().zip(truth).zip(found) {
                let off = (found.volume - truth).abs();
                assert!(off <= found.error + 1e-9, "{what}, {op:?}: {found:?}, not {truth}");
            }
            let cloud = scan(shape, 24_000, CLEAN, H, &mut random).cloud;
            let posed = |of: &[[f32; 3]], turn: fn(&Pose, [f64; 3]) -> [f64; 3]| {
                of.iter()
                    .map(|v| turn(&pose, v.map(f64::from)).map(|c| c as f32))
                    .collect::<Vec<[f32; 3]>>()
            };
            let positions = posed(&cloud.positions, Pose::apply);
            let normals = cloud.normals.as_deref().map(|normals| posed(normals, Pose::turn));
            let thin =
                koel_spatial::thinness(&koel_spatial::PointCloud { positions, normals }, &grid);
            if thickness <= 0.5 {
                assert!(thin.share > 0.9 && thin.thickness < 0.6, "{what}: {thin:?}");
            } else if thickness > 1.2 {
                assert!(thin.share < 0.01, "{what}: {thin:?}");
            }
        }
    }
    for (shape, noise) in [(SPHERE, NOISY), (TORUS, NOISY), (BOX, CLEAN)] {
        let noise = Scan { flipped: 0.05, outliers: 0.02, ..noise };
        let thick = scan(shape, 24_000, noise, H, &mut random).cloud;
        let thin = koel_spatial::thinness(&thick, &grid);
        assert!(thin.share < 0.01, "{shape:?}: {thin:?}");
    }
}
