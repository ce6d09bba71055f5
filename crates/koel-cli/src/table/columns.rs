//! Keys and values from files: raw words, NumPy arrays, columns of CSV, voxels of scans.
use super::npy::{self, Element};
use crate::failure::{Failure, Outcome};
use indicatif::{ProgressBar, ProgressBarIter, ProgressStyle};
use koel::file::Width;
use koel_spatial::{Bounds, Grid, Order};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// Whole numbers: of 128 bits, or in the narrower of two types that holds them all.
#[derive(Clone, PartialEq, Debug)]
pub enum Column {
    U32(Vec<u32>),
    U64(Vec<u64>),
    U128(Vec<u128>),
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
            Column::U128(column) => column.len(),
        }
    }
    pub fn get(&self, i: usize) -> u128 {
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
    /// One more, at the end: of 64 bits at most, or of a column of 128.
    fn push(&mut self, number: u128) {
        if let (Column::U32(column), true) = (&*self, number > u32::MAX.into()) {
            *self = Column::U64(column.iter().map(|&n| n.into()).collect());
        }
        match self {
            Column::U32(column) => column.push(number as u32),
            Column::U64(column) => column.push(number as u64),
            Column::U128(column) => column.push(number),
        }
    }
    /// In a type that was asked for. Errors: a number that does not fit; `what` they are.
    pub fn of_width(self, width: Option<Width>, what: &str, file: &Path) -> Outcome<Column> {
        let Some(width) = width.filter(|&width| width != self.width()) else { return Ok(self) };
        let most = u128::MAX >> (128 - width.bits());
        let numbers = (0..self.len()).map(|i| match self.get(i) {
            n if n <= most => Ok(n),
            n => Err(in_file(file, format_args!("{what} {i} is {n}, expected at most {most} for {width}"))),
        });
        match width {
            Width::U32 => numbers.map(|n| n.map(|n| n as u32)).collect::<Outcome<_>>().map(Column::U32),
            Width::U64 => numbers.map(|n| n.map(|n| n as u64)).collect::<Outcome<_>>().map(Column::U64),
            Width::U128 => numbers.collect::<Outcome<_>>().map(Column::U128),
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
            "u128" => Format::Raw(Width::U128),
            "npy" => Format::Npy,
            "csv" => Format::Csv,
            "ply" | "obj" | "pcd" | "stl" | "las" | "laz" => Format::Scan,
            _ => {
                let expected = "expected a file named .u32, .u64, .u128, .npy or .csv, or a point cloud or mesh";
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

/// Reads the numbers of a raw file, a NumPy array, or columns of a CSV file: as many columns as names. `wide`: the first one has keys of 128 bits.
///
/// Text and bytes are read piece by piece; only the numbers are kept. Errors: as those of [`Input`].
pub fn read(file: &Path, format: Format, names: &[&ColumnName], wide: bool) -> Outcome<Vec<Column>> {
    let mut input = Input::open(file, format, names, wide)?;
    let mut columns = input.columns(usize::MAX)?;
    while input.read(&mut columns, usize::MAX)? > 0 {}
    Ok(columns)
}

/// The numbers of a file, which come in pieces. Progress is shown on a terminal.
pub struct Input<'a> {
    file: &'a Path,
    progress: ProgressBar,
    from: Source<'a>,
}
enum Source<'a> {
    Words(Words<ProgressBarIter<File>>),
    Csv(Csv<'a, ProgressBarIter<File>>),
}
impl<'a> Input<'a> {
    /// Of columns, as many as names. `wide`: the first one of a CSV file has keys of 128 bits.
    ///
    /// Errors: a file that cannot be read, is none of numbers, or is cut short.
    pub fn open(file: &'a Path, format: Format, names: &[&'a ColumnName], wide: bool) -> Outcome<Input<'a>> {
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
            Format::Csv => Source::Csv(Csv::new(from, names, wide)),
            Format::Scan => return Err(in_file(file, "a scan has no numbers, expected --voxel-grid N")),
        };
        Ok(Input { file, progress, from })
    }
    /// How wide the numbers are at most.
    pub fn width(&self) -> Width {
        match &self.from {
            Source::Words(words) => words.width,
            Source::Csv(csv) if csv.wide => Width::U128,
            Source::Csv(_) => Width::U64,
        }
    }
    /// Empty columns for [`read`](Self::read), with room for what is left, or for `most` rows of it. Errors: no memory.
    pub fn columns(&self, most: usize) -> Outcome<Vec<Column>> {
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
    /// Adds the next rows to the columns, at most so many: their number, 0 at the end.
    ///
    /// Errors: what is no number, with its line or its place.
    pub fn read(&mut self, columns: &mut [Column], most: usize) -> Outcome<usize> {
        match &mut self.from {
            Source::Words(words) => columns.first_mut().map_or(Ok(0), |column| words.read(self.file, column, most)),
            Source::Csv(csv) => csv.read(self.file, columns, most),
        }
    }
}
impl Drop for Input<'_> {
    fn drop(&mut self) {
        self.progress.finish_and_clear();
    }
}

