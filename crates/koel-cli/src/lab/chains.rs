//! `koel lab chains`: lengths of eviction chains as a table fills, rounds of simultaneous claims,
//! and slots that lookups read.
mod probes;
mod rounds;
mod stash;

use super::chart::{Axis, Chart, Look, Scale, Series};
use super::{Common, Findings, table};
use crate::failure::{Failure, Outcome};
use crate::output::thousands;
use indicatif::ProgressBar;
use koel_lab::sweep::{Chains, chains};
use koel_lab::{Method, theory};
use rayon::prelude::*;
use serde::Serialize;

/// Count exchanges against load (median, 99.9 %, longest, per key), rounds of the 2009 build, slots
/// that lookups read, and stashed keys
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    pub common: Common,
    /// Slots per table
    #[arg(
        long, value_name = "SLOTS", default_value_t = 1 << 20,
        value_parser = clap::value_parser!(u32).range(64..=1 << 28)
    )]
    slots: u32,
    /// Numbers of hash functions to compare, each 2 to 7
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [3, 4, 5])]
    functions: Vec<u32>,
    /// Maximum number of exchanges per insertion
    #[arg(
        long, value_name = "N", default_value_t = 5000,
        value_parser = clap::value_parser!(u32).range(1..=1 << 20)
    )]
    limit: u32,
    /// Buckets of the 2009 paper to build
    #[arg(
        long, value_name = "N", default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..=1 << 20)
    )]
    buckets: u32,
}

/// Ways to insert: name, method, and whether new keys start with a random function.
const WAYS: [(&str, Method, bool); 4] = [
    ("round-robin", Method::RoundRobin, false),
    ("random start", Method::RoundRobin, true),
    ("random-walk", Method::RandomWalk, true),
    ("bfs", Method::Bfs, false),
];

#[derive(Serialize)]
struct Report {
    rows: Vec<Row>,
    /// The bucket builds of the 2009 paper.
    rounds: Vec<rounds::Row>,
    /// Slots read per lookup.
    probes: Vec<probes::Row>,
    /// Stashed keys.
    stash: Vec<stash::Row>,
    slots: u32,
    limit: u32,
    seed: u64,
}
#[derive(Serialize)]
struct Row {
    functions: u32,
    method: &'static str,
    load: f64,
    median: u32,
    p999: u32,
    max: u32,
    exchanges_per_key: f64,
    estimate_2011: f64,
    failed: usize,
}

/// Loads up to just below the threshold.
fn loads(functions: u32) -> Vec<f64> {
    let threshold = theory::threshold(functions, 1);
    let mut loads = (1..20)
        .map(|i| f64::from(i) * 0.05)
        .filter(|load| *load < threshold - 0.02)
        .collect::<Vec<f64>>();
    loads.push(((threshold - 0.01) * 1000.0).round() / 1000.0);
    loads
}

