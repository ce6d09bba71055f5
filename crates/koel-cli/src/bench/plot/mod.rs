//! Figures in the style of the papers: rates against what varies, or bars if nothing does.
mod bars;
pub(crate) mod chart;
pub(crate) mod svg;

use super::args::{Op, policy_name};
use super::contenders;
use super::keys::KeysAbout;
use super::machine::Machine;
use super::measure::Row;
use super::peers::Peers;
use crate::failure::Outcome;
use crate::output;
use crate::output::thousands;
use bars::{Bar, Bars};
use chart::{Chart, Marks, Series};
use koel::Duplicates;
use koel_measure::Arrangement;
use std::path::Path;

/// Okabe and Ito's colour-blind-safe colours, and two more.
pub(crate) const COLORS: [&str; 9] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f4fc9", "#222222",
    "#8c564b",
];
const LIMIT_COLOR: &str = "#777777";

/// Draws the rows into a folder, each figure as SVG and PNG. Returns the file names without
/// extension.
pub(crate) fn draw(
    folder: &Path,
    machine: &Machine,
    keys: &[(usize, KeysAbout)],
    rows: &[Row],
    peers: Option<&Peers>,
) -> Outcome<Vec<String>> {
    let rows = rows.iter().filter(|row| row.rates.is_some()).collect::<Vec<_>>();
    let figures = Sheet { machine, keys, peers }.figures(&rows);
    for (name, svg) in &figures {
        output::write_file(&folder.join(format!("{name}.svg")), svg.as_bytes())?;
        output::write_file(&folder.join(format!("{name}.png")), &svg::png(svg)?)?;
    }
    Ok(figures.into_iter().map(|(name, _)| name).collect())
}

/// Data shared by all figures.
struct Sheet<'a> {
    machine: &'a Machine,
    keys: &'a [(usize, KeysAbout)],
    peers: Option<&'a Peers>,
}
/// File name and drawing.
type Figure = (String, String);

