//! Columns of keys and values from files: raw words, NumPy arrays, CSV, voxels of scans.
use super::args::{FormatName, Header};
use super::csv::{Csv, Gap, Heading};
use super::npy::{self, Element};
use crate::failure::{Failure, Outcome};
use crate::frames::SCANS;
use indicatif::{ProgressBar, ProgressBarIter, ProgressStyle};
use koel::file::Width;
use koel_spatial::{Bounds, Grid, Order, Scan};
use serde::Serialize;
use std::collections::TryReserveError;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// A column of whole numbers: 128-bit, or the narrower of two types that holds them all.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Column {
    U32(Vec<u32>),
    U64(Vec<u64>),
    U128(Vec<u128>),
}
impl Column {
    /// Returns `0..n`. Errors: out of memory.
    pub(super) fn rows(n: usize) -> Result<Column, TryReserveError> {
        Ok(if u32::try_from(n).is_ok() {
            Column::U32(collected(0..n as u32)?)
        } else {
            Column::U64(collected((0..n).map(|i| i as u64))?)
        })
    }
    pub(super) fn len(&self) -> usize {
        match self {
            Column::U32(column) => column.len(),
            Column::U64(column) => column.len(),
            Column::U128(column) => column.len(),
        }
    }
    pub(super) fn get(&self, i: usize) -> u128 {
        match self {
            Column::U32(column) => column[i].into(),
            Column::U64(column) => column[i].into(),
            Column::U128(column) => column[i],
        }
    }
    fn width(&self) -> Width {
        match self {
            Column::U32(_) => Width::U32,
            Column::U64(_) => Width::U64,
            Column::U128(_) => Width::U128,
        }
    }
    /// Appends a number. It must fit 64 bits unless the column has 128. Errors: out of memory.
    pub(super) fn push(&mut self, number: u128) -> Result<(), TryReserveError> {
        if let (Column::U32(column), true) = (&*self, number > u32::MAX.into()) {
            *self = Column::U64(collected(column.iter().map(|&n| n.into()))?);
        }
        match self {
            Column::U32(column) => pushed(column, number as u32),
            Column::U64(column) => pushed(column, number as u64),
            Column::U128(column) => pushed(column, number),
        }
    }
    /// Converts to the type `width`. Errors: a number does not fit; the message calls it `what`.
    /// Out of memory.
    pub(super) fn of_width(self, width: Option<Width>, what: &str, file: &Path) -> Outcome<Column> {
        let Some(width) = width.filter(|&width| width != self.width()) else { return Ok(self) };
        let most = u128::MAX >> (128 - width.bits());
        if let Some(i) = (0..self.len()).find(|&i| self.get(i) > most) {
            let n = self.get(i);
            let fault = format_args!("{what} {i} is {n}, expected at most {most} for {width}");
            return Err(in_file(file, fault));
        }
        let numbers = (0..self.len()).map(|i| self.get(i));
        match width {
            Width::U32 => collected(numbers.map(|n| n as u32)).map(Column::U32),
            Width::U64 => collected(numbers.map(|n| n as u64)).map(Column::U64),
            Width::U128 => collected(numbers).map(Column::U128),
        }
        .map_err(|_| out_of_memory(file, format_args!("{} numbers", self.len())))
    }
}
fn pushed<T>(column: &mut Vec<T>, number: T) -> Result<(), TryReserveError> {
    if column.len() == column.capacity() {
        column.try_reserve(1)?;
    }
    column.push(number);
    Ok(())
}
/// Collects items. Errors: out of memory.
pub(super) fn collected<T>(
    items: impl ExactSizeIterator<Item = T>,
) -> Result<Vec<T>, TryReserveError> {
    let mut all = Vec::new();
    all.try_reserve_exact(items.len())?;
    all.extend(items);
    Ok(all)
}

