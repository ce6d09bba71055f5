//! Columns of whole numbers or of strings in a CSV file. Every line is counted as a row, the
//! heading or a blank line.
//!
//! Blanks around a number are ignored, and around a field of the heading.
use super::column::Column;
use super::faults::{cannot_be_read, in_file, out_of_memory};
use super::selection::{ColumnName, Header, Selection};
use crate::failure::{Failure, Outcome};
use koel_formats::csv::{Fault, Keep, Record, Records, Seen, Spans};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

#[cfg(test)]
mod tests;

/// Bytes read at a time.
const PIECE: usize = 1 << 18;
/// Maximum number of characters quoted from a heading in the report.
const QUOTED_HEADING: usize = 60;
/// Maximum number of characters quoted from a field in an error.
const QUOTED_FIELD: usize = 40;
/// Hexadecimal digits of an MD5 sum or a UUID.
const DIGITS_OF_128_BITS: usize = 32;
const BY_NAME: &str = "a column is selected by name";
const BY_OPTION: &str = "--header yes";
const BY_LETTERS: &str =
    "no selected field is a number, each begins with a letter; --header no, if it is a row";
const NO_HEADING_OF_STRINGS: &str =
    "a selected field of the first line begins with no letter; --header yes, if it is a heading";
const NO_HEADING_BY_OPTION: &str = "--header no";
const NO_HEADING_BY_NUMBERS: &str =
    "the selected fields of the first line are numbers; --header yes, if they are names";
/// Words that stand for a missing number. In the first line they are neither a name nor a row.
const MISSING: [&str; 8] = ["null", "nan", "na", "n/a", "none", "nil", "inf", "infinity"];
/// First bytes of formats that are no CSV, and what helps.
const FOREIGN: [(&[u8], &str); 9] = [
    (b"\x1F\x8B", "gzip: gunzip -c FILE | koel ... -"),
    (b"\x28\xB5\x2F\xFD", "Zstandard: zstd -dc FILE | koel ... -"),
    (b"\xFD7zXZ\x00", "xz: xz -dc FILE | koel ... -"),
    (b"BZh91AY&SY", "bzip2: bzip2 -dc FILE | koel ... -"),
    (b"PK\x03\x04", "a zip archive or a workbook: save the sheet as CSV"),
    (b"PAR1\x15", "Parquet: export the columns as CSV"),
    (b"\x93NUMPY", "a NumPy array: name it .npy, or --format npy"),
    (b"\xFF\xFE", "UTF-16: iconv -f UTF-16 -t UTF-8 FILE | koel ... -"),
    (b"\xFE\xFF", "UTF-16: iconv -f UTF-16 -t UTF-8 FILE | koel ... -"),
];

/// The first line, if it is not a row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Heading {
    pub line: u64,
    /// The line's text, shortened.
    pub text: String,
    pub why: &'static str,
}

/// Blank lines between two rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gap {
    /// Number of rows before.
    pub row: u64,
    /// Number of blank lines, and the first of them.
    pub blank: u64,
    pub line: u64,
}

