//! `koel query`: streams queries to a table and the answers to a file.
use super::answers::{self, Answers, Fields, Row};
use super::args::QueryArgs;
use super::column::{Column, collected};
use super::columns::{Account, Input};
use super::faults::in_file;
use super::format::Format;
use super::selection::Selection;
use super::{check_header, check_table, json_file, say, table_fault, tell, write_json};
use crate::apart::Files;
use crate::device::{self, DeviceChoice};
use crate::failure::{Failure, Outcome};
use crate::{Global, output};
use koel::file::{FileInfo, TableKind, Width};
use koel::types::{KeyBits, ValueBits};
use koel::{Device, DeviceKind, Index, Map, Map128, MultiMap, Set, Set128};
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// Queries per lookup.
const PIECE: usize = 1 << 20;
/// Maximum number of values retrieved from a multimap at a time, unless a single key has more.
const MAX_VALUES: u64 = 1 << 22;

/// Runs `koel query`.
pub(crate) fn run_query(global: &Global, args: QueryArgs) -> Outcome {
    let inputs = Files::default().reads("TABLE", &args.table).reads("QUERIES", &args.queries);
    inputs
        .writes("--out", args.out.as_deref())
        .writes_json(global.json.as_deref())
        .check_apart()?;
    check_table(&args.table)?;
    let json_file = json_file(global)?;
    let format = Format::of(&args.queries, args.format)?;
    if format == Format::Scan {
        return Err(in_file(
            &args.queries,
            "a scan is not a list of keys, expected a file named .u32, .u64, .u128, .npy, .csv or \
             .tsv",
        ));
    }
    let header = check_header(args.header, args.format, &[&args.queries])?;
    let to_standard_output = args.out.as_deref().is_some_and(output::is_standard_output);
    if let Some(out) = &args.out {
        answers::check_name(out)?;
        output::check_writable(out)?;
    }
    let info = koel::file::info(&args.table).map_err(table_fault)?;
    if args.ids && !matches!(info.kind, TableKind::Index | TableKind::Index128) {
        return Err(in_file(
            &args.table,
            format_args!("holds {}, --ids requires an index", info.kind),
        ));
    }
    if matches!(info.kind, TableKind::StringSet | TableKind::StringMap | TableKind::StringIndex) {
        let fault = format_args!("holds {}, expected a table of numbers", info.kind);
        return Err(in_file(&args.table, fault));
    }
    let wide = info.types.key == Width::U128 && !args.ids;
    let names = [&args.column];
    let selection = Selection { names: &names, wide, header, with_gaps: false };
    let mut input = Input::open(&args.queries, format, selection)?;
    let device = match global.device {
        DeviceChoice::Cuda(ordinal) => Device::cuda(ordinal)?,
        DeviceChoice::Auto | DeviceChoice::Cpu => device::cpu(global.threads)?,
    };
    let begin = Instant::now();
    let table = table(&device, &args, &info)?;
    let mut asked = Asked {
        table: args.table.display().to_string(),
        queries: 0,
        found: 0,
        rows: 0,
        device: device.name(),
        out: args.out.as_ref().map(|out| out.display().to_string()),
        inputs: vec![],
        notes: vec![],
        seconds: Seconds { open: begin.elapsed().as_secs_f64(), ..Seconds::default() },
    };
    let fields = fields(&args, &info, input.width());
    let mut shown = String::new();
    match &args.out {
        None => shown = asked.all(&mut input, &*table, Answers::shown(fields))?,
        Some(out) => output::write_with(out, |file| {
            let answers = Answers::written(fields, file, out)?;
            asked.all(&mut input, &*table, answers).map(|_| ())
        })?,
    }
    let account = input.account();
    drop(input);
    tell(&account.notes);
    asked.notes.clone_from(&account.notes);
    asked.inputs.push(account);
    let text = asked.text(info.kind);
    if to_standard_output {
        output::say(text.trim_end());
        return json_file.map_or(Ok(()), |file| write_json(file, &asked));
    }
    say(global, json_file, &asked, &format!("{shown}{text}"))
}
/// Returns the fields of the rows.
fn fields(args: &QueryArgs, info: &FileInfo, queries: Width) -> Fields {
    let value = info.types.value.unwrap_or(Width::U32);
    let (query, answer) = match info.kind {
        TableKind::Set | TableKind::Set128 | TableKind::StringSet => ("key", None),
        TableKind::Index | TableKind::Index128 if args.ids => ("id", Some(("key", info.types.key))),
        TableKind::Index | TableKind::Index128 | TableKind::StringIndex => {
            ("key", Some(("id", value)))
        }
        TableKind::Map | TableKind::MultiMap | TableKind::Map128 | TableKind::StringMap => {
            ("key", Some(("value", value)))
        }
    };
    Fields { query: (query, queries), answer }
}

