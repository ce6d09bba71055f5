//! `koel view`: two clouds in a web page, one moving against the other.
use crate::apart::Files;
use crate::failure::{Failure, Outcome};
use crate::intersect::doubts::{self, Extent};
use crate::intersect::{self, args, load};
use crate::{Global, device, output};
use koel_view::{Ball, MethodName, Options, Placement, Scene, SceneOptions, Server, ViewError};
use serde_json::json;
use std::path::Path;

const EXAMPLES: &str = "\
Examples:
  koel view bunny.ply dragon.ply
  koel view a.ply b.obj --grid 256 --port 0 --animate
  koel view scan1.pcd scan2.laz --estimate-normals --device cuda

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
    if let Some(file) = global.json.as_deref().filter(|file| *file != Path::new("-")) {
        output::check_writable(file)?;
    }
    let server = Server::bind(Options::default().with_port(args.port)).map_err(failure)?;
    let clouds = &args.clouds;
    let loaded = load::read_both(clouds, None)?;
    let of_files = load::notes_of_both(&loaded, clouds);
    let balls = loaded.each_ref().map(|loaded| Ball::within(loaded.bounds, loaded.positions()));
    let placement = Placement::new(balls, clouds.grid).map_err(Failure::input)?;
    let grid = *placement.grid();
    let extents = loaded.each_ref().map(|loaded| Extent::of(loaded, &grid));
    let device::Opened { device, .. } = device::open(global.device, global.threads)?;
    let names = clouds.names();
    let (points, of_surfaces) = load::clouds(loaded, clouds, &grid, &device)?;
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
    let remarks = intersect::remarks(&names, scene.summary());
    let doubts = doubts::doubts(&names, &extents, &grid, scene.summary());
    for remark in of_files
        .into_iter()
        .chain(of_surfaces.changes)
        .chain(remarks)
        .chain(of_surfaces.doubts)
        .chain(doubts)
    {
        output::say(&remark);
        scene.note(remark);
    }
    let handle = server.handle();
    output::stop_on_interrupt(move || handle.stop());
    let address =
        json!({"url": server.url(), "port": server.address().port(), "device": device.name()});
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
fn failure(error: ViewError) -> Failure {
    Failure::Other(error.to_string())
}
