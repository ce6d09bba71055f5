//! Neighbour search against all pairs and against a kd-tree, on every device of the host.

use std::num::NonZero;

use kiddo::{ImmutableKdTree, SquaredEuclidean};
use koel::{Device, DeviceKind};
use koel_spatial::{SearchError, SpatialHash};
use proptest::collection::vec;
use proptest::prelude::*;

type Point = [f32; 3];

fn devices() -> Vec<Device> {
    let host = [
        Device::cpu().unwrap(),
        Device::cpu_with_threads(1).unwrap(),
        Device::executor(1),
        Device::executor(2),
    ];
    host.into_iter().chain(Device::cuda(0).ok()).collect()
}

fn squared_distance(a: Point, b: Point) -> f64 {
    let d: [f64; 3] = std::array::from_fn(|i| f64::from(a[i]) - f64::from(b[i]));
    d[0] * d[0] + d[1] * d[1] + d[2] * d[2]
}

/// Compares all pairs, in the documented order: cells by x, y, z, then indices.
fn within(points: &[Point], q: Point, radius: f64, size: f64) -> Vec<u32> {
    let least = |a: usize| points.iter().map(|p| f64::from(p[a])).fold(f64::INFINITY, f64::min);
    let origin: [f64; 3] = std::array::from_fn(least);
    let cell = |p: Point| -> [u64; 3] {
        std::array::from_fn(|a| ((f64::from(p[a]) - origin[a]) * (1.0 / size)).floor() as u64)
    };
    let mut found: Vec<u32> = (0..points.len() as u32)
        .filter(|&i| squared_distance(points[i as usize], q) <= radius * radius)
        .collect();
    found.sort_by_key(|&i| (cell(points[i as usize]), i));
    found
}

fn nearest(points: &[Point], q: Point, k: usize) -> (Vec<u32>, Vec<f64>) {
    let mut all: Vec<(f64, u32)> =
        points.iter().zip(0..).map(|(&p, i)| (squared_distance(p, q), i)).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.truncate(k);
    all.into_iter().map(|(d, i)| (i, d)).unzip()
}

fn check(device: &Device, points: &[Point], queries: &[Point], size: f64, radius: f64, k: usize) {
    let place = format!(
        "{} points, cells of {size}, radius {radius}, k {k}, {}",
        points.len(),
        device.name()
    );
    let hash = SpatialHash::build(device, points, size).unwrap();
    assert_eq!(hash.len(), points.len());
    let near = hash.within(queries, radius).unwrap();
    let best = hash.nearest(queries, k).unwrap();
    assert_eq!((near.len(), best.k()), (queries.len(), k.min(points.len())));
    for (i, &q) in queries.iter().enumerate() {
        assert_eq!(near.of(i), within(points, q, radius, size), "query {i} at {q:?}: {place}");
        let (indices, distances) = nearest(points, q, k);
        assert_eq!(best.of(i), indices, "query {i} at {q:?}: {place}");
        assert_eq!(best.squared_distances_of(i), distances, "query {i} at {q:?}: {place}");
    }
}

/// Random numbers.
struct Random(u64);
impl Random {
    fn unit(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 40) as f32 / (1 << 24) as f32
    }
    fn point(&mut self) -> Point {
        std::array::from_fn(|_| self.unit())
    }
    fn points(&mut self, n: usize) -> Vec<Point> {
        (0..n).map(|_| self.point()).collect()
    }
}

#[test]
fn all_sizes_of_cells_and_radii() {
    for device in devices() {
        let fast = device.kind() != DeviceKind::Executor;
        let n = if fast { 700 } else { 120 };
        let points = Random(3).points(n);
        let mut queries = Random(4).points(if fast { 60 } else { 12 });
        queries.extend([
            [-0.2, 0.5, 0.5],
            [0.5, 1.3, 0.5],
            [3.0, -2.0, 9.0],
            points[5],
            [-1e30, 1e30, 0.0],
        ]);
        for (size, radius, k) in
            [(0.1, 0.1, 8), (0.01, 0.2, 1), (0.3, 0.05, 40), (5.0, 0.3, 3), (1e-6, 0.1, 5)]
        {
            check(&device, &points, &queries, size, radius, k);
        }
    }
}

