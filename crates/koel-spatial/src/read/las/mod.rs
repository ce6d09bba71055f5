//! LAS (ASPRS, versions 1.0 to 1.4, point formats 0 to 10), and LAZ, its variant with points
//! compressed by LASzip.

mod extra;
#[cfg(feature = "laz")]
mod laz;
mod unit;

use super::assembly::drop_not_finite;
use super::error::{ParseError, ParseErrorKind, Place, excerpt};
use super::report::{Format, ReadNote, ReadReport};
use super::scan::Scan;
use crate::mesh::PointCloud;
use extra::{Extra, Field};

/// Minimum bytes per point in formats 0 to 10. All begin with x, y, z in 32 bits each.
const POINT_BYTES: [u16; 11] = [20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67];
/// Bytes of the shortest header, that of versions 1.0 to 1.2.
const HEADER: u16 = 227;
/// Bytes before the content of a variable-length record.
const RECORD_HEADER: usize = 54;

/// Returns whether the content claims to be LAS or LAZ.
pub(super) fn starts_as_las(bytes: &[u8]) -> bool {
    bytes.starts_with(b"LASF")
}

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

/// Returns the bytes of a number. Zeros beyond the end, which callers check before.
fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|b| b.first_chunk::<N>()).copied().unwrap_or([0; N])
}

/// Required fields of a header.
struct Header {
    size: usize,
    points_at: usize,
    records: u32,
    compressed: bool,
    format: u8,
    /// Point count in the field of versions before 1.4, if another field holds the count.
    claimed_before: Option<u64>,
    /// Extended records after the points.
    extended_records: u32,
    point_bytes: u16,
    points: u64,
    scale: [f64; 3],
    offset: [f64; 3],
}

/// Variable-length record.
struct Record<'a> {
    user: &'a [u8],
    id: u16,
    /// Offset of the content.
    #[cfg_attr(not(feature = "laz"), allow(dead_code, reason = "for the errors of LAZ"))]
    at: usize,
    content: &'a [u8],
}

/// Builds the error for an unexpected header field at byte `at`.
fn wrong(field: &'static str, found: String, expected: &str, at: u64) -> ParseError {
    let expected = expected.to_owned();
    ParseErrorKind::Header { field, found, expected }.at(Place::Byte(at))
}

/// Checks that the file begins as LAS does and is long enough for the shortest header.
fn check_beginning(bytes: &[u8]) -> Result<(), ParseError> {
    if !starts_as_las(bytes) {
        let found = format!("{:?}", excerpt(&bytes[..bytes.len().min(4)]));
        return Err(wrong("signature", found, "\"LASF\"", 0));
    }
    if bytes.len() < usize::from(HEADER) {
        let (element, expected, found) =
            ("header byte".to_owned(), HEADER.into(), bytes.len() as u64);
        return Err(ParseErrorKind::Truncated { element, expected, found }.at(Place::Byte(found)));
    }
    Ok(())
}

/// Returns the number after "1." in the version.
fn minor_version(bytes: &[u8]) -> Result<u8, ParseError> {
    match take::<2>(bytes, 24) {
        [1, minor @ 0..=4] => Ok(minor),
        [major, minor] => Err(wrong("version", format!("{major}.{minor}"), "1.0 to 1.4", 24)),
    }
}

/// Returns the header's size and the offset of the points.
fn sizes(bytes: &[u8], minor: u8) -> Result<(u16, u32), ParseError> {
    let size = u16::from_le_bytes(take(bytes, 94));
    let least = if minor == 4 { 375 } else { HEADER };
    if size < least || usize::from(size) > bytes.len() {
        let expected = format!("{least} to {}", bytes.len());
        return Err(wrong("header size", size.to_string(), &expected, 94));
    }
    let points_at = u32::from_le_bytes(take(bytes, 96));
    if points_at < size.into() || points_at as usize > bytes.len() {
        let expected = format!("{size} to {}", bytes.len());
        return Err(wrong("offset to points", points_at.to_string(), &expected, 96));
    }
    Ok((size, points_at))
}

/// Returns whether points are compressed, their format, and the bytes per point.
fn point_format(bytes: &[u8]) -> Result<(bool, u8, u16), ParseError> {
    let [format] = take::<1>(bytes, 104);
    // LASzip marks its files with the highest bit.
    let (compressed, format) = (format & 0x80 != 0, format & 0x3F);
    let Some(&least) = POINT_BYTES.get(usize::from(format)) else {
        return Err(wrong("point format", format.to_string(), "0 to 10", 104));
    };
    let point_bytes = u16::from_le_bytes(take(bytes, 105));
    if point_bytes < least {
        let expected = format!("at least {least} for format {format}");
        return Err(wrong("point length", point_bytes.to_string(), &expected, 105));
    }
    Ok((compressed, format, point_bytes))
}

/// Returns the number of points, and the count in the field of versions before 1.4.
fn point_counts(bytes: &[u8], minor: u8) -> Result<(u64, u64), ParseError> {
    let few = u64::from(u32::from_le_bytes(take(bytes, 107)));
    let (points, at) =
        if minor == 4 { (u64::from_le_bytes(take(bytes, 247)), 247) } else { (few, 107) };
    if points == 0 {
        return Err(ParseErrorKind::NoVertices.at(Place::Byte(at)));
    }
    let limit = u64::from(u32::MAX);
    if points > limit {
        return Err(ParseErrorKind::TooManyVertices { count: points, limit }.at(Place::Byte(at)));
    }
    Ok((points, few))
}

