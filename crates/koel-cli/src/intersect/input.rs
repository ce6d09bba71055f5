//! A or B over all frames: a file, numbered files, or an animated glTF file.
use super::args::Clouds;
use super::load::{self, Loaded, Normals, Notes};
use crate::failure::{Failure, Outcome};
use crate::frames::{Frames, SCANS};
use koel::Device;
use koel_spatial::sample::{MovingSamples, TriangleEnvelope};
use koel_spatial::{DeformingMesh, Grid, PointCloud};
use std::path::{Path, PathBuf};

/// Maximum number of frames of an animation.
const MAX_FRAMES: f64 = 1e5;

/// Where the frames of A or B come from.
pub(crate) enum Input {
    /// A file, the same in all frames.
    Still(PathBuf),
    /// Files with their numbers.
    Files(Vec<(u64, PathBuf)>),
    /// An animation of a mesh.
    Animated(Box<Animated>),
}

/// A mesh that an animation moves. Its points are sampled once, for all frames.
pub(crate) struct Animated {
    path: PathBuf,
    mesh: DeformingMesh,
    clip: usize,
    fps: f64,
    frames: usize,
    /// On the animation and the orientation of the faces.
    notes: Notes,
    /// Triangles that cover those of the frames measured so far.
    envelope: Option<TriangleEnvelope>,
    samples: Option<MovingSamples>,
}

impl Input {
    /// Finds the frames of both clouds. Errors: no files; no such animation; bad input.
    pub(crate) fn both(clouds: &Clouds) -> Outcome<[Input; 2]> {
        let of =
            |path, animation: &Option<String>| Input::of(path, animation.as_deref(), clouds.fps);
        Ok([of(&clouds.a, &clouds.animation_a)?, of(&clouds.b, &clouds.animation_b)?])
    }
    fn of(path: &Path, animation: Option<&str>, fps: f64) -> Outcome<Input> {
        let still = match Frames::of(path, &SCANS)? {
            Frames::One(path) if is_gltf(&path) => {
                return Ok(match Animated::open(&path, animation, fps)? {
                    Some(animated) => Input::Animated(Box::new(animated)),
                    None => Input::Still(path),
                });
            }
            Frames::One(path) => Input::Still(path),
            Frames::Many(files) => Input::Files(files),
        };
        match animation {
            None | Some("none") => Ok(still),
            Some(name) => Err(Failure::Usage(format!(
                "{}: there is no animation {name:?}, expected a glTF file (.gltf, .glb) for it",
                path.display()
            ))),
        }
    }
    /// Returns the numbers of the frames; `None` if all are the same.
    pub(crate) fn numbers(&self) -> Option<Vec<u64>> {
        match self {
            Input::Still(_) => None,
            Input::Files(files) => Some(files.iter().map(|(number, _)| *number).collect()),
            Input::Animated(animated) => Some((0..animated.frames as u64).collect()),
        }
    }
    /// Returns the file of a frame, and its time in an animation.
    pub(crate) fn moment(&self, frame: usize) -> Moment {
        match self {
            Input::Still(path) => Moment { path: path.clone(), seconds: None },
            Input::Files(files) => Moment { path: files[frame].1.clone(), seconds: None },
            Input::Animated(animated) => {
                Moment { path: animated.path.clone(), seconds: Some(animated.seconds(frame)) }
            }
        }
    }
    /// Reads a frame, relative to `origin`, or to its own.
    pub(crate) fn load(&self, frame: usize, origin: Option<[f64; 3]>) -> Outcome<Loaded> {
        match self {
            Input::Animated(animated) => animated.load(frame),
            _ => load::read_one(&self.moment(frame).path, origin),
        }
    }
    /// Makes the positions of an animated mesh relative to this origin. Others are read relative to
    /// it.
    pub(crate) fn set_origin(&mut self, origin: [f64; 3]) {
        if let Input::Animated(animated) = self {
            animated.mesh.set_origin(origin);
        }
    }
    /// Includes a frame that was loaded in those that samples will cover.
    pub(crate) fn measure(&mut self, loaded: &Loaded) -> Outcome {
        match self {
            Input::Animated(animated) => animated.measure(loaded),
            _ => Ok(()),
        }
    }
    /// Returns the points of a frame that was loaded, with normals, and notes on its surface. All
    /// frames of an animated mesh must have been measured.
    pub(crate) fn cloud(
        &mut self,
        loaded: Loaded,
        path: &Path,
        normals: Normals,
        (grid, device): (&Grid, &Device),
    ) -> Outcome<(PointCloud, Notes)> {
        match self {
            Input::Animated(animated) => {
                normals.check_mesh(path)?;
                Ok((animated.cloud(&loaded, grid)?, animated.notes.clone()))
            }
            _ => loaded.cloud(path, grid, normals, device),
        }
    }
}

/// Returns the number of frames, and the number of each: `None` if all frames are the same.
///
/// Errors: both sides have frames, but not as many.
pub(crate) fn numbers(inputs: &[Input; 2], clouds: &Clouds) -> Outcome<Option<Vec<u64>>> {
    match inputs.each_ref().map(Input::numbers) {
        [Some(a), Some(b)] if a.len() != b.len() => Err(Failure::Usage(format!(
            "{} stands for {} frames but {} for {}: expected as many",
            clouds.a.display(),
            a.len(),
            clouds.b.display(),
            b.len()
        ))),
        [a, b] => Ok(a.or(b)),
    }
}

/// The file of a frame, and its time in an animation, in seconds.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Moment {
    pub path: PathBuf,
    pub seconds: Option<f64>,
}

