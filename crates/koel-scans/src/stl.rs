//! STL (stereolithography, 3D Systems 1988): text and binary.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::assembly::drop_not_finite;
use crate::error::{ParseError, ParseErrorKind, Place, excerpt};
use crate::mesh::PointCloud;
use crate::report::{Format, ReadNote, ReadReport};
use crate::scan::Scan;

/// Bytes before the first triangle: a comment of 80, and the number of triangles.
const HEADER: usize = 84;
/// Bytes per triangle: a normal, three corners, two bytes of attributes.
const TRIANGLE: usize = 50;
/// Offset of the first corner of a triangle, after its normal.
const CORNERS: usize = 12;
/// Offset of the two bytes of attributes, after the corners.
const ATTRIBUTES: usize = 48;
const AXES: [&str; 3] = ["x", "y", "z"];

/// Returns the number of triangles that a binary file claims.
fn claimed(bytes: &[u8]) -> Option<u64> {
    bytes.get(80..HEADER)?.first_chunk::<4>().map(|&n| u32::from_le_bytes(n).into())
}

/// Returns whether the length matches a binary file with the claimed number of triangles, at least
/// one.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    claimed(bytes)
        .is_some_and(|n| n > 0 && bytes.len() as u64 == HEADER as u64 + TRIANGLE as u64 * n)
}

/// Returns whether the content claims to be text: a line that begins with `solid`, and a line that
/// begins with `facet` or ends the solid.
pub(crate) fn starts_as_text(bytes: &[u8]) -> bool {
    let is_newline: fn(&u8) -> bool = |&b| b == b'\n';
    let mut lines = Lines { lines: bytes.split(is_newline), number: 0 };
    let mut next = || lines.next().map(|(_, words)| words);
    next().is_some_and(|words| begins(&words, "solid"))
        && next().is_some_and(|words| begins(&words, "facet") || ends(&words, "solid"))
}

/// Reads an STL file from memory. It is binary if its length matches the claimed number of
/// triangles or if it does not look like text.
///
/// Corners at the same position become one vertex, in order of first occurrence. The normals of
/// triangles are skipped, since they follow from the corners. Text may hold several solids, with
/// names or without; `end solid` is as good as `endsolid`, in any case, and so for loops and
/// facets. Time is linear in the file's size.
///
/// # Errors
/// [`ParseError`] with the line (text) or byte (binary) at fault, including a corner that is not
/// finite.
pub fn parse_stl(bytes: &[u8]) -> Result<Scan, ParseError> {
    if bytes.is_empty() {
        return Err(ParseErrorKind::Empty.in_file());
    }
    let mut mesh = Welded::default();
    let mut unit = None;
    if !is_binary(bytes) && starts_as_text(bytes) {
        text(bytes, &mut mesh)?;
    } else {
        binary(bytes, &mut mesh)?;
        unit = unit_in(&bytes[..80]);
    }
    if mesh.triangles.is_empty() {
        return Err(ParseErrorKind::NoVertices.in_file());
    }
    let Attributes { count, first } = mesh.attributes;
    let text = format!("{count} triangles have attributes, such as a colour, which are not kept");
    let notes = if count > 0 { vec![ReadNote { place: first, text }] } else { Vec::new() };
    let report = ReadReport { format: Format::Stl, unit, notes, ..ReadReport::default() };
    let points = PointCloud { positions: mesh.positions, normals: None };
    drop_not_finite(Scan { points, triangles: mesh.triangles, report }, mesh.not_finite)
}

/// Returns the word after `UNITS=` in a binary file's comment, as some programs write it.
fn unit_in(comment: &[u8]) -> Option<String> {
    const MARK: &[u8] = b"UNITS=";
    let at = comment.windows(MARK.len()).position(|w| w == MARK)? + MARK.len();
    let word: String = comment[at..]
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric())
        .map(|&b| char::from(b))
        .collect();
    (!word.is_empty()).then_some(word)
}

