//! Estimates normals of a scan's points and, if the scan is a mesh, compares them with the mesh's
//! own: `cargo run --release -p koel-spatial --example normals -- assets/cortex.ply [NEIGHBOURS, 16
//! by default]`

use std::error::Error;
use std::time::Instant;

use koel::Device;
use koel_spatial::{NormalOptions, estimate_normals, read};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: normals SCAN [NEIGHBOURS]")?;
    let neighbours = args.next().map_or(Ok(NormalOptions::default().neighbours), |n| n.parse())?;
    let scan = read(path)?;
    let positions = &scan.points.positions;
    let start = Instant::now();
    let options = NormalOptions::default().with_neighbours(neighbours);
    let estimate = estimate_normals(&Device::best()?, positions, &options)?;
    println!("{} points in {:.0?}: {:?}", positions.len(), start.elapsed(), estimate.report);
    if scan.is_mesh() {
        let truth = vertex_normals(positions, &scan.triangles);
        let cosines: Vec<f64> =
            truth.iter().zip(&estimate.normals).map(|(&t, &e)| dot(t, e.map(f64::from))).collect();
        let share = |test: &dyn Fn(f64) -> bool| {
            100.0 * cosines.iter().filter(|&&c| test(c)).count() as f64 / cosines.len() as f64
        };
        println!("on the mesh's side: {:.2} %", share(&|c| c > 0.0));
        println!(
            "within 30 degrees of the mesh's normal, ignoring the sign: {:.2} %",
            share(&|c| c.abs() > 0.866)
        );
    }
    Ok(())
}

/// Returns the area-weighted means of the adjoining triangles' normals.
fn vertex_normals(positions: &[[f32; 3]], triangles: &[[u32; 3]]) -> Vec<[f64; 3]> {
    let mut sums = vec![[0.0; 3]; positions.len()];
    for triangle in triangles {
        let [a, b, c] = triangle.map(|i| positions[i as usize].map(f64::from));
        let (u, v): ([f64; 3], [f64; 3]) =
            (std::array::from_fn(|i| b[i] - a[i]), std::array::from_fn(|i| c[i] - a[i]));
        let normal =
            [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
        for &i in triangle {
            (0..3).for_each(|axis| sums[i as usize][axis] += normal[axis]);
        }
    }
    sums.into_iter().map(|s| s.map(|c| c / dot(s, s).sqrt().max(f64::MIN_POSITIVE))).collect()
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}
