//! Columns of whole numbers in a CSV file. Every line is counted as a row, the heading or a blank
//! line.
//!
//! Blanks around a field are ignored, in rows and in the heading.
use super::args::Header;
use super::columns::{Column, ColumnName, PIECE, cannot_be_read, in_file};
use crate::failure::{Failure, Outcome};
use serde::Serialize;
use std::io::{self, Read};
use std::path::Path;

#[cfg(test)]
mod tests;

/// Maximum number of characters quoted from a heading in the report.
const QUOTED_HEADING: usize = 60;
/// Maximum number of characters quoted from a field in an error.
const QUOTED_FIELD: usize = 40;
/// Hexadecimal digits of an MD5 sum or a UUID.
const DIGITS_OF_128_BITS: usize = 32;
const BY_NAME: &str = "a column is selected by name";
const BY_OPTION: &str = "--header yes";
const BY_LETTERS: &str = "no selected field is a number, each begins with a letter";

/// The first line, if it is not a row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Heading {
    pub line: u64,
    /// The line's text, shortened.
    pub text: String,
    pub why: &'static str,
}

/// Counts of the lines read so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Lines {
    /// All lines.
    pub read: u64,
    pub rows: u64,
    pub heading: Option<Heading>,
    /// Number of empty lines; `first_blank` is the line number of the first.
    pub blank: u64,
    pub first_blank: u64,
    /// Number of fields of 32 hexadecimal digits without 0x or hyphens.
    bare_hexadecimal: u64,
    /// Number of fields of 32 decimal digits; `first_bare_decimal` is the line number of the first.
    bare_decimal: u64,
    first_bare_decimal: u64,
}
impl Lines {
    /// Returns the notes for the report.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = vec![];
        if self.blank > 0 {
            let (blank, first) = (self.blank, self.first_blank);
            notes.push(format!("{blank} blank lines were skipped, the first is line {first}"));
        }
        // One MD5 sum in 3 million has no letter.
        if self.bare_hexadecimal > 0 && self.bare_decimal > 0 {
            let (decimal, first) = (self.bare_decimal, self.first_bare_decimal);
            notes.push(format!(
                "{decimal} keys of 32 digits without a letter were read as decimal, the first in \
                 line {first}, next to {} hexadecimal keys; 0x makes a key hexadecimal",
                self.bare_hexadecimal
            ));
        }
        notes
    }
    fn note_form(&mut self, form: Form, line: u64) {
        match form {
            Form::BareHexadecimal => self.bare_hexadecimal += 1,
            Form::BareDecimal => {
                if self.bare_decimal == 0 {
                    self.first_bare_decimal = line;
                }
                self.bare_decimal += 1;
            }
            Form::Other => {}
        }
    }
}