/// Little-endian words.
struct Words<R> {
    from: R,
    width: Width,
    /// Negative numbers are an error.
    signed: bool,
    /// Numbers before, and those that are left.
    done: u64,
    left: u64,
}
impl<R: Read> Words<R> {
    /// Whole ones.
    fn raw(file: &Path, from: R, bytes: u64, width: Width) -> Outcome<Words<R>> {
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
        Ok(Words { from, width, signed: false, done: 0, left: bytes / each })
    }
    /// A NumPy array of one dimension.
    fn array(file: &Path, mut from: R, bytes: u64) -> Outcome<Words<R>> {
        let header = npy::read_header(&mut from, bytes).map_err(|e| in_file(file, e))?;
        let width = if header.element.bytes() == 4 { Width::U32 } else { Width::U64 };
        let signed = matches!(header.element, Element::I32 | Element::I64);
        Ok(Words { from, width, signed, done: 0, left: header.len })
    }
    /// `column` has numbers of this width.
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
                    let negative = |(i, &word)| Some((i, i64::from(i32::from_le_bytes(word)))).filter(|(_, n)| *n < 0);
                    if self.signed { words.enumerate().find_map(negative) } else { None }
                }
                Column::U64(column) => {
                    let words = piece.as_chunks().0.iter();
                    column.extend(words.clone().map(|&word| u64::from_le_bytes(word)));
                    let negative = |(i, &word)| Some((i, i64::from_le_bytes(word))).filter(|(_, n)| *n < 0);
                    if self.signed { words.enumerate().find_map(negative) } else { None }
                }
                Column::U128(column) => {
                    column.extend(piece.as_chunks().0.iter().map(|&word| u128::from_le_bytes(word)));
                    None
                }
            };
            if let Some((i, n)) = negative {
                let i = self.done + i as u64;
                return Err(in_file(file, format_args!("element {i} is {n}, expected no negative number")));
            }
            let numbers = (piece.len() / each) as u64;
            (self.done, self.left, left) = (self.done + numbers, self.left - numbers, left - piece.len());
        }
        Ok(n as usize)
    }
}
/// Room for so many. Errors: there is none.
fn reserved<T>(file: &Path, n: u64) -> Outcome<Vec<T>> {
    let mut numbers = Vec::new();
    match usize::try_from(n).map(|n| numbers.try_reserve_exact(n)) {
        Ok(Ok(())) => Ok(numbers),
        _ => Err(Failure::Other(format!("{}: no memory for {n} numbers", file.display()))),
    }
}

