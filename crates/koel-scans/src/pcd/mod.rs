//! PCD ("Point Cloud Data" of the Point Cloud Library, up to version 0.7): text, binary, and binary
//! compressed by LZF.

mod compressed;
mod fault;
mod header;

use self::compressed::unpack;
use self::fault::{check_end, truncated};
use self::header::{COORDINATES, Data, Field, Header, Type};
use crate::assembly::drop_not_finite;
use crate::error::{ParseError, ParseErrorKind, Place, excerpt};
use crate::mesh::PointCloud;
use crate::positions::{Positions, Relative};
use crate::report::{Format, ReadReport, Rounding};
use crate::scan::Scan;
use crate::spanned::{Spanned, several_lines};

/// Returns whether the content claims to be PCD: comments, then a line of its header.
pub(crate) fn starts_as_pcd(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|&b| b == b'\n').map(<[u8]>::trim_ascii).take(64);
    lines.find(|line| !line.is_empty() && !line.starts_with(b"#")).is_some_and(|line| {
        let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        [&b"VERSION"[..], b"FIELDS", b"COLUMNS"].contains(&word)
    })
}

/// Reads a PCD file from memory.
///
/// Reads the fields x, y, z (any type, one value each), in any order. If normal_x, normal_y and
/// normal_z are present, reads normals. Other fields are skipped and [noted](ReadReport::notes).
/// Points that are not finite are dropped. Header lines may come in any order, with DATA last.
/// Zeros after compressed points are padding. Time is linear in the size of the file and of the
/// decompressed data, which is at most 88 times the compressed size.
///
/// # Errors
/// [`ParseError`] with the line (header, text data) or byte (binary data) at fault. WIDTH times
/// HEIGHT must equal POINTS and the number of points in the data.
pub fn parse_pcd(bytes: &[u8]) -> Result<Scan, ParseError> {
    if bytes.is_empty() {
        return Err(ParseErrorKind::Empty.in_file());
    }
    let header = Header::parse(bytes)?;
    let wanted = header.wanted()?;
    let body = Place::Byte(header.length as u64);
    let rest = &bytes[header.length..];
    let has_normals = wanted[3].is_some();
    let wide = wanted[..3].iter().flatten().any(|&at| !header.fields[at].is_exact_in_f32());
    let mut reader = Reader {
        header: &header,
        wanted,
        positions: Positions::with_capacity(wide, 0),
        normals: has_normals.then(Vec::new),
        not_finite: None,
        rounding: Rounding::default(),
        spanned: Spanned::default(),
    };
    match header.data {
        Data::Text => reader.text(rest)?,
        Data::Binary => {
            let size = header.row.saturating_mul(header.points);
            if (rest.len() as u64) < size {
                let found = rest.len() as u64 / header.row.max(1);
                let place = Place::Byte(bytes.len() as u64);
                return Err(truncated(header.points, found).at(place));
            }
            check_end(&rest[size as usize..], header.length as u64 + size)?;
            reader.rows(rest, body, Layout::Rows)?;
        }
        Data::Compressed => {
            let unpacked = unpack(rest, &header)?;
            reader.rows(&unpacked, body, Layout::Columns)?;
        }
    }
    let fields_at = Place::Line(header.fields_line);
    let Reader { positions, normals, not_finite, rounding, spanned, .. } = reader;
    let Relative { positions, origin, rounding: of_positions } = positions.finish();
    let rounding = rounding.and(of_positions).note(fields_at);
    let notes =
        header.not_kept(&wanted).into_iter().chain(rounding).chain(spanned.note()).collect();
    let (format, viewpoint) = (Format::Pcd, header.viewpoint());
    let fields = header.fields.iter().map(|field| field.name.clone()).collect();
    let report =
        ReadReport { format, fields_at, fields, origin, viewpoint, notes, ..ReadReport::default() };
    let points = PointCloud { positions, normals };
    drop_not_finite(Scan { points, triangles: Vec::new(), report }, not_finite)
}

/// Layout of the numbers in binary data.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// Point by point.
    Rows,
    /// Field by field.
    Columns,
}

struct Reader<'a> {
    header: &'a Header,
    /// Indices of the fields of x, y, z and the normal.
    wanted: [Option<usize>; 6],
    positions: Positions,
    normals: Option<Vec<[f32; 3]>>,
    /// First coordinate that is not finite.
    not_finite: Option<ParseError>,
    rounding: Rounding,
    spanned: Spanned,
}

