//! Test runs, and their verdicts on a fault.
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Output};

/// Seconds after which running tests are killed: a fault may make a loop endless.
const MAX_SECONDS: &str = "600";

/// Prefix of the reason for no verdict when a signal ended the tests.
pub(super) const BY_SIGNAL: &str = "ended by signal ";

/// Result of a mutant's tests.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum TestResult {
    /// At least one test ran, and all passed.
    Passed,
    /// A test failed, with its message.
    Failed(String),
    /// The tests gave no verdict, with the reason.
    NoVerdict(String),
}

/// Result of a run, or why it could not take place.
pub(super) type Ran = Result<TestResult, String>;

/// Splits the arguments into those for cargo and those for the tests: `[-p a name] [-- name]`.
pub(super) fn split<'a, 'b>(tests: &'b [&'a str]) -> (&'b [&'a str], &'b [&'a str]) {
    tests.split_at(tests.iter().position(|arg| *arg == "--").unwrap_or(tests.len()))
}

/// Returns a cargo command in a copy of the sources, with `build` as its target folder.
/// Intermediate files go to the parent of that folder, the target folder of the repository:
/// dependencies are built once for both, and the repository keeps its programs.
pub(super) fn cargo(program: &str, copy: &Path, build: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(copy).env("CARGO_TARGET_DIR", build).env_remove("CARGO_MANIFEST_DIR");
    command.envs(build.parent().map(|folder| ("CARGO_BUILD_BUILD_DIR", folder)));
    // A fault changes one crate: incremental compilation reuses the rest of its code and of its
    // dependents.
    command.envs([("CARGO_INCREMENTAL", "1"), ("CARGO_PROFILE_DEV_DEBUG", "0")]);
    command
}

/// Builds and runs tests with cargo, in sources with a planted fault.
pub(super) fn by_cargo(copy: &Path, build: &Path, tests: &[&str]) -> Ran {
    let (of_cargo, of_tests) = split(tests);
    let run = |program: &str, before: &[&str], behind: &[&str]| {
        let mut command = cargo(program, copy, build);
        command.args(before).args(["test", "--quiet"]).args(of_cargo).args(behind).args(of_tests);
        command.output().map_err(|e| format!("{program}: {e}"))
    };
    // Build time is not limited: only tests are killed.
    let out = run("cargo", &[], &["--no-run"])?;
    if !out.status.success() {
        let log = log_of(&out);
        return Ok(TestResult::NoVerdict(
            errors_of_builds(&log).unwrap_or("the build failed".into()),
        ));
    }
    let out = run("timeout", &[MAX_SECONDS, "cargo"], &[])?;
    Ok(outcome(out.status, &log_of(&out)))
}
/// Runs a built test program in the folder of its package, with at most one fault switched on.
/// Kills it after the first failed test.
pub(super) fn program(file: &Path, package: &Path, names: &[&str], fault: Option<u32>) -> Ran {
    let say = |e: std::io::Error| format!("timeout {}: {e}", file.display());
    let (from, to) = std::io::pipe().map_err(say)?;
    let mut command = Command::new("timeout");
    command.arg(MAX_SECONDS).arg(file).arg("--nocapture").args(names).current_dir(package);
    command.env("CARGO_MANIFEST_DIR", package).env_remove(super::switch::VARIABLE);
    command.envs(fault.map(|number| (super::switch::VARIABLE, number.to_string())));
    command.stdout(to.try_clone().map_err(say)?).stderr(to);
    let mut child = command.spawn().map_err(say)?;
    drop(command); // closes this end of the pipe
    let (mut from, mut log, mut line) = (BufReader::new(from), String::new(), vec![]);
    let mut failed = None;
    while failed.is_none() && from.read_until(b'\n', &mut line).map_err(say)? > 0 {
        let text = String::from_utf8_lossy(&line);
        failed = failed_test(&text).map(String::from);
        log += &text;
        line.clear();
    }
    if let Some(name) = failed {
        // `timeout` has put itself and the program into a process group.
        let group = format!("-{}", child.id());
        Command::new("kill").args(["-KILL", "--", &group]).output().map_err(say)?;
        child.wait().map_err(say)?;
        let of_test = format!("thread '{name}'");
        let begin = log.find(&of_test).unwrap_or(0);
        return Ok(TestResult::Failed(first_panic(&log[begin..])));
    }
    let status = child.wait().map_err(say)?;
    Ok(outcome(status, &log))
}
/// Returns the name of the test if this line reports its failure; empty if the line does not name
/// it.
fn failed_test(line: &str) -> Option<&str> {
    let before = line.trim_end().strip_suffix("FAILED")?;
    let name = before.strip_prefix("test ").and_then(|rest| rest.split(" ... ").next());
    name.or(before.is_empty().then_some(""))
}

