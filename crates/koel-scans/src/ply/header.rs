//! Header of a PLY file: its encoding, elements and properties.

use std::collections::HashSet;

use crate::error::{ParseError, ParseErrorKind, Place, excerpt};

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Encoding {
    Ascii,
    Binary(ByteOrder),
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Type {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    F32,
    F64,
}

impl Type {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "char" | "int8" => Type::I8,
            "uchar" | "uint8" => Type::U8,
            "short" | "int16" => Type::I16,
            "ushort" | "uint16" => Type::U16,
            "int" | "int32" => Type::I32,
            "uint" | "uint32" => Type::U32,
            "float" | "float32" => Type::F32,
            "double" | "float64" => Type::F64,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Type::I8 => "char",
            Type::U8 => "uchar",
            Type::I16 => "short",
            Type::U16 => "ushort",
            Type::I32 => "int",
            Type::U32 => "uint",
            Type::F32 => "float",
            Type::F64 => "double",
        }
    }

    fn size(self) -> usize {
        match self {
            Type::I8 | Type::U8 => 1,
            Type::I16 | Type::U16 => 2,
            Type::I32 | Type::U32 | Type::F32 => 4,
            Type::F64 => 8,
        }
    }

    pub(super) fn is_integer(self) -> bool {
        !matches!(self, Type::F32 | Type::F64)
    }
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Scalar(Type),
    List { length: Type, item: Type },
}

pub(super) struct Property {
    pub(super) name: String,
    pub(super) kind: Kind,
}

impl Property {
    /// Returns whether 32-bit floating point holds every value.
    pub(super) fn is_exact_in_f32(&self) -> bool {
        !matches!(self.kind, Kind::Scalar(Type::F64 | Type::I32 | Type::U32))
    }
}

pub(super) struct Element {
    pub(super) name: String,
    pub(super) count: u64,
    pub(super) properties: Vec<Property>,
    pub(super) line: u64,
}

impl Element {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.properties.iter().map(|property| property.name.as_str())
    }

    /// Returns the minimum number of bytes of an instance in the given encoding.
    pub(super) fn least_size(&self, format: Encoding) -> usize {
        let least = |p: &Property| match (format, p.kind) {
            (Encoding::Ascii, _) => 2,
            (Encoding::Binary(_), Kind::Scalar(t) | Kind::List { length: t, .. }) => t.size(),
        };
        self.properties.iter().map(least).sum()
    }
}

pub(super) struct Header {
    pub(super) format: Encoding,
    pub(super) elements: Vec<Element>,
    /// Bytes and lines up to the end of `end_header`.
    pub(super) length: usize,
    pub(super) lines: u64,
}

const HEADER_LINE: &str =
    "a PLY header line: format, comment, obj_info, element, property or end_header";
const FORMAT_LINE: &str = "format ascii, binary_little_endian or binary_big_endian 1.0";
const ELEMENT_LINE: &str = "element NAME COUNT";
const PROPERTY_LINE: &str = "property TYPE NAME or property list TYPE TYPE NAME, after an \
                             element, with PLY's types and an integer list length";

impl Header {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut format = None;
        let mut elements: Vec<Element> = Vec::new();
        let mut element_names = HashSet::new();
        let mut property_names = HashSet::new();
        let (mut length, mut lines) = (0, 0);
        loop {
            let Some(end) = bytes[length..].iter().position(|&b| b == b'\n') else {
                let found = match excerpt(&bytes[length..]) {
                    cut if cut.is_empty() => "the end of the file".to_owned(),
                    cut => cut,
                };
                let expected = "a complete header, up to end_header";
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
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            if lines == 1 {
                if words != ["ply"] {
                    return Err(unexpected("the line ply"));
                }
                continue;
            }
            match *words {
                ["comment" | "obj_info", ..] => {}
                ["format", name, "1.0"] if format.is_none() => {
                    format = Some(match name {
                        "ascii" => Encoding::Ascii,
                        "binary_little_endian" => Encoding::Binary(ByteOrder::Little),
                        "binary_big_endian" => Encoding::Binary(ByteOrder::Big),
                        _ => return Err(unexpected(FORMAT_LINE)),
                    });
                }
                ["format", ..] => return Err(unexpected(FORMAT_LINE)),
                ["element", name, count] => {
                    let count = count.parse().map_err(|_| unexpected(ELEMENT_LINE))?;
                    if !element_names.insert(name.to_owned()) {
                        return Err(ParseErrorKind::Duplicate {
                            what: "element",
                            name: name.to_owned(),
                        }
                        .at(place));
                    }
                    property_names.clear();
                    elements.push(Element {
                        name: name.to_owned(),
                        count,
                        properties: Vec::new(),
                        line: lines,
                    });
                }
                ["element", ..] => return Err(unexpected(ELEMENT_LINE)),
                ["property", ref rest @ ..] => {
                    let element = elements.last_mut().ok_or_else(|| unexpected(PROPERTY_LINE))?;
                    let (name, kind) = property(rest).ok_or_else(|| unexpected(PROPERTY_LINE))?;
                    if !property_names.insert(name.to_owned()) {
                        return Err(ParseErrorKind::Duplicate {
                            what: "property",
                            name: name.to_owned(),
                        }
                        .at(place));
                    }
                    element.properties.push(Property { name: name.to_owned(), kind });
                }
                ["end_header"] => {
                    let format = format.ok_or_else(|| unexpected(FORMAT_LINE))?;
                    return Ok(Header { format, elements, length, lines });
                }
                _ => return Err(unexpected(HEADER_LINE)),
            }
        }
    }
}

fn property<'a>(words: &[&'a str]) -> Option<(&'a str, Kind)> {
    match *words {
        ["list", length, item, name] => {
            let length = Type::named(length).filter(|t| t.is_integer())?;
            Some((name, Kind::List { length, item: Type::named(item)? }))
        }
        [scalar, name] => Some((name, Kind::Scalar(Type::named(scalar)?))),
        _ => None,
    }
}
