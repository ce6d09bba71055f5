//! `koel build`, `koel query` and `koel info`: tables in files.
//!
//! Numbers are read ([`columns`]), a table is built and saved, or opened and asked, and the answers are written ([`answers`]).
mod answers;
mod args;
mod columns;
mod npy;

use crate::failure::{Failure, Outcome};
use crate::{Global, device, output};
use answers::Answers;
use args::Kind;
pub use args::{BuildArgs, InfoArgs, QueryArgs};
use clap::ValueEnum;
use columns::{Column, Format, in_file};
use device::DeviceChoice;
use koel::file::{FileInfo, Types, Width};
use koel::map::{Key, Value};
use koel::{Device, DeviceKind, Error, Map, MapBuilder, MapOptions, MapReport};
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// Runs `koel build`. What can be refused is refused before anything is read.
pub fn run_build(global: &Global, args: BuildArgs) -> Outcome {
    if args.kind != Kind::Map {
        let kind = args.kind.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default();
        return Err(Failure::Usage(format!("--kind {kind}: there are no files of this kind yet, expected map")));
    }
    if !(0.3..=0.95).contains(&args.load) {
        return Err(Failure::Usage(format!("--load {}: expected 0.3 to 0.95", args.load)));
    }
    let json_file = json_file(global)?;
    output::check_writable(&args.out)?;
    let begin = Instant::now();
    let (keys, values) = pairs(&args)?;
    let keys = keys.of_width(args.key_type.map(Width::from), "key", &args.keys)?;
    let of_values = args.values.as_deref().unwrap_or(&args.keys);
    let values = values.of_width(args.value_type.map(Width::from), "value", of_values)?;
    if keys.len() != values.len() {
        return Err(in_file(
            of_values,
            format_args!("{} values, expected one for each of {} keys", values.len(), keys.len()),
        ));
    }
    let read_seconds = begin.elapsed().as_secs_f64();
    let device = device::open(global.device, global.threads)?.device;
    let build = Build { device, args: &args, seed: global.seed };
    let (report, [build_seconds, write_seconds]) = match (keys, values) {
        (Column::U32(keys), Column::U32(values)) => build.run(keys, values),
        (Column::U32(keys), Column::U64(values)) => build.run(keys, values),
        (Column::U64(keys), Column::U32(values)) => build.run(keys, values),
        (Column::U64(keys), Column::U64(values)) => build.run(keys, values),
    }?;
    let info = koel::file::info(&args.out)?;
    let built = Built {
        table: Table::of(&args.out, &info, "header"),
        device: build.device.name(),
        dropped: report.duplicates,
        seconds: Seconds { read: read_seconds, build: build_seconds, write: write_seconds },
    };
    say(global, json_file, &built, &built.text())
}
/// Keys and values, as they are in the files.
fn pairs(args: &BuildArgs) -> Outcome<(Column, Column)> {
    let format = Format::of(&args.keys)?;
    if let Some(side) = args.voxel_grid {
        if format != Format::Scan {
            return Err(in_file(&args.keys, "--voxel-grid goes with a point cloud or mesh"));
        }
        let keys = columns::voxels(&args.keys, side)?;
        let rows = Column::rows(keys.len());
        return Ok((keys, rows));
    }
    let value_column = args.value_column.as_ref();
    if args.values.is_none() && value_column.is_some() && format != Format::Csv {
        return Err(Failure::Usage("--value-column goes with a CSV file".into()));
    }
    let names = [&args.column].into_iter().chain(value_column.filter(|_| args.values.is_none())).collect::<Vec<_>>();
    let mut columns = columns::read(&args.keys, format, &names)?.into_iter();
    let keys = columns.next().unwrap_or(Column::U32(vec![]));
    let values = match (&args.values, columns.next()) {
        (Some(file), _) => {
            let name = value_column.unwrap_or(&columns::ColumnName::Number(1));
            columns::read(file, Format::of(file)?, &[name])?.pop()
        }
        (None, of_keys) => of_keys,
    };
    let values = values.unwrap_or_else(|| Column::rows(keys.len()));
    Ok((keys, values))
}