/// Streamed columns of a CSV file.
pub(super) struct Csv<'a, R> {
    reader: csv::Reader<Unified<R>>,
    names: Vec<&'a ColumnName>,
    /// Whether the first column has 128-bit keys.
    pub wide: bool,
    header: Header,
    /// Positions of the columns, known once the first line is read.
    places: Option<Vec<usize>>,
    pub lines: Lines,
}
impl<'a, R: Read> Csv<'a, R> {
    pub(super) fn new(from: R, names: &[&'a ColumnName], wide: bool, header: Header) -> Csv<'a, R> {
        let mut builder = csv::ReaderBuilder::new();
        let builder = builder.has_headers(false).buffer_capacity(PIECE);
        let reader = builder.from_reader(Unified::new(from));
        Csv { reader, names: names.to_vec(), wide, header, places: None, lines: Lines::default() }
    }
    /// Returns empty columns.
    pub(super) fn columns(&self) -> Vec<Column> {
        let column = |i| if self.is_wide(i) { Column::U128(vec![]) } else { Column::U32(vec![]) };
        (0..self.names.len()).map(column).collect()
    }
    fn is_wide(&self, i: usize) -> bool {
        self.wide && i == 0
    }
    /// Appends the next rows to the columns, at most `most`. Returns their number, 0 at the end.
    ///
    /// Errors: a field is not a number, with its line and column; the file is empty; a quote is not
    /// closed.
    pub(super) fn read(
        &mut self,
        file: &Path,
        columns: &mut [Column],
        most: usize,
    ) -> Outcome<usize> {
        let (mut row, mut rows) = (csv::ByteRecord::new(), 0);
        while rows < most {
            let Some(line) = self.next(file, &mut row)? else { break };
            let is_first = self.places.is_none();
            if is_first {
                self.places = Some(find_columns(file, line, &row, &self.names)?);
                if let Some(why) = self.why_heading(file, &row)? {
                    self.lines.heading = Some(Heading { line, text: quoted(&row), why });
                    continue;
                }
            }
            self.add(file, line, &row, columns, is_first)?;
            (rows, self.lines.rows) = (rows + 1, self.lines.rows + 1);
        }
        if self.places.is_none() {
            return Err(in_file(file, "is empty, expected lines of numbers"));
        }
        Ok(rows)
    }
    /// Reads the next record. Returns its first line, `None` at the end of the file.
    fn next(&mut self, file: &Path, row: &mut csv::ByteRecord) -> Outcome<Option<u64>> {
        let before = self.reader.position().line();
        let read = self.reader.read_byte_record(row);
        let is_row = !matches!(read, Ok(false));
        let after = self.reader.position().line();
        self.lines.read = after - 1;
        // Every line ends with a line feed, and only blank lines precede a record.
        let feeds = |field: &[u8]| field.iter().filter(|&&byte| byte == b'\n').count() as u64;
        // An unclosed quote takes the rest of the file, including the last line feed, into its
        // field.
        let ends_in_feed = row.iter().next_back().is_some_and(|field| field.ends_with(b"\n"));
        let is_open = is_row && ends_in_feed && self.reader.get_ref().ends_in_quotes();
        let own_feed = u64::from(!is_open);
        let line =
            if is_row { after - own_feed - row.iter().map(feeds).sum::<u64>() } else { after };
        if line > before {
            if self.lines.blank == 0 {
                self.lines.first_blank = before;
            }
            self.lines.blank += line - before;
        }
        if is_open {
            return Err(in_file(file, format_args!("line {line}: a quote is never closed")));
        }
        read.map_err(|e| csv_fault(file, line, e))?;
        Ok(is_row.then_some(line))
    }
    /// Returns why the first line is a heading, if it is one.
    fn why_heading(&self, file: &Path, row: &csv::ByteRecord) -> Outcome<Option<&'static str>> {
        let by_name = self.names.iter().find(|name| matches!(name, ColumnName::Name(_)));
        let places = self.places.iter().flatten();
        Ok(match (self.header, by_name) {
            (Header::No, Some(name)) => {
                let fault =
                    format_args!("column {name} is selected by name, which excludes --header no");
                return Err(in_file(file, fault));
            }
            (Header::No, None) => None,
            (_, Some(_)) => Some(BY_NAME),
            (Header::Yes, None) => Some(BY_OPTION),
            (Header::Auto, None) => {
                let are_names =
                    places.enumerate().all(|(i, &place)| is_name(&row[place], self.is_wide(i)));
                are_names.then_some(BY_LETTERS)
            }
        })
    }
    /// Appends a row to the columns.
    fn add(
        &mut self,
        file: &Path,
        line: u64,
        row: &csv::ByteRecord,
        columns: &mut [Column],
        is_first: bool,
    ) -> Outcome {
        let places = self.places.iter().flatten();
        for ((i, column), (&place, name)) in
            columns.iter_mut().enumerate().zip(places.zip(&self.names))
        {
            let (field, wide) = (&row[place], self.wide && i == 0);
            let number = match wide {
                true => wide_number(field).map(|(number, form)| {
                    self.lines.note_form(form, line);
                    number
                }),
                false => number(field).map(u128::from),
            };
            let Some(number) = number else {
                let found = field[..field.len().min(QUOTED_FIELD)].escape_ascii();
                let or_heading = match is_first && self.header == Header::Auto {
                    true => "; --header yes, if this line is a heading",
                    false => "",
                };
                let expected = expected(wide);
                let fault = format_args!(
                    "line {line}, column {name}: found \"{found}\", {expected}{or_heading}"
                );
                return Err(in_file(file, fault));
            };
            column.push(number);
        }
        Ok(())
    }
}
fn expected(wide: bool) -> String {
    match wide {
        true => {
            "expected 128 bits: decimal digits, hexadecimal digits after 0x, or 32 hexadecimal \
                 digits with at least one letter or with the hyphens of a UUID"
                .into()
        }
        false => format!("expected a whole number from 0 to {}", u64::MAX),
    }
}
/// Finds the positions of the columns, from 0, in the first line.
fn find_columns(
    file: &Path,
    line: u64,
    row: &csv::ByteRecord,
    names: &[&ColumnName],
) -> Outcome<Vec<usize>> {
    let place = |name: &&ColumnName| match name {
        ColumnName::Number(number) if *number <= row.len() => Ok(number - 1),
        ColumnName::Number(number) => Err(in_file(
            file,
            format_args!("line {line}: {} columns, column {number} was selected", row.len()),
        )),
        ColumnName::Name(name) => {
            let wanted = name.trim().as_bytes();
            let mut fitting =
                row.iter().enumerate().filter(|(_, field)| field.trim_ascii() == wanted);
            match (fitting.next(), fitting.next()) {
                (Some((place, _)), None) => Ok(place),
                (Some((first, _)), Some((second, _))) => {
                    let [first, second] = [first, second].map(|place| place + 1);
                    let fault = format_args!(
                        "line {line}: columns {first} and {second} have the name {name:?}, \
                         expected a column number"
                    );
                    Err(in_file(file, fault))
                }
                _ => {
                    let there = row.iter().take(10).map(|field| field.escape_ascii().to_string());
                    let there = there.collect::<Vec<_>>().join(", ");
                    Err(in_file(
                        file,
                        format_args!("line {line}: no column {name:?}, the columns are {there}"),
                    ))
                }
            }
        }
    };
    names.iter().map(place).collect()
}
/// Returns the start of the heading as in the file, without quotes.
fn quoted(row: &csv::ByteRecord) -> String {
    let fields =
        row.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect::<Vec<_>>();
    let text = fields.join(",");
    match text.char_indices().nth(QUOTED_HEADING) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
/// Returns whether a field of the first line is a column name: it begins with a letter or an
/// underscore and cannot be a mistyped key. Names do not begin with a sign, a digit or a blank.
fn is_name(field: &[u8], wide: bool) -> bool {
    let Ok(text) = str::from_utf8(field.trim_ascii()) else { return false };
    let begins = text.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
    let hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    begins
        && !(wide && hexadecimal && text.bytes().any(|byte| byte.is_ascii_digit() || byte == b'-'))
}
/// Parses a whole number, ignoring blanks around it.
fn number(field: &[u8]) -> Option<u64> {
    let digits = field.trim_ascii();
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if all { str::from_utf8(digits).ok()?.parse().ok() } else { None }
}
/// Notation of a 128-bit key, where it may be ambiguous.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    BareHexadecimal,
    BareDecimal,
    Other,
}
/// Parses a 128-bit key, most significant digit first, ignoring blanks around it.
///
/// Digits alone are decimal, whatever their number. Hexadecimal: digits after 0x; 32 digits with at
/// least one letter, as in MD5 sums; UUIDs with hyphens.
fn wide_number(field: &[u8]) -> Option<(u128, Form)> {
    const HYPHENS: [usize; 4] = [8, 13, 18, 23];
    let text = str::from_utf8(field.trim_ascii()).ok()?;
    let hexadecimal = |digits: &str| {
        let all = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if all { u128::from_str_radix(digits, 16).ok() } else { None }
    };
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return Some((hexadecimal(digits)?, Form::Other));
    }
    if !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit()) {
        let form = if text.len() == DIGITS_OF_128_BITS { Form::BareDecimal } else { Form::Other };
        return Some((text.parse().ok()?, form));
    }
    if text.len() == DIGITS_OF_128_BITS {
        return Some((hexadecimal(text)?, Form::BareHexadecimal));
    }
    let bytes = text.as_bytes();
    let is_uuid = bytes.len() == DIGITS_OF_128_BITS + HYPHENS.len()
        && HYPHENS.iter().all(|&at| bytes[at] == b'-');
    if is_uuid { Some((hexadecimal(&text.replace('-', ""))?, Form::Other)) } else { None }
}
fn csv_fault(file: &Path, line: u64, error: csv::Error) -> Failure {
    match error.into_kind() {
        csv::ErrorKind::Io(e) => cannot_be_read(file, e),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => in_file(
            file,
            format_args!("line {line}: {len} columns, expected {expected_len} as before"),
        ),
        other => in_file(file, format_args!("line {line}: {other:?}")),
    }
}