/// Lookup in an open table: adds the rows for a column of queries to the answers, and returns the
/// number found.
type Ask = dyn Fn(&Column, &mut Answers) -> Outcome<u64>;
/// Opens the table.
fn table(device: &Device, args: &QueryArgs, info: &FileInfo) -> Outcome<Box<Ask>> {
    let open = Open { device, args };
    match (info.kind, info.types.key, info.types.value) {
        (TableKind::Set128, ..) => open.set128(),
        (TableKind::Index128, ..) => open.index128(),
        (TableKind::Map128, _, Some(Width::U64)) => open.map128::<u64>(),
        (TableKind::Map128, ..) => open.map128::<u32>(),
        (TableKind::Set, Width::U32, _) => open.set::<u32>(),
        (TableKind::Set, ..) => open.set::<u64>(),
        (TableKind::Index, Width::U32, _) => open.index::<u32>(),
        (TableKind::Index, ..) => open.index::<u64>(),
        (_, Width::U32, Some(Width::U64)) => open.pairs::<u32, u64>(info.kind),
        (_, _, Some(Width::U64)) => open.pairs::<u64, u64>(info.kind),
        (_, Width::U32, _) => open.pairs::<u32, u32>(info.kind),
        (_, _, _) => open.pairs::<u64, u32>(info.kind),
    }
}
/// Loads or opens a table of a given type.
macro_rules! opened {
    ($open:ident, $table:ty) => {
        $open.table(
            |device, path| <$table>::load(device, path),
            // SAFETY: the help of `--quick` requires that nobody changes the file meanwhile.
            |device, path| unsafe { <$table>::open_on(device, path) },
        )?
    };
}
struct Open<'a> {
    device: &'a Device,
    args: &'a QueryArgs,
}
impl Open<'_> {
    /// Loads and checks a copy of the table. With `--quick` on a CPU, uses the file in place.
    fn table<T>(
        &self,
        load: impl FnOnce(&Device, &Path) -> koel::Result<T>,
        open: impl FnOnce(&Device, &Path) -> koel::Result<T>,
    ) -> Outcome<T> {
        let in_file = self.args.quick && self.device.kind() == DeviceKind::Cpu;
        let table = &self.args.table;
        if in_file { open(self.device, table) } else { load(self.device, table) }
            .map_err(table_fault)
    }
    fn set<K: KeyBits>(&self) -> Outcome<Box<Ask>> {
        let set = opened!(self, Set<K>);
        Ok(Box::new(move |queries, answers| {
            let keys = keys::<K>(queries)?;
            let found = set.contains(&keys)?.into_iter().map(|found| found.then_some(0));
            one_each(queries, &keys, found, answers)
        }))
    }
    fn index<K: KeyBits>(&self) -> Outcome<Box<Ask>> {
        let index = opened!(self, Index<K>);
        if self.args.ids {
            return Ok(Box::new(move |queries, answers| {
                let ids = keys::<u32>(queries)?;
                let found = index.keys_of(&ids)?.into_iter().map(|key| key.map(Into::into));
                one_each(queries, &ids, found, answers)
            }));
        }
        Ok(Box::new(move |queries, answers| {
            let keys = keys::<K>(queries)?;
            let found = index.ids(&keys)?.into_iter().map(|id| id.map(Into::into));
            one_each(queries, &keys, found, answers)
        }))
    }
    fn set128(&self) -> Outcome<Box<Ask>> {
        let set = opened!(self, Set128);
        Ok(Box::new(move |queries, answers| {
            let keys = keys128(queries)?;
            let found = set.contains(&keys)?.into_iter().map(|found| found.then_some(0));
            one_each(queries, &keys, found, answers)
        }))
    }
    fn index128(&self) -> Outcome<Box<Ask>> {
        let index = opened!(self, Index<u128>);
        if self.args.ids {
            return Ok(Box::new(move |queries, answers| {
                let ids = keys::<u32>(queries)?;
                one_each(queries, &ids, index.keys_of(&ids)?.into_iter(), answers)
            }));
        }
        Ok(Box::new(move |queries, answers| {
            let keys = keys128(queries)?;
            let found = index.ids(&keys)?.into_iter().map(|id| id.map(Into::into));
            one_each(queries, &keys, found, answers)
        }))
    }
    fn map128<V: ValueBits>(&self) -> Outcome<Box<Ask>> {
        let map = opened!(self, Map128<V>);
        Ok(Box::new(move |queries, answers| {
            let keys = keys128(queries)?;
            let found = map.get(&keys)?.into_iter().map(|value| value.map(wide));
            one_each(queries, &keys, found, answers)
        }))
    }
    fn pairs<K: KeyBits, V: ValueBits>(&self, kind: TableKind) -> Outcome<Box<Ask>> {
        if kind == TableKind::MultiMap {
            let map = opened!(self, MultiMap<K, V>);
            return Ok(Box::new(move |queries, answers| all_values(&map, queries, answers)));
        }
        let map = opened!(self, Map<K, V>);
        Ok(Box::new(move |queries, answers| {
            let keys = keys::<K>(queries)?;
            let found = map.get(&keys)?.into_iter().map(|value| value.map(wide));
            one_each(queries, &keys, found, answers)
        }))
    }
}
/// Converts queries to keys. Queries wider than the key type are in no table; [`is_key`] rejects
/// them.
fn keys<K: KeyBits>(queries: &Column) -> Outcome<Vec<K>> {
    converted(queries, |query| K::narrowed(query as u64))
}
fn keys128(queries: &Column) -> Outcome<Vec<u128>> {
    converted(queries, |query| query)
}
fn converted<K>(queries: &Column, key: impl Fn(u128) -> K) -> Outcome<Vec<K>> {
    let n = queries.len();
    collected((0..n).map(|i| key(queries.get(i))))
        .map_err(|_| Failure::Other(format!("out of memory for {n} queries")))
}
fn wide<V: ValueBits>(value: V) -> u128 {
    Into::<u64>::into(value).into()
}
fn is_key<K: Into<u128>>(key: K, query: u128) -> bool {
    key.into() == query
}
/// Adds one row per query.
fn one_each<K: Copy + Into<u128>>(
    queries: &Column,
    keys: &[K],
    found: impl Iterator<Item = Option<u128>>,
    answers: &mut Answers,
) -> Outcome<u64> {
    let mut all = 0;
    for ((i, &key), answer) in keys.iter().enumerate().zip(found) {
        let query = queries.get(i);
        let answer = answer.filter(|_| is_key(key, query));
        all += u64::from(answer.is_some());
        answers.add(Row { query, found: answer.is_some(), answer: answer.unwrap_or(0) })?;
    }
    Ok(all)
}
/// Adds one row per value, and one for each query without values.
fn all_values<K: KeyBits, V: ValueBits>(
    map: &MultiMap<K, V>,
    queries: &Column,
    answers: &mut Answers,
) -> Outcome<u64> {
    let keys = keys::<K>(queries)?;
    let counts = map.counts(&keys)?;
    let (mut all, mut first) = (0, 0);
    while first < keys.len() {
        // As many queries as memory has room for their values.
        let mut values = 0;
        let more = counts[first + 1..].iter().take_while(|&&count| {
            values += u64::from(count);
            u64::from(counts[first]) + values <= MAX_VALUES
        });
        let part = first..first + 1 + more.count();
        let found = map.retrieve(&keys[part.clone()])?;
        for (i, at) in part.clone().enumerate() {
            let query = queries.get(at);
            let values = if is_key(keys[at], query) { found.of(i) } else { &[] };
            all += u64::from(!values.is_empty());
            if values.is_empty() {
                answers.add(Row { query, found: false, answer: 0 })?;
            }
            values.iter().try_for_each(|&value| {
                answers.add(Row { query, found: true, answer: wide(value) })
            })?;
        }
        first = part.end;
    }
    Ok(all)
}

