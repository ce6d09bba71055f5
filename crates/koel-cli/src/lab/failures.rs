//! `koel lab failures`: how often builds restart, and which can never succeed.
mod residues;

use super::chart::{Axis, Chart, Look, Scale, Series};
use super::{Common, Findings, table};
use crate::failure::Outcome;
use crate::output::thousands;
use crate::{Global, device};
use indicatif::ProgressBar;
use koel::{Device, DeviceKind};
use koel_classic::{Duplicates, Family, Kind, Options, SingleLevel, TwoLevel};
use koel_kernels::hash::mix::{mix, splitmix_at};
use koel_lab::failures::{Build, Source, overfull_buckets};
use koel_lab::{keys, theory};
use rayon::prelude::*;
use serde::Serialize;

/// Measure restart rates next to the papers', and for each family of hash functions; count keys
/// that make every build fail
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    pub common: Common,
    /// Keys per build when comparing families
    #[arg(
        long, value_name = "N", default_value_t = 1 << 13,
        value_parser = clap::value_parser!(u32).range(64..=1 << 24)
    )]
    n: u32,
    /// Builds per rate; small builds, which fail rarely, are repeated more often
    #[arg(
        long, value_name = "RUNS", default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    runs: u32,
    /// Builds of whole tables on the device, in the papers' sizes [default: 1000 on a GPU; 0 on a
    /// CPU, where they are slow]
    #[arg(long, value_name = "BUILDS")]
    builds: Option<u32>,
}

#[derive(Serialize)]
struct Report {
    /// Builds of whole tables on the device.
    built: Vec<BuildRow>,
    /// The device that built them.
    device: String,
    /// Overfull buckets of the two-level table.
    published_2009: Vec<Overfull>,
    /// The single-level table with four functions, 1.25 slots per key and chains of at most 7 lg N.
    published_2011: Vec<Restarts>,
    /// Keys that are equal modulo the papers' primes.
    residues: Vec<residues::Row>,
    /// Hash families and key sets.
    rows: Vec<Row>,
    n: u32,
    runs: u32,
    seed: u64,
}
#[derive(Serialize)]
struct BuildRow {
    kind: &'static str,
    n: usize,
    paper_rate: f64,
    runs: usize,
    #[serde(flatten)]
    seen: Seen,
}
/// Builds of whole tables.
#[derive(Serialize)]
struct Seen {
    /// Builds that restarted at least once.
    failures: usize,
    /// Maximum number of attempts.
    attempts: u32,
    /// Hash family of the last table.
    family: &'static str,
    /// Mean device time of builds that did not restart, and of those that did, in milliseconds.
    milliseconds: [Option<f64>; 2],
}
#[derive(Serialize)]
struct Overfull {
    n: usize,
    paper_rate: Option<f64>,
    estimated_rate: f64,
    runs: usize,
    failures: usize,
}
#[derive(Serialize)]
struct Restarts {
    n: usize,
    load: f64,
    family: &'static str,
    runs: usize,
    failures: usize,
}
#[derive(Serialize)]
struct Row {
    keys: &'static str,
    family: &'static str,
    functions: u32,
    load: f64,
    limit: u32,
    runs: u32,
    failures: usize,
}

/// Numbers of functions and loads at which families are compared.
const SHAPES: [(u32, [f64; 4]); 2] = [(2, [0.35, 0.4, 0.45, 0.48]), (4, [0.8, 0.9, 0.94, 0.96])];

/// Tables whose restart rates the papers state: kind, keys, fraction of builds that restarted.
const PUBLISHED: [(&dyn Kind, usize, f64); 4] = [
    (&TwoLevel::PUBLISHED, 1_000_000, 22.0 / 25_000.0),
    (&TwoLevel::PUBLISHED, 5_000_000, 125.0 / 25_000.0),
    (&SingleLevel::PUBLISHED, 32_000_000, 0.0056),
    // The paper's functions.
    (&SingleLevel { family: Family::Linear2011, ..SingleLevel::PUBLISHED }, 32_000_000, 0.0056),
];
/// Builds that share one set of keys if the set is large: drawing it takes longer than a build.
/// Each build draws its own functions.
const BUILDS_OF_KEYS: usize = 10;

