//! `koel lab figures`: the papers' figures, measured here, with the papers' axes.
//!
//! One file per paper. Every timed lookup is checked.
mod measure;
mod others;
mod published_2009;
mod published_2011;

use super::chart::Chart;
use super::{Common, Findings, table};
use crate::bench::machine::Machine;
use crate::failure::{Failure, Outcome};
use crate::{Global, device};
use indicatif::ProgressBar;
use koel::DeviceKind;
use measure::Lab;
use serde::Serialize;
use std::path::PathBuf;

/// Measure the papers' figures: SVG, PNG and CSV with the same axes as published
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    pub common: Common,
    /// Base-2 logarithm of the largest number of keys [default: 20 on a CPU, 25 on a GPU]
    #[arg(long, value_name = "POWER", value_parser = clap::value_parser!(u32).range(10..=28))]
    n: Option<u32>,
    /// Runs per measurement; the fastest counts, as other programs can only slow it down
    #[arg(
        long, value_name = "RUNS", default_value_t = 3,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    runs: u16,
    /// Measure only figures whose name contains this
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}
impl Args {
    /// Returns the folder for figures. They are drawn even without `--plot`.
    pub(super) fn folder(&self) -> PathBuf {
        self.common.plot.clone().unwrap_or_else(|| "figures".into())
    }
}

/// Name and measurement of a figure. A new figure is a function and a line here.
type Figure = (&'static str, fn(&Lab) -> Outcome<Vec<Chart>>);
const FIGURES: [Figure; 13] = [
    ("2009-figure-3", published_2009::figure_3),
    ("2009-figure-4", published_2009::figure_4),
    ("2009-figure-5", published_2009::figure_5),
    ("2009-figure-6", published_2009::figure_6),
    ("2009-table-1", published_2009::table_1),
    ("2011-figure-4.4", published_2011::figure_4_4),
    ("2011-figure-4.5", published_2011::figure_4_5),
    ("2011-figure-4.6", published_2011::figure_4_6),
    ("2011-figure-4.7", published_2011::figure_4_7),
    ("2011-failed-queries", published_2011::failed_queries),
    ("wang-hu-figures-5-6", others::wang_hu),
    ("lecture-loads", others::lecture_loads),
    ("lecture-stash", others::lecture_stash),
];

#[derive(Serialize)]
struct Report {
    machine: Machine,
    figures: Vec<Drawn>,
    n: usize,
    runs: u16,
    seed: u64,
}
#[derive(Serialize)]
struct Drawn {
    name: String,
    x: String,
    y: String,
    series: Vec<Points>,
}
#[derive(Serialize)]
struct Points {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Runs `koel lab figures`.
pub(super) fn run(global: &Global, args: &Args, progress: &ProgressBar) -> Outcome<Findings> {
    let chosen = |name: &str| args.only.as_deref().is_none_or(|part| name.contains(part));
    let figures = FIGURES.iter().filter(|(name, _)| chosen(name)).collect::<Vec<_>>();
    if figures.is_empty() {
        let names = FIGURES.map(|(name, _)| name).join(", ");
        return Err(Failure::Usage(format!(
            "--only: no figure's name contains '{}'; there are {names}",
            args.only.as_deref().unwrap_or_default()
        )));
    }
    let device::Opened { device, fallback } = device::open(global.device, global.threads)?;
    let most = args.n.unwrap_or(if device.kind() == DeviceKind::Cuda { 25 } else { 20 });
    let machine = Machine::of(&device, fallback)?;
    let about = match machine.cpu.as_deref().filter(|_| machine.kind == "cpu") {
        Some(cpu) => format!("{}, {cpu}", machine.device),
        None => machine.device.clone(),
    };
    let lab = Lab { stream: device.stream()?, most, runs: args.runs, seed: global.seed, about };
    progress.set_length(figures.len() as u64);
    let mut drawn = vec![];
    for (name, measure) in figures {
        progress.set_message(*name);
        let charts = measure(&lab)?;
        let several = charts.len() > 1;
        for (i, chart) in charts.into_iter().enumerate() {
            let letter =
                if several { format!("-{}", ["left", "right"][i.min(1)]) } else { String::new() };
            drawn.push((format!("{name}{letter}"), chart));
        }
        progress.inc(1);
    }
    let points = |chart: &Chart| {
        let series =
            chart.series.iter().map(|s| Points { name: s.name.clone(), points: s.points.clone() });
        series.collect()
    };
    let report = Report {
        machine,
        figures: drawn
            .iter()
            .map(|(name, chart)| Drawn {
                name: name.clone(),
                x: chart.x.label.clone(),
                y: chart.y.label.clone(),
                series: points(chart),
            })
            .collect(),
        n: 1 << most,
        runs: args.runs,
        seed: global.seed,
    };
    Ok(Findings::new(text(&drawn), &report, drawn)?.on(&device))
}

/// Formats the last point of each series.
fn text(drawn: &[(String, Chart)]) -> String {
    let mut text = String::from("The last point of each series, at the right of the x axis\n");
    for (name, chart) in drawn {
        let ends = chart.series.iter().filter_map(|s| Some((s, s.points.last()?)));
        let rows = ends.map(|(s, (x, y))| {
            vec![s.name.clone(), super::short_number(*x), super::short_number(*y)]
        });
        let heading = ["series", chart.x.label.as_str(), chart.y.label.as_str()];
        text.push_str(&format!(
            "\n{name}: {}\n{}",
            chart.title,
            table(&heading, &rows.collect::<Vec<_>>())
        ));
    }
    text
}
