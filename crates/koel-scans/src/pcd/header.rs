//! Header of a PCD file: the fields of a point, the number of points, and the data layout.

use std::collections::HashSet;

use crate::error::{ParseError, ParseErrorKind, Place, excerpt, listed};
use crate::names;
use crate::report::ReadNote;

/// Names of the fields that are read.
pub(super) const COORDINATES: [&str; 6] = ["x", "y", "z", "normal_x", "normal_y", "normal_z"];

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Data {
    Text,
    Binary,
    Compressed,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Type {
    Signed,
    Unsigned,
    Float,
}

#[derive(Clone)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: Type,
    pub(super) size: u64,
    pub(super) count: u64,
}

impl Field {
    /// Returns whether 32-bit floating point holds every value.
    pub(super) fn is_exact_in_f32(&self) -> bool {
        self.size <= 2 || self.kind == Type::Float && self.size == 4
    }
}

pub(super) struct Header {
    pub(super) fields: Vec<Field>,
    pub(super) fields_line: u64,
    pub(super) points: u64,
    /// Bytes per point.
    pub(super) row: u64,
    pub(super) data: Data,
    /// Position and rotation of the sensor, unless the identity.
    viewpoint: Option<Viewpoint>,
    /// Bytes and lines up to the end of the DATA line.
    pub(super) length: usize,
    pub(super) lines: u64,
}

/// A VIEWPOINT that is not the identity.
struct Viewpoint {
    /// Its numbers as in the file.
    text: String,
    position: [f64; 3],
    line: u64,
}

/// Viewpoint at the origin without rotation: x, y, z, and a quaternion.
const IDENTITY: [f64; 7] = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0];

const HEADER_LINE: &str = "a PCD header line: VERSION, FIELDS, SIZE, TYPE, COUNT, WIDTH, HEIGHT, \
                           VIEWPOINT, POINTS or DATA";

const VIEWPOINT_LINE: &str = "VIEWPOINT and seven numbers";

impl Type {
    fn named(letter: &str) -> Option<Type> {
        match letter {
            "I" => Some(Type::Signed),
            "U" => Some(Type::Unsigned),
            "F" => Some(Type::Float),
            _ => None,
        }
    }
}

impl Header {
    pub(super) fn parse(bytes: &[u8]) -> Result<Header, ParseError> {
        let (mut length, mut lines) = (0, 0);
        let mut seen = HashSet::new();
        let mut draft = Draft::default();
        let data = loop {
            let raw = next_line(&bytes[length..], lines + 1)?;
            length += raw.len() + 1;
            lines += 1;
            let text = String::from_utf8_lossy(raw);
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let mut words = text.split_ascii_whitespace();
            let keyword = words.next().unwrap_or_default();
            let line = Line { raw, number: lines, values: words.collect() };
            if !seen.insert(keyword.to_owned()) {
                return Err(line.duplicate("header line", keyword));
            }
            if let Some(data) = draft.take(keyword, &line)? {
                break data;
            }
        };
        draft.finish(data, length, lines)
    }

    /// Returns notes about the content that is not kept.
    pub(super) fn not_kept(&self, wanted: &[Option<usize>; 6]) -> Vec<ReadNote> {
        let skipped = self.fields.iter().enumerate().filter(|(at, _)| !wanted.contains(&Some(*at)));
        // PCL pads rows with fields of this name.
        let names = skipped
            .map(|(_, field)| field.name.as_str())
            .filter(|name| *name != "_")
            .collect::<Vec<_>>();
        let fields = (!names.is_empty()).then(|| ReadNote {
            place: Place::Line(self.fields_line),
            text: format!("fields not kept: {}", listed(&names)),
        });
        let viewpoint = self.viewpoint.as_ref().map(|Viewpoint { text, line, .. }| ReadNote {
            place: Place::Line(*line),
            text: format!("VIEWPOINT is {text}, but is not applied to the points"),
        });
        fields.into_iter().chain(viewpoint).collect()
    }

    /// Returns the position of the sensor, if the file states one that is finite.
    pub(super) fn viewpoint(&self) -> Option<[f64; 3]> {
        let position = self.viewpoint.as_ref()?.position;
        position.iter().all(|c| c.is_finite()).then_some(position)
    }

