//! `koel build`: reads columns of numbers, builds a table and saves it.
use super::args::{BuildArgs, KeyNumber, Kind, Policy};
use super::column::Column;
use super::columns::{self, Account};
use super::csv::Gap;
use super::faults::{in_file, out_of_memory};
use super::format::Format;
use super::selection::{ColumnName, Header, Selection};
use super::{Table, check_header, json_file, say, tell};
use crate::apart::Files;
use crate::failure::{Failure, Outcome};
use crate::{Global, device, output};
use koel::file::Width;
use koel::keys128::{Map128Builder, RowsOptions, Set128Builder};
use koel::types::{KeyBits, ValueBits};
use koel::{
    Device, Error, IndexBuilder, IndexOptions, MapBuilder, MapOptions, MultiMapBuilder,
    MultiMapOptions, SetBuilder, SetOptions, ValueOrder,
};
use serde::Serialize;
use std::fs::File;
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
    let json_file = json_file(global)?;
    output::check_replaceable(&args.out)?;
    let begin = Instant::now();
    let Pairs { keys, values, accounts } = pairs(&args, header)?;
    let notes = accounts.iter().flat_map(|account| account.notes.clone()).collect::<Vec<String>>();
    tell(&notes);
    let keys = keys.of_width(args.key_type.map(Width::from), "key", &args.keys)?;
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
    // Both halves of the seed count.
    let build = Build { device, args: &args, seed: Some((global.seed ^ global.seed >> 32) as u32) };
    let (dropped, [build_seconds, write_seconds]) = match (keys, values) {
        (Column::U32(keys), Column::U32(values)) => build.run(&keys, &values),
        (Column::U32(keys), Column::U64(values)) => build.run(&keys, &values),
        (Column::U64(keys), Column::U32(values)) => build.run(&keys, &values),
        (Column::U64(keys), Column::U64(values)) => build.run(&keys, &values),
        (Column::U128(keys), Column::U32(values)) => build.run128(&keys, &values),
        (Column::U128(keys), Column::U64(values)) => build.run128(&keys, &values),
        (_, Column::U128(_)) => {
            return Err(in_file(
                of_values,
                "values of 128 bits, expected at most 64: --value-type u64, if they fit",
            ));
        }
    }?;
    let info = koel::file::info(&args.out)?;
    let built = BuildSummary {
        table: Table::of(&args.out, &info, "header"),
        device: build.device.name(),
        dropped,
        inputs: accounts,
        notes,
        seconds: Seconds { read: read_seconds, build: build_seconds, write: write_seconds },
    };
    say(global, json_file, &built, &built.text())
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
        _ if !is_wide(args) => Ok(()),
        _ if args.reproducible => {
            Err(Failure::Usage("--reproducible requires keys of 32 or 64 bits".into()))
        }
        _ if args.kind == Kind::Multimap => Err(no_multimap()),
        _ => Ok(()),
    }
}
/// Returns whether keys have 128 bits.
fn is_wide(args: &BuildArgs) -> bool {
    match args.key_type {
        Some(number) => number == KeyNumber::U128,
        None => Format::of(&args.keys, args.format)
            .is_ok_and(|format| format == Format::Raw(Width::U128)),
    }
}
fn no_multimap() -> Failure {
    Failure::Usage("--kind multimap requires keys of 32 or 64 bits".into())
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
        Column::rows(if args.kind.has_values() { keys.len() } else { 0 })
            .map_err(|_| out_of_memory(&args.keys, format_args!("{} row numbers", keys.len())))
    };
    if let Some(side) = args.voxel_grid {
        if format != Format::Scan {
            return Err(in_file(&args.keys, "--voxel-grid requires a point cloud or mesh"));
        }
        let (keys, account) = columns::voxels(&args.keys, side)?;
        return Ok(Pairs { values: rows(&keys)?, keys, accounts: vec![account] });
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
    let selection = Selection { names: &names, wide: is_wide(args), header, with_gaps };
    let (columns, account) = columns::read(&args.keys, format, selection)?;
    let (mut columns, mut accounts) = (columns.into_iter(), vec![account]);
    let keys = columns.next().unwrap_or(Column::U32(vec![]));
    let values = match (of_values, columns.next()) {
        (Some((file, format)), _) => {
            let name = value_column.unwrap_or(&ColumnName::Number(1));
            let selection = Selection { names: &[name], wide: false, header, with_gaps };
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

struct Build<'a> {
    device: Device,
    args: &'a BuildArgs,
    seed: Option<u32>,
}
impl Build<'_> {
    /// Builds and saves. Returns the number of pairs dropped for repeated keys, and the seconds of
    /// both steps.
    fn run<K: KeyBits, V: ValueBits>(
        &self,
        keys: &[K],
        values: &[V],
    ) -> Outcome<(usize, [f64; 2])> {
        let Build { device, args, seed } = self;
        let (load, seed, begin) = (args.load, *seed, Instant::now());
        let (stream, staged, staged_values) =
            (device.stream()?, device.stage(keys)?, device.stage(values)?);
        let (of_keys, of_values) = (staged.view(), staged_values.view());
        let of_index = IndexOptions::default().with_load(load).with_seed(seed);
        match args.kind {
            Kind::Map => {
                let duplicates = args.duplicates.unwrap_or(Policy::Last).into();
                let options = MapOptions::default()
                    .with_load(load)
                    .with_duplicates(duplicates)
                    .with_seed(seed)
                    .with_reproducible(args.reproducible);
                let map = self
                    .built(MapBuilder::new(device, options)?.build(&stream, of_keys, of_values))?;
                self.save(begin, map.report()?.duplicates, |file| map.save_to(file))
            }
            Kind::Set => {
                let set = self.built(
                    SetBuilder::new(device, SetOptions::default().with_load(load).with_seed(seed))?
                        .build(&stream, of_keys),
                )?;
                self.save(begin, set.report()?.duplicates, |file| set.save_to(file))
            }
            Kind::Index => {
                let index =
                    self.built(IndexBuilder::new(device, of_index)?.build(&stream, of_keys))?;
                self.save(begin, keys.len() - index.len(), |file| index.save_to(file))
            }
            Kind::Multimap => {
                let of_multimap = MultiMapOptions::default()
                    .with_load(load)
                    .with_seed(seed)
                    .with_order(ValueOrder::Input);
                let map = self.built(
                    MultiMapBuilder::new(device, of_multimap)?.build(&stream, of_keys, of_values),
                )?;
                self.save(begin, 0, |file| map.save_to(file))
            }
        }
    }
    /// Like `run`, for 128-bit keys.
    fn run128<V: ValueBits>(&self, keys: &[u128], values: &[V]) -> Outcome<(usize, [f64; 2])> {
        let Build { device, args, seed } = self;
        let (load, seed, begin) = (args.load, *seed, Instant::now());
        let (stream, staged, staged_values) =
            (device.stream()?, device.stage(keys)?, device.stage(values)?);
        let (of_keys, of_values) = (staged.view(), staged_values.view());
        match args.kind {
            Kind::Map => {
                let duplicates = args.duplicates.unwrap_or(Policy::Last).into();
                let mut builder = Map128Builder::new(
                    device,
                    RowsOptions::default()
                        .with_load(load)
                        .with_duplicates(duplicates)
                        .with_seed(seed),
                )?;
                let map = self.built(builder.build(&stream, of_keys, of_values))?;
                self.save(begin, keys.len() - map.len(), |file| map.save_to(file))
            }
            Kind::Set => {
                let set = self.built(
                    Set128Builder::new(
                        device,
                        SetOptions::default().with_load(load).with_seed(seed),
                    )?
                    .build(&stream, of_keys),
                )?;
                self.save(begin, keys.len() - set.len(), |file| set.save_to(file))
            }
            Kind::Index => {
                let mut builder = IndexBuilder::new(
                    device,
                    IndexOptions::default().with_load(load).with_seed(seed),
                )?;
                let index = self.built(builder.build(&stream, of_keys))?;
                self.save(begin, keys.len() - index.len(), |file| index.save_to(file))
            }
            Kind::Multimap => Err(no_multimap()),
        }
    }
    /// Returns the table, or an error that names the file of keys if they are at fault.
    fn built<T>(&self, built: koel::Result<T>) -> Outcome<T> {
        built.map_err(|e| match e {
            Error::DuplicateKey { .. } | Error::TooMany { .. } => in_file(&self.args.keys, e),
            e => e.into(),
        })
    }
    fn save(
        &self,
        begin: Instant,
        dropped: usize,
        save: impl FnOnce(&mut File) -> koel::Result<()>,
    ) -> Outcome<(usize, [f64; 2])> {
        let (out, built) = (&self.args.out, begin.elapsed().as_secs_f64());
        let fault = |e| match e {
            Error::File(e) => Failure::Other(format!("{}: {}", out.display(), e.kind)),
            e => e.into(),
        };
        output::write_with(out, |file| save(file).map_err(fault))?;
        Ok((dropped, [built, begin.elapsed().as_secs_f64() - built]))
    }
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
