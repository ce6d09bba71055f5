//! `koel intersect`: where two scans meet, and what is inside what.
//!
//! Finds the frames ([`input`], [`sequence`]) and their poses ([`pose`]), reads both clouds of each
//! ([`load`]), puts all into one grid ([`space`]), intersects them on the device and writes the
//! results ([`files`], [`report`]).
pub(crate) mod args;
pub(crate) mod doubts;
mod files;
pub(crate) mod input;
pub(crate) mod load;
mod playing;
mod pose;
mod report;
mod sequence;
mod space;

use crate::apart::Files;
use crate::failure::{Failure, Outcome};
use crate::{Global, device, output};
pub(crate) use args::Args;
use args::{BooleanName, MeshName, MethodName};
use doubts::Extent;
use files::Coordinates;
use indicatif::ProgressBar;
use input::{Input, Moment};
use koel::Device;
use koel_spatial::intersect::{
    IntersectError, Intersector, MAX_POINTS, Method, Pose, Side, Solids, Summary,
};
use koel_spatial::{Grid, PointCloud};
use load::{Loaded, Normals, Notes};
use playing::{Playing, Times};
use report::{Found, IntersectReport, Volumes, Written};
use sequence::{Common, Frame};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Runs `koel intersect`. Rejects bad arguments before anything is computed.
pub(crate) fn run(global: &Global, args: Args) -> Outcome {
    let method = args.method()?;
    let mut inputs = Input::both(&args.clouds)?;
    let frames = sequence::frames(&args, &inputs)?;
    check_files(global, &frames, &[])?;
    let progress = progress_bar(&args, frames.len());
    progress.set_message("reading");
    let Common { bounds, read_origin, origin, still, other_files } =
        Common::of(&frames, &mut inputs)?;
    check_files(global, &frames, &other_files)?;
    let grid = Grid::enclosing(bounds, args.clouds.grid).map_err(Failure::input)?;
    let device::Opened { device, .. } = device::open(global.device, global.threads)?;
    let mut labeller = Labeller {
        device,
        grid,
        method,
        read_origin,
        origin,
        is_sequence: frames.len() > 1,
        inputs,
        still,
        playing: None,
        is_recorded: args.recorded,
        prepared: [None, None],
        progress: progress.clone(),
    };
    let (mut lines, mut doubts) = (String::new(), false);
    match &frames[..] {
        [only] => {
            let report = labeller.frame(0, only)?;
            progress.finish_and_clear();
            doubts = report.has_doubts();
            lines = report.json()?;
            if global.json.is_none() || global.json_file().is_some() {
                output::print(&report.text())?;
            } else {
                output::print(&lines)?;
            }
        }
        frames => {
            for (i, frame) in frames.iter().enumerate() {
                progress.set_message("reading");
                let report = labeller.frame(i, frame)?;
                doubts |= report.has_doubts();
                let line = report.json_line()?;
                progress.suspend(|| match (&global.json, global.json_file()) {
                    (Some(_), None) => output::print(&line),
                    _ => output::print(&report.line()),
                })?;
                lines += &line;
            }
            progress.finish_and_clear();
        }
    }
    if let Some(file) = global.json_file() {
        output::write_file(file, lines.as_bytes())?;
    }
    match args.strict && doubts {
        true => Err(Failure::Reported(3)),
        false => Ok(()),
    }
}