    /// Returns the indices of the fields of x, y, z and, if all three are present, of the normal.
    pub(super) fn wanted(&self) -> Result<[Option<usize>; 6], ParseError> {
        let place = Place::Line(self.fields_line);
        let find = |name: &str| self.fields.iter().position(|f| f.name == name);
        let normal = names::normal(self.fields.iter().map(|f| f.name.as_str()));
        let mut wanted = [None; 6];
        for (slot, field) in COORDINATES.into_iter().enumerate() {
            let at = match (slot, normal) {
                (0..3, _) => find(field),
                (_, Some(normal)) => Some(normal[slot - 3]),
                (_, None) => continue,
            };
            let at = at.ok_or_else(|| {
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

/// Returns the bytes up to the end of the line with number `number`.
fn next_line(rest: &[u8], number: u64) -> Result<&[u8], ParseError> {
    let Some(end) = rest.iter().position(|&b| b == b'\n') else {
        let found = match excerpt(rest) {
            cut if cut.is_empty() => "the end of the file".to_owned(),
            cut => cut,
        };
        let expected = "a complete header, up to DATA";
        return Err(ParseErrorKind::Unexpected { expected, found }.at(Place::Line(number)));
    };
    Ok(&rest[..end])
}

/// Header line: a keyword and its values.
struct Line<'a> {
    raw: &'a [u8],
    number: u64,
    /// Words after the keyword.
    values: Vec<&'a str>,
}

impl Line<'_> {
    fn place(&self) -> Place {
        Place::Line(self.number)
    }

    fn unexpected(&self, expected: &'static str) -> ParseError {
        ParseErrorKind::Unexpected { expected, found: excerpt(self.raw) }.at(self.place())
    }

    fn duplicate(&self, what: &'static str, name: &str) -> ParseError {
        ParseErrorKind::Duplicate { what, name: name.to_owned() }.at(self.place())
    }

    /// Parses the only value as a number.
    fn number(&self, expected: &'static str) -> Result<u64, ParseError> {
        match *self.values {
            [one] => one.parse().map_err(|_| self.unexpected(expected)),
            _ => Err(self.unexpected(expected)),
        }
    }

    /// Parses every value with `of`; all must succeed.
    fn each<T>(
        &self,
        of: impl Fn(&str) -> Option<T>,
        expected: &'static str,
    ) -> Result<Vec<T>, ParseError> {
        let all: Option<Vec<T>> = self.values.iter().map(|v| of(v)).collect();
        all.ok_or_else(|| self.unexpected(expected))
    }

    /// Returns the names of the fields. The coordinates and normals must not be repeated.
    fn field_names(&self) -> Result<Vec<String>, ParseError> {
        let comes_twice = |c: &&&str| self.values.iter().filter(|v| *v == *c).count() > 1;
        match COORDINATES.iter().find(comes_twice) {
            Some(name) => Err(self.duplicate("field", name)),
            None => Ok(self.values.iter().map(|&v| v.to_owned()).collect()),
        }
    }

    /// Returns the viewpoint, unless it is the identity.
    fn viewpoint(&self) -> Result<Option<Viewpoint>, ParseError> {
        let numbers = self.each(|v| v.parse::<f64>().ok(), VIEWPOINT_LINE)?;
        let &[x, y, z, _, _, _, _] = numbers.as_slice() else {
            return Err(self.unexpected(VIEWPOINT_LINE));
        };
        let (text, position) = (self.values.join(" "), [x, y, z]);
        Ok((numbers != IDENTITY).then_some(Viewpoint { text, position, line: self.number }))
    }
}

/// Values of the header lines so far, not yet cross-checked.
#[derive(Default)]
struct Draft {
    names: Vec<String>,
    sizes: Vec<u64>,
    kinds: Vec<Type>,
    counts: Option<Vec<u64>>,
    width: Option<u64>,
    height: Option<u64>,
    points: Option<u64>,
    fields_line: u64,
    viewpoint: Option<Viewpoint>,
}

impl Draft {
    /// Takes the values of a header line. The last line, DATA, determines the data layout.
    fn take(&mut self, keyword: &str, line: &Line<'_>) -> Result<Option<Data>, ParseError> {
        match keyword {
            "VERSION" => {}
            "FIELDS" | "COLUMNS" => {
                self.names = line.field_names()?;
                self.fields_line = line.number;
            }
            "SIZE" => {
                let size = |v: &str| v.parse().ok().filter(|s| [1u64, 2, 4, 8].contains(s));
                self.sizes = line.each(size, "SIZE with 1, 2, 4 or 8 for each of FIELDS")?;
            }
            "TYPE" => {
                self.kinds = line.each(Type::named, "TYPE with I, U or F for each of FIELDS")?;
            }
            "COUNT" => {
                let count = |v: &str| v.parse::<u32>().ok().map(u64::from);
                self.counts = Some(line.each(count, "COUNT with a number for each of FIELDS")?);
            }
            "WIDTH" => self.width = Some(line.number("WIDTH and a number")?),
            "HEIGHT" => self.height = Some(line.number("HEIGHT and a number")?),
            "POINTS" => self.points = Some(line.number("POINTS and a number")?),
            "VIEWPOINT" => self.viewpoint = line.viewpoint()?,
            "DATA" => {
                return match *line.values {
                    ["ascii"] => Ok(Some(Data::Text)),
                    ["binary"] => Ok(Some(Data::Binary)),
                    ["binary_compressed"] => Ok(Some(Data::Compressed)),
                    _ => Err(line.unexpected("DATA ascii, binary or binary_compressed")),
                };
            }
            _ => return Err(line.unexpected(HEADER_LINE)),
        }
        Ok(None)
    }

    /// Builds the header that ended with line number `lines`, after `length` bytes.
    fn finish(mut self, data: Data, length: usize, lines: u64) -> Result<Header, ParseError> {
        let place = Place::Line(lines);
        let counts = self.counts.take().unwrap_or_else(|| vec![1; self.names.len()]);
        self.check_lengths(&counts, place)?;
        let points = self.point_count(place)?;
        let Draft { names, sizes, kinds, fields_line, viewpoint, .. } = self;
        let parts = names.into_iter().zip(kinds).zip(sizes).zip(counts);
        let fields: Vec<Field> =
            parts.map(|(((name, kind), size), count)| Field { name, kind, size, count }).collect();
        // Each is below 2^35, and a header of 2^29 fields would be gigabytes long.
        let row = fields.iter().map(|f| f.size * f.count).fold(0, u64::saturating_add);
        Ok(Header { fields, fields_line, points, row, data, viewpoint, length, lines })
    }

    /// Checks that SIZE, TYPE and COUNT have one value for each of FIELDS.
    fn check_lengths(&self, counts: &[u64], place: Place) -> Result<(), ParseError> {
        let lengths =
            [("SIZE", self.sizes.len()), ("TYPE", self.kinds.len()), ("COUNT", counts.len())];
        for (field, found) in lengths {
            if found != self.names.len() {
                let expected = format!("{}, one for each of FIELDS", self.names.len());
                let found = format!("{found} values");
                return Err(ParseErrorKind::Header { field, found, expected }.at(place));
            }
        }
        Ok(())
    }

    /// Returns the number of points: POINTS, which must equal WIDTH times HEIGHT, or that product.
    /// Requires at least one field and one point, and at most 2^32 - 1 points.
    fn point_count(&self, place: Place) -> Result<u64, ParseError> {
        let area = self.width.map(|width| width.saturating_mul(self.height.unwrap_or(1)));
        let points = match (self.points, area) {
            (Some(points), Some(area)) if points != area => {
                let (found, expected) = (points.to_string(), format!("{area}, WIDTH times HEIGHT"));
                return Err(ParseErrorKind::Header { field: "POINTS", found, expected }.at(place));
            }
            (points, area) => points.or(area),
        };
        let missing = |field| ParseErrorKind::MissingField { element: "header", field }.at(place);
        let points = points.ok_or_else(|| missing("POINTS"))?;
        if self.names.is_empty() {
            return Err(missing("FIELDS"));
        }
        if points == 0 {
            return Err(ParseErrorKind::NoVertices.in_file());
        }
        let limit = u64::from(u32::MAX);
        if points > limit {
            return Err(ParseErrorKind::TooManyVertices { count: points, limit }.at(place));
        }
        Ok(points)
    }
}
