//! What a file was, besides its points.

use std::fmt;

use super::{Place, las, pcd, ply, stl};

/// The formats that can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Polygon file format.
    #[default]
    Ply,
    /// Wavefront OBJ.
    Obj,
    /// Point Cloud Data of the Point Cloud Library.
    Pcd,
    /// Stereolithography.
    Stl,
    /// LAS of the ASPRS, for LiDAR.
    Las,
    /// LAS, compressed by LASzip.
    Laz,
}

impl Format {
    /// The format that the content shows, or else the extension names.
    pub(super) fn of(bytes: &[u8], extension: Option<&str>) -> Option<Format> {
        let named = extension.and_then(|e| {
            let of = [("ply", Format::Ply), ("obj", Format::Obj), ("pcd", Format::Pcd), ("stl", Format::Stl)];
            let all = of.into_iter().chain([("las", Format::Las), ("laz", Format::Laz)]);
            all.into_iter().find(|(name, _)| e.eq_ignore_ascii_case(name)).map(|(_, format)| format)
        });
        if ply::starts_as_ply(bytes) {
            Some(Format::Ply)
        } else if las::starts_as_las(bytes) {
            Some(Format::Las)
        } else if stl::is_binary(bytes) {
            Some(Format::Stl)
        } else if named != Some(Format::Obj) && pcd::starts_as_pcd(bytes) {
            Some(Format::Pcd)
        } else if named != Some(Format::Obj) && stl::starts_as_text(bytes) {
            Some(Format::Stl)
        } else {
            named
        }
    }
    /// The fields of a normal.
    pub(crate) fn normal_fields(self) -> &'static str {
        match self {
            Format::Ply => "nx, ny, nz",
            Format::Obj => "vn",
            Format::Pcd => "normal_x, normal_y, normal_z",
            Format::Stl => "of points, which STL has not",
            Format::Las | Format::Laz => "of normals, which LAS has not",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Ply => "PLY",
            Format::Obj => "OBJ",
            Format::Pcd => "PCD",
            Format::Stl => "STL",
            Format::Las => "LAS",
            Format::Laz => "LAZ",
        })
    }
}

/// What a file was, and what was left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadReport {
    /// Its format.
    pub format: Format,
    /// Points of a cloud that were dropped because a coordinate or normal was NaN, infinite or beyond 32-bit floating
    /// point.
    pub dropped: u64,
    /// The unit of length, where the file tells: that of its coordinate system (LAS), or of its header (STL).
    pub unit: Option<String>,
    /// What was subtracted from every coordinate: LAS has coordinates so large that 32-bit floats would lose the
    /// millimetres. Zero for other formats.
    pub origin: [f64; 3],
    /// Where the file declares what a point has.
    pub fields_at: Place,
}
