//! E57 (ASTM E2807): scans of terrestrial laser scanners, by the crate `e57`.
//!
//! That crate checks the pages' sums, and the XML and packets as it reads them. Three things it
//! takes on trust are checked before, because it allocates what they claim: the size of the XML;
//! the number of points, of which a packet of no bytes can claim any; and the fields of one
//! possible value, which take no space in the file, but in memory.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use e57::{E57Reader, PointCloud as Cloud, RecordDataType, RecordName, RecordValue, Transform};
use nalgebra::{Quaternion, UnitQuaternion, Vector3};

use crate::assembly::drop_not_finite;
use crate::error::{ParseError, ParseErrorKind, Place, listed};
use crate::mesh::PointCloud;
use crate::names;
use crate::positions::{Positions, Relative};
use crate::report::{Format, ReadNote, ReadReport};
use crate::scan::Scan;

/// Maximum number of points per byte of the file; more than in any real scan.
const MAX_POINTS_A_BYTE: u64 = 16;
/// Bytes that the crate keeps for a value, in queues that double.
const VALUE_BYTES: u64 = 2 * size_of::<RecordValue>() as u64;
/// Maximum bytes of memory per byte of the file for fields that take no space there. Points with
/// coordinates of 32 bits may have 112 such fields.
const MAX_BYTES_A_BYTE: u64 = 300;
/// Place of the XML's size in a file.
const XML_SIZE: std::ops::Range<usize> = 32..40;
const FIELDS: [&str; 6] = ["x", "y", "z", "nx", "ny", "nz"];

fn fault(at: &str, reason: impl ToString) -> ParseError {
    ParseErrorKind::E57 { at: at.to_owned(), reason: reason.to_string() }.in_file()
}

