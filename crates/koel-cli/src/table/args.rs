//! Options of `koel build`, `koel query` and `koel info`.
use super::format::FormatName;
use super::selection::{ColumnName, Header};
use clap::ValueEnum;
use koel::file::Width;
use koel::{Duplicates, any};
use std::path::PathBuf;

const BUILD_EXAMPLES: &str = "\
Examples:
  koel build ids.u64 -o ids.koel                   each value is the key's row number, from 0
  koel build keys.npy --values values.npy -o table.koel
  koel build people.csv --column id --value-column age -o ages.koel
  koel build scan.ply --voxel-grid 512 --kind set -o voxels.koel
  koel build orders.csv --column customer --value-column order --kind multimap -o orders.koel
  koel build people.csv --column id --kind index -o ids.koel
  koel build users.csv --column uuid --key-type u128 --value-column age -o users.koel
  gunzip -c ids.csv.gz | koel build - --kind set -o ids.koel

Tables: a map stores one value per key, a set no values, and a multimap all values of a key in
input order. An index numbers the distinct keys from 0 in order of first occurrence.

Keys and values are whole numbers: raw little-endian words (.u32, .u64), one-dimensional NumPy
arrays of u32, u64, i32 or i64 without negative numbers (.npy), columns of CSV files (.csv, with
tabs .tsv; u32 if all numbers fit, else u64), or the voxels that a point cloud or mesh touches
(.ply, .pcd, .obj, .stl, .off, .xyz, .xyzn, .xyzrgb, .asc, .las, .laz, .e57, .gltf, .glb), encoded
as x << 20 | y << 10 | z up to 1024 voxels per side, and as x << 42 | y << 21 | z beyond.

128-bit keys are raw words (.u128) or numbers in CSV files with --key-type u128. Digits alone are
decimal. Hexadecimal keys start with 0x, have the 32 digits of an MD5 sum with at least one letter,
or have the hyphens of a UUID.

Keys of any bytes are the fields of a CSV file with --key-type bytes, without their quotes: names,
addresses. A heading cannot be told from such keys: say --header yes or no if the report is wrong.

CSV files are read as RFC 4180 says: text after a closing quote, a quote that is never closed and
rows of different lengths are errors with their line. Blanks around a field are ignored. The first
line is a heading if a column is selected by name or if every selected field begins with a letter;
--header overrides this rule. --column 2020 is a position: select a column with the name 2020 by its
position, with --header yes. The report states the number of lines read and the heading; notes name
fields of several lines, blank lines and whatever else might be meant otherwise. Rows of two CSV
files belong together, so blank lines must be at the same rows of both.

KEYS and FILE may be - (standard input) or a pipe: CSV, unless --format says otherwise.

Files are streamed; only the numbers are kept in memory. Ctrl-C leaves no half-written file.
The output works on every device; docs/format.md describes the format.";

/// Build a table of keys and values, and save it to a file
#[derive(clap::Args, Debug)]
#[command(after_help = BUILD_EXAMPLES)]
pub(crate) struct BuildArgs {
    /// File of keys, or - for standard input
    #[arg(value_name = "KEYS")]
    pub keys: PathBuf,
    /// File of values, one per key [default: row numbers]
    #[arg(long, value_name = "FILE", conflicts_with = "voxel_grid")]
    pub values: Option<PathBuf>,
    /// Column of the keys in a CSV file: its name, or its number from 1
    #[arg(long, value_name = "NAME|N", default_value = "1")]
    pub column: ColumnName,
    /// Column of the values, in the file of --values if given, else in the file of keys
    #[arg(long, value_name = "NAME|N", conflicts_with = "voxel_grid")]
    pub value_column: Option<ColumnName>,
    /// Whether the first line of a CSV file is a heading; auto takes it for one if a column is
    /// selected by name or every selected field begins with a letter [default: auto]
    #[arg(long, value_enum, value_name = "auto|yes|no")]
    pub header: Option<Header>,
    /// Format of files whose name does not tell it, such as - [default: csv for pipes]
    #[arg(long, value_enum, value_name = "csv|tsv|npy|u32|u64|u128")]
    pub format: Option<FormatName>,
    /// Use the voxels of a scan as keys, on a grid with N voxels per side
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 21))]
    pub voxel_grid: Option<u32>,
    /// Kind of table
    #[arg(long, value_enum, default_value = "map", value_name = "map|set|multimap|index")]
    pub kind: Kind,
    /// Type of the keys [default: the file's type]
    #[arg(long, value_enum, value_name = "u32|u64|u128|bytes")]
    pub key_type: Option<KeyType>,
    /// Type of the values [default: the file's type]
    #[arg(long, value_enum, value_name = "u32|u64")]
    pub value_type: Option<Number>,
    /// Load factor: keys per slot, 0.3 to 0.95
    #[arg(long, value_name = "LOAD", default_value_t = 0.8)]
    pub load: f64,
    /// Which of several pairs with equal keys a map keeps: the last, the first, reject them as an
    /// error, or unchecked if there are none [default: last]
    #[arg(long, value_enum, value_name = "last|first|reject|unchecked")]
    pub duplicates: Option<Policy>,
    /// Make the file of a map depend only on its pairs, not on their order or the device
    #[arg(long)]
    pub reproducible: bool,
    /// File for the table
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,
}

