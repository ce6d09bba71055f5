//! Label errors of `koel_spatial::intersect` against closed forms, and the time per frame, on this
//! machine's best device: `cargo run --release -p koel-spatial --example label_errors -- POINTS
//! GRID POSES FRAMES [FILTER]`

#[path = "../tests/intersect_scenes/mod.rs"]
mod scenes;

use koel::Device;
use koel_spatial::Grid;
use koel_spatial::intersect::{Boolean, Intersector, Method, PaperOptions, Pose, Side, Timings};
use scenes::{Errors, Random, Scan, Shape, errors, scan, volume_of_both};
use std::error::Error;

const SPHERE: Shape = Shape::Sphere(0.6);
const TORUS: Shape = Shape::Torus { major: 0.55, minor: 0.22 };
const NOISY: Scan =
    Scan { noise: 0.5, degrees: 15.0, outliers: 0.0, flipped: 0.0, hole: 0.0, density: 0.0 };
const CLEAN: Scan = Scan { noise: 0.0, degrees: 0.0, ..NOISY };

fn cases(h: f64) -> Vec<(&'static str, Shape, Shape, f64, Scan)> {
    vec![
        ("sphere, sphere", SPHERE, SPHERE, 0.5, CLEAN),
        ("sphere, torus", SPHERE, TORUS, 0.4, CLEAN),
        ("sphere, torus, noise", SPHERE, TORUS, 0.4, NOISY),
        ("disjoint", Shape::Sphere(0.4), Shape::Sphere(0.3), 0.95, NOISY),
        ("contained", Shape::Sphere(0.3), Shape::Sphere(0.8), 0.2, NOISY),
        ("2 % outliers", SPHERE, TORUS, 0.4, Scan { outliers: 0.02, ..NOISY }),
        ("5 % flipped", SPHERE, TORUS, 0.4, Scan { flipped: 0.05, ..NOISY }),
        ("5 % hole", SPHERE, SPHERE, 0.5, Scan { hole: 0.05, ..NOISY }),
        ("10 x density", SPHERE, TORUS, 0.4, Scan { density: 10.0, ..NOISY }),
        ("plate of 3 voxels", Shape::Plate([0.7, 0.5, 1.5 * h]), SPHERE, 0.3, CLEAN),
        ("hollow, sphere", Shape::Hollow { outer: 0.7, inner: 0.4 }, SPHERE, 0.4, NOISY),
        ("open", Shape::Cap { radius: 0.7, above: 0.1 }, SPHERE, 0.4, NOISY),
    ]
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    let number = |i: usize, default: usize| args.get(i).map_or(Ok(default), |a| a.parse());
    let (points, n, poses, frames_of_pose) =
        (number(0, 160_000)?, number(1, 128)? as u32, number(2, 3)?, number(3, 20)?);
    let filter = args.get(4).cloned().unwrap_or_default();
    let device = Device::best()?;
    let h = 2.0 / f64::from(n);
    let grid = Grid::new([-1.0; 3], h, n)?;
    println!(
        "{}: {points} points per side, {n}^3, worst of {poses} random poses; shares of area in %, \
         volume error in %, ms per frame (CPU: mean, all threads; recorded: minimum, all stages as \
         one graph; clock: minimum of each stage)",
        device.name()
    );
    println!(
        "| scene | method | wrong beyond 2 voxels | wrong | unknown | inside share off \
         | volume off | CPU | recorded | clock | voxelize, build, intersect, seed, fill |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, a, b, offset, noise) in cases(h).into_iter().filter(|c| c.0.contains(&filter)) {
        for method in [Method::default(), Method::Paper(PaperOptions::default())] {
            let mut random = Random(1);
            let (mut worst, mut volume_off, mut frames, mut busy) =
                (Errors::default(), None, vec![], 0.0);
            let mut least_recorded: Option<f64> = None;
            for _ in 0..poses {
                let scans = [
                    scan(a, points, noise, h, &mut random),
                    scan(b, points, noise, h, &mut random),
                ];
                let moved = random.direction().map(|c| c * offset);
                let middle = moved.map(|c| -0.5 * c);
                let pose = [
                    random.pose(middle),
                    random.pose(std::array::from_fn(|i| middle[i] + moved[i])),
                ];
                let mut intersector =
                    Intersector::new(&device, &scans[0].cloud, &scans[1].cloud, grid, method)?;
                // The first frame touches memory for the first time.
                intersector.frame(&pose[0], &pose[1])?;
                let before = cpu_ms();
                for _ in 0..frames_of_pose.max(1) {
                    intersector.frame(&pose[0], &pose[1])?;
                    frames.push(intersector.timings()?);
                }
                busy += cpu_ms() - before;
                if matches!(method, Method::Robust(_)) {
                    let separate = Side::BOTH.map(|side| intersector.voxels(side));
                    let mut recorded = intersector.record()?;
                    for _ in 0..=frames_of_pose.max(1) {
                        recorded.frame(&pose[0], &pose[1])?;
                        let ms = recorded.milliseconds()?;
                        least_recorded = Some(ms.min(least_recorded.unwrap_or(ms)));
                    }
                    intersector = recorded.into_intersector();
                    for (side, separate) in Side::BOTH.into_iter().zip(separate) {
                        if intersector.voxels(side)? != separate? {
                            return Err(format!(
                                "{name}: recorded frames label {side} differently"
                            )
                            .into());
                        }
                    }
                }
                let shapes: [(Shape, &Pose); 2] = [(a, &pose[0]), (b, &pose[1])];
                for side in Side::BOTH {
                    let (i, o) = (side as usize, 1 - side as usize);
                    let labels = intersector.point_labels(side)?;
                    worst =
                        worst.worst(errors(&scans[i], &pose[i], &labels, shapes[o].0, &pose[o], h));
                }
                if let Ok(solids) = intersector.solids() {
                    let volumes = Boolean::ALL.map(|op| solids.volume(op));
                    let both = volume_of_both(shapes[0], shapes[1], 1024);
                    let (va, vb) = (a.volume(), b.volume());
                    let truth = Boolean::ALL.map(|op| match op {
                        Boolean::Union => va + vb - both,
                        Boolean::Intersection => both,
                        Boolean::Difference => va - both,
                        Boolean::ReverseDifference => vb - both,
                    });
                    // Relative to the true volume, or to the smaller solid, since an intersection
                    // may be empty.
                    let off = truth
                        .iter()
                        .zip(volumes)
                        .map(|(t, v)| (t - v).abs() / t.max(va.min(vb)))
                        .fold(0.0, f64::max);
                    volume_off = Some(off.max(volume_off.unwrap_or(0.0)));
                }
            }
            // Minimum of each stage: its time without interference.
            let least = |of: fn(&Timings) -> f64| frames.iter().map(of).fold(f64::MAX, f64::min);
            let [voxelize, build, intersect, seed, fill] = [
                least(|t| t.voxelize),
                least(|t| t.build),
                least(|t| t.intersect),
                least(|t| t.seed),
                least(|t| t.fill),
            ];
            let name_of = if matches!(method, Method::Paper(_)) { "paper" } else { "robust" };
            let volume = volume_off.map_or("-".into(), |v: f64| format!("{:.2}", v * 100.0));
            let recorded = least_recorded.map_or("-".into(), |ms| format!("{ms:.3}"));
            println!(
                "| {name} | {name_of} | {:.4} | {:.3} | {:.3} | {:.3} | {volume} | {:.1} \
                 | {recorded} | {:.2} | {voxelize:.2}, {build:.2}, {intersect:.2}, {seed:.2}, \
                 {fill:.2} |",
                worst.far * 100.0,
                worst.wrong * 100.0,
                worst.unknown * 100.0,
                worst.share * 100.0,
                busy / frames.len() as f64,
                voxelize + build + intersect + seed + fill
            );
        }
    }
    Ok(())
}

/// Returns the milliseconds of CPU time of this process' threads on Linux; 0 elsewhere.
fn cpu_ms() -> f64 {
    let of_thread = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.filter_map(of_thread).sum::<f64>() / 1e6
}