impl Sheet<'_> {
    fn figures(&self, rows: &[&Row]) -> Vec<Figure> {
        let mut figures = vec![];
        let (batches, repeats) =
            (distinct(rows, |row| row.batch), distinct(rows, |row| row.repeats));
        let mut groups = distinct(rows, |row| (row.op, row.batch, row.repeats));
        groups.sort_by_key(|(op, batch, _)| (*op, *batch));
        for (op, batch, of_keys) in groups {
            let here = only(rows, |row| (row.op, row.batch, row.repeats) == (op, batch, of_keys));
            let batch = batch.filter(|_| batches.len() > 1).map(|batch| format!("_batch-{batch}"));
            let of_keys = (repeats.len() > 1).then(|| format!("_{of_keys}"));
            let which = [batch, of_keys].into_iter().flatten().collect::<String>();
            figures.extend(self.against_n(op, &which, &here));
            figures.extend(self.against_load(op, &which, &here));
        }
        for (op, of_keys) in distinct(rows, |row| (row.op, row.repeats)) {
            let here =
                only(rows, |row| (row.op, row.repeats) == (op, of_keys) && row.batch.is_some());
            let which = if repeats.len() > 1 { format!("_{of_keys}") } else { String::new() };
            figures.extend(self.against_batch(op, &which, &here));
        }
        for (batch, of_keys) in distinct(rows, |row| (row.batch, row.repeats)) {
            let here = only(rows, |row| {
                (row.batch, row.repeats) == (batch, of_keys)
                    && !row.op.is_build()
                    && !row.op.is_of_host()
            });
            let batch = batch.filter(|_| batches.len() > 1).map(|batch| format!("_batch-{batch}"));
            let of_keys = (repeats.len() > 1).then(|| format!("_{of_keys}"));
            figures.extend(
                self.against_share(
                    &[batch, of_keys].into_iter().flatten().collect::<String>(),
                    &here,
                ),
            );
        }
        if repeats.len() > 1 {
            figures.extend(self.against_repeats(rows));
        }
        if figures.is_empty() && !rows.is_empty() {
            figures.push((format!("rates_n-{}", rows[0].n), self.as_bars(rows)));
        }
        figures
    }

    /// Draws one figure per load.
    fn against_n(&self, op: Op, which: &str, rows: &[&Row]) -> Vec<Figure> {
        let mut counts = distinct(rows, |row| row.n);
        counts.sort_unstable();
        let [first, .., last] = counts[..] else { return vec![] };
        let x = |row: &Row| (row.n as f64).log2();
        let draw = |load: Option<f64>| {
            let here = at_load(rows, load);
            // Peers at the load of koel's map if it is measured, else at the loads of all tables.
            let loads = only(&here, |row| row.table == "map");
            let loads = distinct(if loads.is_empty() { &here } else { &loads }, |row| row.load);
            let is_beside = |n: usize, load: f64| {
                (first..=last).contains(&n) && loads.iter().any(|l| (l - load).abs() < 0.005)
            };
            let marks = self.marks(op, rows[0], is_beside, |n, _| (n as f64).log2());
            let chart = Chart {
                title: format!("{}: {}{}", op.name(), op.about(), of_load(load)),
                subtitle: self.subtitle(rows[0]),
                x_label: "N, number of keys (logarithmic)".into(),
                x_ticks: counts.iter().map(|&n| ((n as f64).log2(), count_name(n))).collect(),
                log: are_far(marks.as_ref(), &here),
                series: self
                    .limit_series(&here, x)
                    .into_iter()
                    .chain(table_series(&here, x))
                    .collect(),
                marks,
            };
            (format!("rate-against-n_{}{}{which}", op.name(), at_load_name(load)), chart.svg())
        };
        loads_of(rows).into_iter().map(draw).collect()
    }

    /// Draws one figure per number of keys.
    fn against_load(&self, op: Op, which: &str, rows: &[&Row]) -> Vec<Figure> {
        let loads = chosen_loads(rows);
        let [first, .., last] = loads[..] else { return vec![] };
        let draw = |n: usize| {
            let here = only(rows, |row| row.n == n);
            let chosen = only(&here, |row| !is_fixed(row, &here));
            let limit = self.limit_series(&chosen, |row| row.load_asked.unwrap_or(row.load));
            let mut series = limit.into_iter().collect::<Vec<_>>();
            for mut table in table_series(&here, |row| row.load) {
                // A table with a fixed load: its rate becomes a level for comparison.
                if let [(own, rates)] = table.points[..] {
                    table.points = loads.iter().map(|&load| (load, rates)).collect();
                    table.dashed = true;
                    table.name = format!("{} ({own:.2})", table.name);
                }
                series.push(table);
            }
            let is_beside =
                |of: usize, load: f64| of == n && (first - 0.005..=last + 0.005).contains(&load);
            let marks = self.marks(op, here[0], is_beside, |_, load| load);
            let chart = Chart {
                title: format!("{}: {}, N = {}", op.name(), op.about(), count_name(n)),
                subtitle: self.subtitle(here[0]),
                x_label: "load: pairs per slot".into(),
                x_ticks: loads.iter().map(|&load| (load, format!("{load}"))).collect(),
                log: are_far(marks.as_ref(), &here),
                series,
                marks,
            };
            (format!("rate-against-load_{}_n-{n}{which}", op.name()), chart.svg())
        };
        distinct(rows, |row| row.n).into_iter().map(draw).collect()
    }

    /// Draws one figure per number of keys and load.
    fn against_batch(&self, op: Op, which: &str, rows: &[&Row]) -> Vec<Figure> {
        let x = |row: &Row| (row.batch.unwrap_or(row.n) as f64).log2();
        let draw = |(n, load): (usize, Option<f64>)| {
            let here = at_load(&only(rows, |row| row.n == n), load);
            let mut batches = distinct(&here, |row| row.batch.unwrap_or(row.n));
            batches.sort_unstable();
            let [_, _, ..] = batches[..] else { return None };
            let chart = Chart {
                title: format!(
                    "{}: {}, N = {}{}",
                    op.name(),
                    op.about(),
                    count_name(n),
                    of_load(load)
                ),
                subtitle: self.subtitle(here[0]),
                x_label: "lookups per call (logarithmic)".into(),
                x_ticks: batches
                    .iter()
                    .map(|&batch| ((batch as f64).log2(), count_name(batch)))
                    .collect(),
                log: true,
                series: self
                    .limit_series(&here, x)
                    .into_iter()
                    .chain(table_series(&here, x))
                    .collect(),
                marks: None,
            };
            let name =
                format!("rate-against-batch_{}_n-{n}{}{which}", op.name(), at_load_name(load));
            Some((name, chart.svg()))
        };
        tables_of(rows).into_iter().filter_map(draw).collect()
    }

    /// Draws one figure per number of keys and load.
    fn against_share(&self, which: &str, rows: &[&Row]) -> Vec<Figure> {
        let share = |row: &Row| row.op.hit_share().unwrap_or(100);
        let draw = |(n, load): (usize, Option<f64>)| {
            let here = at_load(&only(rows, |row| row.n == n), load);
            let mut shares = distinct(&here, share);
            shares.sort_unstable();
            // With the named operations only, no line was requested.
            let named = [Op::FIND_HIT, Op::FIND_HALF, Op::FIND_MISS];
            if shares.len() < 3 || shares.iter().all(|&share| named.contains(&Op::Find(share))) {
                return None;
            }
            let chart = Chart {
                title: format!("find: look up keys, N = {}{}", count_name(n), of_load(load)),
                subtitle: self.subtitle(here[0]),
                x_label: "lookups whose key is present, in %".into(),
                x_ticks: shares.iter().map(|&share| (share as f64, share.to_string())).collect(),
                log: false,
                series: (self.limit_series(&here, |row| share(row) as f64).into_iter())
                    .chain(table_series(&here, |row| share(row) as f64))
                    .collect(),
                marks: None,
            };
            Some((
                format!("rate-against-hit-share_n-{n}{}{which}", at_load_name(load)),
                chart.svg(),
            ))
        };
        tables_of(rows).into_iter().filter_map(draw).collect()
    }

    /// Draws bars: one figure per table, number of keys and load, with a panel per operation and
    /// policy.
    fn against_repeats(&self, rows: &[&Row]) -> Vec<Figure> {
        let mut figures = vec![];
        for table in distinct(rows, Row::label) {
            let rows = only(rows, |row| row.label() == table);
            let file = file_name(&table);
            for (n, load) in tables_of(&rows) {
                let here = at_load(&only(&rows, |row| row.n == n), load);
                let mut panels = distinct(&here, |row| (row.op, row.batch, row.policy));
                panels.sort_by_key(|(op, batch, _)| (*op, *batch));
                let panel = |of: &(Op, Option<usize>, Option<Duplicates>)| {
                    let bars = only(&here, |row| (row.op, row.batch, row.policy) == *of);
                    let batch = of.1.map_or(String::new(), |batch| {
                        format!(", {} lookups per call", count_name(batch))
                    });
                    let heading =
                        format!("{}{batch}, {}: {}", of.0.name(), policy_name(of.2), of.0.about());
                    (heading, bars.iter().map(|row| bar(row, row.repeats.to_string())).collect())
                };
                let bars = Bars {
                    title: format!(
                        "{table}: repeated keys, N = {}{}",
                        count_name(n),
                        of_load(load)
                    ),
                    subtitle: device(self.machine),
                    limit_name: self.limit_of_bars(),
                    panels: panels.iter().map(panel).collect(),
                };
                figures.push((
                    format!("rate-against-duplicates_{file}_n-{n}{}", at_load_name(load)),
                    bars.svg(),
                ));
            }
        }
        figures
    }

    /// Returns the fastest of other programs at the same work, if known.
    fn marks(
        &self,
        op: Op,
        row: &Row,
        is_beside: impl Fn(usize, f64) -> bool,
        x: impl Fn(usize, f64) -> f64,
    ) -> Option<Marks> {
        let peers =
            self.peers.filter(|_| row.repeats == Arrangement::Unique && row.batch.is_none())?;
        let here = peers.best(op).into_iter().filter(|peer| is_beside(peer.n, peer.load));
        Some(Marks {
            about: format!("Fastest of other programs, {}:", peers.measured(&self.machine.device)),
            points: here.map(|peer| (x(peer.n, peer.load), peer.rate, peer.name.clone())).collect(),
        })
    }

    /// Returns the limit of the smallest table at each x: a bound on lookups that read memory once.
    fn limit_series(&self, rows: &[&Row], x: impl Fn(&Row) -> f64) -> Option<Series> {
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
        let name = limit_name(self.machine);
        (!points.is_empty()).then_some(Series { name, color: LIMIT_COLOR, points, dashed: true })
    }
    fn limit_of_bars(&self) -> String {
        format!("{}, from as much memory as the table takes", limit_name(self.machine))
    }

    fn as_bars(&self, rows: &[&Row]) -> String {
        let mut ops = distinct(rows, |row| row.op);
        ops.sort_unstable();
        let several = distinct(rows, |row| row.policy).len() > 1;
        let panel = |op: &Op| {
            let mut here = only(rows, |row| row.op == *op);
            here.sort_by(|a, b| b.median().total_cmp(&a.median()));
            let bars = here.iter().map(|row| bar(row, name(row, several))).collect();
            (format!("{}: {}", op.name(), op.about()), bars)
        };
        Bars {
            title: format!("{} keys: {}", thousands(self.keys[0].0), self.keys[0].1.description),
            subtitle: device(self.machine),
            limit_name: self.limit_of_bars(),
            panels: ops.iter().map(panel).collect(),
        }
        .svg()
    }
    fn subtitle(&self, row: &Row) -> String {
        let is_of = |(n, about): &&(usize, KeysAbout)| *n == row.n && about.repeats == row.repeats;
        let (_, about) = self.keys.iter().find(is_of).unwrap_or(&self.keys[0]);
        format!("{}; {}", about.description, device(self.machine))
    }
}

