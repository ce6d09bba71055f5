//! Estimated normals against closed forms and against planes fitted to a kd-tree's neighbours.

use std::f64::consts::TAU;
use std::num::NonZero;

use kiddo::{ImmutableKdTree, SquaredEuclidean};
use koel::Device;
use koel_spatial::{NormalError, NormalOptions, Orientation, estimate_normals};
use nalgebra::{Matrix3, Vector3};

/// Random numbers in 0..1.
struct Random(u64);
impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
    /// Uniform on the unit sphere.
    fn direction(&mut self) -> [f64; 3] {
        let (z, angle) = (2.0 * self.unit() - 1.0, TAU * self.unit());
        let r = (1.0 - z * z).sqrt();
        [r * angle.cos(), r * angle.sin(), z]
    }
}

fn narrow(v: [f64; 3]) -> [f32; 3] {
    v.map(|c| c as f32)
}

fn cosine(a: [f32; 3], b: [f64; 3]) -> f64 {
    (0..3).map(|i| f64::from(a[i]) * b[i]).sum()
}

fn options(neighbours: usize, orientation: Orientation) -> NormalOptions {
    NormalOptions::default().with_neighbours(neighbours).with_orientation(orientation)
}

/// Returns the mean and maximum angle, in degrees, between estimates and true normals; a wrong sign
/// gives an angle above 90.
fn angles(estimated: &[[f32; 3]], truth: &[[f64; 3]]) -> (f64, f64) {
    let angles: Vec<f64> = estimated
        .iter()
        .zip(truth)
        .map(|(&e, &t)| cosine(e, t).clamp(-1.0, 1.0).acos().to_degrees())
        .collect();
    (angles.iter().sum::<f64>() / angles.len() as f64, angles.iter().copied().fold(0.0, f64::max))
}

fn sphere(n: usize, centre: [f64; 3], radius: f64, seed: u64) -> (Vec<[f32; 3]>, Vec<[f64; 3]>) {
    let mut random = Random(seed);
    (0..n)
        .map(|_| {
            let d = random.direction();
            (narrow(std::array::from_fn(|a| centre[a] + radius * d[a])), d)
        })
        .unzip()
}

fn torus(n: usize, seed: u64) -> (Vec<[f32; 3]>, Vec<[f64; 3]>) {
    let (mut random, large, small) = (Random(seed), 3.0, 1.0);
    (0..n)
        .map(|_| {
            let (u, v) = (TAU * random.unit(), TAU * random.unit());
            let normal = [v.cos() * u.cos(), v.cos() * u.sin(), v.sin()];
            let ring = [large * u.cos(), large * u.sin(), 0.0];
            (narrow(std::array::from_fn(|a| ring[a] + small * normal[a])), normal)
        })
        .unzip()
}

#[test]
fn sphere_and_torus_look_outwards() {
    let device = Device::cpu().unwrap();
    let shapes = [sphere(8000, [10.0, -20.0, 5.0], 3.0, 1), torus(12_000, 2)];
    for (points, truth) in shapes {
        let estimate = estimate_normals(&device, &points, &NormalOptions::default()).unwrap();
        let (mean, greatest) = angles(&estimate.normals, &truth);
        println!("{} points: mean angle {mean:.2}, maximum {greatest:.2} degrees", points.len());
        assert!(mean < 1.5 && greatest < 10.0, "mean {mean}, maximum {greatest}");
        assert!(estimate.normals.iter().all(|&n| (cosine(n, n.map(f64::from)) - 1.0).abs() < 1e-5));
        assert_eq!(
            (estimate.report.undetermined, estimate.report.parts, estimate.report.neighbours),
            (0, 1, 16)
        );
    }
}

