//! PLY ("polygon file format", Greg Turk 1994): ASCII, binary little-endian and binary big-endian.

mod body;
mod header;

use self::body::{AsciiBody, BinaryBody, Body, Fault, Value};
use self::header::{Element, Encoding, Header, Kind, Property, Type};
use crate::assembly::{assemble, drop_not_finite};
use crate::error::{ParseError, ParseErrorKind, Place, listed};
use crate::names;
use crate::polygon::Faces;
use crate::positions::Positions;
use crate::report::{Format, ReadNote, ReadReport, Rounding};
use crate::scan::Scan;

/// Returns whether the content claims to be PLY.
pub(crate) fn starts_as_ply(bytes: &[u8]) -> bool {
    bytes.strip_prefix(b"ply").is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}

/// Reads a PLY file from memory.
///
/// Reads the element `vertex` with scalar properties x, y, z (any number type; nx, ny, nz, or
/// normal_x and the like, also yield normals) and the element `face` with an integer list named
/// `vertex_indices` or `vertex_index`. Properties may come in any order; other properties and
/// elements are skipped and [noted](ReadReport::notes). Header lines may end in CRLF. Polygons are
/// split into triangles, right for concave corners too. Vertices of a mesh that belong to no face
/// are dropped and noted. In ASCII, each instance of an element is one line, or several. Points
/// that are not finite are dropped if there are no faces. Time is linear in the file's size.
///
/// # Errors
/// [`ParseError`] with the line (header, ASCII data) or byte (binary data) at fault. The data must
/// hold exactly the numbers of instances that the header declares.
pub fn parse_ply(bytes: &[u8]) -> Result<Scan, ParseError> {
    if bytes.is_empty() {
        return Err(ParseErrorKind::Empty.in_file());
    }
    let header = Header::parse(bytes)?;
    match header.format {
        Encoding::Ascii => {
            read_elements(&header, AsciiBody::new(&bytes[header.length..], header.lines))
        }
        Encoding::Binary(order) => {
            read_elements(&header, BinaryBody { bytes, at: header.length, order })
        }
    }
}

const COORDINATES: [&str; 6] = ["x", "y", "z", "nx", "ny", "nz"];

/// Use of a property.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// Coordinate or component of the normal, by its index in [`COORDINATES`].
    Coordinate(usize),
    /// Corners of a face.
    Corners,
    Skipped,
}

/// Returns the role of each property of an element, and checks that the required ones are present.
fn roles(element: &Element) -> Result<Vec<Role>, ParseError> {
    let place = Place::Line(element.line);
    let find = |name: &str| element.properties.iter().position(|p| p.name == name);
    let mut roles = vec![Role::Skipped; element.properties.len()];
    let wrong_type = |p: &Property, expected, found: &str| {
        let (element, field) = (element.name.clone(), p.name.clone());
        ParseErrorKind::FieldType { element, field, expected, found: found.to_owned() }.at(place)
    };
    match element.name.as_str() {
        "vertex" => {
            let normal = names::normal(element.names());
            for (slot, field) in COORDINATES.into_iter().enumerate() {
                let place_of = match slot {
                    0..3 => find(field),
                    _ => normal.map(|normal| normal[slot - 3]),
                };
                match place_of {
                    Some(at) => match element.properties[at].kind {
                        Kind::Scalar(_) => roles[at] = Role::Coordinate(slot),
                        Kind::List { .. } => {
                            return Err(wrong_type(&element.properties[at], "a number", "a list"));
                        }
                    },
                    None if slot >= 3 => {}
                    None => {
                        return Err(
                            ParseErrorKind::MissingField { element: "vertex", field }.at(place)
                        );
                    }
                }
            }
        }
        "face" if element.count > 0 => {
            let field = "vertex_indices";
            let at = find(field)
                .or_else(|| find("vertex_index"))
                .ok_or_else(|| ParseErrorKind::MissingField { element: "face", field }.at(place))?;
            let expected = "a list of integers";
            match element.properties[at].kind {
                Kind::List { item, .. } if item.is_integer() => roles[at] = Role::Corners,
                Kind::List { item, .. } => {
                    return Err(wrong_type(
                        &element.properties[at],
                        expected,
                        &format!("a list of {}", item.name()),
                    ));
                }
                Kind::Scalar(scalar) => {
                    return Err(wrong_type(&element.properties[at], expected, scalar.name()));
                }
            }
        }
        _ => {}
    }
    Ok(roles)
}

