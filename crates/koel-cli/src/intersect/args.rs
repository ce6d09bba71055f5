//! Options of `koel intersect`.
use super::pose;
use crate::failure::{Failure, Outcome};
use clap::ValueEnum;
use koel_spatial::intersect::{Boolean, Method, PaperOptions, Pose, RobustOptions};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  koel intersect bunny.ply dragon.ply --grid 256 --out report.json
  koel intersect a.ply b.obj --grid 128 --out report.json --boolean union --out-mesh union.ply
  koel intersect a.ply b.ply --out report.json --volumes
  koel intersect scan1.pcd scan2.laz --estimate-normals --out report.json --out-cloud labels.ply
  koel intersect scan1.pcd scan2.laz --estimate-normals --viewpoint-a 0,0,1.5 --out report.json
  koel intersect a.ply b.ply --out report.json --method paper --inside-above 110 --outside-below 70
  koel intersect a.ply b.ply --grid 32 --out report.json --strict
  koel intersect walk-%03d.ply room.ply --out report-%03d.json --json -
  koel intersect walk.glb room.ply --fps 4 --out report-%03d.json --json - --recorded
  koel intersect a.ply b.ply --out report.json --pose-b 0.5,0,0,0,0,30
  koel intersect a.ply b.ply --out report-%03d.json --poses-b path.txt

Files may be PLY, PCD, OBJ, STL, OFF, XYZ, LAS, LAZ, E57 or glTF; the content tells which, or else
the name.

A and B may be a file, a folder of frames, or a pattern of frames such as walk-%03d.ply. A glTF file
with an animation is a sequence: frame i is the mesh i / fps seconds after its start. All frames
share one grid, and outputs are patterns; the JSON of a sequence has one object per line.

A pose turns a cloud around the origin of its file's coordinates, then moves it. Its numbers are
separated by commas or blanks; lengths are in the file's units:
  3 numbers   translation x, y, z
  6 numbers   translation, then a rotation vector: its direction is the axis, its length the angle
              in degrees, counterclockwise seen from its tip
  7 numbers   translation, then a unit quaternion x, y, z, w; 8: the same after a time (ignored)
  12, 16      rows of the 3 x 4 matrix [rotation, translation], or of 4 x 4 with a last row 0 0 0 1
A file of poses has one on each line, for one frame each; lines that begin with # are skipped. The
report has both poses as `pose` of `a` and `b`; all results are in the coordinates after the poses.

Labels: 0 unknown, 1 intersection (both surfaces occupy the voxel), 2 inside the other solid,
3 outside it. report.json names two label files next to it. Each has one row per occupied voxel:
i, j, k, label, as 32-bit little-endian integers. The corner of voxel (i, j, k) is
origin + voxel_size (i, j, k). Volumes and meshes need closed surfaces; normals point outward.
Volumes are computed only with --volumes or --boolean: they take several times as long as the rest.
`volume_errors` of the report estimates how far each of `volumes` may be off.";

/// Find where two scans or meshes intersect, which part of each is inside the other, and Booleans
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub clouds: Clouds,
    /// File for the report (JSON); the label files go next to it. For a sequence a pattern, such as
    /// report-%04d.json
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Record a frame once and replay it, on a GPU as a CUDA graph; stages are then not timed
    #[arg(long)]
    pub recorded: bool,
    /// Report the volumes of all Booleans, with estimates of their errors
    #[arg(long)]
    pub volumes: bool,
    /// Boolean to compute; the report then has volumes, too
    #[arg(long, value_enum, value_name = "union|intersection|difference|reverse-difference")]
    pub boolean: Option<BooleanName>,
    /// Write the surface of the Boolean as a watertight mesh (PLY)
    #[arg(long, value_name = "FILE", requires = "boolean")]
    pub out_mesh: Option<PathBuf>,
    /// Kind of that mesh: smooth, with sharp creases and vertex normals; or the faces of the voxels
    /// [default: smooth]
    #[arg(long, value_enum, value_name = "smooth|voxels", requires = "out_mesh")]
    pub mesh: Option<MeshName>,
    /// Write the labelled points (PLY); with --boolean, only those that bound it
    #[arg(long, value_name = "FILE")]
    pub out_cloud: Option<PathBuf>,
    /// Pose of A: a translation x,y,z and a rotation, in one of the forms below [default: as in the
    /// file]
    #[arg(
        long, value_name = "X,Y,Z[,...]", value_parser = pose::parse,
        allow_hyphen_values = true, conflicts_with = "poses_a"
    )]
    pub pose_a: Option<Pose>,
    /// Pose of B
    #[arg(
        long, value_name = "X,Y,Z[,...]", value_parser = pose::parse,
        allow_hyphen_values = true, conflicts_with = "poses_b"
    )]
    pub pose_b: Option<Pose>,
    /// Poses of A, one on each line, for one frame each: a sequence even if A is a single file
    #[arg(long, value_name = "FILE")]
    pub poses_a: Option<PathBuf>,
    /// Poses of B
    #[arg(long, value_name = "FILE")]
    pub poses_b: Option<PathBuf>,
    /// Exit with status 3 if something questions the answer: `doubts` of the report
    #[arg(long)]
    pub strict: bool,
}

/// Maximum voxels per side of the grid.
pub(super) const MAX_GRID: u32 = 1024;

