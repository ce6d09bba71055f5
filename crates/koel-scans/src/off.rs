//! OFF ("object file format" of Geomview, and of CGAL): vertices and faces as text.

use crate::assembly::{assemble, drop_not_finite};
use crate::error::{ParseError, ParseErrorKind, Place, excerpt};
use crate::polygon::Faces;
use crate::positions::Positions;
use crate::report::{Format, ReadNote, ReadReport};
use crate::scan::Scan;
use crate::spanned::Spanned;

const COORDINATES: [&str; 6] = ["x", "y", "z", "nx", "ny", "nz"];
const HEADER: &str = "OFF, COFF, NOFF or CNOFF, then the numbers of vertices, faces and edges";

/// Returns whether the content claims to be OFF.
pub(crate) fn starts_as_off(bytes: &[u8]) -> bool {
    let word = bytes.split(u8::is_ascii_whitespace).find(|word| !word.is_empty());
    word.is_some_and(|word| kind_of(word).is_some())
}

/// Returns whether a keyword says that vertices have colours, and normals.
fn kind_of(word: &[u8]) -> Option<(bool, bool)> {
    match word {
        b"OFF" => Some((false, false)),
        b"COFF" => Some((true, false)),
        b"NOFF" => Some((false, true)),
        b"CNOFF" => Some((true, true)),
        _ => None,
    }
}

/// Lines without comments.
struct Lines<'a> {
    rest: &'a [u8],
    number: u64,
}

impl<'a> Lines<'a> {
    /// Returns the words of the next line that has any.
    fn next(&mut self) -> Option<Vec<&'a [u8]>> {
        while !self.rest.is_empty() {
            let end = self.rest.iter().position(|&b| b == b'\n').unwrap_or(self.rest.len());
            let line = self.rest[..end].split(|&b| b == b'#').next().unwrap_or_default();
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            self.number += 1;
            let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let words = words.collect::<Vec<&[u8]>>();
            if !words.is_empty() {
                return Some(words);
            }
        }
        None
    }
    fn place(&self) -> Place {
        Place::Line(self.number)
    }
}

/// Reads an OFF file from memory.
///
/// Faces of more than three corners are split into triangles, right for concave corners too.
/// Vertices that belong to no face are dropped if there are faces. Normals (NOFF) are kept; colours
/// of vertices and faces are [noted](ReadReport::notes). A vertex or face may span several lines. A
/// file without faces is a cloud, whose points that are not finite are dropped. Time is linear in
/// the file's size.
///
/// # Errors
/// [`ParseError`] with the line at fault. The data must hold exactly the numbers of vertices and
/// faces that the header declares. The number of edges does not matter.
pub fn parse_off(bytes: &[u8]) -> Result<Scan, ParseError> {
    if bytes.is_empty() {
        return Err(ParseErrorKind::Empty.in_file());
    }
    let mut reader = Reader {
        lines: Lines { rest: bytes, number: 0 },
        spanned: Spanned::default(),
        not_finite: None,
    };
    let header = reader.header()?;
    // The header may claim any count: reserve only what the data can hold, two bytes a word.
    let possible = reader.lines.rest.len() as u64 / 6 + 1;
    let mut positions = Positions::with_capacity(true, header.vertices.min(possible) as usize);
    let mut normals = header.has_normals.then(Vec::new);
    let mut colours = None;
    for index in 0..header.vertices {
        let values = reader.vertex(&header, index, &mut colours)?;
        positions.push([values[0], values[1], values[2]]);
        if let Some(normals) = &mut normals {
            normals.push([values[3], values[4], values[5]].map(|c| c as f32));
        }
    }
    let (mut faces, mut of_faces) = (Faces::default(), None);
    for index in 0..header.faces {
        reader.face(&header, index, &mut faces, &mut of_faces)?;
    }
    if reader.lines.next().is_some() {
        let found = reader.lines.rest.len() as u64 + 1;
        return Err(ParseErrorKind::Trailing { found }.at(reader.lines.place()));
    }
    let mut notes = vec![];
    for (place, what) in [(colours, "vertices"), (of_faces, "faces")] {
        let note = |place| ReadNote { place, text: format!("colours of {what} were not kept") };
        notes.extend(place.map(note));
    }
    notes.extend(reader.spanned.note());
    let report = ReadReport { format: Format::Off, notes, ..ReadReport::default() };
    // The file's decimals are rounded in any case.
    let (scan, _) = assemble(positions, normals, faces, report);
    drop_not_finite(scan, reader.not_finite)
}

struct Header {
    vertices: u64,
    faces: u64,
    has_colours: bool,
    has_normals: bool,
}

struct Reader<'a> {
    lines: Lines<'a>,
    spanned: Spanned,
    /// First coordinate that is not finite.
    not_finite: Option<ParseError>,
}

