//! Points compressed by LASzip (M. Isenburg: LASzip: lossless compression of LiDAR data, 2013),
//! unpacked by the crate `laz`.
//!
//! That crate trusts its input. The assumptions it relies on are checked before it decodes:
//!
//! - the items of a point are those of the point format, in its order, and as long as a point;
//! - chunks end before their table, whose offset lies in the file; the table itself is not read,
//!   since it is only an index and the crate allocates what it claims;
//! - the sizes of a chunk's layers are checked against the file, since the crate allocates them;
//! - the first four bytes of each arithmetic code are valid: from there on the decoder keeps its
//!   value below its range, and so its indices within its tables.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use laz::record::{
    LayeredPointRecordDecompressor, RecordDecompressor, SequentialPointRecordDecompressor,
};
use laz::{DecompressionSelection, LazItem, LazItemType, LazVlr};

use super::header::{Header, take};
use super::points::Points;
use crate::error::{ParseError, ParseErrorKind, Place};

/// Maximum length of a compressed point: the decoder keeps some kilobytes for each byte of it.
const MAX_POINT_BYTES: u16 = 1024;
/// Maximum number of points per byte of the file; more than in any real scan.
const MAX_POINTS_A_BYTE: u64 = 16;
/// Maximum number of items of a point: position, time, colour, wave packet and extra bytes, plus a
/// reserve.
const MAX_ITEMS: usize = 8;
/// Bytes of an arithmetic code that the decoder starts with.
const FIRST_BYTES: usize = 4;
/// The only first bytes that no encoder writes: the value would not be below the range.
const NO_CODE: [u8; FIRST_BYTES] = [0xFF; FIRST_BYTES];

/// Grouping of points.
#[derive(Clone, Copy, PartialEq)]
enum Grouping {
    /// All points in one group.
    One,
    /// Consecutive chunks.
    Chunks,
    /// Chunks in which each field is a separate layer.
    Layers,
}

pub(super) fn unpack(
    bytes: &[u8],
    header: &Header,
    points: &mut Points<'_>,
) -> Result<(), ParseError> {
    let wrong = |field, found: String, expected: String, at: usize| {
        Err(ParseErrorKind::Header { field, found, expected }.at(Place::Byte(at as u64)))
    };
    if header.point_bytes > MAX_POINT_BYTES {
        let expected = format!("at most {MAX_POINT_BYTES} for compressed points");
        return wrong("point length", header.point_bytes.to_string(), expected, 105);
    }
    let most = MAX_POINTS_A_BYTE.saturating_mul(bytes.len() as u64);
    if header.points > most {
        let expected = format!("at most {most} in a file of {} bytes", bytes.len());
        let at = if header.claimed_before.is_some() { 247 } else { 107 };
        return wrong("number of points", header.points.to_string(), expected, at);
    }
    let records = header.records(bytes)?;
    let record =
        records.iter().find(|r| r.user == LazVlr::USER_ID.as_bytes() && r.id == LazVlr::RECORD_ID);
    let Some(record) = record else {
        let (element, field) = ("header", "record of laszip encoded points");
        return Err(
            ParseErrorKind::MissingField { element, field }.at(Place::Byte(header.size as u64))
        );
    };
    let at_record = Place::Byte(record.at as u64);
    let refused =
        |reason: String| ParseErrorKind::Compressed { element: "point", index: 0, reason };
    let settings =
        LazVlr::from_buffer(record.content).map_err(|e| refused(e.to_string()).at(at_record))?;
    let grouping = match u16::from_le_bytes(take(record.content, 0)) {
        1 => Grouping::One,
        2 => Grouping::Chunks,
        3 => Grouping::Layers,
        other => return wrong("compressor", other.to_string(), "1, 2 or 3".to_owned(), record.at),
    };
    if settings.items().len() > MAX_ITEMS {
        let expected = format!("at most {MAX_ITEMS}");
        return wrong(
            "number of items",
            settings.items().len().to_string(),
            expected,
            record.at + 32,
        );
    }
    // Sizes as claimed; the decoder's own item sizes are checked when it is set up.
    let claimed = settings.items().iter().map(|item| u64::from(item.size())).sum();
    check_length(claimed, header, at_record)?;
    check_items(settings.items(), header.format, at_record)?;
    // The offset of the chunk table precedes the chunks.
    let (start, end) = match grouping {
        Grouping::One => (header.points_at, bytes.len()),
        _ => (header.points_at + 8, end_of_chunks(bytes, header)?),
    };
    let bytes = &bytes[..end];
    let input = Cursor::new(bytes);
    let decoder: Decoder<'_> = match grouping {
        Grouping::Layers => Box::new(LayeredPointRecordDecompressor::new(input)),
        _ => Box::new(SequentialPointRecordDecompressor::new(input)),
    };
    let has_extra = points.normal.is_some();
    let mut chunks = Chunks { bytes, header, settings, grouping, at_record, decoder, has_extra };
    chunks.decoder.get_mut().set_position(start as u64);
    // Last line of defence: given the checks above, the decoder is not known to panic, but this is
    // not proven, and a file must not terminate the program. State that a panic leaves incomplete
    // is dropped, except the points, each of which is complete. The process's panic hook belongs to
    // the program: it is left alone and reports such a panic like any other.
    let unpacked = catch_unwind(AssertUnwindSafe(|| chunks.unpack(points)));
    unpacked.unwrap_or_else(|_| {
        let reason = "the decoder failed".to_owned();
        let kind = ParseErrorKind::Compressed {
            element: "point",
            index: points.positions.len() as u64,
            reason,
        };
        Err(kind.at(Place::Byte(start as u64)))
    })
}