/// What labels the frames: all of them in one grid, with the same buffers.
struct Labeller {
    device: Device,
    grid: Grid,
    method: Method,
    /// What positions of clouds are relative to.
    read_origin: [f64; 3],
    /// What positions in their poses are relative to.
    origin: [f64; 3],
    /// Whether more frames may follow.
    is_sequence: bool,
    inputs: [Input; 2],
    /// Clouds that are the same in all frames, until the first.
    still: [Option<Loaded>; 2],
    playing: Option<Playing>,
    /// Whether frames are recorded.
    is_recorded: bool,
    /// Clouds of the last frame.
    prepared: [Option<Prepared>; 2],
    progress: ProgressBar,
}
/// A cloud of a frame, before its pose.
struct Prepared {
    moment: Moment,
    cloud: PointCloud,
    dropped: usize,
    extent: Extent,
    unit: Option<String>,
    of_file: Vec<String>,
    of_surface: Notes,
}
impl Labeller {
    /// Labels one frame and writes its files. Reads and uploads a cloud only if it is not that of
    /// the frame before.
    fn frame(&mut self, index: usize, Frame { args, moments }: &Frame) -> Outcome<IntersectReport> {
        let (names, grid) = (args.clouds.names(), self.grid);
        let mut is_new = [false; 2];
        for (side, moment) in moments.iter().enumerate() {
            let before = self.prepared[side].as_ref();
            if before.is_none_or(|prepared| prepared.moment != *moment) {
                self.prepared[side] = None;
                self.prepared[side] = Some(self.prepare(index, side, moment, args)?);
                is_new[side] = true;
            }
        }
        let [Some(a), Some(b)] = self.prepared.each_mut().map(Option::take) else {
            unreachable!("both are prepared")
        };
        let prepared = [a, b];
        step(&self.progress, "intersecting");
        let failed = |e: IntersectError| failure(e, &names);
        let poses = args.poses();
        let motions = poses.map(|pose| pose::between(&pose, self.read_origin, self.origin));
        let clouds = prepared.each_ref().map(|prepared| &prepared.cloud);
        let (upload_ms, times, summary) = self.label(clouds, &motions, is_new).map_err(failed)?;
        let (notes, mut doubts) = remarks_on(&prepared, &names, &summary);
        let extents = prepared.each_ref().map(|prepared| &prepared.extent);
        doubts.extend(doubts::doubts(&names, extents, &grid, &summary));
        let Some(playing) = &mut self.playing else { unreachable!("it has labelled the clouds") };
        let intersector = playing.intersector();
        if args.wants_volumes() {
            step(&self.progress, "volumes");
        }
        let begin = Instant::now();
        let solids = solids_if_any(intersector, &summary, args).map_err(failed)?;
        let volumes = solids.as_ref().map(volumes);
        let volumes_ms = volumes.map(|_| milliseconds(begin));
        let coordinates = Coordinates { origin: self.origin };
        let [a, b] = clouds;
        let posed = [(a, &motions[0]), (b, &motions[1])];
        let to = (posed, coordinates);
        if args.out_mesh.is_some() {
            step(&self.progress, "mesh");
        }
        let boolean = write_boolean(args, intersector, to, solids.as_ref(), &names)?;
        step(&self.progress, "writing");
        let labels_files = Side::BOTH.map(|side| labels_file(&args.out, side));
        for (side, file) in Side::BOTH.into_iter().zip(&labels_files) {
            output::write_file(file, &files::labels(&intersector.voxels(side).map_err(failed)?))?;
        }
        let report = IntersectReport::new(Found {
            grid: &grid,
            origin: self.origin,
            summary,
            files: names.clone(),
            seconds: moments.each_ref().map(|moment| moment.seconds),
            dropped: prepared.each_ref().map(|prepared| prepared.dropped),
            poses,
            labels_files: labels_files
                .map(|file| file.file_name().map(|n| n.display().to_string()).unwrap_or_default()),
            times,
            upload_ms,
            volumes_ms,
            device: self.device.name(),
            method: if args.clouds.method == MethodName::Paper { "paper" } else { "robust" },
            volumes,
            boolean,
            notes,
            doubts,
        });
        output::write_file(&args.out, report.json()?.as_bytes())?;
        self.prepared = prepared.map(Some);
        self.progress.inc(1);
        Ok(report)
    }
    /// Reads a cloud, gives it normals, and tells what was changed: of an animation once.
    fn prepare(
        &mut self,
        index: usize,
        side: usize,
        moment: &Moment,
        args: &Args,
    ) -> Outcome<Prepared> {
        let input = &mut self.inputs[side];
        let loaded = match self.still[side].take() {
            Some(loaded) => loaded,
            None => input.load(index, Some(self.read_origin))?,
        };
        let (path, is_told) = (&moment.path, index > 0 && moment.seconds.is_some());
        let say = |note: &String| output::say(format_args!("note: {note}"));
        let of_file = loaded.notes(path);
        self.progress.suspend(|| of_file.iter().filter(|_| !is_told).for_each(say));
        self.progress.set_message("sampling");
        let (dropped, unit) = (loaded.dropped(), loaded.unit().clone());
        let mut extent = Extent::of(&loaded, &self.grid);
        let normals = Normals::of_both(&args.clouds)[side];
        let (cloud, of_surface) = input.cloud(loaded, path, normals, (&self.grid, &self.device))?;
        self.progress.suspend(|| of_surface.changes.iter().filter(|_| !is_told).for_each(say));
        extent.measure(&cloud, &self.grid);
        Ok(Prepared { moment: moment.clone(), cloud, dropped, extent, unit, of_file, of_surface })
    }
    /// Labels both clouds in these motions. Returns the milliseconds to upload the clouds that are
    /// new, those of the frame, and its counts.
    fn label(
        &mut self,
        clouds: [&PointCloud; 2],
        [of_a, of_b]: &[Pose; 2],
        is_new: [bool; 2],
    ) -> Result<(f64, Times, Summary), IntersectError> {
        let begin = Instant::now();
        let mut fits = false;
        if let Some(playing) = &mut self.playing {
            let intersector = playing.intersector();
            let mut new = Side::BOTH.into_iter().filter(|&side| is_new[side as usize]);
            let set = new.try_for_each(|side| intersector.set_cloud(side, clouds[side as usize]));
            match set {
                Err(IntersectError::NoRoom { .. }) => self.playing = None,
                set => {
                    set?;
                    fits = true;
                }
            }
        }
        let playing = match &mut self.playing {
            Some(playing) => playing,
            none => {
                // Later frames may have some more points, unless they show the same ones.
                let room = [0, 1].map(|side| match (self.is_sequence, &self.inputs[side]) {
                    (true, Input::Files(_)) => most_points(clouds[side].positions.len()),
                    _ => 0,
                });
                let (grid, method) = (self.grid, self.method);
                let made = Intersector::with_room(&self.device, clouds, room, grid, method)?;
                none.insert(Playing::new(made, self.is_recorded)?)
            }
        };
        let upload_ms = milliseconds(begin);
        // The first frame touches fresh memory; the second one is timed.
        for _ in 0..if fits { 1 } else { 2 } {
            playing.frame(of_a, of_b)?;
        }
        Ok((upload_ms, playing.times()?, playing.intersector().summary()?))
    }
}
/// Shows the next of the steps of a frame.
fn step(progress: &ProgressBar, message: &'static str) {
    progress.inc(1);
    progress.set_message(message);
}
fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
/// Returns the notes on both clouds, and what questions the answer.
fn remarks_on(
    prepared: &[Prepared; 2],
    names: &[String; 2],
    summary: &Summary,
) -> (Vec<String>, Vec<String>) {
    let of_files = prepared.iter().flat_map(|prepared| prepared.of_file.iter().cloned());
    let units = load::note_on_units(prepared.each_ref().map(|prepared| &prepared.unit));
    let changes = prepared.iter().flat_map(|prepared| prepared.of_surface.changes.iter().cloned());
    let notes = of_files.chain(units).chain(changes).chain(remarks(names, summary)).collect();
    let doubts = prepared.iter().flat_map(|prepared| prepared.of_surface.doubts.iter().cloned());
    (notes, doubts.collect())
}
/// Returns the number of points that later frames may have without new buffers.
pub(crate) fn most_points(points: usize) -> usize {
    (points + points / 4).min(MAX_POINTS.max(points))
}

