//! Sides of estimated normals of open surfaces, and of sheets that are closer than noise.

mod intersect_scenes;

use intersect_scenes::{Random, Scan, Shape, V, scan};
use koel::Device;
use koel_spatial::{NormalError, NormalOptions, NormalReport, estimate_normals};

/// Positions and true normals.
#[derive(Clone, Default)]
struct Cloud(Vec<(V, V)>);
impl Cloud {
    fn of(shape: Shape, points: usize, noise: f64, at: V, seed: u64) -> Cloud {
        let scanner = Scan { noise, ..Scan::default() };
        let found = scan(shape, points, scanner, 1.0, &mut Random(seed)).cloud;
        let normals = found.normals.into_iter().flatten();
        let wide = |(p, n): ([f32; 3], [f32; 3])| {
            (std::array::from_fn(|a| f64::from(p[a]) + at[a]), n.map(f64::from))
        };
        Cloud(found.positions.into_iter().zip(normals).map(wide).collect())
    }
    /// Estimates normals. Returns the share of those on the wrong side.
    fn flipped(&self, options: &NormalOptions) -> (f64, NormalReport) {
        let positions: Vec<[f32; 3]> = self.0.iter().map(|(p, _)| p.map(|c| c as f32)).collect();
        let found = estimate_normals(&Device::cpu().unwrap(), &positions, options).unwrap();
        let is_wrong = |((_, truth), n): &(&(V, V), &[f32; 3])| {
            (0..3).map(|a| truth[a] * f64::from(n[a])).sum::<f64>() < 0.0
        };
        let wrong = self.0.iter().zip(&found.normals).filter(is_wrong).count();
        (wrong as f64 / self.0.len() as f64, found.report)
    }
    /// Permutes the axes, and turns the first two around.
    fn turned(&self) -> Cloud {
        let turn = |v: V| [-v[1], -v[2], v[0]];
        Cloud(self.0.iter().map(|&(p, n)| (turn(p), turn(n))).collect())
    }
}

/// Hills of 100 by 100 units with buildings, whose walls are sampled thinly, and trees: what an
/// aircraft sees.
fn landscape() -> Cloud {
    let mut random = Random(11);
    let mut cloud = Cloud::default();
    let height = |x: f64, y: f64| 6.0 * (0.07 * x).sin() * (0.05 * y).cos();
    let buildings: [[f64; 5]; 3] = [
        [12.0, 15.0, 20.0, 12.0, 14.0],
        [60.0, 20.0, 12.0, 25.0, 12.0],
        [30.0, 65.0, 25.0, 15.0, 18.0],
    ];
    let trees: Vec<V> = (0..12)
        .map(|i| [82.0 + 6.0 * f64::from(i % 3), 10.0 + 20.0 * f64::from(i / 3), 4.0])
        .collect();
    let is_under = |x: f64, y: f64| {
        let in_building = |b: &[f64; 5]| x > b[0] && x < b[0] + b[2] && y > b[1] && y < b[1] + b[3];
        buildings.iter().any(in_building) || trees.iter().any(|t| (x - t[0]).hypot(y - t[1]) < t[2])
    };
    let mut add = |random: &mut Random, p: V, n: V| {
        cloud.0.push((std::array::from_fn(|a| p[a] + 0.03 * random.normal()), n));
    };
    for _ in 0..9000 {
        let (x, y) = (random.between(0.0, 100.0), random.between(0.0, 100.0));
        if !is_under(x, y) {
            add(&mut random, [x, y, height(x, y)], [0.0, 0.0, 1.0]);
        }
    }
    for [x, y, width, depth, top] in buildings {
        for _ in 0..(width * depth) as usize {
            let p = [x + random.between(0.0, width), y + random.between(0.0, depth), top];
            add(&mut random, p, [0.0, 0.0, 1.0]);
        }
        for _ in 0..(0.3 * top * width) as usize {
            let p = [x + random.between(0.0, width), y, random.between(0.0, top)];
            add(&mut random, p, [0.0, -1.0, 0.0]);
        }
    }
    for [x, y, radius] in trees {
        for _ in 0..150 {
            let n = random.direction();
            let n = [n[0], n[1], n[2].abs()];
            let middle = height(x, y) + 5.0;
            add(&mut random, [x + radius * n[0], y + radius * n[1], middle + radius * n[2]], n);
        }
    }
    cloud
}

