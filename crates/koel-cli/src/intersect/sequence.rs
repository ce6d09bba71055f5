//! Sequences: the frames that A and B stand for, each with outputs of its own.
use super::args::Args;
use super::input::{self, Input, Moment};
use super::load::Loaded;
use super::pose;
use super::space::Space;
use crate::failure::{Failure, Outcome};
use crate::frames::{Pattern, numbered};
use koel_spatial::Bounds;
use koel_spatial::intersect::Pose;
use std::path::PathBuf;

/// A frame: its arguments, with a pose instead of a file of poses, and what it shows of A and B.
pub(super) struct Frame {
    pub args: Args,
    pub moments: [Moment; 2],
}

/// Returns the frames. Without sequences of A and B, the number of poses decides; a single frame
/// has no number.
///
/// Errors: A, B and files of poses have different numbers of frames; an output has no pattern.
pub(super) fn frames(args: &Args, inputs: &[Input; 2]) -> Outcome<Vec<Frame>> {
    let poses = [&args.poses_a, &args.poses_b].map(|file| file.as_deref().map(pose::read));
    let [of_a, of_b] = poses.map(Option::transpose);
    let poses = [of_a?, of_b?];
    let numbers = match input::numbers(inputs, &args.clouds)? {
        Some(numbers) => numbers.into_iter().map(Some).collect(),
        None => match poses.iter().flatten().map(Vec::len).max() {
            None | Some(1) => vec![None],
            Some(n) => (0..n as u64).map(Some).collect::<Vec<Option<u64>>>(),
        },
    };
    for (file, poses) in [&args.poses_a, &args.poses_b].into_iter().zip(&poses) {
        if let (Some(file), Some(poses)) = (file, poses)
            && poses.len() != numbers.len()
        {
            return Err(Failure::Usage(format!(
                "{} has {} poses for {} frames: expected as many",
                file.display(),
                poses.len(),
                numbers.len()
            )));
        }
    }
    let outputs = [
        ("--out", "json", Some(&args.out)),
        ("--out-mesh", "ply", args.out_mesh.as_ref()),
        ("--out-cloud", "ply", args.out_cloud.as_ref()),
    ];
    let is_sequence = numbers.iter().any(Option::is_some);
    for (option, extension, file) in outputs {
        if is_sequence && file.is_some_and(|file| Pattern::of(file).is_none()) {
            return Err(Failure::Usage(format!(
                "{option}: expected a pattern such as frame-%04d.{extension} for a sequence"
            )));
        }
    }
    let frame = |(i, number): (usize, Option<u64>)| {
        let of = |file: &Option<PathBuf>| file.as_deref().map(|f| numbered(f, number));
        let [pose_a, pose_b] = poses.each_ref().map(|poses| poses.as_ref().map(|poses| poses[i]));
        let moments = inputs.each_ref().map(|input| input.moment(i));
        let mut args = args.clone();
        let [a, b] = moments.each_ref().map(|moment| moment.path.clone());
        (args.clouds.a, args.clouds.b) = (a, b);
        args.out = numbered(&args.out, number);
        (args.out_mesh, args.out_cloud) = (of(&args.out_mesh), of(&args.out_cloud));
        (args.pose_a, args.pose_b) = (pose_a.or(args.pose_a), pose_b.or(args.pose_b));
        Frame { args, moments }
    };
    Ok(numbers.into_iter().enumerate().map(frame).collect())
}

/// What all frames have in common.
pub(super) struct Common {
    /// Bounds of all clouds in their poses, relative to `origin`.
    pub bounds: Bounds,
    /// What positions in files that are read are relative to: the origin of the first frame.
    pub read_origin: [f64; 3],
    /// What positions in their poses are relative to.
    pub origin: [f64; 3],
    /// Clouds that are the same in all frames.
    pub still: [Option<Loaded>; 2],
    /// Other files that were read: an output must not replace one.
    pub other_files: Vec<PathBuf>,
}
impl Common {
    /// Reads all frames. Keeps clouds that all frames share; others are read again.
    pub(super) fn of(frames: &[Frame], inputs: &mut [Input; 2]) -> Outcome<Common> {
        let mut loaded = input::load_both(inputs, 0)?;
        let read_origin = loaded[0].origin();
        let mut other_files: Vec<PathBuf> = vec![];
        let mut space = Space::around(&loaded, frames[0].args.poses(), read_origin);
        for (i, frame) in frames.iter().enumerate() {
            for (side, input) in inputs.iter_mut().enumerate() {
                let moment = &frame.moments[side];
                if i > 0 && *moment == frames[i - 1].moments[side] {
                    continue;
                }
                if i > 0 {
                    loaded[side] = input.load(i, Some(read_origin))?;
                }
                input.measure(&loaded[side])?;
                for file in loaded[side].other_files() {
                    if !other_files.contains(file) {
                        other_files.push(file.clone());
                    }
                }
            }
            space = space.union(Space::around(&loaded, frame.args.poses(), read_origin));
        }
        let moves = frames.iter().any(|frame| frame.args.poses() != [Pose::IDENTITY; 2]);
        let origin = if moves { space.origin(read_origin) } else { read_origin };
        let bounds = space.bounds(read_origin, origin)?;
        let [a, b] = loaded;
        let is_still =
            |side: usize| frames.iter().all(|f| f.moments[side] == frames[0].moments[side]);
        let still = [is_still(0).then_some(a), is_still(1).then_some(b)];
        Ok(Common { bounds, read_origin, origin, still, other_files })
    }
}
