//! Keys and values from files: raw words, NumPy arrays, columns of CSV, voxels of scans.
use super::npy::{self, Element};
use crate::failure::{Failure, Outcome};
use indicatif::{ProgressBar, ProgressStyle};
use koel::file::Width;
use koel_spatial::{Bounds, Grid, Order};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// Whole numbers, in the narrower of two types that holds them all.
#[derive(Clone, PartialEq, Debug)]
pub enum Column {
    U32(Vec<u32>),
    U64(Vec<u64>),
}
impl Column {
    /// `0..n`.
    pub fn rows(n: usize) -> Column {
        if u32::try_from(n).is_ok() {
            Column::U32((0..n as u32).collect())
        } else {
            Column::U64((0..n as u64).collect())
        }
    }
    pub fn len(&self) -> usize {
        match self {
            Column::U32(column) => column.len(),
            Column::U64(column) => column.len(),
        }
    }
    pub fn get(&self, i: usize) -> u64 {
        match self {
            Column::U32(column) => column[i].into(),
            Column::U64(column) => column[i],
        }
    }
    /// One more, at the end.
    fn push(&mut self, number: u64) {
        if let (Column::U32(column), true) = (&*self, number > u32::MAX.into()) {
            *self = Column::U64(column.iter().map(|&n| n.into()).collect());
        }
        match self {
            Column::U32(column) => column.push(number as u32),
            Column::U64(column) => column.push(number),
        }
    }
    /// In a type that was asked for. Errors: a number that does not fit; `what` they are.
    pub fn of_width(self, width: Option<Width>, what: &str, file: &Path) -> Outcome<Column> {
        match (width, self) {
            (Some(Width::U64), Column::U32(column)) => Ok(Column::U64(column.into_iter().map(u64::from).collect())),
            (Some(Width::U32), Column::U64(column)) => {
                let narrowed = column.iter().enumerate().map(|(i, &n)| u32::try_from(n).map_err(|_| (i, n)));
                narrowed.collect::<Result<Vec<u32>, _>>().map(Column::U32).map_err(|(i, n)| {
                    in_file(file, format_args!("{what} {i} is {n}, expected at most {} for u32", u32::MAX))
                })
            }
            (_, column) => Ok(column),
        }
    }
}

/// Which column of a CSV file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ColumnName {
    /// From 1.
    Number(usize),
    /// As in the first line.
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

/// What a file is, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Little-endian words.
    Raw(Width),
    Npy,
    Csv,
    /// A point cloud or a mesh.
    Scan,
}
impl Format {
    /// Errors: an extension that none of them has.
    pub fn of(file: &Path) -> Outcome<Format> {
        let extension = file.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        Ok(match extension.as_str() {
            "u32" => Format::Raw(Width::U32),
            "u64" => Format::Raw(Width::U64),
            "npy" => Format::Npy,
            "csv" => Format::Csv,
            "ply" | "obj" | "pcd" | "stl" | "las" | "laz" => Format::Scan,
            _ => {
                let expected = "expected a file named .u32, .u64, .npy or .csv, or a point cloud or mesh";
                return Err(in_file(
                    file,
                    format_args!("unknown format, {expected} (.ply, .obj, .pcd, .stl, .las, .laz)"),
                ));
            }
        })
    }
}

/// Bad input: the file and what is wrong with it.
pub fn in_file(file: &Path, fault: impl Display) -> Failure {
    Failure::Usage(format!("{}: {fault}", file.display()))
}
fn cannot_be_read(file: &Path, error: io::Error) -> Failure {
    in_file(file, format_args!("cannot be read: {error}"))
}

/// Reads the numbers of a raw file, a NumPy array, or columns of a CSV file: as many columns as names.
///
/// Text and bytes are read piece by piece; only the numbers are kept. Errors: bad input, with line or byte.
pub fn read(file: &Path, format: Format, names: &[&ColumnName]) -> Outcome<Vec<Column>> {
    let refused = |e| cannot_be_read(file, e);
    if !std::fs::metadata(file).map_err(refused)?.is_file() {
        return Err(in_file(file, "cannot be read: expected a regular file"));
    }
    let opened = File::open(file).map_err(refused)?;
    let bytes = opened.metadata().map_err(refused)?.len();
    let progress = progress_bar(bytes, file);
    let from = progress.wrap_read(opened);
    let columns = match format {
        Format::Raw(width) => vec![raw(file, from, bytes, width)?],
        Format::Npy => vec![array(file, from, bytes)?],
        Format::Csv => csv(file, from, names)?,
        Format::Scan => return Err(in_file(file, "a scan has no numbers, expected --voxel-grid N")),
    };
    progress.finish_and_clear();
    Ok(columns)
}

