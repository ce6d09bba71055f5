//! PCD ("Point Cloud Data" of the Point Cloud Library, version 0.7 and before): text, binary, and
//! binary compressed by LZF.

use std::collections::HashSet;

use super::error::excerpt;
use super::report::{Rounding, listed};
use super::{Format, ParseError, ParseErrorKind, Place, ReadNote, ReadReport, drop_not_finite};
use crate::mesh::{PointCloud, Scan};

const COORDINATES: [&str; 6] = ["x", "y", "z", "normal_x", "normal_y", "normal_z"];

/// Whether the content claims to be PCD: comments, then a line of its header.
pub(super) fn starts_as_pcd(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|&b| b == b'\n').map(<[u8]>::trim_ascii).take(64);
    lines.find(|line| !line.is_empty() && !line.starts_with(b"#")).is_some_and(|line| {
        let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        [&b"VERSION"[..], b"FIELDS", b"COLUMNS"].contains(&word)
    })
}

/// Reads a PCD file from memory.
///
/// Wanted are the fields x, y, z (any type, one value each; normal_x, normal_y, normal_z too make
/// normals), in any order; other fields are skipped, and [noted](ReadReport::notes). Points that
/// are not finite are dropped. Header lines may come in any order, DATA last. Linear in the file's
/// size, and in that of the unpacked data, which is at most 88 times as large.
///
/// # Errors
/// [`ParseError`] with the line (header, text data) or byte (binary data) at fault. WIDTH times
/// HEIGHT must be POINTS, and that the number of points there are.
pub fn parse_pcd(bytes: &[u8]) -> Result<Scan, ParseError> {
    if bytes.is_empty() {
        return Err(ParseErrorKind::Empty.in_file());
    }
    let header = Header::parse(bytes)?;
    let wanted = header.wanted()?;
    let body = Place::Byte(header.length as u64);
    let rest = &bytes[header.length..];
    let has_normals = wanted[3].is_some();
    let rounding = Rounding::default();
    let mut reader = Reader {
        header: &header,
        wanted,
        points: PointCloud::default(),
        not_finite: None,
        rounding,
    };
    reader.points.normals = has_normals.then(Vec::new);
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
    let Reader { points, not_finite, rounding, .. } = reader;
    let notes = header.not_kept(&wanted).into_iter().chain(rounding.note(fields_at)).collect();
    let report = ReadReport { format: Format::Pcd, fields_at, notes, ..ReadReport::default() };
    drop_not_finite(Scan { points, triangles: Vec::new(), report }, not_finite)
}

fn truncated(expected: u64, found: u64) -> ParseErrorKind {
    ParseErrorKind::Truncated { element: "point".to_owned(), expected, found }
}

