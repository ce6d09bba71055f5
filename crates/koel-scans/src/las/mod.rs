//! LAS (ASPRS, versions 1.0 to 1.4, point formats 0 to 10), and LAZ, its variant with points
//! compressed by LASzip.

mod extra;
mod header;
#[cfg(feature = "laz")]
mod laz;
mod points;
mod unit;

use crate::assembly::drop_not_finite;
use crate::error::{ParseError, ParseErrorKind, Place};
use crate::mesh::PointCloud;
use crate::report::{Format, ReadReport};
use crate::scan::Scan;
use extra::Extra;
use header::Header;
use points::Points;

pub(crate) use header::starts_as_las;

/// Reads a LAS or LAZ file from memory.
///
/// Coordinates are scaled as the header specifies and made relative to an
/// [origin](ReadReport::origin): the first point, rounded down to whole units. The unit is that of
/// the projected coordinates, if a record specifies it. Extra bytes that a record before the points
/// names NormalX, NormalY and NormalZ, or nx and the like, are normals. Other fields of a point and
/// data after the points are skipped and [noted](ReadReport::notes). LAZ needs the feature `laz`; a
/// compressed point may have at most 1,024 bytes, and there may be at most 16 compressed points per
/// byte of the file. Time is linear in the file's size.
///
/// # Errors
/// [`ParseError`] with the byte at fault.
pub fn parse_las(bytes: &[u8]) -> Result<Scan, ParseError> {
    if bytes.is_empty() {
        return Err(ParseErrorKind::Empty.in_file());
    }
    let header = Header::parse(bytes)?;
    let records = header.records(bytes)?;
    let Extra { names, normal } = Extra::of(&records, header.format, header.point_bytes);
    let mut points = Points {
        header: &header,
        normal,
        origin: None,
        positions: Vec::new(),
        normals: Vec::new(),
        not_finite: None,
    };
    if header.compressed {
        compressed(bytes, &header, &mut points)?;
    } else {
        let (length, size) = (
            u64::from(header.point_bytes),
            header.points.saturating_mul(header.point_bytes.into()),
        );
        let data = &bytes[header.points_at..];
        if (data.len() as u64) < size {
            let (element, expected, found) =
                ("point".to_owned(), header.points, data.len() as u64 / length);
            let kind = ParseErrorKind::Truncated { element, expected, found };
            return Err(kind.at(Place::Byte(bytes.len() as u64)));
        }
        points.positions.reserve_exact(header.points as usize);
        points.normals.reserve_exact(normal.map_or(0, |_| header.points as usize));
        for (index, point) in data[..size as usize].chunks_exact(length as usize).enumerate() {
            points.push(point, Place::Byte(header.points_at as u64 + index as u64 * length));
        }
    }
    let report = ReadReport {
        format: if header.compressed { Format::Laz } else { Format::Las },
        unit: unit::of_records(&records),
        origin: points.origin.unwrap_or_default(),
        fields_at: Place::Byte(104),
        notes: header.not_kept(bytes, normal.is_some()),
        fields: ["x", "y", "z"].into_iter().map(str::to_owned).chain(names).collect(),
        ..ReadReport::default()
    };
    let normals = normal.map(|_| points.normals);
    let cloud = PointCloud { positions: points.positions, normals };
    drop_not_finite(Scan { points: cloud, triangles: Vec::new(), report }, points.not_finite)
}

#[cfg(feature = "laz")]
fn compressed(bytes: &[u8], header: &Header, points: &mut Points<'_>) -> Result<(), ParseError> {
    laz::unpack(bytes, header, points)
}
#[cfg(not(feature = "laz"))]
fn compressed(_: &[u8], _: &Header, _: &mut Points<'_>) -> Result<(), ParseError> {
    Err(ParseErrorKind::Unsupported { format: "LAZ", feature: "laz" }.in_file())
}