/// Describes an error and its causes in a line.
fn described(error: e57::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

/// See [`parse_e57`](crate::parse_e57).
pub(crate) fn parse(bytes: &[u8]) -> Result<Scan, ParseError> {
    // The crate is not known to panic, but a file must not terminate the program.
    catch_unwind(AssertUnwindSafe(|| read(bytes)))
        .unwrap_or_else(|_| Err(fault("the file", "the decoder failed")))
}

fn read(bytes: &[u8]) -> Result<Scan, ParseError> {
    if let Some(&size) = bytes.get(XML_SIZE).and_then(<[u8]>::first_chunk) {
        let (size, n) = (u64::from_le_bytes(size), bytes.len());
        if size > n as u64 {
            return Err(fault("the XML", format!("{size} bytes in a file of {n}")));
        }
    }
    let mut reader =
        E57Reader::new(Cursor::new(bytes)).map_err(|e| fault("the file", described(e)))?;
    let clouds = reader.pointclouds();
    let claimed = clouds.iter().map(|cloud| cloud.records).fold(0, u64::saturating_add);
    let most = MAX_POINTS_A_BYTE.saturating_mul(bytes.len() as u64).min(u32::MAX.into());
    if claimed == 0 {
        return Err(ParseErrorKind::NoVertices.in_file());
    }
    if claimed > most {
        let reason =
            format!("{claimed} points in a file of {} bytes, expected at most {most}", bytes.len());
        return Err(fault("all scans", reason));
    }
    let clouds = clouds.iter().filter(|cloud| cloud.records > 0).collect::<Vec<&Cloud>>();
    let layouts = clouds.iter().enumerate().map(|(i, cloud)| Layout::of(cloud, i));
    let layouts = layouts.collect::<Result<Vec<Layout>, ParseError>>()?;
    let has_normals = layouts.iter().all(|layout| layout.normal.is_some());
    let mut points = Points::default();
    for (i, (cloud, layout)) in clouds.iter().zip(&layouts).enumerate() {
        let at = format!("scan {i}");
        let failed = |e| fault(&at, described(e));
        let pose = Motion::of(cloud.transform.as_ref());
        for values in reader.pointcloud_raw(cloud).map_err(failed)? {
            let values = values.map_err(failed)?;
            let value = |column: usize| values[column].to_f64(&cloud.prototype[column].data_type);
            let state = layout.state.map_or(Ok(0.0), value).map_err(failed)?;
            if state != 0.0 {
                points.without_position += 1;
                continue;
            }
            let mut of = [[0.0; 3]; 2];
            let normal = layout.normal.filter(|_| has_normals);
            for (to, columns) in of.iter_mut().zip([Some(layout.position), normal]) {
                for (to, column) in to.iter_mut().zip(columns.into_iter().flatten()) {
                    *to = value(column).map_err(failed)?;
                }
            }
            let position = match layout.is_spherical {
                true => cartesian(of[0]),
                false => of[0],
            };
            points.push(pose.apply(position), has_normals.then(|| pose.turn(of[1])));
        }
    }
    if points.positions.len() == 0 {
        let dropped = points.without_position;
        return Err(ParseErrorKind::NoFinite { dropped }.in_file());
    }
    let mut report = ReadReport {
        format: Format::E57,
        unit: Some("metre".into()),
        fields: layouts.first().map_or(vec![], |layout| layout.names.clone()),
        notes: notes(&layouts, has_normals, points.without_position, reader.images().len()),
        ..ReadReport::default()
    };
    // A scanner is at the origin of its scan.
    if let [only] = clouds[..] {
        let pose = only.transform.as_ref().map(|pose| &pose.translation);
        report.viewpoint = pose.map(|t| [t.x, t.y, t.z]).filter(|t| *t != [0.0; 3]);
    }
    let Relative { positions, origin, rounding } = points.positions.finish();
    report.origin = origin;
    report.notes.extend(rounding.note(Place::File));
    let normals = has_normals.then_some(points.normals);
    let cloud = PointCloud { positions, normals };
    drop_not_finite(Scan { points: cloud, triangles: vec![], report }, points.not_finite)
}

/// Places of the wanted fields among those of a scan's points.
struct Layout {
    names: Vec<String>,
    position: [usize; 3],
    is_spherical: bool,
    /// Whether the position is valid: 0, or has only a direction (1), or none (2).
    state: Option<usize>,
    normal: Option<[usize; 3]>,
}

impl Layout {
    fn of(cloud: &Cloud, index: usize) -> Result<Layout, ParseError> {
        use RecordName::{
            CartesianInvalidState, CartesianX, CartesianY, CartesianZ, SphericalAzimuth,
            SphericalElevation, SphericalInvalidState, SphericalRange,
        };
        let at = format!("scan {index}");
        let find = |name: &RecordName| cloud.prototype.iter().position(|r| r.name == *name);
        let all = |names: [RecordName; 3]| {
            let [a, b, c] = names.each_ref().map(find);
            Some([a?, b?, c?])
        };
        let cartesian = all([CartesianX, CartesianY, CartesianZ]);
        let spherical = all([SphericalRange, SphericalAzimuth, SphericalElevation]);
        let names = cloud.prototype.iter().map(|record| match &record.name {
            RecordName::Unknown { name, .. } => name.clone(),
            known => {
                let name = format!("{known:?}");
                name[..1].to_lowercase() + &name[1..]
            }
        });
        let names = names.collect::<Vec<String>>();
        let (position, is_spherical, state) = match (cartesian, spherical) {
            (Some(position), _) => (position, false, find(&CartesianInvalidState)),
            (None, Some(position)) => (position, true, find(&SphericalInvalidState)),
            (None, None) => {
                let found = names.join(", ");
                let reason = format!(
                    "the fields are {found}, expected cartesianX, cartesianY, cartesianZ, or \
                     sphericalRange, sphericalAzimuth, sphericalElevation"
                );
                return Err(fault(&at, reason));
            }
        };
        let bits = cloud.prototype.iter().map(|record| bits(&record.data_type));
        let bits = bits.collect::<Vec<u64>>();
        let (of_point, without) =
            (bits.iter().sum::<u64>(), bits.iter().filter(|&&bits| bits == 0).count() as u64);
        if of_point == 0 {
            return Err(fault(&at, "no field of its points takes space"));
        }
        // A byte of the file may hold 8 points of a bit.
        if without * VALUE_BYTES * 8 > MAX_BYTES_A_BYTE * of_point {
            let reason = format!(
                "{without} fields of its points take no space beside fields of {of_point} bits, \
                 expected at most {}",
                MAX_BYTES_A_BYTE * of_point / (VALUE_BYTES * 8)
            );
            return Err(fault(&at, reason));
        }
        let normal = names::normal(names.iter().map(String::as_str));
        Ok(Layout { names, position, is_spherical, state, normal })
    }
}

/// Returns the bits that a value takes in the file: none if only one is possible.
fn bits(kind: &RecordDataType) -> u64 {
    match *kind {
        RecordDataType::Single { .. } => 32,
        RecordDataType::Double { .. } => 64,
        RecordDataType::Integer { min, max } | RecordDataType::ScaledInteger { min, max, .. } => {
            let most = (max as i128 - min as i128).max(0) as u64;
            (u64::BITS - most.leading_zeros()).into()
        }
    }
}
fn cartesian([range, azimuth, elevation]: [f64; 3]) -> [f64; 3] {
    let across = range * elevation.cos();
    [across * azimuth.cos(), across * azimuth.sin(), range * elevation.sin()]
}

/// Pose of a scan.
struct Motion {
    rotation: UnitQuaternion<f64>,
    translation: Vector3<f64>,
}

impl Motion {
    fn of(pose: Option<&Transform>) -> Motion {
        let Some(Transform { rotation: q, translation: t }) = pose else {
            return Motion { rotation: UnitQuaternion::identity(), translation: Vector3::zeros() };
        };
        let rotation = UnitQuaternion::from_quaternion(Quaternion::new(q.w, q.x, q.y, q.z));
        Motion { rotation, translation: Vector3::new(t.x, t.y, t.z) }
    }
    fn apply(&self, p: [f64; 3]) -> [f64; 3] {
        (self.rotation * Vector3::from(p) + self.translation).into()
    }
    fn turn(&self, n: [f64; 3]) -> [f64; 3] {
        (self.rotation * Vector3::from(n)).into()
    }
}

/// Points of all scans.
#[derive(Default)]
struct Points {
    positions: Positions,
    normals: Vec<[f32; 3]>,
    without_position: u64,
    /// First coordinate that is not finite.
    not_finite: Option<ParseError>,
}

impl Points {
    fn push(&mut self, position: [f64; 3], normal: Option<[f64; 3]>) {
        for (slot, &value) in position.iter().chain(normal.iter().flatten()).enumerate() {
            if !(value as f32).is_finite() && self.not_finite.is_none() {
                let (vertex, field) = (self.positions.len() as u64, FIELDS[slot]);
                let kind = ParseErrorKind::NotFinite { vertex, field, value };
                self.not_finite = Some(kind.in_file());
            }
        }
        self.positions.push(position);
        self.normals.extend(normal.map(|normal| normal.map(|c| c as f32)));
    }
}

/// Returns notes about the content that is not kept.
fn notes(
    layouts: &[Layout],
    has_normals: bool,
    without_position: u64,
    images: usize,
) -> Vec<ReadNote> {
    let mut notes = vec![];
    let mut note = |count: usize, text: String| {
        if count > 0 {
            notes.push(ReadNote { place: Place::File, text });
        }
    };
    if layouts.len() > 1 {
        note(1, format!("{} scans became one cloud", layouts.len()));
    }
    let with_normals = layouts.iter().filter(|layout| layout.normal.is_some()).count();
    if !has_normals {
        let all = layouts.len();
        note(with_normals, format!("{with_normals} of {all} scans have normals: not kept"));
    }
    let n = without_position;
    note(n as usize, format!("{n} points without a position were not kept"));
    let mut others = vec![];
    for layout in layouts {
        let normal = layout.normal.filter(|_| has_normals);
        let kept =
            layout.position.into_iter().chain(layout.state).chain(normal.into_iter().flatten());
        let kept = kept.collect::<Vec<usize>>();
        for (_, name) in layout.names.iter().enumerate().filter(|(i, _)| !kept.contains(i)) {
            if !others.contains(&name.as_str()) {
                others.push(name.as_str());
            }
        }
    }
    note(others.len(), format!("fields not kept: {}", listed(&others)));
    note(images, format!("{images} images were not read"));
    notes
}
