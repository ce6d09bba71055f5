//! LAS (ASPRS, versions 1.0 to 1.4, point formats 0 to 10), and LAZ, the same with points
//! compressed by LASzip.

#[cfg(feature = "laz")]
mod laz;
mod unit;

use super::error::excerpt;
use super::{Format, ParseError, ParseErrorKind, Place, ReadNote, ReadReport, drop_not_finite};
use crate::mesh::{PointCloud, Scan};

/// Bytes of a point of formats 0 to 10, at least. All begin with x, y, z in 32 bits each.
const POINT_BYTES: [u16; 11] = [20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67];
/// Bytes of the header of versions 1.0 to 1.2, the shortest.
const HEADER: u16 = 227;
/// Bytes before the content of a variable length record.
const RECORD_HEADER: usize = 54;

/// Whether the content claims to be LAS or LAZ.
pub(super) fn starts_as_las(bytes: &[u8]) -> bool {
    bytes.starts_with(b"LASF")
}

/// Reads a LAS or LAZ file from memory.
///
/// Coordinates are scaled as the header says, and made relative to an [origin](ReadReport::origin):
/// the first point, rounded down to whole units. The unit is that of the projected coordinates,
/// where a record tells it. What follows the points is skipped, and so are the other fields of a
/// point; both are [noted](ReadReport::notes). LAZ needs the feature `laz`; compressed points may
/// have 1,024 bytes, and be 16 for each byte of the file, at most. Linear in the file's size.
///
/// # Errors
/// [`ParseError`] with the byte at fault.
pub fn parse_las(bytes: &[u8]) -> Result<Scan, ParseError> {
    if bytes.is_empty() {
        return Err(ParseErrorKind::Empty.in_file());
    }
    let header = Header::parse(bytes)?;
    let mut points =
        Points { header: &header, origin: None, positions: Vec::new(), not_finite: None };
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
        for (index, point) in data[..size as usize].chunks_exact(length as usize).enumerate() {
            points.push(point, Place::Byte(header.points_at as u64 + index as u64 * length));
        }
    }
    let report = ReadReport {
        format: if header.compressed { Format::Laz } else { Format::Las },
        unit: unit::of_records(&header.records(bytes)?),
        origin: points.origin.unwrap_or_default(),
        fields_at: Place::Byte(104),
        notes: header.not_kept(bytes),
        ..ReadReport::default()
    };
    let cloud = PointCloud { positions: points.positions, normals: None };
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

/// The bytes of a number; zeros behind the end, which is checked before.
fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|b| b.first_chunk::<N>()).copied().unwrap_or([0; N])
}

/// What of a header is needed.
struct Header {
    size: usize,
    points_at: usize,
    records: u32,
    compressed: bool,
    format: u8,
    /// Points that the field of versions before 1.4 claims, where another field counts.
    claimed_before: Option<u64>,
    /// Extended records behind the points.
    extended_records: u32,
    point_bytes: u16,
    points: u64,
    scale: [f64; 3],
    offset: [f64; 3],
}

/// A variable length record.
struct Record<'a> {
    user: &'a [u8],
    id: u16,
    /// Where its content begins.
    #[cfg_attr(not(feature = "laz"), allow(dead_code, reason = "for the errors of LAZ"))]
    at: usize,
    content: &'a [u8],
}

/// A field of the header at byte `at` is not as expected.
fn wrong(field: &'static str, found: String, expected: &str, at: u64) -> ParseError {
    let expected = expected.to_owned();
    ParseErrorKind::Header { field, found, expected }.at(Place::Byte(at))
}

/// The file must begin as LAS does, and be long enough for the shortest header.
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

/// The number behind "1." in the version.
fn minor_version(bytes: &[u8]) -> Result<u8, ParseError> {
    match take::<2>(bytes, 24) {
        [1, minor @ 0..=4] => Ok(minor),
        [major, minor] => Err(wrong("version", format!("{major}.{minor}"), "1.0 to 1.4", 24)),
    }
}

/// The header's size, and where the points begin.
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

/// Whether points are compressed, their format, and the bytes of one.
fn point_format(bytes: &[u8]) -> Result<(bool, u8, u16), ParseError> {
    let [format] = take::<1>(bytes, 104);
    // LASzip marks its files by the highest bit.
    let (compressed, format) = (format & 0x80 != 0, format & 0x3F);
    let Some(&least) = POINT_BYTES.get(usize::from(format)) else {
        return Err(wrong("point format", format.to_string(), "0 to 10", 104));
    };
    let point_bytes = u16::from_le_bytes(take(bytes, 105));
    if point_bytes < least {
        let expected = format!("at least {least} of format {format}");
        return Err(wrong("point length", point_bytes.to_string(), &expected, 105));
    }
    Ok((compressed, format, point_bytes))
}

/// How many points there are, and what the field of versions before 1.4 claims.
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

/// Scale and offset of the coordinates.
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

    /// What of the file is not kept.
    fn not_kept(&self, bytes: &[u8]) -> Vec<ReadNote> {
        let mut notes = Vec::new();
        let mut note =
            |at: u64, text: String| notes.push(ReadNote { place: Place::Byte(at), text });
        let (format, each) = (self.format, self.point_bytes);
        note(104, format!("of points of format {format}, 12 of {each} bytes are kept: x, y, z"));
        // 0 where the older field cannot tell.
        if let Some(before) = self.claimed_before.filter(|&n| n != 0 && n != self.points) {
            note(107, format!("the older field claims {before} points, {} were read", self.points));
        }
        let extended = self.extended_records;
        // What follows compressed points is the table of their chunks, too.
        let end = self.points_at as u64 + self.points.saturating_mul(each.into());
        let behind = (bytes.len() as u64).saturating_sub(end);
        if !self.compressed && behind > 0 {
            note(
                end,
                format!(
                    "{behind} bytes behind the points are not read, {extended} extended records \
                     among them"
                ),
            );
        } else if extended > 0 {
            note(235, format!("{extended} extended records behind the points are not read"));
        }
        notes
    }

    /// The records between the header and the points.
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

/// The points read so far.
struct Points<'a> {
    header: &'a Header,
    origin: Option<[f64; 3]>,
    positions: Vec<[f32; 3]>,
    /// The first coordinate that is not finite.
    not_finite: Option<ParseError>,
}

impl Points<'_> {
    /// Adds a point that begins at `place`; it is as long as the header says.
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
        self.positions.push(position);
    }
}
