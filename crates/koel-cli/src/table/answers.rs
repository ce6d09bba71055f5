//! Answers of a table: for people, as CSV, or as a NumPy array. Rows are streamed to the file.
use super::column::Cell;
use super::faults::in_file;
use crate::failure::Outcome;
use crate::output;
use koel::file::Width;
use koel_formats::npy;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;

/// Maximum number of rows shown to people, and of bytes of a string.
const SHOWN: usize = 20;
const SHOWN_BYTES: usize = 40;

/// Fields of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fields {
    /// Name and type of the query; without a width, strings.
    pub query: (&'static str, Option<Width>),
    /// Name and type of the answer. `None`: the row only tells whether the query was found.
    pub answer: Option<(&'static str, Option<Width>)>,
}
impl Fields {
    /// Errors: strings, which an array does not hold.
    pub(super) fn check_file(self, out: &Path) -> Outcome<()> {
        let has_strings = self.query.1.is_none() || self.answer.is_some_and(|of| of.1.is_none());
        match has_strings && is_array(out) == Some(true) {
            true => Err(in_file(out, "an array holds no strings, expected a file named .csv")),
            false => Ok(()),
        }
    }
}
/// A query and its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Row<'a> {
    pub query: Cell<'a>,
    /// `None` if the query was not found.
    pub answer: Option<Cell<'a>>,
}

/// Errors: the file is neither `.npy` nor `.csv`. A stream may have any name and is CSV, but not
/// `.npy`.
pub(super) fn check_name(out: &Path) -> Outcome<()> {
    match is_array(out) {
        Some(true) if output::is_stream(out) => Err(in_file(
            out,
            "the length of an array is written last, expected a regular file, or a stream of CSV",
        )),
        Some(_) => Ok(()),
        None if output::is_stream(out) => Ok(()),
        None => Err(in_file(out, "unknown format, expected a file named .npy or .csv, or -")),
    }
}
/// Returns true for a NumPy array, false for CSV, `None` for anything else.
fn is_array(out: &Path) -> Option<bool> {
    let extension = out.extension()?.to_str()?;
    let is = |name| extension.eq_ignore_ascii_case(name);
    (is("npy") || is("csv")).then(|| is("npy"))
}

/// Sink for rows: writes them to a file if there is one, else keeps the first for people.
pub(super) struct Answers<'a> {
    fields: Fields,
    to: Option<Written<'a>>,
    /// Number of rows.
    pub rows: u64,
    first: Vec<String>,
}
/// A file of answers that is being written.
struct Written<'a> {
    to: BufWriter<&'a mut File>,
    name: &'a Path,
    is_array: bool,
}
impl<'a> Answers<'a> {
    /// Creates a sink that only shows rows.
    pub(super) fn shown(fields: Fields) -> Answers<'a> {
        Answers { fields, to: None, rows: 0, first: vec![] }
    }
    /// Creates a sink that writes to a file with this name.
    pub(super) fn written(
        fields: Fields,
        file: &'a mut File,
        name: &'a Path,
    ) -> Outcome<Answers<'a>> {
        let to = BufWriter::with_capacity(1 << 18, file);
        let mut to = Written { to, name, is_array: is_array(name) == Some(true) };
        // The header of an array is overwritten once the number of rows is known.
        let header = if to.is_array { array_header(fields, 0) } else { csv_header(fields) };
        let begun = to.to.write_all(&header);
        to.ok(begun)?;
        Ok(Answers { fields, to: Some(to), rows: 0, first: vec![] })
    }
    pub(super) fn add(&mut self, row: Row) -> Outcome {
        self.rows += 1;
        if let Some(to) = &mut self.to {
            let fields = self.fields;
            let written = if to.is_array {
                element(&mut to.to, fields, row)
            } else {
                line(&mut to.to, fields, row)
            };
            to.ok(written)?;
        } else if self.first.len() < SHOWN {
            self.first.push(self.fields.shown(row));
        }
        Ok(())
    }
    /// Completes the file, or returns the first rows as columns for people.
    pub(super) fn finish(mut self) -> Outcome<String> {
        let Some(mut to) = self.to.take() else { return Ok(self.first_rows()) };
        let mut finished = to.to.flush();
        if to.is_array {
            let header = array_header(self.fields, self.rows);
            finished =
                finished.and_then(|()| to.to.rewind()).and_then(|()| to.to.write_all(&header));
            finished = finished.and_then(|()| to.to.flush());
        }
        to.ok(finished)?;
        Ok(String::new())
    }
    fn first_rows(&self) -> String {
        let Fields { query: (query, _), answer } = self.fields;
        let mut text = self.fields.line(query, answer.map_or("found", |(name, _)| name));
        self.first.iter().for_each(|line| text.push_str(line));
        if self.rows > SHOWN as u64 {
            text.push_str(&self.fields.line("...", "..."));
        }
        text
    }
}
impl Fields {
    /// Returns a line for people.
    fn line(self, query: &str, answer: &str) -> String {
        let widths = [self.query.1, self.answer.and_then(|(_, width)| width)];
        let columns = widths.map(|width| if width == Some(Width::U128) { 34 } else { 20 });
        format!("{query:>0$}  {answer:>1$}\n", columns[0], columns[1])
    }
    fn shown(self, Row { query, answer }: Row) -> String {
        let text = |cell, width| match cell {
            Cell::Number(of) => number(of, width),
            Cell::String(bytes) => bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii().to_string(),
        };
        let answer = match (answer, self.answer) {
            (Some(answer), Some((_, width))) => text(answer, width),
            (Some(_), None) => "found".into(),
            (None, _) => "not found".into(),
        };
        self.line(&text(query, self.query.1), &answer)
    }
}
impl Written<'_> {
    fn ok(&self, written: io::Result<()>) -> Outcome {
        written.map_err(|e| output::failure(self.name, &e))
    }
}

