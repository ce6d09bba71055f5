//! The `koel` program: `koel --help`.
//!
//! Each command is one file or folder. To add one, add its file, a variant of [`Command`] and an
//! arm in [`run`].
mod apart;
mod bench;
mod completions;
mod device;
mod failure;
mod frames;
mod intersect;
mod lab;
mod manual;
mod matching;
mod output;
mod signals;
mod table;
mod view;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use device::DeviceChoice;
use failure::{Failure, Outcome};
use koel_provenance as provenance;
use std::path::PathBuf;
use std::process::ExitCode;

/// Real-time parallel hashing on the GPU and the CPU.
#[derive(Parser)]
#[command(
    name = "koel",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  koel bench               hash millions of voxels of a scan, look them up, print the rates
  koel intersect A.ply B.ply --grid 128 --out report.json
                           find which part of each scan is inside the other
  koel view A.ply B.ply    do the same in a web page while one scan moves
  koel match A.png B.jpg   find image A in image B, or report that it is not there
  koel build ids.u64 -o ids.koel
                           save a table of keys; koel query ids.koel more.u64 looks up keys in it
  koel lab figures         measure the papers' figures on this machine

Exit status: 0 success, 2 bad usage or bad input, 1 anything else,
128 + N after signal N."
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(clap::Args)]
#[command(next_help_heading = "Global options")]
struct Global {
    /// Device to run on: cpu, cuda, cuda:N, or auto (a GPU if one works, else the CPU)
    #[arg(long, global = true, default_value = "auto", value_name = "DEVICE")]
    device: DeviceChoice,
    /// Number of CPU threads [default: one per core]
    #[arg(
        long, global = true, value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    threads: Option<u16>,
    /// Random seed: the same seed gives the same keys, queries and hash functions
    #[arg(long, global = true, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Also write the result as JSON; `-` writes JSON to standard output instead of the table
    #[arg(long, global = true, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    Bench(Box<bench::Args>),
    Build(table::BuildArgs),
    Query(table::QueryArgs),
    Info(table::InfoArgs),
    Intersect(Box<intersect::Args>),
    View(view::Args),
    Match(matching::MatchArgs),
    Models(matching::ModelsArgs),
    Lab(lab::Args),
    Completions(completions::Args),
    Man(manual::Args),
}

fn run() -> Outcome {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return usage(&e),
    };
    signals::handle()?;
    device::use_threads(cli.global.threads)?;
    match cli.command {
        Command::Bench(args) => bench::run(&cli.global, *args),
        Command::Build(args) => table::run_build(&cli.global, args),
        Command::Query(args) => table::run_query(&cli.global, args),
        Command::Info(args) => table::run_info(&cli.global, args),
        Command::Intersect(args) => intersect::run(&cli.global, *args),
        Command::View(args) => view::run(&cli.global, args),
        Command::Match(args) => matching::run_match(&cli.global, args),
        Command::Models(args) => matching::run_models(&cli.global, args),
        Command::Lab(args) => lab::run(&cli.global, args),
        Command::Completions(args) => completions::run(&cli.global, args),
        Command::Man(args) => manual::run(&cli.global, args),
    }
}

/// Prints help as clap renders it, and reduces an error to one line.
fn usage(error: &clap::Error) -> Outcome {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            output::print(&error.render().ansi().to_string())
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output::say(error.render().ansi());
            Err(Failure::Reported(2))
        }
        _ => {
            // The first paragraph states the error and a later one may give a tip; the rest is
            // usage.
            let text = error.render().to_string();
            let mut paragraphs =
                text.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
            let wrong = paragraphs.next().unwrap_or_default();
            let tip =
                paragraphs.find_map(|p| p.strip_prefix("tip: ").map(|tip| format!(" ({tip})")));
            Err(Failure::Usage(format!(
                "{}{}",
                wrong.trim_start_matches("error: "),
                tip.unwrap_or_default()
            )))
        }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => output::report(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Returns the examples of a command and its subcommands, without redirections and remarks.
    fn examples(command: &clap::Command) -> Vec<String> {
        let help = command.get_after_help().map(|help| help.to_string()).unwrap_or_default();
        let lines = help.lines().filter_map(|line| line.strip_prefix("  koel "));
        let own = lines.map(|line| {
            line.split("  ").next().unwrap_or_default().split(" >").next().unwrap_or_default()
        });
        let below = command.get_subcommands().flat_map(examples);
        own.map(|line| format!("koel {line}")).chain(below).collect()
    }

    /// Returns the commands in the tables of docs/papers.md.
    fn commands_of_the_papers() -> Vec<String> {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/papers.md");
        let text = std::fs::read_to_string(file).unwrap();
        let cells = text.lines().filter(|line| line.starts_with('|'));
        let quoted = cells.flat_map(|line| line.split('`').skip(1).step_by(2));
        quoted.filter(|quoted| quoted.starts_with("koel ")).map(str::to_owned).collect()
    }

    #[test]
    fn examples_are_understood() {
        let (all, papers) = (examples(&Cli::command()), commands_of_the_papers());
        assert!(all.len() >= 40, "{all:#?}");
        assert!(papers.len() >= 100, "{papers:#?}");
        for example in all.into_iter().chain(papers) {
            let parsed = Cli::try_parse_from(example.split_whitespace());
            assert!(
                parsed.is_ok(),
                "{example}: {}",
                parsed.err().map(|e| e.to_string()).unwrap_or_default()
            );
        }
    }
}