/// Builds `runs` tables of `n` random keys, each with its own functions, and counts those that
/// restarted. `load`: the kind's own if `None`.
fn restarts(
    device: &Device,
    kind: &dyn Kind,
    n: usize,
    load: Option<f64>,
    runs: usize,
    seed: u64,
) -> Outcome<Seen> {
    let stream = device.stream()?;
    let values = device.upload(&(0..n as u32).collect::<Vec<u32>>())?;
    // Distinct, and distributed as unevenly as random keys.
    let keys_of = |run: usize| {
        let (first, offset) = ((run as u32).wrapping_mul(n as u32), splitmix_at(seed, 0) as u32);
        let key = |i: u32| mix(mix(first.wrapping_add(i)).wrapping_add(offset));
        device.upload(&(0..n as u32).into_par_iter().map(key).collect::<Vec<u32>>())
    };
    let of_keys = if n > 10_000_000 { BUILDS_OF_KEYS } else { 1 };
    let mut keys = keys_of(0)?;
    let (mut attempts, mut family, mut seconds) = (0, "", [vec![], vec![]]);
    for run in 0..runs {
        if run > 0 && run % of_keys == 0 {
            keys = keys_of(run)?;
        }
        let options = Options::default()
            .with_load(load)
            .with_duplicates(Duplicates::Unchecked)
            .with_seed(splitmix_at(seed, run as u32));
        let table = kind.build(&stream, keys.view(), values.view(), &options)?;
        let report = table.report();
        (attempts, family) = (report.attempts.max(attempts), report.family);
        seconds[(report.attempts > 1) as usize].push(report.device_seconds);
    }
    let mean =
        |of: &Vec<f64>| (!of.is_empty()).then(|| 1e3 * of.iter().sum::<f64>() / of.len() as f64);
    let milliseconds = [mean(&seconds[0]), mean(&seconds[1])];
    Ok(Seen { failures: seconds[1].len(), attempts, family, milliseconds })
}

/// Builds the tables whose restart rates the papers state.
fn whole(
    device: &Device,
    builds: usize,
    seed: u64,
    progress: &ProgressBar,
) -> Outcome<Vec<BuildRow>> {
    let mut built = vec![];
    for (kind, n, paper_rate) in PUBLISHED {
        progress.set_message(format!("{}, {} keys", kind.name(), thousands(n)));
        let seen = restarts(device, kind, n, None, builds, seed)?;
        built.push(BuildRow { kind: kind.name(), n, paper_rate, runs: builds, seen });
        progress.inc(1);
    }
    Ok(built)
}

/// Runs `koel lab failures`.
pub(super) fn run(global: &Global, args: &Args, progress: &ProgressBar) -> Outcome<Findings> {
    let seed = global.seed;
    let device = device::open(global.device, global.threads)?.device;
    let builds =
        args.builds.unwrap_or(if device.kind() == DeviceKind::Cuda { 1000 } else { 0 }) as usize;
    let sources = Source::all().collect::<Vec<_>>();
    let shapes = SHAPES.iter().map(|(_, loads)| loads.len()).sum::<usize>();
    let whole_tables = if builds > 0 { PUBLISHED.len() } else { 0 };
    progress.set_length(
        (whole_tables + 4 + 6 + keys::ALL.len() * sources.len() * shapes) as u64 + residues::STEPS,
    );
    let runs = args.runs as usize;
    let built = if builds > 0 { whole(&device, builds, seed, progress)? } else { vec![] };
    progress.set_message("");
    let overfull = |(n, runs, paper_rate): (usize, usize, Option<f64>)| {
        let estimated_rate = theory::overfull(n as f64, (n as f64 / 409.0).ceil(), 512);
        let failures = overfull_buckets(n, runs, seed);
        progress.inc(1);
        Overfull { n, paper_rate, estimated_rate, runs, failures }
    };
    let published_2009 = [
        (10_000, 200 * runs, None),
        (100_000, 40 * runs, None),
        (1_000_000, 4 * runs, Some(22.0 / 25_000.0)),
        (5_000_000, runs, Some(125.0 / 25_000.0)),
    ]
    .map(overfull)
    .into();
    let mut published_2011 = vec![];
    for (n, runs) in [(1 << 10, 40 * runs), (1 << 14, 10 * runs), (1 << 18, runs)] {
        for source in [Source::Family(Family::Linear2011), Source::Family(Family::Mixed)] {
            let build = Build::published(n);
            let failures = build.failures(source, &keys::ALL[0], runs, seed);
            published_2011.push(Restarts {
                n,
                load: build.load,
                family: source.describe(),
                runs,
                failures,
            });
            progress.inc(1);
        }
    }
    let residues = residues::measure(runs, seed, || progress.inc(1));
    let mut rows = vec![];
    for set in &keys::ALL {
        for source in &sources {
            for (functions, loads) in SHAPES {
                for load in loads {
                    // Longer chains than published, so that failures are due to the functions and
                    // not to the limit.
                    let limit = 1000;
                    let build = Build { n: args.n as usize, functions, load, limit };
                    let failures = build.failures(*source, set, args.runs as usize, seed);
                    let (keys, family, runs) = (set.name, source.describe(), args.runs);
                    rows.push(Row { keys, family, functions, load, limit, runs, failures });
                    progress.inc(1);
                }
            }
        }
    }
    let report = Report {
        built,
        device: device.name(),
        published_2009,
        published_2011,
        residues,
        rows,
        n: args.n,
        runs: args.runs,
        seed,
    };
    Ok(Findings::new(text(&report), &report, figures(&report))?.on(&device))
}

