//! Sequences: the frames that A and B stand for, each with outputs of its own.
use super::args::Args;
use super::load::{self, Loaded};
use super::pose;
use super::space::Space;
use crate::failure::{Failure, Outcome};
use crate::frames::{Frames, Pattern, SCANS, numbered};
use koel_spatial::Bounds;
use koel_spatial::intersect::Pose;
use std::path::PathBuf;

/// Returns the arguments of each frame: files instead of folders and patterns, and a pose instead
/// of a file of poses.
///
/// Errors: A, B and files of poses have different numbers of frames; an output has no pattern.
pub(super) fn frames(args: &Args) -> Outcome<Vec<Args>> {
    let poses = [&args.poses_a, &args.poses_b].map(|file| file.as_deref().map(pose::read));
    let [of_a, of_b] = poses.map(Option::transpose);
    let poses = [of_a?, of_b?];
    let files = files(args, &poses)?;
    for (file, poses) in [&args.poses_a, &args.poses_b].into_iter().zip(&poses) {
        if let (Some(file), Some(poses)) = (file, poses)
            && poses.len() != files.len()
        {
            return Err(Failure::Usage(format!(
                "{} has {} poses for {} frames: expected as many",
                file.display(),
                poses.len(),
                files.len()
            )));
        }
    }
    let outputs = [
        ("--out", "json", Some(&args.out)),
        ("--out-mesh", "ply", args.out_mesh.as_ref()),
        ("--out-cloud", "ply", args.out_cloud.as_ref()),
    ];
    let is_sequence = files.iter().any(|(number, _)| number.is_some());
    for (option, extension, file) in outputs {
        if is_sequence && file.is_some_and(|file| Pattern::of(file).is_none()) {
            return Err(Failure::Usage(format!(
                "{option}: expected a pattern such as frame-%04d.{extension} for a sequence"
            )));
        }
    }
    let frame = |(i, (number, [a, b])): (usize, (Option<u64>, [PathBuf; 2]))| {
        let of = |file: &Option<PathBuf>| file.as_deref().map(|f| numbered(f, number));
        let [pose_a, pose_b] = poses.each_ref().map(|poses| poses.as_ref().map(|poses| poses[i]));
        let mut frame = args.clone();
        (frame.clouds.a, frame.clouds.b) = (a, b);
        frame.out = numbered(&args.out, number);
        (frame.out_mesh, frame.out_cloud) = (of(&args.out_mesh), of(&args.out_cloud));
        (frame.pose_a, frame.pose_b) = (pose_a.or(args.pose_a), pose_b.or(args.pose_b));
        frame
    };
    Ok(files.into_iter().enumerate().map(frame).collect())
}

/// Returns the files of each frame with its number. Without folders and patterns, the number of
/// poses decides; a single frame has no number.
fn files(args: &Args, poses: &[Option<Vec<Pose>>; 2]) -> Outcome<Vec<(Option<u64>, [PathBuf; 2])>> {
    let sides = [&args.clouds.a, &args.clouds.b];
    let found = [Frames::of(sides[0], &SCANS)?, Frames::of(sides[1], &SCANS)?];
    let pairs: Vec<(u64, [PathBuf; 2])> = match found {
        [Frames::One(a), Frames::One(b)] => {
            return Ok(match poses.iter().flatten().map(Vec::len).max() {
                None | Some(1) => vec![(None, [a, b])],
                Some(n) => (0..n as u64).map(|i| (Some(i), [a.clone(), b.clone()])).collect(),
            });
        }
        [Frames::Many(a), Frames::One(b)] => {
            a.into_iter().map(|(number, a)| (number, [a, b.clone()])).collect()
        }
        [Frames::One(a), Frames::Many(b)] => {
            b.into_iter().map(|(number, b)| (number, [a.clone(), b])).collect()
        }
        [Frames::Many(a), Frames::Many(b)] if a.len() == b.len() => {
            a.into_iter().zip(b).map(|((number, a), (_, b))| (number, [a, b])).collect()
        }
        [Frames::Many(a), Frames::Many(b)] => {
            return Err(Failure::Usage(format!(
                "{} stands for {} frames but {} for {}: expected as many",
                sides[0].display(),
                a.len(),
                sides[1].display(),
                b.len()
            )));
        }
    };
    Ok(pairs.into_iter().map(|(number, pair)| (Some(number), pair)).collect())
}

/// What all frames have in common.
pub(super) struct Common {
    /// Bounds of all clouds in their poses, relative to `origin`.
    pub bounds: Bounds,
    /// What positions in files that are read are relative to: the origin of the first frame.
    pub read_origin: [f64; 3],
    /// What positions in their poses are relative to.
    pub origin: [f64; 3],
    /// The only frame, if there is one.
    pub only: Option<[Loaded; 2]>,
}
impl Common {
    /// Reads all files. Keeps those of a single frame; frames of a sequence are read again.
    pub(super) fn of(frames: &[Args]) -> Outcome<Common> {
        let mut loaded = load::read_both(&frames[0].clouds, None)?;
        let read_origin = loaded[0].origin();
        let mut space = Space::around(&loaded, frames[0].poses(), read_origin);
        for pair in frames.windows(2) {
            let [before, now] = [&pair[0].clouds, &pair[1].clouds];
            let paths = [(&before.a, &now.a), (&before.b, &now.b)];
            for (loaded, (before, now)) in loaded.iter_mut().zip(paths) {
                if before != now {
                    *loaded = load::read_one(now, read_origin)?;
                }
            }
            space = space.union(Space::around(&loaded, pair[1].poses(), read_origin));
        }
        let moves = frames.iter().any(|frame| frame.poses() != [Pose::IDENTITY; 2]);
        let origin = if moves { space.origin(read_origin) } else { read_origin };
        let bounds = space.bounds(read_origin, origin)?;
        Ok(Common { bounds, read_origin, origin, only: (frames.len() == 1).then_some(loaded) })
    }
}
