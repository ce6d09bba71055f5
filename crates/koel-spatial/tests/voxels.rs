//! Voxel keys against naive oracles: exact crossings, exact triangle-box overlap, and flood fill.

use std::collections::{BTreeSet, HashMap};

use koel_spatial::sample::{SampleError, for_each_sample, most_samples, sample_cloud};
use koel_spatial::{
    Bounds, BoundsError, Grid, KeyError, Mesh, Order, VoxelError, cloud_keys, mesh_keys, read_mesh,
};
use proptest::collection::vec;
use proptest::prelude::*;

type V = [f64; 3];

fn sub(a: V, b: V) -> V {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn cross(a: V, b: V) -> V {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn dot(a: V, b: V) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn corners(mesh: &Mesh, triangle: [u32; 3]) -> [V; 3] {
    triangle.map(|i| mesh.positions[i as usize].map(f64::from))
}

fn voxels(mesh: &Mesh, grid: &Grid) -> BTreeSet<[u32; 3]> {
    let keys: Vec<u64> = mesh_keys(mesh, grid, Order::RowMajor).unwrap();
    keys.into_iter().map(|k| Order::RowMajor.decode(k)).collect()
}

/// Returns whether the segment crosses the triangle away from its border (Moeller and Trumbore
/// 1997).
fn crosses([a, b, c]: [V; 3], from: V, to: V) -> bool {
    let (direction, e1, e2) = (sub(to, from), sub(b, a), sub(c, a));
    let p = cross(direction, e2);
    let determinant = dot(e1, p);
    if determinant.abs() < 1e-12 {
        return false;
    }
    let s = sub(from, a);
    let q = cross(s, e1);
    let [u, v, t] = [dot(s, p), dot(direction, q), dot(e2, q)].map(|x| x / determinant);
    u > 1e-9 && v > 1e-9 && u + v < 1.0 - 1e-9 && t > 1e-9 && t < 1.0 - 1e-9
}

/// Returns whether a triangle and a slightly enlarged box overlap, by the separating axis theorem.
fn overlaps(triangle: [V; 3], centre: V, half: f64) -> bool {
    let moved = triangle.map(|p| sub(p, centre));
    let edges = [sub(moved[1], moved[0]), sub(moved[2], moved[1]), sub(moved[0], moved[2])];
    let units = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let mut axes = units.to_vec();
    axes.push(cross(edges[0], edges[1]));
    axes.extend(edges.iter().flat_map(|&e| units.map(|u| cross(e, u))));
    axes.into_iter().all(|axis| {
        let reach = half * (1.0 + 1e-6) * axis.iter().map(|c| c.abs()).sum::<f64>();
        let on_axis = moved.map(|p| dot(p, axis));
        let (low, high) = (
            on_axis.iter().copied().fold(f64::MAX, f64::min),
            on_axis.iter().copied().fold(f64::MIN, f64::max),
        );
        low <= reach && high >= -reach
    })
}

/// Asserts that one of any two face neighbours whose centres the surface separates is occupied, and
/// that every occupied voxel is touched by a triangle.
fn assert_tight_and_without_holes(mesh: &Mesh, grid: &Grid) {
    let occupied = voxels(mesh, grid);
    let n = grid.resolution();
    let triangles: Vec<[V; 3]> = mesh.triangles.iter().map(|&t| corners(mesh, t)).collect();
    for x in 0..n {
        for y in 0..n {
            for z in 0..n {
                for axis in 0..3 {
                    let (here, mut there) = ([x, y, z], [x, y, z]);
                    there[axis] += 1;
                    if there[axis] == n || occupied.contains(&here) || occupied.contains(&there) {
                        continue;
                    }
                    let (from, to) = (grid.centre_of(here), grid.centre_of(there));
                    assert!(
                        !triangles.iter().any(|&t| crosses(t, from, to)),
                        "a hole between {here:?} and {there:?}"
                    );
                }
            }
        }
    }
    for &voxel in &occupied {
        let centre = grid.centre_of(voxel);
        assert!(
            triangles.iter().any(|&t| overlaps(t, centre, grid.voxel_size() / 2.0)),
            "{voxel:?} is not touched"
        );
    }
}

/// Halves of a needle overlap: a triangle with two distinct corners must not be covered repeatedly.
#[test]
fn needles_are_sampled_along_their_edge() {
    for (width, radius) in [(0.0, 0.0203), (0.0, 1e-3), (1e-9, 1e-3)] {
        let positions = vec![[0.0; 3], [0.0, width, 0.0], [0.8, 0.0, 0.0]];
        let samples =
            sample_cloud(&Mesh { positions, triangles: vec![[0, 1, 2]] }, radius).unwrap();
        assert!(samples.positions.len() <= (0.8 / radius) as usize, "{}", samples.positions.len());
    }
}

fn triangle_soup() -> impl Strategy<Value = Mesh> {
    let corner = proptest::array::uniform3(prop_oneof![-1.0f32..1.0, Just(0.0f32), Just(0.5)]);
    vec(proptest::array::uniform3(corner), 1..5).prop_map(|triangles| Mesh {
        triangles: (0..triangles.len() as u32).map(|t| [3 * t, 3 * t + 1, 3 * t + 2]).collect(),
        positions: triangles.into_iter().flatten().collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn triangles_have_no_holes(mesh in triangle_soup(), n in 2u32..14) {
        let bounds = Bounds::of(&mesh.positions).unwrap();
        assert_tight_and_without_holes(&mesh, &Grid::enclosing(bounds, n).unwrap());
        assert_tight_and_without_holes(&mesh, &Grid::tight(bounds, n).unwrap());
    }

    #[test]
    fn needles_have_no_holes(
        from in proptest::array::uniform3(-1.0f32..1.0),
        to in proptest::array::uniform3(-1.0f32..1.0),
        width in prop_oneof![Just(0.0f32), 1e-6f32..0.05], n in 4u32..20,
    ) {
        let third = [0, 1, 2]
            .map(|a| 0.3 * from[a] + 0.7 * to[a] + if a == 0 { width } else { 0.0 });
        let mesh = Mesh { positions: vec![from, to, third], triangles: vec![[0, 1, 2]] };
        assert_tight_and_without_holes(
            &mesh,
            &Grid::enclosing(Bounds::of(&mesh.positions).unwrap(), n).unwrap()
        );
    }

    #[test]
    fn samples_cover_and_are_bounded_in_number(
        triangle in proptest::array::uniform3(proptest::array::uniform3(-1.0f32..1.0)),
        squash in prop_oneof![Just(1.0f32), Just(0.0), Just(1e-3)],
        radius in prop_oneof![0.02f64..0.1, 0.1f64..1.0],
    ) {
        let positions: Vec<[f32; 3]> =
            triangle.iter().map(|p| [p[0], p[1] * squash, p[2] * squash]).collect();
        let mesh = Mesh { positions, triangles: vec![[0, 1, 2]] };
        let samples = sample_cloud(&mesh, radius).unwrap();
        let [a, b, c] = corners(&mesh, [0, 1, 2]);
        prop_assert!(samples.positions.len() as f64 <= most_samples([a, b, c], radius));
        let steps = 16;
        for i in 0..=steps {
            for j in 0..=steps - i {
                let (u, v) = (f64::from(i) / f64::from(steps), f64::from(j) / f64::from(steps));
                let p: V = std::array::from_fn(|k| a[k] + u * (b[k] - a[k]) + v * (c[k] - a[k]));
                let squared = |s: &[f32; 3]| { let d = sub(s.map(f64::from), p); dot(d, d) };
                let nearest = samples.positions.iter().map(squared).fold(f64::MAX, f64::min).sqrt();
                prop_assert!(nearest <= radius * (1.0 + 1e-5) + 1e-6, "{} > {}", nearest, radius);
            }
        }
    }

    #[test]
    fn cloud_keys_are_the_distinct_voxels(
        points in vec(proptest::array::uniform3(-5.0f32..5.0), 1..200),
        n in 1u32..200,
    ) {
        let grid = Grid::enclosing(Bounds::of(&points).unwrap(), n).unwrap();
        for order in [Order::RowMajor, Order::Morton] {
            let distinct = |p: &[f32; 3]| grid.voxel_of(p.map(f64::from)).unwrap();
            let naive: BTreeSet<u64> =
                points.iter().map(|p| order.encode(distinct(p)).unwrap()).collect();
            let wide: Vec<u64> = cloud_keys(&points, &grid, order).unwrap();
            prop_assert_eq!(&wide, &naive.into_iter().collect::<Vec<_>>());
            let narrow: Vec<u32> = cloud_keys(&points, &grid, order).unwrap();
            prop_assert!(narrow.is_sorted());
            let voxels = narrow.iter().map(|&k| order.decode(k));
            prop_assert!(voxels.eq(wide.iter().map(|&k| order.decode(k))));
        }
    }
}

#[test]
fn grids_beyond_a_key_or_a_bitmap() {
    let points = [[0.0; 3], [1.0; 3], [0.25, 0.5, 0.75], [1.0; 3]];
    let grid = |n| Grid::tight(Bounds::of(&points).unwrap(), n).unwrap();
    let refused = KeyError::Resolution { resolution: 1025, key_bits: 32, limit: 1024 };
    assert_eq!(
        cloud_keys::<u32>(&points, &grid(1025), Order::Morton),
        Err(VoxelError::Key(refused))
    );
    for n in [1400, 1 << 21] {
        let expected = [[0; 3], [n / 4 - 1, n / 2 - 1, n / 4 * 3 - 1], [n - 1; 3]];
        let keys: Vec<u64> = cloud_keys(&points, &grid(n), Order::RowMajor).unwrap();
        assert_eq!(keys, expected.map(|v| Order::RowMajor.encode::<u64>(v).unwrap()));
    }
}

/// Rotates about the axis (1, 2, 3) by an angle (Rodrigues).
fn rotated(mesh: &Mesh, angle: f64) -> Mesh {
    let axis = [1.0, 2.0, 3.0].map(|c| c / 14f64.sqrt());
    let (sin, cos) = angle.sin_cos();
    let turn = |p: &[f32; 3]| {
        let p = p.map(f64::from);
        let (side, along) = (cross(axis, p), dot(axis, p));
        std::array::from_fn(|i| (p[i] * cos + side[i] * sin + axis[i] * along * (1.0 - cos)) as f32)
    };
    Mesh { positions: mesh.positions.iter().map(turn).collect(), triangles: mesh.triangles.clone() }
}

fn tetrahedron() -> Mesh {
    Mesh {
        positions: vec![[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]],
        triangles: vec![[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]],
    }
}

fn cube() -> Mesh {
    let positions = (0..8).map(|i| [i & 1, i >> 1 & 1, i >> 2 & 1].map(|b| b as f32)).collect();
    let quads =
        [[0, 2, 3, 1], [4, 5, 7, 6], [0, 1, 5, 4], [2, 6, 7, 3], [0, 4, 6, 2], [1, 3, 7, 5]];
    Mesh {
        positions,
        triangles: quads.iter().flat_map(|&[a, b, c, d]| [[a, b, c], [a, c, d]]).collect(),
    }
}

/// Builds a sphere of rings and segments, with needles at the poles.
fn sphere(rings: u32, segments: u32) -> Mesh {
    let mut positions = vec![[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]];
    for ring in 1..rings {
        let polar = std::f64::consts::PI * f64::from(ring) / f64::from(rings);
        for segment in 0..segments {
            let around = std::f64::consts::TAU * f64::from(segment) / f64::from(segments);
            positions.push(
                [polar.sin() * around.cos(), polar.sin() * around.sin(), polar.cos()]
                    .map(|c| c as f32),
            );
        }
    }
    let at = |ring: u32, segment: u32| 2 + (ring - 1) * segments + segment % segments;
    let mut triangles = Vec::new();
    for s in 0..segments {
        triangles.push([0, at(1, s), at(1, s + 1)]);
        triangles.push([1, at(rings - 1, s + 1), at(rings - 1, s)]);
        for r in 1..rings - 1 {
            triangles.push([at(r, s), at(r + 1, s), at(r + 1, s + 1)]);
            triangles.push([at(r, s), at(r + 1, s + 1), at(r, s + 1)]);
        }
    }
    Mesh { positions, triangles }
}

/// Returns the empty voxels that a flood through face neighbours reaches from the corner of the
/// grid.
fn flood(occupied: &BTreeSet<[u32; 3]>, n: u32) -> Vec<bool> {
    let index = |[x, y, z]: [u32; 3]| ((x * n + y) * n + z) as usize;
    let mut reached = vec![false; (n * n * n) as usize];
    let mut todo = vec![[0u32; 3]];
    assert!(!occupied.contains(&[0, 0, 0]));
    reached[0] = true;
    while let Some(voxel) = todo.pop() {
        for axis in 0..3 {
            for step in [1, u32::MAX] {
                let mut next = voxel;
                next[axis] = next[axis].wrapping_add(step);
                if next[axis] < n && !occupied.contains(&next) && !reached[index(next)] {
                    reached[index(next)] = true;
                    todo.push(next);
                }
            }
        }
    }
    reached
}

#[test]
fn flood_from_outside_stays_outside() {
    type Inside = fn(V) -> bool;
    let shapes: [(Mesh, Inside); 3] = [
        (cube(), |p| p.iter().all(|&c| (0.0..=1.0).contains(&c))),
        (tetrahedron(), |[x, y, z]| {
            x + y - z <= 1.0 && x - y + z <= 1.0 && y + z - x <= 1.0 && x + y + z >= -1.0
        }),
        // Inscribed in the unit sphere, and well outside this smaller one.
        (sphere(24, 48), |p| dot(p, p) <= 0.98),
    ];
    for (shape, (mesh, is_inside)) in shapes.iter().enumerate() {
        for (turn, n) in [(0, 16), (1, 17), (2, 32), (3, 41), (4, 50), (5, 24)] {
            let angle = f64::from(turn) * 0.7;
            let mesh_turned = rotated(mesh, angle);
            let grid = Grid::enclosing(Bounds::of(&mesh_turned.positions).unwrap(), n).unwrap();
            let occupied = voxels(&mesh_turned, &grid);
            let reached = flood(&occupied, n);
            let (mut inside, mut wrong) = (0, 0);
            for (i, reached) in reached.into_iter().enumerate() {
                let i = i as u32;
                let voxel = [i / n / n, i / n % n, i % n];
                // Only voxels clear of the surface, since rotation is rounded to f32.
                if occupied.contains(&voxel) {
                    continue;
                }
                let centre = grid.centre_of(voxel).map(|c| c as f32);
                let back = rotated(&Mesh { positions: vec![centre], triangles: vec![] }, -angle)
                    .positions[0];
                if is_inside(back.map(f64::from)) {
                    inside += 1;
                    wrong += usize::from(reached);
                }
            }
            assert!(inside > 0);
            assert_eq!(
                wrong, 0,
                "shape {shape}, turn {turn}, grid {n}: {wrong} of {inside} inner voxels reached"
            );
        }
    }
}

#[test]
fn one_point_and_one_voxel() {
    let point = [[2.0, 3.0, 4.0]];
    let grid = Grid::enclosing(Bounds::of(&point).unwrap(), 1).unwrap();
    assert_eq!(cloud_keys::<u32>(&point, &grid, Order::RowMajor), Ok(vec![0]));
    let mesh = Mesh { positions: point.to_vec(), triangles: vec![[0, 0, 0]] };
    assert_eq!(mesh_keys::<u64>(&mesh, &grid, Order::Morton), Ok(vec![0]));
    let grid = Grid::enclosing(Bounds::of(&point).unwrap(), 1 << 21).unwrap();
    assert_eq!(mesh_keys::<u64>(&mesh, &grid, Order::RowMajor).unwrap().len(), 1);
}

#[test]
fn nothing_gives_no_keys() {
    let grid = Grid::new([0.0; 3], 1.0, 8).unwrap();
    assert_eq!(cloud_keys::<u32>(&[], &grid, Order::RowMajor), Ok(vec![]));
    assert_eq!(mesh_keys::<u32>(&Mesh::default(), &grid, Order::RowMajor), Ok(vec![]));
    assert_eq!(Bounds::of(&[]), Err(BoundsError::NoPoints));
    assert_eq!(sample_cloud(&Mesh::default(), 1.0).unwrap().positions, [[0f32; 3]; 0]);
}

#[test]
fn bad_meshes_are_refused_by_name() {
    let grid = Grid::new([0.0; 3], 1.0, 8).unwrap();
    let keys =
        |mesh: &Mesh| mesh_keys::<u32>(mesh, &grid, Order::RowMajor).unwrap_err().to_string();
    let mut mesh = Mesh {
        positions: vec![[1.0; 3], [2.0; 3], [3.0, 1.0, 1.0]],
        triangles: vec![[0, 1, 2], [0, 1, 3]],
    };
    assert_eq!(keys(&mesh), "triangle 1: index 3, but there are 3 vertices");
    mesh.triangles.pop();
    mesh.positions[2][1] = f32::NAN;
    assert_eq!(keys(&mesh), "vertex 2: y is NaN, expected a finite number");
    assert_eq!(
        sample_cloud(&mesh, 1.0).unwrap_err().to_string(),
        "vertex 2: y is NaN, expected a finite number"
    );
    mesh.positions[2][1] = 8.0;
    assert_eq!(
        keys(&mesh),
        "vertex 2 at [3.0, 8.0, 1.0] lies outside the grid of side 8 at [0.0, 0.0, 0.0]"
    );
}

#[test]
fn a_hopeless_request_is_refused_at_once() {
    let mesh = Mesh {
        positions: vec![[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
        triangles: vec![[0, 1, 2]; 4],
    };
    let grid = Grid::tight(Bounds::of(&mesh.positions).unwrap(), 1 << 21).unwrap();
    let error = mesh_keys::<u64>(&mesh, &grid, Order::RowMajor).unwrap_err();
    assert!(
        matches!(error, VoxelError::Sample(SampleError::TooMany { samples }) if samples > 1e13),
        "{error}"
    );
    for radius in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(sample_cloud(&mesh, radius), Err(SampleError::Radius { .. })));
    }
    assert!(matches!(sample_cloud(&mesh, 1e-300), Err(SampleError::TooMany { .. })));
}

#[test]
fn any_number_of_threads_gives_the_same() {
    let mesh = sphere(8, 12);
    let bounds = Bounds::of(&mesh.positions).unwrap();
    let fine = Grid::enclosing(bounds, 1400).unwrap();
    let coarse = Grid::enclosing(bounds, 90).unwrap();
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let cloud = sample_cloud(&mesh, 0.02).unwrap();
            let coarse = mesh_keys::<u32>(&mesh, &coarse, Order::Morton).unwrap();
            (cloud, coarse, cloud_keys::<u64>(&mesh.positions, &fine, Order::Morton).unwrap())
        })
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn normals_are_those_of_the_faces() {
    let mut mesh = cube();
    mesh.positions.push([0.0; 3]);
    mesh.triangles = vec![mesh.triangles[4], [8, 8, 8]];
    let cloud = sample_cloud(&mesh, 0.2).unwrap();
    let normals = cloud.normals.unwrap();
    let (last, rest) = normals.split_last().unwrap();
    assert_eq!(*last, [0.0; 3]);
    assert!(!rest.is_empty() && rest.iter().all(|&n| n == [0.0, -1.0, 0.0]), "{rest:?}");
    let visited = std::sync::Mutex::new(Vec::new());
    for_each_sample(&mesh, 0.2, |triangle, p| {
        visited.lock().unwrap().push((triangle, p.map(|c| c as f32)))
    })
    .unwrap();
    let mut visited = visited.into_inner().unwrap();
    visited.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let mut expected: Vec<_> = cloud.positions.iter().map(|&p| (0, p)).collect();
    expected.last_mut().unwrap().0 = 1;
    expected.sort_by(|a, b| a.partial_cmp(b).unwrap());
    assert_eq!(visited, expected);
}

#[test]
fn the_cortex_of_the_assets_is_closed_and_folded() {
    let mesh =
        read_mesh(concat!(env!("CARGO_MANIFEST_DIR"), "/../koel-cli/assets/cortex.ply")).unwrap();
    assert_eq!((mesh.positions.len(), mesh.triangles.len()), (47_732, 96_000));
    let mut faces_at_edge = HashMap::new();
    for [a, b, c] in &mesh.triangles {
        for (from, to) in [(a, b), (b, c), (c, a)] {
            *faces_at_edge.entry((from.min(to), from.max(to))).or_insert(0) += 1;
        }
    }
    assert!(faces_at_edge.values().all(|faces| faces % 2 == 0));
    let grid = Grid::tight(Bounds::of(&mesh.positions).unwrap(), 128).unwrap();
    let keys: Vec<u32> = mesh_keys(&mesh, &grid, Order::RowMajor).unwrap();
    assert_eq!(keys.len(), 108_715);
}
