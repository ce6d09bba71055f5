//! What `koel build`, `koel query` and `koel info` understand.
use super::columns::ColumnName;
use clap::ValueEnum;
use koel::Duplicates;
use koel::file::Width;
use std::path::PathBuf;

const BUILD_EXAMPLES: &str = "\
Examples:
  koel build ids.u64 -o ids.koel                   the value of a key is its row number, from 0
  koel build keys.npy --values values.npy -o table.koel
  koel build people.csv --column id --value-column age -o ages.koel
  koel build scan.ply --voxel-grid 512 --kind set -o voxels.koel
  koel build orders.csv --column customer --value-column order --kind multimap -o orders.koel
  koel build people.csv --column id --kind index -o ids.koel
  koel build users.csv --column uuid --key-type u128 --value-column age -o users.koel

A map has a value for each key, a set none, a multimap all values that a key comes with, in their order; an index gives the distinct keys
the numbers from 0 on, in ascending order.
Keys of 128 bits are raw words (.u128), or numbers of CSV files with --key-type u128. Digits alone are decimal; hexadecimal are those
behind 0x, the 32 of an MD5 sum, which must have a letter among them, and those of a UUID with its hyphens. They make maps, sets and indexes, in which ids are in the order in which keys first come.
Keys and values are whole numbers: raw little-endian words (.u32, .u64), one-dimensional NumPy arrays of u32, u64, i32 or i64 without
negative numbers (.npy), columns of CSV files (.csv; u32 if all numbers fit, else u64), or the voxels that a point cloud or mesh touches
(.ply, .obj, .pcd, .stl, .las, .laz): x << 20 | y << 10 | z up to 1024 voxels a side, x << 42 | y << 21 | z beyond.
In a CSV file, blanks around a field do not count. Its first line is the heading if a column is asked for by name, or if every field asked
for begins with a letter; --header yes or no decides otherwise. The report tells how many lines were read and which was the heading.
Files are read piece by piece: only the numbers are kept in memory, not the text. Ctrl-C leaves no half-written file.
The file works on every device; docs/format.md describes it.";

/// Build a table of keys and values, and save it
#[derive(clap::Args, Debug)]
#[command(after_help = BUILD_EXAMPLES)]
pub struct BuildArgs {
    /// The keys
    #[arg(value_name = "KEYS")]
    pub keys: PathBuf,
    /// The values, as many [default: row numbers]
    #[arg(long, value_name = "FILE", conflicts_with = "voxel_grid")]
    pub values: Option<PathBuf>,
    /// The column of the keys in a CSV file: its name, or its number from 1
    #[arg(long, value_name = "NAME|N", default_value = "1")]
    pub column: ColumnName,
    /// The column of the values, in the file of the values or else in that of the keys
    #[arg(long, value_name = "NAME|N", conflicts_with = "voxel_grid")]
    pub value_column: Option<ColumnName>,
    /// Whether the first line of a CSV file is a heading: auto takes it for one if a column is
    /// asked for by name, or if every field asked for begins with a letter
    #[arg(long, value_enum, value_name = "auto|yes|no")]
    pub header: Option<Header>,
    /// The keys are the voxels of a scan, on a grid of so many voxels a side
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 21))]
    pub voxel_grid: Option<u32>,
    /// The kind of table
    #[arg(long, value_enum, default_value = "map", value_name = "map|set|multimap|index")]
    pub kind: Kind,
    /// The type of keys [default: that of the file]
    #[arg(long, value_enum, value_name = "u32|u64|u128")]
    pub key_type: Option<KeyNumber>,
    /// The type of values [default: that of the file]
    #[arg(long, value_enum, value_name = "u32|u64")]
    pub value_type: Option<Number>,
    /// Keys per slot, 0.3 to 0.95
    #[arg(long, value_name = "LOAD", default_value_t = 0.8)]
    pub load: f64,
    /// Of equal keys of a map: keep the last, keep the first, reject them, or take my word that
    /// there are none [default: last]
    #[arg(long, value_enum, value_name = "last|first|reject|unchecked")]
    pub duplicates: Option<Policy>,
    /// The same pairs give the same file of a map, on every device and in every order
    #[arg(long)]
    pub reproducible: bool,
    /// Where the table goes
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,
}