/// Returns where the chunks end: at their table. Its offset precedes them, or is at the end of the
/// file if it was unknown when the chunks were written.
fn end_of_chunks(bytes: &[u8], header: &Header) -> Result<usize, ParseError> {
    let first = header.points_at as u64 + 8;
    let length = bytes.len() as u64;
    let offset_at = |at: u64| (at, i64::from_le_bytes(take(bytes, at as usize)));
    let (at, offset) = match offset_at(header.points_at as u64) {
        (_, -1) if length >= first + 8 => offset_at(length - 8),
        before => before,
    };
    match u64::try_from(offset) {
        Ok(table) if (first..=length).contains(&table) => Ok(table as usize),
        _ => {
            let (field, found) = ("offset of the chunk table", offset.to_string());
            Err(ParseErrorKind::Header { field, found, expected: format!("{first} to {length}") }
                .at(Place::Byte(at)))
        }
    }
}

/// Checks that the items of a point are those that LASzip writes for its format.
fn check_items(items: &[LazItem], format: u8, place: Place) -> Result<(), ParseError> {
    use LazItemType::{
        Byte, Byte14, GpsTime, Point10, Point14, RGB12, RGB14, RGBNIR14, WavePacket13, WavePacket14,
    };
    let required: &[LazItemType] = match format {
        0 => &[Point10],
        1 => &[Point10, GpsTime],
        2 => &[Point10, RGB12],
        3 => &[Point10, GpsTime, RGB12],
        4 => &[Point10, GpsTime, WavePacket13],
        5 => &[Point10, GpsTime, RGB12, WavePacket13],
        6 => &[Point14],
        7 => &[Point14, RGB14],
        8 => &[Point14, RGBNIR14],
        9 => &[Point14, WavePacket14],
        _ => &[Point14, RGBNIR14, WavePacket14],
    };
    let found = items.iter().map(LazItem::item_type).collect::<Vec<_>>();
    // Extra bytes may follow.
    let extra = found.strip_prefix(required);
    let is_extra = |item: &LazItemType| match item {
        Byte(count) => format < 6 && *count > 0,
        Byte14(count) => format >= 6 && *count > 0,
        _ => false,
    };
    match extra {
        Some([]) => Ok(()),
        Some([item]) if is_extra(item) => Ok(()),
        _ => {
            let expected =
                format!("{required:?} for format {format}, optionally followed by extra bytes");
            Err(ParseErrorKind::Header { field: "items", found: format!("{found:?}"), expected }
                .at(place))
        }
    }
}

/// Checks that all items together are as long as a point.
fn check_length(found: u64, header: &Header, place: Place) -> Result<(), ParseError> {
    let expected = header.point_bytes;
    if found == u64::from(expected) {
        return Ok(());
    }
    let (field, found, expected) =
        ("length of all items", found.to_string(), format!("{expected}, the point length"));
    Err(ParseErrorKind::Header { field, found, expected }.at(place))
}

type Decoder<'a> = Box<dyn RecordDecompressor<Cursor<&'a [u8]>> + Send + Sync + 'a>;

struct Chunks<'a> {
    bytes: &'a [u8],
    header: &'a Header,
    settings: LazVlr,
    grouping: Grouping,
    at_record: Place,
    decoder: Decoder<'a>,
    /// Whether extra bytes are wanted.
    has_extra: bool,
}