/// Returns whether other programs, on another machine, are so much faster that a linear scale from
/// 0 would hide the rows.
fn are_far(marks: Option<&Marks>, rows: &[&Row]) -> bool {
    let marks = marks.iter().flat_map(|marks| &marks.points).map(|(_, rate, _)| *rate);
    marks.fold(0.0, f64::max) > 10.0 * rows.iter().map(|row| row.median()).fold(0.0, f64::max)
}

/// Returns the rows for which `is_here` is true.
fn only<'a>(rows: &[&'a Row], is_here: impl Fn(&Row) -> bool) -> Vec<&'a Row> {
    rows.iter().copied().filter(|row| is_here(row)).collect()
}
/// Returns the distinct properties of the rows, in order of first occurrence.
fn distinct<T: PartialEq>(rows: &[&Row], of: impl Fn(&Row) -> T) -> Vec<T> {
    super::distinct(rows.iter().map(|row| of(row)))
}
/// Returns the requested loads, ascending.
fn chosen_loads(rows: &[&Row]) -> Vec<f64> {
    let mut loads = distinct(rows, |row| row.load_asked).into_iter().flatten().collect::<Vec<_>>();
    loads.sort_by(f64::total_cmp);
    loads
}
/// Returns the requested loads, or `None` for the tables' defaults.
fn loads_of(rows: &[&Row]) -> Vec<Option<f64>> {
    let loads = chosen_loads(rows);
    if loads.is_empty() { vec![None] } else { loads.into_iter().map(Some).collect() }
}
/// Returns every number of keys with every load.
fn tables_of(rows: &[&Row]) -> Vec<(usize, Option<f64>)> {
    let mut counts = distinct(rows, |row| row.n);
    counts.sort_unstable();
    let loads = loads_of(rows);
    counts.iter().flat_map(|&n| loads.iter().map(move |&load| (n, load))).collect()
}
/// Returns the rows with this load, and those of tables with a fixed load.
fn at_load<'a>(rows: &[&'a Row], load: Option<f64>) -> Vec<&'a Row> {
    only(rows, |row| load.is_none() || row.load_asked == load || is_fixed(row, rows))
}
/// Returns whether this table has only this load, whatever is requested.
fn is_fixed(row: &Row, rows: &[&Row]) -> bool {
    let same = only(rows, |r| r.label() == row.label() && r.op == row.op && r.is_beside(row));
    chosen_loads(rows).len() > 1 && same.len() == 1
}
/// Formats a load for titles.
fn of_load(load: Option<f64>) -> String {
    load.map_or(String::new(), |load| format!(", load {load}"))
}
/// Formats a load for file names.
fn at_load_name(load: Option<f64>) -> String {
    load.map_or(String::new(), |load| format!("_load-{load}"))
}