#[test]
fn landscapes_face_the_direction_that_they_are_seen_from() {
    let cloud = landscape();
    for (cloud, up) in [(cloud.clone(), [0.0, 0.0, 1.0]), (cloud.turned(), [0.0, -7.0, 0.0])] {
        let options = NormalOptions::default().with_open_towards(Some(up));
        let (flipped, report) = cloud.flipped(&options);
        println!("{up:?}: {flipped} {report:?}");
        assert!(flipped < 0.02, "{up:?}: {flipped}");
        assert!(report.open_points > 8000 && report.undecided_points == 0, "{report:?}");
    }
}
/// Both sides of a landscape are seen alike; then z decides.
#[test]
fn landscapes_without_a_direction_are_undecided() {
    let mut random = Random(5);
    let hill = |x: f64, y: f64| 0.05 * (9.0 * x).sin() * (7.0 * y).cos();
    let points = (0..4000).map(|_| (random.unit(), random.unit()));
    let cloud = Cloud(points.map(|(x, y)| ([x, y, hill(x, y)], [0.0, 0.0, 1.0])).collect());
    let (flipped, report) = cloud.flipped(&NormalOptions::default());
    assert_eq!((flipped, report.open_points, report.undecided_points), (0.0, 4000, 4000));
}
/// One side of an object, as a scanner sees it: the outside is seen from more directions.
#[test]
fn one_side_of_an_object_points_outwards() {
    let mut cloud = Cloud::of(Shape::Cap { radius: 0.5, above: 0.1 }, 3000, 0.002, [0.0; 3], 3);
    for turn in 0..3 {
        let (flipped, report) = cloud.flipped(&NormalOptions::default());
        assert_eq!(
            (flipped, report.open_points, report.undecided_points),
            (0.0, 3000, 0),
            "turn {turn}"
        );
        cloud = cloud.turned();
    }
    // Three faces of a box, and its corner below all of them.
    let mut box_from_above = Cloud::of(Shape::Plate([0.5, 0.4, 0.3]), 6000, 0.002, [0.0; 3], 4);
    box_from_above.0.retain(|(_, n)| n[0] + n[1] + n[2] < 0.0);
    let (flipped, report) = box_from_above.flipped(&NormalOptions::default());
    assert!(flipped < 0.002 && report.undecided_points == 0, "{flipped} {report:?}");
}
/// Spheres that touch: around that place, the gap between them is smaller than the noise.
#[test]
fn sheets_closer_than_noise_keep_their_sides() {
    let (noise, radius) = (0.0043, 0.25);
    let mut spheres = Cloud::of(Shape::Sphere(radius), 65_000, noise, [0.0; 3], 7);
    spheres.0.extend(Cloud::of(Shape::Sphere(radius), 65_000, noise, [0.5, 0.0, 0.0], 8).0);
    let (flipped, report) = spheres.flipped(&NormalOptions::default());
    println!("spheres: {flipped} {report:?}");
    assert!(flipped < 0.005 && report.parts == 2, "{flipped} {report:?}");
}
#[test]
fn directions_are_checked() {
    let points: Vec<[f32; 3]> = (0..9).map(|i| [i as f32, (i * i) as f32, 0.0]).collect();
    for found in [[0.0; 3], [0.0, f32::NAN, 1.0], [f32::INFINITY, 0.0, 0.0]] {
        let options = NormalOptions::default().with_open_towards(Some(found));
        let error = estimate_normals(&Device::cpu().unwrap(), &points, &options).unwrap_err();
        assert!(matches!(error, NormalError::Direction { .. }), "{error}");
        assert!(error.to_string().contains("expected a finite, nonzero one"), "{error}");
    }
}