/// Columns of a CSV file. The first line has names if columns are asked for by name, or if what stands there is no number.
struct Csv<'a, R> {
    reader: csv::Reader<R>,
    names: Vec<&'a ColumnName>,
    /// The first one has keys of 128 bits.
    wide: bool,
    /// Where they are, when the first line was read.
    places: Option<Vec<usize>>,
}
impl<'a, R: Read> Csv<'a, R> {
    fn new(from: R, names: &[&'a ColumnName], wide: bool) -> Csv<'a, R> {
        let reader = csv::ReaderBuilder::new().has_headers(false).buffer_capacity(PIECE).from_reader(from);
        Csv { reader, names: names.to_vec(), wide, places: None }
    }
    /// Empty ones.
    fn columns(&self) -> Vec<Column> {
        let column = |i| if self.wide && i == 0 { Column::U128(vec![]) } else { Column::U32(vec![]) };
        (0..self.names.len()).map(column).collect()
    }
    fn read(&mut self, file: &Path, columns: &mut [Column], most: usize) -> Outcome<usize> {
        let (mut row, mut rows) = (csv::ByteRecord::new(), 0);
        while rows < most && self.reader.read_byte_record(&mut row).map_err(|e| csv_fault(file, e))? {
            let line = row.position().map_or(0, csv::Position::line);
            let first = self.places.is_none();
            let places = match &self.places {
                Some(places) => places,
                None => self.places.insert(find_columns(file, &row, &self.names)?),
            };
            let wide = |i| self.wide && i == 0;
            let is_name = |(i, &place): (usize, &usize)| match &row[place] {
                [] => false,
                field if wide(i) => wide_number(field).is_none(),
                field => !field[0].is_ascii_digit(),
            };
            let is_header = first
                && (self.names.iter().any(|name| matches!(name, ColumnName::Name(_)))
                    || places.iter().enumerate().all(is_name));
            if is_header {
                continue;
            }
            for ((i, column), (&place, name)) in columns.iter_mut().enumerate().zip(places.iter().zip(&self.names)) {
                let field = &row[place];
                let number = if wide(i) { wide_number(field) } else { number(field).map(u128::from) };
                let Some(number) = number else {
                    let found = field[..field.len().min(40)].escape_ascii();
                    let expected = match wide(i) {
                        true => {
                            "expected 128 bits: decimal, hexadecimal behind 0x, or 32 hexadecimal digits as of a UUID"
                                .into()
                        }
                        false => format!("expected a whole number from 0 to {}", u64::MAX),
                    };
                    let fault = format_args!("line {line}, column {name}: found \"{found}\", {expected}");
                    return Err(in_file(file, fault));
                };
                column.push(number);
            }
            rows += 1;
        }
        if self.places.is_none() {
            return Err(in_file(file, "is empty, expected lines of numbers"));
        }
        Ok(rows)
    }
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
/// A key of 128 bits, with blanks around it: decimal; hexadecimal behind 0x; or 32 hexadecimal digits, as MD5 sums are written, also with the
/// hyphens of a UUID. The first digit is the highest.
fn wide_number(field: &[u8]) -> Option<u128> {
    const HYPHENS: [usize; 4] = [8, 13, 18, 23];
    let text = str::from_utf8(field.trim_ascii()).ok()?;
    let hex = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => Some(digits.to_owned()),
        None if text.len() == 32 => Some(text.to_owned()),
        None if text.len() == 36 && HYPHENS.iter().all(|&at| text.as_bytes()[at] == b'-') => {
            Some(text.replace('-', ""))
        }
        None => None,
    };
    match hex {
        Some(digits) if !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
            u128::from_str_radix(&digits, 16).ok()
        }
        None if !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
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
        csv_with(text, names, false)
    }
    fn csv_with(text: &str, names: &[&str], wide: bool) -> Result<Vec<Column>, String> {
        let names = names.iter().map(|name| name.parse().unwrap()).collect::<Vec<ColumnName>>();
        // All at once, and a row at a time.
        let mut results = [usize::MAX, 1].map(|most| {
            let mut csv = Csv::new(text.as_bytes(), &names.iter().collect::<Vec<_>>(), wide);
            let mut columns = csv.columns();
            loop {
                match csv.read(Path::new("t.csv"), &mut columns, most) {
                    Ok(0) => break Ok(columns),
                    Ok(rows) => assert!(rows <= most),
                    Err(Failure::Usage(message)) => break Err(message),
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
        assert_eq!(results[0], results[1]);
        std::mem::replace(&mut results[0], Ok(vec![]))
    }
    #[test]
    fn words_come_in_pieces() {
        let numbers = (0..600_000u32).map(|i| i.wrapping_mul(0x9E37_79B9)).collect::<Vec<_>>();
        let bytes = numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        for most in [1000, 299_999, usize::MAX] {
            let mut words = Words::raw(Path::new("k.u32"), &bytes[..], bytes.len() as u64, Width::U32).unwrap();
            let mut column = Column::U32(vec![]);
            while words.read(Path::new("k.u32"), &mut column, most).unwrap() > 0 {}
            assert!(column == Column::U32(numbers.clone()));
        }
        // A negative number in a later piece, by its place in the file.
        let mut bytes = npy::header("'<i8'", 400_000);
        bytes.extend((0..400_000i64).flat_map(|i| if i == 300_000 { -7 } else { i }.to_le_bytes()));
        let file = Path::new("k.npy");
        let mut words = Words::array(file, &bytes[..], bytes.len() as u64).unwrap();
        let mut column = Column::U64(vec![]);
        assert_eq!(words.read(file, &mut column, 250_000).unwrap(), 250_000);
        let error = words.read(file, &mut column, 250_000).unwrap_err();
        assert!(matches!(error, Failure::Usage(m) if m == "k.npy: element 300000 is -7, expected no negative number"));
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
    fn keys_of_128_bits_are_written_in_several_ways() {
        let one = 0xF47A_C10B_58CC_4372_A567_0E02_B2C3_D479u128;
        let ways = [
            "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            " F47AC10B58CC4372A5670E02B2C3D479 ",
            "0xf47ac10b58cc4372a5670e02b2c3d479",
            "324969006592305634633390616021200786553",
        ];
        for way in ways {
            assert_eq!(
                csv_with(&format!("{way},5\n"), &["1", "2"], true).unwrap()[0],
                Column::U128(vec![one]),
                "{way}"
            );
        }
        let of = |text: &str| csv_with(text, &["1"], true);
        assert_eq!(of("uuid\n0\n0x1f\n"), Ok(vec![Column::U128(vec![0, 31])]), "a line of names");
        assert_eq!(of(&format!("{}\n", u128::MAX)), Ok(vec![Column::U128(vec![u128::MAX])]));
        assert_eq!(csv_with("0x2,7\n3,8\n", &["1", "2"], true).unwrap()[1], Column::U32(vec![7, 8]));
        for wrong in [
            "f47ac10b-58cc-4372-a5670-e02b2c3d479",
            "f47ac10b-58cc-4372-a567-0e02b2c3d47",
            "f47ac10b58cc4372a5670e02b2c3d47g",
            "0x",
            "0x100000000000000000000000000000000",
            "340282366920938463463374607431768211456",
            "-1",
            "1a",
            "+1",
            "",
        ] {
            let error =
                of(&format!("1\n{wrong},\n").replace(',', if wrong.is_empty() { " " } else { "" })).unwrap_err();
            assert!(
                error.starts_with("t.csv: line 2, column 1: found \"") && error.contains("expected 128 bits"),
                "{error}"
            );
        }
        let error = csv_with("2,x\n", &["1", "2"], true).unwrap_err();
        assert!(error.contains("column 2") && error.contains("from 0 to 18446744073709551615"), "{error}");
    }
    #[test]
    fn numbers_take_the_type_that_is_asked_for() {
        let file = Path::new("k.u64");
        let wide = Column::U64(vec![1, 2]);
        assert_eq!(wide.clone().of_width(Some(Width::U32), "key", file).unwrap(), Column::U32(vec![1, 2]));
        assert_eq!(Column::U32(vec![1, 2]).of_width(Some(Width::U64), "key", file).unwrap(), wide);
        assert_eq!(wide.clone().of_width(None, "key", file).unwrap(), wide);
        let widest = Column::U128(vec![1, 2]);
        assert_eq!(wide.clone().of_width(Some(Width::U128), "key", file).unwrap(), widest);
        assert_eq!(widest.of_width(Some(Width::U64), "key", file).unwrap(), wide);
        let error = Column::U128(vec![1 << 64]).of_width(Some(Width::U64), "key", file).unwrap_err();
        let most = "expected at most 18446744073709551615 for u64";
        assert!(matches!(error, Failure::Usage(m) if m == format!("k.u64: key 0 is 18446744073709551616, {most}")));
        let error = Column::U64(vec![1, 1 << 32]).of_width(Some(Width::U32), "key", file).unwrap_err();
        assert!(
            matches!(error, Failure::Usage(m) if m == "k.u64: key 1 is 4294967296, expected at most 4294967295 for u32")
        );
    }
}
