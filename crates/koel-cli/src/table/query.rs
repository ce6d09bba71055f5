//! `koel query`: streams queries to a table and the answers to a file.
use super::answers::{self, Answers, Fields, Row};
use super::args::QueryArgs;
use super::column::{Cell, Column};
use super::columns::{Account, Input};
use super::faults::in_file;
use super::format::Format;
use super::selection::Selection;
use super::{check_header, check_table, table_fault, tell, write_json};
use crate::apart::Files;
use crate::device::{self, DeviceChoice};
use crate::failure::{Failure, Outcome};
use crate::{Global, output};
use koel::any::{ColumnVec, DataType, Kind, Retrieved, Table, Validity};
use koel::file::{FileInfo, Width};
use koel::{Device, DeviceKind, NO_ID};
use serde::Serialize;
use std::ops::Range;
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
    let json_file = global.json_file();
    json_file.map_or(Ok(()), output::check_writable)?;
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
    let info = table_info(&args)?;
    let kind = Kind::from(info.kind);
    let wide = info.types.key == Width::U128 && !args.ids;
    let names = [&args.column];
    let strings = info.meaning.key() == "bytes" && !args.ids;
    if strings && !format.is_csv() {
        let fault = format_args!("the table holds {}, expected a CSV file", info.kind);
        return Err(in_file(&args.queries, fault));
    }
    let selection = Selection { names: &names, wide, strings, header, with_gaps: false };
    let mut input = Input::open(&args.queries, format, selection)?;
    let device = match global.device {
        DeviceChoice::Cuda(ordinal) => Device::cuda(ordinal)?,
        DeviceChoice::Auto | DeviceChoice::Cpu => device::cpu(global.threads)?,
    };
    let begin = Instant::now();
    let table = match args.quick && device.kind() == DeviceKind::Cpu {
        // SAFETY: the help of `--quick` requires that nobody changes the file meanwhile.
        true => unsafe { Table::open_on(&device, &args.table) },
        false => Table::load(&device, &args.table),
    };
    let table = Queried { table: table.map_err(table_fault)?, by_ids: args.ids };
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
    let fields = fields(kind, args.ids, &info, input.width());
    args.out.as_deref().map_or(Ok(()), |out| fields.check_file(out))?;
    let mut shown = String::new();
    match &args.out {
        None => shown = asked.all(&mut input, &table, Answers::shown(fields))?,
        Some(out) => output::write_with(out, |file| {
            let answers = Answers::written(fields, file, out)?;
            asked.all(&mut input, &table, answers).map(|_| ())
        })?,
    }
    let account = input.account();
    drop(input);
    tell(&account.notes);
    asked.notes.clone_from(&account.notes);
    asked.inputs.push(account);
    let text = asked.text(kind);
    if to_standard_output {
        output::say(text.trim_end());
        return json_file.map_or(Ok(()), |file| write_json(file, &asked));
    }
    output::result(global, &asked, &format!("{shown}{text}"))
}
/// Returns what the table's file holds. Errors: what cannot be asked in this way.
fn table_info(args: &QueryArgs) -> Outcome<FileInfo> {
    let info = koel::file::info(&args.table).map_err(table_fault)?;
    if args.ids && Kind::from(info.kind) != Kind::Index {
        return Err(in_file(
            &args.table,
            format_args!("holds {}, --ids requires an index", info.kind),
        ));
    }
    let mut types = [Some(info.meaning.key()), info.meaning.value()].into_iter().flatten();
    if types.any(|name| !matches!(name, "u32" | "u64" | "u128" | "bytes")) {
        let fault = format_args!(
            "holds {} of {}, expected keys and values of u32, u64, u128 or bytes",
            info.kind, info.meaning
        );
        return Err(in_file(&args.table, fault));
    }
    Ok(info)
}
/// Returns the fields of the rows.
fn fields(kind: Kind, by_ids: bool, info: &FileInfo, queries: Option<Width>) -> Fields {
    let of = |name: &str, width| Some(width).filter(|_| name != "bytes");
    let value = info.types.value.unwrap_or(Width::U32);
    let value = of(info.meaning.value().unwrap_or(""), value);
    let (query, answer) = match kind {
        Kind::Set => ("key", None),
        Kind::Index if by_ids => ("id", Some(("key", of(info.meaning.key(), info.types.key)))),
        Kind::Index => ("key", Some(("id", value))),
        Kind::Map | Kind::MultiMap => ("key", Some(("value", value))),
    };
    Fields { query: (query, queries), answer }
}

