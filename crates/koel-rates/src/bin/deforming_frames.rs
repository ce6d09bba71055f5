//! Frames of an intersection: the first ones, for which kernels must be loaded; frames whose poses
//! are new; and frames whose points are.
//!
//! `cargo run --release -p koel-rates --bin deforming_frames -- [POINTS] [GRID] [FRAMES]` prints
//! lines of JSON. The first row has the milliseconds of the process's first intersector and of its
//! first five frames; `CUDA_CACHE_DISABLE=1` turns the driver's cache off. The others have the
//! milliseconds per frame: the median of `FRAMES`, the fastest and the slowest, from the first call
//! to the end of the work. Points are those of each cloud. The labels of the last frame are
//! compared with those of new clouds.
use koel::{Buffer, Device};
use koel_rates::{Arguments, Row, all_decimals, decimals, ms, repeat, row, seconds_of};
use koel_spatial::intersect::{Intersector, Method, Pose, Side};
use koel_spatial::{Grid, PointCloud};
use std::error::Error;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Number of different shapes that the clouds take by turns.
const SHAPES: usize = 4;

/// Positions and normals on the device.
type Points = [Buffer<u32>; 2];

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let device = args.device()?;
    let args = args.sizes(&[])?;
    let [points, n, frames] = [(0, 160_000), (1, 128), (2, 101)]
        .map(|(i, default)| args.get(i).copied().unwrap_or(default));
    let shapes = (0..SHAPES).map(|i| [-0.2, 0.2].map(|x| bent_sphere(points, x, i)));
    let grid = Grid::new([-1.0; 3], 2.0 / n as f64, n as u32)?;
    let sequence = Sequence { device, grid, frames, shapes: shapes.collect() };
    sequence.first()?;
    let mut alone = sequence.intersector((frames + 1) % SHAPES)?;
    alone.frame(&Pose::IDENTITY, &Pose::IDENTITY)?;
    sequence.separate(&mut alone)?;
    sequence.recorded(&mut alone)
}