/// Returns a note about the content of an element that is read but not kept.
fn not_kept(element: &Element, roles: &[Role]) -> Option<ReadNote> {
    let Element { name, count, properties, line } = element;
    let skipped = properties.iter().zip(roles).filter(|(_, role)| **role == Role::Skipped);
    let names = skipped.map(|(property, _)| property.name.as_str()).collect::<Vec<_>>();
    let text = match name.as_str() {
        _ if *count == 0 => return None,
        "vertex" | "face" if names.is_empty() => return None,
        "vertex" | "face" => {
            format!("element {name}: properties not kept: {}", listed(&names))
        }
        _ => format!("element {name}: {count} instances not kept"),
    };
    Some(ReadNote { place: Place::Line(*line), text })
}

fn read_elements<B: Body>(header: &Header, mut body: B) -> Result<Scan, ParseError> {
    let vertices = match header.elements.iter().find(|e| e.name == "vertex") {
        Some(vertex) if vertex.count > u64::from(u32::MAX) => {
            let (count, limit) = (vertex.count, u64::from(u32::MAX));
            return Err(
                ParseErrorKind::TooManyVertices { count, limit }.at(Place::Line(vertex.line))
            );
        }
        Some(vertex) if vertex.count > 0 => vertex.count,
        _ => return Err(ParseErrorKind::NoVertices.in_file()),
    };
    let vertex = header.elements.iter().find(|e| e.name == "vertex");
    let line = vertex.map_or(1, |e| e.line);
    let mut report = ReadReport {
        format: Format::Ply,
        fields_at: Place::Line(line),
        fields: vertex.map_or(vec![], |vertex| vertex.names().map(str::to_owned).collect()),
        ..ReadReport::default()
    };
    let mut reader = Reader {
        body: &mut body,
        vertices,
        positions: Positions::with_capacity(false, 0),
        normals: None,
        faces: Faces::default(),
        vertex: [0.0; 6],
        polygon: Vec::new(),
        not_finite: None,
        rounding: Rounding::default(),
    };
    for element in &header.elements {
        let roles = roles(element)?;
        report.notes.extend(not_kept(element, &roles));
        if element.properties.is_empty() {
            continue;
        }
        // A header may claim any count: reserve only what the data can hold.
        let possible = reader.body.rest().len() / element.least_size(header.format) + 1;
        let count = usize::try_from(element.count).unwrap_or(usize::MAX).min(possible);
        match element.name.as_str() {
            "vertex" => {
                let is_wide = |(property, role): (&Property, &Role)| {
                    matches!(role, Role::Coordinate(0..3)) && !property.is_exact_in_f32()
                };
                let wide = element.properties.iter().zip(&roles).any(is_wide);
                reader.positions = Positions::with_capacity(wide, count);
                reader.normals =
                    roles.contains(&Role::Coordinate(3)).then(|| Vec::with_capacity(count));
            }
            "face" => reader.faces.triangles.reserve(count),
            _ => {}
        }
        for index in 0..element.count {
            reader.instance(Instance { element, index }, &roles)?;
            if element.name == "vertex" {
                reader.push_vertex();
            }
        }
    }
    let Reader { positions, normals, faces, not_finite, rounding, .. } = reader;
    let trailing = body.rest().trim_ascii().len() as u64;
    if trailing > 0 {
        let place = match body.place() {
            Place::Line(line) => Place::Line(line + 1),
            place => place,
        };
        return Err(ParseErrorKind::Trailing { found: trailing }.at(place));
    }
    report.notes.extend(body.spanned());
    let (mut scan, of_positions) = assemble(positions, normals, faces, report);
    scan.report.notes.extend(rounding.and(of_positions).note(Place::Line(line)));
    drop_not_finite(scan, not_finite)
}

/// Extracts the wanted values from the numbers of a body.
struct Reader<'a, B> {
    body: &'a mut B,
    /// Number of vertices that the header declares.
    vertices: u64,
    positions: Positions,
    normals: Option<Vec<[f32; 3]>>,
    faces: Faces,
    /// Vertex being read, in the order of [`COORDINATES`].
    vertex: [f64; 6],
    /// Face being read.
    polygon: Vec<u32>,
    /// First coordinate that is not finite.
    not_finite: Option<ParseError>,
    rounding: Rounding,
}