/// A table that is queried, by its keys or by the ids of an index.
struct Queried {
    table: Table,
    by_ids: bool,
}
impl Queried {
    /// Adds the rows for a column of queries to the answers, and returns the number found. Queries
    /// that exceed the type of the keys are in no table.
    fn ask(&self, queries: &Column, answers: &mut Answers) -> Outcome<u64> {
        let (table, n) = (&self.table, queries.len());
        let width = match table.key_types()?[..] {
            [DataType::U32] => Width::U32,
            _ if self.by_ids => Width::U32,
            [DataType::U64] => Width::U64,
            _ => Width::U128,
        };
        let fitted = queries.fitted(width);
        let (keys, fits) =
            fitted.map_err(|_| Failure::Other(format!("out of memory for {n} queries")))?;
        let of_rows = |rows: Range<usize>| {
            keys.rows(rows.clone())?.with_validity(Validity::Flags(&fits[rows]))
        };
        let all = of_rows(0..n)?;
        match (table.kind(), &*keys) {
            // The greatest number is no id.
            (_, Column::U32(ids)) if self.by_ids => {
                one_each(queries, cell(&table.keys_of(ids)?[0]), answers)
            }
            (Kind::Map, _) => one_each(queries, cell(&table.get(&all)?), answers),
            (Kind::Set, _) => {
                let found = table.contains(&all)?;
                one_each(queries, |i| found[i].then_some(Cell::Number(0)), answers)
            }
            (Kind::Index, _) => {
                let ids = table.ids(&all)?;
                let id = |i: usize| (ids[i] != NO_ID).then_some(Cell::Number(ids[i].into()));
                one_each(queries, id, answers)
            }
            (Kind::MultiMap, _) => {
                let counts = table.counts(&all)?;
                let retrieve = |rows| table.retrieve(&of_rows(rows)?);
                all_values(queries, &counts, retrieve, answers)
            }
        }
    }
}
/// Returns a column as a function; it returns `None` for null.
fn cell<'a>(column: &'a ColumnVec) -> impl Fn(usize) -> Option<Cell<'a>> {
    let column = column.as_column();
    let (of_32, of_64, of_128) = (column.values(), column.values(), column.values());
    let strings = column.bytes();
    move |i| {
        if column.is_null(i) {
            return None;
        }
        match (&of_32, &of_64, &of_128) {
            (Ok(numbers), ..) => Some(Cell::Number(u32::into(numbers[i]))),
            (_, Ok(numbers), _) => Some(Cell::Number(u64::into(numbers[i]))),
            (.., Ok(numbers)) => Some(Cell::Number(u128::into(numbers[i]))),
            _ => strings.as_ref().ok().and_then(|strings| strings.get(i)).map(Cell::String),
        }
    }
}
/// Adds one row per query.
fn one_each<'a>(
    queries: &Column,
    answer: impl Fn(usize) -> Option<Cell<'a>>,
    answers: &mut Answers,
) -> Outcome<u64> {
    let mut all = 0;
    for i in 0..queries.len() {
        let answer = answer(i);
        all += u64::from(answer.is_some());
        answers.add(Row { query: queries.get(i), answer })?;
    }
    Ok(all)
}
/// Adds one row per value, and one for each query without values.
fn all_values(
    queries: &Column,
    counts: &[u32],
    retrieve: impl Fn(Range<usize>) -> koel::Result<Retrieved>,
    answers: &mut Answers,
) -> Outcome<u64> {
    let (mut all, mut first) = (0, 0);
    while first < counts.len() {
        // As many queries as memory has room for their values.
        let mut values = 0;
        let more = counts[first + 1..].iter().take_while(|&&count| {
            values += u64::from(count);
            u64::from(counts[first]) + values <= MAX_VALUES
        });
        let part = first..first + 1 + more.count();
        let found = retrieve(part.clone())?;
        let value = cell(&found.values);
        for (i, at) in part.clone().enumerate() {
            let (query, values) = (queries.get(at), found.of(i));
            all += u64::from(!values.is_empty());
            if values.is_empty() {
                answers.add(Row { query, answer: None })?;
            }
            for value in values.filter_map(&value) {
                answers.add(Row { query, answer: Some(value) })?;
            }
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
    fn all(&mut self, input: &mut Input, table: &Queried, mut answers: Answers) -> Outcome<String> {
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
            self.found += table.ask(&queries, &mut answers)?;
            self.queries += queries.len() as u64;
            self.seconds.query += begin.elapsed().as_secs_f64();
        }
        self.rows = answers.rows;
        answers.finish()
    }
    fn text(&self, kind: Kind) -> String {
        let (s, n) = (&self.seconds, |n: u64| output::thousands(n as usize));
        let values = self.rows - (self.queries - self.found);
        let values =
            if kind == Kind::MultiMap { format!(", {} values", n(values)) } else { String::new() };
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