/// Little-endian words, whole ones.
fn raw(file: &Path, from: impl Read, bytes: u64, width: Width) -> Outcome<Column> {
    let each = u64::from(width.bits() / 8);
    if !bytes.is_multiple_of(each) {
        let (rest, whole) = (bytes % each, bytes / each * each);
        return Err(in_file(
            file,
            format_args!(
                "{bytes} bytes: expected a multiple of {each}, the last {rest} at byte {whole} are no whole number"
            ),
        ));
    }
    words(file, from, bytes, width)
}
/// `bytes` bytes of little-endian words.
fn words(file: &Path, mut from: impl Read, bytes: u64, width: Width) -> Outcome<Column> {
    let mut column = match width {
        Width::U32 => Column::U32(reserved(file, bytes / 4)?),
        Width::U64 => Column::U64(reserved(file, bytes / 8)?),
    };
    let (mut left, mut piece) = (bytes, vec![0; PIECE]);
    while left > 0 {
        let piece = &mut piece[..left.min(PIECE as u64) as usize];
        from.read_exact(piece).map_err(|e| cannot_be_read(file, e))?;
        match &mut column {
            Column::U32(column) => column.extend(piece.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word))),
            Column::U64(column) => column.extend(piece.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word))),
        }
        left -= piece.len() as u64;
    }
    Ok(column)
}
/// Room for so many. Errors: there is none.
fn reserved<T>(file: &Path, n: u64) -> Outcome<Vec<T>> {
    let mut numbers = Vec::new();
    match usize::try_from(n).map(|n| numbers.try_reserve_exact(n)) {
        Ok(Ok(())) => Ok(numbers),
        _ => Err(Failure::Other(format!("{}: no memory for {n} numbers", file.display()))),
    }
}

/// A NumPy array of one dimension.
fn array(file: &Path, mut from: impl Read, bytes: u64) -> Outcome<Column> {
    let header = npy::read_header(&mut from, bytes).map_err(|e| in_file(file, e))?;
    let width = if header.element.bytes() == 4 { Width::U32 } else { Width::U64 };
    let column = words(file, from, bytes - header.start, width)?;
    let negative = match (header.element, &column) {
        (Element::I32, Column::U32(column)) => {
            column.iter().position(|&n| (n as i32) < 0).map(|i| (i, i64::from(column[i] as i32)))
        }
        (Element::I64, Column::U64(column)) => {
            column.iter().position(|&n| (n as i64) < 0).map(|i| (i, column[i] as i64))
        }
        _ => None,
    };
    match negative {
        Some((i, n)) => Err(in_file(file, format_args!("element {i} is {n}, expected no negative number"))),
        None => Ok(column),
    }
}

/// Columns of a CSV file. The first line has names if columns are asked for by name, or if what stands there is no number.
fn csv(file: &Path, from: impl Read, names: &[&ColumnName]) -> Outcome<Vec<Column>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).buffer_capacity(PIECE).from_reader(from);
    let mut columns = vec![Column::U32(vec![]); names.len()];
    let mut places: Option<Vec<usize>> = None;
    let mut row = csv::ByteRecord::new();
    while reader.read_byte_record(&mut row).map_err(|e| csv_fault(file, e))? {
        let line = row.position().map_or(0, csv::Position::line);
        let first = places.is_none();
        let places = match &places {
            Some(places) => places,
            None => places.insert(find_columns(file, &row, names)?),
        };
        let numbers = places.iter().map(|&place| number(&row[place]));
        let is_header = first
            && (names.iter().any(|name| matches!(name, ColumnName::Name(_)))
                || places.iter().all(|&place| !row[place].is_empty() && !row[place][0].is_ascii_digit()));
        if is_header {
            continue;
        }
        for ((number, column), (&place, name)) in numbers.zip(&mut columns).zip(places.iter().zip(names)) {
            let Some(number) = number else {
                let found = row[place][..row[place].len().min(40)].escape_ascii();
                let expected = format_args!("expected a whole number from 0 to {}", u64::MAX);
                return Err(in_file(file, format_args!("line {line}, column {name}: found \"{found}\", {expected}")));
            };
            column.push(number);
        }
    }
    if places.is_none() {
        return Err(in_file(file, "is empty, expected lines of numbers"));
    }
    Ok(columns)
}
/// Where the columns are, counted from 0, as the first line tells.
fn find_columns(file: &Path, row: &csv::ByteRecord, names: &[&ColumnName]) -> Outcome<Vec<usize>> {
    let place = |name: &&ColumnName| match name {
        ColumnName::Number(number) if *number <= row.len() => Ok(number - 1),
        ColumnName::Number(number) => {
            Err(in_file(file, format_args!("line 1: {} columns, column {number} was asked for", row.len())))
        }
        ColumnName::Name(name) => row.iter().position(|field| field.trim_ascii() == name.as_bytes()).ok_or_else(|| {
            let there =
                row.iter().take(10).map(|field| field.escape_ascii().to_string()).collect::<Vec<_>>().join(", ");
            in_file(file, format_args!("line 1: no column {name:?}, there are {there}"))
        }),
    };
    names.iter().map(place).collect()
}
/// A whole number, with blanks around it.
fn number(field: &[u8]) -> Option<u64> {
    let digits = field.trim_ascii();
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if all { str::from_utf8(digits).ok()?.parse().ok() } else { None }
}
fn csv_fault(file: &Path, error: csv::Error) -> Failure {
    let line = error.position().map_or(0, csv::Position::line);
    match error.into_kind() {
        csv::ErrorKind::Io(e) => cannot_be_read(file, e),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            in_file(file, format_args!("line {line}: {len} columns, expected {expected_len} as before"))
        }
        other => in_file(file, format_args!("line {line}: {other:?}")),
    }
}