/// Name or number of a column of a CSV file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ColumnName {
    /// Number, from 1.
    Number(usize),
    /// Name in the first line.
    Name(String),
}
impl std::str::FromStr for ColumnName {
    type Err = String;
    fn from_str(text: &str) -> Result<ColumnName, String> {
        match text.parse::<usize>() {
            Ok(0) => Err("columns are counted from 1".into()),
            Ok(number) => Ok(ColumnName::Number(number)),
            Err(_) => Ok(ColumnName::Name(text.into())),
        }
    }
}
impl Display for ColumnName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ColumnName::Number(number) => write!(f, "{number}"),
            ColumnName::Name(name) => write!(f, "{name:?}"),
        }
    }
}

/// Format of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// Little-endian words.
    Raw(Width),
    Npy,
    /// Text whose fields end at this byte.
    Csv(u8),
    /// A point cloud or a mesh.
    Scan,
}
impl From<FormatName> for Format {
    fn from(name: FormatName) -> Format {
        match name {
            FormatName::Csv => Format::Csv(b','),
            FormatName::Tsv => Format::Csv(b'\t'),
            FormatName::Npy => Format::Npy,
            FormatName::U32 => Format::Raw(Width::U32),
            FormatName::U64 => Format::Raw(Width::U64),
            FormatName::U128 => Format::Raw(Width::U128),
        }
    }
}
impl Format {
    /// Returns the format that the extension tells.
    pub(super) fn by_name(file: &Path) -> Option<Format> {
        let extension =
            file.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        Some(match extension.as_str() {
            "u32" => Format::Raw(Width::U32),
            "u64" => Format::Raw(Width::U64),
            "u128" => Format::Raw(Width::U128),
            "npy" => Format::Npy,
            "csv" => Format::Csv(b','),
            "tsv" => Format::Csv(b'\t'),
            scan if SCANS.extensions.contains(&scan) => Format::Scan,
            _ => return None,
        })
    }
    /// Returns the format that the extension tells, else `given`, else CSV for a stream.
    ///
    /// Errors: the format is unknown.
    pub(super) fn of(file: &Path, given: Option<FormatName>) -> Outcome<Format> {
        if let Some(format) = Format::by_name(file).or(given.map(Format::from)) {
            return Ok(format);
        }
        if is_stream(file) {
            return Ok(Format::Csv(b','));
        }
        let expected = "expected a file named .u32, .u64, .u128, .npy, .csv or .tsv, or --format, \
                        or a point cloud or mesh";
        let scans = SCANS.extensions.join(", .");
        Err(in_file(file, format_args!("unknown format, {expected} (.{scans})")))
    }
    pub(super) fn is_csv(self) -> bool {
        matches!(self, Format::Csv(_))
    }
}

/// Returns whether an input or output is standard input or output, a pipe or a device: what is no
/// file in a folder.
pub(super) fn is_stream(file: &Path) -> bool {
    let is_special = |metadata: fs::Metadata| !metadata.is_file() && !metadata.is_dir();
    is_standard(file, 0)
        || is_standard(file, 1)
        || file.starts_with("/dev/fd")
        || fs::metadata(file).is_ok_and(is_special)
}
/// Returns whether a name means standard input (0) or output (1).
pub(super) fn is_standard(file: &Path, descriptor: u8) -> bool {
    let named = if descriptor == 0 { "/dev/stdin" } else { "/dev/stdout" };
    file == Path::new("-")
        || file == Path::new(named)
        || file == Path::new(&format!("/dev/fd/{descriptor}"))
        || file == Path::new(&format!("/proc/self/fd/{descriptor}"))
}

/// Reports bad input: the file and its fault.
pub(super) fn in_file(file: &Path, fault: impl Display) -> Failure {
    Failure::Usage(format!("{}: {fault}", file.display()))
}
pub(super) fn cannot_be_read(file: &Path, error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::OutOfMemory => out_of_memory(file, "reading"),
        _ => in_file(file, format_args!("cannot be read: {error}")),
    }
}
pub(super) fn out_of_memory(file: &Path, what: impl Display) -> Failure {
    Failure::Other(format!("{}: out of memory for {what}", file.display()))
}

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

