//! Sequences: the frames that A and B stand for, each with outputs of its own.
use super::args::Args;
use super::load::{self, Loaded};
use crate::failure::{Failure, Outcome};
use crate::frames::{Frames, Pattern, SCANS, numbered};
use koel_spatial::Bounds;
use std::path::PathBuf;

/// Returns the arguments of each frame: files instead of folders and patterns.
///
/// Errors: A and B have different numbers of frames; an output has no pattern.
pub(super) fn frames(args: &Args) -> Outcome<Vec<Args>> {
    let sides = [&args.clouds.a, &args.clouds.b];
    let found = [Frames::of(sides[0], &SCANS)?, Frames::of(sides[1], &SCANS)?];
    let pairs: Vec<(u64, [PathBuf; 2])> = match found {
        [Frames::One(_), Frames::One(_)] => return Ok(vec![args.clone()]),
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
    let outputs = [
        ("--out", "json", Some(&args.out)),
        ("--out-mesh", "ply", args.out_mesh.as_ref()),
        ("--out-cloud", "ply", args.out_cloud.as_ref()),
    ];
    for (option, extension, file) in outputs {
        if file.is_some_and(|file| Pattern::of(file).is_none()) {
            return Err(Failure::Usage(format!(
                "{option}: expected a pattern such as frame-%04d.{extension} for a sequence"
            )));
        }
    }
    let frame = |(number, [a, b]): (u64, [PathBuf; 2])| {
        let of = |file: &Option<PathBuf>| file.as_deref().map(|f| numbered(f, Some(number)));
        let mut frame = args.clone();
        (frame.clouds.a, frame.clouds.b) = (a, b);
        frame.out = numbered(&args.out, Some(number));
        (frame.out_mesh, frame.out_cloud) = (of(&args.out_mesh), of(&args.out_cloud));
        frame
    };
    Ok(pairs.into_iter().map(frame).collect())
}

/// What all frames have in common.
pub(super) struct Common {
    /// Bounds of all clouds.
    pub bounds: Bounds,
    /// What positions are relative to: the origin of the first frame.
    pub origin: [f64; 3],
    /// The only frame, if there is one.
    pub only: Option<[Loaded; 2]>,
}
impl Common {
    /// Reads all files. Keeps those of a single frame; frames of a sequence are read again.
    pub(super) fn of(frames: &[Args]) -> Outcome<Common> {
        let loaded = load::read_both(&frames[0].clouds, None)?;
        let origin = loaded[0].origin();
        let mut bounds = loaded[0].bounds.union(loaded[1].bounds);
        for pair in frames.windows(2) {
            let [before, now] = [&pair[0].clouds, &pair[1].clouds];
            for (before, now) in [(&before.a, &now.a), (&before.b, &now.b)] {
                if before != now {
                    bounds = bounds.union(load::read_one(now, origin)?.bounds);
                }
            }
        }
        Ok(Common { bounds, origin, only: (frames.len() == 1).then_some(loaded) })
    }
}
