//! Columns of keys and values from files: raw words, NumPy arrays, CSV, voxels of scans.
use super::column::Column;
use super::csv::{Csv, Gap, Heading};
use super::faults::{cannot_be_read, in_file};
use super::format::{Format, is_standard};
use super::selection::Selection;
use super::words::{Words, with_capacity};
use crate::failure::{Failure, Outcome};
use crate::output;
use indicatif::{ProgressBar, ProgressBarIter};
use koel::file::Width;
use koel_spatial::{Bounds, Grid, Order, Scan};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// What was read from a file, for the report.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Account {
    pub file: String,
    /// Number of lines of a CSV file, including the heading and blank lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heading: Option<Heading>,
    /// Why the first line of a CSV file is a row, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_heading: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blank_lines: Option<u64>,
    /// Rows of a column, or points of a scan.
    pub rows: u64,
    /// Points of a scan that were dropped as not finite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
    /// Blank lines between rows, if they are wanted.
    #[serde(skip)]
    pub gaps: Vec<Gap>,
    /// Notes for the report, which lists those of all files together.
    #[serde(skip)]
    pub notes: Vec<String>,
}
impl Account {
    fn of_numbers(file: &Path, rows: u64) -> Account {
        let file = file.display().to_string();
        let notes = if rows == 0 { vec![format!("{file}: has no rows")] } else { vec![] };
        Account {
            file,
            lines: None,
            heading: None,
            no_heading: None,
            blank_lines: None,
            rows,
            dropped: None,
            gaps: vec![],
            notes,
        }
    }
    fn of_scan(file: &Path, scan: &Scan) -> Account {
        let rows = scan.points.positions.len() as u64;
        let notes = crate::intersect::load::notes(file, scan);
        Account { dropped: Some(scan.report.dropped), notes, ..Account::of_numbers(file, rows) }
    }
    /// Formats a line about a CSV file for people; empty for other files.
    pub(super) fn text(&self) -> String {
        let Some(lines) = self.lines else { return String::new() };
        let n = |n: u64| crate::output::thousands(n as usize);
        let heading = match &self.heading {
            Some(Heading { line, text, why }) => {
                format!("line {line}, {text:?}, is the heading: {why}")
            }
            None => match self.no_heading {
                Some(why) => format!("no heading: {why}"),
                None => "no heading".into(),
            },
        };
        format!("{}: {} lines read, {} rows, {heading}\n", self.file, n(lines), n(self.rows))
    }
}

/// Reads all numbers of a file.
///
/// The file is streamed; only the numbers are kept. Errors: those of [`Input`].
pub(super) fn read(
    file: &Path,
    format: Format,
    selection: Selection,
) -> Outcome<(Vec<Column>, Account)> {
    let mut input = Input::open(file, format, selection)?;
    let mut columns = input.columns(usize::MAX)?;
    while input.read(&mut columns, usize::MAX)? > 0 {}
    Ok((columns, input.account()))
}