/// Rejects outputs that overwrite an input, one of the `others` that belong to it, or one another,
/// and files that cannot be written.
fn check_files(global: &Global, frames: &[Frame], others: &[PathBuf]) -> Outcome {
    let of_frame = |Frame { args, .. }: &Frame| Side::BOTH.map(|side| labels_file(&args.out, side));
    let labels = frames.iter().map(of_frame).collect::<Vec<[PathBuf; 2]>>();
    let mut files =
        others.iter().fold(Files::default(), |files, other| files.reads("the buffer", other));
    for (Frame { args, .. }, [of_a, of_b]) in frames.iter().zip(&labels) {
        files = files
            .reads("A", &args.clouds.a)
            .reads("B", &args.clouds.b)
            .may_read("--poses-a", args.poses_a.as_deref())
            .may_read("--poses-b", args.poses_b.as_deref())
            .writes("--out", Some(&args.out))
            .writes("the labels of --out,", Some(of_a))
            .writes("the labels of --out,", Some(of_b))
            .writes("--out-mesh", args.out_mesh.as_deref())
            .writes("--out-cloud", args.out_cloud.as_deref());
    }
    files.writes_json(global.json.as_deref()).check_apart()?;
    global.json_file().map_or(Ok(()), output::check_writable)?;
    for (Frame { args, .. }, labels) in frames.iter().zip(&labels) {
        output::check_replaceable(&args.out)?;
        let named = [args.out_mesh.as_ref(), args.out_cloud.as_ref()];
        let mut all = named.into_iter().flatten().chain(labels);
        all.try_for_each(|file| output::check_writable(file))?;
    }
    Ok(())
}

