//! NumPy arrays (`.npy`, versions 1 to 3). Reads one-dimensional arrays of whole numbers; writes
//! headers of any type.
//!
//! The header is a Python literal with three fields, simple enough to parse by hand. No header,
//! however malformed, makes the reader panic, loop forever, or allocate more than 64 KiB.
use std::fmt;
use std::io::{self, ErrorKind, Read};

/// First bytes of a file.
const MAGIC: [u8; 6] = *b"\x93NUMPY";
/// Maximum number of bytes of a header.
const MAX_HEADER: u32 = 1 << 16;

/// Element types that can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// `<u4`.
    U32,
    /// `<u8`.
    U64,
    /// `<i4`.
    I32,
    /// `<i8`.
    I64,
}
impl Element {
    const ALL: [(&str, Element); 4] = [
        ("<u4", Element::U32),
        ("<u8", Element::U64),
        ("<i4", Element::I32),
        ("<i8", Element::I64),
    ];
    /// Returns the bytes per element.
    pub fn bytes(self) -> u64 {
        match self {
            Element::U32 | Element::I32 => 4,
            Element::U64 | Element::I64 => 8,
        }
    }
}

/// Contents of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Type of the elements.
    pub element: Element,
    /// Number of elements.
    pub len: u64,
    /// Byte offset of the elements.
    pub start: u64,
}

/// Reason why a file cannot be read.
#[derive(Debug)]
pub enum NpyError {
    /// The stream cannot be read.
    Io(io::Error),
    /// The fault, in words.
    Fault(String),
}
impl fmt::Display for NpyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NpyError::Io(e) => write!(f, "cannot be read: {e}"),
            NpyError::Fault(fault) => f.write_str(fault),
        }
    }
}