impl<'a> Reader<'a> {
    fn header(&mut self) -> Result<Header, ParseError> {
        let mut words = self.lines.next().unwrap_or_default();
        let unexpected = |words: &[&[u8]], place| {
            let found = match words {
                [] => "the end of the file".to_owned(),
                words => excerpt(&words.join(&b' ')),
            };
            ParseErrorKind::Unexpected { expected: HEADER, found }.at(place)
        };
        let Some((has_colours, has_normals)) = words.first().and_then(|word| kind_of(word)) else {
            return Err(unexpected(&words, self.lines.place()));
        };
        words.remove(0);
        if words.is_empty() {
            words = self.lines.next().unwrap_or_default();
        }
        let counts = words.iter().map(|word| number::<u64>(word)).collect::<Option<Vec<u64>>>();
        let (vertices, faces) = match counts.as_deref() {
            // Some programs leave out the edges.
            Some(&[vertices, faces] | &[vertices, faces, _]) => (vertices, faces),
            _ => return Err(unexpected(&words, self.lines.place())),
        };
        let limit = u64::from(u32::MAX);
        match vertices {
            0 => Err(ParseErrorKind::NoVertices.in_file()),
            count if count > limit => {
                Err(ParseErrorKind::TooManyVertices { count, limit }.at(self.lines.place()))
            }
            _ => Ok(Header { vertices, faces, has_colours, has_normals }),
        }
    }

    /// Returns the words of a record, which needs `least` of them, and its first line. `least` is
    /// asked again once there are more.
    fn record(
        &mut self,
        (element, index, declared): (&str, u64, u64),
        least: impl Fn(&[&[u8]]) -> u64,
    ) -> Result<(Vec<&'a [u8]>, Place), ParseError> {
        let truncated = || {
            let (element, expected, found) = (element.to_owned(), declared, index);
            ParseErrorKind::Truncated { element, expected, found }
        };
        let Some(mut words) = self.lines.next() else {
            return Err(truncated().at(self.lines.place()));
        };
        let (place, found) = (self.lines.place(), words.len() as u64);
        let short = |expected: u64| {
            let (element, expected) = (element.to_owned(), expected.to_string());
            ParseErrorKind::Values { element, index, expected, found }.at(place)
        };
        while (words.len() as u64) < least(&words) {
            let expected = least(&words);
            let Some(more) = self.lines.next() else { return Err(short(expected)) };
            words.extend(more);
            // A record ends with its last line; else the first has too few values.
            if words.len() as u64 > least(&words) {
                return Err(short(least(&words)));
            }
        }
        if self.lines.place() != place {
            self.spanned.add(place);
        }
        Ok((words, place))
    }

    fn vertex(
        &mut self,
        header: &Header,
        index: u64,
        colours: &mut Option<Place>,
    ) -> Result<[f64; 6], ParseError> {
        let wanted = if header.has_normals { 6 } else { 3 };
        let (words, place) = self.record(("vertex", index, header.vertices), |_| wanted as u64)?;
        let more = words.len() - wanted;
        if more > 0 {
            // A colour of one to four numbers; some programs write it without saying so.
            if more > 4 {
                let expected = match header.has_colours {
                    true => format!("{wanted} and a colour of up to 4"),
                    false => wanted.to_string(),
                };
                let (element, found) = ("vertex".to_owned(), words.len() as u64);
                return Err(ParseErrorKind::Values { element, index, expected, found }.at(place));
            }
            colours.get_or_insert(place);
        }
        let mut values = [0.0; 6];
        for (axis, word) in words[..wanted].iter().enumerate() {
            values[axis] = number(word).ok_or_else(|| {
                let (element, field) = ("vertex".to_owned(), COORDINATES[axis].to_owned());
                let (expected, found) = ("a number", excerpt(word));
                ParseErrorKind::Number { element, index, field, expected, found }.at(place)
            })?;
        }
        let is_infinite = |c: &f64| !(*c as f32).is_finite();
        if let (None, Some(axis)) = (&self.not_finite, values.iter().position(is_infinite)) {
            let (vertex, field, value) = (index, COORDINATES[axis], values[axis]);
            self.not_finite = Some(ParseErrorKind::NotFinite { vertex, field, value }.at(place));
        }
        Ok(values)
    }

    fn face(
        &mut self,
        header: &Header,
        face: u64,
        faces: &mut Faces,
        colours: &mut Option<Place>,
    ) -> Result<(), ParseError> {
        let corners_of = |words: &[&[u8]]| words.first().and_then(|word| number::<u64>(word));
        let least = |words: &[&[u8]]| corners_of(words).map_or(1, |n| n.saturating_add(1));
        let (words, place) = self.record(("face", face, header.faces), least)?;
        let fault = |field: String, word: &[u8], expected| {
            let (element, found) = ("face".to_owned(), excerpt(word));
            ParseErrorKind::Number { element, index: face, field, expected, found }.at(place)
        };
        let Some(corners) = corners_of(&words) else {
            return Err(fault("corners".to_owned(), words[0], "a number of corners"));
        };
        if corners < 3 {
            let corners = corners as i64;
            return Err(ParseErrorKind::Corners { face, corners }.at(place));
        }
        let (of_corners, of_colour) = words[1..].split_at(corners as usize);
        if !of_colour.is_empty() {
            colours.get_or_insert(place);
        }
        let mut polygon = Vec::with_capacity(of_corners.len());
        for (corner, word) in (0..).zip(of_corners) {
            let Some(index) = number::<i64>(word) else {
                return Err(fault(format!("corner {corner}"), word, "a vertex index"));
            };
            match u32::try_from(index) {
                Ok(vertex) if u64::from(vertex) < header.vertices => polygon.push(vertex),
                _ => {
                    let vertices = header.vertices;
                    let kind = ParseErrorKind::IndexOutOfRange { face, corner, index, vertices };
                    return Err(kind.at(place));
                }
            }
        }
        faces.push(&polygon, place);
        Ok(())
    }
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