const QUERY_EXAMPLES: &str = "\
Examples:
  koel query table.koel queries.u32                 show the first answers and the number found
  koel query table.koel queries.npy -o answers.npy  a structured array: key, found, value
  koel query ages.koel people.csv --column id -o answers.csv
  koel query ids.koel numbers.u32 --ids             look up the keys of an index by their ids
  koel query users.koel users.csv --column uuid
  seq 5 | koel query ids.koel - -o - | grep ',1$'

Answers are rows. A map gives key, found (1 or 0) and value; a set gives key and found; an index
gives key, found and id, or id, found and key with --ids. A multimap gives key, found and value,
with one row per value, adjacent for each query, and one row for a query without values.

If a key is not found, the answer is empty in answers.csv and 0 in answers.npy, a structured array
of the same rows. Keys in answers.npy have the type of the queries, u64 if those are CSV. 128-bit
keys are read as in koel build and written as 0x and 32 digits, in answers.npy as 16 bytes. Keys of
a table of bytes are fields of a CSV file, and answers with bytes are CSV.

QUERIES may be - (standard input) or a pipe: CSV, unless --format says otherwise. With -o - or a
pipe, the answers are CSV, and the report is printed to standard error if they go to standard
output.

Queries are streamed, so they may exceed memory. The table is read once, checked and kept in
device memory; with --quick on a CPU it is used in place. Ctrl-C leaves no half-written file.";

/// Look up keys in a saved table
#[derive(clap::Args, Debug)]
#[command(after_help = QUERY_EXAMPLES)]
pub(crate) struct QueryArgs {
    /// Table written by `koel build`
    #[arg(value_name = "TABLE")]
    pub table: PathBuf,
    /// File of keys to look up, or - for standard input: .u32, .u64, .u128, .npy, .csv or .tsv
    #[arg(value_name = "QUERIES")]
    pub queries: PathBuf,
    /// Column of the keys in a CSV file: its name, or its number from 1
    #[arg(long, value_name = "NAME|N", default_value = "1")]
    pub column: ColumnName,
    /// Whether the first line of a CSV file is a heading; auto takes it for one if a column is
    /// selected by name or every selected field begins with a letter [default: auto]
    #[arg(long, value_enum, value_name = "auto|yes|no")]
    pub header: Option<Header>,
    /// Format of QUERIES if the name does not tell it, as of - [default: csv for pipes]
    #[arg(long, value_enum, value_name = "csv|tsv|npy|u32|u64|u128")]
    pub format: Option<FormatName>,
    /// File for the answers: .npy or .csv, or - for standard output [default: print the first
    /// answers]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Treat the queries as ids of an index and look up their keys
    #[arg(long)]
    pub ids: bool,
    /// Use the table file in place and check only its header, instead of reading and checking it
    /// all
    ///
    /// On the CPU nothing is copied, and only the pages that queries touch are read. Damage goes
    /// unnoticed. No other program may change the file meanwhile: answers would be wrong, and if
    /// the file is truncated, the system terminates koel.
    #[arg(long)]
    pub quick: bool,
}

const INFO_EXAMPLES: &str = "\
Examples:
  koel info table.koel
  koel info table.koel --json -";

/// Show what a saved table holds, and check that the file is intact
#[derive(clap::Args, Debug)]
#[command(after_help = INFO_EXAMPLES)]
pub(crate) struct InfoArgs {
    /// Table written by `koel build`
    #[arg(value_name = "TABLE")]
    pub table: PathBuf,
    /// Read and check only the header
    #[arg(long)]
    pub quick: bool,
}

/// `--kind`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// Keys with one value each.
    Map,
    /// Keys only.
    Set,
    /// Keys with any number of values each.
    Multimap,
    /// Keys and their numbers, both ways.
    Index,
}
impl Kind {
    /// Returns whether the table stores values from the input.
    pub(crate) fn has_values(self) -> bool {
        any::Kind::from(self).has_values()
    }
}
impl From<Kind> for any::Kind {
    fn from(kind: Kind) -> any::Kind {
        match kind {
            Kind::Map => any::Kind::Map,
            Kind::Set => any::Kind::Set,
            Kind::Multimap => any::Kind::MultiMap,
            Kind::Index => any::Kind::Index,
        }
    }
}
/// `--key-type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum KeyType {
    U32,
    U64,
    U128,
    /// Strings, of CSV files only.
    Bytes,
}
impl KeyType {
    /// Returns the width of numbers.
    pub(crate) fn width(self) -> Option<Width> {
        match self {
            KeyType::U32 => Some(Width::U32),
            KeyType::U64 => Some(Width::U64),
            KeyType::U128 => Some(Width::U128),
            KeyType::Bytes => None,
        }
    }
}
/// `--value-type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Number {
    U32,
    U64,
}
impl From<Number> for Width {
    fn from(number: Number) -> Width {
        match number {
            Number::U32 => Width::U32,
            Number::U64 => Width::U64,
        }
    }
}
/// `--duplicates`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Policy {
    /// Keeps the last pair.
    Last,
    /// Keeps the first pair.
    First,
    /// Fails if keys repeat.
    Reject,
    /// Assumes that no key repeats.
    Unchecked,
}
impl From<Policy> for Duplicates {
    fn from(policy: Policy) -> Duplicates {
        match policy {
            Policy::Last => Duplicates::KeepLast,
            Policy::First => Duplicates::KeepFirst,
            Policy::Reject => Duplicates::Reject,
            Policy::Unchecked => Duplicates::Unchecked,
        }
    }
}
