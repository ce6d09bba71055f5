//! The JSON and the binary chunk of a file, and the bytes of its buffers.

use super::document::{Buffer, Document};
use super::fault::{Fault, fault};
use crate::error::{ParseError, ParseErrorKind, Place};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;
use std::path::PathBuf;

/// First bytes of a binary file.
const MAGIC: &[u8] = b"glTF";
const JSON: u32 = u32::from_le_bytes(*b"JSON");
const BIN: u32 = u32::from_le_bytes(*b"BIN\0");

/// Returns whether the bytes are those of a binary file.
pub(crate) fn starts_as_glb(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// A file without its container.
pub(super) struct Parts<'a> {
    json: &'a [u8],
    /// Offset of the JSON in a binary file.
    json_at: Option<u64>,
    binary: Option<&'a [u8]>,
    /// Chunks that are neither JSON nor the binary chunk.
    pub other_chunks: u64,
}
impl<'a> Parts<'a> {
    /// Splits a binary file into its chunks. Anything else is JSON as a whole.
    pub(super) fn of(bytes: &'a [u8]) -> Result<Parts<'a>, ParseError> {
        if !starts_as_glb(bytes) {
            return Ok(Parts { json: bytes, json_at: None, binary: None, other_chunks: 0 });
        }
        let header = |field, found: u32, expected: String, at| {
            ParseErrorKind::Header { field, found: found.to_string(), expected }.at(Place::Byte(at))
        };
        let cut = |element: &str, expected: u64, found| {
            ParseErrorKind::Truncated { element: element.into(), expected, found }
                .at(Place::Byte(bytes.len() as u64))
        };
        let word = |at: usize| {
            let word = bytes.get(at..at + 4).and_then(|w| w.first_chunk());
            word.map(|w| u32::from_le_bytes(*w))
        };
        let (Some(version), Some(length)) = (word(4), word(8)) else {
            return Err(cut("header byte", 12, bytes.len() as u64));
        };
        if version != 2 {
            return Err(header("version", version, "2".into(), 4));
        }
        match (bytes.len() as u64).checked_sub(length.into()) {
            None => return Err(cut("byte", length.into(), bytes.len() as u64)),
            Some(0) => {}
            Some(found) => {
                return Err(ParseErrorKind::Trailing { found }.at(Place::Byte(length.into())));
            }
        }
        let mut parts = Parts { json: &[], json_at: None, binary: None, other_chunks: 0 };
        let mut at = 12;
        while at < bytes.len() {
            let (Some(size), Some(kind)) = (word(at), word(at + 4)) else {
                return Err(cut("chunk header byte", 8, (bytes.len() - at) as u64));
            };
            let rest = &bytes[at + 8..];
            let Some(content) = rest.get(..size as usize) else {
                return Err(cut("chunk byte", size.into(), rest.len() as u64));
            };
            match kind {
                JSON if at == 12 => (parts.json, parts.json_at) = (content, Some(at as u64 + 8)),
                BIN if parts.binary.is_none() => parts.binary = Some(content),
                _ if parts.json_at.is_none() => {
                    return Err(header(
                        "chunk type",
                        kind,
                        format!("{JSON} (JSON)"),
                        at as u64 + 4,
                    ));
                }
                _ => parts.other_chunks += 1,
            }
            at += 8 + content.len();
        }
        match parts.json_at {
            Some(_) => Ok(parts),
            None => Err(cut("chunk header byte", 8, 0)),
        }
    }
    /// Parses the JSON.
    pub(super) fn document(&self) -> Result<Document, ParseError> {
        serde_json::from_slice(self.json).map_err(|e| {
            let place = match self.json_at {
                None => Place::Line(e.line() as u64),
                Some(start) => {
                    let lines = self.json.split_inclusive(|&b| b == b'\n');
                    let before = lines.take(e.line().saturating_sub(1)).map(<[u8]>::len);
                    let column = e.column().saturating_sub(1);
                    Place::Byte(start + (before.sum::<usize>() + column) as u64)
                }
            };
            Fault { at: "the JSON".into(), reason: e.to_string() }.into_error(place)
        })
    }
}

/// Reads another file that the document names, relative to its own folder.
pub(super) type Fetch<'a> = dyn FnMut(&str) -> Result<(PathBuf, Vec<u8>), String> + 'a;

/// Bytes of the buffers; each is read when it is first needed.
pub(super) struct Buffers<'a, 'f> {
    binary: Option<&'a [u8]>,
    read: Vec<Option<Cow<'a, [u8]>>>,
    fetch: &'f mut Fetch<'f>,
    /// Files that were read.
    pub files: Vec<PathBuf>,
}
impl<'a, 'f> Buffers<'a, 'f> {
    pub(super) fn new(parts: &Parts<'a>, count: usize, fetch: &'f mut Fetch<'f>) -> Self {
        Buffers { binary: parts.binary, read: vec![None; count], fetch, files: vec![] }
    }
    /// Returns the declared bytes of a buffer.
    pub(super) fn get(&mut self, declared: &[Buffer], index: usize) -> Result<&[u8], Fault> {
        let at = || format!("buffers[{index}]");
        let Some(buffer) = declared.get(index) else {
            return Err(fault(
                at(),
                format!("does not exist, there are {} buffers", declared.len()),
            ));
        };
        if self.read[index].is_none() {
            let bytes = self.load(buffer, index).map_err(|reason| fault(at(), reason))?;
            let found = bytes.len() as u64;
            if found < buffer.byte_length {
                let declared = buffer.byte_length;
                let reason = format!("has {found} bytes, expected byteLength = {declared}");
                return Err(fault(at(), reason));
            }
            self.read[index] = Some(bytes);
        }
        let bytes = self.read[index].as_deref().unwrap_or_default();
        Ok(&bytes[..buffer.byte_length as usize])
    }
    fn load(&mut self, buffer: &Buffer, index: usize) -> Result<Cow<'a, [u8]>, String> {
        let Some(uri) = &buffer.uri else {
            return match self.binary {
                Some(binary) if index == 0 => Ok(Cow::Borrowed(binary)),
                _ => Err("has neither a uri nor a binary chunk: its data are missing".into()),
            };
        };
        if let Some(data) = uri.strip_prefix("data:") {
            let (kind, text) =
                data.split_once(',').ok_or("the data URI has no comma before its data")?;
            if !kind.ends_with(";base64") {
                return Err(format!("the data URI is of {kind:?}, expected base64"));
            }
            let bytes = STANDARD.decode(text);
            return bytes.map(Cow::Owned).map_err(|e| format!("the data URI: {e}"));
        }
        let (file, bytes) = (self.fetch)(uri)?;
        if !self.files.contains(&file) {
            self.files.push(file);
        }
        Ok(Cow::Owned(bytes))
    }
}
