//! `koel lab thresholds`: how full a table can get before a key finds no place.
use super::chart::{Axis, Chart, Look, Scale, Series};
use super::{Common, Findings, table};
use crate::failure::Outcome;
use crate::output::thousands;
use indicatif::ProgressBar;
use koel_lab::rank::{Tally, tally};
use koel_lab::sweep::{Shape, largest_loads};
use koel_lab::{Method, theory};
use serde::Serialize;

/// Find the largest load that places all keys, next to theory and the papers
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    pub common: Common,
    /// Slots per table
    #[arg(
        long, value_name = "SLOTS", default_value_t = 1 << 16,
        value_parser = clap::value_parser!(u32).range(64..=1 << 26)
    )]
    slots: u32,
    /// Tables of each shape; the median load counts
    #[arg(
        long, value_name = "RUNS", default_value_t = 5,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    runs: u16,
    /// Maximum number of exchanges per insertion, or of buckets searched by bfs
    #[arg(
        long, value_name = "N", default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(1..=1 << 24)
    )]
    limit: u32,
}

const BUCKETS: [u32; 4] = [1, 2, 4, 8];
const FUNCTIONS: std::ops::RangeInclusive<u32> = 2..=7;

#[derive(Serialize)]
struct Report {
    rows: Vec<Row>,
    theory: Vec<Theory>,
    practical_2011: Vec<Theory>,
    rank: Vec<Rank>,
    slots: u32,
    runs: u16,
    limit: u32,
    seed: u64,
}
/// Median load of a shape and a method, and the range of its runs.
#[derive(Serialize)]
struct Row {
    functions: u32,
    bucket: u32,
    method: &'static str,
    load: f64,
    load_min: f64,
    load_max: f64,
}
#[derive(Serialize)]
struct Theory {
    functions: u32,
    bucket: u32,
    load: f64,
}
/// Random matrices for the lecture's argument.
#[derive(Serialize)]
struct Rank {
    functions: u32,
    slots: u32,
    load: f64,
    runs: usize,
    full_rank: usize,
    placed: usize,
    contradictions: usize,
}

/// Methods in the order of the report, the exact one first.
const METHODS: [Option<Method>; 4] =
    [None, Some(Method::RoundRobin), Some(Method::RandomWalk), Some(Method::Bfs)];
fn name(method: Option<Method>) -> &'static str {
    method.map_or("matching", Method::name)
}

/// Runs `koel lab thresholds`.
pub(super) fn run(seed: u64, args: &Args, progress: &ProgressBar) -> Outcome<Findings> {
    progress.set_length((BUCKETS.len() * FUNCTIONS.count() * METHODS.len()) as u64);
    let mut rows = vec![];
    for bucket in BUCKETS {
        for functions in FUNCTIONS {
            for method in METHODS {
                let shape = Shape { functions, bucket };
                let loads =
                    largest_loads(shape, method, args.slots, args.limit, args.runs.into(), seed);
                let [load_min, load, load_max] =
                    [0, (loads.len() - 1) / 2, loads.len() - 1].map(|i| loads[i]);
                rows.push(Row {
                    functions,
                    bucket,
                    method: name(method),
                    load,
                    load_min,
                    load_max,
                });
                progress.inc(1);
            }
        }
    }
    let theory = BUCKETS.iter().flat_map(|&bucket| {
        FUNCTIONS.map(move |functions| Theory {
            functions,
            bucket,
            load: theory::threshold(functions, bucket),
        })
    });
    let practical = theory::PRACTICAL_2011.iter().zip(FUNCTIONS);
    let report = Report {
        rows,
        theory: theory.collect(),
        practical_2011: practical
            .map(|(slots_a_pair, functions)| Theory {
                functions,
                bucket: 1,
                load: 1.0 / slots_a_pair,
            })
            .collect(),
        rank: ranks(seed),
        slots: args.slots,
        runs: args.runs,
        limit: args.limit,
        seed,
    };
    Findings::new(text(&report), &report, figures(&report))
}