/// Returns whether a file is glTF by its name or its first bytes.
fn is_gltf(path: &Path) -> bool {
    let named = path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("gltf") || e.eq_ignore_ascii_case("glb"));
    let mut magic = [0; 4];
    let read = |mut file: std::fs::File| std::io::Read::read_exact(&mut file, &mut magic);
    named || std::fs::File::open(path).and_then(read).is_ok() && &magic == b"glTF"
}

impl Animated {
    /// Reads a file; `None` if it has no animation or none is wanted.
    fn open(path: &Path, animation: Option<&str>, fps: f64) -> Outcome<Option<Animated>> {
        let mesh = DeformingMesh::read(path).map_err(Failure::input)?;
        let Some(clip) = choose(path, &mesh, animation)? else { return Ok(None) };
        let (name, seconds) = mesh
            .animations()
            .nth(clip)
            .map(|found| (found.name.map(|name| format!("{name:?}")), found.seconds))
            .unwrap_or_default();
        // A last frame at the very end is not lost by rounding.
        let frames = (seconds * fps + 1e-6).floor() + 1.0;
        if frames > MAX_FRAMES {
            return Err(load::in_file(
                path,
                format!(
                    "{seconds} s at {fps} frames a second are {frames} frames, expected at most \
                     {MAX_FRAMES}"
                ),
            ));
        }
        let mut still = mesh.mesh();
        let mut notes = load::orient_mesh(path, &mut still);
        notes.changes.push(format!(
            "{}: animation {} of {seconds} s at {fps} frames a second is {frames} frames",
            path.display(),
            name.unwrap_or(clip.to_string()),
        ));
        let envelope = TriangleEnvelope::new(&still.triangles, &still.positions);
        let mut animated = Animated {
            path: path.into(),
            mesh,
            clip,
            fps,
            frames: frames as usize,
            notes,
            envelope: Some(envelope.map_err(|e| load::in_file(path, e))?),
            samples: None,
        };
        animated.note_mirrored();
        Ok(Some(animated))
    }
    /// Notes frames in which a node mirrors its mesh although it does not without an animation.
    fn note_mirrored(&mut self) {
        let mirrors = |&frame: &usize| self.mesh.turns_inside_out(self.clip, self.seconds(frame));
        let count = (0..self.frames).filter(mirrors).count();
        if count > 0 {
            self.notes.doubts.push(format!(
                "{}: in {count} of {} frames a node mirrors its mesh: normals point inward then",
                self.path.display(),
                self.frames
            ));
        }
    }
    fn seconds(&self, frame: usize) -> f64 {
        frame as f64 / self.fps
    }
    fn load(&self, frame: usize) -> Outcome<Loaded> {
        let seconds = self.seconds(frame);
        let at = self.path.with_file_name(format!(
            "{} at {seconds} s",
            self.path.file_name().unwrap_or_default().display()
        ));
        load::loaded(&at, self.mesh.scan_at(self.clip, seconds))
    }
    fn measure(&mut self, loaded: &Loaded) -> Outcome {
        let Some(envelope) = &mut self.envelope else {
            unreachable!("all frames are measured before the first is sampled")
        };
        envelope.include(loaded.positions()).map_err(|e| load::in_file(&self.path, e))
    }
    fn cloud(&mut self, loaded: &Loaded, grid: &Grid) -> Outcome<PointCloud> {
        let failed = |e| load::in_file(&self.path, e);
        if let Some(envelope) = self.envelope.take() {
            let radius = load::COVERING_RADIUS * grid.voxel_size();
            self.samples = Some(MovingSamples::new(envelope, radius).map_err(failed)?);
        }
        let Some(samples) = &self.samples else { unreachable!("the envelope was sampled") };
        samples.cloud(loaded.positions()).map_err(failed)
    }
}

/// Returns the animation that is wanted: the only one, or that of this name or number. `None` for
/// "none", or if the file has none.
fn choose(path: &Path, mesh: &DeformingMesh, wanted: Option<&str>) -> Outcome<Option<usize>> {
    let names = || mesh.animations().map(|animation| animation.name.unwrap_or("(no name)"));
    let count = mesh.animations().len();
    let listed = || {
        let all = names().enumerate().map(|(i, name)| format!("{i} {name:?}"));
        all.take(16).collect::<Vec<String>>().join(", ")
    };
    let error = |message: String| Err(load::in_file(path, message));
    let Some(wanted) = wanted else {
        return match count {
            0 => Ok(None),
            1 => Ok(Some(0)),
            _ => error(format!(
                "holds {count} animations ({}), expected the name or number of one, or none, as \
                 --animation-a or --animation-b",
                listed()
            )),
        };
    };
    if wanted == "none" {
        return Ok(None);
    }
    let named = (0..count).zip(names()).filter(|(_, name)| *name == wanted);
    let named = named.map(|(i, _)| i).collect::<Vec<usize>>();
    match (&named[..], wanted.parse::<usize>()) {
        (&[one], _) => Ok(Some(one)),
        ([], Ok(i)) if i < count => Ok(Some(i)),
        ([], _) => error(format!("has no animation {wanted:?}, but {count}: {}", listed())),
        (all, _) => error(format!("has {} animations {wanted:?}: expected a number", all.len())),
    }
}

/// Returns both clouds of a frame, relative to one origin: that of A, or of B if A has none.
pub(crate) fn load_both(inputs: &mut [Input; 2], frame: usize) -> Outcome<[Loaded; 2]> {
    let [a, b] = &*inputs;
    let mut loaded = [a.load(frame, None)?, b.load(frame, None)?];
    let [own, other] = loaded.each_ref().map(Loaded::origin);
    let origin = if own == [0.0; 3] { other } else { own };
    for (input, loaded) in inputs.iter_mut().zip(&mut loaded) {
        input.set_origin(origin);
        let moment = input.moment(frame);
        loaded.set_origin(&moment.path, origin)?;
    }
    Ok(loaded)
}