struct Build<'a> {
    device: Device,
    args: &'a BuildArgs,
    seed: u64,
}
impl Build<'_> {
    /// Builds and saves: how it went, and the seconds of both.
    fn run<K: Key, V: Value>(&self, keys: Vec<K>, values: Vec<V>) -> Outcome<(MapReport, [f64; 2])> {
        let Build { device, args, .. } = self;
        let begin = Instant::now();
        // Both halves of the seed count.
        let seed = (self.seed ^ self.seed >> 32) as u32;
        let options =
            MapOptions { load: args.load, duplicates: args.duplicates.into(), seed, reproducible: args.reproducible };
        let staged = (device.stage(&keys)?, device.stage(&values)?);
        let built = MapBuilder::new(device, options)?.build(&device.stream()?, staged.0.view(), staged.1.view());
        let map = built.map_err(|e| match e {
            Error::DuplicateKey { .. } | Error::TooMany { .. } => in_file(&args.keys, e),
            e => e.into(),
        })?;
        let built = begin.elapsed().as_secs_f64();
        output::write_with(&args.out, |file| map.save_to(file).map_err(|e| written(&args.out, e)))?;
        Ok((map.report()?, [built, begin.elapsed().as_secs_f64() - built]))
    }
}
/// What went wrong with a file that is written.
fn written(file: &Path, error: Error) -> Failure {
    match error {
        Error::File(e) => Failure::Other(format!("{}: {}", file.display(), e.kind)),
        e => e.into(),
    }
}
/// What went wrong with a file that is read.
fn table_fault(error: Error) -> Failure {
    match error {
        Error::File(e) => Failure::input(e),
        e => e.into(),
    }
}

/// Runs `koel query`.
pub fn run_query(global: &Global, args: QueryArgs) -> Outcome {
    let json_file = json_file(global)?;
    let format = Format::of(&args.queries)?;
    if format == Format::Scan {
        return Err(in_file(
            &args.queries,
            "a scan is no list of keys, expected a file named .u32, .u64, .npy or .csv",
        ));
    }
    if let Some(out) = &args.out {
        answers::check_name(out)?;
        output::check_writable(out)?;
    }
    let begin = Instant::now();
    let info = koel::file::info(&args.table).map_err(table_fault)?;
    let queries = columns::read(&args.queries, format, &[&args.column])?.pop().unwrap_or(Column::U32(vec![]));
    let device = match global.device {
        DeviceChoice::Cuda(ordinal) => Device::cuda(ordinal)?,
        DeviceChoice::Auto | DeviceChoice::Cpu => device::cpu(global.threads)?,
    };
    let read_seconds = begin.elapsed().as_secs_f64();
    let (answers, seconds) = match (info.types.key, info.types.value) {
        (Width::U32, Width::U32) => ask::<u32, u32>(&device, &args, info.types, &queries),
        (Width::U32, Width::U64) => ask::<u32, u64>(&device, &args, info.types, &queries),
        (Width::U64, Width::U32) => ask::<u64, u32>(&device, &args, info.types, &queries),
        (Width::U64, Width::U64) => ask::<u64, u64>(&device, &args, info.types, &queries),
    }?;
    if let Some(out) = &args.out {
        answers.write(out)?;
    }
    let report = Asked {
        table: args.table.display().to_string(),
        queries: queries.len(),
        found: answers.found.iter().filter(|&&found| found).count(),
        device: device.name(),
        out: args.out.as_ref().map(|out| out.display().to_string()),
        seconds: QuerySeconds { read: read_seconds, open: seconds[0], query: seconds[1] },
    };
    let rows = if args.out.is_none() { answers.first_rows() } else { String::new() };
    say(global, json_file, &report, &format!("{rows}{}", report.text()))
}
/// Opens the table and looks the queries up: the answers, and the seconds of both.
fn ask<'a, K: Key, V: Value>(
    device: &Device,
    args: &QueryArgs,
    types: Types,
    queries: &'a Column,
) -> Outcome<(Answers<'a>, [f64; 2])> {
    let begin = Instant::now();
    let map = if device.kind() == DeviceKind::Cpu {
        let map = Map::<K, V>::open_on(device, &args.table).map_err(table_fault)?;
        if !args.quick {
            map.verify().map_err(table_fault)?;
        }
        map
    } else {
        Map::<K, V>::load(device, &args.table).map_err(table_fault)?
    };
    let opened = begin.elapsed().as_secs_f64();
    // A query that is wider than the keys is in the table only if it fits them.
    let keys = (0..queries.len()).map(|i| K::narrowed(queries.get(i))).collect::<Vec<K>>();
    let answers = map.get(&keys)?.into_iter().zip(&keys).enumerate().map(|(i, (value, &key))| {
        let value = value.filter(|_| key.into() == queries.get(i));
        (value.is_some(), value.map_or(0, Into::into))
    });
    let (found, values) = answers.unzip();
    Ok((Answers { queries, found, values, types }, [opened, begin.elapsed().as_secs_f64() - opened]))
}