const QUERY_EXAMPLES: &str = "\
Examples:
  koel query table.koel queries.u32                 the first answers, and how many were found
  koel query table.koel queries.npy -o answers.npy  a structured array: key, found, value
  koel query ages.koel people.csv --column id -o answers.csv
  koel query ids.koel numbers.u32 --ids             of an index the way back: the keys of numbers
  koel query users.koel users.csv --column uuid

Answers are rows: of a map key, found (1 or 0), value; of a set key, found; of an index key, found, id, and with --ids id, found, key. Of a
multimap key, found, value: a row for each value, side by side those of a query, and one for a query that has none. In answers.csv a key that
is not there has no value, in answers.npy, a structured array of the same rows, the value 0. Keys in answers.npy are as wide as in the
queries; u64 if these are CSV. Keys of 128 bits are asked for as they are built from, and told as 0x and 32 digits, in answers.npy as 16 bytes.
Queries are read, looked up and written piece by piece, so that there may be more than memory holds. The table is read once, checked, and
kept in memory of the device; with --quick it is looked into where it is. Ctrl-C leaves no half-written file.";

/// Look keys up in a saved table
#[derive(clap::Args, Debug)]
#[command(after_help = QUERY_EXAMPLES)]
pub struct QueryArgs {
    /// The table, as `koel build` wrote it
    #[arg(value_name = "TABLE")]
    pub table: PathBuf,
    /// The keys to look up: .u32, .u64, .u128, .npy or .csv
    #[arg(value_name = "QUERIES")]
    pub queries: PathBuf,
    /// The column of the keys in a CSV file: its name, or its number from 1
    #[arg(long, value_name = "NAME|N", default_value = "1")]
    pub column: ColumnName,
    /// Whether the first line of a CSV file is a heading: auto takes it for one if a column is
    /// asked for by name, or if every field asked for begins with a letter
    #[arg(long, value_enum, value_name = "auto|yes|no")]
    pub header: Option<Header>,
    /// Where the answers go: .npy or .csv
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The queries are ids of an index: look their keys up
    #[arg(long)]
    pub ids: bool,
    /// Look into the file where it is and check its header only, rather than read and check all of
    /// it
    ///
    /// On the CPU nothing is copied, and only the pages that queries need are read. Damage goes
    /// unnoticed, and no program may change the file meanwhile: answers would be wrong, and if
    /// it is cut short koel is ended by the system.
    #[arg(long)]
    pub quick: bool,
}

const INFO_EXAMPLES: &str = "\
Examples:
  koel info table.koel
  koel info table.koel --json -";

/// What a saved table holds, and whether the file is whole
#[derive(clap::Args, Debug)]
#[command(after_help = INFO_EXAMPLES)]
pub struct InfoArgs {
    /// The table, as `koel build` wrote it
    #[arg(value_name = "TABLE")]
    pub table: PathBuf,
    /// Read and check the header only
    #[arg(long)]
    pub quick: bool,
}

/// `--header`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Header {
    /// As the fields look that are asked for.
    #[default]
    Auto,
    /// The first line is a heading.
    Yes,
    /// The first line is a row.
    No,
}
/// `--kind`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Kind {
    /// Keys and a value each.
    Map,
    /// Keys.
    Set,
    /// Keys and any number of values each.
    Multimap,
    /// Keys and numbers for them, both ways.
    Index,
}
impl Kind {
    /// Whether there are values that are not made up.
    pub fn has_values(self) -> bool {
        matches!(self, Kind::Map | Kind::Multimap)
    }
}
/// `--key-type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum KeyNumber {
    U32,
    U64,
    U128,
}
impl From<KeyNumber> for Width {
    fn from(number: KeyNumber) -> Width {
        match number {
            KeyNumber::U32 => Width::U32,
            KeyNumber::U64 => Width::U64,
            KeyNumber::U128 => Width::U128,
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
    /// The last pair stays.
    Last,
    /// The first pair stays.
    First,
    /// They are an error.
    Reject,
    /// There are none.
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
