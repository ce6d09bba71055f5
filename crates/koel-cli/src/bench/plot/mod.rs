//! Figures in the manner of the papers: rates against N, rates against load, or bars where neither varies.
mod bars;
pub mod chart;
pub mod svg;

use super::args::Op;
use super::contenders;
use super::keys::KeysAbout;
use super::machine::Machine;
use super::measure::Row;
use crate::failure::Outcome;
use crate::output;
use crate::output::thousands;
use bars::{Bar, Bars};
use chart::{Chart, Series};
use std::collections::BTreeSet;
use std::path::Path;

/// Okabe and Ito's colours, which people who see few colours can tell apart, and two more.
pub const COLORS: [&str; 9] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f4fc9", "#222222", "#8c564b"];
const LIMIT_COLOR: &str = "#777777";

/// Draws what the rows show into a folder, each figure as SVG and PNG; the names of the files, less their endings.
pub fn draw(folder: &Path, machine: &Machine, keys: &[(usize, KeysAbout)], rows: &[Row]) -> Outcome<Vec<String>> {
    let figures = figures(machine, keys, rows);
    for (name, svg) in &figures {
        output::write_file(&folder.join(format!("{name}.svg")), svg.as_bytes())?;
        output::write_file(&folder.join(format!("{name}.png")), &svg::png(svg)?)?;
    }
    Ok(figures.into_iter().map(|(name, _)| name).collect())
}

/// Names and drawings.
fn figures(machine: &Machine, keys: &[(usize, KeysAbout)], rows: &[Row]) -> Vec<(String, String)> {
    let rows = rows.iter().filter(|row| row.rates.is_some()).collect::<Vec<_>>();
    let counts = rows.iter().map(|row| row.n).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>();
    let ops = Op::ALL.into_iter().filter(|op| rows.iter().any(|row| row.op == *op)).collect::<Vec<_>>();
    let mut figures = vec![];
    for &op in &ops {
        let rows = rows.iter().copied().filter(|row| row.op == op).collect::<Vec<_>>();
        let loads = chosen_loads(&rows);
        if counts.len() > 1 {
            let groups = if loads.is_empty() { vec![None] } else { loads.iter().copied().map(Some).collect() };
            for load in groups {
                let at = load.map_or(String::new(), |load| format!("_load-{load}"));
                figures.push((
                    format!("rate-against-n_{}{at}", op.name()),
                    against_n(machine, keys, op, load, &counts, &rows),
                ));
            }
        }
        if loads.len() > 1 {
            for &n in &counts {
                let name = format!("rate-against-load_{}_n-{n}", op.name());
                figures.push((name, against_load(machine, keys, op, &loads, n, &rows)));
            }
        }
    }
    if figures.is_empty() && !rows.is_empty() {
        figures.push((format!("rates_n-{}", counts[0]), as_bars(machine, keys, &ops, &rows)));
    }
    figures
}

/// The loads asked for, if there are several.
fn chosen_loads(rows: &[&Row]) -> Vec<f64> {
    let mut loads = rows.iter().filter_map(|row| row.load_asked).collect::<Vec<_>>();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    loads
}
/// Whether this table has this one load only, whatever is asked for. Rows are of one operation.
fn is_fixed(row: &Row, rows: &[&Row]) -> bool {
    rows.iter().filter(|r| r.table == row.table && r.n == row.n).count() == 1
}

fn against_n(
    machine: &Machine,
    keys: &[(usize, KeysAbout)],
    op: Op,
    load: Option<f64>,
    counts: &[usize],
    rows: &[&Row],
) -> String {
    // At a load: the rows that have it, and those of tables whose load cannot be chosen.
    let is_here = |row: &&Row| load.is_none() || row.load_asked == load || is_fixed(row, rows);
    let here = rows.iter().copied().filter(is_here).collect::<Vec<_>>();
    let x = |n: usize| (n as f64).log2();
    let mut series = limit_series(machine, &here, |row| x(row.n)).into_iter().collect::<Vec<_>>();
    series.extend(table_series(&here, |row| x(row.n)));
    let at = load.map_or(String::new(), |load| format!(", load {load}"));
    Chart {
        title: format!("{}: {}{at}", op.name(), op.about()),
        subtitle: subtitle(machine, &keys[0].1),
        x_label: "N, number of keys (logarithmic)".into(),
        x_ticks: counts.iter().map(|&n| (x(n), count_name(n))).collect(),
        series,
    }
    .svg()
}

