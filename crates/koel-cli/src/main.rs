//! The `koel` program: `koel --help`.
//!
//! Each command is one file or folder. To add one, add its file, a variant of [`Command`] and an
//! arm in [`run`].
mod apart;
#[cfg(feature = "bench")]
mod bench;
mod completions;
mod device;
mod failure;
mod frames;
mod intersect;
#[cfg(feature = "bench")]
mod lab;
mod manual;
mod matching;
mod output;
mod signals;
mod table;
mod view;

use clap::error::ErrorKind;
#[cfg(not(feature = "bench"))]
use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};
use device::DeviceChoice;
use failure::{Failure, Outcome};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Real-time parallel hashing on the GPU and the CPU.
#[derive(Parser)]
#[command(
    name = "koel",
    version,
    arg_required_else_help = true,
    after_help = examples_and_status()
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Examples of the commands that the feature `bench` adds: those above the others, and those below.
#[cfg(feature = "bench")]
const BENCH_EXAMPLES: [&str; 2] = [
    "
  koel bench               hash millions of voxels of a scan, look them up, print the rates",
    "
  koel lab figures         measure the papers' figures on this machine",
];
#[cfg(not(feature = "bench"))]
const BENCH_EXAMPLES: [&str; 2] = [""; 2];

/// Returns what `koel --help` says below the options.
fn examples_and_status() -> String {
    let [first, last] = BENCH_EXAMPLES;
    format!(
        "\
Examples:{first}
  koel intersect A.ply B.ply --grid 128 --out report.json
                           find which part of each scan is inside the other
  koel view A.ply B.ply    do the same in a web page while one scan moves
  koel match A.png B.jpg   find image A in image B, or report that it is not there
  koel build ids.u64 -o ids.koel
                           save a table of keys; koel query ids.koel more.u64 looks up keys in it\
{last}

Exit status: 0 success, 2 bad usage or bad input, 1 anything else,
128 + N after signal N."
    )
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
impl Global {
    /// Returns the file of `--json`, unless that is standard output.
    fn json_file(&self) -> Option<&Path> {
        self.json.as_deref().filter(|file| *file != Path::new("-"))
    }
}

#[derive(Subcommand)]
enum Command {
    #[cfg(feature = "bench")]
    Bench(Box<bench::Args>),
    Build(table::BuildArgs),
    Query(table::QueryArgs),
    Info(table::InfoArgs),
    Intersect(Box<intersect::Args>),
    View(view::Args),
    Match(matching::MatchArgs),
    Models(matching::ModelsArgs),
    #[cfg(feature = "bench")]
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
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(&cli.global, *args),
        Command::Build(args) => table::run_build(&cli.global, args),
        Command::Query(args) => table::run_query(&cli.global, args),
        Command::Info(args) => table::run_info(&cli.global, args),
        Command::Intersect(args) => intersect::run(&cli.global, *args),
        Command::View(args) => view::run(&cli.global, args),
        Command::Match(args) => matching::run_match(&cli.global, args),
        Command::Models(args) => matching::run_models(&cli.global, args),
        #[cfg(feature = "bench")]
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
        #[cfg(not(feature = "bench"))]
        ErrorKind::InvalidSubcommand if let Some(command) = absent(error) => {
            Err(Failure::Usage(format!(
                "this build has no `koel {command}`: install koel-cli with its feature `bench`"
            )))
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

/// Returns the command that an error does not know because this build has no benchmarks.
#[cfg(not(feature = "bench"))]
fn absent(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) => {
            ["bench", "lab"].into_iter().find(|known| name == known)
        }
        _ => None,
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => output::report(failure),
    }
}

#[cfg(all(test, feature = "bench"))]
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

#[cfg(all(test, not(feature = "bench")))]
mod tests {
    use super::*;

    #[test]
    fn what_this_build_lacks_is_named() {
        for line in [&["koel", "bench"][..], &["koel", "lab", "figures"], &["koel", "help", "lab"]]
        {
            let error = Cli::try_parse_from(line).err().expect("no such command");
            let Err(Failure::Usage(message)) = usage(&error) else { panic!("{line:?}") };
            assert!(message.contains("feature `bench`"), "{message}");
        }
        let error = Cli::try_parse_from(["koel", "banch"]).err().expect("no such command");
        assert!(absent(&error).is_none());
    }
}