/// Two clouds and how they are labelled, shared by `koel intersect` and `koel view`
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Clouds {
    /// First cloud: a point cloud with normals, or a triangle mesh
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// Second cloud
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// Voxels per side of the grid around both clouds, 8 to 1024
    #[arg(
        long, value_name = "N", default_value_t = 128,
        value_parser = clap::value_parser!(u32).range(8..=i64::from(MAX_GRID))
    )]
    pub grid: u32,
    /// How to tell inside from outside: robust (winding numbers), or paper (as published in 2009)
    #[arg(long, value_enum, default_value = "robust", value_name = "robust|paper")]
    pub method: MethodName,
    /// Animation of A, a glTF file: its name or number, or none to show A as it is without one
    /// [default: the only one, if there is one]
    #[arg(long, value_name = "NAME|INDEX|none")]
    pub animation_a: Option<String>,
    /// Animation of B
    #[arg(long, value_name = "NAME|INDEX|none")]
    pub animation_b: Option<String>,
    /// Frames a second of animations; `koel view` also plays numbered files at this rate
    #[arg(long, value_name = "N", default_value_t = 30.0, value_parser = frames_per_second)]
    pub fps: f64,
    /// Estimate the normals of clouds that have none
    #[arg(long)]
    pub estimate_normals: bool,
    /// Estimated normals of A face this position of a scanner, in the file's coordinates [default:
    /// VIEWPOINT of a PCD file; without one they point outward]
    #[arg(
        long, value_name = "X,Y,Z", value_parser = pose::parse_position,
        allow_hyphen_values = true, requires = "estimate_normals"
    )]
    pub viewpoint_a: Option<[f64; 3]>,
    /// Estimated normals of B face this position
    #[arg(
        long, value_name = "X,Y,Z", value_parser = pose::parse_position,
        allow_hyphen_values = true, requires = "estimate_normals"
    )]
    pub viewpoint_b: Option<[f64; 3]>,
    /// Treat both surfaces as closed, even if they have holes
    #[arg(long)]
    pub assume_closed: bool,
    /// With --method paper: a step away from the intersection leads inside if its angle to the
    /// other surface's normal is at least this, in degrees
    #[arg(long, value_name = "DEGREES", default_value_t = 110.0)]
    pub inside_above: f64,
    /// With --method paper: it leads outside if the angle is at most this, in degrees
    #[arg(long, value_name = "DEGREES", default_value_t = 70.0)]
    pub outside_below: f64,
}
impl Clouds {
    /// Returns the file names for display.
    pub(crate) fn names(&self) -> [String; 2] {
        [&self.a, &self.b].map(|path| path.display().to_string())
    }
    /// Returns the options of method robust.
    pub(crate) fn robust(&self) -> RobustOptions {
        RobustOptions::default().with_assume_closed(self.assume_closed)
    }
    /// Returns the options of method paper.
    pub(crate) fn paper(&self) -> PaperOptions {
        let (inside_above, outside_below) = (self.inside_above, self.outside_below);
        PaperOptions::default().with_inside_above(inside_above).with_outside_below(outside_below)
    }
}

/// Parses `--fps`.
fn frames_per_second(text: &str) -> Result<f64, String> {
    let fps = text.parse::<f64>().ok().filter(|fps| (1e-3..=1e3).contains(fps));
    fps.ok_or_else(|| "expected 0.001 to 1000".into())
}

/// `--method`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum MethodName {
    /// Winding numbers.
    Robust,
    /// Seeds and flood fill.
    Paper,
}
/// `--mesh`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum MeshName {
    /// Dual contouring.
    Smooth,
    /// Faces of voxels.
    Voxels,
}
/// `--boolean`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum BooleanName {
    /// In A or B.
    Union,
    /// In both.
    Intersection,
    /// In A, not in B.
    Difference,
    /// In B, not in A.
    ReverseDifference,
}
impl BooleanName {
    /// Converts to the library's type.
    pub(crate) fn boolean(self) -> Boolean {
        match self {
            BooleanName::Union => Boolean::Union,
            BooleanName::Intersection => Boolean::Intersection,
            BooleanName::Difference => Boolean::Difference,
            BooleanName::ReverseDifference => Boolean::ReverseDifference,
        }
    }
}

impl Args {
    /// Returns whether the report has volumes if both surfaces are closed.
    pub(super) fn wants_volumes(&self) -> bool {
        self.volumes || self.boolean.is_some()
    }
    /// Returns the poses of A and B in this frame.
    pub(super) fn poses(&self) -> [Pose; 2] {
        [self.pose_a, self.pose_b].map(Option::unwrap_or_default)
    }
    /// Returns the method with its options.
    pub(crate) fn method(&self) -> Outcome<Method> {
        match self.clouds.method {
            MethodName::Robust => Ok(Method::Robust(self.clouds.robust())),
            MethodName::Paper if self.out_mesh.is_some() => {
                Err(Failure::Usage("--out-mesh: only method robust computes Booleans".into()))
            }
            MethodName::Paper if self.recorded => {
                Err(Failure::Usage("--recorded: only frames of method robust are recorded".into()))
            }
            MethodName::Paper if self.volumes => {
                Err(Failure::Usage("--volumes: only method robust computes volumes".into()))
            }
            MethodName::Paper => Ok(Method::Paper(self.clouds.paper())),
        }
    }
}