fn log_of(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}
fn errors_of_builds(log: &str) -> Option<String> {
    let marks = ["error[", "could not compile", "error: no "];
    let line = log.lines().find(|l| marks.iter().any(|m| l.contains(m)));
    line.map(|l| l.trim().to_string())
}
fn outcome(status: ExitStatus, log: &str) -> TestResult {
    if status.success() {
        let nothing = "no test ran: the names match none".to_string();
        return if tests_run(log) == 0 {
            TestResult::NoVerdict(nothing)
        } else {
            TestResult::Passed
        };
    }
    if status.code() == Some(124) {
        return TestResult::Failed(format!("did not end in {MAX_SECONDS} seconds"));
    }
    // Death by a signal, such as from a stack overflow, is no verdict.
    let signal = status.signal().or(status.code().filter(|c| *c > 128).map(|c| c - 128));
    if let Some(signal) = signal {
        return TestResult::NoVerdict(format!("{BY_SIGNAL}{signal}"));
    }
    if let Some(line) = log.lines().find(|l| l.contains("(signal: ")) {
        return TestResult::NoVerdict(line.trim().to_string());
    }
    TestResult::Failed(first_panic(log))
}
/// Returns the message of the first panic, which is on the line after its location.
fn first_panic(log: &str) -> String {
    let behind = log.lines().skip_while(|l| !l.contains("panicked at"));
    let said = behind.into_iter().find(|l| !l.contains("panicked at"));
    said.unwrap_or("without a word").trim().to_string()
}
/// Returns how many tests the programs in a log ran: the sum of `running 3 tests`.
fn tests_run(log: &str) -> usize {
    let numbers = log.lines().filter_map(|l| l.strip_prefix("running ")?.split_once(" test"));
    numbers.filter_map(|(number, _)| number.parse::<usize>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: i32, log: &str) -> TestResult {
        outcome(ExitStatus::from_raw(status), log)
    }

    #[test]
    fn a_failed_test_is_told_by_its_line() {
        assert_eq!(failed_test("test a::b ... FAILED\n"), Some("a::b"));
        let printed = "test a - should panic ... said FAILED\n";
        assert_eq!(failed_test(printed), Some("a - should panic"));
        assert_eq!(failed_test("FAILED\n"), Some(""));
        for other in ["test a ... ok\n", "test result: FAILED. 1 passed\n", "what FAILED\n"] {
            assert_eq!(failed_test(other), None, "{other}");
        }
    }

    #[test]
    fn no_test_is_no_verdict() {
        let none = "\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed\n";
        let TestResult::NoVerdict(said) = of(0, &none.repeat(2)) else { panic!("a verdict") };
        assert!(said.contains("no test"));
        assert_eq!(of(0, &format!("{none}\nrunning 1 test\n.\n")), TestResult::Passed);
        assert_eq!(tests_run("running 12 tests\nrunning 1 test\nrunning out of tests\n"), 13);
    }

    #[test]
    fn failures_say_what_the_first_panic_says() {
        let log = "running 2 tests\nthread 'a' panicked at src/a.rs:1:2:\nleft != right\nnote: x\n";
        assert_eq!(of(101 << 8, log), TestResult::Failed("left != right".into()));
        let TestResult::Failed(said) = of(124 << 8, log) else { panic!("no failure") };
        assert!(said.starts_with("did not end"));
    }

    #[test]
    fn signals_are_no_verdict() {
        for status in [11, (128 + 11) << 8] {
            let expected = TestResult::NoVerdict("ended by signal 11".into());
            assert_eq!(of(status, "running 1 test\n"), expected);
        }
        let of_cargo = "process didn't exit successfully: `x` (signal: 11, SIGSEGV)";
        assert_eq!(of(101 << 8, of_cargo), TestResult::NoVerdict(of_cargo.into()));
    }

    #[test]
    fn arguments_are_split() {
        assert_eq!(split(&["-p", "a", "--", "x"]), (&["-p", "a"][..], &["--", "x"][..]));
        assert_eq!(split(&["-p", "a", "x"]), (&["-p", "a", "x"][..], &[][..]));
    }
}