/// Reads bytes until `bytes` is full or the stream ends. Returns their number.
///
/// # Errors
/// Those of the stream, except interruptions.
pub fn fill(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match from.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// Reads the header of a file of `file_bytes` bytes, if that is known. The returned length then
/// matches the file's.
///
/// # Errors
/// The stream cannot be read, is no NumPy array, or has another type or shape.
pub fn read_header(from: &mut impl Read, file_bytes: Option<u64>) -> Result<Header, NpyError> {
    let fault = |fault: String| Err(NpyError::Fault(fault));
    let truncated =
        |bytes: u64, needed: u64| format!("truncated: {bytes} bytes, the header needs {needed}");
    let mut start = [0; 12];
    let short = fill(from, &mut start[..10]).map_err(NpyError::Io)?;
    let known = short.min(MAGIC.len());
    if start[..known] != MAGIC[..known] {
        return fault(format!(
            "is not a .npy file: begins with \"{}\"",
            start[..short].escape_ascii()
        ));
    }
    if short < 10 {
        return fault(truncated(short as u64, 10));
    }
    let wide = match start[6] {
        1 => false,
        2 | 3 => true,
        version => return fault(format!("byte 6: version is {version}, expected 1 to 3")),
    };
    if wide {
        let more = fill(from, &mut start[10..]).map_err(NpyError::Io)?;
        if more < 2 {
            return fault(truncated(10 + more as u64, 12));
        }
    } else {
        start[10..].fill(0);
    }
    let length = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
    let begin = if wide { 12 } else { 10 } + u64::from(length);
    if length > MAX_HEADER {
        return fault(format!(
            "byte 8: the header has {length} bytes, expected at most {MAX_HEADER}"
        ));
    }
    let mut text = vec![0; length as usize];
    let filled = fill(from, &mut text).map_err(NpyError::Io)?;
    if filled < text.len() {
        return fault(truncated(begin - (text.len() - filled) as u64, begin));
    }
    let (descr, shape) = fields(&text).map_err(NpyError::Fault)?;

    let Some(&(_, element)) = Element::ALL.iter().find(|(name, _)| descr == format!("'{name}'"))
    else {
        return fault(format!("the elements are {descr}, expected '<u4', '<u8', '<i4' or '<i8'"));
    };
    let inside = shape.strip_prefix('(').and_then(|s| s.strip_suffix(')')).unwrap_or_default();
    let sides = inside.split(',').map(str::trim).collect::<Vec<_>>();
    let len = match sides[..] {
        // Both spell one dimension; the first is Python's.
        [len, ""] | [len] if len.bytes().all(|b| b.is_ascii_digit()) => len.parse::<u64>().ok(),
        _ => None,
    };
    let Some(len) = len else {
        return fault(format!("the shape is {shape}, expected one dimension"));
    };
    let expected = len.checked_mul(element.bytes()).and_then(|bytes| bytes.checked_add(begin));
    let header = Header { element, len, start: begin };
    let Some(file_bytes) = file_bytes else { return Ok(header) };
    match expected {
        Some(expected) if expected == file_bytes => Ok(header),
        Some(expected) if expected > file_bytes => {
            fault(format!("truncated: {file_bytes} bytes, {len} elements need {expected}"))
        }
        Some(expected) => {
            fault(format!("has {file_bytes} bytes, expected {expected} for {len} elements"))
        }
        None => fault(format!("truncated: {file_bytes} bytes, {len} elements need more than 2^64")),
    }
}

/// Returns `descr` and `shape` of a header as written, such as `{'descr': '<u4', 'fortran_order':
/// False, 'shape': (3,), }`.
fn fields(text: &[u8]) -> Result<(String, String), String> {
    let quoted = || text[..text.len().min(60)].escape_ascii().to_string();
    let unreadable = || {
        format!("byte 10: the header is \"{}\", expected descr, fortran_order and shape", quoted())
    };
    let text = str::from_utf8(text).map_err(|_| unreadable())?.trim();
    let mut rest =
        text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).ok_or_else(unreadable)?.trim();
    let (mut descr, mut order, mut shape) = (None, None, None);
    while !rest.is_empty() {
        let (name, after) = rest.split_once(':').ok_or_else(unreadable)?;
        let after = after.trim_start();
        let end = end_of_value(after).ok_or_else(unreadable)?;
        let value = Some(after[..end].trim().to_owned());
        let field = match name.trim().trim_matches(['\'', '"']) {
            "descr" => &mut descr,
            "fortran_order" => &mut order,
            "shape" => &mut shape,
            _ => return Err(unreadable()),
        };
        if field.is_some() {
            return Err(unreadable());
        }
        *field = value;
        rest = after[end..].trim_start_matches(',').trim();
    }
    match (descr, order, shape) {
        (Some(descr), Some(_), Some(shape)) => Ok((descr.replace('"', "'"), shape)),
        _ => Err(unreadable()),
    }
}
/// Returns where the value at the start ends: before a comma outside brackets and quotes.
fn end_of_value(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0i32, None);
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(q), _) if byte == q => quote = None,
            (Some(_), _) => (),
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'(' | b'[') => depth += 1,
            (None, b')' | b']') => depth -= 1,
            (None, b',') if depth == 0 => return Some(at),
            _ => (),
        }
    }
    (depth == 0 && quote.is_none()).then_some(text.len())
}