/// Nothing but white space may follow the points.
fn check_end(rest: &[u8], at: u64) -> Result<(), ParseError> {
    match rest.trim_ascii().len() as u64 {
        0 => Ok(()),
        found => Err(ParseErrorKind::Trailing { found }.at(Place::Byte(at))),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Data {
    Text,
    Binary,
    Compressed,
}

#[derive(Clone, Copy, PartialEq)]
enum Type {
    Signed,
    Unsigned,
    Float,
}

#[derive(Clone)]
struct Field {
    name: String,
    kind: Type,
    size: u64,
    count: u64,
}

struct Header {
    fields: Vec<Field>,
    fields_line: u64,
    points: u64,
    /// Bytes of a point.
    row: u64,
    data: Data,
    /// Where the sensor was, if not at the origin, and the line that says so.
    viewpoint: Option<(String, u64)>,
    /// Bytes and lines up to the end of the line DATA.
    length: usize,
    lines: u64,
}

/// A viewpoint at the origin, not turned: x, y, z, and a quaternion.
const IDENTITY: [f64; 7] = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0];

const HEADER_LINE: &str = "a PCD header line: VERSION, FIELDS, SIZE, TYPE, COUNT, WIDTH, HEIGHT, VIEWPOINT, POINTS or DATA";

impl Header {
    fn parse(bytes: &[u8]) -> Result<Header, ParseError> {
        let (mut length, mut lines) = (0, 0);
        let mut seen = HashSet::new();
        let (mut names, mut sizes, mut kinds, mut counts) =
            (Vec::new(), Vec::new(), Vec::new(), None);
        let (mut width, mut height, mut points) = (None, None, None);
        let (mut fields_line, mut viewpoint) = (0, None);
        let data = loop {
            let Some(end) = bytes[length..].iter().position(|&b| b == b'\n') else {
                let found = match excerpt(&bytes[length..]) {
                    cut if cut.is_empty() => "the end of the file".to_owned(),
                    cut => cut,
                };
                let expected = "a complete header, up to DATA";
                return Err(
                    ParseErrorKind::Unexpected { expected, found }.at(Place::Line(lines + 1))
                );
            };
            let raw = &bytes[length..length + end];
            length += end + 1;
            lines += 1;
            let place = Place::Line(lines);
            let unexpected =
                |expected| ParseErrorKind::Unexpected { expected, found: excerpt(raw) }.at(place);
            let line = String::from_utf8_lossy(raw);
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_ascii_whitespace();
            let keyword = words.next().unwrap_or_default().to_owned();
            let values: Vec<&str> = words.collect();
            if !seen.insert(keyword.clone()) {
                return Err(
                    ParseErrorKind::Duplicate { what: "header line", name: keyword }.at(place)
                );
            }
            let number = |expected| match *values {
                [one] => one.parse::<u64>().map_err(|_| unexpected(expected)),
                _ => Err(unexpected(expected)),
            };
            match keyword.as_str() {
                "VERSION" => {}
                "FIELDS" | "COLUMNS" => {
                    names = values.iter().map(|&v| v.to_owned()).collect();
                    fields_line = lines;
                    if let Some(name) =
                        COORDINATES.iter().find(|&c| values.iter().filter(|v| *v == c).count() > 1)
                    {
                        return Err(ParseErrorKind::Duplicate {
                            what: "field",
                            name: (*name).to_owned(),
                        }
                        .at(place));
                    }
                }
                "SIZE" => {
                    let size = |v: &&str| v.parse().ok().filter(|s| [1u64, 2, 4, 8].contains(s));
                    let all: Option<Vec<u64>> = values.iter().map(size).collect();
                    sizes =
                        all.ok_or_else(|| unexpected("SIZE with 1, 2, 4 or 8 for each of FIELDS"))?;
                }
                "TYPE" => {
                    let kind = |v: &&str| match *v {
                        "I" => Some(Type::Signed),
                        "U" => Some(Type::Unsigned),
                        "F" => Some(Type::Float),
                        _ => None,
                    };
                    let all: Option<Vec<Type>> = values.iter().map(kind).collect();
                    kinds =
                        all.ok_or_else(|| unexpected("TYPE with I, U or F for each of FIELDS"))?;
                }
                "COUNT" => {
                    let all: Option<Vec<u64>> =
                        values.iter().map(|v| v.parse::<u32>().ok().map(u64::from)).collect();
                    counts = Some(
                        all.ok_or_else(|| unexpected("COUNT with a number for each of FIELDS"))?,
                    );
                }
                "WIDTH" => width = Some(number("WIDTH and a number")?),
                "HEIGHT" => height = Some(number("HEIGHT and a number")?),
                "POINTS" => points = Some(number("POINTS and a number")?),
                "VIEWPOINT" => {
                    let numbers =
                        values.iter().map(|v| v.parse::<f64>()).collect::<Result<Vec<_>, _>>();
                    let numbers = numbers.ok().filter(|n| n.len() == 7);
                    let numbers =
                        numbers.ok_or_else(|| unexpected("VIEWPOINT and seven numbers"))?;
                    if numbers != IDENTITY {
                        viewpoint = Some((values.join(" "), lines));
                    }
                }
                "DATA" => {
                    break match *values {
                        ["ascii"] => Data::Text,
                        ["binary"] => Data::Binary,
                        ["binary_compressed"] => Data::Compressed,
                        _ => return Err(unexpected("DATA ascii, binary or binary_compressed")),
                    };
                }
                _ => return Err(unexpected(HEADER_LINE)),
            }
        };
        let place = Place::Line(lines);
        let counts = counts.unwrap_or_else(|| vec![1; names.len()]);
        for (field, found) in
            [("SIZE", sizes.len()), ("TYPE", kinds.len()), ("COUNT", counts.len())]
        {
            if found != names.len() {
                let expected = format!("{}, as FIELDS has", names.len());
                return Err(ParseErrorKind::Header {
                    field,
                    found: format!("{found} values"),
                    expected,
                }
                .at(place));
            }
        }
        let area = match (width, height) {
            (Some(width), height) => Some(width.saturating_mul(height.unwrap_or(1))),
            _ => None,
        };
        let points = match (points, area) {
            (Some(points), Some(area)) if points != area => {
                let (found, expected) = (points.to_string(), format!("{area}, WIDTH times HEIGHT"));
                return Err(ParseErrorKind::Header { field: "POINTS", found, expected }.at(place));
            }
            (points, area) => points.or(area),
        };
        let missing = |field| ParseErrorKind::MissingField { element: "header", field }.at(place);
        let points = points.ok_or_else(|| missing("POINTS"))?;
        if names.is_empty() {
            return Err(missing("FIELDS"));
        }
        if points == 0 {
            return Err(ParseErrorKind::NoVertices.in_file());
        }
        let limit = u64::from(u32::MAX);
        if points > limit {
            return Err(ParseErrorKind::TooManyVertices { count: points, limit }.at(place));
        }
        let parts = names.into_iter().zip(kinds).zip(sizes).zip(counts);
        let fields: Vec<Field> =
            parts.map(|(((name, kind), size), count)| Field { name, kind, size, count }).collect();
        // Below 2^35 each, and a header of 2^29 fields would be gigabytes long.
        let row = fields.iter().map(|f| f.size * f.count).fold(0, u64::saturating_add);
        Ok(Header { fields, fields_line, points, row, data, viewpoint, length, lines })
    }

    /// What of the file is not kept.
    fn not_kept(&self, wanted: &[Option<usize>; 6]) -> Vec<ReadNote> {
        let skipped = self.fields.iter().enumerate().filter(|(at, _)| !wanted.contains(&Some(*at)));
        // PCL fills rows up with fields of this name.
        let names = skipped
            .map(|(_, field)| field.name.as_str())
            .filter(|name| *name != "_")
            .collect::<Vec<_>>();
        let fields = (!names.is_empty()).then(|| ReadNote {
            place: Place::Line(self.fields_line),
            text: format!("not kept are the fields {}", listed(&names)),
        });
        let viewpoint = self.viewpoint.as_ref().map(|(viewpoint, line)| ReadNote {
            place: Place::Line(*line),
            text: format!("the points are not moved by VIEWPOINT, which is {viewpoint}"),
        });
        fields.into_iter().chain(viewpoint).collect()
    }

    /// The fields of x, y, z and, if all are there, of the normal; by their places among the
    /// fields.
    fn wanted(&self) -> Result<[Option<usize>; 6], ParseError> {
        let place = Place::Line(self.fields_line);
        let find = |name: &str| self.fields.iter().position(|f| f.name == name);
        let has_normals = COORDINATES[3..].iter().all(|name| find(name).is_some());
        let mut wanted = [None; 6];
        for (slot, field) in COORDINATES.into_iter().enumerate() {
            if slot >= 3 && !has_normals {
                continue;
            }
            let at = find(field).ok_or_else(|| {
                ParseErrorKind::MissingField { element: "point", field }.at(place)
            })?;
            let Field { kind, size, count, .. } = self.fields[at];
            let found = match () {
                () if count != 1 => format!("{count} values"),
                () if kind == Type::Float && size < 4 => format!("a float of {size} bytes"),
                () => {
                    wanted[slot] = Some(at);
                    continue;
                }
            };
            let (element, field) = ("point".to_owned(), field.to_owned());
            return Err(ParseErrorKind::FieldType {
                element,
                field,
                expected: "one number",
                found,
            }
            .at(place));
        }
        Ok(wanted)
    }
}

/// How the numbers of binary data lie.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// Point by point.
    Rows,
    /// Field by field.
    Columns,
}

