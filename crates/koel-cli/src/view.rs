//! `koel view`: two clouds in a web page, one moving against the other.
use crate::apart::Files;
use crate::failure::{Failure, Outcome};
use crate::intersect::doubts::{self, Extent};
use crate::intersect::input::{self, Input};
use crate::intersect::load::{Loaded, Normals};
use crate::intersect::{self, args, load};
use crate::{Global, device, output, signals};
use koel::Device;
use koel_spatial::{Grid, PointCloud};
use koel_view::{
    Ball, MethodName, Moments, Options, Placement, Scene, SceneOptions, Server, Timeline, ViewError,
};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// Bytes of points of A or B that are kept so that they need not be read again.
const KEPT_BYTES: usize = 256 << 20;
/// Bytes of a point with its normal.
const POINT_BYTES: usize = 24;

const EXAMPLES: &str = "\
Examples:
  koel view bunny.ply dragon.ply
  koel view a.ply b.obj --grid 256 --port 0 --animate
  koel view scan1.pcd scan2.laz --estimate-normals --device cuda
  koel view room.ply walk.glb --animation-b Walk
  koel view walk-%03d.ply room.ply --fps 10

A and B may be sequences, as for `koel intersect`: a folder of frames, a pattern of frames such as
walk-%03d.ply, or a glTF file with an animation. The page plays them while B moves.

Prints the page's address, which works only on this machine; Ctrl-C stops the server. To view the
page from another machine, forward the port: ssh -L 8765:127.0.0.1:8765 HOST. In the page, ? lists
all keys. Surfaces should be closed; normals point outward.";

/// Show two scans in a web page and label what is inside what, frame by frame, as one moves
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    clouds: args::Clouds,
    /// Port to serve the page on; 0 picks a free one
    #[arg(long, value_name = "P", default_value_t = 8765)]
    port: u16,
    /// Start with B moving by itself
    #[arg(long)]
    animate: bool,
}

/// Runs `koel view` until Ctrl-C.
pub(crate) fn run(global: &Global, args: Args) -> Outcome {
    let files = Files::default().reads("A", &args.clouds.a).reads("B", &args.clouds.b);
    files.writes_json(global.json.as_deref()).check_apart()?;
    global.json_file().map_or(Ok(()), output::check_writable)?;
    let server = Server::bind(Options::default().with_port(args.port)).map_err(failure)?;
    let scene = scene(global, &args)?;
    let handle = server.handle();
    signals::stop_on_signal(move || handle.stop());
    let port = server.address().port();
    let address = json!({"url": server.url(), "port": port, "device": scene.device_name()});
    match global.json.as_deref() {
        Some(file) if file == Path::new("-") => output::print(&format!("{address}\n"))?,
        Some(file) => output::write_file(file, format!("{address}\n").as_bytes())?,
        None => {}
    }
    if global.json.as_deref() != Some(Path::new("-")) {
        output::print(&format!("{}\n", server.url()))?;
    }
    server.run(scene).map_err(failure)
}
/// Reads both clouds and computes the first frame. Says what was changed.
fn scene(global: &Global, args: &Args) -> Outcome<Scene> {
    let clouds = &args.clouds;
    let mut inputs = Input::both(clouds)?;
    let numbers = input::numbers(&inputs, clouds)?;
    let frames = numbers.as_ref().map_or(1, Vec::len);
    let (loaded, balls) = measured(&mut inputs, frames)?;
    check_apart(global, &inputs, &loaded, frames)?;
    let origin = loaded[0].origin();
    let placement = Placement::new(balls, clouds.grid).map_err(Failure::input)?;
    let device::Opened { device, .. } = device::open(global.device, global.threads)?;
    let names = clouds.names();
    let paths = inputs.each_ref().map(|input| input.moment(0).path);
    let units = load::note_on_units(loaded.each_ref().map(Loaded::unit));
    let of_files = loaded.iter().zip(&paths).flat_map(|(loaded, path)| loaded.notes(path));
    let mut remarks = of_files.chain(units).collect::<Vec<String>>();
    let grid = *placement.grid();
    let mut extents = loaded.each_ref().map(|loaded| Extent::of(loaded, &grid));
    let normals = Normals::of_both(clouds);
    let mut points = vec![];
    let sides = loaded.into_iter().zip(&mut inputs).zip(paths.iter().zip(normals));
    for (((loaded, input), (path, normals)), extent) in sides.zip(&mut extents) {
        let (cloud, of_surface) = input.cloud(loaded, path, normals, (&grid, &device))?;
        extent.measure(&cloud, &grid);
        points.push(cloud);
        remarks.extend(of_surface.changes.into_iter().chain(of_surface.doubts));
    }
    let Ok(points) = <[PointCloud; 2]>::try_from(points) else { unreachable!("A and B") };
    let method = match clouds.method {
        args::MethodName::Robust => MethodName::Robust,
        args::MethodName::Paper => MethodName::Paper,
    };
    let options = SceneOptions::default()
        .with_method(method)
        .with_robust(clouds.robust())
        .with_paper(clouds.paper())
        .with_animate(args.animate);
    let mut scene = Scene::new(&device, names.clone(), points, placement, options)
        .map_err(|e| intersect::failure(e, &names))?;
    remarks.extend(intersect::remarks(&names, scene.summary()));
    remarks.extend(doubts::doubts(&names, extents.each_ref(), &grid, scene.summary()));
    for remark in remarks {
        output::say(&remark);
        scene.note(remark);
    }
    let Some(numbers) = numbers else { return Ok(scene) };
    let player = |input, normals| Player { input, origin, normals, grid, device: device.clone() };
    let ([a, b], [of_a, of_b]) = (inputs, normals);
    Ok(scene.with_timeline(Timeline {
        moments: numbers.len() as u32,
        rate: clouds.fps,
        first: numbers[0],
        clouds: [(a, of_a), (b, of_b)].map(|(input, normals)| {
            input.numbers().map(|_| player(input, normals).moments(numbers.len()))
        }),
    }))
}

