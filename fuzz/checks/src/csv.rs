//! Checks of the reader of CSV files: against the csv crate, which reads any text, and against the
//! rule of RFC 4180 for quotes, which that crate does not check.
use koel_formats::csv::{FIRST_BYTES, Fault, Keep, Record, Records};
use std::io::Read;

/// A stream that gives its bytes in parts of `1 + bytes % 7`.
struct Parts<'a>(&'a [u8]);
impl Read for Parts<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let part = (1 + self.0.len() % 7).min(self.0.len()).min(bytes.len());
        let (part, rest) = self.0.split_at(part);
        bytes[..part.len()].copy_from_slice(part);
        self.0 = rest;
        Ok(part.len())
    }
}

type Rows = Vec<Vec<Vec<u8>>>;

/// Expects the csv crate's records where the quotes are sound, and an error elsewhere.
pub fn check(bytes: &[u8]) {
    let whole = read(bytes, Keep::All);
    assert_eq!(whole, read(Parts(bytes), Keep::All), "parts do not matter");
    let some = read(bytes, Keep::Places(&[1, 3]));
    let selected = whole.clone().map(|rows| {
        let fields =
            |row: &Vec<Vec<u8>>| [1, 3].into_iter().filter_map(|i| row.get(i).cloned()).collect();
        rows.iter().map(fields).collect::<Rows>()
    });
    assert_eq!(some, selected, "the other fields are skipped");

    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    // Blanks outside quotes are dropped here and kept by that crate.
    if text.windows(2).any(|pair| matches!(pair, [b' ' | b'\t', b'"'] | [b'"', b' ' | b'\t'])) {
        return;
    }
    assert_eq!(whole.is_ok(), quotes_are_sound(text));
    if let Ok(rows) = whole {
        let mut reader = csv::ReaderBuilder::new();
        let mut reader = reader.has_headers(false).flexible(true).from_reader(text);
        let expected = reader
            .byte_records()
            .map(|record| record.unwrap().iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
        // That crate drops a second byte order mark.
        let has_mark = text.starts_with(b"\xEF\xBB\xBF");
        assert!(has_mark || rows.iter().cloned().eq(expected), "{:?}", text.escape_ascii());
    }
}

/// Reads all records. Errors: the line of a fault.
fn read(from: impl Read, keep: Keep<'_>) -> Result<Rows, u64> {
    let (mut records, mut record, mut rows) =
        (Records::new(from, b',', FIRST_BYTES), Record::default(), vec![]);
    let mut lines = 0;
    loop {
        match records.next(keep, &mut record) {
            Ok(true) => {
                assert!(record.line > lines, "records do not share lines");
                lines = records.lines();
                assert!(record.line <= lines);
                rows.push(record.iter().map(<[u8]>::to_vec).collect());
            }
            Ok(false) => return Ok(rows),
            Err(Fault::NeverClosed { line, .. } | Fault::AfterQuote { line, .. }) => {
                assert!(line > lines);
                return Err(line);
            }
            Err(fault) => panic!("{fault:?}"),
        }
    }
}

/// Returns whether each field that begins with a quote ends with its closing quote.
fn quotes_are_sound(text: &[u8]) -> bool {
    let (mut at, is_end) = (0, |byte: &u8| b",\r\n".contains(byte));
    while at < text.len() {
        if text[at] == b'"' {
            at += 1;
            loop {
                match (text.get(at), text.get(at + 1)) {
                    (None, _) => return false,
                    (Some(b'"'), Some(b'"')) => at += 2,
                    (Some(b'"'), None) => return true,
                    (Some(b'"'), Some(next)) if is_end(next) => break,
                    (Some(b'"'), Some(_)) => return false,
                    (Some(_), _) => at += 1,
                }
            }
            at += 1;
        }
        at += text[at..].iter().position(is_end).unwrap_or(text.len() - at) + 1;
    }
    true
}
