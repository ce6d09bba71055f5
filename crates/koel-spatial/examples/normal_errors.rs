//! Errors of estimated normals against true ones, of solids in closed form or of closed meshes given
//! as files, each with several strengths of noise. `cargo run --release -p koel-spatial --example
//! normal_errors -- POINTS [--write FOLDER] [--only PART_OF_NAME] [MESH...]`
//!
//! Prints one line of JSON per cloud. With `--write`, also writes each cloud with its true normals
//! (PLY), for other programs to be measured by `tools/truth/normals.py`.

mod measured;
#[path = "../tests/intersect_scenes/mod.rs"]
mod scenes;

use koel::Device;
use koel_spatial::intersect::{Boolean, Intersector, Method, Pose, RobustOptions};
use koel_spatial::{
    Bounds, Grid, Mesh, NormalOptions, PointCloud, SearchError, SpatialHash, estimate_normals,
    mesh_orientation, read_mesh,
};
use measured::{cpu_seconds, write_ply};
use scenes::{Random, Scan, Shape, V, dot, scan};
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

/// Standard deviations of the noise of each coordinate, as shares of the object's length.
const NOISES: [f64; 4] = [0.0, 0.001, 0.002, 0.004];
/// Voxels per side for volumes.
const GRID: u32 = 128;

/// What is sampled.
enum Solid {
    /// Shapes, each moved; and the volume of all.
    Shapes(Vec<(Shape, V)>),
    /// A closed mesh.
    Mesh(Mesh),
}
struct Case {
    name: String,
    solid: Solid,
    /// Errors of the scanner other than noise.
    scan: Scan,
}

/// A cloud of length 1, its true normals (zero for outliers), and its volume.
struct Cloud {
    positions: Vec<[f32; 3]>,
    truth: Vec<[f32; 3]>,
    volume: f64,
}

fn cases(meshes: &[PathBuf]) -> Result<Vec<Case>, Box<dyn Error>> {
    let one = |name: &str, shape: Shape, scan: Scan| Case {
        name: name.into(),
        solid: Solid::Shapes(vec![(shape, [0.0; 3])]),
        scan,
    };
    let (sphere, torus) = (Shape::Sphere(0.5), Shape::Torus { major: 0.35, minor: 0.15 });
    let clean = Scan::default();
    let shapes = vec![
        one("sphere", sphere, clean),
        one("torus", torus, clean),
        one("box", Shape::Plate([0.5, 0.4, 0.3]), clean),
        one("plate of 4 %", Shape::Plate([0.5, 0.4, 0.02]), clean),
        one("hollow", Shape::Hollow { outer: 0.5, inner: 0.3 }, clean),
        Case {
            name: "touching".into(),
            solid: Solid::Shapes(vec![
                (Shape::Sphere(0.25), [-0.25, 0.0, 0.0]),
                (Shape::Sphere(0.25), [0.25, 0.0, 0.0]),
            ]),
            scan: clean,
        },
        one("torus, 10 x density", torus, Scan { density: 10.0, ..clean }),
        one("torus, 1 % outliers", torus, Scan { outliers: 0.01, ..clean }),
    ];
    if meshes.is_empty() {
        return Ok(shapes);
    }
    let of_file = |path: &PathBuf| {
        let solid = Solid::Mesh(read_mesh(path)?);
        let name = path.file_stem().map(|n| n.display().to_string()).unwrap_or_default();
        Ok(Case { name, solid, scan: clean })
    };
    meshes.iter().map(of_file).collect()
}