/// Mesh whose corners at the same position are merged into one vertex.
#[derive(Default)]
struct Welded {
    positions: Vec<[f32; 3]>,
    triangles: Vec<[u32; 3]>,
    vertex_at: HashMap<[u32; 3], u32>,
    /// First corner that is not finite.
    not_finite: Option<ParseError>,
    attributes: Attributes,
}

/// Triangles with attributes other than 0.
#[derive(Default)]
struct Attributes {
    count: u64,
    first: Place,
}

impl Welded {
    fn push(&mut self, corners: [[f32; 3]; 3], place: impl Fn(usize, usize) -> Place) {
        let mut triangle = [0; 3];
        for (corner, position) in corners.into_iter().enumerate() {
            if let (None, Some(axis)) =
                (&self.not_finite, position.iter().position(|c| !c.is_finite()))
            {
                let vertex = (3 * self.triangles.len() + corner) as u64;
                let kind = ParseErrorKind::NotFinite {
                    vertex,
                    field: AXES[axis],
                    value: position[axis].into(),
                };
                self.not_finite = Some(kind.at(place(corner, axis)));
            }
            // Merge the two signs of zero.
            let key = position.map(|c| (c + 0.0).to_bits());
            // Below 2^32: three per triangle of 50 bytes or more, and distinct.
            let next = self.positions.len() as u32;
            triangle[corner] = match self.vertex_at.entry(key) {
                Entry::Occupied(vertex) => *vertex.get(),
                Entry::Vacant(vertex) => {
                    self.positions.push(position);
                    *vertex.insert(next)
                }
            };
        }
        self.triangles.push(triangle);
    }
}

fn binary(bytes: &[u8], mesh: &mut Welded) -> Result<(), ParseError> {
    let end = Place::Byte(bytes.len() as u64);
    let truncated = |expected, found| ParseErrorKind::Truncated {
        element: "triangle".to_owned(),
        expected,
        found,
    };
    let Some(expected) = claimed(bytes) else {
        let expected =
            "an STL file: text that begins with solid, or 80 bytes and the number of triangles";
        let found = excerpt(&bytes[..bytes.len().min(64)]);
        return Err(ParseErrorKind::Unexpected { expected, found }.in_file());
    };
    // Three distinct corners per triangle must fit 32-bit vertex indices.
    let limit = u64::from(u32::MAX) / 3;
    if expected > limit {
        return Err(ParseErrorKind::TooManyVertices { count: 3 * expected, limit: 3 * limit }
            .at(Place::Byte(80)));
    }
    let data = &bytes[HEADER..];
    let found = (data.len() / TRIANGLE) as u64;
    if found < expected {
        return Err(truncated(expected, found).at(end));
    }
    let size = TRIANGLE * expected as usize;
    if data.len() > size {
        let place = Place::Byte((HEADER + size) as u64);
        return Err(ParseErrorKind::Trailing { found: (data.len() - size) as u64 }.at(place));
    }
    mesh.triangles.reserve_exact(expected as usize);
    for (index, triangle) in data.chunks_exact(TRIANGLE).enumerate() {
        let offset = |corner: usize, axis: usize| CORNERS + 12 * corner + 4 * axis;
        let coordinate = |corner: usize, axis: usize| {
            let bytes =
                triangle[offset(corner, axis)..].first_chunk::<4>().copied().unwrap_or_default();
            f32::from_le_bytes(bytes)
        };
        let corners = [0, 1, 2].map(|corner| [0, 1, 2].map(|axis| coordinate(corner, axis)));
        let start = HEADER + index * TRIANGLE;
        if triangle[ATTRIBUTES..] != [0, 0] {
            if mesh.attributes.count == 0 {
                mesh.attributes.first = Place::Byte((start + ATTRIBUTES) as u64);
            }
            mesh.attributes.count += 1;
        }
        mesh.push(corners, |corner, axis| Place::Byte((start + offset(corner, axis)) as u64));
    }
    Ok(())
}