/// Two sheets closer to each other than the reach of their points' neighbours: their normals point
/// apart.
#[test]
fn a_thin_plate_has_two_sides() {
    let mut random = Random(11);
    let (half, thick) = (1.0, 0.045);
    // Surface of a box, sampled by area.
    let (points, truth): (Vec<_>, Vec<_>) = (0..20_000)
        .map(|i| {
            let (s, t, side) =
                (2.0 * random.unit() - 1.0, random.unit(), if i % 2 == 0 { 1.0 } else { -1.0 });
            let z = thick * (t - 0.5);
            match i / 2 % 20 {
                0 => ([side * half, s, z], [side, 0.0, 0.0]),
                1 => ([s, side * half, z], [0.0, side, 0.0]),
                _ => ([s, 2.0 * t - 1.0, side * thick / 2.0], [0.0, 0.0, side]),
            }
        })
        .map(|(p, n): ([f64; 3], [f64; 3])| (narrow(p), n))
        .unzip();
    let estimate =
        estimate_normals(&Device::cpu().unwrap(), &points, &options(12, Orientation::Outwards))
            .unwrap();
    let right = estimate.normals.iter().zip(&truth).filter(|&(&n, &t)| cosine(n, t) > 0.0).count();
    println!("thin plate: {right} of {} on the right side", points.len());
    assert!(right as f64 > 0.99 * points.len() as f64, "{right}");
}

#[test]
fn noise_is_averaged_out() {
    let (mut points, truth) = sphere(8000, [0.0; 3], 1.0, 3);
    let mut random = Random(4);
    points
        .iter_mut()
        .flatten()
        .for_each(|c| *c += 0.005 * (random.unit() + random.unit() - 1.0) as f32);
    let device = Device::cpu().unwrap();
    let few = estimate_normals(&device, &points, &options(8, Orientation::Outwards)).unwrap();
    let many = estimate_normals(&device, &points, &options(40, Orientation::Outwards)).unwrap();
    let (few, many) = (angles(&few.normals, &truth), angles(&many.normals, &truth));
    println!(
        "noise of a sixth of the spacing: mean angle {:.2} with 8 neighbours, {:.2} with 40",
        few.0, many.0
    );
    assert!(many.0 < 2.0 && many.0 < 0.5 * few.0 && many.1 < 15.0, "{few:?} {many:?}");
}

#[test]
fn parts_are_turned_each_by_itself() {
    let (mut points, mut truth) = sphere(2000, [0.0; 3], 1.0, 5);
    let (others, of_others) = sphere(3000, [50.0, 3.0, 3.0], 2.0, 6);
    points.extend(others);
    truth.extend(of_others);
    let estimate =
        estimate_normals(&Device::cpu().unwrap(), &points, &NormalOptions::default()).unwrap();
    assert_eq!(estimate.report.parts, 2);
    assert!(angles(&estimate.normals, &truth).1 < 20.0);
}

#[test]
fn planes_are_exact() {
    let mut random = Random(7);
    let normal = [1.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0];
    // Two vectors in the plane, perpendicular to the normal.
    let points: Vec<[f32; 3]> = (0..2000)
        .map(|_| {
            let (s, t) = (random.unit(), random.unit());
            narrow([2.0 * s + 2.0 * t, -2.0 * s + t, s - 2.0 * t])
        })
        .collect();
    let device = Device::cpu().unwrap();
    for orientation in [Orientation::Outwards, Orientation::Towards([10.0, 20.0, 20.0])] {
        let estimate = estimate_normals(&device, &points, &options(10, orientation)).unwrap();
        let worst = estimate.normals.iter().map(|&n| cosine(n, normal)).fold(1.0, f64::min);
        assert!(worst > 1.0 - 1e-6, "{orientation:?}: {worst}");
    }
    let behind =
        estimate_normals(&device, &points, &options(10, Orientation::Towards([-9.0, -9.0, -9.0])))
            .unwrap();
    assert!(behind.normals.iter().all(|&n| cosine(n, normal) < -1.0 + 1e-6));
}

#[test]
fn a_scan_from_one_place_looks_there() {
    let (points, truth) = sphere(4000, [0.0; 3], 1.0, 8);
    let viewpoint = [0.0, 0.0, 0.0];
    let estimate = estimate_normals(
        &Device::cpu().unwrap(),
        &points,
        &options(12, Orientation::Towards(viewpoint)),
    )
    .unwrap();
    let inwards: Vec<[f64; 3]> = truth.iter().map(|n| n.map(|c| -c)).collect();
    assert!(angles(&estimate.normals, &inwards).1 < 15.0);
    assert_eq!(estimate.report.parts, 0);
}