/// Text with all line ends converted to line feeds, and one added after the last line if missing.
///
/// The parser counts line feeds only: with carriage returns, its line numbers would differ from an
/// editor's.
struct Unified<R> {
    from: R,
    /// Whether the previous byte was a carriage return, passed on as a line feed.
    after_return: bool,
    last: u8,
    ended: bool,
    quotes: u64,
}
impl<R> Unified<R> {
    fn new(from: R) -> Unified<R> {
        Unified { from, after_return: false, last: b'\n', ended: false, quotes: 0 }
    }
    /// Returns whether everything was read and the number of quotes is odd.
    fn ends_in_quotes(&self) -> bool {
        self.ended && !self.quotes.is_multiple_of(2)
    }
    /// Converts the bytes in place. Returns how many remain.
    fn unify(&mut self, bytes: &mut [u8]) -> usize {
        let mut to = 0;
        for at in 0..bytes.len() {
            let byte = bytes[at];
            let is_second = self.after_return && byte == b'\n';
            self.after_return = byte == b'\r';
            self.quotes += u64::from(byte == b'"');
            if !is_second {
                bytes[to] = if byte == b'\r' { b'\n' } else { byte };
                to += 1;
            }
        }
        to
    }
}
impl<R: Read> Read for Unified<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() || self.ended {
            return Ok(0);
        }
        loop {
            let read = self.from.read(bytes)?;
            if read == 0 {
                self.ended = true;
                if self.last == b'\n' {
                    return Ok(0);
                }
                bytes[0] = b'\n';
                return Ok(1);
            }
            let kept = self.unify(&mut bytes[..read]);
            if let Some(&last) = bytes[..kept].last() {
                self.last = last;
                return Ok(kept);
            }
        }
    }
}