impl Chunks<'_> {
    fn unpack(&mut self, points: &mut Points<'_>) -> Result<(), ParseError> {
        let mut point = vec![0; self.header.point_bytes.into()];
        let mut left = self.header.points;
        while left > 0 {
            let start = Place::Byte(self.decoder.get().position());
            let failed = |reason: String, points: &Points<'_>| {
                let index = points.positions.len() as u64;
                ParseErrorKind::Compressed { element: "point", index, reason }
            };
            let in_chunk = self.begin_chunk()?.min(left);
            for _ in 0..in_chunk {
                self.decoder
                    .decompress_next(&mut point)
                    .map_err(|e| failed(e.to_string(), points).at(start))?;
                points.push(&point, start);
            }
            left -= in_chunk;
        }
        Ok(())
    }

    /// Prepares the decoder for the next chunk. Returns the number of points in it, at least one.
    fn begin_chunk(&mut self) -> Result<u64, ParseError> {
        let at_record = self.at_record;
        self.decoder.reset();
        self.decoder.set_fields_from(self.settings.items()).map_err(|e| {
            ParseErrorKind::Compressed { element: "point", index: 0, reason: e.to_string() }
                .at(at_record)
        })?;
        let mut selection = DecompressionSelection::xy_returns_channel().decompress_z();
        if self.has_extra {
            selection = selection.decompress_extra_bytes();
        }
        self.decoder.set_selection(selection);
        check_length(self.decoder.record_size() as u64, self.header, at_record)?;
        match self.grouping {
            Grouping::One => {
                self.check_code(
                    self.decoder.get().position() + u64::from(self.header.point_bytes),
                )?;
                Ok(self.header.points)
            }
            Grouping::Layers => self.check_layers(),
            Grouping::Chunks if self.settings.uses_variable_size_chunks() => {
                let reason = "chunks with varying numbers of points are supported only with layers"
                    .to_owned();
                Err(ParseErrorKind::Compressed { element: "point", index: 0, reason }.at(at_record))
            }
            Grouping::Chunks => {
                // The first point is not compressed.
                self.check_code(
                    self.decoder.get().position() + u64::from(self.header.point_bytes),
                )?;
                let points = self.settings.chunk_size();
                if points == 0 {
                    let (field, found) = ("chunk size", "0".to_owned());
                    let expected = "at least 1".to_owned();
                    return Err(ParseErrorKind::Header { field, found, expected }.at(at_record));
                }
                Ok(points.into())
            }
        }
    }

    /// Checks the head of a chunk in layers, which holds a point, the number of points, and the
    /// size of each layer. All of it must lie in the file.
    fn check_layers(&self) -> Result<u64, ParseError> {
        let at = self.decoder.get().position();
        let layers_of = |item: &LazItem| match item.item_type() {
            LazItemType::Point14 => 9,
            LazItemType::RGBNIR14 => 2,
            LazItemType::Byte14(count) => u64::from(count),
            _ => 1,
        };
        let layers: u64 = self.settings.items().iter().map(layers_of).sum();
        let sizes_at = at + u64::from(self.header.point_bytes) + 4;
        let size =
            |i: u64| u64::from(u32::from_le_bytes(take(self.bytes, (sizes_at + 4 * i) as usize)));
        let end = sizes_at + 4 * layers + (0..layers).map(size).sum::<u64>();
        let count = u32::from_le_bytes(take(self.bytes, sizes_at as usize - 4));
        if end > self.bytes.len() as u64 || count == 0 {
            let found = if count == 0 {
                "without points".to_owned()
            } else {
                format!("{} bytes long", end - at)
            };
            let expected = format!(
                "points, and at most {} bytes",
                (self.bytes.len() as u64).saturating_sub(at)
            );
            return Err(
                ParseErrorKind::Header { field: "chunk", found, expected }.at(Place::Byte(at))
            );
        }
        let mut layer_at = sizes_at + 4 * layers;
        for i in 0..layers {
            if size(i) > 0 {
                self.check_code(layer_at)?;
            }
            layer_at += size(i);
        }
        Ok(count.into())
    }

    /// Checks that an arithmetic code begins as an encoder begins it.
    fn check_code(&self, at: u64) -> Result<(), ParseError> {
        let first =
            self.bytes.get(at as usize..).and_then(|bytes| bytes.first_chunk::<FIRST_BYTES>());
        // A truncated code is detected when it is read.
        if first != Some(&NO_CODE) {
            return Ok(());
        }
        let (field, found, expected) =
            ("code", "FF FF FF FF".to_owned(), "smaller first bytes".to_owned());
        Err(ParseErrorKind::Header { field, found, expected }.at(Place::Byte(at)))
    }
}
