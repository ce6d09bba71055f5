//! Columns of keys and values from files: raw words, NumPy arrays, CSV, voxels of scans.
use super::args::Header;
use super::csv::{Csv, Heading};
use super::npy::{self, Element};
use crate::failure::{Failure, Outcome};
use indicatif::{ProgressBar, ProgressBarIter, ProgressStyle};
use koel::file::Width;
use koel_spatial::{Bounds, Grid, Order, Scan};
use serde::Serialize;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes read at a time.
pub(super) const PIECE: usize = 1 << 20;

/// A column of whole numbers: 128-bit, or the narrower of two types that holds them all.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Column {
    U32(Vec<u32>),
    U64(Vec<u64>),
    U128(Vec<u128>),
}
impl Column {
    /// Returns `0..n`.
    pub(super) fn rows(n: usize) -> Column {
        if u32::try_from(n).is_ok() {
            Column::U32((0..n as u32).collect())
        } else {
            Column::U64((0..n as u64).collect())
        }
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
    /// Appends a number. It must fit 64 bits unless the column has 128.
    pub(super) fn push(&mut self, number: u128) {
        if let (Column::U32(column), true) = (&*self, number > u32::MAX.into()) {
            *self = Column::U64(column.iter().map(|&n| n.into()).collect());
        }
        match self {
            Column::U32(column) => column.push(number as u32),
            Column::U64(column) => column.push(number as u64),
            Column::U128(column) => column.push(number),
        }
    }
    /// Converts to the type `width`. Errors: a number does not fit; the message calls it `what`.
    pub(super) fn of_width(self, width: Option<Width>, what: &str, file: &Path) -> Outcome<Column> {
        let Some(width) = width.filter(|&width| width != self.width()) else { return Ok(self) };
        let most = u128::MAX >> (128 - width.bits());
        let numbers = (0..self.len()).map(|i| match self.get(i) {
            n if n <= most => Ok(n),
            n => Err(in_file(
                file,
                format_args!("{what} {i} is {n}, expected at most {most} for {width}"),
            )),
        });
        match width {
            Width::U32 => {
                numbers.map(|n| n.map(|n| n as u32)).collect::<Outcome<_>>().map(Column::U32)
            }
            Width::U64 => {
                numbers.map(|n| n.map(|n| n as u64)).collect::<Outcome<_>>().map(Column::U64)
            }
            Width::U128 => numbers.collect::<Outcome<_>>().map(Column::U128),
        }
    }
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

/// Format of a file, by its extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// Little-endian words.
    Raw(Width),
    Npy,
    Csv,
    /// A point cloud or a mesh.
    Scan,
}
impl Format {
    /// Errors: the extension is unknown.
    pub(super) fn of(file: &Path) -> Outcome<Format> {
        let extension =
            file.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        Ok(match extension.as_str() {
            "u32" => Format::Raw(Width::U32),
            "u64" => Format::Raw(Width::U64),
            "u128" => Format::Raw(Width::U128),
            "npy" => Format::Npy,
            "csv" => Format::Csv,
            "ply" | "obj" | "pcd" | "stl" | "las" | "laz" | "gltf" | "glb" => Format::Scan,
            _ => {
                let expected = "expected a file named .u32, .u64, .u128, .npy or .csv, \
                                or a point cloud or mesh";
                let scans = ".ply, .obj, .pcd, .stl, .las, .laz, .gltf, .glb";
                return Err(in_file(file, format_args!("unknown format, {expected} ({scans})")));
            }
        })
    }
}

/// Reports bad input: the file and its fault.
pub(super) fn in_file(file: &Path, fault: impl Display) -> Failure {
    Failure::Usage(format!("{}: {fault}", file.display()))
}
pub(super) fn cannot_be_read(file: &Path, error: io::Error) -> Failure {
    in_file(file, format_args!("cannot be read: {error}"))
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blank_lines: Option<u64>,
    /// Rows of a column, or points of a scan.
    pub rows: u64,
    /// Points of a scan that were dropped as not finite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
    /// Notes for the report, which lists those of all files together.
    #[serde(skip)]
    pub notes: Vec<String>,
}
impl Account {
    fn of_numbers(file: &Path, rows: u64) -> Account {
        let file = file.display().to_string();
        Account {
            file,
            lines: None,
            heading: None,
            blank_lines: None,
            rows,
            dropped: None,
            notes: vec![],
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
            None => "no heading".into(),
        };
        format!("{}: {} lines read, {} rows, {heading}\n", self.file, n(lines), n(self.rows))
    }
}

/// Reads the numbers of a raw file, a NumPy array, or the columns `names` of a CSV file. `wide`:
/// the first column has 128-bit keys.
///
/// The file is streamed; only the numbers are kept. Errors: those of [`Input`].
pub(super) fn read(
    file: &Path,
    format: Format,
    names: &[&ColumnName],
    wide: bool,
    header: Header,
) -> Outcome<(Vec<Column>, Account)> {
    let mut input = Input::open(file, format, names, wide, header)?;
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
enum Source<'a> {
    Words(Words<ProgressBarIter<File>>),
    Csv(Box<Csv<'a, ProgressBarIter<File>>>),
}
impl<'a> Input<'a> {
    /// Opens a file of numbers; of CSV, the columns `names`. `wide`: the first column of a CSV file
    /// has 128-bit keys.
    ///
    /// Errors: the file cannot be read, does not hold numbers, or is truncated.
    pub(super) fn open(
        file: &'a Path,
        format: Format,
        names: &[&'a ColumnName],
        wide: bool,
        header: Header,
    ) -> Outcome<Input<'a>> {
        let refused = |e| cannot_be_read(file, e);
        if !std::fs::metadata(file).map_err(refused)?.is_file() {
            return Err(in_file(file, "cannot be read: expected a regular file"));
        }
        let opened = File::open(file).map_err(refused)?;
        let bytes = opened.metadata().map_err(refused)?.len();
        let progress = progress_bar(bytes, file);
        let from = progress.wrap_read(opened);
        let from = match format {
            Format::Raw(width) => Source::Words(Words::raw(file, from, bytes, width)?),
            Format::Npy => Source::Words(Words::array(file, from, bytes)?),
            Format::Csv => Source::Csv(Box::new(Csv::new(from, names, wide, header))),
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
                Account {
                    lines: Some(lines.read),
                    heading: lines.heading.clone(),
                    blank_lines: Some(lines.blank),
                    notes: notes.collect(),
                    ..Account::of_numbers(self.file, lines.rows)
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
                let n = words.left.min(most as u64);
                vec![match words.width {
                    Width::U32 => Column::U32(reserved(self.file, n)?),
                    Width::U64 => Column::U64(reserved(self.file, n)?),
                    Width::U128 => Column::U128(reserved(self.file, n)?),
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
    /// Numbers read so far; `left` counts the remaining ones.
    done: u64,
    left: u64,
}
impl<R: Read> Words<R> {
    /// Opens raw words.
    fn raw(file: &Path, from: R, bytes: u64, width: Width) -> Outcome<Words<R>> {
        let each = u64::from(width.bits() / 8);
        if !bytes.is_multiple_of(each) {
            let (rest, whole) = (bytes % each, bytes / each * each);
            return Err(in_file(
                file,
                format_args!(
                    "{bytes} bytes: expected a multiple of {each}, the last {rest} at byte {whole} \
                     are incomplete"
                ),
            ));
        }
        Ok(Words { from, width, signed: false, done: 0, left: bytes / each })
    }
    /// Opens a one-dimensional NumPy array.
    fn array(file: &Path, mut from: R, bytes: u64) -> Outcome<Words<R>> {
        let header = npy::read_header(&mut from, bytes).map_err(|e| in_file(file, e))?;
        let width = if header.element.bytes() == 4 { Width::U32 } else { Width::U64 };
        let signed = matches!(header.element, Element::I32 | Element::I64);
        Ok(Words { from, width, signed, done: 0, left: header.len })
    }
    /// Appends at most `most` numbers to `column`, which must have this width.
    fn read(&mut self, file: &Path, column: &mut Column, most: usize) -> Outcome<usize> {
        let n = self.left.min(most as u64);
        let each = self.width.bits() as usize / 8;
        let (mut left, mut piece) = (n as usize * each, vec![0; (n as usize * each).min(PIECE)]);
        while left > 0 {
            let piece = &mut piece[..left.min(PIECE)];
            self.from.read_exact(piece).map_err(|e| cannot_be_read(file, e))?;
            let negative = match column {
                Column::U32(column) => {
                    let words = piece.as_chunks().0.iter();
                    column.extend(words.clone().map(|&word| u32::from_le_bytes(word)));
                    let negative = |(i, &word)| {
                        Some((i, i64::from(i32::from_le_bytes(word)))).filter(|(_, n)| *n < 0)
                    };
                    if self.signed { words.enumerate().find_map(negative) } else { None }
                }
                Column::U64(column) => {
                    let words = piece.as_chunks().0.iter();
                    column.extend(words.clone().map(|&word| u64::from_le_bytes(word)));
                    let negative =
                        |(i, &word)| Some((i, i64::from_le_bytes(word))).filter(|(_, n)| *n < 0);
                    if self.signed { words.enumerate().find_map(negative) } else { None }
                }
                Column::U128(column) => {
                    column
                        .extend(piece.as_chunks().0.iter().map(|&word| u128::from_le_bytes(word)));
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
            let numbers = (piece.len() / each) as u64;
            (self.done, self.left, left) =
                (self.done + numbers, self.left - numbers, left - piece.len());
        }
        Ok(n as usize)
    }
}
/// Reserves capacity for `n` numbers. Errors: out of memory.
fn reserved<T>(file: &Path, n: u64) -> Outcome<Vec<T>> {
    let mut numbers = Vec::new();
    match usize::try_from(n).map(|n| numbers.try_reserve_exact(n)) {
        Ok(Ok(())) => Ok(numbers),
        _ => Err(Failure::Other(format!("{}: out of memory for {n} numbers", file.display()))),
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
fn progress_bar(bytes: u64, file: &Path) -> ProgressBar {
    let bar = ProgressBar::new(bytes);
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
                Words::raw(Path::new("k.u32"), &bytes[..], bytes.len() as u64, Width::U32).unwrap();
            let mut column = Column::U32(vec![]);
            while words.read(Path::new("k.u32"), &mut column, most).unwrap() > 0 {}
            assert!(column == Column::U32(numbers.clone()));
        }
        // A negative number in a later piece is reported at its position in the file.
        let mut bytes = npy::header("'<i8'", 400_000);
        bytes.extend((0..400_000i64).flat_map(|i| if i == 300_000 { -7 } else { i }.to_le_bytes()));
        let file = Path::new("k.npy");
        let mut words = Words::array(file, &bytes[..], bytes.len() as u64).unwrap();
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
