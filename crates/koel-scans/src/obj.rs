//! Wavefront OBJ: vertices, vertex normals and faces. Materials, texture coordinates, groups and
//! curves are skipped.

use crate::assembly::{assemble, drop_not_finite};
use crate::error::{ParseError, ParseErrorKind, Place, excerpt, listed};
use crate::polygon::Faces;
use crate::positions::Positions;
use crate::report::{Format, ReadNote, ReadReport};
use crate::scan::Scan;

/// Statements of the format that do not affect vertices or faces.
const SKIPPED: &[&[u8]] = &[
    b"vt",
    b"vp",
    b"p",
    b"l",
    b"o",
    b"g",
    b"s",
    b"mg",
    b"usemtl",
    b"mtllib",
    b"usemap",
    b"maplib",
    b"bevel",
    b"c_interp",
    b"d_interp",
    b"lod",
    b"shadow_obj",
    b"trace_obj",
    b"ctech",
    b"stech",
    b"cstype",
    b"deg",
    b"bmat",
    b"step",
    b"curv",
    b"curv2",
    b"surf",
    b"parm",
    b"trim",
    b"hole",
    b"scrv",
    b"sp",
    b"end",
    b"con",
];

/// Reads an OBJ file from memory.
///
/// Polygons are split into triangles, right for concave corners too. Negative indices count back
/// from the latest vertex; a face may refer to a later vertex. Vertices of a mesh that belong to no
/// face are dropped and noted. Lines may be joined with a backslash. For a file without faces,
/// normals are kept (the n-th `vn` belongs to the n-th `v`), and points that are not finite are
/// dropped. Other statements are [noted](ReadReport::notes). Time is linear in the file's size.
///
/// # Errors
/// [`ParseError`] with the line at fault.
pub fn parse_obj(bytes: &[u8]) -> Result<Scan, ParseError> {
    if bytes.is_empty() {
        return Err(ParseErrorKind::Empty.in_file());
    }
    let mut reader = Reader { skipped: vec![0; SKIPPED.len()], ..Reader::default() };
    let mut lines = bytes.split(|&b| b == b'\n');
    let mut joined = Vec::new();
    let mut number = 0;
    while let Some(line) = lines.next() {
        number += 1;
        let place = Place::Line(number);
        let mut line = line.trim_ascii_end();
        if let Some(head) = line.strip_suffix(b"\\") {
            joined.clear();
            joined.extend_from_slice(head);
            for next in lines.by_ref() {
                number += 1;
                let next = next.trim_ascii_end();
                joined.push(b' ');
                match next.strip_suffix(b"\\") {
                    Some(head) => joined.extend_from_slice(head),
                    None => {
                        joined.extend_from_slice(next);
                        break;
                    }
                }
            }
            line = &joined;
        }
        reader.statement(line, place)?;
    }
    reader.finish()
}

/// Index above the number of vertices read so far; valid if the vertex comes later.
struct Forward {
    face: u64,
    corner: u64,
    index: i64,
    place: Place,
}

#[derive(Default)]
struct Reader {
    positions: Positions,
    normals: Vec<[f32; 3]>,
    faces: Faces,
    face_count: u64,
    forward: Vec<Forward>,
    polygon: Vec<u32>,
    /// First coordinate that is not finite.
    not_finite: Option<ParseError>,
    /// Statements that are not kept: the count of each, and the place of the first.
    skipped: Vec<u64>,
    first_skipped: Place,
    /// Vertices with values after x, y, z.
    longer: u64,
    first_longer: Place,
    first_normal: Place,
}

/// Increments a count and records the place of the first occurrence.
fn count(number: &mut u64, first: &mut Place, place: Place) {
    if *number == 0 {
        *first = place;
    }
    *number += 1;
}

impl Reader {
    fn statement(&mut self, line: &[u8], place: Place) -> Result<(), ParseError> {
        let content = line.split(|&b| b == b'#').next().unwrap_or_default();
        let mut words = content.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
        match words.next() {
            None => Ok(()),
            Some(b"v") => {
                let vertex = self.positions.len() as u64;
                // x y z, optionally followed by a weight, a colour, or both.
                let (position, found) =
                    vector(words, "vertex", vertex, ["x", "y", "z"], 7).map_err(|k| k.at(place))?;
                if found > 3 {
                    count(&mut self.longer, &mut self.first_longer, place);
                }
                self.check(position, vertex, ["x", "y", "z"], place);
                if vertex >= u64::from(u32::MAX) {
                    let (count, limit) = (vertex + 1, u64::from(u32::MAX));
                    return Err(ParseErrorKind::TooManyVertices { count, limit }.at(place));
                }
                self.positions.push(position);
                Ok(())
            }
            Some(b"vn") => {
                let index = self.normals.len() as u64;
                if index == 0 {
                    self.first_normal = place;
                }
                let (normal, _) = vector(words, "normal", index, ["nx", "ny", "nz"], 3)
                    .map_err(|k| k.at(place))?;
                self.check(normal, index, ["nx", "ny", "nz"], place);
                self.normals.push(normal.map(|c| c as f32));
                Ok(())
            }
            Some(b"f" | b"fo") => self.face(words, place),
            Some(word) => {
                let Some(at) = SKIPPED.iter().position(|&skipped| skipped == word) else {
                    let expected =
                        "an OBJ statement such as v, vn, vt, f, o, g, s, usemtl, mtllib or #";
                    return Err(
                        ParseErrorKind::Unexpected { expected, found: excerpt(line) }.at(place)
                    );
                };
                if self.skipped.iter().all(|&n| n == 0) {
                    self.first_skipped = place;
                }
                self.skipped[at] += 1;
                Ok(())
            }
        }
    }

