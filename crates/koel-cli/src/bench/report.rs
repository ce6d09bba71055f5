//! Results as text: one block per set of keys and operation, fastest table first.
use super::args::policy_name;
use super::distinct;
use super::keys::KeysAbout;
use super::machine::Machine;
use super::measure::Limits;
use super::measure::Row;
use super::parameters;
use crate::output::thousands;
use anstyle::{AnsiColor, Style};
use koel::limits::RandomReads;
use koel_measure::Arrangement;
use std::fmt::Write;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const WRONG: Style = AnsiColor::Red.on_default().bold();

/// Headings and widths of the columns.
const COLUMNS: [(&str, usize); 8] = [
    ("load", 6),
    ("million/s", 10),
    ("min", 9),
    ("max", 9),
    ("bytes/pair", 11),
    ("of limit", 9),
    ("x sorted", 9),
    ("x hashbrown", 12),
];
const NAME_WIDTH: usize = 24;

/// Formats the results as styled text.
pub(super) fn text(
    machine: &Machine,
    keys: &[(usize, KeysAbout)],
    rows: &[Row],
    limits: &Limits,
    runs: usize,
    notes: &[String],
) -> String {
    let mut out = String::new();
    let cpu = machine.cpu.as_deref().map_or(String::new(), |cpu| format!(", {cpu}"));
    line(&mut out, format_args!("{BOLD}koel bench{BOLD:#} on {}{cpu}", machine.device));
    for (n, about) in keys {
        line(
            &mut out,
            format_args!("\n{BOLD}{} keys{BOLD:#}: {}", thousands(*n), about.description),
        );
        let here = rows
            .iter()
            .filter(|row| row.n == *n && row.repeats == about.repeats)
            .collect::<Vec<_>>();
        let policies = distinct(here.iter().map(|row| row.policy));
        let mut blocks = distinct(here.iter().map(|row| (row.op, row.batch, row.policy)));
        blocks.sort_by_key(|(op, batch, _)| (*op, *batch));
        for of in blocks {
            let mut block = here
                .iter()
                .copied()
                .filter(|row| (row.op, row.batch, row.policy) == of)
                .collect::<Vec<_>>();
            block.sort_by(|a, b| b.median().total_cmp(&a.median()));
            let (op, batch, policy) = of;
            let batch = batch.map(|batch| format!("{} per call", thousands(batch)));
            let policy = (policies.len() > 1 || about.repeats != Arrangement::Unique)
                .then_some(policy_name(policy));
            let which =
                [batch.as_deref(), policy].into_iter().flatten().collect::<Vec<_>>().join(", ");
            line(&mut out, format_args!(""));
            let mut name = op.name();
            if !which.is_empty() {
                line(&mut out, format_args!("{DIM}{name}, {which}{DIM:#}"));
                name.clear();
            }
            block_text(&mut out, &name, &block, rows);
        }
    }
    line(&mut out, format_args!(""));
    match rows.iter().all(|row| row.verified) {
        true => line(&mut out, format_args!("Every answer was verified.")),
        false => line(&mut out, format_args!("{WRONG}Answers were wrong: see below.{WRONG:#}")),
    }
    line(
        &mut out,
        format_args!("Rates: median, slowest and fastest of {runs} runs; fewer for slow rows."),
    );
    limits_text(&mut out, limits);
    for note in notes {
        let style = if note.starts_with("WRONG") { WRONG } else { DIM };
        line(&mut out, format_args!("{style}{note}{style:#}"));
    }
    out
}

fn limits_text(out: &mut String, Limits { reads, copies, host_copies }: &Limits) {
    if let (Some(read), Some(slow), Some(fast)) = (reads.first(), least(reads), most(reads)) {
        let (slow, fast, bytes) = (rate(slow), rate(fast), read.read_bytes);
        let range = if slow == fast { slow } else { format!("{slow} to {fast}") };
        line(
            out,
            format_args!(
                "Limit: {range} million random {bytes}-byte reads per second, by table size."
            ),
        );
    }
    if let Some(copies) = copies {
        line(out, format_args!("Copy: {:.1} GB/s, read and written.", copies.rates.median / 1e9));
    }
    if let Some(copies) = host_copies {
        line(
            out,
            format_args!(
                "Pinned memory: {:.1} GB/s to the device, {:.1} GB/s to the host.",
                copies.to_device.median / 1e9,
                copies.to_host.median / 1e9
            ),
        );
    }
}