/// Lines of text that are not empty.
struct Lines<'a> {
    lines: std::slice::Split<'a, u8, fn(&u8) -> bool>,
    number: u64,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<(Place, Vec<&'a [u8]>)> {
        for line in self.lines.by_ref() {
            self.number += 1;
            let words: Vec<&[u8]> =
                line.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty()).collect();
            if !words.is_empty() {
                return Some((Place::Line(self.number), words));
            }
        }
        None
    }
    /// Requires that the next line is one for which `is` holds.
    fn expect(
        &mut self,
        is: impl Fn(&[&[u8]]) -> bool,
        expected: &'static str,
    ) -> Result<(), ParseError> {
        let found = self.next();
        match &found {
            Some((_, words)) if is(words) => Ok(()),
            _ => Err(self.unexpected(found, expected)),
        }
    }
    fn unexpected(&self, found: Option<(Place, Vec<&[u8]>)>, expected: &'static str) -> ParseError {
        let (place, found) = match found {
            Some((place, words)) => (place, excerpt(&words.join(&b' '))),
            None => (Place::Line(self.number), "the end of the file".to_owned()),
        };
        ParseErrorKind::Unexpected { expected, found }.at(place)
    }
}

fn begins(line: &[&[u8]], word: &str) -> bool {
    line.first().is_some_and(|w| w.eq_ignore_ascii_case(word.as_bytes()))
}

/// Returns whether a line ends a solid, loop or facet: `endsolid`, `end solid` or `end_solid`,
/// whatever follows it.
fn ends(line: &[&[u8]], what: &str) -> bool {
    let Some((first, rest)) = line.split_first() else { return false };
    let lower = first.to_ascii_lowercase();
    let Some(after) = lower.strip_prefix(b"end") else { return false };
    match after.strip_prefix(b"_").or(after.strip_prefix(b"-")).unwrap_or(after) {
        [] => begins(rest, what),
        joined => joined == what.as_bytes(),
    }
}

fn text(bytes: &[u8], mesh: &mut Welded) -> Result<(), ParseError> {
    let is_newline: fn(&u8) -> bool = |&b| b == b'\n';
    let mut lines = Lines { lines: bytes.split(is_newline), number: 0 };
    while let Some((place, words)) = lines.next() {
        if !begins(&words, "solid") {
            return Err(lines.unexpected(Some((place, words)), "solid, or the end of the file"));
        }
        loop {
            let found = lines.next();
            match &found {
                Some((_, words)) if ends(words, "solid") => break,
                Some((_, words)) if begins(words, "facet") => facet(&mut lines, mesh)?,
                _ => return Err(lines.unexpected(found, "facet or endsolid")),
            }
        }
    }
    Ok(())
}

fn facet(lines: &mut Lines<'_>, mesh: &mut Welded) -> Result<(), ParseError> {
    lines.expect(|words| begins(words, "outer") && begins(&words[1..], "loop"), "outer loop")?;
    let mut corners = [[0.0; 3]; 3];
    let mut places = [Place::File; 3];
    for corner in 0..3 {
        let index = (3 * mesh.triangles.len() + corner) as u64;
        let found = lines.next();
        let (place, numbers) = match &found {
            Some((place, words)) if begins(words, "vertex") => (*place, &words[1..]),
            _ => return Err(lines.unexpected(found, "vertex and three numbers")),
        };
        if numbers.len() != 3 {
            let (element, found) = ("vertex".to_owned(), numbers.len() as u64);
            return Err(ParseErrorKind::Values { element, index, expected: "3".to_owned(), found }
                .at(place));
        }
        for (axis, word) in numbers.iter().enumerate() {
            let value = std::str::from_utf8(word).ok().and_then(|w| w.parse().ok());
            corners[corner][axis] = value.ok_or_else(|| {
                let (element, field) = ("vertex".to_owned(), AXES[axis].to_owned());
                ParseErrorKind::Number {
                    element,
                    index,
                    field,
                    expected: "a number",
                    found: excerpt(word),
                }
                .at(place)
            })?;
        }
        places[corner] = place;
    }
    lines.expect(|words| ends(words, "loop"), "endloop after three vertices")?;
    lines.expect(|words| ends(words, "facet"), "endfacet")?;
    mesh.push(corners, |corner, _| places[corner]);
    Ok(())
}