/// What both clouds are by turns.
struct Sequence {
    device: Device,
    grid: Grid,
    frames: usize,
    shapes: Vec<[PointCloud; 2]>,
}
impl Sequence {
    fn intersector(&self, shape: usize) -> Result<Intersector> {
        let [a, b] = &self.shapes[shape];
        Ok(Intersector::new(&self.device, a, b, self.grid, Method::default())?)
    }
    /// Copies all shapes to the device.
    fn staged(&self) -> Result<Vec<[Points; 2]>> {
        let words = |of: &[[f32; 3]]| self.device.upload(bytemuck::cast_slice::<_, u32>(of));
        let on_device = |cloud: &PointCloud| -> Result<Points> {
            let normals = cloud.normals.as_deref().ok_or("no normals")?;
            Ok([words(&cloud.positions)?, words(normals)?])
        };
        let both = |[a, b]: &[PointCloud; 2]| Ok([on_device(a)?, on_device(b)?]);
        self.shapes.iter().map(both).collect()
    }
    /// Runs frames, the first two untimed, and prints their times.
    fn timed(&self, what: &str, mut run: impl FnMut(usize) -> Result<()>) -> Result<()> {
        let mut frames = 0..;
        let mut next = || seconds_of(|| frames.next().map_or(Ok(()), &mut run));
        let [times] = repeat(self.frames, || Result::Ok([next()?.1]))?;
        self.about().and(&row![("frame", what.to_string())]).and(&ms(times)).print();
        Ok(())
    }
    fn about(&self) -> Row {
        row![
            ("device", self.device.name()),
            ("points", self.shapes[0][0].positions.len()),
            ("grid", self.grid.resolution())
        ]
    }
    /// The first frames of the process.
    fn first(&self) -> Result<()> {
        let (mut one, preparing) = seconds_of(|| self.intersector(0))?;
        let mut frames = vec![];
        for _ in 0..5 {
            frames.push(seconds_of(|| finished(&mut one, 0))?.1 * 1e3);
        }
        self.about()
            .and(&row![
                ("frame", "first"),
                ("prepare_ms", decimals(preparing * 1e3, 2)),
                ("frame_ms", all_decimals(&frames, 2)),
                ("voxels", one.voxels(Side::A)?.len())
            ])
            .print();
        Ok(())
    }
    /// Frames launched one by one.
    fn separate(&self, alone: &mut Intersector) -> Result<()> {
        let (staged, mut one) = (self.staged()?, self.intersector(0)?);
        self.timed("new poses", |i| finished(&mut one, i))?;
        self.timed("new points of A, device memory", |i| {
            let [a, _] = &staged[i % SHAPES];
            one.set_points(Side::A, a[0].view(), a[1].view())?;
            finished(&mut one, 0)
        })?;
        self.timed("new points of A and B, device memory", |i| {
            for (side, of) in Side::BOTH.into_iter().zip(&staged[i % SHAPES]) {
                one.set_points(side, of[0].view(), of[1].view())?;
            }
            finished(&mut one, 0)
        })?;
        self.timed("new points of A and B, host memory", |i| {
            for (side, cloud) in Side::BOTH.into_iter().zip(&self.shapes[i % SHAPES]) {
                one.set_cloud(side, cloud)?;
            }
            finished(&mut one, 0)
        })?;
        check(&mut one, alone)
    }
    /// Frames recorded once.
    fn recorded(&self, alone: &mut Intersector) -> Result<()> {
        let (staged, mut recorded) = (self.staged()?, self.intersector(0)?.record()?);
        self.timed("recorded, new poses", |i| {
            recorded.frame(&pose(i), &Pose::IDENTITY)?;
            Ok(recorded.intersector().stream().synchronize()?)
        })?;
        self.timed("recorded, new points of A and B, device memory", |i| {
            for (side, of) in Side::BOTH.into_iter().zip(&staged[i % SHAPES]) {
                recorded.intersector_mut().set_points(side, of[0].view(), of[1].view())?;
            }
            recorded.frame(&Pose::IDENTITY, &Pose::IDENTITY)?;
            Ok(recorded.intersector().stream().synchronize()?)
        })?;
        check(recorded.intersector_mut(), alone)
    }
}
/// Computes a frame, and waits for it.
fn finished(one: &mut Intersector, i: usize) -> Result<()> {
    one.frame(&pose(i), &Pose::IDENTITY)?;
    Ok(one.stream().synchronize()?)
}
fn pose(i: usize) -> Pose {
    Pose { translation: [1e-3 * (i % 7) as f64, 0.0, 0.0], ..Pose::IDENTITY }
}

/// Fails if more than one label in a hundred differs from those of new clouds, whose points have
/// another order.
fn check(found: &mut Intersector, expected: &mut Intersector) -> Result<()> {
    for side in Side::BOTH {
        let [found, expected] = [found.point_labels(side)?, expected.point_labels(side)?];
        let differ = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
        if differ > found.len() / 100 {
            return Err(format!("{differ} of {} labels of {side} differ", found.len()).into());
        }
    }
    Ok(())
}
/// Returns points on a sphere of radius 0.6, bent in one of several ways, with the normals of the
/// sphere, from memory order independent of space.
fn bent_sphere(points: usize, x: f32, shape: usize) -> PointCloud {
    let normal = |i: usize| {
        let i = (i * 7919) % points;
        let z = 1.0 - (2 * i + 1) as f64 / points as f64;
        let (r, turn) =
            ((1.0 - z * z).sqrt(), i as f64 * std::f64::consts::PI * (3.0 - 5f64.sqrt()));
        [r * turn.cos(), r * turn.sin(), z].map(|c| c as f32)
    };
    let normals = (0..points).map(normal).collect::<Vec<_>>();
    let by = 0.02 * shape as f32;
    let position = |[a, b, c]: &[f32; 3]| [0.6 * a + x + by * b * b, 0.6 * b, (0.6 - by) * c];
    PointCloud { positions: normals.iter().map(position).collect(), normals: Some(normals) }
}
