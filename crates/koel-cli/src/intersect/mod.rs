//! `koel intersect`: where two scans meet, and what is inside what.
//!
//! Reads both files ([`load`]), puts them into one grid, intersects them on the device and writes
//! the results ([`files`], [`report`]).
pub(crate) mod args;
mod doubts;
mod files;
pub(crate) mod load;
mod report;

use crate::apart::Files;
use crate::failure::{Failure, Outcome};
use crate::{Global, device, output};
pub(crate) use args::Args;
use args::{BooleanName, MethodName};
use doubts::Extent;
use files::Coordinates;
use indicatif::{ProgressBar, ProgressStyle};
use koel::Device;
use koel_spatial::intersect::{
    Boolean, IntersectError, Intersector, Method, Pose, Side, Solids, Summary, Timings,
};
use koel_spatial::{Grid, PointCloud};
use report::{Found, Report, Volumes, Written};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Runs `koel intersect`. Rejects bad arguments before anything is computed.
pub(crate) fn run(global: &Global, args: Args) -> Outcome {
    let method = args.method()?;
    let labels_files = Side::BOTH.map(|side| labels_file(&args.out, side));
    check_files(global, &args, &labels_files)?;
    let progress = progress_bar();
    progress.set_message("reading");
    let loaded = load::read_both(&args.clouds)?;
    let of_files = load::notes_of_both(&loaded, &args.clouds);
    of_files.iter().for_each(|note| output::say(format_args!("note: {note}")));
    let dropped = loaded.each_ref().map(load::Loaded::dropped);
    let [a, b] = loaded.each_ref().map(|loaded| loaded.bounds);
    let grid = Grid::enclosing(a.union(b), args.clouds.grid).map_err(Failure::input)?;
    let device::Opened { device, .. } = device::open(global.device, global.threads)?;
    progress.inc(1);
    progress.set_message("sampling");
    let origin = loaded[0].origin();
    let extents = loaded.each_ref().map(|loaded| Extent::of(loaded, &grid));
    let (clouds, of_surfaces) = load::clouds(loaded, &args.clouds, &grid, &device)?;
    of_surfaces.changes.iter().for_each(|note| output::say(format_args!("note: {note}")));
    progress.inc(1);
    progress.set_message("intersecting");
    let names = args.clouds.names();
    let failed = |e: IntersectError| failure(e, &names);
    let Intersected { mut intersector, upload_ms, timings, summary } =
        intersect(&device, &clouds, grid, method).map_err(failed)?;
    progress.inc(1);
    progress.set_message("writing");

    let remarks = remarks(&names, &summary);
    let notes = of_files.into_iter().chain(of_surfaces.changes).chain(remarks).collect();
    let mut doubts = of_surfaces.doubts;
    doubts.extend(doubts::doubts(&names, &extents, &grid, &summary));
    let solids = solids_if_any(&mut intersector, &summary, &args).map_err(failed)?;
    let coordinates = Coordinates { origin };
    let boolean =
        write_boolean(&args, &mut intersector, (&clouds, coordinates), solids.as_ref(), &names)?;
    for (side, file) in Side::BOTH.into_iter().zip(&labels_files) {
        output::write_file(file, &files::labels(&intersector.voxels(side).map_err(failed)?))?;
    }
    let report = Report::new(Found {
        grid: &grid,
        origin,
        summary,
        files: names.clone(),
        dropped,
        labels_files: labels_files
            .map(|file| file.file_name().map(|n| n.display().to_string()).unwrap_or_default()),
        timings,
        upload_ms,
        device: device.name(),
        method: if args.clouds.method == MethodName::Paper { "paper" } else { "robust" },
        volumes: solids.as_ref().map(volumes),
        boolean,
        notes,
        doubts,
    });
    write_report(global, &args, &report, &progress)?;
    match args.strict && report.has_doubts() {
        true => Err(Failure::Reported(3)),
        false => Ok(()),
    }
}

/// Rejects outputs that overwrite an input or one another, and files that cannot be written.
fn check_files(global: &Global, args: &Args, labels_files: &[PathBuf; 2]) -> Outcome {
    let clouds = &args.clouds;
    let mut files = Files::default()
        .reads("A", &clouds.a)
        .reads("B", &clouds.b)
        .writes("--out", Some(&args.out));
    for file in labels_files {
        files = files.writes("the labels of --out,", Some(file));
    }
    let files = files.writes("--out-mesh", args.out_mesh.as_deref());
    files
        .writes("--out-cloud", args.out_cloud.as_deref())
        .writes_json(global.json.as_deref())
        .check_apart()?;
    let named = [
        Some(args.out.as_path()),
        json_file(global),
        args.out_mesh.as_deref(),
        args.out_cloud.as_deref(),
    ];
    for file in named.into_iter().flatten().chain(labels_files.iter().map(PathBuf::as_path)) {
        output::check_writable(file)?;
    }
    Ok(())
}

/// Labelled clouds, with timings.
struct Intersected {
    intersector: Intersector,
    upload_ms: f64,
    timings: Timings,
    summary: Summary,
}

