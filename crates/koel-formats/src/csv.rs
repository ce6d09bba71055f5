//! Records of a CSV file (RFC 4180), read from a stream of bytes.
//!
//! The readers of the csv crate make records of any text: they do not tell whether a quote was
//! closed, what followed it, or which lines a field spans. This reader does. Its state says so, and
//! a fuzz target compares its records with those of that crate.
//!
//! A field is quoted if its first byte that is not a blank is a quote; two quotes in it stand for
//! one. Blanks outside the quotes are dropped, other text after the closing quote is a fault. In
//! other fields quotes are bytes like any other. Lines end with a line feed, a carriage return or
//! both. Blank lines are no records. A byte order mark is skipped.
//!
//! Memory: a buffer, and the kept fields up to 128 KiB each. Other fields may have any length. No
//! allocation aborts.
use std::collections::TryReserveError;
use std::io::{self, ErrorKind, Read};
use std::ops::Range;

/// Maximum number of bytes kept of a field: more than a number has, or a name on a command line. A
/// longer field is cut and ends in [`CUT`], so that it is neither.
const LONGEST: usize = 1 << 17;
const CUT: &[u8] = b"...";
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// Bytes that tell other formats from CSV.
pub const FIRST_BYTES: usize = 16;
/// Maximum number of bytes quoted after a closing quote.
const QUOTED_TEXT: usize = 20;

/// Reason why there is no next record. Lines and columns are counted from 1.
#[derive(Debug)]
pub enum Fault {
    /// The stream cannot be read.
    Io(io::Error),
    /// There is no memory for the kept fields.
    OutOfMemory,
    /// A field begins with a quote that is never closed.
    NeverClosed {
        /// Line of the quote.
        line: u64,
        /// Column of the quote.
        column: u64,
    },
    /// Text follows a closing quote.
    AfterQuote {
        /// Line of the text.
        line: u64,
        /// Column of the text.
        column: u64,
        /// First line of the field.
        begun: u64,
        /// The text, shortened.
        text: Vec<u8>,
        /// Whether a backslash precedes the quote.
        escaped: bool,
    },
}
impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Io(error)
    }
}
impl From<TryReserveError> for Fault {
    fn from(_: TryReserveError) -> Fault {
        Fault::OutOfMemory
    }
}

/// Fields to keep of a record.
#[derive(Clone, Copy, Debug)]
pub enum Keep<'a> {
    /// All fields.
    All,
    /// Those at these positions, from 0, in ascending order.
    Places(&'a [usize]),
}

/// A record: the fields that were kept, without quotes.
#[derive(Default, Debug)]
pub struct Record {
    /// First line.
    pub line: u64,
    /// Number of all fields, kept or not.
    pub fields: usize,
    bytes: Vec<u8>,
    /// End of each kept field in `bytes`.
    ends: Vec<usize>,
    is_cut: bool,
}
impl Record {
    fn clear(&mut self, line: u64) {
        self.bytes.clear();
        self.ends.clear();
        (self.line, self.fields) = (line, 0);
    }
    /// Returns the `i`-th kept field.
    ///
    /// # Panics
    /// Fewer fields were kept.
    pub fn get(&self, i: usize) -> &[u8] {
        &self.bytes[self.begin(i)..self.ends[i]]
    }
    /// Returns the kept fields.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|i| self.get(i))
    }
    fn begin(&self, i: usize) -> usize {
        if i == 0 { 0 } else { self.ends[i - 1] }
    }
    /// Appends bytes to the field that is being read.
    fn extend(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let room = LONGEST - (self.bytes.len() - self.begin(self.ends.len()));
        let kept = &bytes[..bytes.len().min(room)];
        self.is_cut |= kept.len() < bytes.len();
        self.bytes.try_reserve(kept.len())?;
        self.bytes.extend_from_slice(kept);
        Ok(())
    }
    fn end_field(&mut self) -> Result<(), Fault> {
        if self.is_cut {
            self.bytes.try_reserve(CUT.len())?;
            self.bytes.extend_from_slice(CUT);
            self.is_cut = false;
        }
        self.ends.try_reserve(1)?;
        self.ends.push(self.bytes.len());
        Ok(())
    }
}

/// Fields of one kind, counted, with the place of the first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Number of such fields.
    pub number: u64,
    /// Line of the first.
    pub line: u64,
    /// Column of the first.
    pub column: u64,
}
impl Seen {
    /// Counts a field.
    pub fn add(&mut self, line: u64, column: u64) {
        if self.number == 0 {
            (self.line, self.column) = (line, column);
        }
        self.number += 1;
    }
}

