//! Properties of a file other than its points.

use std::fmt;
use std::path::PathBuf;

use crate::error::Place;

/// Supported formats.
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
    /// glTF 2.0, as text or binary.
    Gltf,
    /// Object file format of Geomview.
    Off,
    /// Text with a point on each line.
    Xyz,
    /// E57 of the ASTM.
    E57,
}

impl Format {
    /// Returns the names of the fields for normals.
    pub(crate) fn normal_fields(self) -> &'static str {
        match self {
            Format::Ply => "nx, ny, nz, or normal_x, normal_y, normal_z",
            Format::Obj => "vn",
            Format::Pcd => "normal_x, normal_y, normal_z",
            Format::Stl => "for point normals, which STL lacks",
            Format::Las | Format::Laz => "NormalX, NormalY, NormalZ of the extra bytes",
            Format::Gltf => "for points, of which glTF is not read",
            Format::Off => "nx, ny, nz after NOFF",
            Format::Xyz => "nx, ny, nz",
            Format::E57 => "normalX, normalY, normalZ",
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
            Format::Gltf => "glTF",
            Format::Off => "OFF",
            Format::Xyz => "XYZ",
            Format::E57 => "E57",
        })
    }
}

/// Format of the file, and what was omitted.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ReadReport {
    /// Format of the file.
    pub format: Format,
    /// Number of points of a cloud that were dropped because a coordinate or normal was NaN,
    /// infinite or beyond 32-bit floating point.
    pub dropped: u64,
    /// Unit of length, if the file specifies it, in its coordinate system (LAS) or header (STL), or
    /// if the format does (glTF).
    pub unit: Option<String>,
    /// Value subtracted from every coordinate, where 32-bit floats would lose digits: always for
    /// LAS; for 64-bit coordinates of PLY and PCD, for OBJ and for glTF, if the points are at least
    /// eight times as far from zero as their box is long. Zero otherwise.
    pub origin: [f64; 3],
    /// Position of the sensor in the file's coordinates, if the file states one: VIEWPOINT of PCD,
    /// unless it is the identity, which programs write when they know none.
    pub viewpoint: Option<[f64; 3]>,
    /// Place where the file declares the fields of a point.
    pub fields_at: Place,
    /// Names of the fields of a point, where the file names them.
    pub fields: Vec<String>,
    /// Content that a scan does not keep, or keeps in another form.
    pub notes: Vec<ReadNote>,
    /// Other files that were read: buffers of glTF.
    pub files: Vec<PathBuf>,
}

/// Content of a file that a scan does not keep, or keeps in another form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadNote {
    /// Place of the content, or of its first occurrence.
    pub place: Place,
    /// Description with numbers.
    pub text: String,
}

impl fmt::Display for ReadNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.text)
    }
}

/// Coordinates that lose digits in 32 bits.
#[derive(Default)]
pub(crate) struct Rounding {
    count: u64,
    most: f64,
}

impl Rounding {
    /// Rounds a 64-bit coordinate to 32 bits and counts it if its value changes. Values that are
    /// not finite are dropped elsewhere.
    pub(crate) fn narrow(&mut self, value: f64) -> f32 {
        let narrow = value as f32;
        let by = (f64::from(narrow) - value).abs();
        if by > 0.0 && by.is_finite() {
            self.count += 1;
            self.most = self.most.max(by);
        }
        narrow
    }
    /// Returns the coordinates of both.
    pub(crate) fn and(self, other: Rounding) -> Rounding {
        Rounding { count: self.count + other.count, most: self.most.max(other.most) }
    }
    pub(crate) fn note(&self, place: Place) -> Option<ReadNote> {
        let Rounding { count, most } = *self;
        let text =
            format!("{count} 64-bit coordinates were rounded to 32 bits, by at most {most:e}");
        (count > 0).then_some(ReadNote { place, text })
    }
}