/// Point sets other than a filled box.
#[test]
fn degenerate_points() {
    let line = (0..90).map(|i| [i as f32 * 0.1, 2.0, -7.0]).collect::<Vec<_>>();
    let diagonal = (0..90).map(|i| [i as f32 * 0.1 - 5.0; 3]).collect::<Vec<_>>();
    let plane = (0..144).map(|i| [-4.0, (i % 12) as f32, (i / 12) as f32]).collect::<Vec<_>>();
    let huge = (0..60)
        .map(|i| [i as f32 * 1e36 - 3e37, 1e38, -1e38 + i as f32 * 1e36])
        .collect::<Vec<_>>();
    let tiny = (0..60).map(|i| [i as f32 * 1e-40, 0.0, -1e-40]).collect::<Vec<_>>();
    let far = (0..60).map(|i| [1e7 + i as f32, -1e7, 1e7]).collect::<Vec<_>>();
    // Two clusters and a lone point: k-nearest must cross the gap.
    let mut gaps = Random(9).points(50);
    gaps.extend(Random(10).points(30).iter().map(|p| p.map(|c| c + 1000.0)));
    gaps.push([-500.0, 300.0, 100.0]);
    let sets: [(&[Point], f64, f64); 11] = [
        (&[[1.0, 2.0, 3.0]], 1.0, 0.0),
        (&[[-1.0, -2.0, -3.0]; 100], 0.5, 0.0),
        (&[[-1.0, -2.0, -3.0]; 100], 0.5, 0.3),
        (&line, 0.1, 0.1),
        (&diagonal, 0.25, 0.5),
        (&plane, 1.0, 1.0),
        (&huge, 1e36, 3e36),
        (&tiny, 1e-40, 1e-39),
        (&far, 1.0, 2.0),
        (&gaps, 0.2, 0.3),
        (&gaps, 0.001, 2000.0),
    ];
    for device in devices() {
        for (points, size, radius) in sets {
            let some = if device.kind() == DeviceKind::Executor { 9 } else { 1 };
            let mut queries: Vec<Point> = points.iter().copied().step_by(some).collect();
            queries.push([0.0; 3]);
            // On the faces between cells, with neighbours at exactly the radius.
            queries.extend(
                points.iter().step_by(7 * some).map(|p| [p[0] + radius as f32, p[1], p[2]]),
            );
            queries.retain(|q| q.iter().all(|c| c.is_finite()));
            check(&device, points, &queries, size, radius, 7);
            check(&device, points, &queries[..1], size, 0.0, points.len() + 3);
        }
    }
}

/// The distance from a point just before a face rounds to the radius, and the face is one radius
/// away.
#[test]
fn distances_that_round() {
    let before_one = 1.0 - 1.0 / (1 << 24) as f32;
    let (far, radius) = ((1 << 30) as f32, f64::from((1 << 30) - 1));
    let points = [[0.0; 3], [before_one, 0.0, 0.0]];
    assert_eq!(within(&points, [far, 0.0, 0.0], radius, 1.0), [1]);
    for device in devices() {
        check(&device, &points, &[[far, 0.0, 0.0], [-far, 0.0, 0.0]], 1.0, radius, 1);
    }
}

/// Grids of more than 2^32 cells, which are identified by hashes of their numbers.
#[test]
fn wide_grids() {
    for device in devices() {
        let fast = device.kind() != DeviceKind::Executor;
        let points: Vec<Point> = Random(5)
            .points(if fast { 3000 } else { 200 })
            .iter()
            .map(|p| p.map(|c| 2000.0 * c))
            .collect();
        let queries: Vec<Point> = points.iter().copied().step_by(17).collect();
        let hash = SpatialHash::build(&device, &points, 0.01).unwrap();
        assert!(hash.cells().iter().all(|&c| c > 190_000));
        check(&device, &points, &queries, 0.01, 60.0, 4);
        check(&device, &points, &queries, 1.0, 2.5, 4);
    }
    // Enough cells for some names to collide.
    let points: Vec<Point> =
        Random(6).points(200_000).iter().map(|p| p.map(|c| 4000.0 * c)).collect();
    let hash = SpatialHash::build(&Device::cpu().unwrap(), &points, 1.0).unwrap();
    assert!(hash.occupied_cells() > 190_000);
    let near = hash.within(&points, 0.0).unwrap();
    assert!((0..points.len()).all(|i| near.of(i).contains(&(i as u32))), "a cell is not found");
}

