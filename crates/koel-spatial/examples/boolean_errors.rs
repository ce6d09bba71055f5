//! Errors of the volumes and smooth meshes of Booleans against closed forms, and their times, on
//! this machine's CPU: `cargo run --release -p koel-spatial --example boolean_errors -- POINTS GRID
//! SEEDS [FILTER]`

#[path = "../tests/intersect_scenes/mod.rs"]
mod scenes;

use koel::Device;
use koel_spatial::Grid;
use koel_spatial::intersect::{Boolean, Intersector, Method};
use scenes::{Random, Scan, Shape, areas_of, mesh_errors, scan, volumes_of};
use std::error::Error;
use std::time::Instant;

const SPHERE: Shape = Shape::Sphere(0.6);
const TORUS: Shape = Shape::Torus { major: 0.55, minor: 0.22 };
const NOISY: Scan =
    Scan { noise: 0.5, degrees: 15.0, outliers: 0.0, flipped: 0.0, hole: 0.0, density: 0.0 };
const CLEAN: Scan = Scan { noise: 0.0, degrees: 0.0, ..NOISY };

fn cases(h: f64) -> Vec<(&'static str, Shape, Shape, f64, Scan)> {
    let boxes = [Shape::Plate([0.4, 0.5, 0.6]), Shape::Plate([0.5, 0.3, 0.45])];
    vec![
        ("sphere, sphere", SPHERE, SPHERE, 0.5, CLEAN),
        ("sphere, torus", SPHERE, TORUS, 0.4, CLEAN),
        ("box, box", boxes[0], boxes[1], 0.4, CLEAN),
        ("sphere, torus, noise", SPHERE, TORUS, 0.4, NOISY),
        ("disjoint", Shape::Sphere(0.4), Shape::Sphere(0.3), 0.95, NOISY),
        ("contained", Shape::Sphere(0.3), Shape::Sphere(0.8), 0.2, NOISY),
        ("2 % outliers", SPHERE, TORUS, 0.4, Scan { outliers: 0.02, ..NOISY }),
        ("5 % flipped", SPHERE, TORUS, 0.4, Scan { flipped: 0.05, ..NOISY }),
        ("5 % hole", SPHERE, SPHERE, 0.5, Scan { hole: 0.05, ..NOISY }),
        ("10 x density", SPHERE, TORUS, 0.4, Scan { density: 10.0, ..NOISY }),
        ("plate of 3 voxels", Shape::Plate([0.7, 0.5, 1.5 * h]), SPHERE, 0.3, CLEAN),
        ("hollow, sphere", Shape::Hollow { outer: 0.7, inner: 0.4 }, SPHERE, 0.4, NOISY),
    ]
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    let number = |i: usize, default: usize| args.get(i).map_or(Ok(default), |a| a.parse());
    let (points, n, seeds) = (number(0, 160_000)?, number(1, 128)? as u32, number(2, 3)? as u64);
    let filter = args.get(3).cloned().unwrap_or_default();
    let device = Device::cpu()?;
    let h = 2.0 / f64::from(n);
    let grid = Grid::new([-1.0; 3], h, n)?;
    println!(
        "{}: {points} points per side, {n}^3, worst of {seeds} seeds and four Booleans. Areas and \
         volumes off by % (of the smaller solid's, if the Boolean's is less); distances in voxels, \
         of the smooth mesh; greatest estimate of the volume error in %, and estimates divided by \
         errors, least and median; share of inverted triangles in %; ms: frame, solids, volumes, smooth mesh of the union",
        device.name()
    );
    println!(
        "| scene | area of faces | area | volume of voxels | volume | mean distance | max distance \
         | estimate; by error | inverted | ms |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for (name, a, b, offset, noise) in cases(h).into_iter().filter(|c| c.0.contains(&filter)) {
        let mut worst = [0.0f64; 7];
        let (mut ratios, mut errors, mut ms) = (vec![], vec![], [f64::MAX; 4]);
        for seed in 1..=seeds {
            let mut random = Random(seed);
            let scans = [a, b].map(|shape| scan(shape, points, noise, h, &mut random));
            let moved = random.direction().map(|c| c * offset);
            let middle = moved.map(|c| -0.5 * c);
            let pose =
                [random.pose(middle), random.pose(std::array::from_fn(|i| middle[i] + moved[i]))];
            let [cloud_a, cloud_b] = scans.each_ref().map(|scan| &scan.cloud);
            let mut intersector =
                Intersector::new(&device, cloud_a, cloud_b, grid, Method::default())?;
            intersector.frame(&pose[0], &pose[1])?;
            intersector.frame(&pose[0], &pose[1])?;
            let mut least = |i: usize, since: Instant| {
                ms[i] = ms[i].min(since.elapsed().as_secs_f64() * 1e3);
            };
            let begin = Instant::now();
            intersector.frame(&pose[0], &pose[1])?;
            least(0, begin);
            let begin = Instant::now();
            let solids = intersector.solids()?;
            least(1, begin);
            let begin = Instant::now();
            let estimates = solids.volumes();
            least(2, begin);
            let placed = [(a, &pose[0]), (b, &pose[1])];
            let (volumes, areas) = (volumes_of(placed, 1024), areas_of(placed, 400_000));
            for (i, op) in Boolean::ALL.into_iter().enumerate() {
                let begin = Instant::now();
                let smooth = solids.smooth_mesh(op);
                if op == Boolean::Union {
                    least(3, begin);
                }
                let faces = mesh_errors(&solids.mesh(op).mesh, op, placed);
                let e = mesh_errors(&smooth.mesh, op, placed);
                let area = areas[i].max(a.area().min(b.area()));
                let volume = volumes[i].max(a.volume().min(b.volume()));
                let of_voxels = (solids.volume(op) - volumes[i]).abs();
                let off = (estimates[i].volume - volumes[i]).abs();
                if estimates[i].error > 0.0 {
                    ratios.push(estimates[i].error / off);
                }
                errors.push(estimates[i].error / volume * 100.0);
                let found = [
                    (faces.area - areas[i]).abs() / area * 100.0,
                    (e.area - areas[i]).abs() / area * 100.0,
                    of_voxels / volume * 100.0,
                    off / volume * 100.0,
                    e.mean_distance / h,
                    e.max_distance / h,
                    e.inverted * 100.0,
                ];
                worst = std::array::from_fn(|i| worst[i].max(found[i]));
            }
        }
        ratios.sort_by(f64::total_cmp);
        errors.sort_by(f64::total_cmp);
        let [of_faces, area, voxels, volume, mean, max, inverted] = worst;
        println!(
            "| {name} | {of_faces:.1} | {area:.2} | {voxels:.2} | {volume:.2} | {mean:.3} \
             | {max:.2} | {:.2}; {:.2}, {:.1} | {inverted:.3} | {:.0}, {:.0}, {:.0}, {:.0} |",
            errors[errors.len() - 1],
            ratios[0],
            ratios[ratios.len() / 2],
            ms[0],
            ms[1],
            ms[2],
            ms[3]
        );
    }
    Ok(())
}
