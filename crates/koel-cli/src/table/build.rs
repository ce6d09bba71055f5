//! `koel build`: reads columns of numbers, builds a table and saves it.
use super::args::{BuildArgs, KeyType, Kind};
use super::column::Column;
use super::columns::{self, Account};
use super::csv::Gap;
use super::faults::{in_file, out_of_memory};
use super::format::Format;
use super::selection::{ColumnName, Header, Selection};
use super::{Table, check_header, tell};
use crate::apart::Files;
use crate::failure::{Failure, Outcome};
use crate::{Global, device, output};
use koel::any::{self, TableOptions};
use koel::file::Width;
use koel::{Duplicates, Error};
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// Runs `koel build`. Rejects bad arguments before anything is read.
pub(crate) fn run_build(global: &Global, args: BuildArgs) -> Outcome {
    check(&args)?;
    let files = [Some(args.keys.as_path()), args.values.as_deref()];
    let files = files.into_iter().flatten().collect::<Vec<_>>();
    let header = check_header(args.header, args.format, &files)?;
    let inputs =
        Files::default().reads("KEYS", &args.keys).may_read("--values", args.values.as_deref());
    inputs.writes("--out", Some(&args.out)).writes_json(global.json.as_deref()).check_apart()?;
    if args.out == Path::new("-") {
        return Err(in_file(&args.out, "a table is written to a file, not to standard output"));
    }
    global.json_file().map_or(Ok(()), output::check_writable)?;
    output::check_replaceable(&args.out)?;
    let begin = Instant::now();
    let Pairs { keys, values, accounts } = pairs(&args, header)?;
    let notes = accounts.iter().flat_map(|account| account.notes.clone()).collect::<Vec<String>>();
    tell(&notes);
    let keys = keys.of_width(args.key_type.and_then(KeyType::width), "key", &args.keys)?;
    let of_values = args.values.as_deref().unwrap_or(&args.keys);
    let values = values.of_width(args.value_type.map(Width::from), "value", of_values)?;
    if args.kind.has_values() && keys.len() != values.len() {
        return Err(in_file(
            of_values,
            format_args!("{} values, expected one for each of {} keys", values.len(), keys.len()),
        ));
    }
    let read_seconds = begin.elapsed().as_secs_f64();
    let device = device::open(global.device, global.threads)?.device;
    if matches!(values, Column::U128(_)) {
        let fault = "values of 128 bits, expected at most 64: --value-type u64, if they fit";
        return Err(in_file(of_values, fault));
    }
    let begin = Instant::now();
    let options = TableOptions::from(any::Kind::from(args.kind))
        .with_load(args.load)
        // Both halves of the seed count.
        .with_seed((global.seed ^ global.seed >> 32) as u32)
        .with_duplicates(args.duplicates.map(Duplicates::from))
        .with_reproducible(args.reproducible);
    let values = args.kind.has_values().then(|| values.rows(0..values.len())).transpose()?;
    let built = any::Table::build(&device, options, &keys.rows(0..keys.len())?, values.as_ref());
    let table = built.map_err(|e| match e {
        Error::DuplicateKey { .. } | Error::DuplicateString { .. } | Error::TooMany { .. } => {
            in_file(&args.keys, e)
        }
        e => e.into(),
    })?;
    let dropped = match args.kind {
        Kind::Index => keys.len() - table.len()?,
        _ => table.report()?.duplicates,
    };
    let build_seconds = begin.elapsed().as_secs_f64();
    let fault = |e| match e {
        Error::File(e) => Failure::Other(format!("{}: {}", args.out.display(), e.kind)),
        e => e.into(),
    };
    output::write_with(&args.out, |file| table.save_to(file).map_err(fault))?;
    let write_seconds = begin.elapsed().as_secs_f64() - build_seconds;
    let info = koel::file::info(&args.out)?;
    let built = BuildSummary {
        table: Table::of(&args.out, &info, "header"),
        device: device.name(),
        dropped,
        inputs: accounts,
        notes,
        seconds: Seconds { read: read_seconds, build: build_seconds, write: write_seconds },
    };
    output::result(global, &built, &built.text())
}
/// Rejects options that exclude each other.
fn check(args: &BuildArgs) -> Outcome {
    if !(0.3..=0.95).contains(&args.load) {
        return Err(Failure::Usage(format!("--load {}: expected 0.3 to 0.95", args.load)));
    }
    let of_values = [
        ("--values", args.values.is_some()),
        ("--value-column", args.value_column.is_some()),
        ("--value-type", args.value_type.is_some()),
    ];
    let of_maps =
        [("--duplicates", args.duplicates.is_some()), ("--reproducible", args.reproducible)];
    let refused = |options: &[(&'static str, bool)]| {
        options.iter().find(|(_, given)| *given).map(|&(name, _)| name)
    };
    match (refused(&of_values), refused(&of_maps)) {
        (Some(name), _) if !args.kind.has_values() => {
            Err(Failure::Usage(format!("{name} requires --kind map or multimap")))
        }
        (_, Some(name)) if args.kind != Kind::Map => {
            Err(Failure::Usage(format!("{name} requires --kind map")))
        }
        _ if args.reproducible && (is_wide(args) || has_strings(args)) => {
            Err(Failure::Usage("--reproducible requires keys of 32 or 64 bits".into()))
        }
        _ => Ok(()),
    }
}
/// Returns whether keys have 128 bits.
fn is_wide(args: &BuildArgs) -> bool {
    match args.key_type {
        Some(of) => of == KeyType::U128,
        None => Format::of(&args.keys, args.format)
            .is_ok_and(|format| format == Format::Raw(Width::U128)),
    }
}
/// Returns whether keys are strings.
fn has_strings(args: &BuildArgs) -> bool {
    args.key_type == Some(KeyType::Bytes)
}
/// Keys and values as read from the files; no values for a table without them.
struct Pairs {
    keys: Column,
    values: Column,
    /// One per file.
    accounts: Vec<Account>,
}
fn pairs(args: &BuildArgs, header: Header) -> Outcome<Pairs> {
    let format = Format::of(&args.keys, args.format)?;
    let rows = |keys: &Column| {
        Column::numbers(if args.kind.has_values() { keys.len() } else { 0 })
            .map_err(|_| out_of_memory(&args.keys, format_args!("{} row numbers", keys.len())))
    };
    if let Some(side) = args.voxel_grid {
        if format != Format::Scan {
            return Err(in_file(&args.keys, "--voxel-grid requires a point cloud or mesh"));
        }
        let (keys, account) = columns::voxels(&args.keys, side)?;
        return Ok(Pairs { values: rows(&keys)?, keys, accounts: vec![account] });
    }
    if has_strings(args) && !format.is_csv() {
        return Err(Failure::Usage("--key-type bytes requires a CSV file".into()));
    }
    let value_column = args.value_column.as_ref();
    if args.values.is_none() && value_column.is_some() && !format.is_csv() {
        return Err(Failure::Usage("--value-column requires a CSV file".into()));
    }
    let names = [&args.column]
        .into_iter()
        .chain(value_column.filter(|_| args.values.is_none()))
        .collect::<Vec<_>>();
    let of_values = match &args.values {
        Some(file) => Some((file, Format::of(file, args.format)?)),
        None => None,
    };
    let with_gaps = format.is_csv() && of_values.is_some_and(|(_, format)| format.is_csv());
    let (wide, strings) = (is_wide(args), has_strings(args));
    let selection = Selection { names: &names, wide, strings, header, with_gaps };
    let (columns, account) = columns::read(&args.keys, format, selection)?;
    let (mut columns, mut accounts) = (columns.into_iter(), vec![account]);
    let keys = columns.next().unwrap_or(Column::U32(vec![]));
    let values = match (of_values, columns.next()) {
        (Some((file, format)), _) => {
            let name = value_column.unwrap_or(&ColumnName::Number(1));
            let selection =
                Selection { names: &[name], wide: false, strings: false, header, with_gaps };
            let (mut values, account) = columns::read(file, format, selection)?;
            accounts.push(account);
            check_gaps(&accounts)?;
            values.pop()
        }
        (None, of_keys) => of_keys,
    };
    let values = match values {
        Some(values) => values,
        None => rows(&keys)?,
    };
    Ok(Pairs { keys, values, accounts })
}

/// Checks that two CSV files, joined by row, have their blank lines between the same rows.
/// Elsewhere one of them would stand for a missing number, and shift the pairs after it.
fn check_gaps(accounts: &[Account]) -> Outcome {
    let [keys, values] = accounts else { return Ok(()) };
    let at = |account: &Account, i: usize| account.gaps.get(i).map(|gap| (gap.row, gap.blank));
    let gaps = keys.gaps.len().max(values.gaps.len());
    let Some(i) = (0..gaps).find(|&i| at(keys, i) != at(values, i)) else { return Ok(()) };
    let place = |account: &Account| match account.gaps.get(i) {
        Some(gap) => {
            let Gap { row, blank, line } = gap;
            format!("{} has {blank} after {row} rows, from line {line}", account.file)
        }
        None => format!("{} has no more", account.file),
    };
    Err(Failure::Usage(format!(
        "{} and {} are joined by row, but their blank lines differ: {}, {}",
        keys.file,
        values.file,
        place(keys),
        place(values)
    )))
}

/// Report of `koel build`.
#[derive(Serialize)]
struct BuildSummary {
    #[serde(flatten)]
    table: Table,
    device: String,
    #[serde(skip)]
    dropped: usize,
    inputs: Vec<Account>,
    notes: Vec<String>,
    seconds: Seconds,
}
#[derive(Serialize)]
struct Seconds {
    read: f64,
    build: f64,
    write: f64,
}
impl BuildSummary {
    fn text(&self) -> String {
        let (t, s, n) = (&self.table, &self.seconds, output::thousands);
        let dropped = match self.dropped {
            0 => String::new(),
            dropped => format!(", {} with a repeated key dropped", n(dropped)),
        };
        let inputs = self.inputs.iter().map(Account::text).collect::<String>();
        format!(
            "{}: {}, {}{dropped}, load {:.3}, {} bytes\n\
             {inputs}read {:.3} s, built {:.3} s on {}, written {:.3} s\n",
            t.file,
            t.what(),
            t.content(),
            t.load,
            n(t.bytes as usize),
            s.read,
            s.build,
            self.device,
            s.write
        )
    }
}