/// Fields that span several lines.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Spans {
    /// Their number and the place of the first.
    pub seen: Seen,
    /// Last line of the first such field.
    pub to: u64,
    /// First and last line of the longest.
    pub longest: (u64, u64),
}

/// What ends a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Delimiter,
    /// The end of the line or of the file.
    Record,
}

/// A stream of records.
pub struct Records<R> {
    from: R,
    delimiter: u8,
    /// Whether a byte may end a field or begin its quotes.
    is_special: [bool; 256],
    piece: usize,
    buffer: Vec<u8>,
    /// The bytes of the buffer that are to be read next.
    rest: Range<usize>,
    has_begun: bool,
    has_ended: bool,
    /// Line of the next byte.
    line: u64,
    /// Whether the previous byte was a carriage return: a line feed then belongs to it.
    after_return: bool,
    /// Number of blank lines.
    pub blank: u64,
    /// Line number of the last blank line.
    pub last_blank: u64,
    /// Fields that span several lines.
    pub spans: Spans,
    /// Quotes in fields that do not begin with one.
    pub inner_quotes: Seen,
}
impl<R: Read> Records<R> {
    /// Reads `piece` bytes at a time, at least [`FIRST_BYTES`].
    pub fn new(from: R, delimiter: u8, piece: usize) -> Records<R> {
        let mut is_special = [false; 256];
        [delimiter, b'\n', b'\r', b'"'].iter().for_each(|&byte| is_special[byte as usize] = true);
        Records {
            from,
            delimiter,
            is_special,
            piece,
            buffer: vec![],
            rest: 0..0,
            has_begun: false,
            has_ended: false,
            line: 1,
            after_return: false,
            blank: 0,
            last_blank: 0,
            spans: Spans::default(),
            inner_quotes: Seen::default(),
        }
    }
    /// Returns the number of lines read; at the end, of all lines.
    pub fn lines(&self) -> u64 {
        self.line - 1
    }
    /// Returns the first bytes of the stream, after a byte order mark, if nothing was read: 10 or
    /// more if there are.
    ///
    /// # Errors
    /// The stream cannot be read, or there is no memory for a piece of it.
    pub fn first_bytes(&mut self) -> Result<&[u8], Fault> {
        self.peek()?;
        Ok(&self.buffer[self.rest.clone()])
    }
    /// Reads the next record. Returns whether there is one.
    ///
    /// # Errors
    /// [`Fault`]; nothing can be read after it.
    pub fn next(&mut self, keep: Keep<'_>, record: &mut Record) -> Result<bool, Fault> {
        loop {
            let Some(byte) = self.peek()? else { return Ok(false) };
            let follows = std::mem::take(&mut self.after_return) && byte == b'\n';
            if follows {
                self.rest.start += 1;
            } else if matches!(byte, b'\n' | b'\r') {
                (self.blank, self.last_blank) = (self.blank + 1, self.line);
                self.end_line(byte);
            } else {
                break;
            }
        }
        record.clear(self.line);
        let mut places = match keep {
            Keep::All => &[][..],
            Keep::Places(places) => places,
        };
        loop {
            let is_kept = match keep {
                Keep::All => true,
                Keep::Places(_) => places.first() == Some(&record.fields),
            };
            let end = self.unquoted(is_kept, record)?;
            if is_kept {
                record.end_field()?;
                places = places.get(1..).unwrap_or_default();
            }
            record.fields += 1;
            if end == End::Record {
                return Ok(true);
            }
        }
    }
    /// Reads a field up to its end, or to its opening quote and from there as a quoted one.
    fn unquoted(&mut self, is_kept: bool, record: &mut Record) -> Result<End, Fault> {
        let mut only_blanks = true;
        loop {
            let rest = &self.buffer[self.rest.clone()];
            let text = rest.iter().position(|&byte| self.is_special[byte as usize]);
            let text = &rest[..text.unwrap_or(rest.len())];
            let next = rest.get(text.len()).copied();
            if next == Some(b'"') {
                only_blanks = only_blanks && is_blank(text);
                self.rest.start += text.len() + 1;
                if only_blanks {
                    record.bytes.truncate(record.begin(record.ends.len()));
                    record.is_cut = false;
                    return self.quoted(is_kept, record);
                }
                if is_kept {
                    record.extend(&rest[..text.len() + 1])?;
                }
                self.inner_quotes.add(self.line, record.fields as u64 + 1);
                continue;
            }
            if is_kept {
                record.extend(text)?;
            }
            self.rest.start += text.len();
            match next {
                Some(byte) => return Ok(self.end(byte)),
                None => {
                    only_blanks = only_blanks && is_blank(text);
                    if self.peek()?.is_none() {
                        self.line += 1;
                        return Ok(End::Record);
                    }
                }
            }
        }
    }
    /// Reads a field from after its opening quote.
    fn quoted(&mut self, is_kept: bool, record: &mut Record) -> Result<End, Fault> {
        let (begun, column) = (self.line, record.fields as u64 + 1);
        let mut last = None;
        loop {
            let rest = &self.buffer[self.rest.clone()];
            let stop = memchr::memchr3(b'"', b'\n', b'\r', rest);
            let text = &rest[..stop.unwrap_or(rest.len())];
            let next = rest.get(text.len()).copied();
            if is_kept {
                record.extend(text)?;
            }
            if let Some(&byte) = text.last() {
                (last, self.after_return) = (Some(byte), false);
            }
            self.rest.start += text.len();
            match next {
                None if self.peek()?.is_none() => {
                    return Err(Fault::NeverClosed { line: begun, column });
                }
                None => {}
                Some(b'"') => {
                    (self.rest.start, self.after_return) = (self.rest.start + 1, false);
                    if self.peek()? != Some(b'"') {
                        break;
                    }
                    if is_kept {
                        record.extend(b"\"")?;
                    }
                    (self.rest.start, last) = (self.rest.start + 1, Some(b'"'));
                }
                Some(byte) => {
                    if is_kept {
                        record.extend(&[byte])?;
                    }
                    if std::mem::take(&mut self.after_return) && byte == b'\n' {
                        self.rest.start += 1;
                    } else {
                        self.end_line(byte);
                    }
                    last = Some(byte);
                }
            }
        }
        if self.line > begun {
            if self.spans.seen.number == 0 {
                self.spans.to = self.line;
            }
            self.spans.seen.add(begun, column);
            let (from, to) = self.spans.longest;
            if self.line - begun > to - from {
                self.spans.longest = (begun, self.line);
            }
        }
        loop {
            match self.peek()? {
                None => {
                    self.line += 1;
                    return Ok(End::Record);
                }
                Some(byte) if self.is_special[byte as usize] && byte != b'"' => {
                    return Ok(self.end(byte));
                }
                Some(b' ' | b'\t') => self.rest.start += 1,
                Some(_) => {
                    let (line, escaped) = (self.line, last == Some(b'\\'));
                    let mut text = vec![];
                    while let Some(byte) = self.peek()?.filter(|byte| !b"\r\n".contains(byte))
                        && text.len() < QUOTED_TEXT
                    {
                        text.push(byte);
                        self.rest.start += 1;
                    }
                    return Err(Fault::AfterQuote { line, column, begun, text, escaped });
                }
            }
        }
    }
    /// Takes the delimiter or the first byte of a line end.
    fn end(&mut self, byte: u8) -> End {
        if byte == self.delimiter {
            self.rest.start += 1;
            return End::Delimiter;
        }
        self.end_line(byte);
        End::Record
    }
    fn end_line(&mut self, byte: u8) {
        (self.rest.start, self.line) = (self.rest.start + 1, self.line + 1);
        self.after_return = byte == b'\r';
    }
    /// Returns the next byte without taking it, `None` at the end.
    fn peek(&mut self) -> Result<Option<u8>, Fault> {
        if self.rest.is_empty() && !self.has_ended {
            self.fill()?;
        }
        Ok(self.buffer[self.rest.clone()].first().copied())
    }
    /// Reads bytes into the empty buffer; none at the end.
    fn fill(&mut self) -> Result<(), Fault> {
        if self.buffer.is_empty() {
            self.buffer.try_reserve_exact(self.piece)?;
            self.buffer.resize(self.piece, 0);
        }
        self.rest = 0..0;
        // The first bytes may come in parts.
        let least = if self.has_begun { 1 } else { FIRST_BYTES };
        while self.rest.end < least {
            match self.from.read(&mut self.buffer[self.rest.end..]) {
                Ok(0) => {
                    self.has_ended = true;
                    break;
                }
                Ok(read) => self.rest.end += read,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        if !self.has_begun && self.buffer[self.rest.clone()].starts_with(BYTE_ORDER_MARK) {
            self.rest.start = BYTE_ORDER_MARK.len();
            self.has_begun = true;
            return if self.rest.is_empty() && !self.has_ended { self.fill() } else { Ok(()) };
        }
        self.has_begun = true;
        Ok(())
    }
}
fn is_blank(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b' ' | b'\t'))
}