/// Columns to read from a CSV file. Other formats have one.
#[derive(Clone, Copy)]
pub(super) struct Selection<'a> {
    pub names: &'a [&'a ColumnName],
    /// Whether the first column has 128-bit keys.
    pub wide: bool,
    pub header: Header,
    /// Whether the account has the blank lines between rows.
    pub with_gaps: bool,
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
    from: Source<'a>,
}
type Bytes = ProgressBarIter<Box<dyn Read>>;
enum Source<'a> {
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
            Format::Raw(width) => Source::Words(Words::raw(file, from, bytes, width)?),
            Format::Npy => Source::Words(Words::array(file, from, bytes)?),
            Format::Csv(delimiter) => Source::Csv(Box::new(Csv::new(from, delimiter, selection))),
            Format::Scan => {
                return Err(in_file(file, "a scan has no numbers, expected --voxel-grid N"));
            }
        };
        Ok(Input { file, progress, from })
    }
    /// Returns what was read so far.
    pub(super) fn account(&self) -> Account {
        match &self.from {
            Source::Words(words) => Account::of_numbers(self.file, words.done),
            Source::Csv(csv) => {
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
    /// Returns the widest type that the numbers may have.
    pub(super) fn width(&self) -> Width {
        match &self.from {
            Source::Words(words) => words.width,
            Source::Csv(csv) if csv.wide => Width::U128,
            Source::Csv(_) => Width::U64,
        }
    }
    /// Returns empty columns for [`read`](Self::read), with capacity for the remaining rows, at
    /// most `most`. Errors: out of memory.
    pub(super) fn columns(&self, most: usize) -> Outcome<Vec<Column>> {
        Ok(match &self.from {
            Source::Words(words) => {
                let n = words.left.unwrap_or(0).min(most as u64);
                vec![match words.width {
                    Width::U32 => Column::U32(with_capacity(self.file, n)?),
                    Width::U64 => Column::U64(with_capacity(self.file, n)?),
                    Width::U128 => Column::U128(with_capacity(self.file, n)?),
                }]
            }
            Source::Csv(csv) => csv.columns(),
        })
    }
    /// Appends the next rows to the columns, at most `most`. Returns their number, 0 at the end.
    ///
    /// Errors: a field is not a number; the message has its line or position.
    pub(super) fn read(&mut self, columns: &mut [Column], most: usize) -> Outcome<usize> {
        match &mut self.from {
            Source::Words(words) => {
                columns.first_mut().map_or(Ok(0), |column| words.read(self.file, column, most))
            }
            Source::Csv(csv) => csv.read(self.file, columns, most),
        }
    }
}
impl Drop for Input<'_> {
    fn drop(&mut self) {
        self.progress.finish_and_clear();
    }
}

/// A stream of little-endian words.
struct Words<R> {
    from: R,
    width: Width,
    /// Whether words are signed; negative numbers are then an error.
    signed: bool,
    /// Number of words, if an array's header tells it.
    len: Option<u64>,
    /// Numbers read so far; `left` counts the remaining ones, if they are known.
    done: u64,
    left: Option<u64>,
    piece: Vec<u8>,
}
impl<R: Read> Words<R> {
    /// Opens raw words, `bytes` of them if that is known.
    fn raw(file: &Path, from: R, bytes: Option<u64>, width: Width) -> Outcome<Words<R>> {
        let each = u64::from(width.bits() / 8);
        let bytes = bytes.unwrap_or(0);
        check_whole(file, bytes, each)?;
        let left = Some(bytes / each).filter(|&left| left > 0);
        Words { from, width, signed: false, len: None, done: 0, left, piece: vec![] }.ready(file)
    }
    /// Opens a one-dimensional NumPy array.
    fn array(file: &Path, mut from: R, bytes: Option<u64>) -> Outcome<Words<R>> {
        let header = npy::read_header(&mut from, bytes).map_err(|e| in_file(file, e))?;
        let width = if header.element.bytes() == 4 { Width::U32 } else { Width::U64 };
        let signed = matches!(header.element, Element::I32 | Element::I64);
        let len = Some(header.len);
        Words { from, width, signed, len, done: 0, left: len, piece: vec![] }.ready(file)
    }
    fn ready(mut self, file: &Path) -> Outcome<Words<R>> {
        self.piece = with_capacity(file, PIECE as u64)?;
        self.piece.resize(PIECE, 0);
        Ok(self)
    }
    /// Appends at most `most` numbers to `column`, which must have this width. Returns their
    /// number, 0 at the end.
    ///
    /// Errors: a number is negative; the stream ends within a word or is not as long as the array.
    fn read(&mut self, file: &Path, column: &mut Column, most: usize) -> Outcome<usize> {
        let each = self.width.bits() as usize / 8;
        let mut read = 0;
        while read < most {
            let wanted = (most - read).min(PIECE / each);
            let wanted = match self.len {
                Some(len) => (len - self.done).min(wanted as u64) as usize,
                None => wanted,
            };
            // One byte more tells whether the array is longer than its header.
            let is_end = wanted == 0;
            let piece = &mut self.piece[..(wanted * each).max(1)];
            let bytes = npy::fill(&mut self.from, piece).map_err(|e| cannot_be_read(file, e))?;
            if is_end && bytes > 0 {
                let len = self.done;
                return Err(in_file(file, format_args!("has more bytes than its {len} elements")));
            }
            if let Some(len) = self.len.filter(|_| bytes < wanted * each) {
                let found = self.done + (bytes / each) as u64;
                return Err(in_file(file, format_args!("truncated: {found} of {len} elements")));
            }
            let whole = self.done * each as u64 + bytes as u64;
            check_whole(file, whole, each as u64)?;
            if bytes == 0 {
                break;
            }
            let piece = &self.piece[..bytes];
            let negative = match column {
                Column::U32(column) => {
                    let words = append(file, column, piece, u32::from_le_bytes)?;
                    let negative = |(i, &n)| Some((i, i64::from(n as i32))).filter(|(_, n)| *n < 0);
                    if self.signed { words.iter().enumerate().find_map(negative) } else { None }
                }
                Column::U64(column) => {
                    let words = append(file, column, piece, u64::from_le_bytes)?;
                    let negative = |(i, &n)| Some((i, n as i64)).filter(|(_, n)| *n < 0);
                    if self.signed { words.iter().enumerate().find_map(negative) } else { None }
                }
                Column::U128(column) => {
                    append(file, column, piece, u128::from_le_bytes)?;
                    None
                }
            };
            if let Some((i, n)) = negative {
                let i = self.done + i as u64;
                return Err(in_file(
                    file,
                    format_args!("element {i} is {n}, expected no negative number"),
                ));
            }
            let numbers = bytes / each;
            (self.done, read) = (self.done + numbers as u64, read + numbers);
            self.left = self.left.map(|left| left.saturating_sub(numbers as u64));
        }
        Ok(read)
    }
}
/// Appends the words of `piece`. Returns them. Errors: out of memory.
fn append<'a, T: Copy, const N: usize>(
    file: &Path,
    column: &'a mut Vec<T>,
    piece: &[u8],
    word: impl Fn([u8; N]) -> T,
) -> Outcome<&'a [T]> {
    let (before, words) = (column.len(), piece.as_chunks::<N>().0);
    column
        .try_reserve(words.len())
        .map_err(|_| out_of_memory(file, format_args!("{} numbers", before + words.len())))?;
    column.extend(words.iter().map(|&bytes| word(bytes)));
    Ok(&column[before..])
}
/// Checks that `bytes` are words of `each` bytes.
fn check_whole(file: &Path, bytes: u64, each: u64) -> Outcome {
    if bytes.is_multiple_of(each) {
        return Ok(());
    }
    let (rest, whole) = (bytes % each, bytes / each * each);
    let fault = format_args!(
        "{bytes} bytes: expected a multiple of {each}, the last {rest} at byte {whole} are incomplete"
    );
    Err(in_file(file, fault))
}
/// Returns an empty vector with capacity for `n` numbers. Errors: out of memory.
fn with_capacity<T>(file: &Path, n: u64) -> Outcome<Vec<T>> {
    let mut numbers = Vec::new();
    match usize::try_from(n).map(|n| numbers.try_reserve_exact(n)) {
        Ok(Ok(())) => Ok(numbers),
        _ => Err(out_of_memory(file, format_args!("{n} numbers"))),
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
    let bar = bytes.map_or_else(ProgressBar::no_length, ProgressBar::new);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {msg}") {
        bar.set_style(style);
    }
    bar.set_message(format!("reading {}", file.display()));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_in_pieces() {
        let numbers = (0..600_000u32).map(|i| i.wrapping_mul(0x9E37_79B9)).collect::<Vec<_>>();
        let bytes = numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        for most in [1000, 299_999, usize::MAX] {
            let mut words =
                Words::raw(Path::new("k.u32"), &bytes[..], Some(bytes.len() as u64), Width::U32)
                    .unwrap();
            let mut column = Column::U32(vec![]);
            while words.read(Path::new("k.u32"), &mut column, most).unwrap() > 0 {}
            assert!(column == Column::U32(numbers.clone()));
        }
        // A negative number in a later piece is reported at its position in the file.
        let mut bytes = npy::header("'<i8'", 400_000);
        bytes.extend((0..400_000i64).flat_map(|i| if i == 300_000 { -7 } else { i }.to_le_bytes()));
        let file = Path::new("k.npy");
        let mut words = Words::array(file, &bytes[..], Some(bytes.len() as u64)).unwrap();
        let mut column = Column::U64(vec![]);
        assert_eq!(words.read(file, &mut column, 250_000).unwrap(), 250_000);
        let error = words.read(file, &mut column, 250_000).unwrap_err();
        assert!(matches!(error, Failure::Usage(m)
                if m == "k.npy: element 300000 is -7, expected no negative number"));
    }

    #[test]
    fn numbers_take_the_type_that_is_asked_for() {
        let file = Path::new("k.u64");
        let wide = Column::U64(vec![1, 2]);
        assert_eq!(
            wide.clone().of_width(Some(Width::U32), "key", file).unwrap(),
            Column::U32(vec![1, 2])
        );
        assert_eq!(Column::U32(vec![1, 2]).of_width(Some(Width::U64), "key", file).unwrap(), wide);
        assert_eq!(wide.clone().of_width(None, "key", file).unwrap(), wide);
        let widest = Column::U128(vec![1, 2]);
        assert_eq!(wide.clone().of_width(Some(Width::U128), "key", file).unwrap(), widest);
        assert_eq!(widest.of_width(Some(Width::U64), "key", file).unwrap(), wide);
        let error =
            Column::U128(vec![1 << 64]).of_width(Some(Width::U64), "key", file).unwrap_err();
        let most = "expected at most 18446744073709551615 for u64";
        assert!(matches!(error, Failure::Usage(m)
                if m == format!("k.u64: key 0 is 18446744073709551616, {most}")));
        let error =
            Column::U64(vec![1, 1 << 32]).of_width(Some(Width::U32), "key", file).unwrap_err();
        assert!(matches!(error, Failure::Usage(m)
                if m == "k.u64: key 1 is 4294967296, expected at most 4294967295 for u32"));
    }
}
