//! `koel lab`: the papers' experiments and figures, run here.
//!
//! Each experiment is one file and returns [`Findings`]: text, JSON rows and figures.
mod chains;
mod chart;
mod failures;
mod figures;
mod thresholds;

use crate::apart::Files;
use crate::failure::{Failure, Outcome};
use crate::{Global, output};
use chart::Chart;
use koel::{Device, DeviceKind};
use koel_provenance::Provenance;
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  koel lab thresholds                       how full tables can get, by exact matching and by
                                            each insertion method
  koel lab chains --plot figures            lengths of eviction chains, as text and figures
  koel lab failures --json failures.json    how often builds restart, for each hash family
  koel lab figures                          the papers' figures, drawn into the folder `figures`";

/// Rerun the papers' experiments and figures on this machine
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(clap::Subcommand, Debug)]
enum Experiment {
    Thresholds(thresholds::Args),
    Chains(chains::Args),
    Failures(failures::Args),
    Figures(figures::Args),
}

/// Options of every experiment.
#[derive(clap::Args, Debug)]
struct Common {
    /// Draw figures into this folder, as SVG and PNG, each with its data as CSV
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

/// Results of an experiment.
struct Findings {
    /// Text for people.
    text: String,
    /// Rows for programs.
    json: serde_json::Value,
    /// Figures with their names.
    figures: Vec<(String, Chart)>,
    /// Whether a GPU was measured.
    on_gpu: bool,
}
impl Findings {
    fn new(text: String, rows: impl Serialize, figures: Vec<(String, Chart)>) -> Outcome<Findings> {
        let json =
            serde_json::to_value(rows).map_err(|e| Failure::Other(format!("--json: {e}")))?;
        Ok(Findings { text, json, figures, on_gpu: false })
    }
    /// Records the device that was measured.
    fn on(self, device: &Device) -> Findings {
        Findings { on_gpu: device.kind() == DeviceKind::Cuda, ..self }
    }
}

/// The JSON of an experiment.
#[derive(Serialize)]
struct Record<'a> {
    #[serde(flatten)]
    provenance: Provenance,
    #[serde(flatten)]
    findings: &'a serde_json::Value,
}

/// Runs an experiment. Rejects bad arguments before anything is measured.
pub(crate) fn run(global: &Global, args: Args) -> Outcome {
    let folder = match &args.experiment {
        Experiment::Thresholds(thresholds::Args { common, .. })
        | Experiment::Chains(chains::Args { common, .. })
        | Experiment::Failures(failures::Args { common, .. }) => common.plot.clone(),
        Experiment::Figures(args) => Some(args.folder()),
    };
    let files = Files::default().writes_json(global.json.as_deref());
    files.writes_into("--plot", folder.as_deref(), &["svg", "png", "csv"]).check_apart()?;
    global.json_file().map_or(Ok(()), output::check_writable)?;
    if let Some(folder) = &folder {
        output::check_folder(folder)?;
    }
    let progress = output::progress_bar(Some(0), output::STEPS);
    let findings = match &args.experiment {
        Experiment::Thresholds(args) => thresholds::run(global.seed, args, &progress),
        Experiment::Chains(args) => chains::run(global.seed, args, &progress),
        Experiment::Failures(args) => failures::run(global, args, &progress),
        Experiment::Figures(args) => figures::run(global, args, &progress),
    }?;
    progress.finish_and_clear();
    let provenance = Provenance::of_this_run(env!("KOEL_COMMIT"), findings.on_gpu);
    let record = Record { provenance, findings: &findings.json };
    output::result(global, &record, &findings.text)?;
    if let Some(folder) = &folder {
        for (name, chart) in &findings.figures {
            chart.write(folder, name)?;
            output::tell_drawn(folder, name, ".svg, .csv");
        }
    }
    Ok(())
}

/// Formats columns of text, the first left-aligned, the others right-aligned.
fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let lines = std::iter::once(heading.iter().map(|h| h.to_string()).collect::<Vec<_>>())
        .chain(rows.iter().cloned());
    let lines = lines.collect::<Vec<Vec<String>>>();
    let width = |column: usize| {
        lines.iter().map(|l| l.get(column).map_or(0, |c| c.chars().count())).max().unwrap_or(0)
    };
    let widths = (0..heading.len()).map(width).collect::<Vec<usize>>();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(i, (cell, width))| match i {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Formats with three significant digits, or all before the point; below 1, with four decimals.
fn short_number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == 0.0 => output::thousands(value.round() as usize),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_stand_under_their_headings() {
        let rows = [vec!["one".into(), "1".into()], vec!["eleven".into(), "11.5".into()]];
        assert_eq!(
            super::table(&["name", "n"], &rows),
            "name       n\none        1\neleven  11.5\n"
        );
    }
}
