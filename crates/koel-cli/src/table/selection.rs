//! Which columns of a CSV file are read.
use clap::ValueEnum;
use std::fmt::Display;

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

/// `--header`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Header {
    /// Depends on the selected fields of the first line.
    #[default]
    Auto,
    /// The first line is a heading.
    Yes,
    /// The first line is a row.
    No,
}

/// Columns to read from a CSV file. Other formats have one.
#[derive(Clone, Copy)]
pub(super) struct Selection<'a> {
    pub names: &'a [&'a ColumnName],
    /// Whether the first column has 128-bit keys.
    pub wide: bool,
    /// Whether it has strings.
    pub strings: bool,
    pub header: Header,
    /// Whether the account has the blank lines between rows.
    pub with_gaps: bool,
}