fn percent(part: f64) -> String {
    match 100.0 * part {
        0.0 => "0 %".into(),
        p if p < 0.01 => format!("{p:.4} %"),
        p if p < 0.1 => format!("{p:.3} %"),
        p if p < 9.95 => format!("{p:.2} %"),
        p => format!("{p:.0} %"),
    }
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    if !report.built.is_empty() {
        let row = |r: &BuildRow| {
            let rate = percent(r.seen.failures as f64 / r.runs as f64);
            let [once, again] =
                r.seen.milliseconds.map(|ms| ms.map_or("-".into(), |ms| format!("{ms:.3}")));
            vec![
                r.kind.to_owned(),
                thousands(r.n),
                percent(r.paper_rate),
                rate,
                thousands(r.runs),
                once,
                again,
                r.seen.attempts.to_string(),
                r.seen.family.to_owned(),
            ]
        };
        let rows = report.built.iter().map(row).collect::<Vec<_>>();
        let heading = [
            "whole tables",
            "keys",
            "paper",
            "restarts here",
            "runs",
            "ms: one attempt",
            "more",
            "most attempts",
            "last functions",
        ];
        text.push_str(&format!("Built on {}\n{}\n", report.device, table(&heading, &rows)));
    }
    text.push_str("2009: buckets that get more than 512 keys, 409 on average\n");
    let row = |r: &Overfull| {
        let paper = r.paper_rate.map_or("-".into(), percent);
        let seen = format!("{} of {}", r.failures, thousands(r.runs));
        vec![thousands(r.n), paper, percent(r.estimated_rate), seen]
    };
    let rows = report.published_2009.iter().map(row).collect::<Vec<_>>();
    text.push_str(&table(&["keys", "paper", "Poisson estimate", "seen here"], &rows));
    text.push_str(
        "\n2011: four functions, 1.25 slots per key, chains of at most 7 lg N \
         (paper: 0.56 % at 32 million)\n",
    );
    let row = |r: &Restarts| {
        vec![
            thousands(r.n),
            r.family.into(),
            percent(r.failures as f64 / r.runs as f64),
            thousands(r.runs),
        ]
    };
    let rows = report.published_2011.iter().map(row).collect::<Vec<_>>();
    text.push_str(&table(&["keys", "functions", "restarts", "runs"], &rows));
    text.push_str(&residues::text(&report.residues));
    for (functions, loads) in SHAPES {
        for set in &keys::ALL {
            let mut heading = vec![set.name.to_owned()];
            heading.extend(loads.iter().map(|load| format!("load {load}")));
            let rows = Source::all().map(|source| {
                let here = report.rows.iter().filter(|r| {
                    (r.keys, r.family, r.functions) == (set.name, source.describe(), functions)
                });
                let rates = here.map(|r| percent(r.failures as f64 / f64::from(r.runs)));
                std::iter::once(source.describe().to_owned()).chain(rates).collect()
            });
            let heading = heading.iter().map(String::as_str).collect::<Vec<_>>();
            text.push_str(&format!(
                "\n{functions} functions, {} keys, {} builds each: restarts\n{}",
                thousands(report.n as usize),
                report.runs,
                table(&heading, &rows.collect::<Vec<_>>())
            ));
        }
    }
    text
}

fn figures(report: &Report) -> Vec<(String, Chart)> {
    let mut figures = vec![];
    for (functions, _) in SHAPES {
        for set in &keys::ALL {
            let series = Source::all().enumerate().map(|(color, source)| {
                let here = report.rows.iter().filter(|r| {
                    (r.keys, r.family, r.functions) == (set.name, source.describe(), functions)
                });
                let points =
                    here.map(|r| (r.load, 100.0 * r.failures as f64 / f64::from(r.runs))).collect();
                Series::new(short(source.describe()), color, Look::Line, points)
            });
            figures.push((
                format!("failures_functions-{functions}_{}", set.name.replace(' ', "-")),
                Chart {
                    title: format!("Builds that restart: {} keys, {functions} functions", set.name),
                    subtitle: format!(
                        "{} keys, {} builds per mark; insertion gives up after 1000 exchanges",
                        thousands(report.n as usize),
                        report.runs
                    ),
                    x: Axis::new(
                        "load: keys per slot",
                        Scale::From(if functions == 2 { 0.3 } else { 0.75 }),
                    ),
                    y: Axis { reach: Some(20.0), ..Axis::new("restarts, %", Scale::From(0.0)) },
                    series: series.collect(),
                },
            ));
        }
    }
    figures
}
/// Shortens a name to fit next to a figure.
fn short(family: &str) -> String {
    family
        .replace("a polynomial", "polynomial")
        .replace(" modulo 2^61 - 1", "")
        .replace("multiplicative, high bits", "multiplicative")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_tables_that_are_too_full_begin_again() -> Outcome<()> {
        let device = Device::cpu_with_threads(2)?;
        let restarts = |load| restarts(&device, &SingleLevel::PUBLISHED, 1000, Some(load), 200, 1);
        assert_eq!(restarts(0.5)?.failures, 0);
        // About 20 are expected.
        let seen = restarts(0.97)?;
        assert!(seen.failures > 0 && seen.attempts > 1);
        assert!(seen.milliseconds.iter().all(Option::is_some));
        Ok(())
    }
}