impl Case {
    /// Samples about `n` points.
    fn sample(&self, n: usize, noise: f64) -> Cloud {
        let mut random = Random(7);
        match &self.solid {
            Solid::Mesh(mesh) => of_mesh(mesh, n, noise, &mut random),
            Solid::Shapes(shapes) => {
                let mut cloud = Cloud { positions: vec![], truth: vec![], volume: 0.0 };
                let scanner = Scan { noise, ..self.scan };
                for &(shape, at) in shapes {
                    let found = scan(shape, n / shapes.len(), scanner, 1.0, &mut random);
                    // Turned, so that no face is parallel to the grid's.
                    let pose = Pose::turned([1.0, 2.0, 3.0], 0.7, [0.0; 3], at);
                    let turned = Pose { translation: [0.0; 3], ..pose };
                    let apply =
                        |pose: &Pose, v: &[f32; 3]| pose.apply(v.map(f64::from)).map(|c| c as f32);
                    let positions = found.cloud.positions.iter();
                    cloud.positions.extend(positions.map(|p| apply(&pose, p)));
                    let normals = found.cloud.normals.iter().flatten().zip(&found.truth);
                    cloud.truth.extend(normals.map(|(n, on)| match on {
                        Some(_) => apply(&turned, n),
                        None => [0.0; 3],
                    }));
                    cloud.volume += shape.volume();
                }
                cloud
            }
        }
    }
}
/// Samples a mesh evenly, scaled to length 1.
fn of_mesh(mesh: &Mesh, n: usize, noise: f64, random: &mut Random) -> Cloud {
    let wide = |i: u32| mesh.positions[i as usize].map(f64::from);
    let normals: Vec<V> = (mesh.triangles.iter())
        .map(|&[a, b, c]| {
            let [a, b, c] = [a, b, c].map(wide);
            let (u, v): (V, V) =
                (std::array::from_fn(|i| b[i] - a[i]), std::array::from_fn(|i| c[i] - a[i]));
            [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
        })
        .collect();
    let mut sum = 0.0;
    let sums: Vec<f64> = (normals.iter())
        .map(|n| {
            sum += dot(*n, *n).sqrt();
            sum
        })
        .collect();
    let (mut least, mut most) = ([f32::MAX; 3], [f32::MIN; 3]);
    for p in &mesh.positions {
        (0..3).for_each(|a| (least[a], most[a]) = (least[a].min(p[a]), most[a].max(p[a])));
    }
    let length = (0..3).map(|a| f64::from(most[a] - least[a])).fold(0.0, f64::max);
    let (mut positions, mut truth) = (vec![], vec![]);
    for _ in 0..n {
        let at = random.unit() * sum;
        let face = sums.partition_point(|&s| s <= at).min(sums.len() - 1);
        let [a, b, c] = mesh.triangles[face].map(wide);
        let (root, v) = (random.unit().sqrt(), random.unit());
        positions.push(std::array::from_fn(|i| {
            let on = a[i] * (1.0 - root) + b[i] * root * (1.0 - v) + c[i] * root * v;
            (on / length + noise * random.normal()) as f32
        }));
        let size = dot(normals[face], normals[face]).sqrt();
        truth.push(normals[face].map(|c| (c / size) as f32));
    }
    let volume = mesh_orientation(mesh).volume / length.powi(3);
    let sign = if volume < 0.0 { -1.0 } else { 1.0 };
    truth.iter_mut().flatten().for_each(|c| *c *= sign);
    Cloud { positions, truth, volume: volume.abs() }
}

/// Returns the volume that `koel intersect` finds for a cloud.
fn volume(device: &Device, cloud: &PointCloud) -> Result<f64, Box<dyn Error>> {
    let (bounds, _) = Bounds::without_outliers(&cloud.positions)?;
    let grid = Grid::enclosing(bounds, GRID)?;
    let method = Method::Robust(RobustOptions::default().with_assume_closed(true));
    let mut intersector = Intersector::new(device, cloud, cloud, grid, method)?;
    intersector.frame(&Pose::IDENTITY, &Pose::IDENTITY)?;
    Ok(intersector.solids()?.volume(Boolean::Union))
}

/// Returns the share of points whose nearest place on the true surface, among all samples of it,
/// faces away from the true normal: noise has moved them closer to another sheet. `exact` is the
/// same cloud without noise.
fn flipped_at_best(device: &Device, cloud: &Cloud, exact: &Cloud) -> Result<f64, SearchError> {
    /// Cells for one neighbour would be too small for points that noise has moved.
    const CELLS_FOR: usize = 16;
    let hash = SpatialHash::build_for_nearest(device, &exact.positions, CELLS_FOR)?;
    let nearest = hash.nearest(&cloud.positions, 1)?;
    let is_flipped = |&(truth, &at): &(&[f32; 3], &u32)| {
        (0..3).map(|a| truth[a] * exact.truth[at as usize][a]).sum::<f32>() < 0.0
    };
    let flipped = exact.truth.iter().zip(nearest.indices()).filter(is_flipped).count();
    Ok(flipped as f64 / exact.truth.len() as f64)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut folder, mut only, mut rest) = (None, String::new(), vec![]);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--write" => folder = args.next().map(PathBuf::from),
            "--only" => only = args.next().unwrap_or_default(),
            _ => rest.push(arg),
        }
    }
    let points = rest.first().map_or(Ok(160_000), |n| n.parse())?;
    let meshes: Vec<PathBuf> = rest.iter().skip(1).map(PathBuf::from).collect();
    let device = Device::cpu()?;
    for case in cases(&meshes)?.iter().filter(|case| case.name.contains(&only)) {
        for noise in NOISES {
            let cloud = case.sample(points, noise);
            let at_best = flipped_at_best(&device, &cloud, &case.sample(points, 0.0))?;
            let (start, busy) = (Instant::now(), cpu_seconds());
            let estimate = estimate_normals(&device, &cloud.positions, &NormalOptions::default())?;
            let (clock, busy) = (start.elapsed().as_secs_f64(), cpu_seconds() - busy);
            let (mut flipped, mut angles, mut known) = (0, 0.0, 0);
            for (n, t) in estimate.normals.iter().zip(&cloud.truth).filter(|(_, t)| **t != [0.0; 3])
            {
                let cosine = (0..3).map(|a| f64::from(n[a] * t[a])).sum::<f64>();
                flipped += usize::from(cosine < 0.0);
                angles += cosine.abs().min(1.0).acos().to_degrees();
                known += 1;
            }
            let file = format!("{} {}.ply", case.name, 100.0 * noise).replace([' ', ','], "-");
            if let Some(folder) = &folder {
                write_ply(&folder.join(&file), &cloud.positions, &cloud.truth)?;
            }
            let volume_off = |normals: &[[f32; 3]]| -> Result<f64, Box<dyn Error>> {
                let (positions, normals) = (cloud.positions.clone(), Some(normals.to_vec()));
                Ok(volume(&device, &PointCloud { positions, normals })? / cloud.volume - 1.0)
            };
            let (off, off_at_best) = (volume_off(&estimate.normals)?, volume_off(&cloud.truth)?);
            println!(
                "{{\"scene\":\"{}\",\"noise_percent\":{},\"file\":\"{file}\",\"points\":{},\
                 \"flipped_percent\":{:.4},\"flipped_at_best_percent\":{:.4},\"angle_degrees\":{:.3},\"volume_off_percent\":{:.3},\
                 \"volume_off_with_true_normals_percent\":{:.3},\"seconds\":{clock:.2},\"cpu_seconds\":{busy:.2},\"parts\":{},\"cavities\":{}}}",
                case.name,
                100.0 * noise,
                cloud.positions.len(),
                100.0 * flipped as f64 / known as f64,
                100.0 * at_best,
                angles / known as f64,
                100.0 * off,
                100.0 * off_at_best,
                estimate.report.parts,
                estimate.report.cavities,
            );
        }
    }
    Ok(())
}