/// Counts of the lines read so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Lines {
    /// All lines.
    pub read: u64,
    pub rows: u64,
    pub heading: Option<Heading>,
    /// Why the first line is a row, if it is one.
    pub no_heading: Option<&'static str>,
    /// Number of empty lines; `first_blank` is the line number of the first.
    pub blank: u64,
    pub first_blank: u64,
    /// The blank lines between rows, if they are wanted.
    pub gaps: Vec<Gap>,
    spans: Spans,
    inner_quotes: Seen,
    /// Number of fields of 32 hexadecimal digits without 0x or hyphens.
    bare_hexadecimal: u64,
    /// Fields of 32 decimal digits.
    bare_decimal: Seen,
    leading_zeros: Seen,
    /// Notes on the first lines.
    first: Vec<String>,
}
impl Lines {
    /// Returns the notes for the report.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = self.first.clone();
        if self.blank > 0 {
            let (blank, first) = (self.blank, self.first_blank);
            notes.push(format!("{blank} blank lines were skipped, the first is line {first}"));
        }
        if self.spans.seen.number > 0 {
            let Seen { number, line, column } = self.spans.seen;
            let (to, (from_longest, to_longest)) = (self.spans.to, self.spans.longest);
            let longest = match (from_longest, to_longest) == (line, to) {
                true => String::new(),
                false => format!(", the longest lines {from_longest} to {to_longest}"),
            };
            notes.push(format!(
                "{number} quoted fields span several lines, the first lines {line} to {to} in \
                 column {column}{longest}"
            ));
        }
        if self.inner_quotes.number > 0 {
            let Seen { number, line, column } = self.inner_quotes;
            notes.push(format!(
                "{number} quotes within fields that do not begin with one were read as text, the \
                 first in line {line}, column {column}"
            ));
        }
        if self.leading_zeros.number > 0 {
            let Seen { number, line, column } = self.leading_zeros;
            notes.push(format!(
                "{number} numbers were read without their leading zeros, the first in line {line}, \
                 column {column}"
            ));
        }
        // One MD5 sum in 3 million has no letter.
        if self.bare_hexadecimal > 0 && self.bare_decimal.number > 0 {
            let Seen { number, line, .. } = self.bare_decimal;
            notes.push(format!(
                "{number} keys of 32 digits without a letter were read as decimal, the first in \
                 line {line}, next to {} hexadecimal keys; 0x makes a key hexadecimal",
                self.bare_hexadecimal
            ));
        }
        notes
    }
}

