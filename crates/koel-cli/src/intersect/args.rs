//! What `koel intersect` understands.
use crate::failure::{Failure, Outcome};
use clap::ValueEnum;
use koel_spatial::intersect::{Boolean, Method, PaperOptions, RobustOptions};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  koel intersect bunny.ply dragon.ply --grid 256 --out report.json
  koel intersect a.ply b.obj --grid 128 --out report.json --boolean union --out-mesh union.ply
  koel intersect scan1.pcd scan2.laz --estimate-normals --grid 256 --out report.json --out-cloud labelled.ply
  koel intersect a.ply b.ply --grid 128 --out report.json --method paper --inside-above 110 --outside-below 70

Label 0 is unknown, 1 intersection (both occupy the voxel), 2 inside the other solid, 3 outside it. report.json names two files of
labels beside it: rows i, j, k, label of 32-bit little-endian integers, each occupied voxel once; voxel (i, j, k) begins at
origin + voxel_size (i, j, k). Surfaces must be closed for volumes and meshes; normals point outward.";

/// Where two scans or meshes intersect, which part of each is inside the other; their Booleans
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    pub clouds: Clouds,
    /// Where the report goes (JSON); the labels go beside it
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// The Boolean to write
    #[arg(long, value_enum, value_name = "union|intersection|difference|reverse-difference")]
    pub boolean: Option<BooleanName>,
    /// Write the Boolean as a watertight surface of voxels (PLY)
    #[arg(long, value_name = "FILE", requires = "boolean")]
    pub out_mesh: Option<PathBuf>,
    /// Write the labelled points, those that bound the Boolean if there is one (PLY)
    #[arg(long, value_name = "FILE")]
    pub out_cloud: Option<PathBuf>,
}

/// Two clouds, and how they are labelled: what `koel intersect` and `koel view` share
#[derive(clap::Args, Debug)]
pub struct Clouds {
    /// The first: a point cloud with normals, or a triangle mesh
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// The second
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// Voxels along a side of the grid around both
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(8..=1024))]
    pub grid: u32,
    /// How inside is told from outside: robust, or as published in 2009
    #[arg(long, value_enum, default_value = "robust", value_name = "robust|paper")]
    pub method: MethodName,
    /// Estimate the normals of clouds that have none
    #[arg(long)]
    pub estimate_normals: bool,
    /// Take both surfaces for closed, holes and all
    #[arg(long)]
    pub assume_closed: bool,
    /// Method paper: a step away from the intersection leads inside from this angle to the other's
    /// normal on, in degrees
    #[arg(long, value_name = "DEGREES", default_value_t = 110.0)]
    pub inside_above: f64,
    /// Method paper: and outside up to this angle
    #[arg(long, value_name = "DEGREES", default_value_t = 70.0)]
    pub outside_below: f64,
}
impl Clouds {
    /// For people.
    pub fn names(&self) -> [String; 2] {
        [&self.a, &self.b].map(|path| path.display().to_string())
    }
    /// Of method robust.
    pub fn robust(&self) -> RobustOptions {
        RobustOptions { assume_closed: self.assume_closed }
    }
    /// Of method paper.
    pub fn paper(&self) -> PaperOptions {
        let (inside_above, outside_below) = (self.inside_above, self.outside_below);
        PaperOptions { inside_above, outside_below, ..PaperOptions::default() }
    }
}

/// `--method`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum MethodName {
    /// Winding numbers.
    Robust,
    /// Seeds and flood.
    Paper,
}
/// `--boolean`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum BooleanName {
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
    /// For the library.
    pub fn boolean(self) -> Boolean {
        match self {
            BooleanName::Union => Boolean::Union,
            BooleanName::Intersection => Boolean::Intersection,
            BooleanName::Difference => Boolean::Difference,
            BooleanName::ReverseDifference => Boolean::ReverseDifference,
        }
    }
}

impl Args {
    /// The method, with its options.
    pub fn method(&self) -> Outcome<Method> {
        match self.clouds.method {
            MethodName::Robust => Ok(Method::Robust(self.clouds.robust())),
            MethodName::Paper if self.out_mesh.is_some() => {
                Err(Failure::Usage("--out-mesh: Booleans are made by method robust only".into()))
            }
            MethodName::Paper => Ok(Method::Paper(self.clouds.paper())),
        }
    }
}