impl<B: Body> Reader<'_, B> {
    fn instance(&mut self, instance: Instance, roles: &[Role]) -> Result<(), ParseError> {
        self.body.begin().map_err(|fault| instance.fault(fault, self.body, 0, 0))?;
        for (at, role) in roles.iter().enumerate() {
            match instance.element.properties[at].kind {
                Kind::Scalar(number) => self.scalar(instance, at, number, *role)?,
                Kind::List { length, item } => self.list(instance, at, length, item, *role)?,
            }
        }
        let (extra, used) = self.body.end();
        if extra > 0 {
            let (element, found) = (instance.element.name.clone(), used + extra);
            let (place, found) = self.body.first_line().unwrap_or((self.body.place(), found));
            let kind = ParseErrorKind::Values {
                element,
                index: instance.index,
                expected: used.to_string(),
                found,
            };
            return Err(kind.at(place));
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        instance: Instance,
        at: usize,
        number: Type,
        role: Role,
    ) -> Result<(), ParseError> {
        let place = self.body.place();
        let value =
            self.body.value(number).map_err(|fault| instance.fault(fault, self.body, at, 1))?;
        if let Role::Coordinate(slot) = role {
            let value = value.to_f64();
            self.vertex[slot] = value;
            if !(value as f32).is_finite() && self.not_finite.is_none() {
                let kind = ParseErrorKind::NotFinite {
                    vertex: instance.index,
                    field: COORDINATES[slot],
                    value,
                };
                self.not_finite = Some(kind.at(place));
            }
        }
        Ok(())
    }

    fn list(
        &mut self,
        instance: Instance,
        at: usize,
        length: Type,
        item: Type,
        role: Role,
    ) -> Result<(), ParseError> {
        let place = self.body.place();
        let value =
            self.body.value(length).map_err(|fault| instance.fault(fault, self.body, at, 1))?;
        let length = instance.length(value, at, role).map_err(|kind| kind.at(place))?;
        self.polygon.clear();
        for corner in 0..length {
            let place = self.body.place();
            let value = self
                .body
                .value(item)
                .map_err(|fault| instance.fault(fault, self.body, at, length - corner))?;
            if role == Role::Corners {
                let index = vertex_index(value, instance.index, corner, self.vertices);
                self.polygon.push(index.map_err(|kind| kind.at(place))?);
            }
        }
        if role == Role::Corners {
            self.faces.push(&self.polygon, place);
        }
        Ok(())
    }

    fn push_vertex(&mut self) {
        let [x, y, z, nx, ny, nz] = self.vertex;
        self.positions.push([x, y, z]);
        if let Some(normals) = &mut self.normals {
            normals.push([nx, ny, nz].map(|c| self.rounding.narrow(c)));
        }
    }
}

/// Instance of an element, for messages.
#[derive(Clone, Copy)]
struct Instance<'a> {
    element: &'a Element,
    index: u64,
}

impl Instance<'_> {
    /// Converts a fault at property `at`, with `wanted` values of it still to come, into an error.
    fn fault(self, fault: Fault, body: &mut impl Body, at: usize, wanted: u64) -> ParseError {
        let Instance { element, index } = self;
        let name = element.name.clone();
        let place = match (&fault, body.first_line()) {
            (Fault::LineEnd, Some((first, _))) => first,
            _ => body.place(),
        };
        match fault {
            Fault::End => {
                ParseErrorKind::Truncated { element: name, expected: element.count, found: index }
            }
            Fault::LineEnd => {
                let (_, read) = body.end();
                let found = body.first_line().map_or(read, |(_, found)| found);
                let later = &element.properties[at + 1..];
                let least = read + wanted + later.len() as u64;
                let open_ended = later.iter().any(|p| matches!(p.kind, Kind::List { .. }));
                let expected =
                    if open_ended { format!("at least {least}") } else { least.to_string() };
                ParseErrorKind::Values { element: name, index, expected, found }
            }
            Fault::Word { expected, found } => {
                let field = element.properties[at].name.clone();
                ParseErrorKind::Number { element: name, index, field, expected, found }
            }
        }
        .at(place)
    }

    /// Returns the length of a list: not negative, and at least 3 for the corners of a face.
    fn length(self, value: Value, at: usize, role: Role) -> Result<u64, ParseErrorKind> {
        let length = value.to_i64();
        if role == Role::Corners && length < 3 {
            return Err(ParseErrorKind::Corners { face: self.index, corners: length });
        }
        u64::try_from(length).map_err(|_| ParseErrorKind::Number {
            element: self.element.name.clone(),
            index: self.index,
            field: self.element.properties[at].name.clone(),
            expected: "a list length of 0 or more",
            found: length.to_string(),
        })
    }
}

fn vertex_index(
    value: Value,
    face: u64,
    corner: u64,
    vertices: u64,
) -> Result<u32, ParseErrorKind> {
    let index = value.to_i64();
    u32::try_from(index)
        .ok()
        .filter(|&i| u64::from(i) < vertices)
        .ok_or(ParseErrorKind::IndexOutOfRange { face, corner, index, vertices })
}
