//! Points compressed by LASzip (M. Isenburg: LASzip: lossless compression of LiDAR data, 2013), unpacked by the crate `laz`.
//!
//! That crate trusts what it reads: it allocates what a chunk table claims, and may index out of bounds. So the chunk
//! table is not read at all; chunks follow each other, and the sizes that a chunk claims are held against the file before
//! it is unpacked. What still panics becomes an error, quietly.

use std::cell::Cell;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use laz::record::{LayeredPointRecordDecompressor, RecordDecompressor, SequentialPointRecordDecompressor};
use laz::{DecompressionSelection, LazItem, LazItemType, LazVlr};

use super::{Header, ParseError, ParseErrorKind, Place, Points, take};

/// The longest compressed point: the decoder keeps some kilobytes for each byte of it.
const MOST_POINT_BYTES: u16 = 1024;
/// More points for a byte of the file than any scan has.
const MOST_POINTS_A_BYTE: u64 = 16;
/// Items that a point is made of: position, time, colour, wave packet, extra bytes, and some to spare.
const MOST_ITEMS: usize = 8;

/// How points are grouped.
#[derive(Clone, Copy, PartialEq)]
enum Grouping {
    /// All in one.
    One,
    /// Chunks, each after the other.
    Chunks,
    /// Chunks in which each field is a layer of its own.
    Layers,
}

pub(super) fn unpack(bytes: &[u8], header: &Header, points: &mut Points<'_>) -> Result<(), ParseError> {
    let wrong = |field, found: String, expected: String, at: usize| {
        Err(ParseErrorKind::Header { field, found, expected }.at(Place::Byte(at as u64)))
    };
    if header.point_bytes > MOST_POINT_BYTES {
        let expected = format!("at most {MOST_POINT_BYTES} of compressed points");
        return wrong("point length", header.point_bytes.to_string(), expected, 105);
    }
    let most = MOST_POINTS_A_BYTE.saturating_mul(bytes.len() as u64);
    if header.points > most {
        let expected = format!("at most {most} in a file of {} bytes", bytes.len());
        return wrong("number of points", header.points.to_string(), expected, 107);
    }
    let records = header.records(bytes)?;
    let record = records.iter().find(|r| r.user == LazVlr::USER_ID.as_bytes() && r.id == LazVlr::RECORD_ID);
    let Some(record) = record else {
        let (element, field) = ("header", "record of laszip encoded points");
        return Err(ParseErrorKind::MissingField { element, field }.at(Place::Byte(header.size as u64)));
    };
    let at_record = Place::Byte(record.at as u64);
    let refused = |reason: String| ParseErrorKind::Compressed { element: "point", index: 0, reason };
    let settings = LazVlr::from_buffer(record.content).map_err(|e| refused(e.to_string()).at(at_record))?;
    let grouping = match u16::from_le_bytes(take(record.content, 0)) {
        1 => Grouping::One,
        2 => Grouping::Chunks,
        3 => Grouping::Layers,
        other => return wrong("compressor", other.to_string(), "1, 2 or 3".to_owned(), record.at),
    };
    if settings.items().len() > MOST_ITEMS {
        let expected = format!("at most {MOST_ITEMS}");
        return wrong("number of items", settings.items().len().to_string(), expected, record.at + 32);
    }
    // As they claim; what the decoder makes of them is checked when it is set up.
    let claimed = settings.items().iter().map(|item| u64::from(item.size())).sum();
    check_length(claimed, header, at_record)?;
    // The offset of the chunk table comes before the chunks.
    let start = header.points_at + if grouping == Grouping::One { 0 } else { 8 };
    let input = Cursor::new(bytes);
    let decoder: Decoder<'_> = match grouping {
        Grouping::Layers => Box::new(LayeredPointRecordDecompressor::new(input)),
        _ => Box::new(SequentialPointRecordDecompressor::new(input)),
    };
    let mut chunks = Chunks { bytes, header, settings, grouping, at_record, decoder };
    chunks.decoder.get_mut().set_position(start as u64);
    let unpacked = quietly(|| chunks.unpack(points));
    unpacked.unwrap_or_else(|panic| {
        let reason = format!("the decoder failed: {panic}");
        let kind = ParseErrorKind::Compressed { element: "point", index: points.positions.len() as u64, reason };
        Err(kind.at(Place::Byte(start as u64)))
    })
}

/// All items together must be as long as a point.
fn check_length(found: u64, header: &Header, place: Place) -> Result<(), ParseError> {
    let expected = header.point_bytes;
    if found == u64::from(expected) {
        return Ok(());
    }
    let (field, found, expected) = ("length of all items", found.to_string(), format!("{expected}, the point length"));
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
                self.decoder.decompress_next(&mut point).map_err(|e| failed(e.to_string(), points).at(start))?;
                points.push(&point, start);
            }
            left -= in_chunk;
        }
        Ok(())
    }

    /// Makes the decoder ready for the next chunk. Returns how many points are in it, at least one.
    fn begin_chunk(&mut self) -> Result<u64, ParseError> {
        let at_record = self.at_record;
        self.decoder.reset();
        self.decoder.set_fields_from(self.settings.items()).map_err(|e| {
            ParseErrorKind::Compressed { element: "point", index: 0, reason: e.to_string() }.at(at_record)
        })?;
        self.decoder.set_selection(DecompressionSelection::xy_returns_channel().decompress_z());
        check_length(self.decoder.record_size() as u64, self.header, at_record)?;
        match self.grouping {
            Grouping::One => Ok(self.header.points),
            Grouping::Layers => self.check_layers(),
            Grouping::Chunks if self.settings.uses_variable_size_chunks() => {
                let reason = "chunks of varying numbers of points are read only where they are in layers".to_owned();
                Err(ParseErrorKind::Compressed { element: "point", index: 0, reason }.at(at_record))
            }
            Grouping::Chunks => Ok(self.settings.chunk_size().into()),
        }
    }

    /// A chunk in layers begins with a point, the number of points, and the size of each layer: all must be in the file.
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
        let size = |i: u64| u64::from(u32::from_le_bytes(take(self.bytes, (sizes_at + 4 * i) as usize)));
        let end = sizes_at + 4 * layers + (0..layers).map(size).sum::<u64>();
        let count = u32::from_le_bytes(take(self.bytes, sizes_at as usize - 4));
        if end > self.bytes.len() as u64 || count == 0 {
            let found = if count == 0 { "without points".to_owned() } else { format!("{} bytes long", end - at) };
            let expected = format!("points, and at most {} bytes", (self.bytes.len() as u64).saturating_sub(at));
            return Err(ParseErrorKind::Header { field: "chunk", found, expected }.at(Place::Byte(at)));
        }
        Ok(count.into())
    }
}

thread_local! {
    /// Whether a panic of this thread is to be told as an error.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`. A panic becomes its message, and nothing is printed: the hook that the program had is asked on other occasions.
fn quietly<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                before(panic);
            }
        }));
    });
    QUIET.set(true);
    // What a panic leaves half done is dropped, but for the points, each of which is whole.
    let result = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(false);
    result.map_err(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("for an unknown reason").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(quietly(|| 5), Ok(5));
        assert_eq!(quietly(|| -> u8 { panic!("point {}", 7) }), Err("point 7".to_owned()));
        assert_eq!(quietly(|| -> u8 { panic!("bare") }), Err("bare".to_owned()));
        assert!(!QUIET.get());
    }
}