/// Rejects a file of `--json` that overwrites a frame of a sequence or a buffer of a glTF file.
fn check_apart(
    global: &Global,
    inputs: &[Input; 2],
    loaded: &[Loaded; 2],
    frames: usize,
) -> Outcome {
    let moments = |input: &Input| (0..frames).map(|i| input.moment(i).path).collect::<Vec<_>>();
    let [of_a, of_b] = inputs.each_ref().map(moments);
    let buffers = loaded.iter().flat_map(Loaded::other_files);
    let files = of_a.iter().fold(Files::default(), |files, file| files.reads("A", file));
    let files = of_b.iter().fold(files, |files, file| files.reads("B", file));
    let files = buffers.fold(files, |files, file| files.reads("the buffer", file));
    files.writes_json(global.json.as_deref()).check_apart()
}

/// Reads all frames. Returns both clouds of the first, and balls around those of all.
fn measured(inputs: &mut [Input; 2], frames: usize) -> Outcome<([Loaded; 2], [Ball; 2])> {
    let first = input::load_both(inputs, 0)?;
    let origin = first[0].origin();
    let mut balls = first.each_ref().map(|loaded| Ball::within(loaded.bounds, loaded.positions()));
    for (side, input) in inputs.iter_mut().enumerate() {
        input.measure(&first[side])?;
        if input.numbers().is_none() {
            continue;
        }
        for frame in 1..frames {
            let loaded = input.load(frame, Some(origin))?;
            input.measure(&loaded)?;
            let near = |position: &&[f32; 3]| loaded.bounds.contains(**position);
            balls[side] = balls[side].with(loaded.positions().iter().filter(near));
        }
    }
    Ok((first, balls))
}

/// Reads the frames of A or B for the page.
struct Player {
    input: Input,
    origin: [f64; 3],
    normals: Normals,
    grid: Grid,
    device: Device,
}
impl Player {
    /// Returns the points of each frame. Keeps as many of them as fit, those that were read first:
    /// of frames that are played in a circle, keeping the last ones would keep none in time.
    fn moments(mut self, frames: usize) -> Moments {
        let mut kept: Vec<Option<Arc<PointCloud>>> = vec![None; frames];
        let mut room = KEPT_BYTES;
        Box::new(move |moment| {
            if let Some(cloud) = &kept[moment as usize] {
                return Ok(cloud.clone());
            }
            let cloud = Arc::new(self.cloud(moment as usize).map_err(|failure| match failure {
                Failure::Usage(message) | Failure::Other(message) => message,
                other => format!("{other:?}"),
            })?);
            let bytes = POINT_BYTES * cloud.positions.len();
            if bytes <= room {
                room -= bytes;
                kept[moment as usize] = Some(cloud.clone());
            }
            Ok(cloud)
        })
    }
    fn cloud(&mut self, frame: usize) -> Outcome<PointCloud> {
        let loaded = self.input.load(frame, Some(self.origin))?;
        let path = self.input.moment(frame).path;
        let how = (&self.grid, &self.device);
        self.input.cloud(loaded, &path, self.normals, how).map(|(cloud, _)| cloud)
    }
}
fn failure(error: ViewError) -> Failure {
    Failure::Other(error.to_string())
}
