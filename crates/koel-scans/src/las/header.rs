//! Header of a LAS file, and the records between it and the points.

use crate::error::{ParseError, ParseErrorKind, Place, excerpt};
use crate::report::ReadNote;

/// Minimum bytes per point in formats 0 to 10. All begin with x, y, z in 32 bits each.
pub(super) const POINT_BYTES: [u16; 11] = [20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67];
/// Bytes of the shortest header, that of versions 1.0 to 1.2.
const HEADER: u16 = 227;
/// Bytes before the content of a variable-length record.
const RECORD_HEADER: usize = 54;

/// Returns whether the content claims to be LAS or LAZ.
pub(crate) fn starts_as_las(bytes: &[u8]) -> bool {
    bytes.starts_with(b"LASF")
}

/// Returns the bytes of a number. Zeros beyond the end, which callers check before.
pub(super) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|b| b.first_chunk::<N>()).copied().unwrap_or([0; N])
}

/// Required fields of a header.
pub(super) struct Header {
    pub(super) size: usize,
    pub(super) points_at: usize,
    pub(super) records: u32,
    pub(super) compressed: bool,
    pub(super) format: u8,
    /// Point count in the field of versions before 1.4, if another field holds the count.
    pub(super) claimed_before: Option<u64>,
    /// Extended records after the points.
    pub(super) extended_records: u32,
    pub(super) point_bytes: u16,
    pub(super) points: u64,
    pub(super) scale: [f64; 3],
    pub(super) offset: [f64; 3],
}

/// Variable-length record.
pub(super) struct Record<'a> {
    pub(super) user: &'a [u8],
    pub(super) id: u16,
    /// Offset of the content.
    #[cfg_attr(not(feature = "laz"), allow(dead_code, reason = "for the errors of LAZ"))]
    pub(super) at: usize,
    pub(super) content: &'a [u8],
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
    pub(super) fn parse(bytes: &[u8]) -> Result<Header, ParseError> {
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
    pub(super) fn not_kept(&self, bytes: &[u8], has_normals: bool) -> Vec<ReadNote> {
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
    pub(super) fn records<'a>(&self, bytes: &'a [u8]) -> Result<Vec<Record<'a>>, ParseError> {
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