/// Tests loads below, at and above the threshold, on tables small enough for elimination.
fn ranks(seed: u64) -> Vec<Rank> {
    const SLOTS: u32 = 256;
    let shapes = (2..=5).flat_map(|functions| [0.9, 1.0, 1.03].map(|part| (functions, part)));
    let one = |(functions, part): (u32, f64)| {
        let keys = (part * theory::threshold(functions, 1) * f64::from(SLOTS)).round() as usize;
        let Tally { runs, full_rank, placed, contradictions } =
            tally(functions, SLOTS, keys, 400, seed);
        let load = keys as f64 / f64::from(SLOTS);
        Rank { functions, slots: SLOTS, load, runs, full_rank, placed, contradictions }
    };
    shapes.map(one).collect()
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "Largest load that places all keys: median of {} tables of {} slots, filled until a key \
         finds no place\n\
         (matching: no assignment exists; other methods: after {} exchanges, or buckets \
         searched by bfs).\n",
        report.runs,
        thousands(report.slots as usize),
        thousands(report.limit as usize),
    );
    for bucket in BUCKETS {
        let row = |functions: u32| {
            let mut cells =
                vec![functions.to_string(), format!("{:.4}", theory::threshold(functions, bucket))];
            let here =
                report.rows.iter().filter(|r| (r.functions, r.bucket) == (functions, bucket));
            cells.extend(here.map(|r| format!("{:.4}", r.load)));
            let practical = report
                .practical_2011
                .iter()
                .find(|p| (p.functions, p.bucket) == (functions, bucket));
            cells.push(practical.map_or("-".into(), |p| format!("{:.4}", p.load)));
            cells
        };
        let heading = [
            "functions",
            "theory",
            "matching",
            "round-robin",
            "random-walk",
            "bfs",
            "2011, practical",
        ];
        text.push_str(&format!(
            "\nBuckets of {bucket}\n{}",
            table(&heading, &FUNCTIONS.map(row).collect::<Vec<_>>())
        ));
    }
    let row = |r: &Rank| {
        let counts = [r.full_rank, r.placed, r.contradictions].map(|n| n.to_string());
        [vec![r.functions.to_string(), format!("{:.3}", r.load)], counts.to_vec()].concat()
    };
    let heading = ["functions", "load", "full rank", "all placed", "full rank, not placed"];
    text.push_str(&format!(
        "\nThe lecture's argument: a matrix of full row rank over GF(2) has a place for every \
         key.\nOf 400 random matrices with 256 columns:\n{}",
        table(&heading, &report.rank.iter().map(row).collect::<Vec<_>>())
    ));
    text
}

fn figures(report: &Report) -> Vec<(String, Chart)> {
    let subtitle = format!(
        "median of {} tables of {} slots; insertion gives up after {} exchanges",
        report.runs,
        thousands(report.slots as usize),
        report.limit
    );
    let x = || Axis::new("hash functions", Scale::From(2.0));
    let series = |bucket: u32, value: fn(f64) -> f64| {
        let of = |rows: &[Theory]| {
            let here = rows.iter().filter(|t| t.bucket == bucket);
            here.map(|t| (f64::from(t.functions), value(t.load))).collect::<Vec<_>>()
        };
        let mut series = vec![Series::new("theory", 7, Look::Dashed, of(&report.theory))];
        for (color, method) in METHODS.into_iter().enumerate() {
            let here =
                report.rows.iter().filter(|r| r.bucket == bucket && r.method == name(method));
            let points = here.map(|r| (f64::from(r.functions), value(r.load))).collect();
            series.push(Series::new(name(method), color, Look::Line, points));
        }
        if bucket == 1 {
            series.push(Series::new(
                "2011, in practice",
                6,
                Look::Marks,
                of(&report.practical_2011),
            ));
        }
        series
    };
    let mut figures = vec![(
        "thresholds".to_owned(),
        Chart {
            title: "The largest load that places all keys, one slot per bucket".into(),
            subtitle: subtitle.clone(),
            x: x(),
            y: Axis { reach: Some(1.0), ..Axis::new("load: keys per slot", Scale::From(0.4)) },
            series: series(1, |load| load),
        },
    )];
    for bucket in BUCKETS {
        figures.push((
            format!("thresholds_empty-slots_bucket-{bucket}"),
            Chart {
                title: format!("Slots that stay empty in the fullest table, buckets of {bucket}"),
                subtitle: subtitle.clone(),
                x: x(),
                y: Axis::new("1 - load (logarithmic)", Scale::Log),
                series: series(bucket, |load| 1.0 - load),
            },
        ));
    }
    figures
}
