//! Cost of an intersection's first frame, for which kernels must be loaded, compared with later
//! frames.
//!
//! `cargo run --release -p koel-rates --bin first_frame -- [POINTS] [GRID]` prints two lines of
//! JSON.
use koel::Device;
use koel_rates::{all_decimals, decimals, print_provenance, row};
use koel_spatial::intersect::{Intersector, Method, Pose, Side};
use koel_spatial::{Grid, PointCloud};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let args =
        std::env::args().skip(1).map(|a| a.parse::<usize>()).collect::<Result<Vec<_>, _>>()?;
    let (points, n) = (*args.first().unwrap_or(&160_000), *args.get(1).unwrap_or(&128) as u32);
    let clouds = [sphere(points, -0.2), sphere(points, 0.2)];
    let device = Device::best()?;
    let grid = Grid::new([-1.0; 3], 2.0 / f64::from(n), n)?;
    let clock = Instant::now();
    let mut intersector =
        Intersector::new(&device, &clouds[0], &clouds[1], grid, Method::default())?;
    let preparing = ms(clock);
    let mut frames = vec![];
    for _ in 0..5 {
        let clock = Instant::now();
        intersector.frame(&Pose::default(), &Pose::default())?;
        intersector.stream().synchronize()?;
        frames.push(ms(clock));
    }
    print_provenance(&device);
    row![
        ("device", device.name()),
        ("points", points),
        ("grid", n),
        ("prepare_ms", decimals(preparing, 2)),
        ("frame_ms", all_decimals(&frames, 2)),
        ("voxels", intersector.voxels(Side::A)?.len())
    ]
    .print();
    Ok(())
}
/// Returns points on a sphere of radius 0.6, placed by the golden angle, with their normals.
fn sphere(points: usize, x: f32) -> PointCloud {
    let normal = |i: usize| {
        let z = 1.0 - (2 * i + 1) as f64 / points as f64;
        let (r, turn) =
            ((1.0 - z * z).sqrt(), i as f64 * std::f64::consts::PI * (3.0 - 5f64.sqrt()));
        [r * turn.cos(), r * turn.sin(), z].map(|c| c as f32)
    };
    let normals = (0..points).map(normal).collect::<Vec<_>>();
    let positions = normals.iter().map(|[a, b, c]| [0.6 * a + x, 0.6 * b, 0.6 * c]).collect();
    PointCloud { positions, normals: Some(normals) }
}
fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