fn block_text(out: &mut String, op: &str, block: &[&Row], rows: &[Row]) {
    let mut heading = format!("{op:NAME_WIDTH$}");
    for (name, width) in COLUMNS {
        let _ = write!(heading, "{name:>width$}");
    }
    line(out, format_args!("{DIM}{heading}{DIM:#}   "));
    for (i, row) in block.iter().enumerate() {
        let times =
            |table| row.times(table, rows).map_or("-".into(), |times| format!("{times:.2}"));
        let cells = [
            format!("{:.2}", row.load),
            row.rates.map_or("WRONG".into(), |r| rate(r.median)),
            row.rates.map_or("-".into(), |r| rate(r.min)),
            row.rates.map_or("-".into(), |r| rate(r.max)),
            format!("{:.1}", row.bytes_per_pair()),
            row.limit_ratio().map_or("-".into(), percent),
            times("sorted"),
            times("hashbrown"),
        ];
        let mut text = format!("{:NAME_WIDTH$}", row.table);
        for (cell, (_, width)) in cells.iter().zip(COLUMNS) {
            let _ = write!(text, "{cell:>width$}");
        }
        let style = match row.verified {
            false => WRONG,
            true if i == 0 => BOLD,
            true => Style::new(),
        };
        line(out, format_args!("{style}{text}{style:#}"));
        let asked = (!row.asked.is_empty()).then(|| parameters::listed(&row.asked));
        let below = [asked, stashed(row)].into_iter().flatten().collect::<Vec<String>>();
        if !below.is_empty() {
            line(out, format_args!("{DIM}  {}{DIM:#}", below.join("; ")));
        }
    }
}

/// Returns how many pairs are in the stash, if any are.
fn stashed(row: &Row) -> Option<String> {
    let stashed = row.report.stashed;
    let per_million = 1e6 * stashed as f64 / row.report.pairs.max(1) as f64;
    let per_million = thousands(per_million.round() as usize);
    (stashed > 0)
        .then(|| format!("{} pairs in the stash, {per_million} per million", thousands(stashed)))
}
/// Adds a line without trailing blanks.
fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.push_str(text.to_string().trim_end_matches(' '));
    out.push('\n');
}
fn least(reads: &[RandomReads]) -> Option<f64> {
    reads.iter().map(|r| r.rates.max).min_by(f64::total_cmp)
}
fn most(reads: &[RandomReads]) -> Option<f64> {
    reads.iter().map(|r| r.rates.max).max_by(f64::total_cmp)
}

/// Formats in millions per second, with three significant digits or all before the point.
fn rate(per_second: f64) -> String {
    let millions = per_second / 1e6;
    match millions {
        m if m >= 99.95 => thousands(m.round() as usize),
        m if m >= 9.995 => format!("{m:.1}"),
        m => format!("{m:.2}"),
    }
}
fn percent(ratio: f64) -> String {
    if ratio < 0.0995 {
        format!("{:.1} %", 100.0 * ratio)
    } else {
        format!("{:.0} %", 100.0 * ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0, 12, 123, 1234, 1_234_567].map(thousands),
            ["0", "12", "123", "1,234", "1,234,567"].map(String::from)
        );
        assert_eq!(
            [0.0, 0.0314, 0.0996, 1.234].map(percent),
            ["0.0 %", "3.1 %", "10 %", "123 %"].map(String::from)
        );
        assert_eq!(
            [1.0, 9.994e6, 9.996e6, 99.94e6, 99.96e6, 2.2575e10].map(rate),
            ["0.00", "9.99", "10.0", "99.9", "100", "22,575"].map(String::from)
        );
    }

    #[test]
    fn a_row_fits_100_columns() {
        let width = NAME_WIDTH + COLUMNS.iter().map(|(_, width)| width).sum::<usize>();
        assert!(width <= 100, "{width}");
    }
}