/// Streamed columns of a CSV file.
pub(super) struct Csv<'a, R> {
    records: Records<R>,
    record: Record,
    delimiter: u8,
    names: &'a [&'a ColumnName],
    /// Whether the first column has 128-bit keys.
    pub wide: bool,
    /// Whether it has strings.
    pub strings: bool,
    header: Header,
    /// Whether [`Lines::gaps`] are wanted.
    with_gaps: bool,
    /// Known once the first line is read.
    shape: Option<FirstLine>,
    pub lines: Lines,
}
/// What the first line tells. Positions count from 0.
struct FirstLine {
    /// Number of columns.
    columns: usize,
    /// Positions of the selected columns, in the order of selection.
    selected: Vec<usize>,
    /// Positions of the fields to keep, each once, ascending.
    kept: Vec<usize>,
    /// Index of each selected column in `kept`.
    indices: Vec<usize>,
    /// A column that is not selected, and its text in the first row, if that is a name: the row may
    /// be a heading. The second row decides about a note.
    named: Option<(usize, String)>,
}
impl FirstLine {
    fn new(columns: usize, selected: Vec<usize>, named: Option<(usize, String)>) -> FirstLine {
        let also = named.iter().map(|&(place, _)| place);
        let kept = selected.iter().copied().chain(also).collect::<BTreeSet<_>>();
        let kept = kept.into_iter().collect::<Vec<_>>();
        let index = |place: &usize| kept.partition_point(|kept| kept < place);
        FirstLine { columns, indices: selected.iter().map(index).collect(), selected, kept, named }
    }
}
impl<'a, R: Read> Csv<'a, R> {
    /// Opens a file whose fields end at `delimiter`.
    pub(super) fn new(from: R, delimiter: u8, selection: Selection<'a>) -> Csv<'a, R> {
        Csv {
            records: Records::new(from, delimiter, PIECE),
            record: Record::default(),
            delimiter,
            names: selection.names,
            wide: selection.wide,
            strings: selection.strings,
            header: selection.header,
            with_gaps: selection.with_gaps,
            shape: None,
            lines: Lines::default(),
        }
    }
    /// Returns empty columns.
    pub(super) fn columns(&self) -> Vec<Column> {
        let column = |i| match i {
            0 if self.strings => Column::no_strings(),
            0 if self.wide => Column::U128(vec![]),
            _ => Column::U32(vec![]),
        };
        (0..self.names.len()).map(column).collect()
    }
    fn is_wide(&self, i: usize) -> bool {
        self.wide && i == 0
    }
    /// Appends the next rows to the columns, at most `most`. Returns their number, 0 at the end.
    ///
    /// Errors: a field is not a number, with its line and column; quotes that are not closed or are
    /// followed by text; rows of different lengths; out of memory.
    pub(super) fn read(
        &mut self,
        file: &Path,
        columns: &mut [Column],
        most: usize,
    ) -> Outcome<usize> {
        let mut rows = 0;
        if self.shape.is_none() {
            rows += usize::from(self.read_first(file, columns)?);
        }
        while rows < most && self.next(file)? {
            self.add(file, columns, false)?;
            rows += 1;
        }
        self.lines.spans.clone_from(&self.records.spans);
        self.lines.inner_quotes.clone_from(&self.records.inner_quotes);
        Ok(rows)
    }
    /// Reads the first line. Returns whether it is a row.
    fn read_first(&mut self, file: &Path, columns: &mut [Column]) -> Outcome<bool> {
        let begin = self.records.first_bytes().map_err(|fault| fault_of(file, fault))?;
        if let Some((_, what)) = FOREIGN.iter().find(|(magic, _)| begin.starts_with(magic)) {
            return Err(in_file(file, format_args!("is not CSV in UTF-8 but {what}")));
        }
        if !self.next(file)? {
            return match self.names.iter().find(|name| matches!(name, ColumnName::Name(_))) {
                Some(name) => {
                    Err(in_file(file, format_args!("is empty, expected a column {name}")))
                }
                None => Ok(false),
            };
        }
        let selected = self.find_columns(file)?;
        if let Some(why) = self.why_heading(file, &selected)? {
            let heading =
                Heading { line: self.record.line, text: text(&self.record, self.delimiter), why };
            self.note_guesses(&heading, &selected);
            self.lines.heading = Some(heading);
            self.shape = Some(FirstLine::new(self.record.fields, selected, None));
            return Ok(false);
        }
        self.lines.no_heading = Some(match self.header {
            Header::No => NO_HEADING_BY_OPTION,
            Header::Auto | Header::Yes if self.strings => NO_HEADING_OF_STRINGS,
            Header::Auto | Header::Yes => NO_HEADING_BY_NUMBERS,
        });
        let named = {
            let fields = self.record.iter().enumerate();
            let mut others = fields.filter(|(i, _)| !selected.contains(i));
            others.find(|(_, field)| is_name(field, false))
        };
        let named = named.filter(|_| self.header == Header::Auto);
        let named = named.map(|(i, field)| (i, shortened(field)));
        self.shape = Some(FirstLine::new(self.record.fields, selected, named));
        self.add(file, columns, true)?;
        Ok(true)
    }
    /// Reads the next record: of the first all fields, of others those that are needed. Returns
    /// whether there is one.
    fn next(&mut self, file: &Path) -> Outcome<bool> {
        let keep = self.shape.as_ref().map_or(Keep::All, |shape| Keep::Places(&shape.kept));
        let before = self.records.blank;
        let is_row =
            self.records.next(keep, &mut self.record).map_err(|fault| fault_of(file, fault))?;
        self.lines.read = self.records.lines();
        let blank = self.records.blank - before;
        if blank > 0 {
            let line = self.records.last_blank + 1 - blank;
            if self.lines.blank == 0 {
                self.lines.first_blank = line;
            }
            self.lines.blank += blank;
            if self.with_gaps && is_row && self.lines.rows > 0 {
                let gaps = &mut self.lines.gaps;
                gaps.try_reserve(1).map_err(|_| out_of_memory(file, "the blank lines"))?;
                gaps.push(Gap { row: self.lines.rows, blank, line });
            }
        }
        match &self.shape {
            Some(FirstLine { columns, .. }) if is_row && self.record.fields != *columns => {
                let (line, found) = (self.record.line, self.record.fields);
                let fault =
                    format_args!("line {line}: {found} columns, expected {columns} as before");
                Err(in_file(file, fault))
            }
            _ => Ok(is_row),
        }
    }
    /// Returns why the first line is a heading, if it is one.
    fn why_heading(&self, file: &Path, selected: &[usize]) -> Outcome<Option<&'static str>> {
        let by_name = self.names.iter().find(|name| matches!(name, ColumnName::Name(_)));
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
                let is_name = |(i, &place)| is_name(self.record.get(place), self.is_wide(i));
                selected.iter().enumerate().all(is_name).then_some(BY_LETTERS)
            }
        })
    }
    /// Notes where the first line might be meant otherwise than it was taken.
    fn note_guesses(&mut self, heading: &Heading, selected: &[usize]) {
        let Heading { line, text, why } = heading;
        let has_digit = |&place: &usize| self.record.get(place).iter().any(u8::is_ascii_digit);
        if *why == BY_LETTERS && (self.strings || selected.iter().any(has_digit)) {
            let note = format!("line {line}, {text:?}, was taken for the heading: {why}");
            self.lines.first.push(note);
        }
        for name in self.names {
            let ColumnName::Number(number) = name else { continue };
            let digits = number.to_string();
            let mut fields = self.record.iter().map(<[u8]>::trim_ascii);
            let named = fields.position(|field| field == digits.as_bytes());
            if let Some(place) = named.filter(|place| place + 1 != *number) {
                let note = format!(
                    "column {number} was selected by its position; the column with the name \
                     \"{number}\" is column {}",
                    place + 1
                );
                self.lines.first.push(note);
            }
        }
    }
    /// Appends the record to the columns.
    fn add(&mut self, file: &Path, columns: &mut [Column], is_first: bool) -> Outcome {
        let Some(shape) = &mut self.shape else { return Ok(()) };
        let line = self.record.line;
        let places = if is_first { &shape.selected } else { &shape.indices };
        for (i, (column, &place)) in columns.iter_mut().zip(places).enumerate() {
            let (field, wide) = (self.record.get(place), self.wide && i == 0);
            let column_number = shape.selected[i] as u64 + 1;
            let no_room = |n| out_of_memory(file, format_args!("{n} fields"));
            if self.strings && i == 0 {
                column.push_string(field).map_err(|_| no_room(column.len() + 1))?;
                continue;
            }
            let number = match wide {
                true => wide_number(field).map(|(number, form)| {
                    match form {
                        Form::BareHexadecimal => self.lines.bare_hexadecimal += 1,
                        Form::BareDecimal => self.lines.bare_decimal.add(line, column_number),
                        Form::Other => {}
                    }
                    number
                }),
                false => number(field).map(|number| {
                    if has_leading_zeros(field) {
                        self.lines.leading_zeros.add(line, column_number);
                    }
                    number.into()
                }),
            };
            let Some(number) = number else {
                let or_heading = match is_first && self.header == Header::Auto {
                    true => "; --header yes, if this line is a heading",
                    false => "",
                };
                let fault = format_args!(
                    "line {line}, column {}: found \"{}\", {}{}{or_heading}",
                    self.names[i],
                    shortened(field),
                    expected(wide),
                    hint(field, self.delimiter),
                );
                return Err(in_file(file, fault));
            };
            column.push(number).map_err(|_| no_room(column.len() + 1))?;
        }
        self.lines.rows += 1;
        if !is_first && let Some((place, name)) = shape.named.take() {
            let at = shape.kept.partition_point(|&kept| kept < place);
            if number(self.record.get(at)).is_some() {
                self.lines.first.push(format!(
                    "the first line was read as a row, but column {} has \"{name}\" there and a \
                     number in line {line}; --header yes, if it is a heading",
                    place + 1
                ));
            }
            let selected = std::mem::take(&mut shape.selected);
            *shape = FirstLine::new(shape.columns, selected, None);
        }
        Ok(())
    }
    /// Finds the positions of the columns, from 0, in the first line.
    fn find_columns(&self, file: &Path) -> Outcome<Vec<usize>> {
        let (line, row) = (self.record.line, &self.record);
        let with_name = |name: &str| {
            let name = name.trim().as_bytes().to_vec();
            row.iter().enumerate().filter(move |(_, field)| field.trim_ascii() == name)
        };
        let place = |name: &&ColumnName| match name {
            ColumnName::Number(number) if *number <= row.fields => Ok(number - 1),
            ColumnName::Number(number) => {
                let hint = match with_name(&number.to_string()).next() {
                    Some((place, _)) => format!(
                        "; the column with the name \"{number}\" is column {}, and --header yes \
                         makes this line the heading",
                        place + 1
                    ),
                    None => hint(if row.fields == 1 { row.get(0) } else { b"" }, self.delimiter),
                };
                let found = row.fields;
                let fault = format_args!(
                    "line {line}: {found} columns, column {number} was selected by its position\
                     {hint}"
                );
                Err(in_file(file, fault))
            }
            ColumnName::Name(name) => {
                let mut fitting = with_name(name);
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
                        let there = row.iter().take(10).map(shortened).collect::<Vec<_>>();
                        let more = if row.fields > there.len() { ", ..." } else { "" };
                        let hint =
                            hint(if row.fields == 1 { row.get(0) } else { b"" }, self.delimiter);
                        let there = there.join(", ");
                        let fault = format_args!(
                            "line {line}: no column {name:?}, the columns are {there}{more}{hint}"
                        );
                        Err(in_file(file, fault))
                    }
                }
            }
        };
        self.names.iter().map(place).collect()
    }
}
fn fault_of(file: &Path, fault: Fault) -> Failure {
    match fault {
        Fault::Io(e) => cannot_be_read(file, e),
        Fault::OutOfMemory => out_of_memory(file, "a line"),
        Fault::NeverClosed { line, column } => in_file(
            file,
            format_args!("line {line}: a quote is never closed, that of column {column}"),
        ),
        Fault::AfterQuote { line, column, begun, text, escaped } => {
            let text = text.escape_ascii();
            let begun = match line > begun {
                true => format!(", for the field that begins in line {begun}"),
                false => String::new(),
            };
            let doubled = match escaped {
                true => "; \\ does not escape a quote, a second quote does",
                false => "; a quote in a quoted field is written twice",
            };
            let fault = format_args!(
                "line {line}, column {column}: found \"{text}\" after a closing quote{begun}, \
                 expected the end of the field{doubled}"
            );
            in_file(file, fault)
        }
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
/// Returns what may be wrong with the file, from a field that is not as expected.
fn hint(field: &[u8], delimiter: u8) -> String {
    if field.contains(&0) {
        return "; the file may be binary (--format npy, u32, u64) or UTF-16".into();
    }
    let separates = |byte: &&u8| **byte != delimiter && b",;\t|".contains(byte);
    let Some(other) = field.iter().find(separates) else { return String::new() };
    let change = match other {
        b'\t' => ": name the file .tsv, or --format tsv",
        b',' => ": name the file .csv, or --format csv",
        _ => "",
    };
    let [delimiter, other] = [delimiter, *other].map(|byte| byte.escape_ascii());
    format!("; '{delimiter}' separates fields, not '{other}'{change}")
}
/// Returns the start of a field, escaped.
fn shortened(field: &[u8]) -> String {
    field[..field.len().min(QUOTED_FIELD)].escape_ascii().to_string()
}
/// Returns the start of the heading as in the file, without quotes.
fn text(record: &Record, delimiter: u8) -> String {
    let fields = record.iter().take(QUOTED_HEADING + 1);
    // Enough bytes for as many characters.
    let fields = fields.map(|field| &field[..field.len().min(4 * (QUOTED_HEADING + 1))]);
    let fields = fields.map(|field| String::from_utf8_lossy(field).into_owned());
    let text = fields.collect::<Vec<_>>().join(&char::from(delimiter).to_string());
    match text.char_indices().nth(QUOTED_HEADING) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
/// Returns whether a field of the first line is a column name: it begins with a letter or an
/// underscore and is neither a mistyped key nor a word for a missing one. Names do not begin with a
/// sign, a digit or a blank.
fn is_name(field: &[u8], wide: bool) -> bool {
    let Ok(text) = str::from_utf8(field.trim_ascii()) else { return false };
    let begins = text.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
    let hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let is_key =
        wide && hexadecimal && text.bytes().any(|byte| byte.is_ascii_digit() || byte == b'-');
    begins && !is_key && !MISSING.iter().any(|word| text.eq_ignore_ascii_case(word))
}
/// Parses a whole number, ignoring blanks around it.
fn number(field: &[u8]) -> Option<u64> {
    let digits = field.trim_ascii();
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if all { str::from_utf8(digits).ok()?.parse().ok() } else { None }
}
fn has_leading_zeros(field: &[u8]) -> bool {
    matches!(field.trim_ascii(), [b'0', _, ..])
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