struct Reader<'a> {
    header: &'a Header,
    /// The places of x, y, z and the normal among the fields.
    wanted: [Option<usize>; 6],
    points: PointCloud,
    /// The first coordinate that is not finite.
    not_finite: Option<ParseError>,
    rounding: Rounding,
}

impl Reader<'_> {
    fn reserve(&mut self, possible: u64) {
        let count = self.header.points.min(possible) as usize;
        self.points.positions.reserve_exact(count);
        if let Some(normals) = &mut self.points.normals {
            normals.reserve_exact(count);
        }
    }

    fn push(&mut self, index: u64, values: [f64; 6], places: impl Fn(usize) -> Place) {
        let narrow = values.map(|v| self.rounding.narrow(v));
        let used = if self.points.normals.is_some() { 6 } else { 3 };
        if let (None, Some(slot)) =
            (&self.not_finite, narrow[..used].iter().position(|c| !c.is_finite()))
        {
            let kind = ParseErrorKind::NotFinite {
                vertex: index,
                field: COORDINATES[slot],
                value: values[slot],
            };
            self.not_finite = Some(kind.at(places(slot)));
        }
        let [x, y, z, nx, ny, nz] = narrow;
        self.points.positions.push([x, y, z]);
        if let Some(normals) = &mut self.points.normals {
            normals.push([nx, ny, nz]);
        }
    }

    /// Binary data, at least as long as the points need.
    fn rows(&mut self, data: &[u8], body: Place, layout: Layout) -> Result<(), ParseError> {
        let header = self.header;
        self.reserve(header.points);
        // Where the first number of each wanted field is, and how far it is to the next.
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
                // What is packed has no place of its own.
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
            let words = rest[..end].trim_ascii();
            if !words.is_empty() && index == header.points {
                return Err(ParseErrorKind::Trailing { found: rest.trim_ascii().len() as u64 }
                    .at(Place::Line(line + 1)));
            }
            rest = rest.get(end + 1..).unwrap_or_default();
            line += 1;
            if !words.is_empty() {
                self.line(words, index, line, wide)?;
                index += 1;
            }
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

/// The number at the beginning of `bytes`, which are long enough.
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
        // Straight to f32: by way of f64 the last bit would be rounded twice.
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

/// The most bytes that LZF makes of three.
const MOST_OF_THREE: u64 = 264;

/// The data behind the two sizes, unpacked.
fn unpack(rest: &[u8], header: &Header) -> Result<Vec<u8>, ParseError> {
    let start = header.length as u64;
    let Some((sizes, packed)) = rest.split_first_chunk::<8>() else {
        return Err(truncated(header.points, 0).at(Place::Byte(start + rest.len() as u64)));
    };
    let [a, b, c, d, e, f, g, h] = *sizes;
    let (packed_size, size) =
        (u32::from_le_bytes([a, b, c, d]), u64::from(u32::from_le_bytes([e, f, g, h])));
    let wrong = |field, found: u64, expected: String, at| {
        ParseErrorKind::Header { field, found: found.to_string(), expected }
            .at(Place::Byte(start + at))
    };
    if packed_size as usize > packed.len() {
        let expected = format!("at most {}, the bytes there are", packed.len());
        return Err(wrong("compressed size", packed_size.into(), expected, 0));
    }
    let wanted = header.row.saturating_mul(header.points);
    if size != wanted {
        return Err(wrong(
            "uncompressed size",
            size,
            format!("{wanted}, {} a point", header.row),
            4,
        ));
    }
    let most = u64::from(packed_size).div_ceil(3) * MOST_OF_THREE;
    if size > most {
        return Err(wrong(
            "uncompressed size",
            size,
            format!("at most {most} out of {packed_size} bytes"),
            4,
        ));
    }
    let (packed, behind) = packed.split_at(packed_size as usize);
    check_end(behind, start + 8 + u64::from(packed_size))?;
    lzf(packed, size as usize).map_err(|(at, made, reason)| {
        ParseErrorKind::Compressed {
            element: "byte",
            index: made as u64,
            reason: reason.to_owned(),
        }
        .at(Place::Byte(start + 8 + at as u64))
    })
}

/// Unpacks LZF (M. Lehmann, liblzf) to exactly `size` bytes. The error tells where in the input,
/// how many bytes were made before, and why.
fn lzf(packed: &[u8], size: usize) -> Result<Vec<u8>, (usize, usize, &'static str)> {
    let mut out = Vec::with_capacity(size);
    let mut at = 0;
    while at < packed.len() {
        let control = usize::from(packed[at]);
        let start = at;
        at += 1;
        if control < 32 {
            // So many bytes and one, as they are.
            let literal = packed.get(at..at + control + 1).ok_or((
                start,
                out.len(),
                "a literal is cut off",
            ))?;
            out.extend_from_slice(literal);
            at += control + 1;
        } else {
            // A piece of what was made before: three bits of length, or seven and a byte; thirteen
            // bits of distance.
            let mut next = || {
                let byte = packed.get(at).copied().map(usize::from).ok_or((
                    start,
                    out.len(),
                    "a reference is cut off",
                ));
                at += 1;
                byte
            };
            let length = 2 + if control >> 5 == 7 { 7 + next()? } else { control >> 5 };
            let distance = ((control & 31) << 8 | next()?) + 1;
            let from = out.len().checked_sub(distance).ok_or((
                start,
                out.len(),
                "a reference to before the beginning",
            ))?;
            for i in from..from + length {
                out.push(out[i]);
            }
        }
        if out.len() > size {
            return Err((start, out.len(), "more bytes than the header tells"));
        }
    }
    if out.len() < size {
        return Err((at, out.len(), "fewer bytes than the header tells"));
    }
    Ok(out)
}