/// The keys of the voxels that a scan touches, on a grid of `side` voxels a side around it: row-major, ascending.
pub fn voxels(file: &Path, side: u32) -> Outcome<Column> {
    let scan = koel_spatial::read(file).map_err(Failure::input)?;
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
        (false, true) => koel_spatial::cloud_keys(&scan.points.positions, &grid, Order::RowMajor).map(Column::U32),
        (false, false) => koel_spatial::cloud_keys(&scan.points.positions, &grid, Order::RowMajor).map(Column::U64),
    };
    keys.map_err(|e| in_file(file, e))
}

/// Of bytes, on standard error, if that is a terminal.
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

    fn csv_of(text: &str, names: &[&str]) -> Result<Vec<Column>, String> {
        let names = names.iter().map(|name| name.parse().unwrap()).collect::<Vec<ColumnName>>();
        csv(Path::new("t.csv"), text.as_bytes(), &names.iter().collect::<Vec<_>>()).map_err(|e| match e {
            Failure::Usage(message) => message,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn columns_are_found_by_number_and_by_name() {
        let narrow = |numbers: &[u32]| Column::U32(numbers.to_vec());
        assert_eq!(csv_of("1,2\n3,4\n", &["1"]), Ok(vec![narrow(&[1, 3])]));
        assert_eq!(csv_of("1,2\r\n 3 ,4", &["1", "2"]), Ok(vec![narrow(&[1, 3]), narrow(&[2, 4])]));
        assert_eq!(csv_of("id,v\n1,2\n", &["2"]), Ok(vec![narrow(&[2])]), "a line of names");
        assert_eq!(csv_of("id,\"my v\"\n1,2\n3,\"4\"\n", &["my v", "id"]), Ok(vec![narrow(&[2, 4]), narrow(&[1, 3])]));
        assert_eq!(csv_of("id\n", &["id"]), Ok(vec![narrow(&[])]));
        let wide = vec![1, 4294967296, u64::MAX, 2];
        assert_eq!(csv_of("1\n4294967296\n18446744073709551615\n2\n", &["1"]), Ok(vec![Column::U64(wide)]));
    }
    #[test]
    fn faults_of_csv_name_the_line() {
        let expected = "expected a whole number from 0 to 18446744073709551615";
        for (text, name, says) in [
            ("", "1", "is empty, expected lines of numbers".into()),
            ("1\n2\nx\n", "1", format!("line 3, column 1: found \"x\", {expected}")),
            ("a,b\n1,2\n3,-4\n", "b", format!("line 3, column \"b\": found \"-4\", {expected}")),
            ("1\n18446744073709551616\n", "1", format!("line 2, column 1: found \"18446744073709551616\", {expected}")),
            ("1\n1.5\n", "1", format!("line 2, column 1: found \"1.5\", {expected}")),
            ("1,\n", "2", format!("line 1, column 2: found \"\", {expected}")),
            ("1x\n", "1", format!("line 1, column 1: found \"1x\", {expected}")),
            ("1,2\n3\n", "1", "line 2: 1 columns, expected 2 as before".into()),
            ("1,2\n", "3", "line 1: 2 columns, column 3 was asked for".into()),
            ("a,b\n1,2\n", "c", "line 1: no column \"c\", there are a, b".into()),
        ] {
            assert_eq!(csv_of(text, &[name]), Err(format!("t.csv: {says}")), "{text:?}");
        }
        assert_eq!("0".parse::<ColumnName>(), Err("columns are counted from 1".into()));
    }
    #[test]
    fn numbers_take_the_type_that_is_asked_for() {
        let file = Path::new("k.u64");
        let wide = Column::U64(vec![1, 2]);
        assert_eq!(wide.clone().of_width(Some(Width::U32), "key", file).unwrap(), Column::U32(vec![1, 2]));
        assert_eq!(Column::U32(vec![1, 2]).of_width(Some(Width::U64), "key", file).unwrap(), wide);
        assert_eq!(wide.clone().of_width(None, "key", file).unwrap(), wide);
        let error = Column::U64(vec![1, 1 << 32]).of_width(Some(Width::U32), "key", file).unwrap_err();
        assert!(
            matches!(error, Failure::Usage(m) if m == "k.u64: key 1 is 4294967296, expected at most 4294967295 for u32")
        );
    }
}