/// Uploads both clouds and labels them in place.
fn intersect(
    device: &Device,
    clouds: &[PointCloud; 2],
    grid: Grid,
    method: Method,
) -> Result<Intersected, IntersectError> {
    let begin = Instant::now();
    let mut intersector = Intersector::new(device, &clouds[0], &clouds[1], grid, method)?;
    let upload_ms = begin.elapsed().as_secs_f64() * 1e3;
    // The first frame touches fresh memory; the second one is timed.
    for _ in 0..2 {
        intersector.frame(&Pose::IDENTITY, &Pose::IDENTITY)?;
    }
    let timings = intersector.timings()?;
    let summary = intersector.summary()?;
    Ok(Intersected { intersector, upload_ms, timings, summary })
}

/// Returns the solids if both surfaces are closed or a mesh is wanted.
fn solids_if_any(
    intersector: &mut Intersector,
    summary: &Summary,
    args: &Args,
) -> Result<Option<Solids>, IntersectError> {
    let closed =
        Side::BOTH.iter().all(|&side| summary.side(side).measures.is_some_and(|m| !m.open));
    match closed || args.out_mesh.is_some() {
        true => intersector.solids().map(Some),
        false => Ok(None),
    }
}

/// Writes the mesh and the cloud that the options name. Returns their entry in the report, `None`
/// without `--boolean`.
fn write_boolean(
    args: &Args,
    intersector: &mut Intersector,
    (clouds, coordinates): (&[PointCloud; 2], Coordinates),
    solids: Option<&Solids>,
    names: &[String; 2],
) -> Outcome<Option<Written>> {
    let mut boolean = args.boolean.map(|name| Written {
        operation: operation(name),
        triangles: None,
        points: None,
    });
    if let (Some(file), Some(name), Some(solids)) = (&args.out_mesh, args.boolean, solids) {
        let made = solids.mesh(name.boolean());
        output::write_file(file, &files::mesh_ply(&made.mesh, coordinates))?;
        if let Some(boolean) = &mut boolean {
            boolean.triangles = Some(made.mesh.triangles.len());
        }
    }
    if let Some(file) = &args.out_cloud {
        let both = [(&clouds[0], &Pose::IDENTITY), (&clouds[1], &Pose::IDENTITY)];
        let points = intersector
            .labelled_points(both, args.boolean.map(BooleanName::boolean))
            .map_err(|e| failure(e, names))?;
        output::write_file(file, &files::cloud_ply(&points, coordinates))?;
        if let Some(boolean) = &mut boolean {
            boolean.points = Some(points.labels.len());
        }
    }
    Ok(boolean)
}
fn volumes(solids: &Solids) -> Volumes {
    Volumes {
        union: solids.volume(Boolean::Union),
        intersection: solids.volume(Boolean::Intersection),
        difference: solids.volume(Boolean::Difference),
        reverse_difference: solids.volume(Boolean::ReverseDifference),
    }
}

/// Writes the report to `--out` and `--json`, and prints it as text unless standard output has the
/// JSON.
fn write_report(global: &Global, args: &Args, report: &Report, progress: &ProgressBar) -> Outcome {
    let mut text =
        serde_json::to_string_pretty(report).map_err(|e| Failure::Other(format!("--out: {e}")))?;
    text.push('\n');
    output::write_file(&args.out, text.as_bytes())?;
    progress.finish_and_clear();
    match (&global.json, json_file(global)) {
        (Some(_), None) => output::print(&text),
        (_, file) => {
            if let Some(file) = file {
                output::write_file(file, text.as_bytes())?;
            }
            output::print(&report.text())
        }
    }
}

/// Returns the file of `--json`, unless that is standard output.
fn json_file(global: &Global) -> Option<&Path> {
    global.json.as_deref().filter(|file| *file != Path::new("-"))
}
/// Returns the label file next to the report: report.json has report.a.bin and report.b.bin.
fn labels_file(out: &Path, side: Side) -> PathBuf {
    out.with_extension(if side == Side::A { "a.bin" } else { "b.bin" })
}
fn operation(name: BooleanName) -> &'static str {
    match name {
        BooleanName::Union => "union",
        BooleanName::Intersection => "intersection",
        BooleanName::Difference => "difference",
        BooleanName::ReverseDifference => "reverse-difference",
    }
}
/// Returns remarks on the clouds for people.
pub(crate) fn remarks(names: &[String; 2], summary: &Summary) -> Vec<String> {
    let mut remarks = vec![];
    for (side, file) in Side::BOTH.into_iter().zip(names) {
        let surface = summary.side(side);
        if surface.dropped > 0 {
            remarks.push(format!(
                "{side}, {file}: {} points that are not finite or outside the grid were dropped",
                surface.dropped
            ));
        }
        if let Some(m) = surface.measures.filter(|m| m.open) {
            remarks.push(format!(
                "{side}, {file}: the surface is open (closedness {:.2}): the other cloud is \
                 labelled only where the label is certain, and there are no volumes",
                m.closedness
            ));
        }
    }
    remarks
}
/// Tells bad input from a device that fails.
pub(crate) fn failure(error: IntersectError, names: &[String; 2]) -> Failure {
    let of = |side: Side| &names[side as usize];
    match error {
        IntersectError::Device(e) => e.into(),
        IntersectError::Open { cloud, closedness } => Failure::Usage(format!(
            "{}: the surface is open (closedness {closedness:.2}) and bounds no solid, \
             expected a closed surface, or --assume-closed",
            of(cloud)
        )),
        e => Failure::input(e),
    }
}

/// Returns a progress bar on standard error, drawn only if that is a terminal.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(4);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
        bar.set_style(style);
    }
    bar
}