#[test]
fn agrees_with_a_kd_tree() {
    let points: Vec<[f64; 3]> = Random(7).points(30_000).iter().map(|p| p.map(f64::from)).collect();
    let narrow: Vec<Point> = points.iter().map(|p| p.map(|c| c as f32)).collect();
    let tree: ImmutableKdTree<f64, 3> = ImmutableKdTree::new_from_slice(&points).unwrap();
    let hash = SpatialHash::build(&Device::cpu().unwrap(), &narrow, 0.03).unwrap();
    let (near, best) = (hash.within(&narrow, 0.04).unwrap(), hash.nearest(&narrow, 10).unwrap());
    for i in (0..points.len()).step_by(11) {
        let theirs = tree
            .query(&points[i])
            .nearest_n::<SquaredEuclidean<f64>>(NonZero::new(10).unwrap())
            .execute();
        let distances: Vec<f64> = theirs.iter().map(|n| n.distance).collect();
        for (ours, theirs) in best.squared_distances_of(i).iter().zip(distances) {
            assert!((ours - theirs).abs() <= 1e-15, "query {i}");
        }
        let mut theirs: Vec<u32> = tree
            .query(&points[i])
            .within::<SquaredEuclidean<f64>>(0.04 * 0.04)
            .execute()
            .into_iter()
            .map(|n| n.item)
            .collect();
        let mut ours = near.of(i).to_vec();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "query {i}");
    }
}

#[test]
fn device_buffers_and_every_device_agree() {
    let points = Random(8).points(150);
    let coordinates: &[u32] = bytemuck::cast_slice(&points);
    let answers: Vec<_> = devices()
        .iter()
        .map(|device| {
            let stream = device.stream().unwrap();
            let buffer = device.upload(coordinates).unwrap();
            let hash = SpatialHash::build_on(&stream, buffer.view(), 0.2).unwrap();
            let (offsets, indices) = hash.within_on(&stream, buffer.view(), 0.25).unwrap();
            let (mut ids, mut distances) = (device.alloc(450).unwrap(), device.alloc(450).unwrap());
            hash.nearest_into(&stream, buffer.view(), 3, ids.view_mut(), distances.view_mut())
                .unwrap();
            // Output too small: it holds the same prefix, and nothing is written beyond it.
            let mut few = device.alloc(indices.len() / 2).unwrap();
            hash.list_within_into(&stream, buffer.view(), 0.25, offsets.view(), few.view_mut())
                .unwrap();
            let indices = indices.download().unwrap();
            assert_eq!(few.download().unwrap(), indices[..indices.len() / 2]);
            (
                offsets.download().unwrap(),
                indices,
                ids.download().unwrap(),
                distances.download().unwrap(),
            )
        })
        .collect();
    assert!(answers.iter().all(|a| *a == answers[0]));
}

#[test]
fn queries_on_the_device_that_are_not_finite_find_nothing() {
    for device in devices() {
        let hash = SpatialHash::build(&device, &[[0.0; 3], [1.0; 3]], 1.0).unwrap();
        let stream = device.stream().unwrap();
        let queries =
            [[f32::NAN, 0.0, 0.0], [0.0, f32::INFINITY, 0.0], [0.0, 0.0, f32::NEG_INFINITY]];
        let buffer = device.upload::<u32>(bytemuck::cast_slice(&queries)).unwrap();
        let (offsets, _) = hash.within_on(&stream, buffer.view(), 1e30).unwrap();
        assert_eq!(offsets.download().unwrap(), [0; 4]);
        let (mut ids, mut distances) = (device.alloc(6).unwrap(), device.alloc(6).unwrap());
        hash.nearest_into(&stream, buffer.view(), 2, ids.view_mut(), distances.view_mut()).unwrap();
        assert_eq!(ids.download().unwrap(), [u32::MAX; 6]);
        assert_eq!(distances.download().unwrap(), [f64::INFINITY.to_bits(); 6]);
    }
}

