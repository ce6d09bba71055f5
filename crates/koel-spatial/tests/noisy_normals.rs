//! Estimated normals of noisy clouds, and of clouds of several parts, against closed forms.

mod intersect_scenes;

use intersect_scenes::{Random, Scan, Shape, V, scan};
use koel::Device;
use koel_spatial::{NormalError, NormalEstimate, NormalOptions, Orientation, estimate_normals};

const SPHERE: Shape = Shape::Sphere(0.5);
const TORUS: Shape = Shape::Torus { major: 0.35, minor: 0.15 };

/// Positions, and true normals; zero for outliers.
#[derive(Default)]
struct Cloud {
    positions: Vec<[f32; 3]>,
    truth: Vec<[f32; 3]>,
}
impl Cloud {
    fn of(shape: Shape, points: usize, scanner: Scan) -> Cloud {
        Cloud::default().with(shape, points, scanner, [0.0; 3])
    }
    fn with(mut self, shape: Shape, points: usize, scanner: Scan, at: V) -> Cloud {
        let found = scan(shape, points, scanner, 1.0, &mut Random(7 + points as u64));
        let moved = |p: [f32; 3]| [0, 1, 2].map(|a| p[a] + at[a] as f32);
        self.positions.extend(found.cloud.positions.into_iter().map(moved));
        let normals = found.cloud.normals.into_iter().flatten().zip(found.truth);
        self.truth.extend(normals.map(|(n, on)| if on.is_some() { n } else { [0.0; 3] }));
        self
    }
    /// Estimates, and returns the share of flipped normals and the mean angle in degrees, which
    /// ignores signs.
    fn errors(&self, options: &NormalOptions) -> (f64, f64, NormalEstimate) {
        let device = Device::cpu().unwrap();
        let found = estimate_normals(&device, &self.positions, options).unwrap();
        let cosines: Vec<f64> = (found.normals.iter().zip(&self.truth))
            .filter(|(_, t)| **t != [0.0; 3])
            .map(|(n, t)| (0..3).map(|a| f64::from(n[a] * t[a])).sum())
            .collect();
        let each = 1.0 / cosines.len() as f64;
        let flipped = cosines.iter().filter(|c| **c < 0.0).count() as f64 * each;
        let angle = |c: &f64| c.abs().min(1.0).acos().to_degrees();
        (flipped, cosines.iter().map(angle).sum::<f64>() * each, found)
    }
}
fn noise(share: f64) -> Scan {
    Scan { noise: share, ..Scan::default() }
}