/// Returns the header for `len` elements of the type `descr`, a Python literal. Its size is the
/// same for every length, so that it can be rewritten once the length is known.
pub fn header(descr: &str, len: u64) -> Vec<u8> {
    let with =
        |len: u64| format!("{{'descr': {descr}, 'fortran_order': False, 'shape': ({len},), }}");
    let mut text = with(len);
    // The elements start at a multiple of 64 bytes.
    let whole = (MAGIC.len() + 4 + with(u64::MAX).len() + 1).next_multiple_of(64);
    text.push_str(&" ".repeat(whole - MAGIC.len() - 4 - text.len() - 1));
    text.push('\n');
    let length = (text.len() as u16).to_le_bytes();
    [&MAGIC[..], &[1, 0], &length, text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Header, String> {
        read_header(&mut &bytes[..], Some(bytes.len() as u64)).map_err(|e| e.to_string())
    }
    fn file(text: &str, elements: usize) -> Vec<u8> {
        let length = (text.len() as u16).to_le_bytes();
        [&b"\x93NUMPY\x01\x00"[..], &length, text.as_bytes(), &vec![0; elements]].concat()
    }

    #[test]
    fn headers_are_read_as_they_are_written() {
        for (descr, element) in Element::ALL {
            for len in [0, 1, 1000] {
                let mut bytes = header(&format!("'{descr}'"), len);
                assert_eq!(bytes.len() % 64, 0);
                let start = bytes.len() as u64;
                assert_eq!(bytes.len(), header(&format!("'{descr}'"), u64::MAX).len());
                bytes.resize(bytes.len() + (len * element.bytes()) as usize, 7);
                assert_eq!(read(&bytes), Ok(Header { element, len, start }));
            }
        }
        // As NumPy writes them, versions 1 and 2; then another order and other quotes.
        let text = "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\
                                                        \n";
        assert_eq!(read(&file(text, 16)).unwrap().len, 2);
        let wide = [
            &b"\x93NUMPY\x02\x00"[..],
            &(text.len() as u32).to_le_bytes(),
            text.as_bytes(),
            &[0; 16],
        ]
        .concat();
        assert_eq!(
            read(&wide).unwrap(),
            Header { element: Element::I64, len: 2, start: 12 + text.len() as u64 }
        );
        let text = "{\"shape\": (2,), \"fortran_order\": True, \"descr\": \"<u4\"}";
        assert_eq!(read(&file(text, 8)).unwrap().element, Element::U32);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let with = |descr: &str, shape: &str| {
            file(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"), 8)
        };
        for (bytes, says) in [
            (vec![], "truncated: 0 bytes, the header needs 10"),
            (b"\x93NUMPY\x01".to_vec(), "truncated: 7 bytes, the header needs 10"),
            (b"key,value\n1,2\n".to_vec(), "is not a .npy file: begins with \"key,value\\n\""),
            (b"\x93NUMPY\x04\x00\x00\x00".to_vec(), "byte 6: version is 4, expected 1 to 3"),
            (b"\x93NUMPY\x02\x00\xff\xff".to_vec(), "truncated: 10 bytes, the header needs 12"),
            (
                b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(),
                "byte 8: the header has 4294967295 bytes, expected at most 65536",
            ),
            (b"\x93NUMPY\x01\x00\xff\x00".to_vec(), "truncated: 10 bytes, the header needs 265"),
            (
                with("'<f8'", "(1,)"),
                "the elements are '<f8', expected '<u4', '<u8', '<i4' or '<i8'",
            ),
            (
                with("'>u8'", "(1,)"),
                "the elements are '>u8', expected '<u4', '<u8', '<i4' or '<i8'",
            ),
            (
                with("[('a', '<u4'), ('b', '<u4')]", "(1,)"),
                "the elements are [('a', '<u4'), ('b', '<u4')], \
                 expected '<u4', '<u8', '<i4' or '<i8'",
            ),
            (with("'<u4'", "(2, 1)"), "the shape is (2, 1), expected one dimension"),
            (with("'<u4'", "()"), "the shape is (), expected one dimension"),
            (with("'<u4'", "(-1,)"), "the shape is (-1,), expected one dimension"),
            (
                with("'<u8'", "(18446744073709551615,)"),
                "truncated: 95 bytes, 18446744073709551615 elements need more than 2^64",
            ),
            (with("'<u4'", "(3,)"), "truncated: 76 bytes, 3 elements need 80"),
            (with("'<u4'", "(1,)"), "has 76 bytes, expected 72 for 1 elements"),
            (file("{'descr': '<u4', 'shape': (2,)}", 8), "expected descr, fortran_order and shape"),
            (
                file("{'descr': '<u4', 'descr': '<u4'}", 8),
                "expected descr, fortran_order and shape",
            ),
            (file("{'descr': '<u4", 8), "expected descr, fortran_order and shape"),
            (file("{'descr': (}", 8), "expected descr, fortran_order and shape"),
            (file("\u{fffd}", 8), "expected descr, fortran_order and shape"),
        ] {
            let error = read(&bytes).unwrap_err();
            assert!(error.contains(says), "{error} / {says}");
        }
    }
}
