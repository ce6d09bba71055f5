//! Runs of tests, and what they say of a fault.
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

/// Seconds after which tests that do not end are ended: a fault may make a loop endless.
const MOST_SECONDS: &str = "600";

/// How the reason begins why tests that a signal ended have no verdict.
pub const BY_SIGNAL: &str = "ended by signal ";

/// What the tests of a mutant came to.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// All tests passed, and there was one.
    Passed,
    /// A test failed, and what it said.
    Failed(String),
    /// The tests told nothing, and why.
    NoVerdict(String),
}

/// Returns the arguments for cargo, and those for the tests: `[-p a name] [-- name]`.
pub fn split<'a, 'b>(tests: &'b [&'a str]) -> (&'b [&'a str], &'b [&'a str]) {
    tests.split_at(tests.iter().position(|arg| *arg == "--").unwrap_or(tests.len()))
}

/// A command of cargo in a copy of the sources, whose builds go to `build`.
pub fn cargo(program: &str, copy: &Path, build: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(copy).env("CARGO_TARGET_DIR", build).env_remove("CARGO_MANIFEST_DIR");
    // A fault changes one crate: the rest of its code, and of those that depend on it, is not
    // compiled again.
    command.envs([("CARGO_INCREMENTAL", "1"), ("CARGO_PROFILE_DEV_DEBUG", "0")]);
    command
}

/// Builds and runs tests by cargo, in sources into which a fault was written.
pub fn by_cargo(copy: &Path, build: &Path, tests: &[&str]) -> Result<Outcome, String> {
    let (of_cargo, of_tests) = split(tests);
    let run = |program: &str, before: &[&str], behind: &[&str]| {
        let mut command = cargo(program, copy, build);
        command.args(before).args(["test", "--quiet"]).args(of_cargo).args(behind).args(of_tests);
        command.output().map_err(|e| format!("{program}: {e}"))
    };
    // Builds take as long as they take: only tests are ended.
    let out = run("cargo", &[], &["--no-run"])?;
    if !out.status.success() {
        let log = log_of(&out);
        return Ok(Outcome::NoVerdict(errors_of_builds(&log).unwrap_or("the build failed".into())));
    }
    let out = run("timeout", &[MOST_SECONDS, "cargo"], &[])?;
    Ok(outcome(&out, &log_of(&out)))
}
/// Runs a built program of tests in the folder of its package, with a fault switched on or none.
pub fn program(file: &Path, package: &Path, names: &[&str], switched_on: Option<u32>) -> Result<Outcome, String> {
    let mut command = Command::new("timeout");
    command.arg(MOST_SECONDS).arg(file).arg("--quiet").args(names).current_dir(package);
    command.env("CARGO_MANIFEST_DIR", package).env_remove(super::switch::VARIABLE);
    command.envs(switched_on.map(|number| (super::switch::VARIABLE, number.to_string())));
    let out = command.output().map_err(|e| format!("timeout {}: {e}", file.display()))?;
    Ok(outcome(&out, &log_of(&out)))
}

fn log_of(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}
fn errors_of_builds(log: &str) -> Option<String> {
    let marks = ["error[", "could not compile", "error: no "];
    let line = log.lines().find(|l| marks.iter().any(|m| l.contains(m)));
    line.map(|l| l.trim().to_string())
}
fn outcome(out: &Output, log: &str) -> Outcome {
    if out.status.success() {
        let nothing = "no test ran: the names match none".to_string();
        return if tests_run(log) == 0 { Outcome::NoVerdict(nothing) } else { Outcome::Passed };
    }
    if out.status.code() == Some(124) {
        return Outcome::Failed(format!("did not end in {MOST_SECONDS} seconds"));
    }
    // What dies of a signal, as of a stack that is too small, has told nothing.
    let signal = out.status.signal().or(out.status.code().filter(|c| *c > 128).map(|c| c - 128));
    if let Some(signal) = signal {
        return Outcome::NoVerdict(format!("{BY_SIGNAL}{signal}"));
    }
    if let Some(line) = log.lines().find(|l| l.contains("(signal: ")) {
        return Outcome::NoVerdict(line.trim().to_string());
    }
    // What the first panic says stands below its place.
    let said = log.lines().skip_while(|l| !l.contains("panicked at"));
    let said = said.into_iter().find(|l| !l.contains("panicked at"));
    Outcome::Failed(said.unwrap_or("without a word").trim().to_string())
}
/// Returns how many tests the programs of a log ran: the sum of `running 3 tests`.
fn tests_run(log: &str) -> usize {
    let numbers = log.lines().filter_map(|l| l.strip_prefix("running ")?.split_once(" test"));
    numbers.filter_map(|(number, _)| number.parse::<usize>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::ExitStatus;

    fn of(status: i32, log: &str) -> Outcome {
        let (stdout, stderr) = (log.as_bytes().to_vec(), vec![]);
        outcome(&Output { status: ExitStatus::from_raw(status), stdout, stderr }, log)
    }

    #[test]
    fn no_test_is_no_verdict() {
        let none = "\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed\n";
        let Outcome::NoVerdict(said) = of(0, &none.repeat(2)) else { panic!("a verdict") };
        assert!(said.contains("no test"));
        assert_eq!(of(0, &format!("{none}\nrunning 1 test\n.\n")), Outcome::Passed);
        assert_eq!(tests_run("running 12 tests\nrunning 1 test\nrunning out of tests\n"), 13);
    }

    #[test]
    fn failures_say_what_the_first_panic_says() {
        let log = "running 2 tests\nthread 'a' panicked at src/a.rs:1:2:\nleft != right\nnote: x\n";
        assert_eq!(of(101 << 8, log), Outcome::Failed("left != right".into()));
        let Outcome::Failed(said) = of(124 << 8, log) else { panic!("no failure") };
        assert!(said.starts_with("did not end"));
    }

    #[test]
    fn signals_are_no_verdict() {
        for status in [11, (128 + 11) << 8] {
            let expected = Outcome::NoVerdict("ended by signal 11".into());
            assert_eq!(of(status, "running 1 test\n"), expected);
        }
        let of_cargo = "process didn't exit successfully: `x` (signal: 11, SIGSEGV)";
        assert_eq!(of(101 << 8, of_cargo), Outcome::NoVerdict(of_cargo.into()));
    }

    #[test]
    fn arguments_are_split() {
        assert_eq!(split(&["-p", "a", "--", "x"]), (&["-p", "a"][..], &["--", "x"][..]));
        assert_eq!(split(&["-p", "a", "x"]), (&["-p", "a", "x"][..], &[][..]));
    }
}