/// Formats as decimal; 128-bit numbers as hexadecimal.
fn number(number: u128, width: Option<Width>) -> String {
    match width {
        Some(Width::U128) => format!("{number:#034x}"),
        _ => number.to_string(),
    }
}
/// Writes a field of CSV: strings in quotes where they need them.
fn field(to: &mut impl Write, cell: Cell, width: Option<Width>) -> io::Result<()> {
    match cell {
        Cell::Number(of) => to.write_all(number(of, width).as_bytes()),
        Cell::String(bytes) if bytes.iter().any(|byte| b"\",\r\n".contains(byte)) => {
            to.write_all(b"\"")?;
            for part in bytes.split_inclusive(|&byte| byte == b'"') {
                to.write_all(part)?;
                if part.ends_with(b"\"") {
                    to.write_all(b"\"")?;
                }
            }
            to.write_all(b"\"")
        }
        Cell::String(bytes) => to.write_all(bytes),
    }
}
fn csv_header(fields: Fields) -> Vec<u8> {
    let answer = fields.answer.map_or(String::new(), |(name, _)| format!(",{name}"));
    format!("{},found{answer}\n", fields.query.0).into_bytes()
}
/// Writes query, found (1 or 0) and answer, which is empty if the query was not found.
fn line(to: &mut impl Write, fields: Fields, Row { query, answer }: Row) -> io::Result<()> {
    field(to, query, fields.query.1)?;
    write!(to, ",{}", u8::from(answer.is_some()))?;
    if let Some((_, width)) = fields.answer {
        to.write_all(b",")?;
        answer.map_or(Ok(()), |answer| field(to, answer, width))?;
    }
    to.write_all(b"\n")
}
/// Makes the header of a structured array with these fields.
fn array_header(fields: Fields, rows: u64) -> Vec<u8> {
    let field = |(name, width)| {
        let element = match width {
            Some(Width::U32) => "<u4",
            Some(Width::U64) => "<u8",
            // NumPy has no 128-bit integers, so these are 16 raw bytes. Strings are refused.
            Some(Width::U128) | None => "|V16",
        };
        format!("('{name}', '{element}')")
    };
    let answer = fields.answer.map_or(String::new(), |answer| format!(", {}", field(answer)));
    npy::header(&format!("[{}, ('found', '|b1'){answer}]", field(fields.query)), rows)
}
fn element(to: &mut impl Write, fields: Fields, row: Row) -> io::Result<()> {
    let number = |to: &mut dyn Write, cell: Option<Cell>, width: Option<Width>| {
        let number = if let Some(Cell::Number(number)) = cell { number } else { 0 };
        to.write_all(&number.to_le_bytes()[..width.map_or(128, Width::bits) as usize / 8])
    };
    number(to, Some(row.query), fields.query.1)?;
    to.write_all(&[row.answer.is_some().into()])?;
    fields.answer.map_or(Ok(()), |(_, width)| number(to, row.answer, width))
}