/// Streamed numbers of a file. Shows progress on a terminal.
pub(super) struct Input<'a> {
    file: &'a Path,
    progress: ProgressBar,
    from: Numbers<'a>,
}
type Bytes = ProgressBarIter<Box<dyn Read>>;
enum Numbers<'a> {
    Words(Words<Bytes>),
    Csv(Box<Csv<'a, Bytes>>),
}
impl<'a> Input<'a> {
    /// Opens a file of numbers, a pipe or standard input.
    ///
    /// Errors: the file cannot be read, does not hold numbers, or is truncated.
    pub(super) fn open(
        file: &'a Path,
        format: Format,
        selection: Selection<'a>,
    ) -> Outcome<Input<'a>> {
        let refused = |e| cannot_be_read(file, e);
        let (from, bytes): (Box<dyn Read>, _) = if is_standard(file, 0) {
            (Box::new(io::stdin().lock()), None)
        } else {
            if fs::metadata(file).map_err(refused)?.is_dir() {
                return Err(in_file(file, "cannot be read: expected a file, not a folder"));
            }
            let opened = File::open(file).map_err(refused)?;
            let metadata = opened.metadata().map_err(refused)?;
            // The files of /proc have contents and no length.
            let bytes = Some(metadata.len()).filter(|&bytes| metadata.is_file() && bytes > 0);
            (Box::new(opened), bytes)
        };
        let progress = progress_bar(bytes, file);
        let from = progress.wrap_read(from);
        let from = match format {
            Format::Raw(width) => Numbers::Words(Words::raw(file, from, bytes, width)?),
            Format::Npy => Numbers::Words(Words::array(file, from, bytes)?),
            Format::Csv(delimiter) => Numbers::Csv(Box::new(Csv::new(from, delimiter, selection))),
            Format::Scan => {
                return Err(in_file(file, "a scan has no numbers, expected --voxel-grid N"));
            }
        };
        Ok(Input { file, progress, from })
    }
    /// Returns what was read so far.
    pub(super) fn account(&self) -> Account {
        match &self.from {
            Numbers::Words(words) => Account::of_numbers(self.file, words.done),
            Numbers::Csv(csv) => {
                let lines = &csv.lines;
                let notes = lines
                    .notes()
                    .into_iter()
                    .map(|note| format!("{}: {note}", self.file.display()));
                let account = Account::of_numbers(self.file, lines.rows);
                Account {
                    lines: Some(lines.read),
                    heading: lines.heading.clone(),
                    no_heading: lines.no_heading,
                    blank_lines: Some(lines.blank),
                    gaps: lines.gaps.clone(),
                    notes: account.notes.into_iter().chain(notes).collect(),
                    ..account
                }
            }
        }
    }
    /// Returns the widest type that the numbers may have; `None` for strings.
    pub(super) fn width(&self) -> Option<Width> {
        match &self.from {
            Numbers::Words(words) => Some(words.width),
            Numbers::Csv(csv) if csv.strings => None,
            Numbers::Csv(csv) if csv.wide => Some(Width::U128),
            Numbers::Csv(_) => Some(Width::U64),
        }
    }
    /// Returns empty columns for [`read`](Self::read), with capacity for the remaining rows, at
    /// most `most`. Errors: out of memory.
    pub(super) fn columns(&self, most: usize) -> Outcome<Vec<Column>> {
        Ok(match &self.from {
            Numbers::Words(words) => {
                let n = words.left.unwrap_or(0).min(most as u64);
                vec![match words.width {
                    Width::U32 => Column::U32(with_capacity(self.file, n)?),
                    Width::U64 => Column::U64(with_capacity(self.file, n)?),
                    Width::U128 => Column::U128(with_capacity(self.file, n)?),
                }]
            }
            Numbers::Csv(csv) => csv.columns(),
        })
    }
    /// Appends the next rows to the columns, at most `most`. Returns their number, 0 at the end.
    ///
    /// Errors: a field is not a number; the message has its line or position.
    pub(super) fn read(&mut self, columns: &mut [Column], most: usize) -> Outcome<usize> {
        match &mut self.from {
            Numbers::Words(words) => {
                columns.first_mut().map_or(Ok(0), |column| words.read(self.file, column, most))
            }
            Numbers::Csv(csv) => csv.read(self.file, columns, most),
        }
    }
}
impl Drop for Input<'_> {
    fn drop(&mut self) {
        self.progress.finish_and_clear();
    }
}

/// Returns the keys of the voxels that a scan touches, on an enclosing grid with `side` voxels per
/// side: row-major, ascending.
pub(super) fn voxels(file: &Path, side: u32) -> Outcome<(Column, Account)> {
    let scan = koel_spatial::read(file).map_err(Failure::input)?;
    let account = Account::of_scan(file, &scan);
    let bounds = Bounds::of(&scan.points.positions).map_err(|e| in_file(file, e))?;
    let grid = Grid::enclosing(bounds, side).map_err(|e| in_file(file, e))?;
    let keys = match (scan.is_mesh(), side <= 1024) {
        (true, narrow) => {
            let mesh = scan.into_mesh().map_err(|e| in_file(file, e))?;
            if narrow {
                koel_spatial::mesh_keys(&mesh, &grid, Order::RowMajor).map(Column::U32)
            } else {
                koel_spatial::mesh_keys(&mesh, &grid, Order::RowMajor).map(Column::U64)
            }
        }
        (false, true) => koel_spatial::cloud_keys(&scan.points.positions, &grid, Order::RowMajor)
            .map(Column::U32),
        (false, false) => koel_spatial::cloud_keys(&scan.points.positions, &grid, Order::RowMajor)
            .map(Column::U64),
    };
    Ok((keys.map_err(|e| in_file(file, e))?, account))
}

/// Returns a progress bar in bytes on standard error, drawn only if that is a terminal.
fn progress_bar(bytes: Option<u64>, file: &Path) -> ProgressBar {
    let bar = output::progress_bar(bytes, "{bar:30} {bytes}/{total_bytes} {msg}");
    bar.set_message(format!("reading {}", file.display()));
    bar
}