/// Returns the solids if volumes are wanted and both surfaces are closed, or if a mesh is wanted.
fn solids_if_any(
    intersector: &mut Intersector,
    summary: &Summary,
    args: &Args,
) -> Result<Option<Solids>, IntersectError> {
    let closed =
        Side::BOTH.iter().all(|&side| summary.side(side).measures.is_some_and(|m| !m.open));
    match args.wants_volumes() && closed || args.out_mesh.is_some() {
        true => intersector.solids().map(Some),
        false => Ok(None),
    }
}

/// Writes the mesh and the cloud that the options name. Returns their entry in the report, `None`
/// without `--boolean`.
fn write_boolean(
    args: &Args,
    intersector: &mut Intersector,
    (posed, coordinates): ([(&PointCloud, &Pose); 2], Coordinates),
    solids: Option<&Solids>,
    names: &[String; 2],
) -> Outcome<Option<Written>> {
    let mut boolean = args.boolean.map(|name| Written {
        operation: operation(name),
        triangles: None,
        mesh_ms: None,
        points: None,
    });
    if let (Some(file), Some(name), Some(solids)) = (&args.out_mesh, args.boolean, solids) {
        let begin = Instant::now();
        let made = match args.mesh {
            Some(MeshName::Voxels) => solids.mesh(name.boolean()),
            Some(MeshName::Smooth) | None => solids.smooth_mesh(name.boolean()),
        };
        let mesh_ms = milliseconds(begin);
        output::write_file(file, &files::mesh_ply(&made, coordinates))?;
        if let Some(boolean) = &mut boolean {
            boolean.mesh_ms = Some(mesh_ms);
            boolean.triangles = Some(made.mesh.triangles.len());
        }
    }
    if let Some(file) = &args.out_cloud {
        let points = intersector
            .labelled_points(posed, args.boolean.map(BooleanName::boolean))
            .map_err(|e| failure(e, names))?;
        output::write_file(file, &files::cloud_ply(&points, coordinates))?;
        if let Some(boolean) = &mut boolean {
            boolean.points = Some(points.labels.len());
        }
    }
    Ok(boolean)
}
/// Returns the volumes of the Booleans and the estimates of their errors.
fn volumes(solids: &Solids) -> [Volumes; 2] {
    let found = solids.volumes();
    [found.map(|of| of.volume), found.map(|of| of.error)].map(Volumes::new)
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

/// Returns a progress bar on standard error, drawn only if that is a terminal. It moves on while a
/// long step takes its time.
fn progress_bar(args: &Args, frames: usize) -> ProgressBar {
    let steps = 3 + u64::from(args.wants_volumes()) + u64::from(args.out_mesh.is_some());
    let length = Some(steps * frames as u64);
    let bar = output::progress_bar(length, "{spinner} {bar:30} {msg} {elapsed}");
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(100));
    }
    bar
}
