//! Shared by the tests: what tests of several crates share, and a stand-in for the driver.
#![allow(dead_code, unused_imports, reason = "each test file uses a part")]
#[path = "../../src/special.rs"]
pub(crate) mod special;

use koel::Device;
pub(crate) use koel_testing::tables::{
    KEY_SETS, Random, devices, is_fast, scramble, value_of, written,
};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns whether koel's use of the driver can be tested with a stand-in here: there is no driver,
/// and no stand-in yet. Prints the reason if not.
pub(crate) fn can_stand_in() -> bool {
    let reason = match (std::env::var_os("STAND_IN"), Device::cuda(0)) {
        (Some(_), _) => "this is the program that runs with the stand-in",
        (None, Ok(_)) => "the GPU's own driver is in the stand-in's place",
        (None, Err(_)) => return true,
    };
    println!("skipped: {reason}");
    false
}
/// Builds a stand-in library for the driver, once. Returns the folder that holds it alone.
pub(crate) fn stand_in() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let name = program.file_stem().unwrap().to_string_lossy().into_owned();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stand-in-of-{name}"));
    static BUILT: std::sync::Once = std::sync::Once::new();
    BUILT.call_once(|| {
        std::fs::create_dir_all(&folder).unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/stand_in_driver.rs");
        let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
        let args = ["--edition=2024", "--crate-type=cdylib", "-Copt-level=1", source, "-o"];
        let library = folder.join("libcuda.so");
        assert!(Command::new(rustc).args(args).arg(library).status().is_ok_and(|s| s.success()));
    });
    folder
}
/// Runs a test of this program again, with a stand-in library for the driver. Returns its output.
pub(crate) fn run_with_stand_in(test: &str, settings: &[(&str, &str)]) -> String {
    run_with_library(&stand_in(), test, settings)
}
/// As [`run_with_stand_in`], with the library `libcuda.so` of a folder.
pub(crate) fn run_with_library(folder: &Path, test: &str, settings: &[(&str, &str)]) -> String {
    let set = |command: &mut Command| {
        command.env("LD_LIBRARY_PATH", folder).env("STAND_IN", "1").envs(settings.iter().copied());
    };
    run_again(test, set)
}
/// Runs a test of this program again, in a process that `set` makes settings for. Returns its
/// output.
pub(crate) fn run_again(test: &str, set: impl FnOnce(&mut Command)) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    set(command.args(["--exact", test, "--nocapture", "--include-ignored"]));
    let out = command.output().unwrap();
    let text =
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && text.contains("1 passed"), "{test} {command:?}: {text}");
    text
}