    /// Records the first vector that is not finite in 32 bits.
    fn check(&mut self, vector: [f64; 3], vertex: u64, fields: [&'static str; 3], place: Place) {
        let is_infinite = |c: &f64| !(*c as f32).is_finite();
        if let (None, Some(axis)) = (&self.not_finite, vector.iter().position(is_infinite)) {
            let kind =
                ParseErrorKind::NotFinite { vertex, field: fields[axis], value: vector[axis] };
            self.not_finite = Some(kind.at(place));
        }
    }

    fn face<'a>(
        &mut self,
        words: impl Iterator<Item = &'a [u8]>,
        place: Place,
    ) -> Result<(), ParseError> {
        let (face, vertices) = (self.face_count, self.positions.len() as i64);
        self.polygon.clear();
        for (corner, word) in (0u64..).zip(words) {
            // vertex, vertex/texture, vertex//normal or vertex/texture/normal
            let first = word.split(|&b| b == b'/').next().unwrap_or_default();
            let index: i64 = number(first).ok_or_else(|| {
                let (element, field) = ("face".to_owned(), format!("corner {corner}"));
                let (expected, found) = ("a vertex index", excerpt(word));
                ParseErrorKind::Number { element, index: face, field, expected, found }.at(place)
            })?;
            let out_of_range = |vertices: i64| {
                let vertices = vertices as u64;
                ParseErrorKind::IndexOutOfRange { face, corner, index, vertices }.at(place)
            };
            let from_zero = match index {
                1.. => index - 1,
                0 => return Err(out_of_range(vertices)),
                _ => vertices
                    .checked_add(index)
                    .filter(|&i| i >= 0)
                    .ok_or_else(|| out_of_range(vertices))?,
            };
            if from_zero >= vertices {
                self.forward.push(Forward { face, corner, index, place });
            }
            self.polygon.push(u32::try_from(from_zero).map_err(|_| out_of_range(vertices))?);
        }
        if self.polygon.len() < 3 {
            return Err(
                ParseErrorKind::Corners { face, corners: self.polygon.len() as i64 }.at(place)
            );
        }
        self.faces.push(&self.polygon, place);
        self.face_count += 1;
        Ok(())
    }

    /// Returns notes about the content that is not kept or is converted.
    fn notes(&self) -> Vec<ReadNote> {
        let mut notes = Vec::new();
        let mut note = |count: u64, place, text: String| {
            if count > 0 {
                notes.push(ReadNote { place, text });
            }
        };
        let skipped = SKIPPED.iter().zip(self.skipped.iter().copied()).filter(|&(_, n)| n > 0);
        let skipped = skipped
            .map(|(word, n)| format!("{n} {}", String::from_utf8_lossy(word)))
            .collect::<Vec<_>>();
        let skipped = skipped.iter().map(String::as_str).collect::<Vec<_>>();
        let text = format!("statements not kept: {}", listed(&skipped));
        note(skipped.len() as u64, self.first_skipped, text);
        let longer = self.longer;
        note(
            longer,
            self.first_longer,
            format!("{longer} vertices have a weight or a colour, which is not kept"),
        );
        let normals = if self.face_count == 0 { 0 } else { self.normals.len() as u64 };
        note(
            normals,
            self.first_normal,
            format!("{normals} normals are not kept because there are faces"),
        );
        notes
    }

    fn finish(self) -> Result<Scan, ParseError> {
        let (vertices, notes) = (self.positions.len() as u64, self.notes());
        for Forward { face, corner, index, place } in self.forward {
            if index > vertices as i64 {
                return Err(
                    ParseErrorKind::IndexOutOfRange { face, corner, index, vertices }.at(place)
                );
            }
        }
        if vertices == 0 {
            return Err(ParseErrorKind::NoVertices.in_file());
        }
        let normals = match self.normals.len() as u64 {
            _ if self.face_count > 0 => None,
            0 => None,
            n if n == vertices => Some(self.normals),
            normals => {
                return Err(ParseErrorKind::NormalCount { normals, points: vertices }.in_file());
            }
        };
        // The file's decimals are rounded in any case.
        let report = ReadReport { format: Format::Obj, notes, ..ReadReport::default() };
        let (scan, _) = assemble(self.positions, normals, self.faces, report);
        drop_not_finite(scan, self.not_finite)
    }
}

/// Parses three numbers from 3 to `most` words. Returns them and the number of words.
fn vector<'a>(
    words: impl Iterator<Item = &'a [u8]>,
    element: &str,
    index: u64,
    fields: [&'static str; 3],
    most: u64,
) -> Result<([f64; 3], u64), ParseErrorKind> {
    let mut vector = [0.0; 3];
    let mut found = 0;
    for word in words {
        if let Some(&field) = fields.get(found as usize) {
            vector[found as usize] = number(word).ok_or_else(|| ParseErrorKind::Number {
                element: element.to_owned(),
                index,
                field: field.to_owned(),
                expected: "a number",
                found: excerpt(word),
            })?;
        }
        found += 1;
    }
    if !(3..=most).contains(&found) {
        let expected = if most == 3 { "3".to_owned() } else { format!("3 to {most}") };
        return Err(ParseErrorKind::Values { element: element.to_owned(), index, expected, found });
    }
    Ok((vector, found))
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