/// Report of `koel query`.
#[derive(Serialize)]
struct Asked {
    table: String,
    queries: u64,
    found: u64,
    /// Rows of the answers.
    rows: u64,
    device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<String>,
    inputs: Vec<Account>,
    notes: Vec<String>,
    seconds: Seconds,
}
#[derive(Serialize, Default)]
struct Seconds {
    read: f64,
    open: f64,
    /// Includes writing the answers.
    query: f64,
}
impl Asked {
    /// Runs all queries. Returns the text to show.
    fn all(&mut self, input: &mut Input, table: &Ask, mut answers: Answers) -> Outcome<String> {
        loop {
            let begin = Instant::now();
            let mut queries = input.columns(PIECE)?;
            input.read(&mut queries, PIECE)?;
            let queries = queries.pop().unwrap_or(Column::U32(vec![]));
            self.seconds.read += begin.elapsed().as_secs_f64();
            if queries.len() == 0 {
                break;
            }
            let begin = Instant::now();
            self.found += table(&queries, &mut answers)?;
            self.queries += queries.len() as u64;
            self.seconds.query += begin.elapsed().as_secs_f64();
        }
        self.rows = answers.rows;
        answers.finish()
    }
    fn text(&self, kind: TableKind) -> String {
        let (s, n) = (&self.seconds, |n: u64| output::thousands(n as usize));
        let values = self.rows - (self.queries - self.found);
        let values = if kind == TableKind::MultiMap {
            format!(", {} values", n(values))
        } else {
            String::new()
        };
        let inputs = self.inputs.iter().map(Account::text).collect::<String>();
        format!(
            "{} of {} keys found{values}\n\
             {inputs}read {:.3} s, opened {:.3} s, looked up {:.3} s on {}\n",
            n(self.found),
            n(self.queries),
            s.read,
            s.open,
            s.query,
            self.device
        )
    }
}