/// Runs `koel info`.
pub fn run_info(global: &Global, args: InfoArgs) -> Outcome {
    let json_file = json_file(global)?;
    let (info, checked) = match args.quick {
        true => (koel::file::info(&args.table), "header"),
        false => (koel::file::verify(&args.table), "all"),
    };
    let table = Table::of(&args.table, &info.map_err(table_fault)?, checked);
    say(global, json_file, &table, &table.text())
}

/// The file that the JSON goes to, if it is one.
fn json_file(global: &Global) -> Outcome<Option<&Path>> {
    let file = global.json.as_deref().filter(|file| *file != Path::new("-"));
    file.map_or(Ok(()), output::check_writable)?;
    Ok(file)
}
/// The report as JSON where that is wanted, and else for people.
fn say(global: &Global, json_file: Option<&Path>, report: &impl Serialize, text: &str) -> Outcome {
    if global.json.is_none() {
        return output::print(text);
    }
    let mut json = serde_json::to_string_pretty(report).map_err(|e| Failure::Other(format!("--json: {e}")))?;
    json.push('\n');
    match json_file {
        None => output::print(&json),
        Some(file) => {
            output::write_file(file, json.as_bytes())?;
            output::print(text)
        }
    }
}

/// A table file, for people and for programs.
#[derive(Serialize)]
struct Table {
    file: String,
    version: u32,
    kind: &'static str,
    key: String,
    value: String,
    pairs: usize,
    duplicates: usize,
    stashed: usize,
    seed: u32,
    partitions: u32,
    buckets: u32,
    slots: usize,
    load: f64,
    bytes: u64,
    /// all, header.
    checked: &'static str,
}
impl Table {
    fn of(file: &Path, info: &FileInfo, checked: &'static str) -> Table {
        Table {
            file: file.display().to_string(),
            version: info.version,
            kind: "map",
            key: info.types.key.to_string(),
            value: info.types.value.to_string(),
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
    fn text(&self) -> String {
        let n = output::thousands;
        let checked = if self.checked == "all" { "everything" } else { "the header only" };
        let lines = [
            ("kind", format!("{} of {} -> {}", self.kind, self.key, self.value)),
            ("pairs", format!("{}, {} with a key that came again were dropped", n(self.pairs), n(self.duplicates))),
            ("slots", format!("{}, load {:.3}, {} pairs in the stash", n(self.slots), self.load, n(self.stashed))),
            ("shape", format!("{} partitions of {} buckets", n(self.partitions as usize), n(self.buckets as usize))),
            ("seed", self.seed.to_string()),
            ("file", format!("{} bytes, format version {}, checked: {checked}", n(self.bytes as usize), self.version)),
        ];
        let lines = lines.map(|(name, value)| format!("{name:6} {value}\n")).concat();
        format!("{}\n{lines}", self.file)
    }
}

/// What `koel build` did.
#[derive(Serialize)]
struct Built {
    #[serde(flatten)]
    table: Table,
    device: String,
    #[serde(skip)]
    dropped: usize,
    seconds: Seconds,
}
#[derive(Serialize)]
struct Seconds {
    read: f64,
    build: f64,
    write: f64,
}
impl Built {
    fn text(&self) -> String {
        let (t, s, n) = (&self.table, &self.seconds, output::thousands);
        let dropped = match self.dropped {
            0 => String::new(),
            dropped => format!(", {} with a key that came again dropped", n(dropped)),
        };
        format!(
            "{}: {} of {} -> {}, {} pairs{dropped}, load {:.3}, {} bytes\nread {:.3} s, built {:.3} s on {}, written {:.3} s\n",
            t.file,
            t.kind,
            t.key,
            t.value,
            n(t.pairs),
            t.load,
            n(t.bytes as usize),
            s.read,
            s.build,
            self.device,
            s.write
        )
    }
}

/// What `koel query` found.
#[derive(Serialize)]
struct Asked {
    table: String,
    queries: usize,
    found: usize,
    device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<String>,
    seconds: QuerySeconds,
}
#[derive(Serialize)]
struct QuerySeconds {
    read: f64,
    open: f64,
    query: f64,
}
impl Asked {
    fn text(&self) -> String {
        let s = &self.seconds;
        let (found, queries) = (output::thousands(self.found), output::thousands(self.queries));
        format!(
            "{found} of {queries} keys found\nread {:.3} s, opened {:.3} s, looked up {:.3} s on {}\n",
            s.read, s.open, s.query, self.device
        )
    }
}