fn against_load(
    machine: &Machine,
    keys: &[(usize, KeysAbout)],
    op: Op,
    loads: &[f64],
    n: usize,
    rows: &[&Row],
) -> String {
    let here = rows.iter().copied().filter(|row| row.n == n).collect::<Vec<_>>();
    let chosen = here.iter().copied().filter(|row| !is_fixed(row, &here)).collect::<Vec<_>>();
    let mut series =
        limit_series(machine, &chosen, |row| row.load_asked.unwrap_or(row.load)).into_iter().collect::<Vec<_>>();
    for mut table in table_series(&here, |row| row.load) {
        // A load of its own: its rate as a level to compare with.
        if let [(_, rates)] = table.points[..] {
            table.points = loads.iter().map(|&load| (load, rates)).collect();
            table.dashed = true;
            let own = here.iter().find(|row| row.table == table.name).map_or(0.0, |row| row.load);
            table.name = format!("{} ({own:.2})", table.name);
        }
        series.push(table);
    }
    let about = keys.iter().find(|(count, _)| *count == n).map_or(&keys[0].1, |(_, about)| about);
    Chart {
        title: format!("{}: {}, N = {}", op.name(), op.about(), count_name(n)),
        subtitle: subtitle(machine, about),
        x_label: "load: pairs per slot".into(),
        x_ticks: loads.iter().map(|&load| (load, format!("{load}"))).collect(),
        series,
    }
    .svg()
}

fn as_bars(machine: &Machine, keys: &[(usize, KeysAbout)], ops: &[Op], rows: &[&Row]) -> String {
    let panel = |op: &Op| {
        let mut here = rows.iter().filter(|row| row.op == *op).collect::<Vec<_>>();
        here.sort_by(|a, b| median(b).total_cmp(&median(a)));
        let bar = |row: &&&Row| Bar {
            name: row.table.into(),
            color: color(row.table),
            rate: median(row),
            limit: row.limit_rate(),
        };
        (format!("{}: {}", op.name(), op.about()), here.iter().map(bar).collect())
    };
    Bars {
        title: format!("{} keys: {}", thousands(keys[0].0), keys[0].1.description),
        subtitle: device(machine),
        limit_name: format!("{}, from as much memory as the table takes", limit_name(machine)),
        panels: ops.iter().map(panel).collect(),
    }
    .svg()
}

/// A line for each table, in the order of the rows.
fn table_series(here: &[&Row], x: impl Fn(&Row) -> f64) -> Vec<Series> {
    let mut series: Vec<Series> = vec![];
    for row in here {
        let Some(rates) = row.rates else { continue };
        let point = (x(row), [rates.median, rates.min, rates.max]);
        match series.iter_mut().find(|s| s.name == row.table) {
            Some(series) => series.points.push(point),
            None => series.push(Series {
                name: row.table.into(),
                color: color(row.table),
                points: vec![point],
                dashed: false,
            }),
        }
    }
    series
}

/// The limit of the smallest table at each x: what no lookup that reads memory once can pass.
fn limit_series(machine: &Machine, rows: &[&Row], x: impl Fn(&Row) -> f64) -> Option<Series> {
    let mut points: Vec<(f64, [f64; 3])> = vec![];
    for row in rows {
        let Some(rate) = row.limit_rate() else { continue };
        let x = x(row);
        match points.iter_mut().find(|(at, _)| *at == x) {
            Some((_, greatest)) if greatest[0] < rate => *greatest = [rate; 3],
            Some(_) => {}
            None => points.push((x, [rate; 3])),
        }
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let name = limit_name(machine);
    (!points.is_empty()).then_some(Series { name, color: LIMIT_COLOR, points, dashed: true })
}
fn limit_name(machine: &Machine) -> String {
    format!("random {}-byte reads", if machine.kind == "cuda" { 32 } else { 64 })
}

/// Each table has its colour, whichever others are drawn; the main ones have different ones.
fn color(table: &str) -> &'static str {
    COLORS[contenders::place_of(table) % COLORS.len()]
}
fn median(row: &Row) -> f64 {
    row.rates.map_or(0.0, |rates| rates.median)
}
fn subtitle(machine: &Machine, keys: &KeysAbout) -> String {
    format!("{}; {}", keys.description, device(machine))
}
fn device(machine: &Machine) -> String {
    let cpu = machine.cpu.as_deref().filter(|_| machine.kind == "cpu").map_or(String::new(), |cpu| format!(", {cpu}"));
    format!("{}{cpu}", machine.device)
}
/// A power of two as such.
fn count_name(n: usize) -> String {
    let superscript = |digit: char| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit.to_digit(10).unwrap_or(0) as usize);
    match n.is_power_of_two() {
        true => format!("2{}", n.ilog2().to_string().chars().filter_map(superscript).collect::<String>()),
        false => thousands(n),
    }
}