fn bar(row: &Row, name: String) -> Bar {
    Bar { name, color: color(row.table), rate: row.median(), limit: row.limit_rate() }
}
/// Returns the name of a table and its parameters, with its policy if there are several.
fn name(row: &Row, several_policies: bool) -> String {
    if several_policies {
        format!("{}, {}", row.label(), policy_name(row.policy))
    } else {
        row.label()
    }
}
/// Returns the name of a table and its parameters for file names.
fn file_name(label: &str) -> String {
    label.replace(", ", "_").replace([' ', ':'], "-")
}
/// Returns a line per table, parameters and policy, in the order of the rows.
fn table_series(here: &[&Row], x: impl Fn(&Row) -> f64) -> Vec<Series> {
    let policies = distinct(here, |row| row.policy);
    let mut series: Vec<Series> = vec![];
    for row in here {
        let Some(rates) = row.rates else { continue };
        let point = (x(row), [rates.median, rates.min, rates.max]);
        let name = name(row, policies.len() > 1);
        match series.iter_mut().find(|s| s.name == name) {
            Some(series) => series.points.push(point),
            None => {
                let variants = distinct(&only(here, |r| r.table == row.table), Row::label);
                let variant = variants.iter().position(|of| *of == row.label()).unwrap_or(0);
                let policy = policies.iter().position(|p| *p == row.policy).unwrap_or(0);
                let place = contenders::place_of(row.table) + policy + policies.len() * variant;
                let color = COLORS[place % COLORS.len()];
                series.push(Series { name, color, points: vec![point], dashed: false });
            }
        }
    }
    series.iter_mut().for_each(|s| s.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    series
}

fn limit_name(machine: &Machine) -> String {
    format!("random {}-byte reads", if machine.kind == "cuda" { 32 } else { 64 })
}

/// Returns a table's colour, independent of the other tables. Those of the main tables differ.
fn color(table: &str) -> &'static str {
    COLORS[contenders::place_of(table) % COLORS.len()]
}
fn device(machine: &Machine) -> String {
    let cpu = machine
        .cpu
        .as_deref()
        .filter(|_| machine.kind == "cpu")
        .map_or(String::new(), |cpu| format!(", {cpu}"));
    format!("{}{cpu}", machine.device)
}
/// Formats a count; powers of two as such.
fn count_name(n: usize) -> String {
    let superscript =
        |digit: char| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit.to_digit(10).unwrap_or(0) as usize);
    match n.is_power_of_two() {
        true => format!(
            "2{}",
            n.ilog2().to_string().chars().filter_map(superscript).collect::<String>()
        ),
        false => thousands(n),
    }
}