/// The same planes, computed from a kd-tree's neighbours.
#[test]
fn agrees_with_planes_of_a_kd_tree() {
    let (points, _) = torus(3000, 9);
    let wide: Vec<[f64; 3]> = points.iter().map(|p| p.map(f64::from)).collect();
    let tree: ImmutableKdTree<f64, 3> = ImmutableKdTree::new_from_slice(&wide).unwrap();
    let estimate =
        estimate_normals(&Device::cpu().unwrap(), &points, &options(14, Orientation::Unoriented))
            .unwrap();
    for (i, q) in wide.iter().enumerate() {
        let near =
            tree.query(q).nearest_n::<SquaredEuclidean<f64>>(NonZero::new(14).unwrap()).execute();
        let near: Vec<Vector3<f64>> = near.iter().map(|n| wide[n.item as usize].into()).collect();
        let mean = near.iter().sum::<Vector3<f64>>() / near.len() as f64;
        let covariance: Matrix3<f64> =
            near.iter().map(|p| (p - mean) * (p - mean).transpose()).sum();
        // The normal is the eigenvector of the least eigenvalue: found by power iteration with the
        // inverse.
        let inverse = covariance.try_inverse().unwrap();
        let mut normal = Vector3::new(0.3, 0.5, 0.8);
        (0..200).for_each(|_| normal = (inverse * normal).normalize());
        assert!(cosine(estimate.normals[i], normal.into()).abs() > 1.0 - 1e-5, "point {i}");
    }
}

#[test]
fn every_device_gives_the_same_normals() {
    let (points, _) = sphere(150, [0.0; 3], 1.0, 10);
    let of = |device: Device| {
        estimate_normals(&device, &points, &options(8, Orientation::Outwards)).unwrap()
    };
    let first = of(Device::cpu().unwrap());
    assert_eq!(of(Device::cpu_with_threads(1).unwrap()), first);
    assert_eq!(of(Device::executor(1)), first);
}

#[test]
fn lines_and_heaps_have_no_normals() {
    let device = Device::cpu().unwrap();
    let line: Vec<[f32; 3]> = (0..50).map(|i| [i as f32, 2.0 * i as f32, 0.0]).collect();
    let estimate = estimate_normals(&device, &line, &NormalOptions::default()).unwrap();
    assert_eq!(estimate.report.undetermined, 50);
    let along = [1.0 / 5.0f64.sqrt(), 2.0 / 5.0f64.sqrt(), 0.0];
    assert!(estimate.normals.iter().all(|&n| cosine(n, along).abs() < 1e-5));
    let heap = [[1.0, 2.0, 3.0]; 40];
    let estimate = estimate_normals(&device, &heap, &NormalOptions::default()).unwrap();
    assert_eq!(estimate.report.undetermined, 40);
    assert!(estimate.normals.iter().all(|&n| n == [0.0, 0.0, 1.0]));
    // Fewer points than neighbours: all of them are used.
    let corner = [[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]];
    let estimate = estimate_normals(&device, &corner, &NormalOptions::default()).unwrap();
    assert_eq!((estimate.report.neighbours, estimate.report.undetermined), (3, 0));
    assert!(estimate.normals.iter().all(|&n| n[2] > 0.999));
}

#[test]
fn faults_are_named() {
    let device = Device::cpu().unwrap();
    let error = |points: &[[f32; 3]], options: &NormalOptions| {
        estimate_normals(&device, points, options).map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(
        error(&[[0.0; 3]; 2], &NormalOptions::default()),
        "2 points are too few for normals from 16 neighbours each: expected at least 3"
    );
    assert_eq!(
        error(&[[0.0; 3]; 9], &options(2, Orientation::Outwards)),
        "normals from 2 neighbours were requested, expected at least 3"
    );
    assert_eq!(
        error(&[[0.0; 3], [0.0; 3], [0.0, f32::NAN, 0.0]], &NormalOptions::default()),
        "point 2: y is NaN, expected a finite number"
    );
    let viewpoint = options(4, Orientation::Towards([0.0, f32::INFINITY, 0.0]));
    assert!(matches!(
        estimate_normals(&device, &[[0.0; 3]; 9], &viewpoint),
        Err(NormalError::Viewpoint { .. })
    ));
}