/// Noise as large as the distance of the points from each other.
#[test]
fn noise_neither_flips_nor_tilts() {
    for (shape, most_flipped, most_degrees) in
        [(SPHERE, 0.0, 4.0), (TORUS, 0.002, 9.0), (Shape::Plate([0.5, 0.4, 0.3]), 0.003, 13.0)]
    {
        let cloud = Cloud::of(shape, 6000, noise(0.016));
        let (flipped, degrees, found) = cloud.errors(&NormalOptions::default());
        let fixed = cloud.errors(&NormalOptions::default().with_grow(false)).1;
        println!("{shape:?}: {flipped} flipped, {degrees} degrees, {fixed} without growth");
        assert!(
            flipped <= most_flipped && degrees < most_degrees,
            "{shape:?}: {flipped} {degrees}"
        );
        assert!(fixed > 1.6 * degrees, "{fixed}");
        assert_eq!((found.report.parts, found.report.open_points), (1, 0), "{shape:?}");
    }
}
#[test]
fn clouds_without_noise_keep_small_neighbourhoods() {
    let cloud = Cloud::of(SPHERE, 3000, noise(0.0));
    let [grown, fixed] =
        [true, false].map(|grow| cloud.errors(&NormalOptions::default().with_grow(grow)).2.normals);
    assert!(grown == fixed);
}
/// Squares of coordinates exceed 32-bit floating point.
#[test]
fn no_unit_of_length_is_too_large_or_small() {
    for unit in [1e30f32, 1e-30] {
        let mut cloud = Cloud::of(TORUS, 2000, noise(0.008));
        let before = cloud.errors(&NormalOptions::default()).1;
        cloud.positions.iter_mut().flatten().for_each(|c| *c *= unit);
        let (flipped, degrees, _) = cloud.errors(&NormalOptions::default());
        assert!(flipped < 0.01 && (degrees - before).abs() < 0.1, "{flipped} {degrees} {before}");
    }
}
/// Outliers decide neither the side nor the planes.
#[test]
fn outliers_and_uneven_density_do_not_flip() {
    for scanner in [Scan { outliers: 0.01, ..noise(0.004) }, Scan { density: 10.0, ..noise(0.004) }]
    {
        let (flipped, degrees, _) =
            Cloud::of(TORUS, 5000, scanner).errors(&NormalOptions::default());
        assert!(flipped < 0.001 && degrees < 5.0, "{scanner:?}: {flipped} {degrees}");
    }
    let mut far = Cloud::of(TORUS, 3000, noise(0.002));
    far.positions.push([1000.0, 0.0, 0.0]);
    far.truth.push([0.0; 3]);
    assert_eq!(far.errors(&NormalOptions::default()).0, 0.0);
}
#[test]
fn cavities_point_inwards_and_solids_in_them_outwards() {
    let hollow = Shape::Hollow { outer: 0.5, inner: 0.35 };
    let cloud = Cloud::of(hollow, 5000, noise(0.002))
        .with(Shape::Sphere(0.15), 1500, noise(0.002), [0.0; 3])
        // Beside them, in the box of none.
        .with(TORUS, 3000, noise(0.002), [3.0, 0.0, 0.0])
        // In the box of the torus, but not in it.
        .with(Shape::Sphere(0.1), 1000, noise(0.002), [3.0, 0.0, 0.0]);
    let (flipped, _, found) = cloud.errors(&NormalOptions::default());
    assert_eq!((flipped, found.report.parts, found.report.cavities), (0.0, 5, 1));
}
/// Where they touch, their surfaces merge into one plane.
#[test]
fn solids_that_touch_are_sides_of_their_own() {
    for share in [0.0, 0.004] {
        let cloud = Cloud::of(Shape::Sphere(0.25), 8000, noise(share)).with(
            Shape::Sphere(0.25),
            8001,
            noise(share),
            [0.5, 0.0, 0.0],
        );
        let (flipped, _, found) = cloud.errors(&NormalOptions::default());
        assert!(flipped < 0.01, "{share}: {flipped}");
        assert_eq!(found.report.parts, 2, "{share}");
    }
}
/// Half a sphere has no volume; its outermost point decides.
#[test]
fn open_parts_are_counted() {
    let cap = Shape::Cap { radius: 0.5, above: 0.1 };
    let cloud = Cloud::of(cap, 2000, noise(0.002));
    let (flipped, _, found) = cloud.errors(&NormalOptions::default());
    assert_eq!((flipped, found.report.open_points), (0.0, 2000));
}
#[test]
fn viewpoints_are_faced_and_checked() {
    let cloud = Cloud::of(Shape::Cap { radius: 0.5, above: 0.3 }, 2000, noise(0.002));
    let towards = |at| NormalOptions::default().with_orientation(Orientation::Towards(at));
    let (flipped, _, found) = cloud.errors(&towards([0.0, 0.0, 5.0]));
    assert_eq!((flipped, found.report.grazing), (0.0, 0));
    assert_eq!(cloud.errors(&towards([0.0, 0.0, -5.0])).0, 1.0);
    // In the plane of most points: no side faces it.
    let flat = Cloud::of(Shape::Plate([0.5, 0.5, 0.0]), 2000, noise(0.0));
    assert_eq!(flat.errors(&towards([9.0, 0.0, 0.0])).2.report.grazing, 2000);
    let device = Device::cpu().unwrap();
    let at = cloud.positions[17];
    let error = estimate_normals(&device, &cloud.positions, &towards(at)).unwrap_err();
    assert!(matches!(error, NormalError::AtViewpoint { point: 17, viewpoint } if viewpoint == at));
    assert!(error.to_string().starts_with("point 17 is at the viewpoint ["), "{error}");
}
/// A solid with a bore: its wall faces the bore, though it is closed but for its ends.
#[test]
fn walls_of_bores_face_the_bore() {
    let (outer, inner, length) = (0.5, 0.25, 1.5);
    let mut random = Random(3);
    let mut cloud = Cloud::default();
    let areas = [outer * length, inner * length, outer * outer - inner * inner];
    for _ in 0..6000 {
        let pick = random.unit() * areas.iter().sum::<f64>();
        let turn = std::f64::consts::TAU * random.unit();
        let d = [turn.cos(), turn.sin()];
        let side = if random.unit() < 0.5 { -1.0 } else { 1.0 };
        let z = length * (random.unit() - 0.5);
        let (p, n) = if pick < areas[0] {
            ([outer * d[0], outer * d[1], z], [d[0], d[1], 0.0])
        } else if pick < areas[0] + areas[1] {
            ([inner * d[0], inner * d[1], z], [-d[0], -d[1], 0.0])
        } else {
            let r = (inner * inner + random.unit() * areas[2]).sqrt();
            ([r * d[0], r * d[1], side * length / 2.0], [0.0, 0.0, side])
        };
        let noise = [0; 3].map(|_| 0.004 * random.normal());
        cloud.positions.push([0, 1, 2].map(|a| (p[a] + noise[a]) as f32));
        cloud.truth.push(n.map(|c| c as f32));
    }
    let (flipped, _, _) = cloud.errors(&NormalOptions::default());
    assert!(flipped < 0.005, "{flipped}");
}