impl Reader<'_> {
    fn reserve(&mut self, possible: u64) {
        let count = self.header.points.min(possible) as usize;
        self.positions.reserve_exact(count);
        if let Some(normals) = &mut self.normals {
            normals.reserve_exact(count);
        }
    }

    fn push(&mut self, index: u64, values: [f64; 6], places: impl Fn(usize) -> Place) {
        let used = if self.normals.is_some() { 6 } else { 3 };
        if let (None, Some(slot)) =
            (&self.not_finite, values[..used].iter().position(|&c| !(c as f32).is_finite()))
        {
            let kind = ParseErrorKind::NotFinite {
                vertex: index,
                field: COORDINATES[slot],
                value: values[slot],
            };
            self.not_finite = Some(kind.at(places(slot)));
        }
        let [x, y, z, nx, ny, nz] = values;
        self.positions.push([x, y, z]);
        if let Some(normals) = &mut self.normals {
            normals.push([nx, ny, nz].map(|c| self.rounding.narrow(c)));
        }
    }

    /// Reads binary data, which must be long enough for all points.
    fn rows(&mut self, data: &[u8], body: Place, layout: Layout) -> Result<(), ParseError> {
        let header = self.header;
        self.reserve(header.points);
        // Offset of the first number of each field.
        let starts: Vec<u64> = header
            .fields
            .iter()
            .scan(0, |next, f| {
                let start = *next;
                *next += f.size * f.count;
                Some(start)
            })
            .collect();
        let Place::Byte(first) = body else { return Ok(()) };
        for index in 0..header.points {
            let mut values = [0.0; 6];
            let at = |slot: usize| {
                self.wanted[slot].map(|field| {
                    let f = &header.fields[field];
                    let place = match layout {
                        Layout::Rows => index * header.row + starts[field],
                        Layout::Columns => starts[field] * header.points + index * f.size,
                    };
                    (f, place as usize)
                })
            };
            for (slot, value) in values.iter_mut().enumerate() {
                if let Some((field, place)) = at(slot) {
                    *value = number(field, &data[place..]);
                }
            }
            let place = |slot: usize| match layout {
                Layout::Rows => Place::Byte(first + at(slot).map_or(0, |(_, place)| place as u64)),
                // Compressed data have no place of their own in the file.
                Layout::Columns => body,
            };
            let placed: [Place; 6] = std::array::from_fn(place);
            self.push(index, values, |slot| placed[slot]);
        }
        Ok(())
    }

    fn text(&mut self, mut rest: &[u8]) -> Result<(), ParseError> {
        let header = self.header;
        let wide = header.fields.iter().map(|f| f.count).fold(0, u64::saturating_add);
        self.reserve(rest.len() as u64 / wide.saturating_mul(2).max(1) + 1);
        let mut line = header.lines;
        let mut index = 0;
        while !rest.is_empty() {
            let end = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            let (end, lines) = several_lines(rest, wide).unwrap_or((end, 1));
            let words = rest[..end].trim_ascii();
            if !words.is_empty() && index == header.points {
                return Err(ParseErrorKind::Trailing { found: rest.trim_ascii().len() as u64 }
                    .at(Place::Line(line + 1)));
            }
            rest = rest.get(end + 1..).unwrap_or_default();
            if !words.is_empty() {
                self.line(words, index, line + 1, wide)?;
                index += 1;
            }
            if lines > 1 {
                self.spanned.add(Place::Line(line + 1));
            }
            line += lines;
        }
        if index < header.points {
            return Err(truncated(header.points, index).at(Place::Line(line)));
        }
        Ok(())
    }

    fn line(&mut self, words: &[u8], index: u64, line: u64, wide: u64) -> Result<(), ParseError> {
        let place = Place::Line(line);
        let mut values = [0.0; 6];
        let mut words = words.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
        let mut found = 0;
        for (at, field) in self.header.fields.iter().enumerate() {
            let slot = self.wanted.iter().position(|&w| w == Some(at));
            for _ in 0..field.count {
                let Some(word) = words.next() else {
                    let kind = ParseErrorKind::Values {
                        element: "point".to_owned(),
                        index,
                        expected: wide.to_string(),
                        found,
                    };
                    return Err(kind.at(place));
                };
                found += 1;
                if let Some(slot) = slot {
                    values[slot] = word_number(field, word).ok_or_else(|| {
                        let (element, field, expected) =
                            ("point".to_owned(), field.name.clone(), type_name(field));
                        ParseErrorKind::Number {
                            element,
                            index,
                            field,
                            expected,
                            found: excerpt(word),
                        }
                        .at(place)
                    })?;
                }
            }
        }
        let extra = words.count() as u64;
        if extra > 0 {
            let (expected, found) = (wide.to_string(), found + extra);
            return Err(ParseErrorKind::Values {
                element: "point".to_owned(),
                index,
                expected,
                found,
            }
            .at(place));
        }
        self.push(index, values, |_| place);
        Ok(())
    }
}

/// Reads the number at the beginning of `bytes`, which must be long enough.
fn number(field: &Field, bytes: &[u8]) -> f64 {
    fn take<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.first_chunk::<N>().copied().unwrap_or([0; N])
    }
    match (field.kind, field.size) {
        (Type::Float, 4) => f32::from_le_bytes(take(bytes)).into(),
        (Type::Float, _) => f64::from_le_bytes(take(bytes)),
        (Type::Signed, 1) => i8::from_le_bytes(take(bytes)).into(),
        (Type::Signed, 2) => i16::from_le_bytes(take(bytes)).into(),
        (Type::Signed, 4) => i32::from_le_bytes(take(bytes)).into(),
        (Type::Signed, _) => i64::from_le_bytes(take(bytes)) as f64,
        (Type::Unsigned, 1) => u8::from_le_bytes(take(bytes)).into(),
        (Type::Unsigned, 2) => u16::from_le_bytes(take(bytes)).into(),
        (Type::Unsigned, 4) => u32::from_le_bytes(take(bytes)).into(),
        (Type::Unsigned, _) => u64::from_le_bytes(take(bytes)) as f64,
    }
}

fn word_number(field: &Field, word: &[u8]) -> Option<f64> {
    let word = std::str::from_utf8(word).ok()?;
    match (field.kind, field.size) {
        // Parse directly to f32: going through f64 would round twice.
        (Type::Float, 4) => word.parse::<f32>().ok().map(f64::from),
        (Type::Float, _) => word.parse().ok(),
        (Type::Signed, _) => word.parse::<i64>().ok().map(|i| i as f64),
        (Type::Unsigned, _) => word.parse::<u64>().ok().map(|i| i as f64),
    }
}

fn type_name(field: &Field) -> &'static str {
    match field.kind {
        Type::Signed => "an integer",
        Type::Unsigned => "an integer of 0 or more",
        Type::Float => "a number",
    }
}