/// Runs `koel lab chains`.
pub(super) fn run(seed: u64, args: &Args, progress: &ProgressBar) -> Outcome<Findings> {
    if let Some(wrong) = args.functions.iter().find(|f| !(2..=7).contains(*f)) {
        return Err(Failure::Usage(format!("--functions: {wrong}, expected numbers from 2 to 7")));
    }
    let runs = args
        .functions
        .iter()
        .flat_map(|&functions| WAYS.map(|way| (functions, way)))
        .collect::<Vec<_>>();
    progress.set_length(runs.len() as u64 + 3);
    let one = |&(functions, (method, how, random_start)): &(u32, (&'static str, Method, bool))| {
        let found =
            chains(functions, how, random_start, args.slots, &loads(functions), args.limit, seed);
        progress.inc(1);
        let row = |c: Chains| Row {
            functions,
            method,
            load: c.load,
            median: c.median,
            p999: c.most_of_999,
            max: c.max,
            exchanges_per_key: c.mean,
            estimate_2011: c.estimate,
            failed: c.failed,
        };
        found.into_iter().map(row).collect::<Vec<Row>>()
    };
    let rows = runs.par_iter().flat_map_iter(one).collect::<Vec<Row>>();
    let (rounds, built) = rounds::measure(args.buckets as usize, seed);
    progress.inc(1);
    let probes = probes::measure(&built, args.slots, seed);
    progress.inc(1);
    let stash = stash::measure(args.slots, seed);
    progress.inc(1);
    let report = Report { rows, rounds, probes, stash, slots: args.slots, limit: args.limit, seed };
    Findings::new(text(&report, &args.functions), &report, figures(&report, &args.functions))
}

fn text(report: &Report, functions: &[u32]) -> String {
    let mut text = format!(
        "Exchanges per insertion, in tables of {} slots filled key by key (limit {}).\n\
         Estimate: -m ln(1 - N/m) / N, of the 2011 paper.\n",
        thousands(report.slots as usize),
        thousands(report.limit as usize)
    );
    for &functions in functions {
        for (way, ..) in WAYS {
            let here = report.rows.iter().filter(|r| r.functions == functions && r.method == way);
            let row = |r: &Row| {
                let numbers = [
                    format!("{:.3}", r.load),
                    format!("{:.3}", r.exchanges_per_key),
                    format!("{:.3}", r.estimate_2011),
                ];
                let counts = [r.median, r.p999, r.max].map(|n| n.to_string());
                [numbers.to_vec(), counts.to_vec(), vec![r.failed.to_string()]].concat()
            };
            let heading =
                ["load", "per key", "estimate", "median", "99.9 %", "longest", "given up"];
            let rows = here.map(row).collect::<Vec<_>>();
            text.push_str(&format!("\n{functions} functions, {way}\n{}", table(&heading, &rows)));
        }
    }
    text.push_str(&rounds::text(&report.rounds));
    text.push_str(&probes::text(&report.probes));
    text.push_str(&stash::text(&report.stash));
    text
}

fn figures(report: &Report, functions: &[u32]) -> Vec<(String, Chart)> {
    let subtitle =
        format!("tables of {} slots, filled key by key", thousands(report.slots as usize));
    let x = || Axis::new("load: keys per slot", Scale::From(0.0));
    let mut figures = vec![];
    for &functions in functions {
        let points = |way: &str, value: fn(&Row) -> f64| {
            let here = report.rows.iter().filter(|r| r.functions == functions && r.method == way);
            here.map(|r| (r.load, value(r))).collect::<Vec<_>>()
        };
        let mut series = vec![Series::new(
            "2011 estimate",
            7,
            Look::Dashed,
            points(WAYS[0].0, |r| r.estimate_2011),
        )];
        for (color, (way, ..)) in WAYS.into_iter().enumerate() {
            series.push(Series::new(way, color, Look::Line, points(way, |r| r.exchanges_per_key)));
        }
        figures.push((
            format!("chains_exchanges_functions-{functions}"),
            Chart {
                title: format!("Exchanges per key, {functions} functions"),
                subtitle: subtitle.clone(),
                x: x(),
                y: Axis::new("exchanges of all insertions, per key", Scale::From(0.0)),
                series,
            },
        ));
        let mut series = vec![];
        for (color, (way, ..)) in WAYS.into_iter().enumerate() {
            series.push(Series::new(
                format!("{way}: longest"),
                color,
                Look::Line,
                points(way, |r| f64::from(r.max)),
            ));
            series.push(Series::new(
                format!("{way}: 99.9 %"),
                color,
                Look::Dashed,
                points(way, |r| f64::from(r.p999)),
            ));
        }
        let limit = 7.0 * f64::from(report.slots).log2();
        let published = loads(functions).iter().map(|load| (*load, limit)).collect();
        series.push(Series::new("7 lg N, the 2011 limit", 7, Look::Dashed, published));
        figures.push((
            format!("chains_lengths_functions-{functions}"),
            Chart {
                title: format!("Eviction chains, {functions} functions"),
                subtitle: format!("{subtitle}; half of all insertions take one or two exchanges"),
                x: x(),
                y: Axis::new("exchanges of one insertion (logarithmic)", Scale::Log),
                series,
            },
        ));
    }
    figures
}
