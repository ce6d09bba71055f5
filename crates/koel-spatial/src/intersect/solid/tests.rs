use super::*;
use std::collections::HashMap;

/// Asserts that every edge belongs to two triangles of opposite direction, and that the triangles
/// around a vertex are one fan.
fn assert_manifold(mesh: &Mesh) {
    let mut edges = HashMap::new();
    let mut fans: HashMap<u32, HashMap<u32, u32>> = HashMap::new();
    for t in &mesh.triangles {
        for i in 0..3 {
            let (a, b, c) = (t[i], t[(i + 1) % 3], t[(i + 2) % 3]);
            let edge = edges.entry((a.min(b), a.max(b))).or_insert([0, 0]);
            edge[usize::from(a < b)] += 1;
            fans.entry(a).or_default().insert(b, c);
        }
    }
    assert!(edges.values().all(|&e| e == [1, 1]), "an edge is not shared by two triangles");
    for (vertex, fan) in fans {
        let first = *fan.keys().next().unwrap();
        let (mut at, mut steps) = (first, 0);
        loop {
            (at, steps) = (fan[&at], steps + 1);
            if at == first {
                break;
            }
        }
        assert_eq!(steps, fan.len(), "vertex {vertex} has several fans");
    }
}
fn volume(mesh: &Mesh) -> f64 {
    let p = |i: u32| mesh.positions[i as usize].map(f64::from);
    let six = |t: &[u32; 3]| {
        let [a, b, c] = t.map(p);
        a[0] * (b[1] * c[2] - b[2] * c[1])
            + a[1] * (b[2] * c[0] - b[0] * c[2])
            + a[2] * (b[0] * c[1] - b[1] * c[0])
    };
    mesh.triangles.iter().map(six).sum::<f64>() / 6.0
}
/// Fills voxels at random.
fn random_solids(n: u32, share: u64, state: &mut u64) -> Solids {
    let mut solid = Rows::empty(n);
    let mut words = vec![0; 1 << 16];
    for x in 0..n {
        for y in 0..n.min(9) {
            for z in 0..n {
                *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                if *state >> 33 & 15 < share {
                    let spread = koel_spatial_kernels::intersect::layout::spread;
                    let key = spread(x) << 2 | spread(y) << 1 | spread(z);
                    words[(key >> 5) as usize] |= 1u32 << (key & 31);
                }
            }
        }
    }
    solid.fill(&words);
    let nothing = || Pieces::new(7, vec![]);
    Solids {
        grid: Grid::new([0.0; 3], 1.0, n).unwrap(),
        device: Device::cpu_with_threads(2).unwrap(),
        solids: [solid, Rows::empty(n)],
        surfaces: [nothing(), nothing()],
        thin: Default::default(),
    }
}

/// Bits of a bitmap in key order are the voxels of their keys, except beyond the grid.
#[test]
fn voxels_are_those_of_their_keys() {
    let mut state = 3u64;
    for n in [1u32, 7, 8, 30, 64, 70] {
        let side = n.next_power_of_two().max(8);
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 32) as u32
        };
        let words = (0..side.pow(3) / 32).map(|_| random() & random()).collect::<Vec<u32>>();
        let mut solid = Rows::empty(n);
        solid.fill(&words);
        for key in 0..side.pow(3) {
            let voxel = koel_spatial_kernels::intersect::layout::cell_of(key);
            let is_set = words[key as usize / 32] >> (key % 32) & 1 != 0;
            let expected = is_set && voxel.iter().all(|&c| c < n);
            assert_eq!(solid.is_inside(voxel.map(|c| c as i32)), expected, "{n}: {voxel:?}");
        }
    }
}
#[test]
fn surfaces_of_random_voxels_are_manifold_and_outward() {
    let mut state = 7u64;
    for (n, shares) in [(3u32, &[2, 5, 9][..]), (9, &[2, 5, 9]), (70, &[3])] {
        for &share in shares {
            let solids = random_solids(n, share, &mut state);
            let made = solids.mesh(Boolean::Union);
            assert_manifold(&made.mesh);
            let filled = solids.volume(Boolean::Union) + made.filled as f64;
            assert!((volume(&made.mesh) - filled).abs() < 1e-6 * filled);

            let smooth = solids.smooth_mesh(Boolean::Union);
            assert_manifold(&smooth.mesh);
            assert!(volume(&smooth.mesh) > 0.0);
            let vertices = |t: &[u32; 3]| t.map(|v| smooth.mesh.positions[v as usize]);
            for [a, b, c] in smooth.mesh.triangles.iter().map(vertices) {
                assert!(a != b && b != c && c != a);
            }
            let length = |n: &[f32; 3]| n.iter().map(|c| c * c).sum::<f32>().sqrt();
            let normals = smooth.normals.unwrap();
            assert!(normals.iter().all(|n| (length(n) - 1.0).abs() < 1e-5));
        }
    }
}