/// Returns scale and offset of the coordinates.
fn scale_and_offset(bytes: &[u8]) -> Result<[[f64; 3]; 2], ParseError> {
    let numbers =
        |from: usize| [0, 1, 2].map(|axis| f64::from_le_bytes(take(bytes, from + 8 * axis)));
    let (scale, offset) = (numbers(131), numbers(155));
    for axis in 0..3 {
        let at = 8 * axis as u64;
        if !scale[axis].is_finite() || scale[axis] == 0.0 {
            let found = format!("{:?}", scale[axis]);
            return Err(wrong("scale factor", found, "a finite number, not 0", 131 + at));
        }
        if !offset[axis].is_finite() {
            let found = format!("{:?}", offset[axis]);
            return Err(wrong("offset", found, "a finite number", 155 + at));
        }
    }
    Ok([scale, offset])
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Header, ParseError> {
        check_beginning(bytes)?;
        let minor = minor_version(bytes)?;
        let (size, points_at) = sizes(bytes, minor)?;
        let (compressed, format, point_bytes) = point_format(bytes)?;
        let (points, few) = point_counts(bytes, minor)?;
        let [scale, offset] = scale_and_offset(bytes)?;
        Ok(Header {
            size: size.into(),
            points_at: points_at as usize,
            records: u32::from_le_bytes(take(bytes, 100)),
            compressed,
            format,
            claimed_before: (minor == 4).then_some(few),
            extended_records: if minor == 4 { u32::from_le_bytes(take(bytes, 243)) } else { 0 },
            point_bytes,
            points,
            scale,
            offset,
        })
    }

    /// Returns notes about the content that is not kept.
    fn not_kept(&self, bytes: &[u8], has_normals: bool) -> Vec<ReadNote> {
        let mut notes = Vec::new();
        let mut note =
            |at: u64, text: String| notes.push(ReadNote { place: Place::Byte(at), text });
        let (format, each) = (self.format, self.point_bytes);
        let kept = match has_normals {
            true => "x, y, z and the normal of the extra bytes are kept".to_owned(),
            false => format!("12 of {each} bytes are kept (x, y, z)"),
        };
        note(104, format!("points of format {format}: {kept}"));
        // 0 if the older field cannot hold the count.
        if let Some(before) = self.claimed_before.filter(|&n| n != 0 && n != self.points) {
            note(107, format!("the older field claims {before} points, {} were read", self.points));
        }
        let extended = self.extended_records;
        // Compressed points are also followed by their chunk table.
        let end = self.points_at as u64 + self.points.saturating_mul(each.into());
        let behind = (bytes.len() as u64).saturating_sub(end);
        if !self.compressed && behind > 0 {
            note(
                end,
                format!(
                    "{behind} bytes after the points are not read, including {extended} \
                     extended records"
                ),
            );
        } else if extended > 0 {
            note(235, format!("{extended} extended records after the points are not read"));
        }
        notes
    }

    /// Returns the records between the header and the points.
    fn records<'a>(&self, bytes: &'a [u8]) -> Result<Vec<Record<'a>>, ParseError> {
        let (mut records, mut at) = (Vec::new(), self.size);
        for index in 0..self.records {
            let length = usize::from(u16::from_le_bytes(take(bytes, at + 20)));
            let start = at + RECORD_HEADER;
            if start + length > self.points_at {
                let element = "variable length record".to_owned();
                let kind = ParseErrorKind::Truncated {
                    element,
                    expected: self.records.into(),
                    found: index.into(),
                };
                return Err(kind.at(Place::Byte(at as u64)));
            }
            let user = bytes[at + 2..at + 18].split(|&b| b == 0).next().unwrap_or_default();
            let id = u16::from_le_bytes(take(bytes, at + 18));
            records.push(Record { user, id, at: start, content: &bytes[start..start + length] });
            at = start + length;
        }
        Ok(records)
    }
}

/// Points read so far.
struct Points<'a> {
    header: &'a Header,
    normal: Option<[Field; 3]>,
    origin: Option<[f64; 3]>,
    positions: Vec<[f32; 3]>,
    /// One per point if there is a normal.
    normals: Vec<[f32; 3]>,
    /// First coordinate that is not finite.
    not_finite: Option<ParseError>,
}

impl Points<'_> {
    /// Adds a point that begins at `place` and is as long as the header declares.
    fn push(&mut self, point: &[u8], place: Place) {
        let Header { scale, offset, .. } = self.header;
        let at: [f64; 3] = std::array::from_fn(|axis| {
            f64::from(i32::from_le_bytes(take(point, 4 * axis))) * scale[axis] + offset[axis]
        });
        let origin =
            *self.origin.get_or_insert(at.map(|c| if c.is_finite() { c.floor() } else { 0.0 }));
        let position: [f32; 3] = std::array::from_fn(|axis| (at[axis] - origin[axis]) as f32);
        if let (None, Some(axis)) = (&self.not_finite, position.iter().position(|c| !c.is_finite()))
        {
            let (vertex, field) = (self.positions.len() as u64, ["x", "y", "z"][axis]);
            self.not_finite =
                Some(ParseErrorKind::NotFinite { vertex, field, value: at[axis] }.at(place));
        }
        if let Some(normal) = self.normal {
            let normal = normal.map(|field| field.value(point));
            let is_infinite = |c: &f64| !(*c as f32).is_finite();
            if let (None, Some(axis)) = (&self.not_finite, normal.iter().position(is_infinite)) {
                let (vertex, field) = (self.positions.len() as u64, ["nx", "ny", "nz"][axis]);
                self.not_finite = Some(
                    ParseErrorKind::NotFinite { vertex, field, value: normal[axis] }.at(place),
                );
            }
            self.normals.push(normal.map(|c| c as f32));
        }
        self.positions.push(position);
    }
}