#[test]
fn no_points_and_no_queries() {
    for device in devices() {
        let hash = SpatialHash::build(&device, &[], 1.0).unwrap();
        assert!(hash.is_empty() && hash.occupied_cells() == 0);
        let near = hash.within(&[[0.0; 3]; 5], 1.0).unwrap();
        assert_eq!((near.len(), near.total()), (5, 0));
        assert_eq!(hash.nearest(&[[0.0; 3]; 5], 4).unwrap().k(), 0);
        let hash = SpatialHash::build(&device, &[[0.0; 3]], 1.0).unwrap();
        assert!(hash.within(&[], 1.0).unwrap().is_empty());
        assert!(hash.nearest(&[], 3).unwrap().indices().is_empty());
        assert!(hash.nearest(&[[0.0; 3]], 0).unwrap().of(0).is_empty());
    }
}

#[test]
fn faults_are_named() {
    let device = Device::cpu().unwrap();
    let built = |points: &[Point], size| {
        SpatialHash::build(&device, points, size).map(|_| ()).unwrap_err().to_string()
    };
    for (bad, text) in
        [(f32::NAN, "NaN"), (-f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")]
    {
        let expected = format!("point 1: y is {text}, expected a finite number");
        assert_eq!(built(&[[0.0; 3], [0.0, bad, 0.0]], 1.0), expected);
    }
    for size in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-310] {
        assert!(built(&[], size).starts_with("cell size "), "{size}");
    }
    let far = [[-3e38; 3], [3e38; 3]];
    assert!(
        built(&far, 1.0).starts_with("cells of size 1 make a grid of 6"),
        "{}",
        built(&far, 1.0)
    );
    assert!(
        built(&[[0.0; 3], [4e6; 3]], 1.0)
            .contains("expected at most 2^32 - 1 per axis and 2^63 in total")
    );
    let hash = SpatialHash::build(&device, &[[0.0; 3], [2e6; 3]], 1.0).unwrap();
    assert_eq!(hash.cells(), [2_000_001; 3]);
    for radius in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(hash.within(&[], radius), Err(SearchError::Radius { .. })));
    }
    let error = hash.nearest(&[[0.0; 3], [0.0, 0.0, f32::NAN]], 1).unwrap_err();
    assert_eq!(error.to_string(), "query 1: z is NaN, expected a finite number");
    let (stream, five) = (device.stream().unwrap(), device.alloc(5).unwrap());
    let error = SpatialHash::build_on(&stream, five.view(), 1.0).unwrap_err();
    assert_eq!(error.to_string(), "5 coordinates, expected three for each point");
    let error = hash.count_within_into(
        &stream,
        five.view().slice(..3).unwrap(),
        1.0,
        device.alloc(2).unwrap().view_mut(),
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "`counts` holds 2 elements, but `the queries` needs 1"
    );
}

fn coordinates() -> impl Strategy<Value = f32> {
    // Few distinct values, so that points coincide, are collinear, and lie on faces of cells.
    prop_oneof![(-6i32..6).prop_map(|i| i as f32 * 0.5), -3.0f32..3.0, -1e4f32..1e4]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn agrees_with_all_pairs(
        points in vec(proptest::array::uniform3(coordinates()), 1..80),
        queries in vec(proptest::array::uniform3(coordinates()), 1..8),
        size in prop_oneof![Just(0.5), 0.01..4.0f64, Just(1e5)],
        radius in prop_oneof![Just(0.0), Just(0.5), Just(1.0), 0.0..6.0f64, Just(3e4)],
        k in 1usize..12,
        seed in any::<u64>(),
    ) {
        check(&Device::cpu().unwrap(), &points, &queries, size, radius, k);
        check(&Device::executor(seed), &points, &queries[..1], size, radius, k);
    }
}
