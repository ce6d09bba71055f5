//! `koel build`, `koel query` and `koel info`: tables in files.
//!
//! [`columns`] reads numbers, [`build`] builds and saves a table, [`query`] opens and queries it,
//! and [`answers`] writes the results.
mod answers;
mod args;
mod build;
mod column;
mod columns;
mod csv;
mod faults;
mod format;
mod query;
mod selection;
mod words;

use crate::apart::Files;
use crate::failure::{Failure, Outcome};
use crate::{Global, output};
pub(crate) use args::{BuildArgs, InfoArgs, QueryArgs};
pub(crate) use build::run_build;
use format::{Format, FormatName};
use koel::Error;
use koel::any::Kind;
use koel::file::FileInfo;
pub(crate) use query::run_query;
use selection::Header;
use serde::Serialize;
use std::path::Path;

/// Reports the fault of a file that is read.
fn table_fault(error: Error) -> Failure {
    match error {
        Error::File(e) => Failure::input(e),
        e => e.into(),
    }
}

/// Runs `koel info`.
pub(crate) fn run_info(global: &Global, args: InfoArgs) -> Outcome {
    Files::default()
        .reads("TABLE", &args.table)
        .writes_json(global.json.as_deref())
        .check_apart()?;
    check_table(&args.table)?;
    global.json_file().map_or(Ok(()), output::check_writable)?;
    let (info, checked) = match args.quick {
        true => (koel::file::info(&args.table), "header"),
        false => (koel::file::verify(&args.table), "all"),
    };
    let table = Table::of(&args.table, &info.map_err(table_fault)?, checked);
    output::result(global, &table, &table.text())
}

/// Prints notes on the input files to standard error.
fn tell(notes: &[String]) {
    notes.iter().for_each(|note| output::say(format_args!("note: {note}")));
}
/// Rejects `--header` if no input is a CSV file, and `--format` if every name tells a format.
fn check_header(
    header: Option<Header>,
    format: Option<FormatName>,
    files: &[&Path],
) -> Outcome<Header> {
    let is_csv = |file: &&Path| Format::of(file, format).is_ok_and(Format::is_csv);
    if format.is_some() && files.iter().all(|file| Format::by_name(file).is_some()) {
        let fault = "--format is for files whose name does not tell the format, such as -";
        return Err(Failure::Usage(fault.into()));
    }
    match header {
        Some(_) if !files.iter().any(is_csv) => {
            Err(Failure::Usage("--header requires a CSV file".into()))
        }
        header => Ok(header.unwrap_or_default()),
    }
}
/// Rejects standard input as a table.
fn check_table(table: &Path) -> Outcome {
    match table == Path::new("-") {
        true => Err(faults::in_file(table, "a table is read from a file, not from standard input")),
        false => Ok(()),
    }
}
fn write_json(file: &Path, report: &impl Serialize) -> Outcome {
    output::write_file(file, output::json(report)?.as_bytes())
}

/// Description of a table file.
#[derive(Serialize)]
struct Table {
    file: String,
    version: u32,
    kind: &'static str,
    key: String,
    /// `None` for a set.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    keys: usize,
    pairs: usize,
    duplicates: usize,
    stashed: usize,
    seed: u32,
    partitions: u32,
    buckets: u32,
    slots: usize,
    load: f64,
    bytes: u64,
    /// What was checked: all or header.
    checked: &'static str,
}
impl Table {
    fn of(file: &Path, info: &FileInfo, checked: &'static str) -> Table {
        Table {
            file: file.display().to_string(),
            version: info.version,
            kind: match Kind::from(info.kind) {
                Kind::Map => "map",
                Kind::Set => "set",
                Kind::Index => "index",
                Kind::MultiMap => "multimap",
            },
            key: info.meaning.key().to_string(),
            value: info.meaning.value().map(str::to_string),
            keys: info.keys,
            pairs: info.pairs,
            duplicates: info.duplicates,
            stashed: info.stashed,
            seed: info.seed,
            partitions: info.partitions,
            buckets: info.buckets,
            slots: info.slots,
            load: info.load(),
            bytes: info.bytes,
            checked,
        }
    }
    /// Returns the kind and the types.
    fn what(&self) -> String {
        let value = self.value.as_ref().map_or(String::new(), |value| format!(" -> {value}"));
        format!("{} of {}{value}", self.kind, self.key)
    }
    /// Returns the number of keys and pairs.
    fn content(&self) -> String {
        let n = output::thousands;
        match self.kind {
            "set" | "index" => format!("{} keys", n(self.keys)),
            "multimap" => format!("{} pairs of {} keys", n(self.pairs), n(self.keys)),
            _ => format!("{} pairs", n(self.pairs)),
        }
    }
    fn text(&self) -> String {
        let n = output::thousands;
        let checked = if self.checked == "all" { "everything" } else { "only the header" };
        let dropped = match self.kind {
            "map" | "set" => {
                format!(", {} with a repeated key were dropped", n(self.duplicates))
            }
            _ => String::new(),
        };
        let lines = [
            ("kind", self.what()),
            ("holds", format!("{}{dropped}", self.content())),
            (
                "slots",
                format!(
                    "{}, load {:.3}, {} keys in the stash",
                    n(self.slots),
                    self.load,
                    n(self.stashed)
                ),
            ),
            (
                "shape",
                format!(
                    "{} partitions of {} buckets",
                    n(self.partitions as usize),
                    n(self.buckets as usize)
                ),
            ),
            ("seed", self.seed.to_string()),
            (
                "file",
                format!(
                    "{} bytes, format version {}, checked: {checked}",
                    n(self.bytes as usize),
                    self.version
                ),
            ),
        ];
        let lines = lines.map(|(name, value)| format!("{name:6} {value}\n")).concat();
        format!("{}\n{lines}", self.file)
    }
}
